/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the command `ouro`: finds the command that is asked for and runs it. */
#include "compiler/command/command.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static const command *const commands[] = {&command_compile, &command_run,    &command_test, &command_bench,
                                          &command_inspect, &command_verify, &command_ops,  &command_alloc};
enum { COMMAND_TABLE_COUNT = sizeof commands / sizeof *commands };

#if defined(__SANITIZE_ADDRESS__)
/* Graphviz keeps fonts and plugins until the process ends; what is ours must be given back. The sanitizer's library looks for
 * these functions in the program, so that they must be visible. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_options(void);

const char *__lsan_default_suppressions(void) {
    return "leak:libgvc\nleak:libgvplugin\nleak:libfontconfig\nleak:libpango\nleak:libglib\nleak:libcairo\n";
}
const char *__lsan_default_options(void) {
    return "print_suppressions=0";
}
#endif

static void print_help(FILE *file) {
    fprintf(file, "usage: ouro COMMAND ...\n\n"
                  "An ahead-of-time compiler for ONNX models, with static memory allocation.\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_TABLE_COUNT; i++) {
        fprintf(file, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    fprintf(file,
            "\n'ouro COMMAND --help' tells more; 'ouro --version' prints the version;\n"
            "'ouro --man [COMMAND]' prints a man page, 'ouro --completion bash|zsh|fish' a completion.\n"
            "Exit status: 0 done; 1 the model, plan, data or problem is invalid or not supported; 2 "
            "wrong usage;\n"
            "3 the machine failed (memory, disk).\n");
}

/* A file opened later must not become stdout because the caller closed it; writing to what stands in its
 * place fails, and is reported as any failed write. */
static void keep_standard_files(void) {
    for (int descriptor = 0; descriptor <= 2; descriptor++) {
        if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
            int opened = open("/dev/null", O_RDONLY);
            (void)opened;
        }
    }
}

/* `ouro --man [COMMAND]` and `ouro --completion SHELL`: what is installed beside the command. */
static int print_manual(int count, char **arguments) {
    const char *wanted = count > 2 ? arguments[2] : NULL;
    if (count > 3) return command_fail_usage(NULL, "unexpected argument '%s'", arguments[3]);
    if (strcmp(arguments[1], "--completion") == 0) {
        if (wanted && command_print_completion(commands, COMMAND_TABLE_COUNT, wanted, stdout)) return 0;
        return command_fail_usage(NULL, "--completion: expected bash, zsh or fish");
    }
    if (!wanted) {
        command_print_man_of_all(commands, COMMAND_TABLE_COUNT, stdout);
        return 0;
    }
    for (size_t i = 0; i < COMMAND_TABLE_COUNT; i++) {
        if (strcmp(commands[i]->name, wanted) != 0) continue;
        command_print_man(commands[i], stdout);
        return 0;
    }
    return command_fail_usage(NULL, "--man: there is no command '%s'", wanted);
}

static int run(int count, char **arguments) {
    if (count < 2) {
        print_help(stderr);
        return BASE_USAGE;
    }
    const char *name = arguments[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        if (count > 2) return command_fail_usage(NULL, "unexpected argument '%s'", arguments[2]);
        if (strcmp(name, "--version") == 0) {
            char machine[PLAN_MACHINE_TEXT];
            if (!rt_machine_describe(false, machine, sizeof machine)) return command_fail_memory();
            printf("ouro %s (%s)\n", OURO_VERSION, machine);
        } else {
            print_help(stdout);
        }
        return 0;
    }
    if (strcmp(name, "--man") == 0 || strcmp(name, "--completion") == 0)
        return print_manual(count, arguments);
    const char *names[COMMAND_TABLE_COUNT + 1] = {0};
    for (size_t i = 0; i < COMMAND_TABLE_COUNT; i++) {
        names[i] = commands[i]->name;
        if (strcmp(name, names[i]) != 0) continue;
        for (int k = 2; k < count && strcmp(arguments[k], "--") != 0; k++) {
            if (strcmp(arguments[k], "--help") == 0 || strcmp(arguments[k], "-h") == 0) {
                command_print_help(commands[i], stdout);
                return 0;
            }
        }
        return commands[i]->run(commands[i], count - 2, arguments + 2);
    }
    const char *nearest = command_nearest(name, names);
    const char *kind = name[0] == '-' ? "option" : "command";
    return nearest ? command_fail_usage(NULL, "unknown %s '%s', did you mean '%s'?", kind, name, nearest)
                   : command_fail_usage(NULL, "unknown %s '%s'", kind, name);
}

int main(int count, char **arguments) {
    command_waits_remember(arguments);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not be so large is an error as any other */
    keep_standard_files();
#ifdef __GLIBC__
    /* Weights that were packed go back to the system, whatever was given back before: glibc would keep blocks of the size of the
     * largest one that it had so far. */
    enum { LARGE_BLOCK = 1 << 20 };
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
#endif
    return command_finish(run(count, arguments));
}

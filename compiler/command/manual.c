/* SPDX-License-Identifier: Apache-2.0 */
/* manual.c: man pages, and completions of shells, made of the table of commands and their options. */
#include "compiler/command/command.h"
#include <ctype.h>
#include <string.h>

/* ---- man pages ----------------------------------------------------------------------------------------- */

/* Text for roff: a backslash and a hyphen mean something, and so do a point and a quote at the start of a line. */
static void print_roff(const char *text, FILE *file) {
    bool begins = true;
    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\'')) fputs("\\&", file);
        if (*text == '\\') fputs("\\e", file);
        else if (*text == '-') fputs("\\-", file);
        else fputc(*text, file);
        begins = *text == '\n';
    }
}

static void print_title(const char *name, const char *summary, FILE *file) {
    fputs(".TH ", file);
    for (const char *at = name; *at; at++) fputc(toupper((unsigned char)*at), file);
    fprintf(file, " 1 \"\" \"ouro %s\" \"ouro\"\n.SH NAME\n", OURO_VERSION);
    print_roff(name, file);
    fputs(" \\- ", file);
    print_roff(summary, file);
    fputs("\n.SH SYNOPSIS\n", file);
}

static void print_status(FILE *file) {
    fputs(".SH EXIT STATUS\n", file);
    static const char *const meanings[] = {
        "done", "the model, the plan, the data or the problem is invalid or not supported", "wrong usage",
        "the machine failed (memory, disk)"};
    for (int i = 0; i < 4; i++) fprintf(file, ".TP\n%d\n%s\n", i, meanings[i]);
}

static void print_paragraphs(const char *text, FILE *file) {
    for (const char *end; *text; text = *end ? end + 2 : end) {
        end = strstr(text, "\n\n");
        if (!end) end = text + strlen(text);
        char paragraph[4096];
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)(end - text), text);
        fputs(".PP\n", file);
        print_roff(paragraph, file);
        fputc('\n', file);
    }
}

void command_print_man(const command *self, FILE *file) {
    char name[64];
    snprintf(name, sizeof name, "ouro-%s", self->name);
    print_title(name, self->summary, file);
    fputs(".B ouro\n", file);
    print_roff(self->usage, file);
    fputc('\n', file);
    if (self->details) {
        fputs(".SH DESCRIPTION\n", file);
        print_paragraphs(self->details, file);
    }
    fputs(".SH OPTIONS\n", file);
    for (const command_option *option = self->options; option && option->name; option++) {
        fputs(".TP\n.B ", file);
        if (option->shorter) {
            print_roff(option->shorter, file);
            fputs(", ", file);
        }
        print_roff(option->name, file);
        if (option->argument) {
            fputc(' ', file);
            print_roff(option->argument, file);
        }
        fputc('\n', file);
        print_roff(option->help, file);
        fputc('\n', file);
    }
    print_status(file);
    fputs(".SH SEE ALSO\n.BR ouro (1)\n", file);
}

void command_print_man_of_all(const command *const *commands, size_t count, FILE *file) {
    print_title("ouro", "compiles ONNX models into plans with static memory, and runs them", file);
    fputs(".B ouro\nCOMMAND ...\n.SH COMMANDS\n", file);
    for (size_t i = 0; i < count; i++) {
        fprintf(file, ".TP\n.BR ouro\\-%s (1)\n", commands[i]->name);
        print_roff(commands[i]->summary, file);
        fputc('\n', file);
    }
    print_status(file);
}

/* ---- completions --------------------------------------------------------------------------------------- */

/* Text within single quotes of a shell, without those; a backslash stands before each of the characters `special`. */
static void print_quoted(const char *text, const char *special, FILE *file) {
    for (; *text; text++) {
        if (strchr(special, *text)) fputc('\\', file);
        if (*text == '\'') fputs("'\\''", file);
        else fputc(*text, file);
    }
}

static void print_bash(const command *const *commands, size_t count, FILE *file) {
    fputs("# bash completion of ouro\n_ouro() {\n    local word=${COMP_WORDS[COMP_CWORD]} options=\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n        options='",
          file);
    for (size_t i = 0; i < count; i++) fprintf(file, "%s ", commands[i]->name);
    fputs("--help --version'\n    else\n        case ${COMP_WORDS[1]} in\n", file);
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "        %s) options='", commands[i]->name);
        for (const command_option *option = commands[i]->options; option && option->name; option++)
            fprintf(file, "%s ", option->name);
        fputs("--help' ;;\n", file);
    }
    fputs("        esac\n        [ \"${word:0:1}\" = - ] || options=\n    fi\n"
          "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n}\n"
          "complete -o default -F _ouro ouro\n",
          file);
}

static void print_zsh(const command *const *commands, size_t count, FILE *file) {
    fputs("#compdef ouro\n_ouro() {\n    if (( CURRENT == 2 )); then\n        local -a commands=(", file);
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "\n            '%s:", commands[i]->name);
        print_quoted(commands[i]->summary, "", file);
        fputc('\'', file);
    }
    fputs(")\n        _describe command commands\n        return\n    fi\n    case ${words[2]} in\n", file);
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "    %s) _arguments", commands[i]->name);
        for (const command_option *option = commands[i]->options; option && option->name; option++) {
            fprintf(file, " \\\n        '%s%s[", option->kind == COMMAND_LIST ? "*" : "", option->name);
            print_quoted(option->help, "[]", file);
            fprintf(file, "]%s'", option->argument ? ": :_files" : "");
        }
        fputs(" \\\n        '*: :_files' ;;\n", file);
    }
    fputs("    esac\n}\n_ouro \"$@\"\n", file);
}

static void print_fish(const command *const *commands, size_t count, FILE *file) {
    fputs("# fish completion of ouro\n", file);
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "complete -c ouro -n __fish_use_subcommand -f -a %s -d '", commands[i]->name);
        print_quoted(commands[i]->summary, "", file);
        fputs("'\n", file);
        for (const command_option *option = commands[i]->options; option && option->name; option++) {
            fprintf(file, "complete -c ouro -n '__fish_seen_subcommand_from %s' -l %s%s -d '",
                    commands[i]->name, option->name + 2, option->argument ? " -r" : "");
            print_quoted(option->help, "", file);
            fputs("'\n", file);
        }
    }
}

bool command_print_completion(const command *const *commands, size_t count, const char *shell, FILE *file) {
    if (strcmp(shell, "bash") == 0) print_bash(commands, count, file);
    else if (strcmp(shell, "zsh") == 0) print_zsh(commands, count, file);
    else if (strcmp(shell, "fish") == 0) print_fish(commands, count, file);
    else return false;
    return true;
}

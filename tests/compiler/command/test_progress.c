/* SPDX-License-Identifier: Apache-2.0 */
/* test_progress.c: what takes more than a second says so on a terminal, and nowhere else. The command's stderr is a pseudo terminal; so
 * that everything takes long on any machine, the process is stopped for most of the time. */
#include "models/builder.h"
#include "tests/support/command.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define FOLDER TEST_BINARY_DIR "/test_progress.folder"
#define ERASE "\r\033[K"
enum { MOST = 1 << 16, GO_MS = 4, STOP_MS = 250 };

typedef struct watched {
    int status;
    double seconds;
    char text[MOST]; /* what the terminal, or the pipe, was sent */
} watched;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void child(const char *const *arguments, int error) {
    const char *vector[32] = {TEST_COMMAND};
    for (size_t i = 0; i < 30 && arguments[i]; i++) vector[i + 1] = arguments[i];
    const int out = open("stdout.txt", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (out < 0 || dup2(out, 1) < 0 || dup2(error, 2) < 0) _exit(98);
    execv(TEST_COMMAND, (char *const *)vector);
    _exit(97);
}

/* Two ends: of a pseudo terminal with so many columns, or with none of a pipe. */
static void open_ends(int columns, int *ours, int *its) {
    int ends[2];
    if (columns) {
        *ours = posix_openpt(O_RDWR | O_NOCTTY);
        assert_true(*ours >= 0 && grantpt(*ours) == 0 && unlockpt(*ours) == 0);
        *its = open(ptsname(*ours), O_RDWR | O_NOCTTY);
        assert_true(*its >= 0);
        struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
        assert_int_equal(ioctl(*its, TIOCSWINSZ, &size), 0);
    } else {
        assert_int_equal(pipe(ends), 0);
        *ours = ends[0];
        *its = ends[1];
    }
}

/* Reads what comes within `milliseconds`; false at the end. */
static bool read_some(int from, watched *seen, size_t *length, int milliseconds) {
    const double until = now() + milliseconds * 1e-3;
    for (double left; (left = until - now()) > 0;) {
        struct pollfd one = {.fd = from, .events = POLLIN};
        if (poll(&one, 1, (int)(left * 1e3) + 1) <= 0) continue;
        const ssize_t got = read(from, seen->text + *length, MOST - 1 - *length);
        if (got <= 0) return false; /* a terminal that nobody holds any more is an error */
        *length += (size_t)got;
        seen->text[*length] = 0;
    }
    return true;
}

/* Runs the command slowly until it has said `wanted` (NULL: for two seconds at most), and then as fast as it can. */
static watched *watch(int columns, const char *wanted, const char *const *arguments) {
    watched *seen = calloc(1, sizeof *seen);
    assert_non_null(seen);
    int ours, its;
    open_ends(columns, &ours, &its);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        if (chdir(FOLDER) != 0) _exit(96);
        close(ours);
        child(arguments, its);
    }
    close(its);
    const double start = now();
    size_t length = 0;
    for (bool open = true; open;) {
        open = read_some(ours, seen, &length, GO_MS);
        const bool slow = wanted ? !strstr(seen->text, wanted) : now() - start < 2;
        if (!open || !slow) continue;
        kill(process, SIGSTOP);
        open = read_some(ours, seen, &length, STOP_MS);
        kill(process, SIGCONT);
    }
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    close(ours);
    seen->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    seen->seconds = now() - start;
    return seen;
}
#define WATCH(columns, wanted, ...) watch(columns, wanted, (const char *const[]){__VA_ARGS__, NULL})

/* It said `wanted`, and at the end the line is empty. */
static void expect_said(watched *seen, int status, const char *wanted) {
    if (seen->status != status || !strstr(seen->text, wanted))
        fail_msg("status %d, \"%s\" expected, the terminal got: %s", seen->status, wanted, seen->text);
    const char *last = NULL;
    for (const char *at = seen->text; (at = strstr(at, ERASE)); at++) last = at;
    assert_non_null(last);
    assert_string_equal(last, ERASE);
    free(seen);
}

static void expect_silent(watched *seen) {
    if (seen->status || seen->text[0]) fail_msg("status %d, it got: %s", seen->status, seen->text);
    free(seen);
}

/* Some hundred nodes, with many tensors live beside each other. */
static int write_long(void) {
    model *m = model_new("long", 17);
    const int64_t dims[] = {16, 64};
    const char *x = graph_input(m->graph, "x", MODEL_FLOAT, 2, dims);
    const char *kept[8] = {x, x, x, x, x, x, x, x};
    for (size_t i = 0; i < 800; i++) {
        const char *next = unary(m->graph, i % 3 ? "Softmax" : "LogSoftmax", kept[(i * 5 + 3) % 8]);
        kept[i % 8] = binary(m->graph, "Add", next, kept[(i + 1) % 8]);
    }
    const char *sum = kept[0];
    for (size_t i = 1; i < 7; i++) sum = binary(m->graph, "Mul", sum, kept[i]);
    node_outputs(m->graph, "Mul", "last", 2, (const char *[]){sum, kept[7]}, 1, (const char *[]){"y"});
    graph_output(m->graph, "y", MODEL_FLOAT, 2, dims);
    const int written = model_write(m, FOLDER "/long.onnx");
    model_free(m);
    return written;
}

/* Convolutions that several kernels can do: --tune measures them. */
static int write_convolutions(void) {
    model *m = model_new("convolutions", 17);
    const int64_t dims[] = {1, 32, 112, 112}, weights[] = {32, 32, 3, 3}, pads[] = {1, 1, 1, 1};
    const char *x = graph_input(m->graph, "x", MODEL_FLOAT, 4, dims);
    for (size_t i = 0; i < 3; i++) {
        const char *w = weight(m->graph, (const char *[]){"a", "b", "c"}[i], 4, weights, 288);
        x = node(m->graph, "Conv", "conv", 2, (const char *[]){x, w});
        attribute_integers(m->graph, "pads", 4, pads);
    }
    graph_output(m->graph, x, MODEL_FLOAT, 4, dims);
    const int written = model_write(m, FOLDER "/convolutions.onnx");
    model_free(m);
    return written;
}

static int set_up(void **state) {
    (void)state;
    if (mkdir(FOLDER, 0777) != 0 && errno != EEXIST) return -1;
    if (write_long() || write_convolutions()) return -1;
    FILE *file = fopen(FOLDER "/many.csv", "w");
    if (!file) return -1;
    fprintf(file, "id,lower,upper,size\n");
    for (unsigned i = 0; i < 3000; i++)
        fprintf(file, "b%u,%u,%u,%u\n", i, i * 7919 % 3000, i * 7919 % 3000 + 1 + i % 61, 64 * (1 + i % 37));
    if (fclose(file)) return -1;
    command_outcome outcome =
        command_execute(FOLDER, (const char *const[]){"compile", "-q", "long.onnx", "-o", "long.plan", NULL});
    const int status = outcome.status;
    command_outcome_free(&outcome);
    return status;
}

/* ---- tests --------------------------------------------------------------------------------------------- */

static void test_compile(void **state) {
    (void)state;
    expect_said(WATCH(80, "compiling long.onnx: ", "compile", "long.onnx", "-o", "a.plan"), 0,
                "compiling long.onnx: ");
    /* What is printed stands whole in stdout. */
    char *out = command_file(FOLDER, "stdout.txt", NULL);
    assert_non_null(strstr(out, "arena"));
    assert_null(strstr(out, "\033"));
    free(out);
}

static void test_tune(void **state) {
    (void)state;
    expect_said(WATCH(80, "choose-kernels", "compile", "convolutions.onnx", "--tune", "-o", "b.plan"), 0,
                "compiling convolutions.onnx: choose-kernels (");
}

static void test_alloc(void **state) {
    (void)state;
    expect_said(WATCH(80, "many.csv: auto", "alloc", "many.csv"), 0, "many.csv: auto (");
}

/* float32[16,64] of zeros, as ONNX's test folders have it. */
static void put_zeros(const char *path) {
    static const unsigned char head[] = {8, 16, 8, 64, 16, 1, 9 << 3 | 2, 0x80, 0x20};
    static unsigned char bytes[sizeof head + 16 * 64 * sizeof(float)];
    memcpy(bytes, head, sizeof head);
    command_file_put(FOLDER, path, bytes, sizeof bytes);
}

static void test_test(void **state) {
    (void)state;
    mkdir(FOLDER "/case", 0777);
    mkdir(FOLDER "/case/test_data_set_0", 0777);
    (void)unlink(FOLDER "/case/model.onnx");
    assert_int_equal(link(FOLDER "/long.onnx", FOLDER "/case/model.onnx"), 0);
    put_zeros("case/test_data_set_0/input_0.pb");
    put_zeros("case/test_data_set_0/output_0.pb");
    /* The model gives something else, which is not what is asked here. */
    expect_said(WATCH(80, "case", "test", "case"), 1, "case (");
}

static void test_run(void **state) {
    (void)state;
    expect_said(
        WATCH(80, "long.plan", "run", "long.plan", "--random", "1", "--steps", "130", "--output-dir", "o"), 0,
        " of long.plan (");
    /* As many runs as fit in a second would be few: it passes while the process is stopped. */
    expect_said(WATCH(80, "running long.plan", "bench", "long.plan", "--runs", "400"), 0, "running long.plan (");
}

/* A line longer than the terminal would go over two, of which only one is erased. */
static void test_narrow(void **state) {
    (void)state;
    enum { COLUMNS = 24 };
    watched *seen = WATCH(COLUMNS, "...", "compile", "../test_progress.folder/long.onnx", "-o", "c.plan");
    size_t cut = 0;
    for (const char *at = seen->text; (at = strstr(at, ERASE));) {
        at += strlen(ERASE);
        const char *end = strstr(at, ERASE);
        const size_t length = end ? (size_t)(end - at) : strlen(at);
        if (length >= COLUMNS) fail_msg("%zu columns of %d: %.*s", length, COLUMNS, (int)length, at);
        cut += length > 3 && memcmp(at, "...", 3) == 0 && at[length - 1] == ')';
    }
    assert_true(cut > 0);
    expect_said(seen, 0, " s)");
}

static void test_silent(void **state) {
    (void)state;
    watched *seen = WATCH(0, NULL, "compile", "long.onnx", "-o", "d.plan");
    assert_true(seen->seconds > 1); /* it was slow, and said nothing into a pipe */
    expect_silent(seen);
    seen = WATCH(80, NULL, "compile", "-q", "long.onnx", "-o", "d.plan");
    assert_true(seen->seconds > 1);
    expect_silent(seen);
    /* What is quick says nothing. */
    seen = WATCH(80, "", "ops");
    if (seen->seconds < 0.9) expect_silent(seen);
    else free(seen);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compile), cmocka_unit_test(test_tune), cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_test),    cmocka_unit_test(test_run),  cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_silent),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}

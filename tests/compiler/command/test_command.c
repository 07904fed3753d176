/* SPDX-License-Identifier: Apache-2.0 */
/* test_command.c: the built command as users and scripts see it: exit statuses, messages, files, determinism.
 */
#include "compiler/onnx/import.h"
#include "compiler/ouro_compiler.h"
#include "compiler/files/npy.h"
#include "models/models.h"
#include "tests/support/command.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define FOLDER TEST_BINARY_DIR "/test_command.folder"
#define RUN(...) command_execute(FOLDER, (const char *const[]){__VA_ARGS__, NULL})

/* ---- models and data ----------------------------------------------------------------------------------- */

/* z = Relu(x + y) * x on float[2,3]; names hold everything that a format could trip over. */
static void write_small(const char *path) {
    model *m = model_new("small", 17);
    const int64_t dims[] = {2, 3};
    const char *x = graph_input(m->graph, "x", MODEL_FLOAT, 2, dims);
    const char *y = graph_input(m->graph, "y/\"q\" <&>\\\xC3\xA9", MODEL_FLOAT, 2, dims);
    const char *sum = node(m->graph, "Add", "add \"1\" <b>&\\N", 2, (const char *[]){x, y});
    const char *relu = node(m->graph, "Relu", "relu", 1, (const char *[]){sum});
    node_outputs(m->graph, "Mul", "mul", 2, (const char *[]){relu, x}, 1, (const char *[]){"z:0"});
    graph_output(m->graph, "z:0", MODEL_FLOAT, 2, dims);
    assert_int_equal(model_write(m, path), 0);
    model_free(m);
}

/* y = (Softmax(x) + LogSoftmax(x)) * Hardmax(x) on float[64]: more is live than fits into the output. */
static void write_wide(const char *path) {
    model *m = model_new("wide", 17);
    const int64_t dims[] = {64};
    const char *x = graph_input(m->graph, "x", MODEL_FLOAT, 1, dims);
    const char *sum =
        binary(m->graph, "Add", unary(m->graph, "Softmax", x), unary(m->graph, "LogSoftmax", x));
    const char *factors[] = {sum, unary(m->graph, "Hardmax", x)};
    node_outputs(m->graph, "Mul", "mul", 2, factors, 1, (const char *[]){"y"});
    graph_output(m->graph, "y", MODEL_FLOAT, 1, dims);
    assert_int_equal(model_write(m, path), 0);
    model_free(m);
}

/* y = Softmax(Softmax(x) + LogSoftmax(x)) on an image of 32 rows. */
static void write_image(const char *path) {
    model *m = model_new("image", 17);
    const int64_t dims[] = {1, 2, 32, 8};
    const char *x = graph_input(m->graph, "x", MODEL_FLOAT, 4, dims);
    const char *sum =
        binary(m->graph, "Add", unary(m->graph, "Softmax", x), unary(m->graph, "LogSoftmax", x));
    node_outputs(m->graph, "Softmax", "last", 1, (const char *[]){sum}, 1, (const char *[]){"y"});
    graph_output(m->graph, "y", MODEL_FLOAT, 4, dims);
    assert_int_equal(model_write(m, path), 0);
    model_free(m);
}

/* y = Relu(x) on float[N]. */
static void write_open(const char *path) {
    model *m = model_new("open", 17);
    const int64_t dims[] = {-1};
    const char *x = graph_input(m->graph, "x", MODEL_FLOAT, 1, dims);
    node_outputs(m->graph, "Relu", "relu", 1, (const char *[]){x}, 1, (const char *[]){"y"});
    graph_output(m->graph, "y", MODEL_FLOAT, 1, dims);
    assert_int_equal(model_write(m, path), 0);
    model_free(m);
}

static void write_unknown(const char *path) {
    model *m = model_new("unknown", 17);
    const int64_t dims[] = {2};
    const char *x = graph_input(m->graph, "x", MODEL_FLOAT, 1, dims);
    node_outputs(m->graph, "NoSuchOperator", "strange", 1, (const char *[]){x}, 1, (const char *[]){"y"});
    graph_output(m->graph, "y", MODEL_FLOAT, 1, dims);
    assert_int_equal(model_write(m, path), 0);
    model_free(m);
}

static void write_npy(const char *name, op_dtype dtype, int rank, const int64_t *dims, void *data) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    op_tensor tensor = {.type = {.dtype = dtype, .shape = {.rank = rank}}, .data = data};
    for (int d = 0; d < rank; d++) tensor.type.shape.dims[d] = dims[d];
    unsigned char *bytes;
    size_t size;
    assert_int_equal(file_npy_encode(&tensor, &arena, &bytes, &size, NULL), BASE_OK);
    command_file_put(FOLDER, name, bytes, size);
    base_arena_free(&arena);
}

/* A TensorProto of floats. */
static void write_pb(const char *path, size_t count, const float *values) {
    Onnx__TensorProto tensor = ONNX__TENSOR_PROTO__INIT;
    int64_t dims[] = {(int64_t)count};
    tensor.n_dims = 1;
    tensor.dims = dims;
    tensor.has_data_type = 1;
    tensor.data_type = MODEL_FLOAT;
    tensor.has_raw_data = 1;
    tensor.raw_data.len = count * sizeof *values;
    tensor.raw_data.data = (uint8_t *)(uintptr_t)values;
    unsigned char bytes[1024];
    assert_true(onnx__tensor_proto__get_packed_size(&tensor) <= sizeof bytes);
    command_file_put(FOLDER, path, bytes, onnx__tensor_proto__pack(&tensor, bytes));
}

static int setup_folder(void **state) {
    (void)state;
    if (system("rm -rf '" FOLDER "' && mkdir -p '" FOLDER "'") != 0) return -1;
    write_small(FOLDER "/small.onnx");
    write_open(FOLDER "/open.onnx");
    write_wide(FOLDER "/wide.onnx");
    write_image(FOLDER "/image.onnx");
    model *back = model_way_back();
    assert_int_equal(model_write(back, FOLDER "/back.onnx"), 0);
    model_free(back);
    write_unknown(FOLDER "/unknown.onnx");
    command_file_put(FOLDER, "garbage.onnx", "\xFF\xFF\xFFgarbage", 10);
    static float data[6] = {1, -2, 3, -4, 5, -6}, half[3] = {0.5f, -0.5f, 2};
    write_npy("six.npy", OP_FLOAT, 2, (const int64_t[]){2, 3}, data);
    write_npy("three.npy", OP_FLOAT, 1, (const int64_t[]){3}, half);
    return 0;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

/* Exit status, the whole of stderr, and nothing on stdout. */
static void expect_failure(command_outcome outcome, int status, const char *message) {
    assert_string_equal(outcome.err, message);
    assert_int_equal(outcome.status, status);
    assert_string_equal(outcome.out, "");
    command_outcome_free(&outcome);
}

/* The status, and one line on stderr that begins with "error: " and holds `part`. */
static void expect_line(command_outcome outcome, int status, const char *part) {
    if (!strstr(outcome.err, part)) fail_msg("expected '%s' in: %s", part, outcome.err);
    assert_int_equal(outcome.status, status);
    assert_memory_equal(outcome.err, "error: ", 7);
    const char *end = strchr(outcome.err, '\n');
    assert_non_null(end);
    assert_string_equal(end, "\n");
    command_outcome_free(&outcome);
}

static char *expect_success(command_outcome outcome) {
    if (outcome.status != 0) fail_msg("status %d: %s", outcome.status, outcome.err);
    assert_string_equal(outcome.err, "");
    free(outcome.err);
    return outcome.out;
}

static size_t count_files(void) {
    DIR *directory = opendir(FOLDER);
    size_t count = 0;
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

/* ---- usage --------------------------------------------------------------------------------------------- */

static void test_usage_errors(void **state) {
    (void)state;
    expect_failure(RUN("aloc"), 2,
                   "error: unknown command 'aloc', did you mean 'alloc'? (see 'ouro --help')\n");
    expect_failure(RUN("--helpp"), 2, "error: unknown option '--helpp' (see 'ouro --help')\n");
    expect_failure(RUN("compile"), 2,
                   "error: missing argument: a model (.onnx) (see 'ouro compile --help')\n");
    expect_failure(RUN("compile", "a", "b"), 2,
                   "error: unexpected argument 'b' (see 'ouro compile --help')\n");
    expect_failure(
        RUN("compile", "--alocator", "nnc", "a"), 2,
        "error: unknown option '--alocator', did you mean '--allocator'? (see 'ouro compile --help')\n");
    expect_failure(RUN("compile", "a", "-o"), 2,
                   "error: option '--output' needs a value: MODEL.plan (see 'ouro compile --help')\n");
    expect_failure(RUN("compile", "a", "--quiet=1"), 2,
                   "error: option '--quiet' takes no value (see 'ouro compile --help')\n");
    expect_failure(RUN("compile", "a", "--threads", "0"), 2,
                   "error: --threads '0': expected a whole number of at least 1 and at most 1024 (see 'ouro "
                   "compile --help')\n");
    expect_failure(RUN("compile", "a", "--dim", "N"), 2,
                   "error: --dim 'N': expected NAME=VALUE (see 'ouro compile --help')\n");
    expect_failure(
        RUN("compile", "a", "--dim", "N=-1"), 2,
        "error: --dim 'N=-1': expected NAME=N, N a whole number of at least 0 (see 'ouro compile --help')\n");
    expect_failure(RUN("compile", "a", "--dot", "x.gif"), 2,
                   "error: --dot 'x.gif': expected a name that ends in .dot, .svg or .png (see 'ouro compile "
                   "--help')\n");
    expect_failure(RUN("alloc", "p.csv", "--seconds", "-1"), 2,
                   "error: --seconds '-1': expected a number of at least 0 (see 'ouro alloc --help')\n");
    expect_line(RUN("compile", "small.onnx", "--allocator", "best"), 2,
                "unknown allocator 'best', expected one of: ");
    expect_line(RUN("compile", "small.onnx", "--dump-after", "nothing"), 2,
                "unknown pass 'nothing', expected 'all' or one of: ");
}

static void test_help_and_version(void **state) {
    (void)state;
    char *out = expect_success(RUN("--version"));
    assert_memory_equal(out, "ouro " OURO_VERSION, 5 + strlen(OURO_VERSION));
    free(out);
    static const char *const names[] = {"compile", "run",    "test", "bench",
                                        "inspect", "verify", "ops",  "alloc"};
    out = expect_success(RUN("--help"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_non_null(strstr(out, names[i]));
        char *help = expect_success(RUN(names[i], "--help"));
        assert_memory_equal(help, "usage: ouro ", 12);
        for (const char *line = strstr(help, "\noptions:"); line && *line; line = strchr(line + 1, '\n'))
            if (strcspn(line + 1, "\n") > 100) fail_msg("too wide: %s", line + 1);
        free(help);
    }
    free(out);
    command_outcome outcome = RUN("", NULL);
    assert_int_equal(outcome.status, 2);
    command_outcome_free(&outcome);
}

static void test_output_that_cannot_be_written(void **state) {
    (void)state;
    assert_int_equal(WEXITSTATUS(system("'" TEST_COMMAND "' --help > /dev/full 2> /dev/null")), 3);
    assert_int_equal(WEXITSTATUS(system("'" TEST_COMMAND "' --help >&- 2> /dev/null")), 3);
    /* A pipe that nobody reads any more. */
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
        execl(TEST_COMMAND, TEST_COMMAND, "--help", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
}

/* ---- compile ------------------------------------------------------------------------------------------- */

static void test_bad_models_leave_no_files(void **state) {
    (void)state;
    size_t before = count_files();
    expect_line(RUN("compile", "none.onnx", "-o", "a.plan"), 1, "none.onnx");
    expect_line(RUN("compile", "garbage.onnx", "-o", "a.plan", "--dot", "a.dot", "--report", "a.json"), 1,
                "garbage.onnx");
    expect_line(RUN("compile", "unknown.onnx", "-o", "a.plan", "--memory-map", "a.svg"), 1, "NoSuchOperator");
    expect_line(RUN("compile", "small.onnx", "-o", "no/such/folder/a.plan"), 3,
                "no/such/folder/a.plan: cannot write");
    expect_line(RUN("compile", "small.onnx", "-o", "/dev/full"), 3, "/dev/full: cannot write");
    expect_line(RUN("compile", "."), 1, ".");
    expect_line(RUN("compile", "small.onnx", "--dim", "nothing=3", "-o", "a.plan"), 1, "nothing");
    assert_int_equal(count_files(), before);
}

/* Takes the numbers of seconds out, which differ from run to run. */
static void drop_seconds(char *text) {
    for (char *at = text; (at = strstr(at, "_seconds\": "));) {
        at += strlen("_seconds\": ");
        size_t length = strcspn(at, ",\n");
        memmove(at, at + length, strlen(at + length) + 1);
    }
}

static void test_two_compiles_are_the_same(void **state) {
    (void)state;
    static const char *const suffixes[] = {"plan", "dot", "svg", "map.svg", "html", "json", "csv"};
    for (int turn = 0; turn < 2; turn++) {
        char names[7][32];
        for (int i = 0; i < 7; i++) snprintf(names[i], sizeof names[i], "same%d.%s", turn, suffixes[i]);
        free(expect_success(RUN("compile", "small.onnx", "-o", names[0], "--dot", names[1], "--memory-map",
                                names[3], "--report", names[5], "--problem", names[6])));
        char *out = expect_success(
            RUN("compile", "small.onnx", "-q", "-o", names[0], "--dot", names[2], "--memory-map", names[4]));
        assert_string_equal(out, "");
        free(out);
    }
    for (int i = 0; i < 7; i++) {
        char first[32], second[32];
        size_t sizes[2];
        snprintf(first, sizeof first, "same0.%s", suffixes[i]);
        snprintf(second, sizeof second, "same1.%s", suffixes[i]);
        char *a = command_file(FOLDER, first, &sizes[0]), *b = command_file(FOLDER, second, &sizes[1]);
        assert_true(a && b);
        if (strcmp(suffixes[i], "json") == 0) {
            assert_true(command_json_check(a));
            drop_seconds(a);
            drop_seconds(b);
            sizes[0] = strlen(a);
            sizes[1] = strlen(b);
        }
        const char *reason;
        bool xml = strstr(suffixes[i], "svg") != NULL;
        if (xml && !command_xml_check(a, &reason)) fail_msg("%s: not well-formed: %.80s", first, reason);
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(a, b, sizes[0]);
        free(a);
        free(b);
    }
}

/* The problem is the one that was solved: parts of other storages and what is never live are not in it. */
static void test_problem(void **state) {
    (void)state;
    char *out = expect_success(RUN("compile", "wide.onnx", "--problem", "q.csv", "-o", "q.plan"));
    const char *arena = strstr(out, "arena ");
    assert_non_null(arena);
    long bytes = strtol(strchr(arena, '(') + 1, NULL, 10);
    free(out);
    assert_true(bytes > 0);
    char *csv = command_file(FOLDER, "q.csv", NULL);
    assert_memory_equal(csv, "id,lower,upper,size\n", 20);
    free(csv);
    char line[64];
    snprintf(line, sizeof line, "%ld", bytes);
    out = expect_success(RUN("alloc", "q.csv", "--capacity", line));
    assert_non_null(strstr(out, line));
    free(out);
}

static void test_report_and_dot(void **state) {
    (void)state;
    free(
        expect_success(RUN("compile", "small.onnx", "-o", "r.plan", "--report", "r.json", "--dot", "r.dot")));
    char *report = command_file(FOLDER, "r.json", NULL), *dot = command_file(FOLDER, "r.dot", NULL);
    static const char *const keys[] = {
        "model",           "allocator", "arena_bytes",     "lower_bound_bytes",
        "optimal",         "sum_bytes", "constant_bytes",  "plan_seconds",
        "dynamic_tensors", "loops",     "compile_seconds", "file_order_peak_bytes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[64];
        snprintf(key, sizeof key, "\n  \"%s\": ", keys[i]);
        if (!strstr(report, key)) fail_msg("the report has no %s", keys[i]);
    }
    /* The node's name, escaped for HTML-like labels; nothing of it may end the label or be read as an escape.
     */
    assert_non_null(strstr(dot, "add &quot;1&quot; &lt;b&gt;&amp;\\N"));
    assert_non_null(strstr(dot, "tooltip=\"Add add \\\"1\\\" <b>&amp;\\\\N\""));
    assert_non_null(strstr(dot, "2\xC3\x97"
                                "3"));
    free(report);
    free(dot);
}

/* An image is computed in bands where the arena may take less than one of its tensors. */
static void test_tradeoff(void **state) {
    (void)state;
    const char *reason;
    char *out =
        expect_success(RUN("compile", "image.onnx", "-o", "t.plan", "--tradeoff", "--tradeoff-picture",
                           "t.svg", "--arena-limit", "min", "--report", "t.json"));
    assert_non_null(strstr(out, "the graph as it is written"));
    assert_non_null(strstr(out, " over bands of rows"));
    char *picture = command_file(FOLDER, "t.svg", NULL), *report = command_file(FOLDER, "t.json", NULL);
    if (!command_xml_check(picture, &reason)) fail_msg("%s", reason);
    assert_true(command_json_check(report));
    assert_non_null(strstr(report, "\"lower_bound_bytes_without\": "));
    free(expect_success(RUN("run", "t.plan", "--random", "1", "--check")));
    free(expect_success(RUN("compile", "image.onnx", "-o", "t.plan", "--arena-limit", "12.5%")));
    free(expect_success(RUN("run", "t.plan", "--random", "1", "--check")));
    free(picture);
    free(report);
    free(out);
}

/* Products that are kept for the way back go into a file. */
static void test_spill(void **state) {
    (void)state;
    char *out = expect_success(RUN("compile", "back.onnx", "--portable", "-o", "whole.plan"));
    free(out);
    out = expect_success(RUN("compile", "back.onnx", "--portable", "-o", "spill.plan", "--arena-limit", "min",
                             "--spill", "s.file", "--report", "s.json", "--dot", "s.dot", "--memory-map",
                             "s.svg"));
    assert_non_null(strstr(out, " spilled to a file of "));
    free(out);
    char *report = command_file(FOLDER, "s.json", NULL), *dot = command_file(FOLDER, "s.dot", NULL);
    assert_true(command_json_check(report));
    static const char *const keys[] = {"spill_file",         "spill_file_bytes", "spilled_bytes_written",
                                       "spilled_bytes_read", "spilled",          "predicted_spill_seconds"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[64];
        snprintf(key, sizeof key, "\n  \"%s\": ", keys[i]);
        if (!strstr(report, key)) fail_msg("the report has no %s", keys[i]);
    }
    assert_non_null(strstr(report, "\"read_in_steps\": ["));
    assert_non_null(strstr(dot, "spill file @"));
    free(report);
    free(dot);
    /* The same numbers; the file is gone while it is there. */
    free(expect_success(RUN("run", "whole.plan", "--random", "1", "--output-dir", "whole")));
    free(expect_success(RUN("run", "spill.plan", "--random", "1", "--output-dir", "spilled")));
    size_t size;
    char *whole = command_file(FOLDER, "whole/y.npy", &size),
         *spilled = command_file(FOLDER, "spilled/y.npy", NULL);
    assert_memory_equal(whole, spilled, size);
    free(whole);
    free(spilled);
    assert_false(command_file_exists(FOLDER, "s.file"));
    free(expect_success(RUN("run", "spill.plan", "--random", "1", "--check", "--spill", "other.file")));
    free(expect_success(RUN("bench", "spill.plan", "--runs", "2", "--spill", "other.file")));
    out = expect_success(RUN("inspect", "spill.plan"));
    assert_non_null(strstr(out, "spilled: "));
    assert_non_null(strstr(out, " to s.file ("));
    free(out);
    out = expect_success(RUN("inspect", "--json", "spill.plan"));
    assert_true(command_json_check(out));
    free(out);
    out = expect_success(
        RUN("compile", "back.onnx", "--portable", "-q", "-o", "t.plan", "--tradeoff", "--spill", "s.file"));
    assert_non_null(strstr(out, "the graph as it is written"));
    free(out);
    /* What is wrong with files and limits. */
    expect_line(RUN("run", "spill.plan", "--random", "1", "--spill", "no/such/folder"), 1,
                "cannot be made: No such file");
    expect_line(RUN("run", "spill.plan", "--random", "1", "--spill", "back.onnx"), 1, "File exists");
    expect_line(RUN("compile", "back.onnx", "-o", "t.plan", "--spill", "s.file"), 2,
                "expected with --arena-limit");
    expect_line(RUN("compile", "back.onnx", "-o", "t.plan", "--arena-limit", "5%", "--spill", "s.file"), 2,
                "not with one in percent");
    expect_line(RUN("compile", "back.onnx", "-o", "t.plan", "--arena-limit", "9999", "--spill", "s.file"), 1,
                "the least is ");
}

static void test_no_plan_where_the_folder_cannot_be_written(void **state) {
    (void)state;
    free(expect_success(RUN("compile", "small.onnx")));
    assert_true(command_file_exists(FOLDER, "small.plan"));
    unlink(FOLDER "/small.plan");
    expect_line(RUN("compile", "small.onnx", "-o", "small.onnx"), 2, "both the model and the plan");
}

/* ---- run, inspect, verify, bench ----------------------------------------------------------------------- */

static void test_run(void **state) {
    (void)state;
    free(expect_success(RUN("compile", "small.onnx", "-q", "-o", "run.plan")));
    static const char *const y = "y/\"q\" <&>\\\xC3\xA9=six.npy";
    char *from_plan = expect_success(RUN("run", "run.plan", "--input", "x=six.npy", "--input", y, "--check"));
    char *from_model =
        expect_success(RUN("run", "small.onnx", "--input", "x=six.npy", "--input", y, "--check"));
    assert_string_equal(from_plan, from_model);
    /* Relu(2x) * x of 1, -2, 3, -4, 5, -6. */
    const char *expected = "z:0: float32[2,3]: 2 0 18 0 50 ...; min 0, max 50, mean 11.6667\n";
    if (strlen(from_plan) < strlen(expected)) fail_msg("%s", from_plan);
    assert_memory_equal(from_plan + strspn(from_plan, "-"), expected, 20);
    assert_non_null(strstr(from_plan, "max 50, mean 11.6667\n"));
    assert_non_null(strstr(from_plan, "check: every step gives the same bytes"));
    free(from_plan);
    free(from_model);
    char *files = expect_success(RUN("run", "run.plan", "--random", "7", "--output-dir", "outputs/deep"));
    assert_string_equal(files, "outputs/deep/z_0.npy\n");
    size_t size;
    char *first = command_file(FOLDER, "outputs/deep/z_0.npy", &size);
    free(files);
    free(expect_success(RUN("run", "small.onnx", "--random", "7", "--output-dir", "outputs")));
    char *second = command_file(FOLDER, "outputs/z_0.npy", NULL);
    assert_memory_equal(first, second, size);
    free(first);
    free(second);
    free(expect_success(RUN("run", "run.plan", "--random", "1", "--profile", "profile.json")));
    char *profile = command_file(FOLDER, "profile.json", NULL);
    assert_true(command_json_check(profile));
    assert_non_null(strstr(profile, "\"cat\": \"Mul\""));
    assert_non_null(strstr(profile, "\"shapes\": \"float32[2,3], "));
    free(profile);
}

static void test_run_errors(void **state) {
    (void)state;
    free(expect_success(RUN("compile", "small.onnx", "-q", "-o", "run.plan")));
    expect_line(RUN("run", "run.plan"), 2, "run.plan: no data for inputs 'x', 'y/\"q\" <&>\\\xC3\xA9'");
    expect_line(RUN("run", "run.plan", "--input", "w=six.npy"), 2,
                "there is no input 'w', expected one of: 'x'");
    expect_line(RUN("run", "run.plan", "--input", "x=six.npy", "--input", "x=six.npy"), 2, "given already");
    expect_line(RUN("run", "run.plan", "--input", "x=three.npy"), 1,
                "three.npy: input 'x' is float32[3], expected float32[2,3]");
    expect_line(RUN("run", "run.plan", "--input", "x=none.npy"), 1, "none.npy: cannot open");
    expect_line(RUN("run", "run.plan", "--random", "x"), 2, "--random 'x'");
    expect_line(RUN("run", "run.plan", "--dim", "N=3", "--random", "1"), 2, "is a plan");
    expect_line(RUN("run", "none.plan"), 1, "none.plan");
    size_t size;
    char *plan_bytes = command_file(FOLDER, "run.plan", &size);
    plan_bytes[size / 2] = (char)(plan_bytes[size / 2] ^ 1);
    command_file_put(FOLDER, "broken.plan", plan_bytes, size);
    command_file_put(FOLDER, "short.plan", plan_bytes, 100);
    free(plan_bytes);
    expect_line(RUN("run", "broken.plan", "--random", "1"), 1, "broken.plan");
    expect_line(RUN("verify", "broken.plan"), 1, "broken.plan");
    expect_line(RUN("verify", "short.plan"), 1, "short.plan");
    expect_line(RUN("inspect", "short.plan"), 1, "short.plan");
    expect_line(RUN("verify", "small.onnx"), 1, "small.onnx");
}

static void test_open_dimensions(void **state) {
    (void)state;
    char *out = expect_success(RUN("run", "open.onnx", "--input", "x=three.npy"));
    assert_string_equal(out, "y: float32[3]: 0.5 0 2; min 0, max 2, mean 0.833333\n");
    free(out);
    out = expect_success(RUN("run", "open.onnx", "--random", "1", "--dim", "N=4"));
    assert_memory_equal(out, "y: float32[4]:", 14);
    free(out);
    out = expect_success(RUN("run", "open.onnx", "--random", "1"));
    assert_memory_equal(out, "y: float32[1]:", 14);
    free(out);
    expect_line(RUN("run", "open.onnx", "--input", "x=three.npy", "--dim", "N=4"), 1, "three.npy");
}

static void test_inspect_verify_bench(void **state) {
    (void)state;
    free(expect_success(RUN("compile", "small.onnx", "-q", "-o", "i.plan")));
    char *out = expect_success(RUN("inspect", "i.plan", "--json"));
    assert_true(command_json_check(out));
    assert_non_null(strstr(out, "\"arena_bytes\": "));
    free(out);
    out = expect_success(RUN("inspect", "small.onnx"));
    assert_non_null(strstr(out, "  x: float32[2,3]\n"));
    assert_non_null(strstr(out, "\narena: "));
    free(out);
    out = expect_success(RUN("verify", "i.plan", "i.plan"));
    assert_non_null(strstr(out, "i.plan: valid: "));
    free(out);
    out = expect_success(RUN("bench", "i.plan", "small.onnx", "--runs", "3", "--json", "b.json"));
    free(out);
    char *json = command_file(FOLDER, "b.json", NULL);
    assert_true(command_json_check(json));
    static const char *const keys[] = {"model",          "threads",     "load_ms",
                                       "first_ms",       "median_ms",   "min_ms",
                                       "peak_rss_bytes", "arena_bytes", "allocations_per_run"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\": ", keys[i]);
        if (!strstr(json, key)) fail_msg("bench has no %s", keys[i]);
    }
    assert_null(strstr(json, "\"profile\""));
    free(json);
}

static void test_inspect_two_plans(void **state) {
    (void)state;
    free(expect_success(RUN("compile", "wide.onnx", "-q", "--portable", "-o", "one.plan")));
    free(expect_success(
        RUN("compile", "wide.onnx", "-q", "--portable", "--allocator", "bfc", "-o", "two.plan")));
    free(expect_success(RUN("compile", "small.onnx", "-q", "--portable", "-o", "three.plan")));
    char *out = expect_success(RUN("inspect", "one.plan", "two.plan"));
    assert_non_null(strstr(out, "first: one.plan, auto\nsecond: two.plan, bfc\n"));
    assert_null(strstr(out, "steps:\n")); /* the same steps, by the same kernels */
    free(out);
    out = expect_success(RUN("inspect", "one.plan", "three.plan"));
    assert_non_null(strstr(out, "second: three.plan, auto\n"));
    assert_non_null(strstr(out, "  Softmax by portable."));
    assert_non_null(strstr(out, "at the peak of only one of them:\n  first "));
    free(out);
    out = expect_success(RUN("inspect", "one.plan", "one.plan"));
    assert_null(strstr(out, " %\n")); /* no size differs */
    free(out);
    expect_line(RUN("inspect", "one.plan", "six.npy"), 1, "six.npy");
}

static void test_manuals(void **state) {
    (void)state;
    static const char *const names[] = {"compile", "run",    "test", "bench",
                                        "inspect", "verify", "ops",  "alloc"};
    static const char *const shells[] = {"bash", "zsh", "fish"};
    char *all = expect_success(RUN("--man"));
    assert_int_equal(strncmp(all, ".TH OURO 1 ", 11), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char title[64], *page = expect_success(RUN("--man", names[i])),
                        *help = expect_success(RUN(names[i], "--help"));
        const int length = snprintf(title, sizeof title, ".TH OURO-%s 1 ", names[i]);
        for (int k = 9; k < length; k++) title[k] = (char)toupper(title[k]);
        assert_int_equal(strncmp(page, title, (size_t)length), 0);
        assert_non_null(strstr(all, names[i]));
        /* Each option of the help stands in the page. */
        for (const char *at = help; (at = strstr(at, "\n  --")); at++) {
            if (strncmp(at + 5, "help ", 5) == 0) continue;
            char option[64] = "\\-\\-";
            const size_t name = strcspn(at + 5, " ,");
            for (size_t k = 0, to = 4; k < name && to + 3 < sizeof option; k++) {
                if (at[5 + k] == '-') option[to++] = '\\';
                option[to++] = at[5 + k];
            }
            if (!strstr(page, option)) fail_msg("the page of %s lacks %s", names[i], option);
        }
        free(page);
        free(help);
    }
    free(all);
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        char *out = expect_success(RUN("--completion", shells[i]));
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) assert_non_null(strstr(out, names[k]));
        assert_non_null(strstr(out, "arena-limit"));
        free(out);
    }
}

/* What GCC's OpenMP shows of its environment when a process starts: the count of the process that runs the model is the last one. -1: another
 * OpenMP, or none. */
static long last_spin_count(const command_outcome *outcome) {
    static const char START[] = "GOMP_SPINCOUNT = '";
    const char *last = NULL;
    for (const char *at = outcome->err; (at = strstr(at, START)); at++) last = at;
    return last ? strtol(last + strlen(START), NULL, 10) : -1;
}

static void test_threads_wait_briefly(void **state) {
    (void)state;
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("OMP_WAIT_POLICY");
    setenv("OMP_DISPLAY_ENV", "verbose", 1);
    command_outcome two = RUN("bench", "small.onnx", "--runs", "2", "--threads", "2");
    command_outcome one = RUN("bench", "small.onnx", "--runs", "2", "--threads", "1");
    setenv("GOMP_SPINCOUNT", "77", 1);
    command_outcome given = RUN("bench", "small.onnx", "--runs", "2", "--threads", "2");
    unsetenv("GOMP_SPINCOUNT");
    /* Bound to a processor: what starts from there would have that one for all threads. */
    setenv("OMP_PROC_BIND", "true", 1);
    command_outcome bound = RUN("bench", "small.onnx", "--runs", "2", "--threads", "2");
    unsetenv("OMP_PROC_BIND");
    unsetenv("OMP_DISPLAY_ENV");
    assert_int_equal(two.status, 0);
    assert_int_equal(bound.status, 0);
    const long own = last_spin_count(&one), brief = last_spin_count(&two);
    if (own >= 0) {
        assert_in_range(brief, 5000, 50000);
        assert_true(own > 50000);
        assert_int_equal(last_spin_count(&given), 77);
        assert_int_equal(last_spin_count(&bound), own);
    }
    command_outcome_free(&two);
    command_outcome_free(&one);
    command_outcome_free(&given);
    command_outcome_free(&bound);
}

static void test_bench_profile(void **state) {
    (void)state;
    char *out = expect_success(RUN("bench", "small.onnx", "--profile", "--runs", "3", "--json", "b.json"));
    assert_non_null(strstr(out, " 90 % within "));
    assert_non_null(strstr(out, " GB/s  of peak  runs  operator "));
    assert_non_null(strstr(out, "  float32[2,3], float32[2,3] -> float32[2,3]\n"));
    free(out);
    char *json = command_file(FOLDER, "b.json", NULL);
    assert_true(command_json_check(json));
    static const char *const keys[] = {"p90_ms",
                                       "p99_ms",
                                       "profile",
                                       "peak_gflops",
                                       "peak_gbytes_per_second",
                                       "operator",
                                       "node",
                                       "kernel",
                                       "shapes",
                                       "ms",
                                       "share",
                                       "executions",
                                       "gflops",
                                       "gbytes_per_second",
                                       "share_of_peak"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\": ", keys[i]);
        if (!strstr(json, key)) fail_msg("the profile has no %s", keys[i]);
    }
    free(json);
}

/* ---- test, ops, alloc ---------------------------------------------------------------------------------- */

static void make_case(const char *name, const char *model_name, const float *output) {
    char command[1024], path[256];
    snprintf(command, sizeof command, "mkdir -p '%s/%s/test_data_set_0' && cp '%s/%s' '%s/%s/model.onnx'",
             FOLDER, name, FOLDER, model_name, FOLDER, name);
    assert_int_equal(system(command), 0);
    static const float input[3] = {-1, 0.5f, 2};
    snprintf(path, sizeof path, "%s/test_data_set_0/input_0.pb", name);
    write_pb(path, 3, input);
    snprintf(path, sizeof path, "%s/test_data_set_0/output_0.pb", name);
    write_pb(path, 3, output);
}

static void test_test(void **state) {
    (void)state;
    static const float right[3] = {0, 0.5f, 2}, wrong[3] = {0, 0.5f, 3};
    make_case("cases/right", "open.onnx", right);
    make_case("cases/deeper/wrong", "open.onnx", wrong);
    make_case("cases/unknown", "unknown.onnx", right);
    make_case("cases/bad", "garbage.onnx", right);
    make_case("cases/torn", "open.onnx", right);
    command_file_put(FOLDER, "cases/torn/test_data_set_0/input_0.pb", "\x08\xFF", 2);
    command_outcome outcome = RUN("test", "cases", "--json", "t.json");
    assert_int_equal(outcome.status, 1);
    const char *last = outcome.out + strlen(outcome.out) - 1;
    while (last > outcome.out && last[-1] != '\n') last--;
    assert_string_equal(last, "1 passed, 3 failed, 1 skipped\n");
    assert_non_null(strstr(outcome.out, "passed  right\n"));
    assert_non_null(strstr(
        outcome.out, "failed  deeper/wrong: output 0 'y' differs at [2]: 2, expected 3 (1 of 3 differ, by at "
                     "most 1)\n"));
    assert_non_null(strstr(outcome.out, "skipped unknown: "));
    assert_non_null(strstr(outcome.out, "NoSuchOperator"));
    assert_non_null(strstr(outcome.out, "failed  bad: "));
    assert_non_null(strstr(outcome.out, "failed  torn: "));
    command_outcome_free(&outcome);
    char *json = command_file(FOLDER, "t.json", NULL);
    assert_true(command_json_check(json));
    assert_non_null(strstr(json, "\"passed\": 1,\n  \"failed\": 3,\n  \"skipped\": 1,"));
    free(json);
    char *out = expect_success(RUN("test", "cases/right", "--check"));
    assert_string_equal(out, "passed  right\n1 passed, 0 failed, 0 skipped\n");
    free(out);
    out = expect_success(RUN("test", "cases/deeper/wrong", "--atol", "1"));
    free(out);
    outcome = RUN("test", "outputs");
    assert_int_equal(outcome.status, 1);
    assert_non_null(strstr(outcome.err, "no test in it"));
    command_outcome_free(&outcome);
}

static void test_ops(void **state) {
    (void)state;
    char *out = expect_success(RUN("ops", "--json"));
    assert_true(command_json_check(out));
    assert_non_null(strstr(out, "\"name\": \"Conv\""));
    free(out);
    out = expect_success(RUN("ops"));
    assert_non_null(strstr(out, "\nRelu "));
    assert_null(strstr(out, "Reorder"));
    free(out);
}

static void test_alloc(void **state) {
    (void)state;
    static const char problem[] = "id,lower,upper,size\na,0,2,10\nb,1,3,20\nc,2,4,10\n";
    command_file_put(FOLDER, "p.csv", problem, sizeof problem - 1);
    char *out = expect_success(RUN("alloc", "p.csv", "--allocator", "all", "--json", "p.json", "-o",
                                   "solution.csv", "--memory-map", "p.html"));
    assert_non_null(strstr(out, "p.csv: 3 buffers, lower bound 30 (30 B)\n"));
    free(out);
    char *json = command_file(FOLDER, "p.json", NULL), *solution = command_file(FOLDER, "solution.csv", NULL);
    assert_true(command_json_check(json));
    assert_non_null(strstr(json, "\"lower_bound\": 30"));
    assert_non_null(strstr(json, "\"height\": 30"));
    assert_memory_equal(solution, "id,lower,upper,size,offset\na,0,2,10,", 36);
    free(json);
    free(solution);
    static const char state_problem[] = "id,lower,upper,size\na,0,2,10\nb,0,4,20\nc,2,4,10\n";
    command_file_put(FOLDER, "state.csv", state_problem, sizeof state_problem - 1);
    out = expect_success(RUN("alloc", "state.csv", "--allocator", "greedy-by-size", "--persistent-apart"));
    assert_non_null(strstr(out, "shared [20, 30), optimal\n"));
    free(out);
    out = expect_success(RUN("alloc", "state.csv", "--preserve-all", "--json", "p.json"));
    free(out);
    json = command_file(FOLDER, "p.json", NULL);
    assert_non_null(strstr(json, "\"height\": 40"));
    free(json);
    expect_line(RUN("alloc", "none.csv"), 1, "none.csv");
    expect_line(RUN("alloc", "p.csv", "--allocator", "best"), 2,
                "unknown allocator 'best', expected one of: all, ");
    expect_line(RUN("alloc", "p.csv", "p.csv", "-o", "s.csv"), 2, "-o is for one problem, 2 are given");
    command_outcome outcome = RUN("alloc", "p.csv", "--capacity", "29");
    assert_int_equal(outcome.status, 1);
    assert_string_equal(outcome.err,
                        "error: p.csv: the lowest solution found needs 30 bytes, the capacity is 29: proved "
                        "not to fit\n");
    command_outcome_free(&outcome);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usage_errors),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_output_that_cannot_be_written),
        cmocka_unit_test(test_bad_models_leave_no_files),
        cmocka_unit_test(test_two_compiles_are_the_same),
        cmocka_unit_test(test_problem),
        cmocka_unit_test(test_report_and_dot),
        cmocka_unit_test(test_tradeoff),
        cmocka_unit_test(test_spill),
        cmocka_unit_test(test_no_plan_where_the_folder_cannot_be_written),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_run_errors),
        cmocka_unit_test(test_open_dimensions),
        cmocka_unit_test(test_inspect_verify_bench),
        cmocka_unit_test(test_inspect_two_plans),
        cmocka_unit_test(test_manuals),
        cmocka_unit_test(test_threads_wait_briefly),
        cmocka_unit_test(test_bench_profile),
        cmocka_unit_test(test_test),
        cmocka_unit_test(test_ops),
        cmocka_unit_test(test_alloc),
    };
    return cmocka_run_group_tests(tests, setup_folder, NULL);
}

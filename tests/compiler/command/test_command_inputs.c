/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_inputs.c: inputs on the command line: shapes, numbers written out, what is made up; outputs that are expected. */
#include "models/builder.h"
#include "runtime/ouro.h"
#include "tests/support/command.h"
#include "tests/support/onnx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FOLDER TEST_BINARY_DIR "/test_command_inputs.folder"
#define RUN(...) command_execute(FOLDER, (const char *const[]){__VA_ARGS__, NULL})

static char *onnxruntime; /* its library, where there is one */

/* y = a + b; each has the rank and the dimensions given (see graph_input). */
static void write_sum(const char *path, int dtype, int rank_a, const int64_t *a, int rank_b,
                      const int64_t *b) {
    model *m = model_new("sum", 17);
    const char *inputs[] = {graph_input(m->graph, "a", dtype, rank_a, a),
                            graph_input(m->graph, "b", dtype, rank_b, b)};
    node_outputs(m->graph, "Add", "add", 2, inputs, 1, (const char *[]){"y"});
    graph_output(m->graph, "y", dtype, -1, NULL);
    assert_int_equal(model_write(m, path), 0);
    model_free(m);
}

/* scores = the rows t of w: what follows what; n = -k and y = Relu(x), of as many bytes. */
static void write_choices(const char *path) {
    enum { INT32 = 6 };
    model *m = model_new("choices", 17);
    const int64_t table[] = {4, 4}, two[] = {2}, rows[] = {2, 4};
    const char *w = graph_input(m->graph, "w", MODEL_FLOAT, 2, table),
               *t = graph_input(m->graph, "t", MODEL_INT64, 1, two),
               *k = graph_input(m->graph, "k", INT32, 1, two), *x = graph_input(m->graph, "x", MODEL_FLOAT, 1, two);
    node_outputs(m->graph, "Gather", "rows", 2, (const char *[]){w, t}, 1, (const char *[]){"scores"});
    node_outputs(m->graph, "Neg", "turn", 1, (const char *[]){k}, 1, (const char *[]){"n"});
    node_outputs(m->graph, "Relu", "cut", 1, (const char *[]){x}, 1, (const char *[]){"y"});
    graph_output(m->graph, "scores", MODEL_FLOAT, 2, rows);
    graph_output(m->graph, "n", INT32, 1, two);
    graph_output(m->graph, "y", MODEL_FLOAT, 1, two);
    assert_int_equal(model_write(m, path), 0);
    model_free(m);
}

/* s is a sequence, r are texts, k are numbers. */
static void write_others(const char *path) {
    onnx *o = onnx_new(17);
    onnx_input(o, o->graph, "x", 1, "2");
    onnx_input(o, o->graph, "k", 7, "1");
    onnx_input(o, o->graph, "q", 8, "2");
    onnx_node(o, o->graph, "SequenceConstruct", "", "x,x", "s");
    onnx_node(o, o->graph, "Concat", "", "q,q", "r");
    onnx_set_integer(o, o->graph->node[1], "axis", 0);
    onnx_node(o, o->graph, "Neg", "", "k", "n");
    onnx_output(o, o->graph, "s");
    onnx_output(o, o->graph, "r");
    onnx_output(o, o->graph, "n");
    onnx_write(o, path);
    onnx_free(o);
}

/* y = a + b + c, where b and c have default values. */
static void write_defaults(const char *path) {
    onnx *o = onnx_new(17);
    onnx_input(o, o->graph, "a", 1, "2,3");
    onnx_input(o, o->graph, "b", 1, "2,3");
    onnx_input(o, o->graph, "c", 1, "1");
    Onnx__TensorProto *zeros = onnx_tensor(o, "b", 1, "2,3");
    onnx_raw(o, zeros, (float[6]){0}, 6 * sizeof(float));
    onnx_initializer(o, o->graph, zeros);
    onnx_floats(o, o->graph, "c", 1, (float[]){100});
    onnx_node(o, o->graph, "Sum", "", "a,b,c", "y");
    onnx_output(o, o->graph, "y");
    onnx_write(o, path);
    onnx_free(o);
}

static int setup_folder(void **state) {
    (void)state;
    if (system("rm -rf '" FOLDER "' && mkdir -p '" FOLDER "'") != 0) return -1;
    const int64_t named[] = {-1, 3}, unnamed[] = {-2, 3}, two[] = {2};
    write_sum(FOLDER "/named.onnx", MODEL_FLOAT, 2, named, 2, named);
    write_sum(FOLDER "/unnamed.onnx", MODEL_FLOAT, 2, unnamed, 2, unnamed);
    write_sum(FOLDER "/ranks.onnx", MODEL_FLOAT, -1, NULL, -1, NULL);
    write_choices(FOLDER "/choices.onnx");
    write_others(FOLDER "/others.onnx");
    write_defaults(FOLDER "/defaults.onnx");
    write_sum(FOLDER "/scalars.onnx", MODEL_INT64, 0, NULL, 1, two);
    return 0;
}

static void expect_output(command_outcome outcome, const char *part) {
    if (outcome.status != 0) fail_msg("status %d: %s", outcome.status, outcome.err);
    if (!strstr(outcome.out, part)) fail_msg("expected '%s' in: %s", part, outcome.out);
    assert_string_equal(outcome.err, "");
    command_outcome_free(&outcome);
}

static void expect_error(command_outcome outcome, int status, const char *part) {
    if (!strstr(outcome.err, part)) fail_msg("expected '%s' in: %s", part, outcome.err);
    assert_int_equal(outcome.status, status);
    command_outcome_free(&outcome);
}

/* numpy.savez_compressed: a is [[1,2,3],[4,5,6]], b ten times that. */
static const unsigned char arrays_npz[] = {
    0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x7c, 0x9c, 0xde,
    0xa2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x05, 0x00, 0x14, 0x00, 0x61, 0x2e, 0x6e, 0x70,
    0x79, 0x01, 0x00, 0x10, 0x00, 0x98, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x58, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b, 0x10, 0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e,
    0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0, 0x6e, 0x93, 0x66, 0xa2, 0xae, 0xa3, 0xa0, 0x9e, 0x96,
    0x5f, 0x54, 0x52, 0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92, 0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e,
    0x05, 0x8a, 0x17, 0x67, 0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a, 0x46, 0x3a, 0x0a, 0xc6, 0x9a, 0x3a, 0x0a,
    0xb5, 0x0a, 0x64, 0x03, 0x2e, 0x06, 0x86, 0x06, 0x7b, 0x06, 0x06, 0x06, 0x07, 0x20, 0x02, 0xe2, 0x06,
    0x20, 0x5e, 0x00, 0xc4, 0x07, 0x1c, 0x00, 0x50, 0x4b, 0x03, 0x04, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00,
    0x00, 0x00, 0x21, 0x00, 0x68, 0xf9, 0xa4, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x05,
    0x00, 0x14, 0x00, 0x62, 0x2e, 0x6e, 0x70, 0x79, 0x01, 0x00, 0x10, 0x00, 0x98, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x5a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9b, 0xec, 0x17, 0xea, 0x1b, 0x10,
    0xc9, 0xc8, 0x50, 0xc6, 0x50, 0xad, 0x9e, 0x92, 0x5a, 0x9c, 0x5c, 0xa4, 0x6e, 0xa5, 0xa0, 0x6e, 0x93,
    0x66, 0xa2, 0xae, 0xa3, 0xa0, 0x9e, 0x96, 0x5f, 0x54, 0x52, 0x94, 0x98, 0x17, 0x9f, 0x5f, 0x94, 0x92,
    0x0a, 0x12, 0x77, 0x4b, 0xcc, 0x29, 0x4e, 0x05, 0x8a, 0x17, 0x67, 0x24, 0x16, 0xa4, 0x02, 0xf9, 0x1a,
    0x46, 0x3a, 0x0a, 0xc6, 0x9a, 0x3a, 0x0a, 0xb5, 0x0a, 0x64, 0x03, 0x2e, 0x06, 0x06, 0x05, 0x47, 0x06,
    0x86, 0x05, 0x40, 0xfc, 0x01, 0x88, 0x15, 0x9c, 0x18, 0x18, 0x3c, 0x80, 0xb8, 0xc0, 0x09, 0x00, 0x50,
    0x4b, 0x01, 0x02, 0x2d, 0x03, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x7c, 0x9c,
    0xde, 0xa2, 0x58, 0x00, 0x00, 0x00, 0x98, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x61, 0x2e, 0x6e, 0x70, 0x79, 0x50,
    0x4b, 0x01, 0x02, 0x2d, 0x03, 0x2d, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x21, 0x00, 0x68, 0xf9,
    0xa4, 0x12, 0x5a, 0x00, 0x00, 0x00, 0x98, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x01, 0x8f, 0x00, 0x00, 0x00, 0x62, 0x2e, 0x6e, 0x70, 0x79, 0x50,
    0x4b, 0x05, 0x06, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x02, 0x00, 0x66, 0x00, 0x00, 0x00, 0x20, 0x01,
    0x00, 0x00, 0x00, 0x00,
};

static void test_archives(void **state) {
    (void)state;
    command_file_put(FOLDER, "arrays.npz", arrays_npz, sizeof arrays_npz);
    command_file_put(FOLDER, "named_otherwise", arrays_npz, sizeof arrays_npz);
    expect_output(RUN("run", "named.onnx", "--input", "arrays.npz"), "y: float32[2,3]: 11 22 33 44 55 ...");
    expect_output(RUN("run", "named.onnx", "--input", "b=named_otherwise", "--input", "a=arrays.npz"),
                  "y: float32[2,3]: 11 22 33");
    expect_error(RUN("run", "named.onnx", "--input", "arrays.npz", "--input", "a=1"), 2,
                 "'a': this input was given already");
    expect_error(RUN("run", "named.onnx", "--input", "nothing.npz"), 1, "nothing.npz: cannot");
    expect_error(RUN("run", "named.onnx", "--input", "named.onnx"), 2,
                 "expected NAME=FILE, or an archive of arrays (.npz)");
    expect_error(RUN("run", "arrays.npz"), 1, "not an ONNX file, but a zip archive");
    expect_output(RUN("bench", "named.onnx", "--input", "arrays.npz", "--runs", "2"), "named.onnx");
    /* A name of an input that the archive lacks. */
    const int64_t rows[] = {-1, 3};
    model *m = model_new("other", 17);
    const char *inputs[] = {graph_input(m->graph, "c", MODEL_FLOAT, 2, rows)};
    node_outputs(m->graph, "Neg", "neg", 1, inputs, 1, (const char *[]){"y"});
    graph_output(m->graph, "y", MODEL_FLOAT, -1, NULL);
    assert_int_equal(model_write(m, FOLDER "/other.onnx"), 0);
    model_free(m);
    expect_error(RUN("run", "other.onnx", "--input", "c=arrays.npz"), 1,
                 "there is no array 'c' in it, there are: 'a', 'b'");
    expect_error(RUN("run", "other.onnx", "--input", "arrays.npz"), 2, "there is no input 'a'");
}

/* What is given replaces a default value; a plan has such inputs where it was made with --keep-input. */
static void test_default_values(void **state) {
    (void)state;
    command_file_put(FOLDER, "arrays.npz", arrays_npz, sizeof arrays_npz);
    expect_output(RUN("run", "defaults.onnx", "--input", "a=arrays.npz", "--input", "c=1"),
                  "y: float32[2,3]: 2 3 4 5 6 ...");
    expect_output(RUN("run", "defaults.onnx", "--input", "arrays.npz"),
                  "y: float32[2,3]: 111 122 133 144 155 ...");
    expect_output(RUN("bench", "defaults.onnx", "--input", "arrays.npz", "--runs", "2"), "defaults.onnx");
    expect_error(RUN("run", "defaults.onnx", "--input", "a=arrays.npz", "--input", "d=1"), 2,
                 "there is no input 'd', expected one of: 'a'");
    expect_output(RUN("compile", "defaults.onnx", "-o", "kept.plan", "--keep-input", "c"), "plan kept.plan");
    expect_error(RUN("run", "kept.plan", "--input", "a=arrays.npz"), 2, "no data for input 'c'");
    expect_output(RUN("run", "kept.plan", "--input", "a=arrays.npz", "--input", "c=-1"),
                  "y: float32[2,3]: 0 1 2 3 4 ...");
    expect_error(RUN("compile", "defaults.onnx", "-o", "none.plan", "--keep-input", "d"), 2,
                 "no input to keep is called 'd'");
}

static void test_shapes(void **state) {
    (void)state;
    expect_output(RUN("run", "unnamed.onnx", "--random", "1", "--shape", "a=4x3", "--shape", "b=1x3"),
                  "y: float32[4,3]");
    expect_output(RUN("run", "ranks.onnx", "--random", "1", "--shape", "a=2x1x3", "--shape", "b=scalar"),
                  "y: float32[2,1,3]");
    expect_output(RUN("run", "ranks.onnx", "--random", "1", "--shape", "a=2x?", "--shape", "b=2,5"),
                  "y: float32[2,5]");
    expect_output(RUN("inspect", "unnamed.onnx", "--shape", "a=4x?"), "a: float32[4,3]");
    /* A plan that leaves ranks open runs like the model. */
    expect_output(RUN("compile", "ranks.onnx", "-o", "ranks.plan"), "plan ranks.plan");
    expect_output(RUN("run", "ranks.plan", "--input", "a=[[1,2]]", "--input", "b=3"), "y: float32[1,2]: 4 5");
    expect_output(RUN("run", "ranks.plan", "--random", "1", "--shape", "a=2x1x3", "--shape", "b=scalar"),
                  "y: float32[2,1,3]");
    expect_error(RUN("run", "ranks.plan", "--random", "1"), 1, "its rank is not known");
    expect_output(RUN("compile", "unnamed.onnx", "--shape", "a=4x3", "-o", "fixed.plan"), "arena");
    expect_output(RUN("inspect", "fixed.plan"), "a: float32[4,3]");
    /* One name is one extent, wherever it stands. */
    expect_output(RUN("run", "named.onnx", "--random", "1", "--shape", "a=4x3"), "y: float32[4,3]");
    expect_error(RUN("run", "named.onnx", "--random", "1", "--shape", "a=4x3", "--shape", "b=5x3"), 1,
                 "input 'b' has extent 5 in dimension 0, expected 4");
    expect_error(RUN("compile", "named.onnx", "--shape", "c=4x3"), 2, "the model has 'a', 'b'");
    expect_error(RUN("compile", "named.onnx", "--shape", "a=4x3x2"), 1, "has 3 dimensions, expected 2");
    expect_error(RUN("compile", "named.onnx", "--shape", "a=4xx3"), 2, "expected INPUT=AxBxC");
    expect_error(RUN("compile", "named.onnx", "--shape", "a=4x"), 2, "expected INPUT=AxBxC");
    expect_error(RUN("compile", "named.onnx", "--shape", "a=1x3", "--shape", "a=2x3"), 2, "is given already");
}

/* The plan leaves the dimension open; --shape says what is made up for it. */
static void test_shapes_of_plans(void **state) {
    (void)state;
    expect_output(RUN("compile", "named.onnx", "-o", "named.plan"), "arena");
    expect_output(RUN("run", "named.plan", "--random", "1", "--shape", "a=4x3", "--shape", "b=4x3"),
                  "y: float32[4,3]");
    expect_error(RUN("run", "named.plan", "--random", "1", "--shape", "a=4x7"), 2,
                 "planned for input 'a' as float32[N,3]");
    expect_output(RUN("inspect", "named.plan", "--dim", "N=4"),
                  "a run with a float32[4,3], b float32[4,3]: 1 tensor in 64 B (64 bytes)");
    expect_output(RUN("inspect", "named.plan", "--shape", "a=4x3", "--shape", "b=4x3", "--json"),
                  "\"inputs\": \"a float32[4,3], b float32[4,3]\"");
    expect_error(RUN("inspect", "named.plan", "--dim", "M=4"), 2,
                 "no input has a dimension 'M', expected one of: N");
    expect_error(RUN("inspect", "named.plan", "--shape", "a=4x7"), 2,
                 "planned for input 'a' as float32[N,3]");
    expect_error(RUN("inspect", "named.onnx", "--memory-map", "map.svg"), 2, "is a model");
    expect_error(RUN("run", "named.plan", "--input", "a=[[1,2]]", "--input", "b=[[1,2,3]]"), 1,
                 "input 'a' is float32[1,2], expected float32[N,3]");
}

static void test_names_of_dimensions(void **state) {
    (void)state;
    ouro_plan *plan;
    ouro_tensor_info info;
    ouro_error error;
    expect_output(RUN("compile", "named.onnx", "-o", "names.plan"), "arena");
    assert_int_equal(ouro_plan_load(FOLDER "/names.plan", &plan, &error), OURO_OK);
    assert_int_equal(ouro_plan_input(plan, 0, &info), OURO_OK);
    assert_string_equal(info.dim_names[0], "N");
    assert_null(info.dim_names[1]);
    ouro_session *session;
    const float data[2] = {0};
    assert_int_equal(ouro_session_new(plan, NULL, &session, &error), OURO_OK);
    assert_int_equal(ouro_session_bind_input(session, 0, data, sizeof data, NULL, &error), OURO_USAGE);
    assert_non_null(strstr(error.message, "input 'a' is float32[N,3]: its dimensions must be given"));
    ouro_session_free(session);
    ouro_plan_free(plan);
    expect_output(RUN("compile", "unnamed.onnx", "-o", "names.plan"), "arena");
    assert_int_equal(ouro_plan_load(FOLDER "/names.plan", &plan, &error), OURO_OK);
    assert_int_equal(ouro_plan_input(plan, 0, &info), OURO_OK);
    assert_int_equal(info.dims[0], -1);
    assert_null(info.dim_names[0]);
    ouro_plan_free(plan);
}

static void test_literals(void **state) {
    (void)state;
    expect_output(RUN("run", "scalars.onnx", "--input", "a=7", "--input", "b=1,-2"), "y: int64[2]: 8 5");
    expect_output(RUN("run", "scalars.onnx", "--input", "a=-9223372036854775808", "--input", "b=[0, 1]"),
                  "-9223372036854775808 -9223372036854775807");
    expect_output(
        RUN("run", "named.onnx", "--input", "a=[[1,2,3],[4,5,6]]", "--input", "b=[[.5,1e1,-1],[0,0,0]]"),
        "y: float32[2,3]: 1.5 12 2 4 5 ...");
    expect_output(RUN("run", "ranks.onnx", "--input", "a=2", "--input", "b=[1]"), "y: float32[1]: 3");
    expect_error(RUN("run", "scalars.onnx", "--input", "a=1.5", "--input", "b=1,2"), 1,
                 "--input a: '1.5' is no int64");
    expect_error(RUN("run", "scalars.onnx", "--input", "a=7", "--input", "b=1,2,3"), 1,
                 "input 'b' is int64[3], expected int64[2]");
    expect_error(RUN("run", "named.onnx", "--input", "a=[[1,2,3],[4,5]]", "--input", "b=1"), 1,
                 "it is no number");
    expect_error(RUN("run", "named.onnx", "--input", "a=[1", "--input", "b=1"), 1, "there is no such file");
    expect_error(RUN("run", "named.onnx", "--input", "a=none.npy", "--input", "b=1"), 1,
                 "none.npy: cannot open");
}

static void test_made_up(void **state) {
    (void)state;
    expect_output(RUN("bench", "unnamed.onnx", "--runs", "3", "--input", "b=[[1,2,3]]"),
                  "made up (seed 1): a float32[1,3]");
    expect_output(RUN("bench", "unnamed.onnx", "--runs", "3", "--warmup", "2", "--shape", "a=8x3"),
                  "made up (seed 1): a float32[8,3], b float32[1,3]\n");
    expect_output(
        RUN("bench", "unnamed.onnx", "scalars.onnx", "--compare", "--runs", "3", "--json", "b.json"),
        "     ratio   median ms    least ms       arena  model\n     1.000  ");
    char *json = command_file(FOLDER, "b.json", NULL);
    assert_true(command_json_check(json));
    assert_non_null(strstr(json, "\"ratio\""));
    assert_non_null(strstr(json, "\"p99_ms\""));
    free(json);
    /* Many runs of a small model leave as many for the last round as for the first. */
    expect_output(
        RUN("bench", "scalars.onnx", "unnamed.onnx", "--compare", "--runs", "25000", "--json", "b.json"),
        "     ratio   median ms    least ms       arena  model\n     1.000  ");
    json = command_file(FOLDER, "b.json", NULL);
    const char *first = strstr(json, "\"ratio\"");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "\"ratio\""));
    free(json);
    /* An extent that nobody gave is the first suspect. */
    expect_error(RUN("run", "named.onnx", "--random", "1", "--input", "b=[[1,2]]"), 1,
                 "expected float32[N,3]");
    expect_output(RUN("compile", "unnamed.onnx", "-o", "unnamed.plan"), "arena");
    expect_error(RUN("run", "unnamed.plan", "--random", "1", "--shape", "a=2x3", "--shape", "b=3x3"), 1,
                 "[3,3]");
    expect_error(RUN("run", "ranks.onnx", "--random", "1", "--shape", "a=2x7", "--shape", "b=?x5"), 1,
                 "note: extents that nobody gave were taken to be 1, as by --shape b=1x5;");
}

static void test_expect(void **state) {
    (void)state;
    expect_output(RUN("run", "scalars.onnx", "--input", "a=7", "--input", "b=1,-2", "-v"), "memory: arena ");
    /* Only a near word is one that was meant. */
    expect_error(RUN("run", "scalars.onnx", "--inptu", "a=7"), 2, "did you mean '--input'?");
    expect_error(RUN("run", "scalars.onnx", "--dog", "a=7"), 2, "unknown option '--dog' (see");
    expect_output(RUN("run", "scalars.onnx", "--input", "a=7", "--input", "b=1,-2", "--output-dir", "out"),
                  "out/y.npy");
    expect_output(RUN("run", "scalars.onnx", "--input", "a=6", "--input", "b=2,-1", "--expect", "out"),
                  "y: as expected, errors of at most 0");
    expect_error(RUN("run", "scalars.onnx", "--input", "a=7", "--input", "b=1,1", "--expect", "out"), 1,
                 "out: output 'y' differs at [1]: 8, expected 5 (1 of 2 differ)");
    expect_error(RUN("run", "scalars.onnx", "--input", "a=7", "--input", "b=1,1", "--expect", "nowhere"), 1,
                 "nowhere/y.npy: cannot open");
    expect_output(RUN("run", "named.onnx", "--random", "1", "--output-dir", "real"), "real/y.npy");
    expect_output(RUN("run", "named.onnx", "--random", "1", "--expect", "real", "--rtol", "0", "--atol", "0"),
                  "as expected");
    expect_error(RUN("run", "named.onnx", "--random", "2", "--expect", "real"), 1, "differ, by at most");
}

/* A library that is none, or is not there, is said so. */
static void test_onnxruntime_missing(void **state) {
    (void)state;
    assert_int_equal(setenv("OURO_ONNXRUNTIME", "/nowhere/libonnxruntime.so", 1), 0);
    expect_error(RUN("test", "--compare-ort", "named.onnx"), 2, "ONNX Runtime is not there");
    expect_error(RUN("bench", "--compare-ort", "named.onnx"), 2, "ONNX Runtime is not there");
    expect_error(RUN("bench", "--compare-ort", "--profile", "named.onnx"), 2, "exclude each other");
    assert_int_equal(setenv("OURO_ONNXRUNTIME", "libm.so.6", 1), 0);
    expect_error(RUN("test", "--compare-ort", "named.onnx"), 2, "the library named as ONNX Runtime is none");
    assert_int_equal(unsetenv("OURO_ONNXRUNTIME"), 0);
    expect_error(RUN("test", "named.onnx"), 1, "there is no such directory");
}

static void expect_all(command_outcome outcome, int status, const char *expected) {
    assert_string_equal(outcome.out, expected);
    assert_int_equal(outcome.status, status);
    command_outcome_free(&outcome);
}

/* Folders of tests that lack something. */
static void test_lacking(void **state) {
    (void)state;
    if (system("cd '" FOLDER "' && mkdir -p bare lacking/test_data_set_0 && cp named.onnx bare/model.onnx && "
               "cp named.onnx lacking/model.onnx") != 0)
        fail();
    expect_all(RUN("test", "bare"), 0,
               "skipped bare: no test_data_set_* with data\n0 passed, 0 failed, 1 skipped\n");
    expect_all(RUN("test", "lacking", "-q"), 1,
               "failed  lacking: lacking/test_data_set_0: input_0.pb is missing\n0 passed, 1 failed, 0 skipped\n");
    command_file_put(FOLDER, "lacking/test_data_set_0/input_0.pb", "\xFF\xFF", 2);
    expect_all(RUN("test", "lacking"), 1,
               "failed  lacking: lacking/test_data_set_0/input_0.pb: not a valid ONNX file: byte 0: the file is cut off or "
               "not protobuf\n0 passed, 1 failed, 0 skipped\n");
    expect_error(RUN("test", "bare", "--allocator", "none"), 2, "unknown allocator 'none'");
}

/* Where ONNX Runtime is there (OURO_ONNXRUNTIME, when the program begins): what it computes is what is expected. */
static void test_onnxruntime(void **state) {
    (void)state;
    if (!onnxruntime) return;
    assert_int_equal(setenv("OURO_ONNXRUNTIME", onnxruntime, 1), 0);
    expect_all(RUN("test", "--compare-ort", "named.onnx", "choices.onnx", "bare", "others.onnx", "ranks.onnx", "--json", "t.json"), 0,
               "passed  named.onnx: errors of at most 0, relative 0\n"
               "passed  choices.onnx: errors of at most 0, relative 0\n"
               "passed  bare: errors of at most 0, relative 0\n"
               "skipped others.onnx: 'q': only tensors of numbers are compared with ONNX Runtime\n"
               "skipped ranks.onnx: input 'a' cannot be made up: it is no tensor, or of unknown rank\n"
               "3 passed, 0 failed, 2 skipped\n");
    char *json = command_file(FOLDER, "t.json", NULL);
    assert_true(command_json_check(json));
    assert_non_null(strstr(json, "\"onnxruntime_ms\": "));
    free(json);
    expect_output(RUN("bench", "--compare-ort", "named.onnx", "--dim", "N=2", "--runs", "3"), "  ONNX Runtime\n");
    assert_int_equal(unsetenv("OURO_ONNXRUNTIME"), 0);
}

/* y = a + b in steps, and pairs that are none. */
static void test_feeds_and_states(void **state) {
    (void)state;
    expect_error(RUN("run", "named.onnx", "--random", "1", "--steps", "2", "--feed", "z=a"), 2,
                 "--feed 'z=a': there is no output 'z'");
    expect_error(RUN("run", "named.onnx", "--random", "1", "--steps", "2", "--feed", "y=z"), 2,
                 "--feed 'y=z': there is no input 'z'");
    expect_error(RUN("run", "named.onnx", "--random", "1", "--steps", "2", "--feed", "y:argmax=a"), 1,
                 "the input takes no indices: expected int64 or int32");
    /* 1 2 3 and three times 1 1 2 */
    expect_output(RUN("run", "named.onnx", "--input", "a=[[1,2,3]]", "--input", "b=[[1,1,2]]", "--steps", "3",
                      "--feed", "y=a"),
                  "y: float32[1,3]: 4 5 9;");
    expect_error(RUN("compile", "named.onnx", "-q", "-o", "s.plan", "--state", "a=y", "--state", "b=y"), 2,
                 "output 'y' is carried into two inputs: 'a' and 'b'");
    expect_error(RUN("compile", "named.onnx", "-q", "-o", "s.plan", "--state", "a=y", "--state", "a=y"), 2,
                 "input 'a' is a state already, of output 'y'");
    expect_error(RUN("compile", "named.onnx", "-q", "-o", "s.plan", "--state", "a=z"), 2,
                 "there is no output 'z' to carry into input 'a'");
    expect_error(RUN("compile", "named.onnx", "-q", "-o", "s.plan", "--state", "c=y"), 2,
                 "there is no input 'c'");
    expect_error(RUN("compile", "named.onnx", "-q", "-o", "s.plan", "--state", "*=y"), 2,
                 "both names need equally many stars");
    expect_error(RUN("compile", "named.onnx", "-q", "-o", "s.plan", "--max", "M=4"), 2,
                 "there is no symbolic dimension 'M' to bound");
}

#define TABLE "w=[[0,1,5,2],[0,1,1,7],[-4,-2,-3,-3],[2,2,1,0]]"
#define CHOICES                                                                                              \
    "run", "choices.onnx", "--input", TABLE, "--input", "t=[0,1]", "--input", "k=[1,2]", "--input", "x=[1,2]"

/* The largest of each row becomes the next row, the first one of equal ones. Bits of one type are not taken for another. */
static void test_choices(void **state) {
    (void)state;
    expect_output(RUN(CHOICES, "--steps", "3", "--feed", "scores:argmax=t"), "fed to t: 2 3 1 0 3 2\n");
    expect_output(RUN(CHOICES, "--steps", "2", "--feed", "scores:argmax=k"), "n: int32[2]: -2 -3;");
    expect_output(RUN(CHOICES, "--steps", "2", "--feed", "n=k", "--check"), "n: int32[2]: 1 2;");
    expect_error(RUN(CHOICES, "--steps", "2", "--feed", "y=k"), 2,
                 "--feed 'y=k': output 'y' is float32, input 'k' takes int32");
    expect_error(RUN(CHOICES, "--steps", "2", "--feed", "scores:argmax=x"), 1,
                 "the input takes no indices: expected int64 or int32");
    expect_error(RUN(CHOICES, "--steps", "2", "--feed", "y:argmax=k"), 1,
                 "--feed: the output has 1 choices, the input takes 2");
    expect_error(RUN("run", "others.onnx", "--random", "1", "--steps", "2", "--feed", "s=x"), 2,
                 "--feed 's=x': output 's' is no tensor");
    expect_error(RUN("run", "others.onnx", "--random", "1", "--steps", "2", "--feed", "r:argmax=k"), 2,
                 "--feed 'r:argmax=k': output 'r' has no numbers to choose from");
    command_outcome outcome = RUN(CHOICES, "--steps", "3", "--feed", "scores:argmax=t", "--output-dir", "chosen");
    if (outcome.status != 0) fail_msg("%s", outcome.err);
    command_outcome_free(&outcome);
    size_t size;
    char *chosen = command_file(FOLDER, "chosen/t.npy", &size);
    static const int64_t expected[] = {2, 3, 1, 0, 3, 2};
    assert_true(size > sizeof expected);
    assert_memory_equal(chosen + size - sizeof expected, expected, sizeof expected);
    free(chosen);
}

int main(void) {
    const char *given = getenv("OURO_ONNXRUNTIME");
    onnxruntime = given && *given ? strdup(given) : NULL; /* setenv takes the place of what getenv gave */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_archives),
        cmocka_unit_test(test_default_values),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_shapes_of_plans),
        cmocka_unit_test(test_literals),
        cmocka_unit_test(test_names_of_dimensions),
        cmocka_unit_test(test_made_up),
        cmocka_unit_test(test_expect),
        cmocka_unit_test(test_lacking),
        cmocka_unit_test(test_onnxruntime_missing),
        cmocka_unit_test(test_onnxruntime),
        cmocka_unit_test(test_feeds_and_states),
    };
    const int failed = cmocka_run_group_tests(tests, setup_folder, NULL);
    free(onnxruntime);
    return failed;
}

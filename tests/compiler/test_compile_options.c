/* SPDX-License-Identifier: Apache-2.0 */
/* test_compile_options.c: options of a compile that cannot be: each is refused with a message that says which, before anything is
 * written. */
#include "compiler/ouro_compiler.h"
#include "tests/support/onnx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MODEL TEST_BINARY_DIR "/options.onnx"
#define PLAN TEST_BINARY_DIR "/options.plan"

/* y = Relu(x) on float[N,2], z = -w on float of unknown rank, and the length of a sequence. */
static int write_model(void **state) {
    (void)state;
    onnx *o = onnx_new(17);
    onnx_input(o, o->graph, "x", 1, "N,2");
    onnx_input(o, o->graph, "w", 1, NULL);
    onnx_input(o, o->graph, "k", 7, "");
    onnx_node(o, o->graph, "Relu", "cut", "x", "y");
    onnx_node(o, o->graph, "Neg", "turn", "w", "z");
    onnx_node(o, o->graph, "Neg", "count", "k", "n");
    onnx_output(o, o->graph, "y");
    onnx_output(o, o->graph, "z");
    onnx_output(o, o->graph, "n");
    onnx_write(o, MODEL);
    onnx_free(o);
    unlink(PLAN);
    return 0;
}

static int remove_model(void **state) {
    (void)state;
    return unlink(MODEL);
}

#define OPTIONS(...) ((ouro_compile_options){.model_path = MODEL, .plan_path = PLAN, __VA_ARGS__})

static void expect_refused(ouro_compile_options options, ouro_status expected, const char *part) {
    ouro_error error;
    ouro_plan *plan;
    const ouro_status status = ouro_compile(&options, &error);
    if (status != expected || !strstr(error.message, part))
        fail_msg("expected %d, \"%s\": %d, \"%s\"", (int)expected, part, (int)status, error.message);
    assert_int_not_equal(access(PLAN, F_OK), 0);
    options.plan_path = NULL; /* and into memory */
    assert_int_equal(ouro_compile_plan(&options, &plan, &error), expected);
    assert_non_null(strstr(error.message, part));
}

static void numbers_out_of_range(void **state) {
    (void)state;
    expect_refused((ouro_compile_options){.plan_path = PLAN}, OURO_USAGE, "no model given");
    expect_refused(OPTIONS(.threads = -1), OURO_USAGE, "-1 threads, expected 1 to ");
    expect_refused(OPTIONS(.threads = 1 << 20), OURO_USAGE, "1048576 threads, expected 1 to ");
    expect_refused(OPTIONS(.max_unroll = -1), OURO_USAGE, "negative limit of unrolling");
}

static void names_that_are_none(void **state) {
    (void)state;
    expect_refused(OPTIONS(.allocator = "quickest"), OURO_USAGE, "unknown allocator 'quickest', expected one of: ");
    expect_refused(OPTIONS(.dump_after = "nothing"), OURO_USAGE, "unknown pass 'nothing', expected 'all' or one of: ");
    expect_refused(OPTIONS(.weights = "int3"), OURO_USAGE,
                   "weights 'int3': expected float16, bfloat16, int16, int8 or int4");
    expect_refused(OPTIONS(.spill_path = ""), OURO_USAGE, "the spill file has no name");
    expect_refused(OPTIONS(.spill_path = "s", .arena_limit = OURO_ARENA_LEAST, .time_limit = 1.5), OURO_USAGE,
                   "not with one in percent of time");
}

static void dimensions_and_shapes(void **state) {
    (void)state;
    const ouro_dim negative = {.name = "N", .extent = -3}, unknown = {.name = "M", .extent = 3}, none = {.extent = 3};
    expect_refused(OPTIONS(.dims = &negative, .dim_count = 1), OURO_USAGE, "dimension 'N' is -3, expected at least 0");
    expect_refused(OPTIONS(.dims = &unknown, .dim_count = 1), OURO_INVALID,
                   "no symbolic dimension is called \"M\"; the model has \"N\"");
    expect_refused(OPTIONS(.bounds = &unknown, .bound_count = 1), OURO_USAGE, "no symbolic dimension 'M' to bound");
    expect_refused(OPTIONS(.dims = &none, .dim_count = 1), OURO_USAGE, "a dimension has no name");
    expect_refused(OPTIONS(.bounds = &none, .bound_count = 1), OURO_USAGE, "a dimension has no name");
    ouro_shape shape = {.input = "x", .rank = -1};
    expect_refused(OPTIONS(.shapes = &shape, .shape_count = 1), OURO_USAGE,
                   "the shape of input 'x' has rank -1, expected 0 to ");
    shape.rank = OURO_MAX_RANK + 1;
    expect_refused(OPTIONS(.shapes = &shape, .shape_count = 1), OURO_USAGE, "the shape of input 'x' has rank ");
    shape = (ouro_shape){.rank = 1};
    expect_refused(OPTIONS(.shapes = &shape, .shape_count = 1), OURO_USAGE, "the shape of input '' has rank 1");
    shape = (ouro_shape){.input = "v", .rank = 1};
    expect_refused(OPTIONS(.shapes = &shape, .shape_count = 1), OURO_USAGE,
                   "a shape is given for input 'v', which is not there; the model has 'x', 'w', 'k'");
    const int64_t dims[OURO_MAX_RANK] = {2, 3};
    shape = (ouro_shape){.input = "x", .rank = 2};
    memcpy(shape.dims, dims, sizeof dims < sizeof shape.dims ? sizeof dims : sizeof shape.dims);
    expect_refused(OPTIONS(.shapes = &shape, .shape_count = 1), OURO_INVALID,
                   "input 'x' has extent 3 in dimension 1, expected 2");
    shape.rank = 1;
    expect_refused(OPTIONS(.shapes = &shape, .shape_count = 1), OURO_INVALID, "input 'x' has 1 dimensions, expected 2");
}

static void pairs_without_names(void **state) {
    (void)state;
    const ouro_state_pair no_input = {.output = "y"}, no_output = {.input = "x"};
    expect_refused(OPTIONS(.states = &no_input, .state_count = 1), OURO_USAGE, "a state has no name");
    expect_refused(OPTIONS(.states = &no_output, .state_count = 1), OURO_USAGE, "a state has no name");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_out_of_range), cmocka_unit_test(names_that_are_none),
                                       cmocka_unit_test(dimensions_and_shapes),
                                       cmocka_unit_test(pairs_without_names)};
    return cmocka_run_group_tests(tests, write_model, remove_model);
}

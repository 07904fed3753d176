/* SPDX-License-Identifier: Apache-2.0 */
/* test_declared_slices.c: stacks of loops without an iteration have the shape that the model declares of their slices, as far as
 * nothing else is known.
 */
#include "compiler/compiler.h"
#include "compiler/ouro_compiler.h"
#include "ir/loop.h"
#include "ir/operators/shape_list.h"
#include "passes/graph/graph.h"
#include "tests/support/onnx.h"
#include "tests/support/support.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* The slices are float32[?,8], of two rows when there are some. The first stack is not read. */
static void write_module(char *text, size_t capacity, int axis, const char *declared) {
    snprintf(text, capacity,
             "module \"declared\" { constant %%z: int64[1] = {0} constant %%two: int64[1] = {2}\n"
             " graph main(%%M: int64[], %%a: float32[9,8]) {\n"
             "  %%t: float32[?,?,8], %%s: float32[?,?,?] = Loop(%%M, _) {ouro.scan_outputs = 2, "
             "ouro.scan_output_axes = [0, %d]%s} {\n"
             "   graph body(%%i: int64[], %%k: bool[]) {\n"
             "    %%b: int64[1] = Unsqueeze(%%i, %%z) %%e: int64[1] = Add(%%b, %%two)\n"
             "    %%w: float32[?,8] = Slice(%%a, %%b, %%e, %%z) %%n: float32[?,8] = Neg(%%w) yield %%k, %%n, "
             "%%w } }\n"
             "  %%r: int64[3] = Shape(%%s) yield %%r } }",
             axis, declared);
}

static void expect_shape(int axis, const char *declared, int64_t trips, const int64_t *wanted) {
    char text[2048];
    float a[72] = {0};
    support_session on;
    write_module(text, sizeof text, axis, declared);
    support_session_open(&on, text, 1);
    support_bind(&on, 0, &trips, sizeof trips);
    support_bind(&on, 1, a, sizeof a);
    support_run(&on);
    const int64_t *is = support_output(&on, 0, 3 * sizeof *is);
    for (int d = 0; d < 3; d++)
        if (is[d] != wanted[d])
            fail_msg("axis %d, \"%s\", %d iterations: extent %d is %d, expected %d", axis, declared,
                     (int)trips, d, (int)is[d], (int)wanted[d]);
    support_session_close(&on);
}

static void what_is_declared_holds_without_an_iteration(void **state) {
    (void)state;
    static const char two[] = ", ouro.scan_output_shapes = [-1, 2, 2, 8]";
    expect_shape(0, two, 0, (int64_t[]){0, 2, 8});
    expect_shape(1, two, 0, (int64_t[]){2, 0, 8});
    expect_shape(-1, two, 0, (int64_t[]){2, 8, 0});
    expect_shape(0, two, 3, (int64_t[]){3, 2, 8});
    /* Nothing, or nothing of use, is declared; or what is known by itself is declared wrongly. */
    expect_shape(0, "", 0, (int64_t[]){0, 0, 8});
    expect_shape(0, ", ouro.scan_output_shapes = [2, 2, 8, -1]", 0, (int64_t[]){0, 0, 8});
    expect_shape(0, ", ouro.scan_output_shapes = [-1, 2, -1, 8]", 0, (int64_t[]){0, 0, 8});
    expect_shape(0, ", ouro.scan_output_shapes = [-1, 1, 7]", 0, (int64_t[]){0, 0, 8});
    expect_shape(0, ", ouro.scan_output_shapes = [-1, 2, 5, 9]", 0, (int64_t[]){0, 5, 8});
    expect_shape(0, ", ouro.scan_output_shapes = [-1, 2, 5, 9]", 2, (int64_t[]){2, 2, 8});
}

static ir_node *find_loop(const ir_module *module) {
    for (size_t n = 1; n < module->node_count; n++)
        if (module->nodes[n] && module->nodes[n]->code == OP_LOOP) return module->nodes[n];
    fail_msg("no loop");
    return NULL;
}

/* What says nothing new is forgotten, so that plans of such models do not hold it. */
static void what_is_known_is_not_declared(void **state) {
    (void)state;
    static const struct {
        const char *declared;
        int32_t rank; /* of what is left for stack 1 */
    } cases[] = {{"[-1, 2, 2, 8]", 2}, {"[2, 2, 8, 2, -1, 8]", -1}, {"[-1, 1, 7]", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[2048], declared[128];
        snprintf(declared, sizeof declared, ", ouro.scan_output_shapes = %s", cases[i].declared);
        write_module(text, sizeof text, 0, declared);
        ir_module *module = support_module(text, true);
        base_arena scratch;
        base_arena_init(&scratch, NULL);
        base_report report = {0};
        pass_context context = {.module = module, .report = &report, .scratch = &scratch};
        assert_int_equal(pass_infer_shapes(&context), BASE_OK);
        const ir_loop loop = ir_loop_of(find_loop(module));
        assert_int_equal(ir_loop_declared(&loop, 1).rank, cases[i].rank);
        base_arena_free(&scratch);
        ir_module_free(module);
    }
}

static void lists_of_shapes(void **state) {
    (void)state;
    static const int64_t list[] = {2, 4, -1, -1, 0};
    const size_t length = sizeof list / sizeof list[0];
    op_shape shapes[3];
    int64_t written[3 * (1 + OP_MAX_RANK)];
    for (size_t i = 0; i < 3; i++) assert_true(op_shape_list_read(list, length, i, &shapes[i]));
    assert_int_equal(shapes[0].rank, 2);
    assert_int_equal(shapes[0].dims[0], 4);
    assert_true(shapes[0].dims[1] == OP_DIM_UNKNOWN);
    assert_int_equal(shapes[1].rank, -1);
    assert_int_equal(shapes[2].rank, 0);
    assert_int_equal(op_shape_list_write(shapes, 3, written), length);
    assert_memory_equal(written, list, sizeof list);
    assert_true(op_shape_list_holds(list, length, 3));
    for (size_t count = 0; count < 6; count++)
        if (count != 3) assert_false(op_shape_list_holds(list, length, count));
    assert_false(op_shape_list_holds(list, length - 1, 3));
    assert_false(op_shape_list_read(list, length, 3, &shapes[0]));
    static const int64_t wrong[][2] = {{2, 4},         {1, -2},       {-2, 0}, {OP_MAX_RANK + 1, 0},
                                       {INT64_MAX, 0}, {INT64_MIN, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(op_shape_list_holds(wrong[i], 2, 1));
        assert_false(op_shape_list_read(wrong[i], 2, 0, &shapes[0]));
    }
}

/* A Scan over T rows, of each of which it takes the first n. The body declares `declared`. */
static void write_scan(const char *path, const char *declared) {
    const int64_t zero = 0;
    onnx *o = onnx_new(17);
    onnx_input(o, o->graph, "n", 7, "1");
    onnx_input(o, o->graph, "x", 1, "T,4");
    onnx_integers(o, o->graph, "zero", 1, &zero);
    Onnx__GraphProto *body = onnx_graph(o, "body"), *types = onnx_graph(o, "types");
    onnx_input(o, body, "row", 1, "4");
    onnx_node(o, body, "Slice", "", "row,zero,n", "part");
    onnx_output(o, body, "part");
    onnx_input(o, types, "part", 1, declared);
    body->output[0] = types->input[0];
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Scan", "scan", "x", "all");
    onnx_set_graph(o, node, "body", body);
    onnx_set_integer(o, node, "num_scan_inputs", 1);
    onnx_set_integers(o, node, "scan_output_axes", "-1");
    onnx_node(o, o->graph, "Shape", "", "all", "shape");
    onnx_output(o, o->graph, "shape");
    onnx_write(o, path);
    onnx_free(o);
}

static void what_a_scan_declares(void **state) {
    (void)state;
    static const struct {
        const char *declared;
        int64_t rows, first, second;
    } cases[] = {{"3", 0, 3, 0}, {"3", 2, 2, 2},   {"?", 0, 0, 0},
                 {"n", 0, 0, 0}, {"3,3", 0, 0, 0}, {NULL, 0, 0, 0}};
    char path[] = "/tmp/ouro_declared_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const ouro_compile_options options = {.model_path = path};
        const int64_t n = 2, one = 1, dims[] = {cases[i].rows, 4};
        const float x[8] = {0};
        ouro_error error;
        ouro_plan *opened;
        ouro_session *session;
        ouro_tensor_info info;
        const void *found;
        write_scan(path, cases[i].declared);
        if (ouro_compile_plan(&options, &opened, &error) != OURO_OK) fail_msg("%s", error.message);
        assert_int_equal(ouro_session_new(opened, NULL, &session, &error), OURO_OK);
        assert_int_equal(ouro_session_bind_input(session, 0, &n, sizeof n, &one, &error), OURO_OK);
        assert_int_equal(ouro_session_bind_input(session, 1, x, 16 * (size_t)cases[i].rows, dims, &error),
                         OURO_OK);
        if (ouro_session_run(session, &error) != OURO_OK) fail_msg("%s", error.message);
        assert_int_equal(ouro_session_output(session, 0, &info, &found, &error), OURO_OK);
        const int64_t wanted[] = {cases[i].first, cases[i].second};
        assert_int_equal(info.bytes, sizeof wanted);
        assert_memory_equal(found, wanted, sizeof wanted);
        ouro_session_free(session);
        ouro_plan_free(opened);
    }
    (void)remove(path);
}

/* A plan whose list holds other than one shape for each stack is refused. */
static void wrong_lists_of_plans_are_refused(void **state) {
    (void)state;
    char text[2048];
    size_t size;
    write_module(text, sizeof text, 0, ", ouro.scan_output_shapes = [-1, 2, 2, 8]");
    unsigned char *bytes = support_plan(text, true, &size);
    const plan_header *header = (const plan_header *)bytes;
    const plan_attribute *attributes = (const plan_attribute *)(bytes + header->attributes.offset);
    int64_t *integers = (int64_t *)(bytes + header->integers.offset), *list = NULL;
    for (uint64_t i = 0; i < header->attributes.count; i++) {
        const char *name = (const char *)bytes + header->texts.offset + attributes[i].name;
        if (strcmp(name, "ouro.scan_output_shapes") == 0) list = integers + attributes[i].value;
    }
    assert_non_null(list);
    assert_int_equal(list[0], 2); /* the first stack has gone */
    static const int64_t ranks[] = {2, 1, 3, -2, OP_MAX_RANK + 1, INT64_MIN};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        ouro_error error;
        ouro_plan *opened = NULL;
        list[0] = ranks[i];
        support_plan_seal(bytes, size);
        const ouro_status status = ouro_plan_open(bytes, size, &opened, &error);
        assert_int_equal(status == OURO_OK, i == 0);
        if (i) assert_non_null(strstr(error.message, "its inputs, outputs and body do not fit"));
        ouro_plan_free(opened);
    }
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_declared_holds_without_an_iteration),
        cmocka_unit_test(what_a_scan_declares),
        cmocka_unit_test(what_is_known_is_not_declared),
        cmocka_unit_test(lists_of_shapes),
        cmocka_unit_test(wrong_lists_of_plans_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_import.c: models and data files that are as they should be: encodings of tensors, external data,
 * functions, names, symbolic dimensions, order of nodes. Forms of operators are in test_import_convert.c,
 * files that are not as they should be in test_import_invalid.c. */
#include "compiler/onnx/import.h"
#include "onnx_data.pb-c.h"
#include "tests/support/support.h"
#include "tests/support/onnx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static base_report report;

static ir_module *import_bound(onnx *o, const import_dim *dims, size_t dim_count) {
    ir_module *module;
    base_report_clear(&report);
    onnx_write(o, "model.onnx");
    if (import_model("model.onnx", dims, dim_count, NULL, &module, &report) != BASE_OK)
        fail_msg("%s", report.text);
    if (ir_verify(module, "imported", &report) != BASE_OK) fail_msg("%s", report.text);
    assert_true(onnx_import_without_memory("model.onnx", dims, dim_count) > 0);
    unlink("model.onnx");
    return module;
}

static ir_module *import_valid(onnx *o) {
    return import_bound(o, NULL, 0);
}

/* The whole module as text, and everything freed. */
static void expect_text(onnx *o, const char *golden) {
    ir_module *module = import_valid(o);
    char *text = support_print(module, false);
    support_expect_golden(golden, text);
    free(text);
    ir_module_free(module);
    onnx_free(o);
}

static const ir_value *constant_named(const ir_module *module, const char *name) {
    for (size_t i = 1; i < module->value_count; i++) {
        const ir_value *value = module->values[i];
        if (value && value->constant && strcmp(value->name, name) == 0) return value;
    }
    fail_msg("no constant %s", name);
    return NULL;
}

/* ---- encodings ----------------------------------------------------------------------------------------- */

/* Every dtype, in its typed field and as raw data, gives the same bytes. */
static void test_encodings(void **state) {
    (void)state;
    onnx *o = onnx_new(13);
    Onnx__TensorProto *t;
    static float floats[] = {1.5f, -2.25f}, complexes[] = {1, 2, 3, 4};
    static double doubles[] = {1.5, -2.25}, wide_complexes[] = {1, 2, 3, 4};
    static int32_t narrow[] = {-1, 100}, bits[] = {0x3c00, 0xc000}, bools[] = {0, 7}, bytes[] = {255, 1};
    static int64_t longs[] = {-5, INT64_MAX};
    static uint64_t unsigned_longs[] = {5, UINT64_MAX}, unsigned_ints[] = {5, UINT32_MAX};
    ProtobufCBinaryData strings[] = {{3, (uint8_t *)"abc"}, {0, NULL}};
#define TYPED(dtype, field, values)                                                                          \
    t = onnx_tensor(o, "typed" #dtype, dtype, "2");                                                          \
    t->field = values;                                                                                       \
    t->n_##field = sizeof values / sizeof *values;                                                           \
    onnx_initializer(o, o->graph, t)
    TYPED(1, float_data, floats);
    TYPED(2, int32_data, bytes);
    TYPED(3, int32_data, narrow);
    TYPED(4, int32_data, bits);
    TYPED(5, int32_data, narrow);
    TYPED(6, int32_data, narrow);
    TYPED(7, int64_data, longs);
    TYPED(8, string_data, strings);
    TYPED(9, int32_data, bools);
    TYPED(10, int32_data, bits);
    TYPED(11, double_data, doubles);
    TYPED(12, uint64_data, unsigned_ints);
    TYPED(13, uint64_data, unsigned_longs);
    TYPED(14, float_data, complexes);
    TYPED(15, double_data, wide_complexes);
    TYPED(16, int32_data, bits);
#undef TYPED
    static const struct {
        int dtype;
        const void *bytes;
        size_t size;
    } raw[] = {
        {1, floats, sizeof floats},
        {2, "\xff\x01", 2},
        {3, "\xff\x64", 2},
        {4, "\x00\x3c\x00\xc0", 4},
        {5, "\xff\xff\x64\x00", 4},
        {6, narrow, sizeof narrow},
        {7, longs, sizeof longs},
        {9, "\x00\x07", 2},
        {10, "\x00\x3c\x00\xc0", 4},
        {11, doubles, sizeof doubles},
        {12, "\x05\x00\x00\x00\xff\xff\xff\xff", 8},
        {13, unsigned_longs, sizeof unsigned_longs},
        {14, complexes, sizeof complexes},
        {15, wide_complexes, sizeof wide_complexes},
        {16, "\x00\x3c\x00\xc0", 4},
    };
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        char name[20];
        snprintf(name, sizeof name, "raw%d", raw[i].dtype);
        t = onnx_tensor(o, name, raw[i].dtype, "2");
        onnx_raw(o, t, raw[i].bytes, raw[i].size);
        onnx_initializer(o, o->graph, t);
    }
    onnx_initializer(o, o->graph, onnx_tensor(o, "none", 1, "0,3"));
    onnx_input(o, o->graph, "x", 1, "");
    onnx_output(o, o->graph, "x");
    ir_module *module = import_valid(o);
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        char name[20];
        snprintf(name, sizeof name, "raw%d", raw[i].dtype);
        const op_tensor *a = &constant_named(module, name)->constant->tensor;
        snprintf(name, sizeof name, "typed%d", raw[i].dtype);
        const op_tensor *b = &constant_named(module, name)->constant->tensor;
        assert_int_equal(a->type.dtype, raw[i].dtype);
        assert_int_equal(a->bytes, raw[i].size);
        assert_int_equal(b->bytes, raw[i].size);
        if (raw[i].dtype == 9) assert_memory_equal(a->data, "\x00\x01", 2); /* a bool is 0 or 1 */
        else assert_memory_equal(a->data, raw[i].bytes, raw[i].size);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
    const op_string *texts = constant_named(module, "typed8")->constant->tensor.data;
    assert_int_equal(texts[0].length, 3);
    assert_memory_equal(texts[0].data, "abc", 3);
    assert_int_equal(texts[1].length, 0);
    assert_int_equal(constant_named(module, "none")->constant->tensor.bytes, 0);
    ir_module_free(module);
    onnx_free(o);
}

static Onnx__SparseTensorProto *sparse_new(onnx *o, const char *name, const char *index_shape,
                                           const int64_t *indices, size_t index_bytes) {
    Onnx__SparseTensorProto *sparse = onnx_take(o, sizeof *sparse);
    onnx__sparse_tensor_proto__init(sparse);
    sparse->values = onnx_tensor(o, name, 1, "2");
    onnx_raw(o, sparse->values, (float[]){1.5f, 2.5f}, 8);
    sparse->indices = onnx_tensor(o, "", 7, index_shape);
    onnx_raw(o, sparse->indices, indices, index_bytes);
    sparse->n_dims = 2;
    sparse->dims = onnx_take(o, 2 * sizeof *sparse->dims);
    sparse->dims[0] = 2;
    sparse->dims[1] = 3;
    return sparse;
}

static void test_sparse(void **state) {
    (void)state;
    onnx *o = onnx_new(13);
    Onnx__SparseTensorProto *linear = sparse_new(o, "linear", "2", (int64_t[]){1, 5}, 16);
    Onnx__SparseTensorProto *pairs = sparse_new(o, "pairs", "2,2", (int64_t[]){0, 1, 1, 2}, 32);
    ONNX_ADD(o, o->graph->n_sparse_initializer, o->graph->sparse_initializer, linear);
    ONNX_ADD(o, o->graph->n_sparse_initializer, o->graph->sparse_initializer, pairs);
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Constant", "", "", "c");
    onnx_attribute(o, node, "sparse_value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSOR)
        ->sparse_tensor = linear;
    onnx_output(o, o->graph, "c");
    ir_module *module = import_valid(o);
    static const float expected[6] = {0, 1.5f, 0, 0, 0, 2.5f};
    static const char *const names[] = {"linear", "pairs"};
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(constant_named(module, names[i])->constant->tensor.data, expected,
                            sizeof expected);
    }
    ir_module_free(module);
    onnx_free(o);
}

static void test_constant_forms(void **state) {
    (void)state;
    onnx *o = onnx_new(13);
    static float floats[] = {1, 2};
    Onnx__TensorProto *tensor = onnx_tensor(o, "", 6, "1,2");
    onnx_raw(o, tensor, (int32_t[]){3, 4}, 8);
    onnx_set_tensor(o, onnx_node(o, o->graph, "Constant", "", "", "tensor"), "value", tensor);
    onnx_set_real(o, onnx_node(o, o->graph, "Constant", "", "", "real"), "value_float", 2.5f);
    onnx_set_integer(o, onnx_node(o, o->graph, "Constant", "", "", "integer"), "value_int", -7);
    onnx_set_integers(o, onnx_node(o, o->graph, "Constant", "", "", "integers"), "value_ints", "1,2,3");
    onnx_set_text(o, onnx_node(o, o->graph, "Constant", "", "", "text"), "value_string", "hello");
    Onnx__AttributeProto *a = onnx_attribute(o, onnx_node(o, o->graph, "Constant", "", "", "reals"),
                                             "value_floats", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
    a->n_floats = 2;
    a->floats = floats;
    static ProtobufCBinaryData strings[] = {{1, (uint8_t *)"a"}, {2, (uint8_t *)"bc"}};
    a = onnx_attribute(o, onnx_node(o, o->graph, "Constant", "", "", "texts"), "value_strings",
                       ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
    a->n_strings = 2;
    a->strings = strings;
    onnx_output(o, o->graph, "tensor");
    onnx_output(o, o->graph, "text");
    expect_text(o, "compiler/onnx/cases/constants.ir");
}

/* One tree of two leaves, whose weights are positive, for two classes: with LOGISTIC the scores go through the logistic function. */
static void test_logistic_trees(void **state) {
    (void)state;
    static float values[] = {0.5f, 0, 0}, weights[] = {0.25f, 3};
    static ProtobufCBinaryData modes[] = {
        {10, (uint8_t *)"BRANCH_LEQ"}, {4, (uint8_t *)"LEAF"}, {4, (uint8_t *)"LEAF"}};
    onnx *o = onnx_new(17);
    onnx_opset(o, "ai.onnx.ml", 1);
    onnx_input(o, o->graph, "x", 1, "4,2");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "TreeEnsembleClassifier", "", "x", "label,scores");
    node->domain = onnx_text(o, "ai.onnx.ml");
    static const char *const lists[][2] = {{"nodes_treeids", "0,0,0"},      {"nodes_nodeids", "0,1,2"},
                                           {"nodes_featureids", "1,0,0"},   {"nodes_truenodeids", "1,0,0"},
                                           {"nodes_falsenodeids", "2,0,0"}, {"class_treeids", "0,0"},
                                           {"class_nodeids", "1,2"},        {"class_ids", "0,0"},
                                           {"classlabels_int64s", "0,1"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        onnx_set_integers(o, node, lists[i][0], lists[i][1]);
    onnx_set_text(o, node, "post_transform", "LOGISTIC");
    Onnx__AttributeProto *a =
        onnx_attribute(o, node, "nodes_values", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
    a->n_floats = 3;
    a->floats = values;
    a = onnx_attribute(o, node, "class_weights", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
    a->n_floats = 2;
    a->floats = weights;
    a = onnx_attribute(o, node, "nodes_modes", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
    a->n_strings = 3;
    a->strings = modes;
    onnx_output(o, o->graph, "label");
    onnx_output(o, o->graph, "scores");
    ir_module *module = import_valid(o);
    const ir_value *scores = module->main->results[1]->value;
    assert_non_null(scores->node);
    assert_int_equal(scores->node->code, OP_SIGMOID);
    ir_module_free(module);
    onnx_free(o);
}

/* ---- external data ------------------------------------------------------------------------------------- */

static void test_external(void **state) {
    (void)state;
    float values[64];
    for (int i = 0; i < 64; i++) values[i] = (float)i;
    assert_int_equal(mkdir("weights", 0700), 0);
    onnx_write_bytes("weights/w.bin", values, sizeof values);
    onnx *o = onnx_new(13);
    static const char *const names[] = {"all", "part", "odd"};
    static const char *const places[][4] = {
        {"64", "weights/w.bin", NULL, NULL}, /* without a length: as much as the shape wants */
        {"2,4", "./weights//w.bin", "16", "32"},
        {"1", "weights/w.bin", "3", "4"}, /* any offset */
    };
    for (size_t i = 0; i < 3; i++) {
        Onnx__TensorProto *t = onnx_tensor(o, names[i], 1, places[i][0]);
        onnx_external(o, t, places[i][1], places[i][2], places[i][3]);
        onnx_initializer(o, o->graph, t);
    }
    onnx_output(o, o->graph, "part");
    ir_module *module = import_valid(o);
    assert_memory_equal(constant_named(module, "all")->constant->tensor.data, values, sizeof values);
    assert_memory_equal(constant_named(module, "part")->constant->tensor.data, values + 4, 32);
    assert_memory_equal(constant_named(module, "odd")->constant->tensor.data, (char *)values + 3, 4);
    assert_string_equal(ir_graph_result_name(module->main, 0), "part");
    ir_module_free(module);
    onnx_free(o);
    unlink("weights/w.bin");
    rmdir("weights");
}

/* ---- names and types ----------------------------------------------------------------------------------- */

/* Outputs keep their names, also where they are an input, an initializer, or the same value twice. */
static void test_interface_names(void **state) {
    (void)state;
    onnx *o = onnx_new(13);
    onnx_input(o, o->graph, "x", 1, "2");
    onnx_floats(o, o->graph, "w", 2, (float[]){1, 2});
    onnx_node(o, o->graph, "Relu", "", "x", "y");
    onnx_output(o, o->graph, "x");
    onnx_output(o, o->graph, "w");
    onnx_output(o, o->graph, "y");
    onnx_output(o, o->graph, "y");
    expect_text(o, "compiler/onnx/cases/interface.ir");
}

/* Initializers are constants, whether the graph lists them as inputs too or not. */
static void test_initializers_as_inputs(void **state) {
    (void)state;
    onnx *o = onnx_new(7);
    o->model->ir_version = 3;
    onnx_input(o, o->graph, "w", 1, "2");
    onnx_input(o, o->graph, "x", 1, "2");
    onnx_floats(o, o->graph, "w", 2, (float[]){1, 2});
    onnx_node(o, o->graph, "Add", "", "x,w", "y");
    onnx_output(o, o->graph, "y");
    ir_module *module = import_valid(o);
    assert_int_equal(module->main->parameter_count, 1);
    assert_string_equal(module->main->parameters[0]->name, "x");
    ir_module_free(module);
    onnx_free(o);
}

/* An input with a default value stays an input where that is wanted, be its default dense or sparse; names that no input has change nothing. */
static void test_kept_inputs(void **state) {
    (void)state;
    static const char *const kept[] = {"w", "none", "x"};
    onnx *o = onnx_new(13);
    onnx_input(o, o->graph, "w", 1, "2");
    onnx_input(o, o->graph, "v", 1, "2");
    onnx_input(o, o->graph, "x", 1, "2");
    onnx_floats(o, o->graph, "w", 2, (float[]){1, 2});
    onnx_floats(o, o->graph, "v", 2, (float[]){3, 4});
    onnx_node(o, o->graph, "Add", "", "x,w", "z");
    onnx_node(o, o->graph, "Mul", "", "z,v", "y");
    onnx_output(o, o->graph, "y");
    onnx_write(o, "model.onnx");
    ir_module *module;
    base_report_clear(&report);
    const import_options options = {.kept = kept, .kept_count = 3};
    if (import_model_with("model.onnx", &options, NULL, &module, &report) != BASE_OK)
        fail_msg("%s", report.text);
    if (ir_verify(module, "imported", &report) != BASE_OK) fail_msg("%s", report.text);
    assert_int_equal(module->main->parameter_count, 2);
    assert_string_equal(module->main->parameters[0]->name, "w");
    assert_string_equal(module->main->parameters[1]->name, "x");
    assert_non_null(constant_named(module, "v"));
    ir_module_free(module);
    unlink("model.onnx");
    onnx_free(o);
}

static onnx *make_symbolic(void) {
    onnx *o = onnx_new(13);
    onnx_input(o, o->graph, "x", 1, "batch,?,3");
    onnx_input(o, o->graph, "y", 1, "batch,time,3");
    onnx_node(o, o->graph, "Add", "", "x,y", "z");
    onnx_output(o, o->graph, "z");
    return o;
}

static void test_dimensions(void **state) {
    (void)state;
    expect_text(make_symbolic(), "compiler/onnx/cases/symbols.ir");
    onnx *o = make_symbolic();
    ir_module *module = import_bound(o, (import_dim[]){{"time", 7}}, 1);
    const op_shape *y = &module->main->parameters[1]->type.shape;
    assert_int_equal(y->dims[0], module->main->parameters[0]->type.shape.dims[0]);
    assert_true(y->dims[0] < 0);
    assert_int_equal(y->dims[1], 7);
    ir_module_free(module);
    onnx_write(o, "model.onnx");
    onnx_free(o);
    base_report_clear(&report);
    assert_int_equal(import_model("model.onnx", (import_dim[]){{"tim", 7}}, 1, NULL, &module, &report),
                     BASE_INVALID);
    assert_null(module);
    assert_string_equal(
        report.text,
        "model.onnx: main: no symbolic dimension is called \"tim\"; the model has \"batch\", \"time\"\n");
    unlink("model.onnx");
}

/* A name that is made up for an extent is not one that the model gives to another, before or after. */
static void test_made_up_names(void **state) {
    (void)state;
    onnx *o = onnx_new(13);
    onnx_input(o, o->graph, "x", 1, "2,-1,-1");
    onnx_input(o, o->graph, "z", 1, "x.1,3");
    onnx_node(o, o->graph, "Relu", "", "x", "y");
    onnx_output(o, o->graph, "y");
    ir_module *module = import_valid(o);
    const op_shape *x = &module->main->parameters[0]->type.shape,
                   *z = &module->main->parameters[1]->type.shape;
    assert_true(x->dims[1] == OP_DIM_UNKNOWN);
    assert_true(x->dims[2] < 0 && x->dims[2] != OP_DIM_UNKNOWN && module->symbols[-x->dims[2]].unnamed);
    assert_true(z->dims[0] < 0 && !module->symbols[-z->dims[0]].unnamed);
    ir_module_free(module);
    onnx_free(o);
}

/* ---- order, functions ---------------------------------------------------------------------------------- */

/* What exporters write that means something all the same: negative dimensions are dynamic, versions of domains that no node is of do
 * not matter, an opset newer than the newest known is tried, and the module says so. A loop whose body declares its number as a
 * vector of one hands it one. */
static void test_habits(void **state) {
    (void)state;
    onnx *o = onnx_new(1000);
    onnx_opset(o, "com.example.unused", 0);
    onnx_input(o, o->graph, "x", 1, "2,-1");
    onnx_node(o, o->graph, "Relu", "", "x", "y");
    onnx_output(o, o->graph, "y");
    /* Some write 0 for a dimension beside its symbol, which comes after it in the file: the last one counts. */
    onnx_input(o, o->graph, "z", 1, "0,3");
    Onnx__TypeProto__Tensor *both = o->graph->input[1]->type->tensor_type;
    ProtobufCMessageUnknownField symbol = {
        .tag = 2, .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, .len = 2, .data = (uint8_t *)"\1N"};
    both->shape->dim[0]->base.n_unknown_fields = 1;
    both->shape->dim[0]->base.unknown_fields = &symbol;
    ir_module *module = import_valid(o);
    /* A name for it is made up. */
    const int64_t open = module->main->parameters[0]->type.shape.dims[1];
    assert_true(open < 0 && open != OP_DIM_UNKNOWN && module->symbols[-open].unnamed);
    assert_true(module->main->parameters[1]->type.shape.dims[0] < 0);
    assert_int_equal(module->main->parameters[1]->type.shape.dims[1], 3);
    assert_string_equal(
        module->warning,
        "the model is of opset 1000; its operators are taken as those of opset 27, the newest known");
    ir_module_free(module);
    onnx_free(o);

    o = onnx_new(27);
    onnx_integers(o, o->graph, "trips", -1, (int64_t[]){3});
    Onnx__GraphProto *body = onnx_graph(o, "body");
    onnx_input(o, body, "i", 7, "1");
    onnx_input(o, body, "go", 9, "");
    onnx_node(o, body, "Identity", "", "go", "go_on");
    onnx_node(o, body, "Identity", "", "i", "number");
    onnx_output(o, body, "go_on");
    onnx_output(o, body, "number");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Loop", "repeat", "trips,", "numbers");
    onnx_set_graph(o, node, "body", body);
    onnx_output(o, o->graph, "numbers");
    module = import_valid(o);
    assert_null(module->warning);
    const ir_graph *made = module->main->first->graphs[0];
    assert_int_equal(made->parameters[0]->type.shape.rank, 0);
    assert_int_equal(made->results[1]->value->type.shape.rank, 1);
    ir_module_free(module);
    onnx_free(o);
}

static void test_unsorted(void **state) {
    (void)state;
    onnx *o = onnx_new(13);
    onnx_input(o, o->graph, "x", 1, "2");
    onnx_input(o, o->graph, "go", 9, "");
    Onnx__GraphProto *branch = onnx_graph(o, "b");
    onnx_node(o, branch, "Neg", "inner", "b", "r"); /* b is computed after the If */
    onnx_output(o, branch, "r");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "If", "choose", "go", "d");
    onnx_set_graph(o, node, "then_branch", branch);
    onnx_set_graph(o, node, "else_branch", branch);
    onnx_node(o, o->graph, "Relu", "second", "a", "b");
    onnx_node(o, o->graph, "Abs", "first", "x", "a");
    onnx_node(o, o->graph, "Exp", "free", "x", "c");
    onnx_output(o, o->graph, "d");
    onnx_output(o, o->graph, "c");
    expect_text(o, "compiler/onnx/cases/unsorted.ir");
}

/* A function that calls a function; attributes given, not given, and passed on; an optional input not given;
 * a tensor that both calls share; an opset of its own. */
static void test_functions(void **state) {
    (void)state;
    onnx *o = onnx_new(13);
    onnx_opset(o, "own", 1);
    Onnx__FunctionProto *inner = onnx_function(o, "own", "Leaky", "x", "y", 13);
    Onnx__NodeProto *leaky = onnx_function_node(o, inner, "LeakyRelu", "x", "y");
    onnx_attribute(o, leaky, "alpha", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT)->ref_attr_name =
        onnx_text(o, "slope");
    Onnx__FunctionProto *outer = onnx_function(o, "own", "Twice", "x,low", "z", 11);
    Onnx__TensorProto *weight = onnx_tensor(o, "", 1, "2");
    onnx_raw(o, weight, (float[]){1, 2}, 8);
    onnx_set_tensor(o, onnx_function_node(o, outer, "Constant", "", "w"), "value", weight);
    Onnx__NodeProto *call = onnx_function_node(o, outer, "Leaky", "x", "t");
    call->domain = onnx_text(o, "own");
    onnx_attribute(o, call, "slope", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT)->ref_attr_name =
        onnx_text(o, "s");
    onnx_function_node(o, outer, "Clip", "t,low", "u");
    onnx_set_integers(o, onnx_function_node(o, outer, "Unsqueeze", "u", "v"), "axes",
                      "0"); /* as in opset 11 */
    onnx_function_node(o, outer, "Mul", "v,w", "z");
    onnx_input(o, o->graph, "x", 1, "2");
    onnx_input(o, o->graph, "low", 1, "");
    Onnx__NodeProto *first = onnx_node(o, o->graph, "Twice", "first", "x,low", "a");
    first->domain = onnx_text(o, "own");
    onnx_set_real(o, first, "s", 0.5f);
    onnx_node(o, o->graph, "Twice", "second", "x", "b")->domain = onnx_text(o, "own");
    onnx_output(o, o->graph, "a");
    onnx_output(o, o->graph, "b");
    expect_text(o, "compiler/onnx/cases/functions.ir");
}

/* ---- data files ---------------------------------------------------------------------------------------- */

static void write_message(const char *path, const ProtobufCMessage *message) {
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    assert_non_null(bytes);
    protobuf_c_message_pack(message, bytes);
    onnx_write_bytes(path, bytes, size);
    free(bytes);
}

static void test_values(void **state) {
    (void)state;
    onnx *o = onnx_new(13);
    base_arena arena;
    base_arena_init(&arena, NULL);
    import_value value;
    Onnx__TensorProto *tensor = onnx_tensor(o, "t", 1, "2");
    onnx_raw(o, tensor, (float[]){1, 2}, 8);
    write_message("tensor.pb", &tensor->base);
    assert_int_equal(import_value_read("tensor.pb", NULL, &arena, &value, &report), BASE_OK);
    assert_int_equal(value.kind, OP_KIND_TENSOR);
    assert_int_equal((uintptr_t)value.tensor.data % 64, 0);
    assert_memory_equal(value.tensor.data, ((float[]){1, 2}), 8);

    Onnx__TensorProto *text = onnx_tensor(o, "t", 8, "2");
    ProtobufCBinaryData strings[] = {{3, (uint8_t *)"abc"}, {1, (uint8_t *)"d"}};
    text->n_string_data = 2;
    text->string_data = strings;
    Onnx__SequenceProto sequence = ONNX__SEQUENCE_PROTO__INIT;
    Onnx__TensorProto *items[] = {tensor, text};
    sequence.has_elem_type = 1;
    sequence.elem_type = ONNX__SEQUENCE_PROTO__DATA_TYPE__TENSOR;
    sequence.n_tensor_values = 2;
    sequence.tensor_values = items;
    write_message("sequence.pb", &sequence.base);
    op_type type = {.kind = OP_KIND_SEQUENCE};
    assert_int_equal(import_value_read("sequence.pb", &type, &arena, &value, &report), BASE_OK);
    assert_int_equal(value.count, 2);
    const op_string *read = value.elements[1].tensor.data;
    assert_memory_equal(read[0].data, "abc", 3);
    assert_memory_equal(read[1].data, "d", 1);

    Onnx__OptionalProto optional = ONNX__OPTIONAL_PROTO__INIT;
    type.kind = OP_KIND_OPTIONAL;
    write_message("optional.pb", &optional.base); /* empty: a file of no bytes */
    assert_int_equal(import_value_read("optional.pb", &type, &arena, &value, &report), BASE_OK);
    assert_int_equal(value.count, 0);
    optional.sequence_value = &sequence;
    write_message("optional.pb", &optional.base);
    assert_int_equal(import_value_read("optional.pb", &type, &arena, &value, &report), BASE_OK);
    assert_int_equal(value.count, 1);
    assert_int_equal(value.elements[0].kind, OP_KIND_SEQUENCE);
    assert_int_equal(value.elements[0].count, 2);

    /* Maps: values one by one, or in one tensor; of texts the file's bytes go, the values stay. */
    Onnx__MapProto map = ONNX__MAP_PROTO__INIT, *maps[] = {&map, &map};
    Onnx__SequenceProto list = ONNX__SEQUENCE_PROTO__INIT, numbers = ONNX__SEQUENCE_PROTO__INIT;
    Onnx__TensorProto *single = onnx_tensor(o, "s", 1, ""), *singles[] = {single, single}, *both[] = {tensor};
    onnx_raw(o, single, (float[]){5}, 4);
    map.n_string_keys = 2;
    map.string_keys = strings;
    map.values = &numbers;
    numbers.n_tensor_values = 2;
    numbers.tensor_values = singles;
    list.n_map_values = 2;
    list.map_values = maps;
    type.kind = OP_KIND_SEQUENCE;
    write_message("maps.pb", &list.base);
    assert_int_equal(import_value_read("maps.pb", &type, &arena, &value, &report), BASE_OK);
    assert_int_equal(value.count, 2);
    assert_int_equal(value.elements[1].kind, OP_KIND_MAP);
    assert_int_equal(value.elements[1].count, 2);
    read = value.elements[1].elements[0].tensor.data;
    assert_memory_equal(read[0].data, "abc", 3);
    assert_memory_equal(value.elements[1].elements[1].tensor.data, ((float[]){5, 5}), 8);
    map.n_string_keys = 0;
    map.n_keys = 2;
    map.keys = (int64_t[]){-4, 9};
    numbers.n_tensor_values = 1;
    numbers.tensor_values = both;
    type.kind = OP_KIND_MAP;
    write_message("maps.pb", &map.base);
    assert_int_equal(import_value_read("maps.pb", &type, &arena, &value, &report), BASE_OK);
    assert_memory_equal(value.elements[0].tensor.data, ((int64_t[]){-4, 9}), 16);
    assert_memory_equal(value.elements[1].tensor.data, ((float[]){1, 2}), 8);
    map.n_keys = 1;
    write_message("maps.pb", &map.base);
    assert_int_equal(import_value_read("maps.pb", &type, &arena, &value, &report), BASE_INVALID);
    assert_non_null(strstr(report.text, "value 0 of a map is no single float32"));
    map.n_keys = 2;
    numbers.n_tensor_values = 0;
    base_report_clear(&report);
    write_message("maps.pb", &map.base);
    assert_int_equal(import_value_read("maps.pb", &type, &arena, &value, &report), BASE_INVALID);
    assert_non_null(strstr(report.text, "a map has 2 keys and 0 values"));
    unlink("maps.pb");

    base_report_clear(&report);
    assert_int_equal(import_value_read("nowhere.pb", NULL, &arena, &value, &report), BASE_INVALID);
    assert_string_equal(report.text, "nowhere.pb: cannot be opened: No such file or directory\n");
    base_report_clear(&report);
    tensor->dims[0] = 3;
    write_message("tensor.pb", &tensor->base);
    assert_int_equal(import_value_read("tensor.pb", NULL, &arena, &value, &report), BASE_INVALID);
    assert_string_equal(report.text, "tensor.pb: tensor \"t\": 8 bytes of data, its shape wants 12\n");
    base_arena_free(&arena);
    onnx_free(o);
    unlink("tensor.pb");
    unlink("sequence.pb");
    unlink("optional.pb");
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    char folder[] = "/tmp/ouro_import_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1; /* messages and modules then have no path in them */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_constant_forms),
        cmocka_unit_test(test_logistic_trees),
        cmocka_unit_test(test_external),
        cmocka_unit_test(test_interface_names),
        cmocka_unit_test(test_initializers_as_inputs),
        cmocka_unit_test(test_kept_inputs),
        cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_made_up_names),
        cmocka_unit_test(test_habits),
        cmocka_unit_test(test_unsorted),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_values),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return chdir("/") != 0 || rmdir(folder) != 0 ? 1 : failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_import_invalid.c: models that are wrong, from careless to hostile: each gives one clear line (golden)
 * and BASE_INVALID; random damage and failing allocations never crash or leak. */
#include "compiler/onnx/import.h"
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

/* ---- one line each ------------------------------------------------------------------------------------- */

/* A valid model: x and w, y = Add(x, w), and its node, to be spoiled. */
static Onnx__NodeProto *start(onnx *o) {
    onnx_input(o, o->graph, "x", 1, "2");
    onnx_floats(o, o->graph, "w", 2, (float[]){1, 2});
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Add", "add", "x,w", "y");
    onnx_output(o, o->graph, "y");
    return node;
}

static void no_graph(onnx *o) {
    o->model->graph = NULL;
}
static void no_outputs(onnx *o) {
    onnx_input(o, o->graph, "x", 1, "2");
}
static void output_not_computed(onnx *o) {
    start(o);
    onnx_output(o, o->graph, "z");
}
static void output_without_name(onnx *o) {
    start(o);
    onnx_output(o, o->graph, "");
}
static void no_opset(onnx *o) {
    start(o);
    o->model->n_opset_import = 0;
}
static void opset_zero(onnx *o) {
    start(o);
    o->model->opset_import[0]->version = 0;
}
static void crop_axes(onnx *o) {
    onnx_input(o, o->graph, "x", 1, "4,5");
    onnx_integers(o, o->graph, "s", 1, (int64_t[]){3});
    onnx_node(o, o->graph, "CenterCropPad", "crop", "x,s", "y");
    onnx_output(o, o->graph, "y");
    o->model->opset_import[0]->version = 18;
}
static void unknown_operators(onnx *o) {
    start(o);
    onnx_node(o, o->graph, "Foo", "one", "x", "a");
    onnx_node(o, o->graph, "Foo", "two", "x", "b");
    onnx_node(o, o->graph, "Bar", "", "x", "c");
    onnx_opset(o, "com.example", 3);
    onnx_node(o, o->graph, "Add", "three", "x", "d")->domain = onnx_text(o, "com.example");
    onnx_node(o, o->graph, "Reorder", "four", "x", "e")->domain = onnx_text(o, "ouro");
}
/* The second one lacks a type for no other reason than that the first one does not fit. */
static void refused_before(onnx *o) {
    start(o);
    onnx_floats(o, o->graph, "three", 3, (float[]){1, 2, 3});
    onnx_node(o, o->graph, "Add", "first", "x,three", "a");
    onnx_node(o, o->graph, "Mean", "second", "a,a", "b");
    onnx_output(o, o->graph, "b");
}
static void cycle(onnx *o) {
    start(o);
    onnx_node(o, o->graph, "Add", "first", "x,c", "a");
    onnx_node(o, o->graph, "Relu", "second", "a", "b");
    onnx_node(o, o->graph, "Relu", "third", "b", "c");
}
static void cycle_of_one(onnx *o) {
    start(o);
    onnx_node(o, o->graph, "Relu", "self", "a", "a");
}
static void cycle_through_capture(onnx *o) {
    start(o);
    Onnx__GraphProto *branch = onnx_graph(o, "b");
    onnx_node(o, branch, "Relu", "", "a", "r");
    onnx_output(o, branch, "r");
    onnx_input(o, o->graph, "go", 9, "");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "If", "choose", "go", "a");
    onnx_set_graph(o, node, "then_branch", branch);
    onnx_set_graph(o, node, "else_branch", branch);
}
static void defined_by_two_nodes(onnx *o) {
    start(o);
    onnx_node(o, o->graph, "Relu", "again", "x", "y");
}
static void defined_as_input(onnx *o) {
    start(o);
    onnx_node(o, o->graph, "Relu", "again", "x", "x");
}
static void two_inputs(onnx *o) {
    start(o);
    onnx_input(o, o->graph, "x", 1, "2");
}
static void two_initializers(onnx *o) {
    start(o);
    onnx_floats(o, o->graph, "w", 2, (float[]){1, 2});
}
static void missing_input(onnx *o) {
    start(o)->input[1] = onnx_text(o, "nowhere");
}
static void absent_input(onnx *o) {
    start(o)->input[0] = onnx_text(o, "");
}
static void too_few_inputs(onnx *o) {
    start(o)->n_input = 1;
}
static void too_many_inputs(onnx *o) {
    start(o);
    onnx_node(o, o->graph, "MatMul", "product", "x,w,w", "p");
}
static void too_many_outputs(onnx *o) {
    start(o);
    onnx_node(o, o->graph, "Relu", "relu", "x", "p,q");
}
static void no_op_type(onnx *o) {
    start(o)->op_type = NULL;
}
static void input_without_type(onnx *o) {
    start(o);
    onnx_input(o, o->graph, "z", 0, NULL);
}
static void input_of_unknown_type(onnx *o) {
    start(o);
    onnx_input(o, o->graph, "z", 99, "2");
}
static void input_with_map(onnx *o) {
    start(o);
    onnx_input(o, o->graph, "z", 1, "2");
    Onnx__TypeProto *type = o->graph->input[1]->type;
    type->value_case = ONNX__TYPE_PROTO__VALUE_MAP_TYPE;
    type->map_type = onnx_take(o, sizeof *type->map_type);
    onnx__type_proto__map__init(type->map_type);
}
static void shape_too_large(onnx *o) {
    start(o);
    onnx_input(o, o->graph, "z", 1, "4294967296,4294967296");
}
static void rank_too_large(onnx *o) {
    start(o);
    onnx_input(o, o->graph, "z", 1, "1,1,1,1,1,1,1,1,1,1,1,1,1");
}
static void control_characters(onnx *o) {
    start(o)->input[1] = onnx_text(o, "a\nb\033[2Jc\x01");
}
static void not_utf8(onnx *o) {
    start(o)->input[1] = onnx_text(o, "caf\xc3\xa9 \xff\xc3 \xc2\x9b \xed\xa0\x80 \xc0\xaf");
}
static void long_name(onnx *o) {
    char *name = onnx_take(o, 100001);
    memset(name, 'n', 100000);
    start(o)->input[1] = name;
}

/* attributes */
static void attribute_of_wrong_kind(onnx *o) {
    start(o);
    onnx_set_real(o, onnx_node(o, o->graph, "Concat", "join", "x,w", "c"), "axis", 1);
}
static void attribute_missing(onnx *o) {
    start(o);
    onnx_node(o, o->graph, "Concat", "join", "x,w", "c");
}
static void attribute_unknown(onnx *o) {
    onnx_set_integer(o, start(o), "axis", 1);
}
static void attribute_internal(onnx *o) {
    start(o);
    onnx_set_text(o, onnx_node(o, o->graph, "MatMul", "product", "x,w", "c"), "ouro.activation", "Relu");
}
static void attribute_twice(onnx *o) {
    start(o);
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Concat", "join", "x,w", "c");
    onnx_set_integer(o, node, "axis", 0);
    onnx_set_integer(o, node, "axis", 1);
}
static void attribute_empty(onnx *o) {
    start(o);
    onnx_set_tensor(o, onnx_node(o, o->graph, "Constant", "", "", "c"), "value", NULL);
}
static void attribute_reference(onnx *o) {
    start(o);
    onnx_attribute(o, onnx_node(o, o->graph, "Elu", "elu", "x", "c"), "alpha", 1)->ref_attr_name =
        onnx_text(o, "a");
}
static void constant_without_value(onnx *o) {
    start(o);
    onnx_node(o, o->graph, "Constant", "", "", "c");
}
static void cast_to_nothing(onnx *o) {
    o->model->opset_import[0]->version = 5;
    start(o);
    onnx_set_text(o, onnx_node(o, o->graph, "Cast", "cast", "x", "c"), "to", "NUMBER");
}
static void slice_lists_differ(onnx *o) {
    o->model->opset_import[0]->version = 9;
    start(o);
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Slice", "slice", "x", "c");
    onnx_set_integers(o, node, "starts", "0,1");
    onnx_set_integers(o, node, "ends", "1");
}
static void softmax_axis(onnx *o) {
    o->model->opset_import[0]->version = 11;
    start(o);
    onnx_set_integer(o, onnx_node(o, o->graph, "Softmax", "soft", "x", "c"), "axis", 5);
}
static void broadcast_axis(onnx *o) {
    o->model->opset_import[0]->version = 6;
    Onnx__NodeProto *node = start(o);
    onnx_set_integer(o, node, "broadcast", 1);
    onnx_set_integer(o, node, "axis", 3);
}
static void no_training(onnx *o) {
    o->model->opset_import[0]->version = 6;
    start(o);
    onnx_set_integer(o, onnx_node(o, o->graph, "BatchNormalization", "bn", "x,w,w,w,w", "c,d"), "is_test", 1);
    onnx_node(o, o->graph, "Relu", "relu", "d", "e");
}

/* tensors */
static Onnx__TensorProto *tensor(onnx *o, int dtype, const char *shape) {
    start(o);
    Onnx__TensorProto *made = onnx_tensor(o, "t", dtype, shape);
    onnx_initializer(o, o->graph, made);
    return made;
}
static void tensor_of_unknown_type(onnx *o) {
    tensor(o, 77, "2");
}
static void tensor_too_short(onnx *o) {
    onnx_raw(o, tensor(o, 1, "3"), "12345678", 8);
}
static void tensor_too_long(onnx *o) {
    onnx_raw(o, tensor(o, 1, "1"), "12345678", 8);
}
static void tensor_without_data(onnx *o) {
    tensor(o, 7, "1000000,1000000");
}
static void tensor_negative(onnx *o) {
    tensor(o, 1, "-1");
}
static void tensor_overflow(onnx *o) {
    tensor(o, 1, "4611686018427387904,4611686018427387904");
}
static void tensor_rank(onnx *o) {
    tensor(o, 1, "1,1,1,1,1,1,1,1,1,1,1,1,1");
}
static void tensor_narrow(onnx *o) {
    static int32_t values[] = {1, 300};
    Onnx__TensorProto *t = tensor(o, 2, "2");
    t->n_int32_data = 2;
    t->int32_data = values;
}
static void tensor_two_kinds(onnx *o) {
    static float values[] = {1, 2};
    Onnx__TensorProto *t = tensor(o, 1, "2");
    onnx_raw(o, t, "12345678", 8);
    t->n_float_data = 2;
    t->float_data = values;
}
static void tensor_wrong_field(onnx *o) {
    static float values[] = {1, 2};
    Onnx__TensorProto *t = tensor(o, 7, "2");
    t->n_float_data = 2;
    t->float_data = values;
}
static void tensor_raw_strings(onnx *o) {
    onnx_raw(o, tensor(o, 8, "1"), "abc", 3);
}
static void tensor_without_name(onnx *o) {
    tensor(o, 1, "0")->name = NULL;
}
static void sparse(onnx *o, int64_t index, const char *dims) {
    start(o);
    Onnx__SparseTensorProto *made = onnx_take(o, sizeof *made);
    onnx__sparse_tensor_proto__init(made);
    made->values = onnx_tensor(o, "s", 1, "1");
    onnx_raw(o, made->values, "1234", 4);
    made->indices = onnx_tensor(o, "", 7, "1");
    onnx_raw(o, made->indices, &index, 8);
    Onnx__TensorProto *shape = onnx_tensor(o, "", 7, dims);
    made->n_dims = shape->n_dims;
    made->dims = shape->dims;
    ONNX_ADD(o, o->graph->n_sparse_initializer, o->graph->sparse_initializer, made);
}
static void sparse_outside(onnx *o) {
    sparse(o, 6, "2,3");
}
static void sparse_huge(onnx *o) {
    sparse(o, 6, "1000000,1000000");
}

/* external data; the folder holds weights.bin (16 bytes), and links that lead out */
static void external(onnx *o, const char *location, const char *offset, const char *length) {
    onnx_external(o, tensor(o, 1, "4"), location, offset, length);
}
static void external_absolute(onnx *o) {
    external(o, "/etc/passwd", NULL, NULL);
}
static void external_parent(onnx *o) {
    external(o, "inside/../../secret", NULL, NULL);
}
static void external_link(onnx *o) {
    external(o, "link", NULL, "16");
}
static void external_folder_link(onnx *o) {
    external(o, "folder/passwd", NULL, "16");
}
static void external_missing(onnx *o) {
    external(o, "nowhere.bin", NULL, NULL);
}
static void external_directory(onnx *o) {
    external(o, ".", NULL, NULL);
}
static void external_pipe(onnx *o) {
    external(o, "pipe", NULL, NULL);
}
static void external_offset(onnx *o) {
    external(o, "weights.bin", "17", NULL);
}
static void external_length(onnx *o) {
    external(o, "weights.bin", "4", "16");
}
static void external_overflow(onnx *o) {
    external(o, "weights.bin", "18446744073709551615", "16");
}
static void external_negative(onnx *o) {
    external(o, "weights.bin", "-1", "16");
}
static void external_short(onnx *o) {
    external(o, "weights.bin", "4", NULL);
}
static void external_mismatch(onnx *o) {
    external(o, "weights.bin", "0", "8");
}
static void external_nowhere(onnx *o) {
    external(o, NULL, "0", "16");
}

/* control */
static Onnx__NodeProto *branches(onnx *o, int then_results, int else_results) {
    start(o);
    onnx_input(o, o->graph, "go", 9, "");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "If", "choose", "go", "chosen");
    for (int side = 0; side < 2; side++) {
        Onnx__GraphProto *graph = onnx_graph(o, "b");
        onnx_node(o, graph, "Relu", "", "x", "r");
        for (int i = 0; i < (side ? else_results : then_results); i++) onnx_output(o, graph, "r");
        onnx_set_graph(o, node, side ? "else_branch" : "then_branch", graph);
    }
    return node;
}
static void if_counts(onnx *o) {
    branches(o, 1, 2);
}
static void if_outputs(onnx *o) {
    branches(o, 0, 0);
}
static void if_one_branch(onnx *o) {
    branches(o, 1, 1)->n_attribute = 1;
}
static void if_with_input(onnx *o) {
    onnx_input(o, branches(o, 1, 1)->attribute[0]->g, "z", 1, "2");
}
static void if_result_missing(onnx *o) {
    onnx_output(o, branches(o, 1, 1)->attribute[1]->g, "nowhere");
}
static void if_inner_unknown(onnx *o) {
    branches(o, 1, 1)->attribute[1]->g->node[0]->input[0] = onnx_text(o, "q");
}
static Onnx__GraphProto *loop(onnx *o) {
    start(o);
    onnx_integers(o, o->graph, "n", -1, (int64_t[]){3});
    Onnx__GraphProto *body = onnx_graph(o, "b");
    onnx_input(o, body, "i", 7, "");
    onnx_input(o, body, "c", 9, "");
    onnx_input(o, body, "s", 1, "2");
    onnx_node(o, body, "Relu", "", "s", "t");
    onnx_output(o, body, "c");
    onnx_output(o, body, "t");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Loop", "repeat", "n,,x", "last");
    onnx_set_graph(o, node, "body", body);
    return body;
}
static void loop_inputs(onnx *o) {
    loop(o)->n_input = 2;
}
static void loop_results(onnx *o) {
    loop(o)->n_output = 1;
}
static void loop_types(onnx *o) {
    loop(o)->input[2]->type->tensor_type->elem_type = 7;
}
static void scan_counts(onnx *o) {
    start(o);
    Onnx__NodeProto *node = onnx_node(o, o->graph, "Scan", "scan", "x", "last");
    onnx_set_graph(o, node, "body", onnx_graph(o, "b"));
    onnx_set_integer(o, node, "num_scan_inputs", 2);
}

/* functions */
static Onnx__NodeProto *call(onnx *o, Onnx__FunctionProto *in, const char *name, const char *inputs,
                             const char *outputs) {
    Onnx__NodeProto *node = in ? onnx_function_node(o, in, name, inputs, outputs)
                               : onnx_node(o, o->graph, name, "call", inputs, outputs);
    node->domain = onnx_text(o, "own");
    return node;
}
static void function_recursion(onnx *o) {
    start(o);
    call(o, onnx_function(o, "own", "F", "a", "b", 13), "G", "a", "b");
    call(o, onnx_function(o, "own", "G", "a", "b", 13), "F", "a", "b");
    call(o, NULL, "F", "x", "f");
}
static void function_bomb(onnx *o) {
    start(o);
    char name[16] = "F0", next[16];
    Onnx__FunctionProto *leaf = onnx_function(o, "own", name, "a", "b", 13);
    onnx_function_node(o, leaf, "Relu", "a", "b");
    for (int i = 1; i < 40; i++) {
        snprintf(next, sizeof next, "F%d", i);
        Onnx__FunctionProto *function = onnx_function(o, "own", next, "a", "c", 13);
        call(o, function, name, "a", "b");
        call(o, function, name, "b", "c");
        strcpy(name, next);
    }
    call(o, NULL, name, "x", "f");
}
static void function_chain(onnx *o) {
    start(o);
    char name[16], next[16];
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "F%d", i);
        snprintf(next, sizeof next, "F%d", i + 1);
        call(o, onnx_function(o, "own", name, "a", "b", 13), next, "a", "b");
    }
    onnx_function_node(o, onnx_function(o, "own", next, "a", "b", 13), "Relu", "a", "b");
    call(o, NULL, "F0", "x", "f");
}
static void function_twice(onnx *o) {
    start(o);
    onnx_function(o, "own", "F", "a", "b", 13);
    onnx_function(o, "own", "F", "a", "b", 13);
}
static void function_output(onnx *o) {
    start(o);
    onnx_function(o, "own", "F", "a", "b", 13);
    call(o, NULL, "F", "x", "f");
}
static void function_inputs(onnx *o) {
    start(o);
    onnx_function_node(o, onnx_function(o, "own", "F", "a", "b", 13), "Relu", "a", "b");
    call(o, NULL, "F", "x,w", "f");
}
static void function_captures(onnx *o) {
    start(o);
    onnx_function_node(o, onnx_function(o, "own", "F", "a", "b", 13), "Relu", "w", "b");
    call(o, NULL, "F", "x", "f");
}

/* nesting */
static void nested(onnx *o, int depth) {
    start(o);
    onnx_input(o, o->graph, "go", 9, "");
    Onnx__GraphProto *graph = o->graph;
    for (int i = 0; i < depth; i++) {
        Onnx__GraphProto *branch = onnx_graph(o, "b");
        Onnx__NodeProto *node = onnx_node(o, graph, "If", "", "go", i ? "r" : "chosen");
        onnx_set_graph(o, node, "then_branch", branch);
        Onnx__GraphProto *other = onnx_graph(o, "o");
        onnx_node(o, other, "Relu", "", "x", "r");
        onnx_output(o, other, "r");
        onnx_set_graph(o, node, "else_branch", other);
        onnx_output(o, branch, "r");
        graph = branch;
    }
    onnx_node(o, graph, "Relu", "", "x", "r");
}
static void nested_too_deep(onnx *o) {
    nested(o, 150);
}

static const struct {
    const char *name;
    void (*make)(onnx *o);
} cases[] = {
#define CASE(name)                                                                                           \
    { #name, name }
    CASE(no_graph),
    CASE(no_outputs),
    CASE(output_not_computed),
    CASE(output_without_name),
    CASE(no_opset),
    CASE(opset_zero),
    CASE(crop_axes),
    CASE(unknown_operators),
    CASE(cycle),
    CASE(refused_before),
    CASE(cycle_of_one),
    CASE(cycle_through_capture),
    CASE(defined_by_two_nodes),
    CASE(defined_as_input),
    CASE(two_inputs),
    CASE(two_initializers),
    CASE(missing_input),
    CASE(absent_input),
    CASE(too_few_inputs),
    CASE(too_many_inputs),
    CASE(too_many_outputs),
    CASE(no_op_type),
    CASE(input_without_type),
    CASE(input_of_unknown_type),
    CASE(input_with_map),
    CASE(shape_too_large),
    CASE(rank_too_large),
    CASE(control_characters),
    CASE(not_utf8),
    CASE(long_name),
    CASE(attribute_of_wrong_kind),
    CASE(attribute_missing),
    CASE(attribute_unknown),
    CASE(attribute_internal),
    CASE(attribute_twice),
    CASE(attribute_empty),
    CASE(attribute_reference),
    CASE(constant_without_value),
    CASE(cast_to_nothing),
    CASE(slice_lists_differ),
    CASE(softmax_axis),
    CASE(broadcast_axis),
    CASE(no_training),
    CASE(tensor_of_unknown_type),
    CASE(tensor_too_short),
    CASE(tensor_too_long),
    CASE(tensor_without_data),
    CASE(tensor_negative),
    CASE(tensor_overflow),
    CASE(tensor_rank),
    CASE(tensor_narrow),
    CASE(tensor_two_kinds),
    CASE(tensor_wrong_field),
    CASE(tensor_raw_strings),
    CASE(tensor_without_name),
    CASE(sparse_outside),
    CASE(sparse_huge),
    CASE(external_absolute),
    CASE(external_parent),
    CASE(external_link),
    CASE(external_folder_link),
    CASE(external_missing),
    CASE(external_directory),
    CASE(external_pipe),
    CASE(external_offset),
    CASE(external_length),
    CASE(external_overflow),
    CASE(external_negative),
    CASE(external_short),
    CASE(external_mismatch),
    CASE(external_nowhere),
    CASE(if_counts),
    CASE(if_outputs),
    CASE(if_one_branch),
    CASE(if_with_input),
    CASE(if_result_missing),
    CASE(if_inner_unknown),
    CASE(loop_inputs),
    CASE(loop_results),
    CASE(loop_types),
    CASE(scan_counts),
    CASE(function_recursion),
    CASE(function_bomb),
    CASE(function_chain),
    CASE(function_twice),
    CASE(function_output),
    CASE(function_inputs),
    CASE(function_captures),
    CASE(nested_too_deep),
#undef CASE
};

/* What import says of a file that must not be valid. */
static void expect_invalid(const char *path, const char *name) {
    ir_module *module;
    base_report_clear(&report);
    base_status status = import_model(path, NULL, 0, NULL, &module, &report);
    if (status == BASE_OK) fail_msg("%s is imported", name);
    assert_null(module);
    if (report.length < 10 || report.count == 0) fail_msg("%s has no message", name);
    for (const char *at = report.text; *at; at++) {
        if (((unsigned char)*at < ' ' && *at != '\n') || *at == 0x7f)
            fail_msg("%s: control characters", name);
    }
    assert_int_equal(status, report.status);
}

static void test_cases(void **state) {
    (void)state;
    onnx_write_bytes("weights.bin", "0123456789abcdef", 16);
    assert_int_equal(symlink("/etc/passwd", "link"), 0);
    assert_int_equal(symlink("/etc", "folder"), 0);
    assert_int_equal(mkfifo("pipe", 0600), 0);
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        onnx *o = onnx_new(13);
        onnx_opset(o, "own", 1);
        cases[i].make(o);
        onnx_write(o, "model.onnx");
        onnx_free(o);
        expect_invalid("model.onnx", cases[i].name);
        assert_int_equal(report.status, BASE_INVALID);
        fprintf(file, "# %s%s\n%s", cases[i].name, report.unsupported ? " (unsupported)" : "", report.text);
    }
    fclose(file);
    support_expect_golden("compiler/onnx/cases/invalid.err", text);
    free(text);
    static const char *const made[] = {"weights.bin", "link", "folder", "pipe", "model.onnx"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) unlink(made[i]);
}

/* Nesting that is deep, but not absurd, is fine. */
static void test_nested(void **state) {
    (void)state;
    onnx *o = onnx_new(13);
    nested(o, 60);
    onnx_write(o, "model.onnx");
    onnx_free(o);
    ir_module *module;
    base_report_clear(&report);
    if (import_model("model.onnx", NULL, 0, NULL, &module, &report) != BASE_OK) fail_msg("%s", report.text);
    ir_module_free(module);
    unlink("model.onnx");
}

/* ---- damage -------------------------------------------------------------------------------------------- */

/* A model with a bit of everything, for damage and failing allocations. */
static onnx *make_rich(void) {
    onnx *o = onnx_new(11);
    onnx_opset(o, "own", 1);
    loop(o);
    onnx_output(o, o->graph, "last");
    Onnx__FunctionProto *function = onnx_function(o, "own", "F", "a", "b", 11);
    onnx_set_real(o, onnx_function_node(o, function, "Constant", "", "k"), "value_float", 2);
    onnx_function_node(o, function, "Mul", "a,k", "b");
    call(o, NULL, "F", "y", "f");
    onnx_set_integers(o, onnx_node(o, o->graph, "Unsqueeze", "", "f", "u"), "axes", "0");
    onnx_node(o, o->graph, "Softmax", "", "u", "soft");
    onnx_node(o, o->graph, "Dropout", "", "soft", "d,mask");
    onnx_input(o, o->graph, "sym", 1, "N,?,4");
    onnx_node(o, o->graph, "Softmax", "", "sym", "soft2");
    onnx_output(o, o->graph, "d");
    onnx_output(o, o->graph, "mask");
    onnx_output(o, o->graph, "soft2");
    onnx_output(o, o->graph, "w");
    return o;
}

/* Each damaged file is imported or refused with a message; the seed makes it the same files every time. */
static void damage(const uint8_t *bytes, size_t size, int rounds, uint64_t seed) {
    uint64_t state = seed;
    uint8_t *copy = malloc(size + 16);
    assert_non_null(copy);
    int valid = 0;
    print_message("seed %llu, %d rounds of %zu bytes: ", (unsigned long long)seed, rounds, size);
    for (int round = 0; round < rounds; round++) {
        size_t length = size;
        memcpy(copy, bytes, size);
        uint64_t kind = support_random(&state) % 4;
        if (kind == 0) length = support_random(&state) % size;
        for (uint64_t n = kind == 0 ? 0 : 1 + support_random(&state) % 4; n > 0; n--) {
            size_t at = support_random(&state) % length;
            if (kind == 1) copy[at] ^= (uint8_t)(1u << support_random(&state) % 8);
            else if (kind == 2) copy[at] = (uint8_t)support_random(&state);
            else
                memmove(copy + at, copy + support_random(&state) % length,
                        (length - at) / 8 ? 1 + support_random(&state) % 8 : 0);
        }
        onnx_write_bytes("model.onnx", copy, length);
        ir_module *module;
        base_report_clear(&report);
        base_status status = import_model("model.onnx", NULL, 0, NULL, &module, &report);
        if (status == BASE_OK) {
            valid++;
            if (ir_verify(module, "imported", &report) != BASE_OK)
                fail_msg("round %d: %s", round, report.text);
        } else if (status != BASE_INVALID || report.length == 0) {
            fail_msg("round %d: status %d, message \"%s\"", round, (int)status, report.text);
        }
        ir_module_free(module);
    }
    print_message("%d still valid\n", valid);
    free(copy);
    unlink("model.onnx");
}

static void test_damage(void **state) {
    (void)state;
    size_t size;
    onnx *o = make_rich();
    uint8_t *bytes = onnx_pack(o, &size);
    damage(bytes, size, 2500, 1);
    onnx_free(o);
    o = onnx_new(13);
    nested(o, 5);
    bytes = onnx_pack(o, &size);
    damage(bytes, size, 2500, 2);
    onnx_free(o);
}

static void test_failing_allocations(void **state) {
    (void)state;
    onnx *o = make_rich();
    onnx_write(o, "model.onnx");
    onnx_free(o);
    size_t fail_at = 0;
    for (;;) {
        support_allocator counting;
        support_allocator_init(&counting);
        counting.fail_at = ++fail_at;
        ir_module *module;
        base_report_clear(&report);
        base_status status = import_model("model.onnx", NULL, 0, &counting.allocator, &module, &report);
        if (counting.count < fail_at) assert_int_equal(status, BASE_OK); /* none failed */
        else assert_int_equal(status, BASE_SYSTEM_ERROR);
        ir_module_free(module);
        assert_int_equal(counting.live, 0);
        if (status == BASE_OK) break;
        assert_non_null(strstr(report.text, "out of memory"));
    }
    assert_true(fail_at > 50);
    unlink("model.onnx");
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    char folder[] = "/tmp/ouro_import_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1; /* messages then have no path in them */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_failing_allocations),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return chdir("/") != 0 || rmdir(folder) != 0 ? 1 : failed;
}

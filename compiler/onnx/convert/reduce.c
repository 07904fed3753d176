/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c: older forms of operators that work along axes, and of BatchNormalization. */
#include "compiler/onnx/convert/convert.h"

#include <stdio.h>

static const op_attributes NONE = {0};

/* The attribute `axes` becomes input 1. Reductions without axes are over all of them. */
base_status import_convert_axes(import_node *n) {
    size_t count;
    const int64_t *axes = import_integers(n, "axes", &count);
    op_attributes attributes;
    base_status status = import_attributes(n, n->code, &attributes);
    if (status != BASE_OK) return status;
    ir_value *inputs[2] = {n->inputs[0]};
    if (count > 0 || n->code == OP_UNSQUEEZE) {
        inputs[1] = import_constant_integers(n, count, axes);
        if (!inputs[1]) return import_memory(n);
    }
    return import_finish(n, n->code, attributes, inputs[1] ? 2 : 1, inputs);
}

/* The one axis from `axis` on whose extent is not 1; `axis` itself where all are; -1 where there are several.
 */
static int32_t single_axis(const op_shape *shape, int32_t axis) {
    int32_t found = -1;
    for (int32_t i = axis; i < shape->rank; i++) {
        if (shape->dims[i] == 1) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found < 0 ? axis : found;
}

/* Softmax-1 and -11 work on a matrix: all dimensions from `axis` on are one. Where only one of these has an
 * extent that is not 1, it is the softmax of today along that one. */
base_status import_convert_softmax(import_node *n) {
    ir_value *x = n->inputs[0];
    int64_t axis = import_integer(n, "axis", 1);
    int32_t rank = import_rank_of(x), normal, single = -1;
    if (rank >= 0) {
        if (!op_axis(axis, rank, &normal)) {
            return base_fail(n->importer->report, BASE_INVALID,
                             "attribute \"axis\" is %lld, the input has rank %d", (long long)axis, rank);
        }
        single = single_axis(&x->type.shape, normal);
    }
    op_attributes attributes = NONE;
    if (!import_attributes_add_integer(n, &attributes, "axis", single >= 0 ? single : 1))
        return import_memory(n);
    if (single >= 0) return import_finish(n, n->code, attributes, 1, n->inputs);
    op_attributes flat = NONE;
    if (!import_attributes_add_integer(n, &flat, "axis", axis)) return import_memory(n);
    ir_value *matrix = import_make(n, OP_FLATTEN, flat, 1, &x);
    ir_value *inputs[2];
    inputs[0] = matrix ? import_make(n, n->code, attributes, 1, &matrix) : NULL;
    inputs[1] = import_make(n, OP_SHAPE, NONE, 1, &x);
    op_attributes exactly = NONE; /* extents of zero are meant */
    if (!inputs[0] || !inputs[1] || !import_attributes_add_integer(n, &exactly, "allowzero", 1))
        return import_memory(n);
    return import_finish(n, OP_RESHAPE, exactly, 2, inputs);
}

/* Output `index` of the file's node is output `index` of the new one; reshaped where a shape is given. */
static base_status define_output(import_node *n, ir_node *node, uint32_t index, ir_value *shape) {
    if (!import_output_named(n, index)) { /* the node itself always makes output 0 */
        const bool made =
            index ? ir_node_add_absent_output(node) : ir_node_add_output(node, NULL, NULL) != NULL;
        return made ? BASE_OK : import_memory(n);
    }
    ir_value *value = ir_node_add_output(node, n->proto->output[index], NULL);
    if (!value) return import_memory(n);
    if (!shape) return import_define(n, index, value);
    ir_value *pair[] = {value, shape};
    if (!import_infer(n->importer, node)) return import_memory(n);
    op_attributes literal = NONE;
    if (!import_attributes_add_integer(n, &literal, "allowzero", 1)) return import_memory(n);
    value = import_make(n, OP_RESHAPE, literal, 2, pair);
    return value ? import_define(n, index, value) : import_memory(n);
}

/* Without `spatial`, every element of an image is a channel of its own: X becomes a matrix of such channels, the
 * other inputs vectors. */
static base_status flatten_channels(import_node *n, ir_value *inputs[5], ir_value *shapes[2]) {
    const int64_t all = -1;
    ir_value *one_axis = import_constant_integers(n, 1, &all);
    shapes[0] = import_make(n, OP_SHAPE, NONE, 1, &n->inputs[0]);
    shapes[1] = import_make(n, OP_SHAPE, NONE, 1, &n->inputs[3]);
    inputs[0] = import_make(n, OP_FLATTEN, NONE, 1, &n->inputs[0]);
    for (uint32_t i = 1; i < 5; i++) {
        ir_value *pair[] = {n->inputs[i], one_axis};
        inputs[i] = one_axis ? import_make(n, OP_RESHAPE, NONE, 2, pair) : NULL;
        if (!inputs[i]) return import_memory(n);
    }
    return shapes[0] && shapes[1] && inputs[0] ? BASE_OK : import_memory(n);
}

/* Before opset 14, the statistics are outputs 1 to 4 of training, and whether these are there tells training from
 * inference; before 7, is_test does too. */
base_status import_convert_batch_normalization(import_node *n) {
    base_report *report = n->importer->report;
    const bool test = import_integer(n, "is_test", 0) != 0 ||
                      (n->version >= 14 && import_integer(n, "training_mode", 0) == 0);
    uint32_t count = 1; /* outputs that are needed */
    for (uint32_t i = 1; i < n->output_count; i++) {
        if (import_output_wanted(n, i)) count = i + 1;
    }
    if (test && count > 1) {
        return base_fail(report, BASE_INVALID, "output %u exists in training only, expected %s", count - 1,
                         n->version >= 14 ? "training_mode = 1" : "is_test = 0");
    }
    op_attributes attributes;
    base_status status = import_attributes(n, n->code, &attributes);
    if (status != BASE_OK) return status;
    if (n->version < 14 && count > 1 && !import_attributes_add_integer(n, &attributes, "training_mode", 1)) {
        return import_memory(n);
    }
    n->output_count = count;
    if (import_integer(n, "spatial", 1) != 0) {
        return import_finish(n, n->code, attributes, n->input_count, n->inputs);
    }
    ir_value *inputs[5], *shapes[2];
    status = flatten_channels(n, inputs, shapes);
    if (status != BASE_OK) return status;
    ir_node *node = import_begin(n, n->code, attributes, 5, inputs);
    if (!node) return import_memory(n);
    for (uint32_t i = 0; i < count && status == BASE_OK; i++) {
        status = define_output(n, node, i, shapes[i > 0]);
    }
    return status == BASE_OK && !import_infer(n->importer, node) ? import_memory(n) : status;
}

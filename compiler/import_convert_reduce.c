/* import_convert_reduce.c: older forms of operators that work along axes, and of BatchNormalization. */
#include "compiler/import_internal.h"

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
    ir_value *inputs[2] = {matrix ? import_make(n, n->code, attributes, 1, &matrix) : NULL,
                           import_make(n, OP_SHAPE, NONE, 1, &x)};
    if (!inputs[0] || !inputs[1]) return import_memory(n);
    return import_finish(n, OP_RESHAPE, NONE, 2, inputs);
}

/* Inference only; the further outputs are statistics of training. */
base_status import_convert_batch_normalization(import_node *n) {
    base_report *report = n->importer->report;
    if (import_integer(n, "spatial", 1) == 0) {
        return base_fail_unsupported(report, "spatial = 0 (statistics for every element) is not supported");
    }
    if (import_integer(n, "training_mode", 0) != 0) {
        return base_fail_unsupported(report, "training_mode = 1 is not supported, only inference is");
    }
    for (uint32_t i = 1; i < n->output_count; i++) {
        if (import_output_wanted(n, i)) {
            return base_fail_unsupported(report, "output %u exists in training only, which is not supported",
                                         i);
        }
    }
    op_attributes attributes;
    base_status status = import_attributes(n, n->code, &attributes);
    if (status != BASE_OK) return status;
    n->output_count = n->output_count > 1 ? 1 : n->output_count;
    return import_finish(n, n->code, attributes, n->input_count, n->inputs);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* infer_select.c: shapes of operators whose results have sizes that depend on data: what does not depend on
 * it is known, the rest is measured when they run (rt_kernel.measure). */
#include "ir/operators/infer.h"

base_status op_infer_non_zero(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status != BASE_OK) return status;
    op_shape shape = op_shape_of_rank(2);
    int32_t rank = call->inputs[0].type.shape.rank;
    if (rank >= 0) shape.dims[0] = rank;
    op_output_set(call, 0, OP_INT64, &shape);
    return BASE_OK;
}

/* The axis that an attribute names, -1 where there is none; *rank is that of input 0. */
static base_status find_optional_axis(const op_call *call, int32_t rank, int32_t *axis, base_report *report) {
    *axis = -1;
    if (rank < 0 || !op_attribute_find(&call->attributes, "axis")) return BASE_OK;
    return op_attribute_axis(call, 0, rank, axis, report);
}

/* What is left of input 0 along its axis, or of all its elements. */
static void set_selected(op_call *call, int32_t axis, int64_t count) {
    const op_type *type = &call->inputs[0].type;
    op_shape shape = {.rank = 1, .dims = {count}};
    if (op_attribute_find(&call->attributes, "axis")) {
        shape = type->shape;
        if (axis >= 0) shape.dims[axis] = count;
    }
    op_output_set(call, 0, type->dtype, shape.rank < 0 ? NULL : &shape);
}

base_status op_infer_compress(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_BOOL, report);
    if (status == BASE_OK) status = op_check_vector(call, 1, false, report);
    int32_t axis;
    if (status == BASE_OK) status = find_optional_axis(call, call->inputs[0].type.shape.rank, &axis, report);
    if (status != BASE_OK) return status;
    const op_tensor *condition = &call->inputs[1];
    int64_t count = OP_DIM_UNKNOWN, elements;
    /* Where the condition is a constant, so is the extent. */
    if (condition->data && op_shape_elements(&condition->type.shape, &elements)) {
        const uint8_t *values = condition->data;
        count = 0;
        for (int64_t i = 0; i < elements; i++) count += values[i] != 0;
    }
    set_selected(call, axis, count);
    return BASE_OK;
}

base_status op_infer_unique(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    const op_shape *shape = &call->inputs[0].type.shape;
    int32_t axis;
    if (status == BASE_OK) status = find_optional_axis(call, shape->rank, &axis, report);
    if (status != BASE_OK) return status;
    set_selected(call, axis, OP_DIM_UNKNOWN);
    op_shape vector = op_shape_of_rank(1), inverse = vector;
    int64_t elements;
    if (axis >= 0) inverse.dims[0] = shape->dims[axis];
    else if (!op_attribute_find(&call->attributes, "axis") && op_shape_elements(shape, &elements))
        inverse.dims[0] = elements;
    for (uint32_t i = 1; i < call->output_count; i++)
        op_output_set(call, i, OP_INT64, i == 2 ? &inverse : &vector);
    return BASE_OK;
}

/* One element, where it is there. */
static base_status check_scalar(const op_call *call, uint32_t input, op_dtype dtype, base_report *report) {
    if (!op_input_present(call, input)) return BASE_OK;
    base_status status = op_check_input(call, input, OP_SET(dtype), report);
    return status == BASE_OK ? op_check_elements(call, input, 1, report) : status;
}

base_status op_infer_non_max_suppression(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET(OP_FLOAT), report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_FLOAT), report);
    if (status == BASE_OK) status = check_scalar(call, 2, OP_INT64, report);
    if (status == BASE_OK) status = check_scalar(call, 3, OP_FLOAT, report);
    if (status == BASE_OK) status = check_scalar(call, 4, OP_FLOAT, report);
    if (status != BASE_OK) return status;
    const op_shape *boxes = &call->inputs[0].type.shape, *scores = &call->inputs[1].type.shape;
    bool fits = (boxes->rank < 0 || (boxes->rank == 3 && (boxes->dims[2] < 0 || boxes->dims[2] == 4))) &&
                (scores->rank < 0 || scores->rank == 3);
    if (fits && boxes->rank == 3 && scores->rank == 3) {
        fits = (boxes->dims[0] < 0 || scores->dims[0] < 0 || boxes->dims[0] == scores->dims[0]) &&
               (boxes->dims[1] < 0 || scores->dims[2] < 0 || boxes->dims[1] == scores->dims[2]);
    }
    if (!fits) {
        char a[200], b[200];
        return base_fail(report, BASE_INVALID,
                         "boxes are %s and scores %s, expected [batches,boxes,4] and [batches,classes,boxes]",
                         op_shape_text(boxes, a, sizeof a), op_shape_text(scores, b, sizeof b));
    }
    op_shape shape = {.rank = 2, .dims = {OP_DIM_UNKNOWN, 3}};
    op_output_set(call, 0, OP_INT64, &shape);
    return BASE_OK;
}

base_status op_infer_string_normalizer(op_call *call, base_report *report) {
    static const char *const actions[] = {"NONE", "LOWER", "UPPER"};
    base_status status = op_check_input(call, 0, OP_SET(OP_STRING), report);
    if (status != BASE_OK) return status;
    bool known = false;
    for (int i = 0; i < 3; i++)
        known |= op_attribute_is(&call->attributes, "case_change_action", actions[i], "NONE");
    if (!known) {
        return base_fail(report, BASE_INVALID,
                         "attribute \"case_change_action\" is none of NONE, LOWER and UPPER");
    }
    const op_shape *from = &call->inputs[0].type.shape;
    if (from->rank >= 0 && from->rank != 1 &&
        !(from->rank == 2 && (from->dims[0] == 1 || from->dims[0] < 0))) {
        char text[160];
        return base_fail(report, BASE_INVALID, "input 0 has shape %s, expected [C] or [1,C]",
                         op_shape_text(from, text, sizeof text));
    }
    op_shape shape = *from;
    if (shape.rank > 0) shape.dims[shape.rank - 1] = OP_DIM_UNKNOWN;
    if (shape.rank == 2) shape.dims[0] = 1;
    op_output_set(call, 0, OP_STRING, &shape);
    return BASE_OK;
}

/* A matrix of costs, also as [1, rows, columns]; the path as rows, then columns. */
base_status op_infer_time_warping(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET(OP_FLOAT), report);
    if (status != BASE_OK) return status;
    const op_shape *costs = &call->inputs[0].type.shape;
    if (costs->rank >= 0 && costs->rank != 2 && !(costs->rank == 3 && (costs->dims[0] == 1 || costs->dims[0] < 0))) {
        char text[160];
        return base_fail(report, BASE_INVALID, "input 0 has shape %s, expected [M,N] or [1,M,N]",
                         op_shape_text(costs, text, sizeof text));
    }
    op_shape shape = {.rank = 2, .dims = {2, OP_DIM_UNKNOWN}};
    op_output_set(call, 0, OP_INT32, &shape);
    return BASE_OK;
}

/* Tokens of the source, the current ones, where the source goes on, and what is predicted from there. */
base_status op_infer_bifurcation(op_call *call, base_report *report) {
    base_status status = BASE_OK;
    const int64_t low = op_attribute_integer(&call->attributes, "min_ngram_size", 1),
                  high = op_attribute_integer(&call->attributes, "max_ngram_size", 3);
    for (uint32_t i = 0; i < call->input_count && status == BASE_OK; i++) {
        if (!op_input_present(call, i)) continue;
        status = op_check_input(call, i, OP_SET(OP_INT64), report);
        if (status == BASE_OK && i != 2) status = op_check_vector(call, i, false, report);
    }
    if (status == BASE_OK) status = op_check_elements(call, 2, 1, report);
    if (status != BASE_OK) return status;
    if (low < 1 || high < low)
        return base_fail(report, BASE_INVALID,
                         "sequences of %lld to %lld tokens are asked for, expected at least 1, the smaller first",
                         (long long)low, (long long)high);
    const op_shape tokens = op_shape_of_rank(1), *start = &call->inputs[2].type.shape;
    op_output_set(call, 0, OP_INT64, op_input_present(call, 3) ? &tokens : &call->inputs[1].type.shape);
    if (call->output_count > 1) op_output_set(call, 1, OP_INT64, start->rank < 0 ? NULL : start);
    return BASE_OK;
}

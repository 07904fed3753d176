/* SPDX-License-Identifier: Apache-2.0 */
/* infer_text.c: shape functions of operators on strings. */
#include "ir/operators/infer.h"

base_status op_infer_string_concat(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET(OP_STRING), report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_STRING), report);
    if (status != BASE_OK) return status;
    const op_shape *a = &call->inputs[0].type.shape, *b = &call->inputs[1].type.shape;
    op_shape shape = {.rank = -1};
    char left[128], right[128];
    if (a->rank >= 0 && b->rank >= 0 && !op_shape_broadcast(call, a, b, &shape))
        return base_fail(report, BASE_INVALID,
                         "the shapes %s and %s do not fit, expected ones that broadcast",
                         op_shape_text(a, left, sizeof left), op_shape_text(b, right, sizeof right));
    op_output_set(call, 0, OP_STRING, &shape);
    return BASE_OK;
}

base_status op_infer_string_split(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET(OP_STRING), report);
    if (status != BASE_OK) return status;
    op_shape shape = call->inputs[0].type.shape;
    if (shape.rank >= OP_MAX_RANK)
        return base_fail(report, BASE_INVALID, "input 0 has rank %d, expected at most %d", shape.rank,
                         OP_MAX_RANK - 1);
    if (call->output_count > 1) op_output_set(call, 1, OP_INT64, &shape);
    if (shape.rank >= 0) shape.dims[shape.rank++] = OP_DIM_UNKNOWN;
    op_output_set(call, 0, OP_STRING, &shape);
    return BASE_OK;
}

base_status op_infer_regex_full_match(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET(OP_STRING), report);
    if (status != BASE_OK) return status;
    const op_attribute *pattern = op_attribute_find(&call->attributes, "pattern");
    if (!pattern || pattern->kind != OP_ATTRIBUTE_STRING)
        return base_fail(report, BASE_INVALID, "attribute \"pattern\" is absent");
    op_output_set(call, 0, OP_BOOL, &call->inputs[0].type.shape);
    return BASE_OK;
}

/* One more axis, of as many tokens as the longest row has. */
base_status op_infer_tokenizer(op_call *call, base_report *report) {
    enum { SEPARATORS = 256 };
    base_status status = op_check_input(call, 0, OP_SET(OP_STRING), report);
    if (status != BASE_OK) return status;
    const op_attribute *separators = op_attribute_find(&call->attributes, "separators"),
                       *kept = op_attribute_find(&call->attributes, "tokenexp");
    const int64_t least = op_attribute_integer(&call->attributes, "mincharnum", 1);
    if (least < 1)
        return base_fail(report, BASE_INVALID, "attribute \"mincharnum\" is %lld, expected at least 1",
                         (long long)least);
    if (!kept && (!separators || !separators->count))
        return base_fail(report, BASE_INVALID, "attributes \"separators\" and \"tokenexp\" are absent");
    if (separators && separators->count > SEPARATORS)
        return base_fail_unsupported(report, "attribute \"separators\" has %zu patterns, expected at most %d",
                                     (size_t)separators->count, (int)SEPARATORS);
    op_shape shape = call->inputs[0].type.shape;
    if (shape.rank >= OP_MAX_RANK)
        return base_fail(report, BASE_INVALID, "input 0 has rank %d, expected at most %d", shape.rank,
                         OP_MAX_RANK - 1);
    if (shape.rank >= 0) shape.dims[shape.rank++] = OP_DIM_UNKNOWN;
    op_output_set(call, 0, OP_STRING, &shape);
    return BASE_OK;
}

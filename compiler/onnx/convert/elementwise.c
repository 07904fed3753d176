/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c: older forms of elementwise operators. */
#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/convert/expression.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const op_attributes NONE = {0};

/* `value` with `count` dimensions of 1 after its own `rank`. */
static ir_value *add_trailing(const import_node *n, ir_value *value, int32_t rank, int32_t count) {
    int64_t axes[OP_MAX_RANK];
    for (int32_t i = 0; i < count; i++) axes[i] = rank + i;
    ir_value *inputs[] = {value, import_constant_integers(n, (size_t)count, axes)};
    return inputs[1] ? import_make(n, OP_UNSQUEEZE, NONE, 2, inputs) : NULL;
}

/* Add-1 and its like: with broadcast = 1, the dimensions of B match those of A from `axis` on; without an
 * axis, the last ones, as broadcasting does today. */
base_status import_convert_broadcast(import_node *n) {
    ir_value *inputs[] = {n->inputs[0], n->inputs[1]};
    bool placed = import_integer(n, "broadcast", 0) != 0 && import_attribute(n, "axis");
    int64_t axis = import_integer(n, "axis", 0);
    int32_t a = import_rank_of(inputs[0]), b = import_rank_of(inputs[1]);
    if (placed && b != 0) {
        if (a < 0 || b < 0) {
            return base_fail_unsupported(n->importer->report,
                                         "attribute \"axis\" needs inputs whose ranks are known");
        }
        if (axis < 0) axis += a;
        if (axis < 0 || axis > a - b) {
            return base_fail(n->importer->report, BASE_INVALID,
                             "attribute \"axis\" is %lld, which does not fit inputs of rank %d and %d",
                             (long long)import_integer(n, "axis", 0), a, b);
        }
        int32_t trailing = a - b - (int32_t)axis;
        if (trailing > 0 && !(inputs[1] = add_trailing(n, inputs[1], b, trailing))) return import_memory(n);
    }
    return import_finish(n, n->code, NONE, 2, inputs);
}

/* PRelu-1: a slope of one dimension belongs to the channels, which are dimension 1. */
base_status import_convert_prelu(import_node *n) {
    ir_value *inputs[] = {n->inputs[0], n->inputs[1]};
    int32_t rank = import_rank_of(inputs[0]), slope = import_rank_of(inputs[1]);
    bool one = slope == 1 && inputs[1]->type.shape.dims[0] == 1;
    if (slope == 1 && !one) {
        if (rank < 0) {
            return base_fail_unsupported(n->importer->report,
                                         "a slope for every channel needs an input of known rank");
        }
        if (rank > 2 && !(inputs[1] = add_trailing(n, inputs[1], 1, rank - 2))) return import_memory(n);
    }
    return import_finish(n, n->code, NONE, 2, inputs);
}

/* x0 OP x1 OP x2 ...; the last result has the name `finished` says, or none. */
static base_status chain(import_node *n, op_code code, uint32_t count, ir_value **result) {
    *result = n->inputs[0];
    for (uint32_t i = 1; i < count; i++) {
        ir_value *pair[] = {*result, n->inputs[i]};
        *result = import_make(n, code, NONE, 2, pair);
        if (!*result) return import_memory(n);
    }
    return BASE_OK;
}

base_status import_convert_variadic(import_node *n) {
    op_code code = n->code == OP_MAX || n->code == OP_MIN ? n->code : OP_ADD;
    if (n->input_count == 1) return import_finish(n, OP_IDENTITY, NONE, 1, n->inputs);
    ir_value *left;
    base_status status = chain(n, code, n->input_count - 1, &left);
    if (status != BASE_OK) return status;
    ir_value *pair[] = {left, n->inputs[n->input_count - 1]};
    return import_finish(n, code, NONE, 2, pair);
}

base_status import_convert_mean(import_node *n) {
    if (n->input_count == 1) return import_finish(n, OP_IDENTITY, NONE, 1, n->inputs);
    op_dtype dtype = OP_NONE;
    for (uint32_t i = 0; i < n->input_count && dtype == OP_NONE; i++) dtype = import_dtype_of(n->inputs[i]);
    if (dtype == OP_NONE)
        return base_fail_unsupported(n->importer->report, "needs an input whose type is known");
    const bool wide = dtype == OP_FLOAT16 || dtype == OP_BFLOAT16; /* sums in float */
    for (uint32_t i = 0; i < n->input_count && wide; i++) {
        n->inputs[i] = expr_cast(n, n->inputs[i], OP_FLOAT);
        if (!n->inputs[i]) return import_memory(n);
    }
    ir_value *sum;
    base_status status = chain(n, OP_ADD, n->input_count, &sum);
    if (status != BASE_OK) return status;
    ir_value *pair[] = {sum, import_constant_real(n, wide ? OP_FLOAT : dtype, n->input_count)};
    if (!pair[1]) return import_memory(n);
    return wide ? expr_finish_as(n, dtype, expr_binary(n, OP_DIV, pair[0], pair[1]))
                : import_finish(n, OP_DIV, NONE, 2, pair);
}

/* Clip-1 and -6: the bounds are attributes. */
base_status import_convert_clip(import_node *n) {
    ir_value *inputs[3] = {n->inputs[0]};
    static const char *const names[] = {NULL, "min", "max"};
    op_dtype dtype = import_dtype_of(n->inputs[0]);
    uint32_t count = 1;
    for (uint32_t i = 1; i < 3; i++) {
        if (!import_attribute(n, names[i])) continue;
        inputs[i] = import_constant_real(n, dtype == OP_NONE ? OP_FLOAT : dtype, import_real(n, names[i], 0));
        if (!inputs[i]) return import_memory(n);
        count = i + 1;
    }
    return import_finish(n, OP_CLIP, NONE, count, inputs);
}

/* Cast-1: `to` is the name of a type. */
base_status import_convert_cast(import_node *n) {
    static const char *const names[OP_BFLOAT16 + 1] = {
        "",     "FLOAT",   "UINT8",  "INT8",   "UINT16", "INT16",     "INT32",      "INT64",   "STRING",
        "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16"};
    const Onnx__AttributeProto *to = import_attribute(n, "to");
    for (int dtype = 1; dtype <= OP_BFLOAT16; dtype++) {
        size_t length = strlen(names[dtype]);
        bool equal = to->s.len == length;
        for (size_t i = 0; i < length && equal; i++) equal = toupper(to->s.data[i]) == names[dtype][i];
        if (!equal) continue;
        op_attributes attributes = NONE;
        if (!import_attributes_add_integer(n, &attributes, "to", dtype)) return import_memory(n);
        return import_finish(n, OP_CAST, attributes, 1, n->inputs);
    }
    return base_fail(n->importer->report, BASE_INVALID,
                     "attribute \"to\" names no data type, such as FLOAT or INT64");
}

/* The bits of a bool are made 0 or 1, which kernels rely on. */
base_status import_convert_bit_cast(import_node *n) {
    op_attributes attributes = NONE, to_bool = NONE;
    const int64_t to = import_integer(n, "to", 0);
    if (!import_attributes_add_integer(n, &attributes, "to", to == OP_BOOL ? OP_UINT8 : to) ||
        !import_attributes_add_integer(n, &to_bool, "to", OP_BOOL))
        return import_memory(n);
    if (to != OP_BOOL) return import_finish(n, OP_BIT_CAST, attributes, 1, n->inputs);
    ir_value *bytes = import_make(n, OP_BIT_CAST, attributes, 1, n->inputs);
    return bytes ? import_finish(n, OP_CAST, to_bool, 1, &bytes) : import_memory(n);
}

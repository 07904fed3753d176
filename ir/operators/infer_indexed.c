/* SPDX-License-Identifier: Apache-2.0 */
/* infer_indexed.c: shapes of operators that move elements to where indices or positions say. */
#include "ir/operators/infer.h"

#include <inttypes.h>
#include <string.h>

static base_status check_ranks(const op_call *call, uint32_t a, uint32_t b, base_report *report) {
    int32_t x = call->inputs[a].type.shape.rank, y = call->inputs[b].type.shape.rank;
    if (x < 0 || y < 0 || x == y) return BASE_OK;
    return base_fail(report, BASE_INVALID, "input %u has rank %d and input %u has rank %d, expected the same",
                     a, x, b, y);
}

/* Extents that are known of both are equal. */
static base_status check_extents(const op_call *call, uint32_t a, uint32_t b, base_report *report) {
    const op_shape *x = &call->inputs[a].type.shape, *y = &call->inputs[b].type.shape;
    char first[200], second[200];
    bool same = x->rank < 0 || y->rank < 0 || x->rank == y->rank;
    for (int32_t i = 0; same && i < x->rank && i < y->rank; i++)
        same = x->dims[i] < 0 || y->dims[i] < 0 || x->dims[i] == y->dims[i];
    if (same) return BASE_OK;
    return base_fail(report, BASE_INVALID, "input %u is %s and input %u is %s, expected the same shape", a,
                     op_shape_text(x, first, sizeof first), b, op_shape_text(y, second, sizeof second));
}

base_status op_infer_gather_elements(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_INDICES, report);
    if (status == BASE_OK) status = check_ranks(call, 0, 1, report);
    int32_t rank = call->inputs[0].type.shape.rank, axis;
    if (status == BASE_OK && rank >= 0) status = op_attribute_axis(call, 0, rank, &axis, report);
    if (status != BASE_OK) return status;
    const op_shape *from = &call->inputs[0].type.shape, *shape = &call->inputs[1].type.shape;
    for (int32_t i = 0; i < from->rank && i < shape->rank; i++) {
        if (i == axis || from->dims[i] < 0 || shape->dims[i] <= from->dims[i]) continue;
        return base_fail(report, BASE_INVALID,
                         "input 1 has %" PRId64 " along axis %d, expected at most the %" PRId64 " of input 0",
                         shape->dims[i], i, from->dims[i]);
    }
    op_output_set(call, 0, call->inputs[0].type.dtype, shape->rank < 0 ? NULL : shape);
    return BASE_OK;
}

static base_status check_reduction(const op_call *call, base_report *report) {
    const op_attributes *all = &call->attributes;
    if (op_attribute_is(all, "reduction", "none", "none")) return BASE_OK;
    if (op_attribute_is(all, "reduction", "add", "none") ||
        op_attribute_is(all, "reduction", "mul", "none") ||
        op_attribute_is(all, "reduction", "max", "none") || op_attribute_is(all, "reduction", "min", "none"))
        return op_check_input(call, 0, OP_SET_NUMBERS, report);
    return base_fail(report, BASE_INVALID,
                     "attribute \"reduction\" is something else than none, add, mul, max or min");
}

base_status op_infer_scatter_elements(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_INDICES, report);
    if (status == BASE_OK) status = op_check_same(call, 2, 0, report);
    if (status == BASE_OK) status = check_ranks(call, 0, 1, report);
    if (status == BASE_OK) status = check_extents(call, 1, 2, report);
    if (status == BASE_OK) status = check_reduction(call, report);
    const op_type *type = &call->inputs[0].type;
    int32_t axis;
    if (status == BASE_OK && type->shape.rank >= 0)
        status = op_attribute_axis(call, 0, type->shape.rank, &axis, report);
    if (status == BASE_OK) op_output_set(call, 0, type->dtype, &type->shape);
    return status;
}

/* How many leading dimensions the indices' last extent names; -1: not known. */
static int64_t tuple_length(const op_shape *indices) {
    return indices->rank < 1 ? -1 : indices->dims[indices->rank - 1];
}

base_status op_infer_gather_nd(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64) | OP_SET(OP_INT32), report);
    if (status != BASE_OK) return status;
    const op_shape *from = &call->inputs[0].type.shape, *indices = &call->inputs[1].type.shape;
    int64_t batch = op_attribute_integer(&call->attributes, "batch_dims", 0), length = tuple_length(indices);
    if (indices->rank == 0 || batch < 0 || (indices->rank > 0 && batch >= indices->rank) ||
        (from->rank >= 0 && batch >= from->rank) ||
        (from->rank >= 0 && length >= 0 && length + batch > from->rank)) {
        return base_fail(report, BASE_INVALID,
                         "input 0 has rank %d, input 1 rank %d with %" PRId64
                         " numbers a place, batch_dims is %" PRId64
                         ": expected batch_dims below both ranks and at "
                         "most rank - batch_dims numbers",
                         from->rank, indices->rank, length, batch);
    }
    if (from->rank < 0 || length < 0) {
        op_output_set(call, 0, call->inputs[0].type.dtype, NULL);
        return BASE_OK;
    }
    for (int32_t i = 0; i < batch; i++) {
        if (from->dims[i] < 0 || indices->dims[i] < 0 || from->dims[i] == indices->dims[i]) continue;
        return base_fail(report, BASE_INVALID,
                         "input 1 has %" PRId64 " batches along axis %d, expected the %" PRId64 " of input 0",
                         indices->dims[i], i, from->dims[i]);
    }
    op_shape shape = {.rank = 0};
    if ((int64_t)indices->rank - 1 + from->rank - length - batch > OP_MAX_RANK)
        return base_fail(report, BASE_INVALID, "the result would have more than %d dimensions", OP_MAX_RANK);
    for (int32_t i = 0; i < indices->rank - 1; i++) shape.dims[shape.rank++] = indices->dims[i];
    for (int32_t i = (int32_t)(batch + length); i < from->rank; i++) shape.dims[shape.rank++] = from->dims[i];
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

base_status op_infer_scatter_nd(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_INDICES, report);
    if (status == BASE_OK) status = op_check_same(call, 2, 0, report);
    if (status == BASE_OK) status = check_reduction(call, report);
    if (status != BASE_OK) return status;
    const op_shape *to = &call->inputs[0].type.shape, *indices = &call->inputs[1].type.shape,
                   *updates = &call->inputs[2].type.shape;
    int64_t length = tuple_length(indices);
    bool fits = indices->rank != 0 && (to->rank < 0 || length <= to->rank);
    if (fits && to->rank >= 0 && length >= 0 && updates->rank >= 0) {
        fits = updates->rank == indices->rank - 1 + to->rank - (int32_t)length;
        for (int32_t i = 0; fits && i < updates->rank; i++) {
            int64_t wanted =
                i < indices->rank - 1 ? indices->dims[i] : to->dims[i - (indices->rank - 1) + length];
            fits = wanted < 0 || updates->dims[i] < 0 || wanted == updates->dims[i];
        }
    }
    if (!fits) {
        char a[200], b[200], c[200];
        return base_fail(
            report, BASE_INVALID,
            "input 0 is %s, indices are %s and updates %s: expected updates of the indices' shape "
            "without its last extent, then what that leaves of input 0",
            op_shape_text(to, a, sizeof a), op_shape_text(indices, b, sizeof b),
            op_shape_text(updates, c, sizeof c));
    }
    op_output_set(call, 0, call->inputs[0].type.dtype, to);
    return BASE_OK;
}

base_status op_infer_one_hot(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_NUMBERS, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_NUMBERS, report);
    if (status == BASE_OK) status = op_check_elements(call, 1, 1, report);
    if (status == BASE_OK) status = op_check_input(call, 2, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_elements(call, 2, 2, report);
    if (status != BASE_OK) return status;
    const op_shape *from = &call->inputs[0].type.shape;
    if (from->rank < 0) {
        op_output_set(call, 0, call->inputs[2].type.dtype, NULL);
        return BASE_OK;
    }
    int32_t axis;
    if (from->rank >= OP_MAX_RANK)
        return base_fail(report, BASE_INVALID, "the result would have more than %d dimensions", OP_MAX_RANK);
    status = op_attribute_axis(call, -1, from->rank + 1, &axis, report);
    if (status != BASE_OK) return status;
    /* A depth that is a real number is known where it is a constant. */
    int64_t depth = op_input_dim(call, 1, 0);
    const op_tensor *given = &call->inputs[1];
    if (given->data && (given->type.dtype == OP_FLOAT || given->type.dtype == OP_DOUBLE)) {
        double real = given->type.dtype == OP_FLOAT ? (double)*(const float *)given->data
                                                    : *(const double *)given->data;
        depth = real >= 0 && real <= 9e18 ? (int64_t)real : OP_DIM_UNKNOWN;
    }
    op_shape shape = {.rank = from->rank + 1};
    for (int32_t i = 0, k = 0; i < shape.rank; i++) shape.dims[i] = i == axis ? depth : from->dims[k++];
    op_output_set(call, 0, call->inputs[2].type.dtype, &shape);
    return BASE_OK;
}

base_status op_infer_reverse_sequence(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status != BASE_OK) return status;
    int64_t time = op_attribute_integer(&call->attributes, "time_axis", 0),
            batch = op_attribute_integer(&call->attributes, "batch_axis", 1);
    const op_type *type = &call->inputs[0].type;
    if ((time != 0 && time != 1) || batch != 1 - time || (type->shape.rank >= 0 && type->shape.rank < 2)) {
        return base_fail(report, BASE_INVALID,
                         "time_axis is %" PRId64 " and batch_axis %" PRId64
                         ": expected 0 and 1 or 1 and 0, of an input of rank 2 or more",
                         time, batch);
    }
    status = op_check_vector(call, 1, false, report);
    if (status == BASE_OK && type->shape.rank > 0 && type->shape.dims[batch] >= 0)
        status = op_check_elements(call, 1, type->shape.dims[batch], report);
    if (status != BASE_OK) return status;
    op_output_set(call, 0, type->dtype, &type->shape);
    return BASE_OK;
}

base_status op_infer_trilu(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK && op_input_present(call, 1))
        status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK) status = op_check_elements(call, 1, 1, report);
    const op_type *type = &call->inputs[0].type;
    if (status == BASE_OK && type->shape.rank >= 0 && type->shape.rank < 2)
        status = base_fail(report, BASE_INVALID, "input 0 has rank %d, expected a matrix or a stack of them",
                           type->shape.rank);
    if (status == BASE_OK) op_output_set(call, 0, type->dtype, &type->shape);
    return status;
}

base_status op_infer_eye_like(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    int64_t dtype = op_attribute_integer(&call->attributes, "dtype", type->dtype);
    bool number = dtype > 0 && dtype < OP_DTYPE_COUNT && ((OP_SET_NUMBERS | OP_SET_BOOL) >> dtype & 1u);
    if (!number || (type->shape.rank >= 0 && type->shape.rank != 2)) {
        return base_fail(report, BASE_INVALID,
                         "input 0 has rank %d, attribute \"dtype\" is %" PRId64
                         ": expected a matrix, and numbers",
                         type->shape.rank, dtype);
    }
    op_output_set(call, 0, (op_dtype)dtype, &type->shape);
    return BASE_OK;
}

base_status op_infer_cum_sum(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_WIDE, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_INDICES, report);
    if (status == BASE_OK) status = op_check_elements(call, 1, 1, report);
    if (status == BASE_OK) op_output_set(call, 0, call->inputs[0].type.dtype, &call->inputs[0].type.shape);
    return status;
}

base_status op_infer_top_k(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_NUMBERS, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK) status = op_check_elements(call, 1, 1, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    op_shape shape = type->shape;
    if (shape.rank >= 0) {
        int32_t axis;
        status = op_attribute_axis(call, -1, shape.rank, &axis, report);
        if (status != BASE_OK) return status;
        int64_t k = op_input_dim(call, 1, 0);
        if (k >= 0 && shape.dims[axis] >= 0 && k > shape.dims[axis]) {
            return base_fail(report, BASE_INVALID, "k is %" PRId64 ", axis %d has %" PRId64 " elements", k,
                             axis, shape.dims[axis]);
        }
        shape.dims[axis] = k;
    }
    op_output_set(call, 0, type->dtype, shape.rank < 0 ? NULL : &shape);
    if (call->output_count > 1) op_output_set(call, 1, OP_INT64, shape.rank < 0 ? NULL : &shape);
    return BASE_OK;
}

/* [N, C, H, W] <-> [N, C / b / b, H * b, W * b]. */
base_status op_infer_depth_space(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    int64_t block = op_attribute_integer(&call->attributes, "blocksize", 0);
    bool to_space = call->code == OP_DEPTH_TO_SPACE;
    if (block < 1 || block > INT32_MAX || (type->shape.rank >= 0 && type->shape.rank != 4)) {
        return base_fail(report, BASE_INVALID,
                         "input 0 has rank %d and blocksize is %" PRId64 ", expected rank 4 and at least 1",
                         type->shape.rank, block);
    }
    op_shape shape = op_shape_of_rank(4);
    if (type->shape.rank == 4) {
        shape.dims[0] = type->shape.dims[0];
        for (int i = 1; i < 4; i++) {
            int64_t extent = type->shape.dims[i], by = i == 1 ? block * block : block;
            if (extent < 0) continue;
            bool divides = to_space == (i == 1);
            if (divides && extent % by) {
                return base_fail(report, BASE_INVALID,
                                 "axis %d has %" PRId64 " elements, expected a multiple of %" PRId64, i,
                                 extent, by);
            }
            if (!divides && extent > INT64_MAX / by)
                return base_fail(report, BASE_INVALID, "axis %d would be too large", i);
            shape.dims[i] = divides ? extent / by : extent * by;
        }
    }
    op_output_set(call, 0, type->dtype, &shape);
    return BASE_OK;
}

/* Outputs of bool, of the input's shape. */
base_status op_infer_is_special(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS | OP_SET_FLOAT8, report);
    if (status == BASE_OK) op_output_set(call, 0, OP_BOOL, &call->inputs[0].type.shape);
    return status;
}

/* Input 0 is a square matrix or a stack of them. */
static base_status check_squares(const op_call *call, base_report *report) {
    const op_shape *shape = &call->inputs[0].type.shape;
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status != BASE_OK || shape->rank < 0) return status;
    const int64_t rows = shape->rank < 2 ? 0 : shape->dims[shape->rank - 2],
                  columns = shape->rank < 2 ? 0 : shape->dims[shape->rank - 1];
    if (shape->rank >= 2 && (rows < 0 || columns < 0 || rows == columns)) return BASE_OK;
    char text[200];
    return base_fail(report, BASE_INVALID, "input 0 is %s, expected a square matrix or a stack of them",
                     op_shape_text(shape, text, sizeof text));
}

base_status op_infer_det(op_call *call, base_report *report) {
    base_status status = check_squares(call, report);
    if (status != BASE_OK) return status;
    op_shape shape = call->inputs[0].type.shape;
    if (shape.rank >= 0) shape.rank -= 2;
    op_output_set(call, 0, call->inputs[0].type.dtype, shape.rank < 0 ? NULL : &shape);
    return BASE_OK;
}

base_status op_infer_inverse(op_call *call, base_report *report) {
    base_status status = check_squares(call, report);
    const op_type *type = &call->inputs[0].type;
    if (status == BASE_OK) op_output_set(call, 0, type->dtype, type->shape.rank < 0 ? NULL : &type->shape);
    return status;
}

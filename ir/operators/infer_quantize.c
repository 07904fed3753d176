/* SPDX-License-Identifier: Apache-2.0 */
/* infer_quantize.c: shape functions of quantisation: numbers as 8-bit integers with a scale and a zero point, and
 * the products and convolutions of such tensors.
 *
 * A scale or a zero point is one number for the tensor (of any shape that has one element), or one for every
 * position along an axis. The rules for each are written at the functions below.
 */
#include "ir/operators/infer.h"
#include "ir/operators/window.h"
#include <inttypes.h>

enum { BYTES = OP_SET(OP_INT8) | OP_SET(OP_UINT8) };

/* Whether the shape has one element: 1 yes, 0 no, -1 not known. */
static int single(const op_shape *shape) {
    if (shape->rank < 0) return -1;
    int answer = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == 1) continue;
        if (shape->dims[i] >= 0) return 0;
        answer = -1;
    }
    return answer;
}

/* Input `input`, called `name`: one number, where present. */
static base_status check_single(const op_call *call, uint32_t input, const char *name, base_report *report) {
    if (!op_input_present(call, input) || single(&call->inputs[input].type.shape) != 0) return BASE_OK;
    char text[128];
    return base_fail(report, BASE_INVALID, "input %u (%s) has shape %s, expected a scalar", input, name,
                     op_shape_text(&call->inputs[input].type.shape, text, sizeof text));
}

/* Input `input`, called `name`: one number, or a vector of `extent` (a dimension), where present. */
static base_status check_along(const op_call *call, uint32_t input, const char *name, int64_t extent,
                               base_report *report) {
    if (!op_input_present(call, input)) return BASE_OK;
    const op_shape *shape = &call->inputs[input].type.shape;
    if (single(shape) != 0) return BASE_OK;
    bool fits = shape->rank == 1 && (extent < 0 || shape->dims[0] < 0 || shape->dims[0] == extent);
    if (fits) return BASE_OK;
    char text[128];
    op_shape_text(shape, text, sizeof text);
    if (extent < 0) {
        return base_fail(report, BASE_INVALID, "input %u (%s) has shape %s, expected a scalar or a vector",
                         input, name, text);
    }
    return base_fail(report, BASE_INVALID,
                     "input %u (%s) has shape %s, expected a scalar or a vector of %" PRId64 " elements",
                     input, name, text, extent);
}

/* Two inputs whose shapes must agree: a scale and its zero point, where both are present. A scalar and a vector of
 * one element pass as the same. */
static base_status check_pair(const op_call *call, uint32_t scale, uint32_t zero, base_report *report) {
    if (!op_input_present(call, scale) || !op_input_present(call, zero)) return BASE_OK;
    const op_shape *a = &call->inputs[scale].type.shape, *b = &call->inputs[zero].type.shape;
    if (single(a) != 0 && single(b) != 0) return BASE_OK;
    bool same = a->rank < 0 || b->rank < 0 || a->rank == b->rank;
    for (int32_t i = 0; same && a->rank >= 0 && i < a->rank && b->rank >= 0; i++) {
        same = a->dims[i] < 0 || b->dims[i] < 0 || a->dims[i] == b->dims[i];
    }
    if (same) return BASE_OK;
    char have[128], want[128];
    return base_fail(report, BASE_INVALID,
                     "input %u (zero point) has shape %s, expected %s, that of the scale", zero,
                     op_shape_text(b, have, sizeof have), op_shape_text(a, want, sizeof want));
}

/* The scale has the shape of input 0, but for the axis, along which it has one for each block. */
static base_status check_blocks(const op_call *call, base_report *report) {
    const op_shape *x = &call->inputs[0].type.shape, *scale = &call->inputs[1].type.shape;
    const int64_t block = op_attribute_integer(&call->attributes, "block_size", 0);
    const int64_t axis = op_attribute_integer(&call->attributes, "axis", 1);
    int32_t normal = 0;
    if (block < 0)
        return base_fail(report, BASE_INVALID, "attribute \"block_size\" is %" PRId64 ", expected at least 0",
                         block);
    if (x->rank < 0 || scale->rank < 0) return BASE_OK;
    bool fits = op_axis(axis, x->rank, &normal) && scale->rank == x->rank;
    for (int32_t i = 0; fits && i < x->rank; i++) {
        const int64_t have = scale->dims[i], whole = x->dims[i];
        fits = have < 0 || whole < 0 || have == (i == normal ? whole / block + (whole % block != 0) : whole);
    }
    if (fits) return BASE_OK;
    char text[128];
    return base_fail(report, BASE_INVALID,
                     "input 1 (scale) has shape %s, expected that of input 0 with one for every %" PRId64
                     " along axis %" PRId64,
                     op_shape_text(scale, text, sizeof text), block, axis);
}

/* Input 1 (a scale) and input 2 (a zero point) of QuantizeLinear and DequantizeLinear: one number, or one for every
 * position along attribute axis, or with block_size one for so many of them beside one another. */
static base_status check_axis(const op_call *call, base_report *report) {
    const op_shape *x = &call->inputs[0].type.shape;
    base_status status = check_pair(call, 1, 2, report);
    if (status != BASE_OK) return status;
    if (op_attribute_integer(&call->attributes, "block_size", 0) != 0) return check_blocks(call, report);
    int64_t extent = OP_DIM_UNKNOWN;
    if (x->rank >= 0 && single(&call->inputs[1].type.shape) == 0) {
        int64_t axis = op_attribute_integer(&call->attributes, "axis", 1);
        int32_t normal;
        if (!op_axis(axis, x->rank, &normal)) {
            return base_fail(report, BASE_INVALID,
                             "attribute \"axis\" is %" PRId64 ", expected at least %d and less than %d", axis,
                             -x->rank, x->rank);
        }
        extent = x->dims[normal];
    }
    status = check_along(call, 1, "scale", extent, report);
    return status == BASE_OK ? check_along(call, 2, "zero point", extent, report) : status;
}

enum {
    WORDS = OP_SET(OP_INT16) | OP_SET(OP_UINT16),
    QUANTIZED = BYTES | WORDS | OP_SET_FLOAT8 | OP_SET_PACKED,
    NARROW_FLOATS = OP_SET(OP_FLOAT) | OP_SET(OP_FLOAT16) | OP_SET(OP_BFLOAT16),
    SCALES = NARROW_FLOATS | OP_SET(OP_FLOAT8E8M0)
};

/* Attribute output_dtype; OP_NONE where it is absent. */
static base_status read_output(const op_call *call, unsigned accepted, op_dtype *dtype, base_report *report) {
    const int64_t number = op_attribute_integer(&call->attributes, "output_dtype", OP_NONE);
    *dtype = OP_NONE;
    if (number == OP_NONE) return BASE_OK;
    if (number < 0 || number >= OP_DTYPE_COUNT || !(accepted & OP_SET(number)))
        return base_fail(report, BASE_INVALID,
                         "attribute \"output_dtype\" is %" PRId64 ", which is no type of the result", number);
    *dtype = (op_dtype)number;
    return BASE_OK;
}

base_status op_infer_quantize_linear(op_call *call, base_report *report) {
    op_dtype dtype = OP_NONE;
    base_status status = op_check_input(call, 0, NARROW_FLOATS | OP_SET(OP_INT32), report);
    if (status == BASE_OK) status = op_check_input(call, 1, SCALES | OP_SET(OP_INT32), report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_input(call, 2, QUANTIZED, report);
    if (status == BASE_OK) status = check_axis(call, report);
    if (status == BASE_OK) status = read_output(call, QUANTIZED, &dtype, report);
    if (status != BASE_OK) return status;
    if (op_input_present(call, 2)) {
        if (dtype != OP_NONE && dtype != call->inputs[2].type.dtype)
            return base_fail(report, BASE_INVALID,
                             "attribute \"output_dtype\" is %s, expected %s, the type of the zero point",
                             op_dtype_name(dtype), op_dtype_name(call->inputs[2].type.dtype));
        dtype = call->inputs[2].type.dtype;
    }
    op_output_set(call, 0, dtype == OP_NONE ? OP_UINT8 : dtype, &call->inputs[0].type.shape);
    return BASE_OK;
}

base_status op_infer_dequantize_linear(op_call *call, base_report *report) {
    op_dtype dtype = OP_NONE;
    base_status status = op_check_input(call, 0, QUANTIZED | OP_SET(OP_INT32), report);
    if (status == BASE_OK) status = op_check_input(call, 1, SCALES, report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_same(call, 2, 0, report);
    if (status == BASE_OK) status = check_axis(call, report);
    if (status == BASE_OK) status = read_output(call, NARROW_FLOATS, &dtype, report);
    if (status != BASE_OK) return status;
    if (dtype == OP_NONE) dtype = call->inputs[1].type.dtype;
    if (dtype == OP_FLOAT8E8M0)
        return base_fail(report, BASE_INVALID,
                         "attribute \"output_dtype\" is absent, a scale of float8e8m0 needs it");
    op_output_set(call, 0, dtype, &call->inputs[0].type.shape);
    return BASE_OK;
}

base_status op_infer_dynamic_quantize_linear(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET(OP_FLOAT), report);
    if (status != BASE_OK) return status;
    const op_shape scalar = {0};
    op_output_set(call, 0, OP_UINT8, &call->inputs[0].type.shape);
    if (call->output_count > 1) op_output_set(call, 1, OP_FLOAT, &scalar);
    if (call->output_count > 2) op_output_set(call, 2, OP_UINT8, &scalar);
    return BASE_OK;
}

/* ---- products ------------------------------------------------------------------------------------------- */

/* A scale or zero point of a matrix or a stack of them: one number, a vector with one for every row (or column), or
 * a tensor of the stack's rank in which the other of the two dimensions is 1. */
static base_status check_lines(const op_call *call, uint32_t input, const char *name, const op_shape *matrix,
                               bool rows, base_report *report) {
    if (!op_input_present(call, input)) return BASE_OK;
    const op_shape *shape = &call->inputs[input].type.shape;
    if (single(shape) != 0 || matrix->rank < 0) return BASE_OK;
    op_shape want = *matrix;
    bool fits;
    if (shape->rank == 1) {
        const int64_t extent = rows ? (matrix->rank > 1 ? matrix->dims[matrix->rank - 2] : 1)
                                    : (matrix->rank > 1 ? matrix->dims[matrix->rank - 1] : 1);
        want = (op_shape){.rank = 1, .dims = {extent}};
    } else if (matrix->rank > 1) {
        want.dims[want.rank - (rows ? 1 : 2)] = 1;
    }
    fits = shape->rank == want.rank;
    for (int32_t i = 0; fits && i < want.rank; i++) {
        fits = shape->dims[i] < 0 || want.dims[i] < 0 || shape->dims[i] == want.dims[i];
    }
    if (fits) return BASE_OK;
    char have[128], wanted[128];
    return base_fail(report, BASE_INVALID,
                     "input %u (%s) has shape %s, expected a scalar or %s, one number a %s", input, name,
                     op_shape_text(shape, have, sizeof have), op_shape_text(&want, wanted, sizeof wanted),
                     rows ? "row" : "column");
}

base_status op_infer_matmul_integer(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, BYTES, report);
    if (status == BASE_OK) status = op_check_input(call, 1, BYTES, report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_same(call, 2, 0, report);
    if (status == BASE_OK && op_input_present(call, 3)) status = op_check_same(call, 3, 1, report);
    op_shape shape;
    if (status == BASE_OK) status = op_product_shape(call, 0, 1, &shape, report);
    if (status == BASE_OK)
        status = check_lines(call, 2, "zero point of A", &call->inputs[0].type.shape, true, report);
    if (status == BASE_OK)
        status = check_lines(call, 3, "zero point of B", &call->inputs[1].type.shape, false, report);
    if (status == BASE_OK) op_output_set(call, 0, OP_INT32, &shape);
    return status;
}

/* The dtypes of x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale and y_zero_point, which QLinearMatMul and
 * QLinearConv have at the same places. */
static base_status check_quantized(const op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, BYTES, report);
    if (status == BASE_OK) status = op_check_input(call, 3, BYTES, report);
    if (status == BASE_OK) status = op_check_same(call, 2, 0, report);
    if (status == BASE_OK) status = op_check_same(call, 5, 3, report);
    if (status == BASE_OK) status = op_check_input(call, 7, BYTES, report);
    static const uint32_t scales[] = {1, 4, 6};
    for (int i = 0; i < 3 && status == BASE_OK; i++) {
        status = op_check_input(call, scales[i], OP_SET(OP_FLOAT), report);
        if (status == BASE_OK) status = check_pair(call, scales[i], scales[i] + 1, report);
    }
    return status;
}

base_status op_infer_qlinear_matmul(op_call *call, base_report *report) {
    base_status status = check_quantized(call, report);
    op_shape shape;
    if (status == BASE_OK) status = op_product_shape(call, 0, 3, &shape, report);
    if (status != BASE_OK) return status;
    const op_shape *a = &call->inputs[0].type.shape, *b = &call->inputs[3].type.shape;
    const bool column =
        b->rank == 1 || a->rank == 1; /* then the rows of Y are not its last dimension but one */
    static const char *const names[] = {"scale of A", "zero point of A", "scale of B", "zero point of B"};
    for (uint32_t i = 0; i < 4 && status == BASE_OK; i++) {
        status = check_lines(call, i < 2 ? 1 + i : 2 + i, names[i], i < 2 ? a : b, i < 2, report);
    }
    for (uint32_t i = 6; i < 8 && status == BASE_OK; i++) {
        const char *name = i == 6 ? "scale of Y" : "zero point of Y";
        status =
            column ? check_single(call, i, name, report) : check_lines(call, i, name, &shape, true, report);
    }
    if (status == BASE_OK) op_output_set(call, 0, call->inputs[7].type.dtype, &shape);
    return status;
}

/* ---- convolutions --------------------------------------------------------------------------------------- */

base_status op_infer_convolution_integer(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, BYTES, report);
    if (status == BASE_OK) status = op_check_input(call, 1, BYTES, report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_same(call, 2, 0, report);
    if (status == BASE_OK && op_input_present(call, 3)) status = op_check_same(call, 3, 1, report);
    op_shape shape;
    if (status == BASE_OK) status = op_convolution_shape(call, 1, 0, OP_WINDOW_RANK, &shape, report);
    if (status != BASE_OK) return status;
    const op_shape *weights = &call->inputs[1].type.shape;
    status = check_single(call, 2, "zero point of X", report);
    if (status == BASE_OK) {
        status = check_along(call, 3, "zero point of W",
                             weights->rank > 0 ? weights->dims[0] : OP_DIM_UNKNOWN, report);
    }
    if (status == BASE_OK) op_output_set(call, 0, OP_INT32, &shape);
    return status;
}

base_status op_infer_qlinear_convolution(op_call *call, base_report *report) {
    base_status status = check_quantized(call, report);
    if (status == BASE_OK && op_input_present(call, 8))
        status = op_check_input(call, 8, OP_SET(OP_INT32), report);
    op_shape shape;
    if (status == BASE_OK) status = op_convolution_shape(call, 3, 8, OP_WINDOW_RANK, &shape, report);
    if (status != BASE_OK) return status;
    const op_shape *weights = &call->inputs[3].type.shape;
    const int64_t maps = weights->rank > 0 ? weights->dims[0] : OP_DIM_UNKNOWN;
    status = check_single(call, 1, "scale of X", report);
    if (status == BASE_OK) status = check_single(call, 2, "zero point of X", report);
    if (status == BASE_OK) status = check_along(call, 4, "scale of W", maps, report);
    if (status == BASE_OK) status = check_along(call, 5, "zero point of W", maps, report);
    if (status == BASE_OK) status = check_single(call, 6, "scale of Y", report);
    if (status == BASE_OK) status = check_single(call, 7, "zero point of Y", report);
    if (status == BASE_OK) op_output_set(call, 0, call->inputs[7].type.dtype, &shape);
    return status;
}

/* Weights in blocks along the depth, each with a scale. */
typedef struct coded_weights {
    int64_t bits, depth, columns;
    int64_t blocks, filled; /* of a column, and its depth with what fills up the last block */
    int64_t scales;         /* of all columns */
    int64_t bytes, zeros;   /* of all codes, and of all zero points that are packed as they are */
} coded_weights;

static base_status read_coded(const op_call *call, coded_weights *of, base_report *report) {
    const int64_t depth = op_attribute_integer(&call->attributes, "K", 0),
                  columns = op_attribute_integer(&call->attributes, "N", 0),
                  bits = op_attribute_integer(&call->attributes, "bits", 4),
                  block = op_attribute_integer(&call->attributes, "block_size", 32), most = INT64_C(1) << 40;
    if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || block > most || (block & (block - 1)) != 0)
        return base_fail_unsupported(report,
                                     "bits %" PRId64 " in blocks of %" PRId64
                                     " are not supported; 2, 4 and 8 in blocks of 16, 32, 64, ... are",
                                     bits, block);
    if (depth < 0 || columns < 0 || depth > most || columns > most)
        return base_fail(report, BASE_INVALID, "K is %" PRId64 " and N %" PRId64, depth, columns);
    const int64_t blocks = (depth + block - 1) / block;
    *of = (coded_weights){
        .bits = bits, .depth = depth, .columns = columns, .blocks = blocks, .filled = blocks * block};
    if (!base_int64_multiply(columns, blocks * (block * bits / 8), &of->bytes) ||
        !base_int64_multiply(columns, blocks, &of->scales) ||
        !base_int64_multiply(columns, (blocks * bits + 7) / 8, &of->zeros))
        return base_fail(report, BASE_INVALID, "K times N is too large");
    return BASE_OK;
}

base_status op_infer_gather_bits(op_call *call, base_report *report) {
    const unsigned reals = OP_SET(OP_FLOAT) | OP_SET(OP_FLOAT16) | OP_SET(OP_BFLOAT16);
    coded_weights table;
    base_status status = read_coded(call, &table, report);
    if (status == BASE_OK && table.bits == 2)
        return base_fail_unsupported(report, "tables of 2 bits are not supported; those of 4 and 8 are");
    if (status == BASE_OK) status = op_check_input(call, 0, OP_SET(OP_UINT8), report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_INDICES, report);
    if (status == BASE_OK) status = op_check_input(call, 2, reals, report);
    if (status == BASE_OK && op_input_present(call, 3))
        status = op_check_input(call, 3, OP_SET(OP_UINT8), report);
    if (status == BASE_OK) status = op_check_elements(call, 0, table.bytes, report);
    if (status == BASE_OK) status = op_check_elements(call, 2, table.scales, report);
    if (status == BASE_OK) status = op_check_elements(call, 3, table.zeros, report);
    if (status != BASE_OK) return status;
    op_shape shape = call->inputs[1].type.shape;
    if (shape.rank == OP_MAX_RANK)
        return base_fail(report, BASE_INVALID, "the result would have rank %d, expected at most %d",
                         shape.rank + 1, OP_MAX_RANK);
    if (shape.rank >= 0) shape.dims[shape.rank++] = table.depth;
    op_output_set(call, 0, call->inputs[2].type.dtype, shape.rank < 0 ? NULL : &shape);
    return BASE_OK;
}

/* A [..., K] times the N columns of B [N, blocks, bytes of a block]: numbers, or with ouro.levels those of 16 levels. */
base_status op_infer_matmul_bits(op_call *call, base_report *report) {
    const unsigned reals = OP_SET(OP_FLOAT) | OP_SET(OP_FLOAT16) | OP_SET(OP_BFLOAT16);
    coded_weights weights;
    base_status status = read_coded(call, &weights, report);
    if (status != BASE_OK) return status;
    size_t levels;
    if (op_attribute_reals(&call->attributes, "ouro.levels", &levels) && (levels != 16 || weights.bits != 4))
        return base_fail(report, BASE_INVALID, "%zu levels of %" PRId64 " bits, expected 16 of 4", levels,
                         weights.bits);
    status = op_check_input(call, 0, reals, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_UINT8), report);
    if (status == BASE_OK) status = op_check_same(call, 2, 0, report);
    if (status == BASE_OK && op_input_present(call, 3))
        status = op_check_input(call, 3, reals | OP_SET(OP_UINT8), report);
    const bool packed = op_input_present(call, 3) && call->inputs[3].type.dtype == OP_UINT8;
    if (status == BASE_OK && op_input_present(call, 3) && !packed) status = op_check_same(call, 3, 0, report);
    if (status == BASE_OK && op_input_present(call, 4))
        status = op_check_input(call, 4, OP_SET(OP_INT32), report);
    if (status == BASE_OK && op_input_present(call, 5)) status = op_check_same(call, 5, 0, report);
    if (status == BASE_OK) status = op_check_elements(call, 1, weights.bytes, report);
    if (status == BASE_OK) status = op_check_elements(call, 2, weights.scales, report);
    if (status == BASE_OK)
        status = op_check_elements(call, 3, packed ? weights.zeros : weights.scales, report);
    if (status == BASE_OK) {
        int64_t
            groups; /* one for each row of the weights; some writers also give those that fill up the last block */
        const bool filled = op_input_present(call, 4) &&
                            op_shape_elements(&call->inputs[4].type.shape, &groups) &&
                            groups == weights.filled;
        status = op_check_elements(call, 4, filled ? weights.filled : weights.depth, report);
    }
    if (status == BASE_OK) status = op_check_elements(call, 5, weights.columns, report);
    if (status != BASE_OK) return status;
    op_shape shape = call->inputs[0].type.shape;
    if (shape.rank == 0 ||
        (shape.rank > 0 && shape.dims[shape.rank - 1] >= 0 && shape.dims[shape.rank - 1] != weights.depth)) {
        char text[128];
        return base_fail(report, BASE_INVALID, "input 0 has shape %s, expected K = %" PRId64 " columns",
                         op_shape_text(&shape, text, sizeof text), weights.depth);
    }
    if (shape.rank > 0) shape.dims[shape.rank - 1] = weights.columns;
    op_output_set(call, 0, call->inputs[0].type.dtype, shape.rank < 0 ? NULL : &shape);
    return BASE_OK;
}

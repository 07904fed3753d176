/* SPDX-License-Identifier: Apache-2.0 */
/* infer_image.c: shape functions of operators that sample images, put them together or decode them: AffineGrid, Col2Im, DeformConv,
 * ImageDecoder. */
#include "ir/operators/infer.h"
#include <inttypes.h>

/* Entry `index` of an attribute with one number an axis, `otherwise` where it is absent. */
static int64_t entry(const op_call *call, const char *name, int32_t index, int64_t otherwise) {
    return op_attribute_find(&call->attributes, name)
               ? op_attribute_entry(&call->attributes, name, (size_t)index)
               : otherwise;
}

/* The attribute, where it is there, has `count` numbers, none below `least`. */
static base_status check_list(const op_call *call, const char *name, size_t count, int64_t least,
                              base_report *report) {
    size_t own;
    const int64_t *list = op_attribute_integers(&call->attributes, name, &own);
    if (!list) return BASE_OK;
    if (own != count)
        return base_fail(report, BASE_INVALID, "attribute \"%s\" has %zu numbers, expected %zu", name, own,
                         count);
    for (size_t i = 0; i < own; i++) {
        if (list[i] < least || list[i] > INT32_MAX)
            return base_fail(report, BASE_INVALID,
                             "attribute \"%s\" has %" PRId64 ", expected at least %" PRId64, name, list[i],
                             least);
    }
    return BASE_OK;
}

static base_status check_window(const op_call *call, int32_t rank, base_report *report) {
    base_status status = check_list(call, "strides", (size_t)rank, 1, report);
    if (status == BASE_OK) status = check_list(call, "dilations", (size_t)rank, 1, report);
    return status == BASE_OK ? check_list(call, "pads", 2 * (size_t)rank, 0, report) : status;
}

/* ---- AffineGrid ---------------------------------------------------------------------------------------- */

base_status op_infer_affine_grid(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    op_shape size;
    if (status == BASE_OK) status = op_input_shape(call, 1, &size, report);
    if (status != BASE_OK) return status;
    const op_shape *theta = &call->inputs[0].type.shape;
    if (theta->rank >= 0 && theta->rank != 3)
        return base_fail(report, BASE_INVALID, "input 0 has rank %d, expected 3", theta->rank);
    int32_t rank = size.rank >= 0                            ? size.rank - 2
                   : theta->rank == 3 && theta->dims[1] >= 0 ? (int32_t)theta->dims[1]
                                                             : -1;
    if (rank < 0 && size.rank < 0) {
        op_output_set(call, 0, call->inputs[0].type.dtype, NULL);
        return BASE_OK;
    }
    if (rank != 2 && rank != 3)
        return base_fail(report, BASE_INVALID,
                         "input 1 has %d elements, expected 4 (N, C, H, W) or 5 (N, C, D, H, W)", size.rank);
    if (theta->rank == 3 && ((theta->dims[1] >= 0 && theta->dims[1] != rank) ||
                             (theta->dims[2] >= 0 && theta->dims[2] != rank + 1)))
        return base_fail(report, BASE_INVALID,
                         "input 0 has matrices of %" PRId64 " x %" PRId64 ", expected %d x %d",
                         theta->dims[1], theta->dims[2], rank, rank + 1);
    op_shape shape = op_shape_of_rank(rank + 2);
    if (size.rank >= 0) {
        shape.dims[0] = size.dims[0];
        for (int32_t i = 0; i < rank; i++) shape.dims[1 + i] = size.dims[2 + i];
    }
    if (theta->rank == 3 && theta->dims[0] >= 0 && shape.dims[0] >= 0 && theta->dims[0] != shape.dims[0])
        return base_fail(report, BASE_INVALID,
                         "input 0 has %" PRId64 " matrices, expected %" PRId64
                         ", the batch that input 1 names",
                         theta->dims[0], shape.dims[0]);
    if (theta->rank == 3 && shape.dims[0] < 0) shape.dims[0] = theta->dims[0];
    shape.dims[rank + 1] = rank;
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

/* ---- Col2Im -------------------------------------------------------------------------------------------- */

base_status op_infer_col2im(op_call *call, base_report *report) {
    enum { SUMMED = OP_SET_NUMBERS | OP_SET(OP_COMPLEX64) | OP_SET(OP_COMPLEX128) };
    base_status status = op_check_input(call, 0, SUMMED, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK) status = op_check_input(call, 2, OP_SET(OP_INT64), report);
    op_shape image, block;
    if (status == BASE_OK) status = op_input_shape(call, 1, &image, report);
    if (status == BASE_OK) status = op_input_shape(call, 2, &block, report);
    if (status != BASE_OK) return status;
    const op_shape *x = &call->inputs[0].type.shape;
    if (x->rank >= 0 && x->rank != 3)
        return base_fail(report, BASE_INVALID, "input 0 has rank %d, expected 3", x->rank);
    const int32_t rank = image.rank >= 0 ? image.rank : block.rank;
    if (rank < 0) {
        op_output_set(call, 0, call->inputs[0].type.dtype, NULL);
        return BASE_OK;
    }
    if (rank + 2 > OP_MAX_RANK || rank == 0 ||
        (image.rank >= 0 && block.rank >= 0 && image.rank != block.rank))
        return base_fail(report, BASE_INVALID,
                         "the image has %d dimensions, the block %d, expected as many, 1 to %d", image.rank,
                         block.rank, OP_MAX_RANK - 2);
    status = check_window(call, rank, report);
    if (status != BASE_OK) return status;
    op_shape shape = op_shape_of_rank(rank + 2);
    int64_t elements;
    if (x->rank == 3) shape.dims[0] = x->dims[0];
    if (x->rank == 3 && block.rank >= 0 && op_shape_elements(&block, &elements)) {
        if (elements < 1)
            return base_fail(report, BASE_INVALID, "the block is empty, expected positive extents");
        if (x->dims[1] >= 0 && x->dims[1] % elements != 0)
            return base_fail(report, BASE_INVALID,
                             "dimension 1 of input 0 is %" PRId64 ", expected a multiple of the %" PRId64
                             " elements of a block",
                             x->dims[1], elements);
        shape.dims[1] = op_dim_compute(call, '/', x->dims[1], elements);
    }
    for (int32_t i = 0; i < image.rank; i++) shape.dims[2 + i] = image.dims[i];
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

/* ---- DeformConv ---------------------------------------------------------------------------------------- */

/* The extent of the result along an axis, where it is known. */
static int64_t result_extent(const op_call *call, int32_t axis, int32_t rank, int64_t extent,
                             int64_t window) {
    if (extent < 0 || window < 1) return OP_DIM_UNKNOWN;
    int64_t reach;
    if (!base_int64_multiply(window - 1, entry(call, "dilations", axis, 1), &reach)) return 0;
    const int64_t rest =
        extent + entry(call, "pads", axis, 0) + entry(call, "pads", axis + rank, 0) - reach - 1;
    return rest < 0 ? 0 : rest / entry(call, "strides", axis, 1) + 1;
}

/* Dimension `at` of input `input` is `want`, where both are known. */
static base_status check_dim(const op_call *call, uint32_t input, int32_t at, int64_t want,
                             base_report *report) {
    const op_shape *shape = &call->inputs[input].type.shape;
    if (shape->rank <= at || shape->dims[at] < 0 || want < 0 || shape->dims[at] == want) return BASE_OK;
    return base_fail(report, BASE_INVALID, "dimension %d of input %u is %" PRId64 ", expected %" PRId64, at,
                     input, shape->dims[at], want);
}

base_status op_infer_deform_conv(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    for (uint32_t i = 1; i < 5 && status == BASE_OK; i++) {
        if (i < 3 || op_input_present(call, i)) status = op_check_same(call, i, 0, report);
    }
    if (status != BASE_OK) return status;
    const op_shape *x = &call->inputs[0].type.shape, *w = &call->inputs[1].type.shape;
    if (x->rank < 0 || w->rank < 0) {
        op_output_set(call, 0, call->inputs[0].type.dtype, NULL);
        return BASE_OK;
    }
    const int32_t rank = x->rank - 2;
    if (rank < 1 || rank > 4 || w->rank != x->rank)
        return base_fail(report, BASE_INVALID,
                         "inputs 0 and 1 have ranks %d and %d, expected equal ones of 3 to 6", x->rank,
                         w->rank);
    const int64_t group = op_attribute_integer(&call->attributes, "group", 1),
                  sets = op_attribute_integer(&call->attributes, "offset_group", 1);
    if (group < 1 || sets < 1 ||
        (x->dims[1] >= 0 && (x->dims[1] % group != 0 || x->dims[1] % sets != 0 || x->dims[1] == 0)) ||
        (w->dims[0] >= 0 && w->dims[0] % group != 0))
        return base_fail(report, BASE_INVALID,
                         "the channels cannot be divided into %" PRId64 " groups and %" PRId64
                         " groups of offsets",
                         group, sets);
    status = check_window(call, rank, report);
    if (status == BASE_OK && x->dims[1] >= 0) status = check_dim(call, 1, 1, x->dims[1] / group, report);
    op_shape shape = op_shape_of_rank(x->rank);
    shape.dims[0] = x->dims[0];
    shape.dims[1] = w->dims[0];
    int64_t window = 1;
    for (int32_t i = 0; i < rank && status == BASE_OK; i++) {
        shape.dims[2 + i] = result_extent(call, i, rank, x->dims[2 + i], w->dims[2 + i]);
        window = window < 0 || w->dims[2 + i] < 0 ? -1 : window * w->dims[2 + i];
        if (w->dims[2 + i] == 0) return base_fail(report, BASE_INVALID, "the window is empty");
        status = check_dim(call, 2, 2 + i, shape.dims[2 + i], report);
        if (status == BASE_OK && op_input_present(call, 4))
            status = check_dim(call, 4, 2 + i, shape.dims[2 + i], report);
    }
    for (uint32_t i = 2; i < 5 && status == BASE_OK; i += 2) {
        const op_shape *own = &call->inputs[i].type.shape;
        if (!op_input_present(call, i)) continue;
        if (own->rank >= 0 && own->rank != x->rank)
            return base_fail(report, BASE_INVALID, "input %u has rank %d, expected %d", i, own->rank,
                             x->rank);
        status = check_dim(call, i, 0, x->dims[0], report);
        if (status == BASE_OK && window > 0)
            status = check_dim(call, i, 1, sets * window * (i == 2 ? rank : 1), report);
    }
    if (status == BASE_OK && op_input_present(call, 3)) {
        status = op_check_vector(call, 3, false, report);
        if (status == BASE_OK && w->dims[0] >= 0) status = op_check_elements(call, 3, w->dims[0], report);
    }
    if (status == BASE_OK) op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return status;
}

/* ---- ImageDecoder -------------------------------------------------------------------------------------- */

base_status op_infer_image_decoder(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET(OP_UINT8), report);
    if (status == BASE_OK) status = op_check_vector(call, 0, false, report);
    if (status != BASE_OK) return status;
    static const char *const formats[] = {"RGB", "BGR", "Grayscale"};
    int64_t channels = 0;
    for (int i = 0; i < 3; i++) {
        if (op_attribute_is(&call->attributes, "pixel_format", formats[i], "RGB")) channels = i < 2 ? 3 : 1;
    }
    if (channels == 0)
        return base_fail(report, BASE_INVALID,
                         "attribute \"pixel_format\" is unknown, expected RGB, BGR or Grayscale");
    const op_shape shape = {3, {OP_DIM_UNKNOWN, OP_DIM_UNKNOWN, channels}};
    op_output_set(call, 0, OP_UINT8, &shape);
    return BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* infer_resample.c: shapes of operators that read an image at other points than it has: Resize, GridSample,
 * RoiAlign, MaxRoiPool, MaxUnpool, and ConvTranspose, which spreads points. */
#include "ir/operators/infer.h"
#include "ir/operators/window.h"

#include <inttypes.h>
#include <math.h>

/* A real number of a constant input. */
static bool constant_real(const op_call *call, uint32_t input, int64_t index, double *value) {
    if (!op_input_present(call, input) || !call->inputs[input].data) return false;
    const op_tensor *tensor = &call->inputs[input];
    int64_t count;
    if (!op_shape_elements(&tensor->type.shape, &count) || index >= count) return false;
    if (tensor->type.dtype == OP_FLOAT) *value = (double)((const float *)tensor->data)[index];
    else if (tensor->type.dtype == OP_DOUBLE) *value = ((const double *)tensor->data)[index];
    else return false;
    return true;
}

/* Which entry of scales, sizes and regions each axis of Resize has; -1: it is not resized. */
static base_status resized_axes(const op_call *call, int32_t rank, int32_t entries[OP_MAX_RANK],
                                int32_t *named, base_report *report) {
    size_t count;
    const int64_t *axes = op_attribute_integers(&call->attributes, "axes", &count);
    *named = axes ? (int32_t)(count > OP_MAX_RANK ? OP_MAX_RANK : count) : rank;
    for (int32_t i = 0; i < rank; i++) entries[i] = axes ? -1 : i;
    for (size_t i = 0; i < count; i++) {
        int32_t axis;
        if (!op_axis(axes[i], rank, &axis) || entries[axis] >= 0)
            return base_fail(report, BASE_INVALID,
                             "attribute \"axes\" has %" PRId64 ", expected different numbers in [%d, %d)",
                             axes[i], -rank, rank);
        entries[axis] = (int32_t)i;
    }
    return BASE_OK;
}

/* The scale at which no extent is larger (or smaller) than the size given for it; false where one is not known. */
static bool proportion(const op_call *call, const int32_t entries[OP_MAX_RANK], double *common) {
    const op_shape *from = &call->inputs[0].type.shape;
    const bool larger =
        op_attribute_is(&call->attributes, "keep_aspect_ratio_policy", "not_smaller", "stretch");
    bool any = false;
    for (int32_t i = 0; i < from->rank; i++) {
        int64_t size;
        if (entries[i] < 0) continue;
        if (from->dims[i] <= 0 || !op_input_integer(call, 3, entries[i], &size) || size < 0 ||
            size > (int64_t)1 << 40)
            return false;
        const double scale = (double)size / (double)from->dims[i];
        if (!any || (larger ? scale > *common : scale < *common)) *common = scale;
        any = true;
    }
    return any;
}

/* What becomes of an extent that only a run knows: for factors that leave no doubt about rounding. */
static int64_t scaled_symbol(const op_call *call, int64_t extent, double scale) {
    enum { MOST_FACTOR = 1 << 20 };
    int exponent;
    if (extent == OP_DIM_UNKNOWN || !(scale > 0) || scale > MOST_FACTOR) return OP_DIM_UNKNOWN;
    if (scale == floor(scale)) return op_dim_compute(call, '*', extent, (int64_t)scale);
    /* Powers of two are exact, and what they divide by is. */
    if (scale < 1 && 1 / scale <= MOST_FACTOR && frexp(scale, &exponent) == 0.5)
        return op_dim_compute(call, '/', extent, (int64_t)(1 / scale));
    return OP_DIM_UNKNOWN;
}

base_status op_infer_resize(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    bool scaled = op_input_present(call, 2), sized = op_input_present(call, 3);
    if (status == BASE_OK && op_input_present(call, 1))
        status = op_check_input(call, 1, OP_SET(OP_FLOAT) | OP_SET(OP_DOUBLE) | OP_SET(OP_FLOAT16), report);
    if (status == BASE_OK && scaled) status = op_check_input(call, 2, OP_SET(OP_FLOAT), report);
    if (status == BASE_OK && sized) status = op_check_input(call, 3, OP_SET(OP_INT64), report);
    if (status != BASE_OK) return status;
    /* An empty list of scales counts as none. */
    if (scaled && sized && call->inputs[2].type.shape.rank == 1 && call->inputs[2].type.shape.dims[0] == 0)
        scaled = false;
    if (scaled == sized)
        return base_fail(report, BASE_INVALID, "%s, expected one of scales and sizes",
                         scaled ? "both scales and sizes are given" : "neither scales nor sizes are given");
    const op_type *type = &call->inputs[0].type;
    const op_shape *given = &call->inputs[sized ? 3 : 2].type.shape;
    if (type->shape.rank < 0) {
        op_output_set(call, 0, type->dtype, NULL);
        return BASE_OK;
    }
    int32_t entries[OP_MAX_RANK], named;
    status = resized_axes(call, type->shape.rank, entries, &named, report);
    if (status != BASE_OK) return status;
    if (given->rank >= 0 && (given->rank != 1 || (given->dims[0] >= 0 && given->dims[0] != named))) {
        char text[200];
        return base_fail(report, BASE_INVALID, "%s are %s, expected %d numbers, one a dimension",
                         sized ? "sizes" : "scales", op_shape_text(given, text, sizeof text), named);
    }
    op_shape shape = op_shape_of_rank(type->shape.rank);
    const bool crops = op_attribute_is(&call->attributes, "coordinate_transformation_mode",
                                       "tf_crop_and_resize", "half_pixel");
    const bool stretch = op_attribute_is(&call->attributes, "keep_aspect_ratio_policy", "stretch", "stretch");
    double common = 0;
    const bool kept = sized && !stretch && proportion(call, entries, &common);
    for (int32_t i = 0; i < shape.rank; i++) {
        const int32_t entry = entries[i];
        double scale, begin = 0, end = 1;
        if (entry < 0) {
            shape.dims[i] = type->shape.dims[i];
        } else if (sized && stretch) {
            shape.dims[i] = op_input_dim(call, 3, entry);
        } else if (sized) {
            if (kept) shape.dims[i] = (int64_t)floor(common * (double)type->shape.dims[i] + 0.5);
        } else if (constant_real(call, 2, entry, &scale) && type->shape.dims[i] >= 0 &&
                   (!crops ||
                    (constant_real(call, 1, entry, &begin) && constant_real(call, 1, entry + named, &end)))) {
            /* In float, as ONNX's own shape inference and others have it: 30 times 0.7, which as a float is a little less, is 21. */
            const double extent =
                floor((double)((float)type->shape.dims[i] * (float)(end - begin) * (float)scale));
            if (!(scale > 0) || extent > 9e15)
                return base_fail(report, BASE_INVALID, "scale %g of axis %d is not possible", scale, i);
            shape.dims[i] = extent < 0 ? 0 : (int64_t)extent;
        } else if (!sized && !crops && constant_real(call, 2, entry, &scale)) {
            shape.dims[i] = scaled_symbol(call, type->shape.dims[i], scale);
        }
    }
    op_output_set(call, 0, type->dtype, &shape);
    return BASE_OK;
}

base_status op_infer_grid_sample(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_FLOATS, report);
    if (status != BASE_OK) return status;
    const op_shape *image = &call->inputs[0].type.shape, *grid = &call->inputs[1].type.shape;
    const int32_t rank = image->rank >= 0 ? image->rank : grid->rank;
    const int64_t coordinates = grid->rank >= 3 ? grid->dims[grid->rank - 1] : -1;
    if ((rank >= 0 && rank < 3) || (image->rank >= 0 && grid->rank >= 0 && image->rank != grid->rank) ||
        (coordinates >= 0 && coordinates != rank - 2) ||
        (image->rank >= 0 && grid->rank >= 0 && image->dims[0] >= 0 && grid->dims[0] >= 0 &&
         image->dims[0] != grid->dims[0])) {
        char a[200], b[200];
        return base_fail(report, BASE_INVALID,
                         "the image is %s and the grid %s, expected [N,C,D1,...,Dr] and [N,d1,...,dr,r]",
                         op_shape_text(image, a, sizeof a), op_shape_text(grid, b, sizeof b));
    }
    op_shape shape = rank >= 0 ? op_shape_of_rank(rank) : (op_shape){.rank = -1};
    if (image->rank >= 0) {
        shape.dims[0] = image->dims[0];
        shape.dims[1] = image->dims[1];
    }
    if (grid->rank >= 0)
        for (int32_t d = 2; d < rank; d++) shape.dims[d] = grid->dims[d - 1];
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

static base_status check_regions(const op_call *call, int64_t columns, base_report *report) {
    const op_shape *image = &call->inputs[0].type.shape, *regions = &call->inputs[1].type.shape;
    bool fits =
        (image->rank < 0 || image->rank == 4) &&
        (regions->rank < 0 || (regions->rank == 2 && (regions->dims[1] < 0 || regions->dims[1] == columns)));
    if (fits) return BASE_OK;
    char a[200], b[200];
    return base_fail(report, BASE_INVALID,
                     "the image is %s and the regions %s, expected [N,C,H,W] and [regions,%" PRId64 "]",
                     op_shape_text(image, a, sizeof a), op_shape_text(regions, b, sizeof b), columns);
}

static void set_regions(op_call *call, int64_t height, int64_t width) {
    op_shape shape = op_shape_of_rank(4);
    if (call->inputs[1].type.shape.rank == 2) shape.dims[0] = call->inputs[1].type.shape.dims[0];
    if (call->inputs[0].type.shape.rank == 4) shape.dims[1] = call->inputs[0].type.shape.dims[1];
    shape.dims[2] = height;
    shape.dims[3] = width;
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
}

base_status op_infer_roi_align(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = op_check_same(call, 1, 0, report);
    if (status == BASE_OK) status = op_check_input(call, 2, OP_SET(OP_INT64), report);
    if (status == BASE_OK) status = check_regions(call, 4, report);
    if (status == BASE_OK) status = op_check_vector(call, 2, false, report);
    if (status == BASE_OK && call->inputs[1].type.shape.rank == 2 && call->inputs[1].type.shape.dims[0] >= 0)
        status = op_check_elements(call, 2, call->inputs[1].type.shape.dims[0], report);
    int64_t height = op_attribute_integer(&call->attributes, "output_height", 1),
            width = op_attribute_integer(&call->attributes, "output_width", 1);
    if (status == BASE_OK && (height < 1 || width < 1))
        status = base_fail(report, BASE_INVALID, "an output of %" PRId64 " x %" PRId64 " is not possible",
                           height, width);
    if (status == BASE_OK) set_regions(call, height, width);
    return status;
}

base_status op_infer_max_roi_pool(op_call *call, base_report *report) {
    size_t count;
    const int64_t *size = op_attribute_integers(&call->attributes, "pooled_shape", &count);
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = op_check_same(call, 1, 0, report);
    if (status == BASE_OK) status = check_regions(call, 5, report);
    if (status == BASE_OK && (count != 2 || size[0] < 1 || size[1] < 1))
        status = base_fail(report, BASE_INVALID, "attribute \"pooled_shape\" needs two positive numbers");
    if (status == BASE_OK) set_regions(call, size[0], size[1]);
    return status;
}

/* Extent i of a list attribute with one number a spatial dimension. */
static int64_t entry(const op_call *call, const char *name, int32_t i, int64_t otherwise) {
    size_t count;
    const int64_t *list = op_attribute_integers(&call->attributes, name, &count);
    return (size_t)i < count ? list[i] : otherwise;
}

/* The extent that was pooled to `extent`; false where the attributes are impossible. */
static bool unpooled_extent(const op_call *call, int32_t i, int32_t spatial, int64_t extent,
                            int64_t *result) {
    const int64_t stride = entry(call, "strides", i, 1), kernel = entry(call, "kernel_shape", i, 1),
                  before = entry(call, "pads", i, 0), after = entry(call, "pads", i + spatial, 0);
    if (stride < 1 || kernel < 1 || before < 0 || after < 0 || kernel > INT32_MAX || before > INT32_MAX ||
        after > INT32_MAX || !base_int64_multiply(extent - 1, stride, result) ||
        !base_int64_add(*result, kernel - before - after, result))
        return false;
    return *result >= 0;
}

base_status op_infer_max_unpool(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK && op_input_present(call, 2))
        status = op_check_input(call, 2, OP_SET(OP_INT64), report);
    if (status != BASE_OK) return status;
    op_shape shape = call->inputs[0].type.shape;
    if (shape.rank < 0) {
        op_output_set(call, 0, call->inputs[0].type.dtype, NULL);
        return BASE_OK;
    }
    if (shape.rank < 3)
        return base_fail(report, BASE_INVALID, "input 0 has rank %d, expected at least 3", shape.rank);
    int32_t spatial = shape.rank - 2;
    status = op_check_elements(call, 2, shape.rank, report);
    for (int32_t i = 0; i < shape.rank && status == BASE_OK; i++) {
        if (i >= 2 && shape.dims[i] >= 0 &&
            !unpooled_extent(call, i - 2, spatial, shape.dims[i], &shape.dims[i])) {
            status = base_fail(report, BASE_INVALID,
                               "along axis %d stride %" PRId64 ", kernel %" PRId64 " and the pads do not fit",
                               i, entry(call, "strides", i - 2, 1), entry(call, "kernel_shape", i - 2, 1));
        }
        if (op_input_present(call, 2)) shape.dims[i] = op_input_dim(call, 2, i);
    }
    if (status != BASE_OK) return status;
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

/* The extent of an output along an axis of which only a run knows the input's; `added` is what pads come to. */
static int64_t open_extent(const op_call *call, const op_transposed *t, int32_t axis, int64_t added,
                           bool same) {
    if (t->kernel[axis] < 0) return OP_DIM_UNKNOWN;
    const int64_t strided = op_dim_compute(call, '*', t->input[axis], t->stride[axis]);
    if (same) return strided;
    const int64_t more = added + (t->kernel[axis] - 1) * t->dilation[axis] + 1 - t->stride[axis];
    return op_dim_compute(call, more < 0 ? '-' : '+', strided, more < 0 ? -more : more);
}

bool op_transposed_read(const op_call *call, op_transposed *t, base_report *report) {
    const op_shape *x = &call->inputs[0].type.shape, *w = &call->inputs[1].type.shape;
    *t = (op_transposed){.rank = x->rank - 2, .group = op_attribute_integer(&call->attributes, "group", 1)};
    size_t wanted, given;
    const int64_t *output = op_attribute_integers(&call->attributes, "output_shape", &wanted);
    (void)op_attribute_integers(&call->attributes, "kernel_shape", &given);
    bool same_upper = op_attribute_is(&call->attributes, "auto_pad", "SAME_UPPER", "NOTSET"),
         same_lower = op_attribute_is(&call->attributes, "auto_pad", "SAME_LOWER", "NOTSET"),
         none = op_attribute_is(&call->attributes, "auto_pad", "VALID", "NOTSET");
    if (t->rank < 1 || t->rank > OP_MAX_RANK - 2 || w->rank != x->rank || t->group < 1 ||
        (x->dims[1] >= 0 && w->dims[0] >= 0 && x->dims[1] != w->dims[0]) ||
        (w->dims[0] >= 0 && w->dims[0] % t->group)) {
        char a[200], b[200];
        base_fail(report, BASE_INVALID,
                  "input 0 is %s and the weights are %s in %" PRId64
                  " groups: expected [N,C,...] and [C,filters / group,...]",
                  op_shape_text(x, a, sizeof a), op_shape_text(w, b, sizeof b), t->group);
        return false;
    }
    for (int32_t i = 0; i < t->rank; i++) {
        t->input[i] = x->dims[2 + i];
        t->kernel[i] = given ? entry(call, "kernel_shape", i, 1) : w->dims[2 + i];
        t->stride[i] = entry(call, "strides", i, 1);
        t->dilation[i] = entry(call, "dilations", i, 1);
        t->before[i] = entry(call, "pads", i, 0);
        int64_t after = entry(call, "pads", i + t->rank, 0), more = entry(call, "output_padding", i, 0);
        t->output[i] = OP_DIM_UNKNOWN;
        if (t->stride[i] < 1 || t->dilation[i] < 1 || t->kernel[i] == 0 || t->kernel[i] > INT32_MAX ||
            more < 0 || more > INT32_MAX || t->before[i] < -INT32_MAX || t->before[i] > INT32_MAX ||
            after < -INT32_MAX || after > INT32_MAX || t->stride[i] > INT32_MAX ||
            t->dilation[i] > INT32_MAX || t->input[i] > INT32_MAX ||
            (w->dims[2 + i] >= 0 && t->kernel[i] != w->dims[2 + i])) {
            base_fail(report, BASE_INVALID,
                      "along axis %d stride %" PRId64 ", dilation %" PRId64 ", kernel %" PRId64
                      " and weights of %" PRId64 " do not fit",
                      2 + i, t->stride[i], t->dilation[i], t->kernel[i], w->dims[2 + i]);
            return false;
        }
        if (t->input[i] < 0 || t->kernel[i] < 0) {
            const int64_t added = more - (none ? 0 : t->before[i] + after);
            if (!wanted) t->output[i] = open_extent(call, t, i, added, same_upper || same_lower);
            continue;
        }
        int64_t full = t->stride[i] * (t->input[i] - 1) + more + (t->kernel[i] - 1) * t->dilation[i] + 1;
        if (wanted || same_upper || same_lower) {
            /* The explicit list has the spatial extents, or all of them. */
            size_t skip = wanted == (size_t)t->rank + 2 ? 2 : 0;
            t->output[i] = wanted ? (size_t)i + skip < wanted ? output[(size_t)i + skip] : -1
                                  : t->input[i] * t->stride[i];
            int64_t pads = t->output[i] < 0 ? 0 : full - t->output[i];
            if (pads < 0) pads = 0; /* what is missing is zero, at the end */
            t->before[i] = same_upper ? pads / 2 : pads - pads / 2;
        } else {
            if (none) t->before[i] = after = 0;
            t->output[i] = full - t->before[i] - after;
        }
        if (t->output[i] < 0) {
            base_fail(report, BASE_INVALID, "axis %d would have %" PRId64 " elements", 2 + i, t->output[i]);
            return false;
        }
    }
    return true;
}

op_transposed_phase op_transposed_phase_of(const op_transposed *t, int32_t axis, int64_t first) {
    if (axis < 0) return (op_transposed_phase){.kernel = 1, .output = 1};
    const int64_t stride = t->stride[axis], kernel = t->kernel[axis], output = t->output[axis],
                  at = first + t->before[axis];
    op_transposed_phase phase = {.begin = at % stride};
    phase.kernel = kernel > phase.begin ? (kernel - phase.begin - 1) / stride + 1 : 0;
    phase.before = phase.kernel - 1 - (at - phase.begin) / stride;
    phase.output = output < 0 ? output : output > first ? (output - first - 1) / stride + 1 : 0;
    return phase;
}

base_status op_infer_conv_transpose(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = op_check_same(call, 1, 0, report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_same(call, 2, 0, report);
    if (status != BASE_OK) return status;
    const op_shape *x = &call->inputs[0].type.shape, *w = &call->inputs[1].type.shape;
    if (x->rank < 0 || w->rank < 0) {
        op_output_set(call, 0, call->inputs[0].type.dtype, NULL);
        return BASE_OK;
    }
    op_transposed t;
    if (!op_transposed_read(call, &t, report)) return BASE_INVALID;
    if (op_input_present(call, 2)) {
        status = op_check_vector(call, 2, false, report);
        if (status == BASE_OK && w->dims[1] >= 0 && w->dims[1] <= INT64_MAX / t.group)
            status = op_check_elements(call, 2, w->dims[1] * t.group, report);
        if (status != BASE_OK) return status;
    }
    op_shape shape = op_shape_of_rank(x->rank);
    shape.dims[0] = x->dims[0];
    if (w->dims[1] >= 0 && w->dims[1] <= INT64_MAX / t.group) shape.dims[1] = w->dims[1] * t.group;
    for (int32_t i = 0; i < t.rank; i++) shape.dims[2 + i] = t.output[i];
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft_images.c: operators of com.microsoft on images, most of whose channels stand after the spatial axes. */
#include "compiler/onnx/convert/microsoft.h"

#include <string.h>

static const op_attributes NONE = {0};

ir_value *import_ms_channels_moved(const import_node *n, ir_value *x, int32_t rank, bool to_front) {
    int64_t order[OP_MAX_RANK] = {0};
    for (int32_t i = 1; i < rank; i++) order[i] = to_front ? (i == 1 ? rank - 1 : i - 1) : i + 1;
    if (!to_front) order[rank - 1] = 1;
    return expr_transpose(n, x, (size_t)rank, order);
}

base_status import_ms_check_image(const import_node *n, bool last) {
    base_status status = expr_need_dtype(n, n->inputs[0]);
    if (status == BASE_OK && last && import_rank_of(n->inputs[0]) < 3)
        return base_fail_unsupported(n->importer->report, "needs an input of known rank, at least 3");
    return status;
}

/* ---- GroupNorm, SkipGroupNorm -------------------------------------------------------------------------------- */

/* A skip of [batch, channels] beside images of `rank` axes. */
static ir_value *skip_beside(const import_node *n, ir_value *skip, int32_t rank, bool last) {
    int64_t axes[OP_MAX_RANK];
    if (import_rank_of(skip) != 2 || rank < 3) return skip;
    for (int32_t i = 0; i < rank - 2; i++) axes[i] = (last ? 1 : 2) + i;
    return expr_binary(n, OP_UNSQUEEZE, skip, import_constant_integers(n, (size_t)rank - 2, axes));
}

/* The statistics, scale, bias and activation are those of channels first, and in float. */
base_status import_convert_ms_group_norm(import_node *n) {
    enum { X, SCALE, BIAS, SKIP, ADDED };
    const bool last = import_integer(n, "channels_last", 1) != 0;
    const int64_t groups = import_integer(n, "groups", 0), act = import_integer(n, "activation", 0);
    base_status status = expr_need_dtype(n, n->inputs[X]);
    if (status != BASE_OK) return status;
    const int32_t rank = import_rank_of(n->inputs[X]);
    const op_dtype dtype = import_dtype_of(n->inputs[X]);
    if (rank < 2)
        return base_fail_unsupported(n->importer->report, "needs an input of known rank, at least 2");
    if (groups < 1 || act < 0 || act > 1)
        return base_fail(n->importer->report, BASE_INVALID,
                         "attributes \"groups\" and \"activation\" are %lld and %lld, expected at least 1, and 0 or 1",
                         (long long)groups, (long long)act);
    ir_value *sum = n->inputs[X];
    if (expr_input(n, SKIP)) {
        sum = expr_widened(n, sum);
        ir_value *skip = skip_beside(n, n->inputs[SKIP], rank, last);
        sum = expr_binary(n, OP_ADD, sum, expr_widened(n, skip));
    }
    if (expr_input(n, ADDED)) {
        ir_value *added = expr_widened(n, n->inputs[ADDED]);
        sum = expr_binary(n, OP_ADD, sum, last ? added : import_beside_channels(n, added, rank));
    }
    ir_value *x = expr_cast(n, sum, dtype == OP_DOUBLE ? OP_DOUBLE : OP_FLOAT);
    if (last && x) x = import_ms_channels_moved(n, x, rank, true);
    ir_value *y = x ? import_group_normalized(n, x, groups, (double)import_real(n, "epsilon", 1e-5f)) : NULL;
    if (!y) return import_memory(n);
    y = expr_binary(n, OP_RESHAPE, y, expr_unary(n, OP_SHAPE, x));
    ir_value *scale = expr_cast(n, n->inputs[SCALE], import_dtype_of(x)),
             *bias = expr_cast(n, n->inputs[BIAS], import_dtype_of(x));
    y = expr_binary(n, OP_MUL, y, scale ? import_beside_channels(n, scale, rank) : NULL);
    y = expr_binary(n, OP_ADD, y, bias ? import_beside_channels(n, bias, rank) : NULL);
    if (act) y = expr_unary(n, OP_SWISH, y);
    if (last && y) y = import_ms_channels_moved(n, y, rank, false);
    status = expr_finish(n, expr_cast(n, y, dtype));
    return status == BASE_OK && import_output_named(n, 1) ? expr_output(n, 1, expr_cast(n, sum, dtype)) : status;
}

/* ---- NhwcConv, NhwcFusedConv, NhwcMaxPool ---------------------------------------------------------------------- */

/* Weights of NhwcConv have their channels last, too; those of NhwcFusedConv stand as those of Conv. */
base_status import_convert_ms_nhwc_convolution(import_node *n) {
    const bool fused = strcmp(n->proto->op_type, "NhwcFusedConv") == 0;
    op_attributes attributes;
    base_status status = import_ms_check_image(n, true);
    if (status == BASE_OK) status = import_attributes(n, OP_CONV, &attributes);
    if (status != BASE_OK) return status;
    const int32_t rank = import_rank_of(n->inputs[0]);
    if (!fused && import_rank_of(n->inputs[1]) != rank)
        return base_fail_unsupported(n->importer->report, "needs weights of rank %d, as the input", rank);
    ir_value *inputs[3] = {import_ms_channels_moved(n, n->inputs[0], rank, true), n->inputs[1], expr_input(n, 2)};
    if (!fused) inputs[1] = import_ms_channels_moved(n, inputs[1], rank, true);
    ir_value *y = inputs[0] && inputs[1] ? import_make(n, OP_CONV, attributes, inputs[2] ? 3 : 2, inputs) : NULL;
    y = y ? import_ms_channels_moved(n, y, rank, false) : NULL;
    if (expr_input(n, 3)) y = expr_binary(n, OP_ADD, y, n->inputs[3]);
    if (fused) status = import_ms_activated(n, &y);
    return status == BASE_OK ? expr_finish(n, y) : status;
}

base_status import_convert_ms_nhwc_max_pool(import_node *n) {
    op_attributes attributes;
    base_status status = import_ms_check_image(n, true);
    if (status == BASE_OK) status = import_attributes(n, OP_MAX_POOL, &attributes);
    if (status != BASE_OK) return status;
    const int32_t rank = import_rank_of(n->inputs[0]);
    ir_value *front = import_ms_channels_moved(n, n->inputs[0], rank, true);
    ir_value *y = front ? import_make(n, OP_MAX_POOL, attributes, 1, &front) : NULL;
    return expr_finish(n, y ? import_ms_channels_moved(n, y, rank, false) : NULL);
}

/* ---- ConvTransposeWithDynamicPads ----------------------------------------------------------------------------- */

/* Padding of a transposed convolution cuts off what it gives: where it is an input, the whole is made, then cut. */
base_status import_convert_ms_padded_transposed_convolution(import_node *n) {
    ir_value *inputs[3] = {n->inputs[0], n->inputs[1], expr_input(n, 3)}, *pads = expr_input(n, 2);
    op_attributes attributes;
    base_status status = import_attributes(n, OP_CONV_TRANSPOSE, &attributes);
    if (status != BASE_OK) return status;
    const int32_t rank = import_rank_of(inputs[0]);
    if (pads && rank < 3)
        return base_fail_unsupported(n->importer->report, "needs an input of known rank, at least 3");
    ir_value *y = import_make(n, OP_CONV_TRANSPOSE, attributes, inputs[2] ? 3 : 2, inputs);
    if (!pads) return expr_finish(n, y);
    const int64_t spatial = rank - 2;
    int64_t axes[OP_MAX_RANK];
    ir_value *parts[2];
    for (int64_t i = 0; i < spatial; i++) axes[i] = 2 + i;
    for (int i = 0; i < 2; i++) parts[i] = expr_part(n, pads, 0, i * spatial, (i + 1) * spatial);
    op_attributes from = NONE;
    if (!y || !import_attributes_add_integer(n, &from, "start", 2)) return import_memory(n);
    ir_value *extents = import_make(n, OP_SHAPE, from, 1, &y);
    ir_value *cut[4] = {y, parts[0]};
    cut[2] = expr_binary(n, OP_SUB, extents, parts[1]);
    cut[3] = import_constant_integers(n, (size_t)spatial, axes);
    return expr_finish(n, cut[1] && cut[2] && cut[3] ? import_make(n, OP_SLICE, NONE, 4, cut) : NULL);
}

/* ---- CropAndResize --------------------------------------------------------------------------------------------- */

/* Positions in an image along one axis, of regions [regions] from `start` to `end`, as [regions, count]: its corners are those of
 * the region; a single one lies in the middle. `most` is the last row or column. */
typedef struct crop_axis {
    ir_value *low, *high, *part; /* both neighbours, and how far it is from the first to the second */
    ir_value *inside;
} crop_axis;

static ir_value *scalar_at(const import_node *n, ir_value *x, int64_t index) {
    return expr_binary(n, OP_GATHER, x, import_constant_integer(n, index));
}

static bool crop_along(const import_node *n, ir_value *start, ir_value *end, ir_value *count, ir_value *extent,
                       bool nearest, crop_axis *axis) {
    ir_value *zero = import_constant_integer(n, 0), *one = import_constant_integer(n, 1);
    if (!zero || !one || !start || !end || !count || !extent) return false;
    ir_value *last = expr_binary(n, OP_SUB, count, one);
    ir_value *range[] = {zero, count, one};
    ir_value *step = import_make(n, OP_RANGE, NONE, 3, range);
    ir_value *from = expr_axis(n, OP_UNSQUEEZE, start, 1), *to = expr_axis(n, OP_UNSQUEEZE, end, 1);
    const op_dtype dtype = import_dtype_of(start);
    ir_value *whole = expr_cast(n, expr_binary(n, OP_SUB, extent, one), dtype);
    ir_value *middle = expr_binary(n, OP_ADD, from, to);
    middle = expr_binary(n, OP_MUL, middle, expr_number(n, start, 0.5));
    ir_value *size = expr_binary(n, OP_MUL, expr_binary(n, OP_SUB, to, from), whole);
    ir_value *each = expr_binary(n, OP_DIV, size, expr_cast(n, expr_binary(n, OP_MAX, last, one), dtype));
    ir_value *begin = expr_binary(n, OP_MUL, from, whole);
    ir_value *at = expr_binary(n, OP_ADD, begin, expr_binary(n, OP_MUL, expr_cast(n, step, dtype), each));
    ir_value *is_last = expr_binary(n, OP_EQUAL, step, last);
    at = expr_select(n, is_last, expr_binary(n, OP_MUL, to, whole), at);
    ir_value *is_only = expr_binary(n, OP_EQUAL, last, zero);
    at = expr_select(n, is_only, expr_binary(n, OP_MUL, middle, whole), at);
    ir_value *none = expr_number(n, start, 0);
    ir_value *reached = expr_binary(n, OP_GREATER_OR_EQUAL, at, none);
    axis->inside = expr_binary(n, OP_AND, reached, expr_binary(n, OP_LESS_OR_EQUAL, at, whole));
    /* What is outside, and what is not a number, reads the first one, and is replaced. */
    at = expr_select(n, axis->inside, at, none);
    if (nearest) at = expr_unary(n, OP_FLOOR, expr_binary(n, OP_ADD, at, expr_number(n, start, 0.5)));
    ir_value *low = expr_unary(n, OP_FLOOR, at), *high = expr_unary(n, OP_CEIL, at);
    axis->part = expr_binary(n, OP_SUB, at, low);
    axis->low = expr_cast(n, low, OP_INT64);
    axis->high = expr_cast(n, high, OP_INT64);
    return axis->inside && axis->part && axis->low && axis->high;
}

/* The elements at rows and columns of the images of regions: [regions, rows, columns, channels]. */
static ir_value *cropped(const import_node *n, ir_value *images, ir_value *batches, ir_value *rows, ir_value *columns,
                         ir_value *shape) {
    ir_value *parts[3] = {batches};
    parts[1] = expr_axis(n, OP_UNSQUEEZE, rows, 2);
    parts[2] = expr_axis(n, OP_UNSQUEEZE, columns, 1);
    for (int i = 0; i < 3; i++) {
        parts[i] = expr_axis(n, OP_UNSQUEEZE, expr_binary(n, OP_EXPAND, parts[i], shape), 3);
        if (!parts[i]) return NULL;
    }
    return expr_binary(n, OP_GATHER_ND, images, expr_with_integer(n, OP_CONCAT, "axis", 3, 3, parts));
}

static ir_value *between(const import_node *n, ir_value *a, ir_value *b, ir_value *part) {
    return expr_binary(n, OP_ADD, a, expr_binary(n, OP_MUL, expr_binary(n, OP_SUB, b, a), part));
}

/* Regions [regions, 4] of images, as rows and columns from 0 to 1, in the same number of rows and columns each. */
base_status import_convert_ms_crop_and_resize(import_node *n) {
    static const int64_t last[] = {0, 2, 3, 1}, front[] = {0, 3, 1, 2}, one_each[] = {-1, 1, 1};
    enum { IMAGES, REGIONS, BATCHES, SIZE };
    const Onnx__AttributeProto *mode = import_attribute(n, "mode");
    const op_string word = {mode ? (const char *)mode->s.data : "bilinear", mode ? mode->s.len : 8};
    const bool nearest = op_string_is(&word, "nearest");
    crop_axis axes[2];
    base_status status = expr_need_dtype(n, n->inputs[IMAGES]);
    if (status == BASE_OK) status = expr_need_dtype(n, n->inputs[REGIONS]);
    if (status != BASE_OK) return status;
    if (!nearest && !op_string_is(&word, "bilinear"))
        return base_fail(n->importer->report, BASE_INVALID,
                         "attribute \"mode\" is unknown, expected bilinear or nearest");
    if (import_rank_of(n->inputs[IMAGES]) != 4)
        return base_fail_unsupported(n->importer->report, "needs images of known rank 4");
    ir_value *shape = expr_unary(n, OP_SHAPE, n->inputs[IMAGES]), *size = expr_cast(n, n->inputs[SIZE], OP_INT64);
    for (int64_t i = 0; i < 2; i++) {
        ir_value *ends[2];
        for (int64_t k = 0; k < 2; k++) {
            ir_value *gather[] = {n->inputs[REGIONS], import_constant_integer(n, i + 2 * k)};
            ends[k] = gather[1] ? expr_with_integer(n, OP_GATHER, "axis", 1, 2, gather) : NULL;
        }
        ir_value *count = scalar_at(n, size, i), *extent = scalar_at(n, shape, 2 + i);
        if (!crop_along(n, ends[0], ends[1], count, extent, nearest, &axes[i])) return import_memory(n);
    }
    /* Of images without rows or columns every place is outside. They get one, of zeros, to be read and replaced. */
    ir_value *images = n->inputs[IMAGES];
    const int64_t *extents = images->type.shape.dims;
    if (extents[2] == 0 || extents[3] == 0) {
        const int64_t pads[8] = {[6] = extents[2] == 0, [7] = extents[3] == 0};
        images = expr_binary(n, OP_PAD, images, import_constant_integers(n, 8, pads));
    }
    images = expr_transpose(n, images, 4, last);
    ir_value *batches = expr_reshape(n, expr_cast(n, n->inputs[BATCHES], OP_INT64), 3, one_each);
    ir_value *inside = expr_axis(n, OP_UNSQUEEZE, axes[0].inside, 2);
    inside = expr_binary(n, OP_AND, inside, expr_axis(n, OP_UNSQUEEZE, axes[1].inside, 1));
    ir_value *grid = expr_unary(n, OP_SHAPE, inside);
    ir_value *y = cropped(n, images, batches, axes[0].low, axes[1].low, grid);
    if (!nearest) {
        ir_value *down = expr_axis(n, OP_UNSQUEEZE, expr_axis(n, OP_UNSQUEEZE, axes[0].part, 2), 3),
                 *right = expr_axis(n, OP_UNSQUEEZE, expr_axis(n, OP_UNSQUEEZE, axes[1].part, 1), 3);
        ir_value *top = between(n, y, cropped(n, images, batches, axes[0].low, axes[1].high, grid), right);
        ir_value *bottom = cropped(n, images, batches, axes[0].high, axes[1].low, grid);
        bottom = between(n, bottom, cropped(n, images, batches, axes[0].high, axes[1].high, grid), right);
        y = between(n, top, bottom, down);
    }
    ir_value *beyond = expr_number(n, n->inputs[IMAGES], (double)import_real(n, "extrapolation_value", 0));
    y = expr_select(n, expr_axis(n, OP_UNSQUEEZE, inside, 3), y, beyond);
    return expr_finish(n, expr_transpose(n, y, 4, front));
}

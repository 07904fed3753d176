/* SPDX-License-Identifier: Apache-2.0 */
/* row_maps.c: see row_maps.h. */
#include "passes/bands/row_maps.h"
#include "passes/base/pass.h"
#include "ir/operators/window.h"

static bool has_rows(const op_type *type) {
    return type->kind == OP_KIND_TENSOR && type->shape.rank > BAND_AXIS && op_shape_known(&type->shape) &&
           type->layout != OP_LAYOUT_PACKED && op_dtype_bytes(type->dtype) && type->dtype != OP_STRING;
}

bool band_same_type(const op_type *a, const op_type *b) {
    return a->kind == b->kind && a->dtype == b->dtype && a->layout == b->layout &&
           op_shape_equal(&a->shape, &b->shape);
}

int64_t band_node_rows(const ir_node *node) {
    return node->outputs[0]->type.shape.dims[BAND_AXIS];
}

bool band_is_elementwise(op_code code) {
    op_infer_function *infer = op_schema_of(code)->infer;
    return infer == op_infer_elementwise_unary || infer == op_infer_elementwise_binary ||
           infer == op_infer_cast || infer == op_infer_compare || infer == op_infer_where ||
           infer == op_infer_fused || infer == op_infer_is_special;
}

bool band_is_reduction(op_code code) {
    return op_schema_of(code)->infer == op_infer_reduce;
}

bool band_is_window(op_code code) {
    switch (code) {
    case OP_CONV:
    case OP_SHUFFLED_CONV:
    case OP_CONV_INTEGER:
    case OP_QLINEAR_CONV:
    case OP_MAX_POOL:
    case OP_AVERAGE_POOL:
        return true;
    default:
        return false;
    }
}

const ir_value *band_window_weights(const ir_node *node) {
    switch (node->code) {
    case OP_CONV:
    case OP_SHUFFLED_CONV:
    case OP_CONV_INTEGER:
        return ir_input(node, 1);
    case OP_QLINEAR_CONV:
        return ir_input(node, 3);
    default:
        return NULL;
    }
}

/* The axis along which the operator does something else than to go from element to element; -1: none. */
static int32_t own_axis(const ir_node *node, int64_t otherwise) {
    int32_t axis = -1;
    op_axis(op_attribute_integer(&node->attributes, "axis", otherwise), node->outputs[0]->type.shape.rank,
            &axis);
    return axis;
}

static bool is_per_channel(const ir_node *node) {
    const ir_value *scale = ir_input(node, 1);
    if (op_attribute_integer(&node->attributes, "block_size", 0)) return false;
    return scale->type.shape.rank == 0 || (scale->type.shape.rank == 1 && own_axis(node, 1) != BAND_AXIS);
}

/* A constant list with one entry an axis. */
static bool has_entries(const ir_value *list, op_dtype dtype, int32_t rank) {
    return list && list->constant && list->type.dtype == dtype && list->type.shape.rank == 1 &&
           list->type.shape.dims[0] == rank;
}

/* The whole number of rows of the result to one of the input, said as scales or as sizes; 0: it is none. */
static int64_t rows_each(const ir_node *node) {
    enum { MOST = 64 };
    const op_attributes *attributes = &node->attributes;
    const ir_value *image = ir_input(node, 0), *scales = ir_input(node, 2), *sizes = ir_input(node, 3);
    const int32_t rank = image->type.shape.rank;
    if (rank <= BAND_AXIS || op_attribute_find(attributes, "axes") ||
        op_attribute_integer(attributes, "antialias", 0) ||
        op_attribute_integer(attributes, "exclude_outside", 0) ||
        !op_attribute_is(attributes, "keep_aspect_ratio_policy", "stretch", "stretch"))
        return 0;
    const int64_t rows = image->type.shape.dims[BAND_AXIS], each = rows > 0 ? band_node_rows(node) / rows : 0;
    if (each < 1 || each > MOST || each * rows != band_node_rows(node)) return 0;
    if (sizes) return has_entries(sizes, OP_INT64, rank) ? each : 0;
    return has_entries(scales, OP_FLOAT, rank) &&
                   ((const float *)scales->constant->tensor.data)[BAND_AXIS] == (float)each
               ? each
               : 0;
}

/* Row o of the result is row o / n of the input, or, of linear interpolation, between that one and its neighbour. Places of rows are
 * exact, wherever a band begins, where n is a power of two. */
static bool repeats_rows(const ir_node *node) {
    const op_attributes *attributes = &node->attributes;
    const int64_t each = rows_each(node);
    const bool centers =
                   op_attribute_is(attributes, "coordinate_transformation_mode", "half_pixel", "half_pixel"),
               corners =
                   op_attribute_is(attributes, "coordinate_transformation_mode", "asymmetric", "half_pixel");
    if (op_attribute_is(attributes, "mode", "linear", "nearest"))
        return each && (each & (each - 1)) == 0 &&
               (centers || corners ||
                op_attribute_is(attributes, "coordinate_transformation_mode", "pytorch_half_pixel",
                                "half_pixel"));
    if (!each || !op_attribute_is(attributes, "mode", "nearest", "nearest")) return false;
    if (each == 1 && pass_resize_keeps_places(node)) return true;
    /* Where corners lie on corners, row o is o (n - 1) / (2 n - 1) of the input: o / 2 is nearest to it. */
    if (each == 2 &&
        op_attribute_is(attributes, "coordinate_transformation_mode", "align_corners", "half_pixel") &&
        (op_attribute_is(attributes, "nearest_mode", "round_prefer_floor", "round_prefer_floor") ||
         op_attribute_is(attributes, "nearest_mode", "round_prefer_ceil", "round_prefer_floor")))
        return true;
    return (
        (corners && op_attribute_is(attributes, "nearest_mode", "floor", "round_prefer_floor")) ||
        (centers && op_attribute_is(attributes, "nearest_mode", "round_prefer_floor", "round_prefer_floor")));
}

/* A transposed convolution: row i of the input goes to the rows from i * stride - before on, as many as its window has. The result has `stride`
 * rows to one of the input. */
static bool read_transposed(const ir_node *node, base_arena *arena, op_transposed *window) {
    op_call call;
    if (!ir_node_call(node, arena, &call) || !op_transposed_read(&call, window, NULL) || window->rank < 1)
        return false;
    const int64_t extent = (window->kernel[0] - 1) * window->dilation[0] + 1;
    return extent >= window->stride[0] && window->before[0] >= 0 && window->before[0] < extent &&
           window->output[0] == window->input[0] * window->stride[0];
}

/* Row o sees the rows from (o + before - extent + 1) / stride, rounded up, to (o + before) / stride. */
static bool transposed_window(const ir_node *node, base_arena *arena, band_window *window) {
    op_transposed read;
    if (!read_transposed(node, arena, &read)) return false;
    const int64_t stride = read.stride[0], extent = (read.kernel[0] - 1) * read.dilation[0] + 1;
    *window = (band_window){.stride = 1,
                            .extent = stride == 1 ? extent : 1,
                            .before = stride == 1 ? extent - 1 - read.before[0] : 0,
                            .up = stride,
                            .above = (extent - 1 - read.before[0]) / stride,
                            .below = (stride - 1 + read.before[0]) / stride};
    return true;
}

static int64_t entry_of(const ir_value *list, int64_t index) {
    const void *data = list->constant->tensor.data;
    return list->type.dtype == OP_INT32 ? ((const int32_t *)data)[index] : ((const int64_t *)data)[index];
}

int64_t band_slice_entry(const ir_node *node) {
    const ir_value *axes = ir_input(node, 3);
    for (int64_t i = 0; i < axes->type.shape.dims[0]; i++) {
        const int64_t axis = entry_of(axes, i);
        if (axis == BAND_AXIS || axis == BAND_AXIS - node->outputs[0]->type.shape.rank) return i;
    }
    return -1;
}

/* Constant bounds; of the rows every n-th, from one on, is taken. */
static bool takes_rows(const ir_node *node) {
    for (uint32_t i = 1; i < node->input_count; i++)
        if (ir_input(node, i) && !ir_input(node, i)->constant) return false;
    const ir_value *axes = ir_input(node, 3);
    if (!axes || axes->type.shape.rank != 1) return false;
    const int64_t entry = band_slice_entry(node), rows = ir_input(node, 0)->type.shape.dims[BAND_AXIS];
    if (entry < 0) return true;
    const int64_t start = entry_of(ir_input(node, 1), entry),
                  step = ir_input(node, 4) ? entry_of(ir_input(node, 4), entry) : 1;
    return step > 0 && step < rows && start >= -rows && start < rows;
}

static bool read_slice(const ir_node *node, band_window *window) {
    const int64_t entry = band_slice_entry(node), rows = ir_input(node, 0)->type.shape.dims[BAND_AXIS];
    if (entry < 0) return true;
    const int64_t start = entry_of(ir_input(node, 1), entry);
    window->before = start < 0 ? -(start + rows) : -start;
    window->stride = ir_input(node, 4) ? entry_of(ir_input(node, 4), entry) : 1;
    return true;
}

/* Constant indices of another axis: channels in another order. */
static bool picks_others(const ir_node *node) {
    const ir_value *indices = ir_input(node, 1);
    return own_axis(node, 0) != BAND_AXIS && indices->constant && indices->type.shape.rank == 1;
}

/* Constant axes, none of which is that of the rows. */
static bool reduces_others(const ir_node *node) {
    const ir_value *axes = ir_input(node, 1);
    const int32_t rank = node->outputs[0]->type.shape.rank;
    if (!axes || !axes->constant || axes->type.dtype != OP_INT64 || axes->type.shape.rank != 1 ||
        !op_attribute_integer(&node->attributes, "keepdims", 1) || !axes->type.shape.dims[0])
        return false;
    for (int64_t i = 0; i < axes->type.shape.dims[0]; i++)
        if (entry_of(axes, i) == BAND_AXIS || entry_of(axes, i) == BAND_AXIS - rank) return false;
    return true;
}

/* Row o is row o / up of the image, or one not far above or below that. */
static bool gathered_window(const ir_node *node, band_window *window) {
    enum { FAR = 4 };
    const ir_value *indices = ir_input(node, 1);
    const int64_t rows = ir_input(node, 0)->type.shape.dims[BAND_AXIS], all = band_node_rows(node);
    if (own_axis(node, 0) != BAND_AXIS || !indices->constant || indices->type.dtype != OP_INT64 ||
        indices->type.shape.rank != 1 || rows < 1 || all % rows || all < 2 * rows)
        return false;
    const int64_t *list = indices->constant->tensor.data, up = all / rows;
    int64_t above = 0, below = 0;
    for (int64_t o = 0; o < all; o++) {
        const int64_t further = list[o] - o / up;
        if (list[o] < 0 || list[o] >= rows) return false;
        if (further > below) below = further;
        if (-further > above) above = -further;
    }
    window->up = up;
    window->above = above;
    window->below = below;
    return above <= FAR && below <= FAR;
}

bool band_gathers_rows(const ir_node *node) {
    band_window window;
    return node->code == OP_GATHER && gathered_window(node, &window);
}

bool band_too_few(const ir_node *node, int64_t rows) {
    return node->code == OP_MATMUL && rows > 0 && rows < BAND_FEWEST_OF_PRODUCT;
}

/* A product of matrices whose left one has the rows, of a band or of a token each. */
static bool multiplies_rows(const ir_node *node) {
    const ir_value *left = ir_input(node, 0);
    const op_shape *result = &node->outputs[0]->type.shape;
    return result->rank == BAND_AXIS + 2 && left->type.shape.rank == BAND_AXIS + 2 &&
           result->dims[BAND_AXIS + 1] > 1 && !op_attribute_find(&node->attributes, "ouro.left") &&
           (ir_input(node, 1)->type.layout != OP_LAYOUT_PACKED ||
            op_attribute_integer(&node->attributes, "ouro.row_blocks", 0));
}

static bool code_supported(const ir_node *node) {
    if (band_is_elementwise(node->code) || band_is_window(node->code)) return true;
    switch (node->code) {
    case OP_BATCH_NORMALIZATION:
        return !op_attribute_integer(&node->attributes, "training_mode", 0);
    case OP_LRN:
    case OP_REORDER:
    case OP_IDENTITY:
        return true;
    case OP_CONV_TRANSPOSE:
        return node->outputs[0]->type.shape.rank > BAND_AXIS; /* and transposed_window */
    case OP_DEPTH_TO_SPACE:
        return node->outputs[0]->type.shape.rank == 4;
    case OP_RESIZE:
        return repeats_rows(node);
    case OP_SLICE:
        return takes_rows(node);
    case OP_GATHER:
        return picks_others(node) || band_gathers_rows(node);
    case OP_CONCAT:
    case OP_SPLIT:
        return own_axis(node, 0) != BAND_AXIS;
    case OP_SOFTMAX:
    case OP_LOG_SOFTMAX:
        return own_axis(node, -1) != BAND_AXIS;
    case OP_QUANTIZE_LINEAR:
    case OP_DEQUANTIZE_LINEAR:
        return is_per_channel(node);
    case OP_MATMUL:
        return multiplies_rows(node);
    case OP_RMS_NORMALIZATION:
        return own_axis(node, -1) == node->outputs[0]->type.shape.rank - 1;
    default:
        return band_is_reduction(node->code) && reduces_others(node);
    }
}

/* Only input 0 goes by rows, whatever shapes the others have. */
static bool reads_first_only(op_code code) {
    return code == OP_CONV_TRANSPOSE || code == OP_BATCH_NORMALIZATION || code == OP_SPLIT ||
           code == OP_RESIZE || code == OP_SLICE || code == OP_GATHER || code == OP_QUANTIZE_LINEAR ||
           code == OP_DEQUANTIZE_LINEAR || code == OP_RMS_NORMALIZATION || band_is_reduction(code) ||
           op_schema_of(code)->infer == op_infer_elementwise_unary;
}

band_reading band_node_reading(const ir_node *node, uint32_t index) {
    const ir_value *input = ir_input(node, index);
    if (!input) return BAND_READS_NOTHING;
    /* A residual that the kernel adds is read where it is added. */
    if ((node->code == OP_CONV || node->code == OP_SHUFFLED_CONV) && index == 3) return BAND_READS_ROWS;
    if (band_is_window(node->code)) return index == 0 ? BAND_READS_ROWS : BAND_READS_ALL;
    if (reads_first_only(node->code)) return index == 0 ? BAND_READS_ROWS : BAND_READS_ALL;
    if (node->code == OP_MATMUL && index == 1) return BAND_READS_ALL;
    const int32_t rank = node->outputs[0]->type.shape.rank, own = input->type.shape.rank;
    if (own == rank && input->type.shape.dims[BAND_AXIS] != 1) return BAND_READS_ROWS;
    return own == rank && band_node_rows(node) == 1 && !input->constant ? BAND_READS_ROWS : BAND_READS_ALL;
}

/* Broadcasting: rows are axis 2 of what has as many axes as the result; what has fewer must not have that axis. */
static bool input_fits(const ir_node *node, uint32_t index) {
    const ir_value *input = ir_input(node, index);
    const int64_t rows = band_node_rows(node);
    switch (band_node_reading(node, index)) {
    case BAND_READS_NOTHING:
        return true;
    case BAND_READS_ROWS:
        if (!has_rows(&input->type) || input->type.shape.rank != node->outputs[0]->type.shape.rank)
            return false;
        return (band_is_window(node->code) && index == 0) || node->code == OP_DEPTH_TO_SPACE ||
               node->code == OP_RESIZE || node->code == OP_SLICE || node->code == OP_CONV_TRANSPOSE ||
               node->code == OP_GATHER || input->type.shape.dims[BAND_AXIS] == rows;
    case BAND_READS_ALL:
        break;
    }
    if (band_is_window(node->code) || reads_first_only(node->code)) return true;
    if (node->code == OP_MATMUL && index == 1) return true;
    const op_shape *shape = &input->type.shape;
    const int32_t lacking = node->outputs[0]->type.shape.rank - shape->rank;
    return op_shape_known(shape) && (lacking > BAND_AXIS || shape->dims[BAND_AXIS - lacking] == 1);
}

bool band_node_window(const ir_node *node, base_arena *arena, band_window *window) {
    *window = (band_window){.stride = 1, .extent = 1, .up = 1};
    if (node->code == OP_SLICE) return read_slice(node, window);
    if (node->code == OP_CONV_TRANSPOSE) return transposed_window(node, arena, window);
    if (node->code == OP_GATHER && own_axis(node, 0) == BAND_AXIS) return gathered_window(node, window);
    if (node->code == OP_DEPTH_TO_SPACE) window->up = op_attribute_integer(&node->attributes, "blocksize", 1);
    if (node->code == OP_RESIZE) {
        window->up = rows_each(node);
        if (window->up > 1 && op_attribute_is(&node->attributes, "mode", "linear", "nearest")) {
            window->below = 1;
            window->above = op_attribute_is(&node->attributes, "coordinate_transformation_mode", "asymmetric",
                                            "half_pixel")
                                ? 0
                                : 1;
        }
    }
    if (!band_is_window(node->code)) return true;
    op_call call;
    op_window read;
    if (!ir_node_call(node, arena, &call)) return false;
    const ir_value *weights = band_window_weights(node);
    if (op_window_read(&call, weights ? weights->type.shape.dims + 2 : NULL, &read, NULL) != BASE_OK)
        return false;
    *window = (band_window){.stride = read.stride[0],
                            .extent = (read.kernel[0] - 1) * read.dilation[0] + 1,
                            .before = read.before[0],
                            .after = read.after[0],
                            .up = 1};
    return true;
}

/* The portable kernels sum otherwise where there are few results, or, of a transposed convolution, few points of the image; a band is told that it
 * is part of more (emit.c), but where there were few already, the order would change. */
static bool has_many_points(const ir_node *node) {
    enum { FEW = 8 };
    const ir_value *points_of = node->code == OP_CONV_TRANSPOSE ? ir_input(node, 0) : node->outputs[0];
    const op_shape *shape = &points_of->type.shape;
    int64_t points = 1;
    for (int32_t i = BAND_AXIS; i < shape->rank && points <= FEW; i++) points *= shape->dims[i];
    return points > FEW;
}

/* A window that sees nothing but padding would leave a band without rows. The last one, which ceil_mode lets begin, may look
 * further than the padding that was asked for: a band asks for more then, unless it were counted. */
static bool window_fits(const ir_node *node, base_arena *arena) {
    band_window window;
    if (!band_node_window(node, arena, &window)) return false;
    const int64_t rows = band_node_rows(node);
    const band_rows last = band_window_rows(&window, (band_rows){rows - 1, rows});
    const int64_t further = last.end - ir_input(node, 0)->type.shape.dims[BAND_AXIS];
    const bool counted = op_attribute_integer(&node->attributes, "count_include_pad", 0) != 0;
    return window.before < window.extent && window.after < window.extent && further < window.extent &&
           (further <= window.after || !counted);
}

bool band_node_supported(const ir_node *node, base_arena *arena) {
    if (node->graph_count || !node->output_count || !node->outputs[0] || !code_supported(node)) return false;
    if (!has_rows(&node->outputs[0]->type) || band_node_rows(node) <= 0) return false;
    if ((node->code == OP_CONV || node->code == OP_SHUFFLED_CONV || node->code == OP_CONV_TRANSPOSE) &&
        !has_many_points(node))
        return false;
    const op_schema *schema = op_schema_of(node->code);
    if (schema->flags & (OP_FLAG_EFFECT | OP_FLAG_DYNAMIC | OP_FLAG_LISTS)) return false;
    if ((schema->flags & OP_FLAG_CHECKED) && node->code != OP_GATHER) return false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const ir_value *output = node->outputs[i];
        if (!output) continue;
        /* Indices of a pool are places in the whole image, and what else a normalisation gives has no rows. */
        if (i && node->code != OP_SPLIT) return false;
        if (!has_rows(&output->type) || output->type.shape.dims[BAND_AXIS] != band_node_rows(node))
            return false;
    }
    bool by_rows = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!input_fits(node, i)) return false;
        by_rows = by_rows || band_node_reading(node, i) == BAND_READS_ROWS;
    }
    band_window window;
    return by_rows && (!band_is_window(node->code) || window_fits(node, arena)) &&
           (node->code != OP_CONV_TRANSPOSE || transposed_window(node, arena, &window));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* infer_spatial.c: shape functions of convolution, pooling and normalisation over channels. Tensors are
 * N, C, spatial...
 */
#include "ir/operators/infer.h"
#include "ir/operators/window.h"
#include <inttypes.h>

enum { SPATIAL = 3 }; /* spatial dimensions that the kernels of Conv and of the pools have */

/* Both are known and differ. */
static bool differ(int64_t a, int64_t b) {
    return a >= 0 && b >= 0 && a != b;
}

/* Input `input`, called `name`, is a vector of `channels` elements; where present. */
static base_status check_channels(const op_call *call, uint32_t input, const char *name, int64_t channels,
                                  base_report *report) {
    const op_shape *shape = &call->inputs[input].type.shape;
    if (shape->rank < 0 || (shape->rank == 1 && !differ(shape->dims[0], channels))) return BASE_OK;
    if (shape->rank != 1) {
        return base_fail(report, BASE_INVALID, "input %u (%s) has rank %d, expected a vector", input, name,
                         shape->rank);
    }
    return base_fail(report, BASE_INVALID,
                     "input %u (%s) has %" PRId64 " elements, expected %" PRId64 ", one a channel", input,
                     name, shape->dims[0], channels);
}

base_status op_convolution_shape(const op_call *call, uint32_t filters, uint32_t bias, int32_t spatial,
                                 op_shape *shape, base_report *report) {
    const op_shape *x = &call->inputs[0].type.shape, *weights = &call->inputs[filters].type.shape;
    int64_t group = op_attribute_integer(&call->attributes, "group", 1);
    *shape = (op_shape){.rank = -1};
    if (group < 1) {
        return base_fail(report, BASE_INVALID, "attribute \"group\" is %" PRId64 ", expected at least 1",
                         group);
    }
    if (x->rank < 0 && weights->rank < 0) return BASE_OK;
    if (x->rank >= 0 && weights->rank >= 0 && x->rank != weights->rank) {
        return base_fail(report, BASE_INVALID, "input %u (weights) has rank %d, expected %d, that of X",
                         filters, weights->rank, x->rank);
    }
    int64_t maps = weights->rank > 0 ? weights->dims[0] : OP_DIM_UNKNOWN;
    if (maps >= 0 && maps % group != 0) {
        return base_fail(report, BASE_INVALID,
                         "input %u (weights) has %" PRId64 " filters, expected a multiple of group %" PRId64,
                         filters, maps, group);
    }
    if (bias && op_input_present(call, bias)) {
        base_status status = check_channels(call, bias, "bias", maps, report);
        if (status != BASE_OK) return status;
    }
    const int32_t rank = x->rank >= 0 ? x->rank : weights->rank;
    if (rank < 3) {
        return base_fail(report, BASE_INVALID,
                         "input %u has rank %d, expected 3 to %d (batch, channels, spatial dimensions)",
                         x->rank >= 0 ? 0 : filters, rank, spatial + 2);
    }
    if (rank - 2 > spatial) {
        return base_fail_unsupported(report, "input %u has %d spatial dimensions, supported are 1 to %d",
                                     x->rank >= 0 ? 0 : filters, rank - 2, spatial);
    }
    *shape = op_shape_of_rank(rank);
    shape->dims[1] = maps;
    if (x->rank < 0) return BASE_OK;
    int64_t channels = x->dims[1];
    if (channels >= 0 && channels % group != 0) {
        return base_fail(report, BASE_INVALID,
                         "X has %" PRId64 " channels, expected a multiple of group %" PRId64, channels,
                         group);
    }
    if (channels >= 0 && weights->rank >= 0 && differ(weights->dims[1], channels / group)) {
        return base_fail(report, BASE_INVALID,
                         "input %u (weights) has %" PRId64 " channels, expected %" PRId64 " (X has %" PRId64
                         ", group is %" PRId64 ")",
                         filters, weights->dims[1], channels / group, channels, group);
    }
    int64_t kernel[OP_MAX_RANK];
    for (int32_t i = 2; i < x->rank; i++) {
        kernel[i - 2] = weights->rank >= 0 ? weights->dims[i] : OP_DIM_UNKNOWN;
    }
    op_window window;
    base_status status = op_window_read(call, kernel, &window, report);
    if (status != BASE_OK) return status;
    shape->dims[0] = x->dims[0];
    for (int32_t i = 0; i < window.rank; i++) shape->dims[2 + i] = window.output[i];
    return BASE_OK;
}

base_status op_infer_convolution(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = op_check_same(call, 1, 0, report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_same(call, 2, 0, report);
    if (status == BASE_OK && op_input_present(call, 3)) status = op_check_same(call, 3, 0, report);
    op_shape shape;
    if (status == BASE_OK) status = op_convolution_shape(call, 1, 2, SPATIAL, &shape, report);
    if (status != BASE_OK) return status;
    if (shape.rank >= 0 && op_input_present(call, 3)) {
        const op_shape *residual = &call->inputs[3].type.shape;
        bool fits = residual->rank < 0 || residual->rank == shape.rank;
        for (int32_t i = 0; fits && residual->rank >= 0 && i < shape.rank; i++) {
            fits = !differ(residual->dims[i], shape.dims[i]);
        }
        if (!fits) {
            char have[128], want[128];
            return base_fail(report, BASE_INVALID, "input 3 (residual) has shape %s, expected %s",
                             op_shape_text(residual, have, sizeof have),
                             op_shape_text(&shape, want, sizeof want));
        }
    }
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

/* Channels are so many groups of as many each, of a convolution of each channel by itself. */
static base_status check_shuffle(const op_call *call, int64_t groups, base_report *report) {
    const op_shape *x = &call->inputs[0].type.shape;
    const int64_t channels = op_attribute_integer(&call->attributes, "group", 1);
    if (groups < 1 || channels % groups != 0 || (x->rank > 1 && differ(x->dims[1], channels)))
        return base_fail(report, BASE_INVALID,
                         "%" PRId64 " channels are no %" PRId64 " groups of a convolution of each channel",
                         channels, groups);
    return BASE_OK;
}

base_status op_infer_shuffled_convolution(op_call *call, base_report *report) {
    const base_status status = op_infer_convolution(call, report);
    return status == BASE_OK
               ? check_shuffle(call, op_attribute_integer(&call->attributes, "shuffle", 0), report)
               : status;
}

base_status op_infer_rows_convolution(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET(OP_FLOAT), report);
    if (status == BASE_OK) status = op_check_same(call, 1, 0, report);
    if (status == BASE_OK) status = op_check_input(call, 2, OP_SET(OP_INT64), report);
    if (status == BASE_OK && op_input_present(call, 3)) status = op_check_same(call, 3, 0, report);
    const int64_t rows = op_attribute_integer(&call->attributes, "rows", 0);
    const op_shape *image = &call->inputs[0].type.shape, *first = &call->inputs[2].type.shape;
    op_shape shape;
    if (status == BASE_OK) status = op_convolution_shape(call, 1, 3, SPATIAL, &shape, report);
    if (status != BASE_OK) return status;
    if (rows < 1 || (image->rank >= 0 && (image->rank != 4 || differ(image->dims[0], 1))) ||
        (first->rank >= 0 && (first->rank != 1 || differ(first->dims[0], 1))))
        return base_fail(report, BASE_INVALID, "expected one image, the number of a row, and rows to make");
    if (shape.rank == 4) shape.dims[2] = rows;
    op_output_set(call, 0, OP_FLOAT, &shape);
    return BASE_OK;
}

base_status op_infer_pool(op_call *call, base_report *report) {
    bool maximum = call->code == OP_MAX_POOL;
    unsigned accepted = OP_SET_FLOATS;
    if (maximum) accepted |= OP_SET(OP_INT8) | OP_SET(OP_UINT8);
    base_status status = op_check_input(call, 0, accepted, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    op_shape shape = {.rank = -1};
    if (type->shape.rank > SPATIAL + 2) {
        return base_fail_unsupported(report, "input 0 has %d spatial dimensions, supported are 1 to %d",
                                     type->shape.rank - 2, SPATIAL);
    }
    if (type->shape.rank >= 0) {
        op_window window;
        status = op_window_read(call, NULL, &window, report);
        if (status != BASE_OK) return status;
        shape = type->shape;
        for (int32_t i = 0; i < window.rank; i++) {
            shape.dims[2 + i] = window.output[i];
            int64_t extent = (window.kernel[i] - 1) * window.dilation[i] + 1;
            int64_t padding = window.before[i] > window.after[i] ? window.before[i] : window.after[i];
            if (padding >= extent) { /* a window would see nothing but padding */
                return base_fail(report, BASE_INVALID,
                                 "the padding is %" PRId64
                                 " in spatial dimension %d, expected less than %" PRId64
                                 ", the extent of the window",
                                 padding, i, extent);
            }
        }
    }
    op_output_set(call, 0, type->dtype, &shape);
    if (call->output_count > 1) op_output_set(call, 1, OP_INT64, &shape);
    return BASE_OK;
}

base_status op_infer_joined_convolution(op_call *call, base_report *report) {
    op_tensor inputs[OP_JOINED_INPUTS];
    op_call whole;
    base_status status = op_check_input(call, 0, OP_SET(OP_FLOAT), report);
    const int64_t groups = op_attribute_integer(&call->attributes, "shuffle", 1);
    if (status == BASE_OK) status = op_joined_read(call, inputs, &whole, report);
    if (status == BASE_OK && groups != 1) status = check_shuffle(call, groups, report);
    return status == BASE_OK ? op_infer_convolution(&whole, report) : status;
}

base_status op_infer_joined_pool(op_call *call, base_report *report) {
    op_tensor inputs[OP_JOINED_INPUTS];
    op_call whole;
    base_status status = op_check_input(call, 0, OP_SET(OP_FLOAT), report);
    if (status == BASE_OK) status = op_joined_read(call, inputs, &whole, report);
    return status == BASE_OK ? op_infer_pool(&whole, report) : status;
}

base_status op_infer_global_pool(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    op_shape shape = type->shape;
    if (shape.rank >= 0 && shape.rank < 2) {
        return base_fail(report, BASE_INVALID, "input 0 has rank %d, expected at least 2 (batch, channels)",
                         shape.rank);
    }
    for (int32_t i = 2; i < shape.rank; i++) {
        if (shape.dims[i] == 0) {
            return base_fail(report, BASE_INVALID,
                             "spatial dimension %d of input 0 is 0, expected at least 1", i - 2);
        }
        shape.dims[i] = 1;
    }
    op_output_set(call, 0, type->dtype, &shape);
    return BASE_OK;
}

base_status op_infer_batch_normalization(op_call *call, base_report *report) {
    static const char *const names[] = {"X", "scale", "B", "mean", "variance"};
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status != BASE_OK) return status;
    if (op_attribute_integer(&call->attributes, "training_mode", 0) == 0 && call->output_count > 1) {
        return base_fail(report, BASE_INVALID,
                         "outputs after the first are statistics of training: expected training_mode 1");
    }
    const op_type *type = &call->inputs[0].type;
    if (type->shape.rank == 0) {
        return base_fail(report, BASE_INVALID, "input 0 is a scalar, expected rank 1 or more");
    }
    /* A vector has one channel; otherwise dimension 1 is the channels. */
    int64_t channels = type->shape.rank < 0    ? OP_DIM_UNKNOWN
                       : type->shape.rank == 1 ? 1
                                               : type->shape.dims[1];
    for (uint32_t i = 1; i < 5; i++) {
        status = op_check_input(call, i, OP_SET_FLOATS, report);
        if (status == BASE_OK) status = check_channels(call, i, names[i], channels, report);
        if (status != BASE_OK) return status;
    }
    op_output_set(call, 0, type->dtype, &type->shape);
    const op_shape vector = {.rank = 1, .dims = {channels}};
    for (uint32_t i = 1; i < call->output_count; i++) {
        op_output_set(call, i, call->inputs[3].type.dtype, &vector);
    }
    return BASE_OK;
}

base_status op_infer_same_shape(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    if (call->code == OP_LRN) {
        if (op_attribute_integer(&call->attributes, "size", 0) < 1) {
            return base_fail(report, BASE_INVALID, "attribute \"size\" is %" PRId64 ", expected at least 1",
                             op_attribute_integer(&call->attributes, "size", 0));
        }
        if (type->shape.rank >= 0 && type->shape.rank < 2) {
            return base_fail(report, BASE_INVALID,
                             "input 0 has rank %d, expected at least 2 (batch, channels)", type->shape.rank);
        }
    }
    op_output_set(call, 0, type->dtype, &type->shape);
    return BASE_OK;
}

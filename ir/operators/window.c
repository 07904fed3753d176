/* SPDX-License-Identifier: Apache-2.0 */
/* window.c: reads the sliding window of a convolution or a pool; see ir/operators/window.h.
 *
 * Formulas are those of ONNX's Conv-11, MaxPool-12 and AveragePool-11: with e = (kernel - 1) * dilation + 1
 * the output has floor((input + before + after - e) / stride) + 1 positions, rounded up under ceil_mode but
 * without windows that would begin in the padding at the end; SAME_* has ceil(input / stride) and pads as needed.
 * They hold for an image of no elements too, whose padding is convolved; where no window fits there, the output is
 * empty as well.
 */
#include "ir/operators/window.h"
#include <inttypes.h>

/* No extent, stride or padding of a window may reach this: sums and products of two then fit an int64. */
#define WINDOW_LIMIT ((int64_t)1 << 31)

static base_status read_list(const op_call *call, const char *name, int32_t expected, int64_t minimum,
                             int64_t otherwise, int64_t *values, base_report *report) {
    size_t count;
    const int64_t *given = op_attribute_integers(&call->attributes, name, &count);
    if (!given || count == 0) {
        for (int32_t i = 0; i < expected; i++) values[i] = otherwise;
        return BASE_OK;
    }
    if (count != (size_t)expected) {
        return base_fail(report, BASE_INVALID, "attribute \"%s\" has %zu numbers, expected %d", name, count,
                         expected);
    }
    for (int32_t i = 0; i < expected; i++) {
        if (given[i] < minimum || given[i] >= WINDOW_LIMIT) {
            return base_fail(report, BASE_INVALID,
                             "attribute \"%s\" has the number %" PRId64 ", expected at least %" PRId64
                             " and less than 2^31",
                             name, given[i], minimum);
        }
        values[i] = given[i];
    }
    return BASE_OK;
}

/* Output positions and, under auto_pad, the padding of dimension `i`. */
static base_status place(const op_call *call, bool same_upper, bool same_lower, bool ceil_mode, int32_t i,
                         op_window *window, base_report *report) {
    int64_t input = window->input[i], stride = window->stride[i];
    bool same = same_upper || same_lower;
    if (window->kernel[i] < 0 || input < 0) {
        if (same) {
            window->before[i] = window->after[i] = OP_DIM_UNKNOWN;
            window->output[i] = op_dim_compute(call, '^', input, stride);
            return BASE_OK;
        }
        if (window->kernel[i] < 0) {
            window->output[i] = OP_DIM_UNKNOWN;
            return BASE_OK;
        }
        int64_t extent = (window->kernel[i] - 1) * window->dilation[i] + 1;
        int64_t more = window->before[i] + window->after[i] - extent;
        if (more == -1 && stride == 1) { /* (x - 1) / 1 + 1: the commonest case keeps its symbol */
            window->output[i] = input;
            return BASE_OK;
        }
        int64_t free = more > 0 ? op_dim_compute(call, '+', input, more) : input;
        if (more < 0) free = op_dim_compute(call, '-', input, -more);
        /* With ceil_mode whether the last window counts depends on the number itself. */
        int64_t steps = ceil_mode ? OP_DIM_UNKNOWN : free;
        if (steps != OP_DIM_UNKNOWN && stride > 1) steps = op_dim_compute(call, '/', steps, stride);
        window->output[i] = steps == OP_DIM_UNKNOWN ? steps : op_dim_compute(call, '+', steps, 1);
        return BASE_OK;
    }
    if (input >= WINDOW_LIMIT) {
        return base_fail(report, BASE_INVALID,
                         "spatial dimension %d of input 0 is %" PRId64 ", expected less than 2^31", i, input);
    }
    int64_t extent = (window->kernel[i] - 1) * window->dilation[i] + 1;
    if (same) {
        int64_t output = (input + stride - 1) / stride;
        int64_t total = (output - 1) * stride + extent - input;
        if (total < 0) total = 0;
        window->before[i] = same_lower ? total - total / 2 : total / 2;
        window->after[i] = total - window->before[i];
        window->output[i] = output;
        return BASE_OK;
    }
    int64_t free = input + window->before[i] + window->after[i] - extent;
    if (input == 0 && free < 0) { /* an empty image, of which there is nothing to see */
        window->output[i] = 0;
        return BASE_OK;
    }
    if (free < 0) {
        return base_fail(report, BASE_INVALID,
                         "the window spans %" PRId64 " in spatial dimension %d, expected at most %" PRId64
                         " (input %" PRId64 " and padding %" PRId64 ")",
                         extent, i, input + window->before[i] + window->after[i], input,
                         window->before[i] + window->after[i]);
    }
    int64_t output = free / stride + 1;
    if (ceil_mode && free % stride != 0 && output * stride < input + window->before[i]) output++;
    window->output[i] = output;
    return BASE_OK;
}

base_status op_window_read(const op_call *call, const int64_t *kernel, op_window *window,
                           base_report *report) {
    const op_shape *shape = &call->inputs[0].type.shape;
    const op_attributes *attributes = &call->attributes;
    *window = (op_window){.rank = shape->rank - 2};
    if (shape->rank < 3) {
        return base_fail(report, BASE_INVALID,
                         "input 0 has rank %d, expected 3 to %d (batch, channels, spatial dimensions)",
                         shape->rank, OP_WINDOW_RANK + 2);
    }
    if (window->rank > OP_WINDOW_RANK) {
        return base_fail_unsupported(report, "input 0 has %d spatial dimensions, supported are 1 to %d",
                                     window->rank, OP_WINDOW_RANK);
    }
    int64_t pads[2 * OP_WINDOW_RANK], named[OP_WINDOW_RANK];
    base_status status = read_list(call, "strides", window->rank, 1, 1, window->stride, report);
    if (status == BASE_OK)
        status = read_list(call, "dilations", window->rank, 1, 1, window->dilation, report);
    if (status == BASE_OK) status = read_list(call, "pads", 2 * window->rank, 0, 0, pads, report);
    if (status == BASE_OK) status = read_list(call, "kernel_shape", window->rank, 1, 0, named, report);
    if (status != BASE_OK) return status;
    bool same_upper = op_attribute_is(attributes, "auto_pad", "SAME_UPPER", "NOTSET");
    bool same_lower = op_attribute_is(attributes, "auto_pad", "SAME_LOWER", "NOTSET");
    bool valid = op_attribute_is(attributes, "auto_pad", "VALID", "NOTSET");
    bool ceil_mode = !kernel && op_attribute_integer(attributes, "ceil_mode", 0) != 0;
    if (!same_upper && !same_lower && !valid &&
        !op_attribute_is(attributes, "auto_pad", "NOTSET", "NOTSET") &&
        !op_attribute_is(attributes, "auto_pad", "", "NOTSET")) {
        return base_fail(
            report, BASE_INVALID,
            "attribute \"auto_pad\" is unknown, expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
    }
    for (int32_t i = 0; i < window->rank; i++) {
        window->input[i] = shape->dims[2 + i];
        window->before[i] = valid ? 0 : pads[i];
        window->after[i] = valid ? 0 : pads[window->rank + i];
        window->kernel[i] = kernel && kernel[i] >= 0 ? kernel[i] : named[i] ? named[i] : OP_DIM_UNKNOWN;
        if (!kernel && !named[i]) {
            return base_fail(report, BASE_INVALID,
                             "attribute \"kernel_shape\" is absent, expected %d numbers", window->rank);
        }
        if (kernel && kernel[i] >= 0 && named[i] && kernel[i] != named[i]) {
            return base_fail(report, BASE_INVALID,
                             "attribute \"kernel_shape\" says %" PRId64
                             " in spatial dimension %d, expected %" PRId64 " (the extent of the weights)",
                             named[i], i, kernel[i]);
        }
        if (window->kernel[i] == 0 || window->kernel[i] >= WINDOW_LIMIT) {
            return base_fail(report, BASE_INVALID,
                             "the window has extent %" PRId64 " in spatial dimension %d, expected at least 1 "
                             "and less than 2^31",
                             window->kernel[i], i);
        }
        status = place(call, same_upper, same_lower, ceil_mode, i, window, report);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

/* The rows of one of the inputs of a Joined operator lie in it. */
static bool rows_are_there(const op_call *call, uint32_t input, const int64_t *rows) {
    const bool present = op_input_present(call, input);
    const int64_t there =
        present && call->inputs[input].type.shape.rank > 2 ? call->inputs[input].type.shape.dims[2] : 0;
    return rows[0] >= 0 && rows[1] >= rows[0] &&
           (rows[0] == rows[1] || (present && (there < 0 || rows[1] <= there)));
}

static bool differ(int64_t a, int64_t b) {
    return a >= 0 && b >= 0 && a != b;
}

uint32_t op_joined_second(op_code code) {
    return code == OP_JOINED_CONV ? 3 : 1;
}

base_status op_joined_read(const op_call *call, op_tensor inputs[OP_JOINED_INPUTS], op_call *whole,
                           base_report *report) {
    size_t count;
    const uint32_t last = op_joined_second(call->code);
    const int64_t *rows = op_attribute_integers(&call->attributes, "rows", &count);
    const op_shape *first = &call->inputs[0].type.shape;
    if (!rows || count != 4 || first->rank != 4 || differ(first->dims[0], 1))
        return base_fail(report, BASE_INVALID, "expected one image, and where rows begin and end");
    if (op_input_present(call, last)) {
        const op_shape *second = &call->inputs[last].type.shape;
        bool fits = second->rank == 4 && call->inputs[last].type.dtype == call->inputs[0].type.dtype;
        for (int32_t i = 0; fits && i < 4; i++) fits = i == 2 || !differ(first->dims[i], second->dims[i]);
        if (!fits) return base_fail(report, BASE_INVALID, "inputs 0 and %u are not rows of one image", last);
    }
    if (!rows_are_there(call, 0, rows) || !rows_are_there(call, last, rows + 2))
        return base_fail(report, BASE_INVALID, "rows are asked for that are not there");
    *whole = *call;
    whole->inputs = inputs;
    whole->input_count = call->input_count < last ? call->input_count : last;
    for (uint32_t i = 0; i < whole->input_count; i++) inputs[i] = call->inputs[i];
    int64_t *all = &inputs[0].type.shape.dims[2];
    if (!base_int64_add(rows[1] - rows[0], rows[3] - rows[2], all) || *all < 1)
        return base_fail(report, BASE_INVALID, "expected at least one row, and no more than can be counted");
    return BASE_OK;
}

op_window op_window_of_three(const op_window *window) {
    op_window three = {.rank = 3};
    for (int i = 0; i < 3; i++) {
        const int from = i - (3 - window->rank);
        const bool own = from >= 0;
        three.input[i] = own ? window->input[from] : 1;
        three.output[i] = own ? window->output[from] : 1;
        three.kernel[i] = own ? window->kernel[from] : 1;
        three.stride[i] = own ? window->stride[from] : 1;
        three.dilation[i] = own ? window->dilation[from] : 1;
        three.before[i] = own ? window->before[from] : 0;
        three.after[i] = own ? window->after[from] : 0;
    }
    return three;
}

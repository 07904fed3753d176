/* SPDX-License-Identifier: Apache-2.0 */
/* half_convolution.c: Conv in float16 and bfloat16 on images whose channels lie side by side, or on row-major ones of a few channels; see
 * half_bands.h. Weights are constant, and packed; 64 bytes follow them, so that no other kernel's have this size.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/half_bands.h"
#include <string.h>

/* False where the application is no convolution of this kind. Extents of images may be open; weights are constant. */
static bool read_kind(const op_call *call, op_layout from, op_layout to, rt_half_shape *shape) {
    const op_type *x = &call->inputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_window window;
    if (call->code != OP_CONV || !rt_is_half(x->dtype) || x->shape.rank < 3 || x->shape.rank > 4 ||
        weights->rank != x->shape.rank || !op_shape_known(weights))
        return false;
    if (op_window_read(call, weights->dims + 2, &window, NULL) != BASE_OK) return false;
    const int64_t group = op_attribute_integer(&call->attributes, "group", 1);
    if (group < 1) return false;
    *shape = (rt_half_shape){.dtype = x->dtype,
                             .from = from,
                             .to = to,
                             .images = x->shape.dims[0],
                             .group = group,
                             .channels = weights->dims[1],
                             .filters = weights->dims[0] / group,
                             .step = {1, 1},
                             .bias = op_input_present(call, 2),
                             .residual = op_input_present(call, 3)};
    const op_window three = op_window_of_three(&window); /* a signal is an image one row high */
    for (int i = 0; i < 2; i++) {
        shape->input[i] = three.input[i + 1];
        shape->output[i] = three.output[i + 1];
        shape->kernel[i] = three.kernel[i + 1];
        shape->stride[i] = three.stride[i + 1];
        shape->dilation[i] = three.dilation[i + 1];
        shape->before[i] = three.before[i + 1];
    }
    return rt_activation_read(&call->attributes, &shape->activation) && rt_half_set_kind(shape);
}

static size_t packed_bytes(const rt_half_shape *shape) {
    return ((size_t)rt_half_elements(shape) + 2 * RT_HALF_LANES) * sizeof(uint16_t);
}

static bool read_call(const op_call *call, rt_half_shape *shape) {
    return read_kind(call, call->inputs[0].type.layout, call->outputs[0].type.layout, shape);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_half_shape shape;
    (void)environment;
    const op_type *weights = &call->inputs[1].type;
    return read_call(call, &shape) && weights->layout == OP_LAYOUT_PACKED &&
           weights->packed_bytes == packed_bytes(&shape) &&
           (!shape.bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR) &&
           (!shape.residual || call->inputs[3].type.layout == shape.to);
}

/* What has its channels innermost keeps them there; blocks, where these are not padding for a large part. */
static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    rt_half_shape shape;
    const int64_t channels = call->inputs[0].type.shape.rank > 1 ? call->inputs[0].type.shape.dims[1] : 0,
                  filters = call->inputs[1].type.shape.rank > 0 ? call->inputs[1].type.shape.dims[0] : 0;
    if (channels < 1 || filters < 1 || !call->inputs[1].data || environment->portable_only ||
        !rt_half_steps_are_fast())
        return false;
    op_layout from = preference->inputs[0],
              to = op_layout_is_cheap(OP_LAYOUT_NC16, filters) ? OP_LAYOUT_NC16 : OP_LAYOUT_NHWC;
    if (from == OP_LAYOUT_NHWC ||
        !(op_layout_is_cheap(OP_LAYOUT_NC16, channels) && op_layout_is_cheap(OP_LAYOUT_NC16, filters)))
        from = to = OP_LAYOUT_NHWC;
    else from = OP_LAYOUT_NC16;
    if (channels <= RT_HALF_FEW && preference->inputs[0] == OP_LAYOUT_ROW_MAJOR) {
        from = OP_LAYOUT_ROW_MAJOR;
        to = op_layout_is_cheap(OP_LAYOUT_NC16, filters) ? OP_LAYOUT_NC16 : OP_LAYOUT_NHWC;
    }
    if (!read_kind(call, from, to, &shape)) return false;
    /* Channels by themselves in a row-major image go through it as it lies: portable.convolution. */
    if (shape.by_channel && preference->inputs[0] == OP_LAYOUT_ROW_MAJOR &&
        shape.kernel[0] * shape.kernel[1] > 1)
        return false;
    *preference = (rt_preference){.inputs = {from, OP_LAYOUT_PACKED}, .output = to};
    preference->packed_bytes[1] = packed_bytes(&shape);
    if (shape.residual) preference->inputs[3] = to;
    return true;
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    rt_half_shape shape;
    if (!read_call(call, &shape) || !rt_direct_convolution_estimate(call, environment, scratch_limit, cost))
        return false;
    cost->packed_bytes = packed_bytes(&shape);
    return true;
}

static base_status move_weights(const op_call *call, uint32_t input, bool unpacked, const uint16_t *from,
                                uint16_t *to, base_report *report) {
    rt_half_shape shape;
    if (input != 1 || !read_call(call, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not packed", input);
    const int64_t taps = shape.kernel[0] * shape.kernel[1];
    int64_t plain = 0;
    for (int64_t filter = 0; filter < shape.all_filters; filter++) {
        for (int64_t channel = 0; channel < (shape.by_channel ? 1 : shape.channels); channel++) {
            for (int64_t tap = 0; tap < taps; tap++, plain++) {
                const int64_t packed = rt_half_place(&shape, filter, channel, tap);
                if (unpacked) to[plain] = from[packed];
                else to[packed] = from[plain];
            }
        }
    }
    return BASE_OK;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    (void)environment;
    return move_weights(call, input, false, plain->data, packed, report);
}

static base_status unpack(const op_call *call, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *plain, base_report *report) {
    (void)environment;
    return move_weights(call, input, true, packed->data, plain, report);
}

/* Once the extents of images are known. */
static bool read_extents(const op_call *call, const rt_environment *environment, rt_half_shape *shape,
                         size_t *bytes) {
    if (!accepts(call, environment) || !read_call(call, shape)) return false;
    shape->output_width = shape->output[1];
    if (shape->output[0] < 0 || shape->output[1] < 0 ||
        !base_int64_multiply(shape->output[0], shape->output[1], &shape->output_size))
        return false;
    return rt_half_set_extents(shape, bytes) &&
           base_size_multiply(*bytes, (size_t)(environment->threads > 0 ? environment->threads : 1), bytes);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const rt_half_shape *shape = prepared->state;
    rt_half_job job = {.shape = shape,
                       .x = inputs[0].data,
                       .weights = inputs[1].data,
                       .bias = shape->bias ? inputs[2].data : NULL,
                       .residual = shape->residual ? inputs[3].data : NULL,
                       .y = outputs[0].data,
                       .scratch = scratch,
                       .each =
                           prepared->scratch_bytes / (size_t)(prepared->threads > 0 ? prepared->threads : 1)};
    rt_half_run(&job, prepared->threads);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_half_shape *shape = BASE_NEW(arena, rt_half_shape);
    if (!shape) return base_fail_memory(report);
    if (!read_extents(call, environment, shape, &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "this convolution of 16 bits has no form for this machine");
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

/* Images of other extents. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    return read_extents(call, environment, prepared->state, &prepared->scratch_bytes);
}

const rt_kernel rt_kernel_half_convolution = {.name = "portable.half_convolution",
                                              .accepts = accepts,
                                              .prefer = prefer,
                                              .pack = pack,
                                              .unpack = unpack,
                                              .estimate = estimate,
                                              .only_packed = true,
                                              .prepare = prepare,
                                              .adapt = adapt};

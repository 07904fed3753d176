/* SPDX-License-Identifier: Apache-2.0 */
/* half_transposed.c: ConvTranspose in float16 and bfloat16 on images whose channels lie side by side.
 *
 * The outputs that lie a stride apart see the image through the same elements of the kernel, turned round: they are a convolution of
 * stride 1, whose window is that part of the kernel (half_bands.h). There are as many such parts as the product of the strides, and each
 * writes its own outputs. So each output is written once, and nothing is added in memory.
 *
 * The weights of one part follow those of another, in the order of their elements of the kernel, then 64 bytes more. Where outputs begin
 * does not change that order, so that bands of rows, which are cut off anywhere, read the same weights.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/half_bands.h"
#include <string.h>

enum { MOST_PARTS = 16 };

typedef struct transposed {
    int64_t parts, stride[2], kernel[2];
    int64_t begin[MOST_PARTS][2]; /* the first element of the kernel of each */
    int64_t weights[MOST_PARTS];  /* where those of a part begin */
    int64_t elements;
    rt_half_shape shapes[MOST_PARTS];
} transposed;

/* One axis of a part: which elements of the kernel it has, and where its window lies. */
static void set_axis(const op_transposed *window, int at, int64_t phase, int axis, int64_t *begin,
                     rt_half_shape *shape) {
    const op_transposed_phase of = op_transposed_phase_of(window, at, phase);
    *begin = of.begin;
    shape->input[axis] = at < 0 ? 1 : window->input[at];
    shape->kernel[axis] = of.kernel;
    shape->before[axis] = of.before;
    shape->stride[axis] = shape->dilation[axis] = 1;
    shape->output[axis] = of.output;
    shape->step[axis] = at < 0 ? 1 : window->stride[at];
    shape->first[axis] = phase;
}

/* Part number p in the order of elements of the kernel. */
static int64_t place_of(const transposed *state, int64_t p) {
    return state->begin[p][0] * state->stride[1] + state->begin[p][1];
}

static void place_weights(transposed *state) {
    for (int64_t place = 0; place < state->parts; place++) {
        for (int64_t p = 0; p < state->parts; p++) {
            if (place_of(state, p) != place) continue;
            state->weights[p] = state->elements;
            state->elements += rt_half_elements(&state->shapes[p]);
        }
    }
}

/* False where the application is no transposed convolution of this kind. Extents of images may be open; weights are constant. */
static bool read_kind(const op_call *call, op_layout layout, transposed *state) {
    const op_type *x = &call->inputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    op_transposed window;
    if (call->code != OP_CONV_TRANSPOSE || !rt_is_half(x->dtype) || x->shape.rank < 3 || x->shape.rank > 4 ||
        weights->rank != x->shape.rank || !op_shape_known(weights) ||
        op_attribute_integer(&call->attributes, "group", 1) != 1)
        return false;
    if (!op_transposed_read(call, &window, NULL) || !rt_half_is_side_by_side(layout)) return false;
    *state = (transposed){.parts = 1, .elements = 0};
    for (int i = 0; i < 2; i++) {
        const int at = i - (2 - window.rank); /* a signal is an image one row high */
        state->stride[i] = at < 0 ? 1 : window.stride[at];
        state->kernel[i] = at < 0 ? 1 : window.kernel[at];
        if (state->stride[i] > MOST_PARTS || state->kernel[i] > RT_HALF_TAPS ||
            (at >= 0 && window.dilation[at] != 1))
            return false;
        if (at >= 0 && (window.before[at] < 0 || window.before[at] > RT_HALF_TAPS)) return false;
    }
    state->parts = state->stride[0] * state->stride[1];
    if (state->parts > MOST_PARTS) return false;
    for (int64_t p = 0; p < state->parts; p++) {
        rt_half_shape *shape = &state->shapes[p];
        *shape = (rt_half_shape){.dtype = x->dtype,
                                 .from = layout,
                                 .to = layout,
                                 .images = x->shape.dims[0],
                                 .group = 1,
                                 .channels = weights->dims[0],
                                 .filters = weights->dims[1],
                                 .bias = op_input_present(call, 2)};
        const int64_t phase[2] = {p / state->stride[1], p % state->stride[1]};
        for (int i = 0; i < 2; i++)
            set_axis(&window, i - (2 - window.rank), phase[i], i, &state->begin[p][i], shape);
        if (!rt_half_set_kind(shape)) return false;
    }
    place_weights(state);
    return true;
}

static size_t packed_bytes(const transposed *state) {
    return ((size_t)state->elements + 2 * RT_HALF_LANES) * sizeof(uint16_t);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    transposed state;
    const op_type *weights = &call->inputs[1].type;
    (void)environment;
    const op_layout layout = call->inputs[0].type.layout;
    return read_kind(call, layout, &state) && call->outputs[0].type.layout == layout &&
           weights->layout == OP_LAYOUT_PACKED && weights->packed_bytes == packed_bytes(&state) &&
           (!op_input_present(call, 2) || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR);
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    transposed state;
    const op_shape *weights = &call->inputs[1].type.shape;
    if (!call->inputs[1].data || weights->rank < 3 || environment->portable_only || !rt_half_steps_are_fast())
        return false;
    const bool blocks = preference->inputs[0] != OP_LAYOUT_NHWC &&
                        op_layout_is_cheap(OP_LAYOUT_NC16, weights->dims[0]) &&
                        op_layout_is_cheap(OP_LAYOUT_NC16, weights->dims[1]);
    const op_layout layout = blocks ? OP_LAYOUT_NC16 : OP_LAYOUT_NHWC;
    if (!read_kind(call, layout, &state)) return false;
    *preference = (rt_preference){.inputs = {layout, OP_LAYOUT_PACKED}, .output = layout};
    preference->packed_bytes[1] = packed_bytes(&state);
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    transposed state;
    (void)environment;
    if (input != 1 || !read_kind(call, call->inputs[0].type.layout, &state))
        return base_fail(report, BASE_INVALID, "input %u of this transposed convolution is not packed",
                         input);
    const uint16_t *from = plain->data;
    for (int64_t p = 0; p < state.parts; p++) {
        const rt_half_shape *shape = &state.shapes[p];
        uint16_t *to = (uint16_t *)packed + state.weights[p];
        const int64_t taps = shape->kernel[0] * shape->kernel[1];
        for (int64_t channel = 0; channel < shape->channels; channel++) {
            for (int64_t filter = 0; filter < shape->filters; filter++) {
                const uint16_t *kernel =
                    from + (channel * shape->filters + filter) * state.kernel[0] * state.kernel[1];
                for (int64_t tap = 0; tap < taps; tap++) {
                    /* Turned round: the last element of the part comes first. */
                    const int64_t row = state.begin[p][0] +
                                        (shape->kernel[0] - 1 - tap / shape->kernel[1]) * state.stride[0],
                                  column = state.begin[p][1] +
                                           (shape->kernel[1] - 1 - tap % shape->kernel[1]) * state.stride[1];
                    to[rt_half_place(shape, filter, channel, tap)] = kernel[row * state.kernel[1] + column];
                }
            }
        }
    }
    return BASE_OK;
}

/* Once the extents of images are known. */
static bool read_extents(const op_call *call, const rt_environment *environment, transposed *state,
                         size_t *bytes) {
    const op_shape *y = &call->outputs[0].type.shape;
    *bytes = 0;
    if (!accepts(call, environment) || !read_kind(call, call->inputs[0].type.layout, state)) return false;
    for (int64_t p = 0; p < state->parts; p++) {
        rt_half_shape *shape = &state->shapes[p];
        size_t own;
        shape->output_width = y->dims[y->rank - 1];
        if (!base_int64_multiply(shape->output_width, y->rank > 3 ? y->dims[2] : 1, &shape->output_size))
            return false;
        if (!rt_half_set_extents(shape, &own)) return false;
        if (own > *bytes) *bytes = own;
    }
    return base_size_multiply(*bytes, (size_t)(environment->threads > 0 ? environment->threads : 1), bytes);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const transposed *state = prepared->state;
    (void)report;
    for (int64_t p = 0; p < state->parts; p++) {
        const rt_half_job job = {.shape = &state->shapes[p],
                                 .x = inputs[0].data,
                                 .weights = (const uint16_t *)inputs[1].data + state->weights[p],
                                 .bias = state->shapes[p].bias ? inputs[2].data : NULL,
                                 .y = outputs[0].data,
                                 .scratch = scratch,
                                 .each = prepared->scratch_bytes /
                                         (size_t)(prepared->threads > 0 ? prepared->threads : 1)};
        rt_half_run(&job, prepared->threads);
    }
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    transposed *state = BASE_NEW(arena, transposed);
    if (!state) return base_fail_memory(report);
    if (!read_extents(call, environment, state, &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID,
                         "this transposed convolution of 16 bits has no form that works by its parts");
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_half_transposed = {.name = "portable.half_transposed",
                                             .accepts = accepts,
                                             .prefer = prefer,
                                             .pack = pack,
                                             .only_packed = true,
                                             .prepare = prepare};

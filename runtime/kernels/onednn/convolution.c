/* SPDX-License-Identifier: Apache-2.0 */
/* convolution.c: Conv on oneDNN: bias, the activation as a post-operation, the residual as a sum into dst; and
 * ConvTranspose, with bias.
 *
 * Constant weights are packed at compile time into the form that oneDNN likes for the layouts of source and
 * destination. Which form that is follows from the application, the machine and the number of threads; it is
 * asked for again when a session is made, and the sizes must agree. Where extents of the images are open when the weights
 * are packed, they are packed for some (ouro.packed_extents), and the form is asked for again with these. What runs has
 * the extents that there are then, over weights in that form; only where oneDNN has nothing for that, the weights are
 * reordered once more when a session is prepared. Images of an open number are convolved one at a time.
 */
#include "runtime/kernels/base/packed_extents.h"
#include "runtime/kernels/onednn/primitive.h"
#include "runtime/kernels/portable/cost.h"
#include <string.h>

enum {
    IMAGE_CHANNELS = 4, /* at most, of an input that is best read row-major */
    FEW_CHANNELS = 8,   /* at most, for the portable kernel to make one map of */
    POINT_CHANNELS =
        2,        /* of a group, at least, that are multiplied row-major where windows are single points */
    FEW_MAPS = 4, /* fewer maps of single points are left to it, too */
    GROUP_BLOCK =
        16 /* what channels and filters of a group are multiples of, for oneDNN to be as fast on groups */
};

typedef struct convolution {
    rt_primitive primitive;
    /* How often the primitive runs: once, or for each image, which take this many bytes. */
    int64_t times;
    size_t x_bytes, y_bytes;
    void *weights; /* reordered; NULL: as they were packed */
    bool bias, residual;
    rt_activation after; /* what is applied to the output afterwards */
    bool transposed;     /* the bias is added afterwards, to: */
    op_layout layout;
    int64_t images, channels, points; /* the output of one run; points of one channel */
} convolution;

/* The application as a primitive runs it: as many images at once as weights were packed for. */
static const op_call *some_images(const op_call *call, rt_other_extents *to) {
    const int64_t *extents = rt_packed_extents(call);
    if (!extents || !rt_copy_extents(call, to)) return call;
    to->inputs[0].type.shape.dims[0] = to->output.type.shape.dims[0] = extents[0];
    if (op_input_present(call, 3)) to->inputs[3].type.shape.dims[0] = extents[0];
    return &to->call;
}

/* Signals of some length are often given as images one point wide. Vectors run along the width: to oneDNN these are
 * images one point high, which are the same bytes in every layout. */
static bool is_column(const op_call *call) {
    const op_shape *x = &call->inputs[0].type.shape, *weights = &call->inputs[1].type.shape,
                   *y = &call->outputs[0].type.shape;
    const int64_t *extents = rt_packed_extents(call); /* the weights lie already */
    return x->rank == 4 && x->dims[3] == 1 && weights->dims[3] == 1 && y->dims[3] == 1 &&
           (!extents || extents[3] == 1);
}

static void exchange(int64_t *height) {
    const int64_t width = height[1];
    height[1] = height[0];
    height[0] = width;
}

/* Signals that are filtered channel by channel: oneDNN has kernels for images alone, and these are one point high. */
static bool is_signal(const op_call *call) {
    const op_shape *weights = &call->inputs[1].type.shape;
    return call->code == OP_CONV && weights->rank == 3 && weights->dims[1] == 1 &&
           op_attribute_integer(&call->attributes, "group", 1) > 1;
}

/* The shape of a tensor of the application as oneDNN gets it. */
static op_shape lying(const op_call *call, const op_shape *shape) {
    op_shape turned = *shape;
    if (is_column(call)) exchange(turned.dims + 2);
    if (is_signal(call)) {
        turned.rank = 4;
        turned.dims[3] = turned.dims[2];
        turned.dims[2] = 1;
    }
    return turned;
}

/* Likewise what a window says of each spatial dimension; `none` is what it says of one that it does not slide along. */
static void lay_window(const op_call *call, int64_t *each, int64_t none) {
    if (is_column(call)) exchange(each);
    if (is_signal(call)) {
        each[1] = each[0];
        each[0] = none;
    }
}

/* The description of the weights in ONNX's order, with the group as a dimension of its own. */
static bool describe_weights(const op_call *call, bool any, dnnl_memory_desc_t *description) {
    const op_shape turned = lying(call, &call->inputs[1].type.shape), *weights = &turned;
    const int64_t group = op_attribute_integer(&call->attributes, "group", 1);
    op_shape shape = *weights;
    if (group > 1) {
        shape.rank = weights->rank + 1;
        shape.dims[0] = group;
        shape.dims[1] = weights->dims[0] / group;
        for (int32_t i = 1; i < weights->rank; i++) shape.dims[i + 1] = weights->dims[i];
    }
    return any ? rt_describe_any(&shape, description)
               : rt_describe_as(&shape, OP_LAYOUT_ROW_MAJOR, description);
}

/* How the tensors of an application are to lie, and on what it may run. */
typedef struct arrangement {
    op_layout from, to;
    dnnl_memory_desc_t weights;
} arrangement;

/* The application is a convolution turned round: what oneDNN calls the derivative by the source of the convolution
 * from y to x. Its deconvolution primitive would be built on that, but allocates when it runs. */
static bool make_transposed(const op_call *call, const rt_environment *environment, const arrangement *lie,
                            rt_descriptor *open) {
    const op_shape x = lying(call, &call->inputs[0].type.shape),
                   y = lying(call, &call->outputs[0].type.shape);
    const rt_activation none = {0};
    op_transposed window;
    dnnl_memory_desc_t source, target;
    dnnl_convolution_desc_t operation;
    dnnl_dims_t strides, dilates, before, after;
    if (!op_transposed_read(call, &window, NULL) || !rt_describe_as(&x, lie->from, &source) ||
        !rt_describe_as(&y, lie->to, &target))
        return false;
    double work = (double)y.dims[1];
    for (int32_t i = 0; i < x.rank; i++) work *= (double)x.dims[i];
    for (int32_t d = 0; d < window.rank; d++) {
        const int64_t reach = (window.kernel[d] - 1) * window.dilation[d] + 1;
        work *= (double)window.kernel[d];
        strides[d] = window.stride[d];
        dilates[d] = window.dilation[d] - 1;
        before[d] = window.before[d];
        after[d] = (window.input[d] - 1) * window.stride[d] + reach - window.before[d] - window.output[d];
    }
    int64_t *each[] = {strides, dilates, before, after};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) lay_window(call, each[i], each[i] == strides);
    if (dnnl_dilated_convolution_backward_data_desc_init(&operation, dnnl_convolution_direct, &target,
                                                         &lie->weights, &source, strides, dilates, before,
                                                         after) != dnnl_success ||
        !rt_descriptor_open(open, 0, &none)) {
        return false;
    }
    return rt_descriptor_make(open, &operation, rt_threads_for(work, environment));
}

static bool make_descriptor(const op_call *call, const rt_environment *environment, const arrangement *lie,
                            rt_descriptor *open) {
    const op_shape x = lying(call, &call->inputs[0].type.shape),
                   y = lying(call, &call->outputs[0].type.shape);
    const bool bias = op_input_present(call, 2), residual = op_input_present(call, 3);
    if (call->code == OP_CONV_TRANSPOSE) return make_transposed(call, environment, lie, open);
    rt_activation activation;
    op_window window;
    if (!rt_activation_read(&call->attributes, &activation) ||
        op_window_read(call, call->inputs[1].type.shape.dims + 2, &window, NULL) != BASE_OK) {
        return false;
    }
    dnnl_memory_desc_t source, offsets, target;
    bool described = rt_describe_as(&x, lie->from, &source) && rt_describe_as(&y, lie->to, &target);
    if (described && bias)
        described = rt_describe_as(&call->inputs[2].type.shape, OP_LAYOUT_ROW_MAJOR, &offsets);
    if (!described) return false;
    rt_window_dims dims;
    rt_window_describe(&window, &dims);
    int64_t *each[] = {dims.kernel, dims.strides, dims.dilates, dims.before, dims.after};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        lay_window(call, each[i], each[i] == dims.kernel || each[i] == dims.strides);
    const op_shape weights = lying(call, &call->inputs[1].type.shape);
    double work = (double)weights.dims[0];
    for (int32_t i = 1; i < x.rank; i++) work *= (double)weights.dims[i];
    for (int32_t i = 0; i < y.rank; i++) work *= i == 1 ? 1 : (double)y.dims[i];
    dnnl_convolution_desc_t operation;
    if (dnnl_dilated_convolution_forward_desc_init(&operation, dnnl_forward_inference,
                                                   dnnl_convolution_direct, &source, &lie->weights,
                                                   bias ? &offsets : NULL, &target, dims.strides,
                                                   dims.dilates, dims.before, dims.after) != dnnl_success) {
        return false;
    }
    const rt_activation none = {0}, *within = rt_activation_is_fast_apart(&activation) ? &none : &activation;
    if (!rt_descriptor_open(open, residual ? 1 : 0, within)) return false;
    open->by_channel =
        call->inputs[1].type.shape.dims[1] == 1 &&
        op_attribute_integer(&call->attributes, "group", 1) == call->inputs[1].type.shape.dims[0] &&
        call->inputs[1].type.shape.dims[0] > 1;
    return rt_descriptor_make(open, &operation, rt_threads_for(work, environment));
}

static bool is_packed(const op_call *call) {
    return call->inputs[1].type.layout == OP_LAYOUT_PACKED;
}

/* The descriptor for the layouts that the tensors have; which form packed weights have is for oneDNN to say. */
static bool make_given(const op_call *call, const rt_environment *environment, rt_descriptor *open) {
    arrangement lie = {.from = call->inputs[0].type.layout, .to = call->outputs[0].type.layout};
    return describe_weights(call, is_packed(call), &lie.weights) &&
           make_descriptor(call, environment, &lie, open);
}

/* One map of a few channels (a stencil, a grey image), or a few maps of single points: the portable kernel adds rows
 * where they lie, where oneDNN would fill vectors with channels that there are none of. It gives whole maps to threads. */
static bool is_stencil(const op_call *call, const rt_environment *environment) {
    const op_shape *weights = &call->inputs[1].type.shape;
    int64_t points = 1;
    if (call->code != OP_CONV || op_attribute_integer(&call->attributes, "group", 1) != 1) return false;
    for (int32_t i = 2; i < weights->rank; i++) points *= weights->dims[i];
    return weights->dims[1] <= FEW_CHANNELS && weights->dims[0] < (points == 1 ? FEW_MAPS : 2) &&
           call->inputs[0].type.shape.dims[0] * weights->dims[0] >= environment->threads;
}

static bool accepts(const op_call *given, const rt_environment *environment) {
    rt_other_extents packed;
    const op_call *call = rt_as_packed(given, &packed);
    rt_descriptor open;
    if (!call || !rt_floats_known(call) || is_stencil(call, environment)) return false;
    if (op_input_present(call, 3) && call->inputs[3].type.layout != call->outputs[0].type.layout)
        return false;
    if (op_input_present(call, 2) && call->inputs[2].type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    if (!make_given(call, environment, &open)) return false;
    rt_descriptor_close(&open);
    return true;
}

/* Groups that do not fill blocks are products of row-major matrices, which the portable kernel multiplies faster than oneDNN
 * convolves them; and what comes after them, channel by channel, stays as it lies, instead of being reordered to and fro (measured by
 * tests/bench/bench_kernels.c). */
static bool is_better_row_major(const op_call *call, op_layout present) {
    const op_shape *weights = &call->inputs[1].type.shape;
    const int64_t group = op_attribute_integer(&call->attributes, "group", 1);
    if (call->code != OP_CONV || group == 1 || call->inputs[0].type.shape.rank != 4 || is_column(call))
        return false;
    const int64_t channels = weights->dims[1], filters = weights->dims[0] / group;
    /* Of single points the portable kernel has use for a few channels and filters, too. */
    const bool points = weights->dims[2] == 1 && weights->dims[3] == 1;
    if (channels == 1) return filters == 1 && present == OP_LAYOUT_ROW_MAJOR && weights->dims[2] > 1;
    return channels >= (points ? POINT_CHANNELS : GROUP_BLOCK) && filters >= (points ? 1 : GROUP_BLOCK) &&
           (channels % GROUP_BLOCK != 0 || filters % GROUP_BLOCK != 0);
}

/* In order, the first that works: blocks of 16 channels, which let a Concat along the channels be a view;
 * from a row-major image of few channels; channels innermost, where oneDNN has its fastest kernels too, and the
 * only ones for groups of odd sizes (both measured by tests/bench/bench_kernels.c); blocks of 8 on machines
 * without AVX-512. Blocks that would be padding to a large part are left out: they cost memory and time. */
static bool prefer(const op_call *given, const rt_environment *environment, rt_preference *preference) {
    rt_other_extents other;
    const op_call *call = rt_as_packed(given, &other);
    static const struct {
        op_layout from, to;
    } candidates[] = {{OP_LAYOUT_NHWC, OP_LAYOUT_NHWC},
                      {OP_LAYOUT_NC16, OP_LAYOUT_NC16},
                      {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16},
                      {OP_LAYOUT_NHWC, OP_LAYOUT_NHWC},
                      {OP_LAYOUT_NC8, OP_LAYOUT_NC8},
                      {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC8},
                      {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_ROW_MAJOR}};
    arrangement lie = {0};
    if (!call || !rt_floats_known(call) || is_stencil(call, environment)) return false;
    if (is_better_row_major(call, preference->inputs[0])) return false;
    const bool packed = call->inputs[1].data != NULL;
    if (!describe_weights(call, packed, &lie.weights)) return false;
    /* What has its channels innermost already keeps them there. */
    const size_t first = preference->inputs[0] == OP_LAYOUT_NHWC ? 0 : 1;
    for (size_t i = first; i < sizeof candidates / sizeof *candidates; i++) {
        rt_descriptor open;
        const bool image =
            candidates[i].from == OP_LAYOUT_ROW_MAJOR && candidates[i].to != OP_LAYOUT_ROW_MAJOR;
        if (image && call->inputs[0].type.shape.dims[1] > IMAGE_CHANNELS) continue;
        if (!op_layout_is_cheap(candidates[i].from, call->inputs[0].type.shape.dims[1]) ||
            !op_layout_is_cheap(candidates[i].to, call->outputs[0].type.shape.dims[1])) {
            continue;
        }
        lie.from = candidates[i].from;
        lie.to = candidates[i].to;
        if (!make_descriptor(call, environment, &lie, &open)) continue;
        *preference = (rt_preference){.output = candidates[i].to};
        preference->inputs[0] = candidates[i].from;
        if (op_input_present(call, 3)) preference->inputs[3] = candidates[i].to;
        if (packed) {
            preference->inputs[1] = OP_LAYOUT_PACKED;
            preference->packed_bytes[1] =
                dnnl_memory_desc_get_size(rt_descriptor_memory(&open, dnnl_query_weights_md));
        }
        rt_descriptor_close(&open);
        return true;
    }
    return false;
}

static base_status pack(const op_call *given, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    rt_other_extents other;
    const op_call *call = rt_as_packed(given, &other);
    rt_descriptor open;
    dnnl_memory_desc_t from;
    if (input != 1 || !call || !describe_weights(call, false, &from) ||
        !make_given(call, environment, &open)) {
        return rt_onednn_fail(report, "oneDNN cannot pack input %u of this convolution", input);
    }
    base_status status = rt_check_packed(call, &open, report);
    if (status == BASE_OK) {
        status = rt_reorder(&from, source->data, rt_descriptor_memory(&open, dnnl_query_weights_md), packed,
                            1, environment->threads, report);
    }
    rt_descriptor_close(&open);
    return status;
}

/* From the form that `pack` made for this application back to the plain one. */
static base_status unpack(const op_call *given, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *plain, base_report *report) {
    rt_other_extents other;
    const op_call *call = rt_as_packed(given, &other);
    rt_descriptor open;
    dnnl_memory_desc_t to;
    if (input != 1 || !call || !describe_weights(call, false, &to) || !make_given(call, environment, &open)) {
        return rt_onednn_fail(report, "oneDNN cannot unpack input %u of this convolution", input);
    }
    base_status status = rt_check_packed(call, &open, report);
    if (status == BASE_OK) {
        status = rt_reorder(rt_descriptor_memory(&open, dnnl_query_weights_md), packed->data, &to, plain, 1,
                            environment->threads, report);
    }
    rt_descriptor_close(&open);
    return status;
}

/* In every layout; channels that pad a block stay zero. */
static void add_bias(const convolution *state, const float *bias, float *y) {
    const int64_t block = state->layout == OP_LAYOUT_NHWC ? state->channels : op_layout_block(state->layout);
    const int64_t blocks = (state->channels + block - 1) / block;
    for (int64_t b = 0; b < state->images * blocks; b++) {
        const int64_t first = b % blocks * block,
                      count = state->channels - first < block ? state->channels - first : block;
        const float *own = bias + first;
        for (int64_t p = 0; p < state->points; p++, y += block) {
            for (int64_t c = 0; c < count; c++) y[c] += own[c];
        }
    }
}

typedef struct activation_job {
    const rt_activation *activation;
    float *data;
    int64_t count;
} activation_job;

static void activate_member(void *context, int member, int members) {
    const activation_job *job = context;
    const int64_t first = job->count * member / members, end = job->count * (member + 1) / members;
    rt_activation_fused(job->activation, job->data + first, end - first);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    convolution *state = prepared->state;
    const bool add = state->transposed && prepared->input_count > 2 && inputs[2].type.dtype != OP_NONE;
    base_status status = BASE_OK;
    for (int64_t i = 0; i < state->times && status == BASE_OK; i++) {
        char *y = (char *)outputs[0].data + (size_t)i * state->y_bytes;
        void *weights = state->weights ? state->weights : inputs[1].data;
        void *data[4] = {(char *)inputs[0].data + (size_t)i * state->x_bytes, weights, y, NULL};
        if (state->bias) data[3] = inputs[2].data;
        /* The sum adds to what is there already. */
        if (state->residual && inputs[3].data != outputs[0].data)
            memcpy(y, (const char *)inputs[3].data + (size_t)i * state->y_bytes, state->y_bytes);
        status = rt_primitive_run(&state->primitive, data, scratch, report);
        if (status == BASE_OK && add) add_bias(state, inputs[2].data, (float *)(void *)y);
        if (status != BASE_OK || state->after.kind == RT_ACTIVATION_NONE) continue;
        activation_job job = {&state->after, (float *)(void *)y, (int64_t)(state->y_bytes / sizeof(float))};
        rt_team_run(state->primitive.threads, activate_member, &job);
    }
    return status;
}

static void release(rt_prepared *prepared) {
    convolution *state = prepared->state;
    if (state) rt_primitive_close(&state->primitive);
}

/* Reorders weights that are packed as `from` describes to what the descriptor wants. */
static base_status reorder_weights(const op_call *call, const rt_environment *environment,
                                   const dnnl_memory_desc_t *from, base_arena *arena, convolution *state,
                                   const rt_descriptor *open, base_report *report) {
    const dnnl_memory_desc_t *to = rt_descriptor_memory(open, dnnl_query_weights_md);
    state->weights = rt_arena_aligned(arena, dnnl_memory_desc_get_size(to));
    if (!state->weights) return base_fail_memory(report);
    return rt_reorder(from, call->inputs[1].data, to, state->weights, 1, environment->threads, report);
}

/* The descriptor of what runs: `call`, some images of `given`. Unsupported: for extents other than those that the weights were packed for
 * (ouro.packed_extents), oneDNN has nothing but its reference, which takes hundreds of times as long as what runs such extents on plain weights. */
static base_status make_to_run(const op_call *given, const op_call *call, const rt_environment *environment,
                               base_arena *arena, convolution *state, rt_descriptor *open,
                               base_report *report) {
    const int64_t *packed_for = rt_packed_extents(given);
    const op_shape *x = &call->inputs[0].type.shape;
    /* An open number of images alone leaves those extents that the weights were packed for. */
    const bool other = packed_for && memcmp(packed_for, x->dims, (size_t)x->rank * sizeof *packed_for) != 0;
    const bool packed = is_packed(given);
    rt_other_extents extents;
    arrangement lie = {.from = call->inputs[0].type.layout, .to = call->outputs[0].type.layout};
    base_status status = BASE_OK;
    if (other && packed) {
        const op_call *packing = rt_as_packed(given, &extents);
        if (!packing || !make_given(packing, environment, open))
            return rt_onednn_fail(report, "oneDNN cannot pack for this convolution on this machine");
        status = rt_check_packed(call, open, report);
        lie.weights = *rt_descriptor_memory(open, dnnl_query_weights_md);
        rt_descriptor_close(open);
        if (status != BASE_OK || make_descriptor(call, environment, &lie, open)) return status;
    }
    if (!make_given(call, environment, open))
        return other ? base_fail_unsupported(report, "oneDNN has no kernel for these extents")
                     : rt_onednn_fail(report, "oneDNN cannot run this convolution on this machine");
    if (packed) {
        status = other ? reorder_weights(call, environment, &lie.weights, arena, state, open, report)
                       : rt_check_packed(call, open, report);
    }
    if (status != BASE_OK) rt_descriptor_close(open);
    return status;
}

static base_status prepare(const op_call *given, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_other_extents some;
    const op_call *call = some_images(given, &some);
    convolution *state = BASE_NEW(arena, convolution);
    rt_descriptor open;
    if (!state) return base_fail_memory(report);
    prepared->state = state;
    prepared->run = run;
    base_status status = make_to_run(given, call, environment, arena, state, &open, report);
    if (status != BASE_OK) return status;
    state->transposed = call->code == OP_CONV_TRANSPOSE;
    state->bias = op_input_present(call, 2) && !state->transposed;
    state->residual = op_input_present(call, 3);
    rt_activation activation;
    if (!state->transposed && rt_activation_read(&call->attributes, &activation) &&
        rt_activation_is_fast_apart(&activation))
        state->after = activation;
    const op_shape *y = &call->outputs[0].type.shape;
    state->layout = call->outputs[0].type.layout;
    state->images = y->dims[0];
    state->channels = y->dims[1];
    state->points = 1;
    for (int32_t d = 2; d < y->rank; d++) state->points *= y->dims[d];
    const bool back = state->transposed;
    state->times = given->outputs[0].type.shape.dims[0] / y->dims[0];
    if (state->times * y->dims[0] != given->outputs[0].type.shape.dims[0] ||
        !op_type_bytes(&call->inputs[0].type, &state->x_bytes) ||
        !op_type_bytes(&call->outputs[0].type, &state->y_bytes)) {
        rt_descriptor_close(&open);
        return base_fail(
            report, BASE_INVALID,
            "the tensors are too large, or no multiple of the images that weights were packed for");
    }
    rt_primitive *primitive = &state->primitive;
    status = rt_primitive_make(primitive, &open, report);
    if (status == BASE_OK) {
        status = rt_primitive_argument(
            primitive, back ? DNNL_ARG_DIFF_DST : DNNL_ARG_SRC,
            rt_descriptor_memory(&open, back ? dnnl_query_diff_dst_md : dnnl_query_src_md), false, report);
    }
    if (status == BASE_OK) {
        status = rt_primitive_argument(primitive, DNNL_ARG_WEIGHTS,
                                       rt_descriptor_memory(&open, dnnl_query_weights_md), false, report);
    }
    if (status == BASE_OK) {
        status = rt_primitive_argument(
            primitive, back ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST,
            rt_descriptor_memory(&open, back ? dnnl_query_diff_src_md : dnnl_query_dst_md), true, report);
    }
    if (status == BASE_OK && state->bias) {
        dnnl_memory_desc_t offsets;
        rt_describe_as(&call->inputs[2].type.shape, OP_LAYOUT_ROW_MAJOR, &offsets);
        status = rt_primitive_argument(primitive, DNNL_ARG_BIAS, &offsets, false, report);
    }
    prepared->scratch_bytes = primitive->scratch_bytes;
    rt_descriptor_close(&open);
    if (status != BASE_OK) release(prepared);
    return status;
}

const rt_kernel rt_onednn_convolution = {.name = "onednn.convolution",
                                         .backend = RT_BACKEND_ONEDNN,
                                         .accepts = accepts,
                                         .prefer = prefer,
                                         .pack = pack,
                                         .unpack = unpack,
                                         .estimate = rt_direct_convolution_estimate,
                                         .prepare = prepare,
                                         .release = release};

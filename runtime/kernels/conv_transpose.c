/* conv_transpose.c: transposed convolution: each input point adds the kernel, weighted, to the output around it.
 * Filters are computed side by side; the sums of one output are taken in the order of channels, then kernel
 * positions, whatever the number of threads. Computed in float (double for double). */
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/product.h"
#include "ir/op_window.h"
#include <string.h>

typedef struct transposed_state {
    op_transposed window;
    op_dtype dtype;
    int64_t batch, channels, filters; /* of a group */
    int64_t input_size, output_size, kernel_size;
} transposed_state;

typedef struct transposed_context {
    const transposed_state *state;
    const void *x, *w, *bias;
    void *y;
    char *scratch;
} transposed_context;

/* y += value * (points of one channel that kernel position k reaches). */
#define SPREAD(type)                                                                                         \
    static void spread_##type(const op_transposed *t, const type *x, const int64_t *at, type value,          \
                              type *y) {                                                                     \
        const int32_t last = t->rank - 1;                                                                    \
        int64_t index[OP_MAX_RANK] = {0}, rows = 1;                                                          \
        for (int32_t d = 0; d < last; d++) rows *= t->input[d];                                              \
        for (int64_t row = 0; row < rows; row++) {                                                           \
            int64_t base = 0;                                                                                \
            bool inside = true;                                                                              \
            for (int32_t d = 0; d < last; d++) {                                                             \
                int64_t o = index[d] * t->stride[d] + at[d] * t->dilation[d] - t->before[d];                 \
                inside = inside && o >= 0 && o < t->output[d];                                               \
                base = base * t->output[d] + o;                                                              \
            }                                                                                                \
            if (inside) {                                                                                    \
                const int64_t shift = at[last] * t->dilation[last] - t->before[last];                        \
                const int64_t step = t->stride[last], width = t->output[last];                               \
                int64_t first = shift < 0 ? (-shift + step - 1) / step : 0;                                  \
                int64_t end = width - shift <= 0 ? 0 : (width - shift + step - 1) / step;                    \
                if (end > t->input[last]) end = t->input[last];                                              \
                type *line = y + base * width + shift;                                                       \
                const type *from = x + row * t->input[last];                                                 \
                for (int64_t i = first; i < end; i++) line[i * step] += value * from[i];                     \
            }                                                                                                \
            for (int32_t d = last - 1; d >= 0; d--) {                                                        \
                if (++index[d] < t->input[d]) break;                                                         \
                index[d] = 0;                                                                                \
            }                                                                                                \
        }                                                                                                    \
    }

SPREAD(float)
SPREAD(double)

/* One output channel of one image. */
#define CHANNEL(type)                                                                                        \
    static void channel_##type(const transposed_state *s, const type *x, const type *w, type bias,           \
                               type *y) {                                                                    \
        const op_transposed *t = &s->window;                                                                 \
        for (int64_t i = 0; i < s->output_size; i++) y[i] = bias;                                            \
        for (int64_t c = 0; c < s->channels; c++) {                                                          \
            int64_t at[OP_MAX_RANK] = {0};                                                                   \
            const type *kernel = w + c * s->filters * s->kernel_size;                                        \
            for (int64_t k = 0; k < s->kernel_size; k++) {                                                   \
                spread_##type(t, x + c * s->input_size, at, kernel[k], y);                                   \
                for (int32_t d = t->rank - 1; d >= 0; d--) {                                                 \
                    if (++at[d] < t->kernel[d]) break;                                                       \
                    at[d] = 0;                                                                               \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

CHANNEL(float)
CHANNEL(double)

static void run_channels(void *user, int64_t begin, int64_t end) {
    const transposed_context *context = user;
    const transposed_state *s = context->state;
    const int64_t all = s->filters * s->window.group;
    for (int64_t task = begin; task < end; task++) {
        const int64_t image = task / all, filter = task % all, group = filter / s->filters;
        const int64_t x = (image * s->window.group + group) * s->channels * s->input_size;
        const int64_t w = (group * s->channels * s->filters + filter % s->filters) * s->kernel_size;
        const int64_t y = task * s->output_size;
        if (s->dtype == OP_DOUBLE) {
            channel_double(s, (const double *)context->x + x, (const double *)context->w + w,
                           context->bias ? ((const double *)context->bias)[filter] : 0,
                           (double *)context->y + y);
        } else {
            channel_float(s, (const float *)context->x + x, (const float *)context->w + w,
                          context->bias ? ((const float *)context->bias)[filter] : 0,
                          (float *)context->y + y);
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const transposed_state *s = prepared->state;
    const bool biased = prepared->input_count > 2 && inputs[2].type.dtype != OP_NONE;
    transposed_context context = {
        s, inputs[0].data, inputs[1].data, biased ? inputs[2].data : NULL, outputs[0].data, NULL};
    const int64_t tasks = s->batch * s->filters * s->window.group;
    const bool half = rt_is_half(s->dtype);
    float *y = scratch;
    if (half) { /* all of it in float, then back */
        int64_t counts[3] = {s->batch * s->channels * s->window.group * s->input_size,
                             s->channels * s->window.group * s->filters * s->kernel_size,
                             biased ? s->filters * s->window.group : 0};
        float *at = y + tasks * s->output_size;
        const void **operands[3] = {&context.x, &context.w, &context.bias};
        for (int i = 0; i < 3; i++) {
            if (!counts[i]) continue;
            rt_half_load(s->dtype, at, *operands[i], counts[i]);
            *operands[i] = at;
            at += counts[i];
        }
        context.y = y;
    }
    rt_parallel(prepared->threads, tasks, s->channels * s->kernel_size * s->input_size + s->output_size,
                run_channels, &context);
    if (half) rt_half_store(s->dtype, outputs[0].data, y, tasks * s->output_size);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_plain(call);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    transposed_state *s = BASE_NEW(arena, transposed_state);
    if (!s) return base_fail_memory(report);
    const op_shape *x = &call->inputs[0].type.shape, *w = &call->inputs[1].type.shape;
    if (!op_transposed_read(call, &s->window, report)) return BASE_INVALID;
    s->dtype = call->inputs[0].type.dtype;
    s->batch = x->dims[0];
    s->channels = x->dims[1] / s->window.group;
    s->filters = w->dims[1];
    s->input_size = s->output_size = s->kernel_size = 1;
    for (int32_t i = 0; i < s->window.rank; i++) {
        s->input_size *= s->window.input[i];
        s->output_size *= s->window.output[i];
        s->kernel_size *= s->window.kernel[i];
    }
    if (rt_is_half(s->dtype)) {
        int64_t elements = s->batch * s->filters * s->window.group * s->output_size +
                           s->batch * s->channels * s->window.group * s->input_size +
                           s->channels * s->window.group * s->filters * s->kernel_size +
                           s->filters * s->window.group;
        prepared->scratch_bytes = (size_t)elements * sizeof(float);
    }
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_conv_transpose = {
    .name = "portable.conv_transpose", .accepts = accepts, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* layer_normalization.c: LayerNormalization of float: rows less their mean, divided by the root of the mean of their squares, times a scale,
 * plus a bias.
 *
 * Every number is rounded as by the operators that it is made of, ReduceMean's sums included (reduce.c): whether they are one node
 * makes no difference to any bit. A row is read three times, and that from the first-level cache but for the first.
 */
#include "runtime/kernels/portable/kernels.h"
#include <math.h>

/* The order of ReduceMean's sums: lanes, and how many elements each takes up before all are added to the total. The elements that are left
 * when whole lines of lanes are taken belong to the last lanes; where there was no whole line, to the first. */
enum { LANES = 16, STRETCH = 32 * LANES };

typedef struct layer_state {
    int64_t rows, extent;
    float epsilon;
    bool divide;
} layer_state;

typedef struct layer_job {
    const layer_state *state;
    const float *x, *scale, *bias; /* scale, bias: NULL where there is none */
    float *y;
} layer_job;

static inline __attribute__((always_inline)) double join_lanes(const float *lanes) {
    double halves[LANES];
    for (int k = 0; k < LANES; k++) halves[k] = (double)lanes[k];
    RT_VECTOR for (int k = 0; k < LANES / 2; k++) halves[k] += halves[k + LANES / 2];
    RT_VECTOR for (int k = 0; k < LANES / 4; k++) halves[k] += halves[k + LANES / 4];
    return halves[0] + halves[1] + halves[2] + halves[3];
}

static inline __attribute__((always_inline)) float mean_of(const float *x, int64_t count) {
    double total = 0;
    for (int64_t first = 0; first < count; first += STRETCH) {
        const int64_t length = count - first < STRETCH ? count - first : STRETCH;
        const float *run = x + first;
        float lanes[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= length; i += LANES) {
            RT_VECTOR for (int k = 0; k < LANES; k++) lanes[k] += run[i + k];
        }
        float *rest = lanes + (i > 0 ? LANES - (length - i) : 0);
        for (int k = 0; i + k < length; k++) rest[k] += run[i + k];
        total += join_lanes(lanes);
    }
    return (float)(total / (double)count);
}

/* Writes the differences from `mean`, which may be over x, and returns the mean of their squares. */
static inline __attribute__((always_inline)) float centre(float *y, const float *x, int64_t count,
                                                          float mean) {
    double total = 0;
    for (int64_t first = 0; first < count; first += STRETCH) {
        const int64_t length = count - first < STRETCH ? count - first : STRETCH;
        const float *run = x + first;
        float *to = y + first, lanes[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= length; i += LANES) {
            RT_VECTOR for (int k = 0; k < LANES; k++) {
                const float difference = run[i + k] - mean;
                to[i + k] = difference;
                lanes[k] += difference * difference;
            }
        }
        float *rest = lanes + (i > 0 ? LANES - (length - i) : 0);
        for (int k = 0; i + k < length; k++) {
            const float difference = run[i + k] - mean;
            to[i + k] = difference;
            rest[k] += difference * difference;
        }
        total += join_lanes(lanes);
    }
    return (float)(total / (double)count);
}

/* y holds the differences; one loop for each form, for none of them looks at more than it has to. */
static inline __attribute__((always_inline)) void finish(float *y, int64_t count, float root, bool divide,
                                                         const float *scale, const float *bias) {
    const float factor = 1 / root;
    if (divide) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] /= root;
        if (scale) {
            RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] *= scale[i];
        }
        if (bias) {
            RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] += bias[i];
        }
    } else if (scale && bias) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = y[i] * factor * scale[i] + bias[i];
    } else if (scale) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = y[i] * factor * scale[i];
    } else if (bias) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = y[i] * factor + bias[i];
    } else {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] *= factor;
    }
}

RT_CLONES static void normalize(const layer_job *job, int64_t begin, int64_t end) {
    const layer_state *s = job->state;
    for (int64_t row = begin; row < end; row++) {
        const float *x = job->x + row * s->extent;
        float *y = job->y + row * s->extent;
        const float squares = centre(y, x, s->extent, mean_of(x, s->extent));
        finish(y, s->extent, sqrtf(squares + s->epsilon), s->divide, job->scale, job->bias);
    }
}

static void rows(void *context, int64_t begin, int64_t end) {
    normalize(context, begin, end);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const layer_state *s = prepared->state;
    layer_job job = {.state = s, .x = inputs[0].data, .y = outputs[0].data};
    if (prepared->input_count > 1 && inputs[1].type.dtype != OP_NONE) job.scale = inputs[1].data;
    if (prepared->input_count > 2 && inputs[2].type.dtype != OP_NONE) job.bias = inputs[2].data;
    if (s->extent > 0) rt_parallel(prepared->threads, s->rows, 6 * s->extent, rows, &job);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call) && call->inputs[0].type.dtype == OP_FLOAT;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    layer_state *s = BASE_NEW(arena, layer_state);
    if (!s) return base_fail_memory(report);
    const op_shape *shape = &call->inputs[0].type.shape;
    int32_t axis = 0;
    op_axis(op_attribute_integer(&call->attributes, "axis", -1), shape->rank, &axis);
    *s = (layer_state){1, 1, op_attribute_real(&call->attributes, "epsilon", 1e-5f),
                       op_attribute_integer(&call->attributes, "ouro.divide", 0) != 0};
    for (int32_t i = 0; i < shape->rank; i++) *(i < axis ? &s->rows : &s->extent) *= shape->dims[i];
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_layer_normalization = {
    .name = "portable.layer_normalization", .accepts = accepts, .prepare = prepare};

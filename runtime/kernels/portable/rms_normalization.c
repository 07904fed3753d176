/* SPDX-License-Identifier: Apache-2.0 */
/* rms_normalization.c: RMSNormalization: rows divided by the root of the mean of their squares, times a scale. 16-bit floats are computed in
 * float. Sums are taken in 64 lanes, the halves of which are added until one is left, whatever the machine: so many that no addition waits for
 * the one before. A row is divided by multiplying it with the reciprocal of the root. */
#include "runtime/kernels/portable/kernels.h"
#include <math.h>
#include <string.h>

enum {
    LANES = 64,
    HALF_ROW = 4096 /* elements of 16 bits that become floats at once; longer rows, a block at a time */
};

typedef struct rms_state {
    op_dtype dtype;
    int64_t rows, extent;
    double epsilon;
} rms_state;

typedef struct rms_job {
    const rms_state *state;
    const void *x, *scale; /* scale NULL: 1 */
    void *y;
} rms_job;

/* The sum of all lanes, which are written over. */
#define SUM_OF(lanes)                                                                                        \
    for (int half = LANES / 2; half; half /= 2) {                                                            \
        RT_VECTOR for (int k = 0; k < half; k++)(lanes)[k] += (lanes)[k + half];                             \
    }

#define RMS_ROW(name, type, root)                                                                            \
    RT_CLONES static void name(type *y, const type *x, const type *scale, int64_t count, type epsilon) {     \
        type lanes[LANES] = {0};                                                                             \
        int64_t i = 0;                                                                                       \
        for (; i + LANES <= count; i += LANES) {                                                             \
            RT_VECTOR for (int k = 0; k < LANES; k++) lanes[k] += x[i + k] * x[i + k];                       \
        }                                                                                                    \
        for (int k = 0; i + k < count; k++) lanes[k] += x[i + k] * x[i + k];                                 \
        SUM_OF(lanes)                                                                                        \
        const type factor = 1 / root(lanes[0] / (type)count + epsilon);                                      \
        if (scale) {                                                                                         \
            RT_VECTOR for (int64_t k = 0; k < count; k++) y[k] = x[k] * factor * scale[k];                   \
        } else {                                                                                             \
            RT_VECTOR for (int64_t k = 0; k < count; k++) y[k] = x[k] * factor;                              \
        }                                                                                                    \
    }
RMS_ROW(row_float, float, sqrtf)
RMS_ROW(row_double, double, sqrt)

/* A row of 16-bit floats, a block at a time: once for the sum, once for the results. */
static void row_half(const rms_state *s, uint16_t *y, const uint16_t *x, const uint16_t *scale) {
    _Alignas(RT_ALIGNMENT) float block[RT_HALF_BLOCK], factors[RT_HALF_BLOCK], lanes[LANES] = {0};
    for (int64_t i = 0; i < s->extent; i += RT_HALF_BLOCK) {
        const int64_t count = s->extent - i < RT_HALF_BLOCK ? s->extent - i : RT_HALF_BLOCK;
        rt_half_load(s->dtype, block, x + i, count);
        for (int64_t k = 0; k < count; k++) lanes[k % LANES] += block[k] * block[k];
    }
    SUM_OF(lanes)
    const float factor = 1 / sqrtf(lanes[0] / (float)s->extent + (float)s->epsilon);
    for (int64_t i = 0; i < s->extent; i += RT_HALF_BLOCK) {
        const int64_t count = s->extent - i < RT_HALF_BLOCK ? s->extent - i : RT_HALF_BLOCK;
        rt_half_load(s->dtype, block, x + i, count);
        if (scale) rt_half_load(s->dtype, factors, scale + i, count);
        for (int64_t k = 0; k < count; k++) block[k] = block[k] * factor * (scale ? factors[k] : 1);
        rt_half_store(s->dtype, y + i, block, count);
    }
}

/* Rows of 16 bits as rows of floats. */
static void rows_of_halves(const rms_job *job, int64_t begin, int64_t end) {
    const rms_state *s = job->state;
    _Alignas(RT_ALIGNMENT) float row[HALF_ROW], scale[HALF_ROW];
    if (job->scale) rt_half_load(s->dtype, scale, job->scale, s->extent);
    for (int64_t i = begin; i < end; i++) {
        rt_half_load(s->dtype, row, (const uint16_t *)job->x + i * s->extent, s->extent);
        row_float(row, row, job->scale ? scale : NULL, s->extent, (float)s->epsilon);
        rt_half_store(s->dtype, (uint16_t *)job->y + i * s->extent, row, s->extent);
    }
}

static void rows(void *context, int64_t begin, int64_t end) {
    const rms_job *job = context;
    const rms_state *s = job->state;
    if (rt_is_half(s->dtype) && s->extent <= HALF_ROW) {
        rows_of_halves(job, begin, end);
        return;
    }
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row * s->extent;
        if (s->dtype == OP_FLOAT)
            row_float((float *)job->y + at, (const float *)job->x + at, job->scale, s->extent,
                      (float)s->epsilon);
        else if (s->dtype == OP_DOUBLE)
            row_double((double *)job->y + at, (const double *)job->x + at, job->scale, s->extent, s->epsilon);
        else row_half(s, (uint16_t *)job->y + at, (const uint16_t *)job->x + at, job->scale);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const rms_state *s = prepared->state;
    const bool scaled = prepared->input_count > 1 && inputs[1].type.dtype != OP_NONE;
    rms_job job = {s, inputs[0].data, scaled ? inputs[1].data : NULL, outputs[0].data};
    if (s->extent > 0) rt_parallel(prepared->threads, s->rows, 4 * s->extent, rows, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    rms_state *s = BASE_NEW(arena, rms_state);
    if (!s) return base_fail_memory(report);
    const op_shape *shape = &call->inputs[0].type.shape;
    int32_t axis = 0;
    op_axis(op_attribute_integer(&call->attributes, "axis", -1), shape->rank, &axis);
    *s = (rms_state){call->inputs[0].type.dtype, 1, 1,
                     (double)op_attribute_real(&call->attributes, "epsilon", 1e-5f)};
    for (int32_t i = 0; i < shape->rank; i++) *(i < axis ? &s->rows : &s->extent) *= shape->dims[i];
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_rms_normalization = {
    .name = "portable.rms_normalization", .accepts = rt_accepts_any_row_major, .prepare = prepare};

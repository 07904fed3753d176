/* SPDX-License-Identifier: Apache-2.0 */
/* rotary.c: RotaryEmbedding: pairs of elements of each head turned by an angle that follows from the position. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>
#include <string.h>

enum { X, COSINES, SINES, POSITIONS };
enum { PAIRS = 64 }; /* of 16-bit numbers, as floats at once */

typedef struct rotary_state {
    op_dtype dtype;
    int64_t batches, heads, rows, size;
    int64_t batch_stride, head_stride, row_stride; /* of X, in elements */
    int64_t half;                                  /* pairs that are turned; what is after them stays */
    int64_t known;    /* positions that the caches have; they are by batch and row without any */
    bool interleaved; /* pairs lie side by side; otherwise half apart */
} rotary_state;

typedef struct rotary_job {
    const rotary_state *state;
    const op_tensor *inputs;
    void *y;
} rotary_job;

RT_CLONES static void turn_halves(const float *x, const float *cosines, const float *sines, int64_t half,
                                  float *y) {
    RT_VECTOR for (int64_t i = 0; i < half; i++) {
        const float a = x[i], b = x[half + i];
        y[i] = cosines[i] * a - sines[i] * b;
        y[half + i] = sines[i] * a + cosines[i] * b;
    }
}

RT_CLONES static void turn_pairs(const float *x, const float *cosines, const float *sines, int64_t half,
                                 float *y) {
    RT_VECTOR for (int64_t i = 0; i < half; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = cosines[i] * a - sines[i] * b;
        y[2 * i + 1] = sines[i] * a + cosines[i] * b;
    }
}

/* The same of 16-bit numbers, some pairs at a time: as floats, rounded once. */
static void turn_16_bits(const rotary_job *job, int64_t at, int64_t angle) {
    const rotary_state *s = job->state;
    const op_dtype dtype = s->dtype;
    const uint16_t *x = job->inputs[X].data, *cosines = job->inputs[COSINES].data,
                   *sines = job->inputs[SINES].data;
    uint16_t *y = job->y;
    _Alignas(RT_ALIGNMENT) float from[2 * PAIRS], to[2 * PAIRS], cosine[PAIRS], sine[PAIRS];
    for (int64_t i = 0; i < s->half; i += PAIRS) {
        const int64_t some = s->half - i < PAIRS ? s->half - i : PAIRS;
        /* Pairs are read and written as two runs, or as one of twice the length. */
        const int64_t first = at + (s->interleaved ? 2 * i : i),
                      second = first + (s->interleaved ? some : s->half);
        rt_half_load(dtype, from, x + first, some);
        rt_half_load(dtype, from + some, x + second, some);
        rt_half_load(dtype, cosine, cosines + angle + i, some);
        rt_half_load(dtype, sine, sines + angle + i, some);
        (s->interleaved ? turn_pairs : turn_halves)(from, cosine, sine, some, to);
        rt_half_store(dtype, y + first, to, some);
        rt_half_store(dtype, y + second, to + some, some);
    }
}

/* Doubles, one pair at a time. */
static void turn_doubles(const rotary_job *job, int64_t at, int64_t angle) {
    const rotary_state *s = job->state;
    const void *x = job->inputs[X].data;
    for (int64_t i = 0; i < s->half; i++) {
        const int64_t first = at + (s->interleaved ? 2 * i : i),
                      second = s->interleaved ? first + 1 : first + s->half;
        const double a = rt_element_load(s->dtype, x, first), b = rt_element_load(s->dtype, x, second);
        const double cosine = rt_element_load(s->dtype, job->inputs[COSINES].data, angle + i);
        const double sine = rt_element_load(s->dtype, job->inputs[SINES].data, angle + i);
        rt_element_store(s->dtype, job->y, first, cosine * a - sine * b);
        rt_element_store(s->dtype, job->y, second, sine * a + cosine * b);
    }
}

static void turn(void *context, int64_t begin, int64_t end) {
    const rotary_job *job = context;
    const rotary_state *s = job->state;
    const size_t element = op_dtype_bytes(s->dtype);
    for (int64_t task = begin; task < end; task++) {
        const int64_t b = task / s->heads / s->rows, h = task / s->rows % s->heads, row = task % s->rows;
        const int64_t at = b * s->batch_stride + h * s->head_stride + row * s->row_stride;
        int64_t position = b * s->rows + row;
        if (s->known) position = ((const int64_t *)job->inputs[POSITIONS].data)[position];
        const int64_t angle = position * s->half;
        if (s->dtype == OP_FLOAT) {
            const float *x = (const float *)job->inputs[X].data + at,
                        *c = (const float *)job->inputs[COSINES].data + angle;
            const float *sine = (const float *)job->inputs[SINES].data + angle;
            (s->interleaved ? turn_pairs : turn_halves)(x, c, sine, s->half, (float *)job->y + at);
        } else if (rt_is_half(s->dtype)) {
            turn_16_bits(job, at, angle);
        } else {
            turn_doubles(job, at, angle);
        }
        if (job->y == job->inputs[X].data || 2 * s->half == s->size) continue;
        memcpy((char *)job->y + (size_t)(at + 2 * s->half) * element,
               (const char *)job->inputs[X].data + (size_t)(at + 2 * s->half) * element,
               (size_t)(s->size - 2 * s->half) * element);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    const rotary_state *s = prepared->state;
    rotary_job job = {s, inputs, outputs[0].data};
    for (int64_t i = 0; s->known && i < s->batches * s->rows; i++) {
        const int64_t position = ((const int64_t *)inputs[POSITIONS].data)[i];
        if (position >= 0 && position < s->known) continue;
        return base_fail(report, BASE_INVALID,
                         "position %" PRId64 " is outside of the caches, which have %" PRId64, position,
                         s->known);
    }
    rt_parallel(prepared->threads, s->batches * s->heads * s->rows, 4 * s->size, turn, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    rotary_state *s = BASE_NEW(arena, rotary_state);
    if (!s) return base_fail_memory(report);
    const op_shape *x = &call->inputs[X].type.shape, *cache = &call->inputs[COSINES].type.shape;
    const int64_t *d = x->dims;
    s->dtype = call->inputs[X].type.dtype;
    s->batches = d[0];
    s->heads = x->rank == 4 ? d[1] : op_attribute_integer(&call->attributes, "num_heads", 1);
    s->rows = d[x->rank - 2];
    s->size = x->rank == 4 ? d[3] : d[2] / s->heads;
    s->batch_stride = x->rank == 4 ? d[1] * d[2] * d[3] : d[1] * d[2];
    s->head_stride = x->rank == 4 ? d[2] * d[3] : s->size;
    s->row_stride = d[x->rank - 1];
    s->half = cache->dims[cache->rank - 1];
    s->known = op_input_present(call, POSITIONS) ? cache->dims[0] : 0;
    s->interleaved = op_attribute_integer(&call->attributes, "interleaved", 0) != 0;
    if (op_input_present(call, POSITIONS) && s->known == 0 && s->batches * s->rows > 0)
        return base_fail(report, BASE_INVALID, "the caches are empty");
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_rotary_embedding = {
    .name = "portable.rotary_embedding", .accepts = rt_accepts_any_row_major, .prepare = prepare};

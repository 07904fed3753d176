/* SPDX-License-Identifier: Apache-2.0 */
/* bits.c: operators that look at bits: BitShift, IsNaN, IsInf; and Det. */
#include "ir/operators/small.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/product.h"
#include <math.h>
#include <string.h>

/* ---- BitShift ------------------------------------------------------------------------------------------ */

typedef struct shift_state {
    rt_loop loop;
    op_dtype dtype;
    bool left;
} shift_state;

typedef struct shift_context {
    const shift_state *state;
    void *to;
    const void *x, *y;
} shift_context;

/* By as many bits as there are, or more, nothing is left. Strides are 0 or 1: each of them has a loop of its own, without any in it. */
#define SHIFT_LOOP(type, width, from_at, by_at)                                                              \
    RT_VECTOR for (int64_t i = 0; i < length; i++) {                                                         \
        const type from = x[from_at], by = y[by_at], bits = by & (width - 1);                                \
        const type moved = left ? (type)(from << bits) : (type)(from >> bits);                               \
        to[i] = by == bits ? moved : 0;                                                                      \
    }
#define SHIFT(type, width)                                                                                   \
    RT_CLONES static void shift_##type(type *to, const type *x, const type *y, int64_t length, int64_t sx,   \
                                       int64_t sy, bool left) {                                              \
        if (sx && sy) {                                                                                      \
            SHIFT_LOOP(type, width, i, i)                                                                    \
        } else if (sx) {                                                                                     \
            SHIFT_LOOP(type, width, i, 0)                                                                    \
        } else if (sy) {                                                                                     \
            SHIFT_LOOP(type, width, 0, i)                                                                    \
        } else {                                                                                             \
            SHIFT_LOOP(type, width, 0, 0)                                                                    \
        }                                                                                                    \
    }
SHIFT(uint8_t, 8)
SHIFT(uint16_t, 16)
SHIFT(uint32_t, 32)
SHIFT(uint64_t, 64)

#define SHIFT_ROW(type)                                                                                      \
    shift_##type((type *)context->to + offsets[0], (const type *)context->x + offsets[1],                    \
                 (const type *)context->y + offsets[2], length, sx, sy, state->left);                        \
    break

static void shift_row(void *user, const int64_t offsets[RT_LOOP_OPERANDS], int64_t length) {
    const shift_context *context = user;
    const shift_state *state = context->state;
    const int64_t sx = state->loop.strides[1][state->loop.rank - 1],
                  sy = state->loop.strides[2][state->loop.rank - 1];
    switch (state->dtype) {
    case OP_UINT8:
        SHIFT_ROW(uint8_t);
    case OP_UINT16:
        SHIFT_ROW(uint16_t);
    case OP_UINT32:
        SHIFT_ROW(uint32_t);
    default:
        SHIFT_ROW(uint64_t);
    }
}

static base_status run_shift(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const shift_state *state = prepared->state;
    shift_context context = {state, outputs[0].data, inputs[0].data, inputs[1].data};
    rt_loop_run(&state->loop, prepared->threads, 1, shift_row, &context);
    return BASE_OK;
}

static base_status prepare_shift(const op_call *call, const rt_environment *environment, base_arena *arena,
                                 rt_prepared *prepared, base_report *report) {
    (void)environment;
    shift_state *state = BASE_NEW(arena, shift_state);
    if (!state) return base_fail_memory(report);
    if (!op_attribute_is(&call->attributes, "direction", "LEFT", "") &&
        !op_attribute_is(&call->attributes, "direction", "RIGHT", ""))
        return base_fail(report, BASE_INVALID, "attribute \"direction\" is neither LEFT nor RIGHT");
    state->left = op_attribute_is(&call->attributes, "direction", "LEFT", "");
    state->dtype = call->inputs[0].type.dtype;
    const op_shape *shapes[] = {&call->inputs[0].type.shape, &call->inputs[1].type.shape};
    rt_loop_broadcast(&state->loop, &call->outputs[0].type.shape, shapes, 2);
    prepared->state = state;
    prepared->run = run_shift;
    return BASE_OK;
}

/* ---- IsNaN, IsInf -------------------------------------------------------------------------------------- */

enum { IS_NONE = 1, IS_ABOVE = 2, IS_BELOW = 4 }; /* NaN, infinity, minus infinity */

/* Bits of reals, without their sign: more than `infinity` are NaNs. */
#define FIND(type, width)                                                                                    \
    RT_CLONES static void find_##type(const type *x, uint8_t *to, int64_t begin, int64_t end, type infinity, \
                                      bool none, bool above, bool below) {                                   \
        RT_VECTOR for (int64_t i = begin; i < end; i++) {                                                    \
            const type size = (type)(x[i] & (type) ~((type)1 << (width - 1)));                               \
            const bool minus = x[i] != size;                                                                 \
            to[i] =                                                                                          \
                (none & (size > infinity)) | ((size == infinity) & ((minus & below) | (!minus & above)));    \
        }                                                                                                    \
    }
FIND(uint16_t, 16)
FIND(uint32_t, 32)
FIND(uint64_t, 64)

#if RT_X86_KERNELS
#define HAS_FIND_512 (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
#define WIDE __attribute__((target("avx512f,avx512bw")))

/* What find_uint32_t looks for among 16 floats. */
WIDE static inline __attribute__((always_inline)) __mmask16 find_16(__m512i x, bool none, bool above,
                                                                    bool below) {
    const __m512i infinity = _mm512_set1_epi32(0x7f800000);
    __mmask16 found = 0;
    if (none) {
        const __m512i size = _mm512_and_si512(x, _mm512_set1_epi32(INT32_MAX));
        found = _mm512_cmpgt_epi32_mask(size, infinity);
    }
    if (above) found = (__mmask16)(found | _mm512_cmpeq_epi32_mask(x, infinity));
    if (below) found = (__mmask16)(found | _mm512_cmpeq_epi32_mask(x, _mm512_set1_epi32((int)0xff800000u)));
    return found;
}

/* find_uint32_t of floats, 64 at a time: a compiler narrows 16 words in many steps. */
WIDE static void find_floats_512(const float *x, uint8_t *to, int64_t count, bool none, bool above,
                                 bool below) {
    for (int64_t i = 0; i < count; i += 64) {
        uint64_t found = 0;
        for (int k = 0; k < 4; k++) {
            const __mmask16 there = rt_first_lanes_16(count - i - 16 * k);
            const __m512i words =
                _mm512_castps_si512(_mm512_maskz_loadu_ps(there, rt_address(x, i + 16 * k)));
            found |= (uint64_t)find_16(words, none, above, below) << 16 * k;
        }
        const __m512i bytes = _mm512_maskz_set1_epi8(found, 1);
        if (i + 64 <= count) _mm512_storeu_si512(to + i, bytes);
        else _mm512_mask_storeu_epi8(to + i, ((uint64_t)1 << (count - i)) - 1, bytes);
    }
}
#else
#define HAS_FIND_512 false
static void find_floats_512(const float *x, uint8_t *to, int64_t count, bool none, bool above, bool below) {
    (void)x, (void)to, (void)count, (void)none, (void)above, (void)below;
}
#endif

typedef struct special_job {
    const op_tensor *x;
    uint8_t *to;
    int which; /* bits: IS_NONE and so on */
} special_job;

static void find_special(void *context, int64_t begin, int64_t end) {
    enum { FEW = 16 }; /* numbers, by themselves, are looked at one by one */
    const special_job *job = context;
    const op_dtype dtype = job->x->type.dtype;
    const bool none = job->which & IS_NONE, above = job->which & IS_ABOVE, below = job->which & IS_BELOW;
    if (dtype == OP_FLOAT && end - begin >= FEW && HAS_FIND_512) {
        find_floats_512((const float *)job->x->data + begin, job->to + begin, end - begin, none, above,
                        below);
    } else if (dtype == OP_FLOAT) {
        find_uint32_t(job->x->data, job->to, begin, end, 0x7f800000u, none, above, below);
    } else if (dtype == OP_DOUBLE) {
        find_uint64_t(job->x->data, job->to, begin, end, (uint64_t)0x7ff << 52, none, above, below);
    } else if (rt_is_half(dtype)) {
        find_uint16_t(job->x->data, job->to, begin, end, dtype == OP_FLOAT16 ? 0x7c00 : 0x7f80, none, above,
                      below);
    } else {
        for (int64_t i = begin; i < end; i++) {
            const float x = op_small_value(dtype, ((const uint8_t *)job->x->data)[i]);
            job->to[i] = (none && isnan(x)) || (isinf(x) && (x > 0 ? above : below));
        }
    }
}

static base_status run_special(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                               void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    special_job job = {.x = &inputs[0], .to = outputs[0].data, .which = *(const int *)prepared->state};
    int64_t count = 0;
    op_shape_elements(&inputs[0].type.shape, &count);
    rt_parallel(prepared->threads, count, 1, find_special, &job);
    return BASE_OK;
}

static base_status prepare_special(const op_call *call, const rt_environment *environment, base_arena *arena,
                                   rt_prepared *prepared, base_report *report) {
    (void)environment;
    int *which = BASE_NEW(arena, int);
    if (!which) return base_fail_memory(report);
    if (call->code == OP_IS_NAN) *which = IS_NONE;
    else
        *which = (op_attribute_integer(&call->attributes, "detect_positive", 1) ? IS_ABOVE : 0) |
                 (op_attribute_integer(&call->attributes, "detect_negative", 1) ? IS_BELOW : 0);
    prepared->state = which;
    prepared->run = run_special;
    return BASE_OK;
}

/* ---- Det ----------------------------------------------------------------------------------------------- */

/* Gaussian elimination with partial pivoting, in double. */
RT_CLONES static double determinant(double *m, int64_t n) {
    double product = 1;
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;
        for (int64_t r = c + 1; r < n; r++)
            if (fabs(m[r * n + c]) > fabs(m[pivot * n + c])) pivot = r;
        if (m[pivot * n + c] == 0) return 0;
        for (int64_t k = 0; k < n && pivot != c; k++) {
            double kept = m[c * n + k];
            m[c * n + k] = m[pivot * n + k];
            m[pivot * n + k] = kept;
        }
        product *= pivot == c ? m[c * n + c] : -m[c * n + c];
        for (int64_t r = c + 1; r < n; r++) {
            double by = m[r * n + c] / m[c * n + c];
            double *row = m + r * n;
            const double *from = m + c * n;
            RT_VECTOR for (int64_t k = c; k < n; k++) row[k] -= by * from[k];
        }
    }
    return product;
}

static base_status run_det(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    (void)prepared;
    (void)report;
    const op_shape *shape = &inputs[0].type.shape;
    const op_dtype dtype = inputs[0].type.dtype;
    int64_t n = shape->dims[shape->rank - 1], count = 0;
    op_shape_elements(&outputs[0].type.shape, &count);
    for (int64_t i = 0; i < count; i++) {
        double *m = scratch;
        rt_elements_load(dtype, m, inputs[0].data, i * n * n, n * n);
        rt_element_store(dtype, outputs[0].data, i, determinant(m, n));
    }
    return BASE_OK;
}

static base_status prepare_det(const op_call *call, const rt_environment *environment, base_arena *arena,
                               rt_prepared *prepared, base_report *report) {
    (void)environment;
    (void)arena;
    const op_shape *shape = &call->inputs[0].type.shape;
    size_t n = (size_t)shape->dims[shape->rank - 1], square;
    if (!base_size_multiply(n, n, &square) ||
        !base_size_multiply(square, sizeof(double), &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "a matrix of %zu rows is too large", n);
    prepared->run = run_det;
    return BASE_OK;
}

const rt_kernel rt_kernel_bit_shift = {
    .name = "portable.bit_shift", .accepts = rt_accepts_any_row_major, .prepare = prepare_shift};
const rt_kernel rt_kernel_is_special = {
    .name = "portable.is_special", .accepts = rt_accepts_any_row_major, .prepare = prepare_special};
const rt_kernel rt_kernel_det = {
    .name = "portable.det", .accepts = rt_accepts_any_row_major, .prepare = prepare_det};

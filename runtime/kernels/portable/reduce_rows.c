/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_rows.c: see reduce_rows.h. A row becomes four numbers in registers; those of several rows are turned, so that the last steps
 * are taken for all of these rows at once. Short rows would spend most of their time there.
 */
#include "runtime/kernels/portable/reduce_rows.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>
#include <stdbool.h>

#if RT_X86_KERNELS
#define WIDE __attribute__((target("avx512f")))
enum { LANES = 16, PARTS = 4, SUMS = 8, EXTREMES = 16, CHAINS = 4 };

/* What is left of a row after whole vectors: the last LANES elements without those that were taken already, or all of a shorter row. */
typedef struct rest {
    int64_t at;
    __mmask16 lanes;
} rest;

static rest rest_of(int64_t length) {
    const int64_t left = length % LANES;
    if (length < LANES) return (rest){0, rt_first_lanes_16(left)};
    return (rest){length - LANES, (__mmask16)(0xffffu << (LANES - left))};
}

/* ---- sums and products ----------------------------------------------------------------------------------- */

#define ELEMENTS(x) (x)
#define ABSOLUTES(x) _mm512_abs_ps(x)
#define SQUARES(x) _mm512_mul_ps(x, x)

#define SUM_ROW(name, OF)                                                                                    \
    WIDE static inline __m256d name##_row(const float *row, int64_t length, rest left) {                     \
        __m512 lanes = _mm512_setzero_ps(), x;                                                               \
        for (int64_t i = 0; i + LANES <= length; i += LANES) {                                               \
            x = _mm512_loadu_ps(row + i);                                                                    \
            lanes = _mm512_add_ps(lanes, OF(x));                                                             \
        }                                                                                                    \
        x = _mm512_maskz_loadu_ps(left.lanes, row + left.at);                                                \
        lanes = _mm512_add_ps(lanes, OF(x));                                                                 \
        const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(lanes), 1));            \
        const __m512d halves =                                                                               \
            _mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(lanes)), _mm512_cvtps_pd(high));            \
        return _mm256_add_pd(_mm512_castpd512_pd256(halves), _mm512_extractf64x4_pd(halves, 1));             \
    }
SUM_ROW(sum, ELEMENTS)
SUM_ROW(absolute_sum, ABSOLUTES)
SUM_ROW(square_sum, SQUARES)

/* Products of doubles. */
WIDE static inline __m256d product_row(const float *row, int64_t length, rest left) {
    const __m512 ones = _mm512_set1_ps(1);
    __m512d low = _mm512_set1_pd(1), high = low;
    for (int64_t i = 0; i <= length; i += LANES) {
        const bool whole = i + LANES <= length;
        const __m512 x =
            whole ? _mm512_loadu_ps(row + i) : _mm512_mask_loadu_ps(ones, left.lanes, row + left.at);
        const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
        low = _mm512_mul_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
        high = _mm512_mul_pd(high, _mm512_cvtps_pd(upper));
    }
    const __m512d halves = _mm512_mul_pd(low, high);
    return _mm256_mul_pd(_mm512_castpd512_pd256(halves), _mm512_extractf64x4_pd(halves, 1));
}

/* Of each row four numbers, which are turned and combined one after another; the results are divided by `divisor`. */
#define FOLD(name, COMBINE)                                                                                  \
    WIDE static void name##_rows(const float *from, int64_t length, double divisor, float *to,               \
                                 int64_t count) {                                                            \
        const rest left = rest_of(length);                                                                   \
        const __m512i first = _mm512_set_epi64(13, 9, 5, 1, 12, 8, 4, 0),                                    \
                      second = _mm512_set_epi64(15, 11, 7, 3, 14, 10, 6, 2);                                 \
        _Alignas(64) double parts[SUMS * PARTS] = {0};                                                       \
        for (int64_t i = 0; i < count; i += SUMS) {                                                          \
            const int rows = count - i < SUMS ? (int)(count - i) : SUMS;                                     \
            for (int r = 0; r < rows; r++)                                                                   \
                _mm256_store_pd(parts + r * PARTS, name##_row(from + (i + r) * length, length, left));       \
            const __m512d a = _mm512_load_pd(parts), b = _mm512_load_pd(parts + 8),                          \
                          c = _mm512_load_pd(parts + 16), d = _mm512_load_pd(parts + 24);                    \
            const __m512d low = _mm512_permutex2var_pd(a, first, b),                                         \
                          next = _mm512_permutex2var_pd(c, first, d),                                        \
                          high = _mm512_permutex2var_pd(a, second, b),                                       \
                          last = _mm512_permutex2var_pd(c, second, d);                                       \
            __m512d all =                                                                                    \
                COMBINE(_mm512_shuffle_f64x2(low, next, 0x44), _mm512_shuffle_f64x2(low, next, 0xee));       \
            all = COMBINE(all, _mm512_shuffle_f64x2(high, last, 0x44));                                      \
            all = COMBINE(all, _mm512_shuffle_f64x2(high, last, 0xee));                                      \
            if (divisor != 1) all = _mm512_div_pd(all, _mm512_set1_pd(divisor));                             \
            _mm512_mask_storeu_ps(to + i, rt_first_lanes_16(rows),                                           \
                                  _mm512_castps256_ps512(_mm512_cvtpd_ps(all)));                             \
        }                                                                                                    \
    }
FOLD(sum, _mm512_add_pd)
FOLD(absolute_sum, _mm512_add_pd)
FOLD(square_sum, _mm512_add_pd)

/* Sums of rows of no more than PARTS numbers: column by column. */
WIDE static void narrow_rows(rt_reduced of, const float *from, int64_t length, double divisor, float *to,
                             int64_t count) {
    const __m512i rows =
        _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                           _mm512_set1_epi32((int)length));
    for (int64_t i = 0; i < count; i += LANES) {
        const __mmask16 there = rt_first_lanes_16(count - i);
        __m512d low = _mm512_setzero_pd(), high = low;
        for (int64_t k = 0; k < length; k++) {
            __m512 x = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), there, rows, from + i * length + k,
                                                sizeof *from);
            if (of == RT_ABSOLUTES) x = ABSOLUTES(x);
            if (of == RT_SQUARES) x = SQUARES(x);
            const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
            low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
            high = _mm512_add_pd(high, _mm512_cvtps_pd(upper));
        }
        if (divisor != 1) {
            low = _mm512_div_pd(low, _mm512_set1_pd(divisor));
            high = _mm512_div_pd(high, _mm512_set1_pd(divisor));
        }
        const __m512 both = _mm512_castpd_ps(
            _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(_mm512_cvtpd_ps(low))),
                               _mm256_castps_pd(_mm512_cvtpd_ps(high)), 1));
        _mm512_mask_storeu_ps(to + i, there, both);
    }
}
FOLD(product, _mm512_mul_pd)

/* ---- extrema ------------------------------------------------------------------------------------------- */

/* For rows in which there is a NaN: the last one. */
static float last_none(const float *row, int64_t length) {
    while (--length > 0 && row[length] == row[length]) {
    }
    return row[length];
}

/* Four numbers of a row, of which one is the extreme one. NaNs are only noticed on the way. Where one of two is a NaN, the instructions
 * give the second. */
#define EXTREMA(name, NEUTRAL, BETTER, BETTER_256, BETTER_128)                                               \
    WIDE static inline void name##_add(const float *row, int64_t length, rest left, __m512 *best,            \
                                       __mmask16 *nones) {                                                   \
        __m512 x;                                                                                            \
        __mmask16 seen = *nones;                                                                             \
        int64_t i = 0;                                                                                       \
        for (; i + CHAINS * LANES <= length; i += CHAINS * LANES) {                                          \
            _Pragma("GCC unroll 4") for (int k = 0; k < CHAINS; k++) {                                       \
                x = _mm512_loadu_ps(row + i + k * LANES);                                                    \
                seen = (__mmask16)(seen | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q));                           \
                best[k] = BETTER(x, best[k]);                                                                \
            }                                                                                                \
        }                                                                                                    \
        for (; i + LANES <= length; i += LANES) {                                                            \
            x = _mm512_loadu_ps(row + i);                                                                    \
            seen = (__mmask16)(seen | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q));                               \
            best[1] = BETTER(x, best[1]);                                                                    \
        }                                                                                                    \
        x = _mm512_mask_loadu_ps(best[2], left.lanes, row + left.at);                                        \
        seen = (__mmask16)(seen | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q));                                   \
        best[2] = BETTER(x, best[2]);                                                                        \
        *nones = seen;                                                                                       \
    }                                                                                                        \
    WIDE static inline __m128 name##_of(const __m512 *best) {                                                \
        const __m512 x = BETTER(best[2], BETTER(BETTER(best[0], best[1]), best[3]));                         \
        const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));                \
        const __m256 half = BETTER_256(_mm512_castps512_ps256(x), high);                                     \
        return BETTER_128(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));                     \
    }                                                                                                        \
    WIDE static inline __m128 name##_row(const float *row, int64_t length, rest left, __mmask16 *nones) {    \
        __m512 best[CHAINS];                                                                                 \
        for (int k = 0; k < CHAINS; k++) best[k] = _mm512_set1_ps(NEUTRAL);                                  \
        *nones = 0;                                                                                          \
        name##_add(row, length, left, best, nones);                                                          \
        return name##_of(best);                                                                              \
    }                                                                                                        \
    WIDE static float name##_runs(const float *from, int64_t length, int64_t step, int64_t count) {          \
        const rest left = rest_of(length);                                                                   \
        __m512 best[CHAINS];                                                                                 \
        __mmask16 nones = 0;                                                                                 \
        for (int k = 0; k < CHAINS; k++) best[k] = _mm512_set1_ps(NEUTRAL);                                  \
        for (int64_t r = 0; r < count; r++) name##_add(from + r * step, length, left, best, &nones);         \
        for (int64_t r = count; r > 0 && nones; r--) {                                                       \
            const float last = last_none(from + (r - 1) * step, length);                                     \
            if (last != last) return last;                                                                   \
        }                                                                                                    \
        const __m128 parts = name##_of(best), pairs = BETTER_128(parts, _mm_movehl_ps(parts, parts));        \
        return _mm_cvtss_f32(BETTER_128(pairs, _mm_movehdup_ps(pairs)));                                     \
    }                                                                                                        \
    WIDE static void name##_rows(const float *from, int64_t length, float *to, int64_t count) {              \
        const rest left = rest_of(length);                                                                   \
        const __m512i first = _mm512_set_epi32(29, 25, 21, 17, 13, 9, 5, 1, 28, 24, 20, 16, 12, 8, 4, 0),    \
                      second = _mm512_add_epi32(first, _mm512_set1_epi32(2));                                \
        _Alignas(64) float parts[EXTREMES * PARTS] = {0};                                                    \
        for (int64_t i = 0; i < count; i += EXTREMES) {                                                      \
            const int rows = count - i < EXTREMES ? (int)(count - i) : EXTREMES;                             \
            unsigned nones = 0;                                                                              \
            for (int r = 0; r < rows; r++) {                                                                 \
                __mmask16 some;                                                                              \
                _mm_store_ps(parts + r * PARTS, name##_row(from + (i + r) * length, length, left, &some));   \
                nones |= (unsigned)(some != 0) << r;                                                         \
            }                                                                                                \
            const __m512 a = _mm512_load_ps(parts), b = _mm512_load_ps(parts + 16),                          \
                         c = _mm512_load_ps(parts + 32), d = _mm512_load_ps(parts + 48);                     \
            const __m512 low = BETTER(_mm512_permutex2var_ps(a, first, b),                                   \
                                      _mm512_permutex2var_ps(a, second, b)),                                 \
                         high = BETTER(_mm512_permutex2var_ps(c, first, d),                                  \
                                       _mm512_permutex2var_ps(c, second, d));                                \
            const __m512d x = _mm512_castps_pd(low), y = _mm512_castps_pd(high);                             \
            const __m512 one = _mm512_castpd_ps(_mm512_shuffle_f64x2(x, y, 0x44)),                           \
                         other = _mm512_castpd_ps(_mm512_shuffle_f64x2(x, y, 0xee));                         \
            _mm512_mask_storeu_ps(to + i, rt_first_lanes_16(rows), BETTER(one, other));                      \
            for (int r = 0; nones >> r; r++)                                                                 \
                if (nones >> r & 1) to[i + r] = last_none(from + (i + r) * length, length);                  \
        }                                                                                                    \
    }
EXTREMA(maximum, -INFINITY, _mm512_max_ps, _mm256_max_ps, _mm_max_ps)
EXTREMA(minimum, INFINITY, _mm512_min_ps, _mm256_min_ps, _mm_min_ps)

bool rt_reduces_rows(op_code code, int64_t length) {
    if (length < 1 || !__builtin_cpu_supports("avx512f")) return false;
    if (code == OP_REDUCE_SUM || code == OP_REDUCE_MEAN || code == OP_REDUCE_PROD)
        return length <= RT_SUM_ROW;
    return code == OP_REDUCE_MAX || code == OP_REDUCE_MIN;
}

void rt_reduce_rows(op_code code, rt_reduced of, const float *from, int64_t length, float *to,
                    int64_t count) {
    const double divisor = code == OP_REDUCE_MEAN ? (double)length : 1;
    if (code == OP_REDUCE_MAX) maximum_rows(from, length, to, count);
    else if (code == OP_REDUCE_MIN) minimum_rows(from, length, to, count);
    else if (code == OP_REDUCE_PROD) product_rows(from, length, 1, to, count);
    else if (length <= PARTS) narrow_rows(of, from, length, divisor, to, count);
    else if (of == RT_ABSOLUTES) absolute_sum_rows(from, length, divisor, to, count);
    else if (of == RT_SQUARES) square_sum_rows(from, length, divisor, to, count);
    else sum_rows(from, length, divisor, to, count);
}

float rt_reduce_runs(op_code code, const float *from, int64_t length, int64_t step, int64_t count) {
    return (code == OP_REDUCE_MAX ? maximum_runs : minimum_runs)(from, length, step, count);
}

#else

bool rt_reduces_rows(op_code code, int64_t length) {
    (void)code;
    (void)length;
    return false;
}

void rt_reduce_rows(op_code code, rt_reduced of, const float *from, int64_t length, float *to,
                    int64_t count) {
    (void)code;
    (void)of;
    (void)from;
    (void)length;
    (void)to;
    (void)count;
}

float rt_reduce_runs(op_code code, const float *from, int64_t length, int64_t step, int64_t count) {
    (void)code, (void)length, (void)step, (void)count;
    return *from;
}

#endif

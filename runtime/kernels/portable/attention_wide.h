/* SPDX-License-Identifier: Apache-2.0 */
/* attention_wide.h: what attention does beside its products, with AVX-512; attention.c includes it once, before the steps in float.
 *
 * Of short sequences and small heads the softmax takes as long as the products, so it goes over the scores twice and no more: a mask is added
 * and the largest score is found, then scores become weights and are summed. Each query leaves a vector of sixteen largest scores, or sums, and
 * those of sixteen queries become one vector of numbers together.
 */
#ifndef OURO_ATTENTION_WIDE_H
#define OURO_ATTENTION_WIDE_H

#include "runtime/kernels/base/x86.h"

/* Scores of some queries with a block of keys, which become weights. */
typedef struct wide_scores {
    float *s;                 /* rows lie `row` apart: whole vectors, which may be written */
    int64_t row, rows, count; /* up to MOST_PART rows of `count` scores */
    const int64_t *
        seen; /* how many of the scores each query sees, the first ones; the others have no weight. NULL: all */
    const float *const *masks; /* what is added to the scores of each query; NULL: nothing */
    float *largest, *sum;      /* so far, of each query */
    float *o;                  /* sums of weighted values so far, `o_row` apart; NULL: there are none yet */
    int64_t o_row;
} wide_scores;

#if RT_X86_KERNELS
#define HAS_WIDE __builtin_cpu_supports("avx512f")
#define WIDE __attribute__((target("avx512f")))

/* exp(score - base) of 16 numbers, which are up to 0; what would be subnormal is 0. The polynomial is within 1e-7 of 2^r, relative to it. */
WIDE static inline __m512 exp_falling_16(__m512 score, __m512 base) {
    const __m512 x = _mm512_mul_ps(_mm512_sub_ps(score, base), _mm512_set1_ps(1.44269504f));
    const __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                 r = _mm512_sub_ps(x, n);
    __m512 p = _mm512_set1_ps(1.32647272e-3f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(9.67151281e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.55073374e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.40222421e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.93146978e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    const __mmask16 seen = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-125.5f), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(seen, p, n);
}

/* The masks are added; the largest score of each query, or the one before, in some lane of a vector. A score that is no number is passed by. */
WIDE static void wide_tops(const wide_scores *w, float tops[][LANES]) {
    for (int64_t r = 0; r < w->rows; r++) {
        float *own = w->s + r * w->row;
        const float *mask = w->masks ? w->masks[r] : NULL;
        const int64_t count = w->seen ? w->seen[r] : w->count;
        __m512 top = _mm512_set1_ps(w->largest[r]);
        int64_t i = 0;
        for (; i + LANES <= count; i += LANES) {
            __m512 score = _mm512_loadu_ps(own + i);
            if (mask) {
                score = _mm512_add_ps(score, _mm512_loadu_ps(mask + i));
                _mm512_storeu_ps(own + i, score);
            }
            top = _mm512_max_ps(score, top);
        }
        if (i < count) {
            const __mmask16 some = rt_first_lanes_16(count - i);
            __m512 score = _mm512_maskz_loadu_ps(some, own + i);
            if (mask) {
                score = _mm512_add_ps(score, _mm512_maskz_loadu_ps(some, mask + i));
                _mm512_mask_storeu_ps(own + i, some, score);
            }
            top = _mm512_mask_max_ps(top, some, score, top);
        }
        _mm512_store_ps(tops[r], top);
    }
}

/* Scores become weights, relative to the bases; their sums are those of the lanes. */
WIDE static void wide_weights(const wide_scores *w, const float *bases, float sums[][LANES]) {
    for (int64_t r = 0; r < w->rows; r++) {
        float *own = w->s + r * w->row;
        const int64_t count = w->seen ? w->seen[r] : w->count;
        const __m512 base = _mm512_set1_ps(bases[r]);
        __m512 even = _mm512_setzero_ps(), odd = even;
        int64_t i = 0;
        for (; i + 2 * LANES <= count; i += 2 * LANES) {
            const __m512 a = exp_falling_16(_mm512_loadu_ps(own + i), base),
                         b = exp_falling_16(_mm512_loadu_ps(own + i + LANES), base);
            _mm512_storeu_ps(own + i, a);
            _mm512_storeu_ps(own + i + LANES, b);
            even = _mm512_add_ps(even, a);
            odd = _mm512_add_ps(odd, b);
        }
        for (; i < count; i += LANES) {
            const __mmask16 some = rt_first_lanes_16(count - i);
            const __m512 a =
                _mm512_maskz_mov_ps(some, exp_falling_16(_mm512_maskz_loadu_ps(some, own + i), base));
            _mm512_storeu_ps(own + i, a);
            even = _mm512_add_ps(even, a);
        }
        for (; i < w->count; i += LANES) _mm512_storeu_ps(own + i, _mm512_setzero_ps());
        _mm512_store_ps(sums[r], _mm512_add_ps(even, odd));
    }
}

/* What absorb does, of scores of some queries: step by step for all of them, without branches. What one query waits for is filled with work on the next
 * ones. Exponents are those of 2; the largest score has a weight of exactly 1. */
WIDE static void absorb_wide(const wide_scores *w) {
    _Alignas(64) float lanes[MOST_PART][LANES];
    float bases[MOST_PART] = {0}, downs[MOST_PART];
    const int64_t rows = w->rows;
    wide_tops(w, lanes);
    for (int64_t r = rows; r % LANES; r++) _mm512_store_ps(lanes[r], _mm512_setzero_ps());
    for (int64_t r = 0; r < rows; r += LANES) {
        const __mmask16 some = rt_first_lanes_16(rows - r);
        const __m512 top = rt_largest_of_16(&lanes[r]), before = _mm512_maskz_loadu_ps(some, w->largest + r);
        /* Nothing was seen yet: the base is 0. */
        const __m512 base =
            _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(top, _mm512_set1_ps(-INFINITY), _CMP_NEQ_UQ), top);
        const __m512 down = _mm512_mask_mov_ps(
            _mm512_set1_ps(1.0f), _mm512_cmp_ps_mask(before, top, _CMP_NEQ_UQ), exp_falling_16(before, base));
        _mm512_storeu_ps(bases + r, base);
        _mm512_storeu_ps(downs + r, down);
        _mm512_mask_storeu_ps(w->largest + r, some, top);
    }
    for (int64_t r = 0; r < rows && w->o; r++) {
        float *to = w->o + r * w->o_row;
        const __m512 down = _mm512_set1_ps(downs[r]);
        int64_t j = 0;
        for (; j + LANES <= w->o_row; j += LANES)
            _mm512_storeu_ps(to + j, _mm512_mul_ps(_mm512_loadu_ps(to + j), down));
        for (; j < w->o_row; j++) to[j] *= downs[r];
    }
    wide_weights(w, bases, lanes);
    for (int64_t r = 0; r < rows; r += LANES) {
        const __mmask16 some = rt_first_lanes_16(rows - r);
        const __m512 before = _mm512_maskz_loadu_ps(some, w->sum + r);
        _mm512_mask_storeu_ps(w->sum + r, some,
                              _mm512_fmadd_ps(before, _mm512_loadu_ps(downs + r), rt_sums_of_16(&lanes[r])));
    }
}

/* Rows of `length` elements, `row` apart, times `scale`, one after another. */
WIDE static void take_rows_wide(const float *from, int64_t row, int64_t rows, int64_t length, float scale,
                                float *to) {
    const __m512 factor = _mm512_set1_ps(scale);
    if (row == length) {
        length *= rows;
        rows = 1;
    }
    for (int64_t r = 0; r < rows; r++) {
        const float *own = from + r * row;
        float *made = to + r * length;
        int64_t i = 0;
        for (; i + LANES <= length; i += LANES)
            _mm512_storeu_ps(made + i, _mm512_mul_ps(_mm512_loadu_ps(own + i), factor));
        const __mmask16 some = rt_first_lanes_16(length - i);
        _mm512_mask_storeu_ps(made + i, some, _mm512_mul_ps(_mm512_maskz_loadu_ps(some, own + i), factor));
    }
}

/* Rows of `length` elements, `o_row` apart, each divided by its number, `row` apart. As a division rounds them: by the inverse, and what was lost then. */
WIDE static void give_rows_wide(const float *o, int64_t o_row, const float *sum, int64_t rows, int64_t length,
                                float *to, int64_t row) {
    for (int64_t r = 0; r < rows; r++) {
        const __m512 by = _mm512_set1_ps(sum[r]), inverse = _mm512_set1_ps(1 / sum[r]);
        for (int64_t i = 0; i < length; i += LANES) {
            const __mmask16 some = rt_first_lanes_16(length - i);
            const __m512 value = _mm512_maskz_loadu_ps(some, o + r * o_row + i),
                         near = _mm512_mul_ps(value, inverse), rest = _mm512_fnmadd_ps(near, by, value);
            /* Infinite values have no rest. */
            const __mmask16 finite = _mm512_cmp_ps_mask(rest, rest, _CMP_ORD_Q);
            _mm512_mask_storeu_ps(to + r * row + i, some, _mm512_mask3_fmadd_ps(rest, inverse, near, finite));
        }
    }
}
/* pack_values. */
WIDE static void pack_values_wide(const float *v, int64_t step, int64_t count, int64_t width, float *panels) {
    for (int64_t k = 0; k < count; k++) {
        const float *from = v + k * step;
        if (k + AHEAD < count) rt_prefetch(from + AHEAD * step, (size_t)width * sizeof *v);
        for (int64_t first = 0; first < width; first += RT_PANEL)
            _mm512_storeu_ps(panels + first * count + k * RT_PANEL,
                             _mm512_maskz_loadu_ps(rt_first_lanes_16(width - first), from + first));
    }
}
#undef WIDE
#else
#define HAS_WIDE false
static inline void absorb_wide(const wide_scores *w) {
    (void)w;
}
#define take_rows_wide(from, row, rows, length, scale, to) (void)0
#define give_rows_wide(o, o_row, sum, rows, length, to, row) (void)0
#define pack_values_wide(v, step, count, width, panels) (void)0
#endif

#endif

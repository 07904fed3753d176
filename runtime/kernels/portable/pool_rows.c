/* SPDX-License-Identifier: Apache-2.0 */
/* pool_rows.c: see pool_rows.h. A line holds its padding on both sides, so that no vector asks where it ends; the last vector of what
 * is read or written elsewhere begins where it ends with the row.
 */
#include "runtime/kernels/portable/pool_rows.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>
#include <string.h>

enum { SLACK = 16, SHORTEST = 4 };

/* NaN wins, as in numpy. */
#define LARGER(value, best)                                                                                  \
    do {                                                                                                     \
        const __typeof__((value) > (best)) taken = ((value) > (best)) | ((value) != (value));                \
        (best) =                                                                                             \
            (__typeof__(best))((taken & (__typeof__(taken))(value)) | (~taken & (__typeof__(taken))(best))); \
    } while (0)
#define SUM(value, best) ((best) += (value))

#define POOL(name, target, lanes, ADD, NEUTRAL)                                                              \
    target static void name(const rt_pool_rows *p, const float *x, int64_t planes, int64_t lines,            \
                            float *line, float *all) {                                                       \
        const int64_t positions = (p->outputs - 1) * p->stride + 1;                                          \
        rt_floats_##lanes best, part;                                                                        \
        for (int64_t i = 0; i < p->width; i += lanes) {                                                      \
            const int64_t at = i + lanes <= p->width ? i : p->width - lanes;                                 \
            best = (rt_floats_##lanes){0} + (NEUTRAL);                                                       \
            for (int64_t z = 0; z < planes; z++) {                                                           \
                for (int64_t k = 0; k < lines; k++) {                                                        \
                    memcpy(&part, x + z * p->plane + k * p->step + at, sizeof part);                         \
                    ADD(part, best);                                                                         \
                }                                                                                            \
            }                                                                                                \
            memcpy(line + p->padding + at, &best, sizeof best);                                              \
        }                                                                                                    \
        for (int64_t i = 0; i < positions; i += lanes) {                                                     \
            memcpy(&best, line + i, sizeof best);                                                            \
            for (int64_t k = 1; k < p->kernel; k++) {                                                        \
                memcpy(&part, line + i + k * p->dilation, sizeof part);                                      \
                ADD(part, best);                                                                             \
            }                                                                                                \
            memcpy(all + i, &best, sizeof best);                                                             \
        }                                                                                                    \
    }

POOL(largest_plain, , 4, LARGER, -INFINITY)
POOL(sums_plain, , 4, SUM, 0)
#if RT_X86_KERNELS
POOL(largest_avx2, __attribute__((target("avx2"))), 8, LARGER, -INFINITY)
POOL(sums_avx2, __attribute__((target("avx2"))), 8, SUM, 0)
#endif

#if RT_X86_KERNELS
/* ---- in registers, for strides of one and two, and for windows that do not meet at a distance of four; others take of all positions what they need ----------------------------------------------------------- */

/* What is left of a line of the map is made one vector after the other, from its beginning on, so that vectors lie as the map does. With a
 * stride of two each pair of vectors becomes its even and its odd positions, so that the windows of successive outputs see successive
 * lanes in either case: those of a vector and of the one before or after it. */
#define WIDE __attribute__((target("avx512f")))
#define INLINE WIDE static inline __attribute__((always_inline))
enum { WIDE_LANES = 16 };

/* NUMBERS: the largest where nothing is a NaN, which is told; half as many instructions. */
typedef enum wide_kind { SUMS, LARGEST, NUMBERS } wide_kind;

INLINE __m512 joined(wide_kind kind, __m512 value, __m512 best) {
    return kind == SUMS      ? _mm512_add_ps(best, value)
           : kind == LARGEST ? rt_larger_16(value, best)
                             : _mm512_max_ps(value, best);
}

INLINE __m512 neutral_of(wide_kind kind) {
    return _mm512_set1_ps(kind == SUMS ? 0.0f : -INFINITY);
}

/* The lanes of the last vector of a row. */
static inline __mmask16 last_lanes(int64_t width) {
    return (__mmask16)rt_first_lanes_16((width - 1) % WIDE_LANES + 1);
}

/* What windows see at positions `first` on, of which `some` are there in the last vector. Lanes of *none become set where one of the lines
 * from `fresh` on is a NaN. */
INLINE __m512 lines_wide(wide_kind kind, const rt_pool_rows *p, const float *x, int64_t planes, int64_t lines,
                         int64_t first, __mmask16 some, int64_t fresh, __mmask16 *none) {
    const __m512 neutral = neutral_of(kind);
    const int64_t rest = p->width - first;
    __m512 best = neutral;
    if (rest <= 0) return best;
    for (int64_t z = 0; z < planes; z++) {
        const float *at = x + z * p->plane + first;
        for (int64_t k = 0; k < lines; k++, at += p->step) {
            const __m512 value =
                rest >= WIDE_LANES ? _mm512_loadu_ps(at) : _mm512_mask_loadu_ps(neutral, some, at);
            if (kind == NUMBERS && k >= fresh)
                *none = _mm512_kor(*none, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q));
            best = kind == NUMBERS && z == 0 && k == 0 ? value : joined(kind, value, best);
        }
    }
    return best;
}

/* Three vectors in a row, of every position or of every other one. */
typedef struct lanes_in_row {
    __m512 before, here, next;
} lanes_in_row;

/* `from` + n for n lanes of the middle one, with `from` from -16 to 16. */
INLINE __m512 shifted(const lanes_in_row *of, int64_t from) {
    const __m512i lanes =
        _mm512_add_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                         _mm512_set1_epi32((int)(from < 0 ? from + WIDE_LANES : from)));
    return from == 0  ? of->here
           : from < 0 ? _mm512_permutex2var_ps(of->before, lanes, of->here)
                      : _mm512_permutex2var_ps(of->here, lanes, of->next);
}

/* Sums divided by counts times `others`. */
INLINE __m512 divided(__m512 sums, const int32_t *counts, __m512i others, __mmask16 there) {
    const __m512i count = _mm512_mullo_epi32(_mm512_maskz_loadu_epi32(there, counts), others);
    return _mm512_div_ps(sums, _mm512_cvtepi32_ps(_mm512_max_epi32(count, _mm512_set1_epi32(1))));
}

/* Positions of every other lane of two vectors. */
INLINE __m512i even_lanes(void) {
    return _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
}

INLINE __m512i odd_lanes(void) {
    return _mm512_add_epi32(even_lanes(), _mm512_set1_epi32(1));
}

/* Rows of outputs, the lines of which begin `step` floats after those of the one before. Whether something was a NaN, of NUMBERS. */
INLINE bool rows_of_kind(wide_kind kind, const rt_pool_rows *p, const rt_pool_run *run, int64_t planes,
                         int64_t lines, int64_t kernel, int64_t dilation, int64_t padding, int64_t stride,
                         float *to) {
    const __m512i even = even_lanes(), odd = odd_lanes(), others = _mm512_set1_epi32(run->others);
    const int64_t outputs = p->outputs;
    const __mmask16 some = last_lanes(p->width), wanted = last_lanes(outputs);
    const float *x = run->x;
    int64_t fresh = 0; /* the first line that the row before has not seen */
    __mmask16 none = 0;
    for (int64_t row = 0; row < run->rows; row++, x += run->step, to += outputs) {
        lanes_in_row of[2];
        of[0].here = of[1].here = of[0].next = of[1].next = neutral_of(kind);
        for (int64_t i = -WIDE_LANES; i < outputs; i += WIDE_LANES) {
            const int64_t first = (i + WIDE_LANES) * stride;
            const __m512 a = lines_wide(kind, p, x, planes, lines, first, some, fresh, &none);
            for (int s = 0; s < stride; s++) {
                of[s].before = of[s].here;
                of[s].here = of[s].next;
                of[s].next = a;
            }
            if (stride == 2) {
                const __m512 b =
                    lines_wide(kind, p, x, planes, lines, first + WIDE_LANES, some, fresh, &none);
                of[0].next = _mm512_permutex2var_ps(a, even, b);
                of[1].next = _mm512_permutex2var_ps(a, odd, b);
            }
            if (i < 0) continue;
            __m512 best = neutral_of(kind);
            for (int64_t k = 0; k < kernel; k++) {
                /* The quotient is rounded down. */
                const int64_t from = k * dilation - padding, part = from & (stride - 1);
                const __m512 value = shifted(&of[part], (from - part) / stride);
                best = k == 0 ? value : joined(kind, value, best);
            }
            if (kind == SUMS && run->counts)
                best = divided(best, run->counts + i, others, i + WIDE_LANES <= outputs ? 0xffff : wanted);
            if (i + WIDE_LANES <= outputs) _mm512_storeu_ps(to + i, best);
            else _mm512_mask_storeu_ps(to + i, wanted, best);
        }
        if (run->step == p->step) fresh = lines - 1;
    }
    return none != 0;
}

/* Windows of up to four, at a distance of that, without padding before: the lanes of four vectors are four vectors of first positions, of second
 * ones, and so on. Otherwise as rows_of_kind. */
enum { APART = 4 };
INLINE bool rows_apart(wide_kind kind, const rt_pool_rows *p, const rt_pool_run *run, float *to) {
    const __m512i even = even_lanes(), odd = odd_lanes(), others = _mm512_set1_epi32(run->others);
    const __mmask16 some = last_lanes(p->width), wanted = last_lanes(p->outputs);
    const float *x = run->x;
    __mmask16 none = 0;
    for (int64_t row = 0; row < run->rows; row++, x += run->step, to += p->outputs) {
        for (int64_t i = 0; i < p->outputs; i += WIDE_LANES) {
            const __mmask16 there = i + WIDE_LANES <= p->outputs ? 0xffff : wanted;
            __m512 parts[APART];
            for (int k = 0; k < APART; k++)
                parts[k] = lines_wide(kind, p, x, run->planes, run->lines, i * APART + k * WIDE_LANES, some,
                                      0, &none);
            const __m512 low_even = _mm512_permutex2var_ps(parts[0], even, parts[1]),
                         low_odd = _mm512_permutex2var_ps(parts[0], odd, parts[1]),
                         high_even = _mm512_permutex2var_ps(parts[2], even, parts[3]),
                         high_odd = _mm512_permutex2var_ps(parts[2], odd, parts[3]);
            __m512 best = _mm512_permutex2var_ps(low_even, even, high_even);
            if (p->kernel > 1) best = joined(kind, _mm512_permutex2var_ps(low_odd, even, high_odd), best);
            if (p->kernel > 2) best = joined(kind, _mm512_permutex2var_ps(low_even, odd, high_even), best);
            if (p->kernel > 3) best = joined(kind, _mm512_permutex2var_ps(low_odd, odd, high_odd), best);
            if (kind == SUMS && run->counts) best = divided(best, run->counts + i, others, there);
            _mm512_mask_storeu_ps(to + i, there, best);
        }
    }
    return none != 0;
}

/* Windows of SIZE x SIZE at a distance of one are constants, at margins their rows. */
#define USUAL(SIZE, PADDING)                                                                                 \
    if (usual && p->kernel == SIZE && p->padding == PADDING)                                                 \
        return run->lines == SIZE ? rows_of_kind(kind, p, run, 1, SIZE, SIZE, 1, PADDING, stride, to)        \
                                  : rows_of_kind(kind, p, run, 1, run->lines, SIZE, 1, PADDING, stride, to);
INLINE bool rows_wide(wide_kind kind, const rt_pool_rows *p, const rt_pool_run *run, int64_t stride,
                      float *to) {
    const bool usual = run->planes == 1 && p->dilation == 1;
    USUAL(2, 0)
    USUAL(3, 1)
    USUAL(5, 2)
    return rows_of_kind(kind, p, run, run->planes, run->lines, p->kernel, p->dilation, p->padding, stride,
                        to);
}

WIDE static void largest_wide(const rt_pool_rows *p, const rt_pool_run *run, float *to) {
    if (!(p->stride == 1 ? rows_wide(NUMBERS, p, run, 1, to) : rows_wide(NUMBERS, p, run, 2, to))) return;
    if (p->stride == 1)
        rows_of_kind(LARGEST, p, run, run->planes, run->lines, p->kernel, p->dilation, p->padding, 1, to);
    else rows_of_kind(LARGEST, p, run, run->planes, run->lines, p->kernel, p->dilation, p->padding, 2, to);
}

WIDE static void sums_wide(const rt_pool_rows *p, const rt_pool_run *run, float *to) {
    if (p->stride == 1) rows_wide(SUMS, p, run, 1, to);
    else rows_wide(SUMS, p, run, 2, to);
}

WIDE static void apart_wide(const rt_pool_rows *p, const rt_pool_run *run, float *to) {
    if (!p->maximum) rows_apart(SUMS, p, run, to);
    else if (rows_apart(NUMBERS, p, run, to)) rows_apart(LARGEST, p, run, to);
}

/* The lanes of a vector that are among the first `count`. */
static inline __mmask16 lanes_inside(int64_t first, int64_t count) {
    return (__mmask16)(rt_first_lanes_16(count - first) & ~rt_first_lanes_16(-first));
}

/* to[i] = all[i * stride], of strides up to four: what is read lies in four vectors. */
WIDE static void take_wide(const float *all, int64_t stride, int64_t count, float *to) {
    const __m512i lanes =
        _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                           _mm512_set1_epi32((int)stride));
    const __mmask16 high = _mm512_cmpge_epi32_mask(lanes, _mm512_set1_epi32(2 * WIDE_LANES));
    const int64_t positions = (count - 1) * stride + 1;
    for (int64_t i = 0; i < count; i += WIDE_LANES, all += WIDE_LANES * stride) {
        __m512 parts[4];
        for (int k = 0; k < 4; k++)
            parts[k] = _mm512_maskz_loadu_ps(lanes_inside(i * stride + k * WIDE_LANES, positions),
                                             all + k * WIDE_LANES);
        const __m512 low = _mm512_permutex2var_ps(parts[0], lanes, parts[1]);
        _mm512_mask_storeu_ps(
            to + i, lanes_inside(i, count),
            _mm512_mask_mov_ps(low, high, _mm512_permutex2var_ps(parts[2], lanes, parts[3])));
    }
}

/* Whether all that windows see of successive outputs lies in a vector and in one beside it. */
static bool is_wide(const rt_pool_rows *p) {
    const int64_t most = WIDE_LANES * (p->stride == 2 ? 2 : 1);
    return p->stride <= 4 && p->padding <= most && (p->kernel - 1) * p->dilation - p->padding <= most &&
           __builtin_cpu_supports("avx512f");
}
#endif

bool rt_pool_rows_prepare(rt_pool_rows *p) {
    if (p->width < SHORTEST || p->outputs < 1 || p->width > RT_POOL_LINE || p->padding > RT_POOL_LINE ||
        p->outputs > RT_POOL_LINE || p->stride > RT_POOL_LINE || p->kernel > RT_POOL_LINE ||
        p->dilation > RT_POOL_LINE)
        return false;
    const int64_t seen = (p->outputs - 1) * p->stride + (p->kernel - 1) * p->dilation + 1,
                  there = p->padding + p->width;
    p->line = (seen > there ? seen : there) + SLACK;
#if RT_X86_KERNELS
    p->wide = is_wide(p);
    p->divides =
        p->wide &&
        (p->stride <= 2 || (p->stride == APART && p->kernel <= APART && p->dilation == 1 && p->padding == 0));
#endif
    return p->line <= RT_POOL_LINE;
}

void rt_pool_rows_begin(const rt_pool_rows *p, float *line) {
    for (int64_t i = 0; i < p->line; i++) line[i] = p->maximum ? -INFINITY : 0;
}

/* to[i] = all[i * stride] */
static void take(const float *all, int64_t stride, int64_t count, float *to) {
    if (stride == 1) {
        memcpy(to, all, (size_t)count * sizeof *to);
        return;
    }
    int64_t i = 0;
    for (; stride == 2 && i + 4 <= count; i += 4) {
        const rt_floats_4 part = {all[2 * i], all[2 * i + 2], all[2 * i + 4], all[2 * i + 6]};
        memcpy(to + i, &part, sizeof part);
    }
    for (; i < count; i++) to[i] = all[i * stride];
}

void rt_pool_rows_run(const rt_pool_rows *p, const rt_pool_run *run, float *line, float *to) {
    float all[RT_POOL_LINE];
#if RT_X86_KERNELS
    if (p->divides) {
        (p->stride == APART ? apart_wide : p->maximum ? largest_wide : sums_wide)(p, run, to);
        return;
    }
    const bool avx2 = p->width >= 8 && __builtin_cpu_supports("avx2");
    rt_pool_rows every = *p; /* position */
    every.stride = 1;
    every.outputs = (p->outputs - 1) * p->stride + 1;
#endif
    for (int64_t row = 0; row < run->rows; row++, to += p->outputs) {
        const float *x = run->x + row * run->step;
#if RT_X86_KERNELS
        if (p->wide) {
            rt_pool_run one = *run;
            one.x = x;
            one.rows = 1;
            one.counts = NULL;
            (p->maximum ? largest_wide : sums_wide)(&every, &one, all);
            take_wide(all, p->stride, p->outputs, to);
            continue;
        }
        if (avx2) (p->maximum ? largest_avx2 : sums_avx2)(p, x, run->planes, run->lines, line, all);
        else
#endif
            (p->maximum ? largest_plain : sums_plain)(p, x, run->planes, run->lines, line, all);
        take(all, p->stride, p->outputs, to);
    }
}

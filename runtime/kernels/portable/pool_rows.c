/* SPDX-License-Identifier: Apache-2.0 */
/* pool_rows.c: see pool_rows.h. A line holds its padding on both sides, so that no vector asks where it ends; the last vector of what
 * is read or written elsewhere begins where it ends with the row.
 */
#include "runtime/kernels/portable/pool_rows.h"
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
#if defined(__x86_64__) && defined(__GNUC__)
POOL(largest_avx2, __attribute__((target("avx2"))), 8, LARGER, -INFINITY)
POOL(sums_avx2, __attribute__((target("avx2"))), 8, SUM, 0)
#endif

#if defined(__x86_64__) && defined(__GNUC__)
/* ---- in registers, for strides of one and two; others take of all positions what they need ----------------------------------------------------------- */

/* What is left of a line of the map is made one vector after the other. With a stride of two each pair of vectors becomes its even and its
 * odd positions, so that the windows of successive outputs see successive lanes in either case: those of a vector and of the next one. */
#define WIDE __attribute__((target("avx512f")))
enum { WIDE_LANES = 16 };

WIDE static inline __m512 sum_wide(__m512 value, __m512 best) {
    return _mm512_add_ps(best, value);
}

/* `from` + n for n lanes: those of a, then those of b. */
WIDE static inline __m512 shifted(__m512 a, __m512 b, int64_t from) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return from == 0 ? a
                     : _mm512_permutex2var_ps(a, _mm512_add_epi32(lanes, _mm512_set1_epi32((int)from)), b);
}

/* The lanes of a vector from position `first` of a line on that lie in the line. */
static inline __mmask16 lanes_inside(int64_t first, int64_t width) {
    return (__mmask16)(rt_first_lanes_16(width - first) & ~rt_first_lanes_16(-first));
}

#define POOL_WIDE(name, ADD, NEUTRAL)                                                                        \
    WIDE static inline __attribute__((always_inline)) __m512 name##_lines(                                   \
        const rt_pool_rows *p, const float *x, int64_t planes, int64_t lines, int64_t first) {               \
        const __m512 neutral = _mm512_set1_ps(NEUTRAL);                                                      \
        const __mmask16 some = lanes_inside(first, p->width);                                                \
        __m512 best = neutral;                                                                               \
        if (!some) return best;                                                                              \
        for (int64_t z = 0; z < planes; z++) {                                                               \
            const float *at = x + z * p->plane + first;                                                      \
            for (int64_t k = 0; k < lines; k++)                                                              \
                best = ADD(_mm512_mask_loadu_ps(neutral, some, at + k * p->step), best);                     \
        }                                                                                                    \
        return best;                                                                                         \
    }                                                                                                        \
    WIDE static inline __attribute__((always_inline)) void name##_row(                                       \
        const rt_pool_rows *p, const float *x, int64_t planes, int64_t lines, int64_t kernel, float *to) {   \
        const int64_t outputs = p->outputs;                                                                  \
        int64_t first = -p->padding;                                                                         \
        if (p->stride == 1) {                                                                                \
            __m512 here = name##_lines(p, x, planes, lines, first);                                          \
            for (int64_t i = 0; i < outputs; i += WIDE_LANES) {                                              \
                first += WIDE_LANES;                                                                         \
                const __m512 next = name##_lines(p, x, planes, lines, first);                                \
                __m512 best = here;                                                                          \
                for (int64_t k = 1; k < kernel; k++) best = ADD(shifted(here, next, k * p->dilation), best); \
                _mm512_mask_storeu_ps(to + i, lanes_inside(i, outputs), best);                               \
                here = next;                                                                                 \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);    \
        const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));                                    \
        __m512 here[2], next[2], a = name##_lines(p, x, planes, lines, first),                               \
                                 b = name##_lines(p, x, planes, lines, first + WIDE_LANES);                  \
        here[0] = _mm512_permutex2var_ps(a, even, b);                                                        \
        here[1] = _mm512_permutex2var_ps(a, odd, b);                                                         \
        for (int64_t i = 0; i < outputs; i += WIDE_LANES) {                                                  \
            first += 2 * WIDE_LANES;                                                                         \
            a = name##_lines(p, x, planes, lines, first);                                                    \
            b = name##_lines(p, x, planes, lines, first + WIDE_LANES);                                       \
            next[0] = _mm512_permutex2var_ps(a, even, b);                                                    \
            next[1] = _mm512_permutex2var_ps(a, odd, b);                                                     \
            __m512 best = here[0];                                                                           \
            for (int64_t k = 1; k < kernel; k++) {                                                           \
                const int64_t from = k * p->dilation;                                                        \
                best = ADD(from % 2 ? shifted(here[1], next[1], from / 2)                                    \
                                    : shifted(here[0], next[0], from / 2),                                   \
                           best);                                                                            \
            }                                                                                                \
            _mm512_mask_storeu_ps(to + i, lanes_inside(i, outputs), best);                                   \
            here[0] = next[0];                                                                               \
            here[1] = next[1];                                                                               \
        }                                                                                                    \
    }                                                                                                        \
    /* Usual windows are constants. */                                                                       \
    WIDE static void name(const rt_pool_rows *p, const float *x, int64_t planes, int64_t lines, float *to) { \
        if (planes == 1 && lines == 2 && p->kernel == 2) name##_row(p, x, 1, 2, 2, to);                      \
        else if (planes == 1 && lines == 3 && p->kernel == 3) name##_row(p, x, 1, 3, 3, to);                 \
        else name##_row(p, x, planes, lines, p->kernel, to);                                                 \
    }
POOL_WIDE(largest_wide, rt_larger_16, -INFINITY)
POOL_WIDE(sums_wide, sum_wide, 0)

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

/* Whether all that windows see of successive outputs lies in two vectors. */
static bool is_wide(const rt_pool_rows *p) {
    const int64_t reach = (p->kernel - 1) * p->dilation;
    return p->stride <= 4 && reach / (p->stride == 2 ? 2 : 1) <= WIDE_LANES &&
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
#if defined(__x86_64__) && defined(__GNUC__)
    p->wide = is_wide(p);
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

void rt_pool_rows_run(const rt_pool_rows *p, const float *x, int64_t planes, int64_t lines, float *line,
                      float *to) {
    float all[RT_POOL_LINE];
#if defined(__x86_64__) && defined(__GNUC__)
    if (p->wide) {
        if (p->stride <= 2) {
            (p->maximum ? largest_wide : sums_wide)(p, x, planes, lines, to);
        } else {
            rt_pool_rows every = *p; /* position */
            every.stride = 1;
            every.outputs = (p->outputs - 1) * p->stride + 1;
            (p->maximum ? largest_wide : sums_wide)(&every, x, planes, lines, all);
            take_wide(all, p->stride, p->outputs, to);
        }
        return;
    }
    if (p->width >= 8 && __builtin_cpu_supports("avx2"))
        (p->maximum ? largest_avx2 : sums_avx2)(p, x, planes, lines, line, all);
    else
#endif
        (p->maximum ? largest_plain : sums_plain)(p, x, planes, lines, line, all);
    take(all, p->stride, p->outputs, to);
}

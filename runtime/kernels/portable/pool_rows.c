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

bool rt_pool_rows_prepare(rt_pool_rows *p) {
    if (p->width < SHORTEST || p->outputs < 1 || p->width > RT_POOL_LINE || p->padding > RT_POOL_LINE ||
        p->outputs > RT_POOL_LINE || p->stride > RT_POOL_LINE || p->kernel > RT_POOL_LINE ||
        p->dilation > RT_POOL_LINE)
        return false;
    const int64_t seen = (p->outputs - 1) * p->stride + (p->kernel - 1) * p->dilation + 1,
                  there = p->padding + p->width;
    p->line = (seen > there ? seen : there) + SLACK;
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
    if (p->width >= 8 && __builtin_cpu_supports("avx2"))
        (p->maximum ? largest_avx2 : sums_avx2)(p, x, planes, lines, line, all);
    else
#endif
        (p->maximum ? largest_plain : sums_plain)(p, x, planes, lines, line, all);
    take(all, p->stride, p->outputs, to);
}

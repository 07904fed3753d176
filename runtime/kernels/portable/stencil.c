/* SPDX-License-Identifier: Apache-2.0 */
/* stencil.c: see stencil.h.
 *
 * The channel is copied once, into padding that stays, and with strides apart: elements of equal remainders, divided by the strides, make an
 * image of their own. Then what a window element sees at successive outputs is a run of floats, where outputs are counted through the
 * whole rows of such an image; sums between the rows are left out. A vector of sums stays in a register for all window elements.
 */
#include "runtime/kernels/portable/stencil.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>

enum {
    SLACK = 64,      /* floats after the copy and after the sums that are read or written, and of no matter */
    POSITIONS = 2048 /* outputs at a time, about: their sums stay in the nearest cache */
};

/* sums[i] = the sum over the window's elements t of weights[t] * x[offsets[t] + i], finished; up to SLACK more are made. */
#define ADD_TAPS(suffix, isa, lanes, LIMIT)                                                                  \
    isa static void add_taps_##suffix(const float *x, const int64_t *offsets, const float *weights,          \
                                      int64_t taps, const rt_stencil_end *end, int64_t count, float *sums) { \
        const float bias = end->bias, low = end->low, high = end->high;                                      \
        for (int64_t i = 0; i < count; i += 4 * lanes) {                                                     \
            rt_floats_##lanes part, sum[4];                                                                  \
            _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++) sum[v] = (rt_floats_##lanes){0};             \
            for (int64_t t = 0; t < taps; t++) {                                                             \
                const float *from = x + offsets[t] + i;                                                      \
                _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++) {                                        \
                    memcpy(&part, from + v * lanes, sizeof part);                                            \
                    sum[v] += part * weights[t];                                                             \
                }                                                                                            \
            }                                                                                                \
            _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++) {                                            \
                sum[v] += bias;                                                                              \
                LIMIT(sum[v], low, high);                                                                    \
                memcpy(sums + i + v * lanes, &sum[v], sizeof part);                                          \
            }                                                                                                \
        }                                                                                                    \
    }

ADD_TAPS(plain, , 4, RT_LIMIT_4)
#if RT_X86_KERNELS
ADD_TAPS(avx2, __attribute__((target("avx2"))), 8, RT_LIMIT_8)
ADD_TAPS(avx512, __attribute__((target("avx512f"))), 16, RT_LIMIT_16)
#endif

static void add_taps(const float *x, const int64_t *offsets, const float *weights, int64_t taps,
                     const rt_stencil_end *end, int64_t count, float *sums) {
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) add_taps_avx512(x, offsets, weights, taps, end, count, sums);
    else if (__builtin_cpu_supports("avx2")) add_taps_avx2(x, offsets, weights, taps, end, count, sums);
    else add_taps_plain(x, offsets, weights, taps, end, count, sums);
#else
    add_taps_plain(x, offsets, weights, taps, end, count, sums);
#endif
}

bool rt_stencil_prepare(rt_stencil *s, base_arena *arena) {
    const int64_t taps = s->kernel[0] * s->kernel[1];
    s->by_rows = rt_stencil_by_rows(s);
    if (s->by_rows && !rt_stencil_prepare_rows(s, arena)) return false;
    size_t floats = 1, sums;
    s->offsets = BASE_ARRAY(arena, int64_t, (size_t)taps);
    if (!s->offsets) return false;
    for (int i = 0; i < 2; i++) {
        int64_t reach, span;
        if (!base_int64_multiply(s->kernel[i] - 1, s->dilation[i], &reach) ||
            !base_int64_multiply(s->output[i] - 1, s->stride[i], &span) || reach > INT64_MAX / 4 ||
            span > INT64_MAX / 4 || !base_size_multiply(floats, (size_t)s->stride[i], &floats))
            return false;
        s->grid[i] = (reach + span) / s->stride[i] + 1;
        if (!base_size_multiply(floats, (size_t)s->grid[i], &floats)) return false;
    }
    if (floats > SIZE_MAX / 16) return false;
    for (int64_t t = 0; t < taps; t++) {
        const int64_t y = t / s->kernel[1] * s->dilation[0], x = t % s->kernel[1] * s->dilation[1];
        const int64_t part = y % s->stride[0] * s->stride[1] + x % s->stride[1];
        s->offsets[t] = (part * s->grid[0] + y / s->stride[0]) * s->grid[1] + x / s->stride[1];
    }
    s->rows = POSITIONS / s->grid[1];
    if (s->rows < 1) s->rows = 1;
    if (s->rows > s->output[0]) s->rows = s->output[0];
    sums = (size_t)s->rows * (size_t)s->grid[1];
    return base_size_align((floats + SLACK) * sizeof(float), RT_ALIGNMENT, &s->copy_bytes) &&
           base_size_align((sums + SLACK) * sizeof(float), RT_ALIGNMENT, &sums) &&
           base_size_add(s->copy_bytes, sums, &s->bytes);
}

/* to[i] = x[i], of rows that are too short for a call. The last vector begins where it ends with the row. */
static inline void copy_row(const float *x, int64_t count, float *to) {
    rt_floats_4 part;
    if (count < 4) {
        for (int64_t i = 0; i < count; i++) to[i] = x[i];
        return;
    }
    for (int64_t i = 0; i < count; i += 4) {
        const int64_t at = i + 4 <= count ? i : count - 4;
        memcpy(&part, x + at, sizeof part);
        memcpy(to + at, &part, sizeof part);
    }
}

/* to[i] = x[2 * i]; nothing after the last of these is read. */
static inline void copy_every_second(const float *x, int64_t count, float *to) {
    if (count < 4) {
        for (int64_t i = 0; i < count; i++) to[i] = x[2 * i];
        return;
    }
    for (int64_t i = 0; i < count; i += 4) {
        const int64_t at = i + 4 <= count ? i : count - 4;
        const float *from = x + 2 * at;
        const rt_floats_4 part = {from[0], from[2], from[4], from[6]};
        memcpy(to + at, &part, sizeof part);
    }
}

/* One image of equal remainders, but for its padding. */
static void copy_part(const rt_stencil *s, const float *x, int64_t ry, int64_t rx, float *to) {
    const int64_t width = s->grid[1], stride = s->stride[1], first = rx - s->before[1];
    /* What of a row is no padding: the same for all rows. */
    int64_t low = first < 0 ? (-first + stride - 1) / stride : 0,
            high = first < s->input[1] ? (s->input[1] - 1 - first) / stride + 1 : 0;
    if (high > width) high = width;
    if (high <= low) return;
    for (int64_t row = 0; row < s->grid[0]; row++, to += width) {
        const int64_t y = row * s->stride[0] + ry - s->before[0];
        if (y < 0 || y >= s->input[0]) continue;
        const float *from = x + y * s->input[1] + first + low * stride;
        if (stride == 1) copy_row(from, high - low, to + low);
        else if (stride == 2) copy_every_second(from, high - low, to + low);
        else
            for (int64_t i = low; i < high; i++) to[i] = from[(i - low) * stride];
    }
}

void rt_stencil_begin(const rt_stencil *s, void *scratch) {
    if (!s->by_rows) memset(scratch, 0, s->copy_bytes);
}

RT_CLONES static void add_row(const float *restrict sums, float *restrict y, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] += sums[i];
}

void rt_stencil_run(const rt_stencil *s, const float *x, const float *weights, float *y, bool add,
                    const rt_stencil_end *end, void *scratch) {
    if (s->by_rows) {
        rt_stencil_run_rows(s, &(rt_stencil_channels){.count = 1,
                                                      .pieces = {{.x = x, .rows = s->input[0]}},
                                                      .weights = weights,
                                                      .bias = &end->bias,
                                                      .y = y,
                                                      .low = end->low,
                                                      .high = end->high,
                                                      .add = add});
        return;
    }
    float *copy = scratch, *sums = (float *)(void *)((char *)scratch + s->copy_bytes), *to = copy;
    for (int64_t ry = 0; ry < s->stride[0]; ry++)
        for (int64_t rx = 0; rx < s->stride[1]; rx++, to += s->grid[0] * s->grid[1])
            copy_part(s, x, ry, rx, to);
    for (int64_t row = 0; row < s->output[0]; row += s->rows) {
        const int64_t rows = s->output[0] - row < s->rows ? s->output[0] - row : s->rows;
        add_taps(copy + row * s->grid[1], s->offsets, weights, s->kernel[0] * s->kernel[1], end,
                 (rows - 1) * s->grid[1] + s->output[1], sums);
        for (int64_t i = 0; i < rows; i++, y += s->output[1]) {
            if (add) add_row(sums + i * s->grid[1], y, s->output[1]);
            else copy_row(sums + i * s->grid[1], s->output[1], y);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* stencil_any.c: windows of any size and dilation, at a stride of 1, straight from the image; see stencil.h.
 *
 * Lanes are the outputs of a row, whose masks keep out what lies left and right of it; rows above and below are left out. What an element of
 * the window sees of an input row is read once for up to TOGETHER output rows, which are as far apart as rows of the window are: rows of
 * equal remainders, divided by the dilation, are images of their own.
 *
 * Sums of a window are made in the order of its elements, each product and its sum rounded once.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/stencil.h"
#include "runtime/kernels/portable/lanes.h"

bool rt_stencil_fits_any(const rt_stencil *s) {
    enum { WIDEST = 1 << 12 };
    return s->stride[0] == 1 && s->stride[1] == 1 && s->kernel[0] > 0 && s->kernel[1] > 0 &&
           s->kernel[0] < WIDEST && s->kernel[1] < WIDEST && s->dilation[0] < WIDEST &&
           s->dilation[1] < WIDEST;
}

#if RT_X86_KERNELS
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, TOGETHER = 4, MOST_ROWS = 8, MOST_TOGETHER = 7 /* of 3x3 */ };

/* One channel at one vector of columns. `first` and `second` are where row 0 is, or would be, in either piece. */
typedef struct any_columns {
    const rt_stencil *shape;
    const float *first, *second, *weights;
    float *y;
    int64_t split;
    const uint16_t *masks; /* what each element of a window's row sees; which outputs there are */
    float bias, low, high;
    bool add;
} any_columns;

bool rt_stencil_prepare_any(rt_stencil *s, base_arena *arena) {
    const int64_t vectors = s->output[1] > 0 ? (s->output[1] - 1) / LANES + 1 : 0, each = s->kernel[1] + 1;
    int64_t count;
    uint16_t *masks = base_int64_multiply(vectors, each, &count) && count < INT64_MAX / 2
                          ? BASE_ARRAY(arena, uint16_t, (size_t)count)
                          : NULL;
    s->masks = masks;
    if (!masks) return false;
    for (int64_t column = 0; column < s->output[1]; column += LANES, masks += each) {
        for (int64_t k = 0; k < s->kernel[1]; k++) {
            const int64_t at = column - s->before[1] + k * s->dilation[1];
            masks[k] = (uint16_t)(rt_first_lanes_16(s->input[1] - at) & ~rt_first_lanes_16(-at));
        }
        masks[s->kernel[1]] = rt_first_lanes_16(s->output[1] - column);
    }
    return true;
}

/* What input row `i` under the windows of rows from `row` on adds to output rows `low` to `high`. `known`: the width of a window, 0 where it is the
 * shape's. */
AVX512 INLINE void add_row(const any_columns *c, int64_t row, int64_t apart, int64_t i, int known, int low,
                           int high, __m512 *sums) {
    const rt_stencil *s = c->shape;
    const int64_t width = known ? known : s->kernel[1], step = s->dilation[1],
                  at = row - s->before[0] + i * apart;
    if (at < 0 || at >= s->input[0]) return;
    const float *from = rt_address(at < c->split ? c->first : c->second, at * s->input[1]),
                *weights = c->weights + (i - low) * width;
    _Pragma("GCC unroll 7") for (int64_t j = 0; j < width; j++) {
        const __m512 seen = _mm512_maskz_loadu_ps(c->masks[j], rt_address(from, j * step));
        _Pragma("GCC unroll 8") for (int r = low; r <= high; r++) sums[r] =
            _mm512_fmadd_ps(seen, _mm512_set1_ps(weights[j - (r - low) * width]), sums[r]);
    }
}

/* TOGETHER output rows. */
AVX512 INLINE void add_rows(const any_columns *c, int64_t row, int64_t apart, int known, __m512 *sums) {
    const int64_t height = c->shape->kernel[0];
#define ROW(i, low, high) add_row(c, row, apart, i, known, low, high, sums)
    ROW(0, 0, 0);
    if (height == 1) {
        ROW(1, 1, 1), ROW(2, 2, 2), ROW(3, 3, 3);
    } else if (height == 2) {
        ROW(1, 0, 1), ROW(2, 1, 2), ROW(3, 2, 3), ROW(4, 3, 3);
    } else {
        ROW(1, 0, 1), ROW(2, 0, 2);
        for (int64_t i = 3; i < height; i++) ROW(i, 0, 3);
        ROW(height, 1, 3), ROW(height + 1, 2, 3), ROW(height + 2, 3, 3);
    }
}

/* MOST_ROWS of them, of a window that is as high at least: four sums alone wait for each other. */
AVX512 INLINE void add_more_rows(const any_columns *c, int64_t row, int64_t apart, int known, __m512 *sums) {
    const int64_t height = c->shape->kernel[0];
    _Pragma("GCC unroll 7") for (int i = 0; i < MOST_ROWS - 1; i++)
        add_row(c, row, apart, i, known, 0, i, sums);
    for (int64_t i = MOST_ROWS - 1; i < height; i++) add_row(c, row, apart, i, known, 0, MOST_ROWS - 1, sums);
    _Pragma("GCC unroll 7") for (int i = 1; i < MOST_ROWS; i++)
        add_row(c, row, apart, height - 1 + i, known, i, MOST_ROWS - 1, sums);
}

/* One row, or two: the last ones. */
AVX512 INLINE void add_last_rows(const any_columns *c, int64_t row, int64_t apart, int64_t together,
                                 __m512 *sums) {
    const int64_t height = c->shape->kernel[0];
    if (together == 2) {
        add_row(c, row, apart, 0, 0, 0, 0, sums);
        for (int64_t i = 1; i < height; i++) add_row(c, row, apart, i, 0, 0, 1, sums);
        add_row(c, row, apart, height, 0, 1, 1, sums);
        return;
    }
    for (int64_t i = 0; i < height; i++) add_row(c, row, apart, i, 0, 0, 0, sums);
}
#undef ROW

/* Up to MOST_ROWS output rows from `row` on, `apart` from each other. */
AVX512 INLINE void make_rows(const any_columns *c, int64_t row, int64_t apart, int64_t together, int known) {
    const rt_stencil *s = c->shape;
    __m512 sums[MOST_ROWS];
    _Pragma("GCC unroll 8") for (int r = 0; r < MOST_ROWS; r++) sums[r] = _mm512_set1_ps(c->bias);
    if (together == MOST_ROWS) add_more_rows(c, row, apart, known, sums);
    else if (together == TOGETHER) add_rows(c, row, apart, known, sums);
    else add_last_rows(c, row, apart, together, sums);
    const __m512 least = _mm512_set1_ps(c->low), most = _mm512_set1_ps(c->high);
    const __mmask16 store = c->masks[s->kernel[1]];
    _Pragma("GCC unroll 8") for (int r = 0; r < MOST_ROWS; r++) {
        if (r >= together) break;
        float *y = c->y + (row + r * apart) * s->output[1];
        if (c->add) sums[r] = _mm512_add_ps(sums[r], _mm512_maskz_loadu_ps(store, y));
        _mm512_mask_storeu_ps(y, store, _mm512_min_ps(most, _mm512_max_ps(least, sums[r])));
    }
}

/* The same of a window of 3x3, whose weights and masks stay in registers. */
AVX512 INLINE void make_rows_of_3x3(const any_columns *c, int64_t row, int64_t apart, int together,
                                    const __m512 *weights, const __mmask16 *masks) {
    const rt_stencil *s = c->shape;
    const int64_t step = s->dilation[1], width = s->input[1], rows = s->input[0], split = c->split;
    __m512 sums[MOST_TOGETHER];
    _Pragma("GCC unroll 7") for (int r = 0; r < together; r++) sums[r] = _mm512_set1_ps(c->bias);
    _Pragma("GCC unroll 9") for (int i = 0; i < together + 2; i++) {
        const int64_t at = row - s->before[0] + i * apart;
        if (at < 0 || at >= rows) continue;
        const float *from = rt_address(at < split ? c->first : c->second, at * width);
        __m512 seen[3];
        _Pragma("GCC unroll 3") for (int j = 0; j < 3; j++) seen[j] =
            _mm512_maskz_loadu_ps(masks[j], rt_address(from, j * step));
        _Pragma("GCC unroll 7") for (int r = 0; r < together; r++) {
            if (i < r || i > r + 2) continue;
            _Pragma("GCC unroll 3") for (int j = 0; j < 3; j++) sums[r] =
                _mm512_fmadd_ps(seen[j], weights[(i - r) * 3 + j], sums[r]);
        }
    }
    const __m512 least = _mm512_set1_ps(c->low), most = _mm512_set1_ps(c->high);
    float *y = c->y + row * s->output[1];
    _Pragma("GCC unroll 7") for (int r = 0; r < together; r++, y += apart * s->output[1]) {
        if (c->add) sums[r] = _mm512_add_ps(sums[r], _mm512_maskz_loadu_ps(masks[3], y));
        _mm512_mask_storeu_ps(y, masks[3], _mm512_min_ps(most, _mm512_max_ps(least, sums[r])));
    }
}

AVX512 static void columns_of_3x3(const any_columns *c) {
    const any_columns own = *c; /* nothing that is written lies in it */
    const int64_t apart = own.shape->dilation[0], height = own.shape->output[0];
    __m512 weights[9];
    __mmask16 masks[4];
    _Pragma("GCC unroll 9") for (int k = 0; k < 9; k++) weights[k] = _mm512_set1_ps(own.weights[k]);
    _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) masks[k] = own.masks[k];
    for (int64_t rest = 0; rest < apart && rest < height; rest++) {
        for (int64_t row = rest; row < height;) {
            const int64_t left = (height - row - 1) / apart + 1, together = left >= MOST_TOGETHER
                                                                                ? MOST_TOGETHER
                                                                            : left >= TOGETHER ? TOGETHER
                                                                            : left >= 2        ? 2
                                                                                               : 1;
            if (together == MOST_TOGETHER) make_rows_of_3x3(&own, row, apart, MOST_TOGETHER, weights, masks);
            else if (together == TOGETHER) make_rows_of_3x3(&own, row, apart, TOGETHER, weights, masks);
            else if (together == 2) make_rows_of_3x3(&own, row, apart, 2, weights, masks);
            else make_rows_of_3x3(&own, row, apart, 1, weights, masks);
            row += together * apart;
        }
    }
}

/* All rows whose number divided by the dilation leaves `rest`. */
AVX512 INLINE void make_columns(const any_columns *c, int known) {
    const int64_t apart = c->shape->dilation[0], height = c->shape->output[0];
    const bool high = c->shape->kernel[0] >= MOST_ROWS;
    for (int64_t rest = 0; rest < apart && rest < height; rest++) {
        const int64_t rows = (height - rest - 1) / apart + 1;
        for (int64_t row = 0; row < rows;) {
            const int64_t left = rows - row, together = left >= MOST_ROWS && high ? MOST_ROWS
                                                        : left >= TOGETHER        ? TOGETHER
                                                        : left >= 2               ? 2
                                                                                  : 1;
            make_rows(c, rest + row * apart, apart, together, known);
            row += together;
        }
    }
}

AVX512 static void columns_of_1(const any_columns *c) {
    make_columns(c, 1);
}
AVX512 static void columns_of_3(const any_columns *c) {
    make_columns(c, 3);
}
AVX512 static void columns_of_5(const any_columns *c) {
    make_columns(c, 5);
}
AVX512 static void columns_of_7(const any_columns *c) {
    make_columns(c, 7);
}
AVX512 static void columns_of_any(const any_columns *c) {
    make_columns(c, 0);
}

void rt_stencil_run_any(const rt_stencil *s, const rt_stencil_channels *channels) {
    const rt_stencil_piece *first = &channels->pieces[0], *second = &channels->pieces[1];
    const int64_t output = s->output[0] * s->output[1], taps = s->kernel[0] * s->kernel[1];
    void (*const columns)(const any_columns *) = s->kernel[1] == 1                        ? columns_of_1
                                                 : s->kernel[1] == 3 && s->kernel[0] == 3 ? columns_of_3x3
                                                 : s->kernel[1] == 3                      ? columns_of_3
                                                 : s->kernel[1] == 5                      ? columns_of_5
                                                 : s->kernel[1] == 7                      ? columns_of_7
                                                                                          : columns_of_any;
    rt_stencil_place at = {0, channels->place};
    for (int64_t channel = 0; channel < channels->count;
         channel++, at = rt_stencil_place_after(at, channels)) {
        const uint16_t *masks = s->masks;
        for (int64_t column = 0; column < s->output[1]; column += LANES, masks += s->kernel[1] + 1) {
            const int64_t left = column - s->before[1];
            const any_columns c = {
                .shape = s,
                .first = rt_address(first->x, at.channel * first->step + left),
                .second = rt_address(second->x, at.channel * second->step + left - first->rows * s->input[1]),
                .weights = channels->weights + channel * taps,
                .y = channels->y + channel * output + column,
                .split = first->rows,
                .masks = masks,
                .bias = channels->bias ? channels->bias[channel] : 0,
                .low = channels->low,
                .high = channels->high,
                .add = channels->add};
            columns(&c);
        }
    }
}
#else
bool rt_stencil_prepare_any(rt_stencil *s, base_arena *arena) {
    (void)s, (void)arena;
    return false;
}

void rt_stencil_run_any(const rt_stencil *s, const rt_stencil_channels *channels) {
    (void)s, (void)channels;
}
#endif

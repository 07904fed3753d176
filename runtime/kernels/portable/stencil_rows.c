/* SPDX-License-Identifier: Apache-2.0 */
/* stencil_rows.c: windows of 3x3, 5x5 and 7x7 elements, at strides of 1 and 2, straight from the image; see stencil.h. Others are stencil_any.c's.
 *
 * Lanes are the outputs of a row. Some output rows are made together: what a window element sees of an input row is read once for all of
 * them. Masks keep what lies left and right of a row out, so that the image need not be copied into padding. Rows above and below are left out.
 *
 * Sums of a window are made in the order of its elements, each product and its sum rounded once.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/stencil.h"
#include "runtime/kernels/portable/lanes.h"

bool rt_stencil_fits_rows(const rt_stencil *s) {
    const int64_t kernel = s->kernel[0], stride = s->stride[0];
    return (kernel == 3 || kernel == 5 || kernel == 7) && s->kernel[1] == kernel &&
           (stride == 1 || stride == 2) && s->stride[1] == stride && s->dilation[0] == 1 &&
           s->dilation[1] == 1;
}

#if RT_X86_KERNELS
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

enum { SEEN = 8, MASKS = SEEN + 1 };

/* All that stays the same from channel to channel. */
typedef struct image_rows {
    int64_t rows, width;               /* of the input */
    int64_t split;                     /* rows before this one are in the first piece */
    int64_t output_rows, output_width; /* of the output */
    int64_t above, left;               /* padding */
    float low, high;
    bool add; /* to what y holds */
    const uint16_t
        *masks;       /* MASKS by vector of a row: what window elements see, and which outputs there are */
    int64_t together; /* channels whose columns are made one after another */
} image_rows;

/* One channel, from the column on at which a vector of outputs begins. */
typedef struct channel_rows {
    /* Row 0 of the first piece; where row 0 would be, if all rows were in the second. */
    const float *first, *second;
    float *y;
    float bias;
} channel_rows;

/* Lanes `first` to `end`, both of which may lie beyond the vector. */
static uint16_t lanes_between(int64_t first, int64_t end) {
    return (uint16_t)(rt_first_lanes_16(end) & ~rt_first_lanes_16(first));
}

/* What the elements of a window's row see of an input row from `from` on. */
AVX512 INLINE void see_row(const float *from, const __mmask16 *masks, int kernel, int stride, __m512 *seen) {
    if (stride == 1) {
        _Pragma("GCC unroll 7") for (int k = 0; k < kernel; k++) seen[k] =
            _mm512_maskz_loadu_ps(masks[k], rt_address(from, k));
        return;
    }
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    _Pragma("GCC unroll 7") for (int k = 0; k < kernel; k += 2) {
        const __m512 near = _mm512_maskz_loadu_ps(masks[k], rt_address(from, k)),
                     far = _mm512_maskz_loadu_ps(masks[k + 1], rt_address(from, k + LANES));
        seen[k] = _mm512_permutex2var_ps(near, even, far);
        if (k + 1 < kernel) seen[k + 1] = _mm512_permutex2var_ps(near, odd, far);
    }
}

/* TOGETHER output rows from `row` on, at the outputs of one vector. Masks by window element, at a stride of 2 by halves of pairs. */
AVX512 INLINE void make_rows(const image_rows *image, const channel_rows *channel, int kernel, int stride,
                             int together, int64_t row, const __m512 *weights, const __mmask16 *masks,
                             __mmask16 store) {
    __m512 sums[8], seen[8];
    const int64_t top = row * stride - image->above;
    _Pragma("GCC unroll 8") for (int r = 0; r < together; r++) sums[r] = _mm512_set1_ps(channel->bias);
    _Pragma("GCC unroll 28") for (int i = 0; i < (together - 1) * stride + kernel; i++) {
        if (top + i < 0 || top + i >= image->rows) continue;
        const float *from = top + i < image->split ? channel->first : channel->second;
        see_row(rt_address(from, (top + i) * image->width), masks, kernel, stride, seen);
        _Pragma("GCC unroll 8") for (int r = 0; r < together; r++) {
            const int k = i - r * stride;
            if (k < 0 || k >= kernel) continue;
            _Pragma("GCC unroll 7") for (int j = 0; j < kernel; j++) sums[r] =
                _mm512_fmadd_ps(seen[j], weights[k * kernel + j], sums[r]);
        }
    }
    const __m512 low = _mm512_set1_ps(image->low), high = _mm512_set1_ps(image->high);
    float *y = channel->y + row * image->output_width;
    _Pragma("GCC unroll 8") for (int r = 0; r < together; r++, y += image->output_width) {
        if (row + r >= image->output_rows) break;
        if (image->add) sums[r] = _mm512_add_ps(sums[r], _mm512_maskz_loadu_ps(store, y));
        sums[r] = _mm512_min_ps(high, _mm512_max_ps(low, sums[r]));
        _mm512_mask_storeu_ps(y, store, sums[r]);
    }
}

/* The outputs of one vector in all rows, at most `most` together. Few rows are made by themselves: sums of rows that are not there would take as long
 * as others. */
AVX512 INLINE void make_columns(const image_rows *image, const channel_rows *channel, int kernel, int stride,
                                int most, const float *own_weights, const __mmask16 *masks, __mmask16 store) {
    __m512 weights[49]; /* of larger windows most stay in the first-level cache */
    _Pragma("GCC unroll 49") for (int k = 0; k < kernel * kernel; k++) weights[k] =
        _mm512_set1_ps(own_weights[k]);
    for (int64_t row = 0; row < image->output_rows;) {
        const int64_t left = image->output_rows - row;
        if (most > 4 && left > 4) {
            make_rows(image, channel, kernel, stride, most, row, weights, masks, store);
            row += most;
        } else if (left > 2) {
            make_rows(image, channel, kernel, stride, 4, row, weights, masks, store);
            row += 4;
        } else if (left == 2) {
            make_rows(image, channel, kernel, stride, 2, row, weights, masks, store);
            row += 2;
        } else {
            make_rows(image, channel, kernel, stride, 1, row, weights, masks, store);
            row++;
        }
    }
}

/* A vector of columns: which lanes its window elements see. */
AVX512 INLINE void read_masks(const uint16_t *bits, int kernel, __mmask16 *masks) {
    _Pragma("GCC unroll 8") for (int k = 0; k < SEEN; k++) masks[k] = k <= kernel ? bits[k] : 0;
}

AVX512 INLINE void make_channel(const image_rows *image, const rt_stencil_channels *channels, int kernel,
                                int stride, int most) {
    const float *first = channels->pieces[0].x,
                *second = rt_address(channels->pieces[1].x, -image->split * image->width);
    const uint16_t *bits = image->masks;
    for (int64_t column = 0; column < image->output_width; column += LANES, bits += MASKS) {
        __mmask16 masks[SEEN];
        read_masks(bits, kernel, masks);
        const int64_t left = column * stride - image->left;
        const channel_rows channel = {rt_address(first, left), rt_address(second, left), channels->y + column,
                                      channels->bias ? channels->bias[0] : 0};
        make_columns(image, &channel, kernel, stride, most, channels->weights, masks, bits[SEEN]);
    }
}

/* Of few rows a channel is made in less time than it takes to begin: columns of several channels one after another share their masks. One alone does not
 * wait for what these need; larger windows do not notice. */
AVX512 INLINE void make_image(const image_rows *of, const rt_stencil_channels *channels, int kernel,
                              int stride, int most) {
    const image_rows copy = *of, *image = &copy; /* nothing that is written lies in it */
    if (kernel == 3 && channels->count == 1) {
        make_channel(image, channels, kernel, stride, most);
        return;
    }
    const rt_stencil_piece *first = &channels->pieces[0], *second = &channels->pieces[1];
    const int64_t output = image->output_rows * image->output_width, block = image->together;
    rt_stencil_place at = {0, channels->place};
    for (int64_t begin = 0; begin < channels->count; begin += block) {
        const int64_t end = channels->count - begin < block ? channels->count : begin + block;
        const uint16_t *bits = image->masks;
        const rt_stencil_place first_place = at;
        for (int64_t column = 0; column < image->output_width; column += LANES, bits += MASKS) {
            __mmask16 masks[SEEN];
            read_masks(bits, kernel, masks);
            const int64_t left = column * stride - image->left;
            at = first_place;
            for (int64_t c = begin; c < end; c++, at = rt_stencil_place_after(at, channels)) {
                const channel_rows channel = {
                    .first = rt_address(first->x, at.channel * first->step + left),
                    .second =
                        rt_address(second->x, at.channel * second->step + left - image->split * image->width),
                    .y = channels->y + c * output + column,
                    .bias = channels->bias ? channels->bias[c] : 0};
                make_columns(image, &channel, kernel, stride, most, channels->weights + c * kernel * kernel,
                             masks, bits[SEEN]);
            }
        }
    }
}

AVX512 static void rows_3_1(const image_rows *image, const rt_stencil_channels *channels) {
    make_image(image, channels, 3, 1, 7);
}
AVX512 static void rows_3_2(const image_rows *image, const rt_stencil_channels *channels) {
    make_image(image, channels, 3, 2, 4);
}
AVX512 static void rows_5_1(const image_rows *image, const rt_stencil_channels *channels) {
    make_image(image, channels, 5, 1, 4);
}
AVX512 static void rows_5_2(const image_rows *image, const rt_stencil_channels *channels) {
    make_image(image, channels, 5, 2, 4);
}

AVX512 static void rows_7_1(const image_rows *image, const rt_stencil_channels *channels) {
    make_image(image, channels, 7, 1, 8);
}
AVX512 static void rows_7_2(const image_rows *image, const rt_stencil_channels *channels) {
    make_image(image, channels, 7, 2, 4);
}

bool rt_stencil_by_rows(const rt_stencil *s) {
    return __builtin_cpu_supports("avx512f") && (rt_stencil_fits_rows(s) || rt_stencil_fits_any(s));
}

bool rt_stencil_prepare_rows(rt_stencil *s, base_arena *arena) {
    if (!rt_stencil_fits_rows(s)) return rt_stencil_prepare_any(s, arena);
    const int64_t vectors = s->output[1] > 0 ? (s->output[1] - 1) / LANES + 1 : 0;
    uint16_t *masks =
        vectors < INT64_MAX / MASKS ? BASE_ARRAY(arena, uint16_t, (size_t)(vectors * MASKS)) : NULL;
    enum { NEAR = 3 << 10 }; /* floats of images that stay in the nearest cache meanwhile */
    const int64_t row = s->input[1] < NEAR ? s->input[1] : NEAR,
                  rows = s->input[0] < NEAR ? s->input[0] : NEAR;
    s->masks = masks;
    s->together = NEAR / (rows * row + 1) + 1;
    if (!masks) return false;
    for (int64_t column = 0; column < s->output[1]; column += LANES, masks += MASKS) {
        const int64_t start =
            column * s->stride[1] - s->before[1]; /* of the input, under the first element */
        for (int k = 0; k < SEEN; k++) {
            const int64_t at = start + (s->stride[1] == 1 ? k : k / 2 * 2 + k % 2 * LANES);
            masks[k] = lanes_between(-at, s->input[1] - at);
        }
        masks[SEEN] = lanes_between(0, s->output[1] - column);
    }
    return true;
}

void rt_stencil_run_rows(const rt_stencil *s, const rt_stencil_channels *channels) {
    if (!rt_stencil_fits_rows(s)) {
        rt_stencil_run_any(s, channels);
        return;
    }
    const image_rows image = {.rows = s->input[0],
                              .width = s->input[1],
                              .split = channels->pieces[0].rows,
                              .output_rows = s->output[0],
                              .output_width = s->output[1],
                              .above = s->before[0],
                              .left = s->before[1],
                              .low = channels->low,
                              .high = channels->high,
                              .add = channels->add,
                              .together = s->together,
                              .masks = s->masks};
    const bool near = s->stride[0] == 1;
    if (s->kernel[0] == 3) (near ? rows_3_1 : rows_3_2)(&image, channels);
    else if (s->kernel[0] == 5) (near ? rows_5_1 : rows_5_2)(&image, channels);
    else (near ? rows_7_1 : rows_7_2)(&image, channels);
}
#else
bool rt_stencil_by_rows(const rt_stencil *s) {
    (void)s;
    return false;
}

bool rt_stencil_prepare_rows(rt_stencil *s, base_arena *arena) {
    (void)s, (void)arena;
    return false;
}

void rt_stencil_run_rows(const rt_stencil *s, const rt_stencil_channels *channels) {
    (void)s, (void)channels;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* stencil_rows.c: windows of 3x3, 5x5 and 7x7 elements, at strides of 1 and 2, straight from the image; see stencil.h.
 *
 * Lanes are the outputs of a row. Some output rows are made together: what a window element sees of an input row is read once for all of
 * them. Masks keep what lies left and right of a row out, so that the image need not be copied into padding. Rows above and below are left out.
 *
 * Sums of a window are made in the order of its elements, each product and its sum rounded once.
 */
#include "runtime/kernels/portable/stencil.h"
#include "runtime/kernels/portable/lanes.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

typedef struct image_rows {
    const float *x, *weights;
    float *y;
    int64_t rows, width;               /* of the input */
    int64_t output_rows, output_width; /* of the output */
    int64_t above, left;               /* padding */
    rt_stencil_end end;
    bool add; /* to what y holds */
} image_rows;

/* Lanes `first` to `end`, both of which may lie beyond the vector. */
INLINE __mmask16 lanes_between(int64_t first, int64_t end) {
    return (__mmask16)(rt_first_lanes_16(end) & ~rt_first_lanes_16(first));
}

/* Where masks leave lanes out, the address of the first may lie outside of the image. */
INLINE const float *address(const float *row, int64_t floats) {
    return (const float *)((uintptr_t)row + (uintptr_t)(floats * (int64_t)sizeof *row));
}

/* What the elements of a window's row see of an input row from `from` on. */
AVX512 INLINE void see_row(const float *from, const __mmask16 *masks, int kernel, int stride, __m512 *seen) {
    if (stride == 1) {
        _Pragma("GCC unroll 7") for (int k = 0; k < kernel; k++) seen[k] =
            _mm512_maskz_loadu_ps(masks[k], address(from, k));
        return;
    }
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    _Pragma("GCC unroll 7") for (int k = 0; k < kernel; k += 2) {
        const __m512 near = _mm512_maskz_loadu_ps(masks[k], address(from, k)),
                     far = _mm512_maskz_loadu_ps(masks[k + 1], address(from, k + LANES));
        seen[k] = _mm512_permutex2var_ps(near, even, far);
        if (k + 1 < kernel) seen[k + 1] = _mm512_permutex2var_ps(near, odd, far);
    }
}

/* TOGETHER output rows from `row` on, at the outputs of one vector. Masks by window element, at a stride of 2 by halves of pairs. */
AVX512 INLINE void make_rows(const image_rows *image, int kernel, int stride, int together, int64_t row,
                             int64_t column, const __m512 *weights, const __mmask16 *masks, __mmask16 store) {
    __m512 sums[8], seen[8];
    const int64_t top = row * stride - image->above, width = image->width,
                  left = column * stride - image->left;
    _Pragma("GCC unroll 8") for (int r = 0; r < together; r++) sums[r] = _mm512_set1_ps(image->end.bias);
    _Pragma("GCC unroll 28") for (int i = 0; i < (together - 1) * stride + kernel; i++) {
        if (top + i < 0 || top + i >= image->rows) continue;
        see_row(address(image->x + (top + i) * width, left), masks, kernel, stride, seen);
        _Pragma("GCC unroll 8") for (int r = 0; r < together; r++) {
            const int k = i - r * stride;
            if (k < 0 || k >= kernel) continue;
            _Pragma("GCC unroll 7") for (int j = 0; j < kernel; j++) sums[r] =
                _mm512_fmadd_ps(seen[j], weights[k * kernel + j], sums[r]);
        }
    }
    const __m512 low = _mm512_set1_ps(image->end.low), high = _mm512_set1_ps(image->end.high);
    float *y = image->y + row * image->output_width + column;
    _Pragma("GCC unroll 8") for (int r = 0; r < together; r++, y += image->output_width) {
        if (row + r >= image->output_rows) break;
        if (image->add) sums[r] = _mm512_add_ps(sums[r], _mm512_maskz_loadu_ps(store, y));
        sums[r] = _mm512_min_ps(high, _mm512_max_ps(low, sums[r]));
        _mm512_mask_storeu_ps(y, store, sums[r]);
    }
}

AVX512 INLINE void make_image(const image_rows *image, int kernel, int stride, int together) {
    __m512 weights[49]; /* of larger windows most stay in the first-level cache */
    _Pragma("GCC unroll 49") for (int k = 0; k < kernel * kernel; k++) weights[k] =
        _mm512_set1_ps(image->weights[k]);
    for (int64_t column = 0; column < image->output_width; column += LANES) {
        const int64_t start = column * stride - image->left; /* of the input, under the first element */
        const __mmask16 store = lanes_between(0, image->output_width - column);
        __mmask16 masks[8];
        for (int k = 0; k < 8; k++) {
            const int64_t at = start + (stride == 1 ? k : k / 2 * 2 + k % 2 * LANES);
            masks[k] = lanes_between(-at, image->width - at);
        }
        for (int64_t row = 0; row < image->output_rows; row += together)
            make_rows(image, kernel, stride, together, row, column, weights, masks, store);
    }
}

AVX512 static void rows_3_1(const image_rows *image) {
    make_image(image, 3, 1, 7);
}
AVX512 static void rows_3_2(const image_rows *image) {
    make_image(image, 3, 2, 4);
}
AVX512 static void rows_5_1(const image_rows *image) {
    make_image(image, 5, 1, 4);
}
AVX512 static void rows_5_2(const image_rows *image) {
    make_image(image, 5, 2, 4);
}

AVX512 static void rows_7_1(const image_rows *image) {
    make_image(image, 7, 1, 8);
}
AVX512 static void rows_7_2(const image_rows *image) {
    make_image(image, 7, 2, 4);
}

bool rt_stencil_by_rows(const rt_stencil *s) {
    const int64_t kernel = s->kernel[0], stride = s->stride[0];
    return __builtin_cpu_supports("avx512f") && (kernel == 3 || kernel == 5 || kernel == 7) &&
           s->kernel[1] == kernel && (stride == 1 || stride == 2) && s->stride[1] == stride &&
           s->dilation[0] == 1 && s->dilation[1] == 1;
}

void rt_stencil_run_rows(const rt_stencil *s, const float *x, const float *weights, float *y, bool add,
                         const rt_stencil_end *end) {
    image_rows image = {.x = x,
                        .weights = weights,
                        .y = y,
                        .rows = s->input[0],
                        .width = s->input[1],
                        .output_rows = s->output[0],
                        .output_width = s->output[1],
                        .above = s->before[0],
                        .left = s->before[1],
                        .end = *end,
                        .add = add};
    const bool near = s->stride[0] == 1;
    if (s->kernel[0] == 3) (near ? rows_3_1 : rows_3_2)(&image);
    else if (s->kernel[0] == 5) (near ? rows_5_1 : rows_5_2)(&image);
    else (near ? rows_7_1 : rows_7_2)(&image);
}
#else
bool rt_stencil_by_rows(const rt_stencil *s) {
    (void)s;
    return false;
}

void rt_stencil_run_rows(const rt_stencil *s, const float *x, const float *weights, float *y, bool add,
                         const rt_stencil_end *end) {
    (void)s, (void)x, (void)weights, (void)y, (void)add, (void)end;
}
#endif

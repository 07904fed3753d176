/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic_rows.c: implements `dynamic_rows.h`. */
#include "runtime/kernels/portable/dynamic_rows.h"
#include "runtime/kernels/portable/integer_product.h"
#include <string.h>

RT_CLONES static float quantize(const float *x, int64_t count, int16_t *codes) {
    float low = 0, high = 0;
    _Pragma("omp simd reduction(min : low) reduction(max : high)") for (int64_t i = 0; i < count; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    /* All zeros: any scale is right, and this one can be divided by. */
    const float scale = high == low ? 1 : (high - low) / 255;
    const float zero = rt_round_within(0 - low / scale, 0, 255);
    RT_VECTOR for (int64_t i = 0; i < count; i++)
        codes[i] = (int16_t)(rt_round_within(x[i] / scale, -zero, 255 - zero));
    return scale;
}

float rt_dynamic_quantize(const float *x, int64_t count, int16_t *codes) {
    return quantize(x, count, codes);
}

/* Columns [from, to) of a row of sums as reals. */
RT_CLONES static void finish(const rt_byte_weights *w, const int32_t *sums, int32_t total, float scale, float *y,
                             bool add) {
    const int64_t columns = w->columns;
    for (int64_t j = 0; j < columns; j++) {
        const int32_t zero = rt_byte_load(w->dtype, w->zeros, w->zeros_each ? j : 0);
        /* As they wrap around, sums may too. */
        const int32_t sum = (int32_t)((uint32_t)sums[j] - (uint32_t)zero * (uint32_t)total);
        const float value = (float)sum * (scale * w->scales[w->scales_each ? j : 0]);
        y[j] = add ? y[j] + value : value;
    }
}

void rt_dynamic_multiply(const rt_byte_weights *w, const int16_t *codes, float scale, int64_t rows, float *to,
                         int64_t to_row, bool add, int32_t *sums) {
    for (int64_t row = 0; row < rows; row++, codes += w->depth) {
        uint32_t total = 0;
        memset(sums, 0, (size_t)w->columns * sizeof *sums);
        for (int64_t k = 0; k < w->depth; k++) total += (uint32_t)codes[k];
        for (int64_t k = 0; k < w->depth; k += RT_INTEGER_FEW) {
            const int64_t some = w->depth - k < RT_INTEGER_FEW ? w->depth - k : RT_INTEGER_FEW;
            rt_integer_add_rows(w->dtype, (const uint8_t *)w->data + k * w->columns, w->columns, some, w->columns,
                                codes + k, sums);
        }
        finish(w, sums, (int32_t)total, scale, to + row * to_row, add);
    }
}

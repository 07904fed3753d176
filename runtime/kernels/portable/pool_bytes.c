/* SPDX-License-Identifier: Apache-2.0 */
/* pool_bytes.c: implements pool_bytes.h.
 *
 * Each element of a window is a run of bytes, so that an output point is the maximum of some runs, a register at a time. The maximum so far
 * stays in registers with AVX-512; other machines take two runs at a time to a result in memory.
 */
#include "runtime/kernels/portable/pool_bytes.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

/* ---- lines of bytes ------------------------------------------------------------------------------------ */

#define LARGEST_LINES(type)                                                                                  \
    /* The largest of three lines; and of what is there and two more. */                                     \
    RT_CLONES static void largest_of_three_##type(const type *a, const type *b, const type *c,               \
                                                  type *restrict y, int64_t count) {                         \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const type two = a[i] > b[i] ? a[i] : b[i];                                                      \
            y[i] = two > c[i] ? two : c[i];                                                                  \
        }                                                                                                    \
    }                                                                                                        \
    RT_CLONES static void largest_with_two_##type(const type *a, const type *b, type *restrict y,            \
                                                  int64_t count) {                                           \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const type two = a[i] > b[i] ? a[i] : b[i];                                                      \
            y[i] = two > y[i] ? two : y[i];                                                                  \
        }                                                                                                    \
    }
LARGEST_LINES(int8_t)
LARGEST_LINES(uint8_t)

void rt_larger_bytes(bool negative, const uint8_t *a, const uint8_t *b, uint8_t *y, int64_t count) {
    if (negative) largest_with_two_int8_t((const int8_t *)a, (const int8_t *)b, (int8_t *)y, count);
    else largest_with_two_uint8_t(a, b, y, count);
}

void rt_largest_bytes(bool negative, const uint8_t *x, int64_t lines, int64_t step, uint8_t *y,
                      int64_t count) {
    const uint8_t *second = x + (lines > 1 ? step : 0), *third = x + (lines > 2 ? 2 * step : 0);
    if (negative)
        largest_of_three_int8_t((const int8_t *)x, (const int8_t *)second, (const int8_t *)third, (int8_t *)y,
                                count);
    else largest_of_three_uint8_t(x, second, third, y, count);
    for (int64_t i = 3; i < lines; i += 2)
        rt_larger_bytes(negative, x + i * step, x + (i + 1 < lines ? i + 1 : i) * step, y, count);
}

/* ---- points of windows --------------------------------------------------------------------------------- */

/* What a window sees: points, `step` bytes apart in a row, and rows, `next` bytes apart. Nothing where `height` or `width` is 0. */
typedef struct seen {
    const uint8_t *from;
    int64_t height, width, step, next;
} seen;

/* The rows of windows of one row of the output; their columns are set for each. */
static seen rows_of(const rt_pool_bytes *shape, int64_t row, int64_t *top) {
    const int64_t start = row * shape->stride[0] - shape->before[0];
    const rt_part part = rt_part_inside(start, shape->dilation[0], shape->input[0], shape->kernel[0]);
    *top = start + part.low * shape->dilation[0];
    return (seen){.height = part.high > part.low ? part.high - part.low : 0,
                  .step = shape->dilation[1] * shape->channels,
                  .next = shape->dilation[0] * shape->input[1] * shape->channels};
}

static void set_columns(const rt_pool_bytes *shape, const uint8_t *x, int64_t top, int64_t column,
                        seen *window) {
    const int64_t start = column * shape->stride[1] - shape->before[1];
    const rt_part part = rt_part_inside(start, shape->dilation[1], shape->input[1], shape->kernel[1]);
    const int64_t left = start + part.low * shape->dilation[1];
    window->width = part.high > part.low ? part.high - part.low : 0;
    window->from = window->height && window->width ? x + (top * shape->input[1] + left) * shape->channels : x;
}

/* ---- any machine --------------------------------------------------------------------------------------- */

/* The element of the window after the one at *row, *column. */
static inline const uint8_t *following(const seen *window, int64_t *row, int64_t *column) {
    if (++*column == window->width) {
        *column = 0;
        ++*row;
    }
    return window->from + *row * window->next + *column * window->step;
}

#define LARGEST(type, lowest)                                                                                \
    RT_CLONES static void row_##type(const rt_pool_bytes *shape, const uint8_t *x, int64_t row,              \
                                     uint8_t *to) {                                                          \
        const int64_t channels = shape->channels;                                                            \
        int64_t top;                                                                                         \
        seen window = rows_of(shape, row, &top);                                                             \
        type *restrict y = (type *)to;                                                                       \
        for (int64_t column = 0; column < shape->output[1]; column++, y += channels) {                       \
            set_columns(shape, x, top, column, &window);                                                     \
            const int64_t elements = window.height * window.width;                                           \
            int64_t r = 0, k = 0;                                                                            \
            const type *first = (const type *)window.from, *second = first;                                  \
            if (elements == 0) {                                                                             \
                for (int64_t c = 0; c < channels; c++) y[c] = lowest;                                        \
                continue;                                                                                    \
            }                                                                                                \
            if (elements > 1) second = (const type *)following(&window, &r, &k);                             \
            RT_VECTOR for (int64_t c = 0; c < channels; c++) y[c] =                                          \
                first[c] > second[c] ? first[c] : second[c];                                                 \
            for (int64_t i = 2; i < elements; i += 2) {                                                      \
                first = second = (const type *)following(&window, &r, &k);                                   \
                if (i + 1 < elements) second = (const type *)following(&window, &r, &k);                     \
                RT_VECTOR for (int64_t c = 0; c < channels; c++) {                                           \
                    const type two = first[c] > second[c] ? first[c] : second[c];                            \
                    y[c] = two > y[c] ? two : y[c];                                                          \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
LARGEST(int8_t, INT8_MIN)
LARGEST(uint8_t, 0)

/* ---- AVX-512 ------------------------------------------------------------------------------------------- */

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512bw")))
#define INLINE static inline __attribute__((always_inline))

enum { BYTES = 64 };

AVX512 INLINE __m512i larger(__m512i a, __m512i b, bool negative) {
    return negative ? _mm512_max_epi8(a, b) : _mm512_max_epu8(a, b);
}

/* The maximum of some registers of channels; of the last one, `some` lanes are channels. */
#define MAXIMUM(REGISTERS)                                                                                   \
    AVX512 INLINE void maximum_##REGISTERS(const seen *window, bool negative, __mmask64 some, uint8_t *y) {  \
        __m512i most[REGISTERS];                                                                             \
        for (int i = 0; i < REGISTERS; i++)                                                                  \
            most[i] = negative ? _mm512_set1_epi8(INT8_MIN) : _mm512_setzero_si512();                        \
        for (int64_t r = 0; r < window->height; r++) {                                                       \
            const uint8_t *from = window->from + r * window->next;                                           \
            for (int64_t k = 0; k < window->width; k++, from += window->step) {                              \
                _Pragma("GCC unroll 4") for (int i = 0; i < REGISTERS - 1; i++) most[i] =                    \
                    larger(most[i], _mm512_loadu_si512(from + i * BYTES), negative);                         \
                most[REGISTERS - 1] =                                                                        \
                    larger(most[REGISTERS - 1],                                                              \
                           _mm512_maskz_loadu_epi8(some, from + (REGISTERS - 1) * BYTES), negative);         \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 4") for (int i = 0; i < REGISTERS - 1; i++)                                      \
            _mm512_storeu_si512(y + i * BYTES, most[i]);                                                     \
        _mm512_mask_storeu_epi8(y + (REGISTERS - 1) * BYTES, some, most[REGISTERS - 1]);                     \
    }
MAXIMUM(1)
MAXIMUM(2)
MAXIMUM(4)
#undef MAXIMUM

AVX512 INLINE void row_512(const rt_pool_bytes *shape, const uint8_t *x, int64_t row, bool negative,
                           uint8_t *y) {
    const int64_t channels = shape->channels, lead = shape->dilation[1] * (shape->kernel[1] - 1);
    int64_t top;
    seen window = rows_of(shape, row, &top);
    for (int64_t column = 0; column < shape->output[1]; column++) {
        const int64_t left = column * shape->stride[1] - shape->before[1];
        if (left < 0 || left + lead >= shape->input[1] || window.height == 0) {
            set_columns(shape, x, top, column, &window);
        } else {
            window.width = shape->kernel[1];
            window.from = x + (top * shape->input[1] + left) * channels;
        }
        for (int64_t c = 0; c < channels;) {
            const int64_t rest = channels - c,
                          registers = rest > 3 * BYTES ? 4
                                      : rest > BYTES   ? 2
                                                       : 1,
                          done = registers * BYTES < rest ? registers * BYTES : rest;
            const __mmask64 some = rt_first_lanes_64(rest - (registers - 1) * BYTES);
            if (registers == 4) maximum_4(&window, negative, some, y);
            else if (registers == 2) maximum_2(&window, negative, some, y);
            else maximum_1(&window, negative, some, y);
            if (window.height && window.width) window.from += done;
            y += done;
            c += done;
        }
    }
}

AVX512 static void row_signed_512(const rt_pool_bytes *shape, const uint8_t *x, int64_t row, uint8_t *y) {
    row_512(shape, x, row, true, y);
}

AVX512 static void row_unsigned_512(const rt_pool_bytes *shape, const uint8_t *x, int64_t row, uint8_t *y) {
    row_512(shape, x, row, false, y);
}
#endif

void rt_pool_bytes_row(const rt_pool_bytes *shape, const uint8_t *x, int64_t row, uint8_t *y) {
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512bw")) {
        if (shape->negative) row_signed_512(shape, x, row, y);
        else row_unsigned_512(shape, x, row, y);
        return;
    }
#endif
    if (shape->negative) row_int8_t(shape, x, row, y);
    else row_uint8_t(shape, x, row, y);
}

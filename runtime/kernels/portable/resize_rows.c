/* SPDX-License-Identifier: Apache-2.0 */
/* resize_rows.c: see resize_rows.h. */
#include "runtime/kernels/portable/resize_rows.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>

enum { CUBIC_TAPS = 4 };

/* Elements of the input by their indices; or each twice, in vectors. */
#define NEAREST_ROW(name, type)                                                                              \
    RT_CLONES static void name(const type *restrict from, const rt_across *by, int64_t width,                \
                               type *restrict to) {                                                          \
        const int32_t *indices = by->indices;                                                                \
        if (by->twice) {                                                                                     \
            RT_VECTOR for (int64_t x = 0; x < width / 2; x++) to[2 * x] = to[2 * x + 1] = from[x];           \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t x = 0; x < width; x++) to[x] = from[indices[x]];                                        \
    }
NEAREST_ROW(nearest_row_1, uint8_t)
NEAREST_ROW(nearest_row_2, uint16_t)
NEAREST_ROW(nearest_row_4, uint32_t)
NEAREST_ROW(nearest_row_8, uint64_t)

#if RT_X86_KERNELS
#define WIDE __attribute__((target("avx512f")))
enum { LANES = 16 };

/* Each of `count` words twice, and the whole row `rows` times. */
WIDE static void twice_512(const uint32_t *from, int64_t count, uint32_t *to, int64_t rows) {
    const __m512i low = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0),
                  high = _mm512_add_epi32(low, _mm512_set1_epi32(LANES / 2));
    for (int64_t i = 0; i < count; i += LANES) {
        const __m512i words = _mm512_maskz_loadu_epi32(rt_first_lanes_16(count - i), from + i),
                      front = _mm512_permutexvar_epi32(low, words),
                      back = _mm512_permutexvar_epi32(high, words);
        uint32_t *y = to + 2 * i;
        for (int64_t row = 0; row < rows; row++, y += 2 * count) {
            const int64_t left = 2 * (count - i);
            if (left >= LANES) _mm512_storeu_si512(y, front);
            else _mm512_mask_storeu_epi32(y, rt_first_lanes_16(left), front);
            if (left >= 2 * LANES) _mm512_storeu_si512(y + LANES, back);
            else if (left > LANES) _mm512_mask_storeu_epi32(y + LANES, rt_first_lanes_16(left - LANES), back);
        }
    }
}

/* Four vectors of a row, or where it is not `far` two: the elements at these places of them. */
WIDE static inline __attribute__((always_inline)) __m512 picked_512(const __m512 parts[4], bool far,
                                                                    __m512i at) {
    const __m512 near = _mm512_permutex2var_ps(parts[0], at, parts[1]);
    if (!far) return near;
    return _mm512_mask_mov_ps(near, _mm512_cmpge_epi32_mask(at, _mm512_set1_epi32(2 * LANES)),
                              _mm512_permutex2var_ps(parts[2], at, parts[3]));
}

/* The same of `some` outputs from x on, which read places from `first` to `last` of the row. */
WIDE static inline __attribute__((always_inline)) __m512 blended_512(const float *from, const rt_across *a,
                                                                     int64_t width, int64_t x, __mmask16 some,
                                                                     int64_t first, int64_t last) {
    const __m512i low = _mm512_maskz_loadu_epi32(some, a->indices + x),
                  high = _mm512_maskz_loadu_epi32(some, a->indices + width + x),
                  begin = _mm512_set1_epi32((int)first);
    const int64_t seen = last - first + 1;
    const bool far = seen > 2 * LANES;
    __m512 of_low, of_high, parts[4];
    if (seen > 4 * LANES) {
        of_low = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), some, low, from, sizeof *from);
        of_high = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), some, high, from, sizeof *from);
    } else {
        from += first;
        if (first + 4 * LANES <= a->extent) {
            for (int k = 0; k < 4; k++) parts[k] = _mm512_loadu_ps(from + k * LANES);
        } else {
            for (int k = 0; k < 4; k++)
                parts[k] = _mm512_maskz_loadu_ps(rt_first_lanes_16(seen - k * LANES), from + k * LANES);
        }
        of_low = picked_512(parts, far, _mm512_sub_epi32(low, begin));
        of_high = picked_512(parts, far, _mm512_sub_epi32(high, begin));
    }
    const __m512 w = _mm512_maskz_loadu_ps(some, a->weights + x),
                 rest = _mm512_maskz_loadu_ps(some, a->weights + width + x),
                 sum = _mm512_add_ps(_mm512_setzero_ps(), _mm512_mul_ps(w, of_low));
    return _mm512_add_ps(sum, _mm512_mul_ps(rest, of_high));
}

/* `some` outputs from x on, of which the last one is `end` - 1. */
WIDE static inline __attribute__((always_inline)) __m512 blended_from_512(const float *from,
                                                                          const rt_across *a, int64_t width,
                                                                          int64_t x, int64_t end,
                                                                          __mmask16 some) {
    int32_t low = a->indices[x], high = a->indices[width + end - 1];
    if (a->group > 1) {
        low -= low % a->group;
        high += a->group - 1 - high % a->group;
    }
    return blended_512(from, a, width, x, some, low, high);
}

/* rt_blend_line with what lies near to each other read in vectors. */
WIDE static void blend_line_512(const float *from, const rt_across *a, int64_t width, float *line) {
    int64_t x = 0;
    for (; x + LANES <= width; x += LANES)
        _mm512_storeu_ps(line + x, blended_from_512(from, a, width, x, x + LANES, 0xffff));
    if (x == width) return;
    const __mmask16 some = rt_first_lanes_16(width - x);
    _mm512_mask_storeu_ps(line + x, some, blended_from_512(from, a, width, x, width, some));
}
#endif

void rt_nearest_rows(size_t element, const void *from, const rt_across *by, int64_t width, void *to,
                     int64_t rows) {
#if RT_X86_KERNELS
    if (by->twice && element == sizeof(uint32_t) && __builtin_cpu_supports("avx512f")) {
        twice_512(from, width / 2, to, rows);
        return;
    }
#endif
    switch (element) {
    case 1:
        nearest_row_1(from, by, width, to);
        break;
    case 2:
        nearest_row_2(from, by, width, to);
        break;
    case 4:
        nearest_row_4(from, by, width, to);
        break;
    case 8:
        nearest_row_8(from, by, width, to);
        break;
    default:
        for (int64_t x = 0; x < width; x++)
            memcpy((char *)to + (size_t)x * element, (const char *)from + (size_t)by->indices[x] * element,
                   element);
    }
    const size_t bytes = (size_t)width * element;
    for (int64_t row = 1; row < rows; row++) memcpy((char *)to + (size_t)row * bytes, to, bytes);
}

RT_CLONES static void blend_row(const float *from, rt_across a, int taps, int64_t width, float weight,
                                float *to) {
    const int32_t *i = a.indices;
    const float *w = a.weights;
    if (taps == 2) {
        RT_VECTOR for (int64_t x = 0; x < width; x++) {
            const float line = 0 + w[x] * from[i[x]] + w[width + x] * from[i[width + x]];
            to[x] += weight * line;
        }
        return;
    }
    if (taps != CUBIC_TAPS) {
        for (int k = 0; k < taps; k++, i += width, w += width)
            RT_VECTOR for (int64_t x = 0; x < width; x++) to[x] += weight * w[x] * from[i[x]];
        return;
    }
    RT_VECTOR for (int64_t x = 0; x < width; x++) {
        const float line = 0 + w[x] * from[i[x]] + w[width + x] * from[i[width + x]] +
                           w[2 * width + x] * from[i[2 * width + x]] +
                           w[3 * width + x] * from[i[3 * width + x]];
        to[x] += weight * line;
    }
}

RT_CLONES static void blend_line_any(const float *from, rt_across a, int64_t width, float *line) {
    const int32_t *i = a.indices;
    const float *w = a.weights;
    RT_VECTOR for (int64_t x = 0; x < width; x++) line[x] =
        0 + w[x] * from[i[x]] + w[width + x] * from[i[width + x]];
}

void rt_blend_line(const float *from, rt_across a, int64_t width, float *line) {
#if RT_X86_KERNELS
    if (!a.falls && __builtin_cpu_supports("avx512f")) {
        blend_line_512(from, &a, width, line);
        return;
    }
#endif
    blend_line_any(from, a, width, line);
}

RT_CLONES static void add_lines(const float *a, const float *b, int64_t width, float of_a, float of_b,
                                float *to) {
    if (!b) {
        RT_VECTOR for (int64_t x = 0; x < width; x++) to[x] = 0 + of_a * a[x];
        return;
    }
    RT_VECTOR for (int64_t x = 0; x < width; x++) to[x] = 0 + of_a * a[x] + of_b * b[x];
}

RT_CLONES static void add_row(const float *from, int64_t width, float weight, float *line) {
    RT_VECTOR for (int64_t x = 0; x < width; x++) line[x] += weight * from[x];
}

/* Functions with several versions are seen by whoever links with the library, unless they are static. */
void rt_blend_row(const float *from, rt_across a, int taps, int64_t width, float weight, float *to) {
    blend_row(from, a, taps, width, weight, to);
}

void rt_add_lines(const float *a, const float *b, int64_t width, float of_a, float of_b, float *to) {
    add_lines(a, b, width, of_a, of_b, to);
}

void rt_add_row(const float *from, int64_t width, float weight, float *line) {
    add_row(from, width, weight, line);
}

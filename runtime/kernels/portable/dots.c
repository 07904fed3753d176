/* SPDX-License-Identifier: Apache-2.0 */
/* dots.c: the rows of a matrix times a vector, for the instruction set that the machine has; see product.h. No vector is wider
 * than a register: wider ones, which a compiler has to cut, are kept in memory by it.
 */
#include "runtime/kernels/portable/product.h"
#include <string.h>

/* Halves of RT_DOT_LANES sums are added until one is left; then the sum is y. */
#define FOLD(parts, y)                                                                                       \
    do {                                                                                                     \
        _Pragma("GCC unroll 8") for (int l = 0; l < 8; l++) parts[l] += parts[l + 8];                        \
        _Pragma("GCC unroll 4") for (int l = 0; l < 4; l++) parts[l] += parts[l + 4];                        \
        y = (parts[0] + parts[2]) + (parts[1] + parts[3]);                                                   \
    } while (0)

/* ROWS sums at once, so that no addition waits for the one before. What is left of the depth is filled up with zeros. */
#define DOTS(name, target, real, vector, loose, ROWS)                                                        \
    target static void name(const real *a, const real *b, int64_t step, int64_t depth, real *y) {            \
        enum { WIDE = sizeof(vector) / sizeof(real), VECTORS = RT_DOT_LANES / WIDE };                        \
        vector sums[ROWS][VECTORS];                                                                          \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) sums[r][v] = (vector){0};             \
        }                                                                                                    \
        int64_t k = 0;                                                                                       \
        for (; k + RT_DOT_LANES <= depth; k += RT_DOT_LANES) {                                               \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                     \
                const vector left = *(const loose *)(a + k + v * WIDE);                                      \
                _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) sums[r][v] +=                        \
                    left * *(const loose *)(b + r * step + k + v * WIDE);                                    \
            }                                                                                                \
        }                                                                                                    \
        if (k < depth) {                                                                                     \
            real left[RT_DOT_LANES] = {0}, right[RT_DOT_LANES] = {0};                                        \
            memcpy(left, a + k, (size_t)(depth - k) * sizeof(real));                                         \
            _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                        \
                memcpy(right, b + r * step + k, (size_t)(depth - k) * sizeof(real));                         \
                _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) sums[r][v] +=                     \
                    *(const loose *)(left + v * WIDE) * *(const loose *)(right + v * WIDE);                  \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
            real parts[RT_DOT_LANES];                                                                        \
            memcpy(parts, sums[r], sizeof parts);                                                            \
            FOLD(parts, y[r]);                                                                               \
        }                                                                                                    \
    }

/* A vector, and one that may lie anywhere. */
#define VECTOR(name, real, bytes)                                                                            \
    typedef real name __attribute__((vector_size(bytes), may_alias));                                        \
    typedef real loose_##name __attribute__((vector_size(bytes), may_alias, aligned(sizeof(real))))
VECTOR(floats_16, float, 16);
VECTOR(doubles_16, double, 16);

#define BASELINE
DOTS(floats_1_baseline, BASELINE, float, floats_16, loose_floats_16, 1)
DOTS(floats_2_baseline, BASELINE, float, floats_16, loose_floats_16, 2)
DOTS(doubles_1_baseline, BASELINE, double, doubles_16, loose_doubles_16, 1)

#if defined(__x86_64__) && defined(__GNUC__)
VECTOR(floats_32, float, 32);
VECTOR(floats_64, float, 64);
VECTOR(doubles_32, double, 32);
VECTOR(doubles_64, double, 64);
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))
DOTS(floats_1_avx2, AVX2, float, floats_32, loose_floats_32, 1)
DOTS(floats_4_avx2, AVX2, float, floats_32, loose_floats_32, 4)
DOTS(floats_1_avx512, AVX512, float, floats_64, loose_floats_64, 1)
DOTS(floats_8_avx512, AVX512, float, floats_64, loose_floats_64, 8)
DOTS(doubles_1_avx2, AVX2, double, doubles_32, loose_doubles_32, 1)
DOTS(doubles_2_avx2, AVX2, double, doubles_32, loose_doubles_32, 2)
DOTS(doubles_1_avx512, AVX512, double, doubles_64, loose_doubles_64, 1)
DOTS(doubles_4_avx512, AVX512, double, doubles_64, loose_doubles_64, 4)
#endif

typedef void dots_floats(const float *a, const float *b, int64_t step, int64_t depth, float *y);
typedef void dots_doubles(const double *a, const double *b, int64_t step, int64_t depth, double *y);

void rt_dots(const float *a, const float *b, int64_t step, int64_t depth, int64_t count, float *y) {
    int64_t rows = 2;
    dots_floats *several = floats_2_baseline, *one = floats_1_baseline;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) {
        rows = 8, several = floats_8_avx512, one = floats_1_avx512;
    } else if (__builtin_cpu_supports("avx2")) {
        rows = 4, several = floats_4_avx2, one = floats_1_avx2;
    }
#endif
    int64_t i = 0;
    for (; i + rows <= count; i += rows) several(a, b + i * step, step, depth, y + i);
    for (; i < count; i++) one(a, b + i * step, step, depth, y + i);
}

void rt_dots_doubles(const double *a, const double *b, int64_t step, int64_t depth, int64_t count,
                     double *y) {
    int64_t rows = 1;
    dots_doubles *several = doubles_1_baseline, *one = doubles_1_baseline;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f")) {
        rows = 4, several = doubles_4_avx512, one = doubles_1_avx512;
    } else if (__builtin_cpu_supports("avx2")) {
        rows = 2, several = doubles_2_avx2, one = doubles_1_avx2;
    }
#endif
    int64_t i = 0;
    for (; i + rows <= count; i += rows) several(a, b + i * step, step, depth, y + i);
    for (; i < count; i++) one(a, b + i * step, step, depth, y + i);
}

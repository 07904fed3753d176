/* SPDX-License-Identifier: Apache-2.0 */
/* dots.c: the rows of a matrix times a vector, for the instruction set that the machine has; see product.h. No vector is wider
 * than a register: wider ones, which a compiler has to cut, are kept in memory by it. Rows in half precision, as of caches that are kept
 * so, are widened in registers.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/product.h"
#include <string.h>

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif

enum {
    MOST_ROWS = 8, /* summed at once */
    SHARING = 16,  /* short rows whose sums become one together */
    /* Of larger matrices the rows that are summed at once lie far apart, so that memory is read from front to back in several places:
     * a processor reads ahead there by itself, and faster than in one. Smaller ones stay in the cache. */
    FAR_BYTES = 128 << 10
};

/* Rows that come later are asked for. An address past the last row does no harm, but is no pointer. Not with the widest vectors: processors
 * that have them read ahead faster by themselves (90 GB/s from the last cache where asking made it 62, and 46 from memory instead of
 * 36). */
#define PREFETCH(from, bytes) __builtin_prefetch((const void *)((uintptr_t)(from) + (uintptr_t)(bytes)), 0, 2)

/* ROWS sums at once, so that no addition waits for the one before. What is left of the depth is filled up with zeros: REST adds
 * it. END makes each row's RT_DOT_LANES sums one: halves are added until one is left. */
#define DOTS(name, target, real, vector, loose, ROWS, REST, END)                                             \
    target static void name(const real *a, const real *b, int64_t step, int64_t ahead, int64_t depth,        \
                            real *y) {                                                                       \
        enum { WIDE = sizeof(vector) / sizeof(real), VECTORS = RT_DOT_LANES / WIDE };                        \
        vector sums[ROWS][VECTORS];                                                                          \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) sums[r][v] = (vector){0};             \
        }                                                                                                    \
        int64_t k = 0;                                                                                       \
        for (; k + RT_DOT_LANES <= depth; k += RT_DOT_LANES) {                                               \
            _Pragma("GCC unroll 16") for (int r = 0; r < ROWS && ROWS > 2 && sizeof(vector) < 64; r++)       \
                PREFETCH(b, (r * step + ahead + k) * (int64_t)sizeof(real));                                 \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) {                                     \
                const vector left = *(const loose *)(a + k + v * WIDE);                                      \
                _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) sums[r][v] +=                        \
                    left * *(const loose *)(b + r * step + k + v * WIDE);                                    \
            }                                                                                                \
        }                                                                                                    \
        if (k < depth) REST(real, loose, ROWS);                                                              \
        END(real, ROWS);                                                                                     \
    }

#define REST_COPIED(real, loose, ROWS)                                                                       \
    {                                                                                                        \
        real left[RT_DOT_LANES] = {0}, right[RT_DOT_LANES] = {0};                                            \
        memcpy(left, a + k, (size_t)(depth - k) * sizeof(real));                                             \
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
            memcpy(right, b + r * step + k, (size_t)(depth - k) * sizeof(real));                             \
            _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) sums[r][v] +=                         \
                *(const loose *)(left + v * WIDE) * *(const loose *)(right + v * WIDE);                      \
        }                                                                                                    \
    }

#define END_COPIED(real, ROWS)                                                                               \
    _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                                \
        real parts[RT_DOT_LANES];                                                                            \
        memcpy(parts, sums[r], sizeof parts);                                                                \
        _Pragma("GCC unroll 8") for (int l = 0; l < 8; l++) parts[l] += parts[l + 8];                        \
        _Pragma("GCC unroll 4") for (int l = 0; l < 4; l++) parts[l] += parts[l + 4];                        \
        y[r] = (parts[0] + parts[2]) + (parts[1] + parts[3]);                                                \
    }

/* A vector, and one that may lie anywhere. */
#define VECTOR(name, real, bytes)                                                                            \
    typedef real name __attribute__((vector_size(bytes), may_alias));                                        \
    typedef real loose_##name __attribute__((vector_size(bytes), may_alias, aligned(sizeof(real))))
VECTOR(floats_16, float, 16);
VECTOR(doubles_16, double, 16);

#define BASELINE
DOTS(floats_1_baseline, BASELINE, float, floats_16, loose_floats_16, 1, REST_COPIED, END_COPIED)
DOTS(floats_2_baseline, BASELINE, float, floats_16, loose_floats_16, 2, REST_COPIED, END_COPIED)
DOTS(doubles_1_baseline, BASELINE, double, doubles_16, loose_doubles_16, 1, REST_COPIED, END_COPIED)

#if RT_X86_KERNELS
VECTOR(floats_32, float, 32);
VECTOR(floats_64, float, 64);
VECTOR(doubles_32, double, 32);
VECTOR(doubles_64, double, 64);
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

#if __has_builtin(__builtin_shufflevector)
/* The last four sums of four rows become one each, side by side. */
static inline void end_four(floats_16 a, floats_16 b, floats_16 c, floats_16 d, float *y) {
    const floats_16 ab =
                        __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7),
                    cd =
                        __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(loose_floats_16 *)y =
        __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* By QUARTER(r), the last four sums of row r. */
#define END_FOUR(QUARTER, ROWS)                                                                              \
    _Pragma("GCC unroll 2") for (int r = 0; r < ROWS; r += 4)                                                \
        end_four(QUARTER(r), QUARTER(r + 1), QUARTER(r + 2), QUARTER(r + 3), y + r)
#define HALVES_4(v) (__builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7))
#define HALVES_8(v)                                                                                          \
    (__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +                                                 \
     __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15))
#define QUARTER_AVX2(r) HALVES_4((sums[r][0] + sums[r][1]))
#define QUARTER_AVX512(r) HALVES_4(HALVES_8(sums[r][0]))
#define END_AVX2(real, ROWS) END_FOUR(QUARTER_AVX2, ROWS)
#define END_AVX512(real, ROWS) END_FOUR(QUARTER_AVX512, ROWS)

/* Halves are added for sixteen rows together: those of rows r and r + 4 lie side by side first, then of r to r + 12, in the end all rows in
 * their order. */
#define QUARTERS(a, b, m, n)                                                                                 \
    (__builtin_shufflevector(a, b, m, m + 1, m + 2, m + 3, n, n + 1, n + 2, n + 3, 16 + m, 17 + m, 18 + m,   \
                             19 + m, 16 + n, 17 + n, 18 + n, 19 + n))
#define LANES_OF_QUARTERS(a, b, m, n)                                                                        \
    (__builtin_shufflevector(a, b, m, n, 16 + m, 16 + n, 4 + m, 4 + n, 20 + m, 20 + n, 8 + m, 8 + n, 24 + m, \
                             24 + n, 12 + m, 12 + n, 28 + m, 28 + n))
#define END_SIXTEEN(real, ROWS)                                                                              \
    floats_64 halves[8], quarters[4], pairs[2];                                                              \
    _Pragma("GCC unroll 8") for (int h = 0; h < 8; h++) {                                                    \
        const int r = h < 4 ? h : h + 4;                                                                     \
        halves[h] =                                                                                          \
            QUARTERS(sums[r][0], sums[r + 4][0], 0, 4) + QUARTERS(sums[r][0], sums[r + 4][0], 8, 12);        \
    }                                                                                                        \
    _Pragma("GCC unroll 4") for (int r = 0; r < 4; r++) quarters[r] =                                        \
        QUARTERS(halves[r], halves[r + 4], 0, 8) + QUARTERS(halves[r], halves[r + 4], 4, 12);                \
    _Pragma("GCC unroll 2") for (int r = 0; r < 2; r++) pairs[r] =                                           \
        LANES_OF_QUARTERS(quarters[2 * r], quarters[2 * r + 1], 0, 1) +                                      \
        LANES_OF_QUARTERS(quarters[2 * r], quarters[2 * r + 1], 2, 3);                                       \
    *(loose_floats_64 *)y =                                                                                  \
        LANES_OF_QUARTERS(pairs[0], pairs[1], 0, 2) + LANES_OF_QUARTERS(pairs[0], pairs[1], 1, 3)
#else
#define END_AVX2 END_COPIED
#define END_AVX512 END_COPIED
#define END_SIXTEEN END_COPIED
#endif

/* Elements that are there, and zeros, without a copy. */
static const int32_t there[2 * RT_DOT_LANES] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                                -1, -1, -1, -1, -1, -1, -1, -1};
#define REST_AVX2(real, loose, ROWS)                                                                         \
    {                                                                                                        \
        const int32_t *from = there + RT_DOT_LANES - (depth - k);                                            \
        _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) {                                          \
            const __m256i mask = _mm256_loadu_si256((const __m256i *)(const void *)(from + v * WIDE));       \
            const floats_32 left = _mm256_maskload_ps(a + k + v * WIDE, mask);                               \
            _Pragma("GCC unroll 4") for (int r = 0; r < ROWS; r++) sums[r][v] +=                             \
                left * (floats_32)_mm256_maskload_ps(b + r * step + k + v * WIDE, mask);                     \
        }                                                                                                    \
    }
#define REST_AVX512(real, loose, ROWS)                                                                       \
    {                                                                                                        \
        const __mmask16 mask = rt_first_lanes_16(depth - k);                                                 \
        const floats_64 left = _mm512_maskz_loadu_ps(mask, a + k);                                           \
        _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++) sums[r][0] +=                                 \
            left * (floats_64)_mm512_maskz_loadu_ps(mask, b + r * step + k);                                 \
    }
DOTS(floats_1_avx2, AVX2, float, floats_32, loose_floats_32, 1, REST_AVX2, END_COPIED)
DOTS(floats_4_avx2, AVX2, float, floats_32, loose_floats_32, 4, REST_AVX2, END_AVX2)
DOTS(floats_1_avx512, AVX512, float, floats_64, loose_floats_64, 1, REST_AVX512, END_COPIED)
DOTS(floats_8_avx512, AVX512, float, floats_64, loose_floats_64, 8, REST_AVX512, END_AVX512)

/* Rows that are no longer than a register: what it takes to make their sums one is most of the work, and sixteen rows share it. `whole`: they are as
 * long, so that no lane is masked, which would be one more instruction a row. Sums begin with 0, which is of no matter but to those of -0
 * alone: it is added in the end. */
AVX512 static inline __attribute__((always_inline)) void short_rows(bool whole, const float *a,
                                                                    const float *b, int64_t step,
                                                                    int64_t depth, int64_t groups, float *y) {
    const __mmask16 mask = (__mmask16)((1U << depth) - 1);
    const floats_64 left = _mm512_maskz_loadu_ps(mask, a);
    for (; groups > 0; groups--, b += SHARING * step, y += SHARING) {
        floats_64 sums[SHARING][1];
        _Pragma("GCC unroll 16") for (int r = 0; r < SHARING; r++) {
            const float *row = b + r * step;
            sums[r][0] = left * (floats_64)(whole ? _mm512_loadu_ps(row) : _mm512_maskz_loadu_ps(mask, row));
        }
        END_SIXTEEN(float, SHARING);
        *(loose_floats_64 *)y += (floats_64){0};
    }
}

AVX512 static void short_rows_avx512(const float *a, const float *b, int64_t step, int64_t depth,
                                     int64_t groups, float *y) {
    if (depth == RT_DOT_LANES) short_rows(true, a, b, step, depth, groups, y);
    else short_rows(false, a, b, step, depth, groups, y);
}

/* Sixteen rows in half precision, of whole registers: four in each of four places that lie `far` apart. */
#define DOTS_HALVES(name, LOAD)                                                                              \
    AVX512 static void name(const float *a, const uint16_t *b, int64_t step, int64_t far, int64_t depth,     \
                            float *y) {                                                                      \
        floats_64 sums[SHARING][1];                                                                          \
        _Pragma("GCC unroll 16") for (int r = 0; r < SHARING; r++) sums[r][0] = (floats_64){0};              \
        for (int64_t k = 0; k < depth; k += RT_DOT_LANES) {                                                  \
            const floats_64 left = *(const loose_floats_64 *)(a + k);                                        \
            _Pragma("GCC unroll 16") for (int r = 0; r < SHARING; r++)                                       \
                __builtin_prefetch(b + r / 4 * far + (r % 4 + 8) * step + k, 0, 3);                          \
            _Pragma("GCC unroll 16") for (int r = 0; r < SHARING; r++) sums[r][0] =                          \
                _mm512_fmadd_ps(left, LOAD(floats_64, b + r / 4 * far + r % 4 * step + k), sums[r][0]);      \
        }                                                                                                    \
        END_SIXTEEN(float, SHARING);                                                                         \
    }
DOTS_HALVES(dots_half_avx512, RT_LOAD_HALF_16)
DOTS_HALVES(dots_brain_avx512, RT_LOAD_BRAIN_16)

/* y[j] += the sum over k of p[k] * b[k * step + j], of ROWS rows, for whole registers: eight rows are two in each of four places that
 * are `each` rows apart. */
#define ADD_HALVES(name, ROWS, LOAD)                                                                         \
    AVX512 static void name(const float *p, const uint16_t *b, int64_t step, int64_t each, int64_t columns,  \
                            float *y) {                                                                      \
        for (int64_t j = 0; j < columns; j += RT_DOT_LANES) {                                                \
            floats_64 even = *(const loose_floats_64 *)(y + j), odd = {0};                                   \
            _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++)                                           \
                __builtin_prefetch(b + (r / 2 * each + r % 2 + 8) * step + j, 0, 3);                         \
            _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r += 2) {                                      \
                const int64_t at = r / 2 * each;                                                             \
                even = _mm512_fmadd_ps(_mm512_set1_ps(p[at]), LOAD(floats_64, b + at * step + j), even);     \
                if (r + 1 < ROWS)                                                                            \
                    odd = _mm512_fmadd_ps(_mm512_set1_ps(p[at + 1]),                                         \
                                          LOAD(floats_64, b + (at + 1) * step + j), odd);                    \
            }                                                                                                \
            *(loose_floats_64 *)(y + j) = even + odd;                                                        \
        }                                                                                                    \
    }
ADD_HALVES(add_half_8, 8, RT_LOAD_HALF_16)
ADD_HALVES(add_half_1, 1, RT_LOAD_HALF_16)
ADD_HALVES(add_brain_8, 8, RT_LOAD_BRAIN_16)
ADD_HALVES(add_brain_1, 1, RT_LOAD_BRAIN_16)
DOTS(doubles_1_avx2, AVX2, double, doubles_32, loose_doubles_32, 1, REST_COPIED, END_COPIED)
DOTS(doubles_2_avx2, AVX2, double, doubles_32, loose_doubles_32, 2, REST_COPIED, END_COPIED)
DOTS(doubles_1_avx512, AVX512, double, doubles_64, loose_doubles_64, 1, REST_COPIED, END_COPIED)
DOTS(doubles_4_avx512, AVX512, double, doubles_64, loose_doubles_64, 4, REST_COPIED, END_COPIED)
#endif

typedef void dots_floats(const float *a, const float *b, int64_t step, int64_t ahead, int64_t depth,
                         float *y);
typedef void dots_doubles(const double *a, const double *b, int64_t step, int64_t ahead, int64_t depth,
                          double *y);

/* Asks for the rows b + r * apart of each matrix of a stack. */
static void ask_for_rows(const rt_thin *stack, int64_t size, int64_t first, int64_t rows, int64_t apart,
                         int64_t depth) {
    for (int64_t s = 0; s < size; s++) {
        if (s > 0 && stack[s].b == stack[s - 1].b) continue;
        for (int64_t r = 0; r < rows; r++)
            rt_prefetch(stack[s].b + first + r * apart, (size_t)depth * sizeof(float));
    }
}

void rt_dots_stack(const rt_thin *stack, int64_t size, int64_t step, int64_t depth, int64_t count) {
    int64_t rows = 2;
    dots_floats *several = floats_2_baseline, *one = floats_1_baseline;
#if RT_X86_KERNELS
    if (depth > 0 && depth <= RT_DOT_LANES && count >= SHARING && __builtin_cpu_supports("avx512f")) {
        const int64_t groups = count / SHARING;
        for (int64_t s = 0; s < size; s++) {
            short_rows_avx512(stack[s].a, stack[s].b, step, depth, groups, stack[s].y);
            for (int64_t i = groups * SHARING; i < count; i++)
                floats_1_avx512(stack[s].a, stack[s].b + i * step, step, 0, depth, stack[s].y + i);
        }
        return;
    }
    if (__builtin_cpu_supports("avx512f")) {
        rows = 8, several = floats_8_avx512, one = floats_1_avx512;
    } else if (__builtin_cpu_supports("avx2")) {
        rows = 4, several = floats_4_avx2, one = floats_1_avx2;
    }
#endif
    const int64_t each = count / rows;
    /* The narrower functions ask by themselves. */
    const bool ask = rows == MOST_ROWS && rt_thin_shared(stack, size, (size_t)depth * sizeof(float));
    if (each * rows * step * (int64_t)sizeof(float) >= FAR_BYTES) {
        float sums[MOST_ROWS];
        for (int64_t i = 0; i < each; i++) {
            if (ask && i + 2 < each) ask_for_rows(stack, size, (i + 2) * step, rows, each * step, depth);
            for (int64_t s = 0; s < size; s++) {
                several(stack[s].a, stack[s].b + i * step, each * step, step, depth, sums);
                for (int64_t r = 0; r < rows; r++) stack[s].y[i + r * each] = sums[r];
            }
        }
    } else {
        for (int64_t i = 0; i < each * rows; i += rows) {
            if (ask && i + 3 * rows <= count)
                ask_for_rows(stack, size, (i + 2 * rows) * step, rows, step, depth);
            for (int64_t s = 0; s < size; s++)
                several(stack[s].a, stack[s].b + i * step, step, rows * step, depth, stack[s].y + i);
        }
    }
    for (int64_t i = each * rows; i < count; i++) {
        for (int64_t s = 0; s < size; s++)
            one(stack[s].a, stack[s].b + i * step, step, 0, depth, stack[s].y + i);
    }
}

void rt_dots(const float *a, const float *b, int64_t step, int64_t depth, int64_t count, float *y) {
    rt_dots_stack(&(rt_thin){a, b, y}, 1, step, depth, count);
}

void rt_dots_doubles(const double *a, const double *b, int64_t step, int64_t depth, int64_t count,
                     double *y) {
    int64_t rows = 1;
    dots_doubles *several = doubles_1_baseline, *one = doubles_1_baseline;
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) {
        rows = 4, several = doubles_4_avx512, one = doubles_1_avx512;
    } else if (__builtin_cpu_supports("avx2")) {
        rows = 2, several = doubles_2_avx2, one = doubles_1_avx2;
    }
#endif
    int64_t i = 0;
    for (; i + rows <= count; i += rows) several(a, b + i * step, step, rows * step, depth, y + i);
    for (; i < count; i++) one(a, b + i * step, step, 0, depth, y + i);
}

/* ---- half precision -------------------------------------------------------------------------------------- */

bool rt_halves_run_here(int64_t length) {
#if RT_X86_KERNELS
    return length > 0 && length % RT_DOT_LANES == 0 && __builtin_cpu_supports("avx512f");
#else
    (void)length;
    return false;
#endif
}

#if RT_X86_KERNELS
void rt_dots_halves(op_dtype stored, const rt_thin_halves *stack, int64_t size, int64_t step, int64_t depth,
                    int64_t count) {
    const bool brain = stored == OP_BFLOAT16;
    const int64_t each = count / SHARING * 4; /* rows of each place */
    for (int64_t i = 0; i < each; i += 4) {
        for (const rt_thin_halves *one = stack; one < stack + size; one++) {
            float sums[SHARING];
            (brain ? dots_brain_avx512 : dots_half_avx512)(one->a, one->b + i * step, step, each * step,
                                                           depth, sums);
            for (int place = 0; place < 4; place++)
                memcpy(one->y + place * each + i, sums + 4 * place, 4 * sizeof *sums);
        }
    }
    /* The last rows, each in the place of all sixteen. */
    for (const rt_thin_halves *one = stack; one < stack + size && 4 * each < count; one++) {
        for (int64_t i = 4 * each; i < count; i++) {
            float sums[SHARING];
            (brain ? dots_brain_avx512 : dots_half_avx512)(one->a, one->b + i * step, 0, 0, depth, sums);
            one->y[i] = sums[0];
        }
    }
}

void rt_rows_halves(op_dtype stored, const rt_thin_halves *stack, int64_t size, int64_t step, int64_t depth,
                    int64_t columns) {
    const bool brain = stored == OP_BFLOAT16;
    const int64_t each = depth / 8 * 2;
    for (int64_t k = 0; k < each; k += 2)
        for (const rt_thin_halves *one = stack; one < stack + size; one++)
            (brain ? add_brain_8 : add_half_8)(one->a + k, one->b + k * step, step, each, columns, one->y);
    for (int64_t k = 4 * each; k < depth; k++)
        for (const rt_thin_halves *one = stack; one < stack + size; one++)
            (brain ? add_brain_1 : add_half_1)(one->a + k, one->b + k * step, step, 0, columns, one->y);
}
#else
void rt_dots_halves(op_dtype stored, const rt_thin_halves *stack, int64_t size, int64_t step, int64_t depth,
                    int64_t count) {
    (void)stored, (void)stack, (void)size, (void)step, (void)depth, (void)count;
}

void rt_rows_halves(op_dtype stored, const rt_thin_halves *stack, int64_t size, int64_t step, int64_t depth,
                    int64_t columns) {
    (void)stored, (void)stack, (void)size, (void)step, (void)depth, (void)columns;
}
#endif

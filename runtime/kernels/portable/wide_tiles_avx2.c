/* SPDX-License-Identifier: Apache-2.0 */
/* wide_tiles_avx2.c: the innermost loops of wide_tiles.c in vectors of 8 floats. There are 16 registers: up to twelve hold sums, the others two
 * vectors of weights and a number of the left side; of few rows, these stay in registers, and weights pass by them.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/wide_tile.h"
#include <math.h>

#if RT_X86_KERNELS
#define FMA __attribute__((target("avx2,fma,f16c")))
#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = 8,
    EACH = RT_PANEL / LANES, /* vectors of a panel */
    MOST_ROWS = 6,
    MOST_VECTORS = 8, /* side by side */
    FEW_ROWS = 3      /* whose numbers stay in registers */
};

/* The vector at an element of a panel. */
FMA INLINE __m256 load(op_dtype stored, const char *at) {
    return stored == OP_FLOAT16    ? RT_LOAD_HALF_8(, at)
           : stored == OP_BFLOAT16 ? RT_LOAD_BRAIN_8(, at)
           : stored == OP_INT16    ? RT_LOAD_SHORT_8(, at)
                                   : _mm256_loadu_ps((const float *)(const void *)at);
}

/* Sums begin with what is there, or with zeros, while the memory that they go to is asked for. */
FMA INLINE void begin(const rt_wide_tile *t, int rows, int vectors, __m256 (*sums)[MOST_VECTORS]) {
    const bool add = t->add;
    _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++) {
        float *row = t->c + r * t->c_row;
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) {
            if (!add && v % EACH == 0) __builtin_prefetch(row + v * LANES, 1, 3);
            sums[r][v] = add ? _mm256_loadu_ps(row + v * LANES) : _mm256_setzero_ps();
        }
    }
}

/* A number that is none stays one: it is the second operand. */
FMA INLINE void finish(const rt_wide_tile *t, int rows, int vectors, __m256 (*sums)[MOST_VECTORS]) {
    if (t->bias) {
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) {
            const __m256 bias = _mm256_loadu_ps(t->bias + v * LANES);
            _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++) sums[r][v] =
                _mm256_add_ps(sums[r][v], bias);
        }
    }
    if (t->low > -INFINITY || t->high < INFINITY) {
        _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
            _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) RT_LIMIT_8(sums[r][v], t->low, t->high);
    }
}

/* One step of the depth, `k` after where the addresses lead. */
FMA INLINE void add_products(op_dtype stored, int rows, int panels, const float *const *a, int64_t a_row,
                             const char *panel, int64_t step, int k, __m256 (*sums)[MOST_VECTORS]) {
    const int64_t each = stored == OP_FLOAT ? sizeof(float) : sizeof(uint16_t);
    const int vectors = panels * EACH;
#define LEFT(r) _mm256_broadcast_ss(&a[(r) / 3][(r) % 3 * a_row + k])
#define RIGHT(v) load(stored, panel + (v) / EACH * step + (k * RT_PANEL + (v) % EACH * LANES) * each)
    if (rows <= FEW_ROWS) {
        __m256 left[FEW_ROWS];
        _Pragma("GCC unroll 3") for (int r = 0; r < rows; r++) left[r] = LEFT(r);
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) {
            const __m256 right = RIGHT(v);
            _Pragma("GCC unroll 3") for (int r = 0; r < rows; r++) sums[r][v] =
                _mm256_fmadd_ps(left[r], right, sums[r][v]);
        }
        return;
    }
    __m256 right[EACH];
    _Pragma("GCC unroll 2") for (int v = 0; v < EACH; v++) right[v] = RIGHT(v);
    _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++) {
        const __m256 left = LEFT(r);
        _Pragma("GCC unroll 2") for (int v = 0; v < EACH; v++) sums[r][v] =
            _mm256_fmadd_ps(left, right[v], sums[r][v]);
    }
#undef LEFT
#undef RIGHT
}

FMA INLINE void make(const rt_wide_tile *t, op_dtype stored, int rows, int panels) {
    enum { ADDRESSES = (MOST_ROWS + 2) / 3 };
    const int64_t each = stored == OP_FLOAT ? sizeof(float) : sizeof(uint16_t), step = t->panel_step * each,
                  a_row = t->a_row, ahead = t->ahead, depth = t->depth,
                  pair = RT_WIDE_STEPS * RT_PANEL * each, stretch = t->stretch * pair;
    const int addresses = (rows + 2) / 3, vectors = panels * EACH;
    const bool asks = panels <= 2 && ahead != 0;
    const char *panel = t->panels, *const end = panel + depth / RT_WIDE_STEPS * pair;
    const float *a[ADDRESSES];
    __m256 sums[MOST_ROWS][MOST_VECTORS];
    begin(t, rows, vectors, sums);
    _Pragma("GCC unroll 2") for (int i = 0; i < addresses; i++) a[i] = t->a + 3 * i * a_row;
    while (panel < end) {
        const char *const stop = asks && end - panel > stretch ? panel + stretch : end;
        if (asks) rt_wide_ask((uintptr_t)panel + (uintptr_t)ahead, panels, step, pair);
        do {
            /* Nothing else moves on: what is reached from these is not given registers that do, too. */
            __asm__("" : "+r"(panel));
            _Pragma("GCC unroll 2") for (int i = 0; i < addresses; i++) __asm__("" : "+r"(a[i]));
            add_products(stored, rows, panels, a, a_row, panel, step, 0, sums);
            add_products(stored, rows, panels, a, a_row, panel, step, 1, sums);
            panel += pair;
            _Pragma("GCC unroll 2") for (int i = 0; i < addresses; i++) a[i] += RT_WIDE_STEPS;
        } while (panel < stop);
    }
    if (depth % RT_WIDE_STEPS) add_products(stored, rows, panels, a, a_row, panel, step, 0, sums);
    finish(t, rows, vectors, sums);
    _Pragma("GCC unroll 6") for (int r = 0; r < rows; r++)
        _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++)
            _mm256_storeu_ps(t->c + r * t->c_row + v * LANES, sums[r][v]);
}

#define TILE(name, stored, rows, panels)                                                                     \
    FMA static void name##_##rows##_##panels(const rt_wide_tile *t) {                                        \
        make(t, stored, rows, panels);                                                                       \
    }
/* Of few rows, more panels side by side: additions do not wait for those before, and several streams are read, which needs no asking. */
#define ALL(name, stored)                                                                                    \
    TILE(name, stored, 1, 1)                                                                                 \
    TILE(name, stored, 1, 2)                                                                                 \
    TILE(name, stored, 1, 4)                                                                                 \
    TILE(name, stored, 2, 1)                                                                                 \
    TILE(name, stored, 2, 2)                                                                                 \
    TILE(name, stored, 3, 1)                                                                                 \
    TILE(name, stored, 3, 2)                                                                                 \
    TILE(name, stored, 4, 1)                                                                                 \
    TILE(name, stored, 5, 1)                                                                                 \
    TILE(name, stored, 6, 1)                                                                                 \
    static rt_wide_function *const name[MOST_ROWS + 1][RT_WIDE_WIDTHS] = {                                   \
        {NULL},                                                                                              \
        {name##_1_1, name##_1_2, name##_1_4},                                                                \
        {name##_2_1, name##_2_2},                                                                            \
        {name##_3_1, name##_3_2},                                                                            \
        {name##_4_1},                                                                                        \
        {name##_5_1},                                                                                        \
        {name##_6_1}};
ALL(floats, OP_FLOAT)
ALL(halves, OP_FLOAT16)
ALL(brains, OP_BFLOAT16)
ALL(shorts, OP_INT16)

rt_wide_functions rt_wide_functions_avx2(op_dtype stored) {
    return (rt_wide_functions){.rows = MOST_ROWS,
                               .of = stored == OP_FLOAT16    ? halves
                                     : stored == OP_BFLOAT16 ? brains
                                     : stored == OP_INT16    ? shorts
                                                             : floats};
}
#endif

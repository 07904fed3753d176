/* SPDX-License-Identifier: Apache-2.0 */
/* weight_panels.c: see weight_panels.h. */
#include "runtime/kernels/portable/weight_panels.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>
#include <string.h>

enum {
    CHAINS = 4, /* sums of an element of one row */
    ROW_PANELS =
        4, /* that one row is multiplied by side by side, where there are registers for so many sums */
    SCALE_BYTES = RT_PANEL * sizeof(float),
    TOGETHER = 4 /* panels of integers that several rows pass over before their sums are scaled */
};

/* ---- storing ------------------------------------------------------------------------------------------- */

bool rt_panels_may_store(int64_t dtype) {
    return dtype == OP_FLOAT || dtype == OP_FLOAT16 || dtype == OP_BFLOAT16 || dtype == OP_INT16;
}

static size_t element_bytes(op_dtype stored) {
    return stored == OP_FLOAT ? sizeof(float) : sizeof(uint16_t);
}

/* Bytes of one panel, whose depth is that of a matrix in memory. */
static size_t panel_bytes(op_dtype stored, int64_t depth) {
    const int64_t parts = stored == OP_INT16 ? (depth + RT_SCALE_DEPTH - 1) / RT_SCALE_DEPTH : 0;
    return (size_t)depth * RT_PANEL * element_bytes(stored) + (size_t)parts * SCALE_BYTES;
}

bool rt_panels_bytes(op_dtype stored, int64_t depth, int64_t count, size_t *bytes) {
    size_t elements;
    return base_size_multiply((size_t)depth, 2 * RT_PANEL * sizeof(float), &elements) &&
           base_size_multiply(panel_bytes(stored, depth), (size_t)count, bytes);
}

static float scale_of(const float *weights, int64_t count) {
    float furthest = 0;
    for (int64_t i = 0; i < count; i++)
        furthest = fabsf(weights[i]) > furthest ? fabsf(weights[i]) : furthest;
    const float scale = furthest / INT16_MAX;
    return isnormal(scale) ? scale : 0;
}

/* The bits of a weight in this type; `scale` is that of integers. */
static uint16_t bits_of(op_dtype stored, float weight, float scale) {
    uint16_t bits;
    if (stored == OP_FLOAT16) return base_half_from_float(weight);
    if (stored == OP_BFLOAT16) return base_bfloat16_from_float(weight);
    const int16_t code = (int16_t)(scale > 0 ? lrintf(weight / scale) : 0);
    memcpy(&bits, &code, sizeof bits);
    return bits;
}

static int64_t part_of(int64_t depth, int64_t from) {
    return depth - from < RT_SCALE_DEPTH ? depth - from : RT_SCALE_DEPTH;
}

static void store_integers(const float *columns, int64_t step, int64_t count, int64_t depth, char *to) {
    for (int64_t from = 0; from < depth; from += RT_SCALE_DEPTH) {
        const int64_t length = part_of(depth, from);
        float scales[RT_PANEL] = {0};
        for (int64_t j = 0; j < count; j++) scales[j] = scale_of(columns + j * step + from, length);
        memcpy(to, scales, sizeof scales);
        to += SCALE_BYTES;
        for (int64_t k = 0; k < length; k++, to += RT_PANEL * sizeof(uint16_t)) {
            uint16_t codes[RT_PANEL] = {0};
            for (int64_t j = 0; j < count; j++)
                codes[j] = bits_of(OP_INT16, columns[j * step + from + k], scales[j]);
            memcpy(to, codes, sizeof codes);
        }
    }
}

void rt_panel_store(op_dtype stored, const float *columns, int64_t step, int64_t count, int64_t depth,
                    void *to) {
    if (stored == OP_INT16) {
        store_integers(columns, step, count, depth, to);
        return;
    }
    float *floats = to;
    uint16_t *halves = to;
    for (int64_t k = 0; k < depth; k++) {
        for (int64_t j = 0; j < count; j++) {
            const float weight = columns[j * step + k];
            if (stored == OP_FLOAT) floats[k * RT_PANEL + j] = weight;
            else halves[k * RT_PANEL + j] = bits_of(stored, weight, 0);
        }
    }
}

void rt_panel_copy(const uint16_t *columns, int64_t step, int64_t count, int64_t depth, void *to) {
    uint16_t *halves = to;
    for (int64_t k = 0; k < depth; k++)
        for (int64_t j = 0; j < count; j++) halves[k * RT_PANEL + j] = columns[j * step + k];
}

bool rt_panel_loss(op_dtype stored, const float *column, int64_t depth, double *lost, double *whole) {
    for (int64_t from = 0; from < depth; from += RT_SCALE_DEPTH) {
        const int64_t length = part_of(depth, from);
        const float scale = stored == OP_INT16 ? scale_of(column + from, length) : 0;
        for (int64_t i = from; i < from + length; i++) {
            if (!isfinite(column[i])) return false;
            const uint16_t bits = bits_of(stored, column[i], scale);
            int16_t code;
            memcpy(&code, &bits, sizeof code);
            const double made = stored == OP_INT16     ? (double)scale * (double)code
                                : stored == OP_FLOAT16 ? (double)base_float_from_half(bits)
                                                       : (double)base_float_from_bfloat16(bits);
            if (!isfinite(made)) return false;
            *lost += ((double)column[i] - made) * ((double)column[i] - made);
            *whole += (double)column[i] * (double)column[i];
        }
    }
    return true;
}

/* ---- one row ------------------------------------------------------------------------------------------- */

/* One row times some panels, which are `each` bytes apart. */
typedef void row_function(const float *a, const char *panels, size_t each, int64_t depth, float *y);

/* One row times panels of weights of this type, which are SCALED where they are integers. A panel has PARTS vectors that are no wider than
 * a register. SIDE vectors are added up side by side, of one panel or of several: each number of the row is loaded once for all. */
#define ROW(name, target, vector, weight, LOAD, ADD_PRODUCT, SCALED, SIDE)                                   \
    target static void name(const float *restrict a, const char *restrict panels, size_t each,               \
                            int64_t depth, float *restrict y) {                                              \
        enum {                                                                                               \
            WIDE = sizeof(vector) / sizeof(float),                                                           \
            PARTS = RT_PANEL / WIDE,                                                                         \
            ALL = SIDE > PARTS ? SIDE : PARTS                                                                \
        };                                                                                                   \
        if (SCALED) memset(y, 0, ALL * sizeof(vector));                                                      \
        for (int64_t from = 0; from < depth;) {                                                              \
            const int64_t rest = depth - from,                                                               \
                          length = SCALED && rest > RT_SCALE_DEPTH ? RT_SCALE_DEPTH : rest;                  \
            const char *scales = panels;                                                                     \
            if (SCALED) panels += SCALE_BYTES;                                                               \
            for (int part = 0; part < ALL; part += SIDE) {                                                   \
                const char *at = panels + (size_t)part * WIDE * sizeof(weight);                              \
                vector sums[CHAINS][SIDE];                                                                   \
                _Pragma("GCC unroll 4") for (int s = 0; s < CHAINS; s++)                                     \
                    _Pragma("GCC unroll 4") for (int v = 0; v < SIDE; v++) sums[s][v] = (vector){0};         \
                int64_t k = 0;                                                                               \
                for (; k + CHAINS <= length; k += CHAINS, at += CHAINS * RT_PANEL * sizeof(weight)) {        \
                    _Pragma("GCC unroll 4") for (int s = 0; s < CHAINS; s++)                                 \
                        _Pragma("GCC unroll 4") for (int v = 0; v < SIDE; v++)                               \
                            ADD_PRODUCT(sums[s][v], a[from + k + s], LOAD(vector, PLACE(weight, s, v)));     \
                }                                                                                            \
                for (; k < length; k++, at += RT_PANEL * sizeof(weight))                                     \
                    _Pragma("GCC unroll 4") for (int v = 0; v < SIDE; v++)                                   \
                        ADD_PRODUCT(sums[0][v], a[from + k], LOAD(vector, PLACE(weight, 0, v)));             \
                _Pragma("GCC unroll 4") for (int v = 0; v < SIDE; v++) {                                     \
                    vector sum = (sums[0][v] + sums[2][v]) + (sums[1][v] + sums[3][v]);                      \
                    float *to = y + (part + v) * WIDE;                                                       \
                    if (SCALED) {                                                                            \
                        vector scale, before;                                                                \
                        memcpy(&scale,                                                                       \
                               scales + (size_t)(v / PARTS) * each +                                         \
                                   (size_t)(part + v) % PARTS * sizeof scale,                                \
                               sizeof scale);                                                                \
                        memcpy(&before, to, sizeof before);                                                  \
                        sum = before + sum * scale;                                                          \
                    }                                                                                        \
                    memcpy(to, &sum, sizeof sum);                                                            \
                }                                                                                            \
            }                                                                                                \
            panels += (size_t)length * RT_PANEL * sizeof(weight);                                            \
            from += length;                                                                                  \
        }                                                                                                    \
    }
/* Row s of what is next, vector v of those side by side. */
#define PLACE(weight, s, v)                                                                                  \
    ((const weight *)(const void *)(at + (size_t)((v) / PARTS) * each) + (s)*RT_PANEL + (v) % PARTS * WIDE)

#define ADD(sum, left, right) ((sum) += (left) * (right))
#define ROWS(name, target, wide, ADD_PRODUCT, SIDE)                                                          \
    ROW(floats_##name, target, rt_floats_##wide, float, RT_LOAD_FLOATS, ADD_PRODUCT, false, SIDE)            \
    ROW(halves_##name, target, rt_floats_##wide, uint16_t, RT_LOAD_HALF_##wide, ADD_PRODUCT, false, SIDE)    \
    ROW(brains_##name, target, rt_floats_##wide, uint16_t, RT_LOAD_BRAIN_##wide, ADD_PRODUCT, false, SIDE)   \
    ROW(shorts_##name, target, rt_floats_##wide, uint16_t, RT_LOAD_SHORT_##wide, ADD_PRODUCT, true, SIDE)
ROWS(baseline, , 4, ADD, 2)
#if RT_X86_KERNELS
#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX512 __attribute__((target("avx512f")))
#define ADD_8(sum, left, right) ((sum) = _mm256_fmadd_ps(_mm256_set1_ps(left), right, sum))
#define ADD_16(sum, left, right) ((sum) = _mm512_fmadd_ps(_mm512_set1_ps(left), right, sum))
ROWS(avx2, AVX2, 8, ADD_8, 2)
ROWS(avx512, AVX512, 16, ADD_16, 1)
ROWS(avx512_side, AVX512, 16, ADD_16, ROW_PANELS)
#endif

/* The function for one panel, and for ROW_PANELS of them; NULL: there is none. */
typedef struct row_functions {
    row_function *one, *side;
} row_functions;

#define FOR(name)                                                                                            \
    (stored == OP_FLOAT      ? floats_##name                                                                 \
     : stored == OP_FLOAT16  ? halves_##name                                                                 \
     : stored == OP_BFLOAT16 ? brains_##name                                                                 \
                             : shorts_##name)
static row_functions best_row(op_dtype stored) {
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) return (row_functions){FOR(avx512), FOR(avx512_side)};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && rt_has_half_conversions())
        return (row_functions){FOR(avx2), NULL};
#endif
    return (row_functions){FOR(baseline), NULL};
}

void rt_panels_row(op_dtype stored, const float *a, const void *panels, int64_t depth, int64_t count,
                   bool back, float *y) {
    const row_functions run = best_row(stored);
    const size_t each = panel_bytes(stored, depth);
    for (int64_t done = 0; done < count;) {
        const int64_t some = run.side && count - done >= ROW_PANELS ? ROW_PANELS : 1,
                      panel = back ? count - done - some : done;
        (some > 1 ? run.side : run.one)(a, (const char *)panels + (size_t)panel * each, each, depth,
                                        y + panel * RT_PANEL);
        done += some;
    }
}

/* ---- several rows -------------------------------------------------------------------------------------- */

RT_CLONES static void add_scaled(const float *sums, const float *scales, float *y) {
    for (int64_t j = 0; j < RT_PANEL; j++) y[j] += sums[j] * scales[j];
}

/* A part of the depth at a time, as its sums have scales of their own. */
static void multiply_integers(int64_t rows, const float *a, int64_t a_row, const char *panels, int64_t depth,
                              int64_t count, float *y, int64_t y_row) {
    const int64_t each = (int64_t)panel_bytes(OP_INT16, depth);
    float sums[RT_PANEL_ROWS * TOGETHER * RT_PANEL];
    for (int64_t row = 0; row < rows; row++) memset(y + row * y_row, 0, (size_t)count * RT_PANEL * sizeof *y);
    for (int64_t from = 0; from < depth; from += RT_SCALE_DEPTH) {
        const char *part =
            panels + from * RT_PANEL * (int64_t)sizeof(uint16_t) + from / RT_SCALE_DEPTH * SCALE_BYTES;
        rt_tiles_run(&(rt_tiles){.rows = rows,
                                 .columns = count * RT_PANEL,
                                 .depth = part_of(depth, from),
                                 .a = a + from,
                                 .a_row = a_row,
                                 .a_depth = 1,
                                 .stored = OP_INT16,
                                 .panels = part + SCALE_BYTES,
                                 .panel_step = each / (int64_t)sizeof(uint16_t),
                                 .c = sums,
                                 .c_row = count * RT_PANEL,
                                 .fused = true});
        for (int64_t p = 0; p < count; p++) {
            float scales[RT_PANEL];
            memcpy(scales, part + p * each, sizeof scales);
            for (int64_t row = 0; row < rows; row++)
                add_scaled(sums + (row * count + p) * RT_PANEL, scales, y + row * y_row + p * RT_PANEL);
        }
    }
}

void rt_panels_rows(op_dtype stored, int64_t rows, const float *a, int64_t a_row, const void *panels,
                    int64_t depth, int64_t count, float *y, int64_t y_row) {
    for (int64_t done = 0; stored == OP_INT16 && done < rows; done += RT_PANEL_ROWS) {
        const int64_t some = rows - done < RT_PANEL_ROWS ? rows - done : RT_PANEL_ROWS;
        for (int64_t p = 0; p < count; p += TOGETHER)
            multiply_integers(some, a + done * a_row, a_row,
                              (const char *)panels + (size_t)p * panel_bytes(OP_INT16, depth), depth,
                              count - p < TOGETHER ? count - p : TOGETHER, y + done * y_row + p * RT_PANEL,
                              y_row);
    }
    if (stored == OP_INT16) return;
    rt_tiles_run(&(rt_tiles){.rows = rows,
                             .columns = count * RT_PANEL,
                             .depth = depth,
                             .a = a,
                             .a_row = a_row,
                             .a_depth = 1,
                             .stored = stored,
                             .panels = panels,
                             .c = y,
                             .c_row = y_row,
                             .fused = true});
}

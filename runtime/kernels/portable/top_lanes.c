/* SPDX-License-Identifier: Apache-2.0 */
/* top_lanes.c: see top_lanes.h. Elements become integers, their keys, which are larger the earlier the element comes in the result. The best k
 * of each lane are kept in order. Where an element of any lane is better than the last of these, the elements of all lanes go through the k
 * places: where one is better than what is there, it stays, and all that follow move on by one, also those that are equal. Keys of the same
 * element number lie side by side, blocks of some numbers at a time.
 */
#include "runtime/kernels/portable/top_lanes.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/turn.h"
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

enum { LANES = RT_TOP_LANES, BLOCK = 64 };

/* ---- keys ----------------------------------------------------------------------------------------------- */

/* Keys of `rows` rows of `columns` elements, `step` apart, that lie `keys_step` apart. `flip`: -1 where small ones come first, otherwise 0. */
#define KEYS(name, type, wide, KEY)                                                                          \
    RT_CLONES static void name(const type *x, int64_t step, int64_t rows, int64_t columns, wide flip,        \
                               wide *keys, int64_t keys_step) {                                              \
        for (int64_t r = 0; r < rows; r++, x += step, keys += keys_step) {                                   \
            if (columns == LANES) {                                                                          \
                RT_VECTOR for (int64_t c = 0; c < LANES; c++) keys[c] = (wide)(KEY) ^ flip;                  \
            } else {                                                                                         \
                RT_VECTOR for (int64_t c = 0; c < columns; c++) keys[c] = (wide)(KEY) ^ flip;                \
            }                                                                                                \
        }                                                                                                    \
    }

/* The bits of numbers compare as they do where the sign is clear, and the other way round where it is set. Zeros are equal, and NaN comes after all
 * numbers. */
static inline int32_t float_key(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = x == 0 ? 0 : bits;
    bits ^= (bits >> 31) & INT32_MAX;
    return x != x ? INT32_C(0x7fc00000) : bits;
}

static inline int64_t double_key(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = x == 0 ? 0 : bits;
    bits ^= (bits >> 63) & INT64_MAX;
    return x != x ? INT64_C(0x7ff8000000000000) : bits;
}

KEYS(float_keys, float, int32_t, float_key(x[c]))
KEYS(int32_keys, int32_t, int32_t, x[c])
KEYS(uint32_keys, uint32_t, int32_t, x[c] ^ 0x80000000u)
KEYS(int16_keys, int16_t, int32_t, x[c])
KEYS(uint16_keys, uint16_t, int32_t, x[c])
KEYS(double_keys, double, int64_t, double_key(x[c]))
KEYS(int64_keys, int64_t, int64_t, x[c])
KEYS(uint64_keys, uint64_t, int64_t, x[c] ^ UINT64_C(0x8000000000000000))

static void short_keys(op_dtype dtype, const void *x, int64_t step, int64_t rows, int64_t columns,
                       int32_t flip, int32_t *keys, int64_t keys_step) {
    if (rt_is_half(dtype)) {
        float widened[BLOCK];
        for (int64_t r = 0; r < rows; r++) {
            rt_half_load(dtype, widened, (const uint16_t *)x + r * step, columns);
            float_keys(widened, 0, 1, columns, flip, keys + r * keys_step, 0);
        }
    } else if (dtype == OP_FLOAT) float_keys(x, step, rows, columns, flip, keys, keys_step);
    else if (dtype == OP_INT32) int32_keys(x, step, rows, columns, flip, keys, keys_step);
    else if (dtype == OP_UINT32) uint32_keys(x, step, rows, columns, flip, keys, keys_step);
    else if (dtype == OP_INT16) int16_keys(x, step, rows, columns, flip, keys, keys_step);
    else uint16_keys(x, step, rows, columns, flip, keys, keys_step);
}

static void long_keys(op_dtype dtype, const void *x, int64_t step, int64_t rows, int64_t columns,
                      int64_t flip, int64_t *keys, int64_t keys_step) {
    if (dtype == OP_DOUBLE) double_keys(x, step, rows, columns, flip, keys, keys_step);
    else if (dtype == OP_INT64) int64_keys(x, step, rows, columns, flip, keys, keys_step);
    else uint64_keys(x, step, rows, columns, flip, keys, keys_step);
}

static bool is_long(op_dtype dtype) {
    return dtype == OP_DOUBLE || dtype == OP_INT64 || dtype == OP_UINT64;
}

bool rt_top_lanes_can(op_dtype dtype, int64_t extent) {
    return extent <= INT32_MAX &&
           (is_long(dtype) || rt_is_half(dtype) || dtype == OP_FLOAT || dtype == OP_INT32 ||
            dtype == OP_UINT32 || dtype == OP_INT16 || dtype == OP_UINT16);
}

/* ---- the best of each lane -------------------------------------------------------------------------------- */

/* Elements [first, first + count) of all lanes go through the k best, whose indices are `places`. */
#define INSERT(name, wide)                                                                                   \
    RT_CLONES static void name(const wide *keys, int64_t first, int64_t count, int64_t k,                    \
                               wide best[][LANES], wide places[][LANES]) {                                   \
        for (int64_t e = 0; e < count; e++) {                                                                \
            const wide *row = keys + e * LANES;                                                              \
            wide better = 0, x[LANES], at[LANES], moved[LANES];                                              \
            RT_VECTOR for (int l = 0; l < LANES; l++) {                                                      \
                x[l] = row[l];                                                                               \
                at[l] = (wide)(first + e);                                                                   \
                moved[l] = 0;                                                                                \
            }                                                                                                \
            for (int l = 0; l < LANES; l++) better |= x[l] > best[k - 1][l] ? -1 : 0;                        \
            if (!better) continue;                                                                           \
            for (int64_t i = 0; i < k; i++) {                                                                \
                RT_VECTOR for (int l = 0; l < LANES; l++) {                                                  \
                    const wide kept = best[i][l], place = places[i][l], mine = x[l], here = at[l];           \
                    const wide moves = moved[l] | (mine > kept ? -1 : 0);                                    \
                    best[i][l] = moves ? mine : kept;                                                        \
                    x[l] = moves ? kept : mine;                                                              \
                    places[i][l] = moves ? here : place;                                                     \
                    at[l] = moves ? place : here;                                                            \
                    moved[l] = moves;                                                                        \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
INSERT(insert_short_any, int32_t)
INSERT(insert_long_any, int64_t)

#if RT_X86_KERNELS
/* The same where vectors have 64 bytes. */
#define INSERT_WIDE(name, wide, width)                                                                       \
    __attribute__((target("avx512f"))) static void name(const wide *keys, int64_t first, int64_t count,      \
                                                        int64_t k, wide best[][LANES],                       \
                                                        wide places[][LANES]) {                              \
        for (size_t half = 0; half < LANES; half += 64 / sizeof(wide)) {                                     \
            __m512i worst = _mm512_loadu_si512(best[k - 1] + half);                                          \
            for (int64_t e = 0; e < count; e++) {                                                            \
                __m512i x = _mm512_loadu_si512(keys + e * LANES + half);                                     \
                if (!_mm512_cmpgt_##width##_mask(x, worst)) continue;                                        \
                __m512i at = _mm512_set1_##width((wide)(first + e));                                         \
                __mmask16 moved = 0;                                                                         \
                for (int64_t i = 0; i < k; i++) {                                                            \
                    const __m512i kept = _mm512_loadu_si512(best[i] + half),                                 \
                                  place = _mm512_loadu_si512(places[i] + half);                              \
                    moved = (__mmask16)(moved | _mm512_cmpgt_##width##_mask(x, kept));                       \
                    worst = _mm512_max_##width(x, kept);                                                     \
                    x = _mm512_min_##width(x, kept);                                                         \
                    _mm512_storeu_si512(best[i] + half, worst);                                              \
                    _mm512_storeu_si512(places[i] + half,                                                    \
                                        _mm512_mask_blend_##width(MOVED_##width, place, at));                \
                    at = _mm512_mask_blend_##width(MOVED_##width, at, place);                                \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
#define MOVED_epi32 moved
#define MOVED_epi64 (__mmask8) moved
INSERT_WIDE(insert_short_wide, int32_t, epi32)
INSERT_WIDE(insert_long_wide, int64_t, epi64)

bool rt_top_lanes_wide(void) {
    return __builtin_cpu_supports("avx512f");
}

static void insert_short(const int32_t *keys, int64_t first, int64_t count, int64_t k, int32_t best[][LANES],
                         int32_t places[][LANES]) {
    (rt_top_lanes_wide() ? insert_short_wide : insert_short_any)(keys, first, count, k, best, places);
}

static void insert_long(const int64_t *keys, int64_t first, int64_t count, int64_t k, int64_t best[][LANES],
                        int64_t places[][LANES]) {
    (rt_top_lanes_wide() ? insert_long_wide : insert_long_any)(keys, first, count, k, best, places);
}
#else
#define insert_short insert_short_any
#define insert_long insert_long_any

bool rt_top_lanes_wide(void) {
    return false;
}
#endif

#define TOP(name, wide, least, read_keys, insert, turn, unsigned_wide)                                       \
    static void name(const rt_top_lines *lines, const char *from, int64_t count, int64_t *found) {           \
        const int64_t size = (int64_t)op_dtype_bytes(lines->dtype), k = lines->k;                            \
        const wide flip = lines->largest ? 0 : -1;                                                           \
        wide keys[BLOCK * LANES], rows[BLOCK * LANES], best[RT_TOP_LEVELS][LANES],                           \
            places[RT_TOP_LEVELS][LANES];                                                                    \
        if (count < LANES) { /* nothing is read that was not written */                                      \
            memset(keys, 0, sizeof keys);                                                                    \
            memset(rows, 0, sizeof rows);                                                                    \
        }                                                                                                    \
        for (int64_t i = 0; i < k * LANES; i++) {                                                            \
            best[i / LANES][i % LANES] = least;                                                              \
            places[i / LANES][i % LANES] = -1;                                                               \
        }                                                                                                    \
        for (int64_t e = 0; e < lines->extent; e += BLOCK) {                                                 \
            const int64_t some = lines->extent - e < BLOCK ? lines->extent - e : BLOCK;                      \
            if (lines->across) {                                                                             \
                read_keys(lines->dtype, from + e * lines->step * size, lines->step, some, count, flip, keys, \
                          LANES);                                                                            \
            } else {                                                                                         \
                read_keys(lines->dtype, from + e * size, lines->step, count, some, flip, rows, BLOCK);       \
                turn((const unsigned_wide *)rows, BLOCK, LANES, some, (unsigned_wide *)keys, LANES);         \
            }                                                                                                \
            insert(keys, e, some, k, best, places);                                                          \
        }                                                                                                    \
        for (int64_t i = 0; i < k * LANES; i++) found[i] = (int64_t)places[i / LANES][i % LANES];            \
    }
TOP(top_short, int32_t, INT32_MIN, short_keys, insert_short, rt_turn_words, uint32_t)
TOP(top_long, int64_t, INT64_MIN, long_keys, insert_long, rt_turn_longs, uint64_t)

void rt_top_lanes(const rt_top_lines *lines, const void *from, int64_t count, int64_t *places) {
    (is_long(lines->dtype) ? top_long : top_short)(lines, from, count, places);
}

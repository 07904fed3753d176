/* SPDX-License-Identifier: Apache-2.0 */
/* direct_tiles.c: see direct_tiles.h. */
#include "runtime/kernels/portable/direct_tiles.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>
#include <stdalign.h>
#include <stddef.h>

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

enum { LANES = RT_DIRECT_LANES, MOST_PANELS = RT_DIRECT_MORE_PANELS, SPOTS = RT_DIRECT_SPOT_PLACES };

/* What points that see nothing read. */
static const float zeros[RT_DIRECT_DEPTH];

/* What all tiles of a call have in common, where the compiler can see that stores change none of it. */
typedef struct ends {
    __m512 bias[MOST_PANELS];
    __mmask16 there[MOST_PANELS]; /* filters */
    int64_t y_point, y_panel;
    float low, high;
    bool gated, padded;
} ends;

AVX512 INLINE ends ends_of(const rt_direct_row *row, int panels) {
    const rt_direct_shape *s = row->shape;
    ends of = {.y_point = row->y_point,
               .y_panel = s->y_panel,
               .low = s->low,
               .high = s->high,
               .padded = row->padded,
               .gated = s->gated};
    _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++) {
        of.there[v] = rt_first_lanes_16(row->filters - v * LANES);
        of.bias[v] = _mm512_setzero_ps();
        /* Sums never are negative zeros: nothing tells then whether zeros were added. */
        if (row->bias)
            of.bias[v] = _mm512_add_ps(of.bias[v], _mm512_maskz_loadu_ps(of.there[v], row->bias + v * LANES));
    }
    return of;
}

/* A number that is none stays one: it is the second operand. */
AVX512 INLINE void limit(const ends *of, int points, int panels, __m512 (*sums)[MOST_PANELS]) {
    if (of->low > -INFINITY) {
        const __m512 low = _mm512_set1_ps(of->low);
        _Pragma("GCC unroll 24") for (int p = 0; p < points; p++)
            _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++) sums[p][v] =
                _mm512_max_ps(low, sums[p][v]);
    }
    if (of->high < INFINITY) {
        const __m512 high = _mm512_set1_ps(of->high);
        _Pragma("GCC unroll 24") for (int p = 0; p < points; p++)
            _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++) sums[p][v] =
                _mm512_min_ps(high, sums[p][v]);
    }
}

/* HardSwish: x times x / 6 + 1 / 2, which is limited to [0, 1]. */
AVX512 INLINE void gate(int points, int panels, __m512 (*sums)[MOST_PANELS]) {
    const __m512 zero = _mm512_setzero_ps(), one = _mm512_set1_ps(1), sixth = _mm512_set1_ps(1.0f / 6),
                 half = _mm512_set1_ps(0.5f);
    _Pragma("GCC unroll 24") for (int p = 0; p < points; p++) {
        _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++) {
            const __m512 part = _mm512_fmadd_ps(sums[p][v], sixth, half);
            sums[p][v] = _mm512_mul_ps(sums[p][v], _mm512_min_ps(one, _mm512_max_ps(zero, part)));
        }
    }
}

AVX512 INLINE void finish(const ends *of, const float *residual, float *y, int points, int panels,
                          __m512 (*sums)[MOST_PANELS]) {
    _Pragma("GCC unroll 4") for (int v = 0; v < panels && residual; v++) {
        const float *from = residual + v * of->y_panel;
        _Pragma("GCC unroll 24") for (int p = 0; p < points; p++) {
            sums[p][v] =
                _mm512_add_ps(sums[p][v], _mm512_maskz_loadu_ps(of->there[v], from + p % 3 * of->y_point));
            if (p % 3 == 2) from = rt_third(from, of->y_point);
        }
    }
    if (of->gated) gate(points, panels, sums);
    else limit(of, points, panels, sums);
    _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++) {
        const bool whole = of->there[v] == 0xffff;
        const __mmask16 written = of->padded ? 0xffff : of->there[v];
        float *to = y + v * of->y_panel;
        if (whole) {
            _Pragma("GCC unroll 24") for (int p = 0; p < points; p++) {
                _mm512_storeu_ps(to + p % 3 * of->y_point, sums[p][v]);
                if (p % 3 == 2) to = (float *)(uintptr_t)rt_third(to, of->y_point);
            }
        } else {
            _Pragma("GCC unroll 24") for (int p = 0; p < points; p++) {
                _mm512_mask_storeu_ps(to + p % 3 * of->y_point, written,
                                      _mm512_maskz_mov_ps(of->there[v], sums[p][v]));
                if (p % 3 == 2) to = (float *)(uintptr_t)rt_third(to, of->y_point);
            }
        }
    }
}

AVX512 INLINE void begin(const ends *of, int points, int panels, __m512 (*sums)[MOST_PANELS]) {
    _Pragma("GCC unroll 24") for (int p = 0; p < points; p++)
        _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++) sums[p][v] = of->bias[v];
}

/* Adds what one channel of one element of the window contributes: point p sees x there. */
#define ADD_PRODUCTS(x)                                                                                      \
    _Pragma("GCC unroll 24") for (int p = 0; p < points; p++) {                                              \
        const __m512 seen = _mm512_set1_ps(x);                                                               \
        _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++) sums[p][v] =                                \
            _mm512_fmadd_ps(seen, _mm512_loadu_ps(weights + v * step), sums[p][v]);                          \
    }

/* Weights that are read after these. Those that no cache holds come while others are multiplied, a few lines at a time. */
typedef struct rest {
    const float *next, *end;
    int64_t lines; /* that are asked for with each element of the window, of each part of the channels */
} rest;

INLINE rest rest_of(const rt_direct_row *row) {
    const int64_t turns = row->times * row->shape->parts * row->shape->taps;
    return (rest){row->next, row->next + row->next_lines * LANES, (row->next_lines + turns - 1) / turns};
}

INLINE void ask_for_weights(rest *of) {
    for (int64_t i = 0; i < of->lines && of->next < of->end; i++, of->next += LANES)
        __builtin_prefetch(of->next, 0, 2);
}

/* Asks for what the points of a tile see from `from` on. */
AVX512 INLINE void ask_for_points(const float *from, int64_t apart, int points) {
    _Pragma("GCC unroll 24") for (int p = 0; p < points; p++)
        __builtin_prefetch(rt_address(from, p * apart), 0, 3);
}

/* Where the first of each three points sees: one address leads to three points, as there are no registers for one each. */
typedef struct leads {
    const float *at[(RT_DIRECT_MORE_POINTS + 2) / 3];
} leads;

AVX512 INLINE leads leads_from(const float *x, int64_t apart, int points) {
    leads of;
    _Pragma("GCC unroll 8") for (int g = 0; g < (points + 2) / 3; g++) of.at[g] =
        rt_address(x, 3 * g * apart);
    return of;
}

/* Channels that lie side by side. Where the compiler knows how far points lie apart, one address leads to all: nothing is left to be done but
 * products and their sums. */
AVX512 INLINE void add_channels(const float *from, int64_t apart, const float *weights, int64_t step,
                                int64_t depth, int points, int panels, __m512 (*sums)[MOST_PANELS]) {
    const float *const end = weights + depth * LANES;
    if (__builtin_constant_p(apart)) {
        for (; weights < end; weights += LANES, from++) {
            ADD_PRODUCTS(from[p * apart])
        }
    } else {
        const leads to = leads_from(from, apart, points);
        for (int64_t k = 0; weights < end; weights += LANES, k++) {
            ADD_PRODUCTS(*rt_address(to.at[p / 3], p % 3 * apart + k))
        }
    }
}

AVX512 INLINE void add_window(const rt_direct_row *row, const float *x, int64_t apart, rest *asked,
                              int points, int panels, __m512 (*sums)[MOST_PANELS]) {
    const rt_direct_shape *s = row->shape;
    const int64_t step = s->panel_floats;
    const float *of_part = row->panels, *const next_tile = rt_address(x, points * apart);
    for (int64_t part = 0; part < s->parts; part++) {
        const bool last = part + 1 == s->parts;
        const int64_t depth = last ? s->last : s->depth;
        const float *next = last ? next_tile : rt_address(x, row->part_step);
        for (int64_t run = 0; run < row->run_count; run++) {
            for (int64_t tap = row->runs[run].first; tap < row->runs[run].end; tap++) {
                ask_for_weights(asked);
                ask_for_points(rt_address(next, row->places[tap]), apart, points);
                add_channels(rt_address(x, row->places[tap]), apart, of_part + tap * depth * LANES, step,
                             depth, points, panels, sums);
            }
        }
        of_part += s->taps * depth * LANES;
        x = next;
    }
}

/* Elements of the window one by one, where there are few channels: these are elements, too. */
AVX512 INLINE void add_elements(const rt_direct_row *row, const float *x, int64_t apart, int points,
                                int panels, __m512 (*sums)[MOST_PANELS]) {
    const int64_t step = row->shape->panel_floats;
    const leads to = leads_from(x, apart, points);
    for (int64_t run = 0; run < row->run_count; run++) {
        const int64_t *place = row->places + row->runs[run].first, *const end =
                                                                       row->places + row->runs[run].end;
        const float *weights = row->panels + row->runs[run].first * LANES;
        for (; place < end; place++, weights += LANES) {
            if (__builtin_constant_p(apart)) {
                const float *from = rt_address(x, *place);
                __builtin_prefetch(rt_address(from, points * apart), 0, 3);
                ADD_PRODUCTS(from[p * apart])
            } else {
                const int64_t here = *place;
                ADD_PRODUCTS(*rt_address(to.at[p / 3], p % 3 * apart + here))
            }
        }
    }
}

AVX512 INLINE void make(const rt_direct_row *row, int64_t apart, bool deep, int points, int panels) {
    const ends of = ends_of(row, panels);
    rest asked = rest_of(row);
    const float *x = row->x, *residual = row->residual;
    float *y = row->y;
    for (int64_t i = 0; i < row->times; i++) {
        __m512 sums[RT_DIRECT_MORE_POINTS][MOST_PANELS];
        begin(&of, points, panels, sums);
        if (deep) add_window(row, x, apart, &asked, points, panels, sums);
        else add_elements(row, x, apart, points, panels, sums);
        finish(&of, residual, y, points, panels, sums);
        x = rt_address(x, points * apart);
        y += points * of.y_point;
        if (residual) residual += points * of.y_point;
    }
}

/* What spots see of a part of the channels that comes next: with the first, the middle and the last element of the window. */
AVX512 INLINE void ask_for_spots(const rt_direct_row *row, const rt_direct_spots *spots, int64_t part,
                                 int points) {
    const int64_t taps = row->shape->taps, each = taps > 2 ? (taps - 1) / 2 : taps;
    for (int64_t tap = 0; tap < taps; tap += each)
        _Pragma("GCC unroll 14") for (int p = 0; p < points; p++)
            __builtin_prefetch(rt_address(spots->points[p], row->places[tap] + part * row->part_step), 0, 3);
}

/* Where each spot sees the image with an element of the window, `offset` floats from its first; zeros for those that see none. There is no
 * branch, which nobody could foresee. */
AVX512 INLINE void find_spots(const rt_direct_spots *spots, int64_t offset, uint32_t visible,
                              const float *at[SPOTS]) {
    const __m512i nowhere = _mm512_set1_epi64((int64_t)(uintptr_t)zeros),
                  floats = _mm512_set1_epi64(offset * (int64_t)sizeof(float));
    for (int p = 0; p < SPOTS; p += 8)
        _mm512_store_si512(at + p, _mm512_mask_add_epi64(nowhere, (__mmask8)(visible >> p),
                                                         _mm512_load_si512(spots->points + p), floats));
}

AVX512 INLINE void make_spots(const rt_direct_row *row, const rt_direct_spots *spots, int points,
                              int panels) {
    const rt_direct_shape *s = row->shape;
    const int64_t step = s->panel_floats;
    const ends of = ends_of(row, panels);
    const float *weights = row->panels;
    __m512 sums[RT_DIRECT_POINTS][MOST_PANELS];
    begin(&of, points, panels, sums);
    for (int64_t part = 0; part < s->parts; part++) {
        const int64_t depth = part + 1 < s->parts ? s->depth : s->last;
        ask_for_spots(row, spots, part + 1, points);
        for (int64_t tap = 0; tap < s->taps; tap++) {
            const int64_t offset = row->places[tap] + part * row->part_step;
            const uint32_t visible = spots->visible[tap];
            alignas(64) const float *at[SPOTS];
            if (!visible) {
                weights += depth * LANES;
                continue;
            }
            find_spots(spots, offset, visible, at);
            for (int64_t k = 0; k < depth; k++, weights += LANES) {
                /* One tile of spots reads all weights once: those of the next panels, one after another. */
                _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++)
                    __builtin_prefetch(rt_address(weights, (panels + v) * step), 0, 2);
                ADD_PRODUCTS(at[p][k])
            }
        }
    }
    finish(&of, row->residual, row->y, points, panels, sums);
}

#define FUNCTION(kind, points, panels, call)                                                                 \
    AVX512 static void kind##_##points##_##panels(const rt_direct_row *row, const rt_direct_spots *spots) {  \
        (void)spots;                                                                                         \
        call;                                                                                                \
    }
#define LINE(points, panels)                                                                                 \
    FUNCTION(block, points, panels, make(row, LANES, true, points, panels))                                  \
    FUNCTION(pair, points, panels, make(row, 2, false, points, panels))                                      \
    FUNCTION(map, points, panels, make(row, row->apart, false, points, panels))
#define ROW(points, panels) FUNCTION(row, points, panels, make(row, row->apart, true, points, panels))
#define SPOT_TILE(points, panels) FUNCTION(spots, points, panels, make_spots(row, spots, points, panels))
#define SINGLE(points) LINE(points, 1) ROW(points, 1)
#define BOTH(points) SINGLE(points) LINE(points, 2) ROW(points, 2) SPOT_TILE(points, 1) SPOT_TILE(points, 2)
#define FEW_TILES(points) BOTH(points) ROW(points, 3) ROW(points, 4) SPOT_TILE(points, 3) SPOT_TILE(points, 4)
FEW_TILES(1)
FEW_TILES(2)
FEW_TILES(3)
FEW_TILES(4)
FEW_TILES(5)
FEW_TILES(6)
BOTH(7)
BOTH(8)
BOTH(9)
BOTH(10)
BOTH(11)
BOTH(12)
BOTH(13)
BOTH(14)
SINGLE(15)
SINGLE(16)
SINGLE(17)
SINGLE(18)
SINGLE(19)
SINGLE(20)
SINGLE(21)
SINGLE(22)
SINGLE(23)
SINGLE(24)
#define FEW(kind, points)                                                                                    \
    { kind##_##points##_1, kind##_##points##_2, kind##_##points##_3, kind##_##points##_4 }
#define TWO(kind, points)                                                                                    \
    { kind##_##points##_1, kind##_##points##_2 }
#define ONE(kind, points)                                                                                    \
    { kind##_##points##_1 }
#define FEWEST(kind) FEW(kind, 1), FEW(kind, 2), FEW(kind, 3), FEW(kind, 4), FEW(kind, 5), FEW(kind, 6)
#define FEWER(kind) TWO(kind, 1), TWO(kind, 2), TWO(kind, 3), TWO(kind, 4), TWO(kind, 5), TWO(kind, 6)
#define MANY(kind)                                                                                           \
    TWO(kind, 7), TWO(kind, 8), TWO(kind, 9), TWO(kind, 10), TWO(kind, 11), TWO(kind, 12), TWO(kind, 13),    \
        TWO(kind, 14)
#define MORE(kind)                                                                                           \
    ONE(kind, 15), ONE(kind, 16), ONE(kind, 17), ONE(kind, 18), ONE(kind, 19), ONE(kind, 20), ONE(kind, 21), \
        ONE(kind, 22), ONE(kind, 23), ONE(kind, 24)
/* By kind, by points, by panels. */
static rt_direct_function *const functions[][RT_DIRECT_MORE_POINTS][MOST_PANELS] = {
    [RT_DIRECT_BLOCKS] = {FEWER(block), MANY(block), MORE(block)},
    [RT_DIRECT_PAIRS] = {FEWER(pair), MANY(pair), MORE(pair)},
    [RT_DIRECT_MAPS] = {FEWER(map), MANY(map), MORE(map)},
    [RT_DIRECT_ROWS] = {FEWEST(row), MANY(row), MORE(row)},
    [RT_DIRECT_SPOTS] = {FEWEST(spots), MANY(spots)}};

rt_direct_function *rt_direct_function_for(rt_direct_kind kind, int64_t points, int64_t panels) {
    return functions[kind][points - 1][panels - 1];
}
#else
rt_direct_function *rt_direct_function_for(rt_direct_kind kind, int64_t points, int64_t panels) {
    (void)kind, (void)points, (void)panels;
    return NULL;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* direct_tiles.c: see direct_tiles.h. */
#include "runtime/kernels/portable/direct_tiles.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = RT_DIRECT_LANES,
    MOST_PANELS = RT_DIRECT_MORE_PANELS,
    AHEAD = 2 /* tiles, whose results are asked for early, so that a cache has them when they are written */
};

/* What points that see nothing read. */
static const float zeros[RT_DIRECT_DEPTH];

/* Without a branch, which nobody could foresee. */
INLINE const float *seen_or_zeros(uint32_t sees, const float *there) {
    const uintptr_t nowhere = (uintptr_t)zeros;
    return (const float *)(nowhere ^ ((nowhere ^ (uintptr_t)there) & (0 - (uintptr_t)sees)));
}

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

/* The third point after this one. One address leads to three of them, and moves: otherwise there is one for each, more than registers. */
INLINE const float *third(const float *from, int64_t apart) {
    from = rt_address(from, 3 * apart);
    __asm__("" : "+r"(from));
    return from;
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
            if (p % 3 == 2) from = third(from, of->y_point);
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
                if (p % 3 == 2) to = (float *)(uintptr_t)third(to, of->y_point);
            }
        } else {
            _Pragma("GCC unroll 24") for (int p = 0; p < points; p++) {
                _mm512_mask_storeu_ps(to + p % 3 * of->y_point, written,
                                      _mm512_maskz_mov_ps(of->there[v], sums[p][v]));
                if (p % 3 == 2) to = (float *)(uintptr_t)third(to, of->y_point);
            }
        }
    }
}

AVX512 INLINE void begin(const ends *of, const float *y, int points, int panels,
                         __m512 (*sums)[MOST_PANELS]) {
    _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++) {
        const float *to = y + v * of->y_panel;
        _Pragma("GCC unroll 24") for (int p = 0; p < points; p++) {
            sums[p][v] = of->bias[v];
            __builtin_prefetch(rt_address(to, (AHEAD * points + p % 3) * of->y_point), 1, 3);
            if (p % 3 == 2) to = third(to, of->y_point);
        }
    }
}

/* Adds what one channel of one element of the window contributes: each point sees x there. */
#define ADD_PRODUCTS(x)                                                                                      \
    _Pragma("GCC unroll 24") for (int p = 0; p < points; p++) {                                              \
        const __m512 seen = _mm512_set1_ps(x);                                                               \
        _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++) sums[p][v] =                                \
            _mm512_fmadd_ps(seen, _mm512_loadu_ps(weights + v * step), sums[p][v]);                          \
    }

/* Asks for the weights of the panels after these, which are read next: those that no cache holds come while others are multiplied. */
#define ASK_AHEAD                                                                                            \
    _Pragma("GCC unroll 4") for (int v = 0; v < panels; v++)                                                 \
        __builtin_prefetch(rt_address(weights, (panels + v) * step), 0, 2);

/* One address leads to three points: there are no registers for one each. */
AVX512 INLINE void make(const rt_direct_row *row, int points, int panels) {
    const int64_t parts = row->shape->parts, step = row->shape->panel_floats, part_step = row->part_step,
                  apart = row->apart, run_count = row->run_count;
    const rt_direct_run *runs = row->runs;
    const ends of = ends_of(row, panels);
    const float *x = row->x, *residual = row->residual;
    float *y = row->y;
    for (int64_t i = 0; i < row->times; i++) {
        const float *of_part = row->panels;
        __m512 sums[RT_DIRECT_MORE_POINTS][MOST_PANELS];
        begin(&of, y, points, panels, sums);
        for (int64_t part = 0; part < parts; part++) {
            const bool last = part + 1 == parts;
            const int64_t depth = last ? row->shape->last : row->shape->depth;
            const int64_t *places = last ? row->last_places : row->places;
            const float *at[(RT_DIRECT_MORE_POINTS + 2) / 3];
            _Pragma("GCC unroll 8") for (int g = 0; g < (points + 2) / 3; g++) at[g] =
                rt_address(x, part * part_step + 3 * g * apart);
            for (int64_t run = 0; run < run_count; run++) {
                const int64_t *place = places + runs[run].first * depth,
                              *end = places + runs[run].end * depth;
                const float *weights = of_part + runs[run].first * depth * LANES;
                for (; place < end; place++, weights += LANES) {
                    const int64_t here = *place;
                    ASK_AHEAD
                    ADD_PRODUCTS(*rt_address(at[p / 3], p % 3 * apart + here))
                }
            }
            of_part += row->shape->taps * depth * LANES;
        }
        finish(&of, residual, y, points, panels, sums);
        x = rt_address(x, points * apart);
        y += points * of.y_point;
        if (residual) residual += points * of.y_point;
    }
}

AVX512 INLINE void make_spots(const rt_direct_row *row, const rt_direct_spots *spots, int points,
                              int panels) {
    const rt_direct_shape *s = row->shape;
    const int64_t step = s->panel_floats;
    const ends of = ends_of(row, panels);
    const float *weights = row->panels;
    __m512 sums[RT_DIRECT_POINTS][MOST_PANELS];
    begin(&of, row->y, points, panels, sums);
    for (int64_t part = 0; part < s->parts; part++) {
        const int64_t depth = part + 1 < s->parts ? s->depth : s->last;
        for (int64_t tap = 0; tap < s->taps; tap++) {
            const int64_t offset = spots->offsets[tap] + part * row->part_step;
            const uint32_t visible = spots->visible[tap];
            const float *at[RT_DIRECT_POINTS];
            if (!visible) {
                weights += depth * LANES;
                continue;
            }
            _Pragma("GCC unroll 14") for (int p = 0; p < points; p++) at[p] =
                seen_or_zeros(visible >> p & 1, rt_address(spots->points[p], offset));
            for (int64_t k = 0; k < depth; k++, weights += LANES) {
                ASK_AHEAD
                ADD_PRODUCTS(at[p][k])
            }
        }
    }
    finish(&of, row->residual, row->y, points, panels, sums);
}

#define ROW(points, panels)                                                                                  \
    AVX512 static void row_##points##_##panels(const rt_direct_row *row, const rt_direct_spots *spots) {     \
        (void)spots;                                                                                         \
        make(row, points, panels);                                                                           \
    }
#define TILE(points, panels)                                                                                 \
    ROW(points, panels)                                                                                      \
    AVX512 static void spots_##points##_##panels(const rt_direct_row *row, const rt_direct_spots *spots) {   \
        make_spots(row, spots, points, panels);                                                              \
    }
#define TILES(points) TILE(points, 1) TILE(points, 2)
#define FEW_TILES(points) TILES(points) TILE(points, 3) TILE(points, 4)
FEW_TILES(1)
FEW_TILES(2)
FEW_TILES(3)
FEW_TILES(4)
FEW_TILES(5)
FEW_TILES(6)
TILES(7)
TILES(8)
TILES(9)
TILES(10)
TILES(11)
TILES(12)
TILES(13)
TILES(14)
ROW(15, 1)
ROW(16, 1)
ROW(17, 1)
ROW(18, 1)
ROW(19, 1)
ROW(20, 1)
ROW(21, 1)
ROW(22, 1)
ROW(23, 1)
ROW(24, 1)
#define FEW(kind, points)                                                                                    \
    { kind##_##points##_1, kind##_##points##_2, kind##_##points##_3, kind##_##points##_4 }
#define MANY(kind, points)                                                                                   \
    { kind##_##points##_1, kind##_##points##_2 }
#define ALL(kind)                                                                                            \
    FEW(kind, 1), FEW(kind, 2), FEW(kind, 3), FEW(kind, 4), FEW(kind, 5), FEW(kind, 6), MANY(kind, 7),       \
        MANY(kind, 8), MANY(kind, 9), MANY(kind, 10), MANY(kind, 11), MANY(kind, 12), MANY(kind, 13),        \
        MANY(kind, 14)
/* By points, by panels. */
static rt_direct_function *const rows[RT_DIRECT_MORE_POINTS][MOST_PANELS] = {
    ALL(row),   {row_15_1}, {row_16_1}, {row_17_1}, {row_18_1}, {row_19_1},
    {row_20_1}, {row_21_1}, {row_22_1}, {row_23_1}, {row_24_1}};
static rt_direct_function *const spots_of[RT_DIRECT_POINTS][MOST_PANELS] = {ALL(spots)};

rt_direct_function *rt_direct_function_for(int64_t points, int64_t panels, bool spots) {
    return spots ? spots_of[points - 1][panels - 1] : rows[points - 1][panels - 1];
}
#else
rt_direct_function *rt_direct_function_for(int64_t points, int64_t panels, bool spots) {
    (void)points, (void)panels, (void)spots;
    return NULL;
}
#endif

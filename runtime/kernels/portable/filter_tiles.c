/* SPDX-License-Identifier: Apache-2.0 */
/* filter_tiles.c: products of arranged filters and quadruples of an image in tiles; see filter_tiles.h. */
#include "runtime/kernels/portable/filter_tiles.h"
#include "runtime/kernels/portable/byte_tiles.h"

/* Filters are turned for each block of columns, and sums begin and end in memory: that is shared by many columns, and by a long depth. */
bool rt_filter_tiles_fit(int64_t rows, int64_t columns, int64_t quads, int64_t step) {
    enum { LEAST_ROWS = 8, LEAST_COLUMNS = 33, LEAST_QUADS = 32, LEAST_FOURS = 8 };
    return rows >= LEAST_ROWS && columns >= LEAST_COLUMNS && columns <= RT_FILTER_TILES_COLUMNS &&
           quads >= LEAST_QUADS && quads / step >= LEAST_FOURS;
}

#if defined(RT_HAS_BYTE_TILES)
#include "runtime/kernels/portable/lanes.h"
#include <string.h>

enum {
    STRIP = RT_FILTERS_STRIP,
    QUAD = 4,    /* bytes */
    TURNED = 12, /* tiles of filters that are turned together */
    PANELS = 2,  /* that are multiplied together below each other, or twice as many side by side */
    MOST = RT_TILE_TOGETHER
};

/* Sixteen quadruples, or as many as there are: the first one, and those that count, as others were in a tile before. */
typedef struct one_tile {
    int64_t quad;
    uint16_t valid;
} one_tile;

/* Tile `number` of those that are multiplied: tiles of all window elements follow each other, and the last ones reach back. */
static one_tile find_tile(const rt_filter_tiles *of, int64_t number, int64_t each) {
    const int64_t fours = of->count / of->step, four = number / of->step * each,
                  back = four + each > fours ? four + each - fours : 0;
    return (one_tile){.quad = (four - back) * of->step + number % of->step,
                      .valid = (uint16_t)(rt_first_lanes_16(each) & ~rt_first_lanes_16(back))};
}

/* ---- filters in rows ----------------------------------------------------------------------------------- */

/* Four quadruples of four filters each, side by side. */
RT_WITH_TILES static inline __attribute__((always_inline)) __m512i load_quarters(const int8_t *const from[4],
                                                                                 int64_t at) {
#define QUARTER(number) _mm_loadu_si128((const __m128i *)(const void *)(from[number] + at))
    const __m512i first = _mm512_castsi128_si512(QUARTER(0));
    return _mm512_inserti32x4(_mm512_inserti32x4(_mm512_inserti32x4(first, QUARTER(1), 1), QUARTER(2), 2),
                              QUARTER(3), 3);
#undef QUARTER
}

/* A whole strip: quadruple i of its filters begins from + i * row, of which `each` are there; of the rest the last one is read again. The
 * quarters of a register are turned by themselves. */
RT_WITH_TILES static inline __attribute__((always_inline)) void
turn_strip_of(const int8_t *from, int64_t row, int64_t each, uint16_t valid, uint8_t *to) {
    _Pragma("GCC unroll 2") for (int half = 0; half < 2; half++) {
        __m512i line[4], pair[4], four[4];
        _Pragma("GCC unroll 4") for (int64_t i = 0; i < 4; i++) {
            const int8_t *quarters[4];
            _Pragma("GCC unroll 4") for (int64_t j = 0; j < 4; j++) quarters[j] =
                from + (4 * j + i < each ? 4 * j + i : each - 1) * row;
            line[i] = load_quarters(quarters, 4 * QUAD * half);
        }
        pair[0] = _mm512_unpacklo_epi32(line[0], line[1]);
        pair[1] = _mm512_unpackhi_epi32(line[0], line[1]);
        pair[2] = _mm512_unpacklo_epi32(line[2], line[3]);
        pair[3] = _mm512_unpackhi_epi32(line[2], line[3]);
        four[0] = _mm512_unpacklo_epi64(pair[0], pair[2]);
        four[1] = _mm512_unpackhi_epi64(pair[0], pair[2]);
        four[2] = _mm512_unpacklo_epi64(pair[1], pair[3]);
        four[3] = _mm512_unpackhi_epi64(pair[1], pair[3]);
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)
            _mm512_store_si512(to + (4 * half + i) * RT_TILE_BYTES, _mm512_maskz_mov_epi32(valid, four[i]));
    }
}

RT_WITH_TILES static void turn_strip(const int8_t *from, int64_t row, int64_t each, uint16_t valid,
                                     uint8_t *to) {
    if (each == RT_TILE_ROWS) turn_strip_of(from, row, RT_TILE_ROWS, valid, to);
    else turn_strip_of(from, row, each, valid, to);
}

/* Of fewer filters. */
static void turn_few(const int8_t *from, int64_t strip, int64_t row, int64_t each, uint16_t valid,
                     uint8_t *to) {
    for (int64_t r = 0; r < strip; r++, to += RT_TILE_BYTES) {
        memset(to, 0, RT_TILE_BYTES);
        for (int64_t i = 0; i < each; i++)
            if (valid >> i & 1) memcpy(to + QUAD * i, from + i * row + QUAD * r, QUAD);
    }
}

/* What is turned next of a strip is asked for meanwhile: a share of the tiles of all window elements, which lie side by side. */
static inline void ask_for(const int8_t *strip, int64_t tile_bytes, int64_t number) {
    for (int64_t at = 0; at < tile_bytes; at += RT_TILE_BYTES)
        _mm_prefetch((const char *)((uintptr_t)strip + (uintptr_t)(number * tile_bytes + at)), _MM_HINT_T0);
}

/* One tile, or two below each other, as rows of bytes. */
static void turn_filters(const rt_filter_tiles *of, int64_t number, one_tile tile, int64_t each,
                         uint8_t *to) {
    int64_t strip = STRIP;
    for (int64_t row = 0; row < of->rows; row += strip, to += strip * RT_TILE_BYTES) {
        while (strip > of->rows - row) strip /= 2;
        const int8_t *from = of->filters + QUAD * (row * of->quads + (of->first + tile.quad) * strip);
        const int64_t step = QUAD * strip * of->step;
        if (strip == STRIP) turn_strip(from, step, each, tile.valid, to);
        else turn_few(from, strip, step, each, tile.valid, to);
        ask_for(of->filters + QUAD * (row * of->quads + of->first * strip), QUAD * strip * each,
                number + of->step);
    }
}

/* ---- products ------------------------------------------------------------------------------------------ */

/* Some tiles of filters, one after another, and of panels: where they begin from each panel's beginning on, and bytes from one quadruple to the next. */
typedef struct tile_list {
    const uint8_t *filters, *panels[MOST];
    const int64_t *at;
    int64_t count, row;
} tile_list;

#define ADD_TALL(name, panels_count)                                                                         \
    RT_WITH_TILES static void name(const tile_list *of) {                                                    \
        const uint8_t *a = of->filters;                                                                      \
        for (int64_t k = 0; k < of->count; k++, a += 2 * RT_TILE_SIZE) {                                     \
            _tile_loadd(6, of->panels[0] + of->at[k], of->row);                                              \
            _tile_loadd(4, a, RT_TILE_BYTES);                                                                \
            _tile_dpbsud(0, 4, 6);                                                                           \
            if (panels_count > 1) {                                                                          \
                _tile_loadd(7, of->panels[1] + of->at[k], of->row);                                          \
                _tile_dpbsud(1, 4, 7);                                                                       \
            }                                                                                                \
            _tile_loadd(5, a + RT_TILE_SIZE, RT_TILE_BYTES);                                                 \
            _tile_dpbsud(2, 5, 6);                                                                           \
            if (panels_count > 1) _tile_dpbsud(3, 5, 7);                                                     \
        }                                                                                                    \
    }
ADD_TALL(add_tall_1, 1)
ADD_TALL(add_tall_2, 2)

#define ADD_FLAT(name, panels_count)                                                                         \
    RT_WITH_TILES static void name(const tile_list *of) {                                                    \
        const uint8_t *a = of->filters;                                                                      \
        for (int64_t k = 0; k < of->count; k++, a += 2 * RT_TILE_SIZE) {                                     \
            _tile_loadd(4, a, RT_TILE_BYTES);                                                                \
            _tile_loadd(5, of->panels[0] + of->at[k], of->row);                                              \
            _tile_dpbsud(0, 4, 5);                                                                           \
            if (panels_count > 1) {                                                                          \
                _tile_loadd(6, of->panels[1] + of->at[k], of->row);                                          \
                _tile_dpbsud(1, 4, 6);                                                                       \
            }                                                                                                \
            if (panels_count > 2) {                                                                          \
                _tile_loadd(7, of->panels[2] + of->at[k], of->row);                                          \
                _tile_dpbsud(2, 4, 7);                                                                       \
            }                                                                                                \
            if (panels_count > 3) {                                                                          \
                _tile_loadd(5, of->panels[3] + of->at[k], of->row);                                          \
                _tile_dpbsud(3, 4, 5);                                                                       \
            }                                                                                                \
        }                                                                                                    \
    }
ADD_FLAT(add_flat_1, 1)
ADD_FLAT(add_flat_2, 2)
ADD_FLAT(add_flat_3, 3)
ADD_FLAT(add_flat_4, 4)

/* All columns: some panels at a time. `start`: what sums begin with, a row of them for each filter; NULL: with what they are. */
RT_WITH_TILES static void add_panels(const rt_filter_tiles *of, tile_list *list, const int32_t *start) {
    static void (*const functions[][MOST])(const tile_list *) = {
        {add_flat_1, add_flat_2, add_flat_3, add_flat_4}, {add_tall_1, add_tall_2}};
    const bool tall = of->rows > RT_TILE_ROWS;
    const int64_t count = (of->columns + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL;
    for (int64_t panel = 0, now; panel < count; panel += now) {
        int32_t *sums = of->sums + panel * RT_INTEGER_PANEL;
        now = count - panel;
        if (now > (tall ? PANELS : MOST)) now = tall ? PANELS : MOST;
        for (int64_t p = 0; p < now; p++)
            list->panels[p] = of->image + (of->begins ? of->begins[panel + p] : (panel + p) * of->distance);
        if (start) rt_tiles_load(start, RT_TILE_BYTES, 0, RT_TILE_ROWS * RT_TILE_ROWS, tall, now);
        else
            rt_tiles_load(sums, of->pitch * (int64_t)sizeof *sums, RT_TILE_ROWS, RT_TILE_ROWS * of->pitch,
                          tall, now);
        functions[tall][now - 1](list);
        rt_tiles_store(sums, of->pitch, tall, now);
    }
}

RT_WITH_TILES void rt_filter_tiles_run(const rt_filter_tiles *of) {
    _Alignas(64) uint8_t filters[TURNED][2 * RT_TILE_SIZE];
    _Alignas(64) int32_t start[RT_TILE_GROUP][RT_TILE_ROWS];
    int64_t at[TURNED];
    const int64_t fours = of->count / of->step, each = fours < RT_TILE_ROWS ? fours : RT_TILE_ROWS,
                  tiles = (fours + each - 1) / each * of->step;
    tile_list list = {.filters = filters[0], .at = at, .row = RT_TILE_BYTES};
    if (fours > 1) list.row = of->offsets[of->step] - of->offsets[0];
    for (int64_t r = 0; r < of->rows && of->start; r++)
        _mm512_store_si512(start[r], _mm512_set1_epi32(of->start[r]));
    rt_tiles_set_up(of->rows, each);
    for (int64_t first = 0; first < tiles; first += TURNED) {
        list.count = tiles - first < TURNED ? tiles - first : TURNED;
        for (int64_t k = 0; k < list.count; k++) {
            const one_tile tile = find_tile(of, first + k, each);
            at[k] = of->offsets[tile.quad];
            turn_filters(of, first + k, tile, each, filters[k]);
        }
        add_panels(of, &list, first == 0 && of->start ? start[0] : NULL);
    }
    _tile_release(); /* the system saves no tiles then */
}

#else

void rt_filter_tiles_run(const rt_filter_tiles *of) {
    (void)of;
}

#endif

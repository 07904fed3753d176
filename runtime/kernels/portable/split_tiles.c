/* SPDX-License-Identifier: Apache-2.0 */
/* split_tiles.c: products of floats in tiles of bfloat16; see split_tiles.h. */
#include "runtime/kernels/portable/split_tiles.h"
#include "runtime/kernels/portable/byte_tiles.h"

#if defined(RT_HAS_BYTE_TILES)
#include "runtime/kernels/portable/lanes.h"

#define WITH_SPLIT_TILES __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw")))

/* ---- the machine --------------------------------------------------------------------------------------- */

bool rt_split_wanted(void) {
    /* Asked once, as searches ask very often. Threads may all ask, and get the same answer. */
    static _Atomic int known; /* 0: not yet; 1: no; 2: yes */
    int answer = known;
    if (!answer) {
        answer = rt_tiles_are_here(RT_TILES_OF_BRAIN) ? 2 : 1;
        known = answer;
    }
    return answer == 2;
}

/* ---- parts --------------------------------------------------------------------------------------------- */

/* The parts of 32 numbers, `step` bytes after each other: those of `low` and of `high` in turn. A part is the first 8 bits of what is left, so that three are
 * all 24. */
WITH_SPLIT_TILES static inline __attribute__((always_inline)) void split(__m512 low, __m512 high, char *to,
                                                                         int64_t step) {
    const __m512i part_of = _mm512_set1_epi32((int)0xFFFF0000);
    _Pragma("GCC unroll 3") for (int part = 0; part < RT_SPLIT_PARTS; part++, to += step) {
        const __m512i first = _mm512_and_si512((__m512i)low, part_of),
                      second = _mm512_and_si512((__m512i)high, part_of);
        _mm512_store_si512(to, _mm512_or_si512(_mm512_srli_epi32((__m512i)low, 16), second));
        low = low - (__m512)first;
        high = high - (__m512)second;
    }
}

WITH_SPLIT_TILES void rt_split_rows(const rt_split_row *rows) {
    enum { PART = RT_SPLIT_BYTES / RT_SPLIT_PARTS };
    const float *low = rows->low, *high = rows->high;
    const int64_t step = rows->step;
    char *to = rows->to, *const end = to + rows->count * RT_SPLIT_BYTES;
    const __mmask16 first = rt_first_lanes_16(rows->low_count), second = rt_first_lanes_16(rows->high_count);
    if (rows->low_count >= RT_SPLIT_DEPTH / 2 && rows->high_count >= RT_SPLIT_DEPTH / 2) {
        for (; to < end; to += RT_SPLIT_BYTES, low += step, high += step)
            split(_mm512_loadu_ps(low), _mm512_loadu_ps(high), to, PART);
        return;
    }
    for (; to < end; to += RT_SPLIT_BYTES, low += step, high += step)
        split(_mm512_maskz_loadu_ps(first, low), _mm512_maskz_loadu_ps(second, high), to, PART);
}

WITH_SPLIT_TILES static inline __attribute__((always_inline)) void split_some(rt_split_source *source,
                                                                              int64_t rows) {
    enum { AHEAD = 4096 /* bytes: processors read ahead by themselves as far as the end of a page */ };
    for (; rows > 0 && source->rows > 0; rows--, source->rows--) {
        const float *from = source->from;
        __builtin_prefetch((const void *)((uintptr_t)from + AHEAD), 0, 2);
        __builtin_prefetch((const void *)((uintptr_t)from + AHEAD + RT_TILE_BYTES), 0, 2);
        split(_mm512_loadu_ps(from), _mm512_loadu_ps(from + RT_SPLIT_COLUMNS), source->to,
              source->tiles * RT_TILE_SIZE);
        source->from += RT_SPLIT_DEPTH;
        source->to += RT_TILE_BYTES;
        if (--source->here > 0) continue;
        source->here = source->tiles * RT_TILE_ROWS;
        source->to += (RT_SPLIT_PARTS - 1) * source->tiles * RT_TILE_SIZE;
    }
}

WITH_SPLIT_TILES void rt_split_columns(rt_split_source *source) {
    split_some(source, source->rows);
}

/* ---- tiles --------------------------------------------------------------------------------------------- */

WITH_SPLIT_TILES void rt_split_begin(int64_t rows) {
    rt_tiles_setting made = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        made.row_bytes[i] = RT_TILE_BYTES;
        made.rows[i] = i == 4 || i == 5 ? RT_TILE_ROWS : (uint8_t)rows;
    }
    rt_tiles_settle();
    _tile_loadconfig(&made);
    rt_tiles_settle();
}

WITH_SPLIT_TILES void rt_split_end(void) {
    _tile_release();
}

/* Tiles 0 to 3 are sums: two side by side, two below them. 4 and 5 are columns, 6 and 7 rows. Part 1 of the columns meets all parts of the rows, part 2
 * meets the first two, part 3 the first. */
WITH_SPLIT_TILES static inline __attribute__((always_inline)) void multiply(const rt_split_tiles *of,
                                                                            bool tall, bool wide) {
    enum { ROW = RT_SPLIT_BYTES, PART = RT_SPLIT_BYTES / RT_SPLIT_PARTS };
    const int64_t columns = (wide ? 2 : 1) * RT_TILE_SIZE;
    const char *b = of->b;
    rt_split_source source = *of->source;
    for (int64_t k = 0; k < of->count; k++) {
        const char *a = of->a + of->steps[k], *below = a + of->rows * ROW;
        _Pragma("GCC unroll 3") for (int part = 0; part < RT_SPLIT_PARTS; part++, b += columns) {
            _tile_loadd(4, b, RT_TILE_BYTES);
            if (wide) _tile_loadd(5, b + RT_TILE_SIZE, RT_TILE_BYTES);
            _Pragma("GCC unroll 3") for (int other = 0; other < RT_SPLIT_PARTS - part; other++) {
                _tile_loadd(6, a + other * PART, ROW);
                _tile_dpbf16ps(0, 6, 4);
                if (wide) _tile_dpbf16ps(1, 6, 5);
                if (tall) {
                    _tile_loadd(7, below + other * PART, ROW);
                    _tile_dpbf16ps(2, 7, 4);
                    if (wide) _tile_dpbf16ps(3, 7, 5);
                }
                /* Tiles are multiplied meanwhile. */
                split_some(&source, source.each);
            }
        }
    }
    *of->source = source;
}

WITH_SPLIT_TILES void rt_split_multiply(const rt_split_tiles *of) {
    enum { ROW = RT_SPLIT_PAIR * sizeof(float) };
    float *c = of->c, *below = c + of->rows * RT_SPLIT_PAIR;
    rt_tiles_settle();
    if (of->add) {
        _tile_loadd(0, c, ROW);
        if (of->wide) _tile_loadd(1, c + RT_SPLIT_COLUMNS, ROW);
        if (of->tall) _tile_loadd(2, below, ROW);
        if (of->tall && of->wide) _tile_loadd(3, below + RT_SPLIT_COLUMNS, ROW);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    if (of->tall && of->wide) multiply(of, true, true);
    else if (of->tall) multiply(of, true, false);
    else multiply(of, false, of->wide);
    _tile_stored(0, c, ROW);
    if (of->wide) _tile_stored(1, c + RT_SPLIT_COLUMNS, ROW);
    if (of->tall) _tile_stored(2, below, ROW);
    if (of->tall && of->wide) _tile_stored(3, below + RT_SPLIT_COLUMNS, ROW);
    rt_tiles_settle();
}

#else

bool rt_split_wanted(void) {
    return false;
}

void rt_split_rows(const rt_split_row *rows) {
    (void)rows;
}

void rt_split_columns(rt_split_source *source) {
    (void)source;
}

void rt_split_begin(int64_t rows) {
    (void)rows;
}

void rt_split_end(void) {}

void rt_split_multiply(const rt_split_tiles *tiles) {
    (void)tiles;
}

#endif

rt_split_source rt_split_source_of(const float *from, int64_t steps, int64_t tiles, char *to) {
    return (rt_split_source){.from = from,
                             .to = to,
                             .tiles = tiles,
                             .rows = steps * tiles * RT_SPLIT_ROWS,
                             .here = tiles * RT_SPLIT_ROWS};
}

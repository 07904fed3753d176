/* SPDX-License-Identifier: Apache-2.0 */
/* integer_tiles.c: products of 8-bit integers in tiles; see integer_tiles.h.
 *
 * Up to 32 rows by 32 columns, or 16 by 64, are four tiles of sums, which stay where they are through the whole depth. They begin with what zero points make
 * of the sums, so that nothing is to be done with them afterwards:
 *
 *     sum of (a - a_zero) (b - b_zero) = sum of a b - a_zero sum of b - b_zero (sum of a - depth a_zero)
 *
 * where b and b_zero are those of the packed bytes, which are unsigned.
 */
#include "runtime/kernels/portable/integer_tiles.h"
#include "runtime/kernels/portable/byte_tiles.h"

#if defined(RT_HAS_BYTE_TILES)
#include "runtime/kernels/portable/lanes.h"
#include <string.h>

enum {
    TILE_ROWS = RT_TILE_ROWS,
    TILE_BYTES = RT_TILE_BYTES,
    GROUP = RT_TILE_GROUP,
    TOGETHER = RT_TILE_TOGETHER,
    PANEL_STEP = RT_TILE_SIZE, /* bytes of a tile of B, which lie one after another */
    PART =
        8 *
        RT_INTEGER_PANEL, /* columns whose sums are finished together: they and A stay in the nearest cache */
    SUMS = TOGETHER * TILE_ROWS * TILE_ROWS /* of all tiles of sums */
};

/* ---- the machine --------------------------------------------------------------------------------------- */

bool rt_byte_tiles_wanted(void) {
    return __builtin_cpu_supports("avx512vnni") && rt_tiles_are_here();
}

/* ---- products ------------------------------------------------------------------------------------------ */

/* Tiles of A from `a` on, and of B from `b` on, a panel `distance` bytes after another: so many through the depth. */
typedef struct tile_steps {
    const uint8_t *a, *b;
    int64_t a_row, distance, count;
} tile_steps;

#define MULTIPLY_SIGNED(sums, a, b) _tile_dpbsud(sums, a, b)
#define MULTIPLY_UNSIGNED(sums, a, b) _tile_dpbuud(sums, a, b)
#define STEPS(sign, MULTIPLY)                                                                                \
    RT_WITH_TILES static void add_tall_1_##sign(const tile_steps *of) {                                      \
        const uint8_t *a = of->a, *b = of->b, *below = a + TILE_ROWS * of->a_row;                            \
        for (int64_t k = 0; k < of->count; k++, a += TILE_BYTES, below += TILE_BYTES, b += PANEL_STEP) {     \
            _tile_loadd(6, b, TILE_BYTES);                                                                   \
            _tile_loadd(4, a, of->a_row);                                                                    \
            MULTIPLY(0, 4, 6);                                                                               \
            _tile_loadd(5, below, of->a_row);                                                                \
            MULTIPLY(2, 5, 6);                                                                               \
        }                                                                                                    \
    }                                                                                                        \
    RT_WITH_TILES static void add_tall_2_##sign(const tile_steps *of) {                                      \
        const uint8_t *a = of->a, *b = of->b, *below = a + TILE_ROWS * of->a_row;                            \
        for (int64_t k = 0; k < of->count; k++, a += TILE_BYTES, below += TILE_BYTES, b += PANEL_STEP) {     \
            _tile_loadd(6, b, TILE_BYTES);                                                                   \
            _tile_loadd(4, a, of->a_row);                                                                    \
            MULTIPLY(0, 4, 6);                                                                               \
            _tile_loadd(7, b + of->distance, TILE_BYTES);                                                    \
            MULTIPLY(1, 4, 7);                                                                               \
            _tile_loadd(5, below, of->a_row);                                                                \
            MULTIPLY(2, 5, 6);                                                                               \
            MULTIPLY(3, 5, 7);                                                                               \
        }                                                                                                    \
    }                                                                                                        \
    RT_WITH_TILES static inline                                                                              \
        __attribute__((always_inline)) void add_flat_##sign(const tile_steps *of, int panels) {              \
        const uint8_t *a = of->a, *b = of->b;                                                                \
        const int64_t distance = of->distance;                                                               \
        for (int64_t k = 0; k < of->count; k++, a += TILE_BYTES, b += PANEL_STEP) {                          \
            _tile_loadd(4, a, of->a_row);                                                                    \
            _tile_loadd(5, b, TILE_BYTES);                                                                   \
            MULTIPLY(0, 4, 5);                                                                               \
            if (panels > 1) {                                                                                \
                _tile_loadd(6, b + distance, TILE_BYTES);                                                    \
                MULTIPLY(1, 4, 6);                                                                           \
            }                                                                                                \
            if (panels > 2) {                                                                                \
                _tile_loadd(7, b + 2 * distance, TILE_BYTES);                                                \
                MULTIPLY(2, 4, 7);                                                                           \
            }                                                                                                \
            if (panels > 3) {                                                                                \
                _tile_loadd(5, b + 3 * distance, TILE_BYTES);                                                \
                MULTIPLY(3, 4, 5);                                                                           \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    RT_WITH_TILES static void add_flat_1_##sign(const tile_steps *of) {                                      \
        add_flat_##sign(of, 1);                                                                              \
    }                                                                                                        \
    RT_WITH_TILES static void add_flat_2_##sign(const tile_steps *of) {                                      \
        add_flat_##sign(of, 2);                                                                              \
    }                                                                                                        \
    RT_WITH_TILES static void add_flat_3_##sign(const tile_steps *of) {                                      \
        add_flat_##sign(of, 3);                                                                              \
    }                                                                                                        \
    RT_WITH_TILES static void add_flat_4_##sign(const tile_steps *of) {                                      \
        add_flat_##sign(of, 4);                                                                              \
    }
STEPS(signed, MULTIPLY_SIGNED)
STEPS(unsigned, MULTIPLY_UNSIGNED)

static void add_steps(const tile_steps *of, bool tall, int64_t panels, bool is_signed) {
    static void (*const functions[][2][TOGETHER])(const tile_steps *) = {
        {{add_flat_1_unsigned, add_flat_2_unsigned, add_flat_3_unsigned, add_flat_4_unsigned},
         {add_tall_1_unsigned, add_tall_2_unsigned}},
        {{add_flat_1_signed, add_flat_2_signed, add_flat_3_signed, add_flat_4_signed},
         {add_tall_1_signed, add_tall_2_signed}}};
    functions[is_signed][tall][panels - 1](of);
}

/* ---- what sums begin with ------------------------------------------------------------------------------ */

/* A block, and what its rows and columns have in common. */
typedef struct tile_block {
    const rt_integer_block *block;
    const uint32_t *column_sums; /* of the packed bytes */
    const uint8_t *end;          /* of them */
    uint32_t b_shift;            /* packed bytes are that much more than they were */
    bool plain; /* all rows have one zero point, and all columns: then what sums begin with is */
    uint32_t rows[RT_INTEGER_ROWS]; /* this of the row, */
    uint32_t columns
        [RT_INTEGER_COLUMNS]; /* and this of the column; else of a row what zero points of columns are multiplied with */
    uint8_t rest[GROUP][TILE_BYTES]; /* of rows of A, where the depth ends within a tile */
} tile_block;

RT_WITH_TILES static uint32_t sum_of_row(const uint8_t *a, int64_t count, bool is_signed) {
    const __m512i ones = _mm512_set1_epi8(1);
    __m512i sum = _mm512_setzero_si512();
    for (int64_t k = 0; k < count; k += TILE_BYTES) {
        const __m512i bytes = _mm512_maskz_loadu_epi8(rt_first_lanes_64(count - k), a + k);
        sum = is_signed ? _mm512_dpbusd_epi32(sum, ones, bytes) : _mm512_dpbusd_epi32(sum, bytes, ones);
    }
    return (uint32_t)_mm512_reduce_add_epi32(sum);
}

RT_WITH_TILES static void describe_block(tile_block *of) {
    const rt_integer_block *block = of->block;
    of->b_shift = block->b_dtype == OP_INT8 ? 128 : 0;
    of->plain = !block->b_each;
    for (int64_t i = 1; i < block->rows; i++) of->plain = of->plain && block->a_zeros[i] == block->a_zeros[0];
    const uint32_t b_zero = (uint32_t)block->b_zeros[0] + of->b_shift;
    const bool wanted = block->b_each || b_zero != 0;
    for (int64_t i = 0; i < block->rows; i++) {
        const uint8_t *a = (const uint8_t *)block->a + i * block->a_row;
        of->rows[i] = 0;
        if (!wanted) continue;
        of->rows[i] = (uint32_t)block->depth * (uint32_t)block->a_zeros[i] -
                      sum_of_row(a, block->depth, block->a_dtype == OP_INT8);
        if (!block->b_each) of->rows[i] *= b_zero;
    }
    if (!of->plain) return;
    const uint32_t a_zero = (uint32_t)block->a_zeros[0];
    for (int64_t j = 0; j < block->columns; j++) of->columns[j] = 0 - a_zero * of->column_sums[j];
}

/* Of `rows` rows and `columns` columns, which are there in whole panels. */
RT_WITH_TILES static void begin_sums(const tile_block *of, int64_t row, int64_t rows, int64_t column,
                                     int64_t columns, int32_t *sums, int64_t pitch) {
    const rt_integer_block *block = of->block;
    for (int64_t j = 0; j < columns; j += RT_INTEGER_PANEL) {
        const __mmask16 some = rt_first_lanes_16(block->columns - column - j);
        if (of->plain) {
            const __m512i same = _mm512_maskz_loadu_epi32(some, of->columns + column + j);
            for (int64_t i = 0; i < rows; i++)
                _mm512_storeu_si512(sums + i * pitch + j,
                                    _mm512_add_epi32(same, _mm512_set1_epi32((int32_t)of->rows[row + i])));
            continue;
        }
        __m512i zeros = _mm512_set1_epi32(1); /* is in the rows */
        if (block->b_each)
            zeros = _mm512_add_epi32(_mm512_cvtepi16_epi32(_mm512_castsi512_si256(_mm512_maskz_loadu_epi16(
                                         (__mmask32)some, block->b_zeros + column + j))),
                                     _mm512_set1_epi32((int32_t)of->b_shift));
        const __m512i in_column = _mm512_maskz_loadu_epi32(some, of->column_sums + column + j);
        for (int64_t i = 0; i < rows; i++) {
            const __m512i more = _mm512_mullo_epi32(zeros, _mm512_set1_epi32((int32_t)of->rows[row + i])),
                          less = _mm512_mullo_epi32(in_column, _mm512_set1_epi32(block->a_zeros[row + i]));
            _mm512_storeu_si512(sums + i * pitch + j, _mm512_sub_epi32(more, less));
        }
    }
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

/* What of rows of A stands after the last whole tile; zeros after it, which take B out of the sums. */
RT_WITH_TILES static void copy_rest(tile_block *of, int64_t row, int64_t rows) {
    const rt_integer_block *block = of->block;
    const int64_t rest = block->depth % TILE_BYTES;
    const uint8_t *a = (const uint8_t *)block->a + row * block->a_row + block->depth - rest;
    for (int64_t i = 0; i < rows && rest; i++)
        _mm512_storeu_si512(of->rest[i],
                            _mm512_maskz_loadu_epi8(rt_first_lanes_64(rest), a + i * block->a_row));
}

/* The last bytes of A times those of B, where the depth ends within a tile: what is read after them is of no matter, if it is there. */
static void add_rest(const tile_block *of, const uint8_t *b, int64_t distance, bool tall, int64_t panels) {
    const rt_integer_block *block = of->block;
    const int64_t bytes = (block->depth % TILE_BYTES + 3) / 4 * TILE_BYTES;
    uint8_t own[TOGETHER][PANEL_STEP];
    tile_steps steps = {of->rest[0], b, TILE_BYTES, distance, 1};
    if (of->end - b < (panels - 1) * distance + PANEL_STEP) {
        for (int64_t p = 0; p < panels; p++) {
            memcpy(own[p], b + p * distance, (size_t)bytes);
            memset(own[p] + bytes, 0, (size_t)(PANEL_STEP - bytes));
        }
        steps.b = own[0];
        steps.distance = PANEL_STEP;
    }
    rt_tiles_settle();
    add_steps(&steps, tall, panels, block->a_dtype == OP_INT8);
    rt_tiles_settle();
}

/* Adds to the tiles of sums all products of rows and panels. */
static void add_products(const tile_block *of, int64_t row, bool tall, int64_t column, int64_t panels) {
    const rt_integer_block *block = of->block;
    const uint8_t *a = (const uint8_t *)block->a + row * block->a_row;
    for (int64_t from = 0; from < block->depth; from += RT_INTEGER_PACKED) {
        const int64_t left = block->depth - from, depth = left < RT_INTEGER_PACKED ? left : RT_INTEGER_PACKED,
                      count = depth / TILE_BYTES, distance = (depth + 3) / 4 * TILE_BYTES;
        const uint8_t *b = rt_integer_packed_panel(block->packed, block->depth, block->packed_columns, from,
                                                   block->packed_column + column);
        const tile_steps steps = {a + from, b, block->a_row, distance, count};
        if (count) add_steps(&steps, tall, panels, block->a_dtype == OP_INT8);
        if (depth % TILE_BYTES) add_rest(of, b + count * PANEL_STEP, distance, tall, panels);
    }
}

/* Columns [column, end) of some rows. What sums begin with is written while those before are multiplied: a tile waits until it is there. */
RT_WITH_TILES static void run_rows(const tile_block *of, int64_t row, int64_t rows, int64_t column,
                                   int64_t end, int32_t *to, int64_t pitch) {
    const bool tall = rows > TILE_ROWS;
    const int64_t wide = (tall ? TOGETHER / 2 : TOGETHER) * RT_INTEGER_PANEL;
    int32_t sums[2][SUMS];
    begin_sums(of, row, rows, column, end - column < wide ? end - column : wide, sums[0], wide);
    for (int turn = 0; column < end; column += wide, to += wide, turn ^= 1) {
        const int64_t left = end - column, columns = left < wide ? left : wide, after = left - columns,
                      panels = (columns + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL;
        rt_tiles_load(sums[turn], wide * (int64_t)sizeof *to, TILE_ROWS, TILE_ROWS * wide, tall, panels);
        begin_sums(of, row, rows, column + wide, after < wide ? after : wide, sums[turn ^ 1], wide);
        add_products(of, row, tall, column, panels);
        if (columns % RT_INTEGER_PANEL == 0) {
            rt_tiles_store(to, pitch, tall, panels);
            continue;
        }
        rt_tiles_store(sums[turn], wide, tall, panels);
        for (int64_t i = 0; i < rows; i++)
            memcpy(to + i * pitch, sums[turn] + i * wide, (size_t)columns * sizeof *to);
    }
}

RT_WITH_TILES void rt_byte_tiles_run(const rt_integer_block *block, const rt_byte_tiles_results *results) {
    tile_block of;
    of.block = block;
    size_t bytes = 0;
    rt_integer_packed_bytes(block->depth, block->packed_columns, &bytes);
    of.end = (const uint8_t *)block->packed + bytes;
    of.column_sums =
        rt_integer_packed_sums(block->packed, block->depth, block->packed_columns) + block->packed_column;
    describe_block(&of);
    int32_t own[GROUP * PART];
    int64_t configured = 0;
    for (int64_t column = 0; column < block->columns; column += PART) {
        const int64_t end = column + PART < block->columns ? column + PART : block->columns;
        for (int64_t row = 0; row < block->rows; row += GROUP) {
            const int64_t rows = block->rows - row < GROUP ? block->rows - row : GROUP;
            int32_t *to = results->sums ? results->sums + row * results->sums_row + column : own;
            if (rows != configured) rt_tiles_set_up(rows, RT_TILE_ROWS);
            configured = rows;
            copy_rest(&of, row, rows);
            run_rows(&of, row, rows, column, end, to, results->sums ? results->sums_row : PART);
            if (!results->sums) results->finish(results->results, row, rows, column, end - column, own, PART);
        }
    }
    _tile_release(); /* the system saves no tiles then */
}

#else

bool rt_byte_tiles_wanted(void) {
    return false;
}
void rt_byte_tiles_run(const rt_integer_block *block, const rt_byte_tiles_results *results) {
    (void)block, (void)results;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_tiles.c: products of floats in tiles of bytes; see fixed_tiles.h. */
#include "runtime/kernels/portable/fixed_tiles.h"
#include "ir/base/base.h"
#include "runtime/kernels/portable/fixed_digits.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    /* A number is small that keeps so many bits or fewer: */
    SMALL_BITS = 10,            /* of a row */
    SMALL_WEIGHT_BITS = 13,     /* of weights */
    SMALL_HALF_WEIGHT_BITS = 8, /* of weights that are halves, which have 11 */
    /* One in so many of the depth: */
    COARSE =
        2, /* small numbers make a row coarse: those that are not are then multiplied by few weights that are not */
    SPARSE =
        2, /* zeros and small numbers make weights unfit: they may be where all large numbers of a row are; */
    UNFIT = 8 /* and so do fewer that are no zeros */
};

static inline int digits_of(int products) {
    return products == RT_FIXED_HALF_PRODUCTS ? RT_FIXED_HALF_DIGITS : RT_FIXED_DIGITS;
}

static bool is_finite(float value) {
    return fabsf(value) <= FLT_MAX;
}

/* ---- columns ------------------------------------------------------------------------------------------- */

static float number_at(const rt_fixed_columns *columns, int64_t column, int64_t k) {
    return columns->from[column * columns->step + k * columns->along] * columns->factor;
}

/* The size of the largest number of each column, by its bits: those of what is not finite are the largest. */
static void find_largest(const rt_fixed_columns *columns, float *largest) {
    enum { SIZE = 0x7FFFFFFF };
    uint32_t most[RT_FIXED_COLUMNS] = {0};
    for (int64_t k = 0; k < columns->depth; k++) {
        for (int64_t j = 0; j < columns->count; j++) {
            const uint32_t size = base_bits_of_float(number_at(columns, j, k)) & SIZE;
            most[j] = size > most[j] ? size : most[j];
        }
    }
    for (int64_t j = 0; j < columns->count; j++) largest[j] = base_float_of_bits(most[j]);
}

bool rt_fixed_is_fit(const rt_fixed_columns *columns) {
    float largest[RT_FIXED_COLUMNS], limit[RT_FIXED_COLUMNS];
    int32_t small[RT_FIXED_COLUMNS] = {0}, zeros[RT_FIXED_COLUMNS] = {0};
    const bool halves = columns->digits == RT_FIXED_HALF_DIGITS;
    const int bits = rt_fixed_small_below(halves ? SMALL_HALF_WEIGHT_BITS : SMALL_WEIGHT_BITS, columns->digits);
    find_largest(columns, largest);
    for (int64_t j = 0; j < columns->count; j++) limit[j] = largest[j] * rt_fixed_power(-bits);
    for (int64_t k = 0; k < columns->depth; k++) {
        for (int64_t j = 0; j < columns->count; j++) {
            const float size = fabsf(number_at(columns, j, k));
            zeros[j] += size == 0;
            small[j] += size < limit[j];
        }
    }
    for (int64_t j = 0; j < columns->count; j++) {
        if (largest[j] == 0) continue;
        if (!is_finite(largest[j]) || small[j] * SPARSE > columns->depth ||
            (small[j] - zeros[j]) * UNFIT > columns->depth)
            return false;
    }
    return true;
}

void rt_fixed_split_columns(const rt_fixed_columns *columns, char *to, float *scales, int32_t *sums) {
    enum { QUAD = 4, LINE = RT_FIXED_COLUMNS * QUAD, HALF = 128 };
    float largest[RT_FIXED_COLUMNS];
    find_largest(columns, largest);
    for (int64_t column = 0; column < columns->count; column++) {
        const rt_fixed_scale scale = rt_fixed_scale_of(largest[column], columns->digits);
        scales[column] = scale.down;
        for (int64_t k = 0; k < columns->depth; k++) {
            const int64_t step = k / RT_FIXED_STEP, row = k % RT_FIXED_STEP / QUAD;
            char *at = to + step * rt_fixed_tile_bytes(columns->digits) + row * columns->digits * LINE +
                       column * QUAD + k % QUAD;
            rt_fixed_write_digits((int32_t)lrintf(number_at(columns, column, k) * scale.up), columns->digits,
                                  LINE, at);
            for (int digit = 0; digit < columns->digits; digit++)
                sums[digit * RT_FIXED_PAIR + column] += HALF * (signed char)at[digit * LINE];
        }
    }
}

/* ---- infinities ---------------------------------------------------------------------------------------- */

static float row_number(const rt_fixed_rows *rows, int64_t row, int64_t k) {
    enum { LANES = 16 };
    const int64_t at = row * rows->step + k / LANES * rows->plane + k % LANES;
    return rows->digits == RT_FIXED_DIGITS ? ((const float *)rows->from)[at]
                                           : base_float_from_half(((const uint16_t *)rows->from)[at]);
}

/* A weight from its digits, times a power of two. */
static float weight_at(const char *b, int digits, int64_t column, int64_t k) {
    enum { QUAD = 4, LINE = RT_FIXED_COLUMNS * QUAD, BASE = 256 };
    const int64_t step = k / RT_FIXED_STEP, row = k % RT_FIXED_STEP / QUAD;
    const signed char *at = (const signed char *)b + step * rt_fixed_tile_bytes(digits) +
                            row * digits * LINE + column * QUAD + k % QUAD;
    int32_t weight = 0;
    for (int digit = 0; digit < digits; digit++) weight = weight * BASE + at[digit * LINE];
    return (float)weight;
}

/* Adds the products of number `k` of a row. */
static void add_products_of(float number, int64_t k, const rt_fixed_tiles *tiles, int64_t columns, float *c) {
    const int64_t bytes = tiles->steps * rt_fixed_tile_bytes(digits_of(tiles->products));
    for (int64_t j = 0; j < columns; j++) {
        const char *b = tiles->b + j / RT_FIXED_COLUMNS * bytes;
        c[j] += number * weight_at(b, digits_of(tiles->products), j % RT_FIXED_COLUMNS, k);
    }
}

static bool all_are_nan(const float *c, int64_t columns) {
    for (int64_t j = 0; j < columns; j++)
        if (!isnan(c[j])) return false;
    return true;
}

void rt_fixed_add_infinite(const rt_fixed_rows *rows, const rt_fixed_tiles *tiles, int64_t columns) {
    for (int64_t i = 0; i < rows->count; i++) {
        float *c = tiles->c + i * RT_FIXED_PAIR;
        bool done = all_are_nan(c, columns);
        for (int64_t k = 0; k < rows->depth && !done; k++) {
            const float number = row_number(rows, i, k);
            if (is_finite(number)) continue;
            add_products_of(number, k, tiles, columns, c);
            done = all_are_nan(c, columns);
        }
    }
}

#if defined(RT_HAS_BYTE_TILES)
#include "runtime/kernels/portable/half_lanes.h"

#define WITH_FIXED_TILES RT_WITH_FIXED
#define WITH_FIXED_ROW                                                                                       \
    __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))
#define ALWAYS RT_FIXED_ALWAYS

/* ---- the machine --------------------------------------------------------------------------------------- */

bool rt_fixed_wanted(void) {
    /* Asked once, as searches ask very often. Threads may all ask, and get the same answer. */
    static _Atomic int known; /* 0: not yet; 1: no; 2: yes */
    int answer = known;
    if (!answer) {
        answer = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
                         __builtin_cpu_supports("avx512vnni") && rt_tiles_are_here()
                     ? 2
                     : 1;
        known = answer;
    }
    return answer == 2;
}

WITH_FIXED_TILES void rt_fixed_begin(int64_t rows) {
    rt_tiles_setting made = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        made.row_bytes[i] = RT_TILE_BYTES;
        made.rows[i] = i >= 4 && i <= 6 ? RT_TILE_ROWS : (uint8_t)rows;
    }
    rt_tiles_settle();
    _tile_loadconfig(&made);
    rt_tiles_settle();
}

WITH_FIXED_TILES void rt_fixed_end(void) {
    _tile_release();
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

/* The digits of 64 integers of a row, the highest first, `step` bytes after each other; of a row alone, with 128 more. */
WITH_FIXED_TILES ALWAYS void leave_digits(__m512i *of, char *to, bool alone, int digits) {
    const int64_t step = alone ? RT_FIXED_STEP : RT_TILE_SIZE;
    for (int i = 0; i < 4; i++) of[i] = rt_fixed_bytes(of[i], alone, digits);
    for (int digit = 0; digit < digits; digit++)
        _mm512_store_si512(to + digit * step, rt_fixed_digit_of(of, digits - 1 - digit));
}

/* A row of floats or halves: its first number, and bytes from 16 of them to the next 16. */
typedef struct one_row {
    const char *from;
    int64_t plane, depth;
} one_row;

WITH_FIXED_TILES ALWAYS int64_t number_bytes(int digits) {
    return digits == RT_FIXED_DIGITS ? sizeof(float) : sizeof(uint16_t);
}

/* Numbers [k, k + 16), those beyond its end as zeros; k is a multiple of 16. */
WITH_FIXED_TILES ALWAYS __m512 numbers_at(const one_row *row, int64_t k, int digits) {
    enum { LANES = 16 };
    const char *from = row->from + k / LANES * row->plane;
    const bool halves = digits != RT_FIXED_DIGITS;
    if (k + LANES <= row->depth) return rt_load_lanes_16(from, 0xFFFF, halves);
    if (k >= row->depth) return _mm512_setzero_ps();
    return rt_load_lanes_16(from, rt_first_lanes_16(row->depth - k), halves);
}

enum { VECTORS = RT_FIXED_DEPTH / 16, QUAD = 4 };

/* The numbers of a row, `count` vectors of them. */
WITH_FIXED_TILES ALWAYS void load_row(const one_row *row, int digits, int count, __m512 *numbers) {
    _Pragma("GCC unroll 16") for (int i = 0; i < count; i++) numbers[i] = numbers_at(row, i * 16, digits);
}

/* As bits, of which those of what is not finite are the largest. */
WITH_FIXED_TILES ALWAYS float largest_of(const __m512 *numbers, int count) {
    __m512i most[QUAD];
    _Pragma("GCC unroll 4") for (int i = 0; i < QUAD; i++) most[i] = rt_fixed_sizes(numbers[i]);
    _Pragma("GCC unroll 16") for (int i = QUAD; i < count; i++) most[i % QUAD] =
        _mm512_max_epu32(most[i % QUAD], rt_fixed_sizes(numbers[i]));
    return base_float_of_bits(_mm512_reduce_max_epu32(
        _mm512_max_epu32(_mm512_max_epu32(most[0], most[1]), _mm512_max_epu32(most[2], most[3]))));
}

/* Whether many numbers of a row are small beside the largest. */
WITH_FIXED_TILES ALWAYS bool is_coarse(const __m512 *numbers, int count, int64_t depth, float largest,
                                       int digits) {
    const int bits = rt_fixed_small_below(SMALL_BITS, digits);
    const __m512i one = _mm512_set1_epi32(1),
                  limit = _mm512_set1_epi32((int)base_bits_of_float(largest * rt_fixed_power(-bits)));
    int64_t small = 0;
    _Pragma("GCC unroll 16") for (int i = 0; i < count; i++) {
        /* Zeros are none of them: less 1, they are the largest. */
        const __m512i below = _mm512_sub_epi32(rt_fixed_sizes(numbers[i]), one);
        small += __builtin_popcount(_mm512_cmplt_epu32_mask(below, limit));
    }
    return small * COARSE > depth;
}

static int64_t step_bytes(const rt_fixed_rows *rows) {
    return rows->alone ? rt_fixed_row_bytes(rows->digits) : rt_fixed_tile_bytes(rows->digits);
}

/* Zeros for the rows that are not there. */
static void clear_rows(const rt_fixed_rows *rows) {
    const int64_t steps = (rows->depth + RT_FIXED_STEP - 1) / RT_FIXED_STEP;
    char *to = rows->to + rows->count * RT_TILE_BYTES;
    if (rows->alone || rows->count == RT_FIXED_ROWS) return;
    for (int64_t i = 0; i < steps * rows->digits; i++, to += RT_TILE_SIZE)
        memset(to, 0, (size_t)((RT_FIXED_ROWS - rows->count) * RT_TILE_BYTES));
    for (int64_t i = rows->count; i < RT_FIXED_ROWS; i++) rows->scales[i] = 0;
}

/* The row with zeros for what is not finite, in `numbers`. */
WITH_FIXED_TILES static one_row finite_row(const one_row *row, int digits, char *numbers) {
    enum { LANES = 16 };
    const int64_t plane = LANES * number_bytes(digits);
    for (int64_t k = 0; k < row->depth; k += LANES) {
        const __m512 some = numbers_at(row, k, digits);
        const __mmask16 finite = _mm512_cmp_ps_mask(_mm512_abs_ps(some), _mm512_set1_ps(FLT_MAX), _CMP_LE_OQ);
        rt_store_lanes_16(numbers + k / LANES * plane, 0xFFFF, _mm512_maskz_mov_ps(finite, some),
                          digits != RT_FIXED_DIGITS);
    }
    return (one_row){numbers, plane, row->depth};
}

/* Digits and scale of row `i`, or, in parts from 1 on, of what these leave of a coarse one: zeros of others. `count` vectors hold it. Says what the
 * digits lack. */
WITH_FIXED_TILES ALWAYS int split_row(const rt_fixed_rows *rows, int64_t i, int digits, int part, int count) {
    const int64_t step = step_bytes(rows), bytes = number_bytes(digits);
    one_row row = {(const char *)rows->from + i * rows->step * bytes, rows->plane * bytes, rows->depth};
    char spare[RT_FIXED_DEPTH * sizeof(float)], *to = rows->to + i * RT_TILE_BYTES;
    __m512 numbers[VECTORS];
    int lack = 0;
    load_row(&row, digits, count, numbers);
    float largest = largest_of(numbers, count);
    if (isinf(largest)) { /* and there is no NaN, whose bits would be larger */
        row = finite_row(&row, digits, spare);
        load_row(&row, digits, count, numbers);
        largest = largest_of(numbers, count);
        lack |= RT_FIXED_INFINITE;
    }
    const rt_fixed_scale scale = rt_fixed_scale_of(largest, digits);
    const bool coarse = scale.up > 0 && is_coarse(numbers, count, rows->depth, largest, digits),
               all = part == 0 || coarse;
    const __m512 up = _mm512_set1_ps(scale.up);
    rows->scales[i] = all ? scale.down * rt_fixed_power(-part * RT_FIXED_REST_BITS) : 0;
    if (coarse) lack |= RT_FIXED_COARSE;
    _Pragma("GCC unroll 4") for (int k = 0; k < count; k += QUAD, to += step) {
        __m512i of[QUAD] = {0};
        _Pragma("GCC unroll 4") for (int j = 0; j < QUAD && all; j++) {
            const __m512 number = numbers[k + j] * up;
            of[j] = coarse ? rt_fixed_part(number, digits, part) : _mm512_cvtps_epi32(number);
        }
        leave_digits(of, to, rows->alone, digits);
    }
    return lack;
}

WITH_FIXED_TILES ALWAYS int split_count(const rt_fixed_rows *rows, int digits, int part, int count) {
    int lack = 0;
    for (int64_t i = 0; i < rows->count; i++) lack |= split_row(rows, i, digits, part, count);
    return lack;
}

/* All rows. */
WITH_FIXED_TILES ALWAYS int split(const rt_fixed_rows *rows, int digits, int part) {
    const int64_t steps = (rows->depth + RT_FIXED_STEP - 1) / RT_FIXED_STEP;
    const int lack = steps == 1   ? split_count(rows, digits, part, QUAD)
                     : steps == 2 ? split_count(rows, digits, part, 2 * QUAD)
                     : steps == 3 ? split_count(rows, digits, part, 3 * QUAD)
                                  : split_count(rows, digits, part, VECTORS);
    clear_rows(rows);
    return lack;
}

WITH_FIXED_TILES int rt_fixed_split_rows(const rt_fixed_rows *rows) {
    return rows->digits == RT_FIXED_DIGITS ? split(rows, RT_FIXED_DIGITS, 0)
                                           : split(rows, RT_FIXED_HALF_DIGITS, 0);
}

WITH_FIXED_TILES void rt_fixed_split_rest(const rt_fixed_rows *rows, int part) {
    if (rows->digits == RT_FIXED_DIGITS) (void)split(rows, RT_FIXED_DIGITS, part);
    else (void)split(rows, RT_FIXED_HALF_DIGITS, part);
}

/* ---- tiles --------------------------------------------------------------------------------------------- */

/* Lines that are asked for between products: one each time, in two places in turn; or, where they are many, two each time, in four. Lines of several
 * places come faster from memory than those of one, as a core reads ahead in each. */
typedef struct lines_ahead {
    const char *next, *end; /* of the first place */
    int64_t apart;          /* bytes from one place to the next */
    int64_t surplus;        /* so many times more, before each step */
} lines_ahead;

ALWAYS lines_ahead lines_of(const rt_fixed_tiles *of, int64_t steps, int products, bool many) {
    enum { PLACES = 2, MANY_PLACES = 4, MANY_EACH = 2 };
    const int64_t lines = of->lines / (many ? MANY_PLACES : PLACES),
                  times = (of->lines + MANY_EACH * steps - 1) / (MANY_EACH * steps); /* in a step */
    return (lines_ahead){.next = of->next,
                         .end = of->next + lines * RT_TILE_BYTES,
                         .apart = lines * RT_TILE_BYTES,
                         .surplus = many ? times - products : 0};
}

/* For the `number`th time. */
ALWAYS void ask_for(lines_ahead *ahead, int number, bool many) {
    if (ahead->next >= ahead->end) return;
    const char *lines = ahead->next + (number % 2 == 0 ? 0 : ahead->apart);
    __builtin_prefetch(lines, 0, 2);
    if (many) __builtin_prefetch(lines + 2 * ahead->apart, 0, 2);
    if (number % 2 != 0) ahead->next += RT_TILE_BYTES;
}

ALWAYS void ask_for_surplus(lines_ahead *ahead, bool many) {
    for (int64_t i = 0; i < ahead->surplus && many; i += 2) {
        ask_for(ahead, 0, many);
        ask_for(ahead, 1, many);
    }
}

/* Digits of a tile of rows: those of step k begin at a + (steps ? steps[k] : k times those of a step that lie after each other). */
typedef struct row_tile {
    const char *a;
    const int64_t *steps;
    int64_t row, digit; /* bytes from one to the next */
} row_tile;

ALWAYS const char *step_of(const row_tile *rows, int64_t k, int digits) {
    return rows->a + (rows->steps ? rows->steps[k] : k * digits * RT_FIXED_DIGIT_BYTES);
}

/* One tile of sums of each level, the highest first, in tiles 0 to 3. Columns are tiles 4 to 6, rows 7. */
WITH_FIXED_TILES ALWAYS void multiply_floats(const row_tile *rows, const char *b, int64_t steps, bool all,
                                             lines_ahead *ahead, bool many) {
    enum { DIGITS = RT_FIXED_DIGITS, ROW = DIGITS * RT_TILE_BYTES, BYTES = DIGITS * RT_FIXED_DIGIT_BYTES };
    for (int64_t k = 0; k < steps; k++, b += BYTES) {
        const char *a = step_of(rows, k, DIGITS);
        ask_for_surplus(ahead, many);
        _tile_loadd(7, a, rows->row);
        _tile_loadd(4, b, ROW);
        _tile_dpbssd(0, 7, 4);
        ask_for(ahead, 0, many);
        _tile_loadd(5, b + RT_TILE_BYTES, ROW);
        _tile_dpbssd(1, 7, 5);
        ask_for(ahead, 1, many);
        _tile_loadd(6, b + 2 * RT_TILE_BYTES, ROW);
        _tile_dpbssd(2, 7, 6);
        ask_for(ahead, 2, many);
        _tile_loadd(7, a + rows->digit, rows->row);
        _tile_dpbssd(1, 7, 4);
        ask_for(ahead, 3, many);
        _tile_dpbssd(2, 7, 5);
        ask_for(ahead, 4, many);
        if (all) {
            _tile_dpbssd(3, 7, 6);
            ask_for(ahead, 5, many);
        }
        _tile_loadd(7, a + 2 * rows->digit, rows->row);
        _tile_dpbssd(2, 7, 4);
        ask_for(ahead, all ? 6 : 5, many);
        if (all) {
            _tile_dpbssd(3, 7, 5);
            ask_for(ahead, 7, many);
        }
    }
}

WITH_FIXED_TILES ALWAYS void multiply_halves(const row_tile *rows, const char *b, int64_t steps,
                                             lines_ahead *ahead, bool many) {
    enum {
        DIGITS = RT_FIXED_HALF_DIGITS,
        ROW = DIGITS * RT_TILE_BYTES,
        BYTES = DIGITS * RT_FIXED_DIGIT_BYTES
    };
    for (int64_t k = 0; k < steps; k++, b += BYTES) {
        const char *a = step_of(rows, k, DIGITS);
        ask_for_surplus(ahead, many);
        _tile_loadd(7, a, rows->row);
        _tile_loadd(4, b, ROW);
        _tile_dpbssd(0, 7, 4);
        ask_for(ahead, 0, many);
        _tile_loadd(5, b + RT_TILE_BYTES, ROW);
        _tile_dpbssd(1, 7, 5);
        ask_for(ahead, 1, many);
        _tile_loadd(7, a + rows->digit, rows->row);
        _tile_dpbssd(2, 7, 5);
        ask_for(ahead, 2, many);
        _tile_dpbssd(1, 7, 4);
        ask_for(ahead, 3, many);
    }
}

WITH_FIXED_TILES ALWAYS void multiply(const row_tile *rows, const char *b, int64_t steps, int products,
                                      lines_ahead *ahead, bool many, int32_t *sums) {
    enum { LEVEL = RT_FIXED_ROWS * RT_FIXED_COLUMNS };
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    if (products == RT_FIXED_PRODUCTS) _tile_zero(3);
    if (products == RT_FIXED_HALF_PRODUCTS) multiply_halves(rows, b, steps, ahead, many);
    else multiply_floats(rows, b, steps, products == RT_FIXED_PRODUCTS, ahead, many);
    _tile_stored(0, sums, RT_TILE_BYTES);
    _tile_stored(1, sums + LEVEL, RT_TILE_BYTES);
    _tile_stored(2, sums + 2 * LEVEL, RT_TILE_BYTES);
    if (products == RT_FIXED_PRODUCTS) _tile_stored(3, sums + 3 * LEVEL, RT_TILE_BYTES);
}

/* The sums of three levels and more below them, the highest first, as one float each. */
WITH_FIXED_TILES ALWAYS __m512 add_levels(__m512i first, __m512i second, __m512 more) {
    const __m512 digit = _mm512_set1_ps(1.0f / 256);
    const __m512 sum = _mm512_fmadd_ps(more, digit, _mm512_cvtepi32_ps(second));
    return _mm512_fmadd_ps(sum, digit, _mm512_cvtepi32_ps(first));
}

WITH_FIXED_TILES ALWAYS __m512 sum_of_three(__m512i first, __m512i second, __m512i third) {
    return add_levels(first, second, _mm512_cvtepi32_ps(third));
}

WITH_FIXED_TILES ALWAYS __m512 sum_of_four(__m512i first, __m512i second, __m512i third, __m512i fourth) {
    const __m512 digit = _mm512_set1_ps(1.0f / 256);
    return add_levels(first, second,
                      _mm512_fmadd_ps(_mm512_cvtepi32_ps(fourth), digit, _mm512_cvtepi32_ps(third)));
}

WITH_FIXED_TILES ALWAYS void leave(__m512 sum, __m512 scale, float *c, bool add) {
    _mm512_store_ps(c, add ? _mm512_fmadd_ps(sum, scale, _mm512_load_ps(c)) : _mm512_mul_ps(sum, scale));
}

/* Sums that are to become floats, of tile `row` of rows and tile `column` of columns. */
typedef struct left_sums {
    int32_t *sums; /* NULL: there are none */
    int64_t row, column;
} left_sums;

WITH_FIXED_TILES ALWAYS __m512 row_of_sums(const int32_t *sums, int products) {
    enum { LEVEL = RT_FIXED_ROWS * RT_FIXED_COLUMNS };
    const __m512i first = _mm512_load_si512(sums), second = _mm512_load_si512(sums + LEVEL),
                  third = _mm512_load_si512(sums + 2 * LEVEL);
    if (products != RT_FIXED_PRODUCTS) return sum_of_three(first, second, third);
    return sum_of_four(first, second, third, _mm512_load_si512(sums + 3 * LEVEL));
}

/* To `c`. */
WITH_FIXED_TILES ALWAYS void leave_sums(const rt_fixed_tiles *of, const left_sums *left, int products) {
    const float *a_scales = of->a_scales ? of->a_scales + left->row * RT_FIXED_ROWS : NULL;
    const __m512 columns = a_scales ? _mm512_loadu_ps(of->b_scales + left->column * RT_FIXED_COLUMNS)
                                    : _mm512_set1_ps(1);
    const int32_t *sums = left->sums;
    float *c = of->c + left->row * of->c_tile + left->column * RT_FIXED_COLUMNS;
    for (int64_t i = 0; i < of->rows; i++, sums += RT_FIXED_COLUMNS, c += of->c_row)
        leave(row_of_sums(sums, products), columns * _mm512_set1_ps(a_scales ? a_scales[i] : 1), c, of->add);
}

/* To the result. */
WITH_FIXED_TILES ALWAYS void leave_result(const rt_fixed_tiles *of, const left_sums *left, int products) {
    const rt_fixed_result *to = of->result;
    const bool halves = products == RT_FIXED_HALF_PRODUCTS;
    const int64_t bytes = number_bytes(digits_of(products));
    const float *a_scales = of->a_scales + left->row * RT_FIXED_ROWS;
    const int64_t first = left->row * of->rows, column = left->column * RT_FIXED_COLUMNS,
                  at = (first * to->row + left->column * to->beside) * bytes;
    const int64_t rows = to->rows - first < of->rows ? to->rows - first : of->rows;
    const __mmask16 there = to->there[left->column], stored = to->stored[left->column];
    const __m512 columns = _mm512_loadu_ps(of->b_scales + column),
                 bias = to->bias ? rt_load_lanes_16((const char *)to->bias + column * bytes, there, halves)
                                 : _mm512_setzero_ps();
    const float *c = of->c + left->row * of->c_tile + column;
    const char *residual = to->residual;
    const int32_t *sums = left->sums;
    char *y = (char *)to->y + at;
    if (residual) residual += at;
    for (int64_t i = 0; i < rows; i++, sums += RT_FIXED_COLUMNS, c += of->c_row, y += to->row * bytes) {
        const __m512 part = row_of_sums(sums, products), scale = columns * _mm512_set1_ps(a_scales[i]);
        __m512 sum = part * scale;
        if (of->add) sum = _mm512_fmadd_ps(part, scale, _mm512_load_ps(c));
        if (to->bias) sum = sum + bias;
        if (residual) sum = sum + rt_load_lanes_16(residual + i * to->row * bytes, stored, halves);
        if (to->limits) RT_LIMIT_16(sum, to->low, to->high);
        rt_store_lanes_16(y, stored, _mm512_maskz_mov_ps(there, sum), halves);
    }
}

WITH_FIXED_TILES ALWAYS void multiply_all(const rt_fixed_tiles *of, int products, bool many) {
    const int64_t bytes = of->steps * rt_fixed_tile_bytes(digits_of(products)), columns = of->wide ? 2 : 1;
    lines_ahead ahead = lines_of(of, of->count * columns * of->steps, products, many);
    left_sums before = {0};
    rt_tiles_settle();
    for (int64_t i = 0; i <= of->count * columns; i++) {
        const left_sums now = {.sums = i == of->count * columns  ? NULL
                                       : before.sums == of->sums ? of->sums + RT_FIXED_SUMS
                                                                 : of->sums,
                               .row = i / columns,
                               .column = i % columns};
        const row_tile rows = {of->a + now.row * of->places.tile, of->places.steps, of->places.row,
                               of->places.digit};
        if (now.sums)
            multiply(&rows, of->b + now.column * bytes, of->steps, products, &ahead, many, now.sums);
        rt_tiles_settle();
        /* Those of the tile before: what tiles have just stored cannot be read for a while. */
        if (before.sums && of->result) leave_result(of, &before, products);
        else if (before.sums) leave_sums(of, &before, products);
        before = now;
    }
    rt_tiles_settle();
}

WITH_FIXED_TILES void rt_fixed_multiply(const rt_fixed_tiles *of) {
    const bool many = of->lines > of->count * (of->wide ? 2 : 1) * of->steps * of->products;
    if (of->products == RT_FIXED_PRODUCTS && many) multiply_all(of, RT_FIXED_PRODUCTS, true);
    else if (of->products == RT_FIXED_PRODUCTS) multiply_all(of, RT_FIXED_PRODUCTS, false);
    else if (of->products == RT_FIXED_FEWER_PRODUCTS && many) multiply_all(of, RT_FIXED_FEWER_PRODUCTS, true);
    else if (of->products == RT_FIXED_FEWER_PRODUCTS) multiply_all(of, RT_FIXED_FEWER_PRODUCTS, false);
    else if (many) multiply_all(of, RT_FIXED_HALF_PRODUCTS, true);
    else multiply_all(of, RT_FIXED_HALF_PRODUCTS, false);
}

/* ---- one row ------------------------------------------------------------------------------------------- */

/* A vector that stays in a register, as it is multiplied several times: reading it takes as long as multiplying. */
WITH_FIXED_ROW ALWAYS __m512i read_once(const char *from) {
    __m512i value = _mm512_load_si512(from);
    __asm__("" : "+v"(value));
    return value;
}

/* Written as it is: compilers move each sum from register to register, and some to memory, where they see what is done. */
WITH_FIXED_ROW ALWAYS void add_quads(__m512i *sum, __m512i a, __m512i b) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
}

/* Eight or six products of four digits of a row each and those of 16 columns. Asks for those of the next step. */
WITH_FIXED_ROW ALWAYS void add_float_products(__m512i *sums, const __m512i *a, const char *b, bool all) {
    enum { DIGIT = RT_TILE_BYTES, STEP = RT_FIXED_DIGITS * RT_FIXED_DIGIT_BYTES };
    const __m512i first = read_once(b), second = read_once(b + DIGIT), third = read_once(b + 2 * DIGIT);
    const uintptr_t next = (uintptr_t)b + STEP;
    add_quads(&sums[0], a[0], first);
    add_quads(&sums[1], a[0], second);
    __builtin_prefetch((const void *)next, 0, 3);
    add_quads(&sums[2], a[1], first);
    add_quads(&sums[3], a[0], third);
    __builtin_prefetch((const void *)(next + DIGIT), 0, 3);
    add_quads(&sums[4], a[1], second);
    add_quads(&sums[5], a[2], first);
    __builtin_prefetch((const void *)(next + 2 * DIGIT), 0, 3);
    if (all) {
        add_quads(&sums[6], a[1], third);
        add_quads(&sums[7], a[2], second);
    }
}

/* Four of halves. */
WITH_FIXED_ROW ALWAYS void add_half_products(__m512i *sums, const __m512i *a, const char *b) {
    enum { DIGIT = RT_TILE_BYTES, STEP = RT_FIXED_HALF_DIGITS * RT_FIXED_DIGIT_BYTES };
    const __m512i first = read_once(b), second = read_once(b + DIGIT);
    const uintptr_t next = (uintptr_t)b + STEP;
    add_quads(&sums[0], a[0], first);
    add_quads(&sums[1], a[0], second);
    __builtin_prefetch((const void *)next, 0, 3);
    add_quads(&sums[2], a[1], first);
    add_quads(&sums[3], a[1], second);
    __builtin_prefetch((const void *)(next + DIGIT), 0, 3);
}

/* The sums as one float each: `more` are the sums of the digits of columns times 128, which the digits of the row have too much. */
WITH_FIXED_ROW ALWAYS __m512 row_sum(const __m512i *sums, const int32_t *more, int products) {
    const __m512i first = _mm512_loadu_si512(more), second = _mm512_loadu_si512(more + RT_FIXED_PAIR),
                  two = _mm512_add_epi32(first, second), highest = _mm512_sub_epi32(sums[0], first),
                  next = _mm512_sub_epi32(_mm512_add_epi32(sums[1], sums[2]), two);
    if (products == RT_FIXED_HALF_PRODUCTS)
        return sum_of_three(highest, next, _mm512_sub_epi32(sums[3], second));
    const __m512i third = _mm512_loadu_si512(more + 2 * RT_FIXED_PAIR);
    const __m512i low = _mm512_sub_epi32(_mm512_add_epi32(_mm512_add_epi32(sums[3], sums[4]), sums[5]),
                                         _mm512_add_epi32(two, third));
    if (products != RT_FIXED_PRODUCTS) return sum_of_three(highest, next, low);
    return sum_of_four(
        highest, next, low,
        _mm512_sub_epi32(_mm512_add_epi32(sums[6], sums[7]), _mm512_add_epi32(second, third)));
}

WITH_FIXED_ROW ALWAYS void leave_row(const rt_fixed_tiles *of, const __m512i *sums, int64_t column,
                                     int products) {
    const __m512 scale = _mm512_loadu_ps(of->b_scales + column) * _mm512_set1_ps(of->a_scales[0]);
    leave(row_sum(sums, of->b_sums + column, products), scale, of->c + column, of->add);
}

WITH_FIXED_ROW ALWAYS void multiply_row(const rt_fixed_tiles *of, int products, bool wide) {
    enum { QUADS = RT_FIXED_STEP / 4, MOST_PRODUCTS = RT_FIXED_PRODUCTS };
    const int digits = digits_of(products);
    const int64_t bytes = rt_fixed_tile_bytes(digits), row = digits * RT_TILE_BYTES,
                  second = of->steps * bytes;
    const char *a = of->a, *b = of->b;
    __m512i sums[2][MOST_PRODUCTS];
    _Pragma("GCC unroll 8") for (int i = 0; i < MOST_PRODUCTS; i++) sums[0][i] = sums[1][i] =
        _mm512_setzero_si512();
    for (int64_t step = 0; step < of->steps; step++, a += rt_fixed_row_bytes(digits), b += bytes) {
        for (int quad = 0; quad < QUADS; quad++) {
            __m512i some[RT_FIXED_DIGITS];
            _Pragma("GCC unroll 3") for (int i = 0; i < digits; i++) {
                int32_t four;
                memcpy(&four, a + i * RT_FIXED_STEP + 4 * quad, sizeof four);
                some[i] = _mm512_set1_epi32(four);
            }
            for (int i = 0; i < (wide ? 2 : 1); i++) {
                const char *of_quad = b + i * second + quad * row;
                if (products == RT_FIXED_HALF_PRODUCTS) add_half_products(sums[i], some, of_quad);
                else add_float_products(sums[i], some, of_quad, products == RT_FIXED_PRODUCTS);
            }
        }
    }
    leave_row(of, sums[0], 0, products);
    if (wide) leave_row(of, sums[1], RT_FIXED_COLUMNS, products);
}

WITH_FIXED_ROW void rt_fixed_multiply_row(const rt_fixed_tiles *of) {
    const bool wide = of->wide;
    if (of->products == RT_FIXED_PRODUCTS && wide) multiply_row(of, RT_FIXED_PRODUCTS, true);
    else if (of->products == RT_FIXED_PRODUCTS) multiply_row(of, RT_FIXED_PRODUCTS, false);
    else if (of->products == RT_FIXED_FEWER_PRODUCTS && wide) multiply_row(of, RT_FIXED_FEWER_PRODUCTS, true);
    else if (of->products == RT_FIXED_FEWER_PRODUCTS) multiply_row(of, RT_FIXED_FEWER_PRODUCTS, false);
    else if (wide) multiply_row(of, RT_FIXED_HALF_PRODUCTS, true);
    else multiply_row(of, RT_FIXED_HALF_PRODUCTS, false);
}

#else

bool rt_fixed_wanted(void) {
    return false;
}

void rt_fixed_begin(int64_t rows) {
    (void)rows;
}

void rt_fixed_end(void) {}

int rt_fixed_split_rows(const rt_fixed_rows *rows) {
    (void)rows;
    return 0;
}

void rt_fixed_split_rest(const rt_fixed_rows *rows, int part) {
    (void)rows, (void)part;
}

void rt_fixed_multiply(const rt_fixed_tiles *tiles) {
    (void)tiles;
}

void rt_fixed_multiply_row(const rt_fixed_tiles *tiles) {
    (void)tiles;
}

#endif

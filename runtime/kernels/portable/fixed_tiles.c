/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_tiles.c: products of floats in tiles of bytes; see fixed_tiles.h. */
#include "runtime/kernels/portable/fixed_tiles.h"
#include "ir/base/base.h"
#include "runtime/kernels/portable/byte_tiles.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum {
    LEAST_EXPONENT = -104, /* of blocks: an integer's highest bit times its inverse is a float */
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

/* Of the largest integer of a block: digits hold up to 2^(this + 1) less one in 255. */
static inline int top_bit(int digits) {
    return 8 * digits - 2;
}

/* Bits below the largest number of a block, from where on numbers keep `bits` bits or fewer. */
static inline int small_below(int bits, int digits) {
    return top_bit(digits) + 1 - bits;
}

/* Bits by which what is left is multiplied: it is half of the last bit at most. */
static inline int rest_bits(int digits) {
    return 8 * digits - 1;
}

/* The largest number of a block is a little below 2^(exponent + 1), so that digits hold it. */
static const float MARGIN = 1.004f;

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float power_of_two(int exponent) {
    enum { BIAS = 127, MANTISSA = 23 };
    return float_of((uint32_t)(exponent + BIAS) << MANTISSA);
}

static bool is_finite(float value) {
    return fabsf(value) <= FLT_MAX;
}

/* By what numbers become integers, and by what sums of products are to be multiplied, where `largest` is the size of the largest number: products of two
 * scales are 2^(e + f + 32), with two digits 2^(e + f + 16), of which the exponents here have their halves. */
typedef struct fixed_scale {
    float up, down;
} fixed_scale;

static inline fixed_scale scale_of(float largest, int digits) {
    enum { BIAS = 127, MANTISSA = 23 };
    const int half = 8 * (digits - 1);
    if (largest == 0) return (fixed_scale){0, 0};
    if (isnan(largest)) return (fixed_scale){0, NAN};
    int exponent = (int)(bits_of(largest * MARGIN) >> MANTISSA) - BIAS;
    if (exponent < LEAST_EXPONENT) exponent = LEAST_EXPONENT;
    return (fixed_scale){power_of_two(top_bit(digits) - exponent),
                         power_of_two(exponent - top_bit(digits) + half)};
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
            const uint32_t size = bits_of(number_at(columns, j, k)) & SIZE;
            most[j] = size > most[j] ? size : most[j];
        }
    }
    for (int64_t j = 0; j < columns->count; j++) largest[j] = float_of(most[j]);
}

bool rt_fixed_is_fit(const rt_fixed_columns *columns) {
    float largest[RT_FIXED_COLUMNS], limit[RT_FIXED_COLUMNS];
    int32_t small[RT_FIXED_COLUMNS] = {0}, zeros[RT_FIXED_COLUMNS] = {0};
    const bool halves = columns->digits == RT_FIXED_HALF_DIGITS;
    const int bits = small_below(halves ? SMALL_HALF_WEIGHT_BITS : SMALL_WEIGHT_BITS, columns->digits);
    find_largest(columns, largest);
    for (int64_t j = 0; j < columns->count; j++) limit[j] = largest[j] * power_of_two(-bits);
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
    enum { QUAD = 4, LINE = RT_FIXED_COLUMNS * QUAD, BASE = 256, HALF = 128 };
    float largest[RT_FIXED_COLUMNS];
    find_largest(columns, largest);
    for (int64_t column = 0; column < columns->count; column++) {
        const fixed_scale scale = scale_of(largest[column], columns->digits);
        scales[column] = scale.down;
        for (int64_t k = 0; k < columns->depth; k++) {
            const int64_t step = k / RT_FIXED_STEP, row = k % RT_FIXED_STEP / QUAD;
            char *at = to + step * rt_fixed_tile_bytes(columns->digits) + row * columns->digits * LINE +
                       column * QUAD + k % QUAD;
            int32_t rest = (int32_t)lrintf(number_at(columns, column, k) * scale.up);
            for (int digit = columns->digits - 1; digit >= 0; digit--) {
                /* From -128 to 127. */
                const int32_t low = (rest + HALF) & (BASE - 1);
                at[digit * LINE] = (char)(low - HALF);
                sums[digit * RT_FIXED_PAIR + column] += HALF * (low - HALF);
                rest = (rest - (low - HALF)) / BASE;
            }
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
    const int64_t bytes = tiles->steps * rt_fixed_tile_bytes(tiles->digits);
    for (int64_t j = 0; j < columns; j++) {
        const char *b = tiles->b + j / RT_FIXED_COLUMNS * bytes;
        c[j] += number * weight_at(b, tiles->digits, j % RT_FIXED_COLUMNS, k);
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

#define WITH_FIXED_TILES __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,avx512vbmi")))
#define WITH_FIXED_ROW                                                                                       \
    __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))
#define ALWAYS static inline __attribute__((always_inline))

/* ---- the machine --------------------------------------------------------------------------------------- */

bool rt_fixed_wanted(void) {
    /* Asked once, as searches ask very often. Threads may all ask, and get the same answer. */
    static _Atomic int known; /* 0: not yet; 1: no; 2: yes */
    int answer = known;
    if (!answer) {
        answer = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
                         __builtin_cpu_supports("avx512vnni") && rt_tiles_are_here(RT_TILES_OF_BYTES)
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

/* The bytes that are digit `digit` of 64 integers, whose sums with 128 in each byte are these. */
WITH_FIXED_TILES ALWAYS __m512i digits_of(const __m512i *of, int digit) {
    const __m512i places = _mm512_set_epi8(124, 120, 116, 112, 108, 104, 100, 96, 92, 88, 84, 80, 76, 72, 68,
                                           64, 60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0,
                                           124, 120, 116, 112, 108, 104, 100, 96, 92, 88, 84, 80, 76, 72, 68,
                                           64, 60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0);
    const __m512i at = _mm512_add_epi8(places, _mm512_set1_epi8((char)digit));
    const __m512i low = _mm512_permutex2var_epi8(of[0], at, of[1]),
                  high = _mm512_permutex2var_epi8(of[2], at, of[3]);
    return _mm512_mask_mov_epi8(low, 0xFFFFFFFF00000000, high);
}

/* The digits of 64 integers of a row, the highest first, `step` bytes after each other; of a row alone, with 128 more. */
WITH_FIXED_TILES ALWAYS void leave_digits(__m512i *of, char *to, bool alone, int digits) {
    const __m512i half = _mm512_set1_epi32(digits == RT_FIXED_DIGITS ? 0x808080 : 0x8080),
                  less = alone ? _mm512_setzero_si512() : half; /* 128 from each digit */
    const int64_t step = alone ? RT_FIXED_STEP : RT_TILE_SIZE;
    for (int i = 0; i < 4; i++) of[i] = _mm512_xor_si512(_mm512_add_epi32(of[i], half), less);
    for (int digit = 0; digit < digits; digit++)
        _mm512_store_si512(to + digit * step, digits_of(of, digits - 1 - digit));
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

WITH_FIXED_TILES ALWAYS __m512i sizes_of(__m512 numbers) {
    return _mm512_and_si512((__m512i)numbers, _mm512_set1_epi32(0x7FFFFFFF));
}

/* As bits, of which those of what is not finite are the largest. */
WITH_FIXED_TILES ALWAYS float row_largest(const one_row *row, int digits) {
    __m512i most = _mm512_setzero_si512();
    for (int64_t k = 0; k < row->depth; k += 16)
        most = _mm512_max_epu32(most, sizes_of(numbers_at(row, k, digits)));
    return float_of(_mm512_reduce_max_epu32(most));
}

/* Whether many numbers of a row are small beside the largest. */
WITH_FIXED_TILES ALWAYS bool is_coarse(const one_row *row, float largest, int digits) {
    const int bits = small_below(SMALL_BITS, digits);
    const __m512i one = _mm512_set1_epi32(1),
                  limit = _mm512_set1_epi32((int)bits_of(largest * power_of_two(-bits)));
    __m512i small = _mm512_setzero_si512();
    for (int64_t k = 0; k < row->depth; k += 16) {
        /* Zeros are none of them: less 1, they are the largest. */
        const __m512i below = _mm512_sub_epi32(sizes_of(numbers_at(row, k, digits)), one);
        small = _mm512_mask_add_epi32(small, _mm512_cmplt_epu32_mask(below, limit), small, one);
    }
    return (int64_t)_mm512_reduce_add_epi32(small) * COARSE > row->depth;
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

/* What the integer next to a number leaves of it, as an integer. */
WITH_FIXED_TILES ALWAYS __m512i rest_of(__m512 number, int digits) {
    const __m512 nearest = _mm512_cvtepi32_ps(_mm512_cvtps_epi32(number));
    return _mm512_cvtps_epi32((number - nearest) * _mm512_set1_ps(power_of_two(rest_bits(digits))));
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

/* Digits and scales of the rows, or of what these leave of coarse ones: zeros of the others. Says what the digits lack. */
WITH_FIXED_TILES ALWAYS int split(const rt_fixed_rows *rows, int digits, bool rests) {
    const int64_t step = step_bytes(rows), bytes = number_bytes(digits);
    char numbers[RT_FIXED_DEPTH * sizeof(float)];
    int lack = 0;
    for (int64_t i = 0; i < rows->count; i++) {
        one_row row = {(const char *)rows->from + i * rows->step * bytes, rows->plane * bytes, rows->depth};
        float largest = row_largest(&row, digits);
        if (isinf(largest)) { /* and there is no NaN, whose bits would be larger */
            row = finite_row(&row, digits, numbers);
            largest = row_largest(&row, digits);
            lack |= RT_FIXED_INFINITE;
        }
        const fixed_scale scale = scale_of(largest, digits);
        const bool coarse = scale.up > 0 && is_coarse(&row, largest, digits), all = !rests || coarse;
        const __m512 up = _mm512_set1_ps(scale.up);
        char *to = rows->to + i * RT_TILE_BYTES;
        rows->scales[i] = !all ? 0 : rests ? scale.down * power_of_two(-rest_bits(digits)) : scale.down;
        if (coarse) lack |= RT_FIXED_COARSE;
        for (int64_t k = 0; k < rows->depth; k += RT_FIXED_STEP, to += step) {
            __m512i of[4] = {0};
            for (int j = 0; j < 4 && all; j++) {
                const __m512 number = numbers_at(&row, k + 16 * j, digits) * up;
                of[j] = rests ? rest_of(number, digits) : _mm512_cvtps_epi32(number);
            }
            leave_digits(of, to, rows->alone, digits);
        }
    }
    clear_rows(rows);
    return lack;
}

WITH_FIXED_TILES int rt_fixed_split_rows(const rt_fixed_rows *rows) {
    return rows->digits == RT_FIXED_DIGITS ? split(rows, RT_FIXED_DIGITS, false)
                                           : split(rows, RT_FIXED_HALF_DIGITS, false);
}

WITH_FIXED_TILES void rt_fixed_split_rest(const rt_fixed_rows *rows) {
    if (rows->digits == RT_FIXED_DIGITS) (void)split(rows, RT_FIXED_DIGITS, true);
    else (void)split(rows, RT_FIXED_HALF_DIGITS, true);
}

/* ---- tiles --------------------------------------------------------------------------------------------- */

/* Lines that are asked for meanwhile. */
typedef struct lines_ahead {
    const char *next, *end;
    int64_t bytes; /* at a time */
} lines_ahead;

ALWAYS void ask_for(lines_ahead *ahead) {
    const char *end = ahead->next + ahead->bytes;
    if (end > ahead->end) end = ahead->end;
    for (; ahead->next < end; ahead->next += RT_TILE_BYTES) __builtin_prefetch(ahead->next, 0, 2);
}

/* One tile of sums of each level, the highest first, in tiles 0 to 3. Columns are tiles 4 to 6, rows 7. */
WITH_FIXED_TILES ALWAYS void multiply_floats(const char *a, const char *b, int64_t steps,
                                             lines_ahead *ahead) {
    enum { DIGITS = RT_FIXED_DIGITS, ROW = DIGITS * RT_TILE_BYTES, BYTES = DIGITS * RT_FIXED_DIGIT_BYTES };
    for (int64_t k = 0; k < steps; k++, a += BYTES, b += BYTES) {
        _tile_loadd(7, a, RT_TILE_BYTES);
        _tile_loadd(4, b, ROW);
        _tile_dpbssd(0, 7, 4);
        ask_for(ahead);
        _tile_loadd(5, b + RT_TILE_BYTES, ROW);
        _tile_dpbssd(1, 7, 5);
        ask_for(ahead);
        _tile_loadd(6, b + 2 * RT_TILE_BYTES, ROW);
        _tile_dpbssd(2, 7, 6);
        ask_for(ahead);
        _tile_loadd(7, a + RT_FIXED_DIGIT_BYTES, RT_TILE_BYTES);
        _tile_dpbssd(1, 7, 4);
        ask_for(ahead);
        _tile_dpbssd(2, 7, 5);
        ask_for(ahead);
        _tile_dpbssd(3, 7, 6);
        ask_for(ahead);
        _tile_loadd(7, a + 2 * RT_FIXED_DIGIT_BYTES, RT_TILE_BYTES);
        _tile_dpbssd(2, 7, 4);
        ask_for(ahead);
        _tile_dpbssd(3, 7, 5);
        ask_for(ahead);
    }
}

WITH_FIXED_TILES ALWAYS void multiply_halves(const char *a, const char *b, int64_t steps,
                                             lines_ahead *ahead) {
    enum {
        DIGITS = RT_FIXED_HALF_DIGITS,
        ROW = DIGITS * RT_TILE_BYTES,
        BYTES = DIGITS * RT_FIXED_DIGIT_BYTES
    };
    for (int64_t k = 0; k < steps; k++, a += BYTES, b += BYTES) {
        _tile_loadd(7, a, RT_TILE_BYTES);
        _tile_loadd(4, b, ROW);
        _tile_dpbssd(0, 7, 4);
        ask_for(ahead);
        _tile_loadd(5, b + RT_TILE_BYTES, ROW);
        _tile_dpbssd(1, 7, 5);
        ask_for(ahead);
        _tile_loadd(7, a + RT_FIXED_DIGIT_BYTES, RT_TILE_BYTES);
        _tile_dpbssd(2, 7, 5);
        ask_for(ahead);
        _tile_dpbssd(1, 7, 4);
        ask_for(ahead);
    }
}

WITH_FIXED_TILES ALWAYS void multiply(const char *a, const char *b, int64_t steps, int digits,
                                      lines_ahead *ahead, int32_t *sums) {
    enum { LEVEL = RT_FIXED_ROWS * RT_FIXED_COLUMNS };
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (digits == RT_FIXED_DIGITS) multiply_floats(a, b, steps, ahead);
    else multiply_halves(a, b, steps, ahead);
    _tile_stored(0, sums, RT_TILE_BYTES);
    _tile_stored(1, sums + LEVEL, RT_TILE_BYTES);
    _tile_stored(2, sums + 2 * LEVEL, RT_TILE_BYTES);
    if (digits == RT_FIXED_DIGITS) _tile_stored(3, sums + 3 * LEVEL, RT_TILE_BYTES);
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

WITH_FIXED_TILES ALWAYS __m512 sum_of(__m512i first, __m512i second, __m512i third, __m512i fourth) {
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

WITH_FIXED_TILES ALWAYS __m512 row_of_sums(const int32_t *sums, int digits) {
    enum { LEVEL = RT_FIXED_ROWS * RT_FIXED_COLUMNS };
    if (digits == RT_FIXED_HALF_DIGITS)
        return sum_of_three(_mm512_load_si512(sums), _mm512_load_si512(sums + LEVEL),
                            _mm512_load_si512(sums + 2 * LEVEL));
    return sum_of(_mm512_load_si512(sums), _mm512_load_si512(sums + LEVEL),
                  _mm512_load_si512(sums + 2 * LEVEL), _mm512_load_si512(sums + 3 * LEVEL));
}

/* To `c`. */
WITH_FIXED_TILES ALWAYS void leave_sums(const rt_fixed_tiles *of, const left_sums *left, int digits) {
    const float *a_scales = of->a_scales + left->row * RT_FIXED_ROWS;
    const __m512 columns = _mm512_loadu_ps(of->b_scales + left->column * RT_FIXED_COLUMNS);
    const int32_t *sums = left->sums;
    float *c = of->c + left->row * RT_FIXED_ROWS * RT_FIXED_PAIR + left->column * RT_FIXED_COLUMNS;
    for (int64_t i = 0; i < of->rows; i++, sums += RT_FIXED_COLUMNS, c += RT_FIXED_PAIR)
        leave(row_of_sums(sums, digits), columns * _mm512_set1_ps(a_scales[i]), c, of->add);
}

/* To the result. */
WITH_FIXED_TILES ALWAYS void leave_result(const rt_fixed_tiles *of, const left_sums *left, int digits) {
    const rt_fixed_result *to = of->result;
    const bool halves = digits != RT_FIXED_DIGITS;
    const int64_t bytes = number_bytes(digits);
    const float *a_scales = of->a_scales + left->row * RT_FIXED_ROWS;
    const int64_t first = left->row * of->rows, column = left->column * RT_FIXED_COLUMNS,
                  at = (first * to->row + left->column * to->beside) * bytes;
    const int64_t rows = to->rows - first < of->rows ? to->rows - first : of->rows;
    const __mmask16 there = to->there[left->column], stored = to->stored[left->column];
    const __m512 columns = _mm512_loadu_ps(of->b_scales + column),
                 bias = to->bias ? rt_load_lanes_16((const char *)to->bias + column * bytes, there, halves)
                                 : _mm512_setzero_ps();
    const float *c = of->c + left->row * RT_FIXED_ROWS * RT_FIXED_PAIR + column;
    const char *residual = to->residual;
    const int32_t *sums = left->sums;
    char *y = (char *)to->y + at;
    if (residual) residual += at;
    for (int64_t i = 0; i < rows; i++, sums += RT_FIXED_COLUMNS, c += RT_FIXED_PAIR, y += to->row * bytes) {
        const __m512 part = row_of_sums(sums, digits), scale = columns * _mm512_set1_ps(a_scales[i]);
        __m512 sum = part * scale;
        if (of->add) sum = _mm512_fmadd_ps(part, scale, _mm512_load_ps(c));
        if (to->bias) sum = sum + bias;
        if (residual) sum = sum + rt_load_lanes_16(residual + i * to->row * bytes, stored, halves);
        if (to->limits) RT_LIMIT_16(sum, to->low, to->high);
        rt_store_lanes_16(y, stored, _mm512_maskz_mov_ps(there, sum), halves);
    }
}

WITH_FIXED_TILES ALWAYS void multiply_all(const rt_fixed_tiles *of, int digits) {
    lines_ahead ahead = {
        .next = of->next, .end = of->next + of->lines * RT_TILE_BYTES, .bytes = of->each * RT_TILE_BYTES};
    const int64_t bytes = of->steps * rt_fixed_tile_bytes(digits), columns = of->wide ? 2 : 1;
    left_sums before = {0};
    rt_tiles_settle();
    for (int64_t i = 0; i <= of->count * columns; i++) {
        const left_sums now = {.sums = i == of->count * columns  ? NULL
                                       : before.sums == of->sums ? of->sums + RT_FIXED_SUMS
                                                                 : of->sums,
                               .row = i / columns,
                               .column = i % columns};
        if (now.sums)
            multiply(of->a + now.row * bytes, of->b + now.column * bytes, of->steps, digits, &ahead,
                     now.sums);
        rt_tiles_settle();
        /* Those of the tile before: what tiles have just stored cannot be read for a while. */
        if (before.sums && of->result) leave_result(of, &before, digits);
        else if (before.sums) leave_sums(of, &before, digits);
        before = now;
    }
    rt_tiles_settle();
}

WITH_FIXED_TILES void rt_fixed_multiply(const rt_fixed_tiles *of) {
    if (of->digits == RT_FIXED_DIGITS) multiply_all(of, RT_FIXED_DIGITS);
    else multiply_all(of, RT_FIXED_HALF_DIGITS);
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

/* Eight products of four digits of a row each and those of 16 columns. Asks for those of the next step. */
WITH_FIXED_ROW ALWAYS void add_float_products(__m512i *sums, const __m512i *a, const char *b) {
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
    add_quads(&sums[6], a[1], third);
    add_quads(&sums[7], a[2], second);
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
WITH_FIXED_ROW ALWAYS __m512 row_sum(const __m512i *sums, const int32_t *more, int digits) {
    const __m512i first = _mm512_loadu_si512(more), second = _mm512_loadu_si512(more + RT_FIXED_PAIR),
                  two = _mm512_add_epi32(first, second), highest = _mm512_sub_epi32(sums[0], first),
                  next = _mm512_sub_epi32(_mm512_add_epi32(sums[1], sums[2]), two);
    if (digits == RT_FIXED_HALF_DIGITS) return sum_of_three(highest, next, _mm512_sub_epi32(sums[3], second));
    const __m512i third = _mm512_loadu_si512(more + 2 * RT_FIXED_PAIR), end = _mm512_add_epi32(second, third);
    return sum_of(highest, next,
                  _mm512_sub_epi32(_mm512_add_epi32(_mm512_add_epi32(sums[3], sums[4]), sums[5]),
                                   _mm512_add_epi32(two, third)),
                  _mm512_sub_epi32(_mm512_add_epi32(sums[6], sums[7]), end));
}

WITH_FIXED_ROW ALWAYS void leave_row(const rt_fixed_tiles *of, const __m512i *sums, int64_t column,
                                     int digits) {
    const __m512 scale = _mm512_loadu_ps(of->b_scales + column) * _mm512_set1_ps(of->a_scales[0]);
    leave(row_sum(sums, of->b_sums + column, digits), scale, of->c + column, of->add);
}

WITH_FIXED_ROW ALWAYS void multiply_row(const rt_fixed_tiles *of, int digits, bool wide) {
    enum { QUADS = RT_FIXED_STEP / 4, MOST_PRODUCTS = 8 };
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
                if (digits == RT_FIXED_DIGITS) add_float_products(sums[i], some, b + i * second + quad * row);
                else add_half_products(sums[i], some, b + i * second + quad * row);
            }
        }
    }
    leave_row(of, sums[0], 0, digits);
    if (wide) leave_row(of, sums[1], RT_FIXED_COLUMNS, digits);
}

WITH_FIXED_ROW void rt_fixed_multiply_row(const rt_fixed_tiles *of) {
    if (of->digits == RT_FIXED_DIGITS && of->wide) multiply_row(of, RT_FIXED_DIGITS, true);
    else if (of->digits == RT_FIXED_DIGITS) multiply_row(of, RT_FIXED_DIGITS, false);
    else if (of->wide) multiply_row(of, RT_FIXED_HALF_DIGITS, true);
    else multiply_row(of, RT_FIXED_HALF_DIGITS, false);
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

void rt_fixed_split_rest(const rt_fixed_rows *rows) {
    (void)rows;
}

void rt_fixed_multiply(const rt_fixed_tiles *tiles) {
    (void)tiles;
}

void rt_fixed_multiply_row(const rt_fixed_tiles *tiles) {
    (void)tiles;
}

#endif

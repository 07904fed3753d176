/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c: see turn.h. Squares of four by four words are turned in registers, in squares of the words of a line of memory, so that what is
 * read and what is written stays in the nearest cache until all of a line has been used.
 */
#include "runtime/kernels/portable/turn.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <stdbool.h>
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif

enum { SIDE = 16, SQUARE = 4 };

typedef uint32_t words __attribute__((vector_size(16)));

/* Four of the eight words of two vectors, by their numbers: first those of a, then those of b. */
#if __has_builtin(__builtin_shufflevector)
#define PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define PICK(a, b, i, j, k, l) __builtin_shuffle(a, b, (words){i, j, k, l})
#endif
#define LOW(a, b) PICK(a, b, 0, 4, 1, 5)
#define HIGH(a, b) PICK(a, b, 2, 6, 3, 7)
#define FIRST(a, b) PICK(a, b, 0, 1, 4, 5)
#define SECOND(a, b) PICK(a, b, 2, 3, 6, 7)

static inline words load(const uint32_t *from) {
    words value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* Where a row lies: so many elements from the one before, or at the offset that a list has for it. */
#define STRIDED(base, step, i) ((base) + (i) * (step))
#define LISTED(base, list, i) ((base) + (list)[i])

#define TURN_SQUARE(name, rows, AT)                                                                          \
    static inline void name(const uint32_t *x, rows x_row, uint32_t *y, rows y_row) {                        \
        const words a = load(AT(x, x_row, 0)), b = load(AT(x, x_row, 1)), c = load(AT(x, x_row, 2)),         \
                    d = load(AT(x, x_row, 3));                                                               \
        const words ab = LOW(a, b), cd = LOW(c, d), ab_high = HIGH(a, b), cd_high = HIGH(c, d);              \
        const words turned[SQUARE] = {FIRST(ab, cd), SECOND(ab, cd), FIRST(ab_high, cd_high),                \
                                      SECOND(ab_high, cd_high)};                                             \
        for (int i = 0; i < SQUARE; i++) memcpy(AT(y, y_row, i), &turned[i], sizeof turned[i]);              \
    }
TURN_SQUARE(turn_square, int64_t, STRIDED)
TURN_SQUARE(turn_listed_square, const int64_t *, LISTED)

/* Any part of a matrix, word by word. */
static void turn_part(const uint32_t *x, int64_t x_row, int64_t rows, int64_t columns, uint32_t *y,
                      int64_t y_row) {
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) y[c * y_row + r] = x[r * x_row + c];
}

#if RT_X86_KERNELS
/* Sixteen columns at a time: of each vector that is written, the words of the first two rows are picked, then those of the third one. */
__attribute__((target("avx512f"))) static void turn_three_wide(const uint32_t *x, int64_t x_row,
                                                               int64_t columns, uint32_t *y) {
    enum { WIDE = 16 };
    const __m512i two[3] = {_mm512_setr_epi32(0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5),
                            _mm512_setr_epi32(21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26),
                            _mm512_setr_epi32(0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0)},
                  third[3] = {_mm512_setr_epi32(0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15),
                              _mm512_setr_epi32(0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15),
                              _mm512_setr_epi32(26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31)};
    int64_t c = 0;
    for (; c + WIDE <= columns; c += WIDE, y += 3 * WIDE) {
        const __m512i a = _mm512_loadu_si512(x + c), b = _mm512_loadu_si512(x + x_row + c),
                      d = _mm512_loadu_si512(x + 2 * x_row + c);
        _Pragma("GCC unroll 3") for (int i = 0; i < 3; i++) {
            const __m512i both = _mm512_permutex2var_epi32(a, two[i], b);
            _mm512_storeu_si512(y + i * WIDE, _mm512_permutex2var_epi32(both, third[i], d));
        }
    }
    turn_part(x + c, x_row, 3, columns - c, y, 3);
}
#endif

/* Three rows, as of a picture's colours, that become columns side by side: each square writes a word too many, which the next one
 * makes right; the last few columns are made word by word. */
static void turn_three(const uint32_t *x, int64_t x_row, int64_t columns, uint32_t *y) {
    int64_t c = 0;
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) {
        turn_three_wide(x, x_row, columns, y);
        return;
    }
#endif
    for (; c + 2 * SQUARE <= columns; c += SQUARE) {
        const words a = load(x + c), b = load(x + x_row + c), d = load(x + 2 * x_row + c);
        const words ab = LOW(a, b), dd = LOW(d, d), ab_high = HIGH(a, b), dd_high = HIGH(d, d);
        const words turned[SQUARE] = {FIRST(ab, dd), SECOND(ab, dd), FIRST(ab_high, dd_high),
                                      SECOND(ab_high, dd_high)};
        for (int i = 0; i < SQUARE; i++) memcpy(y + (c + i) * 3, &turned[i], sizeof turned[i]);
    }
    turn_part(x + c, x_row, 3, columns - c, y + c * 3, 3);
}

/* ---- with AVX-512 --------------------------------------------------------------------------------------- */

#if RT_X86_KERNELS
#define WIDE __attribute__((target("avx512f")))
#define WIDE_BYTES __attribute__((target("avx512f,avx512bw,avx512vl")))
#define INLINE static inline __attribute__((always_inline))
enum { FEWEST = 8 }; /* rows and columns, for squares of SIDE to be worth it */

static bool has_wide(void) {
    return __builtin_cpu_supports("avx512f");
}

static bool has_wide_bytes(void) {
    return has_wide() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

/* Sixteen rows a of sixteen words become columns b. */
WIDE INLINE void turn_square_16(__m512i *a, __m512i *b) {
    _Pragma("GCC unroll 8") for (int i = 0; i < SIDE; i += 2) { /* pairs of rows */
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < SIDE;
                                 i += 4) { /* four rows: of columns c, c + 4, c + 8 and c + 12 */
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) { /* eight rows, and all */
        const __m512i low = _mm512_shuffle_i32x4(a[c], a[c + 4], 0x88),
                      high = _mm512_shuffle_i32x4(a[c], a[c + 4], 0xdd),
                      next = _mm512_shuffle_i32x4(a[c + 8], a[c + 12], 0x88),
                      last = _mm512_shuffle_i32x4(a[c + 8], a[c + 12], 0xdd);
        b[c] = _mm512_shuffle_i32x4(low, next, 0x88);
        b[c + 4] = _mm512_shuffle_i32x4(high, last, 0x88);
        b[c + 8] = _mm512_shuffle_i32x4(low, next, 0xdd);
        b[c + 12] = _mm512_shuffle_i32x4(high, last, 0xdd);
    }
}

/* Eight rows a of eight longs become columns b. */
WIDE INLINE void turn_square_8(__m512i *a, __m512i *b) {
    _Pragma("GCC unroll 4") for (int i = 0; i < SIDE / 2; i += 2) { /* pairs of rows */
        b[i] = _mm512_unpacklo_epi64(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 1]);
    }
    _Pragma("GCC unroll 2") for (int c = 0; c < 2;
                                 c++) { /* four rows: of columns c, c + 2, c + 4 and c + 6 */
        a[c] = _mm512_shuffle_i64x2(b[c], b[c + 2], 0x88);
        a[c + 2] = _mm512_shuffle_i64x2(b[c], b[c + 2], 0xdd);
        a[c + 4] = _mm512_shuffle_i64x2(b[c + 4], b[c + 6], 0x88);
        a[c + 6] = _mm512_shuffle_i64x2(b[c + 4], b[c + 6], 0xdd);
    }
    _Pragma("GCC unroll 4") for (int c = 0; c < 4; c++) { /* all */
        b[c] = _mm512_shuffle_i64x2(a[c], a[c + 4], 0x88);
        b[c + 4] = _mm512_shuffle_i64x2(a[c], a[c + 4], 0xdd);
    }
}

#define LOAD_LONGS(at) _mm512_maskz_loadu_epi64((__mmask8)read, at)
#define LOAD_WORDS(at) _mm512_maskz_loadu_epi32((__mmask16)read, at)
#define LOAD_HALVES(at) _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((__mmask16)read, at))
#define LOAD_BYTES(at) _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8((__mmask16)read, at))
#define STORE_LONGS(at, x) _mm512_mask_storeu_epi64(at, (__mmask8)written, x)
#define STORE_WORDS(at, x) _mm512_mask_storeu_epi32(at, (__mmask16)written, x)
#define STORE_HALVES(at, x) _mm512_mask_storeu_epi16(at, (__mmask32)written, x)
#define STORE_BYTES(at, x) _mm512_mask_storeu_epi8(at, (__mmask64)written, x)

/* `side` columns of a line of memory each, or what is left of them: whole lines are written at once, so that it does not matter how far
 * apart they lie. Not inlined, and with masks even if all are set: compilers would load what they use twice, and keep half of it in memory.
 * The `parts` elements of a word are those of so many rows. */
#define TURN_WIDE(name, target, type, side, parts, LOAD, STORE, offset, AT, FROM)                            \
    target static __attribute__((noinline)) void name##_square(const type *x, offset x_row, int64_t rows,    \
                                                               int64_t columns, uint64_t read,               \
                                                               uint64_t written, type *y, offset y_row) {    \
        __m512i a[side], b[side];                                                                            \
        _Pragma("GCC unroll 16") for (int i = 0; i < side; i++) {                                            \
            a[i] = i * (parts) < rows ? LOAD(AT(x, x_row, i * (parts))) : _mm512_setzero_si512();            \
            _Pragma("GCC unroll 3") for (int k = 1; k < (parts); k++) {                                      \
                const int64_t row = i * (parts) + k;                                                         \
                if (row < rows)                                                                              \
                    a[i] =                                                                                   \
                        _mm512_or_si512(a[i], _mm512_slli_epi32(LOAD(AT(x, x_row, row)), 32 / (parts)*k));   \
            }                                                                                                \
        }                                                                                                    \
        turn_square_##side(a, b);                                                                            \
        _Pragma("GCC unroll 16") for (int i = 0; i < side; i++) if (i < columns)                             \
            STORE(AT(y, y_row, i), b[i]);                                                                    \
    }                                                                                                        \
    target static void name(const type *x, offset x_row, int64_t rows, int64_t columns, type *y,             \
                            offset y_row) {                                                                  \
        enum { ROWS = side * (parts) };                                                                      \
        for (int64_t c = 0; c < columns; c += side) {                                                        \
            const int64_t wide = columns - c < side ? columns - c : side;                                    \
            for (int64_t r = 0; r < rows; r += ROWS) {                                                       \
                const int64_t high = rows - r < ROWS ? rows - r : ROWS;                                      \
                const uint64_t read = rt_first_lanes_64(columns - c), written = rt_first_lanes_64(rows - r); \
                name##_square(FROM(x + c, x_row, r), high, wide, read, written, FROM(y + r, y_row, c));      \
            }                                                                                                \
        }                                                                                                    \
    }
#define FROM_STRIDED(base, step, i) (base) + (i) * (step), step
#define FROM_LISTED(base, list, i) base, (list) + (i)
#define TURN_WIDES(type, suffix, target, side, parts, LOAD, STORE)                                           \
    TURN_WIDE(turn_wide_##suffix, target, type, side, parts, LOAD, STORE, int64_t, STRIDED, FROM_STRIDED)    \
    TURN_WIDE(turn_listed_wide_##suffix, target, type, side, parts, LOAD, STORE, const int64_t *, LISTED,    \
              FROM_LISTED)
TURN_WIDES(uint64_t, longs, WIDE, 8, 1, LOAD_LONGS, STORE_LONGS)
TURN_WIDES(uint32_t, words, WIDE, 16, 1, LOAD_WORDS, STORE_WORDS)
TURN_WIDES(uint16_t, halves, WIDE_BYTES, 16, 2, LOAD_HALVES, STORE_HALVES)
TURN_WIDES(uint8_t, bytes, WIDE_BYTES, 16, 4, LOAD_BYTES, STORE_BYTES)
#undef WIDE
#undef WIDE_BYTES
#undef INLINE
#endif

#if RT_X86_KERNELS
/* The first columns, sixteen at a time: how many. */
__attribute__((target("avx512f"))) static int64_t turn_two_wide(const uint32_t *x, int64_t x_row,
                                                                int64_t columns, uint32_t *y) {
    enum { WIDE = 16 };
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                  second = _mm512_add_epi32(first, _mm512_set1_epi32(WIDE / 2));
    int64_t c = 0;
    for (; c + WIDE <= columns; c += WIDE) {
        const __m512i a = _mm512_loadu_si512(x + c), b = _mm512_loadu_si512(x + x_row + c);
        _mm512_storeu_si512(y + 2 * c, _mm512_permutex2var_epi32(a, first, b));
        _mm512_storeu_si512(y + 2 * c + WIDE, _mm512_permutex2var_epi32(a, second, b));
    }
    return c;
}
#endif

/* Two rows that become columns side by side. */
static void turn_two(const uint32_t *x, int64_t x_row, int64_t columns, uint32_t *y) {
    int64_t c = 0;
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) c = turn_two_wide(x, x_row, columns, y);
#endif
    for (; c < columns; c++) {
        y[2 * c] = x[c];
        y[2 * c + 1] = x[x_row + c];
    }
}

void rt_turn_words(const uint32_t *x, int64_t x_row, int64_t rows, int64_t columns, uint32_t *y,
                   int64_t y_row) {
    if (rows == 3 && y_row == 3) {
        turn_three(x, x_row, columns, y);
        return;
    }
    if (rows == 2 && y_row == 2) {
        turn_two(x, x_row, columns, y);
        return;
    }
#if RT_X86_KERNELS
    if (rows >= FEWEST && columns >= FEWEST && has_wide()) {
        turn_wide_words(x, x_row, rows, columns, y, y_row);
        return;
    }
#endif
    const int64_t whole_rows = rows - rows % SQUARE, whole_columns = columns - columns % SQUARE;
    for (int64_t row = 0; row < whole_rows; row += SIDE) {
        const int64_t last_row = row + SIDE < whole_rows ? row + SIDE : whole_rows;
        for (int64_t column = 0; column < whole_columns; column += SIDE) {
            const int64_t last_column = column + SIDE < whole_columns ? column + SIDE : whole_columns;
            for (int64_t c = column; c < last_column; c += SQUARE)
                for (int64_t r = row; r < last_row; r += SQUARE)
                    turn_square(x + r * x_row + c, x_row, y + c * y_row + r, y_row);
        }
        turn_part(x + row * x_row + whole_columns, x_row, last_row - row, columns - whole_columns,
                  y + whole_columns * y_row + row, y_row);
    }
    turn_part(x + whole_rows * x_row, x_row, rows - whole_rows, columns, y + whole_rows, y_row);
}

/* ---- of 16 bits --------------------------------------------------------------------------------------------- */

enum { HALF_SQUARE = 8 };

typedef uint16_t halves __attribute__((vector_size(16)));

#if __has_builtin(__builtin_shufflevector)
#define MERGE(a, b, i)                                                                                       \
    ((words)__builtin_shufflevector(a, b, i, i + 8, i + 1, i + 9, i + 2, i + 10, i + 3, i + 11))
#else
#define MERGE(a, b, i)                                                                                       \
    ((words)__builtin_shuffle(a, b, (halves){i, i + 8, i + 1, i + 9, i + 2, i + 10, i + 3, i + 11}))
#endif

static inline void turn_half_square(const uint16_t *x, int64_t x_row, uint16_t *y, int64_t y_row) {
    halves rows[HALF_SQUARE];
    words pairs[HALF_SQUARE], fours[HALF_SQUARE];
    for (int i = 0; i < HALF_SQUARE; i++) memcpy(&rows[i], x + i * x_row, sizeof rows[i]);
    for (int i = 0; i < HALF_SQUARE; i += 2) { /* two rows, side by side: the first columns, and the others */
        pairs[i] = MERGE(rows[i], rows[i + 1], 0);
        pairs[i + 1] = MERGE(rows[i], rows[i + 1], 4);
    }
    for (int i = 0; i < HALF_SQUARE; i += 4) { /* four rows, of two columns each */
        fours[i] = LOW(pairs[i], pairs[i + 2]);
        fours[i + 1] = HIGH(pairs[i], pairs[i + 2]);
        fours[i + 2] = LOW(pairs[i + 1], pairs[i + 3]);
        fours[i + 3] = HIGH(pairs[i + 1], pairs[i + 3]);
    }
    for (int i = 0; i < HALF_SQUARE / 2; i++) {
        const words even = FIRST(fours[i], fours[i + 4]), odd = SECOND(fours[i], fours[i + 4]);
        memcpy(y + 2 * i * y_row, &even, sizeof even);
        memcpy(y + (2 * i + 1) * y_row, &odd, sizeof odd);
    }
}

static void turn_half_part(const uint16_t *x, int64_t x_row, int64_t rows, int64_t columns, uint16_t *y,
                           int64_t y_row) {
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) y[c * y_row + r] = x[r * x_row + c];
}

void rt_turn_halves(const uint16_t *x, int64_t x_row, int64_t rows, int64_t columns, uint16_t *y,
                    int64_t y_row) {
#if RT_X86_KERNELS
    if (rows >= FEWEST && columns >= FEWEST && has_wide_bytes()) {
        turn_wide_halves(x, x_row, rows, columns, y, y_row);
        return;
    }
#endif
    const int64_t whole_rows = rows - rows % HALF_SQUARE, whole_columns = columns - columns % HALF_SQUARE;
    for (int64_t row = 0; row < whole_rows; row += SIDE) {
        const int64_t last = row + SIDE < whole_rows ? row + SIDE : whole_rows;
        for (int64_t c = 0; c < whole_columns; c += HALF_SQUARE)
            for (int64_t r = row; r < last; r += HALF_SQUARE)
                turn_half_square(x + r * x_row + c, x_row, y + c * y_row + r, y_row);
        turn_half_part(x + row * x_row + whole_columns, x_row, last - row, columns - whole_columns,
                       y + whole_columns * y_row + row, y_row);
    }
    turn_half_part(x + whole_rows * x_row, x_row, rows - whole_rows, columns, y + whole_rows, y_row);
}

/* ---- of any size --------------------------------------------------------------------------------------------- */

/* Square by square, whose lines stay in the cache. */
#define TURN_SQUARES(x, x_row, rows, columns, y, y_row)                                                      \
    for (int64_t row = 0; row < (rows); row += SIDE) {                                                       \
        const int64_t last_row = row + SIDE < (rows) ? row + SIDE : (rows);                                  \
        for (int64_t column = 0; column < (columns); column += SIDE) {                                       \
            const int64_t last_column = column + SIDE < (columns) ? column + SIDE : (columns);               \
            for (int64_t c = column; c < last_column; c++)                                                   \
                for (int64_t r = row; r < last_row; r++) (y)[c * (y_row) + r] = (x)[r * (x_row) + c];        \
        }                                                                                                    \
    }

/* ---- of 8 bits ----------------------------------------------------------------------------------------------- */

void rt_turn_bytes(const uint8_t *x, int64_t x_row, int64_t rows, int64_t columns, uint8_t *y,
                   int64_t y_row) {
#if RT_X86_KERNELS
    if (rows >= FEWEST && columns >= FEWEST && has_wide_bytes()) {
        turn_wide_bytes(x, x_row, rows, columns, y, y_row);
        return;
    }
#endif
    TURN_SQUARES(x, x_row, rows, columns, y, y_row)
}

/* ---- of 64 bits ---------------------------------------------------------------------------------------------- */

void rt_turn_longs(const uint64_t *x, int64_t x_row, int64_t rows, int64_t columns, uint64_t *y,
                   int64_t y_row) {
#if RT_X86_KERNELS
    if (rows >= FEWEST / 2 && columns >= FEWEST / 2 && has_wide()) {
        turn_wide_longs(x, x_row, rows, columns, y, y_row);
        return;
    }
#endif
    TURN_SQUARES(x, x_row, rows, columns, y, y_row)
}

/* ---- rows and columns at any offsets ------------------------------------------------------------------------- */

typedef struct pair {
    uint64_t parts[2];
} pair;

/* Element by element. */
#define TURN_LISTED(type)                                                                                    \
    static void turn_listed_##type(const type *x, const int64_t *from, int64_t rows, int64_t columns,        \
                                   type *y, const int64_t *to) {                                             \
        for (int64_t c = 0; c < columns; c++)                                                                \
            for (int64_t r = 0; r < rows; r++) y[to[c] + r] = x[from[r] + c];                                \
    }
TURN_LISTED(uint8_t)
TURN_LISTED(uint16_t)
TURN_LISTED(uint32_t)
TURN_LISTED(uint64_t)
TURN_LISTED(pair)

static void turn_listed_words(const uint32_t *x, const int64_t *from, int64_t rows, int64_t columns,
                              uint32_t *y, const int64_t *to) {
    const int64_t whole_rows = rows - rows % SQUARE, whole_columns = columns - columns % SQUARE;
    for (int64_t c = 0; c < whole_columns; c += SQUARE)
        for (int64_t r = 0; r < whole_rows; r += SQUARE) turn_listed_square(x + c, from + r, y + r, to + c);
    turn_listed_uint32_t(x + whole_columns, from, whole_rows, columns - whole_columns, y, to + whole_columns);
    turn_listed_uint32_t(x, from + whole_rows, rows - whole_rows, columns, y + whole_rows, to);
}

#if RT_X86_KERNELS
/* False: it is left to others. */
static bool turn_listed_wide(size_t size, const void *x, const int64_t *from, int64_t rows, int64_t columns,
                             void *y, const int64_t *to) {
    if (size > 8 || !(size < 4 ? has_wide_bytes() : has_wide())) return false;
    if (size == 1) turn_listed_wide_bytes(x, from, rows, columns, y, to);
    else if (size == 2) turn_listed_wide_halves(x, from, rows, columns, y, to);
    else if (size == 4) turn_listed_wide_words(x, from, rows, columns, y, to);
    else turn_listed_wide_longs(x, from, rows, columns, y, to);
    return true;
}
#endif

void rt_turn_listed(size_t size, const void *x, const int64_t *from, int64_t rows, int64_t columns, void *y,
                    const int64_t *to) {
#if RT_X86_KERNELS
    if (turn_listed_wide(size, x, from, rows, columns, y, to)) return;
#endif
    /* Squares, so that what is read and written stays in the nearest cache. */
    for (int64_t c = 0; c < columns; c += SIDE) {
        const int64_t wide = columns - c < SIDE ? columns - c : SIDE;
        for (int64_t r = 0; r < rows; r += SIDE) {
            const int64_t high = rows - r < SIDE ? rows - r : SIDE;
            const char *source = (const char *)x + c * (int64_t)size;
            char *target = (char *)y + r * (int64_t)size;
            if (size == 1)
                turn_listed_uint8_t((const uint8_t *)source, from + r, high, wide, (uint8_t *)target, to + c);
            else if (size == 2)
                turn_listed_uint16_t((const void *)source, from + r, high, wide, (void *)target, to + c);
            else if (size == 4)
                turn_listed_words((const void *)source, from + r, high, wide, (void *)target, to + c);
            else if (size == 8)
                turn_listed_uint64_t((const void *)source, from + r, high, wide, (void *)target, to + c);
            else turn_listed_pair((const void *)source, from + r, high, wide, (void *)target, to + c);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* digit_tiles.c: implements digit_tiles.h.
 *
 * Eight rows lie together, span after span: scales[8], sums[8], and then the numbers, four bytes of each row in turn. These are four digits of
 * one weight (first all fours of the highest digit, then of the next one), or two words. Weights are unpacked some depth of three panels at a time:
 * four bytes, or two words, of each of 16 columns in turn. With weights of 4 bits the elements of x go by eights: first those of even
 * index, which meet the lower halves of bytes, then the others.
 *
 * Digits are summed from the highest one on: a sum is shifted by 8 bits before products of the next one are added to it. The sum fits into
 * 32 bits: there are 32 of a number of at most 2^22 times a code below 2^4, or 64 below 2^15 and 2^8.
 */
#include "runtime/kernels/portable/digit_tiles.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/digit_factors.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/turn.h"
#include <math.h>
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

enum {
    ROWS = 8,
    COLUMNS = RT_DIGIT_COLUMNS,
    QUAD = 4,
    PANELS = 3,
    MOST_SPAN = 64,
    DEPTH = 256,              /* unpacked at a time: whole spans */
    MOST_SCALES = DEPTH / 16, /* of a column, in that depth */
    HEAD = 2 * ROWS * 4       /* bytes before a span's numbers: scales and sums */
};

rt_digit_form rt_digit_form_here(int digits) {
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return RT_DIGIT_BYTES;
    if (digits < 3 && __builtin_cpu_supports("avx2")) return RT_DIGIT_WORDS;
#endif
    (void)digits;
    return RT_DIGIT_NONE;
}

void rt_digit_begin(rt_digit_product *product) {
    const int64_t most = product->bits == 4 && product->digits == 3 ? MOST_SPAN / 2 : MOST_SPAN;
    product->span = product->block < most ? product->block : most;
    product->spans = product->blocks * (product->block / product->span);
}

static size_t record_bytes(const rt_digit_product *product) {
    const size_t bytes = product->form == RT_DIGIT_BYTES ? (size_t)product->digits : sizeof(int16_t);
    return HEAD + bytes * ROWS * (size_t)product->span;
}

bool rt_digit_rows_bytes(const rt_digit_product *product, int64_t rows, size_t *bytes) {
    rt_digit_product largest = *product;
    largest.form = product->digits < 2 ? RT_DIGIT_WORDS : RT_DIGIT_BYTES;
    return base_size_multiply((size_t)((rows + ROWS - 1) / ROWS), (size_t)product->spans, bytes) &&
           base_size_multiply(*bytes, record_bytes(&largest), bytes);
}

#if RT_X86_KERNELS

/* ---- rows ------------------------------------------------------------------------------------------------ */

/* Sums of x as they come in beside the products: as integers that are added; or as floats, which zero points are multiplied by. */
static inline void write_sum(const rt_digit_product *p, int32_t sum, int32_t *to) {
    const float real = (float)sum;
    if (p->centred) *to = -(1 << (p->bits - 1)) * sum;
    else memcpy(to, &real, sizeof real);
}

#define WITH_BYTES __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define WITH_WORDS __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline))
enum { WIDE = 16 };

/* Elements from `first` on of a row of `depth`, as far as there are any. */
WITH_BYTES INLINE __m512 elements(const float *row, int64_t first, int64_t depth) {
    if (first >= depth) return _mm512_setzero_ps();
    return depth - first >= WIDE ? _mm512_loadu_ps(row + first)
                                 : _mm512_maskz_loadu_ps(rt_first_lanes_16(depth - first), row + first);
}

/* Numbers of eight rows as bytes of one digit: of four rows each, packing puts four neighbours of one row beside those of the next. */
WITH_BYTES INLINE void write_digit(const __m512i numbers[ROWS], int shift, int32_t bias, __m512i *sum,
                                   char *to) {
    __m512i bytes[ROWS], fours[2];
    const __m512i more = _mm512_set1_epi32(bias), one = _mm512_set1_epi32(255);
    _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++) bytes[r] =
        _mm512_and_si512(_mm512_srl_epi32(_mm512_add_epi32(numbers[r], more), _mm_cvtsi32_si128(shift)), one);
    _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++) fours[i] =
        _mm512_packus_epi16(_mm512_packus_epi32(bytes[4 * i], bytes[4 * i + 1]),
                            _mm512_packus_epi32(bytes[4 * i + 2], bytes[4 * i + 3]));
    const __m512i first = _mm512_permutex2var_epi64(fours[0], _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                                                    fours[1]),
                  second = _mm512_permutex2var_epi64(fours[0], _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15),
                                                     fours[1]),
                  ones = _mm512_set1_epi8(1);
    _mm512_storeu_si512(to, first);
    _mm512_storeu_si512(to + sizeof first, second);
    *sum = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(*sum, ones, first), ones, second);
}

/* One span of eight rows, of which there are `count`; the last elements may be missing. */
WITH_BYTES static bool write_bytes(const rt_digit_product *p, const float *x, int64_t count, int64_t from,
                                   char *record) {
    const float most = rt_digit_largest(p->digits);
    const bool halves = p->bits == 4;
    const __m512i order = _mm512_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    float *scales = (float *)(void *)record, factors[ROWS];
    int32_t totals[ROWS];
    __m512i sums[3] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int r = 0; r < ROWS; r++) {
        __m512i largest = _mm512_setzero_si512();
        for (int64_t i = 0; i < p->span && r < count; i += WIDE) {
            const __m512 some = elements(x + r * p->depth, from + i, p->depth);
            largest = _mm512_max_epu32(
                largest, _mm512_and_si512(_mm512_set1_epi32(INT32_MAX), _mm512_castps_si512(some)));
        }
        const int32_t bits = (int32_t)_mm512_reduce_max_epu32(largest);
        if (bits >= RT_DIGIT_NOT_FINITE) return false;
        factors[r] = rt_digit_factor(p->digits, bits, most, scales + r);
    }
    for (int64_t i = 0; i < p->span; i += WIDE) {
        __m512i numbers[ROWS];
        for (int r = 0; r < ROWS; r++) {
            const __m512 some =
                r < count ? elements(x + r * p->depth, from + i, p->depth) : _mm512_setzero_ps();
            const __m512i own = _mm512_cvtps_epi32(_mm512_mul_ps(some, _mm512_set1_ps(factors[r])));
            numbers[r] = halves ? _mm512_permutexvar_epi32(order, own) : own;
        }
        char *to = record + HEAD + i * ROWS;
        for (int digit = 0; digit < p->digits; digit++, to += p->span * ROWS) {
            const int shift = 8 * (p->digits - 1 - digit);
            write_digit(numbers, shift, 0x8080 >> (16 - shift), &sums[digit], to);
        }
    }
    __m512i sum = sums[0];
    for (int digit = 1; digit < p->digits; digit++)
        sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), sums[digit]);
    _mm256_storeu_si256((__m256i *)(void *)totals,
                        _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1)));
    int32_t *beside = (int32_t *)(void *)(record + ROWS * sizeof *scales);
    for (int r = 0; r < ROWS; r++) write_sum(p, totals[r], beside + r);
    return true;
}

/* The numbers of a span, in the order of weights in bytes or in halves of them; returns their sum. */
WITH_WORDS static int32_t number(const float *x, int64_t span, float factor, bool halves, int16_t *words) {
    const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    __m256i sum = _mm256_setzero_si256();
    int32_t lanes[ROWS], total = 0;
    for (int64_t i = 0; i < span; i += ROWS) {
        __m256i own = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(factor)));
        sum = _mm256_add_epi32(sum, own);
        if (halves) own = _mm256_permutevar8x32_epi32(own, order);
        _mm_storeu_si128((__m128i *)(void *)(words + i),
                         _mm_packs_epi32(_mm256_castsi256_si128(own), _mm256_extracti128_si256(own, 1)));
    }
    _mm256_storeu_si256((__m256i *)(void *)lanes, sum);
    for (int i = 0; i < ROWS; i++) total += lanes[i];
    return total;
}

/* Largest size of any, as the bits of a float; NaNs are larger than all numbers. */
WITH_WORDS static int32_t largest_of(const float *x, int64_t count) {
    int32_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= INT32_MAX;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* One span of eight rows, as words. */
static bool write_words(const rt_digit_product *p, const float *x, int64_t count, int64_t from,
                        char *record) {
    const float most = rt_digit_largest(p->digits);
    float *scales = (float *)(void *)record;
    int32_t *sums = (int32_t *)(void *)(record + ROWS * sizeof *scales);
    _Alignas(RT_ALIGNMENT) int16_t rows[ROWS * MOST_SPAN];
    const int64_t rest = p->depth > from ? p->depth - from : 0, some = rest < p->span ? rest : p->span;
    for (int64_t r = 0; r < ROWS; r++) {
        float padded[MOST_SPAN] = {0};
        const float *own = padded;
        if (r < count && some == p->span) own = x + r * p->depth + from;
        else if (r < count) memcpy(padded, x + r * p->depth + from, (size_t)some * sizeof *padded);
        const int32_t bits = largest_of(own, p->span);
        if (bits >= RT_DIGIT_NOT_FINITE) return false;
        const float factor = rt_digit_factor(p->digits, bits, most, scales + r);
        write_sum(p, number(own, p->span, factor, p->bits == 4, rows + r * p->span), sums + r);
    }
    rt_turn_words((const uint32_t *)(const void *)rows, p->span / 2, ROWS, p->span / 2,
                  (uint32_t *)(void *)(record + HEAD), ROWS);
    return true;
}

bool rt_digit_rows(const rt_digit_product *product, const float *x, int64_t rows, int64_t begin, int64_t end,
                   void *to) {
    const size_t record = record_bytes(product);
    bool (*const write)(const rt_digit_product *, const float *, int64_t, int64_t, char *) =
        product->form == RT_DIGIT_BYTES ? write_bytes : write_words;
    for (int64_t row = begin; row < end; row += ROWS) {
        char *at = (char *)to + (size_t)(row / ROWS) * (size_t)product->spans * record;
        for (int64_t s = 0; s < product->spans; s++, at += record) {
            if (!write(product, x + row * product->depth, rows - row < ROWS ? rows - row : ROWS,
                       s * product->span, at))
                return false;
        }
    }
    return true;
}

/* ---- columns --------------------------------------------------------------------------------------------- */

/* Lines of memory that are wanted next, some of which are asked for with each span: a processor forgets what it is asked for in too large a
 * number, and weights of many columns lie in too many places for it to ask by itself. */
enum { LINES_OF_COLUMN = DEPTH / RT_ALIGNMENT + 1 /* scales */ };
typedef struct ahead {
    const void *lines[PANELS * COLUMNS * LINES_OF_COLUMN];
    int count, asked, each;
} ahead;

INLINE void ask_for_some(ahead *next) {
    const int end = next->count - next->asked < next->each ? next->count : next->asked + next->each;
    for (; next->asked < end; next->asked++) __builtin_prefetch(next->lines[next->asked]);
}

/* Some depth of up to PANELS panels. */
typedef struct unpacked {
    _Alignas(RT_ALIGNMENT) uint8_t weights[PANELS][DEPTH * COLUMNS * 2]; /* one byte each, or two */
    _Alignas(RT_ALIGNMENT) float scales[PANELS][MOST_SCALES][COLUMNS];   /* of blocks */
    _Alignas(RT_ALIGNMENT) float zeros[PANELS][MOST_SCALES][COLUMNS];
    int64_t spans;
    int64_t shift; /* block of a span: its number >> shift */
    ahead next;
} unpacked;

/* What tiles add up: [panel][row][column], from one panel to the next: */
enum { NEXT_PANEL = RT_DIGIT_MOST_ROWS * COLUMNS };

WITH_BYTES INLINE __m512i four_bytes(const char *at) {
    int32_t four;
    memcpy(&four, at, sizeof four);
    return _mm512_set1_epi32(four);
}

/* Adds the sums of a span to `y`, with their zero points and scales, which are those of block b. */
WITH_BYTES INLINE void scale_bytes(const char *x, const unpacked *u, int64_t b, int rows, int panels,
                                   bool centred, __m512i sums[ROWS][PANELS], float *y) {
    const float *scales = (const float *)(const void *)x;
    __m512 of_block[PANELS];
    _Pragma("GCC unroll 3") for (int v = 0; v < panels; v++) of_block[v] = _mm512_load_ps(u->scales[v][b]);
    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) {
        const __m512 scale = _mm512_set1_ps(scales[r]);
        const __m512i beside = four_bytes(x + (ROWS + r) * 4);
        _Pragma("GCC unroll 3") for (int v = 0; v < panels; v++) {
            float *to = y + v * NEXT_PANEL + r * COLUMNS;
            const __m512i sum = centred ? _mm512_add_epi32(sums[r][v], beside) : sums[r][v];
            __m512 real = _mm512_cvtepi32_ps(sum);
            if (!centred)
                real = _mm512_sub_ps(
                    real, _mm512_mul_ps(_mm512_load_ps(u->zeros[v][b]), _mm512_castsi512_ps(beside)));
            real = _mm512_mul_ps(real, _mm512_mul_ps(scale, of_block[v]));
            _mm512_store_ps(to, _mm512_add_ps(_mm512_load_ps(to), real));
        }
    }
}

/* Adds products of some spans of `rows` rows, which `x` holds with others, to `y`. */
WITH_BYTES INLINE void add_bytes(const rt_digit_product *p, const char *x, unpacked *u, int rows, int panels,
                                 float *y) {
    const int64_t fours = p->span / QUAD;
    for (int64_t s = 0; s < u->spans; s++, x += record_bytes(p)) {
        const int64_t b = s >> u->shift;
        ask_for_some(&u->next);
        __m512i sums[ROWS][PANELS];
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
            _Pragma("GCC unroll 3") for (int v = 0; v < panels; v++) sums[r][v] = _mm512_setzero_si512();
        const char *own = x + HEAD;
        for (int digit = 0; digit < p->digits; digit++) {
            const uint8_t *weights = u->weights[0] + s * p->span * COLUMNS;
            _Pragma("GCC unroll 8") for (int r = 0; r < rows && digit; r++)
                _Pragma("GCC unroll 3") for (int v = 0; v < panels; v++) sums[r][v] =
                    _mm512_slli_epi32(sums[r][v], 8);
            for (int64_t k = 0; k < fours; k++, own += ROWS * QUAD, weights += COLUMNS * QUAD) {
                __m512i w[PANELS];
                _Pragma("GCC unroll 3") for (int v = 0; v < panels; v++) w[v] =
                    _mm512_load_si512(weights + (size_t)v * sizeof u->weights[0]);
                _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) {
                    const __m512i left = four_bytes(own + r * QUAD);
                    _Pragma("GCC unroll 3") for (int v = 0; v < panels; v++) sums[r][v] =
                        _mm512_dpbusd_epi32(sums[r][v], w[v], left);
                }
            }
        }
        if (p->centred) scale_bytes(x, u, b, rows, panels, true, sums, y);
        else scale_bytes(x, u, b, rows, panels, false, sums, y);
    }
}

/* The same of one panel's halves, in registers of eight, with words. */
WITH_WORDS static void add_words(const rt_digit_product *p, const char *x, unpacked *u, int panel, float *y) {
    enum { SOME = 4, LANES = 8 };
    const int64_t pairs = p->span / 2;
    for (int64_t s = 0; s < u->spans; s++, x += record_bytes(p)) {
        const int64_t b = s >> u->shift;
        ask_for_some(&u->next);
        for (int first = 0; first < ROWS; first += SOME) {
            __m256i sums[SOME][2];
            _Pragma("GCC unroll 4") for (int r = 0; r < SOME; r++)
                _Pragma("GCC unroll 2") for (int h = 0; h < 2; h++) sums[r][h] = _mm256_setzero_si256();
            const char *own = x + HEAD + first * 4;
            const uint8_t *weights = u->weights[panel] + s * p->span * COLUMNS * 2;
            for (int64_t k = 0; k < pairs; k++, own += ROWS * 4, weights += COLUMNS * 4) {
                const __m256i low = _mm256_load_si256((const __m256i *)(const void *)weights),
                              high = _mm256_load_si256((const __m256i *)(const void *)(weights + 32));
                _Pragma("GCC unroll 4") for (int r = 0; r < SOME; r++) {
                    int32_t two;
                    memcpy(&two, own + r * 4, sizeof two);
                    const __m256i left = _mm256_set1_epi32(two);
                    sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(low, left));
                    sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(high, left));
                }
            }
            const float *scales = (const float *)(const void *)x;
            _Pragma("GCC unroll 4") for (int r = 0; r < SOME; r++) {
                const __m256 scale = _mm256_set1_ps(scales[first + r]),
                             beside = _mm256_set1_ps(scales[ROWS + first + r]);
                _Pragma("GCC unroll 2") for (int h = 0; h < 2; h++) {
                    float *to = y + (first + r) * COLUMNS + h * LANES;
                    const __m256 both = _mm256_mul_ps(scale, _mm256_load_ps(u->scales[panel][b] + h * LANES));
                    __m256 real = _mm256_cvtepi32_ps(sums[r][h]);
                    if (!p->centred)
                        real = _mm256_sub_ps(
                            real, _mm256_mul_ps(_mm256_load_ps(u->zeros[panel][b] + h * LANES), beside));
                    _mm256_store_ps(to, _mm256_add_ps(_mm256_load_ps(to), _mm256_mul_ps(real, both)));
                }
            }
        }
    }
}

typedef void add_function(const rt_digit_product *p, const char *x, unpacked *u, float *y);
#define ADD_BYTES(rows, panels)                                                                              \
    WITH_BYTES static void add_##rows##_##panels(const rt_digit_product *p, const char *x, unpacked *u,      \
                                                 float *y) {                                                 \
        add_bytes(p, x, u, rows, panels, y);                                                                 \
    }
ADD_BYTES(4, 1)
ADD_BYTES(4, 2)
ADD_BYTES(4, 3)
ADD_BYTES(8, 1)
ADD_BYTES(8, 2)
ADD_BYTES(8, 3)

/* Adds products of `rows` rows, at most eight, and all panels. */
static void add_rows(const rt_digit_product *p, const char *x, unpacked *u, int64_t rows, int panels,
                     float *y) {
    static add_function *const adders[2][PANELS] = {{add_4_1, add_4_2, add_4_3}, {add_8_1, add_8_2, add_8_3}};
    if (p->form == RT_DIGIT_BYTES) {
        adders[rows > ROWS / 2][panels - 1](p, x, u, y);
        return;
    }
    for (int v = 0; v < panels; v++) add_words(p, x, u, v, y + v * NEXT_PANEL);
}

/* Words of two halves of bytes each, and the same of eights of weights: the lower halves of four bytes, then the others. */
RT_CLONES static void split_halves(const uint32_t *eights, int64_t count, uint32_t *fours) {
    for (int64_t i = 0; i < count; i += COLUMNS) {
        for (int64_t c = 0; c < COLUMNS; c++) {
            fours[2 * i + c] = eights[i + c] & 0x0f0f0f0f;
            fours[2 * i + COLUMNS + c] = eights[i + c] >> 4 & 0x0f0f0f0f;
        }
    }
}

/* Two pairs of 16-bit words, less `centre`, in place of four bytes. */
RT_CLONES static void widen(const uint32_t *fours, int64_t count, int centre, uint32_t *pairs) {
    for (int64_t i = 0; i < count; i += COLUMNS) {
        for (int64_t c = 0; c < COLUMNS; c++) {
            const uint32_t four = fours[i + c];
            pairs[2 * i + c] =
                (((four & 255) - (uint32_t)centre) & 0xffff) | ((four >> 8 & 255) - (uint32_t)centre) << 16;
            pairs[2 * i + COLUMNS + c] =
                (((four >> 16 & 255) - (uint32_t)centre) & 0xffff) | ((four >> 24) - (uint32_t)centre) << 16;
        }
    }
}

/* Weights of `depth` rows and `count` columns, of which each has `row` bytes. */
static void unpack_codes(const rt_digit_product *p, const uint8_t *codes, int64_t row, int64_t count,
                         int64_t depth, uint8_t *to) {
    _Alignas(RT_ALIGNMENT) uint32_t turned[DEPTH / QUAD * COLUMNS], fours[DEPTH / QUAD * COLUMNS];
    const bool words = p->form == RT_DIGIT_WORDS, halves = p->bits == 4;
    const int64_t bytes = depth * p->bits / 8;
    uint32_t *const last = (uint32_t *)(void *)to, *const whole = words ? fours : last,
                    *const narrow = halves ? turned : whole;
    if (count < COLUMNS) memset(narrow, 0, (size_t)(bytes * COLUMNS));
    rt_turn_words((const uint32_t *)(const void *)codes, row / QUAD, count, bytes / QUAD, narrow, COLUMNS);
    if (halves) split_halves(narrow, bytes / QUAD * COLUMNS, whole);
    if (words) widen(whole, depth / QUAD * COLUMNS, p->centred ? 1 << (p->bits - 1) : 0, last);
}

/* One number of each of `count` columns, side by side, block after block. */
static void turn_floats(const float *from, int64_t row, int64_t count, int64_t blocks, float to[][COLUMNS]) {
    if (count < COLUMNS) memset(to, 0, (size_t)blocks * sizeof *to);
    rt_turn_words((const uint32_t *)(const void *)from, row, count, blocks, (uint32_t *)(void *)to, COLUMNS);
}

/* Codes of a block in each column become numbers: those bits of bytes from `shift` on that `mask` has. */
RT_CLONES static void number_zeros(const uint8_t *codes, int shift, int mask, float *to) {
    for (int c = 0; c < COLUMNS; c++) to[c] = (float)(codes[c] >> shift & mask);
}

/* Zero points of `count` columns from `column` on, of blocks from `first` on, in the order of turn_floats. */
static void unpack_zeros(const rt_digit_product *p, const uint8_t *packed, int64_t column, int64_t count,
                         int64_t first, int64_t blocks, float to[][COLUMNS]) {
    uint8_t codes[MOST_SCALES][COLUMNS] = {{0}};
    const int64_t each = 8 / p->bits, row = (p->blocks + each - 1) / each, byte = first / each,
                  bytes = (first + blocks - 1) / each + 1 - byte;
    rt_turn_bytes(packed + column * row + byte, row, count, bytes, codes[0], COLUMNS);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t place = first % each + b;
        number_zeros(codes[place / each], (int)(place % each) * p->bits, (1 << p->bits) - 1, to[b]);
    }
}

/* Weights [from, from + depth) of a panel, with their scales and zero points. */
static void unpack_panel(const rt_digit_product *p, const rt_digit_weights *weights, int64_t panel,
                         int64_t from, int64_t depth, unpacked *u, int to) {
    const int64_t column = panel * COLUMNS,
                  count = p->columns - column < COLUMNS ? p->columns - column : COLUMNS,
                  row = p->blocks * p->block * p->bits / 8, first = from / p->block,
                  blocks = (depth + p->block - 1) / p->block;
    const uint8_t *codes = weights->codes + column * row + from * p->bits / 8;
    unpack_codes(p, codes, row, count, depth, u->weights[to]);
    turn_floats(weights->scales + column * p->blocks + first, p->blocks, count, blocks, u->scales[to]);
    if (weights->zeros.real)
        turn_floats(weights->zeros.real + column * p->blocks + first, p->blocks, count, blocks, u->zeros[to]);
    else if (weights->zeros.packed)
        unpack_zeros(p, weights->zeros.packed, column, count, first, blocks, u->zeros[to]);
}

/* Columns from `column` on, whose weights from `from` on are unpacked next; `spans` come before. */
static void list_ahead(const rt_digit_product *p, const rt_digit_weights *weights, int64_t column,
                       int64_t end, int64_t from, int64_t spans, ahead *next) {
    const int64_t row = p->blocks * p->block * p->bits / 8, first = from * p->bits / 8,
                  most = DEPTH * p->bits / 8, bytes = row - first < most ? row - first : most;
    next->count = next->asked = 0;
    for (int64_t c = column; c < column + PANELS * COLUMNS && c < end; c++) {
        const uint8_t *codes = weights->codes + c * row + first;
        for (int64_t at = 0; at < bytes; at += RT_ALIGNMENT) next->lines[next->count++] = codes + at;
        next->lines[next->count++] = weights->scales + c * p->blocks + from / p->block;
    }
    next->each = (int)(next->count / spans + 1);
}

/* The results of some panels are whole. */
RT_CLONES static void store(const rt_digit_product *p, const float *sums, int64_t rows, int64_t panel,
                            int panels, const float *bias, float *y) {
    for (int v = 0; v < panels; v++, sums += NEXT_PANEL) {
        const int64_t column = (panel + v) * COLUMNS,
                      count = p->columns - column < COLUMNS ? p->columns - column : COLUMNS;
        float more[COLUMNS] = {0};
        if (bias) memcpy(more, bias + column, (size_t)count * sizeof *more);
        for (int64_t r = 0; r < rows; r++) {
            const float *from = sums + r * COLUMNS;
            float *to = y + r * p->columns + column, all[COLUMNS];
            for (int c = 0; c < COLUMNS; c++) all[c] = from[c] + more[c];
            if (count == COLUMNS) memcpy(to, all, sizeof all);
            else memcpy(to, all, (size_t)count * sizeof *to);
        }
    }
}

void rt_digit_columns(const rt_digit_product *product, const void *x, int64_t rows,
                      const rt_digit_weights *weights, int64_t begin, int64_t end, float *y) {
    const rt_digit_product *const p = product;
    _Alignas(RT_ALIGNMENT) float sums[PANELS * NEXT_PANEL];
    unpacked u;
    const size_t record = record_bytes(p);
    u.shift = 0;
    while (p->span << u.shift < p->block) u.shift++;
    for (int64_t panel = begin; panel < end;) {
        const int64_t left = end - panel;
        const int panels = left == 4 ? 2 : left < PANELS ? (int)left : PANELS;
        memset(sums, 0, sizeof sums);
        for (int64_t from = 0; from < p->spans * p->span; from += DEPTH) {
            const int64_t rest = p->spans * p->span - from, depth = rest < DEPTH ? rest : DEPTH;
            u.spans = depth / p->span;
            for (int v = 0; v < panels; v++) unpack_panel(p, weights, panel + v, from, depth, &u, v);
            const bool last = depth == rest;
            const int64_t next = (panel + (last ? panels : 0)) * COLUMNS, after = end * COLUMNS;
            list_ahead(p, weights, next, after < p->columns ? after : p->columns, last ? 0 : from + depth,
                       (rows + ROWS - 1) / ROWS * u.spans, &u.next);
            for (int64_t row = 0; row < rows; row += ROWS) {
                const char *own =
                    (const char *)x +
                    ((size_t)(row / ROWS) * (size_t)p->spans + (size_t)(from / p->span)) * record;
                add_rows(p, own, &u, rows - row, panels, sums + row * COLUMNS);
            }
        }
        store(p, sums, rows, panel, panels, weights->bias, y);
        panel += panels;
    }
}

#else

bool rt_digit_rows(const rt_digit_product *product, const float *x, int64_t rows, int64_t begin, int64_t end,
                   void *to) {
    (void)product, (void)x, (void)rows, (void)begin, (void)end, (void)to;
    return false;
}

void rt_digit_columns(const rt_digit_product *product, const void *x, int64_t rows,
                      const rt_digit_weights *weights, int64_t begin, int64_t end, float *y) {
    (void)product, (void)x, (void)rows, (void)weights, (void)begin, (void)end, (void)y;
}
#endif

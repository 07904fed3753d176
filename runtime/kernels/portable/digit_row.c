/* SPDX-License-Identifier: Apache-2.0 */
/* digit_row.c: implements digit_row.h. */
#include "runtime/kernels/portable/digit_row.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#if RT_X86_KERNELS
#include <immintrin.h>
#include <string.h>

enum {
    WEIGHTS = RT_DIGITS_WEIGHTS,
    LANES = 16, /* sums side by side, each of four bytes of weights */
    MOST_OF_LANE = 8,
    ONE_DIGIT = 127, /* the largest number with one */
    LEAST_EXPONENT =
        22, /* as floats store it; smaller numbers would want a larger power of two than there is */
    NOT_FINITE = 255,
    TOGETHER =
        4, /* columns, which lie far apart: memory is read from front to back in several places, where a processor reads ahead by itself */
    AHEAD = 512 /* bytes of weights that are asked for early; after a column comes the next one */
};

/* What 64 bytes of weights meet, a group, is for each digit, the lowest first, WEIGHTS bytes for each weight of a byte: elements of even
 * index meet the lower halves of bytes of 4-bit weights. What digits leave is not used. At the end stand the factors of the lanes, and
 * what begins their sums: the sum of a lane's numbers times -2^(bits - 1). */
static inline int64_t digit_at(int bits, int digit, int part) {
    return (digit * (8 / bits) + part) * WEIGHTS;
}

static inline int64_t scales_at(int bits) {
    return rt_digit_row_group(bits) - LANES * (int64_t)(sizeof(float) + sizeof(int32_t));
}

static inline int64_t centres_at(int bits) {
    return rt_digit_row_group(bits) - LANES * (int64_t)sizeof(int32_t);
}

#define WITH_BYTES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

static inline float from_bits(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The numbers of a lane, of which `most` is the largest, without its sign, and less than 2^(exponent - 126). */
static inline __attribute__((always_inline)) void split_lane(const float *x, int lane, int32_t exponent,
                                                             float most, int bits, int digits, int8_t *to) {
    const int elements = 32 / bits, each = 8 / bits;
    if (exponent < LEAST_EXPONENT) exponent = LEAST_EXPONENT;
    /* Bits of the size of a number: with two and three digits the highest digit stays below 64. */
    const int32_t size = 8 * digits - 2;
    float scale = from_bits((size + 126 - exponent + 127) << 23),
          back = from_bits((exponent - 126 - size + 127) << 23);
    if (digits == 1 && exponent > LEAST_EXPONENT) { /* all of a byte */
        scale = ONE_DIGIT / most;
        back = most / ONE_DIGIT;
    }
    const float magic = 12582912.0f;
    int32_t sum = 0;
    for (int i = 0; i < elements; i++) {
        const float shifted = x[i] * scale + magic; /* rounds to an integer, which its last bits hold */
        int32_t number;
        memcpy(&number, &shifted, sizeof number);
        number -= 0x4b400000;
        sum += number;
        for (int digit = 0; digit < digits; digit++) {
            const int32_t own = ((number + 128) & 255) - 128;
            to[digit_at(bits, digit, i % each) + lane * 4 + i / each] = (int8_t)own;
            number = (number - own) / 256;
        }
    }
    const int32_t centre = -(1 << (bits - 1)) * sum;
    memcpy(to + scales_at(bits) + lane * (int64_t)sizeof back, &back, sizeof back);
    memcpy(to + centres_at(bits) + lane * (int64_t)sizeof centre, &centre, sizeof centre);
}

static inline __attribute__((always_inline)) bool split(const float *x, int64_t depth, int bits, int digits,
                                                        int64_t groups, int8_t *to) {
    const int elements = 32 / bits; /* of a lane */
    for (int64_t g = 0; g < groups; g++, to += rt_digit_row_group(bits)) {
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t first = (g * LANES + lane) * elements, rest = depth - first;
            float own[MOST_OF_LANE] = {0};
            const float *from = rest >= elements ? x + first : own;
            if (rest > 0 && rest < elements) memcpy(own, x + first, (size_t)rest * sizeof *own);
            int32_t codes[MOST_OF_LANE], most = 0;
            memcpy(codes, from, (size_t)elements * sizeof *codes);
            for (int i = 0; i < elements;
                 i++) { /* without signs, codes of floats are in the order of these */
                const int32_t size = codes[i] & 0x7fffffff;
                if (size > most) most = size;
            }
            if (most >> 23 == NOT_FINITE) return false;
            split_lane(from, lane, most >> 23, from_bits(most), bits, digits, to);
        }
    }
    return true;
}

/* Digits of x times weights, which are bytes, or the lower and the upper halves of these. */
WITH_BYTES static inline __attribute__((always_inline)) __m512i
product(const int8_t *x, int bits, int digit, __m512i beside, __m512i low, __m512i high) {
    const __m512i sum = _mm512_dpbusd_epi32(beside, low, _mm512_load_si512(x + digit_at(bits, digit, 0)));
    if (bits == 8) return sum;
    return _mm512_dpbusd_epi32(sum, high, _mm512_load_si512(x + digit_at(bits, digit, 1)));
}

/* Of four vectors the sums of their elements. */
WITH_BYTES static inline __attribute__((always_inline)) __m128 sums_of_four(__m512 a, __m512 b, __m512 c,
                                                                            __m512 d) {
#define HALVED(v) _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1))
    const __m256 all =
        _mm256_hadd_ps(_mm256_hadd_ps(HALVED(a), HALVED(b)), _mm256_hadd_ps(HALVED(c), HALVED(d)));
#undef HALVED
    return _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
}

/* One column. */
typedef struct column {
    const uint8_t *weights, *zeros;
    const float *scales;
} column;

/* How the lanes of groups have scales: `shift` as in rt_digit_row_weights, and the block of each lane, counted from the first of its group. */
typedef struct scale_places {
    int shift;
    __m512i of_lanes;
} scale_places;

/* Adds the products of one group with weights from `from` on, of which `rest` bytes are there, `rest` >= WEIGHTS where the group is `whole`. */
WITH_BYTES static inline __attribute__((always_inline)) void
add_group(const int8_t *x, int bits, int digits, bool whole, bool large, const column *columns, int count,
          int64_t from, int64_t rest, const scale_places *places, __m512 *totals) {
    const __m512i halves = _mm512_set1_epi8(15), none = _mm512_setzero_si512();
    const int64_t block = from >> places->shift;
    const __mmask64 there = whole ? ~(__mmask64)0 : rt_first_lanes_64(rest);
    const __mmask16 own = large ? 1 : rt_first_lanes_16((whole ? WEIGHTS : rest) >> places->shift);
    const __m512 scale_of_x = _mm512_load_ps((const float *)(const void *)(x + scales_at(bits)));
    const __m512i beside = _mm512_load_si512(x + centres_at(bits));
    _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) {
        __builtin_prefetch((const void *)((uintptr_t)columns[c].weights + (size_t)from + AHEAD));
        const __m512i weights = whole ? _mm512_loadu_si512(columns[c].weights + from)
                                      : _mm512_maskz_loadu_epi8(there, columns[c].weights + from),
                      low = bits == 8 ? weights : _mm512_and_si512(weights, halves),
                      high = _mm512_and_si512(_mm512_srli_epi16(weights, 4), halves);
        /* Less than 2^31: eight products of a number below 2^22 and one below 2^4, or four of less than 2^14 and 2^8, and what stands
         * beside. */
        __m512i sum = product(x, bits, 0, beside, low, high);
        if (digits > 1) {
            __m512i more = product(x, bits, 1, none, low, high);
            if (digits > 2)
                more = _mm512_add_epi32(more, _mm512_slli_epi32(product(x, bits, 2, none, low, high), 8));
            sum = _mm512_add_epi32(sum, _mm512_slli_epi32(more, 8));
        }
        const float *scales = columns[c].scales + block;
        const __m512 scale =
            large ? _mm512_set1_ps(*scales)
                  : _mm512_permutexvar_ps(places->of_lanes, _mm512_maskz_loadu_ps(own, scales));
        totals[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scale, scale_of_x), totals[c]);
    }
}

/* Subtracts scale * (zero point - 2^(bits - 1)) * sum of x of each block: weights less that meet x. */
WITH_BYTES static inline __attribute__((always_inline)) __m512
less_zeros(int bits, const float *sums, const column *of, int64_t blocks, __m512 total) {
    const __m512 middle = _mm512_set1_ps((float)(1 << (bits - 1)));
    for (int64_t b = 0; b < blocks; b += LANES) {
        const __mmask16 there = rt_first_lanes_16(blocks - b);
        __m512i codes;
        if (bits == 8) {
            codes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, of->zeros + b));
        } else { /* from one byte in eight to one number in four, twice as many */
            const __m512i pairs = _mm512_cvtepu8_epi64(
                _mm_maskz_loadu_epi8(rt_first_lanes_16((blocks - b + 1) / 2), of->zeros + b / 2));
            codes = _mm512_or_si512(
                _mm512_and_si512(pairs, _mm512_set1_epi64(15)),
                _mm512_and_si512(_mm512_slli_epi64(pairs, 28), _mm512_set1_epi64(INT64_C(15) << 32)));
        }
        const __m512 weight = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, of->scales + b),
                                            _mm512_maskz_loadu_ps(there, sums + b));
        total = _mm512_fnmadd_ps(weight, _mm512_sub_ps(_mm512_cvtepi32_ps(codes), middle), total);
    }
    return total;
}

/* Of `count` columns, from `first` on, `step` apart: TOGETHER of them, or one. `large`: blocks have whole groups. */
WITH_BYTES static inline __attribute__((always_inline)) void
dots(const int8_t *x, int bits, int digits, bool large, const float *sums_of_x, const rt_digit_row_weights *w,
     const scale_places *places, int count, int64_t first, int64_t step, float y[TOGETHER]) {
    const int64_t bytes = w->blocks << w->shift, each = 8 / bits, zeros = (w->blocks + each - 1) / each;
    column columns[TOGETHER] = {{0}};
    __m512 totals[TOGETHER];
    for (int c = 0; c < TOGETHER; c++) totals[c] = _mm512_setzero_ps();
    for (int c = 0; c < count; c++) {
        const int64_t at = first + c * step;
        columns[c] = (column){w->weights + at * bytes, w->zeros, w->scales + at * w->blocks};
        if (w->zeros) columns[c].zeros += at * zeros;
    }
    int64_t from = 0;
    for (; from + WEIGHTS <= bytes; from += WEIGHTS, x += rt_digit_row_group(bits))
        add_group(x, bits, digits, true, large, columns, count, from, WEIGHTS, places, totals);
    if (from < bytes)
        add_group(x, bits, digits, false, large, columns, count, from, bytes - from, places, totals);
    for (int c = 0; c < count && w->zeros; c++)
        totals[c] = less_zeros(bits, sums_of_x, columns + c, w->blocks, totals[c]);
    /* A column alone is added up in the same order. */
    _mm_storeu_ps(y, sums_of_four(totals[0], totals[1], totals[2], totals[3]));
}

WITH_BYTES static inline __attribute__((always_inline)) void
all_columns(const int8_t *x, int bits, int digits, bool large, const float *sums,
            const rt_digit_row_weights *w, int64_t begin, int64_t end, const float *bias, float *y) {
    const int64_t each = (end - begin) / TOGETHER;
    int32_t blocks_of_lanes[LANES];
    for (int lane = 0; lane < LANES; lane++) blocks_of_lanes[lane] = lane * 4 >> w->shift;
    const scale_places places = {w->shift, _mm512_loadu_si512(blocks_of_lanes)};
    float made[TOGETHER];
    for (int64_t i = begin; i < begin + each; i++) {
        dots(x, bits, digits, large, sums, w, &places, TOGETHER, i, each, made);
        for (int c = 0; c < TOGETHER; c++) y[i + c * each] = made[c] + (bias ? bias[i + c * each] : 0);
    }
    for (int64_t i = begin + each * TOGETHER; i < end; i++) {
        dots(x, bits, digits, large, sums, w, &places, 1, i, 0, made);
        y[i] = made[0] + (bias ? bias[i] : 0);
    }
}

#define FORM(bits, digits)                                                                                   \
    WITH_BYTES static bool split_##bits##_##digits(const float *x, int64_t depth, int64_t groups,            \
                                                   int8_t *to) {                                             \
        return split(x, depth, bits, digits, groups, to);                                                    \
    }                                                                                                        \
    WITH_BYTES static void columns_##bits##_##digits(const int8_t *x, const float *sums,                     \
                                                     const rt_digit_row_weights *w, int64_t begin,           \
                                                     int64_t end, const float *bias, float *y) {             \
        if (1 << w->shift >= WEIGHTS) all_columns(x, bits, digits, true, sums, w, begin, end, bias, y);      \
        else all_columns(x, bits, digits, false, sums, w, begin, end, bias, y);                              \
    }
FORM(4, 1)
FORM(4, 2)
FORM(4, 3)
FORM(8, 1)
FORM(8, 2)

typedef struct form_functions {
    bool (*split)(const float *x, int64_t depth, int64_t groups, int8_t *to);
    void (*columns)(const int8_t *x, const float *sums, const rt_digit_row_weights *w, int64_t begin,
                    int64_t end, const float *bias, float *y);
} form_functions;

static const form_functions *functions_of(rt_digit_row_form form) {
    static const form_functions four[] = {{split_4_1, columns_4_1},
                                          {split_4_2, columns_4_2},
                                          {split_4_3, columns_4_3}},
                                eight[] = {{split_8_1, columns_8_1}, {split_8_2, columns_8_2}};
    return (form.bits == 4 ? four : eight) + form.digits - 1;
}

bool rt_digit_row_split(const float *x, int64_t depth, rt_digit_row_form form, int64_t groups, void *to) {
    return functions_of(form)->split(x, depth, groups, to);
}

void rt_digit_row_columns(const void *x, rt_digit_row_form form, const float *sums,
                          const rt_digit_row_weights *weights, int64_t begin, int64_t end, const float *bias,
                          float *y) {
    functions_of(form)->columns(x, sums, weights, begin, end, bias, y);
}
#else
bool rt_digit_row_split(const float *x, int64_t depth, rt_digit_row_form form, int64_t groups, void *to) {
    (void)x, (void)depth, (void)form, (void)groups, (void)to;
    return false;
}

void rt_digit_row_columns(const void *x, rt_digit_row_form form, const float *sums,
                          const rt_digit_row_weights *weights, int64_t begin, int64_t end, const float *bias,
                          float *y) {
    (void)x, (void)form, (void)sums, (void)weights, (void)begin, (void)end, (void)bias, (void)y;
}
#endif

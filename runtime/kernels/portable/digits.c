/* SPDX-License-Identifier: Apache-2.0 */
/* digits.c: implements digits.h.
 *
 * A piece is 16 bytes of a column, a group four of them. Of four columns the four pieces of a group are turned round, so that a register has
 * the same piece of each. What they meet of x is read once more into all four quarters of a register.
 */
#include "runtime/kernels/portable/digits.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/digit_factors.h"
#include "runtime/kernels/portable/lanes.h"
#if RT_X86_KERNELS
#include <immintrin.h>

enum {
    GROUP = RT_DIGITS_WEIGHTS,
    PIECE = 16,
    PIECES = GROUP / PIECE,
    SPANS = 4,        /* of x, whose scales stand together: those of a group, of two or of four */
    LEAST_BLOCK = 16, /* two such blocks of 4 bits are a piece, and its steps those of two spans */
    MOST_SPAN = 64,   /* of weights; half with three digits */
    /* Columns of a register. They lie far apart: memory is read from front to back in several places, where a processor reads ahead by itself. */
    QUARTERS = 4,
    AHEAD =
        2048, /* bytes that are asked for ahead where weights are distant: a processor does so by itself, but for too few */
    LANES = 16,
    MOST_SUMS = 4,   /* registers of results: rows times columns of a quarter */
    MOST_ROWS = 4,   /* that weights are read for together */
    MOST_FOURS = 32, /* of spans, whose zero points are unpacked at a time */
    NEAR = 1 << 16   /* bytes of weights that the nearest caches keep for the next rows */
};

bool rt_digits_run_here(const rt_digits_form *form) {
    return form->block >= LEAST_BLOCK && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

#define WITH_BYTES __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define INLINE static inline __attribute__((always_inline))

/* ---- rows ------------------------------------------------------------------------------------------------ */

/* Spans of a group. */
static int spans_of(const rt_digits_form *form) {
    const int64_t most = form->bits == 4 && form->digits == 3 ? MOST_SPAN / 2 : MOST_SPAN,
                  span = form->block < most ? form->block : most;
    return (int)(GROUP * 8 / form->bits / span);
}

/* What four spans meet is, one after another, for each digit, the highest first, one byte for each weight: PIECE bytes for each piece of bytes;
 * with 4 bits the elements of even index, which meet the lower halves of bytes, and PIECE bytes of the others. Then come what begins the sums of
 * each span, of each lane its sum of numbers times -2^(bits - 1); the scale of each span; and the sum of what its numbers stand for. */
INLINE int64_t span_bytes(int bits, int digits, int spans) {
    return GROUP / spans * (8 / bits) * digits;
}

/* Sums that four spans have: of each span, or of a piece that two of them share. */
INLINE int sums_of(int spans) {
    return spans > PIECES ? SPANS / 2 : SPANS;
}

INLINE int64_t centres_at(int bits, int digits, int spans) {
    return SPANS * span_bytes(bits, digits, spans);
}

INLINE int64_t scales_at(int bits, int digits, int spans) {
    return centres_at(bits, digits, spans) + sums_of(spans) * PIECE;
}

INLINE int64_t sums_at(int bits, int digits, int spans) {
    return scales_at(bits, digits, spans) + SPANS * (int64_t)sizeof(float);
}

INLINE int64_t record_bytes(int bits, int digits, int spans) {
    return sums_at(bits, digits, spans) + SPANS * (int64_t)sizeof(float);
}

/* Elements from `first` on, as far as there are any. */
WITH_BYTES INLINE __m512 elements(const float *x, int64_t first, int64_t depth) {
    return _mm512_maskz_loadu_ps(rt_first_lanes_16(depth - first), first < depth ? x + first : x);
}

/* The numbers of a span as bytes; the sum of each lane. Where two spans share a piece, each has a factor. */
WITH_BYTES INLINE __m128i write_span(const float *x, int64_t first, int64_t depth, int64_t span,
                                     const float factors[2], int bits, int digits, char *to) {
    const int parts = 8 / bits;
    const int64_t of_piece = PIECE * parts; /* elements, and bytes of a digit */
    const __m512i order = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m128i ones = _mm_set1_epi8(1);
    __m128i sums[3] = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
    for (int64_t k = 0; k < span; k += of_piece, to += of_piece) {
        __m512i numbers[2];
        for (int i = 0; i < parts; i++) {
            const __m512 some = elements(x, first + k + i * LANES, depth);
            numbers[i] = _mm512_cvtps_epi32(_mm512_mul_ps(some, _mm512_set1_ps(factors[i])));
            if (bits == 4) numbers[i] = _mm512_permutexvar_epi32(order, numbers[i]);
        }
        _Pragma("GCC unroll 3") for (int digit = 0; digit < digits; digit++) {
            const int shift = 8 * (digits - 1 - digit);
            const __m512i carried = _mm512_set1_epi32(0x8080 >> (16 - shift));
            __m128i bytes[2];
            for (int i = 0; i < parts; i++)
                bytes[i] = _mm512_cvtepi32_epi8(
                    _mm512_srl_epi32(_mm512_add_epi32(numbers[i], carried), _mm_cvtsi32_si128(shift)));
            __m128i *const at = (__m128i *)(void *)(to + digit * span);
            const __m128i own = bits == 4 ? _mm_unpacklo_epi64(bytes[0], bytes[1]) : bytes[0];
            _mm_store_si128(at, own);
            sums[digit] = _mm_dpbusd_epi32(sums[digit], ones, own);
            if (bits == 8) continue;
            const __m128i other = _mm_unpackhi_epi64(bytes[0], bytes[1]);
            _mm_store_si128(at + 1, other);
            sums[digit] = _mm_dpbusd_epi32(sums[digit], ones, other);
        }
    }
    __m128i sum = sums[0];
    for (int digit = 1; digit < digits; digit++) sum = _mm_add_epi32(_mm_slli_epi32(sum, 8), sums[digit]);
    return sum;
}

WITH_BYTES INLINE bool split(const rt_digits_form *form, const float *x, int64_t depth, int bits, int digits,
                             char *to) {
    const int spans = spans_of(form), each = SPANS / sums_of(spans);
    const int64_t whole = form->block * form->blocks, span = GROUP * 8 / bits / spans;
    const float most = rt_digit_largest(digits);
    for (int64_t first = 0; first < whole; to += record_bytes(bits, digits, spans)) {
        float factors[SPANS], scales[SPANS], sums[SPANS];
        for (int s = 0; s < SPANS; s++) {
            __m512i largest = _mm512_setzero_si512();
            for (int64_t k = 0; k < span; k += LANES)
                largest = _mm512_max_epu32(
                    largest, _mm512_and_si512(_mm512_set1_epi32(INT32_MAX),
                                              _mm512_castps_si512(elements(x, first + s * span + k, depth))));
            const int32_t size = (int32_t)_mm512_reduce_max_epu32(largest);
            if (size >= RT_DIGIT_NOT_FINITE) return false;
            factors[s] = rt_digit_factor(digits, size, most, scales + s);
        }
        for (int s = 0; s < SPANS; s += each, first += each * span) {
            const float own[2] = {factors[s], factors[s + each - 1]};
            const __m128i lanes = write_span(x, first, depth, each * span, own, bits, digits,
                                             to + s * span_bytes(bits, digits, spans)),
                          pairs = _mm_add_epi32(lanes, _mm_shuffle_epi32(lanes, 0xb1)),
                          all = each == 1 ? _mm_add_epi32(pairs, _mm_shuffle_epi32(pairs, 0x4e)) : pairs;
            _mm_store_si128((__m128i *)(void *)(to + centres_at(bits, digits, spans) + s / each * PIECE),
                            _mm_mullo_epi32(lanes, _mm_set1_epi32(-(1 << (bits - 1)))));
            sums[s] = (float)_mm_cvtsi128_si32(all) * scales[s];
            if (each > 1) sums[s + 1] = (float)_mm_extract_epi32(all, 2) * scales[s + 1];
        }
        memcpy(to + scales_at(bits, digits, spans), scales, sizeof scales);
        memcpy(to + sums_at(bits, digits, spans), sums, sizeof sums);
    }
    return true;
}

/* ---- columns --------------------------------------------------------------------------------------------- */

/* A column of each quarter; those that are computed together with it follow `beside` columns after it. */
typedef struct columns {
    const uint8_t *weights[QUARTERS], *zeros[QUARTERS];
    const float *scales[QUARTERS];
    int64_t bytes, blocks, zero_bytes; /* of a column */
    int64_t beside;
    bool distant;
} columns;

/* `count` neighbours of each column, in its quarter of the register: 4; or 2, which stand there twice, or 1, four times. Those that are not
 * `there` are 0, unless `whole` tells that all are. */
WITH_BYTES INLINE __m512 some_of_each(const float *const at[QUARTERS], int64_t after, int64_t count,
                                      bool whole, int64_t there) {
    const __mmask8 some = (__mmask8)rt_first_lanes_16(there < count ? there : count);
    __m512 all = _mm512_setzero_ps();
    _Pragma("GCC unroll 4") for (int q = 0; q < QUARTERS; q++) {
        const float *const own = at[q] + after;
        const __mmask16 quarter = (__mmask16)(15 << 4 * q);
        if (count == 4) {
            all = _mm512_mask_broadcast_f32x4(all, quarter,
                                              whole ? _mm_loadu_ps(own) : _mm_maskz_loadu_ps(some, own));
        } else if (count == 2) {
            double two;
            if (whole) memcpy(&two, own, sizeof two);
            all = _mm512_castpd_ps(_mm512_mask_broadcastsd_pd(
                _mm512_castps_pd(all), (__mmask8)(3 << 2 * q),
                whole ? _mm_set_sd(two) : _mm_castps_pd(_mm_maskz_loadu_ps(some, own))));
        } else {
            all = _mm512_mask_broadcastss_ps(all, quarter, _mm_load_ss(own));
        }
    }
    return all;
}

/* The codes of 16 zero points of a column, from block b on, as far as there are any, less 2^(bits - 1). */
WITH_BYTES INLINE __m128i centred_codes(const uint8_t *zeros, int64_t b, int64_t blocks, int bits) {
    const __m128i half = _mm_set1_epi8(15), centre = _mm_set1_epi8((char)(1 << (bits - 1)));
    if (bits == 8)
        return _mm_sub_epi8(_mm_maskz_loadu_epi8(rt_first_lanes_16(blocks - b), zeros + b), centre);
    const __m128i pairs = _mm_maskz_loadu_epi8(
        rt_first_lanes_16((blocks - b + 1) / 2 < 8 ? (blocks - b + 1) / 2 : 8), zeros + b / 2);
    return _mm_sub_epi8(
        _mm_unpacklo_epi8(_mm_and_si128(pairs, half), _mm_and_si128(_mm_srli_epi16(pairs, 4), half)), centre);
}

/* Zero points of `blocks` blocks of four columns, from `first` on, less 2^(bits - 1): as many as a group has of each column, and those of the next
 * group. */
WITH_BYTES INLINE void unpack_zeros(const uint8_t *const zeros[QUARTERS], int64_t after, int64_t first,
                                    int64_t blocks, int64_t each, int bits, int8_t *to) {
    for (int64_t b = 0; b < blocks; b += LANES, to += LANES * QUARTERS) {
        __m128i own[QUARTERS], turned[QUARTERS];
        _Pragma("GCC unroll 4") for (int q = 0; q < QUARTERS; q++) own[q] =
            centred_codes(zeros[q] + after, first + b, first + blocks, bits);
#define TURN_CODES(size, twice)                                                                              \
    do {                                                                                                     \
        const __m128i low = _mm_unpacklo_epi##size(own[0], own[1]),                                          \
                      high = _mm_unpackhi_epi##size(own[0], own[1]),                                         \
                      low_too = _mm_unpacklo_epi##size(own[2], own[3]),                                      \
                      high_too = _mm_unpackhi_epi##size(own[2], own[3]);                                     \
        turned[0] = _mm_unpacklo_epi##twice(low, low_too);                                                   \
        turned[1] = _mm_unpackhi_epi##twice(low, low_too);                                                   \
        turned[2] = _mm_unpacklo_epi##twice(high, high_too);                                                 \
        turned[3] = _mm_unpackhi_epi##twice(high, high_too);                                                 \
    } while (0)
        if (each == 4) TURN_CODES(32, 64);
        else if (each == 2) TURN_CODES(16, 32);
        else TURN_CODES(8, 16);
#undef TURN_CODES
        _Pragma("GCC unroll 4") for (int i = 0; i < QUARTERS; i++)
            _mm_storeu_si128((__m128i *)(void *)(to + i * LANES), turned[i]);
    }
}

/* Those of a group, in the order of some_of_each. */
WITH_BYTES INLINE __m512 zeros_of_each(const int8_t *zeros, int64_t count) {
    const __m128i one = _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                  two = _mm_setr_epi8(0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7);
    __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)zeros);
    if (count < 4) codes = _mm_shuffle_epi8(codes, count == 2 ? two : one);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
}

INLINE WITH_BYTES __m512i in_all_quarters(const char *at) {
    return _mm512_broadcast_i32x4(_mm_load_si128((const __m128i *)(const void *)at));
}

/* How the scales of blocks become those of four spans. */
typedef struct span_scales {
    int64_t shift;  /* block of a span: its number >> shift */
    int64_t count;  /* of four spans: blocks, or 1 */
    __m512i places; /* of each span's scale, among four that stand together */
} span_scales;

/* Adds to the totals the products of a span, whose pieces are those from `piece` on, and the scales of the columns times x. */
WITH_BYTES INLINE void add_span(const char *record, int span, int piece, int wide, int bits, int digits,
                                int spans, __m512i weights[][PIECES][2], const __m512 *scales,
                                __m512 *totals) {
    const bool shared = spans > PIECES; /* by two spans: this one and the next */
    const int pieces = shared ? 1 : PIECES / spans, parts = 8 / bits;
    const char *at = record + span * span_bytes(bits, digits, spans);
    const __m512i centre =
        in_all_quarters(record + centres_at(bits, digits, spans) + (shared ? span / 2 : span) * PIECE);
    __m512i sums[2];
    _Pragma("GCC unroll 2") for (int v = 0; v < wide; v++) sums[v] =
        digits == 1 ? centre : _mm512_setzero_si512();
    /* Digits are summed from the highest one on, as in digit_tiles.c. */
    _Pragma("GCC unroll 3") for (int digit = 0; digit < digits; digit++) {
        _Pragma("GCC unroll 2") for (int v = 0; v < wide && digit; v++) {
            sums[v] = _mm512_slli_epi32(sums[v], 8);
            if (digit + 1 == digits) sums[v] = _mm512_add_epi32(sums[v], centre);
        }
        _Pragma("GCC unroll 4") for (int i = piece; i < piece + pieces; i++) {
            _Pragma("GCC unroll 2") for (int part = 0; part < parts; part++, at += PIECE) {
                const __m512i x = in_all_quarters(at);
                _Pragma("GCC unroll 2") for (int v = 0; v < wide; v++) sums[v] =
                    _mm512_dpbusd_epi32(sums[v], weights[v][i][part], x);
            }
        }
    }
    _Pragma("GCC unroll 2") for (int v = 0; v < wide; v++) {
        const __m512 scale = shared && span == 0 ? _mm512_permute_ps(scales[v], 0x50)
                             : shared            ? _mm512_permute_ps(scales[v], 0xfa)
                             : span == 0         ? _mm512_permute_ps(scales[v], 0)
                             : span == 1         ? _mm512_permute_ps(scales[v], 0x55)
                             : span == 2         ? _mm512_permute_ps(scales[v], 0xaa)
                                                 : _mm512_permute_ps(scales[v], 0xff);
        totals[v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[v]), scale, totals[v]);
    }
}

/* What is read of columns as they go on: see `columns`. */
typedef struct places {
    const uint8_t *weights[QUARTERS];
    const float *scales[QUARTERS];
    int64_t next_weights, next_scales; /* to the column beside */
    const int8_t *zeros[2];            /* of columns beside each other: see unpack_zeros; or NULL */
    bool distant;
} places;

/* Asks for what is read of `wide` columns of each quarter AHEAD bytes later: most often of the columns after these, sometimes of nothing that there is. */
INLINE void ask_ahead(const places *of, int wide, int64_t from, int64_t bytes) {
    _Pragma("GCC unroll 4") for (int q = 0; q < QUARTERS; q++) {
        _Pragma("GCC unroll 2") for (int v = 0; v < wide; v++) {
            const uintptr_t at = (uintptr_t)of->weights[q] + (uintptr_t)(v * of->next_weights + from + AHEAD);
            for (int64_t i = 0; i < bytes; i += RT_DIGITS_WEIGHTS)
                __builtin_prefetch((const void *)(at + (uintptr_t)i));
        }
    }
}

/* Weights of `pieces` pieces, a group or half of one, from byte `from` on: of each piece the bytes, or their lower halves and the others. */
WITH_BYTES INLINE void load_weights(const places *of, int64_t from, int pieces, int bits,
                                    __m512i weights[PIECES][2]) {
    const __m512i half = _mm512_set1_epi8(15);
    /* Two pieces of the first two columns, and of the others; then one of all. */
    _Pragma("GCC unroll 2") for (int i = 0; i < pieces; i += 2) {
        __m512i two[2];
        _Pragma("GCC unroll 2") for (int q = 0; q < 2; q++) {
            const uint8_t *const at = of->weights[2 * q] + from + i * PIECE, *const beside =
                                                                                 of->weights[2 * q + 1] +
                                                                                 from + i * PIECE;
            two[q] = _mm512_inserti64x4(
                _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)at)),
                _mm256_loadu_si256((const __m256i *)(const void *)beside), 1);
        }
        weights[i][0] = _mm512_shuffle_i32x4(two[0], two[1], 0x88);
        weights[i + 1][0] = _mm512_shuffle_i32x4(two[0], two[1], 0xdd);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < pieces && bits == 4; i++) {
        const __m512i both = weights[i][0];
        weights[i][0] = _mm512_and_si512(both, half);
        weights[i][1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), half);
    }
}

/* Groups of four spans. */
INLINE int parts_of(int spans) {
    return spans < SPANS ? SPANS / spans : 1;
}

/* Adds the products of four spans: of the columns from block `block` and group `group` on. Of what is not `whole` only `groups` groups are there,
 * and `blocks` blocks. Zero points come in as what the weights are less that meet x: scale * (zero point - 2^(bits - 1)) times the sum of x. */
WITH_BYTES INLINE void add_four(const places *of, const char *const records[MOST_ROWS], int count, int wide,
                                int bits, int digits, int spans, int each, const span_scales *scales,
                                int64_t block, int64_t group, bool whole, int64_t groups, int64_t blocks,
                                __m512 totals[MOST_SUMS]) {
    /* Four spans are so many parts, a part some pieces, which have so many sums, each of them of a span or two. */
    const int parts = parts_of(spans), pieces = spans > PIECES ? PIECES / 2 : PIECES,
              sums = sums_of(spans) / parts, each_sum = SPANS / sums_of(spans);
    const int64_t several = each ? each : scales->count;
    __m512 both[MOST_ROWS][2];
    _Pragma("GCC unroll 2") for (int v = 0; v < wide; v++) {
        const int64_t at = block + v * of->next_scales;
        __m512 scale = several == 4   ? some_of_each(of->scales, at, 4, whole, blocks)
                       : several == 2 ? some_of_each(of->scales, at, 2, whole, blocks)
                                      : some_of_each(of->scales, at, 1, whole, blocks);
        if (!each) scale = _mm512_permutevar_ps(scale, scales->places);
        _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) both[r][v] = _mm512_mul_ps(
            scale, _mm512_castsi512_ps(in_all_quarters(records[r] + scales_at(bits, digits, spans))));
        if (!of->zeros[0]) continue;
        __m512 zero = zeros_of_each(of->zeros[v] + block * QUARTERS, several);
        if (!each) zero = _mm512_permutevar_ps(zero, scales->places);
        zero = _mm512_mul_ps(zero, scale);
        _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) totals[r * wide + v] = _mm512_fnmadd_ps(
            zero, _mm512_castsi512_ps(in_all_quarters(records[r] + sums_at(bits, digits, spans))),
            totals[r * wide + v]);
    }
    _Pragma("GCC unroll 4") for (int part = 0; part < parts; part++) {
        __m512i weights[2][PIECES][2];
        if (!whole && part == groups) break;
        _Pragma("GCC unroll 2") for (int v = 0; v < wide; v++) load_weights(
            of, (group + part) * pieces * PIECE + v * of->next_weights, pieces, bits, weights[v]);
        _Pragma("GCC unroll 4") for (int r = 0; r < count; r++)
            _Pragma("GCC unroll 4") for (int i = 0; i < sums; i++)
                add_span(records[r], part * sums + i * each_sum, i * (pieces / sums), wide, bits, digits,
                         spans, weights, both[r], totals + r * wide);
    }
}

/* Adds the products of four spans at a time: fours [four, end), of which the columns hold those from the first on. */
WITH_BYTES INLINE void add_fours(const places *first, const rt_digits_row *rows, int count, int wide,
                                 int bits, int digits, int spans, int each, const span_scales *scales,
                                 int64_t four, int64_t end, __m512 totals[MOST_SUMS]) {
    const places of = *first;
    const int64_t bytes = GROUP * SPANS / spans;
    const int64_t record_size = record_bytes(bits, digits, spans), shift = scales->shift,
                  first_block = four * SPANS >> shift;
    const char *records[MOST_ROWS];
    _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) records[r] =
        (const char *)rows[r].x + four * record_size;
    for (int64_t own = 0; own < end - four; own++) {
        if (of.distant) ask_ahead(&of, wide, own * bytes, bytes);
        const int64_t block = each == SPANS ? own * SPANS : ((four + own) * SPANS >> shift) - first_block;
        add_four(&of, records, count, wide, bits, digits, spans, each, scales, block, own * parts_of(spans),
                 true, 0, 0, totals);
        _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) records[r] += record_size;
    }
}

/* Adds those of the last four spans, of which only `groups` whole groups are there. x is 0 where the others would be. */
WITH_BYTES INLINE void add_groups(const places *of, const rt_digits_row *rows, int count, int wide, int bits,
                                  int digits, int spans, int each, const span_scales *scales, int64_t four,
                                  int64_t groups, int64_t blocks, __m512 totals[MOST_SUMS]) {
    const char *records[MOST_ROWS];
    _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) records[r] =
        (const char *)rows[r].x + four * record_bytes(bits, digits, spans);
    add_four(of, records, count, wide, bits, digits, spans, each, scales, 0, 0, false, groups, blocks,
             totals);
}

/* Four totals: of each column, a quarter, the sums of its lanes side by side. */
WITH_BYTES INLINE __m512 sums_of_lanes(const __m512 *totals) {
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(totals[0], totals[1]),
                                    _mm512_unpackhi_ps(totals[0], totals[1])),
                 cd = _mm512_add_ps(_mm512_unpacklo_ps(totals[2], totals[3]),
                                    _mm512_unpackhi_ps(totals[2], totals[3]));
    return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
}

/* Four spans that are not all there, filled up. */
typedef struct last_four {
    uint8_t weights[QUARTERS][2][GROUP * SPANS];
    float scales[QUARTERS][2][SPANS];
} last_four;

/* Of `bytes` bytes and `blocks` blocks of each column, which stand there in the end. */
INLINE void copy_last(places *at, int wide, int64_t bytes, int64_t blocks, last_four *to) {
    memset(to, 0, sizeof *to);
    for (int q = 0; q < QUARTERS; q++) {
        for (int v = 0; v < wide; v++) {
            memcpy(to->weights[q][v], at->weights[q] + v * at->next_weights, (size_t)bytes);
            memcpy(to->scales[q][v], at->scales[q] + v * at->next_scales, (size_t)blocks * sizeof(float));
        }
        at->weights[q] = to->weights[q][0];
        at->scales[q] = to->scales[q][0];
    }
    at->next_weights = GROUP * SPANS;
    at->next_scales = SPANS;
}

/* `count` rows times `wide` columns of each quarter: made[quarter][row][column]. */
WITH_BYTES INLINE void products(const columns *of, const rt_digits_row *rows, int count, int wide, int bits,
                                int digits, int spans, int each, const span_scales *scales,
                                float made[QUARTERS * MOST_SUMS]) {
    const int64_t bytes = GROUP * SPANS / spans, whole = of->bytes / bytes,
                  fours = (of->bytes + bytes - 1) / bytes, rest = of->bytes - whole * bytes;
    int8_t zeros[2][MOST_FOURS * SPANS * QUARTERS + LANES * QUARTERS];
    last_four copy;
    __m512 totals[MOST_SUMS];
    _Pragma("GCC unroll 4") for (int i = 0; i < MOST_SUMS; i++) totals[i] = _mm512_setzero_ps();
    for (int64_t four = 0, end; four < fours; four = end) {
        end = four == whole ? fours : whole - four > MOST_FOURS ? four + MOST_FOURS : whole;
        const int64_t from = four * bytes, block = four * SPANS >> scales->shift,
                      last = (end * SPANS - 1) >> scales->shift,
                      blocks = (last < of->blocks ? last + 1 : of->blocks) - block,
                      odd = bits == 4 ? block % 2 : 0; /* of two that share a byte */
        places at = {.next_weights = of->beside * of->bytes,
                     .next_scales = of->beside * of->blocks,
                     .distant = of->distant};
        for (int q = 0; q < QUARTERS; q++) {
            at.weights[q] = of->weights[q] + from;
            at.scales[q] = of->scales[q] + block;
        }
        for (int v = 0; v < wide && of->zeros[0]; v++) {
            unpack_zeros(of->zeros, v * of->beside * of->zero_bytes, block - odd, blocks + odd,
                         each ? each : scales->count, bits, zeros[v]);
            at.zeros[v] = zeros[v] + odd * QUARTERS;
        }
        if (four == whole && parts_of(spans) > 1 && rest % GROUP == 0) {
            add_groups(&at, rows, count, wide, bits, digits, spans, each, scales, four, rest / GROUP, blocks,
                       totals);
            continue;
        }
        if (four == whole) copy_last(&at, wide, rest, blocks, &copy);
        add_fours(&at, rows, count, wide, bits, digits, spans, each, scales, four, end, totals);
    }
    _mm512_storeu_ps(made, sums_of_lanes(totals));
}

/* Columns [begin, end) of `count` rows. */
WITH_BYTES INLINE void all_columns(const rt_digits_form *form, const rt_digits_row *rows, int count, int wide,
                                   int bits, int digits, int spans, int several, const rt_digits_weights *w,
                                   int64_t begin, int64_t end, const float *bias) {
    const int64_t codes = 8 / bits, together = QUARTERS * wide, each = (end - begin) / together;
    columns of = {.bytes = form->block * form->blocks / codes,
                  .blocks = form->blocks,
                  .zero_bytes = (form->blocks + codes - 1) / codes,
                  .distant = form->distant};
    span_scales scales = {.shift = 0};
    while (GROUP * codes / spans << scales.shift < form->block) scales.shift++;
    scales.count = SPANS >> scales.shift ? SPANS >> scales.shift : 1;
    scales.places = _mm512_setr4_epi32(0, 1 >> scales.shift, 2 >> scales.shift, 3 >> scales.shift);
    for (int64_t i = 0; i < each + (each * together < end - begin); i++) {
        /* The last ones lie beside each other; where they are too few, some are made twice. */
        const bool last = i == each;
        float made[QUARTERS * MOST_SUMS];
        int64_t first[QUARTERS];
        of.beside = !last ? each : end - begin >= wide;
        for (int q = 0; q < QUARTERS; q++) {
            const int64_t at = begin + (last ? each * together + q * wide : i + q * wide * each),
                          most = end - 1 - (wide - 1) * of.beside;
            first[q] = at < most ? at : most;
            of.weights[q] = w->weights + first[q] * of.bytes;
            of.scales[q] = w->scales + first[q] * of.blocks;
            of.zeros[q] = w->zeros ? w->zeros + first[q] * of.zero_bytes : NULL;
        }
        products(&of, rows, count, wide, bits, digits, spans, several, &scales, made);
        for (int q = 0; q < QUARTERS; q++) {
            for (int r = 0; r < count; r++) {
                for (int v = 0; v < wide; v++) {
                    const int64_t at = first[q] + v * of.beside;
                    rows[r].y[at] = made[q * MOST_SUMS + r * wide + v] + (bias ? bias[at] : 0);
                }
            }
        }
    }
}

typedef void (*columns_function)(const rt_digits_form *form, const rt_digits_row *rows,
                                 const rt_digits_weights *w, int64_t begin, int64_t end, const float *bias);

/* `each`: scales of a group, or 0: as many as there are. */
#define COLUMNS(bits, digits, spans, each, count, wide)                                                      \
    WITH_BYTES static void columns_##bits##_##digits##_##spans##_##each##_##count(                           \
        const rt_digits_form *form, const rt_digits_row *rows, const rt_digits_weights *w, int64_t begin,    \
        int64_t end, const float *bias) {                                                                    \
        all_columns(form, rows, count, wide, bits, digits, spans, each, w, begin, end, bias);                \
    }
#define PAIRS(bits, digits, spans, each)                                                                     \
    COLUMNS(bits, digits, spans, each, 1, 2)                                                                 \
    COLUMNS(bits, digits, spans, each, 2, 2)
#define FORM(bits, digits, spans, each)                                                                      \
    PAIRS(bits, digits, spans, each)                                                                         \
    COLUMNS(bits, digits, spans, each, 3, 1)                                                                 \
    COLUMNS(bits, digits, spans, each, 4, 1)
#define SPLIT(bits, digits)                                                                                  \
    WITH_BYTES static bool split_##bits##_##digits(const rt_digits_form *form, const float *x,               \
                                                   int64_t depth, char *to) {                                \
        return split(form, x, depth, bits, digits, to);                                                      \
    }
SPLIT(4, 1)
SPLIT(4, 3)
SPLIT(8, 1)
SPLIT(8, 2)
FORM(4, 1, 2, 0)
FORM(4, 1, 2, 4)
FORM(4, 1, 4, 4)
FORM(4, 1, 8, 4)
PAIRS(4, 3, 4, 0)
PAIRS(4, 3, 4, 4)
PAIRS(4, 3, 8, 4)
FORM(8, 1, 1, 0)
FORM(8, 1, 1, 4)
FORM(8, 1, 2, 4)
FORM(8, 1, 4, 4)
PAIRS(8, 2, 1, 0)
PAIRS(8, 2, 1, 4)
PAIRS(8, 2, 2, 4)
PAIRS(8, 2, 4, 4)

bool rt_digits_split(const rt_digits_form *form, const float *x, int64_t depth, void *to) {
    static bool (*const functions[2][3])(const rt_digits_form *, const float *, int64_t,
                                         char *) = {{split_4_1, NULL, split_4_3}, {split_8_1, split_8_2}};
    return functions[form->bits == 8][form->digits - 1](form, x, depth, to);
}

/* For one row and two; or to four: with several digits unpacking weights is little beside what is done with them. */
#define TWO_OF(form)                                                                                         \
    { columns_##form##_1, columns_##form##_2 }
#define FUNCTIONS(form)                                                                                      \
    { columns_##form##_1, columns_##form##_2, columns_##form##_3, columns_##form##_4 }

static const columns_function *functions_of(const rt_digits_form *form) {
    /* By digits; and by spans of a group: 1, 2 or 4; blocks of several spans; 8 spans. */
    static const columns_function four[3][5][MOST_ROWS] =
        {{{0}, FUNCTIONS(4_1_2_4), FUNCTIONS(4_1_4_4), FUNCTIONS(4_1_2_0), FUNCTIONS(4_1_8_4)},
         {{0}},
         {{0}, {0}, TWO_OF(4_3_4_4), TWO_OF(4_3_4_0), TWO_OF(4_3_8_4)}},
                                  eight[2][5][MOST_ROWS] = {
                                      {FUNCTIONS(8_1_1_4), FUNCTIONS(8_1_2_4), FUNCTIONS(8_1_4_4),
                                       FUNCTIONS(8_1_1_0)},
                                      {TWO_OF(8_2_1_4), TWO_OF(8_2_2_4), TWO_OF(8_2_4_4), TWO_OF(8_2_1_0)}};
    const int spans = spans_of(form);
    const bool several = form->block * spans > GROUP * 8 / form->bits;
    return (form->bits == 4 ? four : eight)[form->digits - 1][several ? 3 : spans / 2];
}

void rt_digits_columns(const rt_digits_form *form, const rt_digits_row *rows, int64_t count,
                       const rt_digits_weights *weights, int64_t begin, int64_t end, const float *bias) {
    const columns_function *const functions = functions_of(form);
    const int64_t bytes = form->block * form->blocks * form->bits / 8,
                  near = NEAR / bytes < QUARTERS * 2 ? QUARTERS * 2 : NEAR / bytes,
                  most = form->digits == 1 ? MOST_ROWS : 2, each = count <= most ? end - begin : near;
    for (int64_t from = begin, to; from < end; from = to) {
        to = end - from < each ? end : from + each;
        for (int64_t row = 0, some; row < count; row += some) {
            const int64_t rest = count - row;
            some = rest < most ? rest : most;
            functions[some - 1](form, rows + row, weights, from, to, bias);
        }
    }
}
#else
bool rt_digits_run_here(const rt_digits_form *form) {
    (void)form;
    return false;
}

bool rt_digits_split(const rt_digits_form *form, const float *x, int64_t depth, void *to) {
    (void)form, (void)x, (void)depth, (void)to;
    return false;
}

void rt_digits_columns(const rt_digits_form *form, const rt_digits_row *rows, int64_t count,
                       const rt_digits_weights *weights, int64_t begin, int64_t end, const float *bias) {
    (void)form, (void)rows, (void)count, (void)weights, (void)begin, (void)end, (void)bias;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* digits.c: implements digits.h. */
#include "runtime/kernels/portable/digits.h"
#include "runtime/kernels/portable/lanes.h"
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

enum {
    WEIGHTS = RT_DIGITS_WEIGHTS,
    LANES = 16,  /* sums side by side, each of four bytes of weights */
    OF_LANE = 8, /* elements of x that a lane meets */
    DIGITS = 3,
    BITS = 22, /* of the size of a number */
    CENTRE = 8,
    LEAST_EXPONENT =
        22, /* as floats store it; smaller numbers would want a larger power of two than there is */
    NOT_FINITE = 255,
    AHEAD = 512 /* bytes of weights that are asked for early; after a column comes the next one */
};

/* What 64 bytes of weights meet. Elements of even index meet the lower halves of bytes. */
typedef struct group {
    int8_t digits[DIGITS][2][WEIGHTS]; /* the lowest digit first */
    float scales[LANES];
    int32_t centres[LANES]; /* -CENTRE times the sum of a lane's numbers */
} group;
_Static_assert(sizeof(group) == RT_DIGITS_GROUP, "groups follow each other");

bool rt_digits_run_here(void) {
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
}

static float from_bits(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The numbers of a lane. */
static void split_lane(const float *x, int lane, int32_t exponent, group *to) {
    if (exponent < LEAST_EXPONENT) exponent = LEAST_EXPONENT;
    /* All are less than 2^(exponent - 126). */
    const float scale = from_bits((BITS + 126 - exponent + 127) << 23), magic = 12582912.0f;
    int32_t sum = 0;
    for (int i = 0; i < OF_LANE; i++) {
        const float shifted = x[i] * scale + magic; /* rounds to an integer, which its last bits hold */
        int32_t number;
        memcpy(&number, &shifted, sizeof number);
        number -= 0x4b400000;
        sum += number;
        for (int digit = 0; digit < DIGITS; digit++) {
            const int32_t own = ((number + 128) & 255) - 128;
            to->digits[digit][i % 2][lane * (OF_LANE / 2) + i / 2] = (int8_t)own;
            number = (number - own) / 256;
        }
    }
    to->scales[lane] = from_bits((exponent - 126 - BITS + 127) << 23);
    to->centres[lane] = -CENTRE * sum;
}

bool rt_digits_split(const float *x, int64_t depth, int64_t groups, void *digits) {
    group *to = digits;
    for (int64_t g = 0; g < groups; g++) {
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t first = (g * LANES + lane) * OF_LANE, rest = depth - first;
            float own[OF_LANE] = {0};
            const float *from = rest >= OF_LANE ? x + first : own;
            if (rest > 0 && rest < OF_LANE) memcpy(own, x + first, (size_t)rest * sizeof *own);
            int32_t bits[OF_LANE], exponent = 0;
            memcpy(bits, from, sizeof bits);
            for (int i = 0; i < OF_LANE; i++) {
                const int32_t of_number = bits[i] >> 23 & 255;
                if (of_number > exponent) exponent = of_number;
            }
            if (exponent == NOT_FINITE) return false;
            split_lane(from, lane, exponent, to + g);
        }
    }
    return true;
}

typedef struct layout {
    __m512i block_of_lane; /* counted from the first that a group of weights has */
    int64_t blocks;        /* that it has */
} layout;

#define WITH_BYTES __attribute__((target("avx512f,avx512bw,avx512vnni")))

/* Some of the first `rest` bytes from `from` on; those after them are 0. */
WITH_BYTES static inline __m512i bytes_of(const uint8_t *from, int64_t rest) {
    if (rest >= WEIGHTS) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi8(rt_first_lanes_64(rest), from);
}

WITH_BYTES static inline __attribute__((always_inline)) void dots(const group *x,
                                                                  const rt_digits_column *columns, int count,
                                                                  int64_t bytes, int shift, bool centred,
                                                                  float *y) {
    int32_t blocks_of_lanes[LANES];
    for (int lane = 0; lane < LANES; lane++) blocks_of_lanes[lane] = lane * 4 >> shift;
    const __m512i places = _mm512_loadu_si512(blocks_of_lanes), halves = _mm512_set1_epi8(15);
    const int64_t blocks = (bytes >> shift), each = shift < 6 ? WEIGHTS >> shift : 1;
    __m512 totals[RT_DIGITS_TOGETHER];
    for (int c = 0; c < count; c++) totals[c] = _mm512_setzero_ps();
    for (int64_t from = 0; from < bytes; from += WEIGHTS, x++) {
        const int64_t block = from >> shift, some = blocks - block < each ? blocks - block : each;
        const __mmask16 own = rt_first_lanes_16(some);
        const __m512 scale_of_x = _mm512_load_ps(x->scales);
        const __m512i beside = centred ? _mm512_load_si512(x->centres) : _mm512_setzero_si512();
        _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) {
            __builtin_prefetch((const void *)((uintptr_t)columns[c].weights + (size_t)from + AHEAD));
            const __m512i weights = bytes_of(columns[c].weights + from, bytes - from),
                          low = _mm512_and_si512(weights, halves),
                          high = _mm512_and_si512(_mm512_srli_epi16(weights, 4), halves);
            __m512i sums[DIGITS];
            _Pragma("GCC unroll 3") for (int digit = 0; digit < DIGITS; digit++) {
                sums[digit] = _mm512_dpbusd_epi32(digit ? _mm512_setzero_si512() : beside, low,
                                                  _mm512_load_si512(x->digits[digit][0]));
                sums[digit] = _mm512_dpbusd_epi32(sums[digit], high, _mm512_load_si512(x->digits[digit][1]));
            }
            /* Less than 2^31: eight products of a number below 2^22 and one below 2^4, and what stands beside. */
            const __m512i sum = _mm512_add_epi32(
                _mm512_slli_epi32(_mm512_add_epi32(_mm512_slli_epi32(sums[2], 8), sums[1]), 8), sums[0]);
            const __m512 scales =
                _mm512_permutexvar_ps(places, _mm512_maskz_loadu_ps(own, columns[c].scales + block));
            totals[c] =
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scales, scale_of_x), totals[c]);
        }
    }
    for (int c = 0; c < count; c++) y[c] = _mm512_reduce_add_ps(totals[c]);
}

WITH_BYTES static void dots_of_one(const group *x, const rt_digits_column *columns, int64_t bytes, int shift,
                                   bool centred, float *y) {
    dots(x, columns, 1, bytes, shift, centred, y);
}

WITH_BYTES static void dots_together(const group *x, const rt_digits_column *columns, int64_t bytes,
                                     int shift, bool centred, float *y) {
    dots(x, columns, RT_DIGITS_TOGETHER, bytes, shift, centred, y);
}

void rt_digits_dots(const void *digits, const rt_digits_column *columns, int count, int64_t bytes, int shift,
                    bool centred, float *y) {
    (count == 1 ? dots_of_one : dots_together)(digits, columns, bytes, shift, centred, y);
}
#else
bool rt_digits_run_here(void) {
    return false;
}

bool rt_digits_split(const float *x, int64_t depth, int64_t groups, void *digits) {
    (void)x, (void)depth, (void)groups, (void)digits;
    return false;
}

void rt_digits_dots(const void *digits, const rt_digits_column *columns, int count, int64_t bytes, int shift,
                    bool centred, float *y) {
    (void)digits, (void)columns, (void)count, (void)bytes, (void)shift, (void)centred, (void)y;
}
#endif

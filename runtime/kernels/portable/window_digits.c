/* SPDX-License-Identifier: Apache-2.0 */
/* window_digits.c: implements window_digits.h. */
#include "runtime/kernels/portable/window_digits.h"
#include "runtime/kernels/portable/fixed_digits.h"
#include "runtime/kernels/portable/lanes.h"
#include <float.h>

enum { SMALL_BITS = 14 }; /* small numbers keep so many bits, or fewer */

rt_window_scale rt_window_scale_of(float largest) {
    const rt_fixed_scale scale = rt_fixed_scale_of(largest, RT_FIXED_DIGITS);
    const int below = rt_fixed_small_below(SMALL_BITS, RT_FIXED_DIGITS);
    return (rt_window_scale){scale.up, scale.down, largest * rt_fixed_power(-below)};
}

float rt_window_part_scale(int part) {
    return rt_fixed_power(-part * RT_FIXED_REST_BITS);
}

#if defined(RT_HAS_BYTE_TILES)
enum { LANES = 16, FINITE = 0x7F7FFFFF };

/* Of 16 numbers, without those that are not finite. */
RT_WITH_FIXED RT_FIXED_ALWAYS __m512i finite_sizes(__m512 numbers) {
    const __m512i sizes = rt_fixed_sizes(numbers);
    return _mm512_maskz_mov_epi32(_mm512_cmple_epu32_mask(sizes, _mm512_set1_epi32(FINITE)), sizes);
}

RT_WITH_FIXED float rt_window_largest(const float *from, int64_t count) {
    enum { TOGETHER = 4 };
    __m512i most[TOGETHER];
    int64_t i = 0;
    for (int k = 0; k < TOGETHER; k++) most[k] = _mm512_setzero_si512();
    for (; i + TOGETHER * LANES <= count; i += TOGETHER * LANES)
        _Pragma("GCC unroll 4") for (int k = 0; k < TOGETHER; k++) most[k] =
            _mm512_max_epu32(most[k], finite_sizes(_mm512_loadu_ps(from + i + k * LANES)));
    for (; i < count; i += LANES)
        most[0] = _mm512_max_epu32(
            most[0], finite_sizes(_mm512_maskz_loadu_ps(rt_first_lanes_16(count - i), from + i)));
    for (int k = 1; k < TOGETHER; k++) most[0] = _mm512_max_epu32(most[0], most[k]);
    return base_float_of_bits(_mm512_reduce_max_epu32(most[0]));
}

/* Four vectors of numbers, which are the channels of one, two or four points. */
typedef struct quad {
    __m512 numbers[4];
    int lack;
    bool coarse[4];
} quad;

/* Numbers of 16 channels from the `at`th of a line on: zeros, where the image has none. */
RT_WITH_FIXED RT_FIXED_ALWAYS __m512 numbers_at(const rt_window_line *line, int64_t point, int64_t block) {
    const int64_t rest = line->channels - block * LANES;
    if (point < line->begin || point >= line->end || rest <= 0) return _mm512_setzero_ps();
    const float *from = line->from + (point - line->begin) * line->pixel + block * line->plane;
    return rest >= LANES ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(rt_first_lanes_16(rest), from);
}

/* The numbers from point `point` on, as multiples of the scale. */
RT_WITH_FIXED RT_FIXED_ALWAYS quad find_quad(const rt_window_line *line, int64_t point, int64_t each) {
    const int64_t blocks = each / LANES;
    const __m512i one = _mm512_set1_epi32(1), finite = _mm512_set1_epi32(FINITE),
                  limit = _mm512_set1_epi32((int)base_bits_of_float(line->scale.small));
    const __m512 up = _mm512_set1_ps(line->scale.up);
    quad made = {.lack = 0};
    int small[4] = {0};
    __mmask16 infinite = 0;
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        const __m512 numbers = numbers_at(line, point + i / blocks, i % blocks);
        const __m512i sizes = rt_fixed_sizes(numbers);
        const __mmask16 is_finite = _mm512_cmple_epu32_mask(sizes, finite);
        infinite |= (__mmask16)~is_finite;
        /* Zeros are not small: less 1, they are the largest. */
        small[i / blocks] += __builtin_popcount(_mm512_cmplt_epu32_mask(_mm512_sub_epi32(sizes, one), limit));
        made.numbers[i] = _mm512_maskz_mul_ps(is_finite, numbers, up);
    }
    if (infinite) made.lack |= RT_FIXED_INFINITE;
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        made.coarse[i] = 2 * small[i / blocks] > line->channels;
        if (made.coarse[i]) made.lack |= RT_FIXED_COARSE;
    }
    return made;
}

RT_WITH_FIXED RT_FIXED_ALWAYS void leave_quad(const rt_window_line *line, const quad *of, char *to) {
    __m512i bytes[4];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
        __m512i integers = _mm512_cvtps_epi32(of->numbers[i]);
        if (of->coarse[i]) integers = rt_fixed_part(of->numbers[i], RT_FIXED_DIGITS, line->part);
        else if (line->part > 0) integers = _mm512_setzero_si512();
        bytes[i] = rt_fixed_bytes(integers, false, RT_FIXED_DIGITS);
    }
    _Pragma("GCC unroll 3") for (int digit = 0; digit < RT_FIXED_DIGITS; digit++)
        _mm512_storeu_si512(to + digit * line->digit, rt_fixed_digit_of(bytes, RT_FIXED_DIGITS - 1 - digit));
}

RT_WITH_FIXED RT_FIXED_ALWAYS int split(const rt_window_line *line, int64_t each) {
    const int64_t together = RT_FIXED_STEP / each;
    int lack = 0;
    for (int64_t point = 0; point < line->count; point += together) {
        const quad of = find_quad(line, point, each);
        leave_quad(line, &of, line->to + point * each);
        lack |= of.lack;
    }
    return lack;
}

RT_WITH_FIXED int rt_window_split(const rt_window_line *line) {
    enum { HALF = RT_FIXED_STEP / 2 };
    return line->each == RT_FIXED_STEP ? split(line, RT_FIXED_STEP)
           : line->each == HALF        ? split(line, HALF)
                                       : split(line, LANES);
}
#else
float rt_window_largest(const float *from, int64_t count) {
    (void)from, (void)count;
    return 0;
}

int rt_window_split(const rt_window_line *line) {
    (void)line;
    return 0;
}
#endif

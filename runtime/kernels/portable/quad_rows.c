/* SPDX-License-Identifier: Apache-2.0 */
/* quad_rows.c: implements quad_rows.h.
 *
 * The machine multiplies bytes without a sign by bytes with one. The factors are the former where none is below zero, and rows of B are made
 * the latter, by taking 128 from those without a sign; otherwise factors have a sign, and rows of B get 128 more where they have one. What that
 * makes of the sums is the same for all columns.
 */
#include "runtime/kernels/portable/quad_rows.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/quad_lanes.h"
#include <string.h>

#if RT_X86_KERNELS
#define TARGET __attribute__((target("avx512bw,avx512vnni")))

enum { QUADS = RT_INTEGER_FEW / 4, BYTES = 64 };

/* `plain`: factors have no sign. */
TARGET static inline __attribute__((always_inline)) void add_rows(bool plain, const uint8_t *b, int64_t b_row,
                                                                  int64_t depth, int64_t columns,
                                                                  const int32_t *factors, uint8_t flip,
                                                                  int32_t more, int32_t *sums) {
    const __m512i change = _mm512_set1_epi8((char)flip);
    for (int64_t first = 0; first < columns; first += BYTES) {
        const __mmask64 there = rt_first_lanes_64(columns - first);
        const uint8_t *from = b + first;
        int32_t *to = sums + first;
        __m512i sum[4], ordered[4];
        for (int i = 0; i < 4; i++) sum[i] = _mm512_set1_epi32(more);
        for (int64_t k = 0; k < depth; k += 4) {
            __m512i line[4], quads[4];
            /* Rows after the last one have the factor 0. */
            for (int64_t i = 0; i < 4; i++)
                line[i] = _mm512_xor_si512(
                    _mm512_maskz_loadu_epi8(there, from + (k + i < depth ? k + i : k) * b_row), change);
            rt_quads_of_lines(line, quads);
            const __m512i factor = _mm512_set1_epi32(factors[k / 4]);
            for (int i = 0; i < 4; i++)
                sum[i] = plain ? _mm512_dpbusd_epi32(sum[i], factor, quads[i])
                               : _mm512_dpbusd_epi32(sum[i], quads[i], factor);
        }
        rt_quads_in_order(sum, ordered);
        for (int64_t i = 0; i < 4; i++) {
            const __mmask16 some = rt_first_lanes_16(columns - first - 16 * i);
            if (some == 0) break;
            _mm512_mask_storeu_epi32(
                to + 16 * i, some, _mm512_add_epi32(ordered[i], _mm512_maskz_loadu_epi32(some, to + 16 * i)));
        }
    }
}

TARGET static void add_plain(const uint8_t *b, int64_t b_row, int64_t depth, int64_t columns,
                             const int32_t *factors, uint8_t flip, int32_t more, int32_t *sums) {
    add_rows(true, b, b_row, depth, columns, factors, flip, more, sums);
}

TARGET static void add_signed(const uint8_t *b, int64_t b_row, int64_t depth, int64_t columns,
                              const int32_t *factors, uint8_t flip, int32_t more, int32_t *sums) {
    add_rows(false, b, b_row, depth, columns, factors, flip, more, sums);
}

bool rt_quad_rows_add(op_dtype dtype, const uint8_t *b, int64_t b_row, int64_t depth, int64_t columns,
                      const int16_t *a, int32_t *sums) {
    uint8_t bytes[RT_INTEGER_FEW] = {0};
    int32_t factors[QUADS], least = 0, most = 0, total = 0;
    if (!__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512bw")) return false;
    for (int64_t k = 0; k < depth; k++) {
        least = a[k] < least ? a[k] : least;
        most = a[k] > most ? a[k] : most;
        total += a[k];
        bytes[k] = (uint8_t)a[k];
    }
    memcpy(factors, bytes, sizeof factors);
    if (least >= 0) {
        const bool flips = dtype == OP_UINT8;
        add_plain(b, b_row, depth, columns, factors, flips ? 0x80 : 0, flips ? 128 * total : 0, sums);
    } else if (least >= INT8_MIN && most <= INT8_MAX) {
        const bool flips = dtype == OP_INT8;
        add_signed(b, b_row, depth, columns, factors, flips ? 0x80 : 0, flips ? -128 * total : 0, sums);
    } else {
        return false;
    }
    return true;
}
#else
bool rt_quad_rows_add(op_dtype dtype, const uint8_t *b, int64_t b_row, int64_t depth, int64_t columns,
                      const int16_t *a, int32_t *sums) {
    (void)dtype, (void)b, (void)b_row, (void)depth, (void)columns, (void)a, (void)sums;
    return false;
}
#endif

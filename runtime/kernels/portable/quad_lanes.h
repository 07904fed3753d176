/* SPDX-License-Identifier: Apache-2.0 */
/* quad_lanes.h: four lines of 64 bytes as quadruples of one byte of each, which is what AVX-512 VNNI multiplies and adds at once. */
#ifndef OURO_QUAD_LANES_H
#define OURO_QUAD_LANES_H

#include "runtime/kernels/base/x86.h"
#if RT_X86_KERNELS
#include <immintrin.h>

#define RT_QUAD_LANES __attribute__((target("avx512bw"), always_inline)) static inline

/* Register i gets the quadruples of columns 16 l + 4 i + (0 to 3), for each of its four quarters l: what two instructions a register come to. */
RT_QUAD_LANES void rt_quads_of_lines(const __m512i lines[4], __m512i quads[4]) {
    const __m512i low = _mm512_unpacklo_epi8(lines[0], lines[1]),
                  high = _mm512_unpackhi_epi8(lines[0], lines[1]),
                  low2 = _mm512_unpacklo_epi8(lines[2], lines[3]),
                  high2 = _mm512_unpackhi_epi8(lines[2], lines[3]);
    quads[0] = _mm512_unpacklo_epi16(low, low2);
    quads[1] = _mm512_unpackhi_epi16(low, low2);
    quads[2] = _mm512_unpacklo_epi16(high, high2);
    quads[3] = _mm512_unpackhi_epi16(high, high2);
}

/* Those, or sums of their products, in the order of columns: register i gets columns 16 i to 16 i + 15. */
RT_QUAD_LANES void rt_quads_in_order(const __m512i from[4], __m512i to[4]) {
    const __m512i a = _mm512_shuffle_i32x4(from[0], from[1], 0x44),
                  b = _mm512_shuffle_i32x4(from[2], from[3], 0x44),
                  c = _mm512_shuffle_i32x4(from[0], from[1], 0xee),
                  d = _mm512_shuffle_i32x4(from[2], from[3], 0xee);
    to[0] = _mm512_shuffle_i32x4(a, b, 0x88);
    to[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
    to[2] = _mm512_shuffle_i32x4(c, d, 0x88);
    to[3] = _mm512_shuffle_i32x4(c, d, 0xdd);
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* spans.h: short runs of bytes that are copied by many, for which a call of memcpy takes longer than the copy: rows of a band, which lie
 * apart in each channel. rt_copy_short takes any number of bytes. Where all spans are alike, rt_copy_span is faster.
 */
#ifndef OURO_SPANS_H
#define OURO_SPANS_H

#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

/* As memcpy, but without a call where there are few bytes: whole words, the last of which ends where they do. */
static inline void rt_copy_short(char *to, const char *from, size_t bytes) {
    enum { WORD = 16, MOST = 256 };
    if (bytes < WORD || bytes > MOST) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i + WORD <= bytes; i += WORD) memcpy(to + i, from + i, WORD);
    memcpy(to + bytes - WORD, from + bytes - WORD, WORD);
}

#if RT_X86_KERNELS
#define RT_SPANS __attribute__((target("avx512f")))
/* Whether spans of so many bytes are copied faster by rt_copy_span than by memcpy on this machine. */
static inline bool rt_spans_are_short(size_t bytes) {
    enum { LONGEST = 1024, SHORTEST = 12 };
    return bytes >= SHORTEST && bytes <= LONGEST && bytes % 4 == 0 && __builtin_cpu_supports("avx512f");
}

/* As memcpy, of short spans: whole vectors, the last of which ends where the span does. */
RT_SPANS static inline __attribute__((always_inline)) void rt_copy_span(char *to, const char *from,
                                                                        size_t bytes) {
    enum { WIDE = 64 };
    if (bytes < WIDE) {
        const __mmask16 some = rt_first_lanes_16((int64_t)bytes / 4);
        _mm512_mask_storeu_epi32(to, some, _mm512_maskz_loadu_epi32(some, from));
        return;
    }
    for (size_t at = 0; at + WIDE < bytes; at += WIDE)
        _mm512_storeu_si512(to + at, _mm512_loadu_si512(from + at));
    _mm512_storeu_si512(to + bytes - WIDE, _mm512_loadu_si512(from + bytes - WIDE));
}
#endif

#endif

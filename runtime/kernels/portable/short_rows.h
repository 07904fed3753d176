/* SPDX-License-Identifier: Apache-2.0 */
/* short_rows.h: rows of bytes, often too short for a call, copied and filled. None of these reads or writes beyond what it is told. */
#ifndef OURO_SHORT_ROWS_H
#define OURO_SHORT_ROWS_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* A row. The last part begins where it ends with the row. */
static inline void rt_copy_row(uint8_t *restrict to, const uint8_t *from, int64_t count) {
    enum { SHORT = 64, PART = 8, HALF = 4 };
    if (count > SHORT) {
        memcpy(to, from, (size_t)count);
    } else if (count >= PART) {
        for (int64_t i = 0; i < count; i += PART) {
            const int64_t at = i + PART <= count ? i : count - PART;
            memcpy(to + at, from + at, PART);
        }
    } else if (count >= HALF) {
        memcpy(to, from, HALF);
        memcpy(to + count - HALF, from + count - HALF, HALF);
    } else {
        for (int64_t i = 0; i < count; i++) to[i] = from[i];
    }
}

/* What is left and right of a row is an element or two. */
static inline void rt_fill_side(uint8_t *to, uint8_t value, int64_t count) {
    enum { SHORT = 4 };
    if (count > SHORT) {
        memset(to, value, (size_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++) to[i] = value;
}

#if defined(__SSE2__)
/* Every second byte, eight at a time; the last eight end with the last one, so that nothing after it is read. */
static inline void rt_copy_halves(uint8_t *restrict to, const uint8_t *from, int64_t count) {
    enum { TOGETHER = 8 };
    const __m128i low = _mm_set1_epi16(0xff);
    int64_t i = 0;
    for (; i + TOGETHER < count; i += TOGETHER) {
        const __m128i x = _mm_and_si128(_mm_loadu_si128((const __m128i *)(const void *)(from + 2 * i)), low);
        _mm_storel_epi64((__m128i *)(void *)(to + i), _mm_packus_epi16(x, x));
    }
    if (count > TOGETHER) {
        const uint8_t *last = from + 2 * (count - TOGETHER) - 1;
        const __m128i x = _mm_srli_epi16(_mm_loadu_si128((const __m128i *)(const void *)last), 8);
        _mm_storel_epi64((__m128i *)(void *)(to + count - TOGETHER), _mm_packus_epi16(x, x));
        return;
    }
    for (; i < count; i++) to[i] = from[2 * i];
}
#else
static inline void rt_copy_halves(uint8_t *restrict to, const uint8_t *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = from[2 * i];
}
#endif

/* Every `stride`th byte. */
static inline void rt_copy_every(uint8_t *restrict to, const uint8_t *from, int64_t count, int64_t stride) {
    if (stride == 1) {
        rt_copy_row(to, from, count);
    } else if (stride == 2) {
        rt_copy_halves(to, from, count);
    } else {
        for (int64_t i = 0; i < count; i++) to[i] = from[stride * i];
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* spread.c: see spread.h.
 *
 * The innermost dimensions of what is broadcast are one of two things:
 *     repeated   a period of elements that lie together, several times:   a b c a b c a b c
 *     stretched  each element several times:                              a a a b b b c c c
 */
#include "runtime/kernels/portable/spread.h"
#include <string.h>

/* Elements that are written at once where they are stretched: whole registers of every machine. */
enum { WIDE = 16 };

/* ---- repeated ------------------------------------------------------------------------------------------ */

/* `count` elements that repeat the `period` ones at `from`, beginning with number `first`. */
static void repeat(char *to, const char *from, int64_t period, int64_t first, int64_t count, size_t size) {
    int64_t filled = period - first < count ? period - first : count;
    memcpy(to, from + (size_t)first * size, (size_t)filled * size);
    if (filled < count) {
        const int64_t more = first < count - filled ? first : count - filled;
        memcpy(to + (size_t)filled * size, from, (size_t)more * size);
        filled += more;
    }
    while (filled < count) { /* what is filled is a whole period */
        const int64_t whole = filled / period * period, left = count - filled,
                      some = whole < left ? whole : left;
        memcpy(to + (size_t)filled * size, to + (size_t)(filled - whole) * size, (size_t)some * size);
        filled += some;
    }
}

/* ---- stretched ----------------------------------------------------------------------------------------- */

/* Few times, as of points that have three coordinates: a number that the compiler knows. */
#define STRETCH_FEW(type, few)                                                                               \
    if (times == few) {                                                                                      \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const type value = from[i];                                                                      \
            for (int j = 0; j < few; j++) to[i * few + j] = value;                                           \
        }                                                                                                    \
        return;                                                                                              \
    }

/* `count` elements, each `times` times. */
typedef void stretch_function(void *to, const void *from, int64_t count, int64_t times);

#define STRETCH(name, type)                                                                                  \
    RT_CLONES static void name(void *to_, const void *from_, int64_t count, int64_t times) {                 \
        type *restrict to = to_;                                                                             \
        const type *restrict from = from_;                                                                   \
        const int64_t wide = times / WIDE * WIDE;                                                            \
        STRETCH_FEW(type, 2)                                                                                 \
        STRETCH_FEW(type, 3)                                                                                 \
        STRETCH_FEW(type, 4)                                                                                 \
        if (times == WIDE) {                                                                                 \
            for (int64_t i = 0; i < count; i++) {                                                            \
                const type value = from[i];                                                                  \
                RT_VECTOR for (int j = 0; j < WIDE; j++) to[i * WIDE + j] = value;                           \
            }                                                                                                \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t i = 0; i < count; i++) {                                                                \
            const type value = from[i];                                                                      \
            for (int64_t k = 0; k < wide; k += WIDE) {                                                       \
                RT_VECTOR for (int j = 0; j < WIDE; j++) to[k + j] = value;                                  \
            }                                                                                                \
            for (int64_t k = wide; k < times; k++) to[k] = value;                                            \
            to += times;                                                                                     \
        }                                                                                                    \
    }
STRETCH(stretch_8, uint8_t)
STRETCH(stretch_16, uint16_t)
STRETCH(stretch_32, uint32_t)
STRETCH(stretch_64, uint64_t)

void rt_stretch(void *to_, const void *from_, int64_t count, int64_t times, size_t size) {
    char *to = to_;
    const char *from = from_;
    if (size == 1) stretch_8(to, from, count, times);
    else if (size == 2) stretch_16(to, from, count, times);
    else if (size == 4) stretch_32(to, from, count, times);
    else if (size == 8) stretch_64(to, from, count, times);
    else {
        for (int64_t i = 0; i < count; i++)
            rt_fill(to + i * times * (int64_t)size, times, size, from + i * (int64_t)size);
    }
}

/* a / b, neither negative. 32 bits are enough for nearly all, and are divided in a third of the time. */
static inline int64_t quotient(int64_t a, int64_t b) {
    return ((a | b) >> 32) == 0 ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b;
}

/* ---- both ---------------------------------------------------------------------------------------------- */

/* The innermost elements of the result that one call of the above writes. */
typedef struct spread_inner {
    bool stretched;
    int64_t period; /* of elements that are repeated; times that one is stretched */
    int64_t length; /* elements */
    int32_t outer;  /* the dimensions before them */
} spread_inner;

static spread_inner inner_of(const rt_loop *loop) {
    const int32_t last = loop->rank - 1;
    spread_inner inner = {.period = loop->dims[last], .length = loop->dims[last], .outer = last};
    inner.stretched = loop->strides[1][last] == 0;
    const bool two = last > 0 && loop->strides[1][last - 1] == (inner.stretched ? 1 : 0);
    if (two) inner.length *= loop->dims[--inner.outer];
    return inner;
}

/* `count` elements of the innermost ones, from number `first` on. */
static void stretch_part(const spread_inner *inner, char *to, const char *from, int64_t first, int64_t count,
                         size_t size) {
    const int64_t before = quotient(first, inner->period), begun = first - before * inner->period;
    from += before * (int64_t)size;
    if (begun) {
        const int64_t left = inner->period - begun, some = left < count ? left : count;
        rt_stretch(to, from, 1, some, size);
        to += some * (int64_t)size;
        from += size;
        count -= some;
    }
    const int64_t whole = quotient(count, inner->period), rest = count - whole * inner->period;
    rt_stretch(to, from, whole, inner->period, size);
    if (rest)
        rt_stretch(to + whole * inner->period * (int64_t)size, from + whole * (int64_t)size, 1, rest, size);
}

int64_t rt_spread_period(const rt_loop *loop) {
    const spread_inner inner = inner_of(loop);
    return inner.outer == 0 && !inner.stretched && inner.length > inner.period ? inner.period : 0;
}

void rt_spread(const rt_loop *loop, size_t size, const void *from, void *to_, int64_t begin, int64_t count) {
    const spread_inner inner = inner_of(loop);
    char *to = to_;
    const char *at = from;
    int64_t index[RT_LOOP_RANK], within = begin;
    if (inner.outer > 0) {
        int64_t rest = quotient(begin, inner.length);
        within = begin - rest * inner.length;
        for (int32_t d = inner.outer; d-- > 0;) {
            const int64_t whole = quotient(rest, loop->dims[d]);
            index[d] = rest - whole * loop->dims[d];
            rest = whole;
            at += index[d] * loop->strides[1][d] * (int64_t)size;
        }
    }
    while (count > 0) {
        const int64_t some = inner.length - within < count ? inner.length - within : count;
        if (inner.stretched) stretch_part(&inner, to, at, within, some, size);
        else repeat(to, at, inner.period, within - quotient(within, inner.period) * inner.period, some, size);
        to += (size_t)some * size;
        count -= some;
        within = 0;
        for (int32_t d = inner.outer; d-- > 0;) {
            at += loop->strides[1][d] * (int64_t)size;
            if (++index[d] < loop->dims[d]) break;
            at -= index[d] * loop->strides[1][d] * (int64_t)size;
            index[d] = 0;
        }
    }
}

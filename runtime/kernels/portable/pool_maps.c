/* SPDX-License-Identifier: Apache-2.0 */
/* pool_maps.c: see pool_maps.h. A map is one long line, as it lies. Rows below each other are a row's length apart, so that no vector asks where
 * rows end when windows are joined down; across, vectors are shifted by some lanes, and masks say which of these see a number of their row.
 *
 * Where windows go on by two, a row of the map is one vector or two, whose even and odd lanes are what each window sees beside what its
 * neighbours do.
 */
#include "runtime/kernels/portable/pool_maps.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>

enum { LANES = 16, MOST = 1024, MOST_KERNEL = 7 };

#if RT_X86_KERNELS
static bool goes_by_two(const rt_pool_map *m) {
    return m->stride[0] == 2 && m->stride[1] == 2;
}

#endif

bool rt_pool_map_fits(const rt_pool_map *m) {
#if RT_X86_KERNELS
    const bool two = goes_by_two(m) && m->maximum;
    for (int d = 0; d < 2; d++) {
        if (m->input[d] < 1 || m->output[d] < 1 || m->kernel[d] < 1 || m->input[d] > MOST ||
            m->output[d] > MOST || m->kernel[d] > MOST_KERNEL || m->stride[d] != (two ? 2 : 1) ||
            m->before[d] < 0 || m->before[d] >= m->kernel[d])
            return false;
    }
    const int64_t width = m->input[1];
    if (two)
        return width >= 10 && width <= 2 * LANES && m->output[1] <= LANES &&
               m->kernel[1] - m->before[1] <= 3 && m->before[1] <= 1 && m->kernel[0] * m->kernel[1] > 1 &&
               __builtin_cpu_supports("avx512f");
    return width >= 4 && width <= LANES + LANES / 2 && m->output[1] == width && m->input[0] * width <= MOST &&
           m->output[0] * width <= MOST && m->kernel[0] * m->kernel[1] > 1 &&
           __builtin_cpu_supports("avx512f");
#else
    (void)m;
    return false;
#endif
}

int64_t rt_pool_map_counts(const rt_pool_map *m) {
    return (m->output[0] * m->output[1] + LANES - 1) / LANES * LANES;
}

bool rt_pool_map_prepare(rt_pool_map *m, base_arena *arena) {
    const int64_t width = m->input[1];
    m->period = 1;
    while (m->period * LANES % width) m->period++;
    m->masks = BASE_ARRAY(arena, uint16_t, (size_t)(m->period * m->kernel[1]));
    for (int64_t i = 0; m->masks && i < m->period; i++) {
        for (int64_t k = 0; k < m->kernel[1]; k++) {
            uint16_t mask = 0;
            for (int lane = 0; lane < LANES; lane++) {
                const int64_t column = (i * LANES + lane) % width - m->before[1] + k;
                if (column >= 0 && column < width) mask |= (uint16_t)(1u << lane);
            }
            m->masks[i * m->kernel[1] + k] = mask;
        }
    }
    return m->masks != NULL;
}

#if RT_X86_KERNELS
#define WIDE __attribute__((target("avx512f")))
#define INLINE WIDE static inline __attribute__((always_inline))

/* What windows of `high` rows see down from lanes `at` to at + 15 of the results. Where one of the lines is none that a result before has seen, lanes
 * of *none become set where it is no number. Of equal numbers, two zeros, the first is kept. */
INLINE __m512 down(bool maximum, const rt_pool_map *m, int64_t high, int64_t padding, const float *x,
                   int64_t at, __mmask16 *none) {
    const int64_t width = m->input[1], count = m->input[0] * width;
    const __m512 neutral = _mm512_set1_ps(maximum ? -INFINITY : 0);
    __m512 best = neutral;
    for (int64_t k = 0; k < high; k++) {
        const int64_t first = at + (k - padding) * width;
        /* An address outside of the map does no harm where no lane is read, but is no pointer. */
        const float *from = (const float *)(uintptr_t)((uintptr_t)x + (uintptr_t)first * sizeof *x);
        const __m512 value =
            first >= 0 && first + LANES <= count
                ? _mm512_loadu_ps(from)
                : _mm512_mask_loadu_ps(
                      neutral, (__mmask16)(rt_first_lanes_16(count - first) & ~rt_first_lanes_16(-first)),
                      from);
        if (maximum && (k == high - 1 || at < width))
            *none = _mm512_kor(*none, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q));
        best = !maximum ? _mm512_add_ps(best, value) : k == 0 ? value : _mm512_max_ps(value, best);
    }
    return best;
}

INLINE bool map_of(bool maximum, const rt_pool_map *m, int64_t high, int64_t wide, int64_t above,
                   int64_t before, const float *x, float *y) {
    const int64_t count = m->output[0] * m->input[1];
    const __m512 neutral = _mm512_set1_ps(maximum ? -INFINITY : 0);
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __mmask16 none = 0;
    __m512 last = neutral, here = down(maximum, m, high, above, x, 0, &none);
    int64_t vector = 0;
    for (int64_t i = 0; i < count; i += LANES) {
        const uint16_t *masks = m->masks + vector * wide;
        const __m512 next = i + LANES < count ? down(maximum, m, high, above, x, i + LANES, &none) : neutral;
        __m512 best = neutral;
        for (int64_t k = 0; k < wide; k++) {
            const int64_t from = k - before;
            const __m512i places = _mm512_add_epi32(lanes, _mm512_set1_epi32((int)(from & (LANES - 1))));
            const __m512 value = from == 0  ? here
                                 : from < 0 ? _mm512_permutex2var_ps(last, places, here)
                                            : _mm512_permutex2var_ps(here, places, next);
            best = k == 0    ? _mm512_mask_mov_ps(neutral, masks[0], value)
                   : maximum ? _mm512_mask_max_ps(best, masks[k], value, best)
                             : _mm512_mask_add_ps(best, masks[k], best, value);
        }
        if (!maximum && m->counts) best = _mm512_div_ps(best, _mm512_loadu_ps(m->counts + i));
        if (i + LANES <= count) _mm512_storeu_ps(y + i, best);
        else _mm512_mask_storeu_ps(y + i, rt_first_lanes_16(count - i), best);
        last = here;
        here = next;
        vector = vector + 1 < m->period ? vector + 1 : 0;
    }
    return none == 0;
}

INLINE bool usual_map(bool maximum, const rt_pool_map *m, const float *x, float *y) {
    const int64_t high = m->kernel[0], wide = m->kernel[1], above = m->before[0], before = m->before[1];
    if (high == 3 && wide == 3 && above == 1 && before == 1) return map_of(maximum, m, 3, 3, 1, 1, x, y);
    if (high == 5 && wide == 5 && above == 2 && before == 2) return map_of(maximum, m, 5, 5, 2, 2, x, y);
    return map_of(maximum, m, high, wide, above, before, x, y);
}

/* A row of the map: lanes that are not there are lower than any number. */
typedef struct map_row {
    __m512 first, second;
} map_row;

/* Joins a row to what is there. Lanes of *none become set where a number is none. */
INLINE void join_row(map_row *best, bool both, const float *from, __mmask16 there, __mmask16 more,
                     __mmask16 *none) {
    const __m512 neutral = _mm512_set1_ps(-INFINITY);
    const map_row value = {_mm512_mask_loadu_ps(neutral, there, from),
                           both ? _mm512_mask_loadu_ps(neutral, more, from + LANES) : neutral};
    *none = _mm512_kor(*none, _mm512_cmp_ps_mask(value.first, value.second, _CMP_UNORD_Q));
    best->first = _mm512_max_ps(value.first, best->first);
    if (both) best->second = _mm512_max_ps(value.second, best->second);
}

/* Output row after output row of windows that go on by two. `both`: rows are longer than a vector. */
INLINE bool map_by_two(const rt_pool_map *m, bool both, int64_t high, int64_t wide, int64_t above,
                       int64_t before, const float *x, float *y) {
    const __m512 neutral = _mm512_set1_ps(-INFINITY);
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0),
                  odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    const int64_t width = m->input[1], outputs = m->output[1];
    const __mmask16 there = rt_first_lanes_16(width), more = rt_first_lanes_16(width - LANES),
                    wanted = rt_first_lanes_16(outputs);
    __mmask16 none = 0;
    for (int64_t row = 0; row < m->output[0]; row++, y += outputs) {
        const int64_t top = 2 * row - above, first = top < 0 ? 0 : top,
                      end = top + high < m->input[0] ? top + high : m->input[0];
        const float *lines = x + first * width;
        map_row best = {neutral, neutral};
        if (end - first == high) { /* a number that is known when this is compiled */
            _Pragma("GCC unroll 3") for (int64_t k = 0; k < high; k++, lines += width)
                join_row(&best, both, lines, there, more, &none);
        } else {
            for (int64_t line = first; line < end; line++, lines += width)
                join_row(&best, both, lines, there, more, &none);
        }
        const __m512 evens = _mm512_permutex2var_ps(best.first, even, best.second),
                     odds = _mm512_permutex2var_ps(best.first, odd, best.second);
        const __m512i from_odd = _mm512_castps_si512(odds), from_even = _mm512_castps_si512(evens),
                      lowest = _mm512_castps_si512(neutral);
        __m512 result = neutral;
        for (int64_t k = 0; k < wide; k++) {
            const int64_t from = k - before; /* -1 to 2 */
            const __m512 value = from < 0    ? _mm512_castsi512_ps(_mm512_alignr_epi32(from_odd, lowest, 15))
                                 : from == 0 ? evens
                                 : from == 1 ? odds
                                             : _mm512_castsi512_ps(_mm512_alignr_epi32(lowest, from_even, 1));
            result = k == 0 ? value : _mm512_max_ps(value, result);
        }
        _mm512_mask_storeu_ps(y, wanted, result);
    }
    return none == 0;
}

#define BY_TWO(SIZE, PADDING)                                                                                \
    if (high == SIZE && wide == SIZE && above == PADDING && before == PADDING)                               \
        return both ? map_by_two(m, true, SIZE, SIZE, PADDING, PADDING, x, y)                                \
                    : map_by_two(m, false, SIZE, SIZE, PADDING, PADDING, x, y);
WIDE static bool usual_by_two(const rt_pool_map *m, const float *x, float *y) {
    const int64_t high = m->kernel[0], wide = m->kernel[1], above = m->before[0], before = m->before[1];
    const bool both = m->input[1] > LANES;
    BY_TWO(2, 0)
    BY_TWO(3, 1)
    BY_TWO(3, 0)
    return map_by_two(m, both, high, wide, above, before, x, y);
}

WIDE bool rt_pool_map_run(const rt_pool_map *m, const float *x, float *y) {
    if (!m->maximum) return usual_map(false, m, x, y);
    return goes_by_two(m) ? usual_by_two(m, x, y) : usual_map(true, m, x, y);
}
#else
bool rt_pool_map_run(const rt_pool_map *m, const float *x, float *y) {
    (void)m;
    (void)x;
    (void)y;
    return false;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* pair_windows.c: see pair_windows.h. A line of 32 positions is a register; lanes that see padding are zero, and are not read. */
#include "runtime/kernels/portable/pair_windows.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/pair_tiles.h"
#if RT_X86_KERNELS
#include <immintrin.h>

#define WORDS __attribute__((target("avx512f,avx512bw,avx512vl,bmi2")))
#define WORDS_INLINE WORDS static inline __attribute__((always_inline))

/* Lanes [low, high) of 32. */
static uint32_t lanes_of(int64_t low, int64_t high) {
    return low >= high ? 0 : (uint32_t)((UINT64_C(1) << high) - (UINT64_C(1) << low));
}

static bool has_words(void) {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("bmi2");
}

bool rt_pair_windows_begin(const rt_windows *windows, int64_t position, int64_t count,
                           rt_pair_windows *block) {
    const int64_t width = windows->output[2], *kernel = windows->kernel;
    block->taps = kernel[0] * kernel[1] * kernel[2];
    block->rows = (position + count - 1) / width - position / width + 1;
    block->stride = windows->stride[2];
    block->count = count;
    block->channel_size = windows->input[0] * windows->input[1] * windows->input[2];
    /* A block begins and ends amid rows at worst. */
    const int64_t most = (RT_WINDOW_POSITIONS - 2) / width + 2;
    if (!has_words() || block->stride > 2 || block->taps > RT_WINDOW_PIECES / most) return false;
    for (int64_t tap = 0; tap < block->taps; tap++) {
        const int64_t at[3] = {tap / kernel[2] / kernel[1], tap / kernel[2] % kernel[1], tap % kernel[2]};
        const rt_part inside = windows->inside[2][at[2]];
        for (int64_t row = 0, lane = 0; row < block->rows; row++) {
            rt_window_piece *piece = &block->pieces[tap * block->rows + row];
            const int64_t line = position / width + row, first = row == 0 ? position % width : 0;
            const int64_t length = width - first < count - lane ? width - first : count - lane;
            const int64_t z = line / windows->output[1] * windows->stride[0] - windows->before[0] +
                              at[0] * windows->dilation[0],
                          y = line % windows->output[1] * windows->stride[1] - windows->before[1] +
                              at[1] * windows->dilation[1];
            const int64_t low = inside.low < first ? first : inside.low,
                          high = inside.high > first + length ? first + length : inside.high;
            const bool seen = z >= 0 && z < windows->input[0] && y >= 0 && y < windows->input[1];
            *piece = (rt_window_piece){.lanes = seen ? lanes_of(low - first + lane, high - first + lane) : 0};
            piece->from = (z * windows->input[1] + y) * windows->input[2] + (first - lane) * block->stride -
                          windows->before[2] + at[2] * windows->dilation[2];
            lane += length;
        }
    }
    return true;
}

/* What the lanes of a piece see; the others are zero. The address of lane 0 may lie before the tensor: it is not read then. */
WORDS_INLINE __m512i load_piece(const uint16_t *channel, const rt_window_piece *piece, bool twice) {
    const uintptr_t from = (uintptr_t)channel + (uintptr_t)piece->from * sizeof *channel;
    if (!twice) return _mm512_maskz_loadu_epi16(piece->lanes, (const void *)from);
    /* Every other element: its lane's, of 64, and nothing after the last one. */
    const __m512i even = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30,
                                          28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const uint64_t all = _pdep_u64(piece->lanes, UINT64_C(0x5555555555555555));
    return _mm512_permutex2var_epi16(
        _mm512_maskz_loadu_epi16((__mmask32)all, (const void *)from), even,
        _mm512_maskz_loadu_epi16((__mmask32)(all >> 32), (const void *)(from + 32 * sizeof *channel)));
}

WORDS_INLINE __m512i load_line(const rt_pair_windows *block, const uint16_t *channel, int64_t tap,
                               bool twice) {
    const rt_window_piece *pieces = block->pieces + tap * block->rows;
    __m512i line = load_piece(channel, pieces, twice);
    for (int64_t row = 1; row < block->rows; row++)
        line = _mm512_or_si512(line, load_piece(channel, pieces + row, twice));
    return line;
}

WORDS_INLINE void make_panels(const rt_pair_windows *block, const uint16_t *x, int64_t from, int64_t depth,
                              bool twice, uint16_t *panels) {
    const __m512i first = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39,
                                           7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0),
                  others = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    const int64_t step = rt_pairs_of(depth) * RT_PAIR_ELEMENTS;
    const uint16_t *channel = x + from / block->taps * block->channel_size;
    int64_t tap = from % block->taps;
    for (int64_t k = 0; k < depth; k += 2, panels += RT_PAIR_ELEMENTS) {
        __m512i lines[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        for (int i = 0; i < 2 && k + i < depth; i++) {
            lines[i] = load_line(block, channel, tap, twice);
            if (++tap == block->taps) {
                tap = 0;
                channel += block->channel_size;
            }
        }
        _mm512_storeu_si512(panels, _mm512_permutex2var_epi16(lines[0], first, lines[1]));
        _mm512_storeu_si512(panels + step, _mm512_permutex2var_epi16(lines[0], others, lines[1]));
    }
}

WORDS static void panels_once(const rt_pair_windows *block, const uint16_t *x, int64_t from, int64_t depth,
                              uint16_t *panels) {
    make_panels(block, x, from, depth, false, panels);
}

WORDS static void panels_twice(const rt_pair_windows *block, const uint16_t *x, int64_t from, int64_t depth,
                               uint16_t *panels) {
    make_panels(block, x, from, depth, true, panels);
}

void rt_pair_windows_panels(const rt_pair_windows *block, const uint16_t *x, int64_t from, int64_t depth,
                            uint16_t *panels) {
    (block->stride == 2 ? panels_twice : panels_once)(block, x, from, depth, panels);
}

#else

bool rt_pair_windows_begin(const rt_windows *windows, int64_t position, int64_t count,
                           rt_pair_windows *block) {
    (void)windows, (void)position, (void)count, (void)block;
    return false;
}

void rt_pair_windows_panels(const rt_pair_windows *block, const uint16_t *x, int64_t from, int64_t depth,
                            uint16_t *panels) {
    (void)block, (void)x, (void)from, (void)depth, (void)panels;
}

#endif

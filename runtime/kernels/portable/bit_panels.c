/* SPDX-License-Identifier: Apache-2.0 */
/* bit_panels.c: implements bit_panels.h.
 *
 * A span is some elements of a row that share a scale: those that meet one block, or a part of them (digit_tiles.h). A row that is split holds span after
 * span. A span is
 *   - for each digit, the highest first, a byte of each element, in the order of the codes that they meet;
 *   - the scale;
 *   - the sum of the numbers, times -2^(bits - 1), or times -1 where columns have zero points of their own.
 *
 * Two panels are read at once, which lie far apart: memory is read from front to back in two places, where a processor reads ahead by itself;
 * asking ahead takes more time than it saves. As many rows meet them as have their sums in registers; the next ones find both in a cache.
 */
#include "runtime/kernels/portable/bit_panels.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/digit_factors.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>

enum {
    PANEL = RT_BIT_PANEL,
    WORD = 4,                /* bytes of a column in a register */
    REGISTER = WORD * PANEL, /* bytes: of codes, of scales, and of zero points: */
    ZEROS_TOGETHER = REGISTER / PANEL,
    MOST_SPAN = 64,    /* of weights; half with three digits, for sums to fit */
    MOST_TOGETHER = 4, /* rows */
    MOST_DIGITS = 3,
    WIDE = 2,             /* panels at once */
    FEWEST_WEIGHTS = 4096 /* fewer are not worth constants of their own */
};

static int64_t span_of(const rt_bit_panels *of) {
    const int64_t most = of->digits == MOST_DIGITS ? MOST_SPAN / 2 : MOST_SPAN;
    return of->block < most ? of->block : most;
}

static int64_t record_bytes(const rt_bit_panels *of) {
    return of->digits * span_of(of) + (int64_t)(sizeof(float) + sizeof(int32_t));
}

bool rt_bit_panels_row_bytes(const rt_bit_panels *of, size_t *bytes) {
    return base_size_multiply((size_t)of->blocks, (size_t)(of->block / span_of(of)), bytes) &&
           base_size_multiply(*bytes, (size_t)record_bytes(of), bytes);
}

/* ---- panels ---------------------------------------------------------------------------------------------- */

/* Bytes of codes of a block. */
static size_t block_bytes(const rt_bit_panels *of) {
    return (size_t)of->block * (size_t)of->bits / 8 * PANEL;
}

/* As many bytes as blocks may have; rt_bit_panels_bytes tells whether all of them are a size. */
static size_t panel_bytes(const rt_bit_panels *of) {
    const size_t blocks = (size_t)of->blocks,
                 zeros = of->zeros ? (blocks + ZEROS_TOGETHER - 1) / ZEROS_TOGETHER * REGISTER : 0;
    return blocks * (block_bytes(of) + REGISTER) + zeros;
}

bool rt_bit_panels_read(const op_call *call, uint32_t zeros, rt_bit_panels *panels) {
    *panels = (rt_bit_panels){.bits = (int)op_attribute_integer(&call->attributes, "bits", 4),
                              .depth = op_attribute_integer(&call->attributes, "K", 0),
                              .columns = op_attribute_integer(&call->attributes, "N", 0),
                              .block = op_attribute_integer(&call->attributes, "block_size", 32),
                              .zeros = op_input_present(call, zeros)};
    if ((panels->bits != 4 && panels->bits != 8) || panels->depth < 1 || panels->columns < 1 ||
        panels->block < 16)
        return false;
    panels->blocks = (panels->depth + panels->block - 1) / panels->block;
    return true;
}

bool rt_bit_panels_bytes(const rt_bit_panels *of, size_t *bytes) {
    size_t block;
    /* Scales and zero points of a block take less than two registers. */
    return base_size_multiply((size_t)of->block, (size_t)of->bits * PANEL, &block) &&
           base_size_add(block, 2 * REGISTER, &block) &&
           base_size_multiply((size_t)of->blocks, block, &block) && base_size_add(block, REGISTER, &block) &&
           base_size_multiply(panel_bytes(of), (size_t)rt_bit_panels_count(of), bytes);
}

/* Where a block of a panel has what. */
typedef struct block_places {
    size_t zeros, scales, codes;
} block_places;

static block_places places_of(const rt_bit_panels *of, int64_t panel, int64_t block) {
    const size_t begin = (size_t)panel * panel_bytes(of), each = block_bytes(of) + REGISTER,
                 group = (size_t)block / ZEROS_TOGETHER, within = (size_t)block % ZEROS_TOGETHER,
                 zeros = of->zeros ? REGISTER : 0;
    block_places places = {.scales = begin + (size_t)block * each + (group + 1) * zeros};
    places.zeros = begin + group * (ZEROS_TOGETHER * each + zeros) + within * PANEL;
    places.codes = places.scales + REGISTER;
    return places;
}

static int64_t columns_of(const rt_bit_panels *of, int64_t panel) {
    const int64_t rest = of->columns - panel * PANEL;
    return rest < PANEL ? rest : PANEL;
}

static float scale_at(const rt_bit_weights *weights, int64_t at) {
    float scale;
    if (weights->scale_type == OP_FLOAT) return ((const float *)weights->scales)[at];
    rt_half_load(weights->scale_type, &scale, (const uint16_t *)weights->scales + at, 1);
    return scale;
}

/* Bytes of the zero points of a column. */
static int64_t zero_bytes(const rt_bit_panels *of) {
    const int64_t each = 8 / of->bits;
    return (of->blocks + each - 1) / each;
}

static int zero_at(const rt_bit_panels *of, const rt_bit_weights *weights, int64_t column, int64_t block) {
    const int64_t each = 8 / of->bits;
    const int byte = weights->zeros[column * zero_bytes(of) + block / each];
    return byte >> (int)(block % each) * of->bits & ((1 << of->bits) - 1);
}

static void pack_block(const rt_bit_panels *of, const rt_bit_weights *weights, int64_t panel, int64_t block,
                       char *panels) {
    const block_places places = places_of(of, panel, block);
    const int64_t count = columns_of(of, panel), bytes = of->block * of->bits / 8;
    memset(panels + places.scales, 0, REGISTER + block_bytes(of));
    if (of->zeros) memset(panels + places.zeros, 0, PANEL);
    for (int64_t c = 0; c < count; c++) {
        const int64_t column = panel * PANEL + c, at = column * of->blocks + block;
        const uint8_t *codes = weights->codes + at * bytes;
        char *to = panels + places.codes + c * WORD;
        const float scale = scale_at(weights, at);
        memcpy(panels + places.scales + (size_t)c * sizeof scale, &scale, sizeof scale);
        for (int64_t i = 0; i < bytes; i += WORD, to += REGISTER) memcpy(to, codes + i, WORD);
        if (!of->zeros) continue;
        panels[places.zeros + (size_t)c] = (char)zero_at(of, weights, column, block);
    }
}

void rt_bit_panels_pack(const rt_bit_panels *of, const rt_bit_weights *weights, void *panels) {
    for (int64_t panel = 0; panel < rt_bit_panels_count(of); panel++) {
        if (of->zeros) /* those of blocks after the last one, too */
            memset((char *)panels + places_of(of, panel, of->blocks - 1).zeros / REGISTER * REGISTER, 0,
                   REGISTER);
        for (int64_t block = 0; block < of->blocks; block++) pack_block(of, weights, panel, block, panels);
    }
}

void rt_bit_panels_codes(const rt_bit_panels *of, const void *panels, uint8_t *codes) {
    const int64_t bytes = of->block * of->bits / 8;
    for (int64_t column = 0; column < of->columns; column++) {
        for (int64_t block = 0; block < of->blocks; block++, codes += bytes) {
            const uint8_t *from =
                (const uint8_t *)panels + places_of(of, column / PANEL, block).codes + column % PANEL * WORD;
            for (int64_t i = 0; i < bytes; i += WORD, from += REGISTER) memcpy(codes + i, from, WORD);
        }
    }
}

void rt_bit_panels_scales(const rt_bit_panels *of, const void *panels, op_dtype type, void *scales) {
    for (int64_t column = 0; column < of->columns; column++) {
        for (int64_t block = 0; block < of->blocks; block++) {
            const int64_t at = column * of->blocks + block;
            const float *from = (const float *)(const void *)((const char *)panels +
                                                              places_of(of, column / PANEL, block).scales);
            if (type == OP_FLOAT) ((float *)scales)[at] = from[column % PANEL];
            else rt_half_store(type, (uint16_t *)scales + at, from + column % PANEL, 1);
        }
    }
}

void rt_bit_panels_zeros(const rt_bit_panels *of, const void *panels, uint8_t *zeros) {
    const int64_t each = 8 / of->bits;
    memset(zeros, 0, (size_t)(of->columns * zero_bytes(of)));
    for (int64_t column = 0; column < of->columns; column++) {
        for (int64_t block = 0; block < of->blocks; block++) {
            const int code =
                ((const uint8_t *)
                     panels)[places_of(of, column / PANEL, block).zeros + (size_t)(column % PANEL)];
            zeros[column * zero_bytes(of) + block / each] |=
                (uint8_t)(code << (int)(block % each) * of->bits);
        }
    }
}

bool rt_bit_panels_wanted(const rt_bit_panels *of) {
    const int64_t wide = rt_bit_panels_count(of) * PANEL;
    return 4 * (wide - of->columns) <= of->columns && of->columns >= FEWEST_WEIGHTS / of->depth;
}

/* ---- columns --------------------------------------------------------------------------------------------- */

/* What the codes of a block stand for; words of four bytes lie `step` bytes apart. */
static void decode(const uint8_t *codes, int64_t step, int bits, float zero, float scale, int64_t count,
                   float *to) {
    const int64_t each = WORD * 8 / bits;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = i % each;
        const uint8_t byte = codes[i / each * step + at * bits / 8];
        to[i] = scale * ((float)(bits == 8 ? byte : at % 2 ? byte >> 4 : byte & 15) - zero);
    }
}

static int64_t count_of(const rt_bit_panels *of, int64_t block) {
    const int64_t rest = of->depth - block * of->block;
    return rest < of->block ? rest : of->block;
}

static float middle_of(const rt_bit_panels *of) {
    return (float)(1 << (of->bits - 1));
}

void rt_bit_panels_column(const rt_bit_panels *of, const void *panels, int64_t column, float *to) {
    const char *base = panels;
    const int64_t c = column % PANEL;
    for (int64_t block = 0; block < of->blocks; block++) {
        const block_places places = places_of(of, column / PANEL, block);
        float scale;
        memcpy(&scale, base + places.scales + (size_t)c * sizeof scale, sizeof scale);
        const float zero = of->zeros ? (float)(uint8_t)base[places.zeros + (size_t)c] : middle_of(of);
        decode((const uint8_t *)base + places.codes + c * WORD, REGISTER, of->bits, zero, scale,
               count_of(of, block), to + block * of->block);
    }
}

void rt_bit_weights_column(const rt_bit_panels *of, const rt_bit_weights *weights, int64_t column,
                           float *to) {
    const int64_t bytes = of->block * of->bits / 8;
    for (int64_t block = 0; block < of->blocks; block++) {
        const int64_t at = column * of->blocks + block;
        const float zero = of->zeros ? (float)zero_at(of, weights, column, block) : middle_of(of);
        decode(weights->codes + at * bytes, WORD, of->bits, zero, scale_at(weights, at), count_of(of, block),
               to + block * of->block);
    }
}

/* ---- floats ---------------------------------------------------------------------------------------------- */

/* Codes of a panel, of `count` of the depth, and zero points: what they give is added to the totals. */
static inline __attribute__((always_inline)) void add_codes(const float *x, int64_t count, const char *codes,
                                                            int bits, const float *scales, const float *zeros,
                                                            float *totals) {
    const int64_t each = 32 / bits;
    float sums[PANEL] = {0};
    for (int64_t k = 0; k < count; k += each, codes += REGISTER) {
        uint32_t words[PANEL];
        memcpy(words, codes, sizeof words);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        for (int c = 0; c < PANEL; c++) words[c] = __builtin_bswap32(words[c]);
#endif
        for (int64_t i = 0; i < each && k + i < count; i++) {
            const int shift = (int)i * bits;
            for (int c = 0; c < PANEL; c++)
                sums[c] += x[k + i] * ((float)(int32_t)(words[c] >> shift & ((1U << bits) - 1)) - zeros[c]);
        }
    }
    for (int c = 0; c < PANEL; c++) totals[c] += scales[c] * sums[c];
}

RT_CLONES static void add_block(const rt_bit_panels *of, const float *x, const char *panels, int64_t panel,
                                int64_t block, float *totals) {
    const block_places places = places_of(of, panel, block);
    const int64_t first = block * of->block, rest = of->depth - first,
                  count = rest < of->block ? rest : of->block;
    float scales[PANEL], zeros[PANEL];
    memcpy(scales, panels + places.scales, sizeof scales);
    for (int c = 0; c < PANEL; c++)
        zeros[c] = of->zeros ? (float)((const uint8_t *)panels)[places.zeros + (size_t)c]
                             : (float)(1 << (of->bits - 1));
    if (of->bits == 4) add_codes(x + first, count, panels + places.codes, 4, scales, zeros, totals);
    else add_codes(x + first, count, panels + places.codes, 8, scales, zeros, totals);
}

void rt_bit_panels_floats(const rt_bit_panels *of, const float *x, const void *panels, const float *bias,
                          int64_t begin, int64_t end, float *y) {
    for (int64_t panel = begin; panel < end; panel++) {
        float sums[PANEL] = {0};
        for (int64_t block = 0; block < of->blocks; block++) add_block(of, x, panels, panel, block, sums);
        for (int64_t c = 0; c < columns_of(of, panel); c++)
            y[panel * PANEL + c] = sums[c] + (bias ? bias[panel * PANEL + c] : 0);
    }
}

#if RT_X86_KERNELS
#include <immintrin.h>

bool rt_bit_panels_here(void) {
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl");
}

#define WITH_BYTES __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define INLINE static inline __attribute__((always_inline))

/* ---- rows ------------------------------------------------------------------------------------------------ */

/* Elements from `first` on, as far as there are any. */
WITH_BYTES INLINE __m512 elements(const float *x, int64_t first, int64_t depth) {
    return _mm512_maskz_loadu_ps(rt_first_lanes_16(depth - first), first < depth ? x + first : x);
}

WITH_BYTES INLINE bool split(const rt_bit_panels *of, const float *x, int bits, int digits, char *to) {
    const __m512i order = _mm512_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    const int64_t span = span_of(of), whole = of->blocks * of->block;
    const float most = rt_digit_largest(digits);
    const int32_t centre = of->zeros ? 1 : 1 << (bits - 1);
    for (int64_t first = 0; first < whole; first += span, to += record_bytes(of)) {
        __m512i largest = _mm512_setzero_si512(), sum = _mm512_setzero_si512();
        for (int64_t k = 0; k < span; k += PANEL)
            largest = _mm512_max_epu32(
                largest, _mm512_and_si512(_mm512_set1_epi32(INT32_MAX),
                                          _mm512_castps_si512(elements(x, first + k, of->depth))));
        const int32_t size = (int32_t)_mm512_reduce_max_epu32(largest);
        float scale;
        if (size >= RT_DIGIT_NOT_FINITE) return false;
        const __m512 factor = _mm512_set1_ps(rt_digit_factor(digits, size, most, &scale));
        for (int64_t k = 0; k < span; k += PANEL) {
            __m512i numbers = _mm512_cvtps_epi32(_mm512_mul_ps(elements(x, first + k, of->depth), factor));
            if (bits == 4) numbers = _mm512_permutexvar_epi32(order, numbers);
            sum = _mm512_add_epi32(sum, numbers);
            _Pragma("GCC unroll 3") for (int digit = 0; digit < digits; digit++) {
                /* Digits have signs: those after them carry into them. */
                const int shift = 8 * (digits - 1 - digit);
                const __m512i carried = _mm512_set1_epi32(0x8080 >> (16 - shift));
                _mm_storeu_si128((__m128i *)(void *)(to + digit * span + k),
                                 _mm512_cvtepi32_epi8(_mm512_srl_epi32(_mm512_add_epi32(numbers, carried),
                                                                       _mm_cvtsi32_si128(shift))));
            }
        }
        const int32_t beside = -centre * _mm512_reduce_add_epi32(sum);
        memcpy(to + digits * span, &scale, sizeof scale);
        memcpy(to + digits * span + sizeof scale, &beside, sizeof beside);
    }
    return true;
}

/* ---- columns --------------------------------------------------------------------------------------------- */

WITH_BYTES INLINE __m512i in_all_lanes(const char *at) {
    int32_t word;
    memcpy(&word, at, sizeof word);
    return _mm512_set1_epi32(word);
}

/* What is read of panels as they go on. */
typedef struct panel_place {
    const char *next, *zeros;
} panel_place;

/* Adds what two registers of codes of each panel give; `x` are the numbers of rows that they meet, digit after digit `span` bytes later. Where there are few
 * sums, each is two, so that none waits for the one before. */
WITH_BYTES INLINE void add_registers(const char *const x[MOST_TOGETHER], int64_t span, int count, int bits,
                                     int digits, int ways, panel_place panels[WIDE],
                                     __m512i sums[MOST_TOGETHER][MOST_DIGITS][WIDE][2]) {
    const __m512i half = _mm512_set1_epi8(15);
    const int parts = 8 / bits;
    _Pragma("GCC unroll 2") for (int i = 0; i < 2; i++) {
        __m512i codes[WIDE][2];
        _Pragma("GCC unroll 2") for (int v = 0; v < WIDE; v++) {
            const __m512i both = _mm512_loadu_si512(panels[v].next + i * REGISTER);
            codes[v][0] = bits == 8 ? both : _mm512_and_si512(both, half);
            codes[v][1] = bits == 8 ? both : _mm512_and_si512(_mm512_srli_epi16(both, 4), half);
        }
        _Pragma("GCC unroll 2") for (int part = 0; part < parts; part++) {
            const int way = (bits == 8 ? i : part) % ways;
            _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) {
                _Pragma("GCC unroll 3") for (int digit = 0; digit < digits; digit++) {
                    const __m512i own = in_all_lanes(x[r] + digit * span + (i * parts + part) * WORD);
                    _Pragma("GCC unroll 2") for (int v = 0; v < WIDE; v++) sums[r][digit][v][way] =
                        _mm512_dpbusd_epi32(sums[r][digit][v][way], codes[v][part], own);
                }
            }
        }
    }
    _Pragma("GCC unroll 2") for (int v = 0; v < WIDE; v++) panels[v].next += 2 * REGISTER;
}

/* Adds the products of a span of each row, which `x` begins with, to the totals. */
WITH_BYTES INLINE void add_span(const char *const x[MOST_TOGETHER], int64_t span, int count, int bits,
                                int digits, bool zeros, panel_place panels[WIDE], const __m512 scales[WIDE],
                                const __m512i zero_points[WIDE], __m512 totals[MOST_TOGETHER][WIDE]) {
    const int ways = count * digits == 1 ? 2 : 1;
    __m512i sums[MOST_TOGETHER][MOST_DIGITS][WIDE][2];
    const char *own[MOST_TOGETHER];
    _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) {
        own[r] = x[r];
        _Pragma("GCC unroll 3") for (int digit = 0; digit < digits; digit++)
            _Pragma("GCC unroll 2") for (int v = 0; v < WIDE; v++)
                _Pragma("GCC unroll 2") for (int way = 0; way < ways; way++) sums[r][digit][v][way] =
                    _mm512_setzero_si512();
    }
    const int64_t each = 2 * WORD * 8 / bits;
    for (int64_t k = 0; k < span; k += each) {
        add_registers(own, span, count, bits, digits, ways, panels, sums);
        _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) own[r] += each;
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) {
        const char *after = x[r] + digits * span;
        float scale_of_x;
        memcpy(&scale_of_x, after, sizeof scale_of_x);
        const __m512i beside = in_all_lanes(after + sizeof scale_of_x);
        _Pragma("GCC unroll 2") for (int v = 0; v < WIDE; v++) {
            __m512i all = zeros ? _mm512_mullo_epi32(beside, zero_points[v]) : beside, sum;
            _Pragma("GCC unroll 3") for (int digit = 0; digit < digits; digit++) {
                const __m512i some = ways == 1 ? sums[r][digit][v][0]
                                               : _mm512_add_epi32(sums[r][digit][v][0], sums[r][digit][v][1]);
                sum = digit ? _mm512_add_epi32(_mm512_slli_epi32(sum, 8), some) : some;
            }
            all = _mm512_add_epi32(all, sum);
            totals[r][v] = _mm512_fmadd_ps(
                _mm512_cvtepi32_ps(all), _mm512_mul_ps(scales[v], _mm512_set1_ps(scale_of_x)), totals[r][v]);
        }
    }
}

/* `count` rows times WIDE panels, whose first columns are `column`. */
WITH_BYTES INLINE void products(const rt_bit_panels *of, const rt_bit_row *rows, int count, int bits,
                                int digits, bool zeros, const char *const first[WIDE],
                                const int64_t column[WIDE], const float *bias) {
    const int64_t span = span_of(of), spans = of->block / span, record = record_bytes(of);
    const char *x[MOST_TOGETHER];
    panel_place panels[WIDE];
    __m512 totals[MOST_TOGETHER][WIDE];
    _Pragma("GCC unroll 2") for (int v = 0; v < WIDE; v++) panels[v] = (panel_place){.next = first[v]};
    _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) {
        x[r] = rows[r].x;
        _Pragma("GCC unroll 2") for (int v = 0; v < WIDE; v++) totals[r][v] = _mm512_setzero_ps();
    }
    for (int64_t block = 0; block < of->blocks; block++) {
        __m512 scales[WIDE];
        __m512i zero_points[WIDE];
        _Pragma("GCC unroll 2") for (int v = 0; v < WIDE; v++) {
            panel_place *p = &panels[v];
            if (zeros && block % ZEROS_TOGETHER == 0) {
                p->zeros = p->next;
                p->next += REGISTER;
            }
            zero_points[v] = _mm512_setzero_si512();
            if (zeros) {
                zero_points[v] =
                    _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p->zeros));
                p->zeros += PANEL;
            }
            scales[v] = _mm512_loadu_ps(p->next);
            p->next += REGISTER;
        }
        for (int64_t s = 0; s < spans; s++) {
            add_span(x, span, count, bits, digits, zeros, panels, scales, zero_points, totals);
            _Pragma("GCC unroll 4") for (int r = 0; r < count; r++) x[r] += record;
        }
    }
    _Pragma("GCC unroll 2") for (int v = 0; v < WIDE; v++) {
        const __mmask16 there = rt_first_lanes_16(of->columns - column[v]);
        const __m512 more = bias ? _mm512_maskz_loadu_ps(there, bias + column[v]) : _mm512_setzero_ps();
        _Pragma("GCC unroll 4") for (int r = 0; r < count; r++)
            _mm512_mask_storeu_ps(rows[r].y + column[v], there, _mm512_add_ps(totals[r][v], more));
    }
}

typedef void (*rows_function)(const rt_bit_panels *of, const rt_bit_row *rows, const char *const first[WIDE],
                              const int64_t column[WIDE], const float *bias);

#define ROWS(bits, digits, count)                                                                            \
    WITH_BYTES static void rows_##bits##_##digits##_##count(const rt_bit_panels *of, const rt_bit_row *rows, \
                                                            const char *const first[WIDE],                   \
                                                            const int64_t column[WIDE], const float *bias) { \
        if (of->zeros) products(of, rows, count, bits, digits, true, first, column, bias);                   \
        else products(of, rows, count, bits, digits, false, first, column, bias);                            \
    }
#define SPLIT(bits, digits)                                                                                  \
    WITH_BYTES static bool split_##bits##_##digits(const rt_bit_panels *of, const float *x, char *to) {      \
        return split(of, x, bits, digits, to);                                                               \
    }
#define TWO(bits, digits) SPLIT(bits, digits) ROWS(bits, digits, 1) ROWS(bits, digits, 2)
#define FOUR(bits, digits) TWO(bits, digits) ROWS(bits, digits, 3) ROWS(bits, digits, 4)
FOUR(4, 1)
FOUR(4, 2)
TWO(4, 3)
FOUR(8, 1)
FOUR(8, 2)

typedef struct form_functions {
    bool (*split)(const rt_bit_panels *of, const float *x, char *to);
    int64_t together; /* rows whose sums registers hold */
    rows_function rows[MOST_TOGETHER];
} form_functions;

static const form_functions *functions_of(const rt_bit_panels *of) {
#define OF_TWO(form)                                                                                         \
    {                                                                                                        \
        split_##form, 2, {                                                                                   \
            rows_##form##_1, rows_##form##_2                                                                 \
        }                                                                                                    \
    }
#define OF_FOUR(form)                                                                                        \
    {                                                                                                        \
        split_##form, 4, {                                                                                   \
            rows_##form##_1, rows_##form##_2, rows_##form##_3, rows_##form##_4                               \
        }                                                                                                    \
    }
    static const form_functions four[] = {OF_FOUR(4_1), OF_FOUR(4_2), OF_TWO(4_3)},
                                eight[] = {OF_FOUR(8_1), OF_FOUR(8_2)};
    return (of->bits == 4 ? four : eight) + of->digits - 1;
}

bool rt_bit_panels_split(const rt_bit_panels *of, const float *x, void *to) {
    return rt_bit_panels_here() && functions_of(of)->split(of, x, to);
}

void rt_bit_panels_rows(const rt_bit_panels *of, const rt_bit_row *rows, int64_t count, const void *panels,
                        const float *bias, int64_t begin, int64_t end) {
    const form_functions *functions = functions_of(of);
    const size_t bytes = panel_bytes(of);
    const int64_t each = (end - begin + WIDE - 1) / WIDE;
    for (int64_t i = begin; i < begin + each; i++) {
        const char *first[WIDE];
        int64_t column[WIDE];
        for (int v = 0; v < WIDE; v++) { /* of an odd number of panels, one is made twice */
            const int64_t panel = i + v * each < end ? i + v * each : i;
            first[v] = (const char *)panels + (size_t)panel * bytes;
            column[v] = panel * PANEL;
        }
        for (int64_t row = 0, some; row < count; row += some) {
            some = count - row < functions->together ? count - row : functions->together;
            functions->rows[some - 1](of, rows + row, first, column, bias);
        }
    }
}
#else
bool rt_bit_panels_here(void) {
    return false;
}

bool rt_bit_panels_split(const rt_bit_panels *of, const float *x, void *to) {
    (void)of, (void)x, (void)to;
    return false;
}

void rt_bit_panels_rows(const rt_bit_panels *of, const rt_bit_row *rows, int64_t count, const void *panels,
                        const float *bias, int64_t begin, int64_t end) {
    (void)of, (void)rows, (void)count, (void)panels, (void)bias, (void)begin, (void)end;
}
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic_rows.c: implements `dynamic_rows.h`. Where the machine multiplies bytes, four at a time, and adds them, rows of W are put side by side
 * in registers as they are read: W is read as often as it is used, and no other form of it is kept.
 */
#include "runtime/kernels/portable/dynamic_rows.h"
#include "runtime/kernels/portable/integer_product.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/quad_lanes.h"
#include <string.h>

enum { COLUMNS = 64 /* at a time */ };

RT_CLONES static float quantize(const float *x, int64_t count, int16_t *codes) {
    float low = 0, high = 0;
    _Pragma("omp simd reduction(min : low) reduction(max : high)") for (int64_t i = 0; i < count; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    /* All zeros: any scale is right, and this one can be divided by. */
    const float scale = high == low ? 1 : (high - low) / 255;
    const float zero = rt_round_within(0 - low / scale, 0, 255);
    RT_VECTOR for (int64_t i = 0; i < count; i++) codes[i] =
        (int16_t)(rt_round_within(x[i] / scale, -zero, 255 - zero));
    return scale;
}

float rt_dynamic_quantize(const float *x, int64_t count, int16_t *codes) {
    return quantize(x, count, codes);
}

/* What a row's sums lack: they are `more` too small, and `base` times a column's sum too large. */
typedef struct correction {
    int32_t total; /* of the row's codes */
    uint32_t more, base;
    const int32_t *columns;
} correction;

/* `count` sums from column `first` on as reals. As they wrap around, sums may too. */
RT_CLONES static void finish(const rt_byte_weights *w, int64_t first, int64_t count, const int32_t *sums,
                             const correction *lack, float scale, float *y, bool add) {
    const float *scales = w->scales + (w->scales_each ? first : 0);
    const uint32_t total = (uint32_t)lack->total, base = lack->base;
    const int32_t *columns = lack->columns + first;
    uint32_t taken[COLUMNS];
    float values[COLUMNS];
    if (w->zeros_each) {
        for (int64_t j = 0; j < count; j++)
            taken[j] = (uint32_t)rt_byte_load(w->dtype, w->zeros, first + j) * total - lack->more;
    } else {
        const uint32_t same = (uint32_t)rt_byte_load(w->dtype, w->zeros, 0) * total - lack->more;
        RT_VECTOR for (int64_t j = 0; j < count; j++) taken[j] = same;
    }
    if (w->scales_each) {
        RT_VECTOR for (int64_t j = 0; j < count; j++) values[j] = scale * scales[j];
    } else {
        const float both = scale * *scales;
        RT_VECTOR for (int64_t j = 0; j < count; j++) values[j] = both;
    }
    RT_VECTOR for (int64_t j = 0; j < count; j++) {
        values[j] *= (float)(int32_t)((uint32_t)sums[j] - taken[j] - base * (uint32_t)columns[j]);
    }
    if (add) {
        RT_VECTOR for (int64_t j = 0; j < count; j++) y[j] += values[j];
    } else {
        memcpy(y, values, (size_t)count * sizeof *y);
    }
}

#if defined(__x86_64__) && defined(__GNUC__)

enum { ROWS = 4, DEPTH = 256, QUAD = 4 /* rows of W */ };
#define WITH_BYTES __attribute__((target("avx512f,avx512bw,avx512vnni")))

/* Rows of W from `at` on, `lines` of four, side by side: register i has the four bytes of columns 16 l + 4 i + (0 to 3), for each of its four
 * quarters l. Their bytes become signed. */
WITH_BYTES static inline __attribute__((always_inline)) void
four_lines(const uint8_t *at, int64_t row, int64_t lines, __mmask64 columns, bool flip, __m512i to[4]) {
    const __m512i change = _mm512_set1_epi8((char)0x80);
    __m512i line[QUAD];
    _Pragma("GCC unroll 4") for (int i = 0; i < QUAD; i++) {
        line[i] = i < lines ? _mm512_maskz_loadu_epi8(columns, at + i * row) : _mm512_setzero_si512();
        if (flip) line[i] = _mm512_xor_si512(line[i], change);
    }
    rt_quads_of_lines(line, to);
}

/* Codes of `rows` rows, `base` more than they are, so that they are bytes; zeros up to a whole four. */
WITH_BYTES static void copy_codes(const int16_t *codes, int64_t row, int64_t rows, int64_t count,
                                  int16_t base, uint8_t to[ROWS][DEPTH]) {
    const __m512i more = _mm512_set1_epi16(base);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < count; k += 32) {
            const __mmask32 some = (__mmask32)rt_first_lanes_64(count - k);
            const __m512i x = _mm512_maskz_loadu_epi16(some, codes + r * row + k);
            _mm256_storeu_si256((__m256i *)(void *)(to[r] + k),
                                _mm512_cvtepi16_epi8(_mm512_maskz_add_epi16(some, x, more)));
        }
    }
}

/* Adds products of codes from `k` on and rows of W, fours of them with `lines` rows each. */
WITH_BYTES static inline __attribute__((always_inline)) void
add_quads(const uint8_t *at, int64_t row, int64_t quads, int64_t lines, __mmask64 columns, bool flip,
          uint8_t codes[ROWS][DEPTH], int64_t k, int rows, __m512i to[ROWS][4]) {
    __m512i sum[ROWS][4];
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) sum[r][i] = to[r][i];
    }
    for (; quads > 0; quads--, at += QUAD * row, k += QUAD) {
        __m512i right[4];
        four_lines(at, row, lines, columns, flip, right);
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, codes[r] + k, sizeof four);
            const __m512i left = _mm512_set1_epi32(four);
            _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) sum[r][i] =
                _mm512_dpbusd_epi32(sum[r][i], left, right[i]);
        }
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) to[r][i] = sum[r][i];
    }
}

/* Sums of `rows` rows for up to COLUMNS columns from `first` on, of codes plus `base`, which are bytes, and W's bytes, which are 128 less than
 * they are where they are to `flip`. */
WITH_BYTES static inline __attribute__((always_inline)) void sum_rows(const rt_byte_weights *w,
                                                                      const int16_t *codes, int rows,
                                                                      bool flip, int16_t base, int64_t first,
                                                                      int32_t sums[][COLUMNS]) {
    const __mmask64 columns = rt_first_lanes_64(w->columns - first);
    __m512i sum[ROWS][4];
    uint8_t bytes[ROWS][DEPTH];
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) sum[r][i] = _mm512_setzero_si512();
    }
    for (int64_t from = 0; from < w->depth; from += DEPTH) {
        const int64_t depth = w->depth - from < DEPTH ? w->depth - from : DEPTH;
        copy_codes(codes + from, w->depth, rows, depth, base, bytes);
        const uint8_t *at = (const uint8_t *)w->data + from * w->columns + first;
        const int64_t whole = depth - depth % QUAD;
        add_quads(at, w->columns, whole / QUAD, QUAD, columns, flip, bytes, 0, rows, sum);
        if (whole < depth)
            add_quads(at + whole * w->columns, w->columns, 1, depth - whole, columns, flip, bytes, whole,
                      rows, sum);
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
        __m512i ordered[4];
        rt_quads_in_order(sum[r], ordered);
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) _mm512_storeu_si512(sums[r] + 16 * i, ordered[i]);
    }
}

#define SUM_ROWS(count, flip)                                                                                \
    WITH_BYTES static void sum_rows_##count##_##flip(const rt_byte_weights *w, const int16_t *codes,         \
                                                     int16_t base, int64_t first, int32_t sums[][COLUMNS]) { \
        sum_rows(w, codes, count, flip, base, first, sums);                                                  \
    }
SUM_ROWS(1, 0)
SUM_ROWS(2, 0)
SUM_ROWS(3, 0)
SUM_ROWS(4, 0)
SUM_ROWS(1, 1)
SUM_ROWS(2, 1)
SUM_ROWS(3, 1)
SUM_ROWS(4, 1)

static void multiply_bytes(const rt_byte_weights *w, const int16_t *codes, float scale, int64_t rows,
                           float *to, int64_t to_row, bool add, const int32_t *column_sums) {
    static void (*const functions[2][ROWS])(const rt_byte_weights *, const int16_t *, int16_t, int64_t,
                                            int32_t[][COLUMNS]) = {
        {sum_rows_1_0, sum_rows_2_0, sum_rows_3_0, sum_rows_4_0},
        {sum_rows_1_1, sum_rows_2_1, sum_rows_3_1, sum_rows_4_1}};
    const bool flip = w->dtype == OP_UINT8;
    int32_t sums[ROWS][COLUMNS];
    for (int64_t row = 0, some; row < rows; row += some, codes += some * w->depth) {
        correction lacks[ROWS];
        int16_t least = 0;
        some = rows - row < ROWS ? rows - row : ROWS;
        for (int64_t r = 0; r < some; r++) {
            uint32_t total = 0;
            for (int64_t k = 0; k < w->depth; k++) {
                const int16_t code = codes[r * w->depth + k];
                least = code < least ? code : least;
                total += (uint32_t)code;
            }
            lacks[r] = (correction){.total = (int32_t)total, .columns = column_sums};
        }
        for (int64_t r = 0; r < some; r++) {
            lacks[r].base = (uint32_t)-least;
            lacks[r].more =
                flip ? 128 * ((uint32_t)lacks[r].total + (uint32_t)-least * (uint32_t)w->depth) : 0;
        }
        for (int64_t first = 0; first < w->columns; first += COLUMNS) {
            const int64_t count = w->columns - first < COLUMNS ? w->columns - first : COLUMNS;
            functions[flip][some - 1](w, codes, (int16_t)-least, first, sums);
            for (int64_t r = 0; r < some; r++)
                finish(w, first, count, sums[r], &lacks[r], scale, to + (row + r) * to_row + first, add);
        }
    }
}

#else

static void multiply_bytes(const rt_byte_weights *w, const int16_t *codes, float scale, int64_t rows,
                           float *to, int64_t to_row, bool add, const int32_t *column_sums) {
    (void)w, (void)codes, (void)scale, (void)rows, (void)to, (void)to_row, (void)add, (void)column_sums;
}

#endif

RT_CLONES static void sum_columns(const rt_byte_weights *w, int32_t *sums) {
    const uint8_t *row = w->data;
    uint32_t *to = (uint32_t *)sums; /* which wrap around */
    memset(sums, 0, (size_t)w->columns * sizeof *sums);
    for (int64_t k = 0; k < w->depth; k++, row += w->columns) {
        if (w->dtype == OP_UINT8) {
            RT_VECTOR for (int64_t j = 0; j < w->columns; j++) to[j] += row[j];
        } else {
            RT_VECTOR for (int64_t j = 0; j < w->columns; j++) to[j] += (uint32_t)((const int8_t *)row)[j];
        }
    }
}

void rt_dynamic_begin(const rt_byte_weights *w, int32_t *sums) {
    if (rt_integer_packs()) sum_columns(w, sums);
}

void rt_dynamic_multiply(const rt_byte_weights *w, const int16_t *codes, float scale, int64_t rows, float *to,
                         int64_t to_row, bool add, int32_t *sums) {
    if (rt_integer_packs()) {
        multiply_bytes(w, codes, scale, rows, to, to_row, add, sums);
        return;
    }
    for (int64_t row = 0; row < rows; row++, codes += w->depth) {
        uint32_t total = 0;
        memset(sums, 0, (size_t)w->columns * sizeof *sums);
        for (int64_t k = 0; k < w->depth; k++) total += (uint32_t)codes[k];
        for (int64_t k = 0; k < w->depth; k += RT_INTEGER_FEW) {
            const int64_t some = w->depth - k < RT_INTEGER_FEW ? w->depth - k : RT_INTEGER_FEW;
            rt_integer_add_rows(w->dtype, (const uint8_t *)w->data + k * w->columns, w->columns, some,
                                w->columns, codes + k, sums);
        }
        const correction lack = {.total = (int32_t)total, .columns = sums};
        for (int64_t first = 0; first < w->columns; first += COLUMNS) {
            const int64_t count = w->columns - first < COLUMNS ? w->columns - first : COLUMNS;
            finish(w, first, count, sums + first, &lack, scale, to + row * to_row + first, add);
        }
    }
}

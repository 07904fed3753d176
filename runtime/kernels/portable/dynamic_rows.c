/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic_rows.c: implements `dynamic_rows.h`. Where the machine multiplies bytes, four at a time, and adds them, rows of W that is not packed are
 * put side by side in registers as they are read: W is read as often as it is used, and no other form of it is kept.
 */
#include "runtime/kernels/portable/dynamic_rows.h"
#include "runtime/kernels/base/x86.h"
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
    const uint32_t *columns;
} correction;

/* `count` sums from column `first` on as reals. As they wrap around, sums may too. */
RT_CLONES static void finish(const rt_byte_weights *w, int64_t first, int64_t count, const int32_t *sums,
                             const correction *lack, float scale, float *y, const float *addend) {
    const float *scales = w->scales + (w->scales_each ? first : 0);
    const uint32_t total = (uint32_t)lack->total, base = lack->base;
    const uint32_t *columns = lack->columns + first;
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
        values[j] *= (float)(int32_t)((uint32_t)sums[j] - taken[j] - base * columns[j]);
    }
    if (addend) {
        RT_VECTOR for (int64_t j = 0; j < count; j++) values[j] = addend[j] + values[j];
    }
    memcpy(y, values, (size_t)count * sizeof *y);
}

#if RT_X86_KERNELS

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

/* The same of a packed W, whose panels are `distance` bytes apart; its bytes are unsigned, and those of codes signed. */
WITH_BYTES static inline __attribute__((always_inline)) void add_packed(const uint8_t *at, int64_t panels,
                                                                        int64_t distance, int64_t quads,
                                                                        uint8_t codes[ROWS][DEPTH], int rows,
                                                                        __m512i to[ROWS][4]) {
    __m512i sum[ROWS][4];
    const uint8_t *from[4];
    for (int i = 0; i < 4; i++)
        from[i] = at + (i < panels ? i * distance : 0); /* what is not there is of no matter */
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) sum[r][i] = to[r][i];
    }
    for (int64_t k = 0; k < quads; k++) {
        __m512i left[ROWS];
        _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, codes[r] + QUAD * k, sizeof four);
            left[r] = _mm512_set1_epi32(four);
        }
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
            const __m512i right = _mm512_loadu_si512(from[i] + 64 * k);
            _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) sum[r][i] =
                _mm512_dpbusd_epi32(sum[r][i], right, left[r]);
        }
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) to[r][i] = sum[r][i];
    }
}

/* What `finish` does, of sums in registers. */
WITH_BYTES static inline __attribute__((always_inline)) void
finish_registers(const rt_byte_weights *w, int64_t first, const __m512i sums[4], const correction *lack,
                 float scale, float *y, const float *addend) {
    const __m512i total = _mm512_set1_epi32(lack->total), base = _mm512_set1_epi32((int32_t)lack->base),
                  more = _mm512_set1_epi32((int32_t)lack->more),
                  same = _mm512_set1_epi32(rt_byte_load(w->dtype, w->zeros, 0));
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) { /* of columns that are not there nothing is read */
        const int64_t at = first + 16 * i;
        const __mmask16 some = rt_first_lanes_16(w->columns - at);
        __m512i zeros = same;
        if (w->zeros_each) {
            const __m128i bytes =
                _mm512_castsi512_si128(_mm512_maskz_loadu_epi8(some, (const uint8_t *)w->zeros + at));
            zeros = w->dtype == OP_INT8 ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
        }
        const __m512i taken = _mm512_sub_epi32(_mm512_mullo_epi32(zeros, total), more),
                      column = _mm512_mullo_epi32(base, _mm512_maskz_loadu_epi32(some, lack->columns + at));
        const __m512 whole = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_sub_epi32(sums[i], taken), column));
        const __m512 scales =
            w->scales_each ? _mm512_mul_ps(_mm512_set1_ps(scale), _mm512_maskz_loadu_ps(some, w->scales + at))
                           : _mm512_set1_ps(scale * *w->scales);
        __m512 value = _mm512_mul_ps(scales, whole);
        if (addend) value = _mm512_add_ps(_mm512_maskz_loadu_ps(some, addend + 16 * i), value);
        _mm512_mask_storeu_ps(y + 16 * i, some, value);
    }
}

typedef enum weights_form { WEIGHTS_SIGNED, WEIGHTS_UNSIGNED, WEIGHTS_PACKED } weights_form;

/* Rows of codes, what their sums lack, and where the results go. */
typedef struct rows_of_codes {
    const int16_t *codes;
    int16_t base; /* more than codes are bytes: unsigned ones, or signed ones for packed weights */
    float scale;
    correction lacks[ROWS];
    rt_dynamic_rows results;
    uint8_t bytes[ROWS][DEPTH]; /* of all codes, where these are no more */
} rows_of_codes;

/* Results of `rows` rows for up to COLUMNS columns from `first` on: of sums of codes plus `base` and W's bytes, which are 128 less than
 * they are where they are unsigned, and 128 more where signed ones are packed. */
WITH_BYTES static inline __attribute__((always_inline)) void
multiply_rows(const rt_byte_weights *w, rows_of_codes *of, int rows, weights_form form, int64_t first) {
    const __mmask64 columns = rt_first_lanes_64(w->columns - first);
    __m512i sum[ROWS][4];
    uint8_t(*bytes)[DEPTH] = of->bytes;
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) sum[r][i] = _mm512_setzero_si512();
    }
    for (int64_t from = 0; from < w->depth; from += DEPTH) {
        const int64_t depth = w->depth - from < DEPTH ? w->depth - from : DEPTH;
        const bool flip = form == WEIGHTS_UNSIGNED;
        if (first == 0 || w->depth > DEPTH)
            copy_codes(of->codes + from, w->depth, rows, depth, of->base, bytes);
        if (form == WEIGHTS_PACKED) {
            const int64_t part = from / RT_INTEGER_PACKED * RT_INTEGER_PACKED, left = w->depth - part,
                          deep = left < RT_INTEGER_PACKED ? left : RT_INTEGER_PACKED;
            add_packed(rt_integer_packed_panel(w->packed, w->depth, w->columns, part, first) +
                           (from - part) * RT_INTEGER_PANEL,
                       (w->columns - first + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL,
                       (deep + QUAD - 1) / QUAD * QUAD * RT_INTEGER_PANEL, (depth + QUAD - 1) / QUAD, bytes,
                       rows, sum);
            continue;
        }
        const uint8_t *at = (const uint8_t *)w->data + from * w->columns + first;
        const int64_t whole = depth - depth % QUAD;
        add_quads(at, w->columns, whole / QUAD, QUAD, columns, flip, bytes, 0, rows, sum);
        if (whole < depth)
            add_quads(at + whole * w->columns, w->columns, 1, depth - whole, columns, flip, bytes, whole,
                      rows, sum);
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < rows; r++) {
        __m512i ordered[4];
        if (form != WEIGHTS_PACKED) rt_quads_in_order(sum[r], ordered);
        finish_registers(w, first, form == WEIGHTS_PACKED ? sum[r] : ordered, &of->lacks[r], of->scale,
                         of->results.to + r * of->results.to_row + first,
                         of->results.addend ? of->results.addend + r * of->results.addend_row + first : NULL);
    }
}

#define MULTIPLY_ROWS(count, form)                                                                           \
    WITH_BYTES static void multiply_rows_##count##_##form(const rt_byte_weights *w, rows_of_codes *of,       \
                                                          int64_t first) {                                   \
        multiply_rows(w, of, count, form, first);                                                            \
    }
#define MULTIPLY_UP_TO_4(form)                                                                               \
    MULTIPLY_ROWS(1, form) MULTIPLY_ROWS(2, form) MULTIPLY_ROWS(3, form) MULTIPLY_ROWS(4, form)
MULTIPLY_UP_TO_4(WEIGHTS_SIGNED)
MULTIPLY_UP_TO_4(WEIGHTS_UNSIGNED)
MULTIPLY_UP_TO_4(WEIGHTS_PACKED)
#define UP_TO_4(form)                                                                                        \
    { multiply_rows_1_##form, multiply_rows_2_##form, multiply_rows_3_##form, multiply_rows_4_##form }

static void multiply_bytes(const rt_byte_weights *w, const int16_t *codes, float scale, int64_t rows,
                           const rt_dynamic_rows *results, const uint32_t *column_sums) {
    static void (*const functions[][ROWS])(const rt_byte_weights *, rows_of_codes *, int64_t) = {
        UP_TO_4(WEIGHTS_SIGNED), UP_TO_4(WEIGHTS_UNSIGNED), UP_TO_4(WEIGHTS_PACKED)};
    const weights_form form = w->packed              ? WEIGHTS_PACKED
                              : w->dtype == OP_UINT8 ? WEIGHTS_UNSIGNED
                                                     : WEIGHTS_SIGNED;
    rows_of_codes of;
    of.scale = scale;
    of.results = *results;
    for (int64_t row = 0, some; row < rows; row += some, codes += some * w->depth) {
        int16_t least = 0;
        some = rows - row < ROWS ? rows - row : ROWS;
        for (int64_t r = 0; r < some; r++) {
            uint32_t total = 0;
            for (int64_t k = 0; k < w->depth; k++) {
                const int16_t code = codes[r * w->depth + k];
                least = code < least ? code : least;
                total += (uint32_t)code;
            }
            of.lacks[r] = (correction){.total = (int32_t)total, .columns = column_sums};
        }
        of.codes = codes;
        of.results.to = results->to + row * results->to_row;
        if (results->addend) of.results.addend = results->addend + row * results->addend_row;
        of.base = (int16_t)(-least - (form == WEIGHTS_PACKED ? 128 : 0));
        for (int64_t r = 0; r < some; r++) {
            const uint32_t total = (uint32_t)of.lacks[r].total, base = (uint32_t)of.base;
            of.lacks[r].base = base;
            if (form == WEIGHTS_UNSIGNED) of.lacks[r].more = 128 * (total + base * (uint32_t)w->depth);
            if (form == WEIGHTS_PACKED && w->dtype == OP_INT8) of.lacks[r].more = 0 - 128 * total;
        }
        for (int64_t first = 0; first < w->columns; first += COLUMNS)
            functions[form][some - 1](w, &of, first);
    }
}

#else

static void multiply_bytes(const rt_byte_weights *w, const int16_t *codes, float scale, int64_t rows,
                           const rt_dynamic_rows *results, const uint32_t *column_sums) {
    (void)w, (void)codes, (void)scale, (void)rows, (void)results, (void)column_sums;
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
    if (rt_integer_packs() && !w->packed) sum_columns(w, sums);
}

/* sums[j] = the sum over quadruples of codes and a panel's bytes. */
RT_CLONES static void multiply_panel(const uint8_t *panel, int64_t depth, const int16_t *codes,
                                     uint32_t *sums) {
    for (int64_t k = 0; k < depth; k++) {
        const uint8_t *from = panel + k / 4 * (4 * RT_INTEGER_PANEL) + k % 4;
        for (int j = 0; j < RT_INTEGER_PANEL; j++) sums[j] += (uint32_t)(codes[k] * from[4 * j]);
    }
}

/* One row times a packed W, of which `columns` columns from `first` on: sums of its unsigned bytes. */
static void multiply_packed(const rt_byte_weights *w, const int16_t *codes, int64_t first, int64_t count,
                            int32_t sums[COLUMNS]) {
    memset(sums, 0, COLUMNS * sizeof *sums);
    for (int64_t from = 0; from < w->depth; from += RT_INTEGER_PACKED) {
        const int64_t left = w->depth - from;
        for (int64_t j = 0; j < count; j += RT_INTEGER_PANEL)
            multiply_panel(rt_integer_packed_panel(w->packed, w->depth, w->columns, from, first + j),
                           left < RT_INTEGER_PACKED ? left : RT_INTEGER_PACKED, codes + from,
                           (uint32_t *)sums + j);
    }
}

void rt_dynamic_multiply(const rt_byte_weights *w, const int16_t *codes, float scale, int64_t rows,
                         const rt_dynamic_rows *results, int32_t *sums) {
    const uint32_t *columns =
        w->packed ? rt_integer_packed_sums(w->packed, w->depth, w->columns) : (const uint32_t *)sums;
    if (rt_integer_packs()) {
        multiply_bytes(w, codes, scale, rows, results, columns);
        return;
    }
    for (int64_t row = 0; row < rows; row++, codes += w->depth) {
        correction lack = {.columns = columns};
        uint32_t total = 0;
        for (int64_t k = 0; k < w->depth; k++) total += (uint32_t)codes[k];
        lack.total = (int32_t)total;
        if (w->packed && w->dtype == OP_INT8) lack.more = 0 - 128 * total;
        if (!w->packed) memset(sums, 0, (size_t)w->columns * sizeof *sums);
        for (int64_t k = 0; k < w->depth && !w->packed; k += RT_INTEGER_FEW) {
            const int64_t some = w->depth - k < RT_INTEGER_FEW ? w->depth - k : RT_INTEGER_FEW;
            rt_integer_add_rows(w->dtype, (const uint8_t *)w->data + k * w->columns, w->columns, some,
                                w->columns, codes + k, sums);
        }
        for (int64_t first = 0; first < w->columns; first += COLUMNS) {
            const int64_t count = w->columns - first < COLUMNS ? w->columns - first : COLUMNS;
            int32_t own[COLUMNS];
            if (w->packed) multiply_packed(w, codes, first, count, own);
            finish(w, first, count, w->packed ? own : sums + first, &lack, scale,
                   results->to + row * results->to_row + first,
                   results->addend ? results->addend + row * results->addend_row + first : NULL);
        }
    }
}

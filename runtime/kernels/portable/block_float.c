/* SPDX-License-Identifier: Apache-2.0 */
/* block_float.c: implements block_float.h. */
#include "runtime/kernels/portable/block_float.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>
#include <string.h>

enum {
    DEPTH = RT_BLOCK_FLOAT_DEPTH,
    UPPER_BITS = 16, /* of a weight: in a half of a word, beside another row's */
    WORD_BITS = 32,
    WORDS = RT_PANEL * sizeof(uint32_t), /* bytes */
    SCALES = RT_PANEL * sizeof(float),
    MOST_GROUP = 8 /* rows of a group, at most */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- places -------------------------------------------------------------------------------------------- */

/* Rows of a group, and its bytes. */
static inline int group_rows(int bits) {
    return WORD_BITS / (bits - UPPER_BITS);
}

static inline int64_t group_bytes(int bits) {
    return (1 + group_rows(bits) / 2) * WORDS;
}

/* Bytes of so many rows of a panel, from the beginning of a block on. */
static inline int64_t rows_bytes(int bits, int64_t rows) {
    const int64_t each = group_rows(bits);
    return (rows + DEPTH - 1) / DEPTH * SCALES + (rows + each - 1) / each * group_bytes(bits);
}

bool rt_block_floats_bytes(const rt_block_floats *form, size_t *bytes) {
    if (form->depth < 1 || form->columns < 1 || form->depth > INT64_MAX / (2 * WORDS) ||
        form->columns > INT64_MAX - RT_PANEL)
        return false;
    return base_size_multiply((size_t)((form->columns + RT_PANEL - 1) / RT_PANEL),
                              (size_t)rows_bytes(form->bits, form->depth), bytes) &&
           *bytes < SIZE_MAX / 2;
}

bool rt_block_floats_asked(const op_attributes *attributes, int64_t depth, int64_t columns,
                           rt_block_floats *form, size_t *bytes) {
    const int64_t bits = op_attribute_integer(attributes, "ouro.weights_bits", 0);
    if (bits != RT_BLOCK_FLOAT_FEWEST && bits != RT_BLOCK_FLOAT_MOST) return false;
    *form = (rt_block_floats){.bits = (int)bits, .depth = depth, .columns = columns};
    return rt_block_floats_bytes(form, bytes);
}

/* ---- storing ------------------------------------------------------------------------------------------- */

static int64_t panels_of(const rt_code_matrix *matrix) {
    return (matrix->columns + RT_PANEL - 1) / RT_PANEL;
}

/* A block of a panel of the matrix, filled up with zeros, and the size of the weight furthest from zero of each column. */
typedef struct block {
    int64_t rows;
    float weights[DEPTH * RT_PANEL], furthest[RT_PANEL];
    float scales[RT_PANEL];   /* of numbers times 2^(32 - bits) */
    double factors[RT_PANEL]; /* that make numbers of weights */
} block;

/* False: there is a weight that is not finite. */
RT_CLONES static bool read_block(const rt_code_matrix *matrix, int64_t panel, int64_t from, block *to) {
    const int64_t first = panel * RT_PANEL, width = least(matrix->columns - first, RT_PANEL);
    bool finite = true;
    to->rows = least(matrix->depth - from, DEPTH);
    memset(to->furthest, 0, sizeof to->furthest);
    if (width < RT_PANEL) memset(to->weights, 0, sizeof to->weights);
    for (int64_t k = 0; k < to->rows; k++) {
        const float *at = matrix->data + (from + k) * matrix->depth_step + first * matrix->column_step;
        float *own = to->weights + k * RT_PANEL;
        for (int64_t j = 0; j < width; j++) own[j] = at[j * matrix->column_step];
        for (int j = 0; j < RT_PANEL; j++) {
            const float size = fabsf(own[j]);
            finite &= size < INFINITY;
            to->furthest[j] = size > to->furthest[j] ? size : to->furthest[j];
        }
    }
    return finite;
}

/* The largest number, and its unit in a word. */
static int32_t largest_of(int bits) {
    return (1 << (bits - 1)) - 1;
}

static int32_t unit_of(int bits) {
    return 1 << (WORD_BITS - bits);
}

/* By which the weight furthest from zero is the largest number. False: a block is so small or so large that a scale, or sums of numbers in float, have no
 * place. */
static bool find_scales(int bits, block *of) {
    const float one = (float)largest_of(bits) * (float)unit_of(bits), low = 0x1p-80f, high = 0x1p80f;
    for (int j = 0; j < RT_PANEL; j++) {
        const float furthest = of->furthest[j];
        if (furthest > 0 && (furthest < low || furthest > high)) return false;
        of->scales[j] = furthest / one;
        of->factors[j] = furthest > 0 ? 1 / ((double)of->scales[j] * unit_of(bits)) : 0;
    }
    return true;
}

/* The numbers of row k of a block, and what they stand for. */
RT_CLONES static void number_row(int bits, const block *of, int64_t k, int32_t *numbers, float *made) {
    const int32_t largest = largest_of(bits), unit = unit_of(bits);
    const float *weights = of->weights + k * RT_PANEL;
    for (int j = 0; j < RT_PANEL; j++) {
        const double number = (double)weights[j] * of->factors[j];
        const int32_t whole = (int32_t)(number < 0 ? number - 0.5 : number + 0.5);
        numbers[j] = whole > largest ? largest : whole < -largest ? -largest : whole;
        made[j] = of->scales[j] * (float)(numbers[j] * unit);
    }
}

/* What the weights of a panel lose, a column each. */
typedef struct panel_loss {
    double lost[RT_PANEL], squares[RT_PANEL]; /* sums of squares */
    double sizes[RT_PANEL];                   /* without the furthest weight of each block */
} panel_loss;

static void add_block(int bits, const block *of, panel_loss *to) {
    for (int64_t k = 0; k < of->rows; k++) {
        const float *weights = of->weights + k * RT_PANEL;
        int32_t numbers[RT_PANEL];
        float made[RT_PANEL];
        number_row(bits, of, k, numbers, made);
        for (int j = 0; j < RT_PANEL; j++) {
            const double off = (double)weights[j] - (double)made[j];
            to->lost[j] += off * off;
            to->squares[j] += (double)weights[j] * (double)weights[j];
            to->sizes[j] += (double)fabsf(weights[j]);
        }
    }
    for (int j = 0; j < RT_PANEL; j++) to->sizes[j] -= (double)of->furthest[j];
}

bool rt_block_floats_lose(int bits, const rt_code_matrix *matrix, rt_block_float_loss *loss) {
    double all = 0, whole = 0;
    *loss = (rt_block_float_loss){0};
    for (int64_t panel = 0; panel < panels_of(matrix); panel++) {
        panel_loss own = {.lost = {0}};
        for (int64_t from = 0; from < matrix->depth; from += DEPTH) {
            block some;
            if (!read_block(matrix, panel, from, &some) || !find_scales(bits, &some)) return false;
            add_block(bits, &some, &own);
        }
        for (int j = 0; j < RT_PANEL; j++) {
            const double size = own.sizes[j] / (double)matrix->depth,
                         error = own.lost[j] > 0 ? sqrt(own.lost[j] / (double)matrix->depth) / size : 0;
            if (!(error <= loss->column)) loss->column = error;
            all += own.lost[j];
            whole += own.squares[j];
        }
    }
    loss->all = whole > 0 ? sqrt(all / whole) : 0;
    return true;
}

/* Puts a row's numbers into its group. */
static void store_row(int bits, int64_t row, const int32_t *numbers, char *group) {
    const int low_bits = bits - UPPER_BITS, place = (int)row * low_bits, half = (int)(row % 2) * UPPER_BITS;
    uint32_t low[RT_PANEL], pairs[RT_PANEL];
    char *const at = group + (1 + row / 2) * WORDS;
    memcpy(low, group, sizeof low);
    memcpy(pairs, at, sizeof pairs);
    for (int j = 0; j < RT_PANEL; j++) {
        const uint32_t number = (uint32_t)numbers[j], upper = number >> low_bits & UINT16_MAX;
        low[j] |= (number & ((UINT32_C(1) << low_bits) - 1)) << place;
        pairs[j] |= upper << half;
    }
    memcpy(group, low, sizeof low);
    memcpy(at, pairs, sizeof pairs);
}

bool rt_block_floats_pack(int bits, const rt_code_matrix *matrix, void *packed) {
    char *to = packed;
    for (int64_t panel = 0; panel < panels_of(matrix); panel++) {
        for (int64_t from = 0; from < matrix->depth; from += DEPTH) {
            block own;
            if (!read_block(matrix, panel, from, &own) || !find_scales(bits, &own)) return false;
            memcpy(to, own.scales, sizeof own.scales);
            for (int64_t k = 0; k < own.rows; k++) {
                int32_t numbers[RT_PANEL];
                float made[RT_PANEL];
                number_row(bits, &own, k, numbers, made);
                store_row(bits, k % group_rows(bits), numbers,
                          to + SCALES + k / group_rows(bits) * group_bytes(bits));
            }
            to += rows_bytes(bits, own.rows);
        }
    }
    return true;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static const char *block_at(const rt_block_floats *weights, int64_t panel, int64_t from) {
    return weights->panels + panel * rows_bytes(weights->bits, weights->depth) +
           rows_bytes(weights->bits, from);
}

/* The number of row `row` of a group, times 2^(32 - bits). */
static inline int32_t number_of(uint32_t low, uint32_t pair, int row, int low_bits) {
    const uint32_t upper = pair >> row % 2 * UPPER_BITS << UPPER_BITS,
                   rest = low >> row * low_bits << UPPER_BITS >> low_bits & UINT16_MAX;
    return (int32_t)(upper | rest);
}

/* One row of a panel, row `row` of its group. */
RT_CLONES static void decode_row(int bits, const char *group, int64_t row, const float *scales, float *to) {
    const int low_bits = bits - UPPER_BITS;
    uint32_t low[RT_PANEL], pairs[RT_PANEL];
    memcpy(low, group, sizeof low);
    memcpy(pairs, group + (1 + row / 2) * WORDS, sizeof pairs);
    for (int j = 0; j < RT_PANEL; j++)
        to[j] = scales[j] * (float)number_of(low[j], pairs[j], (int)row, low_bits);
}

void rt_block_floats_decode(const rt_block_floats *weights, int64_t panel, int64_t from, float *to) {
    const int bits = weights->bits, each = group_rows(bits);
    const char *at = block_at(weights, panel, from);
    const int64_t rows = least(weights->depth - from, DEPTH);
    float scales[RT_PANEL];
    memcpy(scales, at, sizeof scales);
    at += SCALES;
    for (int64_t k = 0; k < rows; k++)
        decode_row(bits, at + k / each * group_bytes(bits), k % each, scales, to + k * RT_PANEL);
}

void rt_block_floats_column(const rt_block_floats *weights, int64_t column, float *to) {
    const int bits = weights->bits, each = group_rows(bits), low_bits = bits - UPPER_BITS;
    const size_t lane = (size_t)(column % RT_PANEL) * sizeof(uint32_t);
    for (int64_t from = 0; from < weights->depth; from += DEPTH) {
        const char *at = block_at(weights, column / RT_PANEL, from) + lane;
        const int64_t rows = least(weights->depth - from, DEPTH);
        float scale;
        memcpy(&scale, at, sizeof scale);
        at += SCALES;
        for (int64_t k = 0; k < rows; k += each, at += group_bytes(bits)) {
            uint32_t low, pair = 0;
            memcpy(&low, at, sizeof low);
            for (int64_t row = 0; row < each && k + row < rows; row++) {
                if (row % 2 == 0) memcpy(&pair, at + (1 + row / 2) * WORDS, sizeof pair);
                to[from + k + row] = scale * (float)number_of(low, pair, (int)row, low_bits);
            }
        }
    }
}

/* One row and one panel of weights that become floats first: whatever x holds, and on any machine. */
RT_CLONES static void slow_panel(const rt_block_floats *weights, const float *x, int64_t panel, float *y) {
    float made[DEPTH * RT_PANEL], total[RT_PANEL] = {0};
    for (int64_t from = 0; from < weights->depth; from += DEPTH) {
        const int64_t rows = least(weights->depth - from, DEPTH);
        rt_block_floats_decode(weights, panel, from, made);
        for (int64_t k = 0; k < rows; k++)
            for (int j = 0; j < RT_PANEL; j++) total[j] += x[from + k] * made[k * RT_PANEL + j];
    }
    memcpy(y, total, sizeof total);
}

static void slow_row(const rt_block_floats *weights, const float *x, int64_t first, int64_t count, float *y) {
    for (int64_t p = 0; p < count; p++) slow_panel(weights, x, first + p, y + p * RT_PANEL);
}

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512f")))
#define ALWAYS static inline __attribute__((always_inline))

enum {
    MOST_PANELS = 2, /* at once: memory is read fastest in two places */
    MOST_SUMS = RT_BLOCK_FLOAT_ROWS * MOST_PANELS,
    FEW_ROWS = 2,  /* have two sums for each result, as many at once as an addition takes time */
    AHEAD = 5120,  /* bytes that are asked for ahead of each panel */
    BY_MASK = 0xD8 /* c ? b : a, bit by bit */
};

/* Words that stay in a register: the compiler would read them again for each of their rows. */
AVX512 ALWAYS __m512i words_at(const char *at) {
    __m512i words = _mm512_load_si512((const void *)at);
    __asm__("" : "+v"(words));
    return words;
}

/* Row `row` of a group, times 2^(32 - bits). `pairs` has it in a half of its words, `low` its lowest bits. */
AVX512 ALWAYS __m512 weights_of(__m512i pairs, __m512i low, int row, int bits) {
    const int low_bits = bits - UPPER_BITS, left = UPPER_BITS - low_bits - row * low_bits;
    const __m512i upper = row % 2 ? pairs : _mm512_slli_epi32(pairs, UPPER_BITS),
                  moved = left > 0   ? _mm512_slli_epi32(low, (unsigned)left)
                          : left < 0 ? _mm512_srli_epi32(low, (unsigned)-left)
                                     : low,
                  mask = _mm512_set1_epi32((1 << UPPER_BITS) - (1 << (UPPER_BITS - low_bits))),
                  rest = _mm512_and_si512(moved, mask);
    return _mm512_cvtepi32_ps(
        _mm512_ternarylogic_epi32(rest, upper, _mm512_set1_epi32(-(1 << UPPER_BITS)), BY_MASK));
}

/* Asks for the group that is AHEAD after this one. */
AVX512 ALWAYS void ask_ahead(const char *group, int bits) {
    _Pragma("GCC unroll 5") for (int64_t i = 0; i < group_bytes(bits); i += WORDS)
        __builtin_prefetch((const void *)((uintptr_t)group + (uintptr_t)(AHEAD + i)));
}

/* Adds a group of each panel; x[r] is where its rows begin. */
AVX512 ALWAYS void add_group(const char *const *groups, const float *const *x, int rows, int panels, int bits,
                             __m512 sums[2][MOST_SUMS]) {
    __m512i low[MOST_PANELS], pairs[MOST_PANELS];
    _Pragma("GCC unroll 2") for (int p = 0; p < panels; p++) {
        low[p] = words_at(groups[p]);
        ask_ahead(groups[p], bits);
    }
    _Pragma("GCC unroll 8") for (int k = 0; k < group_rows(bits); k++) {
        __m512 weights[MOST_PANELS], *const own = sums[rows <= FEW_ROWS ? k % 2 : 0];
        _Pragma("GCC unroll 2") for (int p = 0; p < panels; p++) {
            if (k % 2 == 0) pairs[p] = words_at(groups[p] + (1 + k / 2) * WORDS);
            weights[p] = weights_of(pairs[p], low[p], k, bits);
        }
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) {
            const __m512 number = _mm512_set1_ps(x[r][k]);
            _Pragma("GCC unroll 2") for (int p = 0; p < panels; p++) own[r * panels + p] =
                _mm512_fmadd_ps(number, weights[p], own[r * panels + p]);
        }
    }
}

/* `panels` panels, `step` apart, times `rows` rows. */
AVX512 ALWAYS void rows_of_panels(const rt_block_floats *weights, const float *const *x, int64_t first,
                                  int64_t step, float *const *y, int64_t after, int rows, int panels,
                                  int bits) {
    const int64_t depth = weights->depth, each = group_rows(bits);
    const char *groups[MOST_PANELS];
    const float *at[RT_BLOCK_FLOAT_ROWS];
    __m512 totals[MOST_SUMS], sums[2][MOST_SUMS];
    _Pragma("GCC unroll 2") for (int p = 0; p < panels; p++) groups[p] =
        block_at(weights, first + p * step, 0);
    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) at[r] = x[r];
    _Pragma("GCC unroll 16") for (int i = 0; i < rows * panels; i++) totals[i] = _mm512_setzero_ps();
    for (int64_t from = 0; from < depth; from += DEPTH) {
        const int64_t count = least(depth - from, DEPTH), whole = count / each;
        __m512 scales[MOST_PANELS];
        _Pragma("GCC unroll 2") for (int p = 0; p < panels; p++) {
            scales[p] = _mm512_load_ps((const void *)groups[p]);
            groups[p] += SCALES;
        }
        _Pragma("GCC unroll 16") for (int i = 0; i < rows * panels; i++) sums[0][i] = sums[1][i] =
            _mm512_setzero_ps();
        for (int64_t g = 0; g < whole; g++) {
            add_group(groups, at, rows, panels, bits, sums);
            _Pragma("GCC unroll 2") for (int p = 0; p < panels; p++) groups[p] += group_bytes(bits);
            _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) at[r] += each;
        }
        if (whole * each < count) { /* the last group, of which some rows are not there */
            float last[RT_BLOCK_FLOAT_ROWS][MOST_GROUP] = {{0}};
            const float *rest[RT_BLOCK_FLOAT_ROWS];
            for (int r = 0; r < rows; r++) {
                memcpy(last[r], at[r], (size_t)(count - whole * each) * sizeof(float));
                rest[r] = last[r];
            }
            add_group(groups, rest, rows, panels, bits, sums);
        }
        _Pragma("GCC unroll 16") for (int i = 0; i < rows * panels; i++) totals[i] =
            _mm512_fmadd_ps(rows <= FEW_ROWS ? _mm512_add_ps(sums[0][i], sums[1][i]) : sums[0][i],
                            scales[i % panels], totals[i]);
    }
    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)
        _Pragma("GCC unroll 2") for (int p = 0; p < panels; p++)
            _mm512_storeu_ps(y[r] + after + p * step * RT_PANEL, totals[r * panels + p]);
}

typedef void rows_function(const rt_block_floats *weights, const float *const *x, int64_t first, int64_t step,
                           float *const *y, int64_t after);

#define ROWS(bits, rows, panels)                                                                             \
    AVX512 static void rows_##bits##_##rows##_##panels(const rt_block_floats *weights,                       \
                                                       const float *const *x, int64_t first, int64_t step,   \
                                                       float *const *y, int64_t after) {                     \
        rows_of_panels(weights, x, first, step, y, after, rows, panels, bits);                               \
    }
#define ALL_ROWS(bits)                                                                                       \
    ROWS(bits, 1, 1)                                                                                         \
    ROWS(bits, 1, 2)                                                                                         \
    ROWS(bits, 2, 1)                                                                                         \
    ROWS(bits, 2, 2)                                                                                         \
    ROWS(bits, 3, 1)                                                                                         \
    ROWS(bits, 3, 2)                                                                                         \
    ROWS(bits, 4, 1)                                                                                         \
    ROWS(bits, 4, 2)                                                                                         \
    ROWS(bits, 6, 1)                                                                                         \
    ROWS(bits, 6, 2)                                                                                         \
    ROWS(bits, 8, 1)                                                                                         \
    ROWS(bits, 8, 2)
ALL_ROWS(20)
ALL_ROWS(24)

/* For one panel and for two. NULL: there is none for so many rows. */
#define FUNCTIONS(bits)                                                                                      \
    {                                                                                                        \
        {NULL}, {rows_##bits##_1_1, rows_##bits##_1_2}, {rows_##bits##_2_1, rows_##bits##_2_2},              \
            {rows_##bits##_3_1, rows_##bits##_3_2}, {rows_##bits##_4_1, rows_##bits##_4_2}, {NULL},          \
            {rows_##bits##_6_1, rows_##bits##_6_2}, {NULL}, {                                                \
            rows_##bits##_8_1, rows_##bits##_8_2                                                             \
        }                                                                                                    \
    }

/* Whether sums of this row's numbers times integers of 32 bits have place in a float; so they do not where it has an infinity or a NaN. */
AVX512 static bool is_usual(const float *x, int64_t depth) {
    const __m512i sign = _mm512_set1_epi32(INT32_MAX);
    __m512i largest = _mm512_setzero_si512();
    for (int64_t k = 0; k < depth; k += RT_PANEL) {
        const __m512i some = _mm512_maskz_loadu_epi32(rt_first_lanes_16(depth - k), x + k);
        largest = _mm512_max_epu32(largest, _mm512_and_si512(some, sign));
    }
    return _mm512_reduce_max_epu32(largest) < 0x6B800000; /* 2^88 */
}

AVX512 static void fast_rows(const rt_block_floats *weights, const float *const *x, int64_t rows,
                             int64_t first, int64_t count, float *const *y) {
    static rows_function *const functions[2][RT_BLOCK_FLOAT_ROWS + 1][MOST_PANELS] = {FUNCTIONS(20),
                                                                                      FUNCTIONS(24)};
    rows_function *const *own = functions[weights->bits == RT_BLOCK_FLOAT_MOST][rows];
    const float *all_x[RT_BLOCK_FLOAT_ROWS];
    float *all_y[RT_BLOCK_FLOAT_ROWS];
    if (!own[0]) { /* the last one twice */
        for (int64_t r = 0; r <= rows; r++) {
            all_x[r] = x[least(r, rows - 1)];
            all_y[r] = y[least(r, rows - 1)];
        }
        own = functions[weights->bits == RT_BLOCK_FLOAT_MOST][rows + 1];
        x = all_x;
        y = all_y;
    }
    const int64_t pairs = count / MOST_PANELS;
    for (int64_t p = 0; p < pairs; p++) own[1](weights, x, first + p, pairs, y, p * RT_PANEL);
    for (int64_t p = pairs * MOST_PANELS; p < count; p++) own[0](weights, x, first + p, 0, y, p * RT_PANEL);
}
#endif

void rt_block_floats_rows(const rt_block_floats *weights, const float *const *x, int64_t rows, int64_t first,
                          int64_t count, float *const *y) {
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) {
        fast_rows(weights, x, rows, first, count, y);
        for (int64_t r = 0; r < rows; r++)
            if (!is_usual(x[r], weights->depth)) slow_row(weights, x[r], first, count, y[r]);
        return;
    }
#endif
    for (int64_t r = 0; r < rows; r++) slow_row(weights, x[r], first, count, y[r]);
}

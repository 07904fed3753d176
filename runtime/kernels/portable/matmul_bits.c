/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_bits.c: MatMulNBits: a product with weights of 2, 4 or 8 bits that are quantised in blocks along the depth. Weights of 4
 * bits may also be the numbers of 16 levels, in the attribute ouro.levels, which stand in two vectors and are picked from there.
 *
 * Weights are unpacked from groups of eight words of 32 bits: the lowest bits of all words, then the next ones, and so on. Each is
 * a vector without bytes having to be spread. The elements of x that they meet are brought into the same order first ("split"):
 * with 4 bits element 8 w + j of 64 goes to place 8 j + w.
 *
 * A few rows are bound by reading the weights: each word is unpacked in registers and used at once, and the zero points come in
 * beside, times the sums of x over blocks. Where the machine multiplies bytes, x is written in digits for weights of 4 bits, and of 8 where
 * the file permits fewer than three (digits.h). More rows are worth unpacking some columns into memory: as bytes, for products of integers, where the machine is
 * faster with these (digit_tiles.h); or as the left matrix of the tiles
 * of the float product; the rows of x are their panels. With groups of the file's own (g_idx), a column is unpacked element by
 * element.
 */
#include "runtime/kernels/portable/digit_row.h"
#include "runtime/kernels/portable/digit_tiles.h"
#include "runtime/kernels/portable/digits.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/matmul_bits.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/turn.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Blocks of one column. */
typedef struct column_part {
    const uint8_t *weights;
    const float *scales, *zeros;
} column_part;

/* Of some columns what `dots` tells. */
typedef void dots_function(const float *x, const float *sums, const column_part *columns, int64_t blocks,
                           int shift, const float *levels, float *y);

enum {
    LANES = 8,
    GROUP = LANES * 4, /* bytes */
    FEW_ROWS = 8,
    FEWEST_NUMBERED = 4, /* of them, from which on products of bytes are worth unpacking weights, */
    FEWEST_BESIDE = 8,   /* and where a few could be split into digits */
    LONG_DEPTH = 1024,   /* of one row with small blocks, for digit_row.h: as measured */
    MOST_LANES = 16,     /* of any machine's groups for a few rows */
    TOGETHER = 4,        /* columns of a few rows */
    MANY_ROWS = 64,      /* of x, as panels at a time */
    NUMBERED = 8,        /* which are written as integers together */
    COLUMNS = 48,        /* unpacked at a time: whole tiles of 6 or 12 rows */
    DEPTH = 128,         /* of those: whole groups */
    ZEROS = 512,         /* blocks whose zero points are unpacked at a time: whole groups, too */
    LEVELS = 16
};

typedef struct bits_state {
    op_dtype dtype;
    int64_t rows, columns, depth, padded; /* to whole groups */
    int64_t split_row;                    /* floats of a row of x that is split */
    int64_t blocks, block, block_bytes;   /* of a column; elements and bytes of one */
    int bits, shift;                      /* block_bytes is 1 << shift */
    bool zeros_real, zeros_packed, bias, grouped;
    bool levelled;       /* weights are the numbers of levels */
    rt_digits_form form; /* of a few rows that are split into digits, where they can; no digits: into none */
    float levels[LEVELS];
    int lanes;                /* of the groups into which a few rows are split */
    bool shares;              /* sums of one row become shares of words: see columns_512 */
    bool alone;               /* one row, whose columns are long enough for digit_row.h */
    rt_digit_product numbers; /* of many rows, as products of integers: its form says whether there are any */
    int64_t numbered;         /* rows of those, at a time */
    dots_function *several, *one;
    /* Of scratch, one after another. */
    size_t split_bytes, sum_bytes, x_bytes, y_bytes, scale_bytes, bias_bytes;
} bits_state;

typedef struct bits_context {
    const bits_state *state;
    const float *x, *scales, *bias, *real_zeros;
    const uint8_t *weights, *zeros;
    const int32_t *groups;
    float *y;
    float *split;          /* rows of x, filled up with zeros; or some of them, as panels */
    float *sums;           /* of each block of each row */
    bool digits[FEW_ROWS]; /* rows that are split into digits instead */
    bool coded;            /* all are */
    int64_t row, count;    /* the rows of which there are panels */
    bool *finite;          /* of each NUMBERED of them */
    int64_t together;      /* columns that are unpacked at a time for them */
} bits_context;

static float zero_of(const bits_context *c, int64_t column, int64_t block) {
    const rt_zero_points zeros = {c->real_zeros, c->zeros};
    return rt_zero_point(&zeros, c->state->bits, c->state->blocks, column, block);
}

/* ---- groups ------------------------------------------------------------------------------------------------ */

typedef float reals __attribute__((vector_size(LANES * sizeof(float)), may_alias, aligned(4)));
typedef uint32_t words __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef int32_t integers __attribute__((vector_size(LANES * sizeof(int32_t))));

/* Where element k of a column goes. */
static int64_t split_place(int64_t k, int bits) {
    const int64_t each = 32 / bits, within = k % (each * LANES);
    return k - within + within % each * LANES + within / each;
}

/* Group of a column of `bytes` bytes that begins at byte `from`; what lies after the column is 0. */
static inline __attribute__((always_inline)) void load_group(const uint8_t *column, int64_t from,
                                                             int64_t bytes, words *group) {
    if (from + GROUP <= bytes) {
        memcpy(group, column + from, GROUP);
    } else {
        *group = (words){0};
        memcpy(group, column + from, (size_t)(bytes - from));
    }
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int l = 0; l < LANES; l++) (*group)[l] = __builtin_bswap32((*group)[l]);
#endif
}

/* The levels whose numbers are four bits of each word, from `shift` on. */
static inline __attribute__((always_inline)) void pick(const float *levels, const words *group, int shift,
                                                       reals *picked) {
#ifdef __clang__
    for (int l = 0; l < LANES; l++) (*picked)[l] = levels[(*group)[l] >> shift & (LEVELS - 1)];
#else
    *picked = __builtin_shuffle(*(const reals *)levels, *(const reals *)(levels + LANES), *group >> shift);
#endif
}

/* One number a block, for the blocks (of 1 << shift bytes) that the words of the group at byte `from` belong to. */
static inline __attribute__((always_inline)) void spread(const float *of_blocks, int64_t from, int64_t bytes,
                                                         int shift, reals *to) {
    const float *first = of_blocks + (from >> shift);
    const int64_t block_bytes = INT64_C(1) << shift;
    if (block_bytes >= GROUP) {
        *to = first[0] - (reals){0};
    } else if (block_bytes == GROUP / 2 && from + GROUP <= bytes) {
        const float second = first[1];
        *to = (reals){first[0], first[0], first[0], first[0], second, second, second, second};
    } else {
        float few[LANES];
        for (int64_t l = 0; l < LANES; l++) few[l] = from + 4 * l < bytes ? first[4 * l >> shift] : 0;
        memcpy(to, few, sizeof few);
    }
}

/* ---- few rows ---------------------------------------------------------------------------------------------- */

/* The words of a whole group. */
static inline __attribute__((always_inline)) void load_whole(const uint8_t *from, words *group) {
    memcpy(group, from, GROUP);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int l = 0; l < LANES; l++) (*group)[l] = __builtin_bswap32((*group)[l]);
#endif
}

/* Adds x times element j of each word. Elements stay where they are in their words, which is times 2^(bits * j), and what x was
 * divided by; but for the last one, where a word has its sign. */
static inline __attribute__((always_inline)) void add_elements(const float *x, const words *group, int j,
                                                               int bits, reals *sum) {
    const uint32_t mask = (UINT32_C(1) << bits) - 1;
    const words element = (j + 1) * bits == 32 ? *group >> (j * bits) : *group & mask << (j * bits);
    *sum += *(const reals *)(x + j * LANES) * __builtin_convertvector((integers)element, reals);
}

/* The same of levels, of x as it is. */
static inline __attribute__((always_inline)) void add_levels(const float *x, const words *group, int j,
                                                             const float *levels, reals *sum) {
    reals level;
    pick(levels, group, j * 4, &level);
    *sum += *(const reals *)(x + j * LANES) * level;
}

/* Scale * zero * sum of x of each block, from lanes whose sum is wanted. */
static inline __attribute__((always_inline)) void subtract_zeros(const column_part *column, const float *sums,
                                                                 int64_t blocks, reals *total) {
    const float *scales = column->scales, *zeros = column->zeros;
    reals beside = {0};
    int64_t b = 0;
    for (; b + LANES <= blocks; b += LANES)
        beside += *(const reals *)(scales + b) * *(const reals *)(zeros + b) * *(const reals *)(sums + b);
    for (; b < blocks; b++) beside[0] += scales[b] * zeros[b] * sums[b];
    *total -= beside;
}

static inline __attribute__((always_inline)) float sum_of(const reals *lanes) {
    const reals all = *lanes;
    return ((all[0] + all[4]) + (all[2] + all[6])) + ((all[1] + all[5]) + (all[3] + all[7]));
}

/* How blocks lie in groups: whole groups in each; two in each group, and whole groups in a column; or otherwise. */
typedef enum block_size { LARGE_BLOCKS, HALF_GROUPS, SMALL_BLOCKS } block_size;

/* Of each of `count` columns the sum over the blocks of scale * (x w - zero * sum of x), for so many blocks. `levels`: NULL, or what
 * the weights are the numbers of; then there are no zero points. */
static inline __attribute__((always_inline)) void dots(const float *x, const float *sums,
                                                       const column_part *columns, int count, int64_t blocks,
                                                       int shift, int bits, block_size size,
                                                       const float *levels, float *y) {
    const int64_t bytes = blocks << shift;
    const int elements = 32 / bits; /* of a word */
    reals total[TOGETHER];
    _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) total[c] = (reals){0};
    for (int64_t from = 0; from < bytes; from += GROUP, x += GROUP * 8 / bits) {
        _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) {
            reals own = {0}, other = {0}, scale;
            words group;
            const float *first = columns[c].scales + (from >> shift);
            if (size == SMALL_BLOCKS) {
                load_group(columns[c].weights, from, bytes, &group);
                spread(columns[c].scales, from, bytes, shift, &scale);
            } else {
                const float left = first[0], right = first[size == HALF_GROUPS];
                load_whole(columns[c].weights + from, &group);
                scale = (reals){left, left, left, left, right, right, right, right};
            }
            _Pragma("GCC unroll 16") for (int j = 0; j < elements; j += 2) {
                if (levels) {
                    add_levels(x, &group, j, levels, &own);
                    add_levels(x, &group, j + 1, levels, &other);
                    continue;
                }
                add_elements(x, &group, j, bits, &own);
                add_elements(x, &group, j + 1, bits, &other);
            }
            total[c] += scale * (own + other);
        }
    }
    _Pragma("GCC unroll 4") for (int c = 0; c < count; c++) {
        if (!levels) subtract_zeros(columns + c, sums, blocks, &total[c]);
        y[c] = sum_of(total + c);
    }
}

#define DOTS(name, bits, count, levelled)                                                                    \
    RT_CLONES_FUSED static void dots_##name##_##count(const float *x, const float *sums,                     \
                                                      const column_part *columns, int64_t blocks, int shift, \
                                                      const float *levels, float *y) {                       \
        const float *picked = levelled ? levels : NULL;                                                      \
        if (1 << shift >= GROUP)                                                                             \
            dots(x, sums, columns, count, blocks, shift, bits, LARGE_BLOCKS, picked, y);                     \
        else if (2 << shift == GROUP && blocks % 2 == 0)                                                     \
            dots(x, sums, columns, count, blocks, shift, bits, HALF_GROUPS, picked, y);                      \
        else dots(x, sums, columns, count, blocks, shift, bits, SMALL_BLOCKS, picked, y);                    \
    }
DOTS(2, 2, 1, false)
DOTS(4, 4, 1, false)
DOTS(8, 8, 1, false)
DOTS(levels, 4, 1, true)
DOTS(2, 2, 4, false)
DOTS(4, 4, 4, false)
DOTS(8, 8, 4, false)
DOTS(levels, 4, 4, true)

#if defined(__x86_64__) && defined(__GNUC__)
#include "runtime/kernels/portable/matmul_bits_512.h"
#endif

/* The functions for TOGETHER columns and for one, and the lanes of their groups; after choose_numbers. */
static void choose_dots(bits_state *s, bool any_machine, size_t constant_bytes) {
    enum {
        CACHED_BYTES = 32 << 20
    }; /* which the last cache has in most processors that have the instructions */
    s->lanes = LANES;
    const int digits = any_machine ? 3 : s->numbers.digits;
    const bool formed = s->bits == 4 || (s->bits == 8 && digits < 3);
    s->form = (rt_digits_form){.bits = s->bits,
                               .digits = digits == 2 && s->bits == 4 ? 3 : digits,
                               .block = s->block,
                               .blocks = s->blocks,
                               .distant = constant_bytes > CACHED_BYTES};
    if (!formed || s->levelled || s->zeros_real || !rt_digits_run_here(&s->form)) s->form.digits = 0;
    s->alone =
        s->rows == 1 && s->form.digits &&
        (s->block >= 128 || (s->bits == 4 && s->block == 32 && !s->zeros_packed && s->depth >= LONG_DEPTH));
    s->several = s->levelled ? dots_levels_4 : s->bits == 2 ? dots_2_4 : s->bits == 4 ? dots_4_4 : dots_8_4;
    s->one = s->levelled ? dots_levels_1 : s->bits == 2 ? dots_2_1 : s->bits == 4 ? dots_4_1 : dots_8_1;
#ifdef OURO_MATMUL_BITS_512_H
    if (!__builtin_cpu_supports("avx512f")) return;
    s->lanes = LANES_512;
    s->shares = s->rows == 1 && !s->zeros_packed && !s->zeros_real && !s->form.digits;
    s->several = s->levelled    ? dots_512_levels_4
                 : s->bits == 2 ? dots_512_2_4
                 : s->bits == 4 ? dots_512_4_4
                                : dots_512_8_4;
    s->one = s->levelled    ? dots_512_levels_1
             : s->bits == 2 ? dots_512_2_1
             : s->bits == 4 ? dots_512_4_1
                            : dots_512_8_1;
#endif
}

/* Columns `column`, `column` + step and so on, `count` of them: one, or TOGETHER. `same`: the zero points of all columns, if they
 * have none of their own. */
static void few_columns(const bits_context *c, int64_t column, int64_t step, int64_t count,
                        const float *same) {
    const bits_state *s = c->state;
    float zeros[TOGETHER][ZEROS], y[TOGETHER];
    column_part parts[TOGETHER];
    for (int64_t from = 0; from < s->blocks; from += ZEROS) {
        const int64_t some = s->blocks - from < ZEROS ? s->blocks - from : ZEROS;
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = column + i * step, block = at * s->blocks + from;
            parts[i] =
                (column_part){c->weights + block * s->block_bytes, c->scales + block, same ? same : zeros[i]};
            for (int64_t b = 0; b < some && !same; b++) zeros[i][b] = zero_of(c, at, from + b);
        }
        for (int64_t row = 0; row < s->rows; row++) {
            const float *x = c->split + row * s->split_row + from * s->block,
                        *sums = c->sums + row * s->blocks + from;
            if (c->digits[row]) continue;
            (count == 1 ? s->one : s->several)(x, sums, parts, some, s->shift, s->levels, y);
            for (int64_t i = 0; i < count; i++) {
                const int64_t at = column + i * step;
                float *to = c->y + row * s->columns + at;
                *to = (from ? *to : s->bias ? c->bias[at] : 0) + y[i];
            }
        }
    }
}

#ifdef OURO_MATMUL_BITS_512_H
/* What columns_of_few does, of one row whose columns have the same zero points, or none. */
static void columns_of_one_512(const bits_context *c, int64_t begin, int64_t end) {
    const bits_state *s = c->state;
    quarters_function *const run = s->levelled    ? quarters_512_levels
                                   : s->bits == 2 ? quarters_512_2
                                   : s->bits == 4 ? quarters_512_4
                                                  : quarters_512_8;
    const int64_t each = (end - begin) / TOGETHER, rest = begin + each * TOGETHER;
    columns_512 of = {.blocks = s->blocks,
                      .shift = s->shift,
                      .large = s->block_bytes >= GROUP_512,
                      .sums = c->sums,
                      .levels = s->levels};
    for (int i = 0; i < TOGETHER; i++) {
        const int64_t first = (begin + i * each) * s->blocks;
        of.weights[i] = c->weights + first * s->block_bytes;
        of.scales[i] = c->scales + first;
    }
    run(c->split, &of, each, s->bias ? c->bias + begin : NULL, c->y + begin);
    if (rest == end) return;
    /* Less than four: some of them more than once. */
    float y[TOGETHER];
    for (int i = 0; i < TOGETHER; i++) {
        const int64_t first = (rest + i < end ? rest + i : end - 1) * s->blocks;
        of.weights[i] = c->weights + first * s->block_bytes;
        of.scales[i] = c->scales + first;
    }
    run(c->split, &of, 1, NULL, y);
    for (int64_t i = rest; i < end; i++) c->y[i] = y[i - rest] + (s->bias ? c->bias[i] : 0);
}
#endif

/* Columns [begin, end) of the rows in digits. */
static void columns_of_digits(const bits_context *c, int64_t begin, int64_t end) {
    const bits_state *s = c->state;
    const rt_digits_weights weights = {c->weights, c->scales, c->zeros};
    rt_digits_row rows[FEW_ROWS];
    int64_t count = 0;
    if (s->alone && c->coded) {
        const rt_digit_row_weights of_row = {c->weights, c->scales, c->zeros, s->blocks, s->shift};
        rt_digit_row_columns(c->split, (rt_digit_row_form){s->bits, s->form.digits}, c->sums, &of_row, begin,
                             end, c->bias, c->y);
        return;
    }
    for (int64_t row = 0; row < s->rows; row++) {
        if (!c->digits[row]) continue;
        rows[count++] = (rt_digits_row){c->split + row * s->split_row, c->y + row * s->columns};
    }
    if (count) rt_digits_columns(&s->form, rows, count, &weights, begin, end, c->bias);
}

/* Columns that are computed together lie far apart: memory is read from front to back in several places, where a processor reads
 * ahead by itself. */
static void columns_of_few(void *user, int64_t begin, int64_t end) {
    const bits_context *c = user;
    const bits_state *s = c->state;
#ifdef OURO_MATMUL_BITS_512_H
    if (s->shares) {
        columns_of_one_512(c, begin, end);
        return;
    }
#endif
    columns_of_digits(c, begin, end);
    if (c->coded) return;
    const int64_t each = (end - begin) / TOGETHER;
    const bool own = s->zeros_packed || s->zeros_real;
    float zeros[ZEROS];
    for (int64_t b = 0; b < ZEROS && b < s->blocks && !own; b++) zeros[b] = zero_of(c, begin, b);
    const float *same = own ? NULL : zeros;
    for (int64_t i = 0; i < each; i++) few_columns(c, begin + i, each, TOGETHER, same);
    for (int64_t i = begin + each * TOGETHER; i < end; i++) few_columns(c, i, 0, 1, same);
}

/* What element k of x is multiplied by, so that elements of weights need not be shifted: see add_elements. */
static float split_factor(int64_t k, int bits) {
    const int each = 32 / bits, j = (int)(k % each);
    return j + 1 == each ? 1 : ldexpf(1, -j * bits);
}

/* Elements of a row in the order in which the words of groups hold their weights, filled up with zeros. */
static void split_row(const bits_state *s, const float *factors, const float *from, float *to) {
    const int64_t each = 32 / s->bits, group = each * s->lanes, whole = s->depth - s->depth % group;
    for (int64_t k = 0; k < whole; k += group) {
        for (int64_t w = 0; w < s->lanes; w++)
            for (int64_t j = 0; j < each; j++) to[k + j * s->lanes + w] = from[k + w * each + j] * factors[j];
    }
    memset(to + whole, 0, (size_t)(s->padded - whole) * sizeof *to);
    for (int64_t k = whole; k < s->depth; k++)
        to[whole + k % each * s->lanes + (k - whole) / each] = from[k] * factors[k % each];
}

RT_CLONES static float sum_of_row(const float *x, int64_t count) {
    float lanes[MOST_LANES] = {0}, sum = 0;
    int64_t k = 0;
    for (; k + MOST_LANES <= count; k += MOST_LANES) {
        RT_VECTOR for (int j = 0; j < MOST_LANES; j++) lanes[j] += x[k + j];
    }
    for (int j = 0; k < count; k++, j++) lanes[j] += x[k];
    for (int j = 0; j < MOST_LANES; j++) sum += lanes[j];
    return sum;
}

static void split_rows(bits_context *c) {
    const bits_state *s = c->state;
    float factors[32 / 2];
    const int64_t each = 32 / s->bits;
    for (int64_t j = 0; j < each; j++) factors[j] = s->levelled ? 1 : split_factor(j, s->bits);
    c->coded = true;
    for (int64_t row = 0; row < s->rows; row++) {
        const float *from = c->x + row * s->depth;
        float *to = c->split + row * s->split_row;
        float *sums = c->sums + row * s->blocks;
        c->digits[row] =
            s->alone
                ? rt_digit_row_split(from, s->depth, (rt_digit_row_form){s->bits, s->form.digits},
                                     s->split_row * (int64_t)sizeof *to / rt_digit_row_group(s->bits), to)
                : s->form.digits && rt_digits_split(&s->form, from, s->depth, to);
        c->coded = c->coded && c->digits[row];
        if (!c->digits[row]) split_row(s, factors, from, to);
        for (int64_t b = 0; b < s->blocks && (!c->digits[row] || (s->alone && s->zeros_packed)); b++) {
            const int64_t rest = s->depth - b * s->block;
            float sum = sum_of_row(from + b * s->block, rest < s->block ? rest : s->block);
            if (s->shares) sum *= -zero_of(c, 0, b) / (float)(s->block_bytes / 4);
            sums[b] = sum;
        }
    }
}

/* ---- many rows --------------------------------------------------------------------------------------------- */

/* Rows [row, row + count) as panels, split: DEPTH after DEPTH, in each panels[p][k][RT_PANEL]. A line of each row at a time: rows may
 * lie so far apart that few of them stay in the nearest cache. */
static void pack_rows(const bits_context *c) {
    enum { LINE = RT_ALIGNMENT / sizeof(float) };
    const bits_state *s = c->state;
    const int64_t panels = (c->count + RT_PANEL - 1) / RT_PANEL;
    for (int64_t from = 0; from < s->padded; from += LINE) {
        const int64_t some = s->padded - from < LINE ? s->padded - from : LINE;
        float *places[LINE]; /* of the first panel */
        int64_t steps[LINE]; /* to the next one */
        for (int64_t i = 0; i < some; i++) {
            const int64_t place = split_place(from + i, s->bits), first = place / DEPTH * DEPTH,
                          deep = s->padded - first < DEPTH ? s->padded - first : DEPTH;
            places[i] = c->split + first * panels * RT_PANEL + (place - first) * RT_PANEL;
            steps[i] = deep * RT_PANEL;
        }
        int64_t row = 0;
        for (; row + RT_PANEL <= c->count && from + some <= s->depth; row += RT_PANEL) {
            float turned[LINE * RT_PANEL];
            rt_turn_words((const uint32_t *)(const void *)(c->x + (c->row + row) * s->depth + from), s->depth,
                          RT_PANEL, some, (uint32_t *)(void *)turned, RT_PANEL);
            for (int64_t i = 0; i < some; i++)
                memcpy(places[i] + row / RT_PANEL * steps[i], turned + i * RT_PANEL,
                       RT_PANEL * sizeof *turned);
        }
        for (; row < panels * RT_PANEL; row++) {
            const float *x = c->x + (c->row + row) * s->depth;
            for (int64_t i = 0; i < some; i++)
                places[i][row / RT_PANEL * steps[i] + row % RT_PANEL] =
                    row < c->count && from + i < s->depth ? x[from + i] : 0;
        }
    }
}

/* Groups [from, to) of bytes of a column. */
static inline __attribute__((always_inline)) void unpack(const uint8_t *column, const float *scales,
                                                         const float *zeros, int64_t from, int64_t to,
                                                         int64_t bytes, int shift, int bits,
                                                         const float *levels, float *left) {
    const uint32_t mask = (uint32_t)((1 << bits) - 1);
    for (; from < to; from += GROUP) {
        words group;
        reals scale, zero;
        load_group(column, from, bytes, &group);
        spread(scales, from, bytes, shift, &scale);
        if (!levels) spread(zeros, from, bytes, shift, &zero);
        for (int j = 0; j < 32 / bits; j++, left += LANES) {
            reals weight;
            if (levels) pick(levels, &group, j * bits, &weight);
            else weight = __builtin_convertvector((integers)(group >> (j * bits) & mask), reals) - zero;
            *(reals *)left = scale * weight;
        }
    }
}

#define UNPACK(name, bits, levelled)                                                                         \
    RT_CLONES_FUSED static void unpack_##name(const uint8_t *column, const float *scales,                    \
                                              const float *zeros, int64_t from, int64_t to, int64_t bytes,   \
                                              int shift, const float *levels, float *left) {                 \
        unpack(column, scales, zeros, from, to, bytes, shift, bits, levelled ? levels : NULL, left);         \
    }
UNPACK(2, 2, false)
UNPACK(4, 4, false)
UNPACK(8, 8, false)
UNPACK(levels, 4, true)

typedef void unpack_function(const uint8_t *column, const float *scales, const float *zeros, int64_t from,
                             int64_t to, int64_t bytes, int shift, const float *levels, float *left);

/* The same with groups of the file's own. */
static void unpack_elements(const bits_context *c, int64_t column, int64_t from, int64_t count, float *left) {
    const bits_state *s = c->state;
    const uint8_t *weights = c->weights + column * s->blocks * s->block_bytes;
    const int each = 8 / s->bits;
    for (int64_t k = from; k < from + count; k++) {
        float *to = left + split_place(k, s->bits) - from;
        *to = 0;
        if (k >= s->depth) continue;
        const int code = weights[k / each] >> (int)(k % each) * s->bits & ((1 << s->bits) - 1);
        const float weight = s->levelled ? s->levels[code] : (float)code - zero_of(c, column, c->groups[k]);
        *to = c->scales[column * s->blocks + c->groups[k]] * weight;
    }
}

/* Elements [from, from + count) of a column, split: whole groups. */
static void unpack_column(const bits_context *c, int64_t column, int64_t from, int64_t count, float *left) {
    const bits_state *s = c->state;
    const int64_t first = from * s->bits / 8, after = (from + count) * s->bits / 8,
                  bytes = s->blocks * s->block_bytes, low = first >> s->shift,
                  high = (after + s->block_bytes - 1) >> s->shift;
    float zeros[DEPTH / 4]; /* of at most so many blocks; they are counted from the first */
    if (s->grouped) {
        unpack_elements(c, column, from, count, left);
        return;
    }
    const bool middle = !s->zeros_real && !s->zeros_packed;
    for (int64_t b = low; b < high && b < s->blocks; b++)
        zeros[b - low] = middle ? (float)(1 << (s->bits - 1)) : zero_of(c, column, b);
    const int64_t skipped = low * s->block_bytes;
    /* The next ones are wanted after a product, and lie alone: no processor asks for them by itself. */
    const uint8_t *next = c->weights + column * bytes + after;
    for (int64_t at = 0; at < after - first && after + at < bytes; at += RT_ALIGNMENT)
        __builtin_prefetch(next + at);
    if (high < s->blocks) __builtin_prefetch(c->scales + column * s->blocks + high);
    unpack_function *const function = s->levelled    ? unpack_levels
                                      : s->bits == 2 ? unpack_2
                                      : s->bits == 4 ? unpack_4
                                                     : unpack_8;
    function(c->weights + column * bytes + skipped, c->scales + column * s->blocks + low, zeros,
             first - skipped, after - skipped, bytes - skipped, s->shift, s->levels, left);
}

/* Groups of columns, times the rows of which there are panels. */
static void columns_of_many(void *user, int64_t begin, int64_t end) {
    const bits_context *c = user;
    const bits_state *s = c->state;
    _Alignas(RT_ALIGNMENT) float left[COLUMNS * DEPTH], turned[COLUMNS * MANY_ROWS];
    const int64_t wide = (c->count + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
    for (int64_t group = begin; group < end; group++) {
        const int64_t column = group * c->together;
        const int64_t columns = s->columns - column < c->together ? s->columns - column : c->together;
        for (int64_t from = 0; from < s->padded; from += DEPTH) {
            const int64_t deep = s->padded - from < DEPTH ? s->padded - from : DEPTH;
            for (int64_t i = 0; i < columns; i++) unpack_column(c, column + i, from, deep, left + i * deep);
            /* Rows of the result lie far apart, and are written after the last product. */
            for (int64_t r = 0; r < c->count && from + deep == s->padded; r++)
                rt_prefetch(c->y + (c->row + r) * s->columns + column, (size_t)columns * sizeof *c->y);
            rt_tiles_run(&(rt_tiles){.rows = columns,
                                     .columns = wide,
                                     .depth = deep,
                                     .a = left,
                                     .a_row = deep,
                                     .a_depth = 1,
                                     .panels = c->split + from * wide,
                                     .c = turned,
                                     .c_row = wide,
                                     .add = from > 0,
                                     .fused = true});
        }
        for (int64_t i = 0; i < columns && s->bias; i++) {
            for (int64_t r = 0; r < c->count; r++) turned[i * wide + r] += c->bias[column + i];
        }
        rt_turn_words((const uint32_t *)(const void *)turned, wide, columns, c->count,
                      (uint32_t *)(void *)(c->y + c->row * s->columns + column), s->columns);
    }
}

/* Columns unpacked at a time: fewer where the threads would have unequal shares of them. */
static int64_t columns_together(int64_t columns, int threads) {
    enum { TILE = 12 };
    int64_t best = COLUMNS, least = INT64_MAX;
    for (int64_t each = COLUMNS; each >= TILE && threads > 1; each -= TILE) {
        const int64_t groups = (columns + each - 1) / each, share = (groups + threads - 1) / threads * each;
        if (share >= least) continue;
        best = each;
        least = share;
    }
    return best;
}

/* Rows as integers, some at a time. */
static void number_rows(void *user, int64_t begin, int64_t end) {
    const bits_context *c = user;
    const bits_state *s = c->state;
    for (int64_t i = begin; i < end; i++) {
        const int64_t after = (i + 1) * NUMBERED;
        c->finite[i] = rt_digit_rows(&s->numbers, c->x + c->row * s->depth, c->count, i * NUMBERED,
                                     after < c->count ? after : c->count, c->split);
    }
}

static void panels_of_many(void *user, int64_t begin, int64_t end) {
    const bits_context *c = user;
    const rt_digit_weights weights = {c->weights, c->scales, c->bias, {c->real_zeros, c->zeros}};
    rt_digit_columns(&c->state->numbers, c->split, c->count, &weights, begin, end,
                     c->y + c->row * c->state->columns);
}

/* The rows in `c`, as integers: false where they are not finite, or where that is not to be. */
static bool multiply_integers(bits_context *c, int threads) {
    const bits_state *s = c->state;
    if (!s->numbers.form || (uintptr_t)c->weights % sizeof(uint32_t))
        return false; /* weights are read as words */
    bool finite[RT_DIGIT_MOST_ROWS / NUMBERED];
    const int64_t parts = (c->count + NUMBERED - 1) / NUMBERED;
    c->finite = finite;
    rt_parallel(threads, parts, NUMBERED * s->depth, number_rows, c);
    for (int64_t i = 0; i < parts; i++)
        if (!finite[i]) return false;
    rt_parallel(threads, (s->columns + RT_DIGIT_COLUMNS - 1) / RT_DIGIT_COLUMNS,
                c->count * s->depth * RT_DIGIT_COLUMNS, panels_of_many, c);
    return true;
}

/* The rows from c->row on, as floats. */
static void multiply_floats(bits_context *c, int64_t after, int threads) {
    const bits_state *s = c->state;
    for (; c->row < after; c->row += MANY_ROWS) {
        c->count = after - c->row < MANY_ROWS ? after - c->row : MANY_ROWS;
        pack_rows(c);
        rt_parallel(threads, (s->columns + c->together - 1) / c->together, c->count * s->depth * c->together,
                    columns_of_many, c);
    }
}

/* ---- both ---------------------------------------------------------------------------------------------------- */

/* `bytes` of scratch. */
static float *taken(char **scratch, size_t bytes) {
    float *at = (float *)(void *)*scratch;
    *scratch += bytes;
    return at;
}

const float *rt_matmul_bits_widen(op_dtype dtype, char **scratch, size_t bytes, const void *from) {
    if (dtype == OP_FLOAT || !from) return from;
    float *to = taken(scratch, bytes);
    rt_half_load(dtype, to, from, (int64_t)(bytes / sizeof *to));
    return to;
}

static base_status check_groups(const bits_context *c, base_report *report) {
    const bits_state *s = c->state;
    for (int64_t k = 0; k < s->depth; k++) {
        if (c->groups[k] >= 0 && c->groups[k] < s->blocks) continue;
        return base_fail(report, BASE_INVALID,
                         "input 4 (g_idx) has %" PRId32 " at %" PRId64 ", expected 0 to %" PRId64,
                         c->groups[k], k, s->blocks - 1);
    }
    return BASE_OK;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const bits_state *s = prepared->state;
    char *at = scratch;
    bits_context c = {.state = s, .weights = inputs[1].data, .y = outputs[0].data};
    c.split = taken(&at, s->split_bytes);
    c.sums = taken(&at, s->sum_bytes);
    c.x = rt_matmul_bits_widen(s->dtype, &at, s->x_bytes, inputs[0].data);
    c.scales = rt_matmul_bits_widen(s->dtype, &at, s->scale_bytes, inputs[2].data);
    if (s->zeros_real) c.real_zeros = rt_matmul_bits_widen(s->dtype, &at, s->scale_bytes, inputs[3].data);
    if (s->zeros_packed) c.zeros = inputs[3].data;
    if (s->bias) c.bias = rt_matmul_bits_widen(s->dtype, &at, s->bias_bytes, inputs[5].data);
    if (s->dtype != OP_FLOAT) c.y = taken(&at, s->y_bytes);
    if (s->grouped) c.groups = inputs[4].data;
    if (s->grouped && check_groups(&c, report) != BASE_OK) return BASE_INVALID;
    c.count = s->rows;
    if (s->sum_bytes) {
        const int fewest = s->form.digits ? FEWEST_BESIDE : FEWEST_NUMBERED;
        if (s->rows < fewest || s->numbers.form != RT_DIGIT_BYTES ||
            !multiply_integers(&c, prepared->threads)) {
            split_rows(&c);
            rt_parallel(prepared->threads, s->columns, s->rows * s->depth, columns_of_few, &c);
        }
    } else {
        c.together = columns_together(s->columns, prepared->threads);
        for (int64_t row = 0; row < s->rows; row += s->numbered) {
            const int64_t some = s->rows - row < s->numbered ? s->rows - row : s->numbered;
            c.row = row;
            c.count = some;
            if (!multiply_integers(&c, prepared->threads)) multiply_floats(&c, row + some, prepared->threads);
        }
    }
    if (s->dtype != OP_FLOAT) rt_half_store(s->dtype, outputs[0].data, c.y, s->rows * s->columns);
    return BASE_OK;
}

/* Beside weights that lost as much themselves (passes/graph/quantize_weights.c) fewer
 * digits are not seen: what one digit costs is a tenth of what weights of 4 bits cost, and two a hundredth with 8 bits. A file permits
 * them by its accuracy level. Otherwise x is to be as good as in float. */
int rt_matmul_bits_digits(const op_attributes *attributes, int bits) {
    enum { OF_HALF = 2, OF_BYTES = 4 /* accuracy levels: 1 is float, 2 float16, 3 bfloat16, 4 int8 */ };
    const int64_t level = op_attribute_integer(attributes, "accuracy_level", 0);
    const bool ours = op_attribute_find(attributes, "ouro.weights_error");
    return level == OF_BYTES || (ours && bits == 4) ? 1 : ours || level >= OF_HALF ? 2 : 3;
}

/* Whether rows become integers. Three digits stand for floats beside weights of 4 bits. Beside 8 bits their rounding weighs as much as that of
 * all sums: such products stay in float. So do those of a plan for any machine that would be seen to
 * have fewer digits on some. */
static void choose_numbers(bits_state *s, const op_attributes *attributes, bool any_machine) {
    const int digits = rt_matmul_bits_digits(attributes, s->bits);
    s->numbered = digits < 3 ? RT_DIGIT_MOST_ROWS : MANY_ROWS;
    s->numbers = (rt_digit_product){.bits = s->bits,
                                    .digits = digits,
                                    .centred = !s->zeros_real && !s->zeros_packed,
                                    .depth = s->depth,
                                    .columns = s->columns,
                                    .block = s->block,
                                    .blocks = s->blocks};
    rt_digit_begin(&s->numbers);
    if (!s->grouped && !s->levelled && (digits == 3 ? s->bits == 4 : s->bits >= 4 && !any_machine))
        s->numbers.form = rt_digit_form_here(digits);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

bool rt_matmul_bits_add(int64_t a, int64_t b, size_t *bytes, size_t *total) {
    size_t count;
    return base_size_multiply((size_t)a, (size_t)b, &count) &&
           base_size_multiply(count, sizeof(float), bytes) && base_size_add(*total, *bytes, total);
}

/* Scratch of x: what either way of computing these rows takes, on every machine. */
static bool add_rows(bits_state *s, bool few, size_t *total) {
    const int64_t many = s->rows < MANY_ROWS ? (s->rows + RT_PANEL - 1) / RT_PANEL * RT_PANEL : MANY_ROWS,
                  numbers = s->rows < s->numbered ? s->rows : s->numbered;
    size_t unused = 0, bytes;
    if (!rt_matmul_bits_add(few ? s->rows : many, few ? s->split_row : s->padded, &s->split_bytes, &unused) ||
        !rt_digit_rows_bytes(&s->numbers, numbers, &bytes) || !base_size_add(bytes, RT_ALIGNMENT, &unused))
        return false;
    if (bytes > s->split_bytes && numbers >= FEWEST_NUMBERED)
        s->split_bytes = (bytes + RT_ALIGNMENT - 1) / RT_ALIGNMENT * RT_ALIGNMENT;
    return base_size_add(*total, s->split_bytes, total) &&
           (!few || rt_matmul_bits_add(s->rows, s->blocks, &s->sum_bytes, total));
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    bits_state *s = BASE_NEW(arena, bits_state);
    if (!s) return base_fail_memory(report);
    const op_type *x = &call->inputs[0].type;
    int64_t elements;
    s->dtype = x->dtype;
    s->bits = (int)op_attribute_integer(&call->attributes, "bits", 4);
    s->block = op_attribute_integer(&call->attributes, "block_size", 32);
    s->depth = op_attribute_integer(&call->attributes, "K", 0);
    s->columns = op_attribute_integer(&call->attributes, "N", 0);
    s->blocks = (s->depth + s->block - 1) / s->block;
    s->block_bytes = s->block * s->bits / 8;
    while (INT64_C(1) << s->shift < s->block_bytes) s->shift++;
    op_shape_elements(&x->shape, &elements);
    s->rows = s->depth ? elements / s->depth : 0;
    s->zeros_packed = op_input_present(call, 3) && call->inputs[3].type.dtype == OP_UINT8;
    s->zeros_real = op_input_present(call, 3) && !s->zeros_packed;
    s->grouped = op_input_present(call, 4);
    s->bias = op_input_present(call, 5);
    size_t levels;
    const float *given = op_attribute_reals(&call->attributes, "ouro.levels", &levels);
    s->levelled = given && levels == LEVELS && s->bits == 4;
    if (s->levelled) memcpy(s->levels, given, sizeof s->levels);
    prepared->state = s;
    prepared->run = s->rows && s->columns && s->depth ? run : rt_run_nothing;
    if (prepared->run != run) return BASE_OK;
    size_t *total = &prepared->scratch_bytes, unused;
    const bool few = s->rows <= FEW_ROWS && !s->grouped;
    /* As much for a few rows on every machine: a plan says how much scratch it has. */
    const int64_t group = few ? MOST_LANES * 4 : GROUP;
    s->padded = (s->blocks * s->block_bytes + group - 1) / group * (group * 8 / s->bits);
    s->split_row = (s->padded + RT_DIGITS_TOGETHER - 1) / RT_DIGITS_TOGETHER * RT_DIGITS_TOGETHER;
    choose_numbers(s, &call->attributes, environment->portable_only);
    choose_dots(s, environment->portable_only, environment->constant_bytes);
    bool fits = add_rows(s, few, total);
    if (s->dtype != OP_FLOAT) {
        fits = fits && rt_matmul_bits_add(s->rows, s->depth, &s->x_bytes, total) &&
               rt_matmul_bits_add(s->columns, s->blocks, &s->scale_bytes, total) &&
               (!s->zeros_real || rt_matmul_bits_add(s->columns, s->blocks, &unused, total)) &&
               (!s->bias || rt_matmul_bits_add(s->columns, 1, &s->bias_bytes, total)) &&
               rt_matmul_bits_add(s->rows, s->columns, &s->y_bytes, total);
    }
    return fits ? BASE_OK : base_fail_memory(report);
}

const rt_kernel rt_kernel_matmul_bits = {
    .name = "portable.matmul_bits", .accepts = accepts, .prepare = prepare};

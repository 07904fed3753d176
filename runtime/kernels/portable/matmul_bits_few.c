/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_bits_few.c: a few rows times weights of 2, 4 or 8 bits, which is bound by reading the weights: each word is unpacked in registers and
 * used at once, and the zero points come in beside, times the sums of x over blocks. The elements of x are brought into the order of the words
 * first. Where the machine multiplies bytes, x is written in digits for weights of 4 bits, and of 8 where the file permits fewer than three
 * (digits.h).
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/digit_row.h"
#include "runtime/kernels/portable/matmul_bits_groups.h"
#include <math.h>

enum {
    LONG_DEPTH = 1024, /* of one row with small blocks, for digit_row.h: as measured */
    TOGETHER = 4,      /* columns */
    ZEROS = 512        /* blocks whose zero points are unpacked at a time: whole groups, too */
};

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

#if RT_X86_KERNELS
#include "runtime/kernels/portable/matmul_bits_512.h"
#endif

void rt_matmul_bits_choose(bits_state *s, bool any_machine, size_t constant_bytes) {
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

void rt_matmul_bits_few(bits_context *c, int threads) {
    const bits_state *s = c->state;
    split_rows(c);
    rt_parallel(threads, s->columns, s->rows * s->depth, columns_of_few, c);
}

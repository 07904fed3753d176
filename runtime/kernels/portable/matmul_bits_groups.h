/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_bits_groups.h: a product with weights of 2, 4 or 8 bits as its files see it, and how they read groups of words: matmul_bits.c, matmul_bits_few.c and
 * matmul_bits_many.c. No other file reads this.
 */
#ifndef OURO_MATMUL_BITS_GROUPS_H
#define OURO_MATMUL_BITS_GROUPS_H

#include "runtime/kernels/portable/digit_tiles.h"
#include "runtime/kernels/portable/digits.h"
#include "runtime/kernels/portable/kernels.h"
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
    MOST_LANES = 16, /* of any machine's groups for a few rows */
    MANY_ROWS = 64,  /* of x, as panels at a time */
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

static inline float zero_of(const bits_context *c, int64_t column, int64_t block) {
    const rt_zero_points zeros = {c->real_zeros, c->zeros};
    return rt_zero_point(&zeros, c->state->bits, c->state->blocks, column, block);
}

/* ---- a few rows (matmul_bits_few.c) --------------------------------------------------------------------- */

/* The functions for TOGETHER columns and for one, and the lanes of their groups; once s->numbers is known. */
void rt_matmul_bits_choose(bits_state *s, bool any_machine, size_t constant_bytes);
/* All rows of the result. */
void rt_matmul_bits_few(bits_context *c, int threads);

/* ---- many rows (matmul_bits_many.c) ---------------------------------------------------------------------- */

/* c->together, for so many columns. */
int64_t rt_matmul_bits_together(int64_t columns, int threads);
/* The c->count rows from c->row on, as integers: false where they are not finite, or where that is not to be. */
bool rt_matmul_bits_integers(bits_context *c, int threads);
/* The rows from c->row to `after`, as floats. */
void rt_matmul_bits_floats(bits_context *c, int64_t after, int threads);

/* ---- groups ----------------------------------------------------------------------------------------------- */

typedef float reals __attribute__((vector_size(LANES * sizeof(float)), may_alias, aligned(4)));
typedef uint32_t words __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef int32_t integers __attribute__((vector_size(LANES * sizeof(int32_t))));

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

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_tiles.h: products of floats in tiles of bytes, as AMX has them: in fixed point.
 *
 * What is multiplied together, up to 256 numbers of a row or of a column (a block), is integers of 24 bits times one power of two, such that the largest
 * of them fills the bits. An integer is three digits to the base 256, each of which has a sign:
 *
 *     x = 2^e (2^16 x2 + 2^8 x1 + x0)        w = 2^f (2^16 w2 + 2^8 w1 + w0)
 *     x w = 2^(e + f) (2^32 x2 w2 + 2^24 (x2 w1 + x1 w2) + 2^16 (x2 w0 + x1 w1 + x0 w2) + 2^8 (x1 w0 + x0 w1))
 *
 * without x0 w0, which is below the last bit. Sums of products of digits are exact, those of the four powers apart; each block gives one float,
 * and sums of blocks are floats. What is below 2^16 is about as much as is lost when x and w become integers. Where many numbers are added, that
 * is little beside what sums of floats lose, and it is left out. A number that is much smaller than the largest of its block has fewer bits. A
 * block of a row with many such numbers is `coarse`: its numbers are the sum of 16 bits, 16 bits of what these leave, and 24 of what those
 * leave, which are three blocks, of other powers of two, that are all multiplied. Weights with many such numbers are not fit for this form.
 *
 * Eight or six products of digits for one of floats, each of which goes 32 times as fast as with AVX-512. One row by itself is multiplied in
 * vectors of bytes, whose sums are the same.
 *
 * Halves (float16) are integers of 16 bits, hence two digits, all four products of which are made: what that leaves of them is small beside what is lost
 * when results are rounded to halves.
 *
 * A block of a row with a NaN gives NaN. Infinities of other rows become zeros. The row is told of, and their products, which are infinite or NaN, are
 * added afterwards, one by one.
 *
 * The source of the form: Ootomo, Ozaki and Yokota, "DGEMM on Integer Matrix Multiplication Unit", 2024.
 *
 * For fixed_bands.c and window_run.c.
 */
#ifndef OURO_FIXED_TILES_H
#define OURO_FIXED_TILES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RT_FIXED_DIGITS = 3, /* of floats; and of halves: */
    RT_FIXED_HALF_DIGITS = 2,
    RT_FIXED_LEVELS = 4, /* powers of two whose sums are kept apart, at most */
    /* Products of digits for one of floats, and for one where many numbers are added; of halves: */
    RT_FIXED_PRODUCTS = 8,
    RT_FIXED_FEWER_PRODUCTS = 6,
    RT_FIXED_HALF_PRODUCTS = 4,
    RT_FIXED_MANY = 1024, /* numbers that are added are many */
    RT_FIXED_STEP = 64,  /* numbers of a row that are multiplied in one step */
    RT_FIXED_STEPS = 4,  /* of a block, at most */
    RT_FIXED_DEPTH = RT_FIXED_STEPS * RT_FIXED_STEP,
    RT_FIXED_ROWS = 16,    /* of a tile, at most */
    RT_FIXED_COLUMNS = 16, /* of a tile */
    RT_FIXED_PAIR = 2 * RT_FIXED_COLUMNS,
    RT_FIXED_DIGIT_BYTES = 1024, /* of one digit of a tile in one step */
    RT_FIXED_SUMS = RT_FIXED_LEVELS * RT_FIXED_ROWS * RT_FIXED_COLUMNS
};

/* Bytes of the digits of a tile in one step, of rows and of columns: the highest digit of all, then the others. */
static inline int64_t rt_fixed_tile_bytes(int digits) {
    return (int64_t)digits * RT_FIXED_DIGIT_BYTES;
}

/* The same of one row by itself. */
static inline int64_t rt_fixed_row_bytes(int digits) {
    return (int64_t)digits * RT_FIXED_STEP;
}

/* Products of digits for one of numbers, so many of which are added. */
static inline int rt_fixed_products(int digits, int64_t count) {
    return digits == RT_FIXED_HALF_DIGITS ? RT_FIXED_HALF_PRODUCTS
           : count < RT_FIXED_MANY        ? RT_FIXED_PRODUCTS
                                          : RT_FIXED_FEWER_PRODUCTS;
}

/* Whether this machine has such tiles; asks the system for leave to use them. Any thread. */
bool rt_fixed_wanted(void);

/* Tiles of the calling thread for `rows` rows, 16 at most; and no more tiles, so that the system need not save them. */
void rt_fixed_begin(int64_t rows);
void rt_fixed_end(void);

/* A block of some rows. */
typedef struct rt_fixed_rows {
    const void *from;
    int digits;    /* they are floats, or halves */
    int64_t step;  /* numbers from one row to the next */
    int64_t plane; /* from 16 of a row to the next 16; 16: they lie side by side */
    int64_t count; /* of rows, RT_FIXED_ROWS at most */
    int64_t depth; /* numbers of a row, RT_FIXED_DEPTH at most */
    bool alone; /* one row, for rt_fixed_multiply_row: rt_fixed_row_bytes a step, of digits with 128 more */
    char *to;   /* rt_fixed_tile_bytes a step, aligned to 64; what no row fills becomes zeros */
    float *
        scales; /* RT_FIXED_ROWS: by which the sums of products of each row are to be multiplied, beside those of the columns */
} rt_fixed_rows;
/* What is to be added to the products of some rows: */
enum {
    RT_FIXED_COARSE = 1,  /* one of them is coarse */
    RT_FIXED_INFINITE = 2 /* one of them has infinities, and no NaN */
};
/* Digits and scales of the rows; says what these lack. */
int rt_fixed_split_rows(const rt_fixed_rows *rows);
/* What that leaves of coarse rows: so many parts, one after another. */
static inline int rt_fixed_rests(int digits) {
    return digits == RT_FIXED_HALF_DIGITS ? 1 : 2;
}
/* Digits and scales of part `part` of these, from 1 on; zeros of the other rows. */
void rt_fixed_split_rest(const rt_fixed_rows *rows, int part);

/* A block of some columns, as a model has them. */
typedef struct rt_fixed_columns {
    const float *from;
    int digits;
    int64_t along, step; /* numbers from one of a column to the next; from one column to the next */
    int64_t count;       /* of columns, RT_FIXED_COLUMNS at most */
    int64_t depth;
    float factor; /* of all */
} rt_fixed_columns;
/* Whether they are finite, and few numbers of each are zeros or much smaller than its largest, if not all are zeros. */
bool rt_fixed_is_fit(const rt_fixed_columns *columns);
/* Their digits, rt_fixed_tile_bytes a step; and scales, RT_FIXED_COLUMNS; and sums of all digits of one place times 128, RT_FIXED_PAIR from one place to the
 * next, the highest first. Into zeroed memory. */
void rt_fixed_split_columns(const rt_fixed_columns *columns, char *to, float *scales, int32_t *sums);

/* Where sums are left that are complete: with the first row, and 16 columns of one tile or two. */
typedef struct rt_fixed_result {
    void *y;              /* floats, or halves, as all else here */
    int64_t row, beside;  /* numbers from one row to the next; from one tile of columns to the next */
    const void *bias;     /* of the columns; or NULL */
    const void *residual; /* lies as y does; or NULL */
    uint16_t there[2];    /* columns that are there; others become zeros, */
    uint16_t stored[2];   /* where they are stored */
    int64_t rows;         /* of all tiles */
    bool limits;
    float low, high;
} rt_fixed_result;

/* Where the digits of rows lie, in bytes: */
typedef struct rt_fixed_places {
    int64_t row, digit; /* from one row, or one digit, to the next */
    int64_t tile;       /* from one tile of rows to the next */
    const int64_t *
        steps; /* from the first row of a tile to where each step of it begins; NULL: tiles lie as rt_fixed_split_rows leaves them */
} rt_fixed_places;

/* C = A B, or C + A B: some tiles of rows, by one or two of columns, which lie after each other. */
typedef struct rt_fixed_tiles {
    int products;           /* see rt_fixed_products */
    const char *a, *b;      /* digits */
    rt_fixed_places places; /* of those of A */
    const float *a_scales;  /* RT_FIXED_ROWS of each tile; NULL: nothing is multiplied by scales */
    const float *b_scales;
    const int32_t *b_sums;
    int64_t count;         /* of tiles of rows */
    int64_t rows;          /* of a tile, as in rt_fixed_begin */
    int64_t steps;         /* of the block */
    bool wide;             /* two tiles of columns */
    float *c;              /* sums, aligned to 64: */
    int64_t c_row, c_tile; /* numbers from one row to the next; from one tile of rows to the next */
    bool add;
    const rt_fixed_result *result; /* C is left there instead, with all that is added; or NULL */
    int32_t *sums;                 /* memory for 2 * RT_FIXED_SUMS, aligned to 64 */
    /* What is multiplied next, so many lines of a cache, which are asked for meanwhile. */
    const char *next;
    int64_t lines;
} rt_fixed_tiles;
void rt_fixed_multiply(const rt_fixed_tiles *tiles);
/* The same of one row that is alone, which asks for nothing, and is left in `c`; needs no tiles. */
void rt_fixed_multiply_row(const rt_fixed_tiles *tiles);
/* Adds the products of the infinities of `rows` with `columns` columns, whose digits are tiles->b, to the first tile of tiles->c. A weight
 * counts as zero where all of its digits are. */
void rt_fixed_add_infinite(const rt_fixed_rows *rows, const rt_fixed_tiles *tiles, int64_t columns);

#endif

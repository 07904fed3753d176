/* SPDX-License-Identifier: Apache-2.0 */
/* block_float.h: constant weights as block floating point: integers of 20 or 24 bits, of which up to 128 of a column share a scale.
 *
 * Why? A product of a few rows takes as long as its weights take to be read. Numbers of 20 bits are five eighths of floats, and lose
 * about 1.5e-6 of what weights are (root mean squares, of weights that are spread as usual); numbers of 24 bits lose a sixteenth of that.
 *
 * A panel is RT_PANEL columns, a block RT_BLOCK_FLOAT_DEPTH rows of it, the last one of a panel fewer. A block begins with a scale for each column. Then come
 * groups of 32 / (bits - 16) rows, each of RT_PANEL words of 32 bits after RT_PANEL words:
 *
 *     words 0 to 15         for each column, the lowest bits of all rows of the group, row 0's lowest in the word
 *     then, for two rows    for each column, the upper 16 bits of the first row, and above them those of the second
 *
 * A word's upper 16 bits, with a row's lowest bits moved to the place below them, are its number times 2^(32 - bits). Rows that are not there are zeros.
 */
#ifndef OURO_BLOCK_FLOAT_H
#define OURO_BLOCK_FLOAT_H

#include "runtime/kernels/portable/float_codes.h"

enum {
    RT_BLOCK_FLOAT_FEWEST = 20, /* bits of a weight; or */
    RT_BLOCK_FLOAT_MOST = 24,
    RT_BLOCK_FLOAT_DEPTH = 128,
    RT_BLOCK_FLOAT_ROWS = 8 /* that a weight is read for at once, at most */
};

/* A packed matrix. */
typedef struct rt_block_floats {
    int bits; /* of a weight: RT_BLOCK_FLOAT_FEWEST or _MOST */
    int64_t depth, columns;
    const char *panels; /* aligned to RT_ALIGNMENT */
} rt_block_floats;

/* Bytes of all panels; false: they are too many. `panels` is not read. */
bool rt_block_floats_bytes(const rt_block_floats *form, size_t *bytes);

/* The form that "ouro.weights_bits" asks for, for a matrix of these extents, and its bytes; false: it asks for none. */
bool rt_block_floats_asked(const op_attributes *attributes, int64_t depth, int64_t columns,
                           rt_block_floats *form, size_t *bytes);

/* What weights lose, as root mean squares: of all together, over that of the weights; and, of the column that loses most, over the mean size of
 * its weights, of which the furthest one of each block, which sets the scale, does not count: all others may be small beside it, and lose nearly
 * everything. */
typedef struct rt_block_float_loss {
    double all, column;
} rt_block_float_loss;

/* False: the matrix has weights that are not finite, or blocks that are too small or too large for a scale. */
bool rt_block_floats_lose(int bits, const rt_code_matrix *matrix, rt_block_float_loss *loss);

/* Packs a matrix; `packed` has rt_block_floats_bytes, zeroed. False where rt_block_floats_lose is: then it holds a part. */
bool rt_block_floats_pack(int bits, const rt_code_matrix *matrix, void *packed);

/* The weights of a panel from `from` on, the beginning of a block, to the end of that block: [rows][RT_PANEL]. */
void rt_block_floats_decode(const rt_block_floats *weights, int64_t panel, int64_t from, float *to);

/* All weights of a column, `depth` of them. */
void rt_block_floats_column(const rt_block_floats *weights, int64_t column, float *to);

/* y[r][j] = row r of x times column j, of `count` panels from panel `first` on, for up to RT_BLOCK_FLOAT_ROWS rows. y[r] is where the results of
 * panel `first` go, RT_PANEL a panel. Columns that are not there have results, too: 0, or NaN. The results of a row depend neither on `first`
 * nor on `count`. */
void rt_block_floats_rows(const rt_block_floats *weights, const float *const *x, int64_t rows, int64_t first,
                          int64_t count, float *const *y);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* integer_filters.h: constant filters of integer convolutions, arranged when a plan is compiled, and blocks of their products.
 *
 * The rows of a product are filters, its columns positions, its depth what a filter sees, four bytes at a time. Filters are signed bytes, the
 * image unsigned ones, as AVX-512 VNNI multiplies them; what that and zero points make of the sums is put right in what sums begin with.
 *
 * Arranged filters, group after group: eight filters, or of what is left 4, 2, 1, side by side, quadruple after quadruple. After all groups stand the
 * sums of each filter. A quadruple is of four channels that one window element sees, where channels come near to a multiple of four; then all
 * window elements of these follow each other. Else it is of four elements in the order in which they lie. What fills up is 0.
 */
#ifndef OURO_INTEGER_FILTERS_H
#define OURO_INTEGER_FILTERS_H

#include "runtime/kernels/portable/integer_product.h"

enum { RT_FILTERS_STRIP = 8 /* filters side by side */ };

/* The filters of one group see so many channels through so many window elements. */
typedef struct rt_filters_shape {
    int64_t channels, taps;
} rt_filters_shape;

/* Whether quadruples are of channels. */
bool rt_filters_by_channels(rt_filters_shape shape);
/* How many quadruples a filter has. */
int64_t rt_filters_quads(rt_filters_shape shape);
/* Bytes of `filters` arranged filters, of all groups; false where there are too many, or none. */
bool rt_filters_bytes(int64_t filters, rt_filters_shape shape, size_t *bytes);
/* Arranges dense filters, of int8 or uint8, of `groups` groups. */
void rt_filters_arrange(op_dtype dtype, const uint8_t *w, int64_t groups, int64_t filters_each,
                        rt_filters_shape shape, void *arranged);
/* Whether this machine is faster with arranged filters: it multiplies bytes. */
bool rt_filters_wanted(void);
/* To what makes unsigned bytes of these. */
static inline uint8_t rt_filters_flip(op_dtype dtype) {
    return dtype == OP_INT8 ? 0x80 : 0;
}

/* Products of some filters of one group at some positions. */
typedef struct rt_filters_block {
    const int8_t *filters; /* arranged: the first one, which is a multiple of RT_FILTERS_STRIP of its group */
    const int32_t *sums;   /* of each filter */
    const int16_t *zeros;  /* of each filter */
    const int32_t *biases; /* of each filter; NULL: none */
    op_dtype filter_dtype, image_dtype;
    int16_t image_zero;
    int64_t rows, columns, depth, quads; /* depth: without what fills up */
    int64_t step; /* quadruples from those of four channels to those of the next four */
    bool tiles;   /* they are multiplied in tiles: see filter_tiles.h */
    /* Where the image lies as quadruples, unsigned, 0 where they are filled up: those of RT_INTEGER_PANEL columns, one after another, begin
     * panels[number] + offsets[quadruple] bytes after `image`. NULL: `fill` copies them. */
    const uint8_t *image;
    const int64_t *panels, *offsets;
    /* Puts quadruples [first, first + count) of all panels where they are wanted: those of a panel follow each other, 4 * RT_INTEGER_PANEL bytes
     * each, and then come those of the next panel. */
    void (*fill)(const void *context, int64_t first, int64_t count, uint8_t *panels);
    const void *context;
    /* As in rt_integer_block; biases are in the sums. */
    void (*finish)(const void *results, int64_t row, int64_t rows, const int32_t *sums, int64_t pitch);
    const void *results;
} rt_filters_block;

/* How many columns a block should have. */
int64_t rt_filters_columns(int64_t quads, bool filled);
/* Scratch of a block, a multiple of RT_ALIGNMENT; `filled`: with what `fill` copies. */
size_t rt_filters_scratch(int64_t rows, int64_t columns, int64_t quads, bool filled);
void rt_filters_block_run(const rt_filters_block *block, void *scratch);

/* Four lines of `count` bytes side by side, each byte changed by `flip`: quadruples of one byte of each. NULL: a line of zeros. Panels are
 * `distance` bytes apart. */
void rt_quads_interleave(const uint8_t *const lines[4], int64_t count, uint8_t flip, uint8_t *panels,
                         int64_t distance);

/* Rows of some channels, four at most, as quadruples one after another. Steps are in bytes. */
typedef struct rt_quad_rows {
    const uint8_t *from;
    int64_t channels, channel_step, rows, row_step, columns, column_step;
    uint8_t *to;
    int64_t to_step;
} rt_quad_rows;
void rt_quads_interleave_rows(const rt_quad_rows *rows, uint8_t flip);

#endif

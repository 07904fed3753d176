/* SPDX-License-Identifier: Apache-2.0 */
/* row_maps.h: which rows of its inputs does an operator read, to compute some rows of its outputs?
 *
 * A row is one index of axis 2, the first spatial axis: of [N, C, H, W] the H rows, of signals [N, C, L] single points.
 */
#ifndef OURO_BANDS_ROW_MAPS_H
#define OURO_BANDS_ROW_MAPS_H

#include "ir/ir.h"

enum { BAND_AXIS = 2 };

/* Rows [first, end). Unclipped ones may lie before 0 and after the last: padding. */
typedef struct band_rows {
    int64_t first, end;
} band_rows;

/* Row o of the result sees the rows [o * stride - before, o * stride - before + extent) of the input; at most `after` rows of
 * padding are asked for after the last row. Where neither looks further, stride and extent are 1. Where one row of the input
 * makes several of the result, it sees row o / up instead, and so many rows above and below that one, and is made in multiples of `up` rows. */
typedef struct band_window {
    int64_t stride, extent, before, after, up, above, below;
} band_window;

typedef enum band_reading {
    BAND_READS_NOTHING, /* an absent input */
    BAND_READS_ALL,     /* weights, limits, one number a channel: the same for every row */
    BAND_READS_ROWS
} band_reading;

/* Element by element, with broadcasting: nothing that looks further than its own place. */
bool band_is_elementwise(op_code code);
bool band_is_reduction(op_code code); /* along axes */
/* A convolution or a pool; and the weights of a convolution, NULL for others. */
bool band_is_window(op_code code);
const ir_value *band_window_weights(const ir_node *node);
/* Can the node be computed some rows at a time, with the same numbers? All of its outputs then have the same number of rows.
 * False where it cannot, or nobody has said how. `arena` is for what is read on the way. */
bool band_node_supported(const ir_node *node, base_arena *arena);
/* Of a node that is supported: how it reads input `index`. */
band_reading band_node_reading(const ir_node *node, uint32_t index);
/* Of a node that is supported: the window through which it sees the inputs that it reads by rows. */
bool band_node_window(const ir_node *node, base_arena *arena, band_window *window);
/* A Gather of rows, several to one of the image, in their order or nearly so. */
bool band_gathers_rows(const ir_node *node);
/* Of a Slice that is supported: which of its bounds is that of the rows; -1: it takes all of them. */
int64_t band_slice_entry(const ir_node *node);
/* Products of few rows are summed in another order: no band of one may have fewer than these, unless the whole has. */
enum { BAND_FEWEST_OF_PRODUCT = 4 };
bool band_too_few(const ir_node *node, int64_t rows);
/* The rows that the results have. */
int64_t band_node_rows(const ir_node *node);
/* Values of both types are the same bytes. */
bool band_same_type(const op_type *a, const op_type *b);

/* The multiple of `of` at or below the number; negative ones, too. */
static inline int64_t band_round_down(int64_t number, int64_t of) {
    const int64_t rest = number % of;
    return number - (rest < 0 ? rest + of : rest);
}
static inline int64_t band_round_up(int64_t number, int64_t of) {
    return -band_round_down(-number, of);
}

/* What rows `of` of the result see, unclipped. */
static inline band_rows band_window_rows(const band_window *window, band_rows of) {
    if (window->up > 1)
        return (band_rows){band_round_down(of.first, window->up) / window->up - window->above,
                           band_round_up(of.end, window->up) / window->up + window->below};
    return (band_rows){of.first * window->stride - window->before,
                       (of.end - 1) * window->stride - window->before + window->extent};
}

#endif

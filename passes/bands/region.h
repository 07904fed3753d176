/* SPDX-License-Identifier: Apache-2.0 */
/* region.h: nodes that are computed band by band, and which rows of what each band makes.
 *
 * Band i makes of each node the rows [first, end) that no band before has made, as far as the bands from i on need them. What is
 * made at the end follows from the results: band i brings the first result to row (i + 1) * height; every other node is as far
 * ahead as its readers look ahead. So the bands begin before band 0, with rows that are made ahead.
 *
 * Of each node the rows from `low` on are kept when a band begins: what it and later ones still read.
 *
 * In the middle all these numbers grow by the same amount from band to band, the node's advance: these bands are the loop.
 * Before and after it, where padding and ends cut rows off, each band is made by nodes of its own.
 */
#ifndef OURO_BANDS_REGION_H
#define OURO_BANDS_REGION_H

#include "passes/bands/row_maps.h"

typedef struct band_node {
    ir_node *node;
    band_window window;
    int64_t rows;    /* of the whole result */
    int64_t needed;  /* rows from here on nobody reads */
    int64_t advance; /* rows a band, in the loop */
    bool exported;   /* somebody outside of the region reads a result: it is made whole */
    bool sink;       /* nobody inside reads a result */
    /* By band, from 0: */
    band_rows *made; /* first == end: nothing */
    int64_t *low;    /* rows before this one are not read any more; one more entry than bands */
    int64_t *high;   /* how far it has been made when the band ends */
} band_node;

typedef struct band_region {
    ir_graph *graph;
    size_t count;
    band_node *nodes; /* in the order of the graph */
    uint32_t *places; /* by node id: index in nodes + 1; 0: outside */
    int64_t height;
    int64_t band_count;
    int64_t loop_first, loop_end; /* bands [first, end) are the loop; empty where there is none */
} band_region;

/* The nodes from `first` to `last` of one graph's list, as a region. *region lives in `arena`, and *fits says whether they can
 * be banded at this height: all are supported, read each other by rows only, and advance by whole rows. False when memory runs
 * out. */
bool band_region_new(ir_node *first, ir_node *last, int64_t height, base_arena *arena, band_region **region,
                     bool *fits);

/* The node of the region that makes the value; NULL: it comes from outside. */
const band_node *band_region_maker(const band_region *region, const ir_value *value);
/* The value from outside that `result`, which is read outside, can be written over: from the region on only its own nodes read it, by rows, and none
 * reads rows of it after they were written. NULL: there is none. */
ir_value *band_region_written_over(const band_region *region, const ir_value *result);
/* What node `n` reads of an input that it reads by rows, to make `made`: unclipped. */
band_rows band_region_reads(const band_node *node, uint32_t input, band_rows made);
/* The rows that are there, of those. */
band_rows band_clip(band_rows rows, int64_t count);

#endif

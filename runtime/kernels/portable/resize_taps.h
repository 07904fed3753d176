/* SPDX-License-Identifier: Apache-2.0 */
/* resize_taps.h: which positions of its input Resize looks at along an axis, and how much each of them counts. */
#ifndef OURO_RESIZE_TAPS_H
#define OURO_RESIZE_TAPS_H

#include "ir/operators/op.h"

enum { RT_RESIZE_TAPS = 4 }; /* of a filter that is not stretched */

typedef enum coordinates {
    HALF_PIXEL,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    NN_HALF_PIXEL,
    CROP,
    HALF_PIXEL_SYMMETRIC
} coordinates;

/* BY_SCALE is what Resize 10 means: up where the axis shrinks, else down. */
typedef enum rounding { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, BY_SCALE } rounding;

typedef enum aspect { STRETCH, NOT_LARGER, NOT_SMALLER } aspect;

/* A source of an output position. */
typedef struct tap {
    int64_t index; /* -1 in the first of a position: it lies outside of the cropped image */
    double weight;
} tap;

typedef struct resize_state {
    op_dtype dtype;
    size_t element;
    int32_t rank, taps; /* taps: 1, 2 or 4, or of stretched filters as many as the widest has */
    int64_t from[OP_MAX_RANK], to[OP_MAX_RANK], strides[OP_MAX_RANK];
    size_t tables[OP_MAX_RANK]; /* where the axis' table begins, in taps */
    size_t all_taps;            /* of all axes; after them in the scratch, of the last axis again: */
    bool points;                /* the last axis is that of channels, or of a block of them, and stays */
    bool by_rows;               /* indices and weights (rt_across) as rows of numbers, for loops in vectors */
    bool may_join; /* and the last axis may become one with the axis before, if it stays as it is */
    coordinates coordinates;
    rounding rounding;
    bool exclude_outside, sized, nearest, linear, stretched;
    aspect aspect;
    /* Which entry of scales, sizes and regions an axis has; -1: none, it stays. */
    int32_t named, entries[OP_MAX_RANK];
    double cubic, extrapolation;
} resize_state;

/* What the attributes say, and in which order the other inputs speak of axes; extents, strides and tables are not set. */
base_status rt_resize_read(const op_call *call, resize_state *state, base_report *report);

/* Fills the tables of all axes: for each output position `state->taps` taps. */
void rt_resize_fill(const resize_state *state, const op_tensor *inputs, uint32_t input_count, tap *tables);

#endif

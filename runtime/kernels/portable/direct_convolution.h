/* SPDX-License-Identifier: Apache-2.0 */
/* direct_convolution.h: what direct_convolution.c, which knows operators, direct_weights.c, which packs weights, and direct_points.c and
 * direct_rows.c, which run, share. */
#ifndef OURO_DIRECT_CONVOLUTION_H
#define OURO_DIRECT_CONVOLUTION_H

#include "ir/operators/window.h"
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/direct_tiles.h"
#include "runtime/kernels/portable/kernels.h"

enum { RT_DIRECT_DIMENSIONS = 3 };

typedef struct rt_direct {
    rt_direct_shape tiles;
    int64_t images, channels, filters, groups; /* channels and filters of one group */
    op_window window;                          /* of three dimensions */
    op_layout from, to;
    bool signal; /* of one dimension */
    size_t packed_bytes;
    bool bias, residual, computed; /* computed: the weights are no constant */
    rt_activation activation;
    bool finished; /* tiles apply the activation */
    /* Once the extents of images are known: */
    int64_t image_step,
        group_step; /* floats from an image to the next, from one group's channels to the next one's */
    int64_t pixel, channels_step; /* from a point to the next, from one part of the channels to the next */
    int64_t y_image_step, y_group_step, y_pixel,
        y_panel;                                 /* the same of the result; from 16 filters to the next */
    bool spots;                                  /* a tile may end one row and begin the next */
    bool rows;                                   /* lanes are points (direct_rows.h) */
    /* The same convolution of a copy in scratch, each row of which has zeros at its ends; NULL: none is made. Of rows: its places alone. */
    const struct rt_direct *margined;
    size_t copy_bytes; /* of all images; 0: none */
    const int64_t
        *places; /* floats from the window's first element, by element; of maps, by channel, by element */
} rt_direct;

typedef struct rt_direct_job {
    const rt_direct *shape;
    const float *x, *weights, *bias, *residual;
    float *y;
    bool finite; /* all weights are */
} rt_direct_job;

/* Some panels of one group: what points are made of in turn. */
typedef struct rt_direct_panels {
    int64_t group, first, end;
} rt_direct_panels;

/* Panels of 16 filters of one group. */
static inline int64_t rt_direct_panel_count(const rt_direct *s) {
    return (s->filters + RT_DIRECT_LANES - 1) / RT_DIRECT_LANES;
}

static inline int64_t rt_direct_product(const int64_t extents[RT_DIRECT_DIMENSIONS]) {
    return extents[0] * extents[1] * extents[2];
}

/* Images are read map by map: each channel of each element of the window is an element then. */
static inline bool rt_direct_reads_maps(const rt_direct *s) {
    return s->from == OP_LAYOUT_ROW_MAJOR;
}

static inline bool rt_direct_is_one_row(const rt_direct *s) {
    return s->window.output[0] == 1 && s->window.output[1] == 1;
}

/* Results along dimension d from this one on have windows that reach beyond the end of the image. */
static inline int64_t rt_direct_inside_end(const rt_direct *s, int d) {
    const int64_t furthest =
        s->window.input[d] - 1 - (s->window.kernel[d] - 1) * s->window.dilation[d] + s->window.before[d];
    return furthest < 0 ? 0 : furthest / s->window.stride[d] + 1;
}

/* Copies weights from their order in ONNX to that of the tiles, and back. `packed` has shape->packed_bytes bytes. */
void rt_direct_pack(const rt_direct *shape, const float *plain, float *packed, int threads);
void rt_direct_unpack(const rt_direct *shape, const float *packed, float *plain);
/* As rt_direct_pack has found it. */
bool rt_direct_are_finite(const rt_direct *shape, const float *packed);

/* The same of weights that another kernel has packed, for which it notes what rt_direct_are_finite is to say. */
void rt_direct_note_finite(const rt_direct *shape, float *packed);

/* For kernels that multiply points as a part of what they do: filters at single points of images in blocks or with channels innermost. What
 * they make lies in blocks. False where that is too large. */
bool rt_direct_set_points(rt_direct *shape, op_layout from, int64_t channels, int64_t filters);
/* Of one image of so many pixels, `count` points in a row. What they make has a capacity of so many points. */
void rt_direct_set_place(rt_direct *shape, int64_t pixels, int64_t count, int64_t capacity);
void rt_direct_run_all(const rt_direct_job *job, int threads);

/* What is dealt out to threads: rows of results, or tiles of points where there is one row. */
int64_t rt_direct_units(const rt_direct *shape);

/* Makes these panels of a member's part of all units. */
void rt_direct_run_part(const rt_direct_job *job, const rt_direct_panels *panels, int member, int members);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* half_bands.h: convolutions of 16 bits on images whose channels lie side by side (in blocks of 16, or innermost), or on row-major ones
 * of a few channels: bands of rows are widened to floats, into scratch of a bounded size, and multiplied (half_steps.h).
 *
 * Padding becomes zeros in the scratch. Neither images nor weights are ever floats as a whole. Weights: [group][panel of 16 filters] as
 * half_steps.h says; they depend neither on the extents of images nor on the machine, and the size of the scratch does not depend on the
 * machine. Results depend neither on the bands nor on the number of threads.
 */
#ifndef OURO_HALF_BANDS_H
#define OURO_HALF_BANDS_H

#include "runtime/kernels/portable/half_steps.h"

enum {
    RT_HALF_TAPS = 256 /* elements of a window, at most */
};

typedef struct rt_half_shape {
    op_dtype dtype;
    op_layout from, to;
    int64_t images, group, channels, filters; /* channels and filters of one group */
    int64_t all_channels, all_filters;
    bool by_channel; /* each by itself: a block of them is a group */
    /* Height and width. A window of one element skips what it does not see: `skip` pixels lie between those that count as the image. */
    int64_t input[2], output[2], kernel[2], stride[2], dilation[2], before[2], skip[2];
    int64_t input_size, output_size; /* pixels of a map as it lies */
    int64_t source_width, output_width;
    /* Which pixels of the output map these are: the first, and every so many. `output` says how many. */
    int64_t first[2], step[2];
    int64_t blocks, panels; /* of a group */
    int64_t panel_elements;
    int64_t rows, columns;          /* outputs of a band */
    int64_t band_rows, phase_width; /* of its scratch */
    int64_t pixel;                  /* elements of a pixel there */
    int64_t together;               /* panels that are used for all bands before others are */
    int32_t taps[RT_HALF_TAPS];
    bool bias, residual;
    rt_activation activation;
    bool limits;
    float low, high;
    const rt_half_steps *steps;
} rt_half_shape;

typedef struct rt_half_job {
    const rt_half_shape *shape;
    const uint16_t *x, *weights, *bias, *residual;
    uint16_t *y;
    char *scratch;
    size_t each; /* bytes of scratch for a thread */
} rt_half_job;

/* Whether the channels lie side by side. */
static inline bool rt_half_is_side_by_side(op_layout layout) {
    return layout == OP_LAYOUT_NC16 || layout == OP_LAYOUT_NHWC;
}

/* From dtype, layouts, channels, filters, groups, the window and the activation: what weights are packed into. False: no convolution of
 * this kind. */
bool rt_half_set_kind(rt_half_shape *shape);
/* Elements of the packed weights of all filters. */
static inline int64_t rt_half_elements(const rt_half_shape *shape) {
    return shape->group * shape->panels * shape->panel_elements;
}
/* Where a weight lies among them. */
int64_t rt_half_place(const rt_half_shape *shape, int64_t filter, int64_t channel, int64_t tap);
/* Once the extents are known, with output_size, output_width, first and step: bands, and the bytes of scratch of a thread. False: too
 * large. */
bool rt_half_set_extents(rt_half_shape *shape, size_t *bytes);
void rt_half_run(const rt_half_job *job, int threads);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* split_bands.h: convolutions and products of matrices in tiles of bfloat16 parts (split_tiles.h), once their kernels have read them: what they take,
 * how weights lie, and how they run. For split_convolution.c and split_product.c.
 */
#ifndef OURO_SPLIT_BANDS_H
#define OURO_SPLIT_BANDS_H

#include "runtime/kernels/base/kernel.h"
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/split_tiles.h"

enum { RT_SPLIT_MOST_PHASES = 9 };

/* Of images whose channels lie innermost, in OP_LAYOUT_NC16 or OP_LAYOUT_NHWC. A matrix is an image one point wide, whose rows are its points, and a
 * signal becomes one, so that it can be cut into bands. */
typedef struct rt_split_shape {
    /* What the kernel reads: */
    op_layout layout;
    int64_t images, channels, filters;
    int64_t input[2], output[2], kernel[2], stride[2], dilation[2], before[2]; /* height, width */
    bool bias, residual;
    bool matrix; /* a product */
    rt_activation activation;
    /* What rt_split_complete makes of that: */
    int threads;
    int64_t chunks;                   /* of 32 channels */
    int64_t groups;                   /* of 32 filters */
    int64_t taps, steps;              /* elements of the window; those of all chunks */
    int phases[RT_SPLIT_MOST_PHASES]; /* remainders that the window sees: row * stride + column */
    int64_t phase_count;
    bool flat;         /* each point sees itself: all are one row */
    bool upright;      /* a signal, one point wide */
    int64_t width;     /* points of a split row */
    int64_t more_rows; /* that a band sees beside its own */
    bool limits;       /* the activation is done with these: */
    float low, high;
    /* Of the blocks into which it cuts the work: */
    int64_t band_rows, bands; /* of the result; of all images */
    int64_t plane, a_bytes;   /* of one chunk of one phase, of all */
    bool parted;              /* steps pass over all points some at a time */
    bool apart;               /* threads have bands of their own */
    bool open;                /* nobody has said into how many: rt_split_prepare chooses */
    /* And rt_split_prepare: */
    const int64_t *places; /* by step: bytes from a point to what it multiplies */
} rt_split_shape;

/* Completes what the kernel has read of the application, whose attribute ouro.blocks says into how many bands of rows each image is cut, or is not
 * there. False where this is not for tiles, or sizes do not fit into a machine. */
bool rt_split_complete(rt_split_shape *shape, const op_call *call, const rt_environment *environment);

/* Bytes of the weights. */
size_t rt_split_packed_bytes(const rt_split_shape *shape);

/* rt_kernel.estimate, but for rt_cost.packed_bytes. Changes the bands of the shape. */
bool rt_split_estimate(rt_split_shape *shape, const rt_environment *environment, size_t scratch_limit,
                       rt_cost *cost);

/* Floats from one weight to the next, as the model has them. */
typedef struct rt_split_weights {
    const float *data;
    int64_t filter, channel; /* the elements of a window lie side by side */
    float scale;
} rt_split_weights;
/* Into zeroed memory. */
void rt_split_pack(const rt_split_shape *shape, const rt_split_weights *weights, float *packed);

/* Sets what running takes. Where nobody has said into how many bands each image is cut, those are chosen that are fastest and whose parts of an image
 * take no more than twice what one image, its result and the weights take. The shape lives as long as `prepared`, in `arena`. Of a run: inputs are the
 * image, weights, bias, residual. */
base_status rt_split_prepare(rt_split_shape *shape, const rt_environment *environment, base_arena *arena,
                             rt_prepared *prepared, base_report *report);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_bands.h: products in fixed point (fixed_tiles.h) by constant weights, once their kernels have read them: what they take, how weights lie, and how
 * they run. For fixed_product.c and fixed_convolution.c.
 */
#ifndef OURO_FIXED_BANDS_H
#define OURO_FIXED_BANDS_H

#include "runtime/kernels/base/kernel.h"
#include "runtime/kernels/portable/activation.h"

/* Rows times weights. The rows are points of images whose channels lie innermost, in OP_LAYOUT_NC16 or OP_LAYOUT_NHWC; a matrix is one image. */
typedef struct rt_fixed_shape {
    /* What the kernel reads: */
    op_layout layout;
    int digits;             /* of floats; or of halves: then rows, weights, bias and results are halves */
    int64_t images, points; /* less than 0: only a run knows how many */
    int64_t depth, columns;
    bool matrix; /* a product */
    bool bias, residual;
    rt_activation activation;
    /* What rt_fixed_complete makes of that: */
    int threads;
    int64_t steps, blocks; /* of the depth */
    int64_t pairs;         /* of tiles of columns */
    bool limits;           /* the activation is done with these: */
    float low, high;
    bool distant;                        /* weights come from memory in each run: "ouro.weights_bits" */
    int64_t part_rows, bands, band_rows; /* of a thread at most; into which it cuts them; of such a band */
    bool open;                           /* nobody has said into how many bands */
} rt_fixed_shape;

/* Completes what the kernel has read of the application, whose attribute ouro.blocks says into how many bands each thread cuts its rows; else they have
 * 128 rows. False where sizes do not fit into a machine. */
bool rt_fixed_complete(rt_fixed_shape *shape, const op_call *call, const rt_environment *environment);

/* Bytes of the weights. */
size_t rt_fixed_packed_bytes(const rt_fixed_shape *shape);

/* rt_kernel.estimate, but for rt_cost.packed_bytes: cost->blocks is 0 where no number of bands fits into the scratch. Changes the bands of the shape. */
void rt_fixed_estimate(rt_fixed_shape *shape, const rt_environment *environment, size_t scratch_limit,
                       rt_cost *cost);

/* Where nobody has said into how many bands: those that are fastest with scratch of no more than twice what one image, its result and the weights
 * take. For rows that are known. */
void rt_fixed_settle(rt_fixed_shape *shape, const rt_environment *environment);

/* Weights as the model has them: numbers from one of a column to the next, from one column to the next; what all are multiplied with. */
typedef struct rt_fixed_weights {
    const void *data;
    int64_t depth, column;
    float factor;
} rt_fixed_weights;
/* Whether all of them are fit for this form. */
bool rt_fixed_suits(const rt_fixed_shape *shape, const rt_fixed_weights *weights);
/* Into zeroed memory. */
void rt_fixed_pack(const rt_fixed_shape *shape, const rt_fixed_weights *weights, void *packed);

/* Sets what running takes, for a shape whose rows are known and which lives as long as `prepared`. Of a run: inputs are the rows, weights, bias,
 * residual. */
void rt_fixed_prepare(rt_fixed_shape *shape, rt_prepared *prepared);

#endif

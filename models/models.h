/* SPDX-License-Identifier: Apache-2.0 */
/* models.h: the example models. Each function builds one; the caller frees it. */
#ifndef MODELS_MODELS_H
#define MODELS_MODELS_H

#include "models/builder.h"

/* ---- convolutional networks (convolutional.c) ---------------------------------------------------------- */
model *
model_mobilenet_v2(void); /* 1x3x224x224 -> 1000 classes; 53 convolutions, depthwise, residuals, Clip 6 */
model *
model_resnet18(void); /* 1x3x224x224 -> 1000 classes; BatchNormalization left to the compiler to fold */
model *model_branches(void); /* a small Inception- and DenseNet-like net: Concat, Split, pooling */
model *model_way_back(void); /* products, each of them used again on the way back: what spilling is for */

/* ---- control (control.c) ------------------------------------------------------------------------------- */
model *model_convolution_recurrence(void); /* Loop of 8: x <= relu(conv(x)) */
model *model_newton(void);                 /* data-dependent while: square roots by Newton's method */
model *model_swap(void);                   /* Loop: (a, b) <= (b, a + b) */
model *model_switch(void);                 /* If whose branches are convolutions of different depth */

/* ---- loops (loops.c) ----------------------------------------------------------------------------------- */
model *model_counter(void);  /* Loop: a scalar, x <= x + 1, a million times */
model *model_rnn_cell(void); /* Scan of 100: h <= tanh(x[t] W + h R + b), every h stacked */
model *model_rotation(void); /* Loop: (a, b, c) <= (b, c, a) */
model *model_delay(void);    /* Loop: x[t] = x[t - 4] W */
model *model_nested(void);   /* Loop in Loop: z = x + x W W W */
model *
model_counted_swap(void); /* as often as an input says, large values, which the caller gets: two that swap, */
model *model_counted_rotation(void); /* three that rotate, */
model *model_counted_branches(void); /* If in Loop, */
model *model_counted_best(void);     /* and one that a branch keeps beside the one that goes on */
model *model_branching_loop(void);   /* If in Loop: every other iteration does something else */
model *model_reverse_scan(void);     /* Scan: one input forwards and backwards, outputs likewise */
model *model_beam_search(void);      /* Loop: the carried states are gathered in the order of their scores */
model *model_growing_cache(void);    /* Loop: attention over keys that grow by a row in each iteration */
model *
model_attention_decoding(void); /* Loop: attention of four heads over caches that grow along an inner axis */
model *model_decoder(void);     /* a step of a transformer with caches: what --state is for */
model *model_greedy_decoding(void); /* Loop: embedding, argmax, a list of tokens, until the end token */

#endif

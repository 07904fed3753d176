/* SPDX-License-Identifier: Apache-2.0 */
/* activation.h: the function that a Conv, MatMul or Gemm applies to its result (the internal attributes
 * ouro.activation, ouro.alpha, ouro.beta).
 */
#ifndef OURO_ACTIVATION_H
#define OURO_ACTIVATION_H

#include "ir/operators/op.h"

typedef enum rt_activation_kind {
    RT_ACTIVATION_NONE = 0,
    RT_ACTIVATION_RELU,
    RT_ACTIVATION_LEAKY_RELU, /* alpha: the slope below zero */
    RT_ACTIVATION_CLIP,       /* alpha: minimum, beta: maximum */
    RT_ACTIVATION_SIGMOID,
    RT_ACTIVATION_TANH,
    RT_ACTIVATION_SWISH, /* x / (1 + exp(-alpha x)) */
    RT_ACTIVATION_HARD_SWISH,
    RT_ACTIVATION_GELU,     /* of MatMul and Gemm, as the next */
    RT_ACTIVATION_GELU_TANH /* the approximation by tanh */
} rt_activation_kind;

typedef struct rt_activation {
    rt_activation_kind kind;
    float alpha, beta;
} rt_activation;

/* Reads the attributes. False where the named function is none of the above. */
bool rt_activation_read(const op_attributes *attributes, rt_activation *activation);

/* Whether the function only limits what it is given to [low, high], one of which may be infinite (none: both). */
bool rt_activation_limits(const rt_activation *activation, float *low, float *high);

double rt_activation_value(const rt_activation *activation, double value);
/* In place, on `count` elements: the same bits on every machine. */
void rt_activation_floats(const rt_activation *activation, float *data, int64_t count);
/* The same with a multiplication and an addition rounded once, where the machine can: faster, and other last digits. */
void rt_activation_fused(const rt_activation *activation, float *data, int64_t count);
/* Whether rt_activation_fused has a form of its own here, which takes less time after a convolution of oneDNN than oneDNN does
 * within it, and leaves zeros as they are. */
bool rt_activation_is_fast_apart(const rt_activation *activation);

#endif

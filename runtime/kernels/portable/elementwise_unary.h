/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_unary.h: the function of an operator that maps each element of one tensor by itself. */
#ifndef OURO_ELEMENTWISE_UNARY_H
#define OURO_ELEMENTWISE_UNARY_H

#include "runtime/kernels/portable/kernels.h"

/* What the operators with parameters need, in each type that they come in. */
typedef struct rt_unary_parameters {
    float alpha, beta; /* attributes; beta is called gamma in Selu */
    float low, high;   /* Clip of float and half precision */
    double low_double, high_double;
    int64_t low_signed, high_signed;
    uint64_t low_unsigned, high_unsigned;
} rt_unary_parameters;

typedef void rt_unary_function(void *to, const void *from, int64_t count,
                               const rt_unary_parameters *parameters);

/* The form of this operator on floats for AVX-512, which gives the same bits unless it is `contracted`: then products and their sums are rounded
 * once. NULL: there is none, or the machine has not AVX-512. */
rt_unary_function *rt_unary_512(op_code code, bool contracted);

#endif

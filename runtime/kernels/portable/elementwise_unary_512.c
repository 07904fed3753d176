/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_unary_512.c: see elementwise_unary.h. */
#include "runtime/kernels/portable/elementwise_unary.h"
#include "runtime/kernels/portable/vector_math_512.h"

#ifdef RT_HAS_MATH_512
#define UNARY_512(name, expression)                                                                          \
    RT_MATH_512 static void name##_512(void *to, const void *from, int64_t count,                            \
                                       const rt_unary_parameters *parameters) {                              \
        float *y = to;                                                                                       \
        const float *x = from;                                                                               \
        const __m512 alpha = _mm512_set1_ps(parameters->alpha);                                              \
        (void)alpha;                                                                                         \
        RT_MAP_512(y, x, count, expression)                                                                  \
    }
UNARY_512(exp, rt_exp_16(a))
UNARY_512(sigmoid, rt_sigmoid_16(a))
UNARY_512(tanh, rt_tanh_16(a))
UNARY_512(softplus, rt_softplus_16(a))
UNARY_512(swish, rt_swish_16(a, alpha))

rt_unary_function *rt_unary_512(op_code code) {
    if (!__builtin_cpu_supports("avx512f")) return NULL;
    switch (code) {
    case OP_EXP:
        return exp_512;
    case OP_SIGMOID:
        return sigmoid_512;
    case OP_SOFTPLUS:
        return softplus_512;
    case OP_SWISH:
        return swish_512;
    case OP_TANH:
        return tanh_512;
    default:
        return NULL;
    }
}
#else
rt_unary_function *rt_unary_512(op_code code) {
    (void)code;
    return NULL;
}
#endif

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
#define UNARY_512_BOTH(name, ...)                                                                            \
    UNARY_512(name, rt_##name##_16(false, __VA_ARGS__))                                                      \
    UNARY_512(contracted_##name, rt_##name##_16(true, __VA_ARGS__))
UNARY_512_BOTH(exp, RT_EXP_LEAST_512, a)
UNARY_512_BOTH(sigmoid, a)
UNARY_512_BOTH(tanh, a)
UNARY_512_BOTH(softplus, a)
UNARY_512_BOTH(swish, a, alpha)

rt_unary_function *rt_unary_512(op_code code, bool contracted) {
    if (!__builtin_cpu_supports("avx512f")) return NULL;
    switch (code) {
    case OP_EXP:
        return contracted ? contracted_exp_512 : exp_512;
    case OP_SIGMOID:
        return contracted ? contracted_sigmoid_512 : sigmoid_512;
    case OP_SOFTPLUS:
        return contracted ? contracted_softplus_512 : softplus_512;
    case OP_SWISH:
        return contracted ? contracted_swish_512 : swish_512;
    case OP_TANH:
        return contracted ? contracted_tanh_512 : tanh_512;
    default:
        return NULL;
    }
}
#else
rt_unary_function *rt_unary_512(op_code code, bool contracted) {
    (void)contracted;
    (void)code;
    return NULL;
}
#endif

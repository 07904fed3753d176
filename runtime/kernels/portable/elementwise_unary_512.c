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
UNARY_512(erf, rt_erf_16(a))
UNARY_512(exp, rt_exp_16(a))
UNARY_512(sigmoid, rt_sigmoid_16(a))
UNARY_512(tanh, rt_tanh_16(a))
UNARY_512(softplus, rt_softplus_16(a))
UNARY_512(swish, rt_swish_16(a, alpha))
UNARY_512(gelu_tanh, rt_gelu_by_tanh_16(a))

RT_MATH_512 static void gelu_512(void *to, const void *from, int64_t count,
                                 const rt_unary_parameters *parameters) {
    float *y = to;
    const float *x = from;
    int64_t done = 0;
    (void)parameters;
    for (; done + 48 <= count; done += 48) {
        __m512 several[3];
        for (int v = 0; v < 3; v++) several[v] = _mm512_loadu_ps(x + done + 16 * v);
        rt_gelu_vectors(several, 3, false);
        for (int v = 0; v < 3; v++) _mm512_storeu_ps(y + done + 16 * v, several[v]);
    }
    RT_MAP_512(y + done, x + done, count - done, rt_gelu_16(a))
}

rt_unary_function *rt_unary_512(op_code code, bool by_tanh) {
    if (!__builtin_cpu_supports("avx512f")) return NULL;
    switch (code) {
    case OP_ERF:
        return erf_512;
    case OP_EXP:
        return exp_512;
    case OP_GELU:
        return by_tanh ? gelu_tanh_512 : gelu_512;
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
rt_unary_function *rt_unary_512(op_code code, bool by_tanh) {
    (void)code, (void)by_tanh;
    return NULL;
}
#endif

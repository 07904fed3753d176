/* SPDX-License-Identifier: Apache-2.0 */
/* activation.c: activations that are fused into other operators; see activation.h. */
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/pieces.h"
#include "runtime/kernels/portable/vector_doubles.h"
#include "runtime/kernels/portable/vector_math.h"
#include "runtime/kernels/portable/vector_math_512.h"
#include <math.h>
#if RT_X86_KERNELS
#include <immintrin.h>
#endif

bool rt_activation_read(const op_attributes *attributes, rt_activation *activation) {
    static const struct {
        const char *name;
        rt_activation_kind kind;
    } names[] = {{"", RT_ACTIVATION_NONE},
                 {"Relu", RT_ACTIVATION_RELU},
                 {"LeakyRelu", RT_ACTIVATION_LEAKY_RELU},
                 {"Clip", RT_ACTIVATION_CLIP},
                 {"Sigmoid", RT_ACTIVATION_SIGMOID},
                 {"Tanh", RT_ACTIVATION_TANH},
                 {"Swish", RT_ACTIVATION_SWISH},
                 {"HardSwish", RT_ACTIVATION_HARD_SWISH},
                 {"Gelu", RT_ACTIVATION_GELU},
                 {"GeluTanh", RT_ACTIVATION_GELU_TANH}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!op_attribute_is(attributes, "ouro.activation", names[i].name, "")) continue;
        bool leaky = names[i].kind == RT_ACTIVATION_LEAKY_RELU, clip = names[i].kind == RT_ACTIVATION_CLIP;
        *activation =
            (rt_activation){.kind = names[i].kind,
                            .alpha = op_attribute_real(attributes, "ouro.alpha",
                                                       leaky  ? 0.01f
                                                       : clip ? -INFINITY
                                                              : 0.0f),
                            .beta = op_attribute_real(attributes, "ouro.beta", clip ? INFINITY : 0.0f)};
        return true;
    }
    return false;
}

bool rt_activation_limits(const rt_activation *activation, float *low, float *high) {
    const rt_activation_kind kind = activation->kind;
    *low = kind == RT_ACTIVATION_RELU ? 0 : kind == RT_ACTIVATION_CLIP ? activation->alpha : -INFINITY;
    *high = kind == RT_ACTIVATION_CLIP ? activation->beta : INFINITY;
    return kind == RT_ACTIVATION_NONE || kind == RT_ACTIVATION_RELU || kind == RT_ACTIVATION_CLIP;
}

double rt_activation_value(const rt_activation *activation, double value) {
    switch (activation->kind) {
    case RT_ACTIVATION_RELU:
        return value < 0 ? 0 : value;
    case RT_ACTIVATION_LEAKY_RELU:
        return value < 0 ? value * (double)activation->alpha : value;
    case RT_ACTIVATION_CLIP:
        value = value < (double)activation->alpha ? (double)activation->alpha : value;
        return value > (double)activation->beta ? (double)activation->beta : value;
    case RT_ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-value));
    case RT_ACTIVATION_TANH:
        return tanh(value);
    case RT_ACTIVATION_SWISH:
        return value / (1 + exp(-(double)activation->alpha * value));
    case RT_ACTIVATION_HARD_SWISH:
        return value * fmin(fmax(value / 6 + 0.5, 0), 1);
    case RT_ACTIVATION_GELU:
        return 0.5 * value * (1 + erf(value * 0.70710678118654752440));
    case RT_ACTIVATION_GELU_TANH:
        return rt_gelu_by_tanh_double(value);
    default:
        return value;
    }
}

RT_CLONES static void clip(float *data, int64_t count, float minimum, float maximum) {
    for (int64_t i = 0; i < count; i++) {
        float value = data[i] < minimum ? minimum : data[i];
        data[i] = value > maximum ? maximum : value;
    }
}

RT_CLONES static void leaky(float *data, int64_t count, float slope) {
    for (int64_t i = 0; i < count; i++) data[i] = data[i] < 0 ? data[i] * slope : data[i];
}

RT_CLONES static void sigmoid(float *data, int64_t count) {
    RT_MAP_LONG(data, data, count, rt_sigmoid(a));
}

RT_CLONES static void hyperbolic_tangent(float *data, int64_t count) {
    RT_MAP_LONG(data, data, count, rt_tanh(a));
}

RT_CLONES static void swish(float *data, int64_t count, float slope) {
    RT_MAP_LONG(data, data, count, rt_swish(a, slope));
}

RT_CLONES static void hard_swish(float *data, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float gate = data[i] / 6.0f + 0.5f, above = gate < 0 ? 0 : gate;
        data[i] *= above > 1 ? 1 : above;
    }
}

void rt_activation_floats(const rt_activation *activation, float *data, int64_t count) {
    switch (activation->kind) {
    case RT_ACTIVATION_RELU:
        clip(data, count, 0, INFINITY);
        break;
    case RT_ACTIVATION_LEAKY_RELU:
        leaky(data, count, activation->alpha);
        break;
    case RT_ACTIVATION_CLIP:
        clip(data, count, activation->alpha, activation->beta);
        break;
    case RT_ACTIVATION_SIGMOID:
        sigmoid(data, count);
        break;
    case RT_ACTIVATION_TANH:
        hyperbolic_tangent(data, count);
        break;
    case RT_ACTIVATION_SWISH:
        swish(data, count, activation->alpha);
        break;
    case RT_ACTIVATION_HARD_SWISH:
        hard_swish(data, count);
        break;
    case RT_ACTIVATION_GELU:
        rt_gelu_floats(data, data, count);
        break;
    case RT_ACTIVATION_GELU_TANH:
        rt_gelu_tanh_floats(data, data, count);
        break;
    default:
        break;
    }
}

#if RT_X86_KERNELS
#define AVX512 __attribute__((target("avx512f")))

AVX512 static void gate_wide(const rt_activation *activation, float *data, int64_t count) {
    enum { LANES = 16 };
    const bool swish = activation->kind == RT_ACTIVATION_SWISH;
    const rt_gate_512 with = rt_gate_512_of(swish ? activation->alpha : 1);
    const __m512 one = _mm512_set1_ps(1);
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const __m512 x = _mm512_loadu_ps(data + i), gate = rt_one_and_exp_16(x, &with);
        _mm512_storeu_ps(data + i, _mm512_div_ps(swish ? x : one, gate));
    }
    if (i == count) return;
    const __mmask16 some = rt_first_lanes_16(count - i);
    const __m512 x = _mm512_maskz_loadu_ps(some, data + i), gate = rt_one_and_exp_16(x, &with);
    _mm512_mask_storeu_ps(data + i, some, _mm512_div_ps(swish ? x : one, gate));
}
#endif

static bool has_wide_form(const rt_activation *activation) {
#if RT_X86_KERNELS
    const bool form = activation->kind == RT_ACTIVATION_SWISH || activation->kind == RT_ACTIVATION_SIGMOID;
    return form && __builtin_cpu_supports("avx512f");
#else
    (void)activation;
    return false;
#endif
}

void rt_activation_fused(const rt_activation *activation, float *data, int64_t count) {
#if RT_X86_KERNELS
    if (has_wide_form(activation)) {
        gate_wide(activation, data, count);
        return;
    }
#endif
    rt_activation_floats(activation, data, count);
}

bool rt_activation_is_fast_apart(const rt_activation *activation) {
    return activation->kind == RT_ACTIVATION_SWISH && has_wide_form(activation);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* activation.c: activations that are fused into other operators; see activation.h. */
#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/vector_math.h"
#include <math.h>

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
                 {"HardSwish", RT_ACTIVATION_HARD_SWISH}};
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
    RT_MAP_LONG(data, data, count, a * rt_sigmoid(slope * a));
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
    default:
        break;
    }
}

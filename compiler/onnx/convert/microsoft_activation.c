/* SPDX-License-Identifier: Apache-2.0 */
/* microsoft_activation.c: the activation that an operator of com.microsoft names. */
#include "compiler/onnx/convert/microsoft.h"

#include <string.h>

static const op_attributes NONE = {0};

/* What ONNX Runtime fuses after products and convolutions: an operator by its name, with the parameters that it has. */
typedef struct activation {
    const char *name;
    op_code code;
    unsigned count; /* of parameters */
} activation;

base_status import_ms_activated_with(const import_node *n, ir_value **y, const float *given, size_t count) {
    static const activation known[] = {{"Relu", OP_RELU, 0},
                                       {"Tanh", OP_TANH, 0},
                                       {"Sigmoid", OP_SIGMOID, 0},
                                       {"LeakyRelu", OP_LEAKY_RELU, 1},
                                       {"Clip", OP_CLIP, 2},
                                       {"HardSigmoid", OP_HARD_SIGMOID, 2},
                                       {"Elu", OP_ELU, 1},
                                       {"Selu", OP_SELU, 2},
                                       {"Softplus", OP_SOFTPLUS, 0},
                                       {"Softsign", OP_SOFTSIGN, 0},
                                       {"ThresholdedRelu", OP_THRESHOLDED_RELU, 1}};
    const Onnx__AttributeProto *name = import_attribute(n, "activation");
    if (!name || name->s.len == 0) return BASE_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const activation *a = &known[i];
        if (name->s.len != strlen(a->name) || memcmp(name->s.data, a->name, name->s.len) != 0) continue;
        if (a->code == OP_CLIP && count >= 2) {
            ir_value *inputs[3] = {*y};
            inputs[1] = expr_number(n, *y, (double)given[0]);
            inputs[2] = expr_number(n, *y, (double)given[1]);
            *y = *y && inputs[1] && inputs[2] ? import_make(n, OP_CLIP, NONE, 3, inputs) : NULL;
            return BASE_OK;
        }
        op_attributes attributes = NONE;
        const char *names[] = {"alpha", a->code == OP_SELU ? "gamma" : "beta"};
        for (unsigned k = 0; k < a->count && k < count; k++) {
            const op_attribute parameter = {
                .name = names[k], .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = given[k]};
            if (!ir_attribute_set(n->importer->module, &attributes, &parameter)) return import_memory(n);
        }
        *y = *y ? import_make(n, a->code, attributes, 1, y) : NULL;
        return BASE_OK;
    }
    return base_fail_unsupported(
        n->importer->report,
        "activation \"%.*s\" is not supported; Relu, Tanh, Sigmoid, LeakyRelu, Clip, "
        "HardSigmoid, Elu, Selu, Softplus, Softsign and ThresholdedRelu are",
        (int)(name->s.len < 40 ? name->s.len : 40), (const char *)name->s.data);
}

base_status import_ms_activated(const import_node *n, ir_value **y) {
    const Onnx__AttributeProto *given = import_attribute(n, "activation_params");
    return import_ms_activated_with(n, y, given ? given->floats : NULL, given ? given->n_floats : 0);
}

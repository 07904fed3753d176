/* SPDX-License-Identifier: Apache-2.0 */
/* lrn.c: LRN across channels on oneDNN. */
#include "runtime/kernels/onednn/simple.h"

static bool make_descriptor(const op_call *call, const rt_environment *environment, rt_descriptor *open) {
    const int64_t size = op_attribute_integer(&call->attributes, "size", 1);
    dnnl_memory_desc_t data;
    dnnl_lrn_desc_t operation;
    /* An even neighbourhood is not in the middle: oneDNN and ONNX differ on which side is longer. */
    if (size % 2 == 0 || !rt_describe(&call->inputs[0].type, &data) ||
        dnnl_lrn_forward_desc_init(&operation, dnnl_forward_inference, dnnl_lrn_across_channels, &data, size,
                                   op_attribute_real(&call->attributes, "alpha", 0.0001f),
                                   op_attribute_real(&call->attributes, "beta", 0.75f),
                                   op_attribute_real(&call->attributes, "bias", 1)) != dnnl_success ||
        !rt_descriptor_open(open, 0, NULL)) {
        return false;
    }
    return rt_descriptor_make(open, &operation, rt_threads_for(rt_work_of(&call->inputs[0]), environment));
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    return rt_simple_accepts(call, environment, true, make_descriptor);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    return rt_simple_prepare(call, environment, make_descriptor, NULL, 0, arena, prepared, report);
}

const rt_kernel rt_onednn_lrn = {.name = "onednn.lrn",
                                 .backend = RT_BACKEND_ONEDNN,
                                 .accepts = accepts,
                                 .prepare = prepare,
                                 .release = rt_simple_release};

/* SPDX-License-Identifier: Apache-2.0 */
/* batch_normalization.c: BatchNormalization on oneDNN, where it has not been fused into a Conv. Of row-major tensors oneDNN 2.6 has only its
 * reference, which takes ten times as long as the portable kernel; of signals, too, which are images one point high here: the same bytes. */
#include "runtime/kernels/onednn/simple.h"

static bool make_descriptor(const op_call *call, const rt_environment *environment, rt_descriptor *open) {
    const unsigned flags = dnnl_use_global_stats | dnnl_use_scale | dnnl_use_shift;
    dnnl_memory_desc_t data;
    dnnl_batch_normalization_desc_t operation;
    op_shape shape = call->inputs[0].type.shape;
    if (shape.rank == 3) {
        shape.rank = 4;
        shape.dims[3] = shape.dims[2];
        shape.dims[2] = 1;
    }
    if (!rt_describe_as(&shape, call->inputs[0].type.layout, &data) ||
        dnnl_batch_normalization_forward_desc_init(&operation, dnnl_forward_inference, &data,
                                                   op_attribute_real(&call->attributes, "epsilon", 1e-5f),
                                                   flags) != dnnl_success ||
        !rt_descriptor_open(open, 0, NULL)) {
        return false;
    }
    return rt_descriptor_make(open, &operation, rt_threads_for(rt_work_of(&call->inputs[0]), environment));
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    if (op_attribute_integer(&call->attributes, "training_mode", 0) != 0) return false;
    if (call->inputs[0].type.layout == OP_LAYOUT_ROW_MAJOR) return false;
    for (uint32_t i = 1; i < call->input_count; i++) {
        if (call->inputs[i].type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    }
    return rt_simple_accepts(call, environment, true, make_descriptor);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    static const int vectors[] = {DNNL_ARG_SCALE, DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE};
    return rt_simple_prepare(call, environment, make_descriptor, vectors, 4, arena, prepared, report);
}

const rt_kernel rt_onednn_batch_normalization = {.name = "onednn.batch_normalization",
                                                 .backend = RT_BACKEND_ONEDNN,
                                                 .accepts = accepts,
                                                 .prepare = prepare,
                                                 .release = rt_simple_release};

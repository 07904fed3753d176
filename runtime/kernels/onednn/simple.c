/* SPDX-License-Identifier: Apache-2.0 */
/* simple.c: see simple.h. */
#include "runtime/kernels/onednn/simple.h"

typedef struct simple {
    rt_primitive primitive;
    int vectors;
} simple;

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    simple *state = prepared->state;
    void *data[2 + RT_SIMPLE_VECTORS] = {inputs[0].data, outputs[0].data};
    for (int i = 0; i < state->vectors; i++) data[2 + i] = inputs[1 + i].data;
    return rt_primitive_run(&state->primitive, data, scratch, report);
}

void rt_simple_release(rt_prepared *prepared) {
    simple *state = prepared->state;
    if (state) rt_primitive_close(&state->primitive);
}

bool rt_simple_accepts(const op_call *call, const rt_environment *environment, bool same,
                       rt_simple_open *open) {
    rt_descriptor descriptor;
    if (!rt_floats_known(call)) return false;
    if ((call->inputs[0].type.layout == call->outputs[0].type.layout) != same) return false;
    if (!open(call, environment, &descriptor)) return false;
    rt_descriptor_close(&descriptor);
    return true;
}

base_status rt_simple_prepare(const op_call *call, const rt_environment *environment,
                              rt_simple_open *open_one, const int *vectors, int count, base_arena *arena,
                              rt_prepared *prepared, base_report *report) {
    rt_descriptor opened, *open = &opened;
    if (!open_one(call, environment, open))
        return rt_onednn_fail(report, "oneDNN cannot run this %s on this machine",
                              op_schema_of(call->code)->name);
    simple *state = BASE_NEW(arena, simple);
    if (!state) {
        rt_descriptor_close(open);
        return base_fail_memory(report);
    }
    state->vectors = count;
    rt_primitive *primitive = &state->primitive;
    base_status status = rt_primitive_make(primitive, open, report);
    if (status == BASE_OK) {
        status = rt_primitive_argument(primitive, DNNL_ARG_SRC, rt_descriptor_memory(open, dnnl_query_src_md),
                                       false, report);
    }
    if (status == BASE_OK) {
        status = rt_primitive_argument(primitive, DNNL_ARG_DST, rt_descriptor_memory(open, dnnl_query_dst_md),
                                       true, report);
    }
    for (int i = 0; i < count && status == BASE_OK; i++) {
        dnnl_memory_desc_t vector;
        status = rt_describe_as(&call->inputs[1 + i].type.shape, OP_LAYOUT_ROW_MAJOR, &vector)
                     ? rt_primitive_argument(primitive, vectors[i], &vector, false, report)
                     : rt_onednn_fail(report, "oneDNN cannot describe input %d", 1 + i);
    }
    rt_descriptor_close(open);
    prepared->state = state;
    prepared->run = run;
    prepared->scratch_bytes = primitive->scratch_bytes;
    if (status != BASE_OK) rt_simple_release(prepared);
    return status;
}

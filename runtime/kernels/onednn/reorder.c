/* SPDX-License-Identifier: Apache-2.0 */
/* reorder.c: changes of layout on oneDNN, in float. */
#include "runtime/kernels/onednn/simple.h"
#include <string.h>

static bool make_descriptor(const op_call *call, const rt_environment *environment, rt_descriptor *open) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    dnnl_memory_desc_t source, target;
    const char *name = "";
    if (!rt_describe(x, &source) || !rt_describe(y, &target) || !rt_descriptor_open(open, 0, NULL))
        return false;
    open->threads = rt_threads_for(rt_work_of(&call->inputs[0]), environment);
    const int before = rt_threads_set(open->threads);
    const dnnl_status_t status = rt_dnnl_reorder_primitive_desc_create(
        &open->descriptor, &source, open->engine, &target, open->engine, open->attributes);
    rt_threads_restore(before);
    if (status == dnnl_success &&
        rt_dnnl_primitive_desc_query(open->descriptor, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
        strncmp(name, "ref", 3) != 0) {
        return true;
    }
    rt_descriptor_close(open);
    return false;
}

/* Between row-major and another layout the portable kernel takes a quarter of the time (tests/bench/bench_kernels.c). */
static bool accepts(const op_call *call, const rt_environment *environment) {
    const op_layout from = call->inputs[0].type.layout, to = call->outputs[0].type.layout;
    if ((from == OP_LAYOUT_ROW_MAJOR) != (to == OP_LAYOUT_ROW_MAJOR)) return false;
    return rt_simple_accepts(call, environment, false, make_descriptor);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    return rt_simple_prepare(call, environment, make_descriptor, NULL, 0, arena, prepared, report);
}

const rt_kernel rt_onednn_reorder = {.name = "onednn.reorder",
                                     .backend = RT_BACKEND_ONEDNN,
                                     .accepts = accepts,
                                     .prepare = prepare,
                                     .release = rt_simple_release};

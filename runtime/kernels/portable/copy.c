/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: the same bytes elsewhere: what is left of Reshape, Squeeze, Identity and Copy where no view will
 * do. */
#include "runtime/kernels/portable/kernels.h"
#include <string.h>

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const size_t *bytes = prepared->state;
    rt_copy_bytes(prepared->threads, outputs[0].data, inputs[0].data, *bytes);
    return BASE_OK;
}

static base_status run_word(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)prepared;
    (void)scratch;
    (void)report;
    memmove(outputs[0].data, inputs[0].data, 8);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    const op_type *from = &call->inputs[0].type, *to = &call->outputs[0].type;
    if (from->kind != OP_KIND_TENSOR || to->kind != OP_KIND_TENSOR || from->layout != to->layout)
        return false;
    return from->layout == OP_LAYOUT_ROW_MAJOR || op_shape_equal(&from->shape, &to->shape);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    size_t *bytes = BASE_NEW(arena, size_t);
    if (!bytes) return base_fail_memory(report);
    size_t from;
    if (!op_type_bytes(&call->outputs[0].type, bytes) || !op_type_bytes(&call->inputs[0].type, &from) ||
        from != *bytes) {
        return base_fail(report, BASE_INVALID, "input and result are not of the same size");
    }
    prepared->state = bytes;
    prepared->run = *bytes == 8 ? run_word : run;
    return BASE_OK;
}

const rt_kernel rt_kernel_copy = {.name = "portable.copy", .accepts = accepts, .prepare = prepare};

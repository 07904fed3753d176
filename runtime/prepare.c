/* SPDX-License-Identifier: Apache-2.0 */
/* prepare.c: what a run needs and gives, before it happens, and the memory for it, taken once. */
#include "runtime/executor.h"
#include <inttypes.h>
#include <string.h>

/* The input is of the extents given; what is bound to it stays bound. */
static ouro_status set_extents(ouro_session *session, size_t index, const int64_t *dims, ouro_error *error) {
    const plan *of = session->of;
    rt_binding *binding = &session->bound.inputs[index];
    const char *name = of->texts + of->inputs[index].name;
    op_tensor *tensor = &session->run.tensors[binding->tensor];
    op_type declared;
    char text[256];
    plan_interface_type(of, &of->inputs[index], &declared);
    if (!dims && (binding->bound || !(binding->dynamic || binding->is_sample))) return OURO_OK;
    plan_type_print(of, &declared, text, sizeof text);
    if (!dims || declared.kind != OP_KIND_TENSOR || declared.shape.rank < 0)
        return rt_binding_fail(session, error, BASE_USAGE, "input '%s' is %s: %s", name, text,
                               dims ? "only a value that is bound says what it is"
                                    : "its dimensions must be given");
    op_type actual = declared;
    for (int32_t d = 0; d < declared.shape.rank; d++) {
        actual.shape.dims[d] = dims[d];
        if (dims[d] < 0 || (declared.shape.dims[d] >= 0 && declared.shape.dims[d] != dims[d]))
            return rt_binding_fail(session, error, BASE_INVALID, "input '%s' is %s: extent %d is %" PRId64,
                                   name, text, d, dims[d]);
    }
    size_t bytes;
    if (!op_type_bytes(&actual, &bytes))
        return rt_binding_fail(session, error, BASE_INVALID, "input '%s' is too large", name);
    if (binding->dynamic) *tensor = (op_tensor){.type = actual, .bytes = bytes};
    if (binding->is_sample) binding->samples = dims[0];
    return OURO_OK;
}

static void describe(const plan *of, size_t index, const op_type *type, ouro_tensor_info *info) {
    size_t bytes;
    (void)rt_output_describe(of, index, info);
    info->rank = type->shape.rank;
    for (int32_t d = 0; d < type->shape.rank; d++)
        info->dims[d] = type->shape.dims[d] < 0 ? -1 : type->shape.dims[d];
    info->bytes = op_type_bytes(type, &bytes) ? bytes : 0;
}

/* The outputs of a run with the dimensions that inputs and states have now, and so many samples. */
static bool measure_outputs(const ouro_session *session, int64_t samples, ouro_tensor_info *outputs,
                            size_t *sum) {
    const plan *of = session->of;
    const size_t count = (size_t)of->header->outputs.count;
    base_arena arena;
    base_arena_init(&arena, &session->memory.source);
    op_type *types = BASE_ARRAY(&arena, op_type, count);
    const bool fine = types && rt_shapes_outputs(session, types);
    *sum = 0;
    for (size_t i = 0; fine && i < count; i++) {
        size_t bytes;
        if (of->outputs[i].sample) types[i].shape.dims[0] = samples;
        if (op_type_bytes(&types[i], &bytes) && !base_size_add(*sum, bytes, sum)) *sum = SIZE_MAX;
        if (outputs) describe(of, i, &types[i], &outputs[i]);
    }
    base_arena_free(&arena);
    return fine;
}

/* With the extents of the inputs set. */
static ouro_status prepare(ouro_session *session, const ouro_span *memory, ouro_needs *needs,
                           ouro_tensor_info *outputs, ouro_error *error) {
    base_report report = {0};
    const bool asks = memory && !memory->data;
    const ouro_span own = {0};
    base_report_context(&report, "%s", session->of->texts + session->of->header->model_name);
    *needs = (ouro_needs){.arena_bytes = (size_t)session->of->header->arena_bytes};
    int64_t samples;
    if (rt_binding_check(session, &report) != BASE_OK ||
        rt_samples_count(session, &samples, &report) != BASE_OK ||
        rt_states_prepare(session, !asks, &report) != BASE_OK)
        return rt_error_set(error, &report);
    bool fine = measure_outputs(session, samples, outputs, &needs->output_bytes) &&
                rt_shapes_prepare(session, NULL, &needs->shape_bytes);
    needs->state_bytes = rt_states_bytes(session);
    if (fine && memory && !asks && memory->bytes < needs->shape_bytes)
        return rt_binding_fail(session, error, BASE_USAGE,
                               "the memory given has %zu bytes, the run needs %zu", memory->bytes,
                               needs->shape_bytes);
    if (fine && !asks) fine = rt_shapes_prepare(session, memory ? memory : &own, &needs->shape_bytes);
    return fine ? OURO_OK : rt_binding_fail(session, error, BASE_SYSTEM_ERROR, "out of memory");
}

ouro_status ouro_session_prepare(ouro_session *session, const int64_t *const *dims, const ouro_span *memory,
                                 ouro_needs *needs, ouro_tensor_info *outputs, ouro_error *error) {
    ouro_needs ignored;
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    const size_t count = (size_t)session->of->header->inputs.count;
    ouro_status status = OURO_OK;
    base_arena arena;
    base_arena_init(&arena, &session->memory.source);
    op_tensor *saved = BASE_ARRAY(&arena, op_tensor, count);
    int64_t *samples = BASE_ARRAY(&arena, int64_t, count);
    if (!saved || !samples) status = rt_binding_fail(session, error, BASE_SYSTEM_ERROR, "out of memory");
    if (status == OURO_OK && memory && (uintptr_t)memory->data % RT_ALIGNMENT != 0)
        status = rt_binding_fail(session, error, BASE_USAGE, "the memory given is not aligned to %d",
                                 (int)RT_ALIGNMENT);
    if (status == OURO_OK) {
        session->run.ran = false; /* what the last run gave may have lain where the next one is planned */
        for (size_t i = 0; i < count; i++) {
            saved[i] = session->run.tensors[session->bound.inputs[i].tensor];
            samples[i] = session->bound.inputs[i].samples;
        }
        for (size_t i = 0; i < count && status == OURO_OK; i++)
            status = set_extents(session, i, dims ? dims[i] : NULL, error);
        if (status == OURO_OK) status = prepare(session, memory, needs ? needs : &ignored, outputs, error);
        for (size_t i = 0; i < count; i++) {
            session->run.tensors[session->bound.inputs[i].tensor] = saved[i];
            session->bound.inputs[i].samples = samples[i];
        }
    }
    base_arena_free(&arena);
    rt_session_leave(session);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* binding.c: buffers of the caller: inputs are read and outputs written where they lie. */
#include "runtime/executor.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* All addresses within the binding's buffer are those within `data` from now on. */
void rt_binding_point(ouro_session *session, rt_binding *binding, void *data) {
    binding->data = data;
    for (uint32_t i = binding->patches; i != PLAN_ABSENT; i = session->code.patches[i].next) {
        const rt_patch *patch = &session->code.patches[i];
        *patch->data = data ? (char *)data + patch->offset : NULL;
    }
}

bool rt_binding_own(ouro_session *session, rt_binding *binding) {
    const size_t bytes = (size_t)session->of->tensors[binding->tensor].bytes;
    if (binding->dynamic || binding->own) return true;
    binding->own = rt_take(&session->memory.source, bytes);
    if (!binding->own) return false;
    session->memory.output_bytes += bytes;
    binding->bytes = bytes;
    binding->data = binding->whole = binding->own;
    return true;
}

static void give_own(ouro_session *session, rt_binding *binding) {
    if (!binding->own) return;
    rt_give(&session->memory.source, binding->own);
    binding->own = NULL;
    session->memory.output_bytes -= binding->bytes;
}

bool rt_binding_grow(ouro_session *session, rt_binding *binding, size_t bytes) {
    void *own = rt_take(&session->memory.source, bytes);
    if (!own) return false;
    give_own(session, binding);
    binding->own = binding->whole = own;
    binding->bytes = bytes;
    session->memory.output_bytes += bytes;
    rt_binding_point(session, binding, own);
    return true;
}

ouro_status rt_binding_fail(const ouro_session *session, ouro_error *error, base_status status,
                            const char *format, ...) {
    base_report report = {0};
    base_report_context(&report, "%s", session->of->texts + session->of->header->model_name);
    va_list arguments;
    va_start(arguments, format);
    base_fail_va(&report, status, format, arguments);
    va_end(arguments);
    return rt_error_set(error, &report);
}

/* ---- inputs -------------------------------------------------------------------------------------------- */

/* The dimensions of an input, as far as the plan knows them, are those given. */
static bool fits(const op_shape *declared, const op_shape *given) {
    if (declared->rank < 0) return true;
    for (int32_t d = 0; d < declared->rank; d++) {
        if (given->dims[d] < 0 || (declared->dims[d] >= 0 && declared->dims[d] != given->dims[d]))
            return false;
    }
    return true;
}

static ouro_status bind_input(ouro_session *session, rt_binding *binding, const char *name, const void *data,
                              size_t bytes, int32_t rank, const int64_t *dims, ouro_error *error) {
    op_type type;
    plan_interface_type(session->of, &session->of->inputs[binding - session->bound.inputs], &type);
    char declared[256], given[256];
    plan_type_print(session->of, &type, declared, sizeof declared);
    if (type.kind != OP_KIND_TENSOR) {
        return rt_binding_fail(session, error, BASE_USAGE,
                               "input '%s' is %s: it is bound as a value, not as a tensor", name, declared);
    }
    if (type.shape.rank < 0 && rank < 0) {
        return rt_binding_fail(session, error, BASE_INVALID,
                               "input '%s' is %s: its rank is not known, it is bound as a value", name,
                               declared);
    }
    op_type actual = type;
    if (type.shape.rank < 0) actual.shape.rank = rank;
    if (dims && actual.shape.rank > 0)
        memcpy(actual.shape.dims, dims, (size_t)actual.shape.rank * sizeof *dims);
    if (!fits(&type.shape, &actual.shape)) {
        return dims ? rt_binding_fail(session, error, BASE_INVALID, "input '%s' is given as %s, expected %s",
                                      name, plan_type_print(session->of, &actual, given, sizeof given),
                                      declared)
                    : rt_binding_fail(session, error, BASE_USAGE,
                                      "input '%s' is %s: its dimensions must be given", name, declared);
    }
    size_t needed;
    if (!op_type_bytes(&actual, &needed))
        return rt_binding_fail(session, error, BASE_INVALID, "input '%s' is too large", name);
    if (bytes != needed) {
        return rt_binding_fail(session, error, BASE_USAGE,
                               "input '%s' is given %zu bytes, expected %zu for %s", name, bytes, needed,
                               plan_type_print(session->of, &actual, given, sizeof given));
    }
    size_t alignment = rt_element_alignment(type.dtype);
    if (needed && (!data || (uintptr_t)data % alignment != 0)) {
        return rt_binding_fail(session, error, BASE_USAGE, "input '%s' is given %s", name,
                               data ? "data that is not aligned to its elements" : "no data");
    }
    binding->bound = true;
    if (binding->dynamic) {
        op_tensor *tensor = &session->run.tensors[binding->tensor];
        *tensor = (op_tensor){.type = actual, .bytes = needed, .data = (void *)(uintptr_t)data};
    }
    binding->whole = (void *)(uintptr_t)data;
    if (binding->is_sample) binding->samples = actual.shape.dims[0];
    rt_binding_point(session, binding, (void *)(uintptr_t)data);
    return OURO_OK;
}

static ouro_status bind_by_index(ouro_session *session, size_t index, const void *data, size_t bytes,
                                 const int64_t *dims, ouro_error *error) {
    const plan *of = session->of;
    if (index >= of->header->inputs.count) {
        return rt_binding_fail(session, error, BASE_USAGE, "there is no input %zu: the model has %" PRIu64,
                               index, of->header->inputs.count);
    }
    return bind_input(session, &session->bound.inputs[index], of->texts + of->inputs[index].name, data, bytes,
                      -1, dims, error);
}

ouro_status rt_binding_tensor(ouro_session *session, size_t index, const ouro_value *value,
                              ouro_error *error) {
    const plan *of = session->of;
    return bind_input(session, &session->bound.inputs[index], of->texts + of->inputs[index].name, value->data,
                      value->bytes, value->rank, value->dims, error);
}

/* ---- outputs ------------------------------------------------------------------------------------------- */

static ouro_status bind_output(ouro_session *session, size_t index, void *data, size_t bytes,
                               ouro_error *error) {
    const plan *of = session->of;
    if (index >= of->header->outputs.count) {
        return rt_binding_fail(session, error, BASE_USAGE, "there is no output %zu: the model has %" PRIu64,
                               index, of->header->outputs.count);
    }
    rt_binding *binding = &session->bound.outputs[index];
    const plan_tensor *tensor = &of->tensors[binding->tensor];
    const char *name = of->texts + of->outputs[index].name;
    size_t alignment = rt_element_alignment((op_dtype)tensor->dtype);
    if (data && tensor->kind != OP_KIND_TENSOR)
        return rt_binding_fail(session, error, BASE_USAGE,
                               "output '%s' is no tensor: it cannot be written to a buffer", name);
    if (data && (uintptr_t)data % alignment != 0) {
        return rt_binding_fail(session, error, BASE_USAGE,
                               "output '%s' is given memory that is not aligned to its elements", name);
    }
    if (data && !binding->dynamic && !binding->is_sample && bytes < tensor->bytes) {
        return rt_binding_fail(session, error, BASE_USAGE,
                               "output '%s' is given %zu bytes, it needs %" PRIu64, name, bytes,
                               tensor->bytes);
    }
    if (!data && !rt_binding_own(session, binding))
        return rt_binding_fail(session, error, BASE_SYSTEM_ERROR,
                               "out of memory: output '%s' needs %" PRIu64 " bytes", name, tensor->bytes);
    session->run.ran = false; /* what the last run made is not where one would look now */
    binding->bound = data != NULL;
    binding->whole = data ? data : binding->own;
    rt_binding_point(session, binding, binding->whole);
    if (!data) return OURO_OK;
    give_own(session, binding);
    binding->bytes = bytes;
    return OURO_OK;
}

ouro_status rt_binding_expect_output(const ouro_session *session, size_t index, ouro_error *error) {
    const uint64_t count = session->of->header->outputs.count;
    if (index >= count)
        return rt_binding_fail(session, error, BASE_USAGE, "there is no output %zu: the model has %" PRIu64,
                               index, count);
    if (!session->run.ran)
        return rt_binding_fail(session, error, BASE_USAGE, "there is no output yet: the session has not run");
    return OURO_OK;
}

op_tensor rt_binding_result(const ouro_session *session, const rt_binding *binding) {
    op_tensor result = binding->dynamic ? binding->result : session->run.tensors[binding->tensor];
    if (!binding->dynamic) result.data = binding->data;
    if (binding->is_sample) {
        result.type.shape.dims[0] = session->run.samples;
        result.bytes *= (size_t)session->run.samples;
    }
    return result;
}

ouro_status ouro_session_output(const ouro_session *session, size_t index, ouro_tensor_info *info,
                                const void **data, ouro_error *error) {
    const plan *of = session->of;
    const ouro_status status = rt_binding_expect_output(session, index, error);
    if (status != OURO_OK) return status;
    const op_tensor result = rt_binding_result(session, &session->bound.outputs[index]);
    if (result.type.kind != OP_KIND_TENSOR)
        return rt_binding_fail(session, error, BASE_USAGE, "output '%s' is no tensor: it is read as a value",
                               of->texts + of->outputs[index].name);
    *info = (ouro_tensor_info){.name = of->texts + of->outputs[index].name,
                               .dtype = (ouro_dtype)result.type.dtype,
                               .rank = result.type.shape.rank,
                               .bytes = result.bytes};
    for (int32_t d = 0; d < result.type.shape.rank; d++) info->dims[d] = result.type.shape.dims[d];
    *data = result.data;
    return OURO_OK;
}

/* ---- around a run -------------------------------------------------------------------------------------- */

base_status rt_binding_differ(const plan *of, const plan_interface *a, const plan_interface *b,
                              int64_t symbol, int64_t first, int64_t second, base_report *report) {
    return base_fail(
        report, BASE_INVALID,
        "inputs '%s' and '%s' have different extents for dimension '%s': %" PRId64 " and %" PRId64,
        of->texts + a->name, of->texts + b->name, of->texts + of->symbols[symbol], first, second);
}

base_status rt_binding_exceeds(const plan *of, const plan_interface *input, uint64_t symbol, int64_t extent,
                               base_report *report) {
    return base_fail(report, BASE_INVALID,
                     "input '%s': dimension '%s' is %" PRId64 ", the plan was made for at most %" PRId64
                     " (--max)",
                     of->texts + input->name, of->texts + of->symbols[symbol], extent, of->bounds[symbol]);
}

/* Equal symbols are equal extents. */
static base_status check_symbols(const ouro_session *session, base_report *report) {
    const plan *of = session->of;
    for (uint64_t i = 0; i < of->header->inputs.count; i++) {
        const rt_binding *binding = &session->bound.inputs[i];
        op_type type;
        if (!binding->dynamic) continue;
        plan_tensor_type(of, binding->tensor, &type);
        if (type.kind != OP_KIND_TENSOR) continue;
        for (int32_t d = 0; d < type.shape.rank; d++) {
            if (type.shape.dims[d] >= 0 || type.shape.dims[d] == OP_DIM_UNKNOWN) continue;
            for (uint64_t k = 0; k < i; k++) {
                op_type other;
                plan_tensor_type(of, session->bound.inputs[k].tensor, &other);
                if (other.kind != OP_KIND_TENSOR) continue;
                for (int32_t e = 0; e < other.shape.rank; e++) {
                    int64_t a = session->run.tensors[binding->tensor].type.shape.dims[d];
                    int64_t b = session->run.tensors[session->bound.inputs[k].tensor].type.shape.dims[e];
                    if (other.shape.dims[e] != type.shape.dims[d] || a == b) continue;
                    return rt_binding_differ(of, &of->inputs[k], &of->inputs[i], -type.shape.dims[d], b, a,
                                             report);
                }
            }
        }
    }
    return BASE_OK;
}

/* No dimension is more than the plan was made for. */
static base_status check_bounds(const ouro_session *session, base_report *report) {
    const plan *of = session->of;
    for (uint64_t i = 0; of->header->bounds.count && i < of->header->inputs.count; i++) {
        const rt_binding *binding = &session->bound.inputs[i];
        const op_shape *given = &session->run.tensors[binding->tensor].type.shape;
        op_type declared;
        plan_tensor_type(of, binding->tensor, &declared);
        if (!binding->dynamic || declared.kind != OP_KIND_TENSOR) continue;
        for (int32_t d = 0; d < declared.shape.rank; d++) {
            const int64_t dim = declared.shape.dims[d],
                          bound = dim < 0 && dim != OP_DIM_UNKNOWN ? of->bounds[-dim] : 0;
            if (!bound || given->dims[d] <= bound) continue;
            return rt_binding_exceeds(of, &of->inputs[i], (uint64_t)-dim, given->dims[d], report);
        }
    }
    return BASE_OK;
}

int64_t rt_symbol_known(const ouro_session *session, int64_t symbol) {
    for (uint64_t i = 0; i < session->of->header->inputs.count && symbol != OP_DIM_UNKNOWN; i++) {
        op_type declared;
        uint32_t id = session->bound.inputs[i].tensor;
        plan_tensor_type(session->of, id, &declared);
        for (int32_t d = 0; d < declared.shape.rank && declared.kind == OP_KIND_TENSOR; d++) {
            if (declared.shape.dims[d] == symbol) return session->run.tensors[id].type.shape.dims[d];
        }
    }
    return OP_DIM_UNKNOWN;
}

int64_t rt_symbol_extent(const ouro_session *session, int64_t symbol) {
    const int64_t known = rt_symbol_known(session, symbol);
    return known == OP_DIM_UNKNOWN ? 0 : known;
}

base_status rt_binding_check(const ouro_session *session, base_report *report) {
    base_status status = check_symbols(session, report);
    if (status == BASE_OK) status = check_bounds(session, report);
    return status;
}

base_status rt_binding_before_run(ouro_session *session, base_report *report) {
    const plan *of = session->of;
    for (uint64_t i = 0; i < of->header->inputs.count; i++) {
        if (session->bound.inputs[i].bound) continue;
        return base_fail(report, BASE_USAGE, "input '%s' is not bound", of->texts + of->inputs[i].name);
    }
    if (!session->code.has_dynamic) return BASE_OK;
    for (uint64_t i = 0; i < of->header->outputs.count; i++) {
        rt_binding *binding = &session->bound.outputs[i];
        rt_buffer_release(&session->memory.pool, binding->held);
        binding->held = NULL;
        binding->result = (op_tensor){0};
    }
    return rt_binding_check(session, report);
}

/* Other sessions may use an arena of the caller before he has read the output. */
static bool lies_in_arena(const ouro_session *session, const rt_buffer *buffer) {
    const unsigned char *data = buffer->data, *arena = session->memory.arena;
    return arena && data >= arena && data < arena + session->of->header->arena_bytes;
}

/* A dynamic output goes to the caller's buffer, or is kept until the next run. */
static base_status keep_output(ouro_session *session, uint64_t index, base_report *report) {
    rt_binding *binding = &session->bound.outputs[index];
    const op_tensor *made = &session->run.tensors[binding->tensor];
    const char *name = session->of->texts + session->of->outputs[index].name;
    binding->result = *made;
    if (binding->bound) {
        if (binding->bytes < made->bytes) {
            return base_fail(report, BASE_USAGE, "output '%s' was given %zu bytes, this run made %zu", name,
                             binding->bytes, made->bytes);
        }
        if (made->bytes && made->data != binding->data) memcpy(binding->data, made->data, made->bytes);
        binding->result.data = binding->data;
        return BASE_OK;
    }
    if (made->type.kind != OP_KIND_TENSOR)
        return rt_sequence_keep(session, made, &binding->held, &binding->result.data);
    rt_buffer *buffer = session->run.buffers[binding->tensor];
    if (buffer && (session->memory.own_arena || !lies_in_arena(session, buffer))) {
        rt_buffer_retain(buffer);
    } else { /* bytes of the caller's or of a constant, which may go before the output is read */
        buffer = rt_pool_take(&session->memory.pool, made->bytes);
        if (!buffer) return base_fail_memory(report);
        if (made->bytes) memcpy(buffer->data, made->data, made->bytes);
        binding->result.data = buffer->data;
    }
    binding->held = buffer;
    return BASE_OK;
}

base_status rt_binding_after_run(ouro_session *session, base_report *report) {
    for (uint64_t i = 0; session->code.has_dynamic && i < session->of->header->outputs.count; i++) {
        if (!session->bound.outputs[i].dynamic) continue;
        base_status status = keep_output(session, i, report);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

/* ---- the caller's calls -------------------------------------------------------------------------------- */

ouro_status ouro_session_bind_input(ouro_session *session, size_t index, const void *data, size_t bytes,
                                    const int64_t *dims, ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    const ouro_status status = bind_by_index(session, index, data, bytes, dims, error);
    rt_session_leave(session);
    return status;
}

ouro_status ouro_session_bind_output(ouro_session *session, size_t index, void *data, size_t bytes,
                                     ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    const ouro_status status = bind_output(session, index, data, bytes, error);
    rt_session_leave(session);
    return status;
}

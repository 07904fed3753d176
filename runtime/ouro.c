/* SPDX-License-Identifier: Apache-2.0 */
/* ouro.c: the public interface to plans, and errors. Sessions are in session.c, binding.c and execute.c. */
#include "runtime/executor.h"
#include <stdio.h>
#include <string.h>

const char *ouro_version(void) {
    return OURO_VERSION;
}

int ouro_error_print(const ouro_error *error) {
    fprintf(stderr, "error: %s\n", error->message);
    return (int)error->status;
}

ouro_status rt_error_set(ouro_error *error, const base_report *report) {
    ouro_status status = report->status == BASE_OK ? OURO_INVALID : (ouro_status)report->status;
    if (!error) return status;
    error->status = status;
    snprintf(error->message, sizeof error->message, "%.*s", (int)strcspn(report->text, "\n"), report->text);
    return status;
}

/* ---- one thread at a time ------------------------------------------------------------------------------ */

bool rt_session_enter(ouro_session *session, ouro_error *error) {
    if (!atomic_exchange_explicit(&session->busy, true, memory_order_acquire)) return true;
    base_report report = {0};
    base_fail(&report, BASE_USAGE,
              "another thread is using the session: a session is for one thread at a time");
    rt_error_set(error, &report);
    return false;
}

void rt_session_leave(ouro_session *session) {
    atomic_store_explicit(&session->busy, false, memory_order_release);
}

/* ---- plans --------------------------------------------------------------------------------------------- */

const plan_host rt_plan_host = {.describe_machine = rt_machine_describe, .has_kernel = rt_kernel_exists};

ouro_plan *rt_plan_new(plan *opened) {
    ouro_plan *handle = rt_take(&rt_heap, sizeof *handle);
    if (!handle) {
        plan_close(opened);
        return NULL;
    }
    *handle = (ouro_plan){.opened = *opened, .memory = rt_heap};
    handle->opened.memory = &handle->memory;
    return handle;
}

const plan *rt_plan_of(const ouro_plan *handle) {
    return &handle->opened;
}

/* A plan from a file, or (`path` NULL) from bytes in memory. The handle is taken first, so that it stays where what the checks take
 * and give back lies after it. */
static ouro_status open_plan(const char *path, bool share, const void *bytes, size_t size,
                             const ouro_allocator *memory, ouro_plan **made, ouro_error *error) {
    base_report report = {0};
    const base_allocator source = rt_source(memory, NULL);
    ouro_plan *handle = rt_take(&source, sizeof *handle);
    *made = NULL;
    if (!handle) {
        base_fail_memory(&report);
        return rt_error_set(error, &report);
    }
    *handle = (ouro_plan){.memory = source};
    plan_host host = rt_plan_host;
    if (memory) host.memory = &handle->memory;
    base_status status = path ? plan_load(path, share, &host, &handle->opened, &report)
                              : plan_open(bytes, size, "plan", &host, NULL, NULL, &handle->opened, &report);
    handle->opened.memory = &handle->memory;
    if (status == BASE_OK) {
        *made = handle;
        return OURO_OK;
    }
    rt_give(&source, handle);
    return rt_error_set(error, &report);
}

ouro_status ouro_plan_load(const char *path, ouro_plan **made, ouro_error *error) {
    return open_plan(path, false, NULL, 0, NULL, made, error);
}

ouro_status ouro_plan_load_with(const char *path, const ouro_allocator *memory, ouro_plan **made,
                                ouro_error *error) {
    return open_plan(path, false, NULL, 0, memory, made, error);
}

ouro_status ouro_plan_map(const char *path, ouro_plan **made, ouro_error *error) {
    return open_plan(path, true, NULL, 0, NULL, made, error);
}

ouro_status ouro_plan_open(const void *bytes, size_t size, ouro_plan **made, ouro_error *error) {
    return open_plan(NULL, false, bytes, size, NULL, made, error);
}

ouro_status ouro_plan_open_with(const void *bytes, size_t size, const ouro_allocator *memory,
                                ouro_plan **made, ouro_error *error) {
    return open_plan(NULL, false, bytes, size, memory, made, error);
}

void ouro_plan_free(ouro_plan *handle) {
    if (!handle) return;
    const base_allocator source = handle->memory;
    plan_close(&handle->opened);
    rt_give(&source, handle);
}

size_t ouro_plan_arena_bytes(const ouro_plan *handle) {
    return (size_t)handle->opened.header->arena_bytes;
}
uint64_t ouro_plan_spill_bytes(const ouro_plan *handle) {
    return handle->opened.header->spill_bytes;
}
const char *ouro_plan_spill_path(const ouro_plan *handle) {
    return handle->opened.texts + handle->opened.header->spill_path;
}
size_t ouro_plan_input_count(const ouro_plan *handle) {
    return (size_t)handle->opened.header->inputs.count;
}
size_t ouro_plan_output_count(const ouro_plan *handle) {
    return (size_t)handle->opened.header->outputs.count;
}

static ouro_status describe(const plan *of, const plan_interface *items, uint64_t count, size_t index,
                            ouro_tensor_info *info) {
    if (index >= count) return OURO_USAGE;
    op_type type;
    plan_interface_type(of, &items[index], &type);
    *info = (ouro_tensor_info){.name = of->texts + items[index].name,
                               .kind = (ouro_kind)type.kind,
                               .element = (ouro_kind)type.element,
                               .dtype = (ouro_dtype)type.dtype,
                               .rank = type.shape.rank,
                               .bytes = (size_t)of->tensors[items[index].tensor].bytes};
    for (int32_t d = 0; d < type.shape.rank; d++) {
        const int64_t dim = type.shape.dims[d];
        info->dims[d] = dim < 0 ? -1 : dim;
        if (dim < 0 && dim != OP_DIM_UNKNOWN) info->dim_names[d] = plan_symbol_name(of, (uint64_t)-dim);
    }
    return OURO_OK;
}

void rt_state_describe(const plan *of, size_t index, ouro_state_info *info) {
    const plan_state *state = &of->states[index];
    op_type type;
    plan_state_type(of, (uint32_t)index, &type);
    *info = (ouro_state_info){.input = of->texts + state->input,
                              .output = of->texts + state->output,
                              .dtype = (ouro_dtype)type.dtype,
                              .rank = type.shape.rank,
                              .axis = state->axis == PLAN_ABSENT ? -1 : (int)state->axis,
                              .bound = (int64_t)state->bound,
                              .bytes = (size_t)of->tensors[state->parameter].bytes};
    for (int32_t d = 0; d < type.shape.rank; d++)
        info->dims[d] = type.shape.dims[d] < 0 ? -1 : type.shape.dims[d];
}

size_t ouro_plan_state_count(const ouro_plan *handle) {
    return (size_t)handle->opened.header->states.count;
}
size_t ouro_plan_state_bytes(const ouro_plan *handle) {
    return (size_t)handle->opened.header->state_bytes;
}

ouro_status ouro_plan_state(const ouro_plan *handle, size_t index, ouro_state_info *info) {
    if (index >= handle->opened.header->states.count) return OURO_USAGE;
    rt_state_describe(&handle->opened, index, info);
    return OURO_OK;
}

int ouro_plan_find_state(const ouro_plan *handle, const char *name) {
    const plan *of = &handle->opened;
    for (uint64_t k = 0; k < 2 * of->header->states.count && k <= INT32_MAX; k++) { /* inputs first */
        const uint64_t i = k % of->header->states.count;
        const uint32_t text = k == i ? of->states[i].input : of->states[i].output;
        if (strcmp(of->texts + text, name) == 0) return (int)i;
    }
    return -1;
}

ouro_status ouro_plan_input(const ouro_plan *handle, size_t index, ouro_tensor_info *info) {
    return describe(&handle->opened, handle->opened.inputs, handle->opened.header->inputs.count, index, info);
}

ouro_status rt_output_describe(const plan *of, size_t index, ouro_tensor_info *info) {
    return describe(of, of->outputs, of->header->outputs.count, index, info);
}

ouro_status ouro_plan_output(const ouro_plan *handle, size_t index, ouro_tensor_info *info) {
    return rt_output_describe(&handle->opened, index, info);
}

static int find(const plan *of, const plan_interface *items, uint64_t count, const char *name) {
    for (uint64_t i = 0; i < count && i <= INT32_MAX; i++) {
        if (strcmp(of->texts + items[i].name, name) == 0) return (int)i;
    }
    return -1;
}

int ouro_plan_find_input(const ouro_plan *handle, const char *name) {
    return find(&handle->opened, handle->opened.inputs, handle->opened.header->inputs.count, name);
}

int ouro_plan_find_output(const ouro_plan *handle, const char *name) {
    return find(&handle->opened, handle->opened.outputs, handle->opened.header->outputs.count, name);
}

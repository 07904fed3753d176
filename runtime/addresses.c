/* SPDX-License-Identifier: Apache-2.0 */
/* addresses.c: the address of every tensor of a session: what is fixed, and what follows buffers of the caller and
 * multi-views. In a session whose tensors are unshared (shadow.c) each tensor that the plan makes has memory of its own. */
#include "runtime/executor.h"
#include "ir/base/sort.h"
#include <string.h>

/* `data` will follow what the list stands for: a buffer of the caller, or a multi-view. */
static bool add_patch(ouro_session *session, uint32_t *list, void **data, uint64_t offset) {
    rt_patch *patches =
        base_arena_grow(&session->code.tables, session->code.patches, &session->code.patch_capacity,
                        session->code.patch_count + 1, sizeof *patches);
    if (!patches) return false;
    session->code.patches = patches;
    patches[session->code.patch_count] = (rt_patch){data, offset, *list};
    *list = (uint32_t)session->code.patch_count++;
    return true;
}

/* Memory of its own: in a shadow for all that is not the caller's or a constant. */
static bool has_own_memory(const ouro_session *session, uint32_t id) {
    const plan_tensor *tensor = &session->of->tensors[id];
    if (!session->code.unshared || session->code.dynamic[id]) return false;
    return session->memory.own_tensors[id] != NULL || tensor->address.space == MEMORY_ARENA ||
           tensor->address.space == MEMORY_OUTPUT || tensor->address.space == MEMORY_MULTIVIEW ||
           tensor->address.space == MEMORY_STATE || tensor->address.space == MEMORY_SPILL;
}

/* *data becomes the address of the tensor, now and whenever its buffer is bound again. */
static bool resolve(ouro_session *session, uint32_t id, void **data) {
    const plan *of = session->of;
    const plan_tensor *tensor = &of->tensors[id];
    const plan_address *address = &tensor->address;
    *data = NULL;
    if (session->code.dynamic[id]) return true;
    if (has_own_memory(session, id)) {
        if (!session->memory.own_tensors[id])
            session->memory.own_tensors[id] = rt_take(&session->memory.source, (size_t)tensor->bytes);
        *data = session->memory.own_tensors[id];
        return *data != NULL;
    }
    switch (address->space) {
    case MEMORY_ARENA:
        *data = session->memory.arena + address->offset;
        return true;
    case MEMORY_STATE:
        *data = session->states.memory + address->offset;
        return true;
    case MEMORY_CONSTANT:
        *data = rt_constant(session, address->offset);
        return true;
    case MEMORY_INPUT:
        return add_patch(session, &session->bound.inputs[address->index].patches, data, address->offset);
    case MEMORY_OUTPUT:
        return add_patch(session, &session->bound.outputs[address->index].patches, data, address->offset);
    case MEMORY_MULTIVIEW:
        return add_patch(session, &session->code.multiview_patches[address->index], data, address->offset);
    default:
        return true; /* nobody reads or writes it */
    }
}

/* What a step sees of a tensor: nothing of one that has no address. */
bool rt_operand_make(ouro_session *session, uint32_t id, op_tensor *operand) {
    *operand = (op_tensor){0};
    if (id == PLAN_ABSENT || session->of->tensors[id].address.space == MEMORY_NONE) return true;
    operand->type = session->run.tensors[id].type;
    operand->bytes = session->run.tensors[id].bytes;
    return resolve(session, id, &operand->data);
}

void *rt_constant(const ouro_session *session, uint64_t offset) {
    for (size_t low = 0, high = session->code.string_count; low < high;) {
        size_t middle = (low + high) / 2;
        const rt_strings *range = &session->code.strings[middle];
        if (offset >= range->begin && offset < range->end)
            return (char *)range->data + (offset - range->begin);
        if (offset < range->begin) high = middle;
        else low = middle + 1;
    }
    return (void *)(uintptr_t)(session->of->constants + offset);
}

static int compare_ranges(const void *a, const void *b) {
    const rt_strings *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Constant strings are records in the plan; here they get the op_strings that kernels read. Tensors that share bytes
 * (one is a part of the other) share the op_strings too. */
static bool make_strings(ouro_session *session) {
    const plan *of = session->of;
    size_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass && !(session->code.strings = BASE_ARRAY(&session->code.tables, rt_strings, count)))
            return false;
        count = 0;
        for (uint64_t id = 0; id < of->header->tensors.count; id++) {
            const plan_tensor *tensor = &of->tensors[id];
            if (tensor->dtype != OP_STRING || tensor->address.space != MEMORY_CONSTANT || !tensor->bytes)
                continue;
            uint64_t begin = tensor->address.offset;
            if (pass) session->code.strings[count] = (rt_strings){begin, begin + tensor->bytes, NULL};
            count++;
        }
    }
    if (!count) return true;
    base_sort(session->code.strings, count, sizeof *session->code.strings, compare_ranges);
    for (size_t i = 0; i < count; i++) {
        rt_strings *last =
            session->code.string_count ? &session->code.strings[session->code.string_count - 1] : NULL;
        const rt_strings *range = &session->code.strings[i];
        if (last && range->begin < last->end) {
            if (range->end > last->end) last->end = range->end;
        } else {
            session->code.strings[session->code.string_count++] = *range;
        }
    }
    for (size_t i = 0; i < session->code.string_count; i++) {
        rt_strings *range = &session->code.strings[i];
        size_t strings = (size_t)(range->end - range->begin) / sizeof(op_string);
        range->data = BASE_ARRAY(&session->code.tables, op_string, strings);
        for (size_t k = 0; k < strings && range->data; k++) {
            const unsigned char *at = of->constants + range->begin + k * sizeof(plan_string);
            plan_string record;
            memcpy(&record, at, sizeof record);
            range->data[k] = (op_string){(const char *)at + record.offset, record.length};
        }
        if (!range->data) return false;
    }
    return true;
}

bool rt_is_dynamic(const plan *of, uint32_t id) {
    op_type type;
    size_t bytes;
    plan_tensor_type(of, id, &type);
    return of->tensors[id].address.space == MEMORY_DYNAMIC || !op_type_bytes(&type, &bytes);
}

base_status rt_tensors_make(ouro_session *session, base_report *report) {
    const plan *of = session->of;
    size_t count = (size_t)of->header->tensors.count;
    session->run.tensors = BASE_ARRAY(&session->code.tables, op_tensor, count);
    session->run.buffers = BASE_ARRAY(&session->code.tables, rt_buffer *, count);
    session->code.dynamic = BASE_ARRAY(&session->code.tables, bool, count);
    session->memory.own_tensors = BASE_ARRAY(&session->code.tables, void *, count);
    if (!session->run.tensors || !session->run.buffers || !session->code.dynamic ||
        !session->memory.own_tensors) {
        return base_fail_memory(report);
    }
    size_t multiviews = (size_t)of->header->multiviews.count;
    session->code.multiview_patches = BASE_ARRAY(&session->code.tables, uint32_t, multiviews);
    session->run.multiview_data = BASE_ARRAY(&session->code.tables, unsigned char *, multiviews);
    if (!session->code.multiview_patches || !session->run.multiview_data) return base_fail_memory(report);
    for (size_t v = 0; v < multiviews; v++) session->code.multiview_patches[v] = PLAN_ABSENT;
    if (!make_strings(session)) return base_fail_memory(report);
    for (uint32_t id = 0; id < count; id++) {
        const plan_tensor *record = &of->tensors[id];
        op_tensor *tensor = &session->run.tensors[id];
        plan_tensor_type(of, id, &tensor->type);
        tensor->bytes = (size_t)record->bytes;
        session->code.dynamic[id] = rt_is_dynamic(of, id);
        session->code.has_dynamic = session->code.has_dynamic || session->code.dynamic[id];
        if (session->code.dynamic[id]) tensor->bytes = 0; /* what the plan has is its reservation */
    }
    /* In a shadow what aliases hand on within inputs and constants is copied out. */
    for (uint64_t n = 0; session->code.unshared && n < of->header->nodes.count; n++) {
        const plan_node *node = &of->nodes[n];
        for (uint64_t i = 0; i < node->output_count; i++) {
            uint32_t id = of->tensor_ids[node->outputs + i];
            if (id == PLAN_ABSENT || session->code.dynamic[id]) continue;
            session->memory.own_tensors[id] =
                rt_take(&session->memory.source, session->run.tensors[id].bytes);
            if (!session->memory.own_tensors[id]) return base_fail_memory(report);
        }
    }
    for (uint32_t id = 0; id < count; id++) {
        if (!resolve(session, id, &session->run.tensors[id].data)) return base_fail_memory(report);
    }
    return BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* values.c: values whose size only a run knows: buffers of the run-time allocator, and what tensors are now. */
#include "runtime/executor.h"
#include <string.h>

/* ---- memory -------------------------------------------------------------------------------------------- */

static rt_buffer *take_kept(rt_pool *pool, size_t bytes) {
    for (uint32_t i = pool->kept_count; i-- > 0;) {
        rt_buffer *buffer = pool->kept[i];
        if (buffer->capacity < bytes || (buffer->capacity / 4 > bytes && buffer->capacity > RT_POOL_LEAST))
            continue;
        pool->kept_count--;
        memmove(pool->kept + i, pool->kept + i + 1, (pool->kept_count - i) * sizeof *pool->kept);
        return buffer;
    }
    return NULL;
}

static rt_buffer *take_new(rt_pool *pool, size_t bytes) {
    size_t total;
    rt_buffer *buffer =
        base_size_add(bytes, RT_ALIGNMENT, &total) ? rt_allocator_take(pool->allocator, total) : NULL;
    if (buffer) buffer->capacity = rt_allocator_capacity(pool->allocator, buffer) - RT_ALIGNMENT;
    return buffer;
}

rt_buffer *rt_pool_take(rt_pool *pool, size_t bytes) {
    rt_buffer *buffer = bytes <= RT_POOL_SMALL ? take_kept(pool, bytes) : NULL;
    if (!buffer) buffer = take_new(pool, bytes);
    if (!buffer && pool->kept_count) {
        rt_pool_flush(pool);
        buffer = take_new(pool, bytes);
    }
    if (!buffer) return NULL;
    *buffer = (rt_buffer){
        .references = 1, .capacity = buffer->capacity, .used = bytes, .data = (char *)buffer + RT_ALIGNMENT};
    return buffer;
}

void rt_pool_flush(rt_pool *pool) {
    while (pool->kept_count) rt_allocator_give(pool->allocator, pool->kept[--pool->kept_count]);
}

/* Keeps it, instead of the one that has been kept longest. */
static void keep(rt_pool *pool, rt_buffer *buffer) {
    if (pool->kept_count == RT_POOL_KEPT) {
        rt_allocator_give(pool->allocator, pool->kept[0]);
        memmove(pool->kept, pool->kept + 1, --pool->kept_count * sizeof *pool->kept);
    }
    pool->kept[pool->kept_count++] = buffer;
}

void rt_buffer_retain(rt_buffer *buffer) {
    if (buffer) buffer->references++;
}

/* What the elements of a sequence refer to. Sequences hold sequences at most once. */
static void release_elements(rt_pool *pool, rt_buffer *list) {
    rt_element *elements = list->data;
    for (size_t i = 0; i < list->used / sizeof *elements; i++) rt_buffer_release(pool, elements[i].buffer);
    list->used = 0;
    list->is_sequence = false;
}

void rt_buffer_release(rt_pool *pool, rt_buffer *buffer) {
    if (!buffer || --buffer->references || buffer->planned) return;
    if (buffer->is_sequence) release_elements(pool, buffer);
    if (buffer->capacity <= RT_POOL_SMALL) keep(pool, buffer);
    else rt_allocator_give(pool->allocator, buffer);
}

/* ---- values -------------------------------------------------------------------------------------------- */

void rt_value_lend(ouro_session *session, uint32_t id, void *data, size_t bytes, rt_buffer *buffer) {
    rt_buffer_retain(buffer); /* first: it may be the one that goes */
    rt_buffer_release(&session->memory.pool, session->run.buffers[id]);
    session->run.buffers[id] = buffer;
    session->run.tensors[id].data = data;
    session->run.tensors[id].bytes = bytes;
}

void rt_value_set(ouro_session *session, uint32_t id, const op_type *type, void *data, size_t bytes,
                  rt_buffer *buffer) {
    const op_type kept = *type; /* it may be the tensor's own */
    rt_value_lend(session, id, data, bytes, buffer);
    session->run.tensors[id] = (op_tensor){.type = kept, .bytes = bytes, .data = data};
}

void rt_value_release(ouro_session *session, uint32_t id) {
    rt_buffer_release(&session->memory.pool, session->run.buffers[id]);
    session->run.buffers[id] = NULL;
    session->run.tensors[id].data = NULL;
    session->run.tensors[id].bytes = 0;
}

/* The caller's memory for the output that the tensor is, or what is planned for it, if that is large enough. */
static rt_buffer *planned_buffer(ouro_session *session, uint32_t id, size_t bytes) {
    rt_planned *planned = session->memory.planned ? &session->memory.planned[id] : NULL;
    if (!planned) return NULL;
    const rt_binding *output = planned->output, *whole = planned->part_of;
    const bool bound = output && output->bound && output->bytes >= bytes;
    void *data = bound ? output->data : planned->data;
    const size_t capacity = bound ? output->bytes : planned->bytes;
    if (!bound && whole && whole->bound && whole->bytes >= planned->whole)
        data = (char *)whole->data + planned->at;
    if (!data || capacity < bytes) return NULL;
    planned->buffer =
        (rt_buffer){.references = 1, .planned = true, .capacity = capacity, .used = bytes, .data = data};
    return &planned->buffer;
}

bool rt_value_renew(ouro_session *session, uint32_t id, size_t bytes) {
    rt_buffer *buffer = planned_buffer(session, id, bytes);
    if (!buffer) buffer = rt_pool_take(&session->memory.pool, bytes);
    if (!buffer) {
        base_fail(&session->run.report, BASE_SYSTEM_ERROR, "out of memory: tensor \"%s\" needs %zu bytes",
                  session->of->texts + session->of->tensors[id].name, bytes);
        return false;
    }
    rt_buffer_release(&session->memory.pool, session->run.buffers[id]);
    session->run.buffers[id] = buffer;
    session->run.tensors[id].data = buffer->data;
    session->run.tensors[id].bytes = bytes;
    return true;
}

bool rt_value_new(ouro_session *session, uint32_t id, const op_type *type, size_t bytes) {
    const op_type kept = *type; /* it may be the tensor's own */
    if (!rt_value_renew(session, id, bytes)) return false;
    session->run.tensors[id].type = kept;
    session->run.tensors[id].symbolic = NULL;
    return true;
}

bool rt_value_is_lasting(const ouro_session *session, uint32_t id) {
    uint32_t place = session->of->tensors[id].address.space;
    return place == MEMORY_CONSTANT || place == MEMORY_INPUT;
}

base_status rt_value_fail(ouro_session *session, uint32_t id, const op_type *actual) {
    op_type planned;
    char is[256], was[256];
    plan_tensor_type(session->of, id, &planned);
    return base_fail(&session->run.report, BASE_INVALID,
                     "tensor \"%s\" is %s at run time, it was planned as %s",
                     session->of->texts + session->of->tensors[id].name,
                     plan_type_print(session->of, actual, is, sizeof is),
                     plan_type_print(session->of, &planned, was, sizeof was));
}

base_status rt_value_prepare(ouro_session *session, uint32_t id, const op_type *type, size_t bytes) {
    const op_tensor *planned = &session->run.tensors[id];
    if (session->code.dynamic[id])
        return rt_value_new(session, id, type, bytes) ? BASE_OK : BASE_SYSTEM_ERROR;
    if (type->dtype == planned->type.dtype && op_shape_equal(&type->shape, &planned->type.shape))
        return BASE_OK;
    return rt_value_fail(session, id, type);
}

base_status rt_value_put(ouro_session *session, uint32_t id, const op_tensor *value) {
    base_status status = rt_value_prepare(session, id, &value->type, value->bytes);
    if (status == BASE_OK && value->bytes) memcpy(session->run.tensors[id].data, value->data, value->bytes);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* binding_value.c: sequences, optionals and maps of the caller: as inputs a tree of values becomes lists (sequence.c) whose
 * tensors lie where the caller has them; as outputs lists become a tree. */
#include "runtime/executor.h"
#include <inttypes.h>
#include <string.h>

/* ---- inputs -------------------------------------------------------------------------------------------- */

typedef struct binder {
    ouro_session *session;
    const char *name; /* of the input */
    base_arena *arena;
    ouro_error *error;
} binder;

static ouro_status bind_tensor(const binder *b, op_dtype dtype, const ouro_value *value,
                               rt_element *element) {
    op_type *type = &element->tensor.type;
    char text[256];
    *type = (op_type){.dtype = (op_dtype)value->dtype, .shape.rank = value->rank};
    if (value->dtype != (ouro_dtype)dtype) {
        return rt_binding_fail(b->session, b->error, BASE_INVALID,
                               "input '%s' is given a tensor of %s, expected %s", b->name,
                               op_dtype_name((op_dtype)value->dtype), op_dtype_name(dtype));
    }
    if (value->rank < 0 || value->rank > OP_MAX_RANK)
        return rt_binding_fail(b->session, b->error, BASE_USAGE, "input '%s' is given a tensor of rank %d",
                               b->name, value->rank);
    memcpy(type->shape.dims, value->dims, (size_t)value->rank * sizeof *value->dims);
    size_t bytes;
    if (!op_type_bytes(type, &bytes) || bytes != value->bytes) {
        return rt_binding_fail(b->session, b->error, BASE_USAGE,
                               "input '%s' is given %zu bytes for a tensor %s", b->name, value->bytes,
                               op_type_print(type, text, sizeof text));
    }
    size_t alignment = rt_element_alignment(dtype);
    if (bytes && (!value->data || (uintptr_t)value->data % alignment != 0)) {
        return rt_binding_fail(b->session, b->error, BASE_USAGE, "input '%s' is given %s", b->name,
                               value->data ? "data that is not aligned to its elements" : "no data");
    }
    element->tensor.bytes = bytes;
    element->tensor.data = (void *)(uintptr_t)value->data;
    return OURO_OK;
}

static bool is_map(const ouro_value *value, op_dtype dtype) {
    if (value->count != 2 || !value->elements) return false;
    const ouro_value *keys = &value->elements[0], *values = &value->elements[1];
    return keys->kind == OURO_TENSOR && values->kind == OURO_TENSOR && keys->rank == 1 && values->rank == 1 &&
           keys->dims[0] == values->dims[0] && (keys->dtype == OURO_INT64 || keys->dtype == OURO_STRING) &&
           (op_dtype)values->dtype == dtype;
}

/* The value as an element of type `kind`, of which lists hold `within`. */
static ouro_status bind_value(const binder *b, op_kind kind, op_kind within, op_dtype dtype,
                              const ouro_value *value, rt_element *element) {
    static const char *const names[] = {"a tensor", "a sequence", "an optional", "a map"};
    *element = (rt_element){0};
    if ((op_kind)value->kind != kind) {
        return rt_binding_fail(b->session, b->error, BASE_INVALID, "input '%s' is given %s, expected %s",
                               b->name, names[(unsigned)value->kind & 3], names[kind & 3]);
    }
    if (kind == OP_KIND_TENSOR) return bind_tensor(b, dtype, value, element);
    if (kind == OP_KIND_OPTIONAL && value->count > 1)
        return rt_binding_fail(b->session, b->error, BASE_USAGE,
                               "input '%s' is given an optional of %zu values", b->name, value->count);
    if (kind == OP_KIND_MAP && !is_map(value, dtype))
        return rt_binding_fail(
            b->session, b->error, BASE_INVALID,
            "input '%s' is given a map that is not a vector of int64 or string keys and one of as "
            "many values of %s",
            b->name, op_dtype_name(dtype));
    rt_element *elements = BASE_ARRAY(b->arena, rt_element, value->count);
    if (!elements) return rt_binding_fail(b->session, b->error, BASE_SYSTEM_ERROR, "out of memory");
    element->tensor.type = (op_type){.kind = kind, .element = within, .dtype = dtype, .shape.rank = -1};
    element->tensor.bytes = value->count * sizeof *elements;
    element->tensor.data = elements;
    ouro_status status = OURO_OK;
    for (size_t i = 0; i < value->count && status == OURO_OK; i++)
        status = bind_value(b, within, OP_KIND_TENSOR,
                            kind == OP_KIND_MAP && i == 0 ? (op_dtype)value->elements[0].dtype : dtype,
                            &value->elements[i], &elements[i]);
    return status;
}

static ouro_status bind_any(ouro_session *session, size_t index, const ouro_value *value, ouro_error *error) {
    const plan *of = session->of;
    if (index >= of->header->inputs.count) {
        return rt_binding_fail(session, error, BASE_USAGE, "there is no input %zu: the model has %" PRIu64,
                               index, of->header->inputs.count);
    }
    rt_binding *binding = &session->bound.inputs[index];
    op_type type;
    plan_tensor_type(of, binding->tensor, &type);
    const binder b = {session, of->texts + of->inputs[index].name, &binding->lists, error};
    rt_element element;
    if (type.kind == OP_KIND_TENSOR) {
        ouro_status status = bind_value(&b, type.kind, type.element, type.dtype, value, &element);
        if (status != OURO_OK) return status;
        if (type.shape.rank >= 0 && type.shape.rank != value->rank)
            return rt_binding_fail(session, error, BASE_INVALID, "input '%s' is given rank %d, expected %d",
                                   b.name, value->rank, type.shape.rank);
        return rt_binding_tensor(session, index, value, error);
    }
    base_arena_free(&binding->lists);
    binding->bound = false;
    ouro_status status = bind_value(&b, type.kind, type.element, type.dtype, value, &element);
    if (status != OURO_OK) return status;
    binding->bound = true;
    session->run.tensors[binding->tensor] = element.tensor;
    rt_binding_point(session, binding, element.tensor.data);
    return OURO_OK;
}

ouro_status ouro_session_bind_value(ouro_session *session, size_t index, const ouro_value *value,
                                    ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    const ouro_status status = bind_any(session, index, value, error);
    rt_session_leave(session);
    return status;
}

/* ---- outputs ------------------------------------------------------------------------------------------- */

static bool make_value(base_arena *arena, const op_tensor *from, ouro_value *value) {
    *value = (ouro_value){.kind = (ouro_kind)from->type.kind, .dtype = (ouro_dtype)from->type.dtype};
    if (from->type.kind == OP_KIND_TENSOR) {
        value->rank = from->type.shape.rank;
        for (int32_t d = 0; d < value->rank; d++) value->dims[d] = from->type.shape.dims[d];
        value->data = from->data;
        value->bytes = from->bytes;
        return true;
    }
    const rt_element *elements = from->data;
    value->count = from->bytes / sizeof *elements;
    ouro_value *values = BASE_ARRAY(arena, ouro_value, value->count);
    for (size_t i = 0; i < value->count && values; i++) {
        if (!make_value(arena, &elements[i].tensor, &values[i])) return false;
    }
    value->elements = values;
    return values != NULL;
}

ouro_status ouro_session_output_value(ouro_session *session, size_t index, ouro_value *value,
                                      ouro_error *error) {
    const ouro_status status = rt_binding_expect_output(session, index, error);
    if (status != OURO_OK) return status;
    rt_binding *binding = &session->bound.outputs[index];
    const op_tensor result = rt_binding_result(session, binding);
    base_arena_free(&binding->lists);
    if (make_value(&binding->lists, &result, value)) return OURO_OK;
    return rt_binding_fail(session, error, BASE_SYSTEM_ERROR, "out of memory");
}

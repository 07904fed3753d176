/* SPDX-License-Identifier: Apache-2.0 */
/* records.c: the records of a plan read as types, attributes and names. */
#include "runtime/plan/plan.h"
#include "ir/operators/symbol_text.h"
#include <string.h>

void plan_tensor_type(const plan *of, uint32_t id, op_type *type) {
    const plan_tensor *tensor = &of->tensors[id];
    *type = (op_type){.kind = (op_kind)tensor->kind,
                      .element = (op_kind)tensor->element,
                      .dtype = (op_dtype)tensor->dtype,
                      .layout = (op_layout)tensor->layout,
                      .shape = {.rank = tensor->rank}};
    for (int32_t d = 0; d < tensor->rank; d++) type->shape.dims[d] = of->integers[tensor->dims + (uint64_t)d];
    if (type->layout == OP_LAYOUT_PACKED) type->packed_bytes = tensor->bytes;
}

void plan_interface_type(const plan *of, const plan_interface *item, op_type *type) {
    plan_tensor_type(of, item->tensor, type);
    if (item->sample) type->shape.dims[0] = -(int64_t)of->header->batch;
}

const char *plan_symbol_name(const plan *of, uint64_t number) {
    const char *name = number < of->header->symbols.count ? of->texts + of->symbols[number] : "";
    return name[0] ? name : NULL;
}

static const char *symbol_of_plan(const void *user, uint64_t number) {
    return plan_symbol_name(user, number);
}

char *plan_type_print(const plan *of, const op_type *type, char *text, size_t capacity) {
    op_type_print(type, text, capacity);
    op_symbols_named(text, capacity, symbol_of_plan, of);
    return text;
}

static bool read_attribute(const plan *of, const plan_attribute *from, base_arena *arena, op_attribute *to) {
    *to = (op_attribute){
        .name = of->texts + from->name, .kind = (op_attribute_kind)from->kind, .count = (size_t)from->count};
    bool listed = to->kind == OP_ATTRIBUTE_INTS || to->kind == OP_ATTRIBUTE_FLOATS ||
                  to->kind == OP_ATTRIBUTE_STRINGS || to->kind == OP_ATTRIBUTE_TYPE;
    const int64_t *integers = of->integers + (listed ? from->value : 0);
    switch (to->kind) {
    case OP_ATTRIBUTE_INT:
        to->as.integer = (int64_t)from->value;
        return true;
    case OP_ATTRIBUTE_FLOAT: {
        uint32_t bits = (uint32_t)from->value;
        memcpy(&to->as.real, &bits, sizeof bits);
        return true;
    }
    case OP_ATTRIBUTE_STRING:
        to->as.text = (op_string){of->texts + from->value, (size_t)from->count};
        to->count = 1;
        return true;
    case OP_ATTRIBUTE_INTS:
        to->as.integers = integers;
        return true;
    case OP_ATTRIBUTE_FLOATS: {
        float *reals = BASE_ARRAY(arena, float, to->count);
        for (size_t i = 0; reals && i < to->count; i++) {
            uint32_t bits = (uint32_t)integers[i];
            memcpy(&reals[i], &bits, sizeof bits);
        }
        to->as.reals = reals;
        return reals != NULL;
    }
    case OP_ATTRIBUTE_STRINGS: {
        op_string *texts = BASE_ARRAY(arena, op_string, to->count);
        for (size_t i = 0; texts && i < to->count; i++) {
            texts[i] = (op_string){of->texts + integers[2 * i], (size_t)integers[2 * i + 1]};
        }
        to->as.texts = texts;
        return texts != NULL;
    }
    case OP_ATTRIBUTE_TENSOR: {
        op_tensor *tensor = BASE_NEW(arena, op_tensor);
        if (!tensor) return false;
        const plan_tensor *record = &of->tensors[from->value];
        plan_tensor_type(of, (uint32_t)from->value, &tensor->type);
        tensor->bytes = (size_t)record->bytes;
        tensor->data = (void *)(uintptr_t)(of->constants + record->address.offset);
        to->as.tensor = tensor;
        return true;
    }
    case OP_ATTRIBUTE_TYPE: {
        op_type *type = BASE_NEW(arena, op_type);
        if (!type) return false;
        *type = (op_type){.kind = (op_kind)integers[0],
                          .element = (op_kind)integers[1],
                          .dtype = (op_dtype)integers[2],
                          .shape = {.rank = (int32_t)integers[3]}};
        for (int32_t d = 0; d < type->shape.rank; d++) type->shape.dims[d] = integers[4 + d];
        to->as.type = type;
        return true;
    }
    }
    return false;
}

bool plan_node_attributes(const plan *of, const plan_node *node, base_arena *arena,
                          op_attributes *attributes) {
    op_attribute *items = BASE_ARRAY(arena, op_attribute, (size_t)node->attribute_count);
    *attributes = (op_attributes){(size_t)node->attribute_count, items};
    for (size_t i = 0; items && i < attributes->count; i++) {
        if (!read_attribute(of, &of->attributes[node->attributes + i], arena, &items[i])) return false;
    }
    return items != NULL;
}

const char *plan_node_reason(const plan *of, const plan_node *node) {
    return of->texts + node->reason;
}

op_code plan_node_code(const plan *of, const plan_node *node) {
    return op_code_from_name(of->texts + node->operator_domain, of->texts + node->operator_name);
}

void plan_node_context(const plan *of, const plan_node *node, const char *file, base_report *report) {
    const char *name = of->texts + node->name, *path = of->texts + node->path;
    const char *origin = name[0] ? name
                         : node->output_count && of->tensor_ids[node->outputs] != PLAN_ABSENT
                             ? of->texts + of->tensors[of->tensor_ids[node->outputs]].name
                             : "";
    base_report_context(report, "%s: %s%snode \"%s\" (%s)", file ? file : of->texts + of->header->model_name,
                        path, path[0] ? ": " : "", origin, of->texts + node->operator_name);
}

const plan_attribute *plan_node_attribute(const plan *of, const plan_node *node, const char *name) {
    for (uint64_t i = 0; i < node->attribute_count; i++) {
        const plan_attribute *attribute = &of->attributes[node->attributes + i];
        if (strcmp(of->texts + attribute->name, name) == 0) return attribute;
    }
    return NULL;
}

bool plan_tensor_reservation(const plan *of, uint32_t id, plan_address *reservation) {
    const plan_tensor *tensor = &of->tensors[id];
    if (tensor->address.space != MEMORY_DYNAMIC || !tensor->bytes) return false;
    *reservation = (plan_address){MEMORY_ARENA, 0, tensor->address.offset};
    return true;
}

void plan_state_type(const plan *of, uint32_t index, op_type *type) {
    const plan_state *state = &of->states[index];
    plan_tensor_type(of, state->parameter, type);
    if (!state->turned) return;
    const int64_t first = type->shape.dims[0];
    memmove(type->shape.dims, type->shape.dims + 1, state->axis * sizeof first);
    type->shape.dims[state->axis] = first;
}

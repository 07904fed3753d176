/* ir_edit.c: changing modules: uses, inputs, results, nodes. */
#include "ir/ir_internal.h"
#include <string.h>

void ir_use_set(ir_use *use, ir_value *value) {
    if (use->value) {
        if (use->previous) use->previous->next = use->next;
        else use->value->uses = use->next;
        if (use->next) use->next->previous = use->previous;
    }
    use->previous = NULL;
    use->next = value ? value->uses : NULL;
    use->value = value;
    if (!value) return;
    if (value->uses) value->uses->previous = use;
    value->uses = use;
}

void ir_node_link(ir_node *node, ir_node *before) {
    ir_graph *graph = node->graph;
    node->next = before;
    node->previous = before ? before->previous : graph->last;
    if (node->previous) node->previous->next = node;
    else graph->first = node;
    if (before) before->previous = node;
    else graph->last = node;
    graph->node_count++;
}

static void unlink_node(ir_node *node) {
    ir_graph *graph = node->graph;
    if (node->previous) node->previous->next = node->next;
    else graph->first = node->next;
    if (node->next) node->next->previous = node->previous;
    else graph->last = node->previous;
    node->previous = node->next = NULL;
    graph->node_count--;
}

void ir_node_move(ir_node *node, ir_node *before) {
    if (before == node || (before && node->next == before)) return;
    unlink_node(node);
    ir_node_link(node, before);
}

bool ir_node_set_input(ir_node *node, uint32_t index, ir_value *value) {
    while (index >= node->input_count) {
        if (!ir_node_add_input(node)) return false;
    }
    ir_use_set(node->inputs[index], value);
    return true;
}

void ir_node_remove_input(ir_node *node, uint32_t index) {
    if (index >= node->input_count) return;
    ir_use_set(node->inputs[index], NULL);
    for (uint32_t i = index + 1; i < node->input_count; i++) {
        node->inputs[i - 1] = node->inputs[i];
        node->inputs[i - 1]->index = i - 1;
    }
    node->input_count--;
}

void ir_graph_set_result(ir_graph *graph, uint32_t index, ir_value *value) {
    ir_use_set(graph->results[index], value);
}

void ir_value_replace(ir_value *from, ir_value *to) {
    if (from == to) return;
    while (from->uses) ir_use_set(from->uses, to);
}

static void remove_value(ir_module *module, ir_value *value) {
    if (value) module->values[value->id.index] = NULL;
}

static void remove_graph(ir_module *module, ir_graph *graph);

/* Takes a node out of all tables; what it owned goes with it. Its outputs may have uses only inside what is
 * removed with it. */
static void drop_node(ir_node *node) {
    ir_module *module = node->graph->module;
    for (uint32_t i = 0; i < node->input_count; i++) ir_use_set(node->inputs[i], NULL);
    for (uint32_t i = 0; i < node->graph_count; i++) remove_graph(module, node->graphs[i]);
    for (uint32_t i = 0; i < node->output_count; i++) remove_value(module, node->outputs[i]);
    module->nodes[node->id.index] = NULL;
}

static void remove_graph(ir_module *module, ir_graph *graph) {
    for (uint32_t i = 0; i < graph->result_count; i++) ir_use_set(graph->results[i], NULL);
    while (graph->last) {
        ir_node *node = graph->last;
        unlink_node(node);
        drop_node(node);
    }
    for (uint32_t i = 0; i < graph->parameter_count; i++) remove_value(module, graph->parameters[i]);
    module->graphs[graph->id.index] = NULL;
}

void ir_node_remove(ir_node *node) {
    unlink_node(node);
    drop_node(node);
}

void ir_constant_remove(ir_module *module, ir_value *value) {
    if (value->constant->release) value->constant->release(value->constant->owner);
    value->constant->release = NULL;
    value->constant->tensor.data = NULL;
    remove_value(module, value);
}

/* ---- attributes ------------------------------------------------------------------------------------------------ */

static bool copy_text(base_arena *arena, op_string *text) {
    const char *copy = base_arena_text(arena, text->data ? text->data : "", text->length);
    text->data = copy;
    return copy != NULL;
}

static bool copy_attribute(base_arena *arena, const op_attribute *from, op_attribute *to) {
    *to = *from;
    to->name = base_arena_text(arena, from->name, strlen(from->name));
    if (!to->name) return false;
    switch (from->kind) {
    case OP_ATTRIBUTE_FLOAT:
    case OP_ATTRIBUTE_INT: return true;
    case OP_ATTRIBUTE_STRING: return copy_text(arena, &to->as.text);
    case OP_ATTRIBUTE_INTS: {
        int64_t *copy = BASE_ARRAY(arena, int64_t, from->count);
        if (copy && from->count) memcpy(copy, from->as.integers, from->count * sizeof *copy);
        to->as.integers = copy;
        return copy != NULL;
    }
    case OP_ATTRIBUTE_FLOATS: {
        float *copy = BASE_ARRAY(arena, float, from->count);
        if (copy && from->count) memcpy(copy, from->as.reals, from->count * sizeof *copy);
        to->as.reals = copy;
        return copy != NULL;
    }
    case OP_ATTRIBUTE_STRINGS: {
        op_string *copy = BASE_ARRAY(arena, op_string, from->count);
        to->as.texts = copy;
        for (size_t i = 0; copy && i < from->count; i++) {
            copy[i] = from->as.texts[i];
            if (!copy_text(arena, &copy[i])) return false;
        }
        return copy != NULL;
    }
    case OP_ATTRIBUTE_TENSOR: {
        op_tensor *copy = BASE_NEW(arena, op_tensor);
        if (!copy) return false;
        *copy = *from->as.tensor;
        copy->data = base_arena_text(arena, copy->data ? copy->data : "", copy->data ? copy->bytes : 0);
        to->as.tensor = copy;
        return copy->data != NULL;
    }
    case OP_ATTRIBUTE_TYPE: {
        op_type *copy = BASE_NEW(arena, op_type);
        if (copy) *copy = *from->as.type;
        to->as.type = copy;
        return copy != NULL;
    }
    }
    return false;
}

bool ir_attributes_copy(ir_module *module, const op_attributes *from, op_attributes *to) {
    op_attribute *items = BASE_ARRAY(&module->arena, op_attribute, from->count);
    if (!items) return false;
    for (size_t i = 0; i < from->count; i++) {
        if (!copy_attribute(&module->arena, &from->items[i], &items[i])) return false;
    }
    *to = (op_attributes){.count = from->count, .items = items};
    return true;
}

bool ir_attribute_set(ir_module *module, op_attributes *attributes, const op_attribute *attribute) {
    op_attribute *items = BASE_ARRAY(&module->arena, op_attribute, attributes->count + 1);
    if (!items) return false;
    size_t count = attributes->count, place = count;
    if (count) memcpy(items, attributes->items, count * sizeof *items);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(items[i].name, attribute->name) == 0) place = i;
    }
    if (!copy_attribute(&module->arena, attribute, &items[place])) return false;
    *attributes = (op_attributes){.count = place == count ? count + 1 : count, .items = items};
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* edit.c: changes of a module and questions about it. See ir.h. */
#include "ir/ir.h"

#include <assert.h>
#include <string.h>

/* ---- change ------------------------------------------------------------------------------------- */

static void use_unlink(ir_use *use) {
    if (!use->value) return;
    *(use->previous ? &use->previous->next : &use->value->uses) = use->next;
    if (use->next) use->next->previous = use->previous;
    use->value = NULL;
    use->previous = use->next = NULL;
}

static void use_set(ir_use *use, ir_value *value) {
    if (use->value == value) return;
    use_unlink(use);
    use->value = value;
    if (!value) return;
    use->next = value->uses;
    if (value->uses) value->uses->previous = use;
    value->uses = use;
}

ir_value *ir_input(const ir_node *node, uint32_t index) {
    return index < node->input_count ? node->inputs[index]->value : NULL;
}

bool ir_node_set_input(ir_node *node, uint32_t index, ir_value *value) {
    if (index >= node->input_count) {
        if (index == UINT32_MAX) return false;
        base_arena *arena = &node->graph->module->arena;
        uint32_t more = index + 1 - node->input_count;
        ir_use *uses = BASE_ARRAY(arena, ir_use, more);
        size_t capacity = 1, larger = 1; /* powers of two, as in ir_node_new */
        while (capacity < node->input_count) capacity *= 2;
        while (larger <= index) larger *= 2;
        ir_use **inputs = larger > capacity ? BASE_ARRAY(arena, ir_use *, larger) : node->inputs;
        if (!uses || !inputs) return false;
        if (inputs != node->inputs) memcpy(inputs, node->inputs, node->input_count * sizeof *inputs);
        node->inputs = inputs;
        for (uint32_t i = 0; i < more; i++) {
            uses[i].node = node;
            uses[i].graph = node->graph;
            uses[i].index = node->input_count;
            inputs[node->input_count++] = &uses[i];
        }
    }
    use_set(node->inputs[index], value);
    return true;
}

void ir_node_remove_input(ir_node *node, uint32_t index) {
    if (index >= node->input_count) return;
    use_unlink(node->inputs[index]);
    node->input_count--;
    for (uint32_t i = index; i < node->input_count; i++) {
        node->inputs[i] = node->inputs[i + 1];
        node->inputs[i]->index = i;
    }
}

void ir_graph_set_result(ir_graph *graph, uint32_t index, ir_value *value) {
    assert(index < graph->result_count);
    use_set(graph->results[index], value);
}

void ir_value_replace(ir_value *from, ir_value *to) {
    if (from == to || !from->uses) return;
    ir_use *last = NULL;
    for (ir_use *use = from->uses; use; use = use->next) {
        use->value = to;
        last = use;
    }
    last->next = to->uses;
    if (to->uses) to->uses->previous = last;
    to->uses = from->uses;
    from->uses = NULL;
}

static void value_erase(ir_module *module, ir_value *value) {
    module->values[value->id.index] = NULL;
    base_map_put(&module->names, value->name, NULL); /* replaces: needs no memory */
}

static void node_unlink(ir_node *node) {
    ir_graph *graph = node->graph;
    *(node->previous ? &node->previous->next : &graph->first) = node->next;
    *(node->next ? &node->next->previous : &graph->last) = node->previous;
    node->previous = node->next = NULL;
    graph->node_count--;
}

void ir_node_remove(ir_node *node) {
    ir_module *module = node->graph->module;
    for (uint32_t i = 0; i < node->input_count; i++) use_unlink(node->inputs[i]);
    for (uint32_t i = 0; i < node->graph_count; i++) {
        ir_graph *graph = node->graphs[i];
        for (uint32_t r = 0; r < graph->result_count; r++) use_unlink(graph->results[r]);
        while (graph->last) ir_node_remove(graph->last); /* from the end: uses go before their definitions */
        for (uint32_t p = 0; p < graph->parameter_count; p++) value_erase(module, graph->parameters[p]);
        module->graphs[graph->id.index] = NULL;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!node->outputs[i]) continue;
        assert(!node->outputs[i]->uses);
        value_erase(module, node->outputs[i]);
    }
    node_unlink(node);
    module->nodes[node->id.index] = NULL;
}

void ir_node_drop_output(ir_node *node, uint32_t index) {
    assert(!node->outputs[index]->uses);
    value_erase(node->graph->module, node->outputs[index]);
    node->outputs[index] = NULL;
}

void ir_node_remove_output(ir_node *node, uint32_t index) {
    if (node->outputs[index]) ir_node_drop_output(node, index);
    node->output_count--;
    for (uint32_t i = index; i < node->output_count; i++) {
        node->outputs[i] = node->outputs[i + 1];
        if (node->outputs[i]) node->outputs[i]->index = i;
    }
}

void ir_graph_remove_parameter(ir_graph *graph, uint32_t index) {
    assert(!graph->parameters[index]->uses);
    value_erase(graph->module, graph->parameters[index]);
    graph->parameter_count--;
    for (uint32_t i = index; i < graph->parameter_count; i++) {
        graph->parameters[i] = graph->parameters[i + 1];
        graph->parameters[i]->index = i;
    }
}

void ir_graph_remove_result(ir_graph *graph, uint32_t index) {
    use_unlink(graph->results[index]);
    graph->result_count--;
    for (uint32_t i = index; i < graph->result_count; i++) {
        graph->results[i] = graph->results[i + 1];
        graph->results[i]->index = i;
    }
    for (size_t i = index; i + 1 < graph->result_name_capacity; i++)
        graph->result_names[i] = graph->result_names[i + 1];
}

void ir_constant_remove(ir_module *module, ir_value *value) {
    assert(value->kind == IR_CONSTANT && !value->uses);
    ir_constant *constant = value->constant;
    if (constant->release) constant->release(constant->owner);
    constant->release = NULL;
    constant->tensor.data = NULL;
    value_erase(module, value);
}

/* Puts a node that is in no list into its graph's, before `before` or (NULL) at the end. */
static void node_link(ir_node *node, ir_node *before) {
    ir_graph *graph = node->graph;
    assert(!before || before->graph == graph);
    node->next = before;
    node->previous = before ? before->previous : graph->last;
    *(node->previous ? &node->previous->next : &graph->first) = node;
    *(before ? &before->previous : &graph->last) = node;
    graph->node_count++;
}

void ir_node_move(ir_node *node, ir_node *before) {
    if (before == node) return;
    node_unlink(node);
    node_link(node, before);
}

void ir_node_relocate(ir_node *node, ir_graph *graph, ir_node *before) {
    node_unlink(node);
    node->graph = graph;
    for (uint32_t i = 0; i < node->input_count; i++) node->inputs[i]->graph = graph;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i]) node->outputs[i]->graph = graph;
    }
    node_link(node, before);
}

/* ---- questions ---------------------------------------------------------------------------------- */

uint32_t ir_value_use_count(const ir_value *value) {
    uint32_t count = 0;
    for (const ir_use *use = value->uses; use; use = use->next) count++;
    return count;
}

bool ir_graph_encloses(const ir_graph *graph, const ir_graph *inner) {
    while (inner && inner != graph) inner = inner->owner ? inner->owner->graph : NULL;
    return inner != NULL;
}

/* The captures found so far: a list, and a hash set over the numbers of its values. */
typedef struct capture_list {
    base_arena *arena;
    ir_value **values;
    size_t count, capacity;
    ir_value **slots;
    size_t slot_count; /* a power of two, or zero */
} capture_list;

static ir_value **capture_slot(ir_value **slots, size_t slot_count, const ir_value *value) {
    size_t at = (value->id.index * UINT32_C(2654435769)) & (slot_count - 1);
    while (slots[at] && slots[at] != value) at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

static bool capture_add(capture_list *list, ir_value *value) {
    if (list->count >= list->slot_count / 2) {
        size_t slot_count = list->slot_count ? list->slot_count * 2 : 16;
        ir_value **slots = BASE_ARRAY(list->arena, ir_value *, slot_count);
        if (!slots) return false;
        for (size_t i = 0; i < list->count; i++) {
            *capture_slot(slots, slot_count, list->values[i]) = list->values[i];
        }
        list->slots = slots;
        list->slot_count = slot_count;
    }
    ir_value **slot = capture_slot(list->slots, list->slot_count, value);
    if (*slot) return true;
    ir_value **values =
        base_arena_grow(list->arena, list->values, &list->capacity, list->count + 1, sizeof *values);
    if (!values) return false;
    list->values = values;
    values[list->count++] = value;
    *slot = value;
    return true;
}

static bool capture_use(capture_list *list, const ir_node *node, ir_value *value) {
    if (!value || value->kind == IR_CONSTANT || !ir_graph_encloses(value->graph, node->graph)) return true;
    return capture_add(list, value);
}

static bool capture_graphs(capture_list *list, const ir_node *root, const ir_node *owner) {
    for (uint32_t i = 0; i < owner->graph_count; i++) {
        const ir_graph *graph = owner->graphs[i];
        for (const ir_node *node = graph->first; node; node = node->next) {
            for (uint32_t k = 0; k < node->input_count; k++) {
                if (!capture_use(list, root, node->inputs[k]->value)) return false;
            }
            if (!capture_graphs(list, root, node)) return false;
        }
        for (uint32_t k = 0; k < graph->result_count; k++) {
            if (!capture_use(list, root, graph->results[k]->value)) return false;
        }
    }
    return true;
}

bool ir_node_captures(const ir_node *node, base_arena *arena, ir_value ***values, size_t *count) {
    capture_list list = {.arena = arena};
    *values = NULL;
    *count = 0;
    if (!capture_graphs(&list, node, node)) return false;
    *values = list.values;
    *count = list.count;
    return true;
}

void ir_node_context(const ir_node *node, base_report *report) {
    const char *file = node->graph->module->name, *operator_name = op_schema_of(node->code)->name;
    const char *path = node->path[0] ? node->path : "main";
    if (node->name[0]) {
        base_report_context(report, "%s: %s: node \"%s\" (%s)", file, path, node->name, operator_name);
        return;
    }
    const ir_value *output = NULL; /* a node without a name is known by what it makes */
    for (uint32_t i = 0; i < node->output_count && !output; i++) output = node->outputs[i];
    base_report_context(report, "%s: %s: node of \"%s\" (%s)", file, path, output ? output->name : "",
                        operator_name);
}

/* What is known of a value, or of the absence of one. */
static op_tensor tensor_of(const ir_value *value) {
    op_tensor tensor = {.type = {.dtype = OP_NONE, .shape.rank = -1}};
    if (!value) return tensor;
    if (value->constant) tensor = value->constant->tensor;
    tensor.type = value->type;
    tensor.symbolic = value->symbolic;
    return tensor;
}

bool ir_node_has_lists(const ir_node *node) {
    bool lists = op_schema_of(node->code)->flags & OP_FLAG_LISTS;
    for (uint32_t i = 0; i < node->input_count; i++)
        lists |= ir_input(node, i) && ir_input(node, i)->type.kind != OP_KIND_TENSOR;
    for (uint32_t i = 0; i < node->output_count; i++)
        lists |= node->outputs[i] && node->outputs[i]->type.kind != OP_KIND_TENSOR;
    return lists;
}

bool ir_node_call(const ir_node *node, base_arena *arena, op_call *call) {
    op_tensor *inputs = BASE_ARRAY(arena, op_tensor, node->input_count);
    op_tensor *outputs = BASE_ARRAY(arena, op_tensor, node->output_count);
    if (!inputs || !outputs) return false;
    for (uint32_t i = 0; i < node->input_count; i++) inputs[i] = tensor_of(node->inputs[i]->value);
    for (uint32_t i = 0; i < node->output_count; i++) outputs[i] = tensor_of(node->outputs[i]);
    *call = (op_call){.code = node->code,
                      .attributes = node->attributes,
                      .input_count = node->input_count,
                      .output_count = node->output_count,
                      .inputs = inputs,
                      .outputs = outputs,
                      .arena = arena,
                      .dim_compute = ir_symbol_compute,
                      .user = node->graph->module};
    return true;
}

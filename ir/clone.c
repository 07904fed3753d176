/* SPDX-License-Identifier: Apache-2.0 */
/* clone.c: a second module to try something on. */
#include "ir/loop.h"
#include <string.h>

typedef struct cloner {
    const ir_module *from;
    ir_module *to;
    ir_value **values; /* by id in `from` */
} cloner;

static bool clone_symbols(const cloner *c) {
    for (size_t i = 1; i < c->from->symbol_count; i++) {
        const ir_symbol *symbol = &c->from->symbols[i];
        const int64_t made = symbol->name ? ir_symbol_named(c->to, symbol->name)
                                          : ir_symbol_compute(c->to, symbol->operation, symbol->a, symbol->b);
        if (made != -(int64_t)i) return false;
        c->to->symbols[i].bound = symbol->bound;
        c->to->symbols[i].unnamed = symbol->unnamed;
    }
    c->to->batch = c->from->batch;
    return true;
}

static bool clone_constants(const cloner *c) {
    for (size_t i = 1; i < c->from->value_count; i++) {
        const ir_value *value = c->from->values[i];
        if (!value || value->kind != IR_CONSTANT) continue;
        c->values[i] = ir_constant_new(c->to, value->name, &value->constant->tensor, NULL, NULL);
        if (!c->values[i]) return false;
    }
    return true;
}

static void note(const cloner *c, const ir_value *value, ir_value *made) {
    c->values[value->id.index] = made;
    made->symbolic = value->symbolic;
}

static ir_graph *clone_graph(const cloner *c, const ir_graph *graph);

static bool clone_node(const cloner *c, const ir_node *node, ir_graph *graph) {
    ir_value **inputs = BASE_ARRAY(&c->to->arena, ir_value *, node->input_count);
    if (!inputs) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        inputs[i] = input ? c->values[input->id.index] : NULL;
    }
    ir_node *made = ir_node_new(graph, NULL, node->code, node->name, node->path, node->attributes,
                                node->input_count, inputs);
    if (!made) return false;
    made->kernel = node->kernel;
    made->scratch_bytes = node->scratch_bytes;
    made->reason = node->reason;
    for (uint32_t k = 0; k < node->graph_count; k++) {
        ir_graph *inner = clone_graph(c, node->graphs[k]);
        if (!inner || !ir_node_add_graph(made, inner)) return false;
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        const ir_value *output = node->outputs[o];
        if (!output) {
            if (!ir_node_add_absent_output(made)) return false;
            continue;
        }
        ir_value *value = ir_node_add_output(made, output->name, &output->type);
        if (!value) return false;
        note(c, output, value);
    }
    return true;
}

static ir_graph *clone_graph(const cloner *c, const ir_graph *graph) {
    ir_graph *made = ir_graph_new(c->to, graph->name);
    bool fine = made != NULL;
    for (uint32_t i = 0; i < graph->parameter_count && fine; i++) {
        const ir_value *parameter = graph->parameters[i];
        ir_value *value = ir_graph_add_parameter(made, parameter->name, &parameter->type);
        fine = value != NULL;
        if (fine) value->is_sample = parameter->is_sample;
        if (fine) note(c, parameter, value);
    }
    for (const ir_node *node = graph->first; node && fine; node = node->next)
        fine = clone_node(c, node, made);
    for (uint32_t i = 0; i < graph->result_count && fine; i++)
        fine = ir_graph_add_result(made, c->values[graph->results[i]->value->id.index]) &&
               ir_graph_set_result_name(made, i, ir_graph_result_name(graph, i));
    return fine ? made : NULL;
}

/* The loop around the model: its states are the first parameters and results of main. */
static bool clone_run(const cloner *c) {
    const uint32_t count = ir_module_states(c->from);
    if (!c->from->run) return true;
    ir_state_pair *pairs = BASE_ARRAY(&c->to->arena, ir_state_pair, count);
    for (uint32_t i = 0; pairs && i < count; i++) pairs[i] = (ir_state_pair){i, i};
    return pairs && ir_module_carry(c->to, pairs, count);
}

ir_module *ir_module_clone(const ir_module *module) {
    cloner c = {.from = module, .to = ir_module_new(module->arena.allocator, module->name)};
    if (!c.to) return NULL;
    c.values = BASE_ARRAY(&c.to->arena, ir_value *, module->value_count);
    if (c.values && clone_symbols(&c) && clone_constants(&c) && clone_graph(&c, module->main) &&
        clone_run(&c))
        return c.to;
    ir_module_free(c.to);
    return NULL;
}

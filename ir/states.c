/* SPDX-License-Identifier: Apache-2.0 */
/* states.c: the loop around the model; see loop.h. */
#include "ir/loop.h"
#include <string.h>

uint32_t ir_module_states(const ir_module *module) {
    return module->run ? module->run->input_count - 2 : 0;
}

bool ir_graph_is_run(const ir_graph *graph) {
    return graph->owner && graph->owner == graph->module->run;
}

/* The parameters of the pairs first, all others after them as they stood. */
static bool sort_parameters(ir_graph *main, const ir_state_pair *pairs, uint32_t count, base_arena *scratch) {
    ir_value **sorted = BASE_ARRAY(scratch, ir_value *, main->parameter_count);
    uint32_t next = count;
    if (!sorted) return false;
    for (uint32_t i = 0; i < main->parameter_count; i++) {
        uint32_t k = 0;
        while (k < count && pairs[k].parameter != i) k++;
        sorted[k < count ? k : next++] = main->parameters[i];
    }
    for (uint32_t i = 0; i < main->parameter_count; i++) {
        main->parameters[i] = sorted[i];
        sorted[i]->index = i;
    }
    return true;
}

static bool sort_results(ir_graph *main, const ir_state_pair *pairs, uint32_t count, base_arena *scratch) {
    ir_use **sorted = BASE_ARRAY(scratch, ir_use *, main->result_count);
    const char **names = BASE_ARRAY(scratch, const char *, main->result_count);
    uint32_t next = count;
    if (!sorted || !names) return false;
    for (uint32_t i = 0; i < main->result_count; i++) {
        uint32_t k = 0;
        while (k < count && pairs[k].result != i) k++;
        const uint32_t to = k < count ? k : next++;
        sorted[to] = main->results[i];
        names[to] = ir_graph_result_name(main, i);
    }
    for (uint32_t i = 0; i < main->result_count; i++) {
        main->results[i] = sorted[i];
        sorted[i]->index = i;
    }
    for (uint32_t i = 0; i < main->result_count; i++)
        if (!ir_graph_set_result_name(main, i, names[i])) return false;
    return true;
}

/* What the states are in the first run: made by a node before the loop, as initial values are that nobody else needs. What runs
 * there is the business of the session; the node stands for it. */
static bool make_loop(ir_module *module, uint32_t count, base_arena *scratch) {
    const op_attributes none = {0};
    ir_value **inputs = BASE_ARRAY(scratch, ir_value *, (size_t)count + 2);
    ir_graph *around = ir_graph_new(module, "runs");
    ir_node *reset = around ? ir_node_new(around, NULL, OP_IF, "reset", "", none, 0, NULL) : NULL;
    if (!inputs || !reset) return false;
    for (uint32_t i = 0; i < count; i++) {
        inputs[2 + i] = ir_node_add_output(reset, NULL, &module->main->parameters[i]->type);
        if (!inputs[2 + i]) return false;
    }
    ir_node *run = ir_node_new(around, NULL, OP_LOOP, "run", "", none, count + 2, inputs);
    if (!run || !ir_node_add_graph(run, module->main)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!ir_node_add_absent_output(run)) return false;
    module->states = BASE_ARRAY(&module->arena, ir_state, count);
    for (uint32_t i = 0; module->states && i < count; i++) module->states[i].axis = -1;
    module->run = run;
    return module->states != NULL;
}

bool ir_module_carry(ir_module *module, const ir_state_pair *pairs, uint32_t count) {
    base_arena scratch;
    base_arena_init(&scratch, module->arena.allocator);
    const bool made = sort_parameters(module->main, pairs, count, &scratch) &&
                      sort_results(module->main, pairs, count, &scratch) &&
                      make_loop(module, count, &scratch);
    base_arena_free(&scratch);
    return made;
}

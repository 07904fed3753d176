/* walk.c: the graphs of a module in order, and the steps of their nodes. */
#include "passes/base/pass.h"

int64_t *pass_number_nodes(const ir_module *module, base_arena *scratch) {
    int64_t *numbers = BASE_ARRAY(scratch, int64_t, module->node_count);
    if (!numbers) return NULL;
    for (size_t g = 1; g < module->graph_count; g++) {
        if (!module->graphs[g]) continue;
        int64_t number = 0;
        for (const ir_node *node = module->graphs[g]->first; node; node = node->next)
            numbers[node->id.index] = number++;
    }
    return numbers;
}

int64_t pass_step_in(const ir_graph *graph, const ir_node *node, const int64_t *numbers) {
    while (node->graph != graph) node = node->graph->owner;
    return numbers[node->id.index];
}

ir_graph **pass_graphs_outermost_first(const ir_module *module, base_arena *scratch, size_t *count) {
    ir_graph **graphs = BASE_ARRAY(scratch, ir_graph *, module->graph_count);
    if (!graphs) return NULL;
    graphs[0] = module->main;
    *count = 1;
    for (size_t i = 0; i < *count; i++) {
        for (const ir_node *node = graphs[i]->first; node; node = node->next) {
            for (uint32_t g = 0; g < node->graph_count; g++) graphs[(*count)++] = node->graphs[g];
        }
    }
    return graphs;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c: the graphs of a module in order, and the steps of their nodes. */
#include "passes/base/pass.h"

bool pass_order_read(const ir_module *module, base_arena *arena, pass_order *order) {
    order->nodes = BASE_ARRAY(arena, ir_node **, module->graph_count);
    order->numbers = BASE_ARRAY(arena, int64_t, module->node_count);
    if (!order->nodes || !order->numbers) return false;
    for (size_t g = 1; g < module->graph_count; g++) {
        const ir_graph *graph = module->graphs[g];
        if (!graph) continue;
        ir_node **nodes = order->nodes[g] = BASE_ARRAY(arena, ir_node *, (size_t)graph->node_count + 1);
        if (!nodes) return false;
        int64_t number = 0;
        for (ir_node *node = graph->first; node; node = node->next) {
            nodes[number] = node;
            order->numbers[node->id.index] = number++;
        }
    }
    return true;
}

int64_t pass_step_in(const ir_graph *graph, const ir_node *node, const int64_t *numbers) {
    while (node->graph != graph) node = node->graph->owner;
    return numbers[node->id.index];
}

bool pass_stands_before(const ir_node *a, const ir_node *b) {
    for (const ir_node *left = b, *right = b; left || right;) {
        left = left ? left->previous : NULL;
        right = right ? right->next : NULL;
        if (left == a) return true;
        if (right == a) return false;
    }
    return false;
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

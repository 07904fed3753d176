/* SPDX-License-Identifier: Apache-2.0 */
/* peaks.c: how many bytes the graphs have live at once, from live ranges. */
#include "passes/memory/memory.h"

size_t **pass_region_live(const pass_memory *memory, ir_graph *const *graphs, size_t graph_count,
                          base_arena *scratch) {
    size_t **live = BASE_ARRAY(scratch, size_t *, memory->graph_count);
    if (!live) return NULL;
    for (size_t g = 0; g < graph_count; g++) {
        live[graphs[g]->id.index] = BASE_ARRAY(scratch, size_t, (size_t)graphs[g]->node_count + 3);
        if (!live[graphs[g]->id.index]) return NULL;
    }
    /* What begins and what ends at each step, as differences that may wrap around: their sums do not. */
    for (size_t i = 1; i < memory->storage_count; i++) {
        const pass_storage *storage = &memory->storages[i];
        if (storage->part_of.index || storage->space != MEMORY_ARENA || storage->buffer_of) continue;
        if (!live[storage->graph->id.index]) continue; /* what is kept from run to run */
        live[storage->graph->id.index][storage->first] += storage->bytes;
        live[storage->graph->id.index][storage->last] -= storage->bytes;
    }
    for (size_t g = 0; g < graph_count; g++) {
        size_t *of_graph = live[graphs[g]->id.index];
        for (size_t step = 1; step < (size_t)graphs[g]->node_count + 3; step++)
            of_graph[step] += of_graph[step - 1];
    }
    return live;
}

bool pass_region_peaks(const pass_memory *memory, ir_graph *const *graphs, size_t graph_count,
                       base_arena *scratch, size_t *peaks) {
    size_t **live = pass_region_live(memory, graphs, graph_count, scratch);
    if (!live) return false;
    for (size_t g = graph_count; g-- > 0;) {
        const size_t *of_graph = live[graphs[g]->id.index];
        size_t peak = 0;
        ir_node *const *nodes = memory->order.nodes[graphs[g]->id.index];
        for (size_t step = 0; step < (size_t)graphs[g]->node_count + 2; step++) {
            const ir_node *node = step < graphs[g]->node_count ? nodes[step] : NULL;
            size_t inner = 0;
            for (uint32_t k = 0; node && k < node->graph_count; k++) {
                size_t region = peaks[node->graphs[k]->id.index];
                if (region > inner) inner = region;
            }
            if (of_graph[step] + inner > peak) peak = of_graph[step] + inner;
        }
        peaks[graphs[g]->id.index] = peak;
    }
    return true;
}

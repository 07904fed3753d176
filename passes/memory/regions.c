/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c: a region of the arena for each graph, the innermost first, by the planner that was asked for.
 *
 * Each graph's storages in the arena are one problem for the planner; its height is the graph's region. A control node's
 * sub-graphs lie in one buffer of the graph around it, which is as large as the largest of their regions (the branches of an If
 * overlay each other) and is live while the node runs: for that graph's planner it is a storage as any.
 *
 * A trial does the same, tells where storages end, and leaves the memory plan as it was.
 */
#include "passes/memory/regions.h"
#include "passes/memory/memory.h"
#include <string.h>

/* The storages that the planner of each graph places, and how many they are: those of graph g are
 * storages[starts[g] .. starts[g + 1]). The buffers of sub-graphs come to them when their sizes are known. */
typedef struct region_list {
    size_t *starts;
    uint32_t *storages;
} region_list;

bool pass_is_placed(const pass_storage *storage) {
    return storage->space == MEMORY_ARENA && !storage->part_of.index && storage->last > storage->first &&
           storage->bytes;
}

static bool list_regions(const pass_memory *memory, base_arena *scratch, region_list *list) {
    list->starts = BASE_ARRAY(scratch, size_t, memory->graph_count + 2);
    list->storages = BASE_ARRAY(scratch, uint32_t, memory->storage_count);
    if (!list->starts || !list->storages) return false;
    for (size_t i = 1; i < memory->storage_count; i++)
        if (pass_is_placed(&memory->storages[i])) list->starts[memory->storages[i].graph->id.index + 2]++;
    for (size_t g = 2; g < memory->graph_count + 2; g++) list->starts[g] += list->starts[g - 1];
    for (size_t i = 1; i < memory->storage_count; i++) {
        const pass_storage *storage = &memory->storages[i];
        if (pass_is_placed(storage))
            list->storages[list->starts[storage->graph->id.index + 1]++] = (uint32_t)i;
    }
    return true;
}

/* Places the listed storages of the graph, and the buffers of its sub-graphs, which are all storages from `first_buffer`
 * on. */
static base_status place_region(pass_context *context, const planner *asked, const planner_options *options,
                                const ir_graph *graph, const region_list *list, size_t first_buffer,
                                base_arena *arena) {
    pass_memory *memory = context->memory;
    const size_t id = graph->id.index, own = list->starts[id + 1] - list->starts[id],
                 count = own + memory->storage_count - first_buffer;
    uint32_t *placed = BASE_ARRAY(arena, uint32_t, count);
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, count);
    if (!placed || !buffers) return base_fail_memory(context->report);
    for (size_t i = 0; i < count; i++) {
        placed[i] = i < own ? list->storages[list->starts[id] + i] : (uint32_t)(first_buffer + i - own);
        const pass_storage *storage = &memory->storages[placed[i]];
        buffers[i] = (planner_buffer){.size = storage->bytes,
                                      .alignment = RT_ALIGNMENT,
                                      .first = storage->first,
                                      .last = storage->last,
                                      .fixed = PLANNER_NOT_FIXED};
        if (!base_size_add(memory->sum_bytes, storage->bytes, &memory->sum_bytes)) {
            return base_fail(context->report, BASE_INVALID, "the tensors are too large for an address space");
        }
    }
    planner_problem problem = {.buffers = buffers, .buffer_count = count};
    planner_solution solution;
    base_status status = planner_run(asked, &problem, options, arena, &solution, context->report);
    if (status != BASE_OK) return status;
    for (size_t i = 0; i < count; i++) memory->storages[placed[i]].offset = solution.offsets[i];
    memory->region_bytes[id] = solution.height;
    memory->region_bound[id] = solution.lower_bound;
    memory->optimal &= solution.optimal;
    return BASE_OK;
}

/* A buffer as large as the largest region of the node's sub-graphs; none where they need nothing. */
static base_status add_buffer(pass_context *context, ir_node *node) {
    pass_memory *memory = context->memory;
    size_t bytes = 0;
    for (uint32_t i = 0; i < node->graph_count; i++) {
        size_t region = memory->region_bytes[node->graphs[i]->id.index];
        if (region > bytes) bytes = region;
    }
    if (!bytes) return BASE_OK;
    if (!base_size_align(bytes, RT_ALIGNMENT, &bytes))
        return base_fail(context->report, BASE_INVALID, "the tensors are too large for an address space");
    const int64_t step = memory->order.numbers[node->id.index];
    pass_storage buffer = {.space = MEMORY_ARENA,
                           .graph = node->graph,
                           .buffer_of = node,
                           .bytes = bytes,
                           .first = step,
                           .last = step + 1};
    memory->buffers[node->id.index] = pass_memory_add(memory, &buffer);
    return memory->buffers[node->id.index].index ? BASE_OK : base_fail_memory(context->report);
}

base_status pass_place_regions(pass_context *context, const planner_options *options, ir_graph *const *graphs,
                               size_t graph_count) {
    const char *name = context->options->allocator ? context->options->allocator : "auto";
    const planner *asked = planner_find(name);
    pass_memory *memory = context->memory;
    region_list list;
    if (!asked) return base_fail(context->report, BASE_USAGE, "there is no allocator '%s'", name);
    if (!list_regions(memory, context->scratch, &list)) return base_fail_memory(context->report);
    memory->optimal = true;
    memory->sum_bytes = 0;
    for (size_t g = graph_count; g-- > 0;) {
        const size_t first_buffer = memory->storage_count;
        base_status status = BASE_OK;
        base_arena arena;
        for (ir_node *node = graphs[g]->first; node && status == BASE_OK; node = node->next)
            status = add_buffer(context, node);
        if (status != BASE_OK) return status;
        base_arena_init(&arena, context->scratch->allocator);
        status = place_region(context, asked, options, graphs[g], &list, first_buffer, &arena);
        base_arena_free(&arena);
        if (status != BASE_OK) return status;
    }
    const size_t main = context->module->main->id.index;
    memory->arena_bytes = memory->region_bytes[main];
    memory->lower_bound_bytes = memory->region_bound[main];
    return BASE_OK;
}

/* ---- the spill file ------------------------------------------------------------------------------------- */

base_status pass_place_spills(pass_context *context, const planner_options *options) {
    const planner *asked = planner_find(context->options->allocator ? context->options->allocator : "auto");
    pass_memory *memory = context->memory;
    uint32_t *placed = BASE_ARRAY(context->scratch, uint32_t, memory->storage_count);
    planner_buffer *buffers = BASE_ARRAY(context->scratch, planner_buffer, memory->storage_count);
    size_t count = 0;
    if (!placed || !buffers) return base_fail_memory(context->report);
    for (uint32_t i = 1; i < memory->storage_count; i++) {
        const pass_storage *storage = &memory->storages[i];
        if (storage->space != MEMORY_SPILL || !storage->bytes) continue;
        placed[count] = i;
        buffers[count++] = (planner_buffer){.size = storage->bytes,
                                            .alignment = RT_ALIGNMENT,
                                            .first = storage->first,
                                            .last = storage->last,
                                            .fixed = PLANNER_NOT_FIXED};
    }
    memory->spill_bytes = 0;
    if (!count) return BASE_OK;
    planner_problem problem = {.buffers = buffers, .buffer_count = count};
    planner_solution solution;
    base_status status = planner_run(asked, &problem, options, context->scratch, &solution, context->report);
    for (size_t i = 0; i < count && status == BASE_OK; i++)
        memory->storages[placed[i]].offset = solution.offsets[i];
    if (status == BASE_OK) memory->spill_bytes = solution.height;
    return status;
}

/* ---- trials --------------------------------------------------------------------------------------------- */

/* By graph id, the offset of its region from the start of the arena. */
static size_t *find_bases(const pass_context *context, ir_graph *const *graphs, size_t graph_count) {
    const pass_memory *memory = context->memory;
    size_t *bases = BASE_ARRAY(context->scratch, size_t, memory->graph_count);
    for (size_t g = 0; bases && g < graph_count; g++) {
        const ir_node *owner = graphs[g]->owner;
        if (!owner || owner == context->module->run) continue;
        const pass_storage_id buffer = memory->buffers[owner->id.index];
        if (buffer.index)
            bases[graphs[g]->id.index] =
                bases[owner->graph->id.index] + memory->storages[buffer.index].offset;
    }
    return bases;
}

/* The nodes in whose step a storage is live that ends above `limit`, its own graph's or one of a graph around it. */
static bool find_above(const pass_context *context, ir_graph *const *graphs, size_t graph_count, size_t limit,
                       bool *above) {
    const pass_memory *memory = context->memory;
    const size_t *bases = find_bases(context, graphs, graph_count);
    int64_t **changes = BASE_ARRAY(context->scratch, int64_t *, memory->graph_count);
    if (!bases || !changes) return false;
    for (size_t g = 0; g < graph_count; g++) {
        changes[graphs[g]->id.index] =
            BASE_ARRAY(context->scratch, int64_t, (size_t)graphs[g]->node_count + 3);
        if (!changes[graphs[g]->id.index]) return false;
    }
    for (size_t i = 1; i < memory->storage_count; i++) {
        const pass_storage *storage = &memory->storages[i];
        if (!pass_is_placed(storage) || storage->buffer_of || !changes[storage->graph->id.index]) continue;
        if (bases[storage->graph->id.index] + storage->offset + storage->bytes <= limit) continue;
        changes[storage->graph->id.index][storage->first]++;
        changes[storage->graph->id.index][storage->last]--;
    }
    for (size_t g = 0; g < graph_count; g++) {
        const ir_graph *graph = graphs[g];
        const ir_node *owner = graph->owner;
        const bool around = owner && owner != context->module->run && above[owner->id.index];
        int64_t live = 0;
        for (size_t step = 0; step < (size_t)graph->node_count; step++) {
            live += changes[graph->id.index][step];
            above[memory->order.nodes[graph->id.index][step]->id.index] = around || live > 0;
        }
    }
    return true;
}

base_status pass_try_regions(pass_context *context, const planner_options *options, ir_graph *const *graphs,
                             size_t graph_count, size_t limit, size_t *arena_bytes, bool *above) {
    pass_memory *memory = context->memory;
    const pass_memory kept = *memory;
    base_status status = pass_place_regions(context, options, graphs, graph_count);
    *arena_bytes = memory->arena_bytes;
    if (status == BASE_OK && above && !find_above(context, graphs, graph_count, limit, above))
        status = base_fail_memory(context->report);
    memset(memory->buffers, 0, memory->node_count * sizeof *memory->buffers);
    memory->storage_count = kept.storage_count;
    memory->arena_bytes = kept.arena_bytes;
    memory->lower_bound_bytes = kept.lower_bound_bytes;
    return status;
}

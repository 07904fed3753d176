/* allocate.c: storages get offsets, graph by graph, the innermost first.
 *
 * Each graph's storages in the arena are one problem for the planner that was asked for; its height is the
 * graph's frame. A control node's sub-graphs lie in one buffer of the graph around it, which is as large as
 * the largest of their frames (the branches of an If overlay each other) and is live while the node runs: for
 * that graph's planner it is a storage as any.
 *
 * Needs: analyse-liveness. Makes: offsets of all storages, frames, and the sums that reports tell.
 */
#include "passes/memory/memory.h"
#include "passes/planners/planners.h"
#include <string.h>

static const char *planner_name(const pass_options *options) {
    return options->allocator ? options->allocator : "auto";
}

/* The storages that graph's planner places: their numbers, NULL-free. */
static uint32_t *frame_storages(const pass_memory *memory, const ir_graph *graph, base_arena *scratch,
                                size_t *count) {
    uint32_t *list = BASE_ARRAY(scratch, uint32_t, memory->storage_count);
    if (!list) return NULL;
    *count = 0;
    for (size_t i = 1; i < memory->storage_count; i++) {
        const pass_storage *storage = &memory->storages[i];
        if (storage->graph != graph || storage->space != MEMORY_ARENA || storage->part_of.index) continue;
        if (storage->last > storage->first && storage->bytes) list[(*count)++] = (uint32_t)i;
    }
    return list;
}

static base_status plan_graph_frame(pass_context *context, const planner *planner_asked,
                                    const ir_graph *graph, bool *optimal) {
    pass_memory *memory = context->memory;
    size_t count;
    uint32_t *list = frame_storages(memory, graph, context->scratch, &count);
    planner_buffer *buffers = list ? BASE_ARRAY(context->scratch, planner_buffer, count) : NULL;
    if (!buffers) return base_fail_memory(context->report);
    for (size_t i = 0; i < count; i++) {
        const pass_storage *storage = &memory->storages[list[i]];
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
    planner_options options = {.seconds = context->options->seconds};
    planner_solution solution;
    base_status status =
        planner_run(planner_asked, &problem, &options, context->scratch, &solution, context->report);
    if (status != BASE_OK) return status;
    for (size_t i = 0; i < count; i++) memory->storages[list[i]].offset = solution.offsets[i];
    memory->region_bytes[graph->id.index] = solution.height;
    memory->region_bound[graph->id.index] = solution.lower_bound;
    *optimal &= solution.optimal;
    return BASE_OK;
}

base_status pass_allocate(pass_context *context) {
    const planner *asked = planner_find(planner_name(context->options));
    pass_memory *memory = context->memory;
    size_t graph_count;
    if (!asked) {
        return base_fail(context->report, BASE_USAGE, "there is no allocator '%s'",
                         planner_name(context->options));
    }
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &graph_count);
    const int64_t *numbers = memory->order.numbers;
    if (!graphs) return base_fail_memory(context->report);
    memory->optimal = true;
    memory->sum_bytes = 0;
    for (size_t g = graph_count; g-- > 0;) {
        const ir_graph *graph = graphs[g];
        for (ir_node *node = graph->first; node; node = node->next) {
            size_t bytes = 0;
            for (uint32_t i = 0; i < node->graph_count; i++) {
                size_t frame = memory->region_bytes[node->graphs[i]->id.index];
                if (frame > bytes) bytes = frame;
            }
            if (!bytes) continue;
            if (!base_size_align(bytes, RT_ALIGNMENT, &bytes)) return base_fail_memory(context->report);
            pass_storage buffer = {.space = MEMORY_ARENA,
                                   .graph = node->graph,
                                   .buffer_of = node,
                                   .bytes = bytes,
                                   .first = numbers[node->id.index],
                                   .last = numbers[node->id.index] + 1};
            memory->buffers[node->id.index] = pass_memory_add(memory, &buffer);
            if (!memory->buffers[node->id.index].index) return base_fail_memory(context->report);
        }
        base_status status = plan_graph_frame(context, asked, graph, &memory->optimal);
        if (status != BASE_OK) return status;
    }
    memory->arena_bytes = memory->region_bytes[context->module->main->id.index];
    memory->lower_bound_bytes = memory->region_bound[context->module->main->id.index];
    for (size_t v = 1; v < context->module->value_count; v++) {
        const ir_value *value = context->module->values[v];
        if (!value) continue;
        pass_location location = pass_memory_location(memory, value);
        memory->dynamic_values += pass_memory_storage(memory, location.storage)->space == MEMORY_DYNAMIC;
    }
    return BASE_OK;
}

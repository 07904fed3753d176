/* SPDX-License-Identifier: Apache-2.0 */
/* allocate.c: storages get offsets, graph by graph, the innermost first.
 *
 * Each graph's storages in the arena are one problem for the planner that was asked for; its height is the
 * graph's region. A control node's sub-graphs lie in one buffer of the graph around it, which is as large as
 * the largest of their regions (the branches of an If overlay each other) and is live while the node runs: for
 * that graph's planner it is a storage as any.
 *
 * Needs: live ranges, the order. Breaks: nothing. Guarantees: offsets of all storages, regions, and the sums that reports tell.
 */
#include "ir/loop.h"
#include "passes/memory/memory.h"
#include "passes/planners/planners.h"
#include <string.h>

static const char *planner_name(const pass_options *options) {
    return options->allocator ? options->allocator : "auto";
}

/* The storages that the planner of each graph places, and how many they are: those of graph g are
 * storages[starts[g] .. starts[g + 1]). The buffers of sub-graphs come to them when their sizes are known. */
typedef struct region_list {
    size_t *starts;
    uint32_t *storages;
} region_list;

static bool is_placed(const pass_storage *storage) {
    return storage->space == MEMORY_ARENA && !storage->part_of.index && storage->last > storage->first &&
           storage->bytes;
}

static bool list_regions(const pass_memory *memory, base_arena *scratch, region_list *list) {
    list->starts = BASE_ARRAY(scratch, size_t, memory->graph_count + 2);
    list->storages = BASE_ARRAY(scratch, uint32_t, memory->storage_count);
    if (!list->starts || !list->storages) return false;
    for (size_t i = 1; i < memory->storage_count; i++)
        if (is_placed(&memory->storages[i])) list->starts[memory->storages[i].graph->id.index + 2]++;
    for (size_t g = 2; g < memory->graph_count + 2; g++) list->starts[g] += list->starts[g - 1];
    for (size_t i = 1; i < memory->storage_count; i++) {
        const pass_storage *storage = &memory->storages[i];
        if (is_placed(storage)) list->storages[list->starts[storage->graph->id.index + 1]++] = (uint32_t)i;
    }
    return true;
}

/* Places the listed storages of the graph, and the buffers of its sub-graphs, which are all storages from `first_buffer`
 * on. */
static base_status place_region(pass_context *context, const planner *asked, const ir_graph *graph,
                                const region_list *list, size_t first_buffer, base_arena *arena) {
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
    planner_options options = {.seconds = context->options->seconds};
    planner_solution solution;
    base_status status = planner_run(asked, &problem, &options, arena, &solution, context->report);
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

/* States that grow, up to a bound, by positions of known bytes. */
static base_status reserve_states(pass_context *context) {
    pass_memory *memory = context->memory;
    const uint32_t count = ir_module_states(context->module);
    memory->reserved = BASE_ARRAY(memory->arena, struct pass_reservation, count);
    if (!memory->reserved) return base_fail_memory(context->report);
    for (uint32_t i = 0; i < count; i++) {
        const ir_state *state = &context->module->states[i];
        op_type most = context->module->main->parameters[i]->type;
        size_t bytes;
        if (state->axis < 0 || !state->bound) continue;
        most.shape.dims[state->turned ? 0 : state->axis] = state->bound;
        if (!op_type_bytes(&most, &bytes)) continue;
        memory->reserved[i].offset = memory->state_bytes;
        if (!base_size_align(bytes, RT_ALIGNMENT, &memory->reserved[i].bytes) ||
            !base_size_add(memory->state_bytes, memory->reserved[i].bytes, &memory->state_bytes))
            return base_fail(context->report, BASE_INVALID, "the states are too large for an address space");
    }
    return BASE_OK;
}

/* What is kept from run to run lies in memory of its own, one after another: all of it is live all the time. */
static base_status place_states(pass_context *context) {
    pass_memory *memory = context->memory;
    const ir_node *run = context->module->run;
    for (size_t i = 1; run && i < memory->storage_count; i++) {
        pass_storage *storage = &memory->storages[i];
        if (storage->graph != run->graph || !is_placed(storage)) continue;
        storage->offset = memory->state_bytes;
        if (!base_size_add(memory->state_bytes, storage->bytes, &memory->state_bytes))
            return base_fail(context->report, BASE_INVALID, "the states are too large for an address space");
    }
    return reserve_states(context);
}

/* Says what would do, and which node makes it so much: the one in whose step most is live. */
static base_status fail_limit(const pass_context *context, ir_graph *const *graphs, size_t graph_count,
                              size_t limit) {
    const pass_memory *memory = context->memory;
    const uint32_t main = context->module->main->id.index;
    size_t **live = pass_region_live(memory, graphs, graph_count, context->scratch);
    if (!live) return base_fail_memory(context->report);
    size_t most = 0;
    for (size_t step = 1; step < (size_t)context->module->main->node_count; step++)
        if (live[main][step] > live[main][most]) most = step;
    const ir_node *node = memory->order.nodes[main][most];
    const char *name =
        *node->name || !node->output_count || !node->outputs[0] ? node->name : node->outputs[0]->name;
    return base_fail(
        context->report, BASE_INVALID,
        "the arena takes %zu bytes, and may take %zu; the least is %zu bytes, which node \"%s\" (%s) needs",
        memory->arena_bytes, limit, memory->least_arena_bytes, name, op_schema_of(node->code)->name);
}

base_status pass_allocate(pass_context *context) {
    const planner *asked = planner_find(planner_name(context->options));
    pass_memory *memory = context->memory;
    size_t graph_count;
    region_list list;
    if (!asked) {
        return base_fail(context->report, BASE_USAGE, "there is no allocator '%s'",
                         planner_name(context->options));
    }
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &graph_count);
    if (!graphs || !list_regions(memory, context->scratch, &list)) return base_fail_memory(context->report);
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
        status = place_region(context, asked, graphs[g], &list, first_buffer, &arena);
        base_arena_free(&arena);
        if (status != BASE_OK) return status;
    }
    base_status placed = place_states(context);
    if (placed != BASE_OK) return placed;
    memory->arena_bytes = memory->region_bytes[context->module->main->id.index];
    memory->lower_bound_bytes = memory->region_bound[context->module->main->id.index];
    const size_t limit = context->options->arena_limit;
    if (limit && limit != PASS_ARENA_LEAST && memory->arena_bytes > limit)
        return fail_limit(context, graphs, graph_count, limit);
    for (size_t v = 1; v < context->module->value_count; v++) {
        const ir_value *value = context->module->values[v];
        if (!value) continue;
        pass_location location = pass_memory_location(memory, value);
        memory->dynamic_values += pass_memory_storage(memory, location.storage)->space == MEMORY_DYNAMIC;
    }
    return BASE_OK;
}

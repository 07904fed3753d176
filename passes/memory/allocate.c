/* SPDX-License-Identifier: Apache-2.0 */
/* allocate.c: storages get offsets, graph by graph, the innermost first (regions.c); states, in memory of their own.
 *
 * Needs: live ranges, the order. Breaks: nothing. Guarantees: offsets of all storages, regions, and the sums that reports tell.
 */
#include "ir/loop.h"
#include "passes/memory/memory.h"
#include "passes/memory/regions.h"
#include <string.h>

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
        if (storage->graph != run->graph || !pass_is_placed(storage)) continue;
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
    const char *operator_name = op_schema_of(node->code)->name;
    if (memory->lower_bound_bytes <= limit)
        return base_fail(context->report, BASE_INVALID,
                         "the arena takes %zu bytes with this allocator, and may take %zu; at most %zu bytes "
                         "are live at once, in node \"%s\" (%s): "
                         "another one, or more time, may reach that",
                         memory->arena_bytes, limit, memory->lower_bound_bytes, name, operator_name);
    return base_fail(
        context->report, BASE_INVALID,
        "the arena takes %zu bytes, and may take %zu; the least is %zu bytes, which node \"%s\" (%s) needs",
        memory->arena_bytes, limit, memory->least_arena_bytes, name, operator_name);
}

base_status pass_allocate(pass_context *context) {
    pass_memory *memory = context->memory;
    const planner_options search = {.seconds = context->options->seconds};
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &graph_count);
    if (!graphs) return base_fail_memory(context->report);
    base_status placed = pass_place_regions(context, &search, graphs, graph_count);
    if (placed == BASE_OK) placed = pass_place_spills(context, &search);
    if (placed == BASE_OK) placed = place_states(context);
    if (placed != BASE_OK) return placed;
    const size_t limit = context->options->arena_limit;
    if (limit && limit != PASS_ARENA_LEAST && !context->trial && memory->arena_bytes > limit)
        return fail_limit(context, graphs, graph_count, limit);
    for (size_t v = 1; v < context->module->value_count; v++) {
        const ir_value *value = context->module->values[v];
        if (!value) continue;
        pass_location location = pass_memory_location(memory, value);
        memory->dynamic_values += pass_memory_storage(memory, location.storage)->space == MEMORY_DYNAMIC;
    }
    return BASE_OK;
}

/* analyse_liveness.c: when each storage is live, in the steps of the graph in whose frame it is.
 *
 * A storage is live from the step that writes the first of its values up to and with the step that reads the
 * last: [first, last). What a control node's sub-graphs read or write counts as its step. Parameters are
 * there before step 0, results stay until after the last. Carried parameters, the iteration number and the
 * condition live through all of a body, read or not. Scratch lives in its node's step. Sizes are rounded up
 * to RT_ALIGNMENT here.
 *
 * What lies in a view is live in all places of the view, and in an exchanged buffer in all of the group.
 *
 * Needs: choose-in-place. Makes: first, last, bytes of the storages in the arena; scratch storages.
 */
#include "passes/memory/memory.h"

/* Step `step` of the storage's graph uses it. */
static void touch(pass_storage *storage, int64_t step) {
    if (storage->last == 0) {
        storage->first = step;
        storage->last = step + 1;
        return;
    }
    if (step < storage->first) storage->first = step;
    if (step + 1 > storage->last) storage->last = step + 1;
}

/* The storage at `location` is in use where `node` runs; where it is a view, all places that it may be are. A
 * NULL node: at the end of `graph` (results), or at its beginning (parameters). */
static void touch_place(const pass_memory *memory, pass_location location, const ir_node *node,
                        const ir_graph *graph, bool begins, const int64_t *numbers) {
    pass_storage *storage = pass_memory_storage(memory, pass_memory_resolve(memory, location).storage);
    if (storage->space == MEMORY_MULTIVIEW) {
        const pass_multiview *view = &memory->multiviews[storage->index];
        for (uint32_t i = 0; i < view->prologue + view->repeat; i++) {
            touch_place(memory, view->entries[i], node, graph, begins, numbers);
        }
        /* Its places are in use while the loop runs, whoever reads it. */
        for (uint32_t i = 0; i < view->prologue + view->repeat; i++) {
            touch_place(memory, view->entries[i], view->loop, view->loop->graph, begins, numbers);
        }
        /* What lies in an exchanged buffer may be where any other of its group was. */
        for (size_t v = 1; view->group && v < memory->multiview_count; v++) {
            if (memory->multiviews[v].group != view->group) continue;
            touch_place(memory, memory->multiviews[v].entries[0], node, graph, begins, numbers);
            touch_place(memory, memory->multiviews[v].entries[0], view->loop, view->loop->graph, begins,
                        numbers);
        }
    }
    if (storage->space != MEMORY_ARENA) return;
    const ir_graph *frame = storage->graph;
    int64_t end = frame->node_count ? (int64_t)frame->node_count - 1 : 0;
    if (node) touch(storage, pass_step_in(frame, node, numbers));
    else if (graph != frame) touch(storage, pass_step_in(frame, graph->owner, numbers));
    else touch(storage, begins ? 0 : end);
}

static void touch_value(const pass_memory *memory, const ir_value *value, const int64_t *numbers) {
    const pass_location at = pass_memory_location(memory, value);
    touch_place(memory, at, value->node, value->graph, true, numbers);
    if (!value->node && value->graph->owner && value->graph->owner->code == OP_LOOP) {
        touch_place(memory, at, NULL, value->graph, false, numbers);
    }
    for (const ir_use *use = value->uses; use; use = use->next) {
        touch_place(memory, at, use->node, use->graph, false, numbers);
    }
}

base_status pass_analyse_liveness(pass_context *context) {
    const ir_module *module = context->module;
    pass_memory *memory = context->memory;
    const int64_t *numbers = memory->order.numbers;
    for (size_t i = 1; i < memory->storage_count; i++)
        memory->storages[i].first = memory->storages[i].last = 0;
    for (size_t v = 1; v < module->value_count; v++) {
        const ir_value *value = module->values[v];
        if (value && value->graph) touch_value(memory, value, numbers);
    }
    for (size_t n = 1; n < module->node_count; n++) {
        ir_node *node = module->nodes[n];
        if (!node || node->scratch_bytes == 0 || memory->executions[n] != PASS_RUN) continue;
        if (!memory->scratch[n].index) {
            pass_storage scratch = {.space = MEMORY_ARENA,
                                    .graph = node->graph,
                                    .scratch_of = node,
                                    .bytes = node->scratch_bytes};
            memory->scratch[n] = pass_memory_add(memory, &scratch);
            if (!memory->scratch[n].index) return base_fail_memory(context->report);
        }
        touch(pass_memory_storage(memory, memory->scratch[n]), numbers[n]);
    }
    for (size_t i = 1; i < memory->storage_count; i++) {
        pass_storage *storage = &memory->storages[i];
        if (storage->space == MEMORY_ARENA &&
            !base_size_align(storage->bytes, RT_ALIGNMENT, &storage->bytes)) {
            return base_fail(context->report, BASE_INVALID, "a tensor of %zu bytes is too large",
                             storage->bytes);
        }
    }
    return BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* analyse_liveness.c: when each storage is live, in the steps of the graph in whose region it lies.
 *
 * A storage is live from the step that writes the first of its values up to and with the step that reads the
 * last: [first, last). What a control node's sub-graphs read or write counts as its step. Parameters are
 * there before step 0, results stay until after the last. Carried parameters, the iteration number and the
 * condition live through all of a body, read or not. Scratch lives in its node's step. Sizes are rounded up
 * to RT_ALIGNMENT here.
 *
 * What lies in a multi-view is live in all entries of it, and in a buffer that takes part in swaps in all of the group.
 *
 * Needs: storages, the order, addresses of what loops carry. Breaks: nothing. Guarantees: first, last, bytes of the storages in the arena and in
 * the spill file; scratch storages.
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

/* ---- multi-views ---------------------------------------------------------------------------------------- */

/* First and last step of a graph. */
typedef struct span {
    const ir_graph *graph;
    int64_t first, last; /* last < 0: none */
} span;

/* What a multi-view, or any of a group that is swapped, may be: storages in the arena, through the multi-views of enclosing
 * loops too. Uses are gathered in spans and given to the storages at the end, so that each use costs the same whatever is
 * nested in what. */
typedef struct reach {
    uint32_t *storages, *span_of; /* span_of[i]: which span has the steps of storages[i]'s graph */
    span *spans;
    size_t count, capacity, span_capacity;
    uint32_t span_count;
    bool known;
} reach;

typedef struct liveness {
    pass_memory *memory;
    const int64_t *numbers;
    base_arena *scratch;
    reach *reaches;          /* by multi-view; of a group: at its first one */
    bool *used;              /* by multi-view: a value is found through it */
    uint32_t *group_first;   /* by group: its first multi-view */
    uint32_t *next_in_group; /* by multi-view; 0: it is the last */
    uint32_t *seen_by;       /* by storage: the multi-view whose reach has it already */
    bool out_of_memory;
} liveness;

/* The first of the multi-views that may be what this one is. */
static uint32_t group_head(const liveness *l, uint32_t view) {
    uint32_t group = l->memory->multiviews[view].group;
    return group ? l->group_first[group] : view;
}

static void add_reached(liveness *l, uint32_t head, uint32_t index) {
    reach *r = &l->reaches[head];
    const pass_storage *storage = &l->memory->storages[index];
    if (l->seen_by[index] == head) return;
    l->seen_by[index] = head;
    uint32_t at = 0;
    while (at < r->span_count && r->spans[at].graph != storage->graph) at++;
    if (at == r->span_count) {
        span *spans = base_arena_grow(l->scratch, r->spans, &r->span_capacity, at + 1, sizeof *spans);
        if (!spans) {
            l->out_of_memory = true;
            return;
        }
        r->spans = spans;
        spans[r->span_count++] = (span){.graph = storage->graph, .last = -1};
    }
    if (r->count == r->capacity) {
        size_t capacity = r->capacity, of_spans = r->capacity; /* of both, once both are there */
        uint32_t *storages =
            base_arena_grow(l->scratch, r->storages, &capacity, r->count + 1, sizeof *storages);
        uint32_t *span_of = base_arena_grow(l->scratch, r->span_of, &of_spans, r->count + 1, sizeof *span_of);
        l->out_of_memory |= !storages || !span_of;
        if (!storages || !span_of) return;
        r->storages = storages;
        r->span_of = span_of;
        r->capacity = capacity;
    }
    r->storages[r->count] = index;
    r->span_of[r->count++] = at;
}

/* Calls `visit` for the storage of each entry of the multi-view, or of all of its group. */
static void visit_entries(liveness *l, uint32_t head,
                          void (*visit)(liveness *l, uint32_t head, uint32_t storage)) {
    for (uint32_t v = head; v; v = l->next_in_group[v]) {
        const pass_multiview *view = &l->memory->multiviews[v];
        for (uint32_t i = 0; i < view->prologue + view->repeat; i++)
            visit(l, head, pass_memory_resolve(l->memory, view->entries[i]).storage.index);
    }
}

static void find_reach(liveness *l, uint32_t head);

static void find_inner(liveness *l, uint32_t head, uint32_t index) {
    (void)head;
    const pass_storage *storage = &l->memory->storages[index];
    if (storage->space == MEMORY_MULTIVIEW) find_reach(l, group_head(l, storage->index));
}

static void add_entry(liveness *l, uint32_t head, uint32_t index) {
    const pass_storage *storage = &l->memory->storages[index];
    if (storage->space == MEMORY_ARENA) add_reached(l, head, index);
    if (storage->space != MEMORY_MULTIVIEW) return;
    const reach *inner = &l->reaches[group_head(l, storage->index)];
    for (size_t i = 0; i < inner->count; i++) add_reached(l, head, inner->storages[i]);
}

static void find_reach(liveness *l, uint32_t head) {
    if (l->reaches[head].known) return;
    l->reaches[head].known = true;
    visit_entries(l, head, find_inner);
    visit_entries(l, head, add_entry);
}

static bool find_reaches(liveness *l) {
    const pass_memory *memory = l->memory;
    l->reaches = BASE_ARRAY(l->scratch, reach, memory->multiview_count);
    l->used = BASE_ARRAY(l->scratch, bool, memory->multiview_count);
    l->next_in_group = BASE_ARRAY(l->scratch, uint32_t, memory->multiview_count);
    l->group_first = BASE_ARRAY(l->scratch, uint32_t, (size_t)memory->group_count + 1);
    l->seen_by = BASE_ARRAY(l->scratch, uint32_t, memory->storage_count);
    if (!l->reaches || !l->used || !l->next_in_group || !l->group_first || !l->seen_by) return false;
    for (size_t v = memory->multiview_count; v-- > 1;) {
        uint32_t group = memory->multiviews[v].group;
        if (!group) continue;
        l->next_in_group[v] = l->group_first[group];
        l->group_first[group] = (uint32_t)v;
    }
    for (uint32_t v = 1; v < memory->multiview_count; v++) find_reach(l, group_head(l, v));
    return !l->out_of_memory;
}

/* ---- uses ------------------------------------------------------------------------------------------------ */

/* Where a value is used: where `node` runs; NULL: at the end of `graph` (results), or at its beginning (parameters). */
typedef struct use_point {
    const ir_node *node;
    const ir_graph *graph;
    bool begins;
} use_point;

static int64_t step_of(const liveness *l, const ir_graph *graph, use_point use) {
    if (use.node) return pass_step_in(graph, use.node, l->numbers);
    if (use.graph != graph) return pass_step_in(graph, use.graph->owner, l->numbers);
    return use.begins || !graph->node_count ? 0 : (int64_t)graph->node_count - 1;
}

static void use_reach(liveness *l, uint32_t head, use_point use) {
    reach *r = &l->reaches[head];
    for (uint32_t i = 0; i < r->span_count; i++) {
        span *of = &r->spans[i];
        int64_t step = step_of(l, of->graph, use);
        if (of->last < 0 || step < of->first) of->first = step;
        if (step > of->last) of->last = step;
    }
}

/* All that the multi-view may be is in use while its loop runs, whoever reads it. */
static void use_multiview(liveness *l, uint32_t index) {
    const pass_multiview *view = &l->memory->multiviews[index];
    if (l->used[index]) return;
    l->used[index] = true;
    const uint32_t head = group_head(l, index);
    use_reach(l, head, (use_point){.node = view->loop, .graph = view->loop->graph});
    for (uint32_t v = head; v; v = l->next_in_group[v]) {
        const pass_multiview *of = &l->memory->multiviews[v];
        for (uint32_t i = 0; i < of->prologue + of->repeat; i++) {
            const pass_storage *storage =
                &l->memory->storages[pass_memory_resolve(l->memory, of->entries[i]).storage.index];
            if (storage->space == MEMORY_MULTIVIEW) use_multiview(l, storage->index);
        }
    }
}

static void use_value(liveness *l, pass_location at, use_point use) {
    pass_storage *storage = pass_memory_storage(l->memory, at.storage);
    if (storage->space == MEMORY_ARENA || storage->space == MEMORY_SPILL)
        touch(storage, step_of(l, storage->graph, use));
    if (storage->space != MEMORY_MULTIVIEW) return;
    use_multiview(l, storage->index);
    use_reach(l, group_head(l, storage->index), use);
}

static void use_everywhere(liveness *l, const ir_value *value) {
    const pass_location at = pass_memory_location(l->memory, value);
    use_value(l, at, (use_point){value->node, value->graph, true});
    if (!value->node && value->graph->owner && value->graph->owner->code == OP_LOOP)
        use_value(l, at, (use_point){NULL, value->graph, false});
    for (const ir_use *use = value->uses; use; use = use->next)
        use_value(l, at, (use_point){use->node, use->graph, false});
}

/* The storages of multi-views get the steps that were gathered. */
static void touch_reached(liveness *l) {
    for (size_t v = 1; v < l->memory->multiview_count; v++) {
        const reach *r = &l->reaches[v];
        for (size_t i = 0; i < r->count; i++) {
            const span *of = &r->spans[r->span_of[i]];
            if (of->last < 0) continue;
            touch(&l->memory->storages[r->storages[i]], of->first);
            touch(&l->memory->storages[r->storages[i]], of->last);
        }
    }
}

base_status pass_analyse_liveness(pass_context *context) {
    const ir_module *module = context->module;
    pass_memory *memory = context->memory;
    const int64_t *numbers = memory->order.numbers;
    liveness l = {.memory = memory, .numbers = numbers, .scratch = context->scratch};
    for (size_t i = 1; i < memory->storage_count; i++)
        memory->storages[i].first = memory->storages[i].last = 0;
    if (!find_reaches(&l)) return base_fail_memory(context->report);
    for (size_t v = 1; v < module->value_count; v++) {
        const ir_value *value = module->values[v];
        if (value && value->graph) use_everywhere(&l, value);
    }
    touch_reached(&l);
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
        if ((storage->space == MEMORY_ARENA || storage->space == MEMORY_SPILL) &&
            !base_size_align(storage->bytes, RT_ALIGNMENT, &storage->bytes)) {
            return base_fail(context->report, BASE_INVALID, "a tensor of %zu bytes is too large",
                             storage->bytes);
        }
    }
    return BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* peak.c: see peak.h. The live range of each tensor is found in the plan: from the step that makes it to the last that reads it, or
 * something within a sub-graph of which reads it. Tensors that are views of others form a group with one live range. */
#include "compiler/report/peak.h"
#include "compiler/report/loop.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is known of the tensors of one graph. */
typedef struct peak_search {
    const plan *of;
    uint32_t graph;
    base_arena *arena;
    uint32_t *group;        /* by tensor id: the first of the group */
    int64_t *first, *last;  /* by group: steps */
    uint32_t *last_node;    /* by group */
    uint32_t *producer;     /* by tensor id */
    bool tenants;           /* what lies in tables is wanted, too */
    peak_item *all;         /* everything of the graph */
    size_t count, capacity; /* of it */
} peak_search;

static bool add(peak_search *s, peak_item item) {
    peak_item *grown = base_arena_grow(s->arena, s->all, &s->capacity, s->count + 1, sizeof *grown);
    if (!grown) return false;
    s->all = grown;
    if (item.bytes) s->all[s->count++] = item;
    return true;
}

static uint32_t group_of(peak_search *s, uint32_t id) {
    while (s->group[id] != id) id = s->group[id] = s->group[s->group[id]];
    return id;
}

/* Views and what they are views of. */
static void join_views(peak_search *s) {
    const plan_graph *graph = &s->of->graphs[s->graph];
    for (uint64_t i = graph->nodes; i < graph->nodes + graph->node_count; i++) {
        const plan_node *node = &s->of->nodes[i];
        int64_t cursor = 0;
        if (!(node->flags & PLAN_NODE_ALIAS)) continue;
        const uint64_t parts =
            plan_node_code(s->of, node) == OP_CONCAT ? node->input_count : node->output_count;
        for (uint32_t k = 0; k < parts; k++) {
            uint32_t whole, part;
            uint64_t offset;
            if (!plan_alias_part(s->of, node, k, &cursor, &whole, &part, &offset)) break;
            if (whole == PLAN_ABSENT || part == PLAN_ABSENT) continue;
            s->group[group_of(s, part)] = group_of(s, whole);
        }
    }
}

/* Somebody needs the tensor in a step of the graph. */
static void use(peak_search *s, uint32_t id, int64_t step, uint32_t node) {
    if (id == PLAN_ABSENT || s->of->tensors[id].graph != s->graph) return;
    const uint32_t group = group_of(s, id);
    if (step >= s->last[group]) {
        s->last[group] = step;
        s->last_node[group] = node;
    }
}

static void define(peak_search *s, uint32_t id, int64_t step, uint32_t node) {
    if (id == PLAN_ABSENT) return;
    const uint32_t group = group_of(s, id);
    s->producer[id] = node;
    if (step < s->first[group]) s->first[group] = step;
    use(s, id, step, node);
}

/* Everything that sub-graphs of a node read of the graph around it. */
static void use_within(peak_search *s, const plan_node *node, int64_t step, uint32_t owner) {
    for (uint32_t g = node->first_graph; g < node->first_graph + node->graph_count; g++) {
        const plan_graph *graph = &s->of->graphs[g];
        for (uint64_t i = 0; i < graph->result_count; i++)
            use(s, s->of->tensor_ids[graph->results + i], step, owner);
        for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
            const plan_node *inner = &s->of->nodes[n];
            for (uint64_t i = 0; i < inner->input_count; i++)
                use(s, s->of->tensor_ids[inner->inputs + i], step, owner);
            use_within(s, inner, step, owner);
        }
    }
}

static void find_ranges(peak_search *s) {
    const plan_graph *graph = &s->of->graphs[s->graph];
    for (uint64_t i = 0; i < graph->parameter_count; i++)
        define(s, s->of->tensor_ids[graph->parameters + i], -1, PLAN_ABSENT);
    for (uint64_t n = 0; n < graph->node_count; n++) {
        const uint32_t index = (uint32_t)(graph->nodes + n);
        const plan_node *node = &s->of->nodes[index];
        for (uint64_t i = 0; i < node->input_count; i++)
            use(s, s->of->tensor_ids[node->inputs + i], (int64_t)n, index);
        use_within(s, node, (int64_t)n, index);
        for (uint64_t i = 0; i < node->output_count; i++)
            define(s, s->of->tensor_ids[node->outputs + i], (int64_t)n, index);
    }
    for (uint64_t i = 0; i < graph->result_count; i++)
        use(s, s->of->tensor_ids[graph->results + i], (int64_t)graph->node_count, PLAN_ABSENT);
}

/* The item of one place in the arena. */
static bool add_place(peak_search *s, peak_item item, const plan_address *address, uint64_t more, int depth) {
    enum { MOST_NESTED = 16 };
    if (address->space == MEMORY_ARENA) {
        item.offset = address->offset + more;
        return add(s, item);
    }
    if (address->space != MEMORY_MULTIVIEW || depth == MOST_NESTED) return true;
    const plan_multiview *view = &s->of->multiviews[address->index];
    for (uint32_t k = 0; k < view->prologue_count + view->period; k++) {
        if (!add_place(s, item, &s->of->addresses[view->first + k], address->offset + more, depth + 1))
            return false;
    }
    return true;
}

/* Tensors of the graph, in one place or (a loop's result in a table) in several. */
static bool add_tensors(peak_search *s) {
    for (uint32_t id = 0; id < s->of->header->tensors.count; id++) {
        const plan_tensor *tensor = &s->of->tensors[id];
        const uint32_t group = group_of(s, id);
        plan_address address = tensor->address;
        if (tensor->graph != s->graph || s->first[group] == INT64_MAX || !tensor->bytes) continue;
        if (address.space == MEMORY_DYNAMIC && !plan_tensor_reservation(s->of, id, &address)) continue;
        peak_item item = {.kind = PEAK_TENSOR,
                          .tensor = id,
                          .bytes = tensor->bytes,
                          .producer = s->producer[id],
                          .last = s->last_node[group],
                          .first = s->first[group],
                          .ends = s->last[group]};
        if (address.space == MEMORY_MULTIVIEW && s->tenants) {
            item.kind = PEAK_TENANT;
            if (!add(s, item)) return false;
            continue;
        }
        /* A parameter whose address its loop's table tells belongs to the graph around the loop. */
        if (address.space == MEMORY_MULTIVIEW &&
            plan_is_within(s->of, s->of->multiviews[address.index].loop, s->graph))
            continue;
        if (!add_place(s, item, &address, 0, 0)) return false;
    }
    return true;
}

/* What a node needs beside its operands: scratch, regions, and the buffers that its loop's tensors share. */
static bool add_nodes(peak_search *s) {
    const plan_graph *graph = &s->of->graphs[s->graph];
    for (uint64_t n = 0; n < graph->node_count; n++) {
        const uint32_t index = (uint32_t)(graph->nodes + n);
        const plan_node *node = &s->of->nodes[index];
        const peak_item item = {.tensor = PLAN_ABSENT,
                                .producer = PLAN_ABSENT,
                                .last = index,
                                .first = (int64_t)n,
                                .ends = (int64_t)n};
        peak_item scratch = item;
        scratch.kind = PEAK_SCRATCH;
        scratch.bytes = node->scratch_bytes;
        if (!add_place(s, scratch, &node->scratch, 0, 0)) return false;
        for (uint32_t g = node->first_graph; g < node->first_graph + node->graph_count; g++) {
            peak_item region = item;
            region.kind = PEAK_REGION;
            region.offset = s->of->graphs[g].region_offset;
            region.bytes = s->of->graphs[g].region_bytes;
            if (!add(s, region)) return false;
        }
    }
    /* Tables of loops that this graph owns. */
    for (uint32_t id = 0; id < s->of->header->tensors.count; id++) {
        const plan_tensor *tensor = &s->of->tensors[id];
        if (tensor->address.space != MEMORY_MULTIVIEW) continue;
        const plan_multiview *view = &s->of->multiviews[tensor->address.index];
        if (view->loop == plan_run_loop(s->of)) continue; /* states lie in memory of their own */
        if (s->of->nodes[view->loop].graph != s->graph || view->stride) continue;
        const int64_t step = (int64_t)(view->loop - graph->nodes);
        const peak_item item = {.kind = PEAK_ROTATES,
                                .tensor = id,
                                .bytes = tensor->bytes,
                                .producer = s->producer[id],
                                .last = view->loop,
                                .first = step,
                                .ends = step};
        if (!add_place(s, item, &tensor->address, 0, 0)) return false;
    }
    return true;
}

/* ---- the step ------------------------------------------------------------------------------------------ */

static int compare_offsets(const void *a, const void *b) {
    const peak_item *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Bytes that items cover, in units of the alignment: storages are padded to it. */
static uint64_t covered(const peak_item *items, const uint32_t *live, size_t count) {
    uint64_t bytes = 0, until = 0;
    for (size_t i = 0; i < count; i++) {
        const peak_item *item = &items[live[i]];
        const uint64_t end =
            (item->offset + item->bytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
        const uint64_t start = item->offset > until ? item->offset / PLAN_ALIGNMENT * PLAN_ALIGNMENT : until;
        if (end > start) bytes += end - start;
        if (end > until) until = end;
    }
    return bytes;
}

/* The live sets of all steps one after another: items enter and leave, those that stay are kept in the order of their offsets. */
static bool find_step(peak_search *s, peak *found) {
    if (s->count > 0) qsort(s->all, s->count, sizeof *s->all, compare_offsets);
    uint32_t *live = BASE_ARRAY(s->arena, uint32_t, s->count + 1);
    int64_t steps = (int64_t)s->of->graphs[s->graph].node_count;
    size_t *starts = BASE_ARRAY(s->arena, size_t, (size_t)steps + 3);
    uint32_t *by_start = BASE_ARRAY(s->arena, uint32_t, s->count + 1);
    if (!live || !starts || !by_start) return false;
    /* Items by their first step, each step's in the order of offsets. */
    for (size_t i = 0; i < s->count; i++) starts[s->all[i].first + 2]++;
    for (int64_t step = 0; step <= steps + 1; step++) starts[step + 1] += starts[step];
    for (size_t i = 0; i < s->count; i++) by_start[starts[s->all[i].first + 1]++] = (uint32_t)i;
    size_t count = 0, next = 0;
    *found = (peak){.step = 0, .steps = steps, .node = PLAN_ABSENT};
    for (int64_t step = -1; step <= steps; step++) {
        size_t kept = 0;
        for (size_t i = 0; i < count; i++)
            if (s->all[live[i]].ends >= step) live[kept++] = live[i];
        const size_t until = starts[step + 1]; /* the end of this step's, as the sort left it */
        for (count = kept; next < until; next++) {
            size_t at = count++;
            for (; at && live[at - 1] > by_start[next]; at--) live[at] = live[at - 1];
            live[at] = by_start[next];
        }
        if (step < 0 || step == steps) continue;
        const uint64_t bytes = covered(s->all, live, count);
        if (bytes <= found->bytes) continue;
        found->bytes = bytes;
        found->step = step;
    }
    return true;
}

/* The most interesting first: bytes, then tensors before what has no name, then where it lies. */
static int compare_items(const void *a, const void *b) {
    const peak_item *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->kind != y->kind) return (int)x->kind - (int)y->kind;
    if (x->offset != y->offset) return x->offset > y->offset ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? 1 : -1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static bool is_within(const peak_item *inner, const peak_item *outer) {
    return inner->offset >= outer->offset && inner->offset + inner->bytes <= outer->offset + outer->bytes;
}

/* The items that are live in the step found; those within others are left out. */
static bool take_items(peak_search *s, peak *found) {
    found->items = BASE_ARRAY(s->arena, peak_item, s->count + 1);
    if (!found->items) return false;
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const peak_item *item = &s->all[i];
        if (item->first <= found->step && item->ends >= found->step) found->items[count++] = *item;
    }
    qsort(found->items, count, sizeof *found->items, compare_items);
    for (size_t i = 0; i < count; i++) {
        bool shown = true;
        for (size_t k = 0; k < found->count && shown; k++)
            shown = !is_within(&found->items[i], &found->items[k]);
        if (shown) found->items[found->count++] = found->items[i];
    }
    return true;
}

static bool gather(peak_search *s, const plan *of, uint32_t graph, bool tenants, base_arena *arena) {
    const size_t tensors = (size_t)of->header->tensors.count;
    *s = (peak_search){.of = of,
                       .graph = graph,
                       .tenants = tenants,
                       .arena = arena,
                       .group = BASE_ARRAY(arena, uint32_t, tensors + 1),
                       .first = BASE_ARRAY(arena, int64_t, tensors + 1),
                       .last = BASE_ARRAY(arena, int64_t, tensors + 1),
                       .last_node = BASE_ARRAY(arena, uint32_t, tensors + 1),
                       .producer = BASE_ARRAY(arena, uint32_t, tensors + 1)};
    if (!s->group || !s->first || !s->last || !s->last_node || !s->producer) return false;
    for (uint32_t id = 0; id < tensors; id++) {
        s->group[id] = id;
        s->first[id] = INT64_MAX;
        s->last[id] = -1;
        s->last_node[id] = s->producer[id] = PLAN_ABSENT;
    }
    join_views(s);
    find_ranges(s);
    return add_tensors(s) && add_nodes(s);
}

bool emit_peak_items(const plan *of, uint32_t graph, base_arena *arena, peak_item **items, size_t *count) {
    peak_search s;
    if (!gather(&s, of, graph, true, arena)) return false;
    *items = s.all;
    *count = s.count;
    return true;
}

bool emit_peak_find(const plan *of, uint32_t graph, base_arena *arena, peak *found) {
    peak_search s;
    *found = (peak){.node = PLAN_ABSENT};
    if (!gather(&s, of, graph, false, arena) || !find_step(&s, found) || !take_items(&s, found)) return false;
    if (found->step < found->steps) found->node = (uint32_t)(of->graphs[graph].nodes + (uint64_t)found->step);
    return true;
}

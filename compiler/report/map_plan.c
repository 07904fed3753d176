/* SPDX-License-Identifier: Apache-2.0 */
/* map_plan.c: the picture of a plan's memory, from the plan alone; see map.h. Live ranges are those of peak.c. A step that owns sub-graphs is
 * as wide as their steps. The body of a loop is drawn once: what its tables rotate is a frame as wide as the loop. */
#include "compiler/report/map.h"
#include "compiler/report/peak.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 12 }; /* of what reads a tensor */

typedef struct plan_map {
    const plan *of;
    map_picture *picture;
    base_arena *arena;
    double *start, *width; /* by node: within its graph */
    double *graph_width;   /* by graph */
    const char **readers;  /* by tensor id: names of what is made of it, in lines */
    uint32_t *reader_count;
    bool failed;
} plan_map;

#define FORMAT(m, ...) checked(m, base_arena_format((m)->arena, __VA_ARGS__))

static const char *checked(plan_map *m, const char *text) {
    if (!text) m->failed = true;
    return text ? text : "";
}

static const char *text_of(const plan_map *m, uint32_t text) {
    return m->of->texts + text;
}

/* ---- across -------------------------------------------------------------------------------------------- */

static double place_steps(plan_map *m, uint32_t index) {
    const plan_graph *graph = &m->of->graphs[index];
    double at = 0;
    for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
        const plan_node *node = &m->of->nodes[n];
        double inner = 0;
        for (uint32_t g = 0; g < node->graph_count; g++) inner += place_steps(m, node->first_graph + g);
        m->start[n] = at;
        m->width[n] = inner > 1 ? inner : 1;
        at += m->width[n];
    }
    return m->graph_width[index] = at > 1 ? at : 1;
}

static double begin_of(const plan_map *m, const plan_graph *graph, int64_t step) {
    return step <= 0 || !graph->node_count ? 0 : m->start[graph->nodes + (uint64_t)step];
}

static double end_of(const plan_map *m, const plan_graph *graph, int64_t step) {
    if (step < 0 || (uint64_t)step >= graph->node_count) return m->graph_width[graph - m->of->graphs];
    return m->start[graph->nodes + (uint64_t)step] + m->width[graph->nodes + (uint64_t)step];
}

/* ---- texts --------------------------------------------------------------------------------------------- */

static const char *node_text(plan_map *m, uint32_t index) {
    const plan_node *node = &m->of->nodes[index];
    const char *name = text_of(m, node->name);
    return FORMAT(m, "%s%s%s", text_of(m, node->operator_name), name[0] ? " " : "", name);
}

static const char *tensor_text(const plan_map *m, uint32_t id) {
    return id == PLAN_ABSENT ? "" : text_of(m, m->of->tensors[id].name);
}

/* The names of what each tensor is read for, from all graphs. */
static void find_readers(plan_map *m) {
    for (uint32_t n = 0; n < m->of->header->nodes.count; n++) {
        const plan_node *node = &m->of->nodes[n];
        const char *made = "";
        for (uint64_t i = 0; i < node->output_count && !made[0]; i++)
            made = tensor_text(m, m->of->tensor_ids[node->outputs + i]);
        for (uint64_t i = 0; i < node->input_count; i++) {
            const uint32_t id = m->of->tensor_ids[node->inputs + i];
            if (id == PLAN_ABSENT || !made[0] || m->reader_count[id]++ >= MOST_NAMES) continue;
            m->readers[id] = m->readers[id] ? FORMAT(m, "%s\n%s", m->readers[id], made) : made;
        }
    }
}

static const char *reads_of(plan_map *m, uint32_t producer) {
    const plan_node *node = &m->of->nodes[producer];
    const char *text = NULL;
    for (uint64_t i = 0; i < node->input_count && i < MOST_NAMES; i++) {
        const uint32_t id = m->of->tensor_ids[node->inputs + i];
        if (id == PLAN_ABSENT || m->of->tensors[id].address.space == MEMORY_CONSTANT) continue;
        text = text ? FORMAT(m, "%s\n%s", text, tensor_text(m, id)) : tensor_text(m, id);
    }
    return text;
}

static const char *kind_text(plan_map *m, const peak_item *item) {
    switch (item->kind) {
    case PEAK_SCRATCH:
        return FORMAT(m, "scratch of %s", node_text(m, item->last));
    case PEAK_REGION:
        return FORMAT(m, "the sub-graphs of %s", node_text(m, item->last));
    case PEAK_ROTATES:
        return FORMAT(m, "%s\none of the buffers that change hands in %s", tensor_text(m, item->tensor),
                      node_text(m, item->last));
    case PEAK_TENSOR:
        break;
    }
    return tensor_text(m, item->tensor);
}

/* ---- boxes --------------------------------------------------------------------------------------------- */

/* By address, the larger and longer ones first. */
static int by_place(const void *a, const void *b) {
    const peak_item *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->ends != y->ends) return x->ends > y->ends ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

/* An alias of another one: it lies within, for as long. */
static bool is_part(const peak_item *items, const size_t *kept, size_t count, const peak_item *item) {
    for (size_t i = count; i-- > 0;) {
        const peak_item *other = &items[kept[i]];
        if (other->kind == item->kind && other->first == item->first && other->ends == item->ends &&
            item->offset >= other->offset && item->offset + item->bytes <= other->offset + other->bytes)
            return true;
    }
    return false;
}

static void draw_item(plan_map *m, const plan_graph *graph, double origin, const peak_item *item,
                      int64_t ends) {
    map_rectangle *rectangle = emit_map_add(m->picture, m->arena);
    char size[32];
    if (!rectangle) {
        m->failed = true;
        return;
    }
    const bool made = item->kind == PEAK_TENSOR && item->producer != PLAN_ABSENT;
    const uint32_t owner = made ? item->producer : item->kind == PEAK_TENSOR ? PLAN_ABSENT : item->last;
    const char *maker = made ? node_text(m, item->producer) : NULL;
    *rectangle = (map_rectangle){
        .kind = item->kind == PEAK_REGION || item->kind == PEAK_ROTATES ? MAP_FRAME : MAP_STORAGE,
        .first = origin + begin_of(m, graph, item->first),
        .last = origin + end_of(m, graph, ends),
        .low = item->offset,
        .bytes = item->bytes,
        .name = item->tensor != PLAN_ABSENT ? tensor_text(m, item->tensor) : "",
        .family = item->kind == PEAK_SCRATCH ? NULL
                  : owner == PLAN_ABSENT     ? &emit_families[0]
                                             : emit_family_of(text_of(m, m->of->nodes[owner].operator_domain),
                                                              text_of(m, m->of->nodes[owner].operator_name)),
        .maker = maker,
        .reads = made ? reads_of(m, item->producer) : NULL,
        .readers = item->kind == PEAK_TENSOR ? m->readers[item->tensor] : NULL};
    rectangle->title =
        FORMAT(m, "%s\n%" PRIu64 " bytes (%s) at %" PRIu64 "\nsteps %" PRId64 " to %" PRId64 "%s%s",
               kind_text(m, item), item->bytes, emit_size_print((size_t)item->bytes, size, sizeof size),
               item->offset, item->first < 0 ? 0 : item->first, item->ends, maker ? "\nmade by " : "",
               maker ? maker : "");
}

static void add_span(plan_map *m, double first, double last, unsigned depth, const char *text) {
    map_span *grown = base_arena_grow(m->arena, m->picture->spans, &m->picture->span_capacity,
                                      m->picture->span_count + 1, sizeof *grown);
    if (!grown) {
        m->failed = true;
        return;
    }
    m->picture->spans = grown;
    grown[m->picture->span_count++] = (map_span){.first = first, .last = last, .depth = depth, .text = text};
}

static void draw_graph(plan_map *m, uint32_t index, double origin, unsigned depth) {
    const plan_graph *graph = &m->of->graphs[index];
    peak_item *items;
    size_t count, kept_count = 0;
    if (!emit_peak_items(m->of, index, m->arena, &items, &count)) {
        m->failed = true;
        return;
    }
    size_t *kept = BASE_ARRAY(m->arena, size_t, count + 1);
    if (!kept) {
        m->failed = true;
        return;
    }
    if (count) qsort(items, count, sizeof *items, by_place);
    for (size_t i = 0; i < count; i++) {
        /* Those that may hold it begin at the same address or below; few do. */
        if (!is_part(items, kept + (kept_count > 64 ? kept_count - 64 : 0), kept_count > 64 ? 64 : kept_count,
                     &items[i]))
            kept[kept_count++] = i;
    }
    for (size_t i = 0; i < kept_count; i++) {
        const peak_item *item = &items[kept[i]];
        int64_t ends = item->ends;
        /* What is written over it in its last step has the box of that step. */
        for (size_t k = i; k < kept_count && items[kept[k]].offset == item->offset; k++)
            if (items[kept[k]].kind == PEAK_TENSOR && items[kept[k]].first == ends && item->first < ends)
                ends--;
        for (size_t k = i; k-- > 0 && items[kept[k]].offset == item->offset && ends == item->ends;)
            if (items[kept[k]].kind == PEAK_TENSOR && items[kept[k]].first == ends && item->first < ends)
                ends--;
        draw_item(m, graph, origin, item, ends);
    }
    for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count && !m->failed; n++) {
        const plan_node *node = &m->of->nodes[n];
        double at = origin + m->start[n];
        if (!node->graph_count) m->picture->columns[(size_t)at] = text_of(m, node->operator_name);
        const bool loop = strcmp(text_of(m, node->operator_name), "Loop") == 0;
        const char *name = text_of(m, node->name);
        if (loop)
            add_span(m, at, at + m->width[n], depth, FORMAT(m, "%s: one iteration", name[0] ? name : "Loop"));
        for (uint32_t g = node->first_graph; g < node->first_graph + node->graph_count; g++) {
            draw_graph(m, g, at, depth + loop);
            at += m->graph_width[g];
        }
    }
}

static int by_low(const void *a, const void *b) {
    const map_rectangle *const *x = a, *const *y = b;
    return ((*x)->low > (*y)->low) - ((*x)->low < (*y)->low);
}

/* The bytes that are covered above each step: results of a loop lie where its values change hands. */
static bool find_live_bytes(plan_map *m) {
    map_picture *picture = m->picture;
    const map_rectangle **sorted = BASE_ARRAY(m->arena, const map_rectangle *, picture->count + 1);
    uint64_t *until = BASE_ARRAY(m->arena, uint64_t, picture->curve_count + 1);
    size_t count = 0;
    if (!sorted || !until) return false;
    for (size_t i = 0; i < picture->count; i++) {
        const map_rectangle *rectangle = &picture->rectangles[i];
        if (rectangle->kind == MAP_FRAME && !rectangle->name[0])
            continue; /* a region: what is in it counts */
        sorted[count++] = rectangle;
    }
    if (count) qsort(sorted, count, sizeof *sorted, by_low);
    for (size_t i = 0; i < count; i++) {
        const uint64_t low = sorted[i]->low,
                       high = (low + sorted[i]->bytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
        for (size_t at = (size_t)sorted[i]->first; at < (size_t)sorted[i]->last; at++) {
            if (high <= until[at]) continue;
            picture->curve[at] += high - (low > until[at] ? low : until[at]);
            until[at] = high;
        }
    }
    return true;
}

base_status emit_map_of_plan(const plan *of, map_picture *picture, base_arena *arena, base_report *report) {
    const size_t nodes = (size_t)of->header->nodes.count, tensors = (size_t)of->header->tensors.count;
    plan_map m = {.of = of,
                  .picture = picture,
                  .arena = arena,
                  .start = BASE_ARRAY(arena, double, nodes + 1),
                  .width = BASE_ARRAY(arena, double, nodes + 1),
                  .graph_width = BASE_ARRAY(arena, double, (size_t)of->header->graphs.count + 1),
                  .readers = BASE_ARRAY(arena, const char *, tensors + 1),
                  .reader_count = BASE_ARRAY(arena, uint32_t, tensors + 1)};
    if (!m.start || !m.width || !m.graph_width || !m.readers || !m.reader_count)
        return base_fail_memory(report);
    const double width = place_steps(&m, 0);
    *picture = (map_picture){.title = of->texts + of->header->model_name,
                             .width = width,
                             .height = of->header->arena_bytes,
                             .bound = of->header->lower_bound_bytes,
                             .columns = BASE_ARRAY(arena, const char *, (size_t)width + 1),
                             .curve = BASE_ARRAY(arena, uint64_t, (size_t)width + 2),
                             .curve_at = BASE_ARRAY(arena, double, (size_t)width + 2),
                             .curve_count = (size_t)width,
                             .families = true};
    if (!picture->columns || !picture->curve || !picture->curve_at) return base_fail_memory(report);
    for (size_t i = 0; i <= (size_t)width; i++) picture->curve_at[i] = (double)i;
    find_readers(&m);
    draw_graph(&m, 0, 0, 0);
    if (!find_live_bytes(&m)) return base_fail_memory(report);
    for (size_t id = 0; id < tensors; id++)
        picture->unsized += of->tensors[id].address.space == MEMORY_DYNAMIC && !of->tensors[id].bytes;
    return m.failed ? base_fail_memory(report) : BASE_OK;
}

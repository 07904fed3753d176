/* SPDX-License-Identifier: Apache-2.0 */
/* map_plan.c: the picture of a plan's memory, from the plan alone; see map.h. Live ranges are those of peak.c. A step that owns sub-graphs is
 * as wide as their steps.
 *
 * Of a loop whose values change their places, iterations stand side by side, as map_module.c draws them: the prologue, one period, and
 * the first iteration of the next one. The buffers that its values share by turns are frames as wide as the loop, and each value is drawn where its
 * table says that it lies in that iteration; buffers of the caller above the arena. */
#include "compiler/report/map.h"
#include "compiler/report/peak.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_NAMES = 12, /* of what reads a tensor */
    MOST_NESTED = 16 /* tables that lead to each other */
};

typedef struct plan_map {
    const plan *of;
    map_picture *picture;
    base_arena *arena;
    double *start, *width; /* by node: within its graph */
    double *graph_width;   /* by graph */
    peak_item **items;     /* by graph, item_count of them: what lies in memory */
    size_t *item_count;
    uint64_t *period, *prologue; /* by node: of a loop; period 0: it has no tables */
    uint64_t *shown;             /* by node: how many iterations are drawn */
    uint64_t
        *counter; /* by node: of the iteration that is being drawn; after the loop, how many there were */
    const char **readers; /* by tensor id: names of what is made of it, in lines */
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

static bool is_loop(const plan_map *m, const plan_node *node) {
    return strcmp(text_of(m, node->operator_name), "Loop") == 0;
}

/* After how many iterations each loop repeats its addresses, and how many there are before. */
static void find_periods(plan_map *m) {
    for (size_t i = 0; i < m->of->header->multiviews.count; i++) {
        const plan_multiview *view = &m->of->multiviews[i];
        if (view->loop == plan_run_loop(m->of) || view->stride || view->group) continue;
        uint64_t *period = &m->period[view->loop], *prologue = &m->prologue[view->loop];
        *period = base_lcm(*period ? *period : 1, view->period);
        if (*period > UINT32_MAX) *period = UINT32_MAX;
        if (view->prologue_count > *prologue) *prologue = view->prologue_count;
    }
}

static uint32_t iterations_of(const plan_map *m, uint32_t index, double body) {
    const plan_node *node = &m->of->nodes[index];
    plan_loop_form form;
    if (!is_loop(m, node) || !plan_loop_form_read(m->of, node, &form)) return 1;
    if (!m->period[index]) return 1;
    int64_t trips = -1;
    const plan_tensor *count = form.trip_count == PLAN_ABSENT ? NULL : &m->of->tensors[form.trip_count];
    if (count && count->address.space == MEMORY_CONSTANT && count->dtype == OP_INT64)
        memcpy(&trips, m->of->constants + count->address.offset, sizeof trips);
    return emit_map_iterations(m->prologue[index], m->period[index], trips, body);
}

/* Iterations stand side by side, and after them what is left when the loop has ended. */
static bool turns(const plan_map *m, uint64_t node) {
    return m->shown[node] > 1;
}

static double place_steps(plan_map *m, uint32_t index) {
    const plan_graph *graph = &m->of->graphs[index];
    double at = 0;
    for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
        const plan_node *node = &m->of->nodes[n];
        double inner = 0;
        for (uint32_t g = 0; g < node->graph_count; g++) inner += place_steps(m, node->first_graph + g);
        m->shown[n] = iterations_of(m, (uint32_t)n, inner);
        inner = inner * (double)m->shown[n] + (turns(m, n) ? 1 : 0);
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
        return FORMAT(m,
                      is_loop(m, &m->of->nodes[item->last]) ? "%s\none of the buffers that change hands in %s"
                                                            : "%s\none of the places that %s chooses from",
                      tensor_text(m, item->tensor), node_text(m, item->last));
    case PEAK_TENSOR:
    case PEAK_TENANT:
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

static const emit_family *family_of(const plan_map *m, uint32_t node) {
    return node == PLAN_ABSENT ? &emit_families[0]
                               : emit_family_of(text_of(m, m->of->nodes[node].operator_domain),
                                                text_of(m, m->of->nodes[node].operator_name));
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
        .family = item->kind == PEAK_SCRATCH ? NULL : family_of(m, owner),
        .maker = maker,
        .reads = made ? reads_of(m, item->producer) : NULL,
        .readers = item->kind == PEAK_TENSOR ? m->readers[item->tensor] : NULL};
    rectangle->title =
        FORMAT(m, "%s\n%" PRIu64 " bytes (%s) at %" PRIu64 "\nsteps %" PRId64 " to %" PRId64 "%s%s",
               kind_text(m, item), item->bytes, emit_size_print((size_t)item->bytes, size, sizeof size),
               item->offset, item->first < 0 ? 0 : item->first, item->ends, maker ? "\nmade by " : "",
               maker ? maker : "");
}

/* ---- what tables say ----------------------------------------------------------------------------------- */

/* Where a table leads to in the iterations that are being drawn. False: into memory that is not drawn. */
static bool resolve(const plan_map *m, plan_address *address) {
    for (int i = 0; address->space == MEMORY_MULTIVIEW && i < MOST_NESTED; i++) {
        const plan_multiview *view = &m->of->multiviews[address->index];
        if (view->loop == plan_run_loop(m->of) || view->stride || view->group) return false;
        const plan_address entry =
            plan_multiview_entry_of(m->of, address->index, m->counter[view->loop], m->shown[view->loop]);
        *address = (plan_address){entry.space, entry.index, entry.offset + address->offset};
    }
    return address->space == MEMORY_ARENA || address->space == MEMORY_INPUT ||
           address->space == MEMORY_OUTPUT;
}

/* Where the buffer of an input or output is drawn, above the arena and those before it. 0: it is not. */
static uint64_t band_of(plan_map *m, const plan_address *address) {
    const bool input = address->space == MEMORY_INPUT;
    const plan_interface *side = input ? &m->of->inputs[address->index] : &m->of->outputs[address->index];
    const uint64_t bytes = m->of->tensors[side->tensor].bytes;
    map_picture *picture = m->picture;
    const char *name = FORMAT(m, "%s %s", input ? "input" : "output", text_of(m, side->name));
    for (size_t i = 0; i < picture->band_count; i++)
        if (strcmp(picture->bands[i].name, name) == 0) return picture->bands[i].low;
    if (!bytes) return 0;
    const map_band band = {.low = emit_map_top(picture) + bytes / 8 + 1, .bytes = bytes, .name = name};
    if (!emit_map_add_band(picture, m->arena, band)) m->failed = true;
    return m->failed ? 0 : band.low;
}

/* "\niteration 2 of Loop swap", of the loops around the graph. */
static const char *when(plan_map *m, const plan_graph *graph) {
    const char *text = "";
    while (graph->owner != PLAN_ABSENT) {
        if (turns(m, graph->owner))
            text = FORMAT(m, "%s\niteration %" PRIu64 " of %s", text, m->counter[graph->owner],
                          node_text(m, graph->owner));
        graph = &m->of->graphs[m->of->nodes[graph->owner].graph];
    }
    return text;
}

/* A value where it lies in this iteration; a result of a loop where that has left it. */
static void draw_tenant(plan_map *m, const plan_graph *graph, double origin, const peak_item *item) {
    const uint32_t producer = item->producer;
    plan_address address = m->of->tensors[item->tensor].address;
    char size[32];
    if (!resolve(m, &address)) return;
    if (producer != PLAN_ABSENT && m->of->nodes[producer].flags & PLAN_NODE_ALIAS) return;
    const bool caller = address.space != MEMORY_ARENA;
    const uint64_t band = caller ? band_of(m, &address) : 0;
    map_rectangle *rectangle = caller && !band ? NULL : emit_map_add(m->picture, m->arena);
    if (!rectangle) return;
    double first = origin + begin_of(m, graph, item->first);
    if (producer != PLAN_ABSENT && turns(m, producer)) first += m->width[producer] - 1;
    double last = origin + end_of(m, graph, item->ends);
    if (last < first + 1) last = first + 1;
    const char *maker = producer == PLAN_ABSENT ? NULL : node_text(m, producer);
    *rectangle = (map_rectangle){.kind = MAP_TENANT,
                                 .first = first,
                                 .last = last,
                                 .low = band + address.offset,
                                 .bytes = item->bytes,
                                 .name = tensor_text(m, item->tensor),
                                 .family = family_of(m, producer),
                                 .maker = maker,
                                 .reads = maker ? reads_of(m, producer) : NULL,
                                 .readers = m->readers[item->tensor]};
    rectangle->title =
        FORMAT(m, "%s%s\n%" PRIu64 " bytes (%s)\n%s %" PRIu64 "%s%s", tensor_text(m, item->tensor),
               when(m, graph), item->bytes, emit_size_print((size_t)item->bytes, size, sizeof size),
               caller ? "in a buffer of the caller, offset" : "offset", address.offset,
               maker ? "\nmade by " : "", maker ? maker : "");
}

/* ---- graphs -------------------------------------------------------------------------------------------- */

static void add_span(plan_map *m, double first, double last, unsigned depth, bool iteration,
                     const char *text) {
    const map_span span = {
        .first = first, .last = last, .depth = depth, .iteration = iteration, .text = text};
    if (!emit_map_add_span(m->picture, m->arena, span)) m->failed = true;
}

static void draw_loop_spans(plan_map *m, uint32_t index, double at, unsigned depth) {
    const plan_node *node = &m->of->nodes[index];
    const char *name = text_of(m, node->name)[0] ? text_of(m, node->name) : "Loop";
    const uint64_t shown = m->shown[index], period = m->period[index];
    const double body = m->graph_width[node->first_graph];
    if (!turns(m, index)) {
        add_span(m, at, at + m->width[index], depth, false, FORMAT(m, "%s: one iteration", name));
        return;
    }
    add_span(m, at, at + m->width[index], depth, false,
             period == 1 ? FORMAT(m, "%s: each value keeps its address, but for the first iterations", name)
                         : FORMAT(m, "%s: addresses repeat after %" PRIu64, name, period));
    for (uint64_t t = 0; t < shown; t++) {
        const char *text = t >= m->prologue[index] + period
                               ? FORMAT(m, "%" PRIu64 ", as %" PRIu64, t, t - period)
                           : t == 0 ? "0, entry"
                                    : FORMAT(m, "%" PRIu64, t);
        add_span(m, at + (double)t * body, at + (double)(t + 1) * body, depth, true, text);
    }
    add_span(m, at + (double)shown * body, at + m->width[index], depth, true, "exit");
}

/* What keeps its place: the boxes of a graph that are not within others of the same life. */
static void draw_boxes(plan_map *m, const plan_graph *graph, double origin, peak_item *items, size_t count) {
    size_t kept_count = 0, *kept = BASE_ARRAY(m->arena, size_t, count + 1);
    if (!kept) {
        m->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (items[i].kind == PEAK_TENANT) continue;
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
}

static void draw_graph(plan_map *m, uint32_t index, double origin, unsigned depth);

/* The sub-graphs of a node, of a loop in each iteration that is drawn. */
static void draw_within(plan_map *m, uint32_t index, double at, unsigned depth) {
    const plan_node *node = &m->of->nodes[index];
    const bool loop = is_loop(m, node);
    if (loop) draw_loop_spans(m, index, at, depth);
    for (uint64_t t = 0; t < m->shown[index] && node->graph_count && !m->failed; t++) {
        m->counter[index] = t;
        for (uint32_t g = node->first_graph; g < node->first_graph + node->graph_count; g++) {
            if (!loop)
                m->counter[index] = g - node->first_graph; /* tables of an If have an entry for each branch */
            draw_graph(m, g, at, depth + loop);
            at += m->graph_width[g];
        }
    }
    if (loop) m->counter[index] = m->shown[index];
}

static void draw_graph(plan_map *m, uint32_t index, double origin, unsigned depth) {
    const plan_graph *graph = &m->of->graphs[index];
    if (!m->items[index]) {
        if (!emit_peak_items(m->of, index, m->arena, &m->items[index], &m->item_count[index]))
            m->failed = true;
        if (!m->failed && m->item_count[index])
            qsort(m->items[index], m->item_count[index], sizeof **m->items, by_place);
    }
    if (m->failed) return;
    draw_boxes(m, graph, origin, m->items[index], m->item_count[index]);
    for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count && !m->failed; n++) {
        const plan_node *node = &m->of->nodes[n];
        const double at = origin + m->start[n];
        if (!node->graph_count) m->picture->columns[(size_t)at] = text_of(m, node->operator_name);
        draw_within(m, (uint32_t)n, at, depth);
    }
    for (size_t i = 0; i < m->item_count[index] && !m->failed; i++)
        if (m->items[index][i].kind == PEAK_TENANT) draw_tenant(m, graph, origin, &m->items[index][i]);
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
            continue;                                    /* a region: what is in it counts */
        if (rectangle->low >= picture->height) continue; /* the caller's */
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
    const size_t graphs = (size_t)of->header->graphs.count;
    plan_map m = {.of = of,
                  .picture = picture,
                  .arena = arena,
                  .start = BASE_ARRAY(arena, double, nodes + 1),
                  .width = BASE_ARRAY(arena, double, nodes + 1),
                  .graph_width = BASE_ARRAY(arena, double, graphs + 1),
                  .items = BASE_ARRAY(arena, peak_item *, graphs + 1),
                  .item_count = BASE_ARRAY(arena, size_t, graphs + 1),
                  .period = BASE_ARRAY(arena, uint64_t, nodes + 1),
                  .prologue = BASE_ARRAY(arena, uint64_t, nodes + 1),
                  .shown = BASE_ARRAY(arena, uint64_t, nodes + 1),
                  .counter = BASE_ARRAY(arena, uint64_t, nodes + 1),
                  .readers = BASE_ARRAY(arena, const char *, tensors + 1),
                  .reader_count = BASE_ARRAY(arena, uint32_t, tensors + 1)};
    if (!m.start || !m.width || !m.graph_width || !m.items || !m.item_count || !m.period || !m.prologue ||
        !m.shown || !m.counter || !m.readers || !m.reader_count)
        return base_fail_memory(report);
    find_periods(&m);
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

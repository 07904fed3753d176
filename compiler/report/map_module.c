/* SPDX-License-Identifier: Apache-2.0 */
/* map_module.c: the picture of a module's memory; see map.h.
 *
 * A step that owns sub-graphs is as wide as these have steps. Of a loop whose values change their places, iterations stand side by
 * side: the prologue, one period, and the first iteration of the next period. In a storage that such values share, each of
 * them is drawn where it lies in that iteration: so one sees storages change hands. Places in buffers of the caller are drawn
 * above the arena.
 *
 * A model with states is the body of a loop, whose iterations are runs: these stand side by side in the same way, and the memory of the
 * states is drawn above the arena.
 */
#include "compiler/report/map.h"
#include "ir/loop.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NESTED = 16, MOST_NAMES = 40, MOST_HANDED_ON = 64 };

typedef struct map_module {
    const ir_module *module;
    const pass_memory *memory;
    map_picture *picture;
    base_arena *arena;
    double *start;       /* by node id: from the start of its graph */
    double *width;       /* by node id */
    double *graph_width; /* by graph id: of one iteration */
    uint32_t *shown;     /* by node id: how many iterations are drawn */
    uint64_t
        *counter; /* by node id: of the iteration that is being drawn; after the loop, how many there were */
    double **by_step;   /* by graph id: starts of its steps, and the end */
    uint32_t *in_graph; /* by graph id: the first storage, and */
    uint32_t *next;     /* by storage: the next one */
    bool *shared;       /* by storage: values of a loop lie in it by turns */
    uint32_t *period;   /* by node id: of a loop */
    uint32_t *prologue;
    uint64_t states; /* where the memory of the states is drawn */
    bool failed;
} map_module;

static const char *node_label(const ir_node *node) {
    return node->name[0] ? node->name : op_schema_of(node->code)->name;
}

static const char *format_or_fail(map_module *m, const char *text) {
    if (!text) m->failed = true;
    return text ? text : "";
}
#define FORMAT(m, ...) format_or_fail(m, base_arena_format((m)->arena, __VA_ARGS__))

/* ---- columns ------------------------------------------------------------------------------------------- */

/* After how many iterations each loop repeats its addresses, and which storages they share. */
static void find_periods(map_module *m) {
    for (size_t i = 1; i < m->memory->multiview_count; i++) {
        const pass_multiview *view = &m->memory->multiviews[i];
        if (!view->loop || view->stride || view->loop->graph == NULL) continue;
        const uint32_t loop = view->loop->id.index;
        const uint64_t both = base_lcm(m->period[loop] ? m->period[loop] : 1, view->repeat);
        m->period[loop] = both > UINT32_MAX ? UINT32_MAX : (uint32_t)both;
        if (view->prologue > m->prologue[loop]) m->prologue[loop] = view->prologue;
        for (uint32_t k = 0; k < view->prologue + view->repeat; k++) {
            const pass_location at = pass_memory_resolve(m->memory, view->entries[k]);
            /* What lies before the first period may be a value like any other. */
            if (k >= view->prologue || view->group) m->shared[at.storage.index] = true;
        }
    }
}

static uint32_t iterations_of(const map_module *m, const ir_node *node, double body) {
    ir_loop loop;
    const uint32_t index = node->id.index;
    if (!ir_loop_read(node, &loop) || m->period[index] == 0) return 1;
    return emit_map_iterations(m->prologue[index], m->period[index], ir_loop_trips(&loop), body);
}

/* Values change their places in the loop. */
static bool turns(const map_module *m, const ir_node *node) {
    return node->code == OP_LOOP && m->period[node->id.index] && m->shown[node->id.index] > 1;
}

/* It ends some time, which runs do not. */
static bool leaves(const map_module *m, const ir_node *node) {
    return turns(m, node) && node != m->module->run;
}

static double place_columns(map_module *m, const ir_graph *graph) {
    double at = 0;
    double *steps = BASE_ARRAY(m->arena, double, graph->node_count + 2);
    size_t step = 0;
    if (!steps) {
        m->failed = true;
        return 1;
    }
    m->by_step[graph->id.index] = steps;
    for (const ir_node *node = graph->first; node; node = node->next) {
        double inner = 0;
        for (uint32_t g = 0; g < node->graph_count; g++) inner += place_columns(m, node->graphs[g]);
        const uint32_t shown = m->shown[node->id.index] = iterations_of(m, node, inner);
        inner *= shown;
        if (leaves(m, node)) inner++; /* what is left when it ends */
        if (step <= graph->node_count) steps[step++] = at;
        m->start[node->id.index] = at;
        m->width[node->id.index] = inner > 1 ? inner : 1;
        at += m->width[node->id.index];
    }
    steps[step] = at;
    return m->graph_width[graph->id.index] = at > 1 ? at : 1;
}

/* The left end of a step within its graph; after the last one, its right end. */
static double step_start(const map_module *m, const ir_graph *graph, int64_t step) {
    const double *steps = m->by_step[graph->id.index];
    if (step <= 0 || !graph->node_count) return step <= 0 ? 0 : m->graph_width[graph->id.index];
    return step >= graph->node_count ? m->graph_width[graph->id.index] : steps[step];
}

/* ---- texts --------------------------------------------------------------------------------------------- */

static const ir_node *node_of(const pass_storage *storage) {
    return storage->scratch_of  ? storage->scratch_of
           : storage->buffer_of ? storage->buffer_of
           : storage->value     ? storage->value->node
                                : NULL;
}

static const emit_family *family_of(const ir_node *node) {
    return emit_family_of(node ? op_schema_of(node->code)->domain : "",
                          node ? op_schema_of(node->code)->name : "");
}

/* "\nalso holds a, b" of the other values in a storage, views and what runs in place; "" where there are none. */
static const char *other_values(map_module *m, const pass_storage *storage) {
    const char *text = "";
    size_t count = 0;
    uint32_t at = storage->values.index;
    for (; at && at < m->memory->value_count; at = m->memory->siblings[at].index) {
        const ir_value *value = m->module->values[at];
        if (!value || value == storage->value) continue;
        if (++count > 6) return FORMAT(m, "%s, ...", text);
        text = FORMAT(m, "%s%s%s", text, count == 1 ? "\nalso holds " : ", ", value->name);
    }
    return text;
}

/* Names of what a node reads, constants left out, and of what is made of a value, in lines. */
static void add_relations(map_module *m, map_rectangle *rectangle, const ir_value *value) {
    const ir_node *maker = value->node;
    const char *reads = "", *readers = "";
    uint32_t count = 0;
    for (uint32_t i = 0; maker && i < maker->input_count && count < MOST_NAMES; i++) {
        const ir_value *input = ir_input(maker, i);
        if (input && input->kind != IR_CONSTANT)
            reads = FORMAT(m, "%s%s%s", reads, count++ ? "\n" : "", input->name);
    }
    count = 0;
    for (const ir_use *use = value->uses; use && count < MOST_NAMES; use = use->next) {
        const ir_value *made = use->node && use->node->output_count ? use->node->outputs[0] : NULL;
        if (made) readers = FORMAT(m, "%s%s%s", readers, count++ ? "\n" : "", made->name);
    }
    if (maker) rectangle->maker = FORMAT(m, "%s %s", op_schema_of(maker->code)->name, maker->name);
    if (reads[0]) rectangle->reads = reads;
    if (readers[0]) rectangle->readers = readers;
}

/* ---- states -------------------------------------------------------------------------------------------- */

/* It is kept from run to run. */
static bool is_state(const map_module *m, const pass_storage *storage) {
    return m->module->run && storage->graph == m->module->run->graph;
}

/* Where a location in the arena, or in the memory of the states, is drawn. */
static uint64_t height_of(const map_module *m, pass_location location) {
    const pass_storage *storage = &m->memory->storages[location.storage.index];
    return pass_memory_offset(m->memory, location) + (is_state(m, storage) ? m->states : 0);
}

static bool add_band(map_module *m, uint64_t low, uint64_t bytes, const char *name) {
    const map_band band = {.low = low, .bytes = bytes, .name = name};
    if (!emit_map_add_band(m->picture, m->arena, band)) m->failed = true;
    return !m->failed;
}

/* ---- storages ------------------------------------------------------------------------------------------ */

static map_rectangle *add(map_module *m) {
    map_rectangle *rectangle = emit_map_add(m->picture, m->arena);
    static map_rectangle nowhere;
    if (!rectangle) m->failed = true;
    return rectangle ? rectangle : &nowhere;
}

static void draw_storage(map_module *m, uint32_t index, double origin) {
    const pass_storage *storage = &m->memory->storages[index];
    const uint64_t low = height_of(m, (pass_location){.storage = {index}}),
                   offset = pass_memory_offset(m->memory, (pass_location){.storage = {index}});
    const ir_node *node = storage->scratch_of ? storage->scratch_of : storage->buffer_of;
    const char *name = node ? node_label(node) : storage->value ? storage->value->name : "";
    const char *kind = storage->scratch_of ? "scratch of " : storage->buffer_of ? "buffer of " : "";
    char size[32], type[256] = "";
    if (!node && storage->value) op_type_print(&storage->value->type, type, sizeof type);
    map_rectangle *rectangle = add(m);
    *rectangle = (map_rectangle){
        .kind = storage->buffer_of || m->shared[index] ? MAP_FRAME : MAP_STORAGE,
        .first = origin + step_start(m, storage->graph, storage->first),
        .last = origin + step_start(m, storage->graph, storage->last),
        .low = low,
        .bytes = storage->bytes,
        .name = name,
        .family = storage->scratch_of ? NULL : family_of(node_of(storage)),
    };
    rectangle->title = FORMAT(
        m, "%s%s%s%s\n%zu bytes (%s)\nsteps %" PRId64 " to %" PRId64 "%s%s\noffset %" PRIu64 "%s%s%s", kind,
        name, type[0] ? "\n" : "", type, storage->bytes, emit_size_print(storage->bytes, size, sizeof size),
        storage->first, storage->last - 1, storage->graph->owner ? " of " : "",
        storage->graph->owner ? storage->graph->name : "", offset,
        is_state(m, storage) ? "\nkept from run to run" : "",
        m->shared[index] ? "\na place that values of a loop hold by turns" : "", other_values(m, storage));
    if (!node && storage->value) add_relations(m, rectangle, storage->value);
    if (storage->scratch_of)
        rectangle->maker = FORMAT(m, "%s %s", op_schema_of(node->code)->name, node->name);
}

/* ---- values in places that change hands ---------------------------------------------------------------- */

/* Where a value lies while the counters stand as they do. False where that is nowhere that is drawn. */
static bool resolve(const map_module *m, const ir_value *value, pass_location *location, bool *by_turns) {
    *location = pass_memory_location(m->memory, value);
    *by_turns = false;
    for (int depth = 0; depth < MOST_NESTED && location->storage.index; depth++) {
        const pass_storage *storage = &m->memory->storages[location->storage.index];
        if (storage->space != MEMORY_MULTIVIEW) {
            *by_turns |= m->shared[location->storage.index];
            return true;
        }
        const pass_multiview *view = &m->memory->multiviews[storage->index];
        const uint64_t t = m->counter[view->loop->id.index];
        if (view->stride) return false;
        const uint64_t since =
            view->from_end ? t : t - view->prologue; /* as where it ends when all comes round */
        const uint64_t k = t < view->prologue ? t : view->prologue + since % view->repeat;
        const size_t offset = location->offset;
        *location = pass_memory_resolve(m->memory, view->entries[view->group ? 0 : k]);
        location->offset += offset;
        *by_turns = true;
    }
    return false;
}

/* The band of a caller's buffer, made where it is new. */
static uint64_t band_of(map_module *m, const pass_storage *storage) {
    const bool input = storage->space == MEMORY_INPUT;
    const ir_graph *main_graph = m->module->main;
    const char *name =
        input ? (storage->index < main_graph->parameter_count ? main_graph->parameters[storage->index]->name
                                                              : "")
              : ir_graph_result_name(main_graph, storage->index);
    const char *text = FORMAT(m, "%s %s", input ? "input" : "output", name ? name : "");
    map_picture *picture = m->picture;
    for (size_t i = 0; i < picture->band_count; i++)
        if (strcmp(picture->bands[i].name, text) == 0) return picture->bands[i].low;
    const uint64_t top = emit_map_top(picture), gap = storage->bytes / 8 + 1;
    return add_band(m, top + gap, storage->bytes, text) ? top + gap : 0;
}

/* The end of the last step of the graph that reads the value, or an alias of it. */
static double last_read(const map_module *m, const ir_graph *graph, const ir_value *value, int depth) {
    double last = 0;
    for (const ir_use *use = value->uses; use; use = use->next) {
        const ir_graph *at = use->graph;
        const ir_node *node = use->node;
        if (!node && at == graph) return m->graph_width[graph->id.index]; /* a result */
        if (!node) node = at->owner;
        while (node && node->graph != graph) node = node->graph->owner;
        if (!node) continue;
        double end = m->start[node->id.index] + m->width[node->id.index];
        for (uint32_t i = 0; i < node->output_count && depth < MOST_NESTED; i++) {
            if (m->memory->executions[node->id.index] != PASS_ALIAS || !node->outputs[i]) continue;
            const double alias = last_read(m, graph, node->outputs[i], depth + 1);
            if (alias > end) end = alias;
        }
        if (end > last) last = end;
    }
    return last;
}

/* "iteration 2 of \"swap\"", of the loops around the graph. */
static const char *when(map_module *m, const ir_graph *graph) {
    const char *text = "";
    for (; graph && graph->owner; graph = graph->owner->graph) {
        if (!m->period[graph->owner->id.index]) continue;
        text = FORMAT(m, "%s%siteration %" PRIu64 " of \"%s\"", text, text[0] ? ", " : "",
                      m->counter[graph->owner->id.index], node_label(graph->owner));
    }
    return text;
}

/* The node that makes a value; of a carried parameter the one that makes what replaces it, through other parameters if need be: what
 * is handed on keeps its colour. */
static const ir_node *maker_of(const ir_graph *graph, const ir_value *value) {
    ir_loop loop;
    const bool body = ir_loop_around(graph, &loop);
    for (int i = 0; body && !value->node && value->graph == graph && i < MOST_HANDED_ON; i++) {
        if (value->index < loop.first_parameter || value->index >= loop.first_parameter + loop.carried) break;
        value = ir_loop_carry(&loop, value->index - loop.first_parameter).replacement;
    }
    return value->node;
}

/* What the value is written over in place: an operand that lies there until then. NULL: none does. */
static const ir_value *written_over(const map_module *m, const ir_value *value,
                                    const pass_location *location) {
    const ir_node *node = value->node;
    for (uint32_t i = 0; node && !node->graph_count && i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        pass_location at;
        bool by_turns;
        if (input && input->kind != IR_CONSTANT && resolve(m, input, &at, &by_turns) &&
            at.storage.index == location->storage.index && at.offset == location->offset)
            return input;
    }
    return NULL;
}

static void draw_tenant(map_module *m, const ir_graph *graph, const ir_value *value, double origin) {
    pass_location location;
    bool by_turns;
    const ir_node *node = value->node;
    if (node && m->memory->executions[node->id.index] == PASS_ALIAS) return;
    if (!resolve(m, value, &location, &by_turns) || !by_turns) return;
    const pass_storage *storage = &m->memory->storages[location.storage.index];
    size_t bytes;
    if (!op_type_bytes(&value->type, &bytes) || !bytes) return;
    const bool caller = storage->space == MEMORY_INPUT || storage->space == MEMORY_OUTPUT;
    if (storage->space != MEMORY_ARENA && !caller) return;
    const uint64_t low = caller ? band_of(m, storage) + location.offset : height_of(m, location);
    const double first =
        !node ? 0 : m->start[node->id.index] + (leaves(m, node) ? m->width[node->id.index] - 1 : 0);
    double last = last_read(m, graph, value, 0);
    if (last < first + 1) last = first + 1;
    /* A parameter lies where its replacement was made: both have one colour. */
    const ir_node *maker = maker_of(graph, value);
    char size[32];
    const char *iteration = when(m, graph);
    const ir_value *over = written_over(m, value, &location);
    map_rectangle *rectangle = add(m);
    *rectangle =
        (map_rectangle){.kind = MAP_TENANT,
                        .first = origin + first,
                        .last = origin + last,
                        .low = low,
                        .bytes = bytes,
                        .name = over ? FORMAT(m, "%s \xE2\x86\x92 %s", over->name, value->name) : value->name,
                        .family = family_of(maker)};
    rectangle->title = FORMAT(m, "%s\n%s%s%zu bytes (%s)\n%s %" PRIu64, value->name, iteration,
                              iteration[0] ? "\n" : "", bytes, emit_size_print(bytes, size, sizeof size),
                              caller                 ? "in a buffer of the caller, offset"
                              : is_state(m, storage) ? "kept from run to run, offset"
                                                     : "offset",
                              caller ? (uint64_t)location.offset : pass_memory_offset(m->memory, location));
    add_relations(m, rectangle, value);
}

/* ---- graphs -------------------------------------------------------------------------------------------- */

static void add_span(map_module *m, double first, double last, unsigned depth, bool iteration,
                     const char *text) {
    const map_span span = {
        .first = first, .last = last, .depth = depth, .iteration = iteration, .text = text};
    if (!emit_map_add_span(m->picture, m->arena, span)) m->failed = true;
}

static void draw_graph(map_module *m, const ir_graph *graph, double origin, unsigned depth);

static void draw_loop_spans(map_module *m, const ir_node *node, double at, unsigned depth) {
    const uint32_t id = node->id.index, shown = m->shown[id];
    const double body = m->graph_width[node->graphs[0]->id.index];
    if (!m->period[id]) return;
    add_span(m, at, at + m->width[id], depth, false,
             m->period[id] == 1
                 ? FORMAT(m, "%s: each value keeps its address%s", node_label(node),
                          m->prologue[id] ? ", but for the first iterations" : "")
                 : FORMAT(m, "%s: addresses repeat after %u", node_label(node), m->period[id]));
    for (uint32_t t = 0; t < shown && shown > 1; t++) {
        const uint32_t settled = m->prologue[id] + m->period[id];
        const char *text = t >= settled             ? FORMAT(m, "%u, as %u", t, t - m->period[id])
                           : node == m->module->run ? FORMAT(m, "run %u", t)
                           : t == 0                 ? "0, entry"
                                                    : FORMAT(m, "%u", t);
        add_span(m, at + t * body, at + (t + 1) * body, depth, true, text);
    }
    if (leaves(m, node)) add_span(m, at + shown * body, at + m->width[id], depth, true, "exit");
}

static void draw_node(map_module *m, const ir_node *node, double origin, unsigned depth) {
    const uint32_t id = node->id.index;
    const double at = origin + m->start[id];
    const bool loop = node->code == OP_LOOP && node->graph_count == 1;
    const char **columns = m->picture->columns;
    const bool resets = m->module->run && node->graph == m->module->run->graph; /* no step of the model */
    if (!node->graph_count && !resets && at < m->picture->width)
        columns[(size_t)at] = op_schema_of(node->code)->name;
    if (loop) draw_loop_spans(m, node, at, depth);
    double inner = at;
    for (uint32_t t = 0; t < m->shown[id] && node->graph_count && !m->failed; t++) {
        m->counter[id] = t;
        for (uint32_t g = 0; g < node->graph_count; g++) {
            draw_graph(m, node->graphs[g], inner, depth + (loop && m->period[id] ? 1 : 0));
            inner += m->graph_width[node->graphs[g]->id.index];
        }
    }
    if (loop) m->counter[id] = m->shown[id];
}

/* Frames first, so that what lies in them is drawn over them; then what the sub-graphs hold, and what changes hands. */
static void draw_graph(map_module *m, const ir_graph *graph, double origin, unsigned depth) {
    for (int frames = 1; frames >= 0; frames--) {
        for (uint32_t i = m->in_graph[graph->id.index]; i; i = m->next[i]) {
            const bool frame = m->memory->storages[i].buffer_of || m->shared[i];
            if (frame == (frames == 1)) draw_storage(m, i, origin);
        }
    }
    for (uint32_t i = 0; i < graph->parameter_count && !m->failed; i++)
        draw_tenant(m, graph, graph->parameters[i], origin);
    for (const ir_node *node = graph->first; node && !m->failed; node = node->next) {
        draw_node(m, node, origin, depth);
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] && (!m->module->run || graph != m->module->run->graph))
                draw_tenant(m, graph, node->outputs[i], origin);
    }
}

static bool reserve(map_module *m) {
    const size_t nodes = m->module->node_count + 1, graphs = m->module->graph_count + 1;
    const size_t storages = m->memory->storage_count + 1;
    m->start = BASE_ARRAY(m->arena, double, nodes);
    m->width = BASE_ARRAY(m->arena, double, nodes);
    m->shown = BASE_ARRAY(m->arena, uint32_t, nodes);
    m->counter = BASE_ARRAY(m->arena, uint64_t, nodes);
    m->period = BASE_ARRAY(m->arena, uint32_t, nodes);
    m->prologue = BASE_ARRAY(m->arena, uint32_t, nodes);
    m->graph_width = BASE_ARRAY(m->arena, double, graphs);
    m->by_step = BASE_ARRAY(m->arena, double *, graphs);
    m->in_graph = BASE_ARRAY(m->arena, uint32_t, graphs);
    m->next = BASE_ARRAY(m->arena, uint32_t, storages);
    m->shared = BASE_ARRAY(m->arena, bool, storages);
    return m->start && m->width && m->shown && m->counter && m->period && m->prologue && m->graph_width &&
           m->by_step && m->in_graph && m->next && m->shared;
}

/* The storages that are drawn, by graph; and how many bytes live at each step of the main graph. */
static void sort_storages(map_module *m) {
    const ir_graph *main_graph = m->module->main;
    for (size_t i = m->memory->storage_count; --i > 0;) {
        const pass_storage *storage = &m->memory->storages[i];
        if (!emit_storage_placed(storage) || !storage->graph) continue;
        m->next[i] = m->in_graph[storage->graph->id.index];
        m->in_graph[storage->graph->id.index] = (uint32_t)i;
        if (storage->graph != main_graph) continue;
        for (int64_t step = storage->first; step < storage->last && step < (int64_t)main_graph->node_count;
             step++)
            if (step >= 0) m->picture->curve[step] += storage->bytes;
    }
}

/* The memory of the states above the arena, and in it the capacity of those that grow. */
static void draw_states(map_module *m) {
    const uint64_t bytes = m->memory->state_bytes;
    m->states = m->picture->height + m->picture->height / 16 + 1;
    if (!m->module->run || !bytes) return;
    if (!add_band(m, m->states, bytes, "states")) return;
    const ir_graph *main_graph = m->module->main;
    for (uint32_t i = 0; m->memory->reserved && i < ir_module_states(m->module); i++) {
        const struct pass_reservation *reserved = &m->memory->reserved[i];
        char size[32];
        if (!reserved->bytes) continue;
        const ir_value *value = main_graph->parameters[i];
        map_rectangle *rectangle = add(m);
        *rectangle = (map_rectangle){.kind = MAP_STORAGE,
                                     .first = 0,
                                     .last = m->picture->width,
                                     .low = m->states + reserved->offset,
                                     .bytes = reserved->bytes,
                                     .name = value->name,
                                     .family = family_of(main_graph->results[i]->value->node)};
        rectangle->title = FORMAT(
            m, "%s\n%zu bytes (%s) for at most %" PRId64 " positions\nkept from run to run, offset %zu",
            value->name, reserved->bytes, emit_size_print(reserved->bytes, size, sizeof size),
            m->module->states[i].bound, reserved->offset);
        add_relations(m, rectangle, value);
    }
}

/* The bytes that live in each step of the main graph, once for each of the runs that are drawn. */
static void repeat_curve(map_module *m, uint32_t runs) {
    const ir_graph *main_graph = m->module->main;
    const size_t steps = main_graph->node_count;
    map_picture *picture = m->picture;
    const double origin = m->module->run ? m->start[m->module->run->id.index] : 0,
                 body = m->graph_width[main_graph->id.index];
    for (uint32_t t = 0; t < runs; t++) {
        size_t at = t * steps;
        if (t) memcpy(&picture->curve[at], picture->curve, steps * sizeof *picture->curve);
        for (const ir_node *node = main_graph->first; node; node = node->next)
            picture->curve_at[at++] = origin + t * body + m->start[node->id.index];
    }
    picture->curve_at[runs * steps] = picture->width;
    picture->curve_count = runs * steps;
}

base_status emit_map_of_module(const compile_result *result, map_picture *picture, base_arena *arena,
                               base_report *report) {
    const pass_memory *memory = result->memory;
    const ir_node *run = result->module->run;
    const ir_graph *main_graph = result->module->main, *top = run ? run->graph : main_graph;
    const size_t steps = main_graph->node_count;
    map_module m = {.module = result->module, .memory = memory, .picture = picture, .arena = arena};
    *picture = (map_picture){.title = result->module->name,
                             .height = memory->arena_bytes,
                             .bound = memory->lower_bound_bytes,
                             .families = true,
                             .unsized = memory->dynamic_values};
    if (!reserve(&m)) return base_fail_memory(report);
    find_periods(&m);
    picture->width = place_columns(&m, top);
    const uint32_t runs = run ? m.shown[run->id.index] : 1;
    picture->columns = BASE_ARRAY(arena, const char *, (size_t)picture->width + 1);
    picture->curve = BASE_ARRAY(arena, uint64_t, runs * steps + 1);
    picture->curve_at = BASE_ARRAY(arena, double, runs *steps + 2);
    if (m.failed || !picture->columns || !picture->curve || !picture->curve_at)
        return base_fail_memory(report);
    sort_storages(&m);
    repeat_curve(&m, runs);
    draw_states(&m);
    draw_graph(&m, top, 0, 0);
    return m.failed ? base_fail_memory(report) : BASE_OK;
}

/* schedule.c: the order of each graph's nodes, chosen so that less memory is live at once.
 *
 *     %a = Conv(%x)   // large          %b = Conv(%x)
 *     %b = Conv(%x)   // large          %s = ReduceMean(%b)
 *     %r = ReduceMean(%a)        =>     %a = Conv(%x)
 *     %s = ReduceMean(%b)               %r = ReduceMean(%a)
 *
 * Graphs are ordered one by one, the innermost first, because what a sub-graph needs is a need of its control
 * node. The problem that order.h solves is made of the storages that join-aliases has joined: a Concat whose
 * parts are written in place is live from its first part on, views cost nothing. Where an operator may write
 * over an input, the search counts that, too. What the search knows is nearly, but not exactly what the later
 * passes do; therefore both orders are followed to the end, through choose-in-place, analyse-loops and
 * analyse-liveness, and a graph keeps the file's order unless the new one is truly better.
 *
 * Nodes with effects (random numbers) keep their order among themselves.
 *
 * Needs: join-aliases. Keeps: everything but the order. Makes: file_order_peak_bytes of the memory plan.
 */
#include "passes/memory/order.h"
#include "passes/loops/loops.h"
#include "passes/memory/memory.h"
#include <stdlib.h>
#include <string.h>

typedef struct scheduler {
    pass_context *context;
    ir_module *module;
    pass_memory *memory;
    base_arena *scratch;
    uint32_t *step_of;    /* by node id: its number in its graph, in the file's order */
    uint32_t *storage_of; /* by storage: its number in the problem at hand, or UINT32_MAX */
    size_t *frame;        /* by graph id: the peak of its frame, as the search sees it */
    ir_node ***order;     /* by graph id: the nodes in the new order; NULL: as they are */
    ir_node ***file;      /* by graph id: the nodes in the file's order */
} scheduler;

/* ---- one graph as a problem ---------------------------------------------------------------------------- */

/* A list that grows: of steps or storages. */
typedef struct number_list {
    uint32_t *items;
    size_t count, capacity;
} number_list;

static bool append(base_arena *arena, number_list *list, uint32_t number) {
    if (list->count >= UINT32_MAX) return false;
    uint32_t *items = base_arena_grow(arena, list->items, &list->capacity, list->count + 1, sizeof *items);
    if (!items) return false;
    list->items = items;
    items[list->count++] = number;
    return true;
}

static bool append_once(base_arena *arena, number_list *list, size_t from, uint32_t number) {
    for (size_t i = from; i < list->count; i++) {
        if (list->items[i] == number) return true;
    }
    return append(arena, list, number);
}

typedef struct problem_maker {
    scheduler *s;
    const ir_graph *graph;
    base_arena *arena;
    number_list before, touches, in_place, storages;
    bool too_large; /* the sizes add up beyond the address space */
} problem_maker;

/* The number of the storage in which a value lies; UINT32_MAX where it costs this graph nothing. */
static bool storage_number(problem_maker *m, const ir_value *value, uint32_t *number) {
    *number = UINT32_MAX;
    pass_location location = pass_memory_location(m->s->memory, value);
    if (!location.storage.index) return true;
    const pass_storage *storage = pass_memory_storage(m->s->memory, location.storage);
    if (storage->space != MEMORY_ARENA || storage->graph != m->graph) return true;
    uint32_t *known = &m->s->storage_of[location.storage.index];
    if (*known == UINT32_MAX) {
        *known = (uint32_t)m->storages.count;
        if (!append(m->arena, &m->storages, location.storage.index)) return false;
    }
    *number = *known;
    return true;
}

/* A step reads or writes a value: it touches the storage, and reading comes after writing. */
static bool add_value(problem_maker *m, const ir_value *value, size_t touches_from, size_t before_from,
                      bool reads) {
    uint32_t number;
    if (!value || value->kind == IR_CONSTANT) return true;
    if (!storage_number(m, value, &number)) return false;
    if (number != UINT32_MAX && !append_once(m->arena, &m->touches, touches_from, number)) return false;
    if (reads && value->node && value->graph == m->graph) {
        return append_once(m->arena, &m->before, before_from, m->s->step_of[value->node->id.index]);
    }
    return true;
}

/* Where node may write output 0 over input i: both storages are of the same size and hold nothing else there.
 */
static bool add_in_place(problem_maker *m, const ir_node *node, uint32_t input, uint32_t output) {
    const ir_value *from = ir_input(node, input),
                   *to = output < node->output_count ? node->outputs[output] : NULL;
    uint32_t from_number, to_number;
    if (!from || !to || from->kind == IR_CONSTANT || from->graph != node->graph) return true;
    if (!op_shape_equal(&from->type.shape, &to->type.shape) || from->type.layout != to->type.layout ||
        op_dtype_bytes(from->type.dtype) != op_dtype_bytes(to->type.dtype)) {
        return true;
    }
    if (!storage_number(m, from, &from_number) || !storage_number(m, to, &to_number)) return false;
    if (from_number == UINT32_MAX || to_number == UINT32_MAX || from_number == to_number) return true;
    const pass_storage *storages = m->s->memory->storages;
    if (storages[m->storages.items[from_number]].bytes != storages[m->storages.items[to_number]].bytes)
        return true;
    return append(m->arena, &m->in_place, from_number) && append(m->arena, &m->in_place, to_number);
}

static bool add_node(problem_maker *m, const ir_node *node, const ir_node **effect) {
    size_t touches_from = m->touches.count, before_from = m->before.count;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!add_value(m, node->outputs[i], touches_from, before_from, false)) return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!add_value(m, ir_input(node, i), touches_from, before_from, true)) return false;
    }
    if (node->graph_count) {
        ir_value **values;
        size_t count;
        if (!ir_node_captures(node, m->arena, &values, &count)) return false;
        for (size_t i = 0; i < count; i++) {
            if (!add_value(m, values[i], touches_from, before_from, true)) return false;
        }
    }
    if (op_schema_of(node->code)->flags & OP_FLAG_EFFECT) {
        if (*effect && !append_once(m->arena, &m->before, before_from, m->s->step_of[(*effect)->id.index]))
            return false;
        *effect = node;
    }
    if (m->s->memory->executions[node->id.index] != PASS_RUN) return true;
    if (node->code == OP_LOOP) {
        /* Only a loop of one carried value: a problem takes one choice a step. */
        return node->output_count != 1 || add_in_place(m, node, 2, 0);
    }
    unsigned allowed = op_schema_of(node->code)->in_place;
    for (uint32_t i = node->input_count; i-- > 0;) {
        if (i < 32 && allowed & OP_IN_PLACE(i) && !add_in_place(m, node, i, 0)) return false;
    }
    return true;
}

/* What a node needs beside the storages of its values. */
static size_t need_of(const scheduler *s, const ir_node *node) {
    size_t need = 0, frame = 0;
    if (s->memory->executions[node->id.index] == PASS_RUN)
        (void)base_size_align(node->scratch_bytes, RT_ALIGNMENT, &need);
    for (uint32_t i = 0; i < node->graph_count; i++) {
        size_t bytes = s->frame[node->graphs[i]->id.index];
        if (bytes > frame) frame = bytes;
    }
    return need + frame;
}

static bool make_problem(problem_maker *m, order_problem *problem) {
    const ir_graph *graph = m->graph;
    scheduler *s = m->s;
    size_t steps = graph->node_count, step = 0, total = 0;
    uint32_t *before_starts = BASE_ARRAY(m->arena, uint32_t, steps + 1);
    uint32_t *touch_starts = BASE_ARRAY(m->arena, uint32_t, steps + 1);
    uint32_t *in_place_starts = BASE_ARRAY(m->arena, uint32_t, steps + 1);
    size_t *needs = BASE_ARRAY(m->arena, size_t, steps + 1);
    if (!before_starts || !touch_starts || !in_place_starts || !needs) return false;
    const ir_node *effect = NULL;
    for (const ir_node *node = graph->first; node; node = node->next) {
        if (!add_node(m, node, &effect)) return false;
        needs[step++] = need_of(s, node);
        before_starts[step] = (uint32_t)m->before.count;
        touch_starts[step] = (uint32_t)m->touches.count;
        in_place_starts[step] = (uint32_t)(m->in_place.count / 2);
    }
    /* Parameters and results that no node touches cost something all the same. */
    uint32_t number;
    for (uint32_t i = 0; i < graph->parameter_count; i++) {
        if (!storage_number(m, graph->parameters[i], &number)) return false;
    }
    for (uint32_t i = 0; i < graph->result_count; i++) {
        if (!storage_number(m, graph->results[i]->value, &number)) return false;
    }
    size_t storages = m->storages.count;
    size_t *sizes = BASE_ARRAY(m->arena, size_t, storages + 1);
    bool *live_in = BASE_ARRAY(m->arena, bool, storages + 1),
         *live_out = BASE_ARRAY(m->arena, bool, storages + 1);
    if (!sizes || !live_in || !live_out) return false;
    for (size_t i = 0; i < storages; i++) {
        if (!base_size_align(s->memory->storages[m->storages.items[i]].bytes, RT_ALIGNMENT, &sizes[i]) ||
            !base_size_add(total, sizes[i], &total) || total > SIZE_MAX / 4) {
            m->too_large = true;
            return false;
        }
    }
    bool loop = graph->owner && graph->owner->code == OP_LOOP;
    for (uint32_t i = 0; i < graph->parameter_count; i++) {
        (void)storage_number(m, graph->parameters[i], &number);
        if (number == UINT32_MAX) continue;
        live_in[number] = true;
        if (loop) live_out[number] = true;
    }
    for (uint32_t i = 0; i < graph->result_count; i++) {
        (void)storage_number(m, graph->results[i]->value, &number);
        if (number != UINT32_MAX) live_out[number] = true;
    }
    *problem = (order_problem){.step_count = (uint32_t)steps,
                               .storage_count = (uint32_t)storages,
                               .before_starts = before_starts,
                               .before = m->before.items,
                               .touch_starts = touch_starts,
                               .touches = m->touches.items,
                               .in_place_starts = in_place_starts,
                               .in_place = (const order_in_place *)m->in_place.items,
                               .needs = needs,
                               .sizes = sizes,
                               .live_in = live_in,
                               .live_out = live_out};
    return true;
}

/* Finds an order for a graph and keeps it in s->order where it is new. */
static base_status order_graph(scheduler *s, const ir_graph *graph) {
    base_arena arena;
    base_arena_init(&arena, s->scratch->allocator);
    problem_maker m = {.s = s, .graph = graph, .arena = &arena};
    order_problem problem;
    uint32_t *order = BASE_ARRAY(&arena, uint32_t, (size_t)graph->node_count + 1);
    bool ok = order && make_problem(&m, &problem) &&
              order_find(&problem, &arena, order, &s->frame[graph->id.index]);
    for (size_t i = 0; i < m.storages.count; i++) s->storage_of[m.storages.items[i]] = UINT32_MAX;
    bool changed = false;
    for (uint32_t i = 0; ok && i < graph->node_count; i++) changed |= order[i] != i;
    if (ok && changed) {
        ir_node **nodes = BASE_ARRAY(s->scratch, ir_node *, graph->node_count);
        ok = nodes != NULL;
        for (uint32_t i = 0; ok && i < graph->node_count; i++) nodes[i] = s->file[graph->id.index][order[i]];
        s->order[graph->id.index] = nodes;
    }
    base_arena_free(&arena);
    if (m.too_large) {
        return base_fail(s->context->report, BASE_INVALID,
                         "graph %s: the tensors are too large for an address space", graph->name);
    }
    return ok ? BASE_OK : base_fail_memory(s->context->report);
}

/* ---- what an order comes to in the end ----------------------------------------------------------------- */

static void set_order(const ir_graph *graph, ir_node *const *nodes) {
    for (uint32_t i = 0; i < graph->node_count; i++) ir_node_move(nodes[i], NULL);
}

/* Runs the passes to come on a copy of the memory plan: by graph id, the peak of its frame. */
static base_status follow(scheduler *s, ir_graph **graphs, size_t graph_count, size_t *peaks) {
    pass_memory copy = *s->memory;
    base_arena arena;
    base_arena_init(&arena, s->scratch->allocator);
    copy.arena = &arena;
    copy.storage_capacity = copy.storage_count;
    copy.storages = BASE_ARRAY(&arena, pass_storage, copy.storage_count);
    copy.locations = BASE_ARRAY(&arena, pass_location, copy.value_count);
    copy.siblings = BASE_ARRAY(&arena, ir_value_id, copy.value_count);
    copy.scratch = BASE_ARRAY(&arena, pass_storage_id, copy.node_count);
    base_status status = BASE_OK;
    if (!copy.storages || !copy.locations || !copy.siblings || !copy.scratch) {
        status = base_fail_memory(s->context->report);
    } else {
        memcpy(copy.storages, s->memory->storages, copy.storage_count * sizeof *copy.storages);
        memcpy(copy.locations, s->memory->locations, copy.value_count * sizeof *copy.locations);
        memcpy(copy.siblings, s->memory->siblings, copy.value_count * sizeof *copy.siblings);
        pass_context context = *s->context;
        context.memory = &copy;
        context.scratch = &arena;
        status = pass_choose_in_place(&context);
        if (status == BASE_OK) status = pass_analyse_loops(&context);
        if (status == BASE_OK) status = pass_analyse_liveness(&context);
        if (status == BASE_OK && !pass_region_peaks(&copy, graphs, graph_count, &arena, peaks)) {
            status = base_fail_memory(s->context->report);
        }
    }
    base_arena_free(&arena);
    return status;
}

/* Puts the new orders in place, but not where they are no better than the file's. */
static base_status decide(scheduler *s, ir_graph **graphs, size_t graph_count) {
    size_t count = s->module->graph_count, main = s->module->main->id.index;
    size_t *file = BASE_ARRAY(s->scratch, size_t, count), *peaks = BASE_ARRAY(s->scratch, size_t, count);
    if (!file || !peaks) return base_fail_memory(s->context->report);
    base_status status = follow(s, graphs, graph_count, file);
    if (status != BASE_OK) return status;
    s->memory->file_order_peak_bytes = file[main];
    bool changed = false;
    for (size_t g = 0; g < graph_count; g++) {
        ir_node **order = s->order[graphs[g]->id.index];
        if (order) set_order(graphs[g], order);
        changed |= order != NULL;
    }
    if (!changed) return BASE_OK;
    /* A graph that goes back can only lose what its sub-graphs have not gained: the innermost come first. */
    for (int round = 0; round < 2; round++) {
        bool back = false;
        status = follow(s, graphs, graph_count, peaks);
        if (status != BASE_OK) return status;
        for (size_t g = graph_count; g-- > 0;) {
            size_t id = graphs[g]->id.index;
            if (!s->order[id] || (round == 0 ? peaks[id] < file[id] : peaks[main] <= file[main])) continue;
            set_order(graphs[g], s->file[id]);
            s->order[id] = NULL;
            back = true;
        }
        if (!back) break;
    }
    return BASE_OK;
}

base_status pass_schedule(pass_context *context) {
    ir_module *module = context->module;
    base_arena *scratch = context->scratch;
    scheduler s = {.context = context, .module = module, .memory = context->memory, .scratch = scratch};
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(module, scratch, &graph_count);
    s.step_of = BASE_ARRAY(scratch, uint32_t, module->node_count);
    s.storage_of = BASE_ARRAY(scratch, uint32_t, context->memory->storage_count);
    s.frame = BASE_ARRAY(scratch, size_t, module->graph_count);
    s.order = BASE_ARRAY(scratch, ir_node **, module->graph_count);
    s.file = BASE_ARRAY(scratch, ir_node **, module->graph_count);
    if (!graphs || !s.step_of || !s.storage_of || !s.frame || !s.order || !s.file)
        return base_fail_memory(context->report);
    memset(s.storage_of, 0xff, context->memory->storage_count * sizeof *s.storage_of);
    for (size_t g = graph_count; g-- > 0;) {
        ir_graph *graph = graphs[g];
        ir_node **nodes = s.file[graph->id.index] =
            BASE_ARRAY(scratch, ir_node *, (size_t)graph->node_count + 1);
        if (!nodes) return base_fail_memory(context->report);
        uint32_t step = 0;
        for (ir_node *node = graph->first; node; node = node->next) {
            s.step_of[node->id.index] = step;
            nodes[step++] = node;
        }
        base_status status = order_graph(&s, graph);
        if (status != BASE_OK) return status;
    }
    return decide(&s, graphs, graph_count);
}

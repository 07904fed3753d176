/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c: the order of each graph's nodes, chosen so that less memory is live at once.
 *
 *     %a = Conv(%x)   // large          %b = Conv(%x)
 *     %b = Conv(%x)   // large          %s = ReduceMean(%b)
 *     %r = ReduceMean(%a)        =>     %a = Conv(%x)
 *     %s = ReduceMean(%b)               %r = ReduceMean(%a)
 *
 * Graphs are ordered one by one, the innermost first, because what a sub-graph needs is a need of its control
 * node. The problem that order.h solves is made of the storages that join-aliases has joined: a Concat whose
 * parts are written in place is live from its first part on, aliases cost nothing. Where an operator may write
 * over an input, the search counts that, too. That is a model of a memory plan. What an order is worth is said by
 * the plan itself: pass_memory_plan makes one for the file's order and one for the new one, and a graph keeps the
 * file's order unless the new one is better.
 *
 * Nodes with effects (random numbers) keep their order among themselves.
 *
 * Needs: storages, capacities; scratch sizes, which came with kernels. Breaks: nothing.
 * Guarantees: the lists of the module and memory->order have the order for which the lowest peak was found;
 * file_order_peak_bytes of the memory plan. No plan of the file's order has a lower peak.
 */
#include "ir/operators/range.h"
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
    pass_order file;      /* as the module has the nodes */
    uint32_t *storage_of; /* by storage: its number in the problem at hand, or UINT32_MAX */
    size_t *peak;         /* by graph id: the peak of its region, as the search sees it */
    ir_node ***order;     /* by graph id: the nodes in the new order; NULL: as in the file */
    size_t states;        /* bytes of the states in the plan that was measured last */
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
        return append_once(m->arena, &m->before, before_from,
                           (uint32_t)m->s->file.numbers[value->node->id.index]);
    }
    return true;
}

/* Where node may write this output over this input: both storages are of the same size and hold nothing else there.
 */
static bool add_in_place(problem_maker *m, const ir_node *node, uint32_t input, uint32_t output) {
    const ir_value *from = ir_input(node, input),
                   *to = output < node->output_count ? node->outputs[output] : NULL;
    uint32_t from_number, to_number;
    if (!from || !to || from->kind == IR_CONSTANT || from->graph != node->graph) return true;
    if (!op_same_form(&from->type, &to->type)) return true;
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
        if (*effect && !append_once(m->arena, &m->before, before_from,
                                    (uint32_t)m->s->file.numbers[(*effect)->id.index]))
            return false;
        *effect = node;
    }
    if (m->s->memory->executions[node->id.index] != PASS_RUN) return true;
    if (node->code == OP_LOOP) {
        /* Only a loop of one carried value: a problem takes one choice a step. */
        return node->output_count != 1 || add_in_place(m, node, 2, 0);
    }
    const op_schema *schema = op_schema_of(node->code);
    for (uint32_t output = 0; schema->in_place && output < node->output_count; output++) {
        for (uint32_t i = node->input_count; i-- > 0;)
            if (op_may_write_over(schema, output, i) && !add_in_place(m, node, i, output)) return false;
    }
    return true;
}

/* What a node needs beside the storages of its values. */
static size_t need_of(const scheduler *s, const ir_node *node) {
    size_t need = 0, inner = 0;
    if (s->memory->executions[node->id.index] == PASS_RUN)
        (void)base_size_align(node->scratch_bytes, RT_ALIGNMENT, &need);
    for (uint32_t i = 0; i < node->graph_count; i++) {
        size_t bytes = s->peak[node->graphs[i]->id.index];
        if (bytes > inner) inner = bytes;
    }
    return need + inner;
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
              pass_order_find(&problem, &arena, order, &s->peak[graph->id.index]);
    for (size_t i = 0; i < m.storages.count; i++) s->storage_of[m.storages.items[i]] = UINT32_MAX;
    bool changed = false;
    for (uint32_t i = 0; ok && i < graph->node_count; i++) changed |= order[i] != i;
    if (ok && changed) {
        ir_node **nodes = BASE_ARRAY(s->scratch, ir_node *, (size_t)graph->node_count + 1);
        ok = nodes != NULL;
        for (uint32_t i = 0; ok && i < graph->node_count; i++)
            nodes[i] = s->file.nodes[graph->id.index][order[i]];
        s->order[graph->id.index] = nodes;
    }
    base_arena_free(&arena);
    if (m.too_large) {
        return base_fail(s->context->report, BASE_INVALID,
                         "graph %s: the tensors are too large for an address space", graph->name);
    }
    return ok ? BASE_OK : base_fail_memory(s->context->report);
}

/* ---- which orders are kept ------------------------------------------------------------------------------ */

/* The order with the new nodes of the graphs that have some, the file's nodes for the others. */
static bool make_order(scheduler *s, ir_graph *const *graphs, size_t graph_count, pass_order *order) {
    order->nodes = BASE_ARRAY(s->scratch, ir_node **, s->module->graph_count);
    order->numbers = BASE_ARRAY(s->scratch, int64_t, s->module->node_count);
    if (!order->nodes || !order->numbers) return false;
    /* What is not listed stands around the model, and keeps its order. */
    memcpy(order->nodes, s->file.nodes, s->module->graph_count * sizeof *order->nodes);
    memcpy(order->numbers, s->file.numbers, s->module->node_count * sizeof *order->numbers);
    for (size_t g = 0; g < graph_count; g++) {
        size_t id = graphs[g]->id.index;
        order->nodes[id] = s->order[id] ? s->order[id] : s->file.nodes[id];
        for (uint32_t i = 0; i < graphs[g]->node_count; i++)
            order->numbers[order->nodes[id][i]->id.index] = i;
    }
    return true;
}

/* What is kept from run to run: an order in which a state cannot be made in place takes more. */
static size_t state_bytes(const ir_module *module, const pass_memory *plan) {
    size_t bytes = 0;
    for (size_t i = 1; module->run && i < plan->storage_count; i++) {
        const pass_storage *storage = &plan->storages[i];
        if (storage->graph == module->run->graph && storage->space == MEMORY_ARENA && !storage->part_of.index)
            bytes += storage->bytes;
    }
    return bytes;
}

/* By graph id, the peak of its region in the plan for this order. */
static base_status measure(scheduler *s, ir_graph *const *graphs, size_t graph_count, const pass_order *order,
                           size_t *peaks) {
    base_arena arena;
    pass_memory *plan;
    base_arena_init(&arena, s->scratch->allocator);
    base_status status = pass_memory_plan(s->context, order, &arena, &plan);
    if (status == BASE_OK && !pass_region_peaks(plan, graphs, graph_count, &arena, peaks))
        status = base_fail_memory(s->context->report);
    s->states = status == BASE_OK ? state_bytes(s->module, plan) : 0;
    peaks[s->module->main->id.index] += s->states;
    base_arena_free(&arena);
    return status;
}

/* Chooses of each graph's two orders: *best has the new ones, but not where they are no better than the file's. */
static base_status decide(scheduler *s, ir_graph *const *graphs, size_t graph_count, pass_order *best) {
    size_t count = s->module->graph_count, main = s->module->main->id.index;
    size_t *file = BASE_ARRAY(s->scratch, size_t, count), *peaks = BASE_ARRAY(s->scratch, size_t, count);
    if (!file || !peaks) return base_fail_memory(s->context->report);
    base_status status = measure(s, graphs, graph_count, &s->file, file);
    if (status != BASE_OK) return status;
    s->memory->file_order_peak_bytes = file[main] - s->states;
    *best = s->file;
    bool changed = false;
    for (size_t g = 0; g < graph_count; g++) changed |= s->order[graphs[g]->id.index] != NULL;
    if (!changed) return BASE_OK;
    if (!make_order(s, graphs, graph_count, best)) return base_fail_memory(s->context->report);
    /* A graph that goes back can only lose what its sub-graphs have not gained: the innermost come first. */
    for (int round = 0; round < 2; round++) {
        bool back = false;
        status = measure(s, graphs, graph_count, best, peaks);
        if (status != BASE_OK) return status;
        for (size_t g = graph_count; g-- > 0;) {
            size_t id = graphs[g]->id.index;
            if (!s->order[id] || (round == 0 ? peaks[id] < file[id] : peaks[main] <= file[main])) continue;
            s->order[id] = NULL;
            back = true;
        }
        if (!back) break;
        if (!make_order(s, graphs, graph_count, best)) return base_fail_memory(s->context->report);
    }
    return BASE_OK;
}

/* The module and the memory plan have this order from now on. */
static bool keep(scheduler *s, ir_graph *const *graphs, size_t graph_count, const pass_order *order) {
    for (size_t g = 0; g < graph_count; g++) {
        size_t id = graphs[g]->id.index;
        if (!s->order[id]) continue;
        for (ir_node **at = order->nodes[id]; *at; at++) ir_node_move(*at, NULL);
    }
    return pass_order_read(s->module, s->memory->arena, &s->memory->order);
}

base_status pass_schedule(pass_context *context) {
    ir_module *module = context->module;
    base_arena *scratch = context->scratch;
    scheduler s = {.context = context, .module = module, .memory = context->memory, .scratch = scratch};
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(module, scratch, &graph_count);
    s.storage_of = BASE_ARRAY(scratch, uint32_t, context->memory->storage_count);
    s.peak = BASE_ARRAY(scratch, size_t, module->graph_count);
    s.order = BASE_ARRAY(scratch, ir_node **, module->graph_count);
    if (!graphs || !s.storage_of || !s.peak || !s.order || !pass_order_read(module, scratch, &s.file))
        return base_fail_memory(context->report);
    memset(s.storage_of, 0xff, context->memory->storage_count * sizeof *s.storage_of);
    for (size_t g = graph_count; g-- > 0;) {
        base_status status = order_graph(&s, graphs[g]);
        if (status != BASE_OK) return status;
    }
    pass_order best;
    base_status status = decide(&s, graphs, graph_count, &best);
    if (status == BASE_OK && !keep(&s, graphs, graph_count, &best))
        status = base_fail_memory(context->report);
    return status;
}

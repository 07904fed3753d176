/* SPDX-License-Identifier: Apache-2.0 */
/* commit.c: until when a run can fail, and from when on it changes states. */
#include "ir/operators/indices.h"
#include "runtime/plan/plan.h"
#include <string.h>

enum { MOST_RUNS = 4096, MOST_DEPTH = 12 };

/* ---- what can fail --------------------------------------------------------------------------------------- */

static uint32_t input_of(const plan *of, const plan_node *node, uint64_t index) {
    return index < node->input_count ? of->tensor_ids[node->inputs + index] : PLAN_ABSENT;
}

/* All that the operator looks at is constant. */
static bool is_certain(const plan *of, const plan_node *node) {
    uint32_t first, end;
    op_checked_inputs(plan_node_code(of, node), (uint32_t)node->input_count, &first, &end);
    for (uint64_t i = first; i < node->input_count && i < end; i++) {
        const uint32_t id = input_of(of, node, i);
        if (id != PLAN_ABSENT && of->tensors[id].address.space != MEMORY_CONSTANT) return false;
    }
    return true;
}

static bool same_shape(const plan *of, uint32_t a, uint32_t b) {
    op_type x, y;
    if (a == PLAN_ABSENT || b == PLAN_ABSENT) return false;
    plan_tensor_type(of, a, &x);
    plan_tensor_type(of, b, &y);
    return op_shape_known(&x.shape) && op_shape_equal(&x.shape, &y.shape);
}

static bool same_attributes(const plan *of, const plan_node *a, const plan_node *b) {
    if (a->attribute_count != b->attribute_count) return false;
    for (uint64_t i = 0; i < a->attribute_count; i++) {
        const plan_attribute *x = &of->attributes[a->attributes + i], *y = &of->attributes[b->attributes + i];
        if (x->name != y->name || x->kind != y->kind || x->count != y->count) return false;
        if (x->kind == OP_ATTRIBUTE_INTS &&
            (!x->count || memcmp(of->integers + x->value, of->integers + y->value,
                                 (size_t)x->count * sizeof *of->integers) == 0))
            continue;
        if (x->value != y->value) return false;
    }
    return true;
}

/* By tensor id: the node of the main graph that makes the tensor, PLAN_ABSENT: none does; and as which output. */
typedef struct maker {
    uint32_t node, output;
} maker;

static maker *find_makers(const plan *of, base_arena *arena) {
    const plan_graph *main = &of->graphs[0];
    maker *makers = BASE_ARRAY(arena, maker, (size_t)of->header->tensors.count);
    for (uint64_t id = 0; makers && id < of->header->tensors.count; id++) makers[id].node = PLAN_ABSENT;
    for (uint64_t n = main->nodes; makers && n < main->nodes + main->node_count; n++)
        for (uint64_t i = 0; i < of->nodes[n].output_count; i++) {
            const uint32_t id = of->tensor_ids[of->nodes[n].outputs + i];
            if (id != PLAN_ABSENT) makers[id] = (maker){(uint32_t)n, (uint32_t)i};
        }
    return makers;
}

static bool same_constant(const plan *of, uint32_t a, uint32_t b) {
    const plan_tensor *x = &of->tensors[a], *y = &of->tensors[b];
    return x->address.space == MEMORY_CONSTANT && y->address.space == MEMORY_CONSTANT &&
           x->dtype == y->dtype && x->dtype != OP_STRING && same_shape(of, a, b) && x->bytes == y->bytes &&
           memcmp(of->constants + x->address.offset, of->constants + y->address.offset, (size_t)x->bytes) ==
               0;
}

/* The same tensor, or made in the same way of the same tensors. */
static bool same_value(const plan *of, const maker *makers, uint32_t a, uint32_t b, int depth) {
    if (a == b) return true;
    if (a == PLAN_ABSENT || b == PLAN_ABSENT || depth == 0) return false;
    if (same_constant(of, a, b)) return true;
    const uint32_t x = makers[a].node, y = makers[b].node;
    if (x == PLAN_ABSENT || y == PLAN_ABSENT || makers[a].output != makers[b].output) return false;
    const plan_node *left = &of->nodes[x], *right = &of->nodes[y];
    const op_code code = plan_node_code(of, left);
    if (code != plan_node_code(of, right) || left->input_count != right->input_count ||
        op_schema_of(code)->flags & (OP_FLAG_EFFECT | OP_FLAG_GRAPHS) || !same_attributes(of, left, right))
        return false;
    for (uint64_t i = 0; i < left->input_count; i++)
        if (!same_value(of, makers, input_of(of, left, i), input_of(of, right, i), depth - 1)) return false;
    return true;
}

/* A node before this one looks at the same indices for data of the same shape: what it lets through is fine here. */
static bool was_checked(const plan *of, const maker *makers, uint32_t number, op_code code) {
    const plan_node *node = &of->nodes[number];
    uint32_t first, end;
    if (!op_index_inputs(code, &first, &end)) return false;
    for (uint64_t n = of->graphs[node->graph].nodes; n < number; n++) {
        const plan_node *other = &of->nodes[n];
        bool same = plan_node_code(of, other) == code && other->input_count == node->input_count &&
                    same_attributes(of, other, node);
        for (uint64_t i = 0; same && i < node->input_count && i < end; i++) {
            const uint32_t x = input_of(of, other, i), y = input_of(of, node, i);
            same = i < first ? same_shape(of, x, y)
                             : y != PLAN_ABSENT && same_value(of, makers, x, y, MOST_DEPTH);
        }
        if (same) return true;
    }
    return false;
}

static bool is_certain_loop(const plan *of, const plan_node *node) {
    plan_loop_form form;
    if (!plan_loop_form_read(of, node, &form)) return false;
    if (!form.scan_inputs && !form.scan_outputs) return true;
    /* How often it runs is certain where nothing else says so than constants and extents. */
    return (form.condition == PLAN_ABSENT || of->tensors[form.condition].address.space == MEMORY_CONSTANT) &&
           (form.trip_count == PLAN_ABSENT ||
            of->tensors[form.trip_count].address.space == MEMORY_CONSTANT) &&
           (form.results[0] == form.parameters[1] ||
            of->tensors[form.results[0]].address.space == MEMORY_CONSTANT);
}

/* A run can fail in this node because of what it reads, or for want of memory. */
static bool can_fail(const plan *of, const maker *makers, uint32_t number) {
    const plan_node *node = &of->nodes[number];
    const op_code code = plan_node_code(of, node);
    const unsigned flags = op_schema_of(code)->flags;
    if (node->flags & PLAN_NODE_DYNAMIC || flags & (OP_FLAG_DYNAMIC | OP_FLAG_LISTS)) return true;
    if (flags & OP_FLAG_GRAPHS) {
        if (code == OP_LOOP && !is_certain_loop(of, node)) return true;
        for (uint32_t g = 0; g < node->graph_count; g++) {
            const plan_graph *graph = &of->graphs[node->first_graph + g];
            for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++)
                if (can_fail(of, makers, (uint32_t)n)) return true;
        }
        return false;
    }
    return flags & OP_FLAG_CHECKED && !is_certain(of, node) && !was_checked(of, makers, number, code);
}

bool *plan_find_failures(const plan *of, base_arena *arena) {
    const plan_graph *main = &of->graphs[0];
    const maker *makers = find_makers(of, arena);
    bool *fails = BASE_ARRAY(arena, bool, (size_t)of->header->nodes.count);
    for (uint64_t n = main->nodes; makers && fails && n < main->nodes + main->node_count; n++)
        fails[n] = can_fail(of, makers, (uint32_t)n);
    return makers ? fails : NULL;
}

/* ---- what is written ------------------------------------------------------------------------------------- */

/* The address as it is in run t, where it is in the memory of the states. */
static bool find_state(const plan *of, plan_address address, uint64_t t, uint64_t *offset) {
    if (address.space == MEMORY_MULTIVIEW && of->multiviews[address.index].loop == plan_run_loop(of)) {
        const uint64_t within = address.offset;
        address = plan_multiview_entry(of, address.index, t);
        address.offset += within;
    }
    *offset = address.offset;
    return address.space == MEMORY_STATE;
}

/* The node makes a part of what it reads, and in run t this lies where it makes it: nothing is written. */
static bool is_there(const plan *of, const plan_node *node, uint64_t t) {
    uint64_t from, to, offset;
    return plan_kept_part(of, node, &offset) &&
           find_state(of, of->tensors[of->tensor_ids[node->inputs]].address, t, &from) &&
           find_state(of, of->tensors[of->tensor_ids[node->outputs]].address, t, &to) && from + offset == to;
}

/* In run t the tensor lies over bytes of a parameter. */
static bool is_over(const plan *of, uint32_t id, uint64_t t) {
    uint64_t at, other;
    if (!find_state(of, of->tensors[id].address, t, &at)) return false;
    for (uint64_t i = 0; i < of->header->states.count; i++) {
        const plan_tensor *state = &of->tensors[of->states[i].parameter];
        if (find_state(of, state->address, t, &other) && at < other + state->bytes &&
            other < at + of->tensors[id].bytes)
            return true;
    }
    return false;
}

/* The address may be one in the memory of the states. */
static bool leads_to_state(const plan *of, const plan_address *address) {
    if (address->space != MEMORY_MULTIVIEW) return address->space == MEMORY_STATE;
    const plan_multiview *view = &of->multiviews[address->index];
    for (uint64_t i = 0; i < (uint64_t)view->prologue_count + view->period; i++)
        if (leads_to_state(of, &of->addresses[view->first + i])) return true;
    return false;
}

/* In a loop within, where it is depends on the iteration: anywhere. */
static bool may_be_over(const plan *of, const plan_node *node, uint32_t id, uint64_t runs) {
    const plan_address *address = &of->tensors[id].address;
    if (!leads_to_state(of, address)) return false;
    if (address->space == MEMORY_MULTIVIEW && of->multiviews[address->index].loop != plan_run_loop(of))
        return true;
    for (uint64_t t = 0; t < runs; t++)
        if (is_over(of, id, t) && !is_there(of, node, t)) return true;
    return false;
}

static bool writes_over(const plan *of, uint32_t number, uint64_t runs) {
    const plan_node *node = &of->nodes[number];
    if (node->flags & PLAN_NODE_ALIAS) return false;
    for (uint64_t i = 0; i < node->output_count; i++) {
        const uint32_t id = of->tensor_ids[node->outputs + i];
        if (id != PLAN_ABSENT && may_be_over(of, node, id, runs)) return true;
    }
    for (uint32_t g = 0; g < node->graph_count; g++) {
        const plan_graph *graph = &of->graphs[node->first_graph + g];
        for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++)
            if (writes_over(of, (uint32_t)n, runs)) return true;
    }
    return false;
}

uint32_t plan_commit(const plan *of) {
    const plan_graph *main = &of->graphs[0];
    if (!of->header->states.count) return PLAN_ABSENT;
    const uint64_t runs = plan_loop_horizon(of, plan_run_loop(of), MOST_RUNS);
    for (uint64_t n = main->nodes; n < main->nodes + main->node_count; n++)
        if (writes_over(of, (uint32_t)n, runs)) return (uint32_t)n;
    return PLAN_ABSENT;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* lazy_copies.c: implements lazy_copies.h. */
#include "passes/loops/lazy_copies.h"

/* An output that the caller wants in a buffer of its own is copied there once, when a loop is left: so many iterations are worth
 * more than that. */
enum {
    FEW_TRIPS = 4,
    LEAST_LOCAL =
        4096 /* bytes of a storage that gets a buffer of its own only so that nothing is copied from or to it */
};

/* ---- where values lie ---------------------------------------------------------------------------------- */

/* The class in whose buffers a value of the body lies, all of it, as a parameter or where it is made; *shift: in the buffer with
 * this number, before iterations are counted. LOOP_NONE: in none. */
static uint32_t class_at(const loop_info *info, const ir_value *value, int64_t *shift) {
    const pass_location at = pass_memory_location(info->memory, value);
    uint32_t member = loop_member_of(info, at.storage), distance = 0;
    if (at.offset) return LOOP_NONE;
    for (uint32_t i = loop_first_at(info, at.storage); i != LOOP_NONE && member == LOOP_NONE;
         i = info->carried[i].next_at) {
        const loop_carried *c = &info->carried[i];
        if (c->kind != LOOP_ORIGIN_BODY || c->origin.offset ||
            pass_memory_location(info->memory, c->parameter).offset)
            continue;
        member = loop_member_of(info, c->origin.storage);
        distance = c->distance;
    }
    if (member == LOOP_NONE) return LOOP_NONE;
    const uint32_t class = loop_find_class(info, member, shift);
    *shift -= distance;
    return loop_bytes_of(value) && loop_bytes_of(value) == loop_class_bytes(info, class) ? class : LOOP_NONE;
}

/* The graph is the body, or a branch of it. */
static bool is_in_branches(const loop_info *info, const ir_graph *graph) {
    while (graph != info->loop.body && graph->owner && graph->owner->code == OP_IF)
        graph = graph->owner->graph;
    return graph == info->loop.body;
}

/* ---- what can be copied to lazily ------------------------------------------------------------------------ */

/* All that the node reads has a size and an address: it runs a kernel that is prepared, not one that is found in the run. */
static bool reads_planned(const loop_info *info, const ir_node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        size_t bytes;
        if (input &&
            (input->type.kind != OP_KIND_TENSOR || !op_type_bytes(&input->type, &bytes) ||
             pass_memory_storage(info->memory, pass_memory_location(info->memory, input).storage)->space ==
                 MEMORY_DYNAMIC))
            return false;
    }
    return true;
}

/* A kernel, or an If, makes the value: all of a buffer, and no second output beside it. */
static bool is_written_whole(const loop_info *info, const ir_value *value, size_t bytes) {
    if (!is_in_branches(info, value->graph) || loop_bytes_of(value) != bytes ||
        pass_memory_location(info->memory, value).offset)
        return false;
    if (value->kind == IR_PARAMETER) return value->graph == info->loop.body;
    const ir_node *node = value->node;
    if (!node || node->code == OP_LOOP) return false;
    return node->code == OP_IF ||
           (node->output_count == 1 && reads_planned(info, node) &&
            !(op_schema_of(node->code)->flags & (OP_FLAG_GRAPHS | OP_FLAG_DYNAMIC | OP_FLAG_LISTS)));
}

/* No loop begins with the value, nor hands it on as it is. */
static bool is_kept_from_loops(const loop_info *info, const ir_value *value) {
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (use->node ? use->node->code == OP_LOOP : !is_in_branches(info, use->graph)) return false;
    }
    return true;
}

static bool holds_whole_values(const loop_info *info, pass_storage_id id, size_t bytes) {
    for (ir_value_id v = pass_memory_storage(info->memory, id)->values; v.index;
         v = info->memory->siblings[v.index]) {
        const ir_value *value = info->module->values[v.index];
        if (value && (!is_written_whole(info, value, bytes) || !is_kept_from_loops(info, value)))
            return false;
    }
    return true;
}

static bool can_be_lazy(const loop_info *info, uint32_t class) {
    const size_t bytes = loop_class_bytes(info, class);
    int64_t shift;
    if (info->members[class].branch_swaps) return false;
    for (uint32_t k = 0; k < info->member_count; k++) {
        const loop_member *m = &info->members[k];
        if (loop_find_class(info, k, &shift) == class &&
            !holds_whole_values(info, (pass_storage_id){m->storage}, bytes))
            return false;
    }
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        const loop_carried *c = &info->carried[i];
        if (loop_class_of(info, c) == &info->members[class] &&
            (c->origin.offset ||
             !holds_whole_values(info, pass_memory_location(info->memory, c->parameter).storage, bytes)))
            return false;
    }
    return true;
}

/* ---- groups -------------------------------------------------------------------------------------------- */

static void join_groups(loop_info *info, uint32_t a, uint32_t b) {
    const uint32_t of_a = info->members[a].group, of_b = info->members[b].group,
                   group = of_a   ? of_a
                           : of_b ? of_b
                                  : ++info->memory->group_count;
    for (uint32_t k = 0; k < info->member_count; k++) {
        loop_member *m = &info->members[k];
        if (k != a && k != b && (!m->group || (m->group != of_a && m->group != of_b))) continue;
        m->group = group;
        m->lazy = true;
        m->swapped_in = info->loop.node;
    }
}

/* The copy brings a value from one buffer to another one, and both can be of one lazy group. */
static bool find_copy(const loop_info *info, const ir_node *copy, uint32_t *from, uint32_t *to) {
    int64_t of_from, of_to;
    *from = *to = LOOP_NONE;
    if (copy->code != OP_COPY || info->memory->executions[copy->id.index] != PASS_RUN ||
        info->memory->swapped[copy->outputs[0]->id.index])
        return false;
    *from = class_at(info, ir_input(copy, 0), &of_from);
    *to = class_at(info, copy->outputs[0], &of_to);
    if (*from == LOOP_NONE || *to == LOOP_NONE ||
        loop_class_bytes(info, *from) != loop_class_bytes(info, *to))
        return false;
    return *from != *to || (of_from - of_to) % info->members[*to].period != 0;
}

/* Calls `visit` for each node of the body's branches. */
static void visit_branches(loop_info *info, const ir_graph *graph,
                           void (*visit)(loop_info *info, const ir_node *node)) {
    for (const ir_node *node = graph->first; node; node = node->next) {
        if (graph != info->loop.body) visit(info, node);
        for (uint32_t g = 0; node->code == OP_IF && g < node->graph_count; g++)
            visit_branches(info, node->graphs[g], visit);
    }
}

/* What is no carried value can be in a buffer of the group, too: a candidate that is taken or not, what an If has chosen. It lies alone in a
 * storage of the body, and only nodes read it. */
static bool is_local(const loop_info *info, const ir_value *value, size_t bytes) {
    const pass_location at = pass_memory_location(info->memory, value);
    const pass_storage *storage = pass_memory_storage(info->memory, at.storage);
    if (at.offset || storage->bytes != bytes || bytes < LEAST_LOCAL || loop_bytes_of(value) != bytes ||
        storage->space != MEMORY_ARENA || storage->graph != info->loop.body || storage->carried_by ||
        storage->swapped || storage->swap_view || storage->buffer_of || storage->scratch_of)
        return false;
    for (ir_value_id v = storage->values; v.index; v = info->memory->siblings[v.index]) {
        const ir_value *other = info->module->values[v.index];
        if (other && other->kind != IR_RESULT_OF_NODE) return false;
        for (const ir_use *use = other ? other->uses : NULL; use; use = use->next)
            if (!use->node && use->graph == info->loop.body) return false; /* stacked, or the condition */
    }
    for (size_t v = 1; v < info->memory->multiview_count; v++)
        if (loop_view_reaches(info->memory, &info->memory->multiviews[v], at.storage)) return false;
    return holds_whole_values(info, at.storage, bytes);
}

/* The loop would leave a value of the class in the caller's buffer, which is then no longer one of the class's: a piece more in the arena. */
static bool is_left_to_caller(const loop_info *info, uint32_t class) {
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        const loop_carried *c = &info->carried[i];
        if (c->output && loop_class_of(info, c) == &info->members[class] &&
            pass_memory_storage(info->memory, pass_memory_location(info->memory, c->output).storage)->space ==
                MEMORY_OUTPUT)
            return true;
    }
    return false;
}

/* A class of its own, with one buffer. */
static uint32_t add_local(loop_info *info, const ir_value *value) {
    const uint32_t index = loop_add_member(info, pass_memory_location(info->memory, value).storage);
    info->members[index].period = 1;
    return index;
}

static void join_copied(loop_info *info, const ir_node *node) {
    uint32_t from, to;
    if (find_copy(info, node, &from, &to)) {
        if (can_be_lazy(info, from) && can_be_lazy(info, to)) join_groups(info, from, to);
        return;
    }
    /* From a buffer of a class, or to one, where the other side is a storage of the body. */
    const uint32_t known = from != LOOP_NONE ? from : to;
    if (known == LOOP_NONE || (from != LOOP_NONE && to != LOOP_NONE) || !can_be_lazy(info, known) ||
        (!info->members[known].lazy && is_left_to_caller(info, known)))
        return;
    const ir_value *local = from == LOOP_NONE ? ir_input(node, 0) : node->outputs[0];
    if (!is_local(info, local, loop_class_bytes(info, known))) return;
    join_groups(info, known, add_local(info, local));
}

/* All copies within a group are lazy, also those from a buffer to itself: these do nothing. */
static void mark_copy(loop_info *info, const ir_node *node) {
    int64_t shift;
    if (node->code != OP_COPY || info->memory->executions[node->id.index] != PASS_RUN) return;
    const uint32_t from = class_at(info, ir_input(node, 0), &shift),
                   to = class_at(info, node->outputs[0], &shift);
    if (from != LOOP_NONE && to != LOOP_NONE && info->members[to].lazy &&
        info->members[from].group == info->members[to].group)
        info->memory->swapped[node->outputs[0]->id.index] = true;
}

void loop_find_lazy_copies(loop_info *info) {
    const int64_t trips = ir_loop_trips(&info->loop);
    if (info->loop.runs || (trips >= 0 && trips < FEW_TRIPS)) return;
    for (uint32_t before = LOOP_NONE;
         before != info->member_count;) { /* what is in a group now may be copied on */
        before = info->member_count;
        visit_branches(info, info->loop.body, join_copied);
    }
    visit_branches(info, info->loop.body, mark_copy);
}

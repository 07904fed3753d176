/* SPDX-License-Identifier: Apache-2.0 */
/* windows.c: implements windows.h. */
#include "passes/loops/windows.h"
#include "passes/base/range.h"

/* A table of a window has at most so many addresses for each iteration that --max-unroll allows a value to be kept: 64, where it
 * says nothing. And so many iterations the verifier may have to replay. */
enum { TURNS = 4, MOST_ITERATIONS = 1024 };

/* ---- the node that keeps the rest of the window ---------------------------------------------------------- */

/* The parameter, or a part of it, as bytes [from, from + bytes) of the storage in which the parameter lies, put at the begin
 * of storage `made` by a node that only copies. */
static bool keeps_rest(const loop_info *info, const ir_node *node, pass_storage_id parameter,
                       pass_storage_id made, size_t *from, size_t *bytes) {
    op_range part;
    if ((node->code != OP_SLICE && node->code != OP_COPY) || node->graph != info->loop.body ||
        info->memory->executions[node->id.index] != PASS_RUN || !node->outputs[0] || !ir_input(node, 0))
        return false;
    const pass_location at = pass_memory_location(info->memory, ir_input(node, 0)),
                        to = pass_memory_location(info->memory, node->outputs[0]);
    if (at.storage.index != parameter.index || to.storage.index != made.index || to.offset) return false;
    if (node->code == OP_COPY) part = (op_range){0, loop_bytes_of(node->outputs[0])};
    else if (!pass_range_of_slice(node, &part)) return false;
    *from = at.offset + part.offset;
    *bytes = part.bytes;
    return part.bytes == loop_bytes_of(node->outputs[0]);
}

/* The node puts new elements among those that were kept (flatten_windows.c), in place, when nobody wants the old window any more:
 * where they go, that has its next row's oldest. */
static bool puts_among(const loop_info *info, const ir_node *node, const loop_member *member) {
    if (node->code != OP_SCATTER_ND || node->graph != info->loop.body || !node->outputs[0]) return false;
    const pass_location from = pass_memory_location(info->memory, ir_input(node, 0)),
                        to = pass_memory_location(info->memory, node->outputs[0]);
    return loop_same_location(from, to) && member->last < info->half + 2 * info->numbers[node->id.index];
}

/* Nobody but `keeper` makes anything in the first `bytes` bytes of the member's storage, but in place, after it. */
static bool makes_alone(const loop_info *info, const loop_member *member, const ir_node *keeper,
                        size_t bytes) {
    const pass_storage *storage = &info->memory->storages[member->storage];
    for (ir_value_id v = storage->values; v.index; v = info->memory->siblings[v.index]) {
        const ir_value *value = info->module->values[v.index];
        if (!value || value->node == keeper) continue;
        if (!value->node) return false;
        if (info->memory->executions[value->node->id.index] == PASS_RUN &&
            pass_memory_location(info->memory, value).offset < bytes &&
            !puts_among(info, value->node, member))
            return false;
    }
    return true;
}

/* The one parameter whose value is made in this storage, in the iteration before; NULL where there are others. */
static const loop_carried *only_parameter(const loop_info *info, pass_storage_id id) {
    const uint32_t first = loop_first_made(info, id);
    if (first == LOOP_NONE || info->carried[first].next_made != LOOP_NONE ||
        info->carried[first].kind != LOOP_ORIGIN_BODY || info->carried[first].distance != 1)
        return NULL;
    return &info->carried[first];
}

/* How far the window of this member moves in an iteration; 0: it is none. */
static size_t find_step(const loop_info *info, const loop_member *member) {
    const pass_storage_id made = {member->storage};
    const loop_carried *c = only_parameter(info, made);
    size_t from, bytes;
    /* The instance before the last one may be written over at the end of the buffer. */
    if (!c || member->last >= 2 * info->half) return 0;
    const pass_location parameter = pass_memory_location(info->memory, c->parameter);
    if (parameter.offset) return 0;
    for (ir_node **at = info->memory->order.nodes[info->loop.body->id.index]; *at; at++) {
        if (!keeps_rest(info, *at, parameter.storage, made, &from, &bytes)) continue;
        const size_t step = c->origin.offset + from;
        const bool fills = bytes && step + bytes == pass_memory_storage(info->memory, made)->bytes;
        return fills && makes_alone(info, member, *at, bytes) ? step : 0;
    }
    return 0;
}

/* ---- how long its buffer is ------------------------------------------------------------------------------ */

/* After how many iterations the addresses of all other classes and circles come round; more than MOST_ITERATIONS: too many. */
static uint64_t other_periods(const loop_info *info, const loop_member *window) {
    uint64_t all = 1;
    for (uint32_t i = 0; i < info->loop.carried && all <= MOST_ITERATIONS; i++) {
        const loop_carried *c = &info->carried[i];
        const loop_member *class = loop_class_of(info, c);
        if (c->kind == LOOP_ORIGIN_CYCLE) all = base_lcm(all, c->cycle);
        else if (class && class != window) all = base_lcm(all, class->period);
    }
    return all;
}

/* Runs are replayed until all states have come round: powers of two do so together. */
static uint32_t least_turn(const loop_info *info, size_t bytes, size_t step) {
    const size_t least = (bytes + step - 1) / step + 1;
    size_t turn = 1;
    if (least > MOST_ITERATIONS) return MOST_ITERATIONS;
    while (turn < least) turn *= 2;
    return (uint32_t)(info->loop.runs ? turn : least);
}

static void choose_turn(const loop_info *info, loop_member *class, size_t bytes, size_t step) {
    const uint32_t given = pass_unroll_limit(info->context->options),
                   most = given < MOST_ITERATIONS / TURNS ? TURNS * given : MOST_ITERATIONS;
    uint32_t turn = least_turn(info, bytes, step), period = turn;
    if (turn > most) { /* through two buffers, alternately */
        for (turn = 1; turn <= most / 4;) turn *= 2;
        period = 2 * turn;
    }
    if (turn < 2 || base_lcm(other_periods(info, class), period) > MOST_ITERATIONS / 2) return;
    class->step = step;
    class->turn = turn;
    class->period = period;
}

void loop_find_windows(loop_info *info) {
    for (uint32_t c = 0; c < info->member_count; c++) {
        loop_member *class = &info->members[c];
        if (class->class != c || class->next != c || class->in_place || class->swapped_in ||
            class->branch_swaps || class->modulus)
            continue;
        const size_t step = find_step(info, class);
        if (step) choose_turn(info, class, loop_class_bytes(info, c), step);
    }
}

bool loop_make_window(loop_info *info, loop_member *class, size_t bytes, ir_value *value) {
    const size_t length = bytes + (class->turn - 1) * class->step, halves = class->period / class->turn;
    pass_storage whole = {.space = MEMORY_ARENA,
                          .graph = info->loop.node->graph,
                          .value = value,
                          .bytes = halves * length,
                          .last_made = -1,
                          .carried_by = info->loop.node};
    const pass_storage_id buffer = pass_memory_add(info->memory, &whole);
    if (!buffer.index) return false;
    whole.bytes = bytes;
    for (uint32_t i = 0; i < class->period; i++) {
        class->buffers[i] = pass_memory_add(info->memory, &whole);
        if (!class->buffers[i].index) return false;
        pass_memory_join(info->memory, buffer, class->buffers[i],
                         i / class->turn * length + i % class->turn * class->step);
    }
    return true;
}

/* ---- before anything has an address ---------------------------------------------------------------------- */

/* The value, or what it is a Slice of, a Reshape, or a Scatter into. */
static const ir_value *whole_of(const ir_value *value) {
    while (value && value->node &&
           (value->node->code == OP_SLICE || value->node->code == OP_RESHAPE ||
            value->node->code == OP_SCATTER_ND))
        value = ir_input(value->node, 0);
    return value;
}

bool loop_may_be_window(const ir_node *concat) {
    ir_loop loop;
    const ir_value *kept = whole_of(ir_input(concat, 0));
    if (concat->input_count < 2 || !kept || !ir_loop_around(concat->graph, &loop)) return false;
    for (uint32_t i = 0; i < loop.carried; i++) {
        const ir_loop_carried c = ir_loop_carry(&loop, i);
        if (c.parameter == kept && whole_of(c.replacement) == concat->outputs[0]) return true;
    }
    return false;
}

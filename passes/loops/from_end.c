/* SPDX-License-Identifier: Apache-2.0 */
/* from_end.c: implements from_end.h. */
#include "passes/loops/from_end.h"

/* The loop is verified once for each rest that the number of iterations can have, by the periods: so many iterations of so many
 * values and steps at most. */
enum { MOST_ITERATIONS = 1024, MOST_WORK = 1 << 18 };

/* How often the loop runs is known when it begins, and not before. */
static bool is_known_late(const loop_info *info) {
    return ir_loop_is_counted(&info->loop) && ir_loop_trips(&info->loop) < 0 &&
           (ir_input(info->loop.node, 0) || info->loop.scanned);
}

/* Buffers of this loop take part in swaps: where they are at the end depends on more than the number of iterations. */
static bool has_swaps(const loop_info *info) {
    bool found = info->swaps;
    for (uint32_t i = 0; i < info->loop.carried && !found; i++) {
        const pass_location at = pass_memory_location(info->memory, info->carried[i].parameter);
        const loop_member *class = loop_class_of(info, &info->carried[i]);
        found = pass_memory_storage(info->memory, at.storage)->swapped || info->carried[i].swapped_in ||
                (class && (class->swapped_in || class->branch_swaps));
    }
    return found;
}

/* The caller wants the output in a buffer of its own, as large as those of the class. */
static bool is_wanted_by_caller(const loop_info *info, const loop_carried *c, size_t bytes) {
    if (!c->output || c->origin.offset) return false;
    const pass_location at = pass_memory_location(info->memory, c->output);
    const pass_storage *storage = pass_memory_storage(info->memory, at.storage);
    return storage->space == MEMORY_OUTPUT && at.offset == 0 && storage->bytes == bytes &&
           loop_bytes_of(c->output) == bytes && storage->graph == info->loop.node->graph;
}

/* Another output before this one is made in the same buffer. */
static bool is_second(const loop_info *info, uint32_t index, size_t bytes) {
    const loop_carried *c = &info->carried[index];
    for (uint32_t k = loop_first_made(info, c->origin.storage); k < index; k = info->carried[k].next_made)
        if (loop_are_congruent(c, &info->carried[k]) && is_wanted_by_caller(info, &info->carried[k], bytes))
            return true;
    return false;
}

/* After how many iterations all addresses come round; more than MOST_ITERATIONS: too many. */
static uint64_t all_periods(const loop_info *info) {
    uint64_t all = 1;
    for (uint32_t i = 0; i < info->loop.carried && all <= MOST_ITERATIONS; i++) {
        const loop_carried *c = &info->carried[i];
        const loop_member *class = loop_class_of(info, c);
        if (c->kind == LOOP_ORIGIN_CYCLE) all = base_lcm(all, c->cycle);
        else if (class) all = base_lcm(all, class->period);
    }
    return all;
}

/* For so many rests the work of the verifier is bearable. */
static bool is_bearable(const loop_info *info, uint64_t rests, uint64_t periods) {
    const uint64_t things = (uint64_t)info->loop.carried + (uint64_t)info->steps,
                   iterations = rests * 2 * periods;
    return periods <= MOST_ITERATIONS && iterations <= MOST_ITERATIONS && iterations * things <= MOST_WORK;
}

/* What counting from the end saves and costs a class. */
typedef struct balance {
    uint32_t saved;   /* outputs that need not be copied: their buffers are the caller's */
    uint32_t initial; /* initial values that are no longer made in a buffer of the class */
} balance;

void loop_count_from_end(loop_info *info) {
    uint64_t rests = 1, periods;
    if (!info->member_count || !is_known_late(info) || has_swaps(info)) return;
    periods = all_periods(info);
    balance *of = BASE_ARRAY(info->arena, balance, info->member_count);
    if (!of) {
        info->out_of_memory = true;
        return;
    }
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        const loop_carried *c = &info->carried[i];
        const loop_member *class = loop_class_of(info, c);
        if (!class) continue;
        const size_t bytes = loop_class_bytes(info, class->class);
        if (is_wanted_by_caller(info, c, bytes) && !is_second(info, i, bytes)) of[class->class].saved++;
        if (loop_may_take_over(info, c->initial)) of[class->class].initial++;
    }
    for (uint32_t k = 0; k < info->member_count; k++) {
        loop_member *class = &info->members[k];
        if (class->class != k || class->step || class->period < 2 || !of[k].saved ||
            of[k].initial > of[k].saved)
            continue;
        const uint64_t all = base_lcm(rests, class->period);
        if (!is_bearable(info, all, periods)) continue;
        class->from_end = true;
        rests = all;
    }
}

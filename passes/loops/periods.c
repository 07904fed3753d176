/* SPDX-License-Identifier: Apache-2.0 */
/* periods.c: implements periods.h. */
#include "passes/loops/periods.h"
#include "passes/loops/commit.h"
#include <stdlib.h>

enum { LONGEST_PERIOD = 4096, MUCH_REPLAYED = 1 << 14 /* carried values, times iterations */ };

/* ---- origins ------------------------------------------------------------------------------------------- */

static void find_next(loop_info *info) {
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        loop_carried *c = &info->carried[i];
        if (c->kind == LOOP_ORIGIN_COPY) continue;
        const pass_location at = pass_memory_location(info->memory, c->replacement);
        uint32_t k = loop_first_at(info, at.storage);
        for (; k != LOOP_NONE && c->next == LOOP_NONE; k = info->carried[k].next_at) {
            const ir_value *parameter = info->carried[k].parameter;
            if (info->carried[k].kind != LOOP_ORIGIN_COPY &&
                loop_same_location(at, pass_memory_location(info->memory, parameter)) &&
                loop_bytes_of(parameter) == loop_bytes_of(c->replacement))
                c->next = k;
        }
    }
}

/* A parameter that no other one replaces. */
static void end_chain(loop_info *info, loop_carried *c) {
    c->distance = 1;
    c->origin = pass_memory_location(info->memory, c->replacement);
    const pass_storage *storage = pass_memory_storage(info->memory, c->origin.storage);
    c->kind = storage->graph == info->loop.body && storage->space == MEMORY_ARENA ? LOOP_ORIGIN_BODY
                                                                                  : LOOP_ORIGIN_OUTSIDE;
}

/* The parameters from `at` on replace each other, in a circle. */
static void close_cycle(loop_info *info, uint32_t at) {
    uint32_t length = 1, k = at;
    while ((k = info->carried[k].next) != at) length++;
    for (uint32_t hops = 0; hops < length; hops++, k = info->carried[k].next) {
        info->carried[k].kind = LOOP_ORIGIN_CYCLE;
        info->carried[k].cycle = length;
        info->carried[k].distance = 0;
    }
}

/* Origins of all parameters: each way is walked once, to what is known, and back. */
static bool find_origins(loop_info *info) {
    enum { UNSEEN, ON_PATH, KNOWN };
    uint8_t *seen = BASE_ARRAY(info->arena, uint8_t, info->loop.carried);
    uint32_t *path = BASE_ARRAY(info->arena, uint32_t, info->loop.carried);
    if (!seen || !path) return false;
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        uint32_t at = i, length = 0;
        if (info->carried[i].kind == LOOP_ORIGIN_COPY) continue;
        while (at != LOOP_NONE && seen[at] == UNSEEN) {
            seen[at] = ON_PATH;
            path[length++] = at;
            at = info->carried[at].next;
        }
        if (at != LOOP_NONE && seen[at] == ON_PATH) {
            close_cycle(info, at);
            uint32_t first = length;
            while (path[first - 1] != at) seen[path[--first]] = KNOWN;
            seen[at] = KNOWN;
            length = first - 1;
        }
        while (length-- > 0) {
            loop_carried *c = &info->carried[path[length]];
            seen[path[length]] = KNOWN;
            if (c->next == LOOP_NONE) {
                end_chain(info, c);
                continue;
            }
            const loop_carried *next = &info->carried[c->next];
            c->distance = next->distance + 1;
            c->kind = next->kind;
            c->cycle = next->cycle;
            c->origin = next->origin;
        }
    }
    for (uint32_t i = info->loop.carried; i-- > 0;) {
        loop_carried *c = &info->carried[i];
        c->next_made = LOOP_NONE;
        if (c->kind == LOOP_ORIGIN_BODY) c->next_made = loop_index_put(&info->made, c->origin.storage, i);
    }
    return true;
}

/* Parameters that hold what storage `id` held look for it among the slices. */
static void look_among_slices(loop_info *info, pass_storage_id id, pass_location base, int64_t stride) {
    for (uint32_t i = loop_first_made(info, id); i != LOOP_NONE; i = info->carried[i].next_made) {
        loop_carried *c = &info->carried[i];
        if (c->kind != LOOP_ORIGIN_BODY) continue;
        c->kind = LOOP_ORIGIN_STACK;
        c->origin = (pass_location){base.storage, base.offset + c->origin.offset};
        c->stride = stride;
    }
}

/* What is scanned or stacked has a place of its own in every iteration; parameters that hold it look there. */
static void find_stacks(loop_info *info) {
    pass_location base;
    int64_t stride;
    for (uint32_t k = 0; k < info->loop.scanned; k++) {
        const ir_value *slice = ir_loop_scan(&info->loop, k).slice;
        if (loop_slice_of(info, k, &base, &stride))
            look_among_slices(info, pass_memory_location(info->memory, slice).storage, base, stride);
    }
    for (uint32_t k = 0; k < info->loop.stacked; k++) {
        const ir_value *slice = ir_loop_stack(&info->loop, k).slice;
        if (loop_stack_of(info, k, &base, &stride))
            look_among_slices(info, pass_memory_location(info->memory, slice).storage, base, stride);
    }
}

/* ---- members and their lives --------------------------------------------------------------------------- */

/* Readers in later iterations: through every parameter that holds what was made here. */
static void extend_lives(loop_info *info) {
    const int64_t failure = loop_last_failure(info);
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        const loop_carried *c = &info->carried[i];
        if (c->kind != LOOP_ORIGIN_BODY) continue;
        loop_member *m = &info->members[loop_member_of(info, c->origin.storage)];
        int64_t first, last, base = (int64_t)c->distance * info->half;
        loop_touched(info, pass_memory_location(info->memory, c->parameter).storage, &first, &last);
        /* A parameter touches step 0 by being there; only readers count. */
        bool read = false;
        for (ir_value_id v =
                 pass_memory_storage(info->memory, pass_memory_location(info->memory, c->parameter).storage)
                     ->values;
             v.index; v = info->memory->siblings[v.index]) {
            const ir_value *value = info->module->values[v.index];
            for (const ir_use *use = value ? value->uses : NULL; use; use = use->next)
                read |= loop_read_at(info, use) >= 0;
        }
        /* At the boundary it must be there, read or not: it is handed on, or out. */
        if (m->last < base - 1) m->last = base - 1;
        if (read && base + last > m->last) m->last = base + last;
        /* A run that fails is run again, with the states as they are. */
        if (failure >= 0 && base + failure > m->last) m->last = base + failure;
    }
}

/* ---- classes: storages that share buffers in place ----------------------------------------------------- */

/* Instance t of x and instance t + distance of y are the same bytes one after the other, in place. */
static bool handed_on(const loop_info *info, uint32_t x, uint32_t y, int64_t distance) {
    const loop_member *m = &info->members[y];
    return m->in_place && m->over == x && m->over_distance == distance;
}

/* When one instance of a member is in buffer 0 of its class: half steps, on a circle of as many iterations as the class has
 * buffers, and once more one circle later. */
typedef struct stay {
    int64_t begin, end, instance;
    uint32_t member;
} stay;

static int compare_stays(const void *left, const void *right) {
    const stay *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return a->member < b->member ? -1 : a->member > b->member;
}

/* The two may follow each other in one buffer. */
static bool stays_fit(const loop_info *info, const stay *a, const stay *b) {
    if (b->begin > a->end) return true;
    if (b->begin == a->end && handed_on(info, a->member, b->member, b->instance - a->instance)) return true;
    return b->end == a->begin && handed_on(info, b->member, a->member, a->instance - b->instance);
}

/* No two instances that lie in one buffer of the class are live together, with this period. `stays` holds twice the
 * `count` members of the class. */
static bool period_fits(const loop_info *info, uint32_t class, int64_t period, stay *stays, size_t count) {
    const int64_t around = period * info->half;
    uint32_t member = class;
    for (size_t i = 0; i < count; i++, member = info->members[member].next) {
        const loop_member *m = &info->members[member];
        int64_t shift;
        (void)loop_find_class(info, member, &shift);
        if (m->last - m->first > around) return false;
        const int64_t instance = (-shift % period + period) % period;
        stays[i] =
            (stay){instance * info->half + m->first, instance * info->half + m->last, instance, member};
    }
    qsort(stays, count, sizeof *stays, compare_stays);
    for (size_t i = 0; i < count; i++) {
        const stay *s = &stays[i];
        stays[count + i] = (stay){s->begin + around, s->end + around, s->instance + period, s->member};
    }
    for (size_t i = 0; i < count;
         i++) { /* those that begin before this one has ended, up to itself one circle later */
        for (size_t k = i + 1; k <= i + count && stays[k].begin <= stays[i].end; k++)
            if (!stays_fit(info, &stays[i], &stays[k])) return false;
    }
    return true;
}

/* The least period up to `most` that fits, or 0; also when memory runs out. */
static int64_t find_period(loop_info *info, uint32_t class, int64_t most) {
    const int64_t modulus = info->members[class].modulus;
    size_t count = 1;
    for (uint32_t k = info->members[class].next; k != class; k = info->members[k].next) count++;
    stay few[2], *stays = count == 1 ? few : BASE_ARRAY(info->arena, stay, 2 * count);
    if (!stays) {
        info->out_of_memory = true;
        return 0;
    }
    for (int64_t period = 1; period <= most && (!modulus || period <= modulus); period++) {
        if (modulus && modulus % period) continue;
        if (period_fits(info, class, period, stays, count)) return period;
    }
    return 0;
}

/* Joins the class of `of` to that of `over`: instance t of the one lies where instance t - distance of the other
 * did. */
static void join_classes(loop_info *info, uint32_t of, uint32_t over, int64_t distance) {
    int64_t shift_of, shift_over;
    uint32_t from = loop_find_class(info, of, &shift_of), to = loop_find_class(info, over, &shift_over);
    int64_t shift = shift_over - distance - shift_of; /* of the one representative relative to the other */
    if (from == to) {
        info->members[to].modulus =
            (int64_t)base_gcd((uint64_t)info->members[to].modulus, (uint64_t)llabs(shift));
        return;
    }
    info->members[to].modulus =
        (int64_t)base_gcd((uint64_t)info->members[to].modulus, (uint64_t)info->members[from].modulus);
    info->members[from].class = to;
    info->members[from].shift = shift;
    const uint32_t next = info->members[from].next; /* two rings become one */
    info->members[from].next = info->members[to].next;
    info->members[to].next = next;
}

/* In the step of the node that makes `user`, the value is read by this node alone, where it may write over what it reads. */
static bool reads_in_place(const loop_info *info, const ir_value *value, void *user) {
    const ir_value *made = user;
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (loop_use_step(info, use) != info->numbers[made->node->id.index]) continue;
        if (use->node != made->node || !pass_may_write_over(made->node, made->index, use->index))
            return false;
    }
    return true;
}

/* The node that makes the value reads the parameter's bytes exactly, as this input, and nothing else reads them in its step; but what
 * an inner loop leaves may be these very bytes. */
static bool reads_only(const loop_info *info, const ir_value *made, uint32_t input, pass_storage_id storage) {
    const ir_node *node = made->node;
    for (ir_value_id v = pass_memory_storage(info->memory, storage)->values; v.index;
         v = info->memory->siblings[v.index]) {
        const ir_value *value = info->module->values[v.index];
        for (const ir_use *use = value ? value->uses : NULL; use; use = use->next) {
            if (loop_use_step(info, use) != info->numbers[node->id.index]) continue;
            if (use->node != node || value != ir_input(node, input) ||
                !pass_may_write_over(node, made->index, use->index))
                return false;
        }
    }
    return loop_visit_left(info, info->loop.body, storage, reads_in_place, (void *)(uintptr_t)made);
}

/* Another parameter holds the same instance, and the node reads it. */
static bool reads_congruent(const loop_info *info, const ir_node *node, uint32_t index) {
    const loop_carried *c = &info->carried[index];
    for (uint32_t k = loop_first_made(info, c->origin.storage); k != LOOP_NONE;
         k = info->carried[k].next_made) {
        const loop_carried *other = &info->carried[k];
        if (!loop_are_congruent(c, other)) continue;
        pass_storage_id storage = pass_memory_location(info->memory, other->parameter).storage;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const ir_value *input = ir_input(node, i);
            if (input && pass_memory_location(info->memory, input).storage.index == storage.index)
                return true;
        }
    }
    return false;
}

/* Member `of`, which the node makes, lies over carried parameter `index` from now on, if a period fits. */
static bool join_on_trial(loop_info *info, uint32_t of, const ir_node *node, uint32_t index) {
    const loop_carried *c = &info->carried[index];
    loop_member *m = &info->members[of];
    const uint32_t over = loop_member_of(info, c->origin.storage);
    int64_t shift;
    const uint32_t from = loop_find_class(info, of, &shift), to = loop_find_class(info, over, &shift);
    const loop_member saved = *m, saved_from = info->members[from], saved_to = info->members[to];
    m->in_place = (ir_node *)node;
    m->over = over;
    m->over_distance = c->distance;
    join_classes(info, of, over, c->distance);
    const int64_t period = find_period(info, to, pass_unroll_limit(info->context->options));
    if (period) return true;
    *m = saved;
    info->members[from] = saved_from;
    info->members[to] = saved_to;
    return false;
}

/* Tries to make the storage of member `of`, which begins with `made`, over input `input` of the node that makes it. */
static bool try_in_place(loop_info *info, uint32_t of, const ir_value *made, uint32_t input) {
    loop_member *m = &info->members[of];
    const ir_node *node = made->node;
    const ir_value *read = ir_input(node, input);
    if (!read || read->graph != info->loop.body) return false;
    pass_location from = pass_memory_location(info->memory, read),
                  to = pass_memory_location(info->memory, made);
    if (to.storage.index != m->storage || to.offset || from.offset) return false;
    size_t bytes = loop_bytes_of(made);
    if (bytes != pass_memory_storage(info->memory, to.storage)->bytes || bytes != loop_bytes_of(read))
        return false;
    for (uint32_t i = loop_first_at(info, from.storage); i != LOOP_NONE; i = info->carried[i].next_at) {
        const loop_carried *c = &info->carried[i];
        if (c->kind != LOOP_ORIGIN_BODY ||
            !loop_same_location(from, pass_memory_location(info->memory, c->parameter)))
            continue;
        uint32_t over = loop_member_of(info, c->origin.storage);
        const loop_member *old = &info->members[over];
        if (c->origin.offset || pass_memory_storage(info->memory, c->origin.storage)->bytes != bytes)
            return false;
        if (old->last != (int64_t)c->distance * info->half + m->first ||
            !reads_only(info, made, input, from.storage) || reads_congruent(info, node, i)) {
            return false;
        }
        return join_on_trial(info, of, node, i);
    }
    return false;
}

/* In the step of the branch node that makes `made`, nothing outside of its branches reads the parameter, nor what inner loops left of it. */
static bool only_branches_read(const loop_info *info, const ir_value *made, pass_storage_id storage) {
    for (ir_value_id v = pass_memory_storage(info->memory, storage)->values; v.index;
         v = info->memory->siblings[v.index]) {
        const ir_value *value = info->module->values[v.index];
        for (const ir_use *use = value ? value->uses : NULL; use; use = use->next)
            if (use->node == made->node) return false;
    }
    return loop_visit_left(info, info->loop.body, storage, reads_in_place, (void *)(uintptr_t)made);
}

/* Tries to make an output of a branch node over a parameter that dies there. */
static bool try_branches(loop_info *info, const ir_node *branch, const ir_value *made) {
    pass_location to = pass_memory_location(info->memory, made);
    uint32_t of = loop_member_of(info, to.storage);
    const size_t bytes = loop_bytes_of(made);
    if (of == LOOP_NONE || to.offset || bytes != pass_memory_storage(info->memory, to.storage)->bytes)
        return false;
    const loop_member *m = &info->members[of];
    if (m->in_place || m->first != 2 * info->numbers[branch->id.index]) return false;
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        const loop_carried *c = &info->carried[i];
        if (c->kind != LOOP_ORIGIN_BODY || c->origin.offset || loop_bytes_of(c->parameter) != bytes) continue;
        pass_location from = pass_memory_location(info->memory, c->parameter);
        const loop_member *old = &info->members[loop_member_of(info, c->origin.storage)];
        bool congruent = false;
        for (uint32_t k = loop_first_made(info, c->origin.storage); k != LOOP_NONE;
             k = info->carried[k].next_made)
            congruent |= loop_are_congruent(c, &info->carried[k]);
        if (congruent || from.offset ||
            pass_memory_storage(info->memory, c->origin.storage)->bytes != bytes ||
            old->last != (int64_t)c->distance * info->half + m->first ||
            !only_branches_read(info, made, from.storage) ||
            !loop_branches_in_place(info, branch, to.storage, from.storage))
            continue;
        if (join_on_trial(info, of, branch, i)) return true;
    }
    return false;
}

/* Makes the value over a parameter that its node reads, where it may. */
static void make_over_parameter(loop_info *info, const ir_value *made) {
    const ir_node *node = made->node;
    uint32_t of = loop_member_of(info, pass_memory_location(info->memory, made).storage);
    if (of == LOOP_NONE || info->members[of].in_place ||
        info->members[of].first != 2 * info->numbers[node->id.index])
        return;
    for (uint32_t i = node->input_count; i-- > 0;) {
        if (pass_may_write_over(node, made->index, i) && try_in_place(info, of, made, i)) return;
    }
}

/* Over all iterations: what is made over a parameter. (choose_in_place.c decides within one iteration.) */
static void make_over_parameters(loop_info *info) {
    for (ir_node **at = info->memory->order.nodes[info->loop.body->id.index]; *at; at++) {
        const ir_node *node = *at;
        for (uint32_t i = 0; node->code == OP_IF && i < node->output_count; i++)
            if (node->outputs[i]) (void)try_branches(info, node, node->outputs[i]);
        if (info->memory->executions[node->id.index] != PASS_RUN) continue;
        for (uint32_t k = 0; k < node->output_count; k++)
            if (node->outputs[k]) make_over_parameter(info, node->outputs[k]);
    }
}

/* ---- periods that come round together -------------------------------------------------------------------- */

/* After how many iterations all classes come round; more than LONGEST_PERIOD: too many. */
static uint64_t common_period(const loop_info *info) {
    uint64_t all = 1;
    for (uint32_t c = 0; c < info->member_count && all <= LONGEST_PERIOD; c++) {
        if (info->members[c].class == c) all = base_lcm(all, info->members[c].period);
    }
    return all;
}

/* The least period of the class from its own on that divides `all`, and fits; its own where there is none. */
static int64_t find_dividing(loop_info *info, uint32_t class, int64_t all, stay *stays) {
    const loop_member *m = &info->members[class];
    size_t count = 1;
    for (uint32_t k = m->next; k != class; k = info->members[k].next) count++;
    for (int64_t period = m->period; period <= all; period++)
        if (all % period == 0 && (!m->modulus || m->modulus % period == 0) &&
            period_fits(info, class, period, stays, count))
            return period;
    return m->period;
}

/* The verifier replays a loop until all of its tables come round together. Where that is much work, for there are many values,
 * some get a few buffers more, so that the periods divide the longest one. It may cost a hundredth of all buffers. */
static void let_periods_divide(loop_info *info) {
    int64_t longest = 1;
    size_t bytes = 0, more = 0;
    if (common_period(info) * info->loop.carried <= MUCH_REPLAYED) return;
    stay *stays = BASE_ARRAY(info->arena, stay, 2 * (size_t)info->member_count);
    int64_t *dividing = BASE_ARRAY(info->arena, int64_t, info->member_count);
    if (!stays || !dividing) {
        info->out_of_memory = true;
        return;
    }
    for (uint32_t c = 0; c < info->member_count; c++)
        if (info->members[c].class == c && info->members[c].period > longest)
            longest = info->members[c].period;
    for (uint32_t c = 0; c < info->member_count; c++) {
        const loop_member *m = &info->members[c];
        if (m->class != c) continue;
        dividing[c] = longest % m->period ? find_dividing(info, c, longest, stays) : m->period;
        bytes += (size_t)m->period * loop_class_bytes(info, c);
        more += (size_t)(dividing[c] - m->period) * loop_class_bytes(info, c);
    }
    for (uint32_t c = 0; c < info->member_count && more <= bytes / 100; c++)
        if (info->members[c].class == c) info->members[c].period = (uint32_t)dividing[c];
}

/* ---- one loop ------------------------------------------------------------------------------------------ */

bool loop_find_periods(loop_info *info) {
    find_next(info);
    if (!find_origins(info)) return false;
    find_stacks(info);
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        if (info->carried[i].kind == LOOP_ORIGIN_BODY)
            (void)loop_add_member(info, info->carried[i].origin.storage);
    }
    extend_lives(info);
    make_over_parameters(info);
    for (uint32_t c = 0; c < info->member_count; c++) {
        if (info->members[c].class == c)
            info->members[c].period = (uint32_t)find_period(info, c, LONGEST_PERIOD);
    }
    if (!info->out_of_memory) let_periods_divide(info);
    return !info->out_of_memory;
}

bool loop_leaves_anywhere(const loop_info *info, uint32_t index) {
    if (index >= info->loop.carried) return false;
    const loop_carried *c = &info->carried[index];
    if (c->kind == LOOP_ORIGIN_COPY) return false;
    const loop_member *class = loop_class_of(info, c);
    return !class || (ir_loop_trips(&info->loop) < 0 && class->period > 1);
}

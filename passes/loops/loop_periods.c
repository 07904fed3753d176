/* loop_periods.c: implements loop_periods.h. */
#include "passes/loops/loop_periods.h"
#include <stdlib.h>
#include <string.h>

enum { LONGEST_PERIOD = 4096 };

/* ---- questions ----------------------------------------------------------------------------------------- */

bool loop_same_location(pass_location a, pass_location b) {
    return a.storage.index == b.storage.index && a.offset == b.offset;
}

bool loop_are_twins(const loop_carried *a, const loop_carried *b) {
    return a != b && a->kind == LOOP_ORIGIN_BODY && b->kind == LOOP_ORIGIN_BODY && a->depth == b->depth &&
           a->origin.storage.index == b->origin.storage.index;
}

bool loop_is_static(const ir_value *value) {
    size_t bytes;
    return op_type_bytes(&value->type, &bytes);
}

size_t loop_bytes_of(const ir_value *value) {
    size_t bytes = 0;
    (void)op_type_bytes(&value->type, &bytes);
    return bytes;
}

/* The step of the body in which a use takes place; its length for a result of the body itself. */
static int64_t use_step(const loop_analysis *a, const ir_use *use) {
    if (use->node) return pass_step_in(a->body, use->node, a->numbers);
    return use->graph == a->body ? a->steps : pass_step_in(a->body, use->graph->owner, a->numbers);
}

bool loop_view_reaches(const pass_memory *memory, const pass_multiview *view, pass_storage_id id) {
    for (uint32_t i = 0; i < view->prologue + view->repeat; i++) {
        pass_storage_id at = pass_memory_resolve(memory, view->entries[i]).storage;
        const pass_storage *storage = &memory->storages[at.index];
        if (at.index == id.index) return true;
        if (storage->space == MEMORY_MULTIVIEW &&
            loop_view_reaches(memory, &memory->multiviews[storage->index], id))
            return true;
    }
    return false;
}

/* What inner loops leave may lie in this storage, which they began with. Calls `visit` for each such value, and for those
 * to which later loops hand it on unchanged. */
static bool visit_left(const loop_analysis *a, pass_storage_id id,
                       bool (*visit)(const loop_analysis *a, const ir_value *value, void *user), void *user) {
    const pass_memory *memory = a->memory;
    for (size_t v = 1; v < memory->multiview_count; v++) {
        const pass_multiview *view = &memory->multiviews[v];
        if (view->loop->graph != a->body || !loop_view_reaches(memory, view, id)) continue;
        for (uint32_t i = 0; i < view->loop->output_count; i++) {
            const ir_value *output = view->loop->outputs[i];
            if (!output) continue;
            const pass_storage *storage =
                pass_memory_storage(memory, pass_memory_location(memory, output).storage);
            if (storage->space != MEMORY_MULTIVIEW || storage->index != v) continue;
            for (ir_value_id s = storage->values; s.index; s = memory->siblings[s.index]) {
                const ir_value *value = a->module->values[s.index];
                if (value && !visit(a, value, user)) return false;
            }
        }
    }
    return true;
}

static bool find_last_read(const loop_analysis *a, const ir_value *value, void *last) {
    for (const ir_use *use = value->uses; use; use = use->next) {
        int64_t step = use_step(a, use);
        if (step < a->steps && step > *(int64_t *)last) *(int64_t *)last = step;
    }
    return true;
}

int64_t loop_last_left(const loop_analysis *a, pass_storage_id id) {
    int64_t last = -1;
    (void)visit_left(a, id, find_last_read, &last);
    return last;
}

/* The first and last step of the body that touches a storage within one iteration; being a result does not
 * count. */
static void touched_steps(const loop_analysis *a, pass_storage_id id, int64_t *first, int64_t *last) {
    *first = a->steps;
    *last = -1;
    for (ir_value_id v = pass_memory_storage(a->memory, id)->values; v.index;
         v = a->memory->siblings[v.index]) {
        const ir_value *value = a->module->values[v.index];
        if (!value || !ir_graph_encloses(a->body, value->graph)) continue;
        int64_t made = value->node               ? pass_step_in(a->body, value->node, a->numbers)
                       : value->graph == a->body ? 0
                                                 : pass_step_in(a->body, value->graph->owner, a->numbers);
        if (made < *first) *first = made;
        if (made > *last) *last = made;
        for (const ir_use *use = value->uses; use; use = use->next) {
            int64_t step = use_step(a, use);
            if (step < a->steps && step > *last) *last = step;
        }
    }
    (void)visit_left(a, id, find_last_read, last);
}

/* ---- origins ------------------------------------------------------------------------------------------- */

static void find_next(loop_analysis *a) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        loop_carried *c = &a->carried[i];
        pass_location at = pass_memory_location(a->memory, c->replacement);
        c->next = LOOP_NONE;
        for (uint32_t k = 0; k < a->carried_count && c->next == LOOP_NONE && c->kind != LOOP_ORIGIN_COPY;
             k++) {
            const ir_value *parameter = a->carried[k].parameter;
            if (a->carried[k].kind != LOOP_ORIGIN_COPY &&
                loop_same_location(at, pass_memory_location(a->memory, parameter)) &&
                loop_bytes_of(parameter) == loop_bytes_of(c->replacement)) {
                c->next = k;
            }
        }
    }
}

static void find_origin(loop_analysis *a, uint32_t index) {
    loop_carried *c = &a->carried[index];
    uint32_t at = index, hops = 0;
    while (a->carried[at].next != LOOP_NONE && hops <= a->carried_count) {
        at = a->carried[at].next;
        hops++;
    }
    if (hops > a->carried_count) {
        /* Round and round: how long is the cycle, and how far is it? */
        uint32_t start = at, length = 1;
        for (uint32_t k = a->carried[at].next; k != start; k = a->carried[k].next) length++;
        uint32_t ahead = index, behind = index;
        for (uint32_t k = 0; k < length; k++) ahead = a->carried[ahead].next;
        for (c->depth = 0; ahead != behind; c->depth++) {
            ahead = a->carried[ahead].next;
            behind = a->carried[behind].next;
        }
        c->kind = LOOP_ORIGIN_CYCLE;
        c->cycle = length;
        return;
    }
    c->depth = hops + 1;
    c->origin = pass_memory_location(a->memory, a->carried[at].replacement);
    const pass_storage *storage = pass_memory_storage(a->memory, c->origin.storage);
    c->kind =
        storage->graph == a->body && storage->space == MEMORY_ARENA ? LOOP_ORIGIN_BODY : LOOP_ORIGIN_OUTSIDE;
}

/* Slice 0 of a stacked output, and the way to the next; false where slices cannot be made in their place:
 * another axis, an unknown number of them, or a slice that is no storage of the body by itself. */
bool loop_stack_of(const loop_analysis *a, uint32_t index, pass_location *base, int64_t *stride) {
    const ir_value *whole = a->loop->outputs[a->carried_count + index];
    const ir_value *slice = a->body->results[1 + a->carried_count + index]->value;
    if (!whole || !loop_is_static(slice) ||
        op_attribute_entry(&a->loop->attributes, "ouro.scan_output_axes", index) != 0)
        return false;
    if (!loop_is_static(whole) &&
        pass_memory_storage(a->memory, pass_memory_location(a->memory, whole).storage)->space != MEMORY_ARENA)
        return false; /* it has no room either */
    pass_location at = pass_memory_location(a->memory, slice);
    const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
    int64_t bytes = (int64_t)loop_bytes_of(slice),
            count = loop_is_static(whole) ? whole->type.shape.dims[0] : INT64_MAX;
    bool backwards = op_attribute_entry(&a->loop->attributes, "ouro.scan_output_directions", index) == 1;
    if (storage->space != MEMORY_ARENA || storage->graph != a->body || at.offset ||
        storage->bytes != (size_t)bytes || slice->kind != IR_RESULT_OF_NODE ||
        whole->type.layout != OP_LAYOUT_ROW_MAJOR || count <= 0 || bytes == 0 ||
        (backwards && !loop_is_static(whole))) {
        return false;
    }
    *base = pass_memory_location(a->memory, whole);
    if (pass_memory_storage(a->memory, base->storage)->space == MEMORY_DYNAMIC) return false;
    if (backwards) base->offset += (size_t)(bytes * (count - 1));
    *stride = backwards ? -bytes : bytes;
    return true;
}

/* Where slice 0 of scanned input `index` lies, and the way to the next; false where slices are copied: along
 * another axis, or of a tensor whose size is found at run time. */
bool loop_slice_of(const loop_analysis *a, uint32_t index, pass_location *base, int64_t *stride) {
    const ir_value *whole = ir_input(a->loop, 2 + a->carried_count + index),
                   *slice = a->body->parameters[2 + a->carried_count + index];
    if (!loop_is_static(whole) || !loop_is_static(slice) ||
        op_attribute_entry(&a->loop->attributes, "ouro.scan_input_axes", index) != 0)
        return false;
    int64_t count = whole->type.shape.dims[0], bytes = (int64_t)loop_bytes_of(slice);
    pass_location at = pass_memory_location(a->memory, slice);
    const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
    if (storage->space != MEMORY_ARENA || storage->graph != a->body || at.offset || count <= 0 ||
        whole->type.layout != OP_LAYOUT_ROW_MAJOR || bytes == 0) {
        return false;
    }
    bool backwards = op_attribute_entry(&a->loop->attributes, "ouro.scan_input_directions", index) == 1;
    *base = pass_memory_location(a->memory, whole);
    if (pass_memory_storage(a->memory, base->storage)->space == MEMORY_DYNAMIC) return false;
    if (backwards) base->offset += (size_t)(bytes * (count - 1));
    *stride = backwards ? -bytes : bytes;
    return true;
}

/* Parameters that hold what storage `id` held look for it among the slices. */
static void look_among_slices(loop_analysis *a, pass_storage_id id, pass_location base, int64_t stride) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        loop_carried *c = &a->carried[i];
        if (c->kind != LOOP_ORIGIN_BODY || c->origin.storage.index != id.index) continue;
        c->kind = LOOP_ORIGIN_STACK;
        c->origin = (pass_location){base.storage, base.offset + c->origin.offset};
        c->stride = stride;
    }
}

/* What is scanned or stacked has a place of its own in every iteration; parameters that hold it look there. */
static void find_stacks(loop_analysis *a) {
    pass_location base;
    int64_t stride;
    for (uint32_t k = 0; k < a->scan_inputs; k++) {
        const ir_value *slice = a->body->parameters[2 + a->carried_count + k];
        if (loop_slice_of(a, k, &base, &stride))
            look_among_slices(a, pass_memory_location(a->memory, slice).storage, base, stride);
    }
    for (uint32_t k = 0; k < a->scan_outputs; k++) {
        const ir_value *slice = a->body->results[1 + a->carried_count + k]->value;
        if (loop_stack_of(a, k, &base, &stride))
            look_among_slices(a, pass_memory_location(a->memory, slice).storage, base, stride);
    }
}

/* ---- members and their lives --------------------------------------------------------------------------- */

static bool add_member(loop_analysis *a, pass_storage_id id) {
    if (a->member_of[id.index] != LOOP_NONE) return true;
    loop_member *m = &a->members[a->member_count];
    *m = (loop_member){.storage = id.index, .class = a->member_count, .over = LOOP_NONE};
    touched_steps(a, id, &m->first, &m->last);
    m->first *= 2;
    m->last *= 2;
    a->member_of[id.index] = a->member_count++;
    return true;
}

/* Readers in later iterations: through every parameter that holds what was made here. */
static void extend_lives(loop_analysis *a) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        const loop_carried *c = &a->carried[i];
        if (c->kind != LOOP_ORIGIN_BODY) continue;
        loop_member *m = &a->members[a->member_of[c->origin.storage.index]];
        int64_t first, last, base = (int64_t)c->depth * a->half;
        touched_steps(a, pass_memory_location(a->memory, c->parameter).storage, &first, &last);
        /* A parameter touches step 0 by being there; only readers count. */
        bool read = false;
        for (ir_value_id v =
                 pass_memory_storage(a->memory, pass_memory_location(a->memory, c->parameter).storage)
                     ->values;
             v.index; v = a->memory->siblings[v.index]) {
            const ir_value *value = a->module->values[v.index];
            for (const ir_use *use = value ? value->uses : NULL; use; use = use->next)
                read |= use_step(a, use) < a->steps;
        }
        /* At the boundary it must be there, read or not: it is handed on, or out. */
        if (m->last < base - 1) m->last = base - 1;
        if (read && base + 2 * last > m->last) m->last = base + 2 * last;
    }
}

/* ---- classes: storages that share buffers in place ----------------------------------------------------- */

uint32_t loop_find_class(loop_analysis *a, uint32_t index, int64_t *shift) {
    *shift = 0;
    while (a->members[index].class != index) {
        *shift += a->members[index].shift;
        index = a->members[index].class;
    }
    return index;
}

/* Instance t of x and instance t + distance of y are the same bytes one after the other, in place. */
static bool handed_on(const loop_analysis *a, uint32_t x, uint32_t y, int64_t distance) {
    const loop_member *m = &a->members[y];
    return m->in_place && m->over == x && m->over_depth == distance;
}

/* No two instances that lie in one buffer of the class are live together, with this period. */
static bool period_fits(loop_analysis *a, uint32_t class, int64_t period) {
    for (uint32_t x = 0; x < a->member_count; x++) {
        int64_t shift_x, shift_y;
        if (loop_find_class(a, x, &shift_x) != class) continue;
        for (uint32_t y = 0; y < a->member_count; y++) {
            if (loop_find_class(a, y, &shift_y) != class) continue;
            const loop_member *mx = &a->members[x], *my = &a->members[y];
            int64_t reach = (mx->last - mx->first) / a->half + 2;
            /* Instance 0 of x against later or equal instances t of y in the same buffer. */
            for (int64_t t = -1; t <= reach; t++) {
                if (x == y && t == 0) continue;
                if ((t + shift_y - shift_x) % period != 0) continue;
                int64_t begin = t * a->half + my->first, end = t * a->half + my->last;
                if (begin > mx->last || end < mx->first) continue;
                if (begin == mx->last && handed_on(a, x, y, t)) continue;
                if (end == mx->first && handed_on(a, y, x, -t)) continue;
                return false;
            }
        }
    }
    return true;
}

/* The least period that fits, or 0. */
static int64_t find_period(loop_analysis *a, uint32_t class) {
    int64_t modulus = a->members[class].modulus, limit = modulus ? modulus : LONGEST_PERIOD;
    for (int64_t period = 1; period <= limit; period++) {
        if (modulus && modulus % period) continue;
        if (period_fits(a, class, period)) return period;
    }
    return 0;
}

/* Joins the class of `of` to that of `over`: instance t of the one lies where instance t - depth of the other
 * did. */
static void join_classes(loop_analysis *a, uint32_t of, uint32_t over, int64_t depth) {
    int64_t shift_of, shift_over;
    uint32_t from = loop_find_class(a, of, &shift_of), to = loop_find_class(a, over, &shift_over);
    int64_t shift = shift_over - depth - shift_of; /* of the one representative relative to the other */
    if (from == to) {
        a->members[to].modulus = (int64_t)base_gcd((uint64_t)a->members[to].modulus, (uint64_t)llabs(shift));
        return;
    }
    a->members[to].modulus =
        (int64_t)base_gcd((uint64_t)a->members[to].modulus, (uint64_t)a->members[from].modulus);
    a->members[from].class = to;
    a->members[from].shift = shift;
}

/* In the node's step the value is read by it alone, where it may write over what it reads. */
static bool reads_in_place(const loop_analysis *a, const ir_value *value, void *user) {
    const ir_node *node = user;
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (use_step(a, use) != a->numbers[node->id.index]) continue;
        if (use->node != node || !pass_may_write_over(node, use->index)) return false;
    }
    return true;
}

/* The node reads the parameter's bytes exactly, as this input, and nothing else reads them in its step; but what an inner
 * loop leaves may be these very bytes. */
static bool reads_only(const loop_analysis *a, const ir_node *node, uint32_t input, pass_storage_id storage) {
    for (ir_value_id v = pass_memory_storage(a->memory, storage)->values; v.index;
         v = a->memory->siblings[v.index]) {
        const ir_value *value = a->module->values[v.index];
        for (const ir_use *use = value ? value->uses : NULL; use; use = use->next) {
            if (use_step(a, use) != a->numbers[node->id.index]) continue;
            if (use->node != node || value != ir_input(node, input)) return false;
        }
    }
    return visit_left(a, storage, reads_in_place, (void *)(uintptr_t)node);
}

/* Another parameter holds the same instance, and the node reads it. */
static bool reads_twin(const loop_analysis *a, const ir_node *node, uint32_t index) {
    const loop_carried *c = &a->carried[index];
    for (uint32_t k = 0; k < a->carried_count; k++) {
        const loop_carried *other = &a->carried[k];
        if (!loop_are_twins(c, other)) continue;
        pass_storage_id storage = pass_memory_location(a->memory, other->parameter).storage;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const ir_value *input = ir_input(node, i);
            if (input && pass_memory_location(a->memory, input).storage.index == storage.index) return true;
        }
    }
    return false;
}

/* Member `of`, which the node makes, lies over carried parameter `index` from now on, if a period fits. */
static bool join_on_trial(loop_analysis *a, uint32_t of, const ir_node *node, uint32_t index) {
    const loop_carried *c = &a->carried[index];
    loop_member *m = &a->members[of], *saved = BASE_ARRAY(a->arena, loop_member, a->member_count);
    const uint32_t over = a->member_of[c->origin.storage.index];
    if (!saved) {
        a->out_of_memory = true;
        return false;
    }
    memcpy(saved, a->members, a->member_count * sizeof *saved);
    m->in_place = (ir_node *)node;
    m->over = over;
    m->over_depth = c->depth;
    join_classes(a, of, over, c->depth);
    int64_t shift, period = find_period(a, loop_find_class(a, of, &shift)),
                   limit = pass_unroll_limit(a->context->options);
    if (period && period <= limit) return true;
    memcpy(a->members, saved, a->member_count * sizeof *saved);
    return false;
}

/* Tries to make the storage of `m` over input `input` of the node that begins it. */
static bool try_in_place(loop_analysis *a, uint32_t of, const ir_node *node, uint32_t input) {
    loop_member *m = &a->members[of];
    const ir_value *read = ir_input(node, input), *made = node->outputs[0];
    if (!read || !made || read->graph != a->body) return false;
    pass_location from = pass_memory_location(a->memory, read), to = pass_memory_location(a->memory, made);
    if (to.storage.index != m->storage || to.offset || from.offset) return false;
    size_t bytes = loop_bytes_of(made);
    if (bytes != pass_memory_storage(a->memory, to.storage)->bytes || bytes != loop_bytes_of(read))
        return false;
    for (uint32_t i = 0; i < a->carried_count; i++) {
        const loop_carried *c = &a->carried[i];
        if (c->kind != LOOP_ORIGIN_BODY ||
            !loop_same_location(from, pass_memory_location(a->memory, c->parameter)))
            continue;
        uint32_t over = a->member_of[c->origin.storage.index];
        const loop_member *old = &a->members[over];
        if (c->origin.offset || pass_memory_storage(a->memory, c->origin.storage)->bytes != bytes)
            return false;
        if (old->last != (int64_t)c->depth * a->half + m->first ||
            !reads_only(a, node, input, from.storage) || reads_twin(a, node, i)) {
            return false;
        }
        return join_on_trial(a, of, node, i);
    }
    return false;
}

/* In a step of the body, nothing outside of this node's branches reads the parameter, nor what inner loops left of it. */
static bool only_branches_read(const loop_analysis *a, const ir_node *branch, pass_storage_id storage) {
    for (ir_value_id v = pass_memory_storage(a->memory, storage)->values; v.index;
         v = a->memory->siblings[v.index]) {
        const ir_value *value = a->module->values[v.index];
        for (const ir_use *use = value ? value->uses : NULL; use; use = use->next)
            if (use->node == branch) return false;
    }
    return visit_left(a, storage, reads_in_place, (void *)(uintptr_t)branch);
}

/* Tries to make an output of a branch node over a parameter that dies there. */
static bool try_branches(loop_analysis *a, const ir_node *branch, const ir_value *made) {
    pass_location to = pass_memory_location(a->memory, made);
    uint32_t of = a->member_of[to.storage.index];
    const size_t bytes = loop_bytes_of(made);
    if (of == LOOP_NONE || to.offset || bytes != pass_memory_storage(a->memory, to.storage)->bytes)
        return false;
    const loop_member *m = &a->members[of];
    if (m->in_place || m->first != 2 * a->numbers[branch->id.index]) return false;
    for (uint32_t i = 0; i < a->carried_count; i++) {
        const loop_carried *c = &a->carried[i];
        if (c->kind != LOOP_ORIGIN_BODY || c->origin.offset || loop_bytes_of(c->parameter) != bytes) continue;
        pass_location from = pass_memory_location(a->memory, c->parameter);
        const loop_member *old = &a->members[a->member_of[c->origin.storage.index]];
        bool twin = false;
        for (uint32_t k = 0; k < a->carried_count; k++) twin |= loop_are_twins(c, &a->carried[k]);
        if (twin || from.offset || pass_memory_storage(a->memory, c->origin.storage)->bytes != bytes ||
            old->last != (int64_t)c->depth * a->half + m->first ||
            !only_branches_read(a, branch, from.storage) ||
            !loop_branches_in_place(a, branch, to.storage, from.storage))
            continue;
        if (join_on_trial(a, of, branch, i)) return true;
    }
    return false;
}

/* Over all iterations: what is made over a parameter. (choose_in_place.c decides within one iteration.) */
static void make_over_parameters(loop_analysis *a) {
    for (ir_node **at = a->memory->order.nodes[a->body->id.index]; *at; at++) {
        const ir_node *node = *at;
        for (uint32_t i = 0; node->code == OP_IF && i < node->output_count; i++)
            if (node->outputs[i]) (void)try_branches(a, node, node->outputs[i]);
        if (node->output_count == 0 || !node->outputs[0]) continue;
        if (a->memory->executions[node->id.index] != PASS_RUN) continue;
        uint32_t of = a->member_of[pass_memory_location(a->memory, node->outputs[0]).storage.index];
        if (of == LOOP_NONE || a->members[of].in_place ||
            a->members[of].first != 2 * a->numbers[node->id.index])
            continue;
        for (uint32_t i = node->input_count; i-- > 0;) {
            if (pass_may_write_over(node, i) && try_in_place(a, of, node, i)) break;
        }
    }
}

/* ---- one loop ------------------------------------------------------------------------------------------ */

static bool read_loop(loop_analysis *a) {
    ir_node *loop = a->loop;
    a->scan_inputs = (uint32_t)op_attribute_integer(&loop->attributes, "ouro.scan_inputs", 0);
    a->carried_count = loop->input_count - 2 - a->scan_inputs;
    a->scan_outputs = a->body->result_count - 1 - a->carried_count;
    a->carried = BASE_ARRAY(a->arena, loop_carried, a->carried_count);
    a->members = BASE_ARRAY(a->arena, loop_member, a->carried_count);
    a->member_of = BASE_ARRAY(a->arena, uint32_t, a->memory->storage_count);
    if (!a->carried || !a->members || !a->member_of) return false;
    memset(a->member_of, 0xff, a->memory->storage_count * sizeof *a->member_of);
    for (uint32_t i = 0; i < a->carried_count; i++) {
        loop_carried *c = &a->carried[i];
        c->parameter = a->body->parameters[2 + i];
        c->initial = ir_input(loop, 2 + i);
        c->replacement = a->body->results[1 + i]->value;
        c->output = i < loop->output_count ? loop->outputs[i] : NULL;
    }
    return true;
}

bool loop_find_periods(loop_analysis *a) {
    if (!read_loop(a)) return false;
    a->steps = a->body->node_count ? a->body->node_count : 1; /* slices are copied even to an empty body */
    a->half = 2 * a->steps;
    for (uint32_t i = 0; i < a->carried_count; i++)
        a->carried[i].kind = pass_carried_is_static(a->loop, i) ? LOOP_ORIGIN_BODY : LOOP_ORIGIN_COPY;
    find_next(a);
    for (uint32_t i = 0; i < a->carried_count; i++)
        if (a->carried[i].kind != LOOP_ORIGIN_COPY) find_origin(a, i);
    find_stacks(a);
    for (uint32_t i = 0; i < a->carried_count; i++) {
        if (a->carried[i].kind == LOOP_ORIGIN_BODY && !add_member(a, a->carried[i].origin.storage))
            return false;
    }
    extend_lives(a);
    make_over_parameters(a);
    for (uint32_t c = 0; c < a->member_count; c++) {
        if (a->members[c].class == c) a->members[c].period = (uint32_t)find_period(a, c);
    }
    return !a->out_of_memory;
}

bool loop_leaves_anywhere(pass_context *context, const int64_t *numbers, base_arena *arena,
                          const ir_value *value, bool *anywhere) {
    ir_node *loop = value->node;
    *anywhere = false;
    if (!loop || loop->code != OP_LOOP) return true;
    loop_analysis a = {.context = context,
                       .module = context->module,
                       .memory = context->memory,
                       .arena = arena,
                       .numbers = numbers,
                       .loop = loop,
                       .body = loop->graphs[0]};
    if (!loop_find_periods(&a)) return false;
    for (uint32_t i = 0; i < a.carried_count; i++) {
        const loop_carried *c = &a.carried[i];
        int64_t shift;
        if (c->output != value || c->kind == LOOP_ORIGIN_COPY) continue;
        if (c->kind != LOOP_ORIGIN_BODY) *anywhere = true;
        else if (pass_known_trips(loop) < 0)
            *anywhere =
                a.members[loop_find_class(&a, a.member_of[c->origin.storage.index], &shift)].period > 1;
    }
    return true;
}

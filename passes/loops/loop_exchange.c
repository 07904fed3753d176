/* loop_exchange.c: implements loop_exchange.h. */
#include "passes/loops/loop_exchange.h"

/* ---- what can be exchanged ----------------------------------------------------------------------------- */

/* The storage is the value's alone, in the frame of its graph, and nothing is decided about it yet. */
static bool is_alone(const loop_analysis *a, const ir_value *value) {
    pass_location at = pass_memory_location(a->memory, value);
    const pass_storage *storage = pass_memory_storage(a->memory, at.storage);
    if (storage->space != MEMORY_ARENA || storage->graph != value->graph || at.offset ||
        storage->carried_by || storage->bytes != loop_bytes_of(value))
        return false;
    for (ir_value_id v = storage->values; v.index; v = a->memory->siblings[v.index]) {
        if (a->module->values[v.index] && a->module->values[v.index] != value) return false;
    }
    return true;
}

/* The output of a loop replaces a carried parameter of the loop around it, this one, and is no other result. */
static bool replaces(const loop_analysis *a, const ir_value *output, uint32_t *index) {
    const ir_graph *body = output->graph;
    const ir_node *around = body->owner;
    uint32_t results = 0;
    if (!around || around->code != OP_LOOP || !is_alone(a, output)) return false;
    for (const ir_use *use = output->uses; use; use = use->next) {
        if (use->node) continue;
        if (use->graph != body || use->index == 0 || use->index > pass_carried_count(around)) return false;
        *index = use->index - 1;
        results++;
    }
    return results == 1 && pass_carried_is_static(around, *index);
}

/* Nobody reads the parameter once the loop, a node of its body, has run. *begins: the loop begins with it, as this carried
 * value, and that is the last that anybody sees of it; *dead: it is read only before the loop. */
static bool dies_at(const loop_analysis *a, const ir_value *parameter, const ir_node *loop, uint32_t index,
                    bool *begins, bool *dead) {
    ir_graph *body = loop->graph;
    int64_t now = a->numbers[loop->id.index];
    const uint32_t carried = pass_carried_count(loop);
    uint32_t first = 0, others = 0, initial = 0;
    if (!is_alone(a, parameter)) return false;
    for (const ir_use *use = parameter->uses; use; use = use->next) {
        if (!use->node && use->graph == body) return false;
        int64_t step = pass_step_in(body, use->node ? use->node : use->graph->owner, a->numbers);
        if (step > now) return false;
        if (use->node == loop && use->index >= 2 && use->index < 2 + carried) initial++;
        if (use->node == loop && use->index == 2 + index) first++;
        else if (step == now) others++;
    }
    loop_analysis around = *a;
    around.body = body;
    int64_t left = loop_last_left(&around, pass_memory_location(a->memory, parameter).storage);
    if (left > now || initial > 1) return false; /* two outputs may be this very value */
    if (left == now) others++;
    *begins = first == 1 && others == 0;
    *dead = first + others == 0;
    return true;
}

/* The outermost loop through which the parameter is handed unchanged: each begins with the parameter of the one around it and
 * replaces it. What is exchanged stays where it is from one to the next. Once it is decided, their parameters are marked. */
static ir_node *find_owner(const loop_analysis *a, ir_node *loop, uint32_t index, bool decided) {
    for (;;) {
        const ir_value *output = index < loop->output_count ? loop->outputs[index] : NULL;
        uint32_t next;
        bool begins, dead;
        if (!output || !replaces(a, output, &next)) return loop;
        const ir_value *parameter = output->graph->parameters[2 + next];
        if (ir_input(loop, 2 + index) != parameter || !dies_at(a, parameter, loop, index, &begins, &dead) ||
            !begins)
            return loop;
        if (decided)
            pass_memory_storage(a->memory, pass_memory_location(a->memory, parameter).storage)->swapped =
                true;
        loop = output->graph->owner;
        index = next;
    }
}

static size_t class_bytes(loop_analysis *a, uint32_t class) {
    size_t bytes = 0;
    for (uint32_t k = 0; k < a->member_count; k++) {
        int64_t shift;
        size_t of_member = a->memory->storages[a->members[k].storage].bytes;
        if (loop_find_class(a, k, &shift) == class && of_member > bytes) bytes = of_member;
    }
    return bytes;
}

/* The output lies in one of several whole buffers, or, where initial values go round, in one of their places. */
static bool takes_turns(loop_analysis *a, uint32_t index) {
    const loop_carried *c = &a->carried[index];
    int64_t shift;
    if (c->kind == LOOP_ORIGIN_CYCLE)
        return c->depth == 0; /* else it becomes the same as one that is in the cycle */
    if (c->kind != LOOP_ORIGIN_BODY || c->origin.offset) return false;
    uint32_t class = loop_find_class(a, a->member_of[c->origin.storage.index], &shift);
    if (a->members[class].period < 2 || class_bytes(a, class) != loop_bytes_of(c->output)) return false;
    for (uint32_t k = 0; k < index; k++) { /* of two outputs that are the same bytes one must be a copy */
        if (a->carried[k].exchanged_in && loop_are_twins(c, &a->carried[k])) return false;
    }
    return true;
}

/* What a Copy in a branch makes of parameter `index`, the last that is read of it, may be the same bytes under another name:
 * nothing in the branch, nor in the body behind it, looks for them at their old place. */
static bool can_trade(loop_analysis *a, uint32_t index, const ir_node *branch, const ir_node *copy) {
    const loop_carried *c = &a->carried[index];
    const pass_storage_id over = pass_memory_location(a->memory, c->parameter).storage;
    const int64_t step = a->numbers[branch->id.index];
    if (a->members[a->member_of[c->origin.storage.index]].last != (int64_t)c->depth * a->half + 2 * step ||
        loop_last_left(a, over) >= step)
        return false;
    for (uint32_t k = 0; k < a->carried_count; k++)
        if (loop_are_twins(c, &a->carried[k])) return false;
    for (ir_value_id v = a->memory->storages[over.index].values; v.index; v = a->memory->siblings[v.index]) {
        const ir_value *value = a->module->values[v.index];
        for (const ir_use *use = value ? value->uses : NULL; use; use = use->next) {
            if (!ir_graph_encloses(copy->graph, use->graph) || use->node == copy) continue;
            if (!use->node || pass_step_in(copy->graph, use->node, a->numbers) > a->numbers[copy->id.index])
                return false;
        }
    }
    for (size_t v = 1; v < a->memory->multiview_count; v++) {
        const pass_multiview *view = &a->memory->multiviews[v];
        if (ir_graph_encloses(copy->graph, view->loop->graph) && loop_view_reaches(a->memory, view, over))
            return false;
    }
    return true;
}

/* The copy is what a branch of the body hands on: all of a parameter, into another buffer of its class. */
static void find_trade(loop_analysis *a, const ir_node *branch, const ir_node *copy) {
    const ir_value *from = ir_input(copy, 0);
    pass_location to = pass_memory_location(a->memory, copy->outputs[0]),
                  at = pass_memory_location(a->memory, from);
    uint32_t made = a->member_of[to.storage.index];
    if (made == LOOP_NONE || to.offset || at.offset || !loop_is_static(from)) return;
    for (uint32_t i = 0; i < a->carried_count; i++) {
        const loop_carried *c = &a->carried[i];
        int64_t shift_made, shift_over;
        if (c->kind != LOOP_ORIGIN_BODY || c->origin.offset ||
            !loop_same_location(at, pass_memory_location(a->memory, c->parameter)))
            continue;
        uint32_t class = loop_find_class(a, a->member_of[c->origin.storage.index], &shift_over);
        const size_t bytes = class_bytes(a, class);
        if (loop_find_class(a, made, &shift_made) != class || a->members[class].period < 2 ||
            loop_bytes_of(from) != bytes || pass_memory_storage(a->memory, to.storage)->bytes != bytes ||
            (shift_made - shift_over + (int64_t)c->depth) % a->members[class].period == 0)
            continue;
        if (can_trade(a, i, branch, copy)) {
            a->members[class].traded = true;
            a->memory->swapped[copy->outputs[0]->id.index] = true;
        }
    }
}

void loop_find_trades(loop_analysis *a) {
    for (ir_node **at = a->memory->order.nodes[a->body->id.index]; *at; at++) {
        const ir_node *branch = *at;
        for (uint32_t g = 0; branch->code == OP_IF && g < branch->graph_count; g++) {
            const ir_graph *graph = branch->graphs[g];
            for (uint32_t i = 0; i < graph->result_count; i++) {
                const ir_node *copy = graph->results[i]->value->node;
                if (copy && copy->graph == graph && copy->code == OP_COPY) find_trade(a, branch, copy);
            }
        }
    }
    for (uint32_t c = 0; c < a->member_count; c++) {
        if (!a->members[c].traded) continue;
        a->members[c].exchanged_in = a->loop;
        a->members[c].group = ++a->memory->group_count;
    }
}

/* The class in whose buffers the output is; LOOP_NONE where initial values go round. */
static uint32_t class_of(loop_analysis *a, uint32_t index) {
    int64_t shift;
    if (a->carried[index].kind != LOOP_ORIGIN_BODY) return LOOP_NONE;
    return loop_find_class(a, a->member_of[a->carried[index].origin.storage.index], &shift);
}

/* The initial value of `from` may be what the output `to` is, if the loop ends early; where it is a parameter into whose
 * buffer another output goes at that moment, both must be of one group, to be exchanged at once. */
static bool fits(loop_analysis *a, uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        const loop_carried *c = &a->carried[i];
        if (c->exchanged_in && c->replaced == a->carried[from].initial &&
            (class_of(a, i) != class_of(a, to) || c->exchanged_in != a->carried[to].exchanged_in))
            return false;
    }
    return true;
}

/* All initial values that the output may be are in its group, or stay where they are. Those that go round are all
 * exchanged, or none of them. */
static bool stays_exchanged(loop_analysis *a, uint32_t index) {
    const loop_carried *c = &a->carried[index];
    uint32_t k = index, hops = c->kind == LOOP_ORIGIN_CYCLE ? c->cycle : c->depth;
    bool fine = true;
    for (; hops > 0; hops--) {
        fine = fine && fits(a, k, index);
        if (c->kind == LOOP_ORIGIN_CYCLE)
            fine = fine && a->carried[k].exchanged_in == c->exchanged_in && a->carried[k].begins;
        k = a->carried[k].next;
    }
    return fine;
}

/* The classes whose buffers are exchanged, and the parameters that lie in them. */
static void mark(loop_analysis *a) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        loop_carried *c = &a->carried[i];
        uint32_t class = class_of(a, i);
        if (!c->exchanged_in) continue;
        c->exchanged_in = find_owner(a, c->output->graph->owner, c->replaced->index - 2, true);
        pass_memory_storage(a->memory, pass_memory_location(a->memory, c->replaced).storage)->swapped = true;
        if (class == LOOP_NONE) continue;
        if (!a->members[class].group) a->members[class].group = ++a->memory->group_count;
        a->members[class].exchanged_in = c->exchanged_in;
    }
}

void loop_find_exchanges(loop_analysis *a) {
    const bool known = pass_known_trips(a->loop) >= 0;
    for (uint32_t i = 0; i < a->carried_count; i++) {
        loop_carried *c = &a->carried[i];
        uint32_t index;
        /* Where the number of iterations is known, the last of them makes it in the right place; unless buffers have been
         * traded on the way. */
        if (known && (class_of(a, i) == LOOP_NONE || !a->members[class_of(a, i)].traded)) continue;
        if (!c->output || !takes_turns(a, i) || !replaces(a, c->output, &index)) continue;
        ir_node *around = a->loop->graph->owner;
        c->replaced = around->graphs[0]->parameters[2 + index];
        if (!dies_at(a, c->replaced, a->loop, i, &c->begins, &c->dead)) continue;
        /* One class is in the frame of one loop. */
        ir_node *owner = find_owner(a, around, index, false);
        c->exchanged_in = owner;
        for (uint32_t k = 0; k < i && class_of(a, i) != LOOP_NONE; k++) {
            const loop_carried *other = &a->carried[k];
            if (other->exchanged_in && class_of(a, k) == class_of(a, i) && other->exchanged_in != owner)
                c->exchanged_in = NULL;
        }
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < a->carried_count; i++) {
            if (!a->carried[i].exchanged_in || stays_exchanged(a, i)) continue;
            a->carried[i].exchanged_in = NULL;
            changed = true;
        }
    }
    mark(a);
}

/* ---- buffers ------------------------------------------------------------------------------------------- */

pass_storage_id loop_add_exchanged(loop_analysis *a, ir_node *owner, uint32_t group, size_t bytes,
                                   ir_value *value) {
    pass_storage buffer = {
        .space = MEMORY_ARENA, .graph = owner->graph, .value = value, .bytes = bytes, .carried_by = owner};
    pass_multiview view = {.loop = owner, .repeat = 1, .group = group};
    view.entries = BASE_ARRAY(a->memory->arena, pass_location, 1);
    if (!view.entries) return (pass_storage_id){0};
    view.entries[0].storage = pass_memory_add(a->memory, &buffer);
    if (!view.entries[0].storage.index) return (pass_storage_id){0};
    buffer.space = MEMORY_MULTIVIEW;
    buffer.index = pass_memory_add_multiview(a->memory, &view);
    if (!buffer.index) return (pass_storage_id){0};
    pass_storage_id made = pass_memory_add(a->memory, &buffer);
    a->memory->multiviews[buffer.index].buffer = made;
    return made;
}

/* No initial value is made in this buffer of the class, and no other parameter of the body around lies in it. */
static bool is_free(loop_analysis *a, pass_storage_id buffer) {
    for (uint32_t i = 0; i < a->carried_count; i++) {
        const loop_carried *c = &a->carried[i];
        if (c->target.index == buffer.index) return false;
        if (c->kind != LOOP_ORIGIN_BODY || !(c->taken_over || (c->exchanged_in && c->begins))) continue;
        uint32_t member = a->member_of[c->origin.storage.index];
        if (loop_buffer_of(a, member, -(int64_t)c->depth).index == buffer.index) return false;
    }
    return true;
}

/* The group of the initial values that go round with this one. */
static uint32_t cycle_group(const loop_analysis *a, const loop_carried *c) {
    for (uint32_t k = c->next; &a->carried[k] != c; k = a->carried[k].next)
        if (a->carried[k].target.index) return pass_memory_swapped(a->memory, a->carried[k].target)->group;
    return ++a->memory->group_count;
}

/* A parameter with which the loop begins lies where the instance before the first would be; one that is dead by then in
 * any buffer that is free; one that the loop reads has a buffer of its own. */
static bool choose_target(loop_analysis *a, loop_carried *c) {
    const bool goes_round = c->kind == LOOP_ORIGIN_CYCLE;
    int64_t shift;
    uint32_t member = goes_round ? LOOP_NONE : a->member_of[c->origin.storage.index];
    const loop_member *class = goes_round ? NULL : &a->members[loop_find_class(a, member, &shift)];
    pass_storage_id target = {0};
    if (class && c->begins) {
        target = loop_buffer_of(a, member, -(int64_t)c->depth);
        for (uint32_t k = 0; k < a->carried_count; k++)
            if (&a->carried[k] != c && a->carried[k].target.index == target.index) target.index = 0;
    } else if (class && c->dead) {
        for (uint32_t k = 0; k < class->period && !target.index; k++)
            if (is_free(a, class->buffers[k])) target = class->buffers[k];
    }
    if (!target.index) {
        target = loop_add_exchanged(a, c->exchanged_in, goes_round ? cycle_group(a, c) : class->group,
                                    loop_bytes_of(c->output), c->output);
    }
    c->target = target;
    return target.index != 0;
}

bool loop_choose_targets(loop_analysis *a) {
    for (int begins = 1; begins >= 0; begins--) { /* first those that have no choice */
        for (uint32_t i = 0; i < a->carried_count; i++) {
            loop_carried *c = &a->carried[i];
            if (!c->exchanged_in || c->begins != begins) continue;
            if (!choose_target(a, c)) return false;
            a->memory->swapped[c->output->id.index] = true;
        }
    }
    return true;
}

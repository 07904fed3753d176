/* SPDX-License-Identifier: Apache-2.0 */
/* buffer_swaps.c: implements buffer_swaps.h. */
#include "passes/loops/buffer_swaps.h"

/* ---- what can be swapped ------------------------------------------------------------------------------- */

/* The storage is the value's alone, in the region of its graph, and nothing is decided about it yet. */
static bool is_alone(const loop_info *info, const ir_value *value) {
    pass_location at = pass_memory_location(info->memory, value);
    const pass_storage *storage = pass_memory_storage(info->memory, at.storage);
    if (storage->space != MEMORY_ARENA || storage->graph != value->graph || storage->carried_by ||
        !loop_fills(info->memory, value))
        return false;
    for (ir_value_id v = storage->values; v.index; v = info->memory->siblings[v.index]) {
        if (info->module->values[v.index] && info->module->values[v.index] != value) return false;
    }
    return true;
}

/* The output of a loop replaces carried parameter *index of the loop around it, and is no other result. */
static bool replaces(const loop_info *info, const ir_value *output, ir_loop *around, uint32_t *index) {
    uint32_t results = 0;
    if (!ir_loop_around(output->graph, around) || around->runs || !is_alone(info, output)) return false;
    for (const ir_use *use = output->uses; use; use = use->next) {
        if (use->node) continue;
        if (use->graph != output->graph || use->index == 0 || use->index > around->carried) return false;
        *index = use->index - 1;
        results++;
    }
    return results == 1 && ir_loop_is_static(around, *index);
}

/* Nobody reads the parameter once the loop, a node of its body, has run. *begins: the loop begins with it, as this carried
 * value, and that is the last that anybody sees of it; *dead: it is read only before the loop. */
static bool dies_at(const loop_info *info, const ir_value *parameter, const ir_node *loop, uint32_t index,
                    bool *begins, bool *dead) {
    ir_graph *body = loop->graph;
    int64_t now = info->numbers[loop->id.index];
    const uint32_t carried = ir_loop_of(loop).carried;
    uint32_t first = 0, others = 0, initial = 0;
    if (!is_alone(info, parameter)) return false;
    for (const ir_use *use = parameter->uses; use; use = use->next) {
        if (!use->node && use->graph == body) return false;
        int64_t step = pass_step_in(body, use->node ? use->node : use->graph->owner, info->numbers);
        if (step > now) return false;
        if (use->node == loop && use->index >= 2 && use->index < 2 + carried) initial++;
        if (use->node == loop && use->index == 2 + index) first++;
        else if (step == now) others++;
    }
    int64_t left = loop_last_left(info, body, pass_memory_location(info->memory, parameter).storage);
    if (left > now || initial > 1) return false; /* two outputs may be this very value */
    if (left == now) others++;
    *begins = first == 1 && others == 0;
    *dead = first + others == 0;
    return true;
}

/* The outermost loop through which the parameter is handed unchanged: each begins with the parameter of the one around it and
 * replaces it. What is swapped stays where it is from one to the next. Once it is decided, their parameters are marked. */
static const ir_node *find_owner(const loop_info *info, const ir_node *loop, uint32_t index, bool decided) {
    for (;;) {
        const ir_value *output = loop->outputs[index];
        ir_loop around;
        uint32_t next;
        bool begins, dead;
        if (!output || !replaces(info, output, &around, &next)) return loop;
        const ir_value *parameter = ir_loop_carry(&around, next).parameter;
        if (ir_input(loop, 2 + index) != parameter ||
            !dies_at(info, parameter, loop, index, &begins, &dead) || !begins)
            return loop;
        pass_storage *storage =
            pass_memory_storage(info->memory, pass_memory_location(info->memory, parameter).storage);
        if (decided) storage->swapped = true;
        loop = output->graph->owner;
        index = next;
    }
}

/* The output lies in one of several whole buffers, or, where initial values go round, in one of theirs. */
static bool takes_turns(loop_info *info, uint32_t index) {
    const loop_carried *c = &info->carried[index];
    if (c->kind == LOOP_ORIGIN_CYCLE)
        return c->distance == 0; /* else it becomes the same as one that is in the cycle */
    const loop_member *class = loop_class_of(info, c);
    if (!class || c->origin.offset || class->period < 2 ||
        loop_class_bytes(info, class->class) != loop_bytes_of(c->output))
        return false;
    uint32_t k = loop_first_made(info, c->origin.storage);
    for (; k < index;
         k = info->carried[k].next_made) { /* of two outputs that are the same bytes one must be a copy */
        if (info->carried[k].swapped_in && loop_are_congruent(c, &info->carried[k])) return false;
    }
    return true;
}

/* What a Copy in a branch makes of parameter `index`, the last that is read of it, may be the same bytes under another name:
 * nothing in the branch, nor in the body after it, looks for them at their old place. */
static bool can_swap(loop_info *info, uint32_t index, const ir_node *branch, const ir_node *copy) {
    const loop_carried *c = &info->carried[index];
    const pass_storage_id over = pass_memory_location(info->memory, c->parameter).storage;
    const int64_t step = info->numbers[branch->id.index];
    if (info->members[loop_member_of(info, c->origin.storage)].last !=
            (int64_t)c->distance * info->half + 2 * step ||
        loop_last_left(info, info->loop.body, over) >= step)
        return false;
    for (uint32_t k = loop_first_made(info, c->origin.storage); k != LOOP_NONE;
         k = info->carried[k].next_made)
        if (loop_are_congruent(c, &info->carried[k])) return false;
    for (ir_value_id v = info->memory->storages[over.index].values; v.index;
         v = info->memory->siblings[v.index]) {
        const ir_value *value = info->module->values[v.index];
        for (const ir_use *use = value ? value->uses : NULL; use; use = use->next) {
            if (!ir_graph_encloses(copy->graph, use->graph) || use->node == copy) continue;
            if (!use->node ||
                pass_step_in(copy->graph, use->node, info->numbers) > info->numbers[copy->id.index])
                return false;
        }
    }
    for (size_t v = 1; v < info->memory->multiview_count; v++) {
        const pass_multiview *view = &info->memory->multiviews[v];
        if (ir_graph_encloses(copy->graph, view->loop->graph) && loop_view_reaches(info->memory, view, over))
            return false;
    }
    return true;
}

/* The copy is what a branch of the body hands on: all of a parameter, into another buffer of its class. */
static void find_branch_swap(loop_info *info, const ir_node *branch, const ir_node *copy) {
    const ir_value *from = ir_input(copy, 0);
    pass_location to = pass_memory_location(info->memory, copy->outputs[0]),
                  at = pass_memory_location(info->memory, from);
    uint32_t made = loop_member_of(info, to.storage);
    if (made == LOOP_NONE || to.offset || at.offset || !loop_bytes_of(from)) return;
    for (uint32_t i = loop_first_at(info, at.storage); i != LOOP_NONE; i = info->carried[i].next_at) {
        const loop_carried *c = &info->carried[i];
        int64_t shift_made, shift_over;
        if (c->kind != LOOP_ORIGIN_BODY || c->origin.offset ||
            !loop_same_location(at, pass_memory_location(info->memory, c->parameter)))
            continue;
        uint32_t class = loop_find_class(info, loop_member_of(info, c->origin.storage), &shift_over);
        const size_t bytes = loop_class_bytes(info, class);
        if (loop_find_class(info, made, &shift_made) != class || info->members[class].period < 2 ||
            loop_bytes_of(from) != bytes || pass_memory_storage(info->memory, to.storage)->bytes != bytes ||
            (shift_made - shift_over + (int64_t)c->distance) % info->members[class].period == 0)
            continue;
        if (can_swap(info, i, branch, copy)) {
            info->members[class].branch_swaps = true;
            info->memory->swapped[copy->outputs[0]->id.index] = true;
        }
    }
}

void loop_find_branch_swaps(loop_info *info) {
    if (info->loop.runs) return; /* from run to run there are no swaps */
    for (ir_node **at = info->memory->order.nodes[info->loop.body->id.index]; *at; at++) {
        const ir_node *branch = *at;
        for (uint32_t g = 0; branch->code == OP_IF && g < branch->graph_count; g++) {
            const ir_graph *graph = branch->graphs[g];
            for (uint32_t i = 0; i < graph->result_count; i++) {
                const ir_node *copy = graph->results[i]->value->node;
                if (copy && copy->graph == graph && copy->code == OP_COPY)
                    find_branch_swap(info, branch, copy);
            }
        }
    }
    for (uint32_t c = 0; c < info->member_count; c++) {
        if (!info->members[c].branch_swaps) continue;
        info->members[c].swapped_in = info->loop.node;
        info->members[c].group = ++info->memory->group_count;
    }
}

/* The initial value of `from` may be what the output `to` is, if the loop ends early; where it is a parameter into whose
 * buffer another output goes in that step, both must be of one group, to be swapped at once. */
static bool fits(loop_info *info, uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        const loop_carried *c = &info->carried[i];
        if (c->swapped_in && c->replaced == info->carried[from].initial &&
            (loop_class_of(info, c) != loop_class_of(info, &info->carried[to]) ||
             c->swapped_in != info->carried[to].swapped_in))
            return false;
    }
    return true;
}

/* All initial values that the output may be are in its group, or stay where they are. Those that go round are all
 * swapped, or none of them. */
static bool stays_swapped(loop_info *info, uint32_t index) {
    const loop_carried *c = &info->carried[index];
    uint32_t k = index, hops = c->kind == LOOP_ORIGIN_CYCLE ? c->cycle : c->distance;
    bool fine = true;
    for (; hops > 0; hops--) {
        fine = fine && fits(info, k, index);
        if (c->kind == LOOP_ORIGIN_CYCLE)
            fine = fine && info->carried[k].swapped_in == c->swapped_in && info->carried[k].begins;
        k = info->carried[k].next;
    }
    return fine;
}

/* The classes whose buffers are swapped, and the parameters that lie in them. */
static void mark(loop_info *info) {
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        loop_carried *c = &info->carried[i];
        loop_member *class = loop_class_of(info, c);
        if (!c->swapped_in) continue;
        info->swaps = true;
        c->swapped_in = find_owner(info, c->output->graph->owner, c->replaced->index - 2, true);
        pass_memory_storage(info->memory, pass_memory_location(info->memory, c->replaced).storage)->swapped =
            true;
        if (!class) continue;
        if (!class->group) class->group = ++info->memory->group_count;
        class->swapped_in = c->swapped_in;
    }
}

void loop_find_output_swaps(loop_info *info) {
    const bool known = ir_loop_trips(&info->loop) >= 0;
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        loop_carried *c = &info->carried[i];
        const loop_member *class = loop_class_of(info, c);
        ir_loop around;
        uint32_t index;
        /* Where the number of iterations is known, the last of them makes it in the right buffer; unless buffers have been
         * swapped on the way. */
        if (known && (!class || !class->branch_swaps)) continue;
        if (class && class->lazy) continue; /* two of its buffers may have one address */
        if (!c->output || !takes_turns(info, i) || !replaces(info, c->output, &around, &index)) continue;
        c->replaced = ir_loop_carry(&around, index).parameter;
        if (!dies_at(info, c->replaced, info->loop.node, i, &c->begins, &c->dead)) continue;
        /* One class is in the region of one loop. */
        const ir_node *owner = find_owner(info, c->output->graph->owner, index, false);
        c->swapped_in = owner;
        for (uint32_t k = 0; k < i && class; k++) {
            const loop_carried *other = &info->carried[k];
            if (other->swapped_in && loop_class_of(info, other) == class && other->swapped_in != owner)
                c->swapped_in = NULL;
        }
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < info->loop.carried; i++) {
            if (!info->carried[i].swapped_in || stays_swapped(info, i)) continue;
            info->carried[i].swapped_in = NULL;
            changed = true;
        }
    }
    mark(info);
}

/* ---- buffers ------------------------------------------------------------------------------------------- */

pass_storage_id loop_add_swapped(const loop_info *info, const ir_node *owner, uint32_t group, bool lazy,
                                 size_t bytes, ir_value *value) {
    pass_storage buffer = {.space = MEMORY_ARENA,
                           .graph = owner->graph,
                           .value = value,
                           .bytes = bytes,
                           .last_made = -1,
                           .carried_by = owner};
    pass_multiview view = {.loop = owner, .repeat = 1, .group = group, .lazy = lazy};
    view.entries = BASE_ARRAY(info->memory->arena, pass_location, 1);
    if (!view.entries) return (pass_storage_id){0};
    view.entries[0].storage = pass_memory_add(info->memory, &buffer);
    if (!view.entries[0].storage.index) return (pass_storage_id){0};
    buffer.space = MEMORY_MULTIVIEW;
    buffer.index = pass_memory_add_multiview(info->memory, &view);
    if (!buffer.index) return (pass_storage_id){0};
    pass_storage_id made = pass_memory_add(info->memory, &buffer);
    info->memory->multiviews[buffer.index].buffer = made;
    info->memory->storages[view.entries[0].storage.index].swap_view = buffer.index;
    return made;
}

/* No initial value is made in this buffer of the class, and no other parameter of the body around lies in it. */
static bool is_free(loop_info *info, pass_storage_id buffer) {
    for (uint32_t i = 0; i < info->loop.carried; i++) {
        const loop_carried *c = &info->carried[i];
        if (c->target.index == buffer.index) return false;
        if (c->kind != LOOP_ORIGIN_BODY || !(c->taken_over || (c->swapped_in && c->begins))) continue;
        uint32_t member = loop_member_of(info, c->origin.storage);
        if (loop_buffer_of(info, member, -(int64_t)c->distance).index == buffer.index) return false;
    }
    return true;
}

/* The group of the initial values that go round with this one. */
static uint32_t cycle_group(const loop_info *info, const loop_carried *c) {
    for (uint32_t k = c->next; &info->carried[k] != c; k = info->carried[k].next)
        if (info->carried[k].target.index)
            return pass_memory_swapped(info->memory, info->carried[k].target)->group;
    return ++info->memory->group_count;
}

/* A parameter with which the loop begins lies where the instance before the first would be; one that is dead by then in
 * any buffer that is free; one that the loop reads has a buffer of its own. */
static bool choose_target(loop_info *info, loop_carried *c) {
    const loop_member *class = loop_class_of(info, c);
    pass_storage_id target = {0};
    if (class && c->begins) {
        target = loop_buffer_of(info, loop_member_of(info, c->origin.storage), -(int64_t)c->distance);
        for (uint32_t k = 0; k < info->loop.carried; k++)
            if (&info->carried[k] != c && info->carried[k].target.index == target.index) target.index = 0;
    } else if (class && c->dead) {
        for (uint32_t k = 0; k < class->period && !target.index; k++)
            if (is_free(info, class->buffers[k])) target = class->buffers[k];
    }
    if (!target.index)
        target = loop_add_swapped(info, c->swapped_in, class ? class->group : cycle_group(info, c), false,
                                  loop_bytes_of(c->output), c->output);
    c->target = target;
    return target.index != 0;
}

bool loop_choose_targets(loop_info *info) {
    for (int begins = 1; begins >= 0; begins--) { /* first those that have no choice */
        for (uint32_t i = 0; i < info->loop.carried; i++) {
            loop_carried *c = &info->carried[i];
            if (!c->swapped_in || c->begins != begins) continue;
            if (!choose_target(info, c)) return false;
            info->memory->swapped[c->output->id.index] = true;
        }
    }
    return true;
}

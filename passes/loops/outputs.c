/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.c: implements outputs.h. */
#include "passes/loops/outputs.h"
#include "passes/loops/tables.h"

/* A loop that begins with the value reads it where it lies: as a carried value of static size. */
static bool begins_with(const ir_use *use) {
    ir_loop loop;
    if (!ir_loop_read(use->node, &loop) || use->index < 2) return false;
    return use->index - 2 < loop.carried && ir_loop_is_static(&loop, use->index - 2);
}

/* Only operators, and loops that begin with it, read the value, not the graph's owner. */
static bool is_read_anywhere(const loop_info *info, const ir_value *value) {
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (!use->node) return false;
        if ((op_schema_of(use->node->code)->flags & OP_FLAG_GRAPHS) && !begins_with(use)) return false;
        if (info->memory->executions[use->node->id.index] != PASS_RUN) return false;
    }
    return true;
}

/* The output can be resolved when the loop is left: nothing else shares its storage but parameters of later loops, which
 * hand it on, and what such loops leave unchanged. */
static bool is_plainly_read(const loop_info *info, const ir_value *output) {
    pass_location at = pass_memory_location(info->memory, output);
    const pass_storage *storage = pass_memory_storage(info->memory, at.storage);
    if (storage->space != MEMORY_ARENA || at.offset || storage->carried_by) return false;
    for (ir_value_id v = storage->values; v.index; v = info->memory->siblings[v.index]) {
        const ir_value *value = info->module->values[v.index];
        if (!value) continue;
        if (loop_bytes_of(value) != storage->bytes) return false;
        if (value->kind == IR_PARAMETER) continue;
        if (!value->node || value->node->code != OP_LOOP || !is_read_anywhere(info, value)) return false;
    }
    return true;
}

/* Nothing is written over the addresses of this multi-view after the loop, as long as its readers keep them live:
 * constants, the caller's inputs, and storages that hold only what is made before the loop or by it. (What
 * runs in place has been decided already.) */
static bool is_left_alone(const loop_info *info, const pass_multiview *view, size_t bytes) {
    for (uint32_t i = 0; i < view->prologue + view->repeat; i++) {
        pass_location at = pass_memory_resolve(info->memory, view->entries[i]);
        const pass_storage *storage = pass_memory_storage(info->memory, at.storage);
        const pass_multiview *swapped = pass_memory_swapped(info->memory, at.storage);
        if (storage->space == MEMORY_CONSTANT || storage->space == MEMORY_INPUT) continue;
        if (swapped && swapped->loop == info->loop.node) continue; /* its group belongs to the loop alone */
        if (storage->swapped) return false;
        bool planned = storage->space == MEMORY_ARENA || storage->space == MEMORY_OUTPUT;
        if (!planned || storage->graph != info->loop.node->graph) return false;
        if (storage->carried_again || (storage->carried_by && storage->carried_by != info->loop.node))
            return false; /* another loop writes there */
        /* A part of a buffer shares its bytes with another output, which may come to have a place of its own.
         */
        if (storage->carried_by && (at.offset || storage->bytes != bytes)) return false;
        for (ir_value_id v = storage->values; v.index; v = info->memory->siblings[v.index]) {
            const ir_value *value = info->module->values[v.index];
            if (!value) continue;
            if (value->graph != info->loop.node->graph) return false;
            if (value->kind == IR_PARAMETER) continue; /* of an enclosing loop, which counts the readers */
            if (info->numbers[value->node->id.index] > info->numbers[info->loop.node->id.index]) return false;
        }
    }
    return true;
}

/* What this storage, of the graph around the loop, holds: outputs of the loop, and values that are written after it. */
static void held_after(const loop_info *info, const pass_storage *storage, bool *output, bool *written) {
    *output = storage->left_by == info->loop.node;
    /* A later loop has taken it over: these are analysed first. */
    *written = storage->carried_again || (storage->carried_by && storage->carried_by != info->loop.node) ||
               storage->last_made > info->numbers[info->loop.node->id.index];
}

/* The storage of an output can become bytes of this buffer: no other output is there already that something
 * written over one of the two would destroy, or that begins with another initial value. */
static bool can_share(const loop_info *info, const pass_storage *buffer, const pass_storage *storage,
                      bool certain) {
    bool output, other_output, written, other_written;
    held_after(info, buffer, &output, &written);
    held_after(info, storage, &other_output, &other_written);
    return !output || (certain && !written && !other_written);
}

/* After so many iterations the parameter is in a buffer of the loop: it was made there, or was begun there. */
static bool is_in_buffer(const loop_info *info, uint32_t index, int64_t trips) {
    if (trips >= (int64_t)info->carried[index].distance) return true;
    for (; trips > 0; trips--) index = info->carried[index].next;
    return info->carried[index].taken_over;
}

/* An initial value begins in a buffer of this parameter's class. */
static bool holds_initial(const loop_info *info, uint32_t index) {
    const loop_member *class = loop_class_of(info, &info->carried[index]);
    return class && class->holds_initial;
}

bool loop_place_output(const loop_info *info, uint32_t index, int64_t trips, bool views) {
    const loop_carried *c = &info->carried[index];
    pass_multiview view;
    if (!c->output || !loop_bytes_of(c->output) || c->kind == LOOP_ORIGIN_COPY) return true;
    if (!loop_table_of(info, index, &view)) return false;
    pass_location at = pass_memory_location(info->memory, c->output);
    const pass_storage *storage = pass_memory_storage(info->memory, at.storage);
    /* What an inner loop swaps for the sake of a loop further out is handed through. */
    const pass_multiview *handed =
        c->kind == LOOP_ORIGIN_OUTSIDE ? pass_memory_swapped(info->memory, c->origin.storage) : NULL;
    if (handed && handed->loop == info->loop.node) handed = NULL;
    if (c->target.index || handed) {
        pass_storage_id target = handed ? c->origin.storage : c->target;
        if (views) return true;
        pass_memory_join(info->memory, target, at.storage, 0);
        pass_memory_storage(info->memory, target)->left_by = info->loop.node;
        return true;
    }
    if (at.offset || storage->bytes != loop_bytes_of(c->output) || storage->graph != info->loop.node->graph)
        return true;
    const loop_member *class = loop_class_of(info, c);
    const bool from_end = class && class->from_end;
    if (from_end) trips = (int64_t)loop_all_round(info, index); /* it ends where it would after these */
    bool certain =
        trips >= 0 && class && !class->branch_swaps && !class->lazy && is_in_buffer(info, index, trips);
    /* One buffer: with no iteration the initial value is copied there, if it lies elsewhere, and nothing else is
     * there then. */
    bool one = !(class && class->lazy) && view.repeat == 1 && c->kind == LOOP_ORIGIN_BODY && trips < 0 &&
               (view.prologue == 0 || !holds_initial(info, index));
    if (views) {
        if (trips >= 0) { /* it is a slice, or an initial value, or what another output is */
            view.entries[0] = loop_parameter_at(info, index, (uint64_t)trips);
            view.prologue = 0;
            view.repeat = 1;
            view.stride = 0;
        }
        bool resolved = !one && !certain && view.stride == 0 &&
                        (trips >= 0 || view.prologue + view.repeat > 1 || c->kind != LOOP_ORIGIN_BODY) &&
                        is_plainly_read(info, c->output) &&
                        is_left_alone(info, &view, loop_bytes_of(c->output));
        return !resolved || loop_put_storage(info, at.storage, &view);
    }
    if (!one && !certain) return true;
    pass_location last = loop_parameter_at(info, index, one ? view.prologue : (uint64_t)trips);
    const pass_storage *target = pass_memory_storage(info->memory, last.storage);
    if (last.storage.index == at.storage.index || target->graph != info->loop.node->graph ||
        target->space != MEMORY_ARENA || !can_share(info, target, storage, certain && !from_end))
        return true;
    if (storage->space == MEMORY_ARENA) {
        pass_memory_join(info->memory, last.storage, at.storage, last.offset);
        pass_memory_storage(info->memory, last.storage)->left_by = info->loop.node;
    } else if ((storage->space == MEMORY_OUTPUT || pass_memory_swapped(info->memory, at.storage)) &&
               last.offset == 0 && target->bytes == storage->bytes) {
        pass_memory_join(info->memory, at.storage, last.storage,
                         0); /* the caller's buffer, or one that later loops swap, is one of the loop's */
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c: implements tables.h. */
#include "passes/loops/tables.h"

/* A value that was made in such bytes before the loop began is found through the buffer's multi-view from then on. */
static pass_location as_swapped(const loop_info *info, pass_location at) {
    const uint32_t named = info->memory->storages[at.storage.index].swap_view;
    const pass_multiview *view = &info->memory->multiviews[named];
    return named && view->loop == info->loop.node ? (pass_location){view->buffer, at.offset} : at;
}

pass_location loop_parameter_at(const loop_info *info, uint32_t index, uint64_t t) {
    const loop_carried *c = &info->carried[index];
    if (c->kind == LOOP_ORIGIN_CYCLE || t < c->distance) {
        if (c->kind == LOOP_ORIGIN_CYCLE && t > c->distance) t = c->distance + (t - c->distance) % c->cycle;
        for (; t > 0; t--) index = info->carried[index].next;
        return as_swapped(info, pass_memory_location(info->memory, info->carried[index].initial));
    }
    if (c->kind == LOOP_ORIGIN_OUTSIDE) return pass_memory_resolve(info->memory, c->origin);
    if (c->kind == LOOP_ORIGIN_STACK) {
        pass_location slice = c->origin;
        slice.offset += (size_t)(c->stride * (int64_t)(t - c->distance));
        return pass_memory_resolve(info->memory, slice);
    }
    pass_storage_id buffer =
        loop_buffer_of(info, loop_member_of(info, c->origin.storage), (int64_t)(t - c->distance));
    return pass_memory_resolve(info->memory, (pass_location){buffer, c->origin.offset});
}

uint64_t loop_all_round(const loop_info *info, uint32_t index) {
    const loop_carried *c = &info->carried[index];
    const loop_member *class = loop_class_of(info, c);
    return (uint64_t)c->distance * (class ? class->period : 1);
}

bool loop_table_of(const loop_info *info, uint32_t index, pass_multiview *view) {
    const loop_carried *c = &info->carried[index];
    const loop_member *class = loop_class_of(info, c);
    const uint32_t period = c->kind == LOOP_ORIGIN_CYCLE ? c->cycle : class ? class->period : 1;
    const bool from_end = class && class->from_end;
    uint32_t prologue = c->distance;
    while (prologue > 0 && !from_end && c->kind != LOOP_ORIGIN_STACK &&
           loop_same_location(loop_parameter_at(info, index, prologue - 1),
                              loop_parameter_at(info, index, prologue - 1 + period)))
        prologue--;
    *view = (pass_multiview){.loop = info->loop.node,
                             .prologue = prologue,
                             .repeat = period,
                             .stride = c->stride,
                             .from_end = from_end};
    view->entries = BASE_ARRAY(info->memory->arena, pass_location, (size_t)prologue + period);
    const uint64_t round = loop_all_round(info, index); /* there it counts from 0 again */
    for (uint32_t t = 0; view->entries && t < prologue + period; t++)
        view->entries[t] =
            loop_parameter_at(info, index, from_end && t >= prologue ? round + t - prologue : t);
    return view->entries != NULL;
}

bool loop_put_storage(const loop_info *info, pass_storage_id id, const pass_multiview *view) {
    if (view->prologue == 0 && view->repeat == 1 && view->stride == 0) {
        const pass_storage *target = pass_memory_storage(info->memory, view->entries[0].storage);
        if (view->entries[0].storage.index != id.index && target->space != MEMORY_DYNAMIC) {
            pass_memory_join(info->memory, view->entries[0].storage, id, view->entries[0].offset);
            return true;
        }
    }
    uint32_t index = pass_memory_add_multiview(info->memory, view);
    pass_storage *storage = pass_memory_storage(info->memory, id);
    storage->space = MEMORY_MULTIVIEW;
    storage->index = index;
    return index != 0;
}

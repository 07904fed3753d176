/* SPDX-License-Identifier: Apache-2.0 */
/* multiviews.c: addresses that change: with the iterations of a loop, and where buffers are swapped (plan.h). */
#include "runtime/executor.h"
#include <string.h>

/* ---- tables -------------------------------------------------------------------------------------------- */

/* The pointer that an address is now. */
static unsigned char *point(const ouro_session *session, const plan_address *address) {
    switch (address->space) {
    case MEMORY_ARENA:
        return session->memory.arena + address->offset;
    case MEMORY_STATE:
        return session->states.memory + address->offset;
    case MEMORY_CONSTANT:
        return rt_constant(session, address->offset);
    case MEMORY_INPUT:
        return (unsigned char *)session->bound.inputs[address->index].data + address->offset;
    case MEMORY_OUTPUT:
        return (unsigned char *)session->bound.outputs[address->index].data + address->offset;
    case MEMORY_MULTIVIEW:
        return session->run.multiview_data[address->index] + address->offset;
    default:
        return NULL;
    }
}

/* In [0, period). */
static uint32_t rest_of(int64_t number, uint32_t period) {
    const int64_t rest = number % (int64_t)period;
    return (uint32_t)(rest < 0 ? rest + (int64_t)period : rest);
}

/* Buffers of the caller and multi-views of enclosing loops stay where they are until the loop is left, or until buffers have been
 * swapped, when it is not `entered`. */
static void resolve(const ouro_session *session, const rt_step_loop *loop, bool entered) {
    for (uint32_t i = 0; i < loop->multiview_count; i++) {
        const rt_loop_multiview *multiview = &loop->multiviews[i];
        const plan_address *entries =
            session->of->addresses + session->of->multiviews[multiview->multiview].first;
        if (multiview->swapped) {
            if (entered) session->run.multiview_data[multiview->multiview] = point(session, &entries[0]);
            multiview->table[0] = session->run.multiview_data[multiview->multiview];
            continue;
        }
        /* What counts from the end: the table begins where iteration `prologue` is. */
        const uint32_t turn =
            multiview->from_end ? rest_of((int64_t)multiview->prologue - loop->trips, multiview->period) : 0;
        for (uint32_t k = 0; k < multiview->prologue; k++) multiview->table[k] = point(session, &entries[k]);
        for (uint32_t k = 0; k < multiview->period; k++)
            multiview->table[multiview->prologue + k] =
                point(session, &entries[multiview->prologue + (k + turn) % multiview->period]);
    }
}

void rt_multiviews_enter(ouro_session *session, const rt_step_loop *loop) {
    resolve(session, loop, true);
    rt_multiviews_count(session, loop, 0);
}

bool rt_multiviews_make(ouro_session *session, uint32_t node, rt_step_loop *loop) {
    const plan *of = session->of;
    const uint32_t all = (uint32_t)of->header->multiviews.count;
    uint32_t count = 0;
    for (uint32_t v = 0; v < all; v++) count += of->multiviews[v].loop == node;
    loop->multiviews = BASE_ARRAY(&session->code.tables, rt_loop_multiview, count);
    if (!loop->multiviews) return false;
    for (uint32_t k = 0; k < 2 * all && !session->code.unshared; k++) {
        const plan_multiview *from = &of->multiviews[k % all];
        if (from->loop != node || (from->group != 0) != (k < all)) continue; /* swap buffers first */
        rt_loop_multiview *multiview = &loop->multiviews[loop->multiview_count++];
        *multiview = (rt_loop_multiview){.multiview = k % all,
                                         .prologue = from->prologue_count,
                                         .period = from->period,
                                         .stride = from->stride,
                                         .swapped = from->group != 0,
                                         .from_end = from->from_end != 0};
        multiview->table =
            BASE_ARRAY(&session->code.tables, unsigned char *, (size_t)from->prologue_count + from->period);
        if (!multiview->table) return false;
    }
    return true;
}

/* ---- swaps --------------------------------------------------------------------------------------------- */

bool rt_swap_add(ouro_session *session, rt_swap_list *list, uint32_t from, uint32_t to, uint32_t multiview) {
    const plan *of = session->of;
    const uint32_t all = (uint32_t)of->header->multiviews.count;
    uint32_t *group = BASE_ARRAY(&session->code.tables, uint32_t, all);
    rt_swap *items = base_arena_grow(&session->code.tables, list->items, &list->capacity,
                                     (size_t)list->count + 1, sizeof *items);
    if (!group || !items) return false;
    list->items = items;
    rt_swap *swap = &items[list->count++];
    *swap = (rt_swap){.from = from,
                      .to = to,
                      .group = group,
                      .bytes = (size_t)of->tensors[to].bytes,
                      .multiview = PLAN_ABSENT};
    for (uint32_t v = 0; v < all; v++)
        if (of->multiviews[v].loop == of->multiviews[multiview].loop &&
            of->multiviews[v].group == of->multiviews[multiview].group)
            group[swap->count++] = v;
    return true;
}

/* The buffer of the group that is here now; PLAN_ABSENT: none. */
static uint32_t find_buffer(const ouro_session *session, const rt_swap *swap, const void *at) {
    for (uint32_t k = 0; k < swap->count; k++)
        if (session->run.multiview_data[swap->group[k]] == at) return swap->group[k];
    return PLAN_ABSENT;
}

/* One of the swaps before this one has brought its bytes into the buffer. */
static bool is_taken(const rt_swap_list *list, uint32_t before, uint32_t multiview) {
    for (uint32_t i = 0; i < before; i++)
        if (list->items[i].multiview == multiview && !list->items[i].copied) return true;
    return false;
}

/* All loops that run, from the owner of the buffers inwards, look where their multi-views are now. */
static void renew(ouro_session *session, const rt_step_loop *loop, const rt_step_loop *owner) {
    if (loop != owner && loop->around) renew(session, loop->around, owner);
    resolve(session, loop, false);
    rt_multiviews_count(session, loop, loop->iteration);
}

void rt_multiviews_renew(ouro_session *session, uint32_t loop) {
    renew(session, session->run.innermost, session->code.steps[loop]->detail);
}

void rt_swap_run(ouro_session *session, const rt_swap_list *list) {
    const rt_step_loop *owner = NULL; /* the outermost whose buffers these are */
    bool changed = false;
    for (uint32_t i = 0; i < list->count; i++) {
        rt_swap *swap = &list->items[i];
        swap->at = session->run.tensors[swap->from].data;
        swap->multiview = find_buffer(session, swap, session->run.tensors[swap->to].data);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        rt_swap *swap = &list->items[i];
        const uint32_t other = find_buffer(session, swap, swap->at);
        swap->copied = swap->multiview == PLAN_ABSENT || other == PLAN_ABSENT || is_taken(list, i, other);
        if (swap->copied || other == swap->multiview) continue;
        session->run.multiview_data[other] = session->run.multiview_data[swap->multiview];
        session->run.multiview_data[swap->multiview] = swap->at;
        changed = true;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const rt_swap *swap = &list->items[i];
        void *to = swap->multiview == PLAN_ABSENT ? session->run.tensors[swap->to].data
                                                  : session->run.multiview_data[swap->multiview];
        if (swap->copied && to != swap->at) memcpy(to, swap->at, swap->bytes);
    }
    for (const rt_step_loop *loop = session->run.innermost; loop && changed; loop = loop->around) {
        for (uint32_t i = 0; i < list->count; i++) {
            uint32_t node = session->of->multiviews[list->items[i].group[0]].loop;
            if (session->code.steps[node]->detail == loop) owner = loop;
        }
    }
    if (owner) renew(session, session->run.innermost, owner);
}

base_status rt_swap_step(ouro_session *session, const rt_step *step) {
    rt_swap_run(session, step->detail);
    return BASE_OK;
}

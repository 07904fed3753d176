/* views.c: addresses that change: with the iterations of a loop, and where buffers are exchanged (plan.h). */
#include "runtime/executor.h"
#include <string.h>

/* ---- tables -------------------------------------------------------------------------------------------- */

/* The pointer that an address is at this moment. */
static unsigned char *point(const ouro_session *session, const plan_address *address) {
    switch (address->place) {
    case PLAN_PLACE_ARENA:
        return session->memory + address->offset;
    case PLAN_PLACE_CONSTANT:
        return rt_constant(session, address->offset);
    case PLAN_PLACE_INPUT:
        return (unsigned char *)session->inputs[address->index].data + address->offset;
    case PLAN_PLACE_OUTPUT:
        return (unsigned char *)session->outputs[address->index].data + address->offset;
    case PLAN_PLACE_VIEW:
        return session->view_data[address->index] + address->offset;
    default:
        return NULL;
    }
}

/* Buffers of the caller and views of enclosing loops stay where they are until the loop is left, or until buffers have been
 * exchanged, when it is not `entered`. */
static void resolve(const ouro_session *session, const rt_step_loop *loop, bool entered) {
    for (uint32_t i = 0; i < loop->view_count; i++) {
        const rt_loop_view *view = &loop->views[i];
        const plan_address *entries = session->of->addresses + session->of->views[view->view].first;
        if (view->exchanged) {
            if (entered) session->view_data[view->view] = point(session, &entries[0]);
            view->table[0] = session->view_data[view->view];
            continue;
        }
        for (uint32_t k = 0; k < view->prologue + view->period; k++)
            view->table[k] = point(session, &entries[k]);
    }
}

void rt_views_enter(ouro_session *session, const rt_step_loop *loop) {
    resolve(session, loop, true);
    rt_views_count(session, loop, 0);
}

bool rt_views_make(ouro_session *session, uint32_t node, rt_step_loop *loop) {
    const plan *of = session->of;
    const uint32_t all = (uint32_t)of->header->views.count;
    uint32_t count = 0;
    for (uint32_t v = 0; v < all; v++) count += of->views[v].loop == node;
    loop->views = BASE_ARRAY(&session->arena, rt_loop_view, count);
    if (!loop->views) return false;
    for (uint32_t k = 0; k < 2 * all && !session->is_mirror; k++) {
        const plan_view *from = &of->views[k % all];
        if (from->loop != node || (from->group != 0) != (k < all)) continue; /* exchanged buffers first */
        rt_loop_view *view = &loop->views[loop->view_count++];
        *view = (rt_loop_view){.view = k % all,
                               .prologue = from->prologue_count,
                               .period = from->period,
                               .stride = from->stride,
                               .exchanged = from->group != 0};
        view->table =
            BASE_ARRAY(&session->arena, unsigned char *, (size_t)from->prologue_count + from->period);
        if (!view->table) return false;
    }
    return true;
}

/* ---- exchange ------------------------------------------------------------------------------------------ */

bool rt_exchange_add(ouro_session *session, rt_exchange_list *list, uint32_t from, uint32_t to,
                     uint32_t view) {
    const plan *of = session->of;
    const uint32_t all = (uint32_t)of->header->views.count;
    uint32_t *group = BASE_ARRAY(&session->arena, uint32_t, all);
    rt_exchange *items = base_arena_grow(&session->arena, list->items, &list->capacity,
                                         (size_t)list->count + 1, sizeof *items);
    if (!group || !items) return false;
    list->items = items;
    rt_exchange *exchange = &items[list->count++];
    *exchange = (rt_exchange){
        .from = from, .to = to, .group = group, .bytes = (size_t)of->tensors[to].bytes, .view = PLAN_ABSENT};
    for (uint32_t v = 0; v < all; v++)
        if (of->views[v].loop == of->views[view].loop && of->views[v].group == of->views[view].group)
            group[exchange->count++] = v;
    return true;
}

/* The buffer of the group that is here now; PLAN_ABSENT: none. */
static uint32_t find_buffer(const ouro_session *session, const rt_exchange *exchange, const void *at) {
    for (uint32_t k = 0; k < exchange->count; k++)
        if (session->view_data[exchange->group[k]] == at) return exchange->group[k];
    return PLAN_ABSENT;
}

/* One of the exchanges before this one has brought its bytes into the buffer. */
static bool is_taken(const rt_exchange_list *list, uint32_t before, uint32_t view) {
    for (uint32_t i = 0; i < before; i++)
        if (list->items[i].view == view && !list->items[i].copied) return true;
    return false;
}

/* All loops that run, from the owner of the buffers inwards, look where their views are now. */
static void renew(ouro_session *session, const rt_step_loop *loop, const rt_step_loop *owner) {
    if (loop != owner && loop->around) renew(session, loop->around, owner);
    resolve(session, loop, false);
    rt_views_count(session, loop, loop->iteration);
}

void rt_exchange_run(ouro_session *session, const rt_exchange_list *list) {
    const rt_step_loop *owner = NULL; /* the outermost whose buffers these are */
    bool changed = false;
    for (uint32_t i = 0; i < list->count; i++) {
        rt_exchange *exchange = &list->items[i];
        exchange->at = session->tensors[exchange->from].data;
        exchange->view = find_buffer(session, exchange, session->tensors[exchange->to].data);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        rt_exchange *exchange = &list->items[i];
        const uint32_t other = find_buffer(session, exchange, exchange->at);
        exchange->copied = exchange->view == PLAN_ABSENT || other == PLAN_ABSENT || is_taken(list, i, other);
        if (exchange->copied || other == exchange->view) continue;
        session->view_data[other] = session->view_data[exchange->view];
        session->view_data[exchange->view] = exchange->at;
        changed = true;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const rt_exchange *exchange = &list->items[i];
        void *to = exchange->view == PLAN_ABSENT ? session->tensors[exchange->to].data
                                                 : session->view_data[exchange->view];
        if (exchange->copied && to != exchange->at) memcpy(to, exchange->at, exchange->bytes);
    }
    for (const rt_step_loop *loop = session->innermost; loop && changed; loop = loop->around) {
        for (uint32_t i = 0; i < list->count; i++) {
            uint32_t node = session->of->views[list->items[i].group[0]].loop;
            if (session->steps[node]->detail == loop) owner = loop;
        }
    }
    if (owner) renew(session, session->innermost, owner);
}

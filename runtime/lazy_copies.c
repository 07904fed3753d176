/* SPDX-License-Identifier: Apache-2.0 */
/* lazy_copies.c: copies within a lazy group (plan.h): the output gets the address of the input. Who writes into a buffer whose
 * address others have too writes into a piece that none has. */
#include "runtime/executor.h"

/* ---- addresses ----------------------------------------------------------------------------------------- */

/* The buffer of the group in which the output is now, by name: others may have its address. PLAN_ABSENT: in none, now. */
static uint32_t find_buffer(const ouro_session *session, const rt_lazy *lazy) {
    const plan *of = session->of;
    const uint32_t multiview = of->tensors[lazy->tensor].address.index;
    if (of->multiviews[multiview].group) return multiview;
    const rt_step_loop *loop = session->code.steps[lazy->loop]->detail;
    const plan_address entry =
        plan_multiview_entry_of(of, multiview, (uint64_t)loop->iteration, (uint64_t)loop->trips);
    return entry.space == MEMORY_MULTIVIEW ? entry.index : PLAN_ABSENT;
}

/* The buffer of the group that is here; of several the first. PLAN_ABSENT: none is. */
static uint32_t find_holder(const ouro_session *session, const rt_lazy *lazy, const void *at, uint32_t but) {
    for (uint32_t k = 0; k < lazy->count; k++)
        if (lazy->group[k] != but && session->run.multiview_data[lazy->group[k]] == at) return lazy->group[k];
    return PLAN_ABSENT;
}

static unsigned char *piece_of(const ouro_session *session, uint32_t buffer) {
    return session->memory.arena + session->of->addresses[session->of->multiviews[buffer].first].offset;
}

/* The buffer gets a piece of the group for itself. There are as many pieces as buffers, so that one is free where two share one.
 * False: it has one already. */
static bool leave_others(ouro_session *session, const rt_lazy *lazy, uint32_t buffer) {
    if (find_holder(session, lazy, session->run.multiview_data[buffer], buffer) == PLAN_ABSENT) return false;
    for (uint32_t k = 0; k < lazy->count; k++) {
        unsigned char *piece = piece_of(session, lazy->group[k]);
        if (find_holder(session, lazy, piece, PLAN_ABSENT) != PLAN_ABSENT) continue;
        session->run.multiview_data[buffer] = piece;
        return true;
    }
    return false;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static void exchange_inputs(const ouro_session *session, const rt_step *step) {
    const rt_lazy_list *list = step->detail;
    for (uint64_t i = 0; i < session->of->nodes[step->node].input_count; i++) {
        void *data = step->inputs[i].data;
        step->inputs[i].data = list->inputs[i];
        list->inputs[i] = data;
    }
}

/* What the kernel reads may lie in the buffer that it writes: it is still where it was. */
static base_status write_lazily(ouro_session *session, const rt_step *step) {
    const rt_lazy_list *list = step->detail;
    bool moved = false;
    for (uint64_t i = 0; i < session->of->nodes[step->node].input_count; i++)
        list->inputs[i] = step->inputs[i].data;
    for (uint32_t i = 0; i < list->count; i++) {
        const uint32_t buffer = find_buffer(session, &list->items[i]);
        if (buffer == PLAN_ABSENT || !leave_others(session, &list->items[i], buffer)) continue;
        rt_multiviews_renew(session, list->items[i].loop);
        moved = true;
    }
    if (moved) exchange_inputs(session, step);
    const base_status status =
        step->prepared.run(&step->prepared, step->inputs, step->outputs, step->scratch, &session->run.report);
    if (moved) exchange_inputs(session, step);
    return status;
}

/* What lies in none of the group's pieces, as an initial value does, is copied. */
static base_status copy_lazily(ouro_session *session, const rt_step *step) {
    const rt_lazy *lazy = ((const rt_lazy_list *)step->detail)->items;
    const uint32_t buffer = find_buffer(session, lazy);
    unsigned char *from = step->inputs[0].data;
    if (buffer == PLAN_ABSENT || find_holder(session, lazy, from, PLAN_ABSENT) == PLAN_ABSENT)
        return write_lazily(session, step);
    if (session->run.multiview_data[buffer] == from) return BASE_OK;
    session->run.multiview_data[buffer] = from;
    rt_multiviews_renew(session, lazy->loop);
    return BASE_OK;
}

/* ---- making them --------------------------------------------------------------------------------------- */

static bool add_output(ouro_session *session, rt_lazy_list *list, uint32_t tensor, uint32_t buffer) {
    const plan *of = session->of;
    const plan_multiview *one = &of->multiviews[buffer];
    const uint32_t all = (uint32_t)of->header->multiviews.count;
    uint32_t *group = BASE_ARRAY(&session->code.tables, uint32_t, all), count = 0;
    if (!group) return false;
    for (uint32_t v = 0; v < all; v++)
        if (of->multiviews[v].loop == one->loop && of->multiviews[v].group == one->group) group[count++] = v;
    list->items[list->count++] = (rt_lazy){tensor, one->loop, group, count};
    return true;
}

bool rt_lazy_make(ouro_session *session, rt_step *step, bool copies) {
    const plan *of = session->of;
    const plan_node *node = &of->nodes[step->node];
    rt_lazy_list list = {0};
    if (session->code.unshared) return true;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const uint32_t id = of->tensor_ids[node->outputs + i];
        const uint32_t buffer =
            id == PLAN_ABSENT ? PLAN_ABSENT : plan_lazy_buffer(of, &of->tensors[id].address);
        if (buffer == PLAN_ABSENT || !plan_is_within(of, of->multiviews[buffer].loop, node->graph)) continue;
        if (!list.items) {
            list.items = BASE_ARRAY(&session->code.tables, rt_lazy, (size_t)node->output_count);
            list.inputs = BASE_ARRAY(&session->code.tables, void *, (size_t)node->input_count);
            if (!list.items || (node->input_count && !list.inputs)) return false;
        }
        if (!add_output(session, &list, id, buffer)) return false;
    }
    if (!list.count) return true;
    rt_lazy_list *made = BASE_NEW(&session->code.tables, rt_lazy_list);
    if (!made) return false;
    *made = list;
    step->detail = made;
    step->run = NULL;
    step->special = copies ? copy_lazily : write_lazily;
    return true;
}

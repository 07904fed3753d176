/* SPDX-License-Identifier: Apache-2.0 */
/* check_swap.c: swap buffers in the verifier; see plan.h, runtime/plan/check.c and docs/LOOPS.md.
 *
 * Two buffers that swap their names are the same as two that keep their names and swap their bytes, as long as nobody
 * looks at these bytes but by the names. So the replay leaves each buffer where its entry says, moves contents, and refuses
 * whatever touches the bytes other than through the buffers' multi-views while their loop runs. After the loop its outputs may be
 * in any buffer of the group.
 *
 * In a lazy group a Copy only gives its output the address of its input, and whoever writes gets a piece first that nobody has. By
 * names that is the same as a Copy that copies, which is how it is replayed, as long as all that is written looks for such a piece.
 */
#include "runtime/plan/replay.h"
#include <inttypes.h>

/* A loop's end: all parameters are seen to be there, those in buffers leave them, are in the outputs' buffers at once, and what
 * was elsewhere is copied. */
enum { SEEN, LEFT, ARRIVED, COPIED, STEPS };

static bool is_one_group(const plan_multiview *a, const plan_multiview *b) {
    return a->loop == b->loop && a->group == b->group;
}

/* One of the loops runs while the other does. */
static bool run_together(const plan *of, uint32_t a, uint32_t b) {
    return a == b || plan_is_within(of, a, of->nodes[b].graph) || plan_is_within(of, b, of->nodes[a].graph);
}

bool replay_find_swap_buffers(replay *r) {
    const plan *of = r->of;
    const size_t multiviews = (size_t)of->header->multiviews.count;
    r->buffers = BASE_ARRAY(&r->arena, swap_buffer, multiviews);
    if (!r->buffers) return replay_fail_memory(r);
    for (uint32_t v = 0; v < multiviews; v++) {
        const plan_multiview *multiview = &of->multiviews[v];
        const plan_address *entry = &of->addresses[multiview->first];
        if (!multiview->group) continue;
        if (entry->space != MEMORY_ARENA || !multiview->bytes || multiview->bytes > of->header->arena_bytes ||
            entry->offset > of->header->arena_bytes - multiview->bytes || entry->offset % PLAN_ALIGNMENT) {
            return replay_fail(r, "multi-view %" PRIu32 " is no whole piece of the arena to be swapped", v);
        }
        for (size_t k = 0; k < r->buffer_count; k++) {
            const plan_multiview *other = replay_multiview_of(r, &r->buffers[k]);
            const plan_address *there = &of->addresses[other->first];
            if (!replay_spend(r, 1)) return false;
            if (is_one_group(multiview, other) && multiview->lazy != other->lazy)
                return replay_fail(r,
                                   "multi-views %" PRIu32 " and %" PRIu32
                                   " are to be swapped, but only one of them is lazy",
                                   v, r->buffers[k].multiview);
            if (is_one_group(multiview, other) && multiview->bytes != other->bytes)
                return replay_fail(
                    r, "multi-views %" PRIu32 " and %" PRIu32 " are to be swapped, but differ in size", v,
                    r->buffers[k].multiview);
            /* Loops that never run at the same time may have the same bytes. */
            if (!run_together(of, multiview->loop, other->loop)) continue;
            if (entry->offset < there->offset + other->bytes &&
                there->offset < entry->offset + multiview->bytes)
                return replay_fail(r,
                                   "multi-views %" PRIu32 " and %" PRIu32 " are to be swapped, but overlap",
                                   v, r->buffers[k].multiview);
        }
        r->buffers[r->buffer_count++].multiview = v;
    }
    return true;
}

/* The buffer of the group in which these bytes lie; NULL: in none. */
static const swap_buffer *find_buffer(const replay *r, const plan_multiview *group, const span *at,
                                      bool through) {
    for (size_t i = 0; i < r->buffer_count && through; i++) {
        const swap_buffer *buffer = &r->buffers[i];
        if (is_one_group(replay_multiview_of(r, buffer), group) && at->first < buffer->at.last &&
            buffer->at.first < at->last)
            return buffer;
    }
    return NULL;
}

/* What tensor `from` is gets into tensor `to`, in a buffer of the group, from one of its places: `at` at this step of the
 * swap. */
static bool swap_place(replay *r, uint32_t from, uint32_t to, const plan_multiview *group, const phase *at,
                       int step) {
    const swap_buffer *buffer = find_buffer(r, group, &at->at, at->through);
    if (!buffer && step == COPIED) { /* like any move, one after another */
        if (replay_do_overlap(r, from, to))
            return replay_fail(r, "tensor \"%s\" is copied to tensor \"%s\", which overlaps it",
                               replay_name_of(r, from), replay_name_of(r, to));
        return replay_verify_phase(r, from, at) && replay_write(r, to);
    }
    if (buffer && step == LEFT && at->at.address != buffer->at.address)
        return replay_fail(r, "tensor \"%s\" is a part of a buffer that would be swapped",
                           replay_name_of(r, from));
    if (buffer && step == LEFT)
        return replay_write_span(r, buffer->at.first, buffer->at.last, (plan_bytes_tag){0});
    return !buffer || step != ARRIVED || replay_write(r, to);
}

static bool swap_one(replay *r, uint32_t from, uint32_t to, uint32_t multiview, int step) {
    const phase_list *phases = &r->phases[from];
    const plan_multiview *group = &r->of->multiviews[multiview];
    if (step == SEEN && !replay_verify(r, from)) return false;
    if (!phases->count && replay_is_same_place(r, from, to))
        return step != ARRIVED || replay_move(r, from, to);
    const phase here = {
        .where = r->where[from], .at = r->spans[from], .through = r->through[from], .is = r->contents[from]};
    if (!phases->count) return swap_place(r, from, to, group, &here, step);
    for (uint64_t k = 0; k < phases->count; k++)
        if (!swap_place(r, from, to, group, &phases->items[k], step)) return false;
    return true;
}

bool replay_swap(replay *r, const plan_node *node, const plan_loop_form *form) {
    const uint32_t number = (uint32_t)(node - r->of->nodes);
    for (int step = SEEN; step < STEPS; step++) {
        for (uint32_t i = 0; i < form->carried; i++) {
            uint32_t parameter = form->parameters[2 + i],
                     multiview = plan_swap_buffer(r->of, number, i, parameter);
            if (multiview != PLAN_ABSENT && r->of->multiviews[multiview].lazy)
                return replay_fail(r, "output \"%s\" would be swapped into a lazy multi-view",
                                   replay_name_of(r, form->outputs[i]));
            if (multiview != PLAN_ABSENT && !swap_one(r, parameter, form->outputs[i], multiview, step))
                return false;
        }
    }
    return true;
}

bool replay_swap_copy(replay *r, const plan_node *node, uint32_t multiview) {
    for (int step = SEEN; step < STEPS; step++)
        if (!swap_one(r, r->of->tensor_ids[node->inputs], r->of->tensor_ids[node->outputs], multiview, step))
            return false;
    return replay_verify(r, r->of->tensor_ids[node->outputs]);
}

bool replay_end_swaps(replay *r, const plan_node *node, size_t since) {
    const size_t until = r->written_count;
    for (size_t i = 0; i < r->buffer_count; i++) {
        swap_buffer *buffer = &r->buffers[i];
        if (replay_multiview_of(r, buffer)->loop != (uint32_t)(node - r->of->nodes)) continue;
        buffer->identity = 0;
        if (!replay_spend(r, 1)) return false;
        /* In a lazy group any may have the address of any other one. */
        if (!replay_multiview_of(r, buffer)->lazy && !replay_was_written(r, since, until, &buffer->at))
            continue;
        if (!replay_new_identity(r, PLAN_ABSENT, &buffer->identity) ||
            !replay_write_span(r, buffer->at.first, buffer->at.last,
                               (plan_bytes_tag){buffer->identity, buffer->at.address}))
            return false;
    }
    return true;
}

const swap_buffer *replay_own_buffer(const replay *r, const plan_node *node, const phase *place) {
    for (size_t i = 0; i < r->buffer_count && place->through; i++) {
        const swap_buffer *buffer = &r->buffers[i];
        if (replay_multiview_of(r, buffer)->loop == (uint32_t)(node - r->of->nodes) &&
            buffer->at.first <= place->at.first && place->at.last <= buffer->at.last)
            return buffer;
    }
    return NULL;
}

bool replay_spread(replay *r, const plan_node *node, phase_list *ends, uint64_t bytes) {
    const uint64_t count = ends->count;
    for (uint64_t k = 0; k < count; k++) {
        const phase from = ends->items[k];
        const swap_buffer *own = replay_own_buffer(r, node, &from);
        if (!own) continue;
        const uint64_t offset = from.at.address - own->at.address;
        for (size_t i = 0; i < r->buffer_count; i++) {
            const swap_buffer *other = &r->buffers[i];
            if (!replay_spend(r, 1)) return false;
            if (!other->identity || !is_one_group(replay_multiview_of(r, own), replay_multiview_of(r, other)))
                continue;
            phase place = from;
            place.is = replay_content_of(other->identity, offset, bytes);
            place.where.offset = place.at.address = other->at.address + offset;
            place.at.first = plan_bytes_bound(&r->bytes, place.at.address);
            place.at.last = plan_bytes_bound(&r->bytes, place.at.address + bytes);
            if (other == own) {
                ends->items[k] = place;
                continue;
            }
            phase *items = base_arena_grow(&r->arena, ends->items, &ends->capacity, (size_t)ends->count + 1,
                                           sizeof *items);
            if (!items) return replay_fail_memory(r);
            ends->items = items;
            items[ends->count++] = place;
        }
    }
    return true;
}

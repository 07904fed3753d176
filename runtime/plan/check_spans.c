/* SPDX-License-Identifier: Apache-2.0 */
/* check_spans.c: where tensors lie, in the verifier: the map of bytes, and addresses followed through multi-views; see
 * runtime/plan/check.c.
 */
#include "runtime/plan/replay.h"
#include <inttypes.h>
#include <string.h>

bool replay_in_map(const plan_address *address) {
    return address->space == MEMORY_ARENA || address->space == MEMORY_OUTPUT ||
           address->space == MEMORY_STATE;
}

/* Not known before the run: made by the run-time allocator, or bound with dimensions. What has a reservation is all of it. */
static bool find_dynamic(const replay *r, uint32_t id) {
    const plan_tensor *tensor = &r->of->tensors[id];
    plan_address reservation;
    op_type type;
    size_t bytes;
    if (plan_tensor_reservation(r->of, id, &reservation)) return false;
    if (tensor->address.space == MEMORY_DYNAMIC || tensor->kind != OP_KIND_TENSOR) return true;
    plan_tensor_type(r->of, id, &type);
    return !op_type_bytes(&type, &bytes);
}

bool replay_is_dynamic(const replay *r, uint32_t id) {
    return r->dynamic[id];
}

bool replay_find_dynamic(replay *r) {
    const size_t count = (size_t)r->of->header->tensors.count;
    r->dynamic = BASE_ARRAY(&r->arena, bool, count);
    if (!r->dynamic) return replay_fail_memory(r);
    for (size_t i = 0; i < count; i++) r->dynamic[i] = find_dynamic(r, (uint32_t)i);
    return true;
}

bool replay_map_outputs(replay *r) {
    const plan_header *header = r->of->header;
    uint64_t end = header->arena_bytes;
    r->outputs = BASE_ARRAY(&r->arena, uint64_t, (size_t)header->outputs.count);
    if (!r->outputs) return replay_fail_memory(r);
    for (uint64_t i = 0; i < header->outputs.count; i++) {
        uint64_t bytes = r->of->tensors[r->of->outputs[i].tensor].bytes;
        r->outputs[i] = end;
        if (end > INT64_MAX || bytes > INT64_MAX - end) return replay_fail(r, "its outputs are too large");
        end += bytes;
    }
    r->states = end;
    if (end > INT64_MAX || header->state_bytes > INT64_MAX - end)
        return replay_fail(r, "its states are too large");
    return true;
}

uint64_t replay_map_address(const replay *r, const plan_address *address) {
    return address->space == MEMORY_OUTPUT  ? r->outputs[address->index] + address->offset
           : address->space == MEMORY_STATE ? r->states + address->offset
                                            : address->offset;
}

/* The address as it is now: multi-views followed with the counters of their loops. *most: where the last of them is a swap
 * buffer, the bytes of that from there on; UINT64_MAX otherwise. */
static plan_address follow(const replay *r, plan_address address, uint64_t *reservation) {
    *reservation = UINT64_MAX;
    while (address.space == MEMORY_MULTIVIEW) {
        uint64_t offset = address.offset;
        const plan_multiview *multiview = &r->of->multiviews[address.index];
        if (multiview->group) *reservation = offset < multiview->bytes ? multiview->bytes - offset : 0;
        address = plan_multiview_entry(r->of, address.index, r->counters[multiview->loop]);
        address.offset += offset;
    }
    return address;
}

plan_address replay_source(const replay *r, uint32_t id) {
    plan_address address;
    if (plan_tensor_reservation(r->of, id, &address)) return address;
    address = r->of->tensors[id].address;
    while (address.space == MEMORY_MULTIVIEW && r->running[r->of->multiviews[address.index].loop]) {
        uint64_t offset = address.offset;
        address =
            plan_multiview_entry(r->of, address.index, r->counters[r->of->multiviews[address.index].loop]);
        address.offset += offset;
    }
    return address;
}

bool replay_in_space(const replay *r, const plan_address *address, uint64_t bytes) {
    uint64_t size = address->space == MEMORY_ARENA ? r->of->header->arena_bytes
                    : address->space == MEMORY_STATE
                        ? r->of->header->state_bytes
                        : r->of->tensors[r->of->outputs[address->index].tensor].bytes;
    return address->offset <= size && bytes <= size - address->offset;
}

/* Follows the bounds of swap buffers, once the map of bytes is made. */
static void map_swap_buffers(replay *r) {
    for (size_t i = 0; i < r->buffer_count; i++) {
        swap_buffer *buffer = &r->buffers[i];
        const plan_multiview *multiview = replay_multiview_of(r, buffer);
        buffer->at.address = r->of->addresses[multiview->first].offset;
        buffer->at.first = plan_bytes_bound(&r->bytes, buffer->at.address);
        buffer->at.last = plan_bytes_bound(&r->bytes, buffer->at.address + multiview->bytes);
    }
}

typedef struct bound_list {
    uint64_t *items;
    size_t count, capacity;
} bound_list;

static bool add_bounds(replay *r, bound_list *list, const plan_address *address, uint64_t bytes) {
    if (!replay_in_map(address) || !bytes || !replay_in_space(r, address, bytes)) return true;
    uint64_t *items =
        base_arena_grow(&r->arena, list->items, &list->capacity, list->count + 2, sizeof *items);
    if (!items) return replay_fail_memory(r);
    list->items = items;
    items[list->count++] = replay_map_address(r, address);
    items[list->count++] = replay_map_address(r, address) + bytes;
    return true;
}

/* A constant that is one byte and not zero. */
static bool is_constant_true(const replay *r, uint32_t id) {
    const plan_tensor *tensor = &r->of->tensors[id];
    return tensor->address.space == MEMORY_CONSTANT && tensor->bytes == 1 &&
           r->of->constants[tensor->address.offset] != 0;
}

/* Whatever happens the loop runs *trips times: its condition holds always, and its trip count is a constant, or
 * absent; what it scans may be shorter. */
bool replay_is_certain(const replay *r, const plan_loop_form *form, uint64_t *trips) {
    bool begins = form->condition == PLAN_ABSENT || is_constant_true(r, form->condition);
    bool goes_on = form->results[0] == form->parameters[1] || is_constant_true(r, form->results[0]);
    int64_t count = INT64_MAX;
    if (!begins || !goes_on) return false;
    if (form->trip_count != PLAN_ABSENT) {
        const plan_tensor *tensor = &r->of->tensors[form->trip_count];
        if (tensor->address.space != MEMORY_CONSTANT || tensor->bytes != sizeof count) return false;
        memcpy(&count, r->of->constants + tensor->address.offset, sizeof count);
    }
    for (uint32_t i = 0; i < form->scan_inputs; i++) {
        const plan_tensor *whole = &r->of->tensors[form->initial[form->carried + i]];
        int32_t axis;
        if (whole->address.space == MEMORY_DYNAMIC || whole->rank < 0 ||
            !op_axis(plan_loop_axis(form, false, i), whole->rank, &axis))
            return false;
        int64_t extent = r->of->integers[whole->dims + (uint64_t)axis];
        if (extent < 0) return false;
        if (extent < count) count = extent;
    }
    *trips = count < 0 ? 0 : (uint64_t)count;
    return count != INT64_MAX;
}

/* All addresses that a tensor can have in the iterations that are replayed. */
static bool add_multiview_bounds(replay *r, bound_list *list, plan_address address, uint64_t bytes) {
    if (address.space != MEMORY_MULTIVIEW) return add_bounds(r, list, &address, bytes);
    const plan_multiview *multiview = &r->of->multiviews[address.index];
    /* What is in a swap buffer may come to lie in any of its group. */
    for (uint64_t v = 0; multiview->group && v < r->of->header->multiviews.count; v++) {
        const plan_multiview *other = &r->of->multiviews[v];
        plan_address there = r->of->addresses[other->first];
        if (!replay_spend(r, 1)) return false;
        if (other->loop != multiview->loop || other->group != multiview->group) continue;
        there.offset += address.offset;
        if (!add_bounds(r, list, &there, bytes)) return false;
    }
    uint64_t count = (uint64_t)multiview->prologue_count + multiview->period;
    if (multiview->stride) count = plan_loop_horizon(r->of, multiview->loop, MOST_ITERATIONS) + 1;
    if (count < REPLAYED_ITERATIONS + 1 && multiview->stride) count = REPLAYED_ITERATIONS + 1;
    /* Of a loop that certainly ends far away the last iterations are seen, too. */
    plan_loop_form form;
    uint64_t trips, later = UINT64_MAX;
    if (multiview->stride && plan_loop_form_read(r->of, &r->of->nodes[multiview->loop], &form) &&
        replay_is_certain(r, &form, &trips) && trips >= count) {
        later = trips - count > count ? trips - count : count;
    }
    for (uint64_t t = 0; t < count || (later != UINT64_MAX && later <= trips); t++) {
        plan_address entry = plan_multiview_entry(r->of, address.index, t < count ? t : later++);
        entry.offset += address.offset;
        if (!replay_spend(r, 1) || !add_multiview_bounds(r, list, entry, bytes)) return false;
    }
    return true;
}

static void place_span(replay *r, uint32_t id) {
    const plan_tensor *tensor = &r->of->tensors[id];
    uint64_t reservation = UINT64_MAX;
    if (!plan_tensor_reservation(r->of, id, &r->where[id]))
        r->where[id] = follow(r, tensor->address, &reservation);
    r->through[id] = reservation != UINT64_MAX;
    r->spans[id] = (span){0, 0, 0};
    if (!replay_in_map(&r->where[id]) || !tensor->bytes) return;
    r->spans[id].address = replay_map_address(r, &r->where[id]);
    if (!replay_in_space(r, &r->where[id], tensor->bytes) || tensor->bytes > reservation) {
        r->spans[id].first = r->spans[id].last = SIZE_MAX;
        return;
    }
    r->spans[id].first = plan_bytes_bound(&r->bytes, r->spans[id].address);
    r->spans[id].last = plan_bytes_bound(&r->bytes, r->spans[id].address + tensor->bytes);
}

/* The loop is in iteration t, or has run t times. */
bool replay_set_counter(replay *r, const plan_node *loop, uint64_t t) {
    r->counters[loop - r->of->nodes] = t;
    for (size_t i = 0; i < r->multiview_count; i++) place_span(r, r->multiviews[i]);
    return replay_spend(r, r->multiview_count);
}

bool replay_map_spans(replay *r) {
    const plan *of = r->of;
    size_t tensors = (size_t)of->header->tensors.count, nodes = (size_t)of->header->nodes.count;
    r->spans = BASE_ARRAY(&r->arena, span, tensors);
    r->where = BASE_ARRAY(&r->arena, plan_address, tensors);
    r->multiviews = BASE_ARRAY(&r->arena, uint32_t, tensors);
    r->counters = BASE_ARRAY(&r->arena, uint64_t, nodes + 1);
    r->running = BASE_ARRAY(&r->arena, bool, nodes + 1);
    r->swapping = BASE_ARRAY(&r->arena, bool, nodes + 1);
    r->through = BASE_ARRAY(&r->arena, bool, tensors);
    r->scratches = BASE_ARRAY(&r->arena, span, nodes);
    bound_list list = {0};
    if (!r->spans || !r->where || !r->multiviews || !r->counters || !r->running || !r->swapping ||
        !r->through || !r->scratches)
        return replay_fail_memory(r);
    for (size_t i = 0; i < r->buffer_count; i++) {
        const plan_multiview *multiview = &of->multiviews[r->buffers[i].multiview];
        if (!add_bounds(r, &list, &of->addresses[multiview->first], multiview->bytes)) return false;
    }
    for (size_t i = 0; i < tensors; i++) {
        if (of->tensors[i].address.space == MEMORY_MULTIVIEW)
            r->multiviews[r->multiview_count++] = (uint32_t)i;
        plan_address address;
        if (!plan_tensor_reservation(of, (uint32_t)i, &address)) address = of->tensors[i].address;
        if (!add_multiview_bounds(r, &list, address, of->tensors[i].bytes)) return false;
    }
    for (size_t i = 0; i < nodes; i++) {
        const plan_node *node = &of->nodes[i];
        if (!node->scratch_bytes) continue;
        r->scratches[i].address = node->scratch.offset;
        if (!add_bounds(r, &list, &node->scratch, node->scratch_bytes)) return false;
    }
    const uint64_t ends[] = {0, r->states};
    for (size_t i = 0; i < 2 && of->header->states.count; i++) {
        uint64_t *items =
            base_arena_grow(&r->arena, list.items, &list.capacity, list.count + 1, sizeof *items);
        if (!items) return replay_fail_memory(r);
        list.items = items;
        items[list.count++] = ends[i];
    }
    if (!plan_bytes_init(&r->bytes, &r->arena, list.items, list.count)) return replay_fail_memory(r);
    map_swap_buffers(r);
    for (size_t i = 0; i < tensors; i++) place_span(r, (uint32_t)i);
    for (size_t i = 0; i < nodes; i++) {
        if (!of->nodes[i].scratch_bytes) continue;
        r->scratches[i].first = plan_bytes_bound(&r->bytes, r->scratches[i].address);
        r->scratches[i].last =
            plan_bytes_bound(&r->bytes, r->scratches[i].address + of->nodes[i].scratch_bytes);
    }
    return true;
}

/* ---- swap buffers -------------------------------------------------------------------------------------- */

bool replay_check_apart(replay *r, const span *at, const char *what) {
    for (size_t i = 0; i < r->buffer_count; i++) {
        const swap_buffer *buffer = &r->buffers[i];
        if (!r->swapping[replay_multiview_of(r, buffer)->loop]) continue;
        if (!replay_spend(r, 1)) return false;
        if (at->first < buffer->at.last && buffer->at.first < at->last)
            return replay_fail(r,
                               "%s lies in multi-view %" PRIu32 ", a buffer that may be elsewhere by a swap",
                               what, buffer->multiview);
    }
    return true;
}

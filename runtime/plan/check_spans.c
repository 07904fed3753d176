/* SPDX-License-Identifier: Apache-2.0 */
/* check_spans.c: where tensors lie, in the verifier: the map of bytes, and addresses followed through multi-views; see
 * runtime/plan/check.c.
 */
#include "runtime/plan/replay.h"
#include "ir/base/sort.h"
#include <inttypes.h>
#include <string.h>

bool replay_in_map(const plan_address *address) {
    return address->space == MEMORY_ARENA || address->space == MEMORY_OUTPUT ||
           address->space == MEMORY_STATE || address->space == MEMORY_SPILL;
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
    r->spills = end;
    if (end > INT64_MAX || header->spill_bytes > INT64_MAX - end)
        return replay_fail(r, "its spill file is too large");
    r->states = end += header->spill_bytes;
    if (end > INT64_MAX || header->state_bytes > INT64_MAX - end)
        return replay_fail(r, "its states are too large");
    return true;
}

uint64_t replay_map_address(const replay *r, const plan_address *address) {
    return address->space == MEMORY_OUTPUT  ? r->outputs[address->index] + address->offset
           : address->space == MEMORY_STATE ? r->states + address->offset
           : address->space == MEMORY_SPILL ? r->spills + address->offset
                                            : address->offset;
}

plan_address replay_entry(const replay *r, uint32_t multiview) {
    const uint32_t loop = r->of->multiviews[multiview].loop;
    return plan_multiview_entry_of(r->of, multiview, r->counters[loop], r->trips[loop]);
}

plan_address replay_follow(const replay *r, plan_address address, uint64_t *reservation) {
    *reservation = UINT64_MAX;
    while (address.space == MEMORY_MULTIVIEW) {
        uint64_t offset = address.offset;
        const plan_multiview *multiview = &r->of->multiviews[address.index];
        if (multiview->group) *reservation = offset < multiview->bytes ? multiview->bytes - offset : 0;
        address = replay_entry(r, address.index);
        address.offset += offset;
    }
    return address;
}

plan_address replay_follow_running(const replay *r, plan_address address) {
    while (address.space == MEMORY_MULTIVIEW && r->running[r->of->multiviews[address.index].loop]) {
        uint64_t offset = address.offset;
        address = replay_entry(r, address.index);
        address.offset += offset;
    }
    return address;
}

plan_address replay_source(const replay *r, uint32_t id) {
    plan_address address;
    if (plan_tensor_reservation(r->of, id, &address)) return address;
    return replay_follow_running(r, r->of->tensors[id].address);
}

bool replay_in_space(const replay *r, const plan_address *address, uint64_t bytes) {
    uint64_t size = address->space == MEMORY_ARENA   ? r->of->header->arena_bytes
                    : address->space == MEMORY_STATE ? r->of->header->state_bytes
                    : address->space == MEMORY_SPILL
                        ? r->of->header->spill_bytes
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

/* Whatever happens the loop runs *trips times: its condition holds always, and its trip count is a constant, or
 * absent; what it scans may be shorter. */
bool replay_is_certain(const replay *r, const plan_loop_form *form, uint64_t *trips) {
    int64_t count = INT64_MAX;
    if (!plan_loop_is_counted(r->of, form)) return false;
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

/* ---- when multi-views repeat --------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts the list and leaves each item once; the number of them. */
static size_t sort_unique(void *items, size_t count, size_t size,
                          int (*compare)(const void *, const void *)) {
    char *list = items;
    size_t kept = 0;
    base_sort(list, count, size, compare);
    for (size_t i = 0; i < count; i++) {
        if (kept && compare(list + (kept - 1) * size, list + i * size) == 0) continue;
        memmove(list + kept++ * size, list + i * size, size);
    }
    return kept;
}

/* All periods come round together after their least common multiple. Where that is too long: what a step reads was written at
 * an address of one table, and may be written over at an address of another, so that all pairs of tables are to be seen in
 * all positions to each other, and then once more for as long as a table keeps a value. */
static bool find_period(replay *r, loop_periods *of) {
    uint32_t *periods = BASE_ARRAY(&r->arena, uint32_t, of->multiview_count + 1);
    uint64_t pairs = 1, longest = 1;
    if (!periods) return replay_fail_memory(r);
    of->multiple = of->from_end = 1;
    for (size_t i = 0; i < of->multiview_count; i++) {
        const plan_multiview *multiview = &r->of->multiviews[of->multiviews[i]];
        periods[i] = multiview->period;
        if (multiview->period > longest) longest = multiview->period;
        if (multiview->prologue_count > of->prologue) of->prologue = multiview->prologue_count;
        if (multiview->from_end && of->from_end <= MOST_ITERATIONS)
            of->from_end = base_lcm(of->from_end, multiview->period);
    }
    if (of->from_end > longest) longest = of->from_end;
    if (of->from_end > 1)
        periods[of->multiview_count] = (uint32_t)of->from_end; /* each of its rests is seen */
    const size_t count =
        sort_unique(periods, of->multiview_count + (of->from_end > 1), sizeof *periods, compare_numbers);
    for (size_t i = 0; i < count; i++) {
        if (of->multiple) of->multiple = base_lcm(of->multiple, periods[i]);
        if (of->multiple > UINT32_MAX) of->multiple = 0;
        for (size_t k = 0; k < i && pairs <= MOST_ITERATIONS; k++) {
            const uint64_t pair = base_lcm(periods[i], periods[k]);
            if (pair > pairs) pairs = pair;
            if (!replay_spend(r, 1)) return false;
        }
    }
    if (pairs < longest) pairs = longest;
    of->horizon = of->prologue + 2 * of->multiple + 1;
    if (!of->multiple || of->horizon > MOST_ITERATIONS) of->horizon = of->prologue + 2 * pairs + longest + 1;
    if (of->horizon > MOST_ITERATIONS) of->horizon = 0;
    return replay_spend(r, of->multiview_count);
}

/* Entries lie in multi-views of the loop around the model, of loops with smaller numbers, or in swap buffers of the same loop: in
 * this order they are known before they are needed. */
static size_t rank_of(const plan *of, const plan_multiview *multiview) {
    return multiview->loop == plan_run_loop(of) ? 0 : 2 * ((size_t)multiview->loop + 1) + !multiview->group;
}

bool replay_find_periods(replay *r) {
    const plan *of = r->of;
    const size_t count = (size_t)of->header->multiviews.count, loops = (size_t)of->header->nodes.count + 1;
    size_t *ends = BASE_ARRAY(&r->arena, size_t, 2 * loops + 1);
    uint32_t *order = BASE_ARRAY(&r->arena, uint32_t, count);
    r->periods = BASE_ARRAY(&r->arena, loop_periods, loops);
    r->order = order;
    if (!ends || !order || !r->periods) return replay_fail_memory(r);
    for (size_t v = 0; v < count; v++) ends[rank_of(of, &of->multiviews[v]) + 1]++;
    for (size_t k = 0; k < 2 * loops; k++) ends[k + 1] += ends[k];
    for (size_t v = 0; v < count; v++) order[ends[rank_of(of, &of->multiviews[v])]++] = (uint32_t)v;
    for (size_t i = 0; i < loops; i++) { /* those of one loop follow each other, and so do the loops */
        const size_t rank = i + 1 == loops ? 0 : 2 * (i + 1), first = rank ? ends[rank - 1] : 0;
        r->periods[i].multiviews = order + first;
        r->periods[i].multiview_count = ends[rank + 1] - first;
        if (!find_period(r, &r->periods[i])) return false;
    }
    return true;
}

/* ---- what multi-views lead to -------------------------------------------------------------------------- */

/* What a multi-view can lead to, in the iterations that are replayed: addresses in the map, and the loops on whose counters
 * it depends, both ascending, once each. */
typedef struct lead {
    plan_address *addresses;
    uint32_t *loops;
    size_t address_count, address_capacity, loop_count, loop_capacity;
} lead;

static int compare_addresses(const void *a, const void *b) {
    const plan_address *x = a, *y = b;
    if (x->space != y->space) return x->space < y->space ? -1 : 1;
    if (x->index != y->index) return x->index < y->index ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool lead_to_address(replay *r, lead *to, plan_address address) {
    if (!replay_in_map(&address)) return true;
    plan_address *items = base_arena_grow(&r->arena, to->addresses, &to->address_capacity,
                                          to->address_count + 1, sizeof *items);
    if (!items) return replay_fail_memory(r);
    to->addresses = items;
    items[to->address_count++] = address;
    return replay_spend(r, 1);
}

static bool lead_to_loop(replay *r, lead *to, uint32_t loop) {
    uint32_t *items =
        base_arena_grow(&r->arena, to->loops, &to->loop_capacity, to->loop_count + 1, sizeof *items);
    if (!items) return replay_fail_memory(r);
    to->loops = items;
    items[to->loop_count++] = loop;
    return replay_spend(r, 1);
}

/* The entry, or what it leads to. */
static bool lead_to_entry(replay *r, lead *to, const lead *leads, plan_address entry) {
    if (entry.space != MEMORY_MULTIVIEW) return lead_to_address(r, to, entry);
    const lead *from = &leads[entry.index];
    for (size_t i = 0; i < from->address_count; i++) {
        plan_address address = from->addresses[i];
        address.offset += entry.offset;
        if (!lead_to_address(r, to, address)) return false;
    }
    for (size_t i = 0; i < from->loop_count; i++)
        if (!lead_to_loop(r, to, from->loops[i])) return false;
    return true;
}

/* What is in a swap buffer may come to lie in any of its group. */
static bool lead_to_group(replay *r, lead *to, const plan_multiview *multiview) {
    for (size_t i = 0; i < r->buffer_count; i++) {
        const plan_multiview *other = replay_multiview_of(r, &r->buffers[i]);
        if (!replay_spend(r, 1)) return false;
        if (other->loop == multiview->loop && other->group == multiview->group &&
            !lead_to_address(r, to, r->of->addresses[other->first]))
            return false;
    }
    return true;
}

/* Those before it in the order are known: entries lie in multi-views of loops with smaller numbers, or in swap buffers of
 * the same loop. */
static bool find_lead(replay *r, lead *leads, uint32_t v) {
    const plan_multiview *multiview = &r->of->multiviews[v];
    lead *to = &leads[v];
    uint64_t count = (uint64_t)multiview->prologue_count + multiview->period;
    const uint64_t horizon = r->periods[multiview->loop].horizon;
    if (multiview->stride) count = (horizon ? horizon : MOST_ITERATIONS) + 1;
    if (count < REPLAYED_ITERATIONS + 1 && multiview->stride) count = REPLAYED_ITERATIONS + 1;
    /* Of a loop that certainly ends far away the last iterations are seen, too. */
    plan_loop_form form;
    uint64_t trips, later = UINT64_MAX;
    if (multiview->stride && plan_loop_form_read(r->of, &r->of->nodes[multiview->loop], &form) &&
        replay_is_certain(r, &form, &trips) && trips >= count) {
        later = trips - count > count ? trips - count : count;
    }
    if (!lead_to_loop(r, to, multiview->loop) || (multiview->group && !lead_to_group(r, to, multiview)))
        return false;
    for (uint64_t t = 0; t < count || (later != UINT64_MAX && later <= trips); t++) {
        const plan_address entry = plan_multiview_entry(r->of, v, t < count ? t : later++);
        if (!replay_spend(r, 1) || !lead_to_entry(r, to, leads, entry)) return false;
    }
    to->address_count =
        sort_unique(to->addresses, to->address_count, sizeof *to->addresses, compare_addresses);
    to->loop_count = sort_unique(to->loops, to->loop_count, sizeof *to->loops, compare_numbers);
    return true;
}

static bool find_leads(replay *r, lead **found) {
    const size_t count = (size_t)r->of->header->multiviews.count;
    lead *leads = BASE_ARRAY(&r->arena, lead, count);
    if (!leads) return replay_fail_memory(r);
    for (size_t i = 0; i < count; i++)
        if (!find_lead(r, leads, r->order[i])) return false;
    *found = leads;
    return true;
}

/* All addresses that a tensor can have. */
static bool add_tensor_bounds(replay *r, bound_list *list, const lead *leads, plan_address address,
                              uint64_t bytes) {
    if (address.space != MEMORY_MULTIVIEW) return add_bounds(r, list, &address, bytes);
    const lead *to = &leads[address.index];
    for (size_t i = 0; i < to->address_count; i++) {
        plan_address there = to->addresses[i];
        there.offset += address.offset;
        if (!replay_spend(r, 1) || !add_bounds(r, list, &there, bytes)) return false;
    }
    return true;
}

/* The tensor is placed anew when the counter of any of these loops changes. */
static bool add_dependent(replay *r, const lead *to, uint32_t id) {
    for (size_t i = 0; i < to->loop_count; i++) {
        dependent_list *list = &r->dependents[to->loops[i]];
        uint32_t *items =
            base_arena_grow(&r->arena, list->items, &list->capacity, list->count + 1, sizeof *items);
        if (!items) return replay_fail_memory(r);
        list->items = items;
        items[list->count++] = id;
    }
    return replay_spend(r, to->loop_count);
}

void replay_place(replay *r, uint32_t id) {
    const plan_tensor *tensor = &r->of->tensors[id];
    uint64_t reservation = UINT64_MAX;
    if (!plan_tensor_reservation(r->of, id, &r->where[id]))
        r->where[id] = replay_follow(r, tensor->address, &reservation);
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
    const dependent_list *dependents = &r->dependents[loop - r->of->nodes];
    r->counters[loop - r->of->nodes] = t;
    for (size_t i = 0; i < dependents->count; i++) replay_place(r, dependents->items[i]);
    return replay_spend(r, 1 + dependents->count);
}

bool replay_map_spans(replay *r) {
    const plan *of = r->of;
    size_t tensors = (size_t)of->header->tensors.count, nodes = (size_t)of->header->nodes.count;
    r->spans = BASE_ARRAY(&r->arena, span, tensors);
    r->where = BASE_ARRAY(&r->arena, plan_address, tensors);
    r->dependents = BASE_ARRAY(&r->arena, dependent_list, nodes + 1);
    r->counters = BASE_ARRAY(&r->arena, uint64_t, nodes + 1);
    r->trips = BASE_ARRAY(&r->arena, uint64_t, nodes + 1);
    r->running = BASE_ARRAY(&r->arena, bool, nodes + 1);
    r->swapping = BASE_ARRAY(&r->arena, bool, nodes + 1);
    r->through = BASE_ARRAY(&r->arena, bool, tensors);
    r->scratches = BASE_ARRAY(&r->arena, span, nodes);
    bound_list list = {0};
    if (!r->spans || !r->where || !r->dependents || !r->counters || !r->trips || !r->running ||
        !r->swapping || !r->through || !r->scratches)
        return replay_fail_memory(r);
    for (size_t i = 0; i < r->buffer_count; i++) {
        const plan_multiview *multiview = &of->multiviews[r->buffers[i].multiview];
        if (!add_bounds(r, &list, &of->addresses[multiview->first], multiview->bytes)) return false;
    }
    lead *leads = NULL;
    if (!find_leads(r, &leads)) return false;
    for (size_t i = 0; i < tensors; i++) {
        plan_address address;
        if (!plan_tensor_reservation(of, (uint32_t)i, &address)) address = of->tensors[i].address;
        if (!add_tensor_bounds(r, &list, leads, address, of->tensors[i].bytes)) return false;
        if (of->tensors[i].address.space == MEMORY_MULTIVIEW &&
            !add_dependent(r, &leads[of->tensors[i].address.index], (uint32_t)i))
            return false;
    }
    for (size_t i = 0; i < nodes; i++) {
        const plan_node *node = &of->nodes[i];
        if (!node->scratch_bytes) continue;
        r->scratches[i].address = node->scratch.offset;
        if (!add_bounds(r, &list, &node->scratch, node->scratch_bytes)) return false;
    }
    for (uint64_t i = 0; i < of->header->states.count; i++) {
        const plan_address at = {MEMORY_STATE, 0, of->states[i].offset};
        if (!add_bounds(r, &list, &at, of->states[i].bytes)) return false;
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
    for (size_t i = 0; i < tensors; i++) replay_place(r, (uint32_t)i);
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

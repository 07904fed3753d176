/* SPDX-License-Identifier: Apache-2.0 */
/* check_control.c: branches and loops in the verifier; see runtime/plan/check.c and docs/LOOPS.md.
 *
 * A loop is replayed with every address as its counter says, and left after each iteration after which it can end;
 * one that certainly ends far away skips whole periods in between.
 */
#include "runtime/plan/replay.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- control ------------------------------------------------------------------------------------------- */

/* The tensor's address changes with the iterations of this very loop: nothing is ever moved there. */
static bool is_moving(const replay *r, const plan_node *node, uint32_t id) {
    const plan_address *address = &r->of->tensors[id].address;
    return address->space == MEMORY_MULTIVIEW &&
           r->of->multiviews[address->index].loop == (uint32_t)(node - r->of->nodes);
}

/* The output is there, if the loop ends so. */
static bool put_end(replay *r, phase_list *ends, const phase *end) {
    /* Mostly they come in the table's order. */
    uint64_t at = end->entry < ends->count && ends->items[end->entry].entry == end->entry ? end->entry : 0;
    if (!replay_spend(r, 1)) return false;
    while (at < ends->count && (ends->items[at].entry != end->entry || ends->items[at].of != end->of)) at++;
    if (at == ends->count) {
        phase *items =
            base_arena_grow(&r->arena, ends->items, &ends->capacity, (size_t)ends->count + 1, sizeof *items);
        if (!items) return replay_fail_memory(r);
        ends->items = items;
        ends->count++;
    }
    ends->items[at] = *end;
    return true;
}

/* An output that the If left where it was: in one of two places, as the branches found it there. */
static bool add_branch_phase(replay *r, uint32_t output, uint64_t branch, phase_list *places) {
    const phase here = {
        branch, 0, r->where[output], r->spans[output], r->through[output], r->contents[output]};
    return put_end(r, places, &here);
}

bool replay_if(replay *r, const plan_node *node) {
    const uint32_t *outputs = r->of->tensor_ids + node->outputs;
    const size_t index = (size_t)(node - r->of->nodes);
    size_t since = r->written_count;
    phase_list *places = BASE_ARRAY(&r->arena, phase_list, (size_t)node->output_count);
    if (!places) return replay_fail_memory(r);
    for (uint64_t i = 0; i < node->output_count; i++)
        if (outputs[i] != PLAN_ABSENT && is_moving(r, node, outputs[i])) r->phases[outputs[i]].count = 0;
    if (!replay_verify(r, r->of->tensor_ids[node->inputs])) return false;
    for (uint32_t g = 0; g < 2; g++) {
        const plan_graph *branch = &r->of->graphs[node->first_graph + g];
        size_t mark = plan_bytes_mark(&r->bytes);
        r->epochs[node->first_graph + g] = ++r->epoch;
        r->running[index] = true;
        bool valid = replay_set_counter(r, node, g) && r->graph(r, node->first_graph + g);
        r->node = node;
        for (uint64_t i = 0; valid && i < node->output_count; i++) {
            if (outputs[i] != PLAN_ABSENT)
                valid = replay_move(r, r->of->tensor_ids[branch->results + i], outputs[i]);
        }
        valid = valid && replay_verify_all(r, outputs, node->output_count);
        for (uint64_t i = 0; valid && i < node->output_count; i++)
            if (outputs[i] != PLAN_ABSENT && is_moving(r, node, outputs[i]))
                valid = add_branch_phase(r, outputs[i], g, &places[i]);
        r->running[index] = false;
        plan_bytes_take_back(&r->bytes, mark);
        if (!valid) return false;
    }
    for (uint64_t i = 0; i < node->output_count; i++)
        if (places[i].count) r->phases[outputs[i]] = places[i];
    return replay_join(r, since, outputs, node->output_count);
}

/* Carried value `index` grows where its output lies. */
static bool is_grown_in(const replay *r, const plan_loop_form *form, uint32_t index) {
    uint32_t output = form->outputs[index];
    return output != PLAN_ABSENT && !replay_is_dynamic(r, output) &&
           plan_loop_grows(r->of, form, index, NULL);
}

/* The loop ends here: its outputs must be what the parameters are. */
static bool replay_exit(replay *r, const plan_node *node, const plan_loop_form *form) {
    size_t mark = plan_bytes_mark(&r->bytes);
    bool valid = true;
    for (uint32_t i = 0; valid && i < form->carried; i++) {
        uint32_t parameter = form->parameters[2 + i], output = form->outputs[i];
        if (output == PLAN_ABSENT || is_grown_in(r, form, i)) continue; /* it is there already */
        if (plan_swap_buffer(r->of, (uint32_t)(node - r->of->nodes), i, parameter) != PLAN_ABSENT) continue;
        if (is_moving(r, node, output) && !replay_is_same_place(r, parameter, output)) {
            valid =
                replay_fail(r, "output \"%s\" does not lie where the parameter \"%s\" is when the loop ends",
                            replay_name_of(r, output), replay_name_of(r, parameter));
        } else {
            valid = replay_move(r, parameter, output);
        }
    }
    valid = valid && replay_swap(r, node, form) && replay_verify_all(r, form->outputs, node->output_count);
    plan_bytes_take_back(&r->bytes, mark);
    for (uint32_t i = 0; valid && i < form->carried; i++) {
        uint32_t output = form->outputs[i];
        if (output == PLAN_ABSENT || !is_moving(r, node, output)) continue;
        const plan_multiview *multiview = &r->of->multiviews[r->of->tensors[output].address.index];
        uint64_t k = r->counters[node - r->of->nodes];
        uint64_t which =
            k < multiview->prologue_count
                ? k
                : multiview->prologue_count + (k - multiview->prologue_count) % multiview->period;
        const phase_list *phases = &r->phases[output];
        phase here = {which, 0, r->where[output], r->spans[output], r->through[output], r->contents[output]};
        if (!phases->count) valid = put_end(r, &r->ends[i], &here);
        for (uint64_t j = 0; j < phases->count && valid; j++) {
            const phase *from = &phases->items[j];
            here = (phase){which, j + 1, from->where, from->at, from->through, from->is};
            valid = put_end(r, &r->ends[i], &here);
        }
    }
    return valid;
}

/* Capacity for the places of outputs that are multi-views. */
static bool make_ends(replay *r, const plan_node *node, const plan_loop_form *form, phase_list **ends) {
    *ends = BASE_ARRAY(&r->arena, phase_list, form->carried);
    if (!*ends) return replay_fail_memory(r);
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t output = form->outputs[i];
        if (output == PLAN_ABSENT || !is_moving(r, node, output)) continue;
        r->phases[output].count = 0;
    }
    return true;
}

/* Where outputs that are multi-views may be when a loop has ended, and those that lie in one place for good. */
typedef struct end_places {
    output_span *fixed; /* that lie in no other, in order */
    size_t fixed_count;
    struct seen_end {
        uint32_t output;
        uint64_t end; /* of its ends */
        size_t next;  /* that begins there too, from 1; 0: none */
    } * seen;
    size_t seen_count, seen_capacity;
    size_t *first; /* by interval of the map: the first of `seen` that begins there, from 1 */
} end_places;

static bool find_fixed(replay *r, const plan_node *node, const plan_loop_form *form, end_places *places) {
    places->fixed = BASE_ARRAY(&r->arena, output_span, form->carried);
    places->first = BASE_ARRAY(&r->arena, size_t, r->bytes.bound_count);
    if (!places->fixed || !places->first) return replay_fail_memory(r);
    for (uint32_t i = 0; i < form->carried; i++) {
        const uint32_t output = form->outputs[i];
        if (output == PLAN_ABSENT || is_moving(r, node, output) || !replay_in_map(&r->where[output]))
            continue;
        const span *at = &r->spans[output];
        if (at->first < at->last)
            places->fixed[places->fixed_count++] = (output_span){at->first, at->last, output};
    }
    places->fixed_count = replay_find_containers(places->fixed, places->fixed_count, NULL);
    return replay_spend(r, form->carried + r->bytes.bound_count);
}

/* The output that lies there for good, or around it; PLAN_ABSENT: none does. */
static uint32_t fixed_around(const end_places *places, const span *at) {
    size_t low = 0, high = places->fixed_count; /* those before `low` begin before it does, or with it */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (places->fixed[middle].begin <= at->first) low = middle + 1;
        else high = middle;
    }
    return low && at->last <= places->fixed[low - 1].end ? (uint32_t)places->fixed[low - 1].index
                                                         : PLAN_ABSENT;
}

/* The first end that was seen in this very place; NULL: none was. */
static const phase *seen_there(const end_places *places, const phase_list *ends, const span *at) {
    const phase *found = NULL;
    for (size_t i = places->first[at->first]; i; i = places->seen[i - 1].next) {
        const phase *end = &ends[places->seen[i - 1].output].items[places->seen[i - 1].end];
        if (end->at.first == at->first && end->at.last == at->last)
            found = end; /* they stand last to first */
    }
    return found;
}

static bool add_seen(replay *r, end_places *places, const phase_list *ends, uint32_t output, uint64_t end) {
    const span *at = &ends[output].items[end].at;
    if (at->first >= at->last || at->last > r->bytes.bound_count || seen_there(places, ends, at)) return true;
    struct seen_end *items = base_arena_grow(&r->arena, places->seen, &places->seen_capacity,
                                             places->seen_count + 1, sizeof *items);
    if (!items) return replay_fail_memory(r);
    places->seen = items;
    items[places->seen_count++] = (struct seen_end){output, end, places->first[at->first]};
    places->first[at->first] = places->seen_count;
    return replay_spend(r, 1);
}

/* What lies in a place that the loop wrote. */
static bool finish_end(replay *r, const plan_loop_form *form, end_places *places, phase_list *ends,
                       uint32_t i, uint64_t k) {
    phase *end = &ends[i].items[k];
    const uint32_t output = form->outputs[i];
    /* Another output may lie there for good, or around it: at every end both were seen to be there. */
    const uint32_t other = fixed_around(places, &end->at);
    if (other != PLAN_ABSENT)
        return replay_content_part(r, &r->contents[other], end->at.address - r->spans[other].address,
                                   r->of->tensors[output].bytes, &end->is);
    const phase *same = seen_there(places, ends, &end->at);
    if (same) {
        end->is = same->is;
        return true;
    }
    uint64_t identity;
    if (!replay_new_identity(r, output, &identity)) return false;
    end->is = replay_content_of(identity, 0, r->of->tensors[output].bytes);
    return replay_write_span(r, end->at.first, end->at.last, (plan_bytes_tag){identity, end->at.address});
}

/* After the loop an output that is a multi-view is in any of its places: a place that the loop wrote holds one
 * identity, whichever outputs lie there after whichever number of iterations; what it did not touch (initial
 * values) is as it was. */
static bool finish_ends(replay *r, const plan_node *node, const plan_loop_form *form, phase_list *ends,
                        size_t since) {
    end_places places = {0};
    bool moving = false;
    if (!replay_merge_written(r, since)) return false;
    const size_t until = r->written_count;
    if (!replay_end_swaps(r, node, since)) return false;
    for (uint32_t i = 0; i < form->carried; i++)
        moving |= form->outputs[i] != PLAN_ABSENT && is_moving(r, node, form->outputs[i]);
    if (!moving) return true;
    if (!find_fixed(r, node, form, &places)) return false;
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t output = form->outputs[i];
        if (output == PLAN_ABSENT || !is_moving(r, node, output)) continue;
        for (uint64_t k = 0; k < ends[i].count; k++) {
            const phase *end = &ends[i].items[k];
            if (!replay_own_buffer(r, node, end) && replay_was_written(r, since, until, &end->at) &&
                !finish_end(r, form, &places, ends, i, k))
                return false;
            if (!add_seen(r, &places, ends, i, k)) return false;
        }
        if (!replay_spread(r, node, &ends[i], r->of->tensors[output].bytes)) return false;
        for (uint64_t k = 0; k < ends[i].count; k++)
            if (!add_seen(r, &places, ends, i, k)) return false;
        replay_define(r, output, r->contents[output]);
        r->phases[output] = ends[i];
    }
    return true;
}

/* Slices along this axis lie one after another: all extents before it are 1. */
static bool lie_together(const replay *r, uint32_t whole, int64_t axis) {
    const plan_tensor *tensor = &r->of->tensors[whole];
    int32_t normal;
    if (tensor->rank < 0 || !op_axis(axis, tensor->rank, &normal)) return false;
    for (int32_t d = 0; d < normal; d++)
        if (r->of->integers[tensor->dims + (uint64_t)d] != 1) return false;
    return true;
}

/* Where slice t begins in the whole, in bytes, where slices lie together. */
static uint64_t slice_offset(const replay *r, const plan_loop_form *form, bool output, uint32_t index,
                             uint32_t whole, uint32_t slice, uint64_t t) {
    uint64_t bytes = r->of->tensors[slice].bytes, count = bytes ? r->of->tensors[whole].bytes / bytes : 0;
    return (plan_loop_backwards(form, output, index) ? count - 1 - t : t) * bytes;
}

/* The slice is these bytes of the whole, so that nothing is copied. */
static bool lies_in_whole(const replay *r, const plan_loop_form *form, bool output, uint32_t index,
                          uint32_t whole, uint32_t slice, uint64_t t) {
    if (replay_is_dynamic(r, whole) || replay_is_dynamic(r, slice) || !r->of->tensors[slice].bytes)
        return false;
    if (!lie_together(r, whole, plan_loop_axis(form, output, index)) ||
        r->of->tensors[whole].layout != OP_LAYOUT_ROW_MAJOR ||
        r->of->tensors[slice].layout != OP_LAYOUT_ROW_MAJOR) {
        return false;
    }
    plan_address at = replay_source(r, whole), of_slice = replay_source(r, slice);
    const uint64_t offset = slice_offset(r, form, output, index, whole, slice, t),
                   bytes = r->of->tensors[whole].bytes;
    if (offset > bytes || r->of->tensors[slice].bytes > bytes - offset) return false; /* so many do not fit */
    at.offset += offset;
    return replay_is_same_address(&at, &of_slice);
}

/* What a replacement is, between two iterations. */
typedef struct handed_value {
    content before; /* what it is when the iteration ends, and nothing has been moved */
    content is;
    phase_list phases;
    plan_address place;
} handed_value;

/* Of a loop that is replayed. */
typedef struct loop_scratch {
    handed_value *handed; /* by carried value */
    output_span *results; /* carried and stacked ones, by where they lie in this iteration */
    size_t result_count;
} loop_scratch;

static bool make_scratch(replay *r, const plan_loop_form *form, loop_scratch *scratch) {
    *scratch =
        (loop_scratch){.handed = BASE_ARRAY(&r->arena, handed_value, form->carried),
                       .results = BASE_ARRAY(&r->arena, output_span, form->carried + form->scan_outputs)};
    return (scratch->handed && scratch->results) || replay_fail_memory(r);
}

static bool is_same_content(const content *a, const content *b) {
    return a->count == b->count && a->many == b->many && a->one.identity == b->one.identity &&
           a->one.offset == b->one.offset && a->one.length == b->one.length;
}

/* The parameters change all at once, but what is copied is copied one after another: a replacement that is a parameter itself
 * may by then hold its own replacement. */
static bool check_moved_at_once(replay *r, const handed_value *handed, uint32_t result) {
    return is_same_content(&handed->before, &r->contents[result]) ||
           replay_fail(r, "\"%s\" is replaced before it is handed on", replay_name_of(r, result));
}

/* At the end of iteration t the replacements become the parameters of the next. */
static bool hand_on(replay *r, const plan_node *node, const plan_loop_form *form, loop_scratch *scratch,
                    uint64_t t) {
    for (uint32_t i = 0; i < form->carried; i++)
        scratch->handed[i].before = r->contents[form->results[1 + i]];
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t result = form->results[1 + i], parameter = form->parameters[2 + i];
        if (!check_moved_at_once(r, &scratch->handed[i], result)) return false;
        if (!is_moving(r, node, parameter)) {
            if (!replay_move(r, result, parameter)) return false;
            continue;
        }
        if (!replay_verify(r, result) || !replay_content_of_tensor(r, result, &scratch->handed[i].is))
            return false;
        scratch->handed[i].place = replay_source(r, result);
        scratch->handed[i].phases = r->phases[result];
    }
    if (!replay_set_counter(r, node, t + 1)) return false;
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t parameter = form->parameters[2 + i];
        if (!is_moving(r, node, parameter)) continue;
        plan_address at = replay_source(r, parameter);
        if (!replay_is_same_address(&scratch->handed[i].place, &at)) {
            return replay_fail(
                r, "parameter \"%s\" does not lie where its replacement was made in iteration %" PRIu64,
                replay_name_of(r, parameter), t);
        }
        replay_define(r, parameter, scratch->handed[i].is);
        r->phases[parameter] = scratch->handed[i].phases;
    }
    return true;
}

/* Where the results of this iteration lie, in order. */
static bool sort_results(replay *r, const plan_loop_form *form, loop_scratch *scratch) {
    scratch->result_count = 0;
    for (uint32_t i = 0; i < form->carried + form->scan_outputs; i++) {
        const uint32_t result = form->results[1 + i];
        if (replay_is_dynamic(r, result) || !replay_in_map(&r->where[result]) ||
            !r->of->tensors[result].bytes)
            continue;
        const span *at = &r->spans[result];
        scratch->results[scratch->result_count++] = (output_span){at->first, at->last, result};
    }
    replay_sort_outputs(scratch->results, scratch->result_count);
    return replay_spend(r, form->carried + form->scan_outputs);
}

/* The slice that iteration t has made where it belongs: from now on these bytes are the stacked output's, also in
 * the eyes of the other results that lie in them. */
static bool adopt_slice(replay *r, const plan_loop_form *form, const loop_scratch *scratch, uint32_t index,
                        uint64_t t) {
    uint32_t whole = form->outputs[form->carried + index], slice = form->results[1 + form->carried + index];
    uint64_t offset = slice_offset(r, form, true, index, whole, slice, t),
             identity = r->contents[whole].one.identity;
    const span at = r->spans[slice];
    size_t low = 0, high = scratch->result_count; /* those before `low` begin before the slice */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (scratch->results[middle].begin < at.first) low = middle + 1;
        else high = middle;
    }
    /* One value may be several results: first look at all, then change what they are. */
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (size_t i = low; i < scratch->result_count && scratch->results[i].begin < at.last; i++) {
            const uint32_t result = (uint32_t)scratch->results[i].index;
            if (scratch->results[i].end > at.last) continue;
            if (pass == 0 && !replay_verify(r, result)) return false;
            if (pass == 1)
                replay_define(r, result,
                              replay_content_of(identity, offset + (r->spans[result].address - at.address),
                                                r->of->tensors[result].bytes));
        }
    }
    return replay_write_span(r, at.first, at.last, (plan_bytes_tag){identity, r->spans[whole].address});
}

static bool replay_iteration(replay *r, const plan_node *node, const plan_loop_form *form,
                             loop_scratch *scratch, uint64_t t) {
    const uint32_t *stacked = form->outputs + form->carried, *slices = form->results + 1 + form->carried;
    for (uint32_t i = 0; i < 2; i++) {
        if (!replay_write(r, form->parameters[i])) return false;
    }
    for (uint32_t i = 0; i < form->scan_inputs; i++) {
        uint32_t whole = form->initial[form->carried + i], slice = form->parameters[2 + form->carried + i];
        if (!replay_verify(r, whole)) return false;
        if (!lies_in_whole(r, form, false, i, whole, slice, t)) {
            /* It is copied: from bytes that it may not be in. */
            if (replay_do_overlap(r, whole, slice))
                return replay_fail(r, "slice \"%s\" lies in what it is copied from", replay_name_of(r, slice));
            if (!replay_write(r, slice)) return false;
            continue;
        }
        if (!replay_define_part(r, whole, slice_offset(r, form, false, i, whole, slice, t), slice) ||
            !replay_verify(r, slice))
            return false;
    }
    if (!r->graph(r, form->body)) return false;
    r->node = node;
    if (!replay_verify(r, form->results[0])) return false;
    if (form->scan_outputs && !sort_results(r, form, scratch)) return false;
    for (uint32_t i = 0; i < form->scan_outputs; i++) {
        if (stacked[i] == PLAN_ABSENT) continue;
        if (!replay_verify(r, slices[i])) return false;
        if (lies_in_whole(r, form, true, i, stacked[i], slices[i], t)) {
            if (!adopt_slice(r, form, scratch, i, t)) return false;
        }
        if (!replay_verify_all(r, &stacked[i], 1)) return false;
        if (!lies_in_whole(r, form, true, i, stacked[i], slices[i], t) &&
            replay_do_overlap(r, slices[i], stacked[i])) {
            return replay_fail(r, "slice \"%s\" lies in its stacked output", replay_name_of(r, slices[i]));
        }
    }
    for (uint32_t i = 0; i < form->carried; i++) {
        if (is_grown_in(r, form, i) && !replay_verify_all(r, &form->outputs[i], 1)) return false;
    }
    return hand_on(r, node, form, scratch, t);
}

/* How many iterations show all there is to see; fewer where what is scanned or stacked has fewer slices. */
static uint64_t replayed_iterations(const replay *r, const plan_node *node, const plan_loop_form *form) {
    uint64_t count = r->periods[node - r->of->nodes].horizon;
    if (!count) count = MOST_ITERATIONS;
    if (count < REPLAYED_ITERATIONS) count = REPLAYED_ITERATIONS;
    for (uint32_t i = 0; i < form->scan_inputs + form->scan_outputs; i++) {
        bool output = i >= form->scan_inputs;
        uint32_t at = output ? i - form->scan_inputs : i;
        uint32_t whole = output ? form->outputs[form->carried + at] : form->initial[form->carried + at];
        uint32_t slice =
            output ? form->results[1 + form->carried + at] : form->parameters[2 + form->carried + at];
        if (whole == PLAN_ABSENT || replay_is_dynamic(r, whole) || replay_is_dynamic(r, slice) ||
            !is_moving(r, node, slice))
            continue;
        uint64_t bytes = r->of->tensors[slice].bytes,
                 slices = bytes ? r->of->tensors[whole].bytes / bytes : 0;
        if (slices < count) count = slices;
    }
    return count;
}

/* The tensor lies within the bytes of `whole`, as far as these are known: what is there? */
static bool content_within(replay *r, uint32_t whole, uint32_t id, content *is) {
    const plan_address *at = &r->where[id], *from = &r->where[whole];
    uint64_t bytes = r->of->tensors[id].bytes, all = r->of->tensors[whole].bytes;
    bool one = at->space == MEMORY_ARENA || at->space == MEMORY_CONSTANT || at->space == MEMORY_STATE;
    content of_whole;
    if (replay_is_dynamic(r, whole) || at->space != from->space || (!one && at->index != from->index))
        return false;
    if (at->offset < from->offset || at->offset - from->offset > all ||
        bytes > all - (at->offset - from->offset))
        return false;
    return replay_content_of_tensor(r, whole, &of_whole) &&
           replay_content_part(r, &of_whole, at->offset - from->offset, bytes, is);
}

/* From here on to iteration t everything goes on as before: all multi-views are where they were a multiple of their
 * periods ago, but for those that move on with every iteration, through what is scanned or stacked. */
static bool skip_to(replay *r, const plan_node *node, const plan_loop_form *form, uint64_t t) {
    if (!replay_set_counter(r, node, t)) return false;
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t parameter = form->parameters[2 + i];
        content is;
        bool found = false;
        if (!is_moving(r, node, parameter) ||
            !r->of->multiviews[r->of->tensors[parameter].address.index].stride)
            continue;
        for (uint32_t k = 0; k < form->scan_inputs + form->scan_outputs && !found; k++) {
            uint32_t whole = k < form->scan_inputs ? form->initial[form->carried + k]
                                                   : form->outputs[form->carried + k - form->scan_inputs];
            found = whole != PLAN_ABSENT && content_within(r, whole, parameter, &is);
        }
        if (!found)
            return replay_fail(r, "parameter \"%s\" moves through no slices", replay_name_of(r, parameter));
        replay_define(r, parameter, is);
    }
    return true;
}

/* When a loop that is replayed ends. */
typedef struct loop_end {
    uint64_t count; /* iterations that show all there is to see */
    uint64_t last;  /* iterations that are replayed */
    uint64_t trips; /* how many run, where that is certain */
    bool certain;
} loop_end;

static bool find_end(replay *r, const plan_node *node, const plan_loop_form *form, loop_end *end) {
    const loop_periods *periods = &r->periods[node - r->of->nodes];
    end->count = end->last = replayed_iterations(r, node, form);
    end->certain = replay_is_certain(r, form, &end->trips);
    if (end->certain && end->trips <= end->count) end->count = end->last = end->trips;
    else if (!periods->horizon && end->count == MOST_ITERATIONS)
        return replay_fail(r,
                           "its tables of addresses come round together only after more than %d iterations",
                           MOST_ITERATIONS);
    else if (end->certain && periods->horizon && periods->multiple && end->count >= periods->prologue)
        end->last = end->count + (end->trips - end->count) % periods->multiple;
    else end->certain = false; /* left anywhere; or slices end before tables do, and so does the loop */
    return true;
}

/* The loop can end after k iterations: any, where it is not certain how many there are; so many that what counts from the end is
 * where it is now. */
static bool can_end(const replay *r, const plan_node *node, const loop_end *end, uint64_t k) {
    const size_t index = (size_t)(node - r->of->nodes);
    return end->certain ? k == end->last : k % r->periods[index].from_end == r->trips[index];
}

/* The loop from its begin until all has been seen. */
static bool replay_iterations(replay *r, const plan_node *node, const plan_loop_form *form,
                              loop_scratch *scratch, const loop_end *end, phase_list *ends) {
    const uint64_t count = end->count, last = end->last;
    r->epochs[form->body] = ++r->epoch;
    if (!replay_set_counter(r, node, 0)) return false;
    for (uint32_t i = 0; i < form->carried; i++) {
        if (!replay_move(r, form->initial[i], form->parameters[2 + i])) return false;
    }
    r->swapping[node - r->of->nodes] = true;
    /* While the loop runs the stacked outputs belong to it, slice by slice. */
    for (uint32_t i = 0; i < form->scan_outputs; i++) {
        uint32_t stacked = form->outputs[form->carried + i];
        if (stacked != PLAN_ABSENT && !replay_write(r, stacked)) return false;
    }
    /* And so do the bytes in which values grow. */
    for (uint32_t i = 0; i < form->carried; i++) {
        if (is_grown_in(r, form, i) && !replay_write(r, form->outputs[i])) return false;
    }
    if (can_end(r, node, end, 0) && !replay_exit(r, node, form)) return false;
    for (uint64_t k = 0; k < last; k++) {
        uint64_t t = end->certain && k >= count ? end->trips - last + k : k;
        if (end->certain && k == count && !skip_to(r, node, form, t)) return false;
        /* Parameters are handed on; all else of the body is gone. */
        r->epochs[form->body] = ++r->epoch;
        for (uint32_t i = 0; i < form->carried; i++) {
            uint32_t parameter = form->parameters[2 + i];
            if (r->defined[parameter]) r->defined[parameter] = r->epochs[form->body];
        }
        if (!replay_iteration(r, node, form, scratch, t)) return false;
        r->ends = ends; /* an inner loop had its own */
        if (end->certain && k + 1 == last && last == count && end->trips > count &&
            !skip_to(r, node, form, end->trips))
            return false;
        if (can_end(r, node, end, k + 1) && !replay_exit(r, node, form)) return false;
    }
    return true;
}

/* Where multi-views count from the end: the loop for each rest that the number of iterations can have, each from one state. */
static bool replay_rests(replay *r, const plan_node *node, const plan_loop_form *form, loop_scratch *scratch,
                         const loop_end *end, phase_list *ends) {
    const size_t index = (size_t)(node - r->of->nodes);
    const uint64_t rests = r->periods[index].from_end;
    bool valid = true;
    if (!plan_loop_is_counted(r->of, form))
        return replay_fail(r, "its tables of addresses count from an end that is not known when it begins");
    if (rests > MOST_ITERATIONS)
        return replay_fail(r, "its tables of addresses count from the end in more than %d ways",
                           MOST_ITERATIONS);
    for (uint64_t rest = 0; rest < rests && valid; rest++) {
        if (end->certain && rest != end->trips % rests) continue;
        const size_t mark = plan_bytes_mark(&r->bytes);
        r->trips[index] = rest;
        valid = replay_iterations(r, node, form, scratch, end, ends);
        plan_bytes_take_back(&r->bytes, mark);
    }
    return valid;
}

bool replay_loop_fully(replay *r, const plan_node *node) {
    plan_loop_form form;
    size_t since = r->written_count;
    const size_t index = (size_t)(node - r->of->nodes);
    phase_list *ends, *outer_ends = r->ends;
    loop_scratch scratch;
    loop_end end;
    if (!plan_loop_form_read(r->of, node, &form)) return replay_fail(r, "its body does not fit");
    if ((form.trip_count != PLAN_ABSENT && !replay_verify(r, form.trip_count)) ||
        (form.condition != PLAN_ABSENT && !replay_verify(r, form.condition))) {
        return false;
    }
    r->running[index] = true;
    r->trips[index] = 0;
    if (!make_scratch(r, &form, &scratch)) return false;
    if (!make_ends(r, node, &form, &ends)) return false;
    r->ends = ends;
    if (!find_end(r, node, &form, &end)) return false;
    if (r->periods[index].from_end > 1 ? !replay_rests(r, node, &form, &scratch, &end, ends)
                                       : !replay_iterations(r, node, &form, &scratch, &end, ends))
        return false;
    r->ends = outer_ends;
    r->running[index] = r->swapping[index] = false;
    uint32_t *fixed = BASE_ARRAY(&r->arena, uint32_t, (size_t)node->output_count);
    if (!fixed) return replay_fail_memory(r);
    for (uint64_t i = 0; i < node->output_count; i++) {
        uint32_t output = r->of->tensor_ids[node->outputs + i];
        fixed[i] =
            output != PLAN_ABSENT && i < form.carried && is_moving(r, node, output) ? PLAN_ABSENT : output;
    }
    return replay_join(r, since, fixed, node->output_count) && finish_ends(r, node, &form, ends, since);
}

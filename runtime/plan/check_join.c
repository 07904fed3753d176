/* SPDX-License-Identifier: Apache-2.0 */
/* check_join.c: what is left of the bytes that a branch or a loop wrote: its outputs, and garbage; see runtime/plan/check.c.
 *
 * A loop can have 100,000 outputs and write a million times, so that nothing here is compared with all of these: spans are
 * sorted first.
 */
#include "ir/base/sort.h"
#include "runtime/plan/replay.h"

/* ---- what was written ---------------------------------------------------------------------------------- */

static int compare_written(const void *a, const void *b) {
    const written_span *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

bool replay_merge_written(replay *r, size_t since) {
    written_span *items = r->written + since;
    const size_t count = r->written_count - since;
    size_t kept = 0;
    if (!count) return true;
    base_sort(items, count, sizeof *items, compare_written);
    for (size_t i = 1; i < count; i++) {
        if (items[i].first > items[kept].last) items[++kept] = items[i];
        else if (items[i].last > items[kept].last) items[kept].last = items[i].last;
    }
    r->written_count = since + kept + 1;
    return replay_spend(r, count);
}

bool replay_was_written(const replay *r, size_t since, size_t until, const span *at) {
    size_t low = since, high = until; /* the spans before `low` begin before the end of `at` */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (r->written[middle].first < at->last) low = middle + 1;
        else high = middle;
    }
    return low > since && at->first < r->written[low - 1].last;
}

/* ---- outputs within outputs ---------------------------------------------------------------------------- */

/* By where they begin; of those that begin together the longest comes first, of these the first output. */
static int compare_outputs(const void *a, const void *b) {
    const output_span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end > y->end ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

void replay_sort_outputs(output_span *spans, size_t count) {
    base_sort(spans, count, sizeof *spans, compare_outputs);
}

size_t replay_find_containers(output_span *spans, size_t count, uint64_t *containers) {
    size_t kept = 0;
    replay_sort_outputs(spans, count);
    for (size_t i = 0; i < count; i++) {
        /* The last one kept begins before it, and ends last of those that do. */
        if (!kept || spans[i].end > spans[kept - 1].end) spans[kept++] = spans[i];
        if (containers) containers[spans[i].index] = spans[kept - 1].index;
    }
    return kept;
}

/* For each output that lies in the bytes of another one: that, which lies in no other; for the rest itself. */
static bool find_containers(replay *r, const uint32_t *outputs, uint64_t count, uint64_t *containers) {
    output_span *spans = BASE_ARRAY(&r->arena, output_span, (size_t)count);
    size_t placed = 0;
    if (!spans) return replay_fail_memory(r);
    for (uint64_t i = 0; i < count; i++) {
        containers[i] = i;
        if (outputs[i] == PLAN_ABSENT || r->phases[outputs[i]].count || replay_is_dynamic(r, outputs[i]) ||
            !replay_in_map(&r->where[outputs[i]]) || !r->of->tensors[outputs[i]].bytes)
            continue;
        const uint64_t begin = r->spans[outputs[i]].address;
        spans[placed++] = (output_span){begin, begin + r->of->tensors[outputs[i]].bytes, i};
    }
    (void)replay_find_containers(spans, placed, containers);
    return replay_spend(r, count);
}

/* ---- joining ------------------------------------------------------------------------------------------- */

/* The output is in one of several places, in which it was seen at every end, and nothing was written there since. */
static bool check_phases(replay *r, uint32_t id, size_t since, size_t until) {
    for (uint64_t i = 0; i < r->phases[id].count; i++) {
        const phase *place = &r->phases[id].items[i];
        if (!replay_in_map(&place->where)) continue;
        if (replay_was_written(r, since, until, &place->at))
            return replay_fail(r, "output \"%s\" is written where it was left before", replay_name_of(r, id));
    }
    return true;
}

/* Nothing was written where this output lies: it is what was there before, and was seen to be so at every end. */
static bool is_untouched(const replay *r, uint32_t id, size_t since, size_t until) {
    const plan_address *at = &r->where[id];
    if (replay_is_dynamic(r, id) || !r->of->tensors[id].bytes || !replay_is_defined(r, id)) return false;
    if (at->space == MEMORY_INPUT || at->space == MEMORY_CONSTANT) return true;
    return replay_in_map(at) && !replay_was_written(r, since, until, &r->spans[id]);
}

bool replay_join(replay *r, size_t since, const uint32_t *outputs, uint64_t count) {
    if (!replay_merge_written(r, since)) return false;
    size_t until = r->written_count;
    for (size_t i = since; i < until; i++) {
        if (!replay_spend(r, 1)) return false;
        if (!plan_bytes_write(&r->bytes, r->written[i].first, r->written[i].last, (plan_bytes_tag){0})) {
            return replay_fail_memory(r);
        }
    }
    uint64_t *containers = BASE_ARRAY(&r->arena, uint64_t, (size_t)count);
    if (!containers) return replay_fail_memory(r);
    if (!find_containers(r, outputs, count, containers)) return false;
    for (uint64_t i = 0; i < count; i++) {
        if (outputs[i] == PLAN_ABSENT) continue;
        if (r->phases[outputs[i]].count) {
            if (!check_phases(r, outputs[i], since, until)) return false;
            continue;
        }
        if (is_untouched(r, outputs[i], since, until)) continue;
        r->own_piece = true; /* a kernel has written it, or it was refused */
        if (containers[i] == i && !replay_write(r, outputs[i])) return false;
        r->own_piece = false;
    }
    for (uint64_t i = 0; i < count; i++) {
        content part;
        uint32_t whole = outputs[containers[i]];
        if (containers[i] == i) continue;
        if (!replay_content_part(r, &r->contents[whole],
                                 r->spans[outputs[i]].address - r->spans[whole].address,
                                 r->of->tensors[outputs[i]].bytes, &part))
            return false;
        replay_define(r, outputs[i], part);
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c: what the verifier says, and how much work it does before it gives up; see runtime/plan/check.c. */
#include "runtime/plan/replay.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- messages ------------------------------------------------------------------------------------------ */

bool replay_fail(replay *r, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (r->node) {
        plan_node_context(r->of, r->node, r->file[0] ? r->file : NULL, r->report);
        base_fail(r->report, BASE_INVALID, "the plan is wrong at step %" PRIu64 ": %s", r->step, text);
    } else {
        base_fail(r->report, BASE_INVALID, "the plan is wrong: %s", text);
    }
    return false;
}

bool replay_fail_memory(replay *r) {
    base_fail_memory(r->report);
    return false;
}

const char *replay_name_of(const replay *r, uint32_t id) {
    return r->of->texts + r->of->tensors[id].name;
}

/* "bytes 64 to 128 of the arena". */
const char *replay_place_text(const replay *r, uint64_t address, uint64_t bytes, char *text,
                              size_t capacity) {
    uint64_t arena = r->of->header->arena_bytes;
    if (address < arena || (address == arena && !r->of->header->outputs.count)) {
        snprintf(text, capacity, "bytes %" PRIu64 " to %" PRIu64 " of the arena", address, address + bytes);
        return text;
    }
    if (address >= r->states && r->of->header->state_bytes) {
        snprintf(text, capacity, "bytes %" PRIu64 " to %" PRIu64 " of the states", address - r->states,
                 address - r->states + bytes);
        return text;
    }
    if (address >= r->spills && r->of->header->spill_bytes) {
        snprintf(text, capacity, "bytes %" PRIu64 " to %" PRIu64 " of the spill file", address - r->spills,
                 address - r->spills + bytes);
        return text;
    }
    uint64_t i = 0;
    while (i + 1 < r->of->header->outputs.count && r->outputs[i + 1] <= address) i++;
    snprintf(text, capacity, "bytes %" PRIu64 " to %" PRIu64 " of output \"%s\"", address - r->outputs[i],
             address - r->outputs[i] + bytes, r->of->texts + r->of->outputs[i].name);
    return text;
}

bool replay_allow_work(replay *r) {
    const plan_header *header = r->of->header;
    const size_t graphs = (size_t)header->graphs.count;
    uint64_t *depth = BASE_ARRAY(&r->arena, uint64_t, graphs), deepest = 0;
    if (!depth) return replay_fail_memory(r);
    for (size_t g = 1; g < graphs; g++) { /* owners stand before what they own */
        depth[g] = depth[r->of->nodes[r->of->graphs[g].owner].graph] + 1;
        if (depth[g] > deepest) deepest = depth[g];
    }
    if (deepest > DEEPEST) deepest = DEEPEST;
    r->most_work = MOST_WORK + WORK_OF_RECORD * (header->tensor_ids.count + header->nodes.count) +
                   WORK_OF_NEST * deepest * deepest * deepest;
    return true;
}

bool replay_spend(replay *r, uint64_t work) {
    r->work += work;
    return r->work <= r->most_work ||
           replay_fail(
               r,
               "it is too large to be verified, or its loops are nested too deep: that takes more than "
               "%" PRIu64 " steps (%d, %d for each operand and node, and %d times the cube of the depth)",
               r->most_work, MOST_WORK, WORK_OF_RECORD, WORK_OF_NEST);
}

/* ---- what is read ---------------------------------------------------------------------------------------- */

bool replay_add_tagged(replay *r, tagged_list *list, size_t first, size_t last, plan_bytes_tag tag) {
    tagged_span *items =
        base_arena_grow(&r->arena, list->items, &list->capacity, list->count + 1, sizeof *items);
    if (!items) return replay_fail_memory(r);
    list->items = items;
    items[list->count++] = (tagged_span){first, last, tag};
    return replay_spend(r, 1);
}

bool replay_note_read(replay *r, size_t first, size_t last, plan_bytes_tag tag) {
    return !r->frame || first >= last || tag.identity > r->frame->identity ||
           replay_add_tagged(r, &r->frame->needs, first, last, tag);
}

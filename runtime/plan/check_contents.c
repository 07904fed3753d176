/* SPDX-License-Identifier: Apache-2.0 */
/* check_contents.c: what bytes hold, in the verifier: reading, writing, handing values over; see runtime/plan/check.c. */
#include "runtime/plan/replay.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- contents ------------------------------------------------------------------------------------------ */

static const piece *pieces_of(const content *of) {
    return of->count > 1 ? of->many : &of->one;
}

content replay_content_of(uint64_t identity, uint64_t offset, uint64_t length) {
    return (content){.one = {identity, offset, length}, .count = length != 0};
}

void replay_define(replay *r, uint32_t id, content is) {
    r->contents[id] = is;
    r->phases[id].count = 0;
    r->defined[id] = r->epochs[r->of->tensors[id].graph];
}

static bool is_constant(const replay *r, uint32_t id) {
    return r->of->tensors[id].address.space == MEMORY_CONSTANT && !r->defined[id];
}

/* Bytes [offset, offset + length) of some content. */
bool replay_content_part(replay *r, const content *whole, uint64_t offset, uint64_t length, content *part) {
    const piece *pieces = pieces_of(whole);
    if (whole->count == 1) {
        *part = replay_content_of(pieces->identity, pieces->offset + offset, length);
        return true;
    }
    *part = (content){0};
    piece *many = length ? BASE_ARRAY(&r->arena, piece, whole->count) : NULL;
    if (!length) return true;
    if (!many) return replay_fail_memory(r);
    for (size_t i = 0; i < whole->count && length; i++) {
        if (offset >= pieces[i].length) {
            offset -= pieces[i].length;
            continue;
        }
        uint64_t taken = pieces[i].length - offset < length ? pieces[i].length - offset : length;
        many[part->count++] = (piece){pieces[i].identity, pieces[i].offset + offset, taken};
        length -= taken;
        offset = 0;
    }
    part->one = many[0];
    part->many = many;
    return replay_spend(r, whole->count);
}

/* One content after another, runs of one identity made one piece. */
bool replay_content_append(replay *r, content *to, size_t *capacity, const content *from) {
    const piece *pieces = pieces_of(from);
    for (size_t i = 0; i < from->count; i++) {
        piece *last = to->count ? &to->many[to->count - 1] : NULL;
        if (last && last->identity == pieces[i].identity && last->offset + last->length == pieces[i].offset) {
            last->length += pieces[i].length;
            continue;
        }
        piece *many = base_arena_grow(&r->arena, to->many, capacity, to->count + 1, sizeof *many);
        if (!many) return replay_fail_memory(r);
        to->many = many;
        many[to->count++] = pieces[i];
    }
    if (to->count) to->one = to->many[0];
    return replay_spend(r, from->count);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static bool fail_difference(replay *r, uint32_t id, size_t at, plan_bytes_tag found) {
    char place[128], where[128];
    const plan_tensor *tensor = &r->of->tensors[id];
    replay_place_text(r, r->spans[id].address, tensor->bytes, place, sizeof place);
    replay_place_text(r, r->bytes.bounds[at], r->bytes.bounds[at + 1] - r->bytes.bounds[at], where,
                      sizeof where);
    if (!found.identity) {
        return replay_fail(r, "tensor \"%s\" (%s) is not there: %s hold nothing", replay_name_of(r, id),
                           place, where);
    }
    uint64_t first = input_identity(r->of->header->inputs.count);
    uint32_t owner = found.identity >= first ? r->owners[found.identity - first] : PLAN_ABSENT;
    if (owner == PLAN_ABSENT) {
        return replay_fail(r, "tensor \"%s\" (%s) is not there: %s were written by others",
                           replay_name_of(r, id), place, where);
    }
    return replay_fail(r, "tensor \"%s\" (%s) is not there: %s hold tensor \"%s\"%s", replay_name_of(r, id),
                       place, where, replay_name_of(r, owner),
                       owner == id ? " of another time or place" : "");
}

bool replay_is_defined(const replay *r, uint32_t id) {
    return r->defined[id] && r->defined[id] == r->epochs[r->of->tensors[id].graph];
}

/* The bytes of a tensor are where it lies now. */
static bool verify_place(replay *r, uint32_t id) {
    const content *is = &r->contents[id];
    const piece *pieces = pieces_of(is);
    const plan_address *address = &r->where[id];
    switch (address->space) {
    case MEMORY_CONSTANT:
    case MEMORY_INPUT: {
        bool input = address->space == MEMORY_INPUT;
        uint64_t identity = input ? input_identity(address->index) : constants_identity();
        if (is->count == 1 && pieces->identity == identity && pieces->offset == address->offset) return true;
        return replay_fail(r, "tensor \"%s\" is said to lie in %s, which does not hold it",
                           replay_name_of(r, id), input ? "an input" : "the constants");
    }
    case MEMORY_ARENA:
    case MEMORY_OUTPUT:
    case MEMORY_STATE:
    case MEMORY_SPILL:
        break;
    default:
        return replay_fail(r, "tensor \"%s\" is read but has no memory", replay_name_of(r, id));
    }
    uint64_t position = r->spans[id].address;
    size_t first = r->spans[id].first;
    if (first == SIZE_MAX)
        return replay_fail(r, "tensor \"%s\" lies outside of its memory", replay_name_of(r, id));
    if (!r->through[id] && !replay_check_apart(r, &r->spans[id], replay_name_of(r, id))) return false;
    for (size_t i = 0; i < is->count; i++) {
        uint64_t end = position + pieces[i].length;
        size_t last = i + 1 == is->count ? r->spans[id].last : plan_bytes_bound(&r->bytes, end);
        plan_bytes_tag expected = {pieces[i].identity, position - pieces[i].offset}, found = {0};
        if (last == SIZE_MAX) { /* nothing begins or ends there, so no two contents can meet there */
            return replay_fail(r, "tensor \"%s\" is not there: its parts do not lie next to each other",
                               replay_name_of(r, id));
        }
        size_t at = plan_bytes_differ(&r->bytes, first, last, expected, &found);
        if (at < last) return fail_difference(r, id, at, found);
        if (!replay_note_read(r, first, last, expected)) return false;
        position = end;
        first = last;
    }
    return replay_spend(r, is->count) &&
           (is->count || replay_fail(r, "tensor \"%s\" has no content", replay_name_of(r, id)));
}

void replay_enter_phase(replay *r, uint32_t id, const phase *of) {
    r->where[id] = of->where;
    r->spans[id] = of->at;
    r->through[id] = of->through;
    r->contents[id] = of->is;
}

bool replay_verify_phase(replay *r, uint32_t id, const phase *of) {
    if (is_constant(r, id)) return true;
    replay_enter_phase(r, id, of);
    return verify_place(r, id);
}

/* The tensor has been made, and its bytes are where it lies: in all places where it may lie. */
bool replay_verify(replay *r, uint32_t id) {
    const phase_list *phases = &r->phases[id];
    if (!replay_spend(r, 1)) return false;
    if (is_constant(r, id)) return true;
    if (!replay_is_defined(r, id))
        return replay_fail(r, "tensor \"%s\" is read before it is made", replay_name_of(r, id));
    if (replay_is_dynamic(r, id) || !r->of->tensors[id].bytes) return true;
    if (!phases->count) return verify_place(r, id);
    for (uint64_t i = 0; i < phases->count; i++) {
        replay_enter_phase(r, id, &phases->items[i]);
        if (!verify_place(r, id)) return false;
    }
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

bool replay_note_written(replay *r, size_t first, size_t last) {
    written_span *written =
        base_arena_grow(&r->arena, r->written, &r->written_capacity, r->written_count + 1, sizeof *written);
    if (!written) return replay_fail_memory(r);
    r->written = written;
    written[r->written_count++] = (written_span){first, last};
    return replay_spend(r, 1);
}

bool replay_write_span(replay *r, size_t first, size_t last, plan_bytes_tag tag) {
    if (first >= last) return true;
    if (!replay_note_written(r, first, last)) return false;
    return plan_bytes_write(&r->bytes, first, last, tag) || replay_fail_memory(r);
}

bool replay_new_identity(replay *r, uint32_t owner, uint64_t *identity) {
    uint32_t *owners =
        base_arena_grow(&r->arena, r->owners, &r->owner_capacity, r->owner_count + 1, sizeof *owners);
    if (!owners) return replay_fail_memory(r);
    r->owners = owners;
    owners[r->owner_count++] = owner;
    *identity = ++r->identity;
    return true;
}

/* Where the tensor lies does not depend on how often a loop ran that has ended: that can only be read. */
static bool is_settled(const replay *r, uint32_t id) {
    plan_address address = r->of->tensors[id].address;
    while (address.space == MEMORY_MULTIVIEW) {
        uint32_t loop = r->of->multiviews[address.index].loop;
        if (!r->running[loop]) return false;
        address = replay_entry(r, address.index);
    }
    return true;
}

/* Where the tensor lies in a buffer of a lazy group, a kernel writes it, whose only such output it is, and it is all that the buffer
 * then holds. */
static bool write_lazily(replay *r, uint32_t id) {
    const span *at = &r->spans[id];
    for (size_t i = 0; i < r->buffer_count && r->through[id]; i++) {
        const swap_buffer *buffer = &r->buffers[i];
        const plan_multiview *multiview = replay_multiview_of(r, buffer);
        if (!multiview->lazy || !r->swapping[multiview->loop] || at->first >= buffer->at.last ||
            buffer->at.first >= at->last)
            continue;
        if (!r->own_piece || at->address != buffer->at.address || at->last > buffer->at.last)
            return replay_fail(r, "tensor \"%s\" would be written over what others in a lazy group have",
                               replay_name_of(r, id));
        /* A second output would not know which pieces the inputs have that lie where the first one is made. */
        r->own_piece = false;
        if (!replay_write_span(r, buffer->at.first, buffer->at.last, (plan_bytes_tag){0})) return false;
    }
    return true;
}

/* The tensor is made: an identity of its own where it lies. */
bool replay_write(replay *r, uint32_t id) {
    const plan_tensor *tensor = &r->of->tensors[id];
    const plan_address *address = &r->where[id];
    if (address->space == MEMORY_INPUT || address->space == MEMORY_CONSTANT) {
        return replay_fail(r, "tensor \"%s\" would be written over %s", replay_name_of(r, id),
                           address->space == MEMORY_INPUT ? "an input of the caller" : "the constants");
    }
    if (address->space == MEMORY_NONE) return true; /* nobody wants it: it stays undefined */
    if (replay_is_dynamic(r, id) || !tensor->bytes) {
        replay_define(r, id, (content){0});
        return true;
    }
    if (r->spans[id].first == SIZE_MAX) {
        return replay_fail(r, "tensor \"%s\" would be written outside of its memory", replay_name_of(r, id));
    }
    if (!is_settled(r, id)) {
        return replay_fail(r, "tensor \"%s\" would be written wherever an earlier loop ended",
                           replay_name_of(r, id));
    }
    if (!r->through[id] && !replay_check_apart(r, &r->spans[id], replay_name_of(r, id))) return false;
    uint64_t identity = 0;
    if (!write_lazily(r, id) || !replay_new_identity(r, id, &identity)) return false;
    replay_define(r, id, replay_content_of(identity, 0, tensor->bytes));
    return replay_write_span(r, r->spans[id].first, r->spans[id].last,
                             (plan_bytes_tag){identity, r->spans[id].address});
}

bool replay_is_same_address(const plan_address *x, const plan_address *y) {
    bool one = x->space == MEMORY_ARENA || x->space == MEMORY_CONSTANT || x->space == MEMORY_STATE ||
               x->space == MEMORY_SPILL; /* there is only one of them */
    return x->space == y->space && (one || x->index == y->index) && x->offset == y->offset;
}

bool replay_is_same_place(const replay *r, uint32_t a, uint32_t b) {
    plan_address x = replay_source(r, a), y = replay_source(r, b);
    return replay_is_same_address(&x, &y);
}

bool replay_do_overlap(const replay *r, uint32_t a, uint32_t b) {
    const plan_tensor *x = &r->of->tensors[a], *y = &r->of->tensors[b];
    if (!replay_in_map(&r->where[a]) || !replay_in_map(&r->where[b]) || !x->bytes || !y->bytes) return false;
    return r->spans[a].first < r->spans[b].last && r->spans[b].first < r->spans[a].last;
}

/* A value is handed over, as the executor does between graphs (plan.h). */
bool replay_move(replay *r, uint32_t from, uint32_t to) {
    if (r->of->tensors[to].address.space == MEMORY_NONE) return true;
    if (!replay_verify(r, from)) return false;
    if (!replay_is_dynamic(r, from) && !replay_is_dynamic(r, to) && replay_is_same_place(r, from, to)) {
        content is = r->contents[from];
        const phase_list phases = r->phases[from]; /* it may be moved to itself */
        if (is_constant(r, from)) {
            is = replay_content_of(constants_identity(), r->where[from].offset, r->of->tensors[from].bytes);
        }
        replay_define(r, to, is);
        r->phases[to] = phases;
        return true;
    }
    bool overlap = !r->phases[from].count && replay_do_overlap(r, from, to);
    for (uint64_t i = 0; i < r->phases[from].count && !overlap; i++) {
        replay_enter_phase(r, from, &r->phases[from].items[i]);
        overlap = replay_do_overlap(r, from, to);
    }
    if (overlap) {
        return replay_fail(r, "tensor \"%s\" is copied to tensor \"%s\", which overlaps it",
                           replay_name_of(r, from), replay_name_of(r, to));
    }
    return replay_write(r, to);
}

bool replay_verify_all(replay *r, const uint32_t *ids, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (ids[i] == PLAN_ABSENT || r->of->tensors[ids[i]].address.space == MEMORY_NONE) continue;
        if (!replay_verify(r, ids[i])) return false;
    }
    return true;
}

bool replay_content_of_tensor(replay *r, uint32_t id, content *is) {
    if (is_constant(r, id)) {
        *is = replay_content_of(constants_identity(), r->where[id].offset, r->of->tensors[id].bytes);
        return true;
    }
    if (!replay_is_defined(r, id))
        return replay_fail(r, "tensor \"%s\" is read before it is made", replay_name_of(r, id));
    *is = r->contents[id];
    return true;
}

bool replay_define_part(replay *r, uint32_t whole, uint64_t offset, uint32_t id) {
    content outer, inner;
    const uint64_t bytes = r->of->tensors[id].bytes;
    const phase_list from = r->phases[whole];
    if (!replay_content_of_tensor(r, whole, &outer) || !replay_content_part(r, &outer, offset, bytes, &inner))
        return false;
    replay_define(r, id, inner);
    if (!from.count || !bytes) return true;
    phase *items = BASE_ARRAY(&r->arena, phase, (size_t)from.count);
    if (!items || !replay_spend(r, from.count)) return replay_fail_memory(r);
    for (uint64_t i = 0; i < from.count; i++) {
        phase *part = &items[i];
        *part = from.items[i];
        part->where.offset += offset;
        if (!replay_content_part(r, &from.items[i].is, offset, bytes, &part->is)) return false;
        if (!replay_in_map(&part->where)) continue;
        part->at.address = replay_map_address(r, &part->where);
        part->at.first = part->at.last = SIZE_MAX;
        if (!replay_in_space(r, &part->where, bytes)) continue;
        part->at.first = plan_bytes_bound(&r->bytes, part->at.address);
        part->at.last = plan_bytes_bound(&r->bytes, part->at.address + bytes);
    }
    r->phases[id] = (phase_list){.items = items, .count = from.count, .capacity = (size_t)from.count};
    return true;
}

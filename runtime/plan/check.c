/* check.c: does a plan compute what it says? It is replayed with identities in place of numbers.
 *
 * Every value has content: pieces of identities, one piece for a value that was written, several for what a
 * Concat joined without moving it. A step that runs must find its inputs' content where they lie, and leaves
 * an identity of its own in its outputs; a step that only makes an alias hands content on, and the bytes must be
 * there. Whatever is overwritten too early, misplaced, or never written is found when somebody reads it.
 *
 * Branches are replayed from the same state each; whatever either wrote is garbage afterwards, except the
 * outputs. A loop is replayed for several iterations, its exit after each of them, the entry included; then
 * again all that it wrote is garbage except its outputs. Addresses that depend on the iteration repeat: after
 * two full periods of all of them the state differs from an earlier one in names of identities only, so that
 * what holds until then holds for any number. Where tensors lie now follows from the counters of the loops.
 */
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
static const char *place_text(const replay *r, uint64_t address, uint64_t bytes, char *text,
                              size_t capacity) {
    uint64_t arena = r->of->header->arena_bytes;
    if (address < arena || (address == arena && !r->of->header->outputs.count)) {
        snprintf(text, capacity, "bytes %" PRIu64 " to %" PRIu64 " of the arena", address, address + bytes);
        return text;
    }
    uint64_t i = 0;
    while (i + 1 < r->of->header->outputs.count && r->outputs[i + 1] <= address) i++;
    snprintf(text, capacity, "bytes %" PRIu64 " to %" PRIu64 " of output \"%s\"", address - r->outputs[i],
             address - r->outputs[i] + bytes, r->of->texts + r->of->outputs[i].name);
    return text;
}

bool replay_spend(replay *r, uint64_t work) {
    const plan_header *header = r->of->header;
    r->work += work;
    return r->work <= MOST_WORK + 32 * (header->tensor_ids.count + header->nodes.count) ||
           replay_fail(r, "its loops are nested too deep, or it is too large, to be verified");
}

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
static bool content_append(replay *r, content *to, size_t *capacity, const content *from) {
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
    place_text(r, r->spans[id].address, tensor->bytes, place, sizeof place);
    place_text(r, r->bytes.bounds[at], r->bytes.bounds[at + 1] - r->bytes.bounds[at], where, sizeof where);
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

static bool is_defined(const replay *r, uint32_t id) {
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
        position = end;
        first = last;
    }
    return replay_spend(r, is->count) &&
           (is->count || replay_fail(r, "tensor \"%s\" has no content", replay_name_of(r, id)));
}

static void enter_phase(replay *r, uint32_t id, const phase *of) {
    r->where[id] = of->where;
    r->spans[id] = of->at;
    r->through[id] = of->through;
    r->contents[id] = of->is;
}

bool replay_verify_phase(replay *r, uint32_t id, const phase *of) {
    if (is_constant(r, id)) return true;
    enter_phase(r, id, of);
    return verify_place(r, id);
}

/* The tensor has been made, and its bytes are where it lies: in all places where it may lie. */
bool replay_verify(replay *r, uint32_t id) {
    const phase_list *phases = &r->phases[id];
    if (!replay_spend(r, 1)) return false;
    if (is_constant(r, id)) return true;
    if (!is_defined(r, id))
        return replay_fail(r, "tensor \"%s\" is read before it is made", replay_name_of(r, id));
    if (replay_is_dynamic(r, id) || !r->of->tensors[id].bytes) return true;
    if (!phases->count) return verify_place(r, id);
    for (uint64_t i = 0; i < phases->count; i++) {
        enter_phase(r, id, &phases->items[i]);
        if (!verify_place(r, id)) return false;
    }
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

bool replay_write_span(replay *r, size_t first, size_t last, plan_bytes_tag tag) {
    if (first >= last) return true;
    written_span *written =
        base_arena_grow(&r->arena, r->written, &r->written_capacity, r->written_count + 1, sizeof *written);
    if (!written) return replay_fail_memory(r);
    r->written = written;
    written[r->written_count++] = (written_span){first, last};
    if (!replay_spend(r, 1)) return false;
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
        address = plan_multiview_entry(r->of, address.index, r->counters[loop]);
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
    uint64_t identity;
    if (!replay_new_identity(r, id, &identity)) return false;
    replay_define(r, id, replay_content_of(identity, 0, tensor->bytes));
    return replay_write_span(r, r->spans[id].first, r->spans[id].last,
                             (plan_bytes_tag){identity, r->spans[id].address});
}

bool replay_is_same_address(const plan_address *x, const plan_address *y) {
    bool one = x->space == MEMORY_ARENA || x->space == MEMORY_CONSTANT; /* there is only one of them */
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
        enter_phase(r, from, &r->phases[from].items[i]);
        overlap = replay_do_overlap(r, from, to);
    }
    if (overlap) {
        return replay_fail(r, "tensor \"%s\" is copied to tensor \"%s\", which overlaps it",
                           replay_name_of(r, from), replay_name_of(r, to));
    }
    return replay_write(r, to);
}

/* The largest of `outputs` in whose bytes output `index` lies; `index` itself where there is none. */
static uint64_t container_of(const replay *r, const uint32_t *outputs, uint64_t count, uint64_t index) {
    uint64_t found = index;
    for (uint64_t j = 0; j < count; j++) {
        if (outputs[j] == PLAN_ABSENT || replay_is_dynamic(r, outputs[j]) ||
            !replay_in_map(&r->where[outputs[j]]))
            continue;
        uint64_t begin = r->spans[outputs[j]].address, bytes = r->of->tensors[outputs[j]].bytes,
                 from = r->spans[outputs[index]].address, taken = r->of->tensors[outputs[index]].bytes,
                 most = r->of->tensors[outputs[found]].bytes;
        if (from < begin || from - begin > bytes || taken > bytes - (from - begin)) continue;
        if (bytes > most || (bytes == most && j < found)) found = j;
    }
    return found;
}

/* Bytes of the span were written since. */
bool replay_was_written(const replay *r, size_t since, size_t until, const span *at) {
    for (size_t i = since; i < until; i++) {
        if (r->written[i].first < at->last && at->first < r->written[i].last) return true;
    }
    return false;
}

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
    if (replay_is_dynamic(r, id) || !r->of->tensors[id].bytes || !is_defined(r, id)) return false;
    if (at->space == MEMORY_INPUT || at->space == MEMORY_CONSTANT) return true;
    return replay_in_map(at) && !replay_was_written(r, since, until, &r->spans[id]);
}

/* All that was written since becomes garbage, except what `outputs` hold. An output that lies in the bytes of
 * another one is a part of it: at every end both were seen to be there. */
bool replay_join(replay *r, size_t since, const uint32_t *outputs, uint64_t count) {
    size_t until = r->written_count;
    for (size_t i = since; i < until; i++) {
        if (!replay_spend(r, 1)) return false;
        if (!plan_bytes_write(&r->bytes, r->written[i].first, r->written[i].last, (plan_bytes_tag){0})) {
            return replay_fail_memory(r);
        }
    }
    uint64_t *containers = BASE_ARRAY(&r->arena, uint64_t, (size_t)count);
    if (!containers || !replay_spend(r, count)) return replay_fail_memory(r);
    for (uint64_t i = 0; i < count; i++) {
        containers[i] = i;
        if (outputs[i] == PLAN_ABSENT) continue;
        if (r->phases[outputs[i]].count) {
            if (!check_phases(r, outputs[i], since, until)) return false;
            continue;
        }
        if (replay_in_map(&r->where[outputs[i]]) && !replay_is_dynamic(r, outputs[i]) &&
            r->of->tensors[outputs[i]].bytes)
            containers[i] = container_of(r, outputs, count, i);
        if (is_untouched(r, outputs[i], since, until)) continue;
        if (containers[i] == i && !replay_write(r, outputs[i])) return false;
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

bool replay_verify_all(replay *r, const uint32_t *ids, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (ids[i] == PLAN_ABSENT || r->of->tensors[ids[i]].address.space == MEMORY_NONE) continue;
        if (!replay_verify(r, ids[i])) return false;
    }
    return true;
}

/* ---- steps that run ------------------------------------------------------------------------------------ */

/* Element by element the same: equal shapes, where row-major ones may differ in dimensions of 1. */
static bool is_elementwise(const replay *r, uint32_t a, uint32_t b) {
    op_type x, y;
    plan_tensor_type(r->of, a, &x);
    plan_tensor_type(r->of, b, &y);
    if (x.layout != y.layout || op_dtype_bytes(x.dtype) != op_dtype_bytes(y.dtype)) return false;
    if (op_shape_equal(&x.shape, &y.shape)) return true;
    if (x.layout != OP_LAYOUT_ROW_MAJOR) return false;
    int32_t i = 0, j = 0;
    for (;;) {
        while (i < x.shape.rank && x.shape.dims[i] == 1) i++;
        while (j < y.shape.rank && y.shape.dims[j] == 1) j++;
        if (i == x.shape.rank || j == y.shape.rank) return i == x.shape.rank && j == y.shape.rank;
        if (x.shape.dims[i++] != y.shape.dims[j++]) return false;
    }
}

/* The output, where it lies over the input as that lies now, may do so: exactly, and element by element. */
static bool check_overlap(replay *r, const plan_node *node, uint64_t input, uint64_t output) {
    uint32_t from = r->of->tensor_ids[node->inputs + input], to = r->of->tensor_ids[node->outputs + output];
    if (!replay_do_overlap(r, from, to)) return true;
    char place[128];
    place_text(r, r->spans[to].address, r->of->tensors[to].bytes, place, sizeof place);
    if (r->spans[from].first != r->spans[to].first || r->spans[from].last != r->spans[to].last) {
        return replay_fail(r, "its output \"%s\" (%s) overlaps its input \"%s\"", replay_name_of(r, to),
                           place, replay_name_of(r, from));
    }
    const op_schema *row = op_schema_of(plan_node_code(r->of, node));
    const bool copies = row->code == OP_COPY; /* it is there already */
    if (output != 0 || input >= 32 || !(copies || (row->in_place & OP_IN_PLACE(input))) ||
        !is_elementwise(r, from, to)) {
        return replay_fail(r, "its output \"%s\" (%s) lies over its input \"%s\", which it cannot",
                           replay_name_of(r, to), place, replay_name_of(r, from));
    }
    return true;
}

static bool check_in_place(replay *r, const plan_node *node, uint64_t input, uint64_t output) {
    uint32_t from = r->of->tensor_ids[node->inputs + input], to = r->of->tensor_ids[node->outputs + output];
    if (from == PLAN_ABSENT || to == PLAN_ABSENT) return true;
    const phase_list *phases = &r->phases[from];
    for (uint64_t i = 0; i < phases->count; i++) {
        enter_phase(r, from, &phases->items[i]);
        if (!check_overlap(r, node, input, output)) return false;
    }
    return phases->count || check_overlap(r, node, input, output);
}

static bool check_scratch(replay *r, const plan_node *node) {
    const span *scratch = &r->scratches[node - r->of->nodes];
    if (!node->scratch_bytes) return true;
    for (uint64_t i = 0; i < node->input_count + node->output_count; i++) {
        uint32_t id = i < node->input_count ? r->of->tensor_ids[node->inputs + i]
                                            : r->of->tensor_ids[node->outputs + i - node->input_count];
        if (id == PLAN_ABSENT) continue;
        bool overlaps = replay_in_map(&r->where[id]) && r->spans[id].first < scratch->last &&
                        scratch->first < r->spans[id].last;
        for (uint64_t k = 0; k < r->phases[id].count; k++) {
            const phase *place = &r->phases[id].items[k];
            overlaps |= replay_in_map(&place->where) && place->at.first < scratch->last &&
                        scratch->first < place->at.last;
        }
        if (overlaps) {
            char place[128];
            place_text(r, scratch->address, node->scratch_bytes, place, sizeof place);
            return replay_fail(r, "its scratch (%s) overlaps tensor \"%s\"", place, replay_name_of(r, id));
        }
    }
    return replay_check_apart(r, scratch, "scratch") &&
           replay_write_span(r, scratch->first, scratch->last, (plan_bytes_tag){0});
}

static bool replay_run(replay *r, const plan_node *node) {
    const uint32_t *inputs = r->of->tensor_ids + node->inputs, *outputs = r->of->tensor_ids + node->outputs;
    for (uint64_t i = 0; i < node->input_count; i++) {
        if (inputs[i] != PLAN_ABSENT && !replay_verify(r, inputs[i])) return false;
        if (!replay_spend(r, node->output_count)) return false;
        for (uint64_t k = 0; k < node->output_count; k++) {
            if (!check_in_place(r, node, i, k)) return false;
        }
    }
    if (!check_scratch(r, node)) return false;
    for (uint64_t i = 0; i < node->output_count; i++) {
        if (outputs[i] != PLAN_ABSENT && !replay_write(r, outputs[i])) return false;
    }
    return replay_verify_all(r, outputs, node->output_count); /* they do not overlap one another */
}

/* ---- steps that only make aliases ---------------------------------------------------------------------- */

bool replay_content_of_tensor(replay *r, uint32_t id, content *is) {
    if (is_constant(r, id)) {
        *is = replay_content_of(constants_identity(), r->where[id].offset, r->of->tensors[id].bytes);
        return true;
    }
    if (!is_defined(r, id))
        return replay_fail(r, "tensor \"%s\" is read before it is made", replay_name_of(r, id));
    *is = r->contents[id];
    return true;
}

static bool fail_alias(replay *r) {
    return replay_fail(r, "is said to be an alias, but its bytes do not lie like that");
}

static bool replay_concat(replay *r, const plan_node *node) {
    content joined = {0};
    size_t capacity = 0;
    uint64_t end = 0;
    int64_t cursor = 0;
    uint32_t whole = PLAN_ABSENT, part;
    for (uint64_t i = 0; i < node->input_count; i++) {
        uint64_t offset;
        content is;
        if (!plan_alias_part(r->of, node, (uint32_t)i, &cursor, &whole, &part, &offset)) return fail_alias(r);
        if (!replay_content_of_tensor(r, part, &is)) return false;
        if (r->phases[part].count) return fail_alias(r); /* it cannot be everywhere */
        if (r->of->tensors[part].bytes && offset != end) return fail_alias(r);
        end += r->of->tensors[part].bytes;
        if (!content_append(r, &joined, &capacity, &is)) return false;
    }
    if (end != r->of->tensors[whole].bytes) return fail_alias(r);
    replay_define(r, whole, joined);
    return replay_verify(r, whole);
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

static bool replay_alias(replay *r, const plan_node *node) {
    if (op_schema_of(plan_node_code(r->of, node))->view == OP_VIEW_CONCAT) return replay_concat(r, node);
    int64_t cursor = 0;
    for (uint64_t i = 0; i < node->output_count; i++) {
        uint32_t whole, part;
        uint64_t offset;
        if (r->of->tensor_ids[node->outputs + i] == PLAN_ABSENT ||
            !plan_alias_part(r->of, node, (uint32_t)i, &cursor, &whole, &part, &offset)) {
            return fail_alias(r);
        }
        if (!replay_define_part(r, whole, offset, part) || !replay_verify(r, part)) return false;
    }
    return true;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

bool replay_graph(replay *r, uint32_t number) {
    const plan_graph *graph = &r->of->graphs[number];
    for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
        const plan_node *node = &r->of->nodes[n];
        op_code code = plan_node_code(r->of, node);
        uint32_t multiview;
        bool valid;
        r->node = node;
        r->step = n - graph->nodes;
        if (!replay_spend(r, 1)) return false;
        if (code == OP_IF) valid = replay_if(r, node);
        else if (code == OP_LOOP) valid = replay_loop(r, node);
        else if (code == OP_COPY &&
                 (multiview = plan_swap_buffer(r->of, (uint32_t)n, 0, r->of->tensor_ids[node->inputs])) !=
                     PLAN_ABSENT)
            valid = replay_swap_copy(r, node, multiview);
        else if (node->flags & PLAN_NODE_DYNAMIC) valid = replay_run(r, node);
        else if (node->flags & PLAN_NODE_ALIAS) valid = replay_alias(r, node);
        else valid = replay_run(r, node);
        if (!valid) return false;
    }
    r->node = NULL;
    return replay_verify_all(r, r->of->tensor_ids + graph->results, graph->result_count);
}

static bool replay_plan(replay *r) {
    const plan *of = r->of;
    r->phases = BASE_ARRAY(&r->arena, phase_list, (size_t)of->header->tensors.count);
    r->contents = BASE_ARRAY(&r->arena, content, (size_t)of->header->tensors.count);
    r->defined = BASE_ARRAY(&r->arena, uint64_t, (size_t)of->header->tensors.count);
    r->epochs = BASE_ARRAY(&r->arena, uint64_t, (size_t)of->header->graphs.count);
    if (!r->phases || !r->contents || !r->defined || !r->epochs) return replay_fail_memory(r);
    if (!replay_map_outputs(r) || !replay_find_swap_buffers(r) || !replay_map_spans(r)) return false;
    r->identity = input_identity(of->header->inputs.count) - 1;
    r->epochs[0] = ++r->epoch;
    for (uint64_t i = 0; i < of->header->inputs.count; i++) {
        uint32_t id = of->inputs[i].tensor;
        replay_define(r, id, replay_content_of(input_identity(i), 0, of->tensors[id].bytes));
    }
    return replay_graph(r, 0);
}

base_status plan_check(const plan *checked, base_report *report) {
    base_report own = {0};
    replay r = {.of = checked, .report = report ? report : &own};
    memcpy(r.file, r.report->context, sizeof r.file);
    base_arena_init(&r.arena, NULL);
    bool valid = replay_plan(&r);
    base_arena_free(&r.arena);
    memcpy(r.report->context, r.file, sizeof r.file);
    return valid ? BASE_OK : r.report->status;
}

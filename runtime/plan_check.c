/* plan_check.c: does a plan compute what it says? It is replayed with identities in place of numbers.
 *
 * Every value has content: pieces of identities, one piece for a value that was written, several for what a
 * Concat joined without moving it. A step that runs must find its inputs' content where they lie, and leaves
 * an identity of its own in its outputs; a step that only views hands content on, and the bytes must be
 * there. Whatever is overwritten too early, misplaced, or never written is found when somebody reads it.
 *
 * Branches are replayed from the same state each; whatever either wrote is garbage afterwards, except the
 * outputs. A loop is replayed for several iterations, its exit after each of them, the entry included; then
 * again all that it wrote is garbage except its outputs. Addresses that depend on the iteration repeat: after
 * two full periods of all of them the state differs from an earlier one in names of identities only, so that
 * what holds until then holds for any number. Where tensors lie now follows from the counters of the loops.
 */
#include "runtime/plan.h"
#include "runtime/plan_bytes.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Replaying stops being worth its time somewhere: nests of loops multiply. So much beyond what the plan's
 * size allows. */
enum { MOST_WORK = 8000000, REPLAYED_ITERATIONS = 3, MOST_ITERATIONS = 4096 };

/* `length` bytes of an identity, from its byte `offset` on. */
typedef struct piece {
    uint64_t identity, offset, length;
} piece;

typedef struct content {
    piece one;    /* where count is 1 */
    piece *many;  /* where it is more */
    size_t count; /* 0: no bytes */
} content;

/* Where a tensor lies in the map of bytes: the intervals [first, last). */
typedef struct span {
    uint64_t address;
    size_t first, last;
} span;

/* An output of a loop that may lie in several places, depending on the number of iterations: what it is in
 * each. */
typedef struct phase {
    plan_address where;
    span at;
    content is;
    bool seen;
} phase;

typedef struct phase_list {
    phase *items;
    uint64_t count; /* 0: it has one place */
} phase_list;

typedef struct written_span {
    size_t first, last;
} written_span;

typedef struct replay {
    const plan *of;
    base_report *report;
    base_arena arena;
    plan_bytes bytes;
    plan_address *where; /* by slot: its address now, views followed */
    uint64_t *counters;  /* by node: the iteration of a loop */
    uint32_t *views;     /* slots of tensors whose address is a view */
    size_t view_count;
    span *spans;        /* by slot: of tensors in the arena and in outputs; where they lie now */
    span *scratches;    /* by node */
    uint64_t *outputs;  /* by output: the address of its buffer */
    content *contents;  /* by slot */
    phase_list *phases; /* by slot */
    uint64_t *defined;  /* by slot: the epoch of its graph in which it was defined */
    uint64_t *epochs;   /* by graph: the current one */
    uint64_t epoch;
    phase_list
        *ends; /* of the loop that is replayed: by carried value, where its output is after k iterations */
    uint64_t identity; /* the last one given */
    uint32_t *owners;  /* by identity: the slot that it was given to; PLAN_ABSENT for scratch */
    size_t owner_count, owner_capacity;
    written_span *written;
    size_t written_count, written_capacity;
    uint64_t work;
    char file[BASE_REPORT_CONTEXT];
    const plan_node *node; /* being replayed, for messages */
    uint64_t step;
} replay;

/* Identities of what nobody writes. */
static uint64_t constants_identity(void) {
    return 1;
}
static uint64_t input_identity(uint64_t index) {
    return 2 + index;
}

/* ---- messages ------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static bool fail(replay *r, const char *format, ...) {
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

static bool fail_memory(replay *r) {
    base_fail_memory(r->report);
    return false;
}

static const char *name_of(const replay *r, uint32_t slot) {
    return r->of->texts + r->of->tensors[slot].name;
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

/* ---- places -------------------------------------------------------------------------------------------- */

static bool in_map(const plan_address *address) {
    return address->place == PLAN_PLACE_ARENA || address->place == PLAN_PLACE_OUTPUT;
}

/* Not known before the run: made by the run-time allocator, or bound with dimensions. */
static bool is_dynamic(const replay *r, uint32_t slot) {
    const plan_tensor *tensor = &r->of->tensors[slot];
    op_type type;
    size_t bytes;
    if (tensor->address.place == PLAN_PLACE_DYNAMIC || tensor->kind != OP_KIND_TENSOR) return true;
    plan_tensor_type(r->of, slot, &type);
    return !op_type_bytes(&type, &bytes);
}

static bool map_outputs(replay *r) {
    const plan_header *header = r->of->header;
    uint64_t end = header->arena_bytes;
    r->outputs = BASE_ARRAY(&r->arena, uint64_t, (size_t)header->outputs.count);
    if (!r->outputs) return fail_memory(r);
    for (uint64_t i = 0; i < header->outputs.count; i++) {
        uint64_t bytes = r->of->tensors[r->of->outputs[i].slot].bytes;
        r->outputs[i] = end;
        if (end > INT64_MAX || bytes > INT64_MAX - end) return fail(r, "its outputs are too large");
        end += bytes;
    }
    return true;
}

static uint64_t map_address(const replay *r, const plan_address *address) {
    return address->place == PLAN_PLACE_OUTPUT ? r->outputs[address->index] + address->offset
                                               : address->offset;
}

static bool spend(replay *r, uint64_t work) {
    const plan_header *header = r->of->header;
    r->work += work;
    return r->work <= MOST_WORK + 32 * (header->slots.count + header->nodes.count) ||
           fail(r, "its loops are nested too deep, or it is too large, to be verified");
}

/* The address as it is now: views followed with the counters of their loops. */
static plan_address follow(const replay *r, plan_address address) {
    while (address.place == PLAN_PLACE_VIEW) {
        uint64_t offset = address.offset;
        address = plan_view_entry(r->of, address.index, r->counters[r->of->views[address.index].loop]);
        address.offset += offset;
    }
    return address;
}

/* Within the arena or its output: what is not has no bounds in the map, and cannot be read or written. */
static bool in_space(const replay *r, const plan_address *address, uint64_t bytes) {
    uint64_t size = address->place == PLAN_PLACE_ARENA
                        ? r->of->header->arena_bytes
                        : r->of->tensors[r->of->outputs[address->index].slot].bytes;
    return address->offset <= size && bytes <= size - address->offset;
}

typedef struct bound_list {
    uint64_t *items;
    size_t count, capacity;
} bound_list;

static bool add_bounds(replay *r, bound_list *list, const plan_address *address, uint64_t bytes) {
    if (!in_map(address) || !bytes || !in_space(r, address, bytes)) return true;
    uint64_t *items =
        base_arena_grow(&r->arena, list->items, &list->capacity, list->count + 2, sizeof *items);
    if (!items) return fail_memory(r);
    list->items = items;
    items[list->count++] = map_address(r, address);
    items[list->count++] = map_address(r, address) + bytes;
    return true;
}

/* A constant that is one byte and not zero. */
static bool is_constant_true(const replay *r, uint32_t slot) {
    const plan_tensor *tensor = &r->of->tensors[slot];
    return tensor->address.place == PLAN_PLACE_CONSTANT && tensor->bytes == 1 &&
           r->of->constants[tensor->address.offset] != 0;
}

/* Whatever happens the loop runs *trips times: its condition holds always, and its trip count is a constant, or
 * absent; what it scans may be shorter. */
static bool is_certain(const replay *r, const plan_loop_form *form, uint64_t *trips) {
    bool begins = form->condition == PLAN_ABSENT || is_constant_true(r, form->condition);
    bool goes_on = form->results[0] == form->parameters[1] || is_constant_true(r, form->results[0]);
    int64_t count = INT64_MAX;
    if (!begins || !goes_on) return false;
    if (form->trip_count != PLAN_ABSENT) {
        const plan_tensor *tensor = &r->of->tensors[form->trip_count];
        if (tensor->address.place != PLAN_PLACE_CONSTANT || tensor->bytes != sizeof count) return false;
        memcpy(&count, r->of->constants + tensor->address.offset, sizeof count);
    }
    for (uint32_t i = 0; i < form->scan_inputs; i++) {
        const plan_tensor *whole = &r->of->tensors[form->initial[form->carried + i]];
        int32_t axis;
        if (whole->address.place == PLAN_PLACE_DYNAMIC || whole->rank < 0 ||
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
static bool add_view_bounds(replay *r, bound_list *list, plan_address address, uint64_t bytes) {
    if (address.place != PLAN_PLACE_VIEW) return add_bounds(r, list, &address, bytes);
    const plan_view *view = &r->of->views[address.index];
    uint64_t count = (uint64_t)view->prologue_count + view->period;
    if (view->stride) count = plan_loop_horizon(r->of, view->loop, MOST_ITERATIONS) + 1;
    if (count < REPLAYED_ITERATIONS + 1 && view->stride) count = REPLAYED_ITERATIONS + 1;
    /* Of a loop that certainly ends far away the last iterations are seen, too. */
    plan_loop_form form;
    uint64_t trips, later = UINT64_MAX;
    if (view->stride && plan_loop_form_read(r->of, &r->of->nodes[view->loop], &form) &&
        is_certain(r, &form, &trips) && trips >= count) {
        later = trips - count > count ? trips - count : count;
    }
    for (uint64_t t = 0; t < count || (later != UINT64_MAX && later <= trips); t++) {
        plan_address entry = plan_view_entry(r->of, address.index, t < count ? t : later++);
        entry.offset += address.offset;
        if (!spend(r, 1) || !add_view_bounds(r, list, entry, bytes)) return false;
    }
    return true;
}

static void place_span(replay *r, uint32_t slot) {
    const plan_tensor *tensor = &r->of->tensors[slot];
    r->where[slot] = follow(r, tensor->address);
    r->spans[slot] = (span){0, 0, 0};
    if (!in_map(&r->where[slot]) || !tensor->bytes) return;
    r->spans[slot].address = map_address(r, &r->where[slot]);
    if (!in_space(r, &r->where[slot], tensor->bytes)) {
        r->spans[slot].first = r->spans[slot].last = SIZE_MAX;
        return;
    }
    r->spans[slot].first = plan_bytes_bound(&r->bytes, r->spans[slot].address);
    r->spans[slot].last = plan_bytes_bound(&r->bytes, r->spans[slot].address + tensor->bytes);
}

/* The loop is in iteration t, or has run t times. */
static bool set_counter(replay *r, const plan_node *loop, uint64_t t) {
    r->counters[loop - r->of->nodes] = t;
    for (size_t i = 0; i < r->view_count; i++) place_span(r, r->views[i]);
    return spend(r, r->view_count);
}

static bool map_spans(replay *r) {
    const plan *of = r->of;
    size_t tensors = (size_t)of->header->tensors.count, nodes = (size_t)of->header->nodes.count;
    r->spans = BASE_ARRAY(&r->arena, span, tensors);
    r->where = BASE_ARRAY(&r->arena, plan_address, tensors);
    r->views = BASE_ARRAY(&r->arena, uint32_t, tensors);
    r->counters = BASE_ARRAY(&r->arena, uint64_t, nodes);
    r->scratches = BASE_ARRAY(&r->arena, span, nodes);
    bound_list list = {0};
    if (!r->spans || !r->where || !r->views || !r->counters || !r->scratches) return fail_memory(r);
    for (size_t i = 0; i < tensors; i++) {
        if (of->tensors[i].address.place == PLAN_PLACE_VIEW) r->views[r->view_count++] = (uint32_t)i;
        if (!add_view_bounds(r, &list, of->tensors[i].address, of->tensors[i].bytes)) return false;
    }
    for (size_t i = 0; i < nodes; i++) {
        const plan_node *node = &of->nodes[i];
        if (!node->scratch_bytes) continue;
        r->scratches[i].address = node->scratch.offset;
        if (!add_bounds(r, &list, &node->scratch, node->scratch_bytes)) return false;
    }
    if (!plan_bytes_init(&r->bytes, &r->arena, list.items, list.count)) return fail_memory(r);
    for (size_t i = 0; i < tensors; i++) place_span(r, (uint32_t)i);
    for (size_t i = 0; i < nodes; i++) {
        if (!of->nodes[i].scratch_bytes) continue;
        r->scratches[i].first = plan_bytes_bound(&r->bytes, r->scratches[i].address);
        r->scratches[i].last =
            plan_bytes_bound(&r->bytes, r->scratches[i].address + of->nodes[i].scratch_bytes);
    }
    return true;
}

/* ---- contents ------------------------------------------------------------------------------------------ */

static const piece *pieces_of(const content *of) {
    return of->count > 1 ? of->many : &of->one;
}

static content content_of(uint64_t identity, uint64_t offset, uint64_t length) {
    return (content){.one = {identity, offset, length}, .count = length != 0};
}

static void define(replay *r, uint32_t slot, content is) {
    r->contents[slot] = is;
    r->defined[slot] = r->epochs[r->of->tensors[slot].graph];
}

static bool is_constant(const replay *r, uint32_t slot) {
    return r->of->tensors[slot].address.place == PLAN_PLACE_CONSTANT && !r->defined[slot];
}

/* Bytes [offset, offset + length) of some content. */
static bool content_part(replay *r, const content *whole, uint64_t offset, uint64_t length, content *part) {
    const piece *pieces = pieces_of(whole);
    if (whole->count == 1) {
        *part = content_of(pieces->identity, pieces->offset + offset, length);
        return true;
    }
    *part = (content){0};
    piece *many = length ? BASE_ARRAY(&r->arena, piece, whole->count) : NULL;
    if (!length) return true;
    if (!many) return fail_memory(r);
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
    return spend(r, whole->count);
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
        if (!many) return fail_memory(r);
        to->many = many;
        many[to->count++] = pieces[i];
    }
    if (to->count) to->one = to->many[0];
    return spend(r, from->count);
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static bool fail_difference(replay *r, uint32_t slot, size_t at, plan_bytes_tag found) {
    char place[128], where[128];
    const plan_tensor *tensor = &r->of->tensors[slot];
    place_text(r, r->spans[slot].address, tensor->bytes, place, sizeof place);
    place_text(r, r->bytes.bounds[at], r->bytes.bounds[at + 1] - r->bytes.bounds[at], where, sizeof where);
    if (!found.identity) {
        return fail(r, "tensor \"%s\" (%s) is not there: %s hold nothing", name_of(r, slot), place, where);
    }
    uint64_t first = input_identity(r->of->header->inputs.count);
    uint32_t owner = found.identity >= first ? r->owners[found.identity - first] : PLAN_ABSENT;
    if (owner == PLAN_ABSENT) {
        return fail(r, "tensor \"%s\" (%s) is not there: %s were written by others", name_of(r, slot), place,
                    where);
    }
    return fail(r, "tensor \"%s\" (%s) is not there: %s hold tensor \"%s\"%s", name_of(r, slot), place, where,
                name_of(r, owner), owner == slot ? " of another time or place" : "");
}

static bool is_defined(const replay *r, uint32_t slot) {
    return r->defined[slot] && r->defined[slot] == r->epochs[r->of->tensors[slot].graph];
}

/* The bytes of a tensor are where it lies now. */
static bool verify_place(replay *r, uint32_t slot) {
    const content *is = &r->contents[slot];
    const piece *pieces = pieces_of(is);
    const plan_address *address = &r->where[slot];
    switch (address->place) {
    case PLAN_PLACE_CONSTANT:
    case PLAN_PLACE_INPUT: {
        bool input = address->place == PLAN_PLACE_INPUT;
        uint64_t identity = input ? input_identity(address->index) : constants_identity();
        if (is->count == 1 && pieces->identity == identity && pieces->offset == address->offset) return true;
        return fail(r, "tensor \"%s\" is said to lie in %s, which does not hold it", name_of(r, slot),
                    input ? "an input" : "the constants");
    }
    case PLAN_PLACE_ARENA:
    case PLAN_PLACE_OUTPUT:
        break;
    default:
        return fail(r, "tensor \"%s\" is read but has no place", name_of(r, slot));
    }
    uint64_t position = r->spans[slot].address;
    size_t first = r->spans[slot].first;
    if (first == SIZE_MAX) return fail(r, "tensor \"%s\" lies outside of its memory", name_of(r, slot));
    for (size_t i = 0; i < is->count; i++) {
        uint64_t end = position + pieces[i].length;
        size_t last = i + 1 == is->count ? r->spans[slot].last : plan_bytes_bound(&r->bytes, end);
        plan_bytes_tag expected = {pieces[i].identity, position - pieces[i].offset}, found = {0};
        if (last == SIZE_MAX) { /* nothing begins or ends there, so no two contents can meet there */
            return fail(r, "tensor \"%s\" is not there: its parts do not lie next to each other",
                        name_of(r, slot));
        }
        size_t at = plan_bytes_differ(&r->bytes, first, last, expected, &found);
        if (at < last) return fail_difference(r, slot, at, found);
        position = end;
        first = last;
    }
    return spend(r, is->count) && (is->count || fail(r, "tensor \"%s\" has no content", name_of(r, slot)));
}

static void enter_phase(replay *r, uint32_t slot, const phase *of) {
    r->where[slot] = of->where;
    r->spans[slot] = of->at;
    r->contents[slot] = of->is;
}

/* The tensor has been made, and its bytes are where it lies: in all places where it may lie. */
static bool verify(replay *r, uint32_t slot) {
    const phase_list *phases = &r->phases[slot];
    if (!spend(r, 1)) return false;
    if (is_constant(r, slot)) return true;
    if (!is_defined(r, slot)) return fail(r, "tensor \"%s\" is read before it is made", name_of(r, slot));
    if (is_dynamic(r, slot) || !r->of->tensors[slot].bytes) return true;
    if (!phases->count) return verify_place(r, slot);
    for (uint64_t i = 0; i < phases->count; i++) {
        if (!phases->items[i].seen) continue;
        enter_phase(r, slot, &phases->items[i]);
        if (!verify_place(r, slot)) return false;
    }
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static bool write_span(replay *r, size_t first, size_t last, plan_bytes_tag tag) {
    if (first >= last) return true;
    written_span *written =
        base_arena_grow(&r->arena, r->written, &r->written_capacity, r->written_count + 1, sizeof *written);
    if (!written) return fail_memory(r);
    r->written = written;
    written[r->written_count++] = (written_span){first, last};
    if (!spend(r, 1)) return false;
    return plan_bytes_write(&r->bytes, first, last, tag) || fail_memory(r);
}

/* The tensor is made: an identity of its own where it lies. */
static bool write(replay *r, uint32_t slot) {
    const plan_tensor *tensor = &r->of->tensors[slot];
    const plan_address *address = &r->where[slot];
    if (address->place == PLAN_PLACE_INPUT || address->place == PLAN_PLACE_CONSTANT) {
        return fail(r, "tensor \"%s\" would be written over %s", name_of(r, slot),
                    address->place == PLAN_PLACE_INPUT ? "an input of the caller" : "the constants");
    }
    if (address->place == PLAN_PLACE_NONE) return true; /* nobody wants it: it stays undefined */
    if (is_dynamic(r, slot) || !tensor->bytes) {
        define(r, slot, (content){0});
        return true;
    }
    if (r->spans[slot].first == SIZE_MAX) {
        return fail(r, "tensor \"%s\" would be written outside of its memory", name_of(r, slot));
    }
    uint32_t *owners =
        base_arena_grow(&r->arena, r->owners, &r->owner_capacity, r->owner_count + 1, sizeof *owners);
    if (!owners) return fail_memory(r);
    r->owners = owners;
    owners[r->owner_count++] = slot;
    uint64_t identity = ++r->identity;
    define(r, slot, content_of(identity, 0, tensor->bytes));
    return write_span(r, r->spans[slot].first, r->spans[slot].last,
                      (plan_bytes_tag){identity, r->spans[slot].address});
}

static bool is_same_address(const plan_address *x, const plan_address *y) {
    bool one =
        x->place == PLAN_PLACE_ARENA || x->place == PLAN_PLACE_CONSTANT; /* there is only one of them */
    return x->place == y->place && (one || x->index == y->index) && x->offset == y->offset;
}

static bool is_same_place(const replay *r, uint32_t a, uint32_t b) {
    return is_same_address(&r->where[a], &r->where[b]);
}

static bool do_overlap(const replay *r, uint32_t a, uint32_t b) {
    const plan_tensor *x = &r->of->tensors[a], *y = &r->of->tensors[b];
    if (!in_map(&r->where[a]) || !in_map(&r->where[b]) || !x->bytes || !y->bytes) return false;
    return r->spans[a].first < r->spans[b].last && r->spans[b].first < r->spans[a].last;
}

/* A value is handed over, as the executor does between graphs (plan.h). */
static bool move(replay *r, uint32_t from, uint32_t to) {
    if (r->of->tensors[to].address.place == PLAN_PLACE_NONE) return true;
    if (!verify(r, from)) return false;
    if (!is_dynamic(r, from) && !is_dynamic(r, to) && is_same_place(r, from, to)) {
        content is = r->contents[from];
        if (is_constant(r, from)) {
            is = content_of(constants_identity(), r->where[from].offset, r->of->tensors[from].bytes);
        }
        define(r, to, is);
        return true;
    }
    if (do_overlap(r, from, to)) {
        return fail(r, "tensor \"%s\" is copied to tensor \"%s\", which overlaps it", name_of(r, from),
                    name_of(r, to));
    }
    return write(r, to);
}

/* The largest of `outputs` in whose bytes output `index` lies; `index` itself where there is none. */
static uint64_t container_of(const replay *r, const uint32_t *outputs, uint64_t count, uint64_t index) {
    uint64_t found = index;
    for (uint64_t j = 0; j < count; j++) {
        if (outputs[j] == PLAN_ABSENT || is_dynamic(r, outputs[j]) || !in_map(&r->where[outputs[j]]))
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
static bool was_written(const replay *r, size_t since, size_t until, const span *at) {
    for (size_t i = since; i < until; i++) {
        if (r->written[i].first < at->last && at->first < r->written[i].last) return true;
    }
    return false;
}

/* Nothing was written where this output lies: it is what was there before, and was seen to be so at every end. */
static bool is_untouched(const replay *r, uint32_t slot, size_t since, size_t until) {
    const plan_address *at = &r->where[slot];
    if (is_dynamic(r, slot) || !r->of->tensors[slot].bytes || !is_defined(r, slot)) return false;
    if (at->place == PLAN_PLACE_INPUT || at->place == PLAN_PLACE_CONSTANT) return true;
    return in_map(at) && !was_written(r, since, until, &r->spans[slot]);
}

/* All that was written since becomes garbage, except what `outputs` hold. An output that lies in the bytes of
 * another one is a part of it: at every end both were seen to be there. */
static bool join(replay *r, size_t since, const uint32_t *outputs, uint64_t count) {
    size_t until = r->written_count;
    for (size_t i = since; i < until; i++) {
        if (!spend(r, 1)) return false;
        if (!plan_bytes_write(&r->bytes, r->written[i].first, r->written[i].last, (plan_bytes_tag){0})) {
            return fail_memory(r);
        }
    }
    uint64_t *containers = BASE_ARRAY(&r->arena, uint64_t, (size_t)count);
    if (!containers || !spend(r, count)) return fail_memory(r);
    for (uint64_t i = 0; i < count; i++) {
        containers[i] = i;
        if (outputs[i] == PLAN_ABSENT) continue;
        if (in_map(&r->where[outputs[i]]) && !is_dynamic(r, outputs[i]) && r->of->tensors[outputs[i]].bytes)
            containers[i] = container_of(r, outputs, count, i);
        if (is_untouched(r, outputs[i], since, until)) continue;
        if (containers[i] == i && !write(r, outputs[i])) return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        content part;
        uint32_t whole = outputs[containers[i]];
        if (containers[i] == i) continue;
        if (!content_part(r, &r->contents[whole], r->spans[outputs[i]].address - r->spans[whole].address,
                          r->of->tensors[outputs[i]].bytes, &part))
            return false;
        define(r, outputs[i], part);
    }
    return true;
}

static bool verify_all(replay *r, const uint32_t *slots, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (slots[i] == PLAN_ABSENT || r->of->tensors[slots[i]].address.place == PLAN_PLACE_NONE) continue;
        if (!verify(r, slots[i])) return false;
    }
    return true;
}

/* ---- steps that run ------------------------------------------------------------------------------------ */

/* Element by element the same: equal shapes, where plain ones may differ in extents of 1. */
static bool is_elementwise(const replay *r, uint32_t a, uint32_t b) {
    op_type x, y;
    plan_tensor_type(r->of, a, &x);
    plan_tensor_type(r->of, b, &y);
    if (x.layout != y.layout || op_dtype_bytes(x.dtype) != op_dtype_bytes(y.dtype)) return false;
    if (op_shape_equal(&x.shape, &y.shape)) return true;
    if (x.layout != OP_LAYOUT_PLAIN) return false;
    int32_t i = 0, j = 0;
    for (;;) {
        while (i < x.shape.rank && x.shape.dims[i] == 1) i++;
        while (j < y.shape.rank && y.shape.dims[j] == 1) j++;
        if (i == x.shape.rank || j == y.shape.rank) return i == x.shape.rank && j == y.shape.rank;
        if (x.shape.dims[i++] != y.shape.dims[j++]) return false;
    }
}

static bool check_in_place(replay *r, const plan_node *node, uint64_t input, uint64_t output) {
    uint32_t from = r->of->slots[node->inputs + input], to = r->of->slots[node->outputs + output];
    if (from == PLAN_ABSENT || to == PLAN_ABSENT) return true;
    for (uint64_t i = 0; i < r->phases[from].count; i++) {
        if (!r->phases[from].items[i].seen) continue;
        enter_phase(r, from, &r->phases[from].items[i]);
        if (do_overlap(r, from, to)) {
            return fail(r, "its output \"%s\" lies over a place of its input \"%s\"", name_of(r, to),
                        name_of(r, from));
        }
    }
    if (!do_overlap(r, from, to)) return true;
    char place[128];
    place_text(r, r->spans[to].address, r->of->tensors[to].bytes, place, sizeof place);
    if (r->spans[from].first != r->spans[to].first || r->spans[from].last != r->spans[to].last) {
        return fail(r, "its output \"%s\" (%s) overlaps its input \"%s\"", name_of(r, to), place,
                    name_of(r, from));
    }
    const op_row *row = op_row_of(plan_node_code(r->of, node));
    if (output != 0 || input >= 32 || !(row->in_place & OP_IN_PLACE(input)) || !is_elementwise(r, from, to)) {
        return fail(r, "its output \"%s\" (%s) lies over its input \"%s\", which it cannot", name_of(r, to),
                    place, name_of(r, from));
    }
    return true;
}

static bool check_scratch(replay *r, const plan_node *node) {
    const span *scratch = &r->scratches[node - r->of->nodes];
    if (!node->scratch_bytes) return true;
    for (uint64_t i = 0; i < node->input_count + node->output_count; i++) {
        uint32_t slot = i < node->input_count ? r->of->slots[node->inputs + i]
                                              : r->of->slots[node->outputs + i - node->input_count];
        if (slot == PLAN_ABSENT) continue;
        bool overlaps = in_map(&r->where[slot]) && r->spans[slot].first < scratch->last &&
                        scratch->first < r->spans[slot].last;
        for (uint64_t k = 0; k < r->phases[slot].count; k++) {
            const phase *place = &r->phases[slot].items[k];
            overlaps |= place->seen && in_map(&place->where) && place->at.first < scratch->last &&
                        scratch->first < place->at.last;
        }
        if (overlaps) {
            char place[128];
            place_text(r, scratch->address, node->scratch_bytes, place, sizeof place);
            return fail(r, "its scratch (%s) overlaps tensor \"%s\"", place, name_of(r, slot));
        }
    }
    return write_span(r, scratch->first, scratch->last, (plan_bytes_tag){0});
}

static bool replay_run(replay *r, const plan_node *node) {
    const uint32_t *inputs = r->of->slots + node->inputs, *outputs = r->of->slots + node->outputs;
    for (uint64_t i = 0; i < node->input_count; i++) {
        if (inputs[i] != PLAN_ABSENT && !verify(r, inputs[i])) return false;
        if (!spend(r, node->output_count)) return false;
        for (uint64_t k = 0; k < node->output_count; k++) {
            if (!check_in_place(r, node, i, k)) return false;
        }
    }
    if (!check_scratch(r, node)) return false;
    for (uint64_t i = 0; i < node->output_count; i++) {
        if (outputs[i] != PLAN_ABSENT && !write(r, outputs[i])) return false;
    }
    return verify_all(r, outputs, node->output_count); /* they do not overlap one another */
}

/* ---- steps that only view ------------------------------------------------------------------------------ */

static bool content_of_slot(replay *r, uint32_t slot, content *is) {
    if (is_constant(r, slot)) {
        *is = content_of(constants_identity(), r->where[slot].offset, r->of->tensors[slot].bytes);
        return true;
    }
    if (!is_defined(r, slot)) return fail(r, "tensor \"%s\" is read before it is made", name_of(r, slot));
    *is = r->contents[slot];
    return true;
}

static bool fail_view(replay *r) {
    return fail(r, "is said to be a view, but its bytes do not lie like that");
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
        if (!plan_view_part(r->of, node, (uint32_t)i, &cursor, &whole, &part, &offset)) return fail_view(r);
        if (!content_of_slot(r, part, &is)) return false;
        if (r->of->tensors[part].bytes && offset != end) return fail_view(r);
        end += r->of->tensors[part].bytes;
        if (!content_append(r, &joined, &capacity, &is)) return false;
    }
    if (end != r->of->tensors[whole].bytes) return fail_view(r);
    define(r, whole, joined);
    return verify(r, whole);
}

static bool replay_view(replay *r, const plan_node *node) {
    if (op_row_of(plan_node_code(r->of, node))->view == OP_VIEW_CONCAT) return replay_concat(r, node);
    int64_t cursor = 0;
    for (uint64_t i = 0; i < node->output_count; i++) {
        uint32_t whole, part;
        uint64_t offset;
        content outer, inner;
        if (r->of->slots[node->outputs + i] == PLAN_ABSENT ||
            !plan_view_part(r->of, node, (uint32_t)i, &cursor, &whole, &part, &offset)) {
            return fail_view(r);
        }
        if (!content_of_slot(r, whole, &outer) ||
            !content_part(r, &outer, offset, r->of->tensors[part].bytes, &inner)) {
            return false;
        }
        define(r, part, inner);
        if (!verify(r, part)) return false;
    }
    return true;
}

/* ---- control ------------------------------------------------------------------------------------------- */

static bool replay_graph(replay *r, uint32_t graph);

static bool replay_if(replay *r, const plan_node *node) {
    const uint32_t *outputs = r->of->slots + node->outputs;
    size_t since = r->written_count;
    if (!verify(r, r->of->slots[node->inputs])) return false;
    for (uint32_t g = 0; g < 2; g++) {
        const plan_graph *branch = &r->of->graphs[node->first_graph + g];
        size_t mark = plan_bytes_mark(&r->bytes);
        r->epochs[node->first_graph + g] = ++r->epoch;
        bool valid = replay_graph(r, node->first_graph + g);
        r->node = node;
        for (uint64_t i = 0; valid && i < node->output_count; i++) {
            if (outputs[i] != PLAN_ABSENT) valid = move(r, r->of->slots[branch->results + i], outputs[i]);
        }
        valid = valid && verify_all(r, outputs, node->output_count);
        plan_bytes_take_back(&r->bytes, mark);
        if (!valid) return false;
    }
    return join(r, since, outputs, node->output_count);
}

/* The tensor's address changes with the iterations of this very loop: nothing is ever moved there. */
static bool is_moving(const replay *r, const plan_node *node, uint32_t slot) {
    const plan_address *address = &r->of->tensors[slot].address;
    return address->place == PLAN_PLACE_VIEW &&
           r->of->views[address->index].loop == (uint32_t)(node - r->of->nodes);
}

/* Carried value `index` grows in the place of its output. */
static bool is_grown_in(const replay *r, const plan_loop_form *form, uint32_t index) {
    uint32_t output = form->outputs[index];
    return output != PLAN_ABSENT && !is_dynamic(r, output) && plan_loop_grows(r->of, form, index, NULL);
}

/* The loop ends here: its outputs must be what the parameters are. */
static bool replay_exit(replay *r, const plan_node *node, const plan_loop_form *form) {
    size_t mark = plan_bytes_mark(&r->bytes);
    bool valid = true;
    for (uint32_t i = 0; valid && i < form->carried; i++) {
        uint32_t parameter = form->parameters[2 + i], output = form->outputs[i];
        if (output == PLAN_ABSENT || is_grown_in(r, form, i)) continue; /* it is there already */
        if (is_moving(r, node, output) && !is_same_place(r, parameter, output)) {
            valid = fail(r, "output \"%s\" does not lie where the parameter \"%s\" is when the loop ends",
                         name_of(r, output), name_of(r, parameter));
        } else {
            valid = move(r, parameter, output);
        }
    }
    valid = valid && verify_all(r, form->outputs, node->output_count);
    plan_bytes_take_back(&r->bytes, mark);
    for (uint32_t i = 0; valid && i < form->carried; i++) {
        uint32_t output = form->outputs[i];
        if (output == PLAN_ABSENT || !is_moving(r, node, output)) continue;
        const plan_view *view = &r->of->views[r->of->tensors[output].address.index];
        uint64_t k = r->counters[node - r->of->nodes];
        uint64_t which =
            k < view->prologue_count ? k : view->prologue_count + (k - view->prologue_count) % view->period;
        r->ends[i].items[which] = (phase){r->where[output], r->spans[output], r->contents[output], true};
    }
    return valid;
}

/* Room for the places of outputs that are views. */
static bool make_ends(replay *r, const plan_node *node, const plan_loop_form *form, phase_list **ends) {
    *ends = BASE_ARRAY(&r->arena, phase_list, form->carried);
    if (!*ends) return fail_memory(r);
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t output = form->outputs[i];
        if (output == PLAN_ABSENT || !is_moving(r, node, output)) continue;
        r->phases[output].count = 0;
        const plan_view *view = &r->of->views[r->of->tensors[output].address.index];
        (*ends)[i].count = (uint64_t)view->prologue_count + view->period;
        (*ends)[i].items = BASE_ARRAY(&r->arena, phase, (size_t)(*ends)[i].count);
        if (!(*ends)[i].items || !spend(r, (*ends)[i].count)) return fail_memory(r);
    }
    return true;
}

/* Behind the loop an output that is a view is in any of its places: a place that the loop wrote holds one
 * identity, whichever outputs lie there after whichever number of iterations; what it did not touch (initial
 * values) is as it was. */
static bool finish_ends(replay *r, const plan_node *node, const plan_loop_form *form, phase_list *ends,
                        size_t since) {
    size_t until = r->written_count;
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t output = form->outputs[i];
        if (output == PLAN_ABSENT || !is_moving(r, node, output)) continue;
        for (uint64_t k = 0; k < ends[i].count; k++) {
            phase *end = &ends[i].items[k];
            if (!end->seen || !was_written(r, since, until, &end->at)) continue;
            const phase *same = NULL;
            bool shared = false;
            /* Another output may lie there for good: at every end both were seen to be there. */
            for (uint32_t j = 0; j < form->carried && !shared; j++) {
                uint32_t other = form->outputs[j];
                if (other == PLAN_ABSENT || is_moving(r, node, other) || !in_map(&r->where[other])) continue;
                shared = r->spans[other].first == end->at.first && r->spans[other].last == end->at.last;
                if (shared) end->is = r->contents[other];
            }
            if (shared) continue;
            for (uint32_t j = 0; j <= i && !same; j++) {
                for (uint64_t q = 0; q < (j == i ? k : ends[j].count) && !same; q++) {
                    const phase *other = &ends[j].items[q];
                    bool there =
                        other->seen && other->at.first == end->at.first && other->at.last == end->at.last;
                    if (there) same = other;
                }
            }
            if (same) {
                end->is = same->is;
                continue;
            }
            uint32_t *owners =
                base_arena_grow(&r->arena, r->owners, &r->owner_capacity, r->owner_count + 1, sizeof *owners);
            if (!owners) return fail_memory(r);
            r->owners = owners;
            owners[r->owner_count++] = output;
            uint64_t identity = ++r->identity;
            end->is = content_of(identity, 0, r->of->tensors[output].bytes);
            if (!write_span(r, end->at.first, end->at.last, (plan_bytes_tag){identity, end->at.address}))
                return false;
        }
        r->phases[output] = ends[i];
        define(r, output, r->contents[output]);
    }
    return true;
}

/* Where slice t begins in the whole, in bytes, along the outermost axis. */
static uint64_t slice_offset(const replay *r, const plan_loop_form *form, bool output, uint32_t index,
                             uint32_t whole, uint32_t slice, uint64_t t) {
    uint64_t bytes = r->of->tensors[slice].bytes, count = bytes ? r->of->tensors[whole].bytes / bytes : 0;
    return (plan_loop_backwards(form, output, index) ? count - 1 - t : t) * bytes;
}

/* The slice is these bytes of the whole, so that nothing is copied. */
static bool lies_in_whole(const replay *r, const plan_loop_form *form, bool output, uint32_t index,
                          uint32_t whole, uint32_t slice, uint64_t t) {
    if (is_dynamic(r, whole) || is_dynamic(r, slice) || !r->of->tensors[slice].bytes) return false;
    if (plan_loop_axis(form, output, index) != 0 || r->of->tensors[whole].layout != OP_LAYOUT_PLAIN ||
        r->of->tensors[slice].layout != OP_LAYOUT_PLAIN) {
        return false;
    }
    plan_address at = r->where[whole];
    at.offset += slice_offset(r, form, output, index, whole, slice, t);
    return is_same_address(&at, &r->where[slice]);
}

/* At the end of iteration t the replacements become the parameters of the next. */
static bool hand_on(replay *r, const plan_node *node, const plan_loop_form *form, uint64_t t) {
    content *held = BASE_ARRAY(&r->arena, content, form->carried);
    plan_address *places = BASE_ARRAY(&r->arena, plan_address, form->carried);
    if (!held || !places) return fail_memory(r);
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t result = form->results[1 + i], parameter = form->parameters[2 + i];
        if (!is_moving(r, node, parameter)) {
            if (!move(r, result, parameter)) return false;
            continue;
        }
        if (!verify(r, result) || !content_of_slot(r, result, &held[i])) return false;
        places[i] = r->where[result];
    }
    if (!set_counter(r, node, t + 1)) return false;
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t parameter = form->parameters[2 + i];
        if (!is_moving(r, node, parameter)) continue;
        if (!is_same_address(&places[i], &r->where[parameter])) {
            return fail(r,
                        "parameter \"%s\" does not lie where its replacement was made in iteration %" PRIu64,
                        name_of(r, parameter), t);
        }
        define(r, parameter, held[i]);
    }
    return true;
}

/* The slice that iteration t has made in its place: from now on these bytes are the stacked output's, also in
 * the eyes of the other results that lie in them. */
static bool adopt_slice(replay *r, const plan_loop_form *form, uint32_t index, uint64_t t) {
    uint32_t whole = form->outputs[form->carried + index], slice = form->results[1 + form->carried + index];
    uint64_t offset = slice_offset(r, form, true, index, whole, slice, t),
             identity = r->contents[whole].one.identity;
    span at = r->spans[slice];
    /* One value may be several results: first look at all, then change what they are. */
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < form->carried + form->scan_outputs; i++) {
            uint32_t result = form->results[1 + i];
            uint64_t bytes = r->of->tensors[result].bytes;
            if (is_dynamic(r, result) || !in_map(&r->where[result]) || !bytes) continue;
            span inner = r->spans[result];
            if (inner.first < at.first || inner.last > at.last) continue;
            if (pass == 0 && !verify(r, result)) return false;
            if (pass == 1)
                define(r, result, content_of(identity, offset + (inner.address - at.address), bytes));
        }
    }
    return write_span(r, at.first, at.last, (plan_bytes_tag){identity, r->spans[whole].address});
}

static bool replay_iteration(replay *r, const plan_node *node, const plan_loop_form *form, uint64_t t) {
    const uint32_t *stacked = form->outputs + form->carried, *slices = form->results + 1 + form->carried;
    for (uint32_t i = 0; i < 2; i++) {
        if (!write(r, form->parameters[i])) return false;
    }
    for (uint32_t i = 0; i < form->scan_inputs; i++) {
        uint32_t whole = form->initial[form->carried + i], slice = form->parameters[2 + form->carried + i];
        content all, part;
        if (!verify(r, whole)) return false;
        if (!lies_in_whole(r, form, false, i, whole, slice, t)) {
            if (!write(r, slice)) return false;
            continue;
        }
        if (!content_of_slot(r, whole, &all) ||
            !content_part(r, &all, slice_offset(r, form, false, i, whole, slice, t),
                          r->of->tensors[slice].bytes, &part)) {
            return false;
        }
        define(r, slice, part);
        if (!verify(r, slice)) return false;
    }
    if (!replay_graph(r, form->body)) return false;
    r->node = node;
    if (!verify(r, form->results[0])) return false;
    for (uint32_t i = 0; i < form->scan_outputs; i++) {
        if (stacked[i] == PLAN_ABSENT) continue;
        if (!verify(r, slices[i])) return false;
        if (lies_in_whole(r, form, true, i, stacked[i], slices[i], t)) {
            if (!adopt_slice(r, form, i, t)) return false;
        }
        if (!verify_all(r, &stacked[i], 1)) return false;
        if (!lies_in_whole(r, form, true, i, stacked[i], slices[i], t) &&
            do_overlap(r, slices[i], stacked[i])) {
            return fail(r, "slice \"%s\" lies in its stacked output", name_of(r, slices[i]));
        }
    }
    for (uint32_t i = 0; i < form->carried; i++) {
        if (is_grown_in(r, form, i) && !verify_all(r, &form->outputs[i], 1)) return false;
    }
    return hand_on(r, node, form, t);
}

/* How many iterations show all there is to see; fewer where what is scanned or stacked has fewer slices. */
static uint64_t replayed_iterations(const replay *r, const plan_node *node, const plan_loop_form *form) {
    uint64_t count = plan_loop_horizon(r->of, (uint32_t)(node - r->of->nodes), MOST_ITERATIONS);
    if (count < REPLAYED_ITERATIONS) count = REPLAYED_ITERATIONS;
    for (uint32_t i = 0; i < form->scan_inputs + form->scan_outputs; i++) {
        bool output = i >= form->scan_inputs;
        uint32_t at = output ? i - form->scan_inputs : i;
        uint32_t whole = output ? form->outputs[form->carried + at] : form->initial[form->carried + at];
        uint32_t slice =
            output ? form->results[1 + form->carried + at] : form->parameters[2 + form->carried + at];
        if (whole == PLAN_ABSENT || is_dynamic(r, whole) || is_dynamic(r, slice) ||
            !is_moving(r, node, slice))
            continue;
        uint64_t bytes = r->of->tensors[slice].bytes,
                 slices = bytes ? r->of->tensors[whole].bytes / bytes : 0;
        if (slices < count) count = slices;
    }
    return count;
}

/* The tensor lies within the bytes of `whole`, as far as these are known: what is there? */
static bool content_within(replay *r, uint32_t whole, uint32_t slot, content *is) {
    const plan_address *at = &r->where[slot], *from = &r->where[whole];
    uint64_t bytes = r->of->tensors[slot].bytes, all = r->of->tensors[whole].bytes;
    bool one = at->place == PLAN_PLACE_ARENA || at->place == PLAN_PLACE_CONSTANT;
    content of_whole;
    if (is_dynamic(r, whole) || at->place != from->place || (!one && at->index != from->index)) return false;
    if (at->offset < from->offset || at->offset - from->offset > all ||
        bytes > all - (at->offset - from->offset))
        return false;
    return content_of_slot(r, whole, &of_whole) &&
           content_part(r, &of_whole, at->offset - from->offset, bytes, is);
}

/* From here on to iteration t everything goes on as before: all views are where they were a multiple of their
 * periods ago, but for those that move on with every iteration, through what is scanned or stacked. */
static bool skip_to(replay *r, const plan_node *node, const plan_loop_form *form, uint64_t t) {
    if (!set_counter(r, node, t)) return false;
    for (uint32_t i = 0; i < form->carried; i++) {
        uint32_t parameter = form->parameters[2 + i];
        content is;
        bool found = false;
        if (!is_moving(r, node, parameter) || !r->of->views[r->of->tensors[parameter].address.index].stride)
            continue;
        for (uint32_t k = 0; k < form->scan_inputs + form->scan_outputs && !found; k++) {
            uint32_t whole = k < form->scan_inputs ? form->initial[form->carried + k]
                                                   : form->outputs[form->carried + k - form->scan_inputs];
            found = whole != PLAN_ABSENT && content_within(r, whole, parameter, &is);
        }
        if (!found) return fail(r, "parameter \"%s\" moves through no slices", name_of(r, parameter));
        define(r, parameter, is);
    }
    return true;
}

/* The least common multiple of the periods of the loop's views. */
static uint64_t common_period(const replay *r, const plan_node *node, uint64_t *prologue) {
    uint32_t loop = (uint32_t)(node - r->of->nodes);
    uint64_t horizon = plan_loop_horizon(r->of, loop, UINT32_MAX);
    *prologue = 0;
    for (uint64_t v = 0; v < r->of->header->views.count; v++) {
        const plan_view *view = &r->of->views[v];
        if (view->loop == loop && view->prologue_count > *prologue) *prologue = view->prologue_count;
    }
    return horizon > *prologue + 1 ? (horizon - *prologue - 1) / 2 : 1;
}

static bool replay_loop(replay *r, const plan_node *node) {
    plan_loop_form form;
    size_t since = r->written_count;
    if (!plan_loop_form_read(r->of, node, &form)) return fail(r, "its body does not fit");
    if ((form.trip_count != PLAN_ABSENT && !verify(r, form.trip_count)) ||
        (form.condition != PLAN_ABSENT && !verify(r, form.condition))) {
        return false;
    }
    r->epochs[form.body] = ++r->epoch;
    if (!set_counter(r, node, 0)) return false;
    for (uint32_t i = 0; i < form.carried; i++) {
        if (!move(r, form.initial[i], form.parameters[2 + i])) return false;
    }
    /* While the loop runs the stacked outputs belong to it, slice by slice. */
    for (uint32_t i = 0; i < form.scan_outputs; i++) {
        uint32_t stacked = form.outputs[form.carried + i];
        if (stacked != PLAN_ABSENT && !write(r, stacked)) return false;
    }
    /* And so do the places in which values grow. */
    for (uint32_t i = 0; i < form.carried; i++) {
        if (is_grown_in(r, &form, i) && !write(r, form.outputs[i])) return false;
    }
    uint64_t count = replayed_iterations(r, node, &form), trips = 0;
    phase_list *ends, *outer_ends = r->ends;
    if (!make_ends(r, node, &form, &ends)) return false;
    r->ends = ends;
    /* It is left after any iteration, or, where it is certain when, after that one. */
    uint64_t prologue, period = common_period(r, node, &prologue), last = count;
    bool certain = is_certain(r, &form, &trips);
    if (certain && trips <= count) count = last = trips;
    else if (certain && count >= prologue) last = count + (trips - count) % period;
    else certain = false; /* not all of the prologue is seen: left anywhere */
    if ((!certain || last == 0) && !replay_exit(r, node, &form)) return false;
    for (uint64_t k = 0; k < last; k++) {
        uint64_t t = certain && k >= count ? trips - last + k : k;
        if (certain && k == count && !skip_to(r, node, &form, t)) return false;
        /* Parameters are handed on; all else of the body is gone. */
        r->epochs[form.body] = ++r->epoch;
        for (uint32_t i = 0; i < form.carried; i++) {
            uint32_t parameter = form.parameters[2 + i];
            if (r->defined[parameter]) define(r, parameter, r->contents[parameter]);
        }
        if (!replay_iteration(r, node, &form, t)) return false;
        r->ends = ends; /* an inner loop had its own */
        if (certain && k + 1 == last && last == count && trips > count && !skip_to(r, node, &form, trips))
            return false;
        if ((!certain || k + 1 == last) && !replay_exit(r, node, &form)) return false;
    }
    r->ends = outer_ends;
    uint32_t *fixed = BASE_ARRAY(&r->arena, uint32_t, (size_t)node->output_count);
    if (!fixed) return fail_memory(r);
    for (uint64_t i = 0; i < node->output_count; i++) {
        uint32_t output = r->of->slots[node->outputs + i];
        fixed[i] =
            output != PLAN_ABSENT && i < form.carried && is_moving(r, node, output) ? PLAN_ABSENT : output;
    }
    return join(r, since, fixed, node->output_count) && finish_ends(r, node, &form, ends, since);
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static bool replay_graph(replay *r, uint32_t number) {
    const plan_graph *graph = &r->of->graphs[number];
    for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
        const plan_node *node = &r->of->nodes[n];
        op_code code = plan_node_code(r->of, node);
        bool valid;
        r->node = node;
        r->step = n - graph->nodes;
        if (!spend(r, 1)) return false;
        if (code == OP_IF) valid = replay_if(r, node);
        else if (code == OP_LOOP) valid = replay_loop(r, node);
        else if (node->flags & PLAN_NODE_DYNAMIC) valid = replay_run(r, node);
        else if (node->flags & PLAN_NODE_VIEW) valid = replay_view(r, node);
        else valid = replay_run(r, node);
        if (!valid) return false;
    }
    r->node = NULL;
    return verify_all(r, r->of->slots + graph->results, graph->result_count);
}

static bool replay_plan(replay *r) {
    const plan *of = r->of;
    r->phases = BASE_ARRAY(&r->arena, phase_list, (size_t)of->header->tensors.count);
    r->contents = BASE_ARRAY(&r->arena, content, (size_t)of->header->tensors.count);
    r->defined = BASE_ARRAY(&r->arena, uint64_t, (size_t)of->header->tensors.count);
    r->epochs = BASE_ARRAY(&r->arena, uint64_t, (size_t)of->header->graphs.count);
    if (!r->phases || !r->contents || !r->defined || !r->epochs) return fail_memory(r);
    if (!map_outputs(r) || !map_spans(r)) return false;
    r->identity = input_identity(of->header->inputs.count) - 1;
    r->epochs[0] = ++r->epoch;
    for (uint64_t i = 0; i < of->header->inputs.count; i++) {
        uint32_t slot = of->inputs[i].slot;
        define(r, slot, content_of(input_identity(i), 0, of->tensors[slot].bytes));
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

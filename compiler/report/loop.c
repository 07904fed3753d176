/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c: see compiler/report/loop.h. */
#include "compiler/report/loop.h"
#include "compiler/report/emit.h"
#include "compiler/report/report.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_node(const plan *of, const plan_node *node, const char *operator_name) {
    return strcmp(of->texts + node->operator_name, operator_name) == 0;
}

uint64_t emit_loop_carried(const plan *of, const plan_node *node) {
    plan_loop_form form;
    return plan_loop_form_read(of, node, &form) ? form.carried : 0;
}

const char *emit_loop_name(const plan *of, uint32_t index, char *text, size_t capacity) {
    const plan_node *node = &of->nodes[index];
    const char *name = of->texts + node->name, *output = "";
    for (uint64_t i = 0; i < node->output_count && !output[0]; i++) {
        uint32_t id = of->tensor_ids[node->outputs + i];
        if (id != PLAN_ABSENT) output = of->texts + of->tensors[id].name;
    }
    if (name[0]) snprintf(text, capacity, "%s", name);
    else snprintf(text, capacity, "%s%s%s", of->texts + node->path, output[0] ? "/" : "", output);
    return text;
}

const char *emit_place_print(const plan_address *address, uint64_t more, char *text, size_t capacity) {
    static const char *const places[] = {"nowhere", "", "constant", "input", "output", "", "run-time memory"};
    uint64_t offset = address->offset + more;
    switch ((memory_space)address->space) {
    case MEMORY_ARENA:
        snprintf(text, capacity, "@%" PRIu64, offset);
        break;
    case MEMORY_STATE:
        snprintf(text, capacity, "state @%" PRIu64, offset);
        break;
    case MEMORY_SPILL:
        snprintf(text, capacity, "spill file @%" PRIu64, offset);
        break;
    case MEMORY_CONSTANT:
        snprintf(text, capacity, "constant @%" PRIu64, offset);
        break;
    case MEMORY_INPUT:
    case MEMORY_OUTPUT:
        snprintf(text, capacity, "%s %u @%" PRIu64, places[address->space], address->index, offset);
        break;
    case MEMORY_MULTIVIEW:
        if (offset) snprintf(text, capacity, "v%u + %" PRIu64, address->index, offset);
        else snprintf(text, capacity, "v%u", address->index);
        break;
    case MEMORY_NONE:
    case MEMORY_DYNAMIC:
        snprintf(text, capacity, "%s", places[address->space]);
        break;
    }
    return text;
}

const plan_multiview *emit_loop_view(const plan *of, uint32_t id, uint32_t loop) {
    const plan_address *address = id == PLAN_ABSENT ? NULL : &of->tensors[id].address;
    if (!address || address->space != MEMORY_MULTIVIEW || of->multiviews[address->index].loop != loop)
        return NULL;
    return &of->multiviews[address->index];
}

static bool same_address(const plan_address *a, const plan_address *b) {
    return a->space == b->space && a->index == b->index && a->offset == b->offset;
}

/* Bytes that move when tensor `from` becomes tensor `to`; 0 where both are the same bytes. */
static uint64_t moved_bytes(const plan *of, uint32_t from, uint32_t to) {
    if (from == PLAN_ABSENT || to == PLAN_ABSENT) return 0;
    const plan_tensor *source = &of->tensors[from], *target = &of->tensors[to];
    if (target->address.space == MEMORY_NONE) return 0;
    return same_address(&source->address, &target->address) ? 0 : target->bytes;
}

/* In every iteration but the first ones this address is in a buffer that can be swapped with this one. */
static bool is_in_group(const plan *of, const plan_address *address, const plan_multiview *target) {
    if (address->space != MEMORY_MULTIVIEW) return false;
    const plan_multiview *view = &of->multiviews[address->index];
    if (view->group) return view->loop == target->loop && view->group == target->group;
    for (uint32_t k = 0; k < view->period; k++)
        if (!is_in_group(of, &of->addresses[view->first + view->prologue_count + k], target)) return false;
    return true;
}

/* Output `index` of the node gets its bytes by a buffer swap, so that nothing is copied. */
static bool is_exchanged(const plan *of, const plan_node *node, uint32_t index, uint32_t from) {
    uint32_t view = plan_swap_buffer(of, (uint32_t)(node - of->nodes), index, from);
    return view != PLAN_ABSENT && is_in_group(of, &of->tensors[from].address, &of->multiviews[view]);
}

/* What is copied from a parameter to its output when the loop is left: nothing, where it is known that the
 * last iteration leaves it there, and where the output is read in whatever place that was. */
static uint64_t left_bytes(const plan *of, const plan_node *node, uint32_t index, uint32_t parameter,
                           uint32_t output) {
    const plan_address *address = &of->tensors[parameter].address, *target = &of->tensors[output].address;
    if (address->space != MEMORY_MULTIVIEW || same_address(address, target))
        return moved_bytes(of, parameter, output);
    if (target->space == MEMORY_NONE) return 0;
    if (target->space == MEMORY_MULTIVIEW && node == &of->nodes[of->multiviews[target->index].loop]) return 0;
    if (is_exchanged(of, node, index, parameter)) return 0;
    /* The only buffer: it is there but for loops of no iteration. */
    const plan_multiview *view = &of->multiviews[address->index];
    plan_address always = plan_multiview_entry(of, address->index, view->prologue_count);
    always.offset += address->offset;
    if (view->period == 1 && view->stride == 0 && same_address(&always, target)) return 0;
    if (view->from_end) {
        plan_address end =
            plan_multiview_entry(of, address->index, (uint64_t)view->prologue_count * view->period);
        end.offset += address->offset;
        return same_address(&end, target) ? 0 : of->tensors[output].bytes;
    }
    uint32_t trips = of->tensor_ids[node->inputs];
    int64_t count;
    if (trips == PLAN_ABSENT || of->tensors[trips].address.space != MEMORY_CONSTANT ||
        of->tensors[trips].bytes != sizeof count) {
        return of->tensors[output].bytes;
    }
    memcpy(&count, of->constants + of->tensors[trips].address.offset, sizeof count);
    plan_address last = plan_multiview_entry(of, address->index, count < 0 ? 0 : (uint64_t)count);
    last.offset += address->offset;
    return same_address(&last, target) ? 0 : of->tensors[output].bytes;
}

/* Graph `inner` is `outer`, or within it. */
static bool is_within(const plan *of, uint32_t inner, uint32_t outer) {
    while (inner != outer) {
        uint32_t owner = of->graphs[inner].owner;
        if (owner == PLAN_ABSENT) return false;
        inner = of->nodes[owner].graph;
    }
    return true;
}

/* The address in iteration t of the loop whose view it is. */
static plan_address address_at(const plan *of, const plan_address *address, uint64_t t) {
    if (address->space != MEMORY_MULTIVIEW || of->multiviews[address->index].group) return *address;
    plan_address at = plan_multiview_entry(of, address->index, t);
    at.offset += address->offset;
    return at;
}

uint64_t emit_loop_kept(const plan *of, const plan_node *node) {
    uint64_t first = 0, count = 1, copied = 0, part;
    if (!plan_kept_part(of, node, &part)) return 0;
    const plan_tensor *from = &of->tensors[of->tensor_ids[node->inputs]],
                      *to = &of->tensors[of->tensor_ids[node->outputs]];
    for (int i = 0; i < 2; i++) {
        const plan_address *address = i ? &to->address : &from->address;
        if (address->space != MEMORY_MULTIVIEW) continue;
        const plan_multiview *view = &of->multiviews[address->index];
        if (view->prologue_count > first) first = view->prologue_count;
        count = base_lcm(count, view->period);
    }
    /* After the first iterations it is there already, or is in most of them. */
    for (uint64_t t = first; t < first + count; t++) {
        plan_address is = address_at(of, &from->address, t), there = address_at(of, &to->address, t);
        is.offset += part;
        copied += !same_address(&is, &there) || is.space == MEMORY_DYNAMIC;
    }
    return copied == count ? to->bytes : (copied * to->bytes + count - 1) / count;
}

uint64_t emit_loop_copied(const plan *of, const plan_node *node) {
    if (!is_node(of, node, "Copy") || !node->output_count || (node->flags & PLAN_NODE_ALIAS)) return 0;
    uint32_t from = of->tensor_ids[node->inputs], to = of->tensor_ids[node->outputs];
    if (from == PLAN_ABSENT || to == PLAN_ABSENT || is_exchanged(of, node, 0, from)) return 0;
    return node->flags & PLAN_NODE_DYNAMIC ? of->tensors[to].bytes : emit_loop_kept(of, node);
}

/* What Copy nodes of a graph and of its branches copy; of several branches the one that copies most. */
static uint64_t copy_bytes(const plan *of, uint32_t index) {
    const plan_graph *graph = &of->graphs[index];
    uint64_t bytes = 0;
    for (uint64_t i = graph->nodes; i < graph->nodes + graph->node_count; i++) {
        const plan_node *node = &of->nodes[i];
        uint64_t most = 0;
        bytes += emit_loop_copied(of, node);
        for (uint32_t g = 0; g < node->graph_count && !is_node(of, node, "Loop"); g++) {
            uint64_t branch = copy_bytes(of, node->first_graph + g);
            if (branch > most) most = branch;
        }
        bytes += most;
    }
    return bytes;
}

static int compare_addresses(const void *a, const void *b) {
    const plan_address *x = a, *y = b;
    if (x->space != y->space) return x->space < y->space ? -1 : 1;
    if (x->index != y->index) return x->index < y->index ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* All that the carried parameters and their replacements lie in. */
static bool count_places(const plan *of, emit_loop *loop) {
    const plan_loop_form *form = &loop->form;
    size_t most = 0, count = 0;
    for (int pass = 0; pass < 2; pass++) {
        plan_address *places = pass ? malloc(most * sizeof *places + 1) : NULL;
        if (pass && !places) return false;
        for (uint32_t i = 0; i < 2 * form->carried; i++) {
            uint32_t id = i % 2 ? form->results[1 + i / 2] : form->parameters[2 + i / 2];
            if (id == PLAN_ABSENT) continue;
            const plan_address *address = &of->tensors[id].address;
            const plan_multiview *view = emit_loop_view(of, id, loop->node);
            uint32_t entries = view ? view->prologue_count + view->period : 1;
            if (!pass) most += entries;
            for (uint32_t k = 0; pass && k < entries; k++) {
                places[count] = view ? of->addresses[view->first + k] : *address;
                if (view) places[count].offset += address->offset;
                count++;
            }
        }
        if (!pass) continue;
        qsort(places, count, sizeof *places, compare_addresses);
        for (size_t k = 0; k < count; k++)
            loop->places += !k || compare_addresses(&places[k - 1], &places[k]) != 0;
        free(places);
    }
    return true;
}

emit_moved emit_loop_moved(const plan *of, const emit_loop *loop, uint32_t index) {
    const plan_loop_form *form = &loop->form;
    uint32_t parameter = form->parameters[2 + index];
    emit_moved moved = {0};
    uint32_t output = form->outputs[index];
    /* What grows in the place of its output is put there once, as far as it is there at first. */
    plan_address place = {.space = MEMORY_DYNAMIC};
    if (output != PLAN_ABSENT && !plan_tensor_reservation(of, output, &place))
        place = of->tensors[output].address;
    if (place.space != MEMORY_DYNAMIC && plan_loop_grows(of, form, index, NULL)) {
        const plan_tensor *initial = &of->tensors[form->initial[index]];
        moved.entered = same_address(&initial->address, &place) ? 0 : initial->bytes;
        return moved;
    }
    /* A parameter whose address is a view lies where its replacement was made, and in the first iteration where
     * the view begins; what leaves it for another place is copied once. */
    if (!emit_loop_view(of, parameter, loop->node)) {
        moved.entered = moved_bytes(of, form->initial[index], parameter);
        moved.handed_on = moved_bytes(of, form->results[1 + index], parameter);
    }
    if (output != PLAN_ABSENT) moved.left = left_bytes(of, &of->nodes[loop->node], index, parameter, output);
    return moved;
}

uint32_t emit_loop_copied_slice(const plan *of, const emit_loop *loop, uint32_t index) {
    const plan_loop_form *form = &loop->form;
    bool output = index >= form->scan_inputs;
    uint32_t at = output ? index - form->scan_inputs : index;
    uint32_t id = output ? form->results[1 + form->carried + at] : form->parameters[2 + form->carried + at];
    if (output && form->outputs[form->carried + at] == PLAN_ABSENT) return PLAN_ABSENT;
    /* A slice that lies inside of what is scanned or stacked moves nothing: its address moves with each iteration. */
    const plan_multiview *view = emit_loop_view(of, id, loop->node);
    return view && view->stride ? PLAN_ABSENT : id;
}

/* Its size is known only when it is there. */
static bool is_open(const plan *of, uint32_t id) {
    plan_address reserved;
    return id != PLAN_ABSENT && of->tensors[id].address.space == MEMORY_DYNAMIC &&
           !plan_tensor_reservation(of, id, &reserved);
}

/* A boolean that is always true, or (for the condition with which a loop begins) absent. */
static bool holds(const plan *of, uint32_t id) {
    if (id == PLAN_ABSENT) return true;
    const plan_tensor *tensor = &of->tensors[id];
    return tensor->address.space == MEMORY_CONSTANT && tensor->bytes == 1 &&
           of->constants[tensor->address.offset];
}

/* How often it runs is known: by a constant trip count, or by what is scanned, and no condition ends it before. */
static bool is_counted(const plan *of, const plan_loop_form *form) {
    bool handed_on = form->results[0] == form->parameters[1] && holds(of, form->condition);
    if (!handed_on && !holds(of, form->results[0])) return false;
    if (form->trip_count != PLAN_ABSENT)
        return of->tensors[form->trip_count].address.space == MEMORY_CONSTANT;
    return form->scan_inputs && !is_open(of, form->initial[form->carried]);
}

const char *emit_loop_why_left(const plan *of, const emit_loop *loop, uint32_t index) {
    const plan_loop_form *form = &loop->form;
    if (is_open(of, form->parameters[2 + index])) return "it changed its size in run-time memory";
    return is_counted(of, form) ? "it lies elsewhere already: an initial value, a slice, or another output"
                                : "the number of iterations is not known, and its place is decided elsewhere";
}

/* Slices along this axis of a tensor lie together: every extent before it is 1. */
static bool lies_together(const plan *of, uint32_t whole, int64_t axis) {
    op_type type;
    int32_t normal;
    plan_tensor_type(of, whole, &type);
    if (axis == 0 || !op_axis(axis, type.shape.rank, &normal)) return axis == 0;
    for (int32_t d = 0; d < normal; d++)
        if (type.shape.dims[d] != 1) return false;
    return true;
}

const char *emit_loop_why_slice(const plan *of, const emit_loop *loop, uint32_t index) {
    const plan_loop_form *form = &loop->form;
    const bool output = index >= form->scan_inputs;
    const uint32_t at = output ? index - form->scan_inputs : index;
    const uint32_t slice =
        output ? form->results[1 + form->carried + at] : form->parameters[2 + form->carried + at];
    const uint32_t whole = output ? form->outputs[form->carried + at] : form->initial[form->carried + at];
    const int64_t axis = plan_loop_axis(form, output, at);
    if (!lies_together(of, whole, axis)) return "a slice along another axis than the first";
    if (is_open(of, slice)) return "its size is not known before the run";
    if (is_open(of, whole) && output)
        return "the number of slices is not known: they are gathered in run-time memory";
    if (is_open(of, whole)) return "what is scanned lies in run-time memory";
    return "it has a place already";
}

bool emit_loop_measure(const plan *of, uint32_t index, emit_loop *loop) {
    const plan_node *node = &of->nodes[index];
    *loop = (emit_loop){.node = index, .unroll = 1};
    if (!is_node(of, node, "Loop") || !node->graph_count || !plan_loop_form_read(of, node, &loop->form))
        return false;
    const plan_loop_form *form = &loop->form;
    for (uint32_t i = 0; i < form->carried + form->scan_inputs; i++) {
        const uint64_t bytes = of->tensors[form->parameters[2 + i]].bytes;
        const uint32_t output = i < form->carried ? form->outputs[i] : PLAN_ABSENT;
        loop->copying_bytes += bytes;
        if (bytes || output == PLAN_ABSENT) continue;
        loop->copying_bytes += of->tensors[output].bytes; /* what grows: as large as it becomes */
        loop->copying_grows |= of->tensors[output].bytes != 0;
    }
    for (uint32_t i = 0; i < form->scan_outputs; i++)
        loop->copying_bytes += of->tensors[form->results[1 + form->carried + i]].bytes;
    for (uint32_t i = 0; i < form->carried; i++) {
        emit_moved moved = emit_loop_moved(of, loop, i);
        loop->entry_bytes += moved.entered + moved.left;
        loop->iteration_bytes += moved.handed_on;
    }
    for (uint32_t i = 0; i < form->scan_inputs + form->scan_outputs; i++) {
        uint32_t id = emit_loop_copied_slice(of, loop, i);
        if (id != PLAN_ABSENT) loop->iteration_bytes += of->tensors[id].bytes;
    }
    loop->iteration_bytes += copy_bytes(of, node->first_graph);
    for (uint32_t i = 0; i < of->header->tensors.count; i++) {
        const plan_multiview *view = emit_loop_view(of, i, index);
        if (!view || !is_within(of, of->tensors[i].graph, node->first_graph)) continue;
        loop->multiview++;
        loop->unroll = base_lcm(loop->unroll, view->period);
    }
    loop->buffer_bytes = of->graphs[node->first_graph].region_bytes;
    return count_places(of, loop);
}

const char *emit_loop_line(const plan *of, const emit_loop *loop, char *text, size_t capacity) {
    enum { MOST = 12 };
    char name[256], bytes[3][32];
    size_t used = (size_t)snprintf(text, capacity, "%s: unroll %" PRIu64 ", repeat length%s",
                                   emit_loop_name(of, loop->node, name, sizeof name), loop->unroll,
                                   loop->form.carried == 1 ? "" : "s");
    for (uint32_t i = 0; i < loop->form.carried && used < capacity; i++) {
        const plan_multiview *view = emit_loop_view(of, loop->form.parameters[2 + i], loop->node);
        if (i == MOST) {
            used += (size_t)snprintf(text + used, capacity - used, ", ... (%u)", loop->form.carried);
            break;
        }
        used +=
            (size_t)snprintf(text + used, capacity - used, "%s%u", i ? ", " : " ", view ? view->period : 1);
    }
    if (!loop->form.carried && used < capacity)
        used += (size_t)snprintf(text + used, capacity - used, " none");
    if (used < capacity)
        snprintf(text + used, capacity - used,
                 "; copies %s an iteration instead of %s%s, %s when it is entered and left",
                 emit_size_print((size_t)loop->iteration_bytes, bytes[0], sizeof bytes[0]),
                 loop->copying_grows ? "up to " : "",
                 emit_size_print((size_t)loop->copying_bytes, bytes[1], sizeof bytes[1]),
                 emit_size_print((size_t)loop->entry_bytes, bytes[2], sizeof bytes[2]));
    return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* structure_memory.c: does each operand have memory that a kernel can use? See runtime/plan/structure.c.
 *
 * Whether addresses of multi-views lie within their memory is found when the plan is replayed (check_spans.c).
 */
#include "runtime/plan/structure.h"
#include <inttypes.h>
#include <string.h>

enum { MOST_ENTRIES = 65536, MOST_ELEMENT = 8 };

static const char *text_of(const structure_checker *c, uint32_t text) {
    return c->of->texts + text;
}

/* ---- multi-views --------------------------------------------------------------------------------------- */

static bool is_output_of(const structure_checker *c, uint32_t loop, uint32_t id) {
    if (loop == plan_run_loop(c->of)) return false;
    const plan_node *node = &c->of->nodes[loop];
    for (uint64_t i = 0; i < node->output_count; i++) {
        if (c->of->tensor_ids[node->outputs + i] == id) return true;
    }
    return false;
}

/* Loop `first` runs, and has ended, before loop `then` begins: in the same graph, or in one that encloses it. */
static bool ends_before(const structure_checker *c, uint32_t first, uint32_t then) {
    const plan *of = c->of;
    while (of->nodes[then].graph != of->nodes[first].graph) {
        if (!of->nodes[then].graph) return false;
        then = of->graphs[of->nodes[then].graph].owner;
    }
    return first < then;
}

/* The tensor may lie where the loop leaves what it carries: it is its output, or in its body, or belongs to a loop that
 * runs later. */
static bool may_lie_after(const structure_checker *c, uint32_t loop, uint32_t id) {
    const plan *of = c->of;
    uint32_t graph = of->tensors[id].graph;
    if (plan_is_within(of, loop, graph) || is_output_of(c, loop, id)) return true;
    if (graph && ends_before(c, loop, of->graphs[graph].owner)) return true;
    for (uint32_t n = loop + 1; n < of->header->nodes.count; n++) {
        if (plan_node_code(of, &of->nodes[n]) == OP_LOOP && is_output_of(c, n, id))
            return ends_before(c, loop, n);
    }
    return false;
}

/* Two entries, of addresses that do not change. */
static bool check_branch_multiview(const plan *of, const plan_multiview *multiview) {
    if (multiview->period != 2 || multiview->prologue_count || multiview->stride || multiview->group ||
        multiview->bytes || multiview->from_end || multiview->lazy)
        return false;
    return of->addresses[multiview->first].space != MEMORY_MULTIVIEW &&
           of->addresses[multiview->first + 1].space != MEMORY_MULTIVIEW;
}

/* What an inner loop writes into a lazy buffer, or into what lies in one now and then, has to get a piece of its own first: nobody
 * would know its name. The multi-views themselves have been checked. */
static bool check_lazy_entries(structure_checker *c) {
    const plan *of = c->of;
    for (uint64_t v = 0; v < of->header->multiviews.count; v++) {
        const plan_multiview *multiview = &of->multiviews[v];
        if (multiview->loop == plan_run_loop(of)) continue;
        for (uint64_t i = 0; i < (uint64_t)multiview->prologue_count + multiview->period; i++) {
            const uint32_t lazy = plan_lazy_buffer(of, &of->addresses[multiview->first + i]);
            if (lazy == PLAN_ABSENT) continue;
            const uint32_t loop = of->multiviews[lazy].loop;
            if (loop != multiview->loop && loop < of->header->nodes.count &&
                plan_is_within(of, loop, of->nodes[multiview->loop].graph))
                return structure_fail(
                    c, "multi-view %" PRIu64 " lies in a lazy multi-view of a loop around its own", v);
        }
    }
    return true;
}

/* Multi-views belong to loops, tensors with such addresses to their bodies or to what runs after them, and entries
 * that are multi-views to enclosing loops, or to loops that have ended before, so that following them ends. Whether addresses lie within their memory
 * is found when the plan is replayed. */
bool structure_check_multiviews(structure_checker *c) {
    const plan *of = c->of;
    for (uint64_t v = 0; v < of->header->multiviews.count; v++) {
        const plan_multiview *multiview = &of->multiviews[v];
        const bool runs = multiview->loop == plan_run_loop(of) && of->header->states.count;
        if (!runs && multiview->loop < of->header->nodes.count &&
            plan_node_code(of, &of->nodes[multiview->loop]) == OP_IF) {
            if (!check_branch_multiview(of, multiview))
                return structure_fail(c, "multi-view %" PRIu64 " has no entry for each branch", v);
            continue;
        }
        if ((!runs && (multiview->loop >= of->header->nodes.count ||
                       plan_node_code(of, &of->nodes[multiview->loop]) != OP_LOOP)) ||
            (runs && (multiview->stride || multiview->group)) ||
            (multiview->stride && multiview->period != 1) ||
            (multiview->group &&
             (multiview->period != 1 || multiview->prologue_count || multiview->stride)) ||
            (multiview->group == 0) != (multiview->bytes == 0) || multiview->prologue_count > MOST_ENTRIES ||
            multiview->period > MOST_ENTRIES) {
            return structure_fail(c, "multi-view %" PRIu64 " belongs to no loop", v);
        }
        if (multiview->from_end > 1 ||
            (multiview->from_end && (runs || multiview->stride || multiview->group)))
            return structure_fail(c, "multi-view %" PRIu64 " cannot count from the end of its loop", v);
        if (multiview->lazy > 1 || (multiview->lazy && !multiview->group))
            return structure_fail(c, "multi-view %" PRIu64 " cannot be copied to lazily", v);
        for (uint64_t i = 0; i < (uint64_t)multiview->prologue_count + multiview->period; i++) {
            const plan_address *entry = &of->addresses[multiview->first + i];
            if (entry->space != MEMORY_MULTIVIEW) continue;
            if (runs)
                return structure_fail(
                    c, "multi-view %" PRIu64 " refers to a multi-view of no enclosing or earlier loop", v);
            if (of->multiviews[entry->index].loop == plan_run_loop(of) && of->header->states.count) continue;
            if (of->multiviews[entry->index].group && of->multiviews[entry->index].loop == multiview->loop &&
                !multiview->group)
                continue; /* a swap buffer of the loop itself lies in the arena */
            if (of->multiviews[entry->index].loop >= of->header->nodes.count ||
                (!plan_is_within(of, of->multiviews[entry->index].loop, of->nodes[multiview->loop].graph) &&
                 (of->multiviews[entry->index].from_end ||
                  !ends_before(c, of->multiviews[entry->index].loop, multiview->loop)))) {
                return structure_fail(
                    c, "multi-view %" PRIu64 " refers to a multi-view of no enclosing or earlier loop", v);
            }
        }
    }
    if (!check_lazy_entries(c)) return false;
    for (uint64_t id = 0; id < of->header->tensors.count; id++) {
        const plan_tensor *tensor = &of->tensors[id];
        if (tensor->address.space != MEMORY_MULTIVIEW) continue;
        const plan_multiview *multiview = &of->multiviews[tensor->address.index];
        const bool branches = multiview->loop < of->header->nodes.count &&
                              plan_node_code(of, &of->nodes[multiview->loop]) == OP_IF;
        if (multiview->from_end || branches
                ? !plan_is_within(of, multiview->loop, tensor->graph) &&
                      !(branches && is_output_of(c, multiview->loop, (uint32_t)id))
                : !may_lie_after(c, multiview->loop, (uint32_t)id)) {
            return structure_fail(c, "tensor \"%s\" lies in a multi-view outside of its loop",
                                  text_of(c, tensor->name));
        }
    }
    return true;
}

/* ---- alignment ----------------------------------------------------------------------------------------- */

/* The largest power of two, up to MOST_ELEMENT, that divides the number. */
static uint64_t alignment_of(uint64_t number) {
    uint64_t alignment = MOST_ELEMENT;
    while (number % alignment) alignment /= 2;
    return alignment;
}

/* What each multi-view is aligned to in every iteration: the entries, and the stride between two of them. An entry
 * can be a multi-view of an enclosing or earlier loop, whose node has a smaller number, or a swap buffer of the
 * same loop. So multi-views are taken by the number of their loops, swap buffers first; those of the loop around the model come
 * before all. */
static size_t rank_of(const plan *of, const plan_multiview *multiview) {
    return multiview->loop == plan_run_loop(of) ? 0 : 2 * ((size_t)multiview->loop + 1) + !multiview->group;
}

static uint8_t *align_multiviews(structure_checker *c) {
    const plan *of = c->of;
    const uint32_t count = (uint32_t)of->header->multiviews.count, nodes = (uint32_t)of->header->nodes.count;
    uint8_t *alignments = BASE_ARRAY(&c->arena, uint8_t, count);
    uint32_t *begins = BASE_ARRAY(&c->arena, uint32_t, 2 * ((size_t)nodes + 1) + 1);
    uint32_t *order = BASE_ARRAY(&c->arena, uint32_t, count);
    if (!alignments || !begins || !order) {
        base_fail_memory(c->report);
        return NULL;
    }
    for (uint32_t v = 0; v < count; v++) begins[rank_of(of, &of->multiviews[v]) + 1]++;
    for (size_t k = 0; k < 2 * ((size_t)nodes + 1); k++) begins[k + 1] += begins[k];
    for (uint32_t v = 0; v < count; v++) order[begins[rank_of(of, &of->multiviews[v])]++] = v;
    for (uint32_t i = 0; i < count; i++) {
        const plan_multiview *multiview = &of->multiviews[order[i]];
        uint64_t alignment = alignment_of((uint64_t)multiview->stride);
        for (uint64_t k = 0; k < (uint64_t)multiview->prologue_count + multiview->period; k++) {
            const plan_address *entry = &of->addresses[multiview->first + k];
            const uint64_t own = alignment_of(entry->offset),
                           other = entry->space == MEMORY_MULTIVIEW ? alignments[entry->index] : MOST_ELEMENT;
            if (own < alignment) alignment = own;
            if (other < alignment) alignment = other;
        }
        alignments[order[i]] = (uint8_t)alignment;
    }
    return alignments;
}

/* Other memory spaces begin at aligned addresses: there the offset tells. (structure.c) */
static bool check_alignment(structure_checker *c) {
    const plan *of = c->of;
    const uint8_t *alignments = align_multiviews(c);
    if (!alignments) return false;
    for (uint64_t id = 0; id < of->header->tensors.count; id++) {
        const plan_tensor *tensor = &of->tensors[id];
        const size_t size = op_dtype_bytes((op_dtype)tensor->dtype);
        const uint64_t element = size && size < MOST_ELEMENT ? size : MOST_ELEMENT;
        if (tensor->address.space != MEMORY_MULTIVIEW ||
            (tensor->address.offset % element == 0 && alignments[tensor->address.index] % element == 0))
            continue;
        return structure_fail(c, "tensor \"%s\" is not aligned to its elements in every iteration",
                              text_of(c, tensor->name));
    }
    return true;
}

/* ---- operands ------------------------------------------------------------------------------------------ */

static bool has_memory(const structure_checker *c, uint32_t id) {
    return c->of->tensors[id].address.space != MEMORY_NONE;
}

/* Whatever is read has memory. */
static bool check_read(structure_checker *c, uint32_t id, const char *what, uint64_t index) {
    return id == PLAN_ABSENT || has_memory(c, id) ||
           structure_fail(c, "%s %" PRIu64 ", tensor \"%s\", is read but has no memory", what, index,
                          text_of(c, c->of->tensors[id].name));
}

/* An operator always reads the inputs, and writes the outputs, that its schema does not call optional. What is absent
 * or has no memory is no output to a kernel. Control nodes leave out any output; what their graphs hand to them is
 * read. */
static bool check_node_operands(structure_checker *c, const plan_node *node) {
    const plan *of = c->of;
    const op_schema *schema = op_schema_of(plan_node_code(of, node));
    const bool control = schema->flags & OP_FLAG_GRAPHS;
    for (uint64_t i = 0; i < node->input_count; i++) {
        const uint32_t id = of->tensor_ids[node->inputs + i];
        const bool needed = schema->input_maximum < 0 || (int64_t)i < schema->input_minimum;
        if (id == PLAN_ABSENT && needed && !control)
            return structure_fail(c, "input %" PRIu64 " is absent, %s needs it", i, schema->name);
        if (!check_read(c, id, "input", i)) return false;
    }
    for (uint64_t i = 0; i < node->output_count && !control; i++) {
        const uint32_t id = of->tensor_ids[node->outputs + i];
        const bool needed = schema->output_maximum < 0 || (int64_t)i < schema->output_minimum;
        if (needed && (id == PLAN_ABSENT || !has_memory(c, id)))
            return structure_fail(c, "output %" PRIu64 " %s, %s always makes it", i,
                                  id == PLAN_ABSENT ? "is absent" : "has no memory", schema->name);
    }
    return true;
}

bool structure_check_operands(structure_checker *c) {
    const plan *of = c->of;
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        plan_node_context(of, &of->nodes[n], c->file[0] ? c->file : NULL, c->report);
        if (!check_node_operands(c, &of->nodes[n])) return false;
    }
    memcpy(c->report->context, c->file, sizeof c->file);
    for (uint64_t g = 0; g < of->header->graphs.count; g++) {
        const plan_graph *graph = &of->graphs[g];
        for (uint64_t i = 0; i < graph->result_count; i++)
            if (!check_read(c, of->tensor_ids[graph->results + i], "result", i)) return false;
    }
    return check_alignment(c);
}

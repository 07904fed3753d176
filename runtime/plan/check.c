/* SPDX-License-Identifier: Apache-2.0 */
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
 * what holds until then holds for any number. For the same reason a loop within a loop is replayed once for each state that
 * it finds (check_summary.c). Where tensors lie now follows from the counters of the loops.
 */
#include "runtime/plan/replay.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- steps that run ------------------------------------------------------------------------------------ */

/* Element by element the same: equal shapes, where row-major ones may differ in dimensions of 1. */
static bool is_elementwise(const replay *r, uint32_t a, uint32_t b) {
    op_type x, y;
    plan_tensor_type(r->of, a, &x);
    plan_tensor_type(r->of, b, &y);
    if (x.layout != y.layout || op_dtype_bits(x.dtype) != op_dtype_bits(y.dtype)) return false;
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
    const bool same = r->spans[from].first == r->spans[to].first && r->spans[from].last == r->spans[to].last;
    const op_schema *row = op_schema_of(plan_node_code(r->of, node));
    const bool copies = row->code == OP_COPY; /* it is there already */
    if (same && (copies || op_may_write_over(row, output, input)) && is_elementwise(r, from, to)) return true;
    char place[128];
    replay_place_text(r, r->spans[to].address, r->of->tensors[to].bytes, place, sizeof place);
    return replay_fail(r,
                       same ? "its output \"%s\" (%s) lies over its input \"%s\", which it cannot"
                            : "its output \"%s\" (%s) overlaps its input \"%s\"",
                       replay_name_of(r, to), place, replay_name_of(r, from));
}

static bool check_in_place(replay *r, const plan_node *node, uint64_t input, uint64_t output) {
    uint32_t from = r->of->tensor_ids[node->inputs + input], to = r->of->tensor_ids[node->outputs + output];
    if (from == PLAN_ABSENT || to == PLAN_ABSENT) return true;
    const phase_list *phases = &r->phases[from];
    for (uint64_t i = 0; i < phases->count; i++) {
        replay_enter_phase(r, from, &phases->items[i]);
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
            replay_place_text(r, scratch->address, node->scratch_bytes, place, sizeof place);
            return replay_fail(r, "its scratch (%s) overlaps tensor \"%s\"", place, replay_name_of(r, id));
        }
    }
    return replay_check_apart(r, scratch, "scratch") &&
           replay_write_span(r, scratch->first, scratch->last, (plan_bytes_tag){0});
}

static bool is_row_major(const replay *r, uint32_t id) {
    return r->of->tensors[id].layout == OP_LAYOUT_ROW_MAJOR;
}

/* A Reshape, or its like, of what has a reservation, which is its own, too: the executor hands it on, or copies it to itself. */
static bool is_same_reservation(const replay *r, const plan_node *node) {
    plan_address from, to;
    return node->flags & PLAN_NODE_DYNAMIC && node->input_count && node->output_count &&
           op_schema_of(plan_node_code(r->of, node))->view == OP_VIEW_SAME &&
           r->of->tensor_ids[node->inputs] != PLAN_ABSENT &&
           r->of->tensor_ids[node->outputs] != PLAN_ABSENT &&
           plan_tensor_reservation(r->of, r->of->tensor_ids[node->inputs], &from) &&
           plan_tensor_reservation(r->of, r->of->tensor_ids[node->outputs], &to) &&
           from.offset == to.offset && is_row_major(r, r->of->tensor_ids[node->inputs]) &&
           is_row_major(r, r->of->tensor_ids[node->outputs]) &&
           r->of->tensors[r->of->tensor_ids[node->inputs]].bytes ==
               r->of->tensors[r->of->tensor_ids[node->outputs]].bytes;
}

/* The node only copies a part of its input, from byte *offset on, which lies now where the output does. */
static bool is_there(const replay *r, const plan_node *node, uint64_t *offset) {
    *offset = 0;
    if (is_same_reservation(r, node)) return true;
    if (!plan_kept_part(r->of, node, offset)) return false;
    const uint32_t from = r->of->tensor_ids[node->inputs], to = r->of->tensor_ids[node->outputs];
    if (r->phases[from].count || r->through[from] || r->through[to] || !replay_in_map(&r->where[from]))
        return false;
    plan_address at = r->where[from];
    at.offset += *offset;
    return replay_is_same_address(&at, &r->where[to]);
}

/* Nothing is written: the output is these bytes. */
static bool replay_stay(replay *r, const plan_node *node, uint64_t offset) {
    const uint32_t from = r->of->tensor_ids[node->inputs], to = r->of->tensor_ids[node->outputs];
    return replay_verify_all(r, r->of->tensor_ids + node->inputs, node->input_count) &&
           replay_define_part(r, from, offset, to) && replay_verify(r, to);
}

static bool replay_run(replay *r, const plan_node *node) {
    uint64_t offset;
    if (is_there(r, node, &offset)) return replay_stay(r, node, offset);
    const uint32_t *inputs = r->of->tensor_ids + node->inputs, *outputs = r->of->tensor_ids + node->outputs;
    for (uint64_t i = 0; i < node->input_count; i++) {
        if (inputs[i] != PLAN_ABSENT && !replay_verify(r, inputs[i])) return false;
        if (!replay_spend(r, node->output_count)) return false;
        for (uint64_t k = 0; k < node->output_count; k++) {
            if (!check_in_place(r, node, i, k)) return false;
        }
    }
    if (!check_scratch(r, node)) return false;
    r->own_piece = !(node->flags & PLAN_NODE_DYNAMIC) && *(r->of->texts + node->kernel);
    for (uint64_t i = 0; i < node->output_count; i++) {
        if (outputs[i] != PLAN_ABSENT && !replay_write(r, outputs[i])) return false;
    }
    r->own_piece = false;
    return replay_verify_all(r, outputs, node->output_count); /* they do not overlap one another */
}

/* ---- steps that only make aliases ---------------------------------------------------------------------- */

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
        if (!replay_content_append(r, &joined, &capacity, &is)) return false;
    }
    if (end != r->of->tensors[whole].bytes) return fail_alias(r);
    replay_define(r, whole, joined);
    return replay_verify(r, whole);
}

/* A part of what may lie in several places is found as that is: by the same multi-view. */
static bool lies_with(const replay *r, uint32_t whole, uint64_t offset, uint32_t part) {
    if (!r->phases[whole].count || !r->of->tensors[part].bytes) return true;
    plan_address from = replay_source(r, whole), at = replay_source(r, part);
    from.offset += offset;
    return replay_is_same_address(&from, &at);
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
        if (!lies_with(r, whole, offset, part)) return fail_alias(r);
        if (!replay_define_part(r, whole, offset, part) || !replay_verify(r, part)) return false;
    }
    return true;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static bool replay_graph(replay *r, uint32_t number) {
    const plan_graph *graph = &r->of->graphs[number];
    for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
        const plan_node *node = &r->of->nodes[n];
        op_code code = plan_node_code(r->of, node);
        uint32_t multiview;
        bool valid;
        r->node = node;
        r->step = n - graph->nodes;
        if (!replay_spend(r, 1) || !replay_check_commit(r, (uint32_t)n)) return false;
        if (code == OP_IF) valid = replay_if(r, node);
        else if (code == OP_LOOP) valid = replay_loop(r, node);
        else if (code == OP_COPY &&
                 (multiview = plan_swap_buffer(r->of, (uint32_t)n, 0, r->of->tensor_ids[node->inputs])) !=
                     PLAN_ABSENT)
            valid = r->of->multiviews[multiview].lazy ? replay_run(r, node)
                                                      : replay_swap_copy(r, node, multiview);
        else if (node->flags & PLAN_NODE_DYNAMIC) valid = replay_run(r, node);
        else if (node->flags & PLAN_NODE_ALIAS) valid = replay_alias(r, node);
        else valid = replay_run(r, node);
        if (!valid || (node->graph_count && !replay_check_commit(r, (uint32_t)n))) return false;
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
    if (!replay_allow_work(r) || !replay_find_dynamic(r) || !replay_map_outputs(r) ||
        !replay_find_swap_buffers(r) || !replay_find_periods(r) || !replay_map_spans(r) ||
        !replay_find_scopes(r))
        return false;
    r->identity = input_identity(of->header->inputs.count) - 1;
    return replay_runs(r);
}

static base_status check(const plan *checked, bool fully, base_report *report) {
    base_report own = {0};
    replay r = {.of = checked, .report = report ? report : &own, .graph = replay_graph, .fully = fully};
    memcpy(r.file, r.report->context, sizeof r.file);
    base_arena_init(&r.arena, checked->memory);
    bool valid = replay_plan(&r);
    base_arena_free(&r.arena);
    memcpy(r.report->context, r.file, sizeof r.file);
    return valid ? BASE_OK : r.report->status;
}

base_status plan_check(const plan *checked, base_report *report) {
    return check(checked, false, report);
}

base_status plan_check_fully(const plan *checked, base_report *report) {
    return check(checked, true, report);
}

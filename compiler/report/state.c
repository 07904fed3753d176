/* SPDX-License-Identifier: Apache-2.0 */
/* state.c: implements state.h. */
#include "compiler/report/state.h"
#include "compiler/report/loop.h"

const plan_multiview *emit_state_view(const plan *of, uint32_t index) {
    return emit_loop_view(of, of->states[index].parameter, plan_run_loop(of));
}

/* The node of the main graph that makes the tensor; NULL: none does. */
static const plan_node *maker_of(const plan *of, uint32_t id) {
    const plan_graph *main = &of->graphs[0];
    for (uint64_t n = main->nodes; n < main->nodes + main->node_count; n++)
        for (uint64_t i = 0; i < of->nodes[n].output_count; i++)
            if (of->tensor_ids[of->nodes[n].outputs + i] == id) return &of->nodes[n];
    return NULL;
}

/* Where a tensor lies in the first run; false where that is not in the memory of the states. */
static bool find_place(const plan *of, uint32_t id, uint64_t *begin, uint64_t *end) {
    plan_address address = of->tensors[id].address;
    if (address.space == MEMORY_MULTIVIEW && of->multiviews[address.index].loop == plan_run_loop(of)) {
        const uint64_t offset = address.offset;
        address = plan_multiview_entry(of, address.index, 0);
        address.offset += offset;
    }
    *begin = address.offset;
    *end = *begin + of->tensors[id].bytes;
    return address.space == MEMORY_STATE;
}

static bool lies_within(const plan *of, uint32_t id, uint32_t whole) {
    uint64_t begin[2], end[2];
    return find_place(of, id, &begin[0], &end[0]) && find_place(of, whole, &begin[1], &end[1]) &&
           begin[0] >= begin[1] && end[0] <= end[1];
}

/* The state as the run finds it, also in another shape. */
static bool is_whole(const plan *of, uint32_t id, const plan_state *state) {
    while (id != PLAN_ABSENT && id != state->parameter) {
        const plan_node *maker = maker_of(of, id);
        const bool shaped =
            maker && plan_node_code(of, maker) == OP_RESHAPE && maker->flags & PLAN_NODE_ALIAS;
        id = shaped ? of->tensor_ids[maker->inputs] : PLAN_ABSENT;
    }
    return id == state->parameter;
}

/* That, or a part of it. */
static bool is_part(const plan *of, uint32_t id, const plan_state *state) {
    if (id == PLAN_ABSENT || is_whole(of, id, state)) return id != PLAN_ABSENT;
    const plan_node *maker = maker_of(of, id);
    return maker && plan_node_code(of, maker) == OP_SLICE &&
           is_whole(of, of->tensor_ids[maker->inputs], state);
}

/* What the node that makes the new state moves of the old one: a scatter that does not write over it, a window that is put
 * together anew. */
static uint64_t moved_bytes(const plan *of, const plan_state *state) {
    const plan_node *maker = maker_of(of, state->result);
    const op_code code = maker ? plan_node_code(of, maker) : OP_CODE_NONE;
    uint64_t bytes = 0;
    if (code == OP_TENSOR_SCATTER || code == OP_SCATTER_ND || code == OP_SCATTER_ELEMENTS) {
        if (of->tensor_ids[maker->inputs] == state->parameter &&
            !lies_within(of, state->result, state->parameter))
            bytes = of->tensors[state->result].bytes;
    } else if (code == OP_RESHAPE && maker->flags & PLAN_NODE_DYNAMIC &&
               of->tensors[state->result].address.space != MEMORY_DYNAMIC) {
        bytes = of->tensors[state->result].bytes;
    } else if (code == OP_CONCAT && !(maker->flags & PLAN_NODE_ALIAS) && state->axis == PLAN_ABSENT) {
        for (uint64_t i = 0; i < maker->input_count; i++)
            if (is_part(of, of->tensor_ids[maker->inputs + i], state))
                bytes += of->tensors[of->tensor_ids[maker->inputs + i]].bytes;
    }
    return bytes;
}

/* Copies into the state, or out of it for an output of the run. */
static uint64_t copied_bytes(const plan *of, const plan_state *state) {
    const plan_graph *main = &of->graphs[0];
    uint64_t bytes = moved_bytes(of, state);
    for (uint64_t n = main->nodes; n < main->nodes + main->node_count; n++) {
        const plan_node *node = &of->nodes[n];
        const op_code code = plan_node_code(of, node);
        if (code != OP_COPY && (code != OP_SLICE || node->flags & PLAN_NODE_ALIAS)) continue;
        const uint32_t from = of->tensor_ids[node->inputs], to = of->tensor_ids[node->outputs];
        const bool moves = lies_within(of, to, state->result) && is_part(of, from, state);
        if (moves ||
            (code == OP_COPY && (to == state->result || from == state->result || from == state->parameter)))
            bytes += emit_loop_kept(of, node);
    }
    return bytes;
}

/* The parameter lies further on in each run, in one buffer: the address of one run is within what it was in the one before. */
static bool is_window(const plan *of, const plan_multiview *view, uint64_t bytes) {
    uint32_t within = 0;
    for (uint32_t k = 0; view && k + 1 < view->period; k++) {
        const plan_address *at = &of->addresses[view->first + view->prologue_count + k];
        within += at[1].offset > at[0].offset && at[1].offset - at[0].offset < bytes;
    }
    return within > 0;
}

/* What a run appends lies after what is there: nothing before the axis has an extent but 1. */
static bool appends(const plan *of, const plan_state *state) {
    op_type type;
    plan_tensor_type(of, state->parameter, &type);
    for (uint32_t d = 0; !state->turned && d < state->axis; d++)
        if (type.shape.dims[d] != 1) return false;
    return true;
}

static const char *words(const plan *of, const plan_state *state, const emit_state *measured) {
    const plan_node *maker = maker_of(of, state->result);
    if (state->result == state->parameter) return "left as it is";
    if (measured->axis >= 0) return appends(of, state) ? "appended to in place" : "appended to by copying it";
    if (of->tensors[state->parameter].address.space == MEMORY_DYNAMIC) return "handed on in run-time memory";
    if (!maker && of->tensors[state->result].address.space == MEMORY_CONSTANT)
        return "a constant from the second run on";
    if (!maker) return "handed on from another state";
    if (is_window(of, emit_state_view(of, (uint32_t)(state - of->states)),
                  of->tensors[state->parameter].bytes))
        return "a window that moves on";
    if (measured->period > 1) return "in turn";
    return "in place";
}

/* The bytes of a state that grows, when it has as many positions as it may have; 0: nobody knows. */
static uint64_t bytes_at_bound(const plan *of, const plan_state *state) {
    op_type type;
    size_t bytes;
    plan_tensor_type(of, state->parameter, &type);
    if (!state->bound) return 0;
    type.shape.dims[state->turned ? 0 : state->axis] = (int64_t)state->bound;
    return op_type_bytes(&type, &bytes) ? bytes : 0;
}

emit_state emit_state_measure(const plan *of, uint32_t index) {
    const plan_state *state = &of->states[index];
    const plan_multiview *view = emit_state_view(of, index);
    const bool grows = state->axis != PLAN_ABSENT;
    emit_state measured = {.input = of->texts + state->input,
                           .output = of->texts + state->output,
                           .bytes = grows ? bytes_at_bound(of, state) : of->tensors[state->parameter].bytes,
                           .bound = state->bound,
                           .axis = grows ? (int64_t)state->axis : -1,
                           .period = view ? view->period : 1,
                           .prologue = view ? view->prologue_count : 0,
                           .copied = copied_bytes(of, state)};
    measured.caller_copied = measured.bytes;
    if (grows && !appends(of, state)) measured.copied += measured.bytes;
    measured.how = words(of, state, &measured);
    return measured;
}

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

/* Copies into the state, or out of it for an output of the run. */
static uint64_t copied_bytes(const plan *of, const plan_state *state) {
    const plan_graph *main = &of->graphs[0];
    uint64_t bytes = 0;
    for (uint64_t n = main->nodes; n < main->nodes + main->node_count; n++) {
        const plan_node *node = &of->nodes[n];
        if (plan_node_code(of, node) != OP_COPY) continue;
        const uint32_t from = of->tensor_ids[node->inputs], to = of->tensor_ids[node->outputs];
        if (to == state->result || from == state->result || from == state->parameter)
            bytes += of->tensors[to].bytes;
    }
    return bytes;
}

static const char *words(const plan *of, const plan_state *state, const emit_state *measured) {
    const plan_node *maker = maker_of(of, state->result);
    if (state->result == state->parameter) return "left as it is";
    if (!maker && of->tensors[state->result].address.space == MEMORY_CONSTANT)
        return "a constant from the second run on";
    if (!maker) return "handed on from another state";
    if (measured->period > 1) return "in turn";
    return "in place";
}

emit_state emit_state_measure(const plan *of, uint32_t index) {
    const plan_state *state = &of->states[index];
    const plan_multiview *view = emit_state_view(of, index);
    emit_state measured = {.input = of->texts + state->input,
                           .output = of->texts + state->output,
                           .bytes = of->tensors[state->parameter].bytes,
                           .period = view ? view->period : 1,
                           .prologue = view ? view->prologue_count : 0,
                           .copied = copied_bytes(of, state),
                           .caller_copied = of->tensors[state->result].bytes};
    measured.how = words(of, state, &measured);
    return measured;
}

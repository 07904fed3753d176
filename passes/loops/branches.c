/* SPDX-License-Identifier: Apache-2.0 */
/* branches.c: a branch node whose output can be made over a carried parameter; see periods.h. */
#include "ir/operators/range.h"
#include "passes/loops/periods.h"

static bool lies_in(const pass_memory *memory, const ir_value *value, pass_storage_id storage) {
    return value && pass_memory_location(memory, value).storage.index == storage.index;
}

/* The node, or one of its sub-graphs, makes something in the storage. */
static bool makes_in(const pass_memory *memory, const ir_node *node, pass_storage_id storage) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (lies_in(memory, node->outputs[i], storage)) return true;
    for (uint32_t g = 0; g < node->graph_count; g++) {
        for (const ir_node *inner = node->graphs[g]->first; inner; inner = inner->next)
            if (makes_in(memory, inner, storage)) return true;
    }
    return false;
}

/* The node makes its output, all of storage `made`, over this input, element by element. */
static bool makes_over(const loop_info *info, const ir_node *node, uint32_t input, pass_storage_id made) {
    const ir_value *from = ir_input(node, input);
    uint32_t output = 0;
    while (output < node->output_count && !lies_in(info->memory, node->outputs[output], made)) output++;
    const ir_value *to = output < node->output_count ? node->outputs[output] : NULL;
    return to && from &&
           (node->code == OP_COPY ? op_same_form(&from->type, &to->type)
                                  : pass_may_write_over(node, output, input)) &&
           info->memory->executions[node->id.index] == PASS_RUN && loop_fills(info->memory, to) &&
           !pass_memory_location(info->memory, from).offset && loop_bytes_of(from) == loop_bytes_of(to);
}

/* In this branch storage `made` is first written when nothing reads storage `over` any more, or by an operator that may
 * write over it. */
static bool writes_last(const loop_info *info, const ir_graph *graph, pass_storage_id made,
                        pass_storage_id over) {
    ir_node **at = info->memory->order.nodes[graph->id.index];
    while (*at && !makes_in(info->memory, *at, made)) at++;
    const ir_node *first = *at;
    int64_t step = first ? info->numbers[first->id.index] : graph->node_count;
    for (ir_value_id v = pass_memory_storage(info->memory, over)->values; v.index;
         v = info->memory->siblings[v.index]) {
        const ir_value *value = info->module->values[v.index];
        for (const ir_use *use = value ? value->uses : NULL; use; use = use->next) {
            if (!ir_graph_encloses(graph, use->graph)) continue;
            if (!use->node) return false; /* handed out as a result */
            int64_t now = pass_step_in(graph, use->node, info->numbers);
            if (now > step ||
                (now == step && (use->node != first || !makes_over(info, first, use->index, made))))
                return false;
        }
    }
    return true;
}

bool loop_branches_in_place(const loop_info *info, const ir_node *branch, pass_storage_id made,
                            pass_storage_id over) {
    for (size_t v = 1; v < info->memory->multiview_count;
         v++) { /* what loops in a branch leave may be these bytes */
        const pass_multiview *view = &info->memory->multiviews[v];
        for (uint32_t g = 0; g < branch->graph_count; g++)
            if (ir_graph_encloses(branch->graphs[g], view->loop->graph) &&
                loop_view_reaches(info->memory, view, over))
                return false;
    }
    for (uint32_t g = 0; g < branch->graph_count; g++)
        if (!writes_last(info, branch->graphs[g], made, over)) return false;
    return true;
}

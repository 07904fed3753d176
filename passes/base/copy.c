/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: Copy nodes that passes put in: the one place that knows their kernel, and writes down why they are there. */
#include "passes/base/pass.h"

static const char *const reasons[] = {
    [PASS_COPY_RESULT] = "a result that another place holds already",
    [PASS_COPY_PART] = "a part of a concatenation that lies elsewhere",
    [PASS_COPY_LIMIT] = "it would be kept for more iterations than --max-unroll allows",
    [PASS_COPY_ROWS] = "rows that the next band reads again",
};

ir_value *pass_copy(ir_graph *graph, ir_node *before, ir_value *value, const ir_node *origin,
                    pass_copy_reason reason) {
    const char *path = origin ? origin->path : graph->last ? graph->last->path : "";
    ir_node *copy =
        ir_node_new(graph, before, OP_COPY, origin ? origin->name : "", path, (op_attributes){0}, 1, &value);
    if (!copy) return NULL;
    if (!ir_node_has_lists(copy)) copy->kernel = "portable.copy";
    copy->reason = reasons[reason];
    return ir_node_add_output(copy, value->name, &value->type);
}

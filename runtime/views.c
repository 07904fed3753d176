/* SPDX-License-Identifier: Apache-2.0 */
/* views.c: values of dynamic dimensions that are bytes of another one: nothing is copied to make them.
 *
 * Whether a slice or a part lies together depends on extents that only a run knows: the channels of one image do, those of two images
 * do not. What is shared goes with the buffer that it lies in. Where that is planned, its plan must know of who shares it (shapes.c).
 */
#include "ir/operators/range.h"
#include "runtime/executor.h"

bool rt_views_may_share(op_code code) {
    const op_view view = op_schema_of(code)->view;
    return view == OP_VIEW_SAME || view == OP_VIEW_SLICE || view == OP_VIEW_SPLIT;
}

bool rt_views_ranges(const op_call *call, op_range *ranges) {
    const op_type *from = &call->inputs[0].type;
    switch (op_schema_of(call->code)->view) {
    case OP_VIEW_SAME:
        ranges[0] = (op_range){0, call->outputs[0].bytes};
        return from->layout == OP_LAYOUT_ROW_MAJOR && call->inputs[0].bytes == ranges[0].bytes;
    case OP_VIEW_SLICE:
        return from->dtype != OP_STRING && op_range_of_slice(call, ranges);
    case OP_VIEW_SPLIT:
        return from->dtype != OP_STRING && op_ranges_of_parts(call, ranges);
    default:
        return false;
    }
}

/* The output may have the bytes of the input: these stay for as long as it is read. */
static bool may_share(const ouro_session *session, op_code code, uint32_t from, uint32_t to) {
    const rt_buffer *buffer = session->run.buffers[from];
    if (!session->code.dynamic[to]) return false;
    if (!buffer) return rt_value_is_lasting(session, from);
    if (buffer->reserved) return false; /* it goes with its reader */
    return op_schema_of(code)->view == OP_VIEW_SAME || !buffer->planned ||
           (session->memory.planned && session->memory.planned[to].shares);
}

bool rt_views_share(ouro_session *session, const rt_step *step) {
    const plan *of = session->of;
    const plan_node *node = &of->nodes[step->node];
    rt_dynamic *detail = step->detail;
    const op_call *call = &detail->call;
    if (!detail->ranges) return false;
    const uint32_t from = of->tensor_ids[node->inputs];
    for (uint32_t i = 0; i < call->output_count; i++)
        if (!may_share(session, call->code, from, of->tensor_ids[node->outputs + i])) return false;
    const bool settled = detail->settled && detail->shared; /* the ranges are those of the last run */
    detail->shared = settled || rt_views_ranges(call, detail->ranges);
    if (!detail->shared) return false;
    char *data = session->run.tensors[from].data;
    for (uint32_t i = 0; i < call->output_count; i++) {
        const uint32_t to = of->tensor_ids[node->outputs + i];
        const op_range *range = &detail->ranges[i];
        char *at = data ? data + range->offset : NULL;
        if (settled) rt_value_lend(session, to, at, range->bytes, session->run.buffers[from]);
        else rt_value_set(session, to, &call->outputs[i].type, at, range->bytes, session->run.buffers[from]);
    }
    return true;
}

bool rt_views_make(ouro_session *session, const plan_node *node, rt_dynamic *detail) {
    const op_code code = detail->call.code;
    if (!rt_views_may_share(code) || session->of->tensor_ids[node->inputs] == PLAN_ABSENT ||
        (session->code.unshared && op_schema_of(code)->view != OP_VIEW_SAME))
        return true;
    for (uint32_t i = 0; i < detail->call.output_count; i++)
        if (session->of->tensor_ids[node->outputs + i] == PLAN_ABSENT) return true;
    detail->ranges = BASE_ARRAY(&session->code.tables, op_range, detail->call.output_count);
    return detail->ranges != NULL;
}

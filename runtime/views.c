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

bool rt_views_range(const op_call *call, uint32_t output, op_range *range) {
    const op_type *from = &call->inputs[0].type;
    switch (op_schema_of(call->code)->view) {
    case OP_VIEW_SAME:
        *range = (op_range){0, call->outputs[0].bytes};
        return from->layout == OP_LAYOUT_ROW_MAJOR && call->inputs[0].bytes == range->bytes;
    case OP_VIEW_SLICE:
        return from->dtype != OP_STRING && op_range_of_slice(call, range);
    case OP_VIEW_SPLIT:
        return from->dtype != OP_STRING && op_range_of_part(call, output, range);
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
    const op_call *call = &((const rt_dynamic *)step->detail)->call;
    const uint32_t from = node->input_count ? of->tensor_ids[node->inputs] : PLAN_ABSENT;
    op_range range;
    if (!rt_views_may_share(call->code) || from == PLAN_ABSENT) return false;
    if (session->code.unshared && op_schema_of(call->code)->view != OP_VIEW_SAME) return false;
    for (uint32_t i = 0; i < call->output_count; i++) {
        const uint32_t to = of->tensor_ids[node->outputs + i];
        if (to == PLAN_ABSENT || !may_share(session, call->code, from, to) ||
            !rt_views_range(call, i, &range))
            return false;
    }
    char *data = session->run.tensors[from].data;
    for (uint32_t i = 0; i < call->output_count; i++) {
        (void)rt_views_range(call, i, &range); /* it was one just now */
        rt_value_set(session, of->tensor_ids[node->outputs + i], &call->outputs[i].type,
                     data ? data + range.offset : NULL, range.bytes, session->run.buffers[from]);
    }
    return true;
}

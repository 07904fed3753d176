/* SPDX-License-Identifier: Apache-2.0 */
/* shape_survey.c: implements shape_survey.h. What passes/memory/join_aliases.c and choose_in_place.c do for tensors whose extents are known
 * when a model is compiled, done for those of a run: whether parts lie together depends on them (channels of one image do, those of two
 * do not).
 *
 * Nothing depends on the executor's doing as it is told here. A part that does not lie where it was to lie is copied by the Concat, an
 * output whose memory is not free gets other memory. What must hold is that bytes are kept for as long as somebody may read them.
 */
#include "runtime/shape_survey.h"
#include <string.h>

/* ---- what is known before ----------------------------------------------------------------------------------------- */

static void exclude(rt_shape_survey *s, uint64_t list, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t id = s->of->tensor_ids[list + i];
        if (id != PLAN_ABSENT) s->values[id].excluded = true;
    }
}

static bool is_plain(const plan *of, const plan_node *node) {
    return !(op_schema_of(plan_node_code(of, node))->flags & OP_FLAG_GRAPHS) &&
           !rt_sequence_is_node(of, node);
}

static void begin_values(rt_shape_survey *s) {
    const plan *of = s->of;
    for (uint32_t id = 0; id < of->header->tensors.count; id++) {
        rt_shape_value *value = &s->values[id];
        value->root = id;
        value->next = PLAN_ABSENT;
        value->first = value->last = UINT64_MAX;
        value->tensor = s->session->run.tensors[id];
        value->tensor.symbolic = NULL;
        bool constant =
            of->tensors[id].address.space == MEMORY_CONSTANT && of->tensors[id].dtype != OP_STRING;
        if (!constant) value->tensor.data = NULL;
        /* Dynamic inputs are as they are bound; all else is as the plan has it until it is inferred. */
        if (of->tensors[id].address.space != MEMORY_INPUT) plan_tensor_type(of, id, &value->tensor.type);
    }
}

bool rt_shape_survey_begin(rt_shape_survey *s, const ouro_session *session, base_arena *arena) {
    const plan *of = session->of;
    *s = (rt_shape_survey){.session = session, .of = of, .arena = arena};
    s->values = BASE_ARRAY(arena, rt_shape_value, (size_t)of->header->tensors.count);
    if (!s->values) return false;
    begin_values(s);
    for (uint64_t i = 0; i < of->header->states.count; i++) {
        const rt_kept *kept = &session->states.kept[i];
        op_type *type = &s->values[of->states[i].parameter].tensor.type;
        if (!kept->dynamic) continue;
        *type = kept->type;
        if (kept->axis >= 0 && of->states[i].bound)
            type->shape.dims[kept->axis] = (int64_t)of->states[i].bound;
        s->values[of->states[i].result].excluded = true; /* it outlives the run */
    }
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        const plan_node *node = &of->nodes[n];
        if (is_plain(of, node)) continue;
        exclude(s, node->inputs, node->input_count);
        exclude(s, node->outputs, node->output_count);
    }
    for (uint64_t g = 1; g < of->header->graphs.count; g++)
        exclude(s, of->graphs[g].results, of->graphs[g].result_count);
    return true;
}

/* ---- types ---------------------------------------------------------------------------------------------------- */

/* The node's application to what is known of its tensors. */
static bool make_call(rt_shape_survey *s, const plan_node *node, op_call *call) {
    *call = (op_call){.code = plan_node_code(s->of, node),
                      .input_count = (uint32_t)node->input_count,
                      .output_count = (uint32_t)node->output_count,
                      .arena = s->arena};
    op_tensor *inputs = BASE_ARRAY(s->arena, op_tensor, call->input_count);
    call->outputs = BASE_ARRAY(s->arena, op_tensor, call->output_count);
    call->inputs = inputs;
    if (!inputs || !call->outputs || !plan_node_attributes(s->of, node, s->arena, &call->attributes))
        return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        uint32_t id = s->of->tensor_ids[node->inputs + i];
        if (id != PLAN_ABSENT) inputs[i] = s->values[id].tensor;
    }
    return true;
}

/* Types of the outputs, as far as they follow without data: of `call` and of the tensors. */
static void infer(rt_shape_survey *s, const plan_node *node, op_call *call) {
    const bool follows = op_infer(call, NULL) == BASE_OK; /* else the run will say what is wrong */
    for (uint32_t i = 0; i < call->output_count; i++) {
        uint32_t id = s->of->tensor_ids[node->outputs + i];
        if (id == PLAN_ABSENT) continue;
        op_tensor *known = &s->values[id].tensor;
        call->outputs[i].type.layout = known->type.layout;
        if (follows) *known = call->outputs[i];
        else call->outputs[i] = *known;
    }
}

/* ---- bytes that are shared -------------------------------------------------------------------------------------- */

/* The tensor, which is its own root, lies in the root of `in`. */
static void lay_into(const rt_shape_survey *s, uint32_t id, uint32_t in, size_t offset, rt_shape_how how) {
    rt_shape_value *value = &s->values[id], *root = &s->values[s->values[in].root];
    value->root = s->values[in].root;
    value->at = s->values[in].at + offset;
    value->how = how;
    value->next = root->next;
    root->next = id;
}

bool rt_shape_may_be_placed(const rt_shape_survey *s, uint32_t id, size_t *bytes) {
    const rt_shape_value *value = &s->values[id];
    plan_address reserved;
    if (!s->session->code.dynamic[id] || s->of->tensors[id].graph != 0 || value->first == UINT64_MAX ||
        value->root != id || plan_tensor_reservation(s->of, id, &reserved) ||
        !op_type_bytes(&value->tensor.type, bytes) || !*bytes)
        return false;
    for (uint32_t member = id; member != PLAN_ABSENT; member = s->values[member].next)
        if (s->values[member].excluded) return false;
    return true;
}

/* Where the executor lets outputs have bytes of the input (views.c), they lie there. False when memory runs out. */
static bool share(const rt_shape_survey *s, const plan_node *node, const op_call *call) {
    const uint32_t from = s->of->tensor_ids[node->inputs], *to = &s->of->tensor_ids[node->outputs];
    const bool same = op_schema_of(call->code)->view == OP_VIEW_SAME;
    if (from == PLAN_ABSENT || (!s->session->code.dynamic[from] && !rt_value_is_lasting(s->session, from)))
        return true;
    for (uint32_t i = 0; i < call->output_count; i++) /* all of them, or none */
        if (to[i] == PLAN_ABSENT) return true;
    op_range *ranges = BASE_ARRAY(s->arena, op_range, call->output_count);
    if (!ranges) return false;
    if (!same && !rt_views_ranges(call, ranges)) return true;
    for (uint32_t i = 0; i < call->output_count; i++)
        lay_into(s, to[i], from, ranges[i].offset, same ? RT_SHAPE_SAME : RT_SHAPE_CUT);
    return true;
}

/* ---- over an input that dies -------------------------------------------------------------------------------------- */

static bool is_released(const rt_step *step, uint32_t id) {
    for (uint32_t i = 0; i < step->release_count; i++)
        if (step->released[i] == id) return true;
    return false;
}

/* Step n reads for the last time what lies in the root, and reads it only where it may write this output over it. */
static bool dies_here(const rt_shape_survey *s, uint32_t root, const plan_node *node, const op_call *call,
                      uint32_t output, uint64_t n) {
    const rt_step *step = s->session->code.steps[n];
    for (uint32_t id = root; id != PLAN_ABSENT; id = s->values[id].next)
        if (s->values[id].last >= n && !is_released(step, id)) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const uint32_t id = s->of->tensor_ids[node->inputs + i];
        if (id == PLAN_ABSENT || s->values[id].root != root) continue;
        if (!op_may_write_over(op_schema_of(call->code), output, i) || s->values[id].overwritten ||
            !op_same_form(&call->inputs[i].type, &call->outputs[output].type))
            return false;
    }
    return true;
}

/* The residual of a convolution comes last, and saves a copy as well. */
static void write_over(rt_shape_survey *s, const plan_node *node, const op_call *call, uint32_t output,
                       uint64_t n) {
    const uint32_t to = s->of->tensor_ids[node->outputs + output];
    size_t bytes, made;
    if (to == PLAN_ABSENT || !op_schema_of(call->code)->in_place || !s->session->code.steps[n] ||
        call->outputs[output].type.dtype == OP_STRING || !rt_shape_may_be_placed(s, to, &made))
        return;
    for (uint32_t i = call->input_count; i-- > 0;) {
        const uint32_t id = s->of->tensor_ids[node->inputs + i];
        if (id == PLAN_ABSENT) continue;
        const uint32_t root = s->values[id].root;
        if (!rt_shape_may_be_placed(s, root, &bytes) || bytes != made ||
            !dies_here(s, root, node, call, output, n))
            continue;
        for (uint32_t member = root; member != PLAN_ABSENT; member = s->values[member].next)
            s->values[member].overwritten = true;
        lay_into(s, to, root, 0, RT_SHAPE_MADE);
        s->values[to].over = true;
        return;
    }
}

bool rt_shape_survey_graph(rt_shape_survey *s) {
    const plan *of = s->of;
    const plan_graph *graph = &of->graphs[0];
    for (uint64_t n = graph->nodes; n < graph->nodes + graph->node_count; n++) {
        const plan_node *node = &of->nodes[n];
        const rt_step *step = s->session->code.steps[n];
        const bool plain = is_plain(of, node);
        op_call call;
        if (plain) {
            if (!make_call(s, node, &call)) return false;
            infer(s, node, &call);
        }
        for (uint64_t i = 0; i < node->output_count; i++) {
            uint32_t id = of->tensor_ids[node->outputs + i];
            if (id != PLAN_ABSENT) s->values[id].first = n;
        }
        const bool shares = plain && rt_views_may_share(call.code);
        if (shares && !share(s, node, &call)) return false;
        for (uint32_t i = 0; plain && !shares && i < call.output_count; i++) write_over(s, node, &call, i, n);
        for (uint32_t i = 0; step && i < step->release_count; i++) s->values[step->released[i]].last = n;
    }
    return true;
}

/* ---- parts of a Concat ------------------------------------------------------------------------------------------- */

/* The last step in which something in the root is read; UINT64_MAX: after the last one. */
static uint64_t last_read(const rt_shape_survey *s, uint32_t root) {
    uint64_t last = 0;
    for (uint32_t id = root; id != PLAN_ABSENT; id = s->values[id].next)
        if (s->values[id].last > last) last = s->values[id].last;
    return last;
}

/* The first step in which something in these bytes of the root is written over; UINT64_MAX: nothing is. */
static uint64_t first_over(const rt_shape_survey *s, uint32_t root, size_t at, size_t bytes) {
    uint64_t first = UINT64_MAX;
    for (uint32_t id = root; id != PLAN_ABSENT; id = s->values[id].next) {
        const rt_shape_value *value = &s->values[id];
        size_t own;
        if (value->over && value->first < first && op_type_bytes(&value->tensor.type, &own) &&
            value->at < at + bytes && at < value->at + own)
            first = value->first;
    }
    return first;
}

/* All that lies in `root` lies in `whole` from now on. */
static void move(const rt_shape_survey *s, uint32_t root, uint32_t whole, size_t offset) {
    uint32_t id = s->values[root].next;
    lay_into(s, root, whole, offset, RT_SHAPE_MADE);
    while (id != PLAN_ABSENT) {
        const uint32_t next = s->values[id].next;
        lay_into(s, id, whole, offset + s->values[id].at, s->values[id].how);
        id = next;
    }
}

/* False when memory runs out. */
static bool place_parts(const rt_shape_survey *s, const plan_node *node, const op_call *call) {
    const uint32_t whole = s->of->tensor_ids[node->outputs];
    size_t bytes;
    if (whole == PLAN_ABSENT || call->outputs[0].type.dtype == OP_STRING ||
        !rt_shape_may_be_placed(s, s->values[whole].root, &bytes))
        return true;
    op_range *ranges = BASE_ARRAY(s->arena, op_range, call->input_count);
    if (!ranges) return false;
    if (!op_ranges_of_parts(call, ranges)) return true;
    const uint32_t into = s->values[whole].root;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const uint32_t id = s->of->tensor_ids[node->inputs + i], root = s->values[id].root;
        const size_t offset = ranges[i].offset;
        /* It is what the root holds in the end, and is not needed when these bytes are written over. */
        if (root != into && rt_shape_may_be_placed(s, root, &bytes) && bytes == ranges[i].bytes &&
            !s->values[id].overwritten &&
            last_read(s, root) < first_over(s, into, s->values[whole].at + offset, bytes))
            move(s, root, whole, offset);
    }
    return true;
}

/* The last ones first: what is a part of a part lies in the outermost one. */
bool rt_shape_place_parts(rt_shape_survey *s) {
    const plan *of = s->of;
    const plan_graph *graph = &of->graphs[0];
    for (uint64_t n = graph->nodes + graph->node_count; n-- > graph->nodes;) {
        const plan_node *node = &of->nodes[n];
        op_call call;
        if (plan_node_code(of, node) != OP_CONCAT || !is_plain(of, node)) continue;
        if (!make_call(s, node, &call)) return false;
        for (uint32_t i = 0; i < call.output_count; i++)
            call.outputs[i] = s->values[s->of->tensor_ids[node->outputs + i]].tensor;
        if (!place_parts(s, node, &call)) return false;
    }
    return true;
}

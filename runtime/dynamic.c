/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic.c: nodes that are inferred, prepared and given memory when they run. A node keeps its kernel as long as types
 * stay the same. */
#include "runtime/executor.h"
#include <stdlib.h>
#include <string.h>

/* ---- values handed over --------------------------------------------------------------------------------- */

base_status rt_value_move(ouro_session *session, const rt_move *move) {
    const op_tensor *from = &session->run.tensors[move->from];
    if (from->type.kind != OP_KIND_TENSOR) return rt_sequence_move(session, move->from, move->to);
    op_tensor *to = &session->run.tensors[move->to];
    if (!session->code.dynamic[move->to]) {
        if (!op_shape_equal(&from->type.shape, &to->type.shape) || from->bytes != to->bytes) {
            return rt_value_fail(session, move->to, &from->type);
        }
        if (from->bytes && to->data != from->data) memmove(to->data, from->data, from->bytes);
        return BASE_OK;
    }
    const rt_buffer *held = session->run.buffers[move->from];
    if (held && held->planned && (!move->within || held->reserved))
        held = NULL; /* these bytes go with the loop */
    if (held || rt_value_is_lasting(session, move->from)) {
        op_type type = from->type;
        rt_value_set(session, move->to, &type, from->data, from->bytes, session->run.buffers[move->from]);
        return BASE_OK;
    }
    /* The arena will be written over, a slice goes with the iteration. */
    op_tensor value = *from;
    if (!rt_value_new(session, move->to, &value.type, value.bytes)) return BASE_SYSTEM_ERROR;
    if (value.bytes) memcpy(session->run.tensors[move->to].data, value.data, value.bytes);
    return BASE_OK;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static bool is_constant(const ouro_session *session, uint32_t id) {
    return id == PLAN_ABSENT || session->of->tensors[id].address.space == MEMORY_CONSTANT;
}

static bool is_same_type(const op_type *a, const op_type *b) {
    return a->kind == b->kind && a->dtype == b->dtype && a->layout == b->layout &&
           a->packed_bytes == b->packed_bytes && op_shape_equal(&a->shape, &b->shape);
}

static bool is_prepared(const rt_dynamic *detail) {
    const op_call *call = &detail->call;
    if (!detail->ready) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (!is_same_type(&detail->types[i], &call->inputs[i].type)) return false;
    }
    if (op_schema_of(call->code)->flags & OP_FLAG_DYNAMIC) return true; /* prepared without them */
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (!is_same_type(&detail->types[call->input_count + i], &call->outputs[i].type)) return false;
    }
    return true;
}

/* ---- what decides about the types of outputs ------------------------------------------------------------- */

static bool is_deciding(const rt_dynamic *detail, uint32_t input) {
    for (uint32_t i = 0; i < detail->deciding_count; i++)
        if (detail->deciding[i].input == input) return true;
    return false;
}

/* Keeps what the deciding inputs are. False: they are too many bytes. */
static bool keep_deciding(rt_dynamic *detail) {
    for (uint32_t i = 0; i < detail->deciding_count; i++) {
        struct rt_deciding *kept = &detail->deciding[i];
        const op_tensor *input = &detail->call.inputs[kept->input];
        if (input->bytes > RT_DECIDING_BYTES) return false;
        kept->bytes = input->bytes;
        if (input->bytes) memcpy(kept->data, input->data, input->bytes);
    }
    return true;
}

/* The deciding inputs are what was kept of them. */
static bool decide_the_same(const ouro_session *session, const plan_node *node, const rt_dynamic *detail) {
    for (uint32_t i = 0; i < detail->deciding_count; i++) {
        const struct rt_deciding *kept = &detail->deciding[i];
        const op_tensor *input = &session->run.tensors[session->of->tensor_ids[node->inputs + kept->input]];
        if (input->bytes != kept->bytes || (kept->bytes && memcmp(input->data, kept->data, kept->bytes) != 0))
            return false;
    }
    return true;
}

/* Few integers that are known only in the run. */
static bool make_deciding(ouro_session *session, const plan_node *node, rt_dynamic *detail) {
    detail->deciding = BASE_ARRAY(&session->code.tables, struct rt_deciding, (size_t)node->input_count);
    for (uint32_t i = 0; detail->deciding && i < node->input_count; i++) {
        const uint32_t id = session->of->tensor_ids[node->inputs + i];
        if (is_constant(session, id) || session->of->tensors[id].kind != OP_KIND_TENSOR ||
            (session->of->tensors[id].dtype != OP_INT64 && session->of->tensors[id].dtype != OP_INT32))
            continue;
        detail->deciding[detail->deciding_count++].input = i;
    }
    return detail->deciding || !node->input_count;
}

/* Is inferred from types and constants what the outputs are? */
static bool follow_from_types(op_call call, op_tensor *inferred) {
    const op_tensor *actual = call.outputs;
    memset(inferred, 0, call.output_count * sizeof *inferred);
    call.outputs = inferred;
    if (op_infer(&call, NULL) != BASE_OK) return false;
    for (uint32_t i = 0; i < call.output_count; i++) {
        if (actual[i].type.dtype == OP_NONE) continue;
        if (actual[i].type.kind != OP_KIND_TENSOR || call.outputs[i].type.dtype != actual[i].type.dtype ||
            !op_shape_equal(&call.outputs[i].type.shape, &actual[i].type.shape))
            return false;
    }
    return true;
}

/* The inputs as when a session is made: only data that stays. */
static op_tensor *lasting_inputs(const ouro_session *session, const plan_node *node,
                                 const rt_dynamic *detail) {
    for (uint32_t i = 0; i < detail->call.input_count; i++) {
        detail->lasting[i] = detail->call.inputs[i];
        if (!is_constant(session, session->of->tensor_ids[node->inputs + i])) detail->lasting[i].data = NULL;
    }
    return detail->lasting;
}

/* Finds out what the types of the outputs follow from. That takes as long as inferring them: so it is asked when the types have been
 * the same a second time, for a value that grows never is. */
static void explore(const ouro_session *session, const plan_node *node, rt_dynamic *detail) {
    op_call call = detail->call;
    call.inputs = lasting_inputs(session, node, detail);
    detail->explored = true;
    detail->follows = follow_from_types(call, detail->inferred);
    if (detail->follows || !detail->deciding_count) return;
    for (uint32_t i = 0; i < call.input_count; i++)
        if (is_deciding(detail, i)) detail->lasting[i].data = detail->call.inputs[i].data;
    detail->follows_data = follow_from_types(call, detail->inferred);
}

static void note_types(rt_dynamic *detail) {
    const op_call *call = &detail->call;
    for (uint32_t i = 0; i < call->input_count; i++) detail->types[i] = call->inputs[i].type;
    for (uint32_t i = 0; i < call->output_count; i++)
        detail->types[call->input_count + i] = call->outputs[i].type;
}

/* Only its extents are others, and the kernel goes on with these. */
static bool adapt(const ouro_session *session, const rt_step *step) {
    rt_dynamic *detail = step->detail;
    rt_prepared *prepared = &((rt_step *)(uintptr_t)step)->prepared;
    if (!detail->ready || !prepared->kernel->adapt) return false;
    detail->ready = prepared->kernel->adapt(&detail->call, &session->code.environment, prepared);
    if (detail->ready) note_types(detail);
    return detail->ready;
}

/* The kernel that the plan names, where it packed the weights: no other can read these. NULL: there is none. */
static const rt_kernel *packing_kernel(const ouro_session *session, const plan_node *node,
                                       const op_call *call) {
    const rt_environment *environment = &session->code.environment;
    if (call->input_count < 2 || call->inputs[1].type.layout != OP_LAYOUT_PACKED) return NULL;
    const rt_kernel *kernel = rt_kernel_of(call->code, session->of->texts + node->kernel);
    return kernel && rt_kernel_allowed(kernel, environment) && kernel->accepts(call, environment) ? kernel
                                                                                                  : NULL;
}

/* In place of a kernel that has not prepared: through row-major copies, on weights that are unpacked. */
static base_status prepare_unpacked(ouro_session *session, const op_call *call, rt_dynamic *detail,
                                    rt_prepared *prepared, size_t exhaustions) {
    const rt_environment *environment = &session->code.environment;
    const rt_kernel *kernel = &rt_kernel_through_row_major;
    const bool accepted = kernel->accepts(call, environment);
    /* With more memory, another kernel would run it, with other last digits. */
    if (rt_kernel_exhaustions() != exhaustions) return base_fail_memory(&session->run.report);
    if (!accepted) return BASE_INVALID;
    base_report_clear(&session->run.report);
    return rt_kernel_prepare(kernel, call, environment, &detail->arena, prepared, &session->run.report);
}

static base_status prepare(ouro_session *session, const rt_step *step) {
    const plan_node *node = &session->of->nodes[step->node];
    rt_dynamic *detail = step->detail;
    rt_prepared *prepared = &((rt_step *)(uintptr_t)step)->prepared;
    op_call call = detail->call;
    rt_kernel_release(prepared);
    base_arena_free(&detail->arena);
    detail->ready = detail->explored = detail->follows = detail->follows_data = false;
    call.inputs = lasting_inputs(session, node, detail);
    /* The best for what shapes turn out to be: the plan names one that takes any. */
    const size_t exhaustions = rt_kernel_exhaustions();
    const rt_kernel *kernel = packing_kernel(session, node, &call);
    if (!kernel) kernel = rt_kernel_select(&call, &session->code.environment);
    if (!kernel && rt_kernel_through_row_major.accepts(&call, &session->code.environment))
        kernel = &rt_kernel_through_row_major;
    /* Another one would take its place, with other last digits. */
    if (rt_kernel_exhaustions() != exhaustions) return base_fail_memory(&session->run.report);
    if (!kernel) {
        char text[256];
        return base_fail_unsupported(&session->run.report, "no kernel accepts %s",
                                     call.input_count ? op_type_print(&call.inputs[0].type, text, sizeof text)
                                                      : "these types");
    }
    session->code.environment.execution = &session->run.executions[node->graph];
    base_status status = rt_kernel_prepare(kernel, &call, &session->code.environment, &detail->arena,
                                           prepared, &session->run.report);
    if (status == BASE_INVALID &&
        session->run.report.unsupported) /* it takes the weights, but not these extents */
        status = prepare_unpacked(session, &call, detail, prepared, exhaustions);
    if (status != BASE_OK) return status;
    note_types(detail);
    detail->ready = true;
    return BASE_OK;
}

/* ---- growing -------------------------------------------------------------------------------------------- */

/* The values that a Concat appends to its first one: how many bytes; false where they do not lie after it. */
static bool appended_bytes(const op_call *call, size_t *bytes) {
    const op_type *type = &call->outputs[0].type;
    int32_t axis;
    *bytes = 0;
    if (call->code != OP_CONCAT || type->layout != OP_LAYOUT_ROW_MAJOR ||
        !op_axis(op_attribute_integer(&call->attributes, "axis", 0), type->shape.rank, &axis))
        return false;
    for (int32_t d = 0; d < axis; d++)
        if (type->shape.dims[d] != 1) return false;
    for (uint32_t i = 1; i < call->input_count; i++) *bytes += call->inputs[i].bytes;
    return call->inputs[0].bytes + *bytes == call->outputs[0].bytes;
}

/* Capacity for all that the loop will append, if that is known and not out of proportion; else twice the size. */
static size_t capacity_to_grow(const ouro_session *session, const plan_node *node, size_t bytes,
                               size_t appended) {
    enum { MOST_AHEAD = 1 << 24 };
    int64_t remaining = session->run.remaining[node->graph];
    size_t more;
    if (remaining >= 0 && base_size_multiply((size_t)remaining, appended, &more) && more <= MOST_AHEAD)
        return bytes + more;
    return bytes <= SIZE_MAX / 2 ? 2 * bytes : bytes;
}

/* A Concat by which a carried value grows: where its first part ends in a buffer with capacity left, the others are put
 * after it, and nothing else moves. *done false: it must be computed as usual, in the buffer that it has. */
static base_status append(ouro_session *session, const rt_step *step, bool *done) {
    const plan_node *node = &session->of->nodes[step->node];
    const op_call *call = &((const rt_dynamic *)step->detail)->call;
    uint32_t from = session->of->tensor_ids[node->inputs], to = session->of->tensor_ids[node->outputs];
    rt_buffer *buffer = session->run.buffers[from];
    size_t appended, bytes = call->outputs[0].bytes;
    *done = false;
    if (session->code.unshared || !appended_bytes(call, &appended)) return BASE_OK;
    char *begin = call->inputs[0].data, *end = begin ? begin + call->inputs[0].bytes : NULL;
    bool ends = buffer && end == (char *)buffer->data + buffer->used;
    if (ends && buffer->bounded && appended > buffer->capacity - buffer->used)
        return base_fail(
            &session->run.report, BASE_INVALID,
            "a state would grow beyond the %zu bytes that it may have: more positions than --max allows",
            buffer->capacity);
    if (!ends || appended > buffer->capacity - buffer->used) {
        rt_buffer *larger =
            rt_pool_take(&session->memory.pool, capacity_to_grow(session, node, bytes, appended));
        if (!larger) return base_fail_memory(&session->run.report);
        if (call->inputs[0].bytes) memcpy(larger->data, begin, call->inputs[0].bytes);
        larger->used = call->inputs[0].bytes;
        begin = larger->data;
        end = begin + larger->used;
        buffer = larger;
    } else {
        rt_buffer_retain(buffer);
    }
    for (uint32_t i = 1; i < call->input_count; i++) {
        if (call->inputs[i].bytes) memcpy(end, call->inputs[i].data, call->inputs[i].bytes);
        end += call->inputs[i].bytes;
    }
    buffer->used += appended;
    rt_value_set(session, to, &call->outputs[0].type, begin, bytes, buffer);
    rt_buffer_release(&session->memory.pool, buffer);
    *done = true;
    return BASE_OK;
}

/* ---- running -------------------------------------------------------------------------------------------- */

/* Types of the outputs, from what the inputs are now; those that nobody wants are absent. */
static base_status infer(ouro_session *session, const rt_step *step) {
    const plan *of = session->of;
    const plan_node *node = &of->nodes[step->node];
    rt_dynamic *detail = step->detail;
    op_call *call = &detail->call;
    for (uint32_t i = 0; i < call->input_count; i++) {
        uint32_t id = of->tensor_ids[node->inputs + i];
        if (id != PLAN_ABSENT) step->inputs[i] = session->run.tensors[id];
    }
    for (uint32_t i = 0; i < call->output_count; i++) step->outputs[i] = (op_tensor){0};
    base_status status = op_infer(call, &session->run.report);
    for (uint32_t i = 0; i < call->output_count && status == BASE_OK; i++) {
        uint32_t id = of->tensor_ids[node->outputs + i];
        op_tensor *output = &step->outputs[i];
        if (id == PLAN_ABSENT || of->tensors[id].address.space == MEMORY_NONE) {
            *output = (op_tensor){0};
            continue;
        }
        output->symbolic = NULL;
        output->type.layout = (op_layout)of->tensors[id].layout;
    }
    return status;
}

/* The types are final: they have sizes, and are what was planned where anything was. */
static base_status settle_types(ouro_session *session, const rt_step *step) {
    const plan *of = session->of;
    const plan_node *node = &of->nodes[step->node];
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < node->output_count && status == BASE_OK; i++) {
        uint32_t id = of->tensor_ids[node->outputs + i];
        op_tensor *output = &step->outputs[i];
        if (output->type.dtype == OP_NONE) continue;
        if (!op_type_bytes(&output->type, &output->bytes)) {
            char text[256];
            status =
                base_fail(&session->run.report, BASE_INVALID, "its output is %s: too large, or not known",
                          plan_type_print(of, &output->type, text, sizeof text));
        } else if (!session->code.dynamic[id] &&
                   !is_same_type(&output->type, &session->run.tensors[id].type)) {
            status = rt_value_fail(session, id, &output->type);
        }
    }
    return status;
}

/* settled: the tensors have their types already. */
static base_status take_outputs(ouro_session *session, const rt_step *step, bool settled) {
    const plan_node *node = &session->of->nodes[step->node];
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint32_t id = session->of->tensor_ids[node->outputs + i];
        op_tensor *output = &step->outputs[i];
        if (output->type.dtype == OP_NONE) continue;
        if (session->code.dynamic[id] && !(settled ? rt_value_renew(session, id, output->bytes)
                                                   : rt_value_new(session, id, &output->type, output->bytes)))
            return BASE_SYSTEM_ERROR;
        output->data = session->run.tensors[id].data;
    }
    return BASE_OK;
}

/* There is nothing to compute. Kernels that want blocks do not take empty tensors. */
static bool is_empty(const rt_step *step) {
    const op_call *call = &((const rt_dynamic *)step->detail)->call;
    if (op_schema_of(call->code)->flags & (OP_FLAG_CHECKED | OP_FLAG_EFFECT)) return false;
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (step->outputs[i].type.dtype != OP_NONE && step->outputs[i].bytes) return false;
    }
    return true;
}

/* The kernel says what dimensions its outputs have; only then they get memory. */
static base_status measure(ouro_session *session, const rt_step *step, void *scratch) {
    const rt_prepared *prepared = &step->prepared;
    base_status status =
        prepared->kernel->measure(prepared, step->inputs, step->outputs, scratch, &session->run.report);
    if (status == BASE_OK) status = settle_types(session, step);
    return status == BASE_OK ? take_outputs(session, step, false) : status;
}

/* The tensors of the step are as in the last run, but for their data. */
static bool is_settled(const ouro_session *session, const rt_step *step) {
    const plan *of = session->of;
    const plan_node *node = &of->nodes[step->node];
    if (!((const rt_dynamic *)step->detail)->settled) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const uint32_t id = of->tensor_ids[node->inputs + i];
        if (id == PLAN_ABSENT) continue;
        if (session->run.tensors[id].bytes != step->inputs[i].bytes ||
            !is_same_type(&session->run.tensors[id].type, &step->inputs[i].type))
            return false;
        step->inputs[i].data = session->run.tensors[id].data;
    }
    const rt_dynamic *detail = step->detail;
    return detail->follows || decide_the_same(session, node, detail);
}

/* The types of the outputs are settled until the types of inputs are others, or the data that decide. */
static bool is_settled_now(rt_dynamic *detail) {
    return detail->follows || (detail->follows_data && (detail->settled || keep_deciding(detail)));
}

/* Finds what the outputs are, and gives them memory. *done: there is nothing more to do. */
static base_status settle(ouro_session *session, const rt_step *step, bool *done) {
    rt_dynamic *detail = step->detail;
    if (!is_settled(session, step)) {
        detail->settled = detail->fresh = false;
        base_status status = infer(session, step);
        if (status == BASE_OK) status = settle_types(session, step);
        if (status != BASE_OK) return status;
    }
    if (rt_views_share(session, step)) {
        *done = true;
        detail->settled = is_settled_now(detail);
        return BASE_OK;
    }
    base_status status = detail->grows ? append(session, step, done) : BASE_OK;
    if (*done || status != BASE_OK) return status;
    status = take_outputs(session, step, detail->settled);
    *done = is_empty(step);
    return status;
}

static base_status run_dynamic(ouro_session *session, const rt_step *step) {
    rt_dynamic *detail = step->detail;
    bool measured = op_schema_of(detail->call.code)->flags & OP_FLAG_DYNAMIC, done = false;
    base_status status = measured ? infer(session, step) : settle(session, step, &done);
    if (status != BASE_OK || done) return status;
    const plan_node *node = &session->of->nodes[step->node];
    if (!detail->fresh && is_prepared(detail)) {
        if (!detail->explored && !measured) explore(session, node, detail);
    } else if (!detail->fresh && !adapt(session, step)) {
        status = prepare(session, step);
        if (status != BASE_OK) return status;
    }
    detail->fresh = detail->settled = !measured && is_settled_now(detail);
    rt_buffer *scratch = NULL;
    void *data = NULL;
    const size_t bytes = step->prepared.scratch_bytes;
    if (bytes && bytes <= node->scratch_bytes && !session->code.unshared) {
        data = session->memory.arena + node->scratch.offset;
    } else if (bytes) {
        scratch = rt_pool_take(&session->memory.pool, bytes);
        if (!scratch) return base_fail_memory(&session->run.report);
        data = scratch->data;
    }
    if (measured) status = measure(session, step, data);
    if (status == BASE_OK)
        status = step->prepared.run(&step->prepared, step->inputs, step->outputs, data, &session->run.report);
    rt_buffer_release(&session->memory.pool, scratch);
    return status;
}

/* ---- making -------------------------------------------------------------------------------------------- */

bool rt_dynamic_make(ouro_session *session, const plan_node *node, rt_step *step) {
    rt_dynamic *detail = BASE_NEW(&session->code.tables, rt_dynamic);
    if (!detail) return false;
    base_arena_init(&detail->arena, &session->memory.blocks.allocator);
    detail->types =
        BASE_ARRAY(&session->code.tables, op_type, (size_t)(node->input_count + node->output_count));
    detail->lasting = BASE_ARRAY(&session->code.tables, op_tensor, (size_t)node->input_count + 1);
    detail->inferred = BASE_ARRAY(&session->code.tables, op_tensor, (size_t)node->output_count + 1);
    detail->call = (op_call){.code = plan_node_code(session->of, node),
                             .input_count = (uint32_t)node->input_count,
                             .output_count = (uint32_t)node->output_count,
                             .inputs = step->inputs,
                             .outputs = step->outputs};
    step->kind = RT_STEP_DYNAMIC;
    step->special = run_dynamic;
    step->detail = detail;
    uint32_t owner = session->of->graphs[node->graph].owner, concat = PLAN_ABSENT;
    plan_loop_form form;
    if (owner != PLAN_ABSENT && detail->call.code == OP_CONCAT &&
        plan_node_code(session->of, &session->of->nodes[owner]) == OP_LOOP &&
        plan_loop_form_read(session->of, &session->of->nodes[owner], &form)) {
        for (uint32_t i = 0; i < form.carried && !detail->grows; i++) {
            detail->grows = plan_loop_grows(session->of, &form, i, &concat) && concat == step->node;
        }
    }
    if (node->graph == 0 && detail->call.code == OP_CONCAT)
        detail->grows = rt_states_grows(session, session->of->tensor_ids[node->inputs],
                                        session->of->tensor_ids[node->outputs]);
    if (!make_deciding(session, node, detail) || !rt_views_make(session, node, detail)) return false;
    if (rt_views_may_share(detail->call.code)) { /* it need not come to be prepared */
        detail->follows = true;
        for (uint32_t i = 1; i < detail->call.input_count; i++)
            detail->follows &= is_constant(session, session->of->tensor_ids[node->inputs + i]);
        detail->follows_data = true;
        for (uint32_t i = 1; i < detail->call.input_count; i++)
            detail->follows_data &=
                is_deciding(detail, i) || is_constant(session, session->of->tensor_ids[node->inputs + i]);
    }
    return detail->types && detail->lasting && detail->inferred &&
           plan_node_attributes(session->of, node, &session->code.tables, &detail->call.attributes);
}

void rt_dynamic_free(rt_step *step) {
    rt_dynamic *detail = step->detail;
    if (detail) base_arena_free(&detail->arena);
}

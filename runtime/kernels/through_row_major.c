/* SPDX-License-Identifier: Apache-2.0 */
/* through_row_major.c: any operator on tensors in blocks, where none of its kernels takes them: they are copied to row-major
 * ones, a kernel for these runs, and its results are put into blocks again.
 *
 * No plan names it. Where extents are open, layouts are chosen for examples of them (passes/layout/example_extents.c), and
 * kernels may refuse what a run brings (a pool whose window lies outside of a small image, say): then it is slow, but
 * not impossible. Weights that were packed for other extents are unpacked first, once.
 */
#include "runtime/kernels/table.h"
#include <string.h>

/* A tensor of the application: where its row-major copy lies in the scratch, and what makes it or is made of it. */
typedef struct copy {
    bool used;
    size_t offset;
    op_type row_major;
    rt_prepared reorder;
    size_t scratch_bytes; /* of the reorder */
} copy;

typedef struct through_row_major {
    rt_prepared inner;
    uint32_t input_count, output_count;
    copy *copies; /* of inputs, then of outputs */
    op_tensor *inputs, *outputs;
    size_t scratch; /* where that of the kernels begins */
    op_attributes attributes;
    op_tensor weights; /* input 1, unpacked; without data where it was not packed */
} through_row_major;

static bool is_blocked(const op_tensor *tensor) {
    const op_layout layout = tensor->type.layout;
    return tensor->type.dtype != OP_NONE && layout != OP_LAYOUT_ROW_MAJOR && layout != OP_LAYOUT_PACKED;
}

static bool has_packed_weights(const op_call *call) {
    return call->input_count > 1 && call->inputs[1].type.layout == OP_LAYOUT_PACKED;
}

/* The application on row-major tensors: the lists are the state's. */
static op_call row_major_call(const op_call *call, through_row_major *state) {
    op_call row_major = *call;
    for (uint32_t i = 0; i < call->input_count; i++) {
        state->inputs[i] = call->inputs[i];
        if (is_blocked(&call->inputs[i])) state->inputs[i].type.layout = OP_LAYOUT_ROW_MAJOR;
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        state->outputs[i] = call->outputs[i];
        if (is_blocked(&call->outputs[i])) state->outputs[i].type.layout = OP_LAYOUT_ROW_MAJOR;
    }
    if (has_packed_weights(call)) state->inputs[1] = state->weights;
    row_major.inputs = state->inputs;
    row_major.outputs = state->outputs;
    row_major.attributes = state->attributes;
    return row_major;
}

static bool make_lists(const op_call *call, base_arena *arena, through_row_major *state) {
    state->input_count = call->input_count;
    state->output_count = call->output_count;
    state->copies = BASE_ARRAY(arena, copy, (size_t)call->input_count + call->output_count);
    state->inputs = BASE_ARRAY(arena, op_tensor, call->input_count);
    state->outputs = BASE_ARRAY(arena, op_tensor, call->output_count);
    op_attribute *items = BASE_ARRAY(arena, op_attribute, call->attributes.count);
    if (!state->copies || !state->inputs || !state->outputs || !items) return false;
    /* What was packed for other extents is nothing to a kernel for these. */
    for (size_t i = 0; i < call->attributes.count; i++)
        if (strcmp(call->attributes.items[i].name, "ouro.packed_extents") != 0)
            items[state->attributes.count++] = call->attributes.items[i];
    state->attributes.items = items;
    return true;
}

/* The kernel that packed the weights: the only one that takes them. */
static const rt_kernel *find_packing(const op_call *call, const rt_environment *environment) {
    const rt_kernel *kernel;
    for (unsigned i = 0; (kernel = rt_kernel_candidate(call->code, i)); i++)
        if (kernel->unpack && rt_kernel_allowed(kernel, environment) && kernel->accepts(call, environment))
            return kernel;
    return NULL;
}

/* Describes the weights as they were before they were packed. */
static bool describe_weights(const op_call *call, op_tensor *weights) {
    *weights = call->inputs[1];
    weights->data = NULL;
    weights->type.layout = OP_LAYOUT_ROW_MAJOR;
    weights->type.packed_bytes = 0;
    return op_type_bytes(&weights->type, &weights->bytes);
}

static base_status unpack_weights(const op_call *call, const rt_environment *environment, base_arena *arena,
                                  op_tensor *weights, base_report *report) {
    const rt_kernel *packing = find_packing(call, environment);
    if (!packing || !call->inputs[1].data)
        return base_fail_unsupported(report, "no kernel has packed the weights");
    if (!describe_weights(call, weights)) return base_fail_memory(report);
    weights->data = rt_arena_aligned(arena, weights->bytes);
    if (!weights->data) return base_fail_memory(report);
    return packing->unpack(call, environment, 1, &call->inputs[1], weights->data, report);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    through_row_major state = {0};
    base_arena arena;
    bool blocked = false, accepted = false;
    for (uint32_t i = 0; i < call->input_count; i++) blocked = blocked || is_blocked(&call->inputs[i]);
    for (uint32_t i = 0; i < call->output_count; i++) blocked = blocked || is_blocked(&call->outputs[i]);
    const bool packed = has_packed_weights(call);
    if (!(blocked || packed) || (op_schema_of(call->code)->flags & OP_FLAG_DYNAMIC)) return false;
    if (packed && (!find_packing(call, environment) || !describe_weights(call, &state.weights))) return false;
    base_arena_init(&arena, environment->memory);
    if (make_lists(call, &arena, &state)) {
        const op_call row_major = row_major_call(call, &state);
        accepted = rt_kernel_select(&row_major, environment) != NULL;
    }
    base_arena_free(&arena);
    return accepted;
}

/* From one layout to the other. */
static base_status prepare_reorder(const op_type *from, const op_type *to, const rt_environment *environment,
                                   base_arena *arena, copy *own, base_report *report) {
    const op_attribute layout = {
        .name = "ouro.layout", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = to->layout};
    const op_tensor input = {.type = *from};
    op_tensor output = {.type = *to};
    const op_call call = {.code = OP_REORDER,
                          .attributes = {.count = 1, .items = &layout},
                          .input_count = 1,
                          .output_count = 1,
                          .inputs = &input,
                          .outputs = &output};
    const size_t exhaustions = rt_kernel_exhaustions();
    const rt_kernel *kernel = rt_kernel_select(&call, environment);
    if (rt_kernel_exhaustions() != exhaustions) return base_fail_memory(report);
    if (!kernel) return base_fail_unsupported(report, "these types cannot be reordered");
    base_status status = rt_kernel_prepare(kernel, &call, environment, arena, &own->reorder, report);
    own->scratch_bytes = own->reorder.scratch_bytes;
    return status;
}

/* A place after the others in the scratch, and the reorder that fills or empties it. */
static base_status prepare_copy(const op_tensor *tensor, bool result, const rt_environment *environment,
                                base_arena *arena, through_row_major *state, copy *own, base_report *report) {
    size_t bytes;
    if (!is_blocked(tensor)) return BASE_OK;
    own->used = true;
    own->row_major = tensor->type;
    own->row_major.layout = OP_LAYOUT_ROW_MAJOR;
    own->offset = state->scratch;
    if (!op_type_bytes(&own->row_major, &bytes) || !base_size_align(bytes, RT_ALIGNMENT, &bytes) ||
        !base_size_add(state->scratch, bytes, &state->scratch))
        return base_fail(report, BASE_INVALID, "the tensors are too large");
    return result ? prepare_reorder(&own->row_major, &tensor->type, environment, arena, own, report)
                  : prepare_reorder(&tensor->type, &own->row_major, environment, arena, own, report);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    through_row_major *state = prepared->state;
    void *rest = (char *)scratch + state->scratch;
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < state->input_count && status == BASE_OK; i++) {
        const copy *own = &state->copies[i];
        state->inputs[i] = i == 1 && state->weights.data ? state->weights : inputs[i];
        if (!own->used) continue;
        state->inputs[i].type = own->row_major;
        state->inputs[i].data = (char *)scratch + own->offset;
        op_type_bytes(&own->row_major, &state->inputs[i].bytes);
        status = own->reorder.run(&own->reorder, &inputs[i], &state->inputs[i], rest, report);
    }
    for (uint32_t i = 0; i < state->output_count; i++) {
        const copy *own = &state->copies[state->input_count + i];
        state->outputs[i] = outputs[i];
        if (!own->used) continue;
        state->outputs[i].type = own->row_major;
        state->outputs[i].data = (char *)scratch + own->offset;
        op_type_bytes(&own->row_major, &state->outputs[i].bytes);
    }
    if (status == BASE_OK)
        status = state->inner.run(&state->inner, state->inputs, state->outputs, rest, report);
    for (uint32_t i = 0; i < state->output_count && status == BASE_OK; i++) {
        const copy *own = &state->copies[state->input_count + i];
        if (own->used)
            status = own->reorder.run(&own->reorder, &state->outputs[i], &outputs[i], rest, report);
    }
    return status;
}

static void release(rt_prepared *prepared) {
    through_row_major *state = prepared->state;
    if (!state) return;
    rt_kernel_release(&state->inner);
    for (uint32_t i = 0; state->copies && i < state->input_count + state->output_count; i++)
        rt_kernel_release(&state->copies[i].reorder);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    through_row_major *state = BASE_NEW(arena, through_row_major);
    if (!state || !make_lists(call, arena, state)) return base_fail_memory(report);
    prepared->state = state;
    prepared->run = run;
    base_status status = BASE_OK;
    if (has_packed_weights(call)) status = unpack_weights(call, environment, arena, &state->weights, report);
    if (status != BASE_OK) return status;
    const op_call row_major = row_major_call(call, state);
    const size_t exhaustions = rt_kernel_exhaustions();
    const rt_kernel *kernel = rt_kernel_select(&row_major, environment);
    if (rt_kernel_exhaustions() != exhaustions) return base_fail_memory(report);
    status = kernel ? rt_kernel_prepare(kernel, &row_major, environment, arena, &state->inner, report)
                    : base_fail_unsupported(report, "no kernel accepts these types");
    size_t most = state->inner.scratch_bytes;
    for (uint32_t i = 0; i < call->input_count + call->output_count && status == BASE_OK; i++) {
        const bool result = i >= call->input_count;
        copy *own = &state->copies[i];
        status = prepare_copy(result ? &call->outputs[i - call->input_count] : &call->inputs[i], result,
                              environment, arena, state, own, report);
        if (own->scratch_bytes > most) most = own->scratch_bytes;
    }
    if (status == BASE_OK && !base_size_add(state->scratch, most, &prepared->scratch_bytes))
        status = base_fail(report, BASE_INVALID, "the tensors are too large");
    if (status != BASE_OK) release(prepared);
    return status;
}

const rt_kernel rt_kernel_through_row_major = {
    .name = "portable.through_row_major", .accepts = accepts, .prepare = prepare, .release = release};

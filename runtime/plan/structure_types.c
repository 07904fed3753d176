/* SPDX-License-Identifier: Apache-2.0 */
/* structure_types.c: do the types of a plan follow from one another? See runtime/plan/structure.c. */
#include "runtime/plan/structure.h"
#include <inttypes.h>

static const char *text_of(const structure_checker *c, uint32_t text) {
    return c->of->texts + text;
}

static bool is_static(const structure_checker *c, uint32_t id) {
    op_type type;
    size_t bytes;
    plan_tensor_type(c->of, id, &type);
    return op_type_bytes(&type, &bytes) && c->of->tensors[id].address.space != MEMORY_DYNAMIC;
}

/* A value can be handed from one tensor to the other: equal types where both are known. */
static bool can_move(const structure_checker *c, uint32_t from, uint32_t to) {
    op_type a, b;
    plan_tensor_type(c->of, from, &a);
    plan_tensor_type(c->of, to, &b);
    if (a.kind != b.kind || a.element != b.element || a.dtype != b.dtype) return false;
    if (!is_static(c, from) || !is_static(c, to)) return true;
    return a.layout == b.layout && a.layout != OP_LAYOUT_PACKED && op_shape_equal(&a.shape, &b.shape);
}

static bool is_scalar(const structure_checker *c, uint32_t id, op_dtype dtype) {
    const plan_tensor *tensor = &c->of->tensors[id];
    if (tensor->kind != OP_KIND_TENSOR || tensor->dtype != dtype) return false;
    return !is_static(c, id) || tensor->bytes == op_dtype_bytes(dtype);
}

static bool check_if(structure_checker *c, const plan_node *node) {
    const plan *of = c->of;
    uint32_t condition = of->tensor_ids[node->inputs];
    if (condition == PLAN_ABSENT || !is_scalar(c, condition, OP_BOOL))
        return structure_fail(c, "its condition is no bool");
    for (uint32_t g = 0; g < 2; g++) {
        const plan_graph *branch = &of->graphs[node->first_graph + g];
        if (branch->parameter_count || branch->result_count != node->output_count) {
            return structure_fail(c, "its branches do not have its outputs");
        }
        for (uint64_t i = 0; i < node->output_count; i++) {
            uint32_t output = of->tensor_ids[node->outputs + i];
            if (output != PLAN_ABSENT && !can_move(c, of->tensor_ids[branch->results + i], output)) {
                return structure_fail(c, "output %" PRIu64 " is of another type in a branch", i);
            }
        }
    }
    return true;
}

/* A slice along `axis` of the whole. */
static bool can_slice(const structure_checker *c, uint32_t whole, uint32_t slice, int64_t axis) {
    op_type a, b;
    plan_tensor_type(c->of, whole, &a);
    plan_tensor_type(c->of, slice, &b);
    if (a.kind != OP_KIND_TENSOR || b.kind != OP_KIND_TENSOR || a.dtype != b.dtype) return false;
    if (!is_static(c, whole) || !is_static(c, slice)) return true;
    int32_t normal;
    if (a.layout != OP_LAYOUT_ROW_MAJOR || b.layout != OP_LAYOUT_ROW_MAJOR ||
        b.shape.rank != a.shape.rank - 1 || !op_axis(axis, a.shape.rank, &normal)) {
        return false;
    }
    for (int32_t d = 0; d < b.shape.rank; d++) {
        if (b.shape.dims[d] != a.shape.dims[d < normal ? d : d + 1]) return false;
    }
    return true;
}

static bool check_loop(structure_checker *c, const plan_node *node) {
    const plan *of = c->of;
    plan_loop_form form;
    if (!plan_loop_form_read(of, node, &form))
        return structure_fail(c, "its inputs, outputs and body do not fit");
    if ((form.trip_count != PLAN_ABSENT && !is_scalar(c, form.trip_count, OP_INT64)) ||
        (form.condition != PLAN_ABSENT && !is_scalar(c, form.condition, OP_BOOL)) ||
        !is_scalar(c, form.parameters[0], OP_INT64) || !is_scalar(c, form.parameters[1], OP_BOOL) ||
        !is_scalar(c, form.results[0], OP_BOOL)) {
        return structure_fail(c, "its trip count or condition has a wrong type");
    }
    for (uint32_t i = 0; i < form.carried; i++) {
        uint32_t parameter = form.parameters[2 + i], output = form.outputs[i];
        if (form.initial[i] == PLAN_ABSENT || !can_move(c, form.initial[i], parameter) ||
            !can_move(c, form.results[1 + i], parameter) ||
            (output != PLAN_ABSENT && !can_move(c, parameter, output))) {
            return structure_fail(c, "carried parameter %u changes its type", i);
        }
    }
    for (uint32_t i = 0; i < form.scan_inputs; i++) {
        uint32_t whole = form.initial[form.carried + i];
        if (whole == PLAN_ABSENT ||
            !can_slice(c, whole, form.parameters[2 + form.carried + i], plan_loop_axis(&form, false, i))) {
            return structure_fail(c, "scanned input %u does not have its slice's type", i);
        }
    }
    for (uint32_t i = 0; i < form.scan_outputs; i++) {
        uint32_t whole = form.outputs[form.carried + i];
        if (whole == PLAN_ABSENT) continue;
        if (!can_slice(c, whole, form.results[1 + form.carried + i], plan_loop_axis(&form, true, i))) {
            return structure_fail(c, "stacked output %u does not have its slice's type", i);
        }
    }
    return true;
}

/* Output types follow from the inputs' as the operator says, as far as it can without running. */
static bool check_inference(structure_checker *c, const plan_node *node, op_code code) {
    const plan *of = c->of;
    op_tensor *inputs = BASE_ARRAY(&c->arena, op_tensor, (size_t)node->input_count);
    op_tensor *outputs = BASE_ARRAY(&c->arena, op_tensor, (size_t)node->output_count);
    op_call call = {.code = code,
                    .input_count = (uint32_t)node->input_count,
                    .output_count = (uint32_t)node->output_count,
                    .inputs = inputs,
                    .outputs = outputs,
                    .arena = &c->arena};
    if (!inputs || !outputs || !plan_node_attributes(of, node, &c->arena, &call.attributes)) {
        base_fail_memory(c->report);
        return false;
    }
    for (uint32_t i = 0; i < call.input_count; i++) {
        uint32_t id = of->tensor_ids[node->inputs + i];
        if (id == PLAN_ABSENT) continue;
        const plan_tensor *tensor = &of->tensors[id];
        plan_tensor_type(of, id, &inputs[i].type);
        inputs[i].bytes = (size_t)tensor->bytes;
        if (tensor->address.space == MEMORY_CONSTANT && tensor->dtype != OP_STRING) {
            inputs[i].data = (void *)(uintptr_t)(of->constants + tensor->address.offset);
        }
    }
    /* What is inferred when it runs may be impossible with shapes that are known before: a model guards it with an If, so that it is
     * not in the main graph. */
    const bool dynamic = (node->flags & PLAN_NODE_DYNAMIC) && c->depth[node->graph] > 0;
    base_report ignored = {0};
    if (op_infer(&call, dynamic ? &ignored : c->report) != BASE_OK) {
        for (uint32_t i = 0; i < call.input_count; i++) inputs[i].type.shape = (op_shape){.rank = -1};
        if (!dynamic || op_infer(&call, c->report) != BASE_OK) return false;
    }
    for (uint32_t i = 0; i < call.output_count; i++) {
        uint32_t id = of->tensor_ids[node->outputs + i];
        if (id == PLAN_ABSENT) continue;
        op_type declared;
        const op_type *inferred = &outputs[i].type;
        plan_tensor_type(of, id, &declared);
        bool equal = declared.kind == inferred->kind && declared.element == inferred->element &&
                     declared.dtype == inferred->dtype &&
                     (inferred->shape.rank < 0 || declared.shape.rank < 0 ||
                      declared.shape.rank == inferred->shape.rank);
        for (int32_t d = 0; equal && inferred->shape.rank >= 0 && d < declared.shape.rank; d++) {
            int64_t a = declared.shape.dims[d], b = inferred->shape.dims[d];
            equal = a < 0 || b < 0 || a == b;
        }
        if (!equal) {
            char declares[256], infers[256];
            return structure_fail(c, "output %u is %s, the operator gives %s", i,
                                  op_type_print(&declared, declares, sizeof declares),
                                  op_type_print(inferred, infers, sizeof infers));
        }
    }
    return true;
}

bool structure_check_types(structure_checker *c) {
    const plan *of = c->of;
    base_arena kept = c->arena;
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        const plan_node *node = &of->nodes[n];
        op_code code = plan_node_code(of, node);
        plan_node_context(of, node, c->file[0] ? c->file : NULL, c->report);
        bool valid;
        base_arena_init(&c->arena, kept.allocator);
        if (code == OP_IF) valid = check_if(c, node);
        else if (code == OP_LOOP) valid = check_loop(c, node);
        else valid = check_inference(c, node, code);
        base_arena_free(&c->arena);
        c->arena = kept;
        if (!valid) return false;
        /* A static node knows everything. */
        for (uint64_t i = 0; i < node->input_count + node->output_count && !(node->flags & PLAN_NODE_DYNAMIC);
             i++) {
            uint32_t id = i < node->input_count ? of->tensor_ids[node->inputs + i]
                                                : of->tensor_ids[node->outputs + i - node->input_count];
            if (id == PLAN_ABSENT || is_static(c, id)) continue;
            return structure_fail(c, "tensor \"%s\" is not known before the run",
                                  text_of(c, of->tensors[id].name));
        }
    }
    return true;
}

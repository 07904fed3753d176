/* SPDX-License-Identifier: Apache-2.0 */
/* infer_shapes.c: types of all values, as far as they follow.
 *
 *     %y = Conv(%x, %w)            =>   %y: float32[1,64,112,112] = Conv(%x, %w)
 *
 * Operators are asked one by one through op_infer, with constant inputs and known integer values. Control nodes are inferred
 * here:
 *
 *   If     both branches. An output has the extents on which they agree; the others are not known.
 *   Loop   The parameters begin with the types of the initial values. The body is inferred until each carried parameter has the
 *          type of its replacement; extents that change from one iteration to the next become unknown. A stacked output has as
 *          many slices as the loop has iterations, where that is certain.
 *
 * Needs: nothing. Breaks: nothing. Guarantees: types of all values, as far as they follow; ir_value.symbolic. Can be
 * repeated after other passes: types only become better known. Reports every node that is wrong, not only the first.
 */
#include "ir/loop.h"
#include "ir/operators/small.h"
#include "ir/operators/symbol_text.h"
#include "passes/graph/graph.h"
#include <string.h>

static base_status infer_graph(pass_context *context, ir_graph *graph);

/* What holds of a value that is sometimes an `a` and sometimes a `b`. */
static op_type join_types(const op_type *a, const op_type *b) {
    op_type joined = *a;
    if (a->shape.rank != b->shape.rank) {
        joined.shape = (op_shape){.rank = -1};
        return joined;
    }
    for (int32_t d = 0; d < a->shape.rank; d++) {
        if (a->shape.dims[d] != b->shape.dims[d]) joined.shape.dims[d] = OP_DIM_UNKNOWN;
    }
    return joined;
}

/* ---- If ------------------------------------------------------------------------------------------------ */

static base_status infer_if(pass_context *context, ir_node *node) {
    base_report *report = context->report;
    const ir_value *condition = ir_input(node, 0);
    ir_node_context(node, report);
    if (!condition || condition->type.dtype != OP_BOOL) {
        return base_fail(report, BASE_INVALID, "the condition is %s, expected bool",
                         condition ? op_dtype_name(condition->type.dtype) : "absent");
    }
    if (node->graph_count != 2)
        return base_fail(report, BASE_INVALID, "%u branches, expected 2", node->graph_count);
    base_status status = BASE_OK;
    for (uint32_t g = 0; g < 2; g++) {
        base_status branch = infer_graph(context, node->graphs[g]);
        if (status == BASE_OK) status = branch;
    }
    if (status != BASE_OK) return status;
    ir_node_context(node, report);
    for (uint32_t i = 0; i < node->output_count; i++) {
        for (uint32_t g = 0; g < 2; g++) {
            if (i < node->graphs[g]->result_count) continue;
            return base_fail(report, BASE_INVALID, "branch %u has %u results, the node has %u outputs", g,
                             node->graphs[g]->result_count, node->output_count);
        }
        if (!node->outputs[i]) continue;
        const op_type *a = &node->graphs[0]->results[i]->value->type,
                      *b = &node->graphs[1]->results[i]->value->type;
        if (a->dtype != b->dtype || a->kind != b->kind || a->element != b->element) {
            return base_fail(report, BASE_INVALID, "output %u is %s in one branch and %s in the other", i,
                             op_dtype_name(a->dtype), op_dtype_name(b->dtype));
        }
        node->outputs[i]->type = join_types(a, b);
    }
    return BASE_OK;
}

/* ---- Loop ---------------------------------------------------------------------------------------------- */

static base_status check_loop(const ir_node *node, ir_loop *loop, base_report *report) {
    if (ir_loop_read(node, loop)) return BASE_OK;
    const ir_graph *body = node->graph_count == 1 ? node->graphs[0] : NULL;
    if (!body) return base_fail(report, BASE_INVALID, "%u bodies, expected 1", node->graph_count);
    if (!loop->body) {
        return base_fail(report, BASE_INVALID,
                         "%u inputs, a loop needs a trip count, a condition and its initial values",
                         node->input_count);
    }
    if (body->parameter_count != node->input_count) {
        return base_fail(report, BASE_INVALID,
                         "the body has %u parameters, expected %u (iteration, condition, %u carried)",
                         body->parameter_count, node->input_count, loop->carried);
    }
    return base_fail(report, BASE_INVALID,
                     "the body has %u results, expected %u (condition, then one an output)",
                     body->result_count, node->output_count + 1);
}

/* Without this axis; an axis of -1 is not known. */
static void take_axis(op_shape *shape, int32_t axis) {
    if (axis < 0) {
        *shape = (op_shape){.rank = -1};
        return;
    }
    memmove(&shape->dims[axis], &shape->dims[axis + 1],
            (size_t)(shape->rank - axis - 1) * sizeof *shape->dims);
    shape->rank--;
}

static bool insert_axis(op_shape *shape, int32_t axis, int64_t extent) {
    if (shape->rank < 0) return true;
    if (shape->rank >= OP_MAX_RANK || axis < 0) return false;
    memmove(&shape->dims[axis + 1], &shape->dims[axis], (size_t)(shape->rank - axis) * sizeof *shape->dims);
    shape->dims[axis] = extent;
    shape->rank++;
    return true;
}

/* What carried value `index` is after `trips` iterations, where each appends the same to it. Changes the type's extent along
 * that axis. */
static void grow_type(const ir_loop *loop, uint32_t index, int64_t trips, op_type *type) {
    ir_loop_growth growth;
    if (trips < 0 || !ir_loop_grows(loop, index, &growth)) return;
    const int64_t extent = ir_loop_grown_extent(loop, index, &growth, trips);
    if (extent >= 0) type->shape.dims[growth.axis] = extent;
}

/* Axes of what is scanned or stacked are counted from the first, where it is known how many there are. */
static bool count_axes_from_first(ir_module *module, ir_node *node, const ir_loop *loop) {
    for (int stacks = 0; stacks < 2; stacks++) {
        const char *name = stacks ? "ouro.scan_output_axes" : "ouro.scan_input_axes";
        const uint32_t count = stacks ? loop->stacked : loop->scanned;
        for (uint32_t i = 0; i < count; i++) {
            const int32_t axis = stacks ? ir_loop_stack(loop, i).axis : ir_loop_scan(loop, i).axis;
            if (axis < 0 || op_attribute_entry(&node->attributes, name, i) >= 0) continue;
            int64_t *entries = BASE_ARRAY(&module->arena, int64_t, count);
            if (!entries) return false;
            for (uint32_t k = 0; k < count; k++) entries[k] = op_attribute_entry(&node->attributes, name, k);
            entries[i] = axis;
            const op_attribute list = {
                .name = name, .kind = OP_ATTRIBUTE_INTS, .count = count, .as.integers = entries};
            if (!ir_attribute_set(module, &node->attributes, &list)) return false;
        }
    }
    return true;
}

static base_status infer_loop(pass_context *context, ir_node *node) {
    enum { ROUNDS = OP_MAX_RANK + 3 }; /* each round makes an extent or a rank unknown, or is the last */
    base_report *report = context->report;
    ir_loop loop;
    ir_node_context(node, report);
    base_status status = check_loop(node, &loop, report);
    if (status != BASE_OK) return status;
    ir_graph *body = loop.body;
    body->parameters[0]->type = (op_type){.dtype = OP_INT64};
    body->parameters[1]->type = (op_type){.dtype = OP_BOOL};
    for (uint32_t i = 2; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (!input)
            return base_fail(report, BASE_INVALID, "input %u is absent, expected an initial value", i);
        body->parameters[i]->type = input->type;
        if (i < 2 + loop.carried) continue;
        take_axis(&body->parameters[i]->type.shape, ir_loop_scan(&loop, i - 2 - loop.carried).axis);
    }
    bool again = true;
    for (int round = 0; again && round < ROUNDS; round++) {
        status = infer_graph(context, body);
        if (status != BASE_OK) return status;
        again = false;
        ir_node_context(node, report);
        for (uint32_t i = 0; i < loop.carried; i++) {
            ir_value *parameter = body->parameters[2 + i];
            const op_type *next = &body->results[1 + i]->value->type;
            if (parameter->type.dtype != next->dtype || parameter->type.kind != next->kind ||
                parameter->type.element != next->element) {
                return base_fail(report, BASE_INVALID, "carried value %u begins as %s and is replaced by %s",
                                 i, op_dtype_name(parameter->type.dtype), op_dtype_name(next->dtype));
            }
            op_type joined = join_types(&parameter->type, next);
            if (op_shape_equal(&joined.shape, &parameter->type.shape)) continue;
            parameter->type = joined;
            again = true;
        }
    }
    if (!count_axes_from_first(context->module, node, &loop)) return base_fail_memory(report);
    const int64_t trips = ir_loop_extent(&loop);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (!node->outputs[i]) continue;
        if (i >= loop.carried && op_dtype_is_packed(body->results[1 + i]->value->type.dtype))
            return base_fail_unsupported(report,
                                         "output %u: slices of %s, which share bytes, cannot be stacked", i,
                                         op_dtype_name(body->results[1 + i]->value->type.dtype));
        op_type type = i < loop.carried ? body->parameters[2 + i]->type : body->results[1 + i]->value->type;
        if (i >= loop.carried &&
            !insert_axis(&type.shape, ir_loop_stack(&loop, i - loop.carried).axis, trips)) {
            return base_fail(report, BASE_INVALID, "output %u would have more than %d dimensions", i,
                             OP_MAX_RANK);
        }
        if (i < loop.carried) grow_type(&loop, i, trips, &type);
        type.layout = OP_LAYOUT_ROW_MAJOR;
        node->outputs[i]->type = type;
    }
    return BASE_OK;
}

/* ---- everything else ----------------------------------------------------------------------------------- */

/* The node may never run: it is in a branch. */
static bool is_conditional(const ir_node *node) {
    for (const ir_graph *graph = node->graph; graph->owner; graph = graph->owner->graph) {
        if (graph->owner->code == OP_IF) return true;
    }
    return false;
}

/* Types without shapes, for a node that cannot run with the shapes that it is given: models guard such nodes
 * with an If, and only if it runs all the same it is an error. */
static base_status infer_without_shapes(op_call *call, base_report *report) {
    op_tensor *inputs = BASE_ARRAY(call->arena, op_tensor, call->input_count);
    if (!inputs) return base_fail_memory(report);
    for (uint32_t i = 0; i < call->input_count; i++) {
        inputs[i].type = call->inputs[i].type;
        inputs[i].type.shape = (op_shape){.rank = -1};
    }
    call->inputs = inputs;
    return op_infer(call, report);
}

static base_status infer_node(pass_context *context, ir_node *node) {
    ir_module *module = context->module;
    op_call call;
    if (!ir_node_call(node, &module->arena, &call)) return base_fail_memory(context->report);
    ir_node_context(node, context->report);
    base_status status;
    if (is_conditional(node)) {
        base_report ignored = {0};
        status = op_infer(&call, &ignored);
        if (status != BASE_OK) status = infer_without_shapes(&call, context->report);
    } else {
        status = op_infer(&call, context->report);
    }
    if (status != BASE_OK) return status;
    for (uint32_t i = 0; i < node->output_count; i++) {
        ir_value *output = node->outputs[i];
        if (!output) continue;
        op_layout layout = output->type.layout; /* chosen by a later pass */
        output->type = call.outputs[i].type;
        if (node->code != OP_REORDER && layout != OP_LAYOUT_ROW_MAJOR) output->type.layout = layout;
        output->symbolic = call.outputs[i].symbolic;
    }
    return BASE_OK;
}

static base_status infer_graph(pass_context *context, ir_graph *graph) {
    base_status first = BASE_OK;
    for (ir_node *node = graph->first; node; node = node->next) {
        /* What a node that failed would have made is not known: reporting its users too would only bury it.
         */
        bool known = true;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const ir_value *input = ir_input(node, i);
            known &= !input || input->type.dtype != OP_NONE || input->type.kind != OP_KIND_TENSOR;
        }
        if (!known && first != BASE_OK) continue;
        base_status status = node->code == OP_IF     ? infer_if(context, node)
                             : node->code == OP_LOOP ? infer_loop(context, node)
                                                     : infer_node(context, node);
        if (first == BASE_OK) first = status;
        if (status == BASE_SYSTEM_ERROR) return status;
    }
    return first;
}

static const char *symbol_of_module(const void *user, uint64_t number) {
    const ir_module *module = user;
    return number < module->symbol_count ? module->symbols[number].name : NULL;
}

/* ---- declared shapes ----------------------------------------------------------------------------------- */

static bool says_more(const op_shape *declared, const op_shape *slice) {
    if (declared->rank < 0 || slice->rank < 0) return declared->rank >= 0;
    if (declared->rank != slice->rank) return false; /* a wrong declaration */
    for (int32_t d = 0; d < slice->rank; d++)
        if (slice->dims[d] < 0 && declared->dims[d] >= 0) return true;
    return false;
}

/* What is declared of slices goes where it says nothing that is not known now, when all types are known. */
static base_status forget_declared(pass_context *context) {
    ir_module *module = context->module;
    for (size_t n = 1; n < module->node_count; n++) {
        ir_node *node = module->nodes[n];
        ir_loop loop;
        if (!node || !ir_loop_read(node, &loop) ||
            !op_attribute_find(&node->attributes, "ouro.scan_output_shapes"))
            continue;
        op_shape *shapes = BASE_ARRAY(context->scratch, op_shape, loop.stacked);
        if (!shapes) return base_fail_memory(context->report);
        for (uint32_t i = 0; i < loop.stacked; i++) {
            shapes[i] = ir_loop_declared(&loop, i);
            if (!says_more(&shapes[i], &ir_loop_stack(&loop, i).slice->type.shape)) shapes[i].rank = -1;
        }
        if (!ir_loop_declare(module, node, loop.stacked, shapes)) return base_fail_memory(context->report);
    }
    return BASE_OK;
}

base_status pass_infer_shapes(pass_context *context) {
    base_report *report = context->report;
    const size_t before = report ? report->length : 0;
    base_status status = infer_graph(context, context->module->main);
    if (status == BASE_OK) status = forget_declared(context);
    if (status != BASE_OK && report && before < report->length) {
        /* Shape functions know symbols by number only. */
        op_symbols_named(report->text + before, sizeof report->text - before, symbol_of_module,
                         context->module);
        report->length = strlen(report->text);
    }
    base_report_context(context->report, NULL);
    return status;
}

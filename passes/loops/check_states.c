/* SPDX-License-Identifier: Apache-2.0 */
/* check_states.c: a state is what its input and its output say: one type.
 *
 * Where the output has an extent that the input leaves open, the input has it, too: a symbolic dimension of this name is that
 * everywhere. So a model may give states of a batch of 1 and take those of any.
 *
 * Needs: types. Breaks: nothing; types are inferred anew where inputs have become more certain. Guarantees: parameter and result
 * of each state have one type, of a size that is known.
 */
#include "ir/loop.h"
#include "ir/operators/symbol_text.h"
#include "passes/graph/graph.h"
#include "passes/loops/loops.h"

/* ---- what follows for the inputs ------------------------------------------------------------------------- */

/* A symbolic dimension is this extent, wherever it stands. */
static void fix_symbol(ir_module *module, int64_t symbol, int64_t extent) {
    for (size_t i = 1; i < module->value_count; i++) {
        ir_value *value = module->values[i];
        for (int32_t d = 0; value && d < value->type.shape.rank; d++)
            if (value->type.shape.dims[d] == symbol) value->type.shape.dims[d] = extent;
    }
}

/* What the result knows and the parameter does not, but for the axis along which it grows: true where there was something. */
static bool adopt(ir_module *module, const ir_loop_carried *state, int32_t except) {
    op_shape *held = &state->parameter->type.shape;
    const op_shape *made = &state->replacement->type.shape;
    bool changed = false;
    for (int32_t d = 0; held->rank == made->rank && d < held->rank; d++) {
        const int64_t dim = held->dims[d];
        if (dim >= 0 || made->dims[d] < 0 || d == except) continue;
        if (dim == OP_DIM_UNKNOWN) held->dims[d] = made->dims[d];
        else fix_symbol(module, dim, made->dims[d]);
        changed = true;
    }
    return changed;
}

/* The extents can be the same, but along one axis: where both are known they are. */
static bool may_fit(const op_shape *a, const op_shape *b, int32_t except) {
    if (a->rank < 0 || b->rank < 0) return true;
    for (int32_t d = 0; a->rank == b->rank && d < a->rank; d++)
        if (d != except && a->dims[d] >= 0 && b->dims[d] >= 0 && a->dims[d] != b->dims[d]) return false;
    return a->rank == b->rank;
}

/* Result `index` of the graph as a tensor of this type, which has a size: the run looks, for a Reshape to that size fails where it is
 * another one. Of an If, the branches whose types do not say it look: the others make it where it is to be. */
static bool expect_size(ir_module *module, ir_graph *graph, uint32_t index, const op_type *type) {
    ir_value *made = graph->results[index]->value;
    size_t bytes;
    if (op_type_bytes(&made->type, &bytes)) return true;
    if (made->graph == graph && made->node && made->node->code == OP_IF) {
        for (uint32_t g = 0; g < made->node->graph_count; g++)
            if (!expect_size(module, made->node->graphs[g], made->index, type)) return false;
        made->type = *type;
        return true;
    }
    const op_type vector = {.dtype = OP_INT64, .shape = {1, {type->shape.rank}}};
    const op_attributes none = {0};
    ir_value *shape = ir_constant_copy(module, "shape", &vector, type->shape.dims,
                                       (size_t)type->shape.rank * sizeof *type->shape.dims);
    const char *path = graph->last ? graph->last->path : "main";
    ir_node *node =
        shape ? ir_node_new(graph, NULL, OP_RESHAPE, "", path, none, 2, (ir_value *[]){made, shape}) : NULL;
    ir_value *sized = node ? ir_node_add_output(node, made->name, type) : NULL;
    if (sized) ir_graph_set_result(graph, index, sized);
    return sized != NULL;
}

/* The results of branches that have a size have this one. */
static bool branches_fit(const ir_value *made, const op_type *type) {
    size_t bytes;
    if (op_type_bytes(&made->type, &bytes)) return may_fit(&made->type.shape, &type->shape, -1);
    bool fit = true;
    for (uint32_t g = 0; made->node && made->node->code == OP_IF && g < made->node->graph_count; g++)
        fit = fit && branches_fit(made->node->graphs[g]->results[made->index]->value, type);
    return fit;
}

/* Where the model cannot tell what comes out (of branches that differ), but its input has a size. */
static bool may_expect_size(const ir_module *module, const ir_loop_carried *state, uint32_t index) {
    const op_type *held = &state->parameter->type, *made = &state->replacement->type;
    size_t bytes;
    return op_type_bytes(held, &bytes) && !op_type_bytes(made, &bytes) && made->kind == OP_KIND_TENSOR &&
           held->kind == OP_KIND_TENSOR && made->dtype == held->dtype && module->states[index].axis < 0 &&
           may_fit(&held->shape, &made->shape, -1) && branches_fit(state->replacement, held);
}

/* ---- do they fit? ---------------------------------------------------------------------------------------- */

static const char *symbol_name(const void *user, uint64_t number) {
    const ir_module *module = user;
    return number < module->symbol_count ? module->symbols[number].name : NULL;
}

static base_status check(pass_context *context, const ir_loop_carried *state, uint32_t index) {
    const ir_state *how = &context->module->states[index];
    const op_type *held = &state->parameter->type, *made = &state->replacement->type;
    const char *input = state->parameter->name, *output = ir_graph_result_name(context->module->main, index);
    char texts[2][256];
    size_t bytes;
    base_report_context(context->report, "%s", context->module->name);
    op_symbols_named(op_type_print(held, texts[0], sizeof texts[0]), sizeof texts[0], symbol_name,
                     context->module);
    op_symbols_named(op_type_print(made, texts[1], sizeof texts[1]), sizeof texts[1], symbol_name,
                     context->module);
    if (held->kind != OP_KIND_TENSOR || made->kind != OP_KIND_TENSOR || held->dtype == OP_STRING)
        return base_fail(context->report, BASE_INVALID,
                         "output '%s' is %s and input '%s' is %s: a state is a tensor of numbers", output,
                         texts[1], input, texts[0]);
    if (held->dtype != made->dtype || !may_fit(&held->shape, &made->shape, how->axis) ||
        (how->axis >= 0 && held->shape.dims[how->axis] >= 0))
        return base_fail(context->report, BASE_INVALID,
                         "output '%s' is %s: it cannot be carried into input '%s', which is %s", output,
                         texts[1], input, texts[0]);
    if (op_type_bytes(held, &bytes) == op_type_bytes(made, &bytes) && held->shape.rank >= 0 &&
        made->shape.rank >= 0)
        return BASE_OK;
    return base_fail(
        context->report, BASE_INVALID,
        "output '%s' is %s and input '%s' is %s: nobody can tell whether the state fits (--dim NAME=N, "
        "--shape)",
        output, texts[1], input, texts[0]);
}

/* The most positions of a state that grows. */
static int64_t bound_of(const ir_module *module, const op_shape *shape, int32_t axis) {
    const int64_t dim = axis >= 0 && axis < shape->rank ? shape->dims[axis] : 0;
    return dim < 0 && dim > -(int64_t)module->symbol_count ? module->symbols[-dim].bound : 0;
}

base_status pass_check_states(pass_context *context) {
    ir_module *module = context->module;
    if (!module->run) return BASE_OK;
    base_status status = pass_infer_shapes(context); /* of what has been folded since */
    if (status != BASE_OK) return status;
    const ir_loop run = ir_loop_of(module->run);
    for (uint32_t i = 0; i < run.carried; i++) {
        ir_loop_growth growth;
        if (ir_loop_grows(&run, i, &growth)) module->states[i].axis = growth.axis;
    }
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < run.carried; i++) {
            const ir_loop_carried state = ir_loop_carry(&run, i);
            changed |= adopt(module, &state, module->states[i].axis);
        }
        status = changed ? pass_infer_shapes(context) : BASE_OK;
        if (status != BASE_OK) return status;
    }
    for (uint32_t i = 0; i < run.carried; i++) {
        const ir_loop_carried found = ir_loop_carry(&run, i);
        if (may_expect_size(module, &found, i) &&
            !expect_size(module, module->main, i, &found.parameter->type))
            return base_fail_memory(context->report);
        const ir_loop_carried state = ir_loop_carry(&run, i);
        status = check(context, &state, i);
        if (status != BASE_OK) return status;
        /* What the first run begins with is of that type too. */
        state.initial->type = state.parameter->type;
        module->states[i].bound = bound_of(module, &state.parameter->type.shape, module->states[i].axis);
    }
    base_report_context(context->report, NULL);
    return BASE_OK;
}

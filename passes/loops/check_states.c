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

/* What the result knows and the parameter does not: true where there was something. */
static bool adopt(ir_module *module, const ir_loop_carried *state) {
    op_shape *held = &state->parameter->type.shape;
    const op_shape *made = &state->replacement->type.shape;
    bool changed = false;
    for (int32_t d = 0; held->rank == made->rank && d < held->rank; d++) {
        const int64_t dim = held->dims[d];
        if (dim >= 0 || made->dims[d] < 0) continue;
        if (dim == OP_DIM_UNKNOWN) held->dims[d] = made->dims[d];
        else fix_symbol(module, dim, made->dims[d]);
        changed = true;
    }
    return changed;
}

/* ---- do they fit? ---------------------------------------------------------------------------------------- */

/* The extents can be the same: where both are known they are. */
static bool may_fit(const op_shape *a, const op_shape *b) {
    if (a->rank < 0 || b->rank < 0) return true;
    for (int32_t d = 0; a->rank == b->rank && d < a->rank; d++)
        if (a->dims[d] >= 0 && b->dims[d] >= 0 && a->dims[d] != b->dims[d]) return false;
    return a->rank == b->rank;
}

static base_status check(pass_context *context, const ir_loop_carried *state, uint32_t index) {
    const op_type *held = &state->parameter->type, *made = &state->replacement->type;
    const char *input = state->parameter->name, *output = ir_graph_result_name(context->module->main, index);
    char texts[2][256];
    size_t bytes;
    base_report_context(context->report, "%s", context->module->name);
    (void)op_type_print(held, texts[0], sizeof texts[0]);
    (void)op_type_print(made, texts[1], sizeof texts[1]);
    if (held->kind != OP_KIND_TENSOR || made->kind != OP_KIND_TENSOR || held->dtype == OP_STRING)
        return base_fail(context->report, BASE_INVALID,
                         "output '%s' is %s and input '%s' is %s: a state is a tensor of numbers", output,
                         texts[1], input, texts[0]);
    if (held->dtype != made->dtype || !may_fit(&held->shape, &made->shape))
        return base_fail(context->report, BASE_INVALID,
                         "output '%s' is %s: it cannot be carried into input '%s', which is %s", output,
                         texts[1], input, texts[0]);
    if (op_type_bytes(held, &bytes) && op_type_bytes(made, &bytes)) return BASE_OK;
    return base_fail(
        context->report, BASE_INVALID,
        "output '%s' is %s and input '%s' is %s: the size of a state must be known (--dim NAME=N)", output,
        texts[1], input, texts[0]);
}

base_status pass_check_states(pass_context *context) {
    if (!context->module->run) return BASE_OK;
    const ir_loop run = ir_loop_of(context->module->run);
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < run.carried; i++) {
            const ir_loop_carried state = ir_loop_carry(&run, i);
            changed |= adopt(context->module, &state);
        }
        base_status status = changed ? pass_infer_shapes(context) : BASE_OK;
        if (status != BASE_OK) return status;
    }
    for (uint32_t i = 0; i < run.carried; i++) {
        const ir_loop_carried state = ir_loop_carry(&run, i);
        base_status status = check(context, &state, i);
        if (status != BASE_OK) return status;
        /* What the first run begins with is of that type too. */
        state.initial->type = state.parameter->type;
    }
    base_report_context(context->report, NULL);
    return BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* check_constants.c: what would certainly fail when it runs is refused now.
 *
 *     %y = Gather(%x, 7)         where %x has 5 rows: error, with the node's name
 *     %v, %i = TopK(%x, -1)      error
 *
 * Kernels of operators that check what they are given (OP_FLAG_CHECKED) run on the constants, with zeros in place of the
 * data that is not known. Only nodes that run whenever the model does are looked at: those of the main graph, and of bodies of
 * loops in it that certainly run at least once. A branch or another body may never run, and models rely on that; there the
 * run tells.
 *
 * Needs: types, no dead nodes. Breaks: nothing. Guarantees: nothing that later passes build on.
 */
#include "passes/graph/graph.h"
#include "ir/loop.h"
#include "ir/operators/indices.h"
#include <inttypes.h>
#include <string.h>

/* Bytes of operands, above which the run tells. */
static const size_t largest_checked = (size_t)1 << 26;

/* The inputs that such an operator looks at, from *first up to *end; the others are data. False: none is certain. */
static bool find_checked_inputs(const ir_node *node, uint32_t *first, uint32_t *end) {
    if (op_index_inputs(node->code, first, end)) return node->input_count >= *end;
    switch (node->code) {
    case OP_ONE_HOT:
    case OP_TOP_K:
    case OP_CUM_SUM:
    case OP_CUM_PROD:
    case OP_REVERSE_SEQUENCE:
    case OP_MAX_UNPOOL:
    case OP_MAX_ROI_POOL:
    case OP_ROI_ALIGN:
    case OP_COL2IM:
        *first = 1;
        *end = node->input_count;
        return true;
    case OP_MEL_WEIGHT_MATRIX:
    case OP_STFT:
        *first = node->code == OP_STFT;
        *end = node->input_count;
        return true;
    default:
        return false;
    }
}

static bool are_constant(const ir_node *node, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && !input->constant) return false;
    }
    return true;
}

/* Zeros for the inputs whose values are not known. False: sizes are not known, or too large; *status where memory ran out. */
static bool fill_inputs(op_call *call, base_arena *arena, base_status *status) {
    op_tensor *inputs = BASE_ARRAY(arena, op_tensor, call->input_count);
    size_t total = 0, bytes;
    if (!inputs) return *status = BASE_SYSTEM_ERROR, false;
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const bool input = i < call->input_count;
        const op_tensor *operand = input ? &call->inputs[i] : &call->outputs[i - call->input_count];
        if (input) inputs[i] = *operand;
        if (operand->type.dtype == OP_NONE) continue;
        if (operand->type.kind != OP_KIND_TENSOR || operand->type.dtype == OP_STRING ||
            operand->type.layout != OP_LAYOUT_ROW_MAJOR || !op_type_bytes(&operand->type, &bytes) ||
            !base_size_add(total, bytes, &total) || total > largest_checked)
            return false;
        if (!input || operand->data) continue;
        inputs[i].data = base_arena_alloc(arena, bytes, 1);
        inputs[i].bytes = bytes;
        if (!inputs[i].data) return *status = BASE_SYSTEM_ERROR, false;
    }
    call->inputs = inputs;
    return true;
}

/* A negative number of elements, of which no output has as many. */
static base_status check_count(pass_context *context, const ir_node *node, const op_call *call) {
    int64_t k;
    if (node->code != OP_TOP_K || call->inputs[1].type.dtype != OP_INT64 || !call->inputs[1].data)
        return BASE_OK;
    memcpy(&k, call->inputs[1].data, sizeof k);
    if (k >= 0) return BASE_OK;
    ir_node_context(node, context->report);
    return base_fail(context->report, BASE_INVALID, "k is %" PRId64 ", expected 0 or more", k);
}

static base_status check_node(pass_context *context, const ir_node *node, base_arena *arena) {
    uint32_t first, end;
    op_call call;
    base_report ignored = {0};
    base_status status = BASE_OK;
    if (!find_checked_inputs(node, &first, &end) || !are_constant(node, first, end)) return BASE_OK;
    if (!ir_node_call(node, arena, &call)) return base_fail_memory(context->report);
    if (op_infer(&call, &ignored) != BASE_OK) return BASE_OK; /* that is told elsewhere */
    status = check_count(context, node, &call);
    if (status != BASE_OK) return status;
    if (!fill_inputs(&call, arena, &status))
        return status == BASE_OK ? BASE_OK : base_fail_memory(context->report);
    if (!rt_kernel_select(&call, &(rt_environment){.threads = 1, .portable_only = true})) return BASE_OK;
    ir_node_context(node, context->report);
    return rt_kernel_evaluate(&call, &context->options->environment, arena, context->report);
}

/* Whenever the model runs. */
static bool certainly_runs(const ir_module *module, const ir_graph *graph) {
    while (graph != module->main) {
        ir_loop loop;
        if (!ir_loop_around(graph, &loop) || ir_loop_trips(&loop) < 1) return false;
        graph = loop.node->graph;
    }
    return true;
}

base_status pass_check_constants(pass_context *context) {
    const ir_module *module = context->module;
    base_status first = BASE_OK;
    for (size_t n = 1; n < module->node_count && first != BASE_SYSTEM_ERROR; n++) {
        const ir_node *node = module->nodes[n];
        if (!node || !certainly_runs(module, node->graph)) continue;
        base_arena arena;
        base_arena_init(&arena, context->scratch->allocator);
        const base_status status = check_node(context, node, &arena);
        base_arena_free(&arena);
        if (status != BASE_OK && (first == BASE_OK || status == BASE_SYSTEM_ERROR)) first = status;
    }
    base_report_context(context->report, NULL);
    return first;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* select_kernels.c: each node gets the kernel that will run it, and the scratch that this kernel needs.
 *
 * The first kernel that accepts the application as it stands is taken (oneDNN's before the portable one); it
 * is prepared once to learn its scratch. Nodes whose shapes are not known before the run get the first kernel
 * that accepts any shape, or some; their scratch is known when they run. So is that of nodes whose result has a size that
 * depends on data.
 *
 * Needs: types, final layouts, no dead nodes. Breaks: nothing. Guarantees: ir_node.kernel and ir_node.scratch_bytes: every node but control
 * nodes and those on sequences and optionals has a kernel.
 */
#include "passes/layout/layout.h"
#include <string.h>

bool pass_shapes_known(const ir_node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && !op_shape_known(&input->type.shape)) return false;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] && !op_shape_known(&node->outputs[i]->type.shape)) return false;
    }
    return true;
}

static base_status select_kernel(pass_context *context, ir_node *node, base_arena *arena) {
    base_report *report = context->report;
    const rt_environment *environment = &context->options->environment;
    op_call call;
    if (!ir_node_call(node, arena, &call)) return base_fail_memory(report);
    ir_node_context(node, report);
    const rt_kernel *kernel = rt_kernel_select(&call, environment);
    if (!kernel) {
        /* What lies in blocks has a kernel for some extents. */
        op_call example = call;
        if (pass_example_layouts(&example, arena)) kernel = rt_kernel_select(&example, environment);
    }
    if (!kernel) {
        char text[128] = "nothing";
        if (call.input_count) op_type_print(&call.inputs[0].type, text, sizeof text);
        return base_fail(report, BASE_INVALID,
                         "there is no kernel for it on %s; `ouro ops` lists what is supported", text);
    }
    node->kernel = kernel->name;
    node->scratch_bytes = 0;
    if ((op_schema_of(node->code)->flags & OP_FLAG_DYNAMIC) || !pass_shapes_known(node)) return BASE_OK;
    rt_prepared prepared;
    base_status status = rt_kernel_prepare(kernel, &call, environment, arena, &prepared, report);
    if (status == BASE_OK) node->scratch_bytes = prepared.scratch_bytes;
    rt_kernel_release(&prepared);
    return status;
}

bool pass_can_run(const pass_context *context, ir_node *node, base_arena *arena) {
    base_report own = {0};
    pass_context asking = *context;
    asking.report = &own;
    return select_kernel(&asking, node, arena) == BASE_OK;
}

base_status pass_select_kernels(pass_context *context) {
    const ir_module *module = context->module;
    base_status first = BASE_OK;
    base_arena arena;
    base_arena_init(&arena, context->scratch->allocator);
    for (size_t n = 1; n < module->node_count && first != BASE_SYSTEM_ERROR; n++) {
        ir_node *node = module->nodes[n];
        if (!node || (op_schema_of(node->code)->flags & OP_FLAG_GRAPHS) || ir_node_has_lists(node)) continue;
        base_status status = select_kernel(context, node, &arena);
        if (first == BASE_OK) first = status;
        base_arena_free(&arena);
    }
    base_report_context(context->report, NULL);
    return first;
}

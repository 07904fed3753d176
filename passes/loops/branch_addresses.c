/* SPDX-License-Identifier: Apache-2.0 */
/* branch_addresses.c: implements branch_addresses.h. */
#include "passes/loops/branch_addresses.h"
#include "ir/operators/range.h"

/* The storage is one of its own in the region of a graph: no buffer of a loop or of sub-graphs, nothing that is swapped. */
static bool is_plain(const pass_storage *storage) {
    return !storage->carried_by && !storage->carried_again && !storage->swapped && !storage->swap_view &&
           !storage->buffer_of && !storage->scratch_of;
}

/* Nothing is written there from the step of the branch node on, as long as somebody reads it: constants, the caller's inputs, and
 * storages that hold only what nodes before it have made. (What runs in place has been decided already.) */
static bool stays(const pass_context *context, const ir_node *branch, pass_location at) {
    const pass_memory *memory = context->memory;
    const pass_storage *storage = pass_memory_storage(memory, at.storage);
    if (storage->space == MEMORY_CONSTANT || storage->space == MEMORY_INPUT) return true;
    if ((storage->space != MEMORY_ARENA && storage->space != MEMORY_OUTPUT) || !is_plain(storage) ||
        !ir_graph_encloses(storage->graph, branch->graph))
        return false;
    const int64_t now = pass_step_in(storage->graph, branch, memory->order.numbers);
    for (ir_value_id v = storage->values; v.index; v = memory->siblings[v.index]) {
        const ir_value *value = context->module->values[v.index];
        if (value && (value->graph != storage->graph || value->kind != IR_RESULT_OF_NODE ||
                      memory->order.numbers[value->node->id.index] >= now))
            return false;
    }
    return true;
}

/* The Copy that a branch ends with, of a value that stays where it is; NULL: it makes this result otherwise. */
static const ir_node *find_copy(const pass_context *context, const ir_node *branch, const ir_graph *graph,
                                uint32_t index) {
    const ir_value *result = graph->results[index]->value;
    const ir_node *copy = result->node;
    if (!copy || copy->code != OP_COPY || copy->graph != graph || result->uses->next ||
        context->memory->executions[copy->id.index] != PASS_RUN)
        return NULL;
    const ir_value *from = ir_input(copy, 0);
    return op_same_form(&from->type, &result->type) &&
                   stays(context, branch, pass_memory_location(context->memory, from))
               ? copy
               : NULL;
}

/* Only operators of the same graph read the output, and its storage holds nothing but it and the two copies. */
static bool is_only_read(const pass_context *context, const ir_value *output,
                         const ir_node *const copies[2]) {
    const pass_memory *memory = context->memory;
    const pass_location at = pass_memory_location(memory, output);
    const pass_storage *storage = pass_memory_storage(memory, at.storage);
    size_t bytes;
    if (!output->uses || at.offset || storage->space != MEMORY_ARENA || !is_plain(storage) ||
        storage->graph != output->graph || !op_type_bytes(&output->type, &bytes) || bytes != storage->bytes)
        return false;
    for (ir_value_id v = storage->values; v.index; v = memory->siblings[v.index]) {
        const ir_value *value = context->module->values[v.index];
        if (value && value != output && value != copies[0]->outputs[0] && value != copies[1]->outputs[0])
            return false;
    }
    for (const ir_use *use = output->uses; use; use = use->next)
        if (!use->node || use->node->graph != output->graph || use->node->graph_count ||
            memory->executions[use->node->id.index] != PASS_RUN)
            return false;
    return true;
}

static bool choose_address(pass_context *context, const ir_node *branch, uint32_t index) {
    pass_memory *memory = context->memory;
    const ir_value *output = branch->outputs[index];
    const ir_node *copies[2];
    pass_multiview view = {.loop = branch, .repeat = 2};
    for (uint32_t g = 0; g < 2; g++) {
        copies[g] = find_copy(context, branch, branch->graphs[g], index);
        if (!copies[g] || pass_memory_location(memory, copies[g]->outputs[0]).storage.index !=
                              pass_memory_location(memory, output).storage.index)
            return true;
    }
    if (!is_only_read(context, output, copies)) return true;
    view.entries = BASE_ARRAY(memory->arena, pass_location, 2);
    if (!view.entries) return false;
    for (uint32_t g = 0; g < 2; g++) {
        view.entries[g] = pass_memory_location(memory, ir_input(copies[g], 0));
        memory->executions[copies[g]->id.index] = PASS_ALIAS;
    }
    const uint32_t number = pass_memory_add_multiview(memory, &view);
    pass_storage *storage = pass_memory_storage(memory, pass_memory_location(memory, output).storage);
    storage->space = MEMORY_MULTIVIEW;
    storage->index = number;
    return number != 0;
}

bool loop_choose_branch_addresses(pass_context *context) {
    const ir_module *module = context->module;
    for (size_t n = 1; n < module->node_count; n++) {
        const ir_node *node = module->nodes[n];
        if (!node || node->code != OP_IF || node->graph_count != 2) continue; /* it is there no more */
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] && !choose_address(context, node, i)) return false;
    }
    return true;
}

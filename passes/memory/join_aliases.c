/* SPDX-License-Identifier: Apache-2.0 */
/* join_aliases.c: which values are bytes of one storage, so that nothing need be executed to make one from
 * the other.
 *
 *     %t = Reshape(%x, ...)            %t is the bytes of %x
 *     %s = Slice(%x, 1, 3, 0)          %s is a sub-range of %x
 *     %l, %r = Split(%x)               so are these
 *     %c = Concat(%a, %b)              %a and %b are made where %c lies: sub-ranges of %c
 *
 * and which are bound to a place that another owner decides: results of main lie in the caller's buffers,
 * results of a branch in the outputs of its If, a carried parameter in the output of its Loop.
 *
 * A value is joined to another only while it is free: its storage stands for itself, is in the arena, and
 * holds nothing but the bytes in question. Places decided from outside come first, then the Concats in the
 * schedule's reverse (an outer Concat decides where the inner one lies), then what only reads. A part of a
 * Concat that cannot lie in it (a constant, the caller's input, a part of another) is copied there by a Copy
 * node, if at least one other part can, or if the Concat makes a sliding window that moves through a longer
 * buffer (passes/loops/windows.h); otherwise the Concat runs. A view that cannot be one runs as well: as
 * a copy.
 *
 * Ranges are counted in bytes of the layout: a range of an axis is contiguous if all axes that lie outside of
 * it in memory have extent 1. Channels in blocks are the outermost axis of an image, and ranges of whole
 * blocks are ranges.
 *
 * Needs: types, layouts, kernels; results have bytes of their own. Breaks: nothing: Copies that it puts in have types, kernels
 * and readers. Guarantees: context->memory with storages, locations and executions.
 */
#include "ir/loop.h"
#include "passes/base/range.h"
#include "passes/loops/windows.h"
#include "passes/memory/memory.h"
#include <string.h>

/* ---- what may be joined ------------------------------------------------------------------------------------------ */

/* A transposition that moves only axes of extent 1. */
static bool transposes_nothing(const ir_node *node) {
    const op_shape *shape = &ir_input(node, 0)->type.shape;
    size_t count;
    const int64_t *order = op_attribute_integers(&node->attributes, "perm", &count);
    int64_t last = -1;
    if (shape->rank < 0 || (order && count != (size_t)shape->rank)) return false;
    for (int32_t d = 0; d < shape->rank; d++) {
        int64_t from = order ? order[d] : shape->rank - 1 - d;
        if (from < 0 || from >= shape->rank) return false;
        if (shape->dims[from] == 1) continue;
        if (from < last) return false;
        last = from;
    }
    return true;
}

/* ---- joining ------------------------------------------------------------------------------------------- */

typedef struct analysis {
    ir_module *module;
    pass_memory *memory;
} analysis;

/* The value's storage holds exactly the value, can be anywhere in the arena, and belongs to the value's
 * graph. */
static bool is_free(const analysis *a, const ir_value *value) {
    pass_location location = pass_memory_location(a->memory, value);
    const pass_storage *storage = pass_memory_storage(a->memory, location.storage);
    size_t bytes;
    return location.offset == 0 && storage->space == MEMORY_ARENA && storage->graph == value->graph &&
           op_type_bytes(&value->type, &bytes) && bytes == storage->bytes && value->kind == IR_RESULT_OF_NODE;
}

static bool is_static(const ir_value *value) {
    size_t bytes;
    return op_type_bytes(&value->type, &bytes);
}

/* `inner` becomes bytes [offset, ...) of `outer`, if it is free. */
static bool put_into(const analysis *a, const ir_value *inner, const ir_value *outer, size_t offset) {
    if (!is_static(inner) || !is_static(outer) || !is_free(a, inner)) return false;
    pass_location whole = pass_memory_location(a->memory, outer),
                  part = pass_memory_location(a->memory, inner);
    if (whole.storage.index == part.storage.index) return false;
    pass_memory_join(a->memory, whole.storage, part.storage, whole.offset + offset);
    return true;
}

/* A result of a loop's body. */
static bool is_handed_on(const ir_value *value) {
    if (!value->graph || !value->graph->owner || value->graph->owner->code != OP_LOOP) return false;
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (!use->node && use->graph == value->graph) return true;
    }
    return false;
}

/* The storage of `value` is that of a parameter of `graph`. At the end of an iteration the results are handed
 * on one after another: a result that is a view of a parameter would change with it. */
static bool holds_parameter(const analysis *a, const ir_value *value, const ir_graph *graph) {
    pass_storage_id storage = pass_memory_location(a->memory, value).storage;
    for (uint32_t i = 0; i < graph->parameter_count; i++) {
        if (pass_memory_location(a->memory, graph->parameters[i]).storage.index == storage.index) return true;
    }
    return false;
}

/* As bytes of `input` the result `output` would change while results are handed on. */
static bool changes_under(const analysis *a, const ir_value *input, const ir_value *output) {
    return is_handed_on(output) && holds_parameter(a, input, output->graph);
}

/* output is bytes [offset, ...) of input: the output goes into the input's storage, or, where it is bound and
 * is all of the input, the other way round. */
static bool view(const analysis *a, const ir_value *input, const ir_value *output, size_t offset) {
    if (changes_under(a, input, output)) return false;
    if (put_into(a, output, input, offset)) return true;
    size_t in, out;
    if (offset || !op_type_bytes(&input->type, &in) || !op_type_bytes(&output->type, &out) || in != out)
        return false;
    /* The bound place must be one that the input's node may write: of the same graph or an enclosing one. */
    const pass_storage *place =
        pass_memory_storage(a->memory, pass_memory_location(a->memory, output).storage);
    if (place->space != MEMORY_ARENA && place->space != MEMORY_OUTPUT) return false;
    return input->graph == output->graph && put_into(a, input, output, 0);
}

/* ---- places decided from outside ----------------------------------------------------------------------- */

static bool bind_graph(const analysis *a, const ir_graph *graph) {
    ir_node *owner = graph->owner;
    if (graph == a->module->main) {
        const uint32_t states = ir_module_states(a->module);
        for (uint32_t i = states; i < graph->parameter_count; i++) {
            pass_location location = pass_memory_location(a->memory, graph->parameters[i]);
            pass_storage *storage = pass_memory_storage(a->memory, location.storage);
            if (storage->space != MEMORY_ARENA) continue;
            storage->space = MEMORY_INPUT;
            storage->index = i - states;
        }
        for (uint32_t i = states; i < graph->result_count; i++) {
            pass_location location = pass_memory_location(a->memory, graph->results[i]->value);
            pass_storage *storage = pass_memory_storage(a->memory, location.storage);
            if (storage->space != MEMORY_ARENA) continue;
            storage->space = MEMORY_OUTPUT;
            storage->index = i - states;
        }
    } else if (owner->code == OP_IF) {
        for (uint32_t i = 0; i < graph->result_count && i < owner->output_count; i++) {
            if (owner->outputs[i]) (void)put_into(a, graph->results[i]->value, owner->outputs[i], 0);
        }
    }
    return true;
}

/* ---- Concat -------------------------------------------------------------------------------------------- */

/* Input i already lies where the Concat wants it. */
static bool lies_at(const analysis *a, const ir_value *part, const ir_value *whole, size_t offset) {
    pass_location at = pass_memory_location(a->memory, part), in = pass_memory_location(a->memory, whole);
    return at.storage.index == in.storage.index && at.offset == in.offset + offset;
}

/* The ranges of a Concat's inputs, or of a Split's outputs; *ranges NULL: they are none. */
static base_status find_ranges(pass_context *context, const ir_node *node, op_range **ranges) {
    op_call call;
    const uint32_t count = node->code == OP_SPLIT ? node->output_count : node->input_count;
    *ranges = BASE_ARRAY(context->scratch, op_range, count);
    if (!*ranges || !ir_node_call(node, context->scratch, &call)) return base_fail_memory(context->report);
    if (!op_ranges_of_parts(&call, *ranges)) *ranges = NULL;
    return BASE_OK;
}

static base_status join_concat(pass_context *context, const analysis *a, ir_node *node) {
    const ir_value *whole = node->outputs[0];
    op_range *parts;
    base_status status = find_ranges(context, node, &parts);
    if (status != BASE_OK || !parts) return status;
    bool *there = BASE_ARRAY(context->scratch, bool, node->input_count);
    if (!there) return base_fail_memory(context->report);
    uint32_t joined = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *from = node->inputs[i]->value;
        there[i] = parts[i].bytes == 0 || lies_at(a, from, whole, parts[i].offset) ||
                   (from->graph == node->graph && put_into(a, from, whole, parts[i].offset));
        joined += there[i];
    }
    if (joined == 0 && !loop_may_be_window(node)) return BASE_OK;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (there[i]) continue;
        ir_value *copied = pass_copy(node->graph, node, node->inputs[i]->value, node, PASS_COPY_PART);
        if (!copied || !pass_memory_extend(a->memory, a->module)) return base_fail_memory(context->report);
        (void)ir_node_set_input(node, i, copied); /* the slot exists */
        if (!put_into(a, copied, whole, parts[i].offset)) {
            return base_fail(context->report, BASE_INVALID, "join-aliases: a copy cannot be placed");
        }
    }
    a->memory->executions[node->id.index] = PASS_ALIAS;
    return BASE_OK;
}

/* ---- what only reads ----------------------------------------------------------------------------------- */

/* All outputs of a Split, or none. */
static base_status join_parts(pass_context *context, const analysis *a, const ir_node *node, bool *all) {
    const ir_value *input = ir_input(node, 0);
    op_range *parts;
    base_status status = find_ranges(context, node, &parts);
    *all = parts != NULL;
    for (uint32_t i = 0; i < node->output_count && *all; i++) /* first look */
        *all = is_free(a, node->outputs[i]) && !changes_under(a, input, node->outputs[i]);
    for (uint32_t i = 0; i < node->output_count && *all; i++)
        *all = put_into(a, node->outputs[i], input, parts[i].offset);
    return status;
}

static base_status join_views(pass_context *context, const analysis *a, const ir_node *node) {
    const op_schema *row = op_schema_of(node->code);
    const ir_value *input = ir_input(node, 0);
    if (!input || node->output_count == 0) return BASE_OK;
    base_status status = BASE_OK;
    bool all = false;
    op_range part;
    if (row->view == OP_VIEW_SAME || node->code == OP_REORDER ||
        (row->view == OP_VIEW_TRANSPOSE && transposes_nothing(node))) {
        const ir_value *output = node->outputs[0];
        all = output && op_same_bytes(&input->type, &output->type) && view(a, input, output, 0);
    } else if (row->view == OP_VIEW_SLICE) {
        const ir_value *output = node->outputs[0];
        all = output && pass_range_of_slice(node, &part) && view(a, input, output, part.offset);
    } else if (row->view == OP_VIEW_SPLIT) {
        status = join_parts(context, a, node, &all);
    }
    if (all) a->memory->executions[node->id.index] = PASS_ALIAS;
    return status;
}

/* A state lies neither in a buffer of the caller nor in a part of one: these are others in the next run. */
static base_status keep_states_apart(pass_context *context, const analysis *a) {
    ir_graph *main = a->module->main;
    for (uint32_t i = 0; i < ir_module_states(a->module); i++) {
        ir_value *value = main->results[i]->value;
        const pass_storage *storage =
            pass_memory_storage(a->memory, pass_memory_location(a->memory, value).storage);
        if (storage->space != MEMORY_OUTPUT && storage->space != MEMORY_INPUT) continue;
        ir_value *copied = pass_copy(main, NULL, value, NULL, PASS_COPY_RESULT);
        if (!copied || !pass_memory_extend(a->memory, a->module)) return base_fail_memory(context->report);
        ir_graph_set_result(main, i, copied);
    }
    return BASE_OK;
}

base_status pass_join_aliases(pass_context *context) {
    ir_module *module = context->module;
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(module, context->scratch, &graph_count);
    pass_memory *memory = pass_memory_new(module, context->memory_arena);
    if (!graphs || !memory) return base_fail_memory(context->report);
    context->memory = memory;
    analysis a = {module, memory};
    for (size_t g = 0; g < graph_count; g++) (void)bind_graph(&a, graphs[g]);
    for (size_t g = 0; g < graph_count; g++) {
        for (ir_node *node = graphs[g]->last; node; node = node->previous) {
            if (op_schema_of(node->code)->view != OP_VIEW_CONCAT) continue;
            base_status status = join_concat(context, &a, node);
            if (status != BASE_OK) return status;
        }
    }
    for (size_t g = 0; g < graph_count; g++) {
        for (const ir_node *node = graphs[g]->first; node; node = node->next) {
            base_status status = join_views(context, &a, node);
            if (status != BASE_OK) return status;
        }
    }
    return keep_states_apart(context, &a);
}

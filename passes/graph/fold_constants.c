/* SPDX-License-Identifier: Apache-2.0 */
/* fold_constants.c: what can be computed at compile time is, and what does nothing goes.
 *
 *     %s = Shape(%x)  %d = Gather(%s, 0)           =>   constants, where %x has static extents
 *     %w = ConstantOfShape(%shape)                 =>   a constant: weights are written this way
 *     %y = Identity(%x)                            =>   %x
 *     %y = If(true) {...} {...}                    =>   the nodes of the branch
 *     %y = ScatterND(%x, indices, %u)              =>   fewer indices, of slices (shorten_indices.c)
 *     %t = Where(Equal(%s, -1), 1, %s)             =>   the shape without -1 (expand_shapes.c)
 *
 * Nodes run on portable kernels. Results above LARGEST_RESULT stay nodes, and so do those of unknown size whose
 * inputs have more than LARGEST_MEASURED elements: a file of a few bytes must not demand more memory than the
 * machine has. A node that fails stays too (it will fail when it runs, if it runs).
 *
 * Needs: types. Breaks: nothing but that somebody reads every node. Guarantees: no node that could be computed with the
 * types known so far remains, and no If whose condition follows from what other Ifs were decided to. Types of what depends on the
 * new constants may become better known: infer-shapes again.
 */
#include "passes/graph/graph.h"
#include <string.h>

static const size_t largest_result = (size_t)1 << 31;
/* Elements of an input of a node whose result's size is not known beforehand. */
static const int64_t largest_measured = (int64_t)1 << 20;

typedef struct folder {
    pass_context *context;
    ir_module *module;
    base_arena arena; /* of one evaluation */
    bool decided;     /* an If became the nodes of its branch */
} folder;

/* ---- evaluation ---------------------------------------------------------------------------------------- */

static bool all_constant(const ir_node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && !input->constant) return false;
    }
    return true;
}

/* Constants with memory for the outputs; false: they are not all known, too large, or memory ran out. */
static bool reserve_outputs(folder *f, const ir_node *node, op_call *call, ir_value **constants) {
    size_t total = 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        op_tensor *output = &call->outputs[i];
        size_t bytes;
        if (!node->outputs[i]) continue;
        if (!op_type_bytes(&output->type, &bytes) || !base_size_add(total, bytes, &total) ||
            total > largest_result) {
            return false;
        }
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        op_tensor *output = &call->outputs[i];
        if (!node->outputs[i]) continue;
        (void)op_type_bytes(&output->type, &output->bytes);
        constants[i] = ir_constant_reserve(f->module, node->outputs[i]->name, &output->type, output->bytes,
                                           &output->data);
        if (!constants[i]) return false;
    }
    return true;
}

/* Results whose sizes are not known before they are there, and texts, whose characters are copied with them. */
static bool evaluate_apart(folder *f, ir_node *node, op_call *call) {
    const rt_environment *environment = &f->context->options->environment;
    base_report ignored = {0};
    for (uint32_t i = 0; i < call->input_count; i++) {
        int64_t elements = 0;
        if (call->inputs[i].type.dtype == OP_NONE) continue;
        if (!op_shape_elements(&call->inputs[i].type.shape, &elements) || elements > largest_measured)
            return false;
    }
    ir_value **constants = BASE_ARRAY(&f->arena, ir_value *, node->output_count);
    bool done = constants && rt_kernel_evaluate(call, environment, &f->arena, &ignored) == BASE_OK;
    for (uint32_t i = 0; i < node->output_count && done; i++) {
        const op_tensor *output = &call->outputs[i];
        if (!node->outputs[i]) continue;
        constants[i] =
            ir_constant_copy(f->module, node->outputs[i]->name, &output->type, output->data, output->bytes);
        done = constants[i] != NULL;
    }
    for (uint32_t i = 0; constants && i < node->output_count; i++) {
        if (!constants[i]) continue;
        if (done) ir_value_replace(node->outputs[i], constants[i]);
        else ir_constant_remove(f->module, constants[i]);
    }
    return done;
}

static bool evaluate(folder *f, ir_node *node) {
    op_call call;
    base_report ignored = {0};
    if (!ir_node_call(node, &f->arena, &call) || op_infer(&call, &ignored) != BASE_OK) return false;
    if (op_schema_of(node->code)->flags & OP_FLAG_LISTS) return false;
    bool measured = op_schema_of(node->code)->flags & OP_FLAG_DYNAMIC;
    for (uint32_t i = 0; i < call.output_count; i++) measured |= call.outputs[i].type.dtype == OP_STRING;
    if (measured) return evaluate_apart(f, node, &call);
    ir_value **constants = BASE_ARRAY(&f->arena, ir_value *, node->output_count);
    bool done = constants && reserve_outputs(f, node, &call, constants) &&
                rt_kernel_evaluate(&call, &f->context->options->environment, &f->arena, &ignored) == BASE_OK;
    for (uint32_t i = 0; constants && i < node->output_count; i++) {
        if (!constants[i]) continue;
        if (done) ir_value_replace(node->outputs[i], constants[i]);
        else ir_constant_remove(f->module, constants[i]);
    }
    return done;
}

/* An output whose values shape inference knows, all of them. */
static bool fold_known_values(folder *f, ir_node *node) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        const ir_value *output = node->outputs[i];
        int64_t count;
        if (!output || !output->uses) continue;
        if (!output->symbolic || output->type.dtype != OP_INT64 ||
            !op_shape_elements(&output->type.shape, &count))
            return false;
        for (int64_t k = 0; k < count; k++) {
            if (output->symbolic[k] < 0) return false;
        }
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        ir_value *output = node->outputs[i];
        size_t bytes;
        if (!output || !output->uses || !op_type_bytes(&output->type, &bytes)) continue;
        ir_value *constant =
            ir_constant_copy(f->module, output->name, &output->type, output->symbolic, bytes);
        if (!constant) return false;
        ir_value_replace(output, constant);
    }
    return true;
}

/* ---- what does nothing --------------------------------------------------------------------------------- */

/* Of the same extents in every run, whether they are numbers or symbols. */
static bool same_type(const ir_value *a, const ir_value *b) {
    return op_shape_same(&a->type.shape, &b->type.shape) && a->type.dtype == b->type.dtype &&
           a->type.layout == b->type.layout;
}

static bool steps_are_one(const ir_node *node) {
    const ir_value *steps = ir_input(node, 4);
    if (!steps) return true;
    if (!steps->constant) return false;
    op_call call = {.input_count = 1, .inputs = &steps->constant->tensor};
    int64_t count = 0, step;
    (void)op_shape_elements(&steps->type.shape, &count);
    for (int64_t i = 0; i < count; i++) {
        if (!op_input_integer(&call, 0, i, &step) || step != 1) return false;
    }
    return true;
}

static bool order_is_kept(const ir_node *node) {
    size_t count;
    const int64_t *order = op_attribute_integers(&node->attributes, "perm", &count);
    if (!order) return node->outputs[0]->type.shape.rank <= 1 && node->outputs[0]->type.shape.rank >= 0;
    for (size_t i = 0; i < count; i++) {
        if (order[i] != (int64_t)i) return false;
    }
    return true;
}

/* A Resize to the extents that are there, which it is told as such, or as scales of 1. */
static bool extents_are_kept(const ir_node *node) {
    const ir_value *scales = ir_input(node, 2), *sizes = ir_input(node, 3);
    int64_t count;
    if (!pass_resize_keeps_places(node)) return false;
    if (sizes) return true;
    if (!scales || !scales->constant || !scales->constant->tensor.data || scales->type.dtype != OP_FLOAT ||
        !op_shape_elements(&scales->type.shape, &count))
        return false;
    for (int64_t i = 0; i < count; i++)
        if (((const float *)scales->constant->tensor.data)[i] != 1) return false;
    return true;
}

/* The value that the only output of the node always equals; NULL: none. */
static ir_value *same_as(const ir_node *node) {
    ir_value *input = ir_input(node, 0), *output = node->output_count == 1 ? node->outputs[0] : NULL;
    if (!input || !output) return NULL;
    switch (node->code) {
    case OP_IDENTITY:
        return input;
    case OP_TRANSPOSE:
        return order_is_kept(node) ? input : NULL;
    case OP_CONCAT:
        return node->input_count == 1 ? input : NULL;
    case OP_RESIZE:
        return same_type(input, output) && extents_are_kept(node) ? input : NULL;
    case OP_SLICE:
        return same_type(input, output) && steps_are_one(node) ? input : NULL;
    case OP_RESHAPE:
    case OP_FLATTEN:
    case OP_SQUEEZE:
    case OP_UNSQUEEZE:
    case OP_EXPAND:
    case OP_TILE:
    case OP_CAST:
        return same_type(input, output) ? input : NULL;
    default:
        return NULL;
    }
}

/* Reshapes of reshapes read the first. */
static void skip_reshape(ir_node *node) {
    if (node->code != OP_RESHAPE && node->code != OP_FLATTEN) return;
    const ir_value *input = ir_input(node, 0);
    const ir_node *before = input ? input->node : NULL;
    if (!before || before->graph != node->graph || !op_shape_known(&node->outputs[0]->type.shape)) return;
    if (before->code != OP_RESHAPE && before->code != OP_FLATTEN && before->code != OP_SQUEEZE &&
        before->code != OP_UNSQUEEZE) {
        return;
    }
    /* A Reshape that copies extents (0) or a Flatten depends on the shape that it reads. */
    if (node->code == OP_FLATTEN) return;
    const ir_value *shape = ir_input(node, 1);
    if (!shape || !shape->constant) return;
    op_call call = {.input_count = 1, .inputs = &shape->constant->tensor};
    int64_t extent, count = 0;
    (void)op_shape_elements(&shape->type.shape, &count);
    for (int64_t i = 0; i < count; i++) {
        if (!op_input_integer(&call, 0, i, &extent) || extent == 0) return;
    }
    if (ir_input(before, 0)->type.layout == input->type.layout)
        (void)ir_node_set_input(node, 0, ir_input(before, 0));
}

/* ---- control ------------------------------------------------------------------------------------------- */

/* An If whose condition is known becomes the nodes of its branch. */
static bool inline_branch(ir_node *node) {
    const ir_value *condition = ir_input(node, 0);
    if (!condition || !condition->constant || !condition->constant->tensor.data) return false;
    ir_graph *branch = node->graphs[*(const unsigned char *)condition->constant->tensor.data ? 0 : 1];
    while (branch->first) ir_node_relocate(branch->first, node->graph, node);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i]) ir_value_replace(node->outputs[i], branch->results[i]->value);
    }
    return true;
}

static base_status fold_graph(folder *f, ir_graph *graph) {
    for (ir_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        unsigned flags = op_schema_of(node->code)->flags;
        bool gone = false;
        if (flags & OP_FLAG_GRAPHS) {
            ir_node *before = node->previous;
            if (node->code == OP_IF && inline_branch(node)) {
                gone = f->decided = true;
                next = before ? before->next : graph->first; /* what was put here has not been looked at */
                if (next == node) next = node->next;
            } else {
                for (uint32_t i = 0; i < node->graph_count; i++) {
                    base_status status = fold_graph(f, node->graphs[i]);
                    if (status != BASE_OK) return status;
                }
            }
        } else if (!(flags & OP_FLAG_EFFECT)) {
            ir_value *same = same_as(node);
            if (same) {
                ir_value_replace(node->outputs[0], same);
                gone = true;
            } else {
                gone = all_constant(node) ? evaluate(f, node) : fold_known_values(f, node);
                base_arena_free(&f->arena);
                if (!gone) skip_reshape(node);
                base_status status = gone ? BASE_OK : pass_shorten_indices(f->context, node);
                if (status == BASE_OK && !gone) status = pass_expand_shape(f->context, node);
                if (status != BASE_OK) return status;
            }
        }
        if (gone) ir_node_remove(node);
    }
    return BASE_OK;
}

base_status pass_fold_constants(pass_context *context) {
    folder f = {.context = context, .module = context->module};
    base_arena_init(&f.arena, context->scratch->allocator);
    base_status status = fold_graph(&f, context->module->main);
    /* What was known of the results of an If is what both branches have in common. Now it is all of one: of its rank, perhaps, that
     * the next If asks for. */
    while (status == BASE_OK && f.decided) {
        f.decided = false;
        status = pass_infer_shapes(context);
        if (status == BASE_OK) status = fold_graph(&f, context->module->main);
    }
    base_arena_free(&f.arena);
    return status;
}

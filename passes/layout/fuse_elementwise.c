/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_elementwise.c: trees of elementwise operators become one node, which works in blocks.
 *
 *     %t = Mul(%x, %a)  %u = Add(%t, %b)  %y = Tanh(%u)
 *  => %y = ouro.Fused(%x, %a, %b) {steps = ["Mul 0 1", "Add 3 2", "Tanh 4"], to = 1}
 *
 * What is made within is no tensor any more: it takes no memory, and is not written and read again. Every step gives the bits
 * that it gave as a node. All that is made within has the shape and the layout of the result; inputs may be broadcast.
 *
 * A node is taken in if only the tree reads what it makes, so that it can run as late as the tree's last node. It then keeps
 * what it reads for longer, which must not cost memory. One of these holds:
 *   - what it reads and nothing else of the tree reads takes no more bytes than what it makes. Constants and what the caller or
 *     an enclosing graph holds do not count: they are there anyway;
 *   - or all else that the tree reads comes from values that the node itself depends on: then the tree can run as early as
 *     the node, with nothing in between.
 * What an input comes from is found by going back over elementwise operators and aliases.
 *
 * Of dynamic dimensions it is enough that they have names, and that these are equal: the node is prepared for their extents when it runs.
 *
 * Needs: types, layouts; no dead nodes. Breaks: nothing. Guarantees: values stay what they were, bit by bit.
 */
#include "ir/operators/fused.h"
#include "passes/layout/layout.h"
#include <string.h>

/* Smaller tensors are not worth it, and counters and indices stay what passes look for. */
enum { LEAST_ELEMENTS = 16, MOST_STEPS_BACK = 512 };

typedef struct tree {
    ir_node *nodes[OP_FUSED_STEPS]; /* the root first */
    uint32_t count;
    ir_value *inputs[OP_FUSED_INPUTS];
    uint32_t input_count;
} tree;

typedef struct fuser {
    pass_context *context;
    ir_module *module;
    base_arena arena;
    int64_t *numbers;  /* by node id: its number in its graph */
    uint32_t *visits;  /* by node id: the last search that came by */
    size_t node_count; /* of both */
    uint32_t visit;
    bool out_of_memory;
} fuser;

/* ---- what can be a step -------------------------------------------------------------------------------- */

/* The step that the node would be, its operands aside. False where it cannot be written down: scales along an axis, or an
 * attribute that no step has. */
static bool describe(const ir_node *node, op_fused_step *step) {
    const bool scaled = node->code == OP_QUANTIZE_LINEAR || node->code == OP_DEQUANTIZE_LINEAR;
    *step = (op_fused_step){.code = node->code, .operand_count = node->input_count};
    if (node->input_count > OP_FUSED_OPERANDS) return false;
    for (uint32_t i = 1; i < node->input_count && scaled; i++) {
        const ir_value *input = ir_input(node, i);
        int64_t elements;
        if (input && (!op_shape_elements(&input->type.shape, &elements) || elements != 1)) return false;
    }
    for (size_t i = 0; i < node->attributes.count; i++) {
        const op_attribute *attribute = &node->attributes.items[i];
        if (scaled && strcmp(attribute->name, "axis") == 0) continue;
        if (step->attribute_count == OP_FUSED_ATTRIBUTES) return false;
        step->attributes[step->attribute_count++] = *attribute;
    }
    char text[OP_FUSED_TEXT];
    return op_fused_print(step, text);
}

/* A result of this type is worth it. Of dynamic dimensions, integers are mostly indices. */
static bool is_large(const op_type *type) {
    int64_t elements;
    if (op_shape_known(&type->shape))
        return op_shape_elements(&type->shape, &elements) && elements >= LEAST_ELEMENTS;
    const bool whole = type->dtype == OP_INT16 || type->dtype == OP_UINT16 || type->dtype == OP_INT32 ||
                       type->dtype == OP_UINT32 || type->dtype == OP_INT64 || type->dtype == OP_UINT64;
    return op_shape_named(&type->shape) && !whole;
}

static bool is_step(const ir_node *node) {
    if (!op_is_fusible(node->code) || node->output_count != 1 || !node->outputs[0]) return false;
    const op_type *type = &node->outputs[0]->type;
    if (!is_large(type)) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && (input->type.kind != OP_KIND_TENSOR || input->type.dtype == OP_STRING ||
                      op_dtype_bytes(input->type.dtype) == 0 || !op_shape_named(&input->type.shape)))
            return false;
    }
    op_fused_step step;
    return type->dtype != OP_STRING && op_dtype_bytes(type->dtype) > 0 && describe(node, &step);
}

static bool is_same_form(const op_type *a, const op_type *b) {
    return a->layout == b->layout && op_shape_equal(&a->shape, &b->shape);
}

static bool contains(const tree *of, const ir_node *node) {
    for (uint32_t i = 0; i < of->count; i++) {
        if (of->nodes[i] == node) return true;
    }
    return false;
}

static bool reads(const tree *of, const ir_value *value) {
    for (uint32_t i = 0; i < of->input_count; i++) {
        if (of->inputs[i] == value) return true;
    }
    return false;
}

/* Only nodes of the tree read the value. */
static bool is_within(const tree *of, const ir_value *value) {
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (!use->node || !contains(of, use->node)) return false;
    }
    return true;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* It takes no memory of the arena that the graph could use for something else. */
static bool is_there_anyway(const ir_value *value, const ir_graph *graph) {
    return value->kind == IR_CONSTANT || value->graph != graph ||
           (value->kind == IR_PARAMETER && !graph->owner);
}

/* The node that the value comes from: back over elementwise operators and aliases. NULL: no node of this graph. */
static const ir_node *source_of(const ir_value *value, const ir_graph *graph) {
    for (int steps = 0; steps < MOST_STEPS_BACK; steps++) {
        const ir_node *node = value->node;
        if (!node || node->graph != graph) return NULL;
        const bool alias = op_schema_of(node->code)->view != OP_VIEW_NONE && node->code != OP_CONCAT;
        if ((!alias && !op_is_fusible(node->code)) || !ir_input(node, 0)) return node;
        /* Of several operands it comes from the one that is made last; the others were there before. */
        const ir_value *last = NULL;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const ir_value *input = ir_input(node, i);
            if (!input || !input->node || input->node->graph != graph) continue;
            if (last) return node;
            last = input;
        }
        if (!last) return NULL;
        value = last;
    }
    return value->node;
}

/* `node` reads, directly or through others of its graph, what `source` makes. */
static bool depends_on(fuser *f, const ir_node *node, const ir_node *source, int *left) {
    if (node == source) return true;
    if (--*left < 0 || f->numbers[node->id.index] <= f->numbers[source->id.index]) return false;
    f->visits[node->id.index] = f->visit;
    if (node->graph_count) return false; /* captures are not looked at */
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (!input || !input->node || input->node->graph != node->graph ||
            input->node->id.index >= f->node_count || f->visits[input->node->id.index] == f->visit)
            continue;
        if (depends_on(f, input->node, source, left)) return true;
    }
    return false;
}

/* All that the tree reads, but for what `node` makes, is there when the node could run first. */
static bool may_run_early(fuser *f, const tree *of, const ir_node *node) {
    for (uint32_t i = 0; i < of->input_count; i++) {
        const ir_value *input = of->inputs[i];
        if (input == node->outputs[0] || is_there_anyway(input, node->graph)) continue;
        const ir_node *source = source_of(input, node->graph);
        int left = MOST_STEPS_BACK;
        f->visit++;
        if (source && !depends_on(f, node, source, &left)) return false;
    }
    return true;
}

/* What the tree would keep for longer takes no more than what is no longer made. Where that is open: it is one value with elements as small, of
 * which there are no more, as it is broadcast to what is made. */
static bool keeps_no_more(const tree *of, const ir_node *node) {
    size_t made = 0, kept = 0, bytes;
    const op_type *result = &node->outputs[0]->type;
    const bool open = !op_shape_known(&result->shape);
    uint32_t values = 0;
    if (!open && !op_type_bytes(result, &made)) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        bool again = false;
        for (uint32_t k = 0; k < i; k++) again |= ir_input(node, k) == input;
        if (!input || again || reads(of, input) || is_there_anyway(input, node->graph)) continue;
        if (open) {
            if (values++ || op_dtype_bytes(input->type.dtype) > op_dtype_bytes(result->dtype)) return false;
        } else if (!op_type_bytes(&input->type, &bytes) || !base_size_add(kept, bytes, &kept)) return false;
    }
    return kept <= made;
}

/* ---- growing a tree ------------------------------------------------------------------------------------ */

/* The inputs once `node` is taken in too. False where they are too many. */
static bool join_inputs(const tree *of, const ir_node *node, tree *joined) {
    *joined = *of;
    joined->nodes[joined->count++] = (ir_node *)node;
    joined->input_count = 0;
    for (uint32_t n = 0; n < joined->count; n++) {
        for (uint32_t i = 0; i < joined->nodes[n]->input_count; i++) {
            ir_value *input = ir_input(joined->nodes[n], i);
            if (!input || reads(joined, input) || (input->node && contains(joined, input->node))) continue;
            if (joined->input_count == OP_FUSED_INPUTS) return false;
            joined->inputs[joined->input_count++] = input;
        }
    }
    return true;
}

static bool take_in(fuser *f, tree *of, ir_value *value) {
    const ir_node *root = of->nodes[0];
    ir_node *node = value->node;
    tree joined;
    if (!node || node->graph != root->graph || of->count == OP_FUSED_STEPS || !is_step(node)) return false;
    if (!is_same_form(&value->type, &root->outputs[0]->type) || !is_within(of, value)) return false;
    if (!keeps_no_more(of, node) && !may_run_early(f, of, node)) return false;
    if (!join_inputs(of, node, &joined)) return false;
    *of = joined;
    return true;
}

/* ---- making the node ----------------------------------------------------------------------------------- */

/* In the order in which they run. */
static void sort_nodes(const fuser *f, tree *of) {
    for (uint32_t i = 1; i < of->count; i++) {
        ir_node *node = of->nodes[i];
        uint32_t at = i;
        for (; at > 0 && f->numbers[of->nodes[at - 1]->id.index] > f->numbers[node->id.index]; at--)
            of->nodes[at] = of->nodes[at - 1];
        of->nodes[at] = node;
    }
}

static int32_t number_of(const tree *of, const ir_value *value) {
    if (!value) return -1;
    for (uint32_t i = 0; i < of->input_count; i++) {
        if (of->inputs[i] == value) return (int32_t)i;
    }
    for (uint32_t i = 0; i < of->count; i++) {
        if (of->nodes[i]->outputs[0] == value) return (int32_t)(of->input_count + i);
    }
    return -1;
}

static bool describe_steps(fuser *f, const tree *of, op_string *steps) {
    for (uint32_t i = 0; i < of->count; i++) {
        const ir_node *node = of->nodes[i];
        op_fused_step step;
        char *text = BASE_ARRAY(&f->arena, char, OP_FUSED_TEXT);
        if (!text) f->out_of_memory = true;
        if (!text || !describe(node, &step)) return false;
        for (uint32_t k = 0; k < node->input_count; k++) step.operands[k] = number_of(of, ir_input(node, k));
        if (!op_fused_print(&step, text)) return false;
        steps[i] = (op_string){text, strlen(text)};
    }
    return true;
}

static bool has_kernel(fuser *f, const tree *of, const op_attributes *attributes, const ir_value *result) {
    op_tensor inputs[OP_FUSED_INPUTS] = {0}, made = {.type = result->type};
    for (uint32_t i = 0; i < of->input_count; i++) {
        const ir_value *input = of->inputs[i];
        inputs[i] = input->constant ? input->constant->tensor : (op_tensor){.type = input->type};
        inputs[i].type = input->type;
    }
    op_call call = {.code = OP_FUSED,
                    .attributes = *attributes,
                    .input_count = of->input_count,
                    .output_count = 1,
                    .inputs = inputs,
                    .outputs = &made};
    if (!op_shape_known(&result->type.shape) && !pass_example_extents(&call, &f->arena)) return false;
    return rt_kernel_select(&call, &f->context->options->environment) != NULL;
}

/* The last node of the tree becomes all of it. */
static void replace(fuser *f, tree *of) {
    op_string steps[OP_FUSED_STEPS];
    op_attributes attributes = {0};
    sort_nodes(f, of);
    ir_node *root = of->nodes[of->count - 1];
    if (!describe_steps(f, of, steps)) return;
    const op_attribute set[] = {
        {.name = "steps", .kind = OP_ATTRIBUTE_STRINGS, .count = of->count, .as.texts = steps},
        {.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = root->outputs[0]->type.dtype},
    };
    for (int i = 0; i < 2; i++) {
        if (!ir_attribute_set(f->module, &attributes, &set[i])) f->out_of_memory = true;
    }
    if (f->out_of_memory || !has_kernel(f, of, &attributes, root->outputs[0])) return;
    root->code = OP_FUSED;
    root->attributes = attributes;
    for (uint32_t i = 0; i < of->input_count; i++) {
        if (!ir_node_set_input(root, i, of->inputs[i])) f->out_of_memory = true;
    }
    while (root->input_count > of->input_count) ir_node_remove_input(root, root->input_count - 1);
    for (uint32_t i = of->count - 1; i-- > 0 && !f->out_of_memory;) ir_node_remove(of->nodes[i]);
}

static void fuse_tree(fuser *f, ir_node *root) {
    tree of = {.nodes = {root}, .count = 0};
    tree grown;
    if (!join_inputs(&of, root, &grown)) return;
    of = grown;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < of.input_count && !more; i++) more = take_in(f, &of, of.inputs[i]);
    }
    if (of.count > 1) replace(f, &of);
}

/* From the end to the beginning: each tree is as large as it may be. Nodes that were taken in are gone. */
static void fuse_graph(fuser *f, const ir_graph *graph) {
    int64_t number = 0;
    for (const ir_node *node = graph->first; node; node = node->next) f->numbers[node->id.index] = number++;
    for (ir_node *node = graph->last; node && !f->out_of_memory; node = node->previous) {
        if (is_step(node)) fuse_tree(f, node);
        base_arena_free(&f->arena);
    }
}

base_status pass_fuse_elementwise(pass_context *context) {
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &graph_count);
    fuser f = {.context = context, .module = context->module, .node_count = context->module->node_count};
    f.numbers = BASE_ARRAY(context->scratch, int64_t, f.node_count);
    f.visits = BASE_ARRAY(context->scratch, uint32_t, f.node_count);
    if (!graphs || !f.numbers || !f.visits) return base_fail_memory(context->report);
    base_arena_init(&f.arena, context->scratch->allocator);
    for (size_t g = 0; g < graph_count && !f.out_of_memory; g++) fuse_graph(&f, graphs[g]);
    base_arena_free(&f.arena);
    return f.out_of_memory ? base_fail_memory(context->report) : BASE_OK;
}

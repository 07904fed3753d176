/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.c: see tokens.h.
 *
 *     %y: [1,128,384] = MatMul(%x, %w)  %z: [1,128,384] = Relu(%y)
 *  => %r: [1,1,128,384] = Reshape(%x)  %y: [1,1,128,384] = MatMul(%r, %w)  %s: [1,1,128,384] = Relu(%y)  %z = Reshape(%s)
 *
 * The Reshapes are names for the same bytes.
 */
#include "passes/bands/tokens.h"
#include "passes/bands/row_maps.h"

enum { TOKENS_RANK = 3, LAST = TOKENS_RANK - 1 };

static bool is_tokens(const op_type *type) {
    return type->kind == OP_KIND_TENSOR && type->dtype == OP_FLOAT && type->layout == OP_LAYOUT_ROW_MAJOR &&
           type->shape.rank == TOKENS_RANK && op_shape_known(&type->shape) && type->shape.dims[0] > 0 &&
           type->shape.dims[1] > 1 && type->shape.dims[LAST] > 0;
}

static bool works_along_last(const ir_node *node, int64_t otherwise) {
    const int64_t axis = op_attribute_integer(&node->attributes, "axis", otherwise);
    return axis == -1 || axis == LAST;
}

static bool reduces_last(const ir_node *node) {
    const ir_value *axes = ir_input(node, 1);
    if (!axes || !axes->constant || axes->type.dtype != OP_INT64 || axes->type.shape.rank != 1 ||
        axes->type.shape.dims[0] != 1 || !op_attribute_integer(&node->attributes, "keepdims", 1))
        return false;
    const int64_t axis = *(const int64_t *)axes->constant->tensor.data;
    return axis == -1 || axis == LAST;
}

static bool is_product(const ir_node *node) {
    const ir_value *right = ir_input(node, 1);
    return right->constant && right->type.shape.rank == 2 &&
           !op_attribute_find(&node->attributes, "ouro.left");
}

static bool code_fits(const ir_node *node) {
    if (band_is_elementwise(node->code)) return true;
    if (node->code == OP_MATMUL) return is_product(node);
    if (node->code == OP_SOFTMAX) return works_along_last(node, -1);
    if (node->code == OP_RMS_NORMALIZATION) return works_along_last(node, -1);
    return band_is_reduction(node->code) && reduces_last(node);
}

/* The input has a row for each token. */
static bool has_tokens(const ir_node *node, uint32_t index) {
    const op_shape *own = &ir_input(node, index)->type.shape, *all = &node->outputs[0]->type.shape;
    return own->rank == TOKENS_RANK && own->dims[0] == all->dims[0] && own->dims[1] == all->dims[1];
}

static bool input_fits(const ir_node *node, uint32_t index) {
    const ir_value *input = ir_input(node, index);
    if (!input || (index == 1 && !band_is_elementwise(node->code))) return true;
    if (!op_shape_known(&input->type.shape)) return false;
    if (has_tokens(node, index)) return is_tokens(&input->type) && !input->constant;
    return input->type.shape.rank <= 1 && index > 0;
}

static bool is_by_token(const ir_node *node) {
    if (node->graph_count || node->output_count != 1 || !node->outputs[0] ||
        !is_tokens(&node->outputs[0]->type) || node->input_count == 0 || !ir_input(node, 0) ||
        !code_fits(node))
        return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (!input_fits(node, i)) return false;
    return has_tokens(node, 0);
}

/* ---- carried out --------------------------------------------------------------------------------------- */

static op_type as_rows(const op_type *tokens) {
    op_type rows = *tokens;
    rows.shape =
        (op_shape){.rank = BAND_AXIS + 2,
                   .dims = {1, 1, tokens->shape.dims[0] * tokens->shape.dims[1], tokens->shape.dims[LAST]}};
    return rows;
}

static ir_value *reshape(ir_value *value, const op_type *type, ir_node *before, const ir_node *origin) {
    ir_graph *graph = origin->graph;
    const op_type list = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {type->shape.rank}}};
    ir_value *shape = ir_constant_copy(graph->module, "rows", &list, type->shape.dims,
                                       (size_t)type->shape.rank * sizeof(int64_t));
    ir_value *inputs[] = {value, shape};
    ir_node *node = shape ? ir_node_new(graph, before, OP_RESHAPE, origin->name, origin->path,
                                        (op_attributes){0}, 2, inputs)
                          : NULL;
    return node ? ir_node_add_output(node, value->name, type) : NULL;
}

typedef struct converter {
    bool *chosen;    /* by node id */
    ir_value **rows; /* by value id: tokens from elsewhere, as rows */
    size_t node_count;
} converter;

static bool is_chosen(const converter *c, const ir_node *node) {
    return node && node->id.index < c->node_count && c->chosen[node->id.index];
}

static bool convert_inputs(const converter *c, ir_node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        ir_value *input = ir_input(node, i);
        if (!input || (input->kind == IR_RESULT_OF_NODE && is_chosen(c, input->node)) ||
            !has_tokens(node, i) || (i == 1 && !band_is_elementwise(node->code)))
            continue;
        ir_value **known = &c->rows[input->id.index];
        const op_type type = as_rows(&input->type);
        if (!*known) *known = reshape(input, &type, node, node);
        if (!*known || !ir_node_set_input(node, i, *known)) return false;
    }
    return true;
}

/* The last axis has another number among rows. */
static bool reduce_last_of_rows(ir_node *node) {
    const int64_t last = -1;
    ir_value *axes =
        ir_constant_copy(node->graph->module, "last", &ir_input(node, 1)->type, &last, sizeof last);
    return axes && ir_node_set_input(node, 1, axes);
}

/* Others read the tokens as they were. */
static bool convert_output(const converter *c, ir_node *node) {
    ir_value *output = node->outputs[0], *back = NULL;
    const op_type tokens = output->type;
    const op_attribute last = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = -1};
    if (op_attribute_find(&node->attributes, "axis") &&
        !ir_attribute_set(node->graph->module, &node->attributes, &last))
        return false;
    if (band_is_reduction(node->code) && !reduce_last_of_rows(node)) return false;
    output->type = as_rows(&tokens);
    for (bool changed = true; changed;) {
        changed = false;
        for (const ir_use *use = output->uses; use && !changed; use = use->next) {
            if (is_chosen(c, use->node) || (back && use->node == back->node)) continue;
            if (!back) back = reshape(output, &tokens, node->next, node);
            if (!back) return false;
            if (!use->node) ir_graph_set_result(use->graph, use->index, back);
            else if (!ir_node_set_input(use->node, use->index, back)) return false;
            changed = true;
        }
    }
    return true;
}

bool band_tokens_to_rows(ir_graph *graph) {
    const base_allocator *allocator = graph->module->arena.allocator;
    base_arena arena;
    base_arena_init(&arena, allocator);
    converter c = {.node_count = graph->module->node_count};
    c.chosen = BASE_ARRAY(&arena, bool, c.node_count);
    c.rows = BASE_ARRAY(&arena, ir_value *, graph->module->value_count);
    bool fine = c.chosen && c.rows;
    for (const ir_node *node = graph->first; node && fine; node = node->next)
        c.chosen[node->id.index] = is_by_token(node);
    for (ir_node *node = graph->first; node && fine; node = node->next)
        if (is_chosen(&c, node)) fine = convert_inputs(&c, node);
    for (ir_node *node = graph->first, *next; node && fine; node = next) {
        next = node->next;
        if (is_chosen(&c, node)) fine = convert_output(&c, node);
    }
    base_arena_free(&arena);
    return fine;
}

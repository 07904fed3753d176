/* SPDX-License-Identifier: Apache-2.0 */
/* heads.c: see heads.h.
 *
 *     %h: [1,128,12,32] = Reshape(%q)  %s: [1,12,128,128] = MatMul(%h, %k) {left = [0, 2, 1, 3]}
 *  => %q0, %q1, ...: [1,1,128,32] = Split(%q) {axis = 3}  %h: [1,12,128,32] = Concat(%q0, %q1, ...) {axis = 1}  %s = MatMul(%h, %k)
 *
 * and at the end
 *
 *     %t: [1,128,12,32] = Transpose(%h) {perm = [0, 2, 1, 3]}  %y = Reshape(%t)
 *  => %h0, %h1, ...: [1,1,128,32] = Split(%h) {axis = 1}  %y: [1,1,128,384] = Concat(%h0, %h1, ...) {axis = 3}
 *
 * Rows are tokens all the way, so that bands of queries can go from the product before the attention to the one after it. The scores are never
 * whole.
 */
#include "passes/bands/heads.h"
#include "passes/bands/row_maps.h"

enum { HEADS = 1, TOKENS = 2, WIDTH = 3, RANK = 4 };

static bool is_plain(const op_type *type, int32_t rank) {
    return type->kind == OP_KIND_TENSOR && type->dtype == OP_FLOAT && type->layout == OP_LAYOUT_ROW_MAJOR &&
           type->shape.rank == rank && op_shape_known(&type->shape);
}

/* Axes 1 and 2 change places. */
static bool swaps_heads(const ir_node *node, const char *name) {
    size_t count;
    const int64_t *order = op_attribute_integers(&node->attributes, name, &count);
    return order && count == RANK && order[0] == 0 && order[1] == TOKENS && order[2] == HEADS &&
           order[3] == WIDTH;
}

/* The bytes of `value`, as Reshapes before it name them: [1, 1, tokens, width of all heads]. NULL where none does and memory runs out. */
static ir_value *as_rows(ir_value *value, int64_t tokens, int64_t width, ir_node *before) {
    ir_value *from = value;
    for (;; from = ir_input(from->node, 0)) {
        const op_shape *shape = &from->type.shape;
        if (is_plain(&from->type, RANK) && shape->dims[0] == 1 && shape->dims[1] == 1 &&
            shape->dims[TOKENS] == tokens && shape->dims[WIDTH] == width)
            return from;
        if (from->kind != IR_RESULT_OF_NODE || from->node->code != OP_RESHAPE ||
            from->node->graph != before->graph)
            break;
    }
    op_type type = value->type;
    type.shape = (op_shape){.rank = RANK, .dims = {1, 1, tokens, width}};
    const op_type list = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {RANK}}};
    ir_value *shape =
        ir_constant_copy(before->graph->module, "rows", &list, type.shape.dims, RANK * sizeof(int64_t));
    ir_value *inputs[] = {value, shape};
    ir_node *node = shape ? ir_node_new(before->graph, before, OP_RESHAPE, before->name, before->path,
                                        (op_attributes){0}, 2, inputs)
                          : NULL;
    return node ? ir_node_add_output(node, value->name, &type) : NULL;
}

static ir_node *along(ir_node *before, op_code code, int64_t axis, uint32_t count, ir_value **inputs) {
    const op_attribute attribute = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = axis};
    op_attributes attributes = {0};
    if (!ir_attribute_set(before->graph->module, &attributes, &attribute)) return NULL;
    return ir_node_new(before->graph, before, code, before->name, before->path, attributes, count, inputs);
}

/* Equal parts of `whole` along one axis, side by side along another one. */
static ir_value *deal(ir_value *whole, int64_t parts, int64_t from, int64_t to, ir_node *before,
                      base_arena *arena) {
    ir_module *module = before->graph->module;
    const op_type list = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {parts}}};
    ir_value **all = BASE_ARRAY(arena, ir_value *, (size_t)parts);
    void *data = NULL;
    ir_value *sizes = ir_constant_reserve(module, "heads", &list, (size_t)parts * sizeof(int64_t), &data);
    if (!all || !sizes) return NULL;
    op_type part = whole->type, made = whole->type;
    part.shape.dims[from] /= parts;
    made.shape.dims[from] /= parts;
    made.shape.dims[to] *= parts;
    for (int64_t i = 0; i < parts; i++) ((int64_t *)data)[i] = part.shape.dims[from];
    ir_value *inputs[] = {whole, sizes};
    ir_node *split = along(before, OP_SPLIT, from, 2, inputs);
    for (int64_t i = 0; split && i < parts; i++)
        if (!(all[i] = ir_node_add_output(split, whole->name, &part))) return NULL;
    ir_node *concat = split ? along(before, OP_CONCAT, to, (uint32_t)parts, all) : NULL;
    return concat ? ir_node_add_output(concat, whole->name, &made) : NULL;
}

static bool has_many_heads(const op_shape *shape) {
    enum { MOST_HEADS = 64 };
    return shape->dims[0] == 1 && shape->dims[HEADS] > 1 && shape->dims[HEADS] <= MOST_HEADS &&
           shape->dims[TOKENS] > 1;
}

/* Names that nobody reads any more: between nodes that go by rows they would end a region. */
static void remove_unread(ir_value *value) {
    while (!value->uses && value->kind == IR_RESULT_OF_NODE &&
           (value->node->code == OP_RESHAPE || value->node->code == OP_TRANSPOSE)) {
        ir_node *node = value->node;
        value = ir_input(node, 0);
        ir_node_remove(node);
    }
}

/* The left operand of the product, [1, tokens, heads, width] read with heads before tokens: queries. *made becomes the node that makes them as
 * rows, where there are any. */
static bool take_queries(ir_node *product, base_arena *arena, ir_node **made) {
    ir_value *left = ir_input(product, 0);
    const bool folded = swaps_heads(product, "ouro.left");
    ir_node *transpose = !folded && left->kind == IR_RESULT_OF_NODE ? left->node : NULL;
    if (transpose && (transpose->code != OP_TRANSPOSE || transpose->graph != product->graph ||
                      !swaps_heads(transpose, "perm")))
        transpose = NULL;
    if (!folded && (!transpose || op_attribute_find(&product->attributes, "ouro.left"))) return true;
    ir_value *tokens = folded ? left : ir_input(transpose, 0);
    if (!is_plain(&tokens->type, RANK)) return true;
    const op_shape *shape = &tokens->type.shape; /* [1, tokens, heads, width] */
    const int64_t count = shape->dims[1], heads = shape->dims[2], width = shape->dims[WIDTH];
    if (shape->dims[0] != 1 || heads < 2 || heads > 64 || count < 2) return true;
    ir_value *rows = as_rows(tokens, count, heads * width, product);
    ir_value *dealt = rows ? deal(rows, heads, WIDTH, HEADS, product, arena) : NULL;
    if (rows && rows->kind == IR_RESULT_OF_NODE && rows->node->graph == product->graph) *made = rows->node;
    if (!dealt || !ir_node_set_input(product, 0, dealt) ||
        (folded && !ir_attribute_remove(product->graph->module, &product->attributes, "ouro.left")))
        return false;
    remove_unread(left);
    return true;
}

static bool reads_any(const ir_node *node, const bool *marked) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && input->kind == IR_RESULT_OF_NODE && marked[input->node->id.index]) return true;
    }
    return node->graph_count > 0 || (op_schema_of(node->code)->flags & OP_FLAG_EFFECT);
}

/* Keys and values are read as a whole, so they are made before the first of the nodes that go by rows. */
static bool make_others_first(ir_node *first, const ir_node *last, base_arena *arena) {
    bool *follows = BASE_ARRAY(arena, bool, first->graph->module->node_count);
    if (!follows) return false;
    follows[first->id.index] = true;
    for (ir_node *node = first->next, *next; node && node != last; node = next) {
        next = node->next;
        follows[node->id.index] = reads_any(node, follows);
        if (!follows[node->id.index]) ir_node_move(node, first);
    }
    return true;
}

/* What the heads made, put together by a Transpose and a Reshape. */
static bool put_together(ir_node *product, base_arena *arena) {
    ir_value *made = product->outputs[0];
    if (!is_plain(&made->type, RANK) || !has_many_heads(&made->type.shape)) return true;
    const ir_use *use = made->uses;
    ir_node *transpose = use && !use->next ? use->node : NULL;
    if (!transpose || transpose->code != OP_TRANSPOSE || transpose->graph != product->graph ||
        !swaps_heads(transpose, "perm"))
        return true;
    ir_value *tokens = transpose->outputs[0];
    const op_type type = tokens->type;
    ir_value *rows = deal(made, made->type.shape.dims[HEADS], HEADS, WIDTH, transpose, arena);
    if (!rows) return false;
    /* Reshapes that name these rows are gone; others name the same bytes. */
    for (bool changed = true; changed;) {
        changed = false;
        for (const ir_use *reader = tokens->uses; reader && !changed; reader = reader->next) {
            ir_node *reshape = reader->node;
            if (!reshape || reshape->code != OP_RESHAPE || reader->index != 0) continue;
            const ir_use *next = reshape->outputs[0]->uses;
            ir_node *second =
                next && !next->next && next->node && next->node->code == OP_RESHAPE ? next->node : NULL;
            if (op_shape_equal(&reshape->outputs[0]->type.shape, &rows->type.shape)) {
                ir_value_replace(reshape->outputs[0], rows);
                ir_node_remove(reshape);
            } else if (second && op_shape_equal(&second->outputs[0]->type.shape, &rows->type.shape)) {
                ir_value_replace(second->outputs[0], rows);
                ir_node_remove(second);
                ir_node_remove(reshape);
            } else if (!ir_node_set_input(reshape, 0, rows)) {
                return false;
            }
            changed = true;
        }
    }
    if (tokens->uses) {
        const op_type list = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {RANK}}};
        ir_value *shape = ir_constant_copy(product->graph->module, "tokens", &list, type.shape.dims,
                                           RANK * sizeof(int64_t));
        ir_value *inputs[] = {rows, shape};
        ir_node *node = shape ? ir_node_new(product->graph, transpose, OP_RESHAPE, transpose->name,
                                            transpose->path, (op_attributes){0}, 2, inputs)
                              : NULL;
        ir_value *named = node ? ir_node_add_output(node, tokens->name, &type) : NULL;
        if (!named) return false;
        ir_value_replace(tokens, named);
    }
    ir_node_remove(transpose);
    return true;
}

bool band_heads_by_tokens(ir_graph *graph, size_t least_bytes) {
    base_arena arena;
    base_arena_init(&arena, graph->module->arena.allocator);
    bool fine = true;
    ir_node *queries = NULL;
    for (ir_node *node = graph->first, *next; node && fine; node = next) {
        size_t scores;
        next = node->next;
        if (node->code != OP_MATMUL || !is_plain(&node->outputs[0]->type, RANK)) continue;
        if (op_type_bytes(&node->outputs[0]->type, &scores) && scores >= least_bytes)
            fine = take_queries(node, &arena, &queries);
        const op_type *left = &ir_input(node, 0)->type;
        if (fine && is_plain(left, RANK) && op_type_bytes(left, &scores) && scores >= least_bytes) {
            if (queries) fine = make_others_first(queries, node, &arena);
            queries = NULL;
            if (fine) fine = put_together(node, &arena);
            next = node->next;
        }
    }
    base_arena_free(&arena);
    return fine;
}

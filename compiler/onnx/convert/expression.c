/* SPDX-License-Identifier: Apache-2.0 */
/* expression.c: implements `expression.h`. */
#include "compiler/onnx/convert/expression.h"

static const op_attributes NONE = {0};

ir_value *expr_unary(const import_node *n, op_code code, ir_value *x) {
    return x ? import_make(n, code, NONE, 1, &x) : NULL;
}

ir_value *expr_binary(const import_node *n, op_code code, ir_value *x, ir_value *y) {
    ir_value *inputs[] = {x, y};
    return x && y ? import_make(n, code, NONE, 2, inputs) : NULL;
}

ir_value *expr_select(const import_node *n, ir_value *condition, ir_value *x, ir_value *y) {
    ir_value *inputs[] = {condition, x, y};
    return condition && x && y ? import_make(n, OP_WHERE, NONE, 3, inputs) : NULL;
}

ir_value *expr_with_integer(const import_node *n, op_code code, const char *name, int64_t value,
                            uint32_t count, ir_value *const *inputs) {
    op_attributes attributes = NONE;
    for (uint32_t i = 0; i < count; i++)
        if (!inputs[i]) return NULL;
    if (!import_attributes_add_integer(n, &attributes, name, value)) return NULL;
    return import_make(n, code, attributes, count, inputs);
}

ir_value *expr_number(const import_node *n, const ir_value *like, double value) {
    if (!like) return NULL;
    /* What has no type comes from a node that is wrong, which is told when shapes are inferred: till then any will do. */
    const op_dtype dtype = import_dtype_of(like);
    return import_constant_real(n, dtype == OP_NONE ? OP_FLOAT : dtype, value);
}

ir_value *expr_cast(const import_node *n, ir_value *x, op_dtype dtype) {
    return x && import_dtype_of(x) != dtype ? expr_with_integer(n, OP_CAST, "to", dtype, 1, &x) : x;
}

ir_value *expr_reduce(const import_node *n, op_code code, ir_value *x, size_t count, const int64_t *axes,
                      bool keep) {
    ir_value *inputs[] = {x, count ? import_constant_integers(n, count, axes) : NULL};
    if (!x || (count && !inputs[1])) return NULL;
    return expr_with_integer(n, code, "keepdims", keep, count ? 2 : 1, inputs);
}

ir_value *expr_vector(const import_node *n, int64_t value) {
    return import_constant_integers(n, 1, &value);
}

ir_value *expr_slice(const import_node *n, ir_value *x, int64_t axis, ir_value *start, ir_value *end) {
    ir_value *inputs[] = {x, start, end, expr_vector(n, axis)};
    return x && start && end && inputs[3] ? import_make(n, OP_SLICE, NONE, 4, inputs) : NULL;
}

ir_value *expr_part(const import_node *n, ir_value *x, int64_t axis, int64_t start, int64_t end) {
    ir_value *from = expr_vector(n, start);
    return expr_slice(n, x, axis, from, expr_vector(n, end));
}

ir_value *expr_steps(const import_node *n, ir_value *end, int64_t step) {
    ir_value *inputs[] = {NULL, end, NULL};
    if (!end) return NULL;
    inputs[0] = import_constant_integer(n, 0);
    inputs[2] = import_constant_integer(n, step);
    return inputs[0] && inputs[2] ? import_make(n, OP_RANGE, NONE, 3, inputs) : NULL;
}

ir_value *expr_axis(const import_node *n, op_code code, ir_value *x, int64_t axis) {
    return expr_binary(n, code, x, expr_vector(n, axis));
}

ir_value *expr_transpose(const import_node *n, ir_value *x, size_t rank, const int64_t *order) {
    op_attributes attributes = NONE;
    if (!x || !import_attributes_add_integers(n, &attributes, "perm", rank, order)) return NULL;
    return import_make(n, OP_TRANSPOSE, attributes, 1, &x);
}

ir_value *expr_tile(const import_node *n, ir_value *x, size_t rank, const int64_t *repeats) {
    return expr_binary(n, OP_TILE, x, import_constant_integers(n, rank, repeats));
}

ir_value *expr_extent(const import_node *n, ir_value *x, int64_t axis) {
    op_attributes attributes = {0};
    if (!x || !import_attributes_add_integer(n, &attributes, "start", axis) ||
        !import_attributes_add_integer(n, &attributes, "end", axis + 1))
        return NULL;
    return import_make(n, OP_SHAPE, attributes, 1, &x);
}

ir_value *expr_reshape(const import_node *n, ir_value *x, size_t rank, const int64_t *extents) {
    return expr_binary(n, OP_RESHAPE, x, import_constant_integers(n, rank, extents));
}

ir_graph *expr_begin_graph(const import_node *n, const char *name, import_scope *scope, import_node *within) {
    import_state *importer = n->importer;
    const char *path = base_arena_format(&importer->arena, "%s/%.*s/%s", n->scope->path, IMPORT_LABEL,
                                         import_label(n->proto), name);
    ir_graph *graph = ir_graph_new(importer->module, name);
    if (!path || !graph || !import_scope_init(importer, scope, n->scope, n->scope->frame, graph, path))
        return NULL;
    *within = *n;
    within->scope = scope;
    return graph;
}

ir_value *expr_input(const import_node *n, uint32_t index) {
    return index < n->input_count ? n->inputs[index] : NULL;
}

base_status expr_need_inputs(const import_node *n, uint32_t count, uint32_t absent) {
    for (uint32_t i = 0; i < count; i++) {
        if (expr_input(n, i) || absent & EXPR_INPUT(i)) continue;
        return base_fail(n->importer->report, BASE_INVALID, "input %u is absent, it is needed", i);
    }
    return BASE_OK;
}

base_status expr_finish(import_node *n, ir_value *y) {
    return y ? import_define(n, 0, y) : import_memory(n);
}

static bool has_16_bits(op_dtype dtype) {
    return dtype == OP_FLOAT16 || dtype == OP_BFLOAT16;
}

ir_value *expr_widened(const import_node *n, ir_value *x) {
    return x && has_16_bits(import_dtype_of(x)) ? expr_cast(n, x, OP_FLOAT) : x;
}

base_status expr_finish_as(import_node *n, op_dtype dtype, ir_value *y) {
    return expr_finish(n, has_16_bits(dtype) ? expr_cast(n, y, dtype) : y);
}

base_status expr_output(import_node *n, uint32_t index, ir_value *y) {
    if (index >= n->output_count || !import_output_named(n, index)) return BASE_OK;
    return y ? import_define(n, index, y) : import_memory(n);
}

base_status expr_need_dtype(const import_node *n, const ir_value *x) {
    if (import_dtype_of(x) != OP_NONE) return BASE_OK;
    return base_fail_unsupported(n->importer->report, "needs an input whose type is known");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* flatten_windows.c: a window that slides along an inner axis is one that slides along all of its elements, in one row.
 *
 *     loop(%x) { %w = Slice(%x, 1, 4, axis 1)  %y = Concat(%w, %d) {axis = 1}  yield %k, %y }       x: [2,4], d: [2,1]
 *  => loop(%x) { %f = Reshape(%x, [8])  %v = Slice(%f, 1, 8)  %z = Concat(%v, last of %d)           [8]
 *                %s = ScatterND(%z as [8,1], {3, 7}, %d as [2,1])  %y = Reshape(%s, [2,4])  yield %k, %y }
 *
 * One position on in memory, everything that is kept lies where it did, seen from the window's begin; only the new column is
 * not right yet: there the next row's oldest elements are, which nobody wants any more.
 *
 *     x, old window          a0 a1 a2 a3 b0 b1 b2 b3
 *     y, one position on        a1 a2 a3 -- b1 b2 b3 --          d0 and d1 go to the gaps
 *
 * The same for %c = Concat(%x, %d) {axis = 1}  %y = Slice(%c, 1, 5, axis 1), where others read %c: its last column is what is new.
 *
 * So windows.c can let it move through a longer buffer as one along the outermost axis, and only the new elements are
 * written.
 *
 * Needs: types; loops compute no invariants. Breaks: that somebody reads every node. Guarantees: types of all values.
 */
#include "ir/loop.h"
#include "passes/base/range.h"
#include "passes/loops/loops.h"

typedef struct window {
    ir_node *node; /* that makes the new window: a Concat, or a Slice of it */
    ir_value *parameter, *given;
    ir_value *whole; /* of a Slice: what it is a part of, where others read that, too; else NULL */
    int32_t axis;
    int64_t rows, row, step; /* how many rows; elements of each, and of its part that is new */
} window;

static bool is_static(const ir_value *value) {
    size_t bytes;
    return value && value->type.dtype != OP_STRING && value->type.layout == OP_LAYOUT_ROW_MAJOR &&
           op_type_bytes(&value->type, &bytes) && bytes > 0;
}

/* y = Concat(Slice(x), d) */
static bool is_joined(const ir_loop_carried *c, const ir_graph *body, ir_node *concat, window *w) {
    const ir_value *kept = ir_input(concat, 0);
    const ir_node *slice = kept->node;
    int32_t cut;
    int64_t first;
    w->given = ir_input(concat, 1);
    return slice && slice->code == OP_SLICE && slice->graph == body && ir_input(slice, 0) == c->parameter &&
           is_static(kept) && is_static(w->given) && pass_slice_cut(slice, &cut, &first) && cut == w->axis &&
           first == w->given->type.shape.dims[cut];
}

/* y = Slice(Concat(x, d)), the last positions of it; it still has some of x. */
static bool is_cut(const ir_loop_carried *c, ir_node *slice, ir_node *concat, window *w) {
    ir_value *whole = concat->outputs[0];
    int32_t cut;
    int64_t first;
    w->given = ir_input(concat, 1);
    w->whole = whole->uses && whole->uses->next ? whole : NULL;
    return ir_input(concat, 0) == c->parameter && is_static(w->given) &&
           pass_slice_cut(slice, &cut, &first) && cut == w->axis && first == w->given->type.shape.dims[cut] &&
           first < c->parameter->type.shape.dims[cut];
}

/* The replacement of a carried value, if it is such a window. */
static bool read(const ir_loop_carried *c, const ir_graph *body, window *w) {
    ir_node *node = c->replacement->node,
            *concat = node && node->code == OP_SLICE ? ir_input(node, 0)->node : node;
    if (!concat || concat->code != OP_CONCAT || concat->graph != body || node->graph != body ||
        concat->input_count != 2 || !is_static(c->parameter))
        return false;
    *w = (window){.node = node, .parameter = c->parameter, .rows = 1, .step = 1};
    const op_shape *shape = &c->parameter->type.shape;
    if (!op_shape_equal(shape, &c->replacement->type.shape) ||
        !op_axis(op_attribute_integer(&concat->attributes, "axis", 0), shape->rank, &w->axis) ||
        !(node == concat ? is_joined(c, body, concat, w) : is_cut(c, node, concat, w)))
        return false;
    for (int32_t d = 0; d < w->axis; d++) w->rows *= shape->dims[d];
    for (int32_t d = w->axis + 1; d < shape->rank; d++) w->step *= shape->dims[d];
    w->row = w->step * shape->dims[w->axis];
    w->step *= w->given->type.shape.dims[w->axis];
    return w->rows > 1;
}

/* ---- nodes ----------------------------------------------------------------------------------------------- */

static ir_value *make(const window *w, op_code code, uint32_t count, ir_value *const *inputs,
                      const op_shape *shape) {
    for (uint32_t i = 0; i < count; i++)
        if (!inputs[i]) return NULL;
    ir_node *node = ir_node_new(w->node->graph, w->node, code, w->node->name, w->node->path,
                                (op_attributes){0}, count, inputs);
    const op_type type = {.dtype = w->parameter->type.dtype, .shape = *shape};
    return node ? ir_node_add_output(node, w->node->outputs[0]->name, &type) : NULL;
}

static ir_value *integers(pass_context *context, const int64_t *values, const op_shape *shape) {
    int64_t count = 0;
    const op_type type = {.dtype = OP_INT64, .shape = *shape};
    if (!op_shape_elements(shape, &count)) return NULL;
    return ir_constant_copy(context->module, "window", &type, values, (size_t)count * sizeof *values);
}

static ir_value *integer(pass_context *context, int64_t value) {
    return integers(context, &value, &(op_shape){1, {1}});
}

static ir_value *reshape(pass_context *context, const window *w, ir_value *value, const op_shape *shape) {
    ir_value *extents = integers(context, shape->dims, &(op_shape){1, {shape->rank}});
    return make(w, OP_RESHAPE, 2, (ir_value *[]){value, extents}, shape);
}

/* Elements from `first` on of a value in one row. */
static ir_value *slice(pass_context *context, const window *w, ir_value *value, int64_t first) {
    const int64_t end = value ? value->type.shape.dims[0] : 0;
    ir_value *from = integer(context, first), *to = integer(context, end), *axis = integer(context, 0);
    return make(w, OP_SLICE, 4, (ir_value *[]){value, from, to, axis}, &(op_shape){1, {end - first}});
}

/* The new elements; where others read the old window together with them, from what these read, so that they do so before it is
 * written over. */
static ir_value *new_elements(pass_context *context, const window *w) {
    if (!w->whole) return w->given;
    const int64_t end = w->whole->type.shape.dims[w->axis], first = end - w->given->type.shape.dims[w->axis];
    ir_value *from = integer(context, first), *to = integer(context, end), *axis = integer(context, w->axis);
    return make(w, OP_SLICE, 4, (ir_value *[]){w->whole, from, to, axis}, &w->given->type.shape);
}

/* Where the new elements go: pieces of `piece` elements, as many as make the window. */
static ir_value *places(pass_context *context, const window *w, int64_t piece) {
    const int64_t count = w->step / piece;
    int64_t *list = BASE_ARRAY(context->scratch, int64_t, (size_t)(w->rows * count));
    for (int64_t r = 0; list && r < w->rows; r++)
        for (int64_t i = 0; i < count; i++) list[r * count + i] = ((r + 1) * w->row - w->step) / piece + i;
    return list ? integers(context, list, &(op_shape){2, {w->rows * count, 1}}) : NULL;
}

static bool flatten(pass_context *context, const window *w) {
    const int64_t all = w->rows * w->row;
    /* A row of new elements is one piece where rows begin at multiples of it. */
    const int64_t piece = w->row % w->step == 0 ? w->step : 1;
    const op_shape flat = {1, {all}}, pieces = {2, {all / piece, piece}},
                   given = {2, {w->rows * w->step / piece, piece}}, whole = w->parameter->type.shape;
    const op_attribute axis = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 0};
    ir_value *kept = slice(context, w, reshape(context, w, w->parameter, &flat), w->step);
    ir_value *added = new_elements(context, w),
             *row = reshape(context, w, added, &(op_shape){1, {w->rows * w->step}});
    ir_value *last = slice(context, w, row, (w->rows - 1) * w->step);
    ir_value *moved = make(w, OP_CONCAT, 2, (ir_value *[]){kept, last}, &flat);
    if (!moved || !ir_attribute_set(context->module, &moved->node->attributes, &axis)) return false;
    moved = reshape(context, w, moved, &pieces);
    ir_value *at = places(context, w, piece), *new = reshape(context, w, added, &given);
    ir_value *made = make(w, OP_SCATTER_ND, 3, (ir_value *[]){moved, at, new}, &pieces);
    ir_value *next = reshape(context, w, made, &whole);
    if (!next) return false;
    ir_value_replace(w->node->outputs[0], next);
    ir_node_remove(w->node);
    return true;
}

base_status pass_flatten_windows(pass_context *context) {
    size_t count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &count);
    if (!graphs) return base_fail_memory(context->report);
    for (size_t n = 0; n < count; n++) {
        ir_loop loop;
        if (!ir_loop_around(graphs[n], &loop)) continue;
        for (uint32_t i = 0; i < loop.carried; i++) {
            const ir_loop_carried c = ir_loop_carry(&loop, i);
            window w;
            if (read(&c, loop.body, &w) && !flatten(context, &w)) return base_fail_memory(context->report);
        }
    }
    return BASE_OK;
}

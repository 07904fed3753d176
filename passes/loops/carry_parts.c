/* SPDX-License-Identifier: Apache-2.0 */
/* carry_parts.c: what a loop carries is carried in parts, where its body takes it apart and puts it together again.
 *
 *     loop(%x) { %k = Gather(%x, 0)  %v = Gather(%x, 1)  ...  %z = Concat(Unsqueeze(%l), Unsqueeze(%w)) {axis = 0}  yield %c, %z }
 *  => loop(%k, %v) { ...  yield %c, %l, %w }
 *
 * So caches of keys and values that are one tensor [2, rows, heads, positions, size] become two, to which something can be appended where
 * they lie (carry-growth). What is put together may be joined to what is carried along another axis, and its rows may be gathered, before it is
 * handed on: this is then done to each part. Only where all that reads it takes parts out of it, or asks for other extents, where the
 * loop hands it out to nobody, and where the loop neither scans nor stacks.
 *
 * Needs: types, no dead nodes; runs before carry-growth. Keeps: types of all values, and that somebody reads every node.
 */
#include "ir/loop.h"
#include "passes/graph/graph.h"
#include "passes/loops/loops.h"

#include <string.h>

enum { MOST_PARTS = 4, MOST_VALUES = 16 };

/* A value of the body that can be had in parts, and these. */
typedef struct whole {
    ir_value *value;
    ir_value *parts[MOST_PARTS];
} whole;

typedef struct splitter {
    pass_context *context;
    ir_loop loop;
    uint32_t index; /* of the carried value */
    int64_t count;  /* of parts */
    whole wholes[MOST_VALUES];
    uint32_t whole_count;
} splitter;

/* ---- what can be taken apart ------------------------------------------------------------------------------------- */

static int32_t rank_of(const ir_value *value) {
    return value->type.shape.rank;
}

static const ir_node *made_by(const splitter *s, const ir_value *value, op_code code) {
    return value && value->kind == IR_RESULT_OF_NODE && value->node->graph == s->loop.body &&
                   value->node->code == code
               ? value->node
               : NULL;
}

static int64_t axis_of(const ir_node *node, const ir_value *of) {
    const int64_t axis = op_attribute_integer(&node->attributes, "axis", 0);
    return axis < 0 ? axis + rank_of(of) : axis;
}

/* The value of which an Unsqueeze along axis 0 is made; NULL where it is none. */
static ir_value *without_axis(const ir_value *value) {
    bool marks[OP_MAX_RANK] = {false};
    if (!value || value->kind != IR_RESULT_OF_NODE || value->node->code != OP_UNSQUEEZE ||
        rank_of(value) < 2 || !pass_read_axes(ir_input(value->node, 1), rank_of(value), marks) || !marks[0])
        return NULL;
    for (int32_t i = 1; i < rank_of(value); i++)
        if (marks[i]) return NULL;
    return ir_input(value->node, 0);
}

/* A Concat of as many values as there are parts, each with an axis put before its own. */
static bool is_put_together(const splitter *s, const ir_node *node) {
    if (node->input_count != s->count || axis_of(node, node->outputs[0]) != 0) return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (!without_axis(ir_input(node, i))) return false;
    return true;
}

static bool is_whole(const splitter *s, const ir_value *value) {
    for (uint32_t i = 0; i < s->whole_count; i++)
        if (s->wholes[i].value == value) return true;
    return false;
}

/* Finds what the value is made of, down to what is carried and to what is put together, in so many steps at most. */
static bool find_wholes(splitter *s, ir_value *value, int steps) {
    if (is_whole(s, value)) return true;
    if (!value || steps == 0 || s->whole_count == MOST_VALUES ||
        rank_of(value) != rank_of(s->wholes[0].value))
        return false;
    const ir_node *concat = made_by(s, value, OP_CONCAT), *gather = made_by(s, value, OP_GATHER);
    if (concat && axis_of(concat, value) > 0) {
        for (uint32_t i = 0; i < concat->input_count; i++)
            if (!find_wholes(s, ir_input(concat, i), steps - 1)) return false;
    } else if (gather) {
        const ir_value *indices = ir_input(gather, 1);
        if (axis_of(gather, ir_input(gather, 0)) < 1 || rank_of(indices) != 1 ||
            !find_wholes(s, ir_input(gather, 0), steps - 1))
            return false;
    } else if (!concat || !is_put_together(s, concat)) return false;
    if (s->whole_count == MOST_VALUES) return false;
    s->wholes[s->whole_count++] = (whole){.value = value};
    return true;
}

/* Which part a Gather along axis 0 takes; -1: none that is known. */
static int64_t part_taken(const splitter *s, const ir_node *node) {
    const ir_value *index = ir_input(node, 1);
    int64_t number;
    if (node->code != OP_GATHER || axis_of(node, ir_input(node, 0)) != 0 || !index || !index->constant ||
        rank_of(index) != 0)
        return -1;
    const op_tensor *tensor = &index->constant->tensor;
    if (tensor->type.dtype == OP_INT64) memcpy(&number, tensor->data, sizeof number);
    else if (tensor->type.dtype == OP_INT32) {
        int32_t narrow;
        memcpy(&narrow, tensor->data, sizeof narrow);
        number = narrow;
    } else return -1;
    if (number < 0) number += s->count;
    return number >= 0 && number < s->count ? number : -1;
}

/* A Shape gives extents of others than the first axis: from *start up to *end. */
static bool is_shape(const ir_node *node, int32_t rank, int64_t *start, int64_t *end) {
    if (node->code != OP_SHAPE) return false;
    *start = op_attribute_integer(&node->attributes, "start", 0);
    *end = op_attribute_integer(&node->attributes, "end", rank);
    if (*start < 0) *start += rank;
    if (*end < 0) *end += rank;
    if (*end > rank) *end = rank;
    return *start > 0 && *start <= *end;
}

/* Whoever reads it takes a part, asks for extents, or makes another of these values of it. */
static bool has_readers_of_parts(const splitter *s, const ir_value *value) {
    for (const ir_use *use = value->uses; use; use = use->next) {
        int64_t start, end;
        if (!use->node) {
            if (use->graph != s->loop.body || use->index != s->loop.first_result + s->index) return false;
            continue;
        }
        if (use->index == 0 &&
            (part_taken(s, use->node) >= 0 || is_shape(use->node, rank_of(value), &start, &end)))
            continue;
        if (use->node->output_count == 0 || !use->node->outputs[0] || !is_whole(s, use->node->outputs[0]))
            return false;
        if (use->node->code == OP_GATHER && use->index != 0) return false;
    }
    return true;
}

static bool read(splitter *s, uint32_t index) {
    const ir_loop_carried c = ir_loop_carry(&s->loop, index);
    const int64_t count = rank_of(c.parameter) > 1 ? c.parameter->type.shape.dims[0] : 0;
    if (count < 1 || count > MOST_PARTS || (c.output && c.output->uses) || c.parameter == c.replacement ||
        rank_of(c.initial) != rank_of(c.parameter) || c.parameter->type.dtype == OP_STRING)
        return false;
    s->index = index;
    s->count = count;
    s->whole_count = 1;
    s->wholes[0] = (whole){.value = c.parameter};
    if (!find_wholes(s, c.replacement, MOST_VALUES)) return false;
    for (uint32_t i = 0; i < s->whole_count; i++)
        if (!has_readers_of_parts(s, s->wholes[i].value)) return false;
    return true;
}

/* ---- taking apart ------------------------------------------------------------------------------------------------- */

static op_type part_type(const ir_value *value) {
    op_type type = value->type;
    type.shape.rank--;
    memmove(type.shape.dims, type.shape.dims + 1, (size_t)type.shape.rank * sizeof *type.shape.dims);
    return type;
}

/* Part `which` of a value that the loop begins with: Gather(value, which), or what it has been put together of. */
static ir_value *part_before(const splitter *s, ir_value *value, int64_t which) {
    ir_node *loop = s->loop.body->owner;
    if (value->kind == IR_RESULT_OF_NODE && value->node->code == OP_CONCAT && is_put_together(s, value->node))
        return without_axis(ir_input(value->node, (uint32_t)which));
    const op_type scalar = {.dtype = OP_INT64}, type = part_type(value);
    ir_value *index = ir_constant_copy(s->context->module, "part", &scalar, &which, sizeof which);
    ir_node *node = index ? ir_node_new(loop->graph, loop, OP_GATHER, "", loop->path, (op_attributes){0}, 2,
                                        (ir_value *[]){value, index})
                          : NULL;
    return node ? ir_node_add_output(node, value->name, &type) : NULL;
}

static whole *whole_of(splitter *s, const ir_value *value) {
    uint32_t i = 0;
    while (s->wholes[i].value != value) i++;
    return &s->wholes[i];
}

/* What a node does with a whole, done to its parts, which stand before it. */
static bool make_parts(splitter *s, whole *w) {
    ir_node *node = w->value->node;
    const op_type type = part_type(w->value);
    const int64_t along = axis_of(node, w->value);
    const op_attribute axis = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = along - 1};
    ir_value **inputs = BASE_ARRAY(s->context->scratch, ir_value *, node->input_count);
    if (!inputs) return false;
    for (int64_t p = 0; p < s->count; p++) {
        op_attributes attributes = {0};
        if (along == 0) {
            w->parts[p] = without_axis(ir_input(node, (uint32_t)p));
            continue;
        }
        for (uint32_t i = 0; i < node->input_count; i++)
            inputs[i] = node->code == OP_GATHER && i == 1 ? ir_input(node, 1)
                                                          : whole_of(s, ir_input(node, i))->parts[p];
        if (!ir_attribute_set(s->context->module, &attributes, &axis)) return false;
        ir_node *made =
            ir_node_new(node->graph, node, node->code, "", node->path, attributes, node->input_count, inputs);
        w->parts[p] = made ? ir_node_add_output(made, w->value->name, &type) : NULL;
        if (!w->parts[p]) return false;
    }
    return true;
}

static bool turn_shape(const splitter *s, ir_node *node, int32_t rank, ir_value *part) {
    int64_t start = 0, end = 0;
    (void)is_shape(node, rank, &start, &end);
    const op_attribute first = {.name = "start",
                                .kind = OP_ATTRIBUTE_INT,
                                .count = 1,
                                .as.integer = start - 1},
                       last = {.name = "end", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = end - 1};
    return ir_node_set_input(node, 0, part) &&
           ir_attribute_set(s->context->module, &node->attributes, &first) &&
           ir_attribute_set(s->context->module, &node->attributes, &last);
}

/* Those who read a whole read its parts. */
static bool turn_readers(const splitter *s, const whole *w) {
    for (ir_use *use = w->value->uses, *next; use; use = next) {
        next = use->next;
        ir_node *node = use->node;
        if (!node || is_whole(s, node->outputs[0])) continue;
        const int64_t part = part_taken(s, node);
        if (part < 0) {
            if (!turn_shape(s, node, rank_of(w->value), w->parts[0])) return false;
            continue;
        }
        ir_value_replace(node->outputs[0], w->parts[part]);
        ir_node_remove(node);
    }
    return true;
}

/* A value that nobody reads any more, and what it was put together of. */
static void remove_unread(ir_value *value) {
    if (value->uses || value->kind != IR_RESULT_OF_NODE) return;
    ir_value *inputs[MOST_PARTS];
    const uint32_t count = value->node->code == OP_CONCAT && value->node->input_count <= MOST_PARTS
                               ? value->node->input_count
                               : 0;
    for (uint32_t i = 0; i < count; i++) inputs[i] = ir_input(value->node, i);
    ir_node_remove(value->node);
    for (uint32_t i = 0; i < count; i++) {
        bool again = false; /* the same may be there twice */
        for (uint32_t k = 0; k < i; k++) again = again || inputs[k] == inputs[i];
        if (!again && without_axis(inputs[i]) && !inputs[i]->uses) ir_node_remove(inputs[i]->node);
    }
}

/* Carries the parts after all that is carried, and then the whole no more. */
static bool carry(splitter *s) {
    ir_graph *body = s->loop.body;
    ir_node *loop = body->owner;
    const ir_loop_carried c = ir_loop_carry(&s->loop, s->index);
    const op_type type = part_type(c.parameter);
    ir_value *initial[MOST_PARTS];
    for (int64_t p = 0; p < s->count; p++) {
        initial[p] = part_before(s, c.initial, p);
        s->wholes[0].parts[p] = initial[p] ? ir_graph_add_parameter(body, c.parameter->name, &type) : NULL;
        if (!s->wholes[0].parts[p]) return false;
    }
    for (uint32_t i = 1; i < s->whole_count; i++)
        if (!make_parts(s, &s->wholes[i])) return false;
    for (uint32_t i = 0; i < s->whole_count; i++)
        if (!turn_readers(s, &s->wholes[i])) return false;
    const whole *replacement = whole_of(s, c.replacement);
    for (int64_t p = 0; p < s->count; p++)
        if (!ir_node_set_input(loop, loop->input_count, initial[p]) ||
            !ir_graph_add_result(body, replacement->parts[p]) || !ir_node_add_absent_output(loop))
            return false;
    ir_graph_remove_result(body, s->loop.first_result + s->index);
    ir_node_remove_output(loop, s->index);
    for (uint32_t i = s->whole_count; i-- > 1;) remove_unread(s->wholes[i].value);
    ir_graph_remove_parameter(body, s->loop.first_parameter + s->index);
    ir_node_remove_input(loop, 2 + s->index);
    if (c.initial->kind == IR_RESULT_OF_NODE && c.initial->node->code == OP_CONCAT &&
        is_put_together(s, c.initial->node))
        remove_unread(c.initial);
    return true;
}

base_status pass_carry_parts(pass_context *context) {
    size_t count;
    ir_graph **graphs = pass_graphs_outermost_first(context->module, context->scratch, &count);
    if (!graphs) return base_fail_memory(context->report);
    for (size_t n = count; n-- > 0;) {
        splitter s = {.context = context};
        if (!ir_loop_around(graphs[n], &s.loop) || s.loop.runs || s.loop.scanned || s.loop.stacked) continue;
        for (uint32_t i = 0; i < s.loop.carried;) {
            if (!read(&s, i)) {
                i++;
                continue;
            }
            if (!carry(&s)) return base_fail_memory(context->report);
            s.loop = ir_loop_of(graphs[n]->owner);
        }
    }
    return BASE_OK;
}

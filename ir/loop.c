/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c: implements loop.h. */
#include "ir/loop.h"
#include "ir/operators/shape_list.h"

#define DECLARED "ouro.scan_output_shapes"

/* ---- the parts ----------------------------------------------------------------------------------------- */

bool ir_loop_read(const ir_node *node, ir_loop *loop) {
    *loop = (ir_loop){.node = node, .first_parameter = 2, .first_result = 1};
    if (node->code != OP_LOOP || node->graph_count != 1 || node->input_count < 2) return false;
    const uint32_t given = node->input_count - 2;
    const int64_t scanned = op_attribute_integer(&node->attributes, "ouro.scan_inputs", 0);
    if (scanned < 0 || scanned > given) return false;
    loop->body = node->graphs[0];
    loop->scanned = (uint32_t)scanned;
    loop->carried = given - loop->scanned;
    if (node->output_count < loop->carried) return false;
    loop->stacked = node->output_count - loop->carried;
    loop->runs = ir_graph_is_run(loop->body);
    if (loop->runs) {
        loop->first_parameter = loop->first_result = 0;
        return loop->body->parameter_count >= loop->carried && loop->body->result_count >= loop->carried;
    }
    return loop->body->parameter_count == node->input_count &&
           loop->body->result_count == 1 + node->output_count;
}

ir_loop ir_loop_of(const ir_node *node) {
    ir_loop loop;
    (void)ir_loop_read(node, &loop);
    return loop;
}

bool ir_loop_around(const ir_graph *body, ir_loop *loop) {
    return body->owner && ir_loop_read(body->owner, loop);
}

ir_loop_carried ir_loop_carry(const ir_loop *loop, uint32_t index) {
    return (ir_loop_carried){.parameter = loop->body->parameters[loop->first_parameter + index],
                             .initial = ir_input(loop->node, 2 + index),
                             .replacement = loop->body->results[loop->first_result + index]->value,
                             .output = loop->node->outputs[index]};
}

static ir_loop_slices slices(const ir_loop *loop, uint32_t index, ir_value *whole, ir_value *slice,
                             bool out) {
    const op_attributes *attributes = &loop->node->attributes;
    ir_loop_slices made = {.whole = whole, .slice = slice};
    const int32_t rank = out ? slice->type.shape.rank + (slice->type.shape.rank >= 0)
                         : whole->type.shape.rank >= 0 ? whole->type.shape.rank
                                                       : -1;
    const int64_t axis =
        op_attribute_entry(attributes, out ? "ouro.scan_output_axes" : "ouro.scan_input_axes", index);
    if (!op_axis(axis, rank, &made.axis)) made.axis = -1;
    const op_shape *before = out ? &slice->type.shape : &whole->type.shape;
    made.together = made.axis >= 0;
    for (int32_t d = 0; d < made.axis; d++) made.together = made.together && before->dims[d] == 1;
    made.backwards =
        op_attribute_entry(attributes, out ? "ouro.scan_output_directions" : "ouro.scan_input_directions",
                           index) == 1;
    return made;
}

ir_loop_slices ir_loop_scan(const ir_loop *loop, uint32_t index) {
    const uint32_t at = 2 + loop->carried + index;
    return slices(loop, index, ir_input(loop->node, at), loop->body->parameters[at], false);
}

ir_loop_slices ir_loop_stack(const ir_loop *loop, uint32_t index) {
    const uint32_t at = loop->carried + index;
    return slices(loop, index, loop->node->outputs[at], loop->body->results[1 + at]->value, true);
}

op_shape ir_loop_declared(const ir_loop *loop, uint32_t index) {
    size_t length;
    op_shape shape;
    const int64_t *list = op_attribute_integers(&loop->node->attributes, DECLARED, &length);
    (void)op_shape_list_read(list, length, index, &shape);
    return shape;
}

bool ir_loop_declare(ir_module *module, ir_node *node, uint32_t count, const op_shape *shapes) {
    bool declared = false;
    for (uint32_t i = 0; i < count; i++) declared = declared || shapes[i].rank >= 0;
    if (!declared) return ir_attribute_remove(module, &node->attributes, DECLARED);
    base_arena scratch;
    base_arena_init(&scratch, module->arena.allocator);
    int64_t *list = BASE_ARRAY(&scratch, int64_t, (size_t)count * (1 + OP_MAX_RANK));
    const op_attribute attribute = {.name = DECLARED,
                                    .kind = OP_ATTRIBUTE_INTS,
                                    .count = list ? op_shape_list_write(shapes, count, list) : 0,
                                    .as.integers = list};
    const bool fine = list && ir_attribute_set(module, &node->attributes, &attribute);
    base_arena_free(&scratch);
    return fine;
}

bool ir_loop_is_static(const ir_loop *loop, uint32_t index) {
    const ir_loop_carried c = ir_loop_carry(loop, index);
    size_t held, begins, replaced;
    return op_type_bytes(&c.parameter->type, &held) && op_type_bytes(&c.initial->type, &begins) &&
           op_type_bytes(&c.replacement->type, &replaced) && held != 0 && held == begins && held == replaced;
}

bool ir_loop_grows(const ir_loop *loop, uint32_t index, ir_loop_growth *growth) {
    const ir_loop_carried c = ir_loop_carry(loop, index);
    const op_shape *shape = &c.parameter->type.shape;
    ir_loop_growth found = {.concat = c.replacement->node, .after = true};
    if (!found.concat || found.concat->code != OP_CONCAT || found.concat->graph != loop->body ||
        ir_input(found.concat, 0) != c.parameter || c.parameter->type.kind != OP_KIND_TENSOR ||
        c.initial->type.shape.rank != shape->rank ||
        !op_axis(op_attribute_integer(&found.concat->attributes, "axis", 0), shape->rank, &found.axis))
        return false;
    for (uint32_t i = 1; i < found.concat->input_count; i++) {
        const ir_value *part = ir_input(found.concat, i);
        if (!part || part == c.parameter || part->type.shape.rank != shape->rank) return false;
    }
    for (int32_t d = 0; d < found.axis; d++) found.after = found.after && shape->dims[d] == 1;
    if (growth) *growth = found;
    return true;
}

int64_t ir_loop_grown_extent(const ir_loop *loop, uint32_t index, const ir_loop_growth *growth,
                             int64_t trips) {
    const int64_t from = ir_loop_carry(loop, index).initial->type.shape.dims[growth->axis];
    int64_t appended = 0;
    if (trips < 0 || from < 0) return OP_DIM_UNKNOWN;
    for (uint32_t i = 1; i < growth->concat->input_count; i++) {
        const int64_t part = ir_input(growth->concat, i)->type.shape.dims[growth->axis];
        if (part < 0 || part > INT32_MAX) return OP_DIM_UNKNOWN;
        appended += part;
    }
    if (appended > INT32_MAX || trips > INT32_MAX || from > INT64_MAX / 2) return OP_DIM_UNKNOWN;
    return from + trips * appended;
}

/* ---- how often it runs --------------------------------------------------------------------------------- */

static bool is_true(const ir_value *value) {
    const op_tensor *tensor = value->constant ? &value->constant->tensor : NULL;
    return tensor && tensor->data && tensor->type.dtype == OP_BOOL && *(const unsigned char *)tensor->data;
}

bool ir_loop_is_counted(const ir_loop *loop) {
    if (loop->runs) return false;
    const ir_value *condition = ir_input(loop->node, 1), *again = loop->body->results[0]->value;
    return (!condition || is_true(condition)) && (again == loop->body->parameters[1] || is_true(again));
}

int64_t ir_loop_most_trips(const ir_loop *loop) {
    const ir_value *trips = ir_input(loop->node, 0);
    int64_t most;
    if (!trips || !trips->constant) return -1;
    const op_call call = {.input_count = 1, .inputs = &trips->constant->tensor};
    if (!op_input_integer(&call, 0, 0, &most)) return -1;
    return most < 0 ? 0 : most;
}

int64_t ir_loop_trips(const ir_loop *loop) {
    if (!ir_loop_is_counted(loop)) return -1;
    int64_t count = INT64_MAX;
    if (ir_input(loop->node, 0)) {
        count = ir_loop_most_trips(loop);
        if (count < 0) return -1;
    }
    for (uint32_t i = 0; i < loop->scanned; i++) {
        const ir_loop_slices s = ir_loop_scan(loop, i);
        size_t bytes;
        /* An extent is certain where the plan holds the tensor to it, or the caller who binds it is. */
        const bool held = op_type_bytes(&s.whole->type, &bytes) ||
                          (s.whole->kind == IR_PARAMETER && s.whole->graph == s.whole->graph->module->main);
        if (!held || s.axis < 0 || s.whole->type.shape.dims[s.axis] < 0) return -1;
        if (s.whole->type.shape.dims[s.axis] < count) count = s.whole->type.shape.dims[s.axis];
    }
    return count == INT64_MAX ? -1 : count;
}

/* The trip count, where it is an extent that has a name. */
static int64_t named_trips(const ir_loop *loop) {
    const ir_value *trips = ir_input(loop->node, 0);
    if (!trips || !trips->symbolic) return OP_DIM_UNKNOWN;
    const op_tensor tensor = {.type = trips->type, .symbolic = trips->symbolic};
    const op_call call = {.input_count = 1, .inputs = &tensor};
    return op_input_dim(&call, 0, 0);
}

int64_t ir_loop_extent(const ir_loop *loop) {
    if (!ir_loop_is_counted(loop)) return OP_DIM_UNKNOWN;
    const int64_t most = ir_loop_most_trips(loop);
    if (most >= 0) return most;
    if (!loop->scanned) return named_trips(loop);
    const ir_loop_slices first = ir_loop_scan(loop, 0);
    return first.axis < 0 ? OP_DIM_UNKNOWN : first.whole->type.shape.dims[first.axis];
}

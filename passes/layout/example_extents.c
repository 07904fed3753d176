/* SPDX-License-Identifier: Apache-2.0 */
/* example_extents.c: numbers in place of dynamic dimensions, to ask kernels about.
 *
 * Which layouts a kernel accepts, and in which form it wants weights, hardly follows from how many images there are, or
 * how high and wide they are; but oneDNN answers for numbers only. So it is asked about some. What broadcasts must be
 * seen to: extents that need not be equal get different numbers, which no tensor of the application has already.
 */
#include "passes/layout/layout.h"
#include <string.h>

enum {
    SOME_IMAGES = 2,
    SOME_POINTS = 57,   /* of an image in one direction, */
    MANY_POINTS = 1025, /* where a window does not fit into that */
    MOST_SYMBOLS = 32
};

typedef struct examples {
    const op_call *call;
    bool alike;             /* extents of one axis, counted from the last one, get one number */
    int64_t images, points; /* the least that have not been given out */
    size_t count;
    int64_t symbols[MOST_SYMBOLS], numbers[MOST_SYMBOLS];
} examples;

static bool is_known_extent(const op_call *call, int64_t number) {
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_type *type = &call->inputs[i].type;
        for (int32_t d = 0; type->dtype != OP_NONE && d < type->shape.rank; d++)
            if (type->shape.dims[d] == number) return true;
    }
    return false;
}

/* A number for the symbol; for an extent of which nothing is known, a new one each time. */
static bool find_number(examples *e, int64_t symbol, bool images, int64_t *number) {
    for (size_t i = 0; i < e->count && symbol != OP_DIM_UNKNOWN; i++) {
        if (e->symbols[i] != symbol) continue;
        *number = e->numbers[i];
        return true;
    }
    if (e->count == MOST_SYMBOLS) return false;
    int64_t *next = images ? &e->images : &e->points;
    while (is_known_extent(e->call, *next)) ++*next;
    e->symbols[e->count] = symbol;
    e->numbers[e->count++] = *number = (*next)++;
    return true;
}

/* In place of the extent of this axis where all inputs are taken to be alike: a symbol that no module has, for the axis. */
static int64_t axis_symbol(const op_shape *shape, int32_t axis) {
    return INT64_MIN / 2 + shape->rank - axis;
}

static bool number_inputs(examples *e, op_tensor *inputs) {
    for (uint32_t i = 0; i < e->call->input_count; i++) {
        op_type *type = &inputs[i].type;
        if (type->dtype == OP_NONE || op_shape_known(&type->shape)) continue;
        if (type->kind != OP_KIND_TENSOR || type->shape.rank < 0) return false;
        for (int32_t d = 0; d < type->shape.rank; d++) {
            int64_t *extent = &type->shape.dims[d];
            const int64_t symbol = e->alike ? axis_symbol(&type->shape, d) : *extent;
            if (*extent < 0 && !find_number(e, symbol, d == 0 && type->shape.rank > 2, extent)) return false;
        }
    }
    return e->count > 0;
}

static bool infer_outputs(op_call *call, const op_tensor *before) {
    if (op_infer(call, NULL) != BASE_OK) return false;
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (before[i].type.dtype == OP_NONE) {
            call->outputs[i] = before[i];
            continue;
        }
        call->outputs[i].type.layout = before[i].type.layout;
        if (!op_shape_known(&call->outputs[i].type.shape)) return false;
    }
    return true;
}

static bool find_examples(op_call *call, base_arena *arena, bool alike) {
    op_tensor *inputs = BASE_ARRAY(arena, op_tensor, call->input_count),
              *outputs = BASE_ARRAY(arena, op_tensor, call->output_count);
    static const int64_t points[] = {SOME_POINTS, MANY_POINTS};
    if (!inputs || !outputs) return false;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        examples e = {.call = call, .alike = alike, .images = SOME_IMAGES, .points = points[i]};
        op_call example = *call;
        if (call->input_count) memcpy(inputs, call->inputs, call->input_count * sizeof *inputs);
        if (call->output_count) memcpy(outputs, call->outputs, call->output_count * sizeof *outputs);
        example.inputs = inputs;
        example.outputs = outputs;
        if (!number_inputs(&e, inputs)) return false;
        if (!infer_outputs(&example, call->outputs)) continue;
        *call = example;
        return true;
    }
    return false;
}

bool pass_example_extents(op_call *call, base_arena *arena) {
    return find_examples(call, arena, false);
}

bool pass_example_layouts(op_call *call, base_arena *arena) {
    if (find_examples(call, arena, false)) return true;
    const bool alike = call->code == OP_CONCAT || op_schema_of(call->code)->family == OP_FAMILY_ELEMENTWISE;
    return alike && find_examples(call, arena, true);
}

bool pass_example_image(op_call *call, base_arena *arena) {
    const bool open =
        call->input_count && call->inputs[0].type.shape.rank > 2 && call->inputs[0].type.shape.dims[0] < 0;
    if (!pass_example_extents(call, arena)) return false;
    if (!open) return true;
    /* The lists are the arena's. */
    op_tensor *inputs = (op_tensor *)(uintptr_t)call->inputs;
    const int64_t images = inputs[0].type.shape.dims[0];
    for (uint32_t i = 0; i < call->input_count; i++) {
        op_shape *shape = &inputs[i].type.shape;
        if (inputs[i].type.dtype != OP_NONE && shape->rank > 2 && !inputs[i].data && shape->dims[0] == images)
            shape->dims[0] = 1;
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        op_shape *shape = &call->outputs[i].type.shape;
        if (call->outputs[i].type.dtype != OP_NONE && shape->rank > 2) shape->dims[0] = 1;
    }
    return true;
}

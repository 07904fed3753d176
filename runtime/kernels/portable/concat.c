/* SPDX-License-Identifier: Apache-2.0 */
/* concat.c: Concat and Split: tensors side by side along an axis, and taken apart again. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/spatial_view.h"
#include <string.h>

enum { LINE = 64 }; /* bytes of a cache */

/* One tensor holds all parts: `outer` rows of `row` bytes, in which each part has its own stretch. */
typedef struct parts_state {
    int64_t outer;
    size_t row;
    uint32_t count;
    size_t *bytes; /* of each part in one row */
} parts_state;

typedef struct parts_context {
    const parts_state *state;
    const op_tensor *parts;
    char *whole;
    bool split;
} parts_context;

/* A part of each row; rows lie `from_step` and `to_step` bytes apart. A part may have been made where it is to lie. Single elements are moved by the
 * processor itself: a call for each would take longer than the copy. */
static void copy_part(char *to, size_t to_step, const char *from, size_t from_step, size_t bytes,
                      int64_t rows) {
    if (to == from && (rows == 1 || to_step == from_step)) return;
    if (bytes == 4) {
        for (int64_t row = 0; row < rows; row++, to += to_step, from += from_step) memcpy(to, from, 4);
    } else if (bytes == 8) {
        for (int64_t row = 0; row < rows; row++, to += to_step, from += from_step) memcpy(to, from, 8);
    } else {
        rt_copy_spans(to, (int64_t)to_step, from, (int64_t)from_step, bytes, rows);
    }
}

static void copy_rows(void *user, int64_t begin, int64_t end) {
    const parts_context *context = user;
    const parts_state *state = context->state;
    size_t at = 0;
    for (uint32_t i = 0; i < state->count; i++) {
        const size_t bytes = state->bytes[i];
        if (bytes == 0) continue;
        char *part = (char *)context->parts[i].data + (size_t)begin * bytes;
        char *whole = context->whole + (size_t)begin * state->row + at;
        if (context->split) copy_part(part, bytes, whole, state->row, bytes, end - begin);
        else copy_part(whole, state->row, part, bytes, bytes, end - begin);
        at += bytes;
    }
}

/* Lines [begin, end) of each row, where there are too few rows for all threads. */
static void copy_lines(void *user, int64_t begin, int64_t end) {
    const parts_context *context = user;
    const parts_state *state = context->state;
    const size_t first = (size_t)begin * LINE, limit = (size_t)end * LINE;
    size_t at = 0;
    for (uint32_t i = 0; i < state->count && at < limit; at += state->bytes[i++]) {
        const size_t bytes = state->bytes[i], low = first > at ? first - at : 0,
                     high = limit - at < bytes ? limit - at : bytes;
        if (low >= high) continue;
        char *part = (char *)context->parts[i].data + low, *whole = context->whole + at + low;
        if (context->split) copy_part(part, bytes, whole, state->row, high - low, state->outer);
        else copy_part(whole, state->row, part, bytes, high - low, state->outer);
    }
}

static void copy_all(const rt_prepared *prepared, parts_context *context) {
    const parts_state *state = context->state;
    const int64_t lines = (int64_t)((state->row + LINE - 1) / LINE);
    if (state->outer < prepared->threads && lines >= prepared->threads)
        rt_parallel(prepared->threads, lines, state->outer * (LINE / 4), copy_lines, context);
    else rt_parallel(prepared->threads, state->outer, (int64_t)(state->row / 4) + 1, copy_rows, context);
}

static base_status run_concat(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const parts_state *state = prepared->state;
    parts_context context = {state, inputs, outputs[0].data, false};
    copy_all(prepared, &context);
    return BASE_OK;
}

static base_status run_split(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const parts_state *state = prepared->state;
    parts_context context = {state, outputs, inputs[0].data, true};
    copy_all(prepared, &context);
    return BASE_OK;
}

/* Channels in whole blocks are as good as row-major ones: along batch or channels each part is one stretch. */
static bool accepts_blocks(const op_call *call) {
    op_layout layout = call->outputs[0].type.layout;
    const int64_t block = op_layout_block(layout);
    int64_t axis = op_attribute_integer(&call->attributes, "axis", 0);
    if (block == 1 || axis < 0 || axis > 1) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_type *type = &call->inputs[i].type;
        if (type->layout != layout || type->shape.rank < 2 || type->shape.dims[1] % block) return false;
    }
    return true;
}

/* Along the channels of images whose channels are innermost: then the parts of each point lie side by side. */
static bool joins_channels(const op_call *call) {
    if (call->code != OP_CONCAT || op_attribute_integer(&call->attributes, "axis", 0) != 1) return false;
    if (call->outputs[0].type.layout != OP_LAYOUT_NHWC) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_type *type = &call->inputs[i].type;
        if (type->layout != OP_LAYOUT_NHWC || type->shape.rank < 3 || type->shape.rank >= OP_MAX_RANK)
            return false;
    }
    return op_dtype_bytes(call->outputs[0].type.dtype) != 0;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    if (rt_accepts_row_major(call)) return true;
    return call->code == OP_CONCAT &&
           (accepts_blocks(call) || joins_channels(call) ||
            rt_accepts_spatial(call, op_attribute_integer(&call->attributes, "axis", 0)));
}

static base_status prepare_parts(int64_t along, const op_tensor *whole, const op_tensor *parts,
                                 uint32_t count, base_arena *arena, rt_prepared *prepared,
                                 base_report *report) {
    parts_state *state = BASE_NEW(arena, parts_state);
    size_t *bytes = BASE_ARRAY(arena, size_t, count);
    if (!state || !bytes) return base_fail_memory(report);
    const op_shape *shape = &whole->type.shape;
    int32_t axis = 0;
    op_axis(along, shape->rank, &axis);
    size_t inner = op_dtype_bytes(whole->type.dtype);
    state->outer = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (i < axis) state->outer *= shape->dims[i];
        if (i > axis) inner *= (size_t)shape->dims[i];
    }
    state->row = inner * (size_t)shape->dims[axis];
    state->count = count;
    state->bytes = bytes;
    size_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes[i] = inner * (size_t)parts[i].type.shape.dims[axis];
        sum += bytes[i];
    }
    if (sum != state->row) return base_fail(report, BASE_INVALID, "the parts do not add up to the whole");
    prepared->state = state;
    return BASE_OK;
}

static base_status prepare_concat(const op_call *call, const rt_environment *environment, base_arena *arena,
                                  rt_prepared *prepared, base_report *report) {
    (void)environment;
    int64_t axis = op_attribute_integer(&call->attributes, "axis", 0);
    const bool channels = joins_channels(call);
    if (axis > 1 || channels) call = rt_spatial_view(call, arena);
    if (!call) return base_fail_memory(report);
    if (channels) axis = call->outputs[0].type.shape.rank - 1;
    prepared->run = run_concat;
    return prepare_parts(axis, &call->outputs[0], call->inputs, call->input_count, arena, prepared, report);
}

/* The outputs have their shapes; how input 1 spells them does not matter any more. */
static base_status prepare_split(const op_call *call, const rt_environment *environment, base_arena *arena,
                                 rt_prepared *prepared, base_report *report) {
    (void)environment;
    prepared->run = run_split;
    return prepare_parts(op_attribute_integer(&call->attributes, "axis", 0), &call->inputs[0], call->outputs,
                         call->output_count, arena, prepared, report);
}

const rt_kernel rt_kernel_concat = {.name = "portable.concat", .accepts = accepts, .prepare = prepare_concat};
const rt_kernel rt_kernel_split = {.name = "portable.split", .accepts = accepts, .prepare = prepare_split};

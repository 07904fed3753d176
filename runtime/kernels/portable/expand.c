/* SPDX-License-Identifier: Apache-2.0 */
/* expand.c: Expand and Tile: a tensor repeated along its axes. Both are a strided copy in which repeated
 * dimensions have stride 0; the shape of the result says how often. What is repeated is made once, and then copied from what has been
 * written: long stretches, wherever there are some. */
#include "runtime/kernels/portable/spans.h"
#include "runtime/kernels/portable/spread.h"

typedef struct repeat_state {
    rt_loop loop;
    size_t size;
} repeat_state;

/* How many bytes are copied at once of what has been written: so that it is near. */
enum { NEAR = 16384, TASKS = 4 };

/* The first of `times` blocks of `bytes` is there: the others. */
static void repeat_block(char *to, size_t bytes, int64_t times) {
    const size_t all = bytes * (size_t)times, most = bytes < NEAR ? NEAR / bytes * bytes : bytes;
    for (size_t filled = bytes; filled < all;) {
        const size_t some = filled < most ? filled : most, rest = all - filled;
        const size_t next = some < rest ? some : rest;
        rt_copy_short(to + filled, to, next);
        filled += next;
    }
}

/* The part of the result whose outer indices, of the dimensions before `dimension`, are given. */
static void make_part(const repeat_state *state, int32_t dimension, char *to, const char *from) {
    const rt_loop *loop = &state->loop;
    const int32_t last = loop->rank - 1;
    const int64_t *stride = loop->strides[1];
    const int64_t extent = loop->dims[dimension];
    const size_t size = state->size;
    if (dimension == last) {
        if (stride[last] == 0) rt_stretch(to, from, 1, extent, size);
        else rt_copy_short(to, from, (size_t)extent * size);
    } else if (dimension == last - 1 && stride[last] == 0 && stride[dimension] == 1) {
        rt_stretch(to, from, extent, loop->dims[last], size);
    } else {
        const size_t bytes = (size_t)loop->strides[0][dimension] * size,
                     step = (size_t)stride[dimension] * size;
        const bool same = step == 0;
        for (int64_t i = 0; i < (same ? 1 : extent); i++)
            make_part(state, dimension + 1, to + (size_t)i * bytes, from + (size_t)i * step);
        if (same) repeat_block(to, bytes, extent);
    }
}

typedef struct parts {
    const repeat_state *state;
    int32_t dimension; /* parts are all combinations of indices of those before it */
    char *to;
    const char *from;
} parts;

static void make_parts(void *user, int64_t begin, int64_t end) {
    const parts *all = user;
    const rt_loop *loop = &all->state->loop;
    for (int64_t part = begin; part < end; part++) {
        int64_t rest = part, to = 0, from = 0;
        for (int32_t d = all->dimension; d-- > 0;) {
            to += rest % loop->dims[d] * loop->strides[0][d];
            from += rest % loop->dims[d] * loop->strides[1][d];
            rest /= loop->dims[d];
        }
        make_part(all->state, all->dimension, all->to + to * (int64_t)all->state->size,
                  all->from + from * (int64_t)all->state->size);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const repeat_state *state = prepared->state;
    const int64_t elements = rt_loop_elements(&state->loop);
    if (elements == 0) return BASE_OK;
    parts all = {.state = state, .to = outputs[0].data, .from = inputs[0].data};
    int64_t count = 1;
    while (prepared->threads > 1 && count < TASKS * prepared->threads && all.dimension < state->loop.rank - 1)
        count *= state->loop.dims[all.dimension++];
    rt_parallel(prepared->threads, count, elements / count, make_parts, &all);
    return BASE_OK;
}

static base_status prepare_expand(const op_call *call, const rt_environment *environment, base_arena *arena,
                                  rt_prepared *prepared, base_report *report) {
    (void)environment;
    repeat_state *state = BASE_NEW(arena, repeat_state);
    if (!state) return base_fail_memory(report);
    const op_shape *from = &call->inputs[0].type.shape;
    rt_loop_broadcast(&state->loop, &call->outputs[0].type.shape, &from, 1);
    state->size = op_dtype_bytes(call->inputs[0].type.dtype);
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

static base_status prepare_tile(const op_call *call, const rt_environment *environment, base_arena *arena,
                                rt_prepared *prepared, base_report *report) {
    (void)environment;
    repeat_state *state = BASE_NEW(arena, repeat_state);
    if (!state) return base_fail_memory(report);
    const op_shape *from = &call->inputs[0].type.shape, *to = &call->outputs[0].type.shape;
    rt_loop *loop = &state->loop;
    int64_t elements;
    prepared->state = state;
    prepared->run = run;
    loop->operands = 2;
    if (op_shape_elements(to, &elements) && elements == 0) {
        loop->rank = 1; /* beside an extent of 0 the product of the others need not be a number */
        loop->dims[0] = 0;
        return BASE_OK;
    }
    loop->rank = 2 * from->rank;
    /* Each dimension becomes two: how often it is repeated, and itself. */
    int64_t from_stride = 1, to_stride = 1;
    for (int32_t i = from->rank - 1; i >= 0; i--) {
        int64_t extent = from->dims[i], times = extent ? to->dims[i] / extent : 1;
        loop->dims[2 * i] = times;
        loop->dims[2 * i + 1] = extent;
        loop->strides[0][2 * i] = times ? to_stride * extent : 0;
        loop->strides[0][2 * i + 1] = to_stride;
        loop->strides[1][2 * i] = 0;
        loop->strides[1][2 * i + 1] = from_stride;
        from_stride *= extent;
        to_stride *= to->dims[i];
    }
    rt_loop_collapse(loop);
    state->size = op_dtype_bytes(call->inputs[0].type.dtype);
    return BASE_OK;
}

const rt_kernel rt_kernel_expand = {
    .name = "portable.expand", .accepts = rt_accepts_any_row_major, .prepare = prepare_expand};
const rt_kernel rt_kernel_tile = {
    .name = "portable.tile", .accepts = rt_accepts_any_row_major, .prepare = prepare_tile};

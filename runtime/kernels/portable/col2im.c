/* SPDX-License-Identifier: Apache-2.0 */
/* col2im.c: Col2Im: columns of blocks added up to the image that they were cut from. Each pixel gathers what lies on it, so that
 * threads never write to the same one, and sums are taken in one order. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>

enum { MOST = OP_MAX_RANK };

typedef struct image_state {
    op_dtype dtype;
    int32_t rank;
    int64_t planes;                                /* images times channels */
    int64_t image[MOST], block[MOST], steps[MOST]; /* extents; how many blocks there are along an axis */
    int64_t pads[MOST], ends[MOST], strides[MOST], dilations[MOST];
    int64_t pixels, block_size, blocks;
} image_state;

typedef struct image_job {
    const image_state *state;
    const void *x;
    void *y;
} image_job;

/* Which block, of those along the first `axes` axes, has the element that covers the pixel (of as many axes both); -1: none has. */
static int64_t block_of(const image_state *s, int32_t axes, int64_t pixel, int64_t element) {
    int64_t at = 0, stride = 1;
    for (int32_t i = axes - 1; i >= 0; i--) {
        const int64_t p = pixel % s->image[i] + s->pads[i] - element % s->block[i] * s->dilations[i];
        if (p < 0 || p % s->strides[i] != 0 || p / s->strides[i] >= s->steps[i]) return -1;
        at += p / s->strides[i] * stride;
        stride *= s->steps[i];
        pixel /= s->image[i];
        element /= s->block[i];
    }
    return at;
}

/* ---- rows of floats ------------------------------------------------------------------------------------- */

/* The first block whose pixel, of the blocks that are `stride` apart from `shift` on, is not before this one. */
static int64_t first_block(int64_t pixel, int64_t shift, int64_t stride) {
    const int64_t apart = pixel - shift;
    return apart <= 0 ? 0 : (apart + stride - 1) / stride;
}

/* Adds to pixels [begin, end) of a row what lies on them, element by element. */
RT_CLONES static void add_row(const image_state *s, const float *columns, int64_t row, int64_t begin,
                              int64_t end, double *sums) {
    const int32_t last = s->rank - 1;
    const int64_t width = s->block[last], stride = s->strides[last], steps = s->steps[last];
    for (int64_t element = 0; element < s->block_size; element++) {
        const int64_t at = block_of(s, last, row, element / width);
        if (at < 0) continue;
        const int64_t shift = element % width * s->dilations[last] - s->pads[last],
                      from = first_block(begin, shift, stride), beyond = first_block(end, shift, stride),
                      to = beyond < steps ? beyond : steps;
        if (from >= to) continue;
        const float *line = columns + element * s->blocks + at * steps + from;
        double *sum = sums + (from * stride + shift - begin);
        if (stride == 1) {
            RT_VECTOR for (int64_t k = 0; k < to - from; k++) sum[k] += (double)line[k];
        } else {
            for (int64_t k = 0; k < to - from; k++) sum[k * stride] += (double)line[k];
        }
    }
}

/* Rows [begin, end) of all planes. */
static void gather_rows(void *context, int64_t begin, int64_t end) {
    enum { CHUNK = 1024 };
    const image_job *job = context;
    const image_state *s = job->state;
    const int64_t width = s->image[s->rank - 1], rows = s->pixels / width;
    for (int64_t i = begin; i < end; i++) {
        const float *columns = (const float *)job->x + i / rows * s->block_size * s->blocks;
        for (int64_t from = 0; from < width; from += CHUNK) {
            const int64_t count = width - from < CHUNK ? width - from : CHUNK;
            double sums[CHUNK] = {0};
            float *y = (float *)job->y + i * width + from;
            add_row(s, columns, i % rows, from, from + count, sums);
            for (int64_t k = 0; k < count; k++) y[k] = (float)sums[k];
        }
    }
}

/* ---- any elements ---------------------------------------------------------------------------------------- */

static bool is_real(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype);
}

static void gather(void *context, int64_t begin, int64_t end) {
    const image_job *job = context;
    const image_state *s = job->state;
    const bool complex = s->dtype == OP_COMPLEX64 || s->dtype == OP_COMPLEX128;
    const op_dtype part = s->dtype == OP_COMPLEX64    ? OP_FLOAT
                          : s->dtype == OP_COMPLEX128 ? OP_DOUBLE
                                                      : s->dtype;
    for (int64_t i = begin; i < end; i++) {
        double sums[2] = {0};
        uint64_t whole = 0;
        for (int64_t element = 0; element < s->block_size; element++) {
            const int64_t column = block_of(s, s->rank, i % s->pixels, element);
            if (column < 0) continue;
            const int64_t at = (i / s->pixels * s->block_size + element) * s->blocks + column;
            if (complex) {
                sums[0] += rt_element_load(part, job->x, 2 * at);
                sums[1] += rt_element_load(part, job->x, 2 * at + 1);
            } else if (is_real(s->dtype)) {
                sums[0] += rt_element_load(s->dtype, job->x, at);
            } else {
                whole += (uint64_t)rt_integer_load(s->dtype, job->x, at);
            }
        }
        if (complex) {
            rt_element_store(part, job->y, 2 * i, sums[0]);
            rt_element_store(part, job->y, 2 * i + 1, sums[1]);
        } else if (is_real(s->dtype)) {
            rt_element_store(s->dtype, job->y, i, sums[0]);
        } else {
            rt_integer_store(s->dtype, job->y, i, whole);
        }
    }
}

/* The shape of the block is a value. */
static base_status read_block(image_state *s, const op_tensor *block, base_report *report) {
    s->block_size = s->blocks = 1;
    for (int32_t i = 0; i < s->rank; i++) {
        s->block[i] = ((const int64_t *)block->data)[i];
        int64_t reach;
        if (s->block[i] < 1 || !base_int64_multiply(s->block[i] - 1, s->dilations[i], &reach))
            return base_fail(report, BASE_INVALID,
                             "the block has the extent %" PRId64 ", expected at least 1", s->block[i]);
        const int64_t rest = s->image[i] + s->pads[i] + s->ends[i] - 1 - reach;
        s->steps[i] = rest < 0 ? 0 : rest / s->strides[i] + 1;
        s->block_size *= s->block[i];
        s->blocks *= s->steps[i];
    }
    return BASE_OK;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    image_state state = *(const image_state *)prepared->state;
    base_status status = read_block(&state, &inputs[2], report);
    const op_shape *columns = &inputs[0].type.shape;
    if (status == BASE_OK && (columns->dims[1] != outputs[0].type.shape.dims[1] * state.block_size ||
                              columns->dims[2] != state.blocks))
        status = base_fail(report, BASE_INVALID,
                           "input 0 has %" PRId64 " columns of %" PRId64 ", the image has %" PRId64
                           " blocks of %" PRId64 " elements",
                           columns->dims[2], columns->dims[1], state.blocks, state.block_size);
    if (status != BASE_OK) return status;
    image_job job = {&state, inputs[0].data, outputs[0].data};
    const int64_t width = state.image[state.rank - 1];
    if (state.dtype == OP_FLOAT && width > 0)
        rt_parallel(prepared->threads, state.planes * (state.pixels / width), width * state.block_size,
                    gather_rows, &job);
    else rt_parallel(prepared->threads, state.planes * state.pixels, 8 * state.block_size, gather, &job);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    image_state *s = BASE_NEW(arena, image_state);
    if (!s) return base_fail_memory(report);
    const op_shape *shape = &call->outputs[0].type.shape;
    const op_attributes *attributes = &call->attributes;
    s->dtype = call->inputs[0].type.dtype;
    s->rank = shape->rank - 2;
    s->planes = shape->dims[0] * shape->dims[1];
    s->pixels = 1;
    for (int32_t i = 0; i < s->rank; i++) {
        const size_t k = (size_t)i;
        s->image[i] = shape->dims[2 + i];
        s->strides[i] =
            op_attribute_find(attributes, "strides") ? op_attribute_entry(attributes, "strides", k) : 1;
        s->dilations[i] =
            op_attribute_find(attributes, "dilations") ? op_attribute_entry(attributes, "dilations", k) : 1;
        s->pads[i] = op_attribute_entry(attributes, "pads", k);
        s->ends[i] = op_attribute_entry(attributes, "pads", k + (size_t)s->rank);
        s->pixels *= s->image[i];
    }
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_col2im = {.name = "portable.col2im", .accepts = accepts, .prepare = prepare};

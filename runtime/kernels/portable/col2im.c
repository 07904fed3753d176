/* SPDX-License-Identifier: Apache-2.0 */
/* col2im.c: Col2Im: columns of blocks added up to the image that they were cut from. Each pixel gathers what lies on it, so that
 * threads never write to the same one, and sums are taken in one order. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/turn.h"
#include <inttypes.h>
#include <string.h>

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

/* ---- rows of floats -------------------------------------------------------------------------------------
 *
 * Seen from the first pixel that padding has, pixel q * stride + phase of a row meets those elements of a block whose own place has that phase, of
 * blocks that follow one another: sums are taken phase by phase, in vectors, and mixed in the end. */

enum {
    CHUNK = 1024 /* sums that are taken at a time */
};

/* Some pixels of a row: those of `count` successive q from `first` on, of all phases, one after another. */
typedef struct row_chunk {
    int64_t first, count;
} row_chunk;

/* Adds what the elements of a line of the blocks put on the pixels; `columns` begins at the first element's blocks of this line. */
RT_CLONES static void add_line(const image_state *s, const float *columns, const row_chunk *chunk,
                               double *sums) {
    const int32_t last = s->rank - 1;
    const int64_t stride = s->strides[last], steps = s->steps[last], dilation = s->dilations[last],
                  whole = dilation / stride, part = dilation % stride;
    int64_t place = 0, phase = 0; /* of the element: place * stride + phase */
    for (int64_t element = 0; element < s->block[last]; element++) {
        if (element > 0) {
            const bool more = phase + part >= stride;
            phase += more ? part - stride : part;
            place += whole + more;
        }
        const int64_t at = chunk->first - place, begin = at < 0 ? -at : 0, rest = steps - at,
                      count = (rest < chunk->count ? rest : chunk->count) - begin;
        if (count <= 0) continue;
        const float *line = columns + element * s->blocks + at + begin;
        double *sum = sums + phase * chunk->count + begin;
        RT_VECTOR for (int64_t q = 0; q < count; q++) sum[q] += (double)line[q];
    }
}

/* The sums of some pixels of a row, line by line of the blocks; `row` counts those of a plane. */
static void add_row(const image_state *s, const float *columns, int64_t row, const row_chunk *chunk,
                    double *sums) {
    const int32_t last = s->rank - 1, axis = last - 1;
    const int64_t width = s->block[last], lines = s->block_size / width, steps = s->steps[last];
    if (last == 0) {
        add_line(s, columns, chunk, sums);
        return;
    }
    /* Along the axis before the last one, block `at` has its element there where `rest` is 0. */
    const int64_t above = axis > 0 ? row / s->image[axis] : 0, stride = s->strides[axis],
                  height = s->block[axis], pixel = row - above * s->image[axis] + s->pads[axis],
                  whole = s->dilations[axis] / stride, part = s->dilations[axis] % stride;
    for (int64_t plane = 0; plane < lines / height; plane++) {
        const int64_t before = block_of(s, axis, above, plane);
        int64_t at = pixel / stride, rest = pixel - at * stride;
        for (int64_t y = 0; before >= 0 && y < height && at >= 0; y++) {
            if (rest == 0 && at < s->steps[axis])
                add_line(s,
                         columns + (plane * height + y) * width * s->blocks +
                             (before * s->steps[axis] + at) * steps,
                         chunk, sums);
            at -= whole;
            rest -= part;
            if (rest >= 0) continue;
            rest += stride;
            at--;
        }
    }
}

/* to[q * stride + phase] = from[phase * pitch + q], plus zero, as a sum that begins with zero has it. */
RT_CLONES static void mix_phases(const float *from, int64_t pitch, int64_t stride, int64_t count, float *to) {
    if (stride == 2) {
        const float *next = from + pitch;
        RT_VECTOR for (int64_t q = 0; q < count; q++) {
            to[2 * q] = from[q] + 0.0f;
            to[2 * q + 1] = next[q] + 0.0f;
        }
        return;
    }
    if (stride > 1)
        rt_turn_words((const uint32_t *)(const void *)from, pitch, stride, count, (uint32_t *)(void *)to,
                      stride);
    const float *zeros = stride > 1 ? to : from;
    RT_VECTOR for (int64_t i = 0; i < count * stride; i++) to[i] = zeros[i] + 0.0f;
}

/* The same of sums, rounded. */
RT_CLONES static void round_phases(const double *sums, int64_t stride, int64_t count, float *to) {
    float phases[CHUNK];
    for (int64_t i = 0; i < count * stride; i++) phases[i] = (float)sums[i];
    mix_phases(phases, count, stride, count, to);
}

/* Whether no two elements of blocks meet at a pixel. */
static bool is_apart(const image_state *s) {
    for (int32_t i = 0; i < s->rank; i++)
        if (s->block[i] > 1 && (s->dilations[i] != 1 || s->block[i] > s->strides[i])) return false;
    return true;
}

/* Then a row meets one line of the blocks: where the blocks of its first element are; -1: none. */
static int64_t line_of(const image_state *s, int64_t row) {
    const int32_t last = s->rank - 1;
    int64_t element = 0, elements = 1, at = 0, blocks = 1;
    for (int32_t i = last - 1; i >= 0; i--) {
        const int64_t above = i > 0 ? row / s->image[i] : 0, pixel = row - above * s->image[i] + s->pads[i],
                      place = pixel / s->strides[i], own = pixel - place * s->strides[i];
        if (own >= s->block[i] || place >= s->steps[i]) return -1;
        element += own * elements;
        elements *= s->block[i];
        at += place * blocks;
        blocks *= s->steps[i];
        row = above;
    }
    return element * s->block[last] * s->blocks + at * s->steps[last];
}

/* Pixels of a row that meets this line: each has one element, or none. */
static void place_row(const image_state *s, const float *line, const row_chunk *chunk, float *to) {
    const int32_t last = s->rank - 1;
    const int64_t stride = s->strides[last], width = s->block[last], left = s->steps[last] - chunk->first,
                  count = left < 0              ? 0
                          : left < chunk->count ? left
                                                : chunk->count;
    if (count < chunk->count)
        memset(to + count * stride, 0, (size_t)((chunk->count - count) * stride) * sizeof *to);
    if (width == stride) {
        if (count > 0) mix_phases(line + chunk->first, s->blocks, stride, count, to);
        return;
    }
    float phases[CHUNK] = {0};
    for (int64_t i = 0; i < width && count > 0; i++)
        memcpy(phases + i * count, line + i * s->blocks + chunk->first, (size_t)count * sizeof *phases);
    mix_phases(phases, count, stride, count, to);
}

/* Rows [begin, end) of all planes. */
static void gather_rows(void *context, int64_t begin, int64_t end) {
    const image_job *job = context;
    const image_state *s = job->state;
    const int32_t last = s->rank - 1;
    const int64_t width = s->image[last], rows = s->pixels / width, stride = s->strides[last],
                  before = s->pads[last], each = CHUNK / stride, start = before / stride,
                  beyond = (before + width - 1) / stride + 1;
    const bool apart = is_apart(s);
    double sums[CHUNK];
    float mixed[CHUNK];
    int64_t plane = begin / rows, row = begin % rows;
    for (int64_t i = begin; i < end; i++) {
        const float *columns = (const float *)job->x + plane * s->block_size * s->blocks;
        const int64_t line = apart ? line_of(s, row) : 0;
        float *y = (float *)job->y + i * width;
        for (int64_t first = start; first < beyond && line >= 0; first += each) {
            const row_chunk chunk = {first, beyond - first < each ? beyond - first : each};
            const int64_t from = first * stride - before, skip = from < 0 ? -from : 0, left = width - from,
                          made = chunk.count * stride, count = left < made ? left : made;
            float *to = skip == 0 && count == made ? y + from : mixed;
            if (apart) {
                place_row(s, columns + line, &chunk, to);
            } else {
                memset(sums, 0, (size_t)made * sizeof *sums);
                add_row(s, columns, row, &chunk, sums);
                round_phases(sums, stride, chunk.count, to);
            }
            if (to == mixed) memcpy(y + from + skip, mixed + skip, (size_t)(count - skip) * sizeof *y);
        }
        if (line < 0) memset(y, 0, (size_t)width * sizeof *y);
        row++;
        if (row < rows) continue;
        row = 0;
        plane++;
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
    if (state.dtype == OP_FLOAT && width > 0 && state.strides[state.rank - 1] <= CHUNK)
        rt_parallel(prepared->threads, state.planes * (state.pixels / width), width * state.block_size,
                    gather_rows, &job);
    else rt_parallel(prepared->threads, state.planes * state.pixels, 8 * state.block_size, gather, &job);
    return BASE_OK;
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

const rt_kernel rt_kernel_col2im = {
    .name = "portable.col2im", .accepts = rt_accepts_any_row_major, .prepare = prepare};

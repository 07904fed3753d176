/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: MaxPool (with indices), AveragePool and the global pools in portable C.
 *
 * The average counts, with count_include_pad, the window elements that lie in the input or its padding; never
 * those that ceil_mode puts after it. Windows that see nothing, as over an image of no elements, have the maximum that
 * padding has, the lowest number, or the average 0.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/pool_bytes.h"
#include "runtime/kernels/portable/pool_maps.h"
#include "runtime/kernels/portable/pool_rows.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/reduce_rows.h"
#include "runtime/kernels/portable/short_rows.h"
#include <math.h>
#include <string.h>

enum {
    FEW_OUTPUTS = 4,  /* of a row */
    HALF_LINE = 2048, /* elements of a row of 16 bits that becomes floats */
    HALF_MAP = 4096,  /* of a map that does as a whole */
    HALF_LINES = 4096 /* of all rows that a window sees */
};

typedef struct pool {
    op_dtype dtype;
    bool maximum, global, sums, include_padding, column_major, indices;
    int64_t maps; /* batch times channels */
    /* Always three spatial dimensions; the missing ones come first and have extent 1. */
    int64_t input[3], output[3], kernel[3], stride[3], dilation[3], before[3], after[3];
    int64_t input_size, output_size;
    /* For rows of floats. By output position of the first two dimensions, the window elements inside of the input; by
     * window element of the last dimension, the outputs for which it is inside; and those for which all are. */
    rt_part *inside[3], whole;
    int64_t *same;       /* rows of outputs from each one on that see the same lines of their windows */
    bool by_maps;        /* 16 bits, whose maps become floats one after the other */
    int64_t *counted[3]; /* of averages: how many window elements count, by output position */
    int32_t *counts;     /* the last of these, where they are so small */
    bool small;          /* floats in small maps: */
    rt_pool_map map;
    bool by_lines; /* of floats: */
    rt_pool_rows rows;
    bool by_points; /* of bytes, in windows of points that are rows of the last dimension: */
    rt_pool_bytes points;
} pool;

typedef struct pool_job {
    const pool *shape;
    const void *x;
    void *y;
    int64_t *indices;
} pool_job;

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    const op_dtype dtype = call->inputs[0].type.dtype;
    if (!rt_accepts_row_major(call)) return false;
    if (call->code == OP_MAX_POOL && rt_is_byte(dtype)) return true;
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype);
}

static double lowest(op_dtype dtype) {
    return dtype == OP_INT8 ? INT8_MIN : dtype == OP_UINT8 ? 0 : (double)-INFINITY;
}

/* The window elements of one dimension that lie inside of the input at output position `at`. */
static rt_part taps_inside(const pool *shape, int dimension, int64_t at) {
    return rt_part_inside(at * shape->stride[dimension] - shape->before[dimension],
                          shape->dilation[dimension], shape->input[dimension], shape->kernel[dimension]);
}

/* How many window elements of one dimension count for an average that includes padding. */
static int64_t taps_padded(const pool *shape, int dimension, int64_t at) {
    return rt_part_inside(at * shape->stride[dimension] - shape->before[dimension],
                          shape->dilation[dimension], shape->input[dimension] + shape->after[dimension],
                          shape->kernel[dimension])
        .high;
}

/* How many count at all. */
static int64_t taps_counted(const pool *shape, int dimension, int64_t at) {
    if (shape->include_padding) return taps_padded(shape, dimension, at);
    const rt_part inside = taps_inside(shape, dimension, at);
    return inside.high - inside.low;
}

typedef struct pool_window {
    rt_part inside[3];
    int64_t start[3];
    int64_t count; /* what an average divides by */
} pool_window;

static void find_window(const pool *shape, int64_t position, pool_window *window) {
    const int64_t at[3] = {position / shape->output[2] / shape->output[1],
                           position / shape->output[2] % shape->output[1], position % shape->output[2]};
    window->count = 1;
    for (int i = 0; i < 3; i++) {
        window->inside[i] = taps_inside(shape, i, at[i]);
        window->start[i] = at[i] * shape->stride[i] - shape->before[i];
        window->count *= taps_counted(shape, i, at[i]);
    }
    if (window->count == 0 || shape->sums) window->count = 1;
}

/* A loop over the input elements of a window in order; `index` is the element within its map. */
#define EACH_ELEMENT(shape, window, statement)                                                               \
    for (int64_t kz = (window).inside[0].low; kz < (window).inside[0].high; kz++) {                          \
        for (int64_t ky = (window).inside[1].low; ky < (window).inside[1].high; ky++) {                      \
            const int64_t iz = (window).start[0] + kz * (shape)->dilation[0];                                \
            const int64_t iy = (window).start[1] + ky * (shape)->dilation[1];                                \
            const int64_t line = (iz * (shape)->input[1] + iy) * (shape)->input[2] + (window).start[2];      \
            for (int64_t kx = (window).inside[2].low; kx < (window).inside[2].high; kx++) {                  \
                const int64_t index = line + kx * (shape)->dilation[2];                                      \
                statement                                                                                    \
            }                                                                                                \
        }                                                                                                    \
    }

static int64_t column_major_index(const pool *shape, int64_t index) {
    const int64_t x = index % shape->input[2], y = index / shape->input[2] % shape->input[1];
    const int64_t z = index / shape->input[2] / shape->input[1];
    return (x * shape->input[1] + y) * shape->input[0] + z;
}

/* What is told of the element that was found in a map; -1: there is none. */
static int64_t index_in_tensor(const pool *shape, int64_t map, int64_t found) {
    const int64_t index = found < 0 ? 0 : shape->column_major ? column_major_index(shape, found) : found;
    return map * shape->input_size + index;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* NaN wins, as in numpy: every comparison with it is false. */
#define BETTER(value, best) ((value) > (best) || (value) != (value))

/* The largest of some floats, or their sum, in 16 interleaved parts. */
RT_CLONES static float reduce_run(const float *x, int64_t count, bool maximum) {
    float parts[16];
    for (int lane = 0; lane < 16; lane++) parts[lane] = maximum ? -INFINITY : 0;
    int64_t i = 0;
    if (maximum) {
        for (; i + 16 <= count; i += 16) {
            RT_VECTOR for (int lane = 0; lane < 16; lane++) {
                parts[lane] = BETTER(x[i + lane], parts[lane]) ? x[i + lane] : parts[lane];
            }
        }
    } else {
        for (; i + 16 <= count; i += 16) {
            RT_VECTOR for (int lane = 0; lane < 16; lane++) parts[lane] += x[i + lane];
        }
    }
    for (; i < count; i++) {
        if (maximum) parts[i % 16] = BETTER(x[i], parts[i % 16]) ? x[i] : parts[i % 16];
        else parts[i % 16] += x[i];
    }
    for (int lane = 1; lane < 16; lane++) {
        if (maximum) parts[0] = BETTER(parts[lane], parts[0]) ? parts[lane] : parts[0];
        else parts[0] += parts[lane];
    }
    return parts[0];
}

/* One window element of a row of outputs. The usual strides are constants, for the vectoriser. */
#define ROW(type, statement)                                                                                 \
    if (stride == 1) {                                                                                       \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const type value = x[i];                                                                         \
            statement                                                                                        \
        }                                                                                                    \
    } else if (stride == 2) {                                                                                \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const type value = x[2 * i];                                                                     \
            statement                                                                                        \
        }                                                                                                    \
    } else {                                                                                                 \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const type value = x[stride * i];                                                                \
            statement                                                                                        \
        }                                                                                                    \
    }

RT_CLONES static void maximum_row(const float *x, int64_t stride, float *y, int64_t count) {
    ROW(float, y[i] = BETTER(value, y[i]) ? value : y[i];)
}

RT_CLONES static void sum_row(const float *x, int64_t stride, float *y, int64_t count) {
    ROW(float, y[i] += value;)
}

/* `first` is the index of x[0]; an index below zero: nothing has been seen. */
RT_CLONES static void maximum_row_indices(const float *x, int64_t stride, float *y, int64_t *indices,
                                          int64_t first, int64_t count) {
    ROW(float, {
        const bool taken = (indices[i] < 0) | (value > y[i]) | (value != value);
        y[i] = taken ? value : y[i];
        indices[i] = taken ? first + stride * i : indices[i];
    })
}

/* A row of outputs, one window element after the other: each output sees them in order. */
static void pool_row(const pool_job *job, int64_t map, int64_t z, int64_t y) {
    const pool *shape = job->shape;
    const float *x = (const float *)job->x + map * shape->input_size;
    const int64_t begin = map * shape->output_size + (z * shape->output[1] + y) * shape->output[2];
    const int64_t stride = shape->stride[2];
    float *to = (float *)job->y + begin;
    int64_t *indices = job->indices ? job->indices + begin : NULL;
    for (int64_t i = 0; i < shape->output[2]; i++) to[i] = shape->maximum ? -INFINITY : 0;
    for (int64_t i = 0; indices && i < shape->output[2]; i++) indices[i] = -1;
    for (int64_t kz = shape->inside[0][z].low; kz < shape->inside[0][z].high; kz++) {
        const int64_t plane = z * shape->stride[0] - shape->before[0] + kz * shape->dilation[0];
        for (int64_t ky = shape->inside[1][y].low; ky < shape->inside[1][y].high; ky++) {
            const int64_t line =
                plane * shape->input[1] + y * shape->stride[1] - shape->before[1] + ky * shape->dilation[1];
            for (int64_t kx = 0; kx < shape->kernel[2]; kx++) {
                const int64_t low = shape->inside[2][kx].low, count = shape->inside[2][kx].high - low;
                const int64_t first =
                    line * shape->input[2] + low * stride + kx * shape->dilation[2] - shape->before[2];
                if (count <= 0) continue;
                if (indices) maximum_row_indices(x + first, stride, to + low, indices + low, first, count);
                else if (shape->maximum) maximum_row(x + first, stride, to + low, count);
                else sum_row(x + first, stride, to + low, count);
            }
        }
    }
    for (int64_t i = 0; indices && i < shape->output[2]; i++)
        indices[i] = index_in_tensor(shape, map, indices[i]);
}

/* Whether what makes rows divides their sums, too. */
static bool rows_divide(const pool *shape) {
    const int64_t most = shape->kernel[0] * shape->kernel[1];
    return shape->by_lines && shape->rows.divides && shape->counts && most <= INT32_MAX / shape->kernel[2];
}

static void divide_in_run(const pool *shape, int64_t z, int64_t y, rt_pool_run *run) {
    if (shape->maximum || shape->sums || !rows_divide(shape)) return;
    run->counts = shape->counts;
    run->others = (int32_t)(shape->counted[0][z] * shape->counted[1][y]);
}

/* Rows of outputs from y on of windows that see whole lines, as many as see the same number of them. `line`: of pool_rows.h. Returns how
 * many. */
static int64_t pool_lines(const pool_job *job, int64_t map, int64_t z, int64_t y, float *line) {
    const pool *shape = job->shape;
    const rt_part seen = shape->inside[1][y], deep = shape->inside[0][z];
    const int64_t plane = z * shape->stride[0] - shape->before[0] + deep.low * shape->dilation[0];
    const int64_t first = y * shape->stride[1] - shape->before[1] + seen.low * shape->dilation[1];
    const bool any = seen.low < seen.high && deep.low < deep.high;
    rt_pool_run run = {.x = (const float *)job->x + map * shape->input_size,
                       .rows = shape->same[y],
                       .step = shape->stride[1] * shape->input[2],
                       .planes = any ? deep.high - deep.low : 0,
                       .lines = any ? seen.high - seen.low : 0};
    divide_in_run(shape, z, y, &run);
    if (any) run.x += (plane * shape->input[1] + first) * shape->input[2];
    rt_pool_rows_run(&shape->rows, &run, line,
                     (float *)job->y + map * shape->output_size +
                         (z * shape->output[1] + y) * shape->output[2]);
    return run.rows;
}

/* The largest bytes of the lines that the windows of a row of outputs see: of line elements [first, first + count) of each, where
 * what lies outside of the image is the lowest number. */
static void maximum_of_lines(const pool_job *job, int64_t map, int64_t z, int64_t y, int64_t first,
                             int64_t count, uint8_t *line) {
    const pool *shape = job->shape;
    const bool is_signed = shape->dtype == OP_INT8;
    const uint8_t lowest_byte = is_signed ? 0x80 : 0;
    const uint8_t *x = (const uint8_t *)job->x + map * shape->input_size;
    const rt_part planes = shape->inside[0][z], rows = shape->inside[1][y];
    int64_t low = first < 0 ? -first : 0, end = least(first + count, shape->input[2]) - first;
    if (end <= low || planes.high <= planes.low || rows.high <= rows.low) low = end = count;
    rt_fill_side(line, lowest_byte, low);
    rt_fill_side(line + end, lowest_byte, count - end);
    for (int64_t kz = planes.low; kz < planes.high && end > low; kz++) {
        const int64_t plane = z * shape->stride[0] - shape->before[0] + kz * shape->dilation[0];
        const int64_t row =
            plane * shape->input[1] + y * shape->stride[1] - shape->before[1] + rows.low * shape->dilation[1];
        const uint8_t *from = x + row * shape->input[2] + first + low;
        const int64_t step = shape->dilation[1] * shape->input[2];
        if (kz == planes.low) {
            rt_largest_bytes(is_signed, from, rows.high - rows.low, step, line + low, end - low);
            continue;
        }
        for (int64_t ky = 0; ky < rows.high - rows.low; ky++, from += step)
            rt_larger_bytes(is_signed, from, from, line + low, end - low);
    }
}

enum { LINE = 2048 /* bytes */ };

/* The largest bytes of some rows of outputs: of all lines first, then of neighbours, at all positions, so that both are vectors of
 * successive bytes; then every stride-th is one. Rows lie one after another meanwhile: what was just written is not read at once, at another
 * place, for which it would have to be waited. */
static void maximum_of_rows(const pool_job *job, int64_t map, int64_t z, int64_t y, int64_t rows,
                            int64_t length) {
    const pool *shape = job->shape;
    const bool is_signed = shape->dtype == OP_INT8;
    const int64_t width = shape->output[2],
                  last = rows * length - (shape->kernel[2] - 1) * shape->dilation[2];
    uint8_t lines[LINE], largest[LINE],
        *to = (uint8_t *)job->y + map * shape->output_size + (z * shape->output[1] + y) * width;
    for (int64_t i = 0; i < rows; i++)
        maximum_of_lines(job, map, z, y + i, -shape->before[2], length, lines + i * length);
    rt_largest_bytes(is_signed, lines, shape->kernel[2], shape->dilation[2], largest, last);
    for (int64_t i = 0; i < rows; i++)
        rt_copy_every(to + i * width, largest + i * length, width, shape->stride[2]);
}

/* The same of one row that is longer: as many outputs at a time as the line holds. */
static void maximum_of_row(const pool_job *job, int64_t map, int64_t z, int64_t y) {
    const pool *shape = job->shape;
    const bool is_signed = shape->dtype == OP_INT8;
    const int64_t stride = shape->stride[2], reach = (shape->kernel[2] - 1) * shape->dilation[2] + 1;
    const int64_t most = reach + stride <= LINE ? (LINE - reach) / stride + 1 : 1;
    uint8_t line[LINE], largest[LINE],
        *to = (uint8_t *)job->y + map * shape->output_size + (z * shape->output[1] + y) * shape->output[2];
    for (int64_t i = 0; i < shape->output[2]; i += most) {
        const int64_t outputs = least(most, shape->output[2] - i), first = i * stride - shape->before[2];
        const int64_t positions = (outputs - 1) * stride + 1;
        if (reach + stride <= LINE) {
            maximum_of_lines(job, map, z, y, first, positions + reach - 1, line);
            rt_largest_bytes(is_signed, line, shape->kernel[2], shape->dilation[2], largest, positions);
        } else { /* windows that are wider than the line: element by element */
            uint8_t found[2] = {is_signed ? 0x80 : 0, 0};
            for (int64_t kx = 0; kx < shape->kernel[2]; kx++) {
                maximum_of_lines(job, map, z, y, first + kx * shape->dilation[2], 1, found + 1);
                rt_largest_bytes(is_signed, found, 2, 1, largest, 1);
                found[0] = largest[0];
            }
        }
        rt_copy_every(to + i, largest, outputs, stride);
    }
}

static void pool_map_bytes(const pool_job *job, int64_t map) {
    const pool *shape = job->shape;
    const int64_t length =
        (shape->output[2] - 1) * shape->stride[2] + (shape->kernel[2] - 1) * shape->dilation[2] + 1;
    const int64_t together = length <= LINE ? LINE / length : 0;
    for (int64_t z = 0; z < shape->output[0]; z++) {
        for (int64_t y = 0; y < shape->output[1]; y += together ? together : 1) {
            if (together) maximum_of_rows(job, map, z, y, least(together, shape->output[1] - y), length);
            else maximum_of_row(job, map, z, y);
        }
    }
}

/* The same where a row has few outputs: window after window, line by line. Without indices, and close together. */
static void pool_windows(const pool_job *job, int64_t map, int64_t z, int64_t y) {
    const pool *shape = job->shape;
    const float *x = (const float *)job->x + map * shape->input_size;
    float *to = (float *)job->y + map * shape->output_size + (z * shape->output[1] + y) * shape->output[2];
    for (int64_t i = 0; i < shape->output[2]; i++) {
        const int64_t start = i * shape->stride[2] - shape->before[2], low = start < 0 ? -start : 0;
        const int64_t rest = shape->input[2] - start,
                      count = (rest < shape->kernel[2] ? rest : shape->kernel[2]) - low;
        float result = shape->maximum ? -INFINITY : 0;
        for (int64_t kz = shape->inside[0][z].low; kz < shape->inside[0][z].high && count > 0; kz++) {
            const int64_t plane = z * shape->stride[0] - shape->before[0] + kz * shape->dilation[0];
            for (int64_t ky = shape->inside[1][y].low; ky < shape->inside[1][y].high; ky++) {
                const int64_t line = plane * shape->input[1] + y * shape->stride[1] - shape->before[1] +
                                     ky * shape->dilation[1];
                const float part =
                    reduce_run(x + line * shape->input[2] + start + low, count, shape->maximum);
                if (!shape->maximum) result += part;
                else if (BETTER(part, result)) result = part;
            }
        }
        to[i] = result;
    }
}

/* Division by a power of two is multiplication. */
RT_CLONES static void divide_all(float *y, int64_t count, int64_t by) {
    const float divisor = (float)by;
    if ((by & (by - 1)) == 0) {
        const float factor = 1 / divisor;
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] *= factor;
    } else {
        RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] /= divisor;
    }
}

/* The same, each by as many times `others` as its own count says. */
RT_CLONES static void divide_each(float *y, const int32_t *counts, int64_t count, int32_t others) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) {
        const int32_t by = counts[i] * others;
        y[i] /= (float)(by ? by : 1);
    }
}

/* The sums of a row become averages. `others`: how many window elements of the other dimensions count. */
static void divide_row(const pool *shape, int64_t others, float *y) {
    const int64_t outputs = shape->output[2];
    if (shape->whole.low == 0 && shape->whole.high == outputs) {
        const int64_t most = others * shape->kernel[2];
        divide_all(y, outputs, most ? most : 1);
    } else if (shape->kernel[2] <= INT32_MAX / (others ? others : 1)) {
        divide_each(y, shape->counts, outputs, (int32_t)others);
    } else {
        for (int64_t i = 0; i < outputs; i++) {
            const int64_t count = others * shape->counted[2][i];
            y[i] /= (float)(count ? count : 1);
        }
    }
}

static void pool_map_float(const pool_job *job, int64_t map, float *line) {
    const pool *shape = job->shape;
    const bool few = shape->output[2] < FEW_OUTPUTS && shape->kernel[2] >= FEW_OUTPUTS &&
                     shape->dilation[2] == 1 && !job->indices,
               divides = !shape->maximum && !shape->sums && (few || !rows_divide(shape));
    float *to = (float *)job->y + map * shape->output_size;
    if (shape->small && rt_pool_map_run(&shape->map, (const float *)job->x + map * shape->input_size, to))
        return;
    for (int64_t z = 0; z < shape->output[0]; z++) {
        const int64_t planes = shape->maximum ? 0 : shape->counted[0][z];
        for (int64_t y = 0, rows = 1; y < shape->output[1]; y += rows) {
            if (few) pool_windows(job, map, z, y);
            else if (shape->by_lines) rows = pool_lines(job, map, z, y, line);
            else pool_row(job, map, z, y);
            for (int64_t i = y; i < y + rows; i++, to += shape->output[2])
                if (divides) divide_row(shape, planes * shape->counted[1][i], to);
        }
    }
}

/* How many rows of outputs see the same lines of their windows as this one, itself and those after it. False when memory runs out. */
static bool find_same(pool *shape, base_arena *arena) {
    const rt_part *inside = shape->inside[1];
    shape->same = BASE_ARRAY(arena, int64_t, (size_t)shape->output[1]);
    for (int64_t i = shape->output[1] - 1; shape->same && i >= 0; i--) {
        const bool last = i + 1 == shape->output[1] || inside[i].low != inside[i + 1].low ||
                          inside[i].high != inside[i + 1].high ||
                          (!shape->maximum && taps_counted(shape, 1, i) != taps_counted(shape, 1, i + 1));
        shape->same[i] = last ? 1 : shape->same[i + 1] + 1;
    }
    return shape->same != NULL;
}

/* False when memory runs out. */
static bool find_parts(pool *shape, base_arena *arena) {
    for (int d = 0; d < 3; d++) {
        const int64_t count = d < 2 ? shape->output[d] : shape->kernel[d];
        shape->inside[d] = BASE_ARRAY(arena, rt_part, (size_t)count);
        if (!shape->inside[d]) return false;
        for (int64_t i = 0; i < count && d < 2; i++) shape->inside[d][i] = taps_inside(shape, d, i);
        if (d == 1 && !find_same(shape, arena)) return false;
        if (shape->maximum) continue;
        shape->counted[d] = BASE_ARRAY(arena, int64_t, (size_t)shape->output[d]);
        if (!shape->counted[d]) return false;
        for (int64_t i = 0; i < shape->output[d]; i++) shape->counted[d][i] = taps_counted(shape, d, i);
        if (d < 2 || shape->kernel[d] > INT32_MAX) continue;
        shape->counts = BASE_ARRAY(arena, int32_t, (size_t)shape->output[d]);
        if (!shape->counts) return false;
        for (int64_t i = 0; i < shape->output[d]; i++) shape->counts[i] = (int32_t)shape->counted[d][i];
    }
    const int64_t outputs = shape->output[2];
    shape->whole = (rt_part){0, outputs};
    for (int64_t k = 0; k < shape->kernel[2]; k++) {
        rt_part *part = &shape->inside[2][k];
        *part = rt_part_inside(k * shape->dilation[2] - shape->before[2], shape->stride[2], shape->input[2],
                               outputs);
        if (part->low > shape->whole.low) shape->whole.low = part->low;
        if (part->high < shape->whole.high) shape->whole.high = part->high;
    }
    if (shape->whole.low >= shape->whole.high) shape->whole = (rt_part){outputs, outputs};
    return true;
}

/* Windows of floats over several elements, or of 16 bits whose rows become floats that lie together. */
static void find_lines(pool *shape) {
    const bool halves = rt_is_half(shape->dtype) && !shape->by_maps;
    if (!(shape->dtype == OP_FLOAT || shape->by_maps || halves) || shape->indices || shape->global ||
        !shape->inside[0])
        return;
    if (halves && (shape->input[2] < 1 || shape->kernel[1] > HALF_LINES / shape->input[2] ||
                   shape->kernel[0] > HALF_LINES / (shape->kernel[1] * shape->input[2])))
        return;
    if (shape->kernel[0] * shape->kernel[1] * shape->kernel[2] == 1) return;
    shape->rows = (rt_pool_rows){.maximum = shape->maximum,
                                 .width = shape->input[2],
                                 .outputs = shape->output[2],
                                 .kernel = shape->kernel[2],
                                 .stride = shape->stride[2],
                                 .dilation = shape->dilation[2],
                                 .padding = shape->before[2],
                                 .step = shape->dilation[1] * shape->input[2],
                                 .plane = shape->dilation[0] * shape->input[1] * shape->input[2]};
    if (halves) {
        shape->rows.step = shape->input[2];
        shape->rows.plane = shape->kernel[1] * shape->input[2];
    }
    shape->by_lines = rt_pool_rows_prepare(&shape->rows);
}

/* By what the sum of each window is divided, some more for whole vectors. False when memory runs out. */
static bool find_map_counts(pool *shape, base_arena *arena) {
    const int64_t all = rt_pool_map_counts(&shape->map), columns = shape->output[2];
    float *counts = BASE_ARRAY(arena, float, (size_t)all);
    for (int64_t i = 0; counts && i < all; i++) {
        const int64_t row = i / columns,
                      others = shape->counted[0][0] * (row < shape->output[1] ? shape->counted[1][row] : 0),
                      count = others * shape->counted[2][i % columns];
        counts[i] = (float)(count ? count : 1);
    }
    shape->map.counts = counts;
    return counts != NULL;
}

/* Two dimensions of floats. Sums only where other machines make them down first, too. False when memory runs out. */
static bool find_small(pool *shape, base_arena *arena) {
    if (shape->dtype != OP_FLOAT || shape->indices || shape->global || !shape->inside[0]) return true;
    if (!shape->maximum && (!shape->by_lines || shape->output[2] < FEW_OUTPUTS)) return true;
    if (shape->input[0] != 1 || shape->kernel[0] != 1 || shape->output[0] != 1 || shape->dilation[1] != 1 ||
        shape->dilation[2] != 1)
        return true;
    shape->map.maximum = shape->maximum;
    for (int i = 0; i < 2; i++) {
        shape->map.input[i] = shape->input[i + 1];
        shape->map.output[i] = shape->output[i + 1];
        shape->map.kernel[i] = shape->kernel[i + 1];
        shape->map.stride[i] = shape->stride[i + 1];
        shape->map.before[i] = shape->before[i + 1];
    }
    shape->small = rt_pool_map_fits(&shape->map);
    if (!shape->small) return true;
    return rt_pool_map_prepare(&shape->map, arena) &&
           (shape->maximum || shape->sums || find_map_counts(shape, arena));
}

static void pool_map_any(const pool_job *job, int64_t map) {
    const pool *shape = job->shape;
    for (int64_t position = 0; position < shape->output_size; position++) {
        pool_window window;
        find_window(shape, position, &window);
        const int64_t base = map * shape->input_size;
        double best = lowest(shape->dtype), sum = 0;
        int64_t found = -1;
        EACH_ELEMENT(shape, window, {
            const double value = rt_element_load(shape->dtype, job->x, base + index);
            if (found < 0 || BETTER(value, best)) {
                best = value;
                found = index;
            }
            sum += value;
        })
        const int64_t at = map * shape->output_size + position;
        rt_element_store(shape->dtype, job->y, at, shape->maximum ? best : sum / (double)window.count);
        if (job->indices) job->indices[at] = index_in_tensor(shape, map, found);
    }
}

/* The rows of 16 bits that a row of outputs sees become floats one after the other, and those the outputs. `line`: of pool_rows.h. */
static void pool_lines_halves(const pool_job *job, int64_t map, int64_t z, int64_t y, float *line,
                              float *to) {
    const pool *shape = job->shape;
    const uint16_t *x = (const uint16_t *)job->x + map * shape->input_size;
    const int64_t width = shape->input[2];
    const rt_part deep = shape->inside[0][z], seen = shape->inside[1][y];
    _Alignas(RT_ALIGNMENT) float lines[HALF_LINES];
    for (int64_t kz = deep.low; kz < deep.high; kz++) {
        const int64_t plane = z * shape->stride[0] - shape->before[0] + kz * shape->dilation[0];
        for (int64_t ky = seen.low; ky < seen.high; ky++) {
            const int64_t row =
                plane * shape->input[1] + y * shape->stride[1] - shape->before[1] + ky * shape->dilation[1];
            float *floats = lines + (kz - deep.low) * shape->rows.plane + (ky - seen.low) * width;
            rt_half_load(shape->dtype, floats, x + row * width, width);
        }
    }
    const bool any = seen.low < seen.high && deep.low < deep.high;
    rt_pool_run run = {.x = lines,
                       .rows = 1,
                       .planes = any ? deep.high - deep.low : 0,
                       .lines = any ? seen.high - seen.low : 0};
    divide_in_run(shape, z, y, &run);
    rt_pool_rows_run(&shape->rows, &run, line, to);
}

/* A row of outputs of 16 bits: the rows that it sees become floats one after the other. */
static void pool_row_halves(const pool_job *job, int64_t map, int64_t z, int64_t y, float *to) {
    const pool *shape = job->shape;
    const uint16_t *x = (const uint16_t *)job->x + map * shape->input_size;
    const int64_t stride = shape->stride[2], width = shape->input[2];
    _Alignas(RT_ALIGNMENT) float line[HALF_LINE];
    for (int64_t i = 0; i < shape->output[2]; i++) to[i] = shape->maximum ? -INFINITY : 0;
    for (int64_t kz = shape->inside[0][z].low; kz < shape->inside[0][z].high; kz++) {
        const int64_t plane = z * shape->stride[0] - shape->before[0] + kz * shape->dilation[0];
        for (int64_t ky = shape->inside[1][y].low; ky < shape->inside[1][y].high; ky++) {
            const int64_t row =
                plane * shape->input[1] + y * shape->stride[1] - shape->before[1] + ky * shape->dilation[1];
            rt_half_load(shape->dtype, line, x + row * width, width);
            for (int64_t kx = 0; kx < shape->kernel[2]; kx++) {
                const int64_t low = shape->inside[2][kx].low, count = shape->inside[2][kx].high - low;
                if (count <= 0) continue;
                const float *first = line + low * stride + kx * shape->dilation[2] - shape->before[2];
                (shape->maximum ? maximum_row : sum_row)(first, stride, to + low, count);
            }
        }
    }
}

static void pool_map_halves(const pool_job *job, int64_t map, float *padded) {
    const pool *shape = job->shape;
    _Alignas(RT_ALIGNMENT) float line[HALF_LINE], to[HALF_LINE];
    if (!shape->global) {
        uint16_t *row = (uint16_t *)job->y + map * shape->output_size;
        for (int64_t z = 0; z < shape->output[0]; z++) {
            for (int64_t y = 0; y < shape->output[1]; y++, row += shape->output[2]) {
                if (shape->by_lines) pool_lines_halves(job, map, z, y, padded, to);
                else pool_row_halves(job, map, z, y, to);
                if (!shape->maximum && !shape->sums && !rows_divide(shape))
                    divide_row(shape, shape->counted[0][z] * shape->counted[1][y], to);
                rt_half_store(shape->dtype, row, to, shape->output[2]);
            }
        }
        return;
    }
    double all = shape->maximum ? -INFINITY : 0;
    for (int64_t from = 0; from < shape->input_size; from += HALF_LINE) {
        const int64_t some = least(shape->input_size - from, HALF_LINE);
        rt_half_load(shape->dtype, line, (const uint16_t *)job->x + map * shape->input_size + from, some);
        const double part = (double)reduce_run(line, some, shape->maximum);
        if (!shape->maximum) all += part;
        else if (BETTER(part, all)) all = part;
    }
    rt_element_store(shape->dtype, job->y, map,
                     shape->maximum ? all : all / (double)(shape->input_size ? shape->input_size : 1));
}

/* A small map of 16 bits, as one of floats. */
static void pool_map_widened(const pool_job *job, int64_t map, float *line) {
    const pool *shape = job->shape;
    _Alignas(RT_ALIGNMENT) float x[HALF_MAP], y[HALF_MAP];
    const pool_job floats = {.shape = shape, .x = x, .y = y};
    rt_half_load(shape->dtype, x, (const uint16_t *)job->x + map * shape->input_size, shape->input_size);
    pool_map_float(&floats, 0, line);
    rt_half_store(shape->dtype, (uint16_t *)job->y + map * shape->output_size, y, shape->output_size);
}

static void pool_member(void *context, int member, int members) {
    const pool_job *job = context;
    const pool *shape = job->shape;
    float line[RT_POOL_LINE];
    if (shape->global && shape->maximum && shape->dtype == OP_FLOAT && !job->indices &&
        rt_reduces_rows(OP_REDUCE_MAX, shape->input_size)) {
        const int64_t first = shape->maps * member / members, end = shape->maps * (member + 1) / members;
        rt_reduce_rows(OP_REDUCE_MAX, RT_ELEMENTS, (const float *)job->x + first * shape->input_size,
                       shape->input_size, (float *)job->y + first, end - first);
        return;
    }
    if (shape->by_lines) rt_pool_rows_begin(&shape->rows, line);
    for (int64_t map = member; map < shape->maps; map += members) {
        if (shape->by_maps) {
            pool_map_widened(job, map, line);
        } else if (rt_is_half(shape->dtype) && !job->indices && (shape->inside[0] || shape->global)) {
            pool_map_halves(job, map, line);
        } else if (shape->maximum && !job->indices && shape->inside[0] && shape->dtype != OP_FLOAT) {
            pool_map_bytes(job, map);
        } else if (shape->dtype != OP_FLOAT) {
            pool_map_any(job, map);
        } else if (shape->global) {
            const float all = reduce_run((const float *)job->x + map * shape->input_size, shape->input_size,
                                         shape->maximum);
            ((float *)job->y)[map] = shape->maximum ? all : all / (float)shape->input_size;
        } else {
            pool_map_float(job, map, line);
        }
    }
}

static void points_member(void *context, int member, int members) {
    const pool_job *job = context;
    const pool *shape = job->shape;
    const int64_t rows = shape->output[0], all = shape->maps * rows;
    const int64_t size = shape->output[1] * shape->output[2];
    for (int64_t i = all * member / members; i < all * (member + 1) / members; i++)
        rt_pool_bytes_row(&shape->points, (const uint8_t *)job->x + i / rows * shape->input_size, i % rows,
                          (uint8_t *)job->y + i * size);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const pool *shape = prepared->state;
    pool_job job = {.shape = shape, .x = inputs[0].data, .y = outputs[0].data};
    if (shape->indices) job.indices = outputs[1].data;
    const double work = (double)shape->maps * (double)shape->output_size * (double)shape->kernel[0] *
                        (double)shape->kernel[1] * (double)shape->kernel[2];
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads,
                shape->by_points ? points_member : pool_member, &job);
    return BASE_OK;
}

/* Short rows of bytes that windows divide evenly, one after another, are one row. */
static void join_rows(pool *shape) {
    const bool bytes = rt_is_byte(shape->dtype);
    if (!bytes || !shape->maximum || shape->indices || shape->global || shape->dilation[2] != 1) return;
    if (shape->kernel[2] != shape->stride[2] || shape->before[2] != 0) return;
    if (shape->input[2] != shape->output[2] * shape->stride[2]) return;
    for (int i = 0; i < 2; i++)
        if (shape->kernel[i] != 1 || shape->stride[i] != 1 || shape->before[i] != 0 ||
            shape->input[i] != shape->output[i])
            return;
    enum { SHORT = 256 };
    const int64_t rows = shape->maps * shape->input[0] * shape->input[1];
    if (shape->input[2] > SHORT || rows * shape->input[2] > RT_PARALLEL_WORK) return;
    shape->input[2] *= rows;
    shape->output[2] *= rows;
    shape->input[0] = shape->input[1] = shape->output[0] = shape->output[1] = shape->maps = 1;
    shape->input_size = shape->input[2];
    shape->output_size = shape->output[2];
}

static void find_points(pool *shape) {
    if ((shape->dtype != OP_INT8 && shape->dtype != OP_UINT8) || shape->global || shape->indices) return;
    if (shape->kernel[2] != 1 || shape->stride[2] != 1 || shape->before[2] != 0 ||
        shape->output[2] != shape->input[2])
        return;
    shape->by_points = true;
    shape->points = (rt_pool_bytes){.negative = shape->dtype == OP_INT8, .channels = shape->input[2]};
    for (int i = 0; i < 2; i++) {
        shape->points.input[i] = shape->input[i];
        shape->points.output[i] = shape->output[i];
        shape->points.kernel[i] = shape->kernel[i];
        shape->points.stride[i] = shape->stride[i];
        shape->points.dilation[i] = shape->dilation[i];
        shape->points.before[i] = shape->before[i];
    }
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    const op_shape *x = &call->inputs[0].type.shape;
    pool *shape = BASE_NEW(arena, pool);
    if (!shape) return base_fail_memory(report);
    *shape = (pool){.dtype = call->inputs[0].type.dtype,
                    .maximum = call->code == OP_MAX_POOL || call->code == OP_GLOBAL_MAX_POOL,
                    .global = call->code == OP_GLOBAL_MAX_POOL || call->code == OP_GLOBAL_AVERAGE_POOL,
                    .sums = op_attribute_integer(&call->attributes, "ouro.sum", 0) != 0,
                    .include_padding = op_attribute_integer(&call->attributes, "count_include_pad", 0) != 0,
                    .column_major = op_attribute_integer(&call->attributes, "storage_order", 0) != 0,
                    .indices = call->output_count > 1 && call->outputs[1].type.dtype != OP_NONE,
                    .maps = x->dims[0] * x->dims[1],
                    .input_size = 1,
                    .output_size = 1};
    op_window window = {.rank = 3};
    if (shape->global) { /* any number of spatial dimensions: they are one row */
        int64_t size = 1;
        for (int32_t i = 2; i < x->rank; i++) size *= x->dims[i];
        window = (op_window){
            .rank = 1, .input = {size}, .output = {1}, .kernel = {size}, .stride = {1}, .dilation = {1}};
    } else {
        base_status status = op_window_read(call, NULL, &window, report);
        if (status != BASE_OK) return status;
    }
    const op_window three = op_window_of_three(&window);
    for (int i = 0; i < 3; i++) {
        shape->input[i] = three.input[i];
        shape->output[i] = three.output[i];
        shape->kernel[i] = three.kernel[i];
        shape->stride[i] = three.stride[i];
        shape->dilation[i] = three.dilation[i];
        shape->before[i] = three.before[i];
        shape->after[i] = three.after[i];
        shape->input_size *= shape->input[i];
        shape->output_size *= shape->output[i];
    }
    join_rows(shape);
    find_points(shape);
    const bool halves = rt_is_half(shape->dtype) && !shape->indices && shape->input[2] <= HALF_LINE &&
                        shape->output[2] <= HALF_LINE;
    const bool by_rows = halves || shape->dtype == OP_FLOAT || rt_is_byte(shape->dtype);
    if (by_rows && !shape->global && !find_parts(shape, arena)) return base_fail_memory(report);
    shape->by_maps =
        halves && !shape->global && shape->input_size <= HALF_MAP && shape->output_size <= HALF_MAP;
    find_lines(shape);
    if (!find_small(shape, arena)) return base_fail_memory(report);
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_pool = {.name = "portable.pool", .accepts = accepts, .prepare = prepare};

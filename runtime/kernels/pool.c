/* pool.c: MaxPool (with indices), AveragePool and the global pools in portable C.
 *
 * The average counts, with count_include_pad, the window elements that lie in the input or its padding; never
 * those that ceil_mode puts behind it. Windows that see nothing, as over an image of no elements, have the maximum that
 * padding has, the lowest number, or the average 0.
 */
#include "ir/op_window.h"
#include "runtime/kernels/product.h"
#include <math.h>

typedef struct pool {
    op_dtype dtype;
    bool maximum, global, include_padding, column_major, indices;
    int64_t maps; /* batch times channels */
    /* Always three spatial dimensions; the missing ones come first and have extent 1. */
    int64_t input[3], output[3], kernel[3], stride[3], dilation[3], before[3], after[3];
    int64_t input_size, output_size;
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
    if (!rt_accepts_plain(call)) return false;
    if (call->code == OP_MAX_POOL && (dtype == OP_INT8 || dtype == OP_UINT8)) return true;
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype);
}

static double lowest(op_dtype dtype) {
    return dtype == OP_INT8 ? INT8_MIN : dtype == OP_UINT8 ? 0 : (double)-INFINITY;
}

/* The window elements [low, high) of one dimension that lie inside of the input at output position `at`. */
static void taps_inside(const pool *shape, int dimension, int64_t at, int64_t *low, int64_t *high) {
    const int64_t start = at * shape->stride[dimension] - shape->before[dimension];
    const int64_t dilation = shape->dilation[dimension], rest = shape->input[dimension] - start;
    *low = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    *high = rest <= 0 ? 0 : (rest - 1) / dilation + 1;
    if (*high > shape->kernel[dimension]) *high = shape->kernel[dimension];
}

/* How many window elements of one dimension count for an average that includes padding. */
static int64_t taps_padded(const pool *shape, int dimension, int64_t at) {
    const int64_t start = at * shape->stride[dimension] - shape->before[dimension];
    const int64_t rest = shape->input[dimension] + shape->after[dimension] - start;
    const int64_t high = rest <= 0 ? 0 : (rest - 1) / shape->dilation[dimension] + 1;
    return high > shape->kernel[dimension] ? shape->kernel[dimension] : high;
}

typedef struct pool_window {
    int64_t low[3], high[3], start[3];
    int64_t count; /* what an average divides by */
} pool_window;

static void find_window(const pool *shape, int64_t position, pool_window *window) {
    const int64_t at[3] = {position / shape->output[2] / shape->output[1],
                           position / shape->output[2] % shape->output[1], position % shape->output[2]};
    window->count = 1;
    for (int i = 0; i < 3; i++) {
        taps_inside(shape, i, at[i], &window->low[i], &window->high[i]);
        window->start[i] = at[i] * shape->stride[i] - shape->before[i];
        window->count *=
            shape->include_padding ? taps_padded(shape, i, at[i]) : window->high[i] - window->low[i];
    }
    if (window->count == 0) window->count = 1;
}

/* A loop over the input elements of a window in order; `index` is the element within its map. */
#define EACH_ELEMENT(shape, window, statement)                                                               \
    for (int64_t kz = (window).low[0]; kz < (window).high[0]; kz++) {                                        \
        for (int64_t ky = (window).low[1]; ky < (window).high[1]; ky++) {                                    \
            const int64_t iz = (window).start[0] + kz * (shape)->dilation[0];                                \
            const int64_t iy = (window).start[1] + ky * (shape)->dilation[1];                                \
            const int64_t line = (iz * (shape)->input[1] + iy) * (shape)->input[2] + (window).start[2];      \
            for (int64_t kx = (window).low[2]; kx < (window).high[2]; kx++) {                                \
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

/* NaN wins, as in numpy: every comparison with it is false. */
#define BETTER(value, best) ((value) > (best) || (value) != (value))

static void pool_map_float(const pool_job *job, int64_t map) {
    const pool *shape = job->shape;
    const float *x = (const float *)job->x + map * shape->input_size;
    float *y = (float *)job->y + map * shape->output_size;
    for (int64_t position = 0; position < shape->output_size; position++) {
        pool_window window;
        find_window(shape, position, &window);
        if (shape->maximum) {
            float best = -INFINITY;
            EACH_ELEMENT(shape, window, { best = BETTER(x[index], best) ? x[index] : best; })
            y[position] = best;
        } else {
            float sum = 0;
            EACH_ELEMENT(shape, window, { sum += x[index]; })
            y[position] = sum / (float)window.count;
        }
    }
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
        if (job->indices) {
            const int64_t index = found < 0             ? 0
                                  : shape->column_major ? column_major_index(shape, found)
                                                        : found;
            job->indices[at] = base + index;
        }
    }
}

/* A global pool in float: one pass over the map, in 16 interleaved parts. */
RT_CLONES static float reduce_map(const float *x, int64_t count, bool maximum) {
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
    return maximum ? parts[0] : parts[0] / (float)count;
}

static void pool_member(void *context, int member, int members) {
    const pool_job *job = context;
    const pool *shape = job->shape;
    for (int64_t map = member; map < shape->maps; map += members) {
        if (shape->dtype != OP_FLOAT || job->indices) {
            pool_map_any(job, map);
        } else if (shape->global) {
            ((float *)job->y)[map] = reduce_map((const float *)job->x + map * shape->input_size,
                                                shape->input_size, shape->maximum);
        } else {
            pool_map_float(job, map);
        }
    }
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
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, pool_member, &job);
    return BASE_OK;
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
    for (int i = 0; i < 3; i++) {
        const int from = i - (3 - window.rank);
        shape->input[i] = from < 0 ? 1 : window.input[from];
        shape->output[i] = from < 0 ? 1 : window.output[from];
        shape->kernel[i] = from < 0 ? 1 : window.kernel[from];
        shape->stride[i] = from < 0 ? 1 : window.stride[from];
        shape->dilation[i] = from < 0 ? 1 : window.dilation[from];
        shape->before[i] = from < 0 ? 0 : window.before[from];
        shape->after[i] = from < 0 ? 0 : window.after[from];
        shape->input_size *= shape->input[i];
        shape->output_size *= shape->output[i];
    }
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_pool = {.name = "portable.pool", .accepts = accepts, .prepare = prepare};

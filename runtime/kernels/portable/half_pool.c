/* SPDX-License-Identifier: Apache-2.0 */
/* half_pool.c: MaxPool, AveragePool and the global pools in float16 and bfloat16, on images whose channels lie side by side: in blocks of
 * 16, or innermost.
 *
 * A block of channels of an image (all of them, where they are innermost) is a plane of pixels, some of whose channels become outputs
 * together. Maxima are found among the numbers as they are stored, as integers that are in the same order. Sums are floats, pixel after
 * pixel, and are rounded once. What windows see and what counts is as in pool.c; a NaN stays one.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/half_lanes.h"
#include "runtime/kernels/portable/kernels.h"
#include <string.h>

enum {
    MOST =
        RT_HALF_BLOCK, /* channels that become floats together; or, of several pixels, all numbers that do */
    BLOCK = 16
};

typedef struct half_pool {
    op_dtype dtype;
    bool maximum, sums, include_padding, global;
    int64_t planes, width; /* channels side by side */
    int64_t input[2], output[2], kernel[2], stride[2], dilation[2], before[2], after[2];
} half_pool;

typedef struct half_pool_job {
    const half_pool *shape;
    const uint16_t *x;
    uint16_t *y;
} half_pool_job;

static bool accepts(const op_call *call, const rt_environment *environment) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    (void)environment;
    if (!rt_is_half(x->dtype) || x->shape.rank < 3 || x->shape.rank > 4 || x->layout != y->layout)
        return false;
    if (call->output_count > 1 && call->outputs[1].type.dtype != OP_NONE) return false;
    return x->layout == OP_LAYOUT_NC16 || x->layout == OP_LAYOUT_NHWC;
}

/* ---- maxima ------------------------------------------------------------------------------------------------- */

/* A number as an integer in the order of numbers, a NaN above all others; and back. `most` is infinity. */
static inline int16_t key_of(uint16_t number, uint16_t most) {
    const uint16_t size = number & 0x7fffu, turned = (uint16_t)(number ^ (0x8000u & number ? 0x7fffu : 0));
    return (int16_t)(size > most ? size : turned);
}

static inline uint16_t number_of(int16_t key) {
    return (uint16_t)(key < 0 ? (uint16_t)key ^ 0x7fffu : (uint16_t)key);
}

/* best[c] becomes the larger key. */
static inline __attribute__((always_inline)) void raise_keys(const uint16_t *from, uint16_t most,
                                                             int16_t *best, int64_t count) {
    RT_VECTOR for (int64_t c = 0; c < count; c++) {
        const int16_t key = key_of(from[c], most);
        best[c] = key > best[c] ? key : best[c];
    }
}

/* What a window sees: rows of pixels, in elements. */
typedef struct seen {
    const uint16_t *from;
    int64_t height, width, row, pixel;
} seen;

/* The largest of each of `count` channels, in `best`, which is registers where the count is known. */
static inline __attribute__((always_inline)) void maximum(const seen *window, uint16_t most, int16_t *best,
                                                          int64_t count, uint16_t *y) {
    for (int64_t c = 0; c < count; c++) best[c] = key_of(most | 0x8000u, most);
    for (int64_t r = 0; r < window->height; r++)
        for (int64_t k = 0; k < window->width; k++)
            raise_keys(window->from + r * window->row + k * window->pixel, most, best, count);
    for (int64_t c = 0; c < count; c++) y[c] = number_of(best[c]);
}

RT_CLONES static void maximum_block(const seen *window, uint16_t most, uint16_t *y) {
    int16_t best[BLOCK];
    maximum(window, most, best, BLOCK, y);
}

RT_CLONES static void maximum_some(const seen *window, uint16_t most, int64_t count, uint16_t *y) {
    int16_t best[MOST];
    maximum(window, most, best, count, y);
}

/* ---- averages ----------------------------------------------------------------------------------------------- */

RT_CLONES static void add(float *restrict sums, const float *restrict floats, int64_t count) {
    RT_VECTOR for (int64_t c = 0; c < count; c++) sums[c] += floats[c];
}

/* Pixels of a block, one after another. */
RT_CLONES static void add_blocks(float *restrict sums, const float *restrict floats, int64_t pixels) {
    for (int64_t p = 0; p < pixels; p++) {
        RT_VECTOR for (int c = 0; c < BLOCK; c++) sums[c] += floats[p * BLOCK + c];
    }
}

#if RT_X86_KERNELS
/* A block in one register: what `average` does, but for what a NaN holds. */
#define AVERAGE(name, LOAD, STORE)                                                                           \
    __attribute__((target("avx512f"))) static void name(const seen *window, int64_t divisor, uint16_t *y) {  \
        __m512 sums = _mm512_setzero_ps();                                                                   \
        for (int64_t r = 0; r < window->height; r++)                                                         \
            for (int64_t k = 0; k < window->width; k++)                                                      \
                sums = _mm512_add_ps(sums, LOAD(, window->from + r * window->row + k * window->pixel));      \
        sums = _mm512_div_ps(sums, _mm512_set1_ps((float)divisor));                                          \
        STORE(sums, y);                                                                                      \
    }
AVERAGE(average_halves, RT_LOAD_HALF_16, RT_STORE_HALF_16)
AVERAGE(average_brains, RT_LOAD_BRAIN_16, RT_STORE_BRAIN_16)

static bool average_block(const half_pool *shape, const seen *window, int64_t divisor, uint16_t *y) {
    if (!__builtin_cpu_supports("avx512f")) return false;
    (shape->dtype == OP_FLOAT16 ? average_halves : average_brains)(window, divisor, y);
    return true;
}
#else
static bool average_block(const half_pool *shape, const seen *window, int64_t divisor, uint16_t *y) {
    (void)shape, (void)window, (void)divisor, (void)y;
    return false;
}
#endif

static void average(const half_pool *shape, const seen *window, int64_t count, int64_t divisor, uint16_t *y) {
    float sums[MOST], floats[MOST];
    if (count == BLOCK && average_block(shape, window, divisor, y)) return;
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int64_t r = 0; r < window->height; r++) {
        const uint16_t *from = window->from + r * window->row;
        if (count == BLOCK && window->pixel == BLOCK) {
            for (int64_t k = 0; k < window->width; k += MOST / BLOCK) {
                const int64_t rest = window->width - k, some = rest < MOST / BLOCK ? rest : MOST / BLOCK;
                rt_half_load(shape->dtype, floats, from + k * BLOCK, some * BLOCK);
                add_blocks(sums, floats, some);
            }
            continue;
        }
        for (int64_t k = 0; k < window->width; k++) {
            rt_half_load(shape->dtype, floats, from + k * window->pixel, count);
            add(sums, floats, count);
        }
    }
    for (int64_t c = 0; c < count; c++) sums[c] /= (float)divisor;
    rt_half_store(shape->dtype, y, sums, count);
}

/* ---- lines -------------------------------------------------------------------------------------------------- */

static rt_part inside(const half_pool *shape, int dimension, int64_t at) {
    return rt_part_inside(at * shape->stride[dimension] - shape->before[dimension],
                          shape->dilation[dimension], shape->input[dimension], shape->kernel[dimension]);
}

/* How many window elements count for an average. */
static int64_t counted(const half_pool *shape, int dimension, int64_t at) {
    const rt_part within = inside(shape, dimension, at);
    if (!shape->include_padding) return within.high - within.low;
    return rt_part_inside(at * shape->stride[dimension] - shape->before[dimension],
                          shape->dilation[dimension], shape->input[dimension] + shape->after[dimension],
                          shape->kernel[dimension])
        .high;
}

static void pool_line(const half_pool *shape, const uint16_t *x, int64_t line, uint16_t *y) {
    const rt_part rows = inside(shape, 0, line);
    const int64_t top = line * shape->stride[0] - shape->before[0] + rows.low * shape->dilation[0],
                  width = shape->width;
    const uint16_t most = shape->dtype == OP_FLOAT16 ? 0x7c00 : 0x7f80;
    for (int64_t column = 0; column < shape->output[1]; column++, y += width) {
        const rt_part columns = inside(shape, 1, column);
        const int64_t left = column * shape->stride[1] - shape->before[1] + columns.low * shape->dilation[1];
        seen window = {.height = rows.high - rows.low,
                       .width = columns.high - columns.low,
                       .row = shape->dilation[0] * shape->input[1] * width,
                       .pixel = shape->dilation[1] * width};
        const bool sees = window.height > 0 && window.width > 0;
        int64_t divisor = shape->sums ? 1 : counted(shape, 0, line) * counted(shape, 1, column);
        if (divisor <= 0) divisor = 1;
        if (!sees) window.height = 0;
        for (int64_t c = 0; c < width; c += MOST) {
            const int64_t count = width - c < MOST ? width - c : MOST;
            window.from = sees ? x + (top * shape->input[1] + left) * width + c : x;
            if (!shape->maximum) average(shape, &window, count, divisor, y + c);
            else if (count == BLOCK) maximum_block(&window, most, y + c);
            else maximum_some(&window, most, count, y + c);
        }
    }
}

static void pool_member(void *context, int member, int members) {
    const half_pool_job *job = context;
    const half_pool *shape = job->shape;
    const int64_t input = shape->input[0] * shape->input[1] * shape->width,
                  output = shape->output[1] * shape->width, lines = shape->planes * shape->output[0];
    for (int64_t line = lines * member / members; line < lines * (member + 1) / members; line++)
        pool_line(shape, job->x + line / shape->output[0] * input, line % shape->output[0],
                  job->y + line * output);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const half_pool *shape = prepared->state;
    half_pool_job job = {.shape = shape, .x = inputs[0].data, .y = outputs[0].data};
    const double work = (double)shape->planes * (double)shape->output[0] * (double)shape->output[1] *
                        (double)shape->width * (double)shape->kernel[0] * (double)shape->kernel[1];
    if (shape->planes == 0 || shape->output[0] == 0) return BASE_OK;
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, pool_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    const op_type *x = &call->inputs[0].type;
    half_pool *shape = BASE_NEW(arena, half_pool);
    if (!shape) return base_fail_memory(report);
    const bool innermost = x->layout == OP_LAYOUT_NHWC;
    *shape =
        (half_pool){.dtype = x->dtype,
                    .maximum = call->code == OP_MAX_POOL || call->code == OP_GLOBAL_MAX_POOL,
                    .global = call->code == OP_GLOBAL_MAX_POOL || call->code == OP_GLOBAL_AVERAGE_POOL,
                    .sums = op_attribute_integer(&call->attributes, "ouro.sum", 0) != 0,
                    .include_padding = op_attribute_integer(&call->attributes, "count_include_pad", 0) != 0,
                    .planes = x->shape.dims[0] * (innermost ? 1 : (x->shape.dims[1] + BLOCK - 1) / BLOCK),
                    .width = innermost ? x->shape.dims[1] : BLOCK};
    op_window window = {
        .rank = 1, .input = {1}, .output = {1}, .kernel = {1}, .stride = {1}, .dilation = {1}};
    if (shape->global) { /* all positions are one row */
        for (int32_t i = 2; i < x->shape.rank; i++) window.input[0] *= x->shape.dims[i];
        window.kernel[0] = window.input[0];
    } else {
        base_status status = op_window_read(call, NULL, &window, report);
        if (status != BASE_OK) return status;
    }
    const op_window three = op_window_of_three(&window); /* a signal is an image one row high */
    for (int i = 0; i < 2; i++) {
        shape->input[i] = three.input[i + 1];
        shape->output[i] = three.output[i + 1];
        shape->kernel[i] = three.kernel[i + 1];
        shape->stride[i] = three.stride[i + 1];
        shape->dilation[i] = three.dilation[i + 1];
        shape->before[i] = three.before[i + 1];
        shape->after[i] = three.after[i + 1];
    }
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_half_pool = {.name = "portable.half_pool", .accepts = accepts, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* pool_channels.c: MaxPool and AveragePool of floats where channels are innermost, or in blocks of 16: the maximum, or the sum, of rows of channels.
 *
 * Channels are innermost in the layout that says so, or in a row-major image whose last dimension stands for them: it has one channel, and
 * the window is one element wide there (passes/graph/turn_pools.c).
 *
 * Each window element is a row of all channels, or of those of a block, contiguous in memory, so that a point of the output is the maximum of some
 * rows, one register after another. The numbers are those of pool.c: a NaN stays, and a window that sees nothing has the lowest
 * number.
 *
 * An average divides by how many elements of the window count, as in pool.c: those that lie in the input or, with count_include_pad, in its padding,
 * but never those that ceil_mode puts after it. A window that sees nothing has the average 0.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>
#include <string.h>

enum { LANES = 16 }; /* channels of a block, and of a vector */

typedef struct image {
    int64_t channels;     /* of a pixel */
    int64_t blocks, rest; /* of channels, of an image; channels of the last one, 0: all */
    int64_t lines;        /* of the output: batch times blocks times rows */
    bool maximum, sums, include_padding;
    int64_t input[2], output[2], kernel[2], stride[2], dilation[2], before[2], after[2];
} image;

typedef struct image_job {
    const image *shape;
    const float *x;
    float *y;
} image_job;

/* The last number of each of `parts` lists in an attribute is this one, or there are none. */
static bool ends_with(const op_call *call, const char *name, size_t parts, int64_t number) {
    const op_attribute *list = op_attribute_find(&call->attributes, name);
    const size_t each = list ? list->count / parts : 0;
    for (size_t i = 0; each && i < parts; i++)
        if (list->as.integers[(i + 1) * each - 1] != number) return false;
    return true;
}

/* A row-major image whose last dimension stands for channels. */
static bool is_of_points(const op_call *call) {
    const op_type *x = &call->inputs[0].type;
    return call->code == OP_MAX_POOL && x->layout == OP_LAYOUT_ROW_MAJOR &&
           call->outputs[0].type.layout == OP_LAYOUT_ROW_MAJOR &&
           (x->shape.rank == 4 || x->shape.rank == 5) && x->shape.dims[1] == 1 &&
           op_attribute_find(&call->attributes, "kernel_shape") && ends_with(call, "kernel_shape", 1, 1) &&
           ends_with(call, "strides", 1, 1) && ends_with(call, "pads", 2, 0);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    if (call->code != OP_MAX_POOL && call->code != OP_AVERAGE_POOL) return false;
    /* Plans for every machine keep to one order of sums, that of row-major images. */
    if (call->code == OP_AVERAGE_POOL && environment->portable_only) return false;
    if (x->dtype != OP_FLOAT) return false;
    if (call->output_count > 1 && call->outputs[1].type.dtype != OP_NONE) return false;
    if (is_of_points(call)) return true;
    return x->shape.rank == 4 && x->layout == y->layout &&
           (x->layout == OP_LAYOUT_NHWC || x->layout == OP_LAYOUT_NC16);
}

/* The window elements of one dimension that lie inside of `extent` points, or of the input, at output position `at`. */
static rt_part inside_of(const image *shape, int dimension, int64_t at, int64_t extent) {
    return rt_part_inside(at * shape->stride[dimension] - shape->before[dimension],
                          shape->dilation[dimension], extent, shape->kernel[dimension]);
}

static rt_part inside(const image *shape, int dimension, int64_t at) {
    return inside_of(shape, dimension, at, shape->input[dimension]);
}

/* What a window sees of some channels: rows of `width` elements, `step` floats apart; rows are `next` floats apart. */
typedef struct seen {
    const float *from;
    int64_t height, width, step, next;
} seen;

/* ---- maxima -------------------------------------------------------------------------------------------- */

/* One line of the output, of the image at x. */
RT_CLONES static void maximum_line(const image *shape, const float *restrict x, int64_t line,
                                   float *restrict y) {
    const int64_t channels = shape->channels;
    const rt_part rows = inside(shape, 0, line);
    const int64_t top = line * shape->stride[0] - shape->before[0];
    for (int64_t column = 0; column < shape->output[1]; column++, y += channels) {
        const rt_part columns = inside(shape, 1, column);
        const int64_t left = column * shape->stride[1] - shape->before[1];
        for (int64_t c = 0; c < channels; c++) y[c] = -INFINITY;
        for (int64_t r = rows.low; r < rows.high; r++) {
            for (int64_t k = columns.low; k < columns.high; k++) {
                const int64_t row = top + r * shape->dilation[0], at = left + k * shape->dilation[1];
                const float *restrict from = x + (row * shape->input[1] + at) * channels;
                RT_VECTOR for (int64_t c = 0; c < channels; c++) {
                    y[c] = ((from[c] > y[c]) | (from[c] != from[c])) ? from[c] : y[c];
                }
            }
        }
    }
}

#if RT_X86_KERNELS
#define WIDE __attribute__((target("avx512f")))

/* Where the window sees a NaN: the last one of each channel. */
WIDE static void keep_nones(const seen *window, __mmask16 some, float *y) {
    for (int64_t r = 0; r < window->height; r++) {
        for (int64_t k = 0; k < window->width; k++) {
            const __m512 value =
                _mm512_maskz_loadu_ps(some, window->from + r * window->next + k * window->step);
            _mm512_mask_storeu_ps(y, (__mmask16)(some & _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q)),
                                  value);
        }
    }
}

/* The maximum of VECTORS registers of channels; `some` are the lanes of the last one that are channels. NaNs are only noticed on the way. */
#define MAXIMUM(VECTORS, name)                                                                               \
    WIDE static inline __attribute__((always_inline)) void name(const seen *window, __mmask16 some,          \
                                                                float *y) {                                  \
        __m512 most[VECTORS];                                                                                \
        __mmask16 nones[VECTORS] = {0};                                                                      \
        for (int v = 0; v < VECTORS; v++) most[v] = _mm512_set1_ps(-INFINITY);                               \
        for (int64_t r = 0; r < window->height; r++) {                                                       \
            const float *from = window->from + r * window->next;                                             \
            for (int64_t k = 0; k < window->width; k++, from += window->step) {                              \
                _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) {                                  \
                    const __m512 value = v + 1 < VECTORS ? _mm512_loadu_ps(from + v * LANES)                 \
                                                         : _mm512_maskz_loadu_ps(some, from + v * LANES);    \
                    nones[v] = (__mmask16)(nones[v] | _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q));       \
                    most[v] = _mm512_max_ps(value, most[v]); /* where one is a NaN, the second */            \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) {                                          \
            const __mmask16 lanes = v + 1 < VECTORS ? 0xffff : some;                                         \
            seen part = *window;                                                                             \
            part.from += v * LANES;                                                                          \
            _mm512_mask_storeu_ps(y + v * LANES, lanes, most[v]);                                            \
            if (nones[v]) keep_nones(&part, lanes, y + v * LANES);                                           \
        }                                                                                                    \
    }
MAXIMUM(1, maximum_1)
MAXIMUM(2, maximum_2)
MAXIMUM(4, maximum_4)

/* Of some successive windows, `stride` floats apart, none of which sees padding: a size that is known is walked without loops. */
#define MAXIMA(SIZE, name)                                                                                   \
    WIDE static void name(const seen *first, int64_t windows, int64_t stride, int64_t channels, float *y) {  \
        seen window = *first;                                                                                \
        for (int64_t i = 0; i < windows; i++, y += channels) {                                               \
            window.from = first->from + i * stride;                                                          \
            int64_t c = 0;                                                                                   \
            for (; c + LANES <= channels; c += LANES) {                                                      \
                const float *from = window.from + c;                                                         \
                __m512 most = _mm512_set1_ps(-INFINITY), before = most;                                      \
                unsigned nones = 0;                                                                          \
                _Pragma("GCC unroll 9") for (int k = 0; k < SIZE * SIZE; k++) {                              \
                    const __m512 value =                                                                     \
                        _mm512_loadu_ps(from + k / SIZE * window.next + k % SIZE * window.step);             \
                    /* Two values at a time, or one twice. */                                                \
                    if (k % 2) nones |= _mm512_cmp_ps_mask(before, value, _CMP_UNORD_Q);                     \
                    else if (k == SIZE * SIZE - 1) nones |= _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);  \
                    most = _mm512_max_ps(value, most); /* where one is a NaN, the second */                  \
                    before = value;                                                                          \
                }                                                                                            \
                _mm512_storeu_ps(y + c, most);                                                               \
                if (!nones) continue;                                                                        \
                seen part = window;                                                                          \
                part.from = from;                                                                            \
                keep_nones(&part, 0xffff, y + c);                                                            \
            }                                                                                                \
            seen part = window;                                                                              \
            part.from += c;                                                                                  \
            if (c < channels) maximum_1(&part, rt_first_lanes_16(channels - c), y + c);                      \
        }                                                                                                    \
    }
MAXIMA(2, maxima_2)
MAXIMA(3, maxima_3)

/* The same, where the maximum so far stays in registers, and masks hold what is left of the channels. */
WIDE static void maximum_line_wide(const image *shape, const float *restrict x, int64_t line,
                                   float *restrict y) {
    const int64_t channels = shape->channels, lead = shape->dilation[1] * (shape->kernel[1] - 1);
    const bool known =
        shape->kernel[0] == shape->kernel[1] && (shape->kernel[0] == 2 || shape->kernel[0] == 3);
    const rt_part rows = inside(shape, 0, line);
    const int64_t top = line * shape->stride[0] - shape->before[0] + rows.low * shape->dilation[0];
    seen window = {.height = rows.high - rows.low,
                   .step = shape->dilation[1] * channels,
                   .next = shape->dilation[0] * shape->input[1] * channels};
    for (int64_t column = 0; column < shape->output[1]; column++, y += channels) {
        int64_t left = column * shape->stride[1] - shape->before[1];
        window.width = shape->kernel[1];
        if (left < 0 || left + lead >= shape->input[1]) {
            const rt_part columns = inside(shape, 1, column);
            left += columns.low * shape->dilation[1];
            window.width = columns.high - columns.low;
        } else if (known && window.height == window.width) {
            const int64_t right = (shape->input[1] - 1 - lead + shape->before[1]) / shape->stride[1] + 1,
                          end = right < shape->output[1] ? right : shape->output[1];
            window.from = x + (top * shape->input[1] + left) * channels;
            (window.width == 2 ? maxima_2 : maxima_3)(&window, end - column, shape->stride[1] * channels,
                                                      channels, y);
            y += (end - 1 - column) * channels;
            column = end - 1;
            continue;
        }
        const float *corner =
            x + (window.height > 0 && window.width > 0 ? (top * shape->input[1] + left) * channels : 0);
        for (int64_t c = 0; c < channels;) {
            const int64_t rest = channels - c;
            window.from = corner + c;
            if (rest >= 4 * LANES) {
                maximum_4(&window, 0xffff, y + c);
                c += 4 * LANES;
            } else if (rest >= 2 * LANES) {
                maximum_2(&window, 0xffff, y + c);
                c += 2 * LANES;
            } else {
                maximum_1(&window, rt_first_lanes_16(rest), y + c);
                c += LANES;
            }
        }
    }
}
#undef MAXIMUM
#undef MAXIMA
#undef WIDE
#endif

/* ---- averages ------------------------------------------------------------------------------------------ */

/* How many window elements of one dimension count. */
static int64_t counted(const image *shape, int dimension, int64_t at) {
    const int64_t extent = shape->input[dimension];
    if (shape->include_padding) return inside_of(shape, dimension, at, extent + shape->after[dimension]).high;
    const rt_part part = inside(shape, dimension, at);
    return part.high - part.low;
}

/* The average of all channels. */
static inline __attribute__((always_inline)) void average(const seen *window, float count, int64_t channels,
                                                          float *y) {
    int64_t c = 0;
    for (; c + LANES <= channels; c += LANES) {
        rt_floats_16 sum = {0};
        for (int64_t r = 0; r < window->height; r++) {
            const float *from = window->from + r * window->next + c;
            for (int64_t k = 0; k < window->width; k++, from += window->step) {
                rt_floats_16 some;
                memcpy(&some, from, sizeof some);
                sum += some;
            }
        }
        sum /= count;
        memcpy(y + c, &sum, sizeof sum);
    }
    for (; c < channels; c++) {
        float sum = 0;
        for (int64_t r = 0; r < window->height; r++)
            for (int64_t k = 0; k < window->width; k++)
                sum += window->from[r * window->next + k * window->step + c];
        y[c] = sum / count;
    }
}

/* One line of the output, of the image at x. */
RT_CLONES static void average_line(const image *shape, const float *x, int64_t line, float *y) {
    const int64_t channels = shape->channels, lead = shape->dilation[1] * (shape->kernel[1] - 1);
    const rt_part rows = inside(shape, 0, line);
    const int64_t top = line * shape->stride[0] - shape->before[0] + rows.low * shape->dilation[0],
                  high = counted(shape, 0, line);
    seen window = {.height = rows.high > rows.low ? rows.high - rows.low : 0,
                   .step = shape->dilation[1] * channels,
                   .next = shape->dilation[0] * shape->input[1] * channels};
    for (int64_t column = 0; column < shape->output[1]; column++, y += channels) {
        int64_t left = column * shape->stride[1] - shape->before[1], wide = shape->kernel[1];
        window.width = wide;
        if (left < 0 || left + lead >= shape->input[1]) {
            const rt_part columns = inside(shape, 1, column);
            left += columns.low * shape->dilation[1];
            window.width = columns.high > columns.low ? columns.high - columns.low : 0;
            wide = counted(shape, 1, column);
        }
        window.from =
            window.height > 0 && window.width > 0 ? x + (top * shape->input[1] + left) * channels : x;
        average(&window, shape->sums || high * wide == 0 ? 1 : (float)(high * wide), channels, y);
    }
}

/* ---- running ------------------------------------------------------------------------------------------- */

static void make_line(const image *shape, const float *x, int64_t line, float *y) {
    if (!shape->maximum) {
        average_line(shape, x, line, y);
        return;
    }
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) {
        maximum_line_wide(shape, x, line, y);
        return;
    }
#endif
    maximum_line(shape, x, line, y);
}

/* What pads the last block is zeros, also where windows see nothing. */
static void clear_rest(const image *shape, int64_t line, float *y) {
    if (shape->rest == 0 || line / shape->output[0] % shape->blocks != shape->blocks - 1) return;
    for (int64_t column = 0; column < shape->output[1]; column++, y += shape->channels)
        for (int64_t c = shape->rest; c < shape->channels; c++) y[c] = 0;
}

static void pool_member(void *context, int member, int members) {
    const image_job *job = context;
    const image *shape = job->shape;
    const int64_t input = shape->input[0] * shape->input[1] * shape->channels,
                  output = shape->output[1] * shape->channels;
    for (int64_t line = shape->lines * member / members; line < shape->lines * (member + 1) / members;
         line++) {
        make_line(shape, job->x + line / shape->output[0] * input, line % shape->output[0],
                  job->y + line * output);
        clear_rest(shape, line, job->y + line * output);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const image *shape = prepared->state;
    image_job job = {.shape = shape, .x = inputs[0].data, .y = outputs[0].data};
    const double work = (double)shape->lines * (double)shape->output[1] * (double)shape->channels *
                        (double)shape->kernel[0] * (double)shape->kernel[1];
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, pool_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    const op_shape *x = &call->inputs[0].type.shape;
    const bool blocked = call->inputs[0].type.layout == OP_LAYOUT_NC16, of_points = is_of_points(call);
    const int64_t blocks = blocked ? (x->dims[1] + LANES - 1) / LANES : 1;
    image *shape = BASE_NEW(arena, image);
    if (!shape) return base_fail_memory(report);
    op_window window;
    base_status status = op_window_read(call, NULL, &window, report);
    if (status != BASE_OK) return status;
    if (of_points) window = op_window_of_three(&window); /* the third one is that of the channels */
    *shape = (image){.maximum = call->code == OP_MAX_POOL,
                     .sums = op_attribute_integer(&call->attributes, "ouro.sum", 0) != 0,
                     .include_padding = op_attribute_integer(&call->attributes, "count_include_pad", 0) != 0,
                     .channels = of_points ? x->dims[x->rank - 1]
                                 : blocked ? LANES
                                           : x->dims[1],
                     .blocks = blocks,
                     .rest = blocked ? x->dims[1] % LANES : 0,
                     .lines = x->dims[0] * blocks * window.output[0]};
    for (int i = 0; i < 2; i++) {
        shape->input[i] = window.input[i];
        shape->output[i] = window.output[i];
        shape->kernel[i] = window.kernel[i];
        shape->stride[i] = window.stride[i];
        shape->dilation[i] = window.dilation[i];
        shape->before[i] = window.before[i];
        shape->after[i] = window.after[i];
    }
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_pool_channels = {
    .name = "portable.pool_channels", .accepts = accepts, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* joined_pool.c: JoinedMaxPool: MaxPool of an image whose first rows are in one tensor and whose other rows are in another: those that a band keeps
 * and those that it makes. Channels lie in whole blocks.
 *
 * Lanes are the channels of a block. The largest of a column of the window is found once for all windows of a row that see it. The numbers are
 * those of pool.c: a NaN stays, and a window that sees nothing has the lowest number.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/joined.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include <math.h>

enum { MOST_ROWS = 16 }; /* of a window */

typedef struct joined_pool {
    int64_t block, blocks, input[2], output[2], kernel[2], stride[2], dilation[2], before[2];
    /* Of each input: the first row, how many are read, how many there are. */
    int64_t from[2], rows[2], there[2];
    bool wide;
} joined_pool;

typedef struct joined_job {
    const joined_pool *shape;
    const float *x[2];
    float *y;
} joined_job;

/* What the windows of an output row see: rows of a block, from its first column on. */
typedef struct seen_rows {
    const float *rows[MOST_ROWS];
    int64_t count;
} seen_rows;

static bool read_pool(const op_call *pool, joined_pool *s) {
    const op_type *image = &pool->inputs[0].type;
    op_window window;
    if (image->dtype != OP_FLOAT || image->shape.rank != 4 || !op_shape_known(&image->shape) ||
        image->shape.dims[0] != 1 || op_layout_block(image->layout) == 1 ||
        image->shape.dims[1] % op_layout_block(image->layout) ||
        op_window_read(pool, NULL, &window, NULL) != BASE_OK || window.kernel[0] > MOST_ROWS)
        return false;
    *s = (joined_pool){.block = op_layout_block(image->layout)};
    s->blocks = image->shape.dims[1] / s->block;
    for (int i = 0; i < 2; i++) {
        s->input[i] = window.input[i];
        s->output[i] = window.output[i];
        s->kernel[i] = window.kernel[i];
        s->stride[i] = window.stride[i];
        s->dilation[i] = window.dilation[i];
        s->before[i] = window.before[i];
    }
    return true;
}

bool rt_joined_pool_stands_for(const op_call *pool) {
    joined_pool s;
    return pool->code == OP_MAX_POOL && pool->output_count == 1 && read_pool(pool, &s);
}

static bool read_joined(const op_call *call, joined_pool *s, base_report *report) {
    op_tensor inputs[OP_JOINED_INPUTS];
    op_call whole;
    size_t count;
    if (op_joined_read(call, inputs, &whole, report) != BASE_OK || !read_pool(&whole, s)) return false;
    const int64_t *rows = op_attribute_integers(&call->attributes, "rows", &count);
    for (int i = 0; i < 2; i++) {
        s->from[i] = rows[2 * i];
        s->rows[i] = rows[2 * i + 1] - rows[2 * i];
        s->there[i] = s->rows[i] > 0 ? call->inputs[i].type.shape.dims[2] : 0;
    }
    return true;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    joined_pool s;
    (void)environment;
    const op_layout layout = call->inputs[0].type.layout;
    return call->outputs[0].type.layout == layout &&
           (!op_input_present(call, 1) || call->inputs[1].type.layout == layout) &&
           read_joined(call, &s, NULL);
}

/* One row of the output. */
RT_CLONES static void make_line(const joined_pool *s, const seen_rows *seen, float *restrict y) {
    const int64_t block = s->block;
    for (int64_t column = 0; column < s->output[1]; column++, y += block) {
        const int64_t left = column * s->stride[1] - s->before[1];
        const rt_part columns = rt_part_inside(left, s->dilation[1], s->input[1], s->kernel[1]);
        for (int64_t c = 0; c < block; c++) y[c] = -INFINITY;
        for (int64_t r = 0; r < seen->count; r++) {
            for (int64_t k = columns.low; k < columns.high; k++) {
                const float *restrict from = seen->rows[r] + (left + k * s->dilation[1]) * block;
                RT_VECTOR for (int64_t c = 0; c < block; c++) {
                    y[c] = ((from[c] > y[c]) | (from[c] != from[c])) ? from[c] : y[c];
                }
            }
        }
    }
}

#if RT_X86_KERNELS
#define WIDE __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))
enum { LANES = 16 };

/* The largest of a column, which may lie beside the image. */
WIDE INLINE __m512 column_at(const joined_pool *s, const seen_rows *seen, int64_t count, int64_t column) {
    __m512 most = _mm512_set1_ps(-INFINITY);
    if (column < 0 || column >= s->input[1]) return most;
    for (int64_t r = 0; r < count; r++)
        most = rt_larger_16(_mm512_loadu_ps(seen->rows[r] + column * LANES), most);
    return most;
}

/* Windows of `kernel` columns without dilation, `stride` columns apart. */
WIDE INLINE void make_windows(const joined_pool *s, const seen_rows *seen, int64_t count, int kernel,
                              int stride, float *y) {
    __m512 columns[4];
    int64_t at = -s->before[1];
    for (int k = 0; k < kernel - stride; k++) columns[k] = column_at(s, seen, count, at + k);
    for (int64_t i = 0; i < s->output[1]; i++, at += stride, y += LANES) {
        for (int k = kernel > stride ? kernel - stride : 0; k < kernel; k++)
            columns[k] = column_at(s, seen, count, at + k);
        __m512 most = columns[0];
        for (int k = 1; k < kernel; k++) most = rt_larger_16(columns[k], most);
        _mm512_storeu_ps(y, most);
        for (int k = 0; k + stride < kernel; k++) columns[k] = columns[k + stride];
    }
}

WIDE static void make_line_wide(const joined_pool *s, const seen_rows *seen, float *y) {
    const int64_t kernel = s->kernel[1], stride = s->stride[1], count = seen->count;
    if (kernel == 3 && stride == 2 && count == 3) make_windows(s, seen, 3, 3, 2, y);
    else if (kernel == 3 && stride == 1 && count == 3) make_windows(s, seen, 3, 3, 1, y);
    else if (kernel == 3 && stride == 2) make_windows(s, seen, count, 3, 2, y);
    else if (kernel == 3) make_windows(s, seen, count, 3, 1, y);
    else if (stride == 2) make_windows(s, seen, count, 2, 2, y);
    else make_windows(s, seen, count, 2, 1, y);
}

#endif

static bool is_wide(const joined_pool *s, const rt_environment *environment) {
    return rt_has_wide_vectors(environment) && s->block == 16 && s->dilation[1] == 1 &&
           (s->kernel[1] == 2 || s->kernel[1] == 3) && (s->stride[1] == 1 || s->stride[1] == 2);
}

static void run_member(void *context, int member, int members) {
    const joined_job *job = context;
    const joined_pool *s = job->shape;
    const int64_t lines = s->blocks * s->output[0], row = s->input[1] * s->block;
    for (int64_t line = lines * member / members; line < lines * (member + 1) / members; line++) {
        const int64_t block = line / s->output[0], top = line % s->output[0] * s->stride[0] - s->before[0];
        const rt_part inside = rt_part_inside(top, s->dilation[0], s->input[0], s->kernel[0]);
        seen_rows seen = {.count = 0};
        for (int64_t k = inside.low; k < inside.high; k++) {
            const int64_t at = top + k * s->dilation[0];
            const int second = at >= s->rows[0];
            seen.rows[seen.count++] =
                job->x[second] +
                (block * s->there[second] + s->from[second] + at - (second ? s->rows[0] : 0)) * row;
        }
        float *y = job->y + line * s->output[1] * s->block;
#if RT_X86_KERNELS
        if (s->wide) {
            make_line_wide(s, &seen, y);
            continue;
        }
#endif
        make_line(s, &seen, y);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const joined_pool *s = prepared->state;
    joined_job job = {.shape = s, .y = outputs[0].data};
    for (int i = 0; i < 2; i++)
        if (s->rows[i] > 0) job.x[i] = inputs[i].data;
    const double work = (double)(s->blocks * s->block) * (double)(s->output[0] * s->output[1]) *
                        (double)(s->kernel[0] * s->kernel[1]);
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    joined_pool *s = BASE_NEW(arena, joined_pool);
    if (!s) return base_fail_memory(report);
    if (!read_joined(call, s, report))
        return base_fail(report, BASE_INVALID, "these rows are of another pool");
    s->wide = is_wide(s, environment);
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_joined_pool = {
    .name = "portable.joined_pool", .accepts = accepts, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* affine_grid.c: AffineGrid: where an affine map takes the points of a regular grid. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"

typedef struct grid_state {
    op_dtype dtype;
    int32_t rank;       /* 2 or 3 */
    int64_t extents[3]; /* of the output's rows: height and width, or depth, height and width */
    int64_t batches, points;
    bool corners; /* -1 and 1 are the middles of the outermost points, not their edges */
} grid_state;

typedef struct grid_job {
    const grid_state *state;
    const void *maps;
    void *y;
} grid_job;

static void points(void *context, int64_t begin, int64_t end) {
    const grid_job *job = context;
    const grid_state *s = job->state;
    for (int64_t i = begin; i < end; i++) {
        double from[4] = {1, 1, 1, 1}; /* x, y, z, then 1 */
        int64_t rest = i % s->points;
        for (int32_t k = 0; k < s->rank; k++) {
            const int64_t extent = s->extents[s->rank - 1 - k], at = rest % extent;
            rest /= extent;
            from[k] = s->corners ? (extent > 1 ? 2.0 * (double)at / (double)(extent - 1) - 1 : -1)
                                 : (2.0 * (double)at + 1) / (double)extent - 1;
        }
        from[s->rank] = 1;
        for (int32_t row = 0; row < s->rank; row++) {
            double sum = 0;
            for (int32_t k = 0; k <= s->rank; k++)
                sum += from[k] * rt_element_load(s->dtype, job->maps,
                                                 (i / s->points * s->rank + row) * (s->rank + 1) + k);
            rt_element_store(s->dtype, job->y, i * s->rank + row, sum);
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const grid_state *s = prepared->state;
    grid_job job = {s, inputs[0].data, outputs[0].data};
    rt_parallel(prepared->threads, s->batches * s->points, 20, points, &job);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    grid_state *s = BASE_NEW(arena, grid_state);
    if (!s) return base_fail_memory(report);
    const op_shape *shape = &call->outputs[0].type.shape;
    s->dtype = call->inputs[0].type.dtype;
    s->rank = shape->rank - 2;
    s->batches = shape->dims[0];
    s->points = 1;
    for (int32_t i = 0; i < s->rank; i++) s->points *= s->extents[i] = shape->dims[1 + i];
    s->corners = op_attribute_integer(&call->attributes, "align_corners", 0) != 0;
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_affine_grid = {
    .name = "portable.affine_grid", .accepts = accepts, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* affine_grid.c: AffineGrid: where an affine map takes the points of a regular grid. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"

enum { LINE = 256 }; /* points that are mapped together */

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

/* Where point `at` of `extent` lies between -1 and 1. */
static inline double place_of(int64_t at, int64_t extent, bool corners) {
    if (corners) return extent > 1 ? 2.0 * (double)at / (double)(extent - 1) - 1 : -1;
    return (2.0 * (double)at + 1) / (double)extent - 1;
}

/* place_of of `count` points of a line from `first` on. */
RT_CLONES static void places_of(int64_t first, int64_t count, int64_t extent, bool corners, double *places) {
    const double over = (double)(corners ? extent - 1 : extent),
                 more = 2.0 * (double)first + (corners ? 0 : 1);
    const bool alone = corners && extent == 1;
    RT_VECTOR for (int32_t i = 0; i < (int32_t)count; i++) places[i] =
        alone ? -1 : (2.0 * (double)i + more) / over - 1;
}

/* One coordinate of these points: x times the place, and then the others' parts. */
RT_CLONES static void map_places(const double *places, int64_t count, double x, const double *others,
                                 int32_t rank, double *sums) {
    const double first = others[0], second = others[1], third = rank > 2 ? others[2] : 0;
    if (rank == 2) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) sums[i] = places[i] * x + first + second;
        return;
    }
    RT_VECTOR for (int64_t i = 0; i < count; i++) sums[i] = places[i] * x + first + second + third;
}

/* A part of a line of points. */
static void map_points(const grid_job *job, int64_t begin, int64_t count) {
    const grid_state *s = job->state;
    const int32_t rank = s->rank;
    const int64_t width = s->extents[rank - 1], batch = begin / s->points;
    double from[2], places[LINE], sums[LINE], row[4], others[3];
    int64_t rest = begin % s->points / width;
    for (int32_t k = 1; k < rank; k++) {
        const int64_t extent = s->extents[rank - 1 - k];
        from[k - 1] = place_of(rest % extent, extent, s->corners);
        rest /= extent;
    }
    places_of(begin % width, count, width, s->corners, places);
    for (int32_t r = 0; r < rank; r++) {
        for (int32_t k = 0; k <= rank; k++)
            row[k] = rt_element_load(s->dtype, job->maps, (batch * rank + r) * (rank + 1) + k);
        for (int32_t k = 1; k < rank; k++) others[k - 1] = from[k - 1] * row[k];
        others[rank - 1] = row[rank];
        map_places(places, count, row[0], others, rank, sums);
        if (s->dtype == OP_FLOAT) {
            float *to = (float *)job->y + begin * rank + r;
            for (int64_t i = 0; i < count; i++) to[i * rank] = (float)sums[i];
            continue;
        }
        for (int64_t i = 0; i < count; i++)
            rt_element_store(s->dtype, job->y, (begin + i) * rank + r, sums[i]);
    }
}

static void points(void *context, int64_t begin, int64_t end) {
    const grid_job *job = context;
    const int64_t width = job->state->extents[job->state->rank - 1];
    while (begin < end) {
        int64_t count = width - begin % width;
        if (count > LINE) count = LINE;
        if (count > end - begin) count = end - begin;
        map_points(job, begin, count);
        begin += count;
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const grid_state *s = prepared->state;
    grid_job job = {s, inputs[0].data, outputs[0].data};
    rt_parallel(prepared->threads, s->batches * s->points, 10, points, &job);
    return BASE_OK;
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
    .name = "portable.affine_grid", .accepts = rt_accepts_any_row_major, .prepare = prepare};

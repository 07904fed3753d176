/* SPDX-License-Identifier: Apache-2.0 */
/* turn_groups.c: see turn_groups.h. With the axes of [2, 64, 48, 56] in reverse, the innermost axis of the result has two elements: matrices
 * of 56 by 2 would be turned one by one, and of each line of memory two elements be written at a time. The 64 by 2 elements of the two innermost
 * axes of the result lie together, too: they are the rows of one matrix, each of which begins somewhere else in the source. In the same
 * way short axes of the source become the columns of one matrix, each of which begins somewhere else in the result.
 */
#include "runtime/kernels/portable/turn_groups.h"
#include "runtime/kernels/portable/turn.h"

enum {
    PART = 512, /* rows and columns that are turned at once: lists of where they begin are made for so many */
    LINE = 64,  /* bytes of a line of memory */
    FEWEST = 4  /* rows and columns */
};

/* Dimensions of a loop that lie together in one of both tensors, the innermost first. */
typedef struct dim_group {
    int32_t rank;
    int32_t dims[RT_LOOP_RANK];
    int64_t extent;
} dim_group;

typedef struct turn_job {
    const rt_loop *loop;
    size_t size;
    char *to;
    const char *from;
    dim_group rows, columns; /* what lies together in the result, and in the source */
    dim_group others;        /* the innermost first */
    int64_t column_parts;    /* of PART columns */
} turn_job;

static void add_dimension(dim_group *group, const rt_loop *loop, int32_t dim, bool used[]) {
    group->dims[group->rank++] = dim;
    group->extent *= loop->dims[dim];
    used[dim] = true;
}

/* Whether more than a quarter of squares of `side` rows or columns would be empty. */
static bool is_short(int64_t extent, int64_t side) {
    const int64_t whole = (extent + side - 1) / side * side;
    return (whole - extent) * 4 > whole;
}

/* The dimension that goes on where the group ends in operand k, or -1. */
static int32_t next_dimension(const dim_group *group, const rt_loop *loop, int k, const bool used[]) {
    for (int32_t i = loop->rank - 1; i >= 0; i--)
        if (!used[i] && loop->strides[k][i] == group->extent) return i;
    return -1;
}

/* Where elements [first, first + count) of a group begin in operand k. */
static void list_offsets(const dim_group *group, const rt_loop *loop, int k, int64_t first, int64_t count,
                         int64_t offsets[]) {
    int64_t index[RT_LOOP_RANK], offset = 0;
    for (int32_t i = 0; i < group->rank; i++) {
        index[i] = first % loop->dims[group->dims[i]];
        first /= loop->dims[group->dims[i]];
        offset += index[i] * loop->strides[k][group->dims[i]];
    }
    for (int64_t e = 0; e < count; e++) {
        offsets[e] = offset;
        for (int32_t i = 0; i < group->rank; i++) {
            const int32_t dim = group->dims[i];
            offset += loop->strides[k][dim];
            if (++index[i] < loop->dims[dim]) break;
            index[i] = 0;
            offset -= loop->dims[dim] * loop->strides[k][dim];
        }
    }
}

/* A task is a part of the rows and columns, at one place of the other dimensions, which go round fastest. */
static void turn_parts(void *user, int64_t begin, int64_t end) {
    const turn_job *job = user;
    const rt_loop *loop = job->loop;
    int64_t from_offsets[PART], to_offsets[PART], row = 0, rows = 0, column = 0, columns = 0;
    for (int64_t task = begin; task < end; task++) {
        const int64_t place = task % job->others.extent, part = task / job->others.extent;
        if (task == begin || place == 0) {
            row = part / job->column_parts * PART;
            column = part % job->column_parts * PART;
            rows = job->rows.extent - row < PART ? job->rows.extent - row : PART;
            columns = job->columns.extent - column < PART ? job->columns.extent - column : PART;
            list_offsets(&job->rows, loop, 1, row, rows, from_offsets);
            list_offsets(&job->columns, loop, 0, column, columns, to_offsets);
        }
        int64_t from, to;
        list_offsets(&job->others, loop, 0, place, 1, &to);
        list_offsets(&job->others, loop, 1, place, 1, &from);
        rt_turn_listed(job->size, job->from + (from + column) * (int64_t)job->size, from_offsets, rows,
                       columns, job->to + (to + row) * (int64_t)job->size, to_offsets);
    }
}

bool rt_turn_groups(const rt_loop *loop, int threads, size_t size, void *to, const void *from) {
    const int32_t last = loop->rank - 1;
    bool used[RT_LOOP_RANK] = {false};
    turn_job job = {.loop = loop, .size = size, .to = to, .from = from};
    job.rows.extent = job.columns.extent = job.others.extent = 1;
    const int32_t dense = next_dimension(&job.columns, loop, 1, used);
    if (last < 2 || loop->strides[0][last] != 1 || dense < 0 || dense == last) return false;
    add_dimension(&job.rows, loop, last, used);
    add_dimension(&job.columns, loop, dense, used);
    const int64_t line = LINE / (int64_t)size, side = line < 16 ? line : 16;
    bool grew = false;
    for (;;) { /* the one that is shorter first */
        const bool rows_first = job.rows.extent <= job.columns.extent;
        int32_t next = -1;
        for (int k = 0; k < 2 && next < 0; k++) {
            const bool rows = (k == 0) == rows_first;
            dim_group *const one = rows ? &job.rows : &job.columns;
            if (is_short(one->extent, rows ? line : side))
                next = next_dimension(one, loop, rows ? 0 : 1, used);
            if (next >= 0) add_dimension(one, loop, next, used);
        }
        if (next < 0) break;
        grew = true;
    }
    if (!grew || job.rows.extent < FEWEST || job.columns.extent < FEWEST) return false;
    for (int32_t i = last; i >= 0; i--)
        if (!used[i]) add_dimension(&job.others, loop, i, used);
    job.column_parts = (job.columns.extent + PART - 1) / PART;
    const int64_t parts = (job.rows.extent + PART - 1) / PART * job.column_parts,
                  rows = job.rows.extent < PART ? job.rows.extent : PART,
                  columns = job.columns.extent < PART ? job.columns.extent : PART;
    rt_parallel(threads, parts * job.others.extent, rows * columns, turn_parts, &job);
    return true;
}

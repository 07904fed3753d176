/* SPDX-License-Identifier: Apache-2.0 */
/* position.c: what an element becomes depends on where it stands: OneHot, EyeLike, Trilu, ReverseSequence, CumSum,
 * DepthToSpace and SpaceToDepth. */
#include "runtime/kernels/portable/half_rows.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/turn.h"
#include <inttypes.h>
#include <string.h>

/* A tensor as outer x extent x inner around one axis. */
typedef struct position_state {
    op_code code;
    op_dtype dtype, index_dtype;
    size_t element;
    int64_t outer, extent, inner, batch;
    bool upper, exclusive, reverse, time_first;
    int64_t offset;
    rt_loop loop;
} position_state;

static void split(const op_shape *shape, int32_t axis, position_state *state) {
    state->outer = state->inner = 1;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (d < axis) state->outer *= shape->dims[d];
        else if (d == axis) state->extent = shape->dims[d];
        else state->inner *= shape->dims[d];
    }
}

static position_state *begin(const op_call *call, base_arena *arena, rt_prepared *prepared,
                             rt_run_function *run) {
    position_state *state = BASE_NEW(arena, position_state);
    if (!state) return NULL;
    state->code = call->code;
    state->dtype = call->inputs[0].type.dtype;
    state->element = op_dtype_bytes(state->dtype);
    prepared->state = state;
    prepared->run = run;
    return state;
}

/* ---- OneHot -------------------------------------------------------------------------------------------- */

static int64_t integer_of(op_dtype dtype, const void *data, int64_t i) {
    if (dtype != OP_FLOAT && dtype != OP_DOUBLE && !rt_is_half(dtype)) return rt_integer_load(dtype, data, i);
    return rt_index(rt_element_load(dtype, data, i), INT64_MIN, INT64_MAX);
}

static base_status run_one_hot(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                               void *scratch, base_report *report) {
    (void)scratch;
    const position_state *state = prepared->state;
    const char *off = inputs[2].data, *on = off + state->element;
    char *to = outputs[0].data;
    int64_t depth = integer_of(inputs[1].type.dtype, inputs[1].data, 0);
    if (depth != state->extent)
        return base_fail(report, BASE_INVALID, "depth is %" PRId64 ", it was planned as %" PRId64, depth,
                         state->extent);
    rt_fill(to, state->outer * state->extent * state->inner, state->element, off);
    for (int64_t o = 0; o < state->outer; o++) {
        for (int64_t i = 0; i < state->inner; i++) {
            int64_t index = integer_of(state->index_dtype, inputs[0].data, o * state->inner + i);
            if (index < -depth || index >= depth) continue; /* of no class: all are off */
            if (index < 0) index += depth;
            memcpy(to + (size_t)((o * depth + index) * state->inner + i) * state->element, on,
                   state->element);
        }
    }
    return BASE_OK;
}

static base_status prepare_one_hot(const op_call *call, const rt_environment *environment, base_arena *arena,
                                   rt_prepared *prepared, base_report *report) {
    (void)environment;
    position_state *state = begin(call, arena, prepared, run_one_hot);
    if (!state) return base_fail_memory(report);
    int32_t axis = 0;
    op_axis(op_attribute_integer(&call->attributes, "axis", -1), call->outputs[0].type.shape.rank, &axis);
    split(&call->outputs[0].type.shape, axis, state);
    state->index_dtype = call->inputs[0].type.dtype;
    state->element = op_dtype_bytes(call->inputs[2].type.dtype);
    return BASE_OK;
}

/* ---- EyeLike, Trilu ------------------------------------------------------------------------------------ */

static base_status run_eye_like(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                void *scratch, base_report *report) {
    (void)inputs;
    (void)scratch;
    (void)report;
    const position_state *state = prepared->state;
    if (outputs[0].bytes) memset(outputs[0].data, 0, outputs[0].bytes);
    for (int64_t r = 0; r < state->extent; r++) {
        int64_t c = r + state->offset, at = r * state->inner + c;
        if (c < 0 || c >= state->inner) continue;
        if (state->dtype == OP_FLOAT || state->dtype == OP_DOUBLE || rt_is_half(state->dtype))
            rt_element_store(state->dtype, outputs[0].data, at, 1);
        else rt_integer_store(state->dtype, outputs[0].data, at, 1);
    }
    return BASE_OK;
}

static base_status prepare_eye_like(const op_call *call, const rt_environment *environment, base_arena *arena,
                                    rt_prepared *prepared, base_report *report) {
    (void)environment;
    position_state *state = begin(call, arena, prepared, run_eye_like);
    if (!state) return base_fail_memory(report);
    state->dtype = call->outputs[0].type.dtype;
    state->element = op_dtype_bytes(state->dtype);
    state->extent = call->outputs[0].type.shape.dims[0];
    state->inner = call->outputs[0].type.shape.dims[1];
    state->offset = op_attribute_integer(&call->attributes, "k", 0);
    /* Far away is nowhere; so that nothing overflows. */
    if (state->offset > state->inner) state->offset = state->inner;
    if (state->offset < -state->extent) state->offset = -state->extent;
    return BASE_OK;
}

static base_status run_trilu(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const position_state *state = prepared->state;
    const int64_t rows = state->extent, columns = state->inner;
    int64_t k = 0;
    if (outputs[0].bytes == 0) return BASE_OK;
    if (prepared->input_count > 1 && inputs[1].type.dtype != OP_NONE) k = *(const int64_t *)inputs[1].data;
    if (k > columns) k = columns;
    if (k < -rows) k = -rows;
    for (int64_t line = 0; line < state->outer * rows; line++) {
        const char *from = (const char *)inputs[0].data + (size_t)(line * columns) * state->element;
        char *to = (char *)outputs[0].data + (size_t)(line * columns) * state->element;
        /* The first column that is kept (upper), or the first that is not (lower). */
        int64_t cut = line % rows + k + (state->upper ? 0 : 1);
        if (cut < 0) cut = 0;
        if (cut > columns) cut = columns;
        size_t left = (size_t)cut * state->element, all = (size_t)columns * state->element;
        if (state->upper) {
            if (to != from) memcpy(to + left, from + left, all - left);
            memset(to, 0, left);
        } else {
            if (to != from) memcpy(to, from, left);
            memset(to + left, 0, all - left);
        }
    }
    return BASE_OK;
}

static base_status prepare_trilu(const op_call *call, const rt_environment *environment, base_arena *arena,
                                 rt_prepared *prepared, base_report *report) {
    (void)environment;
    position_state *state = begin(call, arena, prepared, run_trilu);
    if (!state) return base_fail_memory(report);
    const op_shape *shape = &call->inputs[0].type.shape;
    split(shape, shape->rank - 2, state);
    state->upper = op_attribute_integer(&call->attributes, "upper", 1) != 0;
    return BASE_OK;
}

/* ---- ReverseSequence ----------------------------------------------------------------------------------- */

static base_status run_reverse_sequence(const rt_prepared *prepared, const op_tensor *inputs,
                                        op_tensor *outputs, void *scratch, base_report *report) {
    (void)scratch;
    enum { SHORT = 64 }; /* bytes */
    const position_state *state = prepared->state;
    const int64_t *lengths = inputs[1].data;
    const size_t bytes = (size_t)state->inner * state->element;
    for (int64_t b = 0; b < state->batch; b++) {
        if (lengths[b] < 0 || lengths[b] > state->extent)
            return base_fail(report, BASE_INVALID,
                             "sequence %" PRId64 " has length %" PRId64 ", expected 0 to %" PRId64, b,
                             lengths[b], state->extent);
    }
    char *to = outputs[0].data;
    const char *const x = inputs[0].data;
    const int64_t row = (int64_t)bytes, rows = state->batch * row;
    if (state->time_first && bytes >= SHORT) { /* what is written lies side by side */
        for (int64_t t = 0; t < state->extent; t++) {
            for (int64_t b = 0; b < state->batch; b++, to += row) {
                const int64_t source = t < lengths[b] ? lengths[b] - 1 - t : t;
                memcpy(to, x + source * rows + b * row, bytes);
            }
        }
    } else if (state->time_first && bytes) {
        for (int64_t b = 0; b < state->batch; b++, to += row) {
            const int64_t turned = lengths[b];
            if (turned) rt_copy_spans(to, rows, x + (turned - 1) * rows + b * row, -rows, bytes, turned);
            rt_copy_spans(to + turned * rows, rows, x + turned * rows + b * row, rows, bytes,
                          state->extent - turned);
        }
    }
    for (int64_t b = 0; b < state->batch && !state->time_first && bytes; b++) {
        const size_t all = (size_t)state->extent * bytes, turned = (size_t)lengths[b] * bytes;
        const char *from = x + (size_t)b * all;
        if (turned)
            rt_copy_spans(to, (int64_t)bytes, from + turned - bytes, -(int64_t)bytes, bytes, lengths[b]);
        if (all > turned) memcpy(to + turned, from + turned, all - turned);
        to += all;
    }
    return BASE_OK;
}

static base_status prepare_reverse_sequence(const op_call *call, const rt_environment *environment,
                                            base_arena *arena, rt_prepared *prepared, base_report *report) {
    (void)environment;
    position_state *state = begin(call, arena, prepared, run_reverse_sequence);
    if (!state) return base_fail_memory(report);
    const op_shape *shape = &call->inputs[0].type.shape;
    state->time_first = op_attribute_integer(&call->attributes, "time_axis", 0) == 0;
    split(shape, 1, state); /* inner: all after the first two */
    state->extent = shape->dims[state->time_first ? 0 : 1];
    state->batch = shape->dims[state->time_first ? 1 : 0];
    int64_t lengths = 0;
    op_shape_elements(&call->inputs[1].type.shape, &lengths);
    if (lengths != state->batch)
        return base_fail(report, BASE_INVALID, "input 1 has %" PRId64 " lengths, the batch has %" PRId64,
                         lengths, state->batch);
    return BASE_OK;
}

/* ---- CumSum -------------------------------------------------------------------------------------------- */

enum {
    ABREAST = 512, /* columns whose sums are made side by side, as they lie in memory */
    FEWEST_ABREAST = 64,
    SIDE = 16,  /* rows that are turned, so that they are columns of a tile */
    FEW = 4,    /* fewer rows are summed as they lie */
    TILE = 128, /* elements of each row */
    GROUP = 4   /* rows of floats that are added to each other first */
};

/* Tasks are SIDE rows where `inner` is 1, otherwise `abreast` columns of a plane, of which there are `parts`. */
typedef struct cumulation {
    int64_t outer, extent, inner;
    bool exclusive, reverse;
    int64_t abreast, parts, tasks;
} cumulation;

/* y[c * y_row + r] = x[r * x_row + c], of elements of four or eight bytes. */
static void turn(const void *x, int64_t x_row, int64_t rows, int64_t columns, void *y, int64_t y_row,
                 size_t size) {
    if (size == sizeof(uint32_t)) rt_turn_words(x, x_row, rows, columns, y, y_row);
    else rt_turn_longs(x, x_row, rows, columns, y, y_row);
}

/* `extent` rows of `count` columns, at a distance of `step`: the sums go on from `sums`, four rows at a time. */
#define CUMULATE_COLUMNS(name, type, sum_type, operator)                                                     \
    RT_CLONES static void name##_columns(const cumulation *c, int64_t extent, int64_t step,                  \
                                         const type *from, type *to, int64_t count,                          \
                                         sum_type *restrict sums) {                                          \
        const int64_t next = c->reverse ? -step : step;                                                      \
        const int64_t first = c->reverse ? (extent - 1) * step : 0;                                          \
        int64_t k = 0;                                                                                       \
        for (; k + 4 <= extent && !c->exclusive; k += 4) {                                                   \
            const type *x = from + first + k * next;                                                         \
            type *y = to + first + k * next;                                                                 \
            RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                  \
                const sum_type a = sums[i] operator(sum_type) x[i], b = a operator(sum_type) x[next + i],    \
                               d = b operator(sum_type) x[2 * next + i],                                     \
                               e = d operator(sum_type) x[3 * next + i];                                     \
                y[i] = (type)a;                                                                              \
                y[next + i] = (type)b;                                                                       \
                y[2 * next + i] = (type)d;                                                                   \
                y[3 * next + i] = (type)e;                                                                   \
                sums[i] = e;                                                                                 \
            }                                                                                                \
        }                                                                                                    \
        for (; k < extent; k++) {                                                                            \
            const type *x = from + first + k * next;                                                         \
            type *y = to + first + k * next;                                                                 \
            RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                  \
                const sum_type sum = sums[i] operator(sum_type) x[i];                                        \
                y[i] = (type)(c->exclusive ? sums[i] : sum);                                                 \
                sums[i] = sum;                                                                               \
            }                                                                                                \
        }                                                                                                    \
    }
#define CUMULATE_LINES(name, type, sum_type, none)                                                                   \
    /* Rows side by side, as each addition waits for the one before it: tiles of them are turned and turned back. */ \
    static void name##_rows(const cumulation *c, const type *from, type *to, int64_t rows) {                         \
        sum_type sums[SIDE];                                                                                         \
        type tile[TILE * SIDE];                                                                                      \
        for (int64_t r = 0; r < SIDE; r++) sums[r] = (none);                                                         \
        for (int64_t done = 0; done < c->extent; done += TILE) {                                                     \
            const int64_t wide = c->extent - done < TILE ? c->extent - done : TILE,                                  \
                          first = c->reverse ? c->extent - done - wide : done;                                       \
            turn(from + first, c->extent, rows, wide, tile, SIDE, sizeof *tile);                                     \
            name##_columns(c, wide, SIDE, tile, tile, rows, sums);                                                   \
            turn(tile, SIDE, wide, rows, to + first, c->extent, sizeof *tile);                                       \
        }                                                                                                            \
    }                                                                                                                \
    static void name(const cumulation *c, const void *from, void *to, int64_t begin, int64_t end) {                  \
        for (int64_t task = begin; task < end; task++) {                                                             \
            const int64_t o = c->inner == 1 ? task * SIDE : task / c->parts, rest = c->outer - o,                    \
                          rows = c->inner > 1  ? 1                                                                   \
                                 : rest < SIDE ? rest                                                                \
                                               : SIDE,                                                               \
                          first = task % c->parts * c->abreast, wide = c->inner - first,                             \
                          count = wide < c->abreast ? wide : c->abreast, plane = c->extent * c->inner;               \
            const type *x = (const type *)from + o * plane + first;                                                  \
            type *y = (type *)to + o * plane + first;                                                                \
            if (rows >= FEW) {                                                                                       \
                name##_rows(c, x, y, rows);                                                                          \
                continue;                                                                                            \
            }                                                                                                        \
            for (int64_t row = 0; row < rows; row++, x += plane, y += plane) {                                       \
                sum_type sums[ABREAST];                                                                              \
                for (int64_t i = 0; i < count; i++) sums[i] = (none);                                                \
                name##_columns(c, c->extent, c->inner, x, y, count, sums);                                           \
            }                                                                                                        \
        }                                                                                                            \
    }
#define CUMULATE(name, type, sum_type, none, operator)                                                       \
    CUMULATE_COLUMNS(name, type, sum_type, operator)                                                         \
    CUMULATE_LINES(name, type, sum_type, none)
#define CUMULATE_TYPES(name, none, operator)                                                                 \
    CUMULATE(name##_double, double, double, none, operator)                                                  \
    CUMULATE(name##_int32, uint32_t, uint32_t, none, operator)                                               \
    CUMULATE(name##_int64, uint64_t, uint64_t, none, operator)
CUMULATE_TYPES(sums, 0, +)
CUMULATE_TYPES(products, 1, *)
CUMULATE(products_float, float, double, 1, *)

/* A group of rows of floats at x. The row at `edge` becomes `limit`, what came before the group or after it; the three others begin at `y`. */
#define SUM_GROUP(edge, limit, y)                                                                            \
    RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                          \
        const float before = (float)sums[i], a = x[i], b = a + x[next + i], d = b + x[2 * next + i];         \
        const double after = sums[i] + (double)(d + x[3 * next + i]);                                        \
        (edge)[i] = (float)(limit);                                                                          \
        (y)[i] = before + a;                                                                                 \
        (y)[next + i] = before + b;                                                                          \
        (y)[2 * next + i] = before + d;                                                                      \
        sums[i] = after;                                                                                     \
    }

/* Sums of floats: what the rows of a group add is summed in floats, and that goes on in doubles, so that what is lost does not grow
 * from row to row. A conversion takes as long as two additions of as many floats, and each row by itself would need two of them. */
RT_CLONES static void sums_float_columns(const cumulation *c, int64_t extent, int64_t step, const float *from,
                                         float *to, int64_t count, double *restrict sums) {
    const int64_t next = c->reverse ? -step : step, first = c->reverse ? (extent - 1) * step : 0;
    int64_t k = 0;
    for (; k + GROUP <= extent; k += GROUP) {
        const float *x = from + first + k * next;
        float *y = to + first + k * next;
        if (c->exclusive) SUM_GROUP(y, before, y + next)
        else SUM_GROUP(y + 3 * next, after, y)
    }
    for (; k < extent; k++) {
        const float *x = from + first + k * next;
        float *y = to + first + k * next;
        RT_VECTOR for (int64_t i = 0; i < count; i++) {
            const double sum = sums[i] + (double)x[i];
            y[i] = (float)(c->exclusive ? sums[i] : sum);
            sums[i] = sum;
        }
    }
}
CUMULATE_LINES(sums_float, float, double, 0)

/* 16 bits: a tile at a time becomes floats, in columns, whose sums are doubles. */
static void cumulate_halves(op_dtype dtype, bool products, const cumulation *c, const uint16_t *from,
                            uint16_t *to, int64_t begin, int64_t end) {
    void (*const columns)(const cumulation *, int64_t, int64_t, const float *, float *, int64_t, double *) =
        products ? products_float_columns : sums_float_columns;
    const bool rows = c->inner == 1;
    const int64_t lines = rows ? c->outer : c->inner;
    float tile[TILE * SIDE], turned[TILE * SIDE];
    double sums[SIDE];
    for (int64_t task = begin; task < end; task++) {
        /* Lines of one plane: rows, or columns of it. */
        const int64_t line = (rows ? task : task % c->parts) * SIDE,
                      count = lines - line < SIDE ? lines - line : SIDE,
                      base = rows ? line * c->extent : task / c->parts * c->extent * c->inner + line;
        for (int64_t i = 0; i < SIDE; i++) sums[i] = products;
        for (int64_t done = 0; done < c->extent; done += TILE) {
            const int64_t wide = c->extent - done < TILE ? c->extent - done : TILE,
                          first = c->reverse ? c->extent - done - wide : done;
            if (rows) {
                rt_half_rows_load(dtype, from + base + first, c->extent, count, wide, TILE, tile);
                turn(tile, TILE, count, wide, turned, SIDE, sizeof *tile);
            } else {
                rt_half_rows_load(dtype, from + base + first * c->inner, c->inner, wide, count, SIDE, turned);
            }
            columns(c, wide, SIDE, turned, turned, count, sums);
            if (rows) {
                turn(turned, SIDE, wide, count, tile, TILE, sizeof *tile);
                rt_half_rows_store(dtype, tile, TILE, count, wide, to + base + first, c->extent);
            } else {
                rt_half_rows_store(dtype, turned, SIDE, wide, count, to + base + first * c->inner, c->inner);
            }
        }
    }
}

/* How the lines are shared out: the sums of each are the same whatever lies beside it. */
static void set_tasks(cumulation *c, op_dtype dtype, int threads) {
    const int64_t share = (c->inner * c->outer + threads - 1) / threads,
                  whole = (share + FEWEST_ABREAST - 1) / FEWEST_ABREAST * FEWEST_ABREAST;
    c->abreast = rt_is_half(dtype) ? SIDE : whole < ABREAST ? whole : ABREAST;
    c->parts = c->inner > 1 ? (c->inner + c->abreast - 1) / c->abreast : 1;
    c->tasks = c->inner > 1 ? c->outer * c->parts : (c->outer + SIDE - 1) / SIDE;
}

typedef struct cumulation_job {
    const cumulation *c;
    op_dtype dtype;
    bool products;
    const void *from;
    void *to;
} cumulation_job;

/* Sums or products along an axis. */
static void cumulate(void *user, int64_t begin, int64_t end) {
    const cumulation_job *job = user;
    const bool products = job->products;
    switch (job->dtype) {
    case OP_FLOAT:
        (products ? products_float : sums_float)(job->c, job->from, job->to, begin, end);
        return;
    case OP_DOUBLE:
        (products ? products_double : sums_double)(job->c, job->from, job->to, begin, end);
        return;
    case OP_INT32:
    case OP_UINT32:
        (products ? products_int32 : sums_int32)(job->c, job->from, job->to, begin, end);
        return;
    case OP_INT64:
    case OP_UINT64:
        (products ? products_int64 : sums_int64)(job->c, job->from, job->to, begin, end);
        return;
    default:
        cumulate_halves(job->dtype, products, job->c, job->from, job->to, begin, end);
    }
}

static base_status run_cum_sum(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                               void *scratch, base_report *report) {
    (void)scratch;
    const position_state *state = prepared->state;
    const op_shape *shape = &inputs[0].type.shape;
    int64_t value = inputs[1].type.dtype == OP_INT64 ? *(const int64_t *)inputs[1].data
                                                     : *(const int32_t *)inputs[1].data;
    int32_t axis;
    if (!op_axis(value, shape->rank, &axis))
        return base_fail(report, BASE_INVALID, "axis %" PRId64 " is outside of [%d, %d)", value, -shape->rank,
                         shape->rank);
    position_state parts = {.extent = 1};
    split(shape, axis, &parts);
    if (parts.outer * parts.extent * parts.inner == 0) return BASE_OK;
    cumulation c = {parts.outer, parts.extent, parts.inner, state->exclusive, state->reverse, 0, 0, 0};
    set_tasks(&c, state->dtype, prepared->threads);
    cumulation_job job = {&c, state->dtype, prepared->code == OP_CUM_PROD, inputs[0].data, outputs[0].data};
    const int64_t lines = c.inner > 1 ? c.abreast : SIDE;
    rt_parallel(prepared->threads, c.tasks, c.extent * lines, cumulate, &job);
    return BASE_OK;
}

static base_status prepare_cum_sum(const op_call *call, const rt_environment *environment, base_arena *arena,
                                   rt_prepared *prepared, base_report *report) {
    (void)environment;
    position_state *state = begin(call, arena, prepared, run_cum_sum);
    if (!state) return base_fail_memory(report);
    int64_t elements = 0;
    op_shape_elements(&call->inputs[1].type.shape, &elements);
    if (elements != 1)
        return base_fail(report, BASE_INVALID, "the axis has %" PRId64 " elements, expected one", elements);
    state->exclusive = op_attribute_integer(&call->attributes, "exclusive", 0) != 0;
    state->reverse = op_attribute_integer(&call->attributes, "reverse", 0) != 0;
    return BASE_OK;
}

/* ---- DepthToSpace, SpaceToDepth ------------------------------------------------------------------------ */

static base_status run_depth_space(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                   void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const position_state *state = prepared->state;
    rt_copy_strided(&state->loop, prepared->threads, state->element, outputs[0].data, inputs[0].data);
    return BASE_OK;
}

static base_status prepare_depth_space(const op_call *call, const rt_environment *environment,
                                       base_arena *arena, rt_prepared *prepared, base_report *report) {
    (void)environment;
    position_state *state = begin(call, arena, prepared, run_depth_space);
    if (!state) return base_fail_memory(report);
    bool to_space = call->code == OP_DEPTH_TO_SPACE;
    const op_shape *deep = to_space ? &call->inputs[0].type.shape : &call->outputs[0].type.shape;
    const int64_t b = op_attribute_integer(&call->attributes, "blocksize", 1), c = deep->dims[1] / (b * b),
                  h = deep->dims[2], w = deep->dims[3];
    bool rows_first = !to_space || op_attribute_is(&call->attributes, "mode", "DCR", "DCR");
    /* The dimensions batch, channel, row, row of the block, column, column of the block, and their strides in the
     * deep tensor and in the wide one, whose order they are in. */
    const int64_t dims[6] = {deep->dims[0], c, h, b, w, b};
    const int64_t wide[6] = {c * h * b * w * b, h * b * w * b, b * w * b, w * b, b, 1};
    const int64_t plane = h * w, channel = rows_first ? plane : b * b * plane,
                  block = rows_first ? b * c * plane : b * plane, within = rows_first ? c * plane : plane;
    const int64_t deeper[6] = {deep->dims[1] * plane, channel, w, block, 1, within};
    rt_loop *loop = &state->loop;
    *loop = (rt_loop){.rank = 6, .operands = 2};
    if (to_space) { /* written in the wide tensor's order */
        memcpy(loop->dims, dims, sizeof dims);
        memcpy(loop->strides[0], wide, sizeof wide);
        memcpy(loop->strides[1], deeper, sizeof deeper);
    } else { /* batch, row of the block, column of the block, channel, row, column */
        static const int order[6] = {0, 3, 5, 1, 2, 4};
        for (int i = 0; i < 6; i++) {
            loop->dims[i] = dims[order[i]];
            loop->strides[0][i] = deeper[order[i]];
            loop->strides[1][i] = wide[order[i]];
        }
    }
    rt_loop_collapse(loop);
    return BASE_OK;
}

const rt_kernel rt_kernel_one_hot = {
    .name = "portable.one_hot", .accepts = rt_accepts_any_row_major, .prepare = prepare_one_hot};
const rt_kernel rt_kernel_eye_like = {
    .name = "portable.eye_like", .accepts = rt_accepts_any_row_major, .prepare = prepare_eye_like};
const rt_kernel rt_kernel_trilu = {
    .name = "portable.trilu", .accepts = rt_accepts_any_row_major, .prepare = prepare_trilu};
const rt_kernel rt_kernel_reverse_sequence = {.name = "portable.reverse_sequence",
                                              .accepts = rt_accepts_any_row_major,
                                              .prepare = prepare_reverse_sequence};
const rt_kernel rt_kernel_cum_sum = {
    .name = "portable.cum_sum", .accepts = rt_accepts_any_row_major, .prepare = prepare_cum_sum};
const rt_kernel rt_kernel_depth_space = {
    .name = "portable.depth_space", .accepts = rt_accepts_any_row_major, .prepare = prepare_depth_space};

/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c: sums, means, products and extrema over axes.
 *
 * Sums of float and half precision are taken in float over short stretches, and those in double; products of
 * reals in double. Integers wrap around; their mean is truncated. A maximum or minimum is NaN where an
 * element is. Of no elements the sum is 0, the product 1, the mean NaN (0 for integers), the maximum minus
 * infinity (or the smallest number), the minimum the opposite. Elements are combined in an order that depends
 * on the shape and the layout alone.
 */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/reduce_channels.h"
#include "runtime/kernels/portable/reduce_rows.h"
#include <math.h>
#include <string.h>

/* LANES partial results of a run of reduced elements; COLUMNS results side by side where the innermost
 * dimension is kept. STRETCH: how many elements a lane or column takes up before it is added to its total. CHAINS: so many results of
 * LANES columns, as many as a block of channels has, are made side by side, so that no addition waits for the one before. The order within a
 * column does not depend on how many there are: bands have other numbers of them. */
enum {
    LANES = 16,
    COLUMNS = 64,
    STRETCH = 32,
    CHAINS = 4,
    TOGETHER = 4 /* lines that a column takes up at once */
};

/* The dimensions of the input, neighbours of the same fate joined: those kept and those reduced, each with
 * its stride in the input; the innermost dimension of all apart. */
typedef struct reduce_shape {
    int32_t kept_rank, reduced_rank;
    int64_t kept[OP_MAX_RANK], kept_strides[OP_MAX_RANK];
    int64_t reduced[OP_MAX_RANK], reduced_strides[OP_MAX_RANK];
    bool inner_reduced;
    int64_t inner;      /* extent of the innermost dimension, whose stride is 1 */
    int64_t kept_count; /* products of kept[] and reduced[], inner not among them */
    int64_t reduced_count;
    int64_t groups;   /* of columns */
    int64_t elements; /* that make one result */
} reduce_shape;

/* `mean`: a sum is divided by the number of elements. */
typedef void reduce_function(const reduce_shape *shape, bool mean, void *to, const void *from, int64_t begin,
                             int64_t end);

static int64_t start_of(const reduce_shape *shape, int64_t index) {
    int64_t offset = 0;
    if (shape->kept_rank == 1) return index * shape->kept_strides[0];
    for (int32_t i = shape->kept_rank - 1; i >= 0; i--) {
        offset += index % shape->kept[i] * shape->kept_strides[i];
        index /= shape->kept[i];
    }
    return offset;
}

/* To the next combination of reduced indices. */
static inline int64_t advance(const reduce_shape *shape, int64_t index[], int64_t offset) {
    for (int32_t i = shape->reduced_rank - 1; i >= 0; i--) {
        offset += shape->reduced_strides[i];
        if (++index[i] < shape->reduced[i]) break;
        index[i] = 0;
        offset -= shape->reduced[i] * shape->reduced_strides[i];
    }
    return offset;
}

/* Tasks are results where the innermost dimension is reduced, otherwise groups of columns. `combine` is of a
 * partial result p and an element x, `join` of a total t and a partial result p, `finish` of t, of `mean` and of the
 * count n. */
#define REDUCE(name, clones, type, partial, total, initial, combine, join, finish)                           \
    static inline __attribute__((always_inline)) void name##_chains(                                         \
        const type *const starts[], int count, int64_t lines, int64_t step, total totals[][LANES]) {         \
        for (int k = 0; k < count * LANES; k++) totals[k / LANES][k % LANES] = (initial);                    \
        for (int64_t r = 0; r < lines; r += STRETCH) {                                                       \
            const int64_t stretch = lines - r < STRETCH ? lines - r : STRETCH;                               \
            partial chains[CHAINS][LANES];                                                                   \
            for (int k = 0; k < count * LANES; k++) chains[k / LANES][k % LANES] = (initial);                \
            for (int64_t i = 0; i < stretch; i++) {                                                          \
                for (int chain = 0; chain < count; chain++) {                                                \
                    const type *line = starts[chain] + (r + i) * step;                                       \
                    RT_VECTOR for (int k = 0; k < LANES; k++) {                                              \
                        const partial p = chains[chain][k];                                                  \
                        const type x = line[k];                                                              \
                        chains[chain][k] = (combine);                                                        \
                    }                                                                                        \
                }                                                                                            \
            }                                                                                                \
            for (int chain = 0; chain < count; chain++) {                                                    \
                RT_VECTOR for (int k = 0; k < LANES; k++) {                                                  \
                    const partial p = chains[chain][k];                                                      \
                    const total t = totals[chain][k];                                                        \
                    totals[chain][k] = (join);                                                               \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    clones static void name(const reduce_shape *shape, bool mean, void *to, const void *from, int64_t begin, \
                            int64_t end) {                                                                   \
        type *results = to;                                                                                  \
        const int64_t n = shape->elements, inner = shape->inner;                                             \
        (void)n, (void)mean;                                                                                 \
        for (int64_t task = begin; task < end; task++) {                                                     \
            int64_t index[OP_MAX_RANK] = {0};                                                                \
            if (shape->inner_reduced) {                                                                      \
                const type *at = (const type *)from + start_of(shape, task);                                 \
                partial lanes[LANES];                                                                        \
                total reduced = (initial);                                                                   \
                int64_t offset = 0;                                                                          \
                const bool exact =                                                                           \
                    (total)0.5 == 0; /* integers: in any order, as the compiler will have it */              \
                for (int64_t r = 0; r < shape->reduced_count && exact; r++) {                                \
                    const type *run = at + offset;                                                           \
                    partial some = (initial);                                                                \
                    for (int64_t i = 0; i < inner; i++) {                                                    \
                        const partial p = some;                                                              \
                        const type x = run[i];                                                               \
                        some = (combine);                                                                    \
                    }                                                                                        \
                    const total t = reduced;                                                                 \
                    const partial p = some;                                                                  \
                    reduced = (join);                                                                        \
                    offset = advance(shape, index, offset);                                                  \
                }                                                                                            \
                for (int64_t r = 0; r < shape->reduced_count && !exact; r++) {                               \
                    for (int64_t first = 0; first < inner; first += STRETCH * LANES) {                       \
                        const int64_t rest = inner - first;                                                  \
                        const int64_t length = rest < STRETCH * LANES ? rest : STRETCH * LANES;              \
                        const type *run = at + offset + first;                                               \
                        const int64_t whole = length - length % LANES;                                       \
                        for (int k = 0; k < LANES; k++) lanes[k] = (initial);                                \
                        for (int64_t i = 0; i < whole; i += LANES) {                                         \
                            RT_VECTOR for (int k = 0; k < LANES; k++) {                                      \
                                const partial p = lanes[k];                                                  \
                                const type x = run[i + k];                                                   \
                                lanes[k] = (combine);                                                        \
                            }                                                                                \
                        }                                                                                    \
                        if (whole < length) {                                                                \
                            /* The last LANES elements, those that were taken already left out. */           \
                            type tail[LANES];                                                                \
                            const type *last = run + length - LANES;                                         \
                            int32_t taken = (int32_t)(LANES - (length - whole));                             \
                            if (length < LANES) {                                                            \
                                memcpy(tail, run, (size_t)length * sizeof *tail);                            \
                                for (int64_t k = length; k < LANES; k++) tail[k] = (type)(initial);          \
                                last = tail;                                                                 \
                                taken = 0;                                                                   \
                            }                                                                                \
                            RT_VECTOR for (int32_t k = 0; k < LANES; k++) {                                  \
                                const partial p = lanes[k];                                                  \
                                const type seen = last[k], x = k < taken ? (type)(initial) : seen;           \
                                lanes[k] = (combine);                                                        \
                            }                                                                                \
                        }                                                                                    \
                        total halves[LANES];                                                                 \
                        RT_VECTOR for (int k = 0; k < LANES; k++) halves[k] = (total)lanes[k];               \
                        RT_VECTOR for (int k = 0; k < LANES / 2; k++) {                                      \
                            const total t = halves[k], p = halves[k + LANES / 2];                            \
                            halves[k] = (join);                                                              \
                        }                                                                                    \
                        RT_VECTOR for (int k = 0; k < LANES / 4; k++) {                                      \
                            const total t = halves[k], p = halves[k + LANES / 4];                            \
                            halves[k] = (join);                                                              \
                        }                                                                                    \
                        for (int k = 1; k < LANES / 4; k++) {                                                \
                            const total t = halves[0], p = halves[k];                                        \
                            halves[0] = (join);                                                              \
                        }                                                                                    \
                        const total t = reduced, p = halves[0];                                              \
                        reduced = (join);                                                                    \
                    }                                                                                        \
                    offset = advance(shape, index, offset);                                                  \
                }                                                                                            \
                const total t = reduced;                                                                     \
                results[task] = (type)(finish);                                                              \
                continue;                                                                                    \
            }                                                                                                \
            if (inner == LANES && shape->reduced_rank == 1 && end - task > 1) {                              \
                const int64_t step = shape->reduced_strides[0], several = end - task < CHAINS ? 2 : CHAINS;  \
                const type *starts[CHAINS];                                                                  \
                for (int64_t s = 0; s < several; s++)                                                        \
                    starts[s] = (const type *)from + start_of(shape, task + s);                              \
                total totals[CHAINS][LANES];                                                                 \
                if (several == CHAINS) name##_chains(starts, CHAINS, shape->reduced_count, step, totals);    \
                else name##_chains(starts, 2, shape->reduced_count, step, totals);                           \
                for (int64_t i = 0; i < several * LANES; i++) {                                              \
                    const total t = totals[i / LANES][i % LANES];                                            \
                    results[task * LANES + i] = (type)(finish);                                              \
                }                                                                                            \
                task += several - 1;                                                                         \
                continue;                                                                                    \
            }                                                                                                \
            const int64_t column = task % shape->groups * COLUMNS;                                           \
            const int64_t columns = inner - column < COLUMNS ? inner - column : COLUMNS;                     \
            const type *at = (const type *)from + start_of(shape, task / shape->groups) + column;            \
            type *row = results + task / shape->groups * inner + column;                                     \
            partial partials[COLUMNS];                                                                       \
            total totals[COLUMNS];                                                                           \
            int64_t offset = 0;                                                                              \
            for (int64_t c = 0; c < columns; c++) totals[c] = (initial);                                     \
            for (int64_t r = 0; r < shape->reduced_count;) {                                                 \
                const int64_t rest = shape->reduced_count - r, stretch = rest < STRETCH ? rest : STRETCH;    \
                for (int64_t c = 0; c < columns; c++) partials[c] = (initial);                               \
                int64_t i = 0;                                                                               \
                const int64_t step = shape->reduced_rank == 1 ? shape->reduced_strides[0] : 0;               \
                for (; step && i + TOGETHER <= stretch; i += TOGETHER, r += TOGETHER) {                      \
                    const type *line = at + offset;                                                          \
                    RT_VECTOR for (int64_t c = 0; c < columns; c++) {                                        \
                        partial several = partials[c];                                                       \
                        for (int l = 0; l < TOGETHER; l++) {                                                 \
                            const partial p = several;                                                       \
                            const type x = line[l * step + c];                                               \
                            several = (combine);                                                             \
                        }                                                                                    \
                        partials[c] = several;                                                               \
                    }                                                                                        \
                    offset += TOGETHER * step;                                                               \
                }                                                                                            \
                for (; i < stretch; i++, r++) {                                                              \
                    const type *line = at + offset;                                                          \
                    RT_VECTOR for (int64_t c = 0; c < columns; c++) {                                        \
                        const partial p = partials[c];                                                       \
                        const type x = line[c];                                                              \
                        partials[c] = (combine);                                                             \
                    }                                                                                        \
                    offset = advance(shape, index, offset);                                                  \
                }                                                                                            \
                for (int64_t c = 0; c < columns; c++) {                                                      \
                    const partial p = partials[c];                                                           \
                    const total t = totals[c];                                                               \
                    totals[c] = (join);                                                                      \
                }                                                                                            \
            }                                                                                                \
            for (int64_t c = 0; c < columns; c++) {                                                          \
                const total t = totals[c];                                                                   \
                row[c] = (type)(finish);                                                                     \
            }                                                                                                \
        }                                                                                                    \
    }

#define LARGER(new, old) ((((new) > (old)) | ((new) != (new))) ? (new) : (old))
#define SMALLER(new, old) ((((new) < (old)) | ((new) != (new))) ? (new) : (old))

#define REDUCE_REAL(suffix, type, absolute)                                                                  \
    REDUCE(sum_##suffix, RT_CLONES, type, type, double, 0, p + x, t + p, mean ? t / (double)n : t)           \
    REDUCE(absolute_sum_##suffix, RT_CLONES, type, type, double, 0, p + absolute(x), t + p,                  \
           mean ? t / (double)n : t)                                                                         \
    REDUCE(square_sum_##suffix, RT_CLONES, type, type, double, 0, p + x * x, t + p,                          \
           mean ? t / (double)n : t)                                                                         \
    REDUCE(product_##suffix, RT_CLONES, type, double, double, 1, p *x, t *p, t)                              \
    REDUCE(maximum_##suffix, RT_CLONES, type, type, type, -INFINITY, LARGER(x, p), LARGER(p, t), t)          \
    REDUCE(minimum_##suffix, RT_CLONES, type, type, type, INFINITY, SMALLER(x, p), SMALLER(p, t), t)
#define REDUCE_EXTREMA(suffix, clones, type, low, high)                                                      \
    REDUCE(maximum_##suffix, clones, type, type, type, low, x > p ? x : p, p > t ? p : t, t)                 \
    REDUCE(minimum_##suffix, clones, type, type, type, high, x < p ? x : p, p < t ? p : t, t)
#define REDUCE_SUM(suffix, type, wide)                                                                       \
    REDUCE(sum_##suffix, RT_CLONES, type, uint64_t, uint64_t, 0, p + (uint64_t)x, t + p,                     \
           !mean ? t                                                                                         \
           : n   ? (uint64_t)((wide)t / (wide)n)                                                             \
                 : 0)
#define REDUCE_PRODUCT(suffix, type)                                                                         \
    REDUCE(product_##suffix, RT_CLONES, type, uint64_t, uint64_t, 1, p *(uint64_t)x, t *p, t)

REDUCE_REAL(float, float, fabsf)
REDUCE_REAL(double, double, fabs)
REDUCE_SUM(int32, int32_t, int64_t)
REDUCE_SUM(int64, int64_t, int64_t)
REDUCE_SUM(uint32, uint32_t, uint64_t)
REDUCE_SUM(uint64, uint64_t, uint64_t)
/* Products modulo a power of two are the same with and without signs. */
REDUCE_PRODUCT(uint32, uint32_t)
REDUCE_PRODUCT(uint64, uint64_t)
REDUCE_EXTREMA(int32, RT_CLONES, int32_t, INT32_MIN, INT32_MAX)
REDUCE_EXTREMA(int64, RT_CLONES, int64_t, INT64_MIN, INT64_MAX)
REDUCE_EXTREMA(int8, RT_CLONES, int8_t, INT8_MIN, INT8_MAX)
REDUCE_EXTREMA(uint8, RT_CLONES, uint8_t, 0, UINT8_MAX)
/* Types that models hardly reduce are compiled once. */
REDUCE_EXTREMA(uint32, , uint32_t, 0, UINT32_MAX)
REDUCE_EXTREMA(uint64, , uint64_t, 0, UINT64_MAX)
REDUCE_EXTREMA(bool, , uint8_t, 0, 1)

#define ROW(name)                                                                                            \
    [OP_FLOAT] = name##_float, [OP_DOUBLE] = name##_double, [OP_INT32] = name##_int32,                       \
    [OP_INT64] = name##_int64, [OP_UINT32] = name##_uint32, [OP_UINT64] = name##_uint64
#define product_int32 product_uint32
#define product_int64 product_uint64

static reduce_function *const rows[OP_CODE_COUNT][OP_DTYPE_COUNT] = {
    [OP_REDUCE_SUM] = {ROW(sum)},
    [OP_REDUCE_MEAN] = {ROW(sum)},
    [OP_REDUCE_PROD] = {ROW(product)},
    [OP_REDUCE_MAX] =
        {ROW(maximum), [OP_INT8] = maximum_int8, [OP_UINT8] = maximum_uint8, [OP_BOOL] = maximum_bool},
    [OP_REDUCE_MIN] =
        {ROW(minimum), [OP_INT8] = minimum_int8, [OP_UINT8] = minimum_uint8, [OP_BOOL] = minimum_bool},
};

/* NULL: there is none. */
static reduce_function *find(op_code code, rt_reduced of, op_dtype dtype) {
    if (of == RT_ELEMENTS) return rows[code][rt_is_half(dtype) ? OP_FLOAT : dtype];
    if (code != OP_REDUCE_SUM && code != OP_REDUCE_MEAN) return NULL;
    if (dtype == OP_FLOAT) return of == RT_SQUARES ? square_sum_float : absolute_sum_float;
    if (dtype == OP_DOUBLE) return of == RT_SQUARES ? square_sum_double : absolute_sum_double;
    return NULL;
}

static rt_reduced reduced_by(const op_call *call) {
    if (op_attribute_is(&call->attributes, "ouro.of", "Square", "")) return RT_SQUARES;
    return op_attribute_is(&call->attributes, "ouro.of", "Abs", "") ? RT_ABSOLUTES : RT_ELEMENTS;
}

typedef struct reduce_state {
    reduce_function *function;
    op_code code;
    rt_reduced of;
    bool floats; /* or what becomes floats in scratch */
    bool known;  /* shape is prepared; otherwise the axes are read when it runs */
    bool noop;
    reduce_shape shape;
    rt_channel_reduction channels; /* of those alone, where they lie side by side */
} reduce_state;

/* Works out what is reduced. */
static base_status plan(const op_tensor *inputs, uint32_t input_count, bool noop, reduce_shape *shape,
                        base_report *report) {
    const op_shape *from = &inputs[0].type.shape;
    bool marks[OP_MAX_RANK] = {false};
    int64_t count = 0;
    if (input_count > 1 && inputs[1].type.dtype != OP_NONE) op_shape_elements(&inputs[1].type.shape, &count);
    for (int64_t i = 0; i < count; i++) {
        int64_t value;
        int32_t axis;
        memcpy(&value, (const char *)inputs[1].data + i * (int64_t)sizeof value, sizeof value);
        if (!op_axis(value, from->rank, &axis)) {
            return base_fail(report, BASE_INVALID, "axis %lld is outside of [%d, %d)", (long long)value,
                             -from->rank, from->rank);
        }
        marks[axis] = true;
    }
    *shape = (reduce_shape){.inner = 1, .kept_count = 1, .reduced_count = 1, .groups = 1, .elements = 1};
    int64_t stride = 1;
    bool inner = true, last = false; /* still within the innermost; the fate of the dimension before */
    for (int32_t i = from->rank - 1; i >= 0; i--) {
        bool reduced = count > 0 ? marks[i] : !noop;
        int64_t dim = from->dims[i];
        if (reduced) shape->elements *= dim;
        if (dim == 1) continue;
        if (stride == 1 && inner && (shape->inner == 1 || shape->inner_reduced == reduced)) {
            shape->inner_reduced = reduced;
            shape->inner *= dim;
        } else {
            int32_t *rank = reduced ? &shape->reduced_rank : &shape->kept_rank;
            int64_t *dims = reduced ? shape->reduced : shape->kept;
            int64_t *strides = reduced ? shape->reduced_strides : shape->kept_strides;
            if (!inner && last == reduced) {
                dims[*rank - 1] *= dim;
            } else {
                dims[*rank] = dim;
                strides[(*rank)++] = shape->inner * stride;
            }
            *(reduced ? &shape->reduced_count : &shape->kept_count) *= dim;
            stride *= dim;
            inner = false;
            last = reduced;
        }
    }
    /* Collected from the inside; the loops want the outermost first. */
    for (int32_t i = 0; i < shape->kept_rank / 2; i++) {
        int32_t other = shape->kept_rank - 1 - i;
        int64_t dim = shape->kept[i], by = shape->kept_strides[i];
        shape->kept[i] = shape->kept[other];
        shape->kept_strides[i] = shape->kept_strides[other];
        shape->kept[other] = dim;
        shape->kept_strides[other] = by;
    }
    for (int32_t i = 0; i < shape->reduced_rank / 2; i++) {
        int32_t other = shape->reduced_rank - 1 - i;
        int64_t dim = shape->reduced[i], by = shape->reduced_strides[i];
        shape->reduced[i] = shape->reduced[other];
        shape->reduced_strides[i] = shape->reduced_strides[other];
        shape->reduced[other] = dim;
        shape->reduced_strides[other] = by;
    }
    if (!shape->inner_reduced) shape->groups = (shape->inner + COLUMNS - 1) / COLUMNS;
    return BASE_OK;
}

/* Of a map that does not lie row-major: all its positions are reduced, and perhaps its channels, and all maps, too. Where channels are kept, what
 * pads a block of them becomes zero again. False: it is something else. */
static bool plan_map(const op_call *call, reduce_shape *shape) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const int32_t rank = x->shape.rank;
    bool marks[OP_MAX_RANK] = {false}, positions = true;
    int64_t count = 0, points = 1;
    if (x->kind != OP_KIND_TENSOR || (x->dtype != OP_FLOAT && !rt_is_half(x->dtype)) ||
        x->layout >= OP_LAYOUT_PACKED || rank < 3 || !op_shape_known(&x->shape))
        return false;
    if (op_input_present(call, 1) &&
        (!call->inputs[1].data || !op_shape_elements(&call->inputs[1].type.shape, &count)))
        return false;
    if (count == 0 && op_attribute_integer(&call->attributes, "noop_with_empty_axes", 0)) return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t value;
        int32_t axis;
        memcpy(&value, (const char *)call->inputs[1].data + i * (int64_t)sizeof value, sizeof value);
        if (!op_axis(value, rank, &axis)) return false;
        marks[axis] = true;
    }
    for (int32_t i = 2; i < rank; i++) {
        positions = positions && (marks[i] || count == 0);
        points *= x->shape.dims[i];
    }
    const bool channels = marks[1] || count == 0, images = marks[0] || count == 0;
    if (!positions || points == 0 || (images && !channels)) return false;
    const int64_t all = x->shape.dims[1],
                  block = x->layout == OP_LAYOUT_NHWC ? all : op_layout_block(x->layout);
    const bool same = y->layout == x->layout && y->shape.rank == rank;
    if (all == 0 || (y->layout == OP_LAYOUT_ROW_MAJOR ? all % block != 0 : channels || !same)) return false;
    const int64_t blocks = (all + block - 1) / block, maps = x->shape.dims[0];
    *shape = (reduce_shape){.kept_rank = 1, .reduced_count = 1, .groups = 1, .inner_reduced = channels};
    if (channels) {
        shape->inner = all * points * (images ? maps : 1);
        shape->kept_count = shape->kept[0] = images ? 1 : maps;
        shape->kept_strides[0] = shape->elements = shape->inner;
        return true;
    }
    shape->inner = block;
    shape->groups = (block + COLUMNS - 1) / COLUMNS;
    shape->kept_count = shape->kept[0] = maps * blocks;
    shape->kept_strides[0] = points * block;
    shape->reduced_rank = 1;
    shape->reduced_count = shape->reduced[0] = shape->elements = points;
    shape->reduced_strides[0] = block;
    return true;
}

typedef struct reduce_context {
    reduce_function *function;
    op_code code;
    rt_reduced of;
    bool by_rows, by_runs; /* as in reduce_rows.h */
    const reduce_shape *shape;
    void *to;
    const void *from;
} reduce_context;

/* The extreme float of each task, whose rows lie apart. */
static void run_runs(const reduce_context *context, int64_t begin, int64_t end) {
    const reduce_shape *shape = context->shape;
    const int32_t last = shape->reduced_rank - 1;
    const int64_t count = shape->reduced[last], step = shape->reduced_strides[last];
    float *to = context->to;
    for (int64_t task = begin; task < end; task++) {
        const float *at = (const float *)context->from + start_of(shape, task);
        to[task] = context->code == OP_REDUCE_MAX ? -INFINITY : INFINITY;
        for (int64_t r = 0; r < shape->reduced_count; r += count) {
            int64_t offset = 0, index = r / count;
            for (int32_t i = last - 1; i >= 0; index /= shape->reduced[i--])
                offset += index % shape->reduced[i] * shape->reduced_strides[i];
            const float best = rt_reduce_runs(context->code, at + offset, shape->inner, step, count);
            to[task] = context->code == OP_REDUCE_MAX ? LARGER(to[task], best) : SMALLER(to[task], best);
        }
    }
}

static void run_tasks(void *user, int64_t begin, int64_t end) {
    const reduce_context *context = user;
    const int64_t length = context->shape->inner;
    if (context->by_rows)
        rt_reduce_rows(context->code, context->of, (const float *)context->from + begin * length, length,
                       (float *)context->to + begin, end - begin);
    else if (context->by_runs) run_runs(context, begin, end);
    else
        context->function(context->shape, context->code == OP_REDUCE_MEAN, context->to, context->from, begin,
                          end);
}

/* The shape of this run: the prepared one, or one worked out into `fresh`. */
static base_status shape_of_run(const rt_prepared *prepared, const op_tensor *inputs,
                                const op_tensor *outputs, reduce_shape *fresh, const reduce_shape **shape,
                                base_report *report) {
    const reduce_state *state = prepared->state;
    *shape = &state->shape;
    if (state->known) return BASE_OK;
    *shape = fresh;
    base_status status = plan(inputs, prepared->input_count, state->noop, fresh, report);
    int64_t results = 0;
    op_shape_elements(&outputs[0].type.shape, &results);
    if (status == BASE_OK && results != fresh->kept_count * (fresh->inner_reduced ? 1 : fresh->inner)) {
        return base_fail(report, BASE_INVALID, "input 1 names other axes than the result was prepared for");
    }
    return status;
}

static reduce_context context_of(const rt_prepared *prepared, const reduce_shape *shape) {
    const reduce_state *state = prepared->state;
    reduce_context context = {
        .function = state->function, .code = state->code, .of = state->of, .shape = shape};
    context.by_rows = state->floats && shape->inner_reduced && shape->reduced_count == 1 &&
                      shape->kept_rank <= 1 && rt_reduces_rows(state->code, shape->inner);
    context.by_runs = state->floats && (state->code == OP_REDUCE_MAX || state->code == OP_REDUCE_MIN) &&
                      shape->inner_reduced && shape->reduced_count > 1 &&
                      rt_reduces_rows(state->code, shape->inner);
    return context;
}

static void run_on(const rt_prepared *prepared, const reduce_shape *shape, void *to, const void *from) {
    reduce_context context = context_of(prepared, shape);
    context.to = to;
    context.from = from;
    int64_t columns = shape->inner_reduced ? shape->inner : shape->inner < COLUMNS ? shape->inner : COLUMNS;
    int64_t work = shape->reduced_count * columns;
    if (shape->inner == 0 && !shape->inner_reduced) return;
    rt_parallel(prepared->threads, shape->kept_count * shape->groups, work ? work : 1, run_tasks, &context);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    reduce_shape fresh;
    const reduce_shape *shape;
    base_status status = shape_of_run(prepared, inputs, outputs, &fresh, &shape, report);
    if (status == BASE_OK) run_on(prepared, shape, outputs[0].data, inputs[0].data);
    return status;
}

static void run_rows(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs, int member,
                     int64_t begin, int64_t end) {
    (void)member;
    const reduce_state *state = prepared->state;
    reduce_context context = context_of(prepared, &state->shape);
    context.to = outputs[0].data;
    context.from = inputs[0].data;
    run_tasks(&context, begin, end);
}

/* What is reduced lies together. */
static rt_rows rows_of(const reduce_state *state) {
    const reduce_shape *shape = &state->shape;
    if (!state->known || !shape->inner_reduced || shape->reduced_count != 1 || shape->kept_rank > 1 ||
        shape->kept_count < 1)
        return (rt_rows){0};
    return (rt_rows){
        .run = run_rows, .count = shape->kept_count, .inputs = 1, .work = shape->kept_count * shape->inner};
}

/* Rows of 16 bits that lie together and are short become floats some at a time, on the stack. */
enum { ROWS_FLOATS = 4096 };

static bool has_short_rows(const reduce_shape *shape) {
    return shape->inner_reduced && shape->reduced_count == 1 && shape->kept_rank <= 1 && shape->inner > 0 &&
           shape->inner <= ROWS_FLOATS;
}

typedef struct short_rows {
    reduce_context context;
    op_dtype dtype;
    uint16_t *to;
    const uint16_t *from;
} short_rows;

static void run_short_rows(void *user, int64_t begin, int64_t end) {
    enum { MOST = 256 };
    const short_rows *job = user;
    const int64_t length = job->context.shape->inner, fit = ROWS_FLOATS / length,
                  each = fit < MOST ? fit : MOST;
    _Alignas(RT_ALIGNMENT) float wide[ROWS_FLOATS], results[MOST];
    reduce_context context = job->context;
    context.from = wide;
    context.to = results;
    for (int64_t row = begin; row < end; row += each) {
        const int64_t some = end - row < each ? end - row : each;
        rt_half_load(job->dtype, wide, job->from + row * length, some * length);
        run_tasks(&context, 0, some);
        rt_half_store(job->dtype, job->to + row, results, some);
    }
}

/* Widened to scratch as a whole, where rows are not short; the results follow there. */
static base_status run_half(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    reduce_shape fresh;
    const reduce_shape *shape;
    base_status status = shape_of_run(prepared, inputs, outputs, &fresh, &shape, report);
    if (status != BASE_OK) return status;
    const int64_t from = rt_stored_elements(&inputs[0].type), to = rt_stored_elements(&outputs[0].type);
    float *wide = scratch, *results = wide + from;
    op_dtype dtype = inputs[0].type.dtype;
    if (has_short_rows(shape)) {
        short_rows job = {context_of(prepared, shape), dtype, outputs[0].data, inputs[0].data};
        rt_parallel(prepared->threads, shape->kept_count, shape->inner, run_short_rows, &job);
        return BASE_OK;
    }
    rt_half_load(dtype, wide, inputs[0].data, from);
    run_on(prepared, shape, results, wide);
    rt_half_store(dtype, outputs[0].data, results, to);
    return BASE_OK;
}

static base_status run_channels(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const reduce_state *state = prepared->state;
    rt_channel_reduction_run(&state->channels, prepared->threads, outputs[0].data, inputs[0].data);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    reduce_shape map;
    rt_channel_reduction channels;
    const rt_reduced of = reduced_by(call);
    if (!find(call->code, of, call->inputs[0].type.dtype)) return false;
    return rt_accepts_row_major(call) ||
           (of == RT_ELEMENTS &&
            (plan_map(call, &map) || rt_channel_reduction_read(call, environment, &channels)));
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    reduce_state *state = BASE_NEW(arena, reduce_state);
    if (!state) return base_fail_memory(report);
    prepared->state = state;
    state->of = reduced_by(call);
    if (state->of == RT_ELEMENTS && rt_channel_reduction_read(call, environment, &state->channels)) {
        prepared->run = run_channels;
        return BASE_OK;
    }
    op_dtype dtype = call->inputs[0].type.dtype;
    state->function = find(call->code, state->of, dtype);
    state->code = call->code;
    state->floats = dtype == OP_FLOAT || rt_is_half(dtype);
    state->noop = op_attribute_integer(&call->attributes, "noop_with_empty_axes", 0) != 0;
    int64_t axes = 0;
    if (op_input_present(call, 1)) op_shape_elements(&call->inputs[1].type.shape, &axes);
    state->known = axes == 0 || call->inputs[1].data;
    prepared->run = rt_is_half(dtype) ? run_half : run;
    base_status status = BASE_OK;
    if (call->inputs[0].type.layout == OP_LAYOUT_ROW_MAJOR || !plan_map(call, &state->shape)) {
        if (state->known) status = plan(call->inputs, call->input_count, state->noop, &state->shape, report);
    }
    if (status == BASE_OK && !rt_is_half(dtype)) prepared->rows = rows_of(state);
    if (status != BASE_OK || !rt_is_half(dtype) || (state->known && has_short_rows(&state->shape)))
        return status;
    size_t count;
    if (!base_size_add((size_t)rt_stored_elements(&call->inputs[0].type),
                       (size_t)rt_stored_elements(&call->outputs[0].type), &count) ||
        !base_size_multiply(count, sizeof(float), &prepared->scratch_bytes))
        return base_fail_memory(report);
    return BASE_OK;
}

const rt_kernel rt_kernel_reduce = {.name = "portable.reduce", .accepts = accepts, .prepare = prepare};

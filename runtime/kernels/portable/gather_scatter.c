/* SPDX-License-Identifier: Apache-2.0 */
/* gather_scatter.c: elements and slices taken from, or put to, places that indices name one by one:
 * GatherElements, GatherND, ScatterElements, ScatterND. Negative indices count from the end. One that is out of
 * range is reported before anything is read with it. Gathers look at their indices as they go; scatters look at all of them before
 * they write. What is put to one place several times is put in order, or added up, or multiplied, or the largest or smallest stays, as
 * `reduction` says.
 */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>
#include <string.h>

typedef enum reduction {
    REDUCTION_NONE,
    REDUCTION_ADD,
    REDUCTION_MULTIPLY,
    REDUCTION_MAXIMUM,
    REDUCTION_MINIMUM
} reduction;

typedef struct places {
    bool wide; /* indices of 64 bits */
    bool scatter;
    reduction reduction;
    op_dtype dtype;
    size_t element; /* bytes */
    size_t bytes;   /* of the data */
    /* Along an axis: the dims of the indices, the strides of the data, in elements. */
    int32_t rank, axis;
    int64_t dims[OP_MAX_RANK], strides[OP_MAX_RANK], extent;
    int64_t count; /* of indices, or of tuples of them */
    /* Tuples: extents and strides of the data that they name, elements of a slice, and of a batch. */
    int64_t length, extents[OP_MAX_RANK], slice, batch_count, batch_elements, per_batch;
} places;

static inline int64_t index_at(const places *of, const void *indices, int64_t i) {
    return of->wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

/* From the front, without a branch that indices of both signs would mislead. */
static inline int64_t from_front(int64_t index, int64_t extent) {
    return index + (extent & -(int64_t)(index < 0));
}

static base_status fail_index(base_report *report, int64_t index, int64_t extent) {
    return base_fail(report, BASE_INVALID, "index %" PRId64 " is outside of [%" PRId64 ", %" PRId64 ")",
                     index, -extent, extent);
}

/* The one of two that is kept as the largest (or the smallest); a NaN is. */
#define KEPT(a, b) ((a) != (a) || (of->reduction == REDUCTION_MAXIMUM ? (a) > (b) : (a) < (b)) ? (a) : (b))

#define ACCUMULATE(type, wide)                                                                               \
    for (int64_t i = 0; i < count; i++) {                                                                    \
        type *place = (type *)to + i;                                                                        \
        const type value = ((const type *)from)[i];                                                          \
        *place = of->reduction == REDUCTION_ADD        ? (type)((wide)*place + (wide)value)                  \
                 : of->reduction == REDUCTION_MULTIPLY ? (type)((wide)*place * (wide)value)                  \
                                                       : KEPT(value, *place);                                \
    }                                                                                                        \
    break

RT_CLONES static void add_floats(float *to, const float *from, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

/* `count` elements are combined with what is there. Integers wrap around. */
static void put(const places *of, char *to, const char *from, int64_t count) {
    enum { LONG = 16 }; /* enough for vectors */
    if (of->reduction == REDUCTION_NONE) {
        memcpy(to, from, (size_t)count * of->element);
        return;
    }
    switch (of->dtype) {
    case OP_FLOAT:
        if (of->reduction == REDUCTION_ADD && count >= LONG) {
            add_floats((float *)(void *)to, (const float *)(const void *)from, count);
            return;
        }
        ACCUMULATE(float, float);
    case OP_DOUBLE:
        ACCUMULATE(double, double);
    case OP_INT8:
        ACCUMULATE(int8_t, uint32_t);
    case OP_UINT8:
        ACCUMULATE(uint8_t, uint32_t);
    case OP_INT16:
        ACCUMULATE(int16_t, uint32_t);
    case OP_UINT16:
        ACCUMULATE(uint16_t, uint32_t);
    case OP_INT32:
        ACCUMULATE(int32_t, uint32_t);
    case OP_UINT32:
        ACCUMULATE(uint32_t, uint32_t);
    case OP_INT64:
        ACCUMULATE(int64_t, uint64_t);
    case OP_UINT64:
        ACCUMULATE(uint64_t, uint64_t);
    default: /* float16 and bfloat16 */
        for (int64_t i = 0; i < count; i++) {
            double a = rt_element_load(of->dtype, to, i), b = rt_element_load(of->dtype, from, i);
            rt_element_store(of->dtype, to, i,
                             of->reduction == REDUCTION_ADD        ? a + b
                             : of->reduction == REDUCTION_MULTIPLY ? a * b
                                                                   : KEPT(b, a));
        }
    }
}

/* What both forms have in common. */
static places *begin(const op_call *call, bool scatter, base_arena *arena) {
    places *of = BASE_NEW(arena, places);
    if (!of) return NULL;
    of->wide = call->inputs[1].type.dtype == OP_INT64;
    of->scatter = scatter;
    of->reduction = op_attribute_is(&call->attributes, "reduction", "add", "none")   ? REDUCTION_ADD
                    : op_attribute_is(&call->attributes, "reduction", "mul", "none") ? REDUCTION_MULTIPLY
                    : op_attribute_is(&call->attributes, "reduction", "max", "none") ? REDUCTION_MAXIMUM
                    : op_attribute_is(&call->attributes, "reduction", "min", "none") ? REDUCTION_MINIMUM
                                                                                     : REDUCTION_NONE;
    of->dtype = call->inputs[0].type.dtype;
    of->element = op_dtype_bytes(of->dtype);
    return of;
}

/* ---- along an axis ------------------------------------------------------------------------------------- */

typedef struct elements_context {
    const places *of;
    const void *indices;
    const char *from;
    char *to;
    _Atomic bool outside; /* an index is out of range */
} elements_context;

/* A row of indices, along the last dimension: element k of it is at base + index * along + k * step. */
typedef struct element_row {
    int64_t at[OP_MAX_RANK]; /* the row's place among the rows */
    int64_t base, along, step;
} element_row;

/* The row that index number i lies in. */
static element_row first_row(const places *of, int64_t i) {
    const int32_t last = of->rank - 1;
    element_row row = {.along = of->strides[of->axis], .step = of->axis != last};
    i /= of->dims[last];
    for (int32_t d = last; d-- > 0; i /= of->dims[d]) {
        row.at[d] = i % of->dims[d];
        if (d != of->axis) row.base += row.at[d] * of->strides[d];
    }
    return row;
}

static void next_row(const places *of, element_row *row) {
    for (int32_t d = of->rank - 1; d-- > 0;) {
        const int64_t stride = d == of->axis ? 0 : of->strides[d];
        row->base += stride;
        if (++row->at[d] < of->dims[d]) return;
        row->base -= row->at[d] * stride;
        row->at[d] = 0;
    }
}

static inline int64_t place_at(const places *of, const element_row *row, const void *indices, int64_t i,
                               int64_t k) {
    return row->base + from_front(index_at(of, indices, i), of->extent) * row->along + k * row->step;
}

/* Are all indices in [-extent, extent)? And is one of them negative? */
#define ALL_INSIDE(type)                                                                                     \
    RT_CLONES static bool all_inside_##type(const type *indices, int64_t count, int64_t extent,              \
                                            bool *negative) {                                                \
        const uint64_t shift = (uint64_t)extent, end = 2 * shift;                                            \
        uint64_t outside = 0, all = 0;                                                                       \
        for (int64_t i = 0; i < count; i++) {                                                                \
            const uint64_t index = (uint64_t)(int64_t)indices[i];                                            \
            outside |= index + shift >= end;                                                                 \
            all |= index;                                                                                    \
        }                                                                                                    \
        *negative = (int64_t)all < 0;                                                                        \
        return outside == 0;                                                                                 \
    }
ALL_INSIDE(int32_t)
ALL_INSIDE(int64_t)

/* Of indices from number `begin` on. */
static bool all_inside(const places *of, const void *indices, int64_t begin, int64_t count, bool *negative) {
    return of->wide ? all_inside_int64_t((const int64_t *)indices + begin, count, of->extent, negative)
                    : all_inside_int32_t((const int32_t *)indices + begin, count, of->extent, negative);
}

enum {
    SOME = 1024
}; /* indices that are looked at together: they are still in the nearest cache when they are used */

RT_CLONES static void all_from_front(int64_t *to, const int64_t *indices, int64_t count, int64_t extent) {
    for (int64_t i = 0; i < count; i++) to[i] = from_front(indices[i], extent);
}

/* Indices are from the front. Along the last axis; and along another one, in a row whose elements are `along` elements apart there. An index
 * that was expanded is the same in a whole row: then what it names lies side by side. */
#define GATHER(name, type)                                                                                   \
    static void gather_last_##name(const type *from, const int64_t *indices, type *to, int64_t count) {      \
        _Pragma("GCC unroll 8") for (int64_t i = 0; i < count; i++) to[i] = from[indices[i]];                \
    }                                                                                                        \
    static void gather_across_##name(const type *from, const int64_t *indices, type *to, int64_t count,      \
                                     int64_t along) {                                                        \
        enum { TOGETHER = 8 };                                                                               \
        int64_t i = 0;                                                                                       \
        while (i + TOGETHER <= count) {                                                                      \
            if (indices[i + 1] == indices[i]) {                                                              \
                int64_t same = 2;                                                                            \
                while (i + same < count && indices[i + same] == indices[i]) same++;                          \
                if (same >= TOGETHER) {                                                                      \
                    memcpy(to + i, from + indices[i] * along + i, (size_t)same * sizeof *to);                \
                    i += same;                                                                               \
                    continue;                                                                                \
                }                                                                                            \
            }                                                                                                \
            _Pragma("GCC unroll 8") for (int k = 0; k < TOGETHER; k++) to[i + k] =                           \
                from[indices[i + k] * along + i + k];                                                        \
            i += TOGETHER;                                                                                   \
        }                                                                                                    \
        for (; i < count; i++) to[i] = from[indices[i] * along + i];                                         \
    }
GATHER(bytes, uint8_t)
GATHER(halves, uint16_t)
GATHER(words, uint32_t)
GATHER(longs, uint64_t)

/* A row of up to SOME indices of 64 bits. False: elements have another size. */
#define GATHER_SIZE(name, type)                                                                              \
    if (row->step == 0) gather_last_##name((const type *)from, indices, (type *)to, count);                  \
    else gather_across_##name((const type *)from, indices, (type *)to, count, row->along);                   \
    return true
static bool gather_row(const places *of, const element_row *row, const void *from, const int64_t *indices,
                       void *to, int64_t count, bool negative) {
    int64_t front[SOME];
    if (negative) {
        all_from_front(front, indices, count, of->extent);
        indices = front;
    }
    switch (of->element) {
    case 1:
        GATHER_SIZE(bytes, uint8_t);
    case 2:
        GATHER_SIZE(halves, uint16_t);
    case 4:
        GATHER_SIZE(words, uint32_t);
    case 8:
        GATHER_SIZE(longs, uint64_t);
    default:
        return false;
    }
}

#define GATHER_ROW(size)                                                                                     \
    case size:                                                                                               \
        for (int64_t i = begin; i < stop; i++, k++, to += size)                                              \
            memcpy(to, context->from + place_at(of, &row, context->indices, i, k) * size, size);             \
        break

/* All indices are inside, and up to SOME. */
static void gather_some(const elements_context *context, int64_t begin, int64_t end, bool negative) {
    const places *of = context->of;
    const int64_t length = of->dims[of->rank - 1];
    element_row row = first_row(of, begin);
    char *to = context->to + (size_t)begin * of->element;
    for (int64_t k = begin % length; begin < end; k = 0, next_row(of, &row)) {
        const int64_t stop = end - begin < length - k ? end : begin + length - k;
        if (of->wide && (row.along == 1 || row.step == 1) &&
            gather_row(of, &row, context->from + (row.base + k * row.step) * (int64_t)of->element,
                       (const int64_t *)context->indices + begin, to, stop - begin, negative)) {
            to += (size_t)(stop - begin) * of->element;
            begin = stop;
            continue;
        }
        switch (of->element) {
            GATHER_ROW(1);
            GATHER_ROW(2);
            GATHER_ROW(4);
            GATHER_ROW(8);
            GATHER_ROW(16);
        }
        begin = stop;
    }
}

static void gather_elements(void *user, int64_t begin, int64_t end) {
    elements_context *context = user;
    for (int64_t count; begin < end; begin += count) {
        bool negative;
        count = end - begin < SOME ? end - begin : SOME;
        if (all_inside(context->of, context->indices, begin, count, &negative))
            gather_some(context, begin, begin + count, negative);
        else context->outside = true;
    }
}

/* How many of the indices from number `i` on are alike, of `most`. */
static inline int64_t alike(const places *of, const void *indices, int64_t i, int64_t most) {
    const int64_t first = index_at(of, indices, i);
    int64_t count = 1;
    while (count < most && index_at(of, indices, i + count) == first) count++;
    return count;
}

/* Indices of whole rows are often one that was expanded: what they name lies side by side. */
/* Apart from what checks indices: inlined there it took a fifth longer. */
__attribute__((noinline)) static void scatter_elements(const places *of, const void *indices, char *to,
                                                       const char *from) {
    const int64_t length = of->dims[of->rank - 1];
    if (of->count == 0) return;
    element_row row = first_row(of, 0);
    for (int64_t begin = 0; begin < of->count; begin += length, next_row(of, &row)) {
        for (int64_t k = 0, count = 1; k < length; k += count, from += (size_t)count * of->element) {
            if (row.step == 1) count = alike(of, indices, begin + k, length - k);
            put(of, to + (size_t)place_at(of, &row, indices, begin + k, k) * of->element, from, count);
        }
    }
}

/* One index at least is out of range: the first such. */
static base_status fail_elements(const places *of, const void *indices, base_report *report) {
    int64_t i = 0;
    while (index_at(of, indices, i) >= -of->extent && index_at(of, indices, i) < of->extent) i++;
    return fail_index(report, index_at(of, indices, i), of->extent);
}

static base_status run_elements(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                void *scratch, base_report *report) {
    (void)scratch;
    const places *of = prepared->state;
    const void *indices = inputs[1].data;
    bool negative;
    if (!of->scatter) {
        elements_context context = {of, indices, inputs[0].data, outputs[0].data, false};
        rt_parallel(prepared->threads, of->count, 4, gather_elements, &context);
        return context.outside ? fail_elements(of, indices, report) : BASE_OK;
    }
    if (!all_inside(of, indices, 0, of->count, &negative)) return fail_elements(of, indices, report);
    if (outputs[0].data != inputs[0].data)
        rt_copy_bytes(prepared->threads, outputs[0].data, inputs[0].data, of->bytes);
    scatter_elements(of, indices, outputs[0].data, inputs[2].data);
    return BASE_OK;
}

static base_status prepare_elements(const op_call *call, const rt_environment *environment, base_arena *arena,
                                    rt_prepared *prepared, base_report *report) {
    (void)environment;
    places *of = begin(call, call->code == OP_SCATTER_ELEMENTS, arena);
    if (!of) return base_fail_memory(report);
    const op_type *data = &call->inputs[0].type;
    const op_shape *indices = &call->inputs[1].type.shape;
    of->rank = data->shape.rank;
    if (!op_axis(op_attribute_integer(&call->attributes, "axis", 0), of->rank, &of->axis))
        return base_fail(report, BASE_INVALID, "attribute \"axis\" is out of range");
    int64_t stride = 1;
    for (int32_t d = of->rank - 1; d >= 0; d--) {
        of->dims[d] = indices->dims[d];
        of->strides[d] = stride;
        stride *= data->shape.dims[d];
        if (d != of->axis && indices->dims[d] > data->shape.dims[d]) {
            return base_fail(report, BASE_INVALID, "input 1 has %" PRId64 " along axis %d, input 0 %" PRId64,
                             indices->dims[d], d, data->shape.dims[d]);
        }
    }
    of->bytes = (size_t)stride * of->element;
    of->extent = data->shape.dims[of->axis];
    op_shape_elements(indices, &of->count);
    prepared->state = of;
    prepared->run = run_elements;
    return BASE_OK;
}

/* ---- tuples -------------------------------------------------------------------------------------------- */

/* Where the slices begin that `count` tuples of `length` indices name, in elements; false where an index is out of range. */
#define FIND_PLACES(type)                                                                                    \
    static inline __attribute__((always_inline)) bool find_places_of_##type(                                 \
        const places *of, int64_t length, const type *indices, int64_t count, int64_t *restrict to) {        \
        uint64_t outside = 0;                                                                                \
        for (int64_t i = 0; i < count; i++) {                                                                \
            int64_t place = 0;                                                                               \
            for (int64_t k = 0; k < length; k++) {                                                           \
                const int64_t index = indices[i * length + k], extent = of->extents[k];                      \
                outside |= (uint64_t)index + (uint64_t)extent >= 2 * (uint64_t)extent;                       \
                place = (int64_t)((uint64_t)place +                                                          \
                                  (uint64_t)from_front(index, extent) * (uint64_t)of->strides[k]);           \
            }                                                                                                \
            to[i] = place;                                                                                   \
        }                                                                                                    \
        return outside == 0;                                                                                 \
    }                                                                                                        \
    RT_CLONES static bool find_places_##type(const places *of, const type *indices, int64_t count,           \
                                             int64_t *restrict to) {                                         \
        switch (of->length) {                                                                                \
        case 1:                                                                                              \
            return find_places_of_##type(of, 1, indices, count, to);                                         \
        case 2:                                                                                              \
            return find_places_of_##type(of, 2, indices, count, to);                                         \
        case 3:                                                                                              \
            return find_places_of_##type(of, 3, indices, count, to);                                         \
        case 4:                                                                                              \
            return find_places_of_##type(of, 4, indices, count, to);                                         \
        default:                                                                                             \
            return find_places_of_##type(of, of->length, indices, count, to);                                \
        }                                                                                                    \
    }
FIND_PLACES(int32_t)
FIND_PLACES(int64_t)

/* Of tuples from number `begin` on. */
static bool find_places(const places *of, const void *indices, int64_t begin, int64_t count, int64_t *to) {
    const int64_t first = begin * of->length;
    const bool inside = of->wide ? find_places_int64_t(of, (const int64_t *)indices + first, count, to)
                                 : find_places_int32_t(of, (const int32_t *)indices + first, count, to);
    /* Places outside may be any numbers. */
    for (int64_t i = 0; i < count && inside && of->per_batch < of->count; i++)
        to[i] += (begin + i) / of->per_batch * of->batch_elements;
    return inside;
}

#define COPY_ELEMENTS(type, to, from)                                                                        \
    for (int64_t i = 0; i < count; i++) ((type *)(to_first))[to] = ((const type *)(from_first))[from];       \
    return true

/* Single elements, of as many bytes as a type has. False: they are something else. */
static bool gather_singles(const places *of, const int64_t *at, const void *from_first, void *to_first,
                           int64_t count) {
    if (of->slice != 1) return false;
    switch (of->element) {
    case 1:
        COPY_ELEMENTS(uint8_t, i, at[i]);
    case 4:
        COPY_ELEMENTS(uint32_t, i, at[i]);
    case 8:
        COPY_ELEMENTS(uint64_t, i, at[i]);
    default:
        return false;
    }
}

static bool scatter_singles(const places *of, const int64_t *at, const void *from_first, void *to_first,
                            int64_t count) {
    if (of->slice != 1) return false;
    if (of->reduction == REDUCTION_ADD && of->dtype == OP_FLOAT) {
        for (int64_t i = 0; i < count; i++) ((float *)to_first)[at[i]] += ((const float *)from_first)[i];
        return true;
    }
    if (of->reduction != REDUCTION_NONE) return false;
    switch (of->element) {
    case 1:
        COPY_ELEMENTS(uint8_t, at[i], i);
    case 4:
        COPY_ELEMENTS(uint32_t, at[i], i);
    case 8:
        COPY_ELEMENTS(uint64_t, at[i], i);
    default:
        return false;
    }
}

static void gather_tuples(void *user, int64_t begin, int64_t end) {
    elements_context *context = user;
    const places *of = context->of;
    const size_t bytes = (size_t)of->slice * of->element;
    int64_t at[SOME];
    for (int64_t count; begin < end; begin += count) {
        char *to = context->to + (size_t)begin * bytes;
        count = end - begin < SOME ? end - begin : SOME;
        if (!find_places(of, context->indices, begin, count, at)) {
            context->outside = true;
            return;
        }
        if (gather_singles(of, at, context->from, to, count)) continue;
        for (int64_t i = 0; i < count; i++)
            memcpy(to + (size_t)i * bytes, context->from + (size_t)at[i] * of->element, bytes);
    }
}

static void scatter_tuples(const places *of, const void *indices, char *to, const char *from) {
    const size_t bytes = (size_t)of->slice * of->element;
    int64_t at[SOME];
    for (int64_t begin = 0, count; begin < of->count; begin += count, from += (size_t)count * bytes) {
        count = of->count - begin < SOME ? of->count - begin : SOME;
        (void)find_places(of, indices, begin, count, at);
        if (scatter_singles(of, at, from, to, count)) continue;
        for (int64_t i = 0; i < count; i++)
            put(of, to + (size_t)at[i] * of->element, from + (size_t)i * bytes, of->slice);
    }
}

/* One index at least is out of range: the first such. */
static base_status fail_tuples(const places *of, const void *indices, base_report *report) {
    for (int64_t i = 0;; i++) {
        const int64_t index = index_at(of, indices, i), extent = of->extents[i % of->length];
        if (index < -extent || index >= extent) return fail_index(report, index, extent);
    }
}

static base_status run_tuples(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    (void)scratch;
    const places *of = prepared->state;
    const void *indices = inputs[1].data;
    int64_t at[SOME];
    if (!of->scatter && of->slice) {
        elements_context context = {of, indices, inputs[0].data, outputs[0].data, false};
        rt_parallel(prepared->threads, of->count, of->slice + 2, gather_tuples, &context);
        return context.outside ? fail_tuples(of, indices, report) : BASE_OK;
    }
    for (int64_t begin = 0, count; begin < of->count; begin += count) {
        count = of->count - begin < SOME ? of->count - begin : SOME;
        if (!find_places(of, indices, begin, count, at)) return fail_tuples(of, indices, report);
    }
    if (!of->scatter) return BASE_OK;
    if (outputs[0].data != inputs[0].data)
        rt_copy_bytes(prepared->threads, outputs[0].data, inputs[0].data, of->bytes);
    if (of->slice) scatter_tuples(of, indices, outputs[0].data, inputs[2].data);
    return BASE_OK;
}

static base_status prepare_tuples(const op_call *call, const rt_environment *environment, base_arena *arena,
                                  rt_prepared *prepared, base_report *report) {
    (void)environment;
    places *of = begin(call, call->code == OP_SCATTER_ND, arena);
    if (!of) return base_fail_memory(report);
    const op_type *data = &call->inputs[0].type;
    const op_shape *indices = &call->inputs[1].type.shape;
    int32_t batch = of->scatter ? 0 : (int32_t)op_attribute_integer(&call->attributes, "batch_dims", 0);
    of->length = indices->dims[indices->rank - 1];
    if (of->length + batch > data->shape.rank)
        return base_fail(report, BASE_INVALID, "input 1 names more dimensions than input 0 has");
    int64_t stride = 1;
    for (int32_t d = data->shape.rank - 1; d >= batch; d--) {
        if (d < batch + of->length) {
            of->extents[d - batch] = data->shape.dims[d];
            of->strides[d - batch] = stride;
        }
        stride *= data->shape.dims[d];
        if (d == batch + of->length) of->slice = stride;
    }
    if (batch + of->length == data->shape.rank) of->slice = 1;
    of->batch_elements = stride;
    of->count = 1;
    of->per_batch = 1;
    for (int32_t d = 0; d < indices->rank - 1; d++) {
        of->count *= indices->dims[d];
        if (d >= batch) of->per_batch *= indices->dims[d];
    }
    for (int32_t d = 0; d < batch; d++) stride *= data->shape.dims[d];
    of->bytes = (size_t)stride * of->element;
    prepared->state = of;
    prepared->run = run_tuples;
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    op_dtype dtype = call->inputs[1].type.dtype;
    return (dtype == OP_INT32 || dtype == OP_INT64) && rt_accepts_row_major(call);
}

const rt_kernel rt_kernel_gather_elements = {
    .name = "portable.gather_elements", .accepts = accepts, .prepare = prepare_elements};
const rt_kernel rt_kernel_gather_nd = {
    .name = "portable.gather_nd", .accepts = accepts, .prepare = prepare_tuples};

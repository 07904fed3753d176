/* SPDX-License-Identifier: Apache-2.0 */
/* unique.c: each of several equal elements, or slices along an axis, once. They are sorted when they are measured;
 * the scratch keeps, for the run, which is the first of its equals and where that one comes in the result.
 *
 * A NaN is larger than all numbers and equal to every other NaN, -0 equals 0; complex numbers are compared by
 * their real parts first, slices by their first difference, texts by their bytes.
 */
#include "runtime/kernels/portable/kernels.h"
#include <string.h>

/* <0, 0, >0: `count` elements from `a` on, against those from `b` on. */
typedef int unique_compare(const void *data, int64_t a, int64_t b, int64_t count);

/* Puts the indices of `count` numbers in `order`, equals as they come, and the first that equals each in first[]. `spare` takes as many meanwhile. */
typedef void unique_sort(const void *data, int64_t count, int64_t *order, int64_t *spare, int64_t *first);

typedef struct unique_state {
    unique_compare *compare;
    unique_sort *sort; /* of many single numbers; NULL: slices are compared */
    int32_t axis; /* -1: all elements in a row */
    bool sorted;
    int64_t outer, extent, inner; /* of one slice: outer pieces of inner elements */
    int64_t pieces;               /* outer, 0 where slices are empty */
    size_t bytes;                 /* of a piece */
} unique_state;

/* ---- order --------------------------------------------------------------------------------------------- */

#define ORDER(a, b) ((a) < (b) ? -1 : (a) > (b) ? 1 : 0)
/* Neither less nor greater nor equal: NaNs go last. */
#define ORDER_REAL(a, b) ((a) < (b) ? -1 : (a) > (b) ? 1 : (a) == (b) ? 0 : ((a) != (a)) - ((b) != (b)))

#define COMPARE(name, element, order)                                                                        \
    static int compare_##name(const void *data, int64_t a, int64_t b, int64_t count) {                       \
        const element *x = (const element *)data + a, *y = (const element *)data + b;                        \
        int result = 0;                                                                                      \
        for (int64_t i = 0; i < count && !result; i++) result = order;                                       \
        return result;                                                                                       \
    }

#define REALS(name, element, parts)                                                                          \
    static int compare_##name(const void *data, int64_t a, int64_t b, int64_t count) {                       \
        const element *x = (const element *)data + a * (parts), *y = (const element *)data + b * (parts);    \
        int result = 0;                                                                                      \
        for (int64_t i = 0; i < count * (parts) && !result; i++) result = ORDER_REAL(x[i], y[i]);            \
        return result;                                                                                       \
    }

static int order_halves(float a, float b) {
    return ORDER_REAL(a, b);
}

static int order_strings(const op_string *a, const op_string *b) {
    size_t shorter = a->length < b->length ? a->length : b->length;
    int order = shorter ? memcmp(a->data, b->data, shorter) : 0;
    return order ? order : ORDER(a->length, b->length);
}

COMPARE(int8, int8_t, ORDER(x[i], y[i]))
COMPARE(int16, int16_t, ORDER(x[i], y[i]))
COMPARE(int32, int32_t, ORDER(x[i], y[i]))
COMPARE(int64, int64_t, ORDER(x[i], y[i]))
COMPARE(uint8, uint8_t, ORDER(x[i], y[i]))
COMPARE(uint16, uint16_t, ORDER(x[i], y[i]))
COMPARE(uint32, uint32_t, ORDER(x[i], y[i]))
COMPARE(uint64, uint64_t, ORDER(x[i], y[i]))
COMPARE(half, uint16_t, order_halves(base_float_from_half(x[i]), base_float_from_half(y[i])))
COMPARE(brain, uint16_t, order_halves(base_float_from_bfloat16(x[i]), base_float_from_bfloat16(y[i])))
COMPARE(string, op_string, order_strings(&x[i], &y[i]))
REALS(float, float, 1)
REALS(double, double, 1)
REALS(complex64, float, 2)
REALS(complex128, double, 2)

static unique_compare *compare_of(op_dtype dtype) {
    static unique_compare *const table[OP_DTYPE_COUNT] = {
        [OP_BOOL] = compare_uint8,
        [OP_INT8] = compare_int8,
        [OP_INT16] = compare_int16,
        [OP_INT32] = compare_int32,
        [OP_INT64] = compare_int64,
        [OP_UINT8] = compare_uint8,
        [OP_UINT16] = compare_uint16,
        [OP_UINT32] = compare_uint32,
        [OP_UINT64] = compare_uint64,
        [OP_FLOAT16] = compare_half,
        [OP_BFLOAT16] = compare_brain,
        [OP_FLOAT] = compare_float,
        [OP_DOUBLE] = compare_double,
        [OP_COMPLEX64] = compare_complex64,
        [OP_COMPLEX128] = compare_complex128,
        [OP_STRING] = compare_string,
    };
    return table[dtype];
}

static int compare_slices(const unique_state *state, const void *data, int64_t a, int64_t b) {
    int result = 0;
    for (int64_t o = 0; o < state->pieces && !result; o++) {
        const int64_t from = o * state->extent;
        result = state->compare(data, (from + a) * state->inner, (from + b) * state->inner, state->inner);
    }
    return result;
}

/* Merges ever longer runs, back and forth between two arrays; equals keep their order. Returns the one that
 * holds the result. */
static int64_t *sort_slices(const unique_state *state, const void *data, int64_t *from, int64_t *to) {
    const int64_t count = state->extent;
    for (int64_t i = 0; i < count; i++) from[i] = i;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t begin = 0; begin < count;) {
            const int64_t middle = count - begin > width ? begin + width : count;
            const int64_t end = count - middle > width ? middle + width : count;
            int64_t left = begin, right = middle;
            for (int64_t at = begin; at < end; at++) {
                bool take_left = left < middle &&
                                 (right == end || compare_slices(state, data, from[left], from[right]) <= 0);
                to[at] = take_left ? from[left++] : from[right++];
            }
            begin = end;
        }
        int64_t *other = from;
        from = to;
        to = other;
    }
    return from;
}

/* ---- order of single numbers ------------------------------------------------------------------------------
 *
 * Numbers become keys, integers of the same order, equal where the numbers are; they are sorted by one byte of the keys after another, from the lowest on.
 * Bytes that all keys share are left out: indices of a few classes have one that is not. */

enum {
    FEWEST_SORTED = 64, /* elements; of fewer, counting takes longer than comparing */
    BYTE_VALUES = 256
};

static inline uint64_t key_of_integer(uint64_t number, bool negative) {
    return negative ? number ^ (UINT64_C(1) << 63) : number;
}

/* -0 is 0, and a NaN as any other. */
static inline uint64_t key_of_float(float number) {
    uint32_t bits;
    number = number == 0 ? 0 : number;
    memcpy(&bits, &number, sizeof bits);
    return number != number ? UINT32_MAX : bits >> 31 ? (uint32_t)~bits : bits | UINT32_C(1) << 31;
}

static inline uint64_t key_of_double(double number) {
    uint64_t bits;
    number = number == 0 ? 0 : number;
    memcpy(&bits, &number, sizeof bits);
    return number != number ? UINT64_MAX : bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

#define SORT(name, element, key_of_element)                                                                  \
    static inline uint64_t key_##name(const void *data, int64_t i) {                                         \
        const element x = ((const element *)data)[i];                                                        \
        return key_of_element;                                                                               \
    }                                                                                                        \
    static void sort_##name(const void *data, int64_t count, int64_t *order, int64_t *spare,                 \
                            int64_t *first) {                                                                \
        uint64_t differ = 0;                                                                                 \
        for (int64_t i = 1; i < count; i++) differ |= key_##name(data, i) ^ key_##name(data, 0);             \
        int64_t *from = order, *to = spare;                                                                  \
        for (int64_t i = 0; i < count; i++) from[i] = i;                                                     \
        for (int shift = 0; shift < 64; shift += 8) {                                                        \
            int64_t places[BYTE_VALUES] = {0}, place = 0;                                                    \
            if ((differ >> shift & (BYTE_VALUES - 1)) == 0) continue;                                        \
            for (int64_t i = 0; i < count; i++) places[key_##name(data, i) >> shift & (BYTE_VALUES - 1)]++;  \
            for (int b = 0; b < BYTE_VALUES; b++) {                                                          \
                const int64_t some = places[b];                                                              \
                places[b] = place;                                                                           \
                place += some;                                                                               \
            }                                                                                                \
            for (int64_t i = 0; i < count; i++)                                                              \
                to[places[key_##name(data, from[i]) >> shift & (BYTE_VALUES - 1)]++] = from[i];              \
            int64_t *other = from;                                                                           \
            from = to;                                                                                       \
            to = other;                                                                                      \
        }                                                                                                    \
        if (from != order) memcpy(order, from, (size_t)count * sizeof *order);                               \
        int64_t one = order[0];                                                                              \
        uint64_t key = key_##name(data, one);                                                                \
        for (int64_t i = 0; i < count; i++) {                                                                \
            const uint64_t own = key_##name(data, order[i]);                                                 \
            one = own == key ? one : order[i];                                                               \
            key = own;                                                                                       \
            first[order[i]] = one;                                                                           \
        }                                                                                                    \
    }
SORT(int8, int8_t, key_of_integer((uint64_t)x, true))
SORT(int16, int16_t, key_of_integer((uint64_t)x, true))
SORT(int32, int32_t, key_of_integer((uint64_t)x, true))
SORT(int64, int64_t, key_of_integer((uint64_t)x, true))
SORT(uint8, uint8_t, key_of_integer(x, false))
SORT(uint16, uint16_t, key_of_integer(x, false))
SORT(uint32, uint32_t, key_of_integer(x, false))
SORT(uint64, uint64_t, key_of_integer(x, false))
SORT(float, float, key_of_float(x))
SORT(double, double, key_of_double(x))

/* NULL: elements of this type, or slices of several, are compared. */
static unique_sort *sort_of(op_dtype dtype, int64_t elements) {
    static unique_sort *const table[OP_DTYPE_COUNT] = {
        [OP_BOOL] = sort_uint8,    [OP_INT8] = sort_int8,     [OP_INT16] = sort_int16,
        [OP_INT32] = sort_int32,   [OP_INT64] = sort_int64,   [OP_UINT8] = sort_uint8,
        [OP_UINT16] = sort_uint16, [OP_UINT32] = sort_uint32, [OP_UINT64] = sort_uint64,
        [OP_FLOAT] = sort_float,   [OP_DOUBLE] = sort_double,
    };
    return elements == 1 ? table[dtype] : NULL;
}

/* ---- measuring and running ----------------------------------------------------------------------------- */

/* The scratch: for each slice, the first one that equals it; for each first one its number; how many there
 * are. The third array is needed while slices are sorted. */
typedef struct unique_table {
    int64_t *first, *number, *order, *count;
} unique_table;

static unique_table table_of(const unique_state *state, void *scratch) {
    int64_t *count = scratch, *first = count + 1;
    return (unique_table){first, first + state->extent, first + 2 * state->extent, count};
}

/* Slices in turn, and the first that equals each. */
static void find_equals(const unique_state *state, const void *data, const unique_table *table) {
    int64_t *order = sort_slices(state, data, table->order, table->number);
    if (order == table->number) memcpy(table->order, order, (size_t)state->extent * sizeof *order);
    order = table->order;
    for (int64_t i = 0, first = 0; i < state->extent; i++) {
        if (i == 0 || compare_slices(state, data, first, order[i]) != 0) first = order[i];
        table->first[order[i]] = first;
    }
}

static base_status measure(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    (void)report;
    const unique_state *state = prepared->state;
    const void *data = inputs[0].data;
    unique_table table = table_of(state, scratch);
    int64_t count = 0;
    if (state->sort) state->sort(data, state->extent, table.order, table.number, table.first);
    else find_equals(state, data, &table);
    for (int64_t i = 0; i < state->extent && state->sorted; i++) {
        const int64_t at = table.order[i];
        if (table.first[at] == at) table.number[at] = count++;
    }
    for (int64_t i = 0; i < state->extent && !state->sorted; i++) {
        if (table.first[i] == i) table.number[i] = count++;
    }
    *table.count = count;
    for (uint32_t i = 0; i < prepared->output_count; i++) {
        if (outputs[i].type.dtype == OP_NONE) continue;
        if (i == 0 && state->axis >= 0) outputs[i].type.shape.dims[state->axis] = count;
        else outputs[i].type.shape = (op_shape){.rank = 1, .dims = {i == 2 ? state->extent : count}};
    }
    return BASE_OK;
}

/* The data of an output that is wanted; NULL otherwise. */
static void *wanted(const rt_prepared *prepared, op_tensor *outputs, uint32_t index) {
    return index < prepared->output_count && outputs[index].type.dtype != OP_NONE ? outputs[index].data
                                                                                  : NULL;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const unique_state *state = prepared->state;
    const unique_table table = table_of(state, scratch);
    const int64_t count = *table.count;
    const char *from = inputs[0].data;
    char *to = wanted(prepared, outputs, 0);
    int64_t *indices = wanted(prepared, outputs, 1), *inverse = wanted(prepared, outputs, 2),
            *counts = wanted(prepared, outputs, 3);
    for (int64_t i = 0; counts && i < count; i++) counts[i] = 0;
    for (int64_t i = 0; i < state->extent; i++) {
        const int64_t number = table.number[table.first[i]];
        if (inverse) inverse[i] = number;
        if (counts) counts[number]++;
        if (table.first[i] != i) continue;
        if (indices) indices[number] = i;
        for (int64_t o = 0; to && o < state->pieces; o++) {
            memcpy(to + (size_t)(o * count + number) * state->bytes,
                   from + (size_t)(o * state->extent + i) * state->bytes, state->bytes);
        }
    }
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    unique_state *state = BASE_NEW(arena, unique_state);
    if (!state) return base_fail_memory(report);
    const op_type *from = &call->inputs[0].type;
    state->compare = compare_of(from->dtype);
    state->sorted = op_attribute_integer(&call->attributes, "sorted", 1) != 0;
    state->axis = -1;
    state->outer = state->inner = 1;
    if (op_attribute_find(&call->attributes, "axis")) {
        op_axis(op_attribute_integer(&call->attributes, "axis", 0), from->shape.rank, &state->axis);
        for (int32_t d = 0; d < from->shape.rank; d++) {
            if (d < state->axis) state->outer *= from->shape.dims[d];
            else if (d == state->axis) state->extent = from->shape.dims[d];
            else state->inner *= from->shape.dims[d];
        }
    } else if (!op_shape_elements(&from->shape, &state->extent)) {
        return base_fail(report, BASE_INVALID, "input 0 is too large");
    }
    state->bytes = (size_t)state->inner * op_dtype_bytes(from->dtype);
    state->pieces = state->bytes ? state->outer : 0;
    if (state->extent >= FEWEST_SORTED) state->sort = sort_of(from->dtype, state->outer * state->inner);
    size_t numbers;
    if (!base_size_multiply((size_t)state->extent, 3, &numbers) || !base_size_add(numbers, 1, &numbers) ||
        !base_size_multiply(numbers, sizeof(int64_t), &prepared->scratch_bytes)) {
        return base_fail(report, BASE_INVALID, "input 0 is too large");
    }
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_unique = {
    .name = "portable.unique", .accepts = rt_accepts_any_row_major, .prepare = prepare, .measure = measure};

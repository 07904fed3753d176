/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_movement.c: reductions, movement and generation of elements, against references written from
 * their definition, one element at a time. */
#include "tests/support/operators.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

enum { SEED = 20240612 };

typedef struct fixture {
    base_arena arena;
    test_random random;
    base_report report;
    op_tensor inputs[8], outputs[8];
    op_attribute attributes[4];
    op_call call;
} fixture;

static fixture begin(op_code code, uint32_t inputs, test_random *random) {
    fixture made = {.random = *random};
    base_arena_init(&made.arena, NULL);
    made.call = (op_call){.code = code, .input_count = inputs, .output_count = 1};
    test_random_next(random);
    return made;
}

static void add_integer(fixture *f, const char *name, int64_t value) {
    f->attributes[f->call.attributes.count++] =
        (op_attribute){.name = name, .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = value};
}

static void add_text(fixture *f, const char *name, const char *value) {
    f->attributes[f->call.attributes.count++] = (op_attribute){
        .name = name, .kind = OP_ATTRIBUTE_STRING, .count = 1, .as.text = {value, strlen(value)}};
}

static base_status apply(fixture *f) {
    f->call.inputs = f->inputs;
    f->call.outputs = f->outputs;
    f->call.attributes.items = f->attributes;
    unsigned in_place = 0;
    base_status status = test_apply(&f->call, &f->arena, &in_place, &f->report);
    assert_int_equal(status == BASE_OK, f->report.count == 0);
    return status;
}

static void apply_well(fixture *f) {
    if (apply(f) != BASE_OK) fail_msg("%s: %s", op_schema_of(f->call.code)->name, f->report.text);
}

static void end(fixture *f) {
    base_arena_free(&f->arena);
}

/* Extents that are small, sometimes 1, rarely 0; now and then a large tensor. */
static op_shape random_shape(test_random *random, int32_t least, int32_t most) {
    op_shape shape = {.rank = least + (int32_t)test_random_below(random, most - least + 1)};
    bool large = shape.rank >= 2 && test_random_below(random, 12) == 0;
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dims[i] = test_random_below(random, 30) == 0 ? 0 : 1 + test_random_below(random, 6);
        if (large) shape.dims[i] = i >= shape.rank - 2 ? 150 + test_random_below(random, 60) : 1 + i % 2;
    }
    return shape;
}

static op_dtype random_dtype(test_random *random) {
    static const op_dtype all[] = {OP_FLOAT,  OP_UINT8,     OP_INT8,       OP_UINT16,  OP_INT16,  OP_INT32,
                                   OP_INT64,  OP_STRING,    OP_BOOL,       OP_FLOAT16, OP_DOUBLE, OP_UINT32,
                                   OP_UINT64, OP_COMPLEX64, OP_COMPLEX128, OP_BFLOAT16};
    return all[test_random_below(random, sizeof all / sizeof *all)];
}

static op_tensor random_tensor(fixture *f, op_dtype dtype, const op_shape *shape) {
    op_tensor tensor = test_tensor(&f->arena, dtype, shape);
    test_fill(&tensor, &f->random);
    return tensor;
}

static void split_index(const op_shape *shape, int64_t flat, int64_t index[OP_MAX_RANK]) {
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        index[i] = flat % shape->dims[i];
        flat /= shape->dims[i];
    }
}

static int64_t join_index(const op_shape *shape, const int64_t index[OP_MAX_RANK]) {
    int64_t flat = 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        assert_true(index[i] >= 0 && index[i] < shape->dims[i]);
        flat = flat * shape->dims[i] + index[i];
    }
    return flat;
}

static void assert_element(const op_tensor *to, int64_t i, const op_tensor *from, int64_t k) {
    size_t size = op_dtype_bytes(from->type.dtype);
    assert_int_equal(to->type.dtype, from->type.dtype);
    assert_memory_equal((char *)to->data + (size_t)i * size, (char *)from->data + (size_t)k * size, size);
}

static int64_t random_axis(test_random *random, int32_t rank) {
    return test_random_below(random, 2 * rank) - rank;
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

/* Lines that are longer than what is worked on side by side. */
static op_shape random_lines(test_random *random) {
    return test_shape(2, 1 + test_random_below(random, 3), 10 + test_random_below(random, 120));
}

static void check_reduce(op_code code, test_random *random) {
    static const op_dtype all[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16, OP_INT32,
                                   OP_INT64, OP_UINT32, OP_UINT64,  OP_INT8,     OP_UINT8};
    bool extremum = code == OP_REDUCE_MAX || code == OP_REDUCE_MIN;
    for (int round = 0; round < 400; round++) {
        fixture f = begin(code, 2, random);
        op_dtype dtype = all[test_random_below(&f.random, extremum ? 10 : 8)];
        op_shape shape = random_shape(&f.random, 0, 5);
        if (round % 5 == 4) shape = random_lines(&f.random);
        f.inputs[0] = random_tensor(&f, dtype, &shape);
        bool keep = round % 2, noop = round % 7 == 0, marks[OP_MAX_RANK] = {false};
        int64_t axes[OP_MAX_RANK], count = 0;
        for (int32_t i = 0; i < shape.rank; i++) {
            if (test_random_below(&f.random, 2)) continue;
            marks[i] = true;
            axes[count++] = test_random_below(&f.random, 2) ? i : i - shape.rank;
        }
        f.inputs[1] = test_vector(&f.arena, axes, count);
        if (count == 0 && !noop) {
            for (int32_t i = 0; i < shape.rank; i++) marks[i] = true;
            if (round % 3 == 0) f.call.input_count = 1;
        }
        add_integer(&f, "keepdims", keep);
        add_integer(&f, "noop_with_empty_axes", noop);
        apply_well(&f);
        op_shape want = {.rank = 0}, kept = shape;
        int64_t number = 1;
        for (int32_t i = 0; i < shape.rank; i++) {
            if (marks[i]) number *= shape.dims[i];
            if (marks[i]) kept.dims[i] = 1;
            if (keep || !marks[i]) want.dims[want.rank++] = kept.dims[i];
        }
        assert_true(op_shape_equal(&want, &f.outputs[0].type.shape));
        int64_t results = test_elements(&f.outputs[0]), elements = test_elements(&f.inputs[0]);
        double *reals = BASE_ARRAY(&f.arena, double, (size_t)results);
        uint64_t *whole = BASE_ARRAY(&f.arena, uint64_t, (size_t)results);
        int64_t *seen = BASE_ARRAY(&f.arena, int64_t, (size_t)results);
        for (int64_t i = 0; i < results; i++) reals[i] = whole[i] = code == OP_REDUCE_PROD;
        for (int64_t i = 0; i < elements; i++) {
            int64_t index[OP_MAX_RANK];
            split_index(&shape, i, index);
            for (int32_t k = 0; k < shape.rank; k++) index[k] = marks[k] ? 0 : index[k];
            int64_t at = join_index(&kept, index);
            double x = test_real(&f.inputs[0], i);
            bool first = seen[at]++ == 0;
            if (code == OP_REDUCE_PROD) {
                reals[at] *= x;
                whole[at] *= (uint64_t)test_integer(&f.inputs[0], i);
            } else if (!extremum) {
                reals[at] += x;
                whole[at] += (uint64_t)test_integer(&f.inputs[0], i);
            } else if (first || (code == OP_REDUCE_MAX ? x > reals[at] : x < reals[at])) {
                reals[at] = x;
            }
        }
        for (int64_t i = 0; i < results; i++) {
            double got = test_real(&f.outputs[0], i);
            if (test_is_real(dtype)) {
                if (code == OP_REDUCE_MEAN) reals[i] /= (double)number;
                if (extremum && number == 0)
                    reals[i] = code == OP_REDUCE_MAX ? (double)-INFINITY : (double)INFINITY;
                double bound = dtype == OP_DOUBLE    ? 1e-13
                               : dtype == OP_FLOAT   ? 2e-6
                               : dtype == OP_FLOAT16 ? 1e-3
                                                     : 8e-3;
                if (dtype == OP_FLOAT16 && fabs(reals[i]) >= 65520)
                    reals[i] = reals[i] < 0 ? (double)-INFINITY : (double)INFINITY;
                if (dtype != OP_DOUBLE) reals[i] = (double)(float)reals[i];
                if (isnan(reals[i]) ? isnan(got)
                                    : got == reals[i] || fabs(got - reals[i]) <= bound * (fabs(reals[i]) + 1))
                    continue;
                fail_msg("%s of %s: %.17g, expected %.17g", op_schema_of(code)->name, op_dtype_name(dtype),
                         got, reals[i]);
            } else if (extremum) {
                if (number > 0) assert_true(got == reals[i]);
            } else {
                int64_t value = (int64_t)whole[i];
                bool is_signed = dtype == OP_INT32 || dtype == OP_INT64;
                if (code == OP_REDUCE_MEAN) {
                    value = number == 0 ? 0
                            : is_signed ? value / number
                                        : (int64_t)((uint64_t)value / (uint64_t)number);
                }
                if (dtype == OP_INT32) value = (int32_t)(uint32_t)(uint64_t)value;
                if (dtype == OP_UINT32) value = (uint32_t)(uint64_t)value;
                assert_int_equal(test_integer(&f.outputs[0], i), value);
            }
        }
        end(&f);
    }
}

static void test_reduce_not_a_number(void **state) {
    (void)state;
    test_random random = {SEED};
    for (int64_t at = 0; at < 100; at++) {
        for (int code = OP_REDUCE_MAX; code <= OP_REDUCE_MIN; code++) {
            fixture f = begin((op_code)code, 1, &random);
            op_shape shape = test_shape(2, 1, 100);
            if (at % 2) shape = test_shape(2, 100, 1);
            f.inputs[0] = random_tensor(&f, OP_FLOAT, &shape);
            test_set(&f.inputs[0], at, NAN);
            apply_well(&f);
            assert_true(isnan(test_real(&f.outputs[0], 0)));
            end(&f);
        }
    }
}

static void check_arg_reduce(op_code code, test_random *random) {
    for (int round = 0; round < 300; round++) {
        fixture f = begin(code, 1, random);
        op_dtype dtype;
        do dtype = random_dtype(&f.random);
        while (dtype == OP_STRING || dtype == OP_BOOL || dtype == OP_COMPLEX64 || dtype == OP_COMPLEX128);
        op_shape shape = random_shape(&f.random, 1, 4);
        if (round % 5 == 4) shape = random_lines(&f.random);
        f.inputs[0] = random_tensor(&f, dtype, &shape);
        int64_t axis = random_axis(&f.random, shape.rank);
        bool keep = round % 2, last = round % 3 == 0;
        add_integer(&f, "axis", axis);
        add_integer(&f, "keepdims", keep);
        add_integer(&f, "select_last_index", last);
        if (axis < 0) axis += shape.rank;
        op_shape kept = shape;
        kept.dims[axis] = 1;
        int64_t results;
        assert_true(op_shape_elements(&kept, &results));
        if (shape.dims[axis] == 0 && results > 0) {
            assert_int_equal(apply(&f), BASE_INVALID);
            end(&f);
            continue;
        }
        apply_well(&f);
        assert_int_equal(f.outputs[0].type.shape.rank, keep ? shape.rank : shape.rank - 1);
        assert_int_equal(test_elements(&f.outputs[0]), results);
        for (int64_t i = 0; i < results; i++) {
            int64_t index[OP_MAX_RANK], best = -1;
            double extreme = 0;
            split_index(&kept, i, index);
            for (int64_t k = 0; k < shape.dims[axis]; k++) {
                index[axis] = k;
                double x = test_real(&f.inputs[0], join_index(&shape, index));
                bool better = code == OP_ARG_MAX ? x > extreme : x < extreme;
                if (best < 0 || better || (last && x == extreme)) {
                    best = k;
                    extreme = x;
                }
            }
            assert_int_equal(test_integer(&f.outputs[0], i), best);
        }
        end(&f);
    }
}

/* The first NaN, or the last, wherever the line has two. */
static void test_arg_reduce_not_a_number(void **state) {
    (void)state;
    test_random random = {SEED};
    for (int64_t at = 0; at < 99; at++) {
        for (int code = 0; code < 2; code++) {
            fixture f = begin(code ? OP_ARG_MAX : OP_ARG_MIN, 1, &random);
            const op_shape shape = test_shape(2, 1, 100);
            const int64_t other = at + 1 + test_random_below(&random, 99 - at);
            f.inputs[0] = random_tensor(&f, OP_FLOAT, &shape);
            test_set(&f.inputs[0], at, NAN);
            test_set(&f.inputs[0], other, NAN);
            add_integer(&f, "axis", 1);
            add_integer(&f, "select_last_index", at % 2);
            apply_well(&f);
            assert_int_equal(test_integer(&f.outputs[0], 0), at % 2 ? other : at);
            end(&f);
        }
    }
}

static void check_softmax(op_code code, test_random *random) {
    static const op_dtype all[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16};
    for (int round = 0; round < 300; round++) {
        fixture f = begin(code, 1, random);
        op_dtype dtype = all[round % 4];
        op_shape shape = random_shape(&f.random, 0, 4);
        f.inputs[0] = random_tensor(&f, dtype, &shape);
        int64_t axis = shape.rank ? random_axis(&f.random, shape.rank) : -1;
        if (shape.rank && round % 5) add_integer(&f, "axis", axis);
        else axis = -1;
        if (axis < 0) axis += shape.rank;
        apply_well(&f);
        assert_true(op_shape_equal(&shape, &f.outputs[0].type.shape));
        for (int64_t i = 0; i < test_elements(&f.outputs[0]); i++) {
            int64_t index[OP_MAX_RANK];
            double sum = shape.rank ? 0 : 1, x = test_real(&f.inputs[0], i);
            split_index(&shape, i, index);
            for (int64_t k = 0; shape.rank && k < shape.dims[axis]; k++) {
                index[axis] = k;
                sum += exp(test_real(&f.inputs[0], join_index(&shape, index)) - x);
            }
            double want = code == OP_SOFTMAX ? 1 / sum : -log(sum), got = test_real(&f.outputs[0], i);
            double bound = dtype == OP_DOUBLE    ? 1e-14
                           : dtype == OP_FLOAT   ? 1e-6
                           : dtype == OP_FLOAT16 ? 1e-3
                                                 : 8e-3;
            assert_true(fabs(got - want) <= bound * (fabs(want) + (code == OP_SOFTMAX ? 0 : 1)) +
                                                (dtype == OP_FLOAT16 ? 6e-8 : 0));
        }
        end(&f);
    }
}

/* ---- the same elements in the same order --------------------------------------------------------------- */

static void assert_all_same(fixture *f) {
    int64_t count = test_elements(&f->inputs[0]);
    assert_int_equal(test_elements(&f->outputs[0]), count);
    for (int64_t i = 0; i < count; i++) assert_element(&f->outputs[0], i, &f->inputs[0], i);
}

static void check_same(op_code code, test_random *random) {
    for (int round = 0; round < 100; round++) {
        fixture f = begin(code, 1, random);
        op_shape shape = random_shape(&f.random, 0, 4), want = {.rank = 0};
        int64_t axes[OP_MAX_RANK], count = 0;
        if (code == OP_SQUEEZE) {
            for (int32_t i = 0; i < shape.rank; i++) {
                bool named = shape.dims[i] == 1 && (round % 3 == 0 || test_random_below(&f.random, 2));
                if (named) axes[count++] = test_random_below(&f.random, 2) ? i : i - shape.rank;
                else want.dims[want.rank++] = shape.dims[i];
            }
            f.inputs[1] = test_vector(&f.arena, axes, count);
            f.call.input_count = round % 3 == 0 ? 1 : 2;
        } else if (code == OP_UNSQUEEZE) {
            want = shape;
            for (int32_t i = 0; i <= want.rank && want.rank < 7; i++) {
                if (test_random_below(&f.random, 2)) continue;
                memmove(&want.dims[i + 1], &want.dims[i], (size_t)(want.rank - i) * sizeof(int64_t));
                want.dims[i] = 1;
                want.rank++;
                axes[count++] = i;
            }
            if (round % 2)
                for (int64_t i = 0; i < count; i++) axes[i] -= want.rank;
            f.inputs[1] = test_vector(&f.arena, axes, count);
            f.call.input_count = 2;
        } else if (code == OP_FLATTEN) {
            int64_t axis = shape.rank ? test_random_below(&f.random, 2 * shape.rank + 1) - shape.rank : 0;
            add_integer(&f, "axis", axis);
            if (axis < 0) axis += shape.rank;
            want = test_shape(2, 1, 1);
            for (int32_t i = 0; i < shape.rank; i++) want.dims[i < axis ? 0 : 1] *= shape.dims[i];
        } else if (code == OP_RESHAPE) {
            if (shape.rank == 0) shape = test_shape(1, 1);
            int64_t spelled[OP_MAX_RANK + 1], elements;
            bool zero = round % 4 == 3;
            for (int32_t i = 0; i < shape.rank; i++) spelled[i] = zero || round % 2 ? shape.dims[i] : 0;
            assert_true(op_shape_elements(&shape, &elements));
            want = shape;
            if (elements > 0) spelled[test_random_below(&f.random, shape.rank)] = -1;
            spelled[shape.rank] = 1;
            want.dims[want.rank++] = 1;
            if (zero) add_integer(&f, "allowzero", 1);
            f.inputs[1] = test_vector(&f.arena, spelled, want.rank);
            f.call.input_count = 2;
        } else {
            want = shape;
        }
        f.inputs[0] = random_tensor(&f, random_dtype(&f.random), &shape);
        apply_well(&f);
        assert_true(op_shape_equal(&want, &f.outputs[0].type.shape));
        assert_all_same(&f);
        end(&f);
    }
}

/* ---- movement ------------------------------------------------------------------------------------------ */

static void check_transpose(op_code code, test_random *random) {
    for (int round = 0; round < 500; round++) {
        fixture f = begin(code, 1, random);
        op_shape shape = random_shape(&f.random, 0, 5);
        f.inputs[0] = random_tensor(&f, random_dtype(&f.random), &shape);
        int64_t order[OP_MAX_RANK];
        for (int32_t i = 0; i < shape.rank; i++) order[i] = round % 5 ? i : shape.rank - 1 - i;
        if (round % 5) {
            for (int32_t i = shape.rank - 1; i > 0; i--) {
                int64_t other = test_random_below(&f.random, i + 1), kept = order[i];
                order[i] = order[other];
                order[other] = kept;
            }
            f.attributes[f.call.attributes.count++] = (op_attribute){
                .name = "perm", .kind = OP_ATTRIBUTE_INTS, .count = (size_t)shape.rank, .as.integers = order};
        }
        apply_well(&f);
        for (int64_t i = 0; i < test_elements(&f.outputs[0]); i++) {
            int64_t index[OP_MAX_RANK], from[OP_MAX_RANK];
            split_index(&f.outputs[0].type.shape, i, index);
            for (int32_t k = 0; k < shape.rank; k++) from[order[k]] = index[k];
            assert_element(&f.outputs[0], i, &f.inputs[0], join_index(&shape, from));
        }
        end(&f);
    }
}

/* The elements that Python's x[start:end:step] takes, by walking; but a start before the first element is the first one
 * backwards too, as the operator's text says. */
static int64_t walk(int64_t extent, int64_t start, int64_t end, int64_t step, int64_t taken[]) {
    if (start < 0) start += extent;
    if (end < 0) end += extent;
    int64_t count = 0;
    if (step > 0) {
        if (start < 0) start = 0;
        for (int64_t i = start; i < end && i < extent; i += step) taken[count++] = i;
    } else {
        if (start < 0) start = 0;
        if (start >= extent) start = extent - 1;
        for (int64_t i = start; i > end && i >= 0; i += step) taken[count++] = i;
    }
    return count;
}

static void check_slice(op_code code, test_random *random) {
    static int64_t taken[OP_MAX_RANK][256];
    for (int round = 0; round < 600; round++) {
        fixture f = begin(code, 5, random);
        op_shape shape = random_shape(&f.random, 1, 5), want = shape;
        f.inputs[0] = random_tensor(&f, random_dtype(&f.random), &shape);
        int64_t lists[4][OP_MAX_RANK], count = 0;
        for (int32_t i = 0; i < shape.rank; i++) {
            for (int64_t k = 0; k < shape.dims[i]; k++) taken[i][k] = k;
            if (round % 3 && test_random_below(&f.random, 2)) continue;
            int64_t extent = shape.dims[i], step = 0;
            while (step == 0) step = test_random_below(&f.random, 7) - 3;
            if (round % 4 == 0) step = 1;
            lists[0][count] = test_random_below(&f.random, 2 * extent + 5) - extent - 2;
            lists[1][count] = test_random_below(&f.random, 2 * extent + 5) - extent - 2;
            if (round % 11 == 0) lists[1][count] = step > 0 ? INT64_MAX : INT64_MIN;
            lists[2][count] = round % 3 ? (round % 2 ? i : i - shape.rank) : i;
            lists[3][count] = step;
            want.dims[i] =
                walk(extent, lists[0][count],
                     round % 11 == 0 ? (step > 0 ? extent : -extent - 1) : lists[1][count], step, taken[i]);
            count++;
        }
        for (int k = 0; k < 4; k++) f.inputs[k + 1] = test_vector(&f.arena, lists[k], count);
        if (round % 3 == 0) f.inputs[3] = (op_tensor){0}; /* no axes: the first ones */
        if (round % 4 == 0) f.call.input_count = 4;       /* no steps */
        apply_well(&f);
        assert_true(op_shape_equal(&want, &f.outputs[0].type.shape));
        for (int64_t i = 0; i < test_elements(&f.outputs[0]); i++) {
            int64_t index[OP_MAX_RANK];
            split_index(&want, i, index);
            for (int32_t k = 0; k < shape.rank; k++) index[k] = taken[k][index[k]];
            assert_element(&f.outputs[0], i, &f.inputs[0], join_index(&shape, index));
        }
        end(&f);
    }
}

/* Split into 3 parts, and Concat of them, which must give the whole again. */
static void check_parts(op_code code, test_random *random) {
    for (int round = 0; round < 200; round++) {
        fixture f = begin(OP_SPLIT, 2, random);
        op_shape shape = random_shape(&f.random, 1, 4);
        int64_t axis = random_axis(&f.random, shape.rank), normal = axis < 0 ? axis + shape.rank : axis,
                parts[3];
        bool even = round % 2;
        for (int k = 0; k < 3; k++) parts[k] = even ? 2 : test_random_below(&f.random, 4);
        shape.dims[normal] = parts[0] + parts[1] + parts[2];
        f.inputs[0] = random_tensor(&f, random_dtype(&f.random), &shape);
        f.inputs[1] = test_vector(&f.arena, parts, 3);
        if (even) f.call.input_count = 1;
        f.call.output_count = 3;
        add_integer(&f, "axis", axis);
        apply_well(&f);
        int64_t before = 0;
        for (int k = 0; k < 3; k++) {
            op_shape want = shape;
            want.dims[normal] = parts[k];
            assert_true(op_shape_equal(&want, &f.outputs[k].type.shape));
            for (int64_t i = 0; i < test_elements(&f.outputs[k]); i++) {
                int64_t index[OP_MAX_RANK];
                split_index(&want, i, index);
                index[normal] += before;
                assert_element(&f.outputs[k], i, &f.inputs[0], join_index(&shape, index));
            }
            before += parts[k];
        }
        if (code == OP_CONCAT) {
            op_tensor whole = f.inputs[0];
            for (int k = 0; k < 3; k++) f.inputs[k] = f.outputs[k];
            f.call.code = OP_CONCAT;
            f.call.input_count = 3;
            f.call.output_count = 1;
            apply_well(&f);
            f.inputs[0] = whole;
            assert_true(op_shape_equal(&shape, &f.outputs[0].type.shape));
            assert_all_same(&f);
        }
        end(&f);
    }
}

static void check_gather(op_code code, test_random *random) {
    for (int round = 0; round < 400; round++) {
        fixture f = begin(code, 2, random);
        op_shape shape = random_shape(&f.random, 1, 4), chosen = random_shape(&f.random, 0, 2);
        int64_t axis = random_axis(&f.random, shape.rank), normal = axis < 0 ? axis + shape.rank : axis;
        int64_t extent = shape.dims[normal];
        f.inputs[0] = random_tensor(&f, random_dtype(&f.random), &shape);
        f.inputs[1] = test_tensor(&f.arena, round % 2 ? OP_INT32 : OP_INT64, &chosen);
        add_integer(&f, "axis", axis);
        bool wrong = round % 10 == 9 && test_elements(&f.inputs[1]) > 0;
        for (int64_t i = 0; i < test_elements(&f.inputs[1]); i++) {
            test_set(&f.inputs[1], i,
                     extent ? (double)(test_random_below(&f.random, 2 * extent) - extent) : 0);
        }
        if (wrong)
            test_set(&f.inputs[1], test_elements(&f.inputs[1]) - 1,
                     round % 20 == 9 ? (double)extent : (double)(-extent - 1));
        if (wrong || (extent == 0 && test_elements(&f.inputs[1]) > 0)) {
            assert_int_equal(apply(&f), BASE_INVALID);
            assert_non_null(strstr(f.report.text, "is outside of ["));
            end(&f);
            continue;
        }
        apply_well(&f);
        for (int64_t i = 0; i < test_elements(&f.outputs[0]); i++) {
            int64_t index[OP_MAX_RANK], from[OP_MAX_RANK];
            split_index(&f.outputs[0].type.shape, i, index);
            int64_t at = test_integer(&f.inputs[1], join_index(&chosen, index + normal));
            for (int32_t k = 0; k < shape.rank; k++) {
                if (k != normal) from[k] = index[k < normal ? k : k + chosen.rank - 1];
            }
            from[normal] = at < 0 ? at + extent : at;
            assert_element(&f.outputs[0], i, &f.inputs[0], join_index(&shape, from));
        }
        end(&f);
    }
}

static void check_repeat(op_code code, test_random *random) {
    for (int round = 0; round < 300; round++) {
        fixture f = begin(code, 2, random);
        op_shape shape = random_shape(&f.random, 0, 4), want = shape;
        int64_t numbers[OP_MAX_RANK];
        for (int32_t i = 0; i < shape.rank; i++) {
            int64_t times = test_random_below(&f.random, 4);
            if (code == OP_TILE) {
                numbers[i] = times;
                want.dims[i] *= times;
            } else {
                if (shape.dims[i] == 1) want.dims[i] = times;
                numbers[i] = shape.dims[i] != 1 && round % 2 ? 1 : want.dims[i];
            }
        }
        f.inputs[0] = random_tensor(&f, random_dtype(&f.random), &shape);
        f.inputs[1] = test_vector(&f.arena, numbers, shape.rank);
        if (code == OP_EXPAND && round % 3 == 0) { /* a longer shape */
            memmove(numbers + 1, numbers, (size_t)shape.rank * sizeof(int64_t));
            memmove(want.dims + 1, want.dims, (size_t)shape.rank * sizeof(int64_t));
            numbers[0] = want.dims[0] = 3;
            want.rank++;
            f.inputs[1] = test_vector(&f.arena, numbers, want.rank);
        }
        apply_well(&f);
        assert_true(op_shape_equal(&want, &f.outputs[0].type.shape));
        for (int64_t i = 0; i < test_elements(&f.outputs[0]); i++) {
            int64_t index[OP_MAX_RANK];
            split_index(&want, i, index);
            int64_t *own = index + want.rank - shape.rank;
            for (int32_t k = 0; k < shape.rank; k++) own[k] %= shape.dims[k];
            assert_element(&f.outputs[0], i, &f.inputs[0], join_index(&shape, own));
        }
        end(&f);
    }
}

static void check_pad(op_code code, test_random *random) {
    static const char *const modes[] = {"constant", "reflect", "edge"};
    for (int round = 0; round < 500; round++) {
        fixture f = begin(code, 3, random);
        op_shape shape = random_shape(&f.random, 0, 4), want = shape;
        int mode = round % 3;
        for (int32_t i = 0; i < shape.rank && mode; i++) shape.dims[i] += shape.dims[i] == 0;
        op_dtype dtype = random_dtype(&f.random);
        f.inputs[0] = random_tensor(&f, dtype, &shape);
        int64_t pads[2 * OP_MAX_RANK], first[OP_MAX_RANK], left[OP_MAX_RANK];
        /* Often the innermost axes stay as they are. */
        const int32_t changed =
            round % 2 ? shape.rank : (int32_t)test_random_below(&f.random, shape.rank + 1);
        for (int32_t i = 0; i < shape.rank; i++) {
            int64_t extent = shape.dims[i], cut = test_random_below(&f.random, 3)
                                                      ? 0
                                                      : test_random_below(&f.random, extent + (mode == 0));
            bool front = test_random_below(&f.random, 2);
            left[i] = extent - cut;
            first[i] = front ? cut : 0;
            int64_t most = mode == 1 ? left[i] : 4, other = test_random_below(&f.random, most ? most : 1);
            int64_t same = cut ? -cut : test_random_below(&f.random, most ? most : 1);
            if (i >= changed) {
                left[i] = extent;
                first[i] = same = other = 0;
            }
            pads[i] = front ? same : other;
            pads[i + shape.rank] = front ? other : same;
            want.dims[i] = extent + same + other;
        }
        f.inputs[1] = test_vector(&f.arena, pads, 2 * shape.rank);
        op_shape scalar = {.rank = 0};
        f.inputs[2] = test_tensor(&f.arena, dtype, &scalar);
        test_set(&f.inputs[2], 0, 1);
        if (round % 2) f.call.input_count = 2;
        if (round % 2) test_set(&f.inputs[2], 0, 0);
        if (round % 2 && dtype == OP_STRING) *(op_string *)f.inputs[2].data = (op_string){0};
        if (round % 6) add_text(&f, "mode", modes[mode]);
        apply_well(&f);
        assert_true(op_shape_equal(&want, &f.outputs[0].type.shape));
        for (int64_t i = 0; i < test_elements(&f.outputs[0]); i++) {
            int64_t index[OP_MAX_RANK];
            bool outside = false;
            split_index(&want, i, index);
            for (int32_t k = 0; k < shape.rank; k++) {
                int64_t at = index[k] - (pads[k] > 0 ? pads[k] : 0);
                outside = outside || at < 0 || at >= left[k];
                if (mode == 1) at = at < 0 ? -at : at >= left[k] ? 2 * left[k] - 2 - at : at;
                if (mode == 2) at = at < 0 ? 0 : at >= left[k] ? left[k] - 1 : at;
                index[k] = first[k] + at;
            }
            if (mode == 0 && outside) assert_element(&f.outputs[0], i, &f.inputs[2], 0);
            else assert_element(&f.outputs[0], i, &f.inputs[0], join_index(&shape, index));
        }
        end(&f);
    }
}

/* ---- generation ---------------------------------------------------------------------------------------- */

static void check_shape(op_code code, test_random *random) {
    for (int round = 0; round < 200; round++) {
        fixture f = begin(code, 1, random);
        op_shape shape = random_shape(&f.random, 0, 5);
        f.inputs[0] = random_tensor(&f, random_dtype(&f.random), &shape);
        int64_t first = 0, last = shape.rank, wanted[OP_MAX_RANK], count = 0;
        if (code == OP_SHAPE && round % 2) {
            int64_t start = test_random_below(&f.random, 15) - 7, stop = test_random_below(&f.random, 15) - 7;
            add_integer(&f, "start", start);
            add_integer(&f, "end", stop);
            first = start < 0 ? start + shape.rank : start;
            last = stop < 0 ? stop + shape.rank : stop;
        }
        for (int64_t i = 0; i < shape.rank; i++) {
            if (i >= first && i < last) wanted[count++] = shape.dims[i];
        }
        if (code == OP_SIZE) wanted[0] = test_elements(&f.inputs[0]);
        apply_well(&f);
        assert_int_equal(f.outputs[0].type.dtype, OP_INT64);
        assert_int_equal(f.outputs[0].type.shape.rank, code == OP_SHAPE);
        assert_int_equal(test_elements(&f.outputs[0]), code == OP_SIZE ? 1 : count);
        for (int64_t i = 0; i < test_elements(&f.outputs[0]); i++) {
            assert_int_equal(test_integer(&f.outputs[0], i), wanted[i]);
            assert_int_equal(f.outputs[0].symbolic[i], wanted[i]); /* inference knows as much */
        }
        end(&f);
    }
}

static void check_constant_of_shape(op_code code, test_random *random) {
    for (int round = 0; round < 100; round++) {
        fixture f = begin(code, 1, random);
        op_shape shape = random_shape(&f.random, 0, 4), one = test_shape(1, 1);
        f.inputs[0] = test_vector(&f.arena, shape.dims, shape.rank);
        static const op_dtype all[] = {OP_FLOAT, OP_BOOL, OP_INT8, OP_FLOAT16, OP_INT64, OP_DOUBLE};
        op_tensor value = random_tensor(&f, round % 4 ? all[round % 6] : OP_FLOAT, &one);
        if (round % 4) {
            f.attributes[f.call.attributes.count++] =
                (op_attribute){.name = "value", .kind = OP_ATTRIBUTE_TENSOR, .count = 1, .as.tensor = &value};
        } else {
            test_set(&value, 0, 0);
        }
        apply_well(&f);
        assert_true(op_shape_equal(&shape, &f.outputs[0].type.shape));
        for (int64_t i = 0; i < test_elements(&f.outputs[0]); i++)
            assert_element(&f.outputs[0], i, &value, 0);
        end(&f);
    }
}

static void check_range(op_code code, test_random *random) {
    static const op_dtype all[] = {OP_FLOAT, OP_DOUBLE, OP_INT16, OP_INT32, OP_INT64};
    static const double numbers[][3] = {{0, 5, 1},  {5, 0, -2}, {0, 5, -1},
                                        {-3, 4, 3}, {2, 2, 1},  {10, -10, -7}};
    for (int round = 0; round < 30; round++) {
        fixture f = begin(code, 3, random);
        op_shape scalar = {.rank = 0};
        const double *n = numbers[round % 6];
        for (int i = 0; i < 3; i++) {
            f.inputs[i] = test_tensor(&f.arena, all[round / 6], &scalar);
            test_set(&f.inputs[i], 0, n[i]);
        }
        apply_well(&f);
        int64_t count = 0;
        for (double x = n[0]; n[2] > 0 ? x < n[1] : x > n[1]; x += n[2]) {
            assert_true(count < test_elements(&f.outputs[0]));
            assert_true(test_real(&f.outputs[0], count++) == x);
        }
        assert_int_equal(test_elements(&f.outputs[0]), count);
        end(&f);
    }
}

/* ---- the table ----------------------------------------------------------------------------------------- */

typedef void check_function(op_code code, test_random *random);

static const struct {
    op_infer_function *infer;
    check_function *check;
} checks[] = {
    {op_infer_reduce, check_reduce},
    {op_infer_arg_reduce, check_arg_reduce},
    {op_infer_softmax, check_softmax},
    {op_infer_reshape, check_same},
    {op_infer_flatten, check_same},
    {op_infer_squeeze, check_same},
    {op_infer_unsqueeze, check_same},
    {op_infer_identity, check_same},
    {op_infer_transpose, check_transpose},
    {op_infer_slice, check_slice},
    {op_infer_split, check_parts},
    {op_infer_concat, check_parts},
    {op_infer_gather, check_gather},
    {op_infer_expand, check_repeat},
    {op_infer_tile, check_repeat},
    {op_infer_pad, check_pad},
    {op_infer_shape, check_shape},
    {op_infer_size, check_shape},
    {op_infer_constant_of_shape, check_constant_of_shape},
    {op_infer_range, check_range},
};
enum { CHECKS = sizeof checks / sizeof *checks };

/* Every operator between the first reduction and the control operators is checked here, unless it belongs to the spatial (RowsConv, JoinedConv,
 * JoinedMaxPool and ShuffledConv with them), matrix, resampling, indexed, random, training or recurrent families, or to sequences and optionals,
 * whose tests are elsewhere. */
static void test_table(void **state) {
    (void)state;
    test_random random = {SEED};
    printf("seed %d\n", SEED);
    for (int code = OP_REDUCE_SUM; code < OP_CODE_COUNT; code++) {
        const op_schema *row = op_schema_of((op_code)code);
        if ((code >= OP_CONV && code < OP_RESHAPE) || (code >= OP_RESIZE && code < OP_SHAPE) ||
            (code >= OP_RANDOM_NORMAL && code < OP_RNN) || (row->flags & (OP_FLAG_GRAPHS | OP_FLAG_LISTS)) ||
            code == OP_REORDER || code == OP_FUSED || code == OP_ROWS_CONV || code == OP_JOINED_CONV ||
            code == OP_JOINED_MAX_POOL || code == OP_SHUFFLED_CONV || row->infer == op_infer_recurrent) {
            continue;
        }
        int at = 0;
        while (at < CHECKS && checks[at].infer != row->infer) at++;
        if (at == CHECKS) fail_msg("operator %s has no test", row->name);
        checks[at].check((op_code)code, &random);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_reduce_not_a_number),
                                       cmocka_unit_test(test_arg_reduce_not_a_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

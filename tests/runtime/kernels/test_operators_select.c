/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_select.c: operators whose results have sizes that depend on data: against their definitions, one
 * element at a time, in every type; and what is around them: loops, branches, folding, memory, what is refused. */
#include "tests/support/support.h"
#include "tests/support/allocations.h"
#include "tests/support/operators.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const uint64_t SEED = 20231;

/* ---- one application ----------------------------------------------------------------------------------- */

/* Infers without data, evaluates on one thread and on three: both give the same bytes, in a shape that inference
 * did not deny. */
static void evaluate(op_call *call, base_arena *arena) {
    op_tensor hidden[8], blind[4] = {0}, again[4] = {0};
    base_report report = {0};
    for (uint32_t i = 0; i < call->input_count; i++) {
        hidden[i] = call->inputs[i];
        hidden[i].data = NULL;
    }
    for (int pass = 0; pass < 3; pass++) {
        rt_environment environment = {.threads = pass == 1 ? 1 : 3};
        op_call each = *call;
        each.outputs = pass == 0 ? blind : pass == 1 ? call->outputs : again;
        if (pass == 0) each.inputs = hidden;
        if (op_infer(&each, &report) != BASE_OK) fail_msg("%s", report.text);
        if (pass && rt_kernel_evaluate(&each, &environment, arena, &report) != BASE_OK)
            fail_msg("%s", report.text);
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        const op_shape *known = &blind[i].type.shape, *is = &call->outputs[i].type.shape;
        assert_int_equal(blind[i].type.dtype, call->outputs[i].type.dtype);
        assert_true(known->rank == is->rank && op_shape_known(is));
        for (int32_t d = 0; d < is->rank; d++)
            assert_true(known->dims[d] == OP_DIM_UNKNOWN || known->dims[d] == is->dims[d]);
        assert_true(op_shape_equal(is, &again[i].type.shape));
        if (call->outputs[i].bytes)
            assert_memory_equal(call->outputs[i].data, again[i].data, call->outputs[i].bytes);
    }
}

/* Of complex ones the real part: the tests' have no other. */
static double number(const op_tensor *tensor, int64_t i) {
    if (tensor->type.dtype == OP_COMPLEX64) return ((const float *)tensor->data)[2 * i];
    if (tensor->type.dtype == OP_COMPLEX128) return ((const double *)tensor->data)[2 * i];
    return test_real(tensor, i);
}

/* <0, 0, >0. */
static int compare(const op_tensor *tensor, int64_t a, int64_t b) {
    if (tensor->type.dtype == OP_STRING) {
        const op_string *text = tensor->data;
        size_t shorter = text[a].length < text[b].length ? text[a].length : text[b].length;
        int order = shorter ? memcmp(text[a].data, text[b].data, shorter) : 0;
        return order ? order : (text[a].length > text[b].length) - (text[a].length < text[b].length);
    }
    double x = number(tensor, a), y = number(tensor, b);
    return (x > y) - (x < y);
}

static bool is_set(const op_tensor *tensor, int64_t i) {
    return tensor->type.dtype == OP_STRING ? ((const op_string *)tensor->data)[i].length != 0
                                           : number(tensor, i) != 0;
}

static bool is_same(const op_tensor *a, int64_t i, const op_tensor *b, int64_t j) {
    size_t bytes = op_dtype_bytes(a->type.dtype);
    return memcmp((const char *)a->data + (size_t)i * bytes, (const char *)b->data + (size_t)j * bytes,
                  bytes) == 0;
}

static const int64_t *integers(const op_tensor *tensor) {
    return tensor->data;
}

static void check_non_zero(const op_tensor *x, base_arena *arena) {
    op_tensor y = {0};
    op_call call = {
        .code = OP_NON_ZERO, .input_count = 1, .output_count = 1, .inputs = x, .outputs = &y, .arena = arena};
    evaluate(&call, arena);
    int64_t elements = test_elements(x), found = 0, total = y.type.shape.dims[1];
    assert_int_equal(y.type.shape.dims[0], x->type.shape.rank);
    for (int64_t i = 0; i < elements; i++) {
        if (!is_set(x, i)) continue;
        assert_true(found < total);
        int64_t rest = i;
        for (int32_t d = x->type.shape.rank; d-- > 0; rest /= x->type.shape.dims[d])
            assert_int_equal(integers(&y)[d * total + found], rest % x->type.shape.dims[d]);
        found++;
    }
    assert_int_equal(found, total);
}

typedef struct slicing {
    int64_t outer, extent, inner;
} slicing;

static slicing slice_by(const op_shape *shape, const int64_t *axis) {
    slicing s = {1, 1, 1};
    for (int32_t d = 0; d < shape->rank; d++) {
        int32_t at = axis ? (int32_t)(*axis < 0 ? *axis + shape->rank : *axis) : d;
        *(d < at ? &s.outer : d == at || !axis ? &s.extent : &s.inner) *= shape->dims[d];
    }
    return s;
}

static op_attributes with_axis(op_attribute storage[2], const int64_t *axis, const int64_t *sorted) {
    op_attributes attributes = {0, storage};
    if (axis) storage[attributes.count++] = (op_attribute){"axis", OP_ATTRIBUTE_INT, 1, {.integer = *axis}};
    if (sorted)
        storage[attributes.count++] = (op_attribute){"sorted", OP_ATTRIBUTE_INT, 1, {.integer = *sorted}};
    return attributes;
}

static void check_compress(const op_tensor *x, const int64_t *axis, int64_t length, test_random *random,
                           base_arena *arena) {
    op_shape vector = {.rank = 1, .dims = {length}};
    op_attribute storage[2];
    op_tensor inputs[2] = {*x, test_tensor(arena, OP_BOOL, &vector)}, y = {0};
    for (int64_t i = 0; i < length; i++) test_set(&inputs[1], i, (double)test_random_below(random, 2));
    op_call call = {.code = OP_COMPRESS,
                    .attributes = with_axis(storage, axis, NULL),
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = inputs,
                    .outputs = &y,
                    .arena = arena};
    evaluate(&call, arena);
    slicing s = slice_by(&x->type.shape, axis);
    int64_t at = 0;
    for (int64_t o = 0; o < s.outer; o++) {
        for (int64_t e = 0; e < s.extent && e < length; e++) {
            for (int64_t i = 0; i < s.inner && test_real(&inputs[1], e) != 0; i++)
                assert_true(is_same(&y, at++, x, (o * s.extent + e) * s.inner + i));
        }
    }
    assert_int_equal(at, test_elements(&y));
}

static int compare_slices(const op_tensor *x, const slicing *s, int64_t a, int64_t b) {
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t i = 0; i < s->inner; i++) {
            int order = compare(x, (o * s->extent + a) * s->inner + i, (o * s->extent + b) * s->inner + i);
            if (order) return order;
        }
    }
    return 0;
}

static void check_unique(const op_tensor *x, const int64_t *axis, int64_t sorted, base_arena *arena) {
    op_attribute storage[2];
    op_tensor outputs[4] = {0};
    op_call call = {.code = OP_UNIQUE,
                    .attributes = with_axis(storage, axis, &sorted),
                    .input_count = 1,
                    .output_count = 4,
                    .inputs = x,
                    .outputs = outputs,
                    .arena = arena};
    evaluate(&call, arena);
    const slicing s = slice_by(&x->type.shape, axis);
    const int64_t *first = integers(&outputs[1]), *inverse = integers(&outputs[2]),
                  *counts = integers(&outputs[3]);
    const int64_t count = test_elements(&outputs[1]);
    assert_int_equal(test_elements(&outputs[2]), s.extent);
    assert_int_equal(test_elements(&outputs[3]), count);
    assert_int_equal(test_elements(&outputs[0]), s.outer * count * s.inner);
    for (int64_t u = 0; u < count; u++) {
        int64_t times = 0;
        assert_true(first[u] >= 0 && first[u] < s.extent);
        for (int64_t e = 0; e < s.extent; e++) {
            bool equal = compare_slices(x, &s, e, first[u]) == 0;
            assert_true(equal == (inverse[e] == u));
            assert_true(!equal || e >= first[u]);
            times += equal;
        }
        assert_int_equal(times, counts[u]);
        if (u)
            assert_true(sorted ? compare_slices(x, &s, first[u - 1], first[u]) < 0 : first[u - 1] < first[u]);
        for (int64_t o = 0; o < s.outer; o++) {
            for (int64_t i = 0; i < s.inner; i++)
                assert_true(is_same(&outputs[0], (o * count + u) * s.inner + i, x,
                                    (o * s.extent + first[u]) * s.inner + i));
        }
    }
}

static void test_definitions(void **state) {
    (void)state;
    test_random random = {SEED};
    const op_shape shapes[] = {test_shape(0),          test_shape(1, 0),         test_shape(1, 7),
                               test_shape(2, 5, 4),    test_shape(3, 3, 0, 2),   test_shape(3, 2, 9, 1),
                               test_shape(3, 3, 4, 2), test_shape(4, 2, 3, 2, 3)};
    for (int dtype = OP_NONE + 1; dtype <= OP_BFLOAT16; dtype++) {
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            base_arena arena;
            base_arena_init(&arena, NULL);
            op_tensor x = test_tensor(&arena, (op_dtype)dtype, &shapes[k]);
            test_fill(&x, &random);
            /* Few different ones, and zeros among them. */
            for (int64_t i = 0, count = test_elements(&x); i < count; i++)
                test_set(&x, i, (double)test_random_below(&random, 3));
            check_non_zero(&x, &arena);
            check_compress(&x, NULL, test_elements(&x), &random, &arena);
            check_compress(&x, NULL, test_elements(&x) / 2, &random, &arena);
            for (int64_t sorted = 0; sorted < 2; sorted++) check_unique(&x, NULL, sorted, &arena);
            for (int64_t axis = -shapes[k].rank; axis < shapes[k].rank; axis++) {
                int64_t extent = shapes[k].dims[axis < 0 ? axis + shapes[k].rank : axis];
                check_compress(&x, &axis, extent, &random, &arena);
                for (int64_t sorted = 0; sorted < 2; sorted++) check_unique(&x, &axis, sorted, &arena);
            }
            base_arena_free(&arena);
        }
    }
}

/* Many blocks, which begin within rows. */
static void test_large(void **state) {
    (void)state;
    test_random random = {SEED};
    const op_shape shapes[] = {test_shape(3, 37, 59, 61), test_shape(1, 100003), test_shape(2, 70001, 1)};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        base_arena arena;
        base_arena_init(&arena, NULL);
        op_tensor x = test_tensor(&arena, OP_FLOAT, &shapes[k]);
        int64_t elements = test_elements(&x);
        for (int64_t i = 0; i < elements / 50; i++)
            ((float *)x.data)[test_random_below(&random, elements)] = i % 2 ? NAN : 1;
        op_tensor bits = test_tensor(&arena, OP_UINT8, &shapes[k]);
        for (int64_t i = 0; i < elements; i++) test_set(&bits, i, ((float *)x.data)[i] != 0);
        check_non_zero(&x, &arena);
        check_non_zero(&bits, &arena);
        check_compress(&x, NULL, elements, &random, &arena);
        base_arena_free(&arena);
    }
}

/* Numbers of any bits (as many as doubles have), of few, and of high ones that differ, about as many as are sorted otherwise. */
static void test_many_numbers(void **state) {
    (void)state;
    test_random random = {SEED};
    static const op_dtype dtypes[] = {OP_BOOL,   OP_INT8,   OP_INT16,  OP_INT32, OP_INT64, OP_UINT8,
                                      OP_UINT16, OP_UINT32, OP_UINT64, OP_FLOAT, OP_DOUBLE};
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        for (int64_t count = 63; count < 400; count = count == 63 ? 64 : 5 * count / 2) {
            base_arena arena;
            base_arena_init(&arena, NULL);
            const op_dtype dtype = dtypes[k];
            const op_shape shape = test_shape(2, 1, count);
            op_tensor x = test_tensor(&arena, dtype, &shape);
            const size_t bytes = op_dtype_bytes(dtype);
            for (int form = 0; form < 3 && dtype != OP_BOOL; form++) {
                for (int64_t i = 0; i < count; i++) {
                    uint64_t bits = test_random_next(&random);
                    if (form == 1) bits %= 5;
                    if (form == 2) bits &= UINT64_C(0xf000f000f000f0f0);
                    if (dtype == OP_INT64 || dtype == OP_UINT64) bits &= ~UINT64_C(0x7ff);
                    memcpy((char *)x.data + (size_t)i * bytes, &bits, bytes);
                    if (test_real(&x, i) != test_real(&x, i)) test_set(&x, i, -7);
                }
                for (int64_t sorted = 0; sorted < 2; sorted++) check_unique(&x, NULL, sorted, &arena);
            }
            for (int64_t i = 0; i < count && dtype == OP_BOOL; i++)
                test_set(&x, i, (double)test_random_below(&random, 2));
            const int64_t axis = 1;
            for (int64_t sorted = 0; sorted < 2; sorted++) check_unique(&x, &axis, sorted, &arena);
            base_arena_free(&arena);
        }
    }
}

enum { SPECIAL = 6 };

/* The same numbers, so many times. */
static void check_special(const op_tensor *x, int64_t times, base_arena *arena) {
    static const int64_t first[] = {5, 1, 2, 0}, inverse[] = {3, 1, 2, 1, 3, 0}, counts[] = {1, 2, 1, 2};
    op_tensor y[4] = {0};
    op_call call = {
        .code = OP_UNIQUE, .input_count = 1, .output_count = 4, .inputs = x, .outputs = y, .arena = arena};
    evaluate(&call, arena);
    assert_int_equal(y[1].bytes, sizeof first);
    assert_memory_equal(y[1].data, first, sizeof first);
    assert_int_equal(test_elements(&y[2]), SPECIAL * times);
    for (int64_t i = 0; i < SPECIAL * times; i++) assert_int_equal(integers(&y[2])[i], inverse[i % SPECIAL]);
    for (int i = 0; i < 4; i++) assert_int_equal(integers(&y[3])[i], times * counts[i]);
    check_non_zero(x, arena);
}

/* Negative zero is zero, and equal to it; all NaNs are one value, after the numbers. */
static void test_special_numbers(void **state) {
    (void)state;
    const double values[SPECIAL] = {-(double)NAN, -0.0, (double)INFINITY, 0, (double)NAN, -(double)INFINITY};
    for (int64_t times = 1; times < 30; times += 14) {
        for (int k = 0; k < 2; k++) {
            base_arena arena;
            base_arena_init(&arena, NULL);
            const op_shape shape = test_shape(1, SPECIAL * times);
            op_tensor x = test_tensor(&arena, k ? OP_DOUBLE : OP_FLOAT, &shape);
            for (int64_t i = 0; i < SPECIAL * times; i++) test_set(&x, i, values[i % SPECIAL]);
            check_special(&x, times, &arena);
            base_arena_free(&arena);
        }
    }
}

/* ---- boxes --------------------------------------------------------------------------------------------- */

static double intersection_over_union(const float *a, const float *b, bool centered) {
    double low[2][2], high[2][2], common = 1, area[2] = {1, 1};
    for (int k = 0; k < 2; k++) {
        const float *box = k ? b : a;
        for (int d = 0; d < 2; d++) {
            double from = centered ? (double)box[d] - (double)box[d + 2] / 2 : (double)box[d];
            double to = centered ? (double)box[d] + (double)box[d + 2] / 2 : (double)box[d + 2];
            low[k][d] = from < to ? from : to;
            high[k][d] = from < to ? to : from;
            area[k] *= high[k][d] - low[k][d];
        }
    }
    for (int d = 0; d < 2; d++) {
        double from = low[0][d] > low[1][d] ? low[0][d] : low[1][d];
        double to = high[0][d] < high[1][d] ? high[0][d] : high[1][d];
        common *= to > from ? to - from : 0;
    }
    return common > 0 ? common / (area[0] + area[1] - common) : 0;
}

/* Coordinates are small integers, thresholds lie between all quotients of such: nothing depends on rounding. */
static void check_boxes(int64_t batches, int64_t classes, int64_t boxes, bool centered, int64_t most,
                        const float *least, test_random *random) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    const op_shape box_shape = {.rank = 3, .dims = {batches, boxes, 4}},
                   score_shape = {.rank = 3, .dims = {batches, classes, boxes}}, one = test_shape(1, 1);
    float limit = 0.3001f, minimum = least ? *least : 0;
    op_attribute attribute = {"center_point_box", OP_ATTRIBUTE_INT, 1, {.integer = centered}};
    op_tensor inputs[5] = {test_tensor(&arena, OP_FLOAT, &box_shape),
                           test_tensor(&arena, OP_FLOAT, &score_shape),
                           {{.dtype = OP_INT64, .shape = test_shape(0)}, 8, &most, NULL},
                           {{.dtype = OP_FLOAT, .shape = one}, 4, &limit, NULL},
                           {{.dtype = least ? OP_FLOAT : OP_NONE, .shape = one}, 4, &minimum, NULL}};
    op_tensor y = {0};
    float *box = inputs[0].data, *score = inputs[1].data;
    for (int64_t i = 0; i < batches * boxes * 4; i++) {
        box[i] = (float)test_random_below(random, 8);
        if (centered && i % 4 >= 2) box[i] = 2 * box[i] + 2; /* even sizes */
    }
    for (int64_t i = 0; i < batches * classes * boxes; i++)
        score[i] = (float)test_random_below(random, 6) / 4;
    op_call call = {.code = OP_NON_MAX_SUPPRESSION,
                    .attributes = {1, &attribute},
                    .input_count = 5,
                    .output_count = 1,
                    .inputs = inputs,
                    .outputs = &y,
                    .arena = &arena};
    evaluate(&call, &arena);
    const int64_t *triple = y.data, *end = triple + test_elements(&y);
    for (int64_t task = 0; task < batches * classes; task++) {
        const float *of = score + task * boxes, *places = box + task / classes * boxes * 4;
        bool *gone = BASE_ARRAY(&arena, bool, (size_t)boxes);
        for (int64_t i = 0; i < boxes; i++) gone[i] = least && of[i] <= *least;
        for (int64_t k = 0; k < most; k++) {
            int64_t best = -1;
            for (int64_t i = 0; i < boxes; i++)
                if (!gone[i] && (best < 0 || of[i] > of[best])) best = i;
            if (best < 0) break;
            assert_true(triple < end);
            assert_int_equal(triple[0], task / classes);
            assert_int_equal(triple[1], task % classes);
            assert_int_equal(triple[2], best);
            triple += 3;
            gone[best] = true;
            for (int64_t i = 0; i < boxes; i++)
                gone[i] = gone[i] || intersection_over_union(places + 4 * best, places + 4 * i, centered) >
                                         (double)limit;
        }
    }
    assert_ptr_equal(triple, end);
    base_arena_free(&arena);
}

static void test_boxes(void **state) {
    (void)state;
    test_random random = {SEED};
    const float least[] = {0.5f, -1, 9};
    for (int centered = 0; centered < 2; centered++) {
        for (int64_t most = 0; most < 60; most += 1 + most * 3) {
            check_boxes(1, 1, 40, centered, most, NULL, &random);
            check_boxes(2, 3, 25, centered, most, &least[0], &random);
            check_boxes(3, 40, 30, centered, most, &least[1], &random);
            check_boxes(1, 2, 9, centered, most, &least[2], &random);
        }
        check_boxes(2, 2, 30, centered, INT64_MAX, NULL, &random);
        check_boxes(1, 1, 30, centered, INT64_MIN, NULL, &random);
        check_boxes(1, 3, 0, centered, 5, NULL, &random);
        check_boxes(0, 3, 4, centered, 5, &least[0], &random);
        check_boxes(2, 0, 4, centered, 5, NULL, &random);
    }
}

/* ---- in programs --------------------------------------------------------------------------------------- */

/* How many are not zero is another number in each iteration; what is found is carried, and collected. */
static void test_loop(void **state) {
    (void)state;
    support_session on;
    support_session_open(
        &on,
        "module \"m\" {\n"
        "  constant %one: float32[] = {1.0}\n"
        "  constant %n: int64[] = {3}\n"
        "  constant %none: int64[1,0] = {}\n"
        "  graph main(%x: float32[5]) {\n"
        "    %l: float32[5], %p: int64[1,?], %c: int64[1,?], %s: int64[?] = Loop(%n, _, %x, "
        "%none, %none) {\n"
        "      graph body(%i: int64[], %k: bool[], %a: float32[5], %b: int64[1,?], %q: int64[1,?]) {\n"
        "        %t: float32[5] = Sub(%a, %one)\n"
        "        %r: float32[5] = Relu(%t)\n"
        "        %z: int64[1,?] = NonZero(%r)\n"
        "        %g: int64[1,?] = Concat(%q, %z) {axis = 1}\n"
        "        %m: int64[] = Size(%z)\n"
        "        yield %k, %r, %z, %g, %m\n"
        "      }\n"
        "    }\n"
        "    yield %p, %c, %s, %l\n"
        "  }\n"
        "}\n",
        1);
    const float x[5] = {3, 1, 2, 9, 2}, left[5] = {0, 0, 0, 6, 0};
    const int64_t last[] = {3}, all[] = {0, 2, 3, 4, 0, 3, 3}, sizes[] = {4, 2, 1};
    support_bind(&on, 0, x, sizeof x);
    for (int run = 0; run < 3; run++) {
        support_run(&on);
        assert_memory_equal(support_output(&on, 0, sizeof last), last, sizeof last);
        assert_memory_equal(support_output(&on, 1, sizeof all), all, sizeof all);
        assert_memory_equal(support_output(&on, 2, sizeof sizes), sizes, sizeof sizes);
        assert_memory_equal(support_output(&on, 3, sizeof left), left, sizeof left);
    }
    support_session_close(&on);
}

static void test_branches(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"m\" {\n"
                         "  graph main(%go: bool[], %x: int32[6], %c: bool[4]) {\n"
                         "    %y: int32[?] = If(%go) {\n"
                         "      graph then() {\n"
                         "        %u: int32[?], _, _, _ = Unique(%x)\n"
                         "        yield %u\n"
                         "      }\n"
                         "      graph else() {\n"
                         "        %v: int32[?] = Compress(%x, %c)\n"
                         "        yield %v\n"
                         "      }\n"
                         "    }\n"
                         "    yield %y\n"
                         "  }\n"
                         "}\n",
                         1);
    const int32_t x[6] = {5, -2, 5, 7, -2, 5}, once[] = {-2, 5, 7}, some[] = {5, 7};
    const bool conditions[4] = {true, false, false, true};
    support_bind(&on, 1, x, sizeof x);
    support_bind(&on, 2, conditions, sizeof conditions);
    for (int run = 0; run < 4; run++) {
        bool go = run % 2;
        support_bind(&on, 0, &go, sizeof go);
        support_run(&on);
        if (go) assert_memory_equal(support_output(&on, 0, sizeof once), once, sizeof once);
        else assert_memory_equal(support_output(&on, 0, sizeof some), some, sizeof some);
    }
    ouro_error error;
    size_t before = allocations_count();
    for (int run = 0; run < 2; run++) {
        bool go = run % 2;
        support_bind(&on, 0, &go, sizeof go);
        assert_int_equal(ouro_session_run(on.session, &error), OURO_OK);
    }
    if (allocations_are_counted()) assert_int_equal(allocations_count() - before, 0);
    support_session_close(&on);
}

/* Of four outputs any may be wanted alone. */
static void test_some_outputs(void **state) {
    (void)state;
    const int64_t expected[4][6] = {{2, 5, 7}, {1, 0, 3}, {1, 0, 1, 2, 0, 1}, {2, 3, 1}};
    const int64_t x[6] = {5, 2, 5, 7, 2, 5};
    static const char *const outputs[4] = {"%y: int64[?]", "%u: int64[?], %y: int64[?]",
                                           "%u: int64[?], _, %y: int64[6]",
                                           "%u: int64[?], _, _, %y: int64[?]"};
    for (int k = 0; k < 4; k++) {
        support_session on;
        char text[256];
        snprintf(text, sizeof text,
                 "module \"m\" { graph main(%%x: int64[6]) { %s = Unique(%%x) yield %%y } }", outputs[k]);
        support_session_open(&on, text, 1);
        support_bind(&on, 0, x, sizeof x);
        support_run(&on);
        size_t bytes = k == 2 ? 48 : 24;
        assert_memory_equal(support_output(&on, 0, bytes), expected[k], bytes);
        support_session_close(&on);
    }
}

/* What has a size lies where the plan says, though its inputs are measured; constants are folded. */
static void test_plan(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"m\" {\n"
                         "  constant %w: float32[2,2] = {0, 3, 0, 4}\n"
                         "  graph main(%x: float32[4]) {\n"
                         "    %r: float32[4] = Relu(%x)\n"
                         "    %z: int64[1,?] = NonZero(%r)\n"
                         "    %s: int64[1,1] = ReduceSum(%z)\n"
                         "    %t: int64[1,1] = Neg(%s)\n"
                         "    %k: int64[2,?] = NonZero(%w)\n"
                         "    %y: int64[2,?] = Add(%t, %k)\n"
                         "    yield %y\n"
                         "  }\n"
                         "}\n",
                         1);
    const plan *of = rt_plan_of(on.plan);
    int planned = 0, measured = 0;
    for (uint64_t i = 0; i < of->header->tensors.count; i++) {
        planned += of->tensors[i].address.space == MEMORY_ARENA;
        measured += of->tensors[i].address.space == MEMORY_DYNAMIC;
    }
    assert_int_equal(measured, 1);
    assert_int_equal(planned, 3); /* r, s, t */
    assert_int_equal(of->header->nodes.count, 5);
    const float x[4] = {0, 3, -1, 1};
    const int64_t y[4] = {-4, -3, -3, -3};
    support_bind(&on, 0, x, sizeof x);
    support_run(&on);
    assert_memory_equal(support_output(&on, 0, sizeof y), y, sizeof y);
    support_session_close(&on);
}

/* Which module, on which bool vector of three, fails with which words. */
static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"graph main(%c: bool[3]) { %x: float32[2] = Cast(%d) {to = 1} %y: float32[?] = Compress(%x, %c) "
         "yield %y }",
         "element 2 of the condition is true"},
        {"graph main(%c: bool[3]) { %h: float32[3] = Cast(%c) {to = 1} %l: float32[1] = ReduceSum(%h) "
         "%y: int64[?,3] = NonMaxSuppression(%b, %s, %n, %l) yield %y }",
         "iou_threshold is 3"},
    };
    const bool all[3] = {true, true, true};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        support_session on;
        char text[1024];
        ouro_error error = {0};
        snprintf(text, sizeof text,
                 "module \"m\" { constant %%d: int32[2] = {1, 2} constant %%b: float32[1,1,4] = {0, 0, 1, 1} "
                 "constant %%s: float32[1,1,1] = {1} constant %%n: int64[] = {1} %s }",
                 cases[k].text);
        support_session_open(&on, text, 1);
        support_bind(&on, 0, all, sizeof all);
        if (ouro_session_run(on.session, &error) == OURO_OK) fail_msg("%s: taken", cases[k].text);
        if (!strstr(error.message, cases[k].words)) fail_msg("%s", error.message);
        support_session_close(&on);
    }
}

/* Where the condition is a constant, the size is known after all, and planned. */
static void test_constant_condition(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"m\" { constant %c: bool[3] = {true, false, true}\n"
                         "  graph main(%x: int64[2,4]) {\n"
                         "    %d: int64[2,?] = Compress(%x, %c) {axis = -1}\n"
                         "    %y: int64[2,?] = Neg(%d)\n"
                         "    yield %y\n"
                         "  }\n"
                         "}\n",
                         1);
    const plan *of = rt_plan_of(on.plan);
    for (uint64_t i = 0; i < of->header->tensors.count; i++)
        assert_int_not_equal(of->tensors[i].address.space, MEMORY_DYNAMIC);
    const int64_t x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[4] = {-1, -3, -5, -7};
    support_bind(&on, 0, x, sizeof x);
    support_run(&on);
    assert_memory_equal(support_output(&on, 0, sizeof y), y, sizeof y);
    support_session_close(&on);
}

int main(void) {
    printf("seed %llu\n", (unsigned long long)SEED);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_many_numbers),
        cmocka_unit_test(test_special_numbers),
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_some_outputs),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_constant_condition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

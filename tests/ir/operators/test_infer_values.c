/* SPDX-License-Identifier: Apache-2.0 */
/* test_infer_values.c: what shape inference knows while dimensions are symbols: values of small integer
 * tensors are followed through the operators that compute shapes, and what is wrong is said so that a user
 * can act on it. */
#include "tests/support/operators.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Symbols that the tests begin with, and those made by computing. */
enum { BATCH = -1, WIDTH = -2, HEIGHT = -3, FIRST_COMPUTED = -100 };

typedef struct computation {
    char operation;
    int64_t a, b;
} computation;

typedef struct fixture {
    base_arena arena;
    base_report report;
    computation made[32];
    int count;
} fixture;

/* Equal computations give equal symbols. */
static int64_t compute(void *user, char operation, int64_t a, int64_t b) {
    fixture *f = user;
    for (int i = 0; i < f->count; i++) {
        if (f->made[i].operation == operation && f->made[i].a == a && f->made[i].b == b)
            return FIRST_COMPUTED - i;
    }
    assert_true(f->count < 32);
    f->made[f->count] = (computation){operation, a, b};
    return FIRST_COMPUTED - f->count++;
}

static int setup(void **state) {
    static fixture f;
    memset(&f, 0, sizeof f);
    base_arena_init(&f.arena, NULL);
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    base_arena_free(&((fixture *)*state)->arena);
    return 0;
}

static op_tensor value(op_dtype dtype, int32_t rank, ...) {
    op_tensor tensor = {.type = {.dtype = dtype, .shape = {.rank = rank}}};
    va_list dims;
    va_start(dims, rank);
    for (int32_t i = 0; i < rank; i++) tensor.type.shape.dims[i] = va_arg(dims, int);
    va_end(dims);
    return tensor;
}

/* Applies an operator to up to 3 inputs, with at most one integer attribute; the result's values stay known.
 */
static base_status infer(fixture *f, op_code code, const char *attribute, int64_t number, op_tensor *output,
                         int count, const op_tensor *a, const op_tensor *b, const op_tensor *c) {
    op_tensor inputs[3] = {[0] = *a};
    if (b) inputs[1] = *b;
    if (c) inputs[2] = *c;
    op_attribute item = {.name = attribute, .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = number};
    op_call call = {.code = code,
                    .attributes = {attribute ? 1 : 0, &item},
                    .input_count = (uint32_t)count,
                    .output_count = 1,
                    .inputs = inputs,
                    .outputs = output,
                    .arena = &f->arena,
                    .dim_compute = compute,
                    .user = f};
    *output = (op_tensor){0};
    base_report_clear(&f->report);
    return op_infer(&call, &f->report);
}

static void assert_shape(const op_tensor *tensor, int32_t rank, ...) {
    assert_int_equal(tensor->type.shape.rank, rank);
    va_list dims;
    va_start(dims, rank);
    for (int32_t i = 0; i < rank; i++) assert_int_equal(tensor->type.shape.dims[i], va_arg(dims, int64_t));
    va_end(dims);
}

#define DIM(number) ((int64_t)(number))

/* Reshape(x, Concat(Shape(x)[0], -1)): the -1 is what the others leave. */
static void test_flatten_by_reshape(void **state) {
    fixture *f = *state;
    op_tensor x = value(OP_FLOAT, 4, BATCH, 3, 8, 8), shape, first, joined, result;
    int64_t zero = 0, minus = -1;
    op_tensor index = test_vector(&f->arena, &zero, 1), rest = test_vector(&f->arena, &minus, 1);
    assert_int_equal(infer(f, OP_SHAPE, NULL, 0, &shape, 1, &x, NULL, NULL), BASE_OK);
    assert_int_equal(infer(f, OP_GATHER, NULL, 0, &first, 2, &shape, &index, NULL), BASE_OK);
    assert_int_equal(first.symbolic[0], BATCH);
    assert_int_equal(infer(f, OP_CONCAT, "axis", 0, &joined, 2, &first, &rest, NULL), BASE_OK);
    assert_int_equal(infer(f, OP_RESHAPE, NULL, 0, &result, 2, &x, &joined, NULL), BASE_OK);
    assert_shape(&result, 2, DIM(BATCH), DIM(192));
}

/* The other way round: -1 in front stands for the symbol. */
static void test_symbol_by_division(void **state) {
    fixture *f = *state;
    op_tensor x = value(OP_FLOAT, 3, BATCH, WIDTH, 64), result;
    const int64_t spelled[] = {0, -1, 8, 8}, back[] = {-1, 64};
    op_tensor heads = test_vector(&f->arena, spelled, 4), rows = test_vector(&f->arena, back, 2);
    assert_int_equal(infer(f, OP_RESHAPE, NULL, 0, &result, 2, &x, &heads, NULL), BASE_OK);
    assert_shape(&result, 4, DIM(BATCH), DIM(WIDTH), DIM(8), DIM(8));
    assert_int_equal(infer(f, OP_RESHAPE, NULL, 0, &result, 2, &x, &rows, NULL), BASE_OK);
    assert_shape(&result, 2, compute(f, '*', BATCH, WIDTH), DIM(64));
}

/* Arithmetic on shapes makes the same symbol each time, through casts, slices and squeezes. */
static void test_arithmetic(void **state) {
    fixture *f = *state;
    op_tensor x = value(OP_FLOAT, 3, BATCH, WIDTH, HEIGHT), shape, cast, part, scalar, sum, size, last;
    const int64_t numbers[] = {1, 2, 3};
    op_tensor one = test_vector(&f->arena, numbers, 1), two = test_vector(&f->arena, numbers + 1, 1);
    assert_int_equal(infer(f, OP_SHAPE, NULL, 0, &shape, 1, &x, NULL, NULL), BASE_OK);
    assert_int_equal(infer(f, OP_CAST, "to", OP_INT32, &cast, 1, &shape, NULL, NULL), BASE_OK);
    assert_int_equal(infer(f, OP_SLICE, NULL, 0, &part, 3, &cast, &one, &two), BASE_OK);
    assert_shape(&part, 1, DIM(1));
    assert_int_equal(infer(f, OP_SQUEEZE, NULL, 0, &scalar, 1, &part, NULL, NULL), BASE_OK);
    assert_shape(&scalar, 0);
    assert_int_equal(scalar.symbolic[0], WIDTH);
    assert_int_equal(infer(f, OP_MUL, NULL, 0, &sum, 2, &shape, &two, NULL), BASE_OK);
    assert_shape(&sum, 1, DIM(3));
    assert_int_equal(sum.symbolic[1], compute(f, '*', WIDTH, 2));
    assert_int_equal(infer(f, OP_SUB, NULL, 0, &sum, 2, &shape, &shape, NULL), BASE_OK);
    assert_int_equal(sum.symbolic[0], 0);
    assert_int_equal(infer(f, OP_REDUCE_PROD, "keepdims", 0, &last, 1, &shape, NULL, NULL), BASE_OK);
    assert_int_equal(infer(f, OP_SIZE, NULL, 0, &size, 1, &x, NULL, NULL), BASE_OK);
    assert_int_equal(size.symbolic[0], last.symbolic[0]);
    assert_int_equal(infer(f, OP_EXPAND, NULL, 0, &last, 2, &one, &shape, NULL), BASE_OK);
    assert_shape(&last, 3, DIM(BATCH), DIM(WIDTH), DIM(HEIGHT));
    assert_int_equal(infer(f, OP_CONSTANT_OF_SHAPE, NULL, 0, &last, 1, &shape, NULL, NULL), BASE_OK);
    assert_shape(&last, 3, DIM(BATCH), DIM(WIDTH), DIM(HEIGHT));
}

static void test_dimensions(void **state) {
    fixture *f = *state;
    op_tensor x = value(OP_FLOAT, 2, BATCH, 10), y = value(OP_FLOAT, 2, BATCH, 5), result;
    const int64_t zeros[] = {0}, ends[] = {-1};
    op_tensor start = test_vector(&f->arena, zeros, 1), end = test_vector(&f->arena, ends, 1);
    assert_int_equal(infer(f, OP_CONCAT, "axis", -1, &result, 2, &x, &y, NULL), BASE_OK);
    assert_shape(&result, 2, DIM(BATCH), DIM(15));
    assert_int_equal(infer(f, OP_CONCAT, "axis", 0, &result, 2, &x, &x, NULL), BASE_OK);
    assert_shape(&result, 2, compute(f, '+', BATCH, BATCH), DIM(10));
    assert_int_equal(infer(f, OP_SLICE, NULL, 0, &result, 3, &x, &start, &end), BASE_OK);
    assert_shape(&result, 2, compute(f, '-', BATCH, 1), DIM(10));
    /* What is written for "to the end". */
    const int64_t far[] = {1000000000, INT32_MAX, INT64_MAX, 999999999};
    for (int i = 0; i < 4; i++) {
        end = test_vector(&f->arena, far + i, 1);
        assert_int_equal(infer(f, OP_SLICE, NULL, 0, &result, 3, &x, &start, &end), BASE_OK);
        assert_shape(&result, 2, i < 3 ? BATCH : OP_DIM_UNKNOWN, DIM(10));
    }
    assert_int_equal(infer(f, OP_FLATTEN, "axis", 0, &result, 1, &x, NULL, NULL), BASE_OK);
    assert_shape(&result, 2, DIM(1), compute(f, '*', BATCH, 10));
    assert_int_equal(infer(f, OP_ADD, NULL, 0, &result, 2, &x, &x, NULL), BASE_OK);
    assert_shape(&result, 2, DIM(BATCH), DIM(10));
    op_tensor unknown = {.type = {.dtype = OP_FLOAT, .shape = {.rank = -1}}};
    assert_int_equal(infer(f, OP_ADD, NULL, 0, &result, 2, &x, &unknown, NULL), BASE_OK);
    assert_int_equal(result.type.shape.rank, -1);
    assert_int_equal(infer(f, OP_SHAPE, NULL, 0, &result, 1, &unknown, NULL, NULL), BASE_OK);
    assert_shape(&result, 1, OP_DIM_UNKNOWN);
}

/* The messages name the input and what would be accepted. */
static void test_messages(void **state) {
    fixture *f = *state;
    const int64_t numbers[] = {7, 3}, twice[] = {-1, -1};
    op_tensor x = value(OP_FLOAT, 2, 2, 3), half = value(OP_FLOAT16, 2, 2, 3), flag = value(OP_BOOL, 1, 3);
    op_tensor other = value(OP_FLOAT, 1, 4), shape = test_vector(&f->arena, numbers, 2), result;
    op_tensor free = test_vector(&f->arena, twice, 2);
    const struct {
        op_code code;
        const op_tensor *a, *b;
        const char *attribute;
        int64_t number;
        const char *text;
    } cases[] = {
        {OP_ADD, &x, &half, NULL, 0, "input 1 is float16, expected float32"},
        {OP_ADD, &flag, &flag, NULL, 0, "input 0 is bool, expected "},
        {OP_ADD, &x, &other, NULL, 0, "shapes [2,3] and [4] of the inputs cannot be broadcast"},
        {OP_RESHAPE, &x, &shape, NULL, 0, "[2,3] with 6 elements cannot be reshaped to [7,3]"},
        {OP_RESHAPE, &x, &free, NULL, 0, "more than one -1"},
        {OP_RESHAPE, &x, &x, NULL, 0, "input 1 is float32, expected int64"},
        {OP_CONCAT, &x, &other, "axis", 0, "input 1 has rank 1, expected 2"},
        {OP_CONCAT, &x, &x, "axis", 2, "attribute \"axis\" is 2, expected a number in [-2, 2)"},
        {OP_GATHER, &x, &flag, NULL, 0, "input 1 is bool, expected int32 or int64"},
        {OP_REDUCE_SUM, &x, &shape, NULL, 0, "axis 7 is outside of [-2, 2)"},
        {OP_TILE, &x, &free, NULL, 0, "expected at least 0"},
        {OP_EXPAND, &x, &free, NULL, 0, "spells the dimension -1, expected at least 0"},
        {OP_PAD, &x, &shape, NULL, 0, "input 1 has 2 elements, expected 4, twice the rank of input 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(infer(f, cases[i].code, cases[i].attribute, cases[i].number, &result, 2, cases[i].a,
                               cases[i].b, NULL),
                         BASE_INVALID);
        if (!strstr(f->report.text, cases[i].text))
            fail_msg("\"%s\" does not say \"%s\"", f->report.text, cases[i].text);
    }
}

/* Images are resized by whole numbers and by powers of two, and upsampled by transposed convolutions: extents stay symbols. */
static void test_resampling(void **state) {
    fixture *f = *state;
    op_tensor x = value(OP_FLOAT, 4, BATCH, 16, HEIGHT, WIDTH), y, none = {0};
    float scales[] = {1, 1, 3, 0.25f};
    op_tensor inputs[] = {x, none, value(OP_FLOAT, 1, 4)};
    inputs[2].data = scales;
    inputs[2].bytes = sizeof scales;
    assert_int_equal(infer(f, OP_RESIZE, NULL, 0, &y, 3, &inputs[0], &inputs[1], &inputs[2]), BASE_OK);
    assert_shape(&y, 4, DIM(BATCH), DIM(16), compute(f, '*', HEIGHT, 3), compute(f, '/', WIDTH, 4));
    scales[2] = 1.5f; /* how that is rounded depends on the extent */
    scales[3] = 0.3f;
    assert_int_equal(infer(f, OP_RESIZE, NULL, 0, &y, 3, &inputs[0], &inputs[1], &inputs[2]), BASE_OK);
    assert_shape(&y, 4, DIM(BATCH), DIM(16), OP_DIM_UNKNOWN, OP_DIM_UNKNOWN);

    const op_tensor weights = value(OP_FLOAT, 4, 16, 8, 3, 2);
    const int64_t strides[] = {2, 2}, pads[] = {1, 0, 1, 0}, more[] = {1, 0};
    const op_attribute items[] = {
        {.name = "output_padding", .kind = OP_ATTRIBUTE_INTS, .count = 2, .as.integers = more},
        {.name = "pads", .kind = OP_ATTRIBUTE_INTS, .count = 4, .as.integers = pads},
        {.name = "strides", .kind = OP_ATTRIBUTE_INTS, .count = 2, .as.integers = strides}};
    const op_tensor images[] = {x, weights};
    op_call call = {.code = OP_CONV_TRANSPOSE,
                    .attributes = {3, items},
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = images,
                    .outputs = &y,
                    .arena = &f->arena,
                    .dim_compute = compute,
                    .user = f};
    y = (op_tensor){0};
    assert_int_equal(op_infer(&call, &f->report), BASE_OK);
    /* 2 (H - 1) + 3 + 1 - 2 is 2 H; 2 (W - 1) + 2 is 2 W. */
    assert_shape(&y, 4, DIM(BATCH), DIM(8), compute(f, '*', HEIGHT, 2), compute(f, '*', WIDTH, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_resampling, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flatten_by_reshape, setup, teardown),
        cmocka_unit_test_setup_teardown(test_symbol_by_division, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arithmetic, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dimensions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_messages, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

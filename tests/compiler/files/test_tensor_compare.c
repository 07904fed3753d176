/* SPDX-License-Identifier: Apache-2.0 */
/* test_tensor_compare.c: what counts as equal, and what is said of what does not. */
#include "compiler/files/tensor_compare.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const tensor_tolerance usual = {.relative = 1e-3, .absolute = 1e-5};

static op_tensor vector(op_dtype dtype, void *data, int64_t count) {
    return (op_tensor){.type = {.dtype = dtype, .shape = {.rank = 1, .dims = {count}}},
                       .bytes = (size_t)count * op_dtype_bytes(dtype),
                       .data = data};
}

static bool agree(op_dtype dtype, void *actual, void *expected, int64_t count, char *reason) {
    op_tensor a = vector(dtype, actual, count), b = vector(dtype, expected, count);
    return file_tensor_compare(&a, &b, usual, reason, 512);
}

static void test_tolerance_is_absolute_plus_relative(void **state) {
    (void)state;
    char reason[512];
    float expected[] = {1000, 0, -1000}, near[] = {1001, 1e-5f, -999.0f}, far[] = {1000, 2e-5f, -1000};
    assert_true(agree(OP_FLOAT, near, expected, 3, reason));
    assert_false(agree(OP_FLOAT, far, expected, 3, reason));
    assert_string_equal(reason, "differs at [1]: 2e-05, expected 0 (1 of 3 differ, by at most 2e-05)");
}

static void test_nan_and_infinity(void **state) {
    (void)state;
    char reason[512];
    float nan_value[] = {NAN}, infinity[] = {INFINITY}, minus[] = {-INFINITY}, largest[] = {3e38f};
    assert_true(agree(OP_FLOAT, nan_value, nan_value, 1, reason));
    assert_true(agree(OP_FLOAT, infinity, infinity, 1, reason));
    assert_false(agree(OP_FLOAT, nan_value, infinity, 1, reason));
    assert_false(agree(OP_FLOAT, infinity, nan_value, 1, reason));
    assert_false(agree(OP_FLOAT, infinity, minus, 1, reason));
    assert_false(agree(OP_FLOAT, largest, infinity, 1, reason));
    assert_false(agree(OP_FLOAT, infinity, largest, 1, reason));
}

static void test_integers_booleans_and_texts_are_exact(void **state) {
    (void)state;
    char reason[512];
    int64_t a[] = {INT64_MAX}, b[] = {INT64_MAX - 1};
    assert_true(agree(OP_INT64, a, a, 1, reason));
    assert_false(agree(OP_INT64, a, b, 1, reason));
    assert_string_equal(reason,
                        "differs at [0]: 9223372036854775807, expected 9223372036854775806 (1 of 1 differ)");
    uint8_t yes[] = {1}, no[] = {0};
    assert_false(agree(OP_BOOL, yes, no, 1, reason));
    assert_string_equal(reason, "differs at [0]: true, expected false (1 of 1 differ)");
    op_string first[] = {{"a\"\n", 3}}, second[] = {{"a", 1}};
    assert_true(agree(OP_STRING, first, first, 1, reason));
    assert_false(agree(OP_STRING, first, second, 1, reason));
    assert_string_equal(reason, "differs at [0]: \"a\\\"\\x0a\", expected \"a\" (1 of 1 differ)");
}

static void test_types_and_shapes_must_agree(void **state) {
    (void)state;
    char reason[512];
    float data[] = {1, 2, 3, 4};
    op_tensor flat = vector(OP_FLOAT, data, 4), square = flat, other = vector(OP_INT32, data, 4);
    square.type.shape = (op_shape){.rank = 2, .dims = {2, 2}};
    assert_false(file_tensor_compare(&flat, &square, usual, reason, sizeof reason));
    assert_string_equal(reason, "has shape [4], expected [2,2]");
    assert_false(file_tensor_compare(&flat, &other, usual, reason, sizeof reason));
    assert_string_equal(reason, "is float32, expected int32");
    float changed[] = {1, 2, 3, 5};
    op_tensor wrong = square;
    wrong.data = changed;
    assert_false(file_tensor_compare(&wrong, &square, usual, reason, sizeof reason));
    assert_string_equal(reason, "differs at [1,1]: 5, expected 4 (1 of 4 differ, by at most 1)");
}

static void test_small_floats(void **state) {
    (void)state;
    char reason[512];
    uint16_t one[] = {0x3C00}, near[] = {0x3C01}, two[] = {0x4000}, tiny[] = {0x0001}, infinity[] = {0x7C00};
    assert_true(agree(OP_FLOAT16, near, one, 1, reason)); /* 1 + 2^-10 */
    assert_false(agree(OP_FLOAT16, two, one, 1, reason));
    assert_false(agree(OP_FLOAT16, infinity, two, 1, reason));
    op_tensor small = vector(OP_FLOAT16, tiny, 1), brain = vector(OP_BFLOAT16, two, 1);
    assert_true(file_tensor_number(&small, 0) == 0x1p-24);
    assert_true(file_tensor_number(&brain, 0) == 2);
    uint16_t brain_one[] = {0x3F80}, brain_next[] = {0x3F81}, brain_after[] = {0x3F82};
    assert_true(agree(OP_BFLOAT16, brain_next, brain_one, 1, reason)); /* one unit in the last place */
    assert_false(agree(OP_BFLOAT16, brain_after, brain_one, 1, reason));
    float complex[] = {1, 2}, turned[] = {1, -2};
    assert_true(agree(OP_COMPLEX64, complex, complex, 1, reason));
    assert_false(agree(OP_COMPLEX64, turned, complex, 1, reason));
    assert_string_equal(reason, "differs at [0]: 1-2i, expected 1+2i (1 of 2 differ, by at most 4)");
}

static void test_empty_tensors_agree(void **state) {
    (void)state;
    char reason[512];
    assert_true(agree(OP_FLOAT, NULL, NULL, 0, reason));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tolerance_is_absolute_plus_relative),
        cmocka_unit_test(test_nan_and_infinity),
        cmocka_unit_test(test_integers_booleans_and_texts_are_exact),
        cmocka_unit_test(test_types_and_shapes_must_agree),
        cmocka_unit_test(test_small_floats),
        cmocka_unit_test(test_empty_tensors_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_small.c: numbers of 8, 4 and 2 bits: every code there and back, and the nearest code of a number found by trying all. */
#include "ir/operators/small.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static const op_dtype types[] = {
    OP_FLOAT8E4M3FN, OP_FLOAT8E4M3FNUZ, OP_FLOAT8E5M2, OP_FLOAT8E5M2FNUZ, OP_UINT4,
    OP_INT4,         OP_FLOAT4E2M1,     OP_FLOAT8E8M0, OP_UINT2,          OP_INT2};
enum { TYPES = sizeof types / sizeof *types };

static void codes_come_back(void **state) {
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        for (int code = 0; code < 1 << op_dtype_bits(types[t]); code++) {
            const float value = op_small_value(types[t], (uint8_t)code);
            const uint8_t again = op_small_code(types[t], (double)value, false, OP_ROUND_NEAREST);
            /* Several codes may be NaN; power 0 of e8m0 is no zero but 2^-127. */
            if (isnan(value)) assert_true(isnan(op_small_value(types[t], again)));
            else assert_int_equal(again, code);
        }
    }
}

/* From the tables of the formats. */
static void values_are_those_of_the_formats(void **state) {
    (void)state;
    static const struct {
        op_dtype dtype;
        uint8_t code;
        float value;
    } known[] = {{OP_FLOAT8E4M3FN, 0x7e, 448},
                 {OP_FLOAT8E4M3FN, 0x01, 0x1p-9f},
                 {OP_FLOAT8E4M3FN, 0x08, 0x1p-6f},
                 {OP_FLOAT8E4M3FNUZ, 0x7f, 240},
                 {OP_FLOAT8E4M3FNUZ, 0x01, 0x1p-10f},
                 {OP_FLOAT8E5M2, 0x7b, 57344},
                 {OP_FLOAT8E5M2, 0xfc, -INFINITY},
                 {OP_FLOAT8E5M2, 0x01, 0x1p-16f},
                 {OP_FLOAT8E5M2FNUZ, 0xff, -57344},
                 {OP_FLOAT8E5M2FNUZ, 0x01, 0x1p-17f},
                 {OP_FLOAT4E2M1, 7, 6},
                 {OP_FLOAT4E2M1, 1, 0.5f},
                 {OP_FLOAT4E2M1, 13, -3},
                 {OP_FLOAT8E8M0, 127, 1},
                 {OP_FLOAT8E8M0, 254, 0x1p127f},
                 {OP_INT4, 8, -8},
                 {OP_INT4, 7, 7},
                 {OP_UINT4, 15, 15},
                 {OP_INT2, 2, -2},
                 {OP_UINT2, 3, 3}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const float value = op_small_value(known[i].dtype, known[i].code);
        assert_memory_equal(&value, &known[i].value, sizeof value);
    }
    assert_true(isnan(op_small_value(OP_FLOAT8E4M3FN, 0xff)) &&
                isnan(op_small_value(OP_FLOAT8E4M3FNUZ, 0x80)));
    assert_true(isnan(op_small_value(OP_FLOAT8E5M2, 0x7d)) && isnan(op_small_value(OP_FLOAT8E8M0, 0xff)));
}

/* No other code is nearer, and of two as near the one with the even code is taken. */
static void the_nearest_code_is_taken(void **state) {
    (void)state;
    static const op_dtype reals[] = {OP_FLOAT8E4M3FN, OP_FLOAT8E4M3FNUZ, OP_FLOAT8E5M2, OP_FLOAT8E5M2FNUZ,
                                     OP_FLOAT4E2M1};
    uint64_t seed = 20260101;
    for (size_t t = 0; t < 5; t++) {
        for (int round = 0; round < 4000; round++) {
            const uint64_t word = base_random(&seed);
            const double scale = ldexp(1, (int)(word % 24) - 14),
                         value = ((double)(word >> 40) * 0x1p-23 - 1) * scale;
            const uint8_t code = op_small_code(reals[t], value, true, OP_ROUND_NEAREST);
            const double distance = fabs((double)op_small_value(reals[t], code) - value);
            for (int other = 0; other < 1 << op_dtype_bits(reals[t]); other++) {
                const double real = (double)op_small_value(reals[t], (uint8_t)other);
                if (isnan(real) || isinf(real)) continue;
                if (fabs(real - value) < distance) fail_msg("%s of %.17g", op_dtype_name(reals[t]), value);
            }
        }
    }
    assert_int_equal(op_small_code(OP_FLOAT8E4M3FN, 1.0625, true, OP_ROUND_NEAREST),
                     0x38); /* a tie: the even one */
    assert_int_equal(op_small_code(OP_FLOAT8E4M3FN, 1.1875, true, OP_ROUND_NEAREST), 0x3a);
}

static void what_is_out_of_range(void **state) {
    (void)state;
    assert_int_equal(op_small_code(OP_FLOAT8E4M3FN, 1000, true, OP_ROUND_UP), 0x7e);
    assert_int_equal(op_small_code(OP_FLOAT8E4M3FN, -1000, false, OP_ROUND_UP), 0xff);
    assert_int_equal(op_small_code(OP_FLOAT8E5M2, INFINITY, true, OP_ROUND_UP), 0x7b);
    assert_int_equal(op_small_code(OP_FLOAT8E5M2, -INFINITY, false, OP_ROUND_UP), 0xfc);
    assert_int_equal(op_small_code(OP_FLOAT8E4M3FNUZ, 1000, false, OP_ROUND_UP), 0x80);
    assert_int_equal(op_small_code(OP_FLOAT8E4M3FNUZ, -0.0, true, OP_ROUND_UP), 0);
    assert_int_equal(op_small_code(OP_FLOAT8E5M2, -0.0, true, OP_ROUND_UP), 0x80);
    assert_int_equal(op_small_code(OP_FLOAT4E2M1, -INFINITY, false, OP_ROUND_UP), 0xf);
    assert_int_equal(op_small_code(OP_INT4, 100, true, OP_ROUND_UP), 7);
    assert_int_equal(op_small_code(OP_INT4, -100, true, OP_ROUND_UP), 8);
    assert_int_equal(op_small_code(OP_UINT2, -1, true, OP_ROUND_UP), 0);
    assert_int_equal(op_small_code(OP_INT2, NAN, true, OP_ROUND_UP), 0);
}

static void powers_are_rounded_as_asked(void **state) {
    (void)state;
    assert_int_equal(op_small_code(OP_FLOAT8E8M0, 1.25, true, OP_ROUND_UP), 128);
    assert_int_equal(op_small_code(OP_FLOAT8E8M0, 1.75, true, OP_ROUND_DOWN), 127);
    assert_int_equal(op_small_code(OP_FLOAT8E8M0, 1.5, true, OP_ROUND_NEAREST), 128);
    assert_int_equal(op_small_code(OP_FLOAT8E8M0, 1.4, true, OP_ROUND_NEAREST), 127);
    assert_int_equal(op_small_code(OP_FLOAT8E8M0, 0, true, OP_ROUND_UP), 0);
    assert_int_equal(op_small_code(OP_FLOAT8E8M0, 0, false, OP_ROUND_NEAREST), 0xff);
    assert_int_equal(op_small_code(OP_FLOAT8E8M0, INFINITY, true, OP_ROUND_UP), 0xfe);
    assert_int_equal(op_small_code(OP_FLOAT8E8M0, 0x1p200, false, OP_ROUND_UP), 0xff);
    assert_int_equal(op_small_code(OP_FLOAT8E8M0, 0x1p-140, true, OP_ROUND_DOWN), 0);
}

/* The first element lies in the lowest bits; its neighbours in the byte stay. */
static void packed_as_onnx_packs(void **state) {
    (void)state;
    uint8_t bytes[2] = {0};
    for (int64_t i = 0; i < 3; i++) op_small_store(OP_UINT4, bytes, i, (uint8_t)(i + 1));
    assert_int_equal(bytes[0], 0x21);
    assert_int_equal(bytes[1], 0x03);
    op_small_store(OP_UINT4, bytes, 0, 0xf);
    assert_int_equal(bytes[0], 0x2f);
    memset(bytes, 0xff, sizeof bytes);
    op_small_store(OP_INT2, bytes, 5, 1);
    assert_int_equal(bytes[1], 0xf7);
    for (int64_t i = 0; i < 8; i++) assert_int_equal(op_small_load(OP_INT2, bytes, i), i == 5 ? 1 : 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(codes_come_back),
                                       cmocka_unit_test(values_are_those_of_the_formats),
                                       cmocka_unit_test(the_nearest_code_is_taken),
                                       cmocka_unit_test(what_is_out_of_range),
                                       cmocka_unit_test(powers_are_rounded_as_asked),
                                       cmocka_unit_test(packed_as_onnx_packs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

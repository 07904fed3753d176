/* SPDX-License-Identifier: Apache-2.0 */
/* test_halves.c: blocks of float16 and bfloat16 become floats, and floats become these, bit by bit as single numbers do: all 65,536 of either
 * type, and floats of every exponent and sign, with NaN, infinities, ties and what becomes zero among them; in blocks of any length, and in rows
 * that lie apart. */
#include "runtime/kernels/portable/half_rows.h"
#include "runtime/kernels/portable/kernels.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ALL = 1 << 16, LONGEST = 40 };

static const op_dtype dtypes[] = {OP_FLOAT16, OP_BFLOAT16};

static float wide_of(op_dtype dtype, uint16_t half) {
    return dtype == OP_FLOAT16 ? base_float_from_half(half) : base_float_from_bfloat16(half);
}

static uint16_t half_of(op_dtype dtype, float wide) {
    return dtype == OP_FLOAT16 ? base_half_from_float(wide) : base_bfloat16_from_float(wide);
}

static void halves_become_floats(void **state) {
    (void)state;
    static uint16_t halves[ALL];
    static float wide[ALL];
    for (int i = 0; i < ALL; i++) halves[i] = (uint16_t)i;
    for (int d = 0; d < 2; d++) {
        rt_half_load(dtypes[d], wide, halves, ALL);
        for (int i = 0; i < ALL; i++) {
            const float expected = wide_of(dtypes[d], (uint16_t)i);
            if (memcmp(&expected, &wide[i], sizeof expected) != 0)
                fail_msg("%#x of type %d", (unsigned)i, (int)dtypes[d]);
        }
    }
}

static void floats_become_halves(void **state) {
    (void)state;
    /* The lower halves of what floats consist of: around ties of both types. */
    static const uint32_t low[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x1fff,
                                   0x2000, 0x3000, 0x7fff, 0x8000, 0x8001, 0xffff};
    static float wide[ALL];
    static uint16_t halves[ALL];
    for (size_t l = 0; l < sizeof low / sizeof *low; l++) {
        for (uint32_t i = 0; i < ALL; i++) {
            const uint32_t bits = i << 16 | low[l];
            memcpy(&wide[i], &bits, sizeof bits);
        }
        for (int d = 0; d < 2; d++) {
            rt_half_store(dtypes[d], halves, wide, ALL);
            for (uint32_t i = 0; i < ALL; i++)
                if (halves[i] != half_of(dtypes[d], wide[i]))
                    fail_msg("%#x of type %d is %#x", (unsigned)(i << 16 | low[l]), (int)dtypes[d],
                             (unsigned)halves[i]);
        }
    }
}

static void blocks_have_any_length(void **state) {
    (void)state;
    for (int d = 0; d < 2; d++) {
        for (int length = 0; length <= LONGEST; length++) {
            uint16_t halves[LONGEST + 1], again[LONGEST + 1];
            float wide[LONGEST + 1];
            for (int i = 0; i <= length; i++)
                halves[i] = (uint16_t)(0x3c00 + 37 * i), again[i] = 0x1234, wide[i] = 77;
            rt_half_load(dtypes[d], wide, halves, length);
            assert_true(wide[length] == 77);
            rt_half_store(dtypes[d], again, wide, length);
            assert_int_equal(again[length], 0x1234);
            assert_memory_equal(again, halves, (size_t)length * sizeof *again);
        }
    }
}

/* Rows that lie apart, of any length. */
static void rows_lie_apart(void **state) {
    (void)state;
    enum { ROWS = 3, STEP = 37, WIDTH = 32 };
    for (int d = 0; d < 2; d++) {
        for (int width = 4; width <= WIDTH; width *= 2) {
            for (int count = 0; count <= width; count++) {
                uint16_t halves[ROWS * STEP], again[ROWS * STEP];
                float wide[ROWS * WIDTH + 1];
                for (int i = 0; i < ROWS * STEP; i++)
                    halves[i] = (uint16_t)(0x3c00 + 37 * i), again[i] = 0x1234;
                for (int i = 0; i <= ROWS * WIDTH; i++) wide[i] = 77;
                rt_half_rows_load(dtypes[d], halves, STEP, ROWS, count, width, wide);
                for (int i = 0; i < ROWS * width; i++) {
                    const int row = i / width, at = i % width;
                    assert_true(wide[i] == (at < count ? wide_of(dtypes[d], halves[row * STEP + at]) : 0));
                }
                assert_true(wide[ROWS * width] == 77);
                rt_half_rows_store(dtypes[d], wide, width, ROWS, count, again, STEP);
                for (int i = 0; i < ROWS * STEP; i++)
                    assert_int_equal(again[i], i % STEP < count ? halves[i] : 0x1234);
            }
        }
    }
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_become_floats), cmocka_unit_test(floats_become_halves),
        cmocka_unit_test(blocks_have_any_length), cmocka_unit_test(rows_lie_apart)};
    return cmocka_run_group_tests_name("halves", tests, NULL, NULL);
}

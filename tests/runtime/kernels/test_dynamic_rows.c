/* SPDX-License-Identifier: Apache-2.0 */
/* test_dynamic_rows.c: rows of codes times weights of bytes, against sums made one product at a time: to the bit, whatever the machine multiplies. */
#include "runtime/kernels/portable/dynamic_rows.h"
#include "runtime/kernels/portable/integer_product.h"
#include "tests/support/application.h"
#include "tests/support/operators.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 300 };

static int32_t byte_at(op_dtype dtype, const uint8_t *bytes, int64_t index) {
    return dtype == OP_INT8 ? (int8_t)bytes[index] : bytes[index];
}

static void random_bytes(uint8_t *bytes, int64_t count, uint64_t *seed) {
    for (int64_t i = 0; i < count; i++) bytes[i] = (uint8_t)random_next(seed);
}

static void products_of_codes(void **state) {
    (void)state;
    static uint8_t data[600 * 200], zeros[200];
    static _Alignas(64) uint8_t packed[600 * 208 + 4 * 208];
    static int16_t codes[9 * 600];
    static float scales[200], got[9 * 210], addend[200];
    static int32_t sums[200];
    uint64_t seed = 31;
    for (int round = 0; round < ROUNDS; round++) {
        const bool large = round % 10 == 0, add = round % 3 == 0;
        const int64_t depth = random_range(&seed, round == 1 ? 0 : 1, large ? 600 : 40),
                      columns = random_range(&seed, 1, 200), rows = random_range(&seed, 0, 9),
                      pitch = columns + random_range(&seed, 0, 10);
        rt_byte_weights w = {.dtype = round % 2 ? OP_INT8 : OP_UINT8,
                             .data = data,
                             .depth = depth,
                             .columns = columns,
                             .scales = scales,
                             .zeros = zeros,
                             .scales_each = round % 4 < 2,
                             .zeros_each = round % 8 < 4};
        random_bytes(data, depth * columns, &seed);
        random_bytes(zeros, columns, &seed);
        for (int64_t j = 0; j < columns; j++) scales[j] = random_float(&seed);
        const int64_t zero = round % 5 ? random_range(&seed, 0, 255) : round % 2 * 255;
        for (int64_t i = 0; i < rows * depth; i++) codes[i] = (int16_t)(random_range(&seed, 0, 255) - zero);
        for (int64_t i = 0; i < rows * pitch; i++) got[i] = (float)i;
        const float scale = random_float(&seed);
        /* To what is there, or one row for all. */
        const bool same = round % 6 == 3;
        const rt_dynamic_rows results = {got, pitch, !add ? NULL : same ? addend : got, same ? 0 : pitch};
        for (int64_t j = 0; j < columns; j++) addend[j] = (float)(3 * j);
        rt_dynamic_begin(&w, sums);
        for (int time = 0; time < 3; time++) {
            size_t bytes;
            if (time == 2 && rt_integer_packed_bytes(depth, columns, &bytes)) {
                assert_true(bytes <= sizeof packed);
                rt_integer_pack(w.dtype, data, depth, columns, packed);
                w.data = NULL;
                w.packed = packed;
                rt_dynamic_begin(&w, sums);
            }
            for (int64_t i = 0; i < rows * pitch; i++) got[i] = (float)i;
            rt_dynamic_multiply(&w, codes, scale, rows, &results, sums);
        }
        for (int64_t row = 0; row < rows; row++) {
            for (int64_t j = 0; j < pitch; j++) {
                int32_t sum = 0;
                for (int64_t k = 0; k < depth && j < columns; k++) {
                    const int32_t point = byte_at(w.dtype, zeros, w.zeros_each ? j : 0);
                    sum += codes[row * depth + k] * (byte_at(w.dtype, data, k * columns + j) - point);
                }
                const float value = scale * scales[w.scales_each && j < columns ? j : 0] * (float)sum,
                            was = (float)(row * pitch + j);
                const float more = same && j < columns ? addend[j] : was;
                const float want = j >= columns ? was : add ? more + value : value;
                if (got[row * pitch + j] != want)
                    fail_msg("round %d, row %d, column %d: %.9g, expected %.9g", round, (int)row, (int)j,
                             (double)got[row * pitch + j], (double)want);
            }
        }
    }
}

/* An LSTM with packed weights, W or R or both, gives the same bits as one with weights as they are. */
static void packed_weights_of_an_lstm(void **state) {
    (void)state;
    test_random random = {37};
    for (int round = 0; round < 60; round++) {
        const int steps = (int)test_random_below(&random, 6), batch = 1 + (int)test_random_below(&random, 6),
                  input = 1 + (int)test_random_below(&random, round % 10 ? 40 : 600),
                  hidden = 1 + (int)test_random_below(&random, 40), directions = 1 + round % 2;
        const bool each = round % 3 == 0;
        const op_dtype dtype = round % 4 < 2 ? OP_INT8 : OP_UINT8;
        base_arena arena;
        base_report report = {0};
        base_arena_init(&arena, NULL);
        const op_shape x = test_shape(3, steps, batch, input),
                       w = test_shape(3, directions, input, 4 * hidden),
                       r = test_shape(3, directions, hidden, 4 * hidden),
                       b = test_shape(2, directions, 8 * hidden), one = test_shape(1, directions),
                       all = test_shape(2, directions, 4 * hidden);
        op_tensor inputs[12] = {test_tensor(&arena, OP_FLOAT, &x), test_tensor(&arena, dtype, &w),
                                test_tensor(&arena, dtype, &r), test_tensor(&arena, OP_FLOAT, &b)},
                  outputs[3], packed_outputs[3];
        memset(outputs, 0, sizeof outputs);
        for (uint32_t i = 0; i < 4; i++) test_fill(&inputs[i], &random);
        for (uint32_t i = 8; i < 12; i++) {
            inputs[i] = test_tensor(&arena, i % 2 ? dtype : OP_FLOAT, each ? &all : &one);
            for (int64_t k = 0; k < test_elements(&inputs[i]); k++)
                test_set(&inputs[i], k,
                         i % 2 ? (double)test_random_below(&random, 100) : 0.01 * (double)(1 + k % 7));
        }
        if (round % 5 == 0) inputs[3] = (op_tensor){0};
        for (uint32_t i = 5; i < 7 && round % 4; i++) {
            const op_shape states = test_shape(3, directions, batch, hidden);
            inputs[i] = test_tensor(&arena, OP_FLOAT, &states);
            test_fill(&inputs[i], &random);
        }
        if (round % 4 == 3) {
            const op_shape lengths = test_shape(1, batch);
            inputs[4] = test_tensor(&arena, OP_INT32, &lengths);
            for (int k = 0; k < batch; k++)
                test_set(&inputs[4], k, (double)test_random_below(&random, steps + 1));
        }
        const op_attribute attributes[] = {
            {.name = "hidden_size", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = hidden},
            {.name = "direction",
             .kind = OP_ATTRIBUTE_STRING,
             .count = 1,
             .as.text = directions == 2 ? (op_string){"bidirectional", 13} : (op_string){"reverse", 7}}};
        op_call call = {.code = OP_DYNAMIC_LSTM,
                        .attributes = {2, attributes},
                        .inputs = inputs,
                        .input_count = 12,
                        .outputs = outputs,
                        .output_count = 3};
        if (test_apply(&call, &arena, NULL, &report)) fail_msg("round %d: %s", round, report.text);
        const rt_kernel *kernel = rt_kernel_of(call.code, "portable.recurrent");
        const rt_environment environment = {.threads = 1 + round % 3};
        op_tensor packed[12];
        memcpy(packed, inputs, sizeof packed);
        for (uint32_t i = 1; i <= 2; i++) {
            size_t bytes;
            if (round % 3 == (int)i) continue;
            assert_true(rt_integer_packed_bytes(inputs[i].type.shape.dims[1], 4 * hidden, &bytes));
            bytes *= (size_t)directions;
            const op_shape memory = {.rank = 1, .dims = {(int64_t)bytes}};
            packed[i].type.layout = OP_LAYOUT_PACKED;
            packed[i].type.packed_bytes = bytes;
            packed[i].data = test_tensor(&arena, OP_UINT8, &memory).data;
            assert_int_equal(kernel->pack(&call, &environment, i, &inputs[i], packed[i].data, &report),
                             BASE_OK);
        }
        assert_int_equal(kernel->pack(&call, &environment, 3, &inputs[1], packed[1].data, &report),
                         BASE_INVALID);
        op_call other = call;
        other.inputs = packed;
        other.outputs = packed_outputs;
        for (uint32_t i = 0; i < 3; i++) {
            packed_outputs[i] = outputs[i];
            packed_outputs[i].data = NULL;
        }
        assert_true(kernel->accepts(&other, &environment));
        assert_int_equal(rt_kernel_evaluate(&other, &environment, &arena, &report), BASE_OK);
        assert_int_equal(test_states_in_place(kernel, &other, &environment), round % 4 ? 2 : 0);
        for (uint32_t i = 0; i < 3; i++)
            if (outputs[i].bytes)
                assert_memory_equal(packed_outputs[i].data, outputs[i].data, outputs[i].bytes);
        for (uint32_t i = 1; i <= 2; i++) { /* of other sizes than they would have they are refused */
            if (packed[i].type.layout != OP_LAYOUT_PACKED) continue;
            packed[i].type.packed_bytes++;
            assert_false(kernel->accepts(&other, &environment));
            packed[i].type.packed_bytes--;
        }
        base_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_codes),
                                       cmocka_unit_test(packed_weights_of_an_lstm)};
    return cmocka_run_group_tests_name("dynamic_rows", tests, NULL, NULL);
}

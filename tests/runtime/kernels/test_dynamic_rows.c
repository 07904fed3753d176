/* SPDX-License-Identifier: Apache-2.0 */
/* test_dynamic_rows.c: rows of codes times weights of bytes, against sums made one product at a time: to the bit, whatever the machine multiplies. */
#include "runtime/kernels/portable/dynamic_rows.h"
#include "tests/support/application.h"
#include <setjmp.h>
#include <stdarg.h>
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
    static int16_t codes[9 * 600];
    static float scales[200], got[9 * 210];
    static int32_t sums[200];
    uint64_t seed = 31;
    for (int round = 0; round < ROUNDS; round++) {
        const bool large = round % 10 == 0, add = round % 3 == 0;
        const int64_t depth = random_range(&seed, round == 1 ? 0 : 1, large ? 600 : 40),
                      columns = random_range(&seed, 1, 200), rows = random_range(&seed, 0, 9),
                      pitch = columns + random_range(&seed, 0, 10);
        const rt_byte_weights w = {.dtype = round % 2 ? OP_INT8 : OP_UINT8,
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
        rt_dynamic_begin(&w, sums);
        for (int time = 0; time < 2; time++) {
            for (int64_t i = 0; i < rows * pitch; i++) got[i] = (float)i;
            rt_dynamic_multiply(&w, codes, scale, rows, got, pitch, add, sums);
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
                const float want = j >= columns ? was : add ? was + value : value;
                if (got[row * pitch + j] != want)
                    fail_msg("round %d, row %d, column %d: %.9g, expected %.9g", round, (int)row, (int)j,
                             (double)got[row * pitch + j], (double)want);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_of_codes)};
    return cmocka_run_group_tests_name("dynamic_rows", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_share_tables.c: a table of embeddings whose rows are the columns of a product is held once with the product's weights, whatever type these are
 * stored in; with other numbers, and where somebody else reads it, there are two. Rows and products are the same in all cases.
 */
#include "runtime/kernels/portable/wide_tiles.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* More than a near cache holds, in 16 bits; the last panel of columns is not full, and the depth is odd. */
enum { DEPTH = 517, COLUMNS = 1030, READ = 3 /* at most */, EACH = 14, MORE = 4000 };

typedef struct model {
    enum { TURNED, ONE_CONSTANT, OTHER_NUMBERS, READ_ELSEWHERE } tie;
    op_dtype dtype, stored; /* of the model; and of weights, where that is asked for */
    bool portable, packed, shared; /* packed as the product packs it; and held once, be it so or as it is */
    int rows; /* of the table that are read */
} model;

/* Three digits and a sign: halves hold them to one part in two thousand. */
static float number_at(int64_t row, int64_t k) {
    return (float)((row * 53 + k * 31 + row * k % 17) % 401 - 200) / 128 + (float)(k % 3) / 1000;
}

static char *make_text(const model *of) {
    const size_t length = (size_t)2 * DEPTH * COLUMNS * EACH + MORE;
    const char *type = op_dtype_name(of->dtype);
    char *text = malloc(length);
    assert_non_null(text);
    size_t at =
        (size_t)snprintf(text, length, "module \"m\" {\n constant %%t: %s[%d,%d] = {", type, COLUMNS, DEPTH);
    for (int i = 0; i < COLUMNS * DEPTH; i++)
        at += (size_t)snprintf(text + at, length - at, "%s%.7g", i ? ", " : "",
                               (double)number_at(i / DEPTH, i % DEPTH));
    at += (size_t)snprintf(text + at, length - at, "}\n");
    if (of->tie != ONE_CONSTANT) {
        at += (size_t)snprintf(text + at, length - at, " constant %%w: %s[%d,%d] = {", type, DEPTH, COLUMNS);
        for (int i = 0; i < COLUMNS * DEPTH; i++)
            at += (size_t)snprintf(text + at, length - at, "%s%.7g", i ? ", " : "",
                                   (double)number_at(i % COLUMNS, i / COLUMNS) +
                                       (of->tie == OTHER_NUMBERS && i == 999));
        at += (size_t)snprintf(text + at, length - at, "}\n");
    }
    at += (size_t)snprintf(text + at, length - at,
                           "graph main(%%i: int64[%d]%s) {\n"
                           " %%x: %s[%d,%d] = Gather(%%t, %%i)\n"
                           " %%y: %s[%d,%d] = %s\n",
                           of->rows, of->tie == READ_ELSEWHERE ? ", %s: float32[1]" : "", type, of->rows,
                           DEPTH, type, of->rows, COLUMNS,
                           of->tie == ONE_CONSTANT ? "Gemm(%x, %t) {transB = 1}" : "MatMul(%x, %w)");
    if (of->tie == READ_ELSEWHERE)
        at += (size_t)snprintf(text + at, length - at, " %%e: float32[%d,%d] = Mul(%%t, %%s)\n", COLUMNS,
                               DEPTH);
    snprintf(text + at, length - at, " yield %%x, %%y%s } }\n", of->tie == READ_ELSEWHERE ? ", %e" : "");
    return text;
}

/* Element `i` of an output in float or half. */
static float output_at(const void *numbers, op_dtype dtype, int64_t i) {
    return dtype == OP_FLOAT     ? ((const float *)numbers)[i]
           : dtype == OP_FLOAT16 ? base_float_from_half(((const uint16_t *)numbers)[i])
                                 : base_float_from_bfloat16(((const uint16_t *)numbers)[i]);
}

static void check_model(const model *of, size_t number) {
    const int64_t index[READ] = {COLUMNS - 1, 0, -COLUMNS / 2};
    const float factor = 2;
    const pass_options options = {.weight_type = of->stored,
                                  .exact_arithmetic = of->stored == OP_NONE && !of->portable,
                                  .environment = {.threads = 1, .portable_only = of->portable}};
    const op_dtype kept = of->stored ? of->stored : of->dtype;
    const size_t element = op_dtype_bytes(of->dtype), once = (size_t)DEPTH * COLUMNS * op_dtype_bytes(kept);
    const double bits = kept == OP_FLOAT ? 1e-6 : kept == OP_BFLOAT16 ? 0x1p-8 : 0x1p-11;
    char *text = make_text(of);
    support_session on;
    support_session_open_with(&on, text, &options);
    const size_t bytes = rt_plan_of(on.plan)->header->constants_bytes;
    const bool packed = support_count_kernel(rt_plan_of(on.plan), "portable.packed_gather") == 1;
    if (packed != of->packed || (of->shared ? bytes > once + once / 8 : bytes < once + once / 2))
        fail_msg("model %zu: %zu bytes, of one copy %zu; packed: %d", number, bytes, once, (int)packed);
    support_bind(&on, 0, index, (size_t)of->rows * sizeof *index);
    if (of->tie == READ_ELSEWHERE) support_bind(&on, 1, &factor, sizeof factor);
    support_run(&on);
    const void *x = support_output(&on, 0, (size_t)of->rows * DEPTH * element),
               *y = support_output(&on, 1, (size_t)of->rows * COLUMNS * element);
    for (int r = 0; r < of->rows; r++) {
        const int64_t row = index[r] < 0 ? index[r] + COLUMNS : index[r];
        for (int k = 0; k < DEPTH; k++) {
            const double wanted = (double)number_at(row, k),
                         made = (double)output_at(x, of->dtype, r * DEPTH + k);
            if (fabs(made - wanted) > bits * fabs(wanted) + (kept == OP_INT16 ? 1e-4 : 1e-7))
                fail_msg("model %zu: row %d, element %d is %g, not %g", number, r, k, made, wanted);
        }
        for (int j = 0; j < COLUMNS; j++) {
            double sum = 0, size = 0;
            for (int k = 0; k < DEPTH; k++) {
                const double one = (double)output_at(x, of->dtype, r * DEPTH + k) * (double)number_at(j, k);
                sum += one;
                size += fabs(one);
            }
            const double made = (double)output_at(y, of->dtype, r * COLUMNS + j);
            if (!(of->tie == OTHER_NUMBERS && j == 999 % COLUMNS) && fabs(made - sum) > bits * size)
                fail_msg("model %zu: row %d, sum %d is %g, not %g", number, r, j, made, sum);
        }
    }
    support_session_close(&on);
    free(text);
}

static void tables_of_products_are_held_once(void **state) {
    (void)state;
    const bool tiles = rt_wide_tiles_here(), vectors = support_wants_panels();
    const model models[] = {
        {TURNED, OP_FLOAT, OP_NONE, false, tiles, tiles, READ},
        {ONE_CONSTANT, OP_FLOAT, OP_NONE, false, tiles, true, READ},
        {TURNED, OP_FLOAT16, OP_NONE, false, vectors, vectors, READ},
        {ONE_CONSTANT, OP_BFLOAT16, OP_NONE, false, vectors, true, READ},
        {TURNED, OP_FLOAT, OP_FLOAT16, false, true, true, READ},
        {ONE_CONSTANT, OP_FLOAT, OP_FLOAT16, true, true, true, READ},
        {ONE_CONSTANT, OP_FLOAT, OP_BFLOAT16, false, true, true, READ},
        {TURNED, OP_FLOAT, OP_INT16, false, true, true, READ},
        {TURNED, OP_FLOAT, OP_NONE, true, false, true, 1},
        {ONE_CONSTANT, OP_FLOAT, OP_NONE, true, false, true, READ},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_model(&models[i], i);
}

static void others_are_held_twice(void **state) {
    (void)state;
    check_model(&(model){OTHER_NUMBERS, OP_FLOAT, OP_NONE, false, false, false, READ}, 0);
    check_model(&(model){OTHER_NUMBERS, OP_FLOAT, OP_FLOAT16, false, false, false, READ}, 1);
    check_model(&(model){READ_ELSEWHERE, OP_FLOAT, OP_NONE, false, false, false, READ}, 2);
    check_model(&(model){OTHER_NUMBERS, OP_FLOAT, OP_NONE, true, false, false, 1}, 3);
    check_model(&(model){TURNED, OP_FLOAT, OP_NONE, true, false, false, READ}, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_products_are_held_once),
        cmocka_unit_test(others_are_held_twice),
    };
    return cmocka_run_group_tests_name("share_tables", tests, NULL, NULL);
}

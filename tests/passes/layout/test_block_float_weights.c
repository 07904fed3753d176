/* SPDX-License-Identifier: Apache-2.0 */
/* test_block_float_weights.c: weights of products of a few rows take 20 bits where they come to more than a near cache holds, 24 where a column
 * would lose too much, and stay as they are where arithmetic is exact, in plans for any machine, where rows are many or open, and where others
 * read them; a table that is such a matrix turned round is held once with it.
 */
#include "runtime/kernels/portable/fixed_tiles.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { DEPTH = 512, MANY = 544, FEW = 256, LENGTH = 1 << 23, MOST_ROWS = 17 };

static float next_number(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return (float)((int32_t)*state >> 8) / (float)(1 << 23);
}

typedef struct model {
    const char *rows;
    int columns;
    float furthest; /* one weight; 0: as the others */
    bool read_too;  /* by a product of more rows */
    /* Rows come after those of runs before, in a state, or in what the caller hands on. */
    enum { NO_CACHE, STATE, HANDED_ON } cache;
} model;

static float *make_weights(const model *of) {
    float *weights = malloc((size_t)(DEPTH * of->columns) * sizeof *weights);
    uint32_t seed = 3;
    assert_non_null(weights);
    for (int i = 0; i < DEPTH * of->columns; i++) weights[i] = next_number(&seed);
    if (of->furthest > 0) weights[77 * of->columns + 5] = of->furthest;
    return weights;
}

static char *make_text(const model *of, const float *weights) {
    char *text = malloc(LENGTH);
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, LENGTH, "module \"m\" {\n constant %%w: float32[%d,%d] = {", DEPTH,
                                 of->columns);
    for (int i = 0; i < DEPTH * of->columns; i++)
        at += (size_t)snprintf(text + at, LENGTH - at, "%s%.9g", i ? ", " : "", (double)weights[i]);
    at += (size_t)snprintf(text + at, LENGTH - at, "}\n constant %%s: int64[2] = {40, %d}\n", DEPTH);
    if (of->cache)
        at += (size_t)snprintf(text + at, LENGTH - at,
                               "graph main(%%p: float32[P,%d], %%x: float32[%s,%d])%s {\n"
                               " %%k: float32[?,%d] = Concat(%%p, %%x) {axis = 0}\n",
                               DEPTH, of->rows, DEPTH, of->cache == STATE ? " states 1" : "", DEPTH);
    else
        at +=
            (size_t)snprintf(text + at, LENGTH - at, "graph main(%%x: float32[%s,%d]) {\n", of->rows, DEPTH);
    at += (size_t)snprintf(text + at, LENGTH - at, " %%y: float32[%s,%d] = MatMul(%%x, %%w)\n", of->rows,
                           of->columns);
    if (of->read_too)
        at += (size_t)snprintf(text + at, LENGTH - at,
                               " %%u: float32[40,%d] = Expand(%%x, %%s)\n"
                               " %%z: float32[40,%d] = MatMul(%%u, %%w)\n",
                               DEPTH, of->columns);
    snprintf(text + at, LENGTH - at, " yield %s%%y%s } }\n", of->cache ? "%k, " : "",
             of->read_too ? ", %z" : "");
    return text;
}

/* Bits of a weight in a plan of this model, whose results are checked; 32 where they are floats. */
static int run(const model *of, const pass_options *options) {
    static float x[MOST_ROWS * DEPTH];
    const int rows = of->rows[0] == '?' ? MOST_ROWS : atoi(of->rows);
    const int64_t dims[2] = {rows, DEPTH}, none[2] = {0, DEPTH};
    const size_t bytes = (size_t)(rows * of->columns) * sizeof(float);
    uint32_t seed = 5;
    float *weights = make_weights(of);
    char *text = make_text(of, weights);
    support_session on;
    for (int i = 0; i < rows * DEPTH; i++) x[i] = next_number(&seed);
    support_session_open_with(&on, text, options);
    const bool packed = support_count_kernel(rt_plan_of(on.plan), "portable.block_float_product") > 0;
    const size_t constants = rt_plan_of(on.plan)->header->constants_bytes;
    const size_t input = of->cache == HANDED_ON;
    if (of->cache == HANDED_ON)
        assert_int_equal(ouro_session_bind_input(on.session, 0, x, 0, none, NULL), OURO_OK);
    assert_int_equal(
        ouro_session_bind_input(on.session, input, x, (size_t)rows * DEPTH * sizeof *x, dims, NULL), OURO_OK);
    support_run(&on);
    const float *y = support_output(&on, input, bytes);
    for (int i = 0; i < rows * of->columns; i++) {
        double sum = 0, size = 0;
        for (int k = 0; k < DEPTH; k++) {
            const double one =
                (double)x[i / of->columns * DEPTH + k] * (double)weights[k * of->columns + i % of->columns];
            sum += one;
            size += fabs(one);
        }
        if (fabs((double)y[i] - sum) > 3e-6 * size)
            fail_msg("number %d is %.9g, not %.9g", i, (double)y[i], sum);
    }
    support_session_close(&on);
    free(text);
    free(weights);
    return !packed ? 32 : constants < (size_t)(DEPTH * of->columns) * 22 / 8 ? 20 : 24;
}

static void weights_of_few_rows_take_fewer_bits(void **state) {
    (void)state;
    const pass_options any = {.environment = {.threads = 1}},
                       distant = {.environment = {.threads = 1}, .cached_weight_bytes = DEPTH * MANY * 4},
                       exact = {.environment = {.threads = 1}, .exact_arithmetic = true},
                       portable = {.environment = {.threads = 1, .portable_only = true}};
    const char *most = rt_fixed_wanted() ? "4" : "16", *more = rt_fixed_wanted() ? "5" : "17";
    const struct {
        model model;
        const pass_options *options;
        int bits;
    } cases[] = {
        {{"1", MANY, 0, false, NO_CACHE}, &any, 20},
        {{"3", MANY, 0, false, NO_CACHE}, &any, 20},
        {{most, MANY, 0, false, NO_CACHE}, &any, 20},
        {{more, MANY, 0, false, NO_CACHE}, &any, 32},
        {{"?", MANY, 0, false, NO_CACHE}, &any, 32},
        {{"1", MANY, 19, false, NO_CACHE}, &any, 24},
        {{"1", MANY, 299, false, NO_CACHE}, &any, 32},
        {{"1", MANY, 0x1p100f, false, NO_CACHE}, &any, 32},
        {{"1", FEW, 0, false, NO_CACHE}, &any, 32},
        {{"1", MANY, 0, true, NO_CACHE}, &any, 32},
        {{"?", MANY, 0, false, STATE}, &any, rt_fixed_wanted() ? 32 : 20},
        {{"?", MANY, 0, false, HANDED_ON}, &any, rt_fixed_wanted() ? 32 : 20},
        {{"?", MANY, 0, false, NO_CACHE}, &distant, rt_fixed_wanted() ? 32 : 20},
        {{"1", MANY, 0, false, NO_CACHE}, &exact, 32},
        {{"1", MANY, 0, false, NO_CACHE}, &portable, 32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int bits = run(&cases[i].model, cases[i].options),
                  expected = support_wants_panels() ? cases[i].bits : 32;
        if (bits != expected) fail_msg("case %zu: %d bits, not %d", i, bits, expected);
    }
}

/* How a table and a product's weights are written. */
typedef enum tie { TIE_TURNED, TIE_ONE_CONSTANT, TIE_OTHER_NUMBERS, TIES } tie;

/* A row of a table, times the table turned round: the weights of the product are a constant of their own, or the table itself. */
static char *make_tied(tie of, const float *table) {
    char *text = malloc(LENGTH);
    assert_non_null(text);
    size_t at =
        (size_t)snprintf(text, LENGTH, "module \"m\" {\n constant %%t: float32[%d,%d] = {", MANY, DEPTH);
    for (int i = 0; i < MANY * DEPTH; i++)
        at += (size_t)snprintf(text + at, LENGTH - at, "%s%.9g", i ? ", " : "", (double)table[i]);
    at += (size_t)snprintf(text + at, LENGTH - at, "}\n");
    if (of != TIE_ONE_CONSTANT) {
        at += (size_t)snprintf(text + at, LENGTH - at, " constant %%w: float32[%d,%d] = {", DEPTH, MANY);
        for (int i = 0; i < MANY * DEPTH; i++) {
            const float weight = table[i % MANY * DEPTH + i / MANY];
            at += (size_t)snprintf(text + at, LENGTH - at, "%s%.9g", i ? ", " : "",
                                   (double)(of == TIE_OTHER_NUMBERS && i == 999 ? weight + 1 : weight));
        }
        at += (size_t)snprintf(text + at, LENGTH - at, "}\n");
    }
    snprintf(text + at, LENGTH - at,
             "graph main(%%i: int64[1]) {\n"
             " %%x: float32[1,%d] = Gather(%%t, %%i)\n"
             " %%y: float32[1,%d] = %s\n"
             " yield %%x, %%y } }\n",
             DEPTH, MANY, of == TIE_ONE_CONSTANT ? "Gemm(%x, %t) {transB = 1}" : "MatMul(%x, %w)");
    return text;
}

static void tables_of_products_are_held_once(void **state) {
    (void)state;
    float *table = malloc((size_t)(MANY * DEPTH) * sizeof *table);
    uint32_t seed = 11;
    assert_non_null(table);
    for (int i = 0; i < MANY * DEPTH; i++) table[i] = next_number(&seed);
    for (tie of = 0; of < TIES; of++) {
        const int64_t row = 77;
        const pass_options options = {.environment = {.threads = 1}};
        char *text = make_tied(of, table);
        support_session on;
        support_session_open_with(&on, text, &options);
        const bool tied = support_count_kernel(rt_plan_of(on.plan), "portable.packed_gather") == 1;
        if (tied != (support_wants_panels() && of != TIE_OTHER_NUMBERS)) fail_msg("tie %d", (int)of);
        if (tied) assert_true(rt_plan_of(on.plan)->header->constants_bytes < (size_t)(MANY * DEPTH) * 22 / 8);
        support_bind(&on, 0, &row, sizeof row);
        support_run(&on);
        const float *x = support_output(&on, 0, DEPTH * sizeof *x),
                    *y = support_output(&on, 1, MANY * sizeof *y);
        for (int k = 0; k < DEPTH; k++)
            if (fabsf(x[k] - table[row * DEPTH + k]) > 1.1e-6f) fail_msg("tie %d: element %d", (int)of, k);
        for (int j = 0; j < MANY; j++) {
            double sum = 0, size = 0;
            for (int k = 0; k < DEPTH; k++) {
                const double one = (double)x[k] * (double)table[j * DEPTH + k];
                sum += one;
                size += fabs(one);
            }
            if (!(of == TIE_OTHER_NUMBERS && j == 999 % MANY) && fabs((double)y[j] - sum) > 3e-6 * size)
                fail_msg("tie %d: number %d is %.9g, not %.9g", (int)of, j, (double)y[j], sum);
        }
        support_session_close(&on);
        free(text);
    }
    free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_few_rows_take_fewer_bits),
        cmocka_unit_test(tables_of_products_are_held_once),
    };
    return cmocka_run_group_tests_name("block_float_weights", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_halve_weights.c: weights that are numbers of bfloat16 or float16 take 16 bits in a plan, if they are many, and results are those of all
 * their bits; with one weight that is no such number they take as many as before. Of many rows, that is so where the machine has no fixed point;
 * of few weights, in plans for any machine. */
#include "runtime/kernels/portable/cost.h"
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

enum { FEW = 96, MANY = 544, MOST_ROWS = 13 };

/* Weights of a few bits, which both types have; or of 8, or of 11, which are numbers of one of them. */
typedef enum weight_kind { FEW_BITS, BITS_OF_BFLOAT16, BITS_OF_FLOAT16, KINDS } weight_kind;

static uint32_t next_number(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static float make_weight(weight_kind kind, uint32_t *state) {
    static const struct {
        int bits;
        float scale; /* beyond what float16 has */
    } of[KINDS] = {{4, 1}, {8, 0x1p-40f}, {11, 1}};
    const int32_t count = 1 << of[kind].bits, number = (int32_t)(next_number(state) % (uint32_t)(2 * count));
    return (float)(number - count + 1) * of[kind].scale;
}

/* A product with a square matrix. */
typedef struct product {
    const char *rows;
    int extent;
    weight_kind kind;
    bool odd;   /* the last weight has more bits than 16 can say */
    bool cache; /* the rows are kept after those of runs before, in a state */
} product;

static float *make_weights(const product *of) {
    const int count = of->extent * of->extent;
    float *weights = malloc((size_t)count * sizeof *weights);
    uint32_t seed = 3;
    assert_non_null(weights);
    for (int i = 0; i < count; i++) weights[i] = make_weight(of->kind, &seed);
    if (of->odd) weights[count - 1] *= 1.0f / 3;
    return weights;
}

static char *make_text(const product *of, const float *weights) {
    enum { EACH = 20, MORE = 500 };
    const size_t length = (size_t)(of->extent * of->extent * EACH + MORE);
    char *text = malloc(length);
    const int n = of->extent;
    assert_non_null(text);
    size_t at = (size_t)snprintf(text, length, "module \"m\" {\n constant %%w: float32[%d,%d] = {", n, n);
    for (int i = 0; i < n * n; i++)
        at += (size_t)snprintf(text + at, length - at, "%s%.9g", i ? ", " : "", (double)weights[i]);
    if (of->cache)
        snprintf(text + at, length - at,
                 "}\ngraph main(%%p: float32[P,%d], %%x: float32[%s,%d]) states 1 {\n"
                 " %%k: float32[?,%d] = Concat(%%p, %%x) {axis = 0}\n"
                 " %%y: float32[%s,%d] = MatMul(%%x, %%w)\n"
                 " yield %%k, %%y } }\n",
                 n, of->rows, n, n, of->rows, n);
    else
        snprintf(text + at, length - at,
                 "}\ngraph main(%%x: float32[%s,%d]) {\n"
                 " %%y: float32[%s,%d] = MatMul(%%x, %%w)\n"
                 " yield %%y } }\n",
                 of->rows, n, of->rows, n);
    return text;
}

/* Each number of the result is the sum of its products, but for what sums of floats lose. */
static void check_result(const product *of, const float *weights, const float *x, const float *y, int rows) {
    const int n = of->extent;
    for (int i = 0; i < rows * n; i++) {
        double sum = 0, size = 0;
        for (int k = 0; k < n; k++) {
            const double one = (double)x[i / n * n + k] * (double)weights[k * n + i % n];
            sum += one;
            size += fabs(one);
        }
        if (fabs((double)y[i] - sum) > 1e-6 * size) fail_msg("number %d: %g, not %g", i, (double)y[i], sum);
    }
}

/* Bytes of constants of the plan, whose result is checked. */
static size_t run_product(const product *of, const pass_options *options) {
    static float x[MOST_ROWS * MANY];
    const int rows = of->rows[0] == '?' ? MOST_ROWS : atoi(of->rows);
    const int64_t dims[2] = {rows, of->extent};
    const size_t bytes = (size_t)(rows * of->extent) * sizeof *x;
    uint32_t seed = 5;
    float *weights = make_weights(of);
    char *text = make_text(of, weights);
    support_session on;
    for (int i = 0; i < rows * of->extent; i++) x[i] = (float)next_number(&seed) / (1 << 24) - 0.5f;
    support_session_open_with(&on, text, options);
    const size_t constants = rt_plan_of(on.plan)->header->constants_bytes;
    assert_int_equal(ouro_session_bind_input(on.session, 0, x, bytes, dims, NULL), OURO_OK);
    support_run(&on);
    check_result(of, weights, x, support_output(&on, 0, bytes), rows);
    support_session_close(&on);
    free(text);
    free(weights);
    return constants;
}

static bool has_fixed_point(const pass_options *options) {
    return !options->exact_arithmetic && rt_has_wide_vectors(&options->environment) && rt_fixed_wanted();
}

/* Of the bytes of the same weights with one odd one among them, which may take 20 bits each. */
static void check(const product *of, const pass_options *options, bool halved) {
    product odd = *of;
    odd.odd = true;
    const size_t even_bytes = run_product(of, options), odd_bytes = run_product(&odd, options);
    if (halved ? even_bytes > odd_bytes * 13 / 16 : even_bytes < odd_bytes * 15 / 16)
        fail_msg("%s rows, %d columns, kind %d: %zu bytes, with an odd weight %zu", of->rows, of->extent,
                 (int)of->kind, even_bytes, odd_bytes);
}

static void weights_of_16_bits_take_16_bits(void **state) {
    (void)state;
    for (weight_kind kind = 0; kind < KINDS; kind++) {
        const product one = {"1", MANY, kind, false, false}, twelve = {"12", MANY, kind, false, false};
        const pass_options options = {.environment = {.threads = 1}};
        check(&one, &options, true);
        check(&twelve, &options, true);
    }
}

static void rows_decide_where_there_is_fixed_point(void **state) {
    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        const product thirteen = {"13", MANY, FEW_BITS, false, false};
        const pass_options options = {.exact_arithmetic = exact != 0, .environment = {.threads = 1}};
        check(&thirteen, &options, !has_fixed_point(&options));
    }
}

/* Rows that only a run knows are many, unless the plan keeps what it has seen: then there is mostly one. */
static void caches_say_that_rows_are_few(void **state) {
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        const product open = {"?", MANY, FEW_BITS, false, cache != 0};
        const pass_options options = {.environment = {.threads = 1}};
        check(&open, &options, cache || !has_fixed_point(&options));
    }
}

static void few_weights_stay_as_they_are(void **state) {
    (void)state;
    for (int portable = 0; portable < 2; portable++) {
        const product one = {"1", FEW, BITS_OF_BFLOAT16, false, false};
        const pass_options options = {.environment = {.threads = 1, .portable_only = portable != 0}};
        check(&one, &options, portable != 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_of_16_bits_take_16_bits),
        cmocka_unit_test(rows_decide_where_there_is_fixed_point),
        cmocka_unit_test(caches_say_that_rows_are_few),
        cmocka_unit_test(few_weights_stay_as_they_are),
    };
    return cmocka_run_group_tests_name("halve_weights", tests, NULL, NULL);
}

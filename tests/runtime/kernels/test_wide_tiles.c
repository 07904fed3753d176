/* SPDX-License-Identifier: Apache-2.0 */
/* test_wide_tiles.c: tiles of products beside sums written down here: all numbers of rows and of columns about the edges of tiles and panels,
 * odd depths, rows that are turned or a page apart, panels in 16 bits, what is added and limited, a second product that goes on; what lies
 * beside stays.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/wide_tile.h"
#include "runtime/kernels/portable/wide_tiles.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 600, MOST_ROWS = 45, MOST_COLUMNS = 160, MOST_DEPTH = 900, PAGE_FLOATS = 1024, BESIDE = 3 };

static const float untouched = -77;

typedef struct operands {
    float a[MOST_ROWS * PAGE_FLOATS];
    _Alignas(64) float panels[(MOST_COLUMNS + 2 * RT_PANEL) * MOST_DEPTH];
    _Alignas(64) uint16_t halves[(MOST_COLUMNS + 2 * RT_PANEL) * MOST_DEPTH];
    float bias[MOST_COLUMNS], before[MOST_ROWS * (MOST_COLUMNS + BESIDE)],
        c[MOST_ROWS * (MOST_COLUMNS + BESIDE)];
} operands;

/* Panels as numbers that the stored type has. */
static void draw_panels(operands *o, rt_tiles *t, uint64_t *seed, int64_t count) {
    static const op_dtype types[] = {OP_NONE, OP_FLOAT, OP_FLOAT16, OP_BFLOAT16, OP_INT16};
    t->stored = types[random_range(seed, 0, 4)];
    for (int64_t i = 0; i < count; i++) {
        o->panels[i] = random_float(seed);
        if (t->stored == OP_FLOAT16) {
            o->halves[i] = base_half_from_float(o->panels[i]);
            o->panels[i] = base_float_from_half(o->halves[i]);
        } else if (t->stored == OP_BFLOAT16) {
            o->halves[i] = base_bfloat16_from_float(o->panels[i]);
            o->panels[i] = base_float_from_bfloat16(o->halves[i]);
        } else if (t->stored == OP_INT16) {
            const int16_t code = (int16_t)random_range(seed, -99, 99);
            memcpy(&o->halves[i], &code, sizeof code);
            o->panels[i] = (float)code;
        }
    }
    t->panels = t->stored == OP_NONE || t->stored == OP_FLOAT ? (const void *)o->panels : o->halves;
}

static rt_tiles draw(operands *o, uint64_t *seed) {
    rt_tiles t = {.rows = random_range(seed, 1, MOST_ROWS),
                  .columns = random_range(seed, 1, MOST_COLUMNS),
                  .depth =
                      random_range(seed, 0, 9) ? random_range(seed, 1, 40) : random_range(seed, 300, 890),
                  .fused = true,
                  .add = random_range(seed, 0, 1),
                  .far = random_range(seed, 0, 1),
                  .limited = random_range(seed, 0, 1),
                  .low = -0.5f,
                  .high = random_range(seed, 0, 1) ? 0.75f : INFINITY};
    const bool turned = random_range(seed, 0, 3) == 0, far_apart = random_range(seed, 0, 3) == 0;
    t.a = o->a;
    t.a_row = turned ? 1 : far_apart ? PAGE_FLOATS : t.depth + random_range(seed, 0, 2);
    t.a_depth = turned ? t.rows : 1;
    const int64_t apart = random_range(seed, 0, 1) ? t.depth : t.depth + 1;
    t.panel_step = apart == t.depth && random_range(seed, 0, 1) ? 0 : apart * RT_PANEL;
    draw_panels(o, &t, seed, (t.columns + RT_PANEL - 1) / RT_PANEL * apart * RT_PANEL);
    if (random_range(seed, 0, 1)) t.bias = o->bias;
    if (random_range(seed, 0, 1)) t.next = t.panels;
    t.c = o->c;
    t.c_row = t.columns + BESIDE;
    for (int64_t i = 0; i < MOST_ROWS * PAGE_FLOATS; i++) o->a[i] = random_float(seed);
    for (int64_t i = 0; i < t.columns; i++) o->bias[i] = random_float(seed);
    for (int64_t i = 0; i < t.rows * t.c_row; i++)
        o->before[i] = o->c[i] = i % t.c_row < t.columns ? random_float(seed) : untouched;
    return t;
}

/* Each product and its sum rounded once, in the order of the depth. */
static float expected(const operands *o, const rt_tiles *t, int64_t row, int64_t column) {
    const int64_t step = t->panel_step ? t->panel_step : t->depth * RT_PANEL;
    const float *panel = o->panels + column / RT_PANEL * step + column % RT_PANEL;
    float sum = t->add ? o->before[row * t->c_row + column] : 0;
    for (int64_t k = 0; k < t->depth; k++)
        sum = fmaf(t->a[row * t->a_row + k * t->a_depth], panel[k * RT_PANEL], sum);
    if (t->bias) sum += t->bias[column];
    if (t->limited) sum = fminf(fmaxf(sum, t->low), t->high);
    return sum;
}

typedef void run_function(const rt_tiles *tiles);
static void check_sums(run_function *run) {
    uint64_t seed = 41;
    operands *o = aligned_alloc(_Alignof(operands), sizeof *o);
    assert_non_null(o);
    for (int round = 0; round < ROUNDS; round++) {
        const rt_tiles t = draw(o, &seed);
        run(&t);
        for (int64_t i = 0; i < t.rows * t.c_row; i++) {
            const int64_t row = i / t.c_row, column = i % t.c_row;
            if (column >= t.columns) {
                assert_true(o->c[i] == untouched);
                continue;
            }
            const float want = expected(o, &t, row, column);
            if (rt_wide_tiles_here()) assert_true(o->c[i] == want);
            else application_check_near((double)o->c[i], (double)want, 1e-3, seed, i);
        }
    }
    free(o);
}

static void test_equals_sums(void **state) {
    (void)state;
    check_sums(rt_tiles_run);
}

#if RT_X86_KERNELS
static void run_avx2(const rt_tiles *tiles) {
    const rt_wide_functions functions = rt_wide_functions_avx2(tiles->stored);
    rt_wide_tiles_run_with(&functions, tiles);
}
#endif

/* The loops of machines without AVX-512 on those with it, too. */
static void test_avx2_equals_sums(void **state) {
    (void)state;
#if RT_X86_KERNELS
    if (rt_wide_tiles_here()) {
        check_sums(run_avx2);
        return;
    }
#endif
    skip();
}

/* What two products one after the other leave: the sums of the first one, and those that go on from them. */
static void check_both(const operands *o, const rt_tiles *t, const float *before, uint64_t seed) {
    const rt_tiles_then *then = t->then;
    for (int64_t i = 0; i < t->rows * t->c_row; i++) {
        const int64_t row = i / t->c_row, column = i % t->c_row,
                      panel = column / RT_PANEL * (t->panel_step ? t->panel_step : t->depth * RT_PANEL);
        double sum = t->add ? (double)o->before[i] : 0;
        if (column >= t->columns) {
            assert_true(o->c[i] == untouched && then->c[i] == untouched);
            continue;
        }
        for (int64_t k = 0; k < t->depth; k++)
            sum += (double)t->a[row * t->a_row + k] *
                   (double)((const float *)t->panels)[panel + k * RT_PANEL + column % RT_PANEL];
        application_check_near((double)o->c[i], sum, 1e-4, seed, i);
        if (then->more) sum += (double)then->more[i];
        if (then->add) sum += (double)before[i];
        for (int64_t k = 0; k < t->depth; k++)
            sum += (double)then->a[row * then->a_row + k] *
                   (double)((const float *)then->panels)[panel + k * RT_PANEL + column % RT_PANEL];
        if (t->bias) sum += (double)t->bias[column];
        if (t->limited) sum = fmin(fmax(sum, (double)t->low), (double)t->high);
        application_check_near((double)then->c[i], sum, 1e-4, seed, i);
    }
}

static void test_two_products(void **state) {
    enum { SHIFT = 7, NUMBERS = MOST_ROWS * (MOST_COLUMNS + BESIDE) };
    uint64_t seed = 43;
    operands *o = aligned_alloc(_Alignof(operands), sizeof *o);
    float *results = malloc(3 * NUMBERS * sizeof *results), *before = results + NUMBERS,
          *more = before + NUMBERS;
    (void)state;
    assert_non_null(o);
    assert_non_null(results);
    for (int round = 0; round < ROUNDS / 2; round++) {
        rt_tiles t = draw(o, &seed);
        rt_tiles_then then = {.a = o->a + SHIFT, .panels = o->panels + RT_PANEL, .c = results};
        for (size_t i = 0; i < sizeof o->panels / sizeof o->panels[0]; i++)
            o->panels[i] = random_float(&seed);
        t.stored = OP_FLOAT;
        t.panels = o->panels;
        if (t.next) t.next = o->panels;
        t.fused = random_range(&seed, 0, 3) > 0; /* else one by one, as on machines without such tiles */
        t.a_row = t.a_depth == 1 ? t.a_row : t.depth;
        t.a_depth = 1;
        t.then = &then;
        then.a_row = t.a_row;
        then.c_row = t.c_row;
        then.add = random_range(&seed, 0, 1);
        if (random_range(&seed, 0, 1)) then.more = more;
        if (random_range(&seed, 0, 1)) t.later = results, t.later_row = t.c_row;
        for (int64_t i = 0; i < t.rows * t.c_row; i++) {
            more[i] = random_float(&seed);
            before[i] = results[i] = i % t.c_row < t.columns ? random_float(&seed) : untouched;
        }
        rt_tiles_run(&t);
        check_both(o, &t, before, seed);
    }
    free(results);
    free(o);
}

/* A number that is none is not limited away. */
static void test_keeps_nan(void **state) {
    (void)state;
    _Alignas(64) float panel[RT_PANEL] = {1, NAN, -2};
    float c[RT_PANEL];
    rt_tiles_run(&(rt_tiles){.rows = 1,
                             .columns = RT_PANEL,
                             .depth = 1,
                             .a = (float[]){1},
                             .a_row = 1,
                             .a_depth = 1,
                             .panels = panel,
                             .c = c,
                             .c_row = RT_PANEL,
                             .fused = true,
                             .limited = true,
                             .low = 0,
                             .high = INFINITY});
    assert_true(c[0] == 1 && isnan(c[1]) && c[2] == 0 && c[3] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_sums),
                                       cmocka_unit_test(test_avx2_equals_sums),
                                       cmocka_unit_test(test_two_products), cmocka_unit_test(test_keeps_nan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

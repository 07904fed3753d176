/* SPDX-License-Identifier: Apache-2.0 */
/* test_recurrent_row.c: steps of one sequence whose gates are finished between products, beside all products first and gates after them:
 * the same bits, whatever the depth, the groups, the last group's units, bias or none, to and fro; nothing else is written.
 */
#include "runtime/kernels/portable/recurrent_row.h"
#include "runtime/kernels/portable/weight_panels.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 400, GROUPS = 5, UNITS = GROUPS * RT_PANEL, DEPTH = 150, GATES = 4, BEYOND = 32 };

/* Tensors of a step, as large as any. */
typedef struct tensors {
    _Alignas(RT_ALIGNMENT) float panels[GROUPS * GATES * DEPTH * RT_PANEL];
    float state[DEPTH], bias[GROUPS * RT_CELL_GATES * RT_PANEL];
    float x[GATES * UNITS];
    float h[UNITS], c[UNITS];
    float h_next[UNITS + BEYOND], c_next[UNITS + BEYOND];
} tensors;

static void fill(float *floats, size_t count, float size, uint64_t *seed) {
    for (size_t i = 0; i < count; i++) floats[i] = size * random_float(seed);
}

static rt_row_step draw_step(tensors *all, uint64_t *seed) {
    const bool lstm = random_range(seed, 0, 1), bias = random_range(seed, 0, 3);
    const int64_t groups = random_range(seed, 1, GROUPS),
                  units = groups * RT_PANEL - random_range(seed, 0, RT_PANEL - 1);
    fill(all->panels, sizeof all->panels / sizeof(float), 0.3f, seed);
    fill(all->state, sizeof all->state / sizeof(float), 1, seed);
    fill(all->bias, sizeof all->bias / sizeof(float), 1, seed);
    fill(all->x, sizeof all->x / sizeof(float), 2, seed);
    fill(all->h, sizeof all->h / sizeof(float), 1, seed);
    fill(all->c, sizeof all->c / sizeof(float), 1, seed);
    memset(all->h_next, 0x7f, sizeof all->h_next);
    memset(all->c_next, 0x7f, sizeof all->c_next);
    if (!bias) memset(all->bias, 0, sizeof all->bias);
    return (rt_row_step){.lstm = lstm,
                         .alone = random_range(seed, 0, 1),
                         .back = random_range(seed, 0, 1),
                         .groups = groups,
                         .units = units,
                         .depth = random_range(seed, 0, 3) ? random_range(seed, 1, DEPTH)
                                                           : random_range(seed, 1, 12),
                         .state = all->state,
                         .panels = all->panels,
                         .bias_group = bias ? RT_CELL_GATES * RT_PANEL : 0,
                         .cells = {.bias = all->bias,
                                   .x = all->x,
                                   .h = all->h,
                                   .c = lstm ? all->c : NULL,
                                   .h_next = all->h_next,
                                   .c_next = lstm ? all->c_next : NULL}};
}

/* All products, then all gates. */
static void run_apart(const rt_row_step *step) {
    const int64_t gates = step->lstm ? 4 : 3, panels = step->groups * gates, wide = panels * RT_PANEL;
    float sums[GATES * UNITS];
    if (step->alone) rt_panels_row(OP_FLOAT, step->state, step->panels, step->depth, panels, false, sums);
    else rt_panels_rows(OP_FLOAT, 1, step->state, step->depth, step->panels, step->depth, panels, sums, wide);
    for (int64_t group = 0; group < step->groups; group++) {
        const int64_t unit = group * RT_PANEL;
        rt_cells cells = step->cells;
        cells.units = step->units - unit < RT_PANEL ? step->units - unit : RT_PANEL;
        cells.bias += group * step->bias_group;
        cells.x += unit * gates;
        cells.sums = sums + unit * gates;
        cells.rows = 1;
        cells.h += unit;
        cells.h_next += unit;
        if (step->lstm) {
            cells.c += unit;
            cells.c_next += unit;
            rt_cells_lstm(&cells);
        } else {
            rt_cells_gru(&cells);
        }
    }
}

static void gives_the_same_bits(void **state) {
    (void)state;
    static tensors all;
    static float h_next[sizeof all.h_next / sizeof(float)], c_next[sizeof all.c_next / sizeof(float)];
    if (!rt_row_runs_here()) skip();
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        rt_row_step step = draw_step(&all, &seed);
        run_apart(&step);
        memcpy(h_next, all.h_next, sizeof h_next);
        memcpy(c_next, all.c_next, sizeof c_next);
        memset(all.h_next, 0x7f, sizeof all.h_next);
        memset(all.c_next, 0x7f, sizeof all.c_next);
        rt_row_run(&step);
        if (memcmp(h_next, all.h_next, sizeof h_next) != 0 || memcmp(c_next, all.c_next, sizeof c_next) != 0)
            fail_msg("seed %" PRIu64 ": other bits", round);
    }
}

/* The state c may be made where it was. */
static void cells_stay_in_place(void **state) {
    (void)state;
    static tensors all;
    static float c_next[sizeof all.c / sizeof(float)];
    if (!rt_row_runs_here()) skip();
    for (uint64_t round = 1; round <= ROUNDS / 8; round++) {
        uint64_t seed = round;
        rt_row_step step = draw_step(&all, &seed);
        if (!step.lstm) continue;
        rt_row_run(&step);
        memcpy(c_next, all.c_next, sizeof c_next);
        step.cells.c_next = all.c;
        rt_row_run(&step);
        assert_memory_equal(c_next, all.c, (size_t)step.units * sizeof(float));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gives_the_same_bits),
                                       cmocka_unit_test(cells_stay_in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

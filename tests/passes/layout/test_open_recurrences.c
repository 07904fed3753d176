/* SPDX-License-Identifier: Apache-2.0 */
/* test_open_recurrences.c: weights of LSTM and GRU are packed although only runs know how many steps and sequences there are: one plan gives
 * what plans for these very extents give, for no steps and no sequences, too. */
#include "tests/support/support.h"
#include "tests/support/operators.h"
#include "tests/support/plan.h"
#include "tests/support/writer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum {
    INPUT = 24,
    HIDDEN = 32,
    DIRECTIONS = 2,
    LENGTH = 1 << 18,
    MOST_STEPS = 9,
    MOST_SEQUENCES = 20,
    OUTPUTS = 3
};

typedef struct form {
    bool lstm, lengths, states;
} form;

static void write_constant(support_writer *to, const char *name, int rows, int columns, test_random *random) {
    support_write(to, " constant %%%s: float32[%d,%d%s%.0d] = {", name, DIRECTIONS, rows, columns ? "," : "",
                  columns);
    for (int i = 0; i < DIRECTIONS * rows * (columns ? columns : 1); i++)
        support_write(to, "%s%g", i ? ", " : "", (double)(int)(test_random_next(random) % 65) / 128 - 0.25);
    support_write(to, "}\n");
}

/* The module; `steps` and `sequences` are extents, as text. */
static void write_module(const form *of, const char *steps, const char *sequences, char *text) {
    const int gates = of->lstm ? 4 : 3;
    test_random random = {7};
    support_writer to = support_writer_on(text, LENGTH);
    support_write(&to, "module \"m\" {\n");
    write_constant(&to, "w", gates * HIDDEN, INPUT, &random);
    write_constant(&to, "r", gates * HIDDEN, HIDDEN, &random);
    write_constant(&to, "b", 2 * gates * HIDDEN, 0, &random);
    support_write(&to, " graph main(%%x: float32[%s,%s,%d]", steps, sequences, INPUT);
    if (of->lengths) support_write(&to, ", %%lengths: int32[%s]", sequences);
    if (of->states) support_write(&to, ", %%h: float32[%d,%s,%d]", DIRECTIONS, sequences, HIDDEN);
    if (of->states && of->lstm) support_write(&to, ", %%c: float32[%d,%s,%d]", DIRECTIONS, sequences, HIDDEN);
    support_write(
        &to,
        ") {\n %%y: ?, %%y_h: ?%s = %s(%%x, %%w, %%r, %%b, %s, %s%s) {direction = \"bidirectional\", "
        "hidden_size = %d}\n",
        of->lstm ? ", %y_c: ?" : "", of->lstm ? "LSTM" : "GRU", of->lengths ? "%lengths" : "_",
        of->states ? "%h" : "_",
        !of->lstm    ? ""
        : of->states ? ", %c"
                     : ", _",
        HIDDEN);
    support_write(&to, " yield %%y, %%y_h%s\n } }\n", of->lstm ? ", %y_c" : "");
}

static void bind(const support_session *on, size_t index, const void *data, size_t element, int64_t a,
                 int64_t b, int64_t c) {
    const int64_t dims[] = {a, b, c};
    ouro_error error;
    if (ouro_session_bind_input(on->session, index, data, (size_t)(a * b * c) * element, dims, &error) !=
        OURO_OK)
        fail_msg("%s", error.message);
}

/* One run; the outputs come to `results`. */
static void run(const form *of, const support_session *on, int steps, int sequences, float *results) {
    static float x[MOST_STEPS * MOST_SEQUENCES * INPUT], states[2][DIRECTIONS * MOST_SEQUENCES * HIDDEN];
    static int32_t lengths[MOST_SEQUENCES];
    test_random random = {(uint64_t)(steps * 100 + sequences)};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(test_random_next(&random) % 33) / 16 - 1;
    for (size_t i = 0; i < sizeof *states / sizeof **states; i++)
        for (int k = 0; k < 2; k++) states[k][i] = (float)(test_random_next(&random) % 33) / 16 - 1;
    for (int i = 0; i < sequences; i++)
        lengths[i] = (int32_t)(test_random_next(&random) % (unsigned)(steps + 1));
    size_t index = 0;
    bind(on, index++, x, sizeof *x, steps, sequences, INPUT);
    if (of->lengths) bind(on, index++, lengths, sizeof *lengths, sequences, 1, 1);
    if (of->states) bind(on, index++, states[0], sizeof **states, DIRECTIONS, sequences, HIDDEN);
    if (of->states && of->lstm) bind(on, index++, states[1], sizeof **states, DIRECTIONS, sequences, HIDDEN);
    support_run(on);
    for (size_t output = 0; output < (of->lstm ? OUTPUTS : OUTPUTS - 1); output++) {
        const size_t count = (size_t)((output ? 1 : steps) * DIRECTIONS * sequences * HIDDEN);
        memcpy(results, support_output(on, output, count * sizeof *results), count * sizeof *results);
        results += count;
    }
}

static void one_plan_gives_what_each_would(void **state) {
    (void)state;
    static const form forms[] = {{true, false, false},
                                 {true, false, true},
                                 {true, true, true},
                                 {false, false, true},
                                 {false, true, false}};
    static const int steps[] = {1, 5, 0, MOST_STEPS, 3}, sequences[] = {3, 1, 2, MOST_SEQUENCES, 0};
    static char text[LENGTH];
    enum { MOST = (MOST_STEPS + 2) * DIRECTIONS * MOST_SEQUENCES * HIDDEN };
    static float expected[MOST], results[MOST];
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        support_session open;
        write_module(&forms[f], "steps", "sequences", text);
        support_session_open_on(&open, text, false, 2);
        assert_int_equal(support_count_kernel(rt_plan_of(open.plan), "portable.packed_recurrent"),
                         support_wants_panels());
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            char numbers[2][8];
            support_session known;
            snprintf(numbers[0], sizeof *numbers, "%d", steps[i]);
            snprintf(numbers[1], sizeof *numbers, "%d", sequences[i]);
            memset(expected, 0, sizeof expected);
            memset(results, 0, sizeof results);
            write_module(&forms[f], numbers[0], numbers[1], text);
            support_session_open_on(&known, text, false, 2);
            run(&forms[f], &known, steps[i], sequences[i], expected);
            run(&forms[f], &open, steps[i], sequences[i], results);
            double apart = 0;
            for (size_t k = 0; k < MOST; k++)
                apart = fmax(apart, fabs((double)expected[k] - (double)results[k]));
            if (!(apart <= 1e-5))
                fail_msg("form %zu, %d steps of %d sequences: apart by %g", f, steps[i], sequences[i], apart);
            support_session_close(&known);
        }
        support_session_close(&open);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_plan_gives_what_each_would)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

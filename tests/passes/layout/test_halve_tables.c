/* SPDX-License-Identifier: Apache-2.0 */
/* test_halve_tables.c: tables of Gather that are numbers of bfloat16 or float16 take 16 bits in a plan, and rows are the same bits. With
 * one number that is none of these they stay as they are; and so do small ones, and those that others read. */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 600, WIDTH = 520, FEW_ROWS = 20, READ = 3 };

typedef struct table {
    const char *body; /* of the graph; the table is %t, the index %i, one is %s, and the result %y */
    int rows;
    float scale; /* by which small integers are multiplied */
    bool odd;    /* the last number has more bits than 16 can say */
    bool halved; /* what becomes of it */
    bool portable;
} table;

static float number_at(const table *of, int64_t at) {
    const float number = (float)((at * 37 + at / 11) % 241 - 120) * of->scale;
    return of->odd && at == (int64_t)of->rows * WIDTH - 1 ? number / 3 : number;
}

static char *make_text(const table *of) {
    enum { EACH = 18, MORE = 2000 };
    const int count = of->rows * WIDTH;
    const size_t length = (size_t)(count * EACH + MORE);
    char *text = malloc(length);
    assert_non_null(text);
    size_t at =
        (size_t)snprintf(text, length, "module \"m\" {\n constant %%t: float32[%d,%d] = {", of->rows, WIDTH);
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, length - at, "%s%.9g", i ? ", " : "", (double)number_at(of, i));
    snprintf(text + at, length - at, "}\ngraph main(%%i: int64[%d], %%s: float32[1]) {\n%s yield %%y } }\n",
             READ, of->body);
    return text;
}

static void check_table(const table *of) {
    const int64_t index[READ] = {of->rows - 1, 0, -of->rows / 2};
    const float one = 1;
    const pass_options options = {.environment = {.threads = 1, .portable_only = of->portable}};
    char *text = make_text(of);
    support_session on;
    support_session_open_with(&on, text, &options);
    const size_t bytes = rt_plan_of(on.plan)->header->constants_bytes, all = (size_t)of->rows * WIDTH;
    if (of->halved ? bytes > all * 2 + all / 4 : bytes < all * 4) fail_msg("%zu bytes: %s", bytes, of->body);
    support_bind(&on, 0, index, sizeof index);
    support_bind(&on, 1, &one, sizeof one);
    support_run(&on);
    const float *y = support_output(&on, 0, READ * WIDTH * sizeof *y);
    for (int r = 0; r < READ; r++) {
        const int64_t row = index[r] < 0 ? index[r] + of->rows : index[r];
        for (int i = 0; i < WIDTH; i++) {
            const float wanted = number_at(of, row * WIDTH + i);
            assert_memory_equal(y + r * WIDTH + i, &wanted, sizeof wanted);
        }
    }
    support_session_close(&on);
    free(text);
}

#define GATHER(y) " " y ": float32[3,520] = Gather(%t, %i) {axis = 0}\n"

static void tables_of_16_bits_take_16_bits(void **state) {
    (void)state;
    const char *const twice = GATHER("%a") GATHER("%b") " %y: float32[3,520] = Max(%a, %b)\n";
    check_table(&(table){GATHER("%y"), ROWS, 1, .halved = true});
    check_table(&(table){GATHER("%y"), ROWS, 0x1p-60f, .halved = true});    /* beyond what float16 has */
    check_table(&(table){GATHER("%y"), ROWS, 1 + 0x1p-3f, .halved = true}); /* more bits than bfloat16 has */
    check_table(&(table){twice, ROWS, 1, .halved = true});
    check_table(&(table){GATHER("%y"), FEW_ROWS, 1, .halved = true, .portable = true});
}

static void others_stay_as_they_are(void **state) {
    (void)state;
    const char *const scaled = GATHER("%a") " %z: float32[600,520] = Mul(%t, %s)\n"
                                            " %b: float32[3,520] = Gather(%z, %i) {axis = 0}\n"
                                            " %y: float32[3,520] = Max(%a, %b)\n";
    check_table(&(table){GATHER("%y"), ROWS, 1, .odd = true});
    check_table(&(table){GATHER("%y"), FEW_ROWS, 1, .odd = false});
    check_table(&(table){scaled, ROWS, 1, .odd = false});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_16_bits_take_16_bits),
        cmocka_unit_test(others_stay_as_they_are),
    };
    return cmocka_run_group_tests_name("halve_tables", tests, NULL, NULL);
}

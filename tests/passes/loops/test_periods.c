/* SPDX-License-Identifier: Apache-2.0 */
/* test_periods.c: where a loop carries many values, its tables come round together soon; where it carries few, none has a buffer more
 * than it needs.
 */
#include "compiler/compiler.h"
#include "runtime/executor.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_TEXT = 1 << 18, MANY = 1000, TRIPS = 37 };

static size_t append(char *text, size_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
static size_t append(char *text, size_t at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text + at, MOST_TEXT - at, format, arguments);
    va_end(arguments);
    assert_true(length >= 0 && (size_t)length < MOST_TEXT - at);
    return at + (size_t)length;
}

/* `count` values that go round: of the last one the caller gets what it is in the end. */
static char *rotation(int count) {
    char *text = malloc(MOST_TEXT);
    size_t at = 0;
    assert_non_null(text);
    at = append(text, at, "module \"r\" { constant %%n: int64[] = {%d}\n graph main(", TRIPS);
    for (int i = 0; i < count; i++) at = append(text, at, "%s%%a%d: float32[2]", i ? ", " : "", i);
    at = append(text, at, ") {\n");
    for (int i = 0; i < count; i++) at = append(text, at, "%s%%o%d: float32[2]", i ? ", " : " ", i);
    at = append(text, at, " = Loop(%%n, _");
    for (int i = 0; i < count; i++) at = append(text, at, ", %%a%d", i);
    at = append(text, at, ") { graph body(%%i: int64[], %%k: bool[]");
    for (int i = 0; i < count; i++) at = append(text, at, ", %%p%d: float32[2]", i);
    at = append(text, at, ") { yield %%k");
    for (int i = 0; i < count; i++) at = append(text, at, ", %%p%d", (i + 1) % count);
    (void)append(text, at, " } } yield %%o%d } }", count - 1);
    return text;
}

static uint64_t common_multiple_of(const plan *of) {
    uint64_t all = 1;
    for (uint64_t v = 0; v < of->header->multiviews.count; v++) all = base_lcm(all, of->multiviews[v].period);
    return all;
}

static void run_rotation(int count, uint64_t least, uint64_t most) {
    support_session on;
    static float a[MANY + 7][2];
    char *text = rotation(count);
    support_session_open(&on, text, 1);
    const uint64_t all = common_multiple_of(rt_plan_of(on.plan));
    if (all < least || all > most)
        fail_msg("%d values: the tables come round after %d iterations", count, (int)all);
    for (int i = 0; i < count; i++) {
        a[i][0] = (float)i;
        a[i][1] = (float)-i;
        support_bind(&on, (size_t)i, a[i], sizeof a[i]);
    }
    support_run(&on);
    const float *is = support_output(&on, 0, 2 * sizeof *is);
    assert_true(is[0] == (float)((count - 1 + TRIPS) % count));
    support_session_close(&on);
    free(text);
}

static void many_come_round_together(void **state) {
    (void)state;
    run_rotation(MANY, 16, 16);
    run_rotation(MANY + 7, 16, 16);
    run_rotation(40, 17, 1000); /* so few are replayed soon enough */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_come_round_together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

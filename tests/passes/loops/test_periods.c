/* SPDX-License-Identifier: Apache-2.0 */
/* test_periods.c: where a loop carries many values, its tables come round together soon; where it carries few, none has a buffer more
 * than it needs.
 */
#include "compiler/compiler.h"
#include "runtime/executor.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_TEXT = 1 << 18, MANY = 1000, TRIPS = 37 };

/* `count` values that go round: of the last one the caller gets what it is in the end. */
static char *rotation(int count) {
    char *text = malloc(MOST_TEXT);
    assert_non_null(text);
    support_writer to = support_writer_on(text, MOST_TEXT);
    support_write(&to, "module \"r\" { constant %%n: int64[] = {%d}\n graph main(", TRIPS);
    for (int i = 0; i < count; i++) support_write(&to, "%s%%a%d: float32[2]", i ? ", " : "", i);
    support_write(&to, ") {\n");
    for (int i = 0; i < count; i++) support_write(&to, "%s%%o%d: float32[2]", i ? ", " : " ", i);
    support_write(&to, " = Loop(%%n, _");
    for (int i = 0; i < count; i++) support_write(&to, ", %%a%d", i);
    support_write(&to, ") { graph body(%%i: int64[], %%k: bool[]");
    for (int i = 0; i < count; i++) support_write(&to, ", %%p%d: float32[2]", i);
    support_write(&to, ") { yield %%k");
    for (int i = 0; i < count; i++) support_write(&to, ", %%p%d", (i + 1) % count);
    support_write(&to, " } } yield %%o%d } }", count - 1);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* test_work.c: how much arithmetic nodes do, and how many bytes they move. */
#include "compiler/report/work.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const text = "module \"work\" {\n"
                                " graph main(%x: float32[1,4,8,8], %a: float32[5,20], "
                                "%w: float32[6,4,3,3], %m: float32[20,10]) {\n"
                                "  %y: float32[1,6,6,6] = Conv(%x, %w)\n"
                                "  %t: float32[1,6,6,6] = Transpose(%y) {perm = [0, 2, 3, 1]}\n"
                                "  %e: float32[1,6,6,6] = Exp(%t)\n"
                                "  %p: float32[5,10] = MatMul(%a, %m)\n"
                                "  yield %e, %p } }\n";

static void check(const plan *of, const char *name, double operations, double bytes) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    bool found = false;
    for (uint32_t n = 0; n < of->header->nodes.count; n++) {
        if (strcmp(of->texts + of->nodes[n].operator_name, name) != 0) continue;
        work done;
        assert_true(emit_work_of_node(of, n, &arena, &done));
        if (done.operations != operations || done.bytes != bytes)
            fail_msg("%s: %g operations, %g bytes", name, done.operations, done.bytes);
        found = true;
    }
    if (!found) fail_msg("there is no %s", name);
    base_arena_free(&arena);
}

static void test_operations_and_bytes(void **state) {
    (void)state;
    size_t size;
    plan opened;
    base_report report = {0};
    unsigned char *bytes = support_plan(text, true, &size);
    if (plan_open(bytes, size, "plan", NULL, free, bytes, &opened, &report) != BASE_OK)
        fail_msg("%s", report.text);
    check(&opened, "Conv", 2.0 * 6 * 6 * 6 * 4 * 9, 4.0 * (4 * 64 + 6 * 36 + 6 * 36));
    check(&opened, "Transpose", 0, 4.0 * 2 * 6 * 36);
    check(&opened, "Exp", 6 * 36, 4.0 * 2 * 6 * 36);
    check(&opened, "MatMul", 2.0 * 5 * 20 * 10, 4.0 * (5 * 20 + 20 * 10 + 5 * 10));
    plan_close(&opened);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations_and_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

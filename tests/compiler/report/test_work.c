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

static void open_text(const char *module, plan *opened) {
    size_t size;
    base_report report = {0};
    unsigned char *bytes = support_plan(module, true, &size);
    if (plan_open(bytes, size, "plan", NULL, free, bytes, opened, &report) != BASE_OK)
        fail_msg("%s", report.text);
}

static void test_operations_and_bytes(void **state) {
    (void)state;
    plan opened;
    open_text(text, &opened);
    check(&opened, "Conv", 2.0 * 6 * 6 * 6 * 4 * 9, 4.0 * (4 * 64 + 6 * 36 + 6 * 36));
    check(&opened, "Transpose", 0, 4.0 * 2 * 6 * 36);
    check(&opened, "Exp", 6 * 36, 4.0 * 2 * 6 * 36);
    check(&opened, "MatMul", 2.0 * 5 * 20 * 10, 4.0 * (5 * 20 + 20 * 10 + 5 * 10));
    plan_close(&opened);
}

/* Pairs of a query and a key that it sees are counted one by one here. */
static void check_attention(int64_t queries, int64_t keys, int64_t causal, int64_t window, bool cached) {
    enum { HEADS = 6, DEPTH = 8, WIDTH = 5 };
    char module[640];
    plan opened;
    int written =
        snprintf(module, sizeof module,
                 "module \"work\" {\n graph main(%%q: float32[2,3,%d,%d], %%k: float32[2,3,%d,%d], "
                 "%%v: float32[2,3,%d,%d]%s) {\n"
                 "  %%y: float32[2,3,%d,%d] = Attention(%%q, %%k, %%v%s) {is_causal = %d, ouro.window = %d}\n"
                 "  yield %%y } }\n",
                 (int)queries, DEPTH, (int)keys, DEPTH, (int)keys, WIDTH, cached ? ", %o: int64[1]" : "",
                 (int)queries, WIDTH, cached ? ", _, _, %o" : "", (int)causal, (int)window);
    assert_true(written > 0 && (size_t)written < sizeof module);
    const int64_t offset = cached && keys > queries ? keys - queries : 0;
    double pairs = 0;
    for (int64_t i = 0; i < queries; i++) {
        for (int64_t j = 0; j < keys; j++)
            pairs += !causal || (j <= i + offset && (!window || j > i + offset - window));
    }
    open_text(module, &opened);
    check(&opened, "Attention", 2 * HEADS * pairs * (DEPTH + WIDTH),
          4.0 * HEADS * ((double)queries * (DEPTH + WIDTH) + (double)keys * (DEPTH + WIDTH)) +
              (cached ? 8 : 0));
    plan_close(&opened);
}

static void test_attention(void **state) {
    (void)state;
    check_attention(7, 9, 0, 0, false);
    check_attention(9, 7, 1, 0, false);
    check_attention(7, 9, 1, 0, false);
    check_attention(7, 9, 1, 3, false);
    check_attention(2, 9, 1, 0, true);
    check_attention(2, 9, 1, 4, true);
    check_attention(12, 9, 1, 4, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations_and_bytes),
                                       cmocka_unit_test(test_attention)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

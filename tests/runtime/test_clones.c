/* SPDX-License-Identifier: Apache-2.0 */
/* test_clones.c: what a session and its clones share, and that each goes its own way. */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* A state that runs leave as it is lies in one place for a session and its clones, until one of them sets it. */
static void test_clones(void **context) {
    (void)context;
    enum { ROWS = 9, SIDE = 4 };
    support_session on;
    ouro_session *clone, *second;
    ouro_error error;
    ouro_state_info info;
    const void *mine, *theirs;
    float keys[ROWS * SIDE], others[2 * SIDE], x[SIDE] = {1, 2, 3, 4}, sums[3][SIDE];
    const int64_t dims[] = {ROWS, SIDE}, other[] = {2, SIDE}, rows[] = {1, SIDE};
    uint64_t random = 5;
    for (int i = 0; i < ROWS * SIDE; i++) keys[i] = (float)(support_random(&random) % 9) - 4;
    for (int i = 0; i < 2 * SIDE; i++) others[i] = (float)i;
    support_session_open(
        &on,
        "module \"shared\" { symbol E symbol S constant %axis: int64[1] = {0}\n"
        " graph main(%keys: float32[E,4], %sum: float32[4], %x: float32[S,4]) states 2 {\n"
        "  %r: float32[4] = ReduceSum(%keys, %axis) {keepdims = 0} %q: float32[4] = ReduceSum(%x, "
        "%axis) {keepdims = 0}\n"
        "  %s: float32[4] = Add(%r, %q) %t: float32[4] = Add(%s, %sum) %o: float32[4] = Neg(%t) "
        "yield %keys, %t, %o } }",
        1);
    assert_int_equal(ouro_session_state_initial(on.session, 0, keys, sizeof keys, dims, &error), OURO_OK);
    assert_int_equal(ouro_session_state_reset(on.session, &error), OURO_OK);
    assert_int_equal(ouro_session_bind_input(on.session, 0, x, sizeof x, rows, &error), OURO_OK);
    assert_int_equal(ouro_session_run(on.session, &error), OURO_OK);
    assert_int_equal(ouro_session_clone(on.session, &clone, &error), OURO_OK);
    assert_int_equal(ouro_session_clone(clone, &second, &error), OURO_OK);
    ouro_session *const all[] = {on.session, clone, second};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(ouro_session_state_get(on.session, 0, &info, &mine, NULL), OURO_OK);
        assert_int_equal(ouro_session_state_get(all[k], 0, &info, &theirs, NULL), OURO_OK);
        assert_ptr_equal(mine, theirs);
        assert_memory_equal(theirs, keys, sizeof keys);
    }
    /* One goes its own way. */
    assert_int_equal(ouro_session_state_set(clone, 0, others, sizeof others, other, &error), OURO_OK);
    for (int k = 0; k < 3; k++) {
        ouro_tensor_info output;
        const void *data;
        assert_int_equal(ouro_session_bind_input(all[k], 0, x, sizeof x, rows, &error), OURO_OK);
        if (ouro_session_run(all[k], &error) != OURO_OK) fail_msg("%s", error.message);
        assert_int_equal(ouro_session_output(all[k], 0, &output, &data, NULL), OURO_OK);
        memcpy(sums[k], data, sizeof sums[k]);
    }
    assert_memory_equal(sums[0], sums[2], sizeof sums[0]);
    for (int i = 0; i < SIDE; i++) {
        float sum = 0, two = others[i] + others[SIDE + i];
        for (int r = 0; r < ROWS; r++) sum += keys[r * SIDE + i];
        assert_true(sums[0][i] == -2 * (sum + x[i]));
        assert_true(sums[1][i] == -(sum + 2 * x[i] + two));
    }
    /* Freed in any order; what resets make is shared, too. */
    ouro_session_free(on.session);
    assert_int_equal(ouro_session_state_reset(clone, &error), OURO_OK);
    assert_int_equal(ouro_session_state_get(clone, 0, &info, &theirs, NULL), OURO_OK);
    assert_memory_equal(theirs, keys, sizeof keys);
    ouro_session_free(clone);
    assert_int_equal(ouro_session_state_get(second, 0, &info, &theirs, NULL), OURO_OK);
    assert_memory_equal(theirs, keys, sizeof keys);
    ouro_session_free(second);
    on.session = NULL;
    support_session_close(&on);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

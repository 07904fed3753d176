/* SPDX-License-Identifier: Apache-2.0 */
/* plan_allocations.c: runs that may allocate nothing; see plan.h. A file by itself, as allocations are counted in programs that ask for it alone. */
#include "tests/support/allocations.h"
#include "tests/support/plan.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

void support_expect_no_allocations(const support_session *on) {
    if (!allocations_are_counted()) return;
    assert_int_equal(ouro_session_run(on->session, NULL), OURO_OK);
    const size_t before = allocations_count();
    assert_int_equal(ouro_session_run(on->session, NULL), OURO_OK);
    assert_int_equal(allocations_count() - before, 0);
}

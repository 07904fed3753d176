/* SPDX-License-Identifier: Apache-2.0 */
/* test_machine_name.c: what the machine is called is asked of oneDNN, which takes memory when it is asked first. Each of these
 * allocations fails, in a process of its own, as the answer is kept: nothing is thrown into C, the name is right or missing, and
 * asked again it is right. */
#include "runtime/kernels/table.h"
#include "tests/support/allocations.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct answer {
    size_t taken; /* allocations */
    bool missing;
    char name[64], again[64];
} answer;

/* Asks in a process that has not asked before; allocation number fail_at fails there, and all after it where `on`. */
static answer ask(size_t fail_at, bool on) {
    answer got = {0};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const size_t before = allocations_count();
        if (on) allocations_fail_at(fail_at);
        else allocations_fail_once(fail_at);
        got.missing = !rt_machine_describe(false, got.name, sizeof got.name);
        allocations_fail_at(0);
        got.taken = allocations_count() - before;
        rt_machine_describe(false, got.again, sizeof got.again);
        _exit(write(ends[1], &got, sizeof got) == (ssize_t)sizeof got ? 0 : 1);
    }
    close(ends[1]);
    const ssize_t count = read(ends[0], &got, sizeof got);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("allocation %zu%s: the process ended with %d", fail_at, on ? " and all after it" : "", status);
    assert_int_equal(count, sizeof got);
    return got;
}

static void the_name_is_right_or_missing(void **state) {
    (void)state;
    const answer whole = ask(0, false);
    assert_false(whole.missing);
    assert_string_equal(whole.again, whole.name);
    if (!allocations_are_counted()) return; /* sanitizers have an allocator of their own */
    for (size_t at = 1; at <= whole.taken; at++) {
        for (int on = 0; on < 2; on++) {
            const answer got = ask(at, on);
            if (!got.missing) assert_string_equal(got.name, whole.name);
            assert_string_equal(got.again, whole.name);
        }
    }
    print_message("%s: %zu allocations\n", whole.name, whole.taken);
}

static void a_portable_plan_asks_nobody(void **state) {
    (void)state;
    char name[64];
    const size_t before = allocations_count();
    assert_string_equal(rt_machine_describe(true, name, sizeof name), "portable");
    assert_int_equal(allocations_count(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_name_is_right_or_missing),
                                       cmocka_unit_test(a_portable_plan_asks_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

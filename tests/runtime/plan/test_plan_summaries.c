/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_summaries.c: the verifier replays a loop within a loop once for each state that it finds. What it says then is
 * compared with a replay that forgets nothing: on nests of loops of several kinds, and on these plans changed at random. Deep nests
 * are verified at all. */
#include "tests/support/mutate.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_TEXT = 1 << 17, ROUNDS = 400 };

#define T "float32[4,4]"

/* What a nest does around the loop inside of it; "#" is the nesting depth, "^" that of the loop inside. Each loop carries %x# and
 * %y#, and leaves %p^ and %q^. */
typedef struct nest_kind {
    const char *name, *inside, *before, *after;
} nest_kind;

static const nest_kind kinds[] = {
    {"made in place", "%p^: " T " = Relu(%x#) %q^: " T " = Neg(%y#) yield %k#, %p^, %q^", "",
     "yield %k#, %p^, %q^"},
    {"not in place", "%p^: " T " = MatMul(%x#, %y#) yield %k#, %p^, %y#", "", "yield %k#, %p^, %q^"},
    {"swapped at each level", "%p^: " T " = MatMul(%x#, %y#) %q^: " T " = Relu(%y#) yield %k#, %q^, %p^", "",
     "yield %k#, %q^, %p^"},
    {"values of outer loops are read inside",
     "%p^: " T " = MatMul(%x#, %x0) %q^: " T " = Add(%y#, %y0) yield %k#, %p^, %q^", "",
     "%r#: " T " = Add(%p^, %x#) yield %k#, %r#, %q^"},
    {"made before, and read after", "%p^: " T " = MatMul(%x#, %y#) yield %k#, %p^, %x#",
     "%e#: " T " = Exp(%x#)", "%r#: " T " = Sub(%p^, %e#) %s#: " T " = Add(%q^, %y#) yield %k#, %r#, %s#"},
    {"branches", "%p^: " T " = MatMul(%x#, %y#) yield %k#, %p^, %y#", "",
     "%r#: " T " = If(%go) { graph yes#() { %f#: " T " = MatMul(%p^, %x#) yield %f# } graph no#() { yield "
     "%p^ } } yield %k#, %r#, %q^"},
};

/* Appends the text with "#" and "^" replaced. */
static void append(char *text, const char *what, int depth) {
    char *at = text + strlen(text);
    for (; *what; what++) {
        assert_true(at - text < MOST_TEXT - 16);
        if (*what == '#') at += sprintf(at, "%d", depth);
        else if (*what == '^') at += sprintf(at, "%d", depth + 1);
        else *at++ = *what;
    }
    *at = 0;
}

static char *nest(const nest_kind *kind, int depth) {
    char *text = calloc(1, MOST_TEXT);
    assert_non_null(text);
    append(text,
           "module \"nest\" {\n graph main(%n: int64[], %go: bool[], %a: " T ", %b: " T ") { %x: " T
           " = Neg(%a) %y: " T " = Neg(%b)\n",
           0);
    for (int i = 0; i < depth; i++) {
        append(text, "%p#: " T ", %q#: " T " = Loop(%n, _, %x", i);
        if (i) append(text, "#, %y#", i - 1);
        else append(text, ", %y", i);
        append(text, ") { graph body#(%i#: int64[], %k#: bool[], %x#: " T ", %y#: " T ") { ", i);
        if (i + 1 < depth) append(text, kind->before, i);
        append(text, "\n", i);
    }
    append(text, kind->inside, depth - 1);
    append(text, " } }\n", depth);
    for (int i = depth - 2; i >= 0; i--) {
        append(text, kind->after, i);
        append(text, " } }\n", i);
    }
    append(text, "%r: " T " = Sub(%p0, %q0) yield %r } }\n", 0);
    return text;
}

static bool opens(unsigned char *bytes, size_t size, bool *fully) {
    plan opened;
    base_report report = {0};
    if (plan_open(bytes, size, "nest.plan", &rt_plan_host, NULL, NULL, &opened, &report) != BASE_OK)
        return false;
    *fully = plan_check_fully(&opened, &report) == BASE_OK;
    if (!*fully) print_message("%s", report.text);
    plan_close(&opened);
    return true;
}

static void changed_nests_are_judged_alike(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int depth = 2; depth <= 4; depth++) {
            size_t size, opened = 0, refused = 0;
            char *text = nest(&kinds[k], depth);
            unsigned char *good = support_plan(text, true, &size);
            unsigned char *bytes = aligned_alloc(64, (size + 63) / 64 * 64);
            bool fully;
            assert_non_null(bytes);
            memcpy(bytes, good, size);
            assert_true(opens(bytes, size, &fully));
            assert_true(fully);
            for (uint64_t round = 0; round < support_share(ROUNDS); round++) {
                uint64_t random = round * 31 + (uint64_t)depth;
                memcpy(bytes, good, size);
                for (uint64_t i = 0; i < 1 + round % 2; i++) {
                    const uint64_t a = support_random(&random), b = support_random(&random);
                    const support_edit edit = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b,
                                               (uint32_t)(b >> 32)};
                    support_edit_apply(bytes, size, &edit);
                }
                support_plan_seal(bytes, size);
                if (!opens(bytes, size, &fully)) {
                    refused++;
                    continue;
                }
                opened++;
                assert_true(fully);
            }
            print_message("%s, %d deep: %zu refused, %zu valid\n", kinds[k].name, depth, refused, opened);
            assert_true(opened > 0 && refused > 0);
            free(bytes);
            free(good);
            free(text);
        }
    }
}

/* What plan_open says of the plan of a nest. */
static base_status verify_nest(const nest_kind *kind, int depth, base_report *report) {
    plan opened;
    size_t size;
    char *text = nest(kind, depth);
    unsigned char *bytes = support_plan(text, true, &size);
    *report = (base_report){0};
    const base_status status =
        plan_open(bytes, size, "nest.plan", &rt_plan_host, NULL, NULL, &opened, report);
    if (status == BASE_OK) plan_close(&opened);
    free(bytes);
    free(text);
    return status;
}

static void deep_nests_are_verified(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        base_report report;
        if (verify_nest(&kinds[k], k == 3 ? 10 : 95, &report) != BASE_OK)
            fail_msg("%s: %s", kinds[k].name, report.text);
    }
}

/* Where the innermost loop reads values of all around it, each of which is a first or a later one, the combinations double from loop
 * to loop: refused with the limit, soon. */
static void nests_beyond_the_limit_are_refused(void **state) {
    (void)state;
    enum { DEPTH = 40 };
    base_report report;
    char inside[64 * (DEPTH + 2)];
    nest_kind kind = {.name = "values of all loops are read",
                      .inside = inside,
                      .before = "",
                      .after = "yield %k#, %p^, %q^"};
    int at = sprintf(inside, "%%s0: " T " = MatMul(%%x#, %%x0) ");
    for (int i = 1; i < DEPTH - 1; i++)
        at += sprintf(inside + at, "%%s%d: " T " = MatMul(%%s%d, %%x%d) ", i, i - 1, i);
    sprintf(inside + at, "%%q^: " T " = Relu(%%y#) yield %%k#, %%s%d, %%q^", DEPTH - 2);
    assert_int_equal(verify_nest(&kind, DEPTH, &report), BASE_INVALID);
    assert_non_null(strstr(report.text, "nested too deep: that takes more than "));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(changed_nests_are_judged_alike),
                                       cmocka_unit_test(deep_nests_are_verified),
                                       cmocka_unit_test(nests_beyond_the_limit_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernel_table.c: the table of kernels: names, backends, and that every operator that runs has one. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char *prefix_of(rt_backend backend) {
    return backend == RT_BACKEND_ONEDNN ? "onednn." : "portable.";
}

static void names_begin_with_the_backend(void **state) {
    (void)state;
    for (int code = OP_CODE_NONE + 1; code < OP_CODE_COUNT; code++) {
        const rt_kernel *kernel;
        for (unsigned i = 0; (kernel = rt_kernel_candidate((op_code)code, i)); i++) {
            const char *prefix = prefix_of(kernel->backend);
            assert_memory_equal(kernel->name, prefix, strlen(prefix));
            assert_ptr_equal(rt_kernel_find(kernel->name), kernel);
        }
    }
    assert_null(rt_kernel_find("portable.nothing"));
    assert_null(rt_kernel_find(""));
}

/* What has no portable kernel is an address, owns graphs, or is done by the executor on sequences and optionals. */
static void every_operator_that_runs_has_a_portable_kernel(void **state) {
    (void)state;
    for (int code = OP_CODE_NONE + 1; code < OP_CODE_COUNT; code++) {
        const op_schema *schema = op_schema_of((op_code)code);
        bool portable = false;
        const rt_kernel *kernel;
        for (unsigned i = 0; (kernel = rt_kernel_candidate((op_code)code, i)); i++)
            portable = portable || kernel->backend == RT_BACKEND_PORTABLE;
        if (schema->view == OP_VIEW_NONE && !(schema->flags & OP_FLAG_GRAPHS) &&
            schema->family != OP_FAMILY_SEQUENCE)
            assert_true(portable);
    }
}

/* CMake knows kernels by the names in ops.def and candidates.def, plans by those that they have at run time: these are the same. */
static void tables_and_plans_call_kernels_the_same(void **state) {
    (void)state;
#define SAME(name) assert_ptr_equal(rt_kernel_find("portable." #name), &rt_kernel_##name);
#define ONEDNN
#define OWN
#define KERNEL(name) SAME(name)
#define CANDIDATES(code, kernels) kernels
#include "runtime/kernels/candidates.def"
#define OP(code, text, domain, since, imin, imax, omin, omax, attributes, inference, in_place, view, flags,  \
           kernel, family)                                                                                   \
    if (&rt_kernel_##kernel != &rt_kernel_none) SAME(kernel)
#include "ir/operators/ops.def"
}

/* Whatever a kernel may predict of itself, a portable plan has none of another backend. */
static void portable_plans_allow_the_portable_backend_alone(void **state) {
    (void)state;
    const rt_environment any = {.threads = 1}, portable = {.threads = 1, .portable_only = true};
    const rt_kernel foreign = {.name = "onednn.foreign", .backend = RT_BACKEND_ONEDNN};
    const rt_kernel own = {.name = "portable.own"};
    assert_true(rt_kernel_allowed(&foreign, &any));
    assert_false(rt_kernel_allowed(&foreign, &portable));
    assert_true(rt_kernel_allowed(&own, &portable));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_begin_with_the_backend),
        cmocka_unit_test(every_operator_that_runs_has_a_portable_kernel),
        cmocka_unit_test(tables_and_plans_call_kernels_the_same),
        cmocka_unit_test(portable_plans_allow_the_portable_backend_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

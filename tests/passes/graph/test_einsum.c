/* SPDX-License-Identifier: Apache-2.0 */
/* test_einsum.c: random equations give the same as products of matrices, which they are lowered to, and from the kernel
 * that adds up one product after another. Small integers, so that every order of summation is exact. */
#include "tests/support/support.h"
#include "tests/support/operators.h"
#include "tests/support/plan.h"
#include "runtime/kernels/table.h"
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { SEED = 20261121, ROUNDS = 400, LABELS = 6, MOST = 4096 };

typedef struct equation {
    char text[64];
    int rank[2];
    int64_t dims[2][OP_MAX_RANK];
    int labels[2][OP_MAX_RANK];
    unsigned open; /* labels whose extents only a run knows */
} equation;

/* Up to four labels in each operand, none twice; the result has some of them in any order. Extents from `least` on; the labels of `open`
 * have names in place of them. */
static void make_equation(test_random *random, int64_t least, unsigned open, equation *e) {
    int64_t extents[LABELS];
    e->open = open;
    char output[LABELS + 1];
    int outputs = 0;
    unsigned used = 0;
    size_t length = 0;
    for (int i = 0; i < LABELS; i++) extents[i] = least + (int64_t)(test_random_next(random) % 4);
    for (int o = 0; o < 2; o++) {
        unsigned own = 0;
        e->rank[o] = 0;
        if (o) e->text[length++] = ',';
        for (int wanted = (int)(test_random_next(random) % 5); e->rank[o] < wanted;) {
            unsigned label = (unsigned)(test_random_next(random) % LABELS);
            if (own >> label & 1) continue;
            own |= 1u << label;
            e->text[length++] = (char)('a' + label);
            e->labels[o][e->rank[o]] = (int)label;
            e->dims[o][e->rank[o]++] = extents[label];
        }
        used |= own;
    }
    for (int i = 0; i < LABELS; i++) {
        if (!(used >> i & 1) || test_random_next(random) % 3 == 0) continue;
        int at = (int)(test_random_next(random) % (unsigned)(outputs + 1));
        memmove(output + at + 1, output + at, (size_t)(outputs - at));
        output[at] = (char)('a' + i);
        outputs++;
    }
    snprintf(e->text + length, sizeof e->text - length, "->%.*s", outputs, output);
}

/* How many products the equation became; *left: it stayed, or became none. The values of a plan are those of the kernel. */
static size_t compare(test_random *random, const equation *e, bool *left) {
    char text[512], dims[2][64];
    static float data[2][MOST];
    size_t products = 0;
    base_arena arena;
    base_arena_init(&arena, NULL);
    op_tensor inputs[2] = {0}, output = {0};
    for (int o = 0; o < 2; o++) {
        size_t elements = 1, used = 0;
        dims[o][0] = 0;
        for (int d = 0; d < e->rank[o]; d++) {
            elements *= (size_t)e->dims[o][d];
            const bool open = e->open >> e->labels[o][d] & 1;
            used += (size_t)snprintf(dims[o] + used, sizeof dims[o] - used, "%s%s%d", d ? "," : "",
                                     open ? "extent" : "", open ? e->labels[o][d] : (int)e->dims[o][d]);
        }
        for (size_t i = 0; i < elements; i++) data[o][i] = (float)(test_random_next(random) % 9) - 4;
        inputs[o] = (op_tensor){.type = {.dtype = OP_FLOAT, .shape = {.rank = e->rank[o]}},
                                .bytes = elements * sizeof(float),
                                .data = data[o]};
        memcpy(inputs[o].type.shape.dims, e->dims[o], (size_t)e->rank[o] * sizeof *e->dims[o]);
    }
    op_attribute attribute = {
        .name = "equation", .kind = OP_ATTRIBUTE_STRING, .count = 1, .as.text = {e->text, strlen(e->text)}};
    op_call call = {.code = OP_EINSUM,
                    .attributes = {1, &attribute},
                    .input_count = 2,
                    .output_count = 1,
                    .inputs = inputs,
                    .outputs = &output};
    rt_environment environment = {.threads = 1};
    base_report report = {0};
    if (op_infer(&call, &report) != BASE_OK ||
        rt_kernel_evaluate(&call, &environment, &arena, &report) != BASE_OK)
        fail_msg("%s: %s", e->text, report.text);
    snprintf(text, sizeof text,
             "module \"einsum\" { graph main(%%a: float32[%s], %%b: float32[%s]) {\n"
             "%%y: ? = Einsum(%%a, %%b) {equation = \"%s\"}\nyield %%y } }\n",
             dims[0], dims[1], e->text);
    support_session on;
    support_session_open(&on, text, 1);
    const plan *made = rt_plan_of(on.plan);
    *left = false;
    for (uint64_t n = 0; n < made->header->nodes.count; n++) {
        *left = *left || plan_node_code(made, &made->nodes[n]) == OP_EINSUM;
        products += plan_node_code(made, &made->nodes[n]) == OP_MATMUL;
    }
    for (size_t o = 0; o < 2; o++) {
        ouro_error error;
        if (ouro_session_bind_input(on.session, o, data[o], inputs[o].bytes, e->dims[o], &error) != OURO_OK)
            fail_msg("%s of [%s] and [%s]: %s", e->text, dims[0], dims[1], error.message);
    }
    support_run(&on);
    if (memcmp(support_output(&on, 0, output.bytes), output.data, output.bytes) != 0)
        fail_msg("%s of [%s] and [%s] differs", e->text, dims[0], dims[1]);
    support_session_close(&on);
    base_arena_free(&arena);
    return products;
}

static void products_are_what_equations_say(void **state) {
    (void)state;
    test_random random = {SEED};
    size_t products = 0;
    printf("seed %d\n", SEED);
    for (int round = 0; round < ROUNDS; round++) {
        equation e = {0};
        bool left;
        make_equation(&random, 1, 0, &e);
        products += compare(&random, &e, &left);
        assert_false(left);
    }
    assert_true(products > ROUNDS / 2);
}

/* Some extents, or all, are known to a run alone, and may be 0 there. Most equations are products all the same. */
static void extents_may_be_open(void **state) {
    (void)state;
    test_random random = {SEED + 1};
    size_t products = 0, stayed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        equation e = {0};
        bool left;
        make_equation(&random, round % 4 != 0, (unsigned)(test_random_next(&random) % (1 << LABELS)), &e);
        products += compare(&random, &e, &left);
        stayed += left;
    }
    printf("of %d equations %zu became products, %zu stayed\n", ROUNDS, products, stayed);
    assert_true(products > ROUNDS / 4 && stayed < ROUNDS / 2);
}

/* What attention is written with: no Einsum stays, whatever is open. */
static void attention_with_open_extents_is_products(void **state) {
    (void)state;
    static const struct {
        const char *equation, *a, *b;
    } cases[] = {
        {"bhid,bhjd->bhij", "batch,8,n,64", "batch,8,m,64"},
        {"bhij,bhjd->bhid", "batch,8,n,m", "batch,8,m,64"},
        {"bqhd,bkhd->bhqk", "batch,n,8,64", "batch,m,8,64"},
        {"bhqk,bkhd->bqhd", "batch,8,n,m", "batch,m,8,64"},
        {"bnd,dhk->bnhk", "batch,n,64", "64,4,16"},
        {"bnhk,hkd->bnd", "batch,n,4,16", "4,16,64"},
        {"...id,...jd->...ij", "batch,8,n,64", "batch,8,m,64"},
        {"bld,dn->bln", "batch,n,64", "64,16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "module \"einsum\" { graph main(%%a: float32[%s], %%b: float32[%s]) {\n"
                 "%%y: ? = Einsum(%%a, %%b) {equation = \"%s\"}\nyield %%y } }\n",
                 cases[i].a, cases[i].b, cases[i].equation);
        support_session on;
        support_session_open(&on, text, 1);
        const plan *made = rt_plan_of(on.plan);
        for (uint64_t n = 0; n < made->header->nodes.count; n++)
            if (plan_node_code(made, &made->nodes[n]) == OP_EINSUM) fail_msg("%s stays", cases[i].equation);
        support_session_close(&on);
    }
}

/* Diagonals and broadcast extents are left to the kernel. */
static void what_is_no_product_stays(void **state) {
    (void)state;
    static const char *const texts[] = {
        "%a: float32[3,3], %b: float32[3,4]) {\n%y: ? = Einsum(%a, %b) {equation = \"ii,ij->j\"}",
        "%a: float32[1,3], %b: float32[5,3,4]) {\n%y: ? = Einsum(%a, %b) {equation = \"...j,...jk->...k\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[512];
        support_session on;
        static const float ones[60] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        snprintf(text, sizeof text, "module \"einsum\" { graph main(%s\nyield %%y } }\n", texts[i]);
        support_session_open(&on, text, 1);
        const plan *made = rt_plan_of(on.plan);
        assert_int_equal(plan_node_code(made, &made->nodes[0]), OP_EINSUM);
        support_bind(&on, 0, ones, i ? 12 : 36);
        support_bind(&on, 1, ones, i ? 240 : 48);
        support_run(&on);
        const float *y = support_output(&on, 0, i ? 80 : 16);
        assert_true(y[0] == 3);
        support_session_close(&on);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_what_equations_say),
                                       cmocka_unit_test(extents_may_be_open),
                                       cmocka_unit_test(attention_with_open_extents_is_products),
                                       cmocka_unit_test(what_is_no_product_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

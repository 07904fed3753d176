/* SPDX-License-Identifier: Apache-2.0 */
/* test_einsum.c: random equations, as what they are lowered to and by the kernel alone, give what their definition says. Small whole numbers, so
 * that every order of summation is exact. */
#include "tests/support/support.h"
#include "tests/support/operators.h"
#include "tests/support/plan.h"
#include "runtime/kernels/table.h"
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum {
    SEED = 20261121,
    ROUNDS = 1500,
    LABELS = 6,
    DOTS = 2,
    ALL = LABELS + DOTS,
    OPERANDS = 4,
    MOST = 20000
};

typedef struct equation {
    char text[96];
    int operands, output_rank;
    int output[ALL];
    int64_t extents[ALL];
    int rank[OPERANDS];
    int labels[OPERANDS][OP_MAX_RANK]; /* those of the ellipsis from LABELS on */
    int64_t dims[OPERANDS][OP_MAX_RANK];
} equation;

/* What may be in an equation. */
typedef struct choice {
    int operands; /* at most */
    bool twice, ones, dots;
    int64_t least, range; /* extents from `least` on, below `least + range` */
    int labels, letters;  /* how many there are, and at most in an operand */
} choice;

static bool one_in(test_random *random, int64_t count) {
    return test_random_below(random, count) == 0;
}

static void make_operand(test_random *random, const choice *kinds, equation *e, int o, size_t *length) {
    const int letters = (int)test_random_below(random, e->operands > 2 ? 4 : kinds->letters + 1);
    const int dots = kinds->dots ? (int)test_random_below(random, letters ? DOTS + 1 : 1) : 0;
    const int at = kinds->dots ? (int)test_random_below(random, letters + 1) : -1;
    unsigned own = 0;
    e->rank[o] = 0;
    if (o) e->text[(*length)++] = ',';
    for (int i = 0; i <= letters; i++) {
        if (i == at) {
            memcpy(e->text + *length, "...", 3);
            *length += 3;
            for (int k = dots; k-- > 0;) e->labels[o][e->rank[o]++] = LABELS + k;
        }
        if (i == letters) break;
        int label = (int)test_random_below(random, kinds->labels);
        while (own >> label & 1 && !(kinds->twice && one_in(random, 6)))
            label = (int)test_random_below(random, kinds->labels);
        own |= 1u << label;
        e->text[(*length)++] = (char)('a' + label);
        e->labels[o][e->rank[o]++] = label;
    }
    for (int d = 0; d < e->rank[o]; d++)
        e->dims[o][d] = kinds->ones && one_in(random, 5) ? 1 : e->extents[e->labels[o][d]];
}

/* The result has some of the labels in any order. */
static void make_equation(test_random *random, const choice *kinds, equation *e) {
    unsigned used = 0;
    size_t length = 0;
    *e = (equation){.operands = 1 + (int)test_random_below(random, kinds->operands)};
    for (int i = 0; i < ALL; i++) e->extents[i] = kinds->least + test_random_below(random, kinds->range);
    for (int o = 0; o < e->operands; o++) {
        make_operand(random, kinds, e, o, &length);
        for (int d = 0; d < e->rank[o]; d++) used |= 1u << e->labels[o][d];
    }
    for (int i = 0; i < ALL; i++) { /* an extent that is 1 in all operands is 1 */
        bool there = false;
        for (int o = 0; o < e->operands; o++)
            for (int d = 0; d < e->rank[o]; d++)
                there = there || (e->labels[o][d] == i && e->dims[o][d] == e->extents[i]);
        if (!there) e->extents[i] = 1;
    }
    char output[ALL + 4];
    int outputs = 0;
    for (int i = 0; i < LABELS; i++) {
        if (!(used >> i & 1) || one_in(random, 3)) continue;
        const int at = (int)test_random_below(random, outputs + 1);
        memmove(output + at + 1, output + at, (size_t)(outputs - at));
        output[at] = (char)('a' + i);
        outputs++;
    }
    memcpy(e->text + length, "->", 2);
    length += 2;
    const int at = kinds->dots && !one_in(random, 4) ? (int)test_random_below(random, outputs + 1) : -1;
    for (int i = 0; i <= outputs; i++) {
        if (i == at) {
            memcpy(e->text + length, "...", 3);
            length += 3;
            for (int k = DOTS; k-- > 0;)
                if (used >> (LABELS + k) & 1) e->output[e->output_rank++] = LABELS + k;
        }
        if (i == outputs) break;
        e->text[length++] = output[i];
        e->output[e->output_rank++] = output[i] - 'a';
    }
}

/* The element of operand o (or of the result, o is -1) that these labels' indices are of. */
static int64_t element_of(const equation *e, int o, const int64_t *index) {
    const int rank = o < 0 ? e->output_rank : e->rank[o];
    int64_t at = 0;
    for (int d = 0; d < rank; d++) {
        const int label = o < 0 ? e->output[d] : e->labels[o][d];
        const int64_t extent = o < 0 ? e->extents[label] : e->dims[o][d];
        at = at * extent + (extent == 1 ? 0 : index[label]);
    }
    return at;
}

/* The definition: the products of all combinations of indices are added to the element of the result that is theirs. */
static void define(const equation *e, const op_tensor *inputs, int64_t *sums) {
    int64_t index[ALL] = {0}, combinations = 1, used[ALL];
    for (int i = 0; i < ALL; i++) {
        used[i] = 1;
        for (int o = 0; o < e->operands; o++)
            for (int d = 0; d < e->rank[o]; d++)
                if (e->labels[o][d] == i) used[i] = e->extents[i];
        combinations *= used[i];
    }
    for (int64_t c = 0; c < combinations; c++) {
        int64_t product = 1, rest = c;
        for (int i = 0; i < ALL; rest /= used[i++]) index[i] = rest % used[i];
        for (int o = 0; o < e->operands; o++)
            product *= (int64_t)test_real(&inputs[o], element_of(e, o, index));
        sums[element_of(e, -1, index)] += product;
    }
}

/* "float32[...]"; an extent that is open has a name: the label's own, or, where it is another one there or `apart`, one for this operand. */
static void print_type(const equation *e, int o, op_dtype dtype, unsigned open, bool apart, char *text,
                       size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s[", op_dtype_name(dtype));
    for (int d = 0; d < e->rank[o]; d++) {
        const int label = e->labels[o][d];
        if (d) used += (size_t)snprintf(text + used, size - used, ",");
        if (!(open >> label & 1))
            used += (size_t)snprintf(text + used, size - used, "%d", (int)e->dims[o][d]);
        else if (apart || e->dims[o][d] != e->extents[label])
            used += (size_t)snprintf(text + used, size - used, "own%d_%d", o, d);
        else used += (size_t)snprintf(text + used, size - used, "extent%d", label);
    }
    snprintf(text + used, size - used, "]");
}

static void fail_where(const equation *e, const char *text, const char *what, int64_t at) {
    fail_msg("%s: element %d of %s differs in\n%s", e->text, (int)at, what, text);
}

static void check(const equation *e, const op_tensor *made, const int64_t *sums, const char *text,
                  const char *what) {
    op_tensor one = {.type = {.dtype = made->type.dtype}};
    _Alignas(16) char element[16];
    one.data = element;
    for (int64_t i = 0; i < test_elements(made); i++) {
        test_set(&one, 0, (double)sums[i]); /* integers wrap around */
        if (!(test_real(made, i) == test_real(&one, 0))) fail_where(e, text, what, i);
    }
}

/* The kernel, on 1 to 5 threads. */
static void check_kernel(const equation *e, op_call *call, const int64_t *sums, const char *text,
                         base_arena *arena) {
    base_report report = {0};
    for (int threads = 1; threads <= 5; threads++) {
        rt_environment environment = {.threads = threads};
        if (op_infer(call, &report) != BASE_OK ||
            rt_kernel_evaluate(call, &environment, arena, &report) != BASE_OK)
            fail_msg("%s: %s", e->text, report.text);
        check(e, &call->outputs[0], sums, text, "the kernel's result");
    }
}

/* How many nodes of its plan are Einsum; `plain` asks for the kernel, too. */
static size_t compare(test_random *random, const equation *e, op_dtype dtype, unsigned open, bool apart) {
    char text[768], type[96];
    static char data[OPERANDS][MOST * 8];
    static int64_t sums[MOST * 16];
    const size_t size = op_dtype_bytes(dtype);
    const bool half = dtype == OP_FLOAT16 || dtype == OP_BFLOAT16;
    const bool natural = dtype == OP_UINT8 || dtype == OP_UINT32 || dtype == OP_UINT64;
    const int64_t values = half ? 2 : 9, least = half || natural ? 0 : -4;
    op_tensor inputs[OPERANDS] = {0}, output = {0};
    base_arena arena;
    base_arena_init(&arena, NULL);
    size_t used = (size_t)snprintf(text, sizeof text, "module \"einsum\" { graph main("), stayed = 0;
    for (int o = 0; o < e->operands; o++) {
        inputs[o] = (op_tensor){.type = {.dtype = dtype, .shape = {.rank = e->rank[o]}}, .data = data[o]};
        memcpy(inputs[o].type.shape.dims, e->dims[o], (size_t)e->rank[o] * sizeof *e->dims[o]);
        const int64_t elements = test_elements(&inputs[o]);
        assert_true(elements <= MOST);
        inputs[o].bytes = (size_t)elements * size;
        for (int64_t i = 0; i < elements; i++)
            test_set(&inputs[o], i, (double)(test_random_below(random, values) + least));
        print_type(e, o, dtype, open, apart, type, sizeof type);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%%x%d: %s", o ? ", " : "", o, type);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, ") {\n%%y: ? = Einsum(");
    for (int o = 0; o < e->operands; o++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%%x%d", o ? ", " : "", o);
    snprintf(text + used, sizeof text - used, ") {equation = \"%s\"}\nyield %%y } }\n", e->text);
    op_attribute attribute = {
        .name = "equation", .kind = OP_ATTRIBUTE_STRING, .count = 1, .as.text = {e->text, strlen(e->text)}};
    op_call call = {.code = OP_EINSUM,
                    .attributes = {1, &attribute},
                    .input_count = (uint32_t)e->operands,
                    .output_count = 1,
                    .inputs = inputs,
                    .outputs = &output};
    memset(sums, 0, sizeof sums);
    define(e, inputs, sums);
    check_kernel(e, &call, sums, text, &arena);
    support_session on;
    support_session_open(&on, text, 1 + (int)test_random_below(random, 5));
    const plan *made = rt_plan_of(on.plan);
    for (uint64_t n = 0; n < made->header->nodes.count; n++)
        stayed += plan_node_code(made, &made->nodes[n]) == OP_EINSUM;
    for (int o = 0; o < e->operands; o++) {
        ouro_error error;
        if (ouro_session_bind_input(on.session, (size_t)o, data[o], inputs[o].bytes, e->dims[o], &error) !=
            OURO_OK)
            fail_msg("%s: %s\n%s", e->text, error.message, text);
    }
    support_run(&on);
    output.data = (void *)(uintptr_t)support_output(&on, 0, output.bytes);
    check(e, &output, sums, text, "the plan's result");
    support_session_close(&on);
    base_arena_free(&arena);
    return stayed;
}

/* Extents that are known, in every type. Without a label twice nothing stays, but for integers of 8 and 16 bits, and for products of floats that lie
 * side by side. */
static void equations_are_what_they_are_lowered_to(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT,  OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16, OP_INT32,
                                      OP_UINT32, OP_INT64, OP_UINT64, OP_INT8,    OP_INT16,    OP_UINT8};
    test_random random = {SEED};
    printf("seed %d\n", SEED);
    for (int round = 0; round < ROUNDS; round++) {
        equation e;
        const choice kinds = {.operands = OPERANDS,
                              .twice = round % 3 == 1,
                              .ones = round % 2,
                              .dots = round % 5 == 0,
                              .least = 1,
                              .range = 4,
                              .labels = LABELS,
                              .letters = 4};
        const op_dtype dtype = dtypes[test_random_below(&random, (int64_t)(sizeof dtypes / sizeof *dtypes))];
        make_equation(&random, &kinds, &e);
        const size_t stayed = compare(&random, &e, dtype, 0, false);
        const bool wide = op_dtype_bytes(dtype) > 2 && dtype != OP_FLOAT;
        if (!kinds.twice && stayed && wide) fail_msg("%s stays", e.text);
    }
}

/* Some extents, or all, are known to a run alone, and may be 0 or 1 there. Most equations are lowered all the same. */
static void extents_may_be_open(void **state) {
    (void)state;
    test_random random = {SEED + 1};
    size_t stayed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        equation e;
        const choice kinds = {.operands = OPERANDS,
                              .twice = round % 3 == 1,
                              .ones = round % 4 == 1,
                              .dots = round % 5 == 0,
                              .least = round % 4 != 0,
                              .range = 4,
                              .labels = LABELS,
                              .letters = 4};
        make_equation(&random, &kinds, &e);
        stayed += compare(&random, &e, round % 7 ? OP_FLOAT : OP_INT64,
                          (unsigned)test_random_below(&random, 1 << ALL), round % 6 == 0) > 0;
    }
    printf("of %d equations %zu stayed in part\n", ROUNDS, stayed);
    assert_true(stayed < ROUNDS / 3);
}

/* Matrices of some size, and stacks of these: products from where operands lie and from copies, rows times rows, sums of lines. */
static void larger_extents(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT, OP_FLOAT, OP_DOUBLE, OP_INT32, OP_INT16};
    test_random random = {SEED + 2};
    for (int round = 0; round < ROUNDS / 3; round++) {
        const bool longer = round % 7 < 2; /* than the nest of loops takes neighbours at once */
        equation e;
        const choice kinds = {.operands = 2,
                              .twice = round % 5 == 1,
                              .ones = round % 4 == 1,
                              .least = 1,
                              .range = longer ? 130 : 15,
                              .labels = longer ? 2 : 4,
                              .letters = longer ? 2 : 3};
        make_equation(&random, &kinds, &e);
        compare(&random, &e, dtypes[round % 6], (unsigned)test_random_below(&random, 1 << ALL),
                round % 4 == 0);
    }
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
        {"ibnd,jbnd->bnij", "64,batch,4,64", "128,1,4,64"},
        {"ibnd,jbnd->bnij", "n,1,4,64", "m,batch,4,64"},
        {"bhld,lhd->bhl", "batch,8,n,64", "n,8,64"},
        {"bqhd,bkhd->bhqk", "batch,n,8,64", "others,m,8,64"},
        {"bd,bn->bdn", "batch,d", "batch,n"},
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equations_are_what_they_are_lowered_to), cmocka_unit_test(extents_may_be_open),
        cmocka_unit_test(larger_extents), cmocka_unit_test(attention_with_open_extents_is_products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

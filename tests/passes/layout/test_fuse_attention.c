/* SPDX-License-Identifier: Apache-2.0 */
/* test_fuse_attention.c: attention as exporters write it, in many forms, is one node, and gives what its products and its softmax give;
 * what looks like it, but is not, stays as it is. */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LENGTH = 4096 };

typedef struct form {
    int tokens, heads, width;
    bool by_heads[3];  /* queries, keys and values come with heads before tokens */
    const char *scale; /* what is done with the products %s, to make %d; NULL: nothing */
    const char *mask;  /* the type of the mask; NULL: there is none */
    bool mask_first;   /* of the operands of Add */
    const char *more;  /* results beside %y */
    int axis;          /* of Softmax */
    int threads;       /* 0: one */
    bool one;          /* it becomes one node */
} form;

static char *text_of(const form *f) {
    static const char *const names[] = {"q", "k", "v"};
    char *text = malloc(LENGTH), mask[96] = "";
    assert_non_null(text);
    size_t at = 0;
#define APPEND(...) (at += (size_t)snprintf(text + at, LENGTH - at, __VA_ARGS__))
    const int t = f->tokens, h = f->heads, w = f->width;
    if (f->mask) (void)snprintf(mask, sizeof mask, ", %%mask: float32%s", f->mask);
    APPEND("module \"m\" {\n constant %%c: float32[] = {1.25}\n constant %%four: float32[4,1,1] = {1.25, "
           "0.5, 1.0, 2.0}\n"
           " constant %%names: int64[4] = {1, %d, %d, %d}\n constant %%joined: int64[3] = {1, %d, %d}\n "
           "graph main(",
           t, h, w, t, h * w);
    for (int i = 0; i < 3; i++) {
        if (f->by_heads[i]) APPEND("%s%%%sh: float32[1,%d,%d,%d]", i ? ", " : "", names[i], h, t, w);
        else APPEND("%s%%%s: float32[1,%d,%d]", i ? ", " : "", names[i], t, h * w);
    }
    APPEND("%s) {\n", mask);
    for (int i = 0; i < 3; i++) {
        if (f->by_heads[i]) continue;
        APPEND(" %%%st: float32[1,%d,%d,%d] = Reshape(%%%s, %%names)\n", names[i], t, h, w, names[i]);
        if (i == 1) APPEND(" %%kx: float32[1,%d,%d,%d] = Transpose(%%kt) {perm = [0, 2, 3, 1]}\n", h, w, t);
        else
            APPEND(" %%%sh: float32[1,%d,%d,%d] = Transpose(%%%st) {perm = [0, 2, 1, 3]}\n", names[i], h, t,
                   w, names[i]);
    }
    if (f->by_heads[1])
        APPEND(" %%kx: float32[1,%d,%d,%d] = Transpose(%%kh) {perm = [0, 1, 3, 2]}\n", h, w, t);
    APPEND(" %%s: float32[1,%d,%d,%d] = MatMul(%%qh, %%kx)\n", h, t, t);
    if (f->scale) APPEND(" %%d: float32[1,%d,%d,%d] = %s\n", h, t, t, f->scale);
    const char *scores = f->scale ? "%d" : "%s";
    if (f->mask)
        APPEND(" %%m: float32[1,%d,%d,%d] = Add(%s, %s)\n", h, t, t, f->mask_first ? "%mask" : scores,
               f->mask_first ? scores : "%mask");
    APPEND(" %%p: float32[1,%d,%d,%d] = Softmax(%s) {axis = %d}\n", h, t, t, f->mask ? "%m" : scores,
           f->axis);
    APPEND(" %%a: float32[1,%d,%d,%d] = MatMul(%%p, %%vh)\n", h, t, w);
    APPEND(" %%at: float32[1,%d,%d,%d] = Transpose(%%a) {perm = [0, 2, 1, 3]}\n", t, h, w);
    APPEND(" %%y: float32[1,%d,%d] = Reshape(%%at, %%joined)\n yield %%y%s } }\n", t, h * w,
           f->more ? f->more : "");
#undef APPEND
    return text;
}

static uint64_t attentions_of(const plan *of) {
    uint64_t count = 0;
    for (uint64_t n = 0; n < of->header->nodes.count; n++)
        count += strcmp(of->texts + of->nodes[n].operator_name, "Attention") == 0;
    return count;
}

static void run(const form *f, const pass_options *options, float *const inputs[4], float *y,
                uint64_t *attentions) {
    char *text = text_of(f);
    const size_t bytes = (size_t)f->tokens * (size_t)(f->heads * f->width) * sizeof(float);
    support_session on;
    support_session_open_with(&on, text, options);
    const plan *made = rt_plan_of(on.plan);
    *attentions = attentions_of(made);
    for (size_t i = 0; i < 3; i++) support_bind(&on, i, inputs[i], bytes);
    if (f->mask) {
        int d[4] = {1, 1, 1, 1}, rank = 0;
        for (const char *at = f->mask + 1; *at; rank++) {
            char *end;
            d[rank] = (int)strtol(at, &end, 10);
            at = *end ? end + 1 : end;
        }
        support_bind(&on, 3, inputs[3], (size_t)(d[0] * d[1] * d[2] * d[3]) * sizeof(float));
    }
    support_run(&on);
    memcpy(y, support_output(&on, 0, bytes), bytes);
    support_session_close(&on);
    free(text);
}

static void check(const form *f) {
    const size_t count = (size_t)f->tokens * (size_t)(f->heads * f->width),
                 scores = (size_t)f->heads * (size_t)f->tokens * (size_t)f->tokens;
    const size_t most = count > scores ? count : scores;
    float *inputs[4], *wanted = malloc(count * sizeof(float)), *found = malloc(count * sizeof(float));
    uint32_t state = 7;
    for (size_t i = 0; i < 4; i++) {
        inputs[i] = malloc(most * sizeof(float));
        assert_non_null(inputs[i]);
        for (size_t k = 0; k < most; k++) {
            state = state * 1664525 + 1013904223;
            inputs[i][k] = (float)((int32_t)state >> 8) / (float)(1 << 23);
            if (i == 3 && state >> 30 == 0 && k % (size_t)f->tokens) inputs[i][k] = -INFINITY;
        }
    }
    assert_true(wanted && found);
    uint64_t attentions;
    const int threads = f->threads ? f->threads : 1;
    run(f, &(pass_options){.exact_arithmetic = true, .environment = {.threads = threads}}, inputs, wanted,
        &attentions);
    assert_int_equal(attentions, 0);
    run(f, &(pass_options){.environment = {.threads = threads}}, inputs, found, &attentions);
    if ((attentions == 1) != f->one)
        fail_msg("%d tokens, scale %s, mask %s: %d attentions", f->tokens, f->scale ? f->scale : "none",
                 f->mask ? f->mask : "none", (int)attentions);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(found[i] - wanted[i]) <= 2e-6f))
            fail_msg("element %zu is %.9g, expected %.9g", i, (double)found[i], (double)wanted[i]);
    for (size_t i = 0; i < 4; i++) free(inputs[i]);
    free(wanted);
    free(found);
}

static void forms_are_one_node(void **state) {
    (void)state;
    static const char *const scales[] = {NULL, "Div(%s, %c)", "Mul(%s, %c)", "Mul(%c, %s)"};
    static const char *const masks[] = {NULL, "[1,1,1,131]", "[1,4,131,131]", "[131,131]", "[1,4,1,1]"};
    for (int scale = 0; scale < 4; scale++)
        for (int mask = 0; mask < 5; mask++)
            check(&(form){.tokens = 131,
                          .heads = 4,
                          .width = 9,
                          .by_heads = {scale & 1, scale & 2, mask & 1},
                          .scale = scales[scale],
                          .mask = masks[mask],
                          .mask_first = (scale + mask) % 2,
                          .axis = mask & 1 ? 3 : -1,
                          .one = true});
    for (int heads = 4; heads <= 12; heads += 8)
        check(&(form){.tokens = 200,
                      .heads = heads,
                      .width = 32,
                      .scale = scales[1],
                      .axis = -1,
                      .threads = 2,
                      .one = true});
}

static void others_stay(void **state) {
    (void)state;
    const form one = {.tokens = 131, .heads = 4, .width = 8, .scale = "Div(%s, %c)", .axis = -1, .one = true};
    check(&one);
    form other = one;
    other.one = false;
    other.more = ", %p"; /* somebody reads the weights, */
    check(&other);
    other.more = ", %s"; /* or the products */
    check(&other);
    other.more = NULL;
    other.axis = 2;
    check(&other);
    other.axis = -1;
    other.scale = "Div(%c, %s)";
    check(&other);
    other.scale = "Mul(%s, %four)"; /* one factor a head */
    check(&other);
    other.scale = one.scale;
    other.tokens = 8; /* the kernel would take more memory than the scores */
    check(&other);
    other.tokens = 24;
    check(&other);
}

/* As many queries as keys, whatever their number. */
static void open_extents_are_one_node(void **state) {
    (void)state;
    static const char text[] = "module \"m\" {\n symbol tokens\n constant %names: int64[4] = {0, 0, 2, 8}\n "
                               "constant %joined: int64[3] = {0, 0, 16}\n"
                               " graph main(%x: float32[1,tokens,16]) {\n"
                               " %t: float32[1,tokens,2,8] = Reshape(%x, %names)\n"
                               " %q: float32[1,2,tokens,8] = Transpose(%t) {perm = [0, 2, 1, 3]}\n"
                               " %k: float32[1,2,8,tokens] = Transpose(%t) {perm = [0, 2, 3, 1]}\n"
                               " %s: float32[1,2,tokens,tokens] = MatMul(%q, %k)\n %p: "
                               "float32[1,2,tokens,tokens] = Softmax(%s) {axis = -1}\n"
                               " %a: float32[1,2,tokens,8] = MatMul(%p, %q)\n %u: float32[1,tokens,2,8] = "
                               "Transpose(%a) {perm = [0, 2, 1, 3]}\n"
                               " %y: float32[1,tokens,16] = Reshape(%u, %joined)\n yield %y } }\n";
    for (int exact = 0; exact < 2; exact++) {
        const pass_options options = {.exact_arithmetic = exact, .environment = {.threads = 1}};
        support_session on;
        support_session_open_with(&on, text, &options);
        assert_int_equal(attentions_of(rt_plan_of(on.plan)), !exact);
        support_session_close(&on);
    }
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms_are_one_node), cmocka_unit_test(others_stay),
                                       cmocka_unit_test(open_extents_are_one_node)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

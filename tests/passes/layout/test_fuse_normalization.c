/* SPDX-License-Identifier: Apache-2.0 */
/* test_fuse_normalization.c: what LayerNormalization is made of, as import and exporters write it, is one node, and not a bit of its result is
 * another one; what looks like it, but is not, stays as it is. */
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LENGTH = 4096, ROWS = 6 };

typedef struct form {
    int extent;           /* of a row; two axes of 3 and this with: */
    bool two;             /* axes are normalised */
    bool power;           /* Pow makes the squares */
    bool divide;          /* by the root; otherwise with its reciprocal */
    bool turned;          /* operands that may be exchanged */
    const char *scale;    /* its type; NULL: there is none */
    const char *bias;     /* likewise */
    const char *axes;     /* of the means; NULL: the last ones, counted from the end */
    const char *more;     /* results beside %y */
    int threads;          /* 0: one */
    int nodes;            /* that are LayerNormalization */
    bool scaled, shifted; /* it has the scale, and the bias, as well */
} form;

static char *text_of(const form *f) {
    char *text = malloc(LENGTH), rows[48], mean[48], parameters[128] = "";
    assert_non_null(text);
    size_t at = 0;
#define APPEND(...) (at += (size_t)snprintf(text + at, LENGTH - at, __VA_ARGS__))
    (void)snprintf(rows, sizeof rows, f->two ? "float32[%d,3,%d]" : "float32[%d,2,%d]", ROWS, f->extent);
    (void)snprintf(mean, sizeof mean, f->two ? "float32[%d,1,1]" : "float32[%d,2,1]", ROWS);
    const char *axes = f->axes ? f->axes : f->two ? "int64[2] = {-1, 1}" : "int64[1] = {-1}";
    if (f->scale) (void)snprintf(parameters, sizeof parameters, ", %%scale: float32%s", f->scale);
    if (f->bias)
        (void)snprintf(parameters + strlen(parameters), sizeof parameters - strlen(parameters),
                       ", %%bias: float32%s", f->bias);
    APPEND("module \"m\" {\n constant %%axes: %s\n constant %%eps: float32[] = {0.0078125}\n"
           " constant %%two: float32[] = {2.0}\n graph main(%%x: %s%s) {\n",
           axes, rows, parameters);
    APPEND(" %%m: %s = ReduceMean(%%x, %%axes) {keepdims = 1}\n", mean);
    APPEND(" %%d: %s = Sub(%%x, %%m)\n", rows);
    APPEND(" %%s: %s = %s\n", rows, f->power ? "Pow(%d, %two)" : "Mul(%d, %d)");
    APPEND(" %%v: %s = ReduceMean(%%s, %%axes) {keepdims = 1}\n", mean);
    APPEND(" %%e: %s = Add(%s)\n", mean, f->turned ? "%eps, %v" : "%v, %eps");
    APPEND(" %%r: %s = Sqrt(%%e)\n", mean);
    if (f->divide) APPEND(" %%n: %s = Div(%%d, %%r)\n", rows);
    else
        APPEND(" %%i: %s = Reciprocal(%%r)\n %%n: %s = Mul(%s)\n", mean, rows,
               f->turned ? "%i, %d" : "%d, %i");
    const char *last = "%n";
    if (f->scale) {
        APPEND(" %%w: %s = Mul(%s)\n", rows, f->turned ? "%scale, %n" : "%n, %scale");
        last = "%w";
    }
    if (f->bias) {
        APPEND(" %%b: %s = Add(%s, %s)\n", rows, f->turned ? "%bias" : last, f->turned ? last : "%bias");
        last = "%b";
    }
    APPEND(" %%y: %s = Neg(%s)\n yield %%y%s } }\n", rows, last, f->more ? f->more : "");
#undef APPEND
    return text;
}

/* How many there are, and how many inputs the first one has. */
static int normalizations_of(const plan *of, uint64_t *inputs) {
    int count = 0;
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        if (strcmp(of->texts + of->nodes[n].operator_name, "LayerNormalization") != 0) continue;
        if (!count++) *inputs = of->nodes[n].input_count;
    }
    return count;
}

static int elements_of(const char *shape) {
    int count = 1;
    for (const char *at = shape + 1; *at && *at != ']';) {
        char *end;
        count *= (int)strtol(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return count;
}

static void run(const form *f, float *const inputs[3], float *y, int *nodes, uint64_t *operands) {
    char *text = text_of(f);
    const pass_options options = {.environment = {.threads = f->threads ? f->threads : 1}};
    const size_t bytes = (size_t)(ROWS * (f->two ? 3 : 2) * f->extent) * sizeof(float);
    support_session on;
    support_session_open_with(&on, text, &options);
    *nodes = normalizations_of(rt_plan_of(on.plan), operands);
    support_bind(&on, 0, inputs[0], bytes);
    if (f->scale) support_bind(&on, 1, inputs[1], (size_t)elements_of(f->scale) * sizeof(float));
    if (f->bias) support_bind(&on, f->scale ? 2 : 1, inputs[2], (size_t)elements_of(f->bias) * sizeof(float));
    support_run(&on);
    memcpy(y, support_output(&on, 0, bytes), bytes);
    support_session_close(&on);
    free(text);
}

static void check(const form *f) {
    const size_t count = (size_t)(ROWS * 3 * f->extent);
    float *inputs[3], *wanted = calloc(count, sizeof(float)), *found = calloc(count, sizeof(float));
    uint32_t state = 5;
    assert_true(wanted && found);
    for (size_t i = 0; i < 3; i++) {
        inputs[i] = malloc(count * sizeof(float));
        assert_non_null(inputs[i]);
        for (size_t k = 0; k < count; k++) {
            state = state * 1664525 + 1013904223;
            inputs[i][k] = (float)((int32_t)state >> 8) / (float)(1 << 22) + (i ? 0.0f : 3.0f);
        }
    }
    inputs[0][0] = NAN;
    inputs[0][count / 2] = INFINITY;
    form apart = *f;
    apart.more = ", %v"; /* somebody reads it */
    int nodes;
    uint64_t operands = 0;
    run(&apart, inputs, wanted, &nodes, &operands);
    assert_int_equal(nodes, 0);
    run(f, inputs, found, &nodes, &operands);
    if (nodes != f->nodes) fail_msg("rows of %d: %d nodes, expected %d", f->extent, nodes, f->nodes);
    if (nodes) assert_int_equal(operands, f->shifted ? 3 : f->scaled ? 2 : 1);
    for (size_t i = 0; i < count; i++) {
        if (isnan(wanted[i]) ? isnan(found[i]) : memcmp(&found[i], &wanted[i], sizeof(float)) == 0) continue;
        fail_msg("rows of %d: element %zu is %.9g, expected %.9g", f->extent, i, (double)found[i],
                 (double)wanted[i]);
    }
    for (size_t i = 0; i < 3; i++) free(inputs[i]);
    free(wanted);
    free(found);
}

static void forms_are_one_node(void **state) {
    (void)state;
    static const int extents[] = {1, 7, 16, 40, 384, 511, 512, 513, 1100, 4700};
    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++) {
        for (unsigned bits = 0; bits < 64; bits++) {
            char row[32];
            const bool two = bits & 1;
            (void)snprintf(row, sizeof row, two ? "[3,%d]" : "[%d]", extents[e]);
            check(&(form){.extent = extents[e],
                          .two = two,
                          .power = bits & 2,
                          .divide = bits & 4,
                          .turned = bits & 8,
                          .scale = bits & 16 ? row : NULL,
                          .bias = bits & 32 ? row : NULL,
                          .threads = 1 + (int)(bits % 3 == 0),
                          .nodes = 1,
                          .scaled = bits & 16,
                          .shifted = bits & 32});
        }
    }
}

/* One scale and one bias a channel: the dimension before those that are normalised. */
static void channels_are_part(void **state) {
    (void)state;
    static const int extents[] = {1, 7, 40, 384, 513, 4100};
    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++) {
        for (unsigned bits = 0; bits < 16; bits++) {
            const bool two = bits & 1;
            check(&(form){.extent = extents[e],
                          .two = two,
                          .divide = bits & 4,
                          .turned = bits & 8,
                          .scale = two ? "[6,1,1]" : "[2,1]",
                          .bias = two ? "[6,1,1]" : "[1,2,1]",
                          .threads = 1 + (int)(bits % 3),
                          .nodes = 1,
                          .scaled = true,
                          .shifted = true});
        }
    }
}

static void others_stay(void **state) {
    (void)state;
    const form one = {
        .extent = 2, .scale = "[2]", .bias = "[2]", .nodes = 1, .scaled = true, .shifted = true};
    check(&one);
    form other = one;
    other.scale = "[2,2]"; /* other numbers for other rows: it is multiplied with afterwards */
    other.scaled = other.shifted = false;
    check(&other);
    other.scale = "[1]";
    check(&other);
    other.scale = "[2,1]"; /* of channels: only where both are */
    check(&other);
    other.bias = "[6,2,1]"; /* or of rows */
    check(&other);
    other.bias = "[1,2,1]";
    other.scaled = other.shifted = true;
    check(&other);
    other.two = true; /* there, of another dimension */
    other.scaled = other.shifted = false;
    other.scale = other.bias = "[3,1]";
    check(&other);
    other = one;
    other.bias = "[1]";
    other.shifted = false;
    check(&other);
    other = one;
    other.nodes = 0;
    other.more = ", %d"; /* somebody reads the differences, */
    check(&other);
    other.more = ", %r"; /* or the root */
    check(&other);
}

/* The mean along another axis: of each element over the rows. */
static void other_axes_stay(void **state) {
    (void)state;
    static const char text[] =
        "module \"m\" {\n constant %axes: int64[1] = {1}\n constant %last: int64[1] = {2}\n"
        " constant %eps: float32[] = {0.25}\n graph main(%x: float32[2,3,4], %z: float32[2,4,4]) {\n"
        " %m: float32[2,1,4] = ReduceMean(%x, %axes) {keepdims = 1}\n %d: float32[2,3,4] = Sub(%x, %m)\n"
        " %s: float32[2,3,4] = Mul(%d, %d)\n %v: float32[2,1,4] = ReduceMean(%s, %axes) {keepdims = 1}\n"
        " %e: float32[2,1,4] = Add(%v, %eps)\n %r: float32[2,1,4] = Sqrt(%e)\n"
        " %y: float32[2,3,4] = Div(%d, %r)\n"
        " %zm: float32[2,4,1] = ReduceMean(%z, %last) {keepdims = 1}\n %zd: float32[2,4,4] = Sub(%z, %zm)\n"
        " %zs: float32[2,4,4] = Mul(%zd, %zd)\n %zv: float32[2,1,4] = ReduceMean(%zs, %axes) {keepdims = 1}\n"
        " %ze: float32[2,1,4] = Add(%zv, %eps)\n %zr: float32[2,1,4] = Sqrt(%ze)\n"
        " %w: float32[2,4,4] = Div(%zd, %zr)\n yield %y, %w } }\n";
    support_session on;
    uint64_t operands;
    support_session_open_with(&on, text, &(pass_options){.environment = {.threads = 1}});
    assert_int_equal(normalizations_of(rt_plan_of(on.plan), &operands), 0);
    support_session_close(&on);
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms_are_one_node),
                                       cmocka_unit_test(channels_are_part), cmocka_unit_test(others_stay),
                                       cmocka_unit_test(other_axes_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

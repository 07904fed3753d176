/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_training.c: Momentum, Adagrad and Adam against their equations, one element at a time, in double. */
#include "tests/support/operators.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 20261122, MOST = 3 };

typedef struct fixture {
    base_arena arena;
    base_report report;
    op_tensor inputs[2 + 4 * MOST], outputs[3 * MOST];
    op_attribute attributes[6];
    op_call call;
} fixture;

static void begin(fixture *f, op_code code, test_random *random, double rate, int64_t updates) {
    *f = (fixture){0};
    base_arena_init(&f->arena, NULL);
    f->call = (op_call){.code = code, .inputs = f->inputs, .outputs = f->outputs, .input_count = 2};
    f->call.attributes.items = f->attributes;
    const op_shape shape = {.rank = (int32_t)test_random_below(random, 2), .dims = {1}};
    f->inputs[0] = test_tensor(&f->arena, test_random_below(random, 2) ? OP_FLOAT : OP_DOUBLE, &shape);
    test_set(&f->inputs[0], 0, rate);
    f->inputs[1] = test_tensor(&f->arena, OP_INT64, &shape);
    test_set(&f->inputs[1], 0, (double)updates);
}

static float add_real(fixture *f, const char *name, float value) {
    f->attributes[f->call.attributes.count++] =
        (op_attribute){.name = name, .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = value};
    return value;
}

static void add_mode(fixture *f, const char *mode) {
    f->attributes[f->call.attributes.count++] = (op_attribute){
        .name = "mode", .kind = OP_ATTRIBUTE_STRING, .count = 1, .as.text = {mode, strlen(mode)}};
}

static void add_group(fixture *f, uint32_t count, const op_dtype *dtypes, const op_shape *shapes,
                      bool positive, test_random *random) {
    for (uint32_t i = 0; i < count; i++) {
        op_tensor *made = &f->inputs[f->call.input_count++];
        *made = test_tensor(&f->arena, dtypes[i], &shapes[i]);
        for (int64_t k = 0, elements = test_elements(made); k < elements; k++) {
            const double value = 0.125 * ((double)test_random_below(random, 60) - 30);
            test_set(made, k, positive ? fabs(value) : value);
        }
    }
}

/* What a step makes of one element: x and the states. */
typedef struct element {
    double x, g, states[2];
} element;

typedef struct coefficients {
    op_code code;
    bool nesterov;
    double rate, updates, alpha, beta, epsilon, norm, post, decay;
} coefficients;

static element stepped(const coefficients *c, element e) {
    const double g = c->norm * e.x + e.g;
    if (c->code == OP_MOMENTUM) {
        const double v = c->alpha * e.states[0] + (c->updates > 0 ? c->beta : 1) * g;
        return (element){.x = e.x - c->rate * (c->nesterov ? g + c->alpha * v : v), .states = {v}};
    }
    if (c->code == OP_ADAGRAD) {
        const double h = e.states[0] + g * g, rate = c->rate / (1 + c->updates * c->decay);
        return (element){.x = e.x - rate * g / (sqrt(h) + c->epsilon), .states = {h}};
    }
    const double v = c->alpha * e.states[0] + (1 - c->alpha) * g,
                 h = c->beta * e.states[1] + (1 - c->beta) * g * g;
    const double rate = c->updates > 0
                            ? c->rate * sqrt(1 - pow(c->beta, c->updates)) / (1 - pow(c->alpha, c->updates))
                            : c->rate;
    return (element){.x = (1 - c->post) * (e.x - rate * v / (sqrt(h) + c->epsilon)), .states = {v, h}};
}

static void steps_follow_their_equations(void **state) {
    (void)state;
    static const op_code codes[] = {OP_MOMENTUM, OP_ADAGRAD, OP_ADAM};
    test_random random = {SEED};
    unsigned in_place = 0;
    for (int round = 0; round < 300; round++) {
        const op_code code = codes[round % 3];
        const uint32_t count = 1 + (uint32_t)test_random_below(&random, MOST),
                       groups = code == OP_ADAM ? 4 : 3;
        coefficients c = {.code = code,
                          .nesterov = test_random_below(&random, 2),
                          .rate = 0.25,
                          .updates = (double)test_random_below(&random, 4),
                          .alpha = (double)0.9f,
                          .beta = (double)0.999f,
                          .epsilon = (double)1e-6f};
        fixture f;
        begin(&f, code, &random, c.rate, (int64_t)c.updates);
        if (code == OP_MOMENTUM) add_mode(&f, c.nesterov ? "nesterov" : "standard");
        const bool given = code == OP_MOMENTUM || test_random_below(&random, 2);
        if (given) {
            c.norm = (double)add_real(&f, "norm_coefficient", 0.03f);
            if (code != OP_ADAGRAD) c.alpha = (double)add_real(&f, "alpha", 0.75f);
            if (code != OP_ADAGRAD) c.beta = (double)add_real(&f, "beta", 0.5f);
            if (code != OP_MOMENTUM) c.epsilon = (double)add_real(&f, "epsilon", 0.01f);
            if (code == OP_ADAGRAD) c.decay = (double)add_real(&f, "decay_factor", 0.5f);
            if (code == OP_ADAM) c.post = (double)add_real(&f, "norm_coefficient_post", 0.125f);
        }
        op_dtype dtypes[MOST];
        op_shape shapes[MOST];
        for (uint32_t i = 0; i < count; i++) {
            dtypes[i] = test_random_below(&random, 2) ? OP_FLOAT : OP_DOUBLE;
            shapes[i] = (op_shape){.rank = (int32_t)test_random_below(&random, 3)};
            for (int32_t k = 0; k < shapes[i].rank; k++)
                shapes[i].dims[k] = test_random_below(&random, round % 20 ? 6 : 200);
        }
        for (uint32_t group = 0; group < groups; group++) {
            const bool squares = group > 1 && (code == OP_ADAGRAD || group == 3);
            add_group(&f, count, dtypes, shapes, squares, &random);
        }
        f.call.output_count = count * (groups - 1);
        if (test_apply(&f.call, &f.arena, &in_place, &f.report) != BASE_OK) fail_msg("%s", f.report.text);
        for (uint32_t i = 0; i < count; i++) {
            const double bound = dtypes[i] == OP_FLOAT ? 2e-6 : 1e-14;
            for (int64_t k = 0, elements = test_elements(&f.inputs[2 + i]); k < elements; k++) {
                element e = {test_real(&f.inputs[2 + i], k), test_real(&f.inputs[2 + count + i], k), {0}};
                for (uint32_t s = 0; s + 2 < groups; s++) {
                    e.states[s] = test_real(&f.inputs[2 + (2 + s) * count + i], k);
                }
                const element want = stepped(&c, e);
                for (uint32_t s = 0; s + 1 < groups; s++) {
                    const double value = s ? want.states[s - 1] : want.x;
                    const double got = test_real(&f.outputs[s * count + i], k);
                    if (isnan(value) ? isnan(got) : fabs(got - value) <= bound * (1 + fabs(value))) continue;
                    fail_msg("round %d (%s): output %u is %.9g, expected %.9g", round,
                             op_schema_of(code)->name, s * count + i, got, value);
                }
            }
        }
        base_arena_free(&f.arena);
    }
    assert_true(in_place & OP_IN_PLACE(2)); /* the new X over the old one */
}

static void outputs_at_the_end_may_be_missing(void **state) {
    (void)state;
    test_random random = {SEED};
    const op_dtype dtype = OP_FLOAT;
    const op_shape shape = test_shape(1, 5);
    fixture f;
    begin(&f, OP_ADAM, &random, 0.5, 1);
    for (int group = 0; group < 4; group++) add_group(&f, 1, &dtype, &shape, group == 3, &random);
    f.call.output_count = 1;
    assert_int_equal(test_apply(&f.call, &f.arena, NULL, &f.report), BASE_OK);
    assert_true(op_shape_equal(&f.outputs[0].type.shape, &shape));
    base_arena_free(&f.arena);
}

static void expect_refusal(fixture *f, uint32_t outputs, const char *message) {
    f->call.output_count = outputs;
    assert_int_equal(test_apply(&f->call, &f->arena, NULL, &f->report), BASE_INVALID);
    if (!strstr(f->report.text, message)) fail_msg("message \"%s\" lacks \"%s\"", f->report.text, message);
    base_arena_free(&f->arena);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    test_random random = {SEED};
    const op_dtype one = OP_FLOAT, other = OP_DOUBLE;
    const op_shape shape = test_shape(1, 5), longer = test_shape(1, 6);
    fixture f;
    begin(&f, OP_ADAGRAD, &random, 1, 0);
    for (int i = 0; i < 4; i++) add_group(&f, 1, &one, &shape, true, &random);
    expect_refusal(&f, 2, "4 inputs after the first two, expected a multiple of 3");
    begin(&f, OP_ADAGRAD, &random, 1, 0);
    for (int i = 0; i < 3; i++) add_group(&f, 1, &one, &shape, true, &random);
    expect_refusal(&f, 3, "3 outputs, expected at most 2");
    begin(&f, OP_ADAGRAD, &random, 1, 0);
    for (int i = 0; i < 3; i++) add_group(&f, 1, &one, i == 1 ? &longer : &shape, true, &random);
    expect_refusal(&f, 2, "input 3 has shape [6], expected [5], that of input 2");
    begin(&f, OP_ADAGRAD, &random, 1, 0);
    for (int i = 0; i < 3; i++) add_group(&f, 1, i == 2 ? &other : &one, &shape, true, &random);
    expect_refusal(&f, 2, "input 4 is float64, expected float32");
    begin(&f, OP_MOMENTUM, &random, 1, 0);
    for (int i = 0; i < 3; i++) add_group(&f, 1, &one, &shape, true, &random);
    add_mode(&f, "fast");
    expect_refusal(&f, 2, "attribute \"mode\" is unknown, expected standard or nesterov");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_their_equations),
        cmocka_unit_test(outputs_at_the_end_may_be_missing),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    printf("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

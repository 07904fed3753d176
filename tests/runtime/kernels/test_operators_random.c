/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_random.c: operators that draw random numbers: what their numbers have in common, that they can be had
 * again, and what else each of them promises. Every expectation holds for these seeds for good, as nothing here depends
 * on the machine; bounds are five standard deviations wide.
 */
#include "tests/support/operators.h"
#include "tests/support/plan.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    base_arena arena;
    base_report report;
    op_tensor inputs[3], outputs[2];
    op_attribute attributes[6];
    op_call call;
} fixture;

static void begin(fixture *f, op_code code) {
    *f = (fixture){0};
    base_arena_init(&f->arena, NULL);
    f->call = (op_call){.code = code, .output_count = 1, .inputs = f->inputs, .outputs = f->outputs};
    f->call.attributes.items = f->attributes;
}

static void add_integer(fixture *f, const char *name, int64_t value) {
    f->attributes[f->call.attributes.count++] =
        (op_attribute){.name = name, .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = value};
}

static void add_real(fixture *f, const char *name, float value) {
    f->attributes[f->call.attributes.count++] =
        (op_attribute){.name = name, .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = value};
}

static void add_shape(fixture *f, size_t rank, const int64_t *dims) {
    f->attributes[f->call.attributes.count++] =
        (op_attribute){.name = "shape", .kind = OP_ATTRIBUTE_INTS, .count = rank, .as.integers = dims};
}

static op_tensor *add_input(fixture *f, op_dtype dtype, int64_t count, double value) {
    const op_shape shape = {.rank = count != 1, .dims = {count}};
    op_tensor *made = &f->inputs[f->call.input_count++];
    *made = test_tensor(&f->arena, dtype, &shape);
    for (int64_t i = 0; i < count; i++) test_set(made, i, value);
    return made;
}

static void apply_well(fixture *f) {
    if (test_apply(&f->call, &f->arena, NULL, &f->report) != BASE_OK) fail_msg("%s", f->report.text);
}

static void expect_refusal(fixture *f, const char *message) {
    assert_int_equal(test_apply(&f->call, &f->arena, NULL, &f->report), BASE_INVALID);
    if (!strstr(f->report.text, message)) fail_msg("message \"%s\" lacks \"%s\"", f->report.text, message);
    base_arena_free(&f->arena);
}

static void assert_mean(const op_tensor *tensor, double mean, double deviation) {
    const int64_t count = test_elements(tensor);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += test_real(tensor, i);
    if (fabs(sum / (double)count - mean) > 5 * deviation / sqrt((double)count) + 1e-9) {
        fail_msg("the mean is %g, expected about %g", sum / (double)count, mean);
    }
}

static const op_dtype reals[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16};

static void uniform_numbers_fill_their_range(void **state) {
    (void)state;
    const int64_t dims[] = {3, 20001};
    for (int i = 0; i < 4; i++) {
        fixture f;
        begin(&f, OP_RANDOM_UNIFORM);
        add_integer(&f, "dtype", reals[i]);
        add_real(&f, "low", -2);
        add_real(&f, "high", 6);
        add_real(&f, "seed", 3);
        add_shape(&f, 2, dims);
        apply_well(&f);
        assert_int_equal(f.outputs[0].type.dtype, reals[i]);
        int64_t seen[8] = {0};
        for (int64_t k = 0; k < 60003; k++) {
            const double value = test_real(&f.outputs[0], k);
            assert_true(value >= -2 && value <= 6);
            seen[value == 6 ? 7 : (int)floor(value + 2)]++;
        }
        for (int k = 0; k < 8; k++) assert_true(fabs((double)seen[k] - 7500) < 5 * 81 + (i == 3 ? 300 : 0));
        assert_mean(&f.outputs[0], 2, 8 / sqrt(12.0) + (i == 3 ? 2 : 0)); /* bfloat16 is coarse */
        base_arena_free(&f.arena);
    }
}

static void normal_numbers_have_their_moments(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        fixture f;
        begin(&f, OP_RANDOM_NORMAL_LIKE);
        const op_shape shape = {.rank = 1, .dims = {60001}};
        f.inputs[0] = test_tensor(&f.arena, i == 0 ? OP_STRING : OP_INT8, &shape);
        f.call.input_count = 1;
        add_integer(&f, "dtype", reals[i]);
        add_real(&f, "mean", 1);
        add_real(&f, "scale", 0.5f);
        apply_well(&f);
        assert_mean(&f.outputs[0], 1, 0.5);
        double second = 0, fourth = 0, neighbours = 0, before = 0;
        for (int64_t k = 0; k < 60001; k++) {
            const double away = (test_real(&f.outputs[0], k) - 1) / 0.5;
            second += away * away / 60001;
            fourth += away * away * away * away / 60001;
            neighbours += away * before / 60001;
            before = away;
        }
        assert_true(fabs(second - 1) < 5 * sqrt(2.0 / 60001) && fabs(fourth - 3) < 5 * sqrt(96.0 / 60001));
        assert_true(fabs(neighbours) < 5 / sqrt(60001.0));
        base_arena_free(&f.arena);
    }
}

/* The first numbers of a node, made in some execution. */
static void draw(double *numbers, bool seeded, float seed, int64_t stream, const uint64_t *execution) {
    fixture f;
    const int64_t dims[] = {8};
    begin(&f, OP_RANDOM_UNIFORM);
    add_integer(&f, "dtype", OP_DOUBLE);
    if (seeded) add_real(&f, "seed", seed);
    add_integer(&f, "ouro.stream", stream);
    add_shape(&f, 1, dims);
    const rt_environment environment = {.threads = 1, .execution = execution};
    assert_int_equal(op_infer(&f.call, &f.report), BASE_OK);
    assert_int_equal(rt_kernel_evaluate(&f.call, &environment, &f.arena, &f.report), BASE_OK);
    memcpy(numbers, f.outputs[0].data, 8 * sizeof *numbers);
    base_arena_free(&f.arena);
}

static void streams_differ_where_they_should(void **state) {
    (void)state;
    const uint64_t first = 1, later = 2;
    double drawn[6][8];
    draw(drawn[0], true, 0, 7, &first);
    draw(drawn[1], true, 0, 8,
         NULL); /* the same: a seed goes before the stream, and no execution given is the first */
    draw(drawn[2], true, 1, 7, &first);
    draw(drawn[3], true, 0, 7, &later);
    draw(drawn[4], false, 0, 7, &first);
    draw(drawn[5], false, 0, 8, &first);
    assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
    for (int a = 1; a < 6; a++) {
        for (int b = a + 1; b < 6; b++) {
            for (int i = 0; i < 8; i++) {
                for (int k = 0; k < 8; k++) assert_true(drawn[a][i] != drawn[b][k]);
            }
        }
    }
}

static void trials_succeed_as_often_as_asked(void **state) {
    (void)state;
    static const op_dtype to[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16, OP_BOOL,  OP_UINT8, OP_INT8,
                                  OP_INT16, OP_UINT16, OP_INT32,   OP_UINT32,   OP_INT64, OP_UINT64};
    for (int i = 0; i < 13; i++) {
        for (int k = 0; k <= 4; k++) {
            fixture f;
            begin(&f, OP_BERNOULLI);
            add_input(&f, reals[i % 4], 30000, k * 0.25);
            add_integer(&f, "dtype", to[i]);
            apply_well(&f);
            assert_int_equal(f.outputs[0].type.dtype, to[i]);
            for (int64_t n = 0; n < 30000; n++) {
                const double value = test_real(&f.outputs[0], n);
                assert_true(value == 0 || value == 1);
            }
            assert_mean(&f.outputs[0], k * 0.25, sqrt(k * 0.25 * (1 - k * 0.25)));
            base_arena_free(&f.arena);
        }
    }
    fixture f;
    begin(&f, OP_BERNOULLI);
    add_input(&f, OP_DOUBLE, 1, 1);
    apply_well(&f);
    assert_int_equal(f.outputs[0].type.dtype, OP_DOUBLE);
    assert_true(test_real(&f.outputs[0], 0) == 1);
    base_arena_free(&f.arena);
}

static void classes_come_by_their_weights(void **state) {
    (void)state;
    const double weights[3][4] = {{1, 2, 3, 4}, {0, 0, 1, 0}, {5, 0, 0, 5}};
    for (int i = 0; i < 3; i++) {
        fixture f;
        begin(&f, OP_MULTINOMIAL);
        const op_shape shape = test_shape(2, 3, 4);
        f.inputs[0] = test_tensor(&f.arena, reals[i], &shape);
        f.call.input_count = 1;
        for (int k = 0; k < 12; k++) {
            const double weight = weights[k / 4][k % 4];
            /* What cannot be: minus infinity, or not a number. */
            test_set(&f.inputs[0], k, weight > 0 ? log(weight) + 3 : 0);
            if (weight > 0) continue;
            if (reals[i] == OP_FLOAT) ((float *)f.inputs[0].data)[k] = k == 0 ? NAN : -INFINITY;
            else if (reals[i] == OP_DOUBLE) ((double *)f.inputs[0].data)[k] = (double)-INFINITY;
            else ((uint16_t *)f.inputs[0].data)[k] = 0xfc00;
        }
        add_integer(&f, "sample_size", 40000);
        add_integer(&f, "dtype", i ? OP_INT64 : OP_INT32);
        apply_well(&f);
        const op_shape want = test_shape(2, 3, 40000);
        assert_true(op_shape_equal(&f.outputs[0].type.shape, &want));
        for (int row = 0; row < 3; row++) {
            int64_t seen[4] = {0};
            for (int64_t k = 0; k < 40000; k++) {
                const int64_t at = test_integer(&f.outputs[0], row * 40000 + k);
                assert_true(at >= 0 && at < 4);
                seen[at]++;
            }
            for (int k = 0; k < 4; k++) {
                const double p = weights[row][k] / (row == 1 ? 1 : 10), bound = 5 * sqrt(40000 * p * (1 - p));
                assert_true(fabs((double)seen[k] - 40000 * p) <=
                            bound + (reals[i] == OP_FLOAT16 && p > 0 && p < 1 ? 40 : 0));
            }
        }
        base_arena_free(&f.arena);
    }
}

static void dropout_drops_and_scales(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        for (int form = 0; form < 4; form++) { /* a ratio, the default ratio, ratio 0, no training */
            fixture f;
            begin(&f, OP_DROPOUT);
            op_tensor *x = add_input(&f, reals[i], 50000, 0);
            for (int64_t k = 0; k < 50000; k++) test_set(x, k, (double)(k % 7) - 3 + 0.5);
            if (form == 1) f.call.input_count++;
            else add_input(&f, i == 0 ? OP_DOUBLE : OP_FLOAT, 1, form == 2 ? 0 : 0.75);
            add_input(&f, OP_BOOL, 1, form != 3);
            if (i % 2) add_integer(&f, "seed", 12);
            f.call.output_count = 2;
            apply_well(&f);
            const double ratio = form == 0 ? 0.75 : form == 1 ? 0.5 : 0;
            assert_int_equal(f.outputs[1].type.dtype, OP_BOOL);
            assert_mean(&f.outputs[1], 1 - ratio, sqrt(ratio * (1 - ratio)));
            for (int64_t k = 0; k < 50000; k++) {
                const double want = test_integer(&f.outputs[1], k) ? test_real(x, k) / (1 - ratio) : 0;
                assert_true(test_real(&f.outputs[0], k) == want);
            }
            base_arena_free(&f.arena);
        }
    }
    for (int i = 0; i < 3; i++) {
        fixture f;
        begin(&f, OP_DROPOUT);
        add_input(&f, OP_FLOAT, 10, 1);
        add_input(&f, OP_FLOAT, 1, i == 0 ? 1 : i == 1 ? -0.5 : (double)NAN);
        add_input(&f, OP_BOOL, 1, 1);
        expect_refusal(&f, "expected at least 0 and less than 1");
    }
}

/* Numbers of MT19937 seeded with 1234, as other programs print them: a ratio just below one leaves its element, one
 * just above drops it. */
static void a_seed_of_dropout_means_the_mersenne_twister(void **state) {
    (void)state;
    static const struct {
        int64_t index;
        double drawn;
    } known[] = {{0, 0.1915194503788923},
                 {311, 0.17590426942327275},
                 {312, 0.07069617875044265},
                 {999, 0.4772453753499617}};
    for (int i = 0; i < 8; i++) {
        fixture f;
        begin(&f, OP_DROPOUT);
        add_input(&f, OP_FLOAT, 1000, 1);
        add_input(&f, OP_DOUBLE, 1, known[i / 2].drawn + (i % 2 ? 1e-14 : -1e-14));
        add_input(&f, OP_BOOL, 1, 1);
        add_integer(&f, "seed", 1234);
        f.call.output_count = 2;
        apply_well(&f);
        assert_int_equal(test_integer(&f.outputs[1], known[i / 2].index), i % 2 == 0);
        base_arena_free(&f.arena);
    }
}

/* Iterations draw different numbers, also where they are nested; runs the same; and so does the check, which does every
 * step twice. How long a loop before it ran does not matter to a node. */
static void iterations_differ_and_runs_do_not(void **state) {
    (void)state;
    support_session on;
    support_session_open(&on,
                         "module \"drawing\" {\n"
                         "  constant %n: int64[] = {3}\n"
                         "  constant %go: bool[] = {true}\n"
                         "  graph main(%p: float32[2]) {\n"
                         "    %first: float32[2] = RandomUniform() {shape = [2], seed = 1.0}\n"
                         "    %y: float32[3,3,2] = Loop(%n, _) {ouro.scan_outputs = 1} {\n"
                         "      graph outer(%i: int64[], %k: bool[]) {\n"
                         "        %z: float32[3,2] = Loop(%n, _) {ouro.scan_outputs = 1} {\n"
                         "          graph inner(%j: int64[], %l: bool[]) {\n"
                         "            %r: float32[2] = RandomUniformLike(%p) {seed = 1.0}\n"
                         "            yield %go, %r\n"
                         "          }\n"
                         "        }\n"
                         "        yield %go, %z\n"
                         "      }\n"
                         "    }\n"
                         "    %last: float32[2] = RandomUniform() {shape = [2], seed = 1.0}\n"
                         "    yield %first, %y, %last\n"
                         "  }\n"
                         "}\n",
                         1);
    const float p[2] = {0, 0};
    float numbers[20], again[20];
    support_bind(&on, 0, p, sizeof p);
    for (int round = 0; round < 2; round++) {
        float *to = round ? again : numbers;
        support_run(&on);
        memcpy(to, support_output(&on, 0, 8), 8);
        memcpy(to + 2, support_output(&on, 1, 72), 72);
        assert_memory_equal(to, support_output(&on, 2, 8), 8);
    }
    assert_memory_equal(numbers, again, sizeof numbers);
    assert_memory_equal(numbers, numbers + 2, 8); /* the same seed, for the first time */
    for (int i = 2; i < 20; i++) {
        for (int k = 2; k < i; k++) assert_true(numbers[i] != numbers[k]);
    }
    support_session_close(&on);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    const int64_t dims[] = {2, -3};
    fixture f;
    begin(&f, OP_RANDOM_NORMAL);
    add_shape(&f, 2, dims);
    expect_refusal(&f, "attribute \"shape\" has the dimension -3, expected at least 0");
    begin(&f, OP_RANDOM_UNIFORM);
    add_shape(&f, 1, dims);
    add_integer(&f, "dtype", OP_INT32);
    expect_refusal(&f, "attribute \"dtype\" is 6 (int32), expected one of float32");
    begin(&f, OP_RANDOM_UNIFORM_LIKE);
    add_input(&f, OP_INT64, 4, 0);
    expect_refusal(&f, "attribute \"dtype\" is 7 (int64), expected one of float32");
    begin(&f, OP_BERNOULLI);
    add_input(&f, OP_FLOAT, 4, 0);
    add_integer(&f, "dtype", 99);
    expect_refusal(&f, "attribute \"dtype\" is 99 (no type)");
    begin(&f, OP_MULTINOMIAL);
    add_input(&f, OP_FLOAT, 4, 0);
    expect_refusal(&f, "input 0 has shape [4], expected [batch, classes]");
    begin(&f, OP_DROPOUT);
    add_input(&f, OP_FLOAT, 4, 0);
    add_input(&f, OP_FLOAT, 4, 0);
    expect_refusal(&f, "input 1 (ratio) has shape [4], expected a scalar");
}

static void nothing_is_drawn_for_nothing(void **state) {
    (void)state;
    static const op_code codes[] = {OP_RANDOM_NORMAL_LIKE, OP_RANDOM_UNIFORM_LIKE, OP_BERNOULLI, OP_DROPOUT};
    for (int i = 0; i < 4; i++) {
        fixture f;
        begin(&f, codes[i]);
        add_input(&f, OP_FLOAT, 0, 0);
        apply_well(&f);
        assert_int_equal(test_elements(&f.outputs[0]), 0);
        base_arena_free(&f.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_numbers_fill_their_range),
        cmocka_unit_test(normal_numbers_have_their_moments),
        cmocka_unit_test(streams_differ_where_they_should),
        cmocka_unit_test(trials_succeed_as_often_as_asked),
        cmocka_unit_test(classes_come_by_their_weights),
        cmocka_unit_test(dropout_drops_and_scales),
        cmocka_unit_test(a_seed_of_dropout_means_the_mersenne_twister),
        cmocka_unit_test(iterations_differ_and_runs_do_not),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(nothing_is_drawn_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

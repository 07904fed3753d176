/* SPDX-License-Identifier: Apache-2.0 */
/* test_direct_convolution.c: convolutions with weights in panels beside the row-major kernel: random windows of one to three dimensions, groups,
 * layouts, fused forms, residuals in place; bits that do not depend on threads, nor on which rows are made; what pads blocks stays zero; long
 * windows; weights come back; other extents; numbers that are not finite, in images and in weights; what is refused. Where vectors are narrower
 * the kernel is never chosen, which is all that is seen then.
 */
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 400 };

static const rt_environment one_thread = {.threads = 1};

static const rt_kernel *kernel(void) {
    return rt_kernel_of(OP_CONV, "portable.direct_convolution");
}

/* How the tensors of an application lie. */
typedef struct form {
    op_layout from, to;
} form;
static const form forms[] = {{OP_LAYOUT_NC16, OP_LAYOUT_NC16},
                             {OP_LAYOUT_NHWC, OP_LAYOUT_NHWC},
                             {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16},
                             {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NHWC}};

/* An application with random numbers. `maps`: of few channels, as the kernel reads them row-major. */
static void draw(application *app, uint64_t *seed, bool maps, bool residual) {
    static const char *const activations[] = {"",        "Relu",  "LeakyRelu", "Clip",
                                              "Sigmoid", "Swish", "HardSwish", "Tanh"};
    const int32_t spatial = (int32_t)random_range(seed, 1, maps ? 2 : 3);
    const int64_t group = maps || random_range(seed, 0, 3) ? 1 : random_range(seed, 2, 3);
    const int64_t channels = maps        ? random_range(seed, 1, 4)
                             : group > 1 ? 16 * random_range(seed, 1, 2)
                                         : random_range(seed, 1, 40);
    const int64_t filters = group > 1 ? 16 * random_range(seed, 1, 2) : random_range(seed, 8, 90);
    int64_t x[5] = {random_range(seed, 1, 2), channels * group}, w[5] = {filters * group, channels};
    int64_t y[5] = {x[0], w[0]}, strides[3], dilations[3], pads[6];
    for (int32_t i = 0; i < spatial; i++) {
        w[2 + i] = random_range(seed, 1, spatial == 3 ? 3 : 5);
        strides[i] = random_range(seed, 1, 3);
        dilations[i] = random_range(seed, 1, 2);
        pads[i] = random_range(seed, 0, 3);
        pads[spatial + i] = random_range(seed, 0, 3);
        const int64_t reach = (w[2 + i] - 1) * dilations[i] + 1;
        x[2 + i] = random_range(seed, reach, reach + (spatial == 1 ? 60 : spatial == 2 ? 17 : 6));
        y[2 + i] = (x[2 + i] + pads[i] + pads[spatial + i] - reach) / strides[i] + 1;
    }
    application_init(app, OP_CONV);
    application_random(app, OP_FLOAT, 2 + spatial, x, seed);
    application_random(app, OP_FLOAT, 2 + spatial, w, seed);
    if (random_range(seed, 0, 1)) application_random(app, OP_FLOAT, 1, DIMS(w[0]), seed);
    else application_absent(app);
    application_integer(app, "group", group);
    application_integers(app, "strides", (size_t)spatial, strides);
    application_integers(app, "dilations", (size_t)spatial, dilations);
    application_integers(app, "pads", 2 * (size_t)spatial, pads);
    const char *activation = activations[random_range(seed, 0, 7)];
    if (activation[0]) application_text(app, "ouro.activation", activation);
    application_real(app, "ouro.alpha", activation[0] == 'S' ? 1.5f : -0.25f);
    application_real(app, "ouro.beta", 0.75f);
    if (residual) application_random(app, OP_FLOAT, 2 + spatial, y, seed);
}

/* The bytes of the weights for images in this form. */
static size_t bytes_packed(const application *app, const form *lie) {
    op_tensor inputs[APPLICATION_INPUTS], output = app->outputs[0];
    op_call call = app->call;
    rt_cost cost = {0};
    memcpy(inputs, app->inputs, sizeof inputs);
    call.inputs = inputs;
    call.outputs = &output;
    inputs[0].type.layout = lie->from;
    output.type.layout = lie->to;
    assert_true(kernel()->estimate(&call, &one_thread, 0, &cost));
    return cost.packed_bytes;
}

/* Runs the application on images in this form; the result comes back row-major. */
static op_tensor run_packed(application *app, const form *lie, int threads, bool in_place) {
    return application_packed(app, kernel(), lie->from, lie->to, bytes_packed(app, lie), threads, in_place);
}

static void check_all_near(const op_tensor *got, const op_tensor *expected, uint64_t seed) {
    int64_t count;
    assert_true(op_shape_elements(&expected->type.shape, &count));
    for (int64_t k = 0; k < count; k++)
        application_check_near(((const float *)got->data)[k], ((const float *)expected->data)[k], 2e-5, seed,
                               k);
}

static void test_equals_the_row_major_kernel(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS && application_machine_is_wide(); round++) {
        uint64_t seed = round;
        const form *lie = &forms[round % 4];
        const bool residual = round % 3 == 0;
        application app;
        draw(&app, &seed, lie->from == OP_LAYOUT_ROW_MAJOR, residual);
        application_run(&app, "portable.convolution", 1);
        const op_tensor got = run_packed(&app, lie, 1, false),
                        other = run_packed(&app, lie, 2 + (int)(round % 4), residual);
        check_all_near(&got, &app.outputs[0], round);
        if (memcmp(got.data, other.data, got.bytes) != 0)
            fail_msg("seed %" PRIu64 ": threads, or the place of the residual, change the result", round);
        application_free(&app);
    }
}

/* Weights that only a run has are packed in it: the bits are those of constants. Of few points they are not worth it. */
static void test_computed_weights(void **state) {
    (void)state;
    int accepted = 0, refused = 0;
    for (uint64_t round = 1; round <= ROUNDS && application_machine_is_wide(); round++) {
        uint64_t seed = round;
        const form *lie = &forms[round % 4];
        application app;
        draw(&app, &seed, lie->from == OP_LAYOUT_ROW_MAJOR, round % 3 == 0);
        application_run(&app, "portable.convolution", 1); /* for the shape of the result */
        const op_shape *y = &app.outputs[0].type.shape;
        int64_t points = 1;
        for (int32_t d = 0; d < y->rank; d++) points *= d == 1 ? 1 : y->dims[d];
        op_call call = app.call;
        op_tensor inputs[APPLICATION_INPUTS], result = app.outputs[0];
        memcpy(inputs, app.inputs, sizeof inputs);
        inputs[0].type.layout = lie->from;
        inputs[1].data = NULL;
        if (call.input_count > 3) inputs[3].type.layout = lie->to;
        result.type.layout = lie->to;
        call.inputs = inputs;
        call.outputs = &result;
        const bool taken = kernel()->accepts(&call, &one_thread);
        assert_int_equal(taken, points >= 32);
        accepted += taken;
        refused += !taken;
        if (taken) {
            const op_tensor want = run_packed(&app, lie, 1, false),
                            got = application_packed(&app, kernel(), lie->from, lie->to, 0,
                                                     1 + (int)(round % 5), false);
            if (memcmp(got.data, want.data, got.bytes) != 0)
                fail_msg("seed %" PRIu64 ": packed in the run, weights give other bits", round);
        }
        application_free(&app);
    }
    if (application_machine_is_wide()) assert_true(accepted > 50 && refused > 10);
}

/* Shapes that take each way through the kernel: whole and partial tiles of all sizes, panels in turns, channels in parts, points that lie a
 * multiple of a page apart, rings that are narrower than the image, work that threads share by panels. */
static void test_each_way(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, height, width, kernel, stride;
        int form;
    } cases[] = {
        {64, 64, 1, 1, 1, 1, 0},   {64, 64, 1, 13, 1, 1, 0},  {32, 16, 5, 5, 1, 1, 0},
        {512, 96, 7, 7, 3, 1, 0},  {300, 40, 3, 29, 1, 1, 1}, {520, 24, 5, 9, 3, 2, 1},
        {1024, 72, 6, 7, 1, 1, 1}, {512, 130, 9, 9, 3, 2, 1}, {1024, 16, 1, 50, 1, 1, 1},
        {3, 32, 9, 1500, 7, 2, 2}, {4, 20, 7, 901, 3, 1, 3},  {1, 17, 40, 40, 5, 1, 3},
        {2, 200, 3, 3, 3, 1, 2},   {16, 2000, 2, 2, 1, 1, 0}, {7, 48, 12, 11, 5, 2, 1},
        {3, 8, 30, 31, 11, 4, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && application_machine_is_wide(); i++) {
        const int64_t size = cases[i].kernel, stride = cases[i].stride, pad = size / 2;
        uint64_t seed = i + 1;
        application app;
        application_init(&app, OP_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(2, cases[i].channels, cases[i].height, cases[i].width),
                           &seed);
        float *w = application_random(&app, OP_FLOAT, 4,
                                      DIMS(cases[i].filters, cases[i].channels, size, size), &seed);
        /* Sums are as large as what is added, as in networks. */
        const int64_t depth = cases[i].channels * size * size;
        for (int64_t k = 0; k < cases[i].filters * depth; k++) w[k] /= sqrtf((float)depth);
        application_random(&app, OP_FLOAT, 1, DIMS(cases[i].filters), &seed);
        application_integers(&app, "strides", 2, DIMS(stride, stride));
        application_integers(&app, "pads", 4, DIMS(pad, pad, pad, pad));
        application_text(&app, "ouro.activation", i % 2 ? "Relu" : "Swish");
        application_real(&app, "ouro.alpha", 1);
        application_run(&app, "portable.convolution", 1);
        const op_tensor got = run_packed(&app, &forms[cases[i].form], 1, false);
        check_all_near(&got, &app.outputs[0], i);
        for (int threads = 2; threads <= 5; threads++) {
            const op_tensor other = run_packed(&app, &forms[cases[i].form], threads, false);
            assert_memory_equal(got.data, other.data, got.bytes);
        }
        application_free(&app);
    }
}

/* Some rows of the result are the same bits when they are made by themselves, from the rows of the image that they see. */
static void test_rows_do_not_depend_on_others(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 40 && application_machine_is_wide(); round++) {
        uint64_t seed = round;
        const form *lie = &forms[round % 4];
        const bool maps = lie->from == OP_LAYOUT_ROW_MAJOR;
        const int64_t channels = maps ? 3 : random_range(&seed, 8, 40), filters = random_range(&seed, 8, 50),
                      width = random_range(&seed, 3, 30);
        application whole, part;
        application_init(&whole, OP_CONV);
        float *x = application_random(&whole, OP_FLOAT, 4, DIMS(1, channels, 12, width), &seed);
        float *w = application_random(&whole, OP_FLOAT, 4, DIMS(filters, channels, 3, 3), &seed);
        for (int64_t i = 0; i < channels * 12 * width; i++) x[i] = x[i] < 0 ? 0 : x[i];
        application_integers(&whole, "pads", 4, DIMS(1, 1, 1, 1));
        assert_int_equal(application_infer(&whole), BASE_OK);
        /* Rows 0 to 4 of the result see rows 0 to 5. */
        application_init(&part, OP_CONV);
        float *some = application_input(&part, OP_FLOAT, 4, DIMS(1, channels, 6, width));
        float *same = application_input(&part, OP_FLOAT, 4, DIMS(filters, channels, 3, 3));
        for (int64_t c = 0; c < channels; c++)
            memcpy(some + c * 6 * width, x + c * 12 * width, (size_t)(6 * width) * sizeof *x);
        memcpy(same, w, (size_t)(filters * channels * 9) * sizeof *w);
        application_integers(&part, "pads", 4, DIMS(1, 1, 0, 1));
        assert_int_equal(application_infer(&part), BASE_OK);
        const op_tensor all = run_packed(&whole, lie, 1, false), few = run_packed(&part, lie, 1, false);
        for (int64_t f = 0; f < filters; f++)
            assert_memory_equal((const float *)few.data + f * 5 * width,
                                (const float *)all.data + f * 12 * width,
                                (size_t)(5 * width) * sizeof(float));
        application_free(&part);
        application_free(&whole);
    }
}

/* What is not finite in an image is seen by the windows that lie over it, and by no others; in the weights, by those that see the image there. */
static void test_infinities(void **state) {
    (void)state;
    for (int i = 0; i < 8 && application_machine_is_wide(); i++) {
        const bool in_weights = i >= 4;
        const form *lie = &forms[i % 4];
        const int64_t channels = lie->from == OP_LAYOUT_ROW_MAJOR ? 3 : 16;
        application app;
        uint64_t seed = 7;
        application_init(&app, OP_CONV);
        float *x = application_random(&app, OP_FLOAT, 4, DIMS(1, channels, 7, 21), &seed);
        float *w = application_random(&app, OP_FLOAT, 4, DIMS(16, channels, 3, 3), &seed);
        application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
        application_text(&app, "ouro.activation", "Relu");
        if (in_weights)
            w[2 * 9 * channels] = INFINITY; /* of filter 2, which sees the pixel up left of its own */
        else x[2 * 147 + 3 * 21 + 10] = NAN;
        for (int64_t k = 0; in_weights && k < channels * 147; k++) x[k] = fabsf(x[k]) + 1;
        application_run(&app, "portable.convolution", 1);
        const op_tensor got = run_packed(&app, lie, 1, false);
        for (int64_t k = 0; k < 16 * 147; k++) {
            const int64_t y = k / 21 % 7, at = k % 21;
            const float value = ((const float *)got.data)[k];
            if (in_weights) assert_int_equal(isinf(value) != 0, k / 147 == 2 && y >= 1 && at >= 1);
            else assert_int_equal(isnan(value) != 0, y >= 2 && y <= 4 && at >= 9 && at <= 11);
        }
        application_free(&app);
    }
}

/* Results of signals of a few maps may be row-major: the bits are those of others. Residuals, and images, may not. */
static void test_row_major_results(void **state) {
    (void)state;
    static const form plain = {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_ROW_MAJOR};
    int signals = 0;
    for (uint64_t round = 1; round <= ROUNDS && application_machine_is_wide(); round++) {
        uint64_t seed = round;
        application app;
        rt_cost cost;
        draw(&app, &seed, true, round % 5 == 0);
        assert_int_equal(application_infer(&app), BASE_OK);
        if (app.inputs[0].type.shape.rank != 3 || round % 5 == 0) {
            assert_false(kernel()->estimate(&app.call, &one_thread, 0, &cost));
        } else {
            const op_tensor want = run_packed(&app, &forms[2], 1, false),
                            got = run_packed(&app, &plain, 1 + (int)(round % 3), false);
            if (memcmp(got.data, want.data, got.bytes) != 0)
                fail_msg("seed %" PRIu64 ": row-major, results have other bits", round);
            signals++;
        }
        application_free(&app);
    }
    if (application_machine_is_wide()) assert_true(signals > 50);
}

/* Long signals, whose results are made as rows: the bits are those of results in blocks, whatever the threads, and with weights that the run
 * packs. An infinite weight that sees beside the signal counts for nothing there; a NaN is seen by the windows that lie over it. */
static void test_rows_of_long_signals(void **state) {
    (void)state;
    static const form plain = {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_ROW_MAJOR};
    static const struct {
        int64_t images, channels, filters, width, window, stride, dilation, before, after;
        const char *activation;
    } cases[] = {
        {1, 1, 64, 1600, 10, 5, 1, 0, 0, ""},      {2, 1, 17, 900, 16, 7, 1, 3, 200, "Swish"},
        {1, 4, 40, 300, 3, 1, 2, 2, 2, "Relu"},    {3, 2, 8, 150, 1, 1, 1, 0, 0, "HardSwish"},
        {1, 3, 25, 1000, 3, 8, 5, 9, 30, "Clip"},  {2, 2, 30, 40, 5, 1, 1, 300, 7, "Tanh"},
        {1, 1, 9, 200000, 4, 3, 1, 1, 1, ""},      {1, 1, 100, 30, 7, 1, 1, 0, 170, "Sigmoid"},
        {1, 1, 12, 400, 2, 3, 1, 0, 0, ""},        {1, 1, 24, 257, 64, 1, 2, 60, 63, "LeakyRelu"},
        {1, 1, 16, 100, 3, 64, 1, 9000, 9000, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && application_machine_is_wide(); i++) {
        uint64_t seed = i + 1;
        application app;
        application_init(&app, OP_CONV);
        float *x = application_random(&app, OP_FLOAT, 3,
                                      DIMS(cases[i].images, cases[i].channels, cases[i].width), &seed);
        float *w = application_random(&app, OP_FLOAT, 3,
                                      DIMS(cases[i].filters, cases[i].channels, cases[i].window), &seed);
        if (i % 3) application_random(&app, OP_FLOAT, 1, DIMS(cases[i].filters), &seed);
        application_integers(&app, "strides", 1, DIMS(cases[i].stride));
        application_integers(&app, "dilations", 1, DIMS(cases[i].dilation));
        application_integers(&app, "pads", 2, DIMS(cases[i].before, cases[i].after));
        if (cases[i].activation[0]) application_text(&app, "ouro.activation", cases[i].activation);
        application_real(&app, "ouro.alpha", cases[i].activation[0] == 'S' ? 1.5f : -0.25f);
        application_real(&app, "ouro.beta", 0.75f);
        for (int special = 0; special < 3; special++) {
            if (special == 1) x[cases[i].width / 2] = NAN;
            if (special == 2) w[0] = INFINITY;
            assert_int_equal(application_infer(&app), BASE_OK);
            const op_tensor want = run_packed(&app, &forms[2], 1, false);
            for (int threads = 1; threads <= 3; threads++) {
                const op_tensor got = run_packed(&app, &plain, threads, false);
                if (memcmp(got.data, want.data, got.bytes) != 0)
                    fail_msg("case %zu: rows made on %d threads have other bits", i, threads);
            }
            const op_tensor computed = application_packed(&app, kernel(), plain.from, plain.to, 0, 2, false);
            assert_memory_equal(computed.data, want.data, want.bytes);
        }
        application_free(&app);
    }
}

/* Windows of a row that are long: of maps alone; where many results see beside the signal, it is copied with zeros at its ends, and not if
 * weights are not finite. */
static void test_long_windows(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, width, window, stride, dilation, before, after;
        bool computed, infinite;
    } cases[] = {
        {1, 40, 3000, 512, 128, 1, 256, 256, false, false}, {1, 40, 3000, 512, 128, 1, 256, 256, true, false},
        {1, 40, 3000, 512, 128, 1, 256, 256, false, true},  {2, 17, 900, 130, 7, 3, 0, 400, false, false},
        {4, 24, 300, 200, 10, 1, 150, 0, true, false},      {1, 8, 100, 250, 3, 1, 240, 9, false, false},
        {1, 33, 5000, 1025, 1, 1, 3, 3, false, false},      {3, 20, 40, 129, 5, 1, 300, 300, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && application_machine_is_wide(); i++) {
        uint64_t seed = i + 1;
        application app;
        application_init(&app, OP_CONV);
        application_random(&app, OP_FLOAT, 3, DIMS(2, cases[i].channels, cases[i].width), &seed);
        float *w = application_random(&app, OP_FLOAT, 3,
                                      DIMS(cases[i].filters, cases[i].channels, cases[i].window), &seed);
        const int64_t depth = cases[i].channels * cases[i].window;
        for (int64_t k = 0; k < cases[i].filters * depth; k++) w[k] /= sqrtf((float)depth);
        if (cases[i].infinite) w[0] = INFINITY;
        application_integers(&app, "strides", 1, DIMS(cases[i].stride));
        application_integers(&app, "dilations", 1, DIMS(cases[i].dilation));
        application_integers(&app, "pads", 2, DIMS(cases[i].before, cases[i].after));
        application_run(&app, "portable.convolution", 1);
        for (size_t lie = 2; lie < 4; lie++) {
            const op_tensor got = cases[i].computed ? application_packed(&app, kernel(), forms[lie].from,
                                                                         forms[lie].to, 0, 1, false)
                                                    : run_packed(&app, &forms[lie], 1, false);
            const op_tensor other = run_packed(&app, &forms[lie], 3, false);
            assert_memory_equal(got.data, other.data, got.bytes);
            /* The first filter sees its infinite weight where that sees the signal. */
            const int64_t beside = cases[i].infinite ? cases[i].before / cases[i].stride : 0;
            for (int64_t k = 0; k < beside; k++) assert_true(isfinite(((const float *)got.data)[k]));
            if (!cases[i].infinite) check_all_near(&got, &app.outputs[0], i);
        }
        application_free(&app);
    }
}

/* A session made for one image runs another one, and the same results come. */
static void test_adapts(void **state) {
    (void)state;
    const rt_environment environment = {.threads = 1};
    for (int i = 0; i < 4 && application_machine_is_wide(); i++) {
        const int64_t channels = i < 2 ? 33 : 3;
        uint64_t seed = 5;
        application app, other;
        application_init(&app, OP_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(2, channels, 9, 31), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(40, channels, 3, 3), &seed);
        application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
        assert_int_equal(application_infer(&app), BASE_OK);
        const op_tensor expected = run_packed(&app, &forms[i], 1, false);
        application_init(&other, OP_CONV);
        application_input(&other, OP_FLOAT, 4, DIMS(1, channels, 20, 7));
        application_input(&other, OP_FLOAT, 4, DIMS(40, channels, 3, 3));
        application_integers(&other, "pads", 4, DIMS(1, 1, 1, 1));
        assert_int_equal(application_infer(&other), BASE_OK);
        op_tensor inputs[2] = {application_reordered(&app, &app.inputs[0], forms[i].from), app.inputs[1]},
                  output = app.outputs[0];
        rt_cost cost = {0};
        other.inputs[0].type.layout = forms[i].from;
        other.outputs[0].type.layout = output.type.layout = forms[i].to;
        assert_true(kernel()->estimate(&other.call, &environment, 0, &cost));
        inputs[1].type.layout = other.inputs[1].type.layout = OP_LAYOUT_PACKED;
        inputs[1].type.packed_bytes = other.inputs[1].type.packed_bytes = cost.packed_bytes;
        inputs[1].data = application_memory(&app, cost.packed_bytes);
        memset(inputs[1].data, 0, cost.packed_bytes);
        assert_int_equal(
            kernel()->pack(&other.call, &environment, 1, &app.inputs[1], inputs[1].data, &app.report),
            BASE_OK);
        rt_prepared prepared;
        assert_int_equal(
            rt_kernel_prepare(kernel(), &other.call, &environment, &other.arena, &prepared, &other.report),
            BASE_OK);
        op_call call = app.call;
        call.inputs = inputs;
        call.outputs = &output;
        assert_true(kernel()->adapt(&call, &environment, &prepared));
        assert_true(op_type_bytes(&output.type, &output.bytes));
        output.data = application_memory(&app, output.bytes);
        assert_int_equal(prepared.run(&prepared, inputs, &output, NULL, &app.report), BASE_OK);
        rt_kernel_release(&prepared);
        const op_tensor got = application_reordered(&app, &output, OP_LAYOUT_ROW_MAJOR);
        assert_memory_equal(got.data, expected.data, expected.bytes);
        application_free(&other);
        application_free(&app);
    }
}

static void test_prefers(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, group, kernel, dilation;
        op_layout present;
        float weight;
        bool portable, wanted;
        op_layout from, to;
    } cases[] = {
        {16, 16, 1, 3, 1, OP_LAYOUT_ROW_MAJOR, 1, false, true, OP_LAYOUT_NC16, OP_LAYOUT_NC16},
        {16, 16, 1, 3, 1, OP_LAYOUT_NHWC, 1, false, true, OP_LAYOUT_NHWC, OP_LAYOUT_NHWC},
        {24, 32, 1, 1, 1, OP_LAYOUT_ROW_MAJOR, 1, false, true, OP_LAYOUT_NHWC, OP_LAYOUT_NHWC},
        {3, 32, 1, 3, 1, OP_LAYOUT_ROW_MAJOR, 1, false, true, OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16},
        {3, 24, 1, 3, 1, OP_LAYOUT_ROW_MAJOR, 1, false, true, OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NHWC},
        {3, 32, 1, 3, 2, OP_LAYOUT_ROW_MAJOR, 1, false, true, OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16},
        {3, 32, 1, 3, 1, OP_LAYOUT_ROW_MAJOR, INFINITY, false, true, OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16},
        {64, 64, 2, 3, 1, OP_LAYOUT_ROW_MAJOR, 1, false, true, OP_LAYOUT_NC16, OP_LAYOUT_NC16},
        {16, 16, 1, 3, 1, OP_LAYOUT_ROW_MAJOR, 1, true, false, 0, 0},  /* on any machine */
        {16, 7, 1, 3, 1, OP_LAYOUT_ROW_MAJOR, 1, false, false, 0, 0},  /* few filters */
        {48, 48, 2, 3, 1, OP_LAYOUT_ROW_MAJOR, 1, false, false, 0, 0}, /* groups that fill no blocks */
        {16, 16, 1, 12, 1, OP_LAYOUT_ROW_MAJOR, 1, false, false, 0, 0} /* large windows */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        uint64_t seed = 1;
        const rt_environment environment = {.threads = 1, .portable_only = cases[i].portable};
        rt_preference wish = {.inputs = {cases[i].present}};
        application_init(&app, OP_CONV);
        application_input(&app, OP_FLOAT, 4, DIMS(1, cases[i].channels, 30, 30));
        float *w = application_random(
            &app, OP_FLOAT, 4,
            DIMS(cases[i].filters, cases[i].channels / cases[i].group, cases[i].kernel, cases[i].kernel),
            &seed);
        w[0] = cases[i].weight;
        application_integer(&app, "group", cases[i].group);
        application_integers(&app, "dilations", 2, DIMS(cases[i].dilation, cases[i].dilation));
        assert_int_equal(application_infer(&app), BASE_OK);
        const bool wanted = kernel()->prefer(&app.call, &environment, &wish);
        assert_int_equal(wanted, cases[i].wanted && application_machine_is_wide());
        if (wanted) {
            assert_int_equal(wish.inputs[0], cases[i].from);
            assert_int_equal(wish.output, cases[i].to);
            assert_int_equal(wish.inputs[1], OP_LAYOUT_PACKED);
        }
        assert_false(kernel()->accepts(&app.call, &environment)); /* weights are not packed */
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_the_row_major_kernel),
        cmocka_unit_test(test_computed_weights),
        cmocka_unit_test(test_each_way),
        cmocka_unit_test(test_rows_do_not_depend_on_others),
        cmocka_unit_test(test_infinities),
        cmocka_unit_test(test_row_major_results),
        cmocka_unit_test(test_rows_of_long_signals),
        cmocka_unit_test(test_long_windows),
        cmocka_unit_test(test_adapts),
        cmocka_unit_test(test_prefers),
    };
    return cmocka_run_group_tests_name("direct_convolution", tests, NULL, NULL);
}

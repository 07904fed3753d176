/* test_operators_heavy.c: shape functions and portable kernels of convolution, pooling, normalisation over
 * channels, matrix products and reordering, against plain references that share nothing with them.
 */
#include "tests/support_application.h"
#include "tests/support_operators.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define DIMS(...)                                                                                            \
    (int64_t[]) {                                                                                            \
        __VA_ARGS__                                                                                          \
    }

static double tolerance(op_dtype dtype) {
    return dtype == OP_DOUBLE ? 1e-12 : dtype == OP_FLOAT ? 1e-5 : dtype == OP_FLOAT16 ? 2e-3 : 1.6e-2;
}

static void check_near(double got, double want, double relative, uint64_t seed, int64_t index) {
    if (got == want || fabs(got - want) <= relative * (1 + fabs(want))) return;
    fail_msg("seed %" PRIu64 ": element %" PRId64 " is %.9g, expected %.9g", seed, index, got, want);
}

static void expect_failure(application *app, const char *message) {
    assert_int_equal(application_infer(app), BASE_INVALID);
    if (!strstr(app->report.text, message))
        fail_msg("message \"%s\" lacks \"%s\"", app->report.text, message);
    application_free(app);
}

static void expect_shape(application *app, int32_t rank, const int64_t *dims) {
    if (application_infer(app) != BASE_OK) fail_msg("%s", app->report.text);
    const op_shape *shape = &app->outputs[0].type.shape;
    assert_int_equal(shape->rank, rank);
    for (int32_t i = 0; i < rank; i++) assert_int_equal(shape->dims[i], dims[i]);
    application_free(app);
}

/* ---- convolution --------------------------------------------------------------------------------------- */

typedef struct geometry {
    int rank;
    int64_t batch, channels, filters, group;
    int64_t input[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} geometry;

static geometry random_geometry(uint64_t *seed) {
    geometry shape = {.rank = (int)random_range(seed, 1, 3), .batch = random_range(seed, 1, 2)};
    shape.group = random_range(seed, 0, 2) ? 1 : random_range(seed, 2, 4);
    const int64_t wide = random_range(seed, 0, 2);
    shape.channels = shape.group * random_range(seed, 1, wide ? 40 : 5);
    shape.filters = shape.group * random_range(seed, 1, wide == 2 ? 40 : 5);
    for (int i = 0; i < shape.rank; i++) {
        shape.kernel[i] = random_range(seed, 1, 3);
        shape.stride[i] = random_range(seed, 1, 3);
        shape.dilation[i] = random_range(seed, 1, 2);
        const int64_t extent = (shape.kernel[i] - 1) * shape.dilation[i] + 1;
        shape.before[i] = random_range(seed, 0, extent - 1);
        shape.after[i] = random_range(seed, 0, extent - 1);
        shape.input[i] = extent + random_range(seed, 0, shape.rank == 3 ? 6 : 19);
    }
    return shape;
}

/* An image without elements along one axis, and enough padding for the window. */
static void make_empty(geometry *shape, int axis) {
    const int64_t extent = (shape->kernel[axis] - 1) * shape->dilation[axis] + 1;
    shape->input[axis] = 0;
    shape->before[axis] = extent - 1;
    shape->after[axis] = extent;
}

static void add_geometry(application *app, const geometry *shape) {
    int64_t pads[6];
    for (int i = 0; i < shape->rank; i++) {
        pads[i] = shape->before[i];
        pads[shape->rank + i] = shape->after[i];
    }
    application_integers(app, "kernel_shape", (size_t)shape->rank, shape->kernel);
    application_integers(app, "strides", (size_t)shape->rank, shape->stride);
    application_integers(app, "dilations", (size_t)shape->rank, shape->dilation);
    application_integers(app, "pads", 2 * (size_t)shape->rank, pads);
}

static void add_convolution(application *app, op_dtype dtype, const geometry *shape, bool bias,
                            uint64_t *seed) {
    int64_t x[5] = {shape->batch, shape->channels},
            weights[5] = {shape->filters, shape->channels / shape->group};
    for (int i = 0; i < shape->rank; i++) {
        x[2 + i] = shape->input[i];
        weights[2 + i] = shape->kernel[i];
    }
    application_init(app, OP_CONV);
    application_random(app, dtype, shape->rank + 2, x, seed);
    application_random(app, dtype, shape->rank + 2, weights, seed);
    if (bias) application_random(app, dtype, 1, &shape->filters, seed);
    add_geometry(app, shape);
    application_integer(app, "group", shape->group);
}

/* Element of a tensor at a position given by batch, channel and three coordinates, of which `rank` count. */
static double at(const op_tensor *tensor, int rank, int64_t n, int64_t c, const int64_t *p) {
    const int64_t *dims = tensor->type.shape.dims;
    int64_t index = n * dims[1] + c;
    for (int i = 0; i < rank; i++) {
        if (p[i] < 0 || p[i] >= dims[2 + i]) return 0;
        index = index * dims[2 + i] + p[i];
    }
    return application_element(tensor, index);
}

static double reference_convolution(const application *app, const geometry *shape, int64_t n, int64_t m,
                                    const int64_t *o) {
    const int64_t each = shape->channels / shape->group, group = m / (shape->filters / shape->group);
    double sum = app->call.input_count > 2 ? application_element(&app->inputs[2], m) : 0;
    int64_t k[3] = {0};
    do {
        int64_t p[3];
        for (int i = 0; i < shape->rank; i++) {
            p[i] = o[i] * shape->stride[i] - shape->before[i] + k[i] * shape->dilation[i];
        }
        for (int64_t c = 0; c < each; c++) {
            sum += at(&app->inputs[0], shape->rank, n, group * each + c, p) *
                   at(&app->inputs[1], shape->rank, m, c, k);
        }
        int i = shape->rank - 1;
        while (i >= 0 && ++k[i] == shape->kernel[i]) k[i--] = 0;
        if (i < 0) return sum;
    } while (true);
}

/* Calls for every output position in order. */
static bool next_position(const op_shape *shape, int64_t *n, int64_t *c, int64_t *o) {
    int i = shape->rank - 1;
    while (i >= 2 && ++o[i - 2] == shape->dims[i]) o[i-- - 2] = 0;
    if (i >= 2) return true;
    if (++*c < shape->dims[1]) return true;
    *c = 0;
    return ++*n < shape->dims[0];
}

static void test_convolution(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT, OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16};
    for (uint64_t round = 1; round <= 90; round++) {
        uint64_t seed = round * 7919;
        geometry shape = random_geometry(&seed);
        const op_dtype dtype = dtypes[round % 6];
        if (round % 7 == 3) make_empty(&shape, (int)(round % (uint64_t)shape.rank));
        application app;
        add_convolution(&app, dtype, &shape, round % 2, &seed);
        application_run(&app, "portable.convolution", 1 + (int)(round % 2));
        int64_t n = 0, c = 0, o[3] = {0}, index = 0;
        do {
            check_near(application_element(&app.outputs[0], index),
                       reference_convolution(&app, &shape, n, c, o), tolerance(dtype) * 4, round, index);
            index++;
        } while (next_position(&app.outputs[0].type.shape, &n, &c, o));
        application_free(&app);
    }
}

/* With a residual beside, with one in place, with any activation; filters few and many. */
static void test_convolution_fused(void **state) {
    (void)state;
    static const char *const names[] = {"", "Relu", "LeakyRelu", "Clip", "Sigmoid", "Tanh"};
    for (uint64_t round = 1; round <= 48; round++) {
        uint64_t seed = round;
        geometry shape = {.rank = 2,
                          .batch = 2,
                          .channels = 6,
                          .filters = round % 4 == 0 ? 2 : 22,
                          .group = round % 4 == 1 ? 2 : 1,
                          .input = {9, 31},
                          .kernel = {3, 3},
                          .stride = {1, 1},
                          .dilation = {1, 1},
                          .before = {1, 1},
                          .after = {1, 1}};
        const char *name = names[round % 6];
        const op_dtype dtype = round % 5 == 0 ? OP_DOUBLE : OP_FLOAT;
        application app;
        add_convolution(&app, dtype, &shape, true, &seed);
        application_random(&app, dtype, 4, DIMS(2, shape.filters, 9, 31), &seed);
        if (*name) application_text(&app, "ouro.activation", name);
        if (round % 6 == 2) application_real(&app, "ouro.alpha", 0.25f);
        if (round % 6 == 3) {
            application_real(&app, "ouro.alpha", -0.5f);
            application_real(&app, "ouro.beta", 0.75f);
        }
        application_run(&app, "portable.convolution", 1 + (int)(round % 2));
        int64_t n = 0, c = 0, o[3] = {0}, index = 0;
        do {
            double want =
                reference_convolution(&app, &shape, n, c, o) + application_element(&app.inputs[3], index);
            switch (round % 6) {
            case 1:
                want = fmax(want, 0);
                break;
            case 2:
                want = want < 0 ? want / 4 : want;
                break;
            case 3:
                want = fmin(fmax(want, -0.5), 0.75);
                break;
            case 4:
                want = 1 / (1 + exp(-want));
                break;
            case 5:
                want = tanh(want);
                break;
            default:
                break;
            }
            check_near(application_element(&app.outputs[0], index), want, 2e-5, round, index);
            index++;
        } while (next_position(&app.outputs[0].type.shape, &n, &c, o));
        /* Over its residual it gives the same bits. */
        void *apart = app.outputs[0].data;
        app.outputs[0].data = app.inputs[3].data;
        application_run(&app, "portable.convolution", 1);
        assert_memory_equal(apart, app.inputs[3].data, app.outputs[0].bytes);
        application_free(&app);
    }
}

static void test_convolution_shapes(void **state) {
    (void)state;
    application app;
    application_init(&app, OP_CONV); /* symbols stay where the window keeps the extent */
    application_input(&app, OP_FLOAT, 4, DIMS(-1, 8, -2, 20));
    application_input(&app, OP_FLOAT, 4, DIMS(6, 4, 3, 3));
    application_integer(&app, "group", 2);
    application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
    expect_shape(&app, 4, DIMS(-1, 6, -2, 20));

    for (int64_t stride = 1; stride <= 3; stride++) {
        for (int lower = 0; lower < 2; lower++) {
            application_init(&app, OP_CONV);
            application_input(&app, OP_FLOAT, 3, DIMS(1, 1, 10));
            application_input(&app, OP_FLOAT, 3, DIMS(1, 1, 4));
            application_text(&app, "auto_pad", lower ? "SAME_LOWER" : "SAME_UPPER");
            application_integers(&app, "strides", 1, &stride);
            expect_shape(&app, 3, DIMS(1, 1, (10 + stride - 1) / stride));
        }
    }
    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5));
    application_input(&app, OP_FLOAT, 4, DIMS(4, 3, 3, 3));
    application_integer(&app, "group", 2);
    expect_failure(&app, "input 1 (weights) has 3 channels, expected 4 (X has 8, group is 2)");

    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5));
    application_input(&app, OP_FLOAT, 4, DIMS(4, 8, 7, 3));
    expect_failure(&app, "the window spans 7 in spatial dimension 0, expected at most 5");

    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5));
    application_input(&app, OP_FLOAT, 4, DIMS(4, 8, 3, 3));
    application_input(&app, OP_FLOAT, 1, DIMS(5));
    expect_failure(&app, "input 2 (bias) has 5 elements, expected 4");

    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5));
    application_input(&app, OP_DOUBLE, 4, DIMS(4, 8, 3, 3));
    expect_failure(&app, "input 1 is float64, expected float32");

    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5));
    application_input(&app, OP_FLOAT, 4, DIMS(4, 8, 3, 3));
    application_integers(&app, "strides", 2, DIMS(1, 0));
    expect_failure(&app, "attribute \"strides\" has the number 0, expected at least 1");
}

/* SAME_LOWER puts the odd padding in front: the first output sees it. */
static void test_convolution_auto_pad(void **state) {
    (void)state;
    for (int lower = 0; lower < 2; lower++) {
        application app;
        application_init(&app, OP_CONV);
        float *x = application_input(&app, OP_FLOAT, 3, DIMS(1, 1, 4));
        float *weights = application_input(&app, OP_FLOAT, 3, DIMS(1, 1, 2));
        for (int i = 0; i < 4; i++) x[i] = (float)(i + 1);
        weights[0] = 1;
        weights[1] = 10;
        application_text(&app, "auto_pad", lower ? "SAME_LOWER" : "SAME_UPPER");
        application_run(&app, "portable.convolution", 1);
        const float upper_want[] = {21, 32, 43, 4}, lower_want[] = {10, 21, 32, 43};
        assert_memory_equal(app.outputs[0].data, lower ? lower_want : upper_want, sizeof upper_want);
        application_free(&app);
    }
}

/* ---- pools --------------------------------------------------------------------------------------------- */

static void test_pool(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT,    OP_FLOAT, OP_DOUBLE, OP_FLOAT16,
                                      OP_BFLOAT16, OP_INT8,  OP_UINT8};
    for (uint64_t round = 1; round <= 140; round++) {
        uint64_t seed = round * 31;
        geometry shape = random_geometry(&seed);
        const op_dtype dtype = dtypes[round % 7];
        const bool average = round % 7 < 5 && round % 2, include = round % 4 == 1, ceil_mode = round % 3 == 0;
        const bool indices = !average && round % 4 == 0, column_major = round % 8 == 0;
        if (average) shape.dilation[0] = shape.dilation[1] = shape.dilation[2] = 1;
        for (int i = 0; i < shape.rank; i++) {
            const int64_t most = (shape.kernel[i] - 1) * shape.dilation[i];
            if (shape.before[i] > most) shape.before[i] = most;
            if (shape.after[i] > most) shape.after[i] = most;
        }
        application app;
        application_init(&app, average ? OP_AVERAGE_POOL : OP_MAX_POOL);
        int64_t x[5] = {shape.batch, shape.channels};
        for (int i = 0; i < shape.rank; i++) x[2 + i] = shape.input[i];
        application_random(&app, dtype, shape.rank + 2, x, &seed);
        add_geometry(&app, &shape);
        if (ceil_mode) application_integer(&app, "ceil_mode", 1);
        if (include) application_integer(&app, "count_include_pad", 1);
        if (column_major) application_integer(&app, "storage_order", 1);
        if (indices) app.call.output_count = 2;
        application_run(&app, "portable.pool", 1 + (int)(round % 2));
        int64_t n = 0, c = 0, o[3] = {0}, index = 0;
        do {
            double best = -INFINITY, sum = 0, count = 0;
            int64_t k[3] = {0}, found = -1, i;
            do {
                bool in = true, padded = true;
                int64_t p[3] = {0}, place = 0, scale = 1;
                for (i = 0; i < shape.rank; i++) {
                    p[i] = o[i] * shape.stride[i] - shape.before[i] + k[i] * shape.dilation[i];
                    in = in && p[i] >= 0 && p[i] < shape.input[i];
                    padded = padded && p[i] < shape.input[i] + shape.after[i];
                    if (column_major) place += p[i] * scale;
                    else place = place * shape.input[i] + p[i];
                    scale *= shape.input[i];
                }
                if (in) {
                    const double value = at(&app.inputs[0], shape.rank, n, c, p);
                    if (value > best) {
                        best = value;
                        found = (n * shape.channels + c) * scale + place;
                    }
                    sum += value;
                }
                count += include ? padded : in;
                i = shape.rank - 1;
                while (i >= 0 && ++k[i] == shape.kernel[i]) k[i--] = 0;
            } while (i >= 0);
            check_near(application_element(&app.outputs[0], index), average ? sum / count : best,
                       tolerance(dtype), round, index);
            if (indices) assert_int_equal(((int64_t *)app.outputs[1].data)[index], found);
            index++;
        } while (next_position(&app.outputs[0].type.shape, &n, &c, o));
        application_free(&app);
    }
}

static void test_pool_shapes(void **state) {
    (void)state;
    application app;
    application_init(&app, OP_MAX_POOL);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 4, 4));
    application_integers(&app, "kernel_shape", 2, DIMS(3, 3));
    application_integers(&app, "strides", 2, DIMS(2, 2));
    application_integer(&app, "ceil_mode", 1);
    expect_shape(&app, 4, DIMS(1, 3, 2, 2));

    application_init(&app,
                     OP_AVERAGE_POOL); /* a last window that would begin in the padding does not count */
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 2, 2));
    application_integers(&app, "kernel_shape", 2, DIMS(3, 3));
    application_integers(&app, "strides", 2, DIMS(3, 3));
    application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
    application_integer(&app, "ceil_mode", 1);
    expect_shape(&app, 4, DIMS(1, 3, 1, 1));

    application_init(&app, OP_MAX_POOL);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 4, 4));
    expect_failure(&app, "attribute \"kernel_shape\" is absent, expected 2 numbers");

    application_init(&app, OP_MAX_POOL);
    application_input(&app, OP_INT32, 4, DIMS(1, 3, 4, 4));
    expect_failure(&app, "input 0 is int32, expected");

    application_init(&app, OP_MAX_POOL);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 4, 4));
    application_integers(&app, "kernel_shape", 2, DIMS(2, 2));
    application_integers(&app, "pads", 4, DIMS(2, 0, 0, 0));
    expect_failure(&app, "the padding is 2 in spatial dimension 0, expected less than 2");
}

/* Windows that see nothing: what padding is. */
static void test_pool_of_nothing(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_INT8, OP_UINT8};
    static const double lowest[] = {-INFINITY, -INFINITY, -INFINITY, -128, 0};
    for (int form = 0; form < 15; form++) {
        const int kind = form % 3; /* maximum, average, average with padding */
        application app;
        if (kind && form / 3 > 2) continue;
        application_init(&app, kind ? OP_AVERAGE_POOL : OP_MAX_POOL);
        application_input(&app, dtypes[form / 3], 4, DIMS(1, 2, 0, 3));
        application_integers(&app, "kernel_shape", 2, DIMS(2, 2));
        application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
        if (kind == 2) application_integer(&app, "count_include_pad", 1);
        application_run(&app, "portable.pool", 1);
        const op_shape *y = &app.outputs[0].type.shape;
        assert_true(y->dims[1] == 2 && y->dims[2] == 1 && y->dims[3] == 4);
        for (int64_t i = 0; i < 8; i++)
            assert_true(application_element(&app.outputs[0], i) == (kind ? 0 : lowest[form / 3]));
        application_free(&app);
    }
    application app;
    application_init(&app, OP_MAX_POOL); /* where no window fits, nothing is */
    application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 0, 3));
    application_integers(&app, "kernel_shape", 2, DIMS(2, 2));
    expect_shape(&app, 4, DIMS(1, 2, 0, 2));
}

static void test_global_pool(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16};
    for (uint64_t round = 1; round <= 12; round++) {
        uint64_t seed = round;
        const bool maximum = round % 2;
        const op_dtype dtype = dtypes[round % 3];
        application app;
        application_init(&app, maximum ? OP_GLOBAL_MAX_POOL : OP_GLOBAL_AVERAGE_POOL);
        application_random(&app, dtype, 4, DIMS(2, 5, 7, (int64_t)round), &seed);
        application_run(&app, "portable.pool", 2);
        const int64_t size = 7 * (int64_t)round;
        for (int64_t map = 0; map < 10; map++) {
            double best = -INFINITY, sum = 0;
            for (int64_t i = 0; i < size; i++) {
                best = fmax(best, application_element(&app.inputs[0], map * size + i));
                sum += application_element(&app.inputs[0], map * size + i);
            }
            check_near(application_element(&app.outputs[0], map), maximum ? best : sum / (double)size,
                       tolerance(dtype), round, map);
        }
        application_free(&app);
    }
}

/* ---- normalisation ------------------------------------------------------------------------------------- */

static void test_batch_normalization(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16};
    for (int round = 0; round < 3; round++) {
        uint64_t seed = 5;
        application app;
        application_init(&app, OP_BATCH_NORMALIZATION);
        application_random(&app, dtypes[round], 3, DIMS(2, 3, 50), &seed);
        for (int i = 1; i < 5; i++) {
            float *values = application_random(&app, OP_FLOAT, 1, DIMS(3), &seed);
            for (int c = 0; i == 4 && c < 3; c++) values[c] = fabsf(values[c]) + 0.1f;
        }
        application_real(&app, "epsilon", 0.01f);
        application_run(&app, "portable.batch_normalization", 1);
        for (int64_t i = 0; i < 300; i++) {
            double p[5];
            for (int k = 1; k < 5; k++) p[k] = application_element(&app.inputs[k], i / 50 % 3);
            const double x = application_element(&app.inputs[0], i);
            check_near(application_element(&app.outputs[0], i),
                       (x - p[3]) / sqrt(p[4] + (double)0.01f) * p[1] + p[2], tolerance(dtypes[round]), 5, i);
        }
        application_free(&app);
    }
    application app;
    application_init(&app, OP_BATCH_NORMALIZATION);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 4, 4));
    for (int i = 1; i < 5; i++) application_input(&app, OP_FLOAT, 1, DIMS(i == 3 ? 4 : 3));
    expect_failure(&app, "input 3 (mean) has 4 elements, expected 3");

    application_init(&app, OP_BATCH_NORMALIZATION);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 4, 4));
    for (int i = 1; i < 5; i++) application_input(&app, OP_FLOAT, 1, DIMS(3));
    app.call.output_count = 2;
    expect_failure(&app, "expected training_mode 1");
}

/* Statistics of the batch, the running ones, and numbers normalised over their own place. */
static void test_batch_normalization_training(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_FLOAT};
    for (int round = 0; round < 4; round++) {
        enum { BATCH = 3, CHANNELS = 5 };
        const int64_t size = round == 3 ? 20000 : 7 * (round + 1), all = BATCH * CHANNELS * size;
        const double momentum = round == 1 ? 0.25 : (double)0.9f, bound = tolerance(dtypes[round]);
        uint64_t seed = 77;
        op_attribute attributes[2] = {
            {.name = "training_mode", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1},
            {.name = "momentum", .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = (float)momentum}};
        base_arena arena;
        base_arena_init(&arena, NULL);
        base_report report = {0};
        const op_dtype dtype = dtypes[round], own = round == 0 ? OP_DOUBLE : dtype;
        const op_shape shape = {.rank = 3, .dims = {BATCH, CHANNELS, size}}, vector = test_shape(1, CHANNELS);
        op_tensor inputs[5] = {test_tensor(&arena, dtype, &shape)}, outputs[5];
        for (int i = 1; i < 5; i++) inputs[i] = test_tensor(&arena, i < 3 ? dtype : own, &vector);
        for (int i = 0; i < 5; i++) {
            for (int64_t k = 0, count = i ? CHANNELS : all; k < count; k++) {
                test_set(&inputs[i], k,
                         (double)random_float(&seed) + (i == 0 ? (double)(k / size % CHANNELS) : 1.5));
            }
        }
        op_call call = {.code = OP_BATCH_NORMALIZATION,
                        .attributes = {round == 1 ? 2 : 1, attributes},
                        .input_count = 5,
                        .output_count = 5,
                        .inputs = inputs,
                        .outputs = outputs};
        unsigned in_place = 0;
        if (test_apply(&call, &arena, &in_place, &report) != BASE_OK) fail_msg("%s", report.text);
        assert_int_equal(in_place, OP_IN_PLACE(0));
        for (int64_t c = 0; c < CHANNELS; c++) {
            double mean = 0, variance = 0;
            for (int64_t i = 0; i < all; i++) mean += i / size % CHANNELS == c ? test_real(&inputs[0], i) : 0;
            mean /= (double)(BATCH * size);
            for (int64_t i = 0; i < all; i++) {
                const double away = test_real(&inputs[0], i) - mean;
                variance += i / size % CHANNELS == c ? away * away : 0;
            }
            variance /= (double)(BATCH * size);
            const double want[] = {test_real(&inputs[3], c) * momentum + mean * (1 - momentum),
                                   test_real(&inputs[4], c) * momentum + variance * (1 - momentum), mean,
                                   variance};
            for (int i = 0; i < 4; i++) {
                assert_int_equal(outputs[1 + i].type.dtype, own);
                check_near(test_real(&outputs[1 + i], c), want[i], bound, 77, c);
            }
            for (int64_t i = c * size; i < (c + 1) * size; i += 3) {
                const double y = (test_real(&inputs[0], i) - mean) / sqrt(variance + (double)1e-5f);
                check_near(test_real(&outputs[0], i), y * test_real(&inputs[1], c) + test_real(&inputs[2], c),
                           4 * bound, 77, i);
            }
        }
        base_arena_free(&arena);
    }
}

static void test_lrn(void **state) {
    (void)state;
    for (int64_t size = 1; size <= 6; size++) {
        uint64_t seed = 9;
        const float beta = size % 2 ? 0.75f : 0.6f;
        const op_dtype dtype = size == 4 ? OP_DOUBLE : OP_FLOAT;
        application app;
        application_init(&app, OP_LRN);
        application_random(&app, dtype, 3, DIMS(2, 7, 300), &seed);
        application_integer(&app, "size", size);
        application_real(&app, "alpha", 0.5f);
        application_real(&app, "beta", beta);
        application_real(&app, "bias", 2);
        application_run(&app, "portable.lrn", 2);
        for (int64_t i = 0; i < 2 * 7 * 300; i++) {
            const int64_t c = i / 300 % 7, half = (size - 1) / 2;
            double sum = 0;
            for (int64_t d = c - half; d <= c + size - 1 - half; d++) {
                if (d >= 0 && d < 7) sum += pow(application_element(&app.inputs[0], i + (d - c) * 300), 2);
            }
            check_near(application_element(&app.outputs[0], i),
                       application_element(&app.inputs[0], i) /
                           pow(2 + 0.5 / (double)size * sum, (double)beta),
                       1e-5, (uint64_t)size, i);
        }
        application_free(&app);
    }
}

/* ---- matrix products ----------------------------------------------------------------------------------- */

/* The element of a tensor that broadcasts to the shape, at flat index `index` of the shape. */
static double broadcast_element(const op_tensor *tensor, const int64_t *dims, int32_t rank, int64_t index) {
    int64_t offset = 0, stride = 1;
    const op_shape *own = &tensor->type.shape;
    for (int32_t i = rank - 1, k = own->rank - 1; k >= 0; i--, k--) {
        if (own->dims[k] != 1) offset += index % dims[i] * stride;
        stride *= own->dims[k];
        index /= dims[i];
    }
    return application_element(tensor, offset);
}

static void test_matmul(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT,   OP_FLOAT, OP_FLOAT, OP_FLOAT,  OP_DOUBLE,
                                      OP_FLOAT16, OP_INT32, OP_INT64, OP_UINT32, OP_UINT64};
    for (uint64_t round = 1; round <= 150; round++) {
        uint64_t seed = round * 104729;
        const op_dtype dtype = dtypes[round % 10];
        const int64_t rows = random_range(&seed, 1, round % 3 ? 3 : 40),
                      depth = random_range(&seed, 1, 70) * 5;
        const int64_t columns = random_range(&seed, 1, 150);
        const bool row = round % 11 == 0, column = round % 13 == 0;
        int64_t a[OP_MAX_RANK], b[OP_MAX_RANK], y[OP_MAX_RANK];
        int32_t ranks[2] = {0, 0}, rank = row || column ? 0 : (int32_t)random_range(&seed, 0, 2);
        /* Stacks that broadcast: a dimension may be 1 on either side, or missing in front. */
        const bool shared = round % 4 == 0;
        for (int32_t i = 0; i < rank; i++) {
            y[i] = random_range(&seed, 1, 3);
            a[ranks[0]++] = !shared && random_range(&seed, 0, 3) == 0 ? 1 : y[i];
            if (!shared && (i > 0 || round % 2)) b[ranks[1]++] = random_range(&seed, 0, 3) == 0 ? 1 : y[i];
            else if (a[i] == 1) y[i] = 1;
            if (ranks[1] == i + 1 && a[i] == 1 && b[i] == 1) y[i] = 1;
        }
        const int32_t batch_a = ranks[0], batch_b = ranks[1];
        if (!row) a[ranks[0]++] = rows;
        a[ranks[0]++] = depth;
        b[ranks[1]++] = depth;
        if (!column) b[ranks[1]++] = columns;
        application app;
        application_init(&app, OP_MATMUL);
        application_random(&app, dtype, ranks[0], a, &seed);
        application_random(&app, dtype, ranks[1], b, &seed);
        if (application_infer(&app) != BASE_OK) fail_msg("seed %d: %s", (int)round, app.report.text);
        const op_shape shape = app.outputs[0].type.shape;
        const bool bias = dtype != OP_FLOAT16 && round % 3 == 0 && shape.rank > 0;
        if (bias) {
            int64_t dims[OP_MAX_RANK];
            const int32_t from = (int32_t)random_range(&seed, 0, shape.rank);
            for (int32_t i = from; i < shape.rank; i++) {
                dims[i - from] = random_range(&seed, 0, 2) ? shape.dims[i] : 1;
            }
            application_random(&app, dtype, shape.rank - from, dims, &seed);
        }
        const bool relu = round % 10 < 5 && round % 2;
        if (relu) application_text(&app, "ouro.activation", "Relu");
        application_run(&app, "portable.matmul", 1 + (int)(round % 2));
        int64_t count;
        assert_true(op_shape_elements(&shape, &count));
        for (int64_t i = 0; i < count; i++) {
            const int64_t m = row ? 1 : rows, n = column ? 1 : columns;
            const int64_t in_row = i / n % m, in_column = i % n;
            int64_t outer = i / n / m, from_a = 0, from_b = 0, stride_a = 1, stride_b = 1;
            for (int32_t d = rank - 1; d >= 0; d--) {
                const int32_t at_a = d - (rank - batch_a), at_b = d - (rank - batch_b);
                if (at_a >= 0 && a[at_a] != 1) from_a += outer % shape.dims[d] * stride_a;
                if (at_b >= 0 && b[at_b] != 1) from_b += outer % shape.dims[d] * stride_b;
                if (at_a >= 0) stride_a *= a[at_a];
                if (at_b >= 0) stride_b *= b[at_b];
                outer /= shape.dims[d];
            }
            double want = 0;
            for (int64_t k = 0; k < depth; k++) {
                want += application_element(&app.inputs[0], (from_a * m + in_row) * depth + k) *
                        application_element(&app.inputs[1], (from_b * depth + k) * n + in_column);
            }
            if (bias) want += broadcast_element(&app.inputs[2], shape.dims, shape.rank, i);
            if (relu) want = fmax(want, 0);
            if (dtype == OP_UINT32) want = fmod(want, 4294967296.0);
            check_near(application_element(&app.outputs[0], i), want, tolerance(dtype) * 10, round, i);
        }
        application_free(&app);
    }
}

/* Sums are added from the front to the back, one after the other, whatever the instruction set and the number
 * of threads: the same bits as this loop. */
static void test_products_order(void **state) {
    (void)state;
    for (int64_t rows = 4; rows <= 23; rows++) {
        for (int threads = 1; threads <= 3; threads++) {
            uint64_t seed = (uint64_t)rows;
            const int64_t depth = 300, columns = 150 + rows;
            application app;
            application_init(&app, OP_MATMUL);
            const float *a = application_random(&app, OP_FLOAT, 2, DIMS(rows, depth), &seed);
            const float *b = application_random(&app, OP_FLOAT, 2, DIMS(depth, columns), &seed);
            application_run(&app, "portable.matmul", threads);
            const float *y = app.outputs[0].data;
            for (int64_t i = 0; i < rows * columns; i++) {
                float sum = 0;
                for (int64_t k = 0; k < depth; k++)
                    sum += a[i / columns * depth + k] * b[k * columns + i % columns];
                if (memcmp(&sum, &y[i], sizeof sum) != 0) fail_msg("rows %d, element %d", (int)rows, (int)i);
            }
            application_free(&app);
        }
    }
}

/* Operands whose axes are read in another order: as if a Transpose stood before. */
static void test_matmul_orders(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 200; round++) {
        uint64_t seed = round * 7907;
        const int32_t rank = (int32_t)random_range(&seed, 2, 4);
        const int64_t rows = random_range(&seed, 1, round % 2 ? 3 : 20), depth = random_range(&seed, 1, 40);
        const int64_t columns = random_range(&seed, 1, 40);
        application turned, plain;
        application_init(&turned, OP_MATMUL);
        application_init(&plain, OP_MATMUL);
        int64_t stack[2] = {random_range(&seed, 1, 3), random_range(&seed, 1, 3)};
        for (int operand = 0; operand < 2; operand++) {
            int64_t seen[4], own[4], order[4], strides[4], elements = 1;
            for (int32_t i = 0; i < rank; i++) seen[i] = i < rank - 2 ? stack[i] : 0;
            seen[rank - 2] = operand ? depth : rows;
            seen[rank - 1] = operand ? columns : depth;
            for (int32_t i = 0; i < rank; i++) order[i] = i;
            for (int32_t i = rank - 1; i > 0; i--) {
                const int64_t k = random_range(&seed, 0, i), kept = order[i];
                order[i] = order[k];
                order[k] = kept;
            }
            for (int32_t i = 0; i < rank; i++) own[order[i]] = seen[i];
            float *x = application_random(&turned, OP_FLOAT, rank, own, &seed);
            float *z = application_input(&plain, OP_FLOAT, rank, seen);
            for (int32_t i = rank - 1; i >= 0; i--) {
                strides[i] = elements;
                elements *= own[i];
            }
            for (int64_t e = 0; e < elements; e++) {
                int64_t rest = e, from = 0;
                for (int32_t i = rank - 1; i >= 0; i--) {
                    from += rest % seen[i] * strides[order[i]];
                    rest /= seen[i];
                }
                z[e] = x[from];
            }
            application_integers(&turned, operand ? "ouro.right" : "ouro.left", (size_t)rank, order);
        }
        const int threads = 1 + (int)(round % 3);
        application_run(&turned, "portable.matmul", threads);
        application_run(&plain, "portable.matmul", threads);
        assert_true(op_shape_equal(&turned.outputs[0].type.shape, &plain.outputs[0].type.shape));
        for (size_t i = 0; i < turned.outputs[0].bytes / sizeof(float); i++) {
            check_near(application_element(&turned.outputs[0], (int64_t)i),
                       application_element(&plain.outputs[0], (int64_t)i), 1e-4, round, (int64_t)i);
        }
        application_free(&turned);
        application_free(&plain);
    }
    /* What is no order is refused. */
    static const int64_t wrong[][3] = {{0, 0, 1}, {0, 1, 3}, {-1, 0, 1}};
    for (size_t i = 0; i < 4; i++) {
        uint64_t seed = 3;
        application app;
        application_init(&app, OP_MATMUL);
        application_random(&app, OP_FLOAT, 3, DIMS(2, 2, 2), &seed);
        application_random(&app, OP_FLOAT, 3, DIMS(2, 2, 2), &seed);
        application_integers(&app, i % 2 ? "ouro.right" : "ouro.left", i < 3 ? 3 : 2, wrong[i % 3]);
        assert_int_equal(application_infer(&app), BASE_INVALID);
        application_free(&app);
    }
}

static void test_gemm(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT, OP_DOUBLE, OP_INT32, OP_BFLOAT16};
    for (uint64_t round = 1; round <= 120; round++) {
        uint64_t seed = round * 65537;
        const op_dtype dtype = dtypes[round % 5];
        const bool whole = dtype == OP_INT32, turn_a = round % 2, turn_b = round % 4 < 2;
        const int64_t m = random_range(&seed, 1, round % 3 ? 5 : 50), k = random_range(&seed, 1, 400);
        const int64_t n = random_range(&seed, 1, 200), form = random_range(&seed, 0, 5);
        const float alpha = whole ? 2 : random_float(&seed), beta = whole ? 3 : random_float(&seed);
        application app;
        application_init(&app, OP_GEMM);
        application_random(&app, dtype, 2, turn_a ? DIMS(k, m) : DIMS(m, k), &seed);
        application_random(&app, dtype, 2, turn_b ? DIMS(n, k) : DIMS(k, n), &seed);
        if (form == 1) application_random(&app, dtype, 0, NULL, &seed);
        if (form == 2) application_random(&app, dtype, 1, DIMS(n), &seed);
        if (form == 3) application_random(&app, dtype, 2, DIMS(m, 1), &seed);
        if (form == 4) application_random(&app, dtype, 2, DIMS(m, n), &seed);
        if (form == 5) application_random(&app, dtype, 2, DIMS(1, n), &seed);
        application_integer(&app, "transA", turn_a);
        application_integer(&app, "transB", turn_b);
        application_real(&app, "alpha", alpha);
        application_real(&app, "beta", beta);
        application_run(&app, "portable.gemm", 1 + (int)(round % 2));
        for (int64_t i = 0; i < m * n; i++) {
            double sum = 0;
            for (int64_t d = 0; d < k; d++) {
                sum += application_element(&app.inputs[0], turn_a ? d * m + i / n : i / n * k + d) *
                       application_element(&app.inputs[1], turn_b ? i % n * k + d : d * n + i % n);
            }
            sum *= (double)alpha;
            if (form) sum += (double)beta * broadcast_element(&app.inputs[2], DIMS(m, n), 2, i);
            check_near(application_element(&app.outputs[0], i), sum, tolerance(dtype) * 10, round, i);
        }
        application_free(&app);
    }
}

/* A matrix, or a stack of them, times one column, as it lies and turned round; the same bits for every number of
 * threads. */
static void test_one_column(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 120; round++) {
        uint64_t seed = round * 7919;
        const bool gemm = round % 2, turned = gemm && round % 4 == 1;
        const int64_t rows = random_range(&seed, 1, round % 5 ? 40 : 400),
                      depth = random_range(&seed, 1, round % 3 ? 40 : 600);
        const int64_t stack = gemm ? 1 : random_range(&seed, 1, 3), form = random_range(&seed, 0, 3);
        const float alpha = gemm ? 0.75f : 1, beta = gemm ? -1.5f : 1;
        float first[1200];
        for (int threads = 1; threads <= 3; threads++) {
            uint64_t same = seed;
            application app;
            application_init(&app, gemm ? OP_GEMM : OP_MATMUL);
            if (gemm)
                application_random(&app, OP_FLOAT, 2, turned ? DIMS(depth, rows) : DIMS(rows, depth), &same);
            else application_random(&app, OP_FLOAT, 3, DIMS(stack, rows, depth), &same);
            application_random(&app, OP_FLOAT, 2, DIMS(depth, 1), &same);
            if (form == 1) application_random(&app, OP_FLOAT, 1, DIMS(1), &same);
            if (form == 2) application_random(&app, OP_FLOAT, 2, DIMS(rows, 1), &same);
            if (gemm) application_integer(&app, "transA", turned);
            if (gemm) application_real(&app, "alpha", alpha);
            if (gemm) application_real(&app, "beta", beta);
            if (round % 7 == 0) application_text(&app, "ouro.activation", "Relu");
            application_run(&app, gemm ? "portable.gemm" : "portable.matmul", threads);
            for (int64_t i = 0; i < stack * rows; i++) {
                double sum = 0;
                for (int64_t k = 0; k < depth; k++) {
                    sum += application_element(&app.inputs[0], turned ? k * rows + i : i * depth + k) *
                           application_element(&app.inputs[1], k);
                }
                sum *= (double)alpha;
                if (form == 1 || form == 2)
                    sum += (double)beta * application_element(&app.inputs[2], form == 1 ? 0 : i % rows);
                if (round % 7 == 0) sum = fmax(sum, 0);
                check_near(application_element(&app.outputs[0], i), sum, 1e-4, round, i);
            }
            const size_t bytes = (size_t)(stack * rows) * sizeof *first;
            if (threads == 1) memcpy(first, app.outputs[0].data, bytes);
            else assert_memory_equal(first, app.outputs[0].data, bytes);
            application_free(&app);
        }
    }
}

static void test_matrix_shapes(void **state) {
    (void)state;
    application app;
    application_init(&app, OP_MATMUL);
    application_input(&app, OP_FLOAT, 3, DIMS(-1, 5, 4));
    application_input(&app, OP_FLOAT, 2, DIMS(4, -2));
    expect_shape(&app, 3, DIMS(-1, 5, -2));

    application_init(&app, OP_MATMUL);
    application_input(&app, OP_FLOAT, 1, DIMS(4));
    application_input(&app, OP_FLOAT, 1, DIMS(4));
    expect_shape(&app, 0, NULL);

    application_init(&app, OP_MATMUL);
    application_input(&app, OP_FLOAT, 2, DIMS(3, 4));
    application_input(&app, OP_FLOAT, 2, DIMS(5, 6));
    expect_failure(&app, "input 1 has 5 rows, expected 4, the columns of input 0");

    application_init(&app, OP_MATMUL);
    application_input(&app, OP_FLOAT, 3, DIMS(2, 3, 4));
    application_input(&app, OP_FLOAT, 3, DIMS(3, 4, 6));
    expect_failure(&app, "the stacks of matrices [2] and [3] do not fit");

    application_init(&app, OP_GEMM);
    application_input(&app, OP_FLOAT, 2, DIMS(-1, 4));
    application_input(&app, OP_FLOAT, 2, DIMS(7, 4));
    application_integer(&app, "transB", 1);
    expect_shape(&app, 2, DIMS(-1, 7));

    application_init(&app, OP_GEMM);
    application_input(&app, OP_FLOAT, 2, DIMS(3, 4));
    application_input(&app, OP_FLOAT, 2, DIMS(4, 7));
    application_input(&app, OP_FLOAT, 1, DIMS(3));
    expect_failure(&app, "input 2 has shape [3], expected one that broadcasts to [3,7]");
}

/* ---- reordering ---------------------------------------------------------------------------------------- */

/* Where element (n, c, p) lies in a layout, in elements. */
static int64_t place_in(op_layout layout, int64_t channels, int64_t size, int64_t n, int64_t c, int64_t p) {
    if (layout == OP_LAYOUT_PLAIN) return (n * channels + c) * size + p;
    if (layout == OP_LAYOUT_NHWC) return (n * size + p) * channels + c;
    const int64_t block = layout == OP_LAYOUT_NC8 ? 8 : 16, blocks = (channels + block - 1) / block;
    return ((n * blocks + c / block) * size + p) * block + c % block;
}

static void test_reorder(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_UINT8};
    for (int from = 0; from < OP_LAYOUT_PACKED; from++) {
        for (int to = 0; to < OP_LAYOUT_PACKED; to++) {
            for (int64_t channels = 1; channels <= 37; channels += 6) {
                uint64_t seed = (uint64_t)channels;
                const op_dtype dtype = dtypes[(channels + to) % 4];
                const size_t element = op_dtype_bytes(dtype);
                op_tensor plain;
                application first, second;
                application_init(&first, OP_REORDER);
                application_random(&first, dtype, 4, DIMS(2, channels, 3, 5), &seed);
                application_integer(&first, "ouro.layout", from);
                application_run(&first, "portable.reorder", 1);
                plain = first.inputs[0];
                application_init(&second, OP_REORDER);
                second.inputs[0] = first.outputs[0];
                second.call.input_count = 1;
                application_integer(&second, "ouro.layout", to);
                application_run(&second, "portable.reorder", 2);
                const char *x = plain.data, *y = second.outputs[0].data;
                for (int64_t i = 0; i < 2 * channels * 15; i++) {
                    const int64_t at_y =
                        place_in((op_layout)to, channels, 15, i / 15 / channels, i / 15 % channels, i % 15);
                    assert_memory_equal(x + (size_t)i * element, y + (size_t)at_y * element, element);
                }
                if (to == OP_LAYOUT_NC8 || to == OP_LAYOUT_NC16) {
                    const int64_t block = to == OP_LAYOUT_NC8 ? 8 : 16;
                    const char zeros[16] = {0};
                    for (int64_t c = channels; c % block; c++) {
                        const int64_t at_y = place_in((op_layout)to, channels, 15, 1, c, 7);
                        assert_memory_equal(zeros, y + (size_t)at_y * element, element);
                    }
                }
                application_free(&first);
                application_free(&second);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_convolution),
                                       cmocka_unit_test(test_convolution_fused),
                                       cmocka_unit_test(test_convolution_shapes),
                                       cmocka_unit_test(test_convolution_auto_pad),
                                       cmocka_unit_test(test_pool),
                                       cmocka_unit_test(test_pool_shapes),
                                       cmocka_unit_test(test_pool_of_nothing),
                                       cmocka_unit_test(test_global_pool),
                                       cmocka_unit_test(test_batch_normalization),
                                       cmocka_unit_test(test_batch_normalization_training),
                                       cmocka_unit_test(test_lrn),
                                       cmocka_unit_test(test_matmul),
                                       cmocka_unit_test(test_products_order),
                                       cmocka_unit_test(test_matmul_orders),
                                       cmocka_unit_test(test_gemm),
                                       cmocka_unit_test(test_one_column),
                                       cmocka_unit_test(test_matrix_shapes),
                                       cmocka_unit_test(test_reorder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

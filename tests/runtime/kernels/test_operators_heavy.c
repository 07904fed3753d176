/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_heavy.c: shape functions and portable kernels of convolution, pooling, normalisation over
 * channels and reordering, against plain references that share nothing with them.
 */
#include "tests/support/application.h"
#include "tests/support/operators.h"
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

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

/* Few outputs of many channels, enough of them for several threads. */
static void make_narrow(geometry *shape, uint64_t *seed) {
    shape->channels = shape->group * random_range(seed, 20, 60);
    shape->filters = shape->group * random_range(seed, 4, 120);
    for (int i = 0; i < shape->rank; i++) {
        const int64_t extent = (shape->kernel[i] - 1) * shape->dilation[i] + 1;
        shape->before[i] = random_range(seed, 0, extent > 1);
        shape->after[i] = random_range(seed, 0, extent > 1);
        shape->input[i] = extent + random_range(seed, 0, shape->rank == 1 ? 5 : 1);
    }
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

static void check_convolution(const application *app, const geometry *shape, op_dtype dtype, uint64_t round) {
    int64_t n = 0, c = 0, o[3] = {0}, index = 0;
    do {
        application_check_near(application_element(&app->outputs[0], index),
                               reference_convolution(app, shape, n, c, o), application_tolerance(dtype) * 4,
                               round, index);
        index++;
    } while (next_position(&app->outputs[0].type.shape, &n, &c, o));
}

static void test_convolution(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT, OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16};
    for (uint64_t round = 1; round <= 140; round++) {
        uint64_t seed = round * 7919;
        geometry shape = random_geometry(&seed);
        const op_dtype dtype = dtypes[round % 6];
        if (round > 90) make_narrow(&shape, &seed);
        if (round % 7 == 3) make_empty(&shape, (int)(round % (uint64_t)shape.rank));
        application app;
        add_convolution(&app, dtype, &shape, round % 2, &seed);
        application_run(&app, "portable.convolution", 1 + (int)(round % 2));
        check_convolution(&app, &shape, dtype, round);
        application_free(&app);
    }
}

/* Windows along a row that are longer than what is gathered at a time, and now and then than the row. */
static void test_convolution_long_windows(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 24; round++) {
        uint64_t seed = round;
        geometry shape = {.rank = 1,
                          .batch = 1 + (int64_t)(round % 2),
                          .group = random_range(&seed, 1, 3),
                          .kernel = {round % 6 ? random_range(&seed, 20, 140) : 1100},
                          .stride = {1 + (round % 5 == 0)},
                          .dilation = {random_range(&seed, 1, 3)}};
        shape.channels = shape.group * random_range(&seed, 1, 6);
        shape.filters = shape.group * random_range(&seed, 5, 9);
        const int64_t extent = (shape.kernel[0] - 1) * shape.dilation[0] + 1;
        shape.input[0] = random_range(&seed, 1, 300);
        shape.before[0] = random_range(&seed, 0, extent - 1);
        shape.after[0] = extent - 1;
        application app;
        add_convolution(&app, OP_FLOAT, &shape, round % 2, &seed);
        application_run(&app, "portable.convolution", 1 + (int)(round % 2));
        check_convolution(&app, &shape, OP_FLOAT, round);
        application_free(&app);
    }
}

/* With a residual beside, with one in place, with any activation; filters few and many. */
static void test_convolution_fused(void **state) {
    (void)state;
    static const char *const names[] = {"",        "Relu", "LeakyRelu", "Clip",
                                        "Sigmoid", "Tanh", "Swish",     "HardSwish"};
    for (uint64_t round = 1; round <= 96; round++) {
        uint64_t seed = round;
        const bool narrow = round > 48; /* 2 x 3 outputs of many channels */
        geometry shape = {.rank = 2,
                          .batch = 2,
                          .channels = narrow ? 24 : 6,
                          .filters = round % 4 == 0 ? 2 : 22,
                          .group = round % 4 == 1 ? 2 : 1,
                          .input = {9, 31},
                          .kernel = {3, 3},
                          .stride = {1, 1},
                          .dilation = {1, 1},
                          .before = {1, 1},
                          .after = {1, 1}};
        if (narrow) memcpy(shape.input, (int64_t[]){2, 3}, 2 * sizeof *shape.input);
        const char *name = names[round % 8];
        const op_dtype dtype = round % 5 == 0 ? OP_DOUBLE : OP_FLOAT;
        application app;
        add_convolution(&app, dtype, &shape, true, &seed);
        application_random(&app, dtype, 4, DIMS(2, shape.filters, shape.input[0], shape.input[1]), &seed);
        if (*name) application_text(&app, "ouro.activation", name);
        if (round % 8 == 2 || round % 8 == 6) application_real(&app, "ouro.alpha", 0.25f);
        if (round % 8 == 3) {
            application_real(&app, "ouro.alpha", -0.5f);
            application_real(&app, "ouro.beta", 0.75f);
        }
        application_run(&app, "portable.convolution", 1 + (int)(round % 2));
        int64_t n = 0, c = 0, o[3] = {0}, index = 0;
        do {
            double want =
                reference_convolution(&app, &shape, n, c, o) + application_element(&app.inputs[3], index);
            switch (round % 8) {
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
            case 6:
                want = want / (1 + exp(-0.25 * want));
                break;
            case 7:
                want *= fmin(fmax(want / 6 + 0.5, 0), 1);
                break;
            default:
                break;
            }
            application_check_near(application_element(&app.outputs[0], index), want, 2e-5, round, index);
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
    application_expect_shape(&app, 4, DIMS(-1, 6, -2, 20));

    for (int64_t stride = 1; stride <= 3; stride++) {
        for (int lower = 0; lower < 2; lower++) {
            application_init(&app, OP_CONV);
            application_input(&app, OP_FLOAT, 3, DIMS(1, 1, 10));
            application_input(&app, OP_FLOAT, 3, DIMS(1, 1, 4));
            application_text(&app, "auto_pad", lower ? "SAME_LOWER" : "SAME_UPPER");
            application_integers(&app, "strides", 1, &stride);
            application_expect_shape(&app, 3, DIMS(1, 1, (10 + stride - 1) / stride));
        }
    }
    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5));
    application_input(&app, OP_FLOAT, 4, DIMS(4, 3, 3, 3));
    application_integer(&app, "group", 2);
    application_expect_failure(&app, "input 1 (weights) has 3 channels, expected 4 (X has 8, group is 2)");

    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5));
    application_input(&app, OP_FLOAT, 4, DIMS(4, 8, 7, 3));
    application_expect_failure(&app, "the window spans 7 in spatial dimension 0, expected at most 5");

    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5));
    application_input(&app, OP_FLOAT, 4, DIMS(4, 8, 3, 3));
    application_input(&app, OP_FLOAT, 1, DIMS(5));
    application_expect_failure(&app, "input 2 (bias) has 5 elements, expected 4");

    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5));
    application_input(&app, OP_DOUBLE, 4, DIMS(4, 8, 3, 3));
    application_expect_failure(&app, "input 1 is float64, expected float32");

    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 8, 5, 5));
    application_input(&app, OP_FLOAT, 4, DIMS(4, 8, 3, 3));
    application_integers(&app, "strides", 2, DIMS(1, 0));
    application_expect_failure(&app, "attribute \"strides\" has the number 0, expected at least 1");
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

/* Windows so wide that a row has few outputs. */
static void make_wide(geometry *shape, uint64_t *seed) {
    const int last = shape->rank - 1;
    shape->kernel[last] = random_range(seed, 4, 60);
    shape->dilation[last] = 1;
    shape->stride[last] = random_range(seed, 3, 60);
    shape->before[last] = random_range(seed, 0, 3);
    shape->after[last] = random_range(seed, 0, 3);
    shape->input[last] = shape->kernel[last] + random_range(seed, 0, 30);
}

static void test_pool(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT,    OP_FLOAT, OP_DOUBLE, OP_FLOAT16,
                                      OP_BFLOAT16, OP_INT8,  OP_UINT8};
    for (uint64_t round = 1; round <= 210; round++) {
        uint64_t seed = round * 31;
        geometry shape = random_geometry(&seed);
        if (round > 140) make_wide(&shape, &seed);
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
            application_check_near(application_element(&app.outputs[0], index), average ? sum / count : best,
                                   application_tolerance(dtype), round, index);
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
    application_expect_shape(&app, 4, DIMS(1, 3, 2, 2));

    application_init(&app,
                     OP_AVERAGE_POOL); /* a last window that would begin in the padding does not count */
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 2, 2));
    application_integers(&app, "kernel_shape", 2, DIMS(3, 3));
    application_integers(&app, "strides", 2, DIMS(3, 3));
    application_integers(&app, "pads", 4, DIMS(1, 1, 1, 1));
    application_integer(&app, "ceil_mode", 1);
    application_expect_shape(&app, 4, DIMS(1, 3, 1, 1));

    application_init(&app, OP_MAX_POOL);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 4, 4));
    application_expect_failure(&app, "attribute \"kernel_shape\" is absent, expected 2 numbers");

    application_init(&app, OP_MAX_POOL);
    application_input(&app, OP_INT32, 4, DIMS(1, 3, 4, 4));
    application_expect_failure(&app, "input 0 is int32, expected");

    application_init(&app, OP_MAX_POOL);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 4, 4));
    application_integers(&app, "kernel_shape", 2, DIMS(2, 2));
    application_integers(&app, "pads", 4, DIMS(2, 0, 0, 0));
    application_expect_failure(&app, "the padding is 2 in spatial dimension 0, expected less than 2");
}

/* Rows of bytes: many short ones, one after another, and longer ones than are worked on at a time; windows of any reach. */
static void test_pool_of_bytes(void **state) {
    (void)state;
    static const struct {
        int64_t maps, extent, kernel, stride, dilation, pad;
    } cases[] = {{7, 32, 2, 2, 1, 0},     {5, 33, 3, 3, 1, 0},     {3, 5000, 3, 2, 1, 1},
                 {2, 5001, 2, 2, 1, 0},   {2, 3000, 5, 1, 600, 9}, {1, 2100, 2090, 7, 1, 80},
                 {1, 2048, 2047, 1, 1, 0}};
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        const op_dtype dtype = i % 2 ? OP_INT8 : OP_UINT8;
        const int64_t maps = cases[i / 2].maps, extent = cases[i / 2].extent, kernel = cases[i / 2].kernel,
                      stride = cases[i / 2].stride, dilation = cases[i / 2].dilation, pad = cases[i / 2].pad;
        uint64_t seed = i + 1;
        application app;
        application_init(&app, OP_MAX_POOL);
        application_random(&app, dtype, 3, DIMS(1, maps, extent), &seed);
        application_integers(&app, "kernel_shape", 1, DIMS(kernel));
        application_integers(&app, "strides", 1, DIMS(stride));
        application_integers(&app, "dilations", 1, DIMS(dilation));
        application_integers(&app, "pads", 2, DIMS(pad, pad));
        application_run(&app, "portable.pool", 1 + (int)(i % 2));
        const int64_t outputs = app.outputs[0].type.shape.dims[2];
        for (int64_t at = 0; at < maps * outputs; at++) {
            double best = dtype == OP_INT8 ? -128 : 0;
            for (int64_t k = 0; k < kernel; k++) {
                const int64_t x = at % outputs * stride - pad + k * dilation;
                if (x < 0 || x >= extent) continue;
                best = fmax(best, application_element(&app.inputs[0], at / outputs * extent + x));
            }
            assert_true(application_element(&app.outputs[0], at) == best);
        }
        application_free(&app);
    }
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
    application_expect_shape(&app, 4, DIMS(1, 2, 0, 2));
}

static void test_global_pool(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16};
    for (uint64_t round = 1; round <= 16; round++) {
        uint64_t seed = round;
        const bool maximum = round % 2;
        const op_dtype dtype = dtypes[round / 2 % 4];
        const int64_t size = 7 * (round > 10 ? 400 : (int64_t)round); /* more than becomes floats at a time */
        application app;
        application_init(&app, maximum ? OP_GLOBAL_MAX_POOL : OP_GLOBAL_AVERAGE_POOL);
        application_random(&app, dtype, 4, DIMS(2, 5, 7, size / 7), &seed);
        application_run(&app, "portable.pool", 2);
        for (int64_t map = 0; map < 10; map++) {
            double best = -INFINITY, sum = 0;
            for (int64_t i = 0; i < size; i++) {
                best = fmax(best, application_element(&app.inputs[0], map * size + i));
                sum += application_element(&app.inputs[0], map * size + i);
            }
            application_check_near(application_element(&app.outputs[0], map),
                                   maximum ? best : sum / (double)size, application_tolerance(dtype), round,
                                   map);
        }
        application_free(&app);
    }
}

/* ---- normalisation ------------------------------------------------------------------------------------- */

static void test_batch_normalization(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16};
    for (int round = 0; round < 8; round++) { /* maps of three channels; rows of many */
        const int64_t channels = round < 4 ? 3 : 300, size = round < 4 ? 300 : 1;
        const op_dtype dtype = dtypes[round % 4];
        uint64_t seed = 5;
        application app;
        application_init(&app, OP_BATCH_NORMALIZATION);
        application_random(&app, dtype, 3, DIMS(2, channels, size), &seed);
        for (int i = 1; i < 5; i++) {
            float *values = application_random(&app, OP_FLOAT, 1, DIMS(channels), &seed);
            for (int c = 0; i == 4 && c < channels; c++) values[c] = fabsf(values[c]) + 0.1f;
        }
        application_real(&app, "epsilon", 0.01f);
        application_run(&app, "portable.batch_normalization", 1 + round / 4);
        for (int64_t i = 0; i < 2 * channels * size; i++) {
            double p[5];
            for (int k = 1; k < 5; k++) p[k] = application_element(&app.inputs[k], i / size % channels);
            const double x = application_element(&app.inputs[0], i);
            application_check_near(application_element(&app.outputs[0], i),
                                   (x - p[3]) / sqrt(p[4] + (double)0.01f) * p[1] + p[2],
                                   application_tolerance(dtype), 5, i);
        }
        application_free(&app);
    }
    application app;
    application_init(&app, OP_BATCH_NORMALIZATION);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 4, 4));
    for (int i = 1; i < 5; i++) application_input(&app, OP_FLOAT, 1, DIMS(i == 3 ? 4 : 3));
    application_expect_failure(&app, "input 3 (mean) has 4 elements, expected 3");

    application_init(&app, OP_BATCH_NORMALIZATION);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 3, 4, 4));
    for (int i = 1; i < 5; i++) application_input(&app, OP_FLOAT, 1, DIMS(3));
    app.call.output_count = 2;
    application_expect_failure(&app, "expected training_mode 1");
}

/* Statistics of the batch, the running ones, and numbers normalised over their own place. */
static void test_batch_normalization_training(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_FLOAT};
    for (int round = 0; round < 4; round++) {
        enum { BATCH = 3, CHANNELS = 5 };
        const int64_t size = round == 3 ? 20000 : 7 * (round + 1), all = BATCH * CHANNELS * size;
        const double momentum = round == 1 ? 0.25 : (double)0.9f,
                     bound = application_tolerance(dtypes[round]);
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
        assert_int_equal(in_place, OP_IN_PLACE(0) | OP_IN_PLACE(3) | OP_IN_PLACE(4));
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
                application_check_near(test_real(&outputs[1 + i], c), want[i], bound, 77, c);
            }
            for (int64_t i = c * size; i < (c + 1) * size; i += 3) {
                const double y = (test_real(&inputs[0], i) - mean) / sqrt(variance + (double)1e-5f);
                application_check_near(test_real(&outputs[0], i),
                                       y * test_real(&inputs[1], c) + test_real(&inputs[2], c), 4 * bound, 77,
                                       i);
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
            application_check_near(application_element(&app.outputs[0], i),
                                   application_element(&app.inputs[0], i) /
                                       pow(2 + 0.5 / (double)size * sum, (double)beta),
                                   1e-5, (uint64_t)size, i);
        }
        application_free(&app);
    }
}

/* ---- reordering ---------------------------------------------------------------------------------------- */

/* Where element (n, c, p) lies in a layout, in elements. */
static int64_t place_in(op_layout layout, int64_t channels, int64_t size, int64_t n, int64_t c, int64_t p) {
    if (layout == OP_LAYOUT_ROW_MAJOR) return (n * channels + c) * size + p;
    if (layout == OP_LAYOUT_NHWC) return (n * size + p) * channels + c;
    const int64_t block = layout == OP_LAYOUT_NC8 ? 8 : 16, blocks = (channels + block - 1) / block;
    return ((n * blocks + c / block) * size + p) * block + c % block;
}

static void test_reorder(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_UINT8};
    for (int from = 0; from < OP_LAYOUT_PACKED; from++) {
        for (int to = 0; to < OP_LAYOUT_PACKED; to++) {
            static const int64_t numbers[] = {1, 7, 13, 16, 19, 25, 31, 32, 37, 48};
            for (size_t at = 0; at < 4 * sizeof numbers / sizeof *numbers; at++) {
                const int64_t channels = numbers[at / 4];
                uint64_t seed = (uint64_t)channels;
                const op_dtype dtype = dtypes[at % 4];
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
                                       cmocka_unit_test(test_convolution_long_windows),
                                       cmocka_unit_test(test_convolution_fused),
                                       cmocka_unit_test(test_convolution_shapes),
                                       cmocka_unit_test(test_convolution_auto_pad),
                                       cmocka_unit_test(test_pool),
                                       cmocka_unit_test(test_pool_shapes),
                                       cmocka_unit_test(test_pool_of_bytes),
                                       cmocka_unit_test(test_pool_of_nothing),
                                       cmocka_unit_test(test_global_pool),
                                       cmocka_unit_test(test_batch_normalization),
                                       cmocka_unit_test(test_batch_normalization_training),
                                       cmocka_unit_test(test_lrn),
                                       cmocka_unit_test(test_reorder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

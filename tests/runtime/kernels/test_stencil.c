/* SPDX-License-Identifier: Apache-2.0 */
/* test_stencil.c: convolutions of each channel by itself beside sums made one element at a time: windows of 3x3, 5x5, 7x7 and of any other size, strides,
 * dilations, uneven padding, maps of any width, bias, activations, residuals; nothing beside the image is read; NaN stays where it is seen.
 */
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 300 };

typedef struct map {
    int64_t channels, height, width, kernel[2], stride[2], dilation[2], pads[4];
} map;

static map draw_map(uint64_t *seed, uint64_t round) {
    map m = {.channels = random_range(seed, 4, 9),
             .height = random_range(seed, 1, 40),
             .width = random_range(seed, 1, 70)};
    /* Of two rounds one has a square window without dilation, which vectors go through straight. */
    const int64_t kernel = 3 + 2 * random_range(seed, 0, 2), stride = random_range(seed, 1, 2);
    for (int i = 0; i < 2; i++) {
        m.kernel[i] = round % 2 ? kernel : random_range(seed, 2, 5);
        m.stride[i] = round % 2 ? stride : random_range(seed, 1, 3);
        m.dilation[i] = round % 2 ? 1 : random_range(seed, 1, 2);
    }
    for (int i = 0; i < 4; i++) m.pads[i] = random_range(seed, 0, 3);
    if (m.height < 10) m.height += 10;
    if (m.width < 10 && round % 4) m.width += 10;
    else if (m.width < 10) m.pads[1] = m.pads[3] = 5;
    /* As bands have them: one to nine rows of outputs, at most, of several channels. */
    if (round % 4 == 1) m.height = kernel + random_range(seed, 0, 5);
    if (round % 4 == 2) { /* any window at a stride of 1, also larger than the map */
        for (int i = 0; i < 2; i++) {
            m.kernel[i] = round % 16 == 2 ? 3 : random_range(seed, 1, 11);
            m.stride[i] = 1;
            m.dilation[i] = random_range(seed, 1, 5);
            const int64_t reach = (m.kernel[i] - 1) * m.dilation[i];
            m.pads[i] = random_range(seed, 0, reach);
            m.pads[i + 2] = reach - m.pads[i];
        }
    }
    return m;
}

static void set_map(application *app, const map *m, uint64_t *seed) {
    application_init(app, OP_CONV);
    application_random(app, OP_FLOAT, 4, DIMS(1, m->channels, m->height, m->width), seed);
    application_random(app, OP_FLOAT, 4, DIMS(m->channels, 1, m->kernel[0], m->kernel[1]), seed);
    application_random(app, OP_FLOAT, 1, DIMS(m->channels), seed);
    application_integer(app, "group", m->channels);
    application_integers(app, "strides", 2, m->stride);
    application_integers(app, "dilations", 2, m->dilation);
    application_integers(app, "pads", 4, m->pads);
}

/* One output, without bias; NaN where the window sees one. */
static double sum_at(const map *m, const float *x, const float *weights, int64_t row, int64_t column) {
    double sum = 0;
    for (int64_t i = 0; i < m->kernel[0]; i++) {
        for (int64_t j = 0; j < m->kernel[1]; j++) {
            const int64_t y = row * m->stride[0] - m->pads[0] + i * m->dilation[0],
                          at = column * m->stride[1] - m->pads[1] + j * m->dilation[1];
            if (y < 0 || y >= m->height || at < 0 || at >= m->width) continue;
            sum += (double)x[y * m->width + at] * (double)weights[i * m->kernel[1] + j];
        }
    }
    return sum;
}

static void test_equals_plain_sums(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        const map m = draw_map(&seed, round);
        const bool relu = round % 3 == 0, residual = round % 5 == 0;
        application app;
        set_map(&app, &m, &seed);
        if (relu) application_text(&app, "ouro.activation", "Relu");
        assert_int_equal(application_infer(&app), BASE_OK);
        const int64_t *out = app.outputs[0].type.shape.dims;
        float *before =
            residual ? application_random(&app, OP_FLOAT, 4, DIMS(1, m.channels, out[2], out[3]), &seed)
                     : NULL;
        if (round % 7 == 0) ((float *)app.inputs[0].data)[m.width / 2] = NAN;
        application_run(&app, "portable.convolution", 1 + (int)(round % 2));
        const float *x = app.inputs[0].data, *weights = app.inputs[1].data, *bias = app.inputs[2].data,
                    *y = app.outputs[0].data;
        const int64_t height = app.outputs[0].type.shape.dims[2], width = app.outputs[0].type.shape.dims[3];
        for (int64_t k = 0; k < m.channels * height * width; k++) {
            const int64_t c = k / (height * width), at = k % (height * width);
            double expected = sum_at(&m, x + c * m.height * m.width, weights + c * m.kernel[0] * m.kernel[1],
                                     at / width, at % width) +
                              (double)bias[c] + (before ? (double)before[k] : 0);
            if (relu && expected < 0) expected = 0;
            if (isnan(expected)) assert_true(isnan(y[k]));
            else application_check_near(y[k], (float)expected, 1e-5, round, k);
        }
        application_free(&app);
    }
}

/* In 16 bits: the sums of floats, rounded once; in double. */
static void test_other_types(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT16, OP_BFLOAT16, OP_DOUBLE};
    for (uint64_t round = 1; round <= 120; round++) {
        uint64_t seed = round;
        const op_dtype dtype = dtypes[round / 2 % 3];
        const map m = draw_map(&seed, round);
        application app;
        application_init(&app, OP_CONV);
        application_random(&app, dtype, 4, DIMS(1, m.channels, m.height, m.width), &seed);
        application_random(&app, dtype, 4, DIMS(m.channels, 1, m.kernel[0], m.kernel[1]), &seed);
        application_random(&app, dtype, 1, DIMS(m.channels), &seed);
        application_integer(&app, "group", m.channels);
        application_integers(&app, "strides", 2, m.stride);
        application_integers(&app, "dilations", 2, m.dilation);
        application_integers(&app, "pads", 4, m.pads);
        application_run(&app, "portable.convolution", 1 + (int)(round % 2));
        const int64_t height = app.outputs[0].type.shape.dims[2], width = app.outputs[0].type.shape.dims[3];
        const int64_t inputs = m.height * m.width, taps = m.kernel[0] * m.kernel[1];
        float *x = application_memory(&app, (size_t)(m.channels * inputs) * sizeof *x),
              *weights = application_memory(&app, (size_t)(m.channels * taps) * sizeof *weights);
        for (int64_t i = 0; i < m.channels * inputs; i++)
            x[i] = (float)application_element(&app.inputs[0], i);
        for (int64_t i = 0; i < m.channels * taps; i++)
            weights[i] = (float)application_element(&app.inputs[1], i);
        for (int64_t k = 0; k < m.channels * height * width; k++) {
            const int64_t c = k / (height * width), at = k % (height * width);
            const double expected = sum_at(&m, x + c * inputs, weights + c * taps, at / width, at % width) +
                                    application_element(&app.inputs[2], c);
            application_check_near(application_element(&app.outputs[0], k), expected,
                                   dtype == OP_DOUBLE    ? 1e-6
                                   : dtype == OP_FLOAT16 ? 0x1p-10
                                                         : 0x1p-7,
                                   round, k);
        }
        application_free(&app);
    }
}

/* The image lies between numbers that are none: reading one shows, unless it is left out. */
static void test_nothing_beside_is_seen(void **state) {
    (void)state;
    enum { BESIDE = 64 };
    for (uint64_t round = 1; round <= 40; round++) {
        uint64_t seed = round;
        map m = draw_map(&seed, 2 * round + 1);
        application app;
        set_map(&app, &m, &seed);
        const size_t bytes = app.inputs[0].bytes, beside = BESIDE * sizeof(float);
        float *wide = application_memory(&app, bytes + 2 * beside);
        memset(wide, 0xff, bytes + 2 * beside);
        memcpy(wide + BESIDE, app.inputs[0].data, bytes);
        app.inputs[0].data = wide + BESIDE;
        application_run(&app, "portable.convolution", 1);
        int64_t count;
        assert_true(op_shape_elements(&app.outputs[0].type.shape, &count));
        for (int64_t k = 0; k < count; k++) assert_false(isnan(((const float *)app.outputs[0].data)[k]));
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_plain_sums),
        cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_nothing_beside_is_seen),
    };
    return cmocka_run_group_tests_name("stencil", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_dequantize_blocks.c: DequantizeLinear of blocks, of numbers of 4 bits and of float8, and with scales of 16 bits, one element at a time
 * against its definition; all bits on any number of threads.
 */
#include "ir/operators/small.h"
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* A number of the input, exactly. */
static double number_of(const op_tensor *tensor, int64_t index) {
    const op_dtype dtype = tensor->type.dtype;
    if (op_dtype_is_small(dtype))
        return (double)op_small_value(dtype, op_small_load(dtype, tensor->data, index));
    return application_element(tensor, index);
}

/* Extents of which each axis may be the one of the scales, over several stretches of numbers. */
static const int64_t extents[] = {3, 50, 7};

typedef struct draw {
    op_dtype x, scale, y;
    int32_t axis;
    int64_t block; /* 0: a scale for each position; -1: one for all */
    bool zeros;
} draw;

static void fill_bytes(op_tensor *tensor, uint64_t *seed) {
    for (size_t i = 0; i < tensor->bytes; i++) ((uint8_t *)tensor->data)[i] = (uint8_t)random_next(seed);
}

static void begin(application *app, const draw *d, uint64_t seed) {
    int64_t scales[3] = {extents[0], extents[1], extents[2]};
    int32_t rank = 3;
    application_init(app, OP_DEQUANTIZE_LINEAR);
    application_input(app, d->x, 3, extents);
    fill_bytes(&app->inputs[0], &seed);
    if (d->block > 0) scales[d->axis] = (extents[d->axis] + d->block - 1) / d->block;
    else rank = d->block == 0, scales[0] = extents[d->axis];
    application_random(app, d->scale, rank, scales, &seed);
    if (d->zeros) {
        application_input(app, d->x, rank, scales);
        fill_bytes(&app->inputs[2], &seed);
    }
    application_integer(app, "axis", d->axis);
    if (d->block > 0) application_integer(app, "block_size", d->block);
    if (d->y != d->scale) application_integer(app, "output_dtype", d->y);
    if (application_infer(app) != BASE_OK) fail_msg("%s", app->report.text);
}

static void check(const application *app, const draw *d, uint64_t seed) {
    const int64_t inner = d->axis == 0 ? extents[1] * extents[2] : d->axis == 1 ? extents[2] : 1;
    const int64_t extent = extents[d->axis];
    for (int64_t i = 0; i < extents[0] * extents[1] * extents[2]; i++) {
        const int64_t at = i / inner % extent, blocks = d->block > 0 ? (extent + d->block - 1) / d->block : 0;
        const int64_t place = d->block < 0 ? 0
                              : d->block == 0
                                  ? at
                                  : (i / inner / extent * blocks + at / d->block) * inner + i % inner;
        const double zero = d->zeros ? number_of(&app->inputs[2], place) : 0;
        const double want =
            (number_of(&app->inputs[0], i) - zero) * application_element(&app->inputs[1], place);
        const double got = application_element(&app->outputs[0], i);
        if (isnan(want) ? !isnan(got) : isinf(want) && got != want) fail_msg("seed %d", (int)seed);
        if (!isfinite(want)) continue;
        application_check_near(got, want,
                               d->y == OP_BFLOAT16  ? 0x1p-8
                               : d->y == OP_FLOAT16 ? 0x1p-11
                                                    : 0x1p-24,
                               seed, i);
    }
}

static void test_blocks(void **state) {
    (void)state;
    static const op_dtype codes[] = {OP_INT8,  OP_UINT8,  OP_INT4,         OP_UINT4,
                                     OP_INT16, OP_UINT16, OP_FLOAT8E4M3FN, OP_FLOAT8E5M2,
                                     OP_UINT2, OP_INT2,   OP_FLOAT4E2M1};
    static const op_dtype reals[] = {OP_FLOAT, OP_FLOAT16, OP_BFLOAT16};
    static const int64_t blocks[] = {-1, 0, 1, 2, 3, 16, 64};
    for (uint64_t seed = 1; seed <= 600; seed++) {
        uint64_t random = seed * 7919;
        draw d = {.x = codes[random_range(&random, 0, 10)],
                  .scale = reals[random_range(&random, 0, 2)],
                  .axis = (int32_t)random_range(&random, 0, 2),
                  .block = blocks[random_range(&random, 0, 6)]};
        d.y = random_range(&random, 0, 3) ? d.scale : reals[random_range(&random, 0, 2)];
        const bool real = d.x == OP_FLOAT8E4M3FN || d.x == OP_FLOAT8E5M2 || d.x == OP_FLOAT4E2M1;
        d.zeros = !real && random_range(&random, 0, 1);
        application one, several;
        begin(&one, &d, seed);
        begin(&several, &d, seed);
        application_run(&one, "portable.dequantize_linear", 1);
        application_run(&several, "portable.dequantize_linear", 1 + (int)(seed % 5));
        check(&one, &d, seed);
        assert_memory_equal(one.outputs[0].data, several.outputs[0].data, one.outputs[0].bytes);
        application_free(&one);
        application_free(&several);
    }
}

/* int32: a zero point other than 0 is taken away before anything is rounded. */
static void test_words(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 6; round++) {
        const bool each = round & 1;
        application app;
        application_init(&app, OP_DEQUANTIZE_LINEAR);
        int32_t *x = application_input(&app, OP_INT32, 2, DIMS(5, 37));
        for (int i = 0; i < 5 * 37; i++) x[i] = INT32_MAX - 77 * i;
        float *scale = application_input(&app, OP_FLOAT, each, DIMS(37));
        for (int i = 0; i < (each ? 37 : 1); i++) scale[i] = 0.5f + (float)i;
        int32_t *zero = round < 2 ? NULL : application_input(&app, OP_INT32, each, DIMS(37));
        for (int i = 0; zero && i < (each ? 37 : 1); i++) zero[i] = round < 4 ? 0 : INT32_MIN + i;
        application_run(&app, "portable.dequantize_linear", 1);
        for (int64_t i = 0; i < 5 * 37; i++) {
            const int64_t place = each ? i % 37 : 0, apart = (int64_t)x[i] - (zero ? zero[place] : 0);
            assert_true(((const float *)app.outputs[0].data)[i] == (float)apart * scale[place]);
        }
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks), cmocka_unit_test(test_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_col2im.c: Col2Im of floats, which goes by rows, beside that of doubles, which goes by pixels: the same sums, rounded once. */
#include "tests/support/application.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 600, MOST_AXES = 3 };

typedef struct blocks {
    int32_t rank;
    int64_t image[MOST_AXES], block[MOST_AXES], strides[MOST_AXES], dilations[MOST_AXES], pads[2 * MOST_AXES];
    int64_t images, channels, columns, rows; /* of the input: [images, rows, columns] */
} blocks;

/* Along the last axis some images are wider than what is added up at once, and some blocks lie far apart, or as far as they are wide. */
static bool draw(uint64_t *seed, blocks *b) {
    *b = (blocks){.rank = (int32_t)random_range(seed, 1, 3), .columns = 1};
    b->images = random_range(seed, 1, 2);
    b->channels = b->rows = random_range(seed, 1, 3);
    for (int32_t i = 0; i < b->rank; i++) {
        const bool wide = i == b->rank - 1 && random_range(seed, 0, 9) == 0;
        b->image[i] = wide ? random_range(seed, 1020, 2100) : random_range(seed, 1, 9);
        b->block[i] = random_range(seed, 1, 4);
        b->strides[i] = random_range(seed, 1, 3);
        b->dilations[i] = random_range(seed, 1, 3);
        if (i == b->rank - 1 && random_range(seed, 0, 2) == 0) {
            b->image[i] = wide ? b->image[i] : random_range(seed, 10, 200);
            b->strides[i] =
                random_range(seed, 0, 9) == 0 ? random_range(seed, 400, 1200) : random_range(seed, 3, 40);
            b->block[i] = random_range(seed, 0, 1) ? b->strides[i] : random_range(seed, 1, 20);
        }
        b->pads[i] = random_range(seed, 0, 3);
        b->pads[i + b->rank] = random_range(seed, 0, 3);
        const int64_t rest =
            b->image[i] + b->pads[i] + b->pads[i + b->rank] - 1 - (b->block[i] - 1) * b->dilations[i];
        if (rest < 0) return false;
        b->columns *= rest / b->strides[i] + 1;
        b->rows *= b->block[i];
    }
    return true;
}

static void begin(application *app, const blocks *b, op_dtype dtype, const float *numbers) {
    application_init(app, OP_COL2IM);
    const int64_t count = b->images * b->rows * b->columns;
    void *x = application_input(app, dtype, 3, DIMS(b->images, b->rows, b->columns));
    for (int64_t i = 0; i < count; i++) {
        if (dtype == OP_FLOAT) ((float *)x)[i] = numbers[i];
        else ((double *)x)[i] = (double)numbers[i];
    }
    memcpy(application_input(app, OP_INT64, 1, DIMS(b->rank)), b->image, (size_t)b->rank * sizeof(int64_t));
    memcpy(application_input(app, OP_INT64, 1, DIMS(b->rank)), b->block, (size_t)b->rank * sizeof(int64_t));
    application_integers(app, "strides", (size_t)b->rank, b->strides);
    application_integers(app, "dilations", (size_t)b->rank, b->dilations);
    application_integers(app, "pads", 2 * (size_t)b->rank, b->pads);
}

static void rows_are_pixels(void **state) {
    (void)state;
    int wide = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        blocks b;
        if (!draw(&seed, &b)) continue;
        application numbers, floats, doubles;
        application_init(&numbers, OP_COL2IM);
        const float *x =
            application_random(&numbers, OP_FLOAT, 1, DIMS(b.images * b.rows * b.columns), &seed);
        begin(&floats, &b, OP_FLOAT, x);
        begin(&doubles, &b, OP_DOUBLE, x);
        application_run(&floats, "portable.col2im", 1 + (int)(round % 5));
        application_run(&doubles, "portable.col2im", 1);
        int64_t count;
        assert_true(op_shape_elements(&floats.outputs[0].type.shape, &count));
        for (int64_t i = 0; i < count; i++) {
            const float got = ((const float *)floats.outputs[0].data)[i],
                        want = (float)((const double *)doubles.outputs[0].data)[i];
            if (got != want)
                fail_msg("seed %" PRIu64 ": pixel %" PRId64 " is %g, expected %g", round, i, (double)got,
                         (double)want);
        }
        wide += b.image[b.rank - 1] > 1024;
        application_free(&numbers);
        application_free(&floats);
        application_free(&doubles);
    }
    assert_true(wide > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_pixels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

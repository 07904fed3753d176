/* SPDX-License-Identifier: Apache-2.0 */
/* test_conv_transpose.c: ConvTranspose of floats, which goes by rows, beside that of doubles, which goes by kernel positions: of whole numbers
 * both are exact. */
#include "tests/support/application.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { ROUNDS = 400, MOST_AXES = 3 };

/* What decides about rows: wide ones, strides up to more than what is added up at once, padding that cuts off or adds, many lines of the kernel. */
static bool draw(application *app, op_dtype dtype, uint64_t round) {
    uint64_t seed = round;
    const int32_t rank = (int32_t)random_range(&seed, 1, MOST_AXES), last = rank - 1;
    const int64_t groups = random_range(&seed, 1, 3), filters = groups * random_range(&seed, 1, 3),
                  depth = random_range(&seed, 1, 3);
    int64_t x[2 + MOST_AXES] = {random_range(&seed, 1, 2), groups * depth},
                  w[2 + MOST_AXES] = {groups * depth, filters / groups}, strides[MOST_AXES],
                  dilations[MOST_AXES], more[MOST_AXES], pads[2 * MOST_AXES];
    bool there = true;
    for (int32_t i = 0; i < rank; i++) {
        const bool wide = i == last && random_range(&seed, 0, 7) == 0, far = i == last && round % 11 == 0;
        x[2 + i] = wide ? random_range(&seed, 200, 1500) : random_range(&seed, 1, i == last ? 40 : 6);
        w[2 + i] = random_range(&seed, 1, 5);
        if (rank == 2 && i == 0 && round % 13 == 0) w[2 + i] = random_range(&seed, 60, 70);
        strides[i] = far ? random_range(&seed, 500, 1100) : random_range(&seed, 1, i == last ? 6 : 3);
        dilations[i] = random_range(&seed, 1, 3);
        more[i] = random_range(&seed, 0, strides[i] - 1);
        pads[i] = random_range(&seed, -2, 4);
        pads[i + rank] = random_range(&seed, -2, 4);
        there = there && (x[2 + i] - 1) * strides[i] + (w[2 + i] - 1) * dilations[i] + 1 + more[i] >
                             pads[i] + pads[i + rank];
    }
    if (!there) return false;
    application_init(app, OP_CONV_TRANSPOSE);
    const int64_t *dims[] = {x, w, &filters};
    for (int k = 0; k < 2 + (int)(round % 2); k++) {
        const int32_t axes = k == 2 ? 1 : 2 + rank;
        void *numbers = application_input(app, dtype, axes, dims[k]);
        int64_t count = 1;
        for (int32_t i = 0; i < axes; i++) count *= dims[k][i];
        for (int64_t i = 0; i < count; i++) {
            const int64_t number = random_range(&seed, -9, 9);
            if (dtype == OP_FLOAT) ((float *)numbers)[i] = (float)number;
            else ((double *)numbers)[i] = (double)number;
        }
    }
    application_integer(app, "group", groups);
    application_integers(app, "strides", (size_t)rank, strides);
    application_integers(app, "dilations", (size_t)rank, dilations);
    application_integers(app, "output_padding", (size_t)rank, more);
    application_integers(app, "pads", 2 * (size_t)rank, pads);
    return true;
}

static void rows_are_kernel_positions(void **state) {
    (void)state;
    int ran = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        application floats, doubles;
        if (!draw(&floats, OP_FLOAT, round)) continue;
        draw(&doubles, OP_DOUBLE, round);
        application_run(&floats, "portable.conv_transpose", 1 + (int)(round % 4));
        application_run(&doubles, "portable.conv_transpose", 1);
        int64_t count;
        assert_true(op_shape_elements(&floats.outputs[0].type.shape, &count));
        for (int64_t i = 0; i < count; i++) {
            const double got = application_element(&floats.outputs[0], i),
                         want = application_element(&doubles.outputs[0], i);
            if (got != want)
                fail_msg("seed %" PRIu64 ": element %" PRId64 " is %g, expected %g", round, i, got, want);
        }
        ran++;
        application_free(&floats);
        application_free(&doubles);
    }
    assert_true(ran > ROUNDS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_kernel_positions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

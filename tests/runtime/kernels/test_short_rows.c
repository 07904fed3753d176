/* SPDX-License-Identifier: Apache-2.0 */
/* test_short_rows.c: kernels on rows that are too short for a loop of their own: pairs of elements where an operand is broadcast along a few
 * elements, ArgMax and ArgMin of short lines, sequences that are reversed, against plain loops; DeformConv, whose points are found once for all
 * channels, in float against the same in double. */
#include "runtime/kernels/portable/product.h"
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* ---- pairs --------------------------------------------------------------------------------------------- */

/* The element of an operand that stands at `index` of the result. */
static int64_t place_in(const op_shape *operand, const op_shape *result, int64_t index) {
    int64_t at = 0, stride = 1;
    for (int32_t d = result->rank; d-- > 0;) {
        const int64_t extent = operand->dims[d], i = index % result->dims[d];
        index /= result->dims[d];
        if (extent != 1) at += i * stride;
        stride *= extent;
    }
    return at;
}

static double pair_of(op_code code, double a, double b) {
    switch (code) {
    case OP_ADD:
        return a + b;
    case OP_SUB:
        return a - b;
    case OP_MAX:
        return a > b ? a : b;
    default:
        return a < b;
    }
}

/* Every dimension of each operand is its own or 1; types of 1, 2, 4 and 8 bytes. What random integers of a type are sums of is small enough. */
static void rows_of_pairs(void **state) {
    (void)state;
    static const op_code codes[] = {OP_ADD, OP_SUB, OP_MAX, OP_LESS};
    static const op_dtype dtypes[] = {OP_FLOAT, OP_INT64, OP_DOUBLE, OP_INT32, OP_INT16, OP_INT8};
    for (uint64_t round = 1; round <= 400; round++) {
        uint64_t seed = round * 104729;
        const op_code code = codes[round % 4];
        const op_dtype dtype = dtypes[random_range(&seed, 0, 5)];
        int64_t dims[2][4];
        for (int d = 0; d < 4; d++) {
            const int64_t extent = random_range(&seed, 1, d == 3 ? 34 : round % 7 == 0 ? 40 : 9);
            const int64_t single = random_range(&seed, 0, 3);
            dims[0][d] = single == 1 ? 1 : extent;
            dims[1][d] = single == 2 ? 1 : extent;
        }
        application app;
        application_init(&app, code);
        for (uint32_t i = 0; i < 2; i++) {
            void *data = application_input(&app, dtype, 4, dims[i]);
            int64_t count = 1;
            for (int d = 0; d < 4; d++) count *= dims[i][d];
            for (int64_t k = 0; k < count; k++) {
                const double value = (double)random_range(&seed, -60, 60);
                rt_element_store(dtype, data, k, value);
            }
        }
        application_run(&app, "portable.elementwise_binary", 1 + (int)(round % 3));
        const op_shape *shape = &app.outputs[0].type.shape;
        int64_t count = 1;
        for (int d = 0; d < 4; d++) count *= shape->dims[d];
        for (int64_t i = 0; i < count; i++) {
            const double a = application_element(&app.inputs[0],
                                                 place_in(&app.inputs[0].type.shape, shape, i)),
                         b = application_element(&app.inputs[1],
                                                 place_in(&app.inputs[1].type.shape, shape, i));
            const double got = code == OP_LESS ? ((const uint8_t *)app.outputs[0].data)[i]
                                               : application_element(&app.outputs[0], i);
            assert_true(got == pair_of(code, a, b));
        }
        application_free(&app);
    }
}

/* ---- short lines --------------------------------------------------------------------------------------- */

/* Whether a is taken instead of b: it is more extreme, or equal and later where the last counts. */
static bool is_taken(double a, double b, bool smallest, bool last) {
    if (isnan(b)) return isnan(a) && last;
    if (isnan(a)) return true;
    if (a == b) return last;
    return smallest ? a < b : a > b;
}

/* Equal elements, infinities, NaN, more lines than are read together, and longer ones. */
static void extremes_of_short_lines(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_INT64, OP_INT8};
    for (uint64_t round = 1; round <= 480; round++) {
        uint64_t seed = round * 86028121;
        const op_dtype dtype = dtypes[round % 5];
        const bool smallest = round / 5 % 2, last = round / 10 % 2, real = round % 5 < 3;
        const int64_t dims[2] = {random_range(&seed, 1, round % 6 ? 40 : 1300),
                                 random_range(&seed, 1, round % 7 ? 40 : 300)};
        const int64_t least = round % 2 ? -6 : -100;
        application app;
        application_init(&app, smallest ? OP_ARG_MIN : OP_ARG_MAX);
        void *data = application_input(&app, dtype, 2, dims);
        for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
            const int64_t drawn = random_range(&seed, least, 7);
            const double value = drawn == 7       ? (double)NAN
                                 : drawn == 6     ? (double)INFINITY
                                 : drawn == least ? -(double)INFINITY
                                                  : 0;
            rt_element_store(dtype, data, i, real && value != 0 ? value : (double)drawn);
        }
        application_integer(&app, "axis", 1);
        application_integer(&app, "select_last_index", last);
        application_run(&app, "portable.arg_reduce", 1 + (int)(round % 2));
        for (int64_t row = 0; row < dims[0]; row++) {
            int64_t want = 0;
            for (int64_t i = 1; i < dims[1]; i++)
                if (is_taken(application_element(&app.inputs[0], row * dims[1] + i),
                             application_element(&app.inputs[0], row * dims[1] + want), smallest, last))
                    want = i;
            assert_int_equal(((const int64_t *)app.outputs[0].data)[row], want);
        }
        application_free(&app);
    }
}

/* ---- DeformConv ---------------------------------------------------------------------------------------- */

/* The same numbers in either type. Some points are outside of the image, some are no numbers; what they would see is infinite. */
static void deform(application *app, op_dtype dtype, uint64_t round) {
    uint64_t seed = round * 15485863;
    const int32_t rank = (int32_t)(1 + round % 3);
    const int64_t groups = random_range(&seed, 1, 3), sets = random_range(&seed, 1, 3),
                  batches = 1 + round % 2, channels = groups * sets * random_range(&seed, 1, 3),
                  maps = groups * random_range(&seed, 1, 4);
    int64_t x[5] = {batches, channels}, w[5] = {maps, channels / groups}, y[5] = {batches}, pads[6],
            strides[3], dilations[3], window = 1;
    for (int32_t i = 0; i < rank; i++) {
        w[2 + i] = random_range(&seed, 1, 3);
        strides[i] = random_range(&seed, 1, 2);
        dilations[i] = random_range(&seed, 1, 2);
        pads[i] = random_range(&seed, 0, 1);
        pads[rank + i] = random_range(&seed, 0, 1);
        x[2 + i] = random_range(&seed, 5, rank == 1 ? 90 : rank == 2 ? 14 : 6);
        if (round % 6 == 0)
            x[2 + i] = dilations[i] * (w[2 + i] - 1) + random_range(&seed, 1, 2); /* down to 1 */
        y[2 + i] = (x[2 + i] + pads[i] + pads[rank + i] - dilations[i] * (w[2 + i] - 1) - 1) / strides[i] + 1;
        window *= w[2 + i];
    }
    application_init(app, OP_DEFORM_CONV);
    application_random(app, dtype, rank + 2, x, &seed);
    application_random(app, dtype, rank + 2, w, &seed);
    y[1] = sets * window * rank;
    void *offsets = application_random(app, dtype, rank + 2, y, &seed);
    int64_t count = 1;
    for (int32_t d = 0; d < rank + 2; d++) count *= y[d];
    for (int64_t i = 0; i < count; i++) {
        const int64_t drawn = random_range(&seed, 0, 40);
        if (drawn == 0) rt_element_store(dtype, offsets, i, (double)NAN);
        else if (drawn < 3) rt_element_store(dtype, offsets, i, drawn == 1 ? 1e30 : -1e30);
        else if (drawn < 6) rt_element_store(dtype, offsets, i, 0);
        else if (drawn < 16)
            rt_element_store(dtype, offsets, i, (double)random_range(&seed, -40, 40) / 8); /* about edges */
    }
    if (round % 4 == 0) application_absent(app);
    else application_random(app, dtype, 1, &maps, &seed);
    y[1] = sets * window;
    if (round % 5) application_random(app, dtype, rank + 2, y, &seed);
    application_integer(app, "group", groups);
    application_integer(app, "offset_group", sets);
    application_integers(app, "pads", (size_t)(2 * rank), pads);
    application_integers(app, "strides", (size_t)rank, strides);
    application_integers(app, "dilations", (size_t)rank, dilations);
    application_run(app, "portable.deform_conv", 1 + (int)(round % 2));
}

static void points_are_those_of_doubles(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 300; round++) {
        application single, twice;
        deform(&single, OP_FLOAT, round);
        deform(&twice, OP_DOUBLE, round);
        int64_t count;
        assert_true(op_shape_elements(&single.outputs[0].type.shape, &count));
        for (int64_t i = 0; i < count; i++)
            application_check_near(application_element(&single.outputs[0], i),
                                   application_element(&twice.outputs[0], i), 1e-5, round, i);
        application_free(&single);
        application_free(&twice);
    }
}

/* A pixel that is infinite counts only where it has a weight; else it would make every sum a NaN. */
static void infinite_pixels_beside_points(void **state) {
    (void)state;
    application app;
    application_init(&app, OP_DEFORM_CONV);
    float *x = application_input(&app, OP_FLOAT, 4, DIMS(1, 1, 3, 3));
    for (int i = 0; i < 9; i++) x[i] = i % 2 ? INFINITY : (float)i;
    *(float *)application_input(&app, OP_FLOAT, 4, DIMS(1, 1, 1, 1)) = 1;
    float *offsets = application_input(&app, OP_FLOAT, 4, DIMS(1, 2, 3, 3));
    offsets[1] = offsets[3] = offsets[5] = offsets[7] = 7; /* outside */
    application_run(&app, "portable.deform_conv", 1);
    for (int i = 0; i < 9; i++)
        assert_true(application_element(&app.outputs[0], i) == (i % 2 ? 0.0 : (double)i));
    application_free(&app);
}

/* Sequences of rows of any number of bytes, either axis first, some of no length or the whole one. */
static void sequences_are_reversed(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_UINT8, OP_FLOAT16, OP_FLOAT, OP_INT64};
    for (uint64_t round = 0; round < 120; round++) {
        uint64_t seed = (round + 1) * 15485863;
        const int64_t time_first = round % 2, batch = random_range(&seed, 1, 9),
                      extent = random_range(&seed, 1, 40), inner = random_range(&seed, 1, round % 3 ? 5 : 70);
        const int64_t dims[3] = {time_first ? extent : batch, time_first ? batch : extent, inner};
        application app;
        application_init(&app, OP_REVERSE_SEQUENCE);
        uint8_t *x = application_input(&app, dtypes[round / 2 % 4], 3, dims);
        for (size_t i = 0; i < app.inputs[0].bytes; i++) x[i] = (uint8_t)random_next(&seed);
        int64_t *lengths = application_input(&app, OP_INT64, 1, &batch);
        for (int64_t b = 0; b < batch; b++) lengths[b] = b == 3 ? extent : random_range(&seed, 0, extent);
        application_integer(&app, "time_axis", !time_first);
        application_integer(&app, "batch_axis", time_first);
        application_run(&app, "portable.reverse_sequence", 1);
        const size_t bytes = (size_t)inner * op_dtype_bytes(dtypes[round / 2 % 4]);
        const uint8_t *y = app.outputs[0].data;
        for (int64_t i = 0; i < batch * extent; i++) {
            const int64_t b = time_first ? i % batch : i / extent, t = time_first ? i / batch : i % extent,
                          source = t < lengths[b] ? lengths[b] - 1 - t : t,
                          from = time_first ? source * batch + b : b * extent + source;
            assert_memory_equal(y + (size_t)i * bytes, x + (size_t)from * bytes, bytes);
        }
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_are_reversed), cmocka_unit_test(rows_of_pairs),
        cmocka_unit_test(extremes_of_short_lines), cmocka_unit_test(points_are_those_of_doubles),
        cmocka_unit_test(infinite_pixels_beside_points)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_wide_rows.c: pools over rows, reductions of rows, matrices that are turned, what is repeated, of all lengths,
 * where registers begin, end and are not full, with NaNs and the ends of ranges among the numbers: what loops give that are written here. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 600 };

/* Some NaNs, here and there. */
static void put_nones(application *app, int64_t count, uint64_t *seed) {
    float *x = app->inputs[0].data;
    for (int64_t i = random_range(seed, 0, 40); i < count; i += random_range(seed, 1, 200)) x[i] = NAN;
}

static bool same(double got, double want, bool exact) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    return exact ? got == want : fabs(got - want) <= 1e-5 * (1 + fabs(want));
}

static void rows_become_numbers(void **state) {
    (void)state;
    static const op_code codes[] = {OP_REDUCE_SUM, OP_REDUCE_MEAN, OP_REDUCE_MAX, OP_REDUCE_MIN};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 7919;
        const op_code code = codes[round % 4];
        const int64_t rows = random_range(&seed, 1, 40), length = random_range(&seed, 1,
                                                                               round % 7 == 0 ? 6
                                                                               : round % 3    ? 70
                                                                                              : 700);
        application app;
        application_init(&app, code);
        application_random(&app, OP_FLOAT, 2, DIMS(rows, length), &seed);
        if (round % 5 == 0) put_nones(&app, rows * length, &seed);
        int64_t *axis = application_input(&app, OP_INT64, 1, DIMS(1));
        *axis = 1;
        application_run(&app, "portable.reduce", 1 + (int)(round % 2));
        for (int64_t row = 0; row < rows; row++) {
            const float *x = (const float *)app.inputs[0].data + row * length;
            double sum = 0, best = (double)x[0];
            for (int64_t i = 0; i < length; i++) {
                const double value = (double)x[i];
                const bool better = code == OP_REDUCE_MAX ? value > best : value < best;
                sum += value;
                if (better || isnan(value)) best = value;
                if (isnan(best)) break;
            }
            const bool extreme = code == OP_REDUCE_MAX || code == OP_REDUCE_MIN;
            const double want = extreme ? best : code == OP_REDUCE_MEAN ? sum / (double)length : sum;
            if (!same((double)((const float *)app.outputs[0].data)[row], want, extreme))
                fail_msg("round %d, row %d", (int)round, (int)row);
        }
        application_free(&app);
    }
}

/* Extrema of rows that lie apart: of axes 0, 2 and 4 of five, or of 0, 2 and 3; a NaN anywhere is the result. */
static void extrema_of_rows_apart(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        const int64_t dims[] = {random_range(&seed, 1, 4), random_range(&seed, 1, 5),
                                random_range(&seed, 1, 6), random_range(&seed, 1, 4),
                                random_range(&seed, 1, round % 3 ? 20 : 150)};
        const bool largest = round % 2, inner = round % 4 < 2;
        application app;
        application_init(&app, largest ? OP_REDUCE_MAX : OP_REDUCE_MIN);
        float *x = application_random(&app, OP_FLOAT, 5, dims, &seed);
        int64_t count = 1;
        for (int i = 0; i < 5; i++) count *= dims[i];
        if (round % 5 == 0) x[random_range(&seed, 0, count - 1)] = NAN;
        int64_t *axes = application_input(&app, OP_INT64, 1, DIMS(3));
        axes[0] = 0, axes[1] = 2, axes[2] = inner ? 4 : 3;
        application_run(&app, "portable.reduce", 1 + (int)(round % 3));
        const int64_t kept = inner ? dims[3] : dims[4];
        for (int64_t k = 0; k < dims[1] * kept; k++) {
            double want = largest ? -(double)INFINITY : (double)INFINITY;
            for (int64_t i = 0; i < count && !isnan(want); i++) {
                const int64_t column = inner ? i / dims[4] % dims[3] : i % dims[4];
                const double value = (double)x[i];
                if (i / dims[4] / dims[3] / dims[2] % dims[1] * kept + column != k) continue;
                if (isnan(value) || (largest ? value > want : value < want)) want = value;
            }
            if (!same((double)((const float *)app.outputs[0].data)[k], want, true))
                fail_msg("round %d, result %d", (int)round, (int)k);
        }
        application_free(&app);
    }
}

/* Sums over channels of some columns are those columns of the sums of more of them, bit by bit: bands are parts of rows. (A single column lies
 * together, and is summed as a row.) */
static void sums_of_some_columns(void **state) {
    (void)state;
    static const op_code codes[] = {OP_REDUCE_SUM, OP_REDUCE_MEAN, OP_REDUCE_PROD, OP_REDUCE_MAX};
    static const int64_t counts[] = {2, 15, 16, 17, 32, 48, 64, 80, 96, 144};
    uint64_t seed = 61;
    for (int round = 0; round < 120; round++) {
        const int64_t images = random_range(&seed, 1, 7), channels = random_range(&seed, 1, 70),
                      columns = 160;
        const int64_t kept = counts[random_range(&seed, 0, sizeof counts / sizeof *counts - 1)];
        const int64_t first = random_range(&seed, 0, columns - kept);
        application whole, part;
        for (int i = 0; i < 2; i++) {
            application *app = i ? &part : &whole;
            application_init(app, codes[round % 4]);
            uint64_t numbers = 62;
            float *x =
                application_random(app, OP_FLOAT, 3, DIMS(images, channels, i ? kept : columns), &numbers);
            for (int64_t row = 0; i && row < images * channels; row++)
                memcpy(x + row * kept, (const float *)whole.inputs[0].data + row * columns + first,
                       (size_t)kept * sizeof *x);
            int64_t *axes = application_input(app, OP_INT64, 1, DIMS(1));
            axes[0] = 1;
            application_integer(app, "keepdims", round % 2);
            application_run(app, "portable.reduce", 1 + round % 3);
        }
        const float *want = whole.outputs[0].data, *got = part.outputs[0].data;
        for (int64_t n = 0; n < images; n++)
            assert_memory_equal(got + n * kept, want + n * columns + first, (size_t)kept * sizeof *got);
        application_free(&whole);
        application_free(&part);
    }
}

/* Rows of 16 bits that lie together: what floats give, rounded once; short ones take no scratch. */
static void rows_of_halves_become_numbers(void **state) {
    (void)state;
    static const op_code codes[] = {OP_REDUCE_SUM, OP_REDUCE_MEAN, OP_REDUCE_MAX, OP_REDUCE_MIN,
                                    OP_REDUCE_PROD};
    static const int64_t lengths[] = {2, 17, 600, 4096, 4097};
    for (uint64_t round = 0; round < 50; round++) {
        uint64_t seed = round + 1;
        const op_dtype dtype = round % 2 ? OP_FLOAT16 : OP_BFLOAT16;
        const int64_t rows = random_range(&seed, 1, round % 5 < 2 ? 600 : 9), length = lengths[round % 5];
        application app;
        application_init(&app, codes[round / 10]);
        application_random(&app, dtype, 2, DIMS(rows, length), &seed);
        int64_t *axis = application_input(&app, OP_INT64, 1, DIMS(1));
        *axis = 1;
        const op_tensor want = application_floats(&app, "portable.reduce");
        application_run(&app, "portable.reduce", 1 + (int)(round % 3));
        for (int64_t row = 0; row < rows; row++)
            application_check_near(application_element(&app.outputs[0], row), application_element(&want, row),
                                   dtype == OP_FLOAT16 ? 0x1p-11 : 0x1p-8, round, row);
        rt_prepared prepared;
        assert_int_equal(rt_kernel_prepare(rt_kernel_find("portable.reduce"), &app.call,
                                           &(rt_environment){.threads = 1}, &app.arena, &prepared,
                                           &app.report),
                         BASE_OK);
        assert_int_equal(prepared.scratch_bytes == 0, length <= 4096);
        rt_kernel_release(&prepared);
        application_free(&app);
    }
}

/* The sum or the mean of absolutes or of squares has the bits of that of a tensor of them, whatever is reduced. */
static void sums_of_absolutes_and_squares(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 86028121;
        const bool wide = round % 3 == 0, square = round / 3 % 2;
        const int64_t dims[3] = {random_range(&seed, 1, 5), random_range(&seed, 1, 70),
                                 random_range(&seed, 1, round % 4 ? 40 : 1100)};
        const int64_t all = dims[0] * dims[1] * dims[2];
        const op_code code = round / 6 % 2 ? OP_REDUCE_SUM : OP_REDUCE_MEAN;
        application apps[2];
        for (int which = 0; which < 2; which++) {
            uint64_t again = seed;
            application *app = &apps[which];
            application_init(app, code);
            void *x = application_random(app, wide ? OP_DOUBLE : OP_FLOAT, 3, dims, &again);
            if (round % 7 == 0 && !wide) put_nones(app, all, &again);
            const int64_t axes = random_range(&again, 1, 7);
            int64_t named[3], count = 0;
            for (int64_t axis = 0; axis < 3; axis++)
                if (axes >> axis & 1) named[count++] = axis;
            memcpy(application_input(app, OP_INT64, 1, &count), named, (size_t)count * sizeof *named);
            if (which == 0) application_text(app, "ouro.of", square ? "Square" : "Abs");
            for (int64_t i = 0; i < all && which == 1; i++) {
                float *element = (float *)x + i;
                double *long_element = (double *)x + i;
                if (wide) *long_element = square ? *long_element * *long_element : fabs(*long_element);
                else *element = square ? *element * *element : fabsf(*element);
            }
            application_run(app, "portable.reduce", 1 + (int)(round % 2));
        }
        const op_tensor *got = &apps[0].outputs[0], *want = &apps[1].outputs[0];
        assert_int_equal(got->bytes, want->bytes);
        const size_t size = wide ? sizeof(double) : sizeof(float);
        for (int64_t i = 0; i < (int64_t)(got->bytes / size); i++) {
            const double one = application_element(got, i), other = application_element(want, i);
            if (!(isnan(one) && isnan(other)) && memcmp(&one, &other, sizeof one) != 0)
                fail_msg("round %d, element %d", (int)round, (int)i);
        }
        application_free(&apps[0]);
        application_free(&apps[1]);
    }
}

/* Two numbers of 16 bits, of all kinds, in rows of any length, or one of them beside all: what floats give, rounded once. */
static void pairs_of_halves(void **state) {
    (void)state;
    static const op_code codes[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV};
    for (uint64_t round = 0; round < 240; round++) {
        uint64_t seed = round + 1;
        const op_code code = codes[round % 4];
        const op_dtype dtype = round / 4 % 2 ? OP_FLOAT16 : OP_BFLOAT16;
        const int64_t count = round % 5 ? random_range(&seed, 2, 50) : 1000;
        const int64_t left = round / 8 % 3 == 1 ? 1 : count, right = round / 8 % 3 == 2 ? 1 : count;
        application app;
        application_init(&app, code);
        uint16_t *a = application_input(&app, dtype, 1, DIMS(left)),
                 *b = application_input(&app, dtype, 1, DIMS(right));
        for (int64_t i = 0; i < left; i++) a[i] = (uint16_t)random_range(&seed, 0, 0xffff);
        for (int64_t i = 0; i < right; i++) b[i] = (uint16_t)random_range(&seed, 0, 0xffff);
        application_run(&app, "portable.elementwise_binary", 1);
        for (int64_t i = 0; i < count; i++) {
            float x, y, z;
            uint16_t want;
            rt_half_load(dtype, &x, &a[left == 1 ? 0 : i], 1);
            rt_half_load(dtype, &y, &b[right == 1 ? 0 : i], 1);
            if (isnan(x) && isnan(y)) continue; /* whose sign it has is nobody's promise */
            z = code == OP_ADD ? x + y : code == OP_SUB ? x - y : code == OP_MUL ? x * y : x / y;
            rt_half_store(dtype, &want, &z, 1);
            assert_int_equal(((const uint16_t *)app.outputs[0].data)[i], want);
        }
        application_free(&app);
    }
}

static void windows_along_rows(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT, OP_FLOAT16};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 104729;
        const bool average = round % 2, include = round % 4 == 1, apart = round / 6 % 3 == 0;
        const op_dtype dtype = dtypes[round % 3];
        const int64_t most = apart ? 4 : round % 5 ? 5 : 20; /* apart: windows do not meet */
        const int64_t kernel[2] = {random_range(&seed, 1, 5), random_range(&seed, 1, most)},
                      stride[2] = {random_range(&seed, 1, 3), apart ? 4 : random_range(&seed, 1, 5)},
                      dilation[2] = {1, average || apart || round % 3 ? 1 : random_range(&seed, 1, 4)},
                      pad[2] = {random_range(&seed, 0, kernel[0] / 2),
                                apart ? 0 : random_range(&seed, 0, kernel[1] / 2)},
                      after = apart ? random_range(&seed, 0, kernel[1] / 2) : pad[1],
                      input[2] = {random_range(&seed, 5, 9),
                                  (kernel[1] - 1) * dilation[1] + random_range(&seed, 1, 100)};
        application app;
        application_init(&app, average ? OP_AVERAGE_POOL : OP_MAX_POOL);
        application_random(&app, dtype, 4, DIMS(1, 3, input[0], input[1]), &seed);
        if (dtype == OP_FLOAT && round % 5 == 0) put_nones(&app, 3 * input[0] * input[1], &seed);
        application_integers(&app, "kernel_shape", 2, kernel);
        application_integers(&app, "strides", 2, stride);
        if (!average) application_integers(&app, "dilations", 2, dilation);
        application_integers(&app, "pads", 4, DIMS(pad[0], pad[1], pad[0], after));
        if (average && include) application_integer(&app, "count_include_pad", 1);
        application_run(&app, "portable.pool", 1);
        const int64_t *y = app.outputs[0].type.shape.dims;
        for (int64_t i = 0; i < 3 * y[2] * y[3]; i++) {
            const int64_t map = i / y[3] / y[2] * input[0] * input[1];
            double best = -INFINITY, sum = 0, count = 0;
            for (int64_t k = 0; k < kernel[0] * kernel[1]; k++) {
                const int64_t row = i / y[3] % y[2] * stride[0] - pad[0] + k / kernel[1] * dilation[0],
                              at = i % y[3] * stride[1] - pad[1] + k % kernel[1] * dilation[1];
                const bool in = row >= 0 && row < input[0] && at >= 0 && at < input[1];
                count += in || include;
                if (!in) continue;
                const double value = application_element(&app.inputs[0], map + row * input[1] + at);
                sum += value;
                if (value > best || isnan(value)) best = value;
            }
            const double got = application_element(&app.outputs[0], i), want = average ? sum / count : best;
            if (dtype == OP_FLOAT) {
                if (!same(got, want, !average)) fail_msg("round %d, element %d", (int)round, (int)i);
            } else {
                application_check_near(got, want, application_tolerance(dtype), round, i);
            }
        }
        application_free(&app);
    }
}

/* Windows that go on by one, or the largest by two, over maps of short rows; some numbers are none. */
static void windows_over_small_maps(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 15485863;
        const bool average = round % 5 > 2, include = round % 5 == 3, two = round % 5 == 1;
        const int64_t step = two ? 2 : 1,
                      kernel[2] = {random_range(&seed, 1, 7), random_range(&seed, 1,
                                                                           two         ? 4
                                                                           : round % 3 ? 7
                                                                                       : 3)},
                      input[2] = {random_range(&seed, kernel[0], 40),
                                  random_range(&seed, two ? 4 : 3, two ? 34 : 26)};
        const int64_t above = random_range(&seed, 0, kernel[0] - 1),
                      below = random_range(&seed, 0, kernel[0] - 1),
                      left = round % 4 ? (kernel[1] - 1) / 2 : random_range(&seed, 0, kernel[1] - 1);
        application app;
        application_init(&app, average ? OP_AVERAGE_POOL : OP_MAX_POOL);
        application_random(&app, OP_FLOAT, 4, DIMS(2, 3, input[0], input[1]), &seed);
        float *x = app.inputs[0].data;
        for (int64_t i = 0; i < 6 * input[0] * input[1]; i++)
            if (!random_range(&seed, 0, 300) && round % 2) x[i] = NAN;
        application_integers(&app, "kernel_shape", 2, kernel);
        application_integers(&app, "pads", 4, DIMS(above, left, below, kernel[1] - 1 - left));
        application_integers(&app, "strides", 2, DIMS(step, step));
        if (two && round % 4 == 0) application_integer(&app, "ceil_mode", 1);
        if (include) application_integer(&app, "count_include_pad", 1);
        application_run(&app, "portable.pool", 1);
        const int64_t *y = app.outputs[0].type.shape.dims;
        assert_true(two || y[3] == input[1]);
        for (int64_t i = 0; i < 6 * y[2] * y[3]; i++) {
            const float *map = x + i / y[3] / y[2] * input[0] * input[1];
            double best = -INFINITY, sum = 0, count = 0;
            for (int64_t k = 0; k < kernel[0] * kernel[1]; k++) {
                const int64_t row = i / y[3] % y[2] * step - above + k / kernel[1],
                              at = i % y[3] * step - left + k % kernel[1];
                const bool in = row >= 0 && row < input[0] && at >= 0 && at < input[1];
                count += in || include;
                if (!in) continue;
                const double value = (double)map[row * input[1] + at];
                sum += value;
                if (value > best || isnan(value)) best = value;
            }
            const double got = (double)((const float *)app.outputs[0].data)[i];
            if (!same(got, average ? sum / count : best, !average))
                fail_msg("round %d, element %d", (int)round, (int)i);
        }
        application_free(&app);
    }
}

/* Matrices of all sizes of elements, and pictures whose colours lie together or apart. */
static void matrices_are_turned(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16, OP_UINT8, OP_INT64};
    static const size_t sizes[] = {4, 2, 1, 8};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 1299709;
        const size_t size = sizes[round % 4];
        int64_t dims[3] = {random_range(&seed, 1, 2), random_range(&seed, 1, 150),
                           random_range(&seed, 1, 150)};
        if (round % 3 == 0) dims[1 + (round / 3) % 2] = random_range(&seed, 1, 5);
        application app;
        application_init(&app, OP_TRANSPOSE);
        uint8_t *x = application_input(&app, dtypes[round % 4], 3, dims);
        for (size_t i = 0; i < app.inputs[0].bytes; i++) x[i] = (uint8_t)random_next(&seed);
        application_integers(&app, "perm", 3, DIMS(0, 2, 1));
        application_run(&app, "portable.transpose", 1 + (int)(round % 2));
        const uint8_t *y = app.outputs[0].data;
        for (int64_t i = 0; i < dims[0] * dims[1] * dims[2]; i++) {
            const int64_t image = i / (dims[1] * dims[2]), row = i / dims[2] % dims[1], column = i % dims[2];
            const int64_t to = (image * dims[2] + column) * dims[1] + row;
            if (memcmp(x + (size_t)i * size, y + (size_t)to * size, size) != 0)
                fail_msg("round %d, element %d", (int)round, (int)i);
        }
        application_free(&app);
    }
}

/* Any order of up to six axes, short ones mostly: several of them make the rows or the columns of a matrix. */
static void axes_in_any_order(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16, OP_UINT8, OP_INT64};
    static const size_t sizes[] = {4, 2, 1, 8};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 32452843;
        const size_t size = sizes[round % 4];
        const int32_t rank = (int32_t)random_range(&seed, 2, 6);
        int64_t dims[6], order[6], strides[6], count = 1;
        for (int32_t i = 0; i < rank; i++) {
            dims[i] = random_range(&seed, round % 16 == 0 ? 0 : 1, 6);
            order[i] = round % 3 == 0 ? rank - 1 - i : i;
        }
        dims[random_range(&seed, 0, rank - 1)] = random_range(&seed, 1, round % 5 == 0 ? 600 : 40);
        for (int32_t i = 0; i < rank && round % 3; i++) {
            const int64_t other = random_range(&seed, i, rank - 1), kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        for (int32_t i = rank - 1; i >= 0; count *= dims[i--]) strides[i] = count;
        application app;
        application_init(&app, OP_TRANSPOSE);
        uint8_t *x = application_input(&app, dtypes[round % 4], rank, dims);
        for (size_t i = 0; i < app.inputs[0].bytes; i++) x[i] = (uint8_t)random_next(&seed);
        application_integers(&app, "perm", (size_t)rank, order);
        application_run(&app, "portable.transpose", 1 + (int)(round % 3));
        const uint8_t *y = app.outputs[0].data;
        for (int64_t i = 0; i < count; i++) {
            int64_t rest = i, from = 0;
            for (int32_t k = rank - 1; k >= 0; k--) {
                from += rest % dims[order[k]] * strides[order[k]];
                rest /= dims[order[k]];
            }
            if (memcmp(x + (size_t)from * size, y + (size_t)i * size, size) != 0)
                fail_msg("round %d, element %d", (int)round, (int)i);
        }
        application_free(&app);
    }
}

/* Times its inverse a matrix is the identity. Its determinant times that of the inverse is one. */
static void matrices_are_inverted(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_DOUBLE, OP_FLOAT16};
    for (uint64_t round = 0; round < 60; round++) {
        uint64_t seed = (round + 1) * 67867967;
        const op_dtype dtype = dtypes[round % 3];
        const int64_t n = random_range(&seed, 1, 20), count = random_range(&seed, 1, 3);
        const double near = dtype == OP_DOUBLE ? 1e-10 : dtype == OP_FLOAT ? 1e-4 : 0.05;
        application app, determinants[2];
        application_init(&app, OP_INVERSE);
        application_random(&app, dtype, 3, DIMS(count, n, n), &seed);
        for (int64_t i = 0; i < count * n; i++) /* far from having none */
            rt_element_store(dtype, app.inputs[0].data, i / n * n * n + i % n * (n + 1),
                             (i % 2 ? 1.5 : -1.5) * (double)n);
        application_run(&app, "portable.inverse", 1);
        for (int64_t i = 0; i < count * n * n; i++) {
            const int64_t from = i / (n * n) * n * n, row = i / n % n, column = i % n;
            double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += application_element(&app.inputs[0], from + row * n + k) *
                       application_element(&app.outputs[0], from + k * n + column);
            application_check_near(sum, row == column, near, round, i);
        }
        for (int k = 0; k < 2 && dtype != OP_FLOAT16; k++) {
            const op_tensor *of = k ? &app.outputs[0] : &app.inputs[0];
            application_init(&determinants[k], OP_DET);
            memcpy(application_input(&determinants[k], dtype, 3, DIMS(count, n, n)), of->data, of->bytes);
            application_run(&determinants[k], "portable.det", 1);
        }
        for (int64_t i = 0; i < count && dtype != OP_FLOAT16; i++)
            application_check_near(application_element(&determinants[0].outputs[0], i) *
                                       application_element(&determinants[1].outputs[0], i),
                                   1, 1e-3, round, i);
        for (int k = 0; k < 2 && dtype != OP_FLOAT16; k++) application_free(&determinants[k]);
        application_free(&app);
    }
}

static void tiles_repeat(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16, OP_UINT8, OP_INT64};
    static const size_t sizes[] = {4, 2, 1, 8};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 15485863;
        const size_t size = sizes[round % 4];
        const bool expand = round % 3 == 0;
        int64_t dims[4], times[4], all[4], count = 1;
        for (int i = 0; i < 4; i++) {
            dims[i] = random_range(&seed, 1, i == 3 && round % 5 == 0 ? 90 : 6);
            times[i] =
                random_range(&seed, 0, 2) ? random_range(&seed, 1, i == 3 && round % 7 == 0 ? 40 : 4) : 1;
            if (expand && times[i] > 1) dims[i] = 1;
            all[i] = dims[i] * times[i];
            count *= all[i];
        }
        application app;
        application_init(&app, expand ? OP_EXPAND : OP_TILE);
        uint8_t *x = application_input(&app, dtypes[round % 4], 4, dims);
        for (size_t i = 0; i < app.inputs[0].bytes; i++) x[i] = (uint8_t)random_next(&seed);
        memcpy(application_input(&app, OP_INT64, 1, DIMS(4)), expand ? all : times, sizeof all);
        application_run(&app, expand ? "portable.expand" : "portable.tile", 1 + (int)(round % 2));
        const uint8_t *y = app.outputs[0].data;
        for (int64_t i = 0; i < count; i++) {
            int64_t rest = i, from = 0, stride = 1;
            for (int d = 3; d >= 0; d--) {
                from += rest % all[d] % dims[d] * stride;
                rest /= all[d];
                stride *= dims[d];
            }
            if (memcmp(x + (size_t)from * size, y + (size_t)i * size, size) != 0)
                fail_msg("round %d, element %d", (int)round, (int)i);
        }
        application_free(&app);
    }
}

/* Softmax of rows of float. */
static void softmax_of(application *app, bool portable, int64_t rows, int64_t extent, const float *x,
                       float *y) {
    const rt_environment environment = {.threads = 1, .portable_only = portable};
    const rt_kernel *kernel = rt_kernel_of(OP_SOFTMAX, "portable.softmax");
    rt_prepared prepared;
    application_init(app, OP_SOFTMAX);
    memcpy(application_input(app, OP_FLOAT, 2, DIMS(rows, extent)), x, (size_t)(rows * extent) * sizeof *x);
    assert_int_equal(application_infer(app), BASE_OK);
    assert_int_equal(
        rt_kernel_prepare(kernel, &app->call, &environment, &app->arena, &prepared, &app->report), BASE_OK);
    app->outputs[0].data = y;
    assert_int_equal(prepared.run(&prepared, app->inputs, app->outputs, NULL, &app->report), BASE_OK);
    rt_kernel_release(&prepared);
    application_free(app);
}

/* Rows that are computed together have the bits of those computed alone, infinities, zeros of both signs and NaNs among them. */
static void softmax_of_rows_together(void **state) {
    (void)state;
    enum { ROWS = 37, LONGEST = 520 };
    static float x[ROWS * LONGEST], together[ROWS * LONGEST], alone[ROWS * LONGEST];
    for (uint64_t round = 0; round < 160; round++) {
        const int64_t extent = round < 140 ? (int64_t)round / 2 + 1 : LONGEST - (int64_t)(round - 140) / 2;
        uint64_t seed = round + 5;
        application app;
        for (int64_t i = 0; i < ROWS * extent; i++) {
            const int64_t kind = random_range(&seed, 0, 60);
            x[i] = (float)random_range(&seed, -9000, 9000) / 1000;
            if (kind == 0) x[i] = -INFINITY;
            if (kind == 1) x[i] = round % 4 < 2 ? 0.0f : -0.0f;
            if (kind == 2 && round % 5 == 0) x[i] = round % 3 ? INFINITY : NAN;
        }
        softmax_of(&app, round % 2, ROWS, extent, x, together);
        for (int64_t r = 0; r < ROWS; r++)
            softmax_of(&app, round % 2, 1, extent, x + r * extent, alone + r * extent);
        assert_memory_equal(together, alone, (size_t)(ROWS * extent) * sizeof *alone);
    }
}

/* Scores far below the largest one have no weight, those a little nearer the smallest weights that there are. */
static void softmax_of_far_scores(void **state) {
    (void)state;
    enum { EXTENT = 83 };
    static const float far[] = {-INFINITY, -3e38f, -1e4f, -105, -104, -103.9f, -103, -100, -90, -87, -3, 0};
    float x[EXTENT], y[EXTENT];
    for (int64_t extent = 1; extent <= EXTENT; extent++) {
        application app;
        for (int64_t i = 0; i < extent; i++) x[i] = i ? far[(i * 7 + extent) % 12] : 0;
        softmax_of(&app, extent % 2, 1, extent, x, y);
        double sum = 0;
        for (int64_t i = 0; i < extent; i++) sum += exp((double)x[i]);
        for (int64_t i = 0; i < extent; i++) {
            const double want = exp((double)x[i]) / sum;
            assert_true(fabs((double)y[i] - want) <= 1e-5 * want + 0x1p-148);
            if (x[i] <= -104) assert_true(y[i] == 0);
        }
    }
}

/* NaNs and infinities, among the numbers next to these. */
static void what_is_no_number_is_found(void **state) {
    (void)state;
    static const uint32_t bits[] = {0x7f800000u, 0xff800000u, 0x7f800001u, 0xffffffffu,
                                    0x7f7fffffu, 0xff7fffffu, 0,           0x80000000u};
    for (uint64_t round = 0; round < 400; round++) {
        uint64_t seed = round + 1;
        const int64_t count = random_range(&seed, 1, round % 8 ? 200 : 70000);
        const bool none = round % 4 == 0, above = round & 1, below = round & 2;
        application app;
        application_init(&app, none ? OP_IS_NAN : OP_IS_INF);
        uint32_t *x = application_input(&app, OP_FLOAT, 1, DIMS(count));
        for (int64_t i = 0; i < count; i++) x[i] = bits[random_range(&seed, 0, 7)];
        if (!none) application_integer(&app, "detect_positive", above);
        if (!none) application_integer(&app, "detect_negative", below);
        application_run(&app, "portable.is_special", 1 + (int)(round % 5));
        for (int64_t i = 0; i < count; i++) {
            const bool want = none ? (x[i] & INT32_MAX) > bits[0]
                                   : (above && x[i] == bits[0]) || (below && x[i] == bits[1]);
            assert_int_equal(((const uint8_t *)app.outputs[0].data)[i], want);
        }
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs_of_halves),
                                       cmocka_unit_test(what_is_no_number_is_found),
                                       cmocka_unit_test(sums_of_some_columns),
                                       cmocka_unit_test(rows_of_halves_become_numbers),
                                       cmocka_unit_test(rows_become_numbers),
                                       cmocka_unit_test(extrema_of_rows_apart),
                                       cmocka_unit_test(sums_of_absolutes_and_squares),
                                       cmocka_unit_test(windows_along_rows),
                                       cmocka_unit_test(windows_over_small_maps),
                                       cmocka_unit_test(matrices_are_turned),
                                       cmocka_unit_test(axes_in_any_order),
                                       cmocka_unit_test(matrices_are_inverted),
                                       cmocka_unit_test(tiles_repeat),
                                       cmocka_unit_test(softmax_of_rows_together),
                                       cmocka_unit_test(softmax_of_far_scores)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

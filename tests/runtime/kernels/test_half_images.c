/* SPDX-License-Identifier: Apache-2.0 */
/* test_half_images.c: convolutions, transposed ones, pools and what stands around them in float16 and bfloat16 on images whose channels
 * lie side by side, beside the row-major kernels on the same numbers in float: random windows, groups, paddings, layouts, activations;
 * residuals in place; vectors of every width; bits that depend neither on threads nor on bands.
 */
#include "runtime/kernels/portable/half_bands.h"
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const op_dtype types[] = {OP_FLOAT16, OP_BFLOAT16};

/* How far a result may be off, relative to 1 + its size: sums in float, rounded once. */
static double tolerance(op_dtype dtype) {
    return dtype == OP_FLOAT16 ? 0x1p-10 : 0x1p-7;
}

/* How an application is run: 0 lanes: as the machine likes it. */
typedef struct way {
    op_layout from, to;
    int threads, lanes;
    bool in_place;
} way;

/* Runs the kernel with its images in these layouts; the output, row-major. */
static op_tensor run_as(application *app, const char *name, const way *how) {
    const rt_kernel *kernel = rt_kernel_find(name);
    const rt_environment environment = {.threads = how->threads};
    op_tensor inputs[APPLICATION_INPUTS], output = {.type = app->outputs[0].type};
    op_call call = app->call;
    memcpy(inputs, app->inputs, sizeof inputs);
    call.inputs = inputs;
    call.outputs = &output;
    inputs[0] = application_reordered(app, &app->inputs[0], how->from);
    output.type.layout = how->to;
    if (op_input_present(&app->call, 3)) inputs[3] = application_reordered(app, &app->inputs[3], how->to);
    if (kernel->pack) {
        /* What its weights come to, the kernel says of row-major images. */
        rt_preference wish = {.inputs = {how->from}};
        op_call plain = app->call;
        assert_true(kernel->prefer(&plain, &environment, &wish));
        op_tensor packed = {.type = inputs[1].type, .bytes = wish.packed_bytes[1]};
        packed.type.layout = OP_LAYOUT_PACKED;
        packed.type.packed_bytes = packed.bytes;
        packed.data = application_memory(app, packed.bytes);
        memset(packed.data, 0, packed.bytes);
        inputs[1] = packed;
        assert_int_equal(kernel->pack(&call, &environment, 1, &app->inputs[1], packed.data, &app->report),
                         BASE_OK);
        if (kernel->unpack) {
            void *back = application_memory(app, app->inputs[1].bytes);
            assert_int_equal(kernel->unpack(&call, &environment, 1, &packed, back, &app->report), BASE_OK);
            assert_memory_equal(back, app->inputs[1].data, app->inputs[1].bytes);
        }
    }
    assert_true(kernel->accepts(&call, &environment));
    rt_prepared prepared;
    assert_int_equal(rt_kernel_prepare(kernel, &call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    if (how->lanes) {
        rt_half_shape *shape = prepared.state;
        shape->steps = rt_half_steps_for(shape->dtype, shape->by_channel, how->lanes);
    }
    char *scratch = application_memory(app, prepared.scratch_bytes + 1);
    memset(scratch, 0x7f, prepared.scratch_bytes);
    scratch[prepared.scratch_bytes] = 77;
    assert_true(op_type_bytes(&output.type, &output.bytes));
    output.data = how->in_place ? inputs[3].data : application_memory(app, output.bytes);
    if (!how->in_place) memset(output.data, 0x7f, output.bytes);
    rt_threads_warm(how->threads);
    const size_t before = allocations_count();
    assert_int_equal(prepared.run(&prepared, inputs, &output, scratch, &app->report), BASE_OK);
    assert_int_equal(allocations_count(), before);
    assert_int_equal(scratch[prepared.scratch_bytes], 77);
    rt_kernel_release(&prepared);
    const op_tensor plain = application_reordered(app, &output, OP_LAYOUT_ROW_MAJOR);
    /* Channels that pad a block are zeros. */
    const op_tensor again = application_reordered(app, &plain, how->to);
    assert_memory_equal(again.data, output.data, output.bytes);
    return plain;
}

static void check_near(const op_tensor *got, const op_tensor *want, double relative, uint64_t seed) {
    int64_t count;
    assert_true(op_shape_elements(&want->type.shape, &count));
    for (int64_t k = 0; k < count; k++)
        application_check_near(application_element(got, k), application_element(want, k), relative, seed, k);
}

/* ---- convolutions ------------------------------------------------------------------------------------------- */

/* Channels and filters of an application that the kernel takes: of one group, of whole blocks, or each channel by itself. */
static void draw_channels(uint64_t *seed, int64_t *group, int64_t *channels, int64_t *filters) {
    *group = 1;
    *channels = random_range(seed, 1, 70);
    *filters = random_range(seed, 1, 70);
    if (random_range(seed, 0, 3) == 0) {
        *group = random_range(seed, 2, 3);
        *channels = 16 * random_range(seed, 1, 3);
        *filters = 16 * random_range(seed, 1, 3);
    } else if (random_range(seed, 0, 2) == 0) {
        *group = random_range(seed, 4, 50);
        *channels = *filters = 1;
    }
}

static void draw(application *app, op_dtype dtype, uint64_t *seed, bool residual) {
    int64_t group, channels, filters;
    draw_channels(seed, &group, &channels, &filters);
    const int32_t rank = random_range(seed, 0, 4) == 0 ? 3 : 4;
    int64_t x[4] = {random_range(seed, 1, 2), group * channels}, y[4] = {x[0], group * filters},
            weights[4] = {group * filters, channels}, pads[4] = {0}, strides[2], dilations[2];
    for (int32_t i = 0; i < rank - 2; i++) {
        weights[i + 2] = random_range(seed, 0, 2) ? random_range(seed, 1, 5) : 1;
        dilations[i] = random_range(seed, 1, 2);
        strides[i] = random_range(seed, 1, 3);
        const int64_t reach = (weights[i + 2] - 1) * dilations[i] + 1;
        x[i + 2] = random_range(seed, reach, reach + 30);
        pads[i] = random_range(seed, 0, 3) ? random_range(seed, 0, reach / 2) : 0;
        pads[i + rank - 2] = random_range(seed, 0, 2) ? pads[i] : random_range(seed, 0, 2);
        y[i + 2] = (x[i + 2] + pads[i] + pads[i + rank - 2] - reach) / strides[i] + 1;
    }
    application_init(app, OP_CONV);
    application_random(app, dtype, rank, x, seed);
    application_random(app, dtype, rank, weights, seed);
    if (random_range(seed, 0, 1)) application_random(app, dtype, 1, DIMS(group * filters), seed);
    else application_absent(app);
    application_integers(app, "pads", 2 * (size_t)(rank - 2), pads);
    application_integers(app, "strides", (size_t)(rank - 2), strides);
    application_integers(app, "dilations", (size_t)(rank - 2), dilations);
    application_integer(app, "group", group);
    application_draw_activation(app, 8, seed);
    if (residual) application_random(app, dtype, rank, y, seed);
}

/* The application in other layouts, on other numbers of threads, with vectors of other widths. */
static void check_convolution(application *app, uint64_t seed, bool residual) {
    static const char name[] = "portable.half_convolution";
    const op_dtype dtype = app->inputs[0].type.dtype;
    const op_tensor want = application_floats(app, "portable.convolution");
    const bool few = app->inputs[0].type.shape.dims[1] <= RT_HALF_FEW;
    assert_int_equal(application_infer(app), BASE_OK);
    const op_layout layouts[] = {OP_LAYOUT_NC16, OP_LAYOUT_NHWC, OP_LAYOUT_ROW_MAJOR};
    for (size_t from = 0; from < (few ? 3 : 2); from++) {
        for (size_t to = 0; to < 2; to++) {
            const way one = {.from = layouts[from], .to = layouts[to], .threads = 1};
            const op_tensor got = run_as(app, name, &one);
            check_near(&got, &want, tolerance(dtype), seed);
            for (int threads = 2; threads <= 3; threads++) {
                way others = one;
                others.threads = threads;
                others.in_place = residual;
                const op_tensor other = run_as(app, name, &others);
                if (memcmp(got.data, other.data, got.bytes) != 0)
                    fail_msg("seed %" PRIu64 ": %d threads change the result", seed, threads);
            }
            for (int lanes = 4; lanes <= 16; lanes *= 2) {
                way narrow = one;
                narrow.lanes = lanes;
                const op_tensor other = run_as(app, name, &narrow);
                check_near(&other, &want, tolerance(dtype), seed);
            }
        }
    }
}

static void test_convolutions(void **state) {
    (void)state;
    if (!rt_half_steps_are_fast()) skip();
    for (uint64_t trial = 1; trial <= support_share(80); trial++) {
        for (size_t t = 0; t < 2; t++) {
            uint64_t seed = trial;
            application app;
            draw(&app, types[t], &seed, trial % 3 == 0);
            assert_int_equal(application_infer(&app), BASE_OK);
            rt_preference wish = {.inputs = {OP_LAYOUT_NC16}};
            /* Groups of other sizes have no form here. */
            if (!rt_kernel_find("portable.half_convolution")
                     ->prefer(&app.call, &(rt_environment){.threads = 1}, &wish))
                fail_msg("seed %" PRIu64 ": refused", trial);
            check_convolution(&app, trial, trial % 3 == 0);
            application_free(&app);
        }
    }
}

/* More channels, filters and pixels than one band and one group of panels hold. */
static void test_large_convolutions(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, height, width, kernel, stride, group;
    } cases[] = {{300, 200, 9, 9, 3, 1, 1},  {40, 24, 3, 400, 3, 1, 1},   {64, 64, 40, 41, 3, 2, 1},
                 {16, 33, 1, 3000, 1, 1, 1}, {3, 20, 70, 90, 7, 2, 1},    {600, 40, 12, 15, 1, 1, 1},
                 {500, 36, 5, 30, 3, 2, 1},  {80, 80, 60, 130, 3, 1, 80}, {20, 20, 9, 90, 5, 2, 20},
                 {1500, 16, 2, 5, 3, 1, 1},  {4, 70, 30, 40, 3, 1, 1}};
    if (!rt_half_steps_are_fast()) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t t = 0; t < 2; t++) {
            uint64_t seed = i + 1;
            application app;
            const int64_t pad = cases[i].kernel / 2;
            application_init(&app, OP_CONV);
            application_random(&app, types[t], 4, DIMS(1, cases[i].channels, cases[i].height, cases[i].width),
                               &seed);
            application_random(
                &app, types[t], 4,
                DIMS(cases[i].filters, cases[i].channels / cases[i].group, cases[i].kernel, cases[i].kernel),
                &seed);
            application_integers(&app, "pads", 4, DIMS(pad, pad, pad, pad));
            application_integers(&app, "strides", 2, DIMS(cases[i].stride, cases[i].stride));
            application_integer(&app, "group", cases[i].group);
            check_convolution(&app, i, false);
            application_free(&app);
        }
    }
}

/* Numbers that are not finite come through, and a sum that is too large becomes infinite. */
static void test_odd_numbers(void **state) {
    (void)state;
    if (!rt_half_steps_are_fast()) skip();
    for (size_t t = 0; t < 2; t++) {
        const bool half = types[t] == OP_FLOAT16;
        application app;
        application_init(&app, OP_CONV);
        uint16_t *x = application_input(&app, types[t], 4, DIMS(1, 16, 1, 4));
        uint16_t *weights = application_input(&app, types[t], 4, DIMS(16, 16, 1, 1));
        const uint16_t one = half ? 0x3c00 : 0x3f80, infinity = half ? 0x7c00 : 0x7f80,
                       largest = infinity - 1;
        for (int c = 0; c < 16; c++)
            for (int f = 0; f < 16; f++) weights[f * 16 + c] = one;
        x[0] = infinity;
        x[1] = infinity | 1; /* not a number */
        x[2] = x[4 + 2] = largest;
        x[3] = one;
        assert_int_equal(application_infer(&app), BASE_OK);
        for (int lanes = 4; lanes <= 16; lanes *= 2) {
            const op_tensor y =
                run_as(&app, "portable.half_convolution",
                       &(way){.from = OP_LAYOUT_NC16, .to = OP_LAYOUT_NHWC, .threads = 1, .lanes = lanes});
            assert_true(isinf(application_element(&y, 0)));
            assert_true(isnan(application_element(&y, 1)));
            assert_true(isinf(application_element(&y, 2)));
            assert_true(application_element(&y, 3) == 1);
        }
        application_free(&app);
    }
}

/* ---- transposed convolutions -------------------------------------------------------------------------------- */

static void test_transposed(void **state) {
    (void)state;
    if (!rt_half_steps_are_fast()) skip();
    for (uint64_t trial = 1; trial <= support_share(60); trial++) {
        for (size_t t = 0; t < 2; t++) {
            uint64_t seed = trial;
            application app;
            const int64_t channels = random_range(&seed, 1, 50), filters = random_range(&seed, 1, 50);
            const int32_t rank = trial % 5 == 0 ? 3 : 4;
            int64_t x[4] = {random_range(&seed, 1, 2), channels}, weights[4] = {channels, filters}, pads[4],
                    strides[2], more[2];
            for (int32_t i = 0; i < rank - 2; i++) {
                x[i + 2] = random_range(&seed, 1, 20);
                weights[i + 2] = random_range(&seed, 1, 5);
                strides[i] = random_range(&seed, 1, 3);
                more[i] = random_range(&seed, 0, strides[i] - 1);
                pads[i] = random_range(&seed, 0, weights[i + 2] - 1);
                pads[i + rank - 2] = random_range(&seed, 0, weights[i + 2] - 1);
                while ((x[i + 2] - 1) * strides[i] + weights[i + 2] + more[i] - pads[i] - pads[i + rank - 2] <
                       1)
                    x[i + 2]++;
            }
            application_init(&app, OP_CONV_TRANSPOSE);
            application_random(&app, types[t], rank, x, &seed);
            application_random(&app, types[t], rank, weights, &seed);
            if (trial % 2) application_random(&app, types[t], 1, DIMS(filters), &seed);
            application_integers(&app, "pads", 2 * (size_t)(rank - 2), pads);
            application_integers(&app, "strides", (size_t)(rank - 2), strides);
            application_integers(&app, "output_padding", (size_t)(rank - 2), more);
            const op_tensor want = application_floats(&app, "portable.conv_transpose");
            assert_int_equal(application_infer(&app), BASE_OK);
            for (int l = 0; l < 2; l++) {
                way how = {.from = l ? OP_LAYOUT_NHWC : OP_LAYOUT_NC16, .threads = 1};
                how.to = how.from;
                const op_tensor got = run_as(&app, "portable.half_transposed", &how);
                check_near(&got, &want, tolerance(types[t]), trial);
                how.threads = 3;
                const op_tensor other = run_as(&app, "portable.half_transposed", &how);
                if (memcmp(got.data, other.data, got.bytes) != 0)
                    fail_msg("seed %" PRIu64 ": threads change the result", trial);
            }
            application_free(&app);
        }
    }
}

/* Bands of rows cut off any number of rows, and read the weights that were packed for all of them. */
static void test_transposed_packing(void **state) {
    (void)state;
    if (!rt_half_steps_are_fast()) skip();
    const rt_kernel *kernel = rt_kernel_of(OP_CONV_TRANSPOSE, "portable.half_transposed");
    const rt_environment environment = {.threads = 1};
    for (int64_t stride = 2; stride <= 3; stride++) {
        const void *first = NULL;
        application apps[4];
        for (int64_t above = 0; above < 4; above++) {
            application *app = &apps[above];
            uint64_t seed = 3;
            application_init(app, OP_CONV_TRANSPOSE);
            application_random(app, OP_FLOAT16, 4, DIMS(1, 20, 6, 7), &seed);
            application_random(app, OP_FLOAT16, 4, DIMS(20, 18, 4, 5), &seed);
            application_integers(app, "strides", 2, DIMS(stride, stride));
            application_integers(app, "pads", 4, DIMS(above, above, 0, 0));
            assert_int_equal(application_infer(app), BASE_OK);
            rt_preference wish = {.inputs = {OP_LAYOUT_NC16}};
            assert_true(kernel->prefer(&app->call, &environment, &wish));
            char *packed = application_memory(app, wish.packed_bytes[1]);
            memset(packed, 0, wish.packed_bytes[1]);
            app->inputs[0].type.layout = OP_LAYOUT_NC16;
            assert_int_equal(kernel->pack(&app->call, &environment, 1, &app->inputs[1], packed, &app->report),
                             BASE_OK);
            if (first) assert_memory_equal(packed, first, wish.packed_bytes[1]);
            else first = packed;
        }
        for (int64_t above = 0; above < 4; above++) application_free(&apps[above]);
    }
}

/* ---- pools -------------------------------------------------------------------------------------------------- */

static void test_pools(void **state) {
    (void)state;
    static const op_code codes[] = {OP_MAX_POOL, OP_AVERAGE_POOL, OP_GLOBAL_AVERAGE_POOL, OP_GLOBAL_MAX_POOL};
    for (uint64_t trial = 1; trial <= support_share(80); trial++) {
        for (size_t t = 0; t < 2; t++) {
            uint64_t seed = trial;
            const op_code code = codes[trial % 4];
            const int32_t rank = trial % 5 == 0 ? 3 : 4;
            const size_t axes = (size_t)rank - 2;
            application app;
            int64_t x[4] = {random_range(&seed, 1, 2), random_range(&seed, 1, 20)}, kernel[2], strides[2],
                    pads[4];
            if (trial % 7 == 0) x[1] = 300; /* more channels than become floats together */
            for (int32_t i = 0; i < rank - 2; i++) {
                kernel[i] = random_range(&seed, 1, 4);
                strides[i] = random_range(&seed, 1, 3);
                pads[i] = random_range(&seed, 0, kernel[i] - 1);
                pads[i + rank - 2] = random_range(&seed, 0, kernel[i] - 1);
                x[i + 2] = random_range(&seed, kernel[i], 24);
            }
            application_init(&app, code);
            uint16_t *data = application_random(&app, types[t], rank, x, &seed);
            if (trial % 3 == 0) data[0] = types[t] == OP_FLOAT16 ? 0xfc00 : 0xff80; /* the lowest number */
            if (code == OP_MAX_POOL || code == OP_AVERAGE_POOL) {
                application_integers(&app, "kernel_shape", axes, kernel);
                application_integers(&app, "strides", axes, strides);
                application_integers(&app, "pads", 2 * axes, pads);
                application_integer(&app, "ceil_mode", random_range(&seed, 0, 1));
                if (code == OP_AVERAGE_POOL)
                    application_integer(&app, "count_include_pad", random_range(&seed, 0, 1));
            }
            const op_tensor want = application_floats(&app, "portable.pool");
            assert_int_equal(application_infer(&app), BASE_OK);
            for (int l = 0; l < 2; l++) {
                way how = {.from = l ? OP_LAYOUT_NHWC : OP_LAYOUT_NC16, .threads = 1 + (int)(trial % 3)};
                how.to = how.from;
                const op_tensor got = run_as(&app, "portable.half_pool", &how);
                int64_t count;
                assert_true(op_shape_elements(&want.type.shape, &count));
                for (int64_t k = 0; k < count; k++) {
                    const double made = application_element(&got, k), wanted = application_element(&want, k);
                    if (isinf(wanted)) assert_true(made == wanted);
                    else application_check_near(made, wanted, tolerance(types[t]), trial, k);
                }
            }
            application_free(&app);
        }
    }
}

/* A NaN in a window is what comes of it, whatever its sign. */
static void test_pools_keep_nan(void **state) {
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        for (uint16_t sign = 0; sign < 2; sign++) {
            application app;
            application_init(&app, OP_MAX_POOL);
            uint16_t *x = application_input(&app, types[t], 4, DIMS(1, 16, 2, 2));
            application_integers(&app, "kernel_shape", 2, DIMS(2, 2));
            x[1] = (uint16_t)((types[t] == OP_FLOAT16 ? 0x7e00 : 0x7fc0) | sign << 15);
            x[2] = types[t] == OP_FLOAT16 ? 0x7c00 : 0x7f80;
            assert_int_equal(application_infer(&app), BASE_OK);
            const op_tensor y = run_as(&app, "portable.half_pool",
                                       &(way){.from = OP_LAYOUT_NC16, .to = OP_LAYOUT_NC16, .threads = 1});
            assert_true(isnan(application_element(&y, 0)));
            assert_true(application_element(&y, 1) == 0);
            application_free(&app);
        }
    }
}

/* ---- what stands around them -------------------------------------------------------------------------------- */

/* A number for each channel, of all images or of each, beside an image: gates of squeeze-and-excite. */
static void test_gates(void **state) {
    (void)state;
    static const op_code codes[] = {OP_MUL, OP_ADD, OP_SUB};
    for (uint64_t trial = 1; trial <= support_share(40); trial++) {
        uint64_t seed = trial;
        const op_dtype dtype = types[trial % 2];
        const op_code code = codes[trial % 3];
        const op_layout layout = trial % 4 < 2 ? OP_LAYOUT_NC16 : OP_LAYOUT_NHWC;
        /* What pads a block must stay zero. */
        const int64_t images = random_range(&seed, 1, 3), channels = layout == OP_LAYOUT_NC16
                                                                         ? 16 * random_range(&seed, 1, 4)
                                                                         : random_range(&seed, 1, 1000);
        application app;
        application_init(&app, code);
        application_random(&app, dtype, 4,
                           DIMS(images, channels, random_range(&seed, 1, 9), random_range(&seed, 1, 9)),
                           &seed);
        application_random(&app, dtype, 4, DIMS(trial % 5 ? images : 1, channels, 1, 1), &seed);
        const op_tensor want = application_floats(&app, "portable.elementwise_binary");
        assert_int_equal(application_infer(&app), BASE_OK);
        const op_tensor got = run_as(&app, "portable.elementwise_binary",
                                     &(way){.from = layout, .to = layout, .threads = 1 + (int)(trial % 2)});
        check_near(&got, &want, tolerance(dtype), trial);
        application_free(&app);
    }
}

/* Means and sums of maps, which leave a number for each channel. */
static void test_means(void **state) {
    (void)state;
    for (uint64_t trial = 1; trial <= support_share(30); trial++) {
        uint64_t seed = trial;
        const op_dtype dtype = types[trial % 2];
        const op_layout layout = trial % 4 < 2 ? OP_LAYOUT_NC16 : OP_LAYOUT_NHWC;
        application app;
        application_init(&app, trial % 3 ? OP_REDUCE_MEAN : OP_REDUCE_SUM);
        application_random(&app, dtype, 4,
                           DIMS(random_range(&seed, 1, 2), random_range(&seed, 1, 40),
                                random_range(&seed, 1, 9), random_range(&seed, 1, 9)),
                           &seed);
        int64_t *axes = application_input(&app, OP_INT64, 1, DIMS(2));
        axes[0] = 2;
        axes[1] = 3;
        const op_tensor want = application_floats(&app, "portable.reduce");
        assert_int_equal(application_infer(&app), BASE_OK);
        const op_tensor got =
            run_as(&app, "portable.reduce", &(way){.from = layout, .to = layout, .threads = 1});
        check_near(&got, &want, tolerance(dtype), trial);
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_large_convolutions),
        cmocka_unit_test(test_odd_numbers),
        cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_transposed_packing),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_pools_keep_nan),
        cmocka_unit_test(test_gates),
        cmocka_unit_test(test_means),
    };
    return cmocka_run_group_tests_name("half_images", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_onednn.c: the kernels on oneDNN against the portable ones: random shapes, the layouts that they prefer
 * and row-major ones, packed weights, fused forms, residuals in place; and that running them allocates nothing.
 */
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include "tests/support/operators.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#ifdef OURO_ONEDNN

/* ---- running an application as the compiler and the executor would ------------------------------------- */

typedef struct trial {
    int threads;
    bool preferred; /* layouts as the kernel prefers; otherwise all tensors that are images have this one: */
    op_layout layout;
    bool in_place; /* output over the residual */
    uint64_t seed;
} trial;

/* Where constants lie in a loaded plan: a mapping that cannot be written. */
static void *read_only(const void *data, size_t bytes) {
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(mapping != MAP_FAILED);
    memcpy(mapping, data, bytes);
    assert_int_equal(mprotect(mapping, bytes, PROT_READ), 0);
    return mapping;
}

/* How many kernels oneDNN has for what it is asked depends on the machine; the numbers that are expected are those of one
 * with AVX-512. (ONEDNN_MAX_CPU_ISA=AVX2, say, shows how it is without.) */
static bool takes_most(void) {
    return strstr(rt_machine_describe(false, (char[64]){0}, 64), "avx512") != NULL;
}

static void expect_taken(int taken, int least, int of) {
    if (taken < least && takes_most()) fail_msg("only %d of %d were taken", taken, of);
}

/* How often an application went through row-major copies. */
static int through_row_major;
/* Of recurrences. */
static int states_written_over;

/* Runs the application on its oneDNN kernel and compares with the portable one. False where oneDNN does not
 * take it. */
static bool check(application *app, const char *onednn, const char *portable, const trial *how) {
    const rt_environment environment = {.threads = how->threads};
    application_run(app, portable, how->threads);
    op_tensor expected[APPLICATION_OUTPUTS];
    memcpy(expected, app->outputs, sizeof expected);
    const rt_kernel *kernel = rt_kernel_find(onednn);
    assert_non_null(kernel);
    op_tensor saved[APPLICATION_INPUTS];
    memcpy(saved, app->inputs, sizeof saved);
    rt_preference preference = {.output = how->layout};
    preference.inputs[0] = how->layout;
    if (app->call.code == OP_CONV) preference.inputs[3] = how->layout;
    if (how->preferred && (!kernel->prefer || !kernel->prefer(&app->call, &environment, &preference)))
        return false;
    for (uint32_t o = 0; o < app->call.output_count; o++)
        app->outputs[o] = (op_tensor){.type = expected[o].type};
    app->outputs[0].type.layout = preference.output;
    void *mappings[APPLICATION_INPUTS] = {0};
    for (uint32_t i = 0; i < app->call.input_count; i++) {
        if (preference.inputs[i] == OP_LAYOUT_PACKED) {
            app->inputs[i].type.layout = OP_LAYOUT_PACKED;
            app->inputs[i].type.packed_bytes = preference.packed_bytes[i];
        } else if (app->inputs[i].type.dtype != OP_NONE) {
            app->inputs[i] = application_reordered(app, &saved[i], preference.inputs[i]);
        }
    }
    for (uint32_t i = 0; i < app->call.input_count; i++) {
        if (preference.inputs[i] != OP_LAYOUT_PACKED) continue;
        app->inputs[i].bytes = preference.packed_bytes[i];
        app->inputs[i].data = application_memory(app, preference.packed_bytes[i]);
        if (kernel->pack(&app->call, &environment, i, &saved[i], app->inputs[i].data, &app->report) !=
            BASE_OK) {
            fail_msg("seed %" PRIu64 ": %s", how->seed, app->report.text);
        }
        app->inputs[i].data = mappings[i] = read_only(app->inputs[i].data, app->inputs[i].bytes);
    }
    if (!kernel->accepts(&app->call, &environment)) {
        if (how->preferred) fail_msg("seed %" PRIu64 ": prefers what it does not accept", how->seed);
        memcpy(app->inputs, saved, sizeof saved);
        memcpy(app->outputs, expected, sizeof expected);
        return false;
    }
    for (uint32_t o = 0; o < app->call.output_count; o++) {
        op_tensor *output = &app->outputs[o];
        if (output->type.dtype == OP_NONE) continue;
        assert_true(op_type_bytes(&output->type, &output->bytes));
        if (how->in_place) output->data = app->inputs[3].data;
        else output->data = application_memory(app, output->bytes);
        if (!how->in_place) memset(output->data, 0x7f, output->bytes);
    }

    rt_prepared prepared;
    base_status status =
        rt_kernel_prepare(kernel, &app->call, &environment, &app->arena, &prepared, &app->report);
    if (status != BASE_OK && app->report.unsupported) { /* for other extents than weights were packed for */
        const rt_kernel *other = &rt_kernel_through_row_major;
        assert_true(other->accepts(&app->call, &environment));
        base_report_clear(&app->report);
        status = rt_kernel_prepare(other, &app->call, &environment, &app->arena, &prepared, &app->report);
        through_row_major++;
    }
    if (status != BASE_OK) fail_msg("seed %" PRIu64 ": %s", how->seed, app->report.text);
    char *scratch = prepared.scratch_bytes ? application_memory(app, prepared.scratch_bytes + 1) : NULL;
    if (scratch) scratch[prepared.scratch_bytes] = 77;
    rt_threads_warm(how->threads);
    /* Over and over, but for sums in place, and elsewhere too: runs of a loop see changing addresses. */
    const size_t before = allocations_count();
    status = prepared.run(&prepared, app->inputs, app->outputs, scratch, &app->report);
    for (int i = 0; i < 3 && !how->in_place && status == BASE_OK; i++) {
        status = prepared.run(&prepared, app->inputs, app->outputs, scratch, &app->report);
    }
    const size_t made = allocations_count() - before;
    if (status != BASE_OK) fail_msg("seed %" PRIu64 ": %s", how->seed, app->report.text);
    if (made)
        fail_msg("seed %" PRIu64 ", %d threads: %s made %zu allocations", how->seed, how->threads, onednn,
                 made);
    if (scratch && scratch[prepared.scratch_bytes] != 77) fail_msg("%s wrote after its scratch", onednn);
    rt_kernel_release(&prepared);
    if (app->call.code == OP_RNN || app->call.code == OP_LSTM)
        states_written_over += test_states_in_place(kernel, &app->call, &environment);

    /* The padding is zeros, the elements are near. */
    for (uint32_t o = 0; o < app->call.output_count; o++) {
        const op_tensor *output = &app->outputs[o];
        if (output->type.dtype == OP_NONE) continue;
        const op_tensor plain = application_reordered(app, output, OP_LAYOUT_ROW_MAJOR);
        const op_tensor again = application_reordered(app, &plain, output->type.layout);
        const float *want = expected[o].data, *got = plain.data;
        int64_t count;
        assert_true(op_shape_elements(&expected[o].type.shape, &count));
        for (int64_t i = 0; i < count; i++) {
            if (!(fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i])))) {
                fail_msg("seed %" PRIu64 ", %d threads, %s: element %" PRId64 " of output %" PRIu32
                         " is %.9g, expected %.9g",
                         how->seed, how->threads,
                         how->preferred ? op_layout_name(output->type.layout) : "row-major", i, o,
                         (double)got[i], (double)want[i]);
            }
        }
        if (output->type.layout != OP_LAYOUT_ROW_MAJOR)
            assert_memory_equal(again.data, output->data, output->bytes);
    }
    for (uint32_t i = 0; i < app->call.input_count; i++) {
        if (mappings[i]) munmap(mappings[i], app->inputs[i].bytes);
    }
    memcpy(app->inputs, saved, sizeof saved);
    memcpy(app->outputs, expected, sizeof expected);
    return true;
}

/* ---- convolution --------------------------------------------------------------------------------------- */

/* Weights packed for other extents than those of the application, as where these were open: for each image, or for as many
 * as there are. */
static void pack_for_others(application *app, const int64_t *x, int rank, const int64_t *least,
                            uint64_t *seed) {
    int64_t extents[5] = {random_range(seed, 0, 1) ? x[0] : 1, x[1]};
    for (int i = 0; i < rank; i++)
        extents[2 + i] = x[2 + i] == 1 && random_range(seed, 0, 1)
                             ? 1
                             : least[i] + random_range(seed, 0, random_range(seed, 0, 1) ? 60 : 8);
    application_integers(app, "ouro.packed_extents", (size_t)rank + 2, extents);
}

static void test_convolution(void **state) {
    (void)state;
    static const char *const names[] = {"",        "Relu", "LeakyRelu", "Clip",
                                        "Sigmoid", "Tanh", "Swish",     "HardSwish"};
    int taken[2] = {0};
    for (uint64_t round = 1; round <= 150; round++) {
        uint64_t seed = round * 7919;
        const int rank = round % 6 == 0 ? 1 : round % 7 == 0 ? 3 : 2;
        const int64_t form = (int64_t)(round % 5); /* depthwise, grouped, wide, odd, any */
        const int64_t group = form == 0   ? random_range(&seed, 3, 40)
                              : form == 1 ? random_range(&seed, 2, 4)
                                          : 1;
        const int64_t each = form == 0   ? 1
                             : form == 2 ? 16 * random_range(&seed, 1, 5)
                                         : random_range(&seed, 1, 40);
        const int64_t maps = form == 0   ? random_range(&seed, 1, 2)
                             : form == 2 ? 16 * random_range(&seed, 1, 5)
                                         : random_range(&seed, 1, 40);
        int64_t x[5] = {random_range(&seed, 1, 2), group * each}, weights[5] = {group * maps, each};
        int64_t kernel[3], strides[3], dilations[3], pads[6], least[3];
        for (int i = 0; i < rank; i++) {
            kernel[i] = random_range(&seed, 1, 3);
            strides[i] = random_range(&seed, 1, 2);
            dilations[i] = random_range(&seed, 0, 3) ? 1 : 2;
            const int64_t extent = least[i] = (kernel[i] - 1) * dilations[i] + 1;
            pads[i] = random_range(&seed, 0, extent - 1);
            pads[rank + i] = random_range(&seed, 0, extent - 1);
            /* A few are large enough for several threads. */
            x[2 + i] = extent + random_range(&seed, 0, rank == 3 ? 6 : round % 9 == 0 ? 50 : 15);
            weights[2 + i] = kernel[i];
        }
        if (rank == 2 && round % 8 == 5) { /* one point wide */
            x[3] = weights[3] = kernel[1] = 1;
            pads[1] = pads[3] = 0;
        }
        application app;
        application_init(&app, OP_CONV);
        application_random(&app, OP_FLOAT, rank + 2, x, &seed);
        application_random(&app, OP_FLOAT, rank + 2, weights, &seed);
        if (round % 3) application_random(&app, OP_FLOAT, 1, weights, &seed);
        else application_absent(&app);
        application_integers(&app, "strides", (size_t)rank, strides);
        application_integers(&app, "dilations", (size_t)rank, dilations);
        application_integers(&app, "pads", 2 * (size_t)rank, pads);
        application_integer(&app, "group", group);
        if (round % 2) pack_for_others(&app, x, rank, least, &seed);
        const char *name = names[random_range(&seed, 0, 7)];
        if (*name) application_text(&app, "ouro.activation", name);
        if (strcmp(name, "LeakyRelu") == 0 || strcmp(name, "Swish") == 0)
            application_real(&app, "ouro.alpha", 0.25f);
        if (strcmp(name, "Clip") == 0) {
            application_real(&app, "ouro.alpha", -0.5f);
            application_real(&app, "ouro.beta", 2.5f);
        }
        const bool residual = round % 4 == 0;
        if (residual) {
            if (application_infer(&app) != BASE_OK) fail_msg("%s", app.report.text);
            const op_shape shape = app.outputs[0].type.shape;
            application_random(&app, OP_FLOAT, shape.rank, shape.dims, &seed);
        }
        for (int mode = 0; mode < 4; mode++) {
            trial how = {.threads = 1 + mode % 2, .preferred = mode >= 2, .seed = round};
            taken[mode / 2] += check(&app, "onednn.convolution", "portable.convolution", &how);
            if (!residual) continue;
            /* In place last, for it overwrites the residual (unless that is reordered first). */
            const op_tensor kept = app.inputs[3];
            app.inputs[3].data = application_memory(&app, kept.bytes);
            memcpy(app.inputs[3].data, kept.data, kept.bytes);
            how.in_place = true;
            check(&app, "onednn.convolution", "portable.convolution", &how);
            app.inputs[3] = kept;
        }
        application_free(&app);
    }
    /* oneDNN takes nearly all of them in the layouts that it prefers, but for groups that do not fill blocks. */
    expect_taken(taken[1], 270, 300);
}

static void test_transposed_convolution(void **state) {
    (void)state;
    int taken[2] = {0};
    for (uint64_t round = 1; round <= 100; round++) {
        uint64_t seed = round * 104729;
        const int rank = round % 6 == 0 ? 1 : round % 7 == 0 ? 3 : 2;
        const bool wide = round % 3 == 0;
        const int64_t group = round % 4 ? 1 : random_range(&seed, 2, 4);
        const int64_t each = wide ? 16 * random_range(&seed, 1, 4) : random_range(&seed, 1, 30);
        const int64_t maps = wide ? 16 * random_range(&seed, 1, 4) : random_range(&seed, 1, 30);
        int64_t x[5] = {random_range(&seed, 1, 2), group * each}, weights[5] = {group * each, maps};
        int64_t kernel[3], strides[3], dilations[3], pads[6], extra[3], least[3];
        for (int i = 0; i < rank; i++) {
            kernel[i] = random_range(&seed, 1, 4);
            strides[i] = random_range(&seed, 1, 3);
            dilations[i] = random_range(&seed, 0, 3) ? 1 : 2;
            pads[i] = random_range(&seed, 0, (kernel[i] - 1) * dilations[i]);
            pads[rank + i] = random_range(&seed, 0, (kernel[i] - 1) * dilations[i]);
            extra[i] = random_range(&seed, 0, strides[i] - 1); /* output_padding */
            least[i] = 3 + (kernel[i] - 1) * dilations[i];
            x[2 + i] = least[i] + random_range(&seed, 0, rank == 3 ? 4 : 12);
            weights[2 + i] = kernel[i];
        }
        if (rank == 2 && round % 8 == 5) { /* one point wide */
            x[3] = weights[3] = kernel[1] = 1;
            pads[1] = pads[3] = extra[1] = 0;
        }
        const int64_t bias = group * maps;
        application app;
        application_init(&app, OP_CONV_TRANSPOSE);
        application_random(&app, OP_FLOAT, rank + 2, x, &seed);
        application_random(&app, OP_FLOAT, rank + 2, weights, &seed);
        if (round % 2) application_random(&app, OP_FLOAT, 1, &bias, &seed);
        application_integers(&app, "strides", (size_t)rank, strides);
        application_integers(&app, "dilations", (size_t)rank, dilations);
        application_integers(&app, "pads", 2 * (size_t)rank, pads);
        application_integers(&app, "output_padding", (size_t)rank, extra);
        application_integer(&app, "group", group);
        if (round % 3) pack_for_others(&app, x, rank, least, &seed);
        for (int mode = 0; mode < 4; mode++) {
            trial how = {.threads = 1 + mode % 2, .preferred = mode >= 2, .seed = round};
            taken[mode / 2] += check(&app, "onednn.convolution", "portable.conv_transpose", &how);
        }
        application_free(&app);
    }
    /* The others have groups or padding for which oneDNN has only its reference. */
    expect_taken(taken[1], 110, 200);
}

/* A long signal, by weights that were packed for a short one: oneDNN has but its reference for it, which takes seconds. */
static void test_long_signals(void **state) {
    (void)state;
    enum { SHORT = 57, LONG = 1500 };
    for (int round = 0; round < 8; round++) {
        uint64_t seed = (uint64_t)round + 1;
        application app;
        application_init(&app, OP_CONV_TRANSPOSE);
        application_random(&app, OP_FLOAT, 3, DIMS(1, 32, LONG), &seed);
        application_random(&app, OP_FLOAT, 3, DIMS(32, 16, 4), &seed);
        application_random(&app, OP_FLOAT, 1, DIMS(16), &seed);
        application_integers(&app, "strides", 1, DIMS(2));
        application_integers(&app, "ouro.packed_extents", 3, DIMS(1, 32, SHORT));
        const int before = through_row_major;
        const trial how = {.threads = 1 + round % 2, .preferred = true, .seed = seed};
        const bool taken = check(&app, "onednn.convolution", "portable.conv_transpose", &how);
        if (taken && takes_most()) assert_int_equal(through_row_major, before + 1);
        application_free(&app);
    }
}

static void test_packed_elsewhere(void **state) {
    (void)state;
    uint64_t seed = 1;
    application app;
    application_init(&app, OP_CONV);
    application_random(&app, OP_FLOAT, 4, DIMS(1, 16, 8, 8), &seed);
    application_random(&app, OP_FLOAT, 4, DIMS(16, 16, 3, 3), &seed);
    assert_int_equal(application_infer(&app), BASE_OK);
    rt_preference preference;
    const rt_kernel *kernel = rt_kernel_find("onednn.convolution");
    if (!kernel->prefer(&app.call, &(rt_environment){.threads = 1}, &preference)) {
        application_free(&app);
        assert_false(takes_most());
        return;
    }
    app.inputs[0].type.layout = preference.inputs[0];
    app.outputs[0].type.layout = preference.output;
    app.inputs[1].type.layout = OP_LAYOUT_PACKED;
    app.inputs[1].type.packed_bytes = preference.packed_bytes[1] + 64;
    rt_prepared prepared;
    assert_int_equal(rt_kernel_prepare(kernel, &app.call, &(rt_environment){.threads = 1}, &app.arena,
                                       &prepared, &app.report),
                     BASE_INVALID);
    assert_non_null(strstr(app.report.text, "the plan was packed for another machine"));
    application_free(&app);
}

/* In what the kernel prefers, where it does, or in this layout, with one thread and with two; how often it
 * was taken. */
static int check_threads(application *app, const char *onednn, const char *portable, uint64_t seed,
                         bool preferred, op_layout layout) {
    int taken = 0;
    for (int threads = 1; threads <= 2; threads++) {
        const trial how = {.threads = threads, .preferred = preferred, .layout = layout, .seed = seed};
        taken += check(app, onednn, portable, &how);
    }
    return taken;
}

/* Preferred and row-major. */
static int check_products(application *app, const char *onednn, const char *portable, uint64_t seed) {
    int taken = check_threads(app, onednn, portable, seed, true, OP_LAYOUT_ROW_MAJOR);
    taken += check_threads(app, onednn, portable, seed, false, OP_LAYOUT_ROW_MAJOR);
    application_free(app);
    return taken;
}

/* In every layout: these kernels prefer none. */
static int check_layouts(application *app, const char *onednn, const char *portable, uint64_t seed) {
    int taken = 0;
    for (op_layout layout = OP_LAYOUT_ROW_MAJOR; layout < OP_LAYOUT_PACKED; layout++) {
        taken += check_threads(app, onednn, portable, seed, false, layout);
    }
    application_free(app);
    return taken;
}

/* ---- pools and normalisations -------------------------------------------------------------------------- */

static void test_pool(void **state) {
    (void)state;
    int taken = 0;
    for (uint64_t round = 1; round <= 100; round++) {
        uint64_t seed = round * 31;
        const int rank = round % 6 == 0 ? 1 : round % 7 == 0 ? 3 : 2;
        const bool average = round % 2;
        int64_t x[5] = {random_range(&seed, 1, 2), random_range(&seed, 1, 40)};
        int64_t kernel[3], strides[3], pads[6];
        for (int i = 0; i < rank; i++) {
            kernel[i] = random_range(&seed, 1, 3);
            strides[i] = random_range(&seed, 1, 3);
            pads[i] = random_range(&seed, 0, kernel[i] - 1);
            pads[rank + i] = random_range(&seed, 0, kernel[i] - 1);
            x[2 + i] = kernel[i] + random_range(&seed, 0, rank == 3 ? 6 : round % 9 == 0 ? 60 : 15);
        }
        application app;
        application_init(&app, average ? OP_AVERAGE_POOL : OP_MAX_POOL);
        application_random(&app, OP_FLOAT, rank + 2, x, &seed);
        application_integers(&app, "kernel_shape", (size_t)rank, kernel);
        application_integers(&app, "strides", (size_t)rank, strides);
        application_integers(&app, "pads", 2 * (size_t)rank, pads);
        if (round % 3 == 0) application_integer(&app, "ceil_mode", 1);
        if (round % 4 == 1) application_integer(&app, "count_include_pad", 1);
        taken += check_layouts(&app, "onednn.pool", "portable.pool", round);
    }
    expect_taken(taken, 500, 800);
}

static void test_global_pool(void **state) {
    (void)state;
    int taken = 0;
    for (uint64_t round = 1; round <= 20; round++) {
        uint64_t seed = round;
        application app;
        application_init(&app, round % 2 ? OP_GLOBAL_MAX_POOL : OP_GLOBAL_AVERAGE_POOL);
        application_random(&app, OP_FLOAT, 4, DIMS(2, 3 * (int64_t)round, 7, (int64_t)round), &seed);
        taken += check_layouts(&app, "onednn.pool", "portable.pool", round);
    }
    expect_taken(taken, 100, 160);
}

static void test_normalization(void **state) {
    (void)state;
    int taken[2] = {0};
    for (uint64_t round = 1; round <= 20; round++) {
        uint64_t seed = round;
        const int64_t channels = random_range(&seed, 1, 50);
        application app;
        application_init(&app, OP_BATCH_NORMALIZATION);
        const int rank = round % 3 ? 4 : 3; /* a signal in blocks is no other */
        application_random(&app, OP_FLOAT, rank, DIMS(2, channels, round % 4 ? 5 : 90, 29), &seed);
        for (int i = 1; i < 5; i++) {
            float *values = application_random(&app, OP_FLOAT, 1, &channels, &seed);
            for (int64_t c = 0; i == 4 && c < channels; c++) values[c] = fabsf(values[c]) + 0.1f;
        }
        taken[0] += check_layouts(&app, "onednn.batch_normalization", "portable.batch_normalization", round);
        application_init(&app, OP_LRN);
        application_random(&app, OP_FLOAT, 4,
                           DIMS(2, 16 * random_range(&seed, 1, 4), round % 4 ? 13 : 70, 31), &seed);
        application_integer(&app, "size", round % 4 == 3 ? 3 : 5);
        application_real(&app, "alpha", 0.5f);
        application_real(&app, "bias", 2);
        taken[1] += check_layouts(&app, "onednn.lrn", "portable.lrn", round);
    }
    if (taken[0] < 40 || taken[1] < 30) fail_msg("only %d and %d of 80 were taken", taken[0], taken[1]);
}

static void test_reorder(void **state) {
    (void)state;
    int taken = 0;
    for (int from = 0; from < OP_LAYOUT_PACKED; from++) {
        for (int to = 0; to < OP_LAYOUT_PACKED; to++) {
            for (int64_t channels = 1; channels <= 37; channels += 6) {
                uint64_t seed = (uint64_t)channels;
                application plain, app;
                application_init(&plain, OP_REORDER);
                application_random(&plain, OP_FLOAT, 4, DIMS(2, channels, 3, 5), &seed);
                application_init(&app, OP_REORDER);
                app.inputs[0] = application_reordered(&plain, &plain.inputs[0], (op_layout)from);
                app.call.input_count = 1;
                application_integer(&app, "ouro.layout", to);
                application_run(&app, "portable.reorder", 1);
                const op_tensor expected = app.outputs[0];
                const rt_environment environment = {.threads = 2};
                const rt_kernel *kernel = rt_kernel_find("onednn.reorder");
                if (kernel->accepts(&app.call, &environment)) {
                    app.outputs[0].data = NULL;
                    application_run(&app, "onednn.reorder", 2);
                    assert_memory_equal(app.outputs[0].data, expected.data, expected.bytes);
                    taken++;
                }
                application_free(&app);
                application_free(&plain);
            }
        }
    }
    expect_taken(taken, 42, 42); /* between any two that are not row-major */
}

/* ---- matrix products ----------------------------------------------------------------------------------- */

static void test_matmul(void **state) {
    (void)state;
    int taken = 0, turned = 0;
    for (uint64_t round = 1; round <= 60; round++) {
        uint64_t seed = round * 104729;
        const int64_t rows = random_range(&seed, 1, 40), depth = random_range(&seed, 20, 300);
        const int64_t columns = random_range(&seed, 20, 150), stack = random_range(&seed, 1, 3);
        application app;
        application_init(&app, OP_MATMUL);
        if (round % 5 == 0) application_random(&app, OP_FLOAT, 1, DIMS(depth), &seed);
        else application_random(&app, OP_FLOAT, 4, DIMS(2, stack, rows, depth), &seed);
        if (round % 3 == 0) application_random(&app, OP_FLOAT, 3, DIMS(stack, depth, columns), &seed);
        else application_random(&app, OP_FLOAT, 2, DIMS(depth, columns), &seed);
        if (round % 2) application_random(&app, OP_FLOAT, 1, DIMS(columns), &seed);
        if (round % 4 == 1) application_text(&app, "ouro.activation", "Tanh");
        taken += check_products(&app, "onednn.matmul", "portable.matmul", round);
        /* [2, stack, rows, depth] by [2, stack, depth, columns], as heads of attention lie before they are turned. */
        application_init(&app, OP_MATMUL);
        application_random(&app, OP_FLOAT, 4, DIMS(2, rows, stack, depth), &seed);
        if (round % 2) application_random(&app, OP_FLOAT, 4, DIMS(2, columns, stack, depth), &seed);
        else application_random(&app, OP_FLOAT, 4, DIMS(2, depth, stack, columns), &seed);
        application_integers(&app, "ouro.left", 4, (const int64_t[]){0, 2, 1, 3});
        application_integers(&app, "ouro.right", 4,
                             round % 2 ? (const int64_t[]){0, 2, 3, 1} : (const int64_t[]){0, 2, 1, 3});
        turned += check_products(&app, "onednn.matmul", "portable.matmul", round);
    }
    expect_taken(taken, 120, 240);
    expect_taken(turned, 80, 240);
}

/* Rows in blocks, as where their number was open when the weights were packed. */
static void test_row_blocks(void **state) {
    (void)state;
    int taken = 0;
    for (uint64_t round = 1; round <= 60; round++) {
        uint64_t seed = round * 27644437;
        const int64_t rows = round % 6 ? random_range(&seed, 1, 200) : 64 * random_range(&seed, 1, 3);
        const int64_t depth = random_range(&seed, 20, 200), columns = random_range(&seed, 20, 150);
        const bool gemm = round % 3 == 0, turned = gemm && round % 2;
        application app;
        application_init(&app, gemm ? OP_GEMM : OP_MATMUL);
        if (gemm) application_random(&app, OP_FLOAT, 2, DIMS(rows, depth), &seed);
        else application_random(&app, OP_FLOAT, 3, DIMS(1, rows, depth), &seed);
        application_random(&app, OP_FLOAT, 2, DIMS(turned ? columns : depth, turned ? depth : columns),
                           &seed);
        if (round % 4 == 1) application_random(&app, OP_FLOAT, 1, DIMS(columns), &seed);
        if (round % 4 == 2) application_random(&app, OP_FLOAT, 2, DIMS(1, columns), &seed);
        if (turned) application_integer(&app, "transB", 1);
        if (round % 5 == 1) application_text(&app, "ouro.activation", "Relu");
        application_integer(&app, "ouro.row_blocks", 1);
        taken += check_products(&app, gemm ? "onednn.gemm" : "onednn.matmul",
                                gemm ? "portable.gemm" : "portable.matmul", round);
    }
    expect_taken(taken, 120, 240);
}

static void test_gemm(void **state) {
    (void)state;
    int taken = 0;
    for (uint64_t round = 1; round <= 80; round++) {
        uint64_t seed = round * 65537;
        const bool turn_a = round % 2, turn_b = round % 4 < 2, scaled = round % 3 == 0;
        const int64_t m = random_range(&seed, 1, round % 3 ? 12 : 50), k = random_range(&seed, 20, 400);
        const int64_t n = random_range(&seed, 20, 200), form = random_range(&seed, 0, 5);
        application app;
        application_gemm(&app, OP_FLOAT, m, k, n, turn_a, turn_b, form, &seed);
        if (scaled) application_real(&app, "alpha", 0.7f);
        if (scaled) application_real(&app, "beta", -1.5f);
        if (round % 5 == 0) application_text(&app, "ouro.activation", "Relu");
        taken += check_products(&app, "onednn.gemm", "portable.gemm", round);
    }
    expect_taken(taken, 100, 320);
}

/* ---- what the portable kernels do better ---------------------------------------------------------------- */

static bool takes(application *app, const char *name, int threads) {
    const rt_kernel *kernel = rt_kernel_find(name);
    const rt_environment environment = {.threads = threads};
    rt_preference preference = {0};
    if (application_infer(app) != BASE_OK) fail_msg("%s", app->report.text);
    const bool prefers = kernel->prefer(&app->call, &environment, &preference);
    const bool accepts = kernel->accepts(&app->call, &environment);
    assert_true(prefers || !accepts);
    return prefers;
}

/* Stencils, on no more threads than there are maps, and products with one column. */
static void test_left_alone(void **state) {
    (void)state;
    static const struct {
        int64_t images, channels, maps, points;
        int threads;
        bool taken;
    } convolutions[] = {{1, 1, 1, 3, 1, false}, {1, 3, 1, 5, 1, false}, {1, 8, 1, 1, 1, false},
                        {1, 4, 3, 1, 1, false}, {2, 1, 1, 3, 2, false}, {1, 1, 1, 3, 2, true},
                        {1, 9, 1, 3, 1, true},  {1, 4, 2, 3, 1, true},  {1, 4, 4, 1, 1, true}};
    uint64_t seed = 5;
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) {
        application app;
        application_init(&app, OP_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(convolutions[i].images, convolutions[i].channels, 20, 20),
                           &seed);
        application_random(&app, OP_FLOAT, 4,
                           DIMS(convolutions[i].maps, convolutions[i].channels, convolutions[i].points,
                                convolutions[i].points),
                           &seed);
        const bool taken = takes(&app, "onednn.convolution", convolutions[i].threads);
        if (taken != convolutions[i].taken && (taken || takes_most())) fail_msg("convolution %zu", i);
        application_free(&app);
    }
    for (int64_t columns = 1; columns <= 8; columns += 7) {
        application app;
        application_init(&app, OP_MATMUL);
        application_random(&app, OP_FLOAT, 2, DIMS(300, 200), &seed);
        application_random(&app, OP_FLOAT, 2, DIMS(200, columns), &seed);
        assert_int_equal(takes(&app, "onednn.matmul", 1), columns > 1 && takes_most());
        application_free(&app);
    }
}

/* Signals and images, channel by channel: on what oneDNN has for these, or not at all. Its convolutions of groups would take such a dilation,
 * and 30 times as long. */
static void test_channel_by_channel(void **state) {
    (void)state;
    uint64_t seed = 6;
    const rt_kernel *kernel = rt_kernel_find("onednn.convolution");
    const rt_environment environment = {.threads = 1};
    for (int rank = 1; rank <= 2; rank++) {
        for (int64_t dilation = 1; dilation <= 8; dilation += 7) {
            application app;
            rt_preference preference = {0};
            application_init(&app, OP_CONV);
            application_random(&app, OP_FLOAT, rank + 2, DIMS(1, 32, 40, 40), &seed);
            application_random(&app, OP_FLOAT, rank + 2, DIMS(32, 1, 3, 3), &seed);
            application_integer(&app, "group", 32);
            application_integers(&app, "dilations", (size_t)rank, DIMS(dilation, dilation));
            application_integers(&app, "pads", 2 * (size_t)rank,
                                 DIMS(dilation, dilation, dilation, dilation));
            assert_int_equal(application_infer(&app), BASE_OK);
            preference.inputs[0] = OP_LAYOUT_NC16; /* as what comes before has it */
            const bool taken = kernel->prefer(&app.call, &environment, &preference);
            if (rank == 1 && dilation == 8) assert_false(taken);
            else if (dilation == 1) assert_true(taken || !takes_most());
            application_free(&app);
        }
    }
}

/* Of groups of a few channels, single points are left to the portable kernel; groups of whole blocks, and windows, are not. */
static void test_groups_of_points(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, size;
        bool taken;
    } cases[] = {{2, 2, 1, false}, {6, 6, 1, false},  {3, 1, 1, false}, {20, 80, 1, false},
                 {6, 6, 3, true},  {16, 32, 1, true}, {1, 2, 1, true}};
    uint64_t seed = 8;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        application_init(&app, OP_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(1, 4 * cases[i].channels, 20, 20), &seed);
        application_random(&app, OP_FLOAT, 4,
                           DIMS(4 * cases[i].filters, cases[i].channels, cases[i].size, cases[i].size),
                           &seed);
        application_integer(&app, "group", 4);
        assert_int_equal(application_infer(&app), BASE_OK);
        const rt_environment environment = {.threads = 1};
        rt_preference preference = {0};
        const bool taken = rt_kernel_find("onednn.convolution")->prefer(&app.call, &environment, &preference);
        if (taken != cases[i].taken && (taken || takes_most())) fail_msg("case %zu", i);
        application_free(&app);
    }
}

/* ---- recurrences --------------------------------------------------------------------------------------- */

static void test_recurrent(void **state) {
    (void)state;
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    static const char *const activations[] = {"Tanh", "Relu", "sigmoid"};
    static const char *const lstm_activations[] = {"Sigmoid", "tanh", "Tanh", "sigmoid", "Tanh", "Tanh"};
    int taken = 0;
    for (uint64_t round = 1; round <= 120; round++) {
        uint64_t seed = round * 7919;
        const bool lstm = round % 3 != 0;
        const int64_t gates = lstm ? 4 : 1, both = round % 4 == 3 ? 2 : 1,
                      hidden = random_range(&seed, 24, round % 10 ? 80 : 300);
        const int64_t steps = random_range(&seed, 1, 9), batch = random_range(&seed, 1, 9),
                      input = random_range(&seed, 1, 70);
        application app;
        application_init(&app, lstm ? OP_LSTM : OP_RNN);
        application_random(&app, OP_FLOAT, 3, DIMS(steps, batch, input), &seed);
        float *w = application_random(&app, OP_FLOAT, 3, DIMS(both, gates * hidden, input), &seed);
        float *r = application_random(&app, OP_FLOAT, 3, DIMS(both, gates * hidden, hidden), &seed);
        for (int64_t i = 0; i < both * gates * hidden * input; i++) w[i] *= 0.2f;
        for (int64_t i = 0; i < both * gates * hidden * hidden; i++) r[i] *= 0.2f;
        if (round % 5) application_random(&app, OP_FLOAT, 2, DIMS(both, 2 * gates * hidden), &seed);
        else application_absent(&app);
        if (round % 7 == 0) {
            int32_t *lengths = application_input(&app, OP_INT32, 1, &batch);
            for (int64_t b = 0; b < batch; b++) lengths[b] = (int32_t)steps;
        } else {
            application_absent(&app);
        }
        for (int i = 0; i < (lstm ? 2 : 1); i++) {
            if (round % 2) application_random(&app, OP_FLOAT, 3, DIMS(both, batch, hidden), &seed);
            else application_absent(&app);
        }
        if (lstm && round % 4 > 1) application_random(&app, OP_FLOAT, 2, DIMS(both, 3 * hidden), &seed);
        application_integer(&app, "hidden_size", hidden);
        application_text(&app, "direction", directions[both == 2 ? 2 : round % 2]);
        if (lstm && round % 6 == 1)
            application_texts(&app, "activations", 3 * (size_t)both, lstm_activations);
        if (!lstm && round % 2) {
            const char *names[] = {activations[round % 9 / 3], activations[round % 9 / 3]};
            application_texts(&app, "activations", (size_t)both, names);
        }
        app.call.output_count = lstm ? 3 : 2;
        if (application_infer(&app) != BASE_OK) fail_msg("%s", app.report.text);
        if (round % 8 < 3) app.outputs[1] = (op_tensor){.type = {.dtype = OP_NONE}};
        if (lstm && round % 8 > 0 && round % 8 < 5) app.outputs[2] = (op_tensor){.type = {.dtype = OP_NONE}};
        taken +=
            check_threads(&app, "onednn.recurrent", "portable.recurrent", round, true, OP_LAYOUT_ROW_MAJOR);
        application_free(&app);
    }
    /* oneDNN has these primitives on some machines only; there it takes nearly all. */
    expect_taken(taken, 180, 240);
    expect_taken(states_written_over, 100, 240);
}

/* What the primitive is not for stays with the portable kernel. */
static void test_recurrent_refused(void **state) {
    (void)state;
    for (int form = 0; form < 7; form++) {
        uint64_t seed = 3;
        application app;
        application_init(&app, OP_LSTM);
        application_random(&app, OP_FLOAT, 3, DIMS(3, 4, 64), &seed);
        application_random(&app, OP_FLOAT, 3, DIMS(1, 256, 64), &seed);
        application_random(&app, OP_FLOAT, 3, DIMS(1, 256, 64), &seed);
        application_absent(&app);
        int32_t *lengths = application_input(&app, OP_INT32, 1, DIMS(4));
        for (int b = 0; b < 4; b++) lengths[b] = 3;
        if (form == 0) application_real(&app, "clip", 1);
        if (form == 1) application_integer(&app, "input_forget", 1);
        if (form == 2) lengths[2] = 2;
        if (form == 3) app.inputs[4].data = NULL;
        if (form == 4) application_random(&app, OP_FLOAT, 3, DIMS(1, 4, 64), &seed);
        if (form == 5) application_texts(&app, "activations", 3, (const char *[]){"Sigmoid", "Relu", "Tanh"});
        if (form == 6) app.inputs[2].data = NULL;
        if (application_infer(&app) != BASE_OK) fail_msg("%s", app.report.text);
        rt_preference preference = {0};
        const rt_environment environment = {.threads = 1};
        const rt_kernel *kernel = rt_kernel_find("onednn.recurrent");
        assert_false(kernel->prefer(&app.call, &environment, &preference));
        assert_false(kernel->accepts(&app.call, &environment));
        application_free(&app);
    }
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* Several threads at once, each with a kernel of its own: nothing of theirs is shared, the pool of arguments
 * least. */
static void *run_beside(void *failures) {
    uint64_t seed = 42;
    application app;
    application_init(&app, OP_MATMUL);
    application_random(&app, OP_FLOAT, 2, DIMS(20, 64), &seed);
    application_random(&app, OP_FLOAT, 2, DIMS(64, 48), &seed);
    const rt_environment environment = {.threads = 1};
    const rt_kernel *kernel = rt_kernel_find("onednn.matmul");
    if (application_infer(&app) != BASE_OK || !kernel->accepts(&app.call, &environment)) {
        application_free(&app);
        return takes_most() ? failures : NULL;
    }
    float *first = application_memory(&app, 20 * 48 * sizeof(float)),
          *again = application_memory(&app, 20 * 48 * sizeof(float));
    rt_prepared prepared;
    if (rt_kernel_prepare(kernel, &app.call, &environment, &app.arena, &prepared, &app.report) != BASE_OK)
        return failures;
    void *scratch = application_memory(&app, prepared.scratch_bytes);
    for (int i = 0; i < 2000; i++) {
        app.outputs[0].data = i ? again : first;
        if (prepared.run(&prepared, app.inputs, app.outputs, scratch, &app.report) != BASE_OK)
            return failures;
        if (i && memcmp(first, again, 20 * 48 * sizeof(float)) != 0) return failures;
    }
    rt_kernel_release(&prepared);
    application_free(&app);
    return NULL;
}

static void test_side_by_side(void **state) {
    (void)state;
    pthread_t threads[6];
    int failed = 0;
    for (int i = 0; i < 6; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_beside, &failed), 0);
    for (int i = 0; i < 6; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        if (result) failed++;
    }
    assert_int_equal(failed, 0);
}

/* The counter itself counts, also what libraries take. */
static void test_counter(void **state) {
    (void)state;
    if (!allocations_are_counted()) return;
    const size_t before = allocations_count();
    void *volatile memory = malloc(100);
    free(memory);
    assert_int_equal(allocations_count() - before, 1);
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    fclose(file);
    free(text);
    assert_true(allocations_count() - before > 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counter),
                                       cmocka_unit_test(test_side_by_side),
                                       cmocka_unit_test(test_convolution),
                                       cmocka_unit_test(test_transposed_convolution),
                                       cmocka_unit_test(test_long_signals),
                                       cmocka_unit_test(test_packed_elsewhere),
                                       cmocka_unit_test(test_pool),
                                       cmocka_unit_test(test_global_pool),
                                       cmocka_unit_test(test_normalization),
                                       cmocka_unit_test(test_reorder),
                                       cmocka_unit_test(test_matmul),
                                       cmocka_unit_test(test_row_blocks),
                                       cmocka_unit_test(test_gemm),
                                       cmocka_unit_test(test_left_alone),
                                       cmocka_unit_test(test_channel_by_channel),
                                       cmocka_unit_test(test_groups_of_points),
                                       cmocka_unit_test(test_recurrent),
                                       cmocka_unit_test(test_recurrent_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    puts("this build has no oneDNN: nothing to test");
    return 0;
}

#endif

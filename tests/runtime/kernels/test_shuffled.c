/* SPDX-License-Identifier: Apache-2.0 */
/* test_shuffled.c: ShuffledConv gives the bits of Conv of the channels put in that order: random groups, windows in one to three dimensions, strides,
 * dilations and padding, images, filters a channel, types, biases, residuals and activations, on one thread to five; what is refused. */
#include "tests/support/application.h"
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 1200 };

typedef struct drawn {
    application ordered, shuffled;
    bool in_place; /* the residual lies where the result is made */
} drawn;

/* The channels of each image in the order in which ShuffledConv takes them. */
static void put_in_order(op_tensor *to, const op_tensor *from, int64_t groups) {
    const int64_t *dims = from->type.shape.dims, channels = dims[1], each = channels / groups;
    const size_t size = from->bytes / (size_t)(dims[0] * channels);
    for (int64_t n = 0; n < dims[0]; n++)
        for (int64_t i = 0; i < channels; i++)
            memcpy((char *)to->data + (size_t)(n * channels + i) * size,
                   (const char *)from->data + (size_t)(n * channels + i % groups * each + i / groups) * size,
                   size);
}

/* An input of both. */
static void add_same(drawn *d, op_dtype dtype, int32_t rank, const int64_t *dims, uint64_t *seed) {
    const void *data = application_random(&d->ordered, dtype, rank, dims, seed);
    void *copy = application_input(&d->shuffled, dtype, rank, dims);
    memcpy(copy, data, d->ordered.inputs[d->ordered.call.input_count - 1].bytes);
}

static void set_attributes(application *app, size_t sides, const int64_t *strides, const int64_t *dilations,
                           const int64_t *pads, int64_t channels, uint64_t seed) {
    application_integers(app, "strides", sides, strides);
    application_integers(app, "dilations", sides, dilations);
    application_integers(app, "pads", 2 * sides, pads);
    application_integer(app, "group", channels);
    application_draw_activation(app, 8, &seed);
}

static void draw(drawn *d, uint64_t *seed) {
    static const op_dtype types[] = {OP_FLOAT, OP_FLOAT, OP_FLOAT, OP_DOUBLE, OP_FLOAT16, OP_BFLOAT16};
    const op_dtype dtype = types[random_range(seed, 0, 5)];
    const int32_t sides = random_range(seed, 0, 3) ? 2 : random_range(seed, 0, 1) ? 1 : 3;
    const int64_t groups = random_range(seed, 1, 5), channels = groups * random_range(seed, 1, 7),
                  filters = random_range(seed, 0, 2) ? 1 : random_range(seed, 2, 3);
    const bool usual = random_range(seed, 0, 2) > 0; /* windows that have a kernel without a copy */
    int64_t x[5] = {random_range(seed, 1, 3), channels}, weights[5] = {channels * filters, 1}, strides[3],
            dilations[3], pads[6];
    const int64_t side = 3 + 2 * random_range(seed, 0, 2), step = random_range(seed, 1, 2);
    for (int32_t i = 0; i < sides; i++) {
        weights[2 + i] = usual ? side : random_range(seed, 1, 4);
        strides[i] = usual ? step : random_range(seed, 1, 3);
        dilations[i] = usual ? 1 : random_range(seed, 1, 2);
        for (int32_t p = 0; p < 2; p++) pads[i + p * sides] = random_range(seed, 0, weights[2 + i] - 1);
        x[2 + i] = (weights[2 + i] - 1) * dilations[i] + random_range(seed, 1, sides == 3 ? 4 : 20);
    }
    const bool bias = random_range(seed, 0, 1), residual = random_range(seed, 0, 3) == 0;
    d->in_place = residual && random_range(seed, 0, 1);
    application_init(&d->ordered, OP_CONV);
    application_init(&d->shuffled, OP_SHUFFLED_CONV);
    application_random(&d->shuffled, dtype, sides + 2, x, seed);
    application_input(&d->ordered, dtype, sides + 2, x);
    put_in_order(&d->ordered.inputs[0], &d->shuffled.inputs[0], groups);
    add_same(d, dtype, sides + 2, weights, seed);
    if (bias) add_same(d, dtype, 1, weights, seed);
    const uint64_t activation = random_next(seed);
    application *const both[] = {&d->ordered, &d->shuffled};
    for (int i = 0; i < 2; i++) {
        if (residual && !bias) application_absent(both[i]);
        set_attributes(both[i], (size_t)sides, strides, dilations, pads, channels, activation);
    }
    application_integer(&d->shuffled, "shuffle", groups);
    assert_int_equal(application_infer(&d->ordered), BASE_OK);
    if (!residual) return;
    const op_shape shape = d->ordered.outputs[0].type.shape;
    add_same(d, dtype, shape.rank, shape.dims, seed);
}

static void test_bits(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        drawn d;
        draw(&d, &seed);
        application_run(&d.ordered, "portable.convolution", 1);
        const op_tensor *want = &d.ordered.outputs[0];
        assert_int_equal(application_infer(&d.shuffled), BASE_OK);
        assert_true(op_shape_equal(&d.shuffled.outputs[0].type.shape, &want->type.shape));
        void *const residual = d.in_place ? d.shuffled.inputs[3].data : NULL;
        void *const kept = residual ? application_memory(&d.shuffled, want->bytes) : NULL;
        if (residual) memcpy(kept, residual, want->bytes);
        for (int threads = 1; threads <= 5; threads += 2) {
            d.shuffled.outputs[0].data = residual;
            if (residual) memcpy(residual, kept, want->bytes);
            application_run(&d.shuffled, "portable.convolution", threads);
            if (memcmp(d.shuffled.outputs[0].data, want->data, want->bytes) != 0)
                fail_msg("seed %d, %d threads: other bits", (int)round, threads);
        }
        application_free(&d.ordered);
        application_free(&d.shuffled);
    }
}

/* Filters that see two channels, groups that do not divide them, none, too many filters, and no kernel but one. */
static void test_refused(void **state) {
    (void)state;
    static const struct {
        int64_t channels, filters, group, shuffle;
        bool infers;
    } cases[] = {{12, 12, 6, 2, false},   {12, 12, 12, 5, false}, {12, 12, 12, 0, false},
                 {12, 12, 12, -3, false}, {12, 48, 12, 3, true},  {12, 12, 12, 24, false},
                 {12, 12, 12, 12, true}};
    const rt_environment environment = {.threads = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t seed = i + 1;
        application app;
        application_init(&app, OP_SHUFFLED_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(1, cases[i].channels, 7, 7), &seed);
        application_random(&app, OP_FLOAT, 4,
                           DIMS(cases[i].filters, cases[i].channels / cases[i].group, 3, 3), &seed);
        application_integer(&app, "group", cases[i].group);
        application_integer(&app, "shuffle", cases[i].shuffle);
        assert_int_equal(application_infer(&app), cases[i].infers ? BASE_OK : BASE_INVALID);
        if (cases[i].infers)
            assert_true((rt_kernel_select(&app.call, &environment) != NULL) == (cases[i].filters == 12));
        application_free(&app);
    }
    assert_ptr_equal(rt_kernel_candidate(OP_SHUFFLED_CONV, 0),
                     rt_kernel_of(OP_SHUFFLED_CONV, "portable.convolution"));
    assert_null(rt_kernel_candidate(OP_SHUFFLED_CONV, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

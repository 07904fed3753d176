/* SPDX-License-Identifier: Apache-2.0 */
/* test_joined.c: JoinedConv and JoinedMaxPool give the bits of Conv and MaxPool of the rows put side by side: random windows, strides,
 * shuffles and padding, rows from the midst of either tensor, or of one alone; with vectors and without, on any number of threads; what is refused. */
#include "runtime/kernels/portable/joined.h"
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 400 };

typedef struct drawn {
    application whole, joined;
    op_layout layout;
} drawn;

/* Rows [from, from + count) of a row-major image of `height` rows get those of `whole` from `first` on; what is beside them is not to be read. */
static void put_rows(op_tensor *to, int64_t from, const op_tensor *whole, int64_t first, int64_t count) {
    const int64_t *dims = whole->type.shape.dims, height = to->type.shape.dims[2], width = dims[3];
    for (int64_t i = 0; i < dims[1] * height * width; i++) ((float *)to->data)[i] = NAN;
    for (int64_t c = 0; c < dims[1]; c++)
        memcpy((float *)to->data + (c * height + from) * width,
               (const float *)whole->data + (c * dims[2] + first) * width,
               (size_t)(count * width) * sizeof(float));
}

static void set_window(application *app, bool pool, const int64_t *kernel, const int64_t *strides,
                       const int64_t *dilations, const int64_t *pads, int64_t channels,
                       const char *activation) {
    application_integers(app, "kernel_shape", 2, kernel);
    application_integers(app, "strides", 2, strides);
    application_integers(app, "dilations", 2, dilations);
    application_integers(app, "pads", 4, pads);
    if (pool) return;
    application_integer(app, "group", channels);
    if (activation[0]) application_text(app, "ouro.activation", activation);
    application_real(app, "ouro.alpha", -0.25f);
    application_real(app, "ouro.beta", 0.75f);
}

static void draw(drawn *d, bool pool, uint64_t *seed) {
    static const char *const activations[] = {"", "Relu", "Clip"};
    const int64_t block = random_range(seed, 0, 1) ? 16 : 8;
    const int64_t shuffle = pool || random_range(seed, 0, 1) ? 1 : random_range(seed, 2, 4);
    const int64_t channels = pool          ? block * random_range(seed, 1, 3)
                             : shuffle > 1 ? shuffle * random_range(seed, 1, 4)
                                           : random_range(seed, 2, 9);
    int64_t kernel[2], strides[2], dilations[2] = {1, 1}, pads[4];
    kernel[0] = kernel[1] = pool ? random_range(seed, 2, 3) : 3 + 2 * random_range(seed, 0, 2);
    strides[0] = strides[1] = random_range(seed, 1, 2);
    if (pool && random_range(seed, 0, 3) == 0) {
        for (int i = 0; i < 2; i++) {
            kernel[i] = random_range(seed, 1, 4);
            strides[i] = random_range(seed, 1, 3);
            dilations[i] = random_range(seed, 1, 2);
        }
    }
    for (int i = 0; i < 4; i++) pads[i] = random_range(seed, 0, kernel[i % 2] - 1);
    const int64_t height = random_range(seed, (kernel[0] - 1) * dilations[0] + 2, 14),
                  width = random_range(seed, (kernel[1] - 1) * dilations[1] + 1, 45);
    const int64_t first = random_range(seed, 0, 3) ? random_range(seed, 1, height - 1) : height;
    const int64_t above = random_range(seed, 0, 2), between = random_range(seed, 0, 2),
                  more = random_range(seed, 0, 2);
    const char *activation = activations[random_range(seed, 0, 2)];
    const bool bias = random_range(seed, 0, 1);
    application_init(&d->whole, pool ? OP_MAX_POOL : shuffle > 1 ? OP_SHUFFLED_CONV : OP_CONV);
    application_init(&d->joined, pool ? OP_JOINED_MAX_POOL : OP_JOINED_CONV);
    application_random(&d->whole, OP_FLOAT, 4, DIMS(1, channels, height, width), seed);
    if (random_range(seed, 0, 5) == 0)
        ((float *)d->whole.inputs[0].data)[random_range(seed, 0, width - 1)] = NAN;
    application_input(&d->joined, OP_FLOAT, 4, DIMS(1, channels, above + first + between, width));
    put_rows(&d->joined.inputs[0], above, &d->whole.inputs[0], 0, first);
    for (uint32_t i = 0; !pool && i < 1u + bias; i++) {
        const void *data =
            i ? application_random(&d->whole, OP_FLOAT, 1, DIMS(channels), seed)
              : application_random(&d->whole, OP_FLOAT, 4, DIMS(channels, 1, kernel[0], kernel[1]), seed);
        const op_tensor *of = &d->whole.inputs[1 + i];
        memcpy(application_input(&d->joined, OP_FLOAT, of->type.shape.rank, of->type.shape.dims), data,
               of->bytes);
    }
    if (first < height) {
        if (!pool && !bias) application_absent(&d->joined);
        application_input(&d->joined, OP_FLOAT, 4, DIMS(1, channels, between + height - first + more, width));
        put_rows(&d->joined.inputs[d->joined.call.input_count - 1], between, &d->whole.inputs[0], first,
                 height - first);
    }
    set_window(&d->whole, pool, kernel, strides, dilations, pads, channels, activation);
    set_window(&d->joined, pool, kernel, strides, dilations, pads, channels, activation);
    if (shuffle > 1) application_integer(&d->whole, "shuffle", shuffle);
    if (shuffle > 1) application_integer(&d->joined, "shuffle", shuffle);
    application_integers(&d->joined, "rows", 4,
                         DIMS(above, above + first, first < height ? between : 0,
                              first < height ? between + height - first : 0));
    d->layout = !pool ? OP_LAYOUT_ROW_MAJOR : block == 16 ? OP_LAYOUT_NC16 : OP_LAYOUT_NC8;
}

static op_tensor run_joined(drawn *d, const char *name, const rt_environment *environment) {
    application *app = &d->joined;
    const rt_kernel *kernel = rt_kernel_find(name);
    op_tensor inputs[APPLICATION_INPUTS];
    op_call call = app->call;
    rt_prepared prepared;
    memcpy(inputs, app->inputs, sizeof inputs);
    for (uint32_t i = 0; i < call.input_count && d->layout != OP_LAYOUT_ROW_MAJOR; i++)
        inputs[i] = application_reordered(app, &app->inputs[i], d->layout);
    op_tensor made = app->outputs[0];
    made.type.layout = d->layout;
    assert_true(op_type_bytes(&made.type, &made.bytes));
    made.data = application_memory(app, made.bytes);
    memset(made.data, 0x7f, made.bytes);
    call.inputs = inputs;
    call.outputs = &made;
    assert_true(kernel->accepts(&call, environment));
    rt_threads_warm(environment->threads);
    assert_int_equal(rt_kernel_prepare(kernel, &call, environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    assert_int_equal(prepared.run(&prepared, inputs, &made, NULL, &app->report), BASE_OK);
    rt_kernel_release(&prepared);
    return made;
}

static void run_rounds(bool pool) {
    static const rt_environment environments[] = {
        {.threads = 1}, {.threads = 3}, {.threads = 1, .portable_only = true}};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        drawn d;
        draw(&d, pool, &seed);
        assert_int_equal(application_infer(&d.whole), BASE_OK);
        assert_int_equal(application_infer(&d.joined), BASE_OK);
        assert_true(op_shape_equal(&d.whole.outputs[0].type.shape, &d.joined.outputs[0].type.shape));
        application_run(&d.whole, pool ? "portable.pool" : "portable.convolution", 1);
        const op_tensor want = application_reordered(&d.whole, &d.whole.outputs[0], d.layout);
        for (size_t e = 0; e < sizeof environments / sizeof *environments; e++) {
            const op_tensor got = run_joined(
                &d, pool ? "portable.joined_pool" : "portable.joined_convolution", &environments[e]);
            const float *x = want.data, *y = got.data;
            for (size_t i = 0; i < want.bytes / sizeof *x; i++) {
                /* Which of several NaNs stays is no matter. Without vectors the sums of Conv are rounded twice. */
                if (isnan(x[i])) assert_true(isnan(y[i]));
                else if (pool) assert_true(x[i] == y[i]);
                else application_check_near((double)y[i], (double)x[i], 1e-5, round, (int64_t)i);
            }
            if (e == 0 || pool) continue;
            const op_tensor first = run_joined(&d, "portable.joined_convolution", &environments[0]);
            for (size_t i = 0; i < want.bytes / sizeof *x; i++)
                assert_true(isnan(y[i]) ? isnan(((const float *)first.data)[i])
                                        : y[i] == ((const float *)first.data)[i]);
        }
        application_free(&d.whole);
        application_free(&d.joined);
    }
}

static void test_convolution(void **state) {
    (void)state;
    run_rounds(false);
}

static void test_pool(void **state) {
    (void)state;
    run_rounds(true);
}

/* Rows that are not there, and tensors that are not of one image. */
static void test_refused(void **state) {
    (void)state;
    static const int64_t rows[][4] = {{0, 6, 0, 1},
                                      {-1, 2, 0, 2},
                                      {3, 2, 0, 2},
                                      {0, 2, 0, 4},
                                      {0, 2, -1, 2},
                                      {0, 2, 3, 2},
                                      {0, 0, 0, 0},
                                      {0, 1, 0, 0},
                                      {INT64_MIN, INT64_MAX, 0, 1},
                                      {0, 1, INT64_MIN, INT64_MAX}};
    for (size_t i = 0; i <= sizeof rows / sizeof *rows + 2; i++) {
        const size_t count = sizeof rows / sizeof *rows;
        uint64_t seed = 1;
        application app;
        application_init(&app, OP_JOINED_CONV);
        application_random(&app, OP_FLOAT, 4, DIMS(1, 4, 5, 9), &seed);
        application_random(&app, OP_FLOAT, 4, DIMS(4, 1, 3, 3), &seed);
        application_absent(&app);
        if (i == count) application_random(&app, OP_FLOAT, 4, DIMS(1, 4, 3, 8), &seed);
        else if (i == count + 1) application_absent(&app);
        else application_random(&app, OP_FLOAT, 4, DIMS(1, 4, 3, 9), &seed);
        application_integer(&app, "group", 4);
        application_integers(&app, "rows", 4, i < count ? rows[i] : DIMS(0, 5, 0, 3));
        assert_int_equal(application_infer(&app), i == count + 2 ? BASE_OK : BASE_INVALID);
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_convolution), cmocka_unit_test(test_pool),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

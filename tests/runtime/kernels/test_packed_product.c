/* SPDX-License-Identifier: Apache-2.0 */
/* test_packed_product.c: products with weights in panels beside sums in double: random shapes around the edges of tiles, panels and
 * blocks, bias, scales, turned weights, activations, rows a page apart; bits that do not depend on threads; another number of rows;
 * weights in half precision and as integers, which give what they are as floats; what is refused.
 */
#include "runtime/kernels/portable/activation.h"
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 150 };

static const rt_environment one_thread = {.threads = 1};

static const rt_kernel *kernel(void) {
    return rt_kernel_of(OP_MATMUL, "portable.packed_product");
}

static int64_t draw_rows(uint64_t *seed) {
    return random_range(seed, 0, 3) ? random_range(seed, 1, 30) : random_range(seed, 31, 110);
}

/* A MatMul of one or three axes, or a Gemm. */
static void draw_scaled(application *app, uint64_t *seed, int64_t rows, float alpha) {
    static const char *const activations[] = {"Gelu",    "",      "Relu",      "LeakyRelu", "Clip",
                                              "Sigmoid", "Swish", "HardSwish", "GeluTanh"};
    static const int64_t pages[] = {1024, 2048};
    const bool gemm = random_range(seed, 0, 1), turned = gemm && random_range(seed, 0, 1);
    const int64_t kind = random_range(seed, 0, 5);
    const int64_t depth = kind == 0   ? pages[random_range(seed, 0, 1)]
                          : kind == 1 ? random_range(seed, 380, 800)
                                      : random_range(seed, 2, 90);
    const int64_t columns =
        random_range(seed, 0, 2) ? random_range(seed, 16, 120) : random_range(seed, 121, 300);
    const int64_t bias = random_range(seed, 0, 3);
    application_init(app, gemm ? OP_GEMM : OP_MATMUL);
    if (gemm) application_random(app, OP_FLOAT, 2, DIMS(rows, depth), seed);
    else if (rows == 1 && bias == 0) application_random(app, OP_FLOAT, 1, DIMS(depth), seed);
    else if (rows % 2 == 0) application_random(app, OP_FLOAT, 3, DIMS(2, rows / 2, depth), seed);
    else application_random(app, OP_FLOAT, 3, DIMS(1, rows, depth), seed);
    application_random(app, OP_FLOAT, 2, turned ? DIMS(columns, depth) : DIMS(depth, columns), seed);
    if (bias == 1) application_random(app, OP_FLOAT, 1, DIMS(columns), seed);
    else if (bias == 2) application_random(app, OP_FLOAT, 2, DIMS(1, columns), seed);
    else if (bias == 3 && gemm) application_random(app, OP_FLOAT, 1, DIMS(1), seed);
    if (gemm) {
        application_integer(app, "transB", turned);
        application_real(app, "alpha", alpha);
        application_real(app, "beta", random_range(seed, 0, 1) ? 1 : -1.5f);
    }
    const char *activation = activations[random_range(seed, 0, 8)];
    if (activation[0]) application_text(app, "ouro.activation", activation);
    application_real(app, "ouro.alpha", -0.25f);
    application_real(app, "ouro.beta", 0.75f);
}

static void draw(application *app, uint64_t *seed, int64_t rows) {
    draw_scaled(app, seed, rows, 0.75f);
}

static double expected(const application *app, int64_t row, int64_t column, int64_t depth, int64_t columns) {
    const op_attributes *attributes = &app->call.attributes;
    const float *x = app->inputs[0].data, *w = app->inputs[1].data;
    const bool turned = op_attribute_integer(attributes, "transB", 0) != 0;
    const bool biased = op_input_present(&app->call, 2);
    rt_activation activation;
    double sum = 0;
    for (int64_t k = 0; k < depth; k++)
        sum += (double)x[row * depth + k] * (double)w[turned ? column * depth + k : k * columns + column];
    sum *= (double)op_attribute_real(attributes, "alpha", 1);
    if (biased) {
        const float *bias = app->inputs[2].data;
        const op_shape *shape = &app->inputs[2].type.shape;
        sum += (double)op_attribute_real(attributes, "beta", 1) *
               (double)bias[shape->dims[shape->rank - 1] == 1 ? 0 : column];
    }
    assert_true(rt_activation_read(attributes, &activation));
    return rt_activation_value(&activation, sum);
}

/* The application with its weights in panels. */
static void pack(application *app, op_call *call, op_tensor *inputs) {
    const int64_t depth = app->inputs[0].type.shape.dims[app->inputs[0].type.shape.rank - 1],
                  columns = app->outputs[0].type.shape.dims[app->outputs[0].type.shape.rank - 1];
    const size_t bytes = (size_t)((columns + 15) / 16 * 16 * depth) * sizeof(float) + RT_ALIGNMENT;
    *call = app->call;
    memcpy(inputs, app->inputs, sizeof app->inputs);
    call->inputs = inputs;
    inputs[1].type.layout = OP_LAYOUT_PACKED;
    inputs[1].type.packed_bytes = bytes;
    inputs[1].data = application_memory(app, bytes);
    memset(inputs[1].data, 0, bytes);
    assert_int_equal(kernel()->pack(call, &one_thread, 1, &app->inputs[1], inputs[1].data, &app->report),
                     BASE_OK);
    assert_true(kernel()->accepts(call, &one_thread));
    inputs[1].type.packed_bytes = bytes - RT_ALIGNMENT; /* what another kernel may have packed */
    assert_false(kernel()->accepts(call, &one_thread));
    inputs[1].type.packed_bytes = bytes;
}

/* The application with its weights, which are rounded, in panels of 16 bits. */
static void pack_halves(application *app, op_dtype dtype, op_call *call, op_tensor *inputs) {
    const op_tensor *weights = &app->inputs[1];
    const int64_t count = (int64_t)(weights->bytes / sizeof(float)),
                  depth = app->inputs[0].type.shape.dims[app->inputs[0].type.shape.rank - 1],
                  columns = count / depth;
    op_tensor source = *weights;
    const float scale = 0x1p-15f; /* a product with it is exact */
    if (dtype == OP_INT16) application_real(app, "ouro.weights_scale", scale);
    float *floats = weights->data;
    uint16_t *halves = application_memory(app, (size_t)count * sizeof *halves);
    rt_preference wish;
    for (int64_t i = 0; i < count && dtype == OP_INT16; i++) {
        const int16_t code = (int16_t)(floats[i] * 32767);
        memcpy(&halves[i], &code, sizeof code);
        floats[i] = scale * (float)code;
    }
    for (int64_t i = 0; i < count && dtype != OP_INT16; i++) {
        if (i % 7 == 3) floats[i] *= 0x1p-16f; /* not normal in float16 */
        halves[i] =
            dtype == OP_FLOAT16 ? base_half_from_float(floats[i]) : base_bfloat16_from_float(floats[i]);
        floats[i] =
            dtype == OP_FLOAT16 ? base_float_from_half(halves[i]) : base_float_from_bfloat16(halves[i]);
    }
    source.type.dtype = dtype;
    source.data = halves;
    *call = app->call;
    memcpy(inputs, app->inputs, sizeof app->inputs);
    call->inputs = inputs;
    inputs[1] = source;
    if (kernel()->prefer(call, &(rt_environment){.threads = 1, .portable_only = true}, &wish)) {
        assert_int_equal(wish.inputs[1], OP_LAYOUT_PACKED);
        assert_int_equal(wish.packed_bytes[1],
                         (size_t)((columns + 15) / 16 * 16 * depth) * sizeof *halves + RT_ALIGNMENT);
    }
    inputs[1].type.layout = OP_LAYOUT_PACKED;
    inputs[1].type.packed_bytes = (size_t)((columns + 15) / 16 * 16 * depth) * sizeof *halves + RT_ALIGNMENT;
    inputs[1].data = application_memory(app, inputs[1].type.packed_bytes);
    memset(inputs[1].data, 0, inputs[1].type.packed_bytes);
    assert_int_equal(kernel()->pack(call, &one_thread, 1, &source, inputs[1].data, &app->report), BASE_OK);
    assert_true(kernel()->accepts(call, &one_thread));
}

static op_tensor run(application *app, const op_call *call, int threads) {
    const rt_environment environment = {.threads = threads};
    op_tensor output = app->outputs[0];
    rt_prepared prepared;
    output.data = application_memory(app, output.bytes);
    memset(output.data, 0x7f, output.bytes);
    assert_int_equal(rt_kernel_prepare(kernel(), call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    if (call->inputs[1].type.dtype == OP_FLOAT) assert_int_equal(prepared.scratch_bytes, 0);
    void *scratch = prepared.scratch_bytes ? application_memory(app, prepared.scratch_bytes) : NULL;
    rt_threads_warm(threads);
    const size_t before = allocations_count();
    assert_int_equal(prepared.run(&prepared, call->inputs, &output, scratch, &app->report), BASE_OK);
    assert_int_equal(allocations_count(), before);
    rt_kernel_release(&prepared);
    return output;
}

static void test_equals_sums_in_double(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= support_share(ROUNDS); round++) {
        uint64_t seed = round;
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        const int64_t rows = draw_rows(&seed);
        draw(&app, &seed, rows);
        application_run(&app, app.call.code == OP_GEMM ? "portable.gemm" : "portable.matmul", 1);
        pack(&app, &call, inputs);
        const op_tensor got = run(&app, &call, 1), other = run(&app, &call, 2 + (int)(round % 2));
        const op_shape *x = &app.inputs[0].type.shape, *y = &app.outputs[0].type.shape;
        const int64_t depth = x->dims[x->rank - 1], columns = y->dims[y->rank - 1];
        for (int64_t i = 0; i < rows * columns; i++)
            application_check_near(((const float *)got.data)[i],
                                   expected(&app, i / columns, i % columns, depth, columns), 1e-4, round, i);
        if (memcmp(got.data, other.data, got.bytes) != 0)
            fail_msg("seed %" PRIu64 ": threads change the result", round);
        application_free(&app);
    }
}

static void test_halves_are_floats(void **state) {
    (void)state;
    static const op_dtype types[] = {OP_FLOAT16, OP_BFLOAT16, OP_INT16};
    for (uint64_t round = 1; round <= support_share(3 * ROUNDS); round++) {
        uint64_t seed = round;
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        const int64_t rows = random_range(&seed, 0, 2) ? draw_rows(&seed) : 1;
        draw_scaled(&app, &seed, rows, 1);
        assert_int_equal(application_infer(&app), BASE_OK);
        pack_halves(&app, types[round % 3], &call, inputs);
        application_run(&app, app.call.code == OP_GEMM ? "portable.gemm" : "portable.matmul", 1);
        call.outputs = app.call.outputs;
        const op_tensor got = run(&app, &call, 1), other = run(&app, &call, 2 + (int)(round % 2));
        const op_shape *x = &app.inputs[0].type.shape, *y = &app.outputs[0].type.shape;
        const int64_t depth = x->dims[x->rank - 1], columns = y->dims[y->rank - 1];
        for (int64_t i = 0; i < rows * columns; i++)
            application_check_near(((const float *)got.data)[i],
                                   expected(&app, i / columns, i % columns, depth, columns), 1e-4, round, i);
        if (memcmp(got.data, other.data, got.bytes) != 0)
            fail_msg("seed %" PRIu64 ": threads change the result", round);
        /* Panels of floats give the same bits. */
        pack(&app, &call, inputs);
        const op_tensor floats = run(&app, &call, 1);
        if (memcmp(got.data, floats.data, got.bytes) != 0)
            fail_msg("seed %" PRIu64 ": other bits than floats give", round);
        application_free(&app);
    }
}

/* A factor would have to be rounded anew; half precision on both sides is for another kernel; files may not mix types. */
static void test_refuses_halves(void **state) {
    (void)state;
    application app;
    uint64_t seed = 3;
    application_init(&app, OP_GEMM);
    application_random(&app, OP_FLOAT, 2, DIMS(4, 8), &seed);
    application_random(&app, OP_FLOAT16, 2, DIMS(8, 32), &seed);
    assert_int_not_equal(application_infer(&app), BASE_OK);
    application_real(&app, "ouro.weights_error", 0);
    assert_int_equal(application_infer(&app), BASE_OK);
    app.inputs[1].type.layout = OP_LAYOUT_PACKED;
    app.inputs[1].type.packed_bytes = 8 * 32 * sizeof(uint16_t) + RT_ALIGNMENT;
    assert_true(kernel()->accepts(&app.call, &one_thread));
    app.inputs[1].type.layout = OP_LAYOUT_ROW_MAJOR;
    assert_null(rt_kernel_select(&app.call, &one_thread));
    app.inputs[1].type.layout = OP_LAYOUT_PACKED;
    application_real(&app, "alpha", 0.5f);
    assert_false(kernel()->accepts(&app.call, &one_thread));
    application_free(&app);
}

/* Equal columns have equal sums, to the last bit, wherever they lie in panels and tiles: a softmax after large sums shows the least
 * difference. */
static void test_columns_are_alike(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= support_share(24); round++) {
        uint64_t seed = round;
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        const int64_t rows = (int64_t)round, depth = random_range(&seed, 2, 900),
                      columns = random_range(&seed, 16, 330);
        application_init(&app, OP_MATMUL);
        float *x = application_random(&app, OP_FLOAT, 2, DIMS(rows, depth), &seed);
        float *w = application_input(&app, OP_FLOAT, 2, DIMS(depth, columns));
        for (int64_t i = 0; i < rows * depth; i++) x[i] *= 1e6f;
        for (int64_t k = 0; k < depth; k++) {
            const float weight = random_float(&seed);
            for (int64_t j = 0; j < columns; j++) w[k * columns + j] = weight;
        }
        application_run(&app, "portable.matmul", 1);
        pack(&app, &call, inputs);
        const float *y = run(&app, &call, 1 + (int)(round % 2)).data;
        for (int64_t i = 0; i < rows * columns; i++)
            if (y[i] != y[i / columns * columns]) fail_msg("seed %" PRIu64 ", element %" PRId64, round, i);
        application_free(&app);
    }
}

/* Prepared for some rows, run with others; open ones are accepted and never run. */
static void test_rows_may_change(void **state) {
    (void)state;
    application app, other;
    op_call call, changed;
    op_tensor inputs[APPLICATION_INPUTS], output;
    uint64_t seed = 5;
    rt_prepared prepared;
    application_init(&app, OP_MATMUL);
    application_random(&app, OP_FLOAT, 3, DIMS(1, 4, 40), &seed);
    application_random(&app, OP_FLOAT, 2, DIMS(40, 70), &seed);
    application_run(&app, "portable.matmul", 1);
    pack(&app, &call, inputs);
    assert_int_equal(rt_kernel_prepare(kernel(), &call, &one_thread, &app.arena, &prepared, &app.report),
                     BASE_OK);
    application_init(&other, OP_MATMUL);
    application_random(&other, OP_FLOAT, 3, DIMS(3, 9, 40), &seed);
    application_input(&other, OP_FLOAT, 2, DIMS(40, 70));
    memcpy(other.inputs[1].data, app.inputs[1].data, app.inputs[1].bytes);
    application_run(&other, "portable.matmul", 1);
    changed = call;
    op_tensor with[] = {other.inputs[0], inputs[1]};
    changed.inputs = with;
    output = other.outputs[0];
    changed.outputs = &output;
    output.data = application_memory(&other, output.bytes);
    assert_true(kernel()->adapt(&changed, &one_thread, &prepared));
    assert_int_equal(prepared.run(&prepared, with, &output, NULL, &app.report), BASE_OK);
    for (int64_t i = 0; i < 27 * 70; i++)
        application_check_near(((const float *)output.data)[i], ((const float *)other.outputs[0].data)[i],
                               1e-5, 5, i);
    with[0].type.shape.dims[1] = OP_DIM_UNKNOWN;
    assert_true(kernel()->accepts(&changed, &one_thread));
    assert_false(kernel()->adapt(&changed, &one_thread, &prepared));
    assert_int_not_equal(
        rt_kernel_prepare(kernel(), &changed, &one_thread, &app.arena, &prepared, &app.report), BASE_OK);
    application_free(&other);
    application_free(&app);
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        op_dtype dtype;
        int64_t depth, columns, bias; /* as application_gemm has it */
        bool turn_a;
        bool accepted;
    } cases[] = {{OP_FLOAT, 8, 32, 2, false, true},    {OP_FLOAT, 8, 32, 5, false, true},
                 {OP_FLOAT, 8, 32, 1, false, true},    {OP_FLOAT, 8, 32, 3, false, false},
                 {OP_FLOAT, 8, 32, 4, false, false},   {OP_FLOAT, 8, 32, 0, true, false},
                 {OP_FLOAT, 8, 15, 0, false, false},   {OP_FLOAT, 1, 32, 0, false, false},
                 {OP_FLOAT16, 8, 32, 0, false, false}, {OP_DOUBLE, 8, 32, 0, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        uint64_t seed = 3;
        application_gemm(&app, cases[i].dtype, 8, cases[i].depth, cases[i].columns, cases[i].turn_a, false,
                         cases[i].bias, &seed);
        assert_int_equal(application_infer(&app), BASE_OK);
        app.inputs[1].type.layout = OP_LAYOUT_PACKED;
        app.inputs[1].type.packed_bytes =
            (size_t)((cases[i].columns + 15) / 16 * 16 * cases[i].depth) * sizeof(float) + RT_ALIGNMENT;
        if (kernel()->accepts(&app.call, &one_thread) != cases[i].accepted) fail_msg("case %zu", i);
        application_free(&app);
    }
}

/* Where a machine prefers panels at all, it does so of constants only, and never for plans that are for any machine. */
static void test_prefers_constants(void **state) {
    (void)state;
    application app;
    uint64_t seed = 9;
    rt_preference wish;
    const rt_environment portable = {.threads = 1, .portable_only = true};
    application_gemm(&app, OP_FLOAT, 64, 64, 64, false, false, 2, &seed);
    assert_int_equal(application_infer(&app), BASE_OK);
    assert_false(kernel()->prefer(&app.call, &portable, &wish));
    if (kernel()->prefer(&app.call, &one_thread, &wish)) {
        assert_int_equal(wish.inputs[1], OP_LAYOUT_PACKED);
        assert_int_equal(wish.packed_bytes[1], 64 * 64 * sizeof(float) + RT_ALIGNMENT);
    }
    app.inputs[1].data = NULL;
    assert_false(kernel()->prefer(&app.call, &one_thread, &wish));
    application_free(&app);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_sums_in_double), cmocka_unit_test(test_columns_are_alike),
        cmocka_unit_test(test_rows_may_change),       cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_prefers_constants),     cmocka_unit_test(test_halves_are_floats),
        cmocka_unit_test(test_refuses_halves),
    };
    return cmocka_run_group_tests_name("packed_product", tests, NULL, NULL);
}

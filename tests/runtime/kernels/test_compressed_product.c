/* SPDX-License-Identifier: Apache-2.0 */
/* test_compressed_product.c: products of one row with weights in codes of 28 bits: random matrices, with weights of any exponent among them, give
 * the bits that floats in panels give; codes give back every bit; bits that do not depend on threads; what has no codes; bytes that
 * nobody packed.
 */
#include "runtime/kernels/portable/float_codes.h"
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 200 };

static const rt_environment one_thread = {.threads = 1};

static const rt_kernel *kernel_named(const char *name) {
    return rt_kernel_of(OP_MATMUL, name);
}

static const rt_kernel *kernel(void) {
    return kernel_named("portable.compressed_product");
}

/* A few weights become what no code tells. */
static void put_exceptions(float *weights, int64_t count, uint64_t *seed) {
    static const float odd[] = {0,         -0.0f,   0x1p-149f, -0x1p-130f, 0x1p-60f,
                                0x1.8p20f, -0x1p9f, 0x1p-9f,   0x1p-30f,   -0x1.1p-17f};
    const int64_t exceptions = count / 512 ? random_range(seed, 0, count / 512) : 0;
    for (int64_t i = 0; i < exceptions / 2; i++)
        weights[random_range(seed, 0, count - 1)] = odd[random_range(seed, 0, 9)];
}

/* Weights that are spread evenly have about one in 30,000 whose exponent no code tells. */
static float *draw(application *app, uint64_t *seed) {
    static const char *const activations[] = {"", "Relu", "Gelu", "Clip"};
    const bool gemm = random_range(seed, 0, 1), turned = gemm && random_range(seed, 0, 1);
    const int64_t depth =
        random_range(seed, 0, 3) ? random_range(seed, 2, 150) : random_range(seed, 151, 700);
    const int64_t columns =
        random_range(seed, 0, 3) ? random_range(seed, 16, 200) : random_range(seed, 201, 600);
    const int64_t bias = random_range(seed, 0, 2);
    application_init(app, gemm ? OP_GEMM : OP_MATMUL);
    if (gemm || random_range(seed, 0, 1)) application_random(app, OP_FLOAT, 2, DIMS(1, depth), seed);
    else application_random(app, OP_FLOAT, 3, DIMS(1, 1, depth), seed);
    float *weights =
        application_random(app, OP_FLOAT, 2, turned ? DIMS(columns, depth) : DIMS(depth, columns), seed);
    for (int64_t i = 0; i < depth * columns; i++)
        if (fabsf(weights[i]) < 0x1p-12f) weights[i] = 0x1p-12f;
    put_exceptions(weights, depth * columns, seed);
    if (bias)
        application_random(app, OP_FLOAT, bias == 1 ? 1 : 2, bias == 1 ? DIMS(columns) : DIMS(1, columns),
                           seed);
    if (gemm) application_integer(app, "transB", turned);
    const char *activation = activations[random_range(seed, 0, 3)];
    if (activation[0]) application_text(app, "ouro.activation", activation);
    application_integer(app, "ouro.weights_bits", 28);
    return weights;
}

static rt_code_matrix matrix_of(const application *app) {
    const op_shape *shape = &app->inputs[1].type.shape;
    const bool turned = op_attribute_integer(&app->call.attributes, "transB", 0) != 0;
    return (rt_code_matrix){.data = app->inputs[1].data,
                            .depth = shape->dims[turned],
                            .columns = shape->dims[!turned],
                            .depth_step = turned ? 1 : shape->dims[1],
                            .column_step = turned ? shape->dims[1] : 1};
}

/* The application with its weights packed by a kernel, in so many bytes. */
static void pack(application *app, const rt_kernel *by, size_t bytes, op_call *call, op_tensor *inputs) {
    *call = app->call;
    memcpy(inputs, app->inputs, sizeof app->inputs);
    call->inputs = inputs;
    inputs[1].type.layout = OP_LAYOUT_PACKED;
    inputs[1].type.packed_bytes = bytes;
    inputs[1].data = application_memory(app, bytes);
    memset(inputs[1].data, 0, bytes);
    assert_int_equal(by->pack(call, &one_thread, 1, &app->inputs[1], inputs[1].data, &app->report), BASE_OK);
    assert_true(by->accepts(call, &one_thread));
}

static op_tensor run(application *app, const rt_kernel *by, const op_call *call, int threads) {
    const rt_environment environment = {.threads = threads};
    op_tensor output = app->outputs[0];
    rt_prepared prepared;
    assert_true(op_type_bytes(&output.type, &output.bytes));
    output.data = application_memory(app, output.bytes);
    memset(output.data, 0x7f, output.bytes);
    assert_int_equal(rt_kernel_prepare(by, call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    assert_int_equal(prepared.scratch_bytes, 0);
    rt_threads_warm(threads);
    const size_t before = allocations_count();
    assert_int_equal(prepared.run(&prepared, call->inputs, &output, NULL, &app->report), BASE_OK);
    assert_int_equal(allocations_count(), before);
    rt_kernel_release(&prepared);
    return output;
}

static void test_gives_the_bits_of_floats(void **state) {
    (void)state;
    const rt_kernel *floats = kernel_named("portable.packed_product");
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        op_call call, plain;
        op_tensor inputs[APPLICATION_INPUTS], plain_inputs[APPLICATION_INPUTS];
        size_t bytes;
        draw(&app, &seed);
        assert_int_equal(application_infer(&app), BASE_OK);
        const rt_code_matrix matrix = matrix_of(&app);
        if (!rt_codes_bytes(&matrix, &bytes)) fail_msg("seed %" PRIu64 ": no codes", round);
        pack(&app, kernel(), bytes + RT_ALIGNMENT, &call, inputs);
        pack(&app, floats,
             (size_t)((matrix.columns + 15) / 16 * 16 * matrix.depth) * sizeof(float) + RT_ALIGNMENT, &plain,
             plain_inputs);
        const op_tensor got = run(&app, kernel(), &call, 1),
                        other = run(&app, kernel(), &call, 2 + (int)(round % 2)),
                        want = run(&app, floats, &plain, 1);
        if (memcmp(got.data, want.data, got.bytes) != 0) fail_msg("seed %" PRIu64 ": other bits", round);
        if (memcmp(got.data, other.data, got.bytes) != 0)
            fail_msg("seed %" PRIu64 ": threads change the result", round);
        application_free(&app);
    }
}

/* Every bit, those of numbers that are none, too; from any group on, as many as are wanted. */
static void test_gives_back_every_bit(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        size_t bytes;
        float *weights = draw(&app, &seed);
        assert_int_equal(application_infer(&app), BASE_OK);
        const rt_code_matrix matrix = matrix_of(&app);
        const int64_t count = matrix.depth * matrix.columns;
        if (count >= 4096) {
            weights[random_range(&seed, 0, count - 1)] = NAN;
            weights[random_range(&seed, 0, count - 1)] = -INFINITY;
        }
        assert_true(rt_codes_bytes(&matrix, &bytes));
        assert_true(rt_codes_may_take(matrix.depth, matrix.columns, bytes));
        void *packed = application_memory(&app, bytes);
        memset(packed, 0, bytes);
        rt_codes_pack(&matrix, bytes, packed);
        const rt_codes codes = rt_codes_view(matrix.depth, matrix.columns, bytes, packed);
        const int64_t from = random_range(&seed, 0, (matrix.depth - 1) / RT_CODE_DEPTH) * RT_CODE_DEPTH,
                      some = random_range(&seed, 1, matrix.depth - from);
        float *got = application_memory(&app, (size_t)some * RT_PANEL * sizeof *got);
        for (int64_t panel = 0; panel < codes.panels; panel++) {
            rt_codes_decode(&codes, panel, from, some, got);
            for (int64_t k = 0; k < some; k++) {
                for (int64_t j = 0; j < RT_PANEL && panel * RT_PANEL + j < matrix.columns; j++) {
                    const float *want = &weights[(from + k) * matrix.depth_step +
                                                 (panel * RT_PANEL + j) * matrix.column_step];
                    if (memcmp(want, &got[k * RT_PANEL + j], sizeof *want) != 0)
                        fail_msg("seed %" PRIu64 ": weight %" PRId64 " of column %" PRId64, round, from + k,
                                 panel * RT_PANEL + j);
                }
            }
        }
        application_free(&app);
    }
}

/* A matrix whose weights have all exponents has too many exceptions; it stays in floats. */
static void test_refuses_what_has_no_codes(void **state) {
    (void)state;
    application app;
    uint64_t seed = 7;
    size_t bytes;
    rt_preference wish = {0};
    application_init(&app, OP_MATMUL);
    application_random(&app, OP_FLOAT, 2, DIMS(1, 64), &seed);
    float *weights = application_random(&app, OP_FLOAT, 2, DIMS(64, 64), &seed);
    for (int64_t i = 0; i < 64 * 64; i++) weights[i] = ldexpf(1, (int)(i % 40));
    application_integer(&app, "ouro.weights_bits", 28);
    assert_int_equal(application_infer(&app), BASE_OK);
    const rt_code_matrix matrix = matrix_of(&app);
    assert_false(rt_codes_bytes(&matrix, &bytes));
    assert_false(kernel()->prefer(&app.call, &one_thread, &wish));
    application_free(&app);
}

/* More rows, no attribute, 16 bits, bytes of other kernels, a plan for any machine: all are for others. */
static void test_refuses_other_applications(void **state) {
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        application app;
        uint64_t seed = 9;
        rt_preference wish = {0};
        const rt_environment environment = {.threads = 1, .portable_only = kind == 3};
        application_init(&app, OP_MATMUL);
        application_random(&app, OP_FLOAT, 2, DIMS(kind == 0 ? 2 : 1, 64), &seed);
        float *weights = application_random(&app, kind == 2 ? OP_FLOAT16 : OP_FLOAT, 2, DIMS(64, 64), &seed);
        for (int64_t i = 0; i < 64 * 64 && kind != 2; i++) weights[i] = 1;
        if (kind == 2) application_real(&app, "ouro.weights_error", 0);
        application_integer(&app, "ouro.weights_bits", kind == 1 ? 27 : 28);
        assert_int_equal(application_infer(&app), BASE_OK);
        if (kind < 4) {
            assert_false(kernel()->prefer(&app.call, &environment, &wish));
        } else if (kernel()->prefer(&app.call, &environment,
                                    &wish)) { /* where the machine is fast with panels */
            assert_int_equal(wish.inputs[1], OP_LAYOUT_PACKED);
            assert_true(wish.packed_bytes[1] < 64 * 64 * sizeof(float));
        }
        app.inputs[1].type.layout = OP_LAYOUT_PACKED;
        app.inputs[1].type.packed_bytes = 64 * 64 * 4 + RT_ALIGNMENT;
        assert_false(kernel()->accepts(&app.call, &environment));
        app.inputs[1].type.packed_bytes = 4;
        assert_false(kernel()->accepts(&app.call, &environment));
        application_free(&app);
    }
}

/* A plan's bytes may be anything: nothing outside of them is read (sanitizers see it). */
static void test_reads_within_any_bytes(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        const int64_t depth = random_range(&seed, 1, 60), columns = random_range(&seed, 16, 100),
                      panels = (columns + RT_PANEL - 1) / RT_PANEL;
        const size_t exceptions = (size_t)(depth * columns / 512) * (round % 2),
                     bytes = (size_t)(panels * ((depth + 7) / 8)) * RT_CODE_BYTES +
                             (size_t)(2 * panels + 1) * sizeof(uint32_t) +
                             exceptions * sizeof(rt_code_exception);
        application_init(&app, OP_MATMUL);
        float *a = application_random(&app, OP_FLOAT, 1, DIMS(depth), &seed);
        assert_true(rt_codes_may_take(depth, columns, bytes));
        assert_false(rt_codes_may_take(depth, columns, bytes + 1));
        char *packed = application_memory(&app, bytes);
        for (size_t i = 0; i < bytes; i++) packed[i] = (char)random_next(&seed);
        const rt_codes codes = rt_codes_view(depth, columns, bytes, packed);
        float *y = application_memory(&app, (size_t)panels * RT_PANEL * sizeof *y),
              *weights = application_memory(&app, (size_t)depth * RT_PANEL * sizeof *weights);
        rt_codes_row(&codes, a, 0, panels, y);
        for (int64_t panel = 0; panel < panels; panel++) rt_codes_decode(&codes, panel, 0, depth, weights);
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_the_bits_of_floats),  cmocka_unit_test(test_gives_back_every_bit),
        cmocka_unit_test(test_refuses_what_has_no_codes), cmocka_unit_test(test_refuses_other_applications),
        cmocka_unit_test(test_reads_within_any_bytes),
    };
    return cmocka_run_group_tests_name("compressed_product", tests, NULL, NULL);
}

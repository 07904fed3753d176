/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_transformers.c: what stands around attention, against plain references: RotaryEmbedding, RMSNormalization, TensorScatter,
 * LinearAttention, MatMulNBits; in place, in every type, and what is refused. */
#include "ir/operators/small.h"
#include "tests/support/application.h"
#include "tests/support/operators.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static double tolerance_of(op_dtype dtype) {
    return dtype == OP_BFLOAT16 ? 2e-2 : dtype == OP_FLOAT16 ? 2e-3 : dtype == OP_DOUBLE ? 1e-12 : 1e-5;
}

/* Result 0 is written over input 0, as a plan may have it. */
static void run_in_place(application *app, const char *kernel) {
    app->outputs[0].data = app->inputs[0].data;
    app->outputs[0].bytes = app->inputs[0].bytes;
    application_run(app, kernel, 2);
}

/* ---- RotaryEmbedding ----------------------------------------------------------------------------------- */

static void begin_rotary(application *app, op_dtype dtype, bool flat, bool interleaved, bool positions,
                         int64_t size, int64_t turned, uint64_t *seed) {
    const int64_t pairs = turned ? turned / 2 : size / 2;
    application_init(app, OP_ROTARY_EMBEDDING);
    if (flat) application_random(app, dtype, 3, DIMS(2, 3, 4 * size), seed);
    else application_random(app, dtype, 4, DIMS(2, 4, 3, size), seed);
    for (int i = 0; i < 2; i++) {
        if (positions) application_random(app, dtype, 2, DIMS(7, pairs), seed);
        else application_random(app, dtype, 3, DIMS(2, 3, pairs), seed);
    }
    if (positions) {
        int64_t *ids = application_input(app, OP_INT64, 2, DIMS(2, 3));
        for (int64_t i = 0; i < 6; i++) ids[i] = (5 * i) % 7;
    }
    if (flat) application_integer(app, "num_heads", 4);
    if (interleaved) application_integer(app, "interleaved", 1);
    if (turned) application_integer(app, "rotary_embedding_dim", turned);
    assert_int_equal(application_infer(app), BASE_OK);
}

static void test_rotary(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16, OP_BFLOAT16, OP_DOUBLE};
    for (uint64_t round = 0; round < 128; round++) {
        const op_dtype dtype = dtypes[round % 4];
        const bool flat = round & 4, interleaved = round & 8, positions = round & 16;
        /* Long heads are turned some pairs at a time. */
        const int64_t size = round & 64 ? 300 : 10;
        const int64_t turned = round & 32 ? size - 4 : 0, pairs = turned ? turned / 2 : size / 2;
        uint64_t seed = round + 1, again = round + 1;
        application apart, over;
        begin_rotary(&apart, dtype, flat, interleaved, positions, size, turned, &seed);
        begin_rotary(&over, dtype, flat, interleaved, positions, size, turned, &again);
        application_run(&apart, "portable.rotary_embedding", 1);
        run_in_place(&over, "portable.rotary_embedding");
        assert_memory_equal(apart.outputs[0].data, over.inputs[0].data, over.inputs[0].bytes);
        for (int64_t b = 0; b < 2; b++) {
            for (int64_t h = 0; h < 4; h++) {
                for (int64_t s = 0; s < 3; s++) {
                    const int64_t at = flat ? ((b * 3 + s) * 4 + h) * size : ((b * 4 + h) * 3 + s) * size;
                    const int64_t angle =
                        (positions ? ((const int64_t *)apart.inputs[3].data)[b * 3 + s] : b * 3 + s) * pairs;
                    for (int64_t e = 0; e < size; e++) {
                        const double x = application_element(&apart.inputs[0], at + e);
                        double want = x;
                        if (e < 2 * pairs) {
                            const int64_t pair = interleaved ? e / 2 : e % pairs;
                            const bool second = interleaved ? e % 2 : e >= pairs;
                            const int64_t other = interleaved ? e ^ 1 : second ? e - pairs : e + pairs;
                            const double mate = application_element(&apart.inputs[0], at + other);
                            const double c = application_element(&apart.inputs[1], angle + pair),
                                         sine = application_element(&apart.inputs[2], angle + pair);
                            want = second ? sine * mate + c * x : c * x - sine * mate;
                        }
                        application_check_near(application_element(&apart.outputs[0], at + e), want,
                                               tolerance_of(dtype), round, e);
                    }
                }
            }
        }
        application_free(&apart);
        application_free(&over);
    }
}

static void test_rotary_refused(void **state) {
    (void)state;
    application app;
    application_init(&app, OP_ROTARY_EMBEDDING);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 1, 1, 4));
    application_input(&app, OP_FLOAT, 3, DIMS(1, 1, 3));
    application_input(&app, OP_FLOAT, 3, DIMS(1, 1, 3));
    application_expect_failure(&app, "pairs 3");
    application_init(&app, OP_ROTARY_EMBEDDING);
    application_input(&app, OP_FLOAT, 4, DIMS(1, 1, 1, 5));
    application_input(&app, OP_FLOAT, 3, DIMS(1, 1, 2));
    application_input(&app, OP_FLOAT, 3, DIMS(1, 1, 2));
    application_expect_failure(&app, "expected an even number");
}

/* ---- RMSNormalization ---------------------------------------------------------------------------------- */

static void test_rms(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT16, OP_BFLOAT16, OP_DOUBLE};
    for (uint64_t round = 0; round < 24; round++) {
        const op_dtype dtype = dtypes[round % 4];
        const int64_t rows = 5, first = round % 3 ? 3 : 1,
                      last = round % 2        ? 100
                             : round % 7 == 0 ? 2500
                                              : 37;
        uint64_t seed = round + 11, again = round + 11;
        application apart, over;
        for (int i = 0; i < 2; i++) {
            application *app = i ? &over : &apart;
            application_init(app, OP_RMS_NORMALIZATION);
            application_random(app, dtype, 3, DIMS(rows, first, last), i ? &again : &seed);
            if (round >= 8) application_random(app, dtype, 2, DIMS(first, last), i ? &again : &seed);
            application_integer(app, "axis", -2);
            application_real(app, "epsilon", 0.25f);
            assert_int_equal(application_infer(app), BASE_OK);
        }
        application_run(&apart, "portable.rms_normalization", 1);
        for (int64_t r = 0; r < rows; r++) {
            double sum = 0;
            for (int64_t e = 0; e < first * last; e++) {
                const double x = application_element(&apart.inputs[0], r * first * last + e);
                sum += x * x;
            }
            for (int64_t e = 0; e < first * last; e++) {
                double want = application_element(&apart.inputs[0], r * first * last + e) /
                              sqrt(sum / (double)(first * last) + 0.25);
                if (round >= 8) want *= application_element(&apart.inputs[1], e);
                application_check_near(application_element(&apart.outputs[0], r * first * last + e), want,
                                       tolerance_of(dtype), round, e);
            }
        }
        run_in_place(&over, "portable.rms_normalization");
        assert_memory_equal(apart.outputs[0].data, over.inputs[0].data, over.inputs[0].bytes);
        application_free(&apart);
        application_free(&over);
    }
}

/* ---- LayerNormalization ---------------------------------------------------------------------------------- */

/* Of 16 bits: as in float, rounded once; rows that become floats part by part, too. */
static void test_layer_of_halves(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT16, OP_BFLOAT16};
    for (uint64_t round = 0; round < 32; round++) {
        const int64_t rows = 5, first = round % 3 ? 3 : 1,
                      last = round % 4 == 0 ? 3100
                             : round % 2    ? 100
                                            : 37;
        uint64_t seed = round + 3;
        application app;
        application_init(&app, OP_LAYER_NORMALIZATION);
        application_random(&app, dtypes[round % 2], 3, DIMS(rows, first, last), &seed);
        if (round >= 8) application_random(&app, dtypes[round % 2], 2, DIMS(first, last), &seed);
        else if (round >= 4) application_absent(&app);
        if (round >= 16 || (round >= 4 && round < 8))
            application_random(&app, dtypes[round % 2], 2, DIMS(first, last), &seed);
        application_integer(&app, "axis", -2);
        application_integer(&app, "ouro.divide", round / 2 % 2);
        application_real(&app, "epsilon", 0.25f);
        const op_tensor want = application_floats(&app, "portable.layer_normalization");
        application_run(&app, "portable.layer_normalization", 1 + (int)(round % 3));
        for (int64_t i = 0; i < rows * first * last; i++)
            application_check_near(application_element(&app.outputs[0], i), application_element(&want, i),
                                   dtypes[round % 2] == OP_FLOAT16 ? 0x1p-11 : 0x1p-8, round, i);
        application_free(&app);
    }
}

/* Rows that are computed together have the bits of those computed alone, over their operand too. */
static void test_layer_together(void **state) {
    (void)state;
    enum { ROWS = 19 };
    for (uint64_t extent = 1; extent < 530; extent += extent < 70 ? 1 : 51) {
        const int64_t length = (int64_t)extent;
        uint64_t seed = extent, again = extent;
        application apart, over;
        for (int i = 0; i < 2; i++) {
            application *app = i ? &over : &apart;
            application_init(app, OP_LAYER_NORMALIZATION);
            application_random(app, OP_FLOAT, 2, DIMS(ROWS, length), i ? &again : &seed);
            if (extent % 3) application_random(app, OP_FLOAT, 1, DIMS(length), i ? &again : &seed);
            else application_absent(app);
            if (extent % 2) application_random(app, OP_FLOAT, 1, DIMS(length), i ? &again : &seed);
            application_integer(app, "ouro.divide", extent % 5 == 0);
            assert_int_equal(application_infer(app), BASE_OK);
        }
        application_run(&apart, "portable.layer_normalization", 1);
        run_in_place(&over, "portable.layer_normalization");
        assert_memory_equal(apart.outputs[0].data, over.inputs[0].data, over.inputs[0].bytes);
        application_free(&over);
        for (int64_t r = 0; r < ROWS; r++) {
            application alone;
            again = extent;
            application_init(&alone, OP_LAYER_NORMALIZATION);
            float *row = application_input(&alone, OP_FLOAT, 2, DIMS(1, length));
            memcpy(row, (const float *)apart.inputs[0].data + r * length, extent * sizeof *row);
            for (uint32_t i = 1; i < apart.call.input_count; i++) {
                if (apart.inputs[i].type.dtype == OP_NONE) {
                    application_absent(&alone);
                    continue;
                }
                float *parameters = application_input(&alone, OP_FLOAT, 1, DIMS(length));
                memcpy(parameters, apart.inputs[i].data, extent * sizeof *parameters);
            }
            application_integer(&alone, "ouro.divide", extent % 5 == 0);
            assert_int_equal(application_infer(&alone), BASE_OK);
            application_run(&alone, "portable.layer_normalization", 1);
            assert_memory_equal(alone.outputs[0].data, (const float *)apart.outputs[0].data + r * length,
                                extent * sizeof *row);
            application_free(&alone);
        }
        application_free(&apart);
    }
}

static void test_layer_of_channels_refused(void **state) {
    (void)state;
    for (int missing = 0; missing < 2; missing++) {
        application app;
        application_init(&app, OP_LAYER_NORMALIZATION);
        application_input(&app, OP_FLOAT, 3, DIMS(2, 3, 5));
        application_input(&app, OP_FLOAT, 2, DIMS(3, 1));
        if (!missing) application_input(&app, OP_FLOAT, 2, DIMS(5, 1));
        application_integer(&app, "ouro.channels", 1);
        application_expect_failure(&app, missing ? "a scale, a bias and an axis"
                                                 : "expected one number for each index of axis 1");
    }
}

/* ---- TensorScatter ------------------------------------------------------------------------------------- */

static void test_scatter(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_INT8, OP_DOUBLE, OP_FLOAT8E5M2, OP_INT4};
    for (int round = 0; round < 20; round++) {
        const op_dtype dtype = dtypes[round % 5];
        const bool circular = round >= 10, in_place = round % 2;
        application app;
        application_init(&app, OP_TENSOR_SCATTER);
        application_input(&app, dtype, 4, DIMS(2, 3, 5, 3));
        application_input(&app, dtype, 4, DIMS(2, 3, 2, 3));
        int64_t *starts = application_input(&app, OP_INT64, 1, DIMS(2));
        starts[0] = 1;
        starts[1] = circular ? 9 : 3;
        if (circular) application_text(&app, "mode", "circular");
        const bool packed = op_dtype_is_packed(dtype);
        memset(app.inputs[1].data, packed ? 0x33 : 0x3c, app.inputs[1].bytes);
        const op_tensor update = app.inputs[1];
        assert_int_equal(application_infer(&app), BASE_OK);
        if (in_place) run_in_place(&app, "portable.tensor_scatter");
        else application_run(&app, "portable.tensor_scatter", 1);
        for (int64_t i = 0; i < 2 * 3 * 5 * 3; i++) {
            const int64_t row = i / 3 % 5, start = starts[i / 45] % 5;
            const bool written = row == start || row == (start + 1) % 5;
            const unsigned char *bytes = app.outputs[0].data;
            const size_t size = op_dtype_bytes(dtype);
            if (packed)
                assert_int_equal(op_small_load(dtype, bytes, i),
                                 written ? op_small_load(dtype, update.data, 0) : 0);
            else assert_int_equal(bytes[(size_t)i * size], written ? 0x3c : 0);
        }
        application_free(&app);
    }
}

/* ---- LinearAttention ----------------------------------------------------------------------------------- */

static void check_linear(int rule, op_dtype dtype, uint64_t seed) {
    static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};
    enum { B = 2, T = 3, G = 2, SHARED = 2, D = 5, V = 7 };
    const bool gated = rule % 2, delta = rule >= 2, past = seed % 2;
    application app;
    application_init(&app, OP_LINEAR_ATTENTION);
    application_random(&app, dtype, 3, DIMS(B, T, G * SHARED * D), &seed);
    application_random(&app, dtype, 3, DIMS(B, T, G * D), &seed);
    application_random(&app, dtype, 3, DIMS(B, T, G * V), &seed);
    if (past) application_random(&app, OP_FLOAT, 4, DIMS(B, G, D, V), &seed);
    else application_absent(&app);
    if (gated) application_random(&app, dtype, 3, DIMS(B, T, G * D), &seed);
    else application_absent(&app);
    if (delta) application_random(&app, dtype, 3, DIMS(B, T, G), &seed);
    application_text(&app, "update_rule", rules[rule]);
    application_integer(&app, "q_num_heads", G * SHARED);
    application_integer(&app, "kv_num_heads", G);
    app.call.output_count = 2;
    if (application_infer(&app) != BASE_OK) fail_msg("%s", app.report.text);
    application_run(&app, "portable.linear_attention", 2);
    for (int64_t b = 0; b < B; b++) {
        for (int64_t g = 0; g < G; g++) {
            double matrix[D][V] = {{0}};
            for (int i = 0; past && i < D * V; i++)
                matrix[i / V][i % V] = application_element(&app.inputs[3], (b * G + g) * D * V + i);
            for (int64_t t = 0; t < T; t++) {
                const int64_t row = b * T + t;
                double value[V];
                for (int j = 0; j < V; j++)
                    value[j] = application_element(&app.inputs[2], (row * G + g) * V + j);
                for (int i = 0; gated && i < D; i++) {
                    for (int j = 0; j < V; j++)
                        matrix[i][j] *= exp(application_element(&app.inputs[4], (row * G + g) * D + i));
                }
                for (int j = 0; delta && j < V; j++) {
                    double read = 0;
                    for (int i = 0; i < D; i++)
                        read += matrix[i][j] * application_element(&app.inputs[1], (row * G + g) * D + i);
                    value[j] = application_element(&app.inputs[5], row * G + g) * (value[j] - read);
                }
                for (int i = 0; i < D; i++) {
                    for (int j = 0; j < V; j++)
                        matrix[i][j] += application_element(&app.inputs[1], (row * G + g) * D + i) * value[j];
                }
                for (int64_t s = 0; s < SHARED; s++) {
                    const int64_t head = row * G * SHARED + g * SHARED + s;
                    for (int j = 0; j < V; j++) {
                        double want = 0;
                        for (int i = 0; i < D; i++)
                            want += matrix[i][j] * application_element(&app.inputs[0], head * D + i);
                        application_check_near(application_element(&app.outputs[0], head * V + j),
                                               want / sqrt(D), 3 * tolerance_of(dtype), seed, j);
                    }
                }
            }
        }
    }
    application_free(&app);
}

/* The new state may be written over the old one: nothing changes, with the vectors of any machine or of this one. */
static void check_linear_in_place(int64_t steps, int64_t depth, int64_t width, op_dtype dtype,
                                  bool portable) {
    uint64_t seed = 9;
    enum { HEADS = 3 };
    application app;
    application_init(&app, OP_LINEAR_ATTENTION);
    for (int i = 0; i < 2; i++) application_random(&app, dtype, 3, DIMS(1, steps, HEADS * depth), &seed);
    application_random(&app, dtype, 3, DIMS(1, steps, HEADS * width), &seed);
    application_random(&app, dtype, 4, DIMS(1, HEADS, depth, width), &seed);
    application_random(&app, dtype, 3, DIMS(1, steps, HEADS), &seed);
    application_random(&app, dtype, 3, DIMS(1, steps, HEADS), &seed);
    application_text(&app, "update_rule", "gated_delta");
    application_integer(&app, "q_num_heads", HEADS);
    application_integer(&app, "kv_num_heads", HEADS);
    app.call.output_count = 2;
    assert_int_equal(application_infer(&app), BASE_OK);
    const rt_environment environment = {.threads = 2, .portable_only = portable};
    assert_int_equal(
        test_states_in_place(rt_kernel_find("portable.linear_attention"), &app.call, &environment), 1);
    application_free(&app);
}

static void test_linear_in_place(void **state) {
    (void)state;
    static const int64_t steps[] = {1, 3, 70}, widths[] = {64, 7};
    for (int s = 0; s < 3; s++) {
        for (int w = 0; w < 2; w++) {
            for (int form = 0; form < 4; form++)
                check_linear_in_place(steps[s], 16, widths[w], form % 2 ? OP_FLOAT16 : OP_FLOAT, form / 2);
        }
    }
}

static void test_linear(void **state) {
    (void)state;
    for (int rule = 0; rule < 4; rule++) {
        for (uint64_t seed = 1; seed <= 4; seed++)
            check_linear(rule, seed <= 2 ? OP_FLOAT : OP_FLOAT16, seed);
    }
}

/* ---- MatMulNBits --------------------------------------------------------------------------------------- */

enum { ZEROS_NONE, ZEROS_PACKED, ZEROS_REAL };

static int code_of(const uint8_t *bytes, int64_t index, int bits) {
    const int64_t each = 8 / bits;
    return bytes[index / each] >> (int)(index % each) * bits & ((1 << bits) - 1);
}

static void fill_bytes(uint8_t *bytes, int64_t count, uint64_t *seed) {
    for (int64_t i = 0; i < count; i++) bytes[i] = (uint8_t)random_next(seed);
}

static void check_bits(int bits, int64_t block, int64_t rows, int zeros, bool grouped, uint64_t seed) {
    const int64_t first = (int64_t)seed, k = random_range(&seed, 1, 300), n = random_range(&seed, 1, 70),
                  blocks = (k + block - 1) / block, packed = (blocks * bits + 7) / 8;
    const op_dtype dtype = first % 5 == 4 ? OP_FLOAT16 : OP_FLOAT;
    application app;
    application_init(&app, OP_MATMUL_BITS);
    application_random(&app, dtype, 2, DIMS(rows, k), &seed);
    uint8_t *weights = application_input(&app, OP_UINT8, 3, DIMS(n, blocks, block * bits / 8)),
            *points = NULL;
    fill_bytes(weights, n * blocks * block * bits / 8, &seed);
    application_random(&app, dtype, 1, DIMS(n * blocks), &seed);
    if (zeros == ZEROS_PACKED) {
        points = application_input(&app, OP_UINT8, 1, DIMS(n * packed));
        fill_bytes(points, n * packed, &seed);
    } else if (zeros == ZEROS_REAL) {
        application_random(&app, dtype, 1, DIMS(n * blocks), &seed);
    } else {
        application_absent(&app);
    }
    int32_t *groups = grouped ? application_input(&app, OP_INT32, 1, DIMS(k)) : NULL;
    if (!grouped) application_absent(&app);
    for (int64_t i = 0; grouped && i < k; i++) groups[i] = (int32_t)random_range(&seed, 0, blocks - 1);
    application_random(&app, dtype, 1, DIMS(n), &seed);
    application_integer(&app, "K", k);
    application_integer(&app, "N", n);
    application_integer(&app, "bits", bits);
    application_integer(&app, "block_size", block);
    assert_int_equal(application_infer(&app), BASE_OK);
    application_run(&app, "portable.matmul_bits", 1 + (int)(seed % 2));
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < n; c++) {
            double sum = application_element(&app.inputs[5], c), sizes = fabs(sum);
            for (int64_t i = 0; i < k; i++) {
                const int64_t b = grouped ? groups[i] : i / block;
                const double zero = zeros == ZEROS_PACKED ? code_of(points + c * packed, b, bits)
                                    : zeros == ZEROS_REAL
                                        ? application_element(&app.inputs[3], c * blocks + b)
                                        : 1 << (bits - 1);
                const double factor = application_element(&app.inputs[0], r * k + i) *
                                      application_element(&app.inputs[2], c * blocks + b);
                const int code = code_of(weights + c * blocks * block * bits / 8, i, bits);
                sum += factor * (code - zero);
                sizes += fabs(factor) * (code + fabs(zero));
            }
            /* Codes and zeros may be summed apart, and cancel: the error is small beside what was added, then the result is rounded. */
            const double error = 1e-6 * sizes + (dtype == OP_FLOAT16 ? fabs(sum) / 2048 : 0);
            application_check_near(application_element(&app.outputs[0], r * n + c), sum,
                                   error / (1 + fabs(sum)), (uint64_t)first, r * n + c);
        }
    }
    application_free(&app);
}

static void test_bits(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 3, 8, 9, 20, 70};
    uint64_t seed = 1;
    for (int bits = 2; bits <= 8; bits *= 2)
        for (int64_t block = 16; block <= 256; block *= 2)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++, seed++)
                check_bits(bits, block, rows[r], (int)(seed % 3), seed % 7 == 0, seed);
}

/* Many blocks, numbers of all sizes, rows that hold what is no number: the error is small beside the sum of sizes. */
static void check_sizes(int64_t k, int64_t block, int64_t rows, bool zeros, uint64_t seed) {
    const int64_t n = 5, blocks = (k + block - 1) / block, packed = (blocks + 1) / 2;
    application app;
    application_init(&app, OP_MATMUL_BITS);
    float *x = application_input(&app, OP_FLOAT, 2, DIMS(rows, k));
    for (int64_t i = 0; i < rows * k; i++)
        x[i] = ldexpf((float)random_range(&seed, -1000, 1000),
                      (int)random_range(&seed, -120, 40) / (int)(1 + i / k));
    if (rows > 1) x[k + k / 2] = INFINITY;
    if (rows > 2) x[3 * k - 1] = NAN;
    uint8_t *weights = application_input(&app, OP_UINT8, 3, DIMS(n, blocks, block / 2)), *points = NULL;
    fill_bytes(weights, n * blocks * block / 2, &seed);
    float *scales = application_input(&app, OP_FLOAT, 1, DIMS(n * blocks));
    for (int64_t i = 0; i < n * blocks; i++) scales[i] = (float)random_range(&seed, 1, 100) / 64;
    if (zeros) {
        points = application_input(&app, OP_UINT8, 1, DIMS(n * packed));
        fill_bytes(points, n * packed, &seed);
    } else {
        application_absent(&app);
    }
    application_integer(&app, "K", k);
    application_integer(&app, "N", n);
    application_integer(&app, "bits", 4);
    application_integer(&app, "block_size", block);
    assert_int_equal(application_infer(&app), BASE_OK);
    application_run(&app, "portable.matmul_bits", 1);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < n; c++) {
            double sum = 0, sizes = 0;
            for (int64_t i = 0; i < k; i++) {
                const int64_t b = i / block;
                const double zero = zeros ? code_of(points + c * packed, b, 4) : 8,
                             factor = (double)scales[c * blocks + b] * x[r * k + i];
                sum += factor * (code_of(weights + c * blocks * block / 2, i, 4) - zero);
                sizes += fabs(factor) * 15;
            }
            const double found = application_element(&app.outputs[0], r * n + c);
            if (isfinite(sizes)) assert_true(fabs(found - sum) <= 1e-6 * sizes);
            else assert_false(isfinite(found));
        }
    }
    application_free(&app);
}

static void test_bits_sizes(void **state) {
    (void)state;
    check_sizes(20000, 16, 1, false, 1);
    check_sizes(20001, 16, 3, true, 2);
    check_sizes(1000, 32, 4, false, 3);
    check_sizes(777, 128, 8, true, 4);
}

static void test_bits_refused(void **state) {
    (void)state;
    application app;
    for (int wrong = 0; wrong < 2; wrong++) {
        application_init(&app, OP_MATMUL_BITS);
        application_input(&app, OP_FLOAT, 2, DIMS(1, 32));
        application_input(&app, OP_UINT8, 3, DIMS(4, 2, 8));
        application_input(&app, OP_FLOAT, 1, DIMS(8));
        application_absent(&app);
        int32_t *groups = application_input(&app, OP_INT32, 1, DIMS(wrong ? 31 : 32));
        groups[7] = 2;
        application_integer(&app, "K", 32);
        application_integer(&app, "N", 4);
        application_integer(&app, "block_size", 16);
        if (wrong) {
            application_expect_failure(&app, "input 4 has 31 elements, expected 32");
            continue;
        }
        assert_int_equal(application_infer(&app), BASE_OK);
        op_tensor y = app.outputs[0];
        rt_prepared prepared = {0};
        const rt_environment environment = {.threads = 1};
        assert_int_equal(rt_kernel_prepare(rt_kernel_find("portable.matmul_bits"), &app.call, &environment,
                                           &app.arena, &prepared, &app.report),
                         BASE_OK);
        y.bytes = 16;
        y.data = application_memory(&app, y.bytes);
        void *scratch = application_memory(&app, prepared.scratch_bytes);
        assert_int_equal(prepared.run(&prepared, app.inputs, &y, scratch, &app.report), BASE_INVALID);
        assert_non_null(strstr(app.report.text, "input 4 (g_idx) has 2 at 7, expected 0 to 1"));
        rt_kernel_release(&prepared);
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rotary),
                                       cmocka_unit_test(test_rotary_refused),
                                       cmocka_unit_test(test_rms),
                                       cmocka_unit_test(test_layer_of_halves),
                                       cmocka_unit_test(test_scatter),
                                       cmocka_unit_test(test_linear),
                                       cmocka_unit_test(test_linear_in_place),
                                       cmocka_unit_test(test_bits),
                                       cmocka_unit_test(test_bits_sizes),
                                       cmocka_unit_test(test_bits_refused),
                                       cmocka_unit_test(test_layer_together),
                                       cmocka_unit_test(test_layer_of_channels_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

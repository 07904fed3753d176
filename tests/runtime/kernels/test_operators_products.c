/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_products.c: shape functions and portable kernels of matrix products, against plain references
 * that share nothing with them.
 */
#include "runtime/kernels/base/x86.h"
#include "tests/support/application.h"
#include "tests/support/operators.h"
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

/* The element of a tensor that broadcasts to the shape, at flat index `index` of the shape. */
static double broadcast_element(const op_tensor *tensor, const int64_t *dims, int32_t rank, int64_t index) {
    int64_t offset = 0, stride = 1;
    const op_shape *own = &tensor->type.shape;
    for (int32_t i = rank - 1, k = own->rank - 1; k >= 0; i--, k--) {
        if (own->dims[k] != 1) offset += index % dims[i] * stride;
        stride *= own->dims[k];
        index /= dims[i];
    }
    return application_element(tensor, offset);
}

static void test_matmul(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT,   OP_FLOAT, OP_FLOAT, OP_FLOAT,  OP_DOUBLE,
                                      OP_FLOAT16, OP_INT32, OP_INT64, OP_UINT32, OP_UINT64};
    for (uint64_t round = 1; round <= 150; round++) {
        uint64_t seed = round * 104729;
        const op_dtype dtype = dtypes[round % 10];
        const int64_t rows = random_range(&seed, 1, round % 3 ? 3 : 40),
                      depth = random_range(&seed, 1, 70) * 5;
        const int64_t columns = random_range(&seed, 1, 150);
        const bool row = round % 11 == 0, column = round % 13 == 0;
        int64_t a[OP_MAX_RANK], b[OP_MAX_RANK], y[OP_MAX_RANK];
        int32_t ranks[2] = {0, 0}, rank = row || column ? 0 : (int32_t)random_range(&seed, 0, 2);
        /* Stacks that broadcast: a dimension may be 1 on either side, or missing in front. */
        const bool shared = round % 4 == 0;
        for (int32_t i = 0; i < rank; i++) {
            y[i] = random_range(&seed, 1, 3);
            a[ranks[0]++] = !shared && random_range(&seed, 0, 3) == 0 ? 1 : y[i];
            if (!shared && (i > 0 || round % 2)) b[ranks[1]++] = random_range(&seed, 0, 3) == 0 ? 1 : y[i];
            else if (a[i] == 1) y[i] = 1;
            if (ranks[1] == i + 1 && a[i] == 1 && b[i] == 1) y[i] = 1;
        }
        const int32_t batch_a = ranks[0], batch_b = ranks[1];
        if (!row) a[ranks[0]++] = rows;
        a[ranks[0]++] = depth;
        b[ranks[1]++] = depth;
        if (!column) b[ranks[1]++] = columns;
        application app;
        application_init(&app, OP_MATMUL);
        application_random(&app, dtype, ranks[0], a, &seed);
        application_random(&app, dtype, ranks[1], b, &seed);
        if (application_infer(&app) != BASE_OK) fail_msg("seed %d: %s", (int)round, app.report.text);
        const op_shape shape = app.outputs[0].type.shape;
        const bool bias = dtype != OP_FLOAT16 && round % 3 == 0 && shape.rank > 0;
        if (bias) {
            int64_t dims[OP_MAX_RANK];
            const int32_t from = (int32_t)random_range(&seed, 0, shape.rank);
            for (int32_t i = from; i < shape.rank; i++) {
                dims[i - from] = random_range(&seed, 0, 2) ? shape.dims[i] : 1;
            }
            application_random(&app, dtype, shape.rank - from, dims, &seed);
        }
        const bool relu = round % 10 < 5 && round % 2;
        if (relu) application_text(&app, "ouro.activation", "Relu");
        application_run(&app, "portable.matmul", 1 + (int)(round % 2));
        int64_t count;
        assert_true(op_shape_elements(&shape, &count));
        for (int64_t i = 0; i < count; i++) {
            const int64_t m = row ? 1 : rows, n = column ? 1 : columns;
            const int64_t in_row = i / n % m, in_column = i % n;
            int64_t outer = i / n / m, from_a = 0, from_b = 0, stride_a = 1, stride_b = 1;
            for (int32_t d = rank - 1; d >= 0; d--) {
                const int32_t at_a = d - (rank - batch_a), at_b = d - (rank - batch_b);
                if (at_a >= 0 && a[at_a] != 1) from_a += outer % shape.dims[d] * stride_a;
                if (at_b >= 0 && b[at_b] != 1) from_b += outer % shape.dims[d] * stride_b;
                if (at_a >= 0) stride_a *= a[at_a];
                if (at_b >= 0) stride_b *= b[at_b];
                outer /= shape.dims[d];
            }
            double want = 0;
            for (int64_t k = 0; k < depth; k++) {
                want += application_element(&app.inputs[0], (from_a * m + in_row) * depth + k) *
                        application_element(&app.inputs[1], (from_b * depth + k) * n + in_column);
            }
            if (bias) want += broadcast_element(&app.inputs[2], shape.dims, shape.rank, i);
            if (relu) want = fmax(want, 0);
            if (dtype == OP_UINT32) want = fmod(want, 4294967296.0);
            application_check_near(application_element(&app.outputs[0], i), want,
                                   application_tolerance(dtype) * 10, round, i);
        }
        application_free(&app);
    }
}

/* Sums are added from the front to the back, one after the other, whatever the instruction set and the number
 * of threads: the same bits as this loop. */
static void test_products_order(void **state) {
    (void)state;
    for (int64_t rows = 4; rows <= 23; rows++) {
        for (int threads = 1; threads <= 3; threads++) {
            uint64_t seed = (uint64_t)rows;
            const int64_t depth = 300, columns = 150 + rows;
            application app;
            application_init(&app, OP_MATMUL);
            const float *a = application_random(&app, OP_FLOAT, 2, DIMS(rows, depth), &seed);
            const float *b = application_random(&app, OP_FLOAT, 2, DIMS(depth, columns), &seed);
            application_run(&app, "portable.matmul", threads);
            const float *y = app.outputs[0].data;
            for (int64_t i = 0; i < rows * columns; i++) {
                float sum = 0;
                for (int64_t k = 0; k < depth; k++)
                    sum += a[i / columns * depth + k] * b[k * columns + i % columns];
                if (memcmp(&sum, &y[i], sizeof sum) != 0) fail_msg("rows %d, element %d", (int)rows, (int)i);
            }
            application_free(&app);
        }
    }
}

/* On a machine that it was compiled for, a product may be added with one rounding: the same bits for every number of threads, and those of
 * this loop where the machine has an instruction for it. Doubles of one or two rows are read where they lie, and rounded twice. */
#define CHECK_FUSED(type, FUSED_ADD)                                                                         \
    do {                                                                                                     \
        const type *a = app.inputs[0].data, *b = app.inputs[1].data, *y = app.outputs[0].data;               \
        for (int64_t i = 0; i < rows * columns; i++) {                                                       \
            type sum = 0;                                                                                    \
            for (int64_t k = 0; k < depth; k++) {                                                            \
                const type left = a[i / columns * depth + k], right = b[k * columns + i % columns];          \
                sum = fused && rows > 2 ? FUSED_ADD(left, right, sum) : sum + left * right;                  \
            }                                                                                                \
            if (memcmp(&sum, &y[i], sizeof sum) != 0)                                                        \
                fail_msg("rows %d, element %d, %d threads", (int)rows, (int)i, threads);                     \
        }                                                                                                    \
    } while (0)

static void check_fused(op_dtype dtype, int64_t rows, bool fused) {
    uint64_t seed = (uint64_t)rows;
    const int64_t depth = 300 + rows % 4, columns = 150 + rows;
    application app;
    application_init(&app, OP_MATMUL);
    application_random(&app, dtype, 2, DIMS(rows, depth), &seed);
    application_random(&app, dtype, 2, DIMS(depth, columns), &seed);
    const rt_kernel *kernel = rt_kernel_find("portable.matmul");
    application_run(&app, kernel->name, 1);
    for (int threads = 1; threads <= 3; threads++) {
        const rt_environment environment = {.threads = threads};
        rt_prepared prepared;
        assert_int_equal(
            rt_kernel_prepare(kernel, &app.call, &environment, &app.arena, &prepared, &app.report), BASE_OK);
        void *scratch = application_memory(&app, prepared.scratch_bytes);
        memset(app.outputs[0].data, 0xff, app.outputs[0].bytes);
        assert_int_equal(prepared.run(&prepared, app.inputs, app.outputs, scratch, &app.report), BASE_OK);
        rt_kernel_release(&prepared);
        if (dtype == OP_DOUBLE) CHECK_FUSED(double, fma);
        else CHECK_FUSED(float, fmaf);
    }
    application_free(&app);
}

static void test_products_fused(void **state) {
    (void)state;
#if RT_X86_KERNELS
    const bool fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    const bool fused = false;
#endif
    for (int64_t rows = 4; rows <= 23; rows++) check_fused(OP_FLOAT, rows, fused);
    for (int64_t rows = 1; rows <= 25; rows++) check_fused(OP_DOUBLE, rows, fused);
}

/* Operands whose axes are read in another order: as if a Transpose stood before. */
static void test_matmul_orders(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 200; round++) {
        static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT, OP_FLOAT16, OP_BFLOAT16};
        const op_dtype dtype = dtypes[round / 2 % 4];
        const size_t size = op_dtype_bytes(dtype);
        uint64_t seed = round * 7907;
        const int32_t rank = (int32_t)random_range(&seed, 2, 4);
        const int64_t rows = random_range(&seed, 1, round % 2 ? 3 : 20), depth = random_range(&seed, 1, 40);
        const int64_t columns = random_range(&seed, 1, 40);
        application turned, plain;
        application_init(&turned, OP_MATMUL);
        application_init(&plain, OP_MATMUL);
        int64_t stack[2] = {random_range(&seed, 1, 3), random_range(&seed, 1, 3)};
        for (int operand = 0; operand < 2; operand++) {
            int64_t seen[4], own[4], order[4], strides[4], elements = 1;
            for (int32_t i = 0; i < rank; i++) seen[i] = i < rank - 2 ? stack[i] : 0;
            seen[rank - 2] = operand ? depth : rows;
            seen[rank - 1] = operand ? columns : depth;
            for (int32_t i = 0; i < rank; i++) order[i] = i;
            for (int32_t i = rank - 1; i > 0; i--) {
                const int64_t k = random_range(&seed, 0, i), kept = order[i];
                order[i] = order[k];
                order[k] = kept;
            }
            for (int32_t i = 0; i < rank; i++) own[order[i]] = seen[i];
            const char *x = application_random(&turned, dtype, rank, own, &seed);
            char *z = application_input(&plain, dtype, rank, seen);
            for (int32_t i = rank - 1; i >= 0; i--) {
                strides[i] = elements;
                elements *= own[i];
            }
            for (int64_t e = 0; e < elements; e++) {
                int64_t rest = e, from = 0;
                for (int32_t i = rank - 1; i >= 0; i--) {
                    from += rest % seen[i] * strides[order[i]];
                    rest /= seen[i];
                }
                memcpy(z + (size_t)e * size, x + (size_t)from * size, size);
            }
            application_integers(&turned, operand ? "ouro.right" : "ouro.left", (size_t)rank, order);
        }
        const int threads = 1 + (int)(round % 3);
        application_run(&turned, "portable.matmul", threads);
        application_run(&plain, "portable.matmul", threads);
        assert_true(op_shape_equal(&turned.outputs[0].type.shape, &plain.outputs[0].type.shape));
        for (size_t i = 0; i < turned.outputs[0].bytes / size; i++) {
            application_check_near(application_element(&turned.outputs[0], (int64_t)i),
                                   application_element(&plain.outputs[0], (int64_t)i),
                                   dtype == OP_BFLOAT16  ? 0x1p-7
                                   : dtype == OP_FLOAT16 ? 0x1p-10
                                                         : 1e-4,
                                   round, (int64_t)i);
        }
        application_free(&turned);
        application_free(&plain);
    }
    /* What is no order is refused. */
    static const int64_t wrong[][3] = {{0, 0, 1}, {0, 1, 3}, {-1, 0, 1}};
    for (size_t i = 0; i < 4; i++) {
        uint64_t seed = 3;
        application app;
        application_init(&app, OP_MATMUL);
        application_random(&app, OP_FLOAT, 3, DIMS(2, 2, 2), &seed);
        application_random(&app, OP_FLOAT, 3, DIMS(2, 2, 2), &seed);
        application_integers(&app, i % 2 ? "ouro.right" : "ouro.left", i < 3 ? 3 : 2, wrong[i % 3]);
        assert_int_equal(application_infer(&app), BASE_INVALID);
        application_free(&app);
    }
}

/* A few rows times matrices that lie interleaved, position by position, as the heads of a cache do: keys, then values. The sums
 * are those of each matrix by itself, in double, and the same bits on any number of threads. */
static void test_interleaved_stack(void **state) {
    (void)state;
    static const int64_t keys[] = {1, 2, 0}, values[] = {1, 0, 2};
    for (uint64_t round = 0; round < 24; round++) {
        const bool across = round % 2;
        /* Many heads are taken some at a time, and their cache is larger than the processor's. */
        const int64_t heads = round < 18 ? 3 : 33 + (int64_t)round, rows = 1 + (int64_t)round % 3,
                      positions = 500 + 7 * (int64_t)round, size = 37;
        const int64_t depth = across ? positions : size, columns = across ? size : positions;
        float *first = NULL;
        application app[3];
        for (int threads = 1; threads <= 3; threads++) {
            uint64_t seed = round + 1;
            application *own = &app[threads - 1];
            application_init(own, OP_MATMUL);
            const float *a = application_random(own, OP_FLOAT, 3, DIMS(heads, rows, depth), &seed);
            const float *b = application_random(own, OP_FLOAT, 3, DIMS(positions, heads, size), &seed);
            application_integers(own, "ouro.right", 3, across ? values : keys);
            application_run(own, "portable.matmul", threads);
            float *y = own->outputs[0].data;
            if (!first) first = y;
            assert_memory_equal(y, first, (size_t)(heads * rows * columns) * sizeof *y);
            for (int64_t i = 0; threads == 1 && i < heads * rows * columns; i++) {
                const int64_t head = i / columns / rows, column = i % columns;
                double sum = 0;
                for (int64_t k = 0; k < depth; k++) {
                    const int64_t position = across ? k : column, at = across ? column : k;
                    sum +=
                        (double)a[i / columns * depth + k] * (double)b[(position * heads + head) * size + at];
                }
                application_check_near((double)y[i], sum, 1e-3, round, i);
            }
        }
        for (int i = 0; i < 3; i++) application_free(&app[i]);
    }
}

static void test_gemm(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT, OP_FLOAT, OP_DOUBLE, OP_INT32, OP_BFLOAT16};
    for (uint64_t round = 1; round <= 120; round++) {
        uint64_t seed = round * 65537;
        const op_dtype dtype = dtypes[round % 5];
        const bool whole = dtype == OP_INT32, turn_a = round % 2, turn_b = round % 4 < 2;
        const int64_t m = random_range(&seed, 1, round % 3 ? 5 : 50), k = random_range(&seed, 1, 400);
        const int64_t n = random_range(&seed, 1, 200), form = random_range(&seed, 0, 5);
        const float alpha = whole ? 2 : random_float(&seed), beta = whole ? 3 : random_float(&seed);
        application app;
        application_gemm(&app, dtype, m, k, n, turn_a, turn_b, form, &seed);
        application_real(&app, "alpha", alpha);
        application_real(&app, "beta", beta);
        application_run(&app, "portable.gemm", 1 + (int)(round % 2));
        for (int64_t i = 0; i < m * n; i++) {
            double sum = 0;
            for (int64_t d = 0; d < k; d++) {
                sum += application_element(&app.inputs[0], turn_a ? d * m + i / n : i / n * k + d) *
                       application_element(&app.inputs[1], turn_b ? i % n * k + d : d * n + i % n);
            }
            sum *= (double)alpha;
            if (form) sum += (double)beta * broadcast_element(&app.inputs[2], DIMS(m, n), 2, i);
            application_check_near(application_element(&app.outputs[0], i), sum,
                                   application_tolerance(dtype) * 10, round, i);
        }
        application_free(&app);
    }
}

/* A matrix, or a stack of them, times one column, as it lies and turned round; the same bits for every number of
 * threads. */
/* A dot product in the order of product.h: sixteen sums, whose halves are added until one is left. */
static float dot_in_order(const float *a, const float *b, int64_t depth) {
    float sums[16] = {0};
    for (int64_t k = 0; k < depth; k++) {
        const float product = a[k] * b[k];
        sums[k % 16] += product;
    }
    for (int half = 8; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) sums[l] += sums[l + half];
    }
    return sums[0];
}

/* However many rows, products of a stack or threads share the work, the bits of each are the same. */
static void test_short_rows(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 200; round++) {
        uint64_t seed = round * 6271;
        const int64_t rows = random_range(&seed, round % 3 ? 4 : 1, round % 3 ? 70 : 3),
                      depth = round % 4 ? 16 : random_range(&seed, 3, 50),
                      stack = round % 6 ? random_range(&seed, 1, 3) : random_range(&seed, 30, 1000);
        application app;
        application_init(&app, OP_MATMUL);
        float *left = application_random(&app, OP_FLOAT, 3, DIMS(stack, rows, depth), &seed);
        float *right = application_random(&app, OP_FLOAT, 3, DIMS(stack, depth, 1), &seed);
        /* Products that are all -0 become 0. */
        for (int64_t i = 0; i < stack * rows * depth && round % 5 == 0; i++) left[i] = -0.0f;
        for (int64_t i = 0; i < stack * depth && round % 5 == 0; i++) right[i] = fabsf(right[i]);
        application_run(&app, "portable.matmul", 1 + (int)(round / 6 % 5));
        const float *a = app.inputs[0].data, *b = app.inputs[1].data, *y = app.outputs[0].data;
        for (int64_t i = 0; i < stack * rows; i++) {
            const float expected = dot_in_order(a + i * depth, b + i / rows * depth, depth);
            if (memcmp(&expected, &y[i], sizeof expected) != 0)
                fail_msg("round %d, row %d of %d x %d x %d: %a, expected %a", (int)round, (int)i, (int)stack,
                         (int)rows, (int)depth, (double)y[i], (double)expected);
        }
        application_free(&app);
    }
}

static void test_one_column(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 120; round++) {
        uint64_t seed = round * 7919;
        const bool gemm = round % 2, turned = gemm && round % 4 == 1;
        const int64_t rows = random_range(&seed, 1, round % 5 ? 40 : 400),
                      depth = random_range(&seed, 1, round % 3 ? 40 : 600);
        const int64_t stack = gemm ? 1 : random_range(&seed, 1, 3), form = random_range(&seed, 0, 3);
        const float alpha = gemm ? 0.75f : 1, beta = gemm ? -1.5f : 1;
        float first[1200];
        for (int threads = 1; threads <= 3; threads++) {
            uint64_t same = seed;
            application app;
            application_init(&app, gemm ? OP_GEMM : OP_MATMUL);
            if (gemm)
                application_random(&app, OP_FLOAT, 2, turned ? DIMS(depth, rows) : DIMS(rows, depth), &same);
            else application_random(&app, OP_FLOAT, 3, DIMS(stack, rows, depth), &same);
            application_random(&app, OP_FLOAT, 2, DIMS(depth, 1), &same);
            if (form == 1) application_random(&app, OP_FLOAT, 1, DIMS(1), &same);
            if (form == 2) application_random(&app, OP_FLOAT, 2, DIMS(rows, 1), &same);
            if (gemm) application_integer(&app, "transA", turned);
            if (gemm) application_real(&app, "alpha", alpha);
            if (gemm) application_real(&app, "beta", beta);
            if (round % 7 == 0) application_text(&app, "ouro.activation", "Relu");
            application_run(&app, gemm ? "portable.gemm" : "portable.matmul", threads);
            for (int64_t i = 0; i < stack * rows; i++) {
                double sum = 0;
                for (int64_t k = 0; k < depth; k++) {
                    sum += application_element(&app.inputs[0], turned ? k * rows + i : i * depth + k) *
                           application_element(&app.inputs[1], k);
                }
                sum *= (double)alpha;
                if (form == 1 || form == 2)
                    sum += (double)beta * application_element(&app.inputs[2], form == 1 ? 0 : i % rows);
                if (round % 7 == 0) sum = fmax(sum, 0);
                application_check_near(application_element(&app.outputs[0], i), sum, 1e-4, round, i);
            }
            const size_t bytes = (size_t)(stack * rows) * sizeof *first;
            if (threads == 1) memcpy(first, app.outputs[0].data, bytes);
            else assert_memory_equal(first, app.outputs[0].data, bytes);
            application_free(&app);
        }
    }
}

static void test_matrix_shapes(void **state) {
    (void)state;
    application app;
    application_init(&app, OP_MATMUL);
    application_input(&app, OP_FLOAT, 3, DIMS(-1, 5, 4));
    application_input(&app, OP_FLOAT, 2, DIMS(4, -2));
    application_expect_shape(&app, 3, DIMS(-1, 5, -2));

    application_init(&app, OP_MATMUL);
    application_input(&app, OP_FLOAT, 1, DIMS(4));
    application_input(&app, OP_FLOAT, 1, DIMS(4));
    application_expect_shape(&app, 0, NULL);

    application_init(&app, OP_MATMUL);
    application_input(&app, OP_FLOAT, 2, DIMS(3, 4));
    application_input(&app, OP_FLOAT, 2, DIMS(5, 6));
    application_expect_failure(&app, "input 1 has 5 rows, expected 4, the columns of input 0");

    application_init(&app, OP_MATMUL);
    application_input(&app, OP_FLOAT, 3, DIMS(2, 3, 4));
    application_input(&app, OP_FLOAT, 3, DIMS(3, 4, 6));
    application_expect_failure(&app, "the stacks of matrices [2] and [3] do not fit");

    application_init(&app, OP_GEMM);
    application_input(&app, OP_FLOAT, 2, DIMS(-1, 4));
    application_input(&app, OP_FLOAT, 2, DIMS(7, 4));
    application_integer(&app, "transB", 1);
    application_expect_shape(&app, 2, DIMS(-1, 7));

    application_init(&app, OP_GEMM);
    application_input(&app, OP_FLOAT, 2, DIMS(3, 4));
    application_input(&app, OP_FLOAT, 2, DIMS(4, 7));
    application_input(&app, OP_FLOAT, 1, DIMS(3));
    application_expect_failure(&app, "input 2 has shape [3], expected one that broadcasts to [3,7]");
}

/* What a factor makes of an integer is limited to what the type holds; sums wrap around. */
static void test_factors_of_integers(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_INT32, OP_INT64};
    for (int type = 0; type < 2; type++) {
        for (int factor = 0; factor < 2; factor++) {
            application app;
            application_init(&app, OP_GEMM);
            void *a = application_input(&app, dtypes[type], 2, DIMS(2, 1));
            void *b = application_input(&app, dtypes[type], 2, DIMS(1, 1));
            void *c = application_input(&app, dtypes[type], 2, DIMS(2, 1));
            const int64_t rows[] = {7, -7};
            for (int i = 0; i < 2; i++) {
                if (type) ((int64_t *)a)[i] = ((int64_t *)c)[i] = rows[i];
                else ((int32_t *)a)[i] = ((int32_t *)c)[i] = (int32_t)rows[i];
            }
            if (type) *(int64_t *)b = 1;
            else *(int32_t *)b = 1;
            application_real(&app, factor ? "beta" : "alpha", 1e30f);
            application_run(&app, "portable.gemm", 1);
            const void *y = app.outputs[0].data;
            if (type) {
                assert_true(((const int64_t *)y)[0] == INT64_MIN + 6); /* the largest, and 7 */
                assert_true(((const int64_t *)y)[1] == INT64_MAX - 6); /* the least, and -7 */
            } else {
                assert_int_equal(((const int32_t *)y)[0], INT32_MIN + 6);
                assert_int_equal(((const int32_t *)y)[1], INT32_MAX - 6);
            }
            application_free(&app);
        }
    }
}

/* More rows, columns and depth than a block has, in the types that go block by block: some of the elements. */
static void test_blocks(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_FLOAT16, OP_BFLOAT16, OP_DOUBLE};
    enum { ROWS = 271, DEPTH = 301, COLUMNS = 141 };
    for (int form = 0; form < 12; form++) {
        uint64_t seed = (uint64_t)form + 1;
        const op_dtype dtype = dtypes[form % 3];
        const bool turn_a = form / 3 % 2, turn_b = form / 6;
        application app;
        application_gemm(&app, dtype, ROWS, DEPTH, COLUMNS, turn_a, turn_b, 1 + form % 5, &seed);
        application_real(&app, "beta", 0);
        application_run(&app, "portable.gemm", 1 + form % 2);
        for (int64_t row = 0; row < ROWS; row += 30) {
            for (int64_t column = form % 7; column < COLUMNS; column += 7) {
                double sum = 0;
                for (int64_t k = 0; k < DEPTH; k++)
                    sum += application_element(&app.inputs[0], turn_a ? k * ROWS + row : row * DEPTH + k) *
                           application_element(&app.inputs[1],
                                               turn_b ? column * DEPTH + k : k * COLUMNS + column);
                application_check_near(application_element(&app.outputs[0], row * COLUMNS + column), sum,
                                       application_tolerance(dtype), seed, row * COLUMNS + column);
            }
        }
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks),
                                       cmocka_unit_test(test_matmul),
                                       cmocka_unit_test(test_products_order),
                                       cmocka_unit_test(test_products_fused),
                                       cmocka_unit_test(test_matmul_orders),
                                       cmocka_unit_test(test_interleaved_stack),
                                       cmocka_unit_test(test_gemm),
                                       cmocka_unit_test(test_one_column),
                                       cmocka_unit_test(test_factors_of_integers),
                                       cmocka_unit_test(test_short_rows),
                                       cmocka_unit_test(test_matrix_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

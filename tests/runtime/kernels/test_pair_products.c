/* SPDX-License-Identifier: Apache-2.0 */
/* test_pair_products.c: products of bfloat16, bit by bit on machines with an instruction for pairs, else within their rounding: rows,
 * columns and depths of every kind, transpositions, stacks, what is added, threads; NaN, infinities and the least numbers. And products of
 * float16 and bfloat16 with weights in panels, and convolutions of bfloat16.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/half_tiles.h"
#include "runtime/kernels/portable/pair_tiles.h"
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include "tests/support/support.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static float element(const uint16_t *data, int64_t index) {
    return base_float_from_bfloat16(data[index]);
}

/* The sum over the depth as pair_tiles.h has it. */
static float sum_of_pairs(float sum, const uint16_t *a, int64_t a_depth, const uint16_t *b, int64_t b_depth,
                          int64_t depth) {
    for (int64_t k = 0; k < depth; k += 2) {
        if (k + 1 < depth) sum = fmaf(element(a, (k + 1) * a_depth), element(b, (k + 1) * b_depth), sum);
        sum = fmaf(element(a, k * a_depth), element(b, k * b_depth), sum);
    }
    return sum;
}

/* The same in 32 interleaved sums, two to a lane, whose halves are added until one is left. */
static float sum_of_dots(const uint16_t *a, const uint16_t *b, int64_t depth) {
    float sums[16] = {0};
    for (int64_t k = 0; k < depth; k += 2) {
        float *sum = &sums[k / 2 % 16];
        *sum = sum_of_pairs(*sum, a + k, 1, b + k, 1, depth - k < 2 ? 1 : 2);
    }
    for (int half = 8; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) sums[l] += sums[l + half];
    }
    return sums[0];
}

static void random_halves(uint16_t *to, int64_t count, uint64_t *seed) {
    for (int64_t i = 0; i < count; i++) to[i] = base_bfloat16_from_float(random_float(seed));
}

/* Panels of matrices of any strides, and nothing beyond them is written. */
static void test_panels(void **state) {
    (void)state;
    enum { MOST = 70 };
    static uint16_t b[MOST * 3 * MOST * 3], panels[5 * (MOST + 2) * RT_PANEL + 64];
    for (uint64_t round = 1; round <= support_share(400); round++) {
        uint64_t seed = round;
        const int64_t depth = random_range(&seed, 1, MOST), columns = random_range(&seed, 1, MOST),
                      apart = random_range(&seed, 1, 3), form = random_range(&seed, 0, 2);
        const int64_t b_column = form == 0   ? 1
                                 : form == 1 ? depth + apart
                                             : 2,
                      b_depth = form == 0   ? columns + apart
                                : form == 1 ? 1
                                            : 2 * columns + 1;
        random_halves(b, MOST * 3 * MOST * 3, &seed);
        memset(panels, 0x5a, sizeof panels);
        rt_pairs_pack(b, b_depth, b_column, depth, columns, panels);
        const int64_t pairs = rt_pairs_of(depth),
                      count = (columns + RT_PANEL - 1) / RT_PANEL * pairs * RT_PAIR_ELEMENTS;
        for (int64_t i = 0; i < count; i++) {
            const int64_t column = i / (pairs * RT_PAIR_ELEMENTS) * RT_PANEL + i % RT_PAIR_ELEMENTS / 2,
                          k = i / RT_PAIR_ELEMENTS % pairs * 2 + i % 2;
            const uint16_t want = column < columns && k < depth ? b[k * b_depth + column * b_column] : 0;
            if (panels[i] != want) fail_msg("round %" PRIu64 ": element %" PRId64, round, i);
        }
        for (int64_t i = count; i < count + 64; i++) assert_int_equal(panels[i], 0x5a5a);
    }
}

/* Every size of a tile, sums that go on, rows that lie apart and rows in panels. */
static void test_tiles(void **state) {
    (void)state;
    if (!rt_pairs_here()) skip();
    enum { ROWS = 40, PAIRS = 9, COLUMNS = 150 };
    static uint16_t a[(ROWS + 16) * PAIRS * 2 + 16], b[2 * PAIRS * COLUMNS],
        panels[COLUMNS * 2 * PAIRS + RT_PANEL * 2 * PAIRS];
    static float c[ROWS * (COLUMNS + 5)];
    for (int64_t rows = 1; rows <= ROWS; rows++) {
        for (int64_t columns = 1; columns <= COLUMNS; columns += columns < 40 ? 1 : 13) {
            uint64_t seed = (uint64_t)(rows * 1000 + columns);
            const int64_t pairs = 1 + (rows + columns) % PAIRS, depth = 2 * pairs;
            const bool add = (rows + columns) % 2, turned = (rows + columns) % 3 == 0 && rows <= RT_PAIR_ROWS;
            random_halves(a, rows * depth, &seed);
            random_halves(b, depth * columns, &seed);
            rt_pairs_pack(b, columns, 1, depth, columns, panels);
            rt_pair_tiles tiles = {.rows = rows,
                                   .columns = columns,
                                   .pairs = pairs,
                                   .a = a,
                                   .a_row = depth,
                                   .a_pair = 2,
                                   .panels = panels,
                                   .c = c,
                                   .c_row = COLUMNS + 5,
                                   .add = add};
            static uint16_t left[RT_PAIR_ROWS * 2 * PAIRS];
            if (turned) {
                rt_pairs_pack(a, 1, depth, depth, rows, left);
                tiles.a = left;
                tiles.a_row = 2;
                tiles.a_pair = RT_PAIR_ELEMENTS;
            }
            for (int64_t i = 0; i < ROWS * (COLUMNS + 5); i++) c[i] = 0.5f;
            rt_pair_tiles_run(&tiles);
            for (int64_t i = 0; i < ROWS * (COLUMNS + 5); i++) {
                const int64_t row = i / (COLUMNS + 5), column = i % (COLUMNS + 5);
                const float want =
                    row < rows && column < columns
                        ? sum_of_pairs(add ? 0.5f : 0, a + row * depth, 1, b + column, columns, depth)
                        : 0.5f;
                if (memcmp(&c[i], &want, sizeof want) != 0)
                    fail_msg("%d x %d: row %d, column %d", (int)rows, (int)columns, (int)row, (int)column);
            }
        }
    }
}

static float half_element(op_dtype dtype, const uint16_t *data, int64_t index) {
    return dtype == OP_BFLOAT16 ? base_float_from_bfloat16(data[index]) : base_float_from_half(data[index]);
}

/* One after the other, each product and its addition rounded once. */
static float sum_in_order(op_dtype dtype, float sum, const float *a, int64_t a_depth, const uint16_t *b,
                          int64_t b_depth, int64_t depth) {
    for (int64_t k = 0; k < depth; k++) sum = fmaf(a[k * a_depth], half_element(dtype, b, k * b_depth), sum);
    return sum;
}

/* The tiles that make floats in registers, of both types. */
static void test_half_tiles(void **state) {
    (void)state;
    if (!rt_half_tiles_here()) skip();
    enum { ROWS = 30, DEPTH = 19, COLUMNS = 100 };
    static float a[ROWS * DEPTH], c[ROWS * (COLUMNS + 3)];
    static uint16_t b[DEPTH * COLUMNS], panels[(COLUMNS + RT_PANEL) * (DEPTH + 1)];
    for (int64_t rows = 1; rows <= ROWS; rows++) {
        for (int64_t columns = 1; columns <= COLUMNS; columns += columns < 40 ? 1 : 13) {
            uint64_t seed = (uint64_t)(rows * 1000 + columns);
            const int64_t depth = 1 + (rows * 7 + columns) % DEPTH;
            const bool add = (rows + columns) % 2, turned = columns % 3 == 0;
            const op_dtype dtype = (rows + columns) % 5 < 2 ? OP_BFLOAT16 : OP_FLOAT16;
            for (int64_t i = 0; i < rows * depth; i++) a[i] = random_float(&seed);
            for (int64_t i = 0; i < depth * columns; i++)
                b[i] = dtype == OP_BFLOAT16 ? base_bfloat16_from_float(random_float(&seed))
                                            : base_half_from_float(random_float(&seed));
            rt_pairs_pack(b, columns, 1, depth, columns, panels);
            for (int64_t i = 0; i < ROWS * (COLUMNS + 3); i++) c[i] = 0.5f;
            rt_half_tiles_run(&(rt_half_tiles){.dtype = dtype,
                                               .rows = rows,
                                               .columns = columns,
                                               .depth = depth,
                                               .a = a,
                                               .a_row = turned ? 1 : depth,
                                               .a_depth = turned ? rows : 1,
                                               .panels = panels,
                                               .panel_step = rt_pairs_of(depth) * RT_PAIR_ELEMENTS,
                                               .c = c,
                                               .c_row = COLUMNS + 3,
                                               .add = add});
            for (int64_t i = 0; i < ROWS * (COLUMNS + 3); i++) {
                const int64_t row = i / (COLUMNS + 3), column = i % (COLUMNS + 3);
                const float want = row < rows && column < columns
                                       ? sum_in_order(dtype, add ? 0.5f : 0, a + (turned ? row : row * depth),
                                                      turned ? rows : 1, b + column, columns, depth)
                                       : 0.5f;
                if (memcmp(&c[i], &want, sizeof want) != 0)
                    fail_msg("%d x %d: row %d, column %d", (int)rows, (int)columns, (int)row, (int)column);
            }
        }
    }
}

static const rt_kernel *packed_kernel(void) {
    return rt_kernel_of(OP_MATMUL, "portable.packed_halves");
}

static op_tensor run_packed(application *app, const op_call *call, int threads) {
    const rt_environment environment = {.threads = threads};
    op_tensor output = call->outputs[0];
    rt_prepared prepared;
    assert_true(op_type_bytes(&output.type, &output.bytes));
    output.data = application_memory(app, output.bytes);
    memset(output.data, 0x7f, output.bytes);
    assert_int_equal(
        rt_kernel_prepare(packed_kernel(), call, &environment, &app->arena, &prepared, &app->report),
        BASE_OK);
    assert_int_equal(prepared.scratch_bytes, 0);
    rt_threads_warm(threads);
    const size_t before = allocations_count();
    assert_int_equal(prepared.run(&prepared, call->inputs, &output, NULL, &app->report), BASE_OK);
    assert_int_equal(allocations_count(), before);
    rt_kernel_release(&prepared);
    return output;
}

/* Weights in panels: what the matrix as it lies gives, on any number of threads; and with another number of rows than was prepared for. */
static void test_packed(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= support_share(200); round++) {
        uint64_t seed = round * 7001;
        const op_dtype dtype = round % 2 ? OP_BFLOAT16 : OP_FLOAT16;
        const int64_t rows = random_range(&seed, 1, round % 3 ? 14 : 140),
                      depth = round % 8 == 0   ? random_range(&seed, 1, 2) * 2048
                              : round % 8 == 4 ? random_range(&seed, 500, 1200)
                                               : random_range(&seed, 2, 90),
                      columns = random_range(&seed, 16, round % 5 ? 100 : 700),
                      form = random_range(&seed, 0, 2) * random_range(&seed, 0, 1);
        const bool turned = round % 4 < 2;
        application app;
        application_gemm(&app, dtype, rows, depth, columns, false, turned, form, &seed);
        if (round % 3 == 0) application_real(&app, "alpha", 0.75f);
        if (round % 3 == 1) application_real(&app, "beta", -1.5f);
        if (round % 7 == 0) application_text(&app, "ouro.activation", round % 2 ? "Relu" : "Sigmoid");
        assert_int_equal(application_infer(&app), BASE_OK);
        op_call call = app.call;
        op_tensor inputs[APPLICATION_INPUTS];
        memcpy(inputs, app.inputs, sizeof inputs);
        call.inputs = inputs;
        const size_t bytes = (size_t)((columns + 15) / 16 * 16 * rt_pairs_of(depth) * 2) * sizeof(uint16_t);
        const rt_environment environment = {.threads = 1};
        rt_preference preference;
#if RT_X86_KERNELS
        const bool wanted = __builtin_cpu_supports("avx512f") &&
                            4 * ((columns + 15) / 16 * 16 - columns) <= columns &&
                            rows * depth * columns >= 4096;
#else
        const bool wanted = false;
#endif
        assert_int_equal(packed_kernel()->prefer(&call, &environment, &preference), wanted);
        if (wanted) assert_int_equal(preference.packed_bytes[1], bytes);
        assert_false(packed_kernel()->prefer(&call, &(rt_environment){.threads = 1, .portable_only = true},
                                             &preference));
        inputs[1].type.layout = OP_LAYOUT_PACKED;
        inputs[1].type.packed_bytes = bytes;
        inputs[1].data = application_memory(&app, bytes);
        assert_int_equal(
            packed_kernel()->pack(&call, &environment, 1, &app.inputs[1], inputs[1].data, &app.report),
            BASE_OK);
        assert_true(packed_kernel()->accepts(&call, &environment));
        const op_tensor got = run_packed(&app, &call, 1),
                        other = run_packed(&app, &call, 2 + (int)(round % 2));
        assert_memory_equal(got.data, other.data, got.bytes);
        const uint16_t *x = app.inputs[0].data, *w = app.inputs[1].data,
                       *c = form ? app.inputs[2].data : NULL;
        const float alpha = op_attribute_real(&app.call.attributes, "alpha", 1),
                    beta = op_attribute_real(&app.call.attributes, "beta", 1);
        for (int64_t i = 0; i < rows * columns; i++) {
            const int64_t row = i / columns, column = i % columns;
            double sum = 0, weight = 0;
            for (int64_t k = 0; k < depth; k++) {
                const double product =
                    (double)half_element(dtype, x, row * depth + k) *
                    (double)half_element(dtype, w, turned ? column * depth + k : k * columns + column);
                sum += product;
                weight += fabs(product);
            }
            sum *= (double)alpha;
            if (c) sum += (double)beta * (double)half_element(dtype, c, form == 2 ? column : 0);
            if (round % 7 == 0) sum = round % 2 ? fmax(sum, 0) : 1 / (1 + exp(-sum));
            const double value = (double)half_element(dtype, got.data, i);
            if (!(fabs(value - sum) <=
                  ldexp(fabs(sum), dtype == OP_BFLOAT16 ? -8 : -11) + ldexp(weight + 1, -18)))
                fail_msg("round %" PRIu64 ", element %" PRId64 ": %g, expected %g", round, i, value, sum);
        }
        /* A row by itself gives the same bits as among others. */
        op_call few = call;
        op_tensor some[APPLICATION_INPUTS], output = app.outputs[0];
        memcpy(some, inputs, sizeof some);
        some[0].type.shape.dims[0] = output.type.shape.dims[0] = 1;
        some[0].data = app.inputs[0].data;
        output.bytes = (size_t)columns * sizeof(uint16_t);
        few.inputs = some;
        few.outputs = &output;
        assert_memory_equal(run_packed(&app, &few, 1).data, got.data, output.bytes);
        application_free(&app);
    }
}

/* One after the other in the other type, whose products and additions are rounded once where the machine makes floats in registers. */
static float sum_of_halves(float sum, const uint16_t *a, int64_t a_depth, const uint16_t *b, int64_t b_depth,
                           int64_t depth) {
    for (int64_t k = 0; k < depth; k++)
        sum = fmaf(base_float_from_half(a[k * a_depth]), base_float_from_half(b[k * b_depth]), sum);
    return sum;
}

/* What the result must be: `bits`, on machines for which its sum is known to the last bit. */
static void check_result(const application *app, int64_t index, bool bits, float sum, double exact,
                         double weight, uint64_t round) {
    const op_dtype dtype = app->outputs[0].type.dtype;
    const bool brain = dtype == OP_BFLOAT16;
    const uint16_t got = ((const uint16_t *)app->outputs[0].data)[index],
                   want = brain ? base_bfloat16_from_float(sum) : base_half_from_float(sum);
    const double value = (double)half_element(dtype, &got, 0);
    if (bits && (brain ? rt_pairs_here() : rt_half_tiles_here()) && got != want)
        fail_msg("round %" PRIu64 ", element %" PRId64 ": %a, expected %a", round, index, value,
                 (double)half_element(dtype, &want, 0));
    /* One rounding to 8 or 11 bits, and those of the sum in float. */
    const double allowed =
        ldexp(fabs(exact), brain ? -8 : -11) + ldexp(weight, -18) + (brain ? 0x1p-130 : 0x1p-24);
    if (!(fabs(value - exact) <= allowed))
        fail_msg("round %" PRIu64 ", element %" PRId64 ": %g, expected %g", round, index, value, exact);
}

static void test_gemm(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= support_share(400); round++) {
        const op_dtype dtype = round % 8 < 2 || round % 8 == 7 ? OP_FLOAT16 : OP_BFLOAT16;
        const bool brain = dtype == OP_BFLOAT16;
        uint64_t seed = round * 65537;
        const bool turn_a = round % 2, turn_b = round % 4 < 2;
        const int64_t m = random_range(&seed, 1, round % 3 ? 5 : 60),
                      k = random_range(&seed, round % 5 ? 1 : 250, round % 5 ? 60 : 600),
                      n = random_range(&seed, 1, round % 7 ? 50 : 1300), form = random_range(&seed, 0, 5);
        const float alpha = round % 3 ? 1 : random_float(&seed), beta = round % 5 ? 1 : random_float(&seed);
        uint16_t *first = NULL;
        application app[3];
        for (int threads = 1; threads <= 3; threads++) {
            application *own = &app[threads - 1];
            uint64_t same = seed;
            application_gemm(own, dtype, m, k, n, turn_a, turn_b, form, &same);
            application_real(own, "alpha", alpha);
            application_real(own, "beta", beta);
            if (round % 6 == 0) application_text(own, "ouro.activation", "Relu");
            application_run(own, "portable.gemm", threads);
            if (!first) first = own->outputs[0].data;
            assert_memory_equal(own->outputs[0].data, first, own->outputs[0].bytes);
        }
        const uint16_t *a = app->inputs[0].data, *b = app->inputs[1].data,
                       *c = form ? app->inputs[2].data : NULL;
        for (int64_t i = 0; i < m * n; i++) {
            const int64_t row = i / n, column = i % n;
            const uint16_t *left = a + (turn_a ? row : row * k), *right = b + (turn_b ? column * k : column);
            const bool dots = m < 4 && turn_b && k != 1 && (!turn_a || m == 1);
            double exact = 0, weight = 0;
            for (int64_t d = 0; d < k; d++) {
                const double product = (double)half_element(dtype, left, turn_a ? d * m : d) *
                                       (double)half_element(dtype, right, turn_b ? d : d * n);
                exact += product;
                weight += fabs(product);
            }
            float sum = !brain ? sum_of_halves(0, left, turn_a ? m : 1, right, turn_b ? 1 : n, k)
                        : dots ? sum_of_dots(left, right, k)
                               : sum_of_pairs(0, left, turn_a ? m : 1, right, turn_b ? 1 : n, k);
            if (alpha != 1) sum *= alpha;
            exact *= (double)alpha;
            weight *= fabs((double)alpha);
            if (c) {
                const int64_t at = form == 1 ? 0 : form == 2 || form == 5 ? column : form == 3 ? row : i;
                sum += beta * half_element(dtype, c, at);
                exact += (double)beta * (double)half_element(dtype, c, at);
                weight += fabs((double)half_element(dtype, c, at));
            }
            if (round % 6 == 0) {
                sum = sum > 0 ? sum : 0;
                exact = fmax(exact, 0);
            }
            check_result(app, i, brain || !dots, sum, exact, weight, round);
        }
        for (int i = 0; i < 3; i++) application_free(&app[i]);
    }
}

/* Stacks that broadcast, operands whose axes are read in another order, no rows, no columns and no depth. */
static void test_matmul(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= support_share(200); round++) {
        uint64_t seed = round * 7907;
        const int64_t stack = random_range(&seed, 1, 3), own = random_range(&seed, 0, 1) ? stack : 1,
                      m = random_range(&seed, round % 9 == 0 ? 0 : 1, 20),
                      k = random_range(&seed, round % 9 == 1 ? 0 : 1, round % 2 ? 9 : 80),
                      n = random_range(&seed, round % 9 == 2 ? 0 : 1, 70);
        const bool ordered = round % 4 == 0;
        application app;
        application_init(&app, OP_MATMUL);
        application_random(&app, OP_BFLOAT16, 3, ordered ? DIMS(m, stack, k) : DIMS(stack, m, k), &seed);
        application_random(&app, OP_BFLOAT16, 3, ordered ? DIMS(n, own, k) : DIMS(own, k, n), &seed);
        if (ordered) application_integers(&app, "ouro.left", 3, DIMS(1, 0, 2));
        if (ordered) application_integers(&app, "ouro.right", 3, DIMS(1, 2, 0));
        application_run(&app, "portable.matmul", 1 + (int)(round % 3));
        const uint16_t *a = app.inputs[0].data, *b = app.inputs[1].data;
        for (int64_t i = 0; i < stack * m * n; i++) {
            const int64_t batch = i / n / m, row = i / n % m, column = i % n, of = own == 1 ? 0 : batch;
            const uint16_t *left = a + (ordered ? (row * stack + batch) * k : (batch * m + row) * k),
                           *right = b + (ordered ? (column * own + of) * k : of * k * n + column);
            const int64_t b_depth = ordered ? 1 : n;
            double exact = 0, weight = 0;
            for (int64_t d = 0; d < k; d++) {
                const double product = (double)element(left, d) * (double)element(right, d * b_depth);
                exact += product;
                weight += fabs(product);
            }
            /* A stack on one matrix is one tall product, where it is dense. */
            const int64_t rows = own == 1 && !ordered ? stack * m : m;
            const bool dots = rows < 4 && ordered && own * k != 1;
            check_result(&app, i, true,
                         dots ? sum_of_dots(left, right, k) : sum_of_pairs(0, left, 1, right, b_depth, k),
                         exact, weight, round);
        }
        application_free(&app);
    }
}

/* NaN and infinities go where their products go, and nowhere else: also from the last element of an odd depth and from the last column. */
static void test_odd_numbers(void **state) {
    (void)state;
    enum { DEPTH = 37, COLUMNS = 35 };
    for (int64_t rows = 1; rows <= 30; rows += 3) {
        for (int turned = 0; turned < 4; turned++) {
            uint64_t seed = (uint64_t)rows;
            application app;
            application_gemm(&app, OP_BFLOAT16, rows, DEPTH, COLUMNS, turned % 2, turned / 2, 0, &seed);
            uint16_t *a = app.inputs[0].data, *b = app.inputs[1].data;
            const int64_t last = DEPTH - 1, row = rows - 1, column = COLUMNS - 1;
            a[turned % 2 ? last * rows + row : row * DEPTH + last] = 0x7fc0;          /* NaN */
            b[turned / 2 ? column * DEPTH + last : last * COLUMNS + column] = 0xff80; /* -infinity */
            application_run(&app, "portable.gemm", 1);
            for (int64_t i = 0; i < rows * COLUMNS; i++) {
                const double got = application_element(&app.outputs[0], i);
                if (i / COLUMNS == row) assert_true(isnan(got));
                else if (i % COLUMNS == column) assert_true(isinf(got) || isnan(got));
                else assert_true(isfinite(got));
            }
            application_free(&app);
        }
    }
}

/* The least normal numbers are numbers; those below are, or are zero, by the machine; the sum of no rows of the depth is zero. */
static void test_least_numbers(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 5; rows += 4) {
        application app;
        application_init(&app, OP_MATMUL);
        uint16_t *a = application_input(&app, OP_BFLOAT16, 2, DIMS(rows, 3)),
                 *b = application_input(&app, OP_BFLOAT16, 2, DIMS(3, 2));
        for (int64_t i = 0; i < rows * 3; i++) a[i] = 0x3f80; /* 1 */
        b[0] = 0x0080;                                        /* 2^-126 */
        b[1] = 0x0001;                                        /* 2^-133 */
        application_run(&app, "portable.matmul", 1);
        for (int64_t i = 0; i < rows; i++) {
            const uint16_t *y = app.outputs[0].data;
            assert_int_equal(y[2 * i], 0x0080);
            assert_int_equal(y[2 * i + 1], rt_pairs_here() ? 0 : 0x0001);
        }
        application_free(&app);
    }
}

/* The convolution in three spatial dimensions that an application is. */
typedef struct convolution {
    int64_t images, group, channels, filters, input[3], output[3], kernel[3], stride[3], dilation[3],
        before[3];
} convolution;

/* What position `at` sees of window element k of the depth, 0 for padding. */
static uint16_t seen(const convolution *c, const uint16_t *x, int64_t k, int64_t at) {
    const int64_t taps = c->kernel[0] * c->kernel[1] * c->kernel[2], tap = k % taps;
    const int64_t taps_of[3] = {tap / c->kernel[2] / c->kernel[1], tap / c->kernel[2] % c->kernel[1],
                                tap % c->kernel[2]},
                  places[3] = {at / c->output[2] / c->output[1], at / c->output[2] % c->output[1],
                               at % c->output[2]};
    int64_t index = k / taps;
    for (int i = 0; i < 3; i++) {
        const int64_t place = places[i] * c->stride[i] - c->before[i] + taps_of[i] * c->dilation[i];
        if (place < 0 || place >= c->input[i]) return 0;
        index = index * c->input[i] + place;
    }
    return x[index];
}

static void draw_convolution(convolution *c, uint64_t round, uint64_t *seed) {
    const bool deep = round % 6 == 0, points = round % 5 == 0;
    *c = (convolution){.images = random_range(seed, 1, 2),
                       .group = random_range(seed, 1, 2),
                       .channels = random_range(seed, 1, deep ? 70 : 9),
                       .filters = random_range(seed, 4, round % 7 == 0 ? 250 : 30)};
    for (int i = 0; i < 3; i++) {
        const bool there = i > 0 || round % 4 == 0;
        c->kernel[i] = there && !points ? random_range(seed, 1, 4) : 1;
        c->stride[i] = there ? random_range(seed, 1, round % 3 ? 2 : 3) : 1;
        c->dilation[i] = there ? random_range(seed, 1, 2) : 1;
        c->before[i] = there ? random_range(seed, 0, 2) : 0;
        if (c->kernel[i] == 1 && round % 10 == 0) c->stride[i] = 1, c->before[i] = 0; /* nothing to gather */
        const int64_t span = (c->kernel[i] - 1) * c->dilation[i] + 1;
        c->input[i] = there ? span + random_range(seed, 0, i == 2 && round % 2 ? 60 : 8) : 1;
        if (there && c->input[i] < 4) c->input[i] = 4;
        c->output[i] = (c->input[i] + 2 * c->before[i] - span) / c->stride[i] + 1;
    }
}

static void test_convolutions(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= support_share(220); round++) {
        const op_dtype dtype = round % 8 == 2 || round % 8 == 5 ? OP_FLOAT16 : OP_BFLOAT16;
        const bool brain = dtype == OP_BFLOAT16;
        uint64_t seed = round * 50021;
        convolution c;
        draw_convolution(&c, round, &seed);
        const int64_t depth = c.channels * c.kernel[0] * c.kernel[1] * c.kernel[2],
                      positions = c.output[0] * c.output[1] * c.output[2],
                      size = c.input[0] * c.input[1] * c.input[2];
        const bool bias = round % 2, residual = round % 3 == 0;
        uint16_t *first = NULL;
        application app[2];
        for (int t = 0; t < 2; t++) {
            application *own = &app[t];
            uint64_t same = seed;
            application_init(own, OP_CONV);
            application_random(own, dtype, 5,
                               DIMS(c.images, c.group * c.channels, c.input[0], c.input[1], c.input[2]),
                               &same);
            application_random(own, dtype, 5,
                               DIMS(c.group * c.filters, c.channels, c.kernel[0], c.kernel[1], c.kernel[2]),
                               &same);
            if (bias) application_random(own, dtype, 1, DIMS(c.group * c.filters), &same);
            else application_absent(own);
            if (residual)
                application_random(own, dtype, 5,
                                   DIMS(c.images, c.group * c.filters, c.output[0], c.output[1], c.output[2]),
                                   &same);
            application_integer(own, "group", c.group);
            application_integers(own, "strides", 3, c.stride);
            application_integers(own, "dilations", 3, c.dilation);
            application_integers(
                own, "pads", 6,
                DIMS(c.before[0], c.before[1], c.before[2], c.before[0], c.before[1], c.before[2]));
            if (round % 4 == 1) application_text(own, "ouro.activation", "Relu");
            application_run(own, "portable.convolution", t ? 2 + (int)(round % 2) : 1);
            if (!first) first = own->outputs[0].data;
            assert_memory_equal(own->outputs[0].data, first, own->outputs[0].bytes);
        }
        const uint16_t *x = app->inputs[0].data, *w = app->inputs[1].data;
        for (int64_t i = 0; i < c.images * c.group * c.filters * positions; i += i % 3 + 1) {
            const int64_t at = i % positions, map = i / positions % (c.group * c.filters),
                          image = i / positions / (c.group * c.filters);
            const uint16_t *channels = x + (image * c.group + map / c.filters) * c.channels * size,
                           *weights = w + map * depth;
            float sum = residual ? half_element(dtype, app->inputs[3].data, i) : 0;
            double exact = (double)sum, weight = fabs(exact);
            for (int64_t k = 0; k < depth; k += 2) {
                const uint16_t both[2] = {seen(&c, channels, k, at),
                                          k + 1 < depth ? seen(&c, channels, k + 1, at) : 0};
                if (brain) sum = sum_of_pairs(sum, weights + k, 1, both, 1, depth - k < 2 ? 1 : 2);
                else sum = sum_of_halves(sum, weights + k, 1, both, 1, depth - k < 2 ? 1 : 2);
                for (int64_t j = k; j < k + 2 && j < depth; j++) {
                    exact +=
                        (double)half_element(dtype, weights, j) * (double)half_element(dtype, both, j - k);
                    weight += fabs((double)half_element(dtype, weights, j) *
                                   (double)half_element(dtype, both, j - k));
                }
            }
            if (bias) {
                sum += half_element(dtype, app->inputs[2].data, map);
                exact += (double)half_element(dtype, app->inputs[2].data, map);
            }
            if (round % 4 == 1) sum = sum > 0 ? sum : 0, exact = fmax(exact, 0);
            /* Few positions see each filter by itself, long strides are gathered as floats. */
            const bool pairs = c.stride[2] <= 2 && !(positions <= 8 && depth >= 64);
            check_result(app, i, pairs, sum, exact, weight + 1, round);
        }
        application_free(&app[0]);
        application_free(&app[1]);
    }
}

/* The prediction knows them: a convolution of bfloat16 takes less than one of floats where the machine multiplies it, and in portable plans,
 * which do not depend on the machine, as long. */
static void test_prediction(void **state) {
    (void)state;
    rt_cost costs[2][2];
    for (int half = 0; half < 2; half++) {
        uint64_t seed = 1;
        application app;
        const op_dtype dtype = half ? OP_BFLOAT16 : OP_FLOAT;
        application_init(&app, OP_CONV);
        application_random(&app, dtype, 4, DIMS(1, 16, 9, 9), &seed);
        application_random(&app, dtype, 4, DIMS(16, 16, 3, 3), &seed);
        assert_int_equal(application_infer(&app), BASE_OK);
        for (int portable = 0; portable < 2; portable++) {
            const rt_environment environment = {.threads = 1, .portable_only = portable};
            assert_true(rt_kernel_of(OP_CONV, "portable.convolution")
                            ->estimate(&app.call, &environment, 0, &costs[half][portable]));
        }
        application_free(&app);
    }
    assert_true(costs[1][1].seconds == costs[0][1].seconds);
    if (rt_pairs_here()) assert_true(costs[1][0].seconds < costs[0][0].seconds);
    else assert_true(costs[1][0].seconds == costs[0][0].seconds);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_panels),      cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_half_tiles),  cmocka_unit_test(test_packed),
        cmocka_unit_test(test_prediction),  cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_gemm),        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_odd_numbers), cmocka_unit_test(test_least_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

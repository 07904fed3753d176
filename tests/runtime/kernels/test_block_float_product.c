/* SPDX-License-Identifier: Apache-2.0 */
/* test_block_float_product.c: products with weights in block floating point, of random shapes, beside sums in double, and rows of such tables;
 * numbers are as near to weights as their bits allow, zeros stay zeros; rows with numbers that are none, or huge ones; bits that depend neither
 * on threads nor on other rows that are no numbers; what has no place; bytes that nobody packed.
 */
#include "runtime/kernels/portable/block_float.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 300, LEAST_DEPTH = 16, MOST_ROWS = 110 };

static const rt_environment one_thread = {.threads = 1};

static const rt_kernel *kernel(void) {
    return rt_kernel_of(OP_MATMUL, "portable.block_float_product");
}

/* One application, and what its weights become. */
typedef struct product {
    application app;
    rt_code_matrix matrix;
    rt_block_floats packed;
    int64_t rows;
} product;

/* Some columns have weights far from the others, some weights are 0. */
static void draw_weights(float *weights, int64_t count, uint64_t *seed) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t kind = random_range(seed, 0, 63);
        if (kind == 0) weights[i] = 0;
        else if (kind == 1) weights[i] *= 16;
        else if (kind < 8) weights[i] *= 0x1p-10f;
    }
}

static void draw(product *p, uint64_t *seed) {
    static const char *const activations[] = {"", "Relu", "Gelu", "Clip"};
    const bool gemm = random_range(seed, 0, 1), turned = gemm && random_range(seed, 0, 1);
    const int bits = random_range(seed, 0, 1) ? RT_BLOCK_FLOAT_FEWEST : RT_BLOCK_FLOAT_MOST;
    const int64_t depth =
        random_range(seed, 0, 3) ? random_range(seed, LEAST_DEPTH, 300) : random_range(seed, 301, 900);
    const int64_t columns =
        random_range(seed, 0, 3) ? random_range(seed, 16, 150) : random_range(seed, 151, 400);
    const int64_t bias = random_range(seed, 0, 2);
    p->rows = random_range(seed, 0, 3) ? random_range(seed, 1, RT_BLOCK_FLOAT_ROWS)
                                       : random_range(seed, RT_BLOCK_FLOAT_ROWS + 1, MOST_ROWS);
    if (random_range(seed, 0, 31) == 0) p->rows = 0;
    application_init(&p->app, gemm ? OP_GEMM : OP_MATMUL);
    if (gemm || random_range(seed, 0, 1))
        application_random(&p->app, OP_FLOAT, 2, DIMS(p->rows, depth), seed);
    else application_random(&p->app, OP_FLOAT, 3, DIMS(1, p->rows, depth), seed);
    float *weights =
        application_random(&p->app, OP_FLOAT, 2, turned ? DIMS(columns, depth) : DIMS(depth, columns), seed);
    draw_weights(weights, depth * columns, seed);
    if (bias) application_random(&p->app, OP_FLOAT, 1, bias == 1 ? DIMS(columns) : DIMS(1), seed);
    if (gemm) application_integer(&p->app, "transB", turned);
    const char *activation = activations[random_range(seed, 0, 3)];
    if (activation[0]) application_text(&p->app, "ouro.activation", activation);
    application_integer(&p->app, "ouro.weights_bits", bits);
    assert_int_equal(application_infer(&p->app), BASE_OK);
    p->matrix = (rt_code_matrix){.data = weights,
                                 .depth = depth,
                                 .columns = columns,
                                 .depth_step = turned ? 1 : columns,
                                 .column_step = turned ? depth : 1};
    p->packed = (rt_block_floats){.bits = bits, .depth = depth, .columns = columns};
}

/* The call with this input as a kernel packs it. */
static op_call packed_by(const rt_kernel *by, uint32_t input, product *p,
                         op_tensor inputs[APPLICATION_INPUTS]) {
    op_call call = p->app.call;
    op_tensor *packed = &inputs[input];
    size_t bytes;
    assert_true(rt_block_floats_bytes(&p->packed, &bytes));
    memcpy(inputs, p->app.inputs, sizeof p->app.inputs);
    packed->type.layout = OP_LAYOUT_PACKED;
    packed->type.packed_bytes = packed->bytes = bytes;
    packed->data = application_memory(&p->app, bytes);
    memset(packed->data, 0, bytes);
    call.inputs = inputs;
    assert_int_equal(by->pack(&call, &one_thread, input, &p->app.inputs[input], packed->data, &p->app.report),
                     BASE_OK);
    assert_true(by->accepts(&call, &one_thread));
    p->packed.panels = packed->data;
    return call;
}

/* The call of a product with its weights packed. */
static op_call packed_call(product *p, op_tensor inputs[APPLICATION_INPUTS]) {
    return packed_by(kernel(), 1, p, inputs);
}

static const float *run(product *p, const op_call *call, int threads) {
    const rt_environment environment = {.threads = threads};
    op_tensor output = p->app.outputs[0];
    rt_prepared prepared;
    assert_true(op_type_bytes(&output.type, &output.bytes));
    output.data = application_memory(&p->app, output.bytes);
    memset(output.data, 0x7f, output.bytes);
    assert_int_equal(
        rt_kernel_prepare(kernel(), call, &environment, &p->app.arena, &prepared, &p->app.report), BASE_OK);
    application_run_prepared(&p->app, &prepared, call->inputs, &output, threads);
    return output.data;
}

static float weight_at(const rt_code_matrix *of, int64_t k, int64_t column) {
    return of->data[k * of->depth_step + column * of->column_step];
}

/* What the packed weights stand for, [depth][columns filled up to panels]. */
static float *unpacked(product *p) {
    const int64_t panels = (p->packed.columns + RT_PANEL - 1) / RT_PANEL, depth = p->packed.depth;
    float *made = application_memory(&p->app, (size_t)(depth * panels * RT_PANEL) * sizeof *made);
    float block[RT_BLOCK_FLOAT_DEPTH * RT_PANEL];
    for (int64_t panel = 0; panel < panels; panel++) {
        for (int64_t from = 0; from < depth; from += RT_BLOCK_FLOAT_DEPTH) {
            rt_block_floats_decode(&p->packed, panel, from, block);
            for (int64_t k = 0; k < RT_BLOCK_FLOAT_DEPTH && from + k < depth; k++)
                memcpy(made + ((from + k) * panels + panel) * RT_PANEL, block + k * RT_PANEL,
                       RT_PANEL * sizeof *made);
        }
    }
    return made;
}

static void test_numbers_are_near_weights(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        product p;
        op_tensor inputs[APPLICATION_INPUTS];
        rt_block_float_loss loss;
        draw(&p, &seed);
        packed_call(&p, inputs);
        const float *made = unpacked(&p);
        const int64_t wide = (p.packed.columns + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
        double lost = 0, whole = 0, most = 0;
        for (int64_t j = 0; j < wide; j++) {
            double column_lost = 0, sizes = 0;
            for (int64_t from = 0; from < p.packed.depth; from += RT_BLOCK_FLOAT_DEPTH) {
                float furthest = 0;
                for (int64_t k = from; k < p.packed.depth && k < from + RT_BLOCK_FLOAT_DEPTH; k++)
                    if (j < p.packed.columns) furthest = fmaxf(furthest, fabsf(weight_at(&p.matrix, k, j)));
                /* Half of a unit, and the last bit of the scale. */
                const double off = (double)furthest * (ldexp(1.001, -p.packed.bits) + 0x1p-23);
                for (int64_t k = from; k < p.packed.depth && k < from + RT_BLOCK_FLOAT_DEPTH; k++) {
                    const double want = j < p.packed.columns ? (double)weight_at(&p.matrix, k, j) : 0,
                                 got = (double)made[k * wide + j];
                    if (!(fabs(got - want) <= off) || (want == 0 && got != 0))
                        fail_msg("seed %" PRIu64 ": weight %" PRId64 ", %" PRId64 " is %.9g, not %.9g", round,
                                 k, j, got, want);
                    column_lost += (got - want) * (got - want);
                    whole += want * want;
                    sizes += fabs(want);
                }
                sizes -= (double)furthest;
            }
            lost += column_lost;
            if (column_lost > 0) most = fmax(most, sqrt(column_lost * (double)p.packed.depth) / sizes);
        }
        assert_true(rt_block_floats_lose(p.packed.bits, &p.matrix, &loss));
        if (!(fabs(loss.all - sqrt(lost / whole)) <= 1e-3 * loss.all) ||
            !(fabs(loss.column - most) <= 1e-3 * most))
            fail_msg("seed %" PRIu64 ": it says %g and %g", round, loss.all, loss.column);
        application_free(&p.app);
    }
}

/* The activation of a sum, and of how far it may be off. */
static double activated(const product *p, double sum) {
    const op_attributes *of = &p->app.call.attributes;
    if (op_attribute_is(of, "ouro.activation", "Relu", "")) return sum > 0 || isnan(sum) ? sum : 0;
    if (op_attribute_is(of, "ouro.activation", "Gelu", "")) return sum / 2 * (1 + erf(sum / sqrt(2)));
    return sum;
}

/* Of row r, whose numbers are finite, beside sums in double of the weights that were stored. */
static void check_row(product *p, const float *x, const float *made, const float *y, int64_t r,
                      uint64_t round) {
    const int64_t depth = p->packed.depth, columns = p->packed.columns,
                  wide = (columns + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
    const float *bias = p->app.call.input_count > 2 ? p->app.inputs[2].data : NULL;
    const bool one = bias && p->app.inputs[2].bytes == sizeof *bias;
    for (int64_t j = 0; j < columns; j++) {
        double sum = 0, sizes = 0;
        for (int64_t k = 0; k < depth; k++) {
            const double each = (double)x[r * depth + k] * (double)made[k * wide + j];
            sum += each;
            sizes += fabs(each);
        }
        if (bias) sum += (double)bias[one ? 0 : j];
        const double want = activated(p, sum), off = 1e-6 * (sizes + fabs(sum));
        if (!(fabs((double)y[r * columns + j] - want) <= 2 * off))
            fail_msg("seed %" PRIu64 ": row %" PRId64 ", column %" PRId64 ": %.9g, not %.9g", round, r, j,
                     (double)y[r * columns + j], want);
    }
}

static void test_products_are_those_of_the_numbers(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        product p;
        op_tensor inputs[APPLICATION_INPUTS];
        draw(&p, &seed);
        const op_call call = packed_call(&p, inputs);
        const float *made = unpacked(&p), *y = run(&p, &call, 1),
                    *other = run(&p, &call, 2 + (int)(round % 2));
        for (int64_t r = 0; r < p.rows; r++) check_row(&p, inputs[0].data, made, y, r, round);
        if (memcmp(y, other, (size_t)(p.rows * p.packed.columns) * sizeof *y) != 0)
            fail_msg("seed %" PRIu64 ": threads change the result", round);
        application_free(&p.app);
    }
}

/* A row with an infinity, a NaN or huge numbers: it is as good as it would be in float, and the others are as they were. */
static void test_any_number_is_multiplied(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        product p;
        op_tensor inputs[APPLICATION_INPUTS];
        draw(&p, &seed);
        if (p.rows == 0) {
            application_free(&p.app);
            continue;
        }
        const int64_t depth = p.packed.depth, columns = p.packed.columns,
                      row = random_range(&seed, 0, p.rows - 1), at = random_range(&seed, 0, depth - 1);
        const op_call call = packed_call(&p, inputs);
        float *x = inputs[0].data;
        const float *made = unpacked(&p), *before = run(&p, &call, 1);
        const int64_t kind = random_range(&seed, 0, 2);
        for (int64_t k = 0; k < depth && kind == 2; k++) x[row * depth + k] *= 0x1p110f;
        if (kind < 2) x[row * depth + at] = kind ? NAN : INFINITY;
        const float *y = run(&p, &call, 1 + (int)(round % 2));
        for (int64_t r = 0; r < p.rows; r++) {
            const bool other = r != row;
            if (other && memcmp(y + r * columns, before + r * columns, (size_t)columns * sizeof *y) != 0)
                fail_msg("seed %" PRIu64 ": row %" PRId64 " is not as it was", round, r);
            if (!other && kind == 2) check_row(&p, x, made, y, r, round);
        }
        const bool plain = !op_attribute_find(&p.app.call.attributes, "ouro.activation");
        const int64_t wide = (columns + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
        for (int64_t j = 0; j < columns && kind < 2 && plain; j++) {
            const double want = (double)x[row * depth + at] * (double)made[at * wide + j],
                         got = (double)y[row * columns + j];
            if (isnan(want) ? !isnan(got) : got != want)
                fail_msg("seed %" PRIu64 ": column %" PRId64 " is %g, not %g", round, j, got, want);
        }
        application_free(&p.app);
    }
}

/* A short depth, other bits, 16 bits, a plan for any machine. */
static void test_refuses_other_applications(void **state) {
    (void)state;
    const struct {
        int64_t rows, depth, bits;
        op_dtype dtype;
        bool portable, wanted;
    } cases[] = {
        {1, 64, 20, OP_FLOAT, false, true},  {8, 64, 24, OP_FLOAT, false, true},
        {0, 64, 20, OP_FLOAT, false, false}, {1, 15, 20, OP_FLOAT, false, false},
        {1, 64, 22, OP_FLOAT, false, false}, {1, 64, 28, OP_FLOAT, false, false},
        {1, 64, 20, OP_FLOAT, true, false},  {1, 64, 20, OP_FLOAT16, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        uint64_t seed = 9;
        rt_preference wish = {0};
        const rt_environment environment = {.threads = 1, .portable_only = cases[i].portable};
        application_init(&app, OP_MATMUL);
        application_random(&app, OP_FLOAT, 2, DIMS(cases[i].rows, cases[i].depth), &seed);
        application_random(&app, cases[i].dtype, 2, DIMS(cases[i].depth, 128), &seed);
        application_integer(&app, "ouro.weights_bits", cases[i].bits);
        if (cases[i].dtype != OP_FLOAT) application_real(&app, "ouro.weights_error", 0);
        assert_int_equal(application_infer(&app), BASE_OK);
        const bool wanted = kernel()->prefer(&app.call, &environment, &wish);
        if (wanted != (cases[i].wanted && application_machine_is_wide())) fail_msg("case %zu", i);
        if (wanted) assert_int_equal(wish.inputs[1], OP_LAYOUT_PACKED);
        app.inputs[1].type.layout = OP_LAYOUT_PACKED;
        app.inputs[1].type.packed_bytes = (size_t)cases[i].depth * 128 * sizeof(float) + RT_ALIGNMENT;
        assert_false(kernel()->accepts(&app.call, &environment)); /* these are other kernels' */
        application_free(&app);
    }
}

/* Weights that are no numbers, and blocks whose scale has no place in a float. */
static void test_refuses_weights_without_a_scale(void **state) {
    (void)state;
    const float odd[] = {NAN, -INFINITY, 0x1p100f, 0x1p-100f};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        float weights[LEAST_DEPTH * RT_PANEL] = {0};
        const rt_code_matrix matrix = {weights, LEAST_DEPTH, RT_PANEL, RT_PANEL, 1};
        rt_block_float_loss loss;
        assert_true(rt_block_floats_lose(RT_BLOCK_FLOAT_FEWEST, &matrix, &loss));
        assert_true(loss.all == 0 && loss.column == 0);
        weights[5 * RT_PANEL + 3] = odd[i];
        assert_false(rt_block_floats_lose(RT_BLOCK_FLOAT_FEWEST, &matrix, &loss));
    }
}

/* A plan's bytes may be anything: nothing outside of them is read (sanitizers see it). */
static void test_reads_within_any_bytes(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        product p;
        op_tensor inputs[APPLICATION_INPUTS];
        draw(&p, &seed);
        const op_call call = packed_call(&p, inputs);
        unsigned char *bytes = inputs[1].data;
        for (size_t i = 0; i < inputs[1].bytes; i++) bytes[i] = (unsigned char)random_next(&seed);
        unpacked(&p);
        run(&p, &call, 1);
        application_free(&p.app);
    }
}

/* Rows of a table, which are columns of the packed matrix: all bits that these have. Indices may be negative; one that is out of range is told. */
static void test_gathers_columns(void **state) {
    (void)state;
    const rt_kernel *gather = rt_kernel_of(OP_GATHER, "portable.packed_gather");
    for (uint64_t round = 1; round <= ROUNDS / 4; round++) {
        uint64_t seed = round;
        product p = {.packed = {.bits = round % 2 ? RT_BLOCK_FLOAT_FEWEST : RT_BLOCK_FLOAT_MOST}};
        const int64_t rows = random_range(&seed, 1, 90), width = random_range(&seed, 1, 400),
                      count = random_range(&seed, 0, 20);
        op_tensor inputs[APPLICATION_INPUTS];
        application_init(&p.app, OP_GATHER);
        draw_weights(application_random(&p.app, OP_FLOAT, 2, DIMS(rows, width), &seed), rows * width, &seed);
        int64_t *indices = application_input(&p.app, OP_INT64, 1, DIMS(count));
        for (int64_t i = 0; i < count; i++) indices[i] = random_range(&seed, -rows, rows - 1);
        application_integer(&p.app, "ouro.weights_bits", p.packed.bits);
        assert_int_equal(application_infer(&p.app), BASE_OK);
        p.packed.depth = width;
        p.packed.columns = rows;
        const op_call call = packed_by(gather, 0, &p, inputs);
        const float *made = unpacked(&p);
        const int64_t wide = (rows + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
        op_tensor output = p.app.outputs[0];
        rt_prepared prepared;
        assert_true(op_type_bytes(&output.type, &output.bytes));
        float *y = output.data = application_memory(&p.app, output.bytes + sizeof *y);
        assert_int_equal(
            rt_kernel_prepare(gather, &call, &one_thread, &p.app.arena, &prepared, &p.app.report), BASE_OK);
        assert_int_equal(prepared.run(&prepared, inputs, &output, NULL, &p.app.report), BASE_OK);
        for (int64_t i = 0; i < count; i++) {
            const int64_t row = indices[i] < 0 ? indices[i] + rows : indices[i];
            for (int64_t k = 0; k < width; k++)
                if (y[i * width + k] != made[k * wide + row])
                    fail_msg("seed %" PRIu64 ": element %" PRId64 " of row %" PRId64, round, k, row);
        }
        if (count) {
            indices[count - 1] = round % 2 ? rows : -rows - 1;
            assert_int_equal(prepared.run(&prepared, inputs, &output, NULL, &p.app.report), BASE_INVALID);
        }
        rt_kernel_release(&prepared);
        application_free(&p.app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_near_weights),
        cmocka_unit_test(test_products_are_those_of_the_numbers),
        cmocka_unit_test(test_any_number_is_multiplied),
        cmocka_unit_test(test_refuses_other_applications),
        cmocka_unit_test(test_refuses_weights_without_a_scale),
        cmocka_unit_test(test_reads_within_any_bytes),
        cmocka_unit_test(test_gathers_columns),
    };
    return cmocka_run_group_tests_name("block_float_product", tests, NULL, NULL);
}

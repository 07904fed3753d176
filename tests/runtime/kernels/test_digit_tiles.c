/* SPDX-License-Identifier: Apache-2.0 */
/* test_digit_tiles.c: many rows times weights of 4 and 8 bits as products of integers, beside sums in double: how far off they may be, the same bits
 * in every form and however the work is dealt out; and MatMulNBits on top of them, with a few rows too (digits.h). */
#include "runtime/kernels/portable/digit_row.h"
#include "runtime/kernels/portable/digit_tiles.h"
#include "runtime/kernels/portable/digits.h"
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void *allocated(size_t bytes) {
    void *memory = aligned_alloc(RT_ALIGNMENT, (bytes + RT_ALIGNMENT) / RT_ALIGNMENT * RT_ALIGNMENT);
    assert_non_null(memory);
    return memory;
}

/* A product, and what it is to give. */
typedef struct product {
    int64_t rows, depth, columns, block, blocks;
    int bits;
    float *x, *scales, *bias, *real_zeros;
    uint8_t *codes, *packed_zeros;
} product;

static int code_of(const uint8_t *bytes, int64_t index, int bits) {
    const int64_t each = 8 / bits;
    return bytes[index / each] >> (int)(index % each) * bits & ((1 << bits) - 1);
}

static double zero_of(const product *p, int64_t column, int64_t block) {
    if (p->real_zeros) return p->real_zeros[column * p->blocks + block];
    if (!p->packed_zeros) return 1 << (p->bits - 1);
    return code_of(p->packed_zeros + column * ((p->blocks * p->bits + 7) / 8), block, p->bits);
}

/* Numbers of many sizes, rows of zeros, and one that is much larger than all others of its row. */
static void fill_rows(float *x, int64_t rows, int64_t depth, uint64_t *seed) {
    for (int64_t r = 0; r < rows; r++) {
        const int64_t kind = random_range(seed, 0, 5), power = random_range(seed, -20, 20);
        float *row = x + r * depth;
        for (int64_t k = 0; k < depth; k++) {
            row[k] = random_float(seed);
            if (kind == 0) row[k] = 0;
            if (kind == 1) row[k] = ldexpf(row[k], (int)random_range(seed, -30, 0));
            if (kind == 2) row[k] = ldexpf(row[k], -130); /* no normal numbers */
            if (kind == 3) row[k] = ldexpf(row[k], (int)power);
        }
        if (kind == 4) row[random_range(seed, 0, depth - 1)] = 1e6f;
    }
}

static void product_begin(product *p, int zeros, uint64_t *seed) {
    p->blocks = (p->depth + p->block - 1) / p->block;
    const int64_t numbers = p->columns * p->blocks, bytes = numbers * p->block * p->bits / 8,
                  packed = p->columns * ((p->blocks * p->bits + 7) / 8);
    p->x = allocated((size_t)(p->rows * p->depth) * sizeof *p->x);
    p->scales = allocated((size_t)numbers * sizeof *p->scales);
    p->bias = allocated((size_t)p->columns * sizeof *p->bias);
    p->codes = allocated((size_t)bytes);
    p->real_zeros = zeros == 1 ? allocated((size_t)numbers * sizeof *p->real_zeros) : NULL;
    p->packed_zeros = zeros == 2 ? allocated((size_t)packed) : NULL;
    fill_rows(p->x, p->rows, p->depth, seed);
    for (int64_t i = 0; i < numbers; i++) p->scales[i] = random_float(seed);
    for (int64_t i = 0; i < p->columns; i++) p->bias[i] = random_float(seed);
    for (int64_t i = 0; i < bytes; i++) p->codes[i] = (uint8_t)random_next(seed);
    for (int64_t i = 0; i < numbers && p->real_zeros; i++)
        p->real_zeros[i] = random_float(seed) * (float)(1 << p->bits);
    for (int64_t i = 0; i < packed && p->packed_zeros; i++) p->packed_zeros[i] = (uint8_t)random_next(seed);
}

static void product_end(product *p) {
    free(p->x);
    free(p->scales);
    free(p->bias);
    free(p->codes);
    free(p->real_zeros);
    free(p->packed_zeros);
}

/* Half of the last digit of a span's largest element, times each weight; and what floats lose. */
static void check_near(const product *p, int digits, int64_t span, const float *y, uint64_t seed) {
    static const double largest[] = {127, 32639, 4194303};
    for (int64_t r = 0; r < p->rows; r++) {
        for (int64_t c = 0; c < p->columns; c++) {
            double sum = p->bias[c], sizes = fabs(sum), lost = 0;
            for (int64_t from = 0; from < p->depth; from += span) {
                double most = ldexp(1, -103), weights = 0;
                for (int64_t k = from; k < from + span && k < p->depth; k++) {
                    const int64_t b = k / p->block;
                    const double x = p->x[r * p->depth + k], scale = p->scales[c * p->blocks + b],
                                 zero = zero_of(p, c, b),
                                 code =
                                     code_of(p->codes + c * p->blocks * p->block * p->bits / 8, k, p->bits);
                    most = fmax(most, fabs(x));
                    weights += fabs(scale * (code - zero));
                    sum += x * scale * (code - zero);
                    sizes += fabs(x * scale) * (code + fabs(zero));
                }
                lost += 0.501 * most / largest[digits - 1] * weights;
            }
            const double allowed = lost + sizes * ldexp(1, -22) + 1e-40, found = y[r * p->columns + c];
            if (!(fabs(found - sum) <= allowed))
                fail_msg("seed %d, %d bits, %d digits, row %d, column %d: %.9g, expected %.9g within %.3g",
                         (int)seed, p->bits, digits, (int)r, (int)c, found, sum, allowed);
        }
    }
}

static float *multiplied(const product *p, int digits, rt_digit_form form, int64_t rows, int64_t split) {
    const rt_digit_weights weights = {
        .codes = p->codes, .scales = p->scales, .bias = p->bias, .zeros = {p->real_zeros, p->packed_zeros}};
    rt_digit_product of = {.form = form,
                           .bits = p->bits,
                           .digits = digits,
                           .centred = !p->real_zeros && !p->packed_zeros,
                           .depth = p->depth,
                           .columns = p->columns,
                           .block = p->block,
                           .blocks = p->blocks};
    size_t bytes;
    const int64_t panels = (p->columns + RT_DIGIT_COLUMNS - 1) / RT_DIGIT_COLUMNS;
    rt_digit_begin(&of);
    assert_int_equal(of.block % of.span, 0);
    assert_true(rt_digit_rows_bytes(&of, rows, &bytes));
    char *numbers = allocated(bytes + 64);
    float *y = allocated((size_t)(rows * p->columns) * sizeof *y + 64);
    memset(numbers + bytes, 123, 64);
    memset(y + rows * p->columns, 123, 64);
    const int64_t half = rows / 2 / 8 * 8;
    assert_true(rt_digit_rows(&of, p->x, rows, half, rows, numbers));
    assert_true(rt_digit_rows(&of, p->x, rows, 0, half, numbers));
    rt_digit_columns(&of, numbers, rows, &weights, split, panels, y);
    rt_digit_columns(&of, numbers, rows, &weights, 0, split, y);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(numbers[bytes + (size_t)i], 123);
        assert_int_equal(((char *)(y + rows * p->columns))[i], 123);
    }
    free(numbers);
    return y;
}

static void products_in_every_form(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 120; round++) {
        const int bits = round % 2 ? 8 : 4, digits = bits == 4 ? round / 2 % 3 + 1 : round / 2 % 2 + 1;
        const rt_digit_form best = rt_digit_form_here(digits);
        if (!best) continue;
        product p = {.rows = round % 9 ? random_range(&seed, 1, 40) : RT_DIGIT_MOST_ROWS,
                     .depth = random_range(&seed, 1, round % 7 ? 300 : 900),
                     .columns = random_range(&seed, 1, 130),
                     .block = 16 << random_range(&seed, 0, 5),
                     .bits = bits};
        product_begin(&p, round / 4 % 3, &seed);
        const int64_t panels = (p.columns + RT_DIGIT_COLUMNS - 1) / RT_DIGIT_COLUMNS,
                      span = digits == 3 && p.block > 32 ? 32
                             : p.block > 64              ? 64
                                                         : p.block,
                      fewer = (p.rows + 1) / 2;
        const size_t bytes = (size_t)(p.rows * p.columns) * sizeof(float);
        float *y = multiplied(&p, digits, best, p.rows, 0);
        check_near(&p, digits, span, y, (uint64_t)round);
        float *parts = multiplied(&p, digits, best, p.rows, random_range(&seed, 0, panels));
        assert_memory_equal(y, parts, bytes);
        float *some = multiplied(&p, digits, best, fewer, 0);
        assert_memory_equal(y, some, (size_t)(fewer * p.columns) * sizeof *y);
        for (int form = RT_DIGIT_WORDS; form < (int)best && digits < 3; form++) {
            float *same = multiplied(&p, digits, (rt_digit_form)form, p.rows, 0);
            assert_memory_equal(y, same, bytes);
            free(same);
        }
        free(y);
        free(parts);
        free(some);
        product_end(&p);
    }
}

static void no_numbers(void **state) {
    (void)state;
    static const float odd[] = {INFINITY, -INFINITY, NAN};
    for (int form = RT_DIGIT_WORDS; form <= (int)rt_digit_form_here(1); form++) {
        for (int64_t at = 0; at < 10 * 70; at += 23) {
            float x[10 * 70] = {0};
            rt_digit_product of = {.form = (rt_digit_form)form,
                                   .bits = 8,
                                   .digits = 2,
                                   .depth = 70,
                                   .columns = 1,
                                   .block = 32,
                                   .blocks = 3};
            size_t bytes;
            rt_digit_begin(&of);
            assert_true(rt_digit_rows_bytes(&of, 10, &bytes));
            void *numbers = allocated(bytes);
            x[at] = odd[at % 3];
            assert_int_equal(rt_digit_rows(&of, x, 10, 0, 8, numbers), at >= 8 * 70);
            assert_int_equal(rt_digit_rows(&of, x, 10, 8, 10, numbers), at < 8 * 70);
            free(numbers);
        }
    }
}

/* ---- a few rows ------------------------------------------------------------------------------------------ */

enum { MOST_FEW = 7 };

static bool runs_here(int bits, int digits, int64_t block) {
    return rt_digits_run_here(&(rt_digits_form){.bits = bits, .digits = digits, .block = block, .blocks = 1});
}

/* Rows [row, row + count) in digits, times columns [0, split) and those from there on. */
static float *few_multiplied(const product *p, int digits, int64_t row, int64_t count, int64_t split) {
    const rt_digits_form form = {
        .bits = p->bits, .digits = digits, .block = p->block, .blocks = p->blocks, .distant = row % 2};
    const rt_digits_weights weights = {p->codes, p->scales, p->packed_zeros};
    const int64_t whole = p->blocks * p->block;
    const size_t bytes =
        (size_t)((whole + RT_DIGITS_TOGETHER - 1) / RT_DIGITS_TOGETHER) * RT_DIGITS_TOGETHER * sizeof(float);
    float *y = allocated((size_t)(count * p->columns) * sizeof *y + 64);
    rt_digits_row rows[MOST_FEW];
    char *numbers[MOST_FEW];
    memset(y + count * p->columns, 123, 64);
    for (int64_t r = 0; r < count; r++) {
        numbers[r] = allocated(bytes + 64);
        memset(numbers[r], 255, bytes); /* what is not written is no number */
        memset(numbers[r] + bytes, 123, 64);
        assert_true(rt_digits_split(&form, p->x + (row + r) * p->depth, p->depth, numbers[r]));
        rows[r] = (rt_digits_row){numbers[r], y + r * p->columns};
    }
    rt_digits_columns(&form, rows, count, &weights, split, p->columns, p->bias);
    rt_digits_columns(&form, rows, count, &weights, 0, split, p->bias);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(((char *)(y + count * p->columns))[i], 123);
        for (int64_t r = 0; r < count; r++) assert_int_equal(numbers[r][bytes + (size_t)i], 123);
    }
    for (int64_t r = 0; r < count; r++) free(numbers[r]);
    return y;
}

/* They are as near as many rows are, however columns are cut; and each has the bits that it has alone. */
static void few_rows_in_digits(void **state) {
    (void)state;
    uint64_t seed = 9;
    for (int round = 0; round < 160; round++) {
        const int bits = round % 2 ? 8 : 4, digits = round / 2 % 2 ? 1 : bits == 4 ? 3 : 2;
        product p = {.rows = random_range(&seed, 1, MOST_FEW),
                     .depth = random_range(&seed, 1, round % 7 ? 300 : 9000),
                     .columns = random_range(&seed, 1, 40),
                     .block = 16 << random_range(&seed, 0, round % 5 ? 5 : 9),
                     .bits = bits};
        if (!runs_here(bits, digits, p.block)) skip();
        product_begin(&p, round / 4 % 2 * 2, &seed);
        const int64_t most = bits == 4 && digits == 3 ? 32 : 64, span = p.block < most ? p.block : most;
        float *y = few_multiplied(&p, digits, 0, p.rows, 0);
        check_near(&p, digits, span, y, (uint64_t)round);
        float *parts = few_multiplied(&p, digits, 0, p.rows, random_range(&seed, 0, p.columns));
        assert_memory_equal(y, parts, (size_t)(p.rows * p.columns) * sizeof *y);
        for (int64_t r = 0; r < p.rows; r++) {
            float *one = few_multiplied(&p, digits, r, 1, 0);
            assert_memory_equal(one, y + r * p.columns, (size_t)p.columns * sizeof *one);
            free(one);
        }
        free(y);
        free(parts);
        product_end(&p);
    }
}

/* Moved to memory that ends where it ends. */
static void *moved(void *from, size_t bytes) {
    void *to = malloc(bytes);
    assert_non_null(to);
    memcpy(to, from, bytes);
    free(from);
    return to;
}

/* Columns that end within four spans, of which some groups are there, give the bits of such that go on where x is 0. */
static void columns_that_end(void **state) {
    (void)state;
    enum { WHOLE = 1024 };
    uint64_t seed = 33;
    for (int round = 0; round < 240; round++) {
        const int bits = round % 2 ? 8 : 4, digits = round / 2 % 2 ? 1 : bits == 4 ? 3 : 2;
        product p = {.rows = random_range(&seed, 1, 4),
                     .depth = random_range(&seed, 1, WHOLE / 32 - 1) * 32,
                     .columns = random_range(&seed, 1, 20),
                     .block = 16 << random_range(&seed, 0, 4),
                     .bits = bits},
                whole = p;
        if (!runs_here(bits, digits, p.block)) skip();
        whole.depth = WHOLE;
        const int zeros = round / 4 % 2 * 2;
        product_begin(&p, zeros, &seed);
        product_begin(&whole, zeros, &seed);
        const int64_t own = p.block * bits / 8, packed = (p.blocks * bits + 7) / 8,
                      all = (whole.blocks * bits + 7) / 8;
        p.codes = moved(p.codes, (size_t)(p.columns * p.blocks * own));
        p.scales = moved(p.scales, (size_t)(p.columns * p.blocks) * sizeof *p.scales);
        memset(whole.x, 0, (size_t)(p.rows * WHOLE) * sizeof *whole.x);
        for (int64_t r = 0; r < p.rows; r++)
            memcpy(whole.x + r * WHOLE, p.x + r * p.depth, (size_t)p.depth * sizeof *p.x);
        memcpy(whole.bias, p.bias, (size_t)p.columns * sizeof *p.bias);
        for (int64_t c = 0; c < p.columns; c++) {
            memcpy(whole.codes + c * whole.blocks * own, p.codes + c * p.blocks * own,
                   (size_t)(p.blocks * own));
            memcpy(whole.scales + c * whole.blocks, p.scales + c * p.blocks,
                   (size_t)p.blocks * sizeof *p.scales);
            for (int64_t i = 0; i < packed && zeros; i++)
                whole.packed_zeros[c * all + i] = p.packed_zeros[c * packed + i];
        }
        float *y = few_multiplied(&p, digits, 0, p.rows, p.columns),
              *expected = few_multiplied(&whole, digits, 0, p.rows, p.columns);
        assert_memory_equal(y, expected, (size_t)(p.rows * p.columns) * sizeof *y);
        free(y);
        free(expected);
        product_end(&p);
        product_end(&whole);
    }
}

/* A row by itself (digit_row.h), with columns cut in two and whole. */
static void one_row_in_digits(void **state) {
    (void)state;
    uint64_t seed = 21;
    for (int round = 0; round < 80; round++) {
        const int bits = round % 2 ? 8 : 4, digits = round / 2 % 2 ? 1 : bits == 4 ? 3 : 2;
        product p = {.rows = 1,
                     .depth = random_range(&seed, 1, round % 7 ? 300 : 3000),
                     .columns = random_range(&seed, 1, 40),
                     .block = 16 << random_range(&seed, 0, 5),
                     .bits = bits};
        const rt_digit_row_form form = {bits, digits};
        int shift = 0;
        if (!runs_here(bits, digits, p.block)) skip();
        product_begin(&p, round / 4 % 2 * 2, &seed);
        while (INT64_C(8) << shift < p.block * bits) shift++;
        const int64_t group = rt_digit_row_group(bits), bytes = p.blocks * p.block * bits / 8,
                      groups = (bytes + RT_DIGITS_WEIGHTS - 1) / RT_DIGITS_WEIGHTS,
                      split = random_range(&seed, 0, p.columns);
        char *numbers = allocated((size_t)(groups * group));
        float *sums = allocated((size_t)p.blocks * sizeof *sums),
              *y = allocated((size_t)p.columns * sizeof *y),
              *parts = allocated((size_t)p.columns * sizeof *y);
        for (int64_t b = 0; b < p.blocks; b++) {
            sums[b] = 0;
            for (int64_t k = b * p.block; k < (b + 1) * p.block && k < p.depth; k++) sums[b] += p.x[k];
        }
        const rt_digit_row_weights weights = {p.codes, p.scales, p.packed_zeros, p.blocks, shift};
        assert_true(rt_digit_row_split(p.x, p.depth, form, groups, numbers));
        rt_digit_row_columns(numbers, form, sums, &weights, 0, p.columns, p.bias, y);
        rt_digit_row_columns(numbers, form, sums, &weights, split, p.columns, p.bias, parts);
        rt_digit_row_columns(numbers, form, sums, &weights, 0, split, p.bias, parts);
        assert_memory_equal(y, parts, (size_t)p.columns * sizeof *y);
        if (!p.packed_zeros) check_near(&p, digits, p.block, y, (uint64_t)round);
        free(numbers);
        free(sums);
        free(y);
        free(parts);
        product_end(&p);
    }
}

/* ---- MatMulNBits ----------------------------------------------------------------------------------------- */

/* The result of the operator; `level` is its accuracy level, or -1: weights are our own. */
static float *operator_result(const product *p, int level, int threads, size_t *scratch) {
    application app;
    application_init(&app, OP_MATMUL_BITS);
    const int64_t numbers = p->columns * p->blocks, packed = (p->blocks * p->bits + 7) / 8;
    memcpy(application_input(&app, OP_FLOAT, 2, DIMS(p->rows, p->depth)), p->x,
           (size_t)(p->rows * p->depth) * sizeof *p->x);
    memcpy(application_input(&app, OP_UINT8, 3, DIMS(p->columns, p->blocks, p->block * p->bits / 8)),
           p->codes, (size_t)(numbers * p->block * p->bits / 8));
    memcpy(application_input(&app, OP_FLOAT, 1, DIMS(numbers)), p->scales,
           (size_t)numbers * sizeof *p->scales);
    if (p->real_zeros)
        memcpy(application_input(&app, OP_FLOAT, 1, DIMS(numbers)), p->real_zeros,
               (size_t)numbers * sizeof *p->real_zeros);
    else if (p->packed_zeros)
        memcpy(application_input(&app, OP_UINT8, 1, DIMS(p->columns * packed)), p->packed_zeros,
               (size_t)(p->columns * packed));
    else application_absent(&app);
    application_absent(&app);
    memcpy(application_input(&app, OP_FLOAT, 1, DIMS(p->columns)), p->bias,
           (size_t)p->columns * sizeof *p->bias);
    application_integer(&app, "K", p->depth);
    application_integer(&app, "N", p->columns);
    application_integer(&app, "bits", p->bits);
    application_integer(&app, "block_size", p->block);
    if (level >= 0) application_integer(&app, "accuracy_level", level);
    else application_real(&app, "ouro.weights_error", 0.01f);
    assert_int_equal(application_infer(&app), BASE_OK);
    rt_prepared prepared = {0};
    const rt_environment environment = {.threads = threads};
    assert_int_equal(rt_kernel_prepare(rt_kernel_find("portable.matmul_bits"), &app.call, &environment,
                                       &app.arena, &prepared, &app.report),
                     BASE_OK);
    *scratch = prepared.scratch_bytes;
    rt_kernel_release(&prepared);
    application_run(&app, "portable.matmul_bits", threads);
    const size_t bytes = (size_t)(p->rows * p->columns) * sizeof(float);
    float *y = allocated(bytes);
    memcpy(y, app.outputs[0].data, bytes);
    application_free(&app);
    return y;
}

/* Beside weights of 4 bits, rows that stand for floats are exact where these are: what comes out of small integers are integers. */
static void small_integers_are_exact(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 24; round++) {
        product p = {.rows = random_range(&seed, 1, 40),
                     .depth = random_range(&seed, 1, 200),
                     .columns = random_range(&seed, 1, 50),
                     .block = 16 << random_range(&seed, 0, 4),
                     .bits = 4};
        size_t scratch;
        product_begin(&p, 0, &seed);
        for (int64_t i = 0; i < p.rows * p.depth; i++) p.x[i] = (float)random_range(&seed, -300, 300);
        for (int64_t i = 0; i < p.columns * p.blocks; i++) p.scales[i] = 0.5f;
        for (int64_t i = 0; i < p.columns; i++) p.bias[i] = 3;
        float *y = operator_result(&p, 0, 1, &scratch);
        for (int64_t r = 0; r < p.rows; r++)
            for (int64_t c = 0; c < p.columns; c++) {
                int64_t sum = 0;
                for (int64_t k = 0; k < p.depth; k++)
                    sum += (int64_t)p.x[r * p.depth + k] *
                           (code_of(p.codes, c * p.blocks * p.block + k, p.bits) - 8);
                assert_true(y[r * p.columns + c] == (float)sum / 2 + 3);
            }
        free(y);
        product_end(&p);
    }
}

static void operators_at_every_level(void **state) {
    (void)state;
    static const int levels[] = {0, 1, 2, 3, 4, -1};
    uint64_t seed = 77;
    for (int round = 0; round < 120; round++) {
        const int bits = round % 2 ? 8 : 4, level = levels[round / 2 % 6];
        product p = {.rows = round < 3 ? 127 + round : random_range(&seed, 1, round / 4 % 2 ? 150 : 9),
                     .depth = random_range(&seed, 1, round % 7 ? 200 : 500),
                     .columns = random_range(&seed, 1, 100),
                     .block = 16 << random_range(&seed, 0, 4),
                     .bits = bits};
        product_begin(&p, round / 4 % 3, &seed);
        const int digits = level == 4 || (level < 0 && bits == 4) ? 1 : level >= 2 || level < 0 ? 2 : 3;
        size_t scratch, same;
        float *one = operator_result(&p, level, 1, &scratch), *two = operator_result(&p, level, 2, &same);
        assert_int_equal(scratch, same);
        assert_memory_equal(one, two, (size_t)(p.rows * p.columns) * sizeof *one);
        check_near(&p, digits, p.block, one, (uint64_t)round);
        free(one);
        free(two);
        product_end(&p);
    }
}

/* Rows that hold infinities, or what is no number, give what they give in float, and the others theirs. */
static void operators_without_numbers(void **state) {
    (void)state;
    static const float odd[] = {INFINITY, -INFINITY, NAN};
    uint64_t seed = 3;
    for (int round = 0; round < 12; round++) {
        product p = {.rows = round % 3 ? 9 + 11 * round : 1 + round / 3, /* a few, too */
                     .depth = 70,
                     .columns = 37,
                     .block = 32,
                     .bits = round % 2 ? 8 : 4};
        product_begin(&p, round / 2 % 3, &seed);
        for (int i = 0; i < (round % 3 ? 3 : 1); i++)
            p.x[random_range(&seed, 0, p.rows * p.depth - 1)] = odd[(round + i) % 3];
        size_t scratch;
        float *y = operator_result(&p, 4, 1, &scratch);
        for (int64_t r = 0; r < p.rows; r++) {
            bool finite = true;
            for (int64_t k = 0; k < p.depth; k++) finite = finite && isfinite(p.x[r * p.depth + k]);
            product row = p;
            row.rows = 1;
            row.x = p.x + r * p.depth;
            if (finite) check_near(&row, 1, p.block, y + r * p.columns, (uint64_t)round);
            for (int64_t c = 0; c < p.columns && !finite; c++) {
                double sum = p.bias[c];
                for (int64_t k = 0; k < p.depth; k++) {
                    const int64_t b = k / p.block;
                    const int code = code_of(p.codes + c * p.blocks * p.block * p.bits / 8, k, p.bits);
                    sum += row.x[k] * (p.scales[c * p.blocks + b] * (code - zero_of(&p, c, b)));
                }
                const double found = y[r * p.columns + c];
                /* Beside a few rows zero points come in apart, so that an infinity may become what is no number. */
                if (p.rows <= 8) assert_false(isfinite(found));
                else assert_true(isnan(sum) ? isnan(found) : found == sum);
            }
        }
        free(y);
        product_end(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_in_every_form),   cmocka_unit_test(no_numbers),
        cmocka_unit_test(small_integers_are_exact), cmocka_unit_test(operators_at_every_level),
        cmocka_unit_test(few_rows_in_digits),       cmocka_unit_test(columns_that_end),
        cmocka_unit_test(one_row_in_digits),        cmocka_unit_test(operators_without_numbers)};
    return cmocka_run_group_tests_name("digit_tiles", tests, NULL, NULL);
}

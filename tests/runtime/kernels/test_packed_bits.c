/* SPDX-License-Identifier: Apache-2.0 */
/* test_packed_bits.c: MatMulNBits with constant weights in panels beside sums in double: how far off it may be; the same bits on any number of threads and
 * whichever other rows are there; rows with elements that are no finite numbers; what was packed comes back; what is left to other kernels.
 */
#include "runtime/kernels/portable/bit_panels.h"
#include "runtime/kernels/portable/matmul_bits.h"
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { CODES = 1, SCALES, ZEROS, GROUPS, BIAS, ROUNDS = 400 };

static const rt_environment one_thread = {.threads = 1};

static const rt_kernel *kernel(void) {
    return rt_kernel_of(OP_MATMUL_BITS, "portable.packed_bits");
}

/* What an application is made of. */
typedef struct form {
    int bits, level; /* of accuracy; -1: weights are our own */
    int64_t block, rows, depth, columns, blocks;
    op_dtype dtype;
    bool zeros, bias;
} form;

enum { FEW_ROWS = 8 };

/* Of a few rows, or of many. */
static int digits_of(const form *f, bool few) {
    const int digits = f->level == 4 || (f->level < 0 && f->bits == 4) ? 1
                       : f->level >= 2 || f->level < 0                 ? 2
                                                                       : 3;
    return few && digits == 2 && f->bits == 4 ? 3 : digits;
}

static int64_t zero_bytes(const form *f) {
    return (f->blocks * f->bits + 7) / 8;
}

static form draw_form(uint64_t round, uint64_t *seed) {
    static const int levels[] = {4, -1, 2, 3, 0, 1};
    static const op_dtype types[] = {OP_FLOAT, OP_FLOAT, OP_FLOAT, OP_FLOAT16, OP_BFLOAT16};
    form f = {.bits = round % 2 ? 8 : 4,
              .block = 16 << random_range(seed, 0, 6),
              .rows =
                  round % 4 ? random_range(seed, 1, FEW_ROWS) : random_range(seed, 9, round % 8 ? 20 : 140),
              .depth = random_range(seed, 1, round % 5 ? 200 : 700),
              .columns = random_range(seed, 1, round % 7 ? 70 : 300),
              .dtype = types[random_range(seed, 0, 4)],
              .zeros = random_range(seed, 0, 1),
              .bias = random_range(seed, 0, 1)};
    f.level = levels[random_range(seed, 0, f.bits == 8 ? 3 : 5)];
    f.blocks = (f.depth + f.block - 1) / f.block;
    return f;
}

static void set_element(const op_tensor *tensor, int64_t index, float value) {
    if (tensor->type.dtype == OP_FLOAT) ((float *)tensor->data)[index] = value;
    else if (tensor->type.dtype == OP_FLOAT16)
        ((uint16_t *)tensor->data)[index] = base_half_from_float(value);
    else ((uint16_t *)tensor->data)[index] = base_bfloat16_from_float(value);
}

static void fill_bytes(uint8_t *bytes, int64_t count, uint64_t *seed) {
    for (int64_t i = 0; i < count; i++) bytes[i] = (uint8_t)random_next(seed);
}

/* Rows of numbers of many sizes, of zeros, and with one number that is much larger than the others. */
static void fill_row(const op_tensor *x, int64_t row, int64_t depth, uint64_t *seed) {
    const int64_t kind = random_range(seed, 0, 4);
    for (int64_t k = 0; k < depth; k++) {
        float value = random_float(seed);
        if (kind == 0) value = 0;
        if (kind == 1) value = ldexpf(value, (int)random_range(seed, -14, 0));
        set_element(x, row * depth + k, value);
    }
    if (kind == 2) set_element(x, row * depth + random_range(seed, 0, depth - 1), 90);
    if (kind == 3 && x->type.dtype == OP_FLOAT)
        for (int64_t k = 0; k < depth; k++) ((float *)x->data)[row * depth + k] *= 0x1p-130f;
}

static void begin(application *app, const form *f, uint64_t *seed) {
    application_init(app, OP_MATMUL_BITS);
    application_input(app, f->dtype, 3, DIMS(1, f->rows, f->depth));
    for (int64_t row = 0; row < f->rows; row++) fill_row(&app->inputs[0], row, f->depth, seed);
    const int64_t bytes = f->block * f->bits / 8;
    fill_bytes(application_input(app, OP_UINT8, 3, DIMS(f->columns, f->blocks, bytes)),
               f->columns * f->blocks * bytes, seed);
    application_random(app, f->dtype, 1, DIMS(f->columns * f->blocks), seed);
    if (f->zeros) {
        uint8_t *zeros = application_input(app, OP_UINT8, 1, DIMS(f->columns * zero_bytes(f)));
        fill_bytes(zeros, f->columns * zero_bytes(f), seed);
        /* Half of the last byte of a column may be nobody's; it comes back as 0. */
        for (int64_t c = 1; c <= f->columns && f->bits == 4 && f->blocks % 2; c++)
            zeros[c * zero_bytes(f) - 1] &= 15;
    } else {
        application_absent(app);
    }
    application_absent(app);
    if (f->bias) application_random(app, f->dtype, 1, DIMS(f->columns), seed);
    application_integer(app, "K", f->depth);
    application_integer(app, "N", f->columns);
    application_integer(app, "bits", f->bits);
    application_integer(app, "block_size", f->block);
    if (f->level >= 0) application_integer(app, "accuracy_level", f->level);
    else application_real(app, "ouro.weights_error", 0.01f);
    assert_int_equal(application_infer(app), BASE_OK);
}

static rt_bit_panels panels_of(const form *f) {
    return (rt_bit_panels){.bits = f->bits,
                           .digits = digits_of(f, true),
                           .zeros = f->zeros,
                           .depth = f->depth,
                           .columns = f->columns,
                           .block = f->block,
                           .blocks = f->blocks};
}

/* The application with constants packed, which come back from there. */
static void pack(application *app, const form *f, op_call *call, op_tensor *inputs) {
    const rt_bit_panels panels = panels_of(f);
    *call = app->call;
    memcpy(inputs, app->inputs, sizeof app->inputs);
    op_call source =
        *call; /* as when layouts are selected: types are those that are to be, data is what there is */
    source.inputs = inputs;
    for (uint32_t i = CODES; i <= (f->zeros ? ZEROS : SCALES); i++) {
        size_t bytes = RT_ALIGNMENT;
        if (i == CODES) assert_true(rt_bit_panels_bytes(&panels, &bytes));
        inputs[i].type.layout = OP_LAYOUT_PACKED;
        inputs[i].type.packed_bytes = inputs[i].bytes = bytes;
    }
    void *packed[ZEROS + 1];
    for (uint32_t i = CODES; i <= (f->zeros ? ZEROS : SCALES); i++) {
        packed[i] = application_memory(app, inputs[i].bytes);
        memset(packed[i], 0, inputs[i].bytes);
        assert_int_equal(kernel()->pack(&source, &one_thread, i, &app->inputs[i], packed[i], &app->report),
                         BASE_OK);
    }
    for (uint32_t i = CODES; i <= (f->zeros ? ZEROS : SCALES); i++) inputs[i].data = packed[i];
    call->inputs = inputs;
    assert_true(kernel()->accepts(call, &one_thread));
    for (uint32_t i = CODES; i <= (f->zeros ? ZEROS : SCALES); i++) {
        void *back = application_memory(app, app->inputs[i].bytes);
        assert_int_equal(kernel()->unpack(call, &one_thread, i, &inputs[i], back, &app->report), BASE_OK);
        assert_memory_equal(back, app->inputs[i].data, app->inputs[i].bytes);
    }
}

static op_tensor run(application *app, const op_call *call, int threads) {
    enum { GUARD = 64 };
    const rt_environment environment = {.threads = threads};
    op_tensor output = app->outputs[0];
    output.type.shape = call->inputs[0].type.shape;
    output.type.shape.dims[2] = app->outputs[0].type.shape.dims[2];
    rt_prepared prepared;
    assert_true(op_type_bytes(&output.type, &output.bytes));
    output.data = application_memory(app, output.bytes);
    memset(output.data, 0x7f, output.bytes);
    assert_int_equal(rt_kernel_prepare(kernel(), call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    unsigned char *scratch = application_memory(app, prepared.scratch_bytes + GUARD);
    memset(scratch, 0xff, prepared.scratch_bytes + GUARD);
    rt_threads_warm(threads);
    const size_t before = allocations_count();
    assert_int_equal(prepared.run(&prepared, call->inputs, &output, scratch, &app->report), BASE_OK);
    assert_int_equal(allocations_count(), before);
    for (size_t i = 0; i < GUARD; i++) assert_int_equal(scratch[prepared.scratch_bytes + i], 0xff);
    rt_kernel_release(&prepared);
    return output;
}

static int code_of(const uint8_t *bytes, int64_t index, int bits) {
    const int64_t each = 8 / bits;
    return bytes[index / each] >> (int)(index % each) * bits & ((1 << bits) - 1);
}

static double zero_of(const application *app, const form *f, int64_t column, int64_t block) {
    if (!f->zeros) return 1 << (f->bits - 1);
    return code_of((const uint8_t *)app->inputs[ZEROS].data + column * zero_bytes(f), block, f->bits);
}

/* Half of the last digit of a span's largest element, times each weight; and what floats, and halves, lose. Where the machine does not multiply
 * bytes, only that. */
static void check_element(const application *app, const form *f, int digits, int64_t row, int64_t column,
                          double found, uint64_t round) {
    static const double largest[] = {127, 32639, 4194303 / 2.0};
    const int64_t most_span = digits == 3 ? 32 : 64, span = f->block < most_span ? f->block : most_span;
    double sum = f->bias ? application_element(&app->inputs[BIAS], column) : 0, sizes = fabs(sum), lost = 0;
    for (int64_t from = 0; from < f->depth; from += span) {
        double most = ldexp(1, -103), weights = 0;
        const int64_t block = from / f->block;
        const double scale = application_element(&app->inputs[SCALES], column * f->blocks + block),
                     zero = zero_of(app, f, column, block);
        const uint8_t *codes =
            (const uint8_t *)app->inputs[CODES].data + (column * f->blocks) * f->block * f->bits / 8;
        for (int64_t k = from; k < from + span && k < f->depth; k++) {
            const double x = application_element(&app->inputs[0], row * f->depth + k),
                         code = code_of(codes, k, f->bits);
            most = fmax(most, fabs(x));
            weights += fabs(scale * (code - zero));
            sum += x * scale * (code - zero);
            sizes += fabs(x * scale) * (code + zero);
        }
        lost += 0.501 * most / largest[digits - 1] * weights;
    }
    const double rounding = f->dtype == OP_FLOAT16 ? ldexp(1, -11) : ldexp(1, -8);
    double allowed = lost + sizes * ldexp(1, -22) + 1e-40;
    if (f->dtype != OP_FLOAT) allowed += fabs(sum) * rounding + 1e-7;
    if (!(fabs(found - sum) <= allowed))
        fail_msg("seed %" PRIu64
                 ": %d bits in blocks of %d, %d digits, row %d, column %d: %.9g, expected %.9g "
                 "within %.3g",
                 round, f->bits, (int)f->block, digits, (int)row, (int)column, found, sum, allowed);
}

static void test_sums(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        const form f = draw_form(round, &seed);
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        begin(&app, &f, &seed);
        pack(&app, &f, &call, inputs);
        const op_tensor got = run(&app, &call, 1), other = run(&app, &call, 2 + (int)(round % 3));
        for (int64_t row = 0; row < f.rows; row++)
            for (int64_t column = 0; column < f.columns; column++)
                check_element(&app, &f, digits_of(&f, f.rows <= FEW_ROWS), row, column,
                              application_element(&got, row * f.columns + column), round);
        if (memcmp(got.data, other.data, got.bytes) != 0)
            fail_msg("seed %" PRIu64 ": threads change the result", round);
        /* Each row gives the bits that it gives alone, or, of many, with a few others. */
        const size_t row_bytes = app.inputs[0].bytes / (size_t)f.rows, made = got.bytes / (size_t)f.rows;
        const char *x = app.inputs[0].data;
        const int64_t some = f.rows <= FEW_ROWS ? 1 : FEW_ROWS + 1;
        for (int64_t row = 0; row + some <= f.rows; row += some) {
            inputs[0].type.shape.dims[1] = some;
            inputs[0].data = (void *)(uintptr_t)(x + (size_t)row * row_bytes);
            const op_tensor fewer = run(&app, &call, 1);
            if (memcmp(fewer.data, (const char *)got.data + (size_t)row * made, fewer.bytes) != 0)
                fail_msg("seed %" PRIu64 ": row %d depends on the others", round, (int)row);
        }
        application_free(&app);
    }
}

/* Rows with infinities, or with what is no number, are those of sums of floats; the others are what they were. */
static void test_rows_without_numbers(void **state) {
    (void)state;
    static const float odd[] = {INFINITY, -INFINITY, NAN};
    for (uint64_t round = 1; round <= ROUNDS / 4; round++) {
        uint64_t seed = round;
        form f = draw_form(round, &seed);
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        begin(&app, &f, &seed);
        pack(&app, &f, &call, inputs);
        const op_tensor before = run(&app, &call, 1);
        const int64_t place = random_range(&seed, 0, f.rows * f.depth - 1), row = place / f.depth;
        set_element(&app.inputs[0], place, odd[round % 3]);
        const op_tensor after = run(&app, &call, 2);
        for (int64_t r = 0; r < f.rows; r++) {
            for (int64_t c = 0; c < f.columns; c++) {
                const int64_t at = r * f.columns + c;
                const double found = application_element(&after, at);
                if (r != row) {
                    assert_true(found == application_element(&before, at));
                    continue;
                }
                double sum = f.bias ? application_element(&app.inputs[BIAS], c) : 0;
                for (int64_t k = 0; k < f.depth; k++) {
                    const uint8_t *codes =
                        (const uint8_t *)app.inputs[CODES].data + (c * f.blocks) * f.block * f.bits / 8;
                    sum += application_element(&app.inputs[0], r * f.depth + k) *
                           application_element(&app.inputs[SCALES], c * f.blocks + k / f.block) *
                           (code_of(codes, k, f.bits) - zero_of(&app, &f, c, k / f.block));
                }
                if (isnan(sum) ? !isnan(found) : found != sum)
                    fail_msg("seed %" PRIu64 ": %g, expected %g", round, found, sum);
            }
        }
        application_free(&app);
    }
}

/* Rows in float, as on machines that do not multiply bytes. */
static void test_floats(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS / 4; round++) {
        uint64_t seed = round;
        form f = draw_form(round, &seed);
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        f.dtype = OP_FLOAT;
        begin(&app, &f, &seed);
        pack(&app, &f, &call, inputs);
        const rt_bit_panels panels = panels_of(&f);
        float *y = application_memory(&app, (size_t)f.columns * sizeof *y);
        for (int64_t row = 0; row < f.rows; row++) {
            const int64_t count = rt_bit_panels_count(&panels), cut = random_range(&seed, 0, count);
            const float *x = (const float *)app.inputs[0].data + row * f.depth,
                        *bias = f.bias ? app.inputs[BIAS].data : NULL;
            rt_bit_panels_floats(&panels, x, inputs[CODES].data, bias, 0, cut, y);
            rt_bit_panels_floats(&panels, x, inputs[CODES].data, bias, cut, count, y);
            for (int64_t column = 0; column < f.columns; column++)
                check_element(&app, &f, digits_of(&f, true), row, column, (double)y[column], round);
        }
        application_free(&app);
    }
}

/* Small integers are exact where rows stand for floats. */
static void test_integers(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS / 8; round++) {
        uint64_t seed = round;
        form f = draw_form(2 * round, &seed);
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        f.dtype = OP_FLOAT;
        f.level = 0; /* 4 bits */
        begin(&app, &f, &seed);
        for (int64_t i = 0; i < f.rows * f.depth; i++)
            set_element(&app.inputs[0], i, (float)random_range(&seed, -300, 300));
        for (int64_t i = 0; i < f.columns * f.blocks; i++) set_element(&app.inputs[SCALES], i, 0.5f);
        for (int64_t i = 0; i < f.columns && f.bias; i++) set_element(&app.inputs[BIAS], i, 3);
        pack(&app, &f, &call, inputs);
        const op_tensor got = run(&app, &call, 1);
        for (int64_t row = 0; row < f.rows; row++) {
            for (int64_t c = 0; c < f.columns; c++) {
                const uint8_t *codes =
                    (const uint8_t *)app.inputs[CODES].data + (c * f.blocks) * f.block * f.bits / 8;
                double sum = f.bias ? 3 : 0;
                for (int64_t k = 0; k < f.depth; k++)
                    sum += application_element(&app.inputs[0], row * f.depth + k) / 2 *
                           (code_of(codes, k, f.bits) - zero_of(&app, &f, c, k / f.block));
                assert_true(application_element(&got, row * f.columns + c) == sum);
            }
        }
        application_free(&app);
    }
}

/* Few columns or weights, no rows, plans for any machine, groups, levels, other bits, zero points in float, weights of a
 * run: all are for others. */
static void test_leaves_to_others(void **state) {
    (void)state;
    enum {
        WANTED,
        MANY,
        UNKNOWN,
        NO_ROWS,
        COLUMNS,
        SMALL,
        PORTABLE,
        GROUPED,
        LEVELS,
        BITS,
        REAL,
        OF_A_RUN,
        DIGITS,
        KINDS
    };
    for (int kind = 0; kind < KINDS; kind++) {
        const rt_environment environment = {.threads = 1, .portable_only = kind == PORTABLE};
        application app;
        uint64_t seed = 9;
        rt_preference wish = {0};
        form f = {.bits = kind == BITS     ? 2
                          : kind == DIGITS ? 8
                                           : 4,
                  .level = kind == DIGITS ? 0 : 4,
                  .block = 32,
                  .rows = kind == MANY ? 100 : 8,
                  .depth = kind == SMALL ? 64 : 256,
                  .columns = kind == COLUMNS ? 20 : 48,
                  .dtype = OP_FLOAT,
                  .zeros = kind == REAL};
        f.blocks = (f.depth + f.block - 1) / f.block;
        begin(&app, &f, &seed);
        if (kind == UNKNOWN) app.inputs[0].type.shape.dims[1] = -1;
        if (kind == NO_ROWS) app.inputs[0].type.shape.dims[1] = 0;
        if (kind == GROUPED) {
            app.inputs[GROUPS] = app.inputs[0];
            app.inputs[GROUPS].type = (op_type){.dtype = OP_INT32, .shape = {.rank = 1, .dims = {256}}};
            app.call.input_count = GROUPS + 1;
        }
        float levels[16] = {0};
        op_attribute attribute = {
            .name = "ouro.levels", .kind = OP_ATTRIBUTE_FLOATS, .count = 16, .as.reals = levels};
        if (kind == LEVELS) app.call.attributes = (op_attributes){1, &attribute};
        if (kind == REAL) app.inputs[ZEROS].type.dtype = OP_FLOAT;
        if (kind == OF_A_RUN) app.inputs[SCALES].data = NULL;
        const bool wanted = kernel()->prefer(&app.call, &environment, &wish);
        if (wanted != (kind <= UNKNOWN && rt_bit_panels_here())) fail_msg("application %d", kind);
        assert_false(kernel()->accepts(&app.call, &environment)); /* nothing is packed */
        application_free(&app);
    }
}

/* What is prepared for some rows is made ready for others, or none, and gives what it gives when it is prepared for these. */
static void test_other_rows(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS / 8; round++) {
        uint64_t seed = round;
        form f = draw_form(round, &seed);
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        rt_prepared prepared;
        f.rows = 30;
        begin(&app, &f, &seed);
        pack(&app, &f, &call, inputs);
        assert_int_equal(rt_kernel_prepare(kernel(), &call, &one_thread, &app.arena, &prepared, &app.report),
                         BASE_OK);
        for (int again = 0; again < 6; again++) {
            static const int64_t rows[] = {1, 30, 0, 9, 8, 3};
            inputs[0].type.shape.dims[1] = rows[again];
            const op_tensor want = run(&app, &call, 1);
            op_tensor got = want;
            assert_true(kernel()->adapt(&call, &one_thread, &prepared));
            got.data = application_memory(&app, got.bytes + 1);
            void *scratch = application_memory(&app, prepared.scratch_bytes);
            assert_int_equal(prepared.run(&prepared, call.inputs, &got, scratch, &app.report), BASE_OK);
            if (got.bytes) assert_memory_equal(got.data, want.data, got.bytes);
        }
        inputs[0].type.shape.dims[1] = -1;
        assert_false(kernel()->adapt(&call, &one_thread, &prepared));
        rt_kernel_release(&prepared);
        application_free(&app);
    }
}

/* What is enough scratch for some rows is enough for fewer. */
static void test_scratch_grows_with_rows(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS / 8; round++) {
        uint64_t seed = round;
        form f = draw_form(round, &seed);
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        begin(&app, &f, &seed);
        pack(&app, &f, &call, inputs);
        size_t before = 0;
        for (int64_t rows = 1; rows <= 20; rows++) {
            rt_prepared prepared;
            inputs[0].type.shape.dims[1] = rows;
            assert_int_equal(
                rt_kernel_prepare(kernel(), &call, &one_thread, &app.arena, &prepared, &app.report), BASE_OK);
            if (prepared.scratch_bytes < before)
                fail_msg("seed %" PRIu64 ": %d rows take less than one less", round, (int)rows);
            before = prepared.scratch_bytes;
            rt_kernel_release(&prepared);
        }
        application_free(&app);
    }
}

/* Panels, and marks, of other sizes were packed for something else. */
static void test_refuses_other_bytes(void **state) {
    (void)state;
    application app;
    uint64_t seed = 4;
    const form f = {.bits = 8,
                    .level = 4,
                    .block = 32,
                    .rows = 2,
                    .depth = 100,
                    .columns = 50,
                    .blocks = 4,
                    .dtype = OP_FLOAT,
                    .zeros = true,
                    .bias = true};
    op_call call;
    op_tensor inputs[APPLICATION_INPUTS];
    rt_prepared prepared = {0};
    begin(&app, &f, &seed);
    pack(&app, &f, &call, inputs);
    for (uint32_t i = CODES; i <= ZEROS; i++) {
        inputs[i].type.packed_bytes++;
        assert_false(kernel()->accepts(&call, &one_thread));
        assert_int_equal(rt_kernel_prepare(kernel(), &call, &one_thread, &app.arena, &prepared, &app.report),
                         BASE_INVALID);
        inputs[i].type.packed_bytes--;
        inputs[i].type.layout = OP_LAYOUT_ROW_MAJOR;
        assert_false(kernel()->accepts(&call, &one_thread));
        inputs[i].type.layout = OP_LAYOUT_PACKED;
    }
    assert_true(kernel()->accepts(&call, &one_thread));
    inputs[BIAS].type.layout = OP_LAYOUT_PACKED;
    assert_false(kernel()->accepts(&call, &one_thread));
    assert_int_equal(kernel()->unpack(&app.call, &one_thread, CODES, &inputs[CODES], NULL, &app.report),
                     BASE_INVALID);
    application_free(&app);
    /* Sizes that are none. */
    size_t bytes;
    const int64_t large = INT64_C(1) << 40;
    const rt_bit_panels panels = {.bits = 8,
                                  .digits = 1,
                                  .zeros = true,
                                  .depth = large,
                                  .columns = large,
                                  .block = 16,
                                  .blocks = large / 16};
    assert_false(rt_bit_panels_bytes(&panels, &bytes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_rows_without_numbers),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_other_rows),
        cmocka_unit_test(test_scratch_grows_with_rows),
        cmocka_unit_test(test_leaves_to_others),
        cmocka_unit_test(test_refuses_other_bytes),
    };
    return cmocka_run_group_tests_name("packed_bits", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_gather_bits.c: GatherNBits, of tables as they lie in a file and in panels, beside codes that are read one by one; indices of both widths, from the
 * front and from the end, and one that is out of range.
 */
#include "runtime/kernels/portable/bit_panels.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { CODES, INDICES, SCALES, ZEROS, ROUNDS = 200 };

static const rt_environment one_thread = {.threads = 1};

typedef struct form {
    int bits;
    int64_t block, depth, columns, blocks, count;
    bool zeros, wide;
} form;

static const rt_kernel *kernel(void) {
    return rt_kernel_of(OP_GATHER_BITS, "portable.gather_bits");
}

static int64_t zero_bytes(const form *f) {
    return (f->blocks * f->bits + 7) / 8;
}

static void fill_bytes(uint8_t *bytes, int64_t count, uint64_t *seed) {
    for (int64_t i = 0; i < count; i++) bytes[i] = (uint8_t)random_next(seed);
}

static form begin(application *app, uint64_t round, uint64_t *seed) {
    form f = {.bits = round % 2 ? 8 : 4,
              .block = 16 << random_range(seed, 0, 4),
              .depth = random_range(seed, 1, 200),
              .columns = random_range(seed, 1, 90),
              .count = random_range(seed, 0, 6),
              .zeros = random_range(seed, 0, 1),
              .wide = random_range(seed, 0, 1)};
    f.blocks = (f.depth + f.block - 1) / f.block;
    const int64_t bytes = f.block * f.bits / 8;
    application_init(app, OP_GATHER_BITS);
    fill_bytes(application_input(app, OP_UINT8, 3, DIMS(f.columns, f.blocks, bytes)),
               f.columns * f.blocks * bytes, seed);
    void *indices = application_input(app, f.wide ? OP_INT64 : OP_INT32, 2, DIMS(1, f.count));
    for (int64_t i = 0; i < f.count; i++) {
        const int64_t index = random_range(seed, -f.columns, f.columns - 1);
        if (f.wide) ((int64_t *)indices)[i] = index;
        else ((int32_t *)indices)[i] = (int32_t)index;
    }
    application_random(app, OP_FLOAT, 2, DIMS(f.columns, f.blocks), seed);
    if (f.zeros)
        fill_bytes(application_input(app, OP_UINT8, 2, DIMS(f.columns, zero_bytes(&f))),
                   f.columns * zero_bytes(&f), seed);
    application_integer(app, "K", f.depth);
    application_integer(app, "N", f.columns);
    application_integer(app, "bits", f.bits);
    application_integer(app, "block_size", f.block);
    assert_int_equal(application_infer(app), BASE_OK);
    assert_int_equal(app->outputs[0].type.shape.rank, 3);
    assert_int_equal(app->outputs[0].type.shape.dims[2], f.depth);
    return f;
}

static int code_of(const uint8_t *bytes, int64_t index, int bits) {
    const int64_t each = 8 / bits;
    return bytes[index / each] >> (int)(index % each) * bits & ((1 << bits) - 1);
}

static int64_t index_of(const application *app, const form *f, int64_t i) {
    const void *indices = app->inputs[INDICES].data;
    const int64_t index = f->wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
    return index < 0 ? index + f->columns : index;
}

static void check(const application *app, const form *f, const op_tensor *y, uint64_t round) {
    const uint8_t *codes = app->inputs[CODES].data;
    for (int64_t i = 0; i < f->count; i++) {
        const int64_t row = index_of(app, f, i);
        for (int64_t k = 0; k < f->depth; k++) {
            const int64_t block = k / f->block;
            const int zero = f->zeros
                                 ? code_of((const uint8_t *)app->inputs[ZEROS].data + row * zero_bytes(f),
                                           block, f->bits)
                                 : 1 << (f->bits - 1),
                      code = code_of(codes, row * f->blocks * f->block + k, f->bits);
            const float scale = ((const float *)app->inputs[SCALES].data)[row * f->blocks + block],
                        want = scale * (float)(code - zero), got = ((const float *)y->data)[i * f->depth + k];
            if (got != want)
                fail_msg("round %" PRIu64 ": element %" PRId64 " of row %" PRId64 " is %g, not %g", round, k,
                         row, (double)got, (double)want);
        }
    }
}

/* The inputs with the table packed. */
static void pack(application *app, const form *f, op_call *call, op_tensor *inputs) {
    const rt_bit_panels panels = {.bits = f->bits,
                                  .zeros = f->zeros,
                                  .depth = f->depth,
                                  .columns = f->columns,
                                  .block = f->block,
                                  .blocks = f->blocks};
    memcpy(inputs, app->inputs, sizeof app->inputs);
    for (uint32_t i = CODES; i < app->call.input_count; i++) {
        size_t bytes = RT_ALIGNMENT;
        if (i == INDICES) continue;
        if (i == CODES) assert_true(rt_bit_panels_bytes(&panels, &bytes));
        inputs[i].type.layout = OP_LAYOUT_PACKED;
        inputs[i].type.packed_bytes = inputs[i].bytes = bytes;
        inputs[i].data = application_memory(app, bytes);
        memset(inputs[i].data, 0, bytes);
        assert_int_equal(
            kernel()->pack(&app->call, &one_thread, i, &app->inputs[i], inputs[i].data, &app->report),
            BASE_OK);
    }
    *call = app->call;
    call->inputs = inputs;
    assert_true(kernel()->accepts(call, &one_thread));
}

static void rows_are_what_codes_say(void **state) {
    (void)state;
    uint64_t seed = 20261128;
    print_message("seed %" PRIu64 "\n", seed);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        application app;
        const form f = begin(&app, round, &seed);
        application_run(&app, "portable.gather_bits", 1 + (int)(round % 3));
        check(&app, &f, &app.outputs[0], round);
        op_tensor inputs[sizeof app.inputs / sizeof *app.inputs], y = app.outputs[0];
        op_call call;
        rt_prepared prepared;
        pack(&app, &f, &call, inputs);
        memset(y.data, 0x7f, y.bytes);
        assert_int_equal(rt_kernel_prepare(kernel(), &call, &one_thread, &app.arena, &prepared, &app.report),
                         BASE_OK);
        assert_int_equal(prepared.run(&prepared, inputs, &y, NULL, &app.report), BASE_OK);
        check(&app, &f, &y, round);
        rt_kernel_release(&prepared);
        application_free(&app);
    }
}

static void rows_that_are_not_there_are_told(void **state) {
    (void)state;
    static const int64_t wrong[] = {-6, 5};
    for (int i = 0; i < 2; i++) {
        application app;
        uint64_t seed = 3;
        application_init(&app, OP_GATHER_BITS);
        memset(application_input(&app, OP_UINT8, 3, DIMS(5, 1, 16)), 0, 80);
        *(int64_t *)application_input(&app, OP_INT64, 0, NULL) = wrong[i];
        application_random(&app, OP_FLOAT, 2, DIMS(5, 1), &seed);
        application_integer(&app, "K", 16);
        application_integer(&app, "N", 5);
        application_integer(&app, "bits", 8);
        application_integer(&app, "block_size", 16);
        assert_int_equal(application_infer(&app), BASE_OK);
        rt_prepared prepared;
        assert_int_equal(
            rt_kernel_prepare(kernel(), &app.call, &one_thread, &app.arena, &prepared, &app.report), BASE_OK);
        app.outputs[0].data = application_memory(&app, 16 * sizeof(float));
        assert_int_equal(prepared.run(&prepared, app.inputs, app.outputs, NULL, &app.report), BASE_INVALID);
        assert_non_null(strstr(app.report.text, "is outside of [-5, 5)"));
        rt_kernel_release(&prepared);
        application_free(&app);
    }
}

static void tables_of_other_sizes_are_refused(void **state) {
    (void)state;
    static const struct {
        int64_t bits, depth, columns;
        const char *message;
    } cases[] = {{2, 16, 5, "tables of 2 bits are not supported"},
                 {8, 32, 5, "input 0 has 80 elements, expected 160"},
                 {8, 16, 4, "input 0 has 80 elements, expected 64"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        application app;
        uint64_t seed = 3;
        application_init(&app, OP_GATHER_BITS);
        application_input(&app, OP_UINT8, 3, DIMS(5, 1, 16));
        application_input(&app, OP_INT64, 1, DIMS(2));
        application_random(&app, OP_FLOAT, 2, DIMS(5, 1), &seed);
        application_integer(&app, "K", cases[i].depth);
        application_integer(&app, "N", cases[i].columns);
        application_integer(&app, "bits", cases[i].bits);
        application_integer(&app, "block_size", 16);
        application_expect_failure(&app, cases[i].message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_what_codes_say),
                                       cmocka_unit_test(rows_that_are_not_there_are_told),
                                       cmocka_unit_test(tables_of_other_sizes_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

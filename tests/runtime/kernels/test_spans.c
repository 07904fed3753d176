/* SPDX-License-Identifier: Apache-2.0 */
/* test_spans.c: rows that lie apart are copied whole, however short they are (runtime/kernels/portable/spans.h): by Concat, Slice, Gather and
 * TensorScatter along the rows of an image; rows of a picture whose colours become innermost; and a few columns of many rows. Nothing beside
 * them is written.
 */
#include "tests/support/application.h"
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 300, GUARD = 64 };

typedef struct image {
    int64_t channels, rows, width;
} image;

static image draw_image(uint64_t *seed) {
    return (image){random_range(seed, 1, 9), random_range(seed, 2, 6), random_range(seed, 1, 300)};
}

/* Output 0 between bytes that must stay; `fill` is what it holds before. */
static char *guard_output(application *app, const void *fill) {
    assert_int_equal(application_infer(app), BASE_OK);
    op_tensor *y = &app->outputs[0];
    assert_true(op_type_bytes(&y->type, &y->bytes));
    char *memory = application_memory(app, y->bytes + 2 * GUARD);
    memset(memory, 0x5a, y->bytes + 2 * GUARD);
    y->data = memory + GUARD;
    if (fill) memcpy(y->data, fill, y->bytes);
    return memory;
}

static void check_guards(const application *app, const char *memory) {
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(memory[i], 0x5a);
        assert_int_equal(memory[GUARD + app->outputs[0].bytes + i], 0x5a);
    }
}

static uint32_t word(const void *words, int64_t at) {
    uint32_t value;
    memcpy(&value, (const char *)words + at * 4, sizeof value);
    return value;
}

static void *add_integers(application *app, int64_t count, const int64_t *values) {
    void *data = application_input(app, OP_INT64, 1, DIMS(count));
    return memcpy(data, values, (size_t)count * sizeof *values);
}

/* Boxes: a few numbers of each of many rows, from any one on, of every size of element, forwards and backwards. */
static void a_few_columns_of_many_rows(void **unused) {
    (void)unused;
    static const op_dtype dtypes[] = {OP_UINT8, OP_INT16, OP_FLOAT, OP_DOUBLE, OP_COMPLEX128};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        const op_dtype dtype = dtypes[round % 5];
        const int64_t images = random_range(&seed, 1, 3), rows = random_range(&seed, 1, 70),
                      columns = random_range(&seed, 1, 9), first = random_range(&seed, 0, columns - 1),
                      step = random_range(&seed, 0, 3)   ? 1
                             : random_range(&seed, 0, 1) ? 2
                                                         : -1,
                      end = step > 0 ? random_range(&seed, first + 1, columns) : -columns - 1,
                      row_step = random_range(&seed, 0, 3) ? 1 : 2;
        const size_t size = op_dtype_bytes(dtype);
        application_init(&app, OP_SLICE);
        uint8_t *x = application_input(&app, dtype, 3, DIMS(images, rows, columns));
        for (size_t i = 0; i < (size_t)(images * rows * columns) * size; i++)
            x[i] = (uint8_t)random_range(&seed, 0, 255);
        add_integers(&app, 2, DIMS(0, first));
        add_integers(&app, 2, DIMS(rows, end));
        add_integers(&app, 2, DIMS(1, 2));
        add_integers(&app, 2, DIMS(row_step, step));
        const char *memory = guard_output(&app, NULL);
        application_run(&app, "portable.slice", 1 + (int)(round % 3));
        const int64_t *y = app.outputs[0].type.shape.dims;
        for (int64_t i = 0; i < y[0] * y[1] * y[2]; i++) {
            const int64_t row = i / y[2] % y[1] * row_step, column = first + i % y[2] * step,
                          at = (i / y[2] / y[1] * rows + row) * columns + column;
            assert_memory_equal((const char *)app.outputs[0].data + (size_t)i * size, x + (size_t)at * size,
                                size);
        }
        check_guards(&app, memory);
        application_free(&app);
    }
}

static void kept_and_new_rows_side_by_side(void **unused) {
    (void)unused;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        const image m = draw_image(&seed);
        const int64_t kept = random_range(&seed, 1, 3), all = kept + m.rows;
        application_init(&app, OP_CONCAT);
        const void *a = application_random(&app, OP_FLOAT, 4, DIMS(1, m.channels, kept, m.width), &seed);
        const void *b = application_random(&app, OP_FLOAT, 4, DIMS(1, m.channels, m.rows, m.width), &seed);
        application_integer(&app, "axis", 2);
        const char *memory = guard_output(&app, NULL);
        application_run(&app, "portable.concat", 1);
        for (int64_t c = 0; c < m.channels; c++)
            for (int64_t i = 0; i < all * m.width; i++) {
                const int64_t first = kept * m.width;
                assert_int_equal(word(app.outputs[0].data, c * all * m.width + i),
                                 i < first ? word(a, c * first + i)
                                           : word(b, c * m.rows * m.width + i - first));
            }
        check_guards(&app, memory);
        application_free(&app);
    }
}

/* One or two rows of many bytes, which threads share: joined, and taken apart again. */
static void threads_share_long_rows(void **unused) {
    (void)unused;
    enum { PARTS = 3, LONG = 200000, SOME_ROUNDS = 40 };
    for (uint64_t round = 1; round <= SOME_ROUNDS; round++) {
        uint64_t seed = round;
        application joined, apart;
        const int64_t rows = random_range(&seed, 1, 2);
        const int threads = (int)random_range(&seed, 1, 5);
        int64_t sizes[PARTS], all = 0;
        char *parts[PARTS];
        application_init(&joined, OP_CONCAT);
        for (int i = 0; i < PARTS; i++) {
            sizes[i] = random_range(&seed, 0, 3) ? random_range(&seed, 1, LONG) : random_range(&seed, 0, 70);
            all += sizes[i];
            parts[i] = application_input(&joined, OP_UINT8, 2, DIMS(rows, sizes[i]));
            for (int64_t k = 0; k < rows * sizes[i]; k++) parts[i][k] = (char)random_next(&seed);
        }
        application_integer(&joined, "axis", 1);
        const char *memory = guard_output(&joined, NULL), *whole = memory + GUARD;
        application_run(&joined, "portable.concat", threads);
        check_guards(&joined, memory);
        application_init(&apart, OP_SPLIT);
        memcpy(application_input(&apart, OP_UINT8, 2, DIMS(rows, all)), whole, (size_t)(rows * all));
        add_integers(&apart, PARTS, sizes);
        application_integer(&apart, "axis", 1);
        apart.call.output_count = PARTS;
        application_run(&apart, "portable.split", threads);
        for (int64_t row = 0, at = 0; row < rows; row++) {
            for (int i = 0; i < PARTS; at += sizes[i++]) {
                const size_t size = (size_t)sizes[i];
                assert_memory_equal(whole + at, parts[i] + row * sizes[i], size);
                assert_memory_equal((const char *)apart.outputs[i].data + row * sizes[i],
                                    parts[i] + row * sizes[i], size);
            }
        }
        application_free(&joined);
        application_free(&apart);
    }
}

static void some_rows_are_cut_off(void **unused) {
    (void)unused;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        const image m = draw_image(&seed);
        const int64_t first = random_range(&seed, 0, m.rows - 1),
                      end = random_range(&seed, first + 1, m.rows);
        application_init(&app, OP_SLICE);
        const void *x = application_random(&app, OP_FLOAT, 4, DIMS(1, m.channels, m.rows, m.width), &seed);
        add_integers(&app, 1, &first);
        add_integers(&app, 1, &end);
        add_integers(&app, 1, DIMS(2));
        const char *memory = guard_output(&app, NULL);
        application_run(&app, "portable.slice", 1);
        const int64_t count = (end - first) * m.width;
        for (int64_t i = 0; i < m.channels * count; i++)
            assert_int_equal(word(app.outputs[0].data, i),
                             word(x, (i / count * m.rows + first) * m.width + i % count));
        check_guards(&app, memory);
        application_free(&app);
    }
}

static void rows_and_channels_are_gathered(void **unused) {
    (void)unused;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        const image m = draw_image(&seed);
        const int64_t axis = random_range(&seed, 1, 2), extent = axis == 1 ? m.channels : m.rows,
                      outer = axis == 1 ? 1 : m.channels, inner = axis == 1 ? m.rows * m.width : m.width;
        int64_t indices[8];
        const int64_t count = random_range(&seed, 1, 8);
        for (int64_t i = 0; i < count; i++) indices[i] = random_range(&seed, -extent, extent - 1);
        application_init(&app, OP_GATHER);
        const void *x = application_random(&app, OP_FLOAT, 4, DIMS(1, m.channels, m.rows, m.width), &seed);
        add_integers(&app, count, indices);
        application_integer(&app, "axis", axis);
        const char *memory = guard_output(&app, NULL);
        application_run(&app, "portable.gather", round % 2 ? 1 : 3);
        for (int64_t i = 0; i < outer * count * inner; i++) {
            const int64_t index = indices[i / inner % count], from = index < 0 ? index + extent : index;
            assert_int_equal(word(app.outputs[0].data, i),
                             word(x, (i / inner / count * extent + from) * inner + i % inner));
        }
        check_guards(&app, memory);
        application_free(&app);
    }
}

static void a_band_goes_to_its_rows(void **unused) {
    (void)unused;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        const image m = draw_image(&seed);
        const int64_t all = m.rows + random_range(&seed, 0, 4), start = random_range(&seed, 0, all - m.rows);
        application_init(&app, OP_TENSOR_SCATTER);
        const void *x = application_random(&app, OP_FLOAT, 4, DIMS(1, m.channels, all, m.width), &seed);
        const void *band = application_random(&app, OP_FLOAT, 4, DIMS(1, m.channels, m.rows, m.width), &seed);
        add_integers(&app, 1, &start);
        application_integer(&app, "axis", 2);
        const char *memory = guard_output(&app, NULL);
        application_run(&app, "portable.tensor_scatter", 1);
        for (int64_t i = 0; i < m.channels * all * m.width; i++) {
            const int64_t row = i / m.width % all - start, channel = i / m.width / all;
            assert_int_equal(word(app.outputs[0].data, i),
                             row < 0 || row >= m.rows
                                 ? word(x, i)
                                 : word(band, (channel * m.rows + row) * m.width + i % m.width));
        }
        check_guards(&app, memory);
        application_free(&app);
    }
}

static void colours_become_innermost(void **unused) {
    (void)unused;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        image m = draw_image(&seed);
        if (round % 4) m.channels = 3;
        int64_t indices[6];
        for (int64_t i = 0; i < m.rows; i++) indices[i] = random_range(&seed, 0, m.rows - 1);
        application_init(&app, OP_GATHER);
        const void *x = application_random(&app, OP_FLOAT, 4, DIMS(1, m.channels, m.rows, m.width), &seed);
        add_integers(&app, m.rows, indices);
        application_integer(&app, "axis", 2);
        const char *memory = guard_output(&app, NULL);
        app.outputs[0].type.layout = OP_LAYOUT_NHWC;
        application_run(&app, "portable.gather", 1);
        for (int64_t i = 0; i < m.channels * m.rows * m.width; i++) {
            const int64_t channel = i % m.channels, column = i / m.channels % m.width,
                          row = i / m.channels / m.width;
            assert_int_equal(word(app.outputs[0].data, i),
                             word(x, (channel * m.rows + indices[row]) * m.width + column));
        }
        check_guards(&app, memory);
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_columns_of_many_rows), cmocka_unit_test(kept_and_new_rows_side_by_side),
        cmocka_unit_test(some_rows_are_cut_off),      cmocka_unit_test(rows_and_channels_are_gathered),
        cmocka_unit_test(a_band_goes_to_its_rows),    cmocka_unit_test(colours_become_innermost),
        cmocka_unit_test(threads_share_long_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

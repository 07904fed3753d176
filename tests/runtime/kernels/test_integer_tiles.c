/* SPDX-License-Identifier: Apache-2.0 */
/* test_integer_tiles.c: products of bytes in tiles against those that other instructions make, and against sums made one product at a time: to the bit. */
#include "runtime/kernels/portable/filter_tiles.h"
#include "runtime/kernels/portable/integer_tiles.h"
#include "tests/support/application.h"
#include "tests/support/operators.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 150, ROWS = 80, COLUMNS = 300, DEPTH = 1100, PITCH = COLUMNS + 9 };

static int32_t byte_at(op_dtype dtype, const uint8_t *bytes, int64_t index) {
    return dtype == OP_INT8 ? (int8_t)bytes[index] : bytes[index];
}

static void random_bytes(uint8_t *bytes, int64_t count, uint64_t *seed) {
    for (int64_t i = 0; i < count; i++) bytes[i] = (uint8_t)random_next(seed);
}

static void random_zeros(op_dtype dtype, int16_t *zeros, int64_t count, uint64_t *seed) {
    for (int64_t i = 0; i < count; i++)
        zeros[i] = (int16_t)(random_range(seed, 0, 255) - (dtype == OP_INT8 ? 128 : 0));
}

/* Sums as both engines hand them out. */
typedef struct taken {
    int32_t sums[ROWS][PITCH];
    int64_t numbers, columns;
} taken;

static void take_rows(const void *results, int64_t row, int64_t rows, const int32_t *sums, int64_t pitch) {
    taken *to = *(taken *const *)results;
    for (int64_t i = 0; i < rows; i++)
        memcpy(to->sums[row + i], sums + i * pitch, (size_t)to->columns * sizeof *sums);
}

static void take_part(const void *results, int64_t row, int64_t rows, int64_t column, int64_t columns,
                      const int32_t *sums, int64_t pitch) {
    taken *to = *(taken *const *)results;
    to->numbers += rows * columns;
    for (int64_t i = 0; i < rows; i++)
        memcpy(to->sums[row + i] + column, sums + i * pitch, (size_t)columns * sizeof *sums);
}

static void mark(taken *to, int64_t columns) {
    memset(to, 0x5a, sizeof *to);
    to->columns = columns;
    to->numbers = 0;
}

static int32_t sum_of(const rt_integer_block *block, const uint8_t *b, int64_t row, int64_t column) {
    int32_t sum = 0;
    for (int64_t k = 0; k < block->depth; k++)
        sum += (byte_at(block->a_dtype, block->a, row * block->a_row + k) - block->a_zeros[row]) *
               (byte_at(block->b_dtype, b, k * block->packed_columns + block->packed_column + column) -
                block->b_zeros[block->b_each ? column : 0]);
    return sum;
}

static void compare(const rt_integer_block *block, const uint8_t *b, void *scratch, int round) {
    static taken other, parts, whole;
    const taken *to = &other;
    rt_integer_block by_others = *block;
    by_others.finish = take_rows;
    by_others.results = &to;
    mark(&other, block->columns);
    rt_integer_block_run(&by_others, scratch);
    taken *into = &parts;
    mark(&parts, block->columns);
    rt_byte_tiles_run(block, &(rt_byte_tiles_results){.finish = take_part, .results = &into});
    assert_int_equal(parts.numbers, block->rows * block->columns);
    mark(&whole, block->columns);
    rt_byte_tiles_run(block, &(rt_byte_tiles_results){.sums = whole.sums[0], .sums_row = PITCH});
    assert_memory_equal(parts.sums, other.sums, sizeof parts.sums);
    assert_memory_equal(whole.sums, other.sums, sizeof whole.sums); /* what lies beside is left alone */
    for (int64_t row = 0; row < block->rows; row += 1 + round % 7) {
        for (int64_t column = round % 5; column < block->columns; column += 11)
            assert_int_equal(whole.sums[row][column], sum_of(block, b, row, column));
    }
}

static void tiles_give_the_same_sums(void **state) {
    (void)state;
    static uint8_t a[ROWS * (DEPTH + 20)], b[DEPTH * COLUMNS];
    static _Alignas(64) uint8_t packed[(DEPTH + 8) * (COLUMNS + 16)];
    static _Alignas(64) char scratch[1 << 22];
    if (!rt_byte_tiles_wanted()) {
        skip(); /* the machine has none */
        return;
    }
    uint64_t seed = 41;
    for (int round = 0; round < ROUNDS; round++) {
        const bool large = round % 5 == 0;
        const int64_t depth = random_range(&seed, 1, large ? DEPTH : 200),
                      columns = random_range(&seed, 1, COLUMNS),
                      first = random_range(&seed, 0, (columns - 1) / RT_INTEGER_PANEL) * RT_INTEGER_PANEL;
        const op_dtype a_dtype = round % 2 ? OP_INT8 : OP_UINT8, b_dtype = round % 4 < 2 ? OP_INT8 : OP_UINT8;
        const bool same = round % 3 != 0;
        int16_t a_zeros[ROWS], b_zeros[COLUMNS];
        random_bytes(a, sizeof a, &seed);
        random_bytes(b, depth * columns, &seed);
        random_zeros(a_dtype, a_zeros, ROWS, &seed);
        random_zeros(b_dtype, b_zeros, COLUMNS, &seed);
        for (int i = 0; i < ROWS && same; i++) a_zeros[i] = a_zeros[0];
        if (round % 7 == 0) b_zeros[0] = b_dtype == OP_INT8 ? -128 : 0; /* nothing to put right */
        size_t bytes;
        assert_true(rt_integer_packed_bytes(depth, columns, &bytes) && bytes <= sizeof packed);
        rt_integer_pack(b_dtype, b, depth, columns, packed);
        const rt_integer_block block = {.rows = random_range(&seed, 1, ROWS),
                                        .columns = random_range(&seed, 1, columns - first),
                                        .depth = depth,
                                        .a_dtype = a_dtype,
                                        .b_dtype = b_dtype,
                                        .a = a,
                                        .a_row = depth + random_range(&seed, 0, 20),
                                        .a_zeros = a_zeros,
                                        .b_zeros = b_zeros,
                                        .b_each = round % 6 < 3,
                                        .packed = packed,
                                        .packed_column = first,
                                        .packed_columns = columns};
        assert_true(rt_integer_scratch(block.rows, block.columns, depth, true) <= sizeof scratch);
        compare(&block, b, scratch, round);
    }
}

/* ---- filters ------------------------------------------------------------------------------------------- */

enum { FILTERS = 90, QUADS = 1600, POSITIONS = 300, PLANE = 4 * (POSITIONS + 80) };

/* Sums of filters. */
typedef struct taken_filters {
    int32_t sums[FILTERS][POSITIONS];
    int64_t numbers, columns;
} taken_filters;

/* Quadruples as an image has them: where each begins, and bytes of the panel that begins at column 16 p from `panels[p]` on. */
typedef struct quadruples {
    const uint8_t *image;
    const int64_t *offsets, *panels;
    int64_t columns;
} quadruples;

static void fill_panels(const void *context, int64_t first, int64_t count, uint8_t *to) {
    const quadruples *from = context;
    for (int64_t p = 0; p * RT_INTEGER_PANEL < from->columns; p++) {
        for (int64_t k = 0; k < count; k++, to += 4 * RT_INTEGER_PANEL)
            memcpy(to, from->image + from->panels[p] + from->offsets[first + k], 4 * RT_INTEGER_PANEL);
    }
}

static void take_filters(const void *results, int64_t row, int64_t rows, const int32_t *sums, int64_t pitch) {
    taken_filters *to = *(taken_filters *const *)results;
    to->numbers += rows * to->columns;
    for (int64_t i = 0; i < rows; i++)
        memcpy(to->sums[row + i], sums + i * pitch, (size_t)to->columns * sizeof *sums);
}

static void compare_filters(const rt_filters_block *block, void *scratch, int round) {
    static taken_filters by_tiles, by_others;
    for (int time = 0; time < 2; time++) {
        taken_filters *to = time ? &by_tiles : &by_others;
        rt_filters_block one = *block;
        memset(to, 0x5a, sizeof *to);
        to->columns = block->columns;
        to->numbers = 0;
        one.tiles = time;
        one.finish = take_filters;
        one.results = &to;
        rt_filters_block_run(&one, scratch);
        assert_int_equal(to->numbers, block->rows * block->columns);
    }
    if (memcmp(by_tiles.sums, by_others.sums, sizeof by_tiles.sums) != 0)
        fail_msg("round %d: %d filters, %d columns, %d quadruples", round, (int)block->rows,
                 (int)block->columns, (int)block->quads);
}

static void filters_in_tiles_give_the_same_sums(void **state) {
    (void)state;
    static uint8_t image[(QUADS + 4) * PLANE];
    static _Alignas(64) uint8_t w[FILTERS * 4 * QUADS], arranged[FILTERS * (4 * QUADS + 4)];
    static _Alignas(64) char scratch[1 << 23];
    static int64_t offsets[QUADS];
    if (!rt_byte_tiles_wanted()) {
        skip(); /* the machine has none */
        return;
    }
    uint64_t seed = 43;
    random_bytes(image, sizeof image, &seed);
    int fitting = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const bool deep = round % 6 == 0, linear = round % 4 == 3;
        const int64_t taps = linear ? 1 : random_range(&seed, 1, 9),
                      fours = random_range(&seed, 1, deep ? QUADS / taps : 40);
        /* Three channels do not make quadruples of channels. */
        const rt_filters_shape shape =
            linear ? (rt_filters_shape){3, fours} : (rt_filters_shape){4 * fours, taps};
        const int64_t quads = rt_filters_quads(shape), rows = random_range(&seed, 1, FILTERS),
                      columns = random_range(&seed, 1, round % 8 ? 256 : POSITIONS),
                      depth = shape.channels * shape.taps;
        const op_dtype dtype = round % 2 ? OP_INT8 : OP_UINT8;
        int16_t zeros[FILTERS];
        int32_t biases[FILTERS];
        int64_t panels[POSITIONS / RT_INTEGER_PANEL + 1];
        random_bytes(w, rows * depth, &seed);
        rt_filters_arrange(dtype, w, 1, rows, shape, arranged);
        for (int i = 0; i < FILTERS; i++) {
            zeros[i] = (int16_t)(round % 3 ? random_range(&seed, 0, 100) : dtype == OP_UINT8 ? 128 : 0);
            biases[i] = (int32_t)random_next(&seed);
        }
        for (int64_t k = 0; k < quads; k++) /* window elements follow each other in a line */
            offsets[k] = linear ? k * PLANE : k / taps * PLANE + k % taps * 4;
        for (int64_t p = 0; p * RT_INTEGER_PANEL < columns; p++)
            panels[p] = 4 * RT_INTEGER_PANEL * p + 4 * random_range(&seed, 0, 9);
        const quadruples from = {image, offsets, panels, columns};
        const bool filled = linear || round % 3 == 0;
        const rt_filters_block block = {
            .filters = (const int8_t *)arranged,
            .sums = (const int32_t *)(const void *)(arranged + rows * 4 * quads),
            .zeros = zeros,
            .biases = round % 5 ? biases : NULL,
            .filter_dtype = dtype,
            .image_dtype = round % 7 < 3 ? OP_INT8 : OP_UINT8,
            .image_zero = (int16_t)random_range(&seed, 0, 100),
            .rows = rows,
            .columns = columns,
            .depth = depth,
            .quads = quads,
            .step = linear ? 1 : taps,
            .image = filled ? NULL : image,
            .panels = panels,
            .offsets = offsets,
            .fill = fill_panels,
            .context = &from,
        };
        assert_true(rt_filters_scratch(rows, columns, quads, filled) <= sizeof scratch);
        fitting += rt_filter_tiles_fit(rows, columns, quads, block.step);
        compare_filters(&block, scratch, round);
    }
    assert_true(fitting > ROUNDS / 4);
}

/* The system allows tiles to a process, and each thread has its own. */
static void asking_again_changes_nothing(void **state) {
    (void)state;
    const bool wanted = rt_byte_tiles_wanted();
    for (int i = 0; i < 3; i++) assert_int_equal(rt_byte_tiles_wanted(), wanted);
    if (wanted) assert_true(rt_integer_packs()); /* they read what is packed for that */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_give_the_same_sums),
                                       cmocka_unit_test(filters_in_tiles_give_the_same_sums),
                                       cmocka_unit_test(asking_again_changes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

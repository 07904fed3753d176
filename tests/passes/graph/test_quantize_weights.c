/* SPDX-License-Identifier: Apache-2.0 */
/* test_quantize_weights.c: products with weights in 8 and 4 bits, and in half precision, are off from those in float by what the pass
 * says, with and without bias, transposed or not, in panels or as they lie in a file; what is small or no constant, or out of range, stays as it is. */
#include "runtime/kernels/portable/bit_panels.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 3, DEPTH = 70, COLUMNS = 96, LENGTH = 1 << 18 };

static float random_number(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return (float)((int32_t)*state >> 8) / (float)(1 << 23);
}

static void write_numbers(support_writer *to, const float *numbers, int count) {
    support_write(to, "{");
    for (int i = 0; i < count; i++) support_write(to, "%s%.9g", i ? ", " : "", (double)numbers[i]);
    support_write(to, "}\n");
}

/* What `y` and `z` are: x w + b, and x w' with the same numbers transposed. */
static const char *const bodies[] = {
    "graph main(%x: float32[3,70]) {\n"
    " %p: float32[3,96] = MatMul(%x, %w) %y: float32[3,96] = Add(%b, %p)\n"
    " %z: float32[3,70] = Gemm(%y, %w) {transB = 1}\n"
    " yield %y, %z } }\n",
    "graph main(%x: float32[3,70]) {\n"
    " %y: float32[3,96] = Gemm(%x, %w, %b)\n"
    " %z: float32[3,70] = Gemm(%y, %w) {transB = 1}\n"
    " yield %y, %z } }\n",
};

typedef struct numbers {
    float w[DEPTH * COLUMNS], b[COLUMNS], x[ROWS * DEPTH];
} numbers;

static char *make_text(const numbers *of, const char *body) {
    char *text = malloc(LENGTH);
    assert_non_null(text);
    support_writer to = support_writer_on(text, LENGTH);
    support_write(&to, "module \"m\" {\n constant %%w: float32[70,96] = ");
    write_numbers(&to, of->w, DEPTH * COLUMNS);
    support_write(&to, " constant %%b: float32[96] = ");
    write_numbers(&to, of->b, COLUMNS);
    support_write(&to, "%s", body);
    return text;
}

/* The error of `made` over the size of `wanted`, both as root mean squares. */
static double relative_error(const float *made, const double *wanted, int count) {
    double lost = 0, whole = 0;
    for (int i = 0; i < count; i++) {
        lost += (made[i] - wanted[i]) * (made[i] - wanted[i]);
        whole += wanted[i] * wanted[i];
    }
    return sqrt(lost / whole);
}

static uint64_t count_nodes(const plan *of, const char *operator_name) {
    uint64_t count = 0;
    for (uint64_t n = 0; n < of->header->nodes.count; n++)
        count += strcmp(of->texts + of->nodes[n].operator_name, operator_name) == 0;
    return count;
}

/* How far the products are from those in double. */
static void find_errors(const numbers *of, const float *y, const float *z, double *first, double *second) {
    double want[ROWS * COLUMNS], back[ROWS * DEPTH];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        want[i] = (double)of->b[i % COLUMNS];
        for (int k = 0; k < DEPTH; k++)
            want[i] += (double)of->x[i / COLUMNS * DEPTH + k] * (double)of->w[k * COLUMNS + i % COLUMNS];
    }
    for (int i = 0; i < ROWS * DEPTH; i++) {
        back[i] = 0;
        for (int k = 0; k < COLUMNS; k++)
            back[i] += (double)y[i / DEPTH * COLUMNS + k] * (double)of->w[i % DEPTH * COLUMNS + k];
    }
    *first = relative_error(y, want, ROWS * COLUMNS);
    *second = relative_error(z, back, ROWS * DEPTH);
}

static void products_are_about_the_same(void **state) {
    (void)state;
    numbers of;
    uint32_t seed = 7;
    for (int i = 0; i < DEPTH * COLUMNS; i++) of.w[i] = random_number(&seed);
    for (int i = 0; i < COLUMNS; i++) of.b[i] = random_number(&seed);
    for (int i = 0; i < ROWS * DEPTH; i++) of.x[i] = random_number(&seed);
    for (size_t i = 0; i < sizeof(of.w) / sizeof(float); i += 97) of.w[i] = 0;
    for (int bits = 4; bits <= 8; bits += 4) {
        for (size_t form = 0; form < sizeof bodies / sizeof *bodies; form++) {
            char *text = make_text(&of, bodies[form]);
            const pass_options options = {.weight_bits = bits,
                                          .environment = {.threads = 1, .portable_only = true}};
            support_session on;
            support_session_open_with(&on, text, &options);
            const plan *made = rt_plan_of(on.plan);
            assert_int_equal(count_nodes(made, "MatMulNBits"), 2);
            assert_int_equal(count_nodes(made, "MatMul") + count_nodes(made, "Gemm"), 0);
            const int block = bits == 4 ? 32 : 64,
                      blocks = (DEPTH + block - 1) / block * COLUMNS + (COLUMNS + block - 1) / block * DEPTH;
            assert_in_range(made->header->constants_bytes, blocks * (block * bits / 8 + 4) + COLUMNS * 4,
                            blocks * (block * bits / 8 + 4) + COLUMNS * 4 + 5 * 64);
            support_bind(&on, 0, of.x, sizeof of.x);
            support_run(&on);
            const float *y = support_output(&on, 0, ROWS * COLUMNS * sizeof(float)),
                        *z = support_output(&on, 1, ROWS * DEPTH * sizeof(float));
            double first, second;
            find_errors(&of, y, z, &first, &second);
            /* Numbers spread evenly over [-1, 1] in steps of 1/8 or 1/128 are off by 1/sqrt(12) of a step. */
            const double expected = sqrt(3.0 / 12) / (bits == 4 ? 8 : 128);
            print_message("%d bits: %g and %g, expected %g\n", bits, first, second, expected);
            assert_true(first < 1.3 * expected && second < 1.3 * expected);
            assert_true(first > 0.5 * expected && second > 0.5 * expected);
            support_session_close(&on);
            free(text);
        }
    }
}

/* On machines that multiply bytes, products have their weights in panels: one matrix that two of them read stands there once. */
static void weights_are_in_panels(void **state) {
    (void)state;
    static const char *const shared = "graph main(%x: float32[3,70], %v: float32[40,70]) {\n"
                                      " %p: float32[3,96] = MatMul(%x, %w) %y: float32[3,96] = Add(%b, %p)\n"
                                      " %z: float32[3,70] = Gemm(%y, %w) {transB = 1}\n"
                                      " %many: float32[40,96] = MatMul(%v, %w)\n"
                                      " yield %y, %z, %many } }\n";
    numbers of;
    uint32_t seed = 13;
    float v[40 * DEPTH];
    for (int i = 0; i < DEPTH * COLUMNS; i++) of.w[i] = random_number(&seed);
    for (int i = 0; i < COLUMNS; i++) of.b[i] = random_number(&seed);
    for (int i = 0; i < ROWS * DEPTH; i++) of.x[i] = random_number(&seed);
    for (int i = 0; i < 40 * DEPTH; i++) v[i] = i < ROWS * DEPTH ? of.x[i] : random_number(&seed);
    char *text = make_text(&of, shared);
    for (int bits = 4; bits <= 8; bits += 4) {
        for (int portable = 0; portable < 2; portable++) {
            const pass_options options = {.weight_bits = bits,
                                          .environment = {.threads = 1, .portable_only = portable}};
            support_session on;
            support_session_open_with(&on, text, &options);
            const plan *made = rt_plan_of(on.plan);
            const size_t panels = portable || !rt_bit_panels_here() ? 0 : 3;
            assert_int_equal(support_count_kernel(made, "portable.packed_bits"), panels);
            assert_int_equal(support_count_kernel(made, "portable.matmul_bits"), 3 - panels);
            const int block = bits == 4 ? 32 : 64, registers = block * bits / 8 / 4 + 1,
                      of_w = (COLUMNS + 15) / 16, turned = (DEPTH + 15) / 16,
                      bytes =
                          64 * registers *
                          (of_w * ((DEPTH + block - 1) / block) + turned * ((COLUMNS + block - 1) / block));
            if (panels) assert_in_range(made->header->constants_bytes, bytes, bytes + COLUMNS * 4 + 5 * 64);
            support_bind(&on, 0, of.x, sizeof of.x);
            support_bind(&on, 1, v, sizeof v);
            support_run(&on);
            double first, second;
            const float *y = support_output(&on, 0, ROWS * COLUMNS * sizeof(float)),
                        *many = support_output(&on, 2, 40 * COLUMNS * sizeof(float));
            find_errors(&of, y, support_output(&on, 1, ROWS * DEPTH * sizeof(float)), &first, &second);
            const double expected = sqrt(3.0 / 12) / (bits == 4 ? 8 : 128);
            assert_true(first < 1.3 * expected && second < 1.3 * expected);
            /* The same weights: the first rows of both are as near as digits tell. */
            for (int i = 0; i < ROWS * COLUMNS; i++)
                assert_true(fabsf(many[i] + of.b[i % COLUMNS] - y[i]) < (bits == 4 ? 0.1f : 0.001f));
            support_session_close(&on);
        }
    }
    free(text);
}

/* A table is gathered from the codes of the product whose columns are its rows: of the same constant, or of one that is turned round. Where others
 * read it in float, too, or numbers differ, it stays as it is. */
static void tables_are_gathered_from_codes(void **state) {
    (void)state;
    enum { ONE_CONSTANT, TURNED, READ_TOO, OTHER_NUMBERS, TIES, ROWS_OF_TABLE = 4 };
    static const char *const tied_bodies[] = {"graph main(%i: int64[4], %x: float32[3,96]) {\n"
                                              " %e: float32[4,96] = Gather(%w, %i)\n"
                                              " %z: float32[3,70] = Gemm(%x, %w) {transB = 1}\n"
                                              " yield %e, %z } }\n",
                                              "graph main(%i: int64[4], %x: float32[3,70]) {\n"
                                              " %e: float32[4,70] = Gather(%t, %i)\n"
                                              " %z: float32[3,96] = MatMul(%x, %w)\n"
                                              " yield %e, %z } }\n",
                                              "graph main(%i: int64[4], %x: float32[3,96], %v: float32[]) {\n"
                                              " %e: float32[4,96] = Gather(%w, %i)\n"
                                              " %z: float32[3,70] = Gemm(%x, %w) {transB = 1}\n"
                                              " %m: float32[70,96] = Mul(%w, %v)\n"
                                              " yield %e, %z, %m } }\n",
                                              "graph main(%i: int64[4], %x: float32[3,70]) {\n"
                                              " %e: float32[4,70] = Gather(%t, %i)\n"
                                              " %z: float32[3,96] = MatMul(%x, %w)\n"
                                              " yield %e, %z } }\n"};
    static const int64_t rows[ROWS_OF_TABLE] = {0, 69, -1, 33};
    numbers of;
    float x[ROWS * COLUMNS];
    uint32_t seed = 17;
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = random_number(&seed);
    for (int i = 0; i < DEPTH * COLUMNS; i++) of.w[i] = random_number(&seed);
    for (int i = 0; i < COLUMNS; i++) of.b[i] = 0;
    for (int tie = 0; tie < TIES; tie++) {
        const bool turned = tie == TURNED || tie == OTHER_NUMBERS;
        const int length = turned ? DEPTH : COLUMNS, count = turned ? COLUMNS : DEPTH;
        float table[DEPTH * COLUMNS];
        for (int i = 0; i < DEPTH * COLUMNS; i++)
            table[i] = turned ? of.w[i % DEPTH * COLUMNS + i / DEPTH] : of.w[i];
        if (tie == OTHER_NUMBERS) table[77] += 1;
        char *body = malloc(LENGTH);
        assert_non_null(body);
        support_writer to = support_writer_on(body, LENGTH);
        if (turned) {
            support_write(&to, " constant %%t: float32[96,70] = ");
            write_numbers(&to, table, DEPTH * COLUMNS);
        }
        support_write(&to, "%s", tied_bodies[tie]);
        char *text = make_text(&of, body);
        for (int form = 0; form < 4; form++) {
            const int bits = form % 2 ? 8 : 4;
            const pass_options options = {.weight_bits = bits,
                                          .environment = {.threads = 1, .portable_only = form / 2}};
            const float value = 1;
            support_session on;
            support_session_open_with(&on, text, &options);
            const plan *made = rt_plan_of(on.plan);
            const bool tied = tie == ONE_CONSTANT || tie == TURNED;
            assert_int_equal(count_nodes(made, "GatherNBits"), tied);
            assert_int_equal(count_nodes(made, "Gather"), !tied);
            /* Codes and scales once, with what fills up panels. */
            if (tied) assert_true(made->header->constants_bytes < DEPTH * COLUMNS * (bits == 4 ? 1 : 2));
            support_bind(&on, 0, rows, sizeof rows);
            support_bind(&on, 1, x, (size_t)ROWS * (size_t)length * sizeof *x);
            if (tie == READ_TOO) support_bind(&on, 2, &value, sizeof value);
            support_run(&on);
            const float *e = support_output(&on, 0, (size_t)ROWS_OF_TABLE * (size_t)length * sizeof *e);
            for (int i = 0; i < ROWS_OF_TABLE * length; i++) {
                const int64_t row = rows[i / length] < 0 ? rows[i / length] + count : rows[i / length];
                const float off = fabsf(e[i] - table[row * length + i % length]);
                /* A step of numbers up to 1: there is no code for as far as the furthest, on its other side. */
                if (off > (tied ? 1.1f / (float)(1 << (bits - 1)) : 0))
                    fail_msg("tie %d, %d bits: element %d is off by %g", tie, bits, i, (double)off);
            }
            support_session_close(&on);
        }
        free(text);
        free(body);
    }
}

/* Weights that are given, few, or not all finite. */
static void others_stay(void **state) {
    (void)state;
    static const char *const kept[] = {
        ("graph main(%x: float32[3,70], %v: float32[70,96]) {\n"
         " %y: float32[3,96] = MatMul(%x, %v) %z: float32[3,96] = Add(%y, %b) yield %z } }\n"),
        "graph main(%x: float32[3,96]) { %z: float32[3,24] = Gemm(%x, %few) yield %z } }\n",
        "graph main(%x: float32[3,70]) { %z: float32[3,96] = MatMul(%x, %w) yield %z } }\n"};
    const pass_options options = {.weight_bits = 8, .environment = {.threads = 1, .portable_only = true}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        numbers of = {.w = {1}};
        float few[COLUMNS * COLUMNS / 4] = {0};
        char *body = malloc(LENGTH);
        assert_non_null(body);
        if (i == 2) of.w[5] = INFINITY;
        support_writer to = support_writer_on(body, LENGTH);
        if (i == 1) {
            support_write(&to, " constant %%few: float32[96,24] = ");
            write_numbers(&to, few, COLUMNS * COLUMNS / 4);
        }
        support_write(&to, "%s", kept[i]);
        char *text = make_text(&of, body);
        support_session on;
        support_session_open_with(&on, text, &options);
        assert_int_equal(count_nodes(rt_plan_of(on.plan), "MatMulNBits"), 0);
        support_session_close(&on);
        free(text);
        free(body);
    }
}

static const op_dtype types[] = {OP_FLOAT16, OP_BFLOAT16, OP_INT16};
enum { TYPES = sizeof types / sizeof *types };

static size_t count_of(const plan *of, op_dtype dtype) {
    size_t count = 0;
    for (uint64_t t = 0; t < of->header->tensors.count; t++) count += of->tensors[t].dtype == dtype;
    return count;
}

static size_t count_narrow(const plan *of) {
    size_t count = 0;
    for (int i = 0; i < TYPES; i++) count += count_of(of, types[i]);
    return count;
}

static void halves_are_about_the_same(void **state) {
    (void)state;
    numbers of;
    uint32_t seed = 11;
    for (int i = 0; i < DEPTH * COLUMNS; i++) of.w[i] = random_number(&seed);
    for (int i = 0; i < COLUMNS; i++) of.b[i] = random_number(&seed);
    for (int i = 0; i < ROWS * DEPTH; i++) of.x[i] = random_number(&seed);
    for (int type = 0; type < TYPES; type++) {
        for (size_t form = 0; form < sizeof bodies / sizeof *bodies; form++) {
            for (int portable = 0; portable < 2; portable++) {
                char *text = make_text(&of, bodies[form]);
                const pass_options options = {.weight_type = types[type],
                                              .environment = {.threads = 1, .portable_only = portable}};
                support_session on;
                support_session_open_with(&on, text, &options);
                const plan *made = rt_plan_of(on.plan);
                assert_int_equal(count_narrow(made), 2); /* both products' panels */
                support_bind(&on, 0, of.x, sizeof of.x);
                support_run(&on);
                double first, second;
                find_errors(&of, support_output(&on, 0, ROWS * COLUMNS * sizeof(float)),
                            support_output(&on, 1, ROWS * DEPTH * sizeof(float)), &first, &second);
                /* Numbers from 1/2 to 1 are off by 1/sqrt(12) of a step; in all about the same relative to their sizes. */
                const double expected = types[type] == OP_INT16      ? sqrt(3.0 / 12) / 32767
                                        : types[type] == OP_BFLOAT16 ? 0x1p-8 / sqrt(12.0)
                                                                     : 0x1p-11 / sqrt(12.0);
                assert_int_equal(count_of(made, types[type]), 2);
                print_message("%s: %g and %g, expected %g\n", op_dtype_name(types[type]), first, second,
                              expected);
                assert_true(first < 2 * expected && second < 2 * expected);
                assert_true(first > 0.5 * expected && second > 0.5 * expected);
                support_session_close(&on);
                free(text);
            }
        }
    }
}

/* Weights that float16 has not, or only a few digits of; bfloat16 has them. Integers are as good as float16, or it is that. */
static void out_of_range_stays(void **state) {
    (void)state;
    static const struct {
        float value;
        int count; /* weights of a column that are so */
        size_t float16, bfloat16;
    } cases[] = {{65519, 1, 1, 1},        {65520, 1, 0, 1},     {INFINITY, 1, 0, 0}, {NAN, 1, 0, 0},
                 {3e-7f, DEPTH, 0, 1},    {1e-9f, DEPTH, 0, 1}, {1e-9f, 1, 1, 1},    {0, DEPTH, 1, 1},
                 {1.5e-41f, DEPTH, 0, 0}, {-65520, 1, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        numbers of;
        uint32_t seed = 3;
        for (int k = 0; k < DEPTH * COLUMNS; k++) of.w[k] = random_number(&seed);
        for (int k = 0; k < cases[i].count; k++) of.w[k * COLUMNS + 5] = cases[i].value;
        for (int k = 0; k < COLUMNS; k++) of.b[k] = 0;
        for (int type = 0; type < TYPES; type++) {
            char *text = make_text(
                &of, "graph main(%x: float32[3,70]) { %z: float32[3,96] = MatMul(%x, %w) yield %z } }\n");
            const pass_options options = {.weight_type = types[type],
                                          .environment = {.threads = 1, .portable_only = true}};
            support_session on;
            support_session_open_with(&on, text, &options);
            const size_t wanted = types[type] == OP_BFLOAT16 ? cases[i].bfloat16 : cases[i].float16;
            if (count_narrow(rt_plan_of(on.plan)) != wanted)
                fail_msg("case %zu, %s", i, op_dtype_name(types[type]));
            /* Beside a large weight others are no integers: the matrix is in float16. */
            if (i == 0 && types[type] == OP_INT16)
                assert_int_equal(count_of(rt_plan_of(on.plan), OP_FLOAT16), 1);
            support_session_close(&on);
            free(text);
        }
    }
}

enum { STEPS = 5, UNITS = 40 };

/* A recurrence whose weights are stored so; how many bytes all constants take, and what it gives. */
static size_t run_recurrence(const char *text, op_dtype dtype, const float *x, float *y) {
    const pass_options options = {.weight_type = dtype, .environment = {.threads = 1, .portable_only = true}};
    support_session on;
    support_session_open_with(&on, text, &options);
    support_bind(&on, 0, x, STEPS * UNITS * sizeof *x);
    support_run(&on);
    memcpy(y, support_output(&on, 0, STEPS * UNITS * sizeof *y), STEPS * UNITS * sizeof *y);
    const size_t bytes = (size_t)rt_plan_of(on.plan)->header->constants_bytes;
    support_session_close(&on);
    return bytes;
}

/* LSTM and GRU: about the same, in half of the bytes; where a weight has no finite number in the type, the same. */
static void recurrences_are_about_the_same(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int gates;
        float value; /* of one weight */
        bool taken[TYPES];
    } cases[] = {{"LSTM", 4, 0, {true, true, true}},
                 {"GRU", 3, 0, {true, true, true}},
                 {"GRU", 3, 1e30f, {false, true, true}},
                 {"LSTM", 4, NAN, {false, false, false}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum { MOST = 4 * UNITS * UNITS };
        static float w[MOST], r[MOST];
        float x[STEPS * UNITS], floats[STEPS * UNITS], made[STEPS * UNITS];
        double wanted[STEPS * UNITS];
        uint32_t seed = 17;
        const int rows = cases[i].gates * UNITS, count = rows * UNITS;
        for (int k = 0; k < count; k++) w[k] = 0.2f * random_number(&seed);
        for (int k = 0; k < count; k++) r[k] = 0.2f * random_number(&seed);
        for (int k = 0; k < STEPS * UNITS; k++) x[k] = random_number(&seed);
        if (cases[i].value != 0) w[7] = cases[i].value;
        char *text = malloc(2 * LENGTH);
        assert_non_null(text);
        support_writer to = support_writer_on(text, 2 * LENGTH);
        support_write(&to, "module \"m\" {\n constant %%w: float32[1,%d,%d] = ", rows, UNITS);
        write_numbers(&to, w, count);
        support_write(&to, " constant %%r: float32[1,%d,%d] = ", rows, UNITS);
        write_numbers(&to, r, count);
        support_write(&to,
                      "graph main(%%x: float32[%d,1,%d]) {\n %%y: float32[%d,1,1,%d] = %s(%%x, %%w, %%r) "
                      "{hidden_size = %d}\n yield %%y } }\n",
                      STEPS, UNITS, STEPS, UNITS, cases[i].name, UNITS);
        const size_t bytes = run_recurrence(text, OP_NONE, x, floats);
        for (int k = 0; k < STEPS * UNITS; k++) wanted[k] = floats[k];
        for (int type = 0; type < TYPES; type++) {
            const size_t narrow = run_recurrence(text, types[type], x, made);
            if (!cases[i].taken[type]) {
                assert_int_equal(narrow, bytes);
                assert_memory_equal(made, floats, sizeof made);
                continue;
            }
            /* A panel is filled up to 48 units, and integers have scales. */
            assert_true(narrow > bytes / 2 &&
                        narrow < bytes * 48 / UNITS / 2 + 1024 + 2 * 4 * 48 * sizeof(float));
            const double error = relative_error(made, wanted, STEPS * UNITS),
                         unit = types[type] == OP_INT16      ? 0x1p-15
                                : types[type] == OP_BFLOAT16 ? 0x1p-8
                                                             : 0x1p-11;
            print_message("%s, %s: %g\n", cases[i].name, op_dtype_name(types[type]), error);
            if (cases[i].value == 0) assert_true(error < unit && error > unit / 50);
        }
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_in_panels),         cmocka_unit_test(tables_are_gathered_from_codes),
        cmocka_unit_test(products_are_about_the_same),   cmocka_unit_test(others_stay),
        cmocka_unit_test(halves_are_about_the_same),     cmocka_unit_test(out_of_range_stays),
        cmocka_unit_test(recurrences_are_about_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

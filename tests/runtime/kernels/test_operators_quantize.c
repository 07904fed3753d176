/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_quantize.c: quantisation, and products and convolutions of 8-bit integers, against references
 * written from their definition, one element at a time.
 */
#include "runtime/kernels/portable/integer_filters.h"
#include "tests/support/operators.h"
#include "tests/support/support.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 20261121, MOST_INPUTS = 9 };

typedef struct fixture {
    base_arena arena;
    base_report report;
    op_tensor inputs[MOST_INPUTS], outputs[3];
    op_attribute attributes[8];
    op_call call;
} fixture;

static fixture begin(op_code code) {
    fixture made = {0};
    base_arena_init(&made.arena, NULL);
    made.call = (op_call){.code = code, .output_count = 1};
    return made;
}

static void add_integer(fixture *f, const char *name, int64_t value) {
    f->attributes[f->call.attributes.count++] =
        (op_attribute){.name = name, .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = value};
}

static void add_integers(fixture *f, const char *name, size_t count, const int64_t *values) {
    f->attributes[f->call.attributes.count++] =
        (op_attribute){.name = name, .kind = OP_ATTRIBUTE_INTS, .count = count, .as.integers = values};
}

static base_status apply(fixture *f) {
    f->call.inputs = f->inputs;
    f->call.outputs = f->outputs;
    f->call.attributes.items = f->attributes;
    return test_apply(&f->call, &f->arena, NULL, &f->report);
}

static void apply_well(fixture *f) {
    if (apply(f) != BASE_OK) fail_msg("%s: %s", op_schema_of(f->call.code)->name, f->report.text);
}

static void expect_refusal(fixture *f, const char *message) {
    assert_int_equal(apply(f), BASE_INVALID);
    if (!strstr(f->report.text, message)) fail_msg("message \"%s\" lacks \"%s\"", f->report.text, message);
    base_arena_free(&f->arena);
}

static op_tensor *add(fixture *f, op_dtype dtype, const op_shape *shape) {
    op_tensor *made = &f->inputs[f->call.input_count++];
    *made = dtype == OP_NONE ? (op_tensor){0} : test_tensor(&f->arena, dtype, shape);
    return made;
}

/* Integers of the whole range of their type, reals up to 300, scales positive. */
static op_tensor *add_random(fixture *f, op_dtype dtype, const op_shape *shape, bool scale,
                             test_random *random) {
    op_tensor *made = add(f, dtype, shape);
    for (int64_t i = 0, count = test_elements(made); i < count; i++) {
        const bool pair = dtype == OP_INT16 || dtype == OP_UINT16,
                   negative = dtype == OP_INT8 || dtype == OP_INT16;
        const double values = pair ? 65536 : 256;
        const double whole =
            (double)test_random_below(random, (uint64_t)values) - (negative ? values / 2 : 0);
        const double real = scale ? 0.001 * (1 + (double)test_random_below(random, 3000))
                                  : 0.25 * ((double)test_random_below(random, 2400) - 1200);
        const double wide = (double)test_random_below(random, 2000) - 1000;
        test_set(made, i, dtype == OP_FLOAT ? real : dtype == OP_INT32 ? wide : whole);
    }
    return made;
}

static op_dtype any_byte(test_random *random) {
    return test_random_below(random, 2) ? OP_INT8 : OP_UINT8;
}

static op_dtype any_code(test_random *random) {
    const op_dtype kinds[] = {OP_INT8, OP_UINT8, OP_INT16, OP_UINT16};
    return kinds[test_random_below(random, 4)];
}

static double saturate(double value, op_dtype dtype) {
    const double low = dtype == OP_INT8 ? -128 : dtype == OP_INT16 ? -32768 : 0;
    const double high = low + (dtype == OP_INT16 || dtype == OP_UINT16 ? 65535 : 255);
    return value < low ? low : value > high ? high : value;
}

/* ---- QuantizeLinear and DequantizeLinear ---------------------------------------------------------------- */

static void quantising_follows_its_definition(void **state) {
    (void)state;
    test_random random = {SEED};
    for (int round = 0; round < (int)support_share(600); round++) {
        const bool back = round % 2;
        fixture f = begin(back ? OP_DEQUANTIZE_LINEAR : OP_QUANTIZE_LINEAR);
        op_shape shape = {.rank = (int32_t)test_random_below(&random, 5)};
        for (int32_t i = 0; i < shape.rank; i++) {
            shape.dims[i] =
                test_random_below(&random, 25) ? 1 + test_random_below(&random, round % 50 ? 5 : 40) : 0;
        }
        const bool wide = test_random_below(&random, 3) == 0;
        const op_dtype low = any_code(&random), from = back   ? (wide ? OP_INT32 : low)
                                                       : wide ? OP_INT32
                                                              : OP_FLOAT;
        add_random(&f, from, &shape, false, &random);
        const bool axes = shape.rank > 0 && test_random_below(&random, 2),
                   zeros = test_random_below(&random, 4);
        const int32_t axis = axes ? (int32_t)test_random_below(&random, shape.rank) : 0;
        op_shape along = {.rank = axes ? 1 : (int32_t)test_random_below(&random, 2), .dims = {1}};
        if (axes) along.dims[0] = shape.dims[axis];
        add_random(&f, OP_FLOAT, &along, true, &random);
        if (zeros) add_random(&f, back ? from : low, &along, false, &random);
        add_integer(&f, "axis", axes ? (test_random_below(&random, 2) ? axis : axis - shape.rank) : 7);
        apply_well(&f);
        const op_dtype to = back ? OP_FLOAT : zeros ? low : OP_UINT8;
        assert_int_equal(f.outputs[0].type.dtype, to);
        assert_true(op_shape_equal(&f.outputs[0].type.shape, &shape));
        int64_t inner = 1;
        for (int32_t i = axis + 1; i < shape.rank && axes; i++) inner *= shape.dims[i];
        for (int64_t i = 0, count = test_elements(&f.inputs[0]); i < count; i++) {
            const int64_t channel = axes ? i / inner % along.dims[0] : 0;
            const float x = (float)test_real(&f.inputs[0], i),
                        scale = ((const float *)f.inputs[1].data)[channel];
            const double zero = zeros ? test_real(&f.inputs[2], channel) : 0;
            const double want = back ? (double)((x - (float)zero) * scale)
                                     : saturate(nearbyint((double)(x / scale)) + zero, to);
            const double got = test_real(&f.outputs[0], i);
            if (got != want)
                fail_msg("round %d: element %" PRId64 " is %g, expected %g", round, i, got, want);
        }
        base_arena_free(&f.arena);
    }
}

static void what_has_no_integer_saturates(void **state) {
    (void)state;
    fixture f = begin(OP_QUANTIZE_LINEAR);
    const op_shape five = test_shape(1, 5), scalar = {0};
    const float values[] = {NAN, INFINITY, -INFINITY, 3e38f, 0.5f};
    memcpy(add(&f, OP_FLOAT, &five)->data, values, sizeof values);
    *(float *)add(&f, OP_FLOAT, &scalar)->data = 1;
    *(int8_t *)add(&f, OP_INT8, &scalar)->data = 100;
    apply_well(&f);
    const int8_t want[] = {-128, 127, -128, 127, 100};
    assert_memory_equal(f.outputs[0].data, want, sizeof want);
    base_arena_free(&f.arena);
    f = begin(OP_QUANTIZE_LINEAR);
    memcpy(add(&f, OP_FLOAT, &five)->data, values, sizeof values);
    *(float *)add(&f, OP_FLOAT, &scalar)->data = 1;
    *(uint16_t *)add(&f, OP_UINT16, &scalar)->data = 60000;
    apply_well(&f);
    const uint16_t wide[] = {0, 65535, 0, 65535, 60000};
    assert_memory_equal(f.outputs[0].data, wide, sizeof wide);
    base_arena_free(&f.arena);
}

/* Numbers whose quotients are the middle of two integers, or next to it: as divided, not as multiplied with the reciprocal. */
static void middles_are_divided(void **state) {
    (void)state;
    enum { MIDDLES = 256, NEAR = 9, COUNT = MIDDLES * NEAR };
    test_random random = {SEED + 7};
    const float special[] = {1, 0.1f, 0x1p-126f, 0x1p-140f, 0x1p126f, -0.3f};
    for (int round = 0; round < 200; round++) {
        fixture f = begin(OP_QUANTIZE_LINEAR);
        const op_shape many = test_shape(1, COUNT), scalar = {0};
        const float scale =
            round < 6 ? special[round] : 0.0001f * (1 + (float)test_random_below(&random, 1000000));
        float *x = add(&f, OP_FLOAT, &many)->data;
        *(float *)add(&f, OP_FLOAT, &scalar)->data = scale;
        *(int8_t *)add(&f, OP_INT8, &scalar)->data = (int8_t)(round % 3 - 1);
        for (int i = 0; i < COUNT; i++) {
            x[i] = ((float)(i / NEAR) - 128.5f) * scale;
            for (int k = i % NEAR; k > NEAR / 2; k--) x[i] = nextafterf(x[i], INFINITY);
            for (int k = i % NEAR; k < NEAR / 2; k++) x[i] = nextafterf(x[i], -INFINITY);
        }
        apply_well(&f);
        for (int i = 0; i < COUNT; i++) {
            const double want = saturate(nearbyint((double)(x[i] / scale)) + (round % 3 - 1), OP_INT8);
            if (test_real(&f.outputs[0], i) != want)
                fail_msg("round %d: %a / %a is %g, expected %g", round, (double)x[i], (double)scale,
                         test_real(&f.outputs[0], i), want);
        }
        base_arena_free(&f.arena);
    }
}

static void scales_must_fit(void **state) {
    (void)state;
    const op_shape matrix = test_shape(2, 2, 3), two = test_shape(1, 2), three = test_shape(1, 3),
                   scalar = {0};
    fixture f = begin(OP_QUANTIZE_LINEAR);
    add(&f, OP_FLOAT, &matrix);
    add(&f, OP_FLOAT, &two);
    expect_refusal(&f, "input 1 (scale) has shape [2], expected a scalar or a vector of 3 elements");
    f = begin(OP_DEQUANTIZE_LINEAR);
    add(&f, OP_INT8, &matrix);
    add(&f, OP_FLOAT, &three);
    add(&f, OP_INT8, &scalar);
    expect_refusal(&f, "input 2 (zero point) has shape [], expected [3], that of the scale");
    f = begin(OP_DEQUANTIZE_LINEAR);
    add(&f, OP_INT8, &matrix);
    add(&f, OP_FLOAT, &scalar);
    add(&f, OP_UINT8, &scalar);
    expect_refusal(&f, "input 2 is uint8, expected int8");
    f = begin(OP_QUANTIZE_LINEAR);
    add(&f, OP_FLOAT, &matrix);
    add(&f, OP_FLOAT, &three);
    add_integer(&f, "axis", 2);
    expect_refusal(&f, "attribute \"axis\" is 2, expected at least -2 and less than 2");
}

static void the_range_is_found_in_the_data(void **state) {
    (void)state;
    test_random random = {SEED + 1};
    for (int64_t count = 0; count < 70000; count = count * 3 + 1) {
        for (int kind = 0; kind < 3; kind++) {
            fixture f = begin(OP_DYNAMIC_QUANTIZE_LINEAR);
            const op_shape shape = {.rank = 1, .dims = {count}};
            float *x = add(&f, OP_FLOAT, &shape)->data, low = 0, high = 0;
            for (int64_t i = 0; i < count; i++) {
                x[i] =
                    kind == 2 ? 0 : 0.125f * (float)(test_random_below(&random, 1000) - (kind ? 2000 : 400));
                low = fminf(low, x[i]);
                high = fmaxf(high, x[i]);
            }
            f.call.output_count = 3;
            apply_well(&f);
            const float scale = high > low ? (high - low) / 255 : 1;
            const double zero = saturate(nearbyint((double)(-low / scale)), OP_UINT8);
            assert_true(*(float *)f.outputs[1].data == scale);
            assert_int_equal(test_integer(&f.outputs[2], 0), (int64_t)zero);
            for (int64_t i = 0; i < count; i++) {
                const double want = saturate(nearbyint((double)(x[i] / scale)) + zero, OP_UINT8);
                assert_int_equal(test_integer(&f.outputs[0], i), (int64_t)want);
            }
            base_arena_free(&f.arena);
        }
    }
}

/* ---- products ------------------------------------------------------------------------------------------- */

/* How a scale and its zero point are given: 0 one number, 1 a vector, 2 with all dimensions. */
static op_shape lines_shape(const op_shape *matrix, int kind, bool rows) {
    op_shape shape = {0};
    if (kind == 1) shape = (op_shape){.rank = 1, .dims = {matrix->dims[matrix->rank - (rows ? 2 : 1)]}};
    if (kind == 2) {
        shape = *matrix;
        shape.dims[shape.rank - (rows ? 1 : 2)] = 1;
    }
    return shape;
}

static int64_t lines_index(int kind, int64_t matrix, int64_t line, int64_t extent) {
    return kind == 0 ? 0 : kind == 1 ? line : matrix * extent + line;
}

static void check_byte(double got, double sum, float scale, double zero, op_dtype dtype, int round,
                       int64_t i) {
    const double want = saturate(nearbyint((double)((float)sum * scale)) + zero, dtype);
    if (got != want) fail_msg("round %d: element %" PRId64 " is %g, expected %g", round, i, got, want);
}

/* The same call with `inputs`, of which one has so many bytes for what it is packed to, and with `outputs`. */
static op_call packed_call(fixture *f, uint32_t packed, size_t bytes, op_tensor inputs[MOST_INPUTS],
                           op_tensor *outputs) {
    const op_shape memory = {.rank = 1, .dims = {(int64_t)bytes}};
    op_call call = f->call;
    memcpy(inputs, f->inputs, MOST_INPUTS * sizeof *inputs);
    inputs[packed].type.layout = OP_LAYOUT_PACKED;
    inputs[packed].type.packed_bytes = bytes;
    inputs[packed].data = test_tensor(&f->arena, OP_UINT8, &memory).data;
    call.inputs = inputs;
    call.outputs = outputs;
    return call;
}

/* The same product with its right matrix packed: whether the machine would wish for it or not. */
static void check_packed(fixture *f, int threads) {
    const rt_environment environment = {.threads = threads};
    const uint32_t b = f->call.code == OP_QLINEAR_MATMUL ? 3 : 1;
    const op_shape *matrix = &f->inputs[b].type.shape;
    size_t bytes;
    if (!rt_integer_packed_bytes(matrix->dims[0], matrix->dims[1], &bytes)) return;
    op_tensor inputs[MOST_INPUTS], outputs[1] = {f->outputs[0]};
    const op_call call = packed_call(f, b, bytes, inputs, outputs);
    const rt_kernel *kernel = rt_kernel_of(call.code, "portable.matmul_integer");
    assert_int_equal(kernel->pack(&f->call, &environment, b, &f->inputs[b], inputs[b].data, &f->report),
                     BASE_OK);
    assert_true(kernel->accepts(&call, &environment));
    outputs[0].data = NULL;
    assert_int_equal(rt_kernel_evaluate(&call, &environment, &f->arena, &f->report), BASE_OK);
    assert_memory_equal(outputs[0].data, f->outputs[0].data, f->outputs[0].bytes);
    inputs[b].type.packed_bytes--;
    assert_false(kernel->accepts(&call, &environment));
}

static void products_follow_their_definition(void **state) {
    (void)state;
    test_random random = {SEED + 2};
    for (int round = 0; round < (int)support_share(500); round++) {
        const bool quantized = round % 2, large = round % 25 == 0, wide = round % 25 == 1;
        fixture f = begin(quantized ? OP_QLINEAR_MATMUL : OP_MATMUL_INTEGER);
        const int64_t rows = test_random_below(&random, large  ? 300
                                                        : wide ? 3
                                                               : 7),
                      columns = test_random_below(&random, large  ? 300
                                                           : wide ? 2500
                                                                  : 7);
        const int64_t depth = test_random_below(&random, large  ? 700
                                                         : wide ? 100
                                                                : 9),
                      outer = 1 + test_random_below(&random, 3);
        const int64_t stack = 1 + test_random_below(&random, 3);
        /* A: [outer, stack, rows, depth]; B: a matrix, a stack, or all. */
        const int shared = (int)test_random_below(&random, 3);
        op_shape a = {.rank = 4, .dims = {outer, stack, rows, depth}}, b = {.rank = 4 - shared};
        int64_t b_dims[] = {outer, stack, depth, columns};
        for (int32_t i = 0; i < b.rank; i++) b.dims[i] = b_dims[i + shared];
        const op_shape y = {.rank = 4, .dims = {outer, stack, rows, columns}};
        const op_dtype a_dtype = any_byte(&random), b_dtype = any_byte(&random), y_dtype = any_byte(&random);
        const int a_kind = (int)test_random_below(&random, 3), b_kind = (int)test_random_below(&random, 3);
        const int y_kind = (int)test_random_below(&random, 3);
        const op_shape a_lines = lines_shape(&a, a_kind, true), b_lines = lines_shape(&b, b_kind, false);
        const op_shape y_lines = lines_shape(&y, y_kind, true);
        add_random(&f, a_dtype, &a, false, &random);
        if (quantized) {
            add_random(&f, OP_FLOAT, &a_lines, true, &random);
            add_random(&f, a_dtype, &a_lines, false, &random);
            add_random(&f, b_dtype, &b, false, &random);
            add_random(&f, OP_FLOAT, &b_lines, true, &random);
            add_random(&f, b_dtype, &b_lines, false, &random);
            op_tensor *scale = add_random(&f, OP_FLOAT, &y_lines, true, &random);
            for (int64_t i = 0; i < test_elements(scale); i++) ((float *)scale->data)[i] *= 1000;
            add_random(&f, y_dtype, &y_lines, false, &random);
        } else {
            add_random(&f, b_dtype, &b, false, &random);
            const int64_t given = test_random_below(&random, 4);
            if (given & 2) add_random(&f, a_dtype, &a_lines, false, &random);
            else if (given) add(&f, OP_NONE, NULL);
            if (given & 1) add_random(&f, b_dtype, &b_lines, false, &random);
        }
        apply_well(&f);
        assert_true(op_shape_equal(&f.outputs[0].type.shape, &y));
        const op_tensor *left = &f.inputs[0], *right = &f.inputs[quantized ? 3 : 1];
        const op_tensor *left_zero = &f.inputs[2], *right_zero = &f.inputs[quantized ? 5 : 3];
        const int64_t count = test_elements(&f.outputs[0]);
        if (shared == 2 && count > 0) check_packed(&f, 1 + round % 3);
        for (int64_t i = 0; i < count; i += large || wide ? 37 : 1) {
            const int64_t column = i % columns, row = i / columns % rows, matrix = i / columns / rows;
            const int64_t b_matrix = shared == 0 ? matrix : shared == 1 ? matrix % stack : 0;
            const int64_t at_a = lines_index(a_kind, matrix, row, rows);
            const int64_t at_b = lines_index(b_kind, b_matrix, column, columns);
            const int64_t a_zero = left_zero->data ? test_integer(left_zero, at_a) : 0;
            const int64_t b_zero = right_zero->data ? test_integer(right_zero, at_b) : 0;
            int64_t sum = 0;
            for (int64_t k = 0; k < depth; k++) {
                sum += (test_integer(left, (matrix * rows + row) * depth + k) - a_zero) *
                       (test_integer(right, (b_matrix * depth + k) * columns + column) - b_zero);
            }
            if (!quantized) {
                assert_int_equal(test_integer(&f.outputs[0], i), sum);
                continue;
            }
            const int64_t at_y = lines_index(y_kind, matrix, row, rows);
            const float scale = ((float *)f.inputs[1].data)[at_a] * ((float *)f.inputs[4].data)[at_b] /
                                ((float *)f.inputs[6].data)[at_y];
            check_byte(test_real(&f.outputs[0], i), (double)sum, scale, test_real(&f.inputs[7], at_y),
                       y_dtype, round, i);
        }
        base_arena_free(&f.arena);
    }
}

static void vectors_multiply_as_in_numpy(void **state) {
    (void)state;
    test_random random = {SEED + 3};
    const op_shape vector = test_shape(1, 5), matrix = test_shape(2, 5, 3), stack = test_shape(3, 2, 4, 5);
    const op_shape *pairs[][2] = {{&vector, &vector}, {&vector, &matrix}, {&stack, &vector}};
    const int64_t rows[] = {1, 1, 8}, columns[] = {1, 3, 1};
    for (int form = 0; form < 3; form++) {
        fixture f = begin(OP_MATMUL_INTEGER);
        add_random(&f, OP_UINT8, pairs[form][0], false, &random);
        add_random(&f, OP_INT8, pairs[form][1], false, &random);
        apply_well(&f);
        assert_int_equal(f.outputs[0].type.shape.rank, form == 2 ? 2 : form);
        for (int64_t i = 0; i < rows[form] * columns[form]; i++) {
            int64_t sum = 0;
            for (int64_t k = 0; k < 5; k++) {
                sum += test_integer(&f.inputs[0], i / columns[form] * 5 + k) *
                       test_integer(&f.inputs[1], k * columns[form] + i % columns[form]);
            }
            assert_int_equal(test_integer(&f.outputs[0], i), sum);
        }
        base_arena_free(&f.arena);
    }
    fixture f = begin(OP_MATMUL_INTEGER);
    const op_shape left = test_shape(2, 4, 5), four = test_shape(1, 4);
    add(&f, OP_UINT8, &left);
    add(&f, OP_UINT8, &matrix);
    add(&f, OP_NONE, NULL);
    add(&f, OP_UINT8, &four);
    expect_refusal(&f,
                   "input 3 (zero point of B) has shape [4], expected a scalar or [3], one number a column");
    f = begin(OP_MATMUL_INTEGER);
    add(&f, OP_UINT8, &left);
    add(&f, OP_INT32, &matrix);
    expect_refusal(&f, "input 1 is int32, expected");
}

/* ---- convolutions --------------------------------------------------------------------------------------- */

typedef struct geometry {
    int32_t rank;
    int64_t batch, group, channels, filters; /* channels and filters of a group */
    int64_t input[5], output[5], kernel[5], stride[5], dilation[5], pads[10];
} geometry;

static geometry random_geometry(test_random *random, bool large) {
    geometry g = {.rank = 1 + (int32_t)test_random_below(random, large ? 2 : 5),
                  .batch = test_random_below(random, 3),
                  .group = 1 + test_random_below(random, 3),
                  .channels = 1 + test_random_below(random, large ? 90 : 3),
                  .filters = 1 + test_random_below(random, large ? 150 : 4)};
    const bool alone = large && test_random_below(random, 4) == 0; /* a filter sees one channel */
    if (alone) {
        g.channels = 1;
        g.filters = 1 + test_random_below(random, 5);
    }
    for (int32_t i = 0; i < g.rank; i++) {
        g.kernel[i] = 1 + test_random_below(random, 3);
        g.stride[i] = 1 + test_random_below(random, 3);
        g.dilation[i] = 1 + test_random_below(random, 2);
        const int64_t extent = (g.kernel[i] - 1) * g.dilation[i] + 1;
        g.pads[i] = test_random_below(random, 3);
        g.pads[g.rank + i] = test_random_below(random, 3);
        g.input[i] = extent + test_random_below(random, alone ? 60 : large ? 20 : 3);
        g.output[i] = (g.input[i] + g.pads[i] + g.pads[g.rank + i] - extent) / g.stride[i] + 1;
    }
    return g;
}

/* More channels of their own than are copied together. */
static geometry wide_geometry(test_random *random) {
    geometry g = {.rank = 2,
                  .batch = 1 + test_random_below(random, 2),
                  .group = 3 + test_random_below(random, 7),
                  .channels = 1 + test_random_below(random, 2),
                  .filters = 1 + test_random_below(random, 2)};
    for (int32_t i = 0; i < 2; i++) {
        g.kernel[i] = 3;
        g.stride[i] = 1 + test_random_below(random, 2);
        g.dilation[i] = 1;
        g.pads[i] = g.pads[2 + i] = 1;
        g.input[i] = 50 + test_random_below(random, 50);
        g.output[i] = (g.input[i] - 1) / g.stride[i] + 1;
    }
    return g;
}

/* So many filters that rows of the image are put together without what lies between them. */
static geometry joined_geometry(test_random *random) {
    geometry g = {.rank = 1 + (int32_t)test_random_below(random, 3),
                  .batch = 1 + test_random_below(random, 2),
                  .group = 1 + test_random_below(random, 2),
                  .channels = 1 + test_random_below(random, 5),
                  .filters = 128 + test_random_below(random, 130)};
    const bool padded = test_random_below(random, 3);
    for (int32_t i = 0; i < g.rank; i++) {
        g.kernel[i] = 2 + test_random_below(random, 2);
        g.stride[i] = 1 + test_random_below(random, 2);
        g.dilation[i] = 1 + test_random_below(random, 2);
        const int64_t extent = (g.kernel[i] - 1) * g.dilation[i] + 1;
        g.pads[i] = padded ? test_random_below(random, 2) : 0;
        g.pads[g.rank + i] = padded ? test_random_below(random, 2) : 0;
        g.input[i] = extent + test_random_below(random, g.rank == 3 ? 8 : 36);
        g.output[i] = (g.input[i] + g.pads[i] + g.pads[g.rank + i] - extent) / g.stride[i] + 1;
    }
    return g;
}

/* Channels that come near to a multiple of four, whose quadruples are multiplied through all window elements, on maps with rows of all
 * lengths. */
static geometry channels_geometry(test_random *random) {
    geometry g = {.rank = test_random_below(random, 4) ? 2 : 1 + (int32_t)test_random_below(random, 3),
                  .batch = 1 + test_random_below(random, 2),
                  .group = 1 + test_random_below(random, 2),
                  .channels = 4 * (1 + test_random_below(random, 12)),
                  .filters = 1 + test_random_below(random, 70)};
    if (g.channels > 36) g.channels -= test_random_below(random, 4);
    const bool strides = test_random_below(random, 3) == 0;
    for (int32_t i = 0; i < g.rank; i++) {
        g.kernel[i] = 1 + test_random_below(random, 3);
        g.stride[i] = strides ? 1 + test_random_below(random, 2) : 1;
        g.dilation[i] = 1 + test_random_below(random, 5) / 4;
        const int64_t extent = (g.kernel[i] - 1) * g.dilation[i] + 1;
        g.pads[i] = test_random_below(random, 3);
        g.pads[g.rank + i] = test_random_below(random, 3);
        g.input[i] = extent + test_random_below(random, g.rank == 1 ? 1300 : g.rank == 2 ? 40 : 5);
        if (test_random_below(random, 3) == 0) { /* a length of a whole number of panels */
            g.pads[i] = g.pads[g.rank + i] = g.kernel[i] / 2;
            g.dilation[i] = 1;
            g.kernel[i] = 2 * g.pads[i] + 1;
            g.input[i] = 16 * (1 + test_random_below(random, 2));
        }
        g.output[i] = (g.input[i] + g.pads[i] + g.pads[g.rank + i] - (g.kernel[i] - 1) * g.dilation[i] - 1) /
                          g.stride[i] +
                      1;
    }
    return g;
}

/* An image without elements along one axis, and enough padding for the window. */
static void make_empty(geometry *g, int32_t axis) {
    const int64_t extent = (g->kernel[axis] - 1) * g->dilation[axis] + 1;
    g->input[axis] = 0;
    g->pads[axis] = extent - 1;
    g->pads[g->rank + axis] = extent;
    g->output[axis] = (extent - 1) / g->stride[axis] + 1;
}

static int64_t reference_sum(const geometry *g, const op_tensor *x, const op_tensor *w, int64_t x_zero,
                             int64_t w_zero, int64_t image, int64_t filter, const int64_t *at) {
    int64_t sum = 0, taps = 1;
    for (int32_t i = 0; i < g->rank; i++) taps *= g->kernel[i];
    for (int64_t k = 0; k < g->channels * taps; k++) {
        int64_t tap = k % taps, offset = 0, tap_at[5];
        bool seen = true;
        for (int32_t i = g->rank - 1; i >= 0; i--) {
            tap_at[i] = tap % g->kernel[i];
            tap /= g->kernel[i];
        }
        for (int32_t i = 0; i < g->rank; i++) {
            const int64_t in = at[i] * g->stride[i] - g->pads[i] + tap_at[i] * g->dilation[i];
            seen = seen && in >= 0 && in < g->input[i];
            offset = offset * g->input[i] + in;
        }
        int64_t size = 1;
        for (int32_t i = 0; i < g->rank; i++) size *= g->input[i];
        const int64_t channel = (image * g->group + filter / g->filters) * g->channels + k / taps;
        if (seen) {
            sum += (test_integer(x, channel * size + offset) - x_zero) *
                   (test_integer(w, filter * g->channels * taps + k) - w_zero);
        }
    }
    return sum;
}

/* The same convolution with its filters arranged: whether the machine would wish for it or not. */
static void check_arranged(fixture *f, const geometry *g, int threads) {
    const rt_environment environment = {.threads = threads};
    const uint32_t w = f->call.code == OP_QLINEAR_CONV ? 3 : 1;
    rt_filters_shape shape = {.channels = g->channels, .taps = 1};
    for (int32_t i = 0; i < g->rank; i++) shape.taps *= g->kernel[i];
    size_t bytes;
    assert_true(rt_filters_bytes(g->group * g->filters, shape, &bytes));
    op_tensor inputs[MOST_INPUTS], outputs[1] = {f->outputs[0]};
    const op_call call = packed_call(f, w, bytes, inputs, outputs);
    const rt_kernel *kernel = rt_kernel_of(call.code, "portable.convolution_integer");
    const bool stencil = g->channels == 1 && g->filters <= 4 && g->rank <= 2,
               worth = !stencil && g->channels * shape.taps >= 16;
    assert_int_equal(kernel->accepts(&call, &environment), worth);
    const base_status status =
        kernel->pack(&f->call, &environment, w, &f->inputs[w], inputs[w].data, &f->report);
    assert_int_equal(status, worth ? BASE_OK : BASE_INVALID);
    assert_int_equal(kernel->pack(&f->call, &environment, 0, &f->inputs[0], inputs[w].data, &f->report),
                     BASE_INVALID);
    if (!worth) return;
    outputs[0].data = NULL;
    assert_int_equal(rt_kernel_evaluate(&call, &environment, &f->arena, &f->report), BASE_OK);
    assert_memory_equal(outputs[0].data, f->outputs[0].data, f->outputs[0].bytes);
    /* Of other sizes than they would have they are refused. */
    inputs[w].type.packed_bytes--;
    assert_false(kernel->accepts(&call, &environment));
    inputs[w].type.packed_bytes += 2;
    assert_false(kernel->accepts(&call, &environment));
}

static void convolutions_follow_their_definition(void **state) {
    (void)state;
    test_random random = {SEED + 4};
    for (int round = 0; round < (int)support_share(500); round++) {
        const bool channels = round >= 300;
        const bool quantized = round % 2, wide = round % 30 == 4 || round % 30 == 15,
                   joined = round % 15 == 8, large = wide || joined || channels || round % 30 < 2;
        geometry g = channels ? channels_geometry(&random)
                     : wide   ? wide_geometry(&random)
                     : joined ? joined_geometry(&random)
                              : random_geometry(&random, large);
        if (round % 10 == 7) make_empty(&g, round % g.rank);
        const int64_t maps = g.group * g.filters;
        fixture f = begin(quantized ? OP_QLINEAR_CONV : OP_CONV_INTEGER);
        op_shape x = {.rank = g.rank + 2, .dims = {g.batch, g.group * g.channels}};
        op_shape w = {.rank = g.rank + 2, .dims = {maps, g.channels}};
        for (int32_t i = 0; i < g.rank; i++) {
            x.dims[2 + i] = g.input[i];
            w.dims[2 + i] = g.kernel[i];
        }
        const bool each = test_random_below(&random, 2), bias = test_random_below(&random, 2);
        const op_shape along = {.rank = each, .dims = {maps}}, scalar = {0},
                       vector = {.rank = 1, .dims = {maps}};
        const op_dtype x_dtype = any_byte(&random), w_dtype = any_byte(&random), y_dtype = any_byte(&random);
        add_random(&f, x_dtype, &x, false, &random);
        if (quantized) {
            add_random(&f, OP_FLOAT, &scalar, true, &random);
            add_random(&f, x_dtype, &scalar, false, &random);
            add_random(&f, w_dtype, &w, false, &random);
            add_random(&f, OP_FLOAT, &along, true, &random);
            add_random(&f, w_dtype, &along, false, &random);
            *(float *)add(&f, OP_FLOAT, &scalar)->data = 700;
            add_random(&f, y_dtype, &scalar, false, &random);
            if (bias) add_random(&f, OP_INT32, &vector, false, &random);
        } else {
            add_random(&f, w_dtype, &w, false, &random);
            add_random(&f, x_dtype, &scalar, false, &random);
            if (bias) add_random(&f, w_dtype, &along, false, &random); /* here: a zero point is given */
        }
        add_integer(&f, "group", g.group);
        add_integers(&f, "strides", (size_t)g.rank, g.stride);
        add_integers(&f, "dilations", (size_t)g.rank, g.dilation);
        add_integers(&f, "pads", 2 * (size_t)g.rank, g.pads);
        /* As a band of rows has it: less scratch. */
        if (round % 3 == 0) add_integers(&f, "ouro.packed_extents", (size_t)x.rank, x.dims);
        apply_well(&f);
        const op_shape *y = &f.outputs[0].type.shape;
        assert_int_equal(y->rank, g.rank + 2);
        for (int32_t i = 0; i < g.rank; i++) assert_int_equal(y->dims[2 + i], g.output[i]);
        if (f.outputs[0].bytes) check_arranged(&f, &g, 1 + round % 3);
        const op_tensor *weights = &f.inputs[quantized ? 3 : 1], *w_zeros = &f.inputs[quantized ? 5 : 3];
        for (int64_t i = 0, count = test_elements(&f.outputs[0]); i < count; i += joined  ? 37
                                                                                  : large ? 101
                                                                                          : 1) {
            int64_t rest = i, at[5];
            for (int32_t k = g.rank - 1; k >= 0; k--) {
                at[k] = rest % g.output[k];
                rest /= g.output[k];
            }
            const int64_t filter = rest % maps, image = rest / maps, of_filter = each ? filter : 0;
            const int64_t x_zero = test_integer(&f.inputs[2], 0);
            const int64_t w_zero = w_zeros->data ? test_integer(w_zeros, of_filter) : 0;
            int64_t sum = reference_sum(&g, &f.inputs[0], weights, x_zero, w_zero, image, filter, at);
            if (!quantized) {
                assert_int_equal(test_integer(&f.outputs[0], i), sum);
                continue;
            }
            if (bias) sum += test_integer(&f.inputs[8], filter);
            const float scale = *(float *)f.inputs[1].data * ((float *)f.inputs[4].data)[of_filter] /
                                *(float *)f.inputs[6].data;
            check_byte(test_real(&f.outputs[0], i), (double)sum, scale, test_real(&f.inputs[7], 0), y_dtype,
                       round, i);
        }
        base_arena_free(&f.arena);
    }
}

/* Sums that a scale makes too large, too small, or no number. */
static void sums_of_all_sizes_saturate(void **state) {
    (void)state;
    enum { COUNT = 150 };
    static const float scales[] = {1e-9f, 0.0625f, 1, 1e6f, 3e38f, INFINITY, -INFINITY, NAN, -0.5f, 0};
    test_random random = {SEED + 5};
    for (size_t i = 0; i < 2 * sizeof scales / sizeof *scales; i++) {
        const op_dtype dtype = i % 2 ? OP_INT8 : OP_UINT8;
        const float low = dtype == OP_INT8 ? -128 : 0, scale = scales[i / 2];
        const int32_t zero = (int32_t)(test_random_below(&random, 256) + (int64_t)low);
        rt_requantization how = {
            .bias = 7, .a_scale = 1, .y_scale = 1, .b_scale = &scale, .dtype = dtype, .zero = zero};
        int32_t sums[COUNT];
        uint8_t y[COUNT + 1] = {0};
        float each[COUNT], floats[COUNT];
        for (int k = 0; k < COUNT; k++) {
            const int shift = (int)test_random_below(&random, 31);
            sums[k] =
                (int32_t)(test_random_below(&random, INT64_C(1) << 32) - (INT64_C(1) << 31)) / (1 << shift);
            each[k] = scale;
            floats[k] = (float)(int32_t)((uint32_t)sums[k] + 7);
        }
        sums[0] = -7;
        floats[0] = 0;
        for (int form = 0; form < 3; form++) {
            const int64_t count = COUNT - (int64_t)test_random_below(&random, 70);
            how.scales = form == 1 ? each : NULL;
            y[count] = 99;
            if (form == 2) rt_requantize_floats(&how, floats, count, y);
            else rt_requantize(&how, sums, count, y);
            for (int64_t k = 0; k < count; k++) {
                const float zero_low = low - (float)zero;
                const float want = rt_round_within(floats[k] * scale, zero_low, zero_low + 255) + (float)zero;
                const float got = dtype == OP_INT8 ? (float)(int8_t)y[k] : (float)y[k];
                if (got != want)
                    fail_msg("scale %g, sum %d: %g, expected %g", (double)scale, sums[k], (double)got,
                             (double)want);
            }
            assert_int_equal(y[count], 99);
        }
    }
}

static void automatic_padding_is_understood(void **state) {
    (void)state;
    static const char *const words[] = {"SAME_UPPER", "SAME_LOWER", "VALID"};
    for (int form = 0; form < 3; form++) {
        fixture f = begin(OP_CONV_INTEGER);
        const op_shape x = test_shape(3, 1, 1, 4), w = test_shape(3, 1, 1, 2);
        const uint8_t numbers[] = {1, 2, 3, 4}, ones[] = {1, 10};
        memcpy(add(&f, OP_UINT8, &x)->data, numbers, sizeof numbers);
        memcpy(add(&f, OP_UINT8, &w)->data, ones, sizeof ones);
        f.attributes[f.call.attributes.count++] =
            (op_attribute){.name = "auto_pad",
                           .kind = OP_ATTRIBUTE_STRING,
                           .count = 1,
                           .as.text = {words[form], strlen(words[form])}};
        apply_well(&f);
        static const int32_t want[][4] = {{21, 32, 43, 4}, {10, 21, 32, 43}, {21, 32, 43}};
        assert_int_equal(f.outputs[0].type.shape.dims[2], form == 2 ? 3 : 4);
        assert_memory_equal(f.outputs[0].data, want[form], f.outputs[0].bytes);
        base_arena_free(&f.arena);
    }
}

/* Empty tensors may have any extents; products of these overflow. */
static void nothing_comes_of_nothing(void **state) {
    (void)state;
    const int64_t huge = INT64_C(1) << 15;
    for (int form = 0; form < 3; form++) { /* no images, no filters, no channels */
        fixture f = begin(OP_CONV_INTEGER);
        op_shape x = {.rank = 6, .dims = {form != 0, form != 2, huge, huge, huge, huge}};
        op_shape w = {.rank = 6, .dims = {form != 1, form != 2, huge, huge, huge, huge}};
        if (form < 2) {
            x.dims[form == 0 ? 1 : 0] = 0; /* the other of the two has to be empty as well */
            if (form == 0) w.dims[1] = 0;
        }
        add(&f, OP_UINT8, &x);
        add(&f, OP_UINT8, &w);
        apply_well(&f);
        assert_int_equal(test_elements(&f.outputs[0]), form == 2);
        if (form == 2) assert_int_equal(test_integer(&f.outputs[0], 0), 0);
        base_arena_free(&f.arena);
    }
    fixture f = begin(OP_MATMUL_INTEGER);
    const op_shape a = {.rank = 3, .dims = {0, huge * 8, huge * 8}},
                   b = {.rank = 3, .dims = {0, huge * 8, 5}};
    add(&f, OP_UINT8, &a);
    add(&f, OP_UINT8, &b);
    apply_well(&f);
    base_arena_free(&f.arena);
    f = begin(OP_QUANTIZE_LINEAR);
    const op_shape vector = {.rank = 1, .dims = {0}},
                   all = {.rank = 4, .dims = {0, huge * 8, huge * 8, huge * 8}},
                   overflowing = {.rank = 4, .dims = {0, huge * huge, huge * huge, huge * huge}};
    add(&f, OP_FLOAT, &all);
    add(&f, OP_FLOAT, &vector);
    add_integer(&f, "axis", 0);
    apply_well(&f);
    base_arena_free(&f.arena);
    f = begin(OP_QUANTIZE_LINEAR);
    add(&f, OP_FLOAT, &overflowing);
    add(&f, OP_FLOAT, &vector);
    add_integer(&f, "axis", 0);
    expect_refusal(&f, "input 0 is float32[0,1073741824,1073741824,1073741824]: too large");
}

static void convolutions_refuse_what_does_not_fit(void **state) {
    (void)state;
    const op_shape x = test_shape(4, 1, 4, 5, 5), w = test_shape(4, 6, 2, 3, 3), five = test_shape(1, 5),
                   scalar = {0};
    fixture f = begin(OP_CONV_INTEGER);
    add(&f, OP_UINT8, &x);
    add(&f, OP_UINT8, &w);
    expect_refusal(&f, "input 1 (weights) has 2 channels, expected 4");
    f = begin(OP_CONV_INTEGER);
    add(&f, OP_UINT8, &x);
    add(&f, OP_UINT8, &w);
    add(&f, OP_UINT8, &five);
    add_integer(&f, "group", 2);
    expect_refusal(&f, "input 2 (zero point of X) has shape [5], expected a scalar");
    f = begin(OP_QLINEAR_CONV);
    add(&f, OP_UINT8, &x);
    add(&f, OP_FLOAT, &scalar);
    add(&f, OP_UINT8, &scalar);
    add(&f, OP_INT8, &w);
    add(&f, OP_FLOAT, &five);
    add(&f, OP_INT8, &five);
    add(&f, OP_FLOAT, &scalar);
    add(&f, OP_UINT8, &scalar);
    add_integer(&f, "group", 2);
    expect_refusal(&f, "input 4 (scale of W) has shape [5], expected a scalar or a vector of 6 elements");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantising_follows_its_definition),
        cmocka_unit_test(what_has_no_integer_saturates),
        cmocka_unit_test(middles_are_divided),
        cmocka_unit_test(scales_must_fit),
        cmocka_unit_test(the_range_is_found_in_the_data),
        cmocka_unit_test(products_follow_their_definition),
        cmocka_unit_test(vectors_multiply_as_in_numpy),
        cmocka_unit_test(convolutions_follow_their_definition),
        cmocka_unit_test(sums_of_all_sizes_saturate),
        cmocka_unit_test(automatic_padding_is_understood),
        cmocka_unit_test(nothing_comes_of_nothing),
        cmocka_unit_test(convolutions_refuse_what_does_not_fit),
    };
    printf("seed %d\n", SEED);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test_byte_pairs.c: sums, differences and products of two tensors of bytes (runtime/kernels/portable/byte_pairs.c): all pairs of bytes, with scales
 * whose quotients are often in the middle of two numbers and with others, beside divisions; QuantizeLinear of numbers next to such middles
 * likewise; and programs that are none.
 */
#include "runtime/kernels/portable/byte_pairs.h"
#include "tests/support/application.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { ALL = 256 * 256, INPUTS = 8, ROUNDS = 40, NUMBERS = 4000 };

/* Inputs 0 and 1 are bytes; 2, 3 and 4 scales, 5, 6 and 7 zero points, of both and of the result. */
static op_fused program_of(op_code code, bool rectifies) {
    op_fused program = {.input_count = INPUTS, .step_count = rectifies ? 5 : 4};
    program.steps[0] =
        (op_fused_step){.code = OP_DEQUANTIZE_LINEAR, .operand_count = 3, .operands = {0, 2, 5}};
    program.steps[1] =
        (op_fused_step){.code = OP_DEQUANTIZE_LINEAR, .operand_count = 3, .operands = {1, 3, 6}};
    program.steps[2] = (op_fused_step){.code = code, .operand_count = 2, .operands = {INPUTS, INPUTS + 1}};
    program.steps[3] = (op_fused_step){.code = OP_RELU, .operand_count = 1, .operands = {INPUTS + 2}};
    program.steps[program.step_count - 1] =
        (op_fused_step){.code = OP_QUANTIZE_LINEAR,
                        .operand_count = 3,
                        .operands = {INPUTS + (int32_t)program.step_count - 2, 4, 7}};
    return program;
}

static void set_types(const op_fused *program, const op_dtype dtypes[3], op_tensor *values) {
    memset(values, 0, (OP_FUSED_INPUTS + OP_FUSED_STEPS) * sizeof *values);
    for (uint32_t v = 0; v < INPUTS + program->step_count; v++) values[v].type.dtype = OP_FLOAT;
    for (int i = 0; i < 2; i++) values[i].type.dtype = dtypes[i];
    for (int i = 0; i < 3; i++) values[5 + i].type.dtype = dtypes[i];
    values[INPUTS + program->step_count - 1].type.dtype = dtypes[2];
}

static float number(op_dtype dtype, uint8_t byte) {
    return dtype == OP_INT8 ? (float)(int8_t)byte : (float)byte;
}

/* x / scale as a byte. */
static uint8_t quantized(float x, float scale, op_dtype dtype, uint8_t zero) {
    const float shift = number(dtype, zero), low = dtype == OP_INT8 ? -128 : 0;
    float q = rintf(x / scale) + shift;
    if (!(q > low)) q = low;
    if (q > low + 255) q = low + 255;
    return (uint8_t)(int32_t)q;
}

static void all_pairs_are_divided(void **unused) {
    (void)unused;
    static uint8_t a[ALL], b[ALL], y[ALL];
    static const float usual[] = {0.1f, 0.2f, 0.07f, 0.25f, 0.5f, 3.0f, 1.0f};
    static const op_code codes[] = {OP_ADD, OP_MUL, OP_SUB};
    static const op_dtype types[] = {OP_INT8, OP_UINT8};
    for (int i = 0; i < ALL; i++) a[i] = (uint8_t)i, b[i] = (uint8_t)(i >> 8);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        float scales[3];
        uint8_t zeros[3];
        op_dtype dtypes[3];
        op_tensor values[OP_FUSED_INPUTS + OP_FUSED_STEPS];
        rt_byte_pairs pairs;
        for (int i = 0; i < 3; i++) {
            scales[i] = round % 2 ? usual[random_range(&seed, 0, 6)] : fabsf(random_float(&seed)) + 0.01f;
            zeros[i] = (uint8_t)random_range(&seed, 0, 255);
            dtypes[i] = types[random_range(&seed, 0, 1)];
        }
        const op_code code = codes[round % 3];
        if (code == OP_MUL) scales[2] *= 40;
        const bool rectifies = random_range(&seed, 0, 1);
        const op_fused program = program_of(code, rectifies);
        set_types(&program, dtypes, values);
        if (!rt_byte_pairs_read(&program, values, &pairs)) skip(); /* no such machine */
        void *inputs[] = {a, b, &scales[0], &scales[1], &scales[2], &zeros[0], &zeros[1], &zeros[2]};
        const int64_t count = round % 4 ? ALL : random_range(&seed, 1, 400);
        memset(y, 0x5a, sizeof y);
        assert_true(rt_byte_pairs_run(&pairs, inputs, y, count));
        for (int64_t i = 0; i < ALL; i++) {
            const float left = (number(dtypes[0], a[i]) - number(dtypes[0], zeros[0])) * scales[0],
                        right = (number(dtypes[1], b[i]) - number(dtypes[1], zeros[1])) * scales[1];
            float x = code == OP_ADD ? left + right : code == OP_SUB ? left - right : left * right;
            if (rectifies && x < 0) x = 0;
            const uint8_t want = i < count ? quantized(x, scales[2], dtypes[2], zeros[2]) : 0x5a;
            if (y[i] != want) fail_msg("round %d, pair %d: %d, expected %d", (int)round, (int)i, y[i], want);
        }
        scales[random_range(&seed, 0, 2)] = round % 2 ? 0x1p-40f : 0x1p40f;
        assert_false(rt_byte_pairs_run(&pairs, inputs, y, count));
    }
}

/* Numbers in the middle of two, the next ones on both sides, and what is none. */
static void middles_are_divided(void **unused) {
    (void)unused;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        application app;
        application_init(&app, OP_QUANTIZE_LINEAR);
        const op_dtype dtype = round % 2 ? OP_UINT8 : OP_INT8;
        float *x = application_input(&app, OP_FLOAT, 1, DIMS(NUMBERS));
        float *scale = application_input(&app, OP_FLOAT, 0, NULL);
        uint8_t *zero = application_input(&app, dtype, 0, NULL);
        *scale = ldexpf(1 + fabsf(random_float(&seed)), (int)random_range(&seed, -20, 20));
        *zero = (uint8_t)random_range(&seed, 0, 255);
        for (int i = 0; i < NUMBERS; i++) {
            const float middle = ((float)random_range(&seed, -300, 300) + 0.5f) * *scale;
            const int64_t side = random_range(&seed, -2, 2);
            x[i] = middle;
            for (int64_t k = 0; k != side; k += side > 0 ? 1 : -1)
                x[i] = nextafterf(x[i], side > 0 ? INFINITY : -INFINITY);
        }
        static const float others[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e-40f, -0.0f};
        for (int i = 0; i < 7; i++) x[random_range(&seed, 0, NUMBERS - 1)] = others[i];
        application_run(&app, "portable.quantize_linear", 1);
        const uint8_t *y = app.outputs[0].data;
        for (int i = 0; i < NUMBERS; i++) {
            const uint8_t want = quantized(x[i], *scale, dtype, *zero);
            if (y[i] != want)
                fail_msg("round %d: %.9g / %.9g is %d, expected %d", (int)round, (double)x[i], (double)*scale,
                         y[i], want);
        }
        application_free(&app);
    }
}

static void other_programs_are_none(void **unused) {
    (void)unused;
    static const op_dtype dtypes[] = {OP_INT8, OP_INT8, OP_INT8};
    op_tensor values[OP_FUSED_INPUTS + OP_FUSED_STEPS];
    rt_byte_pairs pairs;
    op_fused program = program_of(OP_DIV, false);
    set_types(&program, dtypes, values);
    assert_false(rt_byte_pairs_read(&program, values, &pairs));
    program = program_of(OP_ADD, true);
    set_types(&program, dtypes, values);
    program.steps[3].code = OP_TANH;
    assert_false(rt_byte_pairs_read(&program, values, &pairs));
    program = program_of(OP_ADD, false);
    set_types(&program, dtypes, values);
    program.steps[2].operands[1] = 2; /* a scale, not what is dequantised */
    assert_false(rt_byte_pairs_read(&program, values, &pairs));
    program = program_of(OP_ADD, false);
    set_types(&program, dtypes, values);
    values[INPUTS + 3].type.dtype = OP_INT16;
    assert_false(rt_byte_pairs_read(&program, values, &pairs));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_pairs_are_divided),
                                       cmocka_unit_test(middles_are_divided),
                                       cmocka_unit_test(other_programs_are_none)};
    return cmocka_run_group_tests_name("byte_pairs", tests, NULL, NULL);
}

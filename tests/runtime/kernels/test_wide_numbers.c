/* SPDX-License-Identifier: Apache-2.0 */
/* test_wide_numbers.c: casts, remainders and shifts of rows of all lengths, where registers begin, end and are not full, with NaNs and
 * the ends of ranges among the numbers: what loops give that are written here. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include "tests/support/application.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 600 };

/* Numbers of every width by numbers of bits, one of them or of both as many as the result has. */
static void bits_are_shifted(void **state) {
    (void)state;
    static const op_dtype dtypes[] = {OP_UINT8, OP_UINT16, OP_UINT32, OP_UINT64};
    for (uint64_t round = 0; round < 96; round++) {
        uint64_t seed = (round + 1) * 49979687;
        const op_dtype dtype = dtypes[round % 4];
        const size_t size = (size_t)1 << round % 4;
        const bool left = round / 4 % 2;
        const int64_t count = random_range(&seed, 1, 200), many = round / 8 % 3;
        const int64_t counts[2] = {many == 1 ? 1 : count, many == 2 ? 1 : count};
        application app;
        application_init(&app, OP_BIT_SHIFT);
        for (uint32_t k = 0; k < 2; k++) {
            uint8_t *data = application_input(&app, dtype, 1, &counts[k]);
            for (int64_t i = 0; i < counts[k]; i++) {
                const uint64_t value = k == 0 ? random_next(&seed) : (uint64_t)random_range(&seed, 0, 70);
                memcpy(data + (size_t)i * size, &value, size); /* the low bits */
            }
        }
        application_text(&app, "direction", left ? "LEFT" : "RIGHT");
        application_run(&app, "portable.bit_shift", 1);
        for (int64_t i = 0; i < count; i++) {
            uint64_t x = 0, by = 0, got = 0;
            memcpy(&x, (const char *)app.inputs[0].data + (counts[0] == 1 ? 0 : (size_t)i * size), size);
            memcpy(&by, (const char *)app.inputs[1].data + (counts[1] == 1 ? 0 : (size_t)i * size), size);
            memcpy(&got, (const char *)app.outputs[0].data + (size_t)i * size, size);
            uint64_t want = by >= 8 * size ? 0 : left ? x << by : x >> by;
            want &= UINT64_MAX >> (64 - 8 * size);
            if (got != want) fail_msg("round %d, element %d", (int)round, (int)i);
        }
        application_free(&app);
    }
}

/* Floats of all sizes, with those at the ends of ranges, as what their bits say. */
static void fill_any(float *x, int64_t count, uint64_t *seed) {
    static const float ends[] = {0.0f,     -0.0f,      0.5f,     -0.5f,     127.5f,   128.0f,
                                 -128.5f,  255.9f,     256.0f,   32767.5f,  -32769.f, 65535.5f,
                                 65536.0f, 0x1p31f,    -0x1p31f, 0x1p32f,   0x1p63f,  -0x1p63f,
                                 0x1p64f,  0x1.fep62f, INFINITY, -INFINITY, NAN};
    for (int64_t i = 0; i < count; i++) {
        const uint64_t draw = random_next(seed);
        const uint32_t bits = (uint32_t)(draw >> 20);
        if (draw % 3 == 0) x[i] = ends[draw / 3 % (sizeof ends / sizeof *ends)];
        else if (draw % 3 == 1) x[i] = random_float(seed) * 300;
        else memcpy(x + i, &bits, sizeof bits);
    }
}

/* The types of integers and their ends, the narrow ones first. */
static const struct {
    op_dtype dtype;
    double low, high;
} integers[] = {{OP_INT8, -128, 127},
                {OP_UINT8, 0, 255},
                {OP_INT16, -32768, 32767},
                {OP_UINT16, 0, 65535},
                {OP_INT32, -0x1p31, 0x1p31 - 1},
                {OP_UINT32, 0, 0x1p32 - 1},
                {OP_INT64, -0x1p63, 0x1p63},
                {OP_UINT64, 0, 0x1p64}};

static double whole(double x, double low, double high) {
    return isnan(x) ? 0 : x <= low ? low : x >= high ? high : trunc(x);
}

static void floats_become_integers(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 32452843;
        const size_t kind = round % 8;
        const int64_t count = random_range(&seed, 1, 100);
        application app;
        application_init(&app, OP_CAST);
        float *x = application_input(&app, OP_FLOAT, 1, DIMS(count));
        fill_any(x, count, &seed);
        application_integer(&app, "to", integers[kind].dtype);
        application_run(&app, "portable.cast", 1);
        for (int64_t i = 0; i < count; i++) {
            const double want = whole((double)x[i], integers[kind].low, integers[kind].high),
                         got = integers[kind].dtype == OP_UINT64
                                   ? (double)((const uint64_t *)app.outputs[0].data)[i]
                                   : application_element(&app.outputs[0], i);
            if (got != want) fail_msg("round %d: %a becomes %a", (int)round, (double)x[i], got);
        }
        application_free(&app);
    }
}

/* Doubles and integers as 16 bits: rounded once, also where a float between them would be a tie. */
static void numbers_become_halves(void **state) {
    (void)state;
    static const op_dtype from[] = {OP_DOUBLE, OP_DOUBLE, OP_INT64, OP_UINT64, OP_INT32,
                                    OP_UINT32, OP_INT8,   OP_UINT8, OP_INT16,  OP_UINT16};
    static const double ends[] = {0,     -0.0,   INFINITY, -INFINITY, NAN,
                                  1e300, -1e300, 1e-320,   65520,     0x1.fffp15};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 122949823;
        const op_dtype source = from[round % 10], target = round / 10 % 2 ? OP_FLOAT16 : OP_BFLOAT16;
        const int64_t count = random_range(&seed, 1, 700);
        application app;
        application_init(&app, OP_CAST);
        void *x = application_input(&app, source, 1, DIMS(count));
        for (int64_t i = 0; i < count; i++) {
            /* Near the middle of two neighbours of 8 or 11 bits. */
            const int shift = (int)random_range(&seed, 1, 50), bits = target == OP_FLOAT16 ? 11 : 8;
            const int64_t middle = (2 * random_range(&seed, 1 << (bits - 1), (1 << bits) - 1) + 1)
                                   << (shift < 62 - bits ? shift : 0),
                          number = middle + random_range(&seed, 0, 2) - 1;
            const size_t size = op_dtype_bytes(source);
            if (source == OP_DOUBLE) {
                const double real = random_range(&seed, 0, 9)
                                        ? ldexp((double)number, (int)random_range(&seed, -90, 10) - shift)
                                        : ends[random_range(&seed, 0, 9)];
                ((double *)x)[i] = random_range(&seed, 0, 1) ? real : -real;
            } else {
                memcpy((char *)x + (size_t)i * size, &number, size); /* its low bits */
            }
        }
        application_integer(&app, "to", target);
        application_run(&app, "portable.cast", 1);
        for (int64_t i = 0; i < count; i++) {
            const double real = source == OP_UINT64 ? (double)((const uint64_t *)x)[i]
                                                    : application_element(&app.inputs[0], i);
            const uint16_t got = ((const uint16_t *)app.outputs[0].data)[i],
                           want = target == OP_FLOAT16 ? base_half_from_double(real)
                                                       : base_bfloat16_from_double(real);
            if (isnan(real) ? !isnan(application_element(&app.outputs[0], i)) : got != want)
                fail_msg("round %d: %a becomes %#x, not %#x", (int)round, real, got, want);
        }
        application_free(&app);
    }
}

static void doubles_become_integers(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 141650939;
        const size_t kind = round % 6;
        const int64_t count = random_range(&seed, 1, 100);
        application app;
        application_init(&app, OP_CAST);
        double *x = application_input(&app, OP_DOUBLE, 1, DIMS(count));
        float some[100];
        fill_any(some, count, &seed);
        /* In calm rounds most numbers fit into the type, and few do not. */
        const bool calm = random_range(&seed, 0, 1);
        for (int64_t i = 0; i < count; i++) {
            if (calm && random_range(&seed, 0, 20))
                x[i] = integers[kind].low + (integers[kind].high - integers[kind].low) *
                                                (double)random_range(&seed, 0, 1 << 20) * 0x1p-20;
            else if (random_range(&seed, 0, 3)) x[i] = (double)some[i];
            else x[i] = integers[kind].high + (double)random_range(&seed, -8, 8) / 4;
        }
        application_integer(&app, "to", integers[kind].dtype);
        application_run(&app, "portable.cast", 1);
        for (int64_t i = 0; i < count; i++) {
            const double want = whole(x[i], integers[kind].low, integers[kind].high),
                         got = application_element(&app.outputs[0], i);
            if (got != want) fail_msg("round %d: %a becomes %a, not %a", (int)round, x[i], got, want);
        }
        application_free(&app);
    }
}

/* Mod of floats has the bits of fmodf. */
static void remainders_of_floats(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 49979687;
        const int64_t count = random_range(&seed, 1, 600);
        const bool single = round % 4 == 0;
        application app;
        application_init(&app, OP_MOD);
        float *x = application_input(&app, OP_FLOAT, 1, DIMS(count));
        float *y = application_input(&app, OP_FLOAT, 1, DIMS(single ? 1 : count));
        fill_any(x, count, &seed);
        fill_any(y, single ? 1 : count, &seed);
        application_integer(&app, "fmod", 1);
        application_run(&app, "portable.elementwise_binary", 1);
        for (int64_t i = 0; i < count; i++) {
            const float want = fmodf(x[i], y[single ? 0 : i]), got = ((const float *)app.outputs[0].data)[i];
            if (isnan(want) ? !isnan(got) : memcmp(&want, &got, sizeof want) != 0)
                fail_msg("round %d: %a by %a is %a", (int)round, (double)x[i], (double)y[single ? 0 : i],
                         (double)got);
        }
        application_free(&app);
    }
}

static int64_t floored(int64_t a, int64_t b) {
    const int64_t rest = b == 0 ? 0 : a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static void remainders_of_integers(void **state) {
    (void)state;
    static const int32_t ends[] = {0, 1, -1, 2, -2, 7, -7, INT32_MAX, INT32_MIN, INT32_MIN + 1};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 67867967;
        const op_code code = round % 2 ? OP_MOD : OP_DIV;
        const int64_t count = random_range(&seed, 1, 100);
        application app;
        application_init(&app, code);
        int32_t *x = application_input(&app, OP_INT32, 1, DIMS(count)),
                *y = application_input(&app, OP_INT32, 1, DIMS(count));
        for (int64_t i = 0; i < count; i++) {
            x[i] = random_range(&seed, 0, 3) ? (int32_t)random_next(&seed) : ends[random_range(&seed, 0, 9)];
            y[i] = random_range(&seed, 0, 3) ? (int32_t)random_next(&seed) >> random_range(&seed, 0, 31)
                                             : ends[random_range(&seed, 0, 9)];
        }
        application_run(&app, "portable.elementwise_binary", 1);
        for (int64_t i = 0; i < count; i++) {
            const int64_t ratio = y[i] == 0 ? 0 : (int64_t)x[i] / y[i];
            const int32_t want =
                code == OP_MOD ? (int32_t)floored(x[i], y[i]) : (int32_t)(uint32_t)(uint64_t)ratio;
            assert_int_equal(((const int32_t *)app.outputs[0].data)[i], want);
        }
        application_free(&app);
    }
}

/* Of 64 bits: stretches of numbers of which all, or all but one, or few have no more than 32; either operand may be one number. */
static void remainders_of_long_integers(void **state) {
    (void)state;
    static const int64_t ends[] = {0,         1,         -1,        7,         -7,
                                   INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, (int64_t)INT32_MAX + 1};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round * 86028121;
        const op_code code = round % 3 ? OP_MOD : OP_DIV;
        const bool truncated = round % 3 == 2;
        const int64_t count = random_range(&seed, 1, 700), one = random_range(&seed, 0, 5);
        const int64_t counts[2] = {one == 0 ? 1 : count, one == 1 ? 1 : count};
        application app;
        application_init(&app, code);
        int64_t *operands[2];
        for (int k = 0; k < 2; k++) {
            operands[k] = application_input(&app, OP_INT64, 1, DIMS(counts[k]));
            for (int64_t i = 0; i < counts[k]; i++)
                operands[k][i] = (int32_t)random_next(&seed) >> random_range(&seed, 0, 31);
            for (uint64_t i = 0; i < round % 7; i++)
                operands[k][random_range(&seed, 0, counts[k] - 1)] =
                    random_range(&seed, 0, 2) ? ends[random_range(&seed, 0, 9)] : (int64_t)random_next(&seed);
        }
        if (truncated) application_integer(&app, "fmod", 1);
        application_run(&app, "portable.elementwise_binary", 1);
        for (int64_t i = 0; i < count; i++) {
            const int64_t a = operands[0][one == 0 ? 0 : i], b = operands[1][one == 1 ? 0 : i];
            const bool safe = b != 0 && b != -1;
            const int64_t want = code == OP_DIV ? (safe     ? a / b
                                                   : b == 0 ? 0
                                                            : (int64_t)(0 - (uint64_t)a))
                                 : !safe        ? 0
                                 : truncated    ? a % b
                                                : floored(a, b),
                          got = ((const int64_t *)app.outputs[0].data)[i];
            if (got != want)
                fail_msg("round %d: %" PRId64 " by %" PRId64 " is %" PRId64 ", not %" PRId64, (int)round, a,
                         b, got, want);
        }
        application_free(&app);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_shifted),           cmocka_unit_test(floats_become_integers),
        cmocka_unit_test(doubles_become_integers),    cmocka_unit_test(numbers_become_halves),
        cmocka_unit_test(remainders_of_floats),       cmocka_unit_test(remainders_of_integers),
        cmocka_unit_test(remainders_of_long_integers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* pow.c: powers of mixed types.
 *
 * Integers to integers are exact and wrap around. Everything else is computed in double, and rounded to the
 * type of the base; for an integer base the result is truncated, and cut to the ends of the type (NaN gives
 * 0). A single exponent of 2, 1/2 or -1 of floats is multiplied out, which is both faster and at least as
 * near.
 */
#include "runtime/kernels/portable/pow.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/vector_doubles.h"
#include <math.h>
#include <string.h>

enum { PAIRS = 256, WIDE = 16 };

int64_t rt_power_integer(int64_t base, bool negative, uint64_t magnitude) {
    if (negative) {
        if (base == 1) return 1;
        if (base == -1) return magnitude & 1 ? -1 : 1;
        return 0;
    }
    uint64_t result = 1, square = (uint64_t)base;
    for (; magnitude; magnitude >>= 1) {
        if (magnitude & 1) result *= square;
        square *= square;
    }
    return (int64_t)result;
}

static bool is_real(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype);
}

/* Sign and magnitude of an integer of any type. */
static bool load_integer(op_dtype dtype, const void *data, int64_t index, uint64_t *magnitude) {
    int64_t value;
    switch (dtype) {
    case OP_INT8:
        value = ((const int8_t *)data)[index];
        break;
    case OP_INT16:
        value = ((const int16_t *)data)[index];
        break;
    case OP_INT32:
        value = ((const int32_t *)data)[index];
        break;
    case OP_UINT8:
        value = ((const uint8_t *)data)[index];
        break;
    case OP_UINT16:
        value = ((const uint16_t *)data)[index];
        break;
    case OP_UINT32:
        value = ((const uint32_t *)data)[index];
        break;
    case OP_UINT64:
        *magnitude = ((const uint64_t *)data)[index];
        return false;
    default:
        value = ((const int64_t *)data)[index];
        break;
    }
    *magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    return value < 0;
}

static int64_t cut(double value, int64_t low, int64_t high, double beyond) {
    if (value != value) return 0;
    return value >= beyond ? high : value <= (double)low ? low : (int64_t)value;
}

static void store_real(op_dtype dtype, void *data, int64_t index, double value) {
    if (dtype == OP_INT32) ((int32_t *)data)[index] = (int32_t)cut(value, INT32_MIN, INT32_MAX, 0x1p31);
    else if (dtype == OP_INT64) ((int64_t *)data)[index] = cut(value, INT64_MIN, INT64_MAX, 0x1p63);
    else rt_element_store(dtype, data, index, value);
}

static void power_mixed(op_dtype dtype, void *to, const void *base, int64_t base_stride,
                        op_dtype exponent_dtype, const void *exponent, int64_t exponent_stride,
                        int64_t count) {
    bool real = is_real(dtype) || is_real(exponent_dtype);
    for (int64_t i = 0; i < count; i++) {
        int64_t from = i * base_stride, by = i * exponent_stride;
        if (real) {
            double x = rt_element_load(dtype, base, from), y = rt_element_load(exponent_dtype, exponent, by);
            store_real(dtype, to, i, pow(x, y));
            continue;
        }
        uint64_t magnitude;
        bool negative = load_integer(exponent_dtype, exponent, by, &magnitude);
        if (dtype == OP_INT32) {
            int64_t result = rt_power_integer(((const int32_t *)base)[from], negative, magnitude);
            ((int32_t *)to)[i] = (int32_t)(uint32_t)(uint64_t)result;
        } else {
            ((int64_t *)to)[i] = rt_power_integer(((const int64_t *)base)[from], negative, magnitude);
        }
    }
}

RT_CLONES static void power_square(float *to, const float *base, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = base[i] * base[i];
}
/* In double the square is exact, so that the cube is rounded as pow rounds. */
RT_CLONES static void power_cube(float *to, const float *base, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) {
        const double x = (double)base[i];
        to[i] = (float)(x * x * x);
    }
}
RT_CLONES static void power_root(float *to, const float *base, int64_t count) {
    /* Unlike sqrt, pow maps -0 to 0 and minus infinity to infinity. */
    RT_VECTOR for (int64_t i = 0; i < count; i++) {
        const float x = base[i], root = sqrtf(x + 0.0f);
        to[i] = x == -INFINITY ? INFINITY : root;
    }
}
RT_CLONES static void power_reciprocal(float *to, const float *base, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = 1.0f / base[i];
}

/* Pairs of numbers. Where one of both is the same for all, a compiler would branch on it, and make no vectors. */
RT_CLONES static void power_pairs(float *to, const float *base, const float *exponent, int64_t count) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = rt_pow(base[i], exponent[i]);
}

void rt_power_floats(float *to, const float *base, int64_t base_stride, const float *exponent,
                     int64_t exponent_stride, int64_t count) {
    float x[PAIRS], y[PAIRS];
    const int64_t whole = count - count % WIDE, rest = count - whole;
    for (int64_t i = 0; base_stride == 0 && i < PAIRS && i < whole; i++) x[i] = base[0];
    for (int64_t i = 0; exponent_stride == 0 && i < PAIRS && i < whole; i++) y[i] = exponent[0];
    for (int64_t i = 0; i < whole; i += PAIRS)
        power_pairs(to + i, base_stride ? base + i : x, exponent_stride ? exponent + i : y,
                    whole - i < PAIRS ? whole - i : PAIRS);
    /* The last few are better off in a full vector. */
    for (int64_t i = 0; rest && i < WIDE; i++) {
        x[i] = i < rest ? base[(whole + i) * base_stride] : 1;
        y[i] = i < rest ? exponent[(whole + i) * exponent_stride] : 1;
    }
    if (rest) power_pairs(x, x, y, WIDE);
    for (int64_t i = 0; i < rest; i++) to[whole + i] = x[i];
}

static void power_float(op_dtype dtype, void *to, const void *base, int64_t base_stride,
                        op_dtype exponent_dtype, const void *exponent, int64_t exponent_stride,
                        int64_t count) {
    const float *x = base, *y = exponent;
    float *z = to;
    (void)dtype;
    (void)exponent_dtype;
    if (exponent_stride == 0 && base_stride == 1 && count > 0) {
        const float e = y[0];
        if (e == 2.0f) power_square(z, x, count);
        else if (e == 3.0f) power_cube(z, x, count);
        else if (e == 0.5f) power_root(z, x, count);
        else if (e == -1.0f) power_reciprocal(z, x, count);
        else rt_power_floats(z, x, 1, y, 0, count);
        return;
    }
    rt_power_floats(z, x, base_stride, y, exponent_stride, count);
}

/* Floats by one number of another type. */
static void power_float_mixed(op_dtype dtype, void *to, const void *base, int64_t base_stride,
                              op_dtype exponent_dtype, const void *exponent, int64_t exponent_stride,
                              int64_t count) {
    const double e = count > 0 ? rt_element_load(exponent_dtype, exponent, 0) : 0;
    const float near = (float)e;
    if (exponent_stride == 0 && (double)near == e)
        power_float(dtype, to, base, base_stride, OP_FLOAT, &near, 0, count);
    else power_mixed(dtype, to, base, base_stride, exponent_dtype, exponent, exponent_stride, count);
}

/* Of 16 bits by one exponent. What floats give here is rounded once more, which changes nothing: they have more than twice the digits. */
static void power_halves(op_dtype dtype, void *to, const void *base, int64_t base_stride,
                         op_dtype exponent_dtype, const void *exponent, int64_t exponent_stride,
                         int64_t count) {
    const double e = count > 0 ? rt_element_load(exponent_dtype, exponent, 0) : 0;
    const bool known = e == 2 || e == 0.5 || e == -1;
    if (exponent_stride != 0 || base_stride != 1 || (!known && exponent_dtype != dtype)) {
        power_mixed(dtype, to, base, base_stride, exponent_dtype, exponent, exponent_stride, count);
        return;
    }
    _Alignas(RT_ALIGNMENT) float block[RT_HALF_BLOCK];
    for (int64_t i = 0; i < count; i += RT_HALF_BLOCK) {
        const int64_t some = count - i < RT_HALF_BLOCK ? count - i : RT_HALF_BLOCK;
        rt_half_load(dtype, block, (const uint16_t *)base + i, some);
        if (e == 2) power_square(block, block, some);
        else if (e == 0.5) power_root(block, block, some);
        else if (e == -1) power_reciprocal(block, block, some);
        else rt_power_floats(block, block, 1, &(const float){(float)e}, 0, some);
        rt_half_store(dtype, (uint16_t *)to + i, block, some);
    }
}

/* Up to PAIRS integers to one that is not negative; tells which of both arrays has the powers. */
RT_CLONES static const uint64_t *raise_all(uint64_t *squares, uint64_t *results, int64_t count,
                                           uint64_t magnitude) {
    for (; magnitude && magnitude % 2 == 0; magnitude /= 2)
        for (int64_t i = 0; i < count; i++) squares[i] *= squares[i];
    if (magnitude == 1) return squares;
    for (int64_t i = 0; i < count; i++) results[i] = magnitude ? squares[i] : 1;
    while (magnitude > 1) {
        magnitude /= 2;
        for (int64_t i = 0; i < count; i++) squares[i] *= squares[i];
        if (magnitude % 2)
            for (int64_t i = 0; i < count; i++) results[i] *= squares[i];
    }
    return results;
}

/* The same of integers of 32 or 64 bits, by any exponent of an integer type: where it is one for all bases, many at a time. */
static void power_integers(op_dtype dtype, void *to, const void *base, int64_t base_stride,
                           op_dtype exponent_dtype, const void *exponent, int64_t exponent_stride,
                           int64_t count) {
    uint64_t squares[PAIRS], results[PAIRS], magnitude = 0;
    const bool single = count > 0 && exponent_stride == 0 && base_stride == 1;
    if (!single || load_integer(exponent_dtype, exponent, 0, &magnitude)) {
        power_mixed(dtype, to, base, base_stride, exponent_dtype, exponent, exponent_stride, count);
        return;
    }
    for (int64_t i = 0; i < count; i += PAIRS) {
        const int64_t some = count - i < PAIRS ? count - i : PAIRS;
        if (dtype == OP_INT64) memcpy(squares, (const int64_t *)base + i, (size_t)some * sizeof *squares);
        for (int64_t k = 0; k < some && dtype == OP_INT32; k++)
            squares[k] = (uint64_t)((const int32_t *)base)[i + k];
        const uint64_t *powers = raise_all(squares, results, some, magnitude);
        if (dtype == OP_INT64) memcpy((int64_t *)to + i, powers, (size_t)some * sizeof *powers);
        for (int64_t k = 0; k < some && dtype == OP_INT32; k++)
            ((int32_t *)to)[i + k] = (int32_t)(uint32_t)powers[k];
    }
}

rt_power_function *rt_power_select(op_dtype base, op_dtype exponent, const op_tensor *exponents) {
    int64_t elements;
    bool single = op_shape_elements(&exponents->type.shape, &elements) && elements == 1;
    if (rt_is_half(base) && single && is_real(exponent)) return power_halves;
    if (base == OP_FLOAT && base != exponent && single) return power_float_mixed;
    if ((base == OP_INT32 || base == OP_INT64) && !is_real(exponent) && single) return power_integers;
    if (base != exponent) return power_mixed;
    return base == OP_FLOAT && single ? power_float : NULL;
}

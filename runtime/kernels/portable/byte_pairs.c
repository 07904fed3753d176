/* SPDX-License-Identifier: Apache-2.0 */
/* byte_pairs.c: implements byte_pairs.h.
 *
 * A byte b below the digits of 2^23 is the float 2^23 + b, of which 2^23 and the zero point are taken away at once and exactly: so it takes one
 * instruction less than to widen b and to convert it. Those with a sign get 128 more, as do their zero points.
 */
#include "runtime/kernels/portable/byte_pairs.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/quantize_lanes.h"

/* ---- what is read --------------------------------------------------------------------------------------- */

/* The operands of a step between bytes and floats: input 1 and 2 are inputs of the program. */
static bool read_side(const op_fused *program, const op_fused_step *step, const op_tensor *values,
                      op_dtype bytes, rt_pair_side *side) {
    const int32_t inputs = (int32_t)program->input_count;
    if (step->operand_count < 2 || !rt_is_byte(bytes)) return false;
    *side = (rt_pair_side){.bytes = -1,
                           .scale = step->operands[1],
                           .zero = step->operand_count > 2 ? step->operands[2] : -1,
                           .negative = bytes == OP_INT8};
    return side->scale >= 0 && side->scale < inputs && side->zero < inputs &&
           values[side->scale].type.dtype == OP_FLOAT &&
           (side->zero < 0 || values[side->zero].type.dtype == bytes);
}

/* A value that a DequantizeLinear of an input makes. */
static bool read_operand(const op_fused *program, const op_tensor *values, int32_t value,
                         rt_pair_side *side) {
    const int32_t inputs = (int32_t)program->input_count;
    if (value < inputs) return false;
    const op_fused_step *step = &program->steps[value - inputs];
    const int32_t bytes = step->operands[0];
    if (step->code != OP_DEQUANTIZE_LINEAR || bytes < 0 || bytes >= inputs ||
        values[value].type.dtype != OP_FLOAT ||
        !read_side(program, step, values, values[bytes].type.dtype, side))
        return false;
    side->bytes = bytes;
    return true;
}

static bool has_machine(void) {
#if RT_X86_KERNELS
    return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq");
#else
    return false;
#endif
}

bool rt_byte_pairs_read(const op_fused *program, const op_tensor *values, rt_byte_pairs *pairs) {
    const int32_t inputs = (int32_t)program->input_count, steps = (int32_t)program->step_count;
    if (!has_machine() || steps < 4 || steps > 5) return false;
    const op_fused_step *last = &program->steps[steps - 1], *relu = &program->steps[steps - 2],
                        *pair = &program->steps[2];
    *pairs = (rt_byte_pairs){.code = pair->code, .rectifies = steps == 5};
    if (last->code != OP_QUANTIZE_LINEAR || last->operands[0] != inputs + steps - 2 ||
        !read_side(program, last, values, values[inputs + steps - 1].type.dtype, &pairs->y))
        return false;
    if (pairs->rectifies && (relu->code != OP_RELU || relu->operands[0] != inputs + 2)) return false;
    if (pair->code != OP_ADD && pair->code != OP_SUB && pair->code != OP_MUL) return false;
    return pair->operand_count == 2 && read_operand(program, values, pair->operands[0], &pairs->a) &&
           read_operand(program, values, pair->operands[1], &pairs->b);
}

/* ---- running -------------------------------------------------------------------------------------------- */

#if RT_X86_KERNELS
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vbmi")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum { BYTES = 64 };

/* Scales between which no product or quotient is infinite, and none is below the least normal number that rounds to more than 0. */
static bool is_usual(float scale) {
    return scale >= 0x1p-30f && scale <= 0x1p30f;
}

static int32_t zero_of(const rt_pair_side *side, void *const *inputs) {
    if (side->zero < 0) return 0;
    return side->negative ? *(const int8_t *)inputs[side->zero] : *(const uint8_t *)inputs[side->zero];
}

typedef struct side_lanes {
    __m512i flip;
    __m512 shift, scale;
} side_lanes;

INLINE side_lanes lanes_of(const rt_pair_side *side, void *const *inputs) {
    const int32_t more = side->negative ? 128 : 0;
    return (side_lanes){_mm512_set1_epi8((int8_t)(side->negative ? INT8_MIN : 0)),
                        _mm512_set1_ps(8388608.0f + (float)(zero_of(side, inputs) + more)),
                        _mm512_set1_ps(*(const float *)inputs[side->scale])};
}

/* Quarter k of 64 bytes, as what they stand for. */
INLINE __m512 dequantized(const side_lanes *side, __m512i bytes, int k) {
    /* The three bytes after the one of the number come from the second table: 0, 0, 0x4b. */
    const __m512i first =
        _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32((int32_t)(0x41404000U + 16 * (unsigned)k)));
    const __m512i float_bits = _mm512_set1_epi16(0x4b00);
    const __m512 number = _mm512_castsi512_ps(_mm512_permutex2var_epi8(bytes, first, float_bits));
    return _mm512_mul_ps(_mm512_sub_ps(number, side->shift), side->scale);
}

INLINE __m512 combined(op_code code, bool rectifies, __m512 left, __m512 right) {
    const __m512 v = code == OP_ADD   ? _mm512_add_ps(left, right)
                     : code == OP_SUB ? _mm512_sub_ps(left, right)
                                      : _mm512_mul_ps(left, right);
    return rectifies ? _mm512_max_ps(_mm512_setzero_ps(), v) : v;
}

INLINE void run_pairs(const rt_byte_pairs *pairs, op_code code, bool rectifies, void *const *inputs,
                      uint8_t *to, int64_t count) {
    const side_lanes a = lanes_of(&pairs->a, inputs), b = lanes_of(&pairs->b, inputs);
    const uint8_t *from_a = inputs[pairs->a.bytes], *from_b = inputs[pairs->b.bytes];
    const float scale = *(const float *)inputs[pairs->y.scale];
    const __m512 scales = _mm512_set1_ps(scale), factor = _mm512_set1_ps(1 / scale);
    const int32_t zero = zero_of(&pairs->y, inputs);
    const bool negative = pairs->y.negative;
    int64_t i = 0;
    /* Two registers of bytes side by side, as one result takes many steps to be made; no masks. */
    for (; i + 2 * BYTES <= count; i += 2 * BYTES) {
        const __m512i x[] = {_mm512_xor_si512(_mm512_loadu_si512(from_a + i), a.flip),
                             _mm512_xor_si512(_mm512_loadu_si512(from_a + i + BYTES), a.flip)},
                      y[] = {_mm512_xor_si512(_mm512_loadu_si512(from_b + i), b.flip),
                             _mm512_xor_si512(_mm512_loadu_si512(from_b + i + BYTES), b.flip)};
        __m512 v[8];
        _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++) v[k] =
            combined(code, rectifies, dequantized(&a, x[k / 4], k % 4), dequantized(&b, y[k / 4], k % 4));
        rt_quantize_bytes(to + i, 2 * BYTES, v, 8, scales, factor, zero, negative, true);
    }
    for (; i < count; i += BYTES) {
        const __mmask64 there = rt_first_lanes_64(count - i);
        const __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, from_a + i), a.flip),
                      y = _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, from_b + i), b.flip);
        __m512 v[4];
        _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) v[k] =
            combined(code, rectifies, dequantized(&a, x, k), dequantized(&b, y, k));
        rt_quantize_bytes(to + i, count - i, v, 4, scales, factor, zero, negative, true);
    }
}

#define RUN(name, code)                                                                                      \
    TARGET static void name(const rt_byte_pairs *pairs, void *const *inputs, uint8_t *to, int64_t count) {   \
        if (pairs->rectifies) run_pairs(pairs, code, true, inputs, to, count);                               \
        else run_pairs(pairs, code, false, inputs, to, count);                                               \
    }
RUN(run_sums, OP_ADD)
RUN(run_differences, OP_SUB)
RUN(run_products, OP_MUL)

bool rt_byte_pairs_run(const rt_byte_pairs *pairs, void *const *inputs, uint8_t *to, int64_t count) {
    const rt_pair_side *const sides[] = {&pairs->a, &pairs->b, &pairs->y};
    for (int i = 0; i < 3; i++)
        if (!is_usual(*(const float *)inputs[sides[i]->scale])) return false;
    if (pairs->code == OP_ADD) run_sums(pairs, inputs, to, count);
    else if (pairs->code == OP_SUB) run_differences(pairs, inputs, to, count);
    else run_products(pairs, inputs, to, count);
    return true;
}
#else
bool rt_byte_pairs_run(const rt_byte_pairs *pairs, void *const *inputs, uint8_t *to, int64_t count) {
    (void)pairs, (void)inputs, (void)to, (void)count;
    return false;
}
#endif

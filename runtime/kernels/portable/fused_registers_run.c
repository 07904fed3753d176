/* SPDX-License-Identifier: Apache-2.0 */
/* fused_registers_run.c: runs the instructions of fused_registers_code.h, all of them on a piece of the result before the next piece begins; see
 * fused_registers.h. */
#include "runtime/kernels/portable/fused_registers_code.h"
#include "runtime/kernels/portable/half_lanes.h"
#include "runtime/kernels/portable/quantize_lanes.h"
#include "runtime/kernels/portable/vector_math_512.h"
#include <string.h>

#ifdef RT_HAS_MATH_512

enum {
    LANES = 16,
    TOGETHER =
        8, /* registers of the accumulator: enough that what an instruction costs by itself is hardly seen */
    PIECE = RT_REGISTER_PIECE,
    CODES = 256,          /* numbers of 8 bits */
    WORTH_A_TABLE = 1024, /* elements from which on what all codes become is found first, and looked up */
};

_Static_assert(PIECE == LANES * TOGETHER, "a piece fills the accumulator");

/* What the code finds when it runs, by instruction. */
typedef struct register_operands {
    const float *at[MOST_CODE], *rows[MOST_CODE];
    float single[MOST_CODE]; /* of other types than float: one for all; the scale */
    float zero[MOST_CODE];
} register_operands;

#define EACH _Pragma("GCC unroll 8") for (int j = 0; j < TOGETHER; j++)

/* An element of the short row that a register holds. Of those that are not there it is the last one that is. */
static inline int64_t row_of(int64_t element, int64_t count) {
    return element < count ? element : count - 1;
}

#define CASES(code, expression)                                                                              \
    case (code) + RUNS:                                                                                      \
        EACH {                                                                                               \
            const float *from = at[k] + first + j * LANES;                                                   \
            const __m512 a = x[j], b = whole ? _mm512_loadu_ps(from)                                         \
                                             : _mm512_maskz_loadu_ps(                                        \
                                                   rt_first_lanes_16(count - first - j * LANES), from);      \
            (void)a;                                                                                         \
            x[j] = (expression);                                                                             \
        }                                                                                                    \
        break;                                                                                               \
    case (code) + STAYS:                                                                                     \
        EACH {                                                                                               \
            const __m512 a = x[j], b = _mm512_set1_ps(*at[k]);                                               \
            (void)a;                                                                                         \
            x[j] = (expression);                                                                             \
        }                                                                                                    \
        break;                                                                                               \
    case (code) + EACH_ROW:                                                                                  \
        if (whole && shift == 4) {                                                                           \
            const float *from = at[k] + first / LANES;                                                       \
            EACH {                                                                                           \
                const __m512 a = x[j], b = _mm512_set1_ps(from[j]);                                          \
                (void)a;                                                                                     \
                x[j] = (expression);                                                                         \
            }                                                                                                \
        } else {                                                                                             \
            EACH {                                                                                           \
                const __m512 a = x[j], b = _mm512_set1_ps(at[k][row_of(first + j * LANES, count) >> shift]); \
                (void)a;                                                                                     \
                x[j] = (expression);                                                                         \
            }                                                                                                \
        }                                                                                                    \
        break;                                                                                               \
    case (code) + ONE_ROW:                                                                                   \
        EACH {                                                                                               \
            const __m512 a = x[j], b = _mm512_loadu_ps(at[k] + ((j * LANES) & ((1 << shift) - 1)));          \
            (void)a;                                                                                         \
            x[j] = (expression);                                                                             \
        }                                                                                                    \
        break;                                                                                               \
    case (code) + SAVED:                                                                                     \
        EACH {                                                                                               \
            const __m512 a = x[j], b = saved[one->value][j];                                                 \
            (void)a;                                                                                         \
            x[j] = (expression);                                                                             \
        }                                                                                                    \
        break
#define CASE(code, expression)                                                                               \
    case code:                                                                                               \
        EACH {                                                                                               \
            const __m512 a = x[j];                                                                           \
            x[j] = (expression);                                                                             \
        }                                                                                                    \
        break
/* A long expression for half of the registers at a time: the compiler puts the chains of several side by side, and has not enough registers
 * for more. */
#define CASE_LONG(code, expression)                                                                          \
    case code: {                                                                                             \
        __m512 y[TOGETHER];                                                                                  \
        EACH y[j] = x[j];                                                                                    \
        _Pragma("GCC unroll 1") for (int half = 0; half < TOGETHER; half += TOGETHER / 2) {                  \
            _Pragma("GCC unroll 4") for (int j = half; j < half + TOGETHER / 2; j++) {                       \
                const __m512 a = y[j];                                                                       \
                y[j] = (expression);                                                                         \
            }                                                                                                \
        }                                                                                                    \
        EACH x[j] = y[j];                                                                                    \
    } break

RT_MATH_512 static inline __m512 with_sign(__m512 x, bool flipped) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN), bits = _mm512_castps_si512(x);
    return _mm512_castsi512_ps(flipped ? _mm512_xor_si512(sign, bits) : _mm512_andnot_si512(sign, bits));
}

/* A NaN on the left is handed on; the instruction gives its right operand where either is one. */
RT_MATH_512 static inline __m512 least(__m512 a, __m512 b) {
    return _mm512_mask_mov_ps(_mm512_min_ps(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}

RT_MATH_512 static inline __m512 most(__m512 a, __m512 b) {
    return _mm512_mask_mov_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}

/* alpha x + beta, between 0 and 1. The second operand of a limit is what a NaN gives. */
RT_MATH_512 static inline __m512 hard_limit(__m512 x, const register_instruction *one) {
    x = _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(one->alpha), x), _mm512_set1_ps(one->beta));
    return _mm512_min_ps(_mm512_set1_ps(1.0f), _mm512_max_ps(_mm512_setzero_ps(), x));
}

RT_MATH_512 static inline __m512 leak(__m512 x, const register_instruction *one) {
    const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_mask_mul_ps(x, negative, x, _mm512_set1_ps(one->alpha));
}

/* A register of 16-bit numbers from, and to, where `left` of them are. */
RT_MATH_512 static inline __m512 load_halves(const uint16_t *from, bool brain, int64_t left) {
    uint16_t some[LANES] = {0};
    if (left < LANES) {
        for (int64_t i = 0; i < left; i++) some[i] = from[i];
        from = some;
    }
    return brain ? RT_LOAD_BRAIN_16(, from) : RT_LOAD_HALF_16(, from);
}

RT_MATH_512 static inline void store_halves(__m512 x, bool brain, uint16_t *to, int64_t left) {
    uint16_t some[LANES], *at = left < LANES ? some : to;
    if (brain) RT_STORE_BRAIN_16(x, at);
    else RT_STORE_HALF_16(x, at);
    for (int64_t i = 0; left < LANES && i < left; i++) to[i] = some[i];
}

/* All NaNs of a sign become one, as by base_half_from_float. */
RT_MATH_512 static inline __m512 round_half(__m512 x) {
    const __m512 rounded = _mm512_cvtph_ps(_mm512_cvtps_ph(x, RT_ROUND_HALF));
    const __m512i sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)),
                  nan = _mm512_or_si512(sign, _mm512_set1_epi32(0x7fc00000));
    return _mm512_mask_mov_ps(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_castsi512_ps(nan));
}

RT_MATH_512 static inline __m512 round_brain(__m512 x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(rt_brains_16(x), 16));
}

/* Numbers of 8 bits, as floats. */
RT_MATH_512 static inline __attribute__((always_inline)) void quantize(__m512 x[TOGETHER], float scale,
                                                                       float zero, bool negative) {
    const float least = negative ? -128.0f : 0.0f;
    const __m512 low = _mm512_set1_ps(least - zero), high = _mm512_set1_ps(least + 255.0f - zero),
                 shift = _mm512_set1_ps(zero);
    const bool multiplies = rt_has_reciprocal(scale);
    __mmask16 near = multiplies ? 0 : 0xffff;
    __m512 y[TOGETHER];
    if (multiplies) {
        const __m512 factor = _mm512_set1_ps(1 / scale);
        EACH y[j] = rt_multiplied_bytes_16(x[j], factor, low, high, &near);
    }
    if (near) {
        const __m512 scales = _mm512_set1_ps(scale);
        EACH y[j] = rt_divided_16(x[j], scales, low, high);
    }
    EACH x[j] = _mm512_add_ps(y[j], shift);
}

/* The same of a scale that has a reciprocal, where these numbers are stored: all of them, or as many as are `left`. */
__attribute__((target("avx512bw,avx512dq"))) static void
store_quantized(const __m512 x[TOGETHER], float scale, float zero, bool negative, uint8_t *to, int64_t left) {
    const __m512 scales = _mm512_set1_ps(scale), factor = _mm512_set1_ps(1 / scale);
    rt_quantize_bytes(to, left, x, TOGETHER, scales, factor, (int32_t)zero, negative, false);
}

/* The piece from element `first` on. */
RT_MATH_512 static inline __attribute__((always_inline)) void
run_piece(const rt_registers *registers, const register_operands *operands, void *to, int64_t first,
          int64_t count, bool whole, __m512 (*saved)[TOGETHER]) {
    const int shift = registers->shift;
    const float *const *at = operands->at, *const *rows = operands->rows;
    __m512 x[TOGETHER];
    EACH x[j] = _mm512_setzero_ps();
    for (uint32_t k = 0; k < registers->count; k++) {
        const register_instruction *one = &registers->code[k];
        switch (one->code) {
        case SAVE:
            EACH saved[one->value][j] = x[j];
            break;
        case LOAD_HALF:
        case LOAD_BRAIN:
            EACH {
                const int64_t element = first + j * LANES;
                x[j] = load_halves((const uint16_t *)(const void *)at[k] + element, one->code == LOAD_BRAIN,
                                   whole ? LANES : count - element);
            }
            break;
        case LOAD_BYTES:
            EACH {
                const int64_t element = first + j * LANES;
                x[j] = rt_load_bytes_16((const uint8_t *)at[k] + element, one->negative,
                                        whole ? LANES : count - element);
            }
            break;
            CASE(DEQUANTIZE, _mm512_mul_ps(_mm512_sub_ps(a, _mm512_set1_ps(operands->zero[k])),
                                           _mm512_set1_ps(operands->single[k])));
        case QUANTIZE:
            if (registers->ends && k + 1 == registers->count && rt_has_reciprocal(operands->single[k])) {
                __m512 y[TOGETHER];
                EACH y[j] = x[j];
                store_quantized(y, operands->single[k], operands->zero[k], one->negative,
                                (uint8_t *)to + first, whole ? PIECE : count - first);
                return;
            }
            quantize(x, operands->single[k], operands->zero[k], one->negative);
            break;
            CASE(ROUND_HALF, round_half(a));
            CASE(ROUND_BRAIN, round_brain(a));
            CASE(ABSOLUTE, with_sign(a, false));
            CASE(EXPONENTIAL, rt_exp_16(false, RT_EXP_LEAST_512, a));
            CASE(CONTRACTED_EXPONENTIAL, rt_exp_16(true, one->alpha, a));
            CASE(HARD_LIMIT, hard_limit(a, one));
            CASE(LEAK, leak(a, one));
            CASE(NEGATE, with_sign(a, true));
            CASE(RECIPROCAL, _mm512_div_ps(_mm512_set1_ps(1.0f), a));
            CASE(RECTIFY, _mm512_max_ps(_mm512_setzero_ps(), a));
            CASE_LONG(SIGMOID, rt_sigmoid_16(false, a));
            CASE_LONG(CONTRACTED_SIGMOID, rt_sigmoid_16(true, a));
            CASE_LONG(SOFT_PLUS, rt_softplus_16(false, a));
            CASE_LONG(CONTRACTED_SOFT_PLUS, rt_softplus_16(true, a));
            CASE(SQUARE_ROOT, _mm512_sqrt_ps(a));
            CASE_LONG(SWISH, rt_swish_16(false, a, _mm512_set1_ps(one->alpha)));
            CASE_LONG(CONTRACTED_SWISH, rt_swish_16(true, a, _mm512_set1_ps(one->alpha)));
            CASE_LONG(TANH, rt_tanh_16(false, a));
            CASE_LONG(CONTRACTED_TANH, rt_tanh_16(true, a));
            CASES(LOAD, b);
            CASES(ADD, _mm512_add_ps(a, b));
            CASES(MULTIPLY, _mm512_mul_ps(a, b));
            CASES(SUBTRACT, _mm512_sub_ps(a, b));
            CASES(MINUS, _mm512_sub_ps(b, a));
            CASES(DIVIDE, _mm512_div_ps(a, b));
            CASES(OVER, _mm512_div_ps(b, a));
            CASES(LEAST, least(a, b));
            CASES(LEAST_OF, least(b, a));
            CASES(MOST, most(a, b));
            CASES(MOST_OF, most(b, a));
        case ADD_ROWS:
            EACH {
                const int64_t element = first + j * LANES, row = whole ? element : row_of(element, count);
                x[j] = _mm512_fmadd_ps(_mm512_set1_ps(at[k][row >> shift]),
                                       _mm512_loadu_ps(rows[k] + ((j * LANES) & ((1 << shift) - 1))), x[j]);
            }
            break;
        default:
            break;
        }
    }
    if (rt_is_byte(registers->made)) {
        EACH {
            const int64_t element = first + j * LANES;
            const __m512i words = _mm512_cvttps_epi32(x[j]);
            uint8_t *target = (uint8_t *)to + element;
            if (whole) _mm_storeu_si128((__m128i *)(void *)target, _mm512_cvtepi32_epi8(words));
            else _mm512_mask_cvtepi32_storeu_epi8(target, rt_first_lanes_16(count - element), words);
        }
        return;
    }
    if (registers->made != OP_FLOAT) {
        EACH {
            const int64_t element = first + j * LANES;
            store_halves(x[j], registers->made == OP_BFLOAT16, (uint16_t *)to + element,
                         whole ? LANES : count - element);
        }
        return;
    }
    EACH {
        float *target = (float *)to + first + j * LANES;
        if (whole) _mm512_storeu_ps(target, x[j]);
        else _mm512_mask_storeu_ps(target, rt_first_lanes_16(count - first - j * LANES), x[j]);
    }
}

static float byte_of(const void *from, bool negative) {
    return negative ? (float)*(const int8_t *)from : (float)*(const uint8_t *)from;
}

/* What instruction `k` reads, but for what is put aside. */
static void find_operands(const rt_registers *registers, uint32_t k, void *const *inputs,
                          register_operands *operands) {
    const register_instruction *one = &registers->code[k];
    const int source = one->code >= LOAD && one->code < ADD_ROWS ? (one->code - LOAD) % SOURCES : SAVED;
    operands->at[k] = source != SAVED ? inputs[one->value] : NULL;
    switch (one->code) {
    case ADD_ROWS:
        operands->rows[k] = inputs[one->row];
        operands->at[k] = inputs[one->value];
        break;
    case LOAD_HALF:
    case LOAD_BRAIN:
    case LOAD_BYTES:
        operands->at[k] = inputs[one->value];
        break;
    case DEQUANTIZE:
    case QUANTIZE:
        operands->single[k] = *(const float *)inputs[one->value];
        operands->zero[k] = one->zero < 0 ? 0 : byte_of(inputs[one->zero], one->negative);
        break;
    default:
        if (source != STAYS || registers->dtypes[one->value] == OP_FLOAT) break;
        rt_half_load(registers->dtypes[one->value], &operands->single[k], inputs[one->value], 1);
        operands->at[k] = &operands->single[k];
    }
}

RT_MATH_512 static void run_pieces(const rt_registers *registers, void *const *inputs, void *to,
                                   int64_t count) {
    register_operands operands;
    __m512 saved[MOST_SAVED][TOGETHER];
    for (uint32_t k = 0; k < registers->count; k++) find_operands(registers, k, inputs, &operands);
    int64_t first = 0;
    for (; first + PIECE <= count; first += PIECE)
        run_piece(registers, &operands, to, first, count, true, saved);
    if (first < count) run_piece(registers, &operands, to, first, count, false, saved);
}

/* to[i] = table[from[i]]; they may be the same. */
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) static void
look_up(const uint8_t *table, const uint8_t *from, uint8_t *to, int64_t count) {
    const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64),
                  c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);
    for (int64_t i = 0; i < count; i += 64) {
        const __mmask64 there = count - i < 64 ? ((__mmask64)1 << (count - i)) - 1 : ~(__mmask64)0;
        const __m512i index = _mm512_maskz_loadu_epi8(there, from + i);
        const __m512i low = _mm512_permutex2var_epi8(a, index, b),
                      high = _mm512_permutex2var_epi8(c, index, d);
        _mm512_mask_storeu_epi8(to + i, there, _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(index), high));
    }
}

void rt_registers_run(const rt_registers *registers, void *const *inputs, void *to, int64_t count) {
    if (registers->in_pairs && rt_byte_pairs_run(&registers->pairs, inputs, to, count)) return;
    if (registers->byte < 0 || count < WORTH_A_TABLE || !__builtin_cpu_supports("avx512vbmi")) {
        run_pieces(registers, inputs, to, count);
        return;
    }
    uint8_t codes[CODES], table[CODES];
    void *all[OP_FUSED_INPUTS];
    for (int i = 0; i < CODES; i++) codes[i] = (uint8_t)i;
    memcpy(all, inputs, registers->inputs * sizeof *all);
    all[registers->byte] = codes;
    run_pieces(registers, all, table, CODES);
    look_up(table, inputs[registers->byte], to, count);
}

#else /* no such machine */

void rt_registers_run(const rt_registers *registers, void *const *inputs, void *to, int64_t count) {
    (void)registers;
    (void)inputs;
    (void)to;
    (void)count;
}

#endif

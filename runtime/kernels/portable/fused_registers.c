/* SPDX-License-Identifier: Apache-2.0 */
/* fused_registers.c: see fused_registers.h. */
#include "runtime/kernels/portable/fused_registers.h"
#include "runtime/kernels/portable/half_lanes.h"
#include "runtime/kernels/portable/vector_math_512.h"

#ifdef RT_HAS_MATH_512

enum {
    LANES = 16,
    TOGETHER =
        8, /* registers of the accumulator: enough that what an instruction costs by itself is hardly seen */
    PIECE = RT_REGISTER_PIECE,
    MOST_CODE = 4 * OP_FUSED_STEPS + 2 * OP_FUSED_INPUTS,
    MOST_SAVED = OP_FUSED_STEPS + OP_FUSED_INPUTS /* what steps make, and inputs that are widened first */
};

_Static_assert(PIECE == LANES * TOGETHER, "a piece fills the accumulator");

/* Where an instruction has its operand from. */
typedef enum register_source {
    RUNS,
    STAYS,
    EACH_ROW, /* one element for each short row */
    ONE_ROW,  /* one short row for all */
    SAVED,
    SOURCES
} register_source;

/* Instructions without an operand come first; then those with one, each with all sources. MINUS, OVER and those called OF have the
 * accumulator on the right. */
typedef enum register_code {
    SAVE,
    LOAD_HALF, /* an input of 16 bits that runs, as floats */
    LOAD_BRAIN,
    ROUND_HALF, /* to what 16 bits hold */
    ROUND_BRAIN,
    ABSOLUTE,
    EXPONENTIAL,
    HARD_LIMIT, /* HardSigmoid */
    LEAK,       /* LeakyRelu */
    NEGATE,
    RECIPROCAL,
    RECTIFY,
    SIGMOID,
    SOFT_PLUS,
    SQUARE_ROOT,
    SWISH,
    TANH,
    /* The same of plans in which a product and its sum may be rounded once (vector_math_512.h). */
    CONTRACTED_EXPONENTIAL,
    CONTRACTED_SIGMOID,
    CONTRACTED_SOFT_PLUS,
    CONTRACTED_SWISH,
    CONTRACTED_TANH,
    LOAD,
    ADD = LOAD + SOURCES,
    MULTIPLY = ADD + SOURCES,
    SUBTRACT = MULTIPLY + SOURCES,
    MINUS = SUBTRACT + SOURCES,
    DIVIDE = MINUS + SOURCES,
    OVER = DIVIDE + SOURCES,
    LEAST = OVER + SOURCES,
    LEAST_OF = LEAST + SOURCES,
    MOST = LEAST_OF + SOURCES,
    MOST_OF = MOST + SOURCES,
    /* A number for each row times one row for all, which is added, and rounded once with the sum. */
    ADD_ROWS = MOST_OF + SOURCES
} register_code;

typedef struct register_instruction {
    int code;
    uint32_t value; /* the operand: an input; SAVED and SAVE: a place */
    uint32_t row;   /* of ADD_ROWS: the input that is one row; `value` has the numbers */
    float alpha, beta;
} register_instruction;

struct rt_registers {
    uint32_t count, saved;
    int shift;     /* 2 to this power is the width of short rows */
    op_dtype made; /* of the result */
    op_dtype dtypes[OP_FUSED_INPUTS];
    register_instruction code[MOST_CODE];
};

/* ---- running ------------------------------------------------------------------------------------------- */

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

/* The piece from element `first` on. */
RT_MATH_512 static inline __attribute__((always_inline)) void
run_piece(const rt_registers *registers, const float *const *at, const float *const *rows, void *to,
          int64_t first, int64_t count, bool whole, __m512 (*saved)[TOGETHER]) {
    const int shift = registers->shift;
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

RT_MATH_512 void rt_registers_run(const rt_registers *registers, void *const *inputs, void *to,
                                  int64_t count) {
    const float *at[MOST_CODE], *rows[MOST_CODE];
    float single[MOST_CODE]; /* of 16 bits */
    __m512 saved[MOST_SAVED][TOGETHER];
    for (uint32_t k = 0; k < registers->count; k++) {
        const register_instruction *one = &registers->code[k];
        if (one->code == ADD_ROWS) {
            at[k] = inputs[one->value];
            rows[k] = inputs[one->row];
            continue;
        }
        const int source = one->code >= LOAD ? (one->code - LOAD) % SOURCES : SAVED;
        const bool reads = source != SAVED || one->code == LOAD_HALF || one->code == LOAD_BRAIN;
        at[k] = reads ? inputs[one->value] : NULL;
        if (source != STAYS || registers->dtypes[one->value] == OP_FLOAT) continue;
        rt_half_load(registers->dtypes[one->value], &single[k], inputs[one->value], 1);
        at[k] = &single[k];
    }
    int64_t first = 0;
    for (; first + PIECE <= count; first += PIECE)
        run_piece(registers, at, rows, to, first, count, true, saved);
    if (first < count) run_piece(registers, at, rows, to, first, count, false, saved);
}

/* ---- what the steps become ----------------------------------------------------------------------------- */

/* The instruction of an operator; false: there is none. `reversed`: the one that has the accumulator on the right. */
static bool instruction_of(op_code code, bool reversed, register_code *result) {
    switch (code) {
    case OP_ABS:
        return *result = ABSOLUTE, true;
    case OP_EXP:
        return *result = EXPONENTIAL, true;
    case OP_HARD_SIGMOID:
        return *result = HARD_LIMIT, true;
    case OP_LEAKY_RELU:
        return *result = LEAK, true;
    case OP_NEG:
        return *result = NEGATE, true;
    case OP_RECIPROCAL:
        return *result = RECIPROCAL, true;
    case OP_RELU:
        return *result = RECTIFY, true;
    case OP_SIGMOID:
        return *result = SIGMOID, true;
    case OP_SOFTPLUS:
        return *result = SOFT_PLUS, true;
    case OP_SQRT:
        return *result = SQUARE_ROOT, true;
    case OP_SWISH:
        return *result = SWISH, true;
    case OP_TANH:
        return *result = TANH, true;
    case OP_ADD:
        return *result = ADD, true;
    case OP_MUL:
        return *result = MULTIPLY, true;
    case OP_SUB:
        return *result = reversed ? MINUS : SUBTRACT, true;
    case OP_DIV:
        return *result = reversed ? OVER : DIVIDE, true;
    case OP_MIN:
        return *result = reversed ? LEAST_OF : LEAST, true;
    case OP_MAX:
        return *result = reversed ? MOST_OF : MOST, true;
    default:
        return false;
    }
}

static register_code contracted(register_code code) {
    switch (code) {
    case EXPONENTIAL:
        return CONTRACTED_EXPONENTIAL;
    case SIGMOID:
        return CONTRACTED_SIGMOID;
    case SOFT_PLUS:
        return CONTRACTED_SOFT_PLUS;
    case SWISH:
        return CONTRACTED_SWISH;
    case TANH:
        return CONTRACTED_TANH;
    default:
        return code;
    }
}

bool rt_registers_accepts(const op_fused *program, const op_tensor *values) {
    if (!__builtin_cpu_supports("avx512f")) return false;
    for (uint32_t v = 0; v < program->input_count + program->step_count; v++) {
        if (values[v].type.dtype != OP_FLOAT && !rt_is_half(values[v].type.dtype)) return false;
    }
    for (uint32_t s = 0; s < program->step_count; s++) {
        const op_fused_step *step = &program->steps[s];
        register_code code;
        if (step->code == OP_CAST) continue;
        if (!instruction_of(step->code, false, &code)) return false;
        if (step->operand_count != (code < LOAD ? 1 : 2)) return false;
        for (uint32_t i = 0; i < step->operand_count; i++) {
            if (step->operands[i] < 0) return false;
        }
    }
    return true;
}

/* An instruction that reads the value. */
static void add_reader(rt_registers *to, const op_fused *program, const rt_register_kind *kinds,
                       register_code code, uint32_t value) {
    register_instruction *one = &to->code[to->count++];
    if (value >= program->input_count) {
        *one = (register_instruction){.code = (int)code + SAVED, .value = value - program->input_count};
        return;
    }
    const op_dtype dtype = to->dtypes[value];
    if (kinds[value] == RT_REGISTER_RUNS && dtype != OP_FLOAT) {
        if (code == LOAD)
            *one =
                (register_instruction){.code = dtype == OP_BFLOAT16 ? LOAD_BRAIN : LOAD_HALF, .value = value};
        else *one = (register_instruction){.code = (int)code + SAVED, .value = OP_FUSED_STEPS + value};
        return;
    }
    const register_source source = kinds[value] == RT_REGISTER_RUNS      ? RUNS
                                   : kinds[value] == RT_REGISTER_STAYS   ? STAYS
                                   : kinds[value] == RT_REGISTER_ONE_ROW ? ONE_ROW
                                                                         : EACH_ROW;
    *one = (register_instruction){.code = (int)code + (int)source, .value = value};
}

/* What the step makes is read by others than the step `next`, which comes after it, or twice by that one. */
static bool must_save(const op_fused *program, uint32_t step, uint32_t next) {
    const int32_t made = (int32_t)(program->input_count + step);
    for (uint32_t s = step + 1; s < program->step_count; s++) {
        const op_fused_step *reader = &program->steps[s];
        uint32_t reads = 0;
        for (uint32_t i = 0; i < reader->operand_count; i++) reads += reader->operands[i] == made;
        if (reads > (s == next ? 1U : 0U)) return true;
    }
    return false;
}

/* The step multiplies a number for each row by one row for all, both inputs of floats: ADD_ROWS of the product. */
static bool multiplies_rows(const rt_registers *to, const op_fused *program, const rt_register_kind *kinds,
                            const op_fused_step *step, register_instruction *product) {
    const int32_t inputs = (int32_t)program->input_count;
    if (step->code != OP_MUL || step->operands[0] >= inputs || step->operands[1] >= inputs) return false;
    const int32_t row = step->operands[kinds[step->operands[0]] != RT_REGISTER_ONE_ROW],
                  each = step->operands[kinds[step->operands[0]] == RT_REGISTER_ONE_ROW];
    *product = (register_instruction){.code = ADD_ROWS, .value = (uint32_t)each, .row = (uint32_t)row};
    return kinds[row] == RT_REGISTER_ONE_ROW && kinds[each] == RT_REGISTER_EACH_ROW &&
           to->dtypes[row] == OP_FLOAT && to->dtypes[each] == OP_FLOAT;
}

/* The sum that alone reads what step `s` makes, if it reads it once; 0: there is none. */
static uint32_t sum_of(const op_fused *program, uint32_t s) {
    uint32_t reads = 0, sum = 0;
    for (uint32_t r = s + 1; r < program->step_count; r++) {
        for (uint32_t i = 0; i < program->steps[r].operand_count; i++) {
            if (program->steps[r].operands[i] == (int32_t)(program->input_count + s)) reads++, sum = r;
        }
    }
    return reads == 1 && program->steps[sum].code == OP_ADD ? sum : 0;
}

/* Products that are made when they are added. */
typedef struct late_products {
    bool late[OP_FUSED_STEPS];     /* the step is one */
    int32_t added[OP_FUSED_STEPS]; /* the one that the step, a sum, adds, as a value; 0: none */
} late_products;

static void find_products(const rt_registers *to, const op_fused *program, const op_tensor *values,
                          const rt_register_kind *kinds, late_products *products) {
    for (uint32_t s = 0; s + 1 < program->step_count; s++) {
        register_instruction product;
        const uint32_t sum = sum_of(program, s);
        if (sum == 0 || products->added[sum] || values[program->input_count + s].type.dtype != OP_FLOAT ||
            !multiplies_rows(to, program, kinds, &program->steps[s], &product))
            continue;
        products->added[sum] = (int32_t)(program->input_count + s);
        products->late[s] = true;
    }
}

/* What the step makes is read by products alone. */
static bool is_factor(const op_fused *program, uint32_t step) {
    const int32_t made = (int32_t)(program->input_count + step);
    for (uint32_t s = step + 1; s < program->step_count; s++) {
        const op_fused_step *reader = &program->steps[s];
        for (uint32_t i = 0; i < reader->operand_count; i++) {
            if (reader->operands[i] == made && reader->code != OP_MUL) return false;
        }
    }
    return step + 1 < program->step_count;
}

/* The attribute alpha where a step does not say; of Exp, the argument below which it is 0. Some processors take a hundred times as long for a
 * product with a subnormal number as for any other: where products and sums are rounded once, decays that small are 0. */
static float usual_alpha(const op_fused *program, uint32_t step, bool contract, register_code code) {
    switch (code) {
    case EXPONENTIAL:
        return contract && is_factor(program, step) ? RT_EXP_NORMAL_512 : RT_EXP_LEAST_512;
    case LEAK:
        return 0.01f;
    case HARD_LIMIT:
        return 0.2f;
    default:
        return 1.0f;
    }
}

/* Inputs of 16 bits that run and are the second operand of a step are put aside as floats, before anything else. */
static void widen_inputs(rt_registers *to, const op_fused *program, const rt_register_kind *kinds) {
    for (uint32_t v = 0; v < program->input_count; v++) {
        bool second = false;
        if (kinds[v] != RT_REGISTER_RUNS || to->dtypes[v] == OP_FLOAT) continue;
        for (uint32_t s = 0; s < program->step_count; s++) {
            const op_fused_step *step = &program->steps[s];
            for (uint32_t i = 0; i < step->operand_count; i++)
                second |= step->operand_count == 2 && step->operands[i] == (int32_t)v;
        }
        if (!second) continue;
        add_reader(to, program, kinds, LOAD, v);
        to->code[to->count++] = (register_instruction){.code = SAVE, .value = OP_FUSED_STEPS + v};
    }
}

static void add_late_product(rt_registers *to, const op_fused *program, const rt_register_kind *kinds,
                             const op_fused_step *sum, int32_t before, int32_t product) {
    const int32_t other = sum->operands[sum->operands[0] == product];
    const op_fused_step *step = &program->steps[(uint32_t)product - program->input_count];
    if (other != before) add_reader(to, program, kinds, LOAD, (uint32_t)other);
    (void)multiplies_rows(to, program, kinds, step, &to->code[to->count]);
    to->count++;
}

/* `before` is the value in the accumulator; -1: none. */
static void add_operator(rt_registers *to, const op_fused *program, const rt_register_kind *kinds,
                         uint32_t number, int32_t before, bool contract) {
    const op_fused_step *step = &program->steps[number];
    const op_attributes attributes = {.count = step->attribute_count, .items = step->attributes};
    const bool on_right =
        step->operand_count == 2 && step->operands[1] == before && step->operands[0] != before;
    const int32_t left = on_right ? before : step->operands[0];
    register_code code = ROUND_HALF;
    (void)instruction_of(step->code, on_right, &code);
    if (left != before) add_reader(to, program, kinds, LOAD, (uint32_t)left);
    if (step->operand_count == 2) {
        add_reader(to, program, kinds, code, (uint32_t)step->operands[on_right ? 0 : 1]);
    } else if (step->code != OP_CAST) {
        const float alpha = usual_alpha(program, number, contract, code);
        to->code[to->count++] =
            (register_instruction){.code = (int)(contract ? contracted(code) : code),
                                   .alpha = op_attribute_real(&attributes, "alpha", alpha),
                                   .beta = op_attribute_real(&attributes, "beta", 0.5f)};
    }
}

rt_registers *rt_registers_new(const op_fused *program, const op_tensor *values,
                               const rt_register_kind *kinds, int64_t width, bool contract,
                               base_arena *arena) {
    rt_registers *result = BASE_NEW(arena, rt_registers);
    if (!result) return NULL;
    while (((int64_t)1 << result->shift) < width) result->shift++;
    for (uint32_t v = 0; v < program->input_count; v++) result->dtypes[v] = values[v].type.dtype;
    result->made = values[program->input_count + program->step_count - 1].type.dtype;
    widen_inputs(result, program, kinds);
    late_products products = {{false}, {0}};
    if (contract) find_products(result, program, values, kinds, &products);
    int32_t before = -1; /* the value in the accumulator */
    for (uint32_t s = 0; s < program->step_count; s++) {
        const op_dtype made = values[program->input_count + s].type.dtype;
        uint32_t next = s + 1;
        if (products.late[s]) continue;
        while (next < program->step_count && products.late[next]) next++;
        if (products.added[s])
            add_late_product(result, program, kinds, &program->steps[s], before, products.added[s]);
        else add_operator(result, program, kinds, s, before, contract);
        if (made != OP_FLOAT)
            result->code[result->count++] =
                (register_instruction){.code = made == OP_BFLOAT16 ? ROUND_BRAIN : ROUND_HALF};
        if (must_save(program, s, next))
            result->code[result->count++] = (register_instruction){.code = SAVE, .value = s};
        before = (int32_t)(program->input_count + s);
    }
    return result;
}

#else /* no such machine */

struct rt_registers {
    int unused;
};

bool rt_registers_accepts(const op_fused *program, const op_tensor *values) {
    (void)program;
    (void)values;
    return false;
}

rt_registers *rt_registers_new(const op_fused *program, const op_tensor *values,
                               const rt_register_kind *kinds, int64_t width, bool contract,
                               base_arena *arena) {
    (void)program;
    (void)values;
    (void)kinds;
    (void)width;
    (void)contract;
    (void)arena;
    return NULL;
}

void rt_registers_run(const rt_registers *registers, void *const *inputs, void *to, int64_t count) {
    (void)registers;
    (void)inputs;
    (void)to;
    (void)count;
}

#endif

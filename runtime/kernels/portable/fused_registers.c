/* SPDX-License-Identifier: Apache-2.0 */
/* fused_registers.c: what the steps of ouro.Fused become as instructions; see fused_registers.h. */
#include "runtime/kernels/portable/fused_registers_code.h"
#include "runtime/kernels/portable/vector_math_512.h"

#ifdef RT_HAS_MATH_512

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

static bool is_real(const op_tensor *value) {
    return value->type.dtype == OP_FLOAT || rt_is_half(value->type.dtype);
}

/* A step between bytes and floats; scale and zero point are inputs. */
static bool accepts_quantized(const op_fused *program, const op_tensor *values, uint32_t s) {
    const op_fused_step *step = &program->steps[s];
    const op_dtype from = values[step->operands[0]].type.dtype,
                   to = values[program->input_count + s].type.dtype;
    const bool back = step->code == OP_DEQUANTIZE_LINEAR;
    if (!rt_is_byte(back ? from : to) || (back ? to : from) != OP_FLOAT) return false;
    for (uint32_t i = 1; i < step->operand_count; i++) {
        const int32_t operand = step->operands[i];
        if (operand < 0) continue;
        if (operand >= (int32_t)program->input_count) return false;
        const op_dtype dtype = values[operand].type.dtype;
        if (dtype != (i == 1 ? OP_FLOAT : back ? from : to)) return false;
    }
    return true;
}

bool rt_registers_accepts(const op_fused *program, const op_tensor *values) {
    if (!__builtin_cpu_supports("avx512f")) return false;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const op_fused_step *step = &program->steps[s];
        register_code code;
        if (step->code == OP_QUANTIZE_LINEAR || step->code == OP_DEQUANTIZE_LINEAR) {
            if (!accepts_quantized(program, values, s)) return false;
            continue;
        }
        if (step->code != OP_CAST) {
            if (!instruction_of(step->code, false, &code)) return false;
            if (step->operand_count != (code < LOAD ? 1 : 2)) return false;
        }
        if (!is_real(&values[program->input_count + s])) return false;
        for (uint32_t i = 0; i < step->operand_count; i++) {
            if (step->operands[i] < 0 || !is_real(&values[step->operands[i]])) return false;
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
    if (rt_is_byte(dtype)) {
        /* What DequantizeLinear makes is whole: the input runs. */
        *one = (register_instruction){.code = LOAD_BYTES, .value = value, .negative = dtype == OP_INT8};
        return;
    }
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
        if (kinds[v] != RT_REGISTER_RUNS || !rt_is_half(to->dtypes[v])) continue;
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

/* QuantizeLinear or DequantizeLinear of what is in the accumulator. */
static void add_quantized(rt_registers *to, const op_fused_step *step, bool negative) {
    to->code[to->count++] =
        (register_instruction){.code = step->code == OP_QUANTIZE_LINEAR ? QUANTIZE : DEQUANTIZE,
                               .value = (uint32_t)step->operands[1],
                               .zero = step->operand_count > 2 ? step->operands[2] : -1,
                               .negative = negative};
}

/* `before` is the value in the accumulator; -1: none. */
static void add_operator(rt_registers *to, const op_fused *program, const rt_register_kind *kinds,
                         uint32_t number, int32_t before, bool contract) {
    const op_fused_step *step = &program->steps[number];
    const op_attributes attributes = {.count = step->attribute_count, .items = step->attributes};
    const bool quantized = step->code == OP_QUANTIZE_LINEAR || step->code == OP_DEQUANTIZE_LINEAR;
    const bool on_right =
        !quantized && step->operand_count == 2 && step->operands[1] == before && step->operands[0] != before;
    const int32_t left = on_right ? before : step->operands[0];
    register_code code = ROUND_HALF;
    (void)instruction_of(step->code, on_right, &code);
    if (left != before) add_reader(to, program, kinds, LOAD, (uint32_t)left);
    if (quantized) {
        add_quantized(
            to, step,
            to->dtypes[step->code == OP_QUANTIZE_LINEAR ? program->input_count + number : (uint32_t)left] ==
                OP_INT8);
    } else if (step->operand_count == 2) {
        add_reader(to, program, kinds, code, (uint32_t)step->operands[on_right ? 0 : 1]);
    } else if (step->code != OP_CAST) {
        const float alpha = usual_alpha(program, number, contract, code);
        to->code[to->count++] =
            (register_instruction){.code = (int)(contract ? contracted(code) : code),
                                   .alpha = op_attribute_real(&attributes, "alpha", alpha),
                                   .beta = op_attribute_real(&attributes, "beta", 0.5f)};
    }
}

/* Nothing but one input of 8 bits runs, and results have 8 bits: that input. */
static int32_t single_byte(const rt_registers *registers, const rt_register_kind *kinds) {
    int32_t byte = -1;
    if (!rt_is_byte(registers->made)) return -1;
    for (uint32_t v = 0; v < registers->inputs; v++) {
        if (kinds[v] == RT_REGISTER_STAYS) continue;
        if (byte >= 0 || !rt_is_byte(registers->dtypes[v])) return -1;
        byte = (int32_t)v;
    }
    return byte;
}

rt_registers *rt_registers_new(const op_fused *program, const op_tensor *values,
                               const rt_register_kind *kinds, int64_t width, bool contract,
                               base_arena *arena) {
    rt_registers *result = BASE_NEW(arena, rt_registers);
    if (!result) return NULL;
    while (((int64_t)1 << result->shift) < width) result->shift++;
    for (uint32_t v = 0; v < program->input_count + program->step_count; v++)
        result->dtypes[v] = values[v].type.dtype;
    result->made = values[program->input_count + program->step_count - 1].type.dtype;
    result->inputs = program->input_count;
    result->byte = single_byte(result, kinds);
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
        if (rt_is_half(made))
            result->code[result->count++] =
                (register_instruction){.code = made == OP_BFLOAT16 ? ROUND_BRAIN : ROUND_HALF};
        if (must_save(program, s, next))
            result->code[result->count++] = (register_instruction){.code = SAVE, .value = s};
        before = (int32_t)(program->input_count + s);
    }
    result->in_pairs = rt_byte_pairs_read(program, values, &result->pairs) &&
                       kinds[result->pairs.a.bytes] == RT_REGISTER_RUNS &&
                       kinds[result->pairs.b.bytes] == RT_REGISTER_RUNS;
    result->ends = rt_is_byte(result->made) && result->code[result->count - 1].code == QUANTIZE &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    return result;
}

#else /* no such machine */

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

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* fused_registers_code.h: the instructions that the steps of ouro.Fused become: fused_registers.c makes them, fused_registers_run.c runs them.
 * No other file reads this.
 */
#ifndef OURO_FUSED_REGISTERS_CODE_H
#define OURO_FUSED_REGISTERS_CODE_H

#include "runtime/kernels/portable/byte_pairs.h"
#include "runtime/kernels/portable/fused_registers.h"

enum {
    MOST_CODE = 4 * OP_FUSED_STEPS + 2 * OP_FUSED_INPUTS,
    MOST_SAVED = OP_FUSED_STEPS + OP_FUSED_INPUTS /* what steps make, and inputs that are widened first */
};

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
    LOAD_BYTES, /* an input of 8 bits that runs, as whole floats */
    DEQUANTIZE, /* whole floats to what they stand for */
    QUANTIZE,   /* and back */
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
    int32_t
        zero; /* of DEQUANTIZE and QUANTIZE: the input with the zero point, -1: none; `value` has the scale */
    bool negative; /* bytes have a sign: those that are loaded, those of the zero point */
    float alpha, beta;
} register_instruction;

struct rt_registers {
    uint32_t count, inputs;
    int32_t byte;  /* the input of 8 bits that alone tells what a result of 8 bits is; -1: there is none */
    int shift;     /* 2 to this power is the width of short rows */
    op_dtype made; /* of the result */
    bool ends;     /* with a QUANTIZE to bytes that is done where they are stored */
    bool in_pairs; /* the whole program is this: */
    rt_byte_pairs pairs;
    op_dtype dtypes[OP_FUSED_INPUTS + OP_FUSED_STEPS]; /* of inputs, and of what steps make */
    register_instruction code[MOST_CODE];
};

#endif

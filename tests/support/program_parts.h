/* SPDX-License-Identifier: Apache-2.0 */
/* program_parts.h: what a random program is made of, for the files that make it and carry it out; see
 * program.h. */
#ifndef SUPPORT_PROGRAM_PARTS_H
#define SUPPORT_PROGRAM_PARTS_H

#include "tests/support/program.h"
#include <stdio.h>

enum { VALUES = 2048, OPERANDS = 4, CARRIED = 4, SLICES = 2, DEPTH = 3, LONGEST = 3000, NAME = 40 };

typedef enum kind { ROW, MATRIX, FLAG } kind;

typedef enum operation {
    RELU,
    NEGATE,
    MAXIMUM,
    MINIMUM,
    SUM,
    DIFFERENCE,
    PRODUCT,    /* of a row or matrix and a matrix */
    REVERSE,    /* a row backwards; a matrix transposed */
    ROW_OF,     /* row `amount` of a matrix */
    STACK_ROWS, /* four rows become a matrix */
    HALVES,     /* the lower half above the upper one */
    IDENTITY,
    ITERATION, /* adds the number of the iteration */
    ABOVE,     /* is the largest element greater than `amount`? */
    WRITE_ROW, /* TensorScatter: row `amount` of a matrix becomes another one */
    SIGNS,     /* CumProd of the signs of columns, or of a row; backwards where `amount` is odd */
    SWISH,     /* so steep that integers become those of Relu */
    GELU,      /* of tenfold integers, which is tenfold Relu */
    NORMALIZE, /* RMSNormalization of rows, times 7.3, rounded */
    ATTEND, /* rows of values at the rows of keys that are most like a query, rounded; causal where `amount` is odd */
    TURN,   /* RotaryEmbedding by quarters */
    BITS,   /* of integers */
    PACKED, /* product of a matrix and weights of 4 bits */
    BRANCH,
    LOOP
} operation;

typedef struct statement statement;

typedef struct block {
    statement **items;
    int count;
    int results[CARRIED + SLICES];
    int result_count;
    int again; /* of a loop's body: the flag that says whether to go on; 0: the one that came in */
} block;

struct statement {
    operation operation;
    bool deleted;
    int inputs[OPERANDS], outputs[CARRIED + SLICES];
    int amount;
    statement *loop; /* of ITERATION: whose */
    /* BRANCH: inputs[0] is the flag, outputs are the results. LOOP: */
    int number; /* for names */
    int trips;  /* -1: the caller's */
    int begins; /* a flag, or 0: always */
    int carried, scans, stacks;
    int initial[CARRIED], parameters[CARRIED];
    bool dropped[CARRIED];
    int whole[SLICES], slices[SLICES];
    int scan_axis[SLICES], stack_axis[SLICES];
    bool scan_back[SLICES], stack_back[SLICES];
    bool grown[SLICES];     /* the stack is a carried value to which rows are appended */
    int grown_from[SLICES]; /* the row that it begins with; 0: none */
    bool counted;           /* the number of iterations is certain: 4 */
    block blocks[2];
};

struct program {
    uint64_t random;
    kind kinds[VALUES];
    int same_as[VALUES]; /* not 0: the value stands for another one */
    int value_count, loop_count;
    block main;
    float data[VALUES][PROGRAM_ELEMENTS]; /* of inputs and constants */
    int first_made;                       /* values below are inputs and constants */
    void **blocks_of_memory;
    size_t memory_count;
};

/* Value 1 and 2 are the flags yes and no; then matrices, rows, and two constants. */
enum {
    YES = 1,
    NO = 2,
    MATRIX_0 = 3,
    ROW_0 = MATRIX_0 + PROGRAM_MATRICES,
    WEIGHT = ROW_0 + PROGRAM_ROWS,
    BIAS
};

/* Weights of PACKED, and in quarters how far TURN turns the pair `pair` of row `row`. */
int program_weight(int row, int column);
int program_quarters(int row, int pair);
/* The value, or the one that stands for it; so many numbers. */
int program_value_of(const program *of, int value);
int program_elements_of(const program *of, int value);
/* The head of a module up to the main graph's nodes; one operation as a node. */
void program_write_head(const program *of, FILE *file);
void program_write_operation(FILE *file, const statement *s, kind what, kind of_input, const char *out,
                             const char (*in)[NAME], const char *count);

#endif

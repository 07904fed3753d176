/* SPDX-License-Identifier: Apache-2.0 */
/* program.h: random programs with nested loops, scans and branches, and what they come to.
 *
 * A program is made from a seed, prints itself as textual IR, and can be unrolled: interpreted on small
 * integers, which every kernel computes exactly, while each operation that is carried out is written down as a
 * node of a program without loops and branches. So there are three answers: that of the planned loops, that of
 * the straight line, and that of the interpreter, which knows nothing of the project's kernels.
 */
#ifndef OURO_TEST_SUPPORT_PROGRAM_H
#define OURO_TEST_SUPPORT_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROGRAM_SIDE = 4, PROGRAM_ELEMENTS = PROGRAM_SIDE * PROGRAM_SIDE, PROGRAM_RESULTS = 4 };

/* Inputs of every program, in this order: trips: int64[], yes: bool[], no: bool[], two matrices
 * float32[4,4], two rows float32[4]. */
enum { PROGRAM_MATRICES = 2, PROGRAM_ROWS = 2, PROGRAM_INPUTS = 3 + PROGRAM_MATRICES + PROGRAM_ROWS };

typedef struct program program;

/* What a program gives: `elements` numbers of each result. */
typedef struct program_answer {
    int count;
    int elements[PROGRAM_RESULTS];
    /* A loop without an iteration has stacked rows: how wide they would be, nobody says. */
    bool stacked_nothing;
    float values[PROGRAM_RESULTS][PROGRAM_ELEMENTS];
} program_answer;

program *program_random(uint64_t seed);
void program_free(program *of);

/* The inputs that belong to the program: data of input `index` (3 and up), of *elements numbers. */
const float *program_input(const program *of, int index, int *elements);

/* As textual IR, to be freed. */
char *program_text(const program *of);

/* Carries the program out for this number of trips. *text, to be freed, is the straight line that was gone.
 * False, and *text NULL, where it would be very long. */
bool program_unroll(const program *of, int64_t trips, char **text, program_answer *answer);

/* Makes the program smaller while `fails` says that what is left still fails. */
void program_shrink(program *of, bool (*fails)(const program *of, void *user), void *user);

#endif

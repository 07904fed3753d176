/* SPDX-License-Identifier: Apache-2.0 */
/* operators.h: one application of an operator at a time, for tests: random tensors, and a run that
 * checks along the way what must hold for every operator. */
#ifndef OURO_SUPPORT_OPERATORS_H
#define OURO_SUPPORT_OPERATORS_H

#include "runtime/kernels/table.h"

/* splitmix64; printed seeds make a failure repeatable. */
typedef struct test_random {
    uint64_t state;
} test_random;
uint64_t test_random_next(test_random *random);
int64_t test_random_below(test_random *random, int64_t end);

/* A tensor from the arena. Dims follow the rank. Data is zero. */
op_tensor test_tensor(base_arena *arena, op_dtype dtype, const op_shape *shape);
op_tensor test_vector(base_arena *arena, const int64_t *values, int64_t count); /* int64 */
op_shape test_shape(int32_t rank, ...);                                         /* int dims */
/* Small numbers, some of them halves, some negative where the type has such; booleans; short strings. */
void test_fill(op_tensor *tensor, test_random *random);
int64_t test_elements(const op_tensor *tensor);

/* Element access by value, whatever the type. Integers of 64 bits are exact in the _integer forms. */
double test_real(const op_tensor *tensor, int64_t index);
int64_t test_integer(const op_tensor *tensor, int64_t index);
void test_set(op_tensor *tensor, int64_t index, double value);
bool test_is_real(op_dtype dtype);

/* Infers and evaluates call->outputs. Besides, where it succeeds: two threads give the same bytes as one; so
 * does preparing without knowing the data, where inference without data allows it; inference without data
 * agrees; and over every input that the operator's row lets the result be written over, where sizes agree, in
 * place gives the same bytes. *in_place collects which inputs that was tried for. */
base_status test_apply(op_call *call, base_arena *arena, unsigned *in_place, base_report *report);

/* Runs the kernel on inputs as they lie, then with states that the operator's row allows over those they replace, one and all: all outputs that
 * are wanted must have the same bytes, or the test fails. How many states were written over. */
int test_states_in_place(const rt_kernel *kernel, const op_call *call, const rt_environment *environment);

/* Floats of all sizes and kinds, evenly over their bits. */
op_tensor test_coarse_floats(base_arena *arena, uint32_t count);

#endif

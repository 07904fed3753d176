/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_compare.h: are the outputs of a run the expected ones? As ONNX's own test runner judges. */
#ifndef OURO_TENSOR_COMPARE_H
#define OURO_TENSOR_COMPARE_H

#include "ir/operators/op.h"

typedef struct tensor_tolerance {
    double relative, absolute; /* |actual - expected| <= absolute + relative * |expected| */
} tensor_tolerance;

/* True where they agree: element types and shapes are the same; integers, booleans and strings are equal;
 * floating and complex numbers (their parts) are within the tolerance, infinities equal and NaN where NaN is
 * expected. Otherwise `reason` says what differs first, and by how much. Both tensors are row-major. */
bool file_tensor_compare(const op_tensor *actual, const op_tensor *expected, tensor_tolerance tolerance,
                         char *reason, size_t capacity);

/* How far numbers are from the expected ones, at most so far. */
typedef struct tensor_errors {
    double absolute; /* |actual - expected| */
    double relative; /* |actual - expected| / |expected|, where expected is not 0 */
} tensor_errors;

/* Adds the errors of floating-point and complex tensors of one shape; of others nothing. Numbers that are no numbers, or
 * infinite in both, are passed over; those that are so in one are infinitely far. */
void file_tensor_errors_add(const op_tensor *actual, const op_tensor *expected, tensor_errors *errors);

/* Element `index` of a numeric tensor as a double (complex: part index % 2 of element index / 2). */
double file_tensor_number(const op_tensor *tensor, size_t index);

/* Prints element `index`: shortest form that reads back for floats, exact integers, true/false, quoted text.
 * Returns text. */
char *file_tensor_element_print(const op_tensor *tensor, size_t index, char *text, size_t capacity);

#endif

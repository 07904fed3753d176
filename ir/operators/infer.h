/* SPDX-License-Identifier: Apache-2.0 */
/* infer.h: what the shape functions (ir/infer_*.c) share: checks of inputs, setting of outputs, known values.
 */
#ifndef OURO_INFER_H
#define OURO_INFER_H

#include "ir/operators/op.h"

/* Sets of dtypes, one bit each. */
#define OP_SET(dtype) (1u << (dtype))
enum {
    OP_SET_FLOATS = OP_SET(OP_FLOAT) | OP_SET(OP_DOUBLE) | OP_SET(OP_FLOAT16) | OP_SET(OP_BFLOAT16),
    OP_SET_SIGNED = OP_SET(OP_INT8) | OP_SET(OP_INT16) | OP_SET(OP_INT32) | OP_SET(OP_INT64),
    OP_SET_UNSIGNED = OP_SET(OP_UINT8) | OP_SET(OP_UINT16) | OP_SET(OP_UINT32) | OP_SET(OP_UINT64),
    OP_SET_INTEGERS = OP_SET_SIGNED | OP_SET_UNSIGNED,
    OP_SET_NUMBERS = OP_SET_FLOATS | OP_SET_INTEGERS,
    OP_SET_WIDE = OP_SET_FLOATS | OP_SET(OP_INT32) | OP_SET(OP_INT64) | OP_SET(OP_UINT32) | OP_SET(OP_UINT64),
    OP_SET_BOOL = OP_SET(OP_BOOL),
    OP_SET_INDICES = OP_SET(OP_INT32) | OP_SET(OP_INT64),
    OP_SET_ANY =
        OP_SET_NUMBERS | OP_SET_BOOL | OP_SET(OP_STRING) | OP_SET(OP_COMPLEX64) | OP_SET(OP_COMPLEX128),
    OP_SET_FLOAT8 = OP_SET(OP_FLOAT8E4M3FN) | OP_SET(OP_FLOAT8E4M3FNUZ) | OP_SET(OP_FLOAT8E5M2) |
                    OP_SET(OP_FLOAT8E5M2FNUZ),
    OP_SET_PACKED =
        OP_SET(OP_UINT4) | OP_SET(OP_INT4) | OP_SET(OP_FLOAT4E2M1) | OP_SET(OP_UINT2) | OP_SET(OP_INT2),
    OP_SET_SMALL = OP_SET_FLOAT8 | OP_SET(OP_FLOAT8E8M0) | OP_SET_PACKED,
    OP_SET_STORED = OP_SET_ANY | OP_SET_SMALL /* also those that are only moved and converted */
};

/* Known values are followed for integer tensors of at most this many elements: shapes, and what is computed
 * from them. */
enum { OP_SYMBOLIC_COUNT = 64 };

/* Input `input` is a tensor and its dtype is in the set; reports "input 1 is float16, expected int32 or
 * int64". */
base_status op_check_input(const op_call *call, uint32_t input, unsigned dtypes, base_report *report);
/* Input `input` is a tensor of the same dtype as input `other`, which has been checked. */
base_status op_check_same(const op_call *call, uint32_t input, uint32_t other, base_report *report);
/* Input `input`, where its shape is known, is a vector of any extent; a scalar too where `scalar`. */
base_status op_check_vector(const op_call *call, uint32_t input, bool scalar, base_report *report);

/* Input `input` has `count` elements, where that is known; an absent one passes. */
base_status op_check_elements(const op_call *call, uint32_t input, int64_t count, base_report *report);

/* Output `output` becomes a tensor of this type, row-major, with nothing known of its values. A NULL shape: not
 * known. */
void op_output_set(op_call *call, uint32_t output, op_dtype dtype, const op_shape *shape);

/* How many elements the integer tensor of rank 0 or 1 at input `input` has, where that is known and at most
 * OP_SYMBOLIC_COUNT; -1 otherwise. */
int64_t op_input_count(const op_call *call, uint32_t input);

/* Memory for the known values of output 0, whose type is set: the array, which op_output_symbolic_end hands
 * over, or NULL where they are not followed (not small and integer, nothing to allocate from). *count is the
 * number of elements. */
int64_t *op_output_symbolic(op_call *call, int64_t *count);
/* Hands the values over to output 0, unless nothing is known of any. */
void op_output_symbolic_end(op_call *call, int64_t *values, int64_t count);
/* Output 0 has the values of input `input` in the same order: where output 0 is small and integer. */
void op_output_symbolic_copy(op_call *call, uint32_t input);

/* The attribute `axis` (`otherwise` where it is absent) as an axis of this rank: *axis is in [0, rank). Reports one that is
 * out of range. */
base_status op_attribute_axis(const op_call *call, int64_t otherwise, int32_t rank, int32_t *axis,
                              base_report *report);

/* The shape that a shape-valued input spells: rank -1 where the number of its elements is not known. False
 * (and a report) for a negative number or more than OP_MAX_RANK dimensions. */
base_status op_input_shape(const op_call *call, uint32_t input, op_shape *shape, base_report *report);

/* Marks the axes that a vector (or scalar) of integers names: sets marks[axis]; *known is false where some
 * are not known. Reports an axis that is out of range or named twice. */
base_status op_input_axes(const op_call *call, uint32_t input, int32_t rank, bool marks[OP_MAX_RANK],
                          bool *known, base_report *report);

/* The shape of the product of inputs `left` and `right` as numpy's matmul has it; rank -1 where one of theirs is not
 * known. Types are not looked at. */
base_status op_product_shape(const op_call *call, uint32_t left, uint32_t right, op_shape *shape,
                             base_report *report);
/* The shape of the convolution of input 0 with the weights at input `filters`, of at most `spatial` dimensions beside
 * batch and channels; rank -1 where nothing is known. Input `bias` is checked too (0: there is none). Types are not
 * looked at. */
base_status op_convolution_shape(const op_call *call, uint32_t filters, uint32_t bias, int32_t spatial,
                                 op_shape *shape, base_report *report);

/* A shape of this rank with nothing known of its dimensions. */
op_shape op_shape_of_rank(int32_t rank);

/* A shape printed for a message: "[2,3,?]". Returns text. */
char *op_shape_text(const op_shape *shape, char *text, size_t capacity);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* expression.h: one node each, for converters that say an operator with several others. Functions that return values return NULL when
 * memory runs out, and give NULL for NULL, so that expressions nest. But of the arguments of a call, or the items of a list, only one
 * makes anything: C leaves open which comes first, and plans are the same bytes whichever compiler built ouro (tests/test_order.sh). */
#ifndef OURO_IMPORT_EXPRESSION_H
#define OURO_IMPORT_EXPRESSION_H

#include "compiler/onnx/base/importer.h"

/* One node with these inputs and no attributes. */
ir_value *expr_unary(const import_node *n, op_code code, ir_value *x);
ir_value *expr_binary(const import_node *n, op_code code, ir_value *x, ir_value *y);
ir_value *expr_select(const import_node *n, ir_value *condition, ir_value *x, ir_value *y);
/* One node with an attribute that is an integer. */
ir_value *expr_with_integer(const import_node *n, op_code code, const char *name, int64_t value,
                            uint32_t count, ir_value *const *inputs);
/* A number of the same dtype as `like`. */
ir_value *expr_number(const import_node *n, const ir_value *like, double value);
/* `x` as this dtype; `x` itself where it has it. */
ir_value *expr_cast(const import_node *n, ir_value *x, op_dtype dtype);
/* A reduction over these axes; over all where there are none. */
ir_value *expr_reduce(const import_node *n, op_code code, ir_value *x, size_t count, const int64_t *axes,
                      bool keep);
/* A vector of one int64. */
ir_value *expr_vector(const import_node *n, int64_t value);
/* `x` from `start` to `end` along an axis; both are vectors. */
ir_value *expr_slice(const import_node *n, ir_value *x, int64_t axis, ir_value *start, ir_value *end);
/* The same of two numbers. */
ir_value *expr_part(const import_node *n, ir_value *x, int64_t axis, int64_t start, int64_t end);
/* 0, step, 2 step, ... below `end`, which is a scalar of int64. */
ir_value *expr_steps(const import_node *n, ir_value *end, int64_t step);
/* Squeeze or Unsqueeze (`code`) of one axis. */
ir_value *expr_axis(const import_node *n, op_code code, ir_value *x, int64_t axis);
ir_value *expr_transpose(const import_node *n, ir_value *x, size_t rank, const int64_t *order);
/* `x` so many times along each axis. */
ir_value *expr_tile(const import_node *n, ir_value *x, size_t rank, const int64_t *repeats);
/* The extent of `x` along an axis, as a vector of one. */
ir_value *expr_extent(const import_node *n, ir_value *x, int64_t axis);
/* A Reshape to these extents: 0 keeps that of `x` at the same place, -1 is what is left. */
ir_value *expr_reshape(const import_node *n, ir_value *x, size_t rank, const int64_t *extents);

/* [batch, channels, ...] with the mean of each group of channels taken away, divided by its deviation: [batch, groups, elements of a
 * group], as float or double (normalization.c). */
ir_value *import_group_normalized(const import_node *n, ir_value *x, int64_t groups, double epsilon);
/* A vector of one number a channel, as something that broadcasts to a tensor of this rank whose axis 1 has the channels. */
ir_value *import_beside_channels(const import_node *n, ir_value *x, int32_t rank);

/* An empty graph for a node of the file that becomes one which owns graphs: what converters say with `within` stands in it. */
ir_graph *expr_begin_graph(const import_node *n, const char *name, import_scope *scope, import_node *within);

/* Input `index`; NULL where it is absent. */
ir_value *expr_input(const import_node *n, uint32_t index);
/* For rows of the table whose minimum is 0: the first `count` inputs must be given, but those of `absent` need not be. */
#define EXPR_INPUT(i) (1u << (i))
base_status expr_need_inputs(const import_node *n, uint32_t count, uint32_t absent);
/* `x` as float where it has 16 bits: sums, squares and powers there overflow, or vanish, where the result does neither. */
ir_value *expr_widened(const import_node *n, ir_value *x);
/* Output 0 of the node is `y`, as 16 bits where `dtype` says so. */
base_status expr_finish_as(import_node *n, op_dtype dtype, ir_value *y);
/* Output 0 of the node is `y`. */
base_status expr_finish(import_node *n, ir_value *y);
/* The same of any output that the node names. */
base_status expr_output(import_node *n, uint32_t index, ir_value *y);
/* The dtype must be known where numbers of it are made. */
base_status expr_need_dtype(const import_node *n, const ir_value *x);

#endif

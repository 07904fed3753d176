/* SPDX-License-Identifier: Apache-2.0 */
/* einsum.h: the equation of Einsum, taken apart for given shapes. */
#ifndef OURO_OP_EINSUM_H
#define OURO_OP_EINSUM_H

#include "ir/operators/op.h"

enum { OP_EINSUM_LABELS = 52 + OP_MAX_RANK, OP_EINSUM_OPERANDS = 16 };

/* Labels are numbered: letters a-z, A-Z from 0, then the dimensions of the ellipsis, from the last one on. */
typedef struct op_einsum {
    int32_t operands;
    int32_t rank[OP_EINSUM_OPERANDS];
    int32_t labels[OP_EINSUM_OPERANDS][OP_MAX_RANK]; /* of each dimension of each operand */
    int32_t output_rank, output[OP_MAX_RANK];
    bool used[OP_EINSUM_LABELS];
    int64_t extent[OP_EINSUM_LABELS]; /* below 0: not known */
} op_einsum;

/* Reads the attribute `equation` with the shapes of the inputs, whose ranks must be known. False, with a report,
 * where it is malformed or does not fit. */
bool op_einsum_read(const op_call *call, op_einsum *einsum, base_report *report);

#endif

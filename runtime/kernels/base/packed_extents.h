/* SPDX-License-Identifier: Apache-2.0 */
/* packed_extents.h: convolutions of images whose extents only a run knows: the extents that their layouts and packed weights were chosen for
 * (ouro.packed_extents, as passes/layout/select_layouts.c sets it), in place of those that they have. Any thread.
 */
#ifndef OURO_PACKED_EXTENTS_H
#define OURO_PACKED_EXTENTS_H

#include "ir/operators/op.h"

enum { RT_CONVOLUTION_INPUTS = 4 };

/* An application with other extents than it has: a copy, which reads its tensors' data and its attributes. */
typedef struct rt_other_extents {
    op_call call;
    op_tensor inputs[RT_CONVOLUTION_INPUTS], output;
} rt_other_extents;

/* The extents of input 0 that the application was laid out for; NULL: those that it has. */
const int64_t *rt_packed_extents(const op_call *call);

/* A copy of the application. False where it is none of an image. */
bool rt_copy_extents(const op_call *call, rt_other_extents *to);

/* The application with the extents that it was laid out for: itself, or `to`; NULL: there is none with these. */
const op_call *rt_as_packed(const op_call *call, rt_other_extents *to);

#endif

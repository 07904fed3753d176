/* SPDX-License-Identifier: Apache-2.0 */
/* window.h: the sliding window of convolutions and pools: one reading of the attributes kernel_shape,
 * strides, dilations, pads, auto_pad and ceil_mode, for the shape functions and for every kernel.
 */
#ifndef OURO_OP_WINDOW_H
#define OURO_OP_WINDOW_H

#include "ir/operators/op.h"

enum { OP_WINDOW_RANK = OP_MAX_RANK - 2 }; /* spatial dimensions, at most */

/* In each spatial dimension the window stands at output positions 0, 1, ..., output - 1 and covers, at
 * position o, the input elements o * stride - before + k * dilation for k in [0, kernel); those outside of
 * [0, input) are padding. `after` is the padding that was asked for at the end; with ceil_mode the last window
 * may reach beyond it. Extents that are not known (input, output; before and after under auto_pad) are
 * dimensions as in op.h. */
typedef struct op_window {
    int32_t rank;
    int64_t input[OP_WINDOW_RANK], output[OP_WINDOW_RANK], kernel[OP_WINDOW_RANK];
    int64_t stride[OP_WINDOW_RANK], dilation[OP_WINDOW_RANK];
    int64_t before[OP_WINDOW_RANK], after[OP_WINDOW_RANK];
} op_window;

/* Reads the window of an application whose input 0 is N, C, spatial... of known rank. `kernel` holds the
 * extents of the weights (dimensions), one a spatial dimension, for a convolution; NULL for a pool, whose
 * kernel_shape is required. Reports what is wrong: ranks, negative or absurd numbers, a window larger than
 * the padded input. */
base_status op_window_read(const op_call *call, const int64_t *kernel, op_window *window,
                           base_report *report);

enum { OP_JOINED_INPUTS = 3 };
/* JoinedConv or JoinedMaxPool as the Conv or MaxPool that it stands for, of one tensor with all rows. `inputs` becomes what that is given, and
 * the call stays that of the operator otherwise. Reports rows that are not there, and tensors that do not fit. */
base_status op_joined_read(const op_call *call, op_tensor inputs[OP_JOINED_INPUTS], op_call *whole,
                           base_report *report);
/* Which input has the rows that follow those of input 0. */
uint32_t op_joined_second(op_code code);

/* A shuffle of so many channels takes one of each of `groups` equal groups, after that the next of each: the channel that stands at `place` then.
 * With one group all channels stay where they are. */
static inline int64_t op_shuffled_channel(int64_t place, int64_t groups, int64_t channels) {
    return place % groups * (channels / groups) + place / groups;
}

/* The window with three spatial dimensions; those that it lacks come first, and have one element. For kernels with a loop a
 * dimension: the rank is at most three. */
op_window op_window_of_three(const op_window *window);

/* How the window of a transposed convolution lies, one entry a spatial dimension. Extents that are not known are
 * below 0. */
typedef struct op_transposed {
    int32_t rank; /* spatial dimensions */
    int64_t group;
    int64_t input[OP_MAX_RANK], output[OP_MAX_RANK], kernel[OP_MAX_RANK];
    int64_t stride[OP_MAX_RANK], dilation[OP_MAX_RANK],
        before[OP_MAX_RANK]; /* before: padding that is cut off */
} op_transposed;

/* Reads the attributes and shapes of a ConvTranspose. False, with a report, where they do not fit.
 * (infer_resample.c) */
bool op_transposed_read(const op_call *call, op_transposed *transposed, base_report *report);

/* The outputs of a ConvTranspose along one dimension that lie a stride apart see the image through the same elements of the kernel, turned
 * round: they are a convolution of stride 1. */
typedef struct op_transposed_phase {
    int64_t begin;  /* the first of these elements of the kernel; the others lie a stride apart */
    int64_t kernel; /* how many there are */
    int64_t before; /* padding before the image; may be below 0 */
    int64_t output; /* how many outputs there are; below 0: that is open */
} op_transposed_phase;
/* Those from output `first` on, which is less than the stride, along spatial dimension `axis`; below 0: one that is not there, and has one
 * element. (infer_resample.c) */
op_transposed_phase op_transposed_phase_of(const op_transposed *transposed, int32_t axis, int64_t first);

#endif

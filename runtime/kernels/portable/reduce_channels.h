/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_channels.h: the channels of each pixel become one number, on floats whose channels lie side by side, on machines with AVX-512. */
#ifndef OURO_REDUCE_CHANNELS_H
#define OURO_REDUCE_CHANNELS_H

#include "runtime/kernels/base/kernel.h"

typedef struct rt_channel_reduction {
    op_code code; /* OP_REDUCE_SUM, _MEAN, _MAX or _MIN */
    int64_t channels;
    int64_t images, points; /* innermost channels: as if all pixels were one image's */
    int64_t block, pixel;   /* floats from 16 channels to the next 16, and from a pixel to the next */
    int64_t image;          /* floats of an image */
} rt_channel_reduction;

/* Whether this is such a reduction, over the channels alone, of a map in blocks of 16 channels or with channels innermost, to a row-major result.
 * Its extents are known. */
bool rt_channel_reduction_read(const op_call *call, const rt_environment *environment,
                               rt_channel_reduction *reduction);

/* Sums are made in float, 16 of up to 32 channels each and then those of these, pair by pair. A maximum or minimum is NaN where a channel is. */
void rt_channel_reduction_run(const rt_channel_reduction *reduction, int threads, float *to,
                              const float *from);

#endif

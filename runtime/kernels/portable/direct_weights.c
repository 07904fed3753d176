/* SPDX-License-Identifier: Apache-2.0 */
/* direct_weights.c: packs the weights of direct_convolution.c, when a model is compiled, or in each run where they are computed: then it must
 * take little of the time of the convolution. A thread packs whole panels of 16 filters. */
#include "runtime/kernels/portable/direct_convolution.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { LANES = RT_DIRECT_LANES };

/* Numbers of one filter. */
static int64_t filter_floats(const rt_direct *s) {
    return s->channels * rt_direct_product(s->window.kernel);
}

/* One filter: its weights stand LANES apart in its panel, in the order of parts, elements of the window and channels of the part. */
static void move_filter(const rt_direct *s, float *plain, float *lane, bool back) {
    const rt_direct_shape *tiles = &s->tiles;
    const int64_t elements = rt_direct_product(s->window.kernel);
    for (int64_t part = 0; part < tiles->parts; part++) {
        const int64_t depth = rt_direct_reads_maps(s)   ? s->channels
                              : part + 1 < tiles->parts ? tiles->depth
                                                        : tiles->last;
        /* Maps are read one by one: each is a part of one channel. */
        const int64_t channel_step = rt_direct_reads_maps(s) ? elements * LANES : LANES,
                      element_step = rt_direct_reads_maps(s) ? LANES : depth * LANES;
        for (int64_t channel = 0; channel < depth; channel++) {
            float *at = lane + channel * channel_step;
            for (int64_t element = 0; element < elements; element++, plain++, at += element_step) {
                if (back) *plain = *at;
                else *at = *plain;
            }
        }
        lane += elements * depth * LANES;
    }
}

typedef struct packing {
    const rt_direct *shape;
    float *plain, *packed;
    bool back;
} packing;

/* Panels [begin, end) of all groups. */
static void move_panels(void *context, int64_t begin, int64_t end) {
    const packing *job = context;
    const rt_direct *s = job->shape;
    const int64_t count = rt_direct_panel_count(s);
    for (int64_t at = begin; at < end; at++) {
        const int64_t group = at / count, first = at % count * LANES,
                      filters = s->filters - first < LANES ? s->filters - first : LANES;
        float *panel = job->packed + at * s->tiles.panel_floats;
        if (filters < LANES && !job->back) memset(panel, 0, (size_t)s->tiles.panel_floats * sizeof *panel);
        for (int64_t f = 0; f < filters; f++)
            move_filter(s, job->plain + (group * s->filters + first + f) * filter_floats(s), panel + f,
                        job->back);
    }
}

/* The number after the weights tells these weights from those that other kernels pack, and whether all are finite. */
static float *last_of(const rt_direct *s, const float *packed) {
    return (float *)(uintptr_t)packed + rt_direct_panel_count(s) * s->groups * s->tiles.panel_floats;
}

static bool are_all_finite(const float *numbers, int64_t count) {
    int other = 0;
    for (int64_t i = 0; i < count; i++) other |= !(fabsf(numbers[i]) <= FLT_MAX);
    return !other;
}

void rt_direct_pack(const rt_direct *s, const float *plain, float *packed, int threads) {
    packing job = {.shape = s, .plain = (float *)(uintptr_t)plain, .packed = packed};
    rt_parallel(threads, s->groups * rt_direct_panel_count(s), s->tiles.panel_floats, move_panels, &job);
    *last_of(s, packed) = are_all_finite(plain, s->groups * s->filters * filter_floats(s)) ? 0 : 1;
}

void rt_direct_note_finite(const rt_direct *s, float *packed) {
    float *last = last_of(s, packed);
    *last = are_all_finite(packed, last - packed) ? 0 : 1;
}

void rt_direct_unpack(const rt_direct *s, const float *packed, float *plain) {
    packing job = {.shape = s, .plain = plain, .packed = (float *)(uintptr_t)packed, .back = true};
    move_panels(&job, 0, s->groups * rt_direct_panel_count(s));
}

bool rt_direct_are_finite(const rt_direct *s, const float *packed) {
    return *last_of(s, packed) != 1;
}

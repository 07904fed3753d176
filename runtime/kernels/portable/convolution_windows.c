/* SPDX-License-Identifier: Apache-2.0 */
/* convolution_windows.c: Conv in portable C with so few output positions that the panels of a product would be empty for the most part: each filter is
 * multiplied with what each position sees. Filters and windows of 16 bits become floats.
 */
#include "runtime/kernels/portable/convolution.h"
#include <string.h>

/* What an output position sees, in the order of a filter's weights. */
static void gather_window(const convolution *shape, const float *x, int64_t position, float *window) {
    const int64_t at[3] = {position / shape->output[2] / shape->output[1],
                           position / shape->output[2] % shape->output[1], position % shape->output[2]};
    int64_t start[3];
    for (int i = 0; i < 3; i++) start[i] = at[i] * shape->stride[i] - shape->before[i];
    for (int64_t channel = 0; channel < shape->channels; channel++, x += shape->input_size) {
        for (int64_t kz = 0; kz < shape->kernel[0]; kz++) {
            const int64_t iz = start[0] + kz * shape->dilation[0];
            for (int64_t ky = 0; ky < shape->kernel[1]; ky++) {
                const int64_t iy = start[1] + ky * shape->dilation[1];
                const bool seen = iz >= 0 && iz < shape->input[0] && iy >= 0 && iy < shape->input[1];
                const int64_t line = (iz * shape->input[1] + iy) * shape->input[2];
                for (int64_t kx = 0; kx < shape->kernel[2]; kx++) {
                    const int64_t ix = start[2] + kx * shape->dilation[2];
                    *window++ = seen && ix >= 0 && ix < shape->input[2] ? x[line + ix] : 0;
                }
            }
        }
    }
}

static void multiply_floats(void *context, int member, int members) {
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const int64_t depth = shape->channels * shape->kernel_size, outputs = shape->output_size;
    const int64_t each = (shape->filters + members - 1) / members, from = member * each;
    const int64_t filters = shape->filters - from < each ? shape->filters - from : each;
    float *windows = (float *)(void *)(job->scratch + (size_t)member * shape->thread_bytes);
    for (int64_t part = 0; filters > 0 && part < shape->batch * shape->group; part++) {
        const float *x = (const float *)job->x + part * shape->channels * shape->input_size;
        const int64_t first = part % shape->group * shape->filters + from;
        const int64_t begin = (part * shape->filters + from) * outputs;
        float *y = (float *)job->y + begin;
        for (int64_t i = 0; i < outputs; i++) gather_window(shape, x, i, windows + i * depth);
        for (int64_t f = 0; f < filters; f++) {
            float sums[RT_FEW_OUTPUTS];
            rt_dots((const float *)job->weights + (first + f) * depth, windows, depth, depth, outputs, sums);
            const float bias = job->bias ? ((const float *)job->bias)[first + f] : 0;
            for (int64_t i = 0; i < outputs; i++) {
                const int64_t at = f * outputs + i;
                if (job->residual) sums[i] += ((const float *)job->residual)[begin + at];
                else if (job->add) sums[i] += y[at];
                y[at] = sums[i] + bias;
            }
        }
        rt_activation_floats(&shape->activation, y, filters * outputs);
    }
}

/* Scratch: the input of a group, a filter and the windows in float. */
static void multiply_halves(void *context, int member, int members) {
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const op_dtype dtype = shape->dtype;
    const int64_t depth = shape->channels * shape->kernel_size, outputs = shape->output_size,
                  inputs = shape->channels * shape->input_size;
    const int64_t step = (shape->filters + members - 1) / members, from = member * step;
    const int64_t filters = shape->filters - from < step ? shape->filters - from : step;
    float *x = (float *)(void *)(job->scratch + (size_t)member * shape->thread_bytes),
          *weights = x + rt_convolution_line(inputs), *windows = weights + rt_convolution_line(depth);
    for (int64_t part = 0; filters > 0 && part < shape->batch * shape->group; part++) {
        const int64_t first = part % shape->group * shape->filters + from;
        rt_half_load(dtype, x, (const uint16_t *)job->x + part * inputs, inputs);
        for (int64_t i = 0; i < outputs; i++) gather_window(shape, x, i, windows + i * depth);
        for (int64_t f = 0; f < filters; f++) {
            uint16_t *y = (uint16_t *)job->y + (part * shape->filters + from + f) * outputs;
            const uint16_t *residual =
                job->residual ? (const uint16_t *)job->residual + (part * shape->filters + from + f) * outputs
                              : y;
            float sums[RT_FEW_OUTPUTS], added[RT_FEW_OUTPUTS] = {0};
            rt_half_load(dtype, weights, (const uint16_t *)job->weights + (first + f) * depth, depth);
            rt_dots(weights, windows, depth, depth, outputs, sums);
            const float bias = job->bias ? (float)rt_element_load(dtype, job->bias, first + f) : 0;
            if (job->add) rt_half_load(dtype, added, residual, outputs);
            for (int64_t i = 0; i < outputs; i++) sums[i] = sums[i] + added[i] + bias;
            rt_activation_floats(&shape->activation, sums, outputs);
            rt_half_store(dtype, y, sums, outputs);
        }
    }
}

void rt_convolution_windows(void *context, int member, int members) {
    const convolution_job *job = context;
    (rt_is_half(job->shape->dtype) ? multiply_halves : multiply_floats)(context, member, members);
}

bool rt_convolution_windows_bytes(const convolution *shape, size_t *bytes) {
    const int64_t depth = shape->channels * shape->kernel_size;
    int64_t input, windows;
    if (!rt_is_half(shape->dtype))
        return base_size_multiply((size_t)depth, (size_t)shape->output_size, bytes) &&
               base_size_multiply(*bytes, sizeof(float), bytes) &&
               base_size_align(*bytes, RT_ALIGNMENT, bytes);
    if (!base_int64_multiply(shape->channels, shape->input_size, &input) ||
        !base_int64_multiply(rt_convolution_line(depth), rt_convolution_line(shape->output_size), &windows) ||
        input > INT64_MAX / 16 || windows > INT64_MAX / 16)
        return false;
    const int64_t floats = rt_convolution_line(input) + rt_convolution_line(depth) + windows;
    return base_size_multiply((size_t)floats, sizeof(float), bytes);
}

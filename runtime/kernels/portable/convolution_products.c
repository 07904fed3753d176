/* SPDX-License-Identifier: Apache-2.0 */
/* convolution_products.c: Conv in portable C as matrix products: the input is gathered (im2col) a block at a time into the panels of a product,
 * whose rows are the filters of a group, columns output positions, the depth channels times window.
 *
 * Tensors of 16 bits are gathered as pairs, which AVX-512 multiplies (convolution_pairs.c), or become floats a piece at a time; the sums are
 * rounded once. Doubles are gathered and multiplied as floats are.
 */
#include "runtime/kernels/portable/convolution.h"
#include "runtime/kernels/portable/product_blocks.h"
#include "runtime/kernels/portable/row_panels.h"
#include <string.h>

enum {
    HALF_ROWS =
        60, /* filters and depth of a piece of 16 bits, whose floats lie on the stack: whole tiles of 6 or 12 rows */
    HALF_DEPTH = 64,
};

/* line[i] = in[i * stride], of 16 bits, float or double. */
static void copy_strided(size_t size, char *line, const char *in, int64_t stride, int64_t count) {
    if (stride == 1) {
        memcpy(line, in, (size_t)count * size);
    } else if (size == sizeof(float)) {
        for (int64_t i = 0; i < count; i++)
            ((float *)(void *)line)[i] = ((const float *)(const void *)in)[i * stride];
    } else if (size == sizeof(uint16_t)) {
        for (int64_t i = 0; i < count; i++)
            ((uint16_t *)(void *)line)[i] = ((const uint16_t *)(const void *)in)[i * stride];
    } else {
        for (int64_t i = 0; i < count; i++)
            ((double *)(void *)line)[i] = ((const double *)(const void *)in)[i * stride];
    }
}

/* One line of the gathered matrix: what window element `k` of the depth sees at `count` output positions from
 * `position` on. */
static void gather_line(const convolution *shape, const char *x, int64_t k, int64_t position, int64_t count,
                        char *line) {
    const size_t size = shape->element;
    const int64_t tap = k % shape->kernel_size;
    const int64_t tap_x = tap % shape->kernel[2], tap_y = tap / shape->kernel[2] % shape->kernel[1];
    const int64_t tap_z = tap / shape->kernel[2] / shape->kernel[1];
    const char *channel = x + (size_t)(k / shape->kernel_size * shape->input_size) * size;
    const int64_t width = shape->output[2], stride = shape->stride[2];
    const int64_t shift = tap_x * shape->dilation[2] - shape->before[2];
    const rt_part inside = shape->inside[2][tap_x]; /* the other positions of a row see padding */
    int64_t from = position % width, out_y = position / width % shape->output[1],
            out_z = position / width / shape->output[1];
    while (count > 0) {
        const int64_t length = width - from < count ? width - from : count;
        const int64_t in_y = out_y * shape->stride[1] - shape->before[1] + tap_y * shape->dilation[1];
        const int64_t in_z = out_z * shape->stride[0] - shape->before[0] + tap_z * shape->dilation[0];
        if (in_y < 0 || in_y >= shape->input[1] || in_z < 0 || in_z >= shape->input[0]) {
            memset(line, 0, (size_t)length * size);
        } else {
            const char *in = channel + (size_t)((in_z * shape->input[1] + in_y) * shape->input[2]) * size;
            int64_t low = inside.low < from ? from : inside.low > from + length ? from + length : inside.low;
            int64_t high = inside.high < low             ? low
                           : inside.high > from + length ? from + length
                                                         : inside.high;
            memset(line, 0, (size_t)(low - from) * size);
            if (low < high)
                copy_strided(size, line + (size_t)(low - from) * size,
                             in + (low * stride + shift) * (int64_t)size, stride, high - low);
            memset(line + (size_t)(high - from) * size, 0, (size_t)(from + length - high) * size);
        }
        line += (size_t)length * size;
        count -= length;
        from = 0;
        if (++out_y < shape->output[1]) continue;
        out_y = 0;
        out_z++;
    }
}

/* Each output sees the input at its own place, and nothing else: the matrix lies in X as it is. */
static bool is_pointwise(const convolution *shape) {
    bool pointwise = shape->kernel_size == 1;
    for (int i = 0; i < 3; i++)
        pointwise = pointwise && shape->stride[i] == 1 && shape->before[i] == 0 &&
                    shape->input[i] == shape->output[i];
    return pointwise;
}

/* The input as rows that are seen without strides, by rt_row_panels. */
static bool sees_rows(const convolution *shape, rt_seen_rows *rows) {
    bool fits = shape->dtype == OP_FLOAT && shape->stride[2] == 1;
    for (int i = 0; i < 2; i++)
        fits = fits && shape->input[i] == 1 && shape->output[i] == 1 && shape->kernel[i] == 1;
    *rows = (rt_seen_rows){.width = shape->input[2],
                           .before = shape->before[2],
                           .taps = shape->kernel[2],
                           .dilation = shape->dilation[2]};
    return fits;
}

/* What is gathered of 16 bits becomes floats. */
static void gather_panels(const convolution *shape, const void *x, int64_t from, int64_t depth,
                          int64_t position, int64_t count, void *panels) {
    const bool half = rt_is_half(shape->dtype), pointwise = is_pointwise(shape);
    const size_t size = half ? sizeof(float) : shape->element;
    _Alignas(double) char line[RT_BLOCK_COLUMNS * sizeof(double)],
        halves[RT_BLOCK_COLUMNS * sizeof(uint16_t)];
    char *gathered = half ? halves : line;
    rt_seen_rows rows;
    if (!pointwise && sees_rows(shape, &rows) && rt_row_panels_fit(&rows, count)) {
        rt_row_panels(&rows, x, from, depth, position, count, panels);
        return;
    }
    for (int64_t k = 0; k < depth; k++) {
        if (pointwise)
            memcpy(gathered,
                   (const char *)x + (size_t)((from + k) * shape->input_size + position) * shape->element,
                   (size_t)count * shape->element);
        else gather_line(shape, x, from + k, position, count, gathered);
        if (half)
            rt_half_load(shape->dtype, (float *)(void *)line, (const uint16_t *)(const void *)halves, count);
        const int64_t whole = (count + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
        memset(line + (size_t)count * size, 0, (size_t)(whole - count) * size);
        for (int64_t first = 0; first < count; first += RT_PANEL) {
            char *to = (char *)panels + (size_t)(first * depth + k * RT_PANEL) * size;
            if (size == sizeof(float)) memcpy(to, line + (size_t)first * size, RT_PANEL * sizeof(float));
            else memcpy(to, line + (size_t)first * size, RT_PANEL * size);
        }
    }
}

size_t rt_convolution_products_bytes(const convolution *shape) {
    if (rt_is_half(shape->dtype)) return 0;
    return rt_block_bytes(shape->channels * shape->kernel_size, shape->output_size) / sizeof(float) *
           shape->element;
}

static void multiply_floats(const convolution_job *job, int64_t image, int64_t group, int64_t row,
                            int64_t rows, int64_t position, int64_t count, void *panels) {
    const convolution *shape = job->shape;
    const int64_t depth_all = shape->channels * shape->kernel_size;
    const float *x =
        (const float *)job->x + (image * shape->group + group) * shape->channels * shape->input_size;
    const float *weights = (const float *)job->weights + (group * shape->filters + row) * depth_all;
    const int64_t first = (image * shape->group + group) * shape->filters + row;
    float *y = (float *)job->y + first * shape->output_size + position;
    if (job->residual) {
        const float *residual = (const float *)job->residual + first * shape->output_size + position;
        for (int64_t i = 0; i < rows; i++) {
            memcpy(y + i * shape->output_size, residual + i * shape->output_size,
                   (size_t)count * sizeof(float));
        }
    }
    for (int64_t from = 0; from < depth_all; from += RT_BLOCK_DEPTH) {
        const int64_t depth = depth_all - from < RT_BLOCK_DEPTH ? depth_all - from : RT_BLOCK_DEPTH;
        gather_panels(shape, x, from, depth, position, count, panels);
        rt_tiles_run(&(rt_tiles){.rows = rows,
                                 .columns = count,
                                 .depth = depth,
                                 .a = weights + from,
                                 .a_row = depth_all,
                                 .a_depth = 1,
                                 .panels = panels,
                                 .c = y,
                                 .c_row = shape->output_size,
                                 .add = job->add || from > 0});
    }
    for (int64_t i = 0; i < rows; i++) {
        float *line = y + i * shape->output_size;
        if (depth_all == 0 && !job->add) memset(line, 0, (size_t)count * sizeof(float));
        if (job->bias)
            rt_convolution_add(line, count, ((const float *)job->bias)[group * shape->filters + row + i]);
        rt_activation_floats(&shape->activation, line, count);
    }
}

static void multiply_doubles(const convolution_job *job, int64_t image, int64_t group, int64_t row,
                             int64_t rows, int64_t position, int64_t count, void *panels) {
    const convolution *shape = job->shape;
    const int64_t depth_all = shape->channels * shape->kernel_size,
                  first = (image * shape->group + group) * shape->filters + row;
    const double *x = (const double *)job->x +
                      (image * shape->group + group) * shape->channels * shape->input_size,
                 *weights = (const double *)job->weights + (group * shape->filters + row) * depth_all;
    double *y = (double *)job->y + first * shape->output_size + position;
    for (int64_t i = 0; i < rows && job->residual; i++)
        memcpy(y + i * shape->output_size,
               (const double *)job->residual + (first + i) * shape->output_size + position,
               (size_t)count * sizeof *y);
    for (int64_t from = 0; from < depth_all; from += RT_BLOCK_DEPTH) {
        const int64_t depth = depth_all - from < RT_BLOCK_DEPTH ? depth_all - from : RT_BLOCK_DEPTH;
        gather_panels(shape, x, from, depth, position, count, panels);
        rt_tiles_doubles(rows, count, depth, weights + from, depth_all, 1, panels, y, shape->output_size,
                         job->add || from > 0, shape->fused);
    }
    for (int64_t i = 0; i < rows; i++) {
        double *line = y + i * shape->output_size;
        const double bias = job->bias ? ((const double *)job->bias)[group * shape->filters + row + i] : 0;
        if (depth_all == 0 && !job->add) memset(line, 0, (size_t)count * sizeof *line);
        for (int64_t j = 0; j < count; j++) line[j] += bias;
        for (int64_t j = 0; j < count && shape->activation.kind != RT_ACTIVATION_NONE; j++)
            line[j] = rt_activation_value(&shape->activation, line[j]);
    }
}

/* Pieces of HALF_ROWS filters, HALF_DEPTH after HALF_DEPTH. */
static void multiply_halves(const convolution_job *job, int64_t image, int64_t group, int64_t row,
                            int64_t rows, int64_t position, int64_t count, void *unused) {
    _Alignas(RT_ALIGNMENT) float panels[RT_BLOCK_COLUMNS * HALF_DEPTH], left[HALF_ROWS * HALF_DEPTH],
        sums[HALF_ROWS * RT_BLOCK_COLUMNS];
    const convolution *shape = job->shape;
    const op_dtype dtype = shape->dtype;
    const int64_t depth_all = shape->channels * shape->kernel_size;
    const uint16_t *x =
        (const uint16_t *)job->x + (image * shape->group + group) * shape->channels * shape->input_size;
    (void)unused;
    for (int64_t done = 0; done < rows; done += HALF_ROWS) {
        const int64_t some = rows - done < HALF_ROWS ? rows - done : HALF_ROWS,
                      filter = group * shape->filters + row + done;
        const int64_t first =
            (image * shape->group * shape->filters + filter) * shape->output_size + position;
        uint16_t *y = (uint16_t *)job->y + first;
        const uint16_t *residual = job->residual ? (const uint16_t *)job->residual + first : y;
        for (int64_t i = 0; i < some && (job->add || depth_all == 0); i++) {
            float *line = sums + i * RT_BLOCK_COLUMNS;
            if (job->add) rt_half_load(dtype, line, residual + i * shape->output_size, count);
            else memset(line, 0, (size_t)count * sizeof *line);
        }
        for (int64_t from = 0; from < depth_all; from += HALF_DEPTH) {
            const int64_t depth = depth_all - from < HALF_DEPTH ? depth_all - from : HALF_DEPTH;
            gather_panels(shape, x, from, depth, position, count, panels);
            for (int64_t i = 0; i < some; i++)
                rt_half_load(dtype, left + i * depth,
                             (const uint16_t *)job->weights + (filter + i) * depth_all + from, depth);
            rt_tiles_run(&(rt_tiles){.rows = some,
                                     .columns = count,
                                     .depth = depth,
                                     .a = left,
                                     .a_row = depth,
                                     .a_depth = 1,
                                     .panels = panels,
                                     .c = sums,
                                     .c_row = RT_BLOCK_COLUMNS,
                                     .add = job->add || from > 0,
                                     .fused = true});
        }
        for (int64_t i = 0; i < some; i++) {
            float *line = sums + i * RT_BLOCK_COLUMNS;
            if (job->bias)
                rt_convolution_add(line, count, (float)rt_element_load(dtype, job->bias, filter + i));
            rt_activation_floats(&shape->activation, line, count);
            rt_half_store(dtype, y + i * shape->output_size, line, count);
        }
    }
}

/* 16 bits, in panels of pairs where this machine and the windows are so. */
static void multiply_sixteen(const convolution_job *job, int64_t image, int64_t group, int64_t row,
                             int64_t rows, int64_t position, int64_t count, void *unused) {
    if (!rt_convolution_pairs(job, image, group, row, rows, position, count))
        multiply_halves(job, image, group, row, rows, position, count, unused);
}

void rt_convolution_products(void *context, int member, int members) {
    const convolution_job *job = context;
    const convolution *shape = job->shape;
    const int64_t parts = job->row_parts * job->column_parts, items = shape->batch * shape->group * parts;
    void *panels = job->scratch + (size_t)member * shape->thread_bytes;
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t outer = item / parts, part = item % parts;
        const int64_t row = part / job->column_parts * job->rows_each;
        const int64_t position = part % job->column_parts * RT_BLOCK_COLUMNS;
        const int64_t rows = shape->filters - row < job->rows_each ? shape->filters - row : job->rows_each;
        const int64_t rest = shape->output_size - position;
        (rt_is_half(shape->dtype) ? multiply_sixteen
         : shape->element == sizeof(double)
             ? multiply_doubles
             : multiply_floats)(job, outer / shape->group, outer % shape->group, row, rows, position,
                                rest < RT_BLOCK_COLUMNS ? rest : RT_BLOCK_COLUMNS, panels);
    }
}

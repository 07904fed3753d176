/* SPDX-License-Identifier: Apache-2.0 */
/* integer_convolution.c: ConvInteger and QLinearConv in portable C: any number of spatial dimensions, groups,
 * strides, dilations, padding; zero points and scales of the weights for all filters or for each.
 *
 * A product of matrices: rows are the filters of a group, columns output positions, the depth channels times
 * window. No line of the matrix is gathered where its numbers lie side by side already. To that end the image is copied
 * once, with its padding, and with strides apart: elements of equal remainder in each dimension, divided by its stride, make
 * an image of their own. Then what one window element sees at successive positions is a run of bytes, where positions are
 * counted through the whole rows of such an image, and results between the rows are left out. An image without padding
 * and strides is read where it is. Where the copy would be out of proportion (large windows on small images) lines are
 * gathered one by one. Padding counts as the zero point, that is, as nothing.
 *
 * Where a filter sees one channel of a map, the channel becomes floats, whose sums are exact: windows that large that they would not be are
 * left to the product (stencil.h).
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/integer_product.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/short_rows.h"
#include "runtime/kernels/portable/stencil.h"
#include <math.h>
#include <string.h>

enum {
    JOINED_PART = 16,   /* of a row that is copied */
    SLACK = 64,         /* bytes after the copy that are read, and of no matter */
    NEAR = 16384,       /* bytes of a copy of some groups */
    STENCIL_TAPS = 256, /* of a window whose sums are exact in float: 256 * 255 * 255 < 2^24 */
    STENCIL_FILTERS = 4 /* of one channel at most: a product makes more at once */
};

typedef enum image_form { IMAGE_AS_IT_IS, IMAGE_COPIED, IMAGE_GATHERED, IMAGE_STENCIL } image_form;

typedef struct integer_convolution {
    op_window window;
    image_form form;
    /* Rows of the image are put side by side where they are read, without what lies between: positions are results. */
    bool joined;
    /* The image in which positions are counted: its extents, the number of its positions up to the last that counts, and of
     * bytes of a channel, which has several such images where there are strides: parts[i] remainders in dimension i. Where
     * each window element begins in a channel. */
    int64_t grid[OP_WINDOW_RANK], parts[OP_WINDOW_RANK], positions, channel_bytes;
    const int64_t *taps;
    /* Where lines are gathered. For each window element: what position 0 sees of each dimension, and the positions [first,
     * end) of the last one that see the input. */
    const int64_t *shifts, *firsts, *ends;
    int64_t batch, group, channels, filters; /* channels and filters of one group */
    int64_t input_size, output_size, kernel_size;
    op_dtype x_dtype, w_dtype, y_dtype;
    bool quantized, bias, zero_each, scale_each; /* each: one for every filter */
    int64_t rows_each, columns_each;
    /* 0, or each thread copies the channels of so many groups at a time, and not all are copied before. */
    int64_t groups_together;
    rt_stencil stencil;                /* where a filter sees one channel */
    size_t channel_floats, map_floats; /* bytes of a channel, and of a result, as floats */
    /* Of the copy of all; of each thread, and where its copy of some groups lies in that. */
    size_t image_bytes, scratch_each, groups_at;
} integer_convolution;

typedef struct integer_convolution_job {
    const integer_convolution *shape;
    int64_t image;        /* its number */
    const uint8_t *x, *w; /* x: of the image */
    const uint8_t *end;   /* of what may be read of the images */
    int16_t x_zero;
    const void *w_zero, *y_zero; /* w_zero: NULL where there is none */
    const float *x_scale, *w_scale, *y_scale;
    const int32_t *bias; /* NULL where there is none */
    char *y;
    uint8_t *copy;
    char *scratch;
    int64_t row_parts, column_parts;
} integer_convolution_job;

/* The output position with this number. */
static void locate(const op_window *window, int64_t position, int64_t at[OP_WINDOW_RANK]) {
    for (int32_t i = window->rank - 1; i >= 0; i--) {
        at[i] = position % window->output[i];
        position /= window->output[i];
    }
}

/* The next output row: at[rank - 1] becomes 0. */
static void next_row(const op_window *window, int64_t at[OP_WINDOW_RANK]) {
    at[window->rank - 1] = 0;
    for (int32_t i = window->rank - 2; i >= 0 && ++at[i] == window->output[i]; i--) at[i] = 0;
}

/* ---- the image, copied --------------------------------------------------------------------------------- */

/* The remainder that has number `part` in a dimension: those that window elements see, in order of appearance. */
static int64_t remainder_of(const op_window *window, int32_t i, int64_t part) {
    return part * window->dilation[i] % window->stride[i];
}

/* How many there are: they repeat. */
static int64_t count_parts(const op_window *window, int32_t i) {
    int64_t parts = 1;
    while (parts < window->kernel[i] && parts < window->stride[i] && remainder_of(window, i, parts) != 0)
        parts++;
    return parts;
}

/* The part of a channel that is being copied: its remainders, and the elements [first, end) of its rows that are no
 * padding. */
typedef struct channel_part {
    int64_t number[OP_WINDOW_RANK], remainder[OP_WINDOW_RANK], first, end;
} channel_part;

static void enter_part(const integer_convolution *shape, channel_part *part) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    for (int32_t i = 0; i <= last; i++) part->remainder[i] = remainder_of(window, i, part->number[i]);
    const int64_t stride = window->stride[last], shift = part->remainder[last] - window->before[last];
    const int64_t seen = window->input[last] - shift, count = shape->grid[last];
    part->first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    part->end = seen <= 0 ? 0 : (seen - 1) / stride + 1;
    if (part->first > count) part->first = count;
    if (part->end > count) part->end = count;
    if (part->end < part->first) part->end = part->first;
}

/* `start`: the first part, which is that of all channels. */
static void copy_channel(const integer_convolution *shape, const uint8_t *x, uint8_t zero,
                         const channel_part *start, uint8_t *to) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    const int64_t width = shape->grid[last], stride = window->stride[last];
    channel_part part = *start;
    int64_t at[OP_WINDOW_RANK] = {0}; /* the row within the part */
    for (int32_t next = last; next >= 0; to += width) {
        int64_t row = 0;
        bool inside = part.end > part.first;
        for (int32_t i = 0; i < last; i++) {
            const int64_t in = at[i] * window->stride[i] + part.remainder[i] - window->before[i];
            inside = inside && in >= 0 && in < window->input[i];
            row = row * window->input[i] + in;
        }
        if (inside) {
            const int64_t from = row * window->input[last] + part.remainder[last] - window->before[last];
            rt_fill_side(to, zero, part.first);
            rt_copy_every(to + part.first, x + from + part.first * stride, part.end - part.first, stride);
            rt_fill_side(to + part.end, zero, width - part.end);
        } else {
            memset(to, zero, (size_t)width);
        }
        for (next = last - 1; next >= 0 && ++at[next] == shape->grid[next]; next--) at[next] = 0;
        if (next >= 0) continue;
        for (next = last; next >= 0 && ++part.number[next] == shape->parts[next]; next--)
            part.number[next] = 0;
        if (next >= 0) enter_part(shape, &part);
    }
}

static void copy_channels(const integer_convolution_job *job, int64_t first, int64_t end, uint8_t *to) {
    const integer_convolution *shape = job->shape;
    channel_part start = {{0}, {0}, 0, 0};
    enter_part(shape, &start);
    for (int64_t channel = first; channel < end; channel++, to += shape->channel_bytes)
        copy_channel(shape, job->x + channel * shape->input_size, (uint8_t)job->x_zero, &start, to);
}

static void copy_member(void *context, int member, int members) {
    const integer_convolution_job *job = context;
    const int64_t channels = job->shape->group * job->shape->channels, first = channels * member / members;
    copy_channels(job, first, channels * (member + 1) / members,
                  job->copy + first * job->shape->channel_bytes);
}

/* Successive positions of a block that are successive results. */
typedef struct run_of_results {
    int32_t from, count;
    int64_t to; /* within the result of a filter */
} run_of_results;

/* Those of a block: the same for all groups and filters. Where rows are joined: which of the block's columns are a part of a row, `to` being where
 * that begins in the image. */
typedef struct block_runs {
    int64_t position; /* -1: of none yet */
    int64_t count;
    run_of_results list[RT_INTEGER_COLUMNS];
} block_runs;

/* ---- lines --------------------------------------------------------------------------------------------- */

/* A block of columns of one group. */
typedef struct line_context {
    const integer_convolution *shape;
    /* The group's first channel: of the image, of its copy from the block's first position on. */
    const uint8_t *x;
    const uint8_t *end;
    uint8_t zero;
    int64_t at[OP_WINDOW_RANK]; /* the first output position */
    int64_t count;              /* of columns */
    const block_runs *rows;     /* where rows are joined: see find_rows */
} line_context;

/* Where they lie in the image or its copy. */
static void find_lines(const void *user, int64_t k, int64_t count, const uint8_t **to, uint8_t *spare) {
    const line_context *context = user;
    const integer_convolution *shape = context->shape;
    const int64_t wide = (context->count + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL * RT_INTEGER_PANEL;
    int64_t channel = k / shape->kernel_size, tap = k % shape->kernel_size;
    for (int64_t i = 0; i < count; i++) {
        to[i] = context->x + channel * shape->channel_bytes + shape->taps[tap];
        if (context->end - to[i] < wide) {
            uint8_t *line = spare + i * RT_INTEGER_COLUMNS;
            memcpy(line, to[i], (size_t)context->count);
            to[i] = line;
        }
        if (++tap == shape->kernel_size) {
            tap = 0;
            channel++;
        }
    }
}

/* One row after another, in parts of JOINED_PART bytes: what is copied beyond the end of one is written over by the next. */
static inline void join_rows(const block_runs *rows, int64_t parts, const uint8_t *x, uint8_t *line) {
    for (int64_t r = 0; r < rows->count; r++) {
        for (int64_t at = 0; at < parts; at += JOINED_PART)
            memcpy(line + rows->list[r].from + at, x + rows->list[r].to + at, JOINED_PART);
    }
}

static void join_lines(const void *user, int64_t k, int64_t count, const uint8_t **to, uint8_t *spare) {
    const line_context *context = user;
    const integer_convolution *shape = context->shape;
    const block_runs *rows = context->rows;
    const run_of_results *last = &rows->list[rows->count - 1];
    const int64_t width = shape->window.output[shape->window.rank - 1],
                  parts = (width + JOINED_PART - 1) / JOINED_PART * JOINED_PART;
    for (int64_t i = 0; i < count; i++, spare += RT_INTEGER_COLUMNS) {
        const int64_t channel = (k + i) / shape->kernel_size, tap = (k + i) % shape->kernel_size;
        const uint8_t *x = context->x + channel * shape->channel_bytes + shape->taps[tap];
        to[i] = spare;
        if (last->from + parts <= RT_INTEGER_COLUMNS && context->end - x - last->to >= parts) {
            if (parts == JOINED_PART) join_rows(rows, JOINED_PART, x, spare);
            else join_rows(rows, parts, x, spare);
            continue;
        }
        for (int64_t r = 0; r < rows->count; r++)
            memcpy(spare + rows->list[r].from, x + rows->list[r].to, (size_t)rows->list[r].count);
    }
}

/* Where the input row lies that an output row sees through window element `tap`, counted from the channel's first
 * element to the one that the row's first position sees, which may be padding. False: the whole row is. */
static bool find_row(const op_window *window, const int64_t *shift, const int64_t *at, int64_t *offset) {
    const int32_t last = window->rank - 1;
    int64_t row = 0;
    for (int32_t i = 0; i < last; i++) {
        const int64_t in = at[i] * window->stride[i] + shift[i];
        if (in < 0 || in >= window->input[i]) return false;
        row = row * window->input[i] + in;
    }
    *offset = row * window->input[last] + shift[last];
    return true;
}

/* What one window element of one channel sees at the block's positions. */
static void gather_line(const line_context *context, int64_t k, uint8_t *line) {
    const integer_convolution *shape = context->shape;
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    const int64_t channel = k / shape->kernel_size, tap = k % shape->kernel_size,
                  width = window->output[last];
    const uint8_t *x = context->x + channel * shape->input_size;
    const int64_t *shift = shape->shifts + tap * window->rank;
    int64_t at[OP_WINDOW_RANK];
    for (int32_t i = 0; i <= last; i++) at[i] = context->at[i];
    for (int64_t left = context->count; left > 0;) {
        const int64_t from = at[last], to = width - from < left ? width : from + left;
        int64_t offset, first = shape->firsts[tap], end = shape->ends[tap];
        if (!find_row(window, shift, at, &offset)) {
            memset(line, context->zero, (size_t)(to - from));
        } else {
            first = first < from ? from : first > to ? to : first;
            end = end < first ? first : end > to ? to : end;
            memset(line, context->zero, (size_t)(first - from));
            if (end > first) {
                rt_copy_every(line + (first - from), x + offset + first * window->stride[last], end - first,
                              window->stride[last]);
            }
            memset(line + (end - from), context->zero, (size_t)(to - end));
        }
        line += to - from;
        left -= to - from;
        next_row(window, at);
    }
}

static void gather_lines(const void *user, int64_t k, int64_t count, const uint8_t **to, uint8_t *spare) {
    for (int64_t i = 0; i < count; i++, spare += RT_INTEGER_COLUMNS) {
        gather_line(user, k + i, spare);
        to[i] = spare;
    }
}

/* ---- results ------------------------------------------------------------------------------------------- */

static int64_t find_runs(const integer_convolution *shape, int64_t position, int64_t count,
                         run_of_results *runs) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    int64_t found = 0;
    if (shape->form == IMAGE_GATHERED) {
        runs[0] = (run_of_results){0, (int32_t)count, position};
        return 1;
    }
    int64_t at[OP_WINDOW_RANK];
    for (int32_t i = last; i >= 0; i--) {
        at[i] = i ? position % shape->grid[i] : position;
        if (i) position /= shape->grid[i];
    }
    for (int64_t from = 0; from < count;) {
        const int64_t x = at[last], left = shape->grid[last] - x,
                      row = last > 0 && left < count - from ? left : count - from;
        bool counts = x < window->output[last];
        int64_t to = 0;
        for (int32_t i = 0; i < last; i++) {
            counts = counts && at[i] < window->output[i];
            to = (to + at[i]) * window->output[i + 1];
        }
        if (counts) {
            const int64_t length = window->output[last] - x < row ? window->output[last] - x : row;
            run_of_results *before = found ? &runs[found - 1] : NULL;
            if (before && before->from + before->count == from && before->to + before->count == to + x)
                before->count += (int32_t)length;
            else runs[found++] = (run_of_results){(int32_t)from, (int32_t)length, to + x};
        }
        from += row;
        at[last] = 0;
        for (int32_t i = last - 1; i >= 0 && ++at[i] == shape->grid[i] && i > 0; i--) at[i] = 0;
    }
    return found;
}

/* Parts of rows of the image, of `count` results from `position` on. */
static int64_t find_rows(const integer_convolution *shape, int64_t position, int64_t count,
                         run_of_results *rows) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    int64_t at[OP_WINDOW_RANK], found = 0;
    locate(window, position, at);
    for (int64_t from = 0, length; from < count; from += length) {
        int64_t to = 0;
        length = window->output[last] - at[last];
        if (length > count - from) length = count - from;
        for (int32_t i = 0; i <= last; i++) to = to * shape->grid[i] + at[i];
        rows[found++] = (run_of_results){(int32_t)from, (int32_t)length, to};
        next_row(window, at);
    }
    return found;
}

static rt_requantization requantization_of(const integer_convolution_job *job, int64_t filter) {
    const integer_convolution *shape = job->shape;
    return (rt_requantization){.bias = job->bias ? job->bias[filter] : 0,
                               .a_scale = job->x_scale[0],
                               .b_scale = job->w_scale + (shape->scale_each ? filter : 0),
                               .y_scale = job->y_scale[0],
                               .dtype = shape->y_dtype,
                               .zero = rt_byte_load(shape->y_dtype, job->y_zero, 0)};
}

/* Sums of one filter at `count` positions, in whole panels, to their places in the result. */
static void finish_row(const integer_convolution_job *job, int64_t filter, int64_t count, const int32_t *sums,
                       const run_of_results *runs, int64_t run_count) {
    const integer_convolution *shape = job->shape;
    const int64_t base = (job->image * shape->group * shape->filters + filter) * shape->output_size;
    if (!shape->quantized) {
        for (int64_t i = 0; i < run_count; i++) {
            memcpy((int32_t *)(void *)job->y + base + runs[i].to, sums + runs[i].from,
                   (size_t)runs[i].count * sizeof(int32_t));
        }
        return;
    }
    const rt_requantization how = requantization_of(job, filter);
    if (run_count == 1 && runs[0].count % RT_INTEGER_PANEL == 0) {
        rt_requantize(&how, sums + runs[0].from, runs[0].count, job->y + base + runs[0].to);
        return;
    }
    /* Whole panels: what is left of one would be made number by number. */
    uint8_t bytes[RT_INTEGER_COLUMNS];
    rt_requantize(&how, sums, (count + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL * RT_INTEGER_PANEL, bytes);
    for (int64_t i = 0; i < run_count; i++)
        rt_copy_row((uint8_t *)job->y + base + runs[i].to, bytes + runs[i].from, runs[i].count);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static int32_t filter_zero(const integer_convolution_job *job, int64_t filter) {
    if (!job->w_zero) return 0;
    return rt_byte_load(job->shape->w_dtype, job->w_zero, job->shape->zero_each ? filter : 0);
}

/* Where the sums of a block go. */
typedef struct block_results {
    const integer_convolution_job *job;
    int64_t filter, count;
    const block_runs *runs;
} block_results;

static void finish_rows(const void *results, int64_t row, int64_t rows, const int32_t *sums, int64_t pitch) {
    const block_results *to = results;
    const run_of_results all = {0, (int32_t)to->count, to->runs->position};
    const bool joined = to->job->shape->joined;
    for (int64_t i = 0; i < rows; i++)
        finish_row(to->job, to->filter + row + i, to->count, sums + i * pitch, joined ? &all : to->runs->list,
                   joined ? 1 : to->runs->count);
}

/* `copy`: of the channels of the group; NULL where the image is read as it is. */
static void run_block(const integer_convolution_job *job, int64_t group, const uint8_t *copy, int64_t row,
                      int64_t rows, int64_t position, int64_t count, void *scratch, block_runs *runs) {
    const integer_convolution *shape = job->shape;
    const int64_t depth = shape->channels * shape->kernel_size, filter = group * shape->filters + row;
    int16_t zeros[RT_INTEGER_ROWS] = {0};
    for (int64_t i = 0; i < rows; i++) zeros[i] = (int16_t)filter_zero(job, filter + i);
    line_context lines = {.shape = shape, .end = job->end, .zero = (uint8_t)job->x_zero, .count = count};
    if (shape->form == IMAGE_GATHERED) {
        lines.x = job->x + group * shape->channels * shape->input_size;
        locate(&shape->window, position, lines.at);
    } else {
        const int64_t bytes = shape->channels * shape->channel_bytes;
        lines.x = (copy ? copy : job->x + group * bytes) + (shape->joined ? 0 : position);
        if (copy) lines.end = copy + bytes + SLACK;
    }
    const block_results results = {job, filter, count, runs};
    const rt_integer_block block = {.rows = rows,
                                    .columns = count,
                                    .depth = depth,
                                    .a_dtype = shape->w_dtype,
                                    .b_dtype = shape->x_dtype,
                                    .a = job->w + filter * depth,
                                    .a_row = depth,
                                    .a_zeros = zeros,
                                    .b_zeros = &job->x_zero,
                                    .lines = shape->form == IMAGE_GATHERED ? gather_lines
                                             : shape->joined               ? join_lines
                                                                           : find_lines,
                                    .context = &lines,
                                    .finish = finish_rows,
                                    .results = &results};
    if (runs->position != position) {
        runs->position = position;
        runs->count = (shape->joined ? find_rows : find_runs)(shape, position, count, runs->list);
    }
    lines.rows = runs;
    rt_integer_block_run(&block, scratch);
}

static void products_member(void *context, int member, int members) {
    const integer_convolution_job *job = context;
    const integer_convolution *shape = job->shape;
    const int64_t parts = job->row_parts * job->column_parts, together = shape->groups_together,
                  group_bytes = shape->channels * shape->channel_bytes;
    char *scratch = job->scratch + (size_t)member * shape->scratch_each;
    uint8_t *copy = together ? (uint8_t *)scratch + shape->groups_at : job->copy;
    block_runs runs;
    runs.position = -1;
    int64_t item = member, end = shape->group * parts, step = members, copied = 0, copied_end = shape->group;
    if (together) {
        item = shape->group * member / members * parts;
        end = shape->group * (member + 1) / members * parts;
        step = 1;
        copied_end = 0;
    }
    for (; item < end; item += step) {
        const int64_t group = item / parts, part = item % parts;
        const int64_t row = part / job->column_parts * shape->rows_each;
        const int64_t position = part % job->column_parts * shape->columns_each;
        const int64_t rows = shape->filters - row, count = shape->positions - position;
        if (group >= copied_end) {
            copied = group;
            copied_end = group + together < end / parts ? group + together : end / parts;
            copy_channels(job, copied * shape->channels, copied_end * shape->channels, copy);
        }
        run_block(job, group, shape->form == IMAGE_COPIED ? copy + (group - copied) * group_bytes : NULL, row,
                  rows < shape->rows_each ? rows : shape->rows_each, position,
                  count < shape->columns_each ? count : shape->columns_each, scratch, &runs);
    }
}

/* ---- one channel a filter ------------------------------------------------------------------------------- */

RT_CLONES static void floats_of_unsigned(const uint8_t *x, int64_t count, float zero, float *to) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = (float)x[i] - zero;
}

RT_CLONES static void floats_of_signed(const int8_t *x, int64_t count, float zero, float *to) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = (float)x[i] - zero;
}

RT_CLONES static void sums_of_floats(const float *x, int64_t count, int32_t *to) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] = (int32_t)x[i];
}

static void floats_of(op_dtype dtype, const uint8_t *x, int64_t count, int32_t zero, float *to) {
    if (dtype == OP_INT8) floats_of_signed((const int8_t *)x, count, (float)zero, to);
    else floats_of_unsigned(x, count, (float)zero, to);
}

/* Sums of a map, which are integers in float. */
static void finish_map(const integer_convolution_job *job, int64_t filter, const float *map) {
    const int64_t size = job->shape->output_size;
    int32_t sums[RT_INTEGER_COLUMNS];
    for (int64_t at = 0; at < size; at += RT_INTEGER_COLUMNS) {
        const int64_t count = size - at < RT_INTEGER_COLUMNS ? size - at : RT_INTEGER_COLUMNS;
        const run_of_results all = {0, (int32_t)count, at};
        sums_of_floats(map + at, count, sums);
        finish_row(job, filter, count, sums, &all, 1);
    }
}

static void stencil_member(void *context, int member, int members) {
    const integer_convolution_job *job = context;
    const integer_convolution *shape = job->shape;
    char *scratch = job->scratch + (size_t)member * shape->scratch_each;
    float *channel = (float *)(void *)scratch, *map = (float *)(void *)(scratch + shape->channel_floats),
          weights[STENCIL_TAPS];
    void *rest = scratch + shape->channel_floats + shape->map_floats;
    rt_stencil_begin(&shape->stencil, rest);
    for (int64_t group = member; group < shape->group; group += members) {
        floats_of(shape->x_dtype, job->x + group * shape->input_size, shape->input_size, job->x_zero,
                  channel);
        for (int64_t filter = group * shape->filters; filter < (group + 1) * shape->filters; filter++) {
            /* A bias with which sums stay exact is added to them at once. */
            const int64_t bias = job->bias ? job->bias[filter] : 0,
                          most = (bias < 0 ? -bias : bias) + shape->kernel_size * 255 * 255;
            const bool biased = shape->quantized && most <= 1 << 24;
            const rt_stencil_end end = {biased ? (float)bias : 0, -INFINITY, INFINITY};
            floats_of(shape->w_dtype, job->w + filter * shape->kernel_size, shape->kernel_size,
                      filter_zero(job, filter), weights);
            rt_stencil_run(&shape->stencil, channel, weights, map, false, &end, rest);
            const rt_requantization how = biased ? requantization_of(job, filter) : (rt_requantization){0};
            if (biased)
                rt_requantize_floats(&how, map, shape->output_size,
                                     job->y + (job->image * shape->group * shape->filters + filter) *
                                                  shape->output_size);
            else finish_map(job, filter, map);
        }
    }
}

/* A filter sees one channel of a map, or of a row; the window is described where that is so. */
static bool describe_stencil(integer_convolution *shape) {
    const op_window *window = &shape->window;
    if (shape->channels != 1 || shape->filters > STENCIL_FILTERS || shape->kernel_size > STENCIL_TAPS ||
        window->rank > 2)
        return false;
    shape->stencil = (rt_stencil){
        .input = {1, 1}, .output = {1, 1}, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    for (int32_t i = 0; i < window->rank; i++) {
        const int32_t to = i + 2 - window->rank;
        shape->stencil.input[to] = window->input[i];
        shape->stencil.output[to] = window->output[i];
        shape->stencil.kernel[to] = window->kernel[i];
        shape->stencil.stride[to] = window->stride[i];
        shape->stencil.dilation[to] = window->dilation[i];
        shape->stencil.before[to] = window->before[i];
    }
    return true;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const integer_convolution *shape = prepared->state;
    integer_convolution_job job = {.shape = shape, .y = outputs[0].data, .copy = scratch};
    const void *x_zero;
    job.scratch = (char *)scratch + shape->image_bytes;
    if (shape->quantized) {
        job.x_scale = inputs[1].data;
        x_zero = inputs[2].data;
        job.w = inputs[3].data;
        job.w_scale = inputs[4].data;
        job.w_zero = inputs[5].data;
        job.y_scale = inputs[6].data;
        job.y_zero = inputs[7].data;
        job.bias = shape->bias ? inputs[8].data : NULL;
    } else {
        job.w = inputs[1].data;
        x_zero = prepared->input_count > 2 ? inputs[2].data : NULL;
        job.w_zero = prepared->input_count > 3 ? inputs[3].data : NULL;
    }
    job.x_zero = (int16_t)(x_zero ? rt_byte_load(shape->x_dtype, x_zero, 0) : 0);
    job.row_parts = (shape->filters + shape->rows_each - 1) / shape->rows_each;
    job.column_parts = (shape->positions + shape->columns_each - 1) / shape->columns_each;
    const int64_t image_size = shape->group * shape->channels * shape->input_size;
    const double work = (double)shape->group * (double)shape->filters * (double)shape->output_size *
                        (double)(shape->channels * shape->kernel_size + 1);
    const int threads = work < RT_PARALLEL_WORK ? 1 : prepared->threads;
    job.end = (const uint8_t *)inputs[0].data + shape->batch * image_size;
    for (job.image = 0; job.image < shape->batch; job.image++) {
        job.x = (const uint8_t *)inputs[0].data + job.image * image_size;
        if (shape->form == IMAGE_COPIED && !shape->groups_together) rt_team_run(threads, copy_member, &job);
        rt_team_run(threads, shape->form == IMAGE_STENCIL ? stencil_member : products_member, &job);
    }
    return BASE_OK;
}

/* ---- preparation --------------------------------------------------------------------------------------- */

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

/* Input `input` has one number for every filter. */
static bool has_each(const op_call *call, uint32_t input) {
    int64_t elements;
    return op_input_present(call, input) && op_shape_elements(&call->inputs[input].type.shape, &elements) &&
           elements != 1;
}

/* Bytes of `count` floats, and of a vector that may be read after them. */
static bool float_bytes(int64_t count, size_t *bytes) {
    return base_size_multiply((size_t)count, sizeof(float), bytes) && base_size_add(*bytes, SLACK, bytes) &&
           base_size_align(*bytes, RT_ALIGNMENT, bytes);
}

static bool prepare_stencil(integer_convolution *shape, base_arena *arena) {
    shape->form = IMAGE_STENCIL;
    shape->rows_each = shape->columns_each = 1; /* no blocks */
    return rt_stencil_prepare(&shape->stencil, arena) &&
           float_bytes(shape->input_size, &shape->channel_floats) &&
           float_bytes(shape->output_size, &shape->map_floats) &&
           base_size_align(shape->stencil.bytes, RT_ALIGNMENT, &shape->scratch_each) &&
           base_size_add(shape->scratch_each, shape->channel_floats, &shape->scratch_each) &&
           base_size_add(shape->scratch_each, shape->map_floats, &shape->scratch_each);
}

/* How the image is read, and the grid of its positions. */
static void choose_form(integer_convolution *shape) {
    enum { MOST_POSITIONS = 3 /* halves of the results */, MOST_BYTES = 8, SMALL = 65536, JOINED = 256 };
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    bool as_it_is = true;
    shape->form = IMAGE_GATHERED;
    shape->positions = shape->output_size;
    if (shape->channels == 0) return;
    size_t bytes = 1, most;
    int64_t last_position = 0;
    if (!base_size_multiply((size_t)(shape->input_size + shape->output_size), MOST_BYTES, &most) ||
        !base_size_add(most, SMALL, &most))
        return;
    for (int32_t i = 0; i < window->rank; i++) {
        const int64_t needed =
            (window->output[i] - 1) * window->stride[i] + (window->kernel[i] - 1) * window->dilation[i] + 1;
        as_it_is = as_it_is && window->stride[i] == 1 && window->before[i] == 0 && needed <= window->input[i];
        shape->parts[i] = count_parts(window, i);
        shape->grid[i] = (needed + window->stride[i] - 1) / window->stride[i];
        if (!base_size_multiply(bytes, (size_t)(shape->grid[i] * shape->parts[i]), &bytes) || bytes > most)
            return;
    }
    if (as_it_is) {
        for (int32_t i = 0; i <= last; i++) shape->grid[i] = window->input[i];
        bytes = (size_t)shape->input_size;
    }
    for (int32_t i = 0; i <= last; i++)
        last_position = last_position * shape->grid[i] + window->output[i] - 1;
    const int64_t positions = last_position + 1;
    if (2 * (double)positions > MOST_POSITIONS * (double)shape->output_size + 2 * RT_INTEGER_PANEL) return;
    shape->positions = positions;
    shape->channel_bytes = (int64_t)bytes;
    shape->form = as_it_is ? IMAGE_AS_IT_IS : IMAGE_COPIED;
    /* What lies between rows costs a product each filter; to put rows together takes a line as long as a few of them. */
    const int64_t between = shape->grid[last] - window->output[last];
    shape->joined =
        between > 0 && positions > RT_INTEGER_PANEL && (double)between * (double)shape->filters >= JOINED;
    if (shape->joined) shape->positions = shape->output_size;
}

/* Where window elements begin in a channel of the copy. */
static bool tabulate_taps(integer_convolution *shape, base_arena *arena) {
    const op_window *window = &shape->window;
    int64_t *taps = BASE_ARRAY(arena, int64_t, (size_t)shape->kernel_size);
    if (!taps) return false;
    int64_t size = 1;
    for (int32_t i = 0; i < window->rank; i++) size *= shape->grid[i];
    for (int64_t tap = 0; tap < shape->kernel_size; tap++) {
        int64_t rest = tap, at = 0, scale = 1, part = 0, part_scale = 1;
        for (int32_t i = window->rank - 1; i >= 0; i--) {
            const int64_t k = rest % window->kernel[i];
            at += k * window->dilation[i] / window->stride[i] * scale;
            part += k % shape->parts[i] * part_scale;
            scale *= shape->grid[i];
            part_scale *= shape->parts[i];
            rest /= window->kernel[i];
        }
        taps[tap] = part * size + at;
    }
    shape->taps = taps;
    return true;
}

/* What window elements see where lines are gathered. */
static bool tabulate_shifts(integer_convolution *shape, base_arena *arena) {
    const op_window *window = &shape->window;
    const int32_t last = window->rank - 1;
    int64_t *shifts =
        base_arena_alloc(arena, (size_t)shape->kernel_size, (size_t)(window->rank + 2) * sizeof(int64_t));
    if (!shifts) return false;
    int64_t *firsts = shifts + shape->kernel_size * window->rank, *ends = firsts + shape->kernel_size;
    for (int64_t tap = 0; tap < shape->kernel_size; tap++) {
        int64_t rest = tap, *shift = shifts + tap * window->rank;
        for (int32_t i = last; i >= 0; i--) {
            shift[i] = rest % window->kernel[i] * window->dilation[i] - window->before[i];
            rest /= window->kernel[i];
        }
        const int64_t stride = window->stride[last], seen = window->input[last] - shift[last];
        firsts[tap] = shift[last] >= 0 ? 0 : (-shift[last] + stride - 1) / stride;
        ends[tap] = seen <= 0 ? 0 : (seen - 1) / stride + 1;
        if (ends[tap] > window->output[last]) ends[tap] = window->output[last];
    }
    shape->shifts = shifts;
    shape->firsts = firsts;
    shape->ends = ends;
    return true;
}

/* The scratch of all threads, and of the copy that they share. False: too large to count. */
static bool size_scratch(integer_convolution *shape, int threads, size_t *bytes) {
    const int64_t columns = shape->positions < shape->columns_each ? shape->positions : shape->columns_each;
    size_t copy, members;
    shape->scratch_each =
        rt_integer_scratch(shape->rows_each, columns, shape->channels * shape->kernel_size, false);
    shape->image_bytes = 0;
    if (shape->form == IMAGE_COPIED) {
        int64_t channels = shape->group * shape->channels, group_bytes;
        if (!base_int64_multiply(shape->channels, shape->channel_bytes, &group_bytes)) return false;
        if (shape->group > 1 && shape->group >= threads) {
            /* What was just written is read in other pieces, which waits for it: a few groups later it is there. */
            const int64_t each = shape->group / threads, near = NEAR / (group_bytes + 1);
            shape->groups_together = near < 1 ? 1 : near < each ? near : each;
            channels = shape->groups_together * shape->channels;
        }
        if (!base_size_multiply((size_t)shape->channel_bytes, (size_t)channels, &copy) ||
            !base_size_add(copy, SLACK, &copy) || !base_size_align(copy, RT_ALIGNMENT, &copy))
            return false;
        shape->groups_at = shape->scratch_each;
        if (!shape->groups_together) shape->image_bytes = copy;
        else if (!base_size_add(shape->scratch_each, copy, &shape->scratch_each)) return false;
    }
    return base_size_multiply((size_t)threads, shape->scratch_each, &members) &&
           base_size_add(shape->image_bytes, members, bytes);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    if (rt_integer_is_empty(call)) {
        prepared->run = rt_run_nothing;
        return BASE_OK;
    }
    integer_convolution *shape = BASE_NEW(arena, integer_convolution);
    if (!shape) return base_fail_memory(report);
    const bool quantized = call->code == OP_QLINEAR_CONV;
    const op_shape *x = &call->inputs[0].type.shape, *w = &call->inputs[quantized ? 3 : 1].type.shape;
    op_window window;
    base_status status = op_window_read(call, w->dims + 2, &window, report);
    if (status != BASE_OK) return status;
    *shape = (integer_convolution){.window = window,
                                   .batch = x->dims[0],
                                   .group = op_attribute_integer(&call->attributes, "group", 1),
                                   .channels = w->dims[1],
                                   .input_size = 1,
                                   .output_size = 1,
                                   .kernel_size = 1,
                                   .x_dtype = call->inputs[0].type.dtype,
                                   .w_dtype = call->inputs[quantized ? 3 : 1].type.dtype,
                                   .y_dtype = call->outputs[0].type.dtype,
                                   .quantized = quantized,
                                   .bias = quantized && op_input_present(call, 8),
                                   .zero_each = has_each(call, quantized ? 5 : 3),
                                   .scale_each = quantized && has_each(call, 4)};
    shape->filters = w->dims[0] / shape->group;
    for (int32_t i = 0; i < window.rank; i++) {
        if (window.input[i] == 0) shape->channels = 0; /* nothing but padding is to be seen */
    }
    for (int32_t i = 0; i < window.rank; i++) {
        shape->output_size *= window.output[i];
        if (shape->channels == 0) { /* the window does not matter, whatever its extent */
            shape->window.kernel[i] = 1;
            continue;
        }
        shape->input_size *= window.input[i];
        shape->kernel_size *= window.kernel[i];
    }
    if (describe_stencil(shape)) {
        if (!prepare_stencil(shape, arena) ||
            !base_size_multiply((size_t)environment->threads, shape->scratch_each, &prepared->scratch_bytes))
            return base_fail(report, BASE_INVALID, "the tensors are too large");
        prepared->state = shape;
        prepared->run = run;
        return BASE_OK;
    }
    choose_form(shape);
    const int64_t depth = shape->channels * shape->kernel_size;
    /* Bands of rows are there where memory is short. */
    const bool band = op_attribute_find(&call->attributes, "ouro.packed_extents") != NULL;
    shape->columns_each = rt_integer_columns(shape->filters, depth, band);
    /* Smaller blocks where there would be too few for the threads. */
    const int64_t parts = shape->group * ((shape->positions + shape->columns_each - 1) / shape->columns_each);
    const int64_t wanted = parts >= environment->threads ? 1 : (environment->threads + parts - 1) / parts;
    shape->rows_each = (shape->filters + wanted - 1) / wanted;
    if (shape->rows_each > RT_INTEGER_ROWS) shape->rows_each = RT_INTEGER_ROWS;
    if (!size_scratch(shape, environment->threads, &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "the tensors are too large");
    if (!(shape->form == IMAGE_GATHERED ? tabulate_shifts(shape, arena) : tabulate_taps(shape, arena)))
        return base_fail_memory(report);
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_convolution_integer = {
    .name = "portable.convolution_integer", .accepts = accepts, .prepare = prepare};

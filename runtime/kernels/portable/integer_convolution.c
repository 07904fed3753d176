/* SPDX-License-Identifier: Apache-2.0 */
/* integer_convolution.c: ConvInteger and QLinearConv in portable C: any number of spatial dimensions, groups,
 * strides, dilations, padding; zero points and scales of the weights for all filters or for each.
 *
 * A product of matrices: rows are the filters of a group, columns output positions, the depth channels times
 * window. How the image is read is in integer_image.h. Constant filters are arranged when the plan is compiled, for machines that are faster then
 * (integer_filters.h); a plan with arranged filters gives the same results on all others.
 *
 * Where a filter sees one channel of a map, the channel becomes floats, whose sums are exact: windows that large that they would not be are
 * left to the product (stencil.h).
 */
#include "runtime/kernels/portable/filter_tiles.h"
#include "runtime/kernels/portable/integer_image.h"
#include "runtime/kernels/portable/integer_tiles.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/short_rows.h"
#include "runtime/kernels/portable/stencil.h"
#include <math.h>
#include <string.h>

enum {
    NEAR = 16384,       /* bytes of a copy of some groups */
    STENCIL_TAPS = 256, /* of a window whose sums are exact in float: 256 * 255 * 255 < 2^24 */
    STENCIL_FILTERS = 4 /* of one channel at most: a product makes more at once */
};

typedef struct integer_convolution {
    rt_integer_image image;
    int64_t batch;
    op_dtype w_dtype, y_dtype;
    bool quantized, bias, zero_each, scale_each; /* each: one for every filter */
    bool arranged;                               /* the filters: see integer_filters.h */
    int64_t quads;                               /* of an arranged filter */
    bool tiles;                                  /* they are multiplied in tiles */
    int64_t rows_each, columns_each;
    /* 0, or each thread copies the planes of so many groups at a time, and not all are copied before. */
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

/* ---- the image, copied --------------------------------------------------------------------------------- */

static void copy_planes(const integer_convolution_job *job, int64_t first, int64_t end, uint8_t *to) {
    rt_image_copy(&job->shape->image, job->x, (uint8_t)job->x_zero, first, end, to);
}

static void copy_member(void *context, int member, int members) {
    const integer_convolution_job *job = context;
    const rt_integer_image *image = &job->shape->image;
    const int64_t planes = image->group * image->planes, first = planes * member / members;
    copy_planes(job, first, planes * (member + 1) / members, job->copy + first * image->plane_bytes);
}

/* ---- results ------------------------------------------------------------------------------------------- */

/* Of sums of arranged filters, which have their bias already, and of all others. */
static rt_requantization requantization_of(const integer_convolution_job *job, int64_t filter) {
    const integer_convolution *shape = job->shape;
    return (rt_requantization){.bias = job->bias && !shape->arranged ? job->bias[filter] : 0,
                               .a_scale = job->x_scale[0],
                               .b_scale = job->w_scale + (shape->scale_each ? filter : 0),
                               .y_scale = job->y_scale[0],
                               .dtype = shape->y_dtype,
                               .zero = rt_byte_load(shape->y_dtype, job->y_zero, 0)};
}

/* Sums of `filters` filters from `filter` on, each at `count` positions, to their places in the result. */
static void finish_filters(const integer_convolution_job *job, int64_t filter, int64_t filters, int64_t count,
                           const int32_t *sums, int64_t pitch, const rt_image_run *runs, int64_t run_count) {
    const integer_convolution *shape = job->shape;
    const rt_integer_image *image = &shape->image;
    int64_t base = (job->image * image->group * image->filters + filter) * image->output_size;
    if (!shape->quantized) {
        for (int64_t f = 0; f < filters; f++, base += image->output_size, sums += pitch) {
            for (int64_t i = 0; i < run_count; i++)
                memcpy((int32_t *)(void *)job->y + base + runs[i].to, sums + runs[i].from,
                       (size_t)runs[i].count * sizeof(int32_t));
        }
        return;
    }
    rt_requantization how = requantization_of(job, filter);
    how.each = shape->scale_each;
    rt_requantized_rows rows = {.rows = filters,
                                .count = count,
                                .sums = sums,
                                .sums_row = pitch,
                                .biases = job->bias && !shape->arranged ? job->bias + filter : NULL,
                                .y = (uint8_t *)job->y + base};
    if (run_count == 1) {
        rows.count = runs[0].count;
        rows.sums += runs[0].from;
        rows.y += runs[0].to;
        rows.y_row = image->output_size;
        rt_requantize_rows(&how, &rows);
        return;
    }
    /* Whole panels: what is left of one would be made number by number. */
    enum { TOGETHER = 8 };
    uint8_t bytes[TOGETHER][RT_INTEGER_COLUMNS];
    rows.count = (count + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL * RT_INTEGER_PANEL;
    rows.y = bytes[0];
    rows.y_row = RT_INTEGER_COLUMNS;
    for (int64_t f = 0; f < filters; f += TOGETHER) {
        rows.rows = filters - f < TOGETHER ? filters - f : TOGETHER;
        rt_requantize_rows(&how, &rows);
        for (int64_t r = 0; r < rows.rows; r++, base += image->output_size) {
            for (int64_t i = 0; i < run_count; i++)
                rt_copy_row((uint8_t *)job->y + base + runs[i].to, bytes[r] + runs[i].from, runs[i].count);
        }
        rows.sums += rows.rows * pitch;
        if (rows.biases) rows.biases += rows.rows;
        if (how.each) how.b_scale += rows.rows;
    }
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
    const rt_image_runs *runs;
} block_results;

static void finish_rows(const void *results, int64_t row, int64_t rows, const int32_t *sums, int64_t pitch) {
    const block_results *to = results;
    const rt_image_run all = {0, (int32_t)to->count, to->runs->position};
    const bool joined = to->job->shape->image.joined;
    finish_filters(to->job, to->filter + row, rows, to->count, sums, pitch, joined ? &all : to->runs->list,
                   joined ? 1 : to->runs->count);
}

/* On filters as they are. */
static void run_dense(const integer_convolution_job *job, const rt_image_lines *lines, int64_t rows,
                      const int16_t *zeros, const block_results *results, void *scratch) {
    const integer_convolution *shape = job->shape;
    const int64_t depth = shape->image.channels * shape->image.kernel_size;
    const rt_integer_block block = {.rows = rows,
                                    .columns = lines->count,
                                    .depth = depth,
                                    .a_dtype = shape->w_dtype,
                                    .b_dtype = shape->image.dtype,
                                    .a = job->w + results->filter * depth,
                                    .a_row = depth,
                                    .a_zeros = zeros,
                                    .b_zeros = &job->x_zero,
                                    .lines = rt_image_find_lines,
                                    .context = lines,
                                    .finish = finish_rows,
                                    .results = results};
    rt_integer_block_run(&block, scratch);
}

/* How many quadruples lie from those of four channels to those of the next four. */
static int64_t quads_apart(const rt_integer_image *image) {
    return image->by_channels ? image->kernel_size : 1;
}

static void run_arranged(const integer_convolution_job *job, const rt_image_lines *lines, int64_t rows,
                         const int16_t *zeros, const block_results *results, void *scratch) {
    const integer_convolution *shape = job->shape;
    const rt_integer_image *image = &shape->image;
    const int8_t *filters = (const int8_t *)job->w;
    const int64_t bytes = 4 * shape->quads;
    const bool direct = rt_image_is_direct(image);
    const rt_filters_block block = {
        .filters = filters + results->filter * bytes,
        .sums = (const int32_t *)(const void *)(filters + image->group * image->filters * bytes) +
                results->filter,
        .zeros = zeros,
        .biases = job->bias ? job->bias + results->filter : NULL,
        .filter_dtype = shape->w_dtype,
        .image_dtype = image->dtype,
        .image_zero = job->x_zero,
        .rows = rows,
        .columns = lines->count,
        .depth = image->channels * image->kernel_size,
        .quads = shape->quads,
        .step = quads_apart(image),
        .tiles = shape->tiles,
        .image = direct ? lines->x : NULL,
        .panels = lines->runs->panels,
        .offsets = image->offsets,
        .fill = rt_image_fill,
        .context = lines,
        .finish = finish_rows,
        .results = results};
    rt_filters_block_run(&block, scratch);
}

/* `copy`: of the planes of the group; NULL where the image is read as it is. */
static void run_block(const integer_convolution_job *job, int64_t group, const uint8_t *copy, int64_t row,
                      int64_t rows, int64_t position, int64_t count, void *scratch, rt_image_runs *runs) {
    const integer_convolution *shape = job->shape;
    const rt_integer_image *image = &shape->image;
    const int64_t filter = group * image->filters + row;
    int16_t zeros[RT_INTEGER_ROWS] = {0};
    for (int64_t i = 0; i < rows; i++) zeros[i] = (int16_t)filter_zero(job, filter + i);
    rt_image_lines lines = {.image = image,
                            .x = copy ? copy : job->x + group * image->channels * image->input_size,
                            .end =
                                copy ? copy + image->planes * image->plane_bytes + RT_IMAGE_SLACK : job->end,
                            .zero = (uint8_t)job->x_zero,
                            .position = position,
                            .count = count,
                            .runs = runs};
    const block_results results = {job, filter, count, runs};
    rt_image_find_runs(image, position, count, runs);
    rt_image_begin_lines(&lines);
    (shape->arranged ? run_arranged : run_dense)(job, &lines, rows, zeros, &results, scratch);
}

static void products_member(void *context, int member, int members) {
    const integer_convolution_job *job = context;
    const integer_convolution *shape = job->shape;
    const int64_t parts = job->row_parts * job->column_parts, together = shape->groups_together,
                  group_bytes = shape->image.planes * shape->image.plane_bytes;
    char *scratch = job->scratch + (size_t)member * shape->scratch_each;
    uint8_t *copy = together ? (uint8_t *)scratch + shape->groups_at : job->copy;
    rt_image_runs runs;
    runs.position = -1;
    int64_t item = member, end = shape->image.group * parts, step = members, copied = 0,
            copied_end = shape->image.group;
    if (together) {
        item = shape->image.group * member / members * parts;
        end = shape->image.group * (member + 1) / members * parts;
        step = 1;
        copied_end = 0;
    }
    for (; item < end; item += step) {
        const int64_t group = item / parts, part = item % parts;
        const int64_t row = part / job->column_parts * shape->rows_each;
        const int64_t position = part % job->column_parts * shape->columns_each;
        const int64_t rows = shape->image.filters - row, count = shape->image.positions - position;
        if (group >= copied_end) {
            copied = group;
            copied_end = group + together < end / parts ? group + together : end / parts;
            copy_planes(job, copied * shape->image.planes, copied_end * shape->image.planes, copy);
        }
        run_block(job, group,
                  shape->image.form == IMAGE_COPIED ? copy + (group - copied) * group_bytes : NULL, row,
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
    const int64_t size = job->shape->image.output_size;
    int32_t sums[RT_INTEGER_COLUMNS];
    for (int64_t at = 0; at < size; at += RT_INTEGER_COLUMNS) {
        const int64_t count = size - at < RT_INTEGER_COLUMNS ? size - at : RT_INTEGER_COLUMNS;
        const rt_image_run all = {0, (int32_t)count, at};
        sums_of_floats(map + at, count, sums);
        finish_filters(job, filter, 1, count, sums, count, &all, 1);
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
    for (int64_t group = member; group < shape->image.group; group += members) {
        floats_of(shape->image.dtype, job->x + group * shape->image.input_size, shape->image.input_size,
                  job->x_zero, channel);
        for (int64_t filter = group * shape->image.filters; filter < (group + 1) * shape->image.filters;
             filter++) {
            /* A bias with which sums stay exact is added to them at once. */
            const int64_t bias = job->bias ? job->bias[filter] : 0,
                          most = (bias < 0 ? -bias : bias) + shape->image.kernel_size * 255 * 255;
            const bool biased = shape->quantized && most <= 1 << 24;
            const rt_stencil_end end = {biased ? (float)bias : 0, -INFINITY, INFINITY};
            floats_of(shape->w_dtype, job->w + filter * shape->image.kernel_size, shape->image.kernel_size,
                      filter_zero(job, filter), weights);
            rt_stencil_run(&shape->stencil, channel, weights, map, false, &end, rest);
            const rt_requantization how = biased ? requantization_of(job, filter) : (rt_requantization){0};
            if (biased)
                rt_requantize_floats(&how, map, shape->image.output_size,
                                     job->y +
                                         (job->image * shape->image.group * shape->image.filters + filter) *
                                             shape->image.output_size);
            else finish_map(job, filter, map);
        }
    }
}

/* A filter sees one channel of a map, or of a row. */
static bool has_stencil(int64_t channels, int64_t filters, int64_t taps, int32_t rank) {
    return channels == 1 && filters <= STENCIL_FILTERS && taps <= STENCIL_TAPS && rank <= 2;
}

/* The window, where a filter sees one channel. */
static bool describe_stencil(integer_convolution *shape) {
    const op_window *window = &shape->image.window;
    if (!has_stencil(shape->image.channels, shape->image.filters, shape->image.kernel_size, window->rank))
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
    job.x_zero = (int16_t)(x_zero ? rt_byte_load(shape->image.dtype, x_zero, 0) : 0);
    job.row_parts = (shape->image.filters + shape->rows_each - 1) / shape->rows_each;
    job.column_parts = (shape->image.positions + shape->columns_each - 1) / shape->columns_each;
    const int64_t image_size = shape->image.group * shape->image.channels * shape->image.input_size;
    const double work = (double)shape->image.group * (double)shape->image.filters *
                        (double)shape->image.output_size *
                        (double)(shape->image.channels * shape->image.kernel_size + 1);
    const int threads = work < RT_PARALLEL_WORK ? 1 : prepared->threads;
    job.end = (const uint8_t *)inputs[0].data + shape->batch * image_size;
    for (job.image = 0; job.image < shape->batch; job.image++) {
        job.x = (const uint8_t *)inputs[0].data + job.image * image_size;
        if (shape->image.form == IMAGE_COPIED && !shape->groups_together)
            rt_team_run(threads, copy_member, &job);
        rt_team_run(threads, shape->image.form == IMAGE_STENCIL ? stencil_member : products_member, &job);
    }
    return BASE_OK;
}

/* ---- preparation --------------------------------------------------------------------------------------- */

/* The filters. */
static uint32_t filters_input(const op_call *call) {
    return call->code == OP_QLINEAR_CONV ? 3 : 1;
}

/* Bytes of the filters if they were arranged; false where that is of no use, and of other inputs. It depends on their shape alone: the image may
 * have any extents. */
static bool arranged_bytes(const op_call *call, uint32_t input, size_t *bytes) {
    enum { LEAST_DEPTH = 16 };
    const op_shape *w = &call->inputs[input].type.shape;
    const int64_t group = op_attribute_integer(&call->attributes, "group", 1);
    rt_filters_shape shape = {.channels = w->dims[1], .taps = 1};
    if (input != filters_input(call) || !op_shape_known(w) || w->rank < 3 || group < 1 ||
        w->dims[0] % group != 0)
        return false;
    for (int32_t i = 2; i < w->rank; i++) {
        if (w->dims[i] < 1 || !base_int64_multiply(shape.taps, w->dims[i], &shape.taps)) return false;
    }
    return !has_stencil(shape.channels, w->dims[0] / group, shape.taps, w->rank - 2) &&
           rt_filters_bytes(w->dims[0], shape, bytes) && shape.channels * shape.taps >= LEAST_DEPTH;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_packed(call, arranged_bytes);
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    const uint32_t w = filters_input(call);
    size_t bytes;
    if (environment->portable_only || !rt_filters_wanted() || !call->inputs[w].data ||
        !rt_accepts_row_major(call) || !arranged_bytes(call, w, &bytes))
        return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    preference->inputs[w] = OP_LAYOUT_PACKED;
    preference->packed_bytes[w] = bytes;
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    (void)environment;
    const op_shape *w = &source->type.shape;
    const int64_t group = op_attribute_integer(&call->attributes, "group", 1);
    rt_filters_shape shape = {.channels = w->dims[1], .taps = 1};
    size_t bytes;
    if (!arranged_bytes(call, input, &bytes))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not packed", input);
    for (int32_t i = 2; i < w->rank; i++) shape.taps *= w->dims[i];
    rt_filters_arrange(source->type.dtype, source->data, group, w->dims[0] / group, shape, packed);
    return BASE_OK;
}

/* Input `input` has one number for every filter. */
static bool has_each(const op_call *call, uint32_t input) {
    int64_t elements;
    return op_input_present(call, input) && op_shape_elements(&call->inputs[input].type.shape, &elements) &&
           elements != 1;
}

/* Bytes of `count` floats, and of a vector that may be read after them. */
static bool float_bytes(int64_t count, size_t *bytes) {
    return base_size_multiply((size_t)count, sizeof(float), bytes) &&
           base_size_add(*bytes, RT_IMAGE_SLACK, bytes) && base_size_align(*bytes, RT_ALIGNMENT, bytes);
}

static bool prepare_stencil(integer_convolution *shape, base_arena *arena) {
    shape->image.form = IMAGE_STENCIL;
    shape->rows_each = shape->columns_each = 1; /* no blocks */
    return rt_stencil_prepare(&shape->stencil, arena) &&
           float_bytes(shape->image.input_size, &shape->channel_floats) &&
           float_bytes(shape->image.output_size, &shape->map_floats) &&
           base_size_align(shape->stencil.bytes, RT_ALIGNMENT, &shape->scratch_each) &&
           base_size_add(shape->scratch_each, shape->channel_floats, &shape->scratch_each) &&
           base_size_add(shape->scratch_each, shape->map_floats, &shape->scratch_each);
}

/* The scratch of all threads, and of the copy that they share. False: too large to count. */
static bool size_scratch(integer_convolution *shape, int threads, size_t *bytes) {
    const rt_integer_image *image = &shape->image;
    const int64_t columns = image->positions < shape->columns_each ? image->positions : shape->columns_each;
    size_t copy, members;
    shape->scratch_each =
        shape->arranged
            ? rt_filters_scratch(shape->rows_each, columns, shape->quads, !rt_image_is_direct(image))
            : rt_integer_scratch(shape->rows_each, columns, image->channels * image->kernel_size, false);
    shape->image_bytes = 0;
    if (shape->image.form == IMAGE_COPIED) {
        int64_t planes = image->group * image->planes, group_bytes;
        if (!base_int64_multiply(image->planes, image->plane_bytes, &group_bytes)) return false;
        if (shape->image.group > 1 && shape->image.group >= threads) {
            /* What was just written is read in other pieces, which waits for it: a few groups later it is there. */
            const int64_t each = shape->image.group / threads, near = NEAR / (group_bytes + 1);
            shape->groups_together = near < 1 ? 1 : near < each ? near : each;
            planes = shape->groups_together * image->planes;
        }
        if (!base_size_multiply((size_t)image->plane_bytes, (size_t)planes, &copy) ||
            !base_size_add(copy, RT_IMAGE_SLACK, &copy) || !base_size_align(copy, RT_ALIGNMENT, &copy))
            return false;
        shape->groups_at = shape->scratch_each;
        if (!shape->groups_together) shape->image_bytes = copy;
        else if (!base_size_add(shape->scratch_each, copy, &shape->scratch_each)) return false;
    }
    return base_size_multiply((size_t)threads, shape->scratch_each, &members) &&
           base_size_add(shape->image_bytes, members, bytes);
}

/* How many columns and rows a block of the product has. */
static void choose_blocks(integer_convolution *shape, const op_call *call, int threads) {
    const rt_integer_image *image = &shape->image;
    /* Bands of rows are there where memory is short. */
    const bool band = op_attribute_find(&call->attributes, "ouro.packed_extents") != NULL;
    shape->columns_each =
        shape->arranged ? rt_filters_columns(shape->quads, !rt_image_is_direct(image))
                        : rt_integer_columns(image->filters, image->channels * image->kernel_size, band);
    /* Blocks of as many columns as tiles are good for, where they are. */
    const int64_t wide = shape->columns_each < RT_FILTER_TILES_COLUMNS ? shape->columns_each
                                                                       : RT_FILTER_TILES_COLUMNS,
                  columns = image->positions < wide ? image->positions : wide;
    shape->tiles = shape->arranged &&
                   rt_filter_tiles_fit(image->filters, columns, shape->quads, quads_apart(image)) &&
                   rt_byte_tiles_wanted();
    if (shape->tiles) shape->columns_each = wide;
    /* Smaller blocks where there would be too few for the threads. */
    const int64_t parts = image->group * ((image->positions + shape->columns_each - 1) / shape->columns_each);
    const int64_t wanted = parts >= threads ? 1 : (threads + parts - 1) / parts;
    shape->rows_each = (image->filters + wanted - 1) / wanted;
    shape->rows_each += -shape->rows_each & (RT_FILTERS_STRIP - 1);
    if (shape->rows_each > image->filters) shape->rows_each = image->filters;
    if (shape->rows_each > RT_INTEGER_ROWS) shape->rows_each = RT_INTEGER_ROWS;
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
    const op_shape *x = &call->inputs[0].type.shape, *w = &call->inputs[filters_input(call)].type.shape;
    op_window window;
    base_status status = op_window_read(call, w->dims + 2, &window, report);
    if (status != BASE_OK) return status;
    *shape = (integer_convolution){.image = {.window = window,
                                             .dtype = call->inputs[0].type.dtype,
                                             .group = op_attribute_integer(&call->attributes, "group", 1),
                                             .channels = w->dims[1],
                                             .input_size = 1,
                                             .output_size = 1,
                                             .kernel_size = 1},
                                   .batch = x->dims[0],
                                   .w_dtype = call->inputs[filters_input(call)].type.dtype,
                                   .y_dtype = call->outputs[0].type.dtype,
                                   .quantized = quantized,
                                   .bias = quantized && op_input_present(call, 8),
                                   .zero_each = has_each(call, quantized ? 5 : 3),
                                   .scale_each = quantized && has_each(call, 4)};
    shape->image.filters = w->dims[0] / shape->image.group;
    for (int32_t i = 0; i < window.rank; i++) {
        if (window.input[i] == 0) shape->image.channels = 0; /* nothing but padding is to be seen */
    }
    for (int32_t i = 0; i < window.rank; i++) {
        shape->image.output_size *= window.output[i];
        if (shape->image.channels == 0) { /* the window does not matter, whatever its extent */
            shape->image.window.kernel[i] = 1;
            continue;
        }
        shape->image.input_size *= window.input[i];
        shape->image.kernel_size *= window.kernel[i];
    }
    if (describe_stencil(shape)) {
        if (!prepare_stencil(shape, arena) ||
            !base_size_multiply((size_t)environment->threads, shape->scratch_each, &prepared->scratch_bytes))
            return base_fail(report, BASE_INVALID, "the tensors are too large");
        prepared->state = shape;
        prepared->run = run;
        return BASE_OK;
    }
    rt_integer_image *image = &shape->image;
    if (call->inputs[filters_input(call)].type.layout == OP_LAYOUT_PACKED &&
        image->channels * image->kernel_size > 0) {
        const rt_filters_shape filters = {image->channels, image->kernel_size};
        shape->arranged = true;
        shape->quads = rt_filters_quads(filters);
        image->by_channels = rt_filters_by_channels(filters);
    }
    rt_image_choose_form(image);
    choose_blocks(shape, call, environment->threads);
    if (!size_scratch(shape, environment->threads, &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "the tensors are too large");
    if (!rt_image_tabulate(image, arena)) return base_fail_memory(report);
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_convolution_integer = {.name = "portable.convolution_integer",
                                                 .accepts = accepts,
                                                 .prefer = prefer,
                                                 .pack = pack,
                                                 .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* regions.c: images read at given regions: RoiAlign, MaxRoiPool.
 *
 * The mean of the samples of a bin is a sum of rows and columns of the image, each with a weight of its own: of floats rows are added up first,
 * then columns of what these make, for several channels at a time. The largest is found likewise: it is one of the pixels times the weights of its
 * row and its column, none of which is below zero, so that a column's largest times its weight is the largest of the products.
 */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/turn.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static double at(const op_tensor *tensor, int64_t i) {
    return rt_element_load(tensor->type.dtype, tensor->data, i);
}

/* ---- RoiAlign ------------------------------------------------------------------------------------------ */

/* Of a bin along an axis: more than any image has, and such that i + 1 is another number than i. */
enum {
    MOST_RATIO = 1024,
    FEW_SAMPLES =
        16384, /* of the bins along an axis, that are looked at one by one even where all lie outside of the image */
    MOST_TAPS = 2048, /* of all bins along an axis */
    MOST_BINS = 256,  /* along an axis */
    BINS = 32,        /* that are made together: columns */
    SPAN = 256,       /* columns of the image that these see, at most */
    CHANNELS = 16     /* whose bins are made together */
};
static const double MOST_SAMPLES = 0x1p40;

typedef struct region_state {
    double scale;
    int64_t sampling;
    bool maximum, half_pixel;
} region_state;

/* The four pixels around a point, and how much of each; nothing outside of the image. */
static double blend(const op_tensor *image, int64_t plane, int64_t height, int64_t width, double y, double x,
                    bool maximum) {
    if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width)) return 0; /* NaN, too */
    if (y < 0) y = 0;
    if (x < 0) x = 0;
    int64_t top = rt_index(y, 0, height), left = rt_index(x, 0, width), bottom = top + 1, right = left + 1;
    if (top >= height - 1) {
        top = bottom = height - 1;
        y = (double)top;
    }
    if (left >= width - 1) {
        left = right = width - 1;
        x = (double)left;
    }
    const double down = y - (double)top, across = x - (double)left;
    const double parts[4] = {(1 - down) * (1 - across) * at(image, plane + top * width + left),
                             (1 - down) * across * at(image, plane + top * width + right),
                             down * (1 - across) * at(image, plane + bottom * width + left),
                             down * across * at(image, plane + bottom * width + right)};
    if (!maximum) return parts[0] + parts[1] + parts[2] + parts[3];
    double largest = parts[0];
    for (int i = 1; i < 4; i++) largest = parts[i] > largest ? parts[i] : largest;
    return largest;
}

/* Sample points along one axis of a bin: point i lies at begin + (i + 0.5) * length / count. */
typedef struct samples {
    double begin, length, count;
} samples;

/* Which points may lie in the image: from *first up to, not including, *end. All others are outside for certain, however many
 * a region far larger than the image has. */
static void samples_inside(const samples *points, int64_t extent, double *first, double *end) {
    const double step = points->length / points->count;
    *first = 0;
    *end = points->count;
    if (!(step > 0)) return;
    const double from = floor((-1 - points->begin) / step) - 1,
                 to = ceil(((double)extent - points->begin) / step) + 1;
    if (from > *first) *first = from < *end ? from : *end;
    if (to < *end) *end = to > *first ? to : *first;
}

/* What a bin is: the mean or the largest of its samples, of which those outside of the image are 0; 0 without samples. */
static double align_bin(const region_state *state, const op_tensor *image, int64_t plane, int64_t height,
                        int64_t width, const samples *rows, const samples *columns) {
    double first_row, end_row, first_column, end_column, total = state->maximum ? (double)-INFINITY : 0;
    if (rows->count == 0 || columns->count == 0) return 0;
    samples_inside(rows, height, &first_row, &end_row);
    samples_inside(columns, width, &first_column, &end_column);
    for (double i = first_row; i < end_row; i++) {
        for (double k = first_column; k < end_column; k++) {
            const double value =
                blend(image, plane, height, width, rows->begin + (i + 0.5) * rows->length / rows->count,
                      columns->begin + (k + 0.5) * columns->length / columns->count, state->maximum);
            if (state->maximum) total = value > total ? value : total;
            else total += value;
        }
    }
    const bool outside =
        first_row > 0 || end_row < rows->count || first_column > 0 || end_column < columns->count;
    if (!state->maximum) return total / (rows->count * columns->count);
    return outside && !(total > 0) ? 0 : total;
}

/* A region: its first corner, the extents of its bins, and how many samples these have along each axis. */
typedef struct region {
    double y, x, bin_high, bin_wide, rows, columns;
} region;

static region read_region(const region_state *state, const op_tensor *corners, int64_t r,
                          const int64_t *out) {
    const double shift = state->half_pixel ? 0.5 : 0;
    region of = {.x = at(corners, 4 * r) * state->scale - shift,
                 .y = at(corners, 4 * r + 1) * state->scale - shift};
    double wide = at(corners, 4 * r + 2) * state->scale - shift - of.x,
           high = at(corners, 4 * r + 3) * state->scale - shift - of.y;
    if (!state->half_pixel) {
        if (wide < 1) wide = 1;
        if (high < 1) high = 1;
    }
    of.bin_high = high / (double)out[2];
    of.bin_wide = wide / (double)out[3];
    of.rows = state->sampling > 0 ? (double)state->sampling : ceil(of.bin_high);
    of.columns = state->sampling > 0 ? (double)state->sampling : ceil(of.bin_wide);
    /* A region without extent has no samples. */
    if (!(of.rows >= 1)) of.rows = 0;
    if (!(of.columns >= 1)) of.columns = 0;
    return of;
}

typedef struct align_context {
    const region_state *state;
    const op_tensor *inputs;
    op_tensor *out;
} align_context;

/* What a bin sees of one axis. */
typedef struct bin_taps {
    int32_t first, count; /* of the taps */
    int64_t from, to; /* the pixels lie between these: to is one more than the last; both 0: there are none */
    bool outside;     /* some samples lie outside of the image, or there are none */
} bin_taps;

typedef struct axis_taps {
    int32_t count;
    int32_t at[MOST_TAPS];
    float weights[MOST_TAPS];
    bin_taps bins[MOST_BINS];
} axis_taps;

/* Samples that lie near each other see the same pixels: their weights are added where they are to be `joined`. */
static bool add_tap(axis_taps *axis, bin_taps *bin, double *weights, int64_t pixel, double weight,
                    bool joined) {
    for (int32_t i = 1; i <= 2 && i <= bin->count && joined; i++) {
        const int32_t tap = bin->first + bin->count - i;
        if (axis->at[tap] != (int32_t)pixel) continue;
        weights[tap] += weight;
        return true;
    }
    if (axis->count == MOST_TAPS) return false;
    axis->at[axis->count] = (int32_t)pixel;
    weights[axis->count++] = weight;
    bin->count++;
    if (bin->to == 0 || pixel < bin->from) bin->from = pixel;
    if (pixel >= bin->to) bin->to = pixel + 1;
    return true;
}

/* The taps of `count` bins of an axis, whose samples are those of `blend`, for the mean or the `maximum`. False: there are too many. */
static bool set_axis(axis_taps *axis, double begin, double length, double samples_, int64_t count,
                     int64_t extent, bool maximum) {
    double weights[MOST_TAPS];
    if (count > MOST_BINS || samples_ * (double)count > FEW_SAMPLES) return false;
    axis->count = 0;
    for (int64_t b = 0; b < count; b++) {
        bin_taps *bin = &axis->bins[b];
        *bin = (bin_taps){.first = axis->count, .outside = !(samples_ > 0)};
        for (double i = 0; i < samples_; i++) {
            double place = begin + (double)b * length + (i + 0.5) * length / samples_;
            if (!(place >= -1 && place <= (double)extent)) { /* NaN, too */
                bin->outside = true;
                continue;
            }
            if (place < 0) place = 0;
            int64_t pixel = (int64_t)place, after = pixel + 1;
            if (pixel >= extent - 1) {
                pixel = after = extent - 1;
                place = (double)pixel;
            }
            const double part = place - (double)pixel;
            if (!add_tap(axis, bin, weights, pixel, 1 - part, !maximum) ||
                !add_tap(axis, bin, weights, after, part, !maximum))
                return false;
        }
    }
    for (int32_t i = 0; i < axis->count; i++)
        axis->weights[i] = (float)(maximum ? weights[i] : weights[i] / samples_);
    return true;
}

/* `rows`: y[channel][column] = what the rows of the channel's image come to that a bin sees. `columns`: y[bin][channel] = what the columns
 * come to that the bin sees, of x[column][channel]; the first column is number `from`; `outside`: some rows lie outside. */
#define JOIN_TAPS(rows, columns_, none, none_outside, TAKE)                                                  \
    RT_CLONES static void rows(const axis_taps *axis, const bin_taps *bin, const float *pixels,              \
                               int64_t width, int64_t size, int64_t channels, int64_t columns, float *y) {   \
        for (int64_t c = 0; c < channels; c++, pixels += size, y += SPAN) {                                  \
            int64_t x = 0;                                                                                   \
            for (; x + CHANNELS <= columns; x += CHANNELS) {                                                 \
                float joined[CHANNELS];                                                                      \
                for (int i = 0; i < CHANNELS; i++) joined[i] = (none);                                       \
                for (int32_t t = bin->first; t < bin->first + bin->count; t++) {                             \
                    const float *from = pixels + axis->at[t] * width + x;                                    \
                    for (int i = 0; i < CHANNELS; i++) TAKE(joined[i], axis->weights[t] * from[i]);          \
                }                                                                                            \
                memcpy(y + x, joined, sizeof joined);                                                        \
            }                                                                                                \
            for (; x < columns; x++) {                                                                       \
                float joined = (none);                                                                       \
                for (int32_t t = bin->first; t < bin->first + bin->count; t++)                               \
                    TAKE(joined, axis->weights[t] * pixels[axis->at[t] * width + x]);                        \
                y[x] = joined;                                                                               \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    RT_CLONES static void columns_(const axis_taps *axis, const bin_taps *bins, bool outside, int64_t count, \
                                   int64_t from, const float *x, float *y) {                                 \
        for (int64_t b = 0; b < count; b++, y += CHANNELS) {                                                 \
            const float first = outside || bins[b].outside ? (none_outside) : (none);                        \
            float joined[CHANNELS];                                                                          \
            for (int i = 0; i < CHANNELS; i++) joined[i] = first;                                            \
            for (int32_t t = bins[b].first; t < bins[b].first + bins[b].count; t++) {                        \
                const float *column = x + (axis->at[t] - from) * CHANNELS;                                   \
                for (int i = 0; i < CHANNELS; i++) TAKE(joined[i], axis->weights[t] * column[i]);            \
            }                                                                                                \
            memcpy(y, joined, sizeof joined);                                                                \
        }                                                                                                    \
    }
#define TAKE_SUM(sum, value) (sum) += (value)
/* A NaN is passed over, as it is where samples are taken one by one. */
#define TAKE_LARGEST(largest, value) (largest) = (value) > (largest) ? (value) : (largest)
JOIN_TAPS(add_rows, add_columns, 0, 0, TAKE_SUM)
JOIN_TAPS(largest_of_rows, largest_of_columns, -INFINITY, 0, TAKE_LARGEST)

/* Bins from `bin` on that see no more than SPAN columns together: how many, at least one; 0: one of them sees more. The columns are
 * *columns of them from *from on, more than are seen where that makes whole vectors of an image that has them. */
static int64_t join_bins(const axis_taps *axis, int64_t bin, int64_t count, int64_t width, int64_t *from,
                         int64_t *columns) {
    int64_t first = 0, end = 0, joined = 0;
    for (; joined < BINS && bin + joined < count; joined++) {
        const bin_taps *next = &axis->bins[bin + joined];
        int64_t low = first, high = end;
        if (next->to > 0) {
            low = end == 0 || next->from < first ? next->from : first;
            high = next->to > end ? next->to : end;
        }
        if (high - low > SPAN) break;
        first = low;
        end = high;
    }
    const int64_t whole = (end - first + CHANNELS - 1) / CHANNELS * CHANNELS;
    *columns = whole < width ? whole : width;
    *from = first < width - *columns ? first : width - *columns;
    return joined;
}

/* The bins of one region of floats. False: there are too many samples for that. */
static bool align_floats(const align_context *context, int64_t r, const region *of) {
    const int64_t *image = context->inputs[0].type.shape.dims, *out = context->out->type.shape.dims,
                  *batches = context->inputs[2].data;
    const int64_t size = image[2] * image[3], bins = out[2] * out[3];
    const float *pixels = (const float *)context->inputs[0].data + batches[r] * image[1] * size;
    float *values = (float *)context->out->data + r * out[1] * bins;
    axis_taps down, along;
    float rows[CHANNELS * SPAN], turned[SPAN * CHANNELS], made[BINS * CHANNELS];
    int64_t joined, from, columns;
    const bool maximum = context->state->maximum;
    if (image[2] > INT32_MAX || image[3] > INT32_MAX ||
        !set_axis(&down, of->y, of->bin_high, of->rows, out[2], image[2], maximum) ||
        !set_axis(&along, of->x, of->bin_wide, of->columns, out[3], image[3], maximum))
        return false;
    for (int64_t bin = 0; bin < out[3]; bin += joined) {
        joined = join_bins(&along, bin, out[3], image[3], &from, &columns);
        if (!joined) return false;
    }
    for (int64_t channel = 0; channel < out[1]; channel += CHANNELS) {
        const int64_t channels = out[1] - channel < CHANNELS ? out[1] - channel : CHANNELS;
        if (channels < CHANNELS) memset(turned, 0, sizeof turned);
        for (int64_t bin = 0; bin < out[3]; bin += joined) {
            joined = join_bins(&along, bin, out[3], image[3], &from, &columns);
            for (int64_t row = 0; row < out[2]; row++) {
                (maximum ? largest_of_rows : add_rows)(&down, &down.bins[row], pixels + channel * size + from,
                                                       image[3], size, channels, columns, rows);
                rt_turn_words((const uint32_t *)(const void *)rows, SPAN, channels, columns,
                              (uint32_t *)(void *)turned, CHANNELS);
                (maximum ? largest_of_columns : add_columns)(&along, &along.bins[bin], down.bins[row].outside,
                                                             joined, from, turned, made);
                rt_turn_words((const uint32_t *)(const void *)made, CHANNELS, joined, channels,
                              (uint32_t *)(void *)(values + channel * bins + row * out[3] + bin), bins);
            }
        }
    }
    return true;
}

static void align_regions(void *user, int64_t begin, int64_t end) {
    const align_context *context = user;
    const region_state *state = context->state;
    const op_tensor *inputs = context->inputs;
    const int64_t *image = inputs[0].type.shape.dims, *out = context->out->type.shape.dims,
                  *batches = inputs[2].data, height = image[2], width = image[3], bins = out[2] * out[3];
    for (int64_t r = begin; r < end; r++) {
        const region of = read_region(state, &inputs[1], r, out);
        if (inputs[0].type.dtype == OP_FLOAT && align_floats(context, r, &of)) continue;
        for (int64_t task = 0; task < out[1] * bins; task++) {
            const int64_t p = task % bins, plane = (batches[r] * image[1] + task / bins) * height * width;
            const samples down = {of.y + (double)(p / out[3]) * of.bin_high, of.bin_high, of.rows},
                          along = {of.x + (double)(p % out[3]) * of.bin_wide, of.bin_wide, of.columns};
            rt_element_store(context->out->type.dtype, context->out->data, r * out[1] * bins + task,
                             align_bin(state, &inputs[0], plane, height, width, &down, &along));
        }
    }
}

static base_status run_align(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    const region_state *state = prepared->state;
    const int64_t *image = inputs[0].type.shape.dims, *out = outputs[0].type.shape.dims;
    const int64_t *batches = inputs[2].data;
    for (int64_t r = 0; r < out[0]; r++) {
        if (batches[r] < 0 || batches[r] >= image[0])
            return base_fail(report, BASE_INVALID,
                             "region %" PRId64 " is of image %" PRId64 ", there are %" PRId64, r, batches[r],
                             image[0]);
    }
    if (image[2] == 0 || image[3] == 0 || outputs[0].bytes == 0) {
        if (outputs[0].bytes) memset(outputs[0].data, 0, outputs[0].bytes);
        return BASE_OK;
    }
    for (int64_t r = 0; r < out[0]; r++) {
        const region of = read_region(state, &inputs[1], r, out);
        if (of.rows > MOST_SAMPLES || of.columns > MOST_SAMPLES)
            return base_fail(report, BASE_INVALID, "region %" PRId64 " is too large", r);
    }
    align_context context = {state, inputs, &outputs[0]};
    rt_parallel(prepared->threads, out[0], 16 * out[1] * out[2] * out[3], align_regions, &context);
    return BASE_OK;
}

static base_status prepare_align(const op_call *call, const rt_environment *environment, base_arena *arena,
                                 rt_prepared *prepared, base_report *report) {
    (void)environment;
    region_state *state = BASE_NEW(arena, region_state);
    if (!state) return base_fail_memory(report);
    state->scale = (double)op_attribute_real(&call->attributes, "spatial_scale", 1);
    state->sampling = op_attribute_integer(&call->attributes, "sampling_ratio", 0);
    if (state->sampling > MOST_RATIO)
        return base_fail(report, BASE_INVALID,
                         "attribute \"sampling_ratio\" is %" PRId64 ", expected at most %d", state->sampling,
                         MOST_RATIO);
    state->maximum = op_attribute_is(&call->attributes, "mode", "max", "avg");
    state->half_pixel =
        op_attribute_is(&call->attributes, "coordinate_transformation_mode", "half_pixel", "half_pixel");
    prepared->state = state;
    prepared->run = run_align;
    return BASE_OK;
}

/* ---- MaxRoiPool ---------------------------------------------------------------------------------------- */

/* Bounds of bin `index` of `bins` over [begin, begin + length) within an axis. */
static void bin_bounds(int64_t index, int64_t bins, double begin, double length, int64_t extent,
                       int64_t *from, int64_t *to) {
    double first = begin + floor((double)index * length / (double)bins),
           last = begin + ceil((double)(index + 1) * length / (double)bins);
    *from = rt_index(first, 0, extent);
    *to = rt_index(last, 0, extent);
}

typedef struct roi_pool_job {
    const region_state *state;
    const op_tensor *image, *regions;
    op_tensor *out;
} roi_pool_job;

/* The pixels of an image that a bin covers. */
typedef struct bin {
    int64_t top, bottom, left, right;
} bin;

static float largest_float(const float *map, int64_t width, const bin *of) {
    float largest = of->top < of->bottom && of->left < of->right ? -INFINITY : 0;
    for (int64_t y = of->top; y < of->bottom; y++) {
        const float *line = map + y * width;
        for (int64_t x = of->left; x < of->right; x++) largest = line[x] > largest ? line[x] : largest;
    }
    return largest;
}

static double largest_of(const op_tensor *image, int64_t map, int64_t width, const bin *of) {
    double largest = of->top < of->bottom && of->left < of->right ? -INFINITY : 0;
    for (int64_t y = of->top; y < of->bottom; y++) {
        for (int64_t x = of->left; x < of->right; x++) {
            const double value = at(image, map + y * width + x);
            largest = value > largest ? value : largest;
        }
    }
    return largest;
}

/* One bin of one region, in all channels. */
static void pool_bin(const roi_pool_job *job, int64_t image, int64_t to, const bin *of) {
    const int64_t *dims = job->image->type.shape.dims, *out = job->out->type.shape.dims;
    const op_dtype dtype = job->image->type.dtype;
    for (int64_t c = 0; c < out[1]; c++) {
        const int64_t map = (image * dims[1] + c) * dims[2] * dims[3], place = to + c * out[2] * out[3];
        if (dtype == OP_FLOAT)
            ((float *)job->out->data)[place] =
                largest_float((const float *)job->image->data + map, dims[3], of);
        else rt_element_store(dtype, job->out->data, place, largest_of(job->image, map, dims[3], of));
    }
}

static void pool_regions(void *context, int64_t begin, int64_t end) {
    const roi_pool_job *job = context;
    const int64_t *dims = job->image->type.shape.dims, *out = job->out->type.shape.dims;
    const double scale = job->state->scale;
    for (int64_t r = begin; r < end; r++) {
        const double x1 = round(at(job->regions, 5 * r + 1) * scale),
                     y1 = round(at(job->regions, 5 * r + 2) * scale);
        double wide = round(at(job->regions, 5 * r + 3) * scale) - x1 + 1,
               high = round(at(job->regions, 5 * r + 4) * scale) - y1 + 1;
        if (!(wide >= 1)) wide = 1;
        if (!(high >= 1)) high = 1;
        const int64_t image = rt_index(at(job->regions, 5 * r), 0, dims[0] - 1);
        for (int64_t row = 0; row < out[2]; row++) {
            for (int64_t column = 0; column < out[3]; column++) {
                bin of;
                bin_bounds(row, out[2], y1, high, dims[2], &of.top, &of.bottom);
                bin_bounds(column, out[3], x1, wide, dims[3], &of.left, &of.right);
                pool_bin(job, image, r * out[1] * out[2] * out[3] + row * out[3] + column, &of);
            }
        }
    }
}

static base_status run_roi_pool(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                void *scratch, base_report *report) {
    (void)scratch;
    const int64_t *image = inputs[0].type.shape.dims, *out = outputs[0].type.shape.dims;
    for (int64_t r = 0; r < out[0]; r++) {
        const double batch = at(&inputs[1], 5 * r);
        if (!(batch >= 0 && batch < (double)image[0]))
            return base_fail(report, BASE_INVALID, "region %" PRId64 " is of image %g, there are %" PRId64, r,
                             batch, image[0]);
    }
    roi_pool_job job = {prepared->state, &inputs[0], &inputs[1], &outputs[0]};
    rt_parallel(prepared->threads, out[0], out[1] * image[2] * image[3], pool_regions, &job);
    return BASE_OK;
}

static base_status prepare_roi_pool(const op_call *call, const rt_environment *environment, base_arena *arena,
                                    rt_prepared *prepared, base_report *report) {
    base_status status = prepare_align(call, environment, arena, prepared, report);
    prepared->run = run_roi_pool;
    return status;
}

const rt_kernel rt_kernel_roi_align = {
    .name = "portable.roi_align", .accepts = rt_accepts_pixels, .prepare = prepare_align};
const rt_kernel rt_kernel_max_roi_pool = {
    .name = "portable.max_roi_pool", .accepts = rt_accepts_pixels, .prepare = prepare_roi_pool};

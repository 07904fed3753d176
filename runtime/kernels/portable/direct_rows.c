/* SPDX-License-Identifier: Apache-2.0 */
/* direct_rows.c: see direct_rows.h.
 *
 * The windows of neighbouring points see elements a stride apart. So that these follow one another, the signal is turned round first: a row of
 * the copy holds the elements 0, s, 2s, ..., the next one 1, s + 1, 2s + 1, ... for a stride of s. That is a matrix of s columns that is turned,
 * and takes as long as to make one or two filters.
 *
 * Sums begin with the bias and are made in the order of the weights, each product and its sum rounded once: the same bits as those of tiles
 * whose lanes are filters. Zeros at the ends add nothing to a sum, which never is a negative zero.
 */
#include "runtime/kernels/portable/direct_rows.h"
#include "runtime/kernels/portable/row_tiles.h"
#include "runtime/kernels/portable/turn.h"
#include <math.h>

enum {
    LANES = RT_DIRECT_LANES,
    LINE = RT_DIRECT_DIMENSIONS - 1, /* the dimension of a signal */
    FILTERS = RT_ROW_TILE_FILTERS,
    TILE = RT_ROW_TILE_POINTS,
    LEAST_POINTS = 128,    /* fewer are turned as fast */
    MOST_ELEMENTS = 64,    /* with more there is little to turn beside what is multiplied */
    NEAR_TILES = 10,       /* whose results an activation finds in the nearest cache */
    NEAR_FLOATS = 1 << 16, /* of the signals that are read for all filters, in the second cache */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

bool rt_direct_makes_rows(const rt_direct *s) {
    return s->to == OP_LAYOUT_ROW_MAJOR && s->window.output[LINE] >= LEAST_POINTS &&
           s->tiles.taps <= MOST_ELEMENTS;
}

/* Elements of the signal from the first that a window sees to its last. */
static int64_t reach(const rt_direct *s) {
    return (s->window.kernel[LINE] - 1) * s->window.dilation[LINE] + 1;
}

/* Rows of the copy for each channel: those that a window sees. */
static int64_t rows_of(const rt_direct *s) {
    return least(s->window.stride[LINE], reach(s));
}

static bool is_copied(const rt_direct *s) {
    return s->window.stride[LINE] > 1 || s->window.before[LINE] > 0 ||
           rt_direct_inside_end(s, LINE) < s->window.output[LINE];
}

bool rt_direct_rows_copy(const rt_direct *s, int64_t *length, size_t *bytes) {
    *bytes = 0;
    *length = s->window.input[LINE];
    if (!is_copied(s)) return true;
    size_t all = sizeof(float);
    *length = s->window.output[LINE] + (reach(s) - 1) / s->window.stride[LINE];
    if (!base_size_multiply(all, (size_t)*length, &all) ||
        !base_size_multiply(all, (size_t)rows_of(s), &all) ||
        !base_size_multiply(all, (size_t)(s->images * s->channels), &all))
        return false;
    return base_size_align(all, RT_ALIGNMENT, bytes); /* for what follows */
}

void rt_direct_rows_places(const rt_direct *s, int64_t *places) {
    int64_t length;
    size_t bytes;
    const int64_t elements = s->window.kernel[LINE], stride = s->window.stride[LINE];
    if (!rt_direct_rows_copy(s, &length, &bytes)) return;
    for (int64_t t = 0; t < s->tiles.taps; t++) {
        const int64_t channel = t / elements, at = t % elements * s->window.dilation[LINE];
        places[t] =
            bytes ? (channel * rows_of(s) + at % stride) * length + at / stride : channel * length + at;
    }
}

/* ---- the copy ------------------------------------------------------------------------------------------ */

/* Columns `first` to before `end` of the rows that hold one channel. Element e of the signal x stands in row (e + before) % stride, column
 * (e + before) / stride. */
static void copy_channel(const rt_direct *s, const float *x, int64_t first, int64_t end, int64_t length,
                         float *copy) {
    const int64_t stride = s->window.stride[LINE], before = s->window.before[LINE],
                  width = s->window.input[LINE], rows = rows_of(s);
    /* Columns from `whole` to before `part` lie within the signal with all rows. */
    const int64_t from = (before + stride - 1) / stride, fits = width + before - rows,
                  to = fits < 0 ? 0 : fits / stride + 1;
    const int64_t whole = least(from > first ? from : first, end), part = least(to > whole ? to : whole, end);
    if (part > whole)
        rt_turn_words((const uint32_t *)(const void *)(x + (whole * stride - before)), stride, part - whole,
                      rows, (uint32_t *)(void *)(copy + whole), length);
    for (int64_t column = first; column < end; column++) {
        if (column == whole) column = part;
        for (int64_t row = 0; row < rows && column < end; row++) {
            const int64_t at = column * stride + row - before;
            copy[row * length + column] = at >= 0 && at < width ? x[at] : 0;
        }
    }
}

/* ---- threads ------------------------------------------------------------------------------------------- */

typedef struct rows_job {
    const rt_direct_job *job;
    const int64_t *places;
    const float *from; /* the signals, or their copy */
    float *copy;       /* NULL: none is made */
    int64_t row_length, image_step;
} rows_job;

/* 8 filters of an image at `count` points from `first` on. */
static void make_points(const rows_job *of, int64_t image, int64_t group, int64_t first, int64_t count) {
    const rt_direct *s = of->job->shape;
    const int64_t filter = group * FILTERS, points = s->window.output[LINE],
                  each = s->finished ? count : NEAR_TILES * TILE;
    rt_row_strip part = {.x = of->from + image * of->image_step + first,
                         .places = of->places,
                         .weights =
                             of->job->weights + filter / LANES * s->tiles.panel_floats + filter % LANES,
                         .bias = of->job->bias ? of->job->bias + filter : NULL,
                         .y = of->job->y + image * s->y_image_step + filter * points + first,
                         .y_row = points,
                         .filters = least(s->filters - filter, FILTERS),
                         .elements = s->tiles.taps,
                         .limited = s->tiles.gated || s->tiles.low > -INFINITY || s->tiles.high < INFINITY,
                         .gated = s->tiles.gated,
                         .low = s->tiles.low,
                         .high = s->tiles.high};
    for (int64_t done = 0; done < count; done += each) {
        part.points = least(each, count - done);
        rt_row_strip_make(&part);
        for (int64_t f = 0; f < part.filters && !s->finished; f++)
            rt_activation_fused(&s->activation, part.y + f * points, part.points);
        part.x += part.points;
        part.y += part.points;
    }
}

/* Each member turns its part of the columns of all channels; then it makes its part of all pieces: some points of 8 filters. Pieces of the
 * same points follow one another, so that these stay in the second cache. */
static void run_member(void *context, int member, int members) {
    const rows_job *of = context;
    const rt_direct *s = of->job->shape;
    const int64_t width = s->window.input[LINE], points = s->window.output[LINE],
                  rows = s->images * s->channels, columns = rows * of->row_length;
    if (of->copy) {
        for (int64_t i = columns * member / members, end = columns * (member + 1) / members; i < end;) {
            const int64_t row = i / of->row_length, first = i % of->row_length,
                          last = least(of->row_length, first + end - i);
            copy_channel(s, of->job->x + row * width, first, last, of->row_length,
                         of->copy + row * rows_of(s) * of->row_length);
            i += last - first;
        }
        rt_team_wait();
    }
    const int64_t groups = (s->filters + FILTERS - 1) / FILTERS,
                  near = NEAR_FLOATS / (s->channels * rows_of(s)) / TILE * TILE,
                  each = near < NEAR_TILES * TILE ? NEAR_TILES * TILE : near,
                  parts = (points + each - 1) / each, all = s->images * parts * groups;
    for (int64_t i = all * member / members; i < all * (member + 1) / members; i++) {
        const int64_t first = i / groups % parts * each;
        make_points(of, i / groups / parts, i % groups, first, least(each, points - first));
    }
}

void rt_direct_run_rows(const rt_direct_job *job, const int64_t *places, float *copy, int threads) {
    const rt_direct *s = job->shape;
    size_t bytes;
    rows_job of = {.job = job, .places = places};
    if (!rt_direct_rows_copy(s, &of.row_length, &bytes)) return;
    of.copy = bytes ? copy : NULL;
    of.from = bytes ? copy : job->x;
    of.image_step = s->channels * of.row_length * (bytes ? rows_of(s) : 1);
    const double work =
        (double)s->images * (double)s->window.output[LINE] * (double)s->filters * (double)s->tiles.taps;
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : threads, run_member, &of);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* split_bands.c: convolutions and products in tiles of bfloat16 parts; see split_bands.h. A band of rows of the result at a time:
 *
 *     the rows of the image that it sees are split into parts, once, with zeros around the image, in scratch
 *     for 32 filters after 32 others: the weights of the next are split meanwhile; for 32 channels after 32 others, for each element of the window:
 *     32 points times 32 filters
 *
 * Points of a band are those of all its rows in turn, as wide as the split rows are: then each element of the window sees all of them a fixed
 * distance away, and a tile may reach from one row into the next. What lies between the rows of the result is computed and left out. Windows that move
 * by more than one see an image of their own for each remainder (phase), whose elements lie side by side.
 *
 * Where there are many steps, some of them at a time pass over all points; sums wait in scratch meanwhile. Threads make bands of their own, or share
 * the filters of one band after another.
 *
 * Weights are floats in the order of tiles, as many as before. Results depend neither on the number of bands nor on that of threads: sums are added in
 * the order of the steps.
 */
#include "runtime/kernels/portable/split_bands.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/lanes.h"
#include <string.h>

enum {
    LANES = RT_SPLIT_COLUMNS,
    PAIR = RT_SPLIT_PAIR,
    STEPS_TOGETHER = 16, /* their weights take 96 KiB */
    FEW_STEPS = 24,      /* pass over the points at once */
    LINE = 64,           /* bytes of a cache */
    MOST_TAPS = 1 << 10,
    MOST_EXTENT = 1 << 24,
    MOST_BLOCKS = 4096
};

typedef struct split_job {
    const rt_split_shape *shape;
    const float *x, *weights, *bias, *residual;
    char *scratch;
    float *y;
} split_job;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t up(int64_t value, int64_t by) {
    return (value + by - 1) / by;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* Points from the first that a band computes to the last, with those between its rows. */
static int64_t band_points(const rt_split_shape *s, int64_t rows) {
    return rows * s->width - (s->width - s->output[1]);
}

/* Of a band: pairs of tiles; and rows of a tile, so that few are too many. */
static int64_t pairs_of(int64_t points) {
    return up(points, PAIR);
}

static int64_t tile_rows(int64_t points) {
    return up(points, points <= RT_SPLIT_ROWS ? 1 : 2 * pairs_of(points));
}

size_t rt_split_packed_bytes(const rt_split_shape *s) {
    return (size_t)(s->steps * up(s->filters, LANES)) * RT_SPLIT_TILE_FLOATS * sizeof(float);
}

/* Tiles of columns that a group of filters has: one or two. */
static int64_t columns_of(const rt_split_shape *s, int64_t group) {
    return least(up(s->filters - group * PAIR, LANES), 2);
}

/* That pass over all points at once, at most. */
static int64_t steps_together(const rt_split_shape *s) {
    return s->parted ? STEPS_TOGETHER : s->steps;
}

/* Of their weights, once they are split. */
static int64_t b_bytes(const rt_split_shape *s) {
    return steps_together(s) * 2 * RT_SPLIT_TILE_BYTES;
}

/* That a thread holds: those that it multiplies, and those that it splits meanwhile, unless they are all. */
static int64_t b_count(const rt_split_shape *s) {
    return s->groups > 1 || s->parted ? 2 : 1;
}

/* Those, and sums. */
static int64_t own_bytes(const rt_split_shape *s) {
    const int64_t pairs = s->parted ? pairs_of(band_points(s, s->band_rows)) : 1;
    return b_count(s) * b_bytes(s) + pairs * PAIR * PAIR * (int64_t)sizeof(float);
}

static size_t scratch_bytes(const rt_split_shape *s) {
    return (size_t)(s->threads * s->a_bytes + s->threads * own_bytes(s));
}

/* Images may have no points, or there may be none, where only a run knows. */
static bool has_points(const rt_split_shape *s) {
    return s->images > 0 && s->output[0] > 0 && s->output[1] > 0;
}

/* Cuts each image into so many bands. */
static void set_blocks(rt_split_shape *s, int64_t blocks) {
    s->band_rows = s->output[0] > 0 ? up(s->output[0], blocks) : 1;
    s->bands = s->images * up(s->output[0], s->band_rows);
    s->apart = s->threads > 1 && s->bands >= s->threads;
    /* Tiles read up to a pair of points beyond the last. */
    s->plane = ((s->band_rows + s->more_rows) * s->width + PAIR) * RT_SPLIT_BYTES;
    s->a_bytes = s->phase_count * s->chunks * s->plane;
    s->parted = s->steps > FEW_STEPS;
}

static int64_t phase_index(const rt_split_shape *s, int64_t row, int64_t column) {
    const int64_t phase = row % s->stride[0] * s->stride[1] + column % s->stride[1];
    for (int64_t i = 0; i < s->phase_count; i++)
        if (s->phases[i] == phase) return i;
    return -1;
}

static void find_phases(rt_split_shape *s) {
    for (int64_t i = 0; i < s->taps; i++) {
        const int64_t row = i / s->kernel[1] * s->dilation[0], column = i % s->kernel[1] * s->dilation[1];
        if (phase_index(s, row, column) < 0)
            s->phases[s->phase_count++] = (int)(row % s->stride[0] * s->stride[1] + column % s->stride[1]);
    }
}

static bool fits(const rt_split_shape *s) {
    size_t points, bytes, all;
    return base_size_multiply((size_t)(s->output[0] + s->more_rows + PAIR), (size_t)(s->width + PAIR),
                              &points) &&
           base_size_multiply(points, (size_t)(s->phase_count + 1) * RT_SPLIT_BYTES, &bytes) &&
           base_size_multiply(bytes, (size_t)(s->chunks + s->groups), &all) &&
           base_size_multiply(all, (size_t)s->threads, &all) && all < SIZE_MAX / 4;
}

/* A window slides along this dimension. */
static bool slides(const rt_split_shape *s, int i) {
    return s->input[i] != 1 || s->output[i] != 1 || s->kernel[i] != 1 || s->before[i] != 0;
}

static void exchange(int64_t *height) {
    const int64_t width = height[1];
    height[1] = height[0];
    height[0] = width;
}

/* An image one point high is the same bytes as one that is one point wide, which is cut into bands of any size. */
static void raise(rt_split_shape *s) {
    int64_t *each[] = {s->input, s->output, s->kernel, s->stride, s->dilation, s->before};
    const bool lies = !slides(s, 0);
    for (size_t i = 0; lies && i < sizeof each / sizeof *each; i++) exchange(each[i]);
    s->upright = !slides(s, 1);
}

bool rt_split_complete(rt_split_shape *s, const op_call *call, const rt_environment *environment) {
    const int64_t blocks = op_attribute_integer(&call->attributes, "ouro.blocks", 0);
    if (blocks < 0 || blocks > MOST_BLOCKS) return false;
    s->threads = environment->threads > 0 ? environment->threads : 1;
    raise(s);
    if (s->upright) s->stride[1] = 1;
    s->flat = true;
    for (int i = 0; i < 2; i++) {
        if (s->stride[i] > RT_SPLIT_MOST_PHASES || s->input[i] > MOST_EXTENT || s->output[i] > MOST_EXTENT ||
            s->kernel[i] > MOST_TAPS || s->dilation[i] > MOST_EXTENT)
            return false;
        s->flat &= s->kernel[i] == 1 && s->stride[i] == 1 && s->before[i] == 0 && s->input[i] == s->output[i];
    }
    s->taps = s->kernel[0] * s->kernel[1];
    if (s->taps > MOST_TAPS || s->stride[0] * s->stride[1] > RT_SPLIT_MOST_PHASES) return false;
    s->chunks = up(s->channels, RT_SPLIT_DEPTH);
    s->groups = up(s->filters, PAIR);
    s->steps = s->taps * s->chunks;
    s->phase_count = 0;
    find_phases(s);
    s->more_rows = (s->kernel[0] - 1) * s->dilation[0] / s->stride[0];
    s->width = s->output[1] + (s->kernel[1] - 1) * s->dilation[1] / s->stride[1];
    s->limits = rt_activation_limits(&s->activation, &s->low, &s->high);
    if (!fits(s)) return false;
    s->open = !blocks;
    set_blocks(s, blocks ? blocks : 1);
    return true;
}

/* ---- what it costs ------------------------------------------------------------------------------------- */

static rt_split_work work_of(const rt_split_shape *s) {
    const int64_t points = band_points(s, s->band_rows), rows = tile_rows(points);
    const double tiles = (double)up(points, rows), bands = (double)s->bands,
                 columns = (double)up(s->filters, LANES),
                 rounds = s->apart ? (double)up(s->bands, s->threads) * s->threads / bands : 1;
    /* A thread keeps the parts of weights that it holds all at once. */
    const bool kept = b_count(s) == 1;
    return (rt_split_work){.products = bands * rounds * (double)s->steps * RT_SPLIT_DEPTH * tiles *
                                       (double)rows * columns * LANES,
                           .split_bytes = bands * rounds * (s->apart ? 1 : s->threads) * (double)s->a_bytes,
                           .read_bytes = bands * rounds * (double)s->groups * (double)s->a_bytes,
                           .band_bytes = (double)s->a_bytes,
                           .weight_bytes = (double)rt_split_packed_bytes(s),
                           .left_bytes = bands * (double)points * columns * LANES * sizeof(float),
                           .splits = !kept      ? bands * rounds
                                     : s->apart ? s->threads
                                                : 1,
                           .matrix = s->matrix,
                           .across = s->matrix && s->threads > 1 && !s->apart};
}

bool rt_split_estimate(rt_split_shape *s, const rt_environment *environment, size_t scratch_limit,
                       rt_cost *cost) {
    const int64_t most = least(s->output[0], MOST_BLOCKS);
    cost->blocks = 0;
    if (!has_points(s)) return false;
    for (int64_t blocks = 1; blocks <= most; blocks++) {
        const int64_t before = s->band_rows;
        set_blocks(s, blocks);
        if (blocks > 1 && s->band_rows == before) continue;
        if (scratch_bytes(s) > scratch_limit) continue;
        const rt_split_work work = work_of(s);
        const double seconds = rt_split_seconds(&work, environment);
        if (cost->blocks && seconds >= cost->seconds) continue;
        cost->seconds = seconds;
        cost->blocks = blocks;
        cost->scratch_bytes = scratch_bytes(s);
    }
    return cost->blocks != 0;
}

/* ---- weights ------------------------------------------------------------------------------------------- */

void rt_split_pack(const rt_split_shape *s, const rt_split_weights *weights, float *packed) {
    for (int64_t filter = 0; filter < s->filters; filter++) {
        const int64_t group = filter / PAIR, columns = columns_of(s, group);
        float *of_filter =
            packed + (group * s->steps * 2 + filter % PAIR / LANES) * RT_SPLIT_TILE_FLOATS + filter % LANES;
        for (int64_t channel = 0; channel < s->channels; channel++) {
            const int64_t k = channel % RT_SPLIT_DEPTH, step = channel / RT_SPLIT_DEPTH * s->taps;
            const float *from = weights->data + filter * weights->filter + channel * weights->channel;
            float *to =
                of_filter + step * columns * RT_SPLIT_TILE_FLOATS + (k % LANES * 2 + k / LANES) * LANES;
            for (int64_t tap = 0; tap < s->taps; tap++, to += columns * RT_SPLIT_TILE_FLOATS)
                *to = weights->scale * from[tap];
        }
    }
}

/* ---- splitting ----------------------------------------------------------------------------------------- */

/* Where 16 channels of a pixel begin. */
static int64_t x_offset(const rt_split_shape *s, int64_t block, int64_t pixel) {
    const int64_t area = s->input[0] * s->input[1];
    return s->layout == OP_LAYOUT_NHWC ? pixel * s->channels + block * LANES : (block * area + pixel) * LANES;
}

/* So many pixels of one chunk, each `along` after the one before. */
static void split_run(const rt_split_shape *s, const float *image, int64_t chunk, int64_t pixel,
                      int64_t along, int64_t count, char *to) {
    const bool innermost = s->layout == OP_LAYOUT_NHWC;
    const int64_t rest = s->channels - chunk * RT_SPLIT_DEPTH;
    const bool both = rest > LANES;
    const rt_split_row rows = {.low = image + x_offset(s, 2 * chunk, pixel),
                               .high = image + x_offset(s, 2 * chunk + (both ? 1 : 0), pixel),
                               .step = along * (innermost ? s->channels : LANES),
                               .low_count = innermost ? least(rest, LANES) : LANES,
                               .high_count = !both       ? 0
                                             : innermost ? least(rest - LANES, LANES)
                                                         : LANES,
                               .count = count,
                               .to = to};
    rt_split_rows(&rows);
}

/* So many points of a line of the image, whose pixels are `length` after pixel `start`: the first of them is pixel `first` of these, the others
 * come each `along` later. Zeros, what the image has, zeros. */
typedef struct image_line {
    int64_t start, length, first, along, count;
} image_line;

static void split_line(const rt_split_shape *s, const float *image, int64_t chunk, const image_line *line,
                       char *to) {
    const int64_t first = line->first, along = line->along;
    const int64_t begin = first < 0 ? least(up(-first, along), line->count) : 0,
                  end = first >= line->length ? 0 : least(up(line->length - first, along), line->count);
    if (end <= begin) {
        memset(to, 0, (size_t)(line->count * RT_SPLIT_BYTES));
        return;
    }
    memset(to, 0, (size_t)(begin * RT_SPLIT_BYTES));
    split_run(s, image, chunk, line->start + first + begin * along, along, end - begin,
              to + begin * RT_SPLIT_BYTES);
    memset(to + end * RT_SPLIT_BYTES, 0, (size_t)((line->count - end) * RT_SPLIT_BYTES));
}

/* Row `row` of one chunk of one phase. */
static void split_row(const rt_split_shape *s, const float *image, int64_t chunk, int phase, int64_t row,
                      char *to) {
    const int64_t x_row = row * s->stride[0] + phase / s->stride[1] - s->before[0];
    const image_line line = {.start = x_row * s->input[1],
                             .length = x_row < 0 || x_row >= s->input[0] ? 0 : s->input[1],
                             .first = phase % s->stride[1] - s->before[1],
                             .along = s->stride[1],
                             .count = s->width};
    split_line(s, image, chunk, &line, to);
}

/* Rows [first, first + count) of one chunk of one phase, side by side. */
static void split_rows(const rt_split_shape *s, const float *image, int64_t chunk, int phase, int64_t first,
                       int64_t count, char *to) {
    if (s->upright) { /* they are one line */
        const image_line line = {.length = s->input[0],
                                 .first = first * s->stride[0] + phase - s->before[0],
                                 .along = s->stride[0],
                                 .count = count};
        split_line(s, image, chunk, &line, to);
        return;
    }
    for (int64_t row = 0; row < count; row++)
        split_row(s, image, chunk, phase, first + row, to + row * s->width * RT_SPLIT_BYTES);
}

/* A band of one image. */
typedef struct result_band {
    int64_t image, first, rows;
    int64_t points;
} result_band;

static result_band find_band(const rt_split_shape *s, int64_t number) {
    const int64_t each = up(s->output[0], s->band_rows), first = number % each * s->band_rows,
                  rows = least(s->band_rows, s->output[0] - first);
    return (result_band){number / each, first, rows, band_points(s, rows)};
}

/* What a band sees. What tiles read beyond is zeros. */
static void split_band(const split_job *job, const result_band *band, char *a) {
    const rt_split_shape *s = job->shape;
    const int64_t pixels = s->input[0] * s->input[1],
                  channels = s->layout == OP_LAYOUT_NHWC ? s->channels : up(s->channels, LANES) * LANES;
    const float *image = job->x + band->image * pixels * channels;
    const int64_t rows = band->rows + s->more_rows;
    for (int64_t plane = 0; plane < s->phase_count * s->chunks; plane++) {
        const int64_t chunk = plane % s->chunks;
        char *to = a + plane * s->plane;
        if (s->flat) split_run(s, image, chunk, band->first * s->width, 1, rows * s->width, to);
        else split_rows(s, image, chunk, s->phases[plane / s->chunks], band->first, rows, to);
        memset(to + rows * s->width * RT_SPLIT_BYTES, 0, PAIR * RT_SPLIT_BYTES);
    }
}

/* ---- products ------------------------------------------------------------------------------------------ */

/* Where 16 filters of a point of the result begin. */
static int64_t y_offset(const rt_split_shape *s, const result_band *band, int64_t block, int64_t point) {
    const int64_t area = s->output[0] * s->output[1];
    if (s->layout == OP_LAYOUT_NHWC) return (band->image * area + point) * s->filters + block * LANES;
    return ((band->image * up(s->filters, LANES) + block) * area + point) * LANES;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define WITH_AVX512 __attribute__((target("avx512f")))

/* 16 filters of `count` points, whose sums are `c`, PAIR numbers after each other: the first is point `point` of the image. Adds what is added; then, if
 * `last`, the result is there. */
WITH_AVX512 static void add_and_leave(const split_job *job, const result_band *band, float *c, int64_t block,
                                      int64_t point, int64_t count, bool added, bool last) {
    const rt_split_shape *s = job->shape;
    const bool innermost = s->layout == OP_LAYOUT_NHWC;
    const __mmask16 there = rt_first_lanes_16(s->filters - block * LANES),
                    stored = innermost ? there : 0xFFFF;
    const int64_t at = y_offset(s, band, block, point), step = innermost ? s->filters : LANES;
    const bool biased = s->bias && !added;
    const __m512 bias =
        biased ? _mm512_maskz_loadu_ps(there, job->bias + block * LANES) : _mm512_setzero_ps();
    const float *residual = s->residual && !added ? job->residual + at : NULL;
    float *y = job->y + at;
    for (int64_t i = 0; i < count; i++) {
        __m512 sum = _mm512_loadu_ps(c + i * PAIR);
        if (biased) sum = sum + bias;
        if (residual) sum = sum + _mm512_maskz_loadu_ps(stored, residual + i * step);
        if (!last) {
            _mm512_storeu_ps(c + i * PAIR, sum);
            continue;
        }
        if (s->limits) RT_LIMIT_16(sum, s->low, s->high);
        /* What pads a block is zeros. */
        _mm512_mask_storeu_ps(y + i * step, stored, _mm512_maskz_mov_ps(there, sum));
    }
}

/* `columns` times 16 filters, one or two. */
static void finish(const split_job *job, const result_band *band, float *c, int64_t block, int64_t columns,
                   int64_t point, int64_t count) {
    const rt_split_shape *s = job->shape;
    for (int64_t k = 0; k < columns; k++)
        add_and_leave(job, band, c + k * LANES, block + k, point, count, false, s->limits);
    if (s->limits) return;
    if (columns > 1) rt_activation_fused(&s->activation, c, count * PAIR);
    else
        for (int64_t i = 0; i < count; i++) rt_activation_fused(&s->activation, c + i * PAIR, LANES);
    for (int64_t k = 0; k < columns; k++)
        add_and_leave(job, band, c + k * LANES, block + k, point, count, true, true);
}
#else
static void finish(const split_job *job, const result_band *band, float *c, int64_t block, int64_t columns,
                   int64_t point, int64_t count) {
    (void)job, (void)band, (void)c, (void)block, (void)columns, (void)point, (void)count;
}
#endif

/* The points [first, first + count) of a band, of which those between rows are left out. */
static void finish_points(const split_job *job, const result_band *band, float *c, int64_t group,
                          int64_t first, int64_t count) {
    const rt_split_shape *s = job->shape;
    const int64_t end = least(first + count, band->points), columns = columns_of(s, group);
    if (s->width == s->output[1]) { /* nothing lies between rows */
        finish(job, band, c, 2 * group, columns, band->first * s->width + first, end - first);
        return;
    }
    for (int64_t point = first; point < end;) {
        const int64_t row = point / s->width, column = point % s->width, rest = s->output[1] - column,
                      some = least(rest, end - point);
        if (some > 0)
            finish(job, band, c + (point - first) * PAIR, 2 * group, columns,
                   (band->first + row) * s->output[1] + column, some);
        point += some > 0 && some < rest ? some : s->width - column;
    }
}

/* What the next band sees of the image, which is asked for while this one is multiplied: a block of channels after another, so many lines of a cache
 * at a time. */
typedef struct ahead {
    const char *from; /* of the first block */
    int64_t step;     /* bytes from there to the next */
    int64_t lines;    /* of a block */
    int64_t block, blocks, line;
    int64_t each; /* at a time */
} ahead;

static ahead find_ahead(const split_job *job, int64_t number, int64_t calls) {
    const rt_split_shape *s = job->shape;
    const result_band band = find_band(s, number);
    const bool innermost = s->layout == OP_LAYOUT_NHWC;
    const int64_t first = band.first * s->stride[0] - s->before[0],
                  begin = first < 0 ? 0 : least(first, s->input[0]),
                  seen = (band.rows + s->more_rows) * s->stride[0], end = least(first + seen, s->input[0]);
    const int64_t pixel = innermost ? s->channels : LANES, area = s->input[0] * s->input[1],
                  bytes = end > begin ? (end - begin) * s->input[1] * pixel * (int64_t)sizeof(float) : 0;
    ahead made = {.step = area * pixel * (int64_t)sizeof(float),
                  .lines = up(bytes, LINE),
                  .blocks = innermost ? 1 : up(s->channels, LANES)};
    made.from = (const char *)job->x +
                (band.image * made.blocks * area + begin * s->input[1]) * pixel * (int64_t)sizeof(float);
    made.each = up(made.lines * made.blocks, calls);
    return made;
}

static void ask_for(ahead *next) {
    for (int64_t i = 0; i < next->each && next->block < next->blocks && next->lines > 0; i++) {
        __builtin_prefetch(next->from + next->block * next->step + next->line * LINE, 0, 2);
        if (++next->line < next->lines) continue;
        next->line = 0;
        next->block++;
    }
}

/* What one thread works with. */
typedef struct own_memory {
    char *b[2]; /* parts of weights: those that are multiplied, and those that are split meanwhile, in turn */
    float *c;   /* sums */
    const float *ready; /* the weights whose parts the first holds; NULL: none */
} own_memory;

static own_memory own_of(const split_job *job, int member) {
    const rt_split_shape *s = job->shape;
    char *own = job->scratch + s->threads * s->a_bytes + member * own_bytes(s);
    const int64_t count = b_count(s), bytes = b_bytes(s);
    return (own_memory){.b = {own, own + (count - 1) * bytes}, .c = (float *)(void *)(own + count * bytes)};
}

/* Some steps of 32 filters. */
typedef struct portion {
    const float *weights;
    int64_t steps, columns; /* the latter in tiles */
} portion;

static portion find_portion(const split_job *job, int64_t group, int64_t step) {
    const rt_split_shape *s = job->shape;
    const int64_t columns = columns_of(s, group);
    return (portion){job->weights + (group * s->steps * 2 + step * columns) * RT_SPLIT_TILE_FLOATS,
                     least(steps_together(s), s->steps - step), columns};
}

/* Has the first memory hold the parts of this portion. */
static void make_ready(own_memory *own, const portion *now) {
    if (own->ready == now->weights) return;
    rt_split_source source = rt_split_source_of(now->weights, now->steps, now->columns, own->b[0]);
    rt_split_columns(&source);
    own->ready = now->weights;
}

/* What is left of the portion that was split meanwhile, which comes next. */
static void turn_over(own_memory *own, const portion *next, rt_split_source *source) {
    char *const multiplied = own->b[0];
    rt_split_columns(source);
    own->b[0] = own->b[1];
    own->b[1] = multiplied;
    own->ready = next->weights;
}

/* All points of 32 filters, of pairs [first, end) of tiles. `after`: the filters that come next; -1: none do. */
static void run_group(const split_job *job, const result_band *band, const char *a, own_memory *own,
                      int64_t group, int64_t after, int64_t first, int64_t end, ahead *next) {
    const rt_split_shape *s = job->shape;
    const int64_t rows = tile_rows(band->points);
    for (int64_t step = 0, then; step < s->steps; step = then) {
        const portion now = find_portion(job, group, step);
        then = step + now.steps;
        const portion coming = then < s->steps ? find_portion(job, group, then)
                               : after >= 0    ? find_portion(job, after, 0)
                                               : now;
        const bool another = coming.weights != now.weights;
        make_ready(own, &now);
        rt_split_source source = {0};
        if (another) source = rt_split_source_of(coming.weights, coming.steps, coming.columns, own->b[1]);
        source.each = up(source.rows, RT_SPLIT_PRODUCTS * now.steps * (end - first));
        rt_split_tiles tiles = {.steps = s->places + step,
                                .count = now.steps,
                                .rows = rows,
                                .tall = band->points > RT_SPLIT_ROWS,
                                .wide = now.columns > 1,
                                .b = own->b[0],
                                .source = &source,
                                .add = step > 0};
        for (int64_t pair = first; pair < end; pair++) {
            tiles.a = a + pair * 2 * rows * RT_SPLIT_BYTES;
            tiles.c = own->c + (s->parted ? (pair - first) * PAIR * PAIR : 0);
            rt_split_multiply(&tiles);
            ask_for(next);
            if (then == s->steps) finish_points(job, band, tiles.c, group, pair * 2 * rows, 2 * rows);
        }
        if (another) turn_over(own, &coming, &source);
    }
}

static void bands_member(void *context, int member, int members) {
    const split_job *job = context;
    const rt_split_shape *s = job->shape;
    char *a = job->scratch + member * s->a_bytes;
    own_memory own = own_of(job, member);
    const int64_t end = s->bands * (member + 1) / members;
    for (int64_t i = s->bands * member / members; i < end; i++) {
        const result_band band = find_band(s, i);
        split_band(job, &band, a);
        const int64_t pairs = pairs_of(band.points);
        ahead next = {0};
        if (i + 1 < end) next = find_ahead(job, i + 1, s->groups * pairs);
        rt_split_begin(tile_rows(band.points));
        for (int64_t group = 0; group < s->groups; group++)
            run_group(job, &band, a, &own, group,
                      group + 1 < s->groups ? group + 1
                      : i + 1 < end         ? 0
                                            : -1,
                      0, pairs, &next);
    }
    rt_split_end();
}

/* Filters are shared out, and the points of them where filters alone cannot be dealt out evenly. Each thread splits the image for itself, in less
 * time than parts take from one core to another. */
static void filters_member(void *context, int member, int members) {
    enum { MANY = 4 };
    const split_job *job = context;
    const rt_split_shape *s = job->shape;
    char *a = job->scratch + member * s->a_bytes;
    own_memory own = own_of(job, member);
    for (int64_t i = 0; i < s->bands; i++) {
        const result_band band = find_band(s, i);
        const int64_t pairs = pairs_of(band.points),
                      parts =
                          s->groups % members == 0 || s->groups >= MANY * members ? 1 : least(members, pairs),
                      items = s->groups * parts, begin = items * member / members,
                      end = items * (member + 1) / members;
        ahead next = {0};
        if (i + 1 < s->bands) next = find_ahead(job, i + 1, up(items, members) * up(pairs, parts));
        split_band(job, &band, a);
        rt_split_begin(tile_rows(band.points));
        for (int64_t item = begin; item < end; item++) {
            const int64_t part = item % parts;
            run_group(job, &band, a, &own, item / parts, item + 1 < end ? (item + 1) / parts : -1,
                      pairs * part / parts, pairs * (part + 1) / parts, &next);
        }
    }
    rt_split_end();
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const rt_split_shape *shape = prepared->state;
    split_job job = {.shape = shape,
                     .x = inputs[0].data,
                     .weights = inputs[1].data,
                     .bias = shape->bias ? inputs[2].data : NULL,
                     .residual = shape->residual ? inputs[3].data : NULL,
                     .scratch = scratch,
                     .y = outputs[0].data};
    if (has_points(shape)) rt_team_run(prepared->threads, shape->apart ? bands_member : filters_member, &job);
    return BASE_OK;
}

/* ---- preparing ----------------------------------------------------------------------------------------- */

static void fill_places(const rt_split_shape *s, int64_t *places) {
    for (int64_t chunk = 0; chunk < s->chunks; chunk++) {
        for (int64_t tap = 0; tap < s->taps; tap++, places++) {
            const int64_t row = tap / s->kernel[1] * s->dilation[0],
                          column = tap % s->kernel[1] * s->dilation[1];
            const int64_t plane = phase_index(s, row, column) * s->chunks + chunk;
            *places =
                plane * s->plane + (row / s->stride[0] * s->width + column / s->stride[1]) * RT_SPLIT_BYTES;
        }
    }
}

/* What an image and its result take, and the weights. */
static size_t touched_bytes(const rt_split_shape *s) {
    return (size_t)(s->input[0] * s->input[1] * up(s->channels, LANES) +
                    s->output[0] * s->output[1] * up(s->filters, LANES)) *
               LANES * sizeof(float) +
           rt_split_packed_bytes(s);
}

/* Chooses into how many bands images are cut; as many as can be, where all take more than they may. */
static void settle(rt_split_shape *s, const rt_environment *environment) {
    rt_cost cost;
    /* What threads hold whatever the bands are. */
    const size_t own = (size_t)(s->threads * own_bytes(s));
    const bool fitting = rt_split_estimate(s, environment, own + 2 * touched_bytes(s), &cost);
    set_blocks(s, fitting ? cost.blocks : least(s->output[0], MOST_BLOCKS));
}

base_status rt_split_prepare(rt_split_shape *s, const rt_environment *environment, base_arena *arena,
                             rt_prepared *prepared, base_report *report) {
    if (s->open && has_points(s)) settle(s, environment);
    int64_t *places = BASE_ARRAY(arena, int64_t, (size_t)s->steps);
    if (!places) return base_fail_memory(report);
    fill_places(s, places);
    s->places = places;
    prepared->state = s;
    prepared->run = run;
    prepared->scratch_bytes = scratch_bytes(s);
    return BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* window_run.c: implements window_run.h. First the largest number of each image is found, by all threads. Then
 * a band of rows of the result at a time:
 *
 *     the rows of the image that it sees become digits, once, with zeros around the image, in scratch
 *     for 16 filters after 16 others, for some steps after some others: all points of the band, 16 at a time
 *
 * A step multiplies 64 bytes of a digit: 64 channels of an element of the window, or, of fewer channels, 32 or 16 of two or four elements that lie side by
 * side in a row of the image.
 *
 * Points of a band are those of all its rows in turn, as wide as the rows of digits are: then each element of the window sees all of them a fixed
 * distance away, and a tile may reach from one row into the next. What lies between the rows of the result is computed and left out. Windows that move
 * down by more than one see an image of their own for each remainder of the row (phase).
 *
 * The weights of some steps stay in the nearest cache while all points of the band pass over them; sums wait in scratch meanwhile. Threads make bands of
 * their own, or share the filters of one band after another.
 *
 * Where digits lack something (fixed_tiles.h), sums are left in the result as they are, with bias and residual. Products of what is not finite are
 * added there, and then what the digits of coarse points leave, in parts, is multiplied in the same way.
 *
 * Results depend neither on the number of bands nor on that of threads: images have one scale, and sums are added in the order of the steps.
 */
#include "runtime/kernels/portable/window_run.h"
#include "runtime/kernels/portable/byte_tiles.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/window_digits.h"
#include <math.h>

enum { LANES = RT_FIXED_COLUMNS, DIGITS = RT_FIXED_DIGITS, TILES_TOGETHER = 8 };

typedef struct window_job {
    const rt_window_shape *shape;
    const float *x, *bias, *residual;
    const char *weights;
    char *scratch;
    float *y;
} window_job;

/* ---- digits of images ---------------------------------------------------------------------------------- */

static float *largest_of(const window_job *job, int64_t image) {
    return (float *)(void *)job->scratch + image * job->shape->threads;
}

/* The part of each thread of all images. */
static void find_largest(const window_job *job, int member, int members) {
    const int64_t numbers = rt_window_image_numbers(job->shape), blocks = rt_window_up(numbers, LANES),
                  begin = blocks * member / members * LANES,
                  end = rt_window_least(blocks * (member + 1) / members * LANES, numbers);
    for (int64_t image = 0; image < job->shape->images; image++)
        largest_of(job, image)[member] = rt_window_largest(job->x + image * numbers + begin, end - begin);
}

static rt_window_scale scale_of(const window_job *job, int64_t image, int members) {
    float largest = 0;
    for (int i = 0; i < members; i++) largest = fmaxf(largest, largest_of(job, image)[i]);
    return rt_window_scale_of(largest);
}

/* A band of one image. */
typedef struct result_band {
    int64_t image, first, rows;
    int64_t points;
    rt_window_scale scale;
} result_band;

static result_band find_band(const window_job *job, int64_t number, int members) {
    const rt_window_shape *s = job->shape;
    const int64_t each = rt_window_up(rt_window_band_extent(s), s->band_rows),
                  first = number % each * s->band_rows,
                  rows = rt_window_least(s->band_rows, rt_window_band_extent(s) - first),
                  image = number / each;
    return (result_band){image, first, rows, rt_window_band_points(s, rows), scale_of(job, image, members)};
}

/* Row `row` of the image, from pixel `first` on, each `along` after the one before, of one chunk of those of all groups. Says what the digits lack. */
static int split_row(const window_job *job, const result_band *band, int64_t chunk, int64_t row,
                     int64_t first, int64_t count, int part, char *to) {
    const rt_window_shape *s = job->shape;
    const bool innermost = s->layout == OP_LAYOUT_NHWC;
    const int64_t pixel = innermost ? rt_window_all_channels(s) : LANES, area = s->input[0] * s->input[1],
                  from = row * s->input[1] + first, begin = chunk % s->chunks * s->each,
                  channel = chunk / s->chunks * s->channels + begin;
    rt_window_line line = {.pixel = s->along * pixel,
                           .plane = innermost ? LANES : area * LANES,
                           .channels = rt_window_least(s->channels - begin, s->each),
                           .count = count,
                           .each = s->each,
                           .scale = band->scale,
                           .part = part,
                           .to = to,
                           .digit = s->plane};
    if (row >= 0 && row < s->input[0]) {
        line.begin = first < 0 ? rt_window_least(rt_window_up(-first, s->along), count) : 0;
        line.end =
            first >= s->input[1] ? 0 : rt_window_least(rt_window_up(s->input[1] - first, s->along), count);
    }
    if (line.begin < line.end)
        line.from = job->x + band->image * rt_window_image_numbers(s) +
                    (innermost ? channel : channel * area) + (from + line.begin * s->along) * pixel;
    return rt_window_split(&line);
}

/* What a band sees, of part `part` of coarse points. */
static int split_band(const window_job *job, const result_band *band, int part, char *a) {
    const rt_window_shape *s = job->shape;
    const int64_t rows = (s->lying ? 1 : band->rows) + s->more_rows,
                  digits = s->lying ? rt_window_row_pixels(s, band->rows) : rt_window_row_digits(s),
                  first = (s->lying ? band->first * s->stride[1] : 0) - s->before[1],
                  above = (s->lying ? 0 : band->first * s->stride[0]) - s->before[0];
    const int64_t chunks = s->groups * s->chunks;
    int lack = 0;
    for (int64_t i = 0; i < s->phase_count * chunks; i++) {
        char *to = a + i * DIGITS * s->plane;
        for (int64_t row = 0; row < rows; row++, to += digits * s->each)
            lack |= split_row(job, band, i % chunks, above + row * s->stride[0] + s->phases[i / chunks],
                              first, digits, part, to);
    }
    return lack;
}

/* ---- results ------------------------------------------------------------------------------------------- */

/* What becomes of sums: they are multiplied by the scale of the digits of the image, and by those of the filters. */
typedef struct pass {
    float scale;
    const float *bias, *residual; /* which lies as the result does; or NULL */
    bool last;                    /* the activation comes after it */
} pass;

#if defined(RT_HAS_BYTE_TILES)
#define WITH_AVX512 __attribute__((target("avx512f")))

/* Where 16 filters of a point of the result begin. */
static int64_t y_offset(const rt_window_shape *s, int64_t image, int64_t block, int64_t point) {
    const int64_t area = s->output[0] * s->output[1];
    if (s->layout == OP_LAYOUT_NHWC) return (image * area + point) * s->filters + block * LANES;
    return ((image * rt_window_columns_of(s) + block) * area + point) * LANES;
}

/* 16 filters of some points: the first is point `point` of the image. */
typedef struct some_points {
    float *sums; /* LANES a point */
    int64_t image, block, point, count;
} some_points;

/* Adds all that is added to the sums. */
WITH_AVX512 static void add_to_sums(const window_job *job, const some_points *of, const pass *now) {
    const rt_window_shape *s = job->shape;
    const bool innermost = s->layout == OP_LAYOUT_NHWC;
    const __mmask16 there = rt_first_lanes_16(s->filters - of->block * LANES);
    const int64_t at = y_offset(s, of->image, of->block, of->point), step = innermost ? s->filters : LANES;
    const float *scales = (const float *)(const void *)job->weights + of->block * LANES;
    const __m512 scale = _mm512_loadu_ps(scales) * _mm512_set1_ps(now->scale),
                 bias = now->bias ? _mm512_maskz_loadu_ps(there, now->bias + of->block * LANES)
                                  : _mm512_setzero_ps();
    const float *residual = now->residual ? now->residual + at : NULL;
    for (int64_t i = 0; i < of->count; i++) {
        __m512 sum = _mm512_load_ps(of->sums + i * LANES) * scale;
        if (now->bias) sum = sum + bias;
        if (residual) sum = sum + _mm512_maskz_loadu_ps(there, residual + i * step);
        _mm512_store_ps(of->sums + i * LANES, sum);
    }
}

WITH_AVX512 static void leave(const window_job *job, const some_points *of, bool limits) {
    const rt_window_shape *s = job->shape;
    const bool innermost = s->layout == OP_LAYOUT_NHWC;
    const __mmask16 there = rt_first_lanes_16(s->filters - of->block * LANES),
                    stored = innermost ? there : 0xFFFF;
    const int64_t step = innermost ? s->filters : LANES;
    float *y = job->y + y_offset(s, of->image, of->block, of->point);
    for (int64_t i = 0; i < of->count; i++) {
        __m512 sum = _mm512_load_ps(of->sums + i * LANES);
        if (limits) RT_LIMIT_16(sum, s->low, s->high);
        /* What pads a block is zeros. */
        _mm512_mask_storeu_ps(y + i * step, stored, _mm512_maskz_mov_ps(there, sum));
    }
}

static void finish(const window_job *job, const some_points *of, const pass *now) {
    const rt_window_shape *s = job->shape;
    add_to_sums(job, of, now);
    if (now->last && !s->limits) rt_activation_fused(&s->activation, of->sums, of->count * LANES);
    leave(job, of, now->last && s->limits);
}

/* The points [first, first + count) of a band, of which those between rows are left out. */
static void finish_points(const window_job *job, const result_band *band, float *sums, int64_t block,
                          int64_t first, int64_t count, const pass *now) {
    const rt_window_shape *s = job->shape;
    const int64_t end = rt_window_least(first + count, band->points), base = s->lying ? band->first : 0;
    for (int64_t point = first; point < end;) {
        const int64_t row = s->lying ? 0 : point / s->width, column = point - row * s->width,
                      rest = (s->lying ? end : s->output[1]) - column,
                      some = rt_window_least(rest, end - point);
        const some_points of = {.sums = sums + (point - first) * LANES,
                                .image = band->image,
                                .block = block,
                                .point = base + (s->lying ? 0 : band->first + row) * s->output[1] + column,
                                .count = some};
        if (some > 0) finish(job, &of, now);
        point += some > 0 && some < rest ? some : s->lying ? rest : s->width - column;
    }
}

/* ---- products of what is not finite -------------------------------------------------------------------- */

/* Points of 16 filters that a thread has computed. */
typedef struct item {
    int64_t block;      /* the filters */
    int64_t first, end; /* tiles of points of the band */
} item;

/* 16 weights of an element of the window, times their scale: from their digits. */
WITH_AVX512 static __m512 weights_of(const window_job *job, int64_t block, int64_t at) {
    enum { QUAD = 4, BASE = 256 };
    const rt_window_shape *s = job->shape;
    const signed char *digits = (const signed char *)job->weights + rt_window_columns_of(s) * RT_WINDOW_LINE +
                                block * rt_window_tile_bytes(s) + at;
    float weights[LANES];
    for (int i = 0; i < LANES; i++, digits += QUAD)
        weights[i] = (float)((digits[0] * BASE + digits[RT_WINDOW_LINE]) * BASE + digits[2 * RT_WINDOW_LINE]);
    const float *scales = (const float *)(const void *)job->weights + block * LANES;
    return _mm512_loadu_ps(weights) * _mm512_loadu_ps(scales);
}

/* The point of the result whose window has the pixel as element (row, column); -1: none of the item. */
static int64_t point_seeing(const rt_window_shape *s, const result_band *band, const item *of,
                            const int64_t *pixel, int64_t row, int64_t column) {
    const int64_t tap[2] = {row, column};
    int64_t at[2];
    for (int i = 0; i < 2; i++) {
        const int64_t from = pixel[i] + s->before[i] - tap[i] * s->dilation[i];
        if (from < 0 || from % s->stride[i] != 0 || from / s->stride[i] >= s->output[i]) return -1;
        at[i] = from / s->stride[i];
    }
    const int64_t each = rt_window_tile_rows(band->points),
                  point = s->lying ? at[1] - band->first : (at[0] - band->first) * s->width + at[1];
    if (point < of->first * each || point >= of->end * each || point >= band->points) return -1;
    return at[0] * s->output[1] + at[1];
}

/* Adds the products of a number of a channel of its group. */
WITH_AVX512 static void add_products(const window_job *job, const result_band *band, const item *of,
                                     const int64_t *pixel, int64_t channel, float number) {
    const rt_window_shape *s = job->shape;
    const __mmask16 there = rt_first_lanes_16(s->filters - of->block * LANES);
    for (int64_t tap = 0; tap < s->kernel[0] * s->kernel[1]; tap++) {
        const int64_t row = tap / s->kernel[1], column = tap % s->kernel[1],
                      point = point_seeing(s, band, of, pixel, row, column);
        if (point < 0) continue;
        float *y = job->y + y_offset(s, band->image, of->block, point);
        const __m512 sums = _mm512_maskz_loadu_ps(there, y);
        if (_mm512_mask_cmp_ps_mask(there, sums, sums, _CMP_UNORD_Q) == there) continue; /* all are NaN */
        const __m512 weights = weights_of(job, of->block, rt_window_weight_at(s, channel, row, column));
        _mm512_mask_storeu_ps(y, there, sums + weights * _mm512_set1_ps(number));
    }
}

/* Adds those of all numbers that are not finite, in the part of the image that the band sees. */
static void add_infinite(const window_job *job, const result_band *band, const item *of) {
    const rt_window_shape *s = job->shape;
    const bool innermost = s->layout == OP_LAYOUT_NHWC;
    const int64_t area = s->input[0] * s->input[1];
    const float *x = job->x + band->image * rt_window_image_numbers(s);
    const int cut = s->lying ? 1 : 0; /* the dimension along which bands lie */
    const int64_t first = band->first * s->stride[cut] - s->before[cut],
                  last = first + (band->rows - 1) * s->stride[cut] + (s->kernel[cut] - 1) * s->dilation[cut];
    int64_t begin[2] = {0, 0}, end[2] = {s->input[0], s->input[1]};
    if (first > 0) begin[cut] = first;
    end[cut] = rt_window_least(last + 1, end[cut]);
    for (int64_t row = begin[0]; row < end[0]; row++) {
        for (int64_t column = begin[1]; column < end[1]; column++) {
            const int64_t pixel[2] = {row, column}, at = row * s->input[1] + column;
            for (int64_t i = 0; i < s->channels; i++) {
                const int64_t channel = rt_window_group_of(s, of->block) * s->channels + i;
                const float number = innermost ? x[at * rt_window_all_channels(s) + channel]
                                               : x[(channel / LANES * area + at) * LANES + channel % LANES];
                if (!isfinite(number)) add_products(job, band, of, pixel, i, number);
            }
        }
    }
}
#else
typedef struct item {
    int64_t block;
    int64_t first, end;
} item;

static void finish_points(const window_job *job, const result_band *band, float *sums, int64_t block,
                          int64_t first, int64_t count, const pass *now) {
    (void)job, (void)band, (void)sums, (void)block, (void)first, (void)count, (void)now;
}

static void add_infinite(const window_job *job, const result_band *band, const item *of) {
    (void)job, (void)band, (void)of;
}
#endif

/* ---- running ------------------------------------------------------------------------------------------- */

/* What one thread works with. */
typedef struct own_memory {
    char *a;       /* digits */
    int32_t *sums; /* of products of digits */
    float *c;      /* sums */
} own_memory;

static own_memory own_of(const window_job *job, int member) {
    const rt_window_shape *s = job->shape;
    char *own = job->scratch + rt_window_largest_bytes(s) + member * rt_window_own_bytes(s);
    return (own_memory){own, (int32_t *)(void *)(own + s->a_bytes),
                        (float *)(void *)(own + s->a_bytes + rt_window_sums_bytes())};
}

/* Some steps of 16 filters, of some tiles of points after some others. Asks for the weights that come next meanwhile. */
static void run_part(const window_job *job, const result_band *band, const own_memory *own, const item *of,
                     int64_t part, const pass *now) {
    const rt_window_shape *s = job->shape;
    const int64_t rows = rt_window_tile_rows(band->points), first = rt_window_first_step(s, part),
                  steps = rt_window_first_step(s, part + 1) - first, row = s->between * s->each;
    const char *weights = job->weights + rt_window_columns_of(s) * RT_WINDOW_LINE,
               *b = weights + of->block * rt_window_tile_bytes(s) + first * RT_WINDOW_STEP_BYTES,
               *next = b + steps * RT_WINDOW_STEP_BYTES,
               *end = weights + rt_window_columns_of(s) * rt_window_tile_bytes(s);
    const int64_t lines = rt_window_least(end - next, steps * RT_WINDOW_STEP_BYTES) / RT_WINDOW_LINE,
                  each = rt_window_up(lines, rt_window_up(of->end - of->first, TILES_TOGETHER));
    rt_fixed_tiles tiles = {
        .products = rt_window_products(s),
        .b = b,
        .places = {.row = row, .digit = s->plane, .tile = rows * row, .steps = s->places + first},
        .c_row = LANES,
        .c_tile = rows * LANES,
        .rows = rows,
        .steps = steps,
        .add = part > 0,
        .sums = own->sums};
    const char *a = own->a + rt_window_group_of(s, of->block) * s->chunks * DIGITS * s->plane;
    for (int64_t tile = of->first, asked = 0; tile < of->end; tile += tiles.count, asked += tiles.lines) {
        tiles.a = a + tile * tiles.places.tile;
        tiles.c = own->c + tile * tiles.c_tile;
        tiles.count = rt_window_least(of->end - tile, TILES_TOGETHER);
        tiles.next = next + asked * RT_WINDOW_LINE;
        tiles.lines = rt_window_least(each, lines - asked);
        rt_fixed_multiply(&tiles);
        if (part + 1 == rt_window_parts_of(s))
            finish_points(job, band, tiles.c, of->block, tile * rows, tiles.count * rows, now);
    }
}

/* What a thread computes of a band: items [begin, end), each 16 filters of one of `parts` parts of the points. */
typedef struct share {
    int64_t begin, end, parts;
} share;

static item item_of(const result_band *band, const share *of, int64_t number) {
    const int64_t tiles = rt_window_tiles_of(band->points), part = number % of->parts;
    return (item){number / of->parts, tiles * part / of->parts, tiles * (part + 1) / of->parts};
}

static void run_items(const window_job *job, const result_band *band, const own_memory *own, const share *of,
                      const pass *now) {
    for (int64_t i = of->begin; i < of->end; i++) {
        const item one = item_of(band, of, i);
        for (int64_t part = 0; part < rt_window_parts_of(job->shape); part++)
            run_part(job, band, own, &one, part, now);
    }
}

/* What digits lack is added to the result. */
static void add_lack(const window_job *job, const result_band *band, const own_memory *own, const share *of,
                     int lack) {
    for (int64_t i = of->begin; i < of->end && (lack & RT_FIXED_INFINITE); i++) {
        const item one = item_of(band, of, i);
        add_infinite(job, band, &one);
    }
    for (int part = 1; part <= rt_fixed_rests(DIGITS); part++) {
        const pass now = {.scale = band->scale.down * rt_window_part_scale(part),
                          .residual = job->y,
                          .last = part == rt_fixed_rests(DIGITS)};
        (void)split_band(job, band, part, own->a);
        run_items(job, band, own, of, &now);
    }
}

static void run_band(const window_job *job, const result_band *band, const own_memory *own, const share *of) {
    const int lack = split_band(job, band, 0, own->a);
    const pass now = {.scale = band->scale.down, .bias = job->bias, .residual = job->residual, .last = !lack};
    rt_fixed_begin(rt_window_tile_rows(band->points));
    run_items(job, band, own, of, &now);
    if (lack) add_lack(job, band, own, of, lack);
    rt_fixed_end();
}

/* Filters are shared out, and the points of them where filters alone cannot be dealt out evenly. Each thread makes digits of the image for itself, in less
 * time than they take from one core to another. */
static share share_of(const window_job *job, const result_band *band, int member, int members) {
    enum { MANY = 4 };
    const int64_t columns = rt_window_columns_of(job->shape),
                  parts = columns % members == 0 || columns >= MANY * members
                              ? 1
                              : rt_window_least(members, rt_window_tiles_of(band->points)),
                  items = columns * parts;
    return (share){items * member / members, items * (member + 1) / members, parts};
}

static void run_member(void *context, int member, int members) {
    const window_job *job = context;
    const rt_window_shape *s = job->shape;
    const own_memory own = own_of(job, member);
    const int64_t begin = s->apart ? s->bands * member / members : 0,
                  end = s->apart ? s->bands * (member + 1) / members : s->bands;
    find_largest(job, member, members);
    rt_team_wait();
    for (int64_t i = begin; i < end; i++) {
        const result_band band = find_band(job, i, members);
        const share of = share_of(job, &band, s->apart ? 0 : member, s->apart ? 1 : members);
        run_band(job, &band, &own, &of);
    }
}

base_status rt_window_run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                          void *scratch, base_report *report) {
    (void)report;
    const rt_window_shape *shape = prepared->state;
    window_job job = {.shape = shape,
                      .x = inputs[0].data,
                      .weights = inputs[1].data,
                      .bias = shape->bias ? inputs[2].data : NULL,
                      .residual = shape->residual ? inputs[3].data : NULL,
                      .scratch = scratch,
                      .y = outputs[0].data};
    const double points = (double)shape->images * (double)shape->output[0] * (double)shape->output[1],
                 work = points * (double)shape->steps * RT_FIXED_STEP * (double)shape->filters;
    if (rt_window_has_points(shape))
        rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

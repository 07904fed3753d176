/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_bands.c: products in fixed point; see fixed_bands.h.
 *
 *     weights[pair][block]      for 32 columns after 32 others, for 256 of the depth after 256 others: scales, sums of digits, digits of two tiles
 *
 * A thread has rows or columns of its own, as in packed_product.c. It takes its rows in bands (ouro.blocks), whose digits it makes once, in scratch; they
 * stay in a near cache while all columns pass over them, and a block of weights stays in the nearest while all rows of the band do. Blocks that come next
 * are asked for meanwhile. Results depend neither on the number of bands nor on that of threads: a row has digits of its own, and its blocks are added
 * in the order of the depth.
 */
#include "runtime/kernels/portable/fixed_bands.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "runtime/kernels/portable/half_lanes.h"
#include "runtime/kernels/portable/packed_product.h"
#include <string.h>

enum {
    PAIR = RT_FIXED_PAIR,
    LANES = RT_FIXED_COLUMNS,
    OPEN_ROWS = 128, /* of a band, where it is a run that knows how many rows there are */
    MOST_BANDS = 4096,
    TILES_TOGETHER = 8, /* of rows, by a block of weights */
    LINE = 64,          /* bytes of a cache */
    SCALES = PAIR * sizeof(float),
    HEAD = SCALES + RT_FIXED_DIGITS * PAIR * sizeof(int32_t), /* of the weights of a block */
    /* After the weights. What other kernels pack is a multiple of RT_ALIGNMENT: that tells these weights from those. */
    MARK_BYTES = RT_ALIGNMENT / 2
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t up(int64_t value, int64_t by) {
    return (value + by - 1) / by;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* Rows of all images; less than 0: not known. */
static int64_t rows_of_all(const rt_fixed_shape *s) {
    return s->images * s->points;
}

/* What a thread does. */
static rt_packed_part part_of(const rt_fixed_shape *s, int member, int members) {
    const rt_packed_product product = {.rows = rows_of_all(s), .columns = s->columns};
    return rt_packed_product_part(&product, member, members);
}

/* Tiles of so many rows; and rows of a tile, so that few are too many. */
static int64_t tiles_of(int64_t rows) {
    return up(rows, RT_FIXED_ROWS);
}

static int64_t tile_rows(int64_t rows) {
    return up(rows, tiles_of(rows));
}

/* The first step of a block of the depth: all blocks have as many steps, give or take one. */
static int64_t first_step(const rt_fixed_shape *s, int64_t block) {
    return s->steps * block / s->blocks;
}

/* Numbers of a block. */
static int64_t block_depth(const rt_fixed_shape *s, int64_t block) {
    const int64_t end = first_step(s, block + 1) * RT_FIXED_STEP;
    return least(end, s->depth) - first_step(s, block) * RT_FIXED_STEP;
}

/* Tiles of columns of a pair: one or two. */
static int64_t columns_of(const rt_fixed_shape *s, int64_t pair) {
    return least(up(s->columns - pair * PAIR, RT_FIXED_COLUMNS), 2);
}

/* Whether the numbers of the caller are halves; bytes of each. */
static bool are_halves(const rt_fixed_shape *s) {
    return s->digits == RT_FIXED_HALF_DIGITS;
}

static int64_t number_bytes(const rt_fixed_shape *s) {
    return are_halves(s) ? sizeof(uint16_t) : sizeof(float);
}

/* Bytes of the digits of one step of a tile, or of a row that is alone. */
static int64_t step_bytes(const rt_fixed_shape *s, bool alone) {
    return alone ? rt_fixed_row_bytes(s->digits) : rt_fixed_tile_bytes(s->digits);
}

/* Where the weights of a block of a pair begin. */
static int64_t weights_at(const rt_fixed_shape *s, int64_t pair, int64_t block) {
    enum { TILES = 2 };
    const int64_t bytes = rt_fixed_tile_bytes(s->digits),
                  before = pair * (s->blocks * HEAD + s->steps * TILES * bytes);
    return before + block * HEAD + first_step(s, block) * columns_of(s, pair) * bytes;
}

size_t rt_fixed_packed_bytes(const rt_fixed_shape *s) {
    return (size_t)weights_at(s, s->pairs - 1, s->blocks) + MARK_BYTES;
}

/* What a thread holds: digits of a band, scales of its rows, by block, and what tiles lack; digits and scales of what a tile leaves; sums of
 * digits; the result of a band. */
typedef struct own_layout {
    int64_t scales, lack, rest, rest_scales, sums, c, end; /* bytes from the beginning */
} own_layout;

static own_layout layout_of(const rt_fixed_shape *s) {
    const bool alone = s->band_rows == 1;
    const int64_t tiles = tiles_of(s->band_rows), rows = alone ? 1 : RT_FIXED_ROWS,
                  step = step_bytes(s, alone), scales = RT_FIXED_ROWS * (int64_t)sizeof(float);
    own_layout at;
    at.scales = tiles * s->steps * step;
    at.lack = at.scales + s->blocks * tiles * scales;
    at.rest = at.lack + up(s->blocks * tiles, LINE) * LINE;
    at.rest_scales = at.rest + RT_FIXED_STEPS * step;
    at.sums = at.rest_scales + scales;
    at.c = at.sums + (alone ? 0 : 2 * RT_FIXED_SUMS * (int64_t)sizeof(int32_t));
    at.end = at.c + tiles * rows * PAIR * (int64_t)sizeof(float);
    return at;
}

static size_t scratch_bytes(const rt_fixed_shape *s) {
    return (size_t)(s->threads * layout_of(s).end);
}

/* Cuts the rows of each thread into so many bands. */
static void set_bands(rt_fixed_shape *s, int64_t bands) {
    s->bands = bands;
    s->band_rows = bands > 0 ? up(s->part_rows, bands) : 0;
}

static bool fits(const rt_fixed_shape *s) {
    size_t bytes, more;
    const int64_t rows = rows_of_all(s) < 0 ? 0 : rows_of_all(s);
    return base_size_multiply((size_t)(rows + RT_FIXED_ROWS), (size_t)(s->steps + 1), &bytes) &&
           base_size_multiply(bytes, (size_t)(s->threads + 1) * (size_t)rt_fixed_tile_bytes(s->digits),
                              &bytes) &&
           base_size_multiply((size_t)(s->pairs + 1) * PAIR, (size_t)(s->steps + 1), &more) &&
           base_size_multiply(more, (size_t)rt_fixed_tile_bytes(s->digits), &more) && bytes < SIZE_MAX / 4 &&
           more < SIZE_MAX / 4;
}

bool rt_fixed_complete(rt_fixed_shape *s, const op_call *call, const rt_environment *environment) {
    const int64_t bands = op_attribute_integer(&call->attributes, "ouro.blocks", 0);
    if (bands < 0 || bands > MOST_BANDS || s->depth < 1 || s->columns < 1) return false;
    s->threads = environment->threads > 0 ? environment->threads : 1;
    s->steps = up(s->depth, RT_FIXED_STEP);
    s->blocks = up(s->steps, RT_FIXED_STEPS);
    s->pairs = up(s->columns, PAIR);
    s->limits = rt_activation_limits(&s->activation, &s->low, &s->high);
    s->distant = op_attribute_integer(&call->attributes, "ouro.weights_bits", 0) != 0;
    s->part_rows = 0;
    if (!fits(s)) return false;
    for (int i = 0; i < s->threads && rows_of_all(s) > 0; i++) {
        const rt_packed_part part = part_of(s, i, s->threads);
        if (part.rows > s->part_rows) s->part_rows = part.rows;
    }
    s->open = !bands;
    set_bands(s, bands ? bands : up(s->part_rows, OPEN_ROWS));
    return true;
}

/* ---- what it costs ------------------------------------------------------------------------------------- */

static rt_fixed_work work_of(const rt_fixed_shape *s) {
    const bool shared = s->part_rows < rows_of_all(s); /* rows are dealt out, and not columns */
    const int64_t tiles = tiles_of(s->band_rows), rows = s->bands * s->band_rows;
    const double pairs =
        (double)(s->bands * tiles) * (double)up(s->columns, RT_FIXED_COLUMNS) * (shared ? s->threads : 1);
    return (rt_fixed_work){.steps = pairs * (double)s->steps,
                           .sums = pairs * (double)s->blocks,
                           .products = rt_fixed_products(s->digits, s->depth),
                           .rows = (double)tile_rows(s->band_rows),
                           .split = (double)rows * (double)s->depth * s->threads,
                           .left = (double)rows * (double)s->columns * (shared ? s->threads : 1),
                           .apart = !s->limits && !s->matrix,
                           .band_bytes = (double)(tiles * s->steps * rt_fixed_tile_bytes(s->digits)),
                           .weight_bytes = (double)rt_fixed_packed_bytes(s),
                           .bands = (double)s->bands,
                           .shared = shared,
                           .distant = s->distant};
}

void rt_fixed_estimate(rt_fixed_shape *s, const rt_environment *environment, size_t scratch_limit,
                       rt_cost *cost) {
    cost->blocks = 0;
    for (int64_t bands = 1; bands <= least(s->part_rows, MOST_BANDS); bands++) {
        const int64_t before = s->band_rows;
        set_bands(s, bands);
        if ((bands > 1 && s->band_rows == before) || scratch_bytes(s) > scratch_limit) continue;
        const rt_fixed_work work = work_of(s);
        const double seconds = rt_fixed_seconds(&work, environment);
        if (cost->blocks && seconds >= cost->seconds) continue;
        cost->seconds = seconds;
        cost->blocks = bands;
        cost->scratch_bytes = scratch_bytes(s);
    }
}

void rt_fixed_settle(rt_fixed_shape *s, const rt_environment *environment) {
    const size_t image = (size_t)(s->points * (s->depth + s->columns)) * sizeof(float),
                 limit = 2 * (image + rt_fixed_packed_bytes(s));
    const int64_t bands = s->bands;
    rt_cost cost;
    if (!s->open) return;
    rt_fixed_estimate(s, environment, limit, &cost);
    set_bands(s, cost.blocks ? cost.blocks : bands);
}

/* ---- weights ------------------------------------------------------------------------------------------- */

/* Halves of a block of columns as floats. */
typedef float widened_columns[RT_FIXED_DEPTH * RT_FIXED_COLUMNS];

/* One block of one tile of columns, as the model has it, or in `widened`. */
static rt_fixed_columns columns_at(const rt_fixed_shape *s, const rt_fixed_weights *weights, int64_t column,
                                   int64_t block, widened_columns widened) {
    const int64_t first = column * weights->column + first_step(s, block) * RT_FIXED_STEP * weights->depth;
    rt_fixed_columns columns = {.digits = s->digits,
                                .along = weights->depth,
                                .step = weights->column,
                                .count = least(s->columns - column, RT_FIXED_COLUMNS),
                                .depth = block_depth(s, block),
                                .factor = weights->factor};
    if (!are_halves(s)) {
        columns.from = (const float *)weights->data + first;
        return columns;
    }
    const uint16_t *halves = (const uint16_t *)weights->data + first;
    for (int64_t k = 0; k < columns.depth; k++)
        for (int64_t j = 0; j < columns.count; j++)
            widened[k * RT_FIXED_COLUMNS + j] =
                base_float_from_half(halves[k * columns.along + j * columns.step]);
    columns.from = widened;
    columns.along = RT_FIXED_COLUMNS;
    columns.step = 1;
    return columns;
}

bool rt_fixed_suits(const rt_fixed_shape *s, const rt_fixed_weights *weights) {
    widened_columns widened;
    for (int64_t column = 0; column < s->columns; column += RT_FIXED_COLUMNS) {
        for (int64_t block = 0; block < s->blocks; block++) {
            const rt_fixed_columns columns = columns_at(s, weights, column, block, widened);
            if (!rt_fixed_is_fit(&columns)) return false;
        }
    }
    return true;
}

void rt_fixed_pack(const rt_fixed_shape *s, const rt_fixed_weights *weights, void *packed) {
    const int64_t bytes = rt_fixed_tile_bytes(s->digits);
    widened_columns widened;
    for (int64_t column = 0; column < s->columns; column += RT_FIXED_COLUMNS) {
        const int64_t pair = column / PAIR, tile = column % PAIR / RT_FIXED_COLUMNS;
        for (int64_t block = 0; block < s->blocks; block++) {
            const int64_t steps = first_step(s, block + 1) - first_step(s, block);
            char *to = (char *)packed + weights_at(s, pair, block);
            const rt_fixed_columns columns = columns_at(s, weights, column, block, widened);
            rt_fixed_split_columns(&columns, to + HEAD + tile * steps * bytes,
                                   (float *)(void *)to + tile * RT_FIXED_COLUMNS,
                                   (int32_t *)(void *)(to + SCALES) + tile * RT_FIXED_COLUMNS);
        }
    }
}

/* ---- running ------------------------------------------------------------------------------------------- */

typedef struct fixed_job {
    const rt_fixed_shape *shape;
    const char *x, *bias, *residual, *weights;
    char *scratch, *y;
} fixed_job;

/* What one thread works on: rows [first, first + rows) of an image, in memory of its own. */
typedef struct fixed_band {
    int64_t image, first, rows;
    bool alone;          /* one row, which is multiplied in vectors */
    int64_t tiles, each; /* rows of a tile */
    char *a, *lack, *rest;
    float *scales, *rest_scales, *c;
    int32_t *sums;
} fixed_band;

/* Row `row` of all images is the first. */
static fixed_band band_of(const fixed_job *job, int member, int64_t row, int64_t rows) {
    const own_layout at = layout_of(job->shape);
    char *own = job->scratch + member * at.end;
    return (fixed_band){.image = row / job->shape->points,
                        .first = row % job->shape->points,
                        .rows = rows,
                        .alone = rows == 1,
                        .tiles = tiles_of(rows),
                        .each = tile_rows(rows),
                        .a = own,
                        .lack = own + at.lack,
                        .rest = own + at.rest,
                        .scales = (float *)(void *)(own + at.scales),
                        .rest_scales = (float *)(void *)(own + at.rest_scales),
                        .c = (float *)(void *)(own + at.c),
                        .sums = (int32_t *)(void *)(own + at.sums)};
}

/* Rows of a tile that are there. */
static int64_t rows_of(const fixed_band *band, int64_t tile) {
    const int64_t rest = band->rows - tile * band->each;
    return rest < 0 ? 0 : least(rest, band->each);
}

/* The digits of a tile in a block, and its scales. */
static char *digits_of(const rt_fixed_shape *s, const fixed_band *band, int64_t block, int64_t tile) {
    const int64_t first = first_step(s, block), steps = first_step(s, block + 1) - first;
    return band->a + (first * band->tiles + tile * steps) * step_bytes(s, band->alone);
}

static float *scales_of(const fixed_band *band, int64_t block, int64_t tile) {
    return band->scales + (block * band->tiles + tile) * RT_FIXED_ROWS;
}

/* Numbers from 16 channels of a row to the next 16. */
static int64_t plane_of(const rt_fixed_shape *s) {
    return s->layout == OP_LAYOUT_NC16 ? s->points * LANES : LANES;
}

static rt_fixed_rows rows_at(const fixed_job *job, const fixed_band *band, int64_t block, int64_t tile) {
    const rt_fixed_shape *s = job->shape;
    const bool blocked = s->layout == OP_LAYOUT_NC16;
    const int64_t step = blocked ? LANES : s->depth, plane = plane_of(s),
                  image = band->image * (blocked ? up(s->depth, LANES) * LANES : s->depth) * s->points;
    const int64_t at = image + (band->first + tile * band->each) * step +
                       first_step(s, block) * (RT_FIXED_STEP / LANES) * plane;
    return (rt_fixed_rows){.from = job->x + at * number_bytes(s),
                           .digits = s->digits,
                           .step = step,
                           .plane = plane,
                           .count = rows_of(band, tile),
                           .depth = block_depth(s, block),
                           .alone = band->alone,
                           .to = digits_of(s, band, block, tile),
                           .scales = scales_of(band, block, tile)};
}

static void split_band(const fixed_job *job, const fixed_band *band) {
    for (int64_t tile = 0; tile < band->tiles; tile++) {
        for (int64_t block = 0; block < job->shape->blocks; block++) {
            const rt_fixed_rows rows = rows_at(job, band, block, tile);
            band->lack[block * band->tiles + tile] = (char)rt_fixed_split_rows(&rows);
        }
    }
}

/* Where 16 columns of a row of the image begin in the result. */
static int64_t y_offset(const rt_fixed_shape *s, int64_t image, int64_t row, int64_t column) {
    if (s->layout != OP_LAYOUT_NC16) return (image * s->points + row) * s->columns + column;
    return ((image * up(s->columns, LANES) + column / LANES) * s->points + row) * LANES;
}

/* Where the rows of a band from tile `tile` on go. */
static rt_fixed_result result_at(const fixed_job *job, const fixed_band *band, int64_t pair, int64_t tile) {
    const rt_fixed_shape *s = job->shape;
    const bool blocked = s->layout == OP_LAYOUT_NC16;
    const int64_t row = tile * band->each, bytes = number_bytes(s),
                  at = y_offset(s, band->image, band->first + row, pair * PAIR) * bytes;
    rt_fixed_result result = {.y = job->y + at,
                              .row = blocked ? LANES : s->columns,
                              .beside = blocked ? s->points * LANES : LANES,
                              .bias = s->bias ? job->bias + pair * PAIR * bytes : NULL,
                              .residual = s->residual ? job->residual + at : NULL,
                              .rows = band->rows - row,
                              .limits = s->limits,
                              .low = s->low,
                              .high = s->high};
    for (int i = 0; i < 2; i++) {
        const int64_t rest = s->columns - pair * PAIR - i * LANES;
        result.there[i] = rt_first_lanes_16(rest > 0 ? rest : 0);
        result.stored[i] = blocked && rest > 0 ? 0xFFFF : result.there[i];
    }
    return result;
}

#if RT_X86_KERNELS
#define WITH_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

/* Adds what is added to 16 columns of some rows of `c`. */
WITH_AVX512 static void add_all(const rt_fixed_result *to, bool halves, float *c, int64_t rows, int column) {
    const int64_t bytes = halves ? sizeof(uint16_t) : sizeof(float);
    const __m512 bias = to->bias ? rt_load_lanes_16((const char *)to->bias + column * LANES * bytes,
                                                    to->there[column], halves)
                                 : _mm512_setzero_ps();
    const char *residual = to->residual ? (const char *)to->residual + column * to->beside * bytes : NULL;
    for (int64_t i = 0; i < rows; i++) {
        __m512 sum = _mm512_load_ps(c + i * PAIR + column * LANES);
        if (to->bias) sum = sum + bias;
        if (residual)
            sum = sum + rt_load_lanes_16(residual + i * to->row * bytes, to->stored[column], halves);
        _mm512_store_ps(c + i * PAIR + column * LANES, sum);
    }
}

/* These are the result, once they are limited. */
WITH_AVX512 static void leave_all(const rt_fixed_result *to, bool halves, const float *c, int64_t rows,
                                  int column) {
    const int64_t bytes = halves ? sizeof(uint16_t) : sizeof(float);
    for (int64_t i = 0; i < rows; i++) {
        __m512 sum = _mm512_load_ps(c + i * PAIR + column * LANES);
        if (to->limits) RT_LIMIT_16(sum, to->low, to->high);
        /* What pads a block is zeros. */
        rt_store_lanes_16((char *)to->y + (i * to->row + column * to->beside) * bytes, to->stored[column],
                          _mm512_maskz_mov_ps(to->there[column], sum), halves);
    }
}
#else
static void add_all(const rt_fixed_result *to, bool halves, float *c, int64_t rows, int column) {
    (void)to, (void)halves, (void)c, (void)rows, (void)column;
}

static void leave_all(const rt_fixed_result *to, bool halves, const float *c, int64_t rows, int column) {
    (void)to, (void)halves, (void)c, (void)rows, (void)column;
}
#endif

/* The sums of a tile are complete, in `c`. */
static void finish(const fixed_job *job, const fixed_band *band, int64_t pair, int64_t tile) {
    const rt_fixed_shape *s = job->shape;
    const rt_fixed_result to = result_at(job, band, pair, tile);
    const int64_t rows = rows_of(band, tile), columns = least(s->columns - pair * PAIR, PAIR);
    float *c = band->c + tile * RT_FIXED_ROWS * PAIR;
    for (int i = 0; i < columns_of(s, pair); i++) add_all(&to, are_halves(s), c, rows, i);
    if (!s->limits && columns == PAIR) rt_activation_fused(&s->activation, c, rows * PAIR);
    for (int64_t i = 0; i < rows && !s->limits && columns < PAIR; i++)
        rt_activation_fused(&s->activation, c + i * PAIR, columns);
    for (int i = 0; i < columns_of(s, pair); i++) leave_all(&to, are_halves(s), c, rows, i);
}

/* What the digits of a tile lack in a block. */
static int lack_of(const fixed_band *band, int64_t block, int64_t tile) {
    return band->lack[block * band->tiles + tile];
}

static bool is_all(const fixed_band *band, int64_t block, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (lack_of(band, block, first + i)) return false;
    return true;
}

/* The weights that come next: those of another block; none after the last. */
typedef struct fixed_next {
    const char *from;
    int64_t lines;
} fixed_next;

/* What the digits of coarse rows have left, times the same as `whole`. */
static void add_rest(const fixed_band *band, const rt_fixed_rows *of, const rt_fixed_tiles *whole) {
    rt_fixed_rows rows = *of;
    rt_fixed_tiles tiles = *whole;
    rows.to = band->rest;
    rows.scales = band->rest_scales;
    tiles.a = band->rest;
    tiles.a_scales = band->rest_scales;
    tiles.count = 1;
    tiles.add = true;
    tiles.lines = 0;
    for (int part = 1; part <= rt_fixed_rests(rows.digits); part++) {
        rt_fixed_split_rest(&rows, part);
        if (band->alone) rt_fixed_multiply_row(&tiles);
        else rt_fixed_multiply(&tiles);
    }
}

/* What the digits of tiles from `first` on lack, times `columns` columns, the same as `whole`. */
static void add_lack(const fixed_job *job, const fixed_band *band, int64_t block, int64_t first,
                     const rt_fixed_tiles *whole, int64_t columns) {
    rt_fixed_tiles tiles = *whole;
    for (int64_t i = 0; i < whole->count; i++, tiles.c += RT_FIXED_ROWS * PAIR) {
        const int lack = lack_of(band, block, first + i);
        if (!lack) continue;
        const rt_fixed_rows rows = rows_at(job, band, block, first + i);
        if (lack & RT_FIXED_COARSE) add_rest(band, &rows, &tiles);
        if (lack & RT_FIXED_INFINITE) rt_fixed_add_infinite(&rows, &tiles, columns);
    }
}

/* All rows of a band times a block of a pair, some tiles at a time, whose results stay in the nearest cache until they are left. */
static void run_block(const fixed_job *job, const fixed_band *band, int64_t pair, int64_t block,
                      const fixed_next *next) {
    const rt_fixed_shape *s = job->shape;
    const char *weights = job->weights + weights_at(s, pair, block);
    const int64_t steps = first_step(s, block + 1) - first_step(s, block), columns = columns_of(s, pair),
                  lines = up(next->lines, up(band->tiles, TILES_TOGETHER));
    rt_fixed_tiles tiles = {.products = rt_fixed_products(s->digits, s->depth),
                            .b = weights + HEAD,
                            .b_scales = (const float *)(const void *)weights,
                            .b_sums = (const int32_t *)(const void *)(weights + SCALES),
                            .places = {.row = LINE,
                                       .digit = RT_FIXED_DIGIT_BYTES,
                                       .tile = steps * step_bytes(s, band->alone)},
                            .c_row = PAIR,
                            .c_tile = RT_FIXED_ROWS * PAIR,
                            .rows = band->each,
                            .steps = steps,
                            .wide = columns > 1,
                            .add = block > 0,
                            .sums = band->sums};
    for (int64_t tile = 0, asked = 0; tile < band->tiles; tile += tiles.count, asked += tiles.lines) {
        tiles.a = digits_of(s, band, block, tile);
        tiles.a_scales = scales_of(band, block, tile);
        tiles.c = band->c + tile * RT_FIXED_ROWS * PAIR;
        tiles.count = least(band->tiles - tile, TILES_TOGETHER);
        tiles.next = next->from + asked * LINE;
        tiles.lines = least(lines, next->lines - asked);
        const rt_fixed_result result = result_at(job, band, pair, tile);
        const bool last = block + 1 == s->blocks,
                   at_once = last && s->limits && !band->alone && is_all(band, block, tile, tiles.count);
        tiles.result = at_once ? &result : NULL;
        if (band->alone) rt_fixed_multiply_row(&tiles);
        else rt_fixed_multiply(&tiles);
        if (at_once) continue;
        add_lack(job, band, block, tile, &tiles, least(s->columns - pair * PAIR, PAIR));
        for (int64_t i = 0; i < tiles.count && last; i++) finish(job, band, pair, tile + i);
    }
}

static void run_band(const fixed_job *job, const fixed_band *band, const rt_packed_part *part) {
    const rt_fixed_shape *s = job->shape;
    const int64_t first = part->first / PAIR, end = up(part->end, PAIR);
    split_band(job, band);
    if (!band->alone) rt_fixed_begin(band->each);
    for (int64_t pair = first; pair < end; pair++) {
        for (int64_t block = 0; block < s->blocks; block++) {
            /* Blocks lie after each other. */
            const int64_t after = weights_at(s, pair, block + 1), last = weights_at(s, end - 1, s->blocks);
            const int64_t bytes = least(last - after, after - weights_at(s, pair, block));
            const fixed_next next = {.from = job->weights + after, .lines = up(bytes, LINE)};
            run_block(job, band, pair, block, &next);
        }
    }
    if (!band->alone) rt_fixed_end();
}

static void run_member(void *context, int member, int members) {
    const fixed_job *job = context;
    const rt_fixed_shape *s = job->shape;
    const rt_packed_part part = part_of(s, member, members);
    if (part.first >= part.end) return;
    for (int64_t done = 0, some; done < part.rows; done += some) {
        const int64_t row = part.row + done;
        some = least(least(s->band_rows, part.rows - done), s->points - row % s->points);
        const fixed_band band = band_of(job, member, row, some);
        run_band(job, &band, &part);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const rt_fixed_shape *shape = prepared->state;
    fixed_job job = {.shape = shape,
                     .x = inputs[0].data,
                     .weights = inputs[1].data,
                     .bias = shape->bias ? inputs[2].data : NULL,
                     .residual = shape->residual ? inputs[3].data : NULL,
                     .scratch = scratch,
                     .y = outputs[0].data};
    const double work = (double)rows_of_all(shape) * (double)shape->depth * (double)shape->columns;
    if (work == 0) return BASE_OK;
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

void rt_fixed_prepare(rt_fixed_shape *shape, rt_prepared *prepared) {
    prepared->state = shape;
    prepared->run = run;
    prepared->scratch_bytes = scratch_bytes(shape);
}

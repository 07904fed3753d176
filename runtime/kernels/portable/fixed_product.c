/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_product.c: MatMul and Gemm of many rows in float with a constant right matrix, in fixed point in tiles of bytes (fixed_tiles.h), on machines that
 * have such tiles. Chosen by what it costs, in place of portable.packed_product.
 *
 *     weights[pair][block]      for 32 columns after 32 others, for 256 of the depth after 256 others: scales, sums of digits, digits of two tiles
 *
 * A thread has rows or columns of its own, as in packed_product.c. It takes its rows in bands (ouro.blocks), whose digits it makes once, in scratch; they
 * stay in a near cache while all columns pass over them, and a block of weights stays in the nearest while all rows of the band do. Blocks that come next
 * are asked for meanwhile. Results depend neither on the number of bands nor on that of threads: a row has digits of its own, and its blocks are added
 * in the order of the depth.
 */
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/packed_product.h"
#include <string.h>

enum {
    PAIR = RT_FIXED_PAIR,
    FEWEST_ROWS = 8, /* fewer take as long as their weights, unless these come from memory */
    OPEN_ROWS = 128, /* of a band, where it is a run that knows how many rows there are */
    FEWEST_COLUMNS = 16,
    FEWEST_DEPTH = 32,
    MOST_BANDS = 4096,
    LINE = 64, /* bytes of a cache */
    SCALES = PAIR * sizeof(float),
    HEAD = SCALES + RT_FIXED_DIGITS * PAIR * sizeof(int32_t), /* of the weights of a block */
    /* After the weights. What other kernels pack is a multiple of RT_ALIGNMENT: that tells these weights from those. */
    MARK_BYTES = RT_ALIGNMENT / 2
};

typedef struct fixed_shape {
    rt_packed_product product;
    int threads;
    int64_t steps, blocks; /* of the depth */
    int64_t pairs;         /* of tiles of columns */
    bool limits;           /* the activation is done with these: */
    float low, high;
    bool distant;                        /* weights come from memory in each run: "ouro.weights_bits" */
    int64_t part_rows, bands, band_rows; /* of a thread at most; into which it cuts them; of such a band */
} fixed_shape;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t up(int64_t value, int64_t by) {
    return (value + by - 1) / by;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

/* Tiles of so many rows; and rows of a tile, so that few are too many. */
static int64_t tiles_of(int64_t rows) {
    return up(rows, RT_FIXED_ROWS);
}

static int64_t tile_rows(int64_t rows) {
    return up(rows, tiles_of(rows));
}

/* The first step of a block of the depth: all blocks have as many steps, give or take one. */
static int64_t first_step(const fixed_shape *s, int64_t block) {
    return s->steps * block / s->blocks;
}

/* Numbers of a block. */
static int64_t block_depth(const fixed_shape *s, int64_t block) {
    const int64_t end = first_step(s, block + 1) * RT_FIXED_STEP;
    return least(end, s->product.depth) - first_step(s, block) * RT_FIXED_STEP;
}

/* Tiles of columns of a pair: one or two. */
static int64_t columns_of(const fixed_shape *s, int64_t pair) {
    return least(up(s->product.columns - pair * PAIR, RT_FIXED_COLUMNS), 2);
}

/* Where the weights of a block of a pair begin. */
static int64_t weights_at(const fixed_shape *s, int64_t pair, int64_t block) {
    enum { TILES = 2 };
    const int64_t before = pair * (s->blocks * HEAD + s->steps * TILES * RT_FIXED_TILE_BYTES);
    return before + block * HEAD + first_step(s, block) * columns_of(s, pair) * RT_FIXED_TILE_BYTES;
}

static size_t packed_bytes(const fixed_shape *s) {
    return (size_t)weights_at(s, s->pairs - 1, s->blocks) + MARK_BYTES;
}

/* What a thread holds: digits of a band, scales of its rows, by block, and whether tiles are coarse; digits and scales of what a tile leaves; sums of
 * digits; the result of a band. */
typedef struct own_layout {
    int64_t scales, coarse, rest, rest_scales, sums, c, end; /* bytes from the beginning */
} own_layout;

static own_layout layout_of(const fixed_shape *s) {
    const bool alone = s->band_rows == 1;
    const int64_t tiles = tiles_of(s->band_rows), rows = alone ? 1 : RT_FIXED_ROWS,
                  step = alone ? RT_FIXED_ROW_BYTES : RT_FIXED_TILE_BYTES,
                  scales = RT_FIXED_ROWS * (int64_t)sizeof(float);
    own_layout at;
    at.scales = tiles * s->steps * step;
    at.coarse = at.scales + s->blocks * tiles * scales;
    at.rest = at.coarse + up(s->blocks * tiles, LINE) * LINE;
    at.rest_scales = at.rest + RT_FIXED_STEPS * step;
    at.sums = at.rest_scales + scales;
    at.c = at.sums + (alone ? 0 : 2 * RT_FIXED_SUMS * (int64_t)sizeof(int32_t));
    at.end = at.c + tiles * rows * PAIR * (int64_t)sizeof(float);
    return at;
}

static size_t scratch_bytes(const fixed_shape *s) {
    return (size_t)(s->threads * layout_of(s).end);
}

/* Cuts the rows of each thread into so many bands. */
static void set_bands(fixed_shape *s, int64_t bands) {
    s->bands = bands;
    s->band_rows = bands > 0 ? up(s->part_rows, bands) : 0;
}

static bool fits(const fixed_shape *s) {
    size_t bytes, more;
    const int64_t rows = s->product.rows < 0 ? 0 : s->product.rows;
    return base_size_multiply((size_t)(rows + RT_FIXED_ROWS), (size_t)(s->steps + 1), &bytes) &&
           base_size_multiply(bytes, (size_t)(s->threads + 1) * RT_FIXED_TILE_BYTES, &bytes) &&
           base_size_multiply((size_t)(s->pairs + 1) * PAIR, (size_t)(s->steps + 1), &more) &&
           base_size_multiply(more, RT_FIXED_TILE_BYTES, &more) && bytes < SIZE_MAX / 4 &&
           more < SIZE_MAX / 4;
}

static bool read_shape(const op_call *call, const rt_environment *environment, fixed_shape *s) {
    rt_packed_product *product = &s->product;
    const int64_t bands = op_attribute_integer(&call->attributes, "ouro.blocks", 0);
    *s = (fixed_shape){.threads = environment->threads > 0 ? environment->threads : 1};
    if (!rt_has_wide_vectors(environment) || !rt_fixed_wanted() || bands < 0 || bands > MOST_BANDS)
        return false;
    if (!rt_packed_product_read(call, product) || product->dtype != OP_FLOAT || product->stored != OP_FLOAT ||
        product->columns < FEWEST_COLUMNS || product->depth < FEWEST_DEPTH)
        return false;
    if (product->bias == RT_BIAS_ONE || (product->bias == RT_BIAS_COLUMNS && product->beta != 1))
        return false;
    s->steps = up(product->depth, RT_FIXED_STEP);
    s->blocks = up(s->steps, RT_FIXED_STEPS);
    s->pairs = up(product->columns, PAIR);
    s->limits = rt_activation_limits(&product->activation, &s->low, &s->high);
    s->distant = op_attribute_integer(&call->attributes, "ouro.weights_bits", 0) != 0;
    for (int i = 0; i < s->threads && product->rows > 0; i++) {
        const rt_packed_part part = rt_packed_product_part(product, i, s->threads);
        if (part.rows > s->part_rows) s->part_rows = part.rows;
    }
    if (!fits(s)) return false;
    set_bands(s, bands ? bands : up(s->part_rows, OPEN_ROWS));
    return true;
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

static bool is_accepted(const op_call *call, const rt_environment *environment, fixed_shape *shape) {
    const op_type *weights = &call->inputs[1].type;
    return weights->layout == OP_LAYOUT_PACKED && read_shape(call, environment, shape) &&
           weights->packed_bytes == packed_bytes(shape);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    fixed_shape shape;
    return is_accepted(call, environment, &shape);
}

static rt_fixed_work work_of(const fixed_shape *s) {
    const rt_packed_product *product = &s->product;
    const bool shared = s->part_rows < product->rows; /* rows are dealt out, and not columns */
    const int64_t tiles = tiles_of(s->band_rows), rows = s->bands * s->band_rows;
    const double pairs = (double)(s->bands * tiles) * (double)up(product->columns, RT_FIXED_COLUMNS) *
                         (shared ? s->threads : 1);
    return (rt_fixed_work){.steps = pairs * (double)s->steps,
                           .sums = pairs * (double)s->blocks,
                           .rows = (double)tile_rows(s->band_rows),
                           .split = (double)rows * (double)product->depth * s->threads,
                           .band_bytes = (double)(tiles * s->steps * RT_FIXED_TILE_BYTES),
                           .weight_bytes = (double)packed_bytes(s),
                           .bands = (double)s->bands,
                           .shared = shared,
                           .distant = s->distant};
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    fixed_shape shape;
    if (!read_shape(call, environment, &shape) ||
        (shape.product.rows < FEWEST_ROWS && !(shape.distant && shape.product.rows >= 1)))
        return false;
    *cost = (rt_cost){.packed_bytes = packed_bytes(&shape)};
    for (int64_t bands = 1; bands <= least(shape.part_rows, MOST_BANDS); bands++) {
        const int64_t before = shape.band_rows;
        set_bands(&shape, bands);
        if ((bands > 1 && shape.band_rows == before) || scratch_bytes(&shape) > scratch_limit) continue;
        const rt_fixed_work work = work_of(&shape);
        const double seconds = rt_fixed_seconds(&work, environment);
        if (cost->blocks && seconds >= cost->seconds) continue;
        cost->seconds = seconds;
        cost->blocks = bands;
        cost->scratch_bytes = scratch_bytes(&shape);
    }
    return cost->blocks != 0;
}

/* One block of one tile of columns, as the model has it. */
static rt_fixed_columns columns_at(const fixed_shape *s, const float *from, int64_t column, int64_t block) {
    const rt_packed_product *product = &s->product;
    return (rt_fixed_columns){.from = from + column * product->b_column +
                                      first_step(s, block) * RT_FIXED_STEP * product->b_depth,
                              .along = product->b_depth,
                              .step = product->b_column,
                              .count = least(product->columns - column, RT_FIXED_COLUMNS),
                              .depth = block_depth(s, block),
                              .factor = product->alpha};
}

static bool suits(const op_call *call, const rt_environment *environment, uint32_t input,
                  const op_tensor *plain) {
    fixed_shape shape;
    if (input != 1 || !read_shape(call, environment, &shape)) return false;
    for (int64_t column = 0; column < shape.product.columns; column += RT_FIXED_COLUMNS) {
        for (int64_t block = 0; block < shape.blocks; block++) {
            const rt_fixed_columns columns = columns_at(&shape, plain->data, column, block);
            if (!rt_fixed_is_fit(&columns)) return false;
        }
    }
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    fixed_shape shape;
    if (input != 1 || !read_shape(call, environment, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this product is not in tiles", input);
    for (int64_t column = 0; column < shape.product.columns; column += RT_FIXED_COLUMNS) {
        const int64_t pair = column / PAIR, tile = column % PAIR / RT_FIXED_COLUMNS;
        for (int64_t block = 0; block < shape.blocks; block++) {
            const int64_t steps = first_step(&shape, block + 1) - first_step(&shape, block);
            char *to = (char *)packed + weights_at(&shape, pair, block);
            const rt_fixed_columns columns = columns_at(&shape, plain->data, column, block);
            rt_fixed_split_columns(&columns, to + HEAD + tile * steps * RT_FIXED_TILE_BYTES,
                                   (float *)(void *)to + tile * RT_FIXED_COLUMNS,
                                   (int32_t *)(void *)(to + SCALES) + tile * RT_FIXED_COLUMNS);
        }
    }
    return BASE_OK;
}

/* ---- running ------------------------------------------------------------------------------------------- */

typedef struct fixed_job {
    const fixed_shape *shape;
    const float *x, *bias;
    const char *weights;
    char *scratch;
    float *y;
} fixed_job;

/* What one thread works on: rows [first, first + rows), in memory of its own. */
typedef struct fixed_band {
    int64_t first, rows;
    bool alone;          /* one row, which is multiplied in vectors */
    int64_t tiles, each; /* rows of a tile */
    char *a, *coarse, *rest;
    float *scales, *rest_scales, *c;
    int32_t *sums;
} fixed_band;

static fixed_band band_of(const fixed_job *job, int member, int64_t first, int64_t rows) {
    const own_layout at = layout_of(job->shape);
    char *own = job->scratch + member * at.end;
    return (fixed_band){.first = first,
                        .rows = rows,
                        .alone = rows == 1,
                        .tiles = tiles_of(rows),
                        .each = tile_rows(rows),
                        .a = own,
                        .coarse = own + at.coarse,
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
static char *digits_of(const fixed_shape *s, const fixed_band *band, int64_t block, int64_t tile) {
    const int64_t first = first_step(s, block), steps = first_step(s, block + 1) - first;
    return band->a +
           (first * band->tiles + tile * steps) * (band->alone ? RT_FIXED_ROW_BYTES : RT_FIXED_TILE_BYTES);
}

static float *scales_of(const fixed_band *band, int64_t block, int64_t tile) {
    return band->scales + (block * band->tiles + tile) * RT_FIXED_ROWS;
}

static rt_fixed_rows rows_at(const fixed_job *job, const fixed_band *band, int64_t block, int64_t tile) {
    const fixed_shape *s = job->shape;
    const int64_t depth = s->product.depth;
    return (rt_fixed_rows){.from = job->x + (band->first + tile * band->each) * depth +
                                   first_step(s, block) * RT_FIXED_STEP,
                           .step = depth,
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
            band->coarse[block * band->tiles + tile] = rt_fixed_split_rows(&rows);
        }
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#define WITH_AVX512 __attribute__((target("avx512f")))

/* Adds the bias to 16 columns of some rows of `c`; then, if `leave`, limits them, and they are the result. */
WITH_AVX512 static void add_and_leave(const fixed_job *job, float *c, int64_t row, int64_t rows,
                                      int64_t column, bool biased, bool leave) {
    const fixed_shape *s = job->shape;
    const int64_t columns = s->product.columns;
    const __mmask16 there = rt_first_lanes_16(columns - column);
    const __m512 bias = biased ? _mm512_maskz_loadu_ps(there, job->bias + column) : _mm512_setzero_ps();
    float *y = job->y + row * columns + column;
    for (int64_t i = 0; i < rows; i++, c += PAIR, y += columns) {
        __m512 sum = _mm512_load_ps(c);
        if (biased) sum = sum + bias;
        if (leave && s->limits) RT_LIMIT_16(sum, s->low, s->high);
        if (leave) _mm512_mask_storeu_ps(y, there, sum);
        else _mm512_store_ps(c, sum);
    }
}
#else
static void add_and_leave(const fixed_job *job, float *c, int64_t row, int64_t rows, int64_t column,
                          bool biased, bool leave) {
    (void)job, (void)c, (void)row, (void)rows, (void)column, (void)biased, (void)leave;
}
#endif

/* The sums of a tile are complete. */
static void finish(const fixed_job *job, const fixed_band *band, int64_t pair, int64_t tile) {
    const fixed_shape *s = job->shape;
    const int64_t rows = rows_of(band, tile), row = band->first + tile * band->each,
                  columns = least(s->product.columns - pair * PAIR, PAIR);
    float *c = band->c + tile * RT_FIXED_ROWS * PAIR;
    const bool biased = s->product.bias == RT_BIAS_COLUMNS;
    for (int64_t j = 0; j < columns && biased && !s->limits; j += RT_FIXED_COLUMNS)
        add_and_leave(job, c + j, row, rows, pair * PAIR + j, true, false);
    if (!s->limits && columns == PAIR) rt_activation_fused(&s->product.activation, c, rows * PAIR);
    for (int64_t i = 0; i < rows && !s->limits && columns < PAIR; i++)
        rt_activation_fused(&s->product.activation, c + i * PAIR, columns);
    for (int64_t j = 0; j < columns; j += RT_FIXED_COLUMNS)
        add_and_leave(job, c + j, row, rows, pair * PAIR + j, biased && s->limits, true);
}

/* The weights that come next: those of another block; none after the last. */
typedef struct fixed_next {
    const char *from;
    int64_t lines;
} fixed_next;

/* All rows of a band times a block of a pair. */
static void run_block(const fixed_job *job, const fixed_band *band, int64_t pair, int64_t block,
                      const fixed_next *next) {
    const fixed_shape *s = job->shape;
    const char *weights = job->weights + weights_at(s, pair, block);
    const int64_t steps = first_step(s, block + 1) - first_step(s, block), columns = columns_of(s, pair),
                  lines = up(next->lines, band->tiles);
    void (*const multiply)(const rt_fixed_tiles *) = band->alone ? rt_fixed_multiply_row : rt_fixed_multiply;
    rt_fixed_tiles tiles = {.b = weights + HEAD,
                            .b_scales = (const float *)(const void *)weights,
                            .b_sums = (const int32_t *)(const void *)(weights + SCALES),
                            .rows = band->each,
                            .steps = steps,
                            .wide = columns > 1,
                            .sums = band->sums,
                            .each = up(lines, steps * columns * RT_FIXED_PRODUCTS)};
    for (int64_t tile = 0; tile < band->tiles; tile++) {
        tiles.a = digits_of(s, band, block, tile);
        tiles.a_scales = scales_of(band, block, tile);
        tiles.c = band->c + tile * RT_FIXED_ROWS * PAIR;
        tiles.add = block > 0;
        const int64_t asked = least(tile * lines, next->lines);
        tiles.next = next->from + asked * LINE;
        tiles.lines = least(lines, next->lines - asked);
        multiply(&tiles);
        if (band->coarse[block * band->tiles + tile]) {
            rt_fixed_rows rows = rows_at(job, band, block, tile);
            rows.to = band->rest;
            rows.scales = band->rest_scales;
            rt_fixed_split_rest(&rows);
            tiles.a = band->rest;
            tiles.a_scales = band->rest_scales;
            tiles.add = true;
            tiles.lines = 0;
            multiply(&tiles);
        }
        if (block + 1 == s->blocks) finish(job, band, pair, tile);
    }
}

static void run_band(const fixed_job *job, const fixed_band *band, const rt_packed_part *part) {
    const fixed_shape *s = job->shape;
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
    const fixed_shape *s = job->shape;
    const rt_packed_part part = rt_packed_product_part(&s->product, member, members);
    if (part.first >= part.end) return;
    for (int64_t row = 0; row < part.rows; row += s->band_rows) {
        const fixed_band band = band_of(job, member, part.row + row, least(s->band_rows, part.rows - row));
        run_band(job, &band, &part);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const fixed_shape *shape = prepared->state;
    fixed_job job = {.shape = shape,
                     .x = inputs[0].data,
                     .weights = inputs[1].data,
                     .bias = shape->product.bias != RT_BIAS_NONE ? inputs[2].data : NULL,
                     .scratch = scratch,
                     .y = outputs[0].data};
    const rt_packed_product *product = &shape->product;
    if (product->rows == 0) return BASE_OK;
    const double work = (double)product->rows * (double)product->depth * (double)product->columns;
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    fixed_shape *shape = BASE_NEW(arena, fixed_shape);
    if (!shape) return base_fail_memory(report);
    if (!is_accepted(call, environment, shape) || shape->product.rows < 0)
        return base_fail(report, BASE_INVALID, "this product has no form in fixed point on this machine");
    prepared->state = shape;
    prepared->run = run;
    prepared->scratch_bytes = scratch_bytes(shape);
    return BASE_OK;
}

/* Another number of rows. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    fixed_shape *shape = prepared->state;
    if (!is_accepted(call, environment, shape) || shape->product.rows < 0) return false;
    prepared->scratch_bytes = scratch_bytes(shape);
    return true;
}

const rt_kernel rt_kernel_fixed_product = {.name = "portable.fixed_product",
                                           .accepts = accepts,
                                           .estimate = estimate,
                                           .suits = suits,
                                           .pack = pack,
                                           .prepare = prepare,
                                           .adapt = adapt};

/* SPDX-License-Identifier: Apache-2.0 */
/* packed_halves.c: MatMul and Gemm in float16 and bfloat16 with a constant right matrix, which is packed into panels of pairs
 * (rt_pairs_pack) when the plan is made.
 *
 *     Y = activation(alpha * X W + beta * bias), sums are floats from the first to the last, rounded once
 *
 * A few rows of X at a time pass over panels that stay in a cache near to the core. bfloat16 is multiplied in pairs where the machine has an
 * instruction for it; elsewhere, and in float16, weights become floats a piece at a time for the tiles of float, or, for a few rows, in registers
 * (half_tiles.h). What it takes lies on the stack: there is no scratch.
 *
 * Elements are added in the order of the depth, whatever the number of rows and of threads, which share either as in packed_product.c.
 */
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/half_rows.h"
#include "runtime/kernels/portable/half_tiles.h"
#include "runtime/kernels/portable/packed_product.h"
#include "runtime/kernels/portable/pair_tiles.h"
#include <string.h>

enum {
    BLOCK_COLUMNS = 128,
    NEAR_BYTES = 1 << 19, /* of panels that stay in a cache near to the core */
    TILE_ROWS = 12,       /* of a tile */
    TILE_DEPTH = 512,     /* of a part of it */
    FLOAT_ROWS = 96,      /* of a piece that becomes floats: whole tiles of 6 or 12 */
    FLOAT_DEPTH = 64,
    WIDENED_ROWS = 24, /* fewer rows are multiplied with what becomes floats in registers */
    PAGE = 4096        /* bytes: rows that are a multiple of so many apart meet in the nearest cache */
};

/* Times what floats take, as measured. */
static const double WIDENED = 1.1;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- shapes -------------------------------------------------------------------------------------------- */

static bool read_product(const op_call *call, rt_packed_product *product) {
    return rt_packed_product_read(call, product) && rt_is_half(product->dtype);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_packed_product product;
    size_t bytes;
    (void)environment;
    return read_product(call, &product) && call->inputs[1].type.layout == OP_LAYOUT_PACKED &&
           rt_product_panels_bytes(&product, &bytes) && call->inputs[1].type.packed_bytes == bytes;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    rt_packed_product product;
    /* In narrower vectors nothing was measured. */
    if (!rt_has_wide_vectors(environment)) return false;
    if (!read_product(call, &product) || !rt_packed_product_wanted(call, environment, &product)) return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    preference->inputs[1] = OP_LAYOUT_PACKED;
    return rt_product_panels_bytes(&product, &preference->packed_bytes[1]);
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    rt_packed_product product;
    (void)environment;
    if (input != 1 || !read_product(call, &product))
        return base_fail(report, BASE_INVALID, "input %u of this product is not packed", input);
    rt_product_panels_pack(&product, source->data, packed);
    return BASE_OK;
}

/* What `pack` did, back. */
static base_status unpack(const op_call *call, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *row_major, base_report *report) {
    rt_packed_product product;
    (void)environment;
    if (input != 1 || !read_product(call, &product))
        return base_fail(report, BASE_INVALID, "input %u of this product is not packed", input);
    rt_product_panels_unpack(&product, packed->data, row_major);
    return BASE_OK;
}

/* Of float16: bfloat16 has no faster kernel. */
static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    rt_packed_product product;
    size_t bytes;
    (void)scratch_limit;
    if (!read_product(call, &product) || product.dtype != OP_FLOAT16 || product.rows < 1 ||
        !rt_product_panels_bytes(&product, &bytes))
        return false;
    *cost =
        (rt_cost){.seconds = rt_packed_product_seconds((double)product.rows, (double)product.depth,
                                                       (double)product.columns, (double)bytes, environment) *
                             WIDENED,
                  .packed_bytes = bytes};
    return true;
}

/* ---- running ------------------------------------------------------------------------------------------- */

typedef struct halves_job {
    const rt_packed_product *product;
    const uint16_t *x, *panels, *bias;
    uint16_t *y;
    int64_t step; /* elements from one panel to the next */
} halves_job;

/* Finished sums of one row, at most BLOCK_COLUMNS: scaled, added to, activated and rounded once. */
static void finish(const halves_job *job, int64_t row, int64_t column, int64_t columns, float *sums) {
    const rt_packed_product *product = job->product;
    float more[BLOCK_COLUMNS];
    if (product->alpha != 1)
        for (int64_t j = 0; j < columns; j++) sums[j] *= product->alpha;
    if (product->bias == RT_BIAS_COLUMNS) {
        rt_half_load(product->dtype, more, job->bias + column, columns);
        for (int64_t j = 0; j < columns; j++) sums[j] += product->beta * more[j];
    } else if (product->bias == RT_BIAS_ONE) {
        rt_half_load(product->dtype, more, job->bias, 1);
        for (int64_t j = 0; j < columns; j++) sums[j] += product->beta * more[0];
    }
    rt_activation_fused(&product->activation, sums, columns);
    rt_half_store(product->dtype, job->y + row * product->columns + column, sums, columns);
}

/* ---- pairs --------------------------------------------------------------------------------------------- */

/* Some rows times a block of columns. */
static void multiply_pairs(const halves_job *job, int64_t row, int64_t rows, int64_t column,
                           int64_t columns) {
    const rt_packed_product *product = job->product;
    float sums[TILE_ROWS * BLOCK_COLUMNS];
    uint16_t copied[TILE_ROWS * TILE_DEPTH];
    const bool apart = rows > 1 && product->depth * (int64_t)sizeof *copied % PAGE == 0;
    for (int64_t from = 0; from < product->depth; from += TILE_DEPTH) {
        const int64_t depth = least(product->depth - from, TILE_DEPTH);
        rt_pair_tiles tiles = {.rows = rows,
                               .columns = columns,
                               .pairs = rt_pairs_of(depth),
                               .a = job->x + row * product->depth + from,
                               .a_row = product->depth,
                               .a_pair = 2,
                               .panels = job->panels + column / RT_PANEL * job->step + from * RT_PANEL,
                               .panel_step = job->step,
                               .c = sums,
                               .c_row = columns,
                               .add = from > 0};
        if (depth % 2 || apart) {
            for (int64_t i = 0; i < rows; i++) {
                uint16_t *to = copied + i * 2 * tiles.pairs;
                memcpy(to, tiles.a + i * tiles.a_row, (size_t)depth * sizeof *to);
                if (depth % 2) to[depth] = 0;
            }
            tiles.a = copied;
            tiles.a_row = 2 * tiles.pairs;
        }
        rt_pair_tiles_run(&tiles);
    }
    for (int64_t i = 0; i < rows; i++) finish(job, row + i, column, columns, sums + i * columns);
}

/* ---- floats -------------------------------------------------------------------------------------------- */

/* A part of some panels, at most FLOAT_DEPTH deep, as panels of floats. */
RT_CLONES static void part_pairs(const float *wide, int64_t depth, float *to) {
    for (int64_t k = 0; k < depth; k++)
        for (int64_t j = 0; j < RT_PANEL; j++)
            to[k * RT_PANEL + j] = wide[k / 2 * RT_PAIR_ELEMENTS + 2 * j + k % 2];
}

static void widen_panels(const halves_job *job, int64_t column, int64_t columns, int64_t from, int64_t depth,
                         float *to) {
    float wide[FLOAT_DEPTH * RT_PANEL];
    const bool registers = rt_half_tiles_here() && depth % 2 == 0;
    for (int64_t j = 0; j < columns; j += RT_PANEL, to += depth * RT_PANEL) {
        const uint16_t *pairs = job->panels + (column + j) / RT_PANEL * job->step + from * RT_PANEL;
        if (registers) {
            rt_half_panels_widen(job->product->dtype, pairs, depth / 2, to);
            continue;
        }
        rt_half_load(job->product->dtype, wide, pairs, rt_pairs_of(depth) * RT_PAIR_ELEMENTS);
        part_pairs(wide, depth, to);
    }
}

static void multiply_floats(const halves_job *job, int64_t row, int64_t rows, int64_t column,
                            int64_t columns) {
    const rt_packed_product *product = job->product;
    _Alignas(RT_ALIGNMENT) float panels[BLOCK_COLUMNS * FLOAT_DEPTH], left[FLOAT_ROWS * FLOAT_DEPTH],
        sums[FLOAT_ROWS * BLOCK_COLUMNS];
    for (int64_t from = 0; from < product->depth; from += FLOAT_DEPTH) {
        const int64_t depth = least(product->depth - from, FLOAT_DEPTH), a_row = (depth + 3) / 4 * 4;
        widen_panels(job, column, columns, from, depth, panels);
        rt_half_rows_load(product->dtype, job->x + row * product->depth + from, product->depth, rows, depth,
                          a_row, left);
        rt_tiles_run(&(rt_tiles){.rows = rows,
                                 .columns = columns,
                                 .depth = depth,
                                 .a = left,
                                 .a_row = a_row,
                                 .a_depth = 1,
                                 .panels = panels,
                                 .c = sums,
                                 .c_row = columns,
                                 .add = from > 0,
                                 .fused = true});
    }
    for (int64_t i = 0; i < rows; i++) finish(job, row + i, column, columns, sums + i * columns);
}

/* ---- floats in registers --------------------------------------------------------------------------------- */

static void multiply_wide(const halves_job *job, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const rt_packed_product *product = job->product;
    float left[TILE_ROWS * TILE_DEPTH], sums[TILE_ROWS * BLOCK_COLUMNS];
    for (int64_t from = 0; from < product->depth; from += TILE_DEPTH) {
        const int64_t depth = least(product->depth - from, TILE_DEPTH), a_row = (depth + 3) / 4 * 4;
        rt_half_rows_load(product->dtype, job->x + row * product->depth + from, product->depth, rows, depth,
                          a_row, left);
        rt_half_tiles_run(
            &(rt_half_tiles){.dtype = product->dtype,
                             .rows = rows,
                             .columns = columns,
                             .depth = depth,
                             .a = left,
                             .a_row = a_row,
                             .a_depth = 1,
                             .panels = job->panels + column / RT_PANEL * job->step + from * RT_PANEL,
                             .panel_step = job->step,
                             .c = sums,
                             .c_row = columns,
                             .add = from > 0});
    }
    for (int64_t i = 0; i < rows; i++) finish(job, row + i, column, columns, sums + i * columns);
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static void run_member(void *context, int member, int members) {
    const halves_job *job = context;
    const rt_packed_product *product = job->product;
    const rt_packed_part part = rt_packed_product_part(product, member, members);
    const bool pairs = product->dtype == OP_BFLOAT16 && rt_pairs_here(),
               tiles = pairs || (rt_half_tiles_here() && product->rows < WIDENED_ROWS);
    const int64_t most = tiles ? TILE_ROWS : FLOAT_ROWS, passes = (part.rows + most - 1) / most,
                  rows = tiles ? most : (part.rows + passes - 1) / passes, after = part.row + part.rows;
    int64_t wide = BLOCK_COLUMNS;
    while (tiles && wide > 2 * RT_PANEL && part.rows > TILE_ROWS &&
           wide / RT_PANEL * job->step * (int64_t)sizeof(uint16_t) > NEAR_BYTES)
        wide /= 2;
    for (int64_t column = part.first; column < part.end; column += wide) {
        const int64_t columns = least(part.end - column, wide);
        for (int64_t row = part.row; row < after; row += rows)
            (pairs   ? multiply_pairs
             : tiles ? multiply_wide
                     : multiply_floats)(job, row, least(after - row, rows), column, columns);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const rt_packed_product *product = prepared->state;
    halves_job job = {.product = product,
                      .x = inputs[0].data,
                      .panels = inputs[1].data,
                      .bias = product->bias != RT_BIAS_NONE ? inputs[2].data : NULL,
                      .y = outputs[0].data,
                      .step = rt_pairs_of(product->depth) * RT_PAIR_ELEMENTS};
    const double work = (double)product->rows * (double)product->depth * (double)product->columns;
    if (product->rows == 0) return BASE_OK;
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_packed_product *product = BASE_NEW(arena, rt_packed_product);
    if (!product) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_product(call, product) || product->rows < 0)
        return base_fail(report, BASE_INVALID, "this is no product with weights of 16 bits in panels");
    prepared->state = product;
    prepared->run = run;
    return BASE_OK;
}

/* Another number of rows. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    rt_packed_product *product = prepared->state;
    return accepts(call, environment) && read_product(call, product) && product->rows >= 0;
}

const rt_kernel rt_kernel_packed_halves = {.name = "portable.packed_halves",
                                           .accepts = accepts,
                                           .prefer = prefer,
                                           .pack = pack,
                                           .unpack = unpack,
                                           .estimate = estimate,
                                           .only_packed = true,
                                           .prepare = prepare,
                                           .adapt = adapt};

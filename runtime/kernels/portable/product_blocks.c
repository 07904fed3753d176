/* SPDX-License-Identifier: Apache-2.0 */
/* product_blocks.c: products in float16, bfloat16 and float64, a block at a time.
 *
 * bfloat16 is multiplied in pairs by machines that have an instruction for it (pair_tiles.h). Blocks of other 16-bit matrices become floats as
 * they are packed, for the tiles of float, or, for a few rows, in registers (half_tiles.h): a product takes about as long as in float, and sums
 * are floats from the first to the last. Doubles have tiles of their own. Elements are added in the order of the depth, whatever the number of
 * threads and the instruction set; a row or a few times a matrix whose columns lie along the depth alone is added in interleaved sums.
 */
#include "runtime/kernels/portable/product_blocks.h"
#include "runtime/kernels/portable/half_rows.h"
#include "runtime/kernels/portable/half_tiles.h"
#include "runtime/kernels/portable/pair_tiles.h"
#include <string.h>

enum {
    BLOCK_ROWS = 256,
    WIDENED_ROWS = 24, /* fewer rows are multiplied with what becomes floats in registers */
    FEW_ROWS = 4,      /* pairs: fewer rows read the right matrix where it lies */
    FEW_COLUMNS =
        1024, /* of these, at a time: sums and a part of the matrix that stay in the nearest cache */
    FEW_DEPTH = 16,
    FEW_DOUBLES = 2, /* rows */
    FEW_LONG = 4096, /* of a matrix whose columns lie along the depth */
    PAGE = 4096      /* bytes: rows that are a multiple of so many apart meet in the nearest cache */
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t rt_product_offset(int64_t index, int32_t rank, const int64_t *dims, const int64_t *strides) {
    int64_t offset = 0;
    for (int32_t i = rank - 1; i >= 0 && index; i--) {
        offset += index % dims[i] * strides[i];
        index /= dims[i];
    }
    return offset;
}

/* ---- the scratch of a block: panels of B, then rows of A and sums as floats ------------------------------- */

/* Elements of a row of A as floats (rt_half_rows_load). */
static int64_t whole(int64_t depth) {
    return (depth + 3) / 4 * 4;
}

/* Of the scratch: bytes of the panels, of A and of the sums. Doubles read A, and make their sums, where these lie. Pairs fit into the bytes of
 * floats, which are the same on every machine. */
static void block_bytes(const rt_product *product, size_t bytes[3]) {
    const bool half = rt_is_half(product->dtype);
    const size_t rows = (size_t)least(product->rows, BLOCK_ROWS),
                 deep = (size_t)least(product->depth, RT_BLOCK_DEPTH);
    const size_t columns =
        (size_t)((least(product->columns, RT_BLOCK_COLUMNS) + RT_PANEL - 1) / RT_PANEL * RT_PANEL);
    bytes[0] = columns * deep * (half ? sizeof(float) : sizeof(double));
    bytes[1] = half ? (rows * (size_t)whole((int64_t)deep) * sizeof(float) + RT_ALIGNMENT - 1) /
                          RT_ALIGNMENT * RT_ALIGNMENT
                    : 0;
    if (product->dtype == OP_BFLOAT16) { /* panels of A have whole rows */
        const size_t panels =
            (rows + RT_PAIR_ROWS - 1) / RT_PAIR_ROWS * RT_PAIR_ROWS * (deep + deep % 2) * sizeof(uint16_t);
        if (panels > bytes[1]) bytes[1] = panels;
    }
    bytes[2] = half ? rows * columns * sizeof(float) : 0;
}

size_t rt_product_block_bytes(const rt_product *product) {
    size_t bytes[3];
    block_bytes(product, bytes);
    return bytes[0] + bytes[1] + bytes[2];
}

/* ---- 16 bits -------------------------------------------------------------------------------------------- */

/* `count` elements at a distance of `step` as floats in a row. */
static void load_halves(op_dtype dtype, float *to, const uint16_t *from, int64_t step, int64_t count) {
    uint16_t gathered[RT_HALF_BLOCK];
    if (step == 1) {
        rt_half_load(dtype, to, from, count);
        return;
    }
    for (int64_t first = 0; first < count; first += RT_HALF_BLOCK) {
        const int64_t some = least(count - first, RT_HALF_BLOCK);
        for (int64_t i = 0; i < some; i++) gathered[i] = from[(first + i) * step];
        rt_half_load(dtype, to + first, gathered, some);
    }
}

/* B becomes floats in panels, by way of pairs, where so many rows are multiplied with them that to widen them in registers would take longer. */
static bool widens_panels(int64_t rows, int64_t depth) {
    return rows >= WIDENED_ROWS && depth % 2 == 0;
}

static void pack_widened(const rt_product *product, const uint16_t *b, int64_t depth, int64_t columns,
                         float *panels) {
    const int64_t pairs = (columns + RT_PANEL - 1) / RT_PANEL * (depth / 2);
    uint16_t *half = (uint16_t *)(void *)(panels + pairs * RT_PANEL); /* the second half of the floats */
    rt_pairs_pack(b, product->b_depth, product->b_column, depth, columns, half);
    rt_half_panels_widen(product->dtype, half, pairs, panels);
}

/* Rows of B along the columns where these lie side by side, else columns along the depth. */
static void pack_halves(const rt_product *product, const uint16_t *b, int64_t depth, int64_t columns,
                        float *panels) {
    float line[RT_BLOCK_DEPTH > RT_BLOCK_COLUMNS ? RT_BLOCK_DEPTH : RT_BLOCK_COLUMNS];
    memset(panels, 0, (size_t)((columns + RT_PANEL - 1) / RT_PANEL * RT_PANEL * depth) * sizeof *panels);
    if (product->b_column == 1) {
        for (int64_t k = 0; k < depth; k++) {
            rt_half_load(product->dtype, line, b + k * product->b_depth, columns);
            for (int64_t j = 0; j < columns; j += RT_PANEL)
                memcpy(panels + j * depth + k * RT_PANEL, line + j,
                       (size_t)least(columns - j, RT_PANEL) * sizeof *line);
        }
        return;
    }
    for (int64_t j = 0; j < columns; j++) {
        float *column = panels + j / RT_PANEL * RT_PANEL * depth + j % RT_PANEL;
        load_halves(product->dtype, line, b + j * product->b_column, product->b_depth, depth);
        for (int64_t k = 0; k < depth; k++) column[k * RT_PANEL] = line[k];
    }
}

/* Finished sums of one row from `column` on, at most RT_BLOCK_COLUMNS: scaled, added to, activated, and rounded once. */
static void finish_halves(const rt_product_block *block, int64_t row, int64_t column, int64_t columns,
                          float *sums) {
    const rt_product *product = block->product;
    float more[RT_BLOCK_COLUMNS];
    const int64_t line = block->batch * product->rows + row;
    if (product->alpha != 1)
        for (int64_t j = 0; j < columns; j++) sums[j] *= (float)product->alpha;
    if (product->addend) {
        const uint16_t *addend =
            (const uint16_t *)block->addend +
            rt_product_offset(line, product->addend_rank, product->addend_dims, product->addend_strides) +
            column * product->addend_column;
        load_halves(product->dtype, more, addend, product->addend_column, columns);
        for (int64_t j = 0; j < columns; j++) sums[j] += (float)product->beta * more[j];
    }
    rt_activation_floats(&product->activation, sums, columns);
    rt_half_store(product->dtype, (uint16_t *)block->y + line * product->columns + column, sums, columns);
}

/* Rows of A and a part of its depth as floats: row by row, or, where the rows lie side by side, so. */
static void load_left(const rt_product *product, const uint16_t *a, int64_t rows, int64_t depth,
                      int64_t a_row, float *left) {
    if (product->a_row == 1 && product->a_depth != 1) {
        for (int64_t k = 0; k < depth; k++)
            rt_half_load(product->dtype, left + k * rows, a + k * product->a_depth, rows);
        return;
    }
    if (product->a_depth == 1) {
        rt_half_rows_load(product->dtype, a, product->a_row, rows, depth, a_row, left);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        load_halves(product->dtype, left + i * a_row, a + i * product->a_row, product->a_depth, depth);
}

static void run_halves(const rt_product_block *block, const uint16_t *a, const uint16_t *b) {
    const rt_product *product = block->product;
    const bool turned = product->a_row == 1 && product->a_depth != 1, registers = rt_half_tiles_here();
    size_t bytes[3];
    block_bytes(product, bytes);
    float *panels = block->scratch, *left = (float *)(void *)((char *)block->scratch + bytes[0]),
          *sums = (float *)(void *)((char *)left + bytes[1]);
    for (int64_t first = 0; first < block->rows; first += BLOCK_ROWS) {
        const int64_t rows = least(block->rows - first, BLOCK_ROWS), row = block->row + first;
        for (int64_t from = 0; from < product->depth; from += RT_BLOCK_DEPTH) {
            const int64_t depth = least(product->depth - from, RT_BLOCK_DEPTH),
                          a_row = turned ? 1 : whole(depth), a_depth = turned ? rows : 1;
            const uint16_t *right = b + from * product->b_depth;
            load_left(product, a + row * product->a_row + from * product->a_depth, rows, depth, a_row, left);
            const bool widened = registers && widens_panels(rows, depth);
            if (registers && !widened) {
                rt_pairs_pack(right, product->b_depth, product->b_column, depth, block->columns,
                              block->scratch);
                rt_half_tiles_run(&(rt_half_tiles){.dtype = product->dtype,
                                                   .rows = rows,
                                                   .columns = block->columns,
                                                   .depth = depth,
                                                   .a = left,
                                                   .a_row = a_row,
                                                   .a_depth = a_depth,
                                                   .panels = block->scratch,
                                                   .panel_step = rt_pairs_of(depth) * RT_PAIR_ELEMENTS,
                                                   .c = sums,
                                                   .c_row = block->columns,
                                                   .add = from > 0});
                continue;
            }
            (widened ? pack_widened : pack_halves)(product, right, depth, block->columns, panels);
            rt_tiles_run(&(rt_tiles){.rows = rows,
                                     .columns = block->columns,
                                     .depth = depth,
                                     .a = left,
                                     .a_row = a_row,
                                     .a_depth = a_depth,
                                     .panels = panels,
                                     .c = sums,
                                     .c_row = block->columns,
                                     .add = from > 0,
                                     .fused = true});
        }
        if (product->depth == 0) memset(sums, 0, (size_t)(rows * block->columns) * sizeof *sums);
        for (int64_t i = 0; i < rows; i++)
            finish_halves(block, row + i, block->column, block->columns, sums + i * block->columns);
    }
}

/* ---- 16 bits, few rows ------------------------------------------------------------------------------------ */

static bool in_pairs(const rt_product *product) {
    return product->dtype == OP_BFLOAT16 && rt_pairs_here();
}

/* So few rows that reading the right matrix is all there is to it: that is done once, where it lies. */
static bool reads_in_place(const rt_product *product) {
    return rt_is_half(product->dtype) && rt_half_tiles_here() && product->rows < FEW_ROWS &&
           (product->b_column == 1 || (product->b_depth == 1 && product->a_depth == 1));
}

int64_t rt_product_block_columns(const rt_product *product) {
    return reads_in_place(product) ? FEW_COLUMNS : RT_BLOCK_COLUMNS;
}

/* Adds what a part of the depth of one row gives. */
static void add_few(const rt_product *product, const uint16_t *a, const uint16_t *b, int64_t depth,
                    int64_t after, int64_t columns, float *sums) {
    uint16_t gathered[FEW_DEPTH] = {0};
    float left[FEW_LONG];
    if (in_pairs(product)) { /* of columns that lie along the rows */
        for (int64_t k = 0; k < depth; k++) gathered[k] = a[k * product->a_depth];
        rt_pair_row(gathered, b, product->b_depth, depth, after, columns, sums);
        return;
    }
    load_halves(product->dtype, left, a, product->a_depth, depth);
    if (product->b_column == 1)
        rt_half_row(product->dtype, left, b, product->b_depth, depth, after, columns, sums);
    else rt_half_dots(product->dtype, left, b, product->b_column, depth, columns, sums);
}

static void run_few(const rt_product_block *block, const uint16_t *a, const uint16_t *b) {
    const rt_product *product = block->product;
    float sums[FEW_ROWS - 1][FEW_COLUMNS];
    const int64_t columns = block->columns;
    const bool along = product->b_column == 1, dots = !along && in_pairs(product) && product->depth > 0;
    for (int64_t i = 0; i < block->rows; i++) {
        if (dots)
            rt_pair_dots(a + (block->row + i) * product->a_row, b, product->b_column, product->depth, columns,
                         sums[i]);
        else memset(sums[i], 0, (size_t)columns * sizeof(float));
    }
    const int64_t each = along ? FEW_DEPTH : FEW_LONG;
    for (int64_t from = 0; from < product->depth && !dots; from += each) {
        const int64_t depth = least(product->depth - from, each);
        for (int64_t i = 0; i < block->rows; i++)
            add_few(product, a + (block->row + i) * product->a_row + from * product->a_depth,
                    b + from * product->b_depth, depth, product->depth - from - depth, columns, sums[i]);
    }
    for (int64_t i = 0; i < block->rows; i++) {
        for (int64_t j = 0; j < columns; j += RT_BLOCK_COLUMNS)
            finish_halves(block, block->row + i, block->column + j, least(columns - j, RT_BLOCK_COLUMNS),
                          sums[i] + j);
    }
}

/* ---- bfloat16 in pairs ----------------------------------------------------------------------------------- */

/* Some rows of A and some of its depth, from `a` on, times a block of panels. They are read where they lie if they can be; else they are
 * copied to `left`: into panels as of a right matrix where the depth does not lie side by side. */
static void multiply_pairs(const rt_product *product, const uint16_t *a, int64_t depth, rt_pair_tiles *tiles,
                           uint16_t *left) {
    const int64_t rows = tiles->rows;
    if (product->a_depth == 1) {
        tiles->a = a;
        tiles->a_row = product->a_row;
        tiles->a_pair = 2;
        if (depth % 2 || (rows > 1 && product->a_row * (int64_t)sizeof *a % PAGE == 0)) {
            tiles->a = left;
            tiles->a_row = 2 * tiles->pairs;
            for (int64_t i = 0; i < rows; i++) {
                memcpy(left + i * tiles->a_row, a + i * product->a_row, (size_t)depth * sizeof *a);
                if (depth % 2) left[i * tiles->a_row + depth] = 0;
            }
        }
        rt_pair_tiles_run(tiles);
        return;
    }
    float *c = tiles->c;
    rt_pairs_pack(a, product->a_depth, product->a_row, depth, rows, left);
    tiles->a_row = 2;
    tiles->a_pair = RT_PAIR_ELEMENTS;
    for (int64_t i = 0; i < rows; i += RT_PAIR_ROWS) {
        tiles->rows = least(rows - i, RT_PAIR_ROWS);
        tiles->a = left + i * 2 * tiles->pairs;
        tiles->c = c + i * tiles->c_row;
        rt_pair_tiles_run(tiles);
    }
}

static void run_pairs(const rt_product_block *block, const uint16_t *a, const uint16_t *b) {
    const rt_product *product = block->product;
    size_t bytes[3];
    block_bytes(product, bytes);
    uint16_t *panels = block->scratch, *left = (uint16_t *)(void *)((char *)block->scratch + bytes[0]);
    float *sums = (float *)(void *)((char *)left + bytes[1]);
    for (int64_t first = 0; first < block->rows; first += BLOCK_ROWS) {
        const int64_t rows = least(block->rows - first, BLOCK_ROWS), row = block->row + first;
        for (int64_t from = 0; from < product->depth; from += RT_BLOCK_DEPTH) {
            const int64_t depth = least(product->depth - from, RT_BLOCK_DEPTH);
            rt_pairs_pack(b + from * product->b_depth, product->b_depth, product->b_column, depth,
                          block->columns, panels);
            multiply_pairs(product, a + row * product->a_row + from * product->a_depth, depth,
                           &(rt_pair_tiles){.rows = rows,
                                            .columns = block->columns,
                                            .pairs = rt_pairs_of(depth),
                                            .panels = panels,
                                            .c = sums,
                                            .c_row = block->columns,
                                            .add = from > 0},
                           left);
        }
        if (product->depth == 0) memset(sums, 0, (size_t)(rows * block->columns) * sizeof *sums);
        for (int64_t i = 0; i < rows; i++)
            finish_halves(block, row + i, block->column, block->columns, sums + i * block->columns);
    }
}

/* ---- doubles -------------------------------------------------------------------------------------------- */

static void pack_doubles(const rt_product *product, const double *b, int64_t depth, int64_t columns,
                         double *panels) {
    for (int64_t j = 0; j < columns; j += RT_PANEL) {
        double *panel = panels + j * depth;
        const int64_t wide = least(columns - j, RT_PANEL);
        if (wide < RT_PANEL) memset(panel, 0, (size_t)(depth * RT_PANEL) * sizeof *panel);
        for (int64_t k = 0; k < depth; k++) {
            const double *from = b + k * product->b_depth + j * product->b_column;
            if (product->b_column == 1 && wide == RT_PANEL) {
                memcpy(panel + k * RT_PANEL, from, RT_PANEL * sizeof *from);
                continue;
            }
            for (int64_t i = 0; i < wide; i++) panel[k * RT_PANEL + i] = from[i * product->b_column];
        }
    }
}

static void finish_doubles(const rt_product_block *block, int64_t row, double *sums) {
    const rt_product *product = block->product;
    const int64_t columns = block->columns, line = block->batch * product->rows + row;
    if (product->alpha != 1)
        for (int64_t j = 0; j < columns; j++) sums[j] *= product->alpha;
    if (product->addend) {
        const double *addend =
            (const double *)block->addend +
            rt_product_offset(line, product->addend_rank, product->addend_dims, product->addend_strides) +
            block->column * product->addend_column;
        for (int64_t j = 0; j < columns; j++) sums[j] += product->beta * addend[j * product->addend_column];
    }
    for (int64_t j = 0; j < columns && product->activation.kind != RT_ACTIVATION_NONE; j++)
        sums[j] = rt_activation_value(&product->activation, sums[j]);
}

/* y[j] += the sum over k of a[k] * b[k][j], added in the order of k. */
RT_CLONES static void add_rows_of_doubles(const double *a, int64_t a_depth, const double *b, int64_t b_depth,
                                          int64_t depth, int64_t columns, double *restrict y) {
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4, a += 4 * a_depth, b += 4 * b_depth) {
        const double first = a[0], second = a[a_depth], third = a[2 * a_depth], fourth = a[3 * a_depth];
        RT_VECTOR for (int64_t j = 0; j < columns; j++) {
            y[j] = y[j] + first * b[j] + second * b[b_depth + j] + third * b[2 * b_depth + j] +
                   fourth * b[3 * b_depth + j];
        }
    }
    for (; k < depth; k++, a += a_depth, b += b_depth)
        RT_VECTOR for (int64_t j = 0; j < columns; j++) y[j] += *a * b[j];
}

/* So few rows that to read the matrix is all that takes time: where it lies. False: it lies in no way that is read well. */
static bool run_few_doubles(const rt_product_block *block, const double *a, const double *b, double *y) {
    const rt_product *product = block->product;
    if (product->rows > FEW_DOUBLES || product->depth == 0) return false;
    if (product->b_column != 1 && (product->b_depth != 1 || product->a_depth != 1)) return false;
    for (int64_t i = 0; i < block->rows; i++, y += product->columns) {
        const double *row = a + (block->row + i) * product->a_row;
        if (product->b_column != 1) {
            rt_dots_doubles(row, b, product->b_column, product->depth, block->columns, y);
            continue;
        }
        memset(y, 0, (size_t)block->columns * sizeof *y);
        add_rows_of_doubles(row, product->a_depth, b, product->b_depth, product->depth, block->columns, y);
    }
    return true;
}

static void run_doubles(const rt_product_block *block, const double *a, const double *b) {
    const rt_product *product = block->product;
    double *panels = block->scratch, *y = (double *)block->y +
                                          (block->batch * product->rows + block->row) * product->columns +
                                          block->column;
    const bool few = run_few_doubles(block, a, b, y);
    for (int64_t from = 0; !few && from < product->depth; from += RT_BLOCK_DEPTH) {
        const int64_t depth = least(product->depth - from, RT_BLOCK_DEPTH);
        pack_doubles(product, b + from * product->b_depth, depth, block->columns, panels);
        rt_tiles_doubles(block->rows, block->columns, depth,
                         a + block->row * product->a_row + from * product->a_depth, product->a_row,
                         product->a_depth, panels, y, product->columns, from > 0, product->fused);
    }
    for (int64_t i = 0; i < block->rows; i++) {
        if (product->depth == 0) memset(y + i * product->columns, 0, (size_t)block->columns * sizeof *y);
        finish_doubles(block, block->row + i, y + i * product->columns);
    }
}

void rt_product_block_run(const rt_product_block *block) {
    const rt_product *product = block->product;
    const int64_t a = rt_product_offset(block->batch, product->batch_rank, product->batch_dims,
                                        product->a_batch),
                  b = rt_product_offset(block->batch, product->batch_rank, product->batch_dims,
                                        product->b_batch) +
                      block->column * product->b_column;
    if (product->dtype == OP_DOUBLE)
        run_doubles(block, (const double *)block->a + a, (const double *)block->b + b);
    else
        (reads_in_place(product) ? run_few
         : in_pairs(product)
             ? run_pairs
             : run_halves)(block, (const uint16_t *)block->a + a, (const uint16_t *)block->b + b);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* product.c: stacks of matrix products in every numeric type; see product.h. */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/few_rows.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/product_blocks.h"
#include "runtime/kernels/portable/turn.h"
#include "runtime/kernels/portable/wide_tiles.h"
#include <string.h>

enum {
    THIN_ROWS = 4,       /* products with fewer rows read the right matrix once, where it lies */
    THIN_COLUMNS = 4096, /* columns of a thin product that one step works on: a row that stays in the cache */
    TOGETHER = 32,       /* products whose right matrices are read row by row in turn */
    LINE = 16,           /* floats of a line of the cache */
    ASK_AHEAD = 4,       /* rows of a quarter */
    FEW_DEPTH = 64,      /* of a few rows: shorter sums are not worth making them one */
    FEW_DOTS = 256,      /* fewer short sums are not worth panels */
    FEW_WORK = 4 * RT_PARALLEL_WORK /* of a few rows, which go fast: less is done by one thread */
};

#define LOAD(dtype, type)                                                                                    \
    case dtype:                                                                                              \
        return (double)((const type *)data)[index]

double rt_element_load(op_dtype dtype, const void *data, int64_t index) {
    switch (dtype) {
        LOAD(OP_FLOAT, float);
        LOAD(OP_DOUBLE, double);
        LOAD(OP_INT8, int8_t);
        LOAD(OP_INT16, int16_t);
        LOAD(OP_INT32, int32_t);
        LOAD(OP_INT64, int64_t);
        LOAD(OP_UINT8, uint8_t);
        LOAD(OP_UINT16, uint16_t);
        LOAD(OP_UINT32, uint32_t);
        LOAD(OP_UINT64, uint64_t);
    case OP_FLOAT16:
        return (double)base_float_from_half(((const uint16_t *)data)[index]);
    case OP_BFLOAT16:
        return (double)base_float_from_bfloat16(((const uint16_t *)data)[index]);
    default:
        return 0;
    }
}

/* A number as an integer, or the nearest one that the type has; NaN is the least one. */
#define NEAREST(type, value, least, most)                                                                    \
    ((value) >= (double)(most) ? (type)(most) : (value) > (double)(least) ? (type)(value) : (type)(least))

void rt_element_store(op_dtype dtype, void *data, int64_t index, double value) {
    switch (dtype) {
    case OP_FLOAT:
        ((float *)data)[index] = (float)value;
        break;
    case OP_DOUBLE:
        ((double *)data)[index] = value;
        break;
    case OP_FLOAT16:
        ((uint16_t *)data)[index] = base_half_from_double(value);
        break;
    case OP_BFLOAT16:
        ((uint16_t *)data)[index] = base_bfloat16_from_double(value);
        break;
    case OP_INT8:
        ((int8_t *)data)[index] = NEAREST(int8_t, value, INT8_MIN, INT8_MAX);
        break;
    case OP_UINT8:
        ((uint8_t *)data)[index] = NEAREST(uint8_t, value, 0, UINT8_MAX);
        break;
    default:
        break;
    }
}

void rt_elements_load(op_dtype dtype, double *to, const void *data, int64_t first, int64_t count) {
    if (dtype == OP_FLOAT)
        for (int64_t i = 0; i < count; i++) to[i] = (double)((const float *)data)[first + i];
    else
        for (int64_t i = 0; i < count; i++) to[i] = rt_element_load(dtype, data, first + i);
}

void rt_elements_store(op_dtype dtype, void *data, int64_t first, const double *from, int64_t count) {
    if (dtype == OP_FLOAT)
        for (int64_t i = 0; i < count; i++) ((float *)data)[first + i] = (float)from[i];
    else
        for (int64_t i = 0; i < count; i++) rt_element_store(dtype, data, first + i, from[i]);
}

/* ---- where things are -------------------------------------------------------------------------------------
 */

typedef struct product_job {
    const rt_product *product;
    const char *a, *b, *addend;
    char *y;
    char *scratch;
    int64_t row_parts, column_parts, columns_each, rows_each;
} product_job;

/* The left and the right matrix of one product of the stack. */
static const float *left_matrix(const product_job *job, int64_t batch) {
    const rt_product *product = job->product;
    return (const float *)job->a +
           rt_product_offset(batch, product->batch_rank, product->batch_dims, product->a_batch);
}

static const float *right_matrix(const product_job *job, int64_t batch) {
    const rt_product *product = job->product;
    return (const float *)job->b +
           rt_product_offset(batch, product->batch_rank, product->batch_dims, product->b_batch);
}

/* What is left to do for `columns` finished sums of one row, starting at `column`, but for the activation. */
static void scale_floats(const product_job *job, int64_t row, int64_t column, int64_t columns, float *y) {
    const rt_product *product = job->product;
    const float alpha = (float)product->alpha, beta = (float)product->beta;
    if (product->alpha != 1) {
        for (int64_t j = 0; j < columns; j++) y[j] *= alpha;
    }
    if (product->addend) {
        const float *addend =
            (const float *)job->addend +
            rt_product_offset(row, product->addend_rank, product->addend_dims, product->addend_strides) +
            column * product->addend_column;
        if (product->addend_column) {
            for (int64_t j = 0; j < columns; j++) y[j] += beta * addend[j];
        } else {
            const float value = beta * addend[0];
            for (int64_t j = 0; j < columns; j++) y[j] += value;
        }
    }
}

static void finish_floats(const product_job *job, int64_t row, int64_t column, int64_t columns, float *y) {
    scale_floats(job, row, column, columns, y);
    rt_activation_floats(&job->product->activation, y, columns);
}

/* ---- float: panels ------------------------------------------------------------------------------------- */

#if RT_X86_KERNELS
/* pack_panels, of rows whose elements lie side by side, with AVX-512. */
__attribute__((target("avx512f"))) static void pack_wide(const float *b, int64_t b_depth, int64_t depth,
                                                         int64_t columns, float *panels) {
    for (int64_t first = 0; first < columns; first += RT_PANEL) {
        const __mmask16 there = rt_first_lanes_16(columns - first);
        for (int64_t k = 0; k < depth; k++)
            _mm512_storeu_ps(panels + first * depth + k * RT_PANEL,
                             _mm512_maskz_loadu_ps(there, b + k * b_depth + first));
    }
}
#else
#define pack_wide(b, b_depth, depth, columns, panels) (void)0
#endif

/* Copies rows [from, from + depth) and `columns` columns of B into panels. */
RT_CLONES static void pack_panels(const float *b, int64_t b_depth, int64_t b_column, int64_t depth,
                                  int64_t columns, float *panels) {
    for (int64_t first = 0; first < columns; first += RT_PANEL) {
        float *panel = panels + first * depth;
        const float *from = b + first * b_column;
        const int64_t width = columns - first < RT_PANEL ? columns - first : RT_PANEL;
        if (width < RT_PANEL) memset(panel, 0, (size_t)(depth * RT_PANEL) * sizeof(float));
        if (b_column == 1 && width == RT_PANEL) {
            for (int64_t k = 0; k < depth; k++)
                memcpy(panel + k * RT_PANEL, from + k * b_depth, RT_PANEL * sizeof(float));
        } else if (b_column == 1) {
            for (int64_t k = 0; k < depth; k++)
                memcpy(panel + k * RT_PANEL, from + k * b_depth, (size_t)width * sizeof(float));
        } else if (b_depth == 1) {
            rt_turn_words((const uint32_t *)(const void *)from, b_column, width, depth,
                          (uint32_t *)(void *)panel, RT_PANEL);
        } else {
            for (int64_t j = 0; j < width; j++) {
                for (int64_t k = 0; k < depth; k++)
                    panel[k * RT_PANEL + j] = from[k * b_depth + j * b_column];
            }
        }
    }
}

/* What the tiles of a block do with sums by themselves: false where more is left to do. */
static bool finished_by_tiles(const product_job *job, int64_t column, rt_tiles *tiles) {
    const rt_product *product = job->product;
    if (product->alpha != 1 || product->beta != 1 ||
        !rt_activation_limits(&product->activation, &tiles->low, &tiles->high))
        return false;
    if (product->addend) {
        for (int32_t i = 0; i < product->addend_rank; i++)
            if (product->addend_strides[i] != 0 && product->addend_dims[i] != 1) return false;
        if (product->addend_column != 1) return false;
        tiles->bias = (const float *)job->addend + column;
    }
    tiles->limited = product->activation.kind != RT_ACTIVATION_NONE;
    return true;
}

static void multiply_block(const product_job *job, int64_t batch, int64_t row, int64_t rows, int64_t column,
                           int64_t columns, float *panels) {
    const rt_product *product = job->product;
    const float *a = left_matrix(job, batch) + row * product->a_row;
    const float *b = right_matrix(job, batch) + column * product->b_column;
    float *y = (float *)job->y + (batch * product->rows + row) * product->columns + column;
    rt_tiles ends = {0};
    const bool finished = product->depth > 0 && finished_by_tiles(job, column, &ends),
               wide = product->b_column == 1 && rt_wide_vectors_here();
    for (int64_t from = 0; from < product->depth; from += RT_BLOCK_DEPTH) {
        const int64_t rest = product->depth - from, depth = rest < RT_BLOCK_DEPTH ? rest : RT_BLOCK_DEPTH;
        const float *right = b + from * product->b_depth;
        const bool last = finished && depth == rest;
        if (wide) pack_wide(right, product->b_depth, depth, columns, panels);
        else pack_panels(right, product->b_depth, product->b_column, depth, columns, panels);
        rt_tiles_run(&(rt_tiles){.rows = rows,
                                 .columns = columns,
                                 .depth = depth,
                                 .a = a + from * product->a_depth,
                                 .a_row = product->a_row,
                                 .a_depth = product->a_depth,
                                 .panels = panels,
                                 .c = y,
                                 .c_row = product->columns,
                                 .bias = last ? ends.bias : NULL,
                                 .limited = last && ends.limited,
                                 .low = ends.low,
                                 .high = ends.high,
                                 .add = from > 0,
                                 .fused = product->fused});
    }
    for (int64_t i = 0; i < rows && !finished; i++) {
        float *line = y + i * product->columns;
        if (product->depth == 0) memset(line, 0, (size_t)columns * sizeof(float));
        finish_floats(job, batch * product->rows + row + i, column, columns, line);
    }
}

/* ---- float: few rows, bound by reading B --------------------------------------------------------------- */

/* y[j] += a[0] * b[0][j] + ... + a[3] * b[3][j]; the rows of b are `far` elements apart. A step of the loop reads a line of the
 * cache of each row. */
static inline void add_four(const float *a, int64_t a_far, const float *b, int64_t b_far, int64_t columns,
                            float *restrict y) {
    const float a0 = a[0], a1 = a[a_far], a2 = a[2 * a_far], a3 = a[3 * a_far];
    const float *b0 = b, *b1 = b0 + b_far, *b2 = b1 + b_far, *b3 = b2 + b_far;
    int64_t j = 0;
    for (; j + LINE <= columns; j += LINE) {
        RT_VECTOR for (int64_t i = j; i < j + LINE; i++) y[i] +=
            (a0 * b0[i] + a2 * b2[i]) + (a1 * b1[i] + a3 * b3[i]);
    }
    for (; j < columns; j++) y[j] += (a0 * b0[j] + a2 * b2[j]) + (a1 * b1[j] + a3 * b3[j]);
}

/* What rt_rows_stack does. Four rows are added at a time, one of each
 * quarter of b: memory is read from front to back in four places, where a processor reads ahead by itself. */
RT_CLONES static void add_rows(const rt_thin *stack, int64_t size, int64_t a_depth, int64_t b_depth,
                               int64_t depth, int64_t columns) {
    const int64_t quarter = depth / 4;
    const bool ask = rt_thin_shared(stack, size, (size_t)columns * sizeof(float));
    for (int64_t k = 0; k < quarter; k++) {
        for (int64_t i = 0; i < size && ask && k + ASK_AHEAD < quarter; i++) {
            if (i > 0 && stack[i].b == stack[i - 1].b) continue;
            for (int64_t r = 0; r < 4; r++)
                rt_prefetch(stack[i].b + (k + ASK_AHEAD + r * quarter) * b_depth,
                            (size_t)columns * sizeof(float));
        }
        for (const rt_thin *one = stack; one < stack + size; one++)
            add_four(one->a + k * a_depth, quarter * a_depth, one->b + k * b_depth, quarter * b_depth,
                     columns, one->y);
    }
    for (int64_t k = 4 * quarter; k < depth; k++) {
        for (const rt_thin *one = stack; one < stack + size; one++) {
            const float value = one->a[k * a_depth];
            const float *row = one->b + k * b_depth;
            for (int64_t j = 0; j < columns; j++) one->y[j] += value * row[j];
        }
    }
}

void rt_rows_stack(const rt_thin *stack, int64_t size, int64_t a_depth, int64_t b_depth, int64_t depth,
                   int64_t columns) {
    add_rows(stack, size, a_depth, b_depth, depth, columns);
}

/* Of few rows and one column, whose elements lie together: rows times rows. */
static bool is_dots(const rt_product *product) {
    return product->columns == 1 && !product->part && product->a_depth == 1 && product->b_depth == 1;
}

/* Some columns of the products [first, end) of the stack. */
static void multiply_thin(const product_job *job, int64_t first, int64_t end, int64_t column,
                          int64_t columns) {
    const rt_product *product = job->product;
    rt_thin stack[TOGETHER * (THIN_ROWS - 1)];
    for (int64_t from = first; from < end; from += TOGETHER) {
        int64_t size = 0, line = from * product->rows;
        for (int64_t batch = from; batch < end && batch < from + TOGETHER; batch++) {
            const float *a = left_matrix(job, batch);
            const float *b = right_matrix(job, batch) + column * product->b_column;
            for (int64_t row = 0; row < product->rows; row++, size++)
                stack[size] = (rt_thin){a + row * product->a_row, b,
                                        (float *)job->y + (line + size) * product->columns + column};
        }
        if (product->b_column == 1 && !is_dots(product)) {
            for (int64_t i = 0; i < size; i++) memset(stack[i].y, 0, (size_t)columns * sizeof(float));
            add_rows(stack, size, product->a_depth, product->b_depth, product->depth, columns);
        } else {
            rt_dots_stack(stack, size, product->b_column, product->depth, columns);
        }
        for (int64_t i = 0; i < size; i++) finish_floats(job, line + i, column, columns, stack[i].y);
    }
}

/* Thin products whose right matrices lie interleaved in memory: row by row for all of them, so that memory is read from front
 * to back; or those of one column. */
static void multiply_together(void *context, int member, int members) {
    const product_job *job = context;
    const rt_product *product = job->product;
    if (product->b_column == 1) {
        multiply_thin(job, product->batches * member / members, product->batches * (member + 1) / members, 0,
                      product->columns);
        return;
    }
    const int64_t first = product->columns * member / members,
                  end = product->columns * (member + 1) / members;
    multiply_thin(job, 0, product->batches, first, end - first);
}

/* A matrix times one column is that column times the matrix turned round, which is read once, where it lies. */
static void multiply_column(const product_job *job, int64_t batch, int64_t row, int64_t rows) {
    const rt_product *product = job->product;
    const float *a = left_matrix(job, batch) + row * product->a_row, *b = right_matrix(job, batch);
    float *y = (float *)job->y + batch * product->rows + row;
    if (product->a_row == 1) {
        memset(y, 0, (size_t)rows * sizeof(float));
        add_rows(&(rt_thin){b, a, y}, 1, product->b_depth, product->a_depth, product->depth, rows);
    } else {
        rt_dots(b, a, product->a_row, product->depth, rows, y);
    }
    for (int64_t i = 0; i < rows && (product->alpha != 1 || product->addend); i++)
        scale_floats(job, batch * product->rows + row + i, 0, 1, y + i);
    rt_activation_floats(&product->activation, y, rows);
}

bool rt_product_is_column(const rt_product *product) {
    return product->dtype == OP_FLOAT && product->columns == 1 && !product->part &&
           product->rows >= THIN_ROWS &&
           (product->a_row == 1 || (product->a_depth == 1 && product->b_depth == 1 &&
                                    (product->depth >= RT_DOT_LANES || product->rows < FEW_DOTS)));
}

static bool in_blocks(const rt_product *product) {
    return product->dtype == OP_DOUBLE || rt_is_half(product->dtype);
}

static bool is_thin(const rt_product *product) {
    return product->rows < THIN_ROWS &&
           (product->b_column == 1 || (product->b_depth == 1 && product->a_depth == 1));
}

void rt_product_allow(rt_product *product, const rt_environment *environment) {
    product->fused = !environment->portable_only;
    product->few = rt_has_wide_vectors(environment);
}

bool rt_product_is_few(const rt_product *product) {
    return product->few && product->dtype == OP_FLOAT && product->rows >= THIN_ROWS &&
           product->rows <= RT_FEW_ROWS && !rt_product_is_column(product) &&
           (product->b_column == 1 ||
            (product->b_depth == 1 && product->a_depth == 1 && product->depth >= FEW_DEPTH));
}

/* Some columns of the product of a few rows. */
static void multiply_few(const product_job *job, int64_t batch, int64_t column, int64_t columns) {
    const rt_product *product = job->product;
    const int64_t line = batch * product->rows;
    float *y = (float *)job->y + line * product->columns + column;
    rt_few_rows_run(&(rt_few_rows){.rows = product->rows,
                                   .columns = columns,
                                   .depth = product->depth,
                                   .a = left_matrix(job, batch),
                                   .a_row = product->a_row,
                                   .a_depth = product->a_depth,
                                   .b = right_matrix(job, batch) + column * product->b_column,
                                   .b_depth = product->b_depth,
                                   .b_column = product->b_column,
                                   .y = y,
                                   .y_row = product->columns});
    for (int64_t i = 0; i < product->rows; i++)
        finish_floats(job, line + i, column, columns, y + i * product->columns);
}

/* Whether the right matrices lie between each other's rows, as the heads of a cache do that grows by positions. */
static bool is_interleaved(const rt_product *product) {
    const int64_t row = product->b_column == 1 ? product->b_depth : product->b_column;
    bool among_rows = false;
    for (int32_t i = 0; i < product->batch_rank; i++) {
        if (product->batch_dims[i] == 1) continue;
        if (product->b_batch[i] >= row) return false;
        among_rows = among_rows || product->b_batch[i] > 0;
    }
    return among_rows;
}

/* ---- the other types ----------------------------------------------------------------------------------- */

enum { FEWEST_SIDE_BY_SIDE = 4 }; /* columns: of fewer, sums are made one by one */

/* y[j] = the sum over k of a[k * a_depth] * b[k * b_depth + j], modulo a power of two: the same with and without signs. */
#define INTEGER_ROW(name, wide)                                                                              \
    RT_CLONES static void name(const wide *a, int64_t a_depth, const wide *b, int64_t b_depth,               \
                               int64_t depth, int64_t columns, wide *restrict y) {                           \
        int64_t k = 0;                                                                                       \
        memset(y, 0, (size_t)columns * sizeof *y);                                                           \
        for (; k + 4 <= depth; k += 4, a += 4 * a_depth, b += 4 * b_depth) {                                 \
            const wide first = a[0], second = a[a_depth], third = a[2 * a_depth], fourth = a[3 * a_depth];   \
            RT_VECTOR for (int64_t j = 0; j < columns; j++) {                                                \
                y[j] += first * b[j] + second * b[b_depth + j] + third * b[2 * b_depth + j] +                \
                        fourth * b[3 * b_depth + j];                                                         \
            }                                                                                                \
        }                                                                                                    \
        for (; k < depth; k++, a += a_depth, b += b_depth)                                                   \
            RT_VECTOR for (int64_t j = 0; j < columns; j++) y[j] += *a * b[j];                               \
    }
INTEGER_ROW(sum_words, uint32_t)
INTEGER_ROW(sum_long_words, uint64_t)

/* A part of a row of integers, from the elements a, b and y on. False: the type is another one, or there are not several columns side by side. */
static bool sum_integers(const product_job *job, int64_t a, int64_t b, int64_t columns, int64_t y) {
    const rt_product *product = job->product;
    if (product->b_column != 1 || columns < FEWEST_SIDE_BY_SIDE) return false;
    if (product->dtype == OP_INT32 || product->dtype == OP_UINT32)
        sum_words((const uint32_t *)job->a + a, product->a_depth, (const uint32_t *)job->b + b,
                  product->b_depth, product->depth, columns, (uint32_t *)job->y + y);
    else if (product->dtype == OP_INT64 || product->dtype == OP_UINT64)
        sum_long_words((const uint64_t *)job->a + a, product->a_depth, (const uint64_t *)job->b + b,
                       product->b_depth, product->depth, columns, (uint64_t *)job->y + y);
    else return false;
    return true;
}

/* Integers wrap around; unsigned arithmetic says so. Those that factors make are limited. */
#define INTEGER_ELEMENT(type, wide, least, most)                                                             \
    {                                                                                                        \
        const type *left = (const type *)job->a + a, *right = (const type *)job->b + b;                      \
        wide sum = summed ? (wide)((const type *)job->y)[y] : 0;                                             \
        for (int64_t k = 0; k < product->depth && !summed; k++) {                                            \
            sum += (wide)left[k * product->a_depth] * (wide)right[k * product->b_depth];                     \
        }                                                                                                    \
        if (product->alpha != 1) sum = (wide)NEAREST(type, (double)(type)sum * product->alpha, least, most); \
        if (product->addend) {                                                                               \
            type more = ((const type *)job->addend)[c];                                                      \
            sum += product->beta == 1 ? (wide)more                                                           \
                                      : (wide)NEAREST(type, (double)more * product->beta, least, most);      \
        }                                                                                                    \
        ((type *)job->y)[y] = (type)sum;                                                                     \
        break;                                                                                               \
    }

/* `summed`: the sum of products is there already. */
static void multiply_element(const product_job *job, bool summed, int64_t a, int64_t b, int64_t c,
                             int64_t y) {
    const rt_product *product = job->product;
    switch (product->dtype) {
    case OP_INT32:
        INTEGER_ELEMENT(int32_t, uint32_t, INT32_MIN, INT32_MAX)
    case OP_UINT32:
        INTEGER_ELEMENT(uint32_t, uint32_t, 0, UINT32_MAX)
    case OP_INT64:
        INTEGER_ELEMENT(int64_t, uint64_t, INT64_MIN, INT64_MAX)
    case OP_UINT64:
        INTEGER_ELEMENT(uint64_t, uint64_t, 0, UINT64_MAX)
    default: {
        double sum = 0;
        for (int64_t k = 0; k < product->depth; k++) {
            sum += rt_element_load(product->dtype, job->a, a + k * product->a_depth) *
                   rt_element_load(product->dtype, job->b, b + k * product->b_depth);
        }
        sum *= product->alpha;
        if (product->addend) sum += product->beta * rt_element_load(product->dtype, job->addend, c);
        rt_element_store(product->dtype, job->y, y, rt_activation_value(&product->activation, sum));
    }
    }
}

static void multiply_elements(const product_job *job, int64_t batch, int64_t row, int64_t rows,
                              int64_t column, int64_t columns) {
    const rt_product *product = job->product;
    const int64_t a = rt_product_offset(batch, product->batch_rank, product->batch_dims, product->a_batch);
    const int64_t b = rt_product_offset(batch, product->batch_rank, product->batch_dims, product->b_batch);
    for (int64_t i = row; i < row + rows; i++) {
        const int64_t line = batch * product->rows + i;
        const int64_t c = product->addend ? rt_product_offset(line, product->addend_rank,
                                                              product->addend_dims, product->addend_strides)
                                          : 0;
        const bool summed =
            sum_integers(job, a + i * product->a_row, b + column, columns, line * product->columns + column);
        const bool done = summed && product->alpha == 1 && !product->addend;
        for (int64_t j = column; j < column + columns && !done; j++) {
            multiply_element(job, summed, a + i * product->a_row, b + j * product->b_column,
                             c + j * product->addend_column, line * product->columns + j);
        }
    }
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static void run_member(void *context, int member, int members) {
    const product_job *job = context;
    const rt_product *product = job->product;
    const int64_t parts = job->row_parts * job->column_parts, items = parts * product->batches;
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t batch = item / parts, part = item % parts;
        const int64_t row = part / job->column_parts * job->rows_each;
        const int64_t column = part % job->column_parts * job->columns_each;
        const int64_t rows = product->rows - row < job->rows_each ? product->rows - row : job->rows_each;
        const int64_t columns =
            product->columns - column < job->columns_each ? product->columns - column : job->columns_each;
        if (in_blocks(product)) {
            rt_product_block_run(&(rt_product_block){
                .product = product,
                .a = job->a,
                .b = job->b,
                .addend = job->addend,
                .y = job->y,
                .scratch = job->scratch + (size_t)member * rt_product_block_bytes(product),
                .batch = batch,
                .row = row,
                .rows = rows,
                .column = column,
                .columns = columns});
        } else if (product->dtype != OP_FLOAT) {
            multiply_elements(job, batch, row, rows, column, columns);
        } else if (rt_product_is_few(product)) {
            multiply_few(job, batch, column, columns);
        } else if (is_thin(product)) {
            multiply_thin(job, batch, batch + 1, column, columns);
        } else if (rt_product_is_column(product)) {
            multiply_column(job, batch, row, rows);
        } else {
            multiply_block(
                job, batch, row, rows, column, columns,
                (float *)(void *)(job->scratch +
                                  (size_t)member * rt_block_bytes(product->depth, product->columns)));
        }
    }
}

size_t rt_product_scratch(const rt_product *product, int threads) {
    if (in_blocks(product)) return (size_t)threads * rt_product_block_bytes(product);
    return product->dtype == OP_FLOAT && !is_thin(product) && !rt_product_is_few(product) &&
                   !rt_product_is_column(product)
               ? (size_t)threads * rt_block_bytes(product->depth, product->columns)
               : 0;
}

void rt_product_run(const rt_product *product, int threads, const void *a, const void *b, const void *addend,
                    void *y, void *scratch) {
    if (product->rows == 0 || product->columns == 0 || product->batches == 0) return;
    product_job job = {.product = product, .a = a, .b = b, .addend = addend, .y = y, .scratch = scratch};
    const bool thin = product->dtype == OP_FLOAT && is_thin(product);
    /* Small ones, in loops, would spend more time on dividing the work. */
    if (threads == 1 && product->batches == 1 && thin && product->columns <= THIN_COLUMNS) {
        multiply_thin(&job, 0, 1, 0, product->columns);
        return;
    }
    if (threads == 1 && product->batches == 1 && rt_product_is_column(product)) {
        multiply_column(&job, 0, 0, product->rows);
        return;
    }
    const double work = (double)product->rows * (double)product->columns * (double)product->batches *
                        (double)(product->depth + 1);
    if (thin && (is_interleaved(product) || (is_dots(product) && product->b_column == 1))) {
        rt_team_run(work < RT_PARALLEL_WORK ? 1 : threads, multiply_together, &job);
        return;
    }
    job.columns_each = thin || rt_product_is_few(product) ? THIN_COLUMNS
                       : in_blocks(product)               ? rt_product_block_columns(product)
                                                          : RT_BLOCK_COLUMNS;
    const bool few = job.columns_each > RT_BLOCK_COLUMNS;
    if (few && product->columns < threads * job.columns_each) {
        job.columns_each = ((product->columns + threads - 1) / threads + 63) / 64 * 64;
    }
    job.column_parts = (product->columns + job.columns_each - 1) / job.columns_each;
    /* Rows are cut only where there are too few columns for the threads: each part copies B again. */
    const int64_t parts = job.column_parts * product->batches;
    const int64_t wanted = few || parts >= threads ? 1 : threads;
    job.rows_each = ((product->rows + wanted - 1) / wanted + 7) / 8 * 8;
    job.row_parts = (product->rows + job.rows_each - 1) / job.rows_each;
    const double shared = rt_product_is_few(product) ? FEW_WORK : RT_PARALLEL_WORK;
    rt_team_run(work < shared ? 1 : threads, run_member, &job);
}

/* ---- rows by themselves --------------------------------------------------------------------------------- */

bool rt_product_has_rows(const rt_product *product) {
    if (!rt_product_is_column(product) || product->a_depth != 1 || product->a_row != product->depth)
        return false;
    int64_t stride = product->rows * product->depth;
    for (int32_t i = product->batch_rank - 1; i >= 0; i--) {
        if (product->batch_dims[i] != 1 && product->a_batch[i] != stride) return false;
        stride *= product->batch_dims[i];
    }
    return true;
}

void rt_product_run_rows(const rt_product *product, const void *a, const void *b, const void *addend, void *y,
                         int64_t begin, int64_t end) {
    const product_job job = {.product = product, .a = a, .b = b, .addend = addend, .y = y};
    while (begin < end) {
        const int64_t batch = begin / product->rows, row = begin % product->rows, rest = product->rows - row;
        const int64_t rows = end - begin < rest ? end - begin : rest;
        multiply_column(&job, batch, row, rows);
        begin += rows;
    }
}

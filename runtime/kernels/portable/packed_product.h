/* SPDX-License-Identifier: Apache-2.0 */
/* packed_product.h: what the kernels of MatMul and Gemm with a constant right matrix in panels share. */
#ifndef OURO_PACKED_PRODUCT_H
#define OURO_PACKED_PRODUCT_H

#include "runtime/kernels/portable/float_codes.h"

/* How weights lie in panels of RT_PANEL columns: as [panel][depth][RT_PANEL], or, of 16 bits that are multiplied in pairs, as
 * [panel][depth / 2][RT_PANEL][2]. */
typedef enum rt_panel_form { RT_PANELS_OF_NUMBERS = 1, RT_PANELS_OF_PAIRS = 2 } rt_panel_form;

/* Y = activation(alpha * X W + beta * bias) with rows of X side by side. */
typedef struct rt_packed_product {
    op_dtype dtype;  /* of X, of the bias and of Y: float, float16 or bfloat16 */
    op_dtype stored; /* of W: the same, or a half or OP_INT16 where the others are float */
    int64_t rows, depth, columns;
    int64_t b_depth, b_column; /* strides of the weights as the model has them */
    float alpha, beta, scale;  /* `scale` is of weights that are integers */
    rt_panel_form form;        /* of pairs where X is a half */
    enum { RT_BIAS_NONE, RT_BIAS_ONE, RT_BIAS_COLUMNS } bias;
    rt_activation activation;
} rt_packed_product;

/* False where the application is none of theirs. The number of rows may be open: then it is -1. */
bool rt_packed_product_read(const op_call *call, rt_packed_product *product);

/* Weights of this application are worth being laid in panels of RT_PANEL columns: the matrix is constant, panels are full for the most part,
 * there is enough work, and the machine is one on which that is faster. */
bool rt_packed_product_wanted(const op_call *call, const rt_environment *environment,
                              const rt_packed_product *product);

/* Bytes of the weights in panels; false where these cannot be counted. */
bool rt_product_panels_bytes(const rt_packed_product *product, size_t *bytes);
/* Lays the weights at `from`, with the strides of the model, in panels; floats are multiplied by alpha. */
void rt_product_panels_pack(const rt_packed_product *product, const void *from, void *panels);
/* And back, but for alpha. */
void rt_product_panels_unpack(const rt_packed_product *product, const void *panels, void *to);

/* What is left to do for `columns` finished sums of a row in float, from `column` on: scale, bias, activation. `bias` is NULL where there is none. */
void rt_packed_product_finish(const rt_packed_product *product, const float *bias, int64_t column,
                              int64_t columns, float *y);

/* Whether tiles (rt_tiles) do all of that while they hold sums: they add what is one number a column, and limit sums to [low, high]. */
bool rt_packed_product_tiles_finish(const rt_packed_product *product, float *low, float *high);

/* What one of several threads does: rows [row, row + rows), columns [first, end), which begin at the beginning of a panel. */
typedef struct rt_packed_part {
    int64_t row, rows, first, end;
} rt_packed_part;
rt_packed_part rt_packed_product_part(const rt_packed_product *product, int member, int members);

/* The weights of a product in float as the model has them, at `data`. */
static inline rt_code_matrix rt_packed_product_matrix(const rt_packed_product *product, const void *data) {
    return (rt_code_matrix){.data = data,
                            .depth = product->depth,
                            .columns = product->columns,
                            .depth_step = product->b_depth,
                            .column_step = product->b_column};
}

static inline int64_t rt_panel_count(const rt_packed_product *product) {
    return (product->columns + RT_PANEL - 1) / RT_PANEL;
}

/* Which element of the panels is the weight at `depth` in `column`. */
static inline int64_t rt_product_panels_place(const rt_packed_product *product, int64_t depth,
                                              int64_t column) {
    const int64_t panel = column / RT_PANEL, place = column % RT_PANEL;
    if (product->form == RT_PANELS_OF_NUMBERS) return (panel * product->depth + depth) * RT_PANEL + place;
    return ((panel * ((product->depth + 1) / 2) + depth / 2) * RT_PANEL + place) * 2 + depth % 2;
}

#endif

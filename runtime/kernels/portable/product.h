/* SPDX-License-Identifier: Apache-2.0 */
/* product.h: matrix products: the engine of MatMul, Gemm and (its tiles) Conv.
 *
 * In float, the right matrix is copied, a block at a time, into panels of RT_PANEL columns, which tiles of
 * several rows then walk. The depth is added up front to back for every element, so that results depend
 * neither on the number of threads nor, but for rt_tiles.fused, on the instruction set (products of a plan for any machine are not
 * fused). Panels are scratch. Goto and van de Geijn,
 * "Anatomy of High-Performance Matrix Multiplication" (2008), is the source of the blocking.
 */
#ifndef OURO_PRODUCT_H
#define OURO_PRODUCT_H

#include "runtime/kernels/portable/activation.h"
#include "runtime/kernels/portable/kernels.h"

enum {
    RT_PANEL = 16,          /* columns of a panel */
    RT_BLOCK_COLUMNS = 128, /* of the right matrix, copied at a time: panels */
    RT_BLOCK_DEPTH = 256    /* the depth of those */
};

/* Bytes of the panels of one block, a multiple of RT_ALIGNMENT; smaller where the matrix is. */
static inline size_t rt_block_bytes(int64_t depth, int64_t columns) {
    size_t deep = (size_t)(depth < RT_BLOCK_DEPTH ? depth : RT_BLOCK_DEPTH);
    size_t wide = (size_t)(columns < RT_BLOCK_COLUMNS ? columns : RT_BLOCK_COLUMNS);
    return (wide + RT_PANEL - 1) / RT_PANEL * RT_PANEL * deep * sizeof(float);
}

/* A second product of the same extents, whose sums go on from those of the first: once that one's are stored, C (+)= these + V + A B. */
typedef struct rt_tiles_then {
    const float *a; /* the depth side by side */
    int64_t a_row;
    const void *panels; /* of floats, as far apart as those of the first */
    const float *more;  /* V, whose rows lie as those of the first result; NULL: none */
    float *c;
    int64_t c_row;
    bool add; /* to what C holds */
} rt_tiles_then;

/* C (+)= A B for one block: panels[p][k][RT_PANEL] hold B. Strides are in elements. */
typedef struct rt_tiles {
    int64_t rows, columns, depth;
    const float *a;
    int64_t a_row, a_depth;
    /* What panels hold: float (OP_NONE, too), finite numbers in float16 or bfloat16, or OP_INT16. The last three are `fused` always. */
    op_dtype stored;
    const void *panels; /* aligned to RT_ALIGNMENT; RT_PANEL * depth elements a panel, unused columns zero */
    int64_t panel_step; /* elements from one panel to the next; 0: they lie one after another */
    float *c;
    int64_t c_row;
    /* Panels that no cache near to the core may hold yet are `far`. `next`: where panels that are read after these lie, as these do; NULL:
     * nothing is known. Both tell what memory to ask for ahead. */
    bool far;
    const void *next;
    /* Memory of the extents of C, in which rows lie `later_row` apart, that is written soon after these products: asked for ahead. NULL: none. */
    float *later;
    int64_t later_row;
    bool add; /* to what C holds; otherwise C is overwritten */
    /* What is left to do with sums: a number for each column is added, NULL: none; and, if `limited`, they are limited to [low, high]. A
     * number that is none stays one. */
    const float *bias;
    bool limited;
    float low, high;
    /* NULL: none. Then that one's result has the bias and the limits, panels are those of floats, and the depth of A lies side by side. */
    const rt_tiles_then *then;
    /* Each multiplication and addition may be rounded once: faster; results depend on the machine. */
    bool fused;
} rt_tiles;
void rt_tiles_run(const rt_tiles *tiles);
/* C (+)= A B in double, as rt_tiles_run in float. */
void rt_tiles_doubles(int64_t rows, int64_t columns, int64_t depth, const double *a, int64_t a_row,
                      int64_t a_depth, const double *panels, double *c, int64_t c_row, bool add, bool fused);

/* Y = activation(alpha * A B + beta * addend): a stack of products, batch dimensions broadcast. Strides are
 * in elements, 0 where broadcast. */
typedef struct rt_product {
    op_dtype dtype;
    int64_t rows, columns, depth, batches;
    int64_t a_row, a_depth, b_depth, b_column;
    int32_t batch_rank;
    int64_t batch_dims[OP_MAX_RANK], a_batch[OP_MAX_RANK], b_batch[OP_MAX_RANK];
    bool addend;
    int32_t addend_rank; /* the dimensions of Y but for the columns: */
    int64_t addend_dims[OP_MAX_RANK + 1], addend_strides[OP_MAX_RANK + 1];
    int64_t addend_column;
    double alpha, beta;
    rt_activation activation;
    bool fused; /* rt_tiles.fused */
    bool few;   /* a few rows may be multiplied with the right matrix where it lies, as few_rows.h has it */
    bool part;  /* of a product with more columns: sums are in that one's order, even of one column */
} rt_product;

/* The product that an application is; all shapes are known (matmul.c, gemm.c). A stack on the left of one
 * matrix is read as one tall product. */
void rt_matmul_read(const op_call *call, rt_product *product);
void rt_gemm_read(const op_call *call, rt_product *product);

/* How a product of MatMul or Gemm may be computed on this machine. */
void rt_product_allow(rt_product *product, const rt_environment *environment);

/* So many rows that the right matrix is read once for all of them, where it lies (few_rows.h): oneDNN, which copies it, is slower for the most part. */
bool rt_product_is_few(const rt_product *product);

/* A matrix, or a stack of them, times one column, in float, which is bound by reading the matrix. */
bool rt_product_is_column(const rt_product *product);

/* Whether the rows of all matrices of such a stack lie one after another. Then rows can be computed by themselves: those from `begin` up to `end`, of all
 * that the stack has, with the bits that rt_product_run gives them. */
bool rt_product_has_rows(const rt_product *product);
void rt_product_run_rows(const rt_product *product, const void *a, const void *b, const void *addend, void *y,
                         int64_t begin, int64_t end);

size_t rt_product_scratch(const rt_product *product, int threads);
/* Y is dense. */
void rt_product_run(const rt_product *product, int threads, const void *a, const void *b, const void *addend,
                    void *y, void *scratch);

/* A row times a matrix: one of those that are computed together, because their matrices lie between each other's rows. */
typedef struct rt_thin {
    const float *a, *b;
    float *y;
} rt_thin;

/* y[i] = the sum over k of a[k] * b[i * step + k], for `count` rows of b: RT_DOT_LANES interleaved sums, which are then added
 * from the halves down: the same bits whatever vectors the machine has (dots.c). */
enum { RT_DOT_LANES = 16 };
void rt_dots(const float *a, const float *b, int64_t step, int64_t depth, int64_t count, float *y);
void rt_dots_stack(const rt_thin *stack, int64_t size, int64_t step, int64_t depth, int64_t count);
/* y[j] += the sum over k of a[k * a_depth] * b[k * b_depth + j], of each in the stack, for `columns` elements (product.c). */
void rt_rows_stack(const rt_thin *stack, int64_t size, int64_t a_depth, int64_t b_depth, int64_t depth,
                   int64_t columns);
/* The same two of matrices in half precision; rows are whole registers, where rt_halves_run_here says so of their length. (dots.c) */
typedef struct rt_thin_halves {
    const float *a;
    const uint16_t *b;
    float *y;
} rt_thin_halves;
bool rt_halves_run_here(int64_t length);
void rt_dots_halves(op_dtype stored, const rt_thin_halves *stack, int64_t size, int64_t step, int64_t depth,
                    int64_t count);
void rt_rows_halves(op_dtype stored, const rt_thin_halves *stack, int64_t size, int64_t step, int64_t depth,
                    int64_t columns);
void rt_dots_doubles(const double *a, const double *b, int64_t step, int64_t depth, int64_t count, double *y);

/* Asks for memory that will be read soon: the processor reads ahead by itself only where a loop goes straight on. */
static inline void rt_prefetch(const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += RT_ALIGNMENT) __builtin_prefetch((const char *)from + at);
}

/* Whether short rows of `bytes` bytes are used by several products of a stack one after another: so much is done with each that the
 * processor does not read ahead by itself as far as it should. */
static inline bool rt_thin_shared(const rt_thin *stack, int64_t size, size_t bytes) {
    return size > 1 && stack[0].b == stack[1].b && bytes <= 1024;
}

/* The element at `index` of a tensor of any numeric type, as a double (64-bit integers are rounded); and its change, in a real type
 * or 8-bit integers, which are limited to what these hold. */
double rt_element_load(op_dtype dtype, const void *data, int64_t index);
void rt_element_store(op_dtype dtype, void *data, int64_t index, double value);
/* The same of `count` elements from number `first` on. */
void rt_elements_load(op_dtype dtype, double *to, const void *data, int64_t first, int64_t count);
void rt_elements_store(op_dtype dtype, void *data, int64_t first, const double *from, int64_t count);

#endif

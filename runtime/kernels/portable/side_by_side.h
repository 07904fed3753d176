/* SPDX-License-Identifier: Apache-2.0 */
/* side_by_side.h: products of matrices whose stack is innermost: element (r, k) of all left ones lie side by side, and so with the right ones and the
 * results. Lanes of a vector are products of the stack, so that nothing is transposed. In float.
 */
#ifndef OURO_SIDE_BY_SIDE_H
#define OURO_SIDE_BY_SIDE_H

#include <stdbool.h>
#include <stdint.h>

/* Y = A B of `lanes` products. Strides are in elements; elements of neighbouring products are one apart. */
typedef struct rt_side_by_side {
    int64_t lanes, rows, columns, depth;
    const float *a;
    int64_t a_row, a_depth;
    const float *b;
    int64_t b_depth, b_column;
    float *y;
    int64_t y_row, y_column;
    bool wide; /* the machine has AVX-512, and may round a product and its sum once */
} rt_side_by_side;

/* Sums are made along the depth, from front to back, whatever is computed together. */
void rt_side_by_side_run(const rt_side_by_side *products);

#endif

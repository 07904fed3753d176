/* SPDX-License-Identifier: Apache-2.0 */
/* float_codes.h: constant weights in panels of RT_PANEL columns, each weight in 28 bits in place of 32, without any loss.
 *
 * Why 28? Of a float's 8 bits of exponent few say anything: nearly all weights of some columns lie within sixteen neighbouring
 * exponents, and 4 bits tell which. Sign and 23 bits of fraction stay. Weights with another exponent are exceptions, which are stored whole
 * in a list. A product of one row takes as long as its weights take to come from memory, so an eighth less of them is time.
 *
 * A group is RT_CODE_DEPTH rows of a panel, RT_CODE_BYTES. It holds uint32 [row][column] for all rows but the last, as a float would lie,
 * but that the exponent, counted from the panel's lowest one, leaves four bits free. In these is a part of the last row's code:
 *
 *     bit 31: sign    30 to 27: a part of the last row    26 to 23: exponent    22 to 0: fraction
 *
 * The last row's parts are its bits 26 to 23, 22 to 19, ... 6 to 3; and 2 to 0 with its sign. So one mask and one addition make a float.
 *
 * All groups come first, panel after panel, the last one of each filled up with zeros; then the lowest exponent of each panel; then
 * where each panel's exceptions begin in the list; then the list, in the order of places.
 */
#ifndef OURO_FLOAT_CODES_H
#define OURO_FLOAT_CODES_H

#include "runtime/kernels/portable/product.h"

enum {
    RT_CODE_BITS = 28, /* of a weight; "ouro.weights_bits" of a node that asks for codes */
    RT_CODE_DEPTH = 8,
    RT_CODE_BYTES = RT_PANEL * (RT_CODE_DEPTH - 1) * 4, /* of a group */
    RT_CODE_WEIGHTS = RT_PANEL * RT_CODE_DEPTH          /* of a group */
};

/* A matrix as the model has it, in floats; strides in elements. */
typedef struct rt_code_matrix {
    const float *data;
    int64_t depth, columns, depth_step, column_step;
} rt_code_matrix;

/* A weight with an exponent of its own. */
typedef struct rt_code_exception {
    uint32_t place; /* k * RT_PANEL + column, in the panel */
    float weight;
} rt_code_exception;

/* Where the parts of a packed matrix lie. */
typedef struct rt_codes {
    int64_t depth, panels, groups; /* groups of one panel */
    const char *codes;
    const uint32_t *lowest; /* of each panel, at a float's exponent */
    const uint32_t *starts; /* panels + 1 */
    const rt_code_exception *exceptions;
    uint32_t exception_count;
} rt_codes;

/* Bytes that this matrix takes. False: it is no matrix for codes, as it has too many exceptions or is too large. */
bool rt_codes_bytes(const rt_code_matrix *matrix, size_t *bytes);
/* Whether some matrix of this depth and so many columns takes so many bytes. */
bool rt_codes_may_take(int64_t depth, int64_t columns, size_t bytes);
/* Packs a matrix that takes `bytes`, as rt_codes_bytes says. `packed` is zeroed and aligned to RT_ALIGNMENT. */
void rt_codes_pack(const rt_code_matrix *matrix, size_t bytes, void *packed);
/* The parts of a packed matrix, for whose depth, columns and bytes rt_codes_may_take is true. Whatever the bytes are, what uses
 * them reads within them. */
rt_codes rt_codes_view(int64_t depth, int64_t columns, size_t bytes, const void *packed);

/* Weights [from, from + count) of the depth of a panel as floats, [count][RT_PANEL]. `from` is the beginning of a group. */
void rt_codes_decode(const rt_codes *codes, int64_t panel, int64_t from, int64_t count, float *to);

/* y[p][RT_PANEL] = a times panel `first` + p, of `count` panels. The same bits as the kernel of floats in panels gives for
 * one row (packed_product.c): two sums, of even and of odd places of the depth. */
void rt_codes_row(const rt_codes *codes, const float *a, int64_t first, int64_t count, float *y);

#endif

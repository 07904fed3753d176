/* SPDX-License-Identifier: Apache-2.0 */
/* integer_tiles.h: products of 8-bit integers in tiles, for machines with AMX: 16 rows of 64 bytes times 16 columns in one instruction.
 *
 * A tile of a packed matrix B is what rt_integer_pack leaves: 16 times four rows by 16 columns. A is read where it lies, as signed or unsigned bytes, so
 * that its rows are not copied. Sums are the same bits as those of rt_integer_block_run: which of both runs depends on the machine alone, and
 * plans do not.
 */
#ifndef OURO_INTEGER_TILES_H
#define OURO_INTEGER_TILES_H

#include "runtime/kernels/portable/integer_product.h"

/* Whether this machine multiplies tiles, and the system lets this process do so: it is asked, and what it once allowed stays allowed to all threads. */
bool rt_byte_tiles_wanted(void);

/* Where the sums of a block go. */
typedef struct rt_byte_tiles_results {
    int32_t *sums;    /* to here; NULL: `finish` takes them */
    int64_t sums_row; /* from one row to the next */
    /* Takes sums of `rows` rows from `row` on, of `columns` columns from `column` on, all of them of the block; a row lies `pitch` after one. They
     * are there as long as it runs. */
    void (*finish)(const void *results, int64_t row, int64_t rows, int64_t column, int64_t columns,
                   const int32_t *sums, int64_t pitch);
    const void *results;
} rt_byte_tiles_results;

/* Computes a block whose B is packed and whose depth is not 0; its own `finish` and `lines` are not used. Only after rt_byte_tiles_wanted. */
void rt_byte_tiles_run(const rt_integer_block *block, const rt_byte_tiles_results *results);

#endif

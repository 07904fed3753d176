/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h: matrices of words of four bytes, or of 64, 16 or 8 bits, turned round: what transpositions and changes of layout are made of. */
#ifndef OURO_TURN_H
#define OURO_TURN_H

#include <stddef.h>
#include <stdint.h>

/* y[c * y_row + r] = x[r * x_row + c] for r < rows, c < columns. The matrices do not overlap. */
void rt_turn_words(const uint32_t *x, int64_t x_row, int64_t rows, int64_t columns, uint32_t *y,
                   int64_t y_row);
void rt_turn_halves(const uint16_t *x, int64_t x_row, int64_t rows, int64_t columns, uint16_t *y,
                    int64_t y_row);
void rt_turn_bytes(const uint8_t *x, int64_t x_row, int64_t rows, int64_t columns, uint8_t *y, int64_t y_row);
void rt_turn_longs(const uint64_t *x, int64_t x_row, int64_t rows, int64_t columns, uint64_t *y,
                   int64_t y_row);

/* y[to[c] + r] = x[from[r] + c] for r < rows, c < columns: rows and columns begin wherever the lists say. Elements have `size` bytes: 1, 2, 4,
 * 8 or 16. What is read and what is written does not overlap. */
void rt_turn_listed(size_t size, const void *x, const int64_t *from, int64_t rows, int64_t columns, void *y,
                    const int64_t *to);

#endif

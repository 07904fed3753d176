/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h: matrices of words of four bytes, or of 16 or 8 bits, turned round: what transpositions and changes of layout are made of. */
#ifndef OURO_TURN_H
#define OURO_TURN_H

#include <stdint.h>

/* y[c * y_row + r] = x[r * x_row + c] for r < rows, c < columns. The matrices do not overlap. */
void rt_turn_words(const uint32_t *x, int64_t x_row, int64_t rows, int64_t columns, uint32_t *y,
                   int64_t y_row);
void rt_turn_halves(const uint16_t *x, int64_t x_row, int64_t rows, int64_t columns, uint16_t *y,
                    int64_t y_row);
void rt_turn_bytes(const uint8_t *x, int64_t x_row, int64_t rows, int64_t columns, uint8_t *y, int64_t y_row);

#endif

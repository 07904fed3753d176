/* SPDX-License-Identifier: Apache-2.0 */
/* symbol_text.h: types as text, with the names that a model gives to its symbolic dimensions. */
#ifndef OURO_SYMBOL_TEXT_H
#define OURO_SYMBOL_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The name of symbol `number` (the dimension -number), or NULL where it has none. */
typedef const char *op_symbol_name(const void *user, uint64_t number);

/* In text such as "float32[s1,2048]", as op_type_print and the shape functions write it, each s<number> within brackets
 * becomes the name of that symbol, cut where it is very long; one without a name becomes "?". What no longer fits into
 * the capacity is cut. */
void op_symbols_named(char *text, size_t capacity, op_symbol_name *name, const void *user);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* chosen.h: which operators this build has. All, unless CMake's OURO_OPERATORS names some: the header that it generates then says
 * so of each, and of each kernel. What no table refers to is not linked into a program.
 */
#ifndef OURO_OP_CHOSEN_H
#define OURO_OP_CHOSEN_H

#ifdef OURO_OPERATORS_CHOSEN
#include "operators_chosen.h" /* OP_IF_CONV(what), and so on: `what`, or NULL where the operator is not chosen */
#define OP_CHOSEN(code, what) OP_IF_##code(what)
#define OP_CHOSEN_ROW(code, ...) OP_ROW_IF_##code(__VA_ARGS__) /* the row of a table, or zero */
#else
#define OP_CHOSEN(code, what) what
#define OP_CHOSEN_ROW(code, ...) __VA_ARGS__
#endif

#endif

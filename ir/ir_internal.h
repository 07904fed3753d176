/* ir_internal.h: what ir.c and ir_edit.c share and nobody else needs. */
#ifndef OURO_IR_INTERNAL_H
#define OURO_IR_INTERNAL_H

#include "ir/ir.h"

enum { IR_CONSTANT_ALIGNMENT = 64 };

/* Moves a use from the list of its value to that of another; either may be NULL. */
void ir_use_set(ir_use *use, ir_value *value);
/* Puts a node that is in no list into its graph's, before `before` or (NULL) at the end. */
void ir_node_link(ir_node *node, ir_node *before);
/* Adds an absent input slot at the end. */
bool ir_node_add_input(ir_node *node);

#endif

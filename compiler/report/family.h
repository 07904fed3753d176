/* SPDX-License-Identifier: Apache-2.0 */
/* family.h: the colours that pictures give to families of operators. */
#ifndef OURO_EMIT_FAMILY_H
#define OURO_EMIT_FAMILY_H

#include "ir/operators/op.h"

typedef struct emit_family {
    const char *name; /* "convolution", for legends */
    const char *fill; /* "#rrggbb", light enough for black text */
    const char *line; /* a darker shade of it */
} emit_family;

/* By op_family, for legends; the first is of what is no operator. */
extern const emit_family emit_families[OP_FAMILY_COUNT];
/* The family of an operator by the names that plans have; the first one for those that are not known. Never NULL. */
const emit_family *emit_family_of(const char *domain, const char *name);

#endif

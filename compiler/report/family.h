/* family.h: families of operators, and the colours that pictures give them. */
#ifndef OURO_EMIT_FAMILY_H
#define OURO_EMIT_FAMILY_H

#include <stddef.h>

typedef struct emit_family {
    const char *name; /* "convolution", for legends */
    const char *fill; /* "#rrggbb", light enough for black text */
    const char *line; /* a darker shade of it */
} emit_family;

enum { EMIT_FAMILY_COUNT = 10 };
/* By index, for legends. */
extern const emit_family emit_families[EMIT_FAMILY_COUNT];
/* The family of an operator by its name; the last one ("other") for those not listed. Never NULL. */
const emit_family *emit_family_of(const char *operator_name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.h: plans changed record by record, and tried: for tests and fuzz targets. */
#ifndef OURO_TEST_SUPPORT_MUTATE_H
#define OURO_TEST_SUPPORT_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* One change of one field of one record, drawn from numbers: any numbers make a change. */
typedef struct support_edit {
    uint32_t field;  /* of all fields of all kinds of records */
    uint32_t record; /* of that kind */
    uint32_t kind;   /* how the value is found */
    uint32_t value;
} support_edit;

/* Applies an edit to a plan that is well formed enough to have its tables in the file; else does nothing. */
void support_edit_apply(unsigned char *bytes, size_t size, const support_edit *edit);

typedef enum support_reached { SUPPORT_REFUSED, SUPPORT_OPENED, SUPPORT_RAN } support_reached;

/* Mends the checksum, opens the plan (aligned to 64), and where it is valid and small runs it on zeros, for a moment at
 * most. Aborts where a refusal says nothing. */
support_reached support_plan_try(unsigned char *bytes, size_t size);

#endif

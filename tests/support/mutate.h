/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.h: plans changed record by record, and tried: for tests and fuzz targets. */
#ifndef OURO_TEST_SUPPORT_MUTATE_H
#define OURO_TEST_SUPPORT_MUTATE_H

#include "runtime/session.h"
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

typedef enum support_reached {
    SUPPORT_REFUSED,
    SUPPORT_OPENED,
    SUPPORT_RAN,
    SUPPORT_DIFFERS
} support_reached;

/* Mends the checksum, opens the plan (aligned to 64), and where it is valid runs it as the next function does. Aborts where a
 * refusal says nothing. */
support_reached support_plan_try(unsigned char *bytes, size_t size);
/* Runs a plan that is small on small numbers, for a moment at most: a loop without an end is a valid plan, and so is one
 * of a terabyte. `check`: each step beside the same one in memory of its own; SUPPORT_DIFFERS where they are not the same
 * bytes, which is printed. */
support_reached support_plan_run(ouro_plan *handle, bool check);
/* The bytes, where plans may lie; to be freed. */
unsigned char *support_plan_copy(const void *bytes, size_t size);

#endif

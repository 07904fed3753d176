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

/* The edit becomes one of a field that says where something lies, or nothing that a run looks at: what is computed stays. */
void support_edit_only_places(support_edit *edit);
/* The changed plan differs from the good one, of the same size, in such fields alone, and reads no other constants: where it is
 * valid, it computes the same. */
bool support_plan_is_placed_anew(const unsigned char *good, const unsigned char *changed, size_t size);

typedef enum support_reached {
    SUPPORT_REFUSED,
    SUPPORT_OPENED,
    SUPPORT_RAN,
    SUPPORT_DIFFERS
} support_reached;

/* Runs a plan that is small on small numbers, for a moment at most: a loop without an end is a valid plan, and so is one
 * of a terabyte. `check`: each step beside the same one in memory of its own; SUPPORT_DIFFERS where they are not the same
 * bytes, which is printed. */
support_reached support_plan_run(ouro_plan *handle, bool check);
/* What a run of several with other inputs came to: its status, and a digest of all outputs, 0 where it failed. */
typedef struct support_ran {
    ouro_status status;
    uint64_t outputs;
} support_ran;
enum { SUPPORT_RUNS = 7 };
/* Runs a plan that is small seven times in one session, each for so many seconds at most; one of the runs has an index that is out
 * of range. False: it is too large. */
bool support_plan_outcome(ouro_plan *handle, double seconds, support_ran ran[SUPPORT_RUNS]);
/* One run of these seven; OURO_MACHINE: memory ran out, while inputs were bound or while it ran. */
support_ran support_session_run_once(ouro_session *session, const ouro_plan *handle, size_t turn);
/* The same inputs gave other outputs. Runs that were cancelled tell nothing. */
bool support_outcomes_differ(const support_ran good[SUPPORT_RUNS], const support_ran other[SUPPORT_RUNS]);

/* Mends the checksum, opens the plan (aligned to 64), and where it is valid runs it as support_plan_run does. Aborts where a
 * refusal says nothing. */
support_reached support_plan_try(unsigned char *bytes, size_t size);
/* The same; one that is placed anew beside a good plan of that size runs several times, and gives SUPPORT_DIFFERS where it computes
 * something else than expected: what support_plan_outcome says of the good one. */
support_reached support_plan_try_beside(unsigned char *bytes, size_t size, const unsigned char *good,
                                        const support_ran expected[SUPPORT_RUNS]);

/* The bytes, where plans may lie; to be freed. */
unsigned char *support_plan_copy(const void *bytes, size_t size);

#endif

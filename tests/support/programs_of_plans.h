/* SPDX-License-Identifier: Apache-2.0 */
/* programs_of_plans.h: small modules whose plans have records of all kinds: for tests that change plans. */
#ifndef OURO_TEST_SUPPORT_PROGRAMS_OF_PLANS_H
#define OURO_TEST_SUPPORT_PROGRAMS_OF_PLANS_H

#include "tests/support/mutate.h"
#include <stddef.h>

enum { SUPPORT_PLAN_PROGRAMS = 14 };

typedef struct support_plan_program {
    const char *name, *text;
} support_plan_program;

extern const support_plan_program support_plan_programs[SUPPORT_PLAN_PROGRAMS];

/* The bytes of the plan of program `number`, which wraps around, on portable kernels; compiled when it is asked for first, and
 * kept. Not for several threads. */
const unsigned char *support_shared_plan(size_t number, size_t *size);
/* What its runs come to. */
const support_ran *support_shared_outcome(size_t number);

#endif

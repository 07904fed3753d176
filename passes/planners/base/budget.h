/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h: how long a search may go on: until a time, or for an amount of work, so that the answer depends on nothing
 * but the problem. */
#ifndef OURO_PLANNERS_BUDGET_H
#define OURO_PLANNERS_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Work is counted in decisions of a search on a problem of some hundred buffers. */
typedef struct planner_budget {
    bool timed;
    bool over; /* the time has passed, or the work is done */
    struct timespec deadline;
    uint64_t work;  /* left, where no time is given */
    uint64_t spent; /* since it was made */
    uint64_t clock; /* where it is: work until the clock is looked at */
} planner_budget;

/* So many seconds from now on; where they are not positive, so much work. */
planner_budget planner_budget_of(double seconds, uint64_t work);

/* Takes work off; true: it is over, now or before. */
bool planner_budget_spend(planner_budget *budget, uint64_t work);

/* Seconds since some time in the past. */
double planner_budget_clock(void);

/* For who works through `count` items one after the other: item `at` is one of the few before which the clock is looked at,
 * and `deadline`, on planner_budget_clock, has passed. Never, where the deadline is 0. */
bool planner_budget_has_passed(double deadline, size_t at);

#endif

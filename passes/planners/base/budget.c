/* SPDX-License-Identifier: Apache-2.0 */
/* budget.c: see budget.h. */
#include "passes/planners/base/budget.h"

enum { CLOCK_EVERY = 64, ITEMS_EVERY = 2 }; /* an item can take milliseconds */

planner_budget planner_budget_of(double seconds, uint64_t work) {
    planner_budget budget = {.timed = seconds > 0, .work = work};
    if (!budget.timed) return budget;
    clock_gettime(CLOCK_MONOTONIC, &budget.deadline);
    double whole = seconds < 1e9 ? seconds : 1e9;
    budget.deadline.tv_sec += (time_t)whole;
    budget.deadline.tv_nsec += (long)((whole - (double)(time_t)whole) * 1e9);
    if (budget.deadline.tv_nsec >= 1000000000L) {
        budget.deadline.tv_sec++;
        budget.deadline.tv_nsec -= 1000000000L;
    }
    return budget;
}

bool planner_budget_spend(planner_budget *budget, uint64_t work) {
    if (budget->over) return true;
    budget->spent += work;
    if (!budget->timed) {
        budget->over = budget->work <= work;
        budget->work -= budget->over ? budget->work : work;
    } else if (budget->clock > work) {
        budget->clock -= work;
    } else {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        budget->clock = CLOCK_EVERY;
        budget->over = now.tv_sec > budget->deadline.tv_sec ||
                       (now.tv_sec == budget->deadline.tv_sec && now.tv_nsec >= budget->deadline.tv_nsec);
    }
    return budget->over;
}

double planner_budget_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

bool planner_budget_has_passed(double deadline, size_t at) {
    return deadline > 0 && at % ITEMS_EVERY == 0 && planner_budget_clock() >= deadline;
}

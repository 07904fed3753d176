/* SPDX-License-Identifier: Apache-2.0 */
/* memory_plan.c: the memory plan for one order of the nodes, as a function: schedule asks it what an order is worth.
 *
 * It runs the passes that the pipeline runs once the order is chosen, on a copy. So the plan of which schedule has seen the
 * peak is the plan that is made.
 */
#include "passes/loops/loops.h"
#include "passes/memory/memory.h"

base_status pass_memory_plan(const pass_context *context, const pass_order *order, base_arena *arena,
                             pass_memory **plan) {
    static pass_function *const decisions[] = {pass_choose_in_place, pass_analyse_loops,
                                               pass_analyse_liveness};
    pass_context inner = *context;
    *plan = inner.memory = pass_memory_copy(context->memory, arena);
    if (!*plan) return base_fail_memory(context->report);
    inner.memory->order = *order;
    inner.scratch = arena;
    base_status status = BASE_OK;
    for (size_t i = 0; i < sizeof decisions / sizeof *decisions && status == BASE_OK; i++)
        status = decisions[i](&inner);
    return status;
}

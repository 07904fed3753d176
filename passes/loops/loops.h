/* loops.h: passes on what loops carry, and at which addresses. */
#ifndef OURO_PASSES_LOOPS_H
#define OURO_PASSES_LOOPS_H

#include "passes/base/pass.h"

base_status pass_slice_iterations(pass_context *context); /* slice_iterations.c */
base_status pass_carry_growth(pass_context *context);     /* carry_growth.c */
base_status pass_limit_unrolling(pass_context *context);  /* limit_unrolling.c */
base_status pass_reserve_growth(pass_context *context);   /* reserve_growth.c */
base_status pass_analyse_loops(pass_context *context);    /* analyse_loops.c */

/* How many values a Loop carries: its inputs but for trip count, condition and what it scans. (analyse_loops.c) */
uint32_t pass_carried_count(const ir_node *loop);
/* Carried value `index` of a Loop has one size, known now: analyse-loops can give it addresses that change, so
 * that nothing is copied. Otherwise the executor copies, hands on, or lets it grow. (analyse_loops.c) */
bool pass_carried_is_static(const ir_node *loop, uint32_t index);
/* How often a loop runs, if that is certain; -1. (analyse_loops.c) */
int64_t pass_known_trips(const ir_node *loop);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* loops.h: passes on what loops carry, and at which addresses. What a Loop node is made of: ir/loop.h. */
#ifndef OURO_PASSES_LOOPS_H
#define OURO_PASSES_LOOPS_H

#include "passes/base/pass.h"

base_status pass_check_states(pass_context *context);     /* check_states.c */
base_status pass_stack_sequences(pass_context *context);  /* stack_sequences.c */
base_status pass_stack_old_states(pass_context *context); /* stack_old_states.c */
base_status pass_slice_iterations(pass_context *context); /* slice_iterations.c */
base_status pass_scan_gathers(pass_context *context);     /* scan_gathers.c */
base_status pass_halve_states(pass_context *context);     /* halve_states.c */
base_status pass_carry_parts(pass_context *context);      /* carry_parts.c */
base_status pass_carry_growth(pass_context *context);     /* carry_growth.c */
base_status pass_flatten_windows(pass_context *context);  /* flatten_windows.c */
base_status pass_sink_scans(pass_context *context);       /* sink_scans.c */
base_status pass_limit_unrolling(pass_context *context);  /* limit_unrolling.c */
base_status pass_reserve_growth(pass_context *context);   /* reserve_growth.c */
base_status pass_analyse_loops(pass_context *context);    /* analyse_loops.c */

#endif

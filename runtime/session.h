/* SPDX-License-Identifier: Apache-2.0 */
/* session.h: what the runtime shows to the command beyond the public header: handles of plans that are open, a
 * trace of the steps, and the check against unshared memory.
 */
#ifndef OURO_SESSION_H
#define OURO_SESSION_H

#include "runtime/ouro.h"
#include "runtime/plan/plan.h"

/* The machine and the kernels of this library, for plan_open. */
extern const plan_host rt_plan_host;

/* The public handle of an open and verified plan. Takes the plan over, on failure too (it is closed then);
 * NULL when memory runs out. Freed with ouro_plan_free. */
ouro_plan *rt_plan_new(plan *opened);
/* The plan of a handle; lives as long as the handle. */
const plan *rt_plan_of(const ouro_plan *handle);

/* The first message of a report, as a public error; returns its status. `error` may be NULL. */
ouro_status rt_error_set(ouro_error *error, const base_report *report);

/* One step that ran: node `node` of the plan, from `start` to `end` (seconds of a monotonic clock), in
 * iteration `iteration` of the innermost loop around it (0 outside of loops). Control nodes come after the
 * steps within. */
typedef struct rt_trace_event {
    uint32_t node;
    int64_t iteration;
    double start, end;
} rt_trace_event;
typedef void rt_trace_function(void *user, const rt_trace_event *event);
/* The next runs call `trace` after each step; NULL: no longer. */
void rt_session_trace(ouro_session *session, rt_trace_function *trace, void *user);

/* Where a tensor lies that has no size before the shapes of a run are known: bytes of the block for these shapes, while the steps `first`
 * to `last` of the main graph run (last UINT64_MAX: to the end of the run). */
typedef struct rt_shape_place {
    uint32_t tensor;
    size_t offset, bytes;
    uint64_t first, last;
} rt_shape_place;
/* What a run with the bound inputs would plan, without running: the places, in `arena`, by tensor id. The session is as before.
 * BASE_INVALID: the inputs do not fit together. */
base_status rt_session_plan_shapes(ouro_session *session, base_arena *arena, rt_shape_place **places,
                                   size_t *count, base_report *report);

/* One run with the bound inputs in which every tensor is computed twice: in the planned memory, and beside it
 * in memory of its own; after each step the bytes of its outputs must be equal. BASE_INVALID names the first
 * step and tensor that differ. Leaves the session as ouro_session_run does: its outputs are those of the
 * planned execution. */
base_status rt_session_check(ouro_session *session, base_report *report);

#endif

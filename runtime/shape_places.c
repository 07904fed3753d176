/* SPDX-License-Identifier: Apache-2.0 */
/* shape_places.c: what a run would plan for the shapes that are bound, told without running. */
#include "runtime/executor.h"

base_status rt_session_plan_shapes(ouro_session *session, base_arena *arena, rt_shape_place **places,
                                   size_t *count, base_report *report) {
    *places = NULL;
    *count = 0;
    base_status status = rt_run_begin(session, report);
    if (status == BASE_OK) {
        *count = rt_shapes_places(session, NULL);
        *places = BASE_ARRAY(arena, rt_shape_place, *count + 1);
        if (*places) rt_shapes_places(session, *places);
        else status = base_fail_memory(report);
    }
    rt_run_end(session);
    return status;
}

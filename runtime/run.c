/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: runs of a session: from bound inputs to outputs, and what ends them early. */
#include "runtime/executor.h"
#include <string.h>

static void release_values(ouro_session *session) {
    const plan_header *header = session->of->header;
    for (uint64_t g = 0; g < header->graphs.count; g++) {
        const rt_program *program = &session->code.programs[g];
        for (uint32_t i = 0; i < program->dynamic_count; i++) rt_value_release(session, program->dynamic[i]);
    }
    for (uint64_t n = 0; n < header->nodes.count; n++) {
        const rt_step *step = session->code.steps[n];
        if (step && step->kind == RT_STEP_LOOP) rt_control_reset(session, step->detail);
    }
}

base_status rt_run_begin(ouro_session *session, base_report *report) {
    rt_run *run = &session->run;
    if (run->report.count) base_report_clear(&run->report);
    run->named = false;
    run->ran = run->stopped = run->committed = false;
    run->iteration = 0;
    run->innermost = NULL;
    run->deadline = session->run_seconds > 0 ? rt_now_seconds() + session->run_seconds : 0;
    base_arena_free(&run->texts);
    rt_executions_reset(session);
    base_status status = rt_binding_before_run(session, report);
    if (status == BASE_OK) status = rt_samples_before_run(session, report);
    if (status == BASE_OK && session->code.has_dynamic) status = rt_states_before_run(session, report);
    if (status == BASE_OK) rt_shapes_before_run(session);
    return status;
}

void rt_run_end(ouro_session *session) {
    if (session->code.has_dynamic) release_values(session);
    rt_pool_flush(&session->memory.pool);
}

base_status rt_run_once(ouro_session *session) {
    base_report *report = &session->run.report;
    base_status status = rt_run_begin(session, report);
    for (int64_t n = 0; status == BASE_OK && n < session->run.samples; n++) {
        rt_samples_next(session, n);
        status = rt_execute(session, 0);
    }
    rt_samples_after_run(session);
    if (status == BASE_OK) status = rt_binding_after_run(session, report);
    if (status == BASE_OK) status = rt_states_advance(session, report);
    rt_run_end(session);
    session->run.ran = status == BASE_OK;
    return status;
}

ouro_status ouro_session_run(ouro_session *session, ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    ouro_status status = OURO_OK;
    if (rt_run_once(session) != BASE_OK) {
        base_report named = {0};
        const base_report *report = &session->run.report;
        if (!session->run.named) {
            base_report_context(&named, "%s", session->of->texts + session->of->header->model_name);
            base_fail(&named, report->status, "%.*s", (int)strcspn(report->text, "\n"), report->text);
            report = &named;
        }
        status = rt_error_set(error, report);
        if (session->run.stopped) status = OURO_CANCELLED;
        if (error) error->status = status;
    }
    atomic_store_explicit(&session->stop, false, memory_order_relaxed);
    rt_session_leave(session);
    return status;
}

void ouro_session_cancel(ouro_session *session) {
    atomic_store_explicit(&session->stop, true, memory_order_relaxed);
}

/* ---- traces -------------------------------------------------------------------------------------------- */

static base_status trace_step(rt_observer *observer, ouro_session *session, const rt_trace_event *event) {
    if (session->code.steps[event->node]) session->trace.call(session->trace.user, event);
    (void)observer;
    return BASE_OK;
}

void rt_session_trace(ouro_session *session, rt_trace_function *trace, void *user) {
    if (session->trace.call) rt_observe_no_longer(session, &session->trace.observer);
    session->trace = (rt_trace){.observer = {.step = trace_step}, .call = trace, .user = user};
    if (trace) rt_observe(session, &session->trace.observer);
}

void rt_observe(ouro_session *session, rt_observer *observer) {
    observer->next = session->observers;
    session->observers = observer;
}

void rt_observe_no_longer(ouro_session *session, rt_observer *observer) {
    rt_observer **at = &session->observers;
    while (*at && *at != observer) at = &(*at)->next;
    if (*at) *at = observer->next;
}

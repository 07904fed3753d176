/* SPDX-License-Identifier: Apache-2.0 */
/* shadow.c: shadow execution, for `--check`: a second session, in which every tensor has memory of its own, does each
 * step after the first one, and their outputs are compared bit by bit. It decides nothing: it takes the branches and
 * the iterations that the first session takes. It sees these as an observer does. */
#include "runtime/executor.h"
#include <string.h>

typedef struct shadow_execution {
    rt_observer observer;
    ouro_session *shadow;
} shadow_execution;

static base_status compare_outputs(ouro_session *session, const ouro_session *shadow, uint32_t number) {
    const plan *of = session->of;
    const plan_node *node = &of->nodes[number];
    for (uint64_t i = 0; i < node->output_count; i++) {
        uint32_t id = of->tensor_ids[node->outputs + i];
        if (id == PLAN_ABSENT || of->tensors[id].address.space == MEMORY_NONE ||
            of->tensors[id].address.space ==
                MEMORY_SPILL) /* what was spilled is compared when it is read back */
            continue;
        const op_tensor *planned = &session->run.tensors[id], *own = &shadow->run.tensors[id];
        size_t at = 0;
        if (rt_value_equal(planned, own, &at)) continue;
        base_fail(&session->run.report, BASE_INVALID,
                  "output \"%s\" differs from the same step in memory of its own, at byte %zu of %zu",
                  of->texts + of->tensors[id].name, at, planned->bytes);
        return rt_fail_at(session, number, BASE_INVALID);
    }
    return BASE_OK;
}

/* What went wrong in the shadow went wrong in the run. */
static base_status hand_over_failure(ouro_session *session, const ouro_session *shadow, uint32_t node,
                                     base_status status) {
    session->run.report = shadow->run.report;
    session->run.named = shadow->run.named;
    return rt_fail_at(session, node, status);
}

/* Control steps have been followed phase by phase; all others are run here. */
static base_status follow_step(rt_observer *observer, ouro_session *session, const rt_trace_event *event) {
    ouro_session *shadow = ((shadow_execution *)observer)->shadow;
    const rt_step *step = shadow->code.steps[event->node];
    const uint32_t graph = session->of->nodes[event->node].graph;
    shadow->run.executions[graph] = session->run.executions[graph];
    if (step->kind != RT_STEP_IF && step->kind != RT_STEP_LOOP) {
        base_status status = rt_step_run(shadow, step);
        if (status != BASE_OK) return hand_over_failure(session, shadow, event->node, status);
    }
    base_status status = compare_outputs(session, shadow, event->node);
    if (status == BASE_OK) rt_step_release(shadow, step);
    return status;
}

static base_status follow_control(rt_observer *observer, ouro_session *session,
                                  const rt_control_event *event) {
    ouro_session *shadow = ((shadow_execution *)observer)->shadow;
    base_status status = rt_control_follow(shadow, event);
    return status == BASE_OK ? BASE_OK : hand_over_failure(session, shadow, event->node, status);
}

/* The shadow reads the same inputs; its outputs are its own. */
static void bind_inputs(ouro_session *shadow, const ouro_session *session) {
    for (uint64_t i = 0; i < session->of->header->inputs.count; i++) {
        const rt_binding *from = &session->bound.inputs[i];
        rt_binding *to = &shadow->bound.inputs[i];
        to->bound = from->bound;
        if (to->dynamic) shadow->run.tensors[to->tensor] = session->run.tensors[from->tensor];
        rt_binding_point(shadow, to, from->data);
    }
}

/* The next sample, of the shadow too. */
static void follow_sample(rt_observer *observer, ouro_session *session) {
    ouro_session *shadow = ((shadow_execution *)observer)->shadow;
    bind_inputs(shadow, session);
    rt_executions_reset(shadow);
}

base_status rt_session_check(ouro_session *session, base_report *report) {
    const base_allocator *source = &session->memory.source;
    const ouro_allocator memory = {source->allocate, source->release, source->user};
    ouro_session_options options = {.threads = session->code.environment.threads, .memory = &memory};
    ouro_session *shadow;
    base_status status = rt_session_make(session->of, &options, true, &shadow, report);
    if (status != BASE_OK) return status;
    bind_inputs(shadow, session);
    rt_states_copy(session, shadow);
    status = rt_run_begin(shadow, report);
    if (status == BASE_OK) {
        shadow_execution execution = {
            {.step = follow_step, .control = follow_control, .sample = follow_sample}, shadow};
        rt_observe(session, &execution.observer);
        status = rt_run_once(session);
        rt_observe_no_longer(session, &execution.observer);
        if (status != BASE_OK) {
            const base_report *run = &session->run.report;
            base_fail(report, status, "%.*s", (int)strcspn(run->text, "\n"), run->text);
            if (report) report->unsupported = run->unsupported;
        }
    }
    rt_run_end(shadow);
    ouro_session_free(shadow);
    return status;
}

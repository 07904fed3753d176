/* SPDX-License-Identifier: Apache-2.0 */
/* execute.c: running the steps of a graph, with observers where there are any. */
#include "runtime/executor.h"
#include <string.h>
#include <time.h>

/* ---- errors -------------------------------------------------------------------------------------------- */

/* Naming the node beforehand would cost every step; so the name is put before the messages afterwards. */
base_status rt_fail_at(ouro_session *session, uint32_t node, base_status status) {
    base_report *report = &session->run.report;
    if (session->run.named) return status;
    session->run.named = true;
    char text[BASE_REPORT_TEXT];
    memcpy(text, report->text, sizeof text);
    bool unsupported = report->unsupported;
    base_report_clear(report);
    plan_node_context(session->of, &session->of->nodes[node], NULL, report);
    char *line = text;
    do {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        base_fail(report, status, "%s", *line ? line : "failed");
        line = end ? end + 1 : line + strlen(line);
    } while (*line);
    report->unsupported = unsupported;
    base_report_context(report, NULL);
    return status;
}

/* ---- being stopped ------------------------------------------------------------------------------------- */

double rt_now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool is_late(const ouro_session *session) {
    return session->run.deadline > 0 && rt_now_seconds() > session->run.deadline;
}

/* Before each step: a load, and a look at the clock where the run has a deadline. Not while states are written over. */
static inline bool must_stop(const ouro_session *session) {
    return (atomic_load_explicit(&session->stop, memory_order_relaxed) ||
            (session->run.deadline > 0 && is_late(session))) &&
           !session->run.committed;
}

bool rt_must_stop(const ouro_session *session) {
    return must_stop(session);
}

base_status rt_stop(ouro_session *session) {
    session->run.stopped = true;
    return base_fail(&session->run.report, BASE_USAGE,
                     is_late(session) ? "the run took longer than %g seconds" : "the run was cancelled",
                     session->run_seconds);
}

/* ---- steps --------------------------------------------------------------------------------------------- */

base_status rt_step_run(ouro_session *session, const rt_step *step) {
    if (!step->run) return step->special(session, step);
    return step->run(&step->prepared, step->inputs, step->outputs, step->scratch, &session->run.report);
}

void rt_step_release(ouro_session *session, const rt_step *step) {
    for (uint32_t i = 0; i < step->release_count; i++) rt_value_release(session, step->released[i]);
}

base_status rt_alias_run(ouro_session *session, const rt_step *step) {
    const plan_node *node = &session->of->nodes[step->node];
    bool joins = op_schema_of(plan_node_code(session->of, node))->view == OP_VIEW_CONCAT;
    int64_t cursor = 0;
    for (uint32_t i = 0; i < (joins ? node->input_count : node->output_count); i++) {
        uint32_t whole, part;
        uint64_t offset;
        if (!plan_alias_part(session->of, node, i, &cursor, &whole, &part, &offset)) {
            return base_fail(&session->run.report, BASE_INVALID, "is no alias");
        }
        const op_tensor *outer = &session->run.tensors[whole], *inner = &session->run.tensors[part];
        if (!inner->bytes || !outer->data || !inner->data) continue;
        if (joins) memcpy((char *)outer->data + offset, inner->data, inner->bytes);
        else memcpy(inner->data, (char *)outer->data + offset, inner->bytes);
    }
    return BASE_OK;
}

/* ---- graphs -------------------------------------------------------------------------------------------- */

/* From this step of the main graph on states are written over: what could make the run fail has happened, but for states that have
 * become too long. */
static inline base_status commit(ouro_session *session, uint32_t graph, uint32_t node) {
    if (session->run.committed || graph != 0 || node < session->code.commit) return BASE_OK;
    session->run.committed = true;
    return rt_states_check(session, &session->run.report);
}

/* A body without steps, such as one that only swaps, can be asked to run for ever as well. */
static base_status pass_empty(ouro_session *session, uint32_t graph) {
    const uint32_t owner = session->of->graphs[graph].owner;
    if (owner == PLAN_ABSENT || !must_stop(session)) return BASE_OK;
    return rt_fail_at(session, owner, rt_stop(session));
}

/* Aliases are nodes without a step: observers see them, too. */
static base_status execute_observed(ouro_session *session, uint32_t number) {
    const plan_graph *graph = &session->of->graphs[number];
    if (!graph->node_count) return pass_empty(session, number);
    for (uint32_t n = (uint32_t)graph->nodes; n < graph->nodes + graph->node_count; n++) {
        const rt_step *step = session->code.steps[n];
        base_status status = commit(session, number, n);
        if (status != BASE_OK) return status;
        if (must_stop(session)) status = rt_stop(session);
        const double start = rt_now_seconds();
        if (step && status == BASE_OK) status = rt_step_run(session, step);
        if (status != BASE_OK) return rt_fail_at(session, n, status);
        const rt_trace_event event = {n, session->run.iteration, start, step ? rt_now_seconds() : start};
        for (rt_observer *o = session->observers; o && status == BASE_OK; o = o->next)
            status = o->step(o, session, &event);
        if (status != BASE_OK) return status;
        if (step) rt_step_release(session, step);
    }
    return BASE_OK;
}

void rt_executions_reset(ouro_session *session) {
    memset(session->run.executions, 0,
           (size_t)session->of->header->graphs.count * sizeof *session->run.executions);
}

base_status rt_execute(ouro_session *session, uint32_t graph) {
    ++session->run.executions[graph];
    if (session->observers) return execute_observed(session, graph);
    const rt_program *program = &session->code.programs[graph];
    if (!program->step_count) return pass_empty(session, graph);
    for (const rt_step *step = program->steps, *end = step + program->step_count; step < end; step++) {
        base_status status = commit(session, graph, step->node);
        if (status != BASE_OK) return status;
        status = must_stop(session) ? rt_stop(session) : rt_step_run(session, step);
        if (status != BASE_OK) return rt_fail_at(session, step->node, status);
        if (step->release_count) rt_step_release(session, step);
    }
    return BASE_OK;
}

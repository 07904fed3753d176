/* execute.c: running the steps of a graph, with a trace or a check where asked. */
#include "runtime/executor.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- errors -------------------------------------------------------------------------------------------- */

/* Naming the node beforehand would cost every step; so the name is put before the messages afterwards. */
base_status rt_fail_at(ouro_session *session, uint32_t node, base_status status) {
    base_report *report = &session->report;
    if (session->placed) return status;
    session->placed = true;
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

/* ---- aliases in shadow execution ------------------------------------------------------------------------ */

/* What an alias would only have pointed at is copied: parts out of the whole, or (Concat) into it. */
static base_status copy_alias(ouro_session *session, const rt_step *step) {
    const plan_node *node = &session->of->nodes[step->node];
    bool joins = op_schema_of(plan_node_code(session->of, node))->view == OP_VIEW_CONCAT;
    int64_t cursor = 0;
    for (uint32_t i = 0; i < (joins ? node->input_count : node->output_count); i++) {
        uint32_t whole, part;
        uint64_t offset;
        if (!plan_alias_part(session->of, node, i, &cursor, &whole, &part, &offset)) {
            return base_fail(&session->report, BASE_INVALID, "is no alias");
        }
        const op_tensor *outer = &session->tensors[whole], *inner = &session->tensors[part];
        if (!inner->bytes || !outer->data || !inner->data) continue;
        if (joins) memcpy((char *)outer->data + offset, inner->data, inner->bytes);
        else memcpy(inner->data, (char *)outer->data + offset, inner->bytes);
    }
    return BASE_OK;
}

/* ---- steps --------------------------------------------------------------------------------------------- */

static base_status run_special(ouro_session *session, const rt_step *step) {
    switch (step->kind) {
    case RT_STEP_IF:
        return rt_control_if(session, step);
    case RT_STEP_LOOP:
        return rt_control_loop(session, step);
    case RT_STEP_DYNAMIC:
        return rt_dynamic_run(session, step);
    case RT_STEP_SEQUENCE:
        return rt_sequence_run(session, step);
    case RT_STEP_SWAP:
        rt_swap_run(session, step->detail);
        return BASE_OK;
    case RT_STEP_ALIAS:
        return copy_alias(session, step);
    default:
        return BASE_OK;
    }
}

static inline base_status run_step(ouro_session *session, const rt_step *step) {
    if (!step->run) return run_special(session, step);
    return step->run(&step->prepared, step->inputs, step->outputs, step->scratch, &session->report);
}

static inline void release_after(ouro_session *session, const rt_step *step) {
    for (uint32_t i = 0; i < step->release_count; i++) rt_value_release(session, step->released[i]);
}

/* ---- with a trace or a shadow -------------------------------------------------------------------------- */

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static base_status compare_outputs(ouro_session *session, uint32_t number) {
    const plan *of = session->of;
    const plan_node *node = &of->nodes[number];
    for (uint64_t i = 0; i < node->output_count; i++) {
        uint32_t id = of->tensor_ids[node->outputs + i];
        if (id == PLAN_ABSENT || of->tensors[id].address.space == MEMORY_NONE) continue;
        const op_tensor *planned = &session->tensors[id], *own = &session->shadow->tensors[id];
        size_t at = 0;
        if (rt_value_equal(planned, own, &at)) continue;
        base_fail(&session->report, BASE_INVALID,
                  "output \"%s\" differs from the same step in memory of its own, at byte %zu of %zu",
                  of->texts + of->tensors[id].name, at, planned->bytes);
        return rt_fail_at(session, number, BASE_INVALID);
    }
    return BASE_OK;
}

/* Control steps take their shadow along; all others are run here for both. */
static base_status run_shadow(ouro_session *session, uint32_t node) {
    ouro_session *shadow = session->shadow;
    const rt_step *step = shadow->steps[node];
    if (step->kind != RT_STEP_IF && step->kind != RT_STEP_LOOP) {
        base_status status = run_step(shadow, step);
        if (status != BASE_OK) {
            session->report = shadow->report;
            session->placed = shadow->placed;
            return rt_fail_at(session, node, status);
        }
    }
    return compare_outputs(session, node);
}

static base_status execute_observed(ouro_session *session, uint32_t number) {
    const plan_graph *graph = &session->of->graphs[number];
    for (uint32_t n = (uint32_t)graph->nodes; n < graph->nodes + graph->node_count; n++) {
        const rt_step *step = session->steps[n];
        base_status status;
        if (step) {
            double start = now_seconds();
            status = run_step(session, step);
            if (status != BASE_OK) return rt_fail_at(session, n, status);
            if (session->trace) {
                rt_trace_event event = {n, session->iteration, start, now_seconds()};
                session->trace(session->trace_user, &event);
            }
        }
        if (session->shadow) {
            status = run_shadow(session, n);
            if (status != BASE_OK) return status;
            release_after(session->shadow, session->shadow->steps[n]);
        }
        if (step) release_after(session, step);
    }
    return BASE_OK;
}

base_status rt_execute(ouro_session *session, uint32_t graph) {
    uint64_t execution = ++session->programs[graph].execution;
    if (session->shadow) session->shadow->programs[graph].execution = execution;
    if (session->trace || session->shadow) return execute_observed(session, graph);
    const rt_program *program = &session->programs[graph];
    for (const rt_step *step = program->steps, *end = step + program->step_count; step < end; step++) {
        base_status status = run_step(session, step);
        if (status != BASE_OK) return rt_fail_at(session, step->node, status);
        if (step->release_count) release_after(session, step);
    }
    return BASE_OK;
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static void release_values(ouro_session *session) {
    const plan_header *header = session->of->header;
    for (uint64_t g = 0; g < header->graphs.count; g++) {
        const rt_program *program = &session->programs[g];
        for (uint32_t i = 0; i < program->dynamic_count; i++) rt_value_release(session, program->dynamic[i]);
    }
    for (uint64_t n = 0; n < header->nodes.count; n++) {
        const rt_step *step = session->steps[n];
        if (step && step->kind == RT_STEP_LOOP) rt_control_reset(session, step->detail);
    }
}

/* Nothing of the run-time allocator outlives a run, but for outputs. */
static void clean_up(ouro_session *session) {
    if (session->has_dynamic) release_values(session);
    rt_pool_flush(&session->pool);
}

static base_status run(ouro_session *session) {
    base_report *report = &session->report;
    if (report->count) base_report_clear(report);
    session->placed = false;
    session->ran = false;
    session->iteration = 0;
    base_arena_free(&session->texts);
    for (uint64_t g = 0; g < session->of->header->graphs.count; g++) session->programs[g].execution = 0;
    base_status status = rt_binding_before_run(session, report);
    if (status == BASE_OK && session->shadow) status = rt_binding_before_run(session->shadow, report);
    if (status == BASE_OK) status = rt_execute(session, 0);
    if (status == BASE_OK) status = rt_binding_after_run(session, report);
    clean_up(session);
    if (session->shadow) clean_up(session->shadow);
    session->ran = status == BASE_OK;
    return status;
}

ouro_status ouro_session_run(ouro_session *session, ouro_error *error) {
    if (run(session) == BASE_OK) return OURO_OK;
    if (!session->placed) {
        base_report report = {0};
        base_report_context(&report, "%s", session->of->texts + session->of->header->model_name);
        base_fail(&report, session->report.status, "%.*s", (int)strcspn(session->report.text, "\n"),
                  session->report.text);
        return rt_error_set(error, &report);
    }
    return rt_error_set(error, &session->report);
}

void rt_session_trace(ouro_session *session, rt_trace_function *trace, void *user) {
    session->trace = trace;
    session->trace_user = user;
}

base_status rt_session_check(ouro_session *session, base_report *report) {
    ouro_session_options options = {.threads = session->environment.threads};
    ouro_session *shadow;
    base_status status = rt_session_make(session->of, &options, true, &shadow, report);
    if (status != BASE_OK) return status;
    for (uint64_t i = 0; i < session->of->header->inputs.count; i++) {
        const rt_binding *from = &session->inputs[i];
        rt_binding *to = &shadow->inputs[i];
        to->bound = from->bound;
        if (to->dynamic) shadow->tensors[to->tensor] = session->tensors[from->tensor];
        rt_binding_point(shadow, to, from->data);
    }
    session->shadow = shadow;
    status = run(session);
    session->shadow = NULL;
    ouro_session_free(shadow);
    if (status != BASE_OK) {
        base_fail(report, status, "%.*s", (int)strcspn(session->report.text, "\n"), session->report.text);
        if (report) report->unsupported = session->report.unsupported;
    }
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* profile_trace.c: the steps of one run as trace events; see compiler/command/profile.h. The format is that of Google's
 * Trace Event Format, which Perfetto reads. */
#include "compiler/command/profile.h"
#include "runtime/session.h"
#include <string.h>

/* The iteration of a graph that goes on. */
typedef struct open_iteration {
    bool open;
    int64_t iteration;
    double start, end;
} open_iteration;

typedef struct tracer {
    emit_buffer json;
    const plan *plan;
    double start;         /* of the run */
    open_iteration *open; /* by graph */
} tracer;

/* A slice from `start` to `end`, its object left open for arguments. */
static void begin_slice(tracer *of, const char *name, const char *category, double start, double end) {
    emit_json_open(&of->json, NULL, '{');
    emit_json_text(&of->json, "name", name);
    emit_json_text(&of->json, "cat", category);
    emit_json_text(&of->json, "ph", "X");
    emit_json_fixed(&of->json, "ts", (start - of->start) * 1e6);
    emit_json_fixed(&of->json, "dur", (end - start) * 1e6);
    emit_json_integer(&of->json, "pid", 1);
    emit_json_integer(&of->json, "tid", 1);
    emit_json_open(&of->json, "args", '{');
}

static void end_slice(tracer *of) {
    emit_json_close(&of->json, '}');
    emit_json_close(&of->json, '}');
}

static void close_iteration(tracer *of, uint32_t graph) {
    open_iteration *iteration = &of->open[graph];
    if (!iteration->open) return;
    char name[64];
    snprintf(name, sizeof name, "iteration %lld", (long long)iteration->iteration);
    begin_slice(of, name, "iteration", iteration->start, iteration->end);
    emit_json_signed(&of->json, "iteration", iteration->iteration);
    end_slice(of);
    iteration->open = false;
}

/* Steps of a loop's body lie in a slice of their iteration; those of an If's branches in that of the If. */
static void follow_iteration(tracer *of, const rt_trace_event *event) {
    const plan_node *node = &of->plan->nodes[event->node];
    const uint32_t owner = of->plan->graphs[node->graph].owner;
    for (uint32_t g = 0; g < node->graph_count; g++) close_iteration(of, node->first_graph + g);
    if (owner == PLAN_ABSENT || plan_node_code(of->plan, &of->plan->nodes[owner]) != OP_LOOP) return;
    open_iteration *iteration = &of->open[node->graph];
    if (iteration->open && iteration->iteration != event->iteration) close_iteration(of, node->graph);
    if (!iteration->open) *iteration = (open_iteration){true, event->iteration, event->start, event->end};
    iteration->end = event->end;
}

static void trace_step(void *user, const rt_trace_event *event) {
    tracer *of = user;
    const char *texts = of->plan->texts;
    const plan_node *node = &of->plan->nodes[event->node];
    const char *operator_name = texts + node->operator_name, *name = texts + node->name;
    char label[256], shapes[512];
    follow_iteration(of, event);
    snprintf(label, sizeof label, "%s%s%s", operator_name, name[0] ? " " : "", name);
    begin_slice(of, label, operator_name, event->start, event->end);
    emit_json_text(&of->json, "kernel", texts + node->kernel);
    emit_json_text(&of->json, "path", texts + node->path);
    emit_json_text(&of->json, "shapes",
                   command_profile_shapes_print(of->plan, event->node, shapes, sizeof shapes));
    emit_json_signed(&of->json, "iteration", event->iteration);
    end_slice(of);
}

/* What the rows of the picture are called. */
static void name_rows(tracer *of, const char *model) {
    static const char *const events[] = {"process_name", "thread_name"};
    const char *const names[] = {model, "steps"};
    for (int i = 0; i < 2; i++) {
        emit_json_open(&of->json, NULL, '{');
        emit_json_text(&of->json, "name", events[i]);
        emit_json_text(&of->json, "ph", "M");
        emit_json_integer(&of->json, "pid", 1);
        emit_json_integer(&of->json, "tid", 1);
        emit_json_open(&of->json, "args", '{');
        emit_json_text(&of->json, "name", names[i]);
        end_slice(of);
    }
}

int command_profile_trace(ouro_session *session, const command_model *model, const char *path) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    tracer of = {.plan = model->plan,
                 .open = BASE_ARRAY(&arena, open_iteration, (size_t)model->plan->header->graphs.count)};
    ouro_error error;
    int status = of.open ? 0 : command_fail_memory();
    /* The first run warms caches and pages; the second is traced. */
    if (!status && ouro_session_run(session, &error) != OURO_OK) status = command_fail_error(&error);
    emit_json_open(&of.json, NULL, '{');
    emit_json_open(&of.json, "traceEvents", '[');
    name_rows(&of, model->path);
    if (!status) {
        rt_session_trace(session, trace_step, &of);
        of.start = command_seconds();
        if (ouro_session_run(session, &error) != OURO_OK) status = command_fail_error(&error);
        rt_session_trace(session, NULL, NULL);
    }
    emit_json_close(&of.json, ']');
    emit_json_text(&of.json, "displayTimeUnit", "ms");
    emit_json_close(&of.json, '}');
    base_report report = {0};
    if (!status && emit_write(&of.json, path, &report) != BASE_OK) status = command_fail_report(&report);
    emit_free(&of.json);
    base_arena_free(&arena);
    return status;
}

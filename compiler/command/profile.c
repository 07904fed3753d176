/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c: a table of what nodes take; see compiler/command/profile.h. */
#include "compiler/command/profile.h"
#include "compiler/report/emit.h"
#include "runtime/session.h"
#include <stdlib.h>
#include <string.h>

enum { LEAST_RUNS = 3, MOST_RUNS = 101, SHOWN = 10 };
static const double OBSERVED_SECONDS = 0.5;

/* ---- observing ----------------------------------------------------------------------------------------- */

typedef struct observation {
    const plan *plan;
    double *seconds;      /* by node, of the run that goes on */
    uint64_t *executions; /* by node, of all runs */
} observation;

static void observe_step(void *user, const rt_trace_event *event) {
    observation *of = user;
    of->seconds[event->node] += event->end - event->start;
    of->executions[event->node]++;
}

/* What a control node took includes the steps of its graphs: that is taken off. */
static void subtract_graphs(const plan *from, size_t count, const double *seconds, float *own) {
    for (size_t i = 0; i < count; i++) own[i] = (float)seconds[i];
    for (size_t i = 0; i < count; i++) {
        const uint32_t owner = from->graphs[from->nodes[i].graph].owner;
        if (owner != PLAN_ABSENT) own[owner] -= (float)seconds[i];
    }
}

static int compare_floats(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int compare_nodes(const void *a, const void *b) {
    const profile_node *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? 1 : -1;
    return (x->node > y->node) - (x->node < y->node);
}

/* `rows` has a row for each run: what the nodes took. */
static bool collect(const observation *of, const float *rows, size_t runs, size_t count, profile *result) {
    result->nodes = BASE_ARRAY(&result->arena, profile_node, count ? count : 1);
    if (!result->nodes) return false;
    float column[MOST_RUNS];
    for (size_t i = 0; i < count; i++) {
        if (!of->executions[i]) continue;
        for (size_t r = 0; r < runs; r++) column[r] = rows[r * count + i];
        qsort(column, runs, sizeof *column, compare_floats);
        profile_node *node = &result->nodes[result->count];
        *node = (profile_node){.node = (uint32_t)i,
                               .seconds = column[runs / 2] > 0 ? (double)column[runs / 2] : 0,
                               .executions = (double)of->executions[i] / (double)runs};
        if (!emit_work_of_node(of->plan, node->node, &result->arena, &node->done)) return false;
        if (node->seconds == 0) continue;
        result->seconds += node->seconds;
        result->count++;
    }
    qsort(result->nodes, result->count, sizeof *result->nodes, compare_nodes);
    result->runs = runs;
    return true;
}

int command_profile_measure(const command_model *model, ouro_session *session, int threads, profile *result) {
    *result = (profile){0};
    base_arena_init(&result->arena, NULL);
    const size_t count = (size_t)model->plan->header->nodes.count;
    observation of = {.plan = model->plan,
                      .seconds = BASE_ARRAY(&result->arena, double, count + 1),
                      .executions = BASE_ARRAY(&result->arena, uint64_t, count + 1)};
    size_t most = count ? ((size_t)64 << 20) / (count * sizeof(float)) : MOST_RUNS;
    most = most > MOST_RUNS ? MOST_RUNS : most < LEAST_RUNS ? LEAST_RUNS : most;
    float *rows = BASE_ARRAY(&result->arena, float, most *count + 1);
    if (!of.seconds || !of.executions || !rows) return command_fail_memory();
    ouro_error error;
    size_t runs = 0;
    int status = 0;
    const double begin = command_seconds();
    rt_session_trace(session, observe_step, &of);
    while (!status && runs < most && (runs < LEAST_RUNS || command_seconds() - begin < OBSERVED_SECONDS)) {
        memset(of.seconds, 0, count * sizeof *of.seconds);
        if (command_run_on(session, &error) != OURO_OK) status = command_fail_error(&error);
        subtract_graphs(model->plan, count, of.seconds, rows + runs++ * count);
    }
    rt_session_trace(session, NULL, NULL);
    base_report report = {0};
    if (!status && command_machine_measure(threads, &result->peak, &report) != BASE_OK)
        status = command_fail_report(&report);
    if (!status && !collect(&of, rows, runs, count, result)) status = command_fail_memory();
    return status;
}

void command_profile_free(profile *of) {
    base_arena_free(&of->arena);
    *of = (profile){0};
}

/* ---- telling ------------------------------------------------------------------------------------------- */

/* The share of what the machine allows that the node reaches: the least time that its arithmetic or its bytes would take,
 * over the time that it took. Above 1 where its tensors come from caches. 0: nothing is known. */
static double share_of_peak(const profile *of, const profile_node *node) {
    if (!(node->seconds > 0) || !(of->peak.operations > 0) || !(of->peak.bytes > 0)) return 0;
    const double arithmetic = node->done.operations / of->peak.operations,
                 memory = node->done.bytes / of->peak.bytes;
    return (arithmetic > memory ? arithmetic : memory) * node->executions / node->seconds;
}

/* The tensors of a list of ids, until the text is full. */
static size_t print_tensors(const plan *of, uint64_t first, uint64_t count, char *text, size_t capacity,
                            size_t used) {
    char one[256];
    for (uint64_t i = 0; i < count && used + 1 < capacity; i++) {
        const uint32_t id = of->tensor_ids[first + i];
        op_type type = {0};
        if (id != PLAN_ABSENT) plan_tensor_type(of, id, &type);
        type.layout = OP_LAYOUT_ROW_MAJOR;
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "",
                                 id == PLAN_ABSENT ? "-" : op_type_print(&type, one, sizeof one));
    }
    return used < capacity ? used : capacity - 1;
}

char *command_profile_shapes_print(const plan *of, uint32_t number, char *text, size_t capacity) {
    const plan_node *node = &of->nodes[number];
    text[0] = 0;
    size_t used = print_tensors(of, node->inputs, node->input_count, text, capacity, 0);
    used += (size_t)snprintf(text + used, capacity - used, " -> ");
    if (used < capacity) print_tensors(of, node->outputs, node->output_count, text, capacity, used);
    return text;
}

static const char *name_of(const plan *of, const plan_node *node) {
    if (of->texts[node->name]) return of->texts + node->name;
    const uint32_t id = node->output_count ? of->tensor_ids[node->outputs] : PLAN_ABSENT;
    return id == PLAN_ABSENT ? "" : of->texts + of->tensors[id].name;
}

static double rate(double amount, const profile_node *node) {
    return node->seconds > 0 ? amount * node->executions / node->seconds * 1e-9 : 0;
}

/* Nothing that a terminal would act on. */
static void print_clean(const char *text, int width) {
    int printed = 0;
    for (; *text && printed < width; text++, printed++)
        putchar((unsigned char)*text < ' ' || *text == 127 ? '?' : *text);
    for (; printed < width; printed++) putchar(' ');
}

void command_profile_print(const profile *of, const plan *from) {
    const size_t shown = of->count < SHOWN ? of->count : SHOWN;
    printf("%zu run%s observed, %.4f ms in %zu node%s; this machine: %.1f GFLOP/s, %.1f GB/s\n", of->runs,
           emit_plural(of->runs), of->seconds * 1e3, of->count, emit_plural(of->count),
           of->peak.operations * 1e-9, of->peak.bytes * 1e-9);
    printf("      ms  share  GFLOP/s    GB/s  of peak  runs  operator            kernel                    "
           "node\n");
    for (size_t i = 0; i < shown; i++) {
        const profile_node *node = &of->nodes[i];
        const plan_node *what = &from->nodes[node->node];
        char shapes[512];
        printf("%8.4f %5.1f%% %8.1f %7.1f %7.0f%% %5.0f  ", node->seconds * 1e3,
               node->seconds / of->seconds * 100, rate(node->done.operations, node),
               rate(node->done.bytes, node), share_of_peak(of, node) * 100, node->executions);
        print_clean(from->texts + what->operator_name, 19);
        putchar(' ');
        print_clean(what->graph_count ? "(itself)" : from->texts + what->kernel, 29);
        putchar(' ');
        print_clean(name_of(from, what), (int)strnlen(name_of(from, what), 60));
        printf("  ");
        command_profile_shapes_print(from, node->node, shapes, sizeof shapes);
        print_clean(shapes, (int)strlen(shapes));
        putchar('\n');
    }
    fflush(stdout);
}

void command_profile_emit(const profile *of, const plan *from, emit_buffer *json) {
    emit_json_open(json, "profile", '{');
    emit_json_integer(json, "runs", of->runs);
    emit_json_real(json, "ms", of->seconds * 1e3);
    emit_json_real(json, "peak_gflops", of->peak.operations * 1e-9);
    emit_json_real(json, "peak_gbytes_per_second", of->peak.bytes * 1e-9);
    emit_json_open(json, "nodes", '[');
    for (size_t i = 0; i < of->count; i++) {
        const profile_node *node = &of->nodes[i];
        const plan_node *what = &from->nodes[node->node];
        char shapes[1024];
        emit_json_open(json, NULL, '{');
        emit_json_text(json, "operator", from->texts + what->operator_name);
        emit_json_text(json, "node", name_of(from, what));
        emit_json_text(json, "path", from->texts + what->path);
        emit_json_text(json, "kernel", from->texts + what->kernel);
        emit_json_text(json, "shapes", command_profile_shapes_print(from, node->node, shapes, sizeof shapes));
        emit_json_real(json, "ms", node->seconds * 1e3);
        emit_json_real(json, "share", node->seconds / of->seconds);
        emit_json_real(json, "executions", node->executions);
        emit_json_real(json, "gflops", rate(node->done.operations, node));
        emit_json_real(json, "gbytes_per_second", rate(node->done.bytes, node));
        emit_json_real(json, "share_of_peak", share_of_peak(of, node));
        emit_json_close(json, '}');
    }
    emit_json_close(json, ']');
    emit_json_close(json, '}');
}

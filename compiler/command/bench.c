/* bench.c: `ouro bench`: the time, the memory and the allocations of a run. */
#include "compiler/command/command.h"
#include "compiler/command/profile.h"
#include "runtime/session.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct bench_options {
    int64_t threads, runs;
    command_list inputs, dims;
    const char *json, *allocator;
    bool profile;
} bench_options;

static const command_option bench_table[] = {
    {"--threads", NULL, COMMAND_THREADS, "N", "threads to run on (plan: as compiled; model: 1)",
     offsetof(bench_options, threads)},
    {"--runs", NULL, COMMAND_COUNT, "N", "runs to measure (default: as many as fit in a second, at least 5)",
     offsetof(bench_options, runs)},
    {"--input", NULL, COMMAND_LIST, "NAME=FILE",
     "an input from a .npy or .pb file; the others are made up (seed 1)", offsetof(bench_options, inputs)},
    {"--dim", NULL, COMMAND_LIST, "NAME=N", "bind a symbolic dimension of a model; those not bound are 1",
     offsetof(bench_options, dims)},
    {"--allocator", NULL, COMMAND_TEXT, "NAME", "the planner of memory, for models",
     offsetof(bench_options, allocator)},
    {"--profile", NULL, COMMAND_FLAG, NULL,
     "percentiles of the run, and a table of the ten most expensive nodes", offsetof(bench_options, profile)},
    {"--json", NULL, COMMAND_TEXT, "FILE", "the numbers as JSON", offsetof(bench_options, json)},
    {0},
};

enum { LEAST_RUNS = 5, MOST_RUNS = 100000 };

typedef struct bench_numbers {
    double load, first, median, minimum; /* seconds */
    double ninetieth, last;              /* the 90th and the 99th of 100 parts of the sorted runs */
    size_t runs;
    int64_t allocations; /* of one run, rounded up; -1: not known */
    size_t peak_rss, arena_bytes;
    int threads;
} bench_numbers;

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The peak of the process so far is forgotten where the system can, so that each model has its own. */
static void reset_peak(void) {
    int descriptor = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return;
    ssize_t written = write(descriptor, "5", 1);
    (void)written;
    close(descriptor);
}

static size_t peak_bytes(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

/* The times are in `times`, which holds `most` runs: nothing is taken from the heap while they are
 * measured. */
static int measure(const bench_options *options, const command_model *model, ouro_session *session,
                   double *times, size_t most, bench_numbers *numbers) {
    ouro_error error;
    double start = command_seconds();
    if (ouro_session_run(session, &error) != OURO_OK) {
        return command_fail((int)error.status, "%s: %s", model->path, error.message);
    }
    double begin = command_seconds();
    numbers->first = begin - start;
    int64_t allocations = command_allocation_count();
    size_t runs = 0;
    for (;;) {
        start = command_seconds();
        ouro_status status = ouro_session_run(session, &error);
        double end = command_seconds();
        if (status != OURO_OK) return command_fail((int)error.status, "%s: %s", model->path, error.message);
        times[runs++] = end - start;
        bool enough = !options->runs && runs >= LEAST_RUNS && end - begin > 1;
        if (runs == most || enough) break;
    }
    int64_t taken = command_allocation_count() - allocations;
    numbers->allocations = allocations < 0 ? -1 : (taken + (int64_t)runs - 1) / (int64_t)runs;
    numbers->runs = runs;
    qsort(times, runs, sizeof *times, compare_doubles);
    numbers->minimum = times[0];
    numbers->ninetieth = times[(runs - 1) * 90 / 100];
    numbers->last = times[(runs - 1) * 99 / 100];
    numbers->median = runs % 2 ? times[runs / 2] : (times[runs / 2 - 1] + times[runs / 2]) / 2;
    return 0;
}

static void emit_numbers(emit_buffer *json, const char *path, const bench_numbers *numbers,
                         const profile *nodes, const plan *from) {
    emit_json_open(json, NULL, '{');
    emit_json_text(json, "model", path);
    emit_json_integer(json, "threads", (uint64_t)numbers->threads);
    emit_json_real(json, "load_ms", numbers->load * 1e3);
    emit_json_real(json, "first_ms", numbers->first * 1e3);
    emit_json_real(json, "median_ms", numbers->median * 1e3);
    emit_json_real(json, "min_ms", numbers->minimum * 1e3);
    emit_json_integer(json, "peak_rss_bytes", numbers->peak_rss);
    emit_json_integer(json, "arena_bytes", numbers->arena_bytes);
    if (numbers->allocations < 0) emit_json_text(json, "allocations_per_run", NULL);
    else emit_json_integer(json, "allocations_per_run", (uint64_t)numbers->allocations);
    emit_json_integer(json, "runs", numbers->runs);
    emit_json_real(json, "p90_ms", numbers->ninetieth * 1e3);
    emit_json_real(json, "p99_ms", numbers->last * 1e3);
    if (nodes) profile_emit(nodes, from, json);
    emit_json_close(json, '}');
}

static void print_numbers(const char *path, const bench_numbers *numbers) {
    char arena[32], peak[32];
    printf("%s: median %.4f ms, least %.4f ms of %zu runs on %d thread%s; first %.3f ms, load %.3f ms; arena "
           "%s, "
           "peak of the process %s",
           path, numbers->median * 1e3, numbers->minimum * 1e3, numbers->runs, numbers->threads,
           numbers->threads == 1 ? "" : "s", numbers->first * 1e3, numbers->load * 1e3,
           emit_size_print(numbers->arena_bytes, arena, sizeof arena),
           emit_size_print(numbers->peak_rss, peak, sizeof peak));
    if (numbers->allocations >= 0) printf("; %lld allocations a run", (long long)numbers->allocations);
    printf("\n");
    fflush(stdout);
}

static void print_profile(const bench_numbers *numbers, const profile *nodes, const plan *from) {
    printf("of 100 runs 50 take at most %.4f ms, 90 %.4f ms, 99 %.4f ms\n", numbers->median * 1e3,
           numbers->ninetieth * 1e3, numbers->last * 1e3);
    profile_print(nodes, from);
}

static int bench_one(const command *self, const bench_options *options, const char *path, emit_buffer *json,
                     command_progress *progress) {
    command_model model;
    bench_numbers of = {0}, *numbers = &of;
    profile nodes = {0};
    command_model_request request = {.self = self,
                                     .path = path,
                                     .inputs = options->inputs,
                                     .dims = options->dims,
                                     .allocator = options->allocator,
                                     .threads = (int)options->threads,
                                     .ones = true};
    reset_peak();
    int status = command_model_open(&request, &model, progress);
    if (!status) status = command_model_fill(&model, 1);
    ouro_session *session = NULL;
    double *times = NULL;
    size_t most = options->runs ? (size_t)options->runs : MOST_RUNS;
    if (!status) {
        ouro_session_options session_options = {.threads = (int)options->threads};
        ouro_error error;
        double start = command_seconds();
        if (ouro_session_new(model.handle, &session_options, &session, &error) != OURO_OK) {
            status = command_fail((int)error.status, "%s: %s", path, error.message);
        }
        numbers->load = model.load_seconds + (command_seconds() - start);
        numbers->threads = options->threads ? (int)options->threads : (int)model.plan->header->threads;
    }
    if (!status) status = command_model_bind(&model, session);
    if (!status) {
        times = most > SIZE_MAX / sizeof *times ? NULL : malloc(most * sizeof *times);
        if (!times) status = command_fail_memory();
    }
    command_progress_say(progress, "running %s", path);
    if (!status) status = measure(options, &model, session, times, most, numbers);
    if (!status) {
        numbers->arena_bytes = ouro_plan_arena_bytes(model.handle);
        numbers->peak_rss = peak_bytes();
    }
    if (!status && options->profile) status = profile_measure(&model, session, numbers->threads, &nodes);
    command_progress_end(progress);
    if (!status) {
        print_numbers(path, numbers);
        if (options->profile) print_profile(numbers, &nodes, model.plan);
        emit_numbers(json, path, numbers, options->profile ? &nodes : NULL, model.plan);
    }
    profile_free(&nodes);
    free(times);
    ouro_session_free(session);
    command_model_close(&model);
    return status;
}

static int bench_main(const command *self, int count, char **arguments) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    bench_options options = {0};
    command_list models;
    emit_buffer json = {0};
    int status = command_parse(self, count, arguments, &options, &models, &arena);
    if (!status) {
        emit_json_open(&json, NULL, '[');
        for (size_t i = 0; i < models.count; i++) {
            command_progress progress;
            command_progress_begin(&progress, "loading");
            int one = bench_one(self, &options, models.items[i], &json, &progress);
            command_progress_end(&progress);
            if (one > status) status = one;
        }
        emit_json_close(&json, ']');
        base_report report = {0};
        if (options.json && status == 0 && emit_write(&json, options.json, &report) != BASE_OK) {
            status = command_fail_report(&report);
        }
    }
    emit_free(&json);
    base_arena_free(&arena);
    return status;
}

const command command_bench = {
    .name = "bench",
    .usage = "bench PLAN|MODEL.onnx... [options]",
    .summary = "measure the time, the memory and the allocations of a run",
    .details = "The first run is measured by itself; then come the runs whose median and least time are "
               "given. The peak is\n"
               "that of the process with the model loaded. The JSON file is written when every model ran.",
    .options = bench_table,
    .operand_minimum = 1,
    .operand_maximum = SIZE_MAX,
    .operand = "a plan or a model",
    .run = bench_main,
};

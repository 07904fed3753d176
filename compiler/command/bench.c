/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c: `ouro bench`: the time, the memory and the allocations of a run. */
#include "compiler/command/command.h"
#include "compiler/report/emit.h"
#include "compiler/command/onnxruntime.h"
#include "compiler/command/profile.h"
#include "runtime/session.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

typedef struct bench_options {
    int64_t threads, runs, warmup;
    command_list inputs, dims, shapes;
    const char *json, *allocator, *spill;
    bool compare, compare_ort, profile;
} bench_options;

static const command_option bench_table[] = {
    {"--threads", NULL, COMMAND_THREADS, "N", "threads to run on (plan: as compiled; model: 1)",
     offsetof(bench_options, threads)},
    {"--spill", NULL, COMMAND_TEXT, "FILE",
     "where a plan that spills makes its file, in place of the one that it was compiled with",
     offsetof(bench_options, spill)},
    {"--runs", NULL, COMMAND_COUNT, "N", "runs to measure (default: as many as fit in a second, at least 5)",
     offsetof(bench_options, runs)},
    {"--warmup", NULL, COMMAND_COUNT, "N",
     "runs before those that are measured (default: 1, the one that is told as the first)",
     offsetof(bench_options, warmup)},
    {"--compare", NULL, COMMAND_FLAG, NULL,
     "run the models in turns and tell each one's time as a ratio to the first one's",
     offsetof(bench_options, compare)},
    {"--compare-ort", NULL, COMMAND_FLAG, NULL,
     "run each model in turns with ONNX Runtime (libonnxruntime.so.1, or what OURO_ONNXRUNTIME names) and "
     "tell the ratio",
     offsetof(bench_options, compare_ort)},
    {"--input", NULL, COMMAND_LIST, "[NAME=]FILE|VALUE",
     "an input from a .npy, .npz or .pb file, or written out; the others are made up (seed 1)",
     offsetof(bench_options, inputs)},
    {"--dim", NULL, COMMAND_LIST, "NAME=N", "bind a symbolic dimension of a model; those not bound are 1",
     offsetof(bench_options, dims)},
    {"--shape", NULL, COMMAND_LIST, "INPUT=AxBxC", "the shape of an input; '?' leaves a dimension as it is",
     offsetof(bench_options, shapes)},
    {"--allocator", NULL, COMMAND_TEXT, "NAME", "the planner of memory, for models",
     offsetof(bench_options, allocator)},
    {"--profile", NULL, COMMAND_FLAG, NULL, "a table of the ten most expensive nodes too",
     offsetof(bench_options, profile)},
    {"--json", NULL, COMMAND_TEXT, "FILE", "the numbers as JSON", offsetof(bench_options, json)},
    {0},
};

enum { LEAST_RUNS = 5, MOST_RUNS = 100000, LEAST_ROUNDS = 9 };

typedef struct bench_numbers {
    double load, first, median, minimum, p90, p99; /* seconds */
    /* --compare: to the first model, --compare-ort: to ONNX Runtime; the median of the rounds'. 0: not compared */
    double ratio;
    size_t runs;
    int64_t allocations; /* of one run, rounded up; -1: not known */
    size_t peak_rss;     /* 0: not known */
    size_t arena_bytes, shape_bytes, run_time_bytes;
    int threads;
    char made_up[512];
} bench_numbers;

/* One model, ready to run: by ouro or by ONNX Runtime. */
typedef struct bench_subject {
    const char *path;
    command_model model;
    ouro_session *session;
    onnxruntime_session other; /* other.runtime: that one */
    double *times;             /* of its runs */
    size_t runs, most;
    double *rounds; /* of --compare: the median of each round */
    bench_numbers numbers;
} bench_subject;

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

static int fail_run(const bench_subject *subject, const ouro_error *error) {
    const int status = command_fail((int)error->status, "%s: %s", subject->path, error->message);
    if (status == BASE_INVALID) command_model_hint(&subject->model);
    return status;
}

static double median(double *times, size_t count) {
    qsort(times, count, sizeof *times, compare_doubles);
    return count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
}

/* Of sorted times: the least that so many percent of the runs did not exceed. */
static double percentile(const double *times, size_t count, size_t percent) {
    const size_t rank = (count * percent + 99) / 100;
    return times[rank ? rank - 1 : 0];
}

/* One run. Returns 0 or the exit status. */
static int run_once(bench_subject *subject, double *seconds) {
    ouro_error error;
    base_report report = {0};
    if (subject->other.runtime) {
        base_status status = command_onnxruntime_run_again(&subject->other, seconds, &report);
        return status == BASE_OK ? 0 : command_fail((int)status, "%s: %s", subject->path, report.text);
    }
    const double start = command_seconds();
    const ouro_status status = command_run_on(subject->session, &error);
    *seconds = command_seconds() - start;
    return status == OURO_OK ? 0 : fail_run(subject, &error);
}

/* The first run, and more that are not measured. */
static int warm_up(bench_subject *subject, int64_t runs) {
    double seconds;
    int status = run_once(subject, &subject->numbers.first);
    for (int64_t i = 1; i < runs && !status; i++) status = run_once(subject, &seconds);
    return status;
}

/* Runs that are measured: `runs` of them, or (0) for so many seconds, at least `least`; never more than `most`. Nothing is taken
 * from the heap meanwhile. */
static int measure(bench_subject *subject, size_t runs, size_t least, double seconds, size_t most) {
    double sum = 0;
    for (size_t done = 0; done < most && subject->runs < subject->most;) {
        double *time = &subject->times[subject->runs];
        const int status = run_once(subject, time);
        if (status) return status;
        subject->runs++;
        sum += *time;
        done++;
        if (runs ? done == runs : done >= least && sum > seconds) break;
    }
    return 0;
}

/* The numbers of all times. */
static void sum_up(bench_subject *subject) {
    bench_numbers *numbers = &subject->numbers;
    ouro_memory memory;
    numbers->runs = subject->runs;
    numbers->median = median(subject->times, subject->runs);
    numbers->minimum = subject->times[0];
    numbers->p90 = percentile(subject->times, subject->runs, 90);
    numbers->p99 = percentile(subject->times, subject->runs, 99);
    if (!subject->session) return;
    numbers->arena_bytes = ouro_plan_arena_bytes(subject->model.handle);
    ouro_session_memory(subject->session, &memory);
    numbers->shape_bytes = memory.shape_bytes;
    numbers->run_time_bytes = memory.run_time_peak_bytes;
}

static int measure_alone(const bench_options *options, bench_subject *subject) {
    int status = warm_up(subject, options->warmup);
    const int64_t before = command_allocation_count();
    if (!status) status = measure(subject, (size_t)options->runs, LEAST_RUNS, 1, subject->most);
    if (status) return status;
    const int64_t taken = command_allocation_count() - before;
    const int64_t runs = (int64_t)subject->runs;
    subject->numbers.allocations = before < 0 ? -1 : (taken + runs - 1) / runs;
    sum_up(subject);
    subject->numbers.peak_rss = peak_bytes();
    return 0;
}

/* The arrays that a subject's times go to. */
static int reserve_times(const bench_options *options, bench_subject *subject) {
    const bool in_turns = options->compare || options->compare_ort;
    subject->most = MOST_RUNS;
    if (options->runs &&
        !base_size_multiply((size_t)options->runs, in_turns ? LEAST_ROUNDS : 1, &subject->most))
        return command_fail_memory();
    subject->times = calloc(subject->most, sizeof *subject->times);
    subject->rounds = calloc(LEAST_ROUNDS, sizeof *subject->rounds);
    return subject->times && subject->rounds ? 0 : command_fail_memory();
}

static int open_subject(const command *self, const bench_options *options, bench_subject *subject,
                        command_progress *progress) {
    command_model_request request = {.self = self,
                                     .path = subject->path,
                                     .inputs = options->inputs,
                                     .dims = options->dims,
                                     .shapes = options->shapes,
                                     .allocator = options->allocator,
                                     .threads = (int)options->threads,
                                     .ones = true};
    subject->numbers = (bench_numbers){.allocations = -1};
    int status = command_model_open(&request, &subject->model, progress);
    if (!status) status = command_model_fill(&subject->model, 1);
    if (status) return status;
    const command_model *model = &subject->model;
    ouro_session_options session_options = {.threads = (int)options->threads, .spill_path = options->spill};
    ouro_error error;
    const double start = command_seconds();
    if (ouro_session_new(model->handle, &session_options, &subject->session, &error) != OURO_OK)
        return fail_run(subject, &error);
    subject->numbers.load = model->load_seconds + (command_seconds() - start);
    subject->numbers.threads = options->threads ? (int)options->threads : (int)model->plan->header->threads;
    command_model_made_up(model, subject->numbers.made_up, sizeof subject->numbers.made_up);
    status = command_model_bind(model, subject->session);
    return status ? status : reserve_times(options, subject);
}

/* The same model, with the same inputs, run by ONNX Runtime. */
static int open_other(const bench_options *options, onnxruntime *runtime, bench_subject *ours,
                      bench_subject *subject) {
    command_model *model = &ours->model;
    const size_t inputs = model->input_count, outputs = ouro_plan_output_count(model->handle);
    const char **names = BASE_ARRAY(&model->arena, const char *, inputs + outputs + 1);
    ouro_tensor_info info;
    base_report report = {0};
    subject->path = "ONNX Runtime";
    subject->numbers = (bench_numbers){.allocations = -1, .threads = ours->numbers.threads};
    if (!names) return command_fail_memory();
    for (size_t i = 0; i < inputs; i++)
        names[i] = ouro_plan_input(model->handle, i, &info) == OURO_OK ? info.name : "";
    for (size_t i = 0; i < outputs; i++)
        names[inputs + i] = ouro_plan_output(model->handle, i, &info) == OURO_OK ? info.name : "";
    const double start = command_seconds();
    base_status status =
        command_onnxruntime_open(runtime, ours->path, subject->numbers.threads, names, model->inputs, inputs,
                                 outputs, &model->arena, &subject->other, &report);
    if (status != BASE_OK) return command_fail((int)status, "%s: %s", ours->path, report.text);
    subject->numbers.load = command_seconds() - start;
    return reserve_times(options, subject);
}

static void close_subject(bench_subject *subject) {
    free(subject->times);
    free(subject->rounds);
    command_onnxruntime_close(&subject->other);
    ouro_session_free(subject->session);
    command_model_close(&subject->model);
}

/* Threads of the one that ran before may still wait for work on all processors: they get the time to go to sleep. The first run
 * after that, on cold caches, does not count. */
static int take_turn(bench_subject *subject) {
    const struct timespec pause = {.tv_nsec = 30 * 1000 * 1000};
    double time;
    nanosleep(&pause, NULL);
    return run_once(subject, &time);
}

/* All models run in turns, so that what slows the machine down slows all of them; in each round a model runs for about a
 * tenth of a second. */
static int measure_in_turns(const bench_options *options, bench_subject *subjects, size_t count) {
    int status = 0;
    for (size_t i = 0; i < count && !status; i++) status = warm_up(&subjects[i], options->warmup);
    for (size_t round = 0; round < LEAST_ROUNDS && !status; round++) {
        for (size_t i = 0; i < count && !status; i++) {
            bench_subject *subject = &subjects[i];
            const size_t before = subject->runs;
            status = take_turn(subject);
            if (!status) status = measure(subject, (size_t)options->runs, 1, 0.1, subject->most / LEAST_ROUNDS);
            if (!status && subject->runs > before)
                subject->rounds[round] = median(subject->times + before, subject->runs - before);
        }
    }
    for (size_t i = 0; i < count && !status; i++) {
        /* ONNX Runtime's times stand after those of the same model. */
        const bench_subject *base = options->compare_ort ? &subjects[i | 1] : &subjects[0];
        double ratios[LEAST_ROUNDS];
        for (size_t round = 0; round < LEAST_ROUNDS; round++)
            ratios[round] = subjects[i].rounds[round] / base->rounds[round];
        sum_up(&subjects[i]);
        subjects[i].numbers.ratio = median(ratios, LEAST_ROUNDS);
    }
    return status;
}

static void emit_numbers(emit_buffer *json, const bench_subject *subject, const profile *nodes) {
    const char *path = subject->path;
    const bench_numbers *numbers = &subject->numbers;
    emit_json_open(json, NULL, '{');
    emit_json_text(json, "model", path);
    emit_json_integer(json, "threads", (uint64_t)numbers->threads);
    emit_json_real(json, "load_ms", numbers->load * 1e3);
    emit_json_real(json, "first_ms", numbers->first * 1e3);
    emit_json_real(json, "median_ms", numbers->median * 1e3);
    emit_json_real(json, "min_ms", numbers->minimum * 1e3);
    emit_json_real(json, "p90_ms", numbers->p90 * 1e3);
    emit_json_real(json, "p99_ms", numbers->p99 * 1e3);
    if (numbers->ratio > 0) emit_json_real(json, "ratio", numbers->ratio);
    if (numbers->peak_rss) emit_json_integer(json, "peak_rss_bytes", numbers->peak_rss);
    else emit_json_text(json, "peak_rss_bytes", NULL);
    emit_json_integer(json, "arena_bytes", numbers->arena_bytes);
    emit_json_integer(json, "shape_bytes", numbers->shape_bytes);
    emit_json_integer(json, "run_time_peak_bytes", numbers->run_time_bytes);
    if (numbers->allocations < 0) emit_json_text(json, "allocations_per_run", NULL);
    else emit_json_integer(json, "allocations_per_run", (uint64_t)numbers->allocations);
    emit_json_integer(json, "runs", numbers->runs);
    emit_json_text(json, "made_up", numbers->made_up);
    if (nodes) command_profile_emit(nodes, subject->model.plan, json);
    emit_json_close(json, '}');
}

static void print_numbers(const char *path, const bench_numbers *numbers) {
    char text[32];
    printf("%s: median %.4f ms, least %.4f, 90 %% within %.4f, 99 %% within %.4f, of %zu run%s on %d "
           "thread%s; first "
           "%.3f ms, load %.3f ms\n",
           path, numbers->median * 1e3, numbers->minimum * 1e3, numbers->p90 * 1e3, numbers->p99 * 1e3,
           numbers->runs, emit_plural(numbers->runs), numbers->threads,
           emit_plural((uint64_t)numbers->threads), numbers->first * 1e3, numbers->load * 1e3);
    printf("  arena %s", emit_size_print(numbers->arena_bytes, text, sizeof text));
    if (numbers->shape_bytes)
        printf(", planned for these shapes %s", emit_size_print(numbers->shape_bytes, text, sizeof text));
    if (numbers->run_time_bytes)
        printf(", allocated while running %s", emit_size_print(numbers->run_time_bytes, text, sizeof text));
    if (numbers->peak_rss)
        printf("; peak of the process %s", emit_size_print(numbers->peak_rss, text, sizeof text));
    if (numbers->allocations >= 0)
        printf("; %lld allocation%s a run", (long long)numbers->allocations,
               numbers->allocations == 1 ? "" : "s");
    printf("\n");
    if (numbers->made_up[0]) printf("  made up (seed 1): %s\n", numbers->made_up);
    fflush(stdout);
}

static void print_ratios(const bench_subject *subjects, size_t count) {
    char text[32];
    printf("%10s  %10s  %10s  %10s  model\n", "ratio", "median ms", "least ms", "arena");
    for (size_t i = 0; i < count; i++) {
        const bench_numbers *numbers = &subjects[i].numbers;
        printf("%10.3f  %10.4f  %10.4f  %10s  %s\n", numbers->ratio, numbers->median * 1e3,
               numbers->minimum * 1e3,
               emit_size_print(numbers->arena_bytes + numbers->shape_bytes, text, sizeof text),
               subjects[i].path);
    }
}

/* One model after another, each with a process to itself as far as that can be. */
static int bench_alone(const command *self, const bench_options *options, const command_list *models,
                       emit_buffer *json) {
    int status = 0;
    for (size_t i = 0; i < models->count; i++) {
        bench_subject subject = {.path = models->items[i]};
        command_progress progress;
        command_progress_begin(&progress, "loading");
        reset_peak();
        int one = open_subject(self, options, &subject, &progress);
        command_progress_say(&progress, "running %s", subject.path);
        profile nodes = {0};
        if (!one) one = measure_alone(options, &subject);
        if (!one && options->profile)
            one = command_profile_measure(&subject.model, subject.session, subject.numbers.threads, &nodes);
        command_progress_end(&progress);
        if (!one) {
            print_numbers(subject.path, &subject.numbers);
            if (options->profile) command_profile_print(&nodes, subject.model.plan);
            emit_numbers(json, &subject, options->profile ? &nodes : NULL);
        }
        command_profile_free(&nodes);
        close_subject(&subject);
        if (one > status) status = one;
    }
    return status;
}

static int bench_in_turns(const command *self, const bench_options *options, const command_list *models,
                          emit_buffer *json) {
    const size_t each = options->compare_ort ? 2 : 1, count = models->count * each;
    bench_subject *subjects = calloc(count, sizeof *subjects);
    int status = subjects ? 0 : command_fail_memory();
    onnxruntime *runtime = NULL;
    base_report report = {0};
    if (!status && options->compare_ort && command_onnxruntime_load(&runtime, &report) != BASE_OK)
        status = command_fail_report(&report);
    command_progress progress;
    command_progress_begin(&progress, "loading");
    for (size_t i = 0; i < models->count && !status; i++) {
        bench_subject *subject = &subjects[i * each];
        subject->path = models->items[i];
        status = open_subject(self, options, subject, &progress);
        if (!status && runtime) status = open_other(options, runtime, subject, subject + 1);
    }
    command_progress_say(&progress, "running %zu models in turns", models->count);
    if (!status) status = measure_in_turns(options, subjects, count);
    command_progress_end(&progress);
    if (!status) {
        print_ratios(subjects, count);
        for (size_t i = 0; i < count; i++) emit_numbers(json, &subjects[i], NULL);
    }
    for (size_t i = count; subjects && i-- > 0;) close_subject(&subjects[i]);
    free(subjects);
    command_onnxruntime_free(runtime);
    return status;
}

static int bench_main(const command *self, int count, char **arguments) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    bench_options options = {0};
    command_list models;
    emit_buffer json = {0};
    int status = command_parse(self, count, arguments, &options, &models, &arena);
    if (!status && options.compare + options.compare_ort + options.profile > 1)
        status = command_fail_usage(self, "--compare, --compare-ort and --profile exclude each other");
    if (!status) {
        emit_json_open(&json, NULL, '[');
        status = options.compare || options.compare_ort ? bench_in_turns(self, &options, &models, &json)
                                                        : bench_alone(self, &options, &models, &json);
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
    .details =
        "The first run is measured by itself; then come the runs whose times are given: the median, "
        "the least, and\n"
        "what 90 and 99 percent of the runs did not exceed. The peak is that of the process with the "
        "model loaded.\n"
        "Inputs that are not given are made up, and told; their dynamic dimensions are 1 unless --shape "
        "or --dim says\n"
        "otherwise. --compare and --compare-ort tell the median of the ratios of 9 rounds. The JSON file is "
        "written "
        "when every model "
        "ran.",
    .options = bench_table,
    .operand_minimum = 1,
    .operand_maximum = SIZE_MAX,
    .operand = "a plan or a model",
    .run = bench_main,
};

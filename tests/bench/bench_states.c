/* SPDX-License-Identifier: Apache-2.0 */
/* bench_states.c: a plan with states beside ONNX Runtime, which has its outputs given back as inputs.
 *
 *     bench_states [options] PLAN MODEL.onnx
 *
 * The plan is that of the model, compiled with --state; OURO_ONNXRUNTIME names the library of ONNX Runtime. Both get the same
 * inputs, run after run, in turns of some runs each, within one process. ONNX Runtime gets the memory of its outputs bound, two
 * buffers in turn for each state, so that its caller copies nothing. Only the runs are timed, without the first one of
 * each turn, whose caches the other one has emptied. Every output of every run is compared, and the states in the end. Exit
 * status 1: a difference above --within.
 *
 * A run appends one position to states that grow. Inputs are floats drawn from [-1, 1), unless --input says otherwise.
 */
#include "compiler/command/command.h"
#include "compiler/command/onnxruntime.h"
#include "runtime/ouro.h"
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct bench_options {
    int64_t threads, steps, turn;
    double within;
    command_list inputs, positions;
    const char *only;
    bool processor_time;
} bench_options;

static const command_option option_table[] = {
    {"--threads", NULL, COMMAND_THREADS, "N", "threads of both (1)", offsetof(bench_options, threads)},
    {"--steps", NULL, COMMAND_COUNT, "N", "how many runs (1000)", offsetof(bench_options, steps)},
    {"--turn", NULL, COMMAND_COUNT, "N", "runs of one before the other has its turn (12)",
     offsetof(bench_options, turn)},
    {"--within", NULL, COMMAND_REAL, "X", "the largest difference allowed (0.001)",
     offsetof(bench_options, within)},
    {"--input", NULL, COMMAND_LIST, "NAME=run|below:N|N",
     "integers: the number of the run, drawn from [0, N), or N", offsetof(bench_options, inputs)},
    {"--at", NULL, COMMAND_LIST, "N", "the median time of the 24 runs around run N too",
     offsetof(bench_options, positions)},
    {"--processor-time", NULL, COMMAND_FLAG, NULL,
     "seconds of the processors, not of the clock: for machines that others use, too",
     offsetof(bench_options, processor_time)},
    {"--only", NULL, COMMAND_TEXT, "ouro|ort", "only this one: tells the memory of the process",
     offsetof(bench_options, only)},
    {0},
};

enum { OURS, THEIRS, SIDES, AROUND = 12 };

typedef struct draw {
    enum { DRAW_REAL, DRAW_RUN, DRAW_BELOW, DRAW_NUMBER } kind;
    int64_t number;
} draw;

typedef struct state {
    op_type type;    /* as it is now, of ONNX Runtime */
    int axis;        /* along which it grows; -1 */
    size_t capacity; /* of each buffer */
    void *buffers[2];
} state;

typedef struct bench {
    bench_options options;
    const char *model;
    base_arena arena;
    ouro_plan *plan;
    ouro_session *session;
    onnxruntime *runtime;
    onnxruntime_session other;
    const char **names; /* inputs, states' inputs, outputs, states' outputs */
    import_value *inputs, *outputs;
    draw *draws; /* by input */
    void **kept; /* by output: what this turn's runs of ours gave, one after the other */
    state *states;
    size_t input_count, output_count, state_count;
    double *times[SIDES]; /* by run; 0: not counted */
    double *ratios;       /* by turn */
    size_t turns;
    double difference; /* the largest */
    const char *difference_name;
    bool halves; /* states are kept in half precision, and differ as they were rounded */
    int64_t difference_run;
} bench;

/* ---- what is run ----------------------------------------------------------------------------------------- */

static int fail_error(const ouro_error *error) {
    return command_fail((int)error->status, "%s", error->message);
}

static bool make_tensor(bench *b, import_value *value, ouro_dtype dtype, int rank, const int64_t *dims) {
    op_tensor *tensor = &value->tensor;
    *value = (import_value){.kind = OP_KIND_TENSOR};
    tensor->type = (op_type){.dtype = (op_dtype)dtype, .shape = {.rank = rank}};
    for (int d = 0; d < rank; d++) {
        if (dims[d] < 0) return false;
        tensor->type.shape.dims[d] = dims[d];
    }
    if (!op_type_bytes(&tensor->type, &tensor->bytes)) return false;
    tensor->data = rt_arena_aligned(&b->arena, tensor->bytes + 1);
    if (tensor->data) memset(tensor->data, 0, tensor->bytes);
    return tensor->data != NULL;
}

static int read_draws(bench *b, const command *self) {
    for (size_t i = 0; i < b->options.inputs.count; i++) {
        const char *name, *how;
        if (!command_split(self, "--input", b->options.inputs.items[i], &b->arena, &name, &how))
            return BASE_USAGE;
        const int input = ouro_plan_find_input(b->plan, name);
        if (input < 0) return command_fail_usage(self, "there is no input '%s'", name);
        draw *made = &b->draws[input];
        if (strcmp(how, "run") == 0) *made = (draw){.kind = DRAW_RUN};
        else if (strncmp(how, "below:", 6) == 0) *made = (draw){DRAW_BELOW, atoll(how + 6)};
        else *made = (draw){DRAW_NUMBER, atoll(how)};
        if (made->kind == DRAW_BELOW && made->number < 1)
            return command_fail_usage(self, "--input '%s': nothing is below it", b->options.inputs.items[i]);
    }
    return 0;
}

/* The inputs of a run: the same whenever they are asked for. */
static void draw_inputs(bench *b, int64_t run) {
    for (size_t i = 0; i < b->input_count; i++) {
        uint64_t random = (uint64_t)run * 1000003 + i;
        const op_tensor *to = &b->inputs[i].tensor;
        const draw how = b->draws[i];
        if (to->type.dtype == OP_FLOAT) {
            for (size_t k = 0; k < to->bytes / sizeof(float); k++)
                ((float *)to->data)[k] = (float)(base_random(&random) >> 40) / (float)(1 << 23) - 1;
            continue;
        }
        const int64_t number = how.kind == DRAW_RUN ? run
                               : how.kind == DRAW_BELOW
                                   ? (int64_t)(base_random(&random) % (uint64_t)how.number)
                                   : how.number;
        if (to->type.dtype == OP_INT64)
            for (size_t k = 0; k < to->bytes / sizeof number; k++) ((int64_t *)to->data)[k] = number;
        else
            for (size_t k = 0; k < to->bytes / sizeof(int32_t); k++)
                ((int32_t *)to->data)[k] = (int32_t)number;
    }
}

/* The tensors of the inputs, with their names; bound. */
static int make_inputs(bench *b) {
    ouro_tensor_info info;
    ouro_error error;
    for (size_t i = 0; i < b->input_count; i++) {
        const op_tensor *made = &b->inputs[i].tensor;
        if (ouro_plan_input(b->plan, i, &info) != OURO_OK ||
            !make_tensor(b, &b->inputs[i], info.dtype, info.rank, info.dims))
            return command_fail(BASE_INVALID, "an input has no known shape, or no memory");
        b->names[i] = base_arena_text(&b->arena, info.name, strlen(info.name));
        if (ouro_session_bind_input(b->session, i, made->data, made->bytes, NULL, &error) != OURO_OK)
            return fail_error(&error);
    }
    return 0;
}

/* Those of the outputs, whose shapes a first run tells. */
static int make_outputs(bench *b) {
    ouro_tensor_info info;
    ouro_error error;
    const void *data;
    draw_inputs(b, 0);
    if (ouro_session_run(b->session, &error) != OURO_OK) return fail_error(&error);
    for (size_t i = 0; i < b->output_count; i++) {
        if (ouro_session_output(b->session, i, &info, &data, &error) != OURO_OK) return fail_error(&error);
        b->names[b->input_count + b->state_count + i] =
            base_arena_text(&b->arena, info.name, strlen(info.name));
        if (!make_tensor(b, &b->outputs[i], info.dtype, info.rank, info.dims)) return command_fail_memory();
        b->kept[i] = rt_arena_aligned(&b->arena, (size_t)b->options.turn * b->outputs[i].tensor.bytes + 1);
        if (!b->kept[i]) return command_fail_memory();
    }
    return ouro_session_state_reset(b->session, &error) == OURO_OK ? 0 : fail_error(&error);
}

/* The states that ONNX Runtime gets and gives, as large as they can become. */
static int make_states(bench *b) {
    for (size_t i = 0; i < b->state_count; i++) {
        ouro_state_info info;
        state *s = &b->states[i];
        const void *data;
        ouro_error error;
        if (ouro_session_state_get(b->session, i, &info, &data, &error) != OURO_OK) return fail_error(&error);
        b->names[b->input_count + i] = base_arena_text(&b->arena, info.input, strlen(info.input));
        b->names[b->input_count + b->state_count + b->output_count + i] =
            base_arena_text(&b->arena, info.output, strlen(info.output));
        const bool halves = info.dtype == OURO_FLOAT16 || info.dtype == OURO_BFLOAT16;
        *s = (state){.axis = info.axis,
                     .type.dtype = halves ? OP_FLOAT : (op_dtype)info.dtype, /* as the model has it */
                     .type.shape.rank = info.rank};
        memcpy(s->type.shape.dims, info.dims, (size_t)info.rank * sizeof *info.dims);
        if (s->axis >= 0) s->type.shape.dims[s->axis] = b->options.steps;
        b->halves |= halves;
        if (info.dtype == OURO_STRING || !op_type_bytes(&s->type, &s->capacity))
            return command_fail(BASE_INVALID, "state '%s' is of strings, or too large", info.input);
        if (s->axis >= 0) s->type.shape.dims[s->axis] = 0;
    }
    return 0;
}

static int open_plan(bench *b, const command *self, const char *path) {
    ouro_error error;
    const ouro_session_options options = {.threads = (int)b->options.threads};
    if (ouro_plan_map(path, &b->plan, &error) != OURO_OK ||
        ouro_session_new(b->plan, &options, &b->session, &error) != OURO_OK)
        return fail_error(&error);
    b->input_count = ouro_plan_input_count(b->plan);
    b->output_count = ouro_plan_output_count(b->plan);
    b->state_count = ouro_plan_state_count(b->plan);
    const size_t all = b->input_count + b->output_count + 2 * b->state_count + 1;
    b->names = BASE_ARRAY(&b->arena, const char *, all);
    b->inputs = BASE_ARRAY(&b->arena, import_value, b->input_count + 1);
    b->outputs = BASE_ARRAY(&b->arena, import_value, b->output_count + 1);
    b->draws = BASE_ARRAY(&b->arena, draw, b->input_count + 1);
    b->kept = BASE_ARRAY(&b->arena, void *, b->output_count + 1);
    b->states = BASE_ARRAY(&b->arena, state, b->state_count + 1);
    b->ratios = BASE_ARRAY(&b->arena, double, (size_t)b->options.steps + 1);
    if (!b->names || !b->inputs || !b->outputs || !b->draws || !b->kept || !b->states || !b->ratios)
        return command_fail_memory();
    memset(b->draws, 0, (b->input_count + 1) * sizeof *b->draws);
    for (int side = 0; side < SIDES; side++) {
        b->times[side] = BASE_ARRAY(&b->arena, double, (size_t)b->options.steps);
        if (!b->times[side]) return command_fail_memory();
        memset(b->times[side], 0, (size_t)b->options.steps * sizeof(double));
    }
    int status = read_draws(b, self);
    if (!status) status = make_inputs(b);
    if (!status) status = make_outputs(b);
    return status ? status : make_states(b);
}

/* A state as it is now, in one of its buffers. */
static import_value state_value(const state *s, int buffer) {
    import_value value = {.kind = OP_KIND_TENSOR, .tensor = {.type = s->type, .data = s->buffers[buffer]}};
    (void)op_type_bytes(&value.tensor.type, &value.tensor.bytes);
    return value;
}

static int open_other(bench *b) {
    base_report report = {0};
    import_value *all = BASE_ARRAY(&b->arena, import_value, b->input_count + b->state_count + 1);
    if (!all) return command_fail_memory();
    memcpy(all, b->inputs, b->input_count * sizeof *all);
    for (size_t i = 0; i < b->state_count; i++) {
        state *s = &b->states[i];
        for (int k = 0; k < 2; k++) {
            s->buffers[k] = rt_arena_aligned(&b->arena, s->capacity + 1);
            if (!s->buffers[k]) return command_fail_memory();
        }
        memset(s->buffers[0], 0, s->axis < 0 ? s->capacity : 0);
        all[b->input_count + i] = state_value(s, 0);
    }
    base_status status = command_onnxruntime_load(&b->runtime, &report);
    if (status == BASE_OK)
        status = command_onnxruntime_open(b->runtime, b->model, (int)b->options.threads, b->names, all,
                                          b->input_count + b->state_count, b->output_count + b->state_count,
                                          &b->arena, &b->other, &report);
    b->other.bound = true;
    return status == BASE_OK ? 0 : command_fail_report(&report);
}

/* ---- turns ----------------------------------------------------------------------------------------------- */

static double now(const bench *b) {
    struct timespec t;
    if (!b->options.processor_time || clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0)
        return command_seconds();
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Runs [first, end) by ouro, whose outputs are kept. */
static int run_ours(bench *b, int64_t first, int64_t end) {
    ouro_error error;
    ouro_tensor_info info;
    const void *data;
    for (int64_t run = first; run < end; run++) {
        draw_inputs(b, run);
        const double start = now(b);
        const ouro_status status = ouro_session_run(b->session, &error);
        const double seconds = now(b) - start;
        if (status != OURO_OK) return fail_error(&error);
        if (run > first) b->times[OURS][run] = seconds;
        for (size_t i = 0; i < b->output_count; i++) {
            const size_t bytes = b->outputs[i].tensor.bytes;
            if (ouro_session_output(b->session, i, &info, &data, &error) != OURO_OK)
                return fail_error(&error);
            if (bytes) memcpy((char *)b->kept[i] + (size_t)(run - first) * bytes, data, bytes);
        }
    }
    return 0;
}

/* Keeps the larger difference; what is no number differs infinitely. */
static void differ(bench *b, double ours, double theirs, const char *name, int64_t run) {
    double difference = fabs(ours - theirs);
    if (isnan(difference)) difference = isnan(ours) && isnan(theirs) ? 0 : INFINITY;
    if (difference <= b->difference && b->difference_name) return;
    b->difference = difference;
    b->difference_name = name;
    b->difference_run = run;
}

static void compare_outputs(bench *b, int64_t run, int64_t first) {
    const char **names = b->names + b->input_count + b->state_count;
    for (size_t i = 0; i < b->output_count; i++) {
        op_tensor ours = b->outputs[i].tensor;
        int64_t count = 0;
        if (!op_shape_elements(&ours.type.shape, &count)) continue;
        ours.data = (char *)b->kept[i] + (size_t)(run - first) * ours.bytes;
        for (int64_t k = 0; k < count; k++)
            differ(b, file_tensor_number(&ours, (size_t)k),
                   file_tensor_number(&b->outputs[i].tensor, (size_t)k), names[i], run);
    }
}

/* The states of a run: what the one before gave, and where the next ones go. */
static base_status bind_states(bench *b, int64_t run, base_report *report) {
    const size_t inputs = b->input_count + b->state_count;
    base_status status = BASE_OK;
    for (size_t i = 0; i < b->state_count && status == BASE_OK; i++) {
        state *s = &b->states[i];
        import_value value = state_value(s, run & 1);
        status = command_onnxruntime_bind(&b->other, b->input_count + i, &value, report);
        if (s->axis >= 0) s->type.shape.dims[s->axis]++;
        value = state_value(s, !(run & 1));
        if (status == BASE_OK)
            status = command_onnxruntime_bind(&b->other, inputs + b->output_count + i, &value, report);
    }
    for (size_t i = 0; i < b->output_count && status == BASE_OK && run == 0; i++)
        status = command_onnxruntime_bind(&b->other, inputs + i, &b->outputs[i], report);
    return status;
}

static int run_theirs(bench *b, int64_t first, int64_t end, bool compared) {
    base_report report = {0};
    for (int64_t run = first; run < end; run++) {
        double seconds = 0;
        draw_inputs(b, run);
        base_status status = bind_states(b, run, &report);
        const double start = now(b);
        if (status == BASE_OK) status = command_onnxruntime_run_again(&b->other, &seconds, &report);
        if (status != BASE_OK) return command_fail_report(&report);
        if (run > first) b->times[THEIRS][run] = now(b) - start;
        if (compared) compare_outputs(b, run, first);
    }
    return 0;
}

/* States as they lie in the session beside the buffers of ONNX Runtime. */
static int compare_states(bench *b) {
    for (size_t i = 0; i < b->state_count; i++) {
        ouro_state_info info;
        ouro_error error;
        const void *given;
        state *s = &b->states[i];
        if (ouro_session_state_get(b->session, i, &info, &given, &error) != OURO_OK)
            return fail_error(&error);
        int64_t count = 0, at[OURO_MAX_RANK] = {0};
        char *data;
        memcpy(&data, &given, sizeof data); /* an op_tensor may be written, too */
        if (!op_shape_elements(&s->type.shape, &count)) return command_fail_memory();
        for (int d = 0; d < info.rank; d++)
            if (info.dims[d] != s->type.shape.dims[d])
                return command_fail(BASE_INVALID, "state '%s' has another shape", info.input);
        const op_tensor theirs = {.type = s->type, .data = s->buffers[b->options.steps & 1]};
        for (int64_t k = 0; k < count; k++) {
            int64_t offset = 0;
            op_tensor ours = {.type.dtype = (op_dtype)info.dtype};
            for (int d = 0; d < info.rank; d++) offset += at[d] * info.strides[d];
            ours.data = data + offset;
            differ(b, file_tensor_number(&ours, 0), file_tensor_number(&theirs, (size_t)k), info.output,
                   b->options.steps - 1);
            for (int d = info.rank; d-- > 0 && ++at[d] == info.dims[d];) at[d] = 0;
        }
    }
    return 0;
}

/* Threads of the one that ran before get the time to go to sleep. */
static void pause_between(const bench *b) {
    const struct timespec pause = {.tv_nsec = 30 * 1000 * 1000};
    if (b->options.threads > 1) nanosleep(&pause, NULL);
}

/* ---- what comes of it ------------------------------------------------------------------------------------ */

static int compare_doubles(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void print_difference(const bench *b, const char *what) {
    printf("%s %.3g: '%s' of run %" PRId64 "\n", what, b->difference,
           b->difference_name ? b->difference_name : "", b->difference_run);
}

/* The median of the times that count, of runs [first, end); 0: there are none. */
static double median_of(bench *b, const double *times, int64_t first, int64_t end) {
    if (first < 0) first = 0;
    if (end > b->options.steps) end = b->options.steps;
    double *sorted = end > first ? malloc((size_t)(end - first) * sizeof *sorted) : NULL, found = 0;
    size_t count = 0;
    for (int64_t i = first; sorted && i < end; i++)
        if (times[i] > 0) sorted[count++] = times[i];
    if (count) {
        qsort(sorted, count, sizeof *sorted, compare_doubles);
        found = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
    }
    free(sorted);
    return found;
}

static int run_turns(bench *b) {
    int status = 0;
    const bool both = !b->options.only;
    for (int64_t first = 0; first < b->options.steps && !status; first += b->options.turn) {
        const int64_t end =
            first + b->options.turn < b->options.steps ? first + b->options.turn : b->options.steps;
        if (b->session) status = run_ours(b, first, end);
        if (both) pause_between(b);
        if (!status && b->runtime) status = run_theirs(b, first, end, both);
        if (both) pause_between(b);
        const double ours = median_of(b, b->times[OURS], first, end),
                     theirs = median_of(b, b->times[THEIRS], first, end);
        if (ours > 0 && theirs > 0) b->ratios[b->turns++] = ours / theirs;
    }
    return status;
}

static void print_row(const char *what, double ours, double theirs, double ratio) {
    printf("%-12s %12.4f %12.4f %8.2f\n", what, ours * 1e3, theirs * 1e3, ratio);
}

static int report_both(bench *b) {
    const int64_t steps = b->options.steps;
    char text[32];
    printf("%-12s %12s %12s %8s\n", "runs", "ouro ms", "ORT ms", "ratio");
    for (size_t i = 0; i < b->options.positions.count; i++) {
        const int64_t at = atoll(b->options.positions.items[i]);
        const double ours = median_of(b, b->times[OURS], at - AROUND, at + AROUND),
                     theirs = median_of(b, b->times[THEIRS], at - AROUND, at + AROUND);
        snprintf(text, sizeof text, "at %" PRId64, at);
        if (theirs > 0) print_row(text, ours, theirs, ours / theirs);
    }
    qsort(b->ratios, b->turns, sizeof *b->ratios, compare_doubles);
    snprintf(text, sizeof text, "all %" PRId64, steps);
    print_row(text, median_of(b, b->times[OURS], 0, steps), median_of(b, b->times[THEIRS], 0, steps),
              b->turns ? b->ratios[b->turns / 2] : 0);
    double largest = b->difference;
    if (b->halves) {
        print_difference(b, "largest difference");
        b->difference = 0;
        b->difference_name = NULL;
    }
    const int status = compare_states(b);
    if (status) return status;
    print_difference(b, b->halves ? "of states in 16 bits" : "largest difference");
    if (!b->halves) largest = b->difference;
    if (largest <= b->options.within) return 0;
    return command_fail(BASE_INVALID, "differs by more than %g", b->options.within);
}

/* Only one of them is there, and the peak of the process is its. */
static int keep_one(bench *b) {
    if (strcmp(b->options.only, "ouro") == 0) return 0;
    ouro_session_free(b->session);
    ouro_plan_free(b->plan);
    b->session = NULL;
    b->plan = NULL;
    const int descriptor = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    const bool reset = descriptor >= 0 && write(descriptor, "5", 1) == 1;
    if (descriptor >= 0) close(descriptor);
    return reset ? 0 : command_fail(BASE_SYSTEM_ERROR, "the peak of the process cannot be reset");
}

static int report_memory(const bench *b) {
    char line[128];
    long peak = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &peak) == 1) break;
    if (file) fclose(file);
    printf("%s: %.1f MiB is the peak of the process in %" PRId64 " runs\n", b->options.only,
           (double)peak / 1024, b->options.steps);
    return 0;
}

static int bench_main(const command *self, int count, char **arguments) {
    bench b = {0};
    command_list files;
    base_arena_init(&b.arena, NULL);
    int status = command_parse(self, count, arguments, &b.options, &files, &b.arena);
    if (!b.options.threads) b.options.threads = 1;
    if (!b.options.steps) b.options.steps = 1000;
    if (!b.options.turn) b.options.turn = 12;
    if (!(b.options.within > 0)) b.options.within = 0.001;
    const char *only = b.options.only;
    if (!status && only && strcmp(only, "ouro") != 0 && strcmp(only, "ort") != 0)
        status = command_fail_usage(self, "--only is ouro or ort");
    if (!status) {
        b.model = files.items[1];
        status = open_plan(&b, self, files.items[0]);
    }
    if (!status && only) status = keep_one(&b);
    if (!status && (!only || strcmp(only, "ort") == 0)) status = open_other(&b);
    if (!status) status = run_turns(&b);
    if (!status) status = only ? report_memory(&b) : report_both(&b);
    command_onnxruntime_close(&b.other);
    command_onnxruntime_free(b.runtime);
    ouro_session_free(b.session);
    ouro_plan_free(b.plan);
    base_arena_free(&b.arena);
    return status;
}

int main(int count, char **arguments) {
    static const command self = {.name = "bench_states",
                                 .usage = "bench_states [options] PLAN MODEL.onnx",
                                 .summary = "a plan with states beside ONNX Runtime",
                                 .options = option_table,
                                 .operand_minimum = 2,
                                 .operand_maximum = 2,
                                 .operand = "a plan and its model",
                                 .run = bench_main};
    return command_finish(bench_main(&self, count - 1, arguments + 1));
}

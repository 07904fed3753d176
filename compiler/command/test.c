/* SPDX-License-Identifier: Apache-2.0 */
/* test.c: `ouro test`: ONNX test folders, model.onnx with test_data_set_N/{input,output}_I.pb. */
#include "compiler/command/command.h"
#include "ir/base/file_error.h"
#include "compiler/report/emit.h"
#include "compiler/onnx/import.h"
#include "compiler/command/onnxruntime.h"
#include "runtime/session.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct test_options {
    const char *allocator, *json;
    double relative, absolute;
    int64_t threads;
    bool check, quiet, compare_ort;
} test_options;

static const command_option test_table[] = {
    {"--allocator", NULL, COMMAND_TEXT, "NAME", "the planner of memory (default: auto)",
     offsetof(test_options, allocator)},
    {"--json", NULL, COMMAND_TEXT, "FILE", "the results as JSON", offsetof(test_options, json)},
    {"--rtol", NULL, COMMAND_REAL, "R", "relative tolerance of floating-point numbers (default: 1e-3)",
     offsetof(test_options, relative)},
    {"--atol", NULL, COMMAND_REAL, "A", "absolute tolerance (default: 1e-5; ONNX's own runner: 1e-7)",
     offsetof(test_options, absolute)},
    {"--threads", NULL, COMMAND_THREADS, "N", "threads to run on (default: 1)",
     offsetof(test_options, threads)},
    {"--check", NULL, COMMAND_FLAG, NULL, "compare with every tensor in memory of its own, too",
     offsetof(test_options, check)},
    {"--compare-ort", NULL, COMMAND_FLAG, NULL,
     "expect what ONNX Runtime computes, where it is installed; DIR may be a MODEL.onnx then",
     offsetof(test_options, compare_ort)},
    {"--quiet", "-q", COMMAND_FLAG, NULL, "print failures and the last line only",
     offsetof(test_options, quiet)},
    {0},
};

typedef enum test_status { TEST_PASSED, TEST_FAILED, TEST_SKIPPED } test_status;

/* What one test measured, over its data sets. */
typedef struct test_numbers {
    tensor_errors errors;
    double compile_seconds, run_seconds; /* sums */
    double onnxruntime_seconds;          /* of its runs; 0: not compared */
} test_numbers;

typedef struct test_tally {
    size_t counts[3];     /* by test_status */
    onnxruntime *runtime; /* of --compare-ort */
    emit_buffer json;
    command_progress progress;
} test_tally;

/* ---- folders ------------------------------------------------------------------------------------------- */

enum { DEEPEST_FOLDER = 32, MOST_FILES = 4096 };

static int compare_names(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    /* test_data_set_2 before test_data_set_10: digits at the end count as a number, that is, shorter is less.
     */
    size_t common = 0;
    while (x[common] && x[common] == y[common]) common++;
    bool digits = strspn(x + common, "0123456789") == strlen(x + common) &&
                  strspn(y + common, "0123456789") == strlen(y + common);
    if (digits && strlen(x) != strlen(y)) return strlen(x) < strlen(y) ? -1 : 1;
    return strcmp(x, y);
}

/* The names in a folder in a fixed order; NULL where it cannot be read (see errno; 0: memory). */
static const char **list_folder(const char *path, base_arena *arena, size_t *count) {
    *count = 0;
    errno = 0;
    DIR *directory = opendir(path);
    if (!directory) return NULL;
    const char **names = NULL;
    size_t capacity = 0;
    struct dirent *entry;
    bool failed = false;
    while (!failed && (entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        const char **grown = base_arena_grow(arena, names, &capacity, *count + 1, sizeof *names);
        char *name = base_arena_text(arena, entry->d_name, strlen(entry->d_name));
        failed = !grown || !name;
        if (failed) break;
        names = grown;
        names[(*count)++] = name;
    }
    closedir(directory);
    errno = 0;
    if (!failed && !names) names = BASE_ARRAY(arena, const char *, 1);
    if (failed || !names) return NULL;
    qsort(names, *count, sizeof *names, compare_names);
    return names;
}

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool is_file(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* ---- one data set -------------------------------------------------------------------------------------- */

/* The values of input_0.pb, input_1.pb, ... up to the first that is missing. `types` are those of the model's
 * inputs or outputs, in order: the names inside the files may be empty or wrong. */
static base_status read_values(const char *folder, const char *prefix, const op_type *types,
                               size_t type_count, base_arena *arena, import_value **values, size_t *count,
                               base_report *report) {
    *count = 0;
    *values = BASE_ARRAY(arena, import_value, type_count + 1);
    if (!*values) return base_fail_memory(report);
    for (size_t i = 0; i < MOST_FILES; i++) {
        char *path = base_arena_format(arena, "%s/%s_%zu.pb", folder, prefix, i);
        if (!path) return base_fail_memory(report);
        if (!is_file(path)) break;
        if (i == type_count) {
            return base_fail(report, BASE_INVALID, "%s: the model has only %zu %ss", path, type_count,
                             prefix);
        }
        import_value *value = &(*values)[i];
        base_status status = import_value_read(path, &types[i], arena, value, report);
        if (status != BASE_OK) return status;
        /* ONNX's own data files hold bfloat16 as the uint16 with the same bits, as numpy has no such type. */
        if (value->kind == OP_KIND_TENSOR && value->tensor.type.dtype == OP_UINT16 &&
            types[i].dtype == OP_BFLOAT16) {
            value->tensor.type.dtype = OP_BFLOAT16;
        }
        *count = i + 1;
    }
    return BASE_OK;
}

static base_status types_of(const ir_module *module, bool outputs, base_arena *arena, op_type **types,
                            size_t *count, base_report *report) {
    const ir_graph *graph = module->main;
    *count = outputs ? graph->result_count : graph->parameter_count;
    *types = BASE_ARRAY(arena, op_type, *count + 1);
    if (!*types) return base_fail_memory(report);
    for (size_t i = 0; i < *count; i++) {
        (*types)[i] = outputs ? graph->results[i]->value->type : graph->parameters[i]->type;
    }
    return BASE_OK;
}

static base_status compare_outputs(const ouro_plan *handle, ouro_session *session,
                                   const import_value *expected, size_t count, const test_options *options,
                                   tensor_errors *errors, base_report *report) {
    for (size_t i = 0; i < count; i++) {
        ouro_value actual;
        ouro_error error;
        char reason[1024];
        ouro_status status = ouro_session_output_value(session, i, &actual, &error);
        if (status != OURO_OK) return base_fail(report, (base_status)status, "%s", error.message);
        tensor_tolerance tolerance = {.relative = options->relative, .absolute = options->absolute};
        if (!command_compare(&actual, &expected[i], tolerance, errors, reason, sizeof reason)) {
            ouro_tensor_info info;
            (void)ouro_plan_output(handle, i, &info);
            return base_fail(report, BASE_INVALID, "output %zu '%s' %s", i, info.name, reason);
        }
    }
    return BASE_OK;
}

/* What one test is run with. */
typedef struct test_run {
    const test_options *options;
    onnxruntime *runtime;
    const char *model; /* the file */
    base_arena *arena;
    test_numbers *numbers;
} test_run;

/* The outputs that ONNX Runtime gives for these inputs. */
static base_status ask_onnxruntime(const test_run *run, const ouro_plan *handle, const import_value *inputs,
                                   size_t input_count, import_value *expected, size_t expected_count,
                                   base_report *report) {
    const char **names = BASE_ARRAY(run->arena, const char *, input_count + expected_count + 1);
    ouro_tensor_info info;
    double seconds = 0;
    if (!names) return base_fail_memory(report);
    for (size_t i = 0; i < input_count; i++)
        names[i] = ouro_plan_input(handle, i, &info) == OURO_OK ? info.name : "";
    for (size_t i = 0; i < expected_count; i++)
        names[input_count + i] = ouro_plan_output(handle, i, &info) == OURO_OK ? info.name : "";
    base_status status = command_onnxruntime_run(run->runtime, run->model, names, inputs, input_count,
                                                 expected, expected_count, run->arena, &seconds, report);
    run->numbers->onnxruntime_seconds += seconds;
    return status;
}

static base_status run_session(const test_run *run, ouro_plan *handle, const import_value *inputs,
                               size_t input_count, import_value *expected, size_t expected_count,
                               base_report *report) {
    ouro_session_options session_options = {.threads = (int)run->options->threads};
    ouro_session *session = NULL;
    ouro_error error;
    ouro_status status = ouro_session_new(handle, &session_options, &session, &error);
    for (size_t i = 0; i < input_count && status == OURO_OK; i++) {
        ouro_value value;
        if (!command_value_of(&inputs[i], run->arena, &value)) {
            ouro_session_free(session);
            return base_fail_memory(report);
        }
        status = ouro_session_bind_value(session, i, &value, &error);
    }
    base_status checked = BASE_OK;
    if (status == OURO_OK && run->options->check) checked = rt_session_check(session, report);
    const double start = command_seconds();
    if (status == OURO_OK && checked == BASE_OK) status = ouro_session_run(session, &error);
    run->numbers->run_seconds += command_seconds() - start;
    if (status != OURO_OK) checked = base_fail(report, (base_status)status, "%s", error.message);
    if (checked == BASE_OK && run->runtime)
        checked = ask_onnxruntime(run, handle, inputs, input_count, expected, expected_count, report);
    if (checked == BASE_OK)
        checked = compare_outputs(handle, session, expected, expected_count, run->options,
                                  &run->numbers->errors, report);
    ouro_session_free(session);
    return checked;
}

/* The files of one data set. */
typedef struct data_set {
    op_type *input_types, *output_types; /* as the model declares them */
    import_value *inputs, *expected;
    size_t input_count, output_count;
} data_set;

/* Inputs made up as by `ouro bench`: seed 1, dynamic dimensions are 1. */
static base_status make_up(const ir_module *module, base_arena *arena, data_set *set, base_report *report) {
    set->inputs = BASE_ARRAY(arena, import_value, set->input_count + 1);
    if (!set->inputs) return base_fail_memory(report);
    for (size_t i = 0; i < set->input_count; i++) {
        const char *name = module->main->parameters[i]->name;
        op_tensor *tensor = &set->inputs[i].tensor;
        tensor->type = set->input_types[i];
        if (tensor->type.kind != OP_KIND_TENSOR || tensor->type.shape.rank < 0)
            return base_fail_unsupported(
                report, "input '%s' cannot be made up: it is no tensor, or of unknown rank", name);
        for (int32_t d = 0; d < tensor->type.shape.rank; d++)
            if (tensor->type.shape.dims[d] < 0) tensor->type.shape.dims[d] = 1;
        const base_status status = command_fill_random(tensor, name, 1, arena, report);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

static base_status read_set(const test_run *run, const char *folder, const ir_module *module, data_set *set,
                            base_report *report) {
    size_t given = 0, wanted = 0;
    base_arena *arena = run->arena;
    base_status status = types_of(module, false, arena, &set->input_types, &set->input_count, report);
    if (status == BASE_OK)
        status = types_of(module, true, arena, &set->output_types, &set->output_count, report);
    if (status == BASE_OK && folder) {
        status = read_values(folder, "input", set->input_types, set->input_count, arena, &set->inputs, &given,
                             report);
    } else if (status == BASE_OK) {
        given = set->input_count;
        status = make_up(module, arena, set, report);
    }
    if (status == BASE_OK && run->runtime) {
        wanted = set->output_count;
        set->expected = BASE_ARRAY(arena, import_value, wanted + 1);
        if (!set->expected) status = base_fail_memory(report);
    } else if (status == BASE_OK) {
        status = read_values(folder, "output", set->output_types, set->output_count, arena, &set->expected,
                             &wanted, report);
    }
    if (status != BASE_OK) return status;
    if (given < set->input_count || wanted < set->output_count) {
        bool input = given < set->input_count;
        return base_fail(report, BASE_INVALID, "%s: %s_%zu.pb is missing", folder, input ? "input" : "output",
                         input ? given : wanted);
    }
    return BASE_OK;
}

/* The data's shapes bind the model's dynamic dimensions. Where they contradict a declared shape, the data
 * decide. */
static base_status bind_shapes(const char *folder, const data_set *set, compile_result *compiled,
                               base_report *report) {
    for (size_t i = 0; i < set->input_count; i++) {
        const op_type *type = &set->inputs[i].tensor.type;
        if (set->inputs[i].kind != OP_KIND_TENSOR) continue;
        if (type->dtype != set->input_types[i].dtype) {
            return base_fail(report, BASE_INVALID, "%s/input_%zu.pb: is %s, the model's input is %s", folder,
                             i, op_dtype_name(type->dtype), op_dtype_name(set->input_types[i].dtype));
        }
        if (compile_fix_input(compiled, (uint32_t)i, &type->shape, NULL) != BASE_OK) {
            compiled->module->main->parameters[i]->type.shape = type->shape;
        }
    }
    return BASE_OK;
}

/* Compiles the model for one data set (`folder` NULL: inputs that are made up), runs it and compares. */
static base_status run_set(const test_run *run, const char *folder, base_report *report) {
    const test_options *options = run->options;
    ouro_compile_options compile = {
        .model_path = run->model, .allocator = options->allocator, .threads = (int)options->threads};
    compile_result compiled;
    data_set set = {0};
    base_status status = compile_import(&compile, &compiled, report);
    if (status == BASE_OK) status = read_set(run, folder, compiled.module, &set, report);
    if (status == BASE_OK) status = bind_shapes(folder ? folder : run->model, &set, &compiled, report);
    if (status == BASE_OK) status = compile_finish(&compile, &compiled, report);
    run->numbers->compile_seconds += compiled.compile_seconds;
    if (status == BASE_OK) {
        ouro_plan *handle = rt_plan_new(&compiled.plan);
        compiled.plan = (plan){0};
        status = handle ? run_session(run, handle, set.inputs, set.input_count, set.expected,
                                      set.output_count, report)
                        : base_fail_memory(report);
        ouro_plan_free(handle);
    }
    compile_result_free(&compiled);
    return status;
}

/* ---- one test ------------------------------------------------------------------------------------------ */

static void tell(test_tally *tally, const test_options *options, const char *name, test_status status,
                 const char *reason, const test_numbers *numbers) {
    static const char *const words[] = {"passed", "failed", "skipped"};
    tally->counts[status]++;
    emit_json_open(&tally->json, NULL, '{');
    emit_json_text(&tally->json, "name", name);
    emit_json_text(&tally->json, "status", words[status]);
    emit_json_text(&tally->json, "reason", reason);
    emit_json_real(&tally->json, "largest_absolute_error", numbers->errors.absolute);
    emit_json_real(&tally->json, "largest_relative_error", numbers->errors.relative);
    emit_json_real(&tally->json, "compile_ms", numbers->compile_seconds * 1e3);
    emit_json_real(&tally->json, "run_ms", numbers->run_seconds * 1e3);
    if (tally->runtime) emit_json_real(&tally->json, "onnxruntime_ms", numbers->onnxruntime_seconds * 1e3);
    emit_json_close(&tally->json, '}');
    if (options->quiet && status != TEST_FAILED) return;
    command_progress_clear(&tally->progress);
    printf("%-7s %s%s%s", words[status], name, reason[0] ? ": " : "", reason);
    if (tally->runtime && status == TEST_PASSED)
        printf(": errors of at most %.3g, relative %.3g", numbers->errors.absolute, numbers->errors.relative);
    printf("\n");
}

/* The first message of a report, on one line. */
static void first_line(const base_report *report, char *text, size_t capacity) {
    snprintf(text, capacity, "%.*s", (int)strcspn(report->text, "\n"), report->text);
}

/* One data set of a test; `status` and `reason` become what it gave. A fault of the machine is no failed test: it ends
 * all of them. */
static base_status test_set(const test_run *run, const char *folder, test_status *status, char *reason,
                            size_t capacity, base_report *failure) {
    base_report report = {0};
    base_arena values;
    base_arena_init(&values, NULL);
    test_run own = *run;
    own.arena = &values;
    const base_status ran = run_set(&own, folder, &report);
    base_arena_free(&values);
    if (ran == BASE_OK) return BASE_OK;
    first_line(&report, reason, capacity);
    if (ran == BASE_SYSTEM_ERROR) return base_fail(failure, ran, "%s", reason);
    *status = report.unsupported ? TEST_SKIPPED : TEST_FAILED;
    return BASE_OK;
}

static base_status test_folder(test_tally *tally, const test_options *options, const char *folder,
                               const char *name, const char *const *entries, size_t entry_count,
                               base_report *failure) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    char reason[BASE_REPORT_TEXT] = "";
    size_t sets = 0;
    test_status status = TEST_PASSED;
    test_numbers numbers = {0};
    char *model = base_arena_format(&arena, "%s/model.onnx", folder);
    test_run run = {.options = options, .runtime = tally->runtime, .model = model, .numbers = &numbers};
    base_status fault = model ? BASE_OK : base_fail_memory(failure);
    command_progress_say(&tally->progress, "%s", name);
    for (size_t i = 0; i < entry_count && status == TEST_PASSED && fault == BASE_OK; i++) {
        if (strncmp(entries[i], "test_data_set_", 14) != 0) continue;
        char *set = base_arena_format(&arena, "%s/%s", folder, entries[i]);
        if (!set) fault = base_fail_memory(failure);
        if (!set || !is_folder(set)) continue;
        sets++;
        fault = test_set(&run, set, &status, reason, sizeof reason, failure);
    }
    if (!sets && tally->runtime && fault == BASE_OK) {
        fault = test_set(&run, NULL, &status, reason, sizeof reason, failure);
    } else if (!sets) {
        status = TEST_SKIPPED;
        snprintf(reason, sizeof reason, "no test_data_set_* with data");
    }
    if (fault == BASE_OK) tell(tally, options, name, status, reason, &numbers);
    base_arena_free(&arena);
    return fault;
}

/* A model without a folder: inputs are made up, and ONNX Runtime says what is expected. */
static base_status test_model(test_tally *tally, const test_options *options, const char *model,
                              base_report *failure) {
    char reason[BASE_REPORT_TEXT] = "";
    test_status status = TEST_PASSED;
    test_numbers numbers = {0};
    const test_run run = {.options = options, .runtime = tally->runtime, .model = model, .numbers = &numbers};
    command_progress_say(&tally->progress, "%s", model);
    const base_status fault = test_set(&run, NULL, &status, reason, sizeof reason, failure);
    if (fault == BASE_OK) tell(tally, options, model, status, reason, &numbers);
    return fault;
}

/* `name` is the path below the DIR that was given; the last part of DIR itself at the top. */
static base_status walk(test_tally *tally, const test_options *options, const char *folder, const char *name,
                        int depth, base_report *report) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    size_t count;
    const char **entries = list_folder(folder, &arena, &count);
    base_status status = BASE_OK;
    bool is_test = false;
    if (!entries) {
        status = errno ? base_fail_file(report, folder, "cannot read the directory", errno)
                       : base_fail_memory(report);
    }
    for (size_t i = 0; i < count && status == BASE_OK; i++) is_test |= strcmp(entries[i], "model.onnx") == 0;
    if (is_test) {
        status = test_folder(tally, options, folder, name, entries, count, report);
        count = 0;
    }
    for (size_t i = 0; i < count && status == BASE_OK && depth < DEEPEST_FOLDER; i++) {
        char *path = base_arena_format(&arena, "%s/%s", folder, entries[i]);
        char *below = depth ? base_arena_format(&arena, "%s/%s", name, entries[i])
                            : base_arena_format(&arena, "%s", entries[i]);
        if (!path || !below) status = base_fail_memory(report);
        else if (is_folder(path)) status = walk(tally, options, path, below, depth + 1, report);
    }
    base_arena_free(&arena);
    return status;
}

/* The last part of a path, "." and trailing slashes resolved. */
static char *folder_name(const char *path, base_arena *arena) {
    char *real = realpath(path, NULL);
    const char *slash = real ? strrchr(real, '/') : NULL;
    const char *last = slash && slash[1] ? slash + 1 : path;
    char *name = base_arena_text(arena, last, strlen(last));
    free(real);
    return name;
}

static int test_all(const test_options *options, const command_list *folders, base_arena *arena) {
    test_tally tally = {0};
    base_report report = {0};
    int status = 0;
    emit_buffer cases = {.json_depth = 1};
    if (options->compare_ort && command_onnxruntime_load(&tally.runtime, &report) != BASE_OK)
        return command_fail_report(&report);
    tally.json = cases;
    emit_json_open(&tally.json, "cases", '[');
    command_progress_begin(&tally.progress, "testing");
    for (size_t i = 0; i < folders->count && status == 0; i++) {
        char *name = folder_name(folders->items[i], arena);
        size_t before = tally.counts[0] + tally.counts[1] + tally.counts[2];
        if (!name) base_fail_memory(&report);
        else if (options->compare_ort && is_file(folders->items[i]))
            test_model(&tally, options, folders->items[i], &report);
        else if (!is_folder(folders->items[i])) {
            base_fail(&report, BASE_INVALID, "%s: there is no such directory", folders->items[i]);
        } else if (walk(&tally, options, folders->items[i], name, 0, &report) == BASE_OK &&
                   before == tally.counts[0] + tally.counts[1] + tally.counts[2]) {
            base_fail(&report, BASE_INVALID, "%s: no test in it: a test is a folder with model.onnx",
                      folders->items[i]);
        }
        if (report.status != BASE_OK) status = command_fail_report(&report);
    }
    command_progress_end(&tally.progress);
    emit_json_close(&tally.json, ']');
    emit_buffer json = {0};
    emit_json_open(&json, NULL, '{');
    emit_json_integer(&json, "passed", tally.counts[TEST_PASSED]);
    emit_json_integer(&json, "failed", tally.counts[TEST_FAILED]);
    emit_json_integer(&json, "skipped", tally.counts[TEST_SKIPPED]);
    emit_bytes(&json, ",", 1);
    if (tally.json.data) emit_bytes(&json, tally.json.data, tally.json.length);
    json.failed |= tally.json.failed;
    emit_json_close(&json, '}');
    if (!status && options->json && emit_write(&json, options->json, &report) != BASE_OK) {
        status = command_fail_report(&report);
    }
    emit_free(&json);
    emit_free(&tally.json);
    command_onnxruntime_free(tally.runtime);
    printf("%zu passed, %zu failed, %zu skipped\n", tally.counts[TEST_PASSED], tally.counts[TEST_FAILED],
           tally.counts[TEST_SKIPPED]);
    return status ? status : tally.counts[TEST_FAILED] ? BASE_INVALID : 0;
}

static int test_main(const command *self, int count, char **arguments) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    test_options options = {.relative = 1e-3, .absolute = 1e-5, .threads = 1};
    command_list folders;
    int status = command_parse(self, count, arguments, &options, &folders, &arena);
    if (!status && options.allocator && !planner_find(options.allocator)) {
        status = command_fail_usage(self, "unknown allocator '%s'", options.allocator);
    }
    if (!status) command_waits_shorten((int)options.threads);
    if (!status) status = test_all(&options, &folders, &arena);
    base_arena_free(&arena);
    return status;
}

const command command_test = {
    .name = "test",
    .usage = "test DIR... [options]",
    .summary = "run ONNX test folders and compare with their expected outputs",
    .details =
        "A test is a folder with model.onnx and test_data_set_*/{input,output}_I.pb; a DIR is one, or holds "
        "any\n"
        "number at any depth. Floating-point numbers agree when |actual - expected| <= ATOL + RTOL * "
        "|expected|,\n"
        "NaN agrees with NaN; all else must be equal, shapes and types too. What uses something that is not\n"
        "supported is skipped, with the reason; it never counts as passed. With --compare-ort the outputs of "
        "a run\n"
        "of ONNX Runtime on the same inputs are what is expected; inputs that no data set gives are made up\n"
        "(seed 1, dynamic dimensions 1). The last line is\n"
        "'N passed, N failed, N skipped'; the exit status is 0 when none failed.",
    .options = test_table,
    .operand_minimum = 1,
    .operand_maximum = SIZE_MAX,
    .operand = "a directory",
    .run = test_main,
};

/* run.c: `ouro run`: one execution of a plan or model. */
#include "compiler/command/command.h"
#include "compiler/command/profile.h"
#include "compiler/files/npy.h"
#include "compiler/files/tensor_compare.h"
#include "runtime/session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct run_options {
    command_list inputs, dims;
    int64_t seed, threads;
    const char *random, *output_dir, *profile;
    bool check;
} run_options;

static const command_option run_table[] = {
    {"--input", NULL, COMMAND_LIST, "NAME=FILE", "an input from a .npy or .pb file; may be repeated",
     offsetof(run_options, inputs)},
    {"--random", NULL, COMMAND_TEXT, "SEED", "make up the inputs that are not given",
     offsetof(run_options, random)},
    {"--output-dir", NULL, COMMAND_TEXT, "DIR",
     "write each output as DIR/NAME.npy, elements as DIR/NAME.I.npy", offsetof(run_options, output_dir)},
    {"--dim", NULL, COMMAND_LIST, "NAME=N", "bind a symbolic dimension of a model; may be repeated",
     offsetof(run_options, dims)},
    {"--threads", NULL, COMMAND_THREADS, "N", "threads to run on (plan: as compiled; model: 1)",
     offsetof(run_options, threads)},
    {"--profile", NULL, COMMAND_TEXT, "FILE.json", "write the time of each step as a trace for Perfetto",
     offsetof(run_options, profile)},
    {"--check", NULL, COMMAND_FLAG, NULL, "compare bit by bit with every tensor in memory of its own",
     offsetof(run_options, check)},
    {0},
};

/* ---- inputs -------------------------------------------------------------------------------------------- */

static int require_inputs(const command *self, const command_model *model) {
    char names[1024];
    size_t used = 0, missing = 0;
    for (size_t i = 0; i < model->input_count; i++) {
        if (command_is_given(&model->inputs[i])) continue;
        if (used < sizeof names) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s'%s'", missing ? ", " : "",
                                     model->plan->texts + model->plan->inputs[i].name);
        }
        missing++;
    }
    if (!missing) return 0;
    return command_fail_usage(self, "%s: no data for input%s %s: give --input NAME=FILE, or --random SEED",
                              model->path, missing == 1 ? "" : "s", names);
}

/* ---- outputs ------------------------------------------------------------------------------------------- */

static void print_tensor(const char *name, const op_tensor *tensor) {
    char text[256];
    int64_t elements = 0;
    op_shape_elements(&tensor->type.shape, &elements);
    printf("%s: %s:", name, op_type_print(&tensor->type, text, sizeof text));
    for (int64_t i = 0; i < elements && i < 5; i++) {
        printf(" %s", tensor_element_print(tensor, (size_t)i, text, sizeof text));
    }
    if (elements > 5) printf(" ...");
    if (elements == 0) printf(" (no elements)");
    op_dtype dtype = tensor->type.dtype;
    bool numbers = dtype != OP_STRING && dtype != OP_COMPLEX64 && dtype != OP_COMPLEX128 && dtype != OP_BOOL;
    if (elements > 1 && numbers) {
        double least = INFINITY, most = -INFINITY, sum = 0;
        int64_t not_numbers = 0;
        for (int64_t i = 0; i < elements; i++) {
            double value = tensor_number(tensor, (size_t)i);
            if (isnan(value)) {
                not_numbers++;
                continue;
            }
            if (value < least) least = value;
            if (value > most) most = value;
            sum += value;
        }
        if (not_numbers < elements) {
            printf("; min %.6g, max %.6g, mean %.6g", least, most, sum / (double)(elements - not_numbers));
        }
        if (not_numbers) printf("; %lld NaN", (long long)not_numbers);
    }
    printf("\n");
}

/* "DIR/NAME.npy", the name made safe for any file system; `index` tells apart what would be the same file. */
static char *output_path(const char *directory, const char *name, size_t index, base_arena *arena) {
    char *path = index ? base_arena_format(arena, "%s/%s_%zu.npy", directory, name, index)
                       : base_arena_format(arena, "%s/%s.npy", directory, name);
    for (char *at = path ? path + strlen(directory) + 1 : NULL; at && *at; at++) {
        bool kept = (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') ||
                    *at == '_' || *at == '.' || *at == '-';
        if (!kept) *at = '_';
    }
    return path;
}

/* What becomes of the outputs: they are printed, or written as files. */
typedef struct output_writer {
    const char *directory; /* NULL: they are printed */
    base_arena arena;
    base_map taken; /* paths */
    base_report report;
} output_writer;

static bool write_tensor(output_writer *w, const char *name, const op_tensor *tensor) {
    char *path = output_path(w->directory, name, 0, &w->arena);
    for (size_t k = 1; path && base_map_get(&w->taken, path); k++)
        path = output_path(w->directory, name, k, &w->arena);
    unsigned char *bytes;
    size_t size;
    if (!path || !base_map_put(&w->taken, path, path)) base_fail_memory(&w->report);
    else if (npy_encode(tensor, &w->arena, &bytes, &size, &w->report) == BASE_OK)
        file_write(path, bytes, size, &w->report);
    if (w->report.status != BASE_OK) return false;
    printf("%s\n", path);
    return true;
}

/* A tensor; of a sequence or an optional each element, as NAME.0, NAME.1, ... */
static bool write_value(output_writer *w, const char *name, const ouro_value *value) {
    if (value->kind == OURO_TENSOR) {
        const op_tensor tensor = command_value_tensor(value);
        if (w->directory) return write_tensor(w, name, &tensor);
        print_tensor(name, &tensor);
        return true;
    }
    if (!w->directory) {
        printf("%s: %s, %zu element%s\n", name, value->kind == OURO_SEQUENCE ? "a sequence" : "an optional",
               value->count, value->count == 1 ? "" : "s");
    }
    for (size_t i = 0; i < value->count; i++) {
        char *own = base_arena_format(&w->arena, "%s.%zu", name, i);
        if (!own) {
            base_fail_memory(&w->report);
            return false;
        }
        if (!write_value(w, own, &value->elements[i])) return false;
    }
    return true;
}

static int write_outputs(const command_model *model, ouro_session *session, const char *directory) {
    output_writer w = {.directory = directory};
    base_arena_init(&w.arena, NULL);
    w.taken.arena = &w.arena;
    size_t count = ouro_plan_output_count(model->handle);
    int status = directory ? (int)file_make_directory(directory, &w.report) : 0;
    if (status) command_fail_report(&w.report);
    for (size_t i = 0; i < count && status == 0; i++) {
        ouro_value value;
        ouro_tensor_info info;
        ouro_error error;
        (void)ouro_plan_output(model->handle, i, &info);
        if (ouro_session_output_value(session, i, &value, &error) != OURO_OK)
            status = command_fail_error(&error);
        else if (!write_value(&w, info.name, &value)) status = command_fail_report(&w.report);
    }
    base_arena_free(&w.arena);
    return status;
}

/* ---- the command --------------------------------------------------------------------------------------- */

static int run_session(const run_options *options, command_model *model, command_progress *progress) {
    ouro_session_options session_options = {.threads = (int)options->threads};
    ouro_session *session = NULL;
    ouro_error error;
    if (ouro_session_new(model->handle, &session_options, &session, &error) != OURO_OK) {
        return command_fail((int)error.status, "%s: %s", model->path, error.message);
    }
    int status = command_model_bind(model, session);
    command_progress_say(progress, "running %s", model->path);
    if (!status && options->check) {
        base_report report = {0};
        if (rt_session_check(session, &report) != BASE_OK) status = command_fail_report(&report);
    }
    if (!status && options->profile) {
        status = profile_trace(session, model, options->profile);
    } else if (!status && ouro_session_run(session, &error) != OURO_OK) {
        status = command_fail((int)error.status, "%s: %s", model->path, error.message);
    }
    command_progress_end(progress);
    if (!status) status = write_outputs(model, session, options->output_dir);
    if (!status && options->check) {
        printf("check: every step gives the same bytes with every tensor in memory of its own\n");
    }
    ouro_session_free(session);
    return status;
}

static int run_main(const command *self, int count, char **arguments) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    run_options options = {0};
    command_list operands;
    uint64_t seed = 0;
    int status = command_parse(self, count, arguments, &options, &operands, &arena);
    if (!status && options.random) {
        char *end;
        seed = strtoull(options.random, &end, 10);
        if (end == options.random || *end) {
            status = command_fail_usage(self, "--random '%s': expected a whole number", options.random);
        }
    }
    if (!status) {
        command_model model;
        command_progress progress;
        command_progress_begin(&progress, "loading");
        command_model_request request = {.self = self,
                                         .path = operands.items[0],
                                         .inputs = options.inputs,
                                         .dims = options.dims,
                                         .threads = (int)options.threads,
                                         .ones = options.random != NULL};
        status = command_model_open(&request, &model, &progress);
        if (!status) {
            status = options.random ? command_model_fill(&model, seed) : require_inputs(self, &model);
        }
        if (!status) status = run_session(&options, &model, &progress);
        command_progress_end(&progress);
        command_model_close(&model);
    }
    base_arena_free(&arena);
    return status;
}

const command command_run = {
    .name = "run",
    .usage = "run PLAN|MODEL.onnx [options]",
    .summary = "run a plan, or a model that is compiled on the spot",
    .details =
        "Without --output-dir the type, the shape, the first values and the range of each output are "
        "printed.\n"
        "Symbolic dimensions of a model are taken from --dim and from the shapes of the inputs given; what "
        "is\n"
        "then still open is 1 for inputs made up by --random. Made-up inputs depend on SEED and the input's\n"
        "name alone: floats uniform in [-1, 1), integers 0 to 3, booleans.",
    .options = run_table,
    .operand_minimum = 1,
    .operand_maximum = 1,
    .operand = "a plan or a model",
    .run = run_main,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: `ouro run`: one execution of a plan or model. */
#include "compiler/command/command.h"
#include "compiler/command/profile.h"
#include "compiler/report/emit.h"
#include "runtime/session.h"
#include <stdlib.h>
#include <string.h>

typedef struct run_options {
    command_list inputs, dims, shapes, feeds;
    int64_t seed, threads, steps;
    const char *random, *output_dir, *profile, *expect, *spill;
    double relative, absolute;
    bool check, verbose;
} run_options;

static const command_option run_table[] = {
    {"--input", NULL, COMMAND_LIST, "[NAME=]FILE[:stacked]|VALUE",
     "an input from a .npy, .npz or .pb file, or written out: 7, 1,2,3, [[1,2],[3,4]]; or what a state "
     "begins "
     "with; may "
     "be repeated",
     offsetof(run_options, inputs)},
    {"--steps", NULL, COMMAND_COUNT, "N", "run N times, one after another: the states go on",
     offsetof(run_options, steps)},
    {"--feed", NULL, COMMAND_LIST, "OUT[:argmax]=IN",
     "the next step's input IN is this step's output OUT, or the index of its largest element",
     offsetof(run_options, feeds)},
    {"--random", NULL, COMMAND_TEXT, "SEED", "make up the inputs that are not given",
     offsetof(run_options, random)},
    {"--output-dir", NULL, COMMAND_TEXT, "DIR",
     "write each output as DIR/NAME.npy, elements as DIR/NAME.I.npy", offsetof(run_options, output_dir)},
    {"--expect", NULL, COMMAND_TEXT, "DIR",
     "compare with the outputs in DIR: NAME.npy as --output-dir writes them, or output_I.pb",
     offsetof(run_options, expect)},
    {"--rtol", NULL, COMMAND_REAL, "R", "relative tolerance of --expect (default: 1e-3)",
     offsetof(run_options, relative)},
    {"--atol", NULL, COMMAND_REAL, "A", "absolute tolerance of --expect (default: 1e-5)",
     offsetof(run_options, absolute)},
    {"--dim", NULL, COMMAND_LIST, "NAME=N", "bind a symbolic dimension of a model; may be repeated",
     offsetof(run_options, dims)},
    {"--shape", NULL, COMMAND_LIST, "INPUT=AxBxC", "the shape of an input; '?' leaves a dimension as it is",
     offsetof(run_options, shapes)},
    {"--threads", NULL, COMMAND_THREADS, "N", "threads to run on (plan: as compiled; model: 1)",
     offsetof(run_options, threads)},
    {"--spill", NULL, COMMAND_TEXT, "FILE",
     "where a plan that spills makes its file, in place of the one that it was compiled with",
     offsetof(run_options, spill)},
    {"--profile", NULL, COMMAND_TEXT, "FILE.json", "write the time of each step as a trace for Perfetto",
     offsetof(run_options, profile)},
    {"--verbose", "-v", COMMAND_FLAG, NULL, "print the memory of the run too",
     offsetof(run_options, verbose)},
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
    return command_fail_usage(
        self, "%s: no data for input%s %s: give --input NAME=FILE or NAME=VALUE, or --random SEED",
        model->path, missing == 1 ? "" : "s", names);
}

/* ---- the command --------------------------------------------------------------------------------------- */

/* What the run took: planned ahead, planned for its shapes, and allocated on the way. */
static void print_memory(const ouro_session *session) {
    ouro_memory memory;
    char text[3][32];
    ouro_session_memory(session, &memory);
    printf("memory: arena %s, planned for these shapes %s, allocated while running %s\n",
           emit_size_print(memory.arena_bytes, text[0], sizeof text[0]),
           emit_size_print(memory.shape_bytes, text[1], sizeof text[1]),
           emit_size_print(memory.run_time_peak_bytes, text[2], sizeof text[2]));
}

static int run_session(const run_options *options, command_model *model, command_progress *progress) {
    ouro_session_options session_options = {.threads = (int)options->threads, .spill_path = options->spill};
    ouro_session *session = NULL;
    ouro_error error;
    if (ouro_session_new(model->handle, &session_options, &session, &error) != OURO_OK) {
        return command_fail((int)error.status, "%s: %s", model->path, error.message);
    }
    if (options->steps || model->state_count) {
        const command_steps steps = {.self = &command_run,
                                     .count = (size_t)options->steps,
                                     .feeds = options->feeds,
                                     .directory = options->output_dir,
                                     .check = options->check};
        const int done = command_run_steps(&steps, model, session, progress);
        ouro_session_free(session);
        return done;
    }
    int status = command_model_bind(model, session);
    command_progress_say(progress, "running %s", model->path);
    if (!status && options->check) {
        base_report report = {0};
        if (rt_session_check(session, &report) != BASE_OK) status = command_fail_report(&report);
    }
    if (!status && options->profile) {
        status = command_profile_trace(session, model, options->profile);
    } else if (!status && ouro_session_run(session, &error) != OURO_OK) {
        status = command_fail((int)error.status, "%s: %s", model->path, error.message);
    }
    command_progress_end(progress);
    const tensor_tolerance tolerance = {.relative = options->relative, .absolute = options->absolute};
    if (!status && (options->output_dir || !options->expect))
        status = command_write_outputs(model, session, options->output_dir);
    if (!status && options->expect)
        status = command_expect_outputs(model, session, options->expect, tolerance);
    if (!status && options->check) {
        printf("check: every step gives the same bytes with every tensor in memory of its own\n");
    }
    if (!status && options->verbose) print_memory(session);
    ouro_session_free(session);
    return status;
}

static int run_main(const command *self, int count, char **arguments) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    run_options options = {.relative = 1e-3, .absolute = 1e-5};
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
    if (!status && options.feeds.count && !options.steps)
        status = command_fail_usage(self, "--feed needs --steps N");
    if (!status && options.steps && (options.profile || options.expect))
        status = command_fail_usage(self, "%s is about one run: it cannot be given with --steps",
                                    options.profile ? "--profile" : "--expect");
    if (!status) {
        command_model model;
        command_progress progress;
        command_progress_begin(&progress, "loading");
        command_model_request request = {.self = self,
                                         .path = operands.items[0],
                                         .inputs = options.inputs,
                                         .dims = options.dims,
                                         .shapes = options.shapes,
                                         .threads = (int)options.threads,
                                         .ones = options.random != NULL,
                                         .steps = options.steps > 0};
        status = command_model_open(&request, &model, &progress);
        if (!status) {
            status = options.random ? command_model_fill(&model, seed) : require_inputs(self, &model);
        }
        if (!status) status = run_session(&options, &model, &progress);
        command_progress_end(&progress);
        if (status == BASE_INVALID && model.plan) command_model_hint(&model);
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
        "name alone: floats uniform in [-1, 1), integers 0 to 3, booleans.\n"
        "With --steps the file of an input that ends in :stacked has one more axis before the others, with "
        "a\n"
        "slice for each step, and so have the outputs that are written.",
    .options = run_table,
    .operand_minimum = 1,
    .operand_maximum = 1,
    .operand = "a plan or a model",
    .run = run_main,
};

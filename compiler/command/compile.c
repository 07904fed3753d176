/* SPDX-License-Identifier: Apache-2.0 */
/* compile.c: `ouro compile`: from a model to a plan, its pictures and its report. */
#include "compiler/command/command.h"
#include "compiler/report/emit.h"
#include "compiler/report/loop.h"
#include "compiler/report/spill.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct compile_arguments {
    const char *plan, *allocator, *arena_limit, *dot, *memory_map, *report, *problem, *dump_after, *times,
        *weights, *state_type;
    const char *spill;
    command_list dims, shapes, states, bounds, kept;
    int64_t threads, max_unroll, dot_nodes;
    double seconds;
    const char *tradeoff_picture;
    bool tradeoff;
    bool portable, exact_arithmetic, no_bands, whole_batch, tune, quiet, verbose;
} compile_arguments;

static const command_option compile_table[] = {
    {"--output", "-o", COMMAND_TEXT, "MODEL.plan", "the plan to write (default: MODEL.plan beside the model)",
     offsetof(compile_arguments, plan)},
    {"--dim", NULL, COMMAND_LIST, "NAME=N", "bind a symbolic dimension; may be repeated",
     offsetof(compile_arguments, dims)},
    {"--shape", NULL, COMMAND_LIST, "INPUT=AxBxC", "the shape of an input; '?' leaves a dimension as it is",
     offsetof(compile_arguments, shapes)},
    {"--keep-input", NULL, COMMAND_LIST, "NAME",
     "an input that has a default value is to be given all the same; may be repeated",
     offsetof(compile_arguments, kept)},
    {"--max", NULL, COMMAND_LIST, "NAME=N", "a symbolic dimension is at most N; may be repeated",
     offsetof(compile_arguments, bounds)},
    {"--state", NULL, COMMAND_LIST, "IN=OUT",
     "keep output OUT as input IN of the next run; * matches any text; may be repeated",
     offsetof(compile_arguments, states)},
    {"--allocator", NULL, COMMAND_TEXT, "NAME", "the planner of memory (default: auto)",
     offsetof(compile_arguments, allocator)},
    {"--seconds", NULL, COMMAND_REAL, "S", "how long a searching planner may take",
     offsetof(compile_arguments, seconds)},
    {"--arena-limit", NULL, COMMAND_TEXT, "BYTES|min|N%",
     "what the arena may take: bands of rows for less, faster kernels for more (default: 5/4 of the least "
     "without bands); N%: the least whose predicted time (--tune: measured time) is at most N percent more "
     "than without bands",
     offsetof(compile_arguments, arena_limit)},
    {"--spill", NULL, COMMAND_TEXT, "FILE",
     "what the arena may not take even so is put into a file while the plan runs, and read back; FILE is "
     "made when a session "
     "begins, and removed at once",
     offsetof(compile_arguments, spill)},
    {"--tradeoff", NULL, COMMAND_FLAG, NULL,
     "print what the arena takes, and the predicted time, at several limits of it (--tune: and the measured "
     "one)",
     offsetof(compile_arguments, tradeoff)},
    {"--tradeoff-picture", NULL, COMMAND_TEXT, "FILE.svg", "the same as a picture",
     offsetof(compile_arguments, tradeoff_picture)},
    {"--exact-arithmetic", NULL, COMMAND_FLAG, NULL,
     "no kernel that multiplies less by adding more (Winograd), or sums in another order (attention, AMX)",
     offsetof(compile_arguments, exact_arithmetic)},
    {"--no-bands", NULL, COMMAND_FLAG, NULL,
     "without --arena-limit: no bands of rows, even where they take less time and less memory",
     offsetof(compile_arguments, no_bands)},
    {"--whole-batch", NULL, COMMAND_FLAG, NULL,
     "run the samples of an open batch together, even where one after another would take no longer, in an "
     "arena of one sample",
     offsetof(compile_arguments, whole_batch)},
    {"--weights", NULL, COMMAND_TEXT, "float16|bfloat16|int16|int8|int4",
     "store constant weights of products in 16 bits, or in 8 or 4, in blocks; the report tells the error",
     offsetof(compile_arguments, weights)},
    {"--states", NULL, COMMAND_TEXT, "float16|bfloat16",
     "keep states in float that grow (caches of attention) in 16 bits",
     offsetof(compile_arguments, state_type)},
    {"--tune", NULL, COMMAND_FLAG, NULL, "measure kernels on this machine, and choose by what they take",
     offsetof(compile_arguments, tune)},
    {"--times", NULL, COMMAND_TEXT, "FILE", "measured times: read where they are, written after --tune",
     offsetof(compile_arguments, times)},
    {"--threads", NULL, COMMAND_THREADS, "N", "threads that the plan will run on (default: 1)",
     offsetof(compile_arguments, threads)},
    {"--portable", NULL, COMMAND_FLAG, NULL, "portable kernels only: the plan runs on every machine",
     offsetof(compile_arguments, portable)},
    {"--dot", NULL, COMMAND_TEXT, "FILE", "a picture of the graph: .dot, .svg or .png",
     offsetof(compile_arguments, dot)},
    {"--dot-nodes", NULL, COMMAND_COUNT, "N",
     "boxes of a graph in that picture: of more, nodes whose names begin alike are one (default: 60 where "
     "there are more than 150)",
     offsetof(compile_arguments, dot_nodes)},
    {"--memory-map", NULL, COMMAND_TEXT, "FILE", "a picture of the memory: .svg or .html",
     offsetof(compile_arguments, memory_map)},
    {"--report", NULL, COMMAND_TEXT, "FILE.json", "what was planned, in numbers",
     offsetof(compile_arguments, report)},
    {"--problem", NULL, COMMAND_TEXT, "FILE.csv", "the allocation problem, as `ouro alloc` reads it",
     offsetof(compile_arguments, problem)},
    {"--dump-after", NULL, COMMAND_TEXT, "PASS|all", "print the textual IR after a pass to stderr",
     offsetof(compile_arguments, dump_after)},
    {"--max-unroll", NULL, COMMAND_COUNT, "N", "the largest unroll factor of a loop (default: 16)",
     offsetof(compile_arguments, max_unroll)},
    {"--quiet", "-q", COMMAND_FLAG, NULL, "print nothing when all is well",
     offsetof(compile_arguments, quiet)},
    {"--verbose", "-v", COMMAND_FLAG, NULL, "print times and the machine too",
     offsetof(compile_arguments, verbose)},
    {0},
};

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length > end_length && strcmp(text + length - end_length, end) == 0;
}

/* The format of a picture is told by its name; a wrong one is found before any work is done. */
static int check_formats(const command *self, const compile_arguments *given) {
    if (given->dot && !ends_with(given->dot, ".dot") && !ends_with(given->dot, ".svg") &&
        !ends_with(given->dot, ".png")) {
        return command_fail_usage(self, "--dot '%s': expected a name that ends in .dot, .svg or .png",
                                  given->dot);
    }
    if (given->memory_map && !ends_with(given->memory_map, ".svg") &&
        !ends_with(given->memory_map, ".html")) {
        return command_fail_usage(self, "--memory-map '%s': expected a name that ends in .svg or .html",
                                  given->memory_map);
    }
    if (given->spill && !given->arena_limit && !given->tradeoff && !given->tradeoff_picture)
        return command_fail_usage(self, "--spill '%s': expected with --arena-limit BYTES or min",
                                  given->spill);
    if (given->quiet && given->verbose) return command_fail_usage(self, "-q and -v exclude each other");
    return 0;
}

/* MODEL.plan beside MODEL.onnx. */
static char *default_plan_path(const char *model, base_arena *arena) {
    size_t length = strlen(model);
    if (ends_with(model, ".onnx")) length -= 5;
    return base_arena_format(arena, "%.*s.plan", (int)length, model);
}

static bool can_write_beside(const char *path, base_arena *arena) {
    const char *slash = strrchr(path, '/');
    char *directory = slash ? base_arena_text(arena, path, (size_t)(slash - path) + 1) : NULL;
    return access(directory ? directory : ".", W_OK) == 0;
}

/* A line for each loop, the first few. */
static void print_loops(const plan *of) {
    enum { MOST = 10 };
    size_t count = 0;
    char line[1024];
    for (uint32_t i = 0; i < of->header->nodes.count; i++) {
        emit_loop loop;
        if (!of->nodes[i].graph_count || strcmp(of->texts + of->nodes[i].operator_name, "Loop") != 0)
            continue;
        if (++count > MOST || !emit_loop_measure(of, i, &loop)) continue;
        printf("  loop %s\n", emit_loop_line(of, &loop, line, sizeof line));
    }
    if (count > MOST) printf("  and %zu more loops\n", count - MOST);
}

/* What is left for the run to size, and what would plan it: dimensions that inputs leave open. */
static void print_dynamic(const plan *of, unsigned count) {
    char hints[512] = "";
    size_t used = 0;
    for (uint64_t i = 0; i < of->header->inputs.count && used < sizeof hints; i++) {
        op_type type;
        const char *input = of->texts + of->inputs[i].name;
        bool unnamed = false;
        plan_interface_type(of, &of->inputs[i], &type);
        if (type.kind != OP_KIND_TENSOR) continue;
        unnamed = type.shape.rank < 0;
        for (int32_t d = 0; d < type.shape.rank && used < sizeof hints; d++) {
            const int64_t dim = type.shape.dims[d];
            const char *name = dim < 0 && dim != OP_DIM_UNKNOWN ? plan_symbol_name(of, (uint64_t)-dim) : NULL;
            char option[128];
            unnamed |= dim < 0 && !name;
            if (!name) continue;
            snprintf(option, sizeof option, " --dim %.80s=N", name);
            if (!strstr(hints, option))
                used += (size_t)snprintf(hints + used, sizeof hints - used, "%s", option);
        }
        if (unnamed && used < sizeof hints)
            used += (size_t)snprintf(hints + used, sizeof hints - used, " --shape %.80s=AxB", input);
    }
    /* States grow: what they can come to is a bound. */
    for (uint64_t i = 0; i < of->header->states.count && used < sizeof hints; i++) {
        op_type type;
        if (of->states[i].bound) continue;
        plan_state_type(of, (uint32_t)i, &type);
        for (int32_t d = 0; d < type.shape.rank && used < sizeof hints; d++) {
            const int64_t dim = type.shape.dims[d];
            const char *name = dim < 0 && dim != OP_DIM_UNKNOWN ? plan_symbol_name(of, (uint64_t)-dim) : NULL;
            char option[128];
            if (!name) continue;
            snprintf(option, sizeof option, " --max %.80s=N", name);
            if (!strstr(hints, option))
                used += (size_t)snprintf(hints + used, sizeof hints - used, "%s", option);
        }
    }
    printf("  %u tensor%s sized at run time%s%s\n", count, count == 1 ? " is" : "s are",
           hints[0] ? "; planned ahead where these are given:" : "", hints);
}

static void print_bits(const emit_weights *of, char *text, size_t size) {
    if (of->bits) snprintf(text, size, "%d bits", of->bits);
    else snprintf(text, size, "fewer bits");
}

/* Weights that were stored in few bits: how many bytes less, and what that costs at most. */
static void print_weights(const compile_result *result) {
    char before[32], after[32], bits[32];
    const emit_weights same = emit_weights_sum(result->module, EMIT_WEIGHTS_SAME),
                       rounded = emit_weights_sum(result->module, EMIT_WEIGHTS_ROUNDED),
                       sum = emit_weights_sum(result->module, EMIT_WEIGHTS_ASKED);
    print_bits(&rounded, bits, sizeof bits);
    if (rounded.count)
        printf(
            "  weights of %zu product%s in %s: %s, in float %s; error of a product at most %.1e (root mean "
            "square, relative)\n",
            rounded.count, rounded.count == 1 ? "" : "s", bits,
            emit_size_print(rounded.bytes, after, sizeof after),
            emit_size_print(rounded.float_bytes, before, sizeof before), rounded.error);
    print_bits(&same, bits, sizeof bits);
    if (same.count)
        printf("  weights of %zu product%s in %s, without loss: %s, in float %s\n", same.count,
               same.count == 1 ? "" : "s", bits, emit_size_print(same.bytes, after, sizeof after),
               emit_size_print(same.float_bytes, before, sizeof before));
    if (!sum.count) return;
    snprintf(bits, sizeof bits, "%d bits", sum.bits);
    printf("  weights of %zu product%s in %s: %s, in float %s; error of a product at most %.2f %% (root "
           "mean "
           "square)\n",
           sum.count, sum.count == 1 ? "" : "s", sum.type ? sum.type : bits,
           emit_size_print(sum.bytes, after, sizeof after),
           emit_size_print(sum.float_bytes, before, sizeof before), 100 * sum.error);
}

static void print_result(const compile_result *result, const char *model, const char *plan_path,
                         bool verbose) {
    const plan_header *header = result->plan.header;
    const pass_memory *memory = result->memory;
    char arena[32], bound[32], sum[32], constants[32];
    size_t views = 0;
    for (size_t i = 0; i < header->nodes.count; i++)
        views += (result->plan.nodes[i].flags & PLAN_NODE_ALIAS) != 0;
    printf("%s: %zu operator%s, %zu of them aliases\n", model, (size_t)header->nodes.count,
           header->nodes.count == 1 ? "" : "s", views);
    printf("  arena %s (%zu bytes), lower bound %s%s, without reuse %s\n",
           emit_size_print(memory->arena_bytes, arena, sizeof arena), memory->arena_bytes,
           emit_size_print(memory->lower_bound_bytes, bound, sizeof bound),
           memory->arena_bytes && memory->arena_bytes == memory->lower_bound_bytes ? " (reached)" : "",
           emit_size_print(memory->sum_bytes, sum, sizeof sum));
    if (memory->bands && memory->bands->count) {
        const pass_bands *bands = memory->bands;
        size_t nodes = 0;
        const double seconds = emit_predicted_seconds(memory, bands->whole_seconds);
        for (size_t i = 0; i < bands->count; i++) nodes += bands->list[i].nodes;
        printf(
            "  %zu operator%s in %zu loop%s over bands of rows; without them at least %s, and %.0f %% less "
            "time, as predicted\n",
            nodes, emit_plural(nodes), bands->count, emit_plural(bands->count),
            emit_size_print(bands->whole_bytes, bound, sizeof bound),
            100 * (1 - (bands->whole_seconds - bands->saved_seconds) / seconds));
    }
    if (result->measured_ratio > 0)
        printf("  %.2f of the time of the plan without a limit, as measured\n", result->measured_ratio);
    if (memory->recomputed_count) {
        double seconds = 0;
        for (size_t i = 0; i < memory->recomputed_count; i++) seconds += memory->recomputed[i].seconds;
        printf("  %zu value%s computed again instead of kept: %.2f ms more, as predicted\n",
               memory->recomputed_count, memory->recomputed_count == 1 ? " is" : "s are", seconds * 1e3);
    }
    if (memory->spill_bytes) {
        const emit_spilled spilled = emit_spilled_sum(&result->plan);
        printf("  %zu value%s spilled to a file of %s: a run writes %s and reads %s, %.2f ms, as predicted\n",
               (size_t)spilled.values, spilled.values == 1 ? " is" : "s are",
               emit_size_print(memory->spill_bytes, bound, sizeof bound),
               emit_size_print((size_t)spilled.written, sum, sizeof sum),
               emit_size_print((size_t)spilled.read, constants, sizeof constants),
               memory->spill_seconds * 1e3);
    }
    if (memory->choice_count) {
        double saved = 0;
        size_t measured = 0;
        for (size_t i = 0; i < memory->choice_count; i++) {
            saved += memory->choices[i].seconds_before - memory->choices[i].seconds;
            measured += memory->choices[i].measured;
        }
        printf("  %zu faster kernel%s within the limit of the arena (least arena %s): %.1f ms less, as %s\n",
               memory->choice_count, memory->choice_count == 1 ? "" : "s",
               emit_size_print(memory->least_arena_bytes, bound, sizeof bound), saved * 1e3,
               measured == memory->choice_count ? "measured"
               : measured                       ? "measured or predicted"
                                                : "predicted");
    }
    print_weights(result);
    printf("  constants %s, allocator %s\n",
           emit_size_print(header->constants_bytes, constants, sizeof constants),
           result->plan.texts + header->allocator);
    print_loops(&result->plan);
    if (header->batch) {
        const char *batch = plan_symbol_name(&result->plan, header->batch);
        printf("  for one sample of '%s', which a run repeats for each (--whole-batch: for all of them "
               "together)\n",
               batch ? batch : "?");
    }
    if (memory->dynamic_values) print_dynamic(&result->plan, (unsigned)memory->dynamic_values);
    if (plan_path) printf("  plan %s (%zu bytes)\n", plan_path, result->plan.bytes);
    if (verbose) {
        printf("  machine %s, threads %u\n", header->machine, header->threads);
        printf("  import %.3f s, planning of memory %.3f s, in all %.3f s\n", result->import_seconds,
               memory->plan_seconds, result->compile_seconds);
    }
}

/* Bytes, or "min", or how many percent of time the least may cost. */
static int read_limit(const command *self, const char *text, size_t *limit, double *time_limit) {
    char *end = NULL;
    *time_limit = 0;
    if (text && text[0] >= '0' && text[0] <= '9' && text[strlen(text) - 1] == '%') {
        const double percent = strtod(text, &end);
        if (end[0] != '%' || end[1] || !(percent <= 10000))
            return command_fail_usage(self, "--arena-limit '%s': expected a number of percent up to 10000",
                                      text);
        *limit = OURO_ARENA_LEAST;
        *time_limit = 1 + percent / 100;
        return 0;
    }
    errno = 0;
    const unsigned long long bytes = text && text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    *limit = OURO_ARENA_LEAST;
    if (!text) *limit = 0;
    else if (end && !*end && errno == 0 && bytes > 0 && bytes < OURO_ARENA_LEAST) *limit = (size_t)bytes;
    else if (strcmp(text, "min") != 0)
        return command_fail_usage(
            self, "--arena-limit '%s': expected a number of bytes, min, or percent as 5%%", text);
    return 0;
}

static int read_states(const command *self, const command_list *list, base_arena *arena,
                       ouro_state_pair **states) {
    *states = BASE_ARRAY(arena, ouro_state_pair, list->count);
    if (!*states) return command_fail_memory();
    for (size_t i = 0; i < list->count; i++)
        if (!command_split(self, "--state", list->items[i], arena, &(*states)[i].input, &(*states)[i].output))
            return BASE_USAGE;
    return 0;
}

/* The curve of memory against time, before the compile that was asked for. */
static base_status show_tradeoff(const compile_arguments *given, const ouro_compile_options *options,
                                 base_report *report) {
    command_progress progress;
    tradeoff_curve curve;
    emit_buffer text = {0};
    if (!given->tradeoff && !given->tradeoff_picture) return BASE_OK;
    command_progress_begin(&progress, given->quiet ? NULL : "compiling within several limits");
    base_status status = compile_tradeoff(options, &curve, report);
    command_progress_end(&progress);
    if (status == BASE_OK && given->tradeoff_picture)
        status = emit_tradeoff_picture(&curve, given->tradeoff_picture, report);
    if (status == BASE_OK && given->tradeoff) {
        emit_tradeoff_table(&text, &curve);
        if (text.failed) status = base_fail_memory(report);
        else fputs(text.data, stdout);
    }
    emit_free(&text);
    return status;
}

/* What the arguments ask for, but for where the plan goes. */
static int read_options(const command *self, const compile_arguments *given, const char *model,
                        base_arena *arena, ouro_compile_options *options) {
    const ouro_dim *dims, *bounds;
    const ouro_shape *shapes;
    ouro_state_pair *states;
    size_t limit;
    double time_limit;
    int status = check_formats(self, given);
    if (!status) status = read_limit(self, given->arena_limit, &limit, &time_limit);
    if (!status) status = command_dims(self, &given->dims, arena, &dims);
    if (!status) status = command_shapes(self, &given->shapes, arena, &shapes);
    if (!status) status = command_dims(self, &given->bounds, arena, &bounds);
    if (!status) status = read_states(self, &given->states, arena, &states);
    if (status) return status;
    *options = (ouro_compile_options){
        .model_path = model,
        .dims = dims,
        .dim_count = given->dims.count,
        .shapes = shapes,
        .shape_count = given->shapes.count,
        .kept_inputs = given->kept.items,
        .kept_input_count = given->kept.count,
        .bounds = bounds,
        .bound_count = given->bounds.count,
        .states = states,
        .state_count = given->states.count,
        .allocator = given->allocator,
        .seconds = given->seconds,
        .threads = (int)given->threads,
        .max_unroll = given->max_unroll > INT32_MAX ? INT32_MAX : (int)given->max_unroll,
        .portable = given->portable,
        .arena_limit = limit,
        .time_limit = time_limit,
        .spill_path = given->spill,
        .weights = given->weights,
        .state_type = given->state_type,
        .exact_arithmetic = given->exact_arithmetic,
        .whole_batch = given->whole_batch,
        .no_bands = given->no_bands,
        .tune = given->tune,
        .times_path = given->times,
        .dot_path = given->dot,
        .dot_nodes = (size_t)given->dot_nodes,
        .memory_map_path = given->memory_map,
        .report_path = given->report,
        .problem_path = given->problem,
        .dump_after = given->dump_after,
    };
    return 0;
}

/* Where the plan goes; NULL: nowhere, as other files are asked for and it cannot be written beside the model. */
static int find_plan_path(const command *self, const compile_arguments *given, const char *model,
                          base_arena *arena, const char **path) {
    *path = given->plan ? given->plan : default_plan_path(model, arena);
    if (!*path) return command_fail_memory();
    const bool others = given->dot || given->memory_map || given->report || given->problem;
    if (!given->plan && others && !can_write_beside(*path, arena)) {
        command_note(
            "the directory of %s cannot be written: no plan is written (-o FILE writes one elsewhere)",
            model);
        *path = NULL;
    }
    if (*path && strcmp(*path, model) == 0)
        return command_fail_usage(self, "'%s' is both the model and the plan", model);
    return 0;
}

static int compile_and_emit(const command *self, const compile_arguments *given, const char *model,
                            base_arena *arena) {
    ouro_compile_options options;
    int status = read_options(self, given, model, arena, &options);
    if (!status) status = find_plan_path(self, given, model, arena, &options.plan_path);
    if (status) return status;
    base_report report = {0};
    if (show_tradeoff(given, &options, &report) != BASE_OK) return command_fail_report(&report);
    compile_result result;
    command_progress progress;
    double ratio;
    command_progress_begin(&progress, given->dump_after || given->quiet ? NULL : "measuring plans");
    const base_status searched = compile_within_time(&options, &ratio, &report);
    command_progress_end(&progress);
    if (searched != BASE_OK) return command_fail_report(&report);
    /* Dumps go to stderr as well, and are progress enough. */
    command_progress_begin(&progress, given->dump_after || given->quiet ? NULL : "importing");
    base_status done = compile_import(&options, &result, &report);
    if (done == BASE_OK) command_warn(&result);
    command_progress_say(&progress, "compiling %s", model);
    progress.subject = model;
    options.progress = command_progress_pass;
    options.progress_user = &progress;
    if (done == BASE_OK) done = compile_finish(&options, &result, &report);
    result.measured_ratio = ratio;
    command_progress_say(&progress, "writing files");
    if (done == BASE_OK) done = compile_emit(&result, &options, &report);
    command_progress_end(&progress);
    if (done == BASE_OK && !given->quiet) print_result(&result, model, options.plan_path, given->verbose);
    compile_result_free(&result);
    return done == BASE_OK ? 0 : command_fail_report(&report);
}

static int compile_main(const command *self, int count, char **arguments) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    compile_arguments given = {0};
    command_list operands;
    int status = command_parse(self, count, arguments, &given, &operands, &arena);
    if (!status) status = compile_and_emit(self, &given, operands.items[0], &arena);
    base_arena_free(&arena);
    return status;
}

const command command_compile = {
    .name = "compile",
    .usage = "compile MODEL.onnx [options]",
    .summary = "compile a model ahead of time into a plan",
    .details =
        "Prints the memory that one run needs beside its lower bound. Every file is written whole or not at "
        "all.\n"
        "Without -o the plan is written beside the model; where that directory cannot be written and other\n"
        "files are asked for, a note says that there is no plan. Allocators: see `ouro alloc --help`.",
    .options = compile_table,
    .operand_minimum = 1,
    .operand_maximum = 1,
    .operand = "a model (.onnx)",
    .run = compile_main,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* compile.c: one compile from end to end:
 *
 *   import_model -> pass_pipeline_run -> compile_move_plan -> plan_open (which verifies) -> the files that are asked
 * for
 *
 * The plan is verified from its bytes, before anything is written: no file of an unverified plan ever exists.
 */
#include "compiler/compiler.h"
#include "compiler/files/files.h"
#include "compiler/onnx/import.h"
#include "passes/memory/tuning.h"
#include "runtime/session.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 1024 };

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- options ------------------------------------------------------------------------------------------- */

/* "a, b, c" of a list of names. */
static void join_names(const char *(*name_at)(size_t index), char *text, size_t capacity) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; name_at(i) && used < capacity; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", name_at(i));
    }
}

static const char *planner_name_at(size_t index) {
    const planner *at = planner_at(index);
    return at ? at->name : NULL;
}

/* How weights and states are stored, by name. */
typedef struct stored_weights {
    const char *name;
    int bits;
    op_dtype type;
} stored_weights;

/* The last one, without a name, for names that mean nothing, and for none. */
static const stored_weights *find_weights(const char *name) {
    static const stored_weights all[] = {{"float16", 0, OP_FLOAT16}, {"bfloat16", 0, OP_BFLOAT16},
                                         {"int16", 0, OP_INT16},     {"int8", 8, OP_NONE},
                                         {"int4", 4, OP_NONE},       {0}};
    const stored_weights *at = all;
    while (at->name && (!name || strcmp(at->name, name) != 0)) at++;
    return at;
}

/* Whoever fills in the options of the library may leave out a name. */
static base_status check_names(const ouro_compile_options *options, base_report *report) {
    for (size_t i = 0; i < options->dim_count; i++)
        if (!options->dims[i].name) return base_fail(report, BASE_USAGE, "a dimension has no name");
    for (size_t i = 0; i < options->bound_count; i++)
        if (!options->bounds[i].name) return base_fail(report, BASE_USAGE, "a dimension has no name");
    for (size_t i = 0; i < options->kept_input_count; i++)
        if (!options->kept_inputs[i]) return base_fail(report, BASE_USAGE, "an input to keep has no name");
    for (size_t i = 0; i < options->state_count; i++)
        if (!options->states[i].input || !options->states[i].output)
            return base_fail(report, BASE_USAGE, "a state has no name");
    return BASE_OK;
}

static base_status check_options(const ouro_compile_options *options, base_report *report) {
    char names[512];
    if (!options->model_path) return base_fail(report, BASE_USAGE, "no model given");
    if (options->allocator && !planner_find(options->allocator)) {
        join_names(planner_name_at, names, sizeof names);
        return base_fail(report, BASE_USAGE, "unknown allocator '%s', expected one of: %s",
                         options->allocator, names);
    }
    if (options->dump_after && strcmp(options->dump_after, "all") != 0) {
        size_t i = 0;
        while (pass_pipeline_name(i) && strcmp(pass_pipeline_name(i), options->dump_after) != 0) i++;
        if (!pass_pipeline_name(i)) {
            join_names(pass_pipeline_name, names, sizeof names);
            return base_fail(report, BASE_USAGE, "unknown pass '%s', expected 'all' or one of: %s",
                             options->dump_after, names);
        }
    }
    if (options->threads < 0 || options->threads > MOST_THREADS) {
        return base_fail(report, BASE_USAGE, "%d threads, expected 1 to %d", options->threads,
                         (int)MOST_THREADS);
    }
    if (options->weights && !find_weights(options->weights)->name)
        return base_fail(report, BASE_USAGE, "weights '%s': expected float16, bfloat16, int16, int8 or int4",
                         options->weights);
    if (options->state_type && find_weights(options->state_type)->type != OP_FLOAT16 &&
        find_weights(options->state_type)->type != OP_BFLOAT16)
        return base_fail(report, BASE_USAGE, "states '%s': expected float16 or bfloat16",
                         options->state_type);
    if (options->spill_path && !*options->spill_path)
        return base_fail(report, BASE_USAGE, "the spill file has no name");
    if (options->spill_path && options->time_limit > 0)
        return base_fail(report, BASE_USAGE,
                         "a spill file goes with an arena limit in bytes, or the least one, not with one in "
                         "percent of time");
    if (options->max_unroll < 0) return base_fail(report, BASE_USAGE, "negative limit of unrolling");
    const base_status named = check_names(options, report);
    if (named != BASE_OK) return named;
    for (size_t i = 0; i < options->dim_count; i++) {
        if (options->dims[i].extent < 0) {
            return base_fail(report, BASE_USAGE, "dimension '%s' is %lld, expected at least 0",
                             options->dims[i].name, (long long)options->dims[i].extent);
        }
    }
    for (size_t i = 0; i < options->shape_count; i++) {
        const ouro_shape *shape = &options->shapes[i];
        if (!shape->input || shape->rank < 0 || shape->rank > OURO_MAX_RANK)
            return base_fail(report, BASE_USAGE, "the shape of input '%s' has rank %d, expected 0 to %d",
                             shape->input ? shape->input : "", shape->rank, (int)OURO_MAX_RANK);
    }
    return BASE_OK;
}

static pass_options options_of_passes(const ouro_compile_options *options) {
    return (pass_options){
        .allocator = options->allocator,
        .seconds = options->seconds,
        .max_unroll = options->max_unroll,
        .arena_limit = options->arena_limit == OURO_ARENA_LEAST ? PASS_ARENA_LEAST : options->arena_limit,
        .time_limit = options->time_limit,
        .spill_path = options->spill_path,
        .weight_bits = find_weights(options->weights)->bits,
        .weight_type = find_weights(options->weights)->type,
        .state_type = find_weights(options->state_type)->type,
        .exact_arithmetic = options->exact_arithmetic,
        .whole_batch = options->whole_batch,
        .free_bands = !options->no_bands,
        .environment = {.threads = options->threads ? options->threads : 1,
                        .portable_only = options->portable},
        .dump_after = options->dump_after,
        .dump_file = options->dump_file ? options->dump_file : stderr,
        .progress = options->progress,
        .progress_user = options->progress_user,
    };
}

/* ---- measured times ------------------------------------------------------------------------------------ */

/* The record, if there is one. */
base_status compile_open_times(const ouro_compile_options *options, pass_tuning *tuning,
                               base_report *report) {
    pass_tuning_init(tuning, options->tune);
    if (!options->times_path || (options->tune && access(options->times_path, F_OK) != 0)) return BASE_OK;
    file_bytes bytes;
    base_status status = file_read(options->times_path, &bytes, report);
    if (status != BASE_OK) return status;
    base_report_context(report, "%s", options->times_path);
    status = pass_tuning_read(tuning, (const char *)bytes.data, bytes.size, report);
    base_report_context(report, NULL);
    file_release(&bytes);
    return status;
}

base_status compile_write_times(const ouro_compile_options *options, const pass_tuning *tuning,
                                base_report *report) {
    size_t length = 0;
    if (!options->tune || !options->times_path) return BASE_OK;
    char *text = pass_tuning_write(tuning, &length);
    if (!text) return base_fail_memory(report);
    const base_status status = file_write(options->times_path, text, length, report);
    free(text);
    return status;
}

/* ---- shapes of inputs ---------------------------------------------------------------------------------- */

static void fix_symbol(ir_module *module, int64_t symbol, int64_t extent) {
    for (size_t i = 1; i < module->value_count; i++) {
        ir_value *value = module->values[i];
        for (int32_t d = 0; value && d < value->type.shape.rank; d++) {
            if (value->type.shape.dims[d] == symbol) value->type.shape.dims[d] = extent;
        }
    }
}

base_status compile_fix_input(compile_result *result, uint32_t index, const op_shape *shape,
                              base_report *report) {
    ir_module *module = result->module;
    ir_value *input = module->main->parameters[index];
    op_shape *declared = &input->type.shape;
    if (input->type.kind != OP_KIND_TENSOR) return BASE_OK;
    if (declared->rank >= 0 && declared->rank != shape->rank) {
        return base_fail(report, BASE_INVALID, "%s: input '%s' has %d dimensions, expected %d", module->name,
                         input->name, (int)shape->rank, (int)declared->rank);
    }
    if (declared->rank < 0) {
        *declared = *shape;
        for (int32_t d = 0; d < shape->rank; d++) {
            if (shape->dims[d] < 0) declared->dims[d] = OP_DIM_UNKNOWN;
        }
        return BASE_OK;
    }
    for (int32_t d = 0; d < shape->rank; d++) {
        int64_t dim = declared->dims[d];
        if (shape->dims[d] < 0) {
            continue;
        } else if (dim == OP_DIM_UNKNOWN) {
            declared->dims[d] = shape->dims[d];
        } else if (dim < 0) {
            fix_symbol(module, dim, shape->dims[d]);
        } else if (dim != shape->dims[d]) {
            return base_fail(report, BASE_INVALID,
                             "%s: input '%s' has extent %lld in dimension %d, expected %lld", module->name,
                             input->name, (long long)shape->dims[d], (int)d, (long long)dim);
        }
    }
    return BASE_OK;
}

static base_status fail_no_input(const ir_module *module, const char *name, base_report *report) {
    char list[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < module->main->parameter_count && used < sizeof list; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s'%s'", i ? ", " : "",
                                 module->main->parameters[i]->name);
    }
    return base_fail(report, BASE_USAGE,
                     "%s: a shape is given for input '%s', which is not there; the model has %s",
                     module->name, name, used ? list : "no inputs");
}

/* The shapes that the options give. */
static base_status fix_shapes(compile_result *result, const ouro_compile_options *options,
                              base_report *report) {
    const ir_graph *main_graph = result->module->main;
    for (size_t i = 0; i < options->shape_count; i++) {
        const ouro_shape *given = &options->shapes[i];
        uint32_t index = 0;
        while (index < main_graph->parameter_count &&
               strcmp(main_graph->parameters[index]->name, given->input) != 0)
            index++;
        if (index == main_graph->parameter_count) return fail_no_input(result->module, given->input, report);
        if (main_graph->parameters[index]->type.kind != OP_KIND_TENSOR)
            return base_fail(report, BASE_USAGE, "%s: input '%s' is no tensor: it has no shape",
                             result->module->name, given->input);
        op_shape shape = {.rank = given->rank};
        for (int d = 0; d < given->rank; d++) shape.dims[d] = given->dims[d];
        const base_status status = compile_fix_input(result, index, &shape, report);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

/* ---- the way of a model -------------------------------------------------------------------------------- */

base_status compile_import(const ouro_compile_options *options, compile_result *result, base_report *report) {
    *result = (compile_result){.model_path = options->model_path};
    base_arena_init(&result->arena, NULL);
    base_status status = check_options(options, report);
    if (status != BASE_OK) return status;
    import_dim *dims = BASE_ARRAY(&result->arena, import_dim, options->dim_count);
    if (!dims) return base_fail_memory(report);
    for (size_t i = 0; i < options->dim_count; i++)
        dims[i] = (import_dim){options->dims[i].name, options->dims[i].extent};
    double start = now_seconds();
    const import_options import = {.dims = dims,
                                   .dim_count = options->dim_count,
                                   .kept = options->kept_inputs,
                                   .kept_count = options->kept_input_count};
    status = import_model_with(options->model_path, &import, NULL, &result->module, report);
    result->import_seconds = now_seconds() - start;
    if (status == BASE_OK) status = fix_shapes(result, options, report);
    if (status == BASE_OK)
        status = compile_bound_dims(result->module, options->bounds, options->bound_count, report);
    if (status == BASE_OK)
        status = compile_carry_states(result->module, options->states, options->state_count, &result->arena,
                                      report);
    return status;
}

/* There is an input of each name that is to be kept. Asked late: who reads inputs by their names, says more. */
static base_status check_kept(const ouro_compile_options *options, const ir_module *module,
                              base_report *report) {
    const ir_graph *graph = module->main;
    for (size_t i = 0; i < options->kept_input_count; i++) {
        uint32_t at = 0;
        while (at < graph->parameter_count &&
               strcmp(graph->parameters[at]->name, options->kept_inputs[i]) != 0)
            at++;
        if (at == graph->parameter_count)
            return base_fail(report, BASE_USAGE, "%s: no input to keep is called '%.80s'",
                             options->model_path, options->kept_inputs[i]);
    }
    return BASE_OK;
}

base_status compile_finish(const ouro_compile_options *options, compile_result *result, base_report *report) {
    base_status status = check_kept(options, result->module, report);
    if (status != BASE_OK) return status;
    double start = now_seconds();
    pass_options passes = options_of_passes(options);
    pass_tuning tuning;
    status = compile_open_times(options, &tuning, report);
    if (options->tune || options->times_path) passes.tuning = &tuning;
    if (status == BASE_OK)
        status = pass_pipeline_run(result->module, &passes, &result->arena, &result->memory, report);
    if (status == BASE_OK) status = compile_write_times(options, &tuning, report);
    pass_tuning_free(&tuning);
    void *bytes = NULL;
    size_t size = 0;
    if (status == BASE_OK)
        status = compile_move_plan(result->module, result->memory, &passes, &bytes, &size, report);
    if (status == BASE_OK) {
        status =
            plan_open(bytes, size, options->model_path, &rt_plan_host, free, bytes, &result->plan, report);
    }
    result->compile_seconds = result->import_seconds + (now_seconds() - start);
    return status;
}

base_status compile_model(const ouro_compile_options *options, compile_result *result, base_report *report) {
    base_status status = compile_import(options, result, report);
    return status == BASE_OK ? compile_finish(options, result, report) : status;
}

void compile_result_free(compile_result *result) {
    if (result->plan.base) plan_close(&result->plan);
    ir_module_free(result->module);
    base_arena_free(&result->arena);
    *result = (compile_result){0};
}

base_status compile_emit(const compile_result *result, const ouro_compile_options *options,
                         base_report *report) {
    base_status status = BASE_OK;
    if (options->plan_path)
        status = file_write(options->plan_path, result->plan.base, result->plan.bytes, report);
    if (status == BASE_OK && options->dot_path)
        status = emit_dot(result, options->dot_path, options->dot_nodes, report);
    if (status == BASE_OK && options->memory_map_path) {
        status = emit_memory_map(result, options->memory_map_path, report);
    }
    if (status == BASE_OK && options->report_path) status = emit_report(result, options->report_path, report);
    if (status == BASE_OK && options->problem_path)
        status = emit_problem(result, options->problem_path, report);
    return status;
}

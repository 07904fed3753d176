/* SPDX-License-Identifier: Apache-2.0 */
/* model.c: a plan to run, from a plan file or from a model that is compiled on the spot. */
#include "compiler/command/command.h"
#include "ir/base/file_error.h"
#include "ir/operators/symbol_text.h"
#include "runtime/session.h"
#include <inttypes.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

int command_is_plan(const char *path, bool *is) {
    char start[8];
    base_report report = {0};
    FILE *file = fopen(path, "rb");
    *is = false;
    if (file)
        *is = fread(start, 1, sizeof start, file) == sizeof start &&
              memcmp(start, PLAN_MAGIC, sizeof start) == 0;
    const bool failed = !file || ferror(file);
    if (failed) base_fail_file(&report, path, file ? "cannot read" : "cannot open", errno);
    if (file) fclose(file);
    return failed ? command_fail_report(&report) : 0;
}

/* ---- inputs by name ------------------------------------------------------------------------------------ */

/* What is known of the inputs while they are read: by index. */
typedef struct input_names {
    size_t count;  /* of inputs, and after them of states */
    size_t states; /* of these */
    const char **names;
    op_type *types;
    op_symbol_name *symbol; /* names of dimensions, for messages */
    const void *symbols;
} input_names;

static int fail_unknown_input(const command_model_request *request, const input_names *known,
                              const char *name) {
    char list[1024];
    size_t used = 0;
    list[0] = 0;
    for (size_t i = 0; i < known->count && used < sizeof list; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s'%s'", i ? ", " : "", known->names[i]);
    }
    return command_fail(BASE_USAGE, "%s: there is no input '%s', expected one of: %s", request->path, name,
                        known->count ? list : "(it has none)");
}

/* A tensor must be what the input is, as far as that is known; other values are looked at when they are bound. */
static base_status check_input(const char *path, const input_names *known, size_t index,
                               const import_value *value, base_report *report) {
    char wanted[256], found[256];
    const op_type *type = &known->types[index];
    op_type expected = *type;
    const op_tensor *tensor = &value->tensor;
    expected.layout = OP_LAYOUT_ROW_MAJOR;
    if (type->kind != OP_KIND_TENSOR && value->kind == type->kind) return BASE_OK;
    bool fits = value->kind == OP_KIND_TENSOR && type->kind == value->kind &&
                tensor->type.dtype == type->dtype &&
                (type->shape.rank < 0 || tensor->type.shape.rank == type->shape.rank);
    for (int32_t d = 0; fits && d < type->shape.rank; d++) {
        fits = type->shape.dims[d] < 0 || type->shape.dims[d] == tensor->type.shape.dims[d];
    }
    if (fits) return BASE_OK;
    op_type_print(&expected, wanted, sizeof wanted);
    op_symbols_named(wanted, sizeof wanted, known->symbol, known->symbols);
    return base_fail(report, BASE_INVALID, "%s: input '%s' is %s, expected %s", path, known->names[index],
                     op_type_print(&tensor->type, found, sizeof found), wanted);
}

/* What is no file, and has no name that a file would have, is meant as a value. */
static bool is_literal(const char *text) {
    const char *dot = strrchr(text, '.');
    const bool named =
        strchr(text, '/') ||
        (dot && (strcmp(dot, ".npy") == 0 || strcmp(dot, ".npz") == 0 || strcmp(dot, ".pb") == 0));
    return !named && access(text, F_OK) != 0;
}

/* "FILE:stacked" is FILE, with one more axis before the others. */
static bool take_stacked(const char **file, base_arena *arena) {
    static const char mark[] = ":stacked";
    const size_t length = strlen(*file), end = sizeof mark - 1;
    if (length <= end || strcmp(*file + length - end, mark) != 0) return false;
    *file = base_arena_text(arena, *file, length - end);
    return true;
}

/* There is a first axis, with something along it. */
static bool is_stack(const import_value *value) {
    return value->kind == OP_KIND_TENSOR && value->tensor.type.shape.rank > 0 &&
           value->tensor.type.shape.dims[0] > 0;
}

static import_value slice_of(const import_value *stack, size_t index) {
    import_value slice = *stack;
    op_shape *shape = &slice.tensor.type.shape;
    const int64_t count = shape->dims[0];
    shape->rank--;
    memmove(shape->dims, shape->dims + 1, (size_t)shape->rank * sizeof *shape->dims);
    slice.tensor.bytes = stack->tensor.bytes / (size_t)count;
    slice.tensor.data = (char *)stack->tensor.data + index * slice.tensor.bytes;
    return slice;
}

/* Reads what is given for one input. */
static int read_input(const command_model_request *request, const input_names *known, command_model *model,
                      const char *name, const char *file) {
    size_t index = 0;
    while (index < known->count && strcmp(known->names[index], name) != 0) index++;
    if (index == known->count) return fail_unknown_input(request, known, name);
    if (command_is_given(&model->inputs[index])) {
        return command_fail(BASE_USAGE, "--input '%s': this input was given already", name);
    }
    base_report report = {0};
    base_status status;
    const bool stacked = request->steps && index < model->input_count && take_stacked(&file, &model->arena);
    if (!file) return command_fail_memory();
    model->stacked[index] = stacked;
    if (is_literal(file)) {
        base_report_context(&report, "--input %s", name);
        status = command_read_literal(file, &known->types[index], &model->arena, &model->inputs[index].tensor,
                                      &report);
    } else {
        status = command_read_value(file, name, &known->types[index], &model->arena, &model->inputs[index],
                                    &report);
    }
    if (status == BASE_OK && stacked && !is_stack(&model->inputs[index]))
        status = base_fail(&report, BASE_INVALID, "%s: input '%s' has no axis along which it is stacked",
                           file, name);
    if (status == BASE_OK) {
        const import_value one = stacked ? slice_of(&model->inputs[index], 0) : model->inputs[index];
        status = check_input(file, known, index, &one, &report);
    }
    return status == BASE_OK ? 0 : command_fail_report(&report);
}

static bool is_archive(const char *given) {
    return !strchr(given, '=') && strchr(given, '.');
}

/* An archive without a name before it: each of its arrays is the input of its name. */
static int read_archive(const command_model_request *request, const input_names *known, command_model *model,
                        const char *given) {
    const char **names, *path = given;
    size_t count;
    base_report report = {0};
    if (request->steps) take_stacked(&path, &model->arena);
    if (!path) return command_fail_memory();
    int status = 0;
    if (command_list_npz(path, &model->arena, &names, &count, &report) != BASE_OK)
        return command_fail_report(&report);
    for (size_t i = 0; i < count && !status; i++) status = read_input(request, known, model, names[i], given);
    return status;
}

/* Reads the files of --input. */
static int read_inputs(const command_model_request *request, const input_names *known, command_model *model) {
    model->input_count = known->count - known->states;
    model->state_count = known->states;
    model->inputs = BASE_ARRAY(&model->arena, import_value, known->count + 1);
    model->made_up = BASE_ARRAY(&model->arena, bool, known->count + 1);
    model->assumed = BASE_ARRAY(&model->arena, const char *, known->count + 1);
    model->stacked = BASE_ARRAY(&model->arena, bool, known->count + 1);
    if (!model->inputs || !model->made_up || !model->assumed || !model->stacked) return command_fail_memory();
    int status = 0;
    for (size_t i = 0; i < request->inputs.count && !status; i++) {
        const char *name, *file, *given = request->inputs.items[i];
        if (is_archive(given)) status = read_archive(request, known, model, given);
        else if (!command_split(request->self, "--input", given, &model->arena, &name, &file))
            status = BASE_USAGE;
        else status = read_input(request, known, model, name, file);
    }
    return status;
}

/* ---- opening ------------------------------------------------------------------------------------------- */

static bool reserve_names(input_names *known, size_t count, base_arena *arena) {
    known->count = count;
    known->names = BASE_ARRAY(arena, const char *, count + 1);
    known->types = BASE_ARRAY(arena, op_type, count + 1);
    return known->names && known->types;
}

static const char *symbol_of_plan(const void *user, uint64_t number) {
    return plan_symbol_name(user, number);
}

static const char *symbol_of_module(const void *user, uint64_t number) {
    const ir_module *module = user;
    return number < module->symbol_count ? module->symbols[number].name : NULL;
}

/* "x=1x80", for the hint at --shape. */
static const char *shape_text(const char *name, const op_shape *shape, base_arena *arena) {
    char *text = base_arena_format(arena, "%s=%s", name, shape->rank ? "" : "scalar");
    for (int32_t d = 0; d < shape->rank && text; d++)
        text = base_arena_format(arena, "%s%s%" PRId64, text, d ? "x" : "", shape->dims[d]);
    return text;
}

/* A plan's inputs that are made up get these shapes; they must fit what the plan says. */
static int check_shapes(const command_model_request *request, const input_names *known,
                        command_model *model) {
    const int status = command_shapes(request->self, &request->shapes, &model->arena, &model->shapes);
    if (status) return status;
    model->shape_count = request->shapes.count;
    for (size_t i = 0; i < model->shape_count; i++) {
        const ouro_shape *given = &model->shapes[i];
        size_t index = 0;
        while (index < known->count && strcmp(known->names[index], given->input) != 0) index++;
        if (index == known->count) return fail_unknown_input(request, known, given->input);
        const op_shape *declared = &known->types[index].shape;
        bool fits = known->types[index].kind == OP_KIND_TENSOR &&
                    (declared->rank < 0 || declared->rank == given->rank);
        for (int32_t d = 0; fits && d < declared->rank; d++)
            fits = declared->dims[d] < 0 || given->dims[d] < 0 || declared->dims[d] == given->dims[d];
        if (fits) continue;
        char text[256];
        return command_fail(BASE_USAGE, "--shape %s: %s was planned for input '%s' as %s",
                            request->shapes.items[i], request->path, given->input,
                            plan_type_print(model->plan, &known->types[index], text, sizeof text));
    }
    return 0;
}

static int open_plan(const command_model_request *request, command_model *model) {
    if (request->dims.count || request->allocator) {
        return command_fail_usage(request->self, "%s is a plan: %s is for models (.onnx)", request->path,
                                  request->dims.count ? "--dim" : "--allocator");
    }
    ouro_error error;
    if (ouro_plan_load(request->path, &model->handle, &error) != OURO_OK) return command_fail_error(&error);
    model->plan = rt_plan_of(model->handle);
    command_waits_shorten(request->threads ? request->threads : (int)model->plan->header->threads);
    input_names known = {.symbol = symbol_of_plan, .symbols = model->plan};
    const size_t inputs = ouro_plan_input_count(model->handle);
    const size_t states = ouro_plan_state_count(model->handle);
    if (!reserve_names(&known, inputs + states, &model->arena)) return command_fail_memory();
    known.states = states;
    for (size_t i = 0; i < known.count; i++) {
        const plan *of = model->plan;
        const plan_state *state = i < inputs ? NULL : &of->states[i - inputs];
        known.names[i] = of->texts + (state ? state->input : of->inputs[i].name);
        if (state) plan_tensor_type(of, state->parameter, &known.types[i]);
        else plan_interface_type(of, &of->inputs[i], &known.types[i]);
    }
    const int status = check_shapes(request, &known, model);
    return status ? status : read_inputs(request, &known, model);
}

/* What the inputs given say about the model's dynamic dimensions; the rest are 1 where the request says so. */
static base_status fix_inputs(const command_model_request *request, command_model *model,
                              compile_result *compiled, base_report *report) {
    base_status status = BASE_OK;
    const ir_graph *main_graph = compiled->module->main;
    for (uint32_t i = 0; i < model->input_count && status == BASE_OK; i++) {
        if (!command_is_given(&model->inputs[i]) || model->inputs[i].kind != OP_KIND_TENSOR) continue;
        status = compile_fix_input(compiled, i, &model->inputs[i].tensor.type.shape, report);
        if (status == BASE_INVALID && !report->count)
            base_fail(report, status, "%s: bad shape", request->path);
    }
    for (uint32_t i = 0; request->ones && i < model->input_count && status == BASE_OK; i++) {
        op_shape shape = main_graph->parameters[i]->type.shape;
        if (shape.rank < 0) continue;
        bool assumed = false;
        for (int32_t d = 0; d < shape.rank; d++) {
            assumed |= shape.dims[d] < 0;
            if (shape.dims[d] < 0) shape.dims[d] = 1;
        }
        if (assumed && main_graph->parameters[i]->type.kind == OP_KIND_TENSOR)
            model->assumed[i] = shape_text(main_graph->parameters[i]->name, &shape, &model->arena);
        status = compile_fix_input(compiled, i, &shape, report);
    }
    return status;
}

/* Texts in an arena. */
typedef struct text_list {
    const char **items;
    size_t count, capacity;
} text_list;

/* False when memory runs out. */
static bool append(text_list *list, base_arena *arena, const char *const *items, size_t count) {
    const char **grown =
        base_arena_grow(arena, list->items, &list->capacity, list->count + count, sizeof *grown);
    if (!grown) return false;
    list->items = grown;
    for (size_t i = 0; i < count; i++) list->items[list->count++] = items[i];
    return true;
}

/* The names of inputs that --input gives: what is given is no constant, though it may have a default value. What cannot be read is said when it
 * is. False when memory runs out. */
static bool given_names(const command_model_request *request, base_arena *arena, text_list *names) {
    for (size_t i = 0; i < request->inputs.count; i++) {
        const char *given = request->inputs.items[i];
        if (!is_archive(given)) {
            const char *name = base_arena_text(arena, given, strcspn(given, "="));
            if (!name || !append(names, arena, &name, 1)) return false;
            continue;
        }
        const char **within;
        size_t count;
        base_report unheard = {0};
        if (request->steps) take_stacked(&given, arena);
        if (!given) return false;
        if (command_list_npz(given, arena, &within, &count, &unheard) != BASE_OK) continue;
        if (!append(names, arena, within, count)) return false;
    }
    return true;
}

static int open_onnx(const command_model_request *request, command_model *model, command_progress *progress) {
    command_waits_shorten(request->threads);
    const ouro_dim *dims;
    const ouro_shape *shapes;
    int status = command_dims(request->self, &request->dims, &model->arena, &dims);
    if (!status) status = command_shapes(request->self, &request->shapes, &model->arena, &shapes);
    if (status) return status;
    text_list names = {0};
    if (!given_names(request, &model->arena, &names)) return command_fail_memory();
    ouro_compile_options options = {.model_path = request->path,
                                    .kept_inputs = names.items,
                                    .kept_input_count = names.count,
                                    .dims = dims,
                                    .dim_count = request->dims.count,
                                    .shapes = shapes,
                                    .shape_count = request->shapes.count,
                                    .allocator = request->allocator,
                                    .threads = request->threads};
    compile_result compiled;
    base_report report = {0};
    command_progress_say(progress, "importing %s", request->path);
    bool imported = compile_import(&options, &compiled, &report) == BASE_OK;
    if (imported) command_warn(&compiled);
    input_names known = {.symbol = symbol_of_module, .symbols = compiled.module};
    if (imported) {
        const ir_graph *main_graph = compiled.module->main;
        if (!reserve_names(&known, main_graph->parameter_count, &model->arena)) {
            compile_result_free(&compiled);
            return command_fail_memory();
        }
        for (size_t i = 0; i < known.count; i++) {
            known.names[i] = main_graph->parameters[i]->name;
            known.types[i] = main_graph->parameters[i]->type;
        }
        status = read_inputs(request, &known, model);
        if (status) {
            compile_result_free(&compiled);
            return status;
        }
    }
    command_progress_say(progress, "compiling %s", request->path);
    progress->subject = request->path;
    options.progress = command_progress_pass;
    options.progress_user = progress;
    if (imported && fix_inputs(request, model, &compiled, &report) == BASE_OK &&
        compile_finish(&options, &compiled, &report) == BASE_OK) {
        model->handle = rt_plan_new(&compiled.plan);
        compiled.plan = (plan){0};
        if (!model->handle) base_fail_memory(&report);
    }
    compile_result_free(&compiled);
    if (report.status != BASE_OK) {
        status = command_fail_report(&report);
        if (status == BASE_INVALID) command_model_hint(model);
        return status;
    }
    model->plan = rt_plan_of(model->handle);
    return 0;
}

int command_model_open(const command_model_request *request, command_model *model,
                       command_progress *progress) {
    *model = (command_model){.path = request->path};
    base_arena_init(&model->arena, NULL);
    double start = command_seconds();
    bool is_plan;
    int status = command_is_plan(request->path, &is_plan);
    if (!status) status = is_plan ? open_plan(request, model) : open_onnx(request, model, progress);
    model->load_seconds = command_seconds() - start;
    return status;
}

void command_model_close(command_model *model) {
    ouro_plan_free(model->handle);
    base_arena_free(&model->arena);
    *model = (command_model){0};
}

/* The shape that --shape gives to the input of a plan. */
static void take_shape(const command_model *model, const char *name, op_shape *shape) {
    for (size_t i = 0; i < model->shape_count; i++) {
        const ouro_shape *given = &model->shapes[i];
        if (strcmp(given->input, name) != 0) continue;
        for (int32_t d = 0; d < given->rank; d++) {
            if (shape->rank < 0 || given->dims[d] >= 0) shape->dims[d] = given->dims[d];
        }
        shape->rank = given->rank;
    }
}

char *command_model_made_up(const command_model *model, char *text, size_t capacity) {
    enum { MOST = 6 };
    size_t used = 0, count = 0;
    text[0] = 0;
    for (size_t i = 0; i < model->input_count; i++) {
        char type[256];
        if (!model->made_up[i] || count++ >= MOST || used >= capacity) continue;
        used += (size_t)snprintf(text + used, capacity - used, "%s%s %s", count > 1 ? ", " : "",
                                 model->plan->texts + model->plan->inputs[i].name,
                                 op_type_print(&model->inputs[i].tensor.type, type, sizeof type));
    }
    if (count > MOST && used < capacity)
        snprintf(text + used, capacity - used, ", and %zu more", count - MOST);
    return text;
}

void command_model_hint(const command_model *model) {
    char text[512];
    size_t used = 0, count = 0;
    for (size_t i = 0; i < model->input_count && used < sizeof text; i++) {
        if (!model->assumed || !model->assumed[i] || count++ == 3) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, " --shape %s", model->assumed[i]);
    }
    if (count)
        command_note(
            "extents that nobody gave were taken to be 1, as by%s; other numbers there may be what the model "
            "wants",
            text);
}

int command_model_fill(command_model *model, uint64_t seed) {
    for (size_t i = 0; i < model->input_count; i++) {
        op_tensor *tensor = &model->inputs[i].tensor;
        if (command_is_given(&model->inputs[i])) continue;
        const char *name = model->plan->texts + model->plan->inputs[i].name;
        plan_interface_type(model->plan, &model->plan->inputs[i], &tensor->type);
        base_report report = {0};
        take_shape(model, name, &tensor->type.shape);
        if (tensor->type.kind != OP_KIND_TENSOR || tensor->type.shape.rank < 0) {
            return command_fail(BASE_INVALID, "%s: input '%s' cannot be made up: %s", model->path, name,
                                tensor->type.kind == OP_KIND_TENSOR
                                    ? "its rank is not known; --shape INPUT=AxBxC gives a shape"
                                    : "it is no tensor");
        }
        bool assumed = false;
        for (int32_t d = 0; d < tensor->type.shape.rank; d++) {
            assumed |= tensor->type.shape.dims[d] < 0;
            if (tensor->type.shape.dims[d] < 0) tensor->type.shape.dims[d] = 1;
        }
        if (assumed) model->assumed[i] = shape_text(name, &tensor->type.shape, &model->arena);
        model->made_up[i] = true;
        base_report_context(&report, "%s", model->path);
        if (command_fill_random(tensor, name, seed, &model->arena, &report) != BASE_OK) {
            return command_fail_report(&report);
        }
    }
    return 0;
}

bool command_is_given(const import_value *input) {
    return input->kind != OP_KIND_TENSOR || input->tensor.type.dtype != OP_NONE;
}

ouro_status command_run_on(ouro_session *session, ouro_error *error) {
    const ouro_status status = ouro_session_run(session, error);
    if (status == OURO_OK || ouro_session_state_length(session) == 0) return status;
    return ouro_session_state_reset(session, error) == OURO_OK ? ouro_session_run(session, error) : status;
}

size_t command_model_steps(const command_model *model) {
    size_t steps = SIZE_MAX;
    for (size_t i = 0; i < model->input_count; i++) {
        const size_t extent =
            model->stacked[i] ? (size_t)model->inputs[i].tensor.type.shape.dims[0] : SIZE_MAX;
        if (extent < steps) steps = extent;
    }
    return steps;
}

/* What is given for a state it is before the first run. */
static int begin_states(const command_model *model, ouro_session *session) {
    for (size_t i = 0; i < model->state_count; i++) {
        const op_tensor *given = &model->inputs[model->input_count + i].tensor;
        ouro_error error;
        if (!command_is_given(&model->inputs[model->input_count + i])) continue;
        if (ouro_session_state_initial(session, i, given->data, given->bytes, given->type.shape.dims,
                                       &error) != OURO_OK ||
            ouro_session_state_reset(session, &error) != OURO_OK)
            return command_fail((int)error.status, "%s: %s", model->path, error.message);
    }
    return 0;
}

int command_model_bind(const command_model *model, ouro_session *session) {
    return command_model_bind_step(model, session, 0);
}

int command_model_bind_step(const command_model *model, ouro_session *session, size_t step) {
    const int begun = step == 0 ? begin_states(model, session) : 0;
    if (begun) return begun;
    for (size_t i = 0; i < model->input_count; i++) {
        base_arena arena;
        ouro_value value;
        ouro_error error;
        if (step && !model->stacked[i]) continue;
        base_arena_init(&arena, NULL);
        const import_value one = model->stacked[i] ? slice_of(&model->inputs[i], step) : model->inputs[i];
        bool made = command_value_of(&one, &arena, &value);
        ouro_status status = made ? ouro_session_bind_value(session, i, &value, &error) : OURO_MACHINE;
        base_arena_free(&arena);
        if (!made) return command_fail_memory();
        if (status != OURO_OK) return command_fail((int)status, "%s: %s", model->path, error.message);
    }
    return 0;
}

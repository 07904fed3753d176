/* SPDX-License-Identifier: Apache-2.0 */
/* inspect_session.c: what a program needs that opens a plan and makes a session; measured by doing so. */
#include "compiler/command/inspect.h"
#include "compiler/report/report.h"
#include "passes/planners/base/planner.h"
#include "runtime/session.h"
#include <string.h>

bool command_inspect_blocks(const plan *of, inspect_blocks *blocks) {
    ouro_plan *opened;
    *blocks = (inspect_blocks){0};
    if (ouro_plan_open(of->base, of->bytes, &opened, NULL) != OURO_OK) return false;
    const bool measured = ouro_plan_bytes(opened, &blocks->plan, NULL) == OURO_OK &&
                          ouro_session_bytes(opened, NULL, &blocks->session, NULL) == OURO_OK;
    ouro_plan_free(opened);
    return measured;
}

/* ---- the shapes of a run ------------------------------------------------------------------------------- */

/* "sequence, past": the symbolic dimensions of the inputs. */
static const char *list_symbols(const plan *of, base_arena *arena) {
    char *list = base_arena_text(arena, "", 0);
    for (uint64_t i = 1; i < of->header->symbols.count && list; i++) {
        const char *name = of->texts + of->symbols[i];
        if (name[0]) list = base_arena_format(arena, "%s%s%s", list, list[0] ? ", " : "", name);
    }
    return list && list[0] ? list : "(it has none)";
}

/* What --dim says of the inputs of a plan, as shapes after those that are given already. */
static int add_dims(const command *self, const command_list *list, command_model *model) {
    const plan *of = model->plan;
    const ouro_dim *dims;
    const size_t inputs = (size_t)of->header->inputs.count;
    int status = command_dims(self, list, &model->arena, &dims);
    if (status) return status;
    ouro_shape *shapes = BASE_ARRAY(&model->arena, ouro_shape, model->shape_count + list->count * inputs + 1);
    if (!shapes) return command_fail_memory();
    if (model->shape_count) memcpy(shapes, model->shapes, model->shape_count * sizeof *shapes);
    for (size_t k = 0; k < list->count; k++) {
        bool found = false;
        for (size_t i = 0; i < inputs; i++) {
            op_type type;
            ouro_shape shape = {.input = of->texts + of->inputs[i].name};
            bool named = false;
            plan_interface_type(of, &of->inputs[i], &type);
            shape.rank = type.shape.rank;
            for (int32_t d = 0; d < type.shape.rank; d++) {
                const int64_t dim = type.shape.dims[d];
                const char *name =
                    dim < 0 && dim != OP_DIM_UNKNOWN ? plan_symbol_name(of, (uint64_t)-dim) : NULL;
                const bool meant = name && strcmp(name, dims[k].name) == 0;
                shape.dims[d] = meant ? dims[k].extent : -1;
                named |= meant;
            }
            found |= named;
            if (named) shapes[model->shape_count++] = shape;
        }
        if (!found)
            return command_fail(BASE_USAGE, "%s: no input has a dimension '%s', expected one of: %s",
                                model->path, dims[k].name, list_symbols(of, &model->arena));
    }
    model->shapes = shapes;
    return 0;
}

/* The places as a solved problem, which can be drawn. */
static int draw_places(const command_model *model, const rt_shape_place *places, size_t count,
                       const char *picture, base_arena *arena, inspect_shapes *told) {
    const plan *of = model->plan;
    const int64_t steps = (int64_t)of->graphs[0].node_count;
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, count + 1);
    const char **names = BASE_ARRAY(arena, const char *, count + 1);
    planner_solution solution = {.offsets = BASE_ARRAY(arena, size_t, count + 1)};
    size_t *live = BASE_ARRAY(arena, size_t, (size_t)steps + 1);
    base_report report = {0};
    if (!buffers || !names || !solution.offsets || !live) return command_fail_memory();
    for (size_t i = 0; i < count; i++) {
        const rt_shape_place *place = &places[i];
        const int64_t first = (int64_t)(place->first - of->graphs[0].nodes);
        const int64_t last =
            place->last == UINT64_MAX ? steps : (int64_t)(place->last - of->graphs[0].nodes) + 1;
        buffers[i] = (planner_buffer){.size = place->bytes,
                                      .alignment = RT_ALIGNMENT,
                                      .first = first,
                                      .last = last,
                                      .fixed = PLANNER_NOT_FIXED};
        names[i] = of->texts + of->tensors[place->tensor].name;
        solution.offsets[i] = place->offset;
        if (place->offset + place->bytes > solution.height) solution.height = place->offset + place->bytes;
        told->sum += place->bytes;
        for (int64_t t = first; t < last; t++)
            if ((live[t] += place->bytes) > solution.lower_bound) solution.lower_bound = live[t];
    }
    told->tensors = count;
    told->bytes = solution.height;
    told->bound = solution.lower_bound;
    const planner_problem problem = {.buffers = buffers, .buffer_count = count};
    const char *title = base_arena_format(arena, "%s for %s", model->path, told->inputs);
    if (!title) return command_fail_memory();
    if (picture && emit_solution_map(&problem, names, &solution, title, picture, &report) != BASE_OK)
        return command_fail_report(&report);
    return 0;
}

int command_inspect_shapes(const command *self, const char *path, const command_list *dims,
                           const command_list *shapes, const char *picture, base_arena *arena,
                           inspect_shapes *told) {
    const command_model_request request = {.self = self, .path = path, .shapes = *shapes};
    command_model model;
    command_progress progress;
    ouro_session *session = NULL;
    ouro_error error;
    base_report report = {0};
    rt_shape_place *places = NULL;
    size_t count = 0;
    *told = (inspect_shapes){0};
    command_progress_begin(&progress, "loading");
    int status = command_model_open(&request, &model, &progress);
    command_progress_end(&progress);
    if (!status) status = add_dims(self, dims, &model);
    if (!status) status = command_model_fill(&model, 1);
    if (!status && ouro_session_new(model.handle, NULL, &session, &error) != OURO_OK)
        status = command_fail((int)error.status, "%s: %s", path, error.message);
    if (!status) status = command_model_bind(&model, session);
    if (!status && rt_session_plan_shapes(session, arena, &places, &count, &report) != BASE_OK)
        status = command_fail_report(&report);
    char text[512];
    if (!status) {
        told->inputs = base_arena_format(arena, "%s", command_model_made_up(&model, text, sizeof text));
        status =
            told->inputs ? draw_places(&model, places, count, picture, arena, told) : command_fail_memory();
    }
    ouro_session_free(session);
    command_model_close(&model);
    return status;
}

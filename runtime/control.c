/* SPDX-License-Identifier: Apache-2.0 */
/* control.c: If and Loop, as plan.h says what they do. Everything is resolved beforehand: an iteration of a
 * static loop writes two scalars, runs its steps, reads one and copies what must be copied.
 *
 * Each phase of a control node can be done in a second session that follows the first one (rt_control_follow): the first
 * decides, and tells its observers.
 */
#include "runtime/executor.h"
#include <inttypes.h>
#include <string.h>

/* ---- observers ----------------------------------------------------------------------------------------- */

static base_status notify_all(ouro_session *session, const rt_control_event *event) {
    base_status status = BASE_OK;
    for (rt_observer *o = session->observers; o && status == BASE_OK; o = o->next)
        if (o->control) status = o->control(o, session, event);
    return status;
}

static inline base_status notify(ouro_session *session, const rt_step *step, rt_control_phase phase,
                                 int64_t number) {
    if (!session->observers) return BASE_OK;
    return notify_all(session, &(rt_control_event){step->node, phase, number});
}

/* ---- moving values ------------------------------------------------------------------------------------- */

static bool is_wanted(const ouro_session *session, uint32_t id) {
    return id != PLAN_ABSENT && session->of->tensors[id].address.space != MEMORY_NONE;
}

static void add_move(const ouro_session *session, rt_move_list *list, uint32_t from, uint32_t to) {
    if (from == to || !is_wanted(session, to)) return;
    bool fixed = !session->code.dynamic[from] && !session->code.dynamic[to];
    list->items[list->count++] =
        (rt_move){.from = from, .to = to, .fixed = fixed, .bytes = session->run.tensors[from].bytes};
}

static inline base_status run_moves(ouro_session *session, const rt_move_list *list) {
    for (uint32_t i = 0; i < list->count; i++) {
        const rt_move *move = &list->items[i];
        if (move->between) memcpy(move->between, session->run.tensors[move->from].data, move->bytes);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const rt_move *move = &list->items[i];
        if (!move->fixed) {
            base_status status = rt_value_move(session, move);
            if (status != BASE_OK) return status;
            continue;
        }
        const void *from = move->between ? move->between : session->run.tensors[move->from].data;
        void *to = session->run.tensors[move->to].data;
        if (from != to && move->bytes) memcpy(to, from, move->bytes);
    }
    return BASE_OK;
}

/* In a shadow a result may be a parameter that another move of the list replaces: there the moves of a list are
 * made at once. The plan itself has changing addresses for them. */
static bool stage_last_move(ouro_session *session, rt_move_list *list) {
    rt_move *move = list->count ? &list->items[list->count - 1] : NULL;
    if (!session->code.unshared || !move || !move->fixed || move->between || !move->bytes) return true;
    move->between = base_arena_alloc(&session->code.tables, move->bytes, 1);
    return move->between != NULL;
}

static bool make_list(ouro_session *session, rt_move_list *list, uint64_t most) {
    list->items = BASE_ARRAY(&session->code.tables, rt_move, (size_t)most);
    return list->items != NULL;
}

/* A parameter that lies, in every iteration, where its replacement was made in the one before, or an output
 * that lies where its parameter is at the end: nothing is to be moved. The verifier has seen that this is so
 * for all that lie in multi-views. */
static bool moves_itself(const ouro_session *session, uint32_t node, uint32_t id) {
    const plan_address *address = &session->of->tensors[id].address;
    return !session->code.unshared && !session->code.dynamic[id] && address->space == MEMORY_MULTIVIEW &&
           session->of->multiviews[address->index].loop == node;
}

/* A scalar of bytes, wherever it lies. */
static base_status check_scalar(ouro_session *session, uint32_t id, size_t bytes, const char *what) {
    const op_tensor *tensor = &session->run.tensors[id];
    if (tensor->bytes == bytes) return BASE_OK;
    return base_fail(&session->run.report, BASE_INVALID, "%s has %zu bytes, expected one element", what,
                     tensor->bytes);
}

static base_status read_bool(ouro_session *session, uint32_t id, bool *value) {
    const op_tensor *tensor = &session->run.tensors[id];
    if (tensor->bytes != 1) return check_scalar(session, id, 1, "the condition");
    *value = *(const uint8_t *)tensor->data != 0;
    return BASE_OK;
}

static base_status write_scalar(ouro_session *session, uint32_t id, const void *value, size_t bytes) {
    if (session->code.dynamic[id]) {
        op_type type = session->run.tensors[id].type;
        type.shape = (op_shape){.rank = 0};
        if (!rt_value_new(session, id, &type, bytes)) return BASE_SYSTEM_ERROR;
    }
    memcpy(session->run.tensors[id].data, value, bytes);
    return BASE_OK;
}

static void release_all(ouro_session *session, const uint32_t *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) rt_value_release(session, ids[i]);
}

static void release_graph(ouro_session *session, uint32_t graph) {
    release_all(session, session->code.programs[graph].dynamic, session->code.programs[graph].dynamic_count);
}

/* ---- If ------------------------------------------------------------------------------------------------ */

static base_status end_branch(ouro_session *session, const rt_step_if *detail, int64_t branch) {
    base_status status = run_moves(session, &detail->moves[branch]);
    if (session->code.has_dynamic) release_graph(session, detail->graphs[branch]);
    return status;
}

static base_status run_if(ouro_session *session, const rt_step *step) {
    const rt_step_if *detail = step->detail;
    bool condition = false;
    base_status status = read_bool(session, detail->condition, &condition);
    if (status != BASE_OK) return status;
    const uint32_t branch = condition ? 0 : 1;
    if (detail->views->multiview_count) {
        rt_multiviews_enter(session, detail->views);
        rt_multiviews_count(session, detail->views, branch);
    }
    status = rt_execute(session, detail->graphs[branch]);
    if (status == BASE_OK) status = end_branch(session, detail, branch);
    return status == BASE_OK ? notify(session, step, RT_BRANCH_ENDS, branch) : status;
}

/* ---- scans --------------------------------------------------------------------------------------------- */

/* How slices lie in a tensor of this shape; false for a bad axis. */
static bool measure(const op_type *whole, int64_t axis, int64_t *extent, size_t *outer, size_t *inner) {
    int32_t normal;
    if (!op_axis(axis, whole->shape.rank, &normal)) return false;
    *outer = 1;
    *inner = op_dtype_bytes(whole->dtype);
    for (int32_t d = 0; d < normal; d++) *outer *= (size_t)whole->shape.dims[d];
    for (int32_t d = normal + 1; d < whole->shape.rank; d++) *inner *= (size_t)whole->shape.dims[d];
    *extent = whole->shape.dims[normal];
    return true;
}

/* Copies slice `index` of `extent` out of the whole, or into it. */
static void copy_slice(char *whole, char *slice, size_t outer, size_t inner, int64_t extent, int64_t index,
                       bool into) {
    for (size_t o = 0; o < outer && inner; o++) {
        char *at = whole + (o * (size_t)extent + (size_t)index) * inner;
        if (at == slice + o * inner) continue; /* it was made there */
        if (into) memcpy(at, slice + o * inner, inner);
        else memcpy(slice + o * inner, at, inner);
    }
}

/* The reservation that the plan has for an output of a loop; without data where it has none. */
static rt_buffer reservation_of(const ouro_session *session, uint32_t output) {
    plan_address at;
    rt_buffer reservation = {.references = 1, .planned = true, .reserved = true};
    if (session->code.unshared || output == PLAN_ABSENT || !plan_tensor_reservation(session->of, output, &at))
        return reservation;
    reservation.capacity = (size_t)session->of->tensors[output].bytes;
    reservation.data = session->memory.arena + at.offset;
    return reservation;
}

static bool make_scan(ouro_session *session, rt_scan *scan, uint32_t whole, uint32_t slice, int64_t axis,
                      bool backwards) {
    *scan = (rt_scan){.whole = whole, .slice = slice, .axis = axis, .backwards = backwards};
    scan->fixed = !session->code.dynamic[whole] && !session->code.dynamic[slice];
    scan->reservation = reservation_of(session, whole);
    return !scan->fixed ||
           measure(&session->run.tensors[whole].type, axis, &scan->extent, &scan->outer, &scan->inner);
}

/* The extent that is scanned, which may be known only now. */
static base_status scan_extent(ouro_session *session, const rt_scan *scan, int64_t *extent) {
    size_t outer = 0, inner = 0;
    if (measure(&session->run.tensors[scan->whole].type, scan->axis, extent, &outer, &inner)) return BASE_OK;
    return base_fail(&session->run.report, BASE_INVALID, "a scanned input does not have axis %" PRId64,
                     scan->axis);
}

static base_status take_slice(ouro_session *session, const rt_scan *scan, int64_t iteration) {
    const op_tensor *whole = &session->run.tensors[scan->whole];
    int64_t extent = scan->extent;
    size_t outer = scan->outer, inner = scan->inner;
    if (!is_wanted(session, scan->slice)) return BASE_OK;
    if (!scan->fixed && !measure(&whole->type, scan->axis, &extent, &outer, &inner)) {
        return base_fail(&session->run.report, BASE_INVALID, "a scanned input does not have axis %" PRId64,
                         scan->axis);
    }
    int64_t index = scan->backwards ? extent - 1 - iteration : iteration;
    if (session->code.dynamic[scan->slice]) {
        op_type type = whole->type;
        int32_t axis;
        (void)op_axis(scan->axis, type.shape.rank, &axis);
        type.shape.rank--;
        for (int32_t d = axis; d < type.shape.rank; d++) type.shape.dims[d] = type.shape.dims[d + 1];
        if (outer == 1) { /* it lies there as it is, as long as the loop runs */
            rt_value_set(session, scan->slice, &type, (char *)whole->data + (size_t)index * inner, inner,
                         NULL);
            return BASE_OK;
        }
        if (!rt_value_new(session, scan->slice, &type, outer * inner)) return BASE_SYSTEM_ERROR;
    } else if (outer * inner != session->run.tensors[scan->slice].bytes) {
        return base_fail(&session->run.report, BASE_INVALID,
                         "a scanned slice has %zu bytes, %zu were planned", outer * inner,
                         session->run.tensors[scan->slice].bytes);
    }
    copy_slice(whole->data, session->run.tensors[scan->slice].data, outer, inner, extent, index, false);
    return BASE_OK;
}

/* Bytes for the slices of all iterations, where their number is certain, else for so many times those that are there. */
static size_t capacity_for(const rt_step_loop *loop, const rt_scan *scan, int64_t iteration, size_t needed) {
    size_t all;
    if (loop->counted && loop->trips > iteration &&
        base_size_multiply(scan->slice_bytes, (size_t)loop->trips, &all))
        return all;
    return needed < SIZE_MAX / 8 ? (iteration ? 2 * needed : 8 * needed) : needed;
}

/* One slice more of a stacked output of unknown extent: collected one after another. */
static base_status collect_slice(ouro_session *session, const rt_step_loop *loop, rt_scan *scan,
                                 int64_t iteration) {
    const op_tensor *slice = &session->run.tensors[scan->slice];
    if (iteration == 0) {
        scan->slice_type = slice->type;
        scan->slice_bytes = slice->bytes;
        scan->capacity = 0;
    } else if (!op_shape_equal(&scan->slice_type.shape, &slice->type.shape)) {
        char first[256], now[256];
        return base_fail(&session->run.report, BASE_INVALID,
                         "iteration %" PRId64 " gives a slice %s, the first gave %s", iteration,
                         op_type_print(&slice->type, now, sizeof now),
                         op_type_print(&scan->slice_type, first, sizeof first));
    }
    size_t used = (size_t)iteration * scan->slice_bytes, needed;
    if (!base_size_add(used, scan->slice_bytes, &needed)) {
        return base_fail(&session->run.report, BASE_INVALID, "a stacked output is too large");
    }
    if (!scan->collected && needed <= scan->reservation.capacity) {
        scan->reservation.references = 1;
        scan->collected = &scan->reservation;
        scan->capacity = scan->reservation.capacity;
    }
    if (!scan->collected || needed > scan->capacity) {
        const size_t capacity = capacity_for(loop, scan, iteration, needed);
        rt_buffer *larger = rt_pool_take(&session->memory.pool, capacity);
        if (!larger) return base_fail_memory(&session->run.report);
        if (used) memcpy(larger->data, scan->collected->data, used);
        rt_buffer_release(&session->memory.pool, scan->collected);
        scan->collected = larger;
        scan->capacity = capacity;
    }
    char *to = (char *)scan->collected->data + used;
    if (slice->bytes && to != slice->data) memcpy(to, slice->data, slice->bytes); /* or it was made there */
    return BASE_OK;
}

static base_status put_slice(ouro_session *session, const rt_step_loop *loop, rt_scan *scan,
                             int64_t iteration) {
    if (!is_wanted(session, scan->whole)) return BASE_OK;
    if (!scan->fixed) return collect_slice(session, loop, scan, iteration);
    if (iteration >= scan->extent) {
        return base_fail(&session->run.report, BASE_INVALID,
                         "runs more than the %" PRId64 " iterations that output \"%s\" was planned for",
                         scan->extent, session->of->texts + session->of->tensors[scan->whole].name);
    }
    int64_t index = scan->backwards ? scan->extent - 1 - iteration : iteration;
    copy_slice(session->run.tensors[scan->whole].data, session->run.tensors[scan->slice].data, scan->outer,
               scan->inner, scan->extent, index, true);
    return BASE_OK;
}

/* The type of a slice where none was made: what the plan knows of it, then what the model declares, and 0 for other extents. */
static void expect_slice(const ouro_session *session, const rt_scan *scan, op_type *type) {
    op_shape *shape = &type->shape;
    plan_tensor_type(session->of, scan->slice, type);
    if (shape->rank < 0) *shape = scan->declared;
    if (shape->rank < 0) shape->rank = 0;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (shape->dims[d] < 0) shape->dims[d] = rt_symbol_known(session, shape->dims[d]);
        if (shape->dims[d] < 0 && scan->declared.rank == shape->rank) shape->dims[d] = scan->declared.dims[d];
        if (shape->dims[d] < 0) shape->dims[d] = 0;
    }
}

/* The stacked output of `count` slices that were collected. */
static base_status finish_scan(ouro_session *session, rt_scan *scan, int64_t count) {
    const op_tensor *whole = &session->run.tensors[scan->whole];
    base_report *report = &session->run.report;
    if (!is_wanted(session, scan->whole)) return BASE_OK;
    if (scan->fixed) {
        if (count == scan->extent) return BASE_OK;
        return base_fail(report, BASE_INVALID,
                         "ran %" PRId64 " iterations, output \"%s\" was planned for %" PRId64, count,
                         session->of->texts + session->of->tensors[scan->whole].name, scan->extent);
    }
    op_type type;
    if (count) type = scan->slice_type;
    else expect_slice(session, scan, &type);
    int32_t axis, rank = type.shape.rank;
    if (!op_axis(scan->axis, rank + 1, &axis) || rank == OP_MAX_RANK) {
        return base_fail(report, BASE_INVALID, "slices of rank %d cannot be stacked at axis %" PRId64, rank,
                         scan->axis);
    }
    for (int32_t d = rank; d > axis; d--) type.shape.dims[d] = type.shape.dims[d - 1];
    type.shape.dims[axis] = count;
    type.shape.rank = rank + 1;
    size_t bytes, outer = 0, inner = 0;
    int64_t extent = 0;
    if (!op_type_bytes(&type, &bytes))
        return base_fail(report, BASE_INVALID, "a stacked output is too large");
    (void)measure(&type, axis, &extent, &outer, &inner);
    if (!session->code.dynamic[scan->whole] && bytes != whole->bytes) {
        return base_fail(report, BASE_INVALID, "a stacked output has %zu bytes, %zu were planned", bytes,
                         whole->bytes);
    }
    if (session->code.dynamic[scan->whole] && outer == 1 && !scan->backwards && scan->collected) {
        rt_value_set(session, scan->whole, &type, scan->collected->data, bytes, scan->collected);
        return BASE_OK;
    }
    if (session->code.dynamic[scan->whole] && !rt_value_new(session, scan->whole, &type, bytes))
        return BASE_SYSTEM_ERROR;
    for (int64_t i = 0; i < count; i++) {
        copy_slice(session->run.tensors[scan->whole].data,
                   (char *)scan->collected->data + (size_t)i * scan->slice_bytes, outer, inner, extent,
                   scan->backwards ? extent - 1 - i : i, true);
    }
    return BASE_OK;
}

void rt_control_reset(ouro_session *session, rt_step_loop *loop) {
    for (uint32_t i = 0; i < loop->output_count && loop->outputs; i++) {
        rt_buffer_release(&session->memory.pool, loop->outputs[i].collected);
        loop->outputs[i].collected = NULL;
        loop->outputs[i].capacity = 0;
    }
}

/* ---- Loop ---------------------------------------------------------------------------------------------- */

/* What ends with an iteration: all that the body made but its carried parameters, which the next one needs.
 */
static bool make_released(ouro_session *session, const plan_loop_form *form, rt_step_loop *loop) {
    const plan_graph *body = &session->of->graphs[form->body];
    uint64_t most = body->parameter_count;
    for (uint64_t n = body->nodes; n < body->nodes + body->node_count; n++)
        most += session->of->nodes[n].output_count;
    uint32_t *released = BASE_ARRAY(&session->code.tables, uint32_t, (size_t)most);
    if (!released) return false;
    loop->released = released;
    for (uint32_t i = 0; i < body->parameter_count; i++) {
        uint32_t id = form->parameters[i];
        bool carried = i >= 2 && i < 2 + form->carried;
        if (session->code.dynamic[id] && !carried) released[loop->release_count++] = id;
    }
    for (uint64_t n = body->nodes; n < body->nodes + body->node_count; n++) {
        for (uint64_t i = 0; i < session->of->nodes[n].output_count; i++) {
            uint32_t id = session->of->tensor_ids[session->of->nodes[n].outputs + i];
            if (id != PLAN_ABSENT && session->code.dynamic[id]) released[loop->release_count++] = id;
        }
    }
    return true;
}

/* Carried values that grow. In a shadow they are copied like all others. */
static bool make_growths(ouro_session *session, const plan_loop_form *form, rt_step_loop *loop) {
    loop->growths = BASE_ARRAY(&session->code.tables, rt_growth, form->carried);
    if (!loop->growths) return false;
    for (uint32_t i = 0; i < form->carried && !session->code.unshared; i++) {
        if (!plan_loop_grows(session->of, form, i, NULL)) continue;
        uint32_t output = form->outputs[i];
        rt_buffer reservation = reservation_of(session, output);
        if (output == PLAN_ABSENT || !is_wanted(session, output)) continue;
        if (session->code.dynamic[output] && !reservation.data) continue; /* it grows in run-time memory */
        loop->growths[loop->growth_count++] = (rt_growth){.initial = form->initial[i],
                                                          .parameter = form->parameters[2 + i],
                                                          .output = output,
                                                          .reservation = reservation};
    }
    return true;
}

/* What grows begins where the loop's output lies, if that is large enough. */
static void begin_growths(ouro_session *session, rt_step_loop *loop) {
    for (uint32_t i = 0; i < loop->growth_count; i++) {
        rt_growth *growth = &loop->growths[i];
        const op_tensor *initial = &session->run.tensors[growth->initial],
                        *output = &session->run.tensors[growth->output];
        growth->buffer = (rt_buffer){.references = 1, .planned = true, .used = initial->bytes};
        growth->buffer.capacity = growth->reservation.data ? growth->reservation.capacity : output->bytes;
        growth->buffer.data = growth->reservation.data ? growth->reservation.data : output->data;
        if (initial->bytes > growth->buffer.capacity || !growth->buffer.data) continue;
        if (initial->bytes && growth->buffer.data != initial->data)
            memmove(growth->buffer.data, initial->data, initial->bytes);
        op_type type = initial->type;
        rt_value_set(session, growth->parameter, &type, growth->buffer.data, initial->bytes, &growth->buffer);
    }
}

/* What grew in the reservation of an output is the output. */
static base_status end_growths(ouro_session *session, rt_step_loop *loop) {
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < loop->growth_count && status == BASE_OK; i++) {
        rt_growth *growth = &loop->growths[i];
        const op_tensor *grown = &session->run.tensors[growth->parameter];
        if (!growth->reservation.data) continue;
        if (session->run.buffers[growth->parameter] !=
            &growth->buffer) { /* it was too large for its reservation */
            status = rt_value_move(session, &(rt_move){.from = growth->parameter, .to = growth->output});
            continue;
        }
        growth->reservation.references = 1;
        op_type type = grown->type;
        rt_value_set(session, growth->output, &type, grown->data, grown->bytes, &growth->reservation);
    }
    return status;
}

static bool grows_in_reservation(const rt_step_loop *loop, uint32_t output) {
    for (uint32_t i = 0; i < loop->growth_count; i++)
        if (loop->growths[i].output == output && loop->growths[i].reservation.data) return true;
    return false;
}

/* How often it may run, and whether it may start. */
static base_status read_limits(ouro_session *session, const rt_step_loop *loop, int64_t *trips,
                               bool *condition) {
    base_status status = BASE_OK;
    *trips = INT64_MAX;
    *condition = true;
    if (loop->trip_count != PLAN_ABSENT) {
        status = check_scalar(session, loop->trip_count, sizeof *trips, "the trip count");
        if (status == BASE_OK) memcpy(trips, session->run.tensors[loop->trip_count].data, sizeof *trips);
    }
    if (status == BASE_OK && loop->condition != PLAN_ABSENT) {
        status = read_bool(session, loop->condition, condition);
    }
    for (uint32_t i = 0; i < loop->input_count && status == BASE_OK; i++) {
        int64_t extent = 0;
        status = scan_extent(session, &loop->inputs[i], &extent);
        if (status == BASE_OK && extent < *trips) *trips = extent;
    }
    return status;
}

static base_status begin_iteration(ouro_session *session, const rt_step_loop *loop, int64_t iteration) {
    base_status status = BASE_OK;
    const uint8_t holds = 1; /* or there were no iteration */
    if (loop->iteration_parameter != PLAN_ABSENT) {
        status = write_scalar(session, loop->iteration_parameter, &iteration, sizeof iteration);
    }
    if (status == BASE_OK && loop->condition_parameter != PLAN_ABSENT) {
        status = write_scalar(session, loop->condition_parameter, &holds, sizeof holds);
    }
    for (uint32_t i = 0; i < loop->input_count && status == BASE_OK; i++) {
        status = take_slice(session, &loop->inputs[i], iteration);
    }
    return status;
}

/* Slices that are made where the stacked output wants them must fit there. */
static base_status check_slices(ouro_session *session, const rt_step_loop *loop, int64_t trips) {
    for (uint32_t i = 0; i < loop->output_count; i++) {
        const rt_scan *scan = &loop->outputs[i];
        const plan_address *address = &session->of->tensors[scan->slice].address;
        bool in_place =
            address->space == MEMORY_MULTIVIEW && session->of->multiviews[address->index].stride != 0;
        size_t bytes = session->run.tensors[scan->slice].bytes;
        int64_t most = scan->fixed                           ? scan->extent
                       : bytes && scan->reservation.capacity ? (int64_t)(scan->reservation.capacity / bytes)
                                                             : INT64_MAX;
        if (!in_place || trips <= most) continue;
        return base_fail(&session->run.report, BASE_INVALID,
                         "it would run %" PRId64 " times, a stacked output has %" PRId64 " slices", trips,
                         most);
    }
    return BASE_OK;
}

static base_status end_iteration(ouro_session *session, rt_step_loop *loop, int64_t iteration) {
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < loop->output_count && status == BASE_OK; i++) {
        status = put_slice(session, loop, &loop->outputs[i], iteration);
    }
    if (status == BASE_OK) status = run_moves(session, &loop->next);
    if (loop->release_count) release_all(session, loop->released, loop->release_count);
    return status;
}

static base_status end_loop(ouro_session *session, rt_step_loop *loop, int64_t count) {
    base_status status = run_moves(session, &loop->exit);
    if (loop->swaps.count && status == BASE_OK) rt_swap_run(session, &loop->swaps);
    if (status == BASE_OK) status = end_growths(session, loop);
    for (uint32_t i = 0; i < loop->output_count && status == BASE_OK; i++) {
        status = finish_scan(session, &loop->outputs[i], count);
    }
    rt_control_reset(session, loop);
    if (session->code.has_dynamic) release_graph(session, loop->body);
    return status;
}

static base_status begin_loop(ouro_session *session, rt_step_loop *loop) {
    base_status status = run_moves(session, &loop->entry);
    if (status == BASE_OK) begin_growths(session, loop);
    return status;
}

/* Iteration t, and whether there is another one. */
static base_status run_iteration(ouro_session *session, const rt_step *step, int64_t t, bool *condition) {
    rt_step_loop *loop = step->detail;
    base_status status = begin_iteration(session, loop, t);
    if (status == BASE_OK) status = notify(session, step, RT_ITERATION_BEGINS, t);
    if (status == BASE_OK) status = rt_execute(session, loop->body);
    if (status == BASE_OK) status = read_bool(session, loop->condition_result, condition);
    if (status == BASE_OK) status = end_iteration(session, loop, t);
    return status == BASE_OK ? notify(session, step, RT_ITERATION_ENDS, t) : status;
}

static base_status run_loop(ouro_session *session, const rt_step *step) {
    rt_step_loop *loop = step->detail;
    int64_t trips, outer = session->run.iteration, t = 0;
    bool condition;
    base_status status = read_limits(session, loop, &trips, &condition);
    loop->trips = trips < 0 ? 0 : trips;
    if (status == BASE_OK && loop->multiview_count) {
        status = check_slices(session, loop, trips);
        rt_multiviews_enter(session, loop);
    }
    loop->around = session->run.innermost;
    session->run.innermost = loop;
    loop->iteration = 0;
    if (status == BASE_OK) status = begin_loop(session, loop);
    if (status == BASE_OK) status = notify(session, step, RT_LOOP_BEGINS, 0);
    loop->by_rows = status == BASE_OK && condition && rt_row_loop_fits(session, loop);
    if (loop->by_rows) {
        status = rt_row_loop_run(session, loop);
        t = loop->iteration;
    }
    for (; status == BASE_OK && t < trips && condition; t++) {
        session->run.iteration = loop->iteration = t;
        session->run.remaining[loop->body] = trips == INT64_MAX ? -1 : trips - t - 1;
        status = run_iteration(session, step, t, &condition);
        if (loop->multiview_count) rt_multiviews_count(session, loop, t + 1);
        loop->iteration = t + 1;
    }
    session->run.iteration = outer;
    session->run.innermost = loop->around;
    if (status == BASE_OK) status = end_loop(session, loop, t);
    return status == BASE_OK ? notify(session, step, RT_LOOP_ENDS, t) : status;
}

base_status rt_control_follow(ouro_session *session, const rt_control_event *event) {
    void *detail = session->code.steps[event->node]->detail;
    switch (event->phase) {
    case RT_BRANCH_ENDS:
        return end_branch(session, detail, event->number);
    case RT_LOOP_BEGINS:
        return begin_loop(session, detail);
    case RT_ITERATION_BEGINS:
        return begin_iteration(session, detail, event->number);
    case RT_ITERATION_ENDS:
        return end_iteration(session, detail, event->number);
    case RT_LOOP_ENDS:
        return end_loop(session, detail, event->number);
    }
    return BASE_OK;
}

/* ---- making -------------------------------------------------------------------------------------------- */

static bool make_if(ouro_session *session, const plan_node *node, rt_step *step) {
    const plan *of = session->of;
    rt_step_if *detail = BASE_NEW(&session->code.tables, rt_step_if);
    if (!detail) return false;
    step->kind = RT_STEP_IF;
    step->special = run_if;
    step->detail = detail;
    detail->condition = of->tensor_ids[node->inputs];
    detail->views = BASE_NEW(&session->code.tables, rt_step_loop);
    if (!detail->views || !rt_multiviews_make(session, (uint32_t)(node - of->nodes), detail->views))
        return false;
    for (uint32_t g = 0; g < 2; g++) {
        const plan_graph *branch = &of->graphs[node->first_graph + g];
        detail->graphs[g] = node->first_graph + g;
        if (!make_list(session, &detail->moves[g], node->output_count)) return false;
        for (uint64_t i = 0; i < node->output_count; i++) {
            add_move(session, &detail->moves[g], of->tensor_ids[branch->results + i],
                     of->tensor_ids[node->outputs + i]);
        }
    }
    return true;
}

static bool make_loop(ouro_session *session, const plan_node *node, rt_step *step) {
    plan_loop_form form;
    rt_step_loop *loop = BASE_NEW(&session->code.tables, rt_step_loop);
    if (!loop || !plan_loop_form_read(session->of, node, &form)) return false;
    uint32_t number = (uint32_t)(node - session->of->nodes);
    step->kind = RT_STEP_LOOP;
    step->special = run_loop;
    step->detail = loop;
    if (!rt_multiviews_make(session, number, loop)) return false;
    loop->body = form.body;
    loop->trip_count = form.trip_count;
    loop->condition = form.condition;
    loop->iteration_parameter = is_wanted(session, form.parameters[0]) ? form.parameters[0] : PLAN_ABSENT;
    loop->condition_parameter = is_wanted(session, form.parameters[1]) ? form.parameters[1] : PLAN_ABSENT;
    loop->condition_result = form.results[0];
    loop->counted = plan_loop_is_counted(session->of, &form);
    loop->inputs = BASE_ARRAY(&session->code.tables, rt_scan, form.scan_inputs);
    loop->outputs = BASE_ARRAY(&session->code.tables, rt_scan, form.scan_outputs);
    if (!loop->inputs || !loop->outputs || !make_list(session, &loop->entry, form.carried) ||
        !make_list(session, &loop->next, form.carried) || !make_list(session, &loop->exit, form.carried) ||
        !make_growths(session, &form, loop) || !make_released(session, &form, loop)) {
        return false;
    }
    for (uint32_t i = 0; i < form.carried; i++) {
        uint32_t parameter = form.parameters[2 + i];
        add_move(session, &loop->entry, form.initial[i], parameter);
        if (!moves_itself(session, number, parameter)) {
            uint32_t before = loop->next.count;
            add_move(session, &loop->next, form.results[1 + i], parameter);
            if (loop->next.count > before) loop->next.items[before].within = true;
        }
        if (!stage_last_move(session, &loop->next)) return false;
        if (form.outputs[i] != PLAN_ABSENT && !moves_itself(session, number, form.outputs[i]) &&
            !grows_in_reservation(loop, form.outputs[i])) {
            uint32_t multiview =
                session->code.unshared ? PLAN_ABSENT : plan_swap_buffer(session->of, number, i, parameter);
            if (multiview == PLAN_ABSENT) add_move(session, &loop->exit, parameter, form.outputs[i]);
            else if (!rt_swap_add(session, &loop->swaps, parameter, form.outputs[i], multiview)) return false;
        }
    }
    for (uint32_t i = 0; i < form.scan_inputs; i++) {
        if (!make_scan(session, &loop->inputs[loop->input_count++], form.initial[form.carried + i],
                       form.parameters[2 + form.carried + i], plan_loop_axis(&form, false, i),
                       plan_loop_backwards(&form, false, i))) {
            return false;
        }
    }
    for (uint32_t i = 0; i < form.scan_outputs; i++) {
        if (form.outputs[form.carried + i] == PLAN_ABSENT) continue;
        if (!make_scan(session, &loop->outputs[loop->output_count++], form.outputs[form.carried + i],
                       form.results[1 + form.carried + i], plan_loop_axis(&form, true, i),
                       plan_loop_backwards(&form, true, i))) {
            return false;
        }
        loop->outputs[loop->output_count - 1].declared = plan_loop_declared(&form, i);
    }
    return true;
}

bool rt_control_make(ouro_session *session, const plan_node *node, rt_step *step) {
    return plan_node_code(session->of, node) == OP_IF ? make_if(session, node, step)
                                                      : make_loop(session, node, step);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* state_calls.c: the caller's calls on states: reset, set, get, truncate, save, load, clone. What a state is inside of the session
 * is the business of states.c. */
#include "runtime/executor.h"
#include <inttypes.h>
#include <string.h>

static size_t state_count(const ouro_session *session) {
    return (size_t)session->of->header->states.count;
}

static ouro_status fail_with(const ouro_session *session, ouro_error *error, const base_report *report) {
    return rt_binding_fail(session, error, report->status, "%.*s", (int)strcspn(report->text, "\n"),
                           report->text);
}

static ouro_status fail_index(const ouro_session *session, size_t index, ouro_error *error) {
    return rt_binding_fail(session, error, BASE_USAGE, "there is no state %zu: the plan has %zu", index,
                           state_count(session));
}

/* ---- as the model has it, and as it is carried ----------------------------------------------------------- */

/* Dimension d of the model's tensor is this one of what is carried. */
static int32_t carried_axis(const plan_state *state, int32_t d) {
    if (!state->turned) return d;
    return d == (int32_t)state->axis ? 0 : d < (int32_t)state->axis ? d + 1 : d;
}

/* The model's shape of a value as it is carried, and how far positions lie apart. */
static void model_shape(const plan_state *state, const op_type *carried, op_shape *shape, int64_t *strides) {
    int64_t apart[OP_MAX_RANK], stride = (int64_t)op_dtype_bytes(carried->dtype);
    for (int32_t d = carried->shape.rank; d-- > 0;) {
        apart[d] = stride;
        stride *= carried->shape.dims[d];
    }
    shape->rank = carried->shape.rank;
    for (int32_t d = 0; d < shape->rank; d++) {
        shape->dims[d] = carried->shape.dims[carried_axis(state, d)];
        strides[d] = apart[carried_axis(state, d)];
    }
}

/* The bytes of a row-major value, as the state is carried. NULL when memory runs out. */
static unsigned char *turn(const ouro_session *session, size_t index, const op_type *carried,
                           const void *data, size_t bytes) {
    const plan_state *state = &session->of->states[index];
    unsigned char *turned = rt_take(&session->memory.source, bytes);
    op_shape shape;
    int64_t strides[OP_MAX_RANK], at[OP_MAX_RANK] = {0};
    const size_t element = op_dtype_bytes(carried->dtype);
    if (!turned || !state->turned) {
        if (turned && bytes) memcpy(turned, data, bytes);
        return turned;
    }
    model_shape(state, carried, &shape, strides);
    for (size_t from = 0; from < bytes; from += element) {
        size_t to = 0;
        for (int32_t d = 0; d < shape.rank; d++) to += (size_t)(at[d] * strides[d]);
        memcpy(turned + to, (const unsigned char *)data + from, element);
        for (int32_t d = shape.rank; d-- > 0 && ++at[d] == shape.dims[d];) at[d] = 0;
    }
    return turned;
}

/* ---- given by the caller ------------------------------------------------------------------------------- */

/* The type of a value that is given for the state, as it is carried. */
static ouro_status read_given(const ouro_session *session, size_t index, const void *data, size_t bytes,
                              const int64_t *dims, op_type *carried, ouro_error *error) {
    const plan *of = session->of;
    op_type type;
    size_t needed;
    char declared[256];
    plan_state_type(of, (uint32_t)index, &type);
    const char *name = of->texts + of->states[index].input;
    plan_type_print(of, &type, declared, sizeof declared);
    for (int32_t d = 0; d < type.shape.rank; d++) {
        const int64_t given = dims ? dims[d] : type.shape.dims[d];
        if (given < 0 || (type.shape.dims[d] >= 0 && type.shape.dims[d] != given))
            return rt_binding_fail(session, error, BASE_USAGE, "state '%s' is %s: %s", name, declared,
                                   dims ? "other dimensions are given" : "its dimensions must be given");
        type.shape.dims[d] = given;
    }
    if (!op_type_bytes(&type, &needed) || bytes != needed || (bytes && !data))
        return rt_binding_fail(session, error, BASE_USAGE, "state '%s' is given %zu bytes, expected %zu",
                               name, data ? bytes : 0, needed);
    *carried = type;
    for (int32_t d = 0; d < type.shape.rank; d++)
        carried->shape.dims[carried_axis(&of->states[index], d)] = type.shape.dims[d];
    return OURO_OK;
}

static ouro_status set_initial(ouro_session *session, size_t index, const void *data, size_t bytes,
                               const int64_t *dims, ouro_error *error) {
    rt_initial made = {0};
    if (index >= state_count(session)) return fail_index(session, index, error);
    if (data || bytes) {
        ouro_status status = read_given(session, index, data, bytes, dims, &made.type, error);
        if (status != OURO_OK) return status;
        made.bytes = bytes;
        made.data = turn(session, index, &made.type, data, bytes);
        made.shared = rt_shared_new(&session->memory.source, made.data, bytes);
        if (!made.shared) return rt_binding_fail(session, error, BASE_SYSTEM_ERROR, "out of memory");
    }
    rt_shared_release(session->states.initial[index].shared);
    session->states.initial[index] = made;
    return OURO_OK;
}

ouro_status ouro_session_state_initial(ouro_session *session, size_t index, const void *data, size_t bytes,
                                       const int64_t *dims, ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    const ouro_status status = set_initial(session, index, data, bytes, dims, error);
    rt_session_leave(session);
    return status;
}

ouro_status ouro_session_state_reset(ouro_session *session, ouro_error *error) {
    base_report report = {0};
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    ouro_status status = OURO_OK;
    if (state_count(session) && rt_states_reset(session, &report) != BASE_OK)
        status = fail_with(session, error, &report);
    rt_session_leave(session);
    return status;
}

/* ---- all states at once -------------------------------------------------------------------------------- */

/* What stands before each value that is saved. */
typedef struct saved_state {
    uint64_t present, bytes;
    int64_t dims[OP_MAX_RANK];
} saved_state;

/* Before all of them. The plan's checksum tells it from all others. */
typedef struct saved_header {
    char magic[8];
    uint64_t plan, bytes, states;
} saved_header;

static size_t saved_bytes(const ouro_session *session) {
    size_t bytes = sizeof(saved_header);
    for (size_t i = 0; i < state_count(session); i++)
        bytes += sizeof(saved_state) + rt_states_look(session, i).bytes;
    return bytes;
}

static void save(const ouro_session *session, unsigned char *data) {
    saved_header header = {
        .plan = session->of->header->checksum, .bytes = saved_bytes(session), .states = state_count(session)};
    memcpy(header.magic, "OUROSTAT", sizeof header.magic);
    memcpy(data, &header, sizeof header);
    data += sizeof header;
    for (size_t i = 0; i < state_count(session); i++) {
        const rt_kept *kept = &session->states.kept[i];
        const op_tensor is = rt_states_look(session, i);
        saved_state one = {.present = !kept->dynamic || kept->present, .bytes = is.bytes};
        for (int32_t d = 0; d < is.type.shape.rank; d++) one.dims[d] = is.type.shape.dims[d];
        memcpy(data, &one, sizeof one);
        if (is.bytes) memcpy(data + sizeof one, is.data, is.bytes);
        data += sizeof one + is.bytes;
    }
}

/* The next of them: its type as the plan's with these extents. */
static bool read_one(const ouro_session *session, size_t index, const unsigned char *data, size_t left,
                     saved_state *one, op_type *type) {
    const plan_state *state = &session->of->states[index];
    size_t bytes;
    if (left < sizeof *one) return false;
    memcpy(one, data, sizeof *one);
    plan_tensor_type(session->of, state->parameter, type);
    if (!one->present) return session->states.kept[index].dynamic && !one->bytes;
    for (int32_t d = 0; d < type->shape.rank; d++) {
        if (one->dims[d] < 0 || (type->shape.dims[d] >= 0 && type->shape.dims[d] != one->dims[d]))
            return false;
        type->shape.dims[d] = one->dims[d];
    }
    const int32_t axis = session->states.kept[index].axis;
    if (axis >= 0 && state->bound && type->shape.dims[axis] > (int64_t)state->bound) return false;
    return op_type_bytes(type, &bytes) && bytes == one->bytes && one->bytes <= left - sizeof *one;
}

static bool is_saved(const ouro_session *session, const unsigned char *data, size_t bytes) {
    saved_header header;
    size_t at = sizeof header;
    if (!data || bytes < sizeof header) return false;
    memcpy(&header, data, sizeof header);
    if (memcmp(header.magic, "OUROSTAT", sizeof header.magic) != 0 || header.bytes != bytes ||
        header.plan != session->of->header->checksum || header.states != state_count(session))
        return false;
    for (size_t i = 0; i < state_count(session); i++) {
        saved_state one;
        op_type type;
        if (!read_one(session, i, data + at, bytes - at, &one, &type)) return false;
        at += sizeof one + (size_t)one.bytes;
    }
    return at == bytes;
}

/* All of them go where they lie before the first run: after some runs several of them can be the same bytes. */
static base_status load(ouro_session *session, const unsigned char *data, base_report *report) {
    base_status status = BASE_OK;
    data += sizeof(saved_header);
    rt_states_to_start(session);
    for (size_t i = 0; i < state_count(session) && status == BASE_OK; i++) {
        saved_state one;
        op_type type;
        memcpy(&one, data, sizeof one);
        (void)read_one(session, i, data, SIZE_MAX, &one, &type);
        data += sizeof one;
        if (one.present) status = rt_states_put(session, i, &type, data, report);
        else session->states.kept[i].present = false;
        data += one.bytes;
    }
    return status;
}

size_t ouro_session_state_saved_bytes(const ouro_session *session) {
    return saved_bytes(session);
}

ouro_status ouro_session_state_save(const ouro_session *session, void *data, size_t bytes,
                                    ouro_error *error) {
    const size_t needed = saved_bytes(session);
    if (!data || bytes < needed)
        return rt_binding_fail(session, error, BASE_USAGE, "the states are %zu bytes, they are given %zu",
                               needed, data ? bytes : 0);
    save(session, data);
    return OURO_OK;
}

ouro_status ouro_session_state_load(ouro_session *session, const void *data, size_t bytes,
                                    ouro_error *error) {
    base_report report = {0};
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    ouro_status status = OURO_OK;
    if (!is_saved(session, data, bytes))
        status = rt_binding_fail(session, error, BASE_INVALID,
                                 "these are no states that a session of this plan has saved");
    else if (load(session, data, &report) != BASE_OK) status = fail_with(session, error, &report);
    rt_session_leave(session);
    return status;
}

static ouro_status set(ouro_session *session, size_t index, const void *data, size_t bytes,
                       const int64_t *dims, ouro_error *error) {
    op_type type;
    base_report report = {0};
    if (index >= state_count(session)) return fail_index(session, index, error);
    ouro_status status = read_given(session, index, data, bytes, dims, &type, error);
    if (status != OURO_OK) return status;
    unsigned char *turned = turn(session, index, &type, data, bytes),
                  *all = session->states.t ? rt_take(&session->memory.source, saved_bytes(session)) : NULL;
    if (!turned || (session->states.t && !all)) {
        status = rt_binding_fail(session, error, BASE_SYSTEM_ERROR, "out of memory");
    } else {
        if (all) save(session, all);
        if ((all && load(session, all, &report) != BASE_OK) ||
            rt_states_put(session, index, &type, turned, &report) != BASE_OK)
            status = fail_with(session, error, &report);
    }
    rt_give(&session->memory.source, turned);
    rt_give(&session->memory.source, all);
    return status;
}

ouro_status ouro_session_state_set(ouro_session *session, size_t index, const void *data, size_t bytes,
                                   const int64_t *dims, ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    const ouro_status status = set(session, index, data, bytes, dims, error);
    rt_session_leave(session);
    return status;
}

ouro_status ouro_session_state_get(const ouro_session *session, size_t index, ouro_state_info *info,
                                   const void **data, ouro_error *error) {
    if (index >= state_count(session)) return fail_index(session, index, error);
    const op_tensor is = rt_states_look(session, index);
    op_shape shape;
    rt_state_describe(session->of, index, info);
    model_shape(&session->of->states[index], &is.type, &shape, info->strides);
    for (int32_t d = 0; d < shape.rank; d++) info->dims[d] = shape.dims[d];
    info->bytes = is.bytes;
    *data = is.data;
    return OURO_OK;
}

/* ---- positions ----------------------------------------------------------------------------------------- */

static int64_t length_of(const ouro_session *session, size_t index) {
    const rt_kept *kept = &session->states.kept[index];
    return kept->axis >= 0 && kept->present ? kept->type.shape.dims[kept->axis] : 0;
}

int64_t ouro_session_state_length(const ouro_session *session) {
    int64_t length = 0;
    for (size_t i = 0; i < state_count(session); i++)
        if (length_of(session, i) > length) length = length_of(session, i);
    return length;
}

/* The first positions along an axis. Where that is not the outermost they are moved together. */
static void truncate_kept(rt_kept *kept, int64_t length) {
    const op_shape *shape = &kept->type.shape;
    size_t blocks = 1, position = op_dtype_bytes(kept->type.dtype);
    for (int32_t d = 0; d < kept->axis; d++) blocks *= (size_t)shape->dims[d];
    for (int32_t d = kept->axis + 1; d < shape->rank; d++) position *= (size_t)shape->dims[d];
    const size_t from = (size_t)shape->dims[kept->axis] * position, to = (size_t)length * position;
    char *data = kept->buffer->data;
    for (size_t b = 1; b < blocks && to; b++) memmove(data + b * to, data + b * from, to);
    kept->type.shape.dims[kept->axis] = length;
    kept->bytes = kept->buffer->used = blocks * to;
}

ouro_status ouro_session_state_truncate(ouro_session *session, int64_t length, ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    ouro_status status = OURO_OK;
    const int64_t now = ouro_session_state_length(session);
    if (length < 0 || length > now)
        status = rt_binding_fail(session, error, BASE_USAGE,
                                 "the states have %" PRId64 " positions, not %" PRId64, now, length);
    for (size_t i = 0; i < state_count(session) && status == OURO_OK; i++)
        if (length_of(session, i) > length) truncate_kept(&session->states.kept[i], length);
    rt_session_leave(session);
    return status;
}

/* ---- clones -------------------------------------------------------------------------------------------- */

ouro_status ouro_session_clone(const ouro_session *session, ouro_session **clone, ouro_error *error) {
    const base_allocator *source = &session->memory.source;
    const ouro_allocator memory = {source->allocate, source->release, source->user};
    const ouro_session_options options = {.threads = session->code.environment.threads,
                                          .memory = &memory,
                                          .allocator = session->allocator,
                                          .run_seconds = session->run_seconds,
                                          .spill_path = session->spill.path,
                                          .spill = session->spill.path ? NULL : &session->spill.calls};
    base_report report = {0};
    *clone = NULL;
    if (rt_session_make(session->of, &options, false, clone, &report) != BASE_OK)
        return rt_error_set(error, &report);
    base_status status = state_count(session) ? rt_states_clone(session, *clone, &report) : BASE_OK;
    if (status == BASE_OK) return OURO_OK;
    ouro_session_free(*clone);
    *clone = NULL;
    return rt_error_set(error, &report);
}

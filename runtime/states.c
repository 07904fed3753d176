/* SPDX-License-Identifier: Apache-2.0 */
/* states.c: what a session keeps from run to run. A run is an iteration of the loop around the model (plan.h): after it the
 * multi-views of that loop are counted on, and each state is found where the run has made it.
 *
 * A state whose size only a run knows is a value of the run-time allocator that outlives the run. One that grows has capacity after
 * it, in which the run appends (dynamic.c): where its bound is known, as much as it can ever take, in the memory of the states.
 *
 * Where every tensor has memory of its own (shadow.c), what a run makes of a state is copied to where the next one looks. */
#include "runtime/executor.h"
#include <inttypes.h>
#include <string.h>

/* ---- making -------------------------------------------------------------------------------------------- */

static size_t state_count(const ouro_session *session) {
    return (size_t)session->of->header->states.count;
}

static void describe_kept(const plan *of, uint32_t index, rt_kept *kept) {
    const plan_state *state = &of->states[index];
    kept->dynamic = rt_is_dynamic(of, state->parameter);
    kept->read_only = state->parameter == state->result;
    kept->axis = state->axis == PLAN_ABSENT ? -1 : state->turned ? 0 : (int32_t)state->axis;
    plan_tensor_type(of, state->parameter, &kept->type);
}

/* Extents of states and of inputs that one symbol says are equal: made with the session. */
static bool find_ties(ouro_session *session) {
    const plan *of = session->of;
    rt_states *states = &session->states;
    size_t capacity = 0;
    for (uint32_t i = 0; i < state_count(session); i++) {
        op_type declared;
        plan_tensor_type(of, of->states[i].parameter, &declared);
        for (int32_t d = 0; states->kept[i].dynamic && d < declared.shape.rank; d++) {
            const int64_t symbol = declared.shape.dims[d];
            if (symbol >= 0 || symbol == OP_DIM_UNKNOWN || d == states->kept[i].axis) continue;
            for (uint32_t k = 0; k < of->header->inputs.count; k++) {
                op_type input;
                plan_tensor_type(of, of->inputs[k].tensor, &input);
                for (int32_t e = 0; input.kind == OP_KIND_TENSOR && e < input.shape.rank; e++) {
                    if (input.shape.dims[e] != symbol) continue;
                    rt_tie *ties = base_arena_grow(&session->code.tables, states->ties, &capacity,
                                                   states->tie_count + 1, sizeof *ties);
                    if (!ties) return false;
                    states->ties = ties;
                    ties[states->tie_count++] = (rt_tie){i, k, d, e};
                }
            }
        }
    }
    return true;
}

base_status rt_states_make(ouro_session *session, base_report *report) {
    const plan *of = session->of;
    rt_states *states = &session->states;
    const size_t bytes = (size_t)of->header->state_bytes, count = state_count(session);
    if (!count) return BASE_OK;
    states->memory = states->own = rt_take(&session->memory.source, bytes);
    if (!states->memory)
        return base_fail(report, BASE_SYSTEM_ERROR, "out of memory: the states need %zu bytes", bytes);
    memset(states->memory, 0, bytes);
    states->kept = BASE_ARRAY(&session->code.tables, rt_kept, count);
    states->initial = BASE_ARRAY(&session->code.tables, rt_initial, count);
    if (!states->kept || !states->initial || !rt_multiviews_make(session, plan_run_loop(of), &states->loop))
        return base_fail_memory(report);
    for (uint32_t i = 0; i < count; i++) describe_kept(of, i, &states->kept[i]);
    return find_ties(session) ? BASE_OK : base_fail_memory(report);
}

bool rt_states_grows(const ouro_session *session, uint32_t parameter, uint32_t result) {
    const plan *of = session->of;
    for (size_t i = 0; i < state_count(session); i++)
        if (of->states[i].parameter == parameter && of->states[i].result == result)
            return session->states.kept[i].axis >= 0;
    return false;
}

static op_tensor *state_tensor(const ouro_session *session, size_t index) {
    return &session->run.tensors[session->of->states[index].parameter];
}

/* The loop is about to do its iteration t. */
static void count(ouro_session *session, int64_t t) {
    session->states.t = t;
    rt_multiviews_count(session, &session->states.loop, t);
}

/* ---- values of sizes that only runs know --------------------------------------------------------------- */

rt_shared *rt_shared_new(const base_allocator *source, void *data, size_t bytes) {
    rt_shared *shared = data ? rt_take(source, sizeof *shared) : NULL;
    if (!shared) {
        rt_give(source, data);
        return NULL;
    }
    *shared = (rt_shared){.source = *source, .bytes = bytes, .data = data};
    atomic_init(&shared->references, 1);
    return shared;
}

static rt_shared *retain_shared(rt_shared *shared) {
    if (shared) atomic_fetch_add_explicit(&shared->references, 1, memory_order_relaxed);
    return shared;
}

void rt_shared_release(rt_shared *shared) {
    if (!shared || atomic_fetch_sub_explicit(&shared->references, 1, memory_order_acq_rel) > 1) return;
    const base_allocator source = shared->source;
    rt_give(&source, shared->data);
    rt_give(&source, shared);
}

/* The state is these bytes, whose reference is its own from now on. */
static void hold_shared(rt_kept *kept, rt_shared *shared, const op_type *type) {
    rt_shared_release(kept->shared);
    kept->shared = shared;
    kept->own = (rt_buffer){.references = 1,
                            .planned = true,
                            .capacity = shared->bytes,
                            .used = shared->bytes,
                            .data = shared->data};
    kept->buffer = &kept->own;
    kept->type = *type;
    kept->bytes = shared->bytes;
    kept->present = true;
}

/* A value of its own for a state that no run changes: clones may have the one that it was. */
static base_status put_read_only(ouro_session *session, rt_kept *kept, const op_type *type, const void *data,
                                 size_t bytes, base_report *report) {
    void *copy = rt_take(&session->memory.source, bytes);
    if (copy && bytes && data) memcpy(copy, data, bytes);
    else if (copy && bytes) memset(copy, 0, bytes);
    rt_shared *shared = rt_shared_new(&session->memory.source, copy, bytes);
    if (!shared) return base_fail_memory(report);
    hold_shared(kept, shared, type);
    return BASE_OK;
}

static void release_kept(ouro_session *session, rt_kept *kept) {
    rt_buffer_release(&session->memory.pool, kept->buffer);
    kept->buffer = NULL;
}

/* Memory for all that the state can become; where no bound is known, for what it is. NULL when memory runs out. */
static rt_buffer *take_capacity(ouro_session *session, size_t index, const op_type *type, size_t bytes) {
    const plan_state *state = &session->of->states[index];
    rt_kept *kept = &session->states.kept[index];
    op_type most = *type;
    size_t capacity;
    if (kept->axis < 0 || !state->bound || session->code.unshared)
        return rt_pool_take(&session->memory.pool, bytes);
    most.shape.dims[kept->axis] = (int64_t)state->bound;
    if (!op_type_bytes(&most, &capacity)) return NULL;
    if (state->bytes >= capacity && capacity) {
        kept->own.data = session->states.memory + state->offset;
    } else if (!kept->taken || kept->own.capacity != capacity) {
        void *taken = rt_take(&session->memory.source, capacity);
        if (!taken) return NULL;
        rt_give(&session->memory.source, kept->taken);
        kept->own.data = kept->taken = taken;
    }
    kept->own = (rt_buffer){
        .references = 1, .planned = true, .bounded = true, .capacity = capacity, .data = kept->own.data};
    return &kept->own;
}

/* The state becomes a value of this type: `data`, as it is carried; NULL: zeros. It may be in the state's own memory. */
static base_status put_kept(ouro_session *session, size_t index, const op_type *type, const void *data,
                            base_report *report) {
    rt_kept *kept = &session->states.kept[index];
    const plan_state *state = &session->of->states[index];
    size_t bytes;
    if (!op_type_bytes(type, &bytes)) return base_fail(report, BASE_INVALID, "a state is too large");
    if (kept->axis >= 0 && state->bound && type->shape.dims[kept->axis] > (int64_t)state->bound)
        return base_fail(report, BASE_INVALID,
                         "state '%s' has %" PRId64 " positions, the plan was made for at most %" PRIu64
                         " (--max)",
                         session->of->texts + state->input, type->shape.dims[kept->axis], state->bound);
    if (kept->read_only && !session->code.unshared)
        return put_read_only(session, kept, type, data, bytes, report);
    rt_buffer *buffer = take_capacity(session, index, type, bytes);
    if (!buffer) return base_fail_memory(report);
    if (bytes && data) memmove(buffer->data, data, bytes);
    else if (bytes) memset(buffer->data, 0, bytes);
    if (buffer != kept->buffer) release_kept(session, kept);
    kept->buffer = buffer;
    kept->type = *type;
    kept->bytes = buffer->used = bytes;
    kept->present = true;
    return BASE_OK;
}

/* The extents that a state has before its first run: those of the inputs' symbols, and nothing along the axis along which it grows. */
static base_status find_extents(const ouro_session *session, size_t index, op_type *type,
                                base_report *report) {
    const plan *of = session->of;
    const rt_kept *kept = &session->states.kept[index];
    plan_tensor_type(of, of->states[index].parameter, type);
    for (int32_t d = 0; d < type->shape.rank; d++) {
        int64_t *dim = &type->shape.dims[d];
        if (*dim >= 0 && d != kept->axis) continue;
        if (*dim == OP_DIM_UNKNOWN && d != kept->axis)
            return base_fail(
                report, BASE_USAGE,
                "state '%s' has a dimension that nobody knows: it must be given before the first run",
                of->texts + of->states[index].input);
        *dim = d == kept->axis ? 0 : rt_symbol_extent(session, *dim);
    }
    return BASE_OK;
}

/* Where the inputs of this run have the same symbols, they have the same extents. */
static base_status check_extents(const ouro_session *session, base_report *report) {
    const plan *of = session->of;
    for (size_t i = 0; i < session->states.tie_count; i++) {
        const rt_tie *tie = &session->states.ties[i];
        const rt_kept *kept = &session->states.kept[tie->state];
        const plan_interface *input = &of->inputs[tie->input];
        const int64_t given = session->run.tensors[input->tensor].type.shape.dims[tie->input_axis];
        if (!kept->present || given == kept->type.shape.dims[tie->axis]) continue;
        op_type declared;
        plan_tensor_type(of, of->states[tie->state].parameter, &declared);
        return base_fail(report, BASE_INVALID,
                         "dimension '%s' is %" PRId64 " in input '%s', and %" PRId64
                         " in state '%s': reset the states before it changes",
                         of->texts + of->symbols[-declared.shape.dims[tie->axis]], given,
                         of->texts + input->name, kept->type.shape.dims[tie->axis],
                         of->texts + of->states[tie->state].input);
    }
    return BASE_OK;
}

base_status rt_states_before_run(ouro_session *session, base_report *report) {
    base_status status = check_extents(session, report);
    if (status != BASE_OK) return status;
    for (size_t i = 0; i < state_count(session); i++) {
        rt_kept *kept = &session->states.kept[i];
        const uint32_t id = session->of->states[i].parameter;
        if (!kept->dynamic) continue;
        if (!kept->present) {
            op_type type;
            status = find_extents(session, i, &type, report);
            if (status == BASE_OK) status = put_kept(session, i, &type, NULL, report);
        }
        if (status != BASE_OK) return status;
        kept->buffer->used = kept->bytes; /* what a run that failed has appended is gone */
        rt_value_set(session, id, &kept->type, kept->buffer->data, kept->bytes, kept->buffer);
    }
    return BASE_OK;
}

base_status rt_states_prepare(ouro_session *session, bool take, base_report *report) {
    base_status status = check_extents(session, report);
    for (size_t i = 0; i < state_count(session) && status == BASE_OK; i++) {
        rt_kept *kept = &session->states.kept[i];
        if (!kept->dynamic || kept->present) continue;
        op_type type;
        status = find_extents(session, i, &type, report);
        if (status == BASE_OK && take) status = put_kept(session, i, &type, NULL, report);
        if (status == BASE_OK) kept->type = type;
        kept->present = false;
    }
    return status;
}

/* ---- after a run --------------------------------------------------------------------------------------- */

/* In memory of their own one state may be handed to another: all are read before any is written. */
static void hand_on_unshared(ouro_session *session) {
    const plan *of = session->of;
    unsigned char *between = session->states.memory; /* nobody else uses it there; parameters fit */
    for (int pass = 0; pass < 2; pass++) {
        size_t used = 0;
        for (size_t i = 0; i < state_count(session); i++) {
            const op_tensor *state = state_tensor(session, i);
            const op_tensor *made = &session->run.tensors[of->states[i].result];
            if (session->states.kept[i].dynamic) continue;
            if (pass == 0) memcpy(between + used, made->data, state->bytes);
            else memcpy(state->data, between + used, state->bytes);
            used += state->bytes;
        }
    }
}

/* The value can be the state's: of the type that the model says of its input. */
static base_status check_result(const ouro_session *session, size_t index, base_report *report) {
    const plan *of = session->of;
    const rt_kept *kept = &session->states.kept[index];
    const op_type *made = &session->run.tensors[of->states[index].result].type;
    const uint64_t bound = of->states[index].bound;
    op_type declared;
    char texts[2][256];
    plan_tensor_type(of, of->states[index].parameter, &declared);
    bool fits = made->kind == OP_KIND_TENSOR && made->shape.rank == declared.shape.rank;
    for (int32_t d = 0; fits && d < declared.shape.rank; d++)
        fits = declared.shape.dims[d] < 0 || declared.shape.dims[d] == made->shape.dims[d];
    if (!fits)
        return base_fail(
            report, BASE_INVALID, "output '%s' is %s: it cannot be carried into input '%s', which is %s",
            of->texts + of->states[index].output, plan_type_print(of, made, texts[0], sizeof texts[0]),
            of->texts + of->states[index].input, plan_type_print(of, &declared, texts[1], sizeof texts[1]));
    if (kept->axis < 0 || !bound || made->shape.dims[kept->axis] <= (int64_t)bound) return BASE_OK;
    return base_fail(report, BASE_INVALID,
                     "state '%s' would have %" PRId64 " positions, the plan was made for at most %" PRIu64
                     " (--max)",
                     of->texts + of->states[index].input, made->shape.dims[kept->axis], bound);
}

/* The result's buffer can go on as the state's. */
static bool can_hold(const rt_kept *kept, const rt_buffer *buffer, const op_tensor *made) {
    return buffer && (buffer == &kept->own || !buffer->planned) && made->data == buffer->data &&
           (!kept->own.data || buffer == &kept->own);
}

base_status rt_states_check(const ouro_session *session, base_report *report) {
    base_status status = BASE_OK;
    for (size_t i = 0; i < state_count(session) && status == BASE_OK; i++)
        if (session->states.kept[i].dynamic) status = check_result(session, i, report);
    return status;
}

base_status rt_states_advance(ouro_session *session, base_report *report) {
    const plan *of = session->of;
    if (!state_count(session)) return BASE_OK;
    const base_status fits = session->run.committed ? BASE_OK : rt_states_check(session, report);
    if (fits != BASE_OK) return fits;
    if (session->code.unshared) hand_on_unshared(session);
    for (size_t i = 0; i < state_count(session); i++) {
        rt_kept *kept = &session->states.kept[i];
        const uint32_t id = of->states[i].result;
        const op_tensor *made = &session->run.tensors[id];
        rt_buffer *buffer = session->run.buffers[id];
        if (!kept->dynamic || id == of->states[i].parameter) continue;
        if (can_hold(kept, buffer, made)) {
            rt_buffer_retain(buffer);
            release_kept(session, kept);
            kept->buffer = buffer;
            kept->type = made->type;
            kept->bytes = made->bytes;
        } else {
            const op_type type = made->type;
            base_status status = put_kept(session, i, &type, made->data, report);
            if (status != BASE_OK) return status;
        }
    }
    count(session, session->states.t + 1);
    return BASE_OK;
}

void rt_states_copy(const ouro_session *from, ouro_session *to) {
    for (size_t i = 0; i < state_count(from); i++) {
        const rt_kept *kept = &from->states.kept[i];
        if (!kept->dynamic)
            memcpy(state_tensor(to, i)->data, state_tensor(from, i)->data, state_tensor(from, i)->bytes);
        else if (kept->present)
            (void)put_kept(to, i, &kept->type, kept->bytes ? kept->buffer->data : NULL, NULL);
    }
}

base_status rt_states_clone(const ouro_session *from, ouro_session *clone, base_report *report) {
    base_status status = BASE_OK;
    for (size_t i = 0; i < state_count(from) && status == BASE_OK; i++) {
        const rt_kept *kept = &from->states.kept[i];
        rt_initial *initial = &clone->states.initial[i];
        *initial = from->states.initial[i];
        (void)retain_shared(initial->shared);
        if (kept->shared && kept->present) {
            hold_shared(&clone->states.kept[i], retain_shared(kept->shared), &kept->type);
        } else if (kept->dynamic) {
            if (kept->present)
                status = put_kept(clone, i, &kept->type, kept->bytes ? kept->buffer->data : NULL, report);
        } else { /* the clone is before its first run, where no two states share bytes */
            memcpy(state_tensor(clone, i)->data, state_tensor(from, i)->data, state_tensor(from, i)->bytes);
        }
    }
    return status;
}

/* ---- resets, and the end --------------------------------------------------------------------------------- */

/* Before the first run no two states share bytes. */
base_status rt_states_reset(ouro_session *session, base_report *report) {
    base_status status = BASE_OK;
    count(session, 0);
    for (size_t i = 0; i < state_count(session) && status == BASE_OK; i++) {
        const op_tensor *state = state_tensor(session, i);
        const rt_initial *initial = &session->states.initial[i];
        rt_kept *kept = &session->states.kept[i];
        if (kept->dynamic) {
            kept->present = false;
            if (initial->data || initial->bytes)
                status = put_kept(session, i, &initial->type, initial->data, report);
        } else if (initial->data) {
            memcpy(state->data, initial->data, state->bytes);
        } else {
            memset(state->data, 0, state->bytes);
        }
    }
    return status;
}

void rt_states_begin(ouro_session *session) {
    if (!state_count(session)) return;
    rt_multiviews_enter(session, &session->states.loop);
    (void)rt_states_reset(session, NULL); /* nothing is given that could fail */
}

size_t rt_states_bytes(const ouro_session *session) {
    size_t bytes = session->states.own ? (size_t)session->of->header->state_bytes : 0;
    for (size_t i = 0; session->states.kept && i < state_count(session); i++)
        if (session->states.kept[i].taken || session->states.kept[i].shared)
            bytes += session->states.kept[i].own.capacity;
    for (size_t i = 0; session->states.initial && i < state_count(session); i++)
        if (session->states.initial[i].data) bytes += session->states.initial[i].bytes;
    return bytes;
}

void rt_states_free(ouro_session *session) {
    for (size_t i = 0; session->states.kept && i < state_count(session); i++) {
        release_kept(session, &session->states.kept[i]);
        rt_shared_release(session->states.kept[i].shared);
        rt_give(&session->memory.source, session->states.kept[i].taken);
    }
    for (size_t i = 0; session->states.initial && i < state_count(session); i++)
        rt_shared_release(session->states.initial[i].shared);
    rt_give(&session->memory.source, session->states.own);
}

void rt_states_to_start(ouro_session *session) {
    count(session, 0);
}

base_status rt_states_put(ouro_session *session, size_t index, const op_type *type, const void *data,
                          base_report *report) {
    if (session->states.kept[index].dynamic) return put_kept(session, index, type, data, report);
    memmove(state_tensor(session, index)->data, data, state_tensor(session, index)->bytes);
    return BASE_OK;
}

op_tensor rt_states_look(const ouro_session *session, size_t index) {
    const rt_kept *kept = &session->states.kept[index];
    if (!kept->dynamic) return *state_tensor(session, index);
    op_tensor none = {.type = kept->type};
    /* Not as it was before a reset. */
    if (!kept->present) plan_tensor_type(session->of, session->of->states[index].parameter, &none.type);
    for (int32_t d = 0; d < none.type.shape.rank && !kept->present; d++)
        if (none.type.shape.dims[d] < 0) none.type.shape.dims[d] = 0;
    if (kept->present) {
        none.bytes = kept->bytes;
        none.data = kept->bytes ? kept->buffer->data : NULL;
    }
    return none;
}

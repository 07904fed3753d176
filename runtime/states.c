/* SPDX-License-Identifier: Apache-2.0 */
/* states.c: what a session keeps from run to run. A run is an iteration of the loop around the model (plan.h): after it the
 * multi-views of that loop are counted on, and each state is found where the run has made it.
 *
 * Where every tensor has memory of its own (shadow.c), what a run makes of a state is copied to where the next one looks. */
#include "runtime/executor.h"
#include <stdlib.h>
#include <string.h>

/* ---- making -------------------------------------------------------------------------------------------- */

static size_t state_count(const ouro_session *session) {
    return (size_t)session->of->header->states.count;
}

base_status rt_states_make(ouro_session *session, base_report *report) {
    const plan *of = session->of;
    rt_states *states = &session->states;
    const size_t bytes = (size_t)of->header->state_bytes;
    if (!state_count(session)) return BASE_OK;
    states->memory = states->own = rt_allocate_aligned(bytes);
    if (!states->memory)
        return base_fail(report, BASE_SYSTEM_ERROR, "out of memory: the states need %zu bytes", bytes);
    memset(states->memory, 0, bytes);
    states->initial = BASE_ARRAY(&session->code.tables, unsigned char *, state_count(session));
    if (!states->initial || !rt_multiviews_make(session, plan_run_loop(of), &states->loop))
        return base_fail_memory(report);
    return BASE_OK;
}

static op_tensor *state_tensor(const ouro_session *session, size_t index) {
    return &session->run.tensors[session->of->states[index].parameter];
}

/* The loop is about to do its iteration t. */
static void count(ouro_session *session, int64_t t) {
    session->states.t = t;
    rt_multiviews_count(session, &session->states.loop, t);
}

/* Before the first run no two states share bytes. */
static void reset(ouro_session *session) {
    count(session, 0);
    for (size_t i = 0; i < state_count(session); i++) {
        const op_tensor *state = state_tensor(session, i);
        if (session->states.initial[i]) memcpy(state->data, session->states.initial[i], state->bytes);
        else memset(state->data, 0, state->bytes);
    }
}

void rt_states_begin(ouro_session *session) {
    if (!state_count(session)) return;
    rt_multiviews_enter(session, &session->states.loop);
    reset(session);
}

/* In memory of their own one state may be handed to another: all are read before any is written. */
static void hand_on_unshared(ouro_session *session) {
    const plan *of = session->of;
    unsigned char *between = session->states.memory; /* nobody else uses it there; parameters fit */
    size_t used = 0;
    for (int pass = 0; pass < 2; pass++) {
        used = 0;
        for (size_t i = 0; i < state_count(session); i++) {
            const op_tensor *state = state_tensor(session, i);
            const op_tensor *made = &session->run.tensors[of->states[i].result];
            if (pass == 0) memcpy(between + used, made->data, state->bytes);
            else memcpy(state->data, between + used, state->bytes);
            used += state->bytes;
        }
    }
}

void rt_states_advance(ouro_session *session) {
    if (!state_count(session)) return;
    if (session->code.unshared) hand_on_unshared(session);
    count(session, session->states.t + 1);
}

void rt_states_copy(const ouro_session *from, ouro_session *to) {
    for (size_t i = 0; i < state_count(from); i++)
        memcpy(state_tensor(to, i)->data, state_tensor(from, i)->data, state_tensor(from, i)->bytes);
}

void rt_states_free(ouro_session *session) {
    for (size_t i = 0; session->states.initial && i < state_count(session); i++)
        free(session->states.initial[i]);
    free(session->states.own);
}

/* ---- what the caller sees ------------------------------------------------------------------------------ */

static ouro_status fail_index(const ouro_session *session, size_t index, ouro_error *error) {
    return rt_binding_fail(session, error, BASE_USAGE, "there is no state %zu: the plan has %zu", index,
                           state_count(session));
}

static ouro_status check_bytes(const ouro_session *session, size_t index, const void *data, size_t bytes,
                               ouro_error *error) {
    if (index >= state_count(session)) return fail_index(session, index, error);
    const size_t needed = state_tensor(session, index)->bytes;
    if (data && bytes == needed) return OURO_OK;
    return rt_binding_fail(session, error, BASE_USAGE, "state '%s' is given %zu bytes, expected %zu",
                           session->of->texts + session->of->states[index].input, data ? bytes : 0, needed);
}

ouro_status ouro_session_state_get(const ouro_session *session, size_t index, ouro_state_info *info,
                                   const void **data, ouro_error *error) {
    if (index >= state_count(session)) return fail_index(session, index, error);
    rt_state_describe(session->of, index, info);
    *data = state_tensor(session, index)->data;
    return OURO_OK;
}

ouro_status ouro_session_state_reset(ouro_session *session, ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    if (state_count(session)) reset(session);
    rt_session_leave(session);
    return OURO_OK;
}

static ouro_status set_initial(ouro_session *session, size_t index, const void *data, size_t bytes,
                               ouro_error *error) {
    if (index >= state_count(session)) return fail_index(session, index, error);
    unsigned char *copy = NULL;
    if (data) {
        ouro_status status = check_bytes(session, index, data, bytes, error);
        if (status != OURO_OK) return status;
        copy = malloc(bytes);
        if (!copy) return rt_binding_fail(session, error, BASE_SYSTEM_ERROR, "out of memory");
        memcpy(copy, data, bytes);
    }
    free(session->states.initial[index]);
    session->states.initial[index] = copy;
    return OURO_OK;
}

ouro_status ouro_session_state_initial(ouro_session *session, size_t index, const void *data, size_t bytes,
                                       ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    const ouro_status status = set_initial(session, index, data, bytes, error);
    rt_session_leave(session);
    return status;
}

/* ---- all states at once -------------------------------------------------------------------------------- */

/* After some runs several states can be the same bytes. So they are put where they lie before the first run, where each has
 * bytes of its own. */
static void put_all(ouro_session *session, const unsigned char *data) {
    count(session, 0);
    for (size_t i = 0; i < state_count(session); i++) {
        const op_tensor *state = state_tensor(session, i);
        memcpy(state->data, data, state->bytes);
        data += state->bytes;
    }
}

static void take_all(const ouro_session *session, unsigned char *data) {
    for (size_t i = 0; i < state_count(session); i++) {
        const op_tensor *state = state_tensor(session, i);
        memcpy(data, state->data, state->bytes);
        data += state->bytes;
    }
}

static size_t all_bytes(const ouro_session *session) {
    size_t bytes = 0;
    for (size_t i = 0; i < state_count(session); i++) bytes += state_tensor(session, i)->bytes;
    return bytes;
}

static ouro_status set(ouro_session *session, size_t index, const void *data, size_t bytes,
                       ouro_error *error) {
    ouro_status status = check_bytes(session, index, data, bytes, error);
    if (status != OURO_OK) return status;
    if (session->states.t) {
        unsigned char *all = malloc(all_bytes(session));
        if (!all) return rt_binding_fail(session, error, BASE_SYSTEM_ERROR, "out of memory");
        take_all(session, all);
        put_all(session, all);
        free(all);
    }
    memmove(state_tensor(session, index)->data, data, bytes);
    return OURO_OK;
}

ouro_status ouro_session_state_set(ouro_session *session, size_t index, const void *data, size_t bytes,
                                   ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    const ouro_status status = set(session, index, data, bytes, error);
    rt_session_leave(session);
    return status;
}

/* ---- saving -------------------------------------------------------------------------------------------- */

/* Before the values of the states, one after another. The plan's checksum tells it from all others. */
typedef struct saved_header {
    char magic[8];
    uint64_t plan, bytes, states;
} saved_header;

static saved_header header_of(const ouro_session *session) {
    saved_header header = {.plan = session->of->header->checksum,
                           .bytes = sizeof header + all_bytes(session),
                           .states = state_count(session)};
    memcpy(header.magic, "OUROSTAT", sizeof header.magic);
    return header;
}

size_t ouro_session_state_saved_bytes(const ouro_session *session) {
    return sizeof(saved_header) + all_bytes(session);
}

ouro_status ouro_session_state_save(const ouro_session *session, void *data, size_t bytes,
                                    ouro_error *error) {
    const saved_header header = header_of(session);
    if (!data || bytes < header.bytes)
        return rt_binding_fail(session, error, BASE_USAGE, "the states are %zu bytes, they are given %zu",
                               (size_t)header.bytes, data ? bytes : 0);
    memcpy(data, &header, sizeof header);
    take_all(session, (unsigned char *)data + sizeof header);
    return OURO_OK;
}

ouro_status ouro_session_state_load(ouro_session *session, const void *data, size_t bytes,
                                    ouro_error *error) {
    if (!rt_session_enter(session, error)) return OURO_USAGE;
    ouro_status status = OURO_OK;
    const saved_header expected = header_of(session);
    if (!data || bytes != expected.bytes || memcmp(data, &expected, sizeof expected) != 0)
        status = rt_binding_fail(session, error, BASE_INVALID,
                                 "these are no states that a session of this plan has saved");
    else put_all(session, (const unsigned char *)data + sizeof expected);
    rt_session_leave(session);
    return status;
}

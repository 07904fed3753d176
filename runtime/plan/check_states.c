/* SPDX-License-Identifier: Apache-2.0 */
/* check_states.c: runs in the verifier: iterations of the loop around the model, whose carried values are the states; see
 * runtime/plan/check.c and docs/LOOPS.md.
 *
 * In each run the caller's buffers are others, and so is what the arena holds: sessions of other plans may have used it. Only
 * the states are handed on, and nothing moves them: in the next run the parameter must lie where its replacement was made.
 * After two least common multiples of all periods every address has been seen with what it can hold.
 */
#include "runtime/plan/replay.h"
#include <inttypes.h>

/* The run begins: inputs are there, all else in arena, outputs and spill file is gone. */
static bool begin_run(replay *r) {
    const plan *of = r->of;
    r->epochs[0] = ++r->epoch;
    for (uint64_t i = 0; i < of->header->inputs.count; i++) {
        uint32_t id = of->inputs[i].tensor;
        replay_define(r, id, replay_content_of(input_identity(i), 0, of->tensors[id].bytes));
    }
    if (!of->header->states.count) return true;
    return replay_write_span(r, plan_bytes_bound(&r->bytes, 0), plan_bytes_bound(&r->bytes, r->states),
                             (plan_bytes_tag){0});
}

/* The capacity of a state that grows, in the map. */
static span capacity_of(const replay *r, const plan_state *state) {
    const plan_address at = {MEMORY_STATE, 0, state->offset};
    const uint64_t address = replay_map_address(r, &at);
    return (span){address, plan_bytes_bound(&r->bytes, address),
                  plan_bytes_bound(&r->bytes, address + state->bytes)};
}

/* Nothing but the state itself is written where it grows: the executor appends there. */
static bool check_capacities(replay *r, const uint64_t *identities) {
    const plan *of = r->of;
    for (uint64_t i = 0; i < of->header->states.count; i++) {
        if (!of->states[i].bytes) continue;
        const span at = capacity_of(r, &of->states[i]);
        plan_bytes_tag found = {0};
        if (plan_bytes_differ(&r->bytes, at.first, at.last, (plan_bytes_tag){identities[i], at.address},
                              &found) < at.last)
            return replay_fail(r, "the capacity of state \"%s\" is written over",
                               replay_name_of(r, of->states[i].parameter));
    }
    return true;
}

/* The session puts something into each state: they do not overlap. */
static bool reset_states(replay *r, uint64_t *identities) {
    const plan *of = r->of;
    for (uint64_t i = 0; i < of->header->states.count; i++) {
        const plan_state *state = &of->states[i];
        if (!replay_write(r, state->parameter)) return false;
        if (!state->bytes) continue;
        const span at = capacity_of(r, state);
        if (!replay_new_identity(r, state->parameter, &identities[i]) ||
            !replay_write_span(r, at.first, at.last, (plan_bytes_tag){identities[i], at.address}))
            return false;
    }
    for (uint64_t i = 0; i < of->header->states.count; i++)
        if (!replay_verify(r, of->states[i].parameter)) return false;
    return check_capacities(r, identities);
}

/* Run t is over: what the results are the parameters are in the next one. */
static bool hand_on(replay *r, content *held, uint64_t t) {
    const plan *of = r->of;
    const uint64_t count = of->header->states.count;
    plan_address *places = BASE_ARRAY(&r->arena, plan_address, (size_t)count);
    if (!places) return replay_fail_memory(r);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t result = of->states[i].result;
        if (!replay_verify(r, result) || !replay_content_of_tensor(r, result, &held[i])) return false;
        if (r->phases[result].count)
            return replay_fail(r, "state \"%s\" has no certain place after a run", replay_name_of(r, result));
        places[i] = replay_source(r, result);
    }
    if (!replay_set_counter(r, &of->nodes[plan_run_loop(of)], t + 1)) return false;
    for (uint64_t i = 0; i < count; i++) {
        const plan_address at = replay_source(r, of->states[i].parameter);
        if (!replay_is_same_address(&places[i], &at))
            return replay_fail(r, "state \"%s\" does not lie where it was made in run %" PRIu64,
                               replay_name_of(r, of->states[i].parameter), t);
    }
    return true;
}

bool replay_runs(replay *r) {
    const plan *of = r->of;
    const uint64_t states = of->header->states.count, horizon = r->periods[plan_run_loop(of)].horizon,
                   runs = states ? horizon + 1 : 1;
    content *held = BASE_ARRAY(&r->arena, content, (size_t)states);
    uint64_t *identities = BASE_ARRAY(&r->arena, uint64_t, (size_t)states);
    r->failures = states ? plan_find_failures(of, &r->arena) : NULL;
    if (!held || !identities || (states && !r->failures)) return replay_fail_memory(r);
    if (states && !horizon)
        return replay_fail(r, "the addresses of its states come round together only after more than %d runs",
                           MOST_ITERATIONS);
    r->running[plan_run_loop(of)] = states != 0;
    for (uint64_t t = 0; t < runs; t++) {
        if (!begin_run(r)) return false;
        if (t == 0 && !reset_states(r, identities)) return false;
        for (uint64_t i = 0; t && i < states; i++) replay_define(r, of->states[i].parameter, held[i]);
        if (!r->graph(r, 0) || !check_capacities(r, identities) || (states && !hand_on(r, held, t)))
            return false;
    }
    return true;
}

bool replay_check_commit(replay *r, uint32_t node) {
    const plan *of = r->of;
    if (!of->header->states.count || of->nodes[node].graph || !r->failures[node]) return true;
    for (uint64_t i = 0; i < of->header->states.count; i++) {
        const uint32_t id = of->states[i].parameter;
        if (!replay_verify(r, id))
            return replay_fail(r, "a run can fail here, but state \"%s\" is written over before",
                               replay_name_of(r, id));
    }
    return true;
}

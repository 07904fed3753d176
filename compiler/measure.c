/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c: how long plans take on this machine, beside each other; and the least arena within a time that is measured.
 *
 * Two plans take turns, and the least time of each counts: what else the machine does makes single runs longer, never shorter.
 * Times go into the record of times (--times), by the bytes of both plans: with the same record the same plan is found, without a
 * run.
 */
#include "compiler/compiler.h"
#include "passes/memory/tuning.h"
#include "runtime/kernels/base/kernel.h"
#include "runtime/session.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct compile_runner {
    ouro_plan *plan;
    ouro_session *session;
    base_arena arena; /* of the inputs */
    uint64_t hash;    /* of the plan's bytes */
    int threads;
};

/* Of one thread its own time, which does not count what others do on the machine. */
static double now(int threads) {
    struct timespec time;
    clock_gettime(threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Small numbers, whatever the type: no arithmetic on them is slow, and as indices they are within bounds. */
static bool bind_inputs(compile_runner *runner, ouro_error *error) {
    for (size_t i = 0; i < ouro_plan_input_count(runner->plan); i++) {
        ouro_tensor_info info;
        if (ouro_plan_input(runner->plan, i, &info) != OURO_OK || info.kind != OURO_TENSOR || !info.bytes ||
            info.dtype == OURO_STRING) {
            *error = (ouro_error){.status = OURO_INVALID};
            snprintf(error->message, sizeof error->message,
                     "input '%s' has no size that is known: a plan is measured with static shapes only "
                     "(--dim, --shape)",
                     info.name);
            return false;
        }
        void *data = rt_arena_aligned(&runner->arena, info.bytes);
        if (!data) {
            *error = (ouro_error){.status = OURO_MACHINE, .message = "memory ran out"};
            return false;
        }
        memset(data, 0, info.bytes);
        for (size_t k = 0; info.dtype == OURO_FLOAT && k < info.bytes / sizeof(float); k++)
            ((float *)data)[k] = (float)(k % 13) / 13;
        if (ouro_session_bind_input(runner->session, i, data, info.bytes, NULL, error) != OURO_OK)
            return false;
    }
    return true;
}

void compile_runner_free(compile_runner *runner) {
    if (!runner) return;
    ouro_session_free(runner->session);
    ouro_plan_free(runner->plan);
    base_arena_free(&runner->arena);
    free(runner);
}

base_status compile_runner_new(compile_result *result, compile_runner **made, base_report *report) {
    ouro_error error = {0};
    compile_runner *runner = *made = calloc(1, sizeof *runner);
    if (!runner) return base_fail_memory(report);
    base_arena_init(&runner->arena, NULL);
    runner->threads = (int)result->plan.header->threads;
    runner->hash = base_hash(result->plan.base, result->plan.bytes, 0);
    runner->plan = rt_plan_new(&result->plan);
    result->plan = (plan){0};
    base_status status = runner->plan ? BASE_OK : base_fail_memory(report);
    if (status == BASE_OK && (ouro_session_new(runner->plan, NULL, &runner->session, &error) != OURO_OK ||
                              !bind_inputs(runner, &error)))
        status = base_fail(report, (base_status)error.status, "%s", error.message);
    if (status == BASE_OK) return BASE_OK;
    compile_runner_free(runner);
    *made = NULL;
    return status;
}

/* The least of some runs, and of those before. */
static base_status run_some(compile_runner *runner, double seconds, double *least, base_report *report) {
    ouro_error error;
    double sum = 0;
    do {
        const double start = now(runner->threads);
        if (ouro_session_run(runner->session, &error) != OURO_OK &&
            (ouro_session_state_length(runner->session) == 0 ||
             ouro_session_state_reset(runner->session, &error) != OURO_OK))
            return base_fail(report, (base_status)error.status, "%s", error.message);
        const double took = now(runner->threads) - start;
        sum += took;
        if (took < *least) *least = took;
    } while (sum < seconds);
    return BASE_OK;
}

static base_status run_in_turns(compile_runner *a, compile_runner *b, double *of_a, double *of_b,
                                base_report *report) {
    enum { ROUNDS = 9 };
    static const double SECONDS = 0.02; /* of each in a round */
    base_status status = BASE_OK;
    double warm = HUGE_VAL;
    *of_a = *of_b = HUGE_VAL;
    if (status == BASE_OK) status = run_some(a, 0, &warm, report);
    if (status == BASE_OK) status = run_some(b, 0, &warm, report);
    for (int round = 0; round < ROUNDS && status == BASE_OK; round++) {
        status = run_some(a, SECONDS, of_a, report);
        if (status == BASE_OK) status = run_some(b, SECONDS, of_b, report);
    }
    return status;
}

base_status compile_measure(const ouro_compile_options *options, compile_runner *runner,
                            compile_runner *beside, compile_times *times, base_report *report) {
    pass_tuning tuning;
    char of_runner[96], of_beside[96];
    *times = (compile_times){0};
    if (runner->hash == beside->hash) {
        *times = (compile_times){1, 1, true};
        return BASE_OK;
    }
    snprintf(of_runner, sizeof of_runner, "run of plan %016llx beside %016llx threads=%d",
             (unsigned long long)runner->hash, (unsigned long long)beside->hash, runner->threads);
    snprintf(of_beside, sizeof of_beside, "run of plan %016llx beside %016llx threads=%d",
             (unsigned long long)beside->hash, (unsigned long long)runner->hash, runner->threads);
    base_status status = compile_open_times(options, &tuning, report);
    times->known = status == BASE_OK && pass_tuning_find(&tuning, of_runner, &times->seconds) &&
                   pass_tuning_find(&tuning, of_beside, &times->seconds_beside);
    if (status == BASE_OK && !times->known && options->tune) {
        status = run_in_turns(runner, beside, &times->seconds, &times->seconds_beside, report);
        if (status == BASE_OK && (!pass_tuning_add(&tuning, of_runner, times->seconds) ||
                                  !pass_tuning_add(&tuning, of_beside, times->seconds_beside)))
            status = base_fail_memory(report);
        if (status == BASE_OK) status = compile_write_times(options, &tuning, report);
        times->known = status == BASE_OK;
    }
    pass_tuning_free(&tuning);
    return status;
}

/* ---- the least arena within a measured time ------------------------------------------------------------------ */

typedef struct trial {
    double
        limit; /* of the predicted time: ouro_compile_options.time_limit; HUGE_VAL: none, the least arena */
    size_t arena;
    double ratio; /* measured */
    bool known;
} trial;

static base_status try_limit(const ouro_compile_options *given, double limit, compile_runner *reference,
                             trial *made, base_report *report) {
    ouro_compile_options options = *given;
    compile_result result;
    compile_runner *runner = NULL;
    compile_times times = {0};
    options.arena_limit = OURO_ARENA_LEAST;
    options.time_limit = isinf(limit) ? 0 : limit;
    base_status status = compile_model(&options, &result, report);
    *made = (trial){.limit = limit};
    if (status == BASE_OK) made->arena = result.memory->arena_bytes;
    if (status == BASE_OK) status = compile_runner_new(&result, &runner, report);
    compile_result_free(&result);
    if (status == BASE_OK) status = compile_measure(given, runner, reference, &times, report);
    compile_runner_free(runner);
    made->known = times.known;
    if (times.known) made->ratio = times.seconds / times.seconds_beside;
    return status;
}

base_status compile_within_time(ouro_compile_options *options, double *ratio, base_report *report) {
    enum { STEPS = 7 };
    static const double FACTOR = 2.5;
    const double most = options->time_limit;
    ouro_compile_options plain = *options;
    compile_result result;
    compile_runner *reference = NULL;
    trial best = {.limit = 0}, tried;
    *ratio = 0;
    if (options->arena_limit != OURO_ARENA_LEAST || most <= 0 || (!options->tune && !options->times_path))
        return BASE_OK;
    plain.arena_limit = 0;
    plain.time_limit = 0;
    plain.no_bands = true;
    base_status status = compile_model(&plain, &result, report);
    if (status == BASE_OK) best.arena = result.memory->arena_bytes;
    if (status == BASE_OK) status = compile_runner_new(&result, &reference, report);
    compile_result_free(&result);
    if (status == BASE_OK) status = try_limit(options, HUGE_VAL, reference, &tried, report);
    bool known = status == BASE_OK && tried.known;
    if (known && tried.ratio <= most) best = tried;
    /* What is predicted to take `low` more fits, and what is predicted to take `high` more does not. */
    double low = 0, high = 0, more = most > 1 ? most - 1 : 0.01;
    for (int step = 0; known && !isinf(best.limit) && step < STEPS && status == BASE_OK; step++) {
        if (high > 0 && low > 0 && high / low < 1.1) break;
        if (low > 0 && high > 0) more = sqrt(low * high);
        else if (low > 0) more = low * FACTOR;
        else if (high > 0) more = high / FACTOR;
        if (more < 1e-3) break;
        status = try_limit(options, 1 + more, reference, &tried, report);
        known = status == BASE_OK && tried.known;
        if (!known) break;
        if (tried.ratio > most) {
            high = more;
            continue;
        }
        low = more;
        if (tried.arena < best.arena) best = tried;
    }
    compile_runner_free(reference);
    if (status != BASE_OK || !known) return status;
    options->time_limit = isinf(best.limit) ? 0 : best.limit;
    *ratio = best.limit > 0 ? best.ratio : 1;
    if (best.limit <= 0) options->arena_limit = 0;
    return BASE_OK;
}

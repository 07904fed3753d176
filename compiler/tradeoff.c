/* SPDX-License-Identifier: Apache-2.0 */
/* tradeoff.c: the curve of memory against time: what a model takes at several limits of its arena.
 *
 * Below the lower bound of the graph as it is written, bands of rows take time for memory; above it, faster kernels take memory
 * for time. Every point is a plan that was made and verified; its time is predicted, and with --tune measured beside the plan that is made
 * without a limit, which is the last point.
 */
#include "compiler/compiler.h"
#include <math.h>

/* `last`, if there is one: what the plan is measured beside. */
static base_status add_point(const ouro_compile_options *given, size_t limit, compile_runner *last,
                             tradeoff_curve *curve, base_report *report) {
    ouro_compile_options options = *given;
    compile_result result;
    compile_runner *runner = NULL;
    compile_times times = {0};
    options.arena_limit = limit;
    options.time_limit = 0;
    options.no_bands = true;
    base_status status = compile_model(&options, &result, report);
    if (status == BASE_OK) {
        const pass_memory *memory = result.memory;
        const bool first = curve->count == 0;
        if (first && memory->bands) {
            curve->whole_bytes = memory->bands->whole_bytes;
            curve->whole_seconds = memory->bands->whole_seconds;
        }
        tradeoff_point point = {.arena_bytes = memory->arena_bytes,
                                .seconds = emit_predicted_seconds(memory, curve->whole_seconds),
                                .kernels = memory->choice_count};
        for (size_t i = 0; memory->bands && i < memory->bands->count; i++)
            point.banded += memory->bands->list[i].nodes;
        if (last) status = compile_runner_new(&result, &runner, report);
        if (last && status == BASE_OK) status = compile_measure(given, runner, last, &times, report);
        if (times.known) point.measured = times.seconds / times.seconds_beside;
        compile_runner_free(runner);
        /* More memory that buys nothing is no point of the curve. */
        const tradeoff_point *before = first ? NULL : &curve->points[curve->count - 1];
        const bool quicker =
            !before || (before->measured > 0 && point.measured > 0 ? point.measured < before->measured
                                                                   : point.seconds < before->seconds);
        if (status == BASE_OK && quicker) curve->points[curve->count++] = point;
    }
    compile_result_free(&result);
    return status;
}

static base_status make_last(const ouro_compile_options *given, compile_runner **last, base_report *report) {
    ouro_compile_options options = *given;
    compile_result result;
    options.arena_limit = 0;
    options.time_limit = 0;
    options.no_bands = true;
    base_status status = compile_model(&options, &result, report);
    if (status == BASE_OK) status = compile_runner_new(&result, last, report);
    compile_result_free(&result);
    return status;
}

base_status compile_tradeoff(const ouro_compile_options *options, tradeoff_curve *curve,
                             base_report *report) {
    enum { BETWEEN = 5 };
    compile_runner *last = NULL;
    *curve = (tradeoff_curve){.model_path = options->model_path};
    base_status status = options->tune ? make_last(options, &last, report) : BASE_OK;
    if (status == BASE_OK) status = add_point(options, OURO_ARENA_LEAST, last, curve, report);
    const double least = status == BASE_OK ? (double)curve->points[0].arena_bytes : 0;
    const double whole = (double)curve->whole_bytes;
    for (int i = 1; i <= BETWEEN && least > 0 && least < whole && status == BASE_OK; i++)
        status = add_point(options, (size_t)(least * pow(whole / least, (double)i / (BETWEEN + 1))), last,
                           curve, report);
    if (status == BASE_OK && curve->whole_bytes > (size_t)least)
        status = add_point(options, curve->whole_bytes, last, curve, report);
    if (status == BASE_OK) status = add_point(options, 0, last, curve, report);
    compile_runner_free(last);
    return status;
}

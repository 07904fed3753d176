/* SPDX-License-Identifier: Apache-2.0 */
/* tradeoff.c: the curve of memory against time: what a model takes at several limits of its arena.
 *
 * Below the lower bound of the graph as it is written, bands of rows take time for memory; above it, faster kernels take memory
 * for time. Every point is a plan that was made and verified; only its time is predicted.
 */
#include "compiler/compiler.h"
#include <math.h>

static base_status add_point(const ouro_compile_options *given, size_t limit, tradeoff_curve *curve,
                             base_report *report) {
    ouro_compile_options options = *given;
    compile_result result;
    options.arena_limit = limit;
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
        /* More memory that buys nothing is no point of the curve. */
        if (first || point.seconds < curve->points[curve->count - 1].seconds)
            curve->points[curve->count++] = point;
    }
    compile_result_free(&result);
    return status;
}

base_status compile_tradeoff(const ouro_compile_options *options, tradeoff_curve *curve,
                             base_report *report) {
    enum { BETWEEN = 5 };
    *curve = (tradeoff_curve){.model_path = options->model_path};
    base_status status = add_point(options, OURO_ARENA_LEAST, curve, report);
    const double least = status == BASE_OK ? (double)curve->points[0].arena_bytes : 0;
    const double whole = (double)curve->whole_bytes;
    for (int i = 1; i <= BETWEEN && least > 0 && least < whole && status == BASE_OK; i++)
        status = add_point(options, (size_t)(least * pow(whole / least, (double)i / (BETWEEN + 1))), curve,
                           report);
    if (status == BASE_OK && curve->whole_bytes > (size_t)least)
        status = add_point(options, curve->whole_bytes, curve, report);
    return status == BASE_OK ? add_point(options, 0, curve, report) : status;
}

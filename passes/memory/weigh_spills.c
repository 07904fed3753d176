/* SPDX-License-Identifier: Apache-2.0 */
/* weigh_spills.c: how much of what the arena may not take is saved by bands and by recomputing, and how much is spilled.
 *
 * Spilling comes last (spill.c), and makes up for what those before it have left. But a file may be cheaper than low bands. So
 * the passes from recompute on are tried on copies of the module, with several arenas that bands are to reach, from none at all to the
 * limit itself; spilling meets the limit in each of them. The one that is predicted to take least time is taken; where none meets the
 * limit, or the least arena is asked for, the one with the smallest arena.
 *
 * Needs: types, final layouts; somebody reads every node. Breaks: nothing; it changes no module. Guarantees: context->band_limit.
 */
#include "passes/memory/memory.h"

/* Whatever the graph takes is within it. */
static const size_t ANY = PASS_ARENA_LEAST - 1;

typedef struct outcome {
    size_t band_limit, bytes;
    double seconds; /* beyond those of the graph as it is written */
} outcome;

static base_status try_limit(pass_context *context, size_t band_limit, outcome *is) {
    ir_module *module = ir_module_clone(context->module);
    struct pass_measured measured = {.spilled = true, .band_limit = band_limit, .kernels = true};
    if (!module) return base_fail_memory(context->report);
    base_status status = context->measure(context, module, &measured);
    *is = (outcome){band_limit, measured.arena, measured.more_seconds - measured.saved_seconds};
    ir_module_free(module);
    return status;
}

static bool is_better(const outcome *a, const outcome *b, size_t limit) {
    if (limit && (a->bytes <= limit) != (b->bytes <= limit)) return a->bytes <= limit;
    if (limit && a->bytes <= limit) return a->seconds < b->seconds;
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->seconds < b->seconds;
}

base_status pass_weigh_spills(pass_context *context) {
    static const double above[] = {1, 1.5, 2.5};
    const pass_options *options = context->options;
    const size_t limit = options->arena_limit == PASS_ARENA_LEAST ? 0 : options->arena_limit;
    if (!options->spill_path || !options->arena_limit || context->trial) return BASE_OK;
    outcome best = {0}, tried = {0};
    base_status status = try_limit(context, ANY, &best);
    for (size_t i = 0; i < sizeof above / sizeof *above && status == BASE_OK; i++) {
        const size_t bands = limit ? (size_t)(above[i] * (double)limit) : PASS_ARENA_LEAST;
        if (!limit && i) break;
        status = try_limit(context, bands, &tried);
        if (status == BASE_OK && is_better(&tried, &best, limit)) best = tried;
    }
    if (status == BASE_OK) context->band_limit = best.band_limit;
    return status;
}

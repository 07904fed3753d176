/* SPDX-License-Identifier: Apache-2.0 */
/* make_bands.c: feature maps that are never whole: spatial operators one after another become a loop over bands of rows.
 *
 *     %a: [1,64,112,112] = Conv(%x, %w)  %b = Conv(%a, %v)
 *  => a loop whose iterations make some rows of %a, and of %b what these let them make (emit.c has the picture)
 *
 * The lower bound of a graph is the largest sum of tensors that are live at one step. Band by band only some rows of them are:
 * the bound of the graph becomes that of another graph.
 *
 * Needs: types, final layouts; somebody reads every node. Breaks: nothing. Guarantees: values stay what they were, to the bit
 * where kernels sum in one order.
 */
#include "passes/bands/bands.h"
#include "passes/bands/channels_last.h"
#include "passes/bands/emit.h"
#include "passes/bands/estimate.h"
#include "passes/bands/find_choices.h"
#include "passes/bands/global_pools.h"
#include "passes/bands/heads.h"
#include "passes/bands/resizes.h"
#include "passes/bands/search.h"
#include "passes/bands/shuffles.h"
#include "passes/bands/tokens.h"
#include "passes/bands/trials.h"

/* The longest region that begins with `first`, and has at most so many nodes; *last is NULL where there is none of two. */
static bool longest_region(ir_node *first, int64_t rows, size_t most, base_arena *arena, ir_node **last) {
    size_t count = 0;
    ir_node *end = NULL;
    for (ir_node *node = first; node && count < most && band_node_supported(node, arena); node = node->next) {
        end = node;
        count++;
    }
    for (*last = NULL; count > 1 && !*last; end = end->previous, count--) {
        band_region *region;
        bool fits;
        if (!band_region_new(first, end, rows, arena, &region, &fits)) return false;
        if (fits) *last = end;
        base_arena_free(arena);
    }
    return true;
}

/* The graph as rows can be seen in it. Scores of an attention count from a quarter of `bound` bytes on. */
static base_status prepare(pass_context *context, size_t bound) {
    ir_graph *graph = context->module->main;
    base_arena arena;
    base_arena_init(&arena, context->scratch->allocator);
    const bool fine = band_gather_shuffles(graph) && band_tokens_to_rows(graph) &&
                      band_heads_by_tokens(graph, bound / 4) &&
                      band_split_global_pools(graph, &context->options->environment) &&
                      band_gather_resized_rows(graph, &context->options->environment, &arena);
    base_arena_free(&arena);
    return fine ? BASE_OK : base_fail_memory(context->report);
}

static bool all_keep_channels_last(const pass_context *context, const ir_node *first, const ir_node *last,
                                   base_arena *arena) {
    for (const ir_node *node = first; node; node = node->next) {
        if (!band_keeps_channels_last(node, &context->options->environment, arena)) return false;
        if (node == last) break;
    }
    return true;
}

static base_status band_all(pass_context *context, base_arena *arena) {
    const pass_options *options = context->options;
    const size_t most = options->band_nodes ? options->band_nodes : SIZE_MAX;
    base_status prepared = prepare(context, 0);
    if (prepared != BASE_OK) return prepared;
    for (ir_node *node = context->module->main->first, *next; node; node = next) {
        ir_node *last;
        next = node->next;
        if (!longest_region(node, options->band_rows, most, arena, &last))
            return base_fail_memory(context->report);
        base_arena_free(arena);
        if (!last) continue;
        next = last->next;
        band_region *region;
        bool fits;
        base_status status = BASE_OK;
        if (all_keep_channels_last(context, node, last, arena))
            status =
                band_put_channels_last(&node, &last, &options->environment, false, arena, context->report);
        if (status != BASE_OK) return status;
        if (!band_region_new(node, last, options->band_rows, arena, &region, &fits))
            return base_fail_memory(context->report);
        if (fits) status = band_emit(region, &options->environment, arena, context->report);
        base_arena_free(arena);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

/* ---- within a limit -------------------------------------------------------------------------------------- */

/* By node id: what faster kernels save where there are no bands, in an arena of so many bytes. False, with a status, where that cannot be
 * told. */
static bool find_savings(pass_context *context, band_savings *savings, size_t *arena, base_status *status) {
    ir_module *module = context->module, *other = ir_module_clone(module);
    double *saved = BASE_ARRAY(context->scratch, double, module->node_count);
    double *before = BASE_ARRAY(context->scratch, double, module->node_count);
    double *of_other = other ? BASE_ARRAY(context->scratch, double, other->node_count) : NULL;
    double *before_of_other = other ? BASE_ARRAY(context->scratch, double, other->node_count) : NULL;
    ir_node_id *ids = BASE_ARRAY(context->scratch, ir_node_id, module->node_count);
    struct pass_measured measured = {
        .saved = of_other, .before = before_of_other, .saved_count = other ? other->node_count : 0};
    *status =
        saved && before && of_other && before_of_other && ids ? BASE_OK : base_fail_memory(context->report);
    const ir_node *copy = other ? other->main->first : NULL;
    for (const ir_node *node = module->main->first; node && *status == BASE_OK; node = node->next) {
        ids[node->id.index] = copy->id;
        copy = copy->next;
    }
    if (*status == BASE_OK) *status = context->measure(context, other, &measured);
    *arena = measured.arena;
    for (const ir_node *node = module->main->first; node && *status == BASE_OK; node = node->next) {
        saved[node->id.index] = of_other[ids[node->id.index].index];
        before[node->id.index] = before_of_other[ids[node->id.index].index];
    }
    *savings = (band_savings){saved, before, module->node_count};
    ir_module_free(other);
    return *status == BASE_OK;
}

/* Without bands. */
static base_status measure_whole(pass_context *context, struct pass_measured *measured) {
    ir_module *module = ir_module_clone(context->module);
    if (!module) return base_fail_memory(context->report);
    base_status status = context->measure(context, module, measured);
    ir_module_free(module);
    return status;
}

static const char *name_of(const ir_node *node) {
    return *node->name || !node->outputs[0] ? node->name : node->outputs[0]->name;
}

/* What is done, for reports. */
static base_status note(pass_context *context, const band_search *search, const band_choices *choices,
                        size_t whole) {
    pass_bands *bands = BASE_NEW(context->memory_arena, pass_bands);
    pass_banded *list = BASE_ARRAY(context->memory_arena, pass_banded, choices->count);
    if (!bands || !list) return base_fail_memory(context->report);
    size_t n = 0, at = 0;
    for (const ir_node *node = context->module->main->first; node; node = node->next, n++) {
        if (at == choices->count) break;
        const band_choice *choice = &choices->list[at];
        if (choice->first == n)
            list[at] = (pass_banded){.first = name_of(node),
                                     .nodes = choice->last - choice->first + 1,
                                     .rows = choice->rows,
                                     .state_bytes = (size_t)choice->state_bytes,
                                     .more_seconds = choice->more_seconds - choice->lost_seconds};
        if (choice->last == n) list[at++].last = name_of(node);
    }
    *bands = (pass_bands){.list = list,
                          .count = choices->count,
                          .whole_bytes = whole,
                          .whole_seconds = band_search_seconds(search),
                          .saved_seconds = band_search_saved(search)};
    context->bands = bands;
    return BASE_OK;
}

/* Looks on a copy, which is prepared for bands as the module itself must not be where there will be none: that costs memory, too. */
static base_status find_limited(pass_context *copy, size_t limit, bool idle, band_found *found,
                                const band_search **used) {
    /* Bands that save less than this of the arena are not worth their time. */
    static const double LEAST_SAVED = 0.98;
    size_t with_kernels = 0;
    band_savings savings;
    base_status status = BASE_OK;
    const size_t bound = copy->bands->whole_bytes;
    if (find_savings(copy, &savings, &with_kernels, &status) && !idle) status = prepare(copy, bound);
    if (status != BASE_OK) return status;
    band_search *search = band_search_new(copy->module, &copy->options->environment, &savings, copy->scratch);
    *used = search;
    if (!search) return base_fail_memory(copy->report);
    if (copy->options->time_limit > 0) {
        found->bytes = (size_t)(LEAST_SAVED * (double)with_kernels);
        return band_find_within_time(copy, search, copy->options->time_limit, found);
    }
    return limit ? band_find_within(copy, search, limit, found) : band_find_least(copy, search, found);
}

static base_status band_within(pass_context *context, size_t limit, base_arena *arena) {
    band_found found = {.best = {0}};
    struct pass_measured whole = {0};
    base_status status = measure_whole(context, &whole);
    /* Where there will be none, but values are spilled, reports tell the time that these are compared with. */
    const bool idle = whole.arena <= limit;
    if (status != BASE_OK || (idle && !context->band_limit)) return status;
    found.bytes = whole.arena;
    pass_bands *none = BASE_NEW(context->memory_arena, pass_bands);
    if (!none) return base_fail_memory(context->report);
    *none = (pass_bands){.whole_bytes = whole.bound};
    context->bands = none; /* what is saved counts where kernels are chosen */
    pass_context copy = *context;
    const band_search *search = NULL;
    copy.module = ir_module_clone(context->module);
    if (!copy.module) return base_fail_memory(context->report);
    status = find_limited(&copy, limit, idle, &found, &search);
    if (status == BASE_OK && found.best.count && !idle) status = prepare(context, whole.bound);
    context->kernel_arena = found.kernel_arena;
    if (status == BASE_OK) status = note(context, search, &found.best, whole.bound);
    ir_module_free(copy.module);
    return status == BASE_OK ? band_carry_out(context, context->module, &found.best, arena, NULL) : status;
}

/* ---- without a limit ------------------------------------------------------------------------------------- */

/* Bands take less time only where a map comes from memory, and with them does not: without such a map nothing is looked for. */
static bool has_far_map(const pass_context *context, base_arena *arena) {
    const double far = band_far_bytes(band_rates_of(&context->options->environment));
    for (const ir_node *node = context->module->main->first; node; node = node->next) {
        size_t bytes;
        const ir_value *output = node->output_count ? node->outputs[0] : NULL;
        if (!output || !op_type_bytes(&output->type, &bytes) || (double)bytes <= far) continue;
        const bool supported = band_node_supported(node, arena);
        base_arena_free(arena);
        if (supported) return true;
    }
    return false;
}

/* Looks for bands on a copy, which is prepared for them as the module itself must not be where there will be none. */
static base_status find_free(pass_context *copy, band_found *found, size_t *bound, base_arena *arena) {
    /* Predictions are off by a few percent, and of several threads, which wait for each other in short bands, by more. */
    const double most_time = copy->options->environment.threads > 1 ? 0.9 : 0.97;
    struct pass_measured whole = {0};
    band_savings savings;
    pass_bands *none = BASE_NEW(arena, pass_bands);
    base_status status = none ? measure_whole(copy, &whole) : base_fail_memory(copy->report);
    if (status != BASE_OK) return status;
    *bound = none->whole_bytes = whole.bound;
    copy->bands = none;
    if (!find_savings(copy, &savings, &found->bytes, &status)) return status;
    status = prepare(copy, whole.bound);
    if (status != BASE_OK) return status;
    band_search *search = band_search_new(copy->module, &copy->options->environment, &savings, copy->scratch);
    if (!search) return base_fail_memory(copy->report);
    status = band_find_within_time(copy, search, most_time, found);
    return status == BASE_OK && found->best.count ? note(copy, search, &found->best, whole.bound) : status;
}

/* Bands that take less of both, memory and time. */
static base_status band_freely(pass_context *context, base_arena *arena) {
    if (!has_far_map(context, arena)) return BASE_OK;
    pass_context copy = *context;
    band_found found = {.best = {0}};
    size_t bound = 0;
    copy.module = ir_module_clone(context->module);
    if (!copy.module) return base_fail_memory(context->report);
    base_status status = find_free(&copy, &found, &bound, arena);
    if (status == BASE_OK && found.best.count) status = prepare(context, bound);
    if (status == BASE_OK && found.best.count) {
        context->bands = copy.bands;
        context->kernel_arena = found.kernel_arena;
        status = band_carry_out(context, context->module, &found.best, arena, NULL);
    }
    ir_module_free(copy.module);
    return status;
}

base_status pass_make_bands(pass_context *context) {
    const pass_options *options = context->options;
    const size_t limit = pass_band_limit(context);
    const bool freely = options->free_bands && !options->exact_arithmetic;
    if (options->band_rows <= 0 && !limit && !freely) return BASE_OK;
    base_arena arena;
    base_arena_init(&arena, context->scratch->allocator);
    base_status status = options->band_rows > 0 ? band_all(context, &arena)
                         : !limit               ? band_freely(context, &arena)
                                  : band_within(context, limit == PASS_ARENA_LEAST ? 0 : limit, &arena);
    base_arena_free(&arena);
    return status;
}

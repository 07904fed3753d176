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
#include "passes/bands/global_pools.h"
#include "passes/bands/heads.h"
#include "passes/bands/resizes.h"
#include "passes/bands/search.h"
#include "passes/bands/shuffles.h"
#include "passes/bands/tokens.h"
#include <math.h>

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
                      band_split_global_pools(graph, context->options->environment.portable_only) &&
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

enum { QUICK = 3 };

/* The ids of some nodes. */
typedef struct id_range {
    uint32_t first, end;
} id_range;

/* The regions of `choices` in this module, a copy of the context's or that itself, become bands; `made` tells the nodes of each, where it is
 * not NULL. */
static base_status carry_out(pass_context *context, ir_module *module, const band_choices *choices,
                             base_arena *arena, id_range *made) {
    base_report *report = context->report;
    ir_node **ends = BASE_ARRAY(arena, ir_node *, 2 * choices->count);
    base_status status = ends ? BASE_OK : base_fail_memory(report);
    size_t n = 0, at = 0;
    for (ir_node *node = module->main->first; node && status == BASE_OK; node = node->next, n++) {
        if (at < choices->count && choices->list[at].first == n) ends[2 * at] = node;
        if (at < choices->count && choices->list[at].last == n) ends[2 * at++ + 1] = node;
    }
    for (size_t i = 0; i < at && status == BASE_OK; i++) {
        band_region *region;
        bool fits;
        base_arena own;
        base_arena_init(&own, arena->allocator);
        if (made) made[i].first = (uint32_t)module->node_count;
        if (choices->list[i].channels_last)
            status = band_put_channels_last(&ends[2 * i], &ends[2 * i + 1], &context->options->environment,
                                            module != context->module, &own, report);
        if (status != BASE_OK) {
            base_arena_free(&own);
            break;
        }
        if (!band_region_new(ends[2 * i], ends[2 * i + 1], choices->list[i].rows, &own, &region, &fits))
            status = base_fail_memory(report);
        else if (fits) status = band_emit(region, &context->options->environment, &own, report);
        if (made) made[i].end = (uint32_t)module->node_count;
        base_arena_free(&own);
    }
    return status;
}

/* What was live while each region ran, and each node that is in none: `nodes` are those of the main graph in their order. The order in which
 * nodes run is made for the peak: what has less live than that may have more than it needs. */
static void learn(band_search *search, const band_choices *choices, const id_range *made,
                  const ir_node_id *nodes, size_t count, const struct pass_measured *measured) {
    size_t next = 0;
    for (size_t i = 0; i <= choices->count; i++) {
        const size_t end = i < choices->count ? choices->list[i].first : count;
        for (; next < end; next++) {
            const size_t live = measured->live[nodes[next].index];
            if (live) band_search_learn_step(search, next, (double)live, live == measured->bound);
        }
        if (i == choices->count) break;
        size_t most = 0;
        for (size_t id = made[i].first; id < made[i].end; id++)
            if (measured->live[id] > most) most = measured->live[id];
        if (most) band_search_learn(search, &choices->list[i], (double)most, most == measured->bound);
        next = choices->list[i].last + 1;
    }
    band_search_settle(search);
}

/* What the choices come to. `search`, which may be NULL, learns from it. */
static base_status measure(pass_context *context, const band_choices *choices, struct pass_measured *measured,
                           band_search *search) {
    base_arena arena;
    ir_module *module = ir_module_clone(context->module);
    if (!module) return base_fail_memory(context->report);
    base_arena_init(&arena, context->scratch->allocator);
    const size_t count = module->main->node_count;
    ir_node_id *nodes = BASE_ARRAY(&arena, ir_node_id, count);
    id_range *made = BASE_ARRAY(&arena, id_range, choices->count);
    base_status status = nodes && made ? BASE_OK : base_fail_memory(context->report);
    size_t n = 0;
    for (const ir_node *node = module->main->first; node && status == BASE_OK; node = node->next)
        nodes[n++] = node->id;
    if (status == BASE_OK) status = carry_out(context, module, choices, &arena, made);
    if (status == BASE_OK && search) {
        measured->live_count = module->node_count;
        measured->live = BASE_ARRAY(&arena, size_t, module->node_count);
        if (!measured->live) status = base_fail_memory(context->report);
    }
    if (status == BASE_OK) status = context->measure(context, module, measured);
    if (status == BASE_OK && search) learn(search, choices, made, nodes, count, measured);
    measured->live = NULL;
    base_arena_free(&arena);
    ir_module_free(module);
    return status;
}

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

/* Choices that are quick enough with faster kernels. */
typedef struct quick_choices {
    band_choices choices;
    size_t bound,
        bytes; /* of the arena: without these kernels, and with as much for them as where nothing is said */
} quick_choices;

/* The best choices so far. */
typedef struct trials {
    band_choices best;
    size_t bytes;               /* what they come to */
    size_t kernel_arena;        /* pass_context.kernel_arena */
    quick_choices quick[QUICK]; /* those with the least bound, this one first */
    size_t quick_count;
} trials;

static void set_best(trials *t, const band_choices *choices, size_t bytes, size_t kernel_arena) {
    t->best = *choices;
    t->bytes = bytes;
    t->kernel_arena = kernel_arena;
}

static base_status attempt(pass_context *context, const band_search *search, double estimate, trials *t,
                           size_t *bytes) {
    band_choices choices;
    if (!band_search_within(search, estimate, context->scratch, &choices))
        return base_fail_memory(context->report);
    struct pass_measured measured = {0};
    base_status status = measure(context, &choices, &measured, NULL);
    if (status != BASE_OK) return status;
    *bytes = measured.arena;
    if (*bytes < t->bytes) set_best(t, &choices, *bytes, 0);
    return BASE_OK;
}

static bool same_choices(const band_choices *a, const band_choices *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const band_choice *left = &a->list[i], *right = &b->list[i];
        if (left->first != right->first || left->last != right->last || left->rows != right->rows ||
            left->channels_last != right->channels_last)
            return false;
    }
    return true;
}

/* Estimates are near, not right: some above the least one are tried, too. Then trials tell what estimates are worth, and the least is looked for
 * anew until it stays the same. */
static base_status find_least(pass_context *context, band_search *search, trials *t) {
    enum { TURNS = 12 };
    static const double above[] = {1, 1.02, 1.04, 1.06, 1.1, 1.15, 1.2, 1.3};
    const double least = band_search_least(search);
    band_choices before = {.count = SIZE_MAX}, choices;
    base_status status = BASE_OK;
    size_t bytes;
    for (size_t i = 0; i < sizeof above / sizeof *above && status == BASE_OK; i++)
        status = attempt(context, search, least * above[i], t, &bytes);
    for (int turn = 0; turn < TURNS && status == BASE_OK; turn++, before = choices) {
        struct pass_measured measured = {0};
        if (!band_search_within(search, band_search_least(search), context->scratch, &choices))
            return base_fail_memory(context->report);
        if (same_choices(&choices, &before)) break;
        status = measure(context, &choices, &measured, search);
        if (status == BASE_OK && measured.arena < t->bytes) set_best(t, &choices, measured.arena, 0);
    }
    return status;
}

static void note_quick(trials *t, const band_choices *choices, size_t bound, size_t bytes) {
    size_t at = t->quick_count;
    for (size_t i = 0; i < t->quick_count; i++)
        if (same_choices(&t->quick[i].choices, choices)) return;
    while (at > 0 && t->quick[at - 1].bound > bound) at--;
    if (at == QUICK) return;
    if (t->quick_count < QUICK) t->quick_count++;
    for (size_t i = t->quick_count - 1; i > at; i--) t->quick[i] = t->quick[i - 1];
    t->quick[at] = (quick_choices){*choices, bound, bytes};
}

/* Measures the choices with the faster kernels that fit into an arena of `kernel_arena` bytes (0: a little more than without them).
 * They are the best ones if that takes at most `most` seconds more than direct kernels without bands, and the arena is the smallest one so
 * far. */
static base_status try_choices(pass_context *context, band_search *search, const band_choices *choices,
                               size_t kernel_arena, double most, trials *t, size_t *bytes, bool *fits) {
    struct pass_measured measured = {.kernels = true, .kernel_arena = kernel_arena};
    base_status status = measure(context, choices, &measured, search);
    double more = -measured.saved_seconds;
    for (size_t i = 0; i < choices->count; i++)
        more += choices->list[i].more_seconds - choices->list[i].lost_seconds;
    *fits = status == BASE_OK && more <= most;
    *bytes = measured.arena;
    if (*fits && !kernel_arena && choices->count) note_quick(t, choices, measured.bound, *bytes);
    if (*fits && *bytes < t->bytes) set_best(t, choices, *bytes, kernel_arena);
    return status;
}

/* Choices that are too slow may be quick enough with more memory for kernels, and still be smaller than the best ones. */
static base_status try_larger_kernels(pass_context *context, const band_choices *choices, size_t bytes,
                                      double most, trials *t) {
    enum { TURNS = 3 };
    double low = (double)bytes, high = 0.98 * (double)t->bytes;
    base_status status = BASE_OK;
    for (int turn = 0; turn < TURNS && status == BASE_OK && high > 1.02 * low; turn++) {
        const double arena = turn ? sqrt(low * high) : high;
        bool fits;
        status = try_choices(context, NULL, choices, (size_t)arena, most, t, &bytes, &fits);
        if (turn == 0 && !fits) break;
        if (turn) *(fits ? &high : &low) = arena;
    }
    return status;
}

/* The estimated time that choices take more than direct kernels without bands, if they have all faster kernels. */
static double quickest(const band_search *search, const band_choices *choices) {
    double seconds = -band_search_saved(search);
    for (size_t i = 0; i < choices->count; i++) seconds += choices->list[i].more_seconds;
    return seconds;
}

/* Measures choices, where they are not those before. Where the search learns from them, those that are too slow with any kernels are left out. */
static base_status attempt_quick(pass_context *context, band_search *search, bool learns,
                                 const band_choices *choices, double most, band_choices *before, trials *t) {
    if (same_choices(choices, before)) return BASE_OK;
    *before = *choices;
    const bool may_fit = quickest(search, choices) <= most;
    if (learns && !may_fit) return BASE_OK;
    size_t bytes;
    bool fits;
    base_status status = try_choices(context, learns ? search : NULL, choices, 0, most, t, &bytes, &fits);
    return status == BASE_OK && !fits && may_fit ? try_larger_kernels(context, choices, bytes, most, t)
                                                 : status;
}

/* The same of those for this estimate. */
static base_status attempt_within_time(pass_context *context, band_search *search, bool learns,
                                       double estimate, double most, band_choices *before, trials *t) {
    band_choices choices;
    return band_search_within(search, estimate, context->scratch, &choices)
               ? attempt_quick(context, search, learns, &choices, most, before, t)
               : base_fail_memory(context->report);
}

/* Choices may be quick enough with less memory for kernels than what these are given where nothing is said. */
static base_status try_smaller_kernels(pass_context *context, const quick_choices *quick, double most,
                                       trials *t) {
    enum { TURNS = 5 };
    double low = (double)quick->bound, high = (double)(quick->bytes < t->bytes ? quick->bytes : t->bytes);
    base_status status = BASE_OK;
    for (int turn = 0; turn < TURNS && status == BASE_OK && low < 0.99 * high; turn++) {
        const double arena = sqrt(low * high);
        size_t bytes;
        bool fits;
        status = try_choices(context, NULL, &quick->choices, (size_t)arena, most, t, &bytes, &fits);
        *(fits && (double)bytes <= arena ? &high : &low) = arena;
    }
    return status;
}

/* Seconds that plans may take more than on direct kernels without bands. */
static double most_seconds(const pass_context *context, const band_search *search, double limit) {
    const double saved = band_search_saved(search);
    double most = (limit - 1) * (band_search_seconds(search) - saved) - saved;
    for (size_t i = 0; i < context->recomputed_count; i++) most -= context->recomputed[i].seconds;
    return most;
}

/* The least arena whose plan takes at most `limit` times as long as without bands, less than once as long. Time falls as the arena grows, but not
 * steadily: faster kernels fit into some bands and not into others. So estimates of all sizes are tried, and then those just below the best one. */
static base_status find_within_less_time(pass_context *context, band_search *search, double limit,
                                         trials *t) {
    enum { TURNS = 4, ESTIMATES = 8 };
    const double least = band_search_least(search), most = most_seconds(context, search, limit);
    const double step = pow(band_search_whole(search) / least, 1.0 / ESTIMATES);
    band_choices before = {.count = SIZE_MAX};
    base_status status = BASE_OK;
    double high = band_search_whole(search);
    for (int i = ESTIMATES; i >= 0 && status == BASE_OK; i--) {
        const double estimate = least * pow(step, i);
        const size_t best = t->bytes;
        status = attempt_within_time(context, search, false, estimate, most, &before, t);
        if (t->bytes < best || same_choices(&before, &t->best)) high = estimate;
    }
    double low = high / step;
    for (int turn = 0; turn < TURNS && status == BASE_OK && low >= least; turn++) {
        const double middle = sqrt(low * high);
        const size_t best = t->bytes;
        status = attempt_within_time(context, search, false, middle, most, &before, t);
        *(t->bytes < best || same_choices(&before, &t->best) ? &high : &low) = middle;
    }
    return status;
}

/* The same where more time may be taken: the least estimates are tried first, and what they come to tells what others are worth. So an estimate
 * may have other choices when it is tried again, and one below the best choices may be met. What is far above these is no use. */
static base_status find_within_time(pass_context *context, band_search *search, double limit, trials *t) {
    enum { TURNS = 10, ESTIMATES = 24, ROUNDS = 2 };
    static const double FAR = 1.3, LESS = 0.975;
    const double least = band_search_least(search), most = most_seconds(context, search, limit);
    const double step = pow(band_search_whole(search) / least, 1.0 / ESTIMATES);
    band_choices before = {.count = SIZE_MAX}, first[ESTIMATES + 1];
    base_status status = BASE_OK;
    for (int i = 0; i <= ESTIMATES; i++)
        if (!band_search_within(search, least * pow(step, i), context->scratch, &first[i]))
            return base_fail_memory(context->report);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i <= ESTIMATES && status == BASE_OK; i++) {
            const double estimate = least * pow(step, i);
            if (estimate > FAR * (double)t->bytes) break;
            status = round ? attempt_within_time(context, search, true, estimate, most, &before, t)
                           : attempt_quick(context, search, true, &first[i], most, &before, t);
            if (status == BASE_OK)
                status = attempt_within_time(context, search, true, estimate, most, &before, t);
        }
    double estimate = LESS * t->best.bytes;
    for (int turn = 0; turn < TURNS && status == BASE_OK && t->best.count; turn++) {
        const size_t best = t->bytes;
        band_choices choices;
        if (estimate < band_search_least(search)) break;
        if (!band_search_within(search, estimate, context->scratch, &choices))
            return base_fail_memory(context->report);
        const bool known = same_choices(&choices, &before);
        status = attempt_quick(context, search, true, &choices, most, &before, t);
        if (t->bytes < best && t->best.bytes < estimate) estimate = t->best.bytes;
        if (known || t->bytes < best) estimate *= LESS;
    }
    /* Regions that are not alike may be wrong by different factors: those at the peak get lower bands by themselves. */
    band_choices lower = t->best;
    for (int turn = 0; turn < TURNS && status == BASE_OK && lower.count; turn++) {
        const band_choices now = lower;
        if (!band_search_lower(search, &now, context->scratch, &lower))
            return base_fail_memory(context->report);
        if (lower.count) status = attempt_quick(context, search, true, &lower, most, &before, t);
        if (!same_choices(&lower, &t->best)) break;
    }
    for (size_t i = 0; i < t->quick_count && status == BASE_OK; i++)
        status = try_smaller_kernels(context, &t->quick[i], most, t);
    return status;
}

/* The cheapest that the arena takes: the estimate is lowered by as much as it was wrong. */
static base_status find_within(pass_context *context, band_search *search, size_t limit, trials *t) {
    enum { TURNS = 6 };
    double estimate = (double)limit;
    base_status status = BASE_OK;
    for (int turn = 0; turn < TURNS && t->bytes > limit && status == BASE_OK; turn++) {
        size_t bytes = 0;
        status = attempt(context, search, estimate, t, &bytes);
        if (estimate <= band_search_least(search)) break;
        const double wrong = bytes > limit ? (double)limit / (double)bytes : 1;
        estimate *= wrong < 0.95 ? wrong : 0.95;
    }
    return status == BASE_OK && t->bytes > limit ? find_least(context, search, t) : status;
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
static base_status find_limited(pass_context *copy, size_t limit, bool idle, trials *t,
                                const band_search **found) {
    /* Bands that save less than this of the arena are not worth their time. */
    static const double LEAST_SAVED = 0.98;
    size_t with_kernels = 0;
    band_savings savings;
    base_status status = BASE_OK;
    const size_t bound = copy->bands->whole_bytes;
    if (find_savings(copy, &savings, &with_kernels, &status) && !idle) status = prepare(copy, bound);
    if (status != BASE_OK) return status;
    band_search *search = band_search_new(copy->module, &copy->options->environment, &savings, copy->scratch);
    *found = search;
    if (!search) return base_fail_memory(copy->report);
    if (copy->options->time_limit > 0) {
        t->bytes = (size_t)(LEAST_SAVED * (double)with_kernels);
        return find_within_time(copy, search, copy->options->time_limit, t);
    }
    return limit ? find_within(copy, search, limit, t) : find_least(copy, search, t);
}

static base_status band_within(pass_context *context, size_t limit, base_arena *arena) {
    trials t = {.best = {0}};
    struct pass_measured whole = {0};
    base_status status = measure(context, &t.best, &whole, NULL);
    /* Where there will be none, but values are spilled, reports tell the time that these are compared with. */
    const bool idle = whole.arena <= limit;
    if (status != BASE_OK || (idle && !context->band_limit)) return status;
    t.bytes = whole.arena;
    pass_bands *none = BASE_NEW(context->memory_arena, pass_bands);
    if (!none) return base_fail_memory(context->report);
    *none = (pass_bands){.whole_bytes = whole.bound};
    context->bands = none; /* what is saved counts where kernels are chosen */
    pass_context copy = *context;
    const band_search *search = NULL;
    copy.module = ir_module_clone(context->module);
    if (!copy.module) return base_fail_memory(context->report);
    status = find_limited(&copy, limit, idle, &t, &search);
    if (status == BASE_OK && t.best.count && !idle) status = prepare(context, whole.bound);
    context->kernel_arena = t.kernel_arena;
    if (status == BASE_OK) status = note(context, search, &t.best, whole.bound);
    ir_module_free(copy.module);
    return status == BASE_OK ? carry_out(context, context->module, &t.best, arena, NULL) : status;
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
static base_status find_free(pass_context *copy, trials *t, size_t *bound, base_arena *arena) {
    /* Predicted: predictions are off by a few percent, and do not know what several threads wait for each other in short bands. */
    const double most_time = copy->options->environment.threads > 1 ? 0.9 : 0.97;
    struct pass_measured whole = {0};
    band_savings savings;
    pass_bands *none = BASE_NEW(arena, pass_bands);
    base_status status = none ? measure(copy, &t->best, &whole, NULL) : base_fail_memory(copy->report);
    if (status != BASE_OK) return status;
    *bound = none->whole_bytes = whole.bound;
    copy->bands = none;
    if (!find_savings(copy, &savings, &t->bytes, &status)) return status;
    status = prepare(copy, whole.bound);
    if (status != BASE_OK) return status;
    band_search *search = band_search_new(copy->module, &copy->options->environment, &savings, copy->scratch);
    if (!search) return base_fail_memory(copy->report);
    status = find_within_less_time(copy, search, most_time, t);
    return status == BASE_OK && t->best.count ? note(copy, search, &t->best, whole.bound) : status;
}

/* Bands that take less of both, memory and time. */
static base_status band_freely(pass_context *context, base_arena *arena) {
    if (!has_far_map(context, arena)) return BASE_OK;
    pass_context copy = *context;
    trials t = {.best = {0}};
    size_t bound = 0;
    copy.module = ir_module_clone(context->module);
    if (!copy.module) return base_fail_memory(context->report);
    base_status status = find_free(&copy, &t, &bound, arena);
    if (status == BASE_OK && t.best.count) status = prepare(context, bound);
    if (status == BASE_OK && t.best.count) {
        context->bands = copy.bands;
        context->kernel_arena = t.kernel_arena;
        status = carry_out(context, context->module, &t.best, arena, NULL);
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

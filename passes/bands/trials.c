/* SPDX-License-Identifier: Apache-2.0 */
/* trials.c: see trials.h. */
#include "passes/bands/trials.h"
#include "passes/bands/channels_last.h"
#include "passes/bands/emit.h"
#include "passes/bands/region.h"
#include "passes/layout/layout.h"

bool band_same_choices(const band_choices *a, const band_choices *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const band_choice *left = &a->list[i], *right = &b->list[i];
        if (left->first != right->first || left->last != right->last || left->rows != right->rows ||
            left->channels_last != right->channels_last)
            return false;
    }
    return true;
}

base_status band_carry_out(pass_context *context, ir_module *module, const band_choices *choices,
                           base_arena *arena, band_ids *made) {
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

/* `nodes` are those of the main graph, in their order; `live` is what was live with each node of the copy, by id. */
static bool note_live(band_trial *trial, const band_ids *made, const ir_node_id *nodes, size_t count,
                      const size_t *live, base_arena *arena) {
    trial->steps = BASE_ARRAY(arena, size_t, count);
    trial->regions = BASE_ARRAY(arena, size_t, trial->choices.count);
    if (!trial->steps || !trial->regions) return false;
    for (size_t n = 0; n < count; n++) trial->steps[n] = live[nodes[n].index];
    for (size_t i = 0; i < trial->choices.count; i++)
        for (size_t id = made[i].first; id < made[i].end; id++)
            if (live[id] > trial->regions[i]) trial->regions[i] = live[id];
    return true;
}

/* Nodes of a region that no kernel can run make it as good as impossible: no memory would do. False when memory runs out. */
static bool note_impossible(const pass_context *context, const ir_module *module, band_trial *trial,
                            const band_ids *made, size_t count, base_arena *results) {
    static const size_t TOO_MUCH = SIZE_MAX / 2;
    base_arena arena;
    base_arena_init(&arena, context->scratch->allocator);
    trial->bound = trial->arena = TOO_MUCH;
    trial->steps = BASE_ARRAY(results, size_t, count);
    trial->regions = BASE_ARRAY(results, size_t, trial->choices.count);
    for (size_t i = 0; trial->regions && i < trial->choices.count; i++) {
        for (size_t id = made[i].first; id < made[i].end && id < module->node_count; id++) {
            ir_node *node = module->nodes[id];
            const bool plain =
                node && !(op_schema_of(node->code)->flags & OP_FLAG_GRAPHS) && !ir_node_has_lists(node);
            if (plain && !pass_can_run(context, node, &arena)) trial->regions[i] = TOO_MUCH;
            base_arena_free(&arena);
        }
    }
    return trial->steps && trial->regions;
}

static base_status carry_out_and_plan(pass_context *context, band_trial *trial, size_t enough, bool looks,
                                      base_arena *results) {
    base_arena arena;
    ir_module *module = ir_module_clone(context->module);
    if (!module) return base_fail_memory(context->report);
    base_arena_init(&arena, context->scratch->allocator);
    const size_t count = module->main->node_count;
    struct pass_measured measured = {
        .kernels = trial->kernels, .kernel_arena = trial->kernel_arena, .enough = enough};
    ir_node_id *nodes = BASE_ARRAY(&arena, ir_node_id, count);
    band_ids *made = BASE_ARRAY(&arena, band_ids, trial->choices.count);
    base_status status = nodes && made ? BASE_OK : base_fail_memory(context->report);
    size_t n = 0;
    for (const ir_node *node = module->main->first; node && status == BASE_OK; node = node->next)
        nodes[n++] = node->id;
    if (status == BASE_OK) status = band_carry_out(context, module, &trial->choices, &arena, made);
    if (status == BASE_OK && looks) {
        measured.live_count = module->node_count;
        measured.live = BASE_ARRAY(&arena, size_t, module->node_count);
        if (!measured.live) status = base_fail_memory(context->report);
    }
    if (status == BASE_OK) status = context->measure(context, module, &measured);
    const bool impossible = status == BASE_INVALID && context->report->unsupported;
    if (impossible) {
        base_report_clear(context->report);
        status = note_impossible(context, module, trial, made, count, results)
                     ? BASE_OK
                     : base_fail_memory(context->report);
    } else {
        trial->bound = measured.bound;
        trial->arena = measured.arena;
        trial->saved_seconds = measured.saved_seconds;
    }
    if (status == BASE_OK && looks && !impossible &&
        !note_live(trial, made, nodes, count, measured.live, results))
        status = base_fail_memory(context->report);
    base_arena_free(&arena);
    ir_module_free(module);
    return status;
}

/* The order in which nodes run is made for the peak: what has less live than that may have more than it needs. */
static void learn(band_search *search, const band_choices *choices, const band_trial *trial, size_t count) {
    size_t next = 0;
    for (size_t i = 0; i <= choices->count; i++) {
        const band_choice *choice = i < choices->count ? &choices->list[i] : NULL;
        for (const size_t end = choice ? choice->first : count; next < end; next++)
            if (trial->steps[next])
                band_search_learn_step(search, next, (double)trial->steps[next],
                                       trial->steps[next] == trial->bound);
        if (!choice) break;
        if (trial->regions[i])
            band_search_learn(search, choice, (double)trial->regions[i], trial->regions[i] == trial->bound);
        next = choice->last + 1;
    }
    band_search_settle(search);
}

base_status band_try(pass_context *context, band_trials *trials, const band_choices *choices, bool kernels,
                     size_t kernel_arena, size_t enough, band_search *search, const band_trial **trial) {
    band_trial *own = trials->first;
    while (own && (own->kernels != kernels || own->kernel_arena != kernel_arena || (search && !own->steps) ||
                   !band_same_choices(&own->choices, choices)))
        own = own->next;
    if (!own) {
        own = BASE_NEW(trials->arena, band_trial);
        if (!own) return base_fail_memory(context->report);
        *own = (band_trial){.choices = *choices, .kernels = kernels, .kernel_arena = kernel_arena};
        base_status status = carry_out_and_plan(context, own, enough, search != NULL, trials->arena);
        if (status != BASE_OK) return status;
        own->next = trials->first;
        trials->first = own;
    }
    if (search) learn(search, choices, own, context->module->main->node_count);
    *trial = own;
    return BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* find_choices.c: see find_choices.h. */
#include "passes/bands/find_choices.h"
#include "passes/bands/trials.h"
#include <float.h>
#include <math.h>

enum { QUICK = 3 };

typedef struct finder {
    pass_context *context;
    band_search *search;
    band_trials trials;
    band_found *found;
    band_choices before; /* that were tried last */
    /* Plans may take so many seconds more than on direct kernels without bands. */
    double most;
    bool kernels; /* faster ones are chosen */
    bool learns;  /* the search learns from trials */
    bool placed;  /* what every trial comes to is asked for, even where it is no use */
    /* Trials that were quick enough with as much memory for kernels as where nothing is said: those with the least bound, this one first. */
    const band_trial *quick[QUICK];
    size_t quick_count;
} finder;

static finder new_finder(pass_context *context, band_search *search, band_found *found) {
    return (finder){.context = context,
                    .search = search,
                    .trials = {.arena = context->scratch},
                    .found = found,
                    .before = {.count = SIZE_MAX},
                    .most = DBL_MAX};
}

static base_status choices_within(const finder *f, double estimate, band_choices *choices) {
    return band_search_within(f->search, estimate, f->context->scratch, choices)
               ? BASE_OK
               : base_fail_memory(f->context->report);
}

static bool is_best(const finder *f, const band_choices *choices) {
    return band_same_choices(choices, &f->found->best);
}

static void note_quick(finder *f, const band_trial *trial) {
    size_t at = f->quick_count;
    for (size_t i = 0; i < f->quick_count; i++)
        if (f->quick[i] == trial) return;
    while (at > 0 && f->quick[at - 1]->bound > trial->bound) at--;
    if (at == QUICK) return;
    if (f->quick_count < QUICK) f->quick_count++;
    for (size_t i = f->quick_count - 1; i > at; i--) f->quick[i] = f->quick[i - 1];
    f->quick[at] = trial;
}

/* Tries choices with the kernels that fit into an arena of `kernel_arena` bytes (0: a little more than without faster ones). They are the best
 * ones if they are quick enough, and the arena is the smallest one so far. */
static base_status try_with_kernels(finder *f, const band_choices *choices, size_t kernel_arena, bool learns,
                                    size_t *bytes, bool *fits) {
    const band_trial *trial;
    base_status status = band_try(f->context, &f->trials, choices, f->kernels, kernel_arena,
                                  f->placed ? 0 : f->found->bytes, learns ? f->search : NULL, &trial);
    if (status != BASE_OK) return status;
    double more = -trial->saved_seconds;
    for (size_t i = 0; i < choices->count; i++)
        more += choices->list[i].more_seconds - choices->list[i].lost_seconds;
    *fits = more <= f->most;
    *bytes = trial->arena;
    if (*fits && !kernel_arena && choices->count) note_quick(f, trial);
    if (*fits && *bytes < f->found->bytes) *f->found = (band_found){*choices, *bytes, kernel_arena};
    return BASE_OK;
}

/* Choices that are too slow may be quick enough with more memory for kernels, and still be smaller than the best ones. */
static base_status try_larger_kernels(finder *f, const band_choices *choices, size_t bytes) {
    enum { TURNS = 3 };
    double low = (double)bytes, high = 0.98 * (double)f->found->bytes;
    base_status status = BASE_OK;
    for (int turn = 0; turn < TURNS && status == BASE_OK && high > 1.02 * low; turn++) {
        const double arena = turn ? sqrt(low * high) : high;
        bool fits = false;
        status = try_with_kernels(f, choices, (size_t)arena, false, &bytes, &fits);
        if (turn == 0 && !fits) break;
        if (turn) *(fits ? &high : &low) = arena;
    }
    return status;
}

/* Choices may be quick enough with less memory for kernels than what these are given where nothing is said. */
static base_status try_smaller_kernels(finder *f, const band_trial *quick) {
    enum { TURNS = 5 };
    double low = (double)quick->bound,
           high = (double)(quick->arena < f->found->bytes ? quick->arena : f->found->bytes);
    base_status status = BASE_OK;
    for (int turn = 0; turn < TURNS && status == BASE_OK && low < 0.99 * high; turn++) {
        const double arena = sqrt(low * high);
        size_t bytes = 0;
        bool fits = false;
        status = try_with_kernels(f, &quick->choices, (size_t)arena, false, &bytes, &fits);
        *(fits && (double)bytes <= arena ? &high : &low) = arena;
    }
    return status;
}

/* The estimated time that choices take more than direct kernels without bands, if they have all faster kernels. */
static double quickest(const finder *f, const band_choices *choices) {
    double seconds = -band_search_saved(f->search);
    for (size_t i = 0; i < choices->count; i++) seconds += choices->list[i].more_seconds;
    return seconds;
}

/* Tries choices, where they are not those before. Where the search learns from them, those that are too slow with any kernels are left out. */
static base_status attempt(finder *f, const band_choices *choices) {
    if (band_same_choices(choices, &f->before)) return BASE_OK;
    f->before = *choices;
    const bool may_fit = quickest(f, choices) <= f->most;
    if (f->learns && !may_fit) return BASE_OK;
    size_t bytes = 0;
    bool fits = false;
    base_status status = try_with_kernels(f, choices, 0, f->learns, &bytes, &fits);
    return status == BASE_OK && !fits && may_fit ? try_larger_kernels(f, choices, bytes) : status;
}

static base_status attempt_estimate(finder *f, double estimate) {
    band_choices choices;
    base_status status = choices_within(f, estimate, &choices);
    return status == BASE_OK ? attempt(f, &choices) : status;
}

/* Time falls as the arena grows, but not steadily: faster kernels fit into some bands and not into others. So estimates of all sizes are tried,
 * and then those just below the best one. */
static base_status find_below(finder *f) {
    enum { TURNS = 4, ESTIMATES = 8 };
    const double least = band_search_least(f->search);
    const double step = pow(band_search_whole(f->search) / least, 1.0 / ESTIMATES);
    base_status status = BASE_OK;
    double high = band_search_whole(f->search);
    for (int i = ESTIMATES; i >= 0 && status == BASE_OK; i--) {
        const double estimate = least * pow(step, i);
        const size_t best = f->found->bytes;
        status = attempt_estimate(f, estimate);
        if (f->found->bytes < best || is_best(f, &f->before)) high = estimate;
    }
    double low = high / step;
    for (int turn = 0; turn < TURNS && status == BASE_OK && low >= least; turn++) {
        const double middle = sqrt(low * high);
        const size_t best = f->found->bytes;
        status = attempt_estimate(f, middle);
        *(f->found->bytes < best || is_best(f, &f->before) ? &high : &low) = middle;
    }
    return status;
}

/* What lies just below the best choices. */
static base_status lower_estimate(finder *f) {
    enum { TURNS = 10 };
    static const double LESS = 0.975;
    const band_found *found = f->found;
    double estimate = LESS * found->best.bytes;
    base_status status = BASE_OK;
    for (int turn = 0; turn < TURNS && status == BASE_OK && found->best.count; turn++) {
        const size_t best = found->bytes;
        band_choices choices;
        if (estimate < band_search_least(f->search)) break;
        status = choices_within(f, estimate, &choices);
        if (status != BASE_OK) break;
        const bool known = band_same_choices(&choices, &f->before);
        status = attempt(f, &choices);
        if (found->bytes < best && found->best.bytes < estimate) estimate = found->best.bytes;
        if (known || found->bytes < best) estimate *= LESS;
    }
    return status;
}

/* The least estimate of all, until nothing is learnt from it. */
static base_status settle(finder *f) {
    enum { TURNS = 12 };
    base_status status = BASE_OK;
    for (int turn = 0; turn < TURNS && status == BASE_OK; turn++) {
        const band_choices before = f->before;
        status = attempt_estimate(f, band_search_least(f->search));
        if (band_same_choices(&f->before, &before)) break;
    }
    return status;
}

/* Regions that are not alike may be wrong by different factors: those at the peak of the best choices get lower bands by themselves. */
static base_status lower_peaks(finder *f) {
    enum { TURNS = 10 };
    band_choices lower = f->found->best;
    base_status status = BASE_OK;
    for (int turn = 0; turn < TURNS && status == BASE_OK && lower.count; turn++) {
        const band_choices now = lower;
        if (!band_search_lower(f->search, &now, f->context->scratch, &lower))
            return base_fail_memory(f->context->report);
        if (lower.count) status = attempt(f, &lower);
        if (!is_best(f, &lower)) break;
    }
    return status;
}

/* The least estimates are tried first, and what they come to tells what others are worth. So an estimate may have other choices when it is tried
 * again, and one below the best choices may be met. What is far above these is no use. */
static base_status find_learning(finder *f) {
    enum { ESTIMATES = 24, ROUNDS = 2 };
    static const double FAR = 1.3;
    const double least = band_search_least(f->search);
    const double step = pow(band_search_whole(f->search) / least, 1.0 / ESTIMATES);
    band_choices first[ESTIMATES + 1]; /* before anything is learnt */
    base_status status = BASE_OK;
    f->learns = true;
    for (int i = 0; i <= ESTIMATES && status == BASE_OK; i++)
        status = choices_within(f, least * pow(step, i), &first[i]);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i <= ESTIMATES && status == BASE_OK; i++) {
            const double estimate = least * pow(step, i);
            if (estimate > FAR * (double)f->found->bytes) break;
            status = round ? attempt_estimate(f, estimate) : attempt(f, &first[i]);
            if (status == BASE_OK) status = attempt_estimate(f, estimate);
        }
    if (status == BASE_OK) status = lower_estimate(f);
    if (status == BASE_OK) status = settle(f);
    if (status == BASE_OK) status = lower_peaks(f);
    for (size_t i = 0; i < f->quick_count && status == BASE_OK && f->kernels; i++)
        status = try_smaller_kernels(f, f->quick[i]);
    return status;
}

base_status band_find_least(pass_context *context, band_search *search, band_found *found) {
    finder f = new_finder(context, search, found);
    return find_learning(&f);
}

/* The estimate is lowered by as much as it was wrong. */
base_status band_find_within(pass_context *context, band_search *search, size_t limit, band_found *found) {
    enum { TURNS = 6 };
    finder f = new_finder(context, search, found);
    f.placed = true;
    double estimate = (double)limit;
    base_status status = BASE_OK;
    for (int turn = 0; turn < TURNS && found->bytes > limit && status == BASE_OK; turn++) {
        band_choices choices;
        size_t bytes = 0;
        bool fits;
        status = choices_within(&f, estimate, &choices);
        if (status == BASE_OK) status = try_with_kernels(&f, &choices, 0, false, &bytes, &fits);
        if (estimate <= band_search_least(search)) break;
        const double wrong = bytes > limit ? (double)limit / (double)bytes : 1;
        estimate *= wrong < 0.95 ? wrong : 0.95;
    }
    f.placed = false;
    return status == BASE_OK && found->bytes > limit ? find_learning(&f) : status;
}

base_status band_find_within_time(pass_context *context, band_search *search, double limit,
                                  band_found *found) {
    finder f = new_finder(context, search, found);
    const double saved = band_search_saved(search);
    f.kernels = true;
    f.most = (limit - 1) * (band_search_seconds(search) - saved) - saved;
    for (size_t i = 0; i < context->recomputed_count; i++) f.most -= context->recomputed[i].seconds;
    return limit < 1 ? find_below(&f) : find_learning(&f);
}

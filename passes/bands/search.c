/* SPDX-License-Identifier: Apache-2.0 */
/* search.c: see search.h. */
#include "passes/bands/search.h"
#include "passes/bands/simulate.h"
#include <float.h>
#include <stdint.h>

/* Nodes that are looked at in all regions together, a second or two; each first node has the same share of what is left. */
static const double MOST_WORK = 1e8;
enum { MOST_NODES = 600 };
static const int64_t heights[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 64};
enum { HEIGHTS = sizeof heights / sizeof *heights };

typedef struct edge {
    band_choice choice;
    double estimate; /* of its peak; choice.bytes is what was learnt since */
    bool is_known;   /* it was carried out */
    int32_t next;    /* of those that begin at the same step */
} edge;

struct band_search {
    base_arena *arena;
    band_steps steps;
    edge *edges;
    size_t edge_count, edge_capacity;
    int32_t *begins; /* by step: its first edge; -1 */
    double least;    /* the least peak with bands */
    double *peaks;   /* by step: the least one on the way there */
    double work;
};

/* ---- all regions ----------------------------------------------------------------------------------------- */

static bool add_edge(band_search *s, const band_choice *choice) {
    edge *edges = base_arena_grow(s->arena, s->edges, &s->edge_capacity, s->edge_count + 1, sizeof *edges);
    if (!edges || s->edge_count >= INT32_MAX) return false;
    s->edges = edges;
    edges[s->edge_count] = (edge){*choice, choice->bytes, false, s->begins[choice->first]};
    s->begins[choice->first] = (int32_t)s->edge_count++;
    return true;
}

/* The regions that begin here, the shorter ones first. */
static bool try_regions(band_search *s, size_t first) {
    double state[HEIGHTS] = {0};
    const double until = s->work + (MOST_WORK - s->work) / (double)(s->steps.count - first);
    bool hopeless[HEIGHTS] = {false};
    bool saves = false;
    for (size_t last = first; last < s->steps.count && last - first < MOST_NODES; last++) {
        const band_step *own = &s->steps.list[last];
        if (!own->supported || own->all_from >= (int32_t)first) break;
        saves = saves || own->saved > 0;
        if (last == first) continue;
        for (int h = 0; h < HEIGHTS && heights[h] * 2 <= own->rows; h++) {
            band_choice choice = {0};
            if (hopeless[h]) continue;
            s->work += (double)(last - first);
            if (!band_simulate(&s->steps, first, last, heights[h], false, s->steps.whole, &choice)) continue;
            if (!choice.rows) {
                state[h] += 1; /* what goes out later may be less, but not for long */
                hopeless[h] = state[h] > 60;
                continue;
            }
            if (choice.bytes < s->steps.whole && !add_edge(s, &choice)) return false;
            band_choice faster = {0};
            if (!saves || !band_simulate(&s->steps, first, last, heights[h], true, s->steps.whole, &faster))
                continue;
            s->work += (double)(last - first);
            if (faster.rows && faster.bytes < s->steps.whole && faster.more_seconds < choice.more_seconds &&
                !add_edge(s, &faster))
                return false;
        }
        if (s->work > until) break;
    }
    return true;
}

/* By step: the least peak on the way there. */
void band_search_settle(band_search *s) {
    double *peaks = s->peaks;
    peaks[0] = 0;
    for (size_t n = 1; n <= s->steps.count; n++) peaks[n] = DBL_MAX;
    for (size_t n = 0; n < s->steps.count; n++) {
        const double alone = s->steps.list[n].alone > peaks[n] ? s->steps.list[n].alone : peaks[n];
        if (alone < peaks[n + 1]) peaks[n + 1] = alone;
        for (int32_t e = s->begins[n]; e >= 0; e = s->edges[e].next) {
            const band_choice *choice = &s->edges[e].choice;
            const double peak = choice->bytes > peaks[n] ? choice->bytes : peaks[n];
            if (peak < peaks[choice->last + 1]) peaks[choice->last + 1] = peak;
        }
    }
    s->least = peaks[s->steps.count];
}

/* Of all steps of two regions, at least three quarters are in both. */
static bool are_alike(const band_choice *a, const band_choice *b) {
    const size_t first = a->first > b->first ? a->first : b->first,
                 last = a->last < b->last ? a->last : b->last;
    if (first > last) return false;
    const size_t both = last - first + 1, all = (a->last > b->last ? a->last : b->last) -
                                                (a->first < b->first ? a->first : b->first) + 1;
    return 4 * both >= 3 * all;
}

void band_search_learn(band_search *s, const band_choice *choice, double bytes, bool is_peak) {
    double estimate = choice->bytes;
    if (!is_peak && bytes >= choice->bytes) return;
    for (size_t e = 0; e < s->edge_count; e++) {
        edge *of = &s->edges[e];
        if (of->choice.first != choice->first || of->choice.last != choice->last ||
            of->choice.rows != choice->rows || of->choice.channels_last != choice->channels_last)
            continue;
        estimate = of->estimate;
        of->choice.bytes = bytes;
        of->is_known = true;
    }
    for (size_t e = 0; e < s->edge_count; e++) {
        edge *of = &s->edges[e];
        if (!of->is_known && are_alike(&of->choice, choice))
            of->choice.bytes = of->estimate * bytes / estimate;
    }
}

void band_search_learn_step(band_search *s, size_t n, double bytes, bool is_peak) {
    if (is_peak || bytes < s->steps.list[n].alone) s->steps.list[n].alone = bytes;
}

band_search *band_search_new(const ir_module *module, const rt_environment *environment,
                             const band_savings *savings, base_arena *arena) {
    band_search *s = BASE_NEW(arena, band_search);
    if (!s || !band_steps_read(module, environment, savings, arena, &s->steps)) return NULL;
    const size_t count = s->steps.count;
    s->arena = arena;
    s->begins = BASE_ARRAY(arena, int32_t, count + 1);
    s->peaks = BASE_ARRAY(arena, double, count + 1);
    if (!s->begins || !s->peaks) return NULL;
    for (size_t n = 0; n < count; n++) s->begins[n] = -1;
    for (size_t n = 0; n < count; n++)
        if (s->steps.list[n].supported && !try_regions(s, n)) return NULL;
    band_search_settle(s);
    return s;
}

double band_search_whole(const band_search *search) {
    return search->steps.whole;
}

double band_search_least(const band_search *search) {
    return search->least;
}

double band_search_saved(const band_search *search) {
    return search->steps.saved;
}

double band_search_seconds(const band_search *search) {
    return search->steps.seconds;
}

/* ---- the least time within a limit ------------------------------------------------------------------------ */

typedef struct arrival {
    double seconds;
    int32_t edge; /* the region that ends here; -1: a step alone */
    bool reached;
} arrival;

static void arrive(arrival *at, double seconds, int32_t by) {
    if (at->reached && at->seconds <= seconds) return;
    *at = (arrival){seconds, by, true};
}

bool band_search_within(const band_search *s, double bytes, base_arena *arena, band_choices *choices) {
    const double limit = bytes > s->least ? bytes : s->least;
    arrival *arrivals = BASE_ARRAY(arena, arrival, s->steps.count + 1);
    *choices = (band_choices){.list = BASE_ARRAY(arena, band_choice, s->steps.count + 1)};
    if (!arrivals || !choices->list) return false;
    arrivals[0].reached = true;
    for (size_t n = 0; n < s->steps.count; n++) {
        const arrival *here = &arrivals[n];
        if (!here->reached) continue;
        if (s->steps.list[n].alone <= limit) arrive(&arrivals[n + 1], here->seconds, -1);
        for (int32_t e = s->begins[n]; e >= 0; e = s->edges[e].next) {
            const band_choice *choice = &s->edges[e].choice;
            if (choice->bytes <= limit)
                arrive(&arrivals[choice->last + 1], here->seconds + choice->more_seconds, e);
        }
    }
    choices->more_seconds = arrivals[s->steps.count].seconds;
    for (size_t n = s->steps.count; n > 0;) {
        const int32_t e = arrivals[n].edge;
        const double peak = e < 0 ? s->steps.list[n - 1].alone : s->edges[e].choice.bytes;
        if (peak > choices->bytes) choices->bytes = peak;
        if (e < 0) {
            n--;
            continue;
        }
        choices->list[choices->count++] = s->edges[e].choice;
        n = s->edges[e].choice.first;
    }
    for (size_t i = 0; i < choices->count / 2; i++) {
        const band_choice other = choices->list[i];
        choices->list[i] = choices->list[choices->count - 1 - i];
        choices->list[choices->count - 1 - i] = other;
    }
    return true;
}

bool band_search_lower(const band_search *s, const band_choices *choices, base_arena *arena,
                       band_choices *lower) {
    static const double NEARLY = 0.97;
    double peak = 0;
    *lower = (band_choices){.list = BASE_ARRAY(arena, band_choice, choices->count)};
    if (!lower->list) return false;
    band_choice *const list = lower->list;
    for (size_t i = 0; i < choices->count; i++) {
        list[i] = choices->list[i];
        for (int32_t e = s->begins[list[i].first]; e >= 0; e = s->edges[e].next) {
            const band_choice *known = &s->edges[e].choice;
            if (known->last == list[i].last && known->rows == list[i].rows &&
                known->channels_last == list[i].channels_last)
                list[i].bytes = known->bytes;
        }
        if (list[i].bytes > peak) peak = list[i].bytes;
    }
    for (size_t i = 0; i < choices->count; i++) {
        const band_choice *best = NULL;
        for (int32_t e = s->begins[list[i].first]; e >= 0 && list[i].bytes >= NEARLY * peak;
             e = s->edges[e].next) {
            const band_choice *other = &s->edges[e].choice;
            if (other->last != list[i].last || other->rows >= list[i].rows ||
                (best && other->rows < best->rows))
                continue;
            if (!best || other->rows > best->rows || other->more_seconds < best->more_seconds) best = other;
        }
        if (!best && list[i].bytes >= NEARLY * peak) return true;
        if (best) list[i] = *best;
        lower->more_seconds += list[i].more_seconds;
        if (list[i].bytes > lower->bytes) lower->bytes = list[i].bytes;
    }
    lower->count = choices->count;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* search.c: see search.h. */
#include "passes/planners/exact/search.h"
#include "passes/planners/base/sorting.h"
#include <stdlib.h>
#include <string.h>

enum {
    TABLE_BITS = 20,
    PARTS = 8,
    LONG_RESTART = 512,    /* nodes beyond two descents; a short restart has one and a half */
    DEEPEST = 8192,        /* decisions on a path: what the stack of a thread bears */
    COVERS_OF_WORK = 4096, /* a node of a problem with so many buffers in all sections is one unit of work */
};

/* What the order of alternatives is a mixture of; every restart draws its weights below these. Chance weighs
 * little: it decides between buffers that are nearly as good. */
enum { BY_SIZE, BY_LIFE, BY_AREA, BY_WALLS, BY_LEVEL, BY_CHANCE };
static const double most_weight[SEARCH_HEURISTICS] = {
    [BY_SIZE] = 1, [BY_LIFE] = 1, [BY_AREA] = 1, [BY_WALLS] = 0.1, [BY_LEVEL] = 0.2, [BY_CHANCE] = 0.25};

struct search_memory {
    uint64_t failed[1 << TABLE_BITS]; /* in the place that a hash's high bits say */
};

static double random_unit(search *s) {
    s->random = planner_mix(s->random);
    return (double)(s->random >> 11) / 9007199254740992.0;
}

static bool stopped(search *s) {
    if (s->out_of_nodes || s->sky.out_of_memory || planner_budget_spend(s->budget, s->node_work)) return true;
    s->spent += s->node_work;
    if (s->nodes++ >= s->node_limit || s->depth >= DEEPEST) s->out_of_nodes = true;
    return s->out_of_nodes;
}

/* The sections [first, last) with what is still to come there and what it can stand on; the rest of the
 * problem does not matter to them. */
static uint64_t state_hash(const search *s, uint32_t first, uint32_t last) {
    const skyline *sky = &s->sky;
    uint64_t sum = 0;
    /* Each section by itself, so that none waits for the one before. */
    for (uint32_t k = first; k < last; k++) {
        if (sky->left[k] == 0) continue;
        uint64_t hash = ((uint64_t)sky->floor[k] << 32 | (uint32_t)sky->top[k]) + (k + 1) * BASE_RANDOM_STEP;
        hash = (hash ^ (hash >> 32)) * 0xBF58476D1CE4E5B9u;
        hash = ((hash ^ (hash >> 29)) + sky->sets[k]) * 0x94D049BB133111EBu;
        sum += hash ^ (hash >> 32);
    }
    const uint64_t hash = planner_mix(sum ^ planner_mix((uint64_t)sky->capacity ^ planner_mix(s->seed)) ^
                                      planner_mix(((uint64_t)first << 32) | last));
    return hash ? hash : 1;
}

/* The section of a valley in [first, last) with the fewest alternatives; ties: the least slack, then the
 * first. */
static uint32_t choose_section(search *s, uint32_t first, uint32_t last) {
    skyline *sky = &s->sky;
    uint32_t best = SKYLINE_NONE, best_count = UINT32_MAX;
    int32_t best_slack = INT32_MAX;
    for (uint32_t k = first, end; k < last; k = end) {
        end = k + 1;
        if (sky->left[k] == 0) continue;
        while (end < last && sky->spans[end] > 0 && sky->floor[end] == sky->floor[k]) end++;
        if (k > first && sky->spans[k] > 0 && sky->floor[k - 1] < sky->floor[k]) continue;
        if (end < last && sky->spans[end] > 0 && sky->floor[end] < sky->floor[k]) continue;
        for (uint32_t v = k; v < end; v++) {
            const int32_t slack = sky->reach[v] - sky->floor[v];
            uint32_t count = (slack > 0) + exact_skyline_count_fits(sky, v);
            if (count < best_count || (count == best_count && slack < best_slack)) {
                best = v;
                best_count = count;
                best_slack = slack;
            }
        }
    }
    return best;
}

typedef struct search_alternative {
    uint32_t buffer; /* SKYLINE_NONE: waste up to the next level */
    double score;
} search_alternative;

static int compare_alternatives(const void *left, const void *right) {
    const search_alternative *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

/* What could come next in section k, best first, on top of the stack; wasting a floor comes last. */
static size_t list_alternatives(search *s, uint32_t k) {
    const skyline *sky = &s->sky;
    size_t needed = s->stack_count + sky->left[k] + 1, count = 0;
    if (needed > s->stack_capacity) {
        search_alternative *grown = realloc(s->stack, 2 * needed * sizeof *grown);
        if (!grown) {
            s->sky.out_of_memory = true;
            return 0;
        }
        s->stack = grown;
        s->stack_capacity = 2 * needed;
    }
    search_alternative *alternatives = s->stack + s->stack_count;
    uint32_t first, last;
    exact_skyline_valley(sky, k, &first, &last);
    for (uint32_t c = sky->cover_starts[k]; c < sky->cover_starts[k + 1]; c++) {
        const uint32_t b = sky->covers[c];
        if (sky->starts[c] != sky->floor[k] || !exact_skyline_fits(sky, b, k)) continue;
        const skyline_item *i = &sky->items[b];
        const int32_t top = sky->start[b] + i->size;
        bool left = i->first <= first, right = i->last >= last; /* touches the valley's walls */
        int walls = left + right;
        int level = (left && first > 0 && sky->floor[first - 1] == top) +
                    (right && last < sky->section_count && sky->floor[last] == top);
        double size = (double)i->size / (double)sky->capacity;
        double life = (double)(i->last - i->first) / (double)sky->section_count;
        const double *weights = s->weights;
        alternatives[count++] = (search_alternative){
            .buffer = b,
            .score = weights[BY_SIZE] * size + weights[BY_LIFE] * life + weights[BY_AREA] * size * life +
                     weights[BY_WALLS] * walls + weights[BY_LEVEL] * level};
    }
    /* Chance belongs to the buffer and the node, not to the place in the row: that depends on the past. */
    if (s->weights[BY_CHANCE] > 0) {
        for (size_t a = 0; a < count; a++) {
            uint64_t chance = planner_mix(s->random ^ sky->keys[alternatives[a].buffer] ^ s->nodes);
            alternatives[a].score += s->weights[BY_CHANCE] * ((double)(chance >> 11) / 9007199254740992.0);
        }
    }
    qsort(alternatives, count, sizeof *alternatives, compare_alternatives);
    if (sky->reach[k] > sky->floor[k]) alternatives[count++] = (search_alternative){.buffer = SKYLINE_NONE};
    s->stack_count += count;
    return count;
}

static search_outcome solve_range(search *s, uint32_t first, uint32_t last);

/* Solves what is to come in [first, last), a part that no buffer's life leaves. */
static search_outcome solve_part(search *s, uint32_t first, uint32_t last) {
    skyline *sky = &s->sky;
    if (stopped(s)) return SEARCH_STOPPED;
    uint64_t hash = state_hash(s, first, last);
    uint64_t *entry = &s->memory->failed[hash >> (64 - TABLE_BITS)];
    __builtin_prefetch(entry); /* it is far away, and most often it is another one that stands there */
    const uint32_t k = choose_section(s, first, last);
    if (*entry == hash) return SEARCH_FAILED;
    size_t base = s->stack_count, count = list_alternatives(s, k);
    search_outcome result = SEARCH_FAILED;
    s->depth++;
    for (size_t a = 0; a < count && result == SEARCH_FAILED; a++) {
        size_t mark = sky->trail_count;
        uint32_t b = s->stack[base + a].buffer;
        bool alive = b != SKYLINE_NONE ? exact_skyline_place(sky, b) : exact_skyline_waste(sky, k);
        if (alive) result = solve_range(s, first, last);
        if (sky->out_of_memory) result = SEARCH_STOPPED;
        if (result != SEARCH_SOLVED && !s->budget->over) exact_skyline_undo(sky, mark);
    }
    s->depth--;
    s->stack_count = base;
    if (sky->out_of_memory) result = SEARCH_STOPPED;
    if (result == SEARCH_FAILED) *entry = hash;
    return result;
}

/* Splits [first, last) where nothing spans and solves the parts, the narrowest first. */
static search_outcome solve_range(search *s, uint32_t first, uint32_t last) {
    const skyline *sky = &s->sky;
    uint32_t bounds[PARTS][2], parts = 0, k = first;
    while (k < last && parts < PARTS) {
        if (sky->left[k] == 0) {
            k++;
            continue;
        }
        uint32_t end = k + 1;
        while (end < last && sky->spans[end] > 0) end++;
        bounds[parts][0] = k;
        bounds[parts++][1] = end;
        k = end;
    }
    for (uint32_t i = 1; i < parts; i++) {
        uint32_t moved[2] = {bounds[i][0], bounds[i][1]}, j = i;
        for (; j > 0 && moved[1] - moved[0] < bounds[j - 1][1] - bounds[j - 1][0]; j--) {
            memcpy(bounds[j], bounds[j - 1], sizeof moved);
        }
        memcpy(bounds[j], moved, sizeof moved);
    }
    for (uint32_t i = 0; i < parts; i++) {
        search_outcome result = solve_part(s, bounds[i][0], bounds[i][1]);
        if (result != SEARCH_SOLVED) return result;
    }
    return k < last ? solve_range(s, k, last) : SEARCH_SOLVED;
}

search_memory *exact_search_memory_new(base_arena *arena) {
    return BASE_NEW(arena, search_memory);
}

bool exact_search_init(search *s, const planner_problem *problem, uint64_t seed, planner_budget *budget,
                       search_memory *memory, base_arena *arena) {
    *s = (search){.seed = seed, .budget = budget, .memory = memory};
    if (!exact_skyline_init(&s->sky, problem, arena)) return false;
    s->node_work = 1 + s->sky.cover_starts[s->sky.section_count] / COVERS_OF_WORK;
    return true;
}

void exact_search_free(search *s) {
    free(s->stack);
    s->stack = NULL;
    exact_skyline_free(&s->sky);
}

/* 1, 1, 2, 1, 1, 2, 4, ...: Luby, Sinclair, Zuckerman, "Optimal speedup of Las Vegas algorithms" (1993). */
static uint64_t luby(uint64_t i) {
    for (uint64_t k = 1;; k++) {
        if (i == (UINT64_C(1) << k) - 1) return UINT64_C(1) << (k - 1);
        if (i < (UINT64_C(1) << k) - 1) return luby(i - (UINT64_C(1) << (k - 1)) + 1);
    }
}

search_outcome exact_search_decide(search *s, size_t capacity, uint64_t nodes) {
    uint64_t spent = 0;
    if (capacity > SKYLINE_MOST || s->budget->over || s->sky.out_of_memory) return SEARCH_STOPPED;
    for (uint64_t restart = 1; spent < nodes; restart++) {
        s->nodes = 0;
        /* Short and long ones take turns: where a descent went wrong at its beginning, only a new one helps. */
        const uint64_t descent = s->sky.item_count;
        s->node_limit = (restart % 2 ? descent + descent / 2 : LONG_RESTART + 2 * descent) * luby(restart);
        s->out_of_nodes = false;
        s->random = planner_mix(s->seed + restart);
        s->depth = 0;
        s->stack_count = 0;
        /* Without a seed the first try is the plain heuristic; all others are mixtures. */
        for (int w = 0; w < SEARCH_HEURISTICS; w++)
            s->weights[w] = restart == 1 && s->seed == 0 ? w == BY_AREA : most_weight[w] * random_unit(s);
        size_t mark = s->sky.trail_count;
        search_outcome result = SEARCH_FAILED;
        if (exact_skyline_begin(&s->sky, capacity)) result = solve_range(s, 0, s->sky.section_count);
        if (s->sky.out_of_memory || s->budget->over) return SEARCH_STOPPED; /* going back takes time */
        exact_skyline_undo(&s->sky, mark);                                  /* offsets stay */
        if (result != SEARCH_STOPPED) return result;
        spent += s->nodes;
    }
    return SEARCH_STOPPED;
}

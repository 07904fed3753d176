/* exact.c: sound and complete search over offsets, with a proof or within a time.
 *
 * Partial solutions are skylines (skyline.h), built from the bottom up. Branching: in a valley (a run of
 * sections of equal floor between higher ones) take a section; the first buffer above it in the solution
 * either starts at the floor (then it is one of the few that lie inside the valley) or at the next level or
 * higher (skyline_next_level). The section with the fewest such alternatives is branched on, so that forced
 * moves come first. Every pushed-down solution is reached: running out of alternatives is a proof.
 *
 * Between sections that no buffer still to come spans, the problem falls apart; the parts are solved one by
 * one, and a part that fails is not tried again with another solution of its neighbour. States (buffers to
 * come and floors of a part) that have failed are remembered. Equal buffers are placed in the order of their
 * numbers. The order of alternatives is a mixture of heuristics that changes at restarts; it depends on
 * nothing but the problem.
 *
 * The height is found from both sides: first the lower bound is asked for, then ever less than the best
 * known, as long as the time allows; where no time is given, for a fixed number of nodes, so that the answer
 * does not depend on the machine. `optimal` is said only of a height that no smaller one was left to ask for.
 *
 * Source: our own. Skylines for this problem are described in "MiniMalloc: A Lightweight Memory Allocator for
 * Hardware-Accelerated Machine Learning" (ASPLOS 2023).
 */
#include "passes/planners/quick.h"
#include "passes/planners/skyline.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TABLE_BITS = 20, CLOCK_EVERY = 64, PARTS = 32, LOCAL_ALTERNATIVES = 64, HEURISTICS = 4 };
enum { RESTART_NODES = 4096, UNTIMED_NODES = 100000 };

typedef enum outcome { SOLVED, FAILED, STOPPED } outcome;

typedef struct search {
    skyline sky;
    uint64_t *failed; /* states without a solution, by their hash's high bits */
    double weights[HEURISTICS];
    uint64_t random;
    uint64_t nodes, node_limit;
    uint64_t budget; /* nodes left in all where no time is given */
    bool timed;
    struct timespec deadline;
    bool out_of_time, out_of_nodes;
} search;

static uint64_t mix(uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static double random_unit(search *s) {
    s->random = mix(s->random);
    return (double)(s->random >> 11) / 9007199254740992.0;
}

static bool stopped(search *s) {
    if (s->out_of_time || s->out_of_nodes || s->sky.out_of_memory) return true;
    if (s->nodes++ >= s->node_limit) s->out_of_nodes = true;
    if (!s->timed) {
        s->out_of_time = s->budget == 0;
        s->budget -= s->budget > 0;
    } else if (s->nodes % CLOCK_EVERY == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        s->out_of_time = now.tv_sec > s->deadline.tv_sec ||
                         (now.tv_sec == s->deadline.tv_sec && now.tv_nsec >= s->deadline.tv_nsec);
    }
    return s->out_of_time || s->out_of_nodes;
}

/* The sections [first, last) with what is still to come there; the rest of the problem does not matter to
 * them. */
static uint64_t state_hash(const search *s, uint32_t first, uint32_t last) {
    const skyline *sky = &s->sky;
    uint64_t hash = mix(sky->capacity) ^ mix(((uint64_t)first << 32) | last);
    for (uint32_t k = first; k < last; k++) {
        if (sky->left[k] > 0) hash = mix(hash ^ sky->floor[k] ^ ((uint64_t)k << 44)) + sky->sets[k];
    }
    return hash ? hash : 1;
}

/* The section of a valley in [first, last) with the fewest alternatives; ties: the least slack, then the
 * first. */
static uint32_t choose_section(search *s, uint32_t first, uint32_t last) {
    skyline *sky = &s->sky;
    uint32_t best = SKYLINE_NONE, best_count = UINT32_MAX;
    size_t best_slack = SIZE_MAX;
    for (uint32_t k = first, end; k < last; k = end) {
        end = k + 1;
        if (sky->left[k] == 0) continue;
        while (end < last && sky->left[end] > 0 && sky->floor[end] == sky->floor[k]) end++;
        bool wall_left = k == first || sky->left[k - 1] == 0 || sky->floor[k - 1] > sky->floor[k];
        bool wall_right = end == last || sky->left[end] == 0 || sky->floor[end] > sky->floor[k];
        if (!wall_left || !wall_right) continue;
        for (uint32_t v = k; v < end; v++) {
            size_t slack = sky->capacity - sky->floor[v] - sky->to_come[v];
            uint32_t count = (slack > 0) + skyline_count_fits(sky, v);
            if (count < best_count || (count == best_count && slack < best_slack)) {
                best = v;
                best_count = count;
                best_slack = slack;
            }
        }
    }
    return best;
}

typedef struct alternative {
    uint32_t buffer; /* SKYLINE_NONE: waste up to the next level */
    double score;
} alternative;

static int compare_alternatives(const void *left, const void *right) {
    const alternative *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

/* What could come next in section k, best first; wasting room comes last. */
static size_t list_alternatives(search *s, uint32_t k, alternative *alternatives) {
    const skyline *sky = &s->sky;
    size_t count = 0;
    for (uint32_t c = sky->cover_starts[k]; c < sky->cover_starts[k] + sky->left[k]; c++) {
        uint32_t b = sky->covers[c];
        if (!skyline_fits(sky, b, k)) continue;
        double size = (double)sky->items[b].size / (double)sky->capacity;
        double life = (double)(sky->items[b].last - sky->items[b].first) / (double)sky->section_count;
        alternatives[count].buffer = b;
        alternatives[count++].score = s->weights[0] * size + s->weights[1] * life +
                                      s->weights[2] * size * life + s->weights[3] * random_unit(s);
    }
    qsort(alternatives, count, sizeof *alternatives, compare_alternatives);
    if (sky->capacity - sky->floor[k] > sky->to_come[k])
        alternatives[count++] = (alternative){.buffer = SKYLINE_NONE};
    return count;
}

static outcome solve_range(search *s, uint32_t first, uint32_t last);

/* Solves what is to come in [first, last), a part that no buffer's life leaves. */
static outcome solve_part(search *s, uint32_t first, uint32_t last) {
    skyline *sky = &s->sky;
    if (stopped(s)) return STOPPED;
    uint64_t hash = state_hash(s, first, last);
    uint64_t *slot = &s->failed[hash >> (64 - TABLE_BITS)];
    if (*slot == hash) return FAILED;

    uint32_t k = choose_section(s, first, last);
    size_t width = (size_t)sky->left[k] + 1;
    alternative local[LOCAL_ALTERNATIVES], *alternatives = local;
    if (width > LOCAL_ALTERNATIVES && !(alternatives = malloc(width * sizeof *alternatives))) {
        sky->out_of_memory = true;
        return STOPPED;
    }
    size_t count = list_alternatives(s, k, alternatives);
    outcome result = FAILED;
    for (size_t a = 0; a < count && result == FAILED; a++) {
        size_t mark = sky->trail_count;
        uint32_t b = alternatives[a].buffer;
        bool alive =
            b != SKYLINE_NONE ? skyline_place(sky, b) : skyline_waste(sky, k, skyline_next_level(sky, k));
        if (alive) result = solve_range(s, first, last);
        if (sky->out_of_memory) result = STOPPED;
        if (result != SOLVED) skyline_undo(sky, mark);
    }
    if (alternatives != local) free(alternatives);
    if (result == FAILED) *slot = hash;
    return result;
}

/* Splits [first, last) where nothing spans and solves the parts, the narrowest first. */
static outcome solve_range(search *s, uint32_t first, uint32_t last) {
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
        outcome result = solve_part(s, bounds[i][0], bounds[i][1]);
        if (result != SOLVED) return result;
    }
    return k < last ? solve_range(s, k, last) : SOLVED;
}

/* 1, 1, 2, 1, 1, 2, 4, ...: Luby, Sinclair, Zuckerman, "Optimal speedup of Las Vegas algorithms" (1993). */
static uint64_t luby(uint64_t i) {
    for (uint64_t k = 1;; k++) {
        if (i == (UINT64_C(1) << k) - 1) return UINT64_C(1) << (k - 1);
        if (i < (UINT64_C(1) << k) - 1) return luby(i - (UINT64_C(1) << (k - 1)) + 1);
    }
}

/* Does everything fit into `capacity`? On SOLVED sky.offsets is a solution. */
static outcome decide(search *s, size_t capacity, uint64_t nodes) {
    uint64_t spent = 0;
    for (uint64_t restart = 1; spent < nodes; restart++) {
        s->nodes = 0;
        s->node_limit = RESTART_NODES * luby(restart);
        s->out_of_nodes = false;
        s->random = mix(restart);
        /* The first try is the plain heuristic, the later ones mixtures. */
        for (int w = 0; w < HEURISTICS; w++) s->weights[w] = restart == 1 ? w == 2 : random_unit(s);
        size_t mark = s->sky.trail_count;
        outcome result = FAILED;
        if (skyline_begin(&s->sky, capacity)) result = solve_range(s, 0, s->sky.section_count);
        skyline_undo(&s->sky, mark); /* offsets stay */
        if (s->sky.out_of_memory || s->out_of_time) return STOPPED;
        if (result != STOPPED) return result;
        spent += s->nodes;
    }
    return STOPPED;
}

/* ---- the planner --------------------------------------------------------------------------------------- */

static size_t gcd(size_t a, size_t b) {
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static size_t height_of(const planner_problem *problem, const size_t *offsets) {
    size_t height = 0;
    for (size_t b = 0; b < problem->buffer_count; b++) {
        size_t top = offsets[b] + problem->buffers[b].size;
        if (problem->buffers[b].size && top > height) height = top;
    }
    return height;
}

static bool search_init(search *s, const planner_problem *problem, double seconds, base_arena *arena) {
    memset(s, 0, sizeof *s);
    if (!skyline_init(&s->sky, problem, arena)) return false;
    s->failed = BASE_ARRAY(arena, uint64_t, (size_t)1 << TABLE_BITS);
    if (!s->failed) return false;
    s->timed = seconds > 0;
    s->budget = UNTIMED_NODES;
    clock_gettime(CLOCK_MONOTONIC, &s->deadline);
    double whole = seconds < 1e9 ? seconds : 1e9;
    s->deadline.tv_sec += (time_t)whole;
    s->deadline.tv_nsec += (long)((whole - (double)(time_t)whole) * 1e9);
    if (s->deadline.tv_nsec >= 1000000000L) {
        s->deadline.tv_sec++;
        s->deadline.tv_nsec -= 1000000000L;
    }
    return true;
}

/* Narrows [solution->lower_bound, solution->height] until they meet or the time is over. `quantum` divides
 * all sizes and alignments, and so all heights. */
static void improve(search *s, const planner_problem *problem, size_t quantum, planner_solution *solution) {
    size_t enough = problem->capacity ? problem->capacity : 0;
    size_t target = enough && enough > solution->lower_bound ? enough : solution->lower_bound;
    uint64_t nodes = enough ? UINT64_MAX : 16 * RESTART_NODES;
    while (solution->height > solution->lower_bound && solution->height > enough) {
        outcome result = decide(s, target, nodes);
        if (result == SOLVED) {
            memcpy(solution->offsets, s->sky.offsets, problem->buffer_count * sizeof *solution->offsets);
            solution->height = height_of(problem, solution->offsets);
        } else if (result == FAILED) {
            size_t next = target - target % quantum;
            if (!base_size_add(next, quantum, &solution->lower_bound)) return;
            if (enough) return; /* it does not fit */
        } else if (s->out_of_time || s->sky.out_of_memory) {
            return;
        } else if (solution->height - target <= 2 * quantum) {
            /* Every target up to the best known was too hard: again from the bound, with more patience. */
            nodes = nodes < UINT64_MAX / 8 ? 8 * nodes : nodes;
            target = solution->lower_bound;
            continue;
        }
        size_t from = result == STOPPED ? target : solution->lower_bound;
        target = from + (solution->height - from) / 2;
        target -= target % quantum;
        if (target < solution->lower_bound) target = solution->lower_bound;
    }
}

base_status exact_improve(const planner_problem *problem, const planner_options *options, base_arena *arena,
                          planner_solution *solution, base_report *report) {
    base_status status = BASE_OK;
    if (solution->height <= solution->lower_bound || solution->height <= problem->capacity) return BASE_OK;
    /* Interference that is listed has no sections; there the quick answer stands. */
    if (problem->starts) return BASE_OK;

    search s;
    base_arena memory;
    base_arena_init(&memory, arena->allocator);
    size_t quantum = 0;
    for (size_t b = 0; b < problem->buffer_count; b++) {
        quantum = gcd(quantum, problem->buffers[b].size);
        if (problem->buffers[b].alignment > 1) quantum = gcd(quantum, problem->buffers[b].alignment);
        if (problem->buffers[b].fixed != PLANNER_NOT_FIXED) quantum = gcd(quantum, problem->buffers[b].fixed);
    }
    if (!search_init(&s, problem, options->seconds, &memory)) {
        status = base_fail_memory(report);
    } else {
        improve(&s, problem, quantum ? quantum : 1, solution);
        if (s.sky.out_of_memory) status = base_fail_memory(report);
    }
    skyline_free(&s.sky);
    base_arena_free(&memory);
    return status;
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    /* What the quick planners find is where the search starts from: it never returns anything worse. */
    base_status status = quick_best(problem, arena, solution, report);
    if (status != BASE_OK) return status;
    return exact_improve(problem, options, arena, solution, report);
}

const planner planner_exact = {
    .name = "exact",
    .description = "complete search with proofs, within --seconds",
    .run = run,
};

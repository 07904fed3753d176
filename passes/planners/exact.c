/* exact.c: sound and complete search over offsets, with a proof or within a time.
 *
 * Partial solutions are skylines (skyline.h), built from the bottom up. Branching: in a valley (a run of
 * sections of equal floor between higher ones) take a section; the first buffer above it in the solution
 * either starts at the floor, carried by what is placed, or none does and each is lifted by another one. The
 * section with the fewest such alternatives is branched on, so that forced moves come first. Every pushed-down
 * solution with the smallest sum of offsets is reached: running out of alternatives is a proof.
 *
 * Between sections that no buffer still to come spans, the problem falls apart; the parts are solved one by
 * one, and a part that fails is not tried again with another solution of its neighbour. States (buffers to
 * come, floors and tops of a part) that have failed are remembered. Equal buffers are placed in the order of
 * their numbers. The order of alternatives is a mixture of heuristics that changes at restarts; it depends on
 * nothing but the problem.
 *
 * The search starts from the best that the quick planners find, and never ends with worse. The height is found
 * from both sides: first the lower bound (or the capacity, where there is one) is asked for, then heights
 * between it and the best known, as long as the time allows; where no time is given, for a fixed amount of
 * work, so that the answer does not depend on the machine. A height that the tree does not settle is also tried
 * by pulling overlaps apart (separate.h), which is better where there is slack. `optimal` is said only of a
 * height that no smaller one was left to ask for, and the bound rises only when the tree has been searched.
 *
 * Source: our own. Skylines for this problem are described in "MiniMalloc: A Lightweight Memory Allocator for
 * Hardware-Accelerated Machine Learning" (ASPLOS 2023).
 */
#include "passes/planners/quick.h"
#include "passes/planners/separate.h"
#include "passes/planners/skyline.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TABLE_BITS = 20, CLOCK_EVERY = 64, PARTS = 8 };
enum {
    LONG_RESTART = 512,   /* nodes beyond two descents; a short restart has one and a half */
    TARGET_WORK = 65536,  /* for the height that is asked for, at first */
    OTHER_TARGETS = 16,   /* the part of it for each other height */
    UNTIMED_WORK = 80000, /* where no time is given */
    FIRST_SHARE = 16,     /* of these, where no height is asked for */
    DEEPEST = 8192,       /* decisions on a path: what the stack of a thread bears */
    SEARCHED_BUFFERS = 1 << 16,
    COVERS_OF_WORK = 4096, /* a node of a problem with so many buffers in all sections is one unit of work */
};

/* What the order of alternatives is a mixture of; every restart draws its weights below these. Chance weighs
 * little: it decides between buffers that are nearly as good. */
enum { BY_SIZE, BY_LIFE, BY_AREA, BY_WALLS, BY_LEVEL, BY_CHANCE, HEURISTICS };
static const double most_weight[HEURISTICS] = {
    [BY_SIZE] = 1, [BY_LIFE] = 1, [BY_AREA] = 1, [BY_WALLS] = 0.1, [BY_LEVEL] = 0.2, [BY_CHANCE] = 0.25};

typedef enum outcome { SOLVED, FAILED, STOPPED } outcome;

typedef struct search {
    skyline sky;
    uint64_t *failed; /* states without a solution, by their hash's high bits */
    double weights[HEURISTICS];
    uint64_t random;
    uint64_t nodes, node_limit;
    uint64_t node_work;
    uint64_t budget; /* work left in all where no time is given */
    uint64_t clock;  /* work until the time is looked at */
    uint32_t depth;
    struct alternative *stack; /* those of all decisions on the path */
    size_t stack_count, stack_capacity;
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

/* The time is over, or the work is done. */
static bool spend(search *s, uint64_t work) {
    if (s->out_of_time || s->sky.out_of_memory) return true;
    if (!s->timed) {
        s->out_of_time = s->budget <= work;
        s->budget -= s->out_of_time ? s->budget : work;
    } else if (s->clock > work) {
        s->clock -= work;
    } else {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        s->clock = CLOCK_EVERY;
        s->out_of_time = now.tv_sec > s->deadline.tv_sec ||
                         (now.tv_sec == s->deadline.tv_sec && now.tv_nsec >= s->deadline.tv_nsec);
    }
    return s->out_of_time;
}

static bool stopped(search *s) {
    if (s->out_of_nodes || spend(s, s->node_work)) return true;
    if (s->nodes++ >= s->node_limit || s->depth >= DEEPEST) s->out_of_nodes = true;
    return s->out_of_nodes;
}

/* The sections [first, last) with what is still to come there and what it can stand on; the rest of the
 * problem does not matter to them. */
static uint64_t state_hash(const search *s, uint32_t first, uint32_t last) {
    const skyline *sky = &s->sky;
    uint64_t hash = mix(sky->capacity) ^ mix(((uint64_t)first << 32) | last);
    for (uint32_t k = first; k < last; k++) {
        if (sky->left[k] == 0) continue;
        hash = (hash ^ sky->floor[k] ^ ((uint64_t)k << 44)) * 0xBF58476D1CE4E5B9u;
        hash = ((hash ^ (hash >> 32)) + sky->sets[k]) * 0x94D049BB133111EBu;
        hash = ((hash ^ (hash >> 29)) + sky->top[k]) * 0x9E3779B97F4A7C15u;
    }
    hash = mix(hash);
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
        while (end < last && sky->spans[end] > 0 && sky->floor[end] == sky->floor[k]) end++;
        if (k > first && sky->spans[k] > 0 && sky->floor[k - 1] < sky->floor[k]) continue;
        if (end < last && sky->spans[end] > 0 && sky->floor[end] < sky->floor[k]) continue;
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

/* What could come next in section k, best first, on top of the stack; wasting room comes last. */
static size_t list_alternatives(search *s, uint32_t k) {
    const skyline *sky = &s->sky;
    size_t needed = s->stack_count + sky->left[k] + 1, count = 0;
    if (needed > s->stack_capacity) {
        alternative *grown = realloc(s->stack, 2 * needed * sizeof *grown);
        if (!grown) {
            s->sky.out_of_memory = true;
            return 0;
        }
        s->stack = grown;
        s->stack_capacity = 2 * needed;
    }
    alternative *alternatives = s->stack + s->stack_count;
    uint32_t first, last;
    skyline_valley(sky, k, &first, &last);
    for (uint32_t c = sky->cover_starts[k]; c < sky->cover_starts[k] + sky->left[k]; c++) {
        uint32_t b = sky->covers[c];
        if (!skyline_fits(sky, b, k)) continue;
        const skyline_item *i = &sky->items[b];
        size_t top = sky->start[b] + i->size;
        bool left = i->first <= first, right = i->last >= last; /* touches the valley's walls */
        int walls = left + right;
        int level = (left && first > 0 && sky->floor[first - 1] == top) +
                    (right && last < sky->section_count && sky->floor[last] == top);
        double size = (double)i->size / (double)sky->capacity;
        double life = (double)(i->last - i->first) / (double)sky->section_count;
        const double *weights = s->weights;
        alternatives[count++] = (alternative){.buffer = b,
                                              .score = weights[BY_SIZE] * size + weights[BY_LIFE] * life +
                                                       weights[BY_AREA] * size * life +
                                                       weights[BY_WALLS] * walls + weights[BY_LEVEL] * level};
    }
    /* Chance belongs to the buffer and the node, not to the place in the row: that depends on the past. */
    if (s->weights[BY_CHANCE] > 0) {
        for (size_t a = 0; a < count; a++) {
            uint64_t chance = mix(s->random ^ sky->keys[alternatives[a].buffer] ^ s->nodes);
            alternatives[a].score += s->weights[BY_CHANCE] * ((double)(chance >> 11) / 9007199254740992.0);
        }
    }
    qsort(alternatives, count, sizeof *alternatives, compare_alternatives);
    if (sky->capacity - sky->floor[k] > sky->to_come[k])
        alternatives[count++] = (alternative){.buffer = SKYLINE_NONE};
    s->stack_count += count;
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
    size_t base = s->stack_count, count = list_alternatives(s, k);
    outcome result = FAILED;
    s->depth++;
    for (size_t a = 0; a < count && result == FAILED; a++) {
        size_t mark = sky->trail_count;
        uint32_t b = s->stack[base + a].buffer;
        bool alive = b != SKYLINE_NONE ? skyline_place(sky, b) : skyline_waste(sky, k);
        if (alive) result = solve_range(s, first, last);
        if (sky->out_of_memory) result = STOPPED;
        if (result != SOLVED) skyline_undo(sky, mark);
    }
    s->depth--;
    s->stack_count = base;
    if (sky->out_of_memory) result = STOPPED;
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
        /* Short and long ones take turns: where a descent went wrong at its beginning, only a new one helps. */
        const uint64_t descent = s->sky.item_count;
        s->node_limit = (restart % 2 ? descent + descent / 2 : LONG_RESTART + 2 * descent) * luby(restart);
        s->out_of_nodes = false;
        s->random = mix(restart);
        s->depth = 0;
        s->stack_count = 0;
        /* The first try is the plain heuristic, the later ones mixtures. */
        for (int w = 0; w < HEURISTICS; w++)
            s->weights[w] = restart == 1 ? w == BY_AREA : most_weight[w] * random_unit(s);
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
    s->budget = UNTIMED_WORK;
    s->node_work = 1 + s->sky.cover_starts[s->sky.section_count] / COVERS_OF_WORK;
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

typedef struct separation_budget {
    search *s;
    uint64_t work;
} separation_budget;

static bool stop_separation(void *context, uint64_t cost) {
    separation_budget *budget = context;
    if (budget->work <= cost || spend(budget->s, cost)) return true;
    budget->work -= cost;
    return false;
}

typedef struct improver {
    search *s;
    const planner_problem *problem;
    planner_solution *solution;
    size_t quantum; /* divides all sizes, alignments and fixed offsets, and so all heights */
    base_arena *arena;
    separation *apart; /* made when first needed */
    bool no_separation;
    size_t *offsets;
    uint64_t seed;
} improver;

static void take(improver *m, const size_t *offsets) {
    memcpy(m->solution->offsets, offsets, m->problem->buffer_count * sizeof *offsets);
    m->solution->height = height_of(m->problem, offsets);
}

static bool pull_apart(improver *m, size_t target, uint64_t work) {
    if (!m->apart && !m->no_separation) {
        m->apart = separation_new(&m->s->sky, m->quantum, m->arena);
        m->offsets = BASE_ARRAY(m->arena, size_t, m->problem->buffer_count);
        m->no_separation = !m->apart || !m->offsets;
    }
    if (m->no_separation) return false;
    separation_budget budget = {m->s, work};
    memcpy(m->offsets, m->solution->offsets, m->problem->buffer_count * sizeof *m->offsets);
    if (!separation_run(m->apart, target, mix(m->seed++), stop_separation, &budget, m->offsets)) return false;
    take(m, m->offsets);
    return true;
}

/* Narrows [lower_bound, height] of the solution until they meet or the time is over. */
static void improve(improver *m) {
    planner_solution *solution = m->solution;
    size_t enough = m->problem->capacity, quantum = m->quantum;
    uint64_t work = m->s->timed ? TARGET_WORK * m->s->node_work : UNTIMED_WORK / 2;
    /* Where no height is asked for, all of them are tried soon: lower ones are found on the way to the lowest. */
    if (!enough) work /= FIRST_SHARE;
    /* What is asked for is asked most; a descent to the end takes a node for each buffer. */
    uint64_t least = 4 * m->problem->buffer_count;
    size_t goal = enough > solution->lower_bound ? enough - enough % quantum : solution->lower_bound;
    size_t target = goal;
    while (solution->height > solution->lower_bound && solution->height > enough) {
        uint64_t nodes = work / (target == goal ? 1 : OTHER_TARGETS) / m->s->node_work;
        outcome result = decide(m->s, target, nodes < least ? least : nodes);
        if (m->s->sky.out_of_memory || (result == STOPPED && m->s->out_of_time)) return;
        if (result == SOLVED) {
            take(m, m->s->sky.offsets);
        } else if (result == FAILED) {
            size_t next = target - target % quantum;
            if (!base_size_add(next, quantum, &next)) return;
            solution->lower_bound = next;
            if (goal < next) goal = next;
        } else if (pull_apart(m, target, work / (target == goal ? 4 : enough ? OTHER_TARGETS : 2))) {
            result = SOLVED;
        } else if (m->s->out_of_time) {
            return;
        } else if (solution->height - target <= 2 * quantum) {
            /* Every target up to the best known was too hard: again from the goal, with more patience. */
            work = work < UINT64_MAX / 8 ? 4 * work : work;
            target = goal;
            continue;
        }
        size_t from = result == STOPPED ? target : goal;
        target = from < solution->height ? from + (solution->height - from) / 2 : goal;
        target -= target % quantum;
        if (target < goal) target = goal;
    }
}

base_status exact_improve(const planner_problem *problem, const planner_options *options, base_arena *arena,
                          planner_solution *solution, base_report *report) {
    base_status status = BASE_OK;
    if (solution->height <= solution->lower_bound || solution->height <= problem->capacity) return BASE_OK;
    /* Interference that is listed has no sections, and no search gets anywhere on very many buffers; there the
     * quick answer stands. */
    if (problem->starts || problem->buffer_count > SEARCHED_BUFFERS) return BASE_OK;

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
        if (!s.sky.too_large) status = base_fail_memory(report);
    } else {
        improver m = {.s = &s,
                      .problem = problem,
                      .solution = solution,
                      .quantum = quantum ? quantum : 1,
                      .arena = &memory};
        improve(&m);
        if (s.sky.out_of_memory) status = base_fail_memory(report);
    }
    free(s.stack);
    skyline_free(&s.sky);
    base_arena_free(&memory);
    return status;
}

static base_status run(const planner_problem *problem, const planner_options *options, base_arena *arena,
                       planner_solution *solution, base_report *report) {
    /* What the quick planners find is where the search starts from: it never returns anything worse. Their
     * time counts. */
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    base_status status = quick_best(problem, arena, solution, report);
    if (status != BASE_OK) return status;
    clock_gettime(CLOCK_MONOTONIC, &now);
    planner_options rest = *options;
    if (rest.seconds > 0) {
        rest.seconds -= (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9;
        if (rest.seconds <= 0) return BASE_OK;
    }
    return exact_improve(problem, &rest, arena, solution, report);
}

const planner planner_exact = {
    .name = "exact",
    .description = "complete search with proofs, within --seconds",
    .run = run,
};

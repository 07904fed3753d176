/* exact.c: search over offsets, with a proof or within a time.
 *
 * Three ways of searching take turns: a complete search over the whole problem (search.h), which alone can prove
 * anything; solutions grown from section to section and mended where they do not go on (sweep.h), which find what
 * is tight and long in time; overlaps pulled apart (separate.h), which is better where there is slack.
 *
 * The search starts from the best that the quick planners find, and never ends with worse. The height is found
 * from both sides: first the lower bound (or the capacity, where there is one) is asked for, then heights
 * between it and the best known, as long as the time allows; where no time is given, for a fixed amount of
 * work, so that the answer does not depend on the machine. `optimal` is said only of a height that no smaller
 * one was left to ask for, and the bound rises only when the tree has been searched.
 */
#include "passes/planners/quick.h"
#include "passes/planners/search.h"
#include "passes/planners/separate.h"
#include "passes/planners/sorting.h"
#include "passes/planners/sweep.h"
#include <string.h>

enum {
    TARGET_WORK = 65536,   /* for the lowest height, where time is given */
    OTHER_TARGETS = 16,    /* the part of it for each other height */
    ABOVE_CAPACITY = 64,   /* the same where a capacity is asked for: the other heights are second best */
    SWEEP_SHARE = 2,       /* times the work of the tree */
    CAPACITY_SWEEP = 5,    /* the same where a capacity is asked for */
    UNTIMED_WORK = 100000, /* in all, where no time is given */
    FIRST_SHARE = 16,      /* of the work for the lowest height, at first */
    SEARCHED_BUFFERS = 1 << 16
};

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

typedef struct improver {
    const planner_problem *problem;
    planner_solution *solution;
    size_t quantum; /* divides all sizes, alignments and fixed offsets, and so all heights */
    planner_budget budget;
    base_arena *arena;
    search tree;
    sweep *sections;   /* for the height that is asked for: it goes on where it was */
    separation *apart; /* made when first needed */
    bool no_separation;
    uint64_t seed;
    bool out_of_memory;
} improver;

/* The sweep and pulling apart change the offsets only where they find a solution. */
static search_outcome found(improver *m, bool solved) {
    if (!solved) return SEARCH_STOPPED;
    m->solution->height = height_of(m->problem, m->solution->offsets);
    return SEARCH_SOLVED;
}

static search_outcome sweep_sections(improver *m, size_t target, uint64_t work) {
    return found(m, sweep_run(m->sections, target, work, m->solution->offsets, &m->out_of_memory) ==
                        SEARCH_SOLVED);
}

static search_outcome pull_apart(improver *m, size_t target, uint64_t work) {
    if (!m->apart && !m->no_separation) {
        m->apart = separation_new(&m->tree.sky, m->quantum, &m->budget, m->arena);
        m->no_separation = !m->apart;
    }
    if (m->no_separation) return SEARCH_STOPPED;
    return found(m, separation_run(m->apart, target, planner_mix(m->seed++), work, m->solution->offsets));
}

static search_outcome search_tree(improver *m, size_t target, uint64_t nodes) {
    search_outcome outcome = search_decide(&m->tree, target, nodes);
    if (outcome == SEARCH_SOLVED) {
        memcpy(m->solution->offsets, m->tree.sky.offsets, m->problem->buffer_count * sizeof(size_t));
        found(m, true);
    }
    if (m->tree.sky.out_of_memory) m->out_of_memory = true;
    return outcome;
}

/* Asks for a height in one way after the other, as long as nobody knows and there is time. The sweep is for the goal
 * alone: heights with more slack are found without it. */
static search_outcome ask(improver *m, size_t target, bool is_goal, uint64_t work) {
    const bool fits_wanted = m->problem->capacity > 0;
    const uint64_t share = is_goal ? work : work / (fits_wanted ? ABOVE_CAPACITY : OTHER_TARGETS);
    const uint64_t apart = is_goal ? work / 4 : fits_wanted ? share : work / 2;
    /* A descent to the end takes a node for each buffer. */
    const uint64_t nodes = share / m->tree.node_work, least = 4 * m->problem->buffer_count;
    search_outcome outcome = search_tree(m, target, nodes < least ? least : nodes);
    if (outcome == SEARCH_STOPPED && is_goal && !m->budget.over && !m->out_of_memory)
        outcome = sweep_sections(m, target, (fits_wanted ? CAPACITY_SWEEP : SWEEP_SHARE) * share);
    if (outcome == SEARCH_STOPPED && !m->budget.over && !m->out_of_memory)
        outcome = pull_apart(m, target, apart);
    return outcome;
}

/* Narrows [lower_bound, height] of the solution until they meet or the time is over. */
static void improve(improver *m) {
    planner_solution *solution = m->solution;
    size_t enough = m->problem->capacity, quantum = m->quantum;
    uint64_t work = m->budget.timed ? TARGET_WORK * m->tree.node_work : UNTIMED_WORK / 2;
    /* The first rounds are short. Where no height is asked for, all of them are tried soon: lower ones are found on the way
     * to the lowest. Where one is, the ways of searching for it take turns. */
    work /= FIRST_SHARE;
    const unsigned patience = enough ? 2 : 4; /* how much longer each round is than the one before */
    size_t goal = enough > solution->lower_bound ? enough - enough % quantum : solution->lower_bound;
    size_t target = goal;
    while (solution->height > solution->lower_bound && solution->height > enough) {
        search_outcome outcome = ask(m, target, target == goal, work);
        if (m->out_of_memory || (outcome == SEARCH_STOPPED && m->budget.over)) return;
        if (outcome == SEARCH_FAILED) {
            size_t next = target - target % quantum;
            if (!base_size_add(next, quantum, &next)) return;
            solution->lower_bound = next;
            if (goal < next) goal = next;
        } else if (outcome == SEARCH_STOPPED && solution->height - target <= 2 * quantum) {
            /* Every target up to the best known was too hard: again from the goal, with more patience. */
            work = work < UINT64_MAX / 8 ? patience * work : work;
            target = goal;
            continue;
        }
        size_t from = outcome == SEARCH_STOPPED ? target : goal;
        target = from < solution->height ? from + (solution->height - from) / 2 : goal;
        target -= target % quantum;
        if (target < goal) target = goal;
    }
}

static bool improver_init(improver *m) {
    search_memory *memory = search_memory_new(m->arena);
    if (!memory || !search_init(&m->tree, m->problem, 0, &m->budget, memory, m->arena)) return false;
    m->sections = sweep_new(&m->tree.sky, 1, &m->budget, memory, m->arena);
    return m->sections != NULL;
}

base_status exact_improve(const planner_problem *problem, const planner_options *options, base_arena *arena,
                          planner_solution *solution, base_report *report) {
    if (solution->height <= solution->lower_bound || solution->height <= problem->capacity) return BASE_OK;
    /* Interference that is listed has no sections, and no search gets anywhere on very many buffers; there the
     * quick answer stands. */
    if (problem->starts || problem->buffer_count > SEARCHED_BUFFERS) return BASE_OK;

    base_arena memory;
    base_arena_init(&memory, arena->allocator);
    size_t quantum = 0;
    for (size_t b = 0; b < problem->buffer_count; b++) {
        quantum = gcd(quantum, problem->buffers[b].size);
        if (problem->buffers[b].alignment > 1) quantum = gcd(quantum, problem->buffers[b].alignment);
        if (problem->buffers[b].fixed != PLANNER_NOT_FIXED) quantum = gcd(quantum, problem->buffers[b].fixed);
    }
    improver m = {.problem = problem,
                  .solution = solution,
                  .quantum = quantum ? quantum : 1,
                  .budget = budget_of(options->seconds, UNTIMED_WORK),
                  .arena = &memory};
    if (improver_init(&m)) improve(&m);
    else m.out_of_memory = !m.tree.sky.too_large;
    search_free(&m.tree);
    base_arena_free(&memory);
    return m.out_of_memory ? base_fail_memory(report) : BASE_OK;
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

/* improve.c: see improve.h.
 *
 * Three ways of searching take turns. The complete search over the whole problem (search.h) is the only one that can
 * prove anything. The sweep (sweep.h) grows solutions from section to section and mends them where they do not go on; it
 * finds what is tight and long in time. It also runs on buffers that are joined (coalesce.h). Guided local search
 * (guided_local_search.h) removes overlaps, and is better where there is slack.
 *
 * The height is found from both sides. First the lower bound is asked for, or the capacity where there is one; then
 * heights between it and the best known. Where no time is given, the work is counted, so that the answer does not
 * depend on the machine. `optimal` is said only where no smaller height was left to ask for. The bound rises only when
 * the complete search has come to its end.
 *
 * Searches count in units. A unit divides all sizes, alignments and pinned offsets, and so every height that they can
 * lead to. Memory of more than 2^30 units is counted in a larger unit, a multiple of it by a power of two, and sizes are
 * rounded up. What is found then is still a solution; that nothing is found proves nothing.
 *
 * Where all offsets are multiples of something that does not divide all sizes, each buffer loses what it is short of the
 * next multiple, wherever it lies. Half of the time the search counts in these multiples, with sizes rounded up. That
 * loses nothing but how far the topmost buffers end below their last unit, which is looked for afterwards.
 */
#include "passes/planners/exact/improve.h"
#include "passes/planners/exact/coalesce.h"
#include "passes/planners/exact/search.h"
#include "passes/planners/exact/guided_local_search.h"
#include "passes/planners/base/sorting.h"
#include "passes/planners/exact/sweep.h"
#include <string.h>

enum {
    TARGET_WORK = 65536,   /* for the lowest height, where time is given */
    OTHER_TARGETS = 16,    /* the part of it for each other height */
    ABOVE_CAPACITY = 64,   /* the same where a capacity is asked for: the other heights are second best */
    SWEEP_SHARE = 2,       /* times the work of the tree */
    CAPACITY_SWEEP = 5,    /* the same where a capacity is asked for */
    JOINED_SHARE = 2,      /* times the work of the sweep: that over buffers made one */
    UNTIMED_WORK = 100000, /* in all, where no time is given */
    FIRST_SHARE = 16,      /* of the work for the lowest height, at first */
    SEARCHED_BUFFERS = 1 << 16
};

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
    planner_problem counted; /* the problem in units */
    size_t unit;             /* bytes */
    bool rounded;   /* it is larger than what offsets are multiples of: that nothing fits proves nothing */
    size_t padding; /* bytes that sizes are rounded up by, at the most */
    size_t *places; /* the solution, in units */
    planner_budget budget;
    base_arena *arena;
    search tree;
    sweep *sections;      /* for the height that is asked for: it goes on where it was */
    coalescing *joined;   /* the same, over buffers made one */
    guided_search *apart; /* made when first needed */
    bool no_guided_search;
    uint64_t seed;
    bool out_of_memory;
} improver;

static size_t units(const improver *m, size_t bytes) {
    return bytes / m->unit + (bytes % m->unit > 0);
}

/* What a way of searching says. Where it found a solution, the places are that. */
static search_outcome take(improver *m, search_outcome outcome) {
    const planner_buffer *buffers = m->problem->buffers;
    if (outcome != SEARCH_SOLVED) return outcome;
    for (size_t b = 0; b < m->problem->buffer_count; b++) {
        const bool moves = buffers[b].fixed == PLANNER_NOT_FIXED && buffers[b].size > 0;
        if (moves) m->solution->offsets[b] = m->places[b] * m->unit;
    }
    m->solution->height = height_of(m->problem, m->solution->offsets);
    return outcome;
}

/* The sweeps and pulling apart change the places only where they find a solution. */
static search_outcome sweep_sections(improver *m, size_t target, uint64_t work) {
    return take(m, sweep_run(m->sections, target, work, m->places, &m->out_of_memory));
}

static search_outcome sweep_joined(improver *m, size_t target, uint64_t work) {
    return take(m, coalescing_run(m->joined, target, work, m->places, &m->out_of_memory));
}

static search_outcome search_locally(improver *m, size_t target, uint64_t work) {
    if (!m->apart && !m->no_guided_search) {
        m->apart = guided_search_new(&m->tree.sky, &m->budget, m->arena);
        m->no_guided_search = !m->apart;
    }
    if (m->no_guided_search || !guided_search_run(m->apart, target, planner_mix(m->seed++), work, m->places))
        return SEARCH_STOPPED;
    return take(m, SEARCH_SOLVED);
}

static search_outcome search_tree(improver *m, size_t target, uint64_t nodes) {
    search_outcome outcome = search_decide(&m->tree, target, nodes);
    if (outcome == SEARCH_SOLVED)
        memcpy(m->places, m->tree.sky.offsets, m->problem->buffer_count * sizeof *m->places);
    if (m->tree.sky.out_of_memory) m->out_of_memory = true;
    return take(m, outcome);
}

/* Nobody knows, and another way may be tried. */
static bool is_open(const improver *m, search_outcome outcome) {
    return outcome == SEARCH_STOPPED && !m->budget.over && !m->out_of_memory;
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
    const uint64_t sweep_work = (fits_wanted ? CAPACITY_SWEEP : SWEEP_SHARE) * share;
    if (is_open(m, outcome) && is_goal && coalescing_is_possible(m->joined))
        outcome = sweep_joined(m, target, JOINED_SHARE * sweep_work);
    if (is_open(m, outcome) && is_goal) outcome = sweep_sections(m, target, sweep_work);
    if (is_open(m, outcome)) outcome = search_locally(m, target, apart);
    return outcome;
}

/* In units, no height is less. */
static void raise_bound(improver *m, size_t height) {
    const size_t bytes = height * m->unit;
    const size_t bound = bytes > m->padding ? bytes - m->padding : 0;
    if (bound > m->solution->lower_bound) m->solution->lower_bound = bound;
}

/* Narrows [lower_bound, height] of the solution until they meet or the time is over. Targets are in units. */
static void improve(improver *m) {
    planner_solution *solution = m->solution;
    const size_t enough = m->problem->capacity;
    if (solution->height > SIZE_MAX - m->unit) return; /* no multiple of the unit above it */
    uint64_t work = m->budget.timed ? TARGET_WORK * m->tree.node_work : UNTIMED_WORK / 2;
    /* The first rounds are short. Where no height is asked for, all of them are tried soon: lower ones are found on the way
     * to the lowest. Where one is, the ways of searching for it take turns. */
    work /= FIRST_SHARE;
    const unsigned patience = enough ? 2 : 4; /* how much longer each round is than the one before */
    size_t goal = units(m, solution->lower_bound);
    if (!m->rounded) raise_bound(m, goal);
    if (goal < enough / m->unit) goal = enough / m->unit;
    size_t target = goal;
    while (solution->height > solution->lower_bound && solution->height > enough &&
           goal < units(m, solution->height)) {
        search_outcome outcome = ask(m, target, target == goal, work);
        if (m->out_of_memory || (outcome == SEARCH_STOPPED && m->budget.over)) return;
        if (outcome == SEARCH_FAILED) {
            if (goal <= target) goal = target + 1;
            if (!m->rounded) raise_bound(m, target + 1);
        } else if (outcome == SEARCH_STOPPED && units(m, solution->height) - target <= 2) {
            /* Every target up to the best known was too hard: again from the goal, with more patience. */
            work = work < UINT64_MAX / 8 ? patience * work : work;
            target = goal;
            continue;
        }
        const size_t from = outcome == SEARCH_STOPPED ? target : goal, height = units(m, solution->height);
        target = from < height ? from + (height - from) / 2 : goal;
        if (target < goal) target = goal;
    }
}

/* What divides all sizes, alignments and pinned offsets. */
static size_t common_unit(const planner_problem *problem) {
    size_t unit = 0;
    for (size_t b = 0; b < problem->buffer_count; b++) {
        const planner_buffer *buffer = &problem->buffers[b];
        unit = base_gcd(unit, buffer->size);
        if (buffer->alignment > 1) unit = base_gcd(unit, buffer->alignment);
        if (buffer->fixed != PLANNER_NOT_FIXED) unit = base_gcd(unit, buffer->fixed);
    }
    return unit ? unit : 1;
}

/* The problem in units, `unit` or larger ones. False when memory runs out. */
static bool count_in_units(improver *m, size_t unit) {
    const planner_problem *problem = m->problem;
    planner_buffer *buffers = BASE_ARRAY(m->arena, planner_buffer, problem->buffer_count + 1);
    m->places = BASE_ARRAY(m->arena, size_t, problem->buffer_count + 1);
    if (!buffers || !m->places) return false;
    /* What is rounded up leaves a reserve for what that adds. */
    for (m->unit = unit; units(m, m->solution->height) > (m->rounded ? SKYLINE_MOST / 2 : SKYLINE_MOST);
         m->unit *= 2)
        m->rounded = true;
    for (size_t b = 0; b < problem->buffer_count; b++) {
        const planner_buffer *from = &problem->buffers[b];
        const bool pinned = from->fixed != PLANNER_NOT_FIXED;
        const size_t fixed = pinned ? from->fixed : 0, low = fixed / m->unit;
        buffers[b] = (planner_buffer){.size = from->size ? units(m, fixed + from->size) - low : 0,
                                      .alignment = from->alignment > m->unit ? from->alignment / m->unit : 1,
                                      .first = from->first,
                                      .last = from->last,
                                      .fixed = pinned ? low : PLANNER_NOT_FIXED};
        m->places[b] = m->solution->offsets[b] / m->unit;
        const size_t padding = buffers[b].size * m->unit - from->size;
        if (padding > m->padding) m->padding = padding;
    }
    m->counted = (planner_problem){.buffers = buffers, .buffer_count = problem->buffer_count};
    return true;
}

static bool improver_init(improver *m, size_t unit) {
    search_memory *memory = search_memory_new(m->arena);
    if (!memory || !count_in_units(m, unit) ||
        !search_init(&m->tree, &m->counted, 0, &m->budget, memory, m->arena))
        return false;
    m->sections = sweep_new(&m->tree.sky, 1, &m->budget, memory, m->arena);
    m->joined = coalescing_new(&m->tree.sky, 1, &m->budget, memory, m->arena);
    return m->sections && m->joined;
}

/* Improves the solution by offsets that are multiples of the unit, for which sizes are rounded up to it; false when memory
 * runs out. The unit divides all sizes or all offsets that there can be. */
static bool improve_in_units(const planner_problem *problem, size_t unit, double seconds, base_arena *arena,
                             planner_solution *solution) {
    base_arena memory;
    base_arena_init(&memory, arena->allocator);
    improver m = {.problem = problem,
                  .solution = solution,
                  .budget = budget_of(seconds, UNTIMED_WORK),
                  .arena = &memory};
    if (improver_init(&m, unit)) improve(&m);
    else m.out_of_memory = !m.tree.sky.too_large;
    coalescing_free(m.joined);
    search_free(&m.tree);
    base_arena_free(&memory);
    return !m.out_of_memory;
}

static bool is_done(const planner_problem *problem, const planner_solution *solution) {
    return solution->height <= solution->lower_bound || solution->height <= problem->capacity;
}

base_status exact_improve(const planner_problem *problem, const planner_options *options, base_arena *arena,
                          planner_solution *solution, base_report *report) {
    /* Interference that is listed has no sections, and no search gets anywhere on very many buffers; there the
     * quick answer stands. */
    if (is_done(problem, solution) || problem->starts || problem->buffer_count > SEARCHED_BUFFERS)
        return BASE_OK;
    const double begin = budget_clock();
    const size_t aligned = planner_common_alignment(problem), unit = common_unit(problem);
    double seconds = options->seconds;
    if (aligned > unit) {
        if (!improve_in_units(problem, aligned, seconds / 2, arena, solution))
            return base_fail_memory(report);
        if (is_done(problem, solution)) return BASE_OK;
        if (seconds > 0) seconds -= budget_clock() - begin;
        if (options->seconds > 0 && seconds <= 0) return BASE_OK;
    }
    if (!improve_in_units(problem, unit, seconds, arena, solution)) return base_fail_memory(report);
    return BASE_OK;
}

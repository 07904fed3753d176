/* SPDX-License-Identifier: Apache-2.0 */
/* improve.c: see improve.h.
 *
 * Ways of searching take turns. Whoever has done the least work is next; with several threads, as many of them work side by
 * side, each on a copy of the solution, and the best copy is everybody's after the turn. So the answer depends on the number
 * of threads and the amount of work alone, where work is what ends the search.
 *
 * Before they begin, stacks of the fullest step are tried (stack.h): where one of them can be completed, that is quick.
 *
 * Ejection chains (ejection.h) make a solution lower, on problems of any size. With several threads there are several such
 * searches, which differ in their chance.
 *
 * The complete search (search.h) is the only one that can prove anything. It takes turns with the sweep (sweep.h), which
 * grows solutions from section to section and finds what is tight and long in time, also over buffers that are joined
 * (coalesce.h). They are asked for heights: first for the lower bound, or for the capacity where there is one; then for
 * heights between it and the best known. `optimal` is said only where no smaller height was left to ask for. The bound
 * rises only when the complete search has come to its end.
 *
 * These count in units. A unit divides all sizes, alignments and pinned offsets, and so every height that they can lead to.
 * Memory of more than 2^30 units is counted in a larger unit, a multiple of it by a power of two, and sizes are rounded
 * down. That there is no solution then is a proof still. What is found tells in which order buffers lie one above the other;
 * in this order they are placed anew, in bytes. (Ejection chains always count in bytes.)
 *
 * Where all offsets are multiples of something that does not divide all sizes, each buffer loses what it is short of the
 * next multiple, wherever it lies. Then there are two complete searches: one counts in these multiples, with sizes rounded
 * up, which loses nothing but how far the topmost buffers end below their last unit; the other one looks for that.
 */
#include "passes/planners/exact/improve.h"
#include "passes/planners/exact/ejection.h"
#include "passes/planners/exact/orders.h"
#include "passes/planners/exact/coalesce.h"
#include "passes/planners/exact/compose.h"
#include "passes/planners/exact/search.h"
#include "passes/planners/exact/stack.h"
#include "passes/planners/base/sorting.h"
#include "passes/planners/exact/sweep.h"
#include <string.h>

enum {
    TARGET_WORK = 4096,  /* for the lowest height, at first: nodes of the complete search */
    DESCENTS = 2,        /* that the complete search may always do */
    OTHER_TARGETS = 16,  /* the part of it for each other height */
    ABOVE_CAPACITY = 64, /* the same where a capacity is asked for: the other heights are second best */
    SWEEP_SHARE = 2,     /* times the work of the complete search */
    CAPACITY_SWEEP = 5,  /* the same where a capacity is asked for */
    JOINED_SHARE = 2,    /* times the work of the sweep: that over buffers made one, all that can be */
    DRAWN_SHARE = 2,     /* the same, over some of them */
    ORDERS_SHARE = 4,    /* the part of all that greedy planning may take at first */
    COMPOSED_SHARE = 4,  /* the same for what remains where buffers fill rectangles */
    COMPOSED_PART = 2,   /* no more than this part of the buffers */
    STACKS_SHARE = 4,    /* the same for stacks of the fullest step */
    STACK_BURST = 32768, /* work for one of them, while it makes the solution lower */
    FIRST_TURN = 1024,   /* work for one way of searching; a quarter more each time */
    LONGEST_TURN = 32768,
    UNTIMED_WORK = 300000, /* in all, where neither time nor work is given */
    MANY_BUFFERS = 1500,
    MANY_TARGETS = 16,   /* of so many buffers the highest target is this part of the way to the goal below the best known */
    OTHERS_PART = 4,     /* heights above the goal have this part of its work each */
    CHAINS_FIRST = 150000, /* so much work for ejection chains alone */
    MANY_CHAINS = 2,     /* and then the sweep does so many times the work of ejection chains */
    WAYS = 66, /* ways of searching: two that prove, and ejection chains for as many threads */
    SEARCHED_BUFFERS = 1 << 20
};

static size_t height_of(const planner_problem *problem, const size_t *offsets) {
    size_t height = 0;
    for (size_t b = 0; b < problem->buffer_count; b++) {
        size_t top = offsets[b] + problem->buffers[b].size;
        if (problem->buffers[b].size && top > height) height = top;
    }
    return height;
}

/* The height that ends the search: the capacity, or the bound where that is higher. */
static size_t enough_of(const planner_problem *problem, const planner_solution *solution) {
    return problem->capacity > solution->lower_bound ? problem->capacity : solution->lower_bound;
}

/* The complete search and the sweeps, in one unit. */
typedef struct improver {
    const planner_problem *problem;
    planner_solution *solution;
    planner_problem counted; /* the problem in units */
    size_t unit;             /* bytes */
    bool rounded;            /* it is larger than what divides all sizes: these are rounded down */
    neighbours *whole;       /* where they are: the problem in bytes */
    size_t padding;          /* bytes that sizes are rounded up by, at the most */
    size_t *places;          /* the solution, in units */
    planner_budget *budget;
    base_arena *arena;
    search tree;
    sweep *sections;    /* for the height that is asked for: it goes on where it was */
    bool many;          /* buffers: the sweep comes first, and is for every height */
    sweep *others;      /* then: for heights above the goal */
    coalescing *joined; /* the same, over buffers made one: all that can be */
    coalescing *drawn;  /* and over some of them, drawn anew again and again */
    /* In units: the lowest height that is not known to be impossible, and the one to ask for. */
    size_t goal, target;
    uint64_t work;                                  /* for the goal */
    enum { BY_TREE, BY_JOINED, BY_DRAWN, BY_SECTIONS, BY_OTHERS } phase; /* who is asked for the target */
    uint64_t rest;                                  /* of the work of the sweeps */
    bool out_of_memory;
} improver;

static size_t units(const improver *m, size_t bytes) {
    return bytes / m->unit + (bytes % m->unit > 0);
}

/* With sizes rounded down the places say in which order buffers lie above each other, not where. */
static search_outcome take_order(improver *m) {
    size_t height = m->solution->height;
    base_arena scratch;
    base_arena_init(&scratch, m->arena->allocator);
    if (!exact_orders_compact(m->whole, m->places, m->budget, &scratch, m->solution->offsets, &height))
        m->out_of_memory = true;
    base_arena_free(&scratch);
    if (m->out_of_memory || height == SIZE_MAX) return SEARCH_STOPPED;
    m->solution->height = height;
    return SEARCH_SOLVED;
}

/* What a way of searching says. Where it found a solution, the places are that. */
static search_outcome take(improver *m, search_outcome outcome) {
    const planner_buffer *buffers = m->problem->buffers;
    if (outcome != SEARCH_SOLVED) return outcome;
    if (m->rounded) return take_order(m);
    for (size_t b = 0; b < m->problem->buffer_count; b++) {
        const bool moves = buffers[b].fixed == PLANNER_NOT_FIXED && buffers[b].size > 0;
        if (moves) m->solution->offsets[b] = m->places[b] * m->unit;
    }
    m->solution->height = height_of(m->problem, m->solution->offsets);
    return outcome;
}

/* The sweeps change the places only where they find a solution. */
static search_outcome sweep_sections(improver *m, sweep *sections, size_t target, uint64_t work) {
    return take(m, exact_sweep_run(sections, target, work, m->places, &m->out_of_memory));
}

static search_outcome sweep_joined(improver *m, coalescing *joined, size_t target, uint64_t work) {
    return take(m, exact_coalescing_run(joined, target, work, m->places, &m->out_of_memory));
}

static search_outcome search_tree(improver *m, size_t target, uint64_t nodes) {
    search_outcome outcome = exact_search_decide(&m->tree, target, nodes);
    if (outcome == SEARCH_SOLVED)
        memcpy(m->places, m->tree.sky.offsets, m->problem->buffer_count * sizeof *m->places);
    if (m->tree.sky.out_of_memory) m->out_of_memory = true;
    return take(m, outcome);
}

/* For the complete search. A descent to the end takes a node for each buffer. */
static uint64_t nodes_of(const improver *m) {
    const uint64_t parts = m->target == m->goal ? 1 : m->problem->capacity ? ABOVE_CAPACITY : OTHER_TARGETS;
    const uint64_t nodes = m->work / parts / m->tree.node_work, least = DESCENTS * m->problem->buffer_count;
    return nodes < least ? least : nodes;
}

static uint64_t sweep_work(const improver *m) {
    return (m->problem->capacity ? CAPACITY_SWEEP : SWEEP_SHARE) * m->work;
}

/* Who is asked after the present one, and how much; false: nobody. The complete search over very many buffers, which cannot be
 * interrupted, comes last, and not before it is a small part of the work. */
static bool go_on(improver *m) {
    const bool joins = exact_coalescing_is_possible(m->joined);
    switch (m->phase) {
    case BY_TREE:
        if (m->many || m->target != m->goal) return false;
        m->phase = joins ? BY_JOINED : BY_SECTIONS;
        break;
    case BY_JOINED:
        m->phase = BY_DRAWN;
        break;
    case BY_DRAWN:
        m->phase = m->many ? BY_TREE : BY_SECTIONS;
        break;
    case BY_SECTIONS:
        if (!m->many) return false;
        m->phase = joins ? BY_JOINED : BY_TREE;
        break;
    case BY_OTHERS:
        return false;
    }
    m->rest = (m->phase == BY_JOINED ? JOINED_SHARE : m->phase == BY_DRAWN ? DRAWN_SHARE : 1) * sweep_work(m);
    return m->phase != BY_TREE || nodes_of(m) * m->tree.node_work <= sweep_work(m) / OTHERS_PART;
}

/* Asks for the target, about so much work. SEARCH_STOPPED: *done when everybody has been asked. Of few buffers the sweep is for the
 * goal alone: heights with more slack are found without it. */
static search_outcome ask(improver *m, uint64_t work, bool *done) {
    const uint64_t part = m->rest < work ? m->rest : work;
    search_outcome outcome;
    *done = false;
    if (m->phase == BY_TREE) {
        outcome = search_tree(m, m->target, nodes_of(m));
        m->rest = 0;
    } else {
        outcome = m->phase == BY_JOINED  ? sweep_joined(m, m->joined, m->target, part)
                  : m->phase == BY_DRAWN ? sweep_joined(m, m->drawn, m->target, part)
                                         : sweep_sections(m, m->phase == BY_OTHERS ? m->others : m->sections, m->target, part);
        m->rest -= part;
    }
    if (m->rest == 0) *done = !go_on(m);
    return outcome;
}

/* In units, no height is less. */
static void raise_bound(improver *m, size_t height) {
    const size_t bytes = height * m->unit;
    const size_t bound = bytes > m->padding ? bytes - m->padding : 0;
    if (bound > m->solution->lower_bound) m->solution->lower_bound = bound;
}

static bool improver_is_done(const improver *m) {
    const planner_solution *solution = m->solution;
    const size_t enough = m->problem->capacity;
    return solution->height <= solution->lower_bound || solution->height <= enough ||
           solution->height > SIZE_MAX - m->unit || /* no multiple of the unit above it */
           m->goal >= units(m, solution->height);
}

static void ask_for(improver *m, size_t target) {
    m->target = target < m->goal ? m->goal : target;
    m->phase = !m->many ? BY_TREE : m->target == m->goal ? BY_SECTIONS : BY_OTHERS;
    m->rest = sweep_work(m) / (m->phase == BY_OTHERS ? OTHERS_PART : 1) + 1;
}

/* The target is so close below the best known that the next one is the goal again. */
static bool is_last_target(const improver *m, size_t height) {
    const size_t rest = height - m->target;
    return rest <= 2 || (m->many && rest <= (height - m->goal) / MANY_TARGETS);
}

/* What the next step costs, at the least. */
static uint64_t next_cost(const improver *m, uint64_t work) {
    return m->phase == BY_TREE ? nodes_of(m) * m->tree.node_work : m->rest < work ? m->rest : work;
}

/* Asks somebody for the target, for about so much work where that can be interrupted; and chooses the next target. */
static void improver_step(improver *m, uint64_t work) {
    bool done;
    if (m->target >= units(m, m->solution->height)) ask_for(m, m->goal); /* somebody else has reached it */
    const search_outcome outcome = ask(m, work, &done);
    if (m->out_of_memory || (outcome == SEARCH_STOPPED && (m->budget->over || !done))) return;
    const size_t target = m->target, height = units(m, m->solution->height);
    if (outcome == SEARCH_FAILED) {
        if (m->goal <= target) m->goal = target + 1;
        raise_bound(m, target + 1);
    } else if (outcome == SEARCH_STOPPED && is_last_target(m, height)) {
        /* Every target up to the best known was too hard: again from the goal, with more patience. Where no height is asked
         * for, the first rounds are short: lower heights are found on the way to the lowest. */
        m->work = m->work < UINT64_MAX / 8 ? (m->problem->capacity ? 2 : 4) * m->work : m->work;
        ask_for(m, m->goal);
        return;
    }
    const size_t from = outcome == SEARCH_STOPPED ? target : m->goal;
    ask_for(m, from < height ? from + (height - from) / 2 : m->goal);
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
    for (m->unit = unit; units(m, m->solution->height) > SKYLINE_MOST; m->unit *= 2) m->rounded = true;
    for (size_t b = 0; b < problem->buffer_count; b++) {
        const planner_buffer *from = &problem->buffers[b];
        const bool pinned = from->fixed != PLANNER_NOT_FIXED;
        /* Rounded up to what was asked for, and down to what is counted in. */
        const size_t whole = (from->size / unit + (from->size % unit > 0)) * unit;
        buffers[b] = (planner_buffer){.size = whole / m->unit,
                                      .alignment = from->alignment > m->unit ? from->alignment / m->unit : 1,
                                      .first = from->first,
                                      .last = from->last,
                                      .fixed = pinned ? from->fixed / m->unit : PLANNER_NOT_FIXED};
        m->places[b] = m->solution->offsets[b] / m->unit;
        if (whole - from->size > m->padding) m->padding = whole - from->size;
    }
    m->counted = (planner_problem){.buffers = buffers, .buffer_count = problem->buffer_count};
    return true;
}

static bool improver_init(improver *m, size_t unit) {
    search_memory *memory = exact_search_memory_new(m->arena);
    if (!memory || !count_in_units(m, unit) ||
        !exact_search_init(&m->tree, &m->counted, 0, m->budget, memory, m->arena))
        return false;
    m->sections = exact_sweep_new(&m->tree.sky, 1, m->budget, memory, m->arena);
    m->joined = exact_coalescing_new(&m->tree.sky, 1, false, m->budget, memory, m->arena);
    m->drawn = exact_coalescing_new(&m->tree.sky, 2, true, m->budget, memory, m->arena);
    m->many = m->problem->buffer_count > MANY_BUFFERS;
    m->others = m->many ? exact_sweep_new(&m->tree.sky, 2, m->budget, memory, m->arena) : m->sections;
    m->work = TARGET_WORK * m->tree.node_work;
    m->goal = m->rounded ? m->solution->lower_bound / m->unit : units(m, m->solution->lower_bound);
    if (!m->rounded) raise_bound(m, m->goal);
    if (m->rounded) {
        m->whole = BASE_NEW(m->arena, neighbours);
        if (!m->whole || !exact_neighbours_init(m->whole, m->problem, m->arena)) return false;
    }
    if (m->goal < m->problem->capacity / m->unit) m->goal = m->problem->capacity / m->unit;
    ask_for(m, m->goal);
    return m->sections && m->others && m->joined && m->drawn;
}

static void improver_free(improver *m) {
    exact_coalescing_free(m->joined);
    exact_coalescing_free(m->drawn);
    exact_search_free(&m->tree);
}

/* ---- ways of searching, in turns ------------------------------------------------------------------------- */

/* One way of searching, with a copy of the solution. */
typedef struct way {
    const planner_problem *problem;
    planner_solution solution;
    planner_budget budget;
    base_arena arena;
    ejection *chains;   /* or NULL */
    improver *complete; /* or NULL */
    uint64_t spent;
    bool ended; /* it cannot go on */
    bool out_of_memory;
} way;

static void copy_solution(const planner_problem *problem, planner_solution *to,
                          const planner_solution *from) {
    memcpy(to->offsets, from->offsets, problem->buffer_count * sizeof *to->offsets);
    to->height = from->height;
}

/* One turn: about so much work. */
static void way_run(way *w, uint64_t work) {
    const uint64_t before = w->budget.spent;
    if (w->chains) {
        exact_ejection_run(w->chains, enough_of(w->problem, &w->solution), work, &w->budget,
                           w->solution.offsets, &w->solution.height);
        w->ended = w->budget.spent == before; /* a pinned buffer is the highest one */
    } else {
        while (!w->ended && w->budget.spent - before < work) {
            w->ended = improver_is_done(w->complete);
            if (w->ended) break;
            improver_step(w->complete, work);
            w->out_of_memory = w->complete->out_of_memory;
            w->ended = w->out_of_memory || w->budget.over;
        }
    }
    w->spent += w->budget.spent - before + 1;
}

static void way_free(way *w) {
    if (w->complete) improver_free(w->complete); /* also one that is half made */
    base_arena_free(&w->arena);
}

typedef struct race {
    const planner_problem *problem;
    planner_solution *solution; /* the best of all ways */
    way *ways;
    size_t way_count, threads;
    double end;    /* where there is a time; otherwise 0 */
    uint64_t work; /* what is left, where there is none */
} race;

static bool is_done(const planner_problem *problem, const planner_solution *solution) {
    return solution->height <= enough_of(problem, solution);
}

static way *add_way(race *r, base_arena *arena) {
    way *w = &r->ways[r->way_count++];
    *w = (way){.problem = r->problem, .solution = *r->solution};
    base_arena_init(&w->arena, arena->allocator);
    w->solution.offsets = BASE_ARRAY(&w->arena, size_t, r->problem->buffer_count);
    if (!w->solution.offsets) return NULL;
    copy_solution(r->problem, &w->solution, r->solution);
    return w;
}

/* False when memory runs out. */
static bool add_chains(race *r, uint64_t seed, base_arena *arena) {
    way *w = add_way(r, arena);
    if (w) w->chains = exact_ejection_new(r->problem, seed, &w->arena);
    return w && w->chains;
}

/* The complete search in this unit, where the problem is not too large for it. False when memory runs out. */
static bool add_complete(race *r, size_t unit, base_arena *arena) {
    way *w = add_way(r, arena);
    if (!w || !(w->complete = BASE_NEW(&w->arena, improver))) return false;
    *w->complete =
        (improver){.problem = w->problem, .solution = &w->solution, .budget = &w->budget, .arena = &w->arena};
    if (!improver_init(w->complete, unit)) {
        w->ended = w->complete->tree.sky.too_large;
        return w->ended;
    }
    return true;
}

/* The work of a way after its next turn, the more the less is to be hoped of it. Of many buffers ejection chains come first: what little
 * work can do they do. */
static uint64_t work_after(const way *w, uint64_t turn) {
    const uint64_t work = w->spent + (w->chains ? turn : next_cost(w->complete, turn));
    if (!w->chains || w->problem->buffer_count <= MANY_BUFFERS) return work;
    return work > CHAINS_FIRST ? MANY_CHAINS * (work - CHAINS_FIRST) : 0;
}

/* The way that will have done the least, and is not among those that run already; NULL: there is none. */
static way *next_way(race *r, uint64_t turn, way *const *running, size_t running_count) {
    way *next = NULL;
    for (size_t i = 0; i < r->way_count; i++) {
        way *w = &r->ways[i];
        bool runs = w->ended;
        for (size_t k = 0; k < running_count; k++) runs |= running[k] == w;
        if (!runs && (!next || work_after(w, turn) < work_after(next, turn))) next = w;
    }
    return next;
}

/* As many ways as there are threads do a turn. False: there is nobody left, or no time. */
static bool run_turn(race *r, uint64_t turn) {
    way *running[WAYS];
    size_t count = 0;
    const double left = r->end > 0 ? r->end - planner_budget_clock() : 0;
    if (r->end > 0 ? left <= 0 : r->work == 0) return false;
    while (count < r->threads) {
        way *w = next_way(r, turn, running, count);
        if (!w) break;
        running[count++] = w;
    }
    if (count == 0) return false;
    uint64_t longest = turn; /* so that nobody waits long for somebody who cannot be interrupted */
    for (size_t i = 0; i < count; i++) {
        way *w = running[i];
        if (!w->chains && next_cost(w->complete, turn) > longest) longest = next_cost(w->complete, turn);
        w->budget = planner_budget_of(left, r->work / count + 1);
        copy_solution(r->problem, &w->solution, r->solution);
        w->solution.lower_bound = r->solution->lower_bound;
    }
#pragma omp parallel for num_threads((int)count) schedule(static, 1) if (count > 1)
    for (size_t i = 0; i < count; i++) way_run(running[i], running[i]->chains ? longest : turn);
    for (size_t i = 0; i < count; i++) {
        const way *w = running[i];
        r->work -= w->budget.spent < r->work ? w->budget.spent : r->work;
        if (w->solution.height < r->solution->height) copy_solution(r->problem, r->solution, &w->solution);
        if (w->solution.lower_bound > r->solution->lower_bound)
            r->solution->lower_bound = w->solution.lower_bound;
    }
    return true;
}

/* Greedy planning in many orders. False when memory runs out. */
static bool begin_race(race *r, base_arena *arena) {
    base_arena memory;
    neighbours n;
    base_arena_init(&memory, arena->allocator);
    planner_budget budget = planner_budget_of(
        r->end > 0 ? (r->end - planner_budget_clock()) / ORDERS_SHARE : 0, r->work / ORDERS_SHARE);
    const bool fine = exact_neighbours_init(&n, r->problem, &memory) &&
                      exact_orders_try(&n, enough_of(r->problem, r->solution), &budget, &memory,
                                       r->solution->offsets, &r->solution->height);
    r->work -= budget.spent < r->work ? budget.spent : r->work;
    base_arena_free(&memory);
    return fine;
}

/* One stack: ejection chains from the best solution, moved to it. */
static bool try_stack(race *r, const stack *found, stack_order by, planner_budget *budget,
                      base_arena *arena) {
    const size_t enough = enough_of(r->problem, r->solution);
    planner_problem stacked;
    neighbours n;
    size_t height = SIZE_MAX, *offsets = BASE_ARRAY(arena, size_t, r->problem->buffer_count + 1);
    if (!offsets || !exact_stack_pin(r->problem, found, by, r->solution->offsets, arena, &stacked))
        return false;
    memcpy(offsets, r->solution->offsets, r->problem->buffer_count * sizeof *offsets);
    if (!exact_neighbours_init(&n, &stacked, arena) ||
        !exact_orders_compact(&n, r->solution->offsets, budget, arena, offsets, &height))
        return false;
    ejection *chains = height < SIZE_MAX ? exact_ejection_new(&stacked, 0, arena) : NULL;
    if (height < SIZE_MAX && !chains) return false;
    for (bool lower = true; lower && height > enough && !budget->over;)
        lower = exact_ejection_run(chains, enough, STACK_BURST, budget, offsets, &height);
    if (height >= r->solution->height) return true;
    r->solution->height = height;
    memcpy(r->solution->offsets, offsets, r->problem->buffer_count * sizeof *offsets);
    return true;
}

/* False when memory runs out. */
static bool try_stacks(race *r, uint64_t work, base_arena *arena) {
    planner_budget budget = planner_budget_of(
        r->end > 0 ? (r->end - planner_budget_clock()) / STACKS_SHARE : 0, work / STACKS_SHARE);
    stack found = {0};
    base_arena members;
    base_arena_init(&members, arena->allocator);
    bool fine = is_done(r->problem, r->solution) || exact_stack_find(r->problem, &members, &found);
    for (stack_order by = 0; by < STACK_ORDERS && fine && !budget.over; by++) {
        if (!found.possible || is_done(r->problem, r->solution)) break;
        base_arena memory;
        base_arena_init(&memory, arena->allocator);
        fine = try_stack(r, &found, by, &budget, &memory);
        base_arena_free(&memory);
    }
    base_arena_free(&members);
    r->work -= budget.spent < r->work ? budget.spent : r->work;
    return fine;
}

/* False when memory runs out. */
static bool run_race(race *r, base_arena *arena) {
    const size_t aligned = planner_common_alignment(r->problem), unit = common_unit(r->problem);
    const size_t chains = r->threads > 1 ? r->threads - 1 : 1;
    bool fine = (aligned <= unit || add_complete(r, aligned, arena)) && add_complete(r, unit, arena);
    for (size_t i = 0; i < chains && fine; i++) fine = add_chains(r, planner_mix(i), arena);
    uint64_t turn = FIRST_TURN;
    while (fine && !is_done(r->problem, r->solution) && run_turn(r, turn)) {
        for (size_t i = 0; i < r->way_count; i++) fine &= !r->ways[i].out_of_memory;
        if (turn < LONGEST_TURN) turn += turn / 4;
    }
    for (size_t i = 0; i < r->way_count; i++) way_free(&r->ways[i]);
    return fine;
}

static bool run_whole_race(race *r, uint64_t work, base_arena *arena) {
    r->ways = BASE_ARRAY(arena, way, r->threads + 2);
    r->way_count = 0;
    return r->ways && try_stacks(r, work, arena) && run_race(r, arena);
}

/* Searches what remains of a composition (compose.h) for a solution, where it is a smaller problem. It begins with all that remains
 * one on another. False when memory runs out. */
static bool search_composed(race *whole, const composition *composed, uint64_t work, base_arena *arena) {
    const planner_problem *problem = &composed->problem;
    const size_t count = composed->buffer_count;
    size_t *offsets = BASE_ARRAY(arena, size_t, count + 1);
    planner_solution found = {.offsets = BASE_ARRAY(arena, size_t, problem->buffer_count + 1),
                              .height = SIZE_MAX,
                              .lower_bound = whole->solution->lower_bound};
    if (!offsets || !found.offsets) return false;
    race r = {.problem = problem, .solution = &found, .threads = whole->threads, .work = work / COMPOSED_SHARE};
    if (whole->end > 0) {
        const double now = planner_budget_clock();
        r.end = now + (whole->end - now) / COMPOSED_SHARE;
    }
    if (!begin_race(&r, arena) || (found.height < SIZE_MAX && !run_whole_race(&r, r.work, arena))) return false;
    whole->work -= work / COMPOSED_SHARE - r.work;
    if (found.height >= whole->solution->height) return true;
    exact_compose_place(composed, found.offsets, whole->solution->offsets);
    whole->solution->height = height_of(whole->problem, whole->solution->offsets);
    return true;
}

/* False when memory runs out. */
static bool try_composed(race *r, uint64_t work, base_arena *arena) {
    composition composed;
    base_arena memory;
    if (is_done(r->problem, r->solution)) return true;
    base_arena_init(&memory, arena->allocator);
    planner_budget budget = planner_budget_of(r->end > 0 ? (r->end - planner_budget_clock()) / COMPOSED_SHARE : 0,
                                              work / COMPOSED_SHARE);
    bool fine = exact_compose(r->problem, &budget, &memory, &composed);
    r->work -= budget.spent < r->work ? budget.spent : r->work;
    if (fine && composed.problem.buffer_count <= r->problem->buffer_count / COMPOSED_PART)
        fine = search_composed(r, &composed, work, &memory);
    base_arena_free(&memory);
    return fine;
}

base_status exact_improve(const planner_problem *problem, const planner_options *options, base_arena *arena,
                          planner_solution *solution, base_report *report) {
    /* Interference that is listed has no sections. */
    if (is_done(problem, solution) || problem->starts || problem->buffer_count > SEARCHED_BUFFERS)
        return BASE_OK;
    size_t threads = options->threads > 0 ? options->threads : 1;
    if (threads > WAYS - 2) threads = WAYS - 2;
    race r = {.problem = problem, .solution = solution, .threads = threads};
    const uint64_t work = options->work > 0 ? options->work : UNTIMED_WORK;
    r.work = work;
    if (options->seconds > 0) r.end = planner_budget_clock() + options->seconds;
    return begin_race(&r, arena) && try_composed(&r, work, arena) && run_whole_race(&r, work, arena)
               ? BASE_OK
               : base_fail_memory(report);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* modes.c: see modes.h. */
#include "passes/planners/base/modes.h"

static void whole_run(const planner_problem *problem, int64_t *first, int64_t *last) {
    *first = INT64_MAX;
    *last = INT64_MIN;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        if (problem->buffers[i].first < *first) *first = problem->buffers[i].first;
        if (problem->buffers[i].last > *last) *last = problem->buffers[i].last;
    }
}

bool planner_preserve(const planner_problem *problem, base_arena *arena, planner_problem *preserved) {
    planner_buffer *buffers = BASE_ARRAY(arena, planner_buffer, problem->buffer_count + 1);
    int64_t first, last;
    if (!buffers) return false;
    whole_run(problem, &first, &last);
    for (size_t i = 0; i < problem->buffer_count; i++) {
        buffers[i] = problem->buffers[i];
        buffers[i].last = last;
    }
    *preserved = (planner_problem){
        .buffers = buffers, .buffer_count = problem->buffer_count, .capacity = problem->capacity};
    return true;
}

bool *planner_persistent(const planner_problem *problem, base_arena *arena) {
    bool *persistent = BASE_ARRAY(arena, bool, problem->buffer_count + 1);
    int64_t first, last;
    whole_run(problem, &first, &last);
    for (size_t i = 0; persistent && i < problem->buffer_count; i++)
        persistent[i] = problem->buffers[i].first == first && problem->buffers[i].last == last;
    return persistent;
}

/* One of the two arenas: some of the buffers as a problem of their own. */
typedef struct part {
    planner_problem problem;
    planner_buffer *buffers;
    uint32_t *members; /* what they are in the whole problem */
    size_t alignment;  /* the largest */
    size_t height, bound;
} part;

static bool part_lists(part *p, const planner_problem *problem, base_arena *arena) {
    size_t n = problem->buffer_count, count = 0;
    uint32_t *numbers = BASE_ARRAY(arena, uint32_t, n + 1), *neighbours;
    size_t *starts = BASE_ARRAY(arena, size_t, p->problem.buffer_count + 1);
    if (!numbers || !starts) return false;
    for (size_t i = 0; i < n; i++) numbers[i] = UINT32_MAX;
    for (size_t i = 0; i < p->problem.buffer_count; i++) {
        uint32_t of = p->members[i];
        numbers[of] = (uint32_t)i;
        count += problem->starts[of + 1] - problem->starts[of];
    }
    neighbours = BASE_ARRAY(arena, uint32_t, count);
    if (!neighbours) return false;
    count = 0;
    for (size_t i = 0; i < p->problem.buffer_count; i++) {
        uint32_t of = p->members[i];
        for (size_t k = problem->starts[of]; k < problem->starts[of + 1]; k++) {
            uint32_t other = numbers[problem->neighbours[k]];
            if (other != UINT32_MAX) neighbours[count++] = other;
        }
        starts[i + 1] = count;
    }
    p->problem.starts = starts;
    p->problem.neighbours = neighbours;
    return true;
}

/* Overwrites between two members; the others are left unused. */
static bool part_overwrites(part *p, const planner_problem *problem, base_arena *arena) {
    uint32_t *numbers = BASE_ARRAY(arena, uint32_t, problem->buffer_count + 1);
    planner_overwrite *overwrites = BASE_ARRAY(arena, planner_overwrite, problem->overwrite_count);
    if (!numbers || !overwrites) return false;
    for (size_t i = 0; i < problem->buffer_count; i++) numbers[i] = UINT32_MAX;
    for (size_t i = 0; i < p->problem.buffer_count; i++) numbers[p->members[i]] = (uint32_t)i;
    p->problem.overwrites = overwrites;
    for (size_t i = 0; i < problem->overwrite_count; i++) {
        const planner_overwrite *over = &problem->overwrites[i];
        uint32_t buffer = numbers[over->buffer], target = numbers[over->target];
        if (buffer != UINT32_MAX && target != UINT32_MAX)
            overwrites[p->problem.overwrite_count++] = (planner_overwrite){buffer, target, over->at};
    }
    return true;
}

static bool part_init(part *p, const planner_problem *problem, const bool *persistent, bool wanted,
                      base_arena *arena) {
    size_t count = 0;
    *p = (part){.alignment = 1,
                .buffers = BASE_ARRAY(arena, planner_buffer, problem->buffer_count + 1),
                .members = BASE_ARRAY(arena, uint32_t, problem->buffer_count + 1)};
    if (!p->buffers || !p->members) return false;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        if (persistent[i] != wanted) continue;
        if (problem->buffers[i].alignment > p->alignment) p->alignment = problem->buffers[i].alignment;
        p->buffers[count] = problem->buffers[i];
        p->members[count++] = (uint32_t)i;
    }
    p->problem = (planner_problem){.buffers = p->buffers, .buffer_count = count};
    return (!problem->starts || part_lists(p, problem, arena)) &&
           (problem->overwrite_count == 0 || part_overwrites(p, problem, arena));
}

/* Runs the planner on a part that begins at `base`. *fits is false, and nothing is done, where one of its buffers is
 * pinned below. */
static base_status part_run(part *p, size_t base, const planner *chosen, const planner_problem *problem,
                            const planner_options *options, base_arena *arena, planner_solution *solution,
                            bool *fits, base_report *report) {
    size_t count = p->problem.buffer_count;
    *fits = true;
    for (size_t i = 0; i < count; i++) {
        size_t fixed = problem->buffers[p->members[i]].fixed;
        p->buffers[i].fixed = fixed;
        if (fixed == PLANNER_NOT_FIXED) continue;
        if (fixed < base) *fits = false;
        else p->buffers[i].fixed = fixed - base;
    }
    if (!*fits) return BASE_OK;
    p->problem.capacity = 0;
    if (problem->capacity) p->problem.capacity = problem->capacity > base ? problem->capacity - base : 1;
    planner_solution answer = {.offsets = BASE_ARRAY(arena, size_t, count + 1)};
    if (!answer.offsets) return base_fail_memory(report);
    base_status status = planner_lower_bound(&p->problem, arena, &answer.lower_bound, report);
    if (status == BASE_OK) status = chosen->run(&p->problem, options, arena, &answer, report);
    if (status != BASE_OK) return status;
    p->bound = answer.lower_bound;
    p->height = base;
    for (size_t i = 0; i < count; i++) {
        size_t offset = base + answer.offsets[i], end = offset + p->buffers[i].size;
        solution->offsets[p->members[i]] = offset;
        if (p->buffers[i].size > 0 && end > p->height) p->height = end;
    }
    return BASE_OK;
}

base_status planner_run_apart(const planner *chosen, const planner_problem *problem, const bool *persistent,
                              const planner_options *options, base_arena *arena, planner_solution *solution,
                              base_report *report) {
    part kept, shared;
    if (!part_init(&kept, problem, persistent, true, arena) ||
        !part_init(&shared, problem, persistent, false, arena)) {
        return base_fail_memory(report);
    }
    for (int swapped = 0; swapped < 2; swapped++) {
        part *below = swapped ? &shared : &kept, *above = swapped ? &kept : &shared;
        size_t base;
        bool fits;
        base_status status = part_run(below, 0, chosen, problem, options, arena, solution, &fits, report);
        if (status != BASE_OK) return status;
        if (!base_size_align(below->height, above->alignment, &base)) {
            return base_fail(report, BASE_INVALID, "%s: addresses do not fit", chosen->name);
        }
        status = part_run(above, base, chosen, problem, options, arena, solution, &fits, report);
        if (status != BASE_OK) return status;
        if (!fits) continue;
        solution->shared_low = swapped ? 0 : base;
        solution->shared_high = shared.height;
        if (kept.bound + shared.bound > solution->lower_bound)
            solution->lower_bound = kept.bound + shared.bound;
        return BASE_OK;
    }
    return base_fail(
        report, BASE_INVALID,
        "pinned offsets do not let the buffers that live as long as the whole problem lie apart");
}

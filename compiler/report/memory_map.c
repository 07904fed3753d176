/* SPDX-License-Identifier: Apache-2.0 */
/* memory_map.c: pictures of memory: steps across, addresses up, one rectangle a storage; see map.h.
 *
 * Drawn are the live range and the place of every storage, the lower bound and the height as lines, and the bytes live at each
 * step as an area below them.
 */
#include "compiler/report/map.h"
#include <string.h>

enum { MOST_STEPS = 200 }; /* of a picture for paper: repeated blocks of longer ones are drawn once */

/* Draws what was made of `picture`, unless it failed, and frees the arena in which it lies. */
static base_status write_picture(base_status made, map_picture *picture, base_arena *arena, const char *path,
                                 base_report *report) {
    emit_buffer out = {0};
    const size_t length = strlen(path);
    const bool page = length > 5 && strcmp(path + length - 5, ".html") == 0;
    if (made == BASE_OK && !page) made = emit_map_fold(picture, MOST_STEPS, arena, report);
    if (made == BASE_OK) {
        if (page) {
            emit_map_page(&out, picture);
        } else {
            emit_text(&out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
            emit_map_svg(&out, picture);
        }
        made = emit_write(&out, path, report);
    }
    emit_free(&out);
    base_arena_free(arena);
    return made;
}

base_status emit_memory_map(const compile_result *result, const char *path, base_report *report) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    map_picture picture = {0};
    const base_status made = emit_map_of_module(result, &picture, &arena, report);
    return write_picture(made, &picture, &arena, path, report);
}

base_status emit_plan_map(const plan *of, const char *path, base_report *report) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    map_picture picture = {0};
    const base_status made = emit_map_of_plan(of, &picture, &arena, report);
    return write_picture(made, &picture, &arena, path, report);
}

base_status emit_solution_map(const planner_problem *problem, const char *const *ids,
                              const planner_solution *solution, const char *title, const char *path,
                              base_report *report) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    map_picture picture = {0};
    const base_status made = emit_map_of_solution(problem, ids, solution, title, &picture, &arena, report);
    return write_picture(made, &picture, &arena, path, report);
}

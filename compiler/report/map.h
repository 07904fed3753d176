/* SPDX-License-Identifier: Apache-2.0 */
/* map.h: a picture of the memory before it is drawn: rectangles over steps and addresses. What makes it (map_module.c,
 * map_plan.c, map_solution.c) knows nothing of drawing; what draws it (map_svg.c, map_page.c) knows neither modules nor problems. */
#ifndef OURO_EMIT_MAP_H
#define OURO_EMIT_MAP_H

#include "compiler/report/emit.h"
#include "compiler/report/family.h"
#include "compiler/report/report.h"

typedef enum map_kind {
    MAP_STORAGE, /* bytes that hold one thing */
    MAP_FRAME,   /* bytes in which others are drawn: the buffer of sub-graphs, or places that change hands */
    MAP_TENANT   /* a value in such a place, in one iteration */
} map_kind;

typedef struct map_rectangle {
    map_kind kind;
    double first, last;        /* across, in units of a step */
    uint64_t low, bytes;       /* up */
    const char *name;          /* short */
    const char *title;         /* everything, in lines */
    const emit_family *family; /* NULL: scratch */
    const char *maker;         /* the node that makes it, "Conv stem"; NULL: none */
    const char *reads;         /* names of what that node reads, in lines; NULL: none */
    const char *readers;       /* names of what is made of it, in lines; NULL: none */
} map_rectangle;

/* A piece of time that has a name: a loop, one of its iterations, or a block of steps that stands for several (map_fold.c). */
typedef struct map_span {
    double first, last;
    unsigned depth; /* of nesting, from 0 */
    bool iteration;
    bool repeats; /* a block that is drawn once */
    const char *text;
} map_span;

/* Memory of the caller in which values change hands: drawn above the arena, each from `low` on. */
typedef struct map_band {
    uint64_t low, bytes;
    const char *name;
} map_band;

typedef struct map_picture {
    const char *title;
    map_rectangle *rectangles;
    size_t count, capacity;
    map_span *spans;
    size_t span_count, span_capacity;
    map_band *bands;
    size_t band_count, band_capacity;
    double width;           /* in units */
    uint64_t height, bound; /* of the arena */
    double *curve_at;       /* left ends of pieces, ascending, curve_count of them, and the last right end */
    uint64_t *curve;        /* live bytes of each piece */
    size_t curve_count;
    const char **columns; /* what runs at the units 0, 1, ...: NULL, or (size_t)width names, NULL for none */
    const size_t *steps;  /* which step stands at the units 0, 1, ...; NULL: that of the same number */
    size_t left_out;      /* boxes of repeated blocks that are not drawn again */
    bool families;        /* the legend shows families */
    uint32_t unsized;     /* tensors that only a run gives a size: they are not drawn */
} map_picture;

/* A new rectangle; NULL when memory runs out. (map.c) */
map_rectangle *emit_map_add(map_picture *picture, base_arena *arena);
/* A new span, or band: false when memory runs out. */
bool emit_map_add_span(map_picture *picture, base_arena *arena, map_span span);
bool emit_map_add_band(map_picture *picture, base_arena *arena, map_band band);
/* How many spans stand one above the other where they are nested most. */
unsigned emit_map_depth(const map_picture *picture);
/* The uppermost address that is drawn: of the arena, or of the last band. */
uint64_t emit_map_top(const map_picture *picture);
/* How many iterations of a loop are worth drawing: until everything has been seen, and once more; no more than there are (`trips`, below 1:
 * not known) and than can be read side by side. `body`: the steps of one. */
uint32_t emit_map_iterations(uint64_t prologue, uint64_t period, int64_t trips, double body);

/* What the module's memory holds, everything in `arena`. (map_module.c) */
base_status emit_map_of_module(const compile_result *result, map_picture *picture, base_arena *arena,
                               base_report *report);
/* What a plan's memory holds, from the plan alone. (map_plan.c) */
base_status emit_map_of_plan(const plan *of, map_picture *picture, base_arena *arena, base_report *report);
/* The solution of any problem; `ids` as planner_csv_read gives them. (map_solution.c) */
base_status emit_map_of_solution(const planner_problem *problem, const char *const *ids,
                                 const planner_solution *solution, const char *title, map_picture *picture,
                                 base_arena *arena, base_report *report);
/* Leaves out what repeats, of a picture of more than `most` steps: blocks of steps whose boxes have the same sizes and addresses as those
 * of the block before. The first block is drawn, with a span that says which steps it stands for. (map_fold.c) */
base_status emit_map_fold(map_picture *picture, size_t most, base_arena *arena, base_report *report);
/* The picture as an SVG element. Many steps are drawn in rows, one below the other. (map_svg.c) */
void emit_map_svg(emit_buffer *out, const map_picture *picture);
/* The picture as a page that stands alone: it draws, zooms and searches by itself. (map_page.c) */
void emit_map_page(emit_buffer *out, const map_picture *picture);

#endif

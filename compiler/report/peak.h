/* SPDX-License-Identifier: Apache-2.0 */
/* peak.h: what makes the peak of a plan: the tensors that are live in the step whose live bytes are the most. */
#ifndef OURO_REPORT_PEAK_H
#define OURO_REPORT_PEAK_H

#include "compiler/report/emit.h"
#include "runtime/plan/plan.h"
#include <stdio.h>

typedef enum peak_kind {
    PEAK_TENSOR,  /* a tensor of the graph */
    PEAK_ROTATES, /* a buffer that tensors of the step's loop share by turns */
    PEAK_SCRATCH, /* what the kernel of the step wants beside its operands */
    PEAK_REGION,  /* what the sub-graphs of the step need */
    PEAK_TENANT /* a tensor whose address a table tells: where it lies depends on the iteration (emit_peak_items alone) */
} peak_kind;

/* Bytes that are live in the step. */
typedef struct peak_item {
    peak_kind kind;
    uint32_t tensor; /* PLAN_ABSENT: none, see kind */
    uint64_t offset, bytes;
    uint32_t producer;   /* node; PLAN_ABSENT: a parameter of the graph, or no tensor */
    uint32_t last;       /* the last node that needs it; PLAN_ABSENT: the end of the graph */
    int64_t first, ends; /* steps of the graph: from, and the last one; -1: before the first */
} peak_item;

typedef struct peak {
    int64_t step; /* of the graph */
    int64_t steps;
    uint32_t node;    /* that runs then; PLAN_ABSENT: there is none */
    uint64_t bytes;   /* live: the items together, which may overlap */
    peak_item *items; /* the largest first, then by offset; what lies within a larger one is left out */
    size_t count;
} peak;

/* Finds the step of a graph (0: main) with the most live bytes, and what is live there; of several equal ones the first. All from the
 * plan: views keep alive what they are views of. What is sized at run time is not counted. Memory from `arena`; false where that runs
 * out. */
bool emit_peak_find(const plan *of, uint32_t graph, base_arena *arena, peak *found);

/* Everything that lies in memory for some steps of a graph, in no order: in the arena tensors, also those that are aliases of others, scratch,
 * regions of sub-graphs, and buffers that change hands in loops of the graph; and tensors whose addresses are in tables, of this loop or one
 * that has ended, wherever they lie: their offset is 0. As above otherwise. */
bool emit_peak_items(const plan *of, uint32_t graph, base_arena *arena, peak_item **items, size_t *count);

/* "read by Conv \"stem\" in step 12, and made here"; why the item is live in the step of the peak. Returns text. */
char *emit_peak_why(const plan *of, const peak *found, const peak_item *item, char *text, size_t capacity);
/* The name of an item: its tensor's, "scratch", or "the body of NAME". Returns text. */
char *emit_peak_name(const plan *of, const peak *found, const peak_item *item, char *text, size_t capacity);

/* The ten largest items of the main graph's peak, each a line, and those of the sub-graph that runs then; the member "peak" of a JSON
 * object likewise. False when memory runs out. */
bool emit_peak_print(FILE *file, const plan *of, base_arena *arena);
bool emit_peak_emit(emit_buffer *json, const plan *of, base_arena *arena);

#endif

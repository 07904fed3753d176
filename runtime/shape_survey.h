/* SPDX-License-Identifier: Apache-2.0 */
/* shape_survey.h: what follows for the main graph from the extents of a run: types, who shares whose bytes, and when each tensor is live.
 * shapes.c places tensors by it. */
#ifndef OURO_SHAPE_SURVEY_H
#define OURO_SHAPE_SURVEY_H

#include "runtime/executor.h"

typedef enum rt_shape_how {
    RT_SHAPE_SAME, /* the tensor is its own root, or the root by another name (Reshape and its like) */
    RT_SHAPE_MADE, /* its node writes it into the bytes of the root: a part of a Concat, or over an input that dies */
    RT_SHAPE_CUT /* nothing is made: it is a range of the root (Slice, Split) */
} rt_shape_how;

/* A tensor. It lies in the bytes of its root, from byte `at`. */
typedef struct rt_shape_value {
    op_tensor tensor;    /* the type, and symbolic values; data of constants */
    uint32_t root, next; /* of all that lie in one root, from the root on; PLAN_ABSENT: the last one */
    size_t at;
    rt_shape_how how;
    bool over;            /* it is written over another value */
    bool overwritten;     /* another one is written over it */
    bool excluded;        /* handed on by reference to what lives longer: by loops, branches, sequences */
    uint64_t first, last; /* steps of the main graph; UINT64_MAX: in none; the last reader is none */
} rt_shape_value;

typedef struct rt_shape_survey {
    const ouro_session *session;
    const plan *of;
    base_arena *arena;
    rt_shape_value *values; /* by tensor id */
} rt_shape_survey;

/* Dynamic inputs as they are bound, and states as large as they may come to be, so that one plan serves all runs. All that is made
 * lies in `arena`, which the caller keeps and frees. False when memory runs out. */
bool rt_shape_survey_begin(rt_shape_survey *survey, const ouro_session *session, base_arena *arena);
/* Types, steps, and who has the bytes of an input: as the executor does it (views.c), and over inputs that die. */
bool rt_shape_survey_graph(rt_shape_survey *survey);
/* What a Concat puts side by side is made where it is to lie, as far as it lies together and is free to move. */
bool rt_shape_place_parts(rt_shape_survey *survey);
/* The tensor, and all that lies in it, gets memory from the plan for these shapes: how many bytes? */
bool rt_shape_may_be_placed(const rt_shape_survey *survey, uint32_t tensor, size_t *bytes);

#endif

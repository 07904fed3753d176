/* SPDX-License-Identifier: Apache-2.0 */
/* generation_beam.c: what a beam search does with the scores of the next words; see generation_beam.h.
 *
 * Of the sums of scores, 2 K are taken for a batch of K beams. At most K of these end a sequence, so that K others remain, which go on. Ended
 * sequences are kept with their score for their length, the best K of them, in order. */
#include "compiler/onnx/convert/generation_beam.h"

#include <float.h>
#include <math.h>

/* [batch, beams] of a tensor that broadcasts to it. */
static ir_value *for_beams(const import_node *n, const beam_search *s, ir_value *x) {
    ir_value *shape[] = {s->g.batch, s->beams};
    return expr_binary(n, OP_EXPAND, x, expr_join(n, 0, 2, shape));
}

bool import_beam_number(const import_node *n, beam_search *s) {
    ir_value *batches = expr_range(n, s->g.batch);
    s->rows = expr_binary(n, OP_MUL, s->g.batch, s->beams);
    s->first = expr_axis(n, OP_UNSQUEEZE, expr_binary(n, OP_MUL, batches, s->beams), 1);
    s->batches = for_beams(n, s, expr_axis(n, OP_UNSQUEEZE, batches, 1));
    return s->rows && s->first && s->batches;
}

bool import_beam_begin(const import_node *n, const beam_search *s, ir_value **carried) {
    ir_value *each[] = {s->g.batch, s->beams, s->g.limit}, *one[] = {s->g.batch, expr_vector(n, 1)};
    carried[BEAM_KEPT_SCORES] = expr_fill(n, OP_FLOAT, (double)-INFINITY, 2, each);
    carried[BEAM_KEPT] = expr_fill(n, OP_INT32, (double)s->g.pad, 3, each);
    carried[BEAM_USED] = expr_fill(n, OP_INT64, 0, 2, one);
    carried[BEAM_ENDED] = expr_fill(n, OP_BOOL, 0, 2, one);
    /* All beams begin with the same words: only the first one counts. */
    ir_value *numbers = expr_range(n, s->beams);
    ir_value *others = numbers ? expr_binary(n, OP_GREATER, numbers, import_constant_integer(n, 0)) : NULL;
    ir_value *lowest = import_constant_real(n, OP_FLOAT, -1e9);
    carried[BEAM_SCORES] =
        for_beams(n, s, expr_select(n, others, lowest, import_constant_real(n, OP_FLOAT, 0)));
    for (uint32_t i = BEAM_SCORES; i <= BEAM_ENDED; i++)
        if (i != BEAM_SEQUENCES && !carried[i]) return false;
    return true;
}

/* Sums of scores divided by a power of the length. */
static ir_value *for_length(const import_node *n, const beam_search *s, ir_value *sums, ir_value *length) {
    ir_value *power = expr_cast(n, length, OP_FLOAT);
    if (s->length_penalty) power = expr_binary(n, OP_POW, power, s->length_penalty);
    return expr_binary(n, OP_DIV, sums, power);
}

static ir_value *pick(const import_node *n, ir_value *x, ir_value *places) {
    ir_value *inputs[] = {x, places};
    return expr_with_integer(n, OP_GATHER_ELEMENTS, "axis", 1, 2, inputs);
}

/* Puts more ended sequences to those that are kept, of which `used` there are: those of `valid`, with these scores. These may be -infinity,
 * and come before what there is not. */
static bool keep(const import_node *n, const beam_search *s, ir_value *used, ir_value *valid,
                 ir_value *scores, ir_value *sequences, ir_value **kept_scores, ir_value **kept) {
    ir_value *own[] = {*kept_scores, scores}, *all[] = {*kept, sequences}, *ignored, *places;
    ir_value *there[] = {expr_binary(n, OP_LESS, expr_range(n, s->beams), used), valid};
    ir_value *values = expr_join(n, 1, 2, own);
    ir_value *least = import_constant_real(n, OP_FLOAT, -(double)FLT_MAX);
    ir_value *keys = expr_binary(n, OP_MAX, values, least), *is_there = expr_join(n, 1, 2, there);
    keys = expr_select(n, is_there, keys, import_constant_real(n, OP_FLOAT, (double)-INFINITY));
    if (!expr_top(n, keys, s->beams, 1, true, &ignored, &places)) return false;
    *kept_scores = pick(n, values, places);
    ir_value *inputs[2];
    inputs[0] = expr_join(n, 1, 2, all);
    inputs[1] = expr_axis(n, OP_UNSQUEEZE, places, 2);
    *kept = expr_with_integer(n, OP_GATHER_ND, "batch_dims", 1, 2, inputs);
    return *kept_scores && *kept;
}

/* The first K of what lies along the last axis of [batch, 2 K]. */
static ir_value *first_half(const import_node *n, const beam_search *s, ir_value *x) {
    return expr_slice(n, x, 1, expr_vector(n, 0), s->beams);
}

/* Candidates: 2 K of each batch, from the best on. */
typedef struct candidates {
    ir_value *scores, *beams, *words, *ends; /* [batch, 2 K] */
} candidates;

static bool find_candidates(const import_node *n, const beam_search *s, ir_value *scores, candidates *c) {
    ir_value *flat[] = {s->g.batch, expr_vector(n, -1)}, *count = expr_binary(n, OP_ADD, s->beams, s->beams),
             *places;
    ir_value *all = expr_binary(n, OP_RESHAPE, scores, expr_join(n, 0, 2, flat));
    if (!expr_top(n, all, count, 1, true, &c->scores, &places)) return false;
    ir_value *words = import_constant_integer(n, s->g.words);
    c->beams = expr_binary(n, OP_DIV, places, words);
    c->words = expr_binary(n, OP_SUB, places, expr_binary(n, OP_MUL, c->beams, words));
    c->ends = expr_binary(n, OP_EQUAL, c->words, import_constant_integer(n, s->g.end >= 0 ? s->g.end : -1));
    return c->ends != NULL;
}

/* Whether no beam can become better than the worst sequence that is kept. ONNX Runtime takes the best score from K candidates
 * of the batch and K that follow these in memory: where there are several batches, it has to be the same here. */
static ir_value *cannot_improve(const import_node *n, const beam_search *s, const candidates *c,
                                ir_value *kept_scores, ir_value *length) {
    static const int64_t last = 1, from_end[] = {-1};
    ir_value *halves[] = {expr_vector(n, -1), s->beams};
    ir_value *best = expr_reduce(
        n, OP_REDUCE_MAX, expr_binary(n, OP_RESHAPE, c->scores, expr_join(n, 0, 2, halves)), 1, &last, true);
    ir_value *end = expr_binary(n, OP_ADD, s->g.batch, expr_vector(n, 1));
    ir_value *first = expr_slice(n, best, 0, expr_vector(n, 0), s->g.batch);
    best = expr_binary(n, OP_MAX, first, expr_slice(n, best, 0, expr_vector(n, 1), end));
    ir_value *worst = expr_gather(n, kept_scores, 1, import_constant_integers(n, 1, from_end));
    return expr_binary(n, OP_GREATER_OR_EQUAL, worst, for_length(n, s, best, length));
}

bool import_beam_step(const import_node *n, const beam_search *s, ir_value *const *carried, ir_value *scores,
                      ir_value *length, bool first, ir_value **next, ir_value **rows) {
    static const int64_t along = 1;
    candidates c;
    if (!find_candidates(n, s, scores, &c)) return false;
    /* Sequences of a first step are those of the batches. */
    ir_value *sources = first ? NULL : expr_binary(n, OP_ADD, c.beams, s->first);
    /* What ends a sequence among the first K, unless the batch has ended. */
    ir_value *valid = first_half(n, s, c.ends);
    if (!first) valid = expr_binary(n, OP_AND, valid, expr_unary(n, OP_NOT, carried[BEAM_ENDED]));
    ir_value *own =
        expr_gather(n, carried[BEAM_SEQUENCES], 0, first ? s->batches : first_half(n, s, sources));
    next[BEAM_KEPT_SCORES] = carried[BEAM_KEPT_SCORES];
    next[BEAM_KEPT] = carried[BEAM_KEPT];
    if (!valid || !own ||
        !keep(n, s, carried[BEAM_USED], valid, for_length(n, s, first_half(n, s, c.scores), length), own,
              &next[BEAM_KEPT_SCORES], &next[BEAM_KEPT]))
        return false;
    ir_value *more = expr_reduce(n, OP_REDUCE_SUM, expr_cast(n, valid, OP_INT64), 1, &along, true);
    next[BEAM_USED] = expr_binary(n, OP_MIN, expr_binary(n, OP_ADD, carried[BEAM_USED], more), s->beams);
    ir_value *full = next[BEAM_USED] ? expr_binary(n, OP_EQUAL, next[BEAM_USED], s->beams) : NULL;
    if (!s->early)
        full = expr_binary(n, OP_AND, full, cannot_improve(n, s, &c, next[BEAM_KEPT_SCORES], length));
    next[BEAM_ENDED] = first ? full : expr_binary(n, OP_OR, carried[BEAM_ENDED], full);
    /* The first K that do not end a sequence, in order. */
    ir_value *count = expr_binary(n, OP_ADD, s->beams, s->beams), *order = expr_range(n, count), *chosen,
             *ignored;
    ir_value *keys = expr_select(n, c.ends, expr_binary(n, OP_ADD, order, count), order);
    if (!expr_top(n, keys, s->beams, 1, false, &chosen, &ignored)) return false;
    ir_value *words = expr_cast(n, pick(n, c.words, chosen), OP_INT32);
    next[BEAM_SCORES] = pick(n, c.scores, chosen);
    *rows = first ? s->batches : pick(n, sources, chosen);
    if (!first) {
        ir_value *ended = carried[BEAM_ENDED];
        next[BEAM_SCORES] = expr_select(n, ended, import_constant_real(n, OP_FLOAT, 0), next[BEAM_SCORES]);
        words = expr_select(n, ended, import_constant_real(n, OP_INT32, (double)s->g.pad), words);
        *rows = expr_select(n, ended, import_constant_integer(n, 0), *rows);
    }
    static const int64_t flat[] = {-1}, column[] = {-1, 1};
    *rows = expr_reshape(n, *rows, 1, flat);
    next[BEAM_WORD] = expr_reshape(n, words, 2, column);
    ir_value *shape[] = {s->rows, expr_vector(n, 1)};
    ir_value *put[] = {NULL, NULL, next[BEAM_WORD]};
    put[0] = expr_gather(n, carried[BEAM_SEQUENCES], 0, *rows);
    put[1] = expr_binary(n, OP_EXPAND, length, expr_join(n, 0, 2, shape));
    next[BEAM_SEQUENCES] = expr_with_integer(n, OP_SCATTER_ELEMENTS, "axis", 1, 3, put);
    return next[BEAM_SCORES] && next[BEAM_ENDED] && next[BEAM_SEQUENCES];
}

bool import_beam_finish(const import_node *n, const beam_search *s, ir_value *const *last,
                        ir_value **sequences, ir_value **scores) {
    ir_value *each[] = {s->g.batch, s->beams, s->g.limit};
    ir_value *own = expr_binary(n, OP_RESHAPE, last[BEAM_SEQUENCES], expr_join(n, 0, 3, each));
    ir_value *open = for_beams(n, s, expr_unary(n, OP_NOT, last[BEAM_ENDED]));
    *scores = last[BEAM_KEPT_SCORES];
    *sequences = last[BEAM_KEPT];
    if (!open || !own ||
        !keep(n, s, last[BEAM_USED], open, for_length(n, s, last[BEAM_SCORES], s->g.limit), own, scores,
              sequences))
        return false;
    /* More than there are beams fails. */
    ir_value *which = expr_range(n, s->returned);
    *sequences = expr_gather(n, *sequences, 1, which);
    *scores = expr_gather(n, *scores, 1, which);
    return *sequences && *scores;
}

ir_value *import_beam_more(const import_node *n, ir_value *const *carried) {
    return expr_any(n, expr_unary(n, OP_NOT, carried[BEAM_ENDED]));
}

ir_value *import_beam_sums(const import_node *n, const beam_search *s, const generation_words *words,
                           ir_value *scores, ir_value *sums, bool first) {
    static const int64_t last = 2, one = 1;
    scores = import_generation_scores(n, &s->g, words,
                                      expr_with_integer(n, OP_LOG_SOFTMAX, "axis", 1, 1, &scores), first);
    ir_value *shape[] = {s->g.batch, s->beams, expr_vector(n, s->g.words)};
    scores = first ? expr_axis(n, OP_UNSQUEEZE, scores, one)
                   : expr_binary(n, OP_RESHAPE, scores, expr_join(n, 0, 3, shape));
    return expr_binary(n, OP_ADD, scores, expr_axis(n, OP_UNSQUEEZE, sums, last));
}

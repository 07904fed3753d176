/* SPDX-License-Identifier: Apache-2.0 */
/* generation_beam.h: what a beam search carries from word to word, and how that changes. */
#ifndef OURO_IMPORT_GENERATION_BEAM_H
#define OURO_IMPORT_GENERATION_BEAM_H

#include "compiler/onnx/convert/generation.h"

/* What is carried, before the caches. Rows are those of the beams of all batches. */
enum {
    BEAM_WORD,        /* [rows, 1], int32 */
    BEAM_SCORES,      /* [batch, beams]: sums of the scores of the words so far */
    BEAM_SEQUENCES,   /* [rows, limit], int32 */
    BEAM_KEPT_SCORES, /* [batch, beams]: of ended sequences, from the best on */
    BEAM_KEPT,        /* [batch, beams, limit], int32: these sequences */
    BEAM_USED,        /* [batch, 1], int64: how many these are */
    BEAM_ENDED,       /* [batch, 1], bool: the batch has ended */
    BEAM_CACHES
};

typedef struct beam_search {
    generation g;
    ir_value *beams,
        *returned;            /* vectors of one, int64: beams of a batch, and sequences that are given out */
    ir_value *length_penalty; /* NULL: 1 */
    bool early, single;       /* it ends when there are enough sequences; there is one beam */
    ir_value *rows;           /* a vector of one: batch * beams */
    ir_value *first,
        *batches; /* [batch, 1]: the number of the first row; [batch, beams]: that of the batch */
} beam_search;

/* Makes rows, first and batches. False when memory runs out, as all here. */
bool import_beam_number(const import_node *n, beam_search *s);
/* What is carried before the first word, but for words and sequences. */
bool import_beam_begin(const import_node *n, const beam_search *s, ir_value **carried);
/* Scores of words [rows, words], or of a first step [batch, words], as sums with those of the words before: [batch, beams, words]. */
ir_value *import_beam_sums(const import_node *n, const beam_search *s, const generation_words *words,
                           ir_value *scores, ir_value *sums, bool first);
/* One more word, with these sums, to sequences of this length (a vector of one). `rows`: [rows], of which row (in a first step: of which batch) each
 * beam is the continuation. */
bool import_beam_step(const import_node *n, const beam_search *s, ir_value *const *carried, ir_value *sums,
                      ir_value *length, bool first, ir_value **next, ir_value **rows);
/* Whether some batch has not ended, as a scalar. */
ir_value *import_beam_more(const import_node *n, ir_value *const *carried);
/* The best sequences [batch, returned, limit] and their scores [batch, returned]. */
bool import_beam_finish(const import_node *n, const beam_search *s, ir_value *const *last,
                        ir_value **sequences, ir_value **scores);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* generation.h: what GreedySearch and BeamSearch share: their inputs, the graphs that they own, and what is done to the scores of words.
 * Functions that return values return NULL when memory runs out, and give NULL for NULL, as those of expression.h. */
#ifndef OURO_IMPORT_GENERATION_H
#define OURO_IMPORT_GENERATION_H

#include "compiler/onnx/convert/microsoft.h"

/* The inputs of a search. Vectors have one element and are int64, so that passes find what is known of them. */
typedef struct generation {
    int64_t end, pad,
        repeats;   /* words that end a sequence and fill it up; no so many words come twice, 0: any may */
    int64_t words; /* in the vocabulary */
    bool encoded,
        heard; /* the prompt is an encoder's, and sequences begin with words of their own; it is sound */
    ir_value *prompt;                 /* [batch, length], int32 */
    ir_value *batch, *length, *limit; /* vectors: the extents of the prompt, and how long sequences become */
    ir_value *least;                  /* a vector: how long they must become; NULL: no matter */
    ir_value *penalty;                /* of words that were there, a number; NULL: none */
    ir_value *temperature;            /* what scores are divided by, a vector; NULL: 1 */
    ir_value *forbidden, *first_forbidden; /* [words] and [batch, words], bool; NULL: none */
    ir_value *mask;                        /* [batch, length], int32; NULL: follows from the prompt */
} generation;

/* Where the optional inputs are. */
typedef struct generation_inputs {
    uint32_t limit, least, penalty, forbidden, first_forbidden, mask;
} generation_inputs;

/* Words so far, as many as are in use of the sequences that a loop carries; or all of a prompt. */
typedef struct generation_words {
    ir_value *sequences; /* [rows, limit]; [rows, length] of a prompt */
    ir_value *used;      /* a vector */
    ir_value *place;     /* [limit]: 0, 1, ...; NULL: all are in use */
} generation_words;

/* ---- inputs ---- */
base_status import_generation_read(const import_node *n, const generation_inputs *at, generation *g);
/* The whole number that an input is, where the model says it. */
bool import_generation_known(const ir_value *value, int64_t *number);
bool import_generation_known_real(const ir_value *value, float *number);
/* Input `index` as a vector of one int64; as one number in float. `otherwise` where it is absent. */
base_status import_generation_integer(const import_node *n, uint32_t index, const char *name,
                                      int64_t otherwise, ir_value **value);
base_status import_generation_real(const import_node *n, uint32_t index, const char *name, float otherwise,
                                   ir_value **value);

/* ---- small expressions ---- */
ir_value *expr_join(const import_node *n, int64_t axis, uint32_t count, ir_value *const *parts);
ir_value *expr_gather(const import_node *n, ir_value *x, int64_t axis, ir_value *indices);
/* A number of this dtype, in the shape that these vectors of one are. */
ir_value *expr_fill(const import_node *n, op_dtype dtype, double value, uint32_t count,
                    ir_value *const *shape);
/* 0, 1, ... below a vector of one, as int64. */
ir_value *expr_range(const import_node *n, ir_value *end);
/* Output 0 and 1 of TopK along an axis. False when memory runs out. */
bool expr_top(const import_node *n, ir_value *x, ir_value *count, int64_t axis, bool largest,
              ir_value **values, ir_value **indices);
/* Whether anything of a tensor of bool is true, as a scalar. */
ir_value *expr_any(const import_node *n, ir_value *x);

/* ---- graphs ---- */
/* The nodes of a graph of the file, where `within` stands. `inputs` become its inputs, as the dtypes that these are declared with; `outputs` are
 * what it gives. */
base_status import_generation_inline(const import_node *within, const Onnx__GraphProto *graph,
                                     ir_value *const *inputs, ir_value **outputs);
/* The declared type of an input, completed with what is known of the value that it gets. */
base_status import_generation_declared(const import_node *n, const Onnx__GraphProto *graph, uint32_t input,
                                       op_type *type);

/* A decoder like GPT: input_ids, position_ids, attention_mask, past_0, ... -> logits, present_0, ... */
base_status import_generation_check_decoder(const import_node *n, const char *name, int64_t *words);
/* What the first run of such a decoder gets, for a prompt, and what follows from it. */
typedef struct generation_prompt {
    ir_value *positions, *mask; /* [batch, length] */
    ir_value *next;             /* [batch, 1]: the position of the word after the prompt */
} generation_prompt;
bool import_generation_read_prompt(const import_node *n, const generation *g, generation_prompt *prompt);
/* Runs it on the prompt. scores: [batch, words], of the last position; caches: one a layer. */
base_status import_generation_begin(const import_node *n, const generation *g,
                                    const Onnx__GraphProto *decoder, const generation_prompt *prompt,
                                    ir_value **scores, ir_value **caches);

/* ---- scores ---- */
/* The scores [rows, words] of the next word, in float, changed as the node's inputs ask for. `first`: they are those of the first word. */
ir_value *import_generation_scores(const import_node *n, const generation *g, const generation_words *words,
                                   ir_value *scores, bool first);
/* The scores of the last position of logits, in float: [rows, words]. */
ir_value *import_generation_last(const import_node *n, ir_value *logits);

/* ---- generation_sampling.c ---- */
/* How words are drawn. */
typedef struct sampling {
    double top, filter; /* the likeliest words that make up so much are drawn; the score that others get */
    int64_t kept;       /* at least so many words */
    bool falling;       /* the likeliest first: the word that makes up enough is one of them */
    ir_value *state;    /* a vector of one, int64: the first state of the generator */
    ir_value *powers;   /* [2 batch]: what the state is multiplied by for each number that is drawn */
} sampling;
base_status import_sampling_read(const import_node *n, generation *g, sampling *s);
/* Words [batch, 1], int32, drawn by scores [batch, words]. `state` moves on. */
ir_value *import_sample(const import_node *n, const generation *g, const sampling *s, ir_value *scores,
                        ir_value **state);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* generation_greedy.c: GreedySearch: of each sequence the word with the best score is the next one; and Sampling, which draws it.
 *
 *     decoder(prompt) -> word, caches
 *     Loop: decoder(word, caches) -> word, caches; sequences[:, iteration] = word; until all sequences have ended
 *
 * A sequence that has ended goes on with the pad. When all have, what is left of them is 0: ONNX Runtime does
 * not write it. */
#include "compiler/onnx/convert/generation.h"

static const op_attributes NONE = {0};

/* What an iteration hands on to the next one, before the caches. */
enum { WORD, ENDED, SEQUENCES, MASK, CACHES };

typedef struct greedy {
    generation g;
    const sampling *sampling; /* NULL: the best word */
    const Onnx__GraphProto *decoder;
    generation_prompt prompt;
    uint32_t count;     /* of what is carried */
    ir_value **carried; /* what it begins with; in the body, what it is there */
    ir_value *ones;     /* [batch, 1], int32 */
} greedy;

/* The state of the generator is carried after the caches. */
static uint32_t state_of(const greedy *s) {
    return CACHES + (uint32_t)s->decoder->n_output - 1;
}

/* The next words, or the pad where the sequence has ended: [batch, 1]. ENDED of `next` becomes what it is then; NULL: none had. */
static ir_value *choose(const import_node *n, const greedy *s, ir_value *scores, ir_value **next) {
    const generation *g = &s->g;
    ir_value *word = s->sampling
                         ? import_sample(n, g, s->sampling, scores, &next[state_of(s)])
                         : expr_cast(n, expr_with_integer(n, OP_ARG_MAX, "axis", 1, 1, &scores), OP_INT32);
    ir_value *now = word ? expr_binary(n, OP_EQUAL, word, expr_number(n, word, (double)g->end)) : NULL;
    next[ENDED] = next[ENDED] ? expr_binary(n, OP_OR, next[ENDED], now) : now;
    return expr_select(n, next[ENDED], expr_number(n, word, (double)g->pad), word);
}

/* Reads the prompt: what the loop begins with. */
static base_status begin(const import_node *n, greedy *s) {
    const generation *g = &s->g;
    ir_value *scores;
    if (!import_generation_read_prompt(n, g, &s->prompt)) return import_memory(n);
    base_status status = import_generation_begin(n, g, s->decoder, &s->prompt, &scores, s->carried + CACHES);
    if (status != BASE_OK) return status;
    const generation_words words = {.sequences = g->prompt, .used = g->length};
    scores = import_generation_scores(n, g, &words, scores, true);
    ir_value *row[] = {g->batch, expr_vector(n, 1)};
    s->ones = expr_fill(n, OP_INT32, 1, 2, row);
    if (s->sampling) s->carried[state_of(s)] = s->sampling->state;
    s->carried[WORD] = scores ? choose(n, s, scores, s->carried) : NULL;
    /* Less than no words left fails: max_length must be more than the prompt has. */
    ir_value *rest = expr_binary(n, OP_SUB, g->limit, g->length);
    ir_value *left[] = {g->batch, expr_binary(n, OP_SUB, rest, expr_vector(n, 1))};
    ir_value *parts[] = {g->prompt, s->carried[WORD], expr_fill(n, OP_INT32, 0, 2, left)};
    s->carried[SEQUENCES] = expr_join(n, 1, 3, parts);
    ir_value *mask[] = {s->prompt.mask, s->ones};
    s->carried[MASK] = expr_join(n, 1, 2, mask);
    return s->carried[SEQUENCES] && s->carried[MASK] && s->carried[ENDED] ? BASE_OK : import_memory(n);
}

/* Parameters of the body, whose types are what of the first values holds in every iteration. */
static base_status add_parameters(const import_node *n, greedy *s, ir_graph *body) {
    static const char *const names[] = {"word", "ended", "sequences", "mask", "cache", "state"};
    for (uint32_t i = 0; i < s->count; i++) {
        op_type type = s->carried[i]->type;
        if (i >= CACHES && i < state_of(s)) {
            base_status status = import_generation_declared(n, s->decoder, i - CACHES + 3, &type);
            if (status != BASE_OK) return status;
        } else if (i == MASK && type.shape.rank == 2) type.shape.dims[1] = OP_DIM_UNKNOWN;
        s->carried[i] = ir_graph_add_parameter(body,
                                               names[i < CACHES        ? i
                                                     : i < state_of(s) ? CACHES
                                                                       : CACHES + 1],
                                               &type);
        if (!s->carried[i]) return import_memory(n);
    }
    return BASE_OK;
}

/* One iteration: `next` becomes what it hands on. */
static base_status iterate(const import_node *n, const greedy *s, ir_value *iteration, ir_value **next) {
    const generation *g = &s->g;
    const uint32_t layers = state_of(s) - CACHES;
    ir_value **inputs = BASE_ARRAY(&n->importer->arena, ir_value *, (size_t)layers + 3),
             **outputs = BASE_ARRAY(&n->importer->arena, ir_value *, (size_t)layers + 1);
    if (!inputs || !outputs) return import_memory(n);
    inputs[0] = s->carried[WORD];
    inputs[1] = expr_binary(n, OP_ADD, s->prompt.next, expr_cast(n, iteration, OP_INT32));
    inputs[2] = s->carried[MASK];
    for (uint32_t i = 0; i < layers; i++) inputs[3 + i] = s->carried[CACHES + i];
    if (!inputs[1]) return import_memory(n);
    base_status status = import_generation_inline(n, s->decoder, inputs, outputs);
    if (status != BASE_OK) return status;
    ir_value *written =
        expr_binary(n, OP_ADD, expr_binary(n, OP_ADD, g->length, expr_vector(n, 1)), iteration);
    const generation_words words = {
        .sequences = s->carried[SEQUENCES], .used = written, .place = expr_range(n, g->limit)};
    ir_value *scores = import_generation_scores(n, g, &words, import_generation_last(n, outputs[0]), false);
    next[ENDED] = s->carried[ENDED];
    if (s->sampling) next[state_of(s)] = s->carried[state_of(s)];
    next[WORD] = scores ? choose(n, s, scores, next) : NULL;
    ir_value *mask[] = {s->carried[MASK], s->ones};
    next[MASK] = expr_join(n, 1, 2, mask);
    ir_value *row[] = {g->batch, expr_vector(n, 1)};
    ir_value *at = expr_binary(n, OP_EXPAND, written, expr_join(n, 0, 2, row));
    ir_value *put[] = {s->carried[SEQUENCES], at, next[WORD]};
    next[SEQUENCES] = expr_with_integer(n, OP_SCATTER_ELEMENTS, "axis", 1, 3, put);
    for (uint32_t i = 0; i < layers; i++) next[CACHES + i] = outputs[1 + i];
    return next[SEQUENCES] && next[MASK] ? BASE_OK : import_memory(n);
}

static base_status repeat(import_node *n, greedy *s) {
    static const op_type iteration = {.dtype = OP_INT64}, condition = {.dtype = OP_BOOL};
    const generation *g = &s->g;
    ir_value **inputs = BASE_ARRAY(&n->importer->arena, ir_value *, (size_t)s->count + 2),
             **next = BASE_ARRAY(&n->importer->arena, ir_value *, s->count);
    import_scope scope;
    import_node within;
    if (!inputs || !next) return import_memory(n);
    ir_value *left = expr_binary(n, OP_SUB, g->limit, g->length);
    left = expr_binary(n, OP_SUB, left, expr_vector(n, 1));
    inputs[0] = expr_axis(n, OP_SQUEEZE, left, 0);
    inputs[1] = expr_any(n, expr_unary(n, OP_NOT, s->carried[ENDED]));
    for (uint32_t i = 0; i < s->count; i++) inputs[2 + i] = s->carried[i];
    const op_type type = s->carried[SEQUENCES]->type;
    ir_graph *body = expr_begin_graph(n, "generate", &scope, &within);
    if (!inputs[0] || !inputs[1] || !body || !ir_graph_add_parameter(body, "iteration", &iteration) ||
        !ir_graph_add_parameter(body, "condition", &condition))
        return import_memory(n);
    base_status status = add_parameters(n, s, body);
    if (status == BASE_OK) status = iterate(&within, s, body->parameters[0], next);
    if (status != BASE_OK) return status;
    ir_value *more = expr_any(&within, expr_unary(&within, OP_NOT, next[ENDED]));
    if (!more || !ir_graph_add_result(body, more)) return import_memory(n);
    for (uint32_t i = 0; i < s->count; i++)
        if (!ir_graph_add_result(body, next[i])) return import_memory(n);
    ir_node *loop = import_begin(n, OP_LOOP, NONE, s->count + 2, inputs);
    if (!loop || !ir_node_add_graph(loop, body)) return import_memory(n);
    ir_value *sequences = NULL;
    for (uint32_t i = 0; i < s->count; i++) {
        if (i == SEQUENCES) sequences = ir_node_add_output(loop, NULL, &type);
        if (i == SEQUENCES ? !sequences : !ir_node_add_absent_output(loop)) return import_memory(n);
    }
    return expr_finish(n, sequences);
}

static base_status generate(import_node *n, bool sampled) {
    static const generation_inputs at = {
        .limit = 1, .least = 2, .penalty = 3, .forbidden = 4, .first_forbidden = 5, .mask = 6};
    greedy s = {.decoder = import_attribute(n, "decoder")->g};
    sampling drawn;
    if (import_integer(n, "model_type", 0) != 0)
        return base_fail_unsupported(n->importer->report,
                                     "model_type %lld is not supported; 0 is, a decoder alone",
                                     (long long)import_integer(n, "model_type", 0));
    if (import_attribute(n, "encoder") || import_attribute(n, "init_decoder"))
        return base_fail_unsupported(n->importer->report, "graphs beside \"decoder\" are not supported");
    base_status status = import_generation_check_decoder(n, "decoder", &s.g.words);
    if (status == BASE_OK) status = import_generation_read(n, &at, &s.g);
    if (status == BASE_OK && sampled) status = import_sampling_read(n, &s.g, &drawn);
    if (status != BASE_OK) return status;
    if (sampled) s.sampling = &drawn;
    s.count = state_of(&s) + sampled;
    s.carried = BASE_ARRAY(&n->importer->arena, ir_value *, s.count);
    if (!s.carried) return import_memory(n);
    status = begin(n, &s);
    return status == BASE_OK ? repeat(n, &s) : status;
}

base_status import_convert_ms_greedy_search(import_node *n) {
    return generate(n, false);
}

base_status import_convert_ms_sampling(import_node *n) {
    return generate(n, true);
}

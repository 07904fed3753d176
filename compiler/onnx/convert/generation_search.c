/* SPDX-License-Identifier: Apache-2.0 */
/* generation_search.c: BeamSearch and WhisperBeamSearch: the graphs that it owns, and the loop over the words.
 *
 *     decoder(prompt) -> scores, caches                                   of each batch, whose beams are all alike yet
 *     step(scores) -> words, rows; caches = caches[rows]
 *     Loop: decoder(words, caches) -> scores, caches; step; caches = caches[rows]; until all batches have ended
 *
 * With an encoder (model_type 1, and 2, which hears) the first scores, and the first caches, are what the encoder's graph gives; or the decoder
 * reads the word that begins all sequences, where that graph gives nothing but the caches of its own. Beams of a batch share these. */
#include "compiler/onnx/convert/generation_beam.h"

#include <string.h>

static const op_attributes NONE = {0};

typedef struct decoding {
    beam_search s;
    const Onnx__GraphProto *decoder;
    bool alone;             /* a decoder like GPT */
    bool sums;              /* the sums of all steps are wanted */
    ir_value *start;        /* [batch, length]: the words that sequences begin with */
    ir_value *length;       /* a vector of one: how many these are */
    uint32_t first_cache;   /* among the inputs of the decoder */
    uint32_t caches, count; /* how many are carried; of all that is */
    ir_value **carried;
    ir_value **fixed; /* the decoder's inputs that are the same for every word; NULL: they are others */
    ir_value *position, *ones; /* [rows, 1], int32: of the first word, without an encoder */
} decoding;

/* The mask that a decoder alone gets is carried after its caches. */
static uint32_t mask_of(const decoding *d) {
    return BEAM_CACHES + d->caches;
}

/* And after that the sums of all steps, [steps, batch, beams, words], with zeros for those that are not there. */
static uint32_t sums_of(const decoding *d) {
    return mask_of(d) + d->alone;
}

static ir_value *less_one(const import_node *n, ir_value *x) {
    return expr_binary(n, OP_SUB, x, expr_vector(n, 1));
}

/* ---- the first step -------------------------------------------------------------------------------------------- */

/* The first word of each beam, of scores [batch, words]. */
static base_status take_first(const import_node *n, decoding *d, ir_value *scores) {
    beam_search *s = &d->s;
    ir_value *begun[BEAM_CACHES] = {NULL}, *rows;
    if (!import_beam_number(n, s) || !import_beam_begin(n, s, begun)) return import_memory(n);
    ir_value *left[] = {s->g.batch, expr_binary(n, OP_SUB, s->g.limit, d->length)};
    ir_value *parts[] = {d->start, expr_fill(n, OP_INT32, (double)s->g.pad, 2, left)};
    begun[BEAM_SEQUENCES] = expr_join(n, 1, 2, parts);
    const generation_words words = {.sequences = d->start, .used = d->length};
    ir_value *sums = import_beam_sums(n, s, &words, scores, begun[BEAM_SCORES], true);
    if (d->sums) {
        ir_value *shape[] = {NULL, s->g.batch, s->beams, NULL}, *steps[2];
        shape[0] = less_one(n, left[1]);
        shape[3] = expr_vector(n, s->g.words);
        steps[0] = expr_axis(n, OP_UNSQUEEZE, sums, 0);
        steps[1] = expr_fill(n, OP_FLOAT, 0, 4, shape);
        d->carried[sums_of(d)] = expr_join(n, 0, 2, steps);
        if (!d->carried[sums_of(d)]) return import_memory(n);
    }
    if (!begun[BEAM_SEQUENCES] || !sums ||
        !import_beam_step(n, s, begun, sums, d->length, true, d->carried, &rows))
        return import_memory(n);
    for (uint32_t i = 0; i < d->caches; i++) {
        ir_value **cache = &d->carried[BEAM_CACHES + i];
        *cache = expr_gather(n, *cache, d->alone, rows);
        if (!*cache) return import_memory(n);
    }
    for (size_t i = 0; i < d->decoder->n_input; i++) {
        if (!d->fixed[i]) continue;
        d->fixed[i] = expr_gather(n, d->fixed[i], 0, rows);
        if (!d->fixed[i]) return import_memory(n);
    }
    if (!d->alone) return BASE_OK;
    ir_value *row[] = {s->rows, expr_vector(n, 1)};
    d->ones = expr_fill(n, OP_INT32, 1, 2, row);
    d->position = expr_gather(n, d->position, 0, rows);
    ir_value *mask[] = {expr_gather(n, d->carried[mask_of(d)], 0, rows), d->ones};
    d->carried[mask_of(d)] = expr_join(n, 1, 2, mask);
    return d->position && d->carried[mask_of(d)] ? BASE_OK : import_memory(n);
}

static base_status allocate(const import_node *n, decoding *d) {
    d->count = sums_of(d) + d->sums;
    d->carried = BASE_ARRAY(&n->importer->arena, ir_value *, d->count);
    d->fixed = BASE_ARRAY(&n->importer->arena, ir_value *, d->decoder->n_input);
    return d->carried && d->fixed ? BASE_OK : import_memory(n);
}

static base_status begin_alone(const import_node *n, decoding *d) {
    generation_prompt prompt;
    ir_value *scores;
    const Onnx__AttributeProto *other = import_attribute(n, "init_decoder");
    d->first_cache = 3;
    d->caches = (uint32_t)d->decoder->n_output - 1;
    d->start = d->s.g.prompt;
    d->length = d->s.g.length;
    base_status status = allocate(n, d);
    if (status != BASE_OK) return status;
    if (!import_generation_read_prompt(n, &d->s.g, &prompt)) return import_memory(n);
    status = import_generation_begin(n, &d->s.g, other ? other->g : d->decoder, &prompt, &scores,
                                     d->carried + BEAM_CACHES);
    if (status != BASE_OK) return status;
    d->position = prompt.next;
    d->carried[mask_of(d)] = prompt.mask;
    return take_first(n, d, scores);
}

/* ---- with an encoder ------------------------------------------------------------------------------------------- */

static bool is_named(const Onnx__GraphProto *graph, size_t input, const char *name) {
    return input < graph->n_input && graph->input[input]->name &&
           strcmp(graph->input[input]->name, name) == 0;
}

/* 0 for the pads that come before all other words. */
static ir_value *encoder_mask(const import_node *n, const generation *g) {
    if (g->mask) return g->mask;
    ir_value *padded = expr_binary(n, OP_EQUAL, g->prompt, expr_number(n, g->prompt, (double)g->pad));
    ir_value *there = padded ? expr_cast(n, expr_unary(n, OP_NOT, padded), OP_INT32) : NULL;
    ir_value *count = expr_binary(n, OP_CUM_SUM, there, import_constant_integer(n, 1));
    return count ? expr_cast(n, expr_binary(n, OP_GREATER, count, expr_number(n, count, 0)), OP_INT32) : NULL;
}

static base_status check_encoder(const import_node *n, const decoding *d, const Onnx__GraphProto *encoder) {
    static const char *const read[] = {"encoder_input_ids", "encoder_attention_mask", "decoder_input_ids"},
                             *const heard[] = {"encoder_input_ids", "decoder_input_ids"};
    base_report *report = n->importer->report;
    const char *const *names = d->s.g.heard ? heard : read;
    const size_t layers = d->caches / 2, most = d->s.g.heard ? 2 : 3;
    const bool own = !d->s.g.heard && encoder->n_input == 2;
    const size_t wanted = own ? 2 * layers : 2 + 4 * layers;
    if (encoder->n_input != most && !own)
        return base_fail(
            report, BASE_INVALID,
            "graph \"encoder\" has %zu inputs, expected %zu, of which the last is decoder_input_ids",
            encoder->n_input, most);
    for (size_t i = 0; i < encoder->n_input; i++)
        if (!is_named(encoder, i, names[i]))
            return base_fail(report, BASE_INVALID, "input %zu of graph \"encoder\" is not called \"%s\"", i,
                             names[i]);
    if (encoder->n_output == wanted) return BASE_OK;
    return base_fail(report, BASE_INVALID,
                     "graph \"encoder\" has %zu outputs, expected %zu: those of %zu layers",
                     encoder->n_output, wanted, layers);
}

static base_status check_decoder(const import_node *n, decoding *d) {
    base_report *report = n->importer->report;
    const Onnx__GraphProto *graph = d->decoder;
    op_type ids, logits;
    if (graph->n_input > UINT32_MAX / 8 || graph->n_output < 3 || graph->n_output % 2 == 0 ||
        !is_named(graph, 0, "input_ids") || !graph->output[0]->name ||
        strcmp(graph->output[0]->name, "logits") != 0)
        return base_fail(report, BASE_INVALID,
                         "graph \"decoder\" must take \"input_ids\" first, and give \"logits\" first and two "
                         "caches for each layer");
    d->first_cache = 1;
    while (is_named(graph, d->first_cache, "encoder_input_ids") ||
           is_named(graph, d->first_cache, "encoder_attention_mask") ||
           is_named(graph, d->first_cache, "encoder_hidden_states"))
        d->first_cache++;
    d->caches = (uint32_t)graph->n_output - 1;
    const size_t given = graph->n_input - d->first_cache;
    if (given == 2 * (size_t)d->caches + 1 || given == 2 * (size_t)d->caches + 3)
        return base_fail_unsupported(
            report,
            "graph \"decoder\" has %zu caches and more inputs: caches that past and present share are "
            "not supported; caches that grow are",
            given);
    if (given != 2 * (size_t)d->caches)
        return base_fail(
            report, BASE_INVALID,
            "graph \"decoder\" has %zu caches, expected %u: of itself and of the encoder, for each of "
            "%u layers",
            given, 2 * d->caches, d->caches / 2);
    base_status status = import_generation_declared(n, graph, 0, &ids);
    for (uint32_t i = d->first_cache; i < graph->n_input && status == BASE_OK; i++) {
        op_type type;
        status = import_generation_declared(n, graph, i, &type);
        if (status == BASE_OK && (type.shape.rank != 4 || type.shape.dims[1] < 1 || type.shape.dims[3] < 1 ||
                                  type.dtype == OP_NONE))
            status = base_fail(
                report, BASE_INVALID,
                "input %u of graph \"decoder\" must be declared as [rows, heads, positions, size], with "
                "numbers for heads and size",
                i);
    }
    if (status == BASE_OK) status = import_type(n->importer, graph->output[0], false, &logits);
    if (status != BASE_OK) return status;
    if (ids.shape.rank != 2 || ids.shape.dims[1] != 1)
        return base_fail_unsupported(
            report, "input_ids of graph \"decoder\" with all words so far are not supported; [rows, 1] is");
    if (logits.shape.rank != 3 || logits.shape.dims[2] < 1 || logits.shape.dims[2] > INT32_MAX)
        return base_fail(
            report, BASE_INVALID,
            "output \"logits\" of graph \"decoder\" must be declared as [rows, positions, words], with a "
            "number of words");
    d->s.g.words = logits.shape.dims[2];
    return BASE_OK;
}

/* The decoder's first run, where the encoder gives but its own caches: it reads the first word. */
static base_status run_first(const import_node *n, decoding *d, ir_value **logits) {
    ir_value **inputs = BASE_ARRAY(&n->importer->arena, ir_value *, d->decoder->n_input),
             **outputs = BASE_ARRAY(&n->importer->arena, ir_value *, d->decoder->n_output);
    if (!inputs || !outputs) return import_memory(n);
    for (size_t i = 0; i < d->decoder->n_input; i++) inputs[i] = d->fixed[i];
    inputs[0] = d->start;
    for (uint32_t i = 0; i < d->caches; i++) {
        op_type type;
        base_status status = import_generation_declared(n, d->decoder, d->first_cache + i, &type);
        if (status != BASE_OK) return status;
        ir_value *shape[4] = {d->s.g.batch};
        shape[1] = expr_vector(n, type.shape.dims[1]);
        shape[2] = expr_vector(n, 0);
        shape[3] = expr_vector(n, type.shape.dims[3]);
        inputs[d->first_cache + i] = expr_fill(n, type.dtype, 0, 4, shape);
        if (!inputs[d->first_cache + i]) return import_memory(n);
    }
    base_status status = import_generation_inline(n, d->decoder, inputs, outputs);
    if (status != BASE_OK) return status;
    for (uint32_t i = 0; i < d->caches; i++) d->carried[BEAM_CACHES + i] = outputs[1 + i];
    *logits = outputs[0];
    return BASE_OK;
}

/* The words that sequences begin with: one for all, or those that the node is given where it hears. */
static base_status take_start(const import_node *n, decoding *d) {
    const int64_t start = import_integer(n, "decoder_start_token_id", -1);
    const generation *g = &d->s.g;
    ir_value *given = g->heard ? expr_input(n, 10) : NULL, *one[] = {g->batch, expr_vector(n, 1)};
    if (given && (import_dtype_of(given) != OP_INT32 || import_rank_of(given) != 2))
        return base_fail(n->importer->report, BASE_INVALID,
                         "decoder_input_ids must be int32 with two axes, batch and length");
    if (!given && (start < 0 || start >= g->words))
        return base_fail(n->importer->report, BASE_INVALID,
                         "decoder_start_token_id is %lld, expected one of the %lld words", (long long)start,
                         (long long)g->words);
    d->start = given ? given : expr_fill(n, OP_INT32, (double)start, 2, one);
    d->length = given ? expr_extent(n, given, 1) : expr_vector(n, 1);
    return d->start && d->length ? BASE_OK : import_memory(n);
}

static base_status begin_encoded(const import_node *n, decoding *d) {
    const Onnx__GraphProto *encoder = import_attribute(n, "encoder")->g;
    generation *g = &d->s.g;
    base_status status = check_encoder(n, d, encoder);
    if (status == BASE_OK) status = allocate(n, d);
    if (status == BASE_OK) status = take_start(n, d);
    if (status != BASE_OK) return status;
    ir_value *mask = g->heard ? NULL : encoder_mask(n, g), *logits = NULL;
    ir_value *inputs[] = {g->prompt, g->heard ? d->start : mask, d->start};
    ir_value **outputs = BASE_ARRAY(&n->importer->arena, ir_value *, encoder->n_output);
    if (!outputs || !inputs[1]) return import_memory(n);
    status = import_generation_inline(n, encoder, inputs, outputs);
    if (status != BASE_OK) return status;
    const bool own = !g->heard && encoder->n_input == 2;
    for (uint32_t i = 1; i < d->first_cache; i++) {
        if (g->heard && !is_named(d->decoder, i, "encoder_hidden_states"))
            return base_fail(n->importer->report, BASE_INVALID,
                             "input %u of graph \"decoder\" must be \"encoder_hidden_states\" or a cache", i);
        if (is_named(d->decoder, i, "encoder_input_ids")) d->fixed[i] = g->prompt;
        else if (is_named(d->decoder, i, "encoder_attention_mask")) d->fixed[i] = mask;
        else if (!own) d->fixed[i] = outputs[1];
        else
            return base_fail_unsupported(
                n->importer->report,
                "encoder_hidden_states beside an encoder that does not give them are not "
                "supported; graph \"encoder\" with decoder_input_ids is");
    }
    const uint32_t self = own ? 0 : 2, cross = own ? 0 : 2 + d->caches;
    for (uint32_t i = 0; i < d->caches; i++) {
        d->fixed[d->first_cache + d->caches + i] = outputs[cross + i];
        if (!own) d->carried[BEAM_CACHES + i] = outputs[self + i];
    }
    if (own) status = run_first(n, d, &logits);
    else logits = outputs[0];
    return status == BASE_OK ? take_first(n, d, import_generation_last(n, logits)) : status;
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static base_status add_parameters(const import_node *n, const decoding *d, ir_graph *body,
                                  ir_value **carried) {
    static const char *const names[] = {"word", "scores", "sequences", "kept_scores",
                                        "kept", "used",   "ended"};
    for (uint32_t i = 0; i < d->count; i++) {
        op_type type = d->carried[i]->type;
        const char *name = i < BEAM_CACHES  ? names[i]
                           : i < mask_of(d) ? "cache"
                           : i < sums_of(d) ? "mask"
                                            : "sums";
        if (i >= BEAM_CACHES && i < mask_of(d)) {
            base_status status =
                import_generation_declared(n, d->decoder, d->first_cache + i - BEAM_CACHES, &type);
            if (status != BASE_OK) return status;
        } else if (i >= mask_of(d) && i < sums_of(d) && type.shape.rank == 2)
            type.shape.dims[1] = OP_DIM_UNKNOWN;
        carried[i] = ir_graph_add_parameter(body, name, &type);
        if (!carried[i]) return import_memory(n);
    }
    return BASE_OK;
}

/* Caches of the rows that the beams are the continuations of. Of a single beam these are its own, also where its batch has ended. */
static bool move_caches(const import_node *n, const decoding *d, ir_value *rows, ir_value *const *outputs,
                        ir_value **next) {
    int64_t beams;
    if (!import_generation_known(d->s.beams, &beams)) {
        ir_value *single = expr_binary(n, OP_EQUAL, d->s.beams, expr_vector(n, 1));
        rows = expr_select(n, single, expr_range(n, d->s.rows), rows);
    }
    for (uint32_t i = 0; i < d->caches; i++) {
        ir_value **cache = &next[BEAM_CACHES + i];
        *cache = d->s.single ? outputs[1 + i] : expr_gather(n, outputs[1 + i], d->alone, rows);
        if (!*cache) return false;
    }
    return true;
}

/* The sums of a step, among those of all. */
static ir_value *put_sums(const import_node *n, ir_value *all, ir_value *iteration, ir_value *sums) {
    ir_value *step = expr_binary(n, OP_ADD, iteration, expr_vector(n, 1));
    ir_value *inputs[3] = {all};
    inputs[1] = expr_axis(n, OP_UNSQUEEZE, step, 0);
    inputs[2] = expr_axis(n, OP_UNSQUEEZE, sums, 0);
    return inputs[1] && inputs[2] ? import_make(n, OP_SCATTER_ND, NONE, 3, inputs) : NULL;
}

/* One iteration: of what is carried, what it hands on. */
static base_status iterate(const import_node *n, const decoding *d, ir_value *iteration,
                           ir_value *const *carried, ir_value **next) {
    const beam_search *s = &d->s;
    ir_value **inputs = BASE_ARRAY(&n->importer->arena, ir_value *, d->decoder->n_input),
             **outputs = BASE_ARRAY(&n->importer->arena, ir_value *, d->decoder->n_output), *rows;
    if (!inputs || !outputs) return import_memory(n);
    for (size_t i = 0; i < d->decoder->n_input; i++) inputs[i] = d->fixed[i];
    inputs[0] = carried[BEAM_WORD];
    if (d->alone) {
        inputs[1] = expr_binary(n, OP_ADD, d->position, expr_cast(n, iteration, OP_INT32));
        inputs[2] = carried[mask_of(d)];
        ir_value *mask[] = {carried[mask_of(d)], d->ones};
        next[mask_of(d)] = expr_join(n, 1, 2, mask);
        if (!inputs[1] || !next[mask_of(d)]) return import_memory(n);
    }
    for (uint32_t i = 0; i < d->caches; i++) inputs[d->first_cache + i] = carried[BEAM_CACHES + i];
    base_status status = import_generation_inline(n, d->decoder, inputs, outputs);
    if (status != BASE_OK) return status;
    ir_value *written =
        expr_binary(n, OP_ADD, expr_binary(n, OP_ADD, d->length, expr_vector(n, 1)), iteration);
    const generation_words words = {
        .sequences = carried[BEAM_SEQUENCES], .used = written, .place = expr_range(n, s->g.limit)};
    ir_value *sums =
        import_beam_sums(n, s, &words, import_generation_last(n, outputs[0]), carried[BEAM_SCORES], false);
    if (!sums || !import_beam_step(n, s, carried, sums, written, false, next, &rows) ||
        !move_caches(n, d, rows, outputs, next))
        return import_memory(n);
    if (d->sums) next[sums_of(d)] = put_sums(n, carried[sums_of(d)], iteration, sums);
    return !d->sums || next[sums_of(d)] ? BASE_OK : import_memory(n);
}

static base_status finish(import_node *n, const decoding *d, ir_value *const *last, ir_value *sums) {
    ir_value *sequences, *scores;
    if (!import_beam_finish(n, &d->s, last, &sequences, &scores)) return import_memory(n);
    base_status status = expr_output(n, 0, sequences);
    if (status == BASE_OK) status = expr_output(n, 1, scores);
    return status == BASE_OK && sums ? expr_output(n, 2, sums) : status;
}

/* Its body, with one parameter and one result for all that is carried. */
static base_status make_body(const import_node *n, const decoding *d, ir_graph **body) {
    static const op_type iteration = {.dtype = OP_INT64}, condition = {.dtype = OP_BOOL};
    ir_value **carried = BASE_ARRAY(&n->importer->arena, ir_value *, d->count),
             **next = BASE_ARRAY(&n->importer->arena, ir_value *, d->count);
    import_scope scope;
    import_node within;
    *body = expr_begin_graph(n, "generate", &scope, &within);
    if (!*body || !carried || !next || !ir_graph_add_parameter(*body, "iteration", &iteration) ||
        !ir_graph_add_parameter(*body, "condition", &condition))
        return import_memory(n);
    base_status status = add_parameters(n, d, *body, carried);
    if (status == BASE_OK) status = iterate(&within, d, (*body)->parameters[0], carried, next);
    if (status != BASE_OK) return status;
    ir_value *more = import_beam_more(&within, next);
    if (!more || !ir_graph_add_result(*body, more)) return import_memory(n);
    for (uint32_t i = 0; i < d->count; i++)
        if (!ir_graph_add_result(*body, next[i])) return import_memory(n);
    return BASE_OK;
}

static base_status repeat(import_node *n, const decoding *d) {
    ir_value **inputs = BASE_ARRAY(&n->importer->arena, ir_value *, (size_t)d->count + 2),
             **last = BASE_ARRAY(&n->importer->arena, ir_value *, d->count);
    ir_graph *body;
    if (!inputs || !last) return import_memory(n);
    inputs[0] = expr_axis(n, OP_SQUEEZE, less_one(n, expr_binary(n, OP_SUB, d->s.g.limit, d->length)), 0);
    inputs[1] = import_beam_more(n, d->carried);
    for (uint32_t i = 0; i < d->count; i++) inputs[2 + i] = d->carried[i];
    if (!inputs[0] || !inputs[1]) return import_memory(n);
    base_status status = make_body(n, d, &body);
    if (status != BASE_OK) return status;
    ir_node *loop = import_begin(n, OP_LOOP, NONE, d->count + 2, inputs);
    if (!loop || !ir_node_add_graph(loop, body)) return import_memory(n);
    for (uint32_t i = 0; i < d->count; i++) {
        const bool used = (i < BEAM_CACHES && i != BEAM_WORD) || i >= sums_of(d);
        if (used) last[i] = ir_node_add_output(loop, NULL, &d->carried[i]->type);
        if (used ? !last[i] : !ir_node_add_absent_output(loop)) return import_memory(n);
    }
    return finish(n, d, last, d->sums ? last[sums_of(d)] : NULL);
}

/* ---- the node -------------------------------------------------------------------------------------------------- */

static base_status read_beams(const import_node *n, beam_search *s) {
    enum { MOST = 1024 };
    base_report *report = n->importer->report;
    int64_t beams = -1, returned, processor = 0;
    float penalty;
    base_status status = import_generation_integer(n, 3, "num_beams", 1, &s->beams);
    if (status == BASE_OK) status = import_generation_integer(n, 4, "num_return_sequences", 1, &s->returned);
    if (status == BASE_OK) status = import_generation_real(n, 5, "length_penalty", 1, &s->length_penalty);
    if (status != BASE_OK) return status;
    if (import_generation_known(s->beams, &beams) && (beams < 1 || beams > MOST))
        return base_fail(report, BASE_INVALID, "num_beams is %lld, expected 1 to %d", (long long)beams,
                         (int)MOST);
    if (import_generation_known(s->returned, &returned) && (returned < 1 || (beams > 0 && returned > beams)))
        return base_fail(report, BASE_INVALID,
                         "num_return_sequences is %lld, expected 1 to the number of beams",
                         (long long)returned);
    if (import_generation_known_real(s->length_penalty, &penalty) && penalty == 1) s->length_penalty = NULL;
    if (beams > 0 && 2 * beams > beams * s->g.words)
        return base_fail(report, BASE_INVALID,
                         "%lld words are too few: twice as many as beams are chosen from",
                         (long long)s->g.words);
    if (expr_input(n, 11) && (!import_generation_known(expr_input(n, 11), &processor) || processor != 0))
        return base_fail_unsupported(report,
                                     "a logits_processor is not supported; the constant 0 is, for none");
    if (expr_input(n, 10) && !s->g.heard)
        return base_fail_unsupported(report, "decoder_input_ids are supported with model_type 2 alone");
    s->single = beams == 1;
    s->early = import_integer(n, "early_stopping", 0) == 1;
    return BASE_OK;
}

/* What the kinds of search have beside each other. */
static base_status read_kind(const import_node *n, decoding *d, bool whisper) {
    base_report *report = n->importer->report;
    const int64_t type = import_integer(n, "model_type", whisper ? 2 : 0);
    const bool encoder = import_attribute(n, "encoder") != NULL;
    if (type < 0 || type > 2 || (whisper && type != 2))
        return base_fail_unsupported(
            report, "model_type %lld is not supported; %s", (long long)type,
            whisper ? "2 is" : "0, a decoder alone, and 1 and 2, with an encoder of words and of sound, are");
    d->alone = type == 0;
    d->s.g.encoded = type != 0;
    d->s.g.heard = type == 2;
    if (!d->alone && !encoder)
        return base_fail(report, BASE_INVALID, "attribute \"encoder\" is missing, model_type %lld needs it",
                         (long long)type);
    if (d->alone && encoder)
        return base_fail(report, BASE_INVALID,
                         "attribute \"encoder\" is there beside model_type 0; 1 and 2 have one");
    if (import_integer(n, "decoder_output_cross_qk", 0) || expr_input(n, 12) || expr_input(n, 13) ||
        import_output_wanted(n, 3) || import_output_wanted(n, 4))
        return base_fail_unsupported(
            report, "scores of attention, extra_decoding_ids and probabilities of silence are not supported");
    return BASE_OK;
}

/* What is divided by has to be known to be more than 0, or is taken to be. */
static base_status read_temperature(const import_node *n, generation *g) {
    float number;
    if (!expr_input(n, 14)) return BASE_OK;
    base_status status = import_generation_real(n, 14, "temperature", 1, &g->temperature);
    if (status == BASE_OK && import_generation_known_real(g->temperature, &number) &&
        (number == 1 || !(number > 0)))
        g->temperature = NULL;
    return status;
}

static base_status search(import_node *n, bool whisper) {
    static const generation_inputs at = {
        .limit = 1, .least = 2, .penalty = 6, .forbidden = 7, .first_forbidden = 8, .mask = 9};
    base_report *report = n->importer->report;
    decoding d = {.decoder = import_attribute(n, "decoder")->g, .sums = import_output_wanted(n, 2)};
    int64_t words = 0;
    base_status status = read_kind(n, &d, whisper);
    if (status == BASE_OK)
        status = d.alone ? import_generation_check_decoder(n, "decoder", &d.s.g.words) : check_decoder(n, &d);
    if (status == BASE_OK && d.alone && import_attribute(n, "init_decoder")) {
        status = import_generation_check_decoder(n, "init_decoder", &words);
        if (status == BASE_OK &&
            (words != d.s.g.words || import_attribute(n, "init_decoder")->g->n_output != d.decoder->n_output))
            status = base_fail(report, BASE_INVALID,
                               "graphs \"init_decoder\" and \"decoder\" differ in their words or layers");
    }
    if (status == BASE_OK) status = import_generation_read(n, &at, &d.s.g);
    if (status == BASE_OK) status = read_beams(n, &d.s);
    if (status == BASE_OK) status = read_temperature(n, &d.s.g);
    if (status == BASE_OK) status = d.alone ? begin_alone(n, &d) : begin_encoded(n, &d);
    return status == BASE_OK ? repeat(n, &d) : status;
}

base_status import_convert_ms_beam_search(import_node *n) {
    return search(n, false);
}

base_status import_convert_ms_whisper_beam_search(import_node *n) {
    return search(n, true);
}

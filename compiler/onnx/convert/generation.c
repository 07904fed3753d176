/* SPDX-License-Identifier: Apache-2.0 */
/* generation.c: implements `generation.h`.
 *
 * A search becomes nodes that read the prompt, and a Loop of which each iteration gives one more word. The graph of the decoder is read
 * twice: once for the prompt, where its caches are empty, and once as the body of the loop, where it reads one word and the caches
 * grow by one position. So these are carried values like any others: the passes see how far they grow. Tensors of the graph become one
 * constant for both.
 *
 * What the page of ONNX Runtime leaves open is as it computes: positions count the words of a prompt that are not the pad, whatever the mask
 * says; scores change in the order of the functions below; of equal scores the first one wins. */
#include "compiler/onnx/convert/generation.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

static const op_attributes NONE = {0};

enum {
    PAST = 3,
    PAST_RANK = 5
}; /* where the caches begin among the inputs of a decoder; [2, rows, heads, positions, size] */

/* ---- small expressions ----------------------------------------------------------------------------------------- */

ir_value *expr_join(const import_node *n, int64_t axis, uint32_t count, ir_value *const *parts) {
    return count == 1 ? parts[0] : expr_with_integer(n, OP_CONCAT, "axis", axis, count, parts);
}

ir_value *expr_gather(const import_node *n, ir_value *x, int64_t axis, ir_value *indices) {
    ir_value *inputs[] = {x, indices};
    return expr_with_integer(n, OP_GATHER, "axis", axis, 2, inputs);
}

ir_value *expr_fill(const import_node *n, op_dtype dtype, double value, uint32_t count,
                    ir_value *const *shape) {
    ir_value *number = import_constant_real(n, dtype, value);
    return expr_binary(n, OP_EXPAND, number, expr_join(n, 0, count, shape));
}

ir_value *expr_range(const import_node *n, ir_value *end) {
    return expr_steps(n, expr_axis(n, OP_SQUEEZE, end, 0), 1);
}

bool expr_top(const import_node *n, ir_value *x, ir_value *count, int64_t axis, bool largest,
              ir_value **values, ir_value **indices) {
    op_attributes attributes = NONE;
    ir_value *inputs[] = {x, count};
    if (!x || !count || !import_attributes_add_integer(n, &attributes, "axis", axis) ||
        !import_attributes_add_integer(n, &attributes, "largest", largest))
        return false;
    ir_node *node = import_begin(n, OP_TOP_K, attributes, 2, inputs);
    *values = node ? ir_node_add_output(node, NULL, NULL) : NULL;
    *indices = *values ? ir_node_add_output(node, NULL, NULL) : NULL;
    return *indices && import_infer(n->importer, node);
}

ir_value *expr_any(const import_node *n, ir_value *x) {
    ir_value *most = expr_reduce(n, OP_REDUCE_MAX, expr_cast(n, x, OP_INT32), 0, NULL, false);
    return expr_cast(n, most, OP_BOOL);
}

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

bool import_generation_known(const ir_value *value, int64_t *number) {
    if (!value || !value->constant) return false;
    const op_tensor *tensor = &value->constant->tensor;
    if (tensor->type.dtype == OP_INT32 && tensor->bytes == sizeof(int32_t)) {
        int32_t narrow;
        memcpy(&narrow, tensor->data, sizeof narrow);
        *number = narrow;
        return true;
    }
    if (tensor->type.dtype != OP_INT64 || tensor->bytes != sizeof *number) return false;
    memcpy(number, tensor->data, sizeof *number);
    return true;
}

bool import_generation_known_real(const ir_value *value, float *number) {
    if (!value || !value->constant) return false;
    const op_tensor *tensor = &value->constant->tensor;
    if (tensor->type.dtype != OP_FLOAT || tensor->bytes != sizeof *number) return false;
    memcpy(number, tensor->data, sizeof *number);
    return true;
}

/* An input that has one element of this dtype, as far as it is known. */
static base_status check_single(const import_node *n, const ir_value *value, const char *name, op_dtype dtype,
                                op_dtype other) {
    int64_t elements;
    const op_dtype given = import_dtype_of(value);
    const bool one = !op_shape_elements(&value->type.shape, &elements) || elements == 1;
    if (one && (given == OP_NONE || given == dtype || given == other)) return BASE_OK;
    char text[200];
    return base_fail(n->importer->report, BASE_INVALID, "%s is %s, expected one %s", name,
                     op_type_print(&value->type, text, sizeof text), op_dtype_name(dtype));
}

base_status import_generation_integer(const import_node *n, uint32_t index, const char *name,
                                      int64_t otherwise, ir_value **value) {
    static const int64_t one[] = {1};
    ir_value *given = expr_input(n, index);
    int64_t number = otherwise;
    if (given) {
        base_status status = check_single(n, given, name, OP_INT32, OP_INT64);
        if (status != BASE_OK) return status;
    }
    *value = !given || import_generation_known(given, &number)
                 ? expr_vector(n, number)
                 : expr_reshape(n, expr_cast(n, given, OP_INT64), 1, one);
    return *value ? BASE_OK : import_memory(n);
}

base_status import_generation_real(const import_node *n, uint32_t index, const char *name, float otherwise,
                                   ir_value **value) {
    static const int64_t one[] = {1};
    ir_value *given = expr_input(n, index);
    float number = otherwise;
    if (given) {
        base_status status = check_single(n, given, name, OP_FLOAT, OP_FLOAT16);
        if (status != BASE_OK) return status;
    }
    *value = !given || import_generation_known_real(given, &number)
                 ? import_constant_reals(n, 1, &number)
                 : expr_reshape(n, expr_cast(n, given, OP_FLOAT), 1, one);
    return *value ? BASE_OK : import_memory(n);
}

/* A mask of which 0 forbids words. */
static base_status read_mask(const import_node *n, uint32_t index, const char *name, int32_t rank,
                             int64_t words, ir_value **forbidden) {
    ir_value *given = expr_input(n, index);
    if (!given) return BASE_OK;
    const op_shape *shape = &given->type.shape;
    const int64_t last = shape->rank == rank ? shape->dims[rank - 1] : 0;
    if (import_dtype_of(given) != OP_INT32 || shape->rank != rank || (last >= 0 && last != words))
        return base_fail(n->importer->report, BASE_INVALID,
                         "%s must be int32 with %d axes, the last of %lld words", name, (int)rank,
                         (long long)words);
    *forbidden = expr_binary(n, OP_EQUAL, given, expr_number(n, given, 0));
    return *forbidden ? BASE_OK : import_memory(n);
}

/* A whole number among the attributes, which need not be there. */
static base_status read_numbers(const import_node *n, generation *g) {
    enum { MOST_REPEATS = 64 };
    g->end = import_integer(n, "eos_token_id", -1);
    g->pad = import_integer(n, "pad_token_id", -1);
    g->repeats = import_integer(n, "no_repeat_ngram_size", 0);
    if (g->end < INT32_MIN || g->end > INT32_MAX || g->pad < INT32_MIN || g->pad > INT32_MAX)
        return base_fail(n->importer->report, BASE_INVALID,
                         "eos_token_id is %lld and pad_token_id %lld, expected numbers of 32 bits",
                         (long long)g->end, (long long)g->pad);
    if (g->repeats > MOST_REPEATS)
        return base_fail_unsupported(n->importer->report,
                                     "no_repeat_ngram_size %lld is not supported; up to %d is",
                                     (long long)g->repeats, (int)MOST_REPEATS);
    const int64_t words = import_integer(n, "vocab_size", 0);
    if (words > 0 && words != g->words)
        return base_fail_unsupported(
            n->importer->report, "vocab_size %lld is not supported; %lld is: so many logits the decoder has",
            (long long)words, (long long)g->words);
    return BASE_OK;
}

static base_status read_prompt_type(const import_node *n, const generation_inputs *at, generation *g) {
    const ir_value *mask = expr_input(n, at->mask);
    g->prompt = expr_input(n, 0);
    if (!g->prompt) return base_fail(n->importer->report, BASE_INVALID, "input 0 is absent, it is needed");
    const op_dtype dtype = import_dtype_of(g->prompt);
    const int32_t rank = import_rank_of(g->prompt);
    if (g->heard && ((dtype != OP_FLOAT && dtype != OP_FLOAT16) || rank != 3 || mask))
        return base_fail(n->importer->report, BASE_INVALID,
                         "input_features must be float with three axes, batch, features and frames, without "
                         "attention_mask");
    if (!g->heard && (dtype != OP_INT32 || rank != 2))
        return base_fail(n->importer->report, BASE_INVALID,
                         "input_ids must be int32 with two axes, batch and length");
    if (mask && (import_dtype_of(mask) != OP_INT32 || import_rank_of(mask) != 2))
        return base_fail(n->importer->report, BASE_INVALID,
                         "attention_mask must be int32 with two axes, batch and length");
    g->mask = expr_input(n, at->mask);
    g->batch = expr_extent(n, g->prompt, 0);
    g->length = expr_extent(n, g->prompt, 1);
    return g->batch && g->length ? BASE_OK : import_memory(n);
}

base_status import_generation_read(const import_node *n, const generation_inputs *at, generation *g) {
    enum { LONGEST = 4096, MOST = 1 << 20 }; /* where the node does not say it; what it may say */
    int64_t number;
    float penalty;
    base_status status = read_numbers(n, g);
    if (status == BASE_OK) status = read_prompt_type(n, at, g);
    if (status == BASE_OK) status = import_generation_integer(n, at->limit, "max_length", LONGEST, &g->limit);
    if (status == BASE_OK && expr_input(n, at->least))
        status = import_generation_integer(n, at->least, "min_length", 0, &g->least);
    if (status == BASE_OK && expr_input(n, at->penalty))
        status = import_generation_real(n, at->penalty, "repetition_penalty", 1, &g->penalty);
    if (status == BASE_OK) status = read_mask(n, at->forbidden, "vocab_mask", 1, g->words, &g->forbidden);
    if (status == BASE_OK)
        status = read_mask(n, at->first_forbidden, "prefix_vocab_mask", 2, g->words, &g->first_forbidden);
    if (status != BASE_OK) return status;
    if (import_generation_known(g->limit, &number)) {
        const int64_t extent = g->prompt->type.shape.dims[1], length = g->encoded   ? 1
                                                                       : extent > 0 ? extent
                                                                                    : 0;
        if (number <= length || number > MOST)
            return base_fail(
                n->importer->report, BASE_INVALID,
                "max_length is %lld, expected more than the %lld words that are there before, and at most %d",
                (long long)number, (long long)length, (int)MOST);
    }
    if (import_generation_known(g->least, &number) && number <= 0) g->least = NULL;
    if (import_generation_known_real(g->penalty, &penalty)) {
        if (!(penalty > 0))
            return base_fail(n->importer->report, BASE_INVALID,
                             "repetition_penalty is %g, expected more than 0", (double)penalty);
        if (penalty == 1) g->penalty = NULL;
    }
    return BASE_OK;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------- */

static const char *name_of(const Onnx__ValueInfoProto *info) {
    return info->name ? info->name : "";
}

base_status import_generation_declared(const import_node *n, const Onnx__GraphProto *graph, uint32_t input,
                                       op_type *type) {
    return import_type(n->importer, graph->input[input], false, type);
}

base_status import_generation_inline(const import_node *within, const Onnx__GraphProto *graph,
                                     ir_value *const *inputs, ir_value **outputs) {
    import_state *importer = within->importer;
    import_scope scope;
    const char *path =
        base_arena_format(&importer->arena, "%s/%.*s/%s", within->scope->path, IMPORT_LABEL,
                          import_label(within->proto), graph->name && *graph->name ? graph->name : "graph");
    if (!path ||
        !import_scope_init(importer, &scope, within->scope, within->scope->frame, within->scope->graph, path))
        return import_memory(within);
    for (uint32_t i = 0; i < graph->n_input; i++) {
        op_type type;
        base_status status = import_generation_declared(within, graph, i, &type);
        if (status != BASE_OK) return status;
        ir_value *value = type.dtype == OP_NONE ? inputs[i] : expr_cast(within, inputs[i], type.dtype);
        if (!value) return import_memory(within);
        status = import_bind(importer, &scope, name_of(graph->input[i]), value, "an input");
        if (status != BASE_OK) return status;
    }
    /* Read more than once: its tensors become one constant each. */
    importer->guesses++;
    base_status status = importer->graphs->content(importer, &scope, graph);
    importer->guesses--;
    if (status != BASE_OK) return status;
    for (size_t i = 0; i < graph->n_output; i++) {
        outputs[i] = import_find(&scope, graph->output[i]->name)->value;
        if (!outputs[i])
            return base_fail(importer->report, BASE_INVALID, "output " IMPORT_NAME " of the graph is absent",
                             graph->output[i]->name);
    }
    import_context(importer, within->scope->path, within->proto);
    return BASE_OK;
}

/* Names tell what the inputs of the graph are: of others nothing is known. */
static base_status check_names(const import_node *n, const char *attribute, size_t count,
                               Onnx__ValueInfoProto *const *infos, uint32_t named, const char *const *names,
                               const char *what) {
    for (uint32_t i = 0; i < named && i < count; i++)
        if (strcmp(name_of(infos[i]), names[i]) != 0)
            return base_fail(n->importer->report, BASE_INVALID,
                             "%s %u of graph \"%s\" is " IMPORT_NAME ", expected \"%s\"", what, i, attribute,
                             name_of(infos[i]), names[i]);
    return BASE_OK;
}

base_status import_generation_check_decoder(const import_node *n, const char *name, int64_t *words) {
    static const char *const inputs[] = {"input_ids", "position_ids", "attention_mask", "past_0"},
                             *const outputs[] = {"logits", "present_0"};
    base_report *report = n->importer->report;
    const Onnx__AttributeProto *attribute = import_attribute(n, name);
    const Onnx__GraphProto *graph = attribute->g;
    if (graph->n_output < 2 || graph->n_input > UINT32_MAX / 2)
        return base_fail(report, BASE_INVALID,
                         "graph \"%s\" has %zu outputs, expected logits and at least one cache", name,
                         graph->n_output);
    if (graph->n_input == graph->n_output + 3 || graph->n_input == graph->n_output + 5)
        return base_fail_unsupported(
            report,
            "graph \"%s\" has %zu inputs beside %zu outputs: caches that past and present share are not "
            "supported; input_ids, position_ids, attention_mask and caches that grow are",
            name, graph->n_input, graph->n_output);
    if (graph->n_input != graph->n_output + 2)
        return base_fail(report, BASE_INVALID,
                         "graph \"%s\" has %zu inputs beside %zu outputs, expected input_ids, position_ids, "
                         "attention_mask and a cache "
                         "for each output but logits",
                         name, graph->n_input, graph->n_output);
    base_status status = check_names(n, name, graph->n_input, graph->input, 4, inputs, "input");
    if (status == BASE_OK)
        status = check_names(n, name, graph->n_output, graph->output, 2, outputs, "output");
    for (uint32_t i = PAST; i < graph->n_input && status == BASE_OK; i++) {
        op_type type;
        status = import_generation_declared(n, graph, i, &type);
        const op_shape *shape = &type.shape;
        if (status == BASE_OK && (shape->rank != PAST_RANK || shape->dims[0] != 2 || shape->dims[2] < 1 ||
                                  shape->dims[4] < 1 || type.dtype == OP_NONE || type.kind != OP_KIND_TENSOR))
            status = base_fail(report, BASE_INVALID,
                               "input " IMPORT_NAME
                               " of graph \"%s\" must be declared as [2, rows, heads, positions, size], with "
                               "numbers for heads and size",
                               name_of(graph->input[i]), name);
    }
    op_type logits;
    if (status == BASE_OK) status = import_type(n->importer, graph->output[0], false, &logits);
    if (status != BASE_OK) return status;
    if (logits.shape.rank != 3 || logits.shape.dims[2] < 1 || logits.shape.dims[2] > INT32_MAX)
        return base_fail(report, BASE_INVALID,
                         "output \"logits\" of graph \"%s\" must be declared as [rows, positions, words], "
                         "with a number of words",
                         name);
    *words = logits.shape.dims[2];
    return BASE_OK;
}

bool import_generation_read_prompt(const import_node *n, const generation *g, generation_prompt *prompt) {
    static const int64_t along = 1;
    ir_value *padded = expr_binary(n, OP_EQUAL, g->prompt, expr_number(n, g->prompt, (double)g->pad));
    ir_value *there = padded ? expr_cast(n, expr_unary(n, OP_NOT, padded), OP_INT32) : NULL;
    ir_value *count = expr_binary(n, OP_CUM_SUM, there, import_constant_integer(n, 1));
    prompt->positions =
        expr_binary(n, OP_MUL, expr_binary(n, OP_SUB, count, expr_number(n, there, 1)), there);
    prompt->next = expr_reduce(n, OP_REDUCE_SUM, there, 1, &along, true);
    prompt->mask = g->mask ? g->mask : there;
    return prompt->positions && prompt->next && prompt->mask;
}

base_status import_generation_begin(const import_node *n, const generation *g,
                                    const Onnx__GraphProto *decoder, const generation_prompt *prompt,
                                    ir_value **scores, ir_value **caches) {
    const uint32_t count = (uint32_t)decoder->n_input;
    ir_value **inputs = BASE_ARRAY(&n->importer->arena, ir_value *, count),
             **outputs = BASE_ARRAY(&n->importer->arena, ir_value *, decoder->n_output);
    if (!inputs || !outputs) return import_memory(n);
    inputs[0] = g->prompt;
    inputs[1] = prompt->positions;
    inputs[2] = prompt->mask;
    for (uint32_t i = PAST; i < count; i++) {
        op_type type;
        base_status status = import_generation_declared(n, decoder, i, &type);
        if (status != BASE_OK) return status;
        ir_value *shape[PAST_RANK] = {NULL, g->batch};
        shape[0] = expr_vector(n, 2);
        shape[2] = expr_vector(n, type.shape.dims[2]);
        shape[3] = expr_vector(n, 0);
        shape[4] = expr_vector(n, type.shape.dims[4]);
        inputs[i] = expr_fill(n, type.dtype, 0, PAST_RANK, shape);
        if (!inputs[i]) return import_memory(n);
    }
    base_status status = import_generation_inline(n, decoder, inputs, outputs);
    if (status != BASE_OK) return status;
    *scores = import_generation_last(n, outputs[0]);
    for (uint32_t i = 1; i < decoder->n_output; i++) caches[i - 1] = outputs[i];
    return *scores ? BASE_OK : import_memory(n);
}

ir_value *import_generation_last(const import_node *n, ir_value *logits) {
    return expr_cast(n, expr_gather(n, logits, 1, import_constant_integer(n, -1)), OP_FLOAT);
}

/* ---- scores ---------------------------------------------------------------------------------------------------- */

static ir_value *lowest(const import_node *n) {
    return import_constant_real(n, OP_FLOAT, -(double)FLT_MAX);
}

/* The words of the sequences, where those that are not in use repeat the first: [rows, words]. */
static ir_value *words_in_use(const import_node *n, const generation_words *w) {
    if (!w->place) return w->sequences;
    ir_value *first = expr_part(n, w->sequences, 1, 0, 1);
    return expr_select(n, expr_binary(n, OP_LESS, w->place, w->used), w->sequences, first);
}

/* Scores at these words of each row become others. */
static ir_value *scatter(const import_node *n, ir_value *scores, ir_value *words, ir_value *values,
                         const char *reduction) {
    op_attributes attributes = NONE;
    ir_value *inputs[] = {scores, words, values};
    if (!scores || !words || !values || !import_attributes_add_integer(n, &attributes, "axis", 1) ||
        (reduction && !import_attributes_add_text(n, &attributes, "reduction", reduction)))
        return NULL;
    return import_make(n, OP_SCATTER_ELEMENTS, attributes, 3, inputs);
}

static ir_value *penalize_repetition(const import_node *n, const generation *g, const generation_words *w,
                                     ir_value *scores) {
    ir_value *words = words_in_use(n, w), *inputs[] = {scores, words};
    ir_value *own = expr_with_integer(n, OP_GATHER_ELEMENTS, "axis", 1, 2, inputs);
    ir_value *below = own ? expr_binary(n, OP_LESS, own, expr_number(n, own, 0)) : NULL;
    ir_value *more = expr_binary(n, OP_MUL, own, g->penalty);
    ir_value *changed = expr_select(n, below, more, expr_binary(n, OP_DIV, own, g->penalty));
    return scatter(n, scores, words, changed, NULL);
}

/* The words that follow `at` places after each place of a sequence at which an n-gram can begin. */
static ir_value *shifted(const import_node *n, const generation *g, ir_value *sequences, int64_t at) {
    const int64_t after = at - (g->repeats - 1);
    return expr_part(n, sequences, 1, at, after < 0 ? after : INT64_MAX);
}

/* Word `at` of the last n - 1 words: [rows, 1]. */
static ir_value *last_word(const import_node *n, const generation *g, const generation_words *w, int64_t at) {
    const int64_t from_end = at - (g->repeats - 1);
    if (!w->place)
        return expr_part(n, w->sequences, 1, from_end, from_end + 1 < 0 ? from_end + 1 : INT64_MAX);
    ir_value *place = expr_binary(n, OP_ADD, w->used, expr_vector(n, from_end));
    return expr_gather(n, w->sequences, 1, expr_binary(n, OP_MAX, place, expr_vector(n, 0)));
}

/* No word that would end an n-gram which is there already. */
static ir_value *forbid_repeats(const import_node *n, const generation *g, const generation_words *w,
                                ir_value *scores) {
    ir_value *last = shifted(n, g, w->sequences, g->repeats - 1), *same = NULL;
    if (!last) return NULL;
    for (int64_t i = 0; i < g->repeats - 1; i++) {
        ir_value *words = shifted(n, g, w->sequences, i);
        ir_value *equal = expr_binary(n, OP_EQUAL, words, last_word(n, g, w, i));
        if (!equal) return NULL;
        same = same ? expr_binary(n, OP_AND, same, equal) : equal;
    }
    if (w->place) {
        /* The n-gram ends before the end of what is in use; the words of others need not be in the vocabulary. */
        ir_value *place = expr_part(n, w->place, 0, g->repeats - 1, INT64_MAX);
        ir_value *inside = expr_binary(n, OP_LESS, place, w->used);
        same = same ? expr_binary(n, OP_AND, same, inside) : inside;
        last = expr_select(n, inside, last, expr_part(n, w->sequences, 1, 0, 1));
    }
    ir_value *most = import_constant_real(n, OP_FLOAT, (double)INFINITY);
    ir_value *values = lowest(n);
    if (same) values = expr_select(n, same, values, most);
    values = expr_binary(n, OP_EXPAND, values, expr_unary(n, OP_SHAPE, last));
    return scatter(n, scores, last, values, "min");
}

/* The word that ends a sequence, as long as that is too short. */
static ir_value *forbid_end(const import_node *n, const generation *g, const generation_words *w,
                            ir_value *scores) {
    ir_value *words = expr_range(n, expr_vector(n, g->words));
    ir_value *end = words ? expr_binary(n, OP_EQUAL, words, expr_number(n, words, (double)g->end)) : NULL;
    ir_value *early = expr_binary(n, OP_AND, end, expr_binary(n, OP_LESS, w->used, g->least));
    return expr_select(n, early, lowest(n), scores);
}

ir_value *import_generation_scores(const import_node *n, const generation *g, const generation_words *words,
                                   ir_value *scores, bool first) {
    if (g->penalty) scores = penalize_repetition(n, g, words, scores);
    if (g->repeats > 0) scores = forbid_repeats(n, g, words, scores);
    if (g->forbidden) scores = expr_select(n, g->forbidden, lowest(n), scores);
    if (g->first_forbidden && first) scores = expr_select(n, g->first_forbidden, lowest(n), scores);
    if (g->least) scores = forbid_end(n, g, words, scores);
    return g->temperature ? expr_binary(n, OP_DIV, scores, g->temperature) : scores;
}

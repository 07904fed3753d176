/* SPDX-License-Identifier: Apache-2.0 */
/* ngrams.c: TfIdfVectorizer on integers or strings: how often each n-gram of a pool occurs in a row, items of an n-gram standing
 * up to max_skip_count apart, all at the same distance. Single items are counted once, whatever the skips. */
#include "runtime/kernels/portable/kernels.h"
#include <inttypes.h>
#include <string.h>

typedef enum weighting { COUNTS, WEIGHTS, PRODUCTS } weighting;

typedef struct ngram_state {
    const int64_t *pool, *starts, *indexes;
    const op_string *words; /* the pool where the items are strings */
    const float *weights;   /* of each n-gram; NULL: all are 1 */
    size_t pool_count, sizes;
    int64_t least, most, skips, rows, columns, width;
    weighting weighting;
    bool wide;
} ngram_state;

static bool is_item(const ngram_state *state, const void *data, int64_t at, size_t member) {
    if (!state->words)
        return (state->wide ? ((const int64_t *)data)[at] : ((const int32_t *)data)[at]) ==
               state->pool[member];
    const op_string *word = (const op_string *)data + at, *other = &state->words[member];
    return word->length == other->length &&
           (word->length == 0 || memcmp(word->data, other->data, word->length) == 0);
}

/* An n-gram of the pool occurs. Several may have one place in the result: each counts with its own weight. */
static void count_gram(const ngram_state *state, size_t gram, float *to) {
    float *at = to + state->indexes[gram];
    const float weight = state->weighting != COUNTS && state->weights ? state->weights[gram] : 1;
    *at = state->weighting == WEIGHTS ? weight : *at + weight;
}

/* Counts the n-grams of size n in one row, whose items are `distance` apart. */
static void count_size(const ngram_state *state, const void *data, int64_t row, int64_t n, int64_t distance,
                       float *to) {
    const size_t begin = (size_t)state->starts[n - 1],
                 end = (size_t)n < state->sizes ? (size_t)state->starts[n] : state->pool_count;
    size_t before = 0; /* n-grams of smaller sizes in the pool */
    for (int64_t k = 1; k < n; k++) before += (size_t)(state->starts[k] - state->starts[k - 1]) / (size_t)k;
    for (int64_t first = 0; first + (n - 1) * distance < state->columns; first++) {
        for (size_t gram = begin, number = 0; gram + (size_t)n <= end; gram += (size_t)n, number++) {
            int64_t k = 0;
            while (k < n &&
                   is_item(state, data, row * state->columns + first + k * distance, gram + (size_t)k))
                k++;
            if (k == n) count_gram(state, before + number, to);
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const ngram_state *state = prepared->state;
    if (outputs[0].bytes) memset(outputs[0].data, 0, outputs[0].bytes);
    for (int64_t row = 0; row < state->rows; row++) {
        float *to = (float *)outputs[0].data + row * state->width;
        for (int64_t n = state->least; n <= state->most; n++) {
            for (int64_t distance = 1; distance <= (n == 1 ? 1 : state->skips + 1); distance++)
                count_size(state, inputs[0].data, row, n, distance, to);
        }
    }
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    bool words = call->inputs[0].type.dtype == OP_STRING;
    return rt_accepts_row_major(call) &&
           op_attribute_find(&call->attributes, words ? "pool_strings" : "pool_int64s");
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    ngram_state *state = BASE_NEW(arena, ngram_state);
    if (!state) return base_fail_memory(report);
    const op_shape *shape = &call->inputs[0].type.shape;
    size_t indexes = 0, weights = 0, grams = 0;
    state->pool = op_attribute_integers(&call->attributes, "pool_int64s", &state->pool_count);
    if (call->inputs[0].type.dtype == OP_STRING) {
        const op_attribute *words = op_attribute_find(&call->attributes, "pool_strings");
        if (words->kind != OP_ATTRIBUTE_STRINGS)
            return base_fail(report, BASE_INVALID, "attribute \"pool_strings\" is no list of strings");
        state->words = words->as.texts;
        state->pool_count = words->count;
    }
    state->starts = op_attribute_integers(&call->attributes, "ngram_counts", &state->sizes);
    state->indexes = op_attribute_integers(&call->attributes, "ngram_indexes", &indexes);
    state->weights = op_attribute_reals(&call->attributes, "weights", &weights);
    state->least = op_attribute_integer(&call->attributes, "min_gram_length", 1);
    state->most = op_attribute_integer(&call->attributes, "max_gram_length", 1);
    state->skips = op_attribute_integer(&call->attributes, "max_skip_count", 0);
    state->rows = shape->rank == 2 ? shape->dims[0] : 1;
    state->columns = shape->dims[shape->rank - 1];
    state->width = call->outputs[0].type.shape.dims[call->outputs[0].type.shape.rank - 1];
    state->wide = call->inputs[0].type.dtype == OP_INT64;
    state->weighting = op_attribute_is(&call->attributes, "mode", "TF", "")    ? COUNTS
                       : op_attribute_is(&call->attributes, "mode", "IDF", "") ? WEIGHTS
                                                                               : PRODUCTS;
    bool fits = state->least >= 1 && state->most >= state->least && (size_t)state->most <= state->sizes &&
                state->skips >= 0;
    for (size_t n = 1; fits && n <= state->sizes; n++) {
        int64_t end = n < state->sizes ? state->starts[n] : (int64_t)state->pool_count;
        fits = state->starts[n - 1] >= 0 && end >= state->starts[n - 1] && end <= (int64_t)state->pool_count;
        if (fits) grams += (size_t)(end - state->starts[n - 1]) / n;
    }
    if (!fits || indexes < grams || (weights && weights < grams))
        return base_fail(report, BASE_INVALID,
                         "the pool of n-grams, its counts, indexes and weights do not fit each other");
    for (size_t i = 0; i < grams; i++)
        if (state->indexes[i] < 0 || state->indexes[i] >= state->width)
            return base_fail(report, BASE_INVALID, "ngram_indexes has %" PRId64, state->indexes[i]);
    if (!weights) state->weights = NULL;
    if (state->skips > state->columns) state->skips = state->columns;
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_tf_idf = {.name = "portable.tf_idf", .accepts = accepts, .prepare = prepare};

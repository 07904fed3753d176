/* SPDX-License-Identifier: Apache-2.0 */
/* ngrams.c: TfIdfVectorizer on integers or strings: how often each n-gram of a pool occurs in a row, items of an n-gram standing
 * up to max_skip_count apart, all at the same distance. Single items are counted once, whatever the skips. The pool is a hash table, made when a
 * session is: a vocabulary has ten thousands of n-grams. */
#include "runtime/kernels/portable/kernels.h"
#include <inttypes.h>
#include <string.h>

typedef enum weighting { COUNTS, WEIGHTS, PRODUCTS } weighting;

/* An n-gram of the pool: its items begin at `from`; `next` is the next one of equal items, -1 after the last. */
typedef struct ngram {
    size_t from;
    int64_t size, next;
} ngram;

typedef struct ngram_state {
    const int64_t *pool, *starts, *indexes;
    const op_string *words; /* the pool where the items are strings */
    const float *weights;   /* of each n-gram; NULL: all are 1 */
    size_t pool_count, sizes;
    int64_t least, most, skips, rows, columns, width;
    weighting weighting;
    bool wide;
    const ngram *grams;
    size_t slots;   /* a power of two */
    int64_t *table; /* the first of equal n-grams, -1 where there is none */
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

static uint64_t hash_with(uint64_t hash, int64_t item) {
    return base_mix(hash ^ (uint64_t)item);
}

static uint64_t hash_with_text(uint64_t hash, const op_string *text) {
    return base_hash(text->data, text->length, hash);
}

/* Of the n items from `at` on, `distance` apart, in the data. */
static uint64_t hash_of_items(const ngram_state *state, const void *data, int64_t at, int64_t n,
                              int64_t distance) {
    uint64_t hash = (uint64_t)n;
    for (int64_t k = 0; k < n; k++, at += distance) {
        if (state->words) hash = hash_with_text(hash, (const op_string *)data + at);
        else hash = hash_with(hash, state->wide ? ((const int64_t *)data)[at] : ((const int32_t *)data)[at]);
    }
    return hash;
}

/* The same of an n-gram. */
static uint64_t hash_of_gram(const ngram_state *state, const ngram *gram) {
    uint64_t hash = (uint64_t)gram->size;
    for (size_t i = gram->from; i < gram->from + (size_t)gram->size; i++)
        hash = state->words ? hash_with_text(hash, state->words + i) : hash_with(hash, state->pool[i]);
    return hash;
}

static bool same_grams(const ngram_state *state, const ngram *a, const ngram *b) {
    if (a->size != b->size) return false;
    for (size_t i = 0; i < (size_t)a->size; i++) {
        if (!state->words && state->pool[a->from + i] != state->pool[b->from + i]) return false;
        if (state->words && !is_item(state, state->words, (int64_t)(a->from + i), b->from + i)) return false;
    }
    return true;
}

static bool is_gram(const ngram_state *state, const ngram *gram, const void *data, int64_t at, int64_t n,
                    int64_t distance) {
    if (gram->size != n) return false;
    for (int64_t k = 0; k < n; k++)
        if (!is_item(state, data, at + k * distance, gram->from + (size_t)k)) return false;
    return true;
}

/* Counts the n-grams of size n in one row, whose items are `distance` apart. */
static void count_size(const ngram_state *state, const void *data, int64_t row, int64_t n, int64_t distance,
                       float *to) {
    for (int64_t first = 0; first + (n - 1) * distance < state->columns; first++) {
        const int64_t at = row * state->columns + first;
        size_t slot = (size_t)hash_of_items(state, data, at, n, distance) & (state->slots - 1);
        int64_t found;
        while ((found = state->table[slot]) >= 0 &&
               !is_gram(state, &state->grams[found], data, at, n, distance))
            slot = (slot + 1) & (state->slots - 1);
        for (; found >= 0; found = state->grams[found].next) count_gram(state, (size_t)found, to);
    }
}

typedef struct ngram_job {
    const ngram_state *state;
    const void *data;
    float *y;
} ngram_job;

static void count_rows(void *user, int64_t begin, int64_t end) {
    const ngram_job *job = user;
    const ngram_state *state = job->state;
    for (int64_t row = begin; row < end; row++) {
        float *to = job->y + row * state->width;
        if (state->width) memset(to, 0, (size_t)state->width * sizeof *to);
        for (int64_t n = state->least; n <= state->most; n++) {
            for (int64_t distance = 1; distance <= (n == 1 ? 1 : state->skips + 1); distance++)
                count_size(state, job->data, row, n, distance, to);
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    enum { OF_ITEM = 32 /* what one costs, beside the elements of a result */ };
    (void)scratch;
    (void)report;
    const ngram_state *state = prepared->state;
    ngram_job job = {state, inputs[0].data, outputs[0].data};
    rt_parallel(prepared->threads, state->rows, OF_ITEM * state->columns + state->width, count_rows, &job);
    return BASE_OK;
}

/* The table of `count` n-grams, the sizes of which begin at state->starts. Of equal ones the first stands in the table, and the others follow it in order. */
static bool make_table(ngram_state *state, size_t count, base_arena *arena) {
    ngram *grams = BASE_ARRAY(arena, ngram, count + 1);
    state->slots = 2;
    while (state->slots / 2 < count) state->slots *= 2;
    state->table = BASE_ARRAY(arena, int64_t, state->slots);
    if (!grams || !state->table) return false;
    for (size_t i = 0; i < state->slots; i++) state->table[i] = -1;
    size_t made = 0;
    for (size_t n = 1; n <= state->sizes; n++) {
        const size_t end = n < state->sizes ? (size_t)state->starts[n] : state->pool_count;
        for (size_t from = (size_t)state->starts[n - 1]; from + n <= end; from += n)
            grams[made++] = (ngram){from, (int64_t)n, -1};
    }
    state->grams = grams;
    for (size_t i = made; i-- > 0;) {
        size_t slot = (size_t)hash_of_gram(state, &grams[i]) & (state->slots - 1);
        while (state->table[slot] >= 0 && !same_grams(state, &grams[state->table[slot]], &grams[i]))
            slot = (slot + 1) & (state->slots - 1);
        grams[i].next = state->table[slot];
        state->table[slot] = (int64_t)i;
    }
    return true;
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
    if (!make_table(state, grams, arena)) return base_fail_memory(report);
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_tf_idf = {.name = "portable.tf_idf", .accepts = accepts, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* generation_sampling.c: draws words by their scores, as ONNX Runtime does: with the generator x <= 16807 x mod (2^31 - 1), of which two numbers
 * give one between 0 and 1 for each sequence. Where these lie in the sums of the likelihoods is the word.
 *
 * Sequences draw one after the other. The numbers of all of them follow from the state at once, by powers of the factor. */
#include "compiler/onnx/convert/generation.h"

enum { FACTOR = 16807, MOST_SEQUENCES = 256 };

static const int64_t modulus = INT32_MAX;

base_status import_sampling_read(const import_node *n, generation *g, sampling *s) {
    base_report *report = n->importer->report;
    const double temperature = (double)import_real(n, "temperature", 1);
    int64_t powers[2 * MOST_SEQUENCES], power = 1, number;
    *s = (sampling){.top = (double)import_real(n, "top_p", 0),
                    .filter = (double)import_real(n, "filter_value", -1e20f),
                    .kept = import_integer(n, "min_tokens_to_keep", 0),
                    .falling = import_integer(n, "custom", 0) != 0};
    if (s->kept < 0 || s->kept >= g->words)
        return base_fail(report, BASE_INVALID,
                         "min_tokens_to_keep is %lld, expected less than the %lld words", (long long)s->kept,
                         (long long)g->words);
    if (expr_input(n, 7) && import_real(n, "presence_penalty", 0) != 0)
        return base_fail_unsupported(report, "presence_mask is not supported; a presence_penalty of 0 is");
    if (import_output_wanted(n, 1))
        return base_fail_unsupported(report, "output 1 (filtered_logits) is not supported");
    if (g->prompt->type.shape.dims[0] > MOST_SEQUENCES)
        return base_fail_unsupported(report, "%lld sequences are not supported; up to %d are",
                                     (long long)g->prompt->type.shape.dims[0], (int)MOST_SEQUENCES);
    if (temperature > 0 && temperature != 1) g->temperature = import_constant_real(n, OP_FLOAT, temperature);
    for (uint32_t i = 0; i < 2 * MOST_SEQUENCES; i++) powers[i] = power = power * FACTOR % modulus;
    base_status status = import_generation_integer(n, 8, "seed", 0, &s->state);
    if (status != BASE_OK) return status;
    /* The seed is taken as 32 bits without a sign, and is never 0. */
    if (import_generation_known(s->state, &number)) {
        number = (int64_t)((uint64_t)number & UINT32_MAX) % modulus;
        s->state = expr_vector(n, number ? number : 1);
    } else {
        ir_value *zero = import_constant_integer(n, 0), *bits = import_constant_integer(n, INT64_C(1) << 32);
        ir_value *below = expr_binary(n, OP_LESS, s->state, zero);
        ir_value *whole = expr_select(n, below, expr_binary(n, OP_ADD, s->state, bits), s->state);
        ir_value *rest = expr_binary(n, OP_MOD, whole, import_constant_integer(n, modulus));
        ir_value *none = expr_binary(n, OP_EQUAL, rest, zero);
        s->state = expr_select(n, none, import_constant_integer(n, 1), rest);
    }
    ir_value *drawn = expr_binary(n, OP_ADD, g->batch, g->batch);
    ir_value *all = import_constant_integers(n, 2 * MOST_SEQUENCES, powers);
    s->powers = expr_slice(n, all, 0, expr_vector(n, 0), drawn);
    return s->state && s->powers ? BASE_OK : import_memory(n);
}

/* A number between 0 and 1 for each sequence, [batch, 1] in double; the state moves on. */
static ir_value *draw(const import_node *n, const sampling *s, ir_value **state) {
    static const int64_t pairs[] = {-1, 2}, from_end[] = {-1};
    ir_value *numbers = expr_binary(n, OP_MUL, s->powers, *state);
    numbers = expr_binary(n, OP_MOD, numbers, import_constant_integer(n, modulus));
    *state = expr_gather(n, numbers, 0, import_constant_integers(n, 1, from_end));
    ir_value *each = expr_cast(
        n, expr_reshape(n, expr_binary(n, OP_SUB, numbers, import_constant_integer(n, 1)), 2, pairs),
        OP_DOUBLE);
    const double range = (double)modulus - 1;
    ir_value *low = expr_part(n, each, 1, 0, 1), *high = expr_part(n, each, 1, 1, 2);
    ir_value *sum =
        expr_binary(n, OP_ADD, low, expr_binary(n, OP_MUL, high, import_constant_real(n, OP_DOUBLE, range)));
    return expr_binary(n, OP_DIV, sum, import_constant_real(n, OP_DOUBLE, range * range));
}

/* The scores, of which the unlikeliest have become the filter's: of those that make up 1 - top_p together, all but a few. */
static ir_value *filter(const import_node *n, const generation *g, const sampling *s, ir_value *scores) {
    op_attributes attributes = {0};
    ir_value *sorted, *places, *order = expr_range(n, expr_vector(n, g->words));
    if (!expr_top(n, scores, expr_vector(n, g->words), 1, s->falling, &sorted, &places)) return NULL;
    ir_value *sum = expr_with_integer(n, OP_SOFTMAX, "axis", 1, 1, &sorted), *out;
    sum = expr_binary(n, OP_CUM_SUM, sum, import_constant_integer(n, 1));
    if (s->falling) {
        /* A word goes if those before it are enough. */
        ir_value *own = expr_binary(n, OP_GREATER, sum, import_constant_real(n, OP_FLOAT, s->top));
        ir_value *first = expr_part(n, sum, 1, 0, 1);
        first = expr_binary(n, OP_LESS, first, import_constant_real(n, OP_FLOAT, 0));
        ir_value *parts[] = {first, expr_part(n, own, 1, 0, -1)};
        out = expr_join(n, 1, 2, parts);
    } else {
        out = expr_binary(n, OP_LESS_OR_EQUAL, sum,
                          import_constant_real(n, OP_FLOAT, (double)(1.0f - (float)s->top)));
        const int64_t last = g->words - s->kept > 1 ? g->words - s->kept : 1; /* the first may always go */
        out = expr_binary(n, OP_AND, out, expr_binary(n, OP_LESS, order, import_constant_integer(n, last)));
    }
    ir_value *inputs[] = {scores, places,
                          expr_select(n, out, import_constant_real(n, OP_FLOAT, s->filter), sorted)};
    if (!inputs[2] || !import_attributes_add_integer(n, &attributes, "axis", 1)) return NULL;
    return import_make(n, OP_SCATTER_ELEMENTS, attributes, 3, inputs);
}

ir_value *import_sample(const import_node *n, const generation *g, const sampling *s, ir_value *scores,
                        ir_value **state) {
    static const int64_t along = 1, from_end[] = {-1};
    scores = expr_cast(n, filter(n, g, s, scores), OP_DOUBLE);
    ir_value *most = scores ? expr_reduce(n, OP_REDUCE_MAX, scores, 1, &along, true) : NULL;
    ir_value *likely = most ? expr_unary(n, OP_EXP, expr_binary(n, OP_SUB, scores, most)) : NULL;
    ir_value *sums = expr_binary(n, OP_CUM_SUM, likely, import_constant_integer(n, 1));
    ir_value *total = sums ? expr_gather(n, sums, 1, import_constant_integers(n, 1, from_end)) : NULL;
    ir_value *wanted = expr_binary(n, OP_MUL, draw(n, s, state), total);
    /* How many sums are not more than the number. */
    ir_value *below = expr_cast(n, expr_binary(n, OP_LESS_OR_EQUAL, sums, wanted), OP_INT32);
    return below ? expr_reduce(n, OP_REDUCE_SUM, below, 1, &along, true) : NULL;
}

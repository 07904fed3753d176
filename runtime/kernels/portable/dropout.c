/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.c: Dropout in training: elements are dropped with probability `ratio`, the others scaled by
 * 1 / (1 - ratio). Where training_mode is false or the ratio 0, everything stays.
 *
 * Without a seed, see random.h for the numbers. With one, they are those of the operator's published examples, which
 * draw them, one an element, from MT19937 (Matsumoto and Nishimura, "Mersenne Twister", 1998) seeded with it. Each
 * number needs the one before, so that this is done on one thread.
 */
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/random.h"
#include <string.h>

typedef struct dropout_state {
    rt_random_source source;
    op_dtype dtype, ratio_dtype;
    int64_t count;
    size_t bytes;
    bool ratio, training, mask; /* these inputs are present; output 1 is wanted */
    bool seeded;
    uint32_t seed;
} dropout_state;

typedef struct dropout_context {
    const dropout_state *state;
    uint64_t stream;
    double ratio;
    const void *x;
    void *y;
    uint8_t *mask; /* NULL: not wanted */
} dropout_context;

static inline void decide(const dropout_context *context, int64_t i, double drawn, double scale) {
    const op_dtype dtype = context->state->dtype;
    const bool stays = drawn >= context->ratio;
    rt_element_store(dtype, context->y, i, stays ? rt_element_load(dtype, context->x, i) * scale : 0);
    if (context->mask) context->mask[i] = stays;
}

static void drop(void *user, int64_t begin, int64_t end) {
    const dropout_context *context = user;
    const double scale = 1 / (1 - context->ratio);
    for (int64_t i = begin; i < end; i++) {
        decide(context, i, rt_random_uniform(context->stream, (uint64_t)i, 53), scale);
    }
}

/* ---- MT19937 ------------------------------------------------------------------------------------------- */

enum { TWISTER_WORDS = 624, TWISTER_SHIFT = 397 };

typedef struct twister {
    uint32_t words[TWISTER_WORDS];
    uint32_t at; /* the next word that has not been handed out */
} twister;

static void twister_seed(twister *t, uint32_t seed) {
    for (uint32_t i = 0; i < TWISTER_WORDS; i++) {
        t->words[i] = seed;
        seed = 1812433253u * (seed ^ seed >> 30) + i + 1;
    }
    t->at = TWISTER_WORDS;
}

static void twister_refill(twister *t) {
    for (uint32_t i = 0; i < TWISTER_WORDS; i++) {
        const uint32_t next = t->words[(i + 1) % TWISTER_WORDS];
        const uint32_t joined = (t->words[i] & 0x80000000u) | (next & 0x7fffffffu);
        t->words[i] =
            t->words[(i + TWISTER_SHIFT) % TWISTER_WORDS] ^ joined >> 1 ^ (next & 1 ? 0x9908b0dfu : 0);
    }
    t->at = 0;
}

static uint32_t twister_word(twister *t) {
    if (t->at == TWISTER_WORDS) twister_refill(t);
    uint32_t word = t->words[t->at++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
}

/* A number in [0, 1) of 53 digits, the upper 27 from one word and the lower 26 from the next. */
static double twister_uniform(twister *t) {
    const uint64_t high = twister_word(t) >> 5, low = twister_word(t) >> 6;
    return (double)(high << 26 | low) * 0x1p-53;
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

static void drop_seeded(const dropout_context *context, twister *t) {
    const dropout_state *state = context->state;
    const double scale = 1 / (1 - context->ratio);
    const uint64_t *execution = state->source.execution;
    twister_seed(t, state->seed + (execution ? (uint32_t)(*execution - 1) : 0));
    for (int64_t i = 0; i < state->count; i++) decide(context, i, twister_uniform(t), scale);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const dropout_state *state = prepared->state;
    dropout_context context = {.state = state,
                               .stream = rt_random_stream(&state->source),
                               .ratio = state->ratio ? rt_element_load(state->ratio_dtype, inputs[1].data, 0)
                                                     : 0.5,
                               .x = inputs[0].data,
                               .y = outputs[0].data,
                               .mask = state->mask ? outputs[1].data : NULL};
    if (!(context.ratio >= 0 && context.ratio < 1)) {
        return base_fail(report, BASE_INVALID, "input 1 (ratio) is %g, expected at least 0 and less than 1",
                         context.ratio);
    }
    if (context.ratio > 0 && state->training && *(const uint8_t *)inputs[2].data) {
        if (state->seeded) drop_seeded(&context, scratch);
        else rt_parallel(prepared->threads, state->count, 16, drop, &context);
        return BASE_OK;
    }
    rt_copy_bytes(prepared->threads, context.y, context.x, state->bytes);
    if (context.mask && state->count) memset(context.mask, 1, (size_t)state->count);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    dropout_state *state = BASE_NEW(arena, dropout_state);
    if (!state) return base_fail_memory(report);
    const op_type *type = &call->inputs[0].type;
    *state = (dropout_state){.source = rt_random_read(call, environment),
                             .dtype = type->dtype,
                             .ratio = op_input_present(call, 1),
                             .training = op_input_present(call, 2),
                             .mask = call->output_count > 1 && call->outputs[1].type.dtype != OP_NONE};
    const op_attribute *seed = op_attribute_find(&call->attributes, "seed");
    if (seed && seed->kind == OP_ATTRIBUTE_INT) {
        const uint64_t bits = (uint64_t)seed->as.integer;
        state->seeded = true;
        state->seed = (uint32_t)(bits ^ bits >> 32);
        prepared->scratch_bytes = sizeof(twister);
    }
    if (state->ratio) state->ratio_dtype = call->inputs[1].type.dtype;
    if (!op_shape_elements(&type->shape, &state->count) || !op_type_bytes(type, &state->bytes)) {
        return base_fail(report, BASE_INVALID, "input 0 has too many elements");
    }
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_dropout = {
    .name = "portable.dropout", .accepts = rt_accepts_any_row_major, .prepare = prepare};

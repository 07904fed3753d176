/* SPDX-License-Identifier: Apache-2.0 */
/* label_encoder.c: keys to values, by a hash table over the constant keys that is made when a session is. */
#include "runtime/kernels/portable/kernels.h"
#include <string.h>

typedef struct encoder_state {
    op_dtype keys;
    size_t key_bytes, value_bytes;
    int64_t count;
    size_t slots;   /* a power of two */
    int64_t *table; /* positions of keys, -1 where there is none */
} encoder_state;

/* The bits of an element, such that equal elements have equal ones: both zeros, and all that is no number, are one. */
static uint64_t bits_of(const encoder_state *s, const void *data, int64_t index) {
    const char *at = (const char *)data + (size_t)index * s->key_bytes;
    uint64_t bits = 0;
    if (s->keys == OP_FLOAT) {
        float value;
        memcpy(&value, at, sizeof value);
        if (value == 0) return 0;
        if (value != value) return UINT64_MAX;
    } else if (s->keys == OP_DOUBLE) {
        double value;
        memcpy(&value, at, sizeof value);
        if (value == 0) return 0;
        if (value != value) return UINT64_MAX;
    }
    memcpy(&bits, at, s->key_bytes);
    return bits;
}

static const op_string *text_at(const void *data, int64_t index) {
    return (const op_string *)data + index;
}

static uint64_t hash_of(const encoder_state *s, const void *data, int64_t index) {
    if (s->keys != OP_STRING) return base_mix(bits_of(s, data, index));
    const op_string *text = text_at(data, index);
    return base_hash(text->data, text->length, 0);
}

static bool equal(const encoder_state *s, const void *a, int64_t i, const void *b, int64_t k) {
    if (s->keys != OP_STRING) return bits_of(s, a, i) == bits_of(s, b, k);
    const op_string *left = text_at(a, i), *right = text_at(b, k);
    return left->length == right->length &&
           (left->length == 0 || memcmp(left->data, right->data, left->length) == 0);
}

/* Where element `index` of `data` is in the table, or belongs. */
static size_t slot_of(const encoder_state *s, const void *keys, const void *data, int64_t index) {
    size_t slot = (size_t)hash_of(s, data, index) & (s->slots - 1);
    while (s->table[slot] >= 0 && !equal(s, keys, s->table[slot], data, index))
        slot = (slot + 1) & (s->slots - 1);
    return slot;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const encoder_state *s = prepared->state;
    const char *values = inputs[2].data, *otherwise = inputs[3].data;
    char *to = outputs[0].data;
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t found = s->table[slot_of(s, inputs[1].data, inputs[0].data, i)];
        memcpy(to + (size_t)i * s->value_bytes,
               found < 0 ? otherwise : values + (size_t)found * s->value_bytes, s->value_bytes);
    }
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    int64_t keys;
    const op_tensor *tensor = &call->inputs[1];
    return op_shape_elements(&tensor->type.shape, &keys) && (keys == 0 || tensor->data) &&
           rt_accepts_row_major(call);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    encoder_state *s = BASE_NEW(arena, encoder_state);
    int64_t keys;
    if (!s) return base_fail_memory(report);
    s->keys = call->inputs[1].type.dtype;
    s->key_bytes = op_dtype_bytes(s->keys);
    s->value_bytes = op_dtype_bytes(call->inputs[2].type.dtype);
    op_shape_elements(&call->inputs[0].type.shape, &s->count);
    op_shape_elements(&call->inputs[1].type.shape, &keys);
    s->slots = 2;
    while (s->slots / 2 < (size_t)keys) s->slots *= 2;
    s->table = BASE_ARRAY(arena, int64_t, s->slots);
    if (!s->table) return base_fail_memory(report);
    for (size_t i = 0; i < s->slots; i++) s->table[i] = -1;
    /* Of equal keys the last one counts. */
    const void *data = call->inputs[1].data;
    for (int64_t i = 0; i < keys; i++) s->table[slot_of(s, data, data, i)] = i;
    prepared->state = s;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_label_encoder = {
    .name = "portable.label_encoder", .accepts = accepts, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* linear_attention.c: LinearAttention: a recurrence over a matrix a head, of keys by values, which each position changes and each
 * query reads. The matrix is kept in float, and rounded when it is given out. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <math.h>
#include <string.h>

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA };

typedef struct linear_state {
    op_dtype dtype, kept; /* of the activations; of the matrix outside */
    int64_t batches, steps, heads, shared, depth, width;
    bool gated, delta;
    int64_t decay_size; /* depth: one for each element of a key; 1: one a head */
    int64_t beta_heads; /* 1: shared by all heads */
    float scale;
} linear_state;

typedef struct linear_job {
    const linear_state *state;
    const op_tensor *inputs;
    op_tensor *outputs;
    float *scratch;
    bool wanted; /* the matrix is given out */
} linear_job;

static void load(op_dtype dtype, const op_tensor *from, int64_t at, int64_t count, float *to) {
    if (dtype == OP_FLOAT) memcpy(to, (const float *)from->data + at, (size_t)count * sizeof *to);
    else rt_half_load(dtype, to, (const uint16_t *)from->data + at, count);
}

static void store(op_dtype dtype, op_tensor *to, int64_t at, int64_t count, const float *from) {
    if (dtype == OP_FLOAT) memcpy((float *)to->data + at, from, (size_t)count * sizeof *from);
    else rt_half_store(dtype, (uint16_t *)to->data + at, from, count);
}

/* y += x' M, row by row. */
RT_CLONES static void add_product(const float *x, const float *matrix, int64_t depth, int64_t width,
                                  float *restrict y) {
    for (int64_t i = 0; i < depth; i++) {
        const float value = x[i];
        for (int64_t j = 0; j < width; j++) y[j] += value * matrix[i * width + j];
    }
}

/* M += x y' */
RT_CLONES static void add_outer(float *restrict matrix, const float *x, const float *y, int64_t depth,
                                int64_t width) {
    for (int64_t i = 0; i < depth; i++) {
        const float value = x[i];
        for (int64_t j = 0; j < width; j++) matrix[i * width + j] += value * y[j];
    }
}

RT_CLONES static void scale_rows(float *restrict matrix, const float *factors, bool one, int64_t depth,
                                 int64_t width) {
    for (int64_t i = 0; i < depth; i++) {
        const float factor = factors[one ? 0 : i];
        for (int64_t j = 0; j < width; j++) matrix[i * width + j] *= factor;
    }
}

static size_t scratch_floats(const linear_state *s) {
    return (size_t)(s->depth * s->width + 3 * s->depth + 3 * s->width + 1);
}

static void step(const linear_job *job, int64_t b, int64_t h, int64_t t, float *matrix) {
    const linear_state *s = job->state;
    float *key = matrix + s->depth * s->width, *query = key + s->depth, *decay = query + s->depth;
    float *value = decay + s->depth + 1, *read = value + s->width, *result = read + s->width;
    const int64_t row = b * s->steps + t;
    load(s->dtype, &job->inputs[KEY], (row * s->heads + h) * s->depth, s->depth, key);
    load(s->dtype, &job->inputs[VALUE], (row * s->heads + h) * s->width, s->width, value);
    if (s->gated) {
        load(s->dtype, &job->inputs[DECAY], (row * s->heads + h) * s->decay_size, s->decay_size, decay);
        for (int64_t i = 0; i < s->decay_size; i++) decay[i] = expf(decay[i]);
        scale_rows(matrix, decay, s->decay_size == 1, s->depth, s->width);
    }
    if (s->delta) {
        float beta;
        load(s->dtype, &job->inputs[BETA], s->beta_heads == 1 ? row : row * s->heads + h, 1, &beta);
        memset(read, 0, (size_t)s->width * sizeof *read);
        add_product(key, matrix, s->depth, s->width, read);
        for (int64_t j = 0; j < s->width; j++) value[j] = beta * (value[j] - read[j]);
    }
    add_outer(matrix, key, value, s->depth, s->width);
    for (int64_t g = 0; g < s->shared; g++) {
        const int64_t at = row * s->heads * s->shared + h * s->shared + g;
        load(s->dtype, &job->inputs[QUERY], at * s->depth, s->depth, query);
        memset(result, 0, (size_t)s->width * sizeof *result);
        add_product(query, matrix, s->depth, s->width, result);
        for (int64_t j = 0; j < s->width; j++) result[j] *= s->scale;
        store(s->dtype, &job->outputs[0], at * s->width, s->width, result);
    }
}

static void member(void *context, int index, int members) {
    const linear_job *job = context;
    const linear_state *s = job->state;
    float *matrix = job->scratch + (size_t)index * scratch_floats(s);
    const int64_t size = s->depth * s->width;
    for (int64_t task = index; task < s->batches * s->heads; task += members) {
        if (job->inputs[PAST].data) load(s->kept, &job->inputs[PAST], task * size, size, matrix);
        else memset(matrix, 0, (size_t)size * sizeof *matrix);
        for (int64_t t = 0; t < s->steps; t++) step(job, task / s->heads, task % s->heads, t, matrix);
        if (job->wanted) store(s->kept, &job->outputs[1], task * size, size, matrix);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const linear_state *s = prepared->state;
    op_tensor all[6] = {{.data = NULL}};
    for (uint32_t i = 0; i < prepared->input_count && i < 6; i++) {
        if (inputs[i].type.dtype != OP_NONE) all[i] = inputs[i];
    }
    linear_job job = {s, all, outputs, scratch,
                      prepared->output_count > 1 && outputs[1].type.dtype != OP_NONE};
    rt_team_run(s->batches * s->heads > 1 ? prepared->threads : 1, member, &job);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    linear_state *s = BASE_NEW(arena, linear_state);
    if (!s) return base_fail_memory(report);
    const op_attributes *attributes = &call->attributes;
    const op_shape *query = &call->inputs[QUERY].type.shape, *value = &call->inputs[VALUE].type.shape;
    const int64_t heads = op_attribute_integer(attributes, "q_num_heads", 1);
    s->dtype = call->inputs[QUERY].type.dtype;
    s->kept = op_input_present(call, PAST) ? call->inputs[PAST].type.dtype : s->dtype;
    s->batches = query->dims[0];
    s->steps = query->dims[1];
    s->heads = op_attribute_integer(attributes, "kv_num_heads", 1);
    s->shared = heads / s->heads;
    s->depth = query->dims[2] / heads;
    s->width = value->dims[2] / s->heads;
    s->gated = op_attribute_is(attributes, "update_rule", "gated", "gated_delta") ||
               op_attribute_is(attributes, "update_rule", "gated_delta", "gated_delta");
    s->delta = op_attribute_is(attributes, "update_rule", "delta", "gated_delta") ||
               op_attribute_is(attributes, "update_rule", "gated_delta", "gated_delta");
    if (s->gated) s->decay_size = call->inputs[DECAY].type.shape.dims[2] / s->heads;
    if (s->delta) s->beta_heads = call->inputs[BETA].type.shape.dims[2];
    s->scale = op_attribute_real(attributes, "scale", 0);
    if (!(s->scale < 0 || s->scale > 0)) s->scale = s->depth ? 1 / sqrtf((float)s->depth) : 1;
    prepared->state = s;
    prepared->run = run;
    size_t floats;
    if (s->depth > INT32_MAX || s->width > INT32_MAX || s->depth * s->width > INT32_MAX ||
        !base_size_multiply(scratch_floats(s) * sizeof(float), (size_t)environment->threads, &floats))
        return base_fail(report, BASE_INVALID, "heads of this size are not supported");
    prepared->scratch_bytes = floats;
    return BASE_OK;
}

const rt_kernel rt_kernel_linear_attention = {
    .name = "portable.linear_attention", .accepts = accepts, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* lrn.c: LRN (local response normalisation across channels) in portable C:
 * y = x / (bias + alpha / size * s) ^ beta, s the sum of the squares of the `size` channels around.
 */
#include "runtime/kernels/portable/product.h"
#include <math.h>

enum { LRN_BLOCK = 256 };

typedef struct response {
    op_dtype dtype;
    int64_t channels, maps, size; /* maps: batch times channels; size: of one map */
    int64_t before, after;        /* channels of the neighbourhood on either side */
    double alpha, beta, bias;     /* alpha is divided by the size already */
} response;

typedef struct response_job {
    const response *shape;
    const void *x;
    void *y;
} response_job;

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    const op_dtype dtype = call->inputs[0].type.dtype;
    return rt_accepts_row_major(call) && (dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype));
}

RT_CLONES static void add_squares(float *restrict sums, const float *restrict x, int64_t count) {
    for (int64_t i = 0; i < count; i++) sums[i] += x[i] * x[i];
}

RT_CLONES static void divide_three_quarters(float *restrict y, const float *restrict x,
                                            const float *restrict sums, int64_t count, float alpha,
                                            float bias) {
    for (int64_t i = 0; i < count; i++) {
        const float root = sqrtf(bias + alpha * sums[i]);
        y[i] = x[i] / (root * sqrtf(root));
    }
}

static void normalize_floats(const response_job *job, int64_t map, int64_t low, int64_t high) {
    const response *shape = job->shape;
    const float *x = (const float *)job->x, *own = x + map * shape->size;
    float *y = (float *)job->y + map * shape->size;
    const float alpha = (float)shape->alpha, bias = (float)shape->bias;
    for (int64_t from = 0; from < shape->size; from += LRN_BLOCK) {
        const int64_t count = shape->size - from < LRN_BLOCK ? shape->size - from : LRN_BLOCK;
        float sums[LRN_BLOCK] = {0};
        for (int64_t other = low; other < high; other++)
            add_squares(sums, x + other * shape->size + from, count);
        if (shape->beta == 0.75 && bias > 0) {
            divide_three_quarters(y + from, own + from, sums, count, alpha, bias);
        } else {
            for (int64_t i = 0; i < count; i++) {
                y[from + i] =
                    (float)((double)own[from + i] / pow((double)(bias + alpha * sums[i]), shape->beta));
            }
        }
    }
}

static void normalize_member(void *context, int member, int members) {
    const response_job *job = context;
    const response *shape = job->shape;
    for (int64_t map = shape->maps * member / members; map < shape->maps * (member + 1) / members; map++) {
        const int64_t channel = map % shape->channels, first = map - channel;
        const int64_t low = first + (channel < shape->before ? 0 : channel - shape->before);
        const int64_t reach = shape->after < shape->channels ? channel + shape->after + 1 : shape->channels;
        const int64_t high = first + (reach > shape->channels ? shape->channels : reach);
        if (shape->dtype == OP_FLOAT) {
            normalize_floats(job, map, low, high);
            continue;
        }
        for (int64_t i = 0; i < shape->size; i++) {
            double sum = 0;
            for (int64_t other = low; other < high; other++) {
                const double value = rt_element_load(shape->dtype, job->x, other * shape->size + i);
                sum += value * value;
            }
            const int64_t at = map * shape->size + i;
            rt_element_store(shape->dtype, job->y, at,
                             rt_element_load(shape->dtype, job->x, at) /
                                 pow(shape->bias + shape->alpha * sum, shape->beta));
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const response *shape = prepared->state;
    response_job job = {.shape = shape, .x = inputs[0].data, .y = outputs[0].data};
    const bool large = (double)shape->maps * (double)shape->size * 8 >= RT_PARALLEL_WORK;
    rt_team_run(large ? prepared->threads : 1, normalize_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    const op_shape *x = &call->inputs[0].type.shape;
    const int64_t size = op_attribute_integer(&call->attributes, "size", 1);
    response *shape = BASE_NEW(arena, response);
    if (!shape) return base_fail_memory(report);
    *shape =
        (response){.dtype = call->inputs[0].type.dtype,
                   .channels = x->dims[1],
                   .maps = x->dims[0] * x->dims[1],
                   .size = 1,
                   .before = (size - 1) / 2,
                   .after = size - 1 - (size - 1) / 2,
                   .alpha = (double)op_attribute_real(&call->attributes, "alpha", 0.0001f) / (double)size,
                   .beta = (double)op_attribute_real(&call->attributes, "beta", 0.75f),
                   .bias = (double)op_attribute_real(&call->attributes, "bias", 1)};
    for (int32_t i = 2; i < x->rank; i++) shape->size *= x->dims[i];
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_lrn = {.name = "portable.lrn", .accepts = accepts, .prepare = prepare};

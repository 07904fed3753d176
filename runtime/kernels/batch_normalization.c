/* batch_normalization.c: BatchNormalization (inference) in portable C:
 * y = (x - mean) / sqrt(variance + epsilon) * scale + B, per channel. Mostly it is fused into a Conv before.
 */
#include "runtime/kernels/product.h"
#include <math.h>

typedef struct normalization {
    op_dtype dtypes[5];
    int64_t channels, maps, size;
    double epsilon;
} normalization;

typedef struct normalization_job {
    const normalization *shape;
    const op_tensor *inputs;
    void *y;
} normalization_job;

static bool is_float(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (!is_float(call->inputs[i].type.dtype)) return false;
    }
    return rt_accepts_plain(call);
}

RT_CLONES static void scale_floats(const float *x, float *y, int64_t count, float scale, float shift) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = x[i] * scale + shift;
}

static void normalize_member(void *context, int member, int members) {
    const normalization_job *job = context;
    const normalization *shape = job->shape;
    for (int64_t map = member; map < shape->maps; map += members) {
        double of[5] = {0};
        for (uint32_t i = 1; i < 5; i++) {
            of[i] = rt_element_load(shape->dtypes[i], job->inputs[i].data, map % shape->channels);
        }
        const double scale = of[1] / sqrt(of[4] + shape->epsilon), shift = of[2] - of[3] * scale;
        if (shape->dtypes[0] == OP_FLOAT) {
            scale_floats((const float *)job->inputs[0].data + map * shape->size,
                         (float *)job->y + map * shape->size, shape->size, (float)scale, (float)shift);
            continue;
        }
        for (int64_t i = map * shape->size; i < (map + 1) * shape->size; i++) {
            rt_element_store(shape->dtypes[0], job->y, i,
                             rt_element_load(shape->dtypes[0], job->inputs[0].data, i) * scale + shift);
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const normalization *shape = prepared->state;
    normalization_job job = {.shape = shape, .inputs = inputs, .y = outputs[0].data};
    const bool large = (double)shape->maps * (double)shape->size >= RT_PARALLEL_WORK;
    rt_team_run(large ? prepared->threads : 1, normalize_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    const op_shape *x = &call->inputs[0].type.shape;
    normalization *shape = BASE_NEW(arena, normalization);
    if (!shape) return base_fail_memory(report);
    *shape = (normalization){.channels = x->rank > 1 ? x->dims[1] : 1, .maps = x->dims[0], .size = 1};
    if (x->rank > 1) shape->maps *= x->dims[1];
    for (int32_t i = 2; i < x->rank; i++) shape->size *= x->dims[i];
    for (uint32_t i = 0; i < 5; i++) shape->dtypes[i] = call->inputs[i].type.dtype;
    shape->epsilon = (double)op_attribute_real(&call->attributes, "epsilon", 1e-5f);
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_batch_normalization = {
    .name = "portable.batch_normalization", .accepts = accepts, .prepare = prepare};

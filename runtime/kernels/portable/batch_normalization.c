/* SPDX-License-Identifier: Apache-2.0 */
/* batch_normalization.c: BatchNormalization in portable C:
 * y = (x - mean) / sqrt(variance + epsilon) * scale + B, per channel. In inference it is mostly fused into a Conv
 * before. In training, mean and variance are those of the batch, summed in double, and outputs 1 and 2 are inputs 3
 * and 4 moved towards them; outputs 3 and 4 are the batch's own.
 */
#include "runtime/kernels/portable/product.h"
#include <math.h>

enum { LANES = 8, BLOCK = 64 };

typedef struct normalization {
    op_dtype dtypes[5];
    int64_t batch, channels, size;
    double epsilon, momentum;
    bool training, wanted[4]; /* wanted: outputs 1 to 4 */
} normalization;

typedef struct normalization_job {
    const normalization *shape;
    const op_tensor *inputs;
    void *y;
    void *statistics[4]; /* outputs 1 to 4; NULL where they are not wanted */
} normalization_job;

static bool is_float(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (!is_float(call->inputs[i].type.dtype)) return false;
    }
    return rt_accepts_row_major(call);
}

RT_CLONES static void scale_floats(const float *x, float *y, int64_t count, float scale, float shift) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = x[i] * scale + shift;
}

static void normalize_map(const normalization_job *job, int64_t map, double scale, double shift) {
    const normalization *shape = job->shape;
    if (shape->dtypes[0] == OP_FLOAT) {
        scale_floats((const float *)job->inputs[0].data + map * shape->size,
                     (float *)job->y + map * shape->size, shape->size, (float)scale, (float)shift);
        return;
    }
    const int64_t first = map * shape->size, end = first + shape->size;
    for (int64_t i = first; i < end && rt_is_half(shape->dtypes[0]); i += RT_HALF_BLOCK) {
        _Alignas(RT_ALIGNMENT) float block[RT_HALF_BLOCK];
        const int64_t count = end - i < RT_HALF_BLOCK ? end - i : RT_HALF_BLOCK;
        rt_half_load(shape->dtypes[0], block, (const uint16_t *)job->inputs[0].data + i, count);
        scale_floats(block, block, count, (float)scale, (float)shift);
        rt_half_store(shape->dtypes[0], (uint16_t *)job->y + i, block, count);
    }
    for (int64_t i = first; i < end && shape->dtypes[0] == OP_DOUBLE; i++) {
        rt_element_store(shape->dtypes[0], job->y, i,
                         rt_element_load(shape->dtypes[0], job->inputs[0].data, i) * scale + shift);
    }
}

/* The sum of x - offset, or of its squares, in interleaved sums that are added from the halves down. */
RT_CLONES static double sum_floats(const float *x, int64_t count, double offset, bool squares) {
    double sums[LANES] = {0};
    int64_t i = 0;
    if (squares) {
        for (; i + LANES <= count; i += LANES) {
            for (int lane = 0; lane < LANES; lane++) {
                const double value = (double)x[i + lane] - offset;
                sums[lane] += value * value;
            }
        }
    } else {
        for (; i + LANES <= count; i += LANES) {
            for (int lane = 0; lane < LANES; lane++) sums[lane] += (double)x[i + lane] - offset;
        }
    }
    for (; i < count; i++) {
        const double value = (double)x[i] - offset;
        sums[i % LANES] += squares ? value * value : value;
    }
    for (int half = LANES / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
    }
    return sums[0];
}

/* The mean over a channel of x - offset, or of its squares. */
static double channel_mean(const normalization_job *job, int64_t channel, double offset, bool squares) {
    const normalization *shape = job->shape;
    double sum = 0;
    for (int64_t image = 0; image < shape->batch; image++) {
        const int64_t first = (image * shape->channels + channel) * shape->size;
        if (shape->dtypes[0] == OP_FLOAT) {
            sum += sum_floats((const float *)job->inputs[0].data + first, shape->size, offset, squares);
            continue;
        }
        for (int64_t i = first; i < first + shape->size; i++) {
            const double value = rt_element_load(shape->dtypes[0], job->inputs[0].data, i) - offset;
            sum += squares ? value * value : value;
        }
    }
    return sum / ((double)shape->batch * (double)shape->size);
}

/* Whole channels, so that all of X is read for the statistics before it is written over. */
static void train_member(void *context, int member, int members) {
    const normalization_job *job = context;
    const normalization *shape = job->shape;
    for (int64_t channel = shape->channels * member / members;
         channel < shape->channels * (member + 1) / members; channel++) {
        double of[5] = {0};
        for (uint32_t i = 1; i < 5; i++)
            of[i] = rt_element_load(shape->dtypes[i], job->inputs[i].data, channel);
        const double mean = channel_mean(job, channel, 0, false),
                     variance = channel_mean(job, channel, mean, true);
        const double values[4] = {of[3] * shape->momentum + mean * (1 - shape->momentum),
                                  of[4] * shape->momentum + variance * (1 - shape->momentum), mean, variance};
        for (int i = 0; i < 4; i++) {
            if (job->statistics[i])
                rt_element_store(shape->dtypes[3], job->statistics[i], channel, values[i]);
        }
        const double scale = of[1] / sqrt(variance + shape->epsilon), shift = of[2] - mean * scale;
        for (int64_t image = 0; image < shape->batch; image++) {
            normalize_map(job, image * shape->channels + channel, scale, shift);
        }
    }
}

RT_CLONES static void scale_row(const float *x, float *y, int64_t count, const double *scale,
                                const double *shift) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = x[i] * (float)scale[i] + (float)shift[i];
}

/* Some channels at a time, whose factors are made once for all images; where a channel is one number, they are a row. */
static void infer_member(void *context, int member, int members) {
    const normalization_job *job = context;
    const normalization *shape = job->shape;
    const bool rows = shape->size == 1 && shape->dtypes[0] == OP_FLOAT;
    const int64_t end = shape->batch ? shape->channels * (member + 1) / members : 0;
    for (int64_t first = shape->channels * member / members; first < end; first += BLOCK) {
        const int64_t count = end - first < BLOCK ? end - first : BLOCK;
        double scale[BLOCK], shift[BLOCK];
        for (int64_t c = 0; c < count; c++) {
            double of[5] = {0};
            for (uint32_t i = 1; i < 5; i++)
                of[i] = rt_element_load(shape->dtypes[i], job->inputs[i].data, first + c);
            scale[c] = of[1] / sqrt(of[4] + shape->epsilon);
            shift[c] = of[2] - of[3] * scale[c];
        }
        for (int64_t image = 0; image < shape->batch; image++) {
            const int64_t map = image * shape->channels + first;
            if (rows)
                scale_row((const float *)job->inputs[0].data + map, (float *)job->y + map, count, scale,
                          shift);
            for (int64_t c = 0; !rows && c < count; c++) normalize_map(job, map + c, scale[c], shift[c]);
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const normalization *shape = prepared->state;
    normalization_job job = {.shape = shape, .inputs = inputs, .y = outputs[0].data};
    for (uint32_t i = 1; i < prepared->output_count; i++) {
        if (shape->wanted[i - 1]) job.statistics[i - 1] = outputs[i].data;
    }
    const bool large =
        (double)shape->batch * (double)shape->channels * (double)shape->size >= RT_PARALLEL_WORK;
    rt_team_run(large ? prepared->threads : 1, shape->training ? train_member : infer_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    const op_shape *x = &call->inputs[0].type.shape;
    normalization *shape = BASE_NEW(arena, normalization);
    if (!shape) return base_fail_memory(report);
    *shape = (normalization){.channels = x->rank > 1 ? x->dims[1] : 1, .batch = x->dims[0], .size = 1};
    int64_t elements;
    if (op_shape_elements(x, &elements) && elements == 0)
        shape->batch = 0; /* the other extents may overflow */
    for (int32_t i = 2; i < x->rank && shape->batch; i++) shape->size *= x->dims[i];
    for (uint32_t i = 0; i < 5; i++) shape->dtypes[i] = call->inputs[i].type.dtype;
    shape->epsilon = (double)op_attribute_real(&call->attributes, "epsilon", 1e-5f);
    shape->momentum = (double)op_attribute_real(&call->attributes, "momentum", 0.9f);
    shape->training = op_attribute_integer(&call->attributes, "training_mode", 0) != 0;
    for (uint32_t i = 1; i < call->output_count; i++) {
        shape->wanted[i - 1] = call->outputs[i].type.dtype != OP_NONE;
    }
    prepared->state = shape;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_batch_normalization = {
    .name = "portable.batch_normalization", .accepts = accepts, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* random.c: RandomNormal, RandomUniform, their Like forms, Bernoulli and Multinomial; see random.h for the numbers.
 */
#include "runtime/kernels/portable/random.h"
#include "runtime/kernels/portable/product.h"
#include <math.h>
#include <string.h>

rt_random_source rt_random_read(const op_call *call, const rt_environment *environment) {
    const op_attribute *seed = op_attribute_find(&call->attributes, "seed");
    uint64_t number = (uint64_t)op_attribute_integer(&call->attributes, "ouro.stream", 0);
    if (seed && seed->kind == OP_ATTRIBUTE_INT) {
        number = (uint64_t)seed->as.integer;
    } else if (seed && seed->kind == OP_ATTRIBUTE_FLOAT) {
        uint32_t bits;
        memcpy(&bits, &seed->as.real, sizeof bits);
        number = bits;
    }
    return (rt_random_source){.stream = base_mix(number + BASE_RANDOM_STEP),
                              .execution = environment->execution};
}

uint64_t rt_random_stream(const rt_random_source *source) {
    const uint64_t execution = source->execution ? *source->execution : 1;
    return source->stream + base_mix(execution);
}

typedef struct random_state {
    rt_random_source source;
    op_code code;
    op_dtype from, to;
    int64_t count;            /* numbers to make; Multinomial: rows */
    double first, second;     /* low and high; mean and scale */
    int64_t classes, samples; /* Multinomial */
} random_state;

typedef struct random_context {
    const random_state *state;
    uint64_t stream;
    const void *x;
    void *y;
    double *sums; /* Multinomial: `classes` for each member */
} random_context;

/* Binary digits of a number in [0, 1) that its type can tell apart. */
static int digits_of(op_dtype dtype) {
    return dtype == OP_DOUBLE ? 53 : dtype == OP_FLOAT ? 24 : dtype == OP_FLOAT16 ? 11 : 8;
}

static void make_uniform(void *user, int64_t begin, int64_t end) {
    const random_context *context = user;
    const random_state *state = context->state;
    const int digits = digits_of(state->to);
    const double low = state->first, wide = state->second - low;
    for (int64_t i = begin; i < end; i++) {
        rt_element_store(state->to, context->y, i,
                         low + wide * rt_random_uniform(context->stream, (uint64_t)i, digits));
    }
}

/* Pairs of numbers: two uniform ones become two normal ones (Box and Muller, 1958). The first is never 0. */
static void make_normal(void *user, int64_t begin, int64_t end) {
    const random_context *context = user;
    const random_state *state = context->state;
    for (int64_t pair = begin; pair < end; pair++) {
        const double one = 1 - rt_random_uniform(context->stream, (uint64_t)(2 * pair), 53);
        const double angle =
            2 * acos(-1.0) * rt_random_uniform(context->stream, (uint64_t)(2 * pair + 1), 53);
        const double radius = state->second * sqrt(-2 * log(one));
        rt_element_store(state->to, context->y, 2 * pair, state->first + radius * cos(angle));
        if (2 * pair + 1 < state->count) {
            rt_element_store(state->to, context->y, 2 * pair + 1, state->first + radius * sin(angle));
        }
    }
}

/* The bits of 1 in a type of that size. */
static uint64_t one_of(op_dtype dtype) {
    switch (dtype) {
    case OP_FLOAT:
        return 0x3f800000u;
    case OP_DOUBLE:
        return 0x3ff0000000000000u;
    case OP_FLOAT16:
        return 0x3c00u;
    case OP_BFLOAT16:
        return 0x3f80u;
    default:
        return 1;
    }
}

static void make_bernoulli(void *user, int64_t begin, int64_t end) {
    const random_context *context = user;
    const random_state *state = context->state;
    const uint64_t one = one_of(state->to);
    const size_t size = op_dtype_bytes(state->to);
    for (int64_t i = begin; i < end; i++) {
        const double probability = rt_element_load(state->from, context->x, i);
        const uint64_t bits = rt_random_uniform(context->stream, (uint64_t)i, 53) < probability ? one : 0;
        if (size == 1) ((uint8_t *)context->y)[i] = (uint8_t)bits;
        else if (size == 2) ((uint16_t *)context->y)[i] = (uint16_t)bits;
        else if (size == 4) ((uint32_t *)context->y)[i] = (uint32_t)bits;
        else ((uint64_t *)context->y)[i] = bits;
    }
}

/* Logarithms of weights to running sums of weights, relative to the greatest. What is not a number has no weight. */
static void add_weights(const random_context *context, int64_t row, double *sums) {
    const random_state *state = context->state;
    double greatest = (double)-INFINITY, sum = 0;
    for (int64_t i = 0; i < state->classes; i++) {
        const double value = rt_element_load(state->from, context->x, row * state->classes + i);
        greatest = value > greatest ? value : greatest;
    }
    for (int64_t i = 0; i < state->classes; i++) {
        const double value = rt_element_load(state->from, context->x, row * state->classes + i);
        sum += value == greatest ? 1 : value < greatest ? exp(value - greatest) : 0;
        sums[i] = sum;
    }
}

static void make_multinomial(void *user, int member, int members) {
    const random_context *context = user;
    const random_state *state = context->state;
    double *sums = context->sums + member * state->classes;
    for (int64_t row = member; row < state->count; row += members) {
        add_weights(context, row, sums);
        for (int64_t i = row * state->samples; i < (row + 1) * state->samples; i++) {
            const double drawn =
                sums[state->classes - 1] * rt_random_uniform(context->stream, (uint64_t)i, 53);
            int64_t low = 0,
                    high = state->classes - 1; /* the first class whose sum is beyond what was drawn */
            while (low < high) {
                const int64_t middle = low + (high - low) / 2;
                if (sums[middle] > drawn) high = middle;
                else low = middle + 1;
            }
            if (state->to == OP_INT64) ((int64_t *)context->y)[i] = low;
            else ((int32_t *)context->y)[i] = (int32_t)low;
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const random_state *state = prepared->state;
    random_context context = {.state = state,
                              .stream = rt_random_stream(&state->source),
                              .x = prepared->input_count ? inputs[0].data : NULL,
                              .y = outputs[0].data,
                              .sums = scratch};
    switch (state->code) {
    case OP_BERNOULLI:
        rt_parallel(prepared->threads, state->count, 8, make_bernoulli, &context);
        break;
    case OP_MULTINOMIAL: {
        const double work = (double)state->count * (double)(state->classes + state->samples) * 16;
        if (state->count)
            rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, make_multinomial, &context);
        break;
    }
    case OP_RANDOM_NORMAL:
    case OP_RANDOM_NORMAL_LIKE:
        rt_parallel(prepared->threads, (state->count + 1) / 2, 64, make_normal, &context);
        break;
    default:
        rt_parallel(prepared->threads, state->count, 8, make_uniform, &context);
        break;
    }
    return BASE_OK;
}

/* The values of what is only looked at for its shape do not matter, and neither does how they lie. */
static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    random_state *state = BASE_NEW(arena, random_state);
    if (!state) return base_fail_memory(report);
    const bool normal = call->code == OP_RANDOM_NORMAL || call->code == OP_RANDOM_NORMAL_LIKE;
    *state =
        (random_state){.source = rt_random_read(call, environment),
                       .code = call->code,
                       .from = call->input_count ? call->inputs[0].type.dtype : OP_NONE,
                       .to = call->outputs[0].type.dtype,
                       .first = (double)op_attribute_real(&call->attributes, normal ? "mean" : "low", 0),
                       .second = (double)op_attribute_real(&call->attributes, normal ? "scale" : "high", 1)};
    if (!op_shape_elements(&call->outputs[0].type.shape, &state->count)) {
        return base_fail(report, BASE_INVALID, "the result has too many elements");
    }
    if (call->code == OP_MULTINOMIAL) {
        state->count = call->inputs[0].type.shape.dims[0];
        state->classes = call->inputs[0].type.shape.dims[1];
        state->samples = call->outputs[0].type.shape.dims[1];
        if (state->count) {
            prepared->scratch_bytes = (size_t)environment->threads * (size_t)state->classes * sizeof(double);
        }
    }
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_random = {.name = "portable.random", .accepts = accepts, .prepare = prepare};

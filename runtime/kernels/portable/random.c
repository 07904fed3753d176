/* SPDX-License-Identifier: Apache-2.0 */
/* random.c: RandomNormal, RandomUniform, their Like forms, Bernoulli and Multinomial; see random.h for the numbers.
 */
#include "runtime/kernels/portable/random.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/vector_doubles.h"
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

enum { DRAWN = 256 }; /* numbers that are drawn together */

/* rt_random_uniform of `count` numbers from `first` on. */
RT_CLONES_FUSED static void draw(uint64_t stream, uint64_t first, int64_t count, int digits, double *to) {
    const double unit = 1 / (double)((uint64_t)1 << digits);
    RT_VECTOR for (int64_t i = 0; i < count; i++) to[i] =
        (double)(rt_random_number(stream, first + (uint64_t)i) >> (64 - digits)) * unit;
}

static void store_reals(op_dtype dtype, void *to, int64_t first, int64_t count, const double *from) {
    if (dtype == OP_FLOAT) {
        float *y = (float *)to + first;
        for (int64_t i = 0; i < count; i++) y[i] = (float)from[i];
    } else {
        for (int64_t i = 0; i < count; i++) rt_element_store(dtype, to, first + i, from[i]);
    }
}

static void make_uniform(void *user, int64_t begin, int64_t end) {
    const random_context *context = user;
    const random_state *state = context->state;
    const double low = state->first, wide = state->second - low;
    double numbers[DRAWN];
    for (int64_t first = begin; first < end; first += DRAWN) {
        const int64_t count = end - first < DRAWN ? end - first : DRAWN;
        draw(context->stream, (uint64_t)first, count, digits_of(state->to), numbers);
        for (int64_t i = 0; i < count; i++) numbers[i] = low + wide * numbers[i];
        store_reals(state->to, context->y, first, count, numbers);
    }
}

/* Pairs of uniform numbers become normal ones (Box and Muller, 1958). The first is never 0. */
RT_CLONES static void turn_normal(double *numbers, int64_t pairs, double mean, double scale) {
    double radius[DRAWN / 2], angle[DRAWN / 2], cosine[DRAWN / 2], sine[DRAWN / 2];
    for (int64_t i = 0; i < pairs; i++) {
        radius[i] = 1 - numbers[2 * i];
        angle[i] = 6.283185307179586 * numbers[2 * i + 1];
    }
    RT_MAP_LONG_DOUBLE(radius, radius, pairs, rt_log_double(a));
    RT_MAP_LONG_DOUBLE(cosine, angle, pairs, rt_cos_double(a));
    RT_MAP_LONG_DOUBLE(sine, angle, pairs, rt_sin_double(a));
    for (int64_t i = 0; i < pairs; i++) {
        const double length = scale * sqrt(-2 * radius[i]);
        numbers[2 * i] = mean + length * cosine[i];
        numbers[2 * i + 1] = mean + length * sine[i];
    }
}

/* Pairs. */
static void make_normal(void *user, int64_t begin, int64_t end) {
    const random_context *context = user;
    const random_state *state = context->state;
    double numbers[DRAWN];
    for (int64_t pair = begin; pair < end; pair += DRAWN / 2) {
        const int64_t pairs = end - pair < DRAWN / 2 ? end - pair : DRAWN / 2, rest = state->count - 2 * pair;
        draw(context->stream, (uint64_t)(2 * pair), 2 * pairs, 53, numbers);
        turn_normal(numbers, pairs, state->first, state->second);
        store_reals(state->to, context->y, 2 * pair, rest < 2 * pairs ? rest : 2 * pairs, numbers);
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

RT_CLONES static void compare_floats(const double *drawn, const float *x, int64_t count, float *y) {
    RT_VECTOR for (int64_t i = 0; i < count; i++) y[i] = drawn[i] < (double)x[i] ? 1.0f : 0.0f;
}

static void compare_any(const random_context *context, const double *drawn, int64_t first, int64_t count) {
    const random_state *state = context->state;
    const uint64_t one = one_of(state->to);
    const size_t size = op_dtype_bytes(state->to);
    for (int64_t i = first; i < first + count; i++) {
        const double probability = rt_element_load(state->from, context->x, i);
        const uint64_t bits = drawn[i - first] < probability ? one : 0;
        if (size == 1) ((uint8_t *)context->y)[i] = (uint8_t)bits;
        else if (size == 2) ((uint16_t *)context->y)[i] = (uint16_t)bits;
        else if (size == 4) ((uint32_t *)context->y)[i] = (uint32_t)bits;
        else ((uint64_t *)context->y)[i] = bits;
    }
}

static void make_bernoulli(void *user, int64_t begin, int64_t end) {
    const random_context *context = user;
    const random_state *state = context->state;
    const bool floats = state->from == OP_FLOAT && state->to == OP_FLOAT;
    double drawn[DRAWN];
    for (int64_t first = begin; first < end; first += DRAWN) {
        const int64_t count = end - first < DRAWN ? end - first : DRAWN;
        draw(context->stream, (uint64_t)first, count, 53, drawn);
        if (floats)
            compare_floats(drawn, (const float *)context->x + first, count, (float *)context->y + first);
        else compare_any(context, drawn, first, count);
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

const rt_kernel rt_kernel_random = {
    .name = "portable.random", .accepts = rt_accepts_any_row_major, .prepare = prepare};

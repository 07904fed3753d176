/* SPDX-License-Identifier: Apache-2.0 */
/* training.c: Momentum, Adagrad and Adam in portable C: one step of training for any number of tensors.
 *
 * For each tensor X with gradient G and states V and H, with G' = norm_coefficient * X + G:
 *
 *     Momentum  V = alpha * V + beta' * G'           X -= R * V, or R * (G' + alpha * V) after Nesterov;
 *                                                     beta' is 1 in the first step
 *     Adagrad   H += G'^2                             X -= R / (1 + T * decay_factor) * G' / (sqrt(H) + epsilon)
 *     Adam      V = alpha * V + (1 - alpha) * G'      X = (1 - norm_coefficient_post) * (X - R' * V /
 *               H = beta * H + (1 - beta) * G'^2                                        (sqrt(H) + epsilon));
 *                                                     R' is R without the bias of the first steps
 *
 * Everything about an element is read before anything is written, so that X may be written over.
 */
#include "runtime/kernels/portable/kernels.h"
#include <math.h>

typedef struct training_state {
    op_code code;
    uint32_t count; /* tensors to optimise */
    bool nesterov;
    double alpha, beta, epsilon, norm, norm_post, decay;
} training_state;

/* The coefficients of one run. */
typedef struct training_step {
    double rate, alpha, beta, epsilon, norm, norm_post;
} training_step;

typedef struct training_context {
    const training_state *state;
    training_step step;
    op_dtype dtype;
    const void *x, *g, *states[2]; /* of one tensor */
    void *new_x, *new_states[2];   /* NULL where they are not wanted */
} training_context;

#define TRAINING(type, root)                                                                                 \
    RT_CLONES static void momentum_##type(const training_step *step, bool nesterov, int64_t count,           \
                                          const type *x, const type *g, const type *v, type *new_x,          \
                                          type *new_v) {                                                     \
        const type rate = (type)step->rate, alpha = (type)step->alpha, beta = (type)step->beta;              \
        const type norm = (type)step->norm, ahead = nesterov;                                                \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const type regular = norm * x[i] + g[i], moved = alpha * v[i] + beta * regular;                  \
            const type direction = ahead != 0 ? regular + alpha * moved : moved;                             \
            if (new_x) new_x[i] = x[i] - rate * direction;                                                   \
            if (new_v) new_v[i] = moved;                                                                     \
        }                                                                                                    \
    }                                                                                                        \
    RT_CLONES static void adagrad_##type(const training_step *step, int64_t count, const type *x,            \
                                         const type *g, const type *h, type *new_x, type *new_h) {           \
        const type rate = (type)step->rate, epsilon = (type)step->epsilon, norm = (type)step->norm;          \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const type regular = norm * x[i] + g[i], squares = h[i] + regular * regular;                     \
            if (new_x) new_x[i] = x[i] - rate * regular / (root(squares) + epsilon);                         \
            if (new_h) new_h[i] = squares;                                                                   \
        }                                                                                                    \
    }                                                                                                        \
    RT_CLONES static void adam_##type(const training_step *step, int64_t count, const type *x,               \
                                      const type *g, const type *v, const type *h, type *new_x, type *new_v, \
                                      type *new_h) {                                                         \
        const type rate = (type)step->rate, epsilon = (type)step->epsilon, norm = (type)step->norm;          \
        const type alpha = (type)step->alpha, beta = (type)step->beta;                                       \
        const type other_alpha = (type)(1 - step->alpha), other_beta = (type)(1 - step->beta);               \
        const type kept = (type)(1 - step->norm_post);                                                       \
        RT_VECTOR for (int64_t i = 0; i < count; i++) {                                                      \
            const type regular = norm * x[i] + g[i], moved = alpha * v[i] + other_alpha * regular;           \
            const type squares = beta * h[i] + other_beta * (regular * regular);                             \
            if (new_x) new_x[i] = kept * (x[i] - rate * (moved / (root(squares) + epsilon)));                \
            if (new_v) new_v[i] = moved;                                                                     \
            if (new_h) new_h[i] = squares;                                                                   \
        }                                                                                                    \
    }                                                                                                        \
    static void train_##type(const training_context *c, int64_t begin, int64_t end) {                        \
        const type *x = (const type *)c->x + begin, *g = (const type *)c->g + begin;                         \
        const type *one = (const type *)c->states[0] + begin;                                                \
        type *new_x = c->new_x ? (type *)c->new_x + begin : NULL;                                            \
        type *new_one = c->new_states[0] ? (type *)c->new_states[0] + begin : NULL;                          \
        if (c->state->code == OP_MOMENTUM) {                                                                 \
            momentum_##type(&c->step, c->state->nesterov, end - begin, x, g, one, new_x, new_one);           \
        } else if (c->state->code == OP_ADAGRAD) {                                                           \
            adagrad_##type(&c->step, end - begin, x, g, one, new_x, new_one);                                \
        } else {                                                                                             \
            type *new_two = c->new_states[1] ? (type *)c->new_states[1] + begin : NULL;                      \
            adam_##type(&c->step, end - begin, x, g, one, (const type *)c->states[1] + begin, new_x,         \
                        new_one, new_two);                                                                   \
        }                                                                                                    \
    }
TRAINING(float, sqrtf)
TRAINING(double, sqrt)

static void train_range(void *user, int64_t begin, int64_t end) {
    const training_context *context = user;
    if (context->dtype == OP_FLOAT) train_float(context, begin, end);
    else train_double(context, begin, end);
}

static training_step step_of(const training_state *state, double rate, int64_t updates) {
    training_step step = {.rate = rate,
                          .alpha = state->alpha,
                          .beta = state->beta,
                          .epsilon = state->epsilon,
                          .norm = state->norm,
                          .norm_post = state->norm_post};
    const double count = (double)updates;
    if (state->code == OP_MOMENTUM && updates <= 0) step.beta = 1;
    if (state->code == OP_ADAGRAD) step.rate = rate / (1 + count * state->decay);
    if (state->code == OP_ADAM && updates > 0) {
        step.rate = rate * sqrt(1 - pow(state->beta, count)) / (1 - pow(state->alpha, count));
    }
    return step;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const training_state *state = prepared->state;
    const uint32_t count = state->count, states = state->code == OP_ADAM ? 2 : 1;
    const double rate = inputs[0].type.dtype == OP_FLOAT ? (double)*(const float *)inputs[0].data
                                                         : *(const double *)inputs[0].data;
    training_context context = {.state = state,
                                .step = step_of(state, rate, *(const int64_t *)inputs[1].data)};
    for (uint32_t i = 0; i < count; i++) {
        const op_tensor *x = &inputs[2 + i];
        int64_t elements = 0;
        op_shape_elements(&x->type.shape, &elements);
        context.dtype = x->type.dtype;
        context.x = x->data;
        context.g = inputs[2 + count + i].data;
        context.new_x = i < prepared->output_count ? outputs[i].data : NULL;
        for (uint32_t k = 0; k < states; k++) {
            const uint32_t at = (k + 1) * count + i;
            context.states[k] = inputs[2 + count + at].data;
            context.new_states[k] = at < prepared->output_count ? outputs[at].data : NULL;
        }
        rt_parallel(prepared->threads, elements, 4, train_range, &context);
    }
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    training_state *state = BASE_NEW(arena, training_state);
    if (!state) return base_fail_memory(report);
    const op_attributes *a = &call->attributes;
    *state = (training_state){.code = call->code,
                              .count = (call->input_count - 2) / (call->code == OP_ADAM ? 4 : 3),
                              .nesterov = op_attribute_is(a, "mode", "nesterov", "standard"),
                              .alpha = (double)op_attribute_real(a, "alpha", 0.9f),
                              .beta = (double)op_attribute_real(a, "beta", 0.999f),
                              .epsilon = (double)op_attribute_real(a, "epsilon", 1e-6f),
                              .norm = (double)op_attribute_real(a, "norm_coefficient", 0),
                              .norm_post = (double)op_attribute_real(a, "norm_coefficient_post", 0),
                              .decay = (double)op_attribute_real(a, "decay_factor", 0)};
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_training = {
    .name = "portable.training", .accepts = rt_accepts_any_row_major, .prepare = prepare};

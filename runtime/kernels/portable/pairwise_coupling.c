/* SPDX-License-Identifier: Apache-2.0 */
/* pairwise_coupling.c: probabilities of classes from those of pairs of them, row by row.
 *
 * T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability estimates for multi-class classification by pairwise coupling" (2004), the second
 * method: with r[i][j] the probability of class i beside class j, the result p minimises p' Q p where its elements add up to one;
 * Q[i][i] is the sum of r[j][i]^2 over the others, Q[i][j] is -r[i][j] r[j][i]. One element of p after the other is made right. The
 * limits, 100 rounds and an error of 0.005 / classes, are those of their LIBSVM, which ONNX Runtime and scikit-learn follow, too.
 */
#include "runtime/kernels/portable/kernels.h"
#include <math.h>

enum { MOST_ROUNDS = 100 };
static const float LARGEST_ERROR = 0.005f; /* of all classes together */

typedef struct coupling_state {
    int64_t rows, pairs, classes;
} coupling_state;

typedef struct coupling_job {
    const coupling_state *state;
    const float *x;
    float *y, *scratch;
} coupling_job;

/* Numbers that one thread works on: Q and Q p. */
static size_t numbers(int64_t classes) {
    return (size_t)classes * (size_t)(classes + 1);
}

static void fill(int64_t classes, const float *pairs, float *q) {
    for (int64_t i = 0; i < classes; i++) q[i * classes + i] = 0;
    for (int64_t i = 0; i < classes; i++) {
        for (int64_t j = i + 1; j < classes; j++, pairs++) {
            const float ij = *pairs, ji = 1 - ij;
            q[i * classes + i] += ji * ji;
            q[j * classes + j] += ij * ij;
            q[i * classes + j] = q[j * classes + i] = -ij * ji;
        }
    }
}

static void couple(int64_t classes, const float *q, float *qp, float *p) {
    for (int64_t i = 0; i < classes; i++) p[i] = 1 / (float)classes;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        float total = 0, error = 0; /* p' Q p */
        for (int64_t i = 0; i < classes; i++) {
            qp[i] = 0;
            for (int64_t j = 0; j < classes; j++) qp[i] += q[i * classes + j] * p[j];
            total += p[i] * qp[i];
        }
        for (int64_t i = 0; i < classes; i++) {
            const float own = fabsf(qp[i] - total);
            if (own > error) error = own;
        }
        if (error < LARGEST_ERROR / (float)classes) return;
        for (int64_t i = 0; i < classes; i++) {
            const float *row = q + i * classes;
            const float step = (total - qp[i]) / row[i], norm = 1 + step;
            p[i] += step;
            total = (total + step * (step * row[i] + 2 * qp[i])) / norm / norm;
            for (int64_t j = 0; j < classes; j++) {
                qp[j] = (qp[j] + step * row[j]) / norm;
                p[j] /= norm;
            }
        }
    }
}

static void member(void *context, int index, int members) {
    const coupling_job *job = context;
    const coupling_state *s = job->state;
    float *q = job->scratch + (size_t)index * numbers(s->classes), *qp = q + s->classes * s->classes;
    for (int64_t row = index; row < s->rows; row += members) {
        fill(s->classes, job->x + row * s->pairs, q);
        couple(s->classes, q, qp, job->y + row * s->classes);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    coupling_job job = {prepared->state, inputs[0].data, outputs[0].data, scratch};
    rt_team_run(job.state->rows > 1 ? prepared->threads : 1, member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    coupling_state *s = BASE_NEW(arena, coupling_state);
    if (!s) return base_fail_memory(report);
    const op_shape *x = &call->inputs[0].type.shape;
    *s = (coupling_state){x->dims[0], x->dims[1], call->outputs[0].type.shape.dims[1]};
    prepared->state = s;
    prepared->run = run;
    /* The shape function limits the number of classes. */
    prepared->scratch_bytes = numbers(s->classes) * sizeof(float) * (size_t)environment->threads;
    return BASE_OK;
}

const rt_kernel rt_kernel_pairwise_coupling = {
    .name = "portable.pairwise_coupling", .accepts = rt_accepts_any_row_major, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* signal.c: Einsum and MelWeightMatrix, computed in double: what passes/graph/lower_einsum.c leaves of Einsum. */
#include "ir/operators/einsum.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Einsum -------------------------------------------------------------------------------------------- */

typedef struct einsum_state {
    int32_t operands, kept, summed;
    int64_t kept_dims[OP_EINSUM_LABELS], summed_dims[OP_EINSUM_LABELS], outputs, terms;
    int64_t kept_strides[OP_EINSUM_OPERANDS][OP_EINSUM_LABELS],
        summed_strides[OP_EINSUM_OPERANDS][OP_EINSUM_LABELS];
    op_dtype dtype;
} einsum_state;

typedef struct einsum_context {
    const einsum_state *state;
    const op_tensor *inputs;
    op_tensor *output;
} einsum_context;

static bool is_real(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype);
}

enum { EINSUM_TOGETHER = 64 /* outputs along the last dimension whose sums grow together */ };

/* factors[i] *= x[i * stride] */
static void multiply_floats(double *factors, const float *x, int64_t stride, int64_t count) {
    if (stride == 1) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) factors[i] *= (double)x[i];
    } else if (stride == 0) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) factors[i] *= (double)*x;
    } else {
        for (int64_t i = 0; i < count; i++) factors[i] *= (double)x[i * stride];
    }
}

/* The products of one term, for `count` outputs side by side, are added to their sums. `at`: the element of each operand. */
static void add_term(const einsum_context *context, const int64_t *at, int64_t count, double *sums,
                     uint64_t *totals) {
    const einsum_state *s = context->state;
    double factors[EINSUM_TOGETHER];
    uint64_t whole[EINSUM_TOGETHER];
    const bool real = is_real(s->dtype);
    for (int64_t i = 0; i < count; i++) factors[i] = 1, whole[i] = 1;
    for (int32_t o = 0; o < s->operands; o++) {
        const void *data = context->inputs[o].data;
        const int64_t stride = s->kept ? s->kept_strides[o][s->kept - 1] : 0;
        if (s->dtype == OP_FLOAT) multiply_floats(factors, (const float *)data + at[o], stride, count);
        else if (real)
            for (int64_t i = 0; i < count; i++)
                factors[i] *= rt_element_load(s->dtype, data, at[o] + i * stride);
        else
            for (int64_t i = 0; i < count; i++)
                whole[i] *= (uint64_t)rt_integer_load(s->dtype, data, at[o] + i * stride);
    }
    if (real)
        for (int64_t i = 0; i < count; i++) sums[i] += factors[i];
    else
        for (int64_t i = 0; i < count; i++) totals[i] += whole[i];
}

/* Outputs [task, task + count), which lie along the last dimension. */
static void sum_terms(const einsum_context *context, int64_t task, int64_t count) {
    const einsum_state *s = context->state;
    int64_t at[OP_EINSUM_OPERANDS] = {0}, index[OP_EINSUM_LABELS] = {0}, rest = task;
    double sums[EINSUM_TOGETHER] = {0};
    uint64_t totals[EINSUM_TOGETHER] = {0};
    for (int32_t d = s->kept - 1; d >= 0; d--) {
        for (int32_t o = 0; o < s->operands; o++) at[o] += rest % s->kept_dims[d] * s->kept_strides[o][d];
        rest /= s->kept_dims[d];
    }
    for (int64_t term = 0; term < s->terms; term++) {
        add_term(context, at, count, sums, totals);
        for (int32_t d = s->summed - 1; d >= 0; d--) {
            for (int32_t o = 0; o < s->operands; o++) at[o] += s->summed_strides[o][d];
            if (++index[d] < s->summed_dims[d]) break;
            index[d] = 0;
            for (int32_t o = 0; o < s->operands; o++) at[o] -= s->summed_dims[d] * s->summed_strides[o][d];
        }
    }
    for (int64_t i = 0; i < count; i++) {
        if (is_real(s->dtype)) rt_element_store(s->dtype, context->output->data, task + i, sums[i]);
        else rt_integer_store(s->dtype, context->output->data, task + i, totals[i]);
    }
}

static void einsum_outputs(void *user, int64_t begin, int64_t end) {
    const einsum_context *context = user;
    const einsum_state *s = context->state;
    const int64_t row = s->kept ? s->kept_dims[s->kept - 1] : 1;
    for (int64_t task = begin, count; task < end; task += count) {
        count = row - task % row; /* to the end of the last dimension */
        if (count > end - task) count = end - task;
        if (count > EINSUM_TOGETHER) count = EINSUM_TOGETHER;
        sum_terms(context, task, count);
    }
}

static base_status run_einsum(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const einsum_state *s = prepared->state;
    einsum_context context = {s, inputs, &outputs[0]};
    rt_parallel(prepared->threads, s->outputs, s->terms * s->operands * 4 + 8, einsum_outputs, &context);
    return BASE_OK;
}

static bool accepts_einsum(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

static base_status prepare_einsum(const op_call *call, const rt_environment *environment, base_arena *arena,
                                  rt_prepared *prepared, base_report *report) {
    (void)environment;
    op_einsum e;
    einsum_state *s = BASE_NEW(arena, einsum_state);
    if (!s) return base_fail_memory(report);
    if (!op_einsum_read(call, &e, report)) return BASE_INVALID;
    s->operands = e.operands;
    s->dtype = call->inputs[0].type.dtype;
    s->outputs = s->terms = 1;
    bool kept[OP_EINSUM_LABELS] = {false};
    int32_t labels[OP_EINSUM_LABELS], count = 0;
    for (int32_t d = 0; d < e.output_rank; d++) {
        kept[e.output[d]] = true;
        labels[count++] = e.output[d];
    }
    for (int32_t label = 0; label < OP_EINSUM_LABELS; label++)
        if (e.used[label] && !kept[label]) labels[count++] = label;
    for (int32_t l = 0; l < count; l++) {
        bool stays = l < e.output_rank;
        int32_t at = stays ? s->kept++ : s->summed++;
        (stays ? s->kept_dims : s->summed_dims)[at] = e.extent[labels[l]];
        *(stays ? &s->outputs : &s->terms) *= e.extent[labels[l]];
        for (int32_t o = 0; o < e.operands; o++) {
            int64_t stride = 1, sum = 0;
            for (int32_t d = e.rank[o] - 1; d >= 0; d--) {
                int64_t extent = call->inputs[o].type.shape.dims[d];
                if (e.labels[o][d] == labels[l] && extent != 1) sum += stride;
                stride *= extent;
            }
            (stays ? s->kept_strides[o] : s->summed_strides[o])[at] = sum;
        }
    }
    prepared->state = s;
    prepared->run = run_einsum;
    return BASE_OK;
}

/* ---- MelWeightMatrix ----------------------------------------------------------------------------------- */

static int64_t scalar_at(const op_tensor *tensor) {
    return tensor->type.dtype == OP_INT64 ? *(const int64_t *)tensor->data : *(const int32_t *)tensor->data;
}

static double mel_of(double hertz) {
    return 2595 * log10(1 + hertz / 700);
}

static base_status run_mel(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    (void)prepared;
    (void)scratch;
    const int64_t rows = outputs[0].type.shape.dims[0], columns = outputs[0].type.shape.dims[1];
    const int64_t length = scalar_at(&inputs[1]), rate = scalar_at(&inputs[2]);
    const double low = mel_of(rt_element_load(inputs[3].type.dtype, inputs[3].data, 0)),
                 high = mel_of(rt_element_load(inputs[4].type.dtype, inputs[4].data, 0));
    const op_dtype dtype = outputs[0].type.dtype;
    if (scalar_at(&inputs[0]) != columns || length / 2 + 1 != rows || rate < 1)
        return base_fail(report, BASE_INVALID,
                         "%" PRId64 " bins of %" PRId64 " samples at %" PRId64 " Hz were not planned",
                         scalar_at(&inputs[0]), length, rate);
    for (int64_t c = 0; c < columns; c++) {
        double edges[3]; /* whole numbers; far away where frequencies are */
        for (int k = 0; k < 3; k++) {
            double mel = low + (double)(c + k) * (high - low) / (double)(columns + 2);
            edges[k] = floor(((double)length + 1) * (700 * (pow(10, mel / 2595) - 1)) / (double)rate);
        }
        for (int64_t r = 0; r < rows; r++) {
            double value = 0;
            const double at = (double)r;
            if (edges[1] == edges[0] && at == edges[1]) value = 1;
            else if (at >= edges[0] && at <= edges[1] && edges[1] > edges[0])
                value = (at - edges[0]) / (edges[1] - edges[0]);
            if (at >= edges[1] && at < edges[2] && edges[2] > edges[1])
                value = (edges[2] - at) / (edges[2] - edges[1]);
            if (is_real(dtype)) rt_element_store(dtype, outputs[0].data, r * columns + c, value);
            else rt_integer_store(dtype, outputs[0].data, r * columns + c, (uint64_t)value);
        }
    }
    return BASE_OK;
}

static base_status prepare_mel(const op_call *call, const rt_environment *environment, base_arena *arena,
                               rt_prepared *prepared, base_report *report) {
    (void)call;
    (void)environment;
    (void)arena;
    (void)report;
    prepared->run = run_mel;
    return BASE_OK;
}

const rt_kernel rt_kernel_einsum = {
    .name = "portable.einsum", .accepts = accepts_einsum, .prepare = prepare_einsum};
const rt_kernel rt_kernel_mel_weight_matrix = {
    .name = "portable.mel_weight_matrix", .accepts = accepts_einsum, .prepare = prepare_mel};

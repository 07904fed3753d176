/* SPDX-License-Identifier: Apache-2.0 */
/* signal.c: Einsum, DFT, STFT, MelWeightMatrix: written for correctness, computed in double. */
#include "ir/operators/einsum.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool accepts_real(const op_call *call, const rt_environment *environment) {
    (void)environment;
    op_dtype dtype = call->inputs[0].type.dtype;
    return rt_accepts_row_major(call) && (dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype));
}

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

static void einsum_outputs(void *user, int64_t begin, int64_t end) {
    const einsum_context *context = user;
    const einsum_state *s = context->state;
    const bool real = is_real(s->dtype);
    for (int64_t task = begin; task < end; task++) {
        int64_t base[OP_EINSUM_OPERANDS] = {0}, index[OP_EINSUM_LABELS] = {0}, rest = task;
        for (int32_t d = s->kept - 1; d >= 0; d--) {
            for (int32_t o = 0; o < s->operands; o++)
                base[o] += rest % s->kept_dims[d] * s->kept_strides[o][d];
            rest /= s->kept_dims[d];
        }
        double sum = 0;
        uint64_t total = 0;
        for (int64_t term = 0; term < s->terms; term++) {
            double product = 1;
            uint64_t whole = 1;
            for (int32_t o = 0; o < s->operands; o++) {
                if (s->dtype == OP_FLOAT)
                    product *= (double)((const float *)context->inputs[o].data)[base[o]];
                else if (real) product *= rt_element_load(s->dtype, context->inputs[o].data, base[o]);
                else whole *= (uint64_t)rt_integer_load(s->dtype, context->inputs[o].data, base[o]);
            }
            sum += product;
            total += whole;
            for (int32_t d = s->summed - 1; d >= 0; d--) {
                for (int32_t o = 0; o < s->operands; o++) base[o] += s->summed_strides[o][d];
                if (++index[d] < s->summed_dims[d]) break;
                index[d] = 0;
                for (int32_t o = 0; o < s->operands; o++)
                    base[o] -= s->summed_dims[d] * s->summed_strides[o][d];
            }
        }
        if (real) rt_element_store(s->dtype, context->output->data, task, sum);
        else rt_integer_store(s->dtype, context->output->data, task, total);
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

/* ---- DFT, STFT ----------------------------------------------------------------------------------------- */

typedef struct dft_state {
    int64_t outer, extent, inner, bins, parts; /* parts: 1 real, 2 complex */
    bool inverse, onesided;
} dft_state;

/* bins[k] = sum over t of line[t] * window[t] * exp(-+ 2 pi i k t / length); `step` elements from t to t + 1. */
static void transform(op_dtype dtype, const void *line, int64_t first, int64_t step, int64_t parts,
                      int64_t samples, const op_tensor *window, int64_t length, bool inverse, int64_t k,
                      double *real, double *imaginary) {
    const double turn = 6.283185307179586476925286766559 * (inverse ? 1 : -1) / (double)length;
    *real = *imaginary = 0;
    for (int64_t t = 0; t < samples && t < length; t++) {
        double x = rt_element_load(dtype, line, (first + t * step) * parts),
               y = parts == 2 ? rt_element_load(dtype, line, (first + t * step) * parts + 1) : 0;
        if (window) {
            double w = rt_element_load(window->type.dtype, window->data, t);
            x *= w;
            y *= w;
        }
        /* k t modulo the length first: angles stay small, and exact. */
        double angle = turn * (double)((int64_t)((uint64_t)k * (uint64_t)t % (uint64_t)length));
        double c = cos(angle), s = sin(angle);
        *real += x * c - y * s;
        *imaginary += x * s + y * c;
    }
    if (inverse) {
        *real /= (double)length;
        *imaginary /= (double)length;
    }
}

static int64_t scalar_at(const op_tensor *tensor) {
    return tensor->type.dtype == OP_INT64 ? *(const int64_t *)tensor->data : *(const int32_t *)tensor->data;
}

/* Element `at` of the whole spectrum of a real signal, of which the first half (and the middle) is stored. */
static double restore(const op_tensor *tensor, const dft_state *s, int64_t first, int64_t length, int64_t t) {
    double sum = 0;
    const double turn = 6.283185307179586476925286766559 / (double)length;
    for (int64_t k = 0; k < length; k++) {
        const bool mirrored = k > length / 2;
        const int64_t from = mirrored ? length - k : k;
        if (from >= s->extent) continue;
        const int64_t at = (first + from * s->inner) * s->parts;
        const double x = rt_element_load(tensor->type.dtype, tensor->data, at);
        const double y = s->parts == 2 ? rt_element_load(tensor->type.dtype, tensor->data, at + 1) : 0;
        const double angle = turn * (double)((int64_t)((uint64_t)k * (uint64_t)t % (uint64_t)length));
        sum += x * cos(angle) - (mirrored ? -y : y) * sin(angle);
    }
    return sum / (double)length;
}

/* The extents around the axis that input 2 names; the last signal axis where it is absent. */
static base_status find_dft_axis(const op_tensor *inputs, uint32_t count, const op_shape *to, dft_state *s,
                                 base_report *report) {
    const op_shape *from = &inputs[0].type.shape;
    int32_t axis = from->rank - 2;
    if (count > 2 && inputs[2].type.dtype != OP_NONE &&
        (!op_axis(scalar_at(&inputs[2]), from->rank, &axis) || axis == from->rank - 1)) {
        return base_fail(report, BASE_INVALID, "input 2 names axis %" PRId64 ", expected one before the last",
                         scalar_at(&inputs[2]));
    }
    s->outer = s->inner = 1;
    for (int32_t d = 0; d < axis; d++) s->outer *= from->dims[d];
    for (int32_t d = axis + 1; d < from->rank - 1; d++) s->inner *= from->dims[d];
    s->extent = from->dims[axis];
    s->bins = to->dims[axis];
    for (int32_t d = 0; d < from->rank - 1; d++) {
        if (d != axis && from->dims[d] != to->dims[d])
            return base_fail(report, BASE_INVALID, "input 2 names another axis than the result was made for");
    }
    return BASE_OK;
}

static base_status run_dft(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    (void)scratch;
    dft_state found = *(const dft_state *)prepared->state;
    const dft_state *s = &found;
    base_status status = find_dft_axis(inputs, prepared->input_count, &outputs[0].type.shape, &found, report);
    if (status != BASE_OK) return status;
    /* Both lengths 2 b - 2 and 2 b - 1 have b bins: the signal's, or the one that is given, says which. */
    int64_t length = s->onesided && s->inverse ? 2 * (s->extent - 1) : s->extent;
    if (prepared->input_count > 1 && inputs[1].type.dtype != OP_NONE) length = scalar_at(&inputs[1]);
    if (length < (s->extent > 0 ? 1 : 0) ||
        (s->onesided && !s->inverse ? length / 2 + 1 : length) != s->bins) {
        return base_fail(report, BASE_INVALID,
                         "a transform of length %" PRId64 " does not have %" PRId64 " bins", length, s->bins);
    }
    for (int64_t o = 0; o < s->outer; o++) {
        for (int64_t i = 0; i < s->inner; i++) {
            const int64_t first = o * s->extent * s->inner + i;
            for (int64_t k = 0; k < s->bins; k++) {
                double real, imaginary;
                const int64_t to = (o * s->bins + k) * s->inner + i;
                if (s->onesided && s->inverse) {
                    rt_element_store(outputs[0].type.dtype, outputs[0].data, to,
                                     restore(&inputs[0], s, first, length, k));
                    continue;
                }
                transform(inputs[0].type.dtype, inputs[0].data, first, s->inner, s->parts, s->extent, NULL,
                          length, s->inverse, k, &real, &imaginary);
                rt_element_store(outputs[0].type.dtype, outputs[0].data, 2 * to, real);
                rt_element_store(outputs[0].type.dtype, outputs[0].data, 2 * to + 1, imaginary);
            }
        }
    }
    return BASE_OK;
}

static base_status prepare_dft(const op_call *call, const rt_environment *environment, base_arena *arena,
                               rt_prepared *prepared, base_report *report) {
    (void)environment;
    dft_state *s = BASE_NEW(arena, dft_state);
    if (!s) return base_fail_memory(report);
    const op_shape *from = &call->inputs[0].type.shape;
    s->inverse = op_attribute_integer(&call->attributes, "inverse", 0) != 0;
    s->onesided = op_attribute_integer(&call->attributes, "onesided", 0) != 0;
    s->parts = from->dims[from->rank - 1];
    prepared->state = s;
    prepared->run = run_dft;
    return BASE_OK;
}

static base_status run_stft(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)scratch;
    const dft_state *s = prepared->state;
    const int64_t *out = outputs[0].type.shape.dims;
    const bool windowed = prepared->input_count > 2 && inputs[2].type.dtype != OP_NONE;
    const bool framed = prepared->input_count > 3 && inputs[3].type.dtype != OP_NONE;
    const int64_t step = scalar_at(&inputs[1]),
                  frame = framed ? scalar_at(&inputs[3]) : inputs[2].type.shape.dims[0];
    if (step < 1 || frame < 1 || (windowed && inputs[2].type.shape.dims[0] != frame) ||
        (out[1] > 0 && (frame > s->extent || out[1] - 1 > (s->extent - frame) / step))) {
        return base_fail(report, BASE_INVALID,
                         "frames of %" PRId64 " every %" PRId64 " samples do not fit the window or "
                         "the signal",
                         frame, step);
    }
    for (int64_t b = 0; b < out[0]; b++) {
        for (int64_t f = 0; f < out[1]; f++) {
            for (int64_t k = 0; k < out[2]; k++) {
                double real, imaginary;
                int64_t to = ((b * out[1] + f) * out[2] + k) * 2;
                transform(inputs[0].type.dtype, inputs[0].data, b * s->extent + f * step, 1, s->parts, frame,
                          windowed ? &inputs[2] : NULL, frame, false, k, &real, &imaginary);
                rt_element_store(outputs[0].type.dtype, outputs[0].data, to, real);
                rt_element_store(outputs[0].type.dtype, outputs[0].data, to + 1, imaginary);
            }
        }
    }
    return BASE_OK;
}

static base_status prepare_stft(const op_call *call, const rt_environment *environment, base_arena *arena,
                                rt_prepared *prepared, base_report *report) {
    (void)environment;
    dft_state *s = BASE_NEW(arena, dft_state);
    if (!s) return base_fail_memory(report);
    const op_shape *signal = &call->inputs[0].type.shape;
    s->extent = signal->dims[1];
    s->parts = signal->rank == 3 ? signal->dims[2] : 1;
    if (s->parts != 1 && s->parts != 2)
        return base_fail(report, BASE_INVALID, "samples have %" PRId64 " parts, expected 1 or 2", s->parts);
    prepared->state = s;
    prepared->run = run_stft;
    return BASE_OK;
}

/* ---- MelWeightMatrix ----------------------------------------------------------------------------------- */

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
const rt_kernel rt_kernel_dft = {.name = "portable.dft", .accepts = accepts_real, .prepare = prepare_dft};
const rt_kernel rt_kernel_stft = {.name = "portable.stft", .accepts = accepts_real, .prepare = prepare_stft};
const rt_kernel rt_kernel_mel_weight_matrix = {
    .name = "portable.mel_weight_matrix", .accepts = accepts_einsum, .prepare = prepare_mel};

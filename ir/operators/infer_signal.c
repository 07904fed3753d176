/* SPDX-License-Identifier: Apache-2.0 */
/* infer_signal.c: Einsum, and what is made of signals and texts: DFT, STFT, MelWeightMatrix,
 * TfIdfVectorizer. */
#include "ir/operators/infer.h"
#include "ir/operators/einsum.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* ---- Einsum -------------------------------------------------------------------------------------------- */

static int label_of(char c) {
    return c >= 'a' && c <= 'z' ? c - 'a' : c >= 'A' && c <= 'Z' ? 26 + c - 'A' : -1;
}

static bool fail_equation(const char *why, base_report *report) {
    base_fail(report, BASE_INVALID, "attribute \"equation\": %s", why);
    return false;
}

/* A dimension with this label has this extent. 1 gives way, so that of two open ones nothing is known; a known one stays beside an open one,
 * which is it or 1. */
static bool set_extent(op_einsum *e, int label, int64_t extent, base_report *report) {
    int64_t *is = &e->extent[label];
    if (!e->used[label] || *is == 1) *is = extent;
    else if (extent >= 0 && extent != 1 && *is >= 0 && extent != *is)
        return fail_equation("a label stands for dimensions of different extents", report);
    else if (extent != *is && extent != 1 && *is < 0) *is = extent < 0 ? OP_DIM_UNKNOWN : extent;
    e->used[label] = true;
    return true;
}

/* One operand's labels, up to ',' '-' or the end. */
static bool read_operand(const op_call *call, op_einsum *e, int32_t operand, const char **at, const char *end,
                         int32_t *ellipsis, base_report *report) {
    const op_shape *shape = &call->inputs[operand].type.shape;
    const char *c = *at;
    int32_t letters = 0, d = 0;
    bool dots = false;
    for (; c < end && *c != ',' && *c != '-'; c++) {
        if (*c == ' ') continue;
        if (*c == '.') {
            if (dots || end - c < 3 || c[1] != '.' || c[2] != '.')
                return fail_equation("a dot that is no ellipsis", report);
            dots = true;
            c += 2;
        } else if (label_of(*c) >= 0) letters++;
        else return fail_equation("something that is no letter", report);
    }
    int32_t more = shape->rank - letters;
    if (more < 0 || (more > 0 && !dots))
        return fail_equation("an operand has another number of labels than dimensions", report);
    if (more > *ellipsis) *ellipsis = more;
    e->rank[operand] = shape->rank;
    for (c = *at; c < end && *c != ',' && *c != '-'; c++) {
        if (*c == ' ') continue;
        if (*c == '.') {
            for (int32_t k = more; k-- > 0; d++) {
                e->labels[operand][d] = 52 + k;
                if (!set_extent(e, 52 + k, shape->dims[d], report)) return false;
            }
            c += 2;
            continue;
        }
        e->labels[operand][d] = label_of(*c);
        if (!set_extent(e, label_of(*c), shape->dims[d], report)) return false;
        d++;
    }
    *at = c;
    return true;
}

static bool add_output(op_einsum *e, int label, base_report *report) {
    if (e->output_rank >= OP_MAX_RANK)
        return fail_equation("the result would have too many dimensions", report);
    e->output[e->output_rank++] = label;
    return true;
}

bool op_einsum_read(const op_call *call, op_einsum *e, base_report *report) {
    const op_attribute *equation = op_attribute_find(&call->attributes, "equation");
    int32_t ellipsis = 0, times[OP_EINSUM_LABELS] = {0};
    memset(e, 0, sizeof *e);
    if (!equation || equation->kind != OP_ATTRIBUTE_STRING) return fail_equation("is absent", report);
    if (call->input_count > OP_EINSUM_OPERANDS) return fail_equation("too many operands", report);
    const char *at = equation->as.text.data, *end = at + equation->as.text.length;
    e->operands = (int32_t)call->input_count;
    for (int32_t i = 0; i < e->operands; i++) {
        if (!read_operand(call, e, i, &at, end, &ellipsis, report)) return false;
        for (int32_t d = 0; d < e->rank[i]; d++) times[e->labels[i][d]]++;
        if (i + 1 < e->operands && (at >= end || *at++ != ','))
            return fail_equation("fewer terms than inputs", report);
    }
    if (at < end && *at == ',') return fail_equation("more terms than inputs", report);
    if (at >=
        end) { /* implicit: the ellipsis, then labels that are there once, in the order of the alphabet */
        for (int32_t k = ellipsis; k-- > 0;)
            if (!add_output(e, 52 + k, report)) return false;
        for (int label = 26; label < 52 + 26; label++) {
            int which = label < 52 ? label : label - 52; /* capitals come first */
            if (times[which] == 1 && !add_output(e, which, report)) return false;
        }
        return true;
    }
    if (end - at < 2 || at[1] != '>') return fail_equation("a '-' that is no arrow", report);
    bool seen[OP_EINSUM_LABELS] = {false};
    for (at += 2; at < end; at++) {
        if (*at == ' ') continue;
        if (*at == '.') {
            if (end - at < 3 || at[1] != '.' || at[2] != '.')
                return fail_equation("a dot that is no ellipsis", report);
            for (int32_t k = ellipsis; k-- > 0;)
                if (!add_output(e, 52 + k, report)) return false;
            at += 2;
            continue;
        }
        int label = label_of(*at);
        if (label < 0 || !e->used[label] || seen[label])
            return fail_equation("the result has a label that no operand has, or one twice", report);
        seen[label] = true;
        if (!add_output(e, label, report)) return false;
    }
    return true;
}

base_status op_infer_einsum(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_NUMBERS, report);
    bool known = true;
    for (uint32_t i = 0; i < call->input_count && status == BASE_OK; i++) {
        if (i) status = op_check_same(call, i, 0, report);
        known = known && call->inputs[i].type.shape.rank >= 0;
    }
    if (status != BASE_OK) return status;
    op_einsum e;
    if (!known) {
        op_output_set(call, 0, call->inputs[0].type.dtype, NULL);
        return BASE_OK;
    }
    if (!op_einsum_read(call, &e, report)) return BASE_INVALID;
    op_shape shape = {.rank = e.output_rank};
    for (int32_t d = 0; d < shape.rank; d++) shape.dims[d] = e.extent[e.output[d]];
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

/* ---- DFT, STFT ----------------------------------------------------------------------------------------- */

/* What of the result follows from the length, which may be given, and from the signal's extent. */
static int64_t dft_extent(const op_call *call, int64_t extent, bool onesided, bool inverse) {
    const bool given = op_input_present(call, 1);
    if (given) extent = op_input_dim(call, 1, 0);
    if (!onesided) return extent;
    if (inverse)
        return given || extent < 0 ? (given ? extent : OP_DIM_UNKNOWN) : extent > 0 ? 2 * (extent - 1) : 0;
    return extent >= 0 ? extent / 2 + 1 : OP_DIM_UNKNOWN;
}

base_status op_infer_dft(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK && op_input_present(call, 1))
        status = op_check_input(call, 1, OP_SET_INDICES, report);
    if (status == BASE_OK) status = op_check_elements(call, 1, 1, report);
    if (status == BASE_OK && op_input_present(call, 2))
        status = op_check_input(call, 2, OP_SET_INDICES, report);
    if (status == BASE_OK) status = op_check_elements(call, 2, 1, report);
    if (status != BASE_OK) return status;
    const bool onesided = op_attribute_integer(&call->attributes, "onesided", 0) != 0;
    const bool inverse = op_attribute_integer(&call->attributes, "inverse", 0) != 0;
    const op_dtype dtype = call->inputs[0].type.dtype;
    op_shape shape = call->inputs[0].type.shape;
    if (shape.rank < 0) {
        op_output_set(call, 0, dtype, NULL);
        return BASE_OK;
    }
    int64_t along = -2;
    int32_t axis = 0;
    const bool known = !op_input_present(call, 2) || op_input_integer(call, 2, 0, &along);
    const int64_t parts = shape.rank ? shape.dims[shape.rank - 1] : 0;
    if (shape.rank < 2 || (known && (!op_axis(along, shape.rank, &axis) || axis == shape.rank - 1)) ||
        (parts >= 0 && parts != 1 && parts != 2)) {
        char text[200];
        return base_fail(report, BASE_INVALID,
                         "input 0 is %s and axis is %" PRId64
                         ": expected a last dimension of 1 (real) or 2 (complex), and "
                         "an axis before it",
                         op_shape_text(&shape, text, sizeof text), along);
    }
    for (int32_t d = 0; d < shape.rank - 1; d++) {
        if (!known) shape.dims[d] = OP_DIM_UNKNOWN; /* any of them may be the one that changes */
        else if (d == axis) shape.dims[d] = dft_extent(call, shape.dims[d], onesided, inverse);
    }
    shape.dims[shape.rank - 1] = onesided && inverse ? 1 : 2;
    op_output_set(call, 0, dtype, &shape);
    return BASE_OK;
}

base_status op_infer_stft(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_INDICES, report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_same(call, 2, 0, report);
    if (status == BASE_OK && op_input_present(call, 3))
        status = op_check_input(call, 3, OP_SET_INDICES, report);
    if (status == BASE_OK) status = op_check_elements(call, 1, 1, report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_vector(call, 2, false, report);
    if (status == BASE_OK) status = op_check_elements(call, 3, 1, report);
    if (status != BASE_OK) return status;
    const op_shape *signal = &call->inputs[0].type.shape;
    if (signal->rank >= 0 && (signal->rank < 2 || signal->rank > 3))
        return base_fail(report, BASE_INVALID, "input 0 has rank %d, expected [batch,samples,1 or 2]",
                         signal->rank);
    op_shape shape = op_shape_of_rank(4);
    shape.dims[3] = 2;
    int64_t step = op_input_dim(call, 1, 0), frame = OP_DIM_UNKNOWN;
    if (op_input_present(call, 3)) frame = op_input_dim(call, 3, 0);
    else if (op_input_present(call, 2) && call->inputs[2].type.shape.rank == 1)
        frame = call->inputs[2].type.shape.dims[0];
    if (step == 0 || frame == 0 || (!op_input_present(call, 2) && !op_input_present(call, 3)))
        return base_fail(report, BASE_INVALID,
                         "the step is %" PRId64 " and the frame %" PRId64 ": expected a window or a "
                         "frame length, and numbers above 0",
                         step, frame);
    if (signal->rank >= 0) {
        shape.dims[0] = signal->dims[0];
        if (signal->dims[1] >= 0 && step > 0 && frame > 0)
            shape.dims[1] = signal->dims[1] < frame ? 0 : (signal->dims[1] - frame) / step + 1;
    }
    bool onesided = op_attribute_integer(&call->attributes, "onesided", 1) != 0;
    if (frame > 0) shape.dims[2] = onesided ? frame / 2 + 1 : frame;
    op_output_set(call, 0, call->inputs[0].type.dtype, &shape);
    return BASE_OK;
}

base_status op_infer_mel_weight_matrix(op_call *call, base_report *report) {
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < 5 && status == BASE_OK; i++) {
        status = op_check_input(call, i, i < 3 ? OP_SET_INDICES : OP_SET_FLOATS, report);
        if (status == BASE_OK) status = op_check_elements(call, i, 1, report);
    }
    if (status != BASE_OK) return status;
    int64_t bins = op_input_dim(call, 0, 0), length = op_input_dim(call, 1, 0),
            dtype = op_attribute_integer(&call->attributes, "output_datatype", OP_FLOAT);
    if (dtype <= 0 || dtype >= OP_DTYPE_COUNT || !(OP_SET_NUMBERS >> dtype & 1u))
        return base_fail(report, BASE_INVALID,
                         "attribute \"output_datatype\" is %" PRId64 ", expected a number type", dtype);
    op_shape shape = {.rank = 2, .dims = {length >= 0 ? length / 2 + 1 : OP_DIM_UNKNOWN, bins}};
    op_output_set(call, 0, (op_dtype)dtype, &shape);
    return BASE_OK;
}

/* ---- TfIdfVectorizer ----------------------------------------------------------------------------------- */

base_status op_infer_tf_idf(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_INDICES | OP_SET(OP_STRING), report);
    if (status != BASE_OK) return status;
    size_t count;
    const int64_t *indexes = op_attribute_integers(&call->attributes, "ngram_indexes", &count);
    op_shape shape = call->inputs[0].type.shape;
    int64_t width = 0;
    for (size_t i = 0; i < count; i++)
        width = indexes[i] >= width && indexes[i] < INT32_MAX ? indexes[i] + 1 : width;
    if (shape.rank == 0 || shape.rank > 2 || count == 0)
        return base_fail(report, BASE_INVALID,
                         "input 0 has rank %d and there are %zu indexes, expected a row or rows, "
                         "and an index for each n-gram",
                         shape.rank, count);
    if (shape.rank > 0) shape.dims[shape.rank - 1] = width;
    op_output_set(call, 0, OP_FLOAT, shape.rank < 0 ? NULL : &shape);
    return BASE_OK;
}

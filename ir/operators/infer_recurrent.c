/* SPDX-License-Identifier: Apache-2.0 */
/* infer_recurrent.c: shape function of RNN, GRU and LSTM, and of LSTM with weights of bytes. */
#include "ir/operators/infer.h"

enum { BYTES_FROM = 8, BYTES_COUNT = 4 }; /* scale and zero point of the weights, and of the recurrence weights */

/* The extent on which two dimensions agree; false where both are known and differ. */
static bool agree(int64_t *known, int64_t dim) {
    if (dim == OP_DIM_UNKNOWN || *known == dim) return true;
    if (*known >= 0 && dim >= 0) return false;
    if (*known < 0) *known = dim;
    return true;
}

/* Scales and zero points of weights of bytes: one number a direction, or one a column too. */
static base_status check_bytes(const op_call *call, int64_t directions, int64_t wide, base_report *report) {
    for (uint32_t i = 0; i < BYTES_COUNT; i++) {
        const uint32_t input = BYTES_FROM + i;
        if (!op_input_present(call, input))
            return base_fail(report, BASE_INVALID, "input %u is absent, it is needed", input);
        base_status status = i % 2 ? op_check_same(call, input, 1 + i / 2, report)
                                   : op_check_input(call, input, OP_SET(OP_FLOAT), report);
        if (status != BASE_OK) return status;
        const op_shape *shape = &call->inputs[input].type.shape;
        int64_t rows = directions, columns = wide;
        if (shape->rank < 0 || ((shape->rank == 1 || shape->rank == 2) && agree(&rows, shape->dims[0]) &&
                                (shape->rank == 1 || agree(&columns, shape->dims[1]))))
            continue;
        char text[128];
        return base_fail(report, BASE_INVALID, "input %u has shape %s, expected [%lld] or [%lld,%lld]", input,
                         op_shape_text(shape, text, sizeof text), (long long)directions, (long long)directions,
                         (long long)wide);
    }
    return BASE_OK;
}

base_status op_infer_recurrent(op_call *call, base_report *report) {
    const bool bytes = call->code == OP_DYNAMIC_LSTM;
    int64_t gates = call->code == OP_LSTM || bytes ? 4 : call->code == OP_GRU ? 3 : 1;
    bool batch_first = op_attribute_integer(&call->attributes, "layout", 0) == 1;
    int64_t directions = op_attribute_is(&call->attributes, "direction", "bidirectional", "forward") ? 2 : 1;
    if (directions == 1 && !op_attribute_is(&call->attributes, "direction", "forward", "forward") &&
        !op_attribute_is(&call->attributes, "direction", "reverse", "forward")) {
        return base_fail(report, BASE_INVALID, "direction is none of forward, reverse, bidirectional");
    }
    for (uint32_t i = 0; i < 3; i++) {
        base_status status;
        if (bytes) status = op_check_input(call, i, i ? OP_SET(OP_INT8) | OP_SET(OP_UINT8) : OP_SET(OP_FLOAT), report);
        else status = i ? op_check_same(call, i, 0, report) : op_check_input(call, i, OP_SET_FLOATS, report);
        if (status != BASE_OK) return status;
        int32_t rank = call->inputs[i].type.shape.rank;
        if (rank >= 0 && rank != 3)
            return base_fail(report, BASE_INVALID, "input %u has rank %d, expected 3", i, rank);
    }
    const op_shape *x = &call->inputs[0].type.shape;
    const op_shape *r = &call->inputs[2].type.shape;
    int64_t sequence = x->rank == 3 ? x->dims[batch_first] : OP_DIM_UNKNOWN;
    int64_t batch = x->rank == 3 ? x->dims[!batch_first] : OP_DIM_UNKNOWN;
    int64_t hidden = op_attribute_integer(&call->attributes, "hidden_size", OP_DIM_UNKNOWN);
    if (hidden != OP_DIM_UNKNOWN && hidden <= 0) {
        return base_fail(report, BASE_INVALID, "hidden_size is %lld, expected at least 1", (long long)hidden);
    }
    if (r->rank == 3 && !agree(&hidden, r->dims[bytes ? 1 : 2])) {
        return base_fail(report, BASE_INVALID,
                         "input 2 (recurrence weights) has %lld %s, hidden_size is %lld",
                         (long long)r->dims[bytes ? 1 : 2], bytes ? "rows" : "columns", (long long)hidden);
    }
    /* What the dimensions of each input must be; negative: not known. */
    int64_t wide = hidden >= 0 ? gates * hidden : OP_DIM_UNKNOWN;
    int64_t input_size = x->rank == 3 ? x->dims[2] : OP_DIM_UNKNOWN;
    const int64_t state0 = batch_first ? batch : directions, state1 = batch_first ? directions : batch;
    const struct {
        int32_t rank;
        int64_t dims[3];
    } expected[8] = {
        {3, {OP_DIM_UNKNOWN, OP_DIM_UNKNOWN, OP_DIM_UNKNOWN}},
        {3, {directions, bytes ? input_size : wide, bytes ? wide : input_size}},
        {3, {directions, bytes ? hidden : wide, bytes ? wide : hidden}},
        {2, {directions, wide >= 0 ? 2 * wide : OP_DIM_UNKNOWN}},
        {1, {batch}},
        {3, {state0, state1, hidden}},
        {3, {state0, state1, hidden}},
        {2, {directions, hidden >= 0 ? 3 * hidden : OP_DIM_UNKNOWN}},
    };
    for (uint32_t i = 1; i < call->input_count && i < BYTES_FROM; i++) {
        if (!op_input_present(call, i)) continue;
        base_status status = BASE_OK;
        if (i == 4) status = op_check_input(call, i, OP_SET(OP_INT32), report);
        else if (!bytes || i > 2) status = op_check_same(call, i, 0, report);
        if (status != BASE_OK) return status;
        const op_shape *shape = &call->inputs[i].type.shape;
        bool fits = shape->rank < 0 || shape->rank == expected[i].rank;
        for (int32_t d = 0; fits && d < shape->rank; d++) {
            int64_t dim = expected[i].dims[d];
            fits = agree(&dim, shape->dims[d]);
        }
        if (!fits) {
            char text[128], wanted[128];
            op_shape want = {.rank = expected[i].rank};
            for (int32_t d = 0; d < want.rank; d++) want.dims[d] = expected[i].dims[d];
            return base_fail(report, BASE_INVALID, "input %u has shape %s, expected %s", i,
                             op_shape_text(shape, text, sizeof text),
                             op_shape_text(&want, wanted, sizeof wanted));
        }
    }
    base_status status = bytes ? check_bytes(call, directions, wide, report) : BASE_OK;
    if (status != BASE_OK) return status;
    op_shape y = batch_first ? (op_shape){.rank = 4, .dims = {batch, sequence, directions, hidden}}
                             : (op_shape){.rank = 4, .dims = {sequence, directions, batch, hidden}};
    op_shape last = {.rank = 3, .dims = {state0, state1, hidden}};
    for (uint32_t o = 0; o < call->output_count; o++) {
        op_output_set(call, o, call->inputs[0].type.dtype, o == 0 ? &y : &last);
    }
    return BASE_OK;
}

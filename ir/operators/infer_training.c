/* SPDX-License-Identifier: Apache-2.0 */
/* infer_training.c: shape function of the steps of training: Momentum, Adagrad and Adam.
 *
 * Inputs are the learning rate, the update count and then groups of equally many tensors: those that are optimised,
 * their gradients, and one or two groups of their states. Outputs are the new values of the first group and of the
 * states.
 */
#include "ir/operators/infer.h"
#include <inttypes.h>

static base_status check_scalar(const op_call *call, uint32_t input, const char *name, base_report *report) {
    int64_t elements;
    const op_shape *shape = &call->inputs[input].type.shape;
    if (!op_shape_elements(shape, &elements) || elements == 1) return BASE_OK;
    char text[128];
    return base_fail(report, BASE_INVALID, "input %u (%s) has shape %s, expected a scalar", input, name,
                     op_shape_text(shape, text, sizeof text));
}

/* Input `input` has the dtype and, as far as known, the shape of input `other`; *shape takes what it knows more. */
static base_status check_group(const op_call *call, uint32_t input, uint32_t other, op_shape *shape,
                               base_report *report) {
    base_status status = op_check_same(call, input, other, report);
    const op_shape *own = &call->inputs[input].type.shape;
    if (status != BASE_OK || own->rank < 0) return status;
    bool same = shape->rank < 0 || own->rank == shape->rank;
    for (int32_t i = 0; same && i < shape->rank; i++) {
        same = own->dims[i] < 0 || shape->dims[i] < 0 || own->dims[i] == shape->dims[i];
    }
    if (!same) {
        char have[128], want[128];
        return base_fail(report, BASE_INVALID, "input %u has shape %s, expected %s, that of input %u", input,
                         op_shape_text(own, have, sizeof have), op_shape_text(shape, want, sizeof want),
                         other);
    }
    if (shape->rank < 0) *shape = *own;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0 && own->dims[i] >= 0) shape->dims[i] = own->dims[i];
    }
    return BASE_OK;
}

base_status op_infer_training(op_call *call, base_report *report) {
    const unsigned reals = OP_SET(OP_FLOAT) | OP_SET(OP_DOUBLE);
    const uint32_t groups = call->code == OP_ADAM ? 4 : 3;
    base_status status = op_check_input(call, 0, reals, report);
    if (status == BASE_OK) status = check_scalar(call, 0, "learning rate", report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK) status = check_scalar(call, 1, "update count", report);
    if (status != BASE_OK) return status;
    if (call->code == OP_MOMENTUM && !op_attribute_is(&call->attributes, "mode", "standard", "") &&
        !op_attribute_is(&call->attributes, "mode", "nesterov", "")) {
        return base_fail(report, BASE_INVALID,
                         "attribute \"mode\" is unknown, expected standard or nesterov");
    }
    const uint32_t count = (call->input_count - 2) / groups;
    if (count * groups != call->input_count - 2) {
        return base_fail(report, BASE_INVALID, "%u inputs after the first two, expected a multiple of %u",
                         call->input_count - 2, groups);
    }
    if (call->output_count > count * (groups - 1)) {
        return base_fail(report, BASE_INVALID, "%u outputs, expected at most %u", call->output_count,
                         count * (groups - 1));
    }
    for (uint32_t i = 0; i < count; i++) {
        status = op_check_input(call, 2 + i, reals, report);
        if (status != BASE_OK) return status;
        op_shape shape = call->inputs[2 + i].type.shape;
        for (uint32_t group = 1; group < groups && status == BASE_OK; group++) {
            status = check_group(call, 2 + group * count + i, 2 + i, &shape, report);
        }
        if (status != BASE_OK) return status;
        for (uint32_t at = i; at < call->output_count; at += count) {
            op_output_set(call, at, call->inputs[2 + i].type.dtype, &shape);
        }
    }
    return BASE_OK;
}

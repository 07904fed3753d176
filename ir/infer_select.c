/* infer_select.c: shapes that depend on data: known where the data is (constants; at run time), otherwise open. */
#include "ir/infer.h"
#include "ir/op_select.h"

#include <inttypes.h>

base_status op_infer_non_zero(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, (OP_SET_NUMBERS | OP_SET_BOOL), report);
    if (status != BASE_OK) return status;
    const op_tensor *x = &call->inputs[0];
    op_shape shape = op_shape_of_rank(2);
    int64_t elements;
    /* A scalar counts as one element in one dimension. */
    if (x->type.shape.rank >= 0) shape.dims[0] = x->type.shape.rank ? x->type.shape.rank : 1;
    if (x->data && op_shape_elements(&x->type.shape, &elements))
        shape.dims[1] = op_count_nonzero(x, elements);
    op_output_set(call, 0, OP_INT64, &shape);
    return BASE_OK;
}

base_status op_infer_compress(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_BOOL, report);
    if (status == BASE_OK) status = op_check_vector(call, 1, false, report);
    if (status != BASE_OK) return status;
    const op_tensor *x = &call->inputs[0], *wanted = &call->inputs[1];
    const op_attribute *along = op_attribute_find(&call->attributes, "axis");
    op_shape shape = along ? x->type.shape : op_shape_of_rank(1);
    int64_t extent, flags;
    if (shape.rank < 0) {
        op_output_set(call, 0, x->type.dtype, NULL);
        return BASE_OK;
    }
    int32_t axis = 0;
    if (along && !op_axis(along->as.integer, shape.rank, &axis))
        return base_fail(report, BASE_INVALID,
                         "attribute \"axis\" is %" PRId64 ", expected a number in [%d, %d)",
                         along->as.integer, -shape.rank, shape.rank);
    bool known = along ? (extent = shape.dims[axis]) >= 0 : op_shape_elements(&x->type.shape, &extent);
    shape.dims[axis] = OP_DIM_UNKNOWN;
    if (known && wanted->data && op_shape_elements(&wanted->type.shape, &flags))
        shape.dims[axis] = op_count_nonzero(wanted, flags < extent ? flags : extent);
    op_output_set(call, 0, x->type.dtype, &shape);
    return BASE_OK;
}

base_status op_infer_unique(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, (OP_SET_NUMBERS | OP_SET_BOOL), report);
    if (status != BASE_OK) return status;
    const op_tensor *x = &call->inputs[0];
    const op_attribute *along = op_attribute_find(&call->attributes, "axis");
    int32_t axis = -1;
    op_shape shape = along ? x->type.shape : op_shape_of_rank(1), list = op_shape_of_rank(1),
             all = op_shape_of_rank(1);
    if (along && shape.rank >= 0 && !op_axis(along->as.integer, shape.rank, &axis))
        return base_fail(report, BASE_INVALID,
                         "attribute \"axis\" is %" PRId64 ", expected a number in [%d, %d)",
                         along->as.integer, -shape.rank, shape.rank);
    if (along && shape.rank >= 0) all.dims[0] = shape.dims[axis];
    else if (!along && !op_shape_elements(&x->type.shape, &all.dims[0])) all.dims[0] = OP_DIM_UNKNOWN;
    if (x->data && call->arena && op_shape_known(&x->type.shape)) {
        op_unique unique;
        if (!op_select_unique(x, axis, true, call->arena, &unique)) return base_fail_memory(report);
        list.dims[0] = unique.count;
    }
    if (shape.rank >= 0) shape.dims[along ? axis : 0] = list.dims[0];
    op_output_set(call, 0, x->type.dtype, shape.rank < 0 ? NULL : &shape);
    for (uint32_t i = 1; i < call->output_count; i++) op_output_set(call, i, OP_INT64, i == 2 ? &all : &list);
    return BASE_OK;
}

base_status op_infer_non_max_suppression(op_call *call, base_report *report) {
    static const unsigned types[] = {OP_SET(OP_FLOAT), OP_SET(OP_FLOAT), OP_SET(OP_INT64), OP_SET(OP_FLOAT),
                                     OP_SET(OP_FLOAT)};
    bool known = call->arena != NULL;
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (!op_input_present(call, i)) continue;
        base_status status = op_check_input(call, i, types[i], report);
        int64_t elements;
        if (status != BASE_OK) return status;
        known = known && call->inputs[i].data && op_shape_elements(&call->inputs[i].type.shape, &elements);
        if (known && i >= 2 && elements < 1) return base_fail(report, BASE_INVALID, "input %u is empty", i);
    }
    const op_shape *boxes = &call->inputs[0].type.shape, *scores = &call->inputs[1].type.shape;
    bool fits = (boxes->rank < 0 || (boxes->rank == 3 && (boxes->dims[2] < 0 || boxes->dims[2] == 4))) &&
                (scores->rank < 0 || scores->rank == 3);
    if (fits && boxes->rank == 3 && scores->rank == 3) {
        fits = (boxes->dims[0] < 0 || scores->dims[0] < 0 || boxes->dims[0] == scores->dims[0]) &&
               (boxes->dims[1] < 0 || scores->dims[2] < 0 || boxes->dims[1] == scores->dims[2]);
    }
    if (!fits) {
        char a[200], b[200];
        return base_fail(report, BASE_INVALID,
                         "boxes are %s and scores %s, expected [N,boxes,4] and [N,classes,boxes]",
                         op_shape_text(boxes, a, sizeof a), op_shape_text(scores, b, sizeof b));
    }
    op_shape shape = {.rank = 2, .dims = {OP_DIM_UNKNOWN, 3}};
    if (known) {
        int64_t *triples;
        if (!op_select_boxes(call, call->arena, &triples, &shape.dims[0])) return base_fail_memory(report);
    }
    op_output_set(call, 0, OP_INT64, &shape);
    return BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* infer_movement.c: shape functions of operators that move elements about without computing on them. */
#include "ir/operators/infer.h"
#include <inttypes.h>
#include <stdlib.h>

/* ---- products of dimensions -------------------------------------------------------------------------- */

/* A product as a number times symbols. */
typedef struct factors {
    int64_t number;
    int64_t symbols[2 * OP_MAX_RANK];
    int count;
    bool known; /* false: a factor is not known, or the number does not fit */
} factors;

static void factors_times(factors *product, int64_t dim) {
    if (dim == OP_DIM_UNKNOWN) product->known = false;
    else if (dim < 0) product->symbols[product->count++] = dim;
    else if (!base_int64_multiply(product->number, dim, &product->number)) product->known = false;
}

static factors factors_of(const op_shape *shape) {
    factors product = {.number = 1, .known = shape->rank >= 0};
    for (int32_t i = 0; i < shape->rank; i++) factors_times(&product, shape->dims[i]);
    return product;
}

/* a / b as a dimension: common symbols and numbers cancel, so that [s1,3,224,224] over [s1] is 150528 and
 * over [150528] is s1. *divides is false where the quotient of numbers is not whole. */
static int64_t factors_divide(const op_call *call, factors a, factors b, bool *divides) {
    *divides = true;
    if (!a.known || !b.known || b.number == 0) return OP_DIM_UNKNOWN;
    for (int i = 0; i < b.count; i++) {
        for (int k = 0; k < a.count; k++) {
            if (a.symbols[k] != b.symbols[i]) continue;
            for (int m = k + 1; m < a.count; m++) a.symbols[m - 1] = a.symbols[m];
            for (int m = i + 1; m < b.count; m++) b.symbols[m - 1] = b.symbols[m];
            a.count--;
            b.count--;
            i--;
            break;
        }
    }
    if (a.number == 0) return 0;
    int64_t common = (int64_t)base_gcd((uint64_t)a.number, (uint64_t)b.number);
    a.number /= common;
    b.number /= common;
    if (a.count == 0 && b.count == 0) {
        *divides = b.number == 1;
        return *divides ? a.number : OP_DIM_UNKNOWN;
    }
    int64_t numerator = a.number, denominator = b.number;
    for (int i = 0; i < a.count && numerator != OP_DIM_UNKNOWN; i++) {
        numerator = numerator == 1 ? a.symbols[i] : op_dim_compute(call, '*', numerator, a.symbols[i]);
    }
    for (int i = 0; i < b.count && denominator != OP_DIM_UNKNOWN; i++) {
        denominator = denominator == 1 ? b.symbols[i] : op_dim_compute(call, '*', denominator, b.symbols[i]);
    }
    if (denominator == 1) return numerator;
    if (numerator == OP_DIM_UNKNOWN || denominator == OP_DIM_UNKNOWN) return OP_DIM_UNKNOWN;
    return op_dim_compute(call, '/', numerator, denominator);
}

/* ---- the same elements under another shape ------------------------------------------------------------ */

base_status op_infer_reshape(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_STORED, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK) status = op_check_vector(call, 1, false, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    const op_shape *from = &type->shape, *vector = &call->inputs[1].type.shape;
    if (vector->rank < 0 || vector->dims[0] < 0) {
        op_output_set(call, 0, type->dtype, NULL);
        return BASE_OK;
    }
    if (vector->dims[0] > OP_MAX_RANK) {
        return base_fail(report, BASE_INVALID,
                         "input 1 spells a shape of rank %" PRId64 ", expected at most %d", vector->dims[0],
                         OP_MAX_RANK);
    }
    bool zero_allowed = op_attribute_integer(&call->attributes, "allowzero", 0) != 0;
    op_shape shape = op_shape_of_rank((int32_t)vector->dims[0]);
    int32_t inferred = -1; /* the dimension given as -1 */
    int unknown = 0, free = -1;
    for (int32_t i = 0; i < shape.rank; i++) {
        int64_t value;
        if (!op_input_integer(call, 1, i, &value)) {
            shape.dims[i] = op_input_dim(call, 1, i);
        } else if (value == -1) {
            if (inferred >= 0)
                return base_fail(report, BASE_INVALID, "input 1 has more than one -1, expected one");
            inferred = i;
        } else if (value < 0) {
            return base_fail(report, BASE_INVALID,
                             "input 1 spells the dimension %" PRId64 ", expected -1 or more", value);
        } else if (value == 0 && !zero_allowed) {
            if (from->rank >= 0 && i >= from->rank) {
                return base_fail(report, BASE_INVALID,
                                 "input 1 copies dimension %d by a 0, but input 0 has rank %d", i,
                                 from->rank);
            }
            if (from->rank >= 0) shape.dims[i] = from->dims[i];
        } else {
            shape.dims[i] = value;
        }
        if (shape.dims[i] == OP_DIM_UNKNOWN) {
            unknown++;
            free = i;
        }
    }
    /* The number of elements stays the same. So one dimension that is missing follows from the others,
     * whether it is the -1 or one whose value is not known. */
    char left[160], right[160];
    if (unknown == 1 && from->rank >= 0) {
        op_shape others = shape;
        others.dims[free] = 1;
        bool divides;
        int64_t dim = factors_divide(call, factors_of(from), factors_of(&others), &divides);
        if (!divides) {
            return base_fail(
                report, BASE_INVALID, "%s cannot be reshaped to %s: the number of elements is not a multiple",
                op_shape_text(from, left, sizeof left), op_shape_text(&shape, right, sizeof right));
        }
        if (inferred >= 0 && dim == OP_DIM_UNKNOWN && op_shape_known(from) && op_shape_known(&others)) {
            return base_fail(
                report, BASE_INVALID, "%s cannot be reshaped to %s: nothing says what -1 stands for",
                op_shape_text(from, left, sizeof left), op_shape_text(&shape, right, sizeof right));
        }
        shape.dims[free] = dim;
    }
    int64_t before, after;
    if (op_shape_elements(from, &before) && op_shape_elements(&shape, &after) && before != after) {
        return base_fail(report, BASE_INVALID, "%s with %" PRId64 " elements cannot be reshaped to %s",
                         op_shape_text(from, left, sizeof left), before,
                         op_shape_text(&shape, right, sizeof right));
    }
    op_output_set(call, 0, type->dtype, &shape);
    op_output_symbolic_copy(call, 0);
    return BASE_OK;
}

base_status op_infer_flatten(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_STORED, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    op_shape shape = op_shape_of_rank(2);
    if (type->shape.rank >= 0) {
        int32_t rank = type->shape.rank;
        int64_t axis = op_attribute_integer(&call->attributes, "axis", 1);
        if (axis < -rank || axis > rank) {
            return base_fail(report, BASE_INVALID,
                             "attribute \"axis\" is %" PRId64 ", expected a number in [%d, %d]", axis, -rank,
                             rank);
        }
        if (axis < 0) axis += rank;
        shape.dims[0] = shape.dims[1] = 1;
        for (int32_t i = 0; i < rank; i++) {
            int64_t *product = &shape.dims[i < axis ? 0 : 1], dim = type->shape.dims[i];
            if (*product == OP_DIM_UNKNOWN) continue;
            *product = *product == 1 ? dim : dim == 1 ? *product : op_dim_compute(call, '*', *product, dim);
        }
    }
    op_output_set(call, 0, type->dtype, &shape);
    return BASE_OK;
}

base_status op_infer_squeeze(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_STORED, report);
    bool given = op_input_present(call, 1);
    if (status == BASE_OK && given) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK && given) status = op_check_vector(call, 1, true, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    const op_shape *from = &type->shape;
    op_shape shape = {.rank = -1};
    if (from->rank >= 0) {
        bool marks[OP_MAX_RANK], known = true;
        if (given) {
            status = op_input_axes(call, 1, from->rank, marks, &known, report);
            if (status != BASE_OK) return status;
        }
        for (int32_t i = 0; i < from->rank && !given; i++) {
            marks[i] = from->dims[i] == 1;
            known = known && from->dims[i] >= 0; /* what is not known now may turn out to be 1 */
        }
        for (int32_t i = 0; i < from->rank && known; i++) {
            if (marks[i] && from->dims[i] >= 0 && from->dims[i] != 1) {
                return base_fail(report, BASE_INVALID,
                                 "axis %d of input 0 has extent %" PRId64 ", expected 1", i, from->dims[i]);
            }
        }
        if (known) {
            shape.rank = 0;
            for (int32_t i = 0; i < from->rank; i++) {
                if (!marks[i]) shape.dims[shape.rank++] = from->dims[i];
            }
        } else if (given && call->inputs[1].type.shape.rank == 1 && call->inputs[1].type.shape.dims[0] >= 0) {
            shape = op_shape_of_rank(from->rank - (int32_t)call->inputs[1].type.shape.dims[0]);
        }
    }
    op_output_set(call, 0, type->dtype, &shape);
    op_output_symbolic_copy(call, 0);
    return BASE_OK;
}

base_status op_infer_unsqueeze(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_STORED, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK) status = op_check_vector(call, 1, true, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    const op_shape *from = &type->shape, *axes = &call->inputs[1].type.shape;
    op_shape shape = {.rank = -1};
    if (from->rank >= 0 && axes->rank >= 0 && (axes->rank == 0 || axes->dims[0] >= 0)) {
        int64_t added = axes->rank ? axes->dims[0] : 1;
        if (added > OP_MAX_RANK - from->rank) {
            return base_fail(report, BASE_INVALID,
                             "the result would have rank %" PRId64 ", expected at most %d",
                             added > INT32_MAX ? added : added + from->rank, OP_MAX_RANK);
        }
        shape = op_shape_of_rank(from->rank + (int32_t)added);
        bool marks[OP_MAX_RANK], known;
        status = op_input_axes(call, 1, shape.rank, marks, &known, report);
        if (status != BASE_OK) return status;
        for (int32_t i = 0, next = 0; i < shape.rank && known; i++)
            shape.dims[i] = marks[i] ? 1 : from->dims[next++];
    }
    op_output_set(call, 0, type->dtype, &shape);
    op_output_symbolic_copy(call, 0);
    return BASE_OK;
}

base_status op_infer_identity(op_call *call, base_report *report) {
    if (!op_input_present(call, 0))
        return base_fail(report, BASE_INVALID, "input 0 is absent, expected a value");
    /* Sequences and optionals pass as well; the bytes keep their layout. */
    call->outputs[0].type = call->inputs[0].type;
    call->outputs[0].symbolic = NULL;
    op_output_symbolic_copy(call, 0);
    return BASE_OK;
}

/* ---- rearrangement and parts --------------------------------------------------------------------------- */

base_status op_infer_transpose(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_STORED, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    size_t count;
    const int64_t *order = op_attribute_integers(&call->attributes, "perm", &count);
    op_shape shape = {.rank = -1};
    if (type->shape.rank >= 0) {
        shape = type->shape;
        if (order && count != (size_t)shape.rank) {
            return base_fail(report, BASE_INVALID, "attribute \"perm\" has %zu numbers, expected %d", count,
                             shape.rank);
        }
        unsigned seen = 0;
        for (int32_t i = 0; i < shape.rank; i++) {
            int64_t axis = order ? order[i] : shape.rank - 1 - i;
            if (axis < 0 || axis >= shape.rank || (seen & (1u << axis))) {
                return base_fail(report, BASE_INVALID, "attribute \"perm\" is not a permutation of 0 to %d",
                                 shape.rank - 1);
            }
            seen |= 1u << axis;
            shape.dims[i] = type->shape.dims[axis];
        }
    }
    op_output_set(call, 0, type->dtype, &shape);
    op_output_symbolic_copy(call, 0); /* of a vector */
    return BASE_OK;
}

/* What of an extent a slice takes, once start and end are resolved against it: the first element and how
 * many. */
static void slice_resolve(int64_t extent, int64_t start, int64_t end, int64_t step, int64_t *first,
                          int64_t *count) {
    if (start < 0) start += extent;
    if (end < 0) end += extent;
    int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? extent : extent - 1;
    start = start < 0 ? 0 : start;
    start = start > highest ? highest : start;
    end = end < lowest ? lowest : end > highest ? highest : end;
    *first = start;
    uint64_t distance = 0, stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (step > 0 && end > start) distance = (uint64_t)(end - start);
    if (step < 0 && start > end) distance = (uint64_t)(start - end);
    *count = (int64_t)(distance / stride + (distance % stride != 0));
}

/* What models write for "to the end", whatever the extent: this (TensorFlow's converters) or more, the largest number of
 * 32 or of 64 bits. Dynamic dimensions are taken to be smaller. A run infers shapes anew, with numbers. */
enum { TO_THE_END = 1000000000 };

/* The extent of a sliced axis where not all numbers are known. */
static int64_t slice_dim(const op_call *call, int64_t extent, int64_t index, int64_t step) {
    int64_t start, end;
    /* All of it, backwards. */
    if (step == -1 && op_input_integer(call, 1, index, &start) && op_input_integer(call, 2, index, &end) &&
        (start == -1 || start >= TO_THE_END) && end <= -TO_THE_END)
        return extent;
    if (step != 1 || extent == OP_DIM_UNKNOWN || !op_input_integer(call, 1, index, &start))
        return OP_DIM_UNKNOWN;
    bool whole =
        op_input_integer(call, 2, index, &end) ? end >= TO_THE_END : op_input_dim(call, 2, index) == extent;
    if (start == 0 && whole) return extent;
    /* A start or a distance from the end beyond the extent would be cut: only an empty axis is then
     * miscounted, and one is not written down symbolically in models. */
    if (start > 0 && whole) return op_dim_compute(call, '-', extent, start);
    if (start == 0 && op_input_integer(call, 2, index, &end) && end < 0 && end > -TO_THE_END) {
        return op_dim_compute(call, '-', extent, -end);
    }
    return OP_DIM_UNKNOWN;
}

base_status op_infer_slice(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_INDICES, report);
    for (uint32_t i = 1; i < call->input_count; i++) {
        if (i >= 3 && !op_input_present(call, i)) continue;
        if (status == BASE_OK) status = op_check_same(call, i, 1, report);
        if (status == BASE_OK) status = op_check_vector(call, i, false, report);
        if (status != BASE_OK) return status;
    }
    const op_type *type = &call->inputs[0].type;
    const op_shape *from = &type->shape;
    bool axes_given = op_input_present(call, 3), steps_given = op_input_present(call, 4);
    int64_t count = -1; /* of sliced axes */
    for (uint32_t i = 1; i < call->input_count; i++) {
        const op_shape *vector = &call->inputs[i].type.shape;
        if (!op_input_present(call, i) || vector->rank < 0 || vector->dims[0] < 0) continue;
        if (count >= 0 && vector->dims[0] != count) {
            return base_fail(report, BASE_INVALID,
                             "input %u has %" PRId64 " elements, expected %" PRId64 " as input 1", i,
                             vector->dims[0], count);
        }
        count = vector->dims[0];
    }
    if (from->rank < 0) {
        op_output_set(call, 0, type->dtype, NULL);
        return BASE_OK;
    }
    if (count > from->rank) {
        return base_fail(report, BASE_INVALID, "input 1 slices %" PRId64 " axes, but input 0 has rank %d",
                         count, from->rank);
    }
    bool marks[OP_MAX_RANK] = {false}, known = count >= 0;
    if (known && axes_given) {
        status = op_input_axes(call, 3, from->rank, marks, &known, report);
        if (status != BASE_OK) return status;
    }
    if (!known) {
        op_shape unknown = op_shape_of_rank(from->rank);
        op_output_set(call, 0, type->dtype, &unknown);
        return BASE_OK;
    }
    op_shape shape = *from;
    int64_t first = 0, stride = 1; /* of the slice of a vector */
    bool exact = true;
    for (int64_t i = 0; i < count; i++) {
        int64_t value = i, start, end, step = 1;
        int32_t axis;
        if (axes_given) op_input_integer(call, 3, i, &value);
        op_axis(value, from->rank, &axis);
        if (steps_given && !op_input_integer(call, 4, i, &step)) {
            shape.dims[axis] = OP_DIM_UNKNOWN;
            exact = false;
            continue;
        }
        if (step == 0)
            return base_fail(report, BASE_INVALID, "the step of axis %d is 0, expected another number", axis);
        int64_t extent = from->dims[axis];
        if (extent >= 0 && op_input_integer(call, 1, i, &start) && op_input_integer(call, 2, i, &end)) {
            slice_resolve(extent, start, end, step, &first, &shape.dims[axis]);
            stride = step;
        } else {
            shape.dims[axis] = slice_dim(call, extent, i, step);
            exact = false;
        }
    }
    op_output_set(call, 0, type->dtype, &shape);

    int64_t kept;
    int64_t *values = exact && op_input_count(call, 0) >= 0 ? op_output_symbolic(call, &kept) : NULL;
    if (!values) return BASE_OK;
    for (int64_t i = 0; i < kept; i++) values[i] = op_input_dim(call, 0, first + i * stride);
    op_output_symbolic_end(call, values, kept);
    return BASE_OK;
}

/* Part `index` of an extent in as many parts as there are outputs, all but the last of one size. */
static int64_t counted_part(const op_call *call, int64_t extent, uint32_t index) {
    const int64_t count = (int64_t)call->output_count;
    if (count == 1 || extent == OP_DIM_UNKNOWN) return extent;
    const int64_t part = op_dim_compute(call, '^', extent, count);
    if (extent < 0) return index == 0 ? part : OP_DIM_UNKNOWN;
    const int64_t left = extent - part * (int64_t)index;
    return left < 0 ? 0 : left < part ? left : part;
}

base_status op_infer_split(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    bool given = op_input_present(call, 1);
    if (status == BASE_OK && given) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK && given) status = op_check_vector(call, 1, false, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    if (type->shape.rank < 0) {
        for (uint32_t i = 0; i < call->output_count; i++) op_output_set(call, i, type->dtype, NULL);
        return BASE_OK;
    }
    int32_t axis;
    status = op_attribute_axis(call, 0, type->shape.rank, &axis, report);
    if (status != BASE_OK) return status;
    int64_t extent = type->shape.dims[axis], sum = 0;
    bool known = true;
    /* With num_outputs the parts are as large as the extent over their number, rounded up; what is left is the last one. */
    const bool counted = op_attribute_find(&call->attributes, "num_outputs") != NULL;
    if (given && counted) {
        return base_fail(report, BASE_INVALID, "input 1 and attribute \"num_outputs\" exclude each other");
    }
    if (given) {
        const op_shape *vector = &call->inputs[1].type.shape;
        if (vector->rank == 1 && vector->dims[0] >= 0 && vector->dims[0] != (int64_t)call->output_count) {
            return base_fail(report, BASE_INVALID,
                             "input 1 has %" PRId64 " elements, expected %u, the number of outputs",
                             vector->dims[0], call->output_count);
        }
    } else if (counted) {
        if (op_attribute_integer(&call->attributes, "num_outputs", 0) != (int64_t)call->output_count) {
            return base_fail(report, BASE_INVALID,
                             "attribute \"num_outputs\" is %" PRId64 ", expected %u, the number of outputs",
                             op_attribute_integer(&call->attributes, "num_outputs", 0), call->output_count);
        }
    } else if (extent >= 0 && extent % call->output_count != 0) {
        return base_fail(report, BASE_INVALID,
                         "axis %d has extent %" PRId64 ", expected a multiple of the %u outputs", axis,
                         extent, call->output_count);
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        op_shape shape = type->shape;
        int64_t value;
        if (counted) {
            shape.dims[axis] = counted_part(call, extent, i);
        } else if (!given) {
            shape.dims[axis] = call->output_count == 1 ? extent
                               : extent == OP_DIM_UNKNOWN
                                   ? extent
                                   : op_dim_compute(call, '/', extent, (int64_t)call->output_count);
        } else if (op_input_integer(call, 1, i, &value)) {
            if (value < 0)
                return base_fail(report, BASE_INVALID, "part %u has extent %" PRId64 ", expected at least 0",
                                 i, value);
            if (!base_int64_add(sum, value, &sum)) known = false;
            shape.dims[axis] = value;
        } else {
            shape.dims[axis] = op_input_dim(call, 1, i);
            known = false;
        }
        op_output_set(call, i, type->dtype, &shape);
    }
    if (given && known && extent >= 0 && sum != extent) {
        return base_fail(report, BASE_INVALID,
                         "the parts have %" PRId64 " elements together, but axis %d has %" PRId64, sum, axis,
                         extent);
    }
    return BASE_OK;
}

base_status op_infer_concat(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    for (uint32_t i = 1; i < call->input_count && status == BASE_OK; i++)
        status = op_check_same(call, i, 0, report);
    if (status != BASE_OK) return status;
    op_dtype dtype = call->inputs[0].type.dtype;
    if (!op_attribute_find(&call->attributes, "axis")) {
        return base_fail(report, BASE_INVALID, "attribute \"axis\" is absent");
    }
    int32_t rank = -1, axis;
    for (uint32_t i = 0; i < call->input_count; i++) {
        int32_t of = call->inputs[i].type.shape.rank;
        if (of < 0) continue;
        if (rank >= 0 && of != rank) {
            return base_fail(report, BASE_INVALID, "input %u has rank %d, expected %d as the others", i, of,
                             rank);
        }
        rank = of;
    }
    if (rank < 0) {
        op_output_set(call, 0, dtype, NULL);
        return BASE_OK;
    }
    status = op_attribute_axis(call, 0, rank, &axis, report);
    if (status != BASE_OK) return status;
    op_shape shape = op_shape_of_rank(rank);
    shape.dims[axis] = 0;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_shape *part = &call->inputs[i].type.shape;
        if (part->rank < 0) {
            shape.dims[axis] = OP_DIM_UNKNOWN;
            continue;
        }
        for (int32_t k = 0; k < rank; k++) {
            int64_t dim = part->dims[k], *joined = &shape.dims[k];
            if (k == axis) {
                if (*joined == OP_DIM_UNKNOWN || dim == OP_DIM_UNKNOWN) {
                    *joined = OP_DIM_UNKNOWN;
                } else if (*joined >= 0 && dim >= 0) {
                    if (!base_int64_add(*joined, dim, joined)) {
                        return base_fail(report, BASE_INVALID,
                                         "the extents of axis %d add up to too large a number", axis);
                    }
                } else {
                    *joined = *joined == 0 ? dim
                              : dim == 0   ? *joined
                                           : op_dim_compute(call, '+', *joined, dim);
                }
            } else if (*joined >= 0 && dim >= 0 && *joined != dim) {
                return base_fail(report, BASE_INVALID,
                                 "input %u has extent %" PRId64 " on axis %d, expected %" PRId64
                                 " as the others",
                                 i, dim, k, *joined);
            } else if (*joined == OP_DIM_UNKNOWN || (*joined < 0 && dim >= 0)) {
                *joined = dim; /* the most that any input says */
            }
        }
    }
    op_output_set(call, 0, dtype, &shape);

    if (rank != 1) return BASE_OK;
    int64_t count, next = 0;
    int64_t *values = op_output_symbolic(call, &count);
    if (!values) return BASE_OK;
    for (uint32_t i = 0; i < call->input_count; i++) {
        int64_t of = op_input_count(call, i);
        for (int64_t k = 0; k < of && next < count; k++) values[next++] = op_input_dim(call, i, k);
    }
    op_output_symbolic_end(call, values, count);
    return BASE_OK;
}

base_status op_infer_gather(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET_INDICES, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    const op_shape *from = &type->shape, *indices = &call->inputs[1].type.shape;
    if (from->rank < 0) {
        op_output_set(call, 0, type->dtype, NULL);
        return BASE_OK;
    }
    int32_t axis;
    status = op_attribute_axis(call, 0, from->rank, &axis, report);
    if (status != BASE_OK) return status;
    if (indices->rank < 0) {
        op_output_set(call, 0, type->dtype, NULL);
        return BASE_OK;
    }
    if (from->rank - 1 + indices->rank > OP_MAX_RANK) {
        return base_fail(report, BASE_INVALID, "the result would have rank %d, expected at most %d",
                         from->rank - 1 + indices->rank, OP_MAX_RANK);
    }
    op_shape shape = {.rank = 0};
    for (int32_t i = 0; i < axis; i++) shape.dims[shape.rank++] = from->dims[i];
    for (int32_t i = 0; i < indices->rank; i++) shape.dims[shape.rank++] = indices->dims[i];
    for (int32_t i = axis + 1; i < from->rank; i++) shape.dims[shape.rank++] = from->dims[i];
    op_output_set(call, 0, type->dtype, &shape);

    int64_t count, extent = op_input_count(call, 0);
    int64_t *values = extent >= 0 && op_input_count(call, 1) >= 0 ? op_output_symbolic(call, &count) : NULL;
    if (!values) return BASE_OK;
    for (int64_t i = 0; i < count; i++) {
        int64_t index;
        values[i] = OP_DIM_UNKNOWN;
        if (!op_input_integer(call, 1, i, &index)) continue;
        if (index < -extent || index >= extent) {
            return base_fail(report, BASE_INVALID,
                             "index %" PRId64 " is outside of [%" PRId64 ", %" PRId64 ")", index, -extent,
                             extent);
        }
        values[i] = op_input_dim(call, 0, index < 0 ? index + extent : index);
    }
    op_output_symbolic_end(call, values, count);
    return BASE_OK;
}

/* ---- repetition ------------------------------------------------------------------------------------------
 */

base_status op_infer_expand(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    op_shape wanted, shape;
    status = op_input_shape(call, 1, &wanted, report);
    if (status != BASE_OK) return status;
    if (!op_shape_broadcast(call, &type->shape, &wanted, &shape)) {
        char left[160], right[160];
        return base_fail(report, BASE_INVALID, "shape %s cannot be broadcast with %s",
                         op_shape_text(&type->shape, left, sizeof left),
                         op_shape_text(&wanted, right, sizeof right));
    }
    op_output_set(call, 0, type->dtype, &shape);
    return BASE_OK;
}

base_status op_infer_tile(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_ANY, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK) status = op_check_vector(call, 1, false, report);
    if (status != BASE_OK) return status;
    const op_type *type = &call->inputs[0].type;
    const op_shape *vector = &call->inputs[1].type.shape;
    op_shape shape = type->shape;
    if (shape.rank >= 0) {
        if (vector->rank == 1 && vector->dims[0] >= 0 && vector->dims[0] != shape.rank) {
            return base_fail(report, BASE_INVALID,
                             "input 1 has %" PRId64 " elements, expected %d, the rank of input 0",
                             vector->dims[0], shape.rank);
        }
        for (int32_t i = 0; i < shape.rank; i++) {
            int64_t value;
            if (op_input_integer(call, 1, i, &value) && value < 0) {
                return base_fail(report, BASE_INVALID,
                                 "axis %d is repeated %" PRId64 " times, expected at least 0", i, value);
            }
            int64_t times = op_input_dim(call, 1, i), dim = shape.dims[i];
            if (times == 1) continue;
            if (times >= 0 && dim >= 0) {
                if (!base_int64_multiply(dim, times, &shape.dims[i])) {
                    return base_fail(report, BASE_INVALID, "axis %d becomes too large", i);
                }
            } else {
                bool unknown = times == OP_DIM_UNKNOWN || dim == OP_DIM_UNKNOWN;
                shape.dims[i] = dim == 1  ? times
                                : unknown ? OP_DIM_UNKNOWN
                                          : op_dim_compute(call, '*', dim, times);
            }
        }
    }
    op_output_set(call, 0, type->dtype, &shape);
    return BASE_OK;
}

/* What is known of the pads of axis `axis`: false where nothing is. */
static bool pads_of(const op_call *call, int32_t axis, int32_t rank, int64_t *before, int64_t *after) {
    int64_t count = rank, at = axis;
    if (op_input_present(call, 3)) {
        count = op_input_count(call, 3);
        at = -1;
        if (count < 0) return false;
        for (int64_t k = 0; k < count; k++) {
            int64_t value;
            int32_t named;
            if (!op_input_integer(call, 3, k, &value) || !op_axis(value, rank, &named)) return false;
            if (named == axis) at = k;
        }
        if (at < 0) { /* an axis that is not named stays as it is */
            *before = *after = 0;
            return true;
        }
    }
    return op_input_integer(call, 1, at, before) && op_input_integer(call, 1, at + count, after);
}

static base_status check_pad(const op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_STORED, report);
    if (status == BASE_OK) status = op_check_input(call, 1, OP_SET(OP_INT64), report);
    if (status == BASE_OK) status = op_check_vector(call, 1, false, report);
    if (status == BASE_OK && op_input_present(call, 2)) status = op_check_same(call, 2, 0, report);
    if (status == BASE_OK && op_input_present(call, 3)) {
        status = op_check_input(call, 3, OP_SET_INDICES, report);
        if (status == BASE_OK) status = op_check_vector(call, 3, false, report);
    }
    if (status != BASE_OK) return status;
    const int32_t rank = call->inputs[0].type.shape.rank;
    const op_shape *vector = &call->inputs[1].type.shape;
    int64_t count = rank;
    if (op_input_present(call, 3)) {
        bool marks[OP_MAX_RANK], known;
        if (rank >= 0) status = op_input_axes(call, 3, rank, marks, &known, report);
        if (status != BASE_OK) return status;
        const op_shape *axes = &call->inputs[3].type.shape;
        count = axes->rank == 1 ? axes->dims[0] : -1;
    }
    if (rank < 0 || count < 0 || vector->rank != 1 || vector->dims[0] < 0 || vector->dims[0] == 2 * count)
        return BASE_OK;
    return base_fail(report, BASE_INVALID,
                     "input 1 has %" PRId64 " elements, expected %" PRId64 ", twice the %s", vector->dims[0],
                     2 * count, op_input_present(call, 3) ? "number of axes" : "rank of input 0");
}

base_status op_infer_pad(op_call *call, base_report *report) {
    base_status status = check_pad(call, report);
    if (status != BASE_OK) return status;
    bool constant = op_attribute_is(&call->attributes, "mode", "constant", "constant");
    bool reflect = op_attribute_is(&call->attributes, "mode", "reflect", "constant");
    bool edge = op_attribute_is(&call->attributes, "mode", "edge", "constant");
    bool wrap = op_attribute_is(&call->attributes, "mode", "wrap", "constant");
    if (!constant && !reflect && !edge && !wrap) {
        return base_fail(report, BASE_INVALID, "attribute \"mode\" is not constant, reflect, edge or wrap");
    }
    int64_t elements;
    if (op_input_present(call, 2) && op_shape_elements(&call->inputs[2].type.shape, &elements) &&
        elements != 1) {
        return base_fail(report, BASE_INVALID, "input 2 has %" PRId64 " elements, expected a scalar",
                         elements);
    }
    const op_type *type = &call->inputs[0].type;
    op_shape shape = type->shape;
    if (shape.rank >= 0) {
        for (int32_t i = 0; i < shape.rank; i++) {
            int64_t before, after, dim = shape.dims[i];
            if (!pads_of(call, i, shape.rank, &before, &after)) {
                shape.dims[i] = OP_DIM_UNKNOWN;
                continue;
            }
            int64_t added;
            if (!base_int64_add(before, after, &added)) {
                return base_fail(report, BASE_INVALID, "the pads of axis %d are too large", i);
            }
            if (added == 0 && dim < 0) continue;
            if (dim < 0) {
                if (dim == OP_DIM_UNKNOWN) continue;
                shape.dims[i] = added > 0           ? op_dim_compute(call, '+', dim, added)
                                : added > INT64_MIN ? op_dim_compute(call, '-', dim, -added)
                                                    : OP_DIM_UNKNOWN;
                continue;
            }
            int64_t padded;
            if (!base_int64_add(dim, added, &padded) || padded < 0) {
                return base_fail(report, BASE_INVALID,
                                 "pads %" PRId64 " and %" PRId64 " of axis %d do not fit its extent %" PRId64,
                                 before, after, i, dim);
            }
            /* Negative pads cut first. Reflection then reaches back at most to the other end of what is left,
             * and an edge needs an element to repeat. */
            int64_t left = dim + (before < 0 ? before : 0) + (after < 0 ? after : 0);
            bool beyond = reflect && ((before > 0 && before >= left) || (after > 0 && after >= left));
            beyond = beyond || ((edge || wrap) && left <= 0 && (before > 0 || after > 0));
            if (left < 0 || beyond) {
                return base_fail(report, BASE_INVALID,
                                 "pads %" PRId64 " and %" PRId64 " of axis %d do not fit its extent %" PRId64,
                                 before, after, i, dim);
            }
            shape.dims[i] = padded;
        }
    }
    op_output_set(call, 0, type->dtype, &shape);
    return BASE_OK;
}

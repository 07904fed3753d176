/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: the operator table, made of ops.def; look-up by name; inference of one application. See op.h.
 */
#include "ir/operators/op.h"
#include "ir/operators/chosen.h"

#include <string.h>

/* clang-format off */
static const op_schema rows[OP_CODE_COUNT] = {
    [OP_CODE_NONE] = {OP_CODE_NONE, "none", "ouro", 1, 0, 0, 0, 0, "", NULL, 0, OP_VIEW_NONE, 0,
                      OP_FAMILY_NONE},
#define OP(code, name, domain, since, imin, imax, omin, omax, attributes, infer, in_place, view, flags,      \
           kernel, family)                                                                                   \
    [OP_##code] = {OP_##code, name, domain, since, imin, imax, omin, omax, attributes,                       \
                   OP_CHOSEN(code, op_infer_##infer), in_place, view, flags, OP_FAMILY_##family},
#include "ir/operators/ops.def"
#undef OP
};
/* clang-format on */

const op_schema *op_schema_of(op_code code) {
    return (unsigned)code < OP_CODE_COUNT ? &rows[code] : &rows[OP_CODE_NONE];
}

bool op_may_write_over(const op_schema *schema, uint64_t output, uint64_t input) {
    const uint64_t states = schema->in_place >> 24;
    if (output == 0) return input < 24 && schema->in_place & OP_IN_PLACE(input);
    return states && input == states + output - 1;
}

bool op_takes_attribute(op_code code, const char *name) {
    const size_t length = strlen(name);
    const char *const all = op_schema_of(code)->attributes;
    for (const char *at = all; (at = strstr(at, name)); at += length)
        if ((at == all || at[-1] == ' ') && at[length] == ':') return true;
    return false;
}

/* A chain over all rows that compares lengths before bytes: every length is a constant, so the chain costs
 * one integer comparison a row and the compiler unrolls the few byte comparisons; no table to build or to
 * keep sorted beside ops.def. */
op_code op_code_from_name(const char *domain, const char *name) {
    size_t domain_length = domain ? strlen(domain) : 0, length = strlen(name);
#define OP(code, text, home, ...)                                                                            \
    if (length == sizeof text - 1 && domain_length == sizeof home - 1 &&                                     \
        memcmp(name, text, sizeof text - 1) == 0 &&                                                          \
        (domain_length == 0 || memcmp(domain, home, sizeof home - 1) == 0))                                  \
        return OP_##code;
#include "ir/operators/ops.def"
#undef OP
    return OP_CODE_NONE;
}

/* "2", "1 to 3" or "at least 1" of inputs or outputs: what would be accepted. */
static base_status fail_count(const op_schema *row, const char *what, uint32_t count, int minimum,
                              int maximum, base_report *report) {
    if (maximum < 0) {
        return base_fail(report, BASE_INVALID, "%u %s given, %s takes at least %d", count, what, row->name,
                         minimum);
    }
    if (minimum == maximum) {
        return base_fail(report, BASE_INVALID, "%u %s given, %s takes %d", count, what, row->name, minimum);
    }
    return base_fail(report, BASE_INVALID, "%u %s given, %s takes %d to %d", count, what, row->name, minimum,
                     maximum);
}

/* Kernels multiply extents one by one, for strides: also where one of them is zero the others must not
 * overflow, nor while some are not known yet. */
static base_status check_extents(const op_tensor *tensors, uint32_t count, const char *what,
                                 base_report *report) {
    for (uint32_t i = 0; i < count; i++) {
        const op_shape *shape = &tensors[i].type.shape;
        int64_t product = 1;
        for (int32_t d = 0; d < shape->rank; d++) {
            if (shape->dims[d] <= 0 || base_int64_multiply(product, shape->dims[d], &product)) continue;
            char text[256];
            return base_fail(report, BASE_INVALID, "%s %u is %s: too large", what, i,
                             op_type_print(&tensors[i].type, text, sizeof text));
        }
    }
    return BASE_OK;
}

base_status op_infer(op_call *call, base_report *report) {
    const op_schema *row = op_schema_of(call->code);
    if (row->code == OP_CODE_NONE)
        return base_fail(report, BASE_INVALID, "operator number %d does not exist", (int)call->code);
    if (!row->infer)
        return base_fail_unsupported(report, "this build has no operator %s (OURO_OPERATORS)", row->name);
    if (call->input_count < (uint32_t)row->input_minimum ||
        (row->input_maximum >= 0 && call->input_count > (uint32_t)row->input_maximum)) {
        return fail_count(row, "inputs", call->input_count, row->input_minimum, row->input_maximum, report);
    }
    if (call->output_count < (uint32_t)row->output_minimum ||
        (row->output_maximum >= 0 && call->output_count > (uint32_t)row->output_maximum)) {
        return fail_count(row, "outputs", call->output_count, row->output_minimum, row->output_maximum,
                          report);
    }
    uint32_t required = row->input_maximum < 0 ? call->input_count : (uint32_t)row->input_minimum;
    for (uint32_t i = 0; i < required; i++) {
        if (op_input_present(call, i)) continue;
        return base_fail(report, BASE_INVALID, "input %u is absent or of no known type, %s needs it", i,
                         row->name);
    }
    base_status status = check_extents(call->inputs, call->input_count, "input", report);
    if (status == BASE_OK) status = row->infer(call, report);
    return status == BASE_OK ? check_extents(call->outputs, call->output_count, "output", report) : status;
}

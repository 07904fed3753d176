/* SPDX-License-Identifier: Apache-2.0 */
/* shorten_indices.c: tuples of constant indices that go through a whole axis name its slices instead.
 *
 *     %y = ScatterND(%x, %i, %u)        %x: [16,33], %i: int64[4,33,2] = {4,0}, {4,1}, ... {4,32}, {5,0}, ... {7,32}
 *  => %y = ScatterND(%x, %s, %u)                     %s: int64[4,1]    = {4}, {5}, {6}, {7}
 *
 * Exporters write x[:, 4:8] = u with an index for each element; so it is four rows that are copied. The same for GatherND.
 */
#include "passes/graph/graph.h"
#include <string.h>

/* The indices as a matrix of tuples, those of the last axis but one together. */
typedef struct tuples {
    const int64_t *data;
    int64_t groups, across, length; /* groups of `across` tuples of `length` numbers */
} tuples;

/* In each group the first numbers of all tuples are the same, and the last ones count through an axis of this extent. */
static bool counts_through(const tuples *t, int64_t extent) {
    if (t->across < 1 || t->across != extent || t->length < 2) return false;
    for (int64_t g = 0; g < t->groups; g++) {
        const int64_t *first = t->data + g * t->across * t->length;
        for (int64_t i = 0; i < t->across; i++) {
            const int64_t *tuple = first + i * t->length;
            if (tuple[t->length - 1] != i ||
                memcmp(tuple, first, (size_t)(t->length - 1) * sizeof *tuple) != 0)
                return false;
        }
    }
    return true;
}

/* The numbers of one tuple of each group but the last of them. */
static ir_value *drop_last(pass_context *context, const ir_value *indices, const tuples *t) {
    op_type type = indices->type;
    type.shape.rank--;
    type.shape.dims[type.shape.rank - 1] = t->length - 1;
    const size_t length = (size_t)(t->length - 1) * sizeof *t->data, bytes = (size_t)t->groups * length;
    void *made;
    ir_value *shorter = ir_constant_reserve(context->module, indices->name, &type, bytes, &made);
    for (int64_t g = 0; shorter && g < t->groups; g++)
        memcpy((char *)made + (size_t)g * length, t->data + g * t->across * t->length, length);
    return shorter;
}

base_status pass_shorten_indices(pass_context *context, ir_node *node) {
    if ((node->code != OP_SCATTER_ND && node->code != OP_GATHER_ND) ||
        op_attribute_integer(&node->attributes, "batch_dims", 0) != 0)
        return BASE_OK;
    for (;;) {
        const ir_value *data = ir_input(node, 0), *indices = ir_input(node, 1);
        if (!data || !indices || !indices->constant || !indices->constant->tensor.data ||
            indices->type.dtype != OP_INT64)
            return BASE_OK;
        const op_shape *shape = &indices->type.shape, *whole = &data->type.shape;
        tuples t = {.data = indices->constant->tensor.data, .groups = 1};
        if (shape->rank < 2 || !op_shape_known(shape)) return BASE_OK;
        t.length = shape->dims[shape->rank - 1];
        t.across = shape->dims[shape->rank - 2];
        for (int32_t d = 0; d < shape->rank - 2; d++) t.groups *= shape->dims[d];
        if (t.length > whole->rank || t.length < 1 || t.groups == 0 ||
            !counts_through(&t, whole->dims[t.length - 1]))
            return BASE_OK;
        ir_value *shorter = drop_last(context, indices, &t);
        if (!shorter || !ir_node_set_input(node, 1, shorter)) return base_fail_memory(context->report);
    }
}

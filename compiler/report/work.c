/* SPDX-License-Identifier: Apache-2.0 */
/* work.c: see compiler/report/work.h. */
#include "compiler/report/work.h"

/* The types of a list of tensors, with dimensions that only a run knows as 1. */
static bool read_tensors(const plan *of, uint64_t first, uint64_t count, base_arena *arena,
                         op_tensor **tensors) {
    *tensors = BASE_ARRAY(arena, op_tensor, count ? count : 1);
    for (uint64_t i = 0; *tensors && i < count; i++) {
        const uint32_t id = of->tensor_ids[first + i];
        if (id == PLAN_ABSENT) continue;
        op_tensor *tensor = &(*tensors)[i];
        plan_tensor_type(of, id, &tensor->type);
        tensor->bytes = of->tensors[id].bytes;
        for (int32_t d = 0; d < tensor->type.shape.rank; d++) {
            if (tensor->type.shape.dims[d] < 0) tensor->type.shape.dims[d] = 1;
        }
        if (!tensor->bytes && tensor->type.kind == OP_KIND_TENSOR)
            (void)op_type_bytes(&tensor->type, &tensor->bytes);
    }
    return *tensors != NULL;
}

static double elements(const op_call *call, bool output, uint32_t index) {
    if (index >= (output ? call->output_count : call->input_count)) return 0;
    const op_tensor *tensor = output ? &call->outputs[index] : &call->inputs[index];
    if (tensor->type.dtype == OP_NONE || tensor->type.shape.rank < 0) return 0;
    double product = 1;
    for (int32_t d = 0; d < tensor->type.shape.rank; d++) product *= (double)tensor->type.shape.dims[d];
    return product;
}

static double extent(const op_call *call, uint32_t input, int32_t axis) {
    if (input >= call->input_count) return 1;
    const op_shape *shape = &call->inputs[input].type.shape;
    if (axis < 0) axis += shape->rank;
    return axis >= 0 && axis < shape->rank && shape->dims[axis] > 0 ? (double)shape->dims[axis] : 1;
}

/* How many products are summed for each element of the result. */
static double product_depth(const op_call *call) {
    op_shape left;
    switch (call->code) {
    case OP_GEMM:
        return extent(call, 0, op_attribute_integer(&call->attributes, "transA", 0) ? 0 : 1);
    case OP_MATMUL:
        if (op_matmul_operand(call, 0, &left, NULL) && left.rank > 0) return (double)left.dims[left.rank - 1];
        return 1;
    default:
        return extent(call, 0, -1);
    }
}

static double largest(const op_call *call) {
    double most = 0;
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (elements(call, false, i) > most) most = elements(call, false, i);
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (elements(call, true, i) > most) most = elements(call, true, i);
    }
    return most;
}

/* The sum over j from 1 to `count` of the smaller one of j and `most`. */
static double limited_sum(double count, double most) {
    if (count <= 0) return 0;
    return count <= most ? count * (count + 1) / 2 : most * (most + 1) / 2 + (count - most) * most;
}

/* How many keys the queries of one head see together, as far as can be told before a run: of a cache they are the last ones, and a mask hides nothing. */
static double seen_pairs(const op_call *call, double queries, double keys) {
    const double window = (double)op_attribute_integer(&call->attributes, "ouro.window", 0);
    if (!op_attribute_integer(&call->attributes, "is_causal", 0)) return queries * keys;
    const double offset = op_input_present(call, 5) && keys > queries ? keys - queries : 0;
    const double seen = limited_sum(queries + offset, keys) - limited_sum(offset, keys);
    if (window <= 0) return seen;
    return seen - (limited_sum(queries + offset - window, keys) - limited_sum(offset - window, keys));
}

/* Each query times each key that it sees, and each weight times a value. */
static double attention_operations(const op_call *call) {
    const bool turned = op_attribute_integer(&call->attributes, "ouro.turned", 0) >> 1 & 1;
    const double keys = turned ? extent(call, 1, 0) : extent(call, 1, -2), queries = extent(call, 0, -2);
    return 2 * (elements(call, false, 0) + elements(call, true, 0)) / queries *
           seen_pairs(call, queries, keys);
}

static double operations(const op_call *call) {
    const double result = elements(call, true, 0);
    switch (call->code) {
    case OP_ATTENTION:
        return attention_operations(call);
    case OP_CONV:
    case OP_SHUFFLED_CONV:
    case OP_CONV_INTEGER:
        return 2 * result * elements(call, false, 1) / extent(call, 1, 0);
    case OP_QLINEAR_CONV:
        return 2 * result * elements(call, false, 3) / extent(call, 3, 0);
    case OP_CONV_TRANSPOSE:
        return 2 * elements(call, false, 0) * elements(call, false, 1) / extent(call, 1, 0);
    case OP_LSTM:
    case OP_GRU:
    case OP_RNN: /* each step and batch: a product with both matrices */
        return 2 * extent(call, 0, 0) * extent(call, 0, 1) *
               (elements(call, false, 1) + elements(call, false, 2));
    default:
        break;
    }
    if (op_schema_of(call->code)->family == OP_FAMILY_PRODUCT) return 2 * result * product_depth(call);
    return largest(call);
}

bool emit_work_of_node(const plan *of, uint32_t number, base_arena *arena, work *result) {
    const plan_node *node = &of->nodes[number];
    op_tensor *inputs, *outputs;
    *result = (work){0};
    if (node->graph_count || (node->flags & PLAN_NODE_ALIAS)) return true;
    op_call call = {.code = plan_node_code(of, node),
                    .input_count = (uint32_t)node->input_count,
                    .output_count = (uint32_t)node->output_count};
    if (!plan_node_attributes(of, node, arena, &call.attributes) ||
        !read_tensors(of, node->inputs, node->input_count, arena, &inputs) ||
        !read_tensors(of, node->outputs, node->output_count, arena, &outputs))
        return false;
    call.inputs = inputs;
    call.outputs = outputs;
    double read = 0, written = 0;
    for (uint64_t i = 0; i < node->input_count; i++) read += (double)inputs[i].bytes;
    for (uint64_t i = 0; i < node->output_count; i++) written += (double)outputs[i].bytes;
    if (op_schema_of(call.code)->family == OP_FAMILY_MOVEMENT) {
        result->bytes = 2 * written;
    } else {
        result->operations = operations(&call);
        result->bytes = read + written;
    }
    return true;
}

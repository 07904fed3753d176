/* SPDX-License-Identifier: Apache-2.0 */
/* sink_scans.c: what is made element by element only to be scanned is made in the loop, a slice at a time.
 *
 *     %e = Exp(Mul(%d, %a))  loop(%n, %e) { graph body(%i, %c, %s) { ... %s ... } }       %d: float32[100,256,1], %a: float32[256,16]
 *  => loop(%n, %d) { graph body(%i, %c, %s) { %t = Exp(Mul(%s, %a)) ... %t ... } }
 *
 * The tensor of all slices is no longer made: it would take memory for as long as the loop runs, and be written and read again. A
 * slice stays in the first-level cache, and its operators are fused with those of the body. Only where
 *   - what is scanned instead takes fewer bytes: something is broadcast along the way;
 *   - a slice has so many elements that an iteration does not notice another node;
 *   - nobody else reads what would be gone, and it is made in the graph in which the loop stands: not more often than before.
 *
 * Needs: types; layouts are all row-major yet. Breaks: nothing. Guarantees: values stay what they were, bit by bit.
 */
#include "ir/operators/fused.h"
#include "passes/loops/loops.h"
#include "passes/loops/scans.h"

enum { LEAST_ELEMENTS = 256, DEEPEST = 16 };

/* How an operand of what is scanned lies along the axis of the slices, whose extent may have a name only. */
typedef enum operand_kind { NO_SUCH_AXIS, ONE_ALONG_AXIS, SLICED, NOT_SLICEABLE } operand_kind;

static operand_kind kind_of(const ir_value *operand, const op_shape *whole, int32_t axis, int32_t *own) {
    const op_shape *shape = &operand->type.shape;
    *own = axis - (whole->rank - shape->rank);
    if (operand->type.kind != OP_KIND_TENSOR || shape->rank < 0 || shape->rank > whole->rank)
        return NOT_SLICEABLE;
    for (int32_t d = 0; d < shape->rank; d++)
        if (d != *own && shape->dims[d] < 0) return NOT_SLICEABLE;
    if (*own < 0) return NO_SUCH_AXIS;
    if (shape->dims[*own] == 1) return ONE_ALONG_AXIS;
    return shape->dims[*own] == whole->dims[axis] && whole->dims[axis] != OP_DIM_UNKNOWN ? SLICED
                                                                                         : NOT_SLICEABLE;
}

static bool bytes_of_slice(const ir_value *value, int32_t axis, size_t *bytes) {
    const op_type slice = loop_scan_slice_type(&value->type, axis);
    return op_type_bytes(&slice, bytes);
}

/* All uses of the value are inputs of this node. */
static bool is_read_by(const ir_value *value, const ir_node *node) {
    for (const ir_use *use = value->uses; use; use = use->next)
        if (use->node != node) return false;
    return true;
}

/* The value is made by an operator of which the slices of `reader`'s input can be made one by one. */
static bool can_sink(const ir_value *value, const ir_node *reader, int32_t axis) {
    const ir_node *node = value->node;
    if (!node || node->graph != reader->graph || node->output_count != 1 || !is_read_by(value, reader) ||
        node->code == OP_QUANTIZE_LINEAR || node->code == OP_DEQUANTIZE_LINEAR || !op_is_fusible(node->code))
        return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        int32_t own;
        if (input && kind_of(input, &value->type.shape, axis, &own) == NOT_SLICEABLE) return false;
    }
    return true;
}

/* The fewest bytes that have to be scanned for a slice of the value. */
static size_t least_bytes(const ir_value *value, const ir_node *reader, int32_t axis, int deep);

static size_t bytes_of_operands(const ir_value *value, const ir_node *reader, int32_t axis, int deep) {
    size_t sum = 0;
    if (deep == DEEPEST || !can_sink(value, reader, axis)) return SIZE_MAX;
    for (uint32_t i = 0; i < value->node->input_count; i++) {
        const ir_value *input = ir_input(value->node, i);
        int32_t own;
        bool again = false;
        for (uint32_t k = 0; k < i; k++) again |= ir_input(value->node, k) == input;
        if (!input || again || kind_of(input, &value->type.shape, axis, &own) != SLICED) continue;
        const size_t some = least_bytes(input, value->node, own, deep + 1);
        if (!base_size_add(sum, some, &sum)) return SIZE_MAX;
    }
    return sum ? sum : SIZE_MAX; /* something must be scanned */
}

static size_t least_bytes(const ir_value *value, const ir_node *reader, int32_t axis, int deep) {
    size_t bytes;
    if (!bytes_of_slice(value, axis, &bytes)) return SIZE_MAX;
    const size_t sunk = bytes_of_operands(value, reader, axis, deep);
    return sunk < bytes ? sunk : bytes;
}

/* ---- what is done -------------------------------------------------------------------------------------- */

/* An operand of which every slice is the same, as the body sees it: without the axis. */
static ir_value *without_axis(pass_context *context, const ir_loop *loop, ir_value *operand, int32_t axis) {
    const op_type type = loop_scan_slice_type(&operand->type, axis);
    const int64_t at = axis;
    const op_type one = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {1}}};
    if (operand->constant && operand->constant->tensor.data)
        return ir_constant_copy(context->module, operand->name, &type, operand->constant->tensor.data,
                                operand->constant->tensor.bytes);
    ir_value *inputs[] = {operand, ir_constant_copy(context->module, "axis", &one, &at, sizeof at)};
    ir_node *before = loop->body->owner;
    ir_node *node = inputs[1] ? ir_node_new(before->graph, before, OP_SQUEEZE, before->name, before->path,
                                            (op_attributes){0}, 2, inputs)
                              : NULL;
    return node ? ir_node_add_output(node, operand->name, &type) : NULL;
}

/* A slice of the operand, in the body. */
static ir_value *operand_slice(pass_context *context, ir_node *owner, ir_value *operand,
                               const op_shape *whole, int32_t axis, bool backwards) {
    const ir_loop loop = ir_loop_of(owner);
    int32_t own;
    ir_value *slice;
    switch (kind_of(operand, whole, axis, &own)) {
    case NO_SUCH_AXIS:
        return operand;
    case ONE_ALONG_AXIS:
        return without_axis(context, &loop, operand, own);
    default:
        slice = loop_scan_find(&loop, operand, own, backwards);
        return slice ? slice : loop_scan_add(context, &loop, operand, own, backwards);
    }
}

/* Scanned tensor `index`, which an elementwise operator makes, is made in the body before `before`, which is NULL where that is its end: the
 * first operand that has slices is scanned in its place. Returns the node in the body; NULL when memory runs out. */
static ir_node *sink(pass_context *context, ir_node *owner, uint32_t index, ir_node *before) {
    const ir_loop loop = ir_loop_of(owner);
    const ir_loop_slices s = ir_loop_scan(&loop, index);
    ir_node *maker = s.whole->node;
    const op_type whole = s.whole->type, made = s.slice->type;
    ir_value *inputs[OP_FUSED_OPERANDS] = {0};
    ir_node *node =
        ir_node_new(loop.body, before, maker->code, maker->name,
                    loop.body->first ? loop.body->first->path : maker->path, maker->attributes, 0, NULL);
    ir_value *result = node ? ir_node_add_output(node, s.whole->name, &made) : NULL;
    if (!result) return NULL;
    ir_value_replace(s.slice, result);
    bool placed = false;
    for (uint32_t i = 0; i < maker->input_count; i++) {
        ir_value *input = ir_input(maker, i);
        int32_t own;
        if (!input) continue;
        if (!placed && kind_of(input, &whole.shape, s.axis, &own) == SLICED) {
            placed = true;
            if (!loop_scan_replace(context, &loop, index, input, own)) return NULL;
            inputs[i] = s.slice;
        }
    }
    for (uint32_t i = 0; i < maker->input_count; i++) {
        ir_value *input = ir_input(maker, i);
        if (!input) continue;
        if (!inputs[i]) inputs[i] = operand_slice(context, owner, input, &whole.shape, s.axis, s.backwards);
        if (!inputs[i] || !ir_node_set_input(node, i, inputs[i])) return NULL;
    }
    ir_node_remove(maker);
    return node;
}

static bool is_worth_it(const ir_loop_slices *s, const ir_node *owner) {
    int64_t elements;
    size_t bytes;
    if (s->axis < 0 || !s->whole || s->whole->type.kind != OP_KIND_TENSOR ||
        !bytes_of_slice(s->whole, s->axis, &bytes) || !op_shape_elements(&s->slice->type.shape, &elements) ||
        elements < LEAST_ELEMENTS || s->whole->uses->next)
        return false;
    return bytes_of_operands(s->whole, owner, s->axis, 0) < bytes;
}

/* One scanned tensor after another, until none can be made in the body: what is scanned instead may be made there, too. */
static base_status sink_all(pass_context *context, ir_node *owner) {
    for (uint32_t i = 0; i < ir_loop_of(owner).scanned; i++) {
        for (;;) {
            const ir_loop loop = ir_loop_of(owner);
            const ir_loop_slices s = ir_loop_scan(&loop, i);
            /* Operands of a node go before it: the body begins with them. */
            if (!is_worth_it(&s, owner)) break;
            if (!sink(context, owner, i, loop.body->first)) return base_fail_memory(context->report);
        }
    }
    return BASE_OK;
}

base_status pass_sink_scans(pass_context *context) {
    const size_t count = context->module->node_count;
    for (size_t n = 1; n < count; n++) {
        ir_node *node = context->module->nodes[n];
        ir_loop loop;
        if (!node || node->code != OP_LOOP || !ir_loop_read(node, &loop) || loop.runs) continue;
        const base_status status = sink_all(context, node);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

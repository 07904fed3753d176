/* SPDX-License-Identifier: Apache-2.0 */
/* order_channels.c: channels that are put in another order are made in it, or read in it, by convolutions whose weights are put in that order.
 *
 *     %a = Conv(%x, %w, %b)  %c = channel i of %a is channel order[i]  ...
 *  => %c = Conv(%x, filters of %w and numbers of %b in that order)  ...
 *
 *     %c = channel i of %x is channel order[i]  %y = Conv(%c, %w)
 *  => %y = Conv(%x, %w with its channels in that order)
 *
 * Such are channel shuffles (pass_read_shuffle), Gathers of all channels by constants, and Slices that turn them round, as where a model
 * takes BGR for RGB. A Conv of groups does either where its groups stay what they are. The order may go on past what works on each channel by
 * itself: pools, elementwise operators of one input, and a Conv of each channel, whose filters are put in the order too; it has to come to an end at
 * every reader then. Only constants change that nobody else reads, so that there are not more of them. Where no weights can be changed,
 * fuse_shuffles.c may help.
 *
 * Read in another order, sums are made in another order: not with exact arithmetic.
 *
 * Needs: types; activations are fused. Breaks: nothing. Guarantees: values stay what they were, up to rounding.
 */
#include "ir/operators/fused.h"
#include "ir/operators/window.h"
#include "passes/graph/graph.h"
#include <string.h>

/* How far an order goes on. */
enum { MOST_STEPS = 16 };

/* Channel i is channel from[i]. */
typedef struct order {
    const int64_t *from;
    int64_t count;
} order;

typedef struct orderer {
    pass_context *context;
    bool out_of_memory;
} orderer;

/* ---- which orders there are ---------------------------------------------------------------------------- */

static bool is_permutation(orderer *o, const int64_t *from, int64_t count) {
    bool *seen = BASE_ARRAY(o->context->scratch, bool, (size_t)count);
    o->out_of_memory |= !seen;
    if (!seen) return false;
    for (int64_t i = 0; i < count; i++) {
        if (from[i] < 0 || from[i] >= count || seen[from[i]]) return false;
        seen[from[i]] = true;
    }
    return true;
}

static const int64_t *constant_integers(const ir_node *node, uint32_t input, int64_t count) {
    const ir_value *value = ir_input(node, input);
    int64_t own;
    return value && value->constant && value->constant->tensor.data && value->type.dtype == OP_INT64 &&
                   op_shape_elements(&value->type.shape, &own) && own == count
               ? value->constant->tensor.data
               : NULL;
}

static bool is_axis_of_channels(int64_t axis, int32_t rank) {
    return axis == 1 || axis == 1 - rank;
}

/* A Slice of all channels from the last one to the first. */
static bool turns_round(const ir_node *slice) {
    const op_shape *x = &ir_input(slice, 0)->type.shape;
    const int64_t *start = constant_integers(slice, 1, 1), *axis = constant_integers(slice, 3, 1),
                  *step = constant_integers(slice, 4, 1);
    return start && axis && step && *step == -1 && is_axis_of_channels(*axis, x->rank) &&
           (*start == -1 || *start >= x->dims[1] - 1) && op_shape_same(x, &slice->outputs[0]->type.shape);
}

/* False where the value is not another one in another order. */
static bool read_order(orderer *o, const ir_value *value, ir_value **x, order *of) {
    const ir_node *node = value->node;
    if ((node->code != OP_RESHAPE && node->code != OP_GATHER && node->code != OP_SLICE) ||
        !ir_input(node, 0) || ir_input(node, 0)->constant)
        return false;
    const op_shape *shape = &value->type.shape, *read = &ir_input(node, 0)->type.shape;
    int64_t groups = 1;
    if (shape->rank < 3 || shape->dims[1] < 2) return false;
    of->count = shape->dims[1];
    *x = ir_input(node, 0);
    if (node->code == OP_GATHER) {
        of->from = constant_integers(node, 1, of->count);
        return of->from && ir_input(node, 1)->type.shape.rank == 1 && read->rank == shape->rank &&
               is_axis_of_channels(op_attribute_integer(&node->attributes, "axis", 0), shape->rank) &&
               read->dims[1] == of->count && is_permutation(o, of->from, of->count);
    }
    if (node->code == OP_SLICE ? !turns_round(node) : !pass_read_shuffle(value, x, &groups) || (*x)->constant)
        return false;
    int64_t *from = BASE_ARRAY(o->context->scratch, int64_t, (size_t)of->count);
    o->out_of_memory |= !from;
    if (!from) return false;
    for (int64_t i = 0; i < of->count; i++)
        from[i] = node->code == OP_SLICE ? of->count - 1 - i : op_shuffled_channel(i, groups, of->count);
    of->from = from;
    return true;
}

/* ---- constants ------------------------------------------------------------------------------------------- */

/* A row-major constant that this node alone reads. */
static bool is_own(const ir_value *value) {
    return value && value->constant && value->constant->tensor.data && value->uses && !value->uses->next &&
           value->type.layout == OP_LAYOUT_ROW_MAJOR && op_shape_known(&value->type.shape) &&
           op_dtype_bytes(value->type.dtype) > 0;
}

/* Input `input` becomes a constant of which part at[i] is part i of what it was, of so many equal parts. */
static void put_in_order(orderer *o, ir_node *node, uint32_t input, int64_t parts, const int64_t *at) {
    ir_value *old = ir_input(node, input);
    ir_module *module = node->graph->module;
    size_t bytes;
    void *data = NULL;
    ir_value *made = op_type_bytes(&old->type, &bytes)
                         ? ir_constant_reserve(module, old->name, &old->type, bytes, &data)
                         : NULL;
    if (!made || !ir_node_set_input(node, input, made)) {
        o->out_of_memory = true;
        return;
    }
    const size_t part = bytes / (size_t)parts;
    const char *from = old->constant->tensor.data;
    for (int64_t i = 0; i < parts; i++)
        memcpy((char *)data + (size_t)at[i] * part, from + (size_t)i * part, part);
    ir_constant_remove(module, old);
}

/* ---- convolutions ---------------------------------------------------------------------------------------- */

/* Channels stay in their group, of which there are so many. */
static bool keeps_groups(const order *of, int64_t groups) {
    const int64_t each = groups > 0 ? of->count / groups : 0;
    if (each == 0 || of->count % groups != 0) return false;
    for (int64_t i = 0; i < of->count; i++)
        if (of->from[i] / each != i / each) return false;
    return true;
}

static bool has_own_weights(const ir_node *conv, int64_t channels) {
    const ir_value *weights = ir_input(conv, 1);
    const int64_t groups = op_attribute_integer(&conv->attributes, "group", 1);
    if (conv->code != OP_CONV || conv->output_count != 1 || !is_own(weights) || groups < 1) return false;
    const op_shape *shape = &weights->type.shape;
    int64_t elements;
    return shape->rank > 2 && op_shape_elements(shape, &elements) && elements > 0 &&
           shape->dims[0] % groups == 0 && shape->dims[1] == channels / groups && channels % groups == 0;
}

static int64_t *new_places(orderer *o, int64_t count) {
    int64_t *at = BASE_ARRAY(o->context->scratch, int64_t, (size_t)count);
    o->out_of_memory |= !at;
    return at;
}

/* The convolution gives its maps in the order. */
static bool makes(orderer *o, ir_node *conv, const order *of) {
    const int64_t groups = op_attribute_integer(&conv->attributes, "group", 1);
    const ir_value *x = ir_input(conv, 0), *bias = ir_input(conv, 2);
    if (!x || x->type.shape.rank < 3 || !has_own_weights(conv, x->type.shape.dims[1]) || ir_input(conv, 3) ||
        (bias && !is_own(bias)) || !keeps_groups(of, groups))
        return false;
    int64_t *at = new_places(o, of->count);
    if (!at) return false;
    for (int64_t i = 0; i < of->count; i++) at[of->from[i]] = i;
    put_in_order(o, conv, 1, of->count, at);
    if (bias) put_in_order(o, conv, 2, of->count, at);
    return true;
}

static bool reads_all(orderer *o, const ir_value *value, const order *of, int steps, bool change);

/* A convolution of each channel reads these in the order, and gives its maps in it. */
static bool hands_on(orderer *o, ir_node *conv, const order *of, int steps, bool change) {
    const ir_value *bias = ir_input(conv, 2);
    const int64_t filters = ir_input(conv, 1)->type.shape.dims[0], each = filters / of->count;
    if (ir_input(conv, 3) || (bias && !is_own(bias))) return false;
    int64_t *at = new_places(o, filters), *from = new_places(o, filters);
    if (!at || !from) return false;
    for (int64_t i = 0; i < filters; i++) from[i] = at[i] = of->from[i / each] * each + i % each;
    if (change) put_in_order(o, conv, 1, filters, at);
    if (change && bias) put_in_order(o, conv, 2, filters, at);
    return reads_all(o, conv->outputs[0], &(order){from, filters}, steps, change);
}

static bool reads(orderer *o, ir_node *node, const order *of, int steps, bool change) {
    const op_code code = node->code;
    const bool passes = code == OP_MAX_POOL || code == OP_AVERAGE_POOL || code == OP_GLOBAL_MAX_POOL ||
                        code == OP_GLOBAL_AVERAGE_POOL || (op_is_fusible(code) && node->input_count == 1);
    if (passes && node->output_count == 1) return reads_all(o, node->outputs[0], of, steps, change);
    if (!has_own_weights(node, of->count)) return false;
    const op_shape *weights = &ir_input(node, 1)->type.shape;
    const int64_t groups = op_attribute_integer(&node->attributes, "group", 1), each = weights->dims[1],
                  filters = weights->dims[0] / groups;
    if (groups == of->count) return hands_on(o, node, of, steps, change);
    if (o->context->options->exact_arithmetic || !keeps_groups(of, groups)) return false;
    if (!change) return true;
    int64_t *at = new_places(o, weights->dims[0] * each);
    if (!at) return false;
    for (int64_t f = 0; f < weights->dims[0]; f++)
        for (int64_t k = 0; k < each; k++)
            at[f * each + k] = f * each + of->from[f / filters * each + k] % each;
    put_in_order(o, node, 1, weights->dims[0] * each, at);
    return true;
}

/* Whether all readers can read the value, where that has the order, before it is put in that; or they do so (`change`). */
static bool reads_all(orderer *o, const ir_value *value, const order *of, int steps, bool change) {
    if (steps == 0 || !value->uses) return false;
    for (const ir_use *use = value->uses; use; use = use->next)
        if (!use->node || use->index != 0 || use->node->graph != value->graph ||
            !reads(o, use->node, of, steps - 1, change))
            return false;
    return true;
}

static void change(orderer *o, ir_value *value) {
    ir_value *x = NULL;
    order of;
    if (!read_order(o, value, &x, &of)) return;
    ir_node *maker =
        x->kind == IR_RESULT_OF_NODE && x->graph == value->graph && !x->uses->next ? x->node : NULL;
    if ((!maker || !makes(o, maker, &of)) &&
        (!reads_all(o, value, &of, MOST_STEPS, false) || !reads_all(o, value, &of, MOST_STEPS, true)))
        return;
    ir_value_replace(value, x);
    pass_remove_shuffle(value);
}

base_status pass_order_channels(pass_context *context) {
    ir_module *module = context->module;
    orderer o = {.context = context};
    for (size_t i = 1; i < module->node_count && !o.out_of_memory; i++) {
        const ir_node *node = module->nodes[i];
        if (node && node->output_count == 1 && node->outputs[0]) change(&o, node->outputs[0]);
    }
    return o.out_of_memory ? base_fail_memory(context->report) : BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* join_convolutions.c: convolutions of one value, with few filters each, become one.
 *
 *     %a = Conv(%x, %wa)  %b = Conv(%x, %wb)
 *  => %t = Conv(%x, %wa and %wb)  %a, %b = Split(%t, their filters)
 *
 * Heads of detectors are so: one map is read by a convolution with 1 filter, one with 4, one with 10. Kernels fill vectors with filters,
 * and read the map once for each vector; there is one vector here instead of three. Where each part is only read by a convolution of
 * each channel by itself, those are joined as well, and the Split comes after them.
 *
 * Windows are the same, weights and biases constant floats, groups 1. An activation that all have is that of the joined one; else it is
 * taken out again, to stand after the Split. Only convolutions with less filters than a vector has lanes, where that makes fewer vectors:
 * others would gain nothing, and larger parts might have to be copied.
 *
 * Needs: types; activations are fused. Breaks: that somebody reads every node and constant. Guarantees: sums are what they were, in the
 * order that the kernel gives them.
 */
#include "passes/graph/graph.h"
#include "ir/operators/window.h"
#include <string.h>

enum { LANES = 16, MOST_PARTS = 16 };

typedef struct joiner {
    pass_context *context;
    ir_module *module;
    bool out_of_memory;
} joiner;

/* Convolutions that become one, in the order of their numbers. */
typedef struct group {
    ir_node *nodes[MOST_PARTS];
    uint32_t count;
    int64_t filters; /* of all */
} group;

/* ---- questions ----------------------------------------------------------------------------------------- */

static bool are_floats(const ir_value *value) {
    return value->constant && value->type.dtype == OP_FLOAT && value->type.layout == OP_LAYOUT_ROW_MAJOR;
}

static const char *activation_of(const ir_node *node) {
    const op_attribute *attribute = op_attribute_find(&node->attributes, "ouro.activation");
    return attribute ? attribute->as.text.data : NULL;
}

/* The operator of an activation that can stand by itself, without numbers of its own; OP_CODE_NONE: not so. */
static op_code activation_operator(const ir_node *node) {
    static const op_code codes[] = {OP_RELU, OP_SIGMOID, OP_TANH, OP_HARD_SWISH};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (op_attribute_is(&node->attributes, "ouro.activation", op_schema_of(codes[i])->name, ""))
            return codes[i];
    return OP_CODE_NONE;
}

static bool same_activation(const ir_node *a, const ir_node *b) {
    static const char *const numbers[] = {"ouro.alpha", "ouro.beta"};
    const char *own = activation_of(a), *other = activation_of(b);
    if (!own || !other) return own == other;
    const op_attribute *name = op_attribute_find(&b->attributes, "ouro.activation");
    if (name->as.text.length != op_attribute_find(&a->attributes, "ouro.activation")->as.text.length ||
        memcmp(own, other, name->as.text.length) != 0)
        return false;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const float x = op_attribute_real(&a->attributes, numbers[i], 0),
                    y = op_attribute_real(&b->attributes, numbers[i], 0);
        if (memcmp(&x, &y, sizeof x) != 0) return false;
    }
    return true;
}

/* The activations of both are the same, or each can stand by itself. */
static bool can_share(const ir_node *a, const ir_node *b) {
    return same_activation(a, b) || ((!activation_of(a) || activation_operator(a) != OP_CODE_NONE) &&
                                     (!activation_of(b) || activation_operator(b) != OP_CODE_NONE));
}

/* A convolution of floats with constant weights and few filters, all of whose numbers are its own. */
static bool is_small(const ir_node *node) {
    const ir_value *weights = ir_input(node, 1), *bias = ir_input(node, 2);
    if (node->code != OP_CONV || node->output_count != 1 || !node->outputs[0] || ir_input(node, 3) ||
        !ir_input(node, 0) || ir_input(node, 0)->constant || ir_input(node, 0)->type.dtype != OP_FLOAT)
        return false;
    if (!weights || !are_floats(weights) || (bias && !are_floats(bias))) return false;
    const op_shape *shape = &node->outputs[0]->type.shape;
    return shape->rank >= 3 && weights->type.shape.rank == shape->rank &&
           shape->dims[1] == weights->type.shape.dims[0] && shape->dims[1] > 0 && shape->dims[1] < LANES &&
           op_attribute_is(&node->attributes, "auto_pad", "NOTSET", "NOTSET");
}

/* How the windows of both lie, if that is the same; the number of filters may differ. */
static bool same_window(joiner *j, const ir_node *a, const ir_node *b) {
    const op_shape *x = &ir_input(a, 1)->type.shape, *y = &ir_input(b, 1)->type.shape;
    op_call calls[2];
    op_window windows[2];
    if (x->rank != y->rank || memcmp(x->dims + 1, y->dims + 1, (size_t)(x->rank - 1) * sizeof *x->dims) != 0)
        return false;
    if (!ir_node_call(a, j->context->scratch, &calls[0]) ||
        !ir_node_call(b, j->context->scratch, &calls[1])) {
        j->out_of_memory = true;
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (op_window_read(&calls[i], x->dims + 2, &windows[i], NULL) != BASE_OK) return false;
    for (int32_t d = 0; d < windows[0].rank; d++) {
        if (windows[0].stride[d] != windows[1].stride[d] ||
            windows[0].dilation[d] != windows[1].dilation[d] ||
            windows[0].before[d] != windows[1].before[d] || windows[0].after[d] != windows[1].after[d] ||
            windows[0].input[d] != windows[1].input[d])
            return false;
    }
    return true;
}

static int64_t filters_of(const ir_node *node) {
    return ir_input(node, 1)->type.shape.dims[0];
}

static bool is_by_channels(const ir_node *node) {
    return ir_input(node, 1)->type.shape.dims[1] == 1 &&
           op_attribute_integer(&node->attributes, "group", 1) == filters_of(node);
}

static int64_t vectors(int64_t filters) {
    return (filters + LANES - 1) / LANES;
}

/* `first`, and all that read the same value in the same way, if to join them is worth it. */
static bool find_group(joiner *j, ir_node *first, group *found) {
    *found = (group){.nodes = {first}, .count = 1, .filters = filters_of(first)};
    int64_t apart = vectors(found->filters);
    for (const ir_use *use = ir_input(first, 0)->uses; use && found->count < MOST_PARTS; use = use->next) {
        ir_node *node = use->node;
        if (!node || node == first || node->graph != first->graph || use->index != 0 || !is_small(node))
            continue;
        if (op_attribute_integer(&node->attributes, "group", 1) != 1 || !same_window(j, first, node))
            continue;
        if (!can_share(first, node)) continue;
        if (!pass_stands_before(first, node)) continue;
        uint32_t at = found->count++;
        for (; at > 1 && found->nodes[at - 1]->id.index > node->id.index; at--)
            found->nodes[at] = found->nodes[at - 1];
        found->nodes[at] = node;
        found->filters += filters_of(node);
        apart += vectors(filters_of(node));
    }
    return !j->out_of_memory && vectors(found->filters) < apart;
}

/* The convolutions of each channel by itself that alone read the parts, if every part has one. */
static bool find_readers(joiner *j, const group *parts, group *readers) {
    *readers = (group){.count = parts->count, .filters = parts->filters};
    for (uint32_t i = 0; i < parts->count; i++) {
        const ir_use *use = parts->nodes[i]->outputs[0]->uses;
        ir_node *reader = use && !use->next ? use->node : NULL;
        if (!reader || reader->graph != parts->nodes[i]->graph || use->index != 0 || !is_small(reader) ||
            !is_by_channels(reader) || filters_of(reader) != filters_of(parts->nodes[i]))
            return false;
        readers->nodes[i] = reader;
        if (!same_activation(parts->nodes[0], parts->nodes[i]) || !can_share(readers->nodes[0], reader) ||
            !same_window(j, readers->nodes[0], reader))
            return false;
    }
    return true;
}

/* ---- joining ------------------------------------------------------------------------------------------- */

/* Input number `input` of all, one after another; where one has none, zeros. */
static ir_value *joined_numbers(joiner *j, const group *all, uint32_t input, const op_shape *shape) {
    const op_type type = {.dtype = OP_FLOAT, .shape = *shape};
    int64_t count;
    size_t bytes;
    void *memory;
    if (!op_shape_elements(shape, &count) || !op_type_bytes(&type, &bytes)) return NULL;
    ir_value *numbers =
        ir_constant_reserve(j->module, ir_input(all->nodes[0], 1)->name, &type, bytes, &memory);
    float *to = memory;
    const int64_t each = count / shape->dims[0];
    for (uint32_t i = 0; numbers && i < all->count; i++) {
        const ir_value *own = ir_input(all->nodes[i], input);
        const size_t part = (size_t)(filters_of(all->nodes[i]) * each) * sizeof *to;
        if (own) memcpy(to, own->constant->tensor.data, part);
        else memset(to, 0, part);
        to += filters_of(all->nodes[i]) * each;
    }
    return numbers;
}

static bool share_activation(const group *all) {
    for (uint32_t i = 1; i < all->count; i++)
        if (!same_activation(all->nodes[0], all->nodes[i])) return false;
    return true;
}

static bool set_group(joiner *j, op_attributes *attributes, int64_t number) {
    const op_attribute attribute = {
        .name = "group", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = number};
    return ir_attribute_set(j->module, attributes, &attribute);
}

/* One convolution in place of all, before `before`, of `x`. NULL when memory runs out. */
static ir_value *join(joiner *j, const group *all, ir_node *before, ir_value *x, int64_t groups) {
    const ir_node *first = all->nodes[0];
    op_shape shape = ir_input(first, 1)->type.shape;
    op_type type = first->outputs[0]->type;
    op_attributes attributes;
    shape.dims[0] = type.shape.dims[1] = all->filters;
    ir_value *inputs[3] = {x};
    inputs[1] = joined_numbers(j, all, 1, &shape);
    inputs[2] = joined_numbers(j, all, 2, &(op_shape){.rank = 1, .dims = {all->filters}});
    if (!inputs[1] || !inputs[2] || !ir_attributes_copy(j->module, &first->attributes, &attributes) ||
        !set_group(j, &attributes, groups))
        return NULL;
    static const char *const own[] = {"ouro.activation", "ouro.alpha", "ouro.beta"};
    for (size_t i = 0; !share_activation(all) && i < sizeof own / sizeof *own; i++)
        if (!ir_attribute_remove(j->module, &attributes, own[i])) return NULL;
    ir_node *node =
        ir_node_new(before->graph, before, OP_CONV, first->name, first->path, attributes, 3, inputs);
    return node ? ir_node_add_output(node, first->outputs[0]->name, &type) : NULL;
}

/* The parts of what was joined stand for the results of the nodes, which go. False when memory runs out. */
static bool split(joiner *j, const group *all, ir_node *before, ir_value *joined) {
    const ir_node *first = all->nodes[0];
    const bool whole = share_activation(all);
    const op_attribute axis = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {all->count}}};
    op_attributes attributes = {0};
    int64_t sizes[MOST_PARTS];
    for (uint32_t i = 0; i < all->count; i++) sizes[i] = filters_of(all->nodes[i]);
    ir_value *inputs[2] = {
        joined, ir_constant_copy(j->module, joined->name, &type, sizes, all->count * sizeof *sizes)};
    if (!inputs[1] || !ir_attribute_set(j->module, &attributes, &axis)) return false;
    ir_node *node =
        ir_node_new(before->graph, before, OP_SPLIT, first->name, first->path, attributes, 2, inputs);
    for (uint32_t i = 0; node && i < all->count; i++) {
        ir_node *own = all->nodes[i];
        ir_value *part = ir_node_add_output(node, own->outputs[0]->name, &own->outputs[0]->type);
        if (part && !whole && activation_of(own)) {
            ir_node *after = ir_node_new(before->graph, before, activation_operator(own), own->name,
                                         own->path, (op_attributes){0}, 1, &part);
            part = after ? ir_node_add_output(after, own->outputs[0]->name, &own->outputs[0]->type) : NULL;
        }
        if (!part) return false;
        ir_value_replace(own->outputs[0], part);
    }
    return node != NULL;
}

static bool holds(const group *all, const ir_node *node) {
    for (uint32_t i = 0; i < all->count; i++)
        if (all->nodes[i] == node) return true;
    return false;
}

/* The node with which the walk goes on. */
static ir_node *join_at(joiner *j, ir_node *first) {
    ir_node *next = first->next;
    group parts, readers;
    if (!is_small(first) || op_attribute_integer(&first->attributes, "group", 1) != 1 ||
        !find_group(j, first, &parts))
        return next;
    if (!find_readers(j, &parts, &readers)) readers.count = 0;
    ir_value *joined = join(j, &parts, first, ir_input(first, 0), 1);
    if (joined && readers.count) joined = join(j, &readers, first, joined, readers.filters);
    if (!joined || !split(j, readers.count ? &readers : &parts, first, joined)) {
        j->out_of_memory = true;
        return NULL;
    }
    while (next && (holds(&parts, next) || holds(&readers, next))) next = next->next;
    for (uint32_t i = 0; i < readers.count; i++) ir_node_remove(readers.nodes[i]);
    for (uint32_t i = 0; i < parts.count; i++) ir_node_remove(parts.nodes[i]);
    return next;
}

static void join_graph(joiner *j, ir_graph *graph) {
    for (ir_node *node = graph->first; node && !j->out_of_memory;) {
        for (uint32_t i = 0; i < node->graph_count; i++) join_graph(j, node->graphs[i]);
        node = join_at(j, node);
    }
}

base_status pass_join_convolutions(pass_context *context) {
    joiner j = {.context = context, .module = context->module};
    join_graph(&j, context->module->main);
    return j.out_of_memory ? base_fail_memory(context->report) : BASE_OK;
}

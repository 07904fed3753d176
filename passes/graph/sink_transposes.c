/* SPDX-License-Identifier: Apache-2.0 */
/* sink_transposes.c: Transposes go past operators that work as well in the other order, to where they meet their inverses.
 *
 *     %t = Transpose(%x) {perm = [0, 2, 3, 1]}  %m = Mul(%t, %scale)  %r = Relu(%m)  %y = Transpose(%r) {perm = [0, 3, 1, 2]}
 *  => %m = Mul(%x, %scale')  %y = Relu(%m)
 *
 * What converters from channels-last frameworks leave around convolutions. Such operators are those that work element by element, Concat,
 * Pad, Slice and reductions; their constants and axes are put in the other order. Those that read each other, or the same Transposes,
 * change together, and only where fewer elements are moved then: each Transpose that nobody else reads and each inverse go, and each
 * result that somebody else reads is put in order again.
 *
 * Such an operator may read another value, too, which is in the old order. That can be put in the new one, which costs a Transpose. It is tried
 * when all has changed that needs none:
 *
 *     %a = Add(Transpose(%p), %x)  %q = f(Transpose(%a))  %b = Add(Transpose(%q), %a)  ...
 *  => %a = Add(%p, Transpose(%x))  %q = f(%a)  %b = Add(%q, %a)  ...
 *
 * A Transpose of a Transpose reads what that reads.
 *
 * Needs: types; constants are folded; no dead nodes. Breaks: nothing. Guarantees: values stay what they were; types of all values.
 */
#include "ir/operators/fused.h"
#include "passes/graph/graph.h"
#include <float.h>
#include <string.h>

/* By node id, of a Transpose and of what may change with it. */
typedef struct turned {
    int32_t rank;               /* 0: neither */
    int64_t order[OP_MAX_RANK]; /* axis i of what is there is axis order[i] of what there would be */
    bool member;                /* no Transpose: it may change */
    bool ends;                  /* its result is the same in both orders */
    uint32_t group;             /* a node id towards the one that stands for the group */
    double gain;                /* of the group: elements that are not moved any more */
} turned;

typedef struct sinker {
    pass_context *context;
    ir_module *module;
    turned *nodes;
    size_t count; /* nodes that were there before */
    bool turns;   /* inputs that are in no order may be put in one */
    bool out_of_memory;
} sinker;

static turned *turned_of(const sinker *s, const ir_node *node) {
    return node && node->id.index < s->count ? &s->nodes[node->id.index] : NULL;
}

static uint32_t group_of(const sinker *s, uint32_t node) {
    while (s->nodes[node].group != node) node = s->nodes[node].group = s->nodes[s->nodes[node].group].group;
    return node;
}

/* About as many as there are: dynamic dimensions count as 1. */
static double elements_of(const ir_value *value) {
    double elements = 1;
    for (int32_t d = 0; d < value->type.shape.rank; d++)
        elements *= value->type.shape.dims[d] > 1 ? (double)value->type.shape.dims[d] : 1;
    return elements;
}

/* ---- what may change ----------------------------------------------------------------------------------- */

static bool is_one_element(const ir_value *value, int32_t rank) {
    int64_t count;
    return value->type.shape.rank >= 0 && value->type.shape.rank <= rank &&
           op_shape_elements(&value->type.shape, &count) && count == 1;
}

/* A constant whose elements can be put in another order. */
static bool is_movable(const ir_value *value, int32_t rank) {
    return value->constant && value->constant->tensor.data && value->type.kind == OP_KIND_TENSOR &&
           value->type.layout == OP_LAYOUT_ROW_MAJOR && value->type.dtype != OP_STRING &&
           op_dtype_bytes(value->type.dtype) > 0 && value->type.shape.rank >= 0 &&
           value->type.shape.rank <= rank;
}

static const int64_t *constant_integers(const ir_value *value, int64_t *count) {
    if (!value || !value->constant || !value->constant->tensor.data || value->type.dtype != OP_INT64 ||
        value->type.shape.rank != 1 || !op_shape_elements(&value->type.shape, count))
        return NULL;
    return value->constant->tensor.data;
}

/* The node that says in which order the input is, or would be: a Transpose, or one that may change. */
static const turned *order_of(const sinker *s, const ir_node *node, uint32_t input) {
    const ir_value *value = ir_input(node, input);
    const turned *of =
        value && value->node && value->node->graph == node->graph ? turned_of(s, value->node) : NULL;
    return of && of->rank && !of->ends && value->index == 0 ? of : NULL;
}

static bool is_reduction(op_code code) {
    return code == OP_REDUCE_SUM || code == OP_REDUCE_MEAN || code == OP_REDUCE_MAX || code == OP_REDUCE_MIN;
}

/* The input that lists axes; 0: none. Input 0 alone is data then. */
static uint32_t axes_input(op_code code) {
    return code == OP_SLICE ? 3 : is_reduction(code) ? 1 : 0;
}

static bool axes_are_known(const ir_node *node, int32_t rank) {
    int64_t count = 0;
    const int64_t *axes = constant_integers(ir_input(node, axes_input(node->code)), &count);
    for (int64_t i = 0; axes && i < count; i++)
        if (axes[i] < -rank || axes[i] >= rank) return false;
    return axes && count > 0;
}

/* A reduction without keepdims leaves the axes that stay in the order in which they are. */
static bool leaves_order(const ir_node *node, const turned *of) {
    int64_t count = 0, before = -1;
    const int64_t *axes = constant_integers(ir_input(node, 1), &count);
    for (int32_t d = 0; d < of->rank; d++) {
        bool reduced = false;
        for (int64_t i = 0; i < count; i++) reduced |= (axes[i] + of->rank) % of->rank == d;
        if (reduced) continue;
        if (of->order[d] < before) return false;
        before = of->order[d];
    }
    return true;
}

/* What the node asks for beside its data is such that it can be changed. */
static bool parameters_fit(const ir_node *node, int32_t rank) {
    int64_t pads;
    switch (node->code) {
    case OP_CONCAT:
        return true;
    case OP_PAD:
        return !ir_input(node, 3) && constant_integers(ir_input(node, 1), &pads) && pads == 2 * (int64_t)rank;
    case OP_SLICE:
        return axes_are_known(node, rank);
    default:
        return is_reduction(node->code) ? axes_are_known(node, rank) : op_is_fusible(node->code);
    }
}

/* The first inputs of some operators are data in the order, the others not. */
static bool is_data(const ir_node *node, uint32_t input) {
    const bool scaled = node->code == OP_QUANTIZE_LINEAR || node->code == OP_DEQUANTIZE_LINEAR;
    return input == 0 || (!axes_input(node->code) && node->code != OP_PAD && !scaled);
}

/* An input that can be put in the order by a Transpose of its own. */
static bool can_be_turned(const sinker *s, const ir_node *node, const ir_value *input, int32_t rank) {
    return s->turns && op_is_fusible(node->code) && !input->constant && input->type.kind == OP_KIND_TENSOR &&
           input->type.layout == OP_LAYOUT_ROW_MAJOR && input->type.dtype != OP_STRING &&
           input->type.shape.rank == rank;
}

static bool read_member(const sinker *s, const ir_node *node, turned *member) {
    const turned *order = NULL;
    if (node->output_count != 1 || !node->outputs[0] || node->outputs[0]->type.kind != OP_KIND_TENSOR)
        return false;
    for (uint32_t i = 0; i < node->input_count && !order; i++) order = order_of(s, node, i);
    if (!order || !parameters_fit(node, order->rank)) return false;
    const bool shrinks = is_reduction(node->code) && !op_attribute_integer(&node->attributes, "keepdims", 1);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        const turned *own = order_of(s, node, i);
        if (!input) continue;
        if (!is_data(node, i)) {
            if (own || (op_is_fusible(node->code) && !is_one_element(input, 1))) return false;
            continue;
        }
        if (own ? own->rank != order->rank ||
                      memcmp(own->order, order->order, (size_t)own->rank * sizeof *own->order)
            : node->code == OP_CONCAT
                ? !is_movable(input, order->rank) || input->type.shape.rank != order->rank
                : !is_one_element(input, order->rank) && !is_movable(input, order->rank) &&
                      !can_be_turned(s, node, input, order->rank))
            return false;
    }
    if (!shrinks && node->outputs[0]->type.shape.rank != order->rank) return false;
    *member = *order;
    member->member = true;
    member->ends = shrinks;
    member->gain = 0;
    member->group = node->id.index;
    return !shrinks || leaves_order(node, order);
}

static bool read_transpose(const ir_node *node, turned *of) {
    const int32_t rank = node->output_count == 1 && node->outputs[0] && ir_input(node, 0)
                             ? node->outputs[0]->type.shape.rank
                             : -1;
    *of = (turned){.rank = rank, .group = node->id.index};
    return rank > 0 && ir_input(node, 0)->type.shape.rank == rank &&
           pass_transpose_order(node, rank, of->order);
}

/* ---- whether it is worth it ---------------------------------------------------------------------------- */

static bool is_inverse(const turned *a, const turned *b) {
    if (a->rank != b->rank) return false;
    for (int32_t d = 0; d < a->rank; d++)
        if (a->order[b->order[d]] != d) return false;
    return true;
}

/* A Transpose as `last` of one as `first` moves nothing, or only axes with one element. `shape`: of the result. */
static bool moves_nothing(const turned *first, const turned *last, const op_shape *shape) {
    int64_t before = -1;
    if (first->rank != last->rank || shape->rank != last->rank) return false;
    for (int32_t d = 0; d < last->rank; d++) {
        const int64_t axis = first->order[last->order[d]];
        if (shape->dims[d] == 1) continue;
        if (axis < before) return false;
        before = axis;
    }
    return true;
}

/* The elements of inputs that have to be put in the member's order. */
static double turned_elements(const sinker *s, const ir_node *node, const turned *member) {
    double elements = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && is_data(node, i) && !order_of(s, node, i) && !is_one_element(input, member->rank) &&
            can_be_turned(s, node, input, member->rank))
            elements += elements_of(input);
    }
    return elements;
}

/* What changes for the readers of a value when its maker does; `before`: it is a Transpose, which goes if all readers take its input. */
static void count_readers(const sinker *s, const ir_value *value, const turned *maker, double *gain) {
    const double elements = elements_of(value);
    bool stays = false;
    for (const ir_use *use = value->uses; use; use = use->next) {
        const turned *reader = use->node && use->graph == value->graph ? turned_of(s, use->node) : NULL;
        const bool takes = reader && reader->rank && (reader->member || use->node->code == OP_TRANSPOSE);
        stays |= !takes;
        /* Of means along the last axis a normalization will be made. */
        if (s->turns && maker->member && use->node && is_reduction(use->node->code)) *gain = -DBL_MAX;
        /* Of a Transpose that reads a Transpose it is taken away either way. */
        if (takes && maker->member && !reader->member &&
            moves_nothing(maker, reader, &use->node->outputs[0]->type.shape))
            *gain += elements;
    }
    if (maker->member) *gain -= stays ? elements : 0;
    else *gain += stays ? 0 : elements;
}

static bool is_read_by_member(const sinker *s, const ir_value *value) {
    for (const ir_use *use = value->uses; use; use = use->next) {
        const turned *reader = use->node && use->graph == value->graph ? turned_of(s, use->node) : NULL;
        if (reader && reader->member) return true;
    }
    return false;
}

static void find_members(sinker *s, const ir_graph *graph) {
    for (const ir_node *node = graph->first; node; node = node->next) {
        turned *of = turned_of(s, node);
        turned found;
        if (!of ||
            !(node->code == OP_TRANSPOSE ? read_transpose(node, &found) : read_member(s, node, &found)))
            continue;
        *of = found;
        for (uint32_t i = 0; i < node->input_count && of->member; i++) {
            const turned *maker = order_of(s, node, i);
            if (maker) s->nodes[group_of(s, maker->group)].group = group_of(s, of->group);
        }
    }
    for (const ir_node *node = graph->first; node; node = node->next) {
        const turned *of = turned_of(s, node);
        if (!of || !of->rank) continue;
        if (of->member) s->nodes[group_of(s, of->group)].gain -= turned_elements(s, node, of);
        if (of->ends) continue;
        if (of->member || is_read_by_member(s, node->outputs[0]))
            count_readers(s, node->outputs[0], of, &s->nodes[group_of(s, of->group)].gain);
    }
}

/* ---- the change ---------------------------------------------------------------------------------------- */

/* The constant with its axes, as many as `of` has, where the order says. */
static ir_value *moved_constant(sinker *s, const ir_value *value, const turned *of) {
    const int32_t lacking = of->rank - value->type.shape.rank;
    int64_t from_step[OP_MAX_RANK], step[OP_MAX_RANK], count = 1;
    op_type type = value->type;
    type.shape.rank = of->rank;
    for (int32_t d = of->rank - 1; d >= 0; d--) {
        const int64_t extent = d >= lacking ? value->type.shape.dims[d - lacking] : 1;
        from_step[d] = count;
        count *= extent;
        type.shape.dims[of->order[d]] = extent;
    }
    for (int32_t d = 0; d < of->rank; d++) step[of->order[d]] = from_step[d];
    const size_t each = op_dtype_bytes(type.dtype);
    void *data;
    ir_value *made = ir_constant_reserve(s->module, value->name, &type, (size_t)count * each, &data);
    s->out_of_memory |= !made;
    int64_t at[OP_MAX_RANK] = {0}, from = 0;
    for (int64_t i = 0; made && i < count; i++) {
        memcpy((char *)data + (size_t)i * each,
               (const char *)value->constant->tensor.data + (size_t)from * each, each);
        for (int32_t d = of->rank - 1; d >= 0; d--) {
            from += step[d];
            if (++at[d] < type.shape.dims[d]) break;
            from -= at[d] * step[d];
            at[d] = 0;
        }
    }
    return made;
}

static void set_input(sinker *s, ir_node *node, uint32_t input, ir_value *value) {
    if (!value || !ir_node_set_input(node, input, value)) s->out_of_memory = true;
}

/* The value in the order, by a Transpose before the node: one that another node has been given already, or a new one. */
static ir_value *turned_value(sinker *s, ir_node *node, ir_value *value, const turned *of) {
    turned back = *of, found;
    op_type type = value->type;
    for (int32_t d = 0; d < of->rank; d++) {
        back.order[of->order[d]] = d;
        type.shape.dims[of->order[d]] = value->type.shape.dims[d];
    }
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (use->node && use->graph == node->graph && use->node->id.index >= s->count &&
            use->node->code == OP_TRANSPOSE && read_transpose(use->node, &found) && found.rank == back.rank &&
            !memcmp(found.order, back.order, (size_t)back.rank * sizeof *back.order))
            return use->node->outputs[0];
    }
    const op_attribute order = {
        .name = "perm", .kind = OP_ATTRIBUTE_INTS, .count = (size_t)back.rank, .as.integers = back.order};
    op_attributes attributes = {0};
    ir_node *made =
        ir_attribute_set(s->module, &attributes, &order)
            ? ir_node_new(node->graph, node, OP_TRANSPOSE, node->name, node->path, attributes, 1, &value)
            : NULL;
    ir_value *result = made ? ir_node_add_output(made, value->name, &type) : NULL;
    s->out_of_memory |= !result;
    return result;
}

/* A list of axes, or of numbers before and after each axis, in the other order. */
static void change_list(sinker *s, ir_node *node, uint32_t input, const turned *of) {
    int64_t count;
    const ir_value *old = ir_input(node, input);
    const int64_t *numbers = constant_integers(old, &count);
    void *data;
    ir_value *made =
        ir_constant_reserve(s->module, old->name, &old->type, (size_t)count * sizeof *numbers, &data);
    int64_t *changed = data;
    for (int64_t i = 0; made && i < count; i++) {
        if (node->code != OP_PAD) changed[i] = of->order[(numbers[i] + of->rank) % of->rank];
        else changed[i / of->rank * of->rank + of->order[i % of->rank]] = numbers[i];
    }
    set_input(s, node, input, made);
}

static void change(sinker *s, ir_node *node, const turned *of) {
    for (uint32_t i = 0; i < node->input_count && !s->out_of_memory; i++) {
        ir_value *input = ir_input(node, i);
        if (!input || !is_data(node, i)) continue;
        turned order;
        if (input->node && input->node->code == OP_TRANSPOSE && input->node->graph == node->graph &&
            read_transpose(input->node, &order))
            set_input(s, node, i, ir_input(input->node, 0));
        else if (is_one_element(input, of->rank) && node->code != OP_CONCAT) continue;
        else if (input->constant) set_input(s, node, i, moved_constant(s, input, of));
        else set_input(s, node, i, turned_value(s, node, input, of));
    }
    if (axes_input(node->code) || node->code == OP_PAD)
        change_list(s, node, node->code == OP_PAD ? 1 : axes_input(node->code), of);
    if (node->code == OP_CONCAT && !s->out_of_memory) {
        const int64_t axis = op_attribute_integer(&node->attributes, "axis", 0);
        const op_attribute attribute = {.name = "axis",
                                        .kind = OP_ATTRIBUTE_INT,
                                        .count = 1,
                                        .as.integer = of->order[(axis + of->rank) % of->rank]};
        s->out_of_memory |= !ir_attribute_set(s->module, &node->attributes, &attribute);
    }
    if (of->ends || s->out_of_memory) return;
    ir_value *made = node->outputs[0];
    const op_type type = made->type;
    for (int32_t d = 0; d < of->rank; d++) made->type.shape.dims[of->order[d]] = type.shape.dims[d];
    made->symbolic = NULL;
    const op_attribute order = {
        .name = "perm", .kind = OP_ATTRIBUTE_INTS, .count = (size_t)of->rank, .as.integers = of->order};
    op_attributes attributes = {0};
    ir_node *back = ir_attribute_set(s->module, &attributes, &order)
                        ? ir_node_new(node->graph, node->next, OP_TRANSPOSE, node->name, node->path,
                                      attributes, 1, &(ir_value *){NULL})
                        : NULL;
    ir_value *result = back ? ir_node_add_output(back, made->name, &type) : NULL;
    s->out_of_memory |= !result;
    if (!result) return;
    ir_value_replace(made, result);
    set_input(s, back, 0, made);
}

/* Transposes of Transposes; those that do nothing, and those that nobody reads, go. */
static void join_transposes(sinker *s, ir_graph *graph) {
    for (ir_node *node = graph->first; node && !s->out_of_memory; node = node->next) {
        turned own, before;
        const ir_value *input = node->code == OP_TRANSPOSE ? ir_input(node, 0) : NULL;
        if (!input || !input->node || input->node->code != OP_TRANSPOSE || input->node->graph != graph ||
            !read_transpose(node, &own) || !read_transpose(input->node, &before) || own.rank != before.rank)
            continue;
        ir_value *source = ir_input(input->node, 0);
        if (is_inverse(&before, &own)) {
            ir_value_replace(node->outputs[0], source);
            continue;
        }
        int64_t order[OP_MAX_RANK];
        for (int32_t d = 0; d < own.rank; d++) order[d] = before.order[own.order[d]];
        const op_attribute attribute = {
            .name = "perm", .kind = OP_ATTRIBUTE_INTS, .count = (size_t)own.rank, .as.integers = order};
        s->out_of_memory |= !ir_attribute_set(s->module, &node->attributes, &attribute);
        if (!s->out_of_memory) set_input(s, node, 0, source);
    }
    for (ir_node *node = graph->last, *previous; node && !s->out_of_memory; node = previous) {
        previous = node->previous;
        if (node->code == OP_TRANSPOSE && node->output_count == 1 && node->outputs[0] &&
            !node->outputs[0]->uses)
            ir_node_remove(node);
    }
}

static void sink_graph(sinker *s, ir_graph *graph) {
    find_members(s, graph);
    for (ir_node *node = graph->first, *next; node && !s->out_of_memory; node = next) {
        next = node->next;
        for (uint32_t i = 0; i < node->graph_count; i++) sink_graph(s, node->graphs[i]);
        const turned *of = turned_of(s, node);
        if (of && of->member && s->nodes[group_of(s, of->group)].gain > 0) change(s, node, of);
    }
    if (!s->out_of_memory) join_transposes(s, graph);
}

static base_status sink(pass_context *context, bool turns) {
    sinker s = {
        .context = context, .module = context->module, .count = context->module->node_count, .turns = turns};
    s.nodes = BASE_ARRAY(context->scratch, turned, s.count);
    if (!s.nodes) return base_fail_memory(context->report);
    for (uint32_t i = 0; i < s.count; i++) s.nodes[i] = (turned){.group = i};
    sink_graph(&s, context->module->main);
    return s.out_of_memory ? base_fail_memory(context->report) : BASE_OK;
}

base_status pass_sink_transposes(pass_context *context) {
    const base_status status = sink(context, false);
    return status == BASE_OK ? sink(context, true) : status;
}

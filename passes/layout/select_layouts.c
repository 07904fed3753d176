/* SPDX-License-Identifier: Apache-2.0 */
/* select_layouts.c: tensors lie as the kernels that read and write them like it, with as few reorders as
 * possible.
 *
 *     %y = Conv(%x, %w, %b)
 *  => %r: ...:nc16 = ouro.Reorder(%x)   %y: ...:nc16 = Conv(%r, %packed, %b)
 *
 * Every graph is walked in order. A kernel that has a wish (rt_kernel.prefer: convolutions, products) gets
 * it; operators that do not care (elementwise, pooling, normalisation, Concat of whole blocks) take over the
 * layout of what they read, if a kernel accepts it; everything else is row-major. Where a value lies otherwise
 * than a reader wants it a Reorder is put in, once for all readers of that layout. Constant weights are
 * packed here, once.
 *
 * So a region of convolutions pays for its entries and exits only. Where all that is read of a result is its reordering to row-major, and the
 * kernel can make it so, it does. What a layout would cost is weighed in one
 * place: a layout that pads a tensor to more than 5/4 of its row-major size is not used, since the arena is what
 * this compiler is about.
 *
 * Dynamic dimensions of images (how many there are, how high and wide) are no obstacle: kernels are asked about some
 * (example_extents.c), and convolutions pack their weights for these, for one image where their number is open. Nor are open
 * extents of the rows of products with constant weights: these are packed for blocks of rows, or, where they are bytes or fewer bits, alike for all. What a
 * run brings may be something else than the kernels were asked about: runtime/kernels/through_row_major.c.
 *
 * Interface values stay row-major: parameters, results of all graphs, inputs of control nodes.
 *
 * Needs: types; fusion is done, because it decides which nodes are heavy. Breaks: that somebody reads every node.
 * Guarantees: layouts of all values, which kernels of their nodes accept; shapes are what they were.
 */
#include "passes/layout/layout.h"
#include <string.h>

typedef struct layouter {
    pass_context *context;
    ir_module *module;
    base_arena arena;                        /* of one node */
    ir_value *(*reordered)[OP_LAYOUT_COUNT]; /* by value id: the value in another layout */
    size_t value_count;
} layouter;

/* ---- reorders ------------------------------------------------------------------------------------------ */

/* `value` in this layout: itself, or the result of a Reorder after its definition (or at the head of the
 * graph). */
static ir_value *in_layout(layouter *l, ir_value *value, op_layout layout, ir_node *reader, ir_graph *graph) {
    if (value->type.layout == layout) return value;
    ir_value **known = value->id.index < l->value_count ? &l->reordered[value->id.index][layout] : NULL;
    if (known && *known && ir_graph_encloses((*known)->graph, graph)) return *known;
    if (value->node && value->node->code == OP_REORDER && ir_input(value->node, 0)->type.layout == layout) {
        return ir_input(value->node, 0);
    }
    op_attribute attribute = {
        .name = "ouro.layout", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = layout};
    op_attributes attributes = {0};
    if (!ir_attribute_set(l->module, &attributes, &attribute)) return NULL;
    const char *path = reader ? reader->path : value->node ? value->node->path : "";
    ir_node *node = ir_node_new(graph, reader, OP_REORDER, "", path, attributes, 1, &value);
    op_type type = value->type;
    type.layout = layout;
    ir_value *result = node ? ir_node_add_output(node, value->name, &type) : NULL;
    if (known) *known = result;
    return result;
}

/* ---- asking kernels ------------------------------------------------------------------------------------ */

/* The layout pads this shape to at most 5/4. */
static bool is_cheap(const op_shape *shape, op_layout layout) {
    if (layout == OP_LAYOUT_ROW_MAJOR || layout == OP_LAYOUT_NHWC) return true;
    return shape->rank >= 2 && shape->dims[1] > 0 && op_layout_is_cheap(layout, shape->dims[1]);
}

/* A call like the node's with other layouts. */
static bool relaid_call(layouter *l, const ir_node *node, const rt_preference *wish, op_call *call) {
    if (!ir_node_call(node, &l->arena, call)) return false;
    op_tensor *inputs = BASE_ARRAY(&l->arena, op_tensor, call->input_count);
    if (!inputs) return false;
    if (call->input_count) memcpy(inputs, call->inputs, call->input_count * sizeof *inputs);
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (inputs[i].type.dtype == OP_NONE) continue;
        op_layout layout = wish && i < RT_KERNEL_INPUTS ? wish->inputs[i] : OP_LAYOUT_ROW_MAJOR;
        inputs[i].type.layout = layout;
        if (layout == OP_LAYOUT_PACKED) inputs[i].type.packed_bytes = wish->packed_bytes[i];
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        call->outputs[i].type.layout = wish && i == 0 ? wish->output : OP_LAYOUT_ROW_MAJOR;
    }
    call->inputs = inputs;
    return true;
}

/* ---- dynamic dimensions --------------------------------------------------------------------------------------- */

/* An extent of which nothing is known may change with every iteration of a loop, and a kernel is prepared anew for it. */
static bool may_change(const ir_node *node, const op_shape *shape) {
    const ir_node *owner = node->graph->owner;
    while (owner && (owner->code != OP_LOOP || owner == owner->graph->module->run))
        owner = owner->graph->owner;
    return owner && shape->rank >= 0 && !op_shape_named(shape);
}

/* A product with constant weights, of rows that may be any number, even another one in every iteration. Whether they can be
 * taken apart is for its kernel to say. */
static bool rows_are_open(const ir_node *node) {
    const ir_value *weights = ir_input(node, 1);
    return (node->code == OP_MATMUL || node->code == OP_GEMM) && weights && weights->constant;
}

/* A product of many rows that may be multiplied some at a time (passes/bands). */
static bool rows_may_be_cut(const layouter *l, const ir_node *node) {
    const pass_options *options = l->context->options;
    const op_shape *shape = node->outputs[0] ? &node->outputs[0]->type.shape : NULL;
    return (options->arena_limit || options->band_rows > 0) && node->code == OP_MATMUL &&
           rows_are_open(node) && shape && shape->rank > 2 && shape->dims[shape->rank - 2] > 1;
}

/* Images of which some extents are open, but not their channels. */
static bool images_are_open(layouter *l, const ir_node *node) {
    op_call call;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && may_change(node, &input->type.shape)) return false;
    }
    return ir_node_call(node, &l->arena, &call) && pass_example_layouts(&call, &l->arena);
}

/* What the weights of a convolution are packed for; or the mark of products whose weights are packed for some rows. */
static bool describe_packing(layouter *l, const ir_node *node, op_attribute *attribute) {
    if (rows_are_open(node)) {
        *attribute =
            (op_attribute){.name = "ouro.row_blocks", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
        return true;
    }
    op_call call;
    if (!ir_node_call(node, &l->arena, &call) || call.input_count == 0) return false;
    if (!pass_example_image(&call, &l->arena)) return false;
    const op_shape *shape = &call.inputs[0].type.shape;
    int64_t *extents = BASE_ARRAY(&l->arena, int64_t, OP_MAX_RANK);
    if (!extents || shape->rank < 3) return false;
    memcpy(extents, shape->dims, (size_t)shape->rank * sizeof *extents);
    *attribute = (op_attribute){.name = "ouro.packed_extents",
                                .kind = OP_ATTRIBUTE_INTS,
                                .count = (size_t)shape->rank,
                                .as.integers = extents};
    return true;
}

/* The node's attributes, with the one that lets its kernel pack weights although extents are open; false where it
 * cannot. */
static bool separate(layouter *l, const ir_node *node, op_attributes *attributes) {
    op_attribute attribute;
    if (!describe_packing(l, node, &attribute)) return false;
    *attributes = node->attributes;
    return op_takes_attribute(node->code, attribute.name) &&
           ir_attribute_set(l->module, attributes, &attribute);
}

/* ---- packed constants ---------------------------------------------------------------------------------- */

static base_status pack(layouter *l, ir_node *node, const rt_kernel *kernel, const op_call *call,
                        uint32_t input) {
    base_report *report = l->context->report;
    ir_value *source = ir_input(node, input);
    const op_type *type = &call->inputs[input].type;
    void *data;
    ir_value *packed = ir_constant_reserve(l->module, source->name, type, type->packed_bytes, &data);
    if (!packed) return base_fail_memory(report);
    memset(data, 0, type->packed_bytes);
    ir_node_context(node, report);
    base_status status =
        kernel->pack(call, &l->context->options->environment, input, &source->constant->tensor, data, report);
    if (status != BASE_OK) return status;
    if (!ir_node_set_input(node, input, packed)) return base_fail_memory(report);
    if (!source->uses) ir_constant_remove(l->module, source);
    return BASE_OK;
}

/* ---- one node ------------------------------------------------------------------------------------------ */

static base_status apply(layouter *l, ir_node *node, const rt_preference *wish) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        ir_value *input = ir_input(node, i);
        op_layout layout = wish && i < RT_KERNEL_INPUTS ? wish->inputs[i] : OP_LAYOUT_ROW_MAJOR;
        if (!input || layout == OP_LAYOUT_PACKED) continue;
        ir_value *there = in_layout(l, input, layout, node, node->graph);
        if (!there || !ir_node_set_input(node, i, there)) return base_fail_memory(l->context->report);
    }
    if (wish && node->outputs[0]) node->outputs[0]->type.layout = wish->output;
    return BASE_OK;
}

/* The wish of the node's best kernel, if it can be granted. */
static base_status try_wish(layouter *l, ir_node *node, bool *granted) {
    const rt_environment *environment = &l->context->options->environment;
    op_call row_major, call;
    rt_preference wish = {0};
    *granted = false;
    if (ir_input(node, 0)) wish.inputs[0] = ir_input(node, 0)->type.layout;
    if (!relaid_call(l, node, NULL, &row_major)) return base_fail_memory(l->context->report);
    const rt_kernel *kernel = rt_kernel_wishing(&row_major, environment, &wish);
    if (!kernel) return BASE_OK;
    for (uint32_t i = 0; i < node->input_count && i < RT_KERNEL_INPUTS; i++) {
        const ir_value *input = ir_input(node, i);
        if (!input || wish.inputs[i] == OP_LAYOUT_PACKED) continue;
        if (!is_cheap(&input->type.shape, wish.inputs[i])) return BASE_OK;
    }
    if (!node->outputs[0] || !is_cheap(&node->outputs[0]->type.shape, wish.output)) return BASE_OK;
    if (!relaid_call(l, node, &wish, &call)) return base_fail_memory(l->context->report);
    if (!kernel->accepts(&call, environment)) return BASE_OK;
    base_status status = apply(l, node, &wish);
    for (uint32_t i = 0; i < node->input_count && i < RT_KERNEL_INPUTS && status == BASE_OK; i++) {
        if (ir_input(node, i) && wish.inputs[i] == OP_LAYOUT_PACKED) status = pack(l, node, kernel, &call, i);
    }
    *granted = true;
    return status;
}

static base_status grant_wish(layouter *l, ir_node *node, bool open, bool *granted) {
    const op_attributes before = node->attributes;
    if (open && !separate(l, node, &node->attributes)) {
        node->attributes = before;
        return BASE_OK;
    }
    base_status status = try_wish(l, node, granted);
    if (!*granted) node->attributes = before;
    return status;
}

/* A reduction over a map, or over its channels, leaves nothing that could lie in blocks, or has no rank for them: it reads the map as it lies. */
static base_status reduce_map(layouter *l, ir_node *node, op_layout layout, bool *followed) {
    rt_preference wish = {.output = OP_LAYOUT_ROW_MAJOR};
    op_call call;
    wish.inputs[0] = layout;
    if (ir_input(node, 0)->type.layout != layout) return BASE_OK;
    if (!relaid_call(l, node, &wish, &call)) return base_fail_memory(l->context->report);
    if (!rt_kernel_select(&call, &l->context->options->environment)) return BASE_OK;
    *followed = true;
    return apply(l, node, &wish);
}

/* Takes over the layout of an input, where a kernel accepts that. */
static base_status follow(layouter *l, ir_node *node, bool *followed) {
    const rt_environment *environment = &l->context->options->environment;
    *followed = false;
    op_layout layout = OP_LAYOUT_ROW_MAJOR;
    for (uint32_t i = 0; i < node->input_count && layout == OP_LAYOUT_ROW_MAJOR; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && input->type.layout != OP_LAYOUT_PACKED) layout = input->type.layout;
    }
    if (layout == OP_LAYOUT_ROW_MAJOR || !node->outputs[0] || node->input_count > RT_KERNEL_INPUTS) {
        if (layout == OP_LAYOUT_ROW_MAJOR || node->code != OP_CONCAT) return BASE_OK;
    }
    const op_shape *shape = &node->outputs[0]->type.shape;
    if (shape->rank < 3 || !is_cheap(shape, layout))
        return op_schema_of(node->code)->infer == op_infer_reduce ? reduce_map(l, node, layout, followed)
                                                                  : BASE_OK;
    if (node->code == OP_CONCAT) {
        /* Any number of inputs, all of them blocked. */
        op_call call;
        if (!ir_node_call(node, &l->arena, &call)) return base_fail_memory(l->context->report);
        call.outputs[0].type.layout = layout;
        pass_example_layouts(&call, &l->arena);
        if (!rt_kernel_select(&call, environment)) return BASE_OK;
        node->outputs[0]->type.layout = layout;
        *followed = true;
        return BASE_OK;
    }
    /* Images of the shape's rank take the layout, what describes channels stays as it is. */
    rt_preference wish = {.output = layout};
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && input->type.shape.rank == shape->rank && !input->constant &&
            is_cheap(&input->type.shape, layout)) {
            wish.inputs[i] = layout;
        }
    }
    op_call call;
    if (!relaid_call(l, node, &wish, &call)) return base_fail_memory(l->context->report);
    pass_example_layouts(&call, &l->arena);
    if (!rt_kernel_select(&call, environment))
        return op_schema_of(node->code)->infer == op_infer_reduce ? reduce_map(l, node, layout, followed)
                                                                  : BASE_OK;
    *followed = true;
    return apply(l, node, &wish);
}

/* Recurrences, products with weights of bytes or fewer bits, and tables that products read, too: weights are packed alike for inputs of all extents. */
static bool packs_for_any(const ir_node *node) {
    if (node->code == OP_GATHER)
        return op_attribute_find(&node->attributes, "ouro.weights_bits") ||
               op_attribute_find(&node->attributes, "ouro.panels");
    return node->code == OP_LSTM || node->code == OP_GRU || node->code == OP_DYNAMIC_LSTM ||
           node->code == OP_MATMUL_INTEGER || node->code == OP_QLINEAR_MATMUL ||
           node->code == OP_MATMUL_BITS || node->code == OP_GATHER_BITS;
}

static base_status lay_out_graph(layouter *l, ir_graph *graph) {
    base_status status = BASE_OK;
    for (ir_node *node = graph->first; node && status == BASE_OK; node = node->next) {
        bool done = false;
        if (node->code == OP_REORDER) continue;
        bool control = op_schema_of(node->code)->flags & OP_FLAG_GRAPHS;
        const bool open = !control && !packs_for_any(node) &&
                          (pass_shapes_known(node) ? rows_may_be_cut(l, node)
                                                   : images_are_open(l, node) || rows_are_open(node));
        if (!control && node->output_count && (open || pass_shapes_known(node))) {
            status = grant_wish(l, node, open, &done);
            if (status == BASE_OK && !done) status = follow(l, node, &done);
        } else if (packs_for_any(node)) {
            status = grant_wish(l, node, false, &done);
        }
        if (status == BASE_OK && !done) status = apply(l, node, NULL);
        for (uint32_t i = 0; i < node->graph_count && status == BASE_OK; i++)
            status = lay_out_graph(l, node->graphs[i]);
        base_arena_free(&l->arena);
    }
    for (uint32_t i = 0; i < graph->result_count && status == BASE_OK; i++) {
        ir_value *row_major = in_layout(l, graph->results[i]->value, OP_LAYOUT_ROW_MAJOR, NULL, graph);
        if (!row_major) return base_fail_memory(l->context->report);
        ir_graph_set_result(graph, i, row_major);
    }
    return status;
}

/* What is only reordered to row-major is made so, where its kernel can do that with the weights that it has packed. */
static base_status make_row_major(layouter *l, ir_node *node) {
    const rt_environment *environment = &l->context->options->environment;
    ir_value *made = node->output_count == 1 ? node->outputs[0] : NULL;
    const ir_use *use = made ? made->uses : NULL;
    op_call call;
    if (!use || use->next || !use->node || use->node->code != OP_REORDER ||
        made->type.layout == OP_LAYOUT_ROW_MAJOR || use->node->outputs[0]->type.layout != OP_LAYOUT_ROW_MAJOR)
        return BASE_OK;
    if (!ir_node_call(node, &l->arena, &call)) return base_fail_memory(l->context->report);
    pass_example_layouts(&call, &l->arena);
    const rt_kernel *kernel = rt_kernel_select(&call, environment);
    if (!kernel || !kernel->packs_for_any_output) return BASE_OK;
    call.outputs[0].type.layout = OP_LAYOUT_ROW_MAJOR;
    if (rt_kernel_select(&call, environment) != kernel) return BASE_OK;
    ir_node *reorder = use->node;
    made->type.layout = OP_LAYOUT_ROW_MAJOR;
    ir_value_replace(reorder->outputs[0], made);
    ir_node_remove(reorder);
    return BASE_OK;
}

static base_status make_all_row_major(layouter *l, ir_graph *graph) {
    base_status status = BASE_OK;
    for (ir_node *node = graph->first; node && status == BASE_OK; node = node->next) {
        status = make_row_major(l, node);
        for (uint32_t i = 0; i < node->graph_count && status == BASE_OK; i++)
            status = make_all_row_major(l, node->graphs[i]);
        base_arena_free(&l->arena);
    }
    return status;
}

base_status pass_select_layouts(pass_context *context) {
    layouter l = {.context = context, .module = context->module, .value_count = context->module->value_count};
    l.reordered = base_arena_alloc(context->scratch, l.value_count, sizeof *l.reordered);
    if (!l.reordered) return base_fail_memory(context->report);
    base_arena_init(&l.arena, context->scratch->allocator);
    base_status status = lay_out_graph(&l, context->module->main);
    if (status == BASE_OK) status = make_all_row_major(&l, context->module->main);
    base_arena_free(&l.arena);
    base_report_context(context->report, NULL);
    return status;
}

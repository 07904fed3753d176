/* SPDX-License-Identifier: Apache-2.0 */
/* channels_last.c: see channels_last.h. */
#include "passes/bands/channels_last.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/rows_convolution.h"
#include <string.h>

static bool is_image(const ir_node *node, uint32_t input) {
    const ir_value *value = ir_input(node, input);
    return band_node_reading(node, input) == BAND_READS_ROWS && value->kind != IR_CONSTANT;
}

static bool fits_layout(const op_type *type) {
    return type->dtype == OP_FLOAT && type->shape.rank > BAND_AXIS && type->shape.dims[0] == 1;
}

static bool is_joining(const ir_node *node) {
    const op_view view = op_schema_of(node->code)->view;
    return view == OP_VIEW_CONCAT || view == OP_VIEW_SPLIT || view == OP_VIEW_SLICE ||
           (node->code == OP_GATHER && !band_gathers_rows(node));
}

/* The application with channels innermost; weights that are packed now are row-major, without their numbers. */
static bool relay(const ir_node *node, base_arena *arena, op_call *call) {
    if (!ir_node_call(node, arena, call)) return false;
    op_tensor *inputs = BASE_ARRAY(arena, op_tensor, call->input_count);
    if (!inputs) return false;
    memcpy(inputs, call->inputs, call->input_count * sizeof *inputs);
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (ir_input(node, i) && is_image(node, i)) inputs[i].type.layout = OP_LAYOUT_NHWC;
        if (inputs[i].type.layout != OP_LAYOUT_PACKED) continue;
        inputs[i].type.layout = OP_LAYOUT_ROW_MAJOR;
        inputs[i].type.packed_bytes = 0;
    }
    call->inputs = inputs;
    call->outputs[0].type.layout = OP_LAYOUT_NHWC;
    return true;
}

/* The same as kernels are asked about their wishes: all of it row-major. */
static bool ask(const rt_kernel *kernel, const op_call *relaid, const rt_environment *environment,
                base_arena *arena, rt_preference *wish) {
    op_call call = *relaid;
    op_tensor *tensors = BASE_ARRAY(arena, op_tensor, call.input_count + 1);
    if (!tensors) return false;
    memcpy(tensors, call.inputs, call.input_count * sizeof *tensors);
    for (uint32_t i = 0; i < call.input_count; i++) tensors[i].type.layout = OP_LAYOUT_ROW_MAJOR;
    tensors[call.input_count] = call.outputs[0];
    tensors[call.input_count].type.layout = OP_LAYOUT_ROW_MAJOR;
    call.inputs = tensors;
    call.outputs = &tensors[call.input_count];
    *wish = (rt_preference){.inputs[0] = OP_LAYOUT_NHWC};
    return kernel->prefer(&call, environment, wish) && wish->inputs[0] == OP_LAYOUT_NHWC &&
           wish->output == OP_LAYOUT_NHWC && wish->inputs[1] == OP_LAYOUT_PACKED;
}

/* The kernel that has packed the weights of the node, and what it would have of them then; NULL: it cannot. */
static const rt_kernel *packing_kernel(const ir_node *node, op_call *relaid,
                                       const rt_environment *environment, base_arena *arena) {
    const rt_kernel *kernel;
    rt_preference wish;
    for (unsigned i = 0; (kernel = rt_kernel_candidate(node->code, i)); i++)
        if (kernel->prefer && kernel->pack && kernel->unpack && rt_kernel_allowed(kernel, environment) &&
            ask(kernel, relaid, environment, arena, &wish))
            break;
    op_call now;
    if (!kernel || !ir_node_call(node, arena, &now) || rt_kernel_select(&now, environment) != kernel)
        return NULL;
    op_tensor *weights = (op_tensor *)&relaid->inputs[1];
    weights->type.layout = OP_LAYOUT_PACKED;
    weights->type.packed_bytes = wish.packed_bytes[1];
    weights->bytes = wish.packed_bytes[1];
    return kernel->accepts(relaid, environment) ? kernel : NULL;
}

bool band_keeps_channels_last(const ir_node *node, const rt_environment *environment, base_arena *arena) {
    op_call call;
    if (is_joining(node) || node->output_count != 1 || !fits_layout(&node->outputs[0]->type)) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (input && band_node_reading(node, i) == BAND_READS_ROWS &&
            (input->kind == IR_CONSTANT || !fits_layout(&input->type)))
            return false;
    }
    if (node->code == OP_REORDER) return true;
    if (node->code == OP_CONV_TRANSPOSE || !relay(node, arena, &call)) return false;
    const ir_value *weights = node->code == OP_CONV ? ir_input(node, 1) : NULL;
    if (!weights) return rt_kernel_select(&call, environment) != NULL;
    return weights->type.layout == OP_LAYOUT_PACKED && weights->constant &&
           packing_kernel(node, &call, environment, arena);
}

bool band_reads_in_place(const ir_node *node, const rt_environment *environment, base_arena *arena) {
    op_call call;
    const ir_value *weights = node->code == OP_CONV ? ir_input(node, 1) : NULL;
    return weights && weights->constant && weights->type.layout == OP_LAYOUT_PACKED && is_image(node, 0) &&
           rt_has_wide_vectors(environment) && ir_node_call(node, arena, &call) &&
           rt_rows_convolution_stands_for(&call);
}

/* ---- carried out --------------------------------------------------------------------------------------- */

typedef struct relayer {
    const rt_environment *environment;
    base_arena *arena;
    base_report *report;
    bool trial;
    ir_module *module;
    ir_graph *graph;
    size_t node_count;
    bool *inside;         /* by node id, of the nodes that there were */
    bool *in_place;       /* likewise: it reads its image in place */
    ir_value **reordered; /* by value id: what comes from outside, with channels innermost */
    size_t value_count;
    ir_node *first, *last;
} relayer;

static bool is_inside(const relayer *r, const ir_node *node) {
    return node && node->graph == r->graph && node->id.index < r->node_count && r->inside[node->id.index];
}

/* The weights, packed for channels that are innermost. The images of the node still lie as they did when these were packed:
 * their form follows from that. */
static base_status repack(const relayer *r, ir_node *node) {
    ir_value *weights = ir_input(node, 1);
    op_call before, after;
    if (!ir_node_call(node, r->arena, &before) || !relay(node, r->arena, &after))
        return base_fail_memory(r->report);
    const rt_kernel *kernel = packing_kernel(node, &after, r->environment, r->arena);
    if (!kernel) return base_fail(r->report, BASE_INVALID, "channels cannot be innermost here");
    const bool in_place = r->in_place[node->id.index];
    if (in_place)
        ((op_tensor *)&after.inputs[1])->type.packed_bytes =
            rt_rows_convolution_packed_bytes(&weights->type.shape);
    op_tensor plain = weights->constant->tensor;
    plain.type.layout = OP_LAYOUT_ROW_MAJOR;
    plain.type.packed_bytes = 0;
    if (!op_type_bytes(&plain.type, &plain.bytes)) return base_fail_memory(r->report);
    plain.data = r->trial ? weights->constant->tensor.data : rt_arena_aligned(r->arena, plain.bytes);
    const op_type *type = &after.inputs[1].type;
    void *data = NULL;
    ir_value *packed =
        plain.data ? ir_constant_reserve(r->module, weights->name, type, type->packed_bytes, &data) : NULL;
    if (!packed) return base_fail_memory(r->report);
    if (r->trial) {
        if (!ir_node_set_input(node, 1, packed)) return base_fail_memory(r->report);
        return BASE_OK;
    }
    memset(data, 0, type->packed_bytes);
    ir_node_context(node, r->report);
    base_status status =
        kernel->unpack(&before, r->environment, 1, &weights->constant->tensor, plain.data, r->report);
    if (in_place && status == BASE_OK) rt_rows_convolution_pack(&plain.type.shape, plain.data, data);
    else if (status == BASE_OK) status = kernel->pack(&after, r->environment, 1, &plain, data, r->report);
    base_report_context(r->report, NULL);
    if (status != BASE_OK) return status;
    if (!ir_node_set_input(node, 1, packed)) return base_fail_memory(r->report);
    if (!weights->uses) ir_constant_remove(r->module, weights);
    return BASE_OK;
}

/* Reorders of the region are looked through. */
static ir_value *before_reorders(const relayer *r, ir_value *value) {
    while (value->kind == IR_RESULT_OF_NODE && is_inside(r, value->node) && value->node->code == OP_REORDER)
        value = ir_input(value->node, 0);
    return value;
}

static ir_value *reorder(const relayer *r, ir_value *value, ir_node *before, const ir_node *origin,
                         op_layout layout) {
    const op_attribute attribute = {
        .name = "ouro.layout", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = layout};
    op_attributes attributes = {0};
    if (!ir_attribute_set(r->module, &attributes, &attribute)) return NULL;
    ir_node *node = ir_node_new(r->graph, before, OP_REORDER, "", origin->path, attributes, 1, &value);
    op_type type = value->type;
    type.layout = layout;
    return node ? ir_node_add_output(node, value->name, &type) : NULL;
}

/* What the node reads as image `value`, with channels innermost. */
static ir_value *in_layout(relayer *r, ir_value *value, ir_node *reader) {
    if (value->type.layout == OP_LAYOUT_NHWC || r->in_place[reader->id.index]) return value;
    ir_value **known = &r->reordered[value->id.index];
    if (!*known) *known = reorder(r, value, reader, reader, OP_LAYOUT_NHWC);
    if (*known && reader == r->first) r->first = (*known)->node;
    return *known;
}

static base_status relay_node(relayer *r, ir_node *node) {
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < node->input_count && status == BASE_OK; i++) {
        if (!ir_input(node, i) || !is_image(node, i)) continue;
        ir_value *there = in_layout(r, before_reorders(r, ir_input(node, i)), node);
        if (!there || !ir_node_set_input(node, i, there)) status = base_fail_memory(r->report);
    }
    return status;
}

/* Readers outside get the value as it was, after `node`. */
static base_status export(relayer *r, ir_node *node, op_layout layout) {
    ir_value *value = node->outputs[0], *there = NULL;
    bool changed = layout != OP_LAYOUT_NHWC;
    while (changed) {
        changed = false;
        for (const ir_use *use = value->uses; use && !changed; use = use->next) {
            if (use->node && (is_inside(r, use->node) || (there && use->node == there->node))) continue;
            if (!there) there = reorder(r, value, node->next, node, layout);
            if (!there) return base_fail_memory(r->report);
            if (use->node && !ir_node_set_input(use->node, use->index, there))
                return base_fail_memory(r->report);
            if (!use->node) ir_graph_set_result(use->graph, use->index, there);
            changed = true;
        }
    }
    if (there && node == r->last) r->last = there->node;
    return BASE_OK;
}

/* A Reorder of the region: gone, if nobody outside reads it. */
static base_status mend_reorder(relayer *r, ir_node *node) {
    ir_value *source = before_reorders(r, ir_input(node, 0)), *output = node->outputs[0];
    if (!ir_node_set_input(node, 0, source)) return base_fail_memory(r->report);
    if (output->uses && source->type.layout == output->type.layout) ir_value_replace(output, source);
    return BASE_OK;
}

static void remove_unread(relayer *r) {
    for (ir_node *node = r->last, *previous; node; node = previous) {
        const bool at_first = node == r->first;
        previous = node->previous;
        if (node->code == OP_REORDER && !node->outputs[0]->uses) {
            if (node == r->last) r->last = previous;
            if (at_first) r->first = node->next;
            ir_node_remove(node);
        }
        if (at_first) break;
    }
}

base_status band_put_channels_last(ir_node **first, ir_node **last, const rt_environment *environment,
                                   bool trial, base_arena *arena, base_report *report) {
    relayer r = {.environment = environment,
                 .trial = trial,
                 .arena = arena,
                 .report = report,
                 .module = (*first)->graph->module,
                 .graph = (*first)->graph,
                 .first = *first,
                 .last = *last};
    r.node_count = r.module->node_count;
    r.value_count = r.module->value_count;
    r.inside = BASE_ARRAY(arena, bool, r.node_count);
    r.in_place = BASE_ARRAY(arena, bool, r.node_count);
    r.reordered = BASE_ARRAY(arena, ir_value *, r.value_count);
    op_layout *layouts = BASE_ARRAY(arena, op_layout, r.node_count);
    if (!r.inside || !r.in_place || !r.reordered || !layouts) return base_fail_memory(report);
    base_status status = BASE_OK;
    ir_node *const end = (*last)->next;
    for (ir_node *node = *first; node != end; node = node->next) r.inside[node->id.index] = true;
    for (ir_node *node = *first; node != end && status == BASE_OK; node = node->next) {
        if (node->code != OP_CONV) continue;
        const ir_value *image = ir_input(node, 0);
        r.in_place[node->id.index] = !(image->kind == IR_RESULT_OF_NODE && is_inside(&r, image->node)) &&
                                     band_reads_in_place(node, environment, arena);
        const op_attribute in_place = {
            .name = "ouro.in_place", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
        status = r.in_place[node->id.index] && !ir_attribute_set(r.module, &node->attributes, &in_place)
                     ? base_fail_memory(report)
                     : repack(&r, node);
    }
    for (ir_node *node = *first; node != end && status == BASE_OK; node = node->next) {
        if (node->code == OP_REORDER) continue;
        status = relay_node(&r, node);
        layouts[node->id.index] = node->outputs[0]->type.layout;
        node->outputs[0]->type.layout = OP_LAYOUT_NHWC;
    }
    for (ir_node *node = *first, *next; node != end && status == BASE_OK; node = next) {
        next = node->next;
        if (!is_inside(&r, node)) continue;
        status =
            node->code == OP_REORDER ? mend_reorder(&r, node) : export(&r, node, layouts[node->id.index]);
    }
    if (status == BASE_OK) remove_unread(&r);
    *first = r.first;
    *last = r.last;
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c: the loops of a plan: what a Loop node carries, scans and stacks, and the multi-views that belong to it. */
#include "runtime/plan/plan.h"
#include "ir/operators/shape_list.h"
#include <string.h>

/* ---- Loop nodes ---------------------------------------------------------------------------------------- */

/* A list with one number for each scanned tensor; NULL where it is absent. */
static bool read_list(const plan *of, const plan_node *node, const char *name, uint32_t count,
                      const int64_t **list) {
    const plan_attribute *attribute = plan_node_attribute(of, node, name);
    *list = NULL;
    if (!attribute) return true;
    if (attribute->kind != OP_ATTRIBUTE_INTS || attribute->count != count) return false;
    *list = of->integers + attribute->value;
    return true;
}

/* The shapes that are declared for slices of stacked outputs. */
static bool read_shapes(const plan *of, const plan_node *node, plan_loop_form *form) {
    const plan_attribute *attribute = plan_node_attribute(of, node, "ouro.scan_output_shapes");
    if (!attribute) return true;
    if (attribute->kind != OP_ATTRIBUTE_INTS) return false;
    form->declared = of->integers + attribute->value;
    form->declared_length = (size_t)attribute->count;
    return op_shape_list_holds(form->declared, form->declared_length, form->scan_outputs);
}

static bool read_count(const plan *of, const plan_node *node, const char *name, uint64_t most,
                       uint64_t otherwise, uint32_t *count) {
    const plan_attribute *attribute = plan_node_attribute(of, node, name);
    uint64_t value = attribute && attribute->kind == OP_ATTRIBUTE_INT ? attribute->value : otherwise;
    if (value > most) return false;
    *count = (uint32_t)value;
    return true;
}

bool plan_loop_form_read(const plan *of, const plan_node *node, plan_loop_form *form) {
    *form = (plan_loop_form){.body = node->first_graph, .trip_count = PLAN_ABSENT, .condition = PLAN_ABSENT};
    const plan_graph *body = &of->graphs[node->first_graph];
    uint64_t inputs = node->input_count < 2 ? 0 : node->input_count - 2;
    if (!read_count(of, node, "ouro.scan_inputs", inputs, 0, &form->scan_inputs)) return false;
    form->carried = (uint32_t)inputs - form->scan_inputs;
    if (node->output_count < form->carried) return false;
    uint64_t stacked = node->output_count - form->carried;
    if (!read_count(of, node, "ouro.scan_outputs", stacked, stacked, &form->scan_outputs) ||
        form->scan_outputs != stacked || body->parameter_count != 2 + inputs ||
        body->result_count != 1 + node->output_count) {
        return false;
    }
    const uint32_t *ids = of->tensor_ids + node->inputs;
    if (node->input_count > 0) form->trip_count = ids[0];
    if (node->input_count > 1) form->condition = ids[1];
    form->initial = inputs ? ids + 2 : ids;
    form->parameters = of->tensor_ids + body->parameters;
    form->results = of->tensor_ids + body->results;
    form->outputs = of->tensor_ids + node->outputs;
    return read_list(of, node, "ouro.scan_input_axes", form->scan_inputs, &form->axes[0]) &&
           read_list(of, node, "ouro.scan_output_axes", form->scan_outputs, &form->axes[1]) &&
           read_list(of, node, "ouro.scan_input_directions", form->scan_inputs, &form->directions[0]) &&
           read_list(of, node, "ouro.scan_output_directions", form->scan_outputs, &form->directions[1]) &&
           read_shapes(of, node, form);
}

bool plan_loop_grows(const plan *of, const plan_loop_form *form, uint32_t index, uint32_t *concat) {
    uint32_t parameter = form->parameters[2 + index], result = form->results[1 + index];
    const plan_tensor *grown = &of->tensors[result];
    const plan_graph *body = &of->graphs[form->body];
    if (of->tensors[parameter].address.space != MEMORY_DYNAMIC || grown->address.space != MEMORY_DYNAMIC ||
        grown->rank < 1)
        return false;
    for (uint64_t n = body->nodes; n < body->nodes + body->node_count; n++) {
        const plan_node *node = &of->nodes[n];
        if (node->output_count != 1 || of->tensor_ids[node->outputs] != result) continue;
        if (plan_node_code(of, node) != OP_CONCAT || of->tensor_ids[node->inputs] != parameter) return false;
        const plan_attribute *axis = plan_node_attribute(of, node, "axis");
        int32_t normal;
        if (!axis || !op_axis((int64_t)axis->value, grown->rank, &normal)) return false;
        for (int32_t d = 0; d < normal; d++)
            if (of->integers[grown->dims + (uint64_t)d] != 1) return false;
        if (concat) *concat = (uint32_t)n;
        return true;
    }
    return false;
}

/* A constant that is one byte and not zero. */
static bool is_constant_true(const plan *of, uint32_t id) {
    const plan_tensor *tensor = &of->tensors[id];
    return tensor->address.space == MEMORY_CONSTANT && tensor->bytes == 1 &&
           of->constants[tensor->address.offset] != 0;
}

bool plan_loop_is_counted(const plan *of, const plan_loop_form *form) {
    return (form->condition == PLAN_ABSENT || is_constant_true(of, form->condition)) &&
           (form->results[0] == form->parameters[1] || is_constant_true(of, form->results[0])) &&
           (form->trip_count != PLAN_ABSENT || form->scan_inputs);
}

int64_t plan_loop_axis(const plan_loop_form *form, bool output, uint32_t index) {
    return form->axes[output] ? form->axes[output][index] : 0;
}

bool plan_loop_backwards(const plan_loop_form *form, bool output, uint32_t index) {
    return form->directions[output] && form->directions[output][index] == 1;
}

op_shape plan_loop_declared(const plan_loop_form *form, uint32_t index) {
    op_shape shape;
    (void)op_shape_list_read(form->declared, form->declared_length, index, &shape);
    return shape;
}

/* ---- multi-views --------------------------------------------------------------------------------------- */

plan_address plan_multiview_entry(const plan *of, uint32_t multiview, uint64_t t) {
    return plan_multiview_entry_of(of, multiview, t, 0);
}

plan_address plan_multiview_entry_of(const plan *of, uint32_t multiview, uint64_t t, uint64_t trips) {
    const plan_multiview *table = &of->multiviews[multiview];
    const uint64_t period = table->period;
    uint64_t index = t, beyond = 0;
    if (t >= table->prologue_count) {
        beyond = t - table->prologue_count;
        index = table->prologue_count +
                (table->from_end ? t % period + (period - trips % period) : beyond) % period;
    }
    plan_address address = of->addresses[table->first + index];
    address.offset += (uint64_t)table->stride * beyond;
    return address;
}

bool plan_is_within(const plan *of, uint32_t node, uint32_t graph) {
    if (node == plan_run_loop(of)) return true;
    for (; graph; graph = of->nodes[of->graphs[graph].owner].graph)
        if (of->graphs[graph].owner == node) return true;
    return false;
}

/* The address is always that of a whole swap buffer: one of its group; PLAN_ABSENT otherwise. */
static uint32_t lead_to_group(const plan *of, const plan_address *address) {
    if (address->space != MEMORY_MULTIVIEW || address->offset) return PLAN_ABSENT;
    const plan_multiview *multiview = &of->multiviews[address->index];
    if (multiview->group) return address->index;
    uint32_t found = PLAN_ABSENT;
    for (uint64_t k = 0; k < (uint64_t)multiview->prologue_count + multiview->period; k++) {
        const plan_address *entry = &of->addresses[multiview->first + k];
        if (multiview->stride || entry->space != MEMORY_MULTIVIEW || entry->offset) return PLAN_ABSENT;
        const plan_multiview *buffer = &of->multiviews[entry->index];
        if (!buffer->group || (found != PLAN_ABSENT && (of->multiviews[found].group != buffer->group ||
                                                        of->multiviews[found].loop != buffer->loop)))
            return PLAN_ABSENT;
        found = entry->index;
    }
    return found;
}

uint32_t plan_lazy_buffer(const plan *of, const plan_address *address) {
    if (address->space != MEMORY_MULTIVIEW) return PLAN_ABSENT;
    const plan_multiview *multiview = &of->multiviews[address->index];
    if (multiview->group) return multiview->lazy ? address->index : PLAN_ABSENT;
    for (uint64_t k = 0; k < (uint64_t)multiview->prologue_count + multiview->period; k++) {
        const plan_address *entry = &of->addresses[multiview->first + k];
        if (entry->space == MEMORY_MULTIVIEW && of->multiviews[entry->index].loop == multiview->loop &&
            of->multiviews[entry->index].lazy)
            return entry->index;
    }
    return PLAN_ABSENT;
}

uint32_t plan_swap_buffer(const plan *of, uint32_t node, uint32_t index, uint32_t from) {
    const plan_attribute *marks = plan_node_attribute(of, &of->nodes[node], PLAN_SWAPS);
    const uint32_t output = of->tensor_ids[of->nodes[node].outputs + index];
    if (!marks || marks->kind != OP_ATTRIBUTE_INTS || index >= marks->count ||
        of->integers[marks->value + index] != 1 || output == PLAN_ABSENT)
        return PLAN_ABSENT;
    uint32_t multiview = lead_to_group(of, &of->tensors[output].address);
    if (multiview == PLAN_ABSENT || of->tensors[output].bytes > of->multiviews[multiview].bytes ||
        from == PLAN_ABSENT || of->tensors[from].bytes != of->tensors[output].bytes ||
        of->tensors[from].address.space == MEMORY_DYNAMIC)
        return PLAN_ABSENT;
    return plan_is_within(of, of->multiviews[multiview].loop, of->nodes[node].graph) ? multiview
                                                                                     : PLAN_ABSENT;
}

uint64_t plan_loop_horizon(const plan *of, uint32_t loop, uint64_t most) {
    uint64_t prologue = 0, multiple = 1;
    for (uint64_t v = 0; v < of->header->multiviews.count; v++) {
        const plan_multiview *multiview = &of->multiviews[v];
        if (multiview->loop != loop) continue;
        if (multiview->prologue_count > prologue) prologue = multiview->prologue_count;
        multiple = base_lcm(multiple, multiview->period);
        if (multiple > most) return most;
    }
    uint64_t all = prologue + 2 * multiple + 1;
    return all < most ? all : most;
}

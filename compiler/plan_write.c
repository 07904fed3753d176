/* SPDX-License-Identifier: Apache-2.0 */
/* plan_write.c: a compiled module and its memory plan as the records of a plan file (runtime/plan/plan.h).
 *
 * Everything stands in the order of ids and lists, which are the same for the same input: the same module always
 * gives the same bytes (runtime/plan/write.h).
 */
#include "compiler/compiler.h"
#include "ir/loop.h"
#include "runtime/plan/write.h"
#include <stdlib.h>
#include <string.h>

typedef struct module_writer {
    plan_writer out;
    const ir_module *module;
    const pass_memory *memory;
    base_report *report;
    base_arena *arena;      /* of `out` */
    uint32_t *id_of;        /* by value id; PLAN_ABSENT where it is not written */
    ir_graph **graph_order; /* owners before what they own, graphs of one node next to each other */
    uint32_t *graph_number; /* by graph id */
    uint32_t *node_number;  /* by node id */
    bool portable;
    bool moves;          /* constants lie in the plan afterwards */
    ir_constant **moved; /* by index of a constant of `out`: whose bytes it has; NULL: no value's */
    size_t moved_capacity;
} module_writer;

static bool write_name(module_writer *w, const char *text, uint32_t *offset) {
    return plan_write_text(&w->out, text ? text : "", text ? strlen(text) : 0, offset);
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

/* Strings as plan_string records with their characters after them. */
static bool write_strings(module_writer *w, const op_tensor *tensor, size_t bytes, uint64_t *offset) {
    const op_string *from = tensor->data;
    size_t count = bytes / sizeof *from, total = bytes;
    bool fits = true;
    for (size_t i = 0; i < count; i++) fits = fits && base_size_add(total, from[i].length, &total);
    char *block = fits ? base_arena_alloc(w->arena, total, 1) : NULL;
    if (!block) {
        base_fail_memory(w->report);
        return false;
    }
    size_t end = bytes;
    for (size_t i = 0; i < count; i++) {
        const plan_string record = {end - i * sizeof record, from[i].length};
        memcpy(block + i * sizeof record, &record, sizeof record);
        if (from[i].length) memcpy(block + end, from[i].data, from[i].length);
        end += from[i].length;
    }
    return plan_write_constant(&w->out, block, total, offset);
}

static bool write_constant_tensor(module_writer *w, const char *name, const op_tensor *tensor,
                                  uint64_t *offset) {
    size_t bytes;
    if (tensor->type.kind != OP_KIND_TENSOR || !op_type_bytes(&tensor->type, &bytes) ||
        bytes > tensor->bytes || (bytes && !tensor->data)) {
        base_fail(w->report, BASE_INVALID, "constant \"%s\" has less data than its type says", name);
        return false;
    }
    return tensor->type.dtype == OP_STRING ? write_strings(w, tensor, bytes, offset)
                                           : plan_write_constant(&w->out, tensor->data, bytes, offset);
}

/* The constant of a value, which is remembered where its bytes are the first of their kind. */
static bool write_constant_value(module_writer *w, const ir_value *value, uint64_t *offset) {
    const size_t before = w->out.constant_count, capacity = w->moved_capacity;
    if (!write_constant_tensor(w, value->name, &value->constant->tensor, offset)) return false;
    if (!w->moves || w->out.constant_count == before || value->type.dtype == OP_STRING) return true;
    ir_constant **moved =
        base_arena_grow(w->arena, w->moved, &w->moved_capacity, w->out.constant_count, sizeof *moved);
    if (!moved) {
        base_fail_memory(w->report);
        return false;
    }
    for (size_t i = capacity; i < w->moved_capacity; i++) moved[i] = NULL;
    w->moved = moved;
    moved[before] = value->constant;
    return true;
}

static void constant_copied(void *user, size_t index, void *to) {
    const module_writer *w = user;
    if (index < w->moved_capacity && w->moved[index]) ir_constant_move(w->moved[index], to);
}

static bool write_tensor(module_writer *w, const char *name, const op_type *type, uint32_t graph,
                         plan_address address, uint32_t *id) {
    *id = (uint32_t)plan_written_count(&w->out, PLAN_TENSORS);
    plan_tensor *to = plan_write_records(&w->out, PLAN_TENSORS, 1);
    size_t bytes = 0;
    if (!to || !write_name(w, name, &to->name)) return false;
    if (!op_type_bytes(type, &bytes)) bytes = 0;
    to->kind = (uint8_t)type->kind;
    to->element = (uint8_t)type->element;
    to->dtype = (uint8_t)type->dtype;
    to->layout = (uint8_t)type->layout;
    to->rank = type->shape.rank;
    to->graph = graph;
    to->bytes = bytes;
    to->address = address;
    return plan_write_integers(&w->out, type->shape.dims, type->shape.rank > 0 ? (size_t)type->shape.rank : 0,
                               &to->dims);
}

static bool locate(module_writer *w, pass_location location, plan_address *address);

/* Where the value lies at run time. */
static bool address_of(module_writer *w, const ir_value *value, plan_address *address) {
    *address = (plan_address){.space = MEMORY_NONE};
    if (value->kind == IR_CONSTANT) {
        address->space = MEMORY_CONSTANT;
        return write_constant_value(w, value, &address->offset);
    }
    const uint32_t states = ir_module_states(w->module);
    if (value->kind == IR_PARAMETER && value->graph == w->module->main && value->index >= states) {
        *address = (plan_address){MEMORY_INPUT, value->index - states, 0};
        return true;
    }
    return locate(w, pass_memory_location(w->memory, value), address);
}

static bool locate(module_writer *w, pass_location location, plan_address *address) {
    *address = (plan_address){.space = MEMORY_NONE};
    location = pass_memory_resolve(w->memory, location);
    if (!location.storage.index) return true;
    const pass_storage *storage = pass_memory_storage(w->memory, location.storage);
    address->space = storage->space;
    switch (storage->space) {
    case MEMORY_NONE:
    case MEMORY_DYNAMIC:
        break;
    case MEMORY_ARENA:
        if (w->module->run && storage->graph == w->module->run->graph) address->space = MEMORY_STATE;
        address->offset = pass_memory_offset(w->memory, location);
        break;
    case MEMORY_SPILL:
        address->offset = storage->offset + location.offset;
        break;
    case MEMORY_STATE:
        break; /* storages of the graph around the model lie there */
    case MEMORY_CONSTANT:
        if (!storage->value || !address_of(w, storage->value, address)) return false;
        address->offset += location.offset;
        break;
    case MEMORY_INPUT:
    case MEMORY_OUTPUT:
    case MEMORY_MULTIVIEW:
        address->index = storage->space == MEMORY_MULTIVIEW ? storage->index - 1 : storage->index;
        address->offset = location.offset;
        break;
    }
    return true;
}

static bool write_multiviews(module_writer *w) {
    for (size_t v = 1; v < w->memory->multiview_count; v++) {
        const pass_multiview *from = &w->memory->multiviews[v];
        plan_multiview *to = plan_write_records(&w->out, PLAN_MULTIVIEWS, 1);
        uint32_t count = from->prologue + from->repeat;
        if (!to) return false;
        *to = (plan_multiview){
            .first = plan_written_count(&w->out, PLAN_ADDRESSES),
            .prologue_count = from->prologue,
            .period = from->repeat,
            .stride = from->stride,
            .loop = from->loop == w->module->run ? (uint32_t)plan_written_count(&w->out, PLAN_NODES)
                                                 : w->node_number[from->loop->id.index],
            .group = from->group,
            .from_end = from->from_end,
            .lazy = from->lazy,
            .bytes = from->group ? w->memory->storages[from->entries[0].storage.index].bytes : 0};
        plan_address *entries = plan_write_records(&w->out, PLAN_ADDRESSES, count);
        for (uint32_t i = 0; entries && i < count; i++) {
            if (!locate(w, from->entries[i], &entries[i])) return false;
        }
        if (!entries) return false;
    }
    return true;
}

static bool write_tensors(module_writer *w) {
    const ir_module *module = w->module;
    for (size_t i = 0; i < module->value_count; i++) {
        w->id_of[i] = PLAN_ABSENT;
        const ir_value *value = module->values[i];
        if (!value || (value->kind == IR_CONSTANT && !value->uses)) continue;
        if (w->module->run && value->graph == w->module->run->graph) continue;
        plan_address address;
        uint32_t graph = value->graph ? w->graph_number[value->graph->id.index] : 0;
        size_t bytes;
        if (!address_of(w, value, &address)) return false;
        bool reserved = address.space == MEMORY_ARENA && !op_type_bytes(&value->type, &bytes);
        if (reserved) address.space = MEMORY_DYNAMIC;
        if (!write_tensor(w, value->name, &value->type, graph, address, &w->id_of[i])) return false;
        if (reserved) {
            pass_location at = pass_memory_location(w->memory, value);
            plan_tensor *tensor = plan_written_record(&w->out, PLAN_TENSORS, w->id_of[i]);
            tensor->bytes = pass_memory_storage(w->memory, at.storage)->bytes;
        }
    }
    return true;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static bool write_type(module_writer *w, const op_type *type, uint64_t *first) {
    int64_t head[4] = {type->kind, type->element, type->dtype, type->shape.rank};
    uint64_t dims;
    return plan_write_integers(&w->out, head, 4, first) &&
           plan_write_integers(&w->out, type->shape.dims, type->shape.rank > 0 ? (size_t)type->shape.rank : 0,
                               &dims);
}

static bool write_attribute(module_writer *w, const op_attribute *from, plan_attribute *to) {
    to->kind = (uint32_t)from->kind;
    to->count = 1;
    if (!write_name(w, from->name, &to->name)) return false;
    switch (from->kind) {
    case OP_ATTRIBUTE_INT:
        to->value = (uint64_t)from->as.integer;
        return true;
    case OP_ATTRIBUTE_FLOAT: {
        uint32_t bits;
        memcpy(&bits, &from->as.real, sizeof bits);
        to->value = bits;
        return true;
    }
    case OP_ATTRIBUTE_STRING: {
        uint32_t text;
        if (!plan_write_text(&w->out, from->as.text.data ? from->as.text.data : "", from->as.text.length,
                             &text))
            return false;
        to->value = text;
        to->count = from->as.text.length;
        return true;
    }
    case OP_ATTRIBUTE_INTS:
        to->count = from->count;
        return plan_write_integers(&w->out, from->as.integers, from->count, &to->value);
    case OP_ATTRIBUTE_FLOATS: {
        to->count = from->count;
        to->value = plan_written_count(&w->out, PLAN_INTEGERS);
        int64_t *bits = plan_write_records(&w->out, PLAN_INTEGERS, from->count);
        for (size_t i = 0; bits && i < from->count; i++) {
            uint32_t word;
            memcpy(&word, &from->as.reals[i], sizeof word);
            bits[i] = word;
        }
        return bits != NULL;
    }
    case OP_ATTRIBUTE_STRINGS: {
        to->count = from->count;
        to->value = plan_written_count(&w->out, PLAN_INTEGERS);
        if (!plan_write_records(&w->out, PLAN_INTEGERS, 2 * from->count)) return false;
        for (size_t i = 0; i < from->count; i++) {
            uint32_t text;
            const op_string *string = &from->as.texts[i];
            if (!plan_write_text(&w->out, string->data ? string->data : "", string->length, &text))
                return false;
            int64_t *pair = plan_written_record(&w->out, PLAN_INTEGERS, to->value + 2 * i);
            pair[0] = text;
            pair[1] = (int64_t)string->length;
        }
        return true;
    }
    case OP_ATTRIBUTE_TENSOR: {
        const op_tensor *tensor = from->as.tensor;
        plan_address address = {.space = MEMORY_CONSTANT};
        uint32_t id;
        if (!write_constant_tensor(w, from->name, tensor, &address.offset) ||
            !write_tensor(w, from->name, &tensor->type, 0, address, &id)) {
            return false;
        }
        to->value = id;
        return true;
    }
    case OP_ATTRIBUTE_TYPE:
        return write_type(w, from->as.type, &to->value);
    }
    base_fail(w->report, BASE_INVALID, "attribute %s has kind %d, which plans cannot hold", from->name,
              (int)from->kind);
    return false;
}

static uint32_t id_of(const module_writer *w, const ir_value *value) {
    return value ? w->id_of[value->id.index] : PLAN_ABSENT;
}

/* By output, 1 where it gets its bytes by a swap. */
static int64_t *swap_marks(module_writer *w, const ir_node *node) {
    int64_t *marks = BASE_ARRAY(w->arena, int64_t, node->output_count);
    if (!marks) base_fail_memory(w->report);
    for (uint32_t i = 0; marks && i < node->output_count; i++)
        marks[i] = node->outputs[i] && w->memory->swapped[node->outputs[i]->id.index];
    return marks;
}

/* Shape or bytes of the tensor are known at run time only. */
static bool is_dynamic(module_writer *w, const ir_value *value) {
    size_t bytes;
    if (!value) return false;
    const plan_tensor *tensor = plan_written_record(&w->out, PLAN_TENSORS, id_of(w, value));
    return tensor->address.space == MEMORY_DYNAMIC || value->type.kind != OP_KIND_TENSOR ||
           !op_type_bytes(&value->type, &bytes);
}

static bool write_node(module_writer *w, const ir_node *node, plan_node *to) {
    const op_schema *row = op_schema_of(node->code);
    const pass_memory *memory = w->memory;
    bool view = memory->executions[node->id.index] == PASS_ALIAS,
         dynamic = row->flags & (OP_FLAG_DYNAMIC | OP_FLAG_LISTS);
    to->graph = w->graph_number[node->graph->id.index];
    to->graph_count = node->graph_count;
    to->first_graph = node->graph_count ? w->graph_number[node->graphs[0]->id.index] : 0;
    to->input_count = node->input_count;
    to->inputs = plan_written_count(&w->out, PLAN_TENSOR_IDS);
    uint32_t *ids = plan_write_records(&w->out, PLAN_TENSOR_IDS, node->input_count);
    if (!ids) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        ids[i] = id_of(w, ir_input(node, i));
        dynamic = dynamic || is_dynamic(w, ir_input(node, i));
    }
    to->output_count = node->output_count;
    to->outputs = plan_written_count(&w->out, PLAN_TENSOR_IDS);
    ids = plan_write_records(&w->out, PLAN_TENSOR_IDS, node->output_count);
    if (!ids) return false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        ids[i] = id_of(w, node->outputs[i]);
        dynamic = dynamic || is_dynamic(w, node->outputs[i]);
    }
    to->flags = dynamic ? PLAN_NODE_DYNAMIC : view ? PLAN_NODE_ALIAS : 0;
    bool runs = !(row->flags & OP_FLAG_GRAPHS) && to->flags != PLAN_NODE_ALIAS;
    const char *kernel = runs && node->kernel ? node->kernel : "";
    const rt_kernel *found = rt_kernel_find(kernel);
    if (found && found->backend != RT_BACKEND_PORTABLE) w->portable = false;
    if (!write_name(w, row->name, &to->operator_name) || !write_name(w, row->domain, &to->operator_domain) ||
        !write_name(w, node->name, &to->name) || !write_name(w, node->path, &to->path) ||
        !write_name(w, kernel, &to->kernel) || !write_name(w, node->reason, &to->reason)) {
        return false;
    }
    pass_storage_id scratch = memory->scratch[node->id.index];
    if (runs && node->scratch_bytes && scratch.index) {
        to->scratch =
            (plan_address){MEMORY_ARENA, 0, pass_memory_offset(memory, (pass_location){scratch, 0})};
        to->scratch_bytes = node->scratch_bytes;
    }
    int64_t *marks = swap_marks(w, node);
    const op_attribute swaps = {
        .name = PLAN_SWAPS, .kind = OP_ATTRIBUTE_INTS, .count = node->output_count, .as.integers = marks};
    if (!marks) return false;
    bool swapped = false;
    for (uint32_t i = 0; i < node->output_count; i++) swapped |= marks[i] == 1;
    to->attribute_count = node->attributes.count + swapped;
    to->attributes = plan_written_count(&w->out, PLAN_ATTRIBUTES);
    if (!plan_write_records(&w->out, PLAN_ATTRIBUTES, to->attribute_count)) return false;
    for (size_t i = 0; i < to->attribute_count; i++) {
        plan_attribute written = {0};
        const op_attribute *from = i < node->attributes.count ? &node->attributes.items[i] : &swaps;
        if (!write_attribute(w, from, &written)) return false;
        *(plan_attribute *)plan_written_record(&w->out, PLAN_ATTRIBUTES, to->attributes + i) = written;
    }
    return true;
}

/* ---- graphs -------------------------------------------------------------------------------------------- */

/* Numbers graphs breadth first, and nodes graph by graph. */
static bool number_graphs(module_writer *w) {
    const ir_module *module = w->module;
    size_t written = 0, nodes = 0, reached = 0;
    w->graph_order[written++] = module->main;
    for (; reached < written; reached++) {
        const ir_graph *graph = w->graph_order[reached];
        w->graph_number[graph->id.index] = (uint32_t)reached;
        for (const ir_node *node = graph->first; node; node = node->next) {
            w->node_number[node->id.index] = (uint32_t)nodes++;
            for (uint32_t g = 0; g < node->graph_count; g++) {
                if (written == module->graph_count) {
                    base_fail(w->report, BASE_INVALID, "a graph is owned twice");
                    return false;
                }
                w->graph_order[written++] = node->graphs[g];
            }
        }
    }
    return plan_write_records(&w->out, PLAN_GRAPHS, written) &&
           plan_write_records(&w->out, PLAN_NODES, nodes);
}

static bool write_ids(module_writer *w, ir_value *const *values, uint32_t count, uint64_t *first) {
    *first = plan_written_count(&w->out, PLAN_TENSOR_IDS);
    uint32_t *ids = plan_write_records(&w->out, PLAN_TENSOR_IDS, count);
    for (uint32_t i = 0; ids && i < count; i++) ids[i] = id_of(w, values[i]);
    return ids != NULL;
}

static bool write_graph(module_writer *w, uint32_t number, uint64_t *node) {
    const ir_graph *graph = w->graph_order[number];
    plan_graph *to = plan_written_record(&w->out, PLAN_GRAPHS, number);
    to->owner = number ? w->node_number[graph->owner->id.index] : PLAN_ABSENT;
    to->parameter_count = graph->parameter_count;
    to->result_count = graph->result_count;
    to->nodes = *node;
    to->node_count = graph->node_count;
    to->region_bytes = w->memory->region_bytes[graph->id.index];
    to->region_bound = w->memory->region_bound[graph->id.index];
    if (number) {
        pass_storage_id buffer = w->memory->buffers[graph->owner->id.index];
        if (buffer.index && to->region_bytes) {
            to->region_offset = pass_memory_offset(w->memory, (pass_location){buffer, 0});
        }
    } else {
        to->region_bytes = w->memory->arena_bytes;
    }
    if (!write_name(w, graph->name, &to->name) ||
        !write_ids(w, graph->parameters, graph->parameter_count, &to->parameters)) {
        return false;
    }
    to->results = plan_written_count(&w->out, PLAN_TENSOR_IDS);
    uint32_t *results = plan_write_records(&w->out, PLAN_TENSOR_IDS, graph->result_count);
    if (!results) return false;
    for (uint32_t i = 0; i < graph->result_count; i++) results[i] = id_of(w, graph->results[i]->value);
    for (const ir_node *at = graph->first; at; at = at->next) {
        plan_node written = {0};
        if (!write_node(w, at, &written)) return false;
        *(plan_node *)plan_written_record(&w->out, PLAN_NODES, (*node)++) = written;
    }
    return true;
}

static bool write_interface(module_writer *w, plan_part part, const char *name, uint32_t id, bool is_sample) {
    plan_interface *to = plan_write_records(&w->out, part, 1);
    if (!to) return false;
    to->tensor = id;
    to->sample = is_sample;
    return write_name(w, name, &to->name);
}

static bool write_module(module_writer *w) {
    const ir_module *module = w->module;
    uint32_t empty;
    if (!write_name(w, "", &empty) || !number_graphs(w) || !write_tensors(w) || !write_multiviews(w))
        return false;
    uint64_t node = 0;
    for (uint32_t g = 0; g < plan_written_count(&w->out, PLAN_GRAPHS); g++) {
        if (!write_graph(w, g, &node)) return false;
    }
    for (size_t i = 0; i < module->symbol_count || i == 0; i++) {
        uint32_t *symbol = plan_write_records(&w->out, PLAN_SYMBOLS, 1);
        const bool named = i < module->symbol_count && !module->symbols[i].unnamed;
        const char *name = named ? module->symbols[i].name : NULL;
        if (!symbol || !write_name(w, name, symbol)) return false;
    }
    bool bounded = false;
    for (size_t i = 1; i < module->symbol_count; i++) bounded |= module->symbols[i].bound != 0;
    for (size_t i = 0; bounded && i < module->symbol_count; i++) {
        int64_t *bound = plan_write_records(&w->out, PLAN_BOUNDS, 1);
        if (!bound) return false;
        *bound = i ? module->symbols[i].bound : 0;
    }
    const ir_graph *main_graph = module->main;
    const uint32_t states = ir_module_states(module);
    for (uint32_t i = 0; i < states; i++) {
        const uint32_t parameter = id_of(w, main_graph->parameters[i]),
                       result = id_of(w, main_graph->results[i]->value);
        plan_state *state = plan_write_records(&w->out, PLAN_STATES, 1);
        if (!state) return false;
        const ir_state *how = &module->states[i];
        *state = (plan_state){.parameter = parameter,
                              .result = result,
                              .axis = how->axis < 0 ? PLAN_ABSENT : (uint32_t)how->axis,
                              .turned = how->turned,
                              .bound = (uint64_t)how->bound,
                              .offset = w->memory->reserved[i].offset,
                              .bytes = w->memory->reserved[i].bytes};
        if (!write_name(w, main_graph->parameters[i]->name, &state->input) ||
            !write_name(w, ir_graph_result_name(main_graph, i), &state->output))
            return false;
    }
    for (uint32_t i = states; i < main_graph->parameter_count; i++) {
        const ir_value *value = main_graph->parameters[i];
        if (!write_interface(w, PLAN_INPUTS, value->name, id_of(w, value), value->is_sample)) return false;
    }
    for (uint32_t i = states; i < main_graph->result_count; i++) {
        const ir_value *value = main_graph->results[i]->value;
        if (!write_interface(w, PLAN_OUTPUTS, ir_graph_result_name(main_graph, i), id_of(w, value),
                             module->batch != 0))
            return false;
    }
    return true;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static base_status write_file(module_writer *w, const pass_options *options, void **bytes, size_t *size) {
    const pass_memory *memory = w->memory;
    const char *allocator = options->allocator ? options->allocator : "auto";
    plan_header header = {.threads = (uint32_t)options->environment.threads,
                          .contracts = !options->environment.portable_only,
                          .optimal = memory->optimal,
                          .batch = (uint64_t)-w->module->batch,
                          .arena_bytes = memory->arena_bytes,
                          .lower_bound_bytes = memory->lower_bound_bytes,
                          .sum_bytes = memory->sum_bytes,
                          .state_bytes = memory->state_bytes,
                          .spill_bytes = memory->spill_bytes,
                          .file_order_peak_bytes = memory->file_order_peak_bytes};
    if (!rt_machine_describe(w->portable, header.machine, sizeof header.machine))
        return base_fail_memory(w->report);
    if (!write_name(w, w->module->name, &header.model_name) || !write_name(w, allocator, &header.allocator) ||
        !write_name(w, memory->spill_bytes ? options->spill_path : "", &header.spill_path))
        return BASE_SYSTEM_ERROR;
    return plan_write_file(&w->out, &header, bytes, size);
}

static bool prepare_writer(module_writer *w) {
    const ir_module *module = w->module;
    w->id_of = BASE_ARRAY(w->arena, uint32_t, module->value_count);
    w->graph_order = BASE_ARRAY(w->arena, ir_graph *, module->graph_count);
    w->graph_number = BASE_ARRAY(w->arena, uint32_t, module->graph_count);
    w->node_number = BASE_ARRAY(w->arena, uint32_t, module->node_count);
    return w->id_of && w->graph_order && w->graph_number && w->node_number;
}

static base_status write_plan(const ir_module *module, bool moves, const pass_memory *memory,
                              const pass_options *options, void **bytes, size_t *size, base_report *report) {
    base_report own = {0}; /* so that the first failure is known without the caller's report */
    module_writer w = {.module = module,
                       .memory = memory,
                       .report = report ? report : &own,
                       .portable = true,
                       .moves = moves};
    plan_writer_init(&w.out, w.report);
    if (moves) w.out.constant_copied = constant_copied;
    w.out.user = &w;
    w.arena = &w.out.arena;
    *bytes = NULL;
    *size = 0;
    base_report_context(w.report, "%s", module->name);
    base_status status;
    if (!prepare_writer(&w)) status = base_fail_memory(w.report);
    else if (!write_module(&w)) status = w.report->status;
    else status = write_file(&w, options, bytes, size);
    plan_writer_free(&w.out);
    base_report_context(w.report, NULL);
    return status;
}

base_status compile_write_plan(const ir_module *module, const pass_memory *memory,
                               const pass_options *options, void **bytes, size_t *size, base_report *report) {
    return write_plan(module, false, memory, options, bytes, size, report);
}

base_status compile_move_plan(ir_module *module, const pass_memory *memory, const pass_options *options,
                              void **bytes, size_t *size, base_report *report) {
    return write_plan(module, true, memory, options, bytes, size, report);
}

/* plan_write.c: a compiled module and its memory plan as the bytes of a plan file (runtime/plan/plan.h).
 *
 * Everything stands in the order of ids and lists, which are the same for the same input, and gaps are zero:
 * the same module always gives the same bytes. Texts are stored once each, and so are constants: constants of
 * equal bytes share their bytes, whatever their types. Constants are hashed, compared where hashes meet, and
 * copied once.
 */
#include "compiler/compiler.h"
#include <stdlib.h>
#include <string.h>

/* A growing table of records. */
typedef struct record_table {
    void *items;
    size_t count, capacity, size;
} record_table;

/* Bytes of constants: one entry for all constants that hold them. */
typedef struct constant_bytes {
    const void *data;
    size_t bytes;
    uint64_t hash;
    uint64_t offset; /* into the constants */
} constant_bytes;

typedef struct plan_writer {
    const ir_module *module;
    const pass_memory *memory;
    base_report *report;
    base_arena arena;
    base_map text_offsets; /* text -> its offset, as a pointer into the table's numbers + 1 */
    record_table texts, integers, tensor_ids, tensors, attributes, nodes, graphs, symbols, inputs, outputs,
        multiviews, addresses;
    uint32_t *id_of;           /* by value id; PLAN_ABSENT where it is not written */
    ir_graph **graph_order;    /* owners before what they own, graphs of one node next to each other */
    uint32_t *graph_number;    /* by graph id */
    uint32_t *node_number;     /* by node id */
    constant_bytes *constants; /* a hash table */
    size_t constant_capacity;
    constant_bytes **constant_order; /* in the order of offsets */
    size_t constant_count, constant_limit;
    size_t constants_bytes;
    bool portable;
} plan_writer;

/* ---- tables -------------------------------------------------------------------------------------------- */

/* Room for `count` zeroed records at the end of a table: the first of them, or NULL (reported). */
static void *append(plan_writer *w, record_table *table, size_t count) {
    size_t needed;
    void *items = NULL;
    if (base_size_add(table->count, count, &needed) && needed < PLAN_ABSENT) {
        items = base_arena_grow(&w->arena, table->items, &table->capacity, needed, table->size);
    }
    if (!items) {
        base_fail_memory(w->report);
        return NULL;
    }
    table->items = items;
    char *first = (char *)items + table->count * table->size;
    table->count = needed;
    return first;
}

/* A text of any bytes; the same text is stored once. */
static bool write_text(plan_writer *w, const char *text, size_t length, uint32_t *offset) {
    bool whole = !memchr(text, 0, length); /* a zero inside would make another text of it */
    char *key = base_arena_text(&w->arena, text, length);
    if (!key) {
        base_fail_memory(w->report);
        return false;
    }
    uintptr_t known = whole ? (uintptr_t)base_map_get(&w->text_offsets, key) : 0;
    if (known) {
        *offset = (uint32_t)(known - 1);
        return true;
    }
    *offset = (uint32_t)w->texts.count;
    char *at = append(w, &w->texts, length + 1);
    if (!at) return false;
    memcpy(at, key, length + 1);
    if (whole && !base_map_put(&w->text_offsets, key, (void *)(uintptr_t)(*offset + (uint64_t)1))) {
        base_fail_memory(w->report);
        return false;
    }
    return true;
}

static bool write_name(plan_writer *w, const char *text, uint32_t *offset) {
    return write_text(w, text ? text : "", text ? strlen(text) : 0, offset);
}

static bool write_integers(plan_writer *w, const int64_t *values, size_t count, uint64_t *first) {
    *first = w->integers.count;
    if (!count) return true;
    int64_t *to = append(w, &w->integers, count);
    if (!to) return false;
    memcpy(to, values, count * sizeof *to);
    return true;
}

/* ---- constants ----------------------------------------------------------------------------------------- */

/* The offset of these bytes among the constants. */
static bool write_constant(plan_writer *w, const void *data, size_t bytes, uint64_t *offset) {
    *offset = 0;
    if (!bytes) return true;
    uint64_t hash = base_hash(data, bytes, 0);
    size_t at = hash & (w->constant_capacity - 1);
    for (; w->constants[at].data; at = (at + 1) & (w->constant_capacity - 1)) {
        const constant_bytes *known = &w->constants[at];
        if (known->hash == hash && known->bytes == bytes && memcmp(known->data, data, bytes) == 0) {
            *offset = known->offset;
            return true;
        }
    }
    size_t start, end;
    if (!base_size_align(w->constants_bytes, PLAN_ALIGNMENT, &start) || !base_size_add(start, bytes, &end)) {
        base_fail(w->report, BASE_INVALID, "the constants are too large");
        return false;
    }
    w->constants[at] = (constant_bytes){data, bytes, hash, start};
    w->constant_order[w->constant_count++] = &w->constants[at];
    w->constants_bytes = end;
    *offset = start;
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

/* Strings as plan_string records with their characters behind them. */
static bool write_strings(plan_writer *w, const op_tensor *tensor, size_t bytes, uint64_t *offset) {
    const op_string *from = tensor->data;
    size_t count = bytes / sizeof *from, total = bytes;
    bool fits = true;
    for (size_t i = 0; i < count; i++) fits = fits && base_size_add(total, from[i].length, &total);
    char *block = fits ? base_arena_alloc(&w->arena, total, 1) : NULL;
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
    return write_constant(w, block, total, offset);
}

static bool write_constant_tensor(plan_writer *w, const char *name, const op_tensor *tensor,
                                  uint64_t *offset) {
    size_t bytes;
    if (tensor->type.kind != OP_KIND_TENSOR || !op_type_bytes(&tensor->type, &bytes) ||
        bytes > tensor->bytes || (bytes && !tensor->data)) {
        base_fail(w->report, BASE_INVALID, "constant \"%s\" has less data than its type says", name);
        return false;
    }
    return tensor->type.dtype == OP_STRING ? write_strings(w, tensor, bytes, offset)
                                           : write_constant(w, tensor->data, bytes, offset);
}

static bool write_tensor(plan_writer *w, const char *name, const op_type *type, uint32_t graph,
                         plan_address address, uint32_t *id) {
    *id = (uint32_t)w->tensors.count;
    plan_tensor *to = append(w, &w->tensors, 1);
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
    return write_integers(w, type->shape.dims, type->shape.rank > 0 ? (size_t)type->shape.rank : 0,
                          &to->dims);
}

static bool locate(plan_writer *w, pass_location location, plan_address *address);

/* Where the value lies at run time. */
static bool address_of(plan_writer *w, const ir_value *value, plan_address *address) {
    *address = (plan_address){.space = MEMORY_NONE};
    if (value->kind == IR_CONSTANT) {
        address->space = MEMORY_CONSTANT;
        return write_constant_tensor(w, value->name, &value->constant->tensor, &address->offset);
    }
    if (value->kind == IR_PARAMETER && value->graph == w->module->main) {
        *address = (plan_address){MEMORY_INPUT, value->index, 0};
        return true;
    }
    return locate(w, pass_memory_location(w->memory, value), address);
}

static bool locate(plan_writer *w, pass_location location, plan_address *address) {
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
        address->offset = pass_memory_offset(w->memory, location);
        break;
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

static bool write_multiviews(plan_writer *w) {
    for (size_t v = 1; v < w->memory->multiview_count; v++) {
        const pass_multiview *from = &w->memory->multiviews[v];
        plan_multiview *to = append(w, &w->multiviews, 1);
        uint32_t count = from->prologue + from->repeat;
        if (!to) return false;
        *to = (plan_multiview){
            .first = w->addresses.count,
            .prologue_count = from->prologue,
            .period = from->repeat,
            .stride = from->stride,
            .loop = w->node_number[from->loop->id.index],
            .group = from->group,
            .bytes = from->group ? w->memory->storages[from->entries[0].storage.index].bytes : 0};
        plan_address *entries = append(w, &w->addresses, count);
        for (uint32_t i = 0; entries && i < count; i++) {
            if (!locate(w, from->entries[i], &entries[i])) return false;
        }
        if (!entries) return false;
    }
    return true;
}

static bool write_tensors(plan_writer *w) {
    const ir_module *module = w->module;
    for (size_t i = 0; i < module->value_count; i++) {
        w->id_of[i] = PLAN_ABSENT;
        const ir_value *value = module->values[i];
        if (!value || (value->kind == IR_CONSTANT && !value->uses)) continue;
        plan_address address;
        uint32_t graph = value->graph ? w->graph_number[value->graph->id.index] : 0;
        size_t bytes;
        if (!address_of(w, value, &address)) return false;
        bool reserved = address.space == MEMORY_ARENA && !op_type_bytes(&value->type, &bytes);
        if (reserved) address.space = MEMORY_DYNAMIC;
        if (!write_tensor(w, value->name, &value->type, graph, address, &w->id_of[i])) return false;
        if (reserved) {
            pass_location at = pass_memory_location(w->memory, value);
            ((plan_tensor *)w->tensors.items)[w->id_of[i]].bytes =
                pass_memory_storage(w->memory, at.storage)->bytes;
        }
    }
    return true;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static bool write_type(plan_writer *w, const op_type *type, uint64_t *first) {
    int64_t head[4] = {type->kind, type->element, type->dtype, type->shape.rank};
    uint64_t dims;
    return write_integers(w, head, 4, first) &&
           write_integers(w, type->shape.dims, type->shape.rank > 0 ? (size_t)type->shape.rank : 0, &dims);
}

static bool write_attribute(plan_writer *w, const op_attribute *from, plan_attribute *to) {
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
        if (!write_text(w, from->as.text.data ? from->as.text.data : "", from->as.text.length, &text))
            return false;
        to->value = text;
        to->count = from->as.text.length;
        return true;
    }
    case OP_ATTRIBUTE_INTS:
        to->count = from->count;
        return write_integers(w, from->as.integers, from->count, &to->value);
    case OP_ATTRIBUTE_FLOATS: {
        to->count = from->count;
        to->value = w->integers.count;
        int64_t *bits = append(w, &w->integers, from->count);
        for (size_t i = 0; bits && i < from->count; i++) {
            uint32_t word;
            memcpy(&word, &from->as.reals[i], sizeof word);
            bits[i] = word;
        }
        return bits != NULL;
    }
    case OP_ATTRIBUTE_STRINGS: {
        to->count = from->count;
        to->value = w->integers.count;
        if (!append(w, &w->integers, 2 * from->count)) return false;
        for (size_t i = 0; i < from->count; i++) {
            uint32_t text;
            const op_string *string = &from->as.texts[i];
            if (!write_text(w, string->data ? string->data : "", string->length, &text)) return false;
            int64_t *pair = (int64_t *)w->integers.items + to->value + 2 * i;
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

static uint32_t id_of(const plan_writer *w, const ir_value *value) {
    return value ? w->id_of[value->id.index] : PLAN_ABSENT;
}

/* By output, 1 where it gets its bytes by a swap. */
static int64_t *swap_marks(plan_writer *w, const ir_node *node) {
    int64_t *marks = BASE_ARRAY(&w->arena, int64_t, node->output_count);
    for (uint32_t i = 0; marks && i < node->output_count; i++)
        marks[i] = node->outputs[i] && w->memory->swapped[node->outputs[i]->id.index];
    return marks;
}

/* Shape or bytes of the tensor are known at run time only. */
static bool is_dynamic(const plan_writer *w, const ir_value *value) {
    size_t bytes;
    if (!value) return false;
    const plan_tensor *tensor = (const plan_tensor *)w->tensors.items + id_of(w, value);
    return tensor->address.space == MEMORY_DYNAMIC || value->type.kind != OP_KIND_TENSOR ||
           !op_type_bytes(&value->type, &bytes);
}

static bool write_node(plan_writer *w, const ir_node *node, plan_node *to) {
    const op_schema *row = op_schema_of(node->code);
    const pass_memory *memory = w->memory;
    bool view = memory->executions[node->id.index] == PASS_ALIAS,
         dynamic = row->flags & (OP_FLAG_DYNAMIC | OP_FLAG_LISTS);
    to->graph = w->graph_number[node->graph->id.index];
    to->graph_count = node->graph_count;
    to->first_graph = node->graph_count ? w->graph_number[node->graphs[0]->id.index] : 0;
    to->input_count = node->input_count;
    to->inputs = w->tensor_ids.count;
    uint32_t *ids = append(w, &w->tensor_ids, node->input_count);
    if (!ids) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        ids[i] = id_of(w, ir_input(node, i));
        dynamic = dynamic || is_dynamic(w, ir_input(node, i));
    }
    to->output_count = node->output_count;
    to->outputs = w->tensor_ids.count;
    ids = append(w, &w->tensor_ids, node->output_count);
    if (!ids) return false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        ids[i] = id_of(w, node->outputs[i]);
        dynamic = dynamic || is_dynamic(w, node->outputs[i]);
    }
    to->flags = dynamic ? PLAN_NODE_DYNAMIC : view ? PLAN_NODE_ALIAS : 0;
    bool runs = !(row->flags & OP_FLAG_GRAPHS) && to->flags != PLAN_NODE_ALIAS;
    const char *kernel = runs && node->kernel ? node->kernel : "";
    if (kernel[0] && strncmp(kernel, "portable.", 9) != 0) w->portable = false;
    if (!write_name(w, row->name, &to->operator_name) || !write_name(w, row->domain, &to->operator_domain) ||
        !write_name(w, node->name, &to->name) || !write_name(w, node->path, &to->path) ||
        !write_name(w, kernel, &to->kernel)) {
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
    if (node->output_count && !marks) return false;
    bool swapped = false;
    for (uint32_t i = 0; i < node->output_count; i++) swapped |= marks[i] == 1;
    to->attribute_count = node->attributes.count + swapped;
    to->attributes = w->attributes.count;
    if (!append(w, &w->attributes, to->attribute_count)) return false;
    for (size_t i = 0; i < to->attribute_count; i++) {
        plan_attribute written = {0};
        const op_attribute *from = i < node->attributes.count ? &node->attributes.items[i] : &swaps;
        if (!write_attribute(w, from, &written)) return false;
        ((plan_attribute *)w->attributes.items)[to->attributes + i] = written;
    }
    return true;
}

/* ---- graphs -------------------------------------------------------------------------------------------- */

/* Numbers graphs breadth first, and nodes graph by graph. */
static bool number_graphs(plan_writer *w) {
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
    return append(w, &w->graphs, written) && append(w, &w->nodes, nodes);
}

static bool write_slots(plan_writer *w, ir_value *const *values, uint32_t count, uint64_t *first) {
    *first = w->tensor_ids.count;
    uint32_t *ids = append(w, &w->tensor_ids, count);
    for (uint32_t i = 0; ids && i < count; i++) ids[i] = id_of(w, values[i]);
    return ids != NULL;
}

static bool write_graph(plan_writer *w, uint32_t number, uint64_t *node) {
    const ir_graph *graph = w->graph_order[number];
    plan_graph *to = (plan_graph *)w->graphs.items + number;
    to->owner = graph->owner ? w->node_number[graph->owner->id.index] : PLAN_ABSENT;
    to->parameter_count = graph->parameter_count;
    to->result_count = graph->result_count;
    to->nodes = *node;
    to->node_count = graph->node_count;
    to->region_bytes = w->memory->region_bytes[graph->id.index];
    to->region_bound = w->memory->region_bound[graph->id.index];
    if (graph->owner) {
        pass_storage_id buffer = w->memory->buffers[graph->owner->id.index];
        if (buffer.index && to->region_bytes) {
            to->region_offset = pass_memory_offset(w->memory, (pass_location){buffer, 0});
        }
    } else {
        to->region_bytes = w->memory->arena_bytes;
    }
    if (!write_name(w, graph->name, &to->name) ||
        !write_slots(w, graph->parameters, graph->parameter_count, &to->parameters)) {
        return false;
    }
    to->results = w->tensor_ids.count;
    uint32_t *results = append(w, &w->tensor_ids, graph->result_count);
    if (!results) return false;
    for (uint32_t i = 0; i < graph->result_count; i++) results[i] = id_of(w, graph->results[i]->value);
    for (const ir_node *at = graph->first; at; at = at->next) {
        plan_node written = {0};
        if (!write_node(w, at, &written)) return false;
        ((plan_node *)w->nodes.items)[(*node)++] = written;
    }
    return true;
}

static bool write_interface(plan_writer *w, record_table *table, const char *name, uint32_t id) {
    plan_interface *to = append(w, table, 1);
    if (!to) return false;
    to->tensor = id;
    return write_name(w, name, &to->name);
}

static bool write_module(plan_writer *w) {
    const ir_module *module = w->module;
    uint32_t empty;
    if (!write_name(w, "", &empty) || !number_graphs(w) || !write_tensors(w) || !write_multiviews(w))
        return false;
    uint64_t node = 0;
    for (uint32_t g = 0; g < w->graphs.count; g++) {
        if (!write_graph(w, g, &node)) return false;
    }
    for (size_t i = 0; i < module->symbol_count || i == 0; i++) {
        uint32_t *symbol = append(w, &w->symbols, 1);
        const char *name = i < module->symbol_count ? module->symbols[i].name : NULL;
        if (!symbol || !write_name(w, name, symbol)) return false;
    }
    const ir_graph *main_graph = module->main;
    for (uint32_t i = 0; i < main_graph->parameter_count; i++) {
        const ir_value *value = main_graph->parameters[i];
        if (!write_interface(w, &w->inputs, value->name, id_of(w, value))) return false;
    }
    for (uint32_t i = 0; i < main_graph->result_count; i++) {
        const ir_value *value = main_graph->results[i]->value;
        if (!write_interface(w, &w->outputs, ir_graph_result_name(main_graph, i), id_of(w, value)))
            return false;
    }
    return true;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static bool place_table(const record_table *table, size_t *end, plan_table *placed) {
    size_t start, bytes;
    if (!base_size_align(*end, 8, &start) || !base_size_multiply(table->count, table->size, &bytes))
        return false;
    *placed = (plan_table){start, table->count};
    return base_size_add(start, bytes, end);
}

static void put_table(unsigned char *base, const record_table *table, const plan_table *placed,
                      size_t *written) {
    memset(base + *written, 0, placed->offset - *written);
    if (table->count) memcpy(base + placed->offset, table->items, table->count * table->size);
    *written = placed->offset + table->count * table->size;
}

static base_status write_file(plan_writer *w, const pass_options *options, void **bytes, size_t *size) {
    const pass_memory *memory = w->memory;
    plan_header header = {.magic = PLAN_MAGIC,
                          .version = PLAN_VERSION,
                          .endian = PLAN_ENDIAN,
                          .threads = (uint32_t)options->environment.threads,
                          .optimal = memory->optimal,
                          .arena_bytes = memory->arena_bytes,
                          .lower_bound_bytes = memory->lower_bound_bytes,
                          .sum_bytes = memory->sum_bytes,
                          .file_order_peak_bytes = memory->file_order_peak_bytes,
                          .constants_bytes = w->constants_bytes};
    rt_machine_describe(w->portable, header.machine, sizeof header.machine);
    if (!write_name(w, w->module->name, &header.model_name) ||
        !write_name(w, options->allocator ? options->allocator : "auto", &header.allocator)) {
        return BASE_SYSTEM_ERROR;
    }
    struct {
        const record_table *table;
        plan_table *placed;
    } parts[] = {
        {&w->texts, &header.texts},           {&w->integers, &header.integers},
        {&w->tensor_ids, &header.tensor_ids}, {&w->tensors, &header.tensors},
        {&w->attributes, &header.attributes}, {&w->nodes, &header.nodes},
        {&w->graphs, &header.graphs},         {&w->multiviews, &header.multiviews},
        {&w->addresses, &header.addresses},   {&w->symbols, &header.symbols},
        {&w->inputs, &header.inputs},         {&w->outputs, &header.outputs},
    };
    enum { PARTS = sizeof parts / sizeof *parts };
    size_t end = sizeof header, constants, total, padded;
    bool fits = true;
    for (int i = 0; i < PARTS; i++) fits = fits && place_table(parts[i].table, &end, parts[i].placed);
    fits = fits && base_size_align(end, PLAN_ALIGNMENT, &constants) &&
           base_size_add(constants, w->constants_bytes, &total) &&
           base_size_align(total, PLAN_ALIGNMENT, &padded);
    if (!fits) return base_fail(w->report, BASE_INVALID, "the plan is too large");
    header.constants_offset = constants;
    header.file_bytes = total;
    unsigned char *base = aligned_alloc(PLAN_ALIGNMENT, padded);
    if (!base) return base_fail_memory(w->report);
    size_t written = sizeof header;
    for (int i = 0; i < PARTS; i++) put_table(base, parts[i].table, parts[i].placed, &written);
    for (size_t i = 0; i < w->constant_count; i++) {
        const constant_bytes *constant = w->constant_order[i];
        size_t start = constants + constant->offset;
        memset(base + written, 0, start - written);
        memcpy(base + start, constant->data, constant->bytes);
        written = start + constant->bytes;
    }
    memset(base + written, 0, padded - written);
    memcpy(base, &header, sizeof header);
    header.checksum = plan_checksum(base, total);
    memcpy(base, &header, sizeof header);
    *bytes = base;
    *size = total;
    return BASE_OK;
}

static size_t attribute_tensors(const ir_module *module) {
    size_t count = 0;
    for (size_t n = 0; n < module->node_count; n++) {
        const ir_node *node = module->nodes[n];
        for (size_t i = 0; node && i < node->attributes.count; i++) {
            count += node->attributes.items[i].kind == OP_ATTRIBUTE_TENSOR;
        }
    }
    return count;
}

static bool prepare_writer(plan_writer *w) {
    const ir_module *module = w->module;
    struct {
        record_table *table;
        size_t size;
    } tables[] = {
        {&w->texts, 1},
        {&w->integers, sizeof(int64_t)},
        {&w->tensor_ids, sizeof(uint32_t)},
        {&w->tensors, sizeof(plan_tensor)},
        {&w->attributes, sizeof(plan_attribute)},
        {&w->nodes, sizeof(plan_node)},
        {&w->graphs, sizeof(plan_graph)},
        {&w->symbols, sizeof(uint32_t)},
        {&w->inputs, sizeof(plan_interface)},
        {&w->outputs, sizeof(plan_interface)},
        {&w->multiviews, sizeof(plan_multiview)},
        {&w->addresses, sizeof(plan_address)},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) tables[i].table->size = tables[i].size;
    w->text_offsets.arena = &w->arena;
    w->constant_limit = module->value_count + attribute_tensors(module);
    w->constant_capacity = 16;
    while (w->constant_capacity < 2 * w->constant_limit) w->constant_capacity *= 2;
    w->id_of = BASE_ARRAY(&w->arena, uint32_t, module->value_count);
    w->graph_order = BASE_ARRAY(&w->arena, ir_graph *, module->graph_count);
    w->graph_number = BASE_ARRAY(&w->arena, uint32_t, module->graph_count);
    w->node_number = BASE_ARRAY(&w->arena, uint32_t, module->node_count);
    w->constants = BASE_ARRAY(&w->arena, constant_bytes, w->constant_capacity);
    w->constant_order = BASE_ARRAY(&w->arena, constant_bytes *, w->constant_limit);
    return w->id_of && w->graph_order && w->graph_number && w->node_number && w->constants &&
           w->constant_order;
}

base_status plan_write(const ir_module *module, const pass_memory *memory, const pass_options *options,
                       void **bytes, size_t *size, base_report *report) {
    base_report own = {0}; /* so that the first failure is known without the caller's report */
    plan_writer w = {.module = module, .memory = memory, .report = report ? report : &own, .portable = true};
    base_arena_init(&w.arena, NULL);
    *bytes = NULL;
    *size = 0;
    base_report_context(w.report, "%s", module->name);
    base_status status;
    if (!prepare_writer(&w)) status = base_fail_memory(w.report);
    else if (!write_module(&w)) status = w.report->status;
    else status = write_file(&w, options, bytes, size);
    base_arena_free(&w.arena);
    base_report_context(w.report, NULL);
    return status;
}

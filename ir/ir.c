/* ir.c: modules, graphs, values and nodes: making them, and questions about them. Changes are in ir_edit.c. */
#include "ir/ir.h"
#include "ir/ir_internal.h"
#include <stdio.h>
#include <string.h>

/* ---- modules ---------------------------------------------------------------------------------------------- */

ir_module *ir_module_new(const base_allocator *allocator, const char *name) {
    base_arena arena;
    base_arena_init(&arena, allocator);
    ir_module *module = BASE_NEW(&arena, ir_module);
    if (!module) {
        base_arena_free(&arena);
        return NULL;
    }
    module->arena = arena;
    module->names.arena = &module->arena;
    module->name = base_arena_text(&module->arena, name, strlen(name));
    /* Index 0 of every table means none. */
    module->value_count = module->node_count = module->graph_count = module->symbol_count = 1;
    module->values = base_arena_grow(&module->arena, NULL, &module->value_capacity, 16, sizeof *module->values);
    module->nodes = base_arena_grow(&module->arena, NULL, &module->node_capacity, 16, sizeof *module->nodes);
    module->graphs = base_arena_grow(&module->arena, NULL, &module->graph_capacity, 4, sizeof *module->graphs);
    module->symbols = base_arena_grow(&module->arena, NULL, &module->symbol_capacity, 4, sizeof *module->symbols);
    if (!module->name || !module->values || !module->nodes || !module->graphs || !module->symbols) {
        ir_module_free(module);
        return NULL;
    }
    return module;
}

void ir_module_free(ir_module *module) {
    if (!module) return;
    for (size_t i = 1; i < module->value_count; i++) {
        ir_value *value = module->values[i];
        if (value && value->constant && value->constant->release) value->constant->release(value->constant->owner);
    }
    base_arena arena = module->arena; /* the module itself lives in it */
    base_arena_free(&arena);
}

/* ---- tables ------------------------------------------------------------------------------------------------- */

#define TABLE_ADD(module, table, item)                                                                             \
    table_add(&(module)->arena, (void ***)(void *)&(module)->table##s, &(module)->table##_count,                    \
              &(module)->table##_capacity, item)

/* Appends to one of the module's tables; false when memory runs out or numbers do. */
static bool table_add(base_arena *arena, void ***table, size_t *count, size_t *capacity, void *item) {
    if (*count >= UINT32_MAX) return false;
    if (*count == *capacity) {
        void **grown = base_arena_grow(arena, *table, capacity, *count + 1, sizeof *grown);
        if (!grown) return false;
        *table = grown;
    }
    (*table)[(*count)++] = item;
    return true;
}

/* A name that no value of the module has yet: the one asked for, or with a number behind it. */
static const char *unique_name(ir_module *module, const char *name, const char *otherwise) {
    const char *base = name && *name ? name : otherwise;
    if (!base_map_get(&module->names, base) && base == name) {
        return base_arena_text(&module->arena, base, strlen(base));
    }
    for (size_t number = module->value_count;; number++) {
        const char *made = base_arena_format(&module->arena, base == name ? "%s.%zu" : "%s%zu", base, number);
        if (!made || !base_map_get(&module->names, made)) return made;
    }
}

static ir_value *value_new(ir_module *module, ir_value_kind kind, const char *name, const op_type *type) {
    ir_value *value = BASE_NEW(&module->arena, ir_value);
    if (!value) return NULL;
    value->kind = kind;
    value->name = unique_name(module, name, "v");
    if (type) value->type = *type;
    else value->type.shape.rank = -1;
    value->id.index = (uint32_t)module->value_count;
    if (!value->name || !base_map_put(&module->names, value->name, value)) return NULL;
    return TABLE_ADD(module, value, value) ? value : NULL;
}

ir_graph *ir_graph_new(ir_module *module, const char *name) {
    ir_graph *graph = BASE_NEW(&module->arena, ir_graph);
    if (!graph) return NULL;
    graph->id.index = (uint32_t)module->graph_count;
    graph->name = base_arena_text(&module->arena, name, strlen(name));
    graph->module = module;
    if (!graph->name || !TABLE_ADD(module, graph, graph)) return NULL;
    if (!module->main) module->main = graph;
    return graph;
}

/* Appends to a counted array of pointers in the arena; capacities are powers of two, derived from the count. */
static bool list_add(base_arena *arena, void ***list, uint32_t *count, void *item) {
    if (*count == UINT32_MAX) return false;
    if ((*count & (*count - 1)) == 0) {
        size_t capacity = *count ? 2 * (size_t)*count : 1;
        void **grown = BASE_ARRAY(arena, void *, capacity);
        if (!grown) return false;
        if (*count) memcpy(grown, *list, *count * sizeof *grown);
        *list = grown;
    }
    (*list)[(*count)++] = item;
    return true;
}

#define LIST_ADD(arena, list, count, item) list_add(arena, (void ***)(void *)&(list), &(count), item)

ir_value *ir_graph_add_parameter(ir_graph *graph, const char *name, const op_type *type) {
    ir_value *value = value_new(graph->module, IR_PARAMETER, name, type);
    if (!value) return NULL;
    value->graph = graph;
    value->index = graph->parameter_count;
    return LIST_ADD(&graph->module->arena, graph->parameters, graph->parameter_count, value) ? value : NULL;
}

static ir_use *use_new(ir_module *module, ir_node *node, ir_graph *graph, uint32_t index, ir_value *value) {
    ir_use *use = BASE_NEW(&module->arena, ir_use);
    if (!use) return NULL;
    use->node = node;
    use->graph = graph;
    use->index = index;
    ir_use_set(use, value);
    return use;
}

bool ir_graph_add_result(ir_graph *graph, ir_value *value) {
    ir_use *use = use_new(graph->module, NULL, graph, graph->result_count, value);
    return use && LIST_ADD(&graph->module->arena, graph->results, graph->result_count, use);
}

/* ---- constants -------------------------------------------------------------------------------------------------- */

ir_value *ir_constant_new(ir_module *module, const char *name, const op_tensor *tensor, void (*release)(void *owner),
                          void *owner) {
    ir_constant *constant = BASE_NEW(&module->arena, ir_constant);
    ir_value *value = constant ? value_new(module, IR_CONSTANT, name, &tensor->type) : NULL;
    if (!value) {
        if (release) release(owner);
        return NULL;
    }
    *constant = (ir_constant){.tensor = *tensor, .release = release, .owner = owner};
    value->constant = constant;
    return value;
}

/* The data of a reserved constant, with what is needed to give it back. */
typedef struct reserved {
    const base_allocator *allocator;
    char data[];
} reserved;

static void release_reserved(void *owner) {
    reserved *memory = owner;
    memory->allocator->release(memory->allocator->user, memory);
}

ir_value *ir_constant_reserve(ir_module *module, const char *name, const op_type *type, size_t bytes, void **data) {
    const base_allocator *allocator = module->arena.allocator;
    size_t total;
    if (!base_size_add(bytes, sizeof(reserved) + IR_CONSTANT_ALIGNMENT, &total)) return NULL;
    reserved *memory = allocator->allocate(allocator->user, total);
    if (!memory) return NULL;
    memory->allocator = allocator;
    uintptr_t start = (uintptr_t)memory->data;
    *data = memory->data + (IR_CONSTANT_ALIGNMENT - start % IR_CONSTANT_ALIGNMENT) % IR_CONSTANT_ALIGNMENT;
    op_tensor tensor = {.type = *type, .bytes = bytes, .data = *data};
    return ir_constant_new(module, name, &tensor, release_reserved, memory);
}

ir_value *ir_constant_copy(ir_module *module, const char *name, const op_type *type, const void *data, size_t bytes) {
    void *copy;
    ir_value *value = ir_constant_reserve(module, name, type, bytes, &copy);
    if (value && bytes) memcpy(copy, data, bytes);
    return value;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

ir_node *ir_node_new(ir_graph *graph, ir_node *before, op_code code, const char *name, const char *path,
                     op_attributes attributes, uint32_t input_count, ir_value *const *inputs) {
    ir_module *module = graph->module;
    ir_node *node = BASE_NEW(&module->arena, ir_node);
    if (!node) return NULL;
    node->id.index = (uint32_t)module->node_count;
    node->code = code;
    node->name = base_arena_text(&module->arena, name ? name : "", name ? strlen(name) : 0);
    node->path = base_arena_text(&module->arena, path ? path : "", path ? strlen(path) : 0);
    node->attributes = attributes;
    node->graph = graph;
    if (!node->name || !node->path) return NULL;
    for (uint32_t i = 0; i < input_count; i++) {
        ir_use *use = use_new(module, node, graph, i, NULL);
        if (!use || !LIST_ADD(&module->arena, node->inputs, node->input_count, use)) return NULL;
    }
    if (!TABLE_ADD(module, node, node)) return NULL;
    for (uint32_t i = 0; i < input_count; i++) ir_use_set(node->inputs[i], inputs[i]);
    ir_node_link(node, before);
    return node;
}

ir_value *ir_node_add_output(ir_node *node, const char *name, const op_type *type) {
    ir_module *module = node->graph->module;
    ir_value *value = value_new(module, IR_RESULT_OF_NODE, name, type);
    if (!value) return NULL;
    value->graph = node->graph;
    value->node = node;
    value->index = node->output_count;
    return LIST_ADD(&module->arena, node->outputs, node->output_count, value) ? value : NULL;
}

bool ir_node_add_absent_output(ir_node *node) {
    return LIST_ADD(&node->graph->module->arena, node->outputs, node->output_count, NULL);
}

bool ir_node_add_graph(ir_node *node, ir_graph *graph) {
    if (!LIST_ADD(&node->graph->module->arena, node->graphs, node->graph_count, graph)) return false;
    graph->owner = node;
    return true;
}

bool ir_node_add_input(ir_node *node) {
    ir_module *module = node->graph->module;
    ir_use *use = use_new(module, node, node->graph, node->input_count, NULL);
    return use && LIST_ADD(&module->arena, node->inputs, node->input_count, use);
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

static int64_t symbol_add(ir_module *module, ir_symbol symbol) {
    if (module->symbol_count == module->symbol_capacity) {
        ir_symbol *grown = base_arena_grow(&module->arena, module->symbols, &module->symbol_capacity,
                                           module->symbol_count + 1, sizeof *grown);
        if (!grown) return OP_DIM_UNKNOWN;
        module->symbols = grown;
    }
    module->symbols[module->symbol_count] = symbol;
    return -(int64_t)module->symbol_count++;
}

int64_t ir_symbol_named(ir_module *module, const char *name) {
    for (size_t i = 1; i < module->symbol_count; i++) {
        if (module->symbols[i].name && strcmp(module->symbols[i].name, name) == 0) return -(int64_t)i;
    }
    const char *kept = base_arena_text(&module->arena, name, strlen(name));
    return kept ? symbol_add(module, (ir_symbol){.name = kept}) : OP_DIM_UNKNOWN;
}

int64_t ir_symbol_compute(void *module_pointer, char operation, int64_t a, int64_t b) {
    ir_module *module = module_pointer;
    if (a == OP_DIM_UNKNOWN || b == OP_DIM_UNKNOWN) return OP_DIM_UNKNOWN;
    if ((operation == '+' || operation == '*') && a > b) { /* one symbol for both orders */
        int64_t swap = a;
        a = b;
        b = swap;
    }
    for (size_t i = 1; i < module->symbol_count; i++) {
        const ir_symbol *s = &module->symbols[i];
        if (!s->name && s->operation == operation && s->a == a && s->b == b) return -(int64_t)i;
    }
    return symbol_add(module, (ir_symbol){.operation = operation, .a = a, .b = b});
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

ir_value *ir_input(const ir_node *node, uint32_t index) {
    return index < node->input_count ? node->inputs[index]->value : NULL;
}

uint32_t ir_value_use_count(const ir_value *value) {
    uint32_t count = 0;
    for (const ir_use *use = value->uses; use; use = use->next) count++;
    return count;
}

bool ir_value_is_result(const ir_value *value) {
    for (const ir_use *use = value->uses; use; use = use->next) {
        if (!use->node) return true;
    }
    return false;
}

bool ir_graph_encloses(const ir_graph *graph, const ir_graph *inner) {
    while (inner && inner != graph) inner = inner->owner ? inner->owner->graph : NULL;
    return inner == graph;
}

typedef struct captures {
    const ir_node *node;
    base_arena *arena;
    bool *seen;
    ir_value **values;
    size_t count, capacity;
} captures;

static bool capture(captures *c, ir_value *value) {
    if (!value || !value->graph || c->seen[value->id.index]) return true;
    if (!ir_graph_encloses(value->graph, c->node->graph)) return true; /* defined inside */
    c->seen[value->id.index] = true;
    if (c->count == c->capacity) {
        ir_value **grown = base_arena_grow(c->arena, c->values, &c->capacity, c->count + 1, sizeof *grown);
        if (!grown) return false;
        c->values = grown;
    }
    c->values[c->count++] = value;
    return true;
}

static bool capture_graph(captures *c, const ir_graph *graph) {
    for (const ir_node *node = graph->first; node; node = node->next) {
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (!capture(c, node->inputs[i]->value)) return false;
        }
        for (uint32_t i = 0; i < node->graph_count; i++) {
            if (!capture_graph(c, node->graphs[i])) return false;
        }
    }
    for (uint32_t i = 0; i < graph->result_count; i++) {
        if (!capture(c, graph->results[i]->value)) return false;
    }
    return true;
}

bool ir_node_captures(const ir_node *node, base_arena *arena, ir_value ***values, size_t *count) {
    captures c = {.node = node, .arena = arena, .seen = BASE_ARRAY(arena, bool, node->graph->module->value_count)};
    if (!c.seen) return false;
    for (uint32_t i = 0; i < node->graph_count; i++) {
        if (!capture_graph(&c, node->graphs[i])) return false;
    }
    *values = c.values;
    *count = c.count;
    return true;
}

void ir_node_context(const ir_node *node, base_report *report) {
    const char *op = node->code > OP_CODE_NONE && node->code < OP_CODE_COUNT ? op_row_of(node->code)->name : "?";
    base_report_context(report, "%s: %s: node \"%s\" (%s)", node->graph->module->name,
                        node->path[0] ? node->path : "main", node->name, op);
}

static op_tensor tensor_of(const ir_value *value) {
    op_tensor tensor = {.type = {.dtype = OP_NONE, .shape.rank = -1}};
    if (!value) return tensor;
    if (value->constant) tensor = value->constant->tensor;
    tensor.type = value->type;
    tensor.symbolic = value->symbolic;
    return tensor;
}

bool ir_node_call(const ir_node *node, base_arena *arena, op_call *call) {
    op_tensor *inputs = BASE_ARRAY(arena, op_tensor, node->input_count);
    op_tensor *outputs = BASE_ARRAY(arena, op_tensor, node->output_count);
    if (!inputs || !outputs) return false;
    for (uint32_t i = 0; i < node->input_count; i++) inputs[i] = tensor_of(node->inputs[i]->value);
    for (uint32_t i = 0; i < node->output_count; i++) outputs[i] = tensor_of(node->outputs[i]);
    *call = (op_call){.code = node->code,
                      .attributes = node->attributes,
                      .input_count = node->input_count,
                      .output_count = node->output_count,
                      .inputs = inputs,
                      .outputs = outputs,
                      .arena = arena,
                      .dim_compute = ir_symbol_compute,
                      .user = node->graph->module};
    return true;
}

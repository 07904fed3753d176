/* SPDX-License-Identifier: Apache-2.0 */
/* module.c: modules, graphs, values and nodes are made here; symbols too. Changes and questions: ir/edit.c. */
#include "ir/ir.h"
#include "ir/base/printable.h"

#include <stdio.h>
#include <string.h>

/* ---- helpers ------------------------------------------------------------------------------------ */

/* Lists whose length is known without their capacity grow by doubling whenever the length is a power of two.
 * Returns the list with capacity for one more; NULL when memory runs out. */
static void *list_grow(base_arena *arena, void *list, uint32_t count, size_t size) {
    if (count != 0 && (count & (count - 1)) != 0) return list;
    if (count >= UINT32_MAX / 2) return NULL;
    void *larger = base_arena_alloc(arena, count ? (size_t)count * 2 : 1, size);
    if (larger && count) memcpy(larger, list, count * size);
    return larger;
}

/* The capacity that list_grow assumes of a list with this many elements. */
static size_t list_capacity(uint32_t count) {
    size_t capacity = 1;
    while (capacity < count) capacity *= 2;
    return capacity;
}

static void use_link(ir_use *use, ir_value *value) {
    use->value = value;
    use->previous = NULL;
    use->next = NULL;
    if (!value) return;
    use->next = value->uses;
    if (value->uses) value->uses->previous = use;
    value->uses = use;
}

/* A copy that may be shown anywhere. NULL when memory runs out. */
static char *copy_name(base_arena *arena, const char *name) {
    char *copy = base_arena_text(arena, name ? name : "", name ? strlen(name) : 0);
    if (copy) base_text_make_printable(copy);
    return copy;
}

/* A name of the module's that no other value has: `name`, or `name`_1, `name`_2, ... Numbers are remembered
 * by name, so that many values of one name cost no search. NULL when memory runs out. */
static const char *unique_name(ir_module *module, const char *given) {
    base_arena *arena = &module->arena;
    const char *name = copy_name(arena, given);
    if (!name || !base_map_get(&module->names, name)) return name;
    uintptr_t number = (uintptr_t)base_map_get(&module->name_numbers, name);
    const char *unique;
    do {
        number++;
        unique = base_arena_format(arena, "%s_%llu", name, (unsigned long long)number);
        if (!unique) return NULL;
    } while (base_map_get(&module->names, unique));
    if (!base_map_put(&module->name_numbers, name, (void *)number)) return NULL;
    return unique;
}

static ir_value *value_new(ir_module *module, ir_value_kind kind, const char *name, const op_type *type) {
    ir_value *value = BASE_NEW(&module->arena, ir_value);
    if (!value) return NULL;
    char made_up[32];
    if (!name || !name[0]) {
        snprintf(made_up, sizeof made_up, "v%zu", module->value_count);
        name = made_up;
    }
    value->kind = kind;
    value->name = unique_name(module, name);
    if (!value->name) return NULL;
    if (type) value->type = *type;
    else value->type.shape.rank = -1;
    if (module->value_count >= UINT32_MAX) return NULL;
    ir_value **values = base_arena_grow(&module->arena, module->values, &module->value_capacity,
                                        module->value_count + 1, sizeof *values);
    if (!values) return NULL;
    module->values = values;
    if (!base_map_put(&module->names, value->name, value)) return NULL;
    value->id.index = (uint32_t)module->value_count;
    values[module->value_count++] = value;
    return value;
}

/* Takes a value that was just made, and that nothing knows, back. */
static void value_forget(ir_module *module, ir_value *value) {
    module->values[value->id.index] = NULL;
    base_map_put(&module->names, value->name, NULL); /* replaces: needs no memory */
}

/* ---- modules and graphs ------------------------------------------------------------------------- */

ir_module *ir_module_new(const base_allocator *allocator, const char *name) {
    if (!allocator) allocator = &base_allocator_heap;
    ir_module *module = allocator->allocate(allocator->user, sizeof *module);
    if (!module) return NULL;
    memset(module, 0, sizeof *module);
    base_watch_allocator(&module->memory, allocator);
    base_arena_init(&module->arena, &module->memory.allocator);
    module->names.arena = module->name_numbers.arena = &module->arena;
    module->symbol_names.arena = module->symbol_expressions.arena = &module->arena;
    module->value_count = module->node_count = module->graph_count = module->symbol_count = 1;
    module->name = copy_name(&module->arena, name);
    module->values =
        base_arena_grow(&module->arena, NULL, &module->value_capacity, 1, sizeof *module->values);
    module->nodes = base_arena_grow(&module->arena, NULL, &module->node_capacity, 1, sizeof *module->nodes);
    module->graphs =
        base_arena_grow(&module->arena, NULL, &module->graph_capacity, 1, sizeof *module->graphs);
    module->symbols =
        base_arena_grow(&module->arena, NULL, &module->symbol_capacity, 1, sizeof *module->symbols);
    if (!module->name || !module->values || !module->nodes || !module->graphs || !module->symbols) {
        ir_module_free(module);
        return NULL;
    }
    return module;
}

void ir_module_free(ir_module *module) {
    if (!module) return;
    if (module->values) {
        for (size_t i = 1; i < module->value_count; i++) {
            const ir_value *value = module->values[i];
            if (value && value->constant && value->constant->release)
                value->constant->release(value->constant->owner);
        }
    }
    const base_allocator *allocator = module->memory.inner;
    base_arena_free(&module->arena);
    allocator->release(allocator->user, module);
}

ir_graph *ir_graph_new(ir_module *module, const char *name) {
    ir_graph *graph = BASE_NEW(&module->arena, ir_graph);
    if (!graph) return NULL;
    graph->module = module;
    graph->name = copy_name(&module->arena, name);
    if (!graph->name || module->graph_count >= UINT32_MAX) return NULL;
    ir_graph **graphs = base_arena_grow(&module->arena, module->graphs, &module->graph_capacity,
                                        module->graph_count + 1, sizeof *graphs);
    if (!graphs) return NULL;
    module->graphs = graphs;
    graph->id.index = (uint32_t)module->graph_count;
    graphs[module->graph_count++] = graph;
    if (!module->main) module->main = graph;
    return graph;
}

ir_value *ir_graph_add_parameter(ir_graph *graph, const char *name, const op_type *type) {
    ir_value **parameters =
        list_grow(&graph->module->arena, graph->parameters, graph->parameter_count, sizeof *parameters);
    if (!parameters) return NULL;
    graph->parameters = parameters;
    ir_value *value = value_new(graph->module, IR_PARAMETER, name, type);
    if (!value) return NULL;
    value->graph = graph;
    value->index = graph->parameter_count;
    parameters[graph->parameter_count++] = value;
    return value;
}

bool ir_graph_add_result(ir_graph *graph, ir_value *value) {
    base_arena *arena = &graph->module->arena;
    ir_use **results = list_grow(arena, graph->results, graph->result_count, sizeof *results);
    if (!results) return false;
    graph->results = results;
    ir_use *use = BASE_NEW(arena, ir_use);
    if (!use) return false;
    use->graph = graph;
    use->index = graph->result_count;
    use_link(use, value);
    results[graph->result_count++] = use;
    return true;
}

bool ir_graph_set_result_name(ir_graph *graph, uint32_t index, const char *name) {
    base_arena *arena = &graph->module->arena;
    if (index >= graph->result_name_capacity) {
        const char **grown = base_arena_grow(arena, graph->result_names, &graph->result_name_capacity,
                                             (size_t)index + 1, sizeof *grown);
        if (!grown) return false;
        graph->result_names = grown;
    }
    graph->result_names[index] = copy_name(arena, name);
    return graph->result_names[index] != NULL;
}

const char *ir_graph_result_name(const ir_graph *graph, uint32_t index) {
    const char *name = index < graph->result_name_capacity ? graph->result_names[index] : NULL;
    return name ? name : graph->results[index]->value->name;
}

/* ---- constants ---------------------------------------------------------------------------------- */

ir_value *ir_constant_new(ir_module *module, const char *name, const op_tensor *tensor,
                          void (*release)(void *owner), void *owner) {
    ir_constant *constant = BASE_NEW(&module->arena, ir_constant);
    ir_value *value = constant ? value_new(module, IR_CONSTANT, name, &tensor->type) : NULL;
    if (!value) {
        if (release) release(owner);
        return NULL;
    }
    *constant = (ir_constant){*tensor, release, owner};
    value->constant = constant;
    return value;
}

/* A copy of tensor data in the arena; the elements of string tensors are copied in depth. */
static bool data_copy(base_arena *arena, op_dtype dtype, const void *data, size_t bytes, void **copy) {
    *copy = NULL;
    if (!data) return true;
    *copy = base_arena_alloc(arena, bytes, 1);
    if (!*copy) return false;
    if (bytes) memcpy(*copy, data, bytes);
    if (dtype != OP_STRING) return true;
    op_string *strings = *copy;
    for (size_t i = 0; i < bytes / sizeof *strings; i++) {
        strings[i].data = base_arena_text(arena, strings[i].data, strings[i].length);
        if (!strings[i].data) return false;
    }
    return true;
}

/* A block of the module's allocator that holds the data of one constant. */
typedef struct reserved_block {
    const base_allocator *allocator;
    void *block;
} reserved_block;

static void reserved_release(void *owner) {
    const reserved_block *reserved = owner;
    reserved->allocator->release(reserved->allocator->user, reserved->block);
}

ir_value *ir_constant_reserve(ir_module *module, const char *name, const op_type *type, size_t bytes,
                              void **data) {
    enum { ALIGNMENT = 64 }; /* whole vectors and cache lines: constants are the weights that kernels read */
    size_t with_alignment;
    if (!base_size_add(bytes, ALIGNMENT, &with_alignment)) return NULL;
    reserved_block *reserved = BASE_NEW(&module->arena, reserved_block);
    if (!reserved) return NULL;
    reserved->allocator = module->arena.allocator;
    reserved->block = reserved->allocator->allocate(reserved->allocator->user, with_alignment);
    if (!reserved->block) return NULL;
    size_t beyond = (uintptr_t)reserved->block % ALIGNMENT;
    op_tensor tensor = {.type = *type, .bytes = bytes};
    tensor.data = (char *)reserved->block + (beyond ? ALIGNMENT - beyond : 0);
    ir_value *value = ir_constant_new(module, name, &tensor, reserved_release, reserved);
    if (value) *data = tensor.data;
    return value;
}

ir_value *ir_constant_copy(ir_module *module, const char *name, const op_type *type, const void *data,
                           size_t bytes) {
    if (type->dtype == OP_STRING) { /* characters and all: the arena keeps them */
        op_tensor tensor = {.type = *type, .bytes = bytes};
        if (!data_copy(&module->arena, type->dtype, data, bytes, &tensor.data)) return NULL;
        return ir_constant_new(module, name, &tensor, NULL, NULL);
    }
    void *copy;
    ir_value *value = ir_constant_reserve(module, name, type, bytes, &copy);
    if (value && bytes) memcpy(copy, data, bytes);
    return value;
}

void ir_constant_move(ir_constant *constant, void *data) {
    if (constant->release) constant->release(constant->owner);
    constant->release = NULL;
    constant->tensor.data = data;
}

/* ---- nodes -------------------------------------------------------------------------------------- */

ir_node *ir_node_new(ir_graph *graph, ir_node *before, op_code code, const char *name, const char *path,
                     op_attributes attributes, uint32_t input_count, ir_value *const *inputs) {
    ir_module *module = graph->module;
    base_arena *arena = &module->arena;
    ir_node *node = BASE_NEW(arena, ir_node);
    if (!node) return NULL;
    node->code = code;
    node->name = name && name[0] ? copy_name(arena, name) : "";
    if (!path || !path[0]) node->path = "";
    /* Neighbours mostly have one path: no copy for each of them. */
    else if (graph->last && strcmp(graph->last->path, path) == 0) node->path = graph->last->path;
    else node->path = copy_name(arena, path);
    node->attributes = attributes;
    node->graph = graph;
    node->input_count = input_count;
    node->inputs = BASE_ARRAY(arena, ir_use *, list_capacity(input_count));
    ir_use *uses = BASE_ARRAY(arena, ir_use, input_count);
    if (!node->name || !node->path || !node->inputs || !uses) return NULL;
    if (module->node_count >= UINT32_MAX) return NULL;
    ir_node **nodes =
        base_arena_grow(arena, module->nodes, &module->node_capacity, module->node_count + 1, sizeof *nodes);
    if (!nodes) return NULL;
    module->nodes = nodes;
    node->id.index = (uint32_t)module->node_count;
    nodes[module->node_count++] = node;
    for (uint32_t i = 0; i < input_count; i++) {
        node->inputs[i] = &uses[i];
        uses[i].node = node;
        uses[i].graph = graph;
        uses[i].index = i;
        use_link(&uses[i], inputs[i]);
    }
    node->next = before;
    node->previous = before ? before->previous : graph->last;
    *(node->previous ? &node->previous->next : &graph->first) = node;
    *(before ? &before->previous : &graph->last) = node;
    graph->node_count++;
    return node;
}

static bool add_output(ir_node *node, ir_value *value) {
    ir_value **outputs =
        list_grow(&node->graph->module->arena, node->outputs, node->output_count, sizeof *outputs);
    if (!outputs) return false;
    node->outputs = outputs;
    outputs[node->output_count++] = value;
    return true;
}

static ir_value *output_new(ir_node *node, uint32_t index, const char *name, const op_type *type) {
    ir_value *value = value_new(node->graph->module, IR_RESULT_OF_NODE, name, type);
    if (!value) return NULL;
    value->graph = node->graph;
    value->node = node;
    value->index = index;
    return value;
}

ir_value *ir_node_add_output(ir_node *node, const char *name, const op_type *type) {
    ir_value *value = output_new(node, node->output_count, name, type);
    if (!value || add_output(node, value)) return value;
    value_forget(node->graph->module, value);
    return NULL;
}

ir_value *ir_node_give_output(ir_node *node, uint32_t index, const char *name, const op_type *type) {
    ir_value *value = output_new(node, index, name, type);
    if (value) node->outputs[index] = value;
    return value;
}

bool ir_node_add_absent_output(ir_node *node) {
    return add_output(node, NULL);
}

bool ir_node_add_graph(ir_node *node, ir_graph *graph) {
    ir_graph **graphs =
        list_grow(&node->graph->module->arena, node->graphs, node->graph_count, sizeof *graphs);
    if (!graphs) return false;
    node->graphs = graphs;
    graphs[node->graph_count++] = graph;
    graph->owner = node;
    return true;
}

/* ---- attributes --------------------------------------------------------------------------------- */

static bool string_copy(base_arena *arena, op_string *text) {
    text->data = base_arena_text(arena, text->data, text->length);
    return text->data != NULL;
}

/* A copy of `count` elements; a valid pointer also where there are none. */
static void *array_copy(base_arena *arena, const void *from, size_t count, size_t size) {
    void *copy = base_arena_alloc(arena, count, size);
    if (copy && count) memcpy(copy, from, count * size);
    return copy;
}

static bool attribute_copy(base_arena *arena, const op_attribute *from, op_attribute *to) {
    op_attribute copy = *from;
    copy.name = base_arena_text(arena, from->name, strlen(from->name));
    if (!copy.name) return false;
    switch (from->kind) {
    case OP_ATTRIBUTE_FLOAT:
    case OP_ATTRIBUTE_INT:
        break;
    case OP_ATTRIBUTE_STRING:
        if (!string_copy(arena, &copy.as.text)) return false;
        break;
    case OP_ATTRIBUTE_TENSOR: {
        op_tensor *tensor = BASE_NEW(arena, op_tensor);
        if (!tensor) return false;
        *tensor = *from->as.tensor;
        tensor->symbolic = NULL; /* knowledge about values belongs to values, not to attributes */
        if (!data_copy(arena, tensor->type.dtype, from->as.tensor->data, tensor->bytes, &tensor->data))
            return false;
        copy.as.tensor = tensor;
        break;
    }
    case OP_ATTRIBUTE_FLOATS:
        copy.as.reals = array_copy(arena, from->as.reals, from->count, sizeof *from->as.reals);
        if (!copy.as.reals) return false;
        break;
    case OP_ATTRIBUTE_INTS:
        copy.as.integers = array_copy(arena, from->as.integers, from->count, sizeof *from->as.integers);
        if (!copy.as.integers) return false;
        break;
    case OP_ATTRIBUTE_STRINGS: {
        op_string *texts = array_copy(arena, from->as.texts, from->count, sizeof *texts);
        if (!texts) return false;
        for (size_t i = 0; i < from->count; i++) {
            if (!string_copy(arena, &texts[i])) return false;
        }
        copy.as.texts = texts;
        break;
    }
    case OP_ATTRIBUTE_TYPE:
        copy.as.type = array_copy(arena, from->as.type, 1, sizeof *from->as.type);
        if (!copy.as.type) return false;
        break;
    }
    *to = copy;
    return true;
}

bool ir_attributes_copy(ir_module *module, const op_attributes *from, op_attributes *to) {
    op_attribute *items = BASE_ARRAY(&module->arena, op_attribute, from->count);
    if (!items) return false;
    for (size_t i = 0; i < from->count; i++) {
        if (!attribute_copy(&module->arena, &from->items[i], &items[i])) return false;
    }
    *to = (op_attributes){from->count, items};
    return true;
}

bool ir_attribute_set(ir_module *module, op_attributes *attributes, const op_attribute *attribute) {
    size_t count = attributes->count, at = 0;
    while (at < count && strcmp(attributes->items[at].name, attribute->name) != 0) at++;
    op_attribute *items = BASE_ARRAY(&module->arena, op_attribute, count + 1);
    if (!items) return false;
    if (count) memcpy(items, attributes->items, count * sizeof *items);
    if (!attribute_copy(&module->arena, attribute, &items[at])) return false;
    *attributes = (op_attributes){at == count ? count + 1 : count, items};
    return true;
}

bool ir_attribute_remove(ir_module *module, op_attributes *attributes, const char *name) {
    size_t kept = 0;
    if (!op_attribute_find(attributes, name)) return true;
    op_attribute *items = BASE_ARRAY(&module->arena, op_attribute, attributes->count);
    if (!items) return false;
    for (size_t i = 0; i < attributes->count; i++)
        if (strcmp(attributes->items[i].name, name) != 0) items[kept++] = attributes->items[i];
    *attributes = (op_attributes){kept, items};
    return true;
}

/* ---- symbols ------------------------------------------------------------------------------------ */

/* A new symbol, registered in `map` under `key`. A dimension, or OP_DIM_UNKNOWN when memory runs out. */
static int64_t symbol_add(ir_module *module, base_map *map, const char *key, ir_symbol symbol) {
    size_t number = module->symbol_count;
    ir_symbol *symbols = base_arena_grow(&module->arena, module->symbols, &module->symbol_capacity,
                                         number + 1, sizeof *symbols);
    if (!symbols) return OP_DIM_UNKNOWN;
    module->symbols = symbols;
    if (!base_map_put(map, key, (void *)(uintptr_t)number)) return OP_DIM_UNKNOWN;
    symbols[number] = symbol;
    module->symbol_count++;
    return -(int64_t)number;
}

int64_t ir_symbol_named(ir_module *module, const char *name) {
    uintptr_t number = (uintptr_t)base_map_get(&module->symbol_names, name);
    if (number) return -(int64_t)number;
    const char *key = base_arena_text(&module->arena, name, strlen(name)),
               *printable = copy_name(&module->arena, name);
    if (!key || !printable) return OP_DIM_UNKNOWN;
    if (strcmp(key, printable) == 0)
        return symbol_add(module, &module->symbol_names, key, (ir_symbol){.name = key});
    /* Both names, that of the file and that which is shown, stand for it. */
    const char *shown = printable;
    for (unsigned i = 1; shown && base_map_get(&module->symbol_names, shown); i++)
        shown = base_arena_format(&module->arena, "%s_%u", printable, i);
    const int64_t symbol =
        shown ? symbol_add(module, &module->symbol_names, key, (ir_symbol){.name = shown}) : OP_DIM_UNKNOWN;
    if (symbol != OP_DIM_UNKNOWN && !base_map_put(&module->symbol_names, shown, (void *)(uintptr_t)-symbol))
        return OP_DIM_UNKNOWN;
    return symbol;
}

/* The computed symbol `a operation b`, as written. */
static int64_t symbol_expression(ir_module *module, char operation, int64_t a, int64_t b) {
    if ((operation == '+' || operation == '*') && a > b) { /* symbols, being negative, come first */
        int64_t swap = a;
        a = b;
        b = swap;
    }
    char text[64];
    int length = snprintf(text, sizeof text, "%c %lld %lld", operation, (long long)a, (long long)b);
    uintptr_t number = (uintptr_t)base_map_get(&module->symbol_expressions, text);
    if (number) return -(int64_t)number;
    const char *key = base_arena_text(&module->arena, text, (size_t)length);
    if (!key) return OP_DIM_UNKNOWN;
    return symbol_add(module, &module->symbol_expressions, key,
                      (ir_symbol){.operation = operation, .a = a, .b = b});
}

static const ir_symbol *symbol_of(const ir_module *module, int64_t dim) {
    return dim < 0 && dim > -(int64_t)module->symbol_count ? &module->symbols[-dim] : NULL;
}

enum { SYMBOL_DEPTH = 10 }; /* how deep products are searched for a divisor */

static int64_t symbol_simplify(ir_module *module, char operation, int64_t a, int64_t b);

/* a / b where b is a factor of a's product; false where it is not seen to be one. Extents by which others are
 * divided are taken to be non-zero. */
static bool divide_exactly(ir_module *module, int64_t a, int64_t b, int depth, int64_t *result) {
    if (a == b) {
        *result = 1;
        return true;
    }
    if (a >= 0 && b > 0 && a % b == 0) {
        *result = a / b;
        return true;
    }
    if (depth == 0) return false;
    const ir_symbol *product = symbol_of(module, a);
    if (product && !product->name && product->operation == '*') {
        int64_t left = product->a, right = product->b, rest;
        if (divide_exactly(module, right, b, depth - 1, &rest)) {
            *result = symbol_simplify(module, '*', left, rest);
            return *result != OP_DIM_UNKNOWN;
        }
        if (divide_exactly(module, left, b, depth - 1, &rest)) {
            *result = symbol_simplify(module, '*', rest, right);
            return *result != OP_DIM_UNKNOWN;
        }
    }
    const ir_symbol *divisor = symbol_of(module, b);
    if (divisor && !divisor->name && divisor->operation == '*') {
        int64_t left = divisor->a, right = divisor->b, rest;
        return divide_exactly(module, a, left, depth / 2, &rest) &&
               divide_exactly(module, rest, right, depth / 2, result);
    }
    return false;
}

static int64_t symbol_simplify(ir_module *module, char operation, int64_t a, int64_t b) {
    const op_call numbers = {0};
    if ((a >= 0 && b >= 0) || a == OP_DIM_UNKNOWN || b == OP_DIM_UNKNOWN) {
        return op_dim_compute(&numbers, operation, a, b);
    }
    int64_t result = op_dim_compute(&numbers, operation, a, b); /* x + 0, x * 1, x - x, ... */
    if (result != OP_DIM_UNKNOWN) return result;
    if ((operation == '+' || operation == '*') && a > b) return symbol_simplify(module, operation, b, a);

    const ir_symbol *left = symbol_of(module, a);
    bool computed = left && !left->name && left->b >= 0; /* a is x OP number */
    int64_t x = computed ? left->a : 0, number = computed ? left->b : 0, sum;
    switch (operation) {
    case '+':
    case '-':
        if (!computed || b < 0 || (left->operation != '+' && left->operation != '-')) break;
        if (left->operation == operation) { /* (x + n) + b, (x - n) - b */
            if (base_int64_add(number, b, &sum)) return symbol_simplify(module, operation, x, sum);
            break;
        }
        if (number >= b) return symbol_simplify(module, left->operation, x, number - b);
        return symbol_simplify(module, operation, x, b - number);
    case '*':
        if (!computed || b < 0 || left->operation != '*') break;
        if (base_int64_multiply(number, b, &sum)) return symbol_simplify(module, '*', x, sum);
        break;
    case '/':
    case '^':
        if (b == 0) return OP_DIM_UNKNOWN;
        if (divide_exactly(module, a, b, SYMBOL_DEPTH, &result)) return result;
        break;
    default:
        return OP_DIM_UNKNOWN;
    }
    return symbol_expression(module, operation, a, b);
}

int64_t ir_symbol_compute(void *module, char operation, int64_t a, int64_t b) {
    return symbol_simplify(module, operation, a, b);
}

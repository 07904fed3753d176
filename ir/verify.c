/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c: whether a module keeps the rules of ir.h.
 *
 * Slow and obvious on purpose: it shares no bookkeeping with what it checks. Three walks:
 *   1. the tables: numbers, names, types, data of constants;
 *   2. the graphs from main inwards: lists, definitions before uses, each node against its operator's row,
 * the graphs of control nodes against the node;
 *   3. the use lists: every element is a slot that the second walk saw, and there are as many as it saw.
 * A module that is broken in one place is checked on; the walks are bounded by the tables, so that lists
 * which bite their own tail end.
 */
#include "ir/ir.h"
#include "ir/loop.h"
#include "ir/operators/shape_list.h"

#include <stdio.h>
#include <string.h>

typedef struct verifier {
    const ir_module *module;
    const char *when;
    base_report *report;
    base_status status;
    bool *defined;                                /* by value id: visible at this point of the walk */
    bool *seen_values, *seen_nodes, *seen_graphs; /* by id: found where it should stand */
    size_t slots;                                 /* that hold a value */
    int depth;
} verifier;

/* Reports one broken rule under the report's present context. */
__attribute__((format(printf, 2, 3))) static void broken(verifier *v, const char *format, ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    v->status = base_fail(v->report, BASE_INVALID, "%s: %s", v->when, message);
}

static void context_of_graph(verifier *v, const ir_graph *graph) {
    base_report_context(v->report, "%s: graph \"%s\"", v->module->name, graph->name);
}

static void context_of_module(verifier *v) {
    base_report_context(v->report, "%s", v->module->name);
}

/* ---- values, by themselves ---------------------------------------------------------------------- */

static bool in_table(const ir_module *module, const ir_value *value) {
    return value->id.index > 0 && value->id.index < module->value_count &&
           module->values[value->id.index] == value;
}

static bool dim_valid(const ir_module *module, int64_t dim) {
    return dim >= 0 || dim == OP_DIM_UNKNOWN || dim > -(int64_t)module->symbol_count;
}

static void check_type(verifier *v, const op_type *type, const char *name) {
    if ((unsigned)type->kind > OP_KIND_MAP || (unsigned)type->element > OP_KIND_MAP ||
        (unsigned)type->dtype >= OP_DTYPE_COUNT || (unsigned)type->layout >= OP_LAYOUT_COUNT) {
        broken(v, "the type of %%%s has a number that stands for nothing", name);
        return;
    }
    if (type->shape.rank < -1 || type->shape.rank > OP_MAX_RANK) {
        broken(v, "the rank of %%%s is %d, at most %d is possible", name, (int)type->shape.rank, OP_MAX_RANK);
        return;
    }
    for (int32_t i = 0; i < type->shape.rank; i++) {
        if (!dim_valid(v->module, type->shape.dims[i])) {
            broken(v, "dimension %d of %%%s is a symbol that does not exist", (int)i, name);
        }
    }
}

static void check_constant(verifier *v, const ir_value *value) {
    if (!value->constant) {
        broken(v, "constant %%%s has no data", value->name);
        return;
    }
    size_t bytes;
    const op_tensor *tensor = &value->constant->tensor;
    if (value->node || value->graph) broken(v, "constant %%%s stands in a graph", value->name);
    if (!op_type_bytes(&value->type, &bytes)) {
        broken(v, "the size of constant %%%s does not follow from its type", value->name);
    } else if (bytes != tensor->bytes) {
        broken(v, "constant %%%s has %zu bytes, its type %zu", value->name, tensor->bytes, bytes);
    } else if (bytes && !tensor->data) {
        broken(v, "constant %%%s has no data", value->name);
    }
}

static void check_values(verifier *v) {
    const ir_module *module = v->module;
    for (size_t i = 1; i < module->value_count; i++) {
        const ir_value *value = module->values[i];
        if (!value) continue;
        if (!value->name || !value->name[0]) {
            broken(v, "value number %zu has no name", i);
            continue;
        }
        if (value->id.index != i)
            broken(v, "%%%s has number %u, its place is %zu", value->name, value->id.index, i);
        if (base_map_get(&module->names, value->name) != value) {
            broken(v, "the name %%%s is not this value's alone", value->name);
        }
        check_type(v, &value->type, value->name);
        if (value->kind == IR_CONSTANT) {
            check_constant(v, value);
            v->seen_values[i] = true;
            v->defined[i] = true;
        } else if (value->constant) {
            broken(v, "%%%s has the data of a constant and is none", value->name);
        }
    }
}

/* A value where it is defined: its links back must be those of the place. */
static void check_definition(verifier *v, const ir_value *value, ir_value_kind kind, const ir_graph *graph,
                             const ir_node *node, uint32_t index) {
    const char *what = kind == IR_PARAMETER ? "parameter" : "output";
    if (!in_table(v->module, value)) {
        broken(v, "%s %u is a value that was removed", what, index);
        return;
    }
    if (v->seen_values[value->id.index]) broken(v, "%%%s is defined in two places", value->name);
    v->seen_values[value->id.index] = true;
    v->defined[value->id.index] = true;
    if (value->kind != kind || value->graph != graph || value->node != node || value->index != index) {
        broken(v, "%%%s does not know that it is %s %u here", value->name, what, index);
    }
}

/* A slot that holds a value (or nothing). */
static void check_slot(verifier *v, const ir_use *use, const ir_node *node, const ir_graph *graph,
                       uint32_t index) {
    const char *what = node ? "input" : "result";
    if (!use) {
        broken(v, "%s %u has no slot", what, index);
        return;
    }
    if (use->node != node || use->graph != graph || use->index != index) {
        broken(v, "the slot of %s %u believes to be elsewhere", what, index);
    }
    if (!use->value) return;
    v->slots++;
    if (!in_table(v->module, use->value)) {
        broken(v, "%s %u is a value that was removed", what, index);
    } else if (!v->defined[use->value->id.index]) {
        broken(v, "%s %u, %%%s, is not defined before it is used", what, index, use->value->name);
    }
}

/* ---- nodes against their rows ------------------------------------------------------------------- */

static void check_counts(verifier *v, const ir_node *node, const op_schema *row) {
    uint32_t inputs = node->input_count, outputs = node->output_count;
    if (inputs < (uint32_t)row->input_minimum ||
        (row->input_maximum >= 0 && inputs > (uint32_t)row->input_maximum)) {
        broken(v, "%u inputs given, %s takes %d to %d (-1: any number)", inputs, row->name,
               row->input_minimum, row->input_maximum);
    }
    if (outputs < (uint32_t)row->output_minimum ||
        (row->output_maximum >= 0 && outputs > (uint32_t)row->output_maximum)) {
        broken(v, "%u outputs given, %s makes %d to %d (-1: any number)", outputs, row->name,
               row->output_minimum, row->output_maximum);
    }
    bool any = row->input_maximum < 0 && !(row->flags & OP_FLAG_GRAPHS);
    for (uint32_t i = 0; i < inputs && (any || i < (uint32_t)row->input_minimum); i++) {
        if (node->inputs[i] && !node->inputs[i]->value)
            broken(v, "input %u is absent, %s needs it", i, row->name);
    }
    for (uint32_t i = 0; i < outputs && i < (uint32_t)row->output_minimum; i++) {
        if (!node->outputs[i]) broken(v, "output %u is absent, %s always makes it", i, row->name);
    }
}

/* The kind letter that the row gives the attribute; 0 where it has none of this name. */
static char kind_in_row(const op_schema *row, const char *name) {
    size_t length = strlen(name);
    for (const char *at = row->attributes; *at;) {
        size_t entry = strcspn(at, " ");
        if (entry == length + 2 && at[length] == ':' && memcmp(at, name, length) == 0) return at[length + 1];
        at += entry;
        at += strspn(at, " ");
    }
    return '\0';
}

static char letter_of_kind(op_attribute_kind kind) {
    switch (kind) {
    case OP_ATTRIBUTE_FLOAT:
        return 'f';
    case OP_ATTRIBUTE_INT:
        return 'i';
    case OP_ATTRIBUTE_STRING:
        return 's';
    case OP_ATTRIBUTE_TENSOR:
        return 't';
    case OP_ATTRIBUTE_FLOATS:
        return 'F';
    case OP_ATTRIBUTE_INTS:
        return 'I';
    case OP_ATTRIBUTE_STRINGS:
        return 'S';
    case OP_ATTRIBUTE_TYPE:
        return 'p';
    }
    return '?';
}

static void check_attributes(verifier *v, const ir_node *node, const op_schema *row) {
    for (size_t i = 0; i < node->attributes.count; i++) {
        const op_attribute *attribute = &node->attributes.items[i];
        char kind = kind_in_row(row, attribute->name);
        if (!kind) {
            broken(v, "%s has no attribute %s; it has: %s", row->name, attribute->name,
                   row->attributes[0] ? row->attributes : "none");
        } else if (kind != letter_of_kind(attribute->kind)) {
            broken(v, "attribute %s is of kind %c, expected %c", attribute->name,
                   letter_of_kind(attribute->kind), kind);
        }
        if (op_attribute_find(&node->attributes, attribute->name) != attribute) {
            broken(v, "attribute %s is given twice", attribute->name);
        }
    }
}

/* ---- control nodes against their graphs --------------------------------------------------------- */

static const char *dtype_name(const ir_value *value) {
    return op_dtype_name(value->type.dtype);
}

/* What is known of the types agrees. Either value may be NULL (absent, or reported elsewhere). */
static void check_agree(verifier *v, const ir_value *a, const ir_value *b, const char *what, uint32_t index) {
    if (!a || !b || a->type.dtype == OP_NONE || b->type.dtype == OP_NONE) return;
    if (a->type.dtype == b->type.dtype && a->type.kind == b->type.kind) return;
    broken(v, "%s %u: %%%s is %s%s, %%%s is %s%s", what, index, a->name,
           a->type.kind == OP_KIND_TENSOR ? "" : "no tensor of ", dtype_name(a), b->name,
           b->type.kind == OP_KIND_TENSOR ? "" : "no tensor of ", dtype_name(b));
}

/* A tensor of one element (any shape) and this dtype. */
static void check_single(verifier *v, const ir_value *value, op_dtype dtype, const char *what) {
    if (!value || value->type.dtype == OP_NONE) return;
    int64_t elements;
    if (value->type.kind != OP_KIND_TENSOR || value->type.dtype != dtype) {
        broken(v, "%s is %s, expected %s", what, dtype_name(value), op_dtype_name(dtype));
    } else if (op_shape_elements(&value->type.shape, &elements) && elements != 1) {
        broken(v, "%s has %lld elements, expected one", what, (long long)elements);
    }
}

static ir_value *result_of(const ir_graph *graph, uint32_t index) {
    return graph->results[index] ? graph->results[index]->value : NULL;
}

static void check_if(verifier *v, const ir_node *node) {
    if (node->graph_count != 2) {
        broken(v, "If owns %u graphs, expected two: then and else", node->graph_count);
        return;
    }
    check_single(v, ir_input(node, 0), OP_BOOL, "the condition");
    for (uint32_t g = 0; g < 2; g++) {
        const ir_graph *branch = node->graphs[g];
        if (branch->parameter_count) broken(v, "branch %u has parameters, expected none", g);
        if (branch->result_count != node->output_count) {
            broken(v, "branch %u has %u results, the node %u outputs", g, branch->result_count,
                   node->output_count);
            continue;
        }
        for (uint32_t i = 0; i < node->output_count; i++) {
            check_agree(v, result_of(branch, i), node->outputs[i], g ? "result of else" : "result of then",
                        i);
        }
    }
}

/* An attribute that lists one number for each of `count` scanned tensors. */
static void check_scan_list(verifier *v, const ir_node *node, const char *name, size_t count) {
    if (!op_attribute_find(&node->attributes, name)) return;
    size_t listed;
    op_attribute_integers(&node->attributes, name, &listed);
    if (listed != count) broken(v, "%s lists %zu numbers, expected %zu", name, listed, count);
}

/* Shapes, one for each stack. */
static void check_declared(verifier *v, const ir_node *node, size_t count) {
    const char *name = "ouro.scan_output_shapes";
    size_t length;
    const int64_t *list = op_attribute_integers(&node->attributes, name, &length);
    if (op_attribute_find(&node->attributes, name) && !op_shape_list_holds(list, length, count))
        broken(v, "%s does not list %zu shapes", name, count);
}

static void check_loop(verifier *v, const ir_node *node) {
    if (node->graph_count != 1) {
        broken(v, "Loop owns %u graphs, expected one: the body", node->graph_count);
        return;
    }
    const ir_graph *body = node->graphs[0];
    uint32_t given = node->input_count > 2 ? node->input_count - 2 : 0;
    int64_t scanned = op_attribute_integer(&node->attributes, "ouro.scan_inputs", 0);
    if (scanned < 0 || scanned > given) {
        broken(v, "ouro.scan_inputs is %lld, expected 0 to %u", (long long)scanned, given);
        return;
    }
    uint32_t scan_inputs = (uint32_t)scanned, carried = given - scan_inputs;
    if (node->output_count < carried) {
        broken(v, "%u outputs for %u carried parameters", node->output_count, carried);
        return;
    }
    uint32_t scan_outputs = node->output_count - carried;
    int64_t stacked = op_attribute_integer(&node->attributes, "ouro.scan_outputs", scan_outputs);
    if (stacked != scan_outputs) {
        broken(v, "ouro.scan_outputs is %lld, %u outputs follow the carried ones", (long long)stacked,
               scan_outputs);
    }
    check_scan_list(v, node, "ouro.scan_input_axes", scan_inputs);
    check_scan_list(v, node, "ouro.scan_input_directions", scan_inputs);
    check_scan_list(v, node, "ouro.scan_output_axes", scan_outputs);
    check_scan_list(v, node, "ouro.scan_output_directions", scan_outputs);
    check_declared(v, node, scan_outputs);
    check_single(v, ir_input(node, 0), OP_INT64, "the trip count");
    check_single(v, ir_input(node, 1), OP_BOOL, "the condition");

    bool fits = true;
    if (body->parameter_count != 2 + given) {
        broken(v, "the body has %u parameters, expected %u: iteration, condition, %u carried, %u slices",
               body->parameter_count, 2 + given, carried, scan_inputs);
        fits = false;
    }
    if (body->result_count != 1 + node->output_count) {
        broken(v, "the body has %u results, expected %u: condition, %u carried, %u slices",
               body->result_count, 1 + node->output_count, carried, scan_outputs);
        fits = false;
    }
    if (!fits) return;
    check_single(v, body->parameters[0], OP_INT64, "the iteration number");
    check_single(v, body->parameters[1], OP_BOOL, "the condition parameter");
    check_single(v, result_of(body, 0), OP_BOOL, "the condition result");
    for (uint32_t i = 0; i < given; i++) {
        const ir_value *input = ir_input(node, 2 + i);
        if (!input) broken(v, "input %u is absent, only trip count and condition may be", 2 + i);
        check_agree(v, input, body->parameters[2 + i], i < carried ? "carried" : "scanned", i);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        check_agree(v, result_of(body, 1 + i), node->outputs[i], i < carried ? "carried" : "stacked", i);
    }
    for (uint32_t i = 0; i < carried; i++) {
        check_agree(v, body->parameters[2 + i], result_of(body, 1 + i), "carried", i);
    }
}

/* The loop around the model: its states are the first parameters and results of main. */
static void check_run(verifier *v, const ir_node *run) {
    const ir_graph *main = v->module->main;
    const uint32_t states = ir_module_states(v->module);
    if (run != v->module->run || run->graph_count != 1 || run->graphs[0] != main)
        broken(v, "the loop around the model is another node");
    else if (main->parameter_count < states || main->result_count < states)
        broken(v, "there are %u states, but %u parameters and %u results", states, main->parameter_count,
               main->result_count);
    for (uint32_t i = 0; i < states && v->status == BASE_OK; i++)
        check_agree(v, main->parameters[i], result_of(main, i), "state", i);
}

/* ---- graphs ------------------------------------------------------------------------------------- */

static void check_graph(verifier *v, const ir_graph *graph, const ir_node *owner);

static void check_node(verifier *v, const ir_node *node, const ir_graph *graph) {
    const ir_module *module = v->module;
    if (node->code <= OP_CODE_NONE || node->code >= OP_CODE_COUNT) {
        broken(v, "the node has operator number %d, which does not exist", (int)node->code);
        return;
    }
    const op_schema *row = op_schema_of(node->code);
    if (node->graph != graph) {
        context_of_graph(v, graph);
        broken(v, "node \"%s\" (%s) believes to stand in another graph", node->name, row->name);
        return;
    }
    ir_node_context(node, v->report);
    if (node->id.index == 0 || node->id.index >= module->node_count ||
        module->nodes[node->id.index] != node) {
        broken(v, "the node is not in the module's table");
        return;
    }
    v->seen_nodes[node->id.index] = true;
    for (uint32_t i = 0; i < node->input_count; i++) check_slot(v, node->inputs[i], node, graph, i);
    /* The loop around the model, and the node that makes what its states begin with, have forms of their own. */
    const bool around = module->run && graph == module->run->graph;
    if (!around) check_counts(v, node, row);
    if (!around) check_attributes(v, node, row);
    if (!(row->flags & OP_FLAG_GRAPHS) && node->graph_count) broken(v, "%s owns no graphs", row->name);

    /* The node's outputs are not there yet inside its own graphs. */
    for (uint32_t i = 0; i < node->graph_count; i++) check_graph(v, node->graphs[i], node);
    ir_node_context(node, v->report);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i]) check_definition(v, node->outputs[i], IR_RESULT_OF_NODE, graph, node, i);
    }
    if (node->code == OP_IF && !around) check_if(v, node);
    if (node->code == OP_LOOP && !around) check_loop(v, node);
    if (node->code == OP_LOOP && around) check_run(v, node);
}

static void undefine(verifier *v, const ir_value *value) {
    if (value && in_table(v->module, value)) v->defined[value->id.index] = false;
}

static void check_graph(verifier *v, const ir_graph *graph, const ir_node *owner) {
    const ir_module *module = v->module;
    context_of_graph(v, graph);
    if (graph->id.index == 0 || graph->id.index >= module->graph_count ||
        module->graphs[graph->id.index] != graph) {
        broken(v, "the graph is not in the module's table");
        return;
    }
    if (v->seen_graphs[graph->id.index]) {
        broken(v, "the graph is owned twice");
        return;
    }
    v->seen_graphs[graph->id.index] = true;
    if (graph->owner != owner) broken(v, "the graph names another owner than the one that owns it");
    if (graph->module != module) broken(v, "the graph belongs to another module");
    if (v->depth == IR_MAX_DEPTH) {
        broken(v, "graphs nest deeper than %d", IR_MAX_DEPTH);
        return;
    }
    v->depth++;
    for (uint32_t i = 0; i < graph->parameter_count; i++) {
        check_definition(v, graph->parameters[i], IR_PARAMETER, graph, NULL, i);
    }
    const ir_node *previous = NULL;
    size_t count = 0;
    for (const ir_node *node = graph->first; node && count < module->node_count; node = node->next) {
        check_node(v, node, graph);
        context_of_graph(v, graph);
        if (node->previous != previous) broken(v, "node \"%s\" does not know the one before it", node->name);
        previous = node;
        count++;
    }
    if (count != graph->node_count)
        broken(v, "%zu nodes stand in the list, %u are counted", count, graph->node_count);
    if (graph->last != previous) broken(v, "the last node of the list is another one");
    for (uint32_t i = 0; i < graph->result_count; i++) {
        check_slot(v, graph->results[i], NULL, graph, i);
        if (graph->results[i] && !graph->results[i]->value) broken(v, "result %u is absent", i);
    }
    /* What is defined here is not visible outside. */
    for (uint32_t i = 0; i < graph->parameter_count; i++) undefine(v, graph->parameters[i]);
    count = 0;
    for (const ir_node *node = graph->first; node && count < module->node_count; node = node->next, count++) {
        for (uint32_t i = 0; i < node->output_count; i++) undefine(v, node->outputs[i]);
    }
    v->depth--;
}

/* ---- tables and use lists ----------------------------------------------------------------------- */

static void check_reached(verifier *v) {
    const ir_module *module = v->module;
    for (size_t i = 1; i < module->value_count; i++) {
        if (module->values[i] && !v->seen_values[i])
            broken(v, "%%%s is defined nowhere", module->values[i]->name);
    }
    for (size_t i = 1; i < module->node_count; i++) {
        if (module->nodes[i] && !v->seen_nodes[i]) {
            broken(v, "node \"%s\" stands in no graph", module->nodes[i]->name);
        }
    }
    for (size_t i = 1; i < module->graph_count; i++) {
        if (module->graphs[i] && !v->seen_graphs[i]) {
            broken(v, "graph \"%s\" is neither main nor owned", module->graphs[i]->name);
        }
    }
}

/* The use is a slot of something that stands in the module. */
static bool is_slot(const verifier *v, const ir_use *use) {
    const ir_module *module = v->module;
    if (use->node) {
        const ir_node *node = use->node;
        return node->id.index < module->node_count && module->nodes[node->id.index] == node &&
               use->index < node->input_count && node->inputs[use->index] == use;
    }
    const ir_graph *graph = use->graph;
    return graph && graph->id.index < module->graph_count && module->graphs[graph->id.index] == graph &&
           use->index < graph->result_count && graph->results[use->index] == use;
}

static void check_uses(verifier *v) {
    const ir_module *module = v->module;
    size_t listed = 0;
    for (size_t i = 1; i < module->value_count && listed <= v->slots; i++) {
        const ir_value *value = module->values[i];
        const ir_use *previous = NULL;
        for (const ir_use *use = value ? value->uses : NULL; use && listed <= v->slots; use = use->next) {
            listed++;
            if (use->value != value || use->previous != previous || !is_slot(v, use)) {
                broken(v, "the list of uses of %%%s holds one that is none", value->name);
                return;
            }
            previous = use;
        }
    }
    if (listed != v->slots) {
        broken(v, "%zu uses are listed with the values, %zu slots hold one", listed, v->slots);
    }
}

base_status ir_verify(const ir_module *module, const char *when, base_report *report) {
    base_report fallback; /* contexts need one; nobody reads it */
    if (!report) {
        base_report_clear(&fallback);
        report = &fallback;
    }
    char context[BASE_REPORT_CONTEXT];
    memcpy(context, report->context, sizeof context);

    base_arena arena;
    base_arena_init(&arena, module->arena.allocator);
    verifier verifying = {.module = module,
                          .when = when,
                          .report = report,
                          .defined = BASE_ARRAY(&arena, bool, module->value_count),
                          .seen_values = BASE_ARRAY(&arena, bool, module->value_count),
                          .seen_nodes = BASE_ARRAY(&arena, bool, module->node_count),
                          .seen_graphs = BASE_ARRAY(&arena, bool, module->graph_count)};
    verifier *v = &verifying;
    if (!v->defined || !v->seen_values || !v->seen_nodes || !v->seen_graphs) {
        base_arena_free(&arena);
        return base_fail_memory(report);
    }
    context_of_module(v);
    check_values(v);
    if (module->main) check_graph(v, module->run ? module->run->graph : module->main, NULL);
    context_of_module(v);
    if (!module->main) broken(v, "there is no main graph");
    check_reached(v);
    check_uses(v);
    base_arena_free(&arena);
    memcpy(report->context, context, sizeof context);
    return v->status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c: graphs of the file into graphs of the module: what names mean, the order of nodes,
 * initializers, nodes handed to their converters, sub-graphs, and functions inlined. */
#include "compiler/onnx/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- which names a node uses, with those that its sub-graphs capture ----------------------------------- */

typedef struct walk {
    import_state *importer;
    base_arena *arena;
    bool (*visit)(struct walk *w, const char *name); /* false: memory ran out */
    struct sorter *sorter;
} walk;

/* The names that a sub-graph defines itself, and those of the sub-graphs around it. */
typedef struct inner {
    const struct inner *outer;
    base_map names;
} inner;

static bool walk_name(walk *w, const inner *scope, const char *name) {
    if (!*name) return true;
    for (; scope; scope = scope->outer) {
        if (base_map_get(&scope->names, name)) return true;
    }
    return w->visit(w, name);
}

static bool walk_graph(walk *w, const inner *outer, const Onnx__GraphProto *graph);

static bool walk_node(walk *w, const inner *scope, const Onnx__NodeProto *node) {
    for (size_t i = 0; i < node->n_input; i++) {
        if (!walk_name(w, scope, node->input[i])) return false;
    }
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = node->attribute[i];
        if (attribute->g && !walk_graph(w, scope, attribute->g)) return false;
        for (size_t k = 0; k < attribute->n_graphs; k++) {
            if (!walk_graph(w, scope, attribute->graphs[k])) return false;
        }
        /* What is differentiated is said by name. */
        if (strcmp(node->op_type, "Gradient") != 0) continue;
        for (size_t k = 0; k <= attribute->n_strings; k++) {
            const ProtobufCBinaryData *text = k ? &attribute->strings[k - 1] : &attribute->s;
            const char *name = base_arena_text(w->arena, (const char *)text->data, text->len);
            if (!name || !walk_name(w, scope, name)) return false;
        }
    }
    return true;
}

static bool defines(inner *scope, char *name) {
    return !name || !*name || base_map_put(&scope->names, name, name);
}

static bool walk_graph(walk *w, const inner *outer, const Onnx__GraphProto *graph) {
    inner scope = {.outer = outer, .names.arena = w->arena};
    for (size_t i = 0; i < graph->n_input; i++) {
        if (!defines(&scope, graph->input[i]->name)) return false;
    }
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (!defines(&scope, graph->initializer[i]->name)) return false;
    }
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__TensorProto *values = graph->sparse_initializer[i]->values;
        if (values && !defines(&scope, values->name)) return false;
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        for (size_t k = 0; k < graph->node[i]->n_output; k++) {
            if (!defines(&scope, graph->node[i]->output[k])) return false;
        }
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        if (!walk_node(w, &scope, graph->node[i])) return false;
    }
    for (size_t i = 0; i < graph->n_output; i++) {
        if (graph->output[i]->name && !walk_name(w, &scope, graph->output[i]->name)) return false;
    }
    return true;
}

/* ---- order --------------------------------------------------------------------------------------------- */

/* ONNX demands that nodes stand in topological order. Where they do not but could, they are put in an order:
 * each node after those that it needs, and otherwise as in the file. */
typedef struct sorter {
    import_scope *scope;
    size_t count;
    Onnx__NodeProto **nodes;
    base_map makers; /* output name to the sort_node that makes it */
    struct sort_node *items;
    struct sort_node *current; /* whose names are visited */
    bool sorted;               /* the file's order is one already */
    size_t *needs;             /* numbers of nodes, those of a node in a row */
    size_t need_count, need_capacity;
} sorter;

typedef struct sort_node {
    size_t first, end, next; /* its part of needs; the one to look at next */
    enum { WAITING, OPEN, DONE } state;
} sort_node;

static bool visit_need(walk *w, const char *name) {
    sorter *s = w->sorter;
    if (!base_map_put(&s->scope->used, name, (void *)(uintptr_t)name)) return false;
    sort_node *maker = base_map_get(&s->makers, name);
    if (!maker) return true;
    if (maker >= s->current) s->sorted = false;
    if (s->need_count == s->need_capacity) {
        size_t *grown =
            base_arena_grow(w->arena, s->needs, &s->need_capacity, s->need_count + 1, sizeof *grown);
        if (!grown) return false;
        s->needs = grown;
    }
    s->needs[s->need_count++] = (size_t)(maker - s->items);
    return true;
}

static base_status find_makers(import_state *importer, sorter *s) {
    for (size_t i = 0; i < s->count; i++) {
        for (size_t k = 0; k < s->nodes[i]->n_output; k++) {
            const char *name = s->nodes[i]->output[k];
            if (!*name) continue;
            const import_binding *earlier = base_map_get(&s->scope->bindings, name);
            if (earlier || base_map_get(&s->makers, name)) {
                import_context(importer, s->scope->path, s->nodes[i]);
                return base_fail(importer->report, BASE_INVALID,
                                 "output " IMPORT_NAME " is defined already, by %s", name,
                                 earlier ? earlier->origin : "another node");
            }
            if (!base_map_put(&s->makers, name, &s->items[i])) return base_fail_memory(importer->report);
        }
    }
    return BASE_OK;
}

/* The open nodes from `from` on need each other in turn: names the first few. */
static base_status report_cycle(import_state *importer, const sorter *s, const size_t *stack, size_t depth,
                                size_t from) {
    char list[400];
    size_t used = 0, begin = 0;
    while (stack[begin] != from) begin++;
    for (size_t i = begin; i < depth && used < sizeof list; i++) {
        int written = i - begin == 5 && depth - i > 1
                          ? snprintf(list + used, sizeof list - used, ", ...")
                          : snprintf(list + used, sizeof list - used, "%s\"%.40s\"", i > begin ? ", " : "",
                                     import_label(s->nodes[stack[i]]));
        used += written > 0 ? (size_t)written : 0;
        if (i - begin == 5) break;
    }
    import_context(importer, s->scope->path, NULL);
    return base_fail(importer->report, BASE_INVALID, "the nodes need each other in a cycle: %s", list);
}

/* Depth first from each node in the file's order; the stack is an array, for chains can be as long as the
 * file. */
static base_status order_nodes(import_state *importer, sorter *s, size_t *order) {
    size_t *stack = BASE_ARRAY(&importer->arena, size_t, s->count);
    if (!stack) return base_fail_memory(importer->report);
    size_t placed = 0;
    for (size_t root = 0; root < s->count; root++) {
        if (s->items[root].state != WAITING) continue;
        size_t depth = 0;
        stack[depth++] = root;
        s->items[root].state = OPEN;
        while (depth > 0) {
            size_t at = stack[depth - 1];
            sort_node *item = &s->items[at];
            if (item->next == item->end) {
                item->state = DONE;
                order[placed++] = at;
                depth--;
                continue;
            }
            size_t need = s->needs[item->next++];
            if (s->items[need].state == OPEN) return report_cycle(importer, s, stack, depth, need);
            if (s->items[need].state == DONE) continue;
            s->items[need].state = OPEN;
            stack[depth++] = need;
        }
    }
    return BASE_OK;
}

/* Collects the names that are used, and gives the order of the nodes. */
static base_status sort_nodes(import_state *importer, import_scope *scope, size_t count,
                              Onnx__NodeProto **nodes, size_t *order) {
    sorter s = {
        .scope = scope, .count = count, .nodes = nodes, .makers.arena = &importer->arena, .sorted = true};
    s.items = BASE_ARRAY(&importer->arena, sort_node, count);
    if (!s.items) return base_fail_memory(importer->report);
    base_status status = find_makers(importer, &s);
    if (status != BASE_OK) return status;
    walk w = {importer, &importer->arena, visit_need, &s};
    for (size_t i = 0; i < count; i++) {
        s.current = &s.items[i];
        s.items[i].first = s.items[i].next = s.need_count;
        if (!walk_node(&w, NULL, nodes[i])) return base_fail_memory(importer->report);
        s.items[i].end = s.need_count;
        order[i] = i;
    }
    return s.sorted ? BASE_OK : order_nodes(importer, &s, order);
}

/* ---- attributes ---------------------------------------------------------------------------------------- */

/* Replaces references to the attributes of the function whose body the node is in; those that the call does
 * not give fall away. */
static base_status resolve_attributes(import_state *importer, const import_scope *scope,
                                      const Onnx__NodeProto *proto, size_t *count,
                                      Onnx__AttributeProto ***attributes) {
    const import_frame *frame = scope->frame;
    if (proto->n_attribute > IMPORT_ATTRIBUTES) {
        return base_fail(importer->report, BASE_INVALID, "%zu attributes, at most %d are possible",
                         proto->n_attribute, IMPORT_ATTRIBUTES);
    }
    Onnx__AttributeProto **resolved =
        BASE_ARRAY(&importer->arena, Onnx__AttributeProto *, proto->n_attribute);
    if (!resolved) return base_fail_memory(importer->report);
    *count = 0;
    for (size_t i = 0; i < proto->n_attribute; i++) {
        Onnx__AttributeProto *attribute = proto->attribute[i];
        const char *name = attribute->name ? attribute->name : "", *reference = attribute->ref_attr_name;
        if (!*name) return base_fail(importer->report, BASE_INVALID, "attribute %zu has no name", i);
        for (size_t k = 0; k < *count; k++) {
            if (strcmp(resolved[k]->name, name) == 0) {
                return base_fail(importer->report, BASE_INVALID, "attribute " IMPORT_NAME " is given twice",
                                 name);
            }
        }
        if (!reference || !*reference) {
            resolved[(*count)++] = attribute;
            continue;
        }
        if (!frame->function) {
            return base_fail(importer->report, BASE_INVALID,
                             "attribute " IMPORT_NAME " refers to an attribute of a function, but is in none",
                             name);
        }
        for (size_t k = 0; k < frame->attribute_count; k++) {
            if (strcmp(frame->attributes[k]->name, reference) != 0) continue;
            if (frame->attributes[k]->g || frame->attributes[k]->n_graphs) {
                return base_fail_unsupported(
                    importer->report, "attribute " IMPORT_NAME " refers to a graph, which is not supported",
                    name);
            }
            Onnx__AttributeProto *copy = BASE_NEW(&importer->arena, Onnx__AttributeProto);
            if (!copy) return base_fail_memory(importer->report);
            *copy = *frame->attributes[k];
            copy->name = attribute->name;
            resolved[(*count)++] = copy;
            break;
        }
    }
    *attributes = resolved;
    return BASE_OK;
}

/* The letter of an attribute's kind, as in ops.def; 0: none is set. */
static char kind_of(const Onnx__AttributeProto *a) {
    static const char letters[] = {0, 'f', 'i', 's', 't', 'g', 'F', 'I', 'S', 'T', 'G', 'z', 'Z', 'p', 'P'};
    if (a->has_type && a->type > 0 && (size_t)a->type < sizeof letters) return letters[a->type];
    /* Files of the first IR version have no type beside the value. */
    if (a->has_f) return 'f';
    if (a->has_i) return 'i';
    if (a->has_s) return 's';
    if (a->t) return 't';
    if (a->g) return 'g';
    if (a->n_floats) return 'F';
    if (a->n_ints) return 'I';
    if (a->n_strings) return 'S';
    if (a->sparse_tensor) return 'z';
    return a->tp ? 'p' : 0;
}

static const char *kind_name(char kind) {
    switch (kind) {
    case 'f':
        return "a float";
    case 'i':
        return "an integer";
    case 's':
        return "a string";
    case 't':
        return "a tensor";
    case 'g':
        return "a graph";
    case 'F':
        return "floats";
    case 'I':
        return "integers";
    case 'S':
        return "strings";
    case 'z':
        return "a sparse tensor";
    case 'p':
        return "a type";
    default:
        return "of another kind";
    }
}

/* Steps through "name:kind! name:kind": the next entry, or NULL. */
static const char *next_entry(const char *at, const char **name, size_t *length, char *kind, bool *required) {
    while (*at == ' ') at++;
    const char *colon = strchr(at, ':');
    if (!colon) return NULL;
    *name = at;
    *length = (size_t)(colon - at);
    *kind = colon[1];
    *required = colon[1] && colon[2] == '!';
    return colon + 2 + *required;
}

static const char *attributes_of_row(const import_node *n) {
    return n->row.attributes ? n->row.attributes : op_schema_of(n->code)->attributes;
}

/* Attributes that the operator does not have may change what it means: they are refused, not overlooked. */
static base_status check_attribute(const import_node *n, const Onnx__AttributeProto *a) {
    const char *name;
    size_t length;
    char kind, given = kind_of(a);
    bool required;
    for (const char *at = attributes_of_row(n); (at = next_entry(at, &name, &length, &kind, &required));) {
        if (strncmp(name, a->name, length) != 0 || a->name[length] || strncmp(name, "ouro.", 5) == 0)
            continue;
        bool set = given == 'g'   ? a->g != NULL
                   : given == 't' ? a->t != NULL
                   : given == 'z' ? a->sparse_tensor != NULL
                   : given == 'p' ? a->tp != NULL
                                  : true;
        if (given == kind && set) return BASE_OK;
        return base_fail(n->importer->report, BASE_INVALID, "attribute " IMPORT_NAME " is %s, it must be %s",
                         a->name, set ? kind_name(given) : "empty", kind_name(kind));
    }
    /* A hint about memory from before opset 6 that nobody has ever needed. */
    if (strcmp(a->name, "consumed_inputs") == 0 && n->version < 6) return BASE_OK;
    return base_fail(n->importer->report, BASE_INVALID, "%s of opset %lld has no attribute " IMPORT_NAME,
                     n->row.name, (long long)n->version, a->name);
}

static base_status check_attributes(const import_node *n) {
    for (size_t i = 0; i < n->attribute_count; i++) {
        base_status status = check_attribute(n, n->attributes[i]);
        if (status != BASE_OK) return status;
    }
    const char *name;
    size_t length;
    char kind;
    bool required;
    for (const char *at = attributes_of_row(n); (at = next_entry(at, &name, &length, &kind, &required));) {
        bool found = !required;
        for (size_t i = 0; i < n->attribute_count && !found; i++) {
            found = strncmp(name, n->attributes[i]->name, length) == 0 && !n->attributes[i]->name[length];
        }
        if (!found) {
            return base_fail(n->importer->report, BASE_INVALID, "attribute \"%.*s\" is missing", (int)length,
                             name);
        }
    }
    return BASE_OK;
}

/* ---- functions ----------------------------------------------------------------------------------------- */

static base_status import_nodes(import_state *importer, import_scope *scope, size_t count,
                                Onnx__NodeProto **nodes);

static base_status bind_arguments(import_node *n, const Onnx__FunctionProto *function, import_scope *scope) {
    if (n->input_count > function->n_input) {
        return base_fail(n->importer->report, BASE_INVALID, "%u inputs given, the function has %zu",
                         n->input_count, function->n_input);
    }
    for (size_t i = 0; i < function->n_input; i++) {
        ir_value *value = i < n->input_count ? n->inputs[i] : NULL;
        base_status status =
            import_bind(n->importer, scope, function->input[i], value, "an input of the function");
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

/* The body of a function, in the place of the node that calls it. */
static base_status inline_function(import_node *n, const Onnx__FunctionProto *function) {
    import_state *importer = n->importer;
    import_opsets opsets = {function->n_opset_import, function->opset_import};
    import_frame frame = {&opsets, function, n->attribute_count, n->attributes};
    import_scope scope;
    const char *path =
        base_arena_format(&importer->arena, "%s/%.*s", n->scope->path, IMPORT_LABEL, import_label(n->proto));
    if (!import_scope_init(importer, &scope, NULL, &frame, n->scope->graph, path)) {
        return base_fail_memory(importer->report);
    }
    if (n->proto->n_output > function->n_output) {
        return base_fail(importer->report, BASE_INVALID, "%zu outputs, the function has %zu",
                         n->proto->n_output, function->n_output);
    }
    base_status status = bind_arguments(n, function, &scope);
    for (size_t i = 0; i < function->n_output && status == BASE_OK; i++) {
        char *name = function->output[i];
        if (!base_map_put(&scope.used, name, name)) status = base_fail_memory(importer->report);
    }
    if (status == BASE_OK) status = import_nodes(importer, &scope, function->n_node, function->node);
    for (size_t i = 0; i < n->proto->n_output && status == BASE_OK; i++) {
        import_context(importer, n->scope->path, n->proto);
        if (!n->proto->output[i][0]) continue;
        const import_binding *binding = import_find(&scope, function->output[i]);
        if (!binding) {
            return base_fail(importer->report, BASE_INVALID,
                             "output " IMPORT_NAME " of the function is not computed", function->output[i]);
        }
        status = import_bind(importer, n->scope, n->proto->output[i], binding->value, "an output of a node");
    }
    return status;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static base_status resolve_inputs(import_node *n) {
    const Onnx__NodeProto *proto = n->proto;
    n->inputs = BASE_ARRAY(&n->importer->arena, ir_value *, proto->n_input);
    if (!n->inputs) return import_memory(n);
    for (size_t i = 0; i < proto->n_input; i++) {
        if (!proto->input[i][0]) continue;
        const import_binding *binding = import_find(n->scope, proto->input[i]);
        if (!binding) {
            return base_fail(n->importer->report, BASE_INVALID,
                             "input %zu (" IMPORT_NAME
                             ") is not defined: it is no input, no initializer and no output of a node",
                             i, proto->input[i]);
        }
        n->inputs[i] = binding->value;
        if (binding->value) n->input_count = (uint32_t)i + 1;
    }
    return BASE_OK;
}

static base_status check_counts(const import_node *n) {
    const import_row *row = &n->row;
    base_report *report = n->importer->report;
    if (n->input_count < (uint32_t)row->input_minimum) {
        return base_fail(report, BASE_INVALID, "%u inputs given, at least %d are needed", n->input_count,
                         row->input_minimum);
    }
    if (row->input_maximum >= 0 && n->input_count > (uint32_t)row->input_maximum) {
        return base_fail(report, BASE_INVALID, "%u inputs given, at most %d are possible", n->input_count,
                         row->input_maximum);
    }
    for (uint32_t i = 0; i < n->input_count; i++) {
        if (n->inputs[i] || (row->input_maximum >= 0 && i >= (uint32_t)row->input_minimum)) continue;
        if (row->input_minimum == 0) continue; /* the converter knows which may be absent */
        return base_fail(report, BASE_INVALID, "input %u is absent, it is needed", i);
    }
    if (row->output_maximum >= 0 && n->output_count > (uint32_t)row->output_maximum) {
        return base_fail(report, BASE_INVALID, "%u outputs given, at most %d are possible", n->output_count,
                         row->output_maximum);
    }
    return BASE_OK;
}

static base_status import_one(import_state *importer, import_scope *scope, const Onnx__NodeProto *proto) {
    import_node n = {.importer = importer, .scope = scope, .proto = proto};
    const char *domain = import_domain(proto->domain);
    import_context(importer, scope->path, proto);
    if (proto->n_input > UINT32_MAX / 2 || proto->n_output > UINT32_MAX / 2) {
        return base_fail(importer->report, BASE_INVALID, "too many inputs or outputs");
    }
    for (size_t i = 0; i < proto->n_output; i++) {
        if (proto->output[i][0]) n.output_count = (uint32_t)i + 1;
    }
    base_status status = resolve_inputs(&n);
    if (status == BASE_OK)
        status = resolve_attributes(importer, scope, proto, &n.attribute_count, &n.attributes);
    if (status != BASE_OK) return status;
    const import_function *function = import_function_find(importer, domain, proto->op_type);
    if (function) return inline_function(&n, function->proto);
    n.version = import_opset(scope->frame->opsets, domain);
    n.code = op_code_from_name(domain, proto->op_type);
    if (!import_row_find(domain, proto->op_type, n.version, &n.row)) {
        return base_fail(importer->report, BASE_INVALID,
                         "is not supported"); /* import_check has said so already */
    }
    status = check_attributes(&n);
    if (status == BASE_OK) status = check_counts(&n);
    if (status != BASE_OK || n.output_count == 0) return status; /* nothing can use what has no name */
    status = n.row.convert(&n);
    /* It may lack a type because an earlier node was refused. */
    if (status == BASE_INVALID && importer->report->unsupported && importer->refused.status == BASE_INVALID)
        *importer->report = importer->refused;
    return status;
}

static base_status import_nodes(import_state *importer, import_scope *scope, size_t count,
                                Onnx__NodeProto **nodes) {
    size_t *order = BASE_ARRAY(&importer->arena, size_t, count);
    if (!order) return base_fail_memory(importer->report);
    base_status status = sort_nodes(importer, scope, count, nodes, order);
    for (size_t i = 0; i < count && status == BASE_OK; i++) {
        status = import_one(importer, scope, nodes[order[i]]);
    }
    return status;
}

/* ---- graphs -------------------------------------------------------------------------------------------- */

static base_status import_initializers(import_state *importer, import_scope *scope,
                                       const Onnx__GraphProto *graph) {
    size_t count = graph->n_initializer + graph->n_sparse_initializer;
    for (size_t i = 0; i < count; i++) {
        Onnx__TensorProto *dense = i < graph->n_initializer ? graph->initializer[i] : NULL;
        Onnx__SparseTensorProto *sparse = dense ? NULL : graph->sparse_initializer[i - graph->n_initializer];
        const Onnx__TensorProto *named = dense ? dense : sparse->values;
        const char *name = named && named->name ? named->name : "";
        ir_value *value;
        if (graph == importer->model->graph && base_map_get(&importer->overridden, name)) continue;
        base_status status = import_constant_tensor(importer, scope->frame, dense, sparse, name, &value);
        if (status == BASE_OK) status = import_bind(importer, scope, name, value, "an initializer");
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

base_status import_graph_content(import_state *importer, import_scope *scope, const Onnx__GraphProto *graph) {
    base_status status = import_initializers(importer, scope, graph);
    for (size_t i = 0; i < graph->n_output && status == BASE_OK; i++) {
        char *name = graph->output[i]->name;
        if (!name || !*name)
            return base_fail(importer->report, BASE_INVALID, "output %zu of the graph has no name", i);
        if (!base_map_put(&scope->used, name, name)) status = base_fail_memory(importer->report);
    }
    if (status == BASE_OK) status = import_nodes(importer, scope, graph->n_node, graph->node);
    if (status != BASE_OK) return status;
    import_context(importer, scope->path, NULL);
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name;
        if (!import_find(scope, name)) {
            return base_fail(importer->report, BASE_INVALID,
                             "output " IMPORT_NAME " of the graph is not computed", name);
        }
    }
    return BASE_OK;
}

/* A parameter's type: what the graph declares, completed by what the node gives. A shape that the node gives
 * holds in every iteration. */
static base_status parameter_type(import_state *importer, const Onnx__ValueInfoProto *info,
                                  const op_type *given, op_type *type) {
    base_status status = import_type(importer, info, false, type);
    if (status != BASE_OK) return status;
    if (given->dtype == OP_NONE) return BASE_OK;
    if (type->dtype == OP_NONE) {
        type->dtype = given->dtype;
        type->kind = given->kind;
        type->element = given->element;
    }
    if (given->shape.rank >= 0) type->shape = given->shape; /* it cannot be otherwise, whatever is declared */
    if (type->dtype != given->dtype || type->kind != given->kind) {
        char declared[200], actual[200];
        return base_fail(importer->report, BASE_INVALID,
                         "input " IMPORT_NAME " of the graph is %s, the node gives it %s",
                         info->name ? info->name : "", op_type_print(type, declared, sizeof declared),
                         op_type_print(given, actual, sizeof actual));
    }
    return BASE_OK;
}

/* A loop hands iteration number and condition to its body as one number each. Where the body declares a vector of one, it gets one. */
static base_status as_declared(import_node *n, ir_graph *graph, const char *path,
                               const Onnx__ValueInfoProto *info, ir_value **value) {
    const int64_t one = 1;
    op_type declared;
    base_status status = import_type(n->importer, info, false, &declared);
    if (status != BASE_OK || declared.shape.rank != 1) return status;
    ir_value *inputs[] = {*value, import_constant_integers(n, 1, &one)};
    ir_node *node =
        inputs[1] ? ir_node_new(graph, NULL, OP_RESHAPE, "", path, (op_attributes){0}, 2, inputs) : NULL;
    *value = node ? ir_node_add_output(node, NULL, NULL) : NULL;
    return *value && import_infer(n->importer, node) ? BASE_OK : import_memory(n);
}

static base_status import_sub_graph(import_node *n, ir_node *owner, const char *name, bool as_loop,
                                    uint32_t type_count, const op_type *types, ir_graph **graph) {
    static const op_type iteration = {.dtype = OP_INT64}, condition = {.dtype = OP_BOOL};
    import_state *importer = n->importer;
    const Onnx__GraphProto *proto = import_attribute(n, name)->g;
    const char *path = base_arena_format(&importer->arena, "%s/%.*s/%s", n->scope->path, IMPORT_LABEL,
                                         import_label(n->proto), name);
    import_scope scope;
    *graph = ir_graph_new(importer->module, name);
    if (!*graph || !ir_node_add_graph(owner, *graph) ||
        !import_scope_init(importer, &scope, n->scope, n->scope->frame, *graph, path)) {
        return import_memory(n);
    }
    if (proto->n_input != type_count) {
        return base_fail(importer->report, BASE_INVALID, "graph \"%s\" has %zu inputs, the node gives it %u",
                         name, proto->n_input, type_count);
    }
    import_context(importer, path, NULL);
    if (as_loop && (!ir_graph_add_parameter(*graph, "iteration", &iteration) ||
                    !ir_graph_add_parameter(*graph, "condition", &condition))) {
        return import_memory(n);
    }
    for (uint32_t i = 0; i < type_count; i++) {
        const Onnx__ValueInfoProto *info = proto->input[i];
        op_type type;
        base_status status = parameter_type(importer, info, &types[i], &type);
        if (status != BASE_OK) return status;
        ir_value *value = ir_graph_add_parameter(*graph, info->name ? info->name : "", &type);
        if (value && i < 2 && strcmp(n->proto->op_type, "Loop") == 0)
            status = as_declared(n, *graph, path, info, &value);
        if (!value) return import_memory(n);
        if (status == BASE_OK)
            status = import_bind(importer, &scope, info->name ? info->name : "", value, "an input");
        if (status != BASE_OK) return status;
    }
    base_status status = import_graph_content(importer, &scope, proto);
    if (status != BASE_OK) return status;
    if (as_loop && !ir_graph_add_result(*graph, (*graph)->parameters[1])) return import_memory(n);
    for (size_t i = 0; i < proto->n_output && status == BASE_OK; i++) {
        ir_value *value = import_find(&scope, proto->output[i]->name)->value;
        if (!value) {
            status = base_fail(importer->report, BASE_INVALID,
                               "output " IMPORT_NAME " of the graph is absent", proto->output[i]->name);
        } else if (!ir_graph_add_result(*graph, value)) {
            status = import_memory(n);
        }
    }
    if (status == BASE_OK) import_context(importer, n->scope->path, n->proto);
    return status;
}

const import_graphs import_graph_functions = {import_sub_graph, import_graph_content};

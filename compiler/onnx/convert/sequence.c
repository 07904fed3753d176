/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.c: SequenceMap, which is a Loop over the elements of sequences. */
#include "compiler/onnx/convert/convert.h"

static const op_attributes NONE = {0};

/* The body of the loop while it is made: a node of the file stands in it with the names of the mapped graph. */
typedef struct mapping {
    import_node within;
    import_scope scope;
    ir_graph *body;
    const Onnx__GraphProto *graph; /* what is mapped */
} mapping;

static op_type sequence_of(op_dtype dtype) {
    return (op_type){.kind = OP_KIND_SEQUENCE, .dtype = dtype, .shape.rank = -1};
}

static base_status begin_body(import_node *n, mapping *m) {
    static const op_type iteration = {.dtype = OP_INT64}, condition = {.dtype = OP_BOOL};
    import_state *importer = n->importer;
    const char *path =
        base_arena_format(&importer->arena, "%s/%s/body", n->scope->path, import_label(n->proto));
    m->body = ir_graph_new(importer->module, "body");
    if (!path || !m->body || !ir_graph_add_parameter(m->body, "iteration", &iteration) ||
        !ir_graph_add_parameter(m->body, "condition", &condition) ||
        !import_scope_init(importer, &m->scope, n->scope, n->scope->frame, m->body, path)) {
        return import_memory(n);
    }
    const op_type unknown = sequence_of(OP_NONE); /* until the graph has been read */
    for (size_t i = 0; i < m->graph->n_output; i++) {
        if (!ir_graph_add_parameter(m->body, "mapped", &unknown)) return import_memory(n);
    }
    m->within = *n;
    m->within.scope = &m->scope;
    return BASE_OK;
}

/* The inputs of the mapped graph: elements of sequences, other values as they are. */
static base_status bind_inputs(import_node *n, mapping *m) {
    for (uint32_t i = 0; i < n->input_count; i++) {
        ir_value *value = n->inputs[i];
        if (!value)
            return base_fail(n->importer->report, BASE_INVALID, "input %u is absent, it is needed", i);
        if (value->type.kind == OP_KIND_SEQUENCE) {
            ir_value *inputs[] = {value, m->body->parameters[0]};
            value = import_make(&m->within, OP_SEQUENCE_AT, NONE, 2, inputs);
            if (!value) return import_memory(n);
        }
        const char *name = m->graph->input[i]->name;
        base_status status = import_bind(n->importer, &m->scope, name ? name : "", value, "an input");
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

/* What the graph gives is appended to the sequences that the loop carries. */
static base_status append_results(import_node *n, mapping *m) {
    if (!ir_graph_add_result(m->body, m->body->parameters[1])) return import_memory(n);
    for (uint32_t i = 0; i < m->graph->n_output; i++) {
        ir_value *made = import_find(&m->scope, m->graph->output[i]->name)->value;
        op_type declared;
        if (!made) {
            return base_fail(n->importer->report, BASE_INVALID, "output %u of the graph is absent", i);
        }
        base_status status = import_type(n->importer, m->graph->output[i], false, &declared);
        if (status != BASE_OK) return status;
        op_dtype dtype = made->type.dtype != OP_NONE ? made->type.dtype : declared.dtype;
        if (dtype == OP_NONE) {
            return base_fail(n->importer->report, BASE_INVALID,
                             "output %u of the graph has no known type, its declaration must tell it", i);
        }
        ir_value *carried = m->body->parameters[2 + i];
        carried->type = sequence_of(dtype);
        ir_value *inputs[] = {carried, made};
        ir_value *longer = import_make(&m->within, OP_SEQUENCE_INSERT, NONE, 2, inputs);
        if (!longer || !ir_graph_add_result(m->body, longer)) return import_memory(n);
    }
    return BASE_OK;
}

/* The loop itself, after what it needs. */
static base_status make_loop(import_node *n, mapping *m) {
    uint32_t count = (uint32_t)m->graph->n_output;
    ir_value **inputs = BASE_ARRAY(&n->importer->arena, ir_value *, (size_t)count + 2);
    if (!inputs) return import_memory(n);
    inputs[0] = import_make(n, OP_SEQUENCE_LENGTH, NONE, 1, &n->inputs[0]);
    for (uint32_t i = 0; i < count; i++) {
        op_attributes attributes = NONE;
        if (!import_attributes_add_integer(n, &attributes, "dtype", m->body->parameters[2 + i]->type.dtype))
            return import_memory(n);
        inputs[2 + i] = import_make(n, OP_SEQUENCE_EMPTY, attributes, 0, NULL);
        if (!inputs[2 + i]) return import_memory(n);
    }
    ir_node *loop = inputs[0] ? import_begin(n, OP_LOOP, NONE, count + 2, inputs) : NULL;
    if (!loop || !ir_node_add_graph(loop, m->body)) return import_memory(n);
    for (uint32_t i = 0; i < count; i++) {
        bool named = import_output_named(n, i);
        ir_value *value =
            named ? ir_node_add_output(loop, n->proto->output[i], &m->body->parameters[2 + i]->type) : NULL;
        if (named ? !value : !ir_node_add_absent_output(loop)) return import_memory(n);
        base_status status = named ? import_define(n, i, value) : BASE_OK;
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

base_status import_convert_sequence_map(import_node *n) {
    mapping m = {.graph = import_attribute(n, "body")->g};
    base_report *report = n->importer->report;
    if (n->inputs[0] && n->inputs[0]->type.kind != OP_KIND_SEQUENCE) {
        return base_fail(report, BASE_INVALID, "input 0 is no sequence, expected one");
    }
    if (m.graph->n_input != n->input_count || m.graph->n_output < n->output_count) {
        return base_fail(report, BASE_INVALID,
                         "%u inputs and %u outputs, its graph has %zu and %zu: these must agree",
                         n->input_count, n->output_count, m.graph->n_input, m.graph->n_output);
    }
    base_status status = begin_body(n, &m);
    if (status == BASE_OK) status = bind_inputs(n, &m);
    if (status == BASE_OK) status = n->importer->graphs->content(n->importer, &m.scope, m.graph);
    if (status == BASE_OK) import_context(n->importer, n->scope->path, n->proto);
    if (status == BASE_OK) status = append_results(n, &m);
    return status == BASE_OK ? make_loop(n, &m) : status;
}

/* From opset 18 on, what is no optional is one that has an element: itself. What is absent has none. */
base_status import_convert_optional_has_element(import_node *n) {
    const ir_value *x = n->input_count ? n->inputs[0] : NULL;
    const op_type scalar = {.dtype = OP_BOOL};
    const uint8_t has = x != NULL;
    if (x && x->type.kind == OP_KIND_OPTIONAL) return import_convert_plain(n);
    ir_value *value = ir_constant_copy(n->importer->module, n->proto->output[0], &scalar, &has, sizeof has);
    return value ? import_define(n, 0, value) : import_memory(n);
}

base_status import_convert_optional_get_element(import_node *n) {
    const op_attributes none = {0};
    if (n->inputs[0]->type.kind == OP_KIND_OPTIONAL) return import_convert_plain(n);
    return import_finish(n, OP_IDENTITY, none, 1, n->inputs);
}

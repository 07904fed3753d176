/* SPDX-License-Identifier: Apache-2.0 */
/* control.c: If, Loop and Scan: the nodes that own graphs. A Scan becomes a Loop that scans
 * inputs; see ir.h for its form. */
#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/convert/expression.h"
#include "ir/loop.h"

#include <stdio.h>
#include <string.h>

static const op_attributes NONE = {0};

/* What a value is known to be, for a parameter that takes it over: of the shape only what cannot change with
 * the iterations, which is nothing. */
static op_type loose_type(const ir_value *value) {
    op_type type = {.shape.rank = -1};
    if (value) {
        type.kind = value->type.kind;
        type.element = value->type.element;
        type.dtype = value->type.dtype;
    }
    return type;
}

/* A carried optional that the body replaces by what it would hold: the replacement is wrapped, and `wrapped` set. */
static base_status wrap_optionals(const import_node *n, ir_graph *body, uint32_t carried, bool *wrapped) {
    for (uint32_t i = 0; i < carried; i++) {
        const op_type *parameter = &body->parameters[2 + i]->type;
        ir_value *value = body->results[1 + i]->value;
        if (parameter->kind != OP_KIND_OPTIONAL || value->type.kind != parameter->element ||
            value->type.dtype == OP_NONE)
            continue;
        ir_node *wrap = ir_node_new(body, NULL, OP_OPTIONAL, "", n->scope->path, NONE, 1, &value);
        op_type type = {.kind = OP_KIND_OPTIONAL,
                        .element = value->type.kind,
                        .dtype = value->type.dtype,
                        .shape = {.rank = -1}};
        ir_value *optional = wrap ? ir_node_add_output(wrap, value->name, &type) : NULL;
        if (!optional) return import_memory(n);
        ir_graph_set_result(body, 1 + i, optional);
        wrapped[i] = true;
    }
    return BASE_OK;
}

/* A shape of which only the rank is known; -1: nothing. */
static op_shape shape_of_rank(int32_t rank) {
    op_shape shape = {.rank = rank >= 0 && rank <= OP_MAX_RANK ? rank : -1};
    for (int32_t i = 0; i < shape.rank; i++) shape.dims[i] = OP_DIM_UNKNOWN;
    return shape;
}

/* The rank that two values have, -1 where they differ or one of them is not known. */
static int32_t common_rank(const ir_value *a, const ir_value *b) {
    int32_t rank = import_rank_of(a);
    return rank == import_rank_of(b) ? rank : -1;
}

/* The outputs of a control node, whose types are those of results of its graph, as far as known, and whose ranks are `ranks` (NULL: not known):
 * what comes after it may have to know them. Those that are `wrapped` (NULL: none) are taken out of their optionals. */
static base_status finish_control(import_node *n, ir_node *node, const ir_graph *graph, uint32_t first_result,
                                  uint32_t count, const bool *wrapped, const int32_t *ranks) {
    for (uint32_t i = 0; i < count; i++) {
        if (!import_output_named(n, i)) {
            if (!ir_node_add_absent_output(node)) return import_memory(n);
            continue;
        }
        op_type type = loose_type(graph->results[first_result + i]->value);
        if (type.kind == OP_KIND_TENSOR) type.shape = shape_of_rank(ranks ? ranks[i] : -1);
        ir_value *value = ir_node_add_output(node, n->proto->output[i], &type);
        if (!value) return import_memory(n);
        if (wrapped && wrapped[i]) value = import_make(n, OP_OPTIONAL_GET_ELEMENT, NONE, 1, &value);
        if (!value) return import_memory(n);
        base_status status = import_define(n, i, value);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

/* A value that must be one element of a dtype, as far as it is known. */
static base_status check_single(const import_node *n, const ir_value *value, op_dtype dtype,
                                const char *what) {
    int64_t elements;
    if (!value || value->type.dtype == OP_NONE) return BASE_OK;
    bool one = !op_shape_elements(&value->type.shape, &elements) || elements == 1;
    if (value->type.dtype == dtype && value->type.kind == OP_KIND_TENSOR && one) return BASE_OK;
    char text[200];
    return base_fail(n->importer->report, BASE_INVALID, "the %s is %s, it must be one %s", what,
                     op_type_print(&value->type, text, sizeof text), op_dtype_name(dtype));
}

/* Two values of which one becomes the other must have one dtype, as far as it is known. */
static base_status check_same(const import_node *n, const ir_value *a, const ir_value *b, const char *what,
                              uint32_t index) {
    if (a->type.dtype == OP_NONE || b->type.dtype == OP_NONE) return BASE_OK;
    if (a->type.dtype == b->type.dtype && a->type.kind == b->type.kind) return BASE_OK;
    char first[200], second[200];
    return base_fail(n->importer->report, BASE_INVALID, "%s %u is %s and %s: these must agree", what, index,
                     op_type_print(&a->type, first, sizeof first),
                     op_type_print(&b->type, second, sizeof second));
}

/* What the body declares of the slices that it gives, for a loop that has no iteration. A declaration that cannot be read is no
 * reason to refuse the model. */
static base_status declare_slices(const import_node *n, ir_node *node, uint32_t carried, uint32_t stacked,
                                  uint32_t first) {
    const Onnx__GraphProto *body = import_attribute(n, "body")->g;
    base_report *report = n->importer->report, ignored = {0};
    op_shape *shapes = BASE_ARRAY(&n->importer->arena, op_shape, stacked);
    if (!shapes) return import_memory(n);
    n->importer->report = &ignored;
    for (uint32_t i = 0; i < stacked; i++) {
        op_type type;
        shapes[i].rank = -1;
        if (import_type(n->importer, body->output[first + carried + i], false, &type) == BASE_OK &&
            type.kind == OP_KIND_TENSOR)
            shapes[i] = type.shape;
    }
    n->importer->report = report;
    return ir_loop_declare(n->importer->module, node, stacked, shapes) ? BASE_OK : import_memory(n);
}

base_status import_convert_if(import_node *n) {
    base_status status = check_single(n, n->inputs[0], OP_BOOL, "condition");
    if (status != BASE_OK) return status;
    ir_node *node = import_begin(n, OP_IF, NONE, 1, n->inputs);
    if (!node) return import_memory(n);
    ir_graph *branches[2];
    status = n->importer->graphs->sub_graph(n, node, "then_branch", false, 0, NULL, &branches[0]);
    if (status == BASE_OK)
        status = n->importer->graphs->sub_graph(n, node, "else_branch", false, 0, NULL, &branches[1]);
    if (status != BASE_OK) return status;
    uint32_t count = branches[0]->result_count;
    if (count != branches[1]->result_count || n->output_count > count) {
        return base_fail(n->importer->report, BASE_INVALID,
                         "%u outputs, then_branch has %u and else_branch %u: these must agree",
                         n->output_count, count, branches[1]->result_count);
    }
    int32_t *ranks = BASE_ARRAY(&n->importer->arena, int32_t, count);
    if (!ranks) return import_memory(n);
    for (uint32_t i = 0; i < count && status == BASE_OK; i++) {
        const ir_value *first = branches[0]->results[i]->value, *second = branches[1]->results[i]->value;
        status = check_same(n, first, second, "output", i);
        ranks[i] = common_rank(first, second);
    }
    return status == BASE_OK ? finish_control(n, node, branches[0], 0, count, NULL, ranks) : status;
}

static base_status check_carried(const import_node *n, const ir_graph *body, uint32_t carried) {
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < carried && status == BASE_OK; i++) {
        status = check_same(n, body->parameters[2 + i], body->results[1 + i]->value, "carried value", i);
    }
    return status;
}

/* The ranks of what a loop gives, as far as they follow from those of its body: carried values have the rank that they begin with,
 * if each iteration keeps it; slices are stacked along one more axis. Where a value begins with another rank than the body declares, nothing
 * of the body holds. NULL: no memory. */
static int32_t *loop_ranks(const import_node *n, const ir_node *node, const ir_graph *body,
                           uint32_t carried) {
    const uint32_t count = body->result_count - 1;
    int32_t *ranks = BASE_ARRAY(&n->importer->arena, int32_t, count);
    bool holds = true;
    for (uint32_t i = 0; ranks && i < carried; i++) {
        const ir_value *initial = ir_input(node, 2 + i), *parameter = body->parameters[2 + i];
        ranks[i] = common_rank(parameter, body->results[1 + i]->value);
        if (import_rank_of(initial) >= 0 && import_rank_of(parameter) >= 0 &&
            import_rank_of(initial) != import_rank_of(parameter))
            holds = false;
    }
    for (uint32_t i = carried; ranks && i < count; i++) {
        const int32_t rank = import_rank_of(body->results[1 + i]->value);
        ranks[i] = rank < 0 ? -1 : rank + 1;
    }
    for (uint32_t i = 0; ranks && !holds && i < count; i++) ranks[i] = -1;
    return ranks;
}

/* Carried values of which the body declares no rank mostly keep the one that they begin with, and converters of the body's nodes may have
 * to know it: the types of parameters with these ranks guessed, and `guessed` set. Returns whether there is one. */
static bool guess_ranks(const import_node *n, uint32_t first, uint32_t count, ir_value *const *initial,
                        op_type *types, bool *guessed) {
    enum { FAILURES = 8 }; /* bodies within each other are read twice each where guesses fail */
    const Onnx__GraphProto *body = import_attribute(n, "body")->g;
    base_report *report = n->importer->report, ignored = {0};
    bool any = false;
    n->importer->report = &ignored;
    for (uint32_t i = first; i < count && i < body->n_input && n->importer->wrong_guesses < FAILURES; i++) {
        op_type declared;
        const int32_t rank = initial[i] ? import_rank_of(initial[i]) : -1;
        if (rank < 0 || types[i].kind != OP_KIND_TENSOR || types[i].shape.rank >= 0 ||
            import_type(n->importer, body->input[i], false, &declared) != BASE_OK || declared.shape.rank >= 0)
            continue;
        types[i].shape = shape_of_rank(rank);
        any = guessed[i] = true;
    }
    n->importer->report = report;
    return any;
}

/* The node of a loop with its body. What is guessed of carried values, of which the first is input `first` of the body and parameter 2 of
 * its graph, must come out of the body again; else all of it is made once more without guesses. */
static base_status make_loop(import_node *n, op_attributes attributes, uint32_t input_count,
                             ir_value *const *inputs, bool as_loop, uint32_t type_count, op_type *types,
                             uint32_t first, uint32_t carried, ir_node **node, ir_graph **body) {
    import_state *importer = n->importer;
    bool *guessed = BASE_ARRAY(&importer->arena, bool, type_count);
    if (!guessed) return import_memory(n);
    ir_value *const *initial = as_loop ? inputs + 2 : inputs;
    if (guess_ranks(n, first, first + carried, initial, types, guessed)) {
        base_report *report = importer->report, ignored = {0}, refused = importer->refused;
        *node = import_begin(n, OP_LOOP, attributes, input_count, inputs);
        if (!*node) return import_memory(n);
        importer->report = &ignored;
        importer->guesses++;
        base_status status = importer->graphs->sub_graph(n, *node, "body", as_loop, type_count, types, body);
        importer->guesses--;
        importer->report = report;
        import_context(importer, n->scope->path, n->proto);
        if (status == BASE_SYSTEM_ERROR) return import_memory(n);
        bool right = status == BASE_OK && (*body)->result_count > carried;
        for (uint32_t i = 0; right && i < carried; i++)
            right = !guessed[first + i] ||
                    import_rank_of((*body)->results[1 + i]->value) == types[first + i].shape.rank;
        if (right) return BASE_OK;
        ir_node_remove(*node);
        importer->refused = refused;
        importer->wrong_guesses++;
        for (uint32_t i = 0; i < type_count; i++)
            if (guessed[i]) types[i].shape.rank = -1;
    }
    *node = import_begin(n, OP_LOOP, attributes, input_count, inputs);
    if (!*node) return import_memory(n);
    return importer->graphs->sub_graph(n, *node, "body", as_loop, type_count, types, body);
}

base_status import_convert_loop(import_node *n) {
    uint32_t given = n->input_count < 2 ? 2 : n->input_count, carried = given - 2;
    ir_value **inputs = BASE_ARRAY(&n->importer->arena, ir_value *, given);
    op_type *types = BASE_ARRAY(&n->importer->arena, op_type, given);
    if (!inputs || !types) return import_memory(n);
    for (uint32_t i = 0; i < n->input_count; i++) {
        inputs[i] = n->inputs[i];
        types[i] = loose_type(inputs[i]);
        if (i >= 2 && !inputs[i]) {
            return base_fail(n->importer->report, BASE_INVALID, "input %u is absent, it is needed", i);
        }
    }
    /* Files disagree on whether these two are scalars or have one dimension; the IR has scalars. */
    types[0] = (op_type){.dtype = OP_INT64};
    types[1] = (op_type){.dtype = OP_BOOL};
    base_status status = check_single(n, inputs[0], OP_INT64, "trip count");
    if (status == BASE_OK) status = check_single(n, inputs[1], OP_BOOL, "condition");
    if (status != BASE_OK) return status;
    ir_node *node;
    ir_graph *body;
    status = make_loop(n, NONE, given, inputs, false, given, types, 2, carried, &node, &body);
    if (status != BASE_OK) return status;
    if (body->result_count < 1 + carried || n->output_count > body->result_count - 1) {
        return base_fail(
            n->importer->report, BASE_INVALID,
            "%u carried values and %u outputs, graph \"body\" has %u outputs: the condition, the carried "
            "values and the scan outputs are wanted",
            carried, n->output_count, body->result_count);
    }
    status = check_single(n, body->results[0]->value, OP_BOOL, "condition that the body computes");
    bool *wrapped = BASE_ARRAY(&n->importer->arena, bool, body->result_count);
    if (!wrapped) return import_memory(n);
    if (status == BASE_OK) status = wrap_optionals(n, body, carried, wrapped);
    if (status == BASE_OK) status = check_carried(n, body, carried);
    if (status != BASE_OK) return status;
    uint32_t outputs = body->result_count - 1;
    if (!import_attributes_add_integer(n, &node->attributes, "ouro.scan_outputs", outputs - carried)) {
        return import_memory(n);
    }
    status = declare_slices(n, node, carried, outputs - carried, 1);
    const int32_t *ranks = status == BASE_OK ? loop_ranks(n, node, body, carried) : NULL;
    if (status == BASE_OK && !ranks) return import_memory(n);
    return status == BASE_OK ? finish_control(n, node, body, 1, outputs, wrapped, ranks) : status;
}

/* ---- Scan ---------------------------------------------------------------------------------------------- */

/* The extent of the scanned axis, as the scalar that a Loop takes for its trip count. */
static ir_value *scan_extent(const import_node *n, ir_value *scanned, int64_t axis) {
    op_attributes range = NONE;
    if (!import_attributes_add_integer(n, &range, "start", axis)) return NULL;
    if (axis != -1 && !import_attributes_add_integer(n, &range, "end", axis + 1)) return NULL;
    return expr_axis(n, OP_SQUEEZE, import_make(n, OP_SHAPE, range, 1, &scanned), 0);
}

/* One of the lists of axes or directions: absent, or one number for each scan input or output. */
static base_status copy_list(const import_node *n, op_attributes *attributes, const char *from,
                             const char *to, uint32_t wanted) {
    size_t count;
    const int64_t *values = import_integers(n, from, &count);
    if (!import_attribute(n, from)) return BASE_OK;
    if (count != wanted) {
        return base_fail(n->importer->report, BASE_INVALID, "attribute \"%s\" has %zu numbers, %u are wanted",
                         from, count, wanted);
    }
    return import_attributes_add_integers(n, attributes, to, count, values) ? BASE_OK : import_memory(n);
}

static op_type slice_type(const ir_value *scanned, int64_t axis) {
    op_type type = loose_type(scanned);
    const op_shape *shape = &scanned->type.shape;
    int32_t normal;
    if (shape->rank < 1 || !op_axis(axis, shape->rank, &normal)) return type;
    type.shape.rank = shape->rank - 1;
    for (int32_t i = 0, k = 0; i < shape->rank; i++) {
        if (i != normal) type.shape.dims[k++] = shape->dims[i];
    }
    return type;
}

base_status import_convert_scan(import_node *n) {
    int64_t scanned = import_integer(n, "num_scan_inputs", 0);
    if (scanned < 1 || scanned > n->input_count) {
        return base_fail(n->importer->report, BASE_INVALID, "num_scan_inputs is %lld, the node has %u inputs",
                         (long long)scanned, n->input_count);
    }
    uint32_t scans = (uint32_t)scanned, carried = n->input_count - scans;
    size_t axis_count;
    const int64_t *axes = import_integers(n, "scan_input_axes", &axis_count);
    ir_value **inputs = BASE_ARRAY(&n->importer->arena, ir_value *, (size_t)n->input_count + 2);
    op_type *types = BASE_ARRAY(&n->importer->arena, op_type, n->input_count);
    if (!inputs || !types) return import_memory(n);
    op_attributes attributes = NONE;
    base_status status = copy_list(n, &attributes, "scan_input_axes", "ouro.scan_input_axes", scans);
    if (status == BASE_OK) {
        status = copy_list(n, &attributes, "scan_input_directions", "ouro.scan_input_directions", scans);
    }
    if (status != BASE_OK) return status;
    inputs[0] = scan_extent(n, n->inputs[carried], axes ? axes[0] : 0);
    if (!inputs[0]) return import_memory(n);
    for (uint32_t i = 0; i < n->input_count; i++) {
        inputs[i + 2] = n->inputs[i];
        types[i] =
            i < carried ? loose_type(n->inputs[i]) : slice_type(n->inputs[i], axes ? axes[i - carried] : 0);
    }
    ir_node *node;
    ir_graph *body;
    status = make_loop(n, attributes, n->input_count + 2, inputs, true, n->input_count, types, 0, carried,
                       &node, &body);
    if (status != BASE_OK) return status;
    if (body->result_count < 1 + carried || n->output_count > body->result_count - 1) {
        return base_fail(
            n->importer->report, BASE_INVALID,
            "%u states and %u outputs, graph \"body\" has %u outputs: the states and the scan outputs are "
            "wanted",
            carried, n->output_count, body->result_count - 1);
    }
    uint32_t outputs = body->result_count - 1, stacked = outputs - carried;
    attributes = node->attributes;
    status = check_carried(n, body, carried);
    if (status == BASE_OK)
        status = copy_list(n, &attributes, "scan_output_axes", "ouro.scan_output_axes", stacked);
    if (status == BASE_OK) {
        status = copy_list(n, &attributes, "scan_output_directions", "ouro.scan_output_directions", stacked);
    }
    if (status != BASE_OK) return status;
    if (!import_attributes_add_integer(n, &attributes, "ouro.scan_inputs", scans) ||
        !import_attributes_add_integer(n, &attributes, "ouro.scan_outputs", stacked)) {
        return import_memory(n);
    }
    node->attributes = attributes;
    status = declare_slices(n, node, carried, stacked, 0);
    const int32_t *ranks = status == BASE_OK ? loop_ranks(n, node, body, carried) : NULL;
    if (status == BASE_OK && !ranks) return import_memory(n);
    return status == BASE_OK ? finish_control(n, node, body, 1, outputs, NULL, ranks) : status;
}

/* The first elements of the outermost axis, up to `end`. */
static ir_value *outermost(const import_node *n, ir_value *value, ir_value *end) {
    ir_value *first = expr_vector(n, 0);
    ir_value *inputs[] = {value, first, end, first};
    return first && value && end ? import_make(n, OP_SLICE, NONE, 4, inputs) : NULL;
}

/* Extents [start, end) of a value, as a tensor of rank 1; end 0: to the last. */
static ir_value *extents(const import_node *n, ir_value *value, int64_t start, int64_t end) {
    op_attributes range = NONE;
    if (!import_attributes_add_integer(n, &range, "start", start) ||
        (end && !import_attributes_add_integer(n, &range, "end", end)))
        return NULL;
    return import_make(n, OP_SHAPE, range, 1, &value);
}

/* The value with zeros after it along the outermost axis, until that has the wanted extent. */
static ir_value *fill_up(const import_node *n, ir_value *value, ir_value *wanted) {
    op_attributes axis = NONE;
    ir_value *difference[] = {wanted, extents(n, value, 0, 1)}, *parts[2], *zeros[2];
    if (!difference[1] || !import_attributes_add_integer(n, &axis, "axis", 0)) return NULL;
    parts[0] = import_make(n, OP_SUB, NONE, 2, difference);
    parts[1] = extents(n, value, 1, 0);
    zeros[0] = import_constant_real(n, value->type.dtype, 0);
    zeros[1] = parts[0] && parts[1] ? import_make(n, OP_CONCAT, axis, 2, parts) : NULL;
    if (!zeros[0] || !zeros[1]) return NULL;
    ir_value *both[] = {value, import_make(n, OP_EXPAND, NONE, 2, zeros)};
    return both[1] ? import_make(n, OP_CONCAT, axis, 2, both) : NULL;
}

/* Opset 8: axis 0 of all inputs and outputs is a batch, axis 1 of the scanned ones is scanned. It becomes a Loop
 * over the batch, which scans the states, too, and stacks what comes out; in its body is the Loop over axis 1,
 * then the first of each slice. Sequences of their own lengths are cut off before that, and what is stacked is filled up
 * with zeros after it. */
base_status import_convert_scan_batched(import_node *n) {
    import_state *importer = n->importer;
    int64_t scanned = import_integer(n, "num_scan_inputs", 0);
    if (scanned < 1 || scanned >= n->input_count) {
        return base_fail(importer->report, BASE_INVALID, "num_scan_inputs is %lld, the node has %u inputs",
                         (long long)scanned, n->input_count);
    }
    ir_value *lengths = n->inputs[0];
    if (lengths && lengths->type.dtype != OP_NONE && lengths->type.dtype != OP_INT64)
        return base_fail(importer->report, BASE_INVALID, "input 0 (sequence_lens) is %s, expected int64",
                         op_dtype_name(lengths->type.dtype));
    uint32_t scans = (uint32_t)scanned, given = n->input_count - 1, carried = given - scans;
    ir_value **inputs = BASE_ARRAY(&importer->arena, ir_value *, (size_t)given + 3);
    op_type *types = BASE_ARRAY(&importer->arena, op_type, given);
    static const op_type iteration = {.dtype = OP_INT64}, condition = {.dtype = OP_BOOL};
    if (!inputs || !types) return import_memory(n);
    memcpy(inputs + 2, n->inputs + 1, given * sizeof *inputs);
    for (uint32_t i = 0; i < given; i++) {
        if (!inputs[2 + i])
            return base_fail(importer->report, BASE_INVALID, "input %u is absent, it is needed", i + 1);
    }
    inputs[0] = scan_extent(n, inputs[2 + carried], 0);
    inputs[2 + given] = lengths;
    const uint32_t sliced = lengths ? given + 1 : given; /* what the loop over the batch scans */
    ir_node *batch = inputs[0] ? import_begin(n, OP_LOOP, NONE, sliced + 2, inputs) : NULL;
    ir_graph *each = ir_graph_new(importer->module, "batch");
    import_scope scope;
    if (!batch || !each || !ir_node_add_graph(batch, each) ||
        !ir_graph_add_parameter(each, "batch.iteration", &iteration) ||
        !ir_graph_add_parameter(each, "batch.condition", &condition) ||
        !import_scope_init(importer, &scope, n->scope, n->scope->frame, each, n->scope->path)) {
        return import_memory(n);
    }
    for (uint32_t i = 0; i < given; i++) {
        op_type type = slice_type(inputs[2 + i], 0);
        inputs[2 + i] = ir_graph_add_parameter(each, "batch.slice", &type);
        if (!inputs[2 + i]) return import_memory(n);
        types[i] = i < carried ? loose_type(inputs[2 + i]) : slice_type(inputs[2 + i], 0);
    }
    /* The node that the file's body belongs to stands in the body of the loop over the batch. */
    import_node within = *n;
    op_attributes attributes = NONE;
    within.scope = &scope;
    ir_value *longest = NULL;
    if (lengths) {
        const op_type type = {.dtype = OP_INT64};
        ir_value *length = ir_graph_add_parameter(each, "batch.length", &type);
        longest = extents(&within, inputs[2 + carried], 0, 1);
        ir_value *end = expr_axis(&within, OP_UNSQUEEZE, length, 0);
        for (uint32_t i = carried; i < given; i++) {
            inputs[2 + i] = outermost(&within, inputs[2 + i], end);
            if (!inputs[2 + i]) return import_memory(n);
        }
        if (!longest) return import_memory(n);
    }
    base_status status = copy_list(n, &attributes, "directions", "ouro.scan_input_directions", scans);
    if (status != BASE_OK) return status;
    inputs[0] = scan_extent(&within, inputs[2 + carried], 0);
    ir_node *node = inputs[0] ? import_begin(&within, OP_LOOP, attributes, given + 2, inputs) : NULL;
    if (!node) return import_memory(n);
    ir_graph *body;
    status = importer->graphs->sub_graph(&within, node, "body", true, given, types, &body);
    if (status != BASE_OK) return status;
    uint32_t outputs = body->result_count - 1;
    if (body->result_count < 1 + carried || n->output_count > outputs) {
        return base_fail(importer->report, BASE_INVALID,
                         "%u states and %u outputs, graph \"body\" has %u outputs: the states and the scan "
                         "outputs are wanted",
                         carried, n->output_count, outputs);
    }
    status = check_carried(n, body, carried);
    if (status != BASE_OK) return status;
    if (!import_attributes_add_integer(n, &node->attributes, "ouro.scan_inputs", scans) ||
        !import_attributes_add_integer(n, &node->attributes, "ouro.scan_outputs", outputs - carried) ||
        !import_attributes_add_integer(n, &batch->attributes, "ouro.scan_inputs", sliced) ||
        !import_attributes_add_integer(n, &batch->attributes, "ouro.scan_outputs", outputs) ||
        !ir_graph_add_result(each, each->parameters[1])) {
        return import_memory(n);
    }
    status = declare_slices(n, node, carried, outputs - carried, 0);
    if (status != BASE_OK) return status;
    for (uint32_t i = 0; i < outputs; i++) {
        op_type type = loose_type(body->results[1 + i]->value);
        ir_value *value = ir_node_add_output(node, "batch.output", &type);
        if (value && lengths && i >= carried) value = fill_up(&within, value, longest);
        if (!value || !ir_graph_add_result(each, value)) return import_memory(n);
    }
    return finish_control(n, batch, each, 1, outputs, NULL, NULL);
}

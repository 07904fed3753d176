/* SPDX-License-Identifier: Apache-2.0 */
/* model.c: a model file into a module: the steps of an import, and what concerns the model as a whole:
 * opsets, functions, interface values, symbolic dimensions that the caller fixes. */
#include "compiler/onnx/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- functions ----------------------------------------------------------------------------------------- */

static char *function_key(base_arena *arena, const char *domain, const char *name) {
    return base_arena_format(arena, "%s\n%s", import_domain(domain), name);
}

static base_status collect_functions(import_state *importer) {
    for (size_t i = 0; i < importer->model->n_functions; i++) {
        const Onnx__FunctionProto *proto = importer->model->functions[i];
        const char *name = proto->name ? proto->name : "";
        char *key = function_key(&importer->arena, proto->domain, name);
        import_function *function = BASE_NEW(&importer->arena, import_function);
        if (!key || !function) return base_fail_memory(importer->report);
        if (!*name || strlen(key) >= 512) {
            return base_fail(importer->report, BASE_INVALID, "function %zu has no name of at most 500 bytes",
                             i);
        }
        if (base_map_get(&importer->functions, key)) {
            return base_fail(importer->report, BASE_INVALID, "function " IMPORT_NAME " is defined twice",
                             name);
        }
        if (proto->n_opset_import > IMPORT_OPSETS) {
            return base_fail(importer->report, BASE_INVALID,
                             "function " IMPORT_NAME ": %zu opsets, at most %d are possible", name,
                             proto->n_opset_import, IMPORT_OPSETS);
        }
        function->proto = proto;
        if (!base_map_put(&importer->functions, key, function)) return base_fail_memory(importer->report);
    }
    return BASE_OK;
}

/* ---- symbolic dimensions --------------------------------------------------------------------------------- */

/* Every binding that the caller gave must have met its symbol. */
static base_status check_bindings(import_state *importer) {
    for (size_t i = 0; i < importer->dim_count; i++) {
        if (importer->dim_used[i]) continue;
        char list[512] = "";
        size_t used = 0;
        const Onnx__GraphProto *graph = importer->model->graph;
        /* In the order of the inputs; the map has no order to speak of. */
        for (size_t k = 0; k < graph->n_input && used < sizeof list; k++) {
            const Onnx__TypeProto *type = graph->input[k]->type;
            bool tensor =
                type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && type->tensor_type;
            const Onnx__TensorShapeProto *shape = tensor ? type->tensor_type->shape : NULL;
            for (size_t d = 0; shape && d < shape->n_dim && used < sizeof list; d++) {
                if (shape->dim[d]->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
                    continue;
                char quoted[140];
                snprintf(quoted, sizeof quoted, "\"%.120s\"", shape->dim[d]->dim_param);
                if (strcmp(quoted, "\"\"") == 0 || strstr(list, quoted)) continue;
                int written = snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", quoted);
                used += written > 0 ? (size_t)written : 0;
            }
        }
        return base_fail(importer->report, BASE_INVALID,
                         "no symbolic dimension is called " IMPORT_NAME "; %s%s", importer->dims[i].name,
                         list[0] ? "the model has " : "the model has none", list);
    }
    return BASE_OK;
}

/* ---- the main graph ------------------------------------------------------------------------------------ */

static bool is_initializer(const base_map *initializers, const char *name) {
    return base_map_get(initializers, name) != NULL;
}

/* The default value of the input is not used. */
static bool is_kept(const import_state *importer, const char *name) {
    for (size_t i = 0; i < importer->kept_count; i++)
        if (strcmp(importer->kept[i], name) == 0) return true;
    return false;
}

/* Inputs that have no initializer, or are kept although they have one, become parameters; the others are constants (files of IR version 3 and
 * before list every initializer as an input too). */
static base_status bind_inputs(import_state *importer, import_scope *scope, const Onnx__GraphProto *graph) {
    base_map initializers = {.arena = &importer->arena};
    for (size_t i = 0; i < graph->n_initializer; i++) {
        char *name = graph->initializer[i]->name;
        if (name && !base_map_put(&initializers, name, name)) return base_fail_memory(importer->report);
    }
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__TensorProto *values = graph->sparse_initializer[i]->values;
        char *name = values ? values->name : NULL;
        if (name && !base_map_put(&initializers, name, name)) return base_fail_memory(importer->report);
    }
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__ValueInfoProto *info = graph->input[i];
        const char *name = info->name ? info->name : "";
        if (is_initializer(&initializers, name)) {
            if (!is_kept(importer, name)) continue;
            if (!base_map_put(&importer->overridden, name, info->name))
                return base_fail_memory(importer->report);
        }
        op_type type;
        base_status status = import_type(importer, info, true, &type);
        if (status != BASE_OK) return status;
        if (type.dtype == OP_NONE) {
            return base_fail(importer->report, BASE_INVALID, "input " IMPORT_NAME " has no type", name);
        }
        ir_value *value = ir_graph_add_parameter(scope->graph, name, &type);
        if (!value) return base_fail_memory(importer->report);
        status = import_bind(importer, scope, name, value, "an input");
        if (status != BASE_OK) return status;
    }
    /* Names that the model gives come first: what is made up takes none of them. */
    base_status status = BASE_OK;
    for (uint32_t i = 0; i < scope->graph->parameter_count && status == BASE_OK; i++)
        status = import_name_extents(importer, scope->graph->parameters[i]);
    return status;
}

/* A result gets a node of its own where it is an input, a constant or another result too, so that it can have
 * the name that the model gives it. */
static base_status add_results(import_state *importer, const import_scope *scope,
                               const Onnx__GraphProto *graph) {
    bool *taken =
        BASE_ARRAY(&importer->arena, bool, importer->module->value_count); /* by value id: is a result */
    if (!taken) return base_fail_memory(importer->report);
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name ? graph->output[i]->name : "";
        ir_value *value = import_find(scope, name)->value;
        if (!value)
            return base_fail(importer->report, BASE_INVALID, "output " IMPORT_NAME " is absent", name);
        if (value->kind == IR_RESULT_OF_NODE && !taken[value->id.index]) {
            taken[value->id.index] = true;
        } else {
            ir_node *node =
                ir_node_new(scope->graph, NULL, OP_IDENTITY, "", scope->path, (op_attributes){0}, 1, &value);
            value = node ? ir_node_add_output(node, name, NULL) : NULL;
            if (!value || !import_infer(importer, node)) return base_fail_memory(importer->report);
        }
        if (!ir_graph_add_result(scope->graph, value) ||
            !ir_graph_set_result_name(scope->graph, (uint32_t)i, name)) {
            return base_fail_memory(importer->report);
        }
    }
    return BASE_OK;
}

static base_status import_main(import_state *importer) {
    const Onnx__GraphProto *graph = importer->model->graph;
    import_frame frame = {.opsets = &importer->opsets};
    import_scope scope;
    ir_graph *main = ir_graph_new(importer->module, "main");
    if (!main || !import_scope_init(importer, &scope, NULL, &frame, main, "main")) {
        return base_fail_memory(importer->report);
    }
    import_context(importer, "main", NULL);
    base_status status = bind_inputs(importer, &scope, graph);
    if (status == BASE_OK) status = check_bindings(importer);
    if (status == BASE_OK) status = import_graph_content(importer, &scope, graph);
    import_context(importer, "main", NULL);
    return status == BASE_OK ? add_results(importer, &scope, graph) : status;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

enum { NEWEST_OPSET = 27 };

/* Operators of an opset that is newer than the newest known one are read as those of the newest: most never change. */
static void try_newer(import_state *importer, const import_opsets *opsets) {
    for (size_t i = 0; i < opsets->count; i++) {
        Onnx__OperatorSetIdProto *opset = opsets->items[i];
        if (*import_domain(opset->domain) != '\0' || opset->version <= NEWEST_OPSET) continue;
        if (opset->version > importer->newer) importer->newer = opset->version;
        opset->version = NEWEST_OPSET;
    }
}

static base_status check_model(import_state *importer) {
    Onnx__ModelProto *model = importer->model;
    base_report *report = importer->report;
    if (!model->graph) return base_fail(report, BASE_INVALID, "not an ONNX model: there is no graph in it");
    if (model->graph->n_output == 0) return base_fail(report, BASE_INVALID, "the graph has no outputs");
    importer->opsets = (import_opsets){model->n_opset_import, model->opset_import};
    if (model->n_opset_import == 0) {
        /* Before IR version 3 there was one opset, the first. */
        if (!model->has_ir_version || model->ir_version >= 3) {
            return base_fail(report, BASE_INVALID,
                             "the model has no opset_import, so its operators have no meaning");
        }
        Onnx__OperatorSetIdProto *first = BASE_NEW(&importer->arena, Onnx__OperatorSetIdProto);
        Onnx__OperatorSetIdProto **items = BASE_NEW(&importer->arena, Onnx__OperatorSetIdProto *);
        if (!first || !items) return base_fail_memory(report);
        onnx__operator_set_id_proto__init(first);
        first->version = 1;
        *items = first;
        importer->opsets = (import_opsets){1, items};
    }
    if (importer->opsets.count > IMPORT_OPSETS) {
        return base_fail(report, BASE_INVALID, "%zu opsets, at most %d are possible", importer->opsets.count,
                         IMPORT_OPSETS);
    }
    for (size_t i = 0; i < importer->opsets.count; i++) {
        const Onnx__OperatorSetIdProto *opset = importer->opsets.items[i];
        if (opset->version < 1 && *import_domain(opset->domain) == '\0') {
            return base_fail(report, BASE_INVALID,
                             "opset_import of domain \"%.80s\" has version %lld, at least 1 is wanted",
                             import_domain(opset->domain), (long long)opset->version);
        }
    }
    try_newer(importer, &importer->opsets);
    for (size_t i = 0; i < model->n_functions; i++) {
        const import_opsets own = {model->functions[i]->n_opset_import, model->functions[i]->opset_import};
        try_newer(importer, &own);
    }
    return BASE_OK;
}

static base_status check_dims(import_state *importer) {
    for (size_t i = 0; i < importer->dim_count; i++) {
        if (importer->dims[i].extent < 0) {
            return base_fail(importer->report, BASE_USAGE, "dimension %.80s cannot be %lld",
                             importer->dims[i].name, (long long)importer->dims[i].extent);
        }
    }
    return BASE_OK;
}

static base_status import_file(import_state *importer) {
    base_report *report = importer->report;
    importer->folder = import_folder(importer->path, &importer->arena);
    importer->dim_used = BASE_ARRAY(&importer->arena, bool, importer->dim_count);
    if (!importer->folder || !importer->dim_used) return base_fail_memory(report);
    base_status status = check_dims(importer);
    if (status != BASE_OK) return status;
    uint8_t *data;
    size_t size;
    status = import_file_read(importer->path, &importer->blocks, &data, &size, report);
    if (status != BASE_OK) return status;
    if (size == 0) return base_fail(report, BASE_INVALID, "not an ONNX model: the file is empty");
    ProtobufCMessage *message;
    status = import_unpack(&onnx__model_proto__descriptor, data, size, &importer->blocks, &message, report);
    if (status != BASE_OK) return status;
    /* The weights are in the message now: no second copy of them. */
    import_block_detach(&importer->blocks, data);
    import_block_release(data);
    importer->model = (Onnx__ModelProto *)message;
    status = check_model(importer);
    if (status == BASE_OK) status = collect_functions(importer);
    if (status == BASE_OK) status = import_check(importer);
    if (status != BASE_OK) return status;
    const char *slash = strrchr(importer->path, '/');
    importer->module = ir_module_new(importer->allocator, slash ? slash + 1 : importer->path);
    if (!importer->module) return base_fail_memory(report);
    if (importer->newer) {
        importer->module->warning = base_arena_format(
            &importer->module->arena,
            "the model is of opset %lld; its operators are taken as those of opset %d, the newest known",
            (long long)importer->newer, NEWEST_OPSET);
        if (!importer->module->warning) return base_fail_memory(report);
    }
    return import_main(importer);
}

base_status import_model(const char *path, const import_dim *dims, size_t dim_count,
                         const base_allocator *allocator, ir_module **module, base_report *report) {
    return import_model_with(path, &(import_options){.dims = dims, .dim_count = dim_count}, allocator, module,
                             report);
}

base_status import_model_with(const char *path, const import_options *options,
                              const base_allocator *allocator, ir_module **module, base_report *report) {
    import_state importer = {.path = path,
                             .report = report,
                             .allocator = allocator ? allocator : &base_allocator_heap,
                             .dims = options->dims,
                             .dim_count = options->dim_count,
                             .kept = options->kept,
                             .kept_count = options->kept_count,
                             .graphs = &import_graph_functions};
    base_watched_allocator watched;
    base_watch_allocator(&watched, importer.allocator);
    base_arena_init(&importer.arena, &watched.allocator);
    base_arena_init(&importer.scratch, &watched.allocator);
    import_blocks_init(&importer.blocks, importer.allocator);
    importer.functions.arena = importer.symbols.arena = importer.shared.arena = importer.overridden.arena =
        &importer.arena;
    import_context(&importer, NULL, NULL);
    base_status status = import_file(&importer);
    if (status != BASE_SYSTEM_ERROR &&
        (watched.failed || (importer.module && importer.module->memory.failed))) {
        base_report_clear(report);
        import_context(&importer, NULL, NULL);
        status = base_fail_memory(report);
    }
    if (status != BASE_OK) {
        ir_module_free(importer.module);
        importer.module = NULL;
    }
    import_blocks_free(&importer.blocks);
    base_arena_free(&importer.scratch);
    base_arena_free(&importer.arena);
    base_report_context(report, NULL);
    *module = importer.module;
    return status;
}

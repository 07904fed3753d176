/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: what must hold of a model as a whole, before anything is made of it: every operator is
 * known, functions do not call themselves, and inlining them does not blow up. All unknown operators are
 * reported together, with their nodes, so that a user sees at one go what is missing. */
#include "compiler/onnx/internal.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_NODES = 4 };

/* An operator that is not known, and some of its nodes. */
typedef struct unknown {
    const char *domain, *name;
    int64_t version;
    unsigned count;
    char names[4 * SHOWN_NODES + 48 * SHOWN_NODES];
    const char *path; /* of the first node */
    const Onnx__NodeProto *node;
    struct unknown *next;
} unknown;

typedef struct checker {
    import_state *importer;
    base_arena *arena;
    base_map reported; /* "domain\nname\nversion" to unknown */
    unknown *first, **end;
    unsigned unknown_count;
    unsigned depth; /* of this walk, which is recursive */
} checker;

/* What a list of nodes amounts to. */
typedef struct extent {
    uint64_t weight;
    unsigned height;
} extent;

static base_status check_nodes(checker *c, size_t count, Onnx__NodeProto **nodes, const import_opsets *opsets,
                               const char *path, extent *total);

/* A node counts one, one more for each attribute, and one for every 64 bytes of names: these are copied
 * wherever it is inlined. */
static uint64_t node_weight(const Onnx__NodeProto *node) {
    size_t bytes = node->name ? strlen(node->name) : 0;
    for (size_t i = 0; i < node->n_input; i++) bytes += strlen(node->input[i]);
    for (size_t i = 0; i < node->n_output; i++) bytes += strlen(node->output[i]);
    return 1 + node->n_attribute + bytes / 64;
}

static void extent_add(extent *total, extent part, unsigned levels) {
    total->weight += part.weight;
    if (total->weight > IMPORT_WEIGHT) total->weight = IMPORT_WEIGHT + 1;
    if (total->height < part.height + levels) total->height = part.height + levels;
}

static base_status check_function(checker *c, import_function *function, extent *result) {
    const char *name = function->proto->name ? function->proto->name : "";
    if (function->state == IMPORT_OPEN) {
        return base_fail(c->importer->report, BASE_INVALID, "function " IMPORT_NAME " calls itself", name);
    }
    if (function->state == IMPORT_UNSEEN) {
        function->state = IMPORT_OPEN;
        import_opsets opsets = {function->proto->n_opset_import, function->proto->opset_import};
        extent body = {0};
        const char *path = base_arena_format(c->arena, "function %.120s", name);
        if (!path) return base_fail_memory(c->importer->report);
        base_status status =
            check_nodes(c, function->proto->n_node, function->proto->node, &opsets, path, &body);
        if (status != BASE_OK) return status;
        function->weight = body.weight;
        function->height = body.height;
        function->state = IMPORT_DONE;
    }
    *result = (extent){function->weight, function->height};
    return BASE_OK;
}

/* An operator that no row has: kept with its nodes, which are reported together. */
static base_status note_unknown(checker *c, const Onnx__NodeProto *node, const char *path, const char *domain,
                                const char *name, int64_t version) {
    base_report *report = c->importer->report;
    char *key = base_arena_format(c->arena, "%s\n%s\n%lld", domain, name, (long long)version);
    if (!key) return base_fail_memory(report);
    unknown *known = base_map_get(&c->reported, key);
    if (!known) {
        known = BASE_NEW(c->arena, unknown);
        if (!known || !base_map_put(&c->reported, key, known)) return base_fail_memory(report);
        *known = (unknown){.domain = domain, .name = name, .version = version, .path = path, .node = node};
        *c->end = known;
        c->end = &known->next;
        c->unknown_count++;
    }
    const char *more = known->count == 0             ? ""
                       : known->count < SHOWN_NODES  ? ", "
                       : known->count == SHOWN_NODES ? ", ..."
                                                     : "";
    const size_t used = strlen(known->names);
    if (known->count < SHOWN_NODES)
        snprintf(known->names + used, sizeof known->names - used, "%s\"%.40s\"", more, import_label(node));
    else snprintf(known->names + used, sizeof known->names - used, "%s", more);
    known->count++;
    return BASE_OK;
}

/* All of them, in one message where there are several. */
static base_status report_unknown(checker *c) {
    base_report *report = c->importer->report;
    if (c->unknown_count == 0) return BASE_OK;
    const unknown *first = c->first;
    if (c->unknown_count == 1) {
        import_context(c->importer, first->path, first->node);
        if (first->version == 0)
            return base_fail(
                report, BASE_INVALID,
                "operator %.80s of domain \"%.80s\", whose version the model's opset_import lacks",
                first->name, first->domain);
        return base_fail_unsupported(
            report,
            "operator %.80s of domain \"%.80s\" opset %lld is not supported%s%s; ouro ops lists what is",
            first->name, first->domain, (long long)first->version, first->count > 1 ? ", also at " : "",
            first->count > 1 ? strchr(first->names, ',') + 2 : "");
    }
    char list[BASE_REPORT_TEXT / 2] = "";
    for (const unknown *each = first; each; each = each->next) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%.80s", used ? "; " : "", each->name);
        const size_t after = strlen(list);
        if (*each->domain) snprintf(list + after, sizeof list - after, " of %.80s", each->domain);
        const size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s (%u: %s)",
                 each->version ? "" : ", whose opset is not imported", each->count, each->names);
    }
    import_context(c->importer, NULL, NULL);
    return base_fail_unsupported(report, "%u operators are not supported: %s; ouro ops lists what is",
                                 c->unknown_count, list);
}

static base_status check_graphs_of(checker *c, const Onnx__NodeProto *node, const import_opsets *opsets,
                                   const char *path, extent *total) {
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = node->attribute[i];
        size_t count = attribute->n_graphs + (attribute->g != NULL);
        for (size_t k = 0; k < count; k++) {
            const Onnx__GraphProto *graph = k < attribute->n_graphs ? attribute->graphs[k] : attribute->g;
            const char *name = attribute->name ? attribute->name : "";
            char *inner = base_arena_format(c->arena, "%s/%.*s/%.*s", path, IMPORT_LABEL, import_label(node),
                                            IMPORT_LABEL, name);
            if (!inner) return base_fail_memory(c->importer->report);
            extent part = {.weight = graph->n_input + graph->n_initializer};
            base_status status = check_nodes(c, graph->n_node, graph->node, opsets, inner, &part);
            if (status != BASE_OK) return status;
            extent_add(total, part, 1);
        }
    }
    return BASE_OK;
}

static base_status check_node(checker *c, const Onnx__NodeProto *node, const import_opsets *opsets,
                              const char *path, extent *total) {
    const char *domain = import_domain(node->domain), *name = node->op_type ? node->op_type : "";
    extent own = {node_weight(node), 0};
    base_status status = BASE_OK;
    import_context(c->importer, path, node);
    if (!*name) return base_fail(c->importer->report, BASE_INVALID, "has no operator (op_type)");
    import_function *function = import_function_find(c->importer, domain, name);
    if (function) {
        status = check_function(c, function, &own);
        own.height++;
    } else {
        int64_t version = import_opset(opsets, domain);
        import_row row;
        if (!import_row_find(domain, name, version, &row))
            status = note_unknown(c, node, path, domain, name, version);
    }
    if (status != BASE_OK) return status;
    extent_add(total, own, 0);
    return check_graphs_of(c, node, opsets, path, total);
}

static base_status check_nodes(checker *c, size_t count, Onnx__NodeProto **nodes, const import_opsets *opsets,
                               const char *path, extent *total) {
    base_status status = BASE_OK;
    /* The depth of this walk bounds the stack; the height adds what was walked before. */
    bool deep = ++c->depth > IMPORT_NESTING;
    for (size_t i = 0; i < count && status == BASE_OK && !deep; i++) {
        status = check_node(c, nodes[i], opsets, path, total);
    }
    c->depth--;
    if (status != BASE_OK || (!deep && total->height <= IMPORT_NESTING)) return status;
    import_context(c->importer, path, NULL);
    return base_fail(c->importer->report, BASE_INVALID,
                     "graphs and function calls are nested more than %d deep", IMPORT_NESTING);
}

base_status import_check(import_state *importer) {
    checker c = {.importer = importer, .arena = &importer->arena, .reported.arena = &importer->arena};
    c.end = &c.first;
    const Onnx__GraphProto *graph = importer->model->graph;
    extent total = {0};
    base_status status = check_nodes(&c, graph->n_node, graph->node, &importer->opsets, "main", &total);
    if (status != BASE_OK) return status;
    import_context(importer, NULL, NULL);
    if (total.weight > IMPORT_WEIGHT) {
        return base_fail(importer->report, BASE_INVALID, "more than %d nodes once its functions are inlined",
                         IMPORT_WEIGHT);
    }
    return report_unknown(&c);
}

/* An earlier row of the table is of the same operator. */
static bool listed_before(const import_row *rows, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (strcmp(rows[i].name, rows[index].name) == 0 && strcmp(rows[i].domain, rows[index].domain) == 0)
            return true;
    return false;
}

const char *import_composed_operator(size_t index, const char **domain, int *since) {
    const import_row *rows;
    size_t count;
    for (size_t t = 0; (rows = import_rows(t, &count)); t++) {
        for (size_t i = 0; i < count; i++) {
            if (op_code_from_name(rows[i].domain, rows[i].name) != OP_CODE_NONE || listed_before(rows, i))
                continue;
            if (index-- > 0) continue;
            *domain = rows[i].domain;
            *since = rows[i].from;
            return rows[i].name;
        }
    }
    return NULL;
}

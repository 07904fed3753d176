/* SPDX-License-Identifier: Apache-2.0 */
/* names.c: what names mean: domains, opsets, functions, values; how messages call nodes. */
#include "compiler/onnx/base/importer.h"

#include <stdio.h>
#include <string.h>

const char *import_domain(const char *domain) {
    return domain && strcmp(domain, "ai.onnx") != 0 ? domain : "";
}

int64_t import_opset(const import_opsets *opsets, const char *domain) {
    for (size_t i = 0; i < opsets->count; i++) {
        if (strcmp(import_domain(opsets->items[i]->domain), domain) == 0) {
            return opsets->items[i]->version > 0 ? opsets->items[i]->version : 0;
        }
    }
    return 0;
}

const char *import_label(const Onnx__NodeProto *node) {
    if (node->name && node->name[0]) return node->name;
    for (size_t i = 0; i < node->n_output; i++) {
        if (node->output[i][0]) return node->output[i];
    }
    return "";
}

void import_context(const import_state *importer, const char *path, const Onnx__NodeProto *node) {
    if (!path) {
        base_report_context(importer->report, "%s", importer->path);
    } else if (!node) {
        base_report_context(importer->report, "%s: %s", importer->path, path);
    } else {
        bool named = node->name && node->name[0];
        base_report_context(importer->report, "%s: %s: node %s" IMPORT_NAME " (%.80s)", importer->path, path,
                            named ? "" : "making ", import_label(node), node->op_type ? node->op_type : "?");
    }
}

import_function *import_function_find(const import_state *importer, const char *domain, const char *name) {
    char key[512];
    if (importer->functions.count == 0) return NULL;
    int length = snprintf(key, sizeof key, "%s\n%s", domain, name);
    return length > 0 && (size_t)length < sizeof key ? base_map_get(&importer->functions, key) : NULL;
}

/* ---- the names of a graph ------------------------------------------------------------------------------ */

bool import_scope_init(import_state *importer, import_scope *scope, const import_scope *outer,
                       const import_frame *frame, ir_graph *graph, const char *path) {
    *scope = (import_scope){.outer = outer, .frame = frame, .graph = graph, .path = path};
    scope->bindings.arena = scope->used.arena = &importer->arena;
    return path != NULL;
}

base_status import_bind(import_state *importer, import_scope *scope, const char *name, ir_value *value,
                        const char *origin) {
    if (!*name) return base_fail(importer->report, BASE_INVALID, "%s has no name", origin);
    const import_binding *earlier = base_map_get(&scope->bindings, name);
    if (earlier) {
        return base_fail(importer->report, BASE_INVALID,
                         "value " IMPORT_NAME " is defined twice: as %s and as %s", name, earlier->origin,
                         origin);
    }
    import_binding *binding = BASE_NEW(&importer->arena, import_binding);
    if (!binding) return base_fail_memory(importer->report);
    *binding = (import_binding){value, origin};
    return base_map_put(&scope->bindings, name, binding) ? BASE_OK : base_fail_memory(importer->report);
}

const import_binding *import_find(const import_scope *scope, const char *name) {
    for (; scope; scope = scope->outer) {
        const import_binding *binding = base_map_get(&scope->bindings, name);
        if (binding) return binding;
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h: what the files that read a model share: model.c calls check.c, then graph.c. */
#ifndef OURO_IMPORT_INTERNAL_H
#define OURO_IMPORT_INTERNAL_H

#include "compiler/onnx/convert/convert.h"
#include "compiler/onnx/import.h"

/* ---- checks (check.c) ------------------------------------------------------------------------------------ */

/* Every operator has a row, every domain an opset, functions do not call themselves, and what becomes of the
 * model when they are inlined has bounds. Unknown operators are reported each once, all of them. */
base_status import_check(import_state *importer);

/* ---- graphs (graph.c) ------------------------------------------------------------------------------------ */

/* Initializers and nodes of a graph whose parameters are bound; then checks that its results are. */
base_status import_graph_content(import_state *importer, import_scope *scope, const Onnx__GraphProto *graph);

/* This and the import of sub-graphs, for converters. */
extern const import_graphs import_graph_functions;

#endif

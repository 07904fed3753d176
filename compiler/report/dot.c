/* SPDX-License-Identifier: Apache-2.0 */
/* dot.c: a picture of the compiled graph, in the language of Graphviz; .svg and .png are drawn by drawing.c.
 *
 * A node is a box: operator, name, key attributes, kernel; a line for its constants, one for each output: where its bytes
 * lie. It is coloured by family. A dashed outline without colour is an alias: nothing runs. An edge has the type and the shape
 * of the tensor. A sub-graph is a box with its parameters above and its results below. What is carried around a loop goes
 * back by a dashed edge, labelled "parameter <= replacement". A tensor whose address changes with the iterations has a line for each
 * address: the iterations in which it lies there. The branches of an If stand side by side. A legend says all this.
 *
 * Of a large graph, blocks of nodes that stand there several times in a row are drawn once, in a box that says how often (repeats.h). Where
 * still many boxes remain, nodes whose names begin alike are one (groups.h).
 *
 * Drawn from the plan alone. Names come from models: they are cut to a readable length and escaped, whatever
 * is in them; the whole name is the tooltip. Large graphs get straight edges and a cheaper layout, see
 * layout_effort.
 */
#include "compiler/files/files.h"
#include "compiler/report/report.h"
#include "compiler/report/dot.h"
#include "compiler/report/emit.h"
#include "compiler/report/family.h"
#include "compiler/report/loop.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CARRIED_CHARACTERS = 18, /* of a name beside a carried edge */
    LARGE_GRAPH_EDGES = 700,
    LARGE_GRAPH_NODES = 60, /* with more, blocks that repeat are drawn once */
    MOST_BOXES = 150,       /* of a graph: of more, nodes with a common name are one */
    GROUPED_BOXES = 60      /* and then so many remain: what is left is an overview */
};

static void indent(dot_writer *writer) {
    for (unsigned i = 0; i < writer->depth; i++) emit_text(writer->out, "  ");
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static void emit_tooltip(dot_writer *writer, const char *what, const char *name) {
    emit_text(writer->out, " tooltip=");
    /* emit_dot_text writes a whole string, so the two parts are put together first. */
    size_t length = strlen(what) + strlen(name) + 2;
    char *text = malloc(length);
    if (!text) {
        writer->out->failed = true;
        return;
    }
    snprintf(text, length, "%s %s", what, name);
    emit_dot_text(writer->out, text);
    free(text);
}

static void emit_node(dot_writer *writer, uint32_t index) {
    const plan_node *node = &writer->of->nodes[index];
    const char *operator_name = emit_dot_text_of(writer, node->operator_name),
               *name = emit_dot_text_of(writer, node->name);
    const char *kernel = emit_dot_text_of(writer, node->kernel);
    const emit_family *family =
        emit_family_of(emit_dot_text_of(writer, node->operator_domain), operator_name);
    bool view = node->flags & PLAN_NODE_ALIAS;
    char scratch[32];
    indent(writer);
    emit_format(writer->out, "n%u [", index);
    if (view)
        emit_format(writer->out, "style=\"rounded,dashed\" color=\"%s\" fontcolor=\"#444444\"", family->line);
    else
        emit_format(writer->out, "style=\"rounded,filled\" fillcolor=\"%s\" color=\"%s\"", family->fill,
                    family->line);
    if (node->graph_count) emit_text(writer->out, " penwidth=2");
    emit_tooltip(writer, operator_name, name);
    emit_text(writer->out, " label=<");
    emit_dot_title(writer, node);
    if (view) emit_text(writer->out, " (alias)");
    if (node->flags & PLAN_NODE_DYNAMIC) emit_text(writer->out, " (dynamic)");
    if (name[0]) {
        const bool within =
            writer->prefix_length && strncmp(name, writer->prefix, writer->prefix_length) == 0;
        emit_text(writer->out, "<BR/>");
        emit_dot_cut(writer->out, within ? name + writer->prefix_length : name, DOT_NAME_CHARACTERS);
    }
    emit_dot_attributes(writer, node);
    if (kernel[0]) {
        emit_text(writer->out, "<BR/><I>");
        emit_xml(writer->out, kernel);
        emit_text(writer->out, "</I>");
        if (node->scratch_bytes) {
            emit_format(writer->out, " + scratch %s",
                        emit_size_print((size_t)node->scratch_bytes, scratch, sizeof scratch));
        }
    }
    emit_dot_constants(writer, node);
    if (!node->graph_count) emit_dot_outputs(writer, node);
    emit_text(writer->out, ">]\n");
}

/* Of a group the first stands for all. */
static void emit_node_or_group(dot_writer *writer, uint32_t index) {
    if (writer->groups.count[index] > 1) emit_dot_group(writer, index);
    else if (writer->groups.count[index] == 1) emit_node(writer, index);
}

/* Where a control node hands its outputs on: below its sub-graphs. */
static void emit_exit(dot_writer *writer, uint32_t index) {
    const plan_node *node = &writer->of->nodes[index];
    const char *operator_name = emit_dot_text_of(writer, node->operator_name);
    const emit_family *family =
        emit_family_of(emit_dot_text_of(writer, node->operator_domain), operator_name);
    indent(writer);
    emit_format(writer->out, "x%u [style=\"rounded,filled\" fillcolor=\"%s\" color=\"%s\" penwidth=2", index,
                family->fill, family->line);
    emit_tooltip(writer, operator_name, emit_dot_text_of(writer, node->name));
    emit_text(writer->out, " label=<end of <B>");
    emit_xml(writer->out, operator_name);
    emit_text(writer->out, "</B>");
    emit_dot_outputs(writer, node);
    emit_text(writer->out, ">]\n");
}

/* Of an input or output that stands for others, too. */
static void emit_times(dot_writer *writer, uint32_t id) {
    if (writer->folding.times[id] > 1)
        emit_format(writer->out, "<BR/><B>\xC3\x97%u</B>, one a block", writer->folding.times[id]);
}

/* The state that an input of the model is; NULL: it is none. */
static const plan_state *state_of(const dot_writer *writer, uint32_t parameter) {
    for (uint64_t i = 0; i < writer->of->header->states.count; i++)
        if (writer->of->states[i].parameter == parameter) return &writer->of->states[i];
    return NULL;
}

static void emit_parameter(dot_writer *writer, uint32_t graph, uint64_t number, const char *role) {
    uint32_t id = writer->of->tensor_ids[writer->of->graphs[graph].parameters + number];
    const plan_tensor *tensor = &writer->of->tensors[id];
    const plan_state *state = state_of(writer, id);
    char size[32];
    const char *name = emit_dot_text_of(writer, state ? state->input : tensor->name);
    if (state) role = "state";
    indent(writer);
    emit_format(writer->out,
                "p%u_%" PRIu64 " [shape=box style=\"filled\" fillcolor=\"white\" color=\"#3c6e3c\"", graph,
                number);
    emit_tooltip(writer, role, name);
    emit_format(writer->out, " label=<%s <B>", role);
    emit_dot_cut(writer->out, name, DOT_NAME_CHARACTERS);
    emit_text(writer->out, "</B><BR/>");
    emit_dot_type(writer, tensor);
    emit_text(writer->out, "<BR/><FONT COLOR=\"#333388\">");
    if (state) emit_text(writer->out, "kept from run to run ");
    if (state && state->bytes)
        emit_format(writer->out, "@%" PRIu64 " + %s", state->offset,
                    emit_size_print((size_t)state->bytes, size, sizeof size));
    else emit_dot_address(writer, tensor);
    emit_text(writer->out, "</FONT>");
    emit_times(writer, id);
    emit_text(writer->out, ">]\n");
}

static void emit_result(dot_writer *writer, uint32_t graph, uint64_t number, const char *role,
                        const char *name) {
    uint32_t id = writer->of->tensor_ids[writer->of->graphs[graph].results + number];
    indent(writer);
    emit_format(writer->out,
                "r%u_%" PRIu64 " [shape=box style=\"filled\" fillcolor=\"white\" color=\"#8a3c3c\"", graph,
                number);
    emit_tooltip(writer, role, name);
    emit_format(writer->out, " label=<%s <B>", role);
    emit_dot_cut(writer->out, name, DOT_NAME_CHARACTERS);
    emit_text(writer->out, "</B>");
    if (id != PLAN_ABSENT) {
        emit_text(writer->out, "<BR/>");
        emit_dot_type(writer, &writer->of->tensors[id]);
        emit_times(writer, id);
    }
    emit_text(writer->out, ">]\n");
}

/* ---- edges --------------------------------------------------------------------------------------------- */

/* The node whose box stands for a node: that of the first block of a repeat, and there of its group. */
static uint32_t shown_as(const dot_writer *writer, uint32_t node) {
    return writer->groups.first[writer->folding.drawn[node]];
}

/* Starts an edge from what makes `tensor id`; false where that is a constant (constants are notes in the boxes).
 */
static bool begin_edge(dot_writer *writer, uint32_t id) {
    if (id == PLAN_ABSENT) return false;
    const dot_source *source = &writer->sources[id];
    if (source->kind == SOURCE_NONE) return false;
    const uint32_t drawn = source->kind == SOURCE_NODE ? shown_as(writer, source->index) : 0;
    indent(writer);
    if (source->kind == SOURCE_PARAMETER)
        emit_format(writer->out, "p%u_%u -> ", source->index, source->number);
    else emit_format(writer->out, "%c%u -> ", writer->of->nodes[drawn].graph_count ? 'x' : 'n', drawn);
    return true;
}

static void end_edge(dot_writer *writer, uint32_t id, const char *attributes) {
    const plan_tensor *tensor = &writer->of->tensors[id];
    emit_text(writer->out, " [");
    /* A parameter's box holds its type already. */
    if (writer->sources[id].kind != SOURCE_PARAMETER) {
        emit_text(writer->out, "label=<");
        emit_dot_type(writer, tensor);
        emit_text(writer->out, "> ");
    }
    emit_text(writer->out, "edgetooltip=");
    emit_dot_text(writer->out, emit_dot_text_of(writer, tensor->name));
    emit_format(writer->out, "%s]\n", attributes);
}

/* What a loop comes to, above its box; nothing for other control nodes. */
static void emit_control_label(dot_writer *writer, uint32_t index, bool loop) {
    emit_loop numbers;
    char iteration[32], entry[32];
    if (!loop) {
        emit_text(writer->out, "\"\"\n");
        return;
    }
    if (!emit_loop_measure(writer->of, index, &numbers)) {
        writer->out->failed = true;
        return;
    }
    emit_format(writer->out,
                "<<B>unroll %" PRIu64 "</B>, %" PRIu64 " multi-view tensor%s, carried values in %" PRIu64
                " buffer%s<BR ALIGN=\"LEFT\"/>copied: %s an iteration, %s an entry<BR ALIGN=\"LEFT\"/>>\n",
                numbers.unroll, numbers.multiview, numbers.multiview == 1 ? "" : "s", numbers.places,
                numbers.places == 1 ? "" : "s",
                emit_size_print((size_t)numbers.iteration_bytes, iteration, sizeof iteration),
                emit_size_print((size_t)numbers.entry_bytes, entry, sizeof entry));
}

static const char *tensor_name(const dot_writer *writer, uint32_t id) {
    return id == PLAN_ABSENT ? "" : emit_dot_text_of(writer, writer->of->tensors[id].name);
}

static void emit_graph(dot_writer *writer, uint32_t index);

/* A control node: its box, its sub-graphs in boxes, and the box where it ends. */
static void emit_control(dot_writer *writer, uint32_t index) {
    const plan *of = writer->of;
    const plan_node *node = &of->nodes[index];
    bool loop = strcmp(emit_dot_text_of(writer, node->operator_name), "Loop") == 0;
    indent(writer);
    emit_format(writer->out, "subgraph cluster_c%u {\n", index);
    writer->depth++;
    indent(writer);
    emit_text(
        writer->out,
        "style=\"rounded,filled\" fillcolor=\"#fff8f5\" color=\"#b04a2f\" fontsize=10 labeljust=l label=");
    emit_control_label(writer, index, loop);
    emit_node(writer, index);
    emit_exit(writer, index);
    for (uint32_t g = node->first_graph; g < node->first_graph + node->graph_count; g++) {
        const plan_graph *graph = &of->graphs[g];
        char size[32];
        indent(writer);
        emit_format(writer->out, "subgraph cluster_g%u {\n", g);
        writer->depth++;
        indent(writer);
        emit_text(writer->out,
                  "style=\"rounded,filled\" fillcolor=\"white\" color=\"#999999\" labeljust=l label=<<B>");
        emit_text(writer->out, loop ? "body" : g == node->first_graph ? "then" : "else");
        emit_text(writer->out, "</B> ");
        emit_dot_cut(writer->out, emit_dot_text_of(writer, graph->name), DOT_NAME_CHARACTERS);
        emit_format(writer->out, ", buffer %s>\n",
                    emit_size_print((size_t)graph->region_bytes, size, sizeof size));
        emit_graph(writer, g);
        writer->depth--;
        indent(writer);
        emit_text(writer->out, "}\n");
    }
    writer->depth--;
    indent(writer);
    emit_text(writer->out, "}\n");
}

/* A block that stands several times in a row: its first nodes, in a box that says how often. */
static void emit_block(dot_writer *writer, const emit_repeat *repeat) {
    const char *name = emit_dot_text_of(writer, writer->of->nodes[repeat->first].name);
    writer->prefix_length = emit_fold_prefix(writer->of, repeat);
    for (uint32_t n = repeat->first; !name[0] && n < repeat->first + repeat->period; n++)
        name = emit_dot_text_of(writer, writer->of->nodes[n].name);
    writer->prefix = name;
    indent(writer);
    emit_format(writer->out, "subgraph cluster_b%u {\n", repeat->first);
    writer->depth++;
    indent(writer);
    emit_format(writer->out,
                "style=\"rounded,filled\" fillcolor=\"#f3f3fa\" color=\"#333388\" penwidth=2 labeljust=l "
                "label=<<FONT "
                "POINT-SIZE=\"18\"><B>\xC3\x97%u</B></FONT>  %u node%s a block",
                repeat->count, repeat->period, repeat->period == 1 ? "" : "s");
    if (writer->prefix_length) {
        char prefix[DOT_NAME_CHARACTERS + 1];
        snprintf(prefix, sizeof prefix, "%.*s", (int)writer->prefix_length, name);
        emit_text(writer->out, "<BR ALIGN=\"LEFT\"/>the first: ");
        emit_xml(writer->out, prefix);
    }
    emit_text(writer->out, "<BR ALIGN=\"LEFT\"/>>\n");
    for (uint32_t n = repeat->first; n < repeat->first + repeat->period; n++) emit_node_or_group(writer, n);
    writer->depth--;
    writer->prefix_length = 0;
    indent(writer);
    emit_text(writer->out, "}\n");
}

static bool is_left_out(const dot_writer *writer, uint32_t id) {
    return id != PLAN_ABSENT && writer->folding.times[id] == 0;
}

/* What a result of the main graph is: an output of the model, which has a name of its own, or a state. */
static const char *name_output(const dot_writer *writer, uint64_t number, uint32_t id, const char **name) {
    const plan *of = writer->of;
    for (uint64_t i = 0; i < of->header->states.count; i++)
        if (id != PLAN_ABSENT && of->states[i].result == id) {
            *name = emit_dot_text_of(writer, of->states[i].output);
            return "state";
        }
    for (uint64_t i = 0; i < of->header->outputs.count; i++) {
        if (of->outputs[i].tensor != id) continue;
        *name = emit_dot_text_of(writer, of->outputs[i].name);
        if (i == number) break; /* of several with this tensor */
    }
    return "output";
}

/* The boxes of one graph, those of its sub-graphs within. */
static void emit_graph(dot_writer *writer, uint32_t index) {
    const plan *of = writer->of;
    const plan_graph *graph = &of->graphs[index];
    const plan_node *owner = graph->owner == PLAN_ABSENT ? NULL : &of->nodes[graph->owner];
    bool body = owner && strcmp(emit_dot_text_of(writer, owner->operator_name), "Loop") == 0;
    for (uint64_t i = 0; i < graph->parameter_count; i++) {
        if (is_left_out(writer, of->tensor_ids[graph->parameters + i])) continue;
        emit_parameter(writer, index, i,
                       !body    ? "input"
                       : i == 0 ? "iteration"
                       : i == 1 ? "condition"
                                : "parameter");
    }
    for (uint64_t i = 0; i < graph->result_count; i++) {
        uint32_t id = of->tensor_ids[graph->results + i];
        if (is_left_out(writer, id)) continue;
        const char *role = body && i == 0 ? "condition" : "result", *name = tensor_name(writer, id);
        if (!owner) role = name_output(writer, i, id, &name);
        emit_result(writer, index, i, role, name);
    }
    for (uint64_t i = graph->nodes; i < graph->nodes + graph->node_count; i++) {
        const emit_repeat *repeat = emit_fold_find(&writer->folding, (uint32_t)i);
        if (repeat) {
            emit_block(writer, repeat);
            i = repeat->first + (uint64_t)repeat->period * repeat->count - 1;
        } else if (of->nodes[i].graph_count) emit_control(writer, (uint32_t)i);
        else emit_node_or_group(writer, (uint32_t)i);
    }
}

/* How the edge to input `k` of a node is drawn: "" as usual; attributes, where it goes from one block to the next; NULL: not at all,
 * as that of the first block stands for it. */
static const char *edge_way(const dot_writer *writer, uint32_t node, uint64_t k) {
    const plan *of = writer->of;
    const emit_folding *folding = &writer->folding;
    const uint32_t id = of->tensor_ids[of->nodes[node].inputs + k];
    if (id == PLAN_ABSENT || writer->sources[id].kind != SOURCE_NODE)
        return folding->drawn[node] == node ? "" : NULL;
    const uint32_t source = writer->sources[id].index;
    if (folding->drawn[node] == node) {
        /* One of several inputs that the blocks make alike. */
        for (uint64_t i = 0; i < k && folding->drawn[source] != source; i++) {
            const uint32_t other = of->tensor_ids[of->nodes[node].inputs + i];
            if (other != PLAN_ABSENT && writer->sources[other].kind == SOURCE_NODE &&
                folding->drawn[writer->sources[other].index] == folding->drawn[source])
                return NULL;
        }
        return "";
    }
    const emit_repeat *repeat = emit_fold_find(folding, folding->drawn[node]);
    const bool second = node - folding->drawn[node] == repeat->period;
    return second && source >= repeat->first && source < repeat->first + repeat->period
               ? " style=dashed color=\"#333388\" constraint=false"
               : NULL;
}

/* Edges from or to a group are drawn together, after the others: one for all tensors from one box to another. Returns false for other edges;
 * those within a group are not drawn at all. */
static bool defer_edge(dot_writer *writer, uint32_t id, uint32_t node, const char *way) {
    const dot_source *source = id == PLAN_ABSENT ? NULL : &writer->sources[id];
    if (!source || source->kind == SOURCE_NONE) return true;
    const uint32_t to = shown_as(writer, node);
    const bool from_node = source->kind == SOURCE_NODE;
    const uint32_t from = from_node ? shown_as(writer, source->index) : source->index;
    const bool grouped = writer->groups.count[to] > 1 || (from_node && writer->groups.count[from] > 1);
    if (!grouped) return false;
    if (from_node && from == to && !way[0]) return true;
    if (writer->edge_count == writer->edge_capacity) {
        const size_t capacity = writer->edge_capacity ? 2 * writer->edge_capacity : 64;
        dot_edge *larger = realloc(writer->edges, capacity * sizeof *larger);
        if (!larger) {
            writer->out->failed = true;
            return true;
        }
        writer->edges = larger;
        writer->edge_capacity = capacity;
    }
    const uint64_t key = from_node ? from : UINT64_C(1) << 63 | (uint64_t)from << 32 | source->number;
    writer->edges[writer->edge_count++] = (dot_edge){key, to, id, way[0] != 0, way};
    return true;
}

static int by_ends(const void *a, const void *b) {
    const dot_edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    if (x->styled != y->styled) return x->styled < y->styled ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void emit_deferred(dot_writer *writer) {
    if (writer->edge_count) qsort(writer->edges, writer->edge_count, sizeof *writer->edges, by_ends);
    for (size_t i = 0, next; i < writer->edge_count; i = next) {
        const dot_edge *edge = &writer->edges[i];
        size_t tensors = 1;
        for (next = i + 1; next < writer->edge_count; next++) {
            const dot_edge *other = &writer->edges[next];
            if (other->from != edge->from || other->to != edge->to || other->styled != edge->styled) break;
            tensors += other->id != other[-1].id;
        }
        if (!begin_edge(writer, edge->id)) continue;
        emit_format(writer->out, "n%u", edge->to);
        if (tensors == 1) end_edge(writer, edge->id, edge->way);
        else emit_format(writer->out, " [label=\"%zu tensors\"%s]\n", tensors, edge->way);
    }
    writer->edge_count = 0;
}

/* From a result to what it is in the next iteration, or run. */
static void emit_carried(dot_writer *writer, uint32_t index, uint64_t result, uint64_t parameter) {
    const plan_graph *graph = &writer->of->graphs[index];
    indent(writer);
    emit_format(writer->out,
                "r%u_%" PRIu64 " -> p%u_%" PRIu64
                " [style=dashed color=\"#b04a2f\" fontcolor=\"#b04a2f\" constraint=false label=<",
                index, result, index, parameter);
    emit_dot_cut(writer->out, tensor_name(writer, writer->of->tensor_ids[graph->parameters + parameter]),
                 CARRIED_CHARACTERS);
    emit_text(writer->out, " &lt;= ");
    emit_dot_cut(writer->out, tensor_name(writer, writer->of->tensor_ids[graph->results + result]),
                 CARRIED_CHARACTERS);
    emit_text(writer->out, "> edgetooltip=\"carried\"]\n");
}

/* The loop around the model: outputs that are inputs of the next run. */
static void emit_states(dot_writer *writer, const plan_graph *main) {
    const uint32_t *ids = writer->of->tensor_ids;
    for (uint64_t p = 0; p < main->parameter_count; p++) {
        const plan_state *state = state_of(writer, ids[main->parameters + p]);
        if (!state || is_left_out(writer, state->parameter) || is_left_out(writer, state->result)) continue;
        uint64_t r = 0;
        while (r < main->result_count && ids[main->results + r] != state->result) r++;
        if (r < main->result_count) emit_carried(writer, 0, r, p);
    }
}

/* The edges of one graph. All stand outside of the boxes of sub-graphs: naming a node within one would move
 * it there. */
static void emit_edges(dot_writer *writer, uint32_t index) {
    const plan *of = writer->of;
    const plan_graph *graph = &of->graphs[index];
    const plan_node *owner = graph->owner == PLAN_ABSENT ? NULL : &of->nodes[graph->owner];
    bool body = owner && strcmp(emit_dot_text_of(writer, owner->operator_name), "Loop") == 0;
    for (uint64_t i = graph->nodes; i < graph->nodes + graph->node_count; i++) {
        const plan_node *node = &of->nodes[i];
        for (uint64_t k = 0; k < node->input_count; k++) {
            const char *way = edge_way(writer, (uint32_t)i, k);
            uint32_t id = of->tensor_ids[node->inputs + k];
            if (!way || defer_edge(writer, id, (uint32_t)i, way) || !begin_edge(writer, id)) continue;
            emit_format(writer->out, "n%u", shown_as(writer, (uint32_t)i));
            end_edge(writer, id, way);
        }
    }
    emit_deferred(writer);
    for (uint64_t i = 0; i < graph->result_count; i++) {
        uint32_t id = of->tensor_ids[graph->results + i];
        if (is_left_out(writer, id)) continue;
        if (!begin_edge(writer, id)) continue;
        emit_format(writer->out, "r%u_%" PRIu64, index, i);
        end_edge(writer, id, "");
    }
    if (!owner) {
        emit_states(writer, graph);
        return;
    }
    /* From where the control node begins to its sub-graph, and from there to where it ends. */
    for (uint64_t i = 0; i < graph->parameter_count; i++) {
        indent(writer);
        emit_format(writer->out, "n%u -> p%u_%" PRIu64 " [style=dotted arrowhead=none]\n", graph->owner,
                    index, i);
    }
    if (!graph->parameter_count && graph->node_count) {
        indent(writer);
        emit_format(writer->out, "n%u -> n%u [style=dotted label=\"%s\"]\n", graph->owner,
                    shown_as(writer, (uint32_t)graph->nodes), index == owner->first_graph ? "true" : "false");
    }
    for (uint64_t i = 0; i < graph->result_count; i++) {
        indent(writer);
        emit_format(writer->out, "r%u_%" PRIu64 " -> x%u [style=dotted arrowhead=none]\n", index, i,
                    graph->owner);
    }
    if (!body) return;
    /* Carried around: result 1 + i becomes parameter 2 + i, the condition (result 0) parameter 1. */
    for (uint64_t i = 0; i <= emit_loop_carried(of, owner); i++) {
        /* A condition that stays as it is tells nothing. */
        if (i == 0 && of->tensor_ids[graph->results] == of->tensor_ids[graph->parameters + 1]) continue;
        emit_carried(writer, index, i, i + 1);
    }
}

/* ---- the legend ---------------------------------------------------------------------------------------- */

/* Colours of the families that occur; what lines mean; how tables are read, where there are any. */
static void emit_legend(dot_writer *writer) {
    const plan *of = writer->of;
    bool used[OP_FAMILY_COUNT] = {false}, views = false, control = false;
    for (uint64_t i = 0; i < of->header->nodes.count; i++) {
        const plan_node *node = &of->nodes[i];
        views |= (node->flags & PLAN_NODE_ALIAS) != 0;
        control |= node->graph_count != 0;
        if (!(node->flags & PLAN_NODE_ALIAS))
            used[emit_family_of(emit_dot_text_of(writer, node->operator_domain),
                                emit_dot_text_of(writer, node->operator_name)) -
                 emit_families] = true;
    }
    emit_text(writer->out, "<TR><TD><TABLE BORDER=\"0\" CELLBORDER=\"0\" CELLSPACING=\"3\"><TR>");
    for (size_t i = 0; i < OP_FAMILY_COUNT; i++) {
        if (used[i])
            emit_format(writer->out, "<TD BGCOLOR=\"%s\">%s</TD>", emit_families[i].fill,
                        emit_families[i].name);
    }
    emit_format(writer->out, "<TD>%s</TD></TR></TABLE></TD></TR>",
                views ? "dashed: an alias, nothing runs" : "");
    if (writer->folding.repeat_count)
        emit_text(
            writer->out,
            "<TR><TD><FONT COLOR=\"#333388\">\xC3\x97N: a block that stands N times in a row, drawn once; "
            "addresses are those of the first; dashed edges go to the next</FONT></TD></TR>");
    if (writer->groups.groups)
        emit_text(writer->out,
                  "<TR><TD>double border: nodes whose names begin alike, as one box; --dot-nodes N draws up "
                  "to N boxes of a graph</TD></TR>");
    if (control || of->header->states.count)
        emit_text(writer->out, "<TR><TD><FONT COLOR=\"#b04a2f\">x &lt;= y, dashed: in the next iteration of "
                               "the loop, or run of the model, x is "
                               "what y is in this one</FONT></TD></TR>");
    if (of->header->multiviews.count)
        emit_text(
            writer->out,
            "<TR><TD><FONT COLOR=\"#333388\">t = 1, 3, ...: the address in these iterations of the loop; "
            "single numbers before are its first iterations</FONT></TD></TR>");
}

/* ---- the whole picture --------------------------------------------------------------------------------- */

static base_status find_sources(dot_writer *writer, base_arena *arena, base_report *report) {
    const plan *of = writer->of;
    writer->sources = BASE_ARRAY(arena, dot_source, of->header->tensors.count + 1);
    if (!writer->sources) return base_fail_memory(report);
    for (uint64_t g = 0; g < of->header->graphs.count; g++) {
        const plan_graph *graph = &of->graphs[g];
        for (uint64_t i = 0; i < graph->parameter_count; i++) {
            uint32_t id = of->tensor_ids[graph->parameters + i];
            if (id != PLAN_ABSENT)
                writer->sources[id] = (dot_source){SOURCE_PARAMETER, (uint32_t)g, (uint32_t)i};
        }
    }
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        const plan_node *node = &of->nodes[n];
        for (uint64_t i = 0; i < node->output_count; i++) {
            uint32_t id = of->tensor_ids[node->outputs + i];
            if (id != PLAN_ABSENT) writer->sources[id] = (dot_source){SOURCE_NODE, (uint32_t)n, (uint32_t)i};
        }
    }
    return BASE_OK;
}

/* The layout of dot is superlinear in edges that span many ranks, as those of dense blocks do: beyond a few
 * hundred edges it gets fewer iterations and straight lines, which look alike from afar and are drawn in
 * seconds. */
static void layout_effort(dot_writer *writer) {
    size_t edges = 0;
    for (uint32_t i = 0; i < writer->of->header->nodes.count; i++) {
        const plan_node *node = &writer->of->nodes[i];
        if (writer->folding.drawn[i] != i) continue;
        for (uint64_t k = 0; k < node->input_count; k++) {
            const uint32_t id = writer->of->tensor_ids[node->inputs + k];
            if (id == PLAN_ABSENT || writer->sources[id].kind == SOURCE_NONE) continue;
            edges += writer->sources[id].kind == SOURCE_PARAMETER ||
                     shown_as(writer, writer->sources[id].index) != shown_as(writer, i);
        }
    }
    if (edges > LARGE_GRAPH_EDGES) {
        emit_text(writer->out, "  splines=line nslimit=1 nslimit1=1 mclimit=0.2 maxiter=4\n");
    }
}

static base_status write_dot(const compile_result *result, size_t most, base_arena *arena, emit_buffer *out,
                             base_report *report) {
    dot_writer writer = {.of = &result->plan, .out = out, .depth = 1};
    base_status status = find_sources(&writer, arena, report);
    if (status != BASE_OK) return status;
    if (!emit_fold(writer.of, LARGE_GRAPH_NODES, arena, &writer.folding) ||
        !emit_group(writer.of, &writer.folding, most ? most : MOST_BOXES, most ? most : GROUPED_BOXES, arena,
                    &writer.groups))
        return base_fail_memory(report);
    const plan_header *header = result->plan.header;
    char size[32], bound[32];
    emit_text(out, "digraph model {\n  rankdir=TB compound=true newrank=false ranksep=0.35 nodesep=0.3\n"
                   "  fontname=\"Helvetica\" fontsize=12 labelloc=t bgcolor=white\n");
    layout_effort(&writer);
    emit_text(out, "  label=<<TABLE BORDER=\"0\" CELLSPACING=\"2\" CELLPADDING=\"1\"><TR><TD><FONT "
                   "POINT-SIZE=\"16\"><B>");
    emit_dot_cut(out, emit_dot_text_of(&writer, header->model_name), 60);
    emit_text(out, "</B></FONT><BR/>");
    emit_format(out, "arena %s, lower bound %s, ",
                emit_size_print((size_t)header->arena_bytes, size, sizeof size),
                emit_size_print((size_t)header->lower_bound_bytes, bound, sizeof bound));
    emit_format(out, "constants %s, allocator ",
                emit_size_print((size_t)header->constants_bytes, size, sizeof size));
    emit_xml(out, emit_dot_text_of(&writer, header->allocator));
    emit_text(out, "<BR/>in a box: operator, name, attributes, <I>kernel</I>, "
                   "<FONT COLOR=\"#333388\">@offset in the arena + size</FONT>; "
                   "element type float32 where none is given</TD></TR>");
    emit_legend(&writer);
    emit_text(out, "</TABLE>>\n");
    emit_text(
        out,
        "  node [shape=box fontname=\"Helvetica\" fontsize=10 margin=\"0.10,0.05\"]\n"
        "  edge [fontname=\"Helvetica\" fontsize=9 color=\"#555555\" fontcolor=\"#222222\" arrowsize=0.6]\n");
    emit_graph(&writer, 0);
    for (uint32_t g = 0; g < header->graphs.count; g++) emit_edges(&writer, g);
    emit_text(out, "}\n");
    free(writer.edges);
    return out->failed ? base_fail_memory(report) : BASE_OK;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

base_status emit_dot(const compile_result *result, const char *path, size_t most, base_report *report) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    emit_buffer out = {0};
    base_status status = write_dot(result, most, &arena, &out, report);
    if (status == BASE_OK) {
        if (ends_with(path, ".svg")) status = emit_drawing(&out, "svg", path, report);
        else if (ends_with(path, ".png")) status = emit_drawing(&out, "png", path, report);
        else status = emit_write(&out, path, report);
    }
    emit_free(&out);
    base_arena_free(&arena);
    return status;
}

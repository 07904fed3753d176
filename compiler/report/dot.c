/* SPDX-License-Identifier: Apache-2.0 */
/* dot.c: a picture of the compiled graph, in the language of Graphviz; .svg and .png are drawn by libgvc.
 *
 * A node is a box: operator, name, key attributes, kernel; a line for its constants, one for each output: where its bytes
 * lie. It is coloured by family. A dashed outline without colour is an alias: nothing runs. An edge has the type and the shape
 * of the tensor. A sub-graph is a box with its parameters above and its results below. What is carried around a loop goes
 * back by a dashed edge, labelled "parameter <= replacement". A tensor whose address changes with the iterations has a line for each
 * address: the iterations in which it lies there. The branches of an If stand side by side. A legend says all this.
 *
 * Drawn from the plan alone. Names come from models: they are cut to a readable length and escaped, whatever
 * is in them; the whole name is the tooltip. Large graphs get straight edges and a cheaper layout, see
 * layout_effort.
 */
#include "compiler/files/files.h"
#include "compiler/report/report.h"
#include "compiler/report/emit.h"
#include "compiler/report/family.h"
#include "compiler/report/loop.h"
#include <graphviz/gvc.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_CHARACTERS = 36,
    LINE_CHARACTERS = 40,
    CARRIED_CHARACTERS = 18, /* of a name beside a carried edge */
    MOST_ENTRIES = 16,       /* of a table, the rest is counted */
    LARGE_GRAPH_EDGES = 700
};

/* Who makes a tensor: a node, or a parameter of a graph. */
typedef struct dot_source {
    enum { SOURCE_NONE, SOURCE_NODE, SOURCE_PARAMETER } kind;
    uint32_t index;  /* of the node, or of the graph */
    uint32_t number; /* of the parameter */
} dot_source;

typedef struct dot_writer {
    const plan *of;
    emit_buffer *out;
    dot_source *sources; /* by tensor id */
    unsigned depth;
} dot_writer;

static const char *text_of(const dot_writer *writer, uint32_t text) {
    return writer->of->texts + text;
}

static void indent(dot_writer *writer) {
    for (unsigned i = 0; i < writer->depth; i++) emit_text(writer->out, "  ");
}

/* ---- what is written into boxes ------------------------------------------------------------------------ */

/* The text as XML, cut in the middle so that both ends of a path stay visible. Cuts never split a UTF-8
 * sequence. */
static void emit_cut(emit_buffer *out, const char *text, size_t characters) {
    size_t length = strlen(text);
    if (length <= characters) {
        emit_xml(out, text);
        return;
    }
    size_t head = characters / 3, tail = length - (characters - head - 1);
    while (head && ((unsigned char)text[head] & 0xC0) == 0x80) head--;
    while (text[tail] && ((unsigned char)text[tail] & 0xC0) == 0x80) tail++;
    char start[2 * NAME_CHARACTERS + 8];
    if (head >= sizeof start) head = sizeof start - 1;
    memcpy(start, text, head);
    start[head] = 0;
    emit_xml(out, start);
    emit_text(out, "\xE2\x80\xA6");
    emit_xml(out, text + tail);
}

/* "1x64x112x112" with the symbols' names. */
static void emit_shape(dot_writer *writer, const plan_tensor *tensor) {
    if (tensor->rank < 0) emit_text(writer->out, "?");
    else if (tensor->rank == 0) emit_text(writer->out, "scalar");
    for (int32_t d = 0; d < tensor->rank; d++) {
        int64_t dim = writer->of->integers[tensor->dims + (uint64_t)d];
        if (d) emit_text(writer->out, "\xC3\x97");
        if (dim >= 0) emit_format(writer->out, "%" PRId64, dim);
        else if (dim != OP_DIM_UNKNOWN && (uint64_t)-dim < writer->of->header->symbols.count &&
                 text_of(writer, writer->of->symbols[-dim])[0]) {
            emit_cut(writer->out, text_of(writer, writer->of->symbols[-dim]), 12);
        } else {
            emit_text(writer->out, "?");
        }
    }
}

static void emit_type(dot_writer *writer, const plan_tensor *tensor) {
    static const char *const kinds[] = {"", "sequence of ", "optional ", "map of "};
    emit_text(writer->out, kinds[tensor->kind & 3]);
    if (tensor->dtype != OP_FLOAT) emit_format(writer->out, "%s ", op_dtype_name((op_dtype)tensor->dtype));
    emit_shape(writer, tensor);
    if (tensor->layout != OP_LAYOUT_ROW_MAJOR) {
        emit_format(writer->out, " %s", op_layout_name((op_layout)tensor->layout));
    }
}

/* An address of a table. One that lies in the table of a loop around it is all places of that: "@0 or @64". */
static void emit_entry(dot_writer *writer, const plan_address *entry, uint64_t offset, int depth) {
    enum { MOST_PLACES = 4, MOST_NESTED = 8 };
    char text[64];
    if (entry->space != MEMORY_MULTIVIEW || depth == MOST_NESTED) {
        emit_text(writer->out, emit_place_print(entry, offset, text, sizeof text));
        return;
    }
    const plan_multiview *view = &writer->of->multiviews[entry->index];
    const uint32_t count = view->group ? 1 : view->prologue_count + view->period;
    for (uint32_t k = 0; k < count && k < MOST_PLACES; k++) {
        if (k) emit_text(writer->out, " or ");
        emit_entry(writer, &writer->of->addresses[view->first + k], entry->offset + offset, depth + 1);
    }
    if (count > MOST_PLACES) emit_text(writer->out, " or ...");
}

/* The table of a tensor whose address changes, by iterations of its loop; those that repeat with their phase:
 *     256 KiB in view 3, repeats after 2
 *     t = 0: input 1 @0
 *     t = 1, 3, ...: output 1 @0
 *     t = 2, 4, ...: output 0 @0
 * or of one in a buffer that takes part in swaps:
 *     256 KiB in view 3, swapped, first @0 */
static void emit_table(dot_writer *writer, const plan_address *address, const char *size) {
    const plan_multiview *view = &writer->of->multiviews[address->index];
    emit_format(writer->out, "%s in view %u", size, address->index);
    if (view->group) {
        emit_text(writer->out, ", swapped, first ");
        emit_entry(writer, &writer->of->addresses[view->first], address->offset, 0);
        return;
    }
    const uint32_t prologue = view->prologue_count, period = view->period;
    if (view->stride) emit_format(writer->out, ", moves on by %" PRId64 " bytes", view->stride);
    else if (period > 1) emit_format(writer->out, ", <B>repeats after %u</B>", period);
    for (uint32_t k = 0; k < prologue + period && k < MOST_ENTRIES; k++) {
        emit_text(writer->out, "<BR ALIGN=\"LEFT\"/>");
        if (k < prologue || view->stride) emit_format(writer->out, "t = %u: ", k);
        else if (period == 1) emit_format(writer->out, "t = %u, %u, ...: ", k, k + 1);
        else emit_format(writer->out, "t = %u, %u, ...: ", k, k + period);
        emit_entry(writer, &writer->of->addresses[view->first + k], address->offset, 0);
    }
    if (prologue + period > MOST_ENTRIES)
        emit_format(writer->out, "<BR ALIGN=\"LEFT\"/>and %u more", prologue + period - MOST_ENTRIES);
    emit_text(writer->out, "<BR ALIGN=\"LEFT\"/>");
}

static void emit_address(dot_writer *writer, const plan_tensor *tensor) {
    static const char *const places[] = {"nowhere", "arena", "constant",        "input",
                                         "output",  "view",  "made at run time"};
    const plan_address *address = &tensor->address;
    char size[32];
    emit_size_print((size_t)tensor->bytes, size, sizeof size);
    if (address->space == MEMORY_ARENA) {
        emit_format(writer->out, "@%" PRIu64 " + %s", address->offset, size);
    } else if (address->space == MEMORY_MULTIVIEW) {
        emit_table(writer, address, size);
    } else if (address->space == MEMORY_DYNAMIC && tensor->bytes) {
        emit_format(writer->out, "reserved @%" PRIu64 " + %s", address->offset, size);
    } else if (address->space == MEMORY_DYNAMIC || address->space == MEMORY_NONE) {
        emit_text(writer->out, places[address->space]);
    } else if (address->space <= MEMORY_DYNAMIC) {
        emit_format(writer->out, "%s", places[address->space]);
        if (address->space == MEMORY_INPUT || address->space == MEMORY_OUTPUT) {
            emit_format(writer->out, " %u", address->index);
        }
        emit_format(writer->out, " @%" PRIu64 " + %s", address->offset, size);
    }
}

/* What stands in most models and tells nothing: zero pads, strides of one, one group, and internal marks that
 * are shown otherwise. */
static bool is_default(const dot_writer *writer, const plan_attribute *attribute) {
    const char *name = text_of(writer, attribute->name);
    static const struct {
        const char *name;
        int64_t value;
    } defaults[] = {{"pads", 0},      {"strides", 1},       {"dilations", 1},         {"group", 1},
                    {"ceil_mode", 0}, {"storage_order", 0}, {"count_include_pad", 0}, {"keepdims", 1},
                    {"transA", 0},    {"transB", 0},        {"allowzero", 0}};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        if (strcmp(name, defaults[i].name) != 0) continue;
        if (attribute->kind == OP_ATTRIBUTE_INT) return (int64_t)attribute->value == defaults[i].value;
        if (attribute->kind != OP_ATTRIBUTE_INTS) return false;
        for (uint64_t k = 0; k < attribute->count; k++) {
            if (writer->of->integers[attribute->value + k] != defaults[i].value) return false;
        }
        return true;
    }
    bool fused = strcmp(name, "ouro.alpha") == 0 || strcmp(name, "ouro.beta") == 0;
    if (fused && attribute->kind == OP_ATTRIBUTE_FLOAT) return (attribute->value & 0x7FFFFFFF) == 0;
    if (strcmp(name, "ouro.activation") == 0 || strcmp(name, "ouro.layout") == 0)
        return true; /* seen elsewhere */
    return strcmp(name, "auto_pad") == 0 || strcmp(name, "storage_order") == 0;
}

static void print_attribute(const dot_writer *writer, const plan_attribute *attribute, char *text,
                            size_t capacity) {
    const char *name = text_of(writer, attribute->name);
    if (strncmp(name, "ouro.", 5) == 0) name += 5;
    const int64_t *list = writer->of->integers + attribute->value;
    size_t used = (size_t)snprintf(text, capacity, "%.24s=", name);
    uint64_t shown = attribute->count < 6 ? attribute->count : 6;
    switch ((op_attribute_kind)attribute->kind) {
    case OP_ATTRIBUTE_INT:
        snprintf(text + used, capacity - used, "%" PRId64, (int64_t)attribute->value);
        break;
    case OP_ATTRIBUTE_FLOAT: {
        uint32_t bits = (uint32_t)attribute->value;
        float value;
        memcpy(&value, &bits, sizeof value);
        snprintf(text + used, capacity - used, "%g", (double)value);
        break;
    }
    case OP_ATTRIBUTE_STRING:
        snprintf(text + used, capacity - used, "%.24s", text_of(writer, (uint32_t)attribute->value));
        break;
    case OP_ATTRIBUTE_INTS:
        for (uint64_t k = 0; k < shown; k++) {
            used += (size_t)snprintf(text + used, capacity - used, "%s%" PRId64, k ? "," : "", list[k]);
        }
        if (shown < attribute->count) snprintf(text + used, capacity - used, ",\xE2\x80\xA6");
        break;
    case OP_ATTRIBUTE_FLOATS:
        for (uint64_t k = 0; k < shown; k++) {
            uint32_t bits = (uint32_t)list[k];
            float value;
            memcpy(&value, &bits, sizeof value);
            used += (size_t)snprintf(text + used, capacity - used, "%s%g", k ? "," : "", (double)value);
        }
        if (shown < attribute->count) snprintf(text + used, capacity - used, ",\xE2\x80\xA6");
        break;
    default:
        text[0] = 0;
        break;
    }
}

static void emit_attributes(dot_writer *writer, const plan_node *node) {
    size_t column = 0;
    bool control = node->graph_count != 0;
    for (uint64_t i = 0; i < node->attribute_count; i++) {
        const plan_attribute *attribute = &writer->of->attributes[node->attributes + i];
        char text[256];
        if (is_default(writer, attribute)) continue;
        /* How many values a loop scans is seen from its edges. */
        if (control && (strncmp(text_of(writer, attribute->name), "ouro.scan_", 10) == 0 ||
                        strcmp(text_of(writer, attribute->name), PLAN_SWAPS) == 0))
            continue;
        print_attribute(writer, attribute, text, sizeof text);
        if (!text[0]) continue;
        if (column && column + strlen(text) > LINE_CHARACTERS) column = 0;
        if (!column) emit_text(writer->out, "<BR/>");
        else emit_text(writer->out, "  ");
        emit_xml(writer->out, text);
        column += strlen(text) + 2;
    }
}

/* "Conv + residual + Relu": what was fused into an operator is part of what it does. */
static void emit_title(dot_writer *writer, const plan_node *node) {
    const char *operator_name = text_of(writer, node->operator_name);
    emit_text(writer->out, "<FONT POINT-SIZE=\"13\"><B>");
    emit_xml(writer->out, operator_name);
    bool residual = strcmp(operator_name, "Conv") == 0 && node->input_count > 3 &&
                    writer->of->tensor_ids[node->inputs + 3] != PLAN_ABSENT;
    if (residual) emit_text(writer->out, " + residual");
    for (uint64_t i = 0; i < node->attribute_count; i++) {
        const plan_attribute *attribute = &writer->of->attributes[node->attributes + i];
        if (attribute->kind != OP_ATTRIBUTE_STRING) continue;
        if (strcmp(text_of(writer, attribute->name), "ouro.activation") != 0) continue;
        emit_text(writer->out, " + ");
        emit_xml(writer->out, text_of(writer, (uint32_t)attribute->value));
    }
    emit_text(writer->out, "</B></FONT>");
}

/* Constants that the node reads: their shapes, on one line. */
static void emit_constants(dot_writer *writer, const plan_node *node) {
    size_t shown = 0, count = 0;
    for (uint64_t i = 0; i < node->input_count; i++) {
        uint32_t id = writer->of->tensor_ids[node->inputs + i];
        if (id == PLAN_ABSENT || writer->sources[id].kind != SOURCE_NONE) continue;
        count++;
    }
    if (!count) return;
    emit_text(writer->out, "<BR/><FONT COLOR=\"#555555\">with ");
    for (uint64_t i = 0; i < node->input_count && shown < 3; i++) {
        uint32_t id = writer->of->tensor_ids[node->inputs + i];
        if (id == PLAN_ABSENT || writer->sources[id].kind != SOURCE_NONE) continue;
        if (shown++) emit_text(writer->out, ", ");
        emit_type(writer, &writer->of->tensors[id]);
    }
    if (count > shown) emit_format(writer->out, " and %zu more", count - shown);
    emit_text(writer->out, "</FONT>");
}

static void emit_outputs(dot_writer *writer, const plan_node *node) {
    uint64_t shown = node->output_count < 6 ? node->output_count : 6;
    for (uint64_t i = 0; i < shown; i++) {
        uint32_t id = writer->of->tensor_ids[node->outputs + i];
        if (id == PLAN_ABSENT) continue;
        emit_text(writer->out, "<BR/><FONT COLOR=\"#333388\">");
        if (node->output_count > 1) emit_format(writer->out, "%" PRIu64 ": ", i);
        emit_address(writer, &writer->of->tensors[id]);
        emit_text(writer->out, "</FONT>");
    }
    if (shown < node->output_count)
        emit_format(writer->out, "<BR/>and %" PRIu64 " more", node->output_count - shown);
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
    const char *operator_name = text_of(writer, node->operator_name), *name = text_of(writer, node->name);
    const char *kernel = text_of(writer, node->kernel);
    const emit_family *family = emit_family_of(text_of(writer, node->operator_domain), operator_name);
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
    emit_title(writer, node);
    if (view) emit_text(writer->out, " (view)");
    if (node->flags & PLAN_NODE_DYNAMIC) emit_text(writer->out, " (dynamic)");
    if (name[0]) {
        emit_text(writer->out, "<BR/>");
        emit_cut(writer->out, name, NAME_CHARACTERS);
    }
    emit_attributes(writer, node);
    if (kernel[0]) {
        emit_text(writer->out, "<BR/><I>");
        emit_xml(writer->out, kernel);
        emit_text(writer->out, "</I>");
        if (node->scratch_bytes) {
            emit_format(writer->out, " + scratch %s",
                        emit_size_print((size_t)node->scratch_bytes, scratch, sizeof scratch));
        }
    }
    emit_constants(writer, node);
    if (!node->graph_count) emit_outputs(writer, node);
    emit_text(writer->out, ">]\n");
}

/* Where a control node hands its outputs on: below its sub-graphs. */
static void emit_exit(dot_writer *writer, uint32_t index) {
    const plan_node *node = &writer->of->nodes[index];
    const char *operator_name = text_of(writer, node->operator_name);
    const emit_family *family = emit_family_of(text_of(writer, node->operator_domain), operator_name);
    indent(writer);
    emit_format(writer->out, "x%u [style=\"rounded,filled\" fillcolor=\"%s\" color=\"%s\" penwidth=2", index,
                family->fill, family->line);
    emit_tooltip(writer, operator_name, text_of(writer, node->name));
    emit_text(writer->out, " label=<end of <B>");
    emit_xml(writer->out, operator_name);
    emit_text(writer->out, "</B>");
    emit_outputs(writer, node);
    emit_text(writer->out, ">]\n");
}

static void emit_parameter(dot_writer *writer, uint32_t graph, uint64_t number, const char *role) {
    uint32_t id = writer->of->tensor_ids[writer->of->graphs[graph].parameters + number];
    const plan_tensor *tensor = &writer->of->tensors[id];
    indent(writer);
    emit_format(writer->out,
                "p%u_%" PRIu64 " [shape=box style=\"filled\" fillcolor=\"white\" color=\"#3c6e3c\"", graph,
                number);
    emit_tooltip(writer, role, text_of(writer, tensor->name));
    emit_format(writer->out, " label=<%s <B>", role);
    emit_cut(writer->out, text_of(writer, tensor->name), NAME_CHARACTERS);
    emit_text(writer->out, "</B><BR/>");
    emit_type(writer, tensor);
    emit_text(writer->out, "<BR/><FONT COLOR=\"#333388\">");
    emit_address(writer, tensor);
    emit_text(writer->out, "</FONT>>]\n");
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
    emit_cut(writer->out, name, NAME_CHARACTERS);
    emit_text(writer->out, "</B>");
    if (id != PLAN_ABSENT) {
        emit_text(writer->out, "<BR/>");
        emit_type(writer, &writer->of->tensors[id]);
    }
    emit_text(writer->out, ">]\n");
}

/* ---- edges --------------------------------------------------------------------------------------------- */

/* Starts an edge from what makes `tensor id`; false where that is a constant (constants are notes in the boxes).
 */
static bool begin_edge(dot_writer *writer, uint32_t id) {
    if (id == PLAN_ABSENT) return false;
    const dot_source *source = &writer->sources[id];
    if (source->kind == SOURCE_NONE) return false;
    indent(writer);
    if (source->kind == SOURCE_PARAMETER)
        emit_format(writer->out, "p%u_%u -> ", source->index, source->number);
    else
        emit_format(writer->out, "%c%u -> ", writer->of->nodes[source->index].graph_count ? 'x' : 'n',
                    source->index);
    return true;
}

static void end_edge(dot_writer *writer, uint32_t id, const char *attributes) {
    const plan_tensor *tensor = &writer->of->tensors[id];
    emit_text(writer->out, " [");
    /* A parameter's box holds its type already. */
    if (writer->sources[id].kind != SOURCE_PARAMETER) {
        emit_text(writer->out, "label=<");
        emit_type(writer, tensor);
        emit_text(writer->out, "> ");
    }
    emit_text(writer->out, "edgetooltip=");
    emit_dot_text(writer->out, text_of(writer, tensor->name));
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
                " place%s<BR ALIGN=\"LEFT\"/>copied: %s an iteration, %s an entry<BR ALIGN=\"LEFT\"/>>\n",
                numbers.unroll, numbers.multiview, numbers.multiview == 1 ? "" : "s", numbers.places,
                numbers.places == 1 ? "" : "s",
                emit_size_print((size_t)numbers.iteration_bytes, iteration, sizeof iteration),
                emit_size_print((size_t)numbers.entry_bytes, entry, sizeof entry));
}

static const char *tensor_name(const dot_writer *writer, uint32_t id) {
    return id == PLAN_ABSENT ? "" : text_of(writer, writer->of->tensors[id].name);
}

static void emit_graph(dot_writer *writer, uint32_t index);

/* A control node: its box, its sub-graphs in boxes, and the box where it ends. */
static void emit_control(dot_writer *writer, uint32_t index) {
    const plan *of = writer->of;
    const plan_node *node = &of->nodes[index];
    bool loop = strcmp(text_of(writer, node->operator_name), "Loop") == 0;
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
        emit_cut(writer->out, text_of(writer, graph->name), NAME_CHARACTERS);
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

/* The boxes of one graph, those of its sub-graphs within. */
static void emit_graph(dot_writer *writer, uint32_t index) {
    const plan *of = writer->of;
    const plan_graph *graph = &of->graphs[index];
    const plan_node *owner = graph->owner == PLAN_ABSENT ? NULL : &of->nodes[graph->owner];
    bool body = owner && strcmp(text_of(writer, owner->operator_name), "Loop") == 0;
    for (uint64_t i = 0; i < graph->parameter_count; i++) {
        emit_parameter(writer, index, i,
                       !body    ? "input"
                       : i == 0 ? "iteration"
                       : i == 1 ? "condition"
                                : "parameter");
    }
    for (uint64_t i = 0; i < graph->result_count; i++) {
        uint32_t id = of->tensor_ids[graph->results + i];
        const char *name = !owner && i < of->header->outputs.count ? text_of(writer, of->outputs[i].name)
                           : id == PLAN_ABSENT                     ? ""
                                                                   : text_of(writer, of->tensors[id].name);
        emit_result(writer, index, i, !owner ? "output" : body && i == 0 ? "condition" : "result", name);
    }
    for (uint64_t i = graph->nodes; i < graph->nodes + graph->node_count; i++) {
        if (of->nodes[i].graph_count) emit_control(writer, (uint32_t)i);
        else emit_node(writer, (uint32_t)i);
    }
}

/* The edges of one graph. All stand outside of the boxes of sub-graphs: naming a node within one would move
 * it there. */
static void emit_edges(dot_writer *writer, uint32_t index) {
    const plan *of = writer->of;
    const plan_graph *graph = &of->graphs[index];
    const plan_node *owner = graph->owner == PLAN_ABSENT ? NULL : &of->nodes[graph->owner];
    bool body = owner && strcmp(text_of(writer, owner->operator_name), "Loop") == 0;
    for (uint64_t i = graph->nodes; i < graph->nodes + graph->node_count; i++) {
        const plan_node *node = &of->nodes[i];
        for (uint64_t k = 0; k < node->input_count; k++) {
            uint32_t id = of->tensor_ids[node->inputs + k];
            if (!begin_edge(writer, id)) continue;
            emit_format(writer->out, "n%" PRIu64, i);
            end_edge(writer, id, "");
        }
    }
    for (uint64_t i = 0; i < graph->result_count; i++) {
        uint32_t id = of->tensor_ids[graph->results + i];
        if (!begin_edge(writer, id)) continue;
        emit_format(writer->out, "r%u_%" PRIu64, index, i);
        end_edge(writer, id, "");
    }
    if (!owner) return;
    /* From where the control node begins to its sub-graph, and from there to where it ends. */
    for (uint64_t i = 0; i < graph->parameter_count; i++) {
        indent(writer);
        emit_format(writer->out, "n%u -> p%u_%" PRIu64 " [style=dotted arrowhead=none]\n", graph->owner,
                    index, i);
    }
    if (!graph->parameter_count && graph->node_count) {
        indent(writer);
        emit_format(writer->out, "n%u -> n%" PRIu64 " [style=dotted label=\"%s\"]\n", graph->owner,
                    graph->nodes, index == owner->first_graph ? "true" : "false");
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
        const char *parameter = tensor_name(writer, of->tensor_ids[graph->parameters + i + 1]);
        const char *replacement = tensor_name(writer, of->tensor_ids[graph->results + i]);
        indent(writer);
        emit_format(writer->out,
                    "r%u_%" PRIu64 " -> p%u_%" PRIu64
                    " [style=dashed color=\"#b04a2f\" fontcolor=\"#b04a2f\" constraint=false label=<",
                    index, i, index, i + 1);
        emit_cut(writer->out, parameter, CARRIED_CHARACTERS);
        emit_text(writer->out, " &lt;= ");
        emit_cut(writer->out, replacement, CARRIED_CHARACTERS);
        emit_text(writer->out, "> edgetooltip=\"carried\"]\n");
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
            used[emit_family_of(text_of(writer, node->operator_domain),
                                text_of(writer, node->operator_name)) -
                 emit_families] = true;
    }
    emit_text(writer->out, "<TR><TD><TABLE BORDER=\"0\" CELLBORDER=\"0\" CELLSPACING=\"3\"><TR>");
    for (size_t i = 0; i < OP_FAMILY_COUNT; i++) {
        if (used[i])
            emit_format(writer->out, "<TD BGCOLOR=\"%s\">%s</TD>", emit_families[i].fill,
                        emit_families[i].name);
    }
    emit_format(writer->out, "<TD>%s</TD></TR></TABLE></TD></TR>",
                views ? "dashed: a view, nothing runs" : "");
    if (control)
        emit_text(
            writer->out,
            "<TR><TD><FONT COLOR=\"#b04a2f\">x &lt;= y, dashed: in the next iteration x is what y is in "
            "this one</FONT></TD></TR>");
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
    for (uint64_t i = 0; i < writer->of->header->nodes.count; i++) edges += writer->of->nodes[i].input_count;
    for (uint64_t i = 0; i < writer->of->header->nodes.count; i++) {
        const plan_node *node = &writer->of->nodes[i];
        for (uint64_t k = 0; k < node->input_count; k++) {
            uint32_t id = writer->of->tensor_ids[node->inputs + k];
            if (id == PLAN_ABSENT || writer->sources[id].kind == SOURCE_NONE) edges--;
        }
    }
    if (edges > LARGE_GRAPH_EDGES) {
        emit_text(writer->out, "  splines=line nslimit=1 nslimit1=1 mclimit=0.2 maxiter=4\n");
    }
}

static base_status write_dot(const compile_result *result, base_arena *arena, emit_buffer *out,
                             base_report *report) {
    dot_writer writer = {.of = &result->plan, .out = out, .depth = 1};
    base_status status = find_sources(&writer, arena, report);
    if (status != BASE_OK) return status;
    const plan_header *header = result->plan.header;
    char size[32], bound[32];
    emit_text(out, "digraph model {\n  rankdir=TB compound=true newrank=false ranksep=0.35 nodesep=0.3\n"
                   "  fontname=\"Helvetica\" fontsize=12 labelloc=t bgcolor=white\n");
    layout_effort(&writer);
    emit_text(out, "  label=<<TABLE BORDER=\"0\" CELLSPACING=\"2\" CELLPADDING=\"1\"><TR><TD><FONT "
                   "POINT-SIZE=\"16\"><B>");
    emit_cut(out, text_of(&writer, header->model_name), 60);
    emit_text(out, "</B></FONT><BR/>");
    emit_format(out, "arena %s, lower bound %s, ",
                emit_size_print((size_t)header->arena_bytes, size, sizeof size),
                emit_size_print((size_t)header->lower_bound_bytes, bound, sizeof bound));
    emit_format(out, "constants %s, allocator ",
                emit_size_print((size_t)header->constants_bytes, size, sizeof size));
    emit_xml(out, text_of(&writer, header->allocator));
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
    return out->failed ? base_fail_memory(report) : BASE_OK;
}

/* Graphviz writes its own complaints to stderr by default; ours say which file. */
static int silent(char *message) {
    (void)message;
    return 0;
}

/* A bitmap has a largest size; what is larger is drawn at fewer dots an inch, before Graphviz complains. */
static void fit_bitmap(Agraph_t *graph) {
    const double most = 32000, usual = 96, points = 72;
    double width = GD_bb(graph).UR.x, height = GD_bb(graph).UR.y;
    double larger = (width > height ? width : height) + 20;
    if (larger * usual / points > most) GD_drawing(graph)->dpi = most * points / larger;
}

static base_status render(const emit_buffer *dot, const char *format, const char *path, base_report *report) {
    agseterrf(silent);
    GVC_t *context = gvContext();
    Agraph_t *graph = context ? agmemread(dot->data) : NULL;
    char *picture = NULL;
    unsigned length = 0;
    base_status status = BASE_OK;
    if (!graph || gvLayout(context, graph, "dot") != 0) {
        status = base_fail(report, BASE_SYSTEM_ERROR,
                           "%s: Graphviz cannot lay out the graph; --dot FILE.dot still writes it", path);
    } else {
        if (strcmp(format, "png") == 0) fit_bitmap(graph);
        if (gvRenderData(context, graph, format, &picture, &length) != 0 || !picture) {
            status = base_fail(report, BASE_SYSTEM_ERROR,
                               "%s: this installation of Graphviz cannot write .%s", path, format);
        } else {
            status = file_write(path, picture, length, report);
        }
        gvFreeRenderData(picture);
        gvFreeLayout(context, graph);
    }
    if (graph) agclose(graph);
    if (context) gvFreeContext(context);
    return status;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

base_status emit_dot(const compile_result *result, const char *path, base_report *report) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    emit_buffer out = {0};
    base_status status = write_dot(result, &arena, &out, report);
    if (status == BASE_OK) {
        if (ends_with(path, ".svg")) status = render(&out, "svg", path, report);
        else if (ends_with(path, ".png")) status = render(&out, "png", path, report);
        else status = emit_write(&out, path, report);
    }
    emit_free(&out);
    base_arena_free(&arena);
    return status;
}

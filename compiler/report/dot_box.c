/* SPDX-License-Identifier: Apache-2.0 */
/* dot_box.c: what is written into the boxes of a graph's picture: types, addresses, attributes. */
#include "compiler/report/dot.h"
#include "compiler/report/loop.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    LINE_CHARACTERS = 40,
    MOST_ENTRIES = 16, /* of a table, the rest is counted */
};

const char *emit_dot_text_of(const dot_writer *writer, uint32_t text) {
    return writer->of->texts + text;
}

/* The text as XML, cut in the middle so that both ends of a path stay visible. Cuts never split a UTF-8
 * sequence. */
void emit_dot_cut(emit_buffer *out, const char *text, size_t characters) {
    size_t length = strlen(text);
    if (length <= characters) {
        emit_xml(out, text);
        return;
    }
    size_t head = characters / 3, tail = length - (characters - head - 1);
    while (head && ((unsigned char)text[head] & 0xC0) == 0x80) head--;
    while (text[tail] && ((unsigned char)text[tail] & 0xC0) == 0x80) tail++;
    char start[2 * DOT_NAME_CHARACTERS + 8];
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
                 emit_dot_text_of(writer, writer->of->symbols[-dim])[0]) {
            emit_dot_cut(writer->out, emit_dot_text_of(writer, writer->of->symbols[-dim]), 12);
        } else {
            emit_text(writer->out, "?");
        }
    }
}

void emit_dot_type(dot_writer *writer, const plan_tensor *tensor) {
    static const char *const kinds[] = {"", "sequence of ", "optional ", "map of "};
    emit_text(writer->out, kinds[tensor->kind & 3]);
    if (tensor->dtype != OP_FLOAT) emit_format(writer->out, "%s ", op_dtype_name((op_dtype)tensor->dtype));
    emit_shape(writer, tensor);
    if (tensor->layout != OP_LAYOUT_ROW_MAJOR) {
        emit_format(writer->out, " %s", op_layout_name((op_layout)tensor->layout));
    }
}

/* The multi-view belongs to an If: one entry for each branch. */
static bool is_branch(const plan *of, const plan_multiview *view) {
    return view->loop < of->header->nodes.count && plan_node_code(of, &of->nodes[view->loop]) == OP_IF;
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
 *     256 KiB, multi-view 3, repeats after 2
 *     t = 0: input 1 @0
 *     t = 1, 3, ...: output 1 @0
 *     t = 2, 4, ...: output 0 @0
 * or of one in a buffer that takes part in swaps:
 *     256 KiB, multi-view 3, swapped, first @0 */
static void emit_table(dot_writer *writer, const plan_address *address, const char *size) {
    const plan_multiview *view = &writer->of->multiviews[address->index];
    emit_format(writer->out, "%s, multi-view %u", size, address->index);
    if (view->group) {
        emit_text(writer->out, view->lazy ? ", copied to lazily, first " : ", swapped, first ");
        emit_entry(writer, &writer->of->addresses[view->first], address->offset, 0);
        return;
    }
    const uint32_t prologue = view->prologue_count, period = view->period;
    if (view->stride) emit_format(writer->out, ", moves on by %" PRId64 " bytes", view->stride);
    else if (period > 1 && !is_branch(writer->of, view))
        emit_format(writer->out, ", <B>repeats after %u</B>", period);
    for (uint32_t k = 0; k < prologue + period && k < MOST_ENTRIES; k++) {
        emit_text(writer->out, "<BR ALIGN=\"LEFT\"/>");
        if (is_branch(writer->of, view)) emit_text(writer->out, k ? "else: " : "then: ");
        else if (k < prologue || view->stride) emit_format(writer->out, "t = %u: ", k);
        else if (view->from_end)
            emit_format(writer->out, "t = n - %u, n - %u, ...: ", prologue + period - k,
                        2 * period + prologue - k);
        else if (period == 1) emit_format(writer->out, "t = %u, %u, ...: ", k, k + 1);
        else emit_format(writer->out, "t = %u, %u, ...: ", k, k + period);
        emit_entry(writer, &writer->of->addresses[view->first + k], address->offset, 0);
    }
    if (prologue + period > MOST_ENTRIES)
        emit_format(writer->out, "<BR ALIGN=\"LEFT\"/>and %u more", prologue + period - MOST_ENTRIES);
    emit_text(writer->out, "<BR ALIGN=\"LEFT\"/>");
}

void emit_dot_address(dot_writer *writer, const plan_tensor *tensor) {
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
    } else if (address->space == MEMORY_SPILL) {
        emit_format(writer->out, "spill file @%" PRIu64 " + %s", address->offset, size);
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
    const char *name = emit_dot_text_of(writer, attribute->name);
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
    const char *name = emit_dot_text_of(writer, attribute->name);
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
        snprintf(text + used, capacity - used, "%.24s", emit_dot_text_of(writer, (uint32_t)attribute->value));
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

void emit_dot_attributes(dot_writer *writer, const plan_node *node) {
    size_t column = 0;
    const bool control = node->graph_count != 0;
    const bool fused = strcmp(emit_dot_text_of(writer, node->operator_name), "Fused") == 0;
    for (uint64_t i = 0; i < node->attribute_count; i++) {
        const plan_attribute *attribute = &writer->of->attributes[node->attributes + i];
        char text[256];
        if (is_default(writer, attribute)) continue;
        /* The type of what it makes stands at its edges. */
        if (fused && strcmp(emit_dot_text_of(writer, attribute->name), "to") == 0) continue;
        /* How many values a loop scans is seen from its edges. */
        if (control && (strncmp(emit_dot_text_of(writer, attribute->name), "ouro.scan_", 10) == 0 ||
                        strcmp(emit_dot_text_of(writer, attribute->name), PLAN_SWAPS) == 0))
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

/* Of elementwise operators that are one: which they are, from "Add 1 2" and so on. */
static void emit_steps(dot_writer *writer, const plan_node *node) {
    for (uint64_t i = 0; i < node->attribute_count; i++) {
        const plan_attribute *attribute = &writer->of->attributes[node->attributes + i];
        if (attribute->kind != OP_ATTRIBUTE_STRINGS) continue;
        const int64_t *texts = writer->of->integers + attribute->value;
        size_t column = 0;
        for (uint64_t k = 0; k < attribute->count; k++) {
            char step[32];
            const char *text = writer->of->texts + texts[2 * k];
            const size_t whole = (size_t)texts[2 * k + 1],
                         most = whole < sizeof step - 1 ? whole : sizeof step - 1;
            size_t length = 0;
            while (length < most && text[length] != ' ') length++;
            memcpy(step, text, length);
            step[length] = 0;
            const bool wraps = k == 0 || column + length > LINE_CHARACTERS;
            emit_text(writer->out, k == 0 ? "<BR/>" : wraps ? ",<BR/>" : ", ");
            column = (wraps ? 0 : column + 2) + length;
            emit_xml(writer->out, step);
        }
    }
}

/* "Conv + residual + Relu": what was fused into an operator is part of what it does. */
void emit_dot_title(dot_writer *writer, const plan_node *node) {
    const char *operator_name = emit_dot_text_of(writer, node->operator_name);
    emit_text(writer->out, "<FONT POINT-SIZE=\"13\"><B>");
    emit_xml(writer->out, operator_name);
    bool residual = strcmp(operator_name, "Conv") == 0 && node->input_count > 3 &&
                    writer->of->tensor_ids[node->inputs + 3] != PLAN_ABSENT;
    if (residual) emit_text(writer->out, " + residual");
    for (uint64_t i = 0; i < node->attribute_count; i++) {
        const plan_attribute *attribute = &writer->of->attributes[node->attributes + i];
        if (attribute->kind != OP_ATTRIBUTE_STRING) continue;
        if (strcmp(emit_dot_text_of(writer, attribute->name), "ouro.activation") != 0) continue;
        emit_text(writer->out, " + ");
        emit_xml(writer->out, emit_dot_text_of(writer, (uint32_t)attribute->value));
    }
    emit_text(writer->out, "</B></FONT>");
    if (strcmp(operator_name, "Fused") == 0) emit_steps(writer, node);
}

/* Constants that the node reads: their shapes, on one line. */
void emit_dot_constants(dot_writer *writer, const plan_node *node) {
    size_t shown = 0, count = 0;
    for (uint64_t i = 0; i < node->input_count; i++) {
        uint32_t id = writer->of->tensor_ids[node->inputs + i];
        if (id == PLAN_ABSENT || writer->sources[id].kind != SOURCE_NONE) continue;
        count++;
    }
    if (!count) return;
    emit_text(writer->out, "<BR/><FONT COLOR=\"#555555\">constant ");
    for (uint64_t i = 0; i < node->input_count && shown < 3; i++) {
        uint32_t id = writer->of->tensor_ids[node->inputs + i];
        if (id == PLAN_ABSENT || writer->sources[id].kind != SOURCE_NONE) continue;
        if (shown++) emit_text(writer->out, ", ");
        emit_dot_type(writer, &writer->of->tensors[id]);
    }
    if (count > shown) emit_format(writer->out, " and %zu more", count - shown);
    emit_text(writer->out, "</FONT>");
}

void emit_dot_outputs(dot_writer *writer, const plan_node *node) {
    uint64_t shown = node->output_count < 6 ? node->output_count : 6;
    for (uint64_t i = 0; i < shown; i++) {
        uint32_t id = writer->of->tensor_ids[node->outputs + i];
        if (id == PLAN_ABSENT) continue;
        emit_text(writer->out, "<BR/><FONT COLOR=\"#333388\">");
        if (node->output_count > 1) emit_format(writer->out, "%" PRIu64 ": ", i);
        emit_dot_address(writer, &writer->of->tensors[id]);
        emit_text(writer->out, "</FONT>");
    }
    if (shown < node->output_count)
        emit_format(writer->out, "<BR/>and %" PRIu64 " more", node->output_count - shown);
}

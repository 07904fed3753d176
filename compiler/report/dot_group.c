/* SPDX-License-Identifier: Apache-2.0 */
/* dot_group.c: a group of nodes as one box of a picture. */
#include "compiler/report/dot.h"
#include "compiler/report/family.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { OPERATORS = 64, SHOWN_OPERATORS = 5 };

typedef struct group_summary {
    const char *operators[OPERATORS];
    uint32_t counts[OPERATORS], operator_count;
    uint32_t nodes, first, last; /* of how many; the first and the last of them in the order of steps */
    const plan_tensor *largest;  /* of what they make; NULL: nothing has bytes */
    const emit_family *family;   /* of the operator that is there most often */
} group_summary;

static void count_operator(group_summary *sum, const char *name) {
    for (uint32_t i = 0; i < sum->operator_count; i++) {
        if (strcmp(sum->operators[i], name) != 0) continue;
        sum->counts[i]++;
        return;
    }
    if (sum->operator_count == OPERATORS) return;
    sum->operators[sum->operator_count] = name;
    sum->counts[sum->operator_count++] = 1;
}

/* Those that are there most often first; of equals those that come first. */
static void sort_operators(group_summary *sum) {
    for (uint32_t i = 1; i < sum->operator_count; i++) {
        const char *name = sum->operators[i];
        const uint32_t count = sum->counts[i];
        uint32_t at = i;
        for (; at && sum->counts[at - 1] < count; at--) {
            sum->operators[at] = sum->operators[at - 1];
            sum->counts[at] = sum->counts[at - 1];
        }
        sum->operators[at] = name;
        sum->counts[at] = count;
    }
}

static void summarize(const dot_writer *writer, uint32_t first, group_summary *sum) {
    const plan *of = writer->of;
    *sum = (group_summary){.first = first, .last = first};
    for (uint32_t n = first; sum->nodes < writer->groups.count[first] && n < of->header->nodes.count; n++) {
        if (writer->groups.first[n] != first) continue;
        const plan_node *node = &of->nodes[n];
        sum->nodes++;
        sum->last = n;
        count_operator(sum, emit_dot_text_of(writer, node->operator_name));
        for (uint64_t i = 0; i < node->output_count; i++) {
            const uint32_t id = of->tensor_ids[node->outputs + i];
            if (id == PLAN_ABSENT || !of->tensors[id].bytes) continue;
            if (!sum->largest || of->tensors[id].bytes > sum->largest->bytes) sum->largest = &of->tensors[id];
        }
    }
    sort_operators(sum);
    for (uint32_t n = first; !sum->family && n <= sum->last; n++) {
        const plan_node *node = &of->nodes[n];
        if (writer->groups.first[n] == first &&
            strcmp(emit_dot_text_of(writer, node->operator_name), sum->operators[0]) == 0)
            sum->family = emit_family_of(emit_dot_text_of(writer, node->operator_domain), sum->operators[0]);
    }
}

/* "/encoder/layer.3/attention" of "/encoder/layer.3/attention/MatMul"; where names have nothing in common, the first and the last. */
static void emit_title(dot_writer *writer, const group_summary *sum) {
    const char *name = emit_dot_text_of(writer, writer->of->nodes[sum->first].name);
    char shared[256];
    size_t length = writer->groups.name[sum->first];
    if (length >= sizeof shared) length = sizeof shared - 1;
    if (length > strlen(name))
        length = strlen(name); /* the first has no name, and goes by that of another one */
    while (length && (name[length - 1] == '/' || name[length - 1] == '.')) length--;
    while (length && ((unsigned char)name[length] & 0xC0) == 0x80) length--;
    snprintf(shared, sizeof shared, "%.*s", (int)length, name);
    emit_text(writer->out, "<FONT POINT-SIZE=\"13\"><B>");
    if (length) {
        const bool within = writer->prefix && writer->prefix_length < length &&
                            strncmp(name, writer->prefix, writer->prefix_length) == 0;
        emit_dot_cut(writer->out, within ? shared + writer->prefix_length : shared, DOT_NAME_CHARACTERS);
    } else {
        emit_dot_cut(writer->out, name, DOT_NAME_CHARACTERS / 2);
        emit_text(writer->out, " \xE2\x80\xA6 ");
        emit_dot_cut(writer->out, emit_dot_text_of(writer, writer->of->nodes[sum->last].name),
                     DOT_NAME_CHARACTERS / 2);
    }
    emit_text(writer->out, "</B></FONT>");
}

void emit_dot_group(dot_writer *writer, uint32_t first) {
    group_summary sum;
    char size[32];
    summarize(writer, first, &sum);
    for (unsigned i = 0; i < writer->depth; i++) emit_text(writer->out, "  ");
    emit_format(writer->out,
                "n%u [style=\"rounded,filled\" peripheries=2 fillcolor=\"%s\" color=\"%s\" tooltip=", first,
                sum.family->fill, sum.family->line);
    emit_dot_text(writer->out, emit_dot_text_of(writer, writer->of->nodes[first].name));
    emit_text(writer->out, " label=<");
    emit_title(writer, &sum);
    emit_format(writer->out, "<BR/>%u nodes", sum.nodes);
    for (uint32_t i = 0; i < sum.operator_count && i < SHOWN_OPERATORS; i++) {
        emit_text(writer->out, i == 0 ? ": " : i == 3 ? ",<BR/>" : ", ");
        if (sum.counts[i] > 1) emit_format(writer->out, "%u ", sum.counts[i]);
        emit_xml(writer->out, sum.operators[i]);
    }
    if (sum.operator_count > SHOWN_OPERATORS) emit_text(writer->out, ", \xE2\x80\xA6");
    if (sum.largest) {
        emit_format(writer->out, "<BR/><FONT COLOR=\"#333388\">largest tensor %s</FONT>",
                    emit_size_print((size_t)sum.largest->bytes, size, sizeof size));
    }
    emit_text(writer->out, ">]\n");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* peak_text.c: what makes the peak of a plan, as text and as JSON; see peak.h. */
#include "compiler/report/peak.h"
#include "compiler/report/loop.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LINES = 10, MOST_ITEMS = 100, DEEPEST = 4 };

/* "Conv \"stem\"", or only "Conv". */
static char *node_print(const plan *of, uint32_t index, char *text, size_t capacity) {
    const plan_node *node = &of->nodes[index];
    const char *name = of->texts + node->name;
    if (node->graph_count) {
        char loop[256];
        snprintf(text, capacity, "%s \"%s\"", of->texts + node->operator_name,
                 emit_loop_name(of, index, loop, sizeof loop));
    } else {
        snprintf(text, capacity, name[0] ? "%s \"%s\"" : "%s", of->texts + node->operator_name, name);
    }
    return text;
}

char *emit_peak_why(const plan *of, const peak *found, const peak_item *item, char *text, size_t capacity) {
    char node[320];
    switch (item->kind) {
    case PEAK_SCRATCH:
        snprintf(text, capacity, "what its kernel works in");
        return text;
    case PEAK_REGION:
        snprintf(text, capacity, "what its sub-graphs need while it runs");
        return text;
    case PEAK_ROTATES:
        snprintf(text, capacity, "one of the buffers that change hands from iteration to iteration");
        return text;
    case PEAK_TENSOR:
    case PEAK_TENANT:
        break;
    }
    if (item->last == PLAN_ABSENT) {
        snprintf(text, capacity, "%sa result of the graph", item->first == found->step ? "made here, " : "");
    } else if (item->ends == found->step) {
        snprintf(text, capacity, "%s",
                 item->first == found->step ? "made here" : "read here, for the last time");
    } else {
        snprintf(text, capacity, "%sread by %s in step %" PRId64,
                 item->first == found->step ? "made here, " : "",
                 node_print(of, item->last, node, sizeof node), item->ends);
    }
    return text;
}

char *emit_peak_name(const plan *of, const peak *found, const peak_item *item, char *text, size_t capacity) {
    char node[320];
    if (item->tensor != PLAN_ABSENT) {
        snprintf(text, capacity, "%s", of->texts + of->tensors[item->tensor].name);
    } else {
        snprintf(text, capacity, "%s of %s", item->kind == PEAK_SCRATCH ? "scratch" : "sub-graphs",
                 found->node == PLAN_ABSENT ? "" : node_print(of, found->node, node, sizeof node));
    }
    return text;
}

/* The sub-graph of a node with the largest region, which is where its own peak is. PLAN_ABSENT: none has any. */
static uint32_t largest_region(const plan *of, uint32_t index) {
    const plan_node *node = &of->nodes[index];
    uint32_t largest = PLAN_ABSENT;
    for (uint32_t g = node->first_graph; g < node->first_graph + node->graph_count; g++) {
        if (!of->graphs[g].region_bytes) continue;
        if (largest == PLAN_ABSENT || of->graphs[g].region_bytes > of->graphs[largest].region_bytes)
            largest = g;
    }
    return largest;
}

static bool print_graph(FILE *file, const plan *of, uint32_t graph, int depth, base_arena *arena) {
    peak found;
    char text[2][512], size[32];
    const int indent = 2 * depth;
    if (!emit_peak_find(of, graph, arena, &found)) return false;
    if (found.node == PLAN_ABSENT || !found.bytes) return true;
    fprintf(file, "%*s%s: %s live in step %" PRId64 " of %" PRId64 ", %s\n", indent, "",
            depth ? of->texts + of->graphs[graph].name : "peak",
            emit_size_print((size_t)found.bytes, size, sizeof size), found.step, found.steps,
            node_print(of, found.node, text[0], sizeof text[0]));
    for (size_t i = 0; i < found.count && i < MOST_LINES; i++) {
        const peak_item *item = &found.items[i];
        fprintf(file, "%*s  %10s  %-28s", indent, "", emit_size_print((size_t)item->bytes, size, sizeof size),
                emit_peak_name(of, &found, item, text[0], sizeof text[0]));
        if (item->kind == PEAK_TENSOR)
            fprintf(file, " %s;",
                    item->producer == PLAN_ABSENT ? "given from outside"
                                                  : node_print(of, item->producer, text[1], sizeof text[1]));
        fprintf(file, " %s\n", emit_peak_why(of, &found, item, text[1], sizeof text[1]));
    }
    if (found.count > MOST_LINES)
        fprintf(file, "%*s  and %zu smaller ones\n", indent, "", found.count - MOST_LINES);
    const uint32_t inner = largest_region(of, found.node);
    return inner == PLAN_ABSENT || depth == DEEPEST || print_graph(file, of, inner, depth + 1, arena);
}

bool emit_peak_print(FILE *file, const plan *of, base_arena *arena) {
    return print_graph(file, of, 0, 0, arena);
}

static bool emit_graph(emit_buffer *json, const plan *of, const char *key, uint32_t graph, int depth,
                       base_arena *arena) {
    peak found;
    char text[512];
    if (!emit_peak_find(of, graph, arena, &found)) return false;
    emit_json_open(json, key, '{');
    emit_json_integer(json, "bytes", found.bytes);
    emit_json_signed(json, "step", found.step);
    emit_json_signed(json, "steps", found.steps);
    emit_json_text(json, "node", found.node == PLAN_ABSENT ? NULL : of->texts + of->nodes[found.node].name);
    emit_json_text(json, "operator",
                   found.node == PLAN_ABSENT ? NULL : of->texts + of->nodes[found.node].operator_name);
    emit_json_open(json, "tensors", '[');
    for (size_t i = 0; i < found.count && i < MOST_ITEMS; i++) {
        static const char *const kinds[] = {"tensor", "rotating", "scratch", "sub-graphs"};
        const peak_item *item = &found.items[i];
        emit_json_open(json, NULL, '{');
        emit_json_text(json, "tensor", emit_peak_name(of, &found, item, text, sizeof text));
        emit_json_text(json, "kind", kinds[item->kind]);
        emit_json_integer(json, "bytes", item->bytes);
        emit_json_integer(json, "offset", item->offset);
        emit_json_text(json, "producer",
                       item->producer == PLAN_ABSENT ? NULL
                                                     : node_print(of, item->producer, text, sizeof text));
        emit_json_signed(json, "first_step", item->first);
        emit_json_signed(json, "last_step", item->ends);
        emit_json_text(json, "why", emit_peak_why(of, &found, item, text, sizeof text));
        emit_json_close(json, '}');
    }
    emit_json_close(json, ']');
    const uint32_t inner = found.node == PLAN_ABSENT ? PLAN_ABSENT : largest_region(of, found.node);
    bool done =
        inner == PLAN_ABSENT || depth == DEEPEST || emit_graph(json, of, "within", inner, depth + 1, arena);
    emit_json_close(json, '}');
    return done;
}

bool emit_peak_emit(emit_buffer *json, const plan *of, base_arena *arena) {
    return emit_graph(json, of, "peak", 0, 0, arena);
}

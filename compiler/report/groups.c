/* SPDX-License-Identifier: Apache-2.0 */
/* groups.c: see groups.h.
 *
 * The nodes of a container (a graph, or the block of a repeat) are sorted by name, so that those that begin alike are a range. At first
 * all are one range. The largest range that can be divided is: where the parts of the names after what is common in it differ. This
 * ends where more ranges would be too many. */
#include "compiler/report/groups.h"
#include <stdlib.h>
#include <string.h>

enum { LEAST_RANGES = 4 };

typedef struct range {
    uint32_t begin, end; /* among the sorted nodes */
    bool final;          /* cannot be divided further */
} range;

typedef struct named {
    const char *name;
    uint32_t node;
} named;

typedef struct grouping {
    const plan *of;
    emit_groups *groups;
    named *nodes; /* of the container */
    uint32_t count;
    range *ranges;
    uint32_t range_count;
} grouping;

static int by_name(const void *a, const void *b) {
    const named *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : x->node < y->node ? -1 : x->node > y->node;
}

static int by_node(const void *a, const void *b) {
    const named *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

static bool ends_part(char c) {
    return c == '/' || c == '.';
}

/* The bytes that two names have in common, in whole parts: up to and with a '/' or '.', or all of both. */
static size_t common(const char *a, const char *b) {
    size_t whole = 0, at = 0;
    while (a[at] && a[at] == b[at]) {
        at++;
        if (ends_part(a[at - 1])) whole = at;
    }
    return a[at] == b[at] ? at : whole;
}

static size_t common_of(const grouping *g, range r) {
    return common(g->nodes[r.begin].name, g->nodes[r.end - 1].name);
}

/* The names go on with the same part after `from` bytes. */
static bool same_part(const char *a, const char *b, size_t from) {
    const size_t both = common(a, b);
    return both > from || strcmp(a, b) == 0;
}

/* Divides range `index`; false where that makes more than `most` ranges in all, or nothing differs. */
static bool divide(grouping *g, uint32_t index, size_t most) {
    const range whole = g->ranges[index];
    const size_t from = common_of(g, whole);
    uint32_t parts = 1;
    for (uint32_t i = whole.begin + 1; i < whole.end; i++)
        parts += !same_part(g->nodes[i - 1].name, g->nodes[i].name, from);
    if (parts == 1 || g->range_count + parts - 1 > most) return false;
    g->ranges[index].end = whole.begin + 1;
    uint32_t last = index;
    for (uint32_t i = whole.begin + 1; i < whole.end; i++) {
        if (!same_part(g->nodes[i - 1].name, g->nodes[i].name, from)) {
            last = g->range_count++;
            g->ranges[last] = (range){.begin = i};
        }
        g->ranges[last].end = i + 1;
    }
    return true;
}

/* Nodes that follow each other, in equal numbers: what remains where their names have too many different parts. */
static void divide_by_order(grouping *g, uint32_t index, size_t most) {
    const range whole = g->ranges[index];
    const uint32_t length = whole.end - whole.begin;
    const uint32_t parts = most > g->range_count ? (uint32_t)(most - g->range_count) + 1 : 1;
    if (parts < 2 || length < 2 * parts) return;
    qsort(g->nodes + whole.begin, length, sizeof *g->nodes, by_node);
    for (uint32_t i = 0; i < parts; i++) {
        const range part = {.begin = whole.begin + (uint32_t)((uint64_t)length * i / parts),
                            .end = whole.begin + (uint32_t)((uint64_t)length * (i + 1) / parts),
                            .final = true};
        g->ranges[i ? g->range_count++ : index] = part;
    }
}

/* The largest range that may still be divided; UINT32_MAX: none. */
static uint32_t largest(const grouping *g) {
    uint32_t best = UINT32_MAX, length = 1;
    for (uint32_t i = 0; i < g->range_count; i++) {
        const range r = g->ranges[i];
        if (r.final || r.end - r.begin <= length) continue;
        best = i;
        length = r.end - r.begin;
    }
    return best;
}

static void keep_groups(grouping *g) {
    emit_groups *groups = g->groups;
    for (uint32_t i = 0; i < g->range_count; i++) {
        const range r = g->ranges[i];
        const uint32_t length = r.end - r.begin;
        uint32_t first = g->nodes[r.begin].node;
        for (uint32_t k = r.begin; k < r.end; k++)
            if (g->nodes[k].node < first) first = g->nodes[k].node;
        size_t both = strlen(g->nodes[r.begin].name);
        for (uint32_t k = r.begin; k < r.end; k++) {
            const size_t here = common(g->nodes[r.begin].name, g->nodes[k].name);
            if (here < both) both = here;
            groups->first[g->nodes[k].node] = first;
            groups->count[g->nodes[k].node] = 0;
        }
        groups->count[first] = length;
        groups->name[first] = (uint32_t)both;
        groups->groups += length > 1;
    }
}

/* What stands in g->nodes, in about `most` groups. */
static bool group_container(grouping *g, size_t most, base_arena *arena) {
    if (most < LEAST_RANGES) most = LEAST_RANGES;
    if (g->count <= most) return true;
    g->ranges = BASE_ARRAY(arena, range, most + 1);
    if (!g->ranges) return false;
    qsort(g->nodes, g->count, sizeof *g->nodes, by_name);
    g->ranges[0] = (range){.end = g->count};
    g->range_count = 1;
    for (uint32_t at; (at = largest(g)) != UINT32_MAX && g->range_count < most;) {
        if (divide(g, at, most)) continue;
        const uint32_t length = g->ranges[at].end - g->ranges[at].begin;
        /* Most of the nodes in one box tell nothing. */
        if (length > g->count / 4) divide_by_order(g, at, most);
        g->ranges[at].final = true;
    }
    keep_groups(g);
    return true;
}

/* The nodes from `begin` to `end` that are drawn and own no graphs, without those of repeats where `repeats` is not to be looked into. A node
 * without a name goes by that of the one before. */
static void gather(grouping *g, const emit_folding *folding, uint32_t begin, uint32_t end, bool whole_graph) {
    const char *name = "";
    g->count = 0;
    for (uint32_t n = begin; n < end; n++) {
        if (folding->drawn[n] != n || g->of->nodes[n].graph_count) continue;
        if (whole_graph && emit_fold_find(folding, n)) continue;
        if (g->of->texts[g->of->nodes[n].name]) name = g->of->texts + g->of->nodes[n].name;
        g->nodes[g->count++] = (named){name, n};
    }
}

static bool group_graph(grouping *g, const plan_graph *graph, const emit_folding *folding, size_t most,
                        size_t remaining, base_arena *arena) {
    const uint32_t begin = (uint32_t)graph->nodes, end = begin + (uint32_t)graph->node_count;
    size_t boxes = 0;
    for (uint32_t n = begin; n < end; n++) boxes += folding->drawn[n] == n;
    if (boxes <= most) return true;
    gather(g, folding, begin, end, true);
    if (!group_container(g, (size_t)((double)remaining * g->count / (double)boxes), arena)) return false;
    for (size_t i = 0; i < folding->repeat_count; i++) {
        const emit_repeat *repeat = &folding->repeats[i];
        if (repeat->first < begin || repeat->first >= end) continue;
        gather(g, folding, repeat->first, repeat->first + repeat->period, false);
        if (!group_container(g, (size_t)((double)remaining * g->count / (double)boxes), arena)) return false;
    }
    return true;
}

bool emit_group(const plan *of, const emit_folding *folding, size_t most, size_t remaining, base_arena *arena,
                emit_groups *groups) {
    const size_t nodes = (size_t)of->header->nodes.count;
    grouping g = {.of = of, .groups = groups, .nodes = BASE_ARRAY(arena, named, nodes + 1)};
    *groups = (emit_groups){.first = BASE_ARRAY(arena, uint32_t, nodes + 1),
                            .count = BASE_ARRAY(arena, uint32_t, nodes + 1),
                            .name = BASE_ARRAY(arena, uint32_t, nodes + 1)};
    if (!g.nodes || !groups->first || !groups->count || !groups->name) return false;
    for (uint32_t n = 0; n < nodes; n++) {
        groups->first[n] = n;
        groups->count[n] = 1;
    }
    for (uint64_t i = 0; i < of->header->graphs.count && nodes > most; i++)
        if (!group_graph(&g, &of->graphs[i], folding, most, remaining, arena)) return false;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* repeats.c: see repeats.h.
 *
 * For each period p the nodes are compared with those p later. Where p or more in a row are the same, a block stands there at least
 * twice. The repeat that leaves out the most nodes is taken; then the rest is searched again. */
#include "compiler/report/repeats.h"
#include <string.h>

enum { LONGEST_PERIOD = 1024, LEAST_LEFT_OUT = 6, MOST_REPEATS = 64 };

typedef struct search {
    const plan *of;
    const plan_graph *graph;
    uint32_t *makers; /* by tensor id: the node; PLAN_ABSENT: a parameter or a constant */
    uint64_t *hashes; /* by node: of what it is, without its inputs */
    bool *taken;      /* by node: in a repeat */
    /* The nodes of a first block, whose inputs may be others than those of later blocks; period 0: no such ones. */
    uint32_t first, period;
} search;

/* ---- the same ------------------------------------------------------------------------------------------ */

static bool same_text(const plan *of, uint32_t a, uint32_t b) {
    return a == b || strcmp(of->texts + a, of->texts + b) == 0;
}

static bool same_type(const plan *of, uint32_t a, uint32_t b) {
    const plan_tensor *x = &of->tensors[a], *y = &of->tensors[b];
    if (x->kind != y->kind || x->dtype != y->dtype || x->rank != y->rank || x->layout != y->layout)
        return false;
    return x->rank <= 0 ||
           memcmp(of->integers + x->dims, of->integers + y->dims, (size_t)x->rank * sizeof(int64_t)) == 0;
}

/* Lists of texts: where each begins, and its length. */
static bool same_texts(const plan *of, const plan_attribute *a, const plan_attribute *b) {
    const int64_t *x = of->integers + a->value, *y = of->integers + b->value;
    for (uint64_t i = 0; i < 2 * a->count; i += 2)
        if (x[i + 1] != y[i + 1] || memcmp(of->texts + x[i], of->texts + y[i], (size_t)x[i + 1]) != 0)
            return false;
    return true;
}

static bool same_attribute(const plan *of, const plan_attribute *a, const plan_attribute *b) {
    if (a->kind != b->kind || a->count != b->count || !same_text(of, a->name, b->name)) return false;
    if (a->value == b->value) return true;
    switch ((op_attribute_kind)a->kind) {
    case OP_ATTRIBUTE_STRING:
        return same_text(of, (uint32_t)a->value, (uint32_t)b->value);
    case OP_ATTRIBUTE_INTS:
    case OP_ATTRIBUTE_FLOATS:
        return memcmp(of->integers + a->value, of->integers + b->value, a->count * sizeof(int64_t)) == 0;
    case OP_ATTRIBUTE_STRINGS:
        return same_texts(of, a, b);
    default:
        return false;
    }
}

static uint64_t hash_node(const plan *of, const plan_node *node) {
    const char *name = of->texts + node->operator_name, *kernel = of->texts + node->kernel;
    const uint64_t counts[] = {node->input_count, node->output_count, node->attribute_count,
                               node->flags & (PLAN_NODE_ALIAS | PLAN_NODE_DYNAMIC)};
    return base_hash(counts, sizeof counts,
                     base_hash(kernel, strlen(kernel), base_hash(name, strlen(name), 0)));
}

/* Of one node and of one that stands `apart` later. */
static bool same_input(const search *s, uint32_t a, uint32_t b, uint32_t apart) {
    if (a == PLAN_ABSENT || b == PLAN_ABSENT) return a == b;
    if (a == b) return true;
    if (!same_type(s->of, a, b)) return false;
    const uint32_t x = s->makers[a], y = s->makers[b];
    /* The next block reads what this one makes: this one reads what was there before. */
    if (s->period && y != PLAN_ABSENT && y >= s->first && y < s->first + s->period &&
        (x == PLAN_ABSENT || x < s->first))
        return true;
    if (x == PLAN_ABSENT || y == PLAN_ABSENT)
        return x == y && (s->of->tensors[a].address.space == MEMORY_CONSTANT) ==
                             (s->of->tensors[b].address.space == MEMORY_CONSTANT);
    return x == y || y - x == apart;
}

static bool same_node(const search *s, uint32_t a, uint32_t apart) {
    const plan *of = s->of;
    const plan_node *x = &of->nodes[a], *y = &of->nodes[a + apart];
    if (s->hashes[a] != s->hashes[a + apart] || x->graph_count || y->graph_count) return false;
    if (!same_text(of, x->operator_name, y->operator_name) || !same_text(of, x->kernel, y->kernel) ||
        !same_text(of, x->operator_domain, y->operator_domain) || x->input_count != y->input_count ||
        x->output_count != y->output_count || x->attribute_count != y->attribute_count)
        return false;
    for (uint64_t i = 0; i < x->attribute_count; i++)
        if (!same_attribute(of, &of->attributes[x->attributes + i], &of->attributes[y->attributes + i]))
            return false;
    for (uint64_t i = 0; i < x->input_count; i++)
        if (!same_input(s, of->tensor_ids[x->inputs + i], of->tensor_ids[y->inputs + i], apart)) return false;
    for (uint64_t i = 0; i < x->output_count; i++) {
        const uint32_t from = of->tensor_ids[x->outputs + i], to = of->tensor_ids[y->outputs + i];
        if ((from == PLAN_ABSENT) != (to == PLAN_ABSENT)) return false;
        if (from != PLAN_ABSENT && !same_type(of, from, to)) return false;
    }
    return true;
}

/* ---- the search ---------------------------------------------------------------------------------------- */

/* How many tensors go from nodes before `at` to the `period` nodes from there on. */
static size_t count_crossing(const search *s, uint32_t at, uint32_t period) {
    size_t crossing = 0;
    for (uint32_t n = at; n < at + period; n++) {
        const plan_node *node = &s->of->nodes[n];
        for (uint64_t i = 0; i < node->input_count; i++) {
            const uint32_t id = s->of->tensor_ids[node->inputs + i];
            if (id == PLAN_ABSENT || s->makers[id] == PLAN_ABSENT || s->makers[id] >= at) continue;
            bool counted = false;
            for (uint32_t m = at; m <= n && !counted; m++) {
                const plan_node *other = &s->of->nodes[m];
                for (uint64_t k = 0; k < (m < n ? other->input_count : i) && !counted; k++)
                    counted = s->of->tensor_ids[other->inputs + k] == id;
            }
            crossing += !counted;
        }
    }
    return crossing;
}

/* Node `n` can be one of a first block from `first` on: it is as the one of the next block, but where that reads what this block makes, it
 * may read something else from before. */
static bool begins(search *s, uint32_t n, uint32_t first, uint32_t period) {
    const plan_node *x = &s->of->nodes[n], *y = &s->of->nodes[n + period];
    s->first = first;
    s->period = period;
    const bool same = !s->taken[n] && x->input_count == y->input_count && same_node(s, n, period);
    s->period = 0;
    return same;
}

/* Of `run` nodes from `start` on that are the same as those `period` later: as many whole blocks as there are, also if they begin
 * earlier, beginning where the fewest tensors go from one to the next; of equals, where names have most in common. */
static emit_repeat cut_run(search *s, uint32_t start, uint32_t run, uint32_t period) {
    emit_repeat best = {0};
    size_t least = SIZE_MAX, longest = 0;
    const uint32_t begin = (uint32_t)s->graph->nodes, end = start + run + period;
    const uint32_t earliest = start - begin < period ? begin : start - period;
    for (uint32_t first = earliest; first <= start + run % period; first++) {
        const emit_repeat cut = {first, period, (end - first) / period};
        bool fits = true;
        for (uint32_t n = first; n < start && fits; n++) fits = begins(s, n, first, period);
        if (!fits || cut.count < best.count) continue;
        const size_t crossing = count_crossing(s, first + period, period),
                     prefix = emit_fold_prefix(s->of, &cut);
        if (cut.count == best.count && (crossing > least || (crossing == least && prefix <= longest)))
            continue;
        least = crossing;
        longest = prefix;
        best = cut;
    }
    return best;
}

/* The repeat among the nodes that are not taken that leaves out the most; count 0: there is none. */
static emit_repeat find_best(search *s) {
    uint32_t start = 0, length = 0, of_period = 0;
    uint32_t saved = LEAST_LEFT_OUT - 1;
    const uint32_t begin = (uint32_t)s->graph->nodes, end = begin + (uint32_t)s->graph->node_count;
    for (uint32_t period = 1; period <= (end - begin) / 2 && period <= LONGEST_PERIOD; period++) {
        for (uint32_t at = begin; at + period < end;) {
            uint32_t run = 0;
            while (at + run + period < end && !s->taken[at + run] && !s->taken[at + run + period] &&
                   same_node(s, at + run, period))
                run++;
            if (run / period * period > saved) {
                start = at;
                length = run;
                of_period = period;
                saved = run / period * period;
            }
            at += run + 1;
        }
    }
    return of_period ? cut_run(s, start, length, of_period) : (emit_repeat){0};
}

static void sort_repeats(emit_folding *folding) {
    for (size_t i = 1; i < folding->repeat_count; i++) {
        const emit_repeat one = folding->repeats[i];
        size_t at = i;
        for (; at && folding->repeats[at - 1].first > one.first; at--)
            folding->repeats[at] = folding->repeats[at - 1];
        folding->repeats[at] = one;
    }
}

/* ---- what is left out ---------------------------------------------------------------------------------- */

static bool is_parameter(const search *s, uint32_t id) {
    return id != PLAN_ABSENT && s->makers[id] == PLAN_ABSENT &&
           s->of->tensors[id].address.space != MEMORY_CONSTANT;
}

/* Inputs of the model that each block has one of: the first one stands for all. */
static void fold_parameters(const search *s, const emit_repeat *repeat, uint32_t *times) {
    const plan *of = s->of;
    for (uint32_t n = repeat->first; n < repeat->first + repeat->period; n++) {
        for (uint64_t i = 0; i < of->nodes[n].input_count; i++) {
            const uint32_t id = of->tensor_ids[of->nodes[n].inputs + i];
            const uint32_t next = of->tensor_ids[of->nodes[n + repeat->period].inputs + i];
            if (!is_parameter(s, id) || !is_parameter(s, next) || id == next) continue;
            times[id] = repeat->count;
            for (uint32_t k = 1; k < repeat->count; k++)
                times[of->tensor_ids[of->nodes[n + k * repeat->period].inputs + i]] = 0;
        }
    }
}

/* The same of outputs. */
static void fold_results(const search *s, const emit_repeat *repeat, const bool *is_result, uint32_t *times) {
    const plan *of = s->of;
    for (uint32_t n = repeat->first; n < repeat->first + repeat->period; n++) {
        for (uint64_t i = 0; i < of->nodes[n].output_count; i++) {
            const uint32_t id = of->tensor_ids[of->nodes[n].outputs + i];
            uint32_t count = 0;
            for (uint32_t k = 0; k < repeat->count; k++) {
                const uint32_t other = of->tensor_ids[of->nodes[n + k * repeat->period].outputs + i];
                count += other != PLAN_ABSENT && is_result[other];
            }
            if (count != repeat->count) continue;
            times[id] = count;
            for (uint32_t k = 1; k < count; k++)
                times[of->tensor_ids[of->nodes[n + k * repeat->period].outputs + i]] = 0;
        }
    }
}

static bool fold_graph(search *s, emit_folding *folding, base_arena *arena) {
    const plan *of = s->of;
    bool *is_result = BASE_ARRAY(arena, bool, (size_t)of->header->tensors.count);
    if (!is_result) return false;
    for (uint64_t i = 0; i < s->graph->result_count; i++)
        if (of->tensor_ids[s->graph->results + i] != PLAN_ABSENT)
            is_result[of->tensor_ids[s->graph->results + i]] = true;
    while (folding->repeat_count < MOST_REPEATS) {
        const emit_repeat best = find_best(s);
        if (!best.count) break;
        folding->repeats[folding->repeat_count++] = best;
        for (uint32_t n = best.first; n < best.first + best.period * best.count; n++) {
            s->taken[n] = true;
            folding->drawn[n] = best.first + (n - best.first) % best.period;
        }
        fold_parameters(s, &best, folding->times);
        fold_results(s, &best, is_result, folding->times);
    }
    return true;
}

bool emit_fold(const plan *of, size_t most, base_arena *arena, emit_folding *folding) {
    const size_t nodes = (size_t)of->header->nodes.count, tensors = (size_t)of->header->tensors.count;
    search s = {.of = of,
                .makers = BASE_ARRAY(arena, uint32_t, tensors),
                .hashes = BASE_ARRAY(arena, uint64_t, nodes),
                .taken = BASE_ARRAY(arena, bool, nodes)};
    *folding = (emit_folding){.repeats = BASE_ARRAY(arena, emit_repeat, MOST_REPEATS),
                              .drawn = BASE_ARRAY(arena, uint32_t, nodes),
                              .times = BASE_ARRAY(arena, uint32_t, tensors)};
    if (!s.makers || !s.hashes || !s.taken || !folding->repeats || !folding->drawn || !folding->times)
        return false;
    for (uint32_t id = 0; id < tensors; id++) {
        s.makers[id] = PLAN_ABSENT;
        folding->times[id] = 1;
    }
    for (uint32_t n = 0; n < nodes; n++) {
        folding->drawn[n] = n;
        s.hashes[n] = hash_node(of, &of->nodes[n]);
        for (uint64_t i = 0; i < of->nodes[n].output_count; i++) {
            const uint32_t id = of->tensor_ids[of->nodes[n].outputs + i];
            if (id != PLAN_ABSENT) s.makers[id] = n;
        }
    }
    for (uint64_t g = 0; g < of->header->graphs.count && nodes > most; g++) {
        s.graph = &of->graphs[g];
        if (!fold_graph(&s, folding, arena)) return false;
    }
    sort_repeats(folding);
    return true;
}

const emit_repeat *emit_fold_find(const emit_folding *folding, uint32_t node) {
    for (size_t i = 0; i < folding->repeat_count; i++) {
        const emit_repeat *repeat = &folding->repeats[i];
        if (node >= repeat->first && node < repeat->first + repeat->period) return repeat;
    }
    return NULL;
}

size_t emit_fold_prefix(const plan *of, const emit_repeat *repeat) {
    const char *common = NULL;
    size_t length = 0;
    for (uint32_t n = repeat->first; n < repeat->first + repeat->period; n++) {
        const char *name = of->texts + of->nodes[n].name;
        if (!name[0]) continue;
        if (!common) {
            common = name;
            length = strlen(name);
        }
        size_t equal = 0;
        while (equal < length && common[equal] == name[equal]) equal++;
        length = equal;
    }
    while (length && !strchr("/._", common[length - 1])) length--;
    return length;
}

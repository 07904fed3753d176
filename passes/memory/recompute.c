/* SPDX-License-Identifier: Apache-2.0 */
/* recompute.c: what is cheap to compute is computed again at a later reader, instead of being kept until then.
 *
 *     %m: [1,8,64,64] = Expand(%mask)  %a = Add(%x, %m) ... the peak ...           %b = Add(%y, %m)
 *  => %m: [1,8,64,64] = Expand(%mask)  %a = Add(%x, %m) ... the peak ... %n = Expand(%mask)  %b = Add(%y, %n)
 *
 * Only where the limit of the arena asks for it (pass_options.arena_limit). Live ranges are estimated in the order of the list. Of
 * the values that nobody reads in a full step, but before it and after it, the one is taken that lowers these steps most for the
 * time it takes; and so on. Each of its inputs is live at the later reader anyhow, is cheap to compute as well, or is smaller, and kept longer.
 *
 * Estimates know nothing of orders and planners: what is found is tried on a copy of the module, and kept if the arena comes
 * out smaller. Where that alone does not meet the limit, bands follow (make-bands); then what both come to is compared with what
 * bands come to alone.
 *
 * Needs: types, final layouts; somebody reads every node. Breaks: nothing. Guarantees: nodes of the main graph are only repeated, with
 * the same inputs, attributes and types, so that values stay what they were, to the bit; somebody reads every node.
 */
#include "passes/bands/estimate.h"
#include "passes/bands/row_maps.h"
#include "passes/memory/memory.h"
#include <stdlib.h>

enum {
    MOST_NODES = 1 << 15, /* of a main graph that is looked at */
    MOST_EDITS = 256,
    MOST_REPEATED = 8, /* nodes for one reader */
    MOST_KEPT = 8      /* values that are kept longer for one reader */
};

/* Steps are full that have at least so much of the peak live, where the least arena is asked for. */
static const double FULL = 0.97;
/* By what the share is lowered at least, where the arena came out too large. */
static const double SMALLER = 0.95;

/* Values that are the same bytes: one and those that are views of it. */
typedef struct storage {
    ir_value *root;
    int64_t bytes, first, last; /* steps; live from the first to the last one */
    bool fixed;                 /* somebody reads it who is given no other value */
} storage;

typedef struct reader {
    ir_use *use;
    int64_t step;
} reader;

/* One value, computed again before a step. */
typedef struct edit {
    const storage *of;
    int64_t step, idle; /* the step of its next reader, and that of the reader before */
    const ir_node *repeated[MOST_REPEATED];
    const storage *kept[MOST_KEPT];
    size_t repeated_count, kept_count;
    int64_t more; /* bytes of what is repeated, beside the value */
    double seconds, gain;
} edit;

typedef struct recomputer {
    ir_module *module;
    ir_graph *graph;
    base_arena *arena; /* of one round */
    ir_node **nodes;   /* by step */
    int64_t *steps;    /* by node id */
    int64_t count;
    storage *storages; /* [0] is unused */
    size_t storage_count;
    const band_rates *rates;
    uint32_t *storage_of; /* by value id; 0: it is not in the arena */
    int64_t *live;        /* by step */
    int64_t full;         /* bytes: steps with more are too full */
} recomputer;

/* What was chosen. */
typedef struct recomputed {
    pass_recomputed list[MOST_EDITS];
    size_t count;
    double seconds;
} recomputed;

/* ---- live ranges, as estimated --------------------------------------------------------------------------- */

static int64_t bytes_of(const ir_value *value) {
    size_t bytes;
    return op_type_bytes(&value->type, &bytes) && bytes <= INT64_MAX / (1 << 16) ? (int64_t)bytes : 0;
}

static bool is_view(const ir_node *node) {
    return op_schema_of(node->code)->view == OP_VIEW_SAME && node->output_count == 1;
}

/* The step of the main graph that the use belongs to; -1: it is a result of a graph. */
static int64_t step_of(const recomputer *r, const ir_use *use) {
    const ir_node *node = use->node;
    while (node && node->graph != r->graph) node = node->graph->owner;
    return node ? r->steps[node->id.index] : -1;
}

static void read_uses(const recomputer *r, const ir_value *value, storage *of) {
    for (const ir_use *use = value->uses; use; use = use->next) {
        const int64_t step = step_of(r, use);
        if (step < 0) of->fixed = true;
        if (step > of->last) of->last = step;
    }
}

static storage *add_storages(recomputer *r, const ir_node *node, int64_t step) {
    storage *first = NULL;
    for (uint32_t o = 0; o < node->output_count; o++) {
        ir_value *output = node->outputs[o];
        if (!output) continue;
        const ir_value *input = is_view(node) ? ir_input(node, 0) : NULL;
        uint32_t *own = &r->storage_of[output->id.index];
        *own = input ? r->storage_of[input->id.index] : (uint32_t)++r->storage_count;
        if (!*own) continue;
        if (!input)
            r->storages[*own] =
                (storage){.root = output, .bytes = bytes_of(output), .first = step, .last = step};
        read_uses(r, output, &r->storages[*own]);
        if (!first) first = &r->storages[*own];
    }
    return first;
}

/* What the node writes over of what it reads. */
static int64_t written_over(const recomputer *r, const ir_node *node, int64_t step, int64_t bytes) {
    const op_schema *schema = op_schema_of(node->code);
    if (schema->view == OP_VIEW_CONCAT || schema->view == OP_VIEW_SPLIT || schema->view == OP_VIEW_SLICE)
        return bytes;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        const storage *read = input ? &r->storages[r->storage_of[input->id.index]] : NULL;
        if (!read || !read->root || !op_may_write_over(schema, 0, i)) continue;
        if (read->last == step && !read->fixed && read->bytes >= bytes) return bytes;
    }
    return 0;
}

static bool find_live(recomputer *r) {
    const size_t count = (size_t)r->graph->node_count;
    size_t outputs = 0;
    r->count = (int64_t)count;
    r->nodes = BASE_ARRAY(r->arena, ir_node *, count + 1);
    r->steps = BASE_ARRAY(r->arena, int64_t, r->module->node_count);
    r->storage_of = BASE_ARRAY(r->arena, uint32_t, r->module->value_count);
    r->live = BASE_ARRAY(r->arena, int64_t, count + 2);
    if (!r->nodes || !r->steps || !r->storage_of || !r->live) return false;
    int64_t step = 0;
    for (ir_node *node = r->graph->first; node; node = node->next) {
        outputs += node->output_count;
        r->nodes[step] = node;
        r->steps[node->id.index] = step++;
    }
    r->storages = BASE_ARRAY(r->arena, storage, outputs + 1);
    if (!r->storages) return false;
    r->storage_count = 0;
    for (int64_t n = 0; n < r->count; n++) add_storages(r, r->nodes[n], n);
    for (size_t i = 1; i <= r->storage_count; i++) {
        const storage *of = &r->storages[i];
        r->live[of->first] += of->fixed ? 0 : of->bytes;
        r->live[of->last + 1] -= of->fixed ? 0 : of->bytes;
    }
    for (int64_t n = 1; n < r->count; n++) r->live[n] += r->live[n - 1];
    for (int64_t n = 0; n < r->count; n++) {
        int64_t made = 0;
        for (uint32_t o = 0; o < r->nodes[n]->output_count; o++) {
            const ir_value *output = r->nodes[n]->outputs[o];
            const storage *of = output ? &r->storages[r->storage_of[output->id.index]] : NULL;
            if (of && of->root == output && !of->fixed) made += of->bytes;
        }
        r->live[n] -= written_over(r, r->nodes[n], n, made);
    }
    return true;
}

static int64_t peak_of(const recomputer *r) {
    int64_t peak = 0;
    for (int64_t n = 0; n < r->count; n++)
        if (r->live[n] > peak) peak = r->live[n];
    return peak;
}

/* ---- what can be repeated -------------------------------------------------------------------------------- */

static bool is_static(const ir_value *value) {
    size_t bytes;
    return value->type.kind == OP_KIND_TENSOR && value->type.dtype != OP_STRING &&
           op_type_bytes(&value->type, &bytes);
}

/* It reads and writes its tensors once, and does little with each element. */
static bool is_cheap(const ir_node *node) {
    const op_schema *schema = op_schema_of(node->code);
    if ((schema->flags & (OP_FLAG_EFFECT | OP_FLAG_GRAPHS | OP_FLAG_DYNAMIC | OP_FLAG_LISTS)) ||
        node->output_count != 1 || !is_static(node->outputs[0]))
        return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (ir_input(node, i) && !is_static(ir_input(node, i))) return false;
    if (is_view(node) || band_is_elementwise(node->code)) return true;
    switch (node->code) {
    case OP_BATCH_NORMALIZATION:
    case OP_CONSTANT_OF_SHAPE:
    case OP_DEPTH_TO_SPACE:
    case OP_DEQUANTIZE_LINEAR:
    case OP_EXPAND:
    case OP_GATHER:
    case OP_PAD:
    case OP_QUANTIZE_LINEAR:
    case OP_REORDER:
    case OP_RESIZE:
    case OP_SPACE_TO_DEPTH:
    case OP_TILE:
    case OP_TRANSPOSE:
        return true;
    default:
        return false;
    }
}

static bool is_repeated(const edit *e, const ir_node *node) {
    for (size_t i = 0; i < e->repeated_count; i++)
        if (e->repeated[i] == node) return true;
    return false;
}

static bool keep(edit *e, const storage *of) {
    for (size_t i = 0; i < e->kept_count; i++)
        if (e->kept[i] == of) return true;
    if (e->kept_count == MOST_KEPT) return false;
    e->kept[e->kept_count++] = of;
    return true;
}

/* Adds what it takes to have the value in step e->step. False: it cannot be had. */
static bool need(const recomputer *r, const ir_value *value, edit *e) {
    if (value->kind != IR_RESULT_OF_NODE || value->graph != r->graph) return true;
    const storage *of = &r->storages[r->storage_of[value->id.index]];
    if (of->root && of != e->of && (of->fixed || of->last >= e->step)) return true;
    const ir_node *node = value->node;
    if (is_repeated(e, node)) return true;
    const bool small = of->root && of != e->of && of->bytes <= e->of->bytes / 8;
    if (small || !is_cheap(node) || e->repeated_count == MOST_REPEATED)
        return of->root && of != e->of && keep(e, of);
    e->repeated[e->repeated_count++] = node;
    double moved = is_view(node) ? 0 : (double)bytes_of(value);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (!input) continue;
        if (!is_view(node)) moved += (double)bytes_of(input);
        if (!need(r, input, e)) return false;
    }
    if (of->root == value && of != e->of) e->more += of->bytes;
    e->seconds += band_move_seconds(r->rates, moved) + (is_view(node) ? 0 : band_step_seconds(r->rates));
    return true;
}

static double excess(const recomputer *r, int64_t live) {
    return live > r->full ? (double)(live - r->full) : 0;
}

/* By how many bytes, over all full steps, there is less in them. */
static double gain_of(const recomputer *r, const edit *e) {
    int64_t from = e->idle + 1;
    double gain = 0;
    for (size_t i = 0; i < e->kept_count; i++)
        if (e->kept[i]->last + 1 < from) from = e->kept[i]->last + 1;
    for (int64_t n = from; n <= e->step; n++) {
        int64_t now = r->live[n];
        if (n > e->idle && n < e->step) now -= e->of->bytes;
        for (size_t i = 0; i < e->kept_count; i++)
            if (n > e->kept[i]->last) now += e->kept[i]->bytes;
        if (n == e->step) now += e->more;
        gain += excess(r, r->live[n]) - excess(r, now);
    }
    return gain;
}

/* ---- which one ------------------------------------------------------------------------------------------- */

static bool add_reader(reader *readers, size_t *count, size_t most, ir_use *use, int64_t step) {
    if (*count == most) return false;
    readers[(*count)++] = (reader){use, step};
    return true;
}

/* Who reads the value or a view of it; the views themselves do not count. False: more than there is memory for. */
static bool collect_readers(const recomputer *r, const ir_value *value, reader *readers, size_t *count,
                            size_t most) {
    for (ir_use *use = value->uses; use; use = use->next) {
        const ir_node *node = use->node;
        const bool view = node && node->graph == r->graph && use->index == 0 && is_view(node);
        if (view ? !collect_readers(r, node->outputs[0], readers, count, most)
                 : !add_reader(readers, count, most, use, step_of(r, use)))
            return false;
    }
    return true;
}

static int compare_readers(const void *left, const void *right) {
    const reader *a = left, *b = right;
    return a->step != b->step ? (a->step > b->step) - (a->step < b->step)
                              : (a->use->index > b->use->index) - (a->use->index < b->use->index);
}

enum { MOST_READERS = 256 };

/* The readers of the storage, in the order of their steps; 0: there are too many. */
static size_t read_readers(const recomputer *r, const storage *of, reader *readers) {
    size_t count = 0;
    if (!collect_readers(r, of->root, readers, &count, MOST_READERS)) return 0;
    qsort(readers, count, sizeof *readers, compare_readers);
    return count;
}

static void try_storage(const recomputer *r, const storage *of, double budget, edit *best) {
    reader readers[MOST_READERS];
    if (of->fixed || !of->bytes || of->last - of->first < 2 || !is_cheap(of->root->node)) return;
    const size_t count = read_readers(r, of, readers);
    for (size_t i = 1; i < count; i++) {
        edit tried = {.of = of, .step = readers[i].step, .idle = readers[i - 1].step};
        if (tried.step < tried.idle + 2) continue;
        if (!need(r, readers[i].use->value, &tried)) continue;
        tried.gain = gain_of(r, &tried);
        if (tried.gain <= 0 || tried.seconds > budget) continue;
        if (!best->of || tried.gain * best->seconds > best->gain * tried.seconds) *best = tried;
    }
}

/* ---- carried out ----------------------------------------------------------------------------------------- */

typedef struct copies {
    const ir_value *of[MOST_REPEATED];
    ir_value *copy[MOST_REPEATED];
    size_t count;
} copies;

/* The value in a node of its own before `before`; itself, where it is not repeated. NULL when memory runs out. */
static ir_value *repeat(recomputer *r, const edit *e, ir_value *value, ir_node *before, copies *made) {
    if (value->kind != IR_RESULT_OF_NODE || !is_repeated(e, value->node)) return value;
    for (size_t i = 0; i < made->count; i++)
        if (made->of[i] == value) return made->copy[i];
    const ir_node *node = value->node;
    ir_value **inputs = BASE_ARRAY(r->arena, ir_value *, (size_t)node->input_count + 1);
    if (!inputs) return NULL;
    for (uint32_t i = 0; i < node->input_count; i++) {
        ir_value *input = ir_input(node, i);
        if (!input) continue;
        inputs[i] = repeat(r, e, input, before, made);
        if (!inputs[i]) return NULL;
    }
    ir_node *again = ir_node_new(r->graph, before, node->code, node->name, node->path, node->attributes,
                                 node->input_count, inputs);
    ir_value *copy = again ? ir_node_add_output(again, value->name, &value->type) : NULL;
    if (!copy) return NULL;
    again->reason = "computed again instead of kept";
    copy->symbolic = value->symbolic;
    made->of[made->count] = value;
    made->copy[made->count++] = copy;
    return copy;
}

/* Views that nobody reads any more. */
static void remove_unread(const recomputer *r, const ir_value *value) {
    while (value->kind == IR_RESULT_OF_NODE && value->graph == r->graph && !value->uses &&
           is_view(value->node)) {
        ir_node *node = value->node;
        value = ir_input(node, 0);
        ir_node_remove(node);
    }
}

/* All readers from e->step on read what is made before it. */
static bool carry_out(recomputer *r, const edit *e) {
    reader readers[MOST_READERS];
    const size_t count = read_readers(r, e->of, readers);
    ir_node *before = r->nodes[e->step];
    copies made = {.count = 0};
    edit all = *e;
    for (size_t i = 0; i < count; i++) {
        ir_use *use = readers[i].use;
        ir_value *was = use->value;
        if (readers[i].step < e->step) continue;
        if (!need(r, was, &all)) continue; /* it reads another view, of which there are too many */
        ir_value *again = repeat(r, &all, was, before, &made);
        if (!again || !ir_node_set_input(use->node, use->index, again)) return false;
        remove_unread(r, was);
    }
    return true;
}

static const char *name_of(const ir_node *node) {
    return *node->name || !node->outputs[0] ? node->name : node->outputs[0]->name;
}

/* Repeats nodes until no step has more than this share of the peak live that there was (0: as far as it goes), or nothing helps, or they
 * take more than the budget. Names in *done live in the module. False when memory runs out. */
static bool recompute(ir_module *module, const rt_environment *environment, double share, double budget,
                      base_arena *arena, recomputed *done) {
    int64_t peak = 0;
    *done = (recomputed){.count = 0};
    bool fine = true, any = true;
    while (fine && any && done->count < MOST_EDITS) {
        base_arena own;
        base_arena_init(&own, arena->allocator);
        recomputer r = {
            .module = module, .graph = module->main, .arena = &own, .rates = band_rates_of(environment)};
        edit best = {.of = NULL};
        fine = find_live(&r);
        if (fine && (share <= 0 || !done->count)) peak = peak_of(&r);
        r.full = (int64_t)((share > 0 ? share : FULL) * (double)peak);
        for (size_t i = 1; fine && i <= r.storage_count; i++)
            try_storage(&r, &r.storages[i], budget - done->seconds, &best);
        any = fine && best.of != NULL;
        if (any) {
            done->list[done->count++] = (pass_recomputed){.node = name_of(best.of->root->node),
                                                          .reader = name_of(r.nodes[best.step]),
                                                          .code = best.of->root->node->code,
                                                          .bytes = (size_t)best.of->bytes,
                                                          .seconds = best.seconds};
            done->seconds += best.seconds;
            fine = carry_out(&r, &best);
        }
        base_arena_free(&own);
    }
    return fine;
}

/* ---- what it comes to -------------------------------------------------------------------------------------- */

typedef struct outcome {
    size_t bytes;
    double seconds; /* more than without */
} outcome;

/* Of a copy of the module, with nodes repeated for this share of the peak or not at all (`with`), and with bands where
 * `banded`. *count is how many values were computed again. */
static base_status try_it(pass_context *context, bool with, double share, double budget, bool banded,
                          size_t *count, outcome *is) {
    ir_module *module = ir_module_clone(context->module);
    struct pass_measured measured = {.banded = banded};
    recomputed done = {.count = 0};
    if (!module) return base_fail_memory(context->report);
    base_status status = BASE_OK;
    if (with && !recompute(module, &context->options->environment, share, budget, context->scratch, &done))
        status = base_fail_memory(context->report);
    *count = done.count;
    if (status == BASE_OK && (done.count || !with)) status = context->measure(context, module, &measured);
    *is = (outcome){measured.arena, done.seconds + measured.more_seconds};
    ir_module_free(module);
    return status;
}

/* The first is to be had: it is within the limit where the other is not, or else smaller, or else faster. */
static bool is_better(const outcome *a, const outcome *b, size_t limit) {
    const bool first = limit && a->bytes <= limit, second = limit && b->bytes <= limit;
    if (first && second) return a->seconds < b->seconds;
    return a->bytes < b->bytes;
}

/* How much time it may take. */
static double budget_of(const pass_context *context, base_arena *arena) {
    double seconds = 0;
    if (context->options->time_limit <= 0) return 1e30;
    for (const ir_node *node = context->module->main->first; node; node = node->next) {
        const bool by_rows = band_node_supported(node, arena);
        seconds += band_estimate_node(node, by_rows, by_rows ? (double)bytes_of(node->outputs[0]) : 0,
                                      &context->options->environment, arena)
                       .seconds;
        base_arena_free(arena);
    }
    return (context->options->time_limit - 1) * seconds;
}

static base_status keep_it(pass_context *context, double share, double budget) {
    recomputed done;
    if (!recompute(context->module, &context->options->environment, share, budget, context->scratch, &done))
        return base_fail_memory(context->report);
    pass_recomputed *list = BASE_ARRAY(context->memory_arena, pass_recomputed, done.count);
    if (!list) return base_fail_memory(context->report);
    for (size_t i = 0; i < done.count; i++) list[i] = done.list[i];
    context->recomputed = list;
    context->recomputed_count = done.count;
    return BASE_OK;
}

base_status pass_recompute(pass_context *context) {
    enum { TURNS = 4 };
    const pass_options *options = context->options;
    const size_t asked = pass_band_limit(context), limit = asked == PASS_ARENA_LEAST ? 0 : asked;
    if (!options->arena_limit || context->module->main->node_count > MOST_NODES) return BASE_OK;
    base_arena arena;
    outcome whole, again = {0};
    size_t count;
    base_arena_init(&arena, context->scratch->allocator);
    const double budget = budget_of(context, &arena);
    base_arena_free(&arena);
    base_status status = try_it(context, false, 0, 0, false, &count, &whole);
    if (status != BASE_OK || (limit && whole.bytes <= limit)) return status;
    double share = (double)limit / (double)whole.bytes;
    for (int turn = 1; turn <= TURNS; turn++) {
        status = try_it(context, true, share, budget, false, &count, &again);
        if (status != BASE_OK) return status;
        if (count && again.bytes <= limit) return keep_it(context, share, budget);
        if (share <= 0) break;
        const double wrong = count ? (double)limit / (double)again.bytes : 1;
        share = turn + 1 < TURNS ? share * (wrong < SMALLER ? wrong : SMALLER) : 0;
    }
    if (!count || again.bytes >= whole.bytes) return BASE_OK;
    status = try_it(context, false, 0, 0, true, &count, &whole);
    if (status == BASE_OK) status = try_it(context, true, share, budget, true, &count, &again);
    return status == BASE_OK && is_better(&again, &whole, limit) ? keep_it(context, share, budget) : status;
}

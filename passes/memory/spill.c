/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c: what the arena has no place for is put into a file, and read back before its next reader.
 *
 *     %a = Conv(%x)  %b = Relu(%a) ... the peak ...                    %c = Add(%a, %z)
 *  => %a = Conv(%x)  %s = Spill(%a)  %b = Relu(%a) ... the peak ...  %r = Restore(%s)  %c = Add(%r, %z)
 *
 * Only where a limit of the arena and a file are given, and after all else that saves memory. Live ranges are those of a plan that was
 * made, by all passes that follow, of a copy of the module. In a *gap* between two steps that touch a storage its bytes may be
 * elsewhere. Of the gaps that are over a step which is too full the one is taken that lowers these steps most for the time that it takes
 * to write and to read; and so on. A value is written once, however often it is read back. Then a plan is made anew: planners do not
 * always reach what is live.
 *
 * The order of the main graph becomes that of the plan that was looked at, so that the next one is no worse.
 *
 * Needs: types, kernels; somebody reads every node. Breaks: nothing. Guarantees: nodes of the main graph have the same inputs, or what was
 * restored of them, so that values stay what they were, to the bit; somebody reads every node.
 */
#include "passes/bands/estimate.h"
#include "passes/memory/memory.h"
#include <stdlib.h>

enum {
    MOST_NODES = 1 << 15, /* of a main graph that is looked at */
    MOST_ROUNDS = 10,
    MOST_DULL = 2,       /* rounds that save nothing, before it ends */
    MOST_VALUES = 8,     /* in one storage, that are spilled in one gap */
    MOST_READERS = 1024, /* of one value */
    MOST_VIEWS = 32      /* of one value, that are made again */
};

/* By what the limit is lowered at least, where the arena came out too large. */
static const double SMALLER = 0.99;

/* A step of the main graph uses a storage. */
typedef struct touch {
    uint32_t storage;
    int64_t step;
} touch;

/* A value of the module, and the storage that it has in the plan. */
typedef struct resident {
    uint32_t storage;
    ir_value *value;
} resident;

/* Between two touches: the values that a step from `to` on reads, and that are there at `from`. */
typedef struct gap {
    uint32_t storage;
    int64_t from, to;
    ir_value *values[MOST_VALUES];
    size_t value_count;
    double seconds;
    double worth; /* bytes, over all full steps, for a second; at most */
    bool taken;
} gap;

/* What the plan of a copy says about the module. */
typedef struct spiller {
    ir_module *module, *copy;
    ir_graph *graph;
    base_arena *arena;         /* of one round */
    ir_node **nodes, **copies; /* of the main graph, and in the copy */
    size_t node_count;
    bool fine, usable; /* memory did not run out; the plan has the nodes of the module */
    int64_t count;     /* steps */
    int64_t *live;     /* by step */
    int64_t *step_of;  /* by node id of the module */
    bool *is_alias;    /* by node id of the module: a view that nothing is executed for */
    size_t *bytes;     /* by storage; 0: it stays */
    touch *touches;
    size_t touch_count, touch_capacity;
    resident *residents; /* by storage */
    size_t resident_count;
    gap *gaps;
    size_t gap_count, gap_capacity;
} spiller;

/* A restored value, and what its readers read before. */
typedef struct restored {
    ir_node *node;
    ir_value *instead_of;
    int round; /* of the first plan that has it */
} restored;

typedef struct history {
    restored *list; /* in the pass's scratch arena */
    size_t count, capacity;
    int round;
} history;

/* ---- the plan of a copy ---------------------------------------------------------------------------------- */

/* The step of the graph in which the node runs, or a graph of its. */
static int64_t step_in(const ir_graph *graph, const ir_node *node, const int64_t *numbers) {
    while (node && node->graph != graph) node = node->graph->owner;
    return node ? numbers[node->id.index] : -1;
}

static bool add_touch(spiller *s, uint32_t storage, int64_t step) {
    touch *touches =
        base_arena_grow(s->arena, s->touches, &s->touch_capacity, s->touch_count + 1, sizeof *touches);
    if (!touches) return false;
    s->touches = touches;
    touches[s->touch_count++] = (touch){storage, step};
    return true;
}

static bool is_view(const ir_node *node, const pass_memory *memory) {
    return op_schema_of(node->code)->view == OP_VIEW_SAME && node->output_count == 1 &&
           memory->executions[node->id.index] == PASS_ALIAS;
}

typedef struct live_range {
    int64_t first, last;
} live_range;

static void widen(live_range *range, int64_t step) {
    if (step < range->first) range->first = step;
    if (step > range->last) range->last = step;
}

/* Who makes and who reads the values of storages in the arena. Views are there whenever their inputs are. */
static bool find_touches(spiller *s, const pass_memory *memory) {
    const ir_module *copy = s->copy;
    const int64_t *numbers = memory->order.numbers;
    live_range *ranges = BASE_ARRAY(s->arena, live_range, memory->storage_count);
    if (!ranges) return false;
    for (size_t i = 1; i < memory->storage_count; i++) {
        const pass_storage *storage = &memory->storages[i];
        ranges[i] = (live_range){INT64_MAX, -1};
        if (storage->space == MEMORY_ARENA && storage->graph == copy->main && !storage->part_of.index &&
            !storage->scratch_of && !storage->buffer_of && storage->last > storage->first)
            s->bytes[i] = storage->bytes;
    }
    for (size_t v = 1; v < memory->multiview_count; v++) { /* others lie there now and then */
        const pass_multiview *view = &memory->multiviews[v];
        for (uint32_t i = 0; i < view->prologue + view->repeat; i++)
            s->bytes[pass_memory_resolve(memory, view->entries[i]).storage.index] = 0;
    }
    for (size_t i = 1; i < copy->value_count; i++) {
        const ir_value *value = copy->values[i];
        if (!value || !value->graph) continue;
        const uint32_t storage = pass_memory_location(memory, value).storage.index;
        if (!s->bytes[storage]) continue;
        const ir_node *maker = value->node ? value->node : value->graph->owner;
        const int64_t made = step_in(copy->main, maker, numbers);
        if (made < 0) s->bytes[storage] = 0;
        widen(&ranges[storage], made);
        if (!(value->node && value->graph == copy->main && is_view(value->node, memory)) &&
            !add_touch(s, storage, made))
            return false;
        for (const ir_use *use = value->uses; use; use = use->next) {
            const int64_t step = step_in(copy->main, use->node ? use->node : use->graph->owner, numbers);
            if (step < 0) s->bytes[storage] = 0;
            widen(&ranges[storage], step);
            const bool view =
                use->node && use->node->graph == copy->main && use->index == 0 && is_view(use->node, memory);
            if (!view && !add_touch(s, storage, step)) return false;
        }
    }
    /* It is used in other ways, too. */
    for (size_t i = 1; i < memory->storage_count; i++)
        if (ranges[i].first != memory->storages[i].first || ranges[i].last + 1 != memory->storages[i].last)
            s->bytes[i] = 0;
    return true;
}

static bool find_live(spiller *s, const pass_memory *memory) {
    size_t graph_count;
    ir_graph **graphs = pass_graphs_outermost_first(s->copy, s->arena, &graph_count);
    size_t **live = graphs ? pass_region_live(memory, graphs, graph_count, s->arena) : NULL;
    s->count = s->copy->main->node_count;
    s->live = BASE_ARRAY(s->arena, int64_t, (size_t)s->count + 1);
    if (!live || !s->live) return false;
    const uint32_t main = s->copy->main->id.index;
    for (int64_t n = 0; n < s->count; n++) {
        const ir_node *node = memory->order.nodes[main][n];
        size_t inner = 0;
        for (uint32_t g = 0; g < node->graph_count; g++)
            if (memory->region_bytes[node->graphs[g]->id.index] > inner)
                inner = memory->region_bytes[node->graphs[g]->id.index];
        s->live[n] = (int64_t)(live[main][n] + inner);
    }
    return true;
}

static int compare_touches(const void *left, const void *right) {
    const touch *a = left, *b = right;
    return a->storage != b->storage ? (a->storage > b->storage) - (a->storage < b->storage)
                                    : (a->step > b->step) - (a->step < b->step);
}

static int compare_residents(const void *left, const void *right) {
    const resident *a = left, *b = right;
    return a->storage != b->storage
               ? (a->storage > b->storage) - (a->storage < b->storage)
               : (a->value->id.index > b->value->id.index) - (a->value->id.index < b->value->id.index);
}

/* Where the plan has the nodes and values of the module. */
static bool find_copies(spiller *s, const pass_memory *memory) {
    size_t outputs = 0;
    s->usable = true;
    for (size_t i = 0; i < s->node_count; i++) {
        const ir_node *node = s->nodes[i], *other = s->copies[i];
        const int64_t step = memory->order.numbers[other->id.index];
        if (step < 0 || step >= s->count || memory->order.nodes[s->copy->main->id.index][step] != other)
            s->usable = false;
        s->step_of[node->id.index] = step;
        s->is_alias[node->id.index] = s->usable && is_view(other, memory);
        outputs += node->output_count;
    }
    s->residents = BASE_ARRAY(s->arena, resident, outputs + 1);
    if (!s->residents || !s->usable) return s->residents != NULL;
    for (size_t i = 0; i < s->node_count; i++) {
        for (uint32_t o = 0; o < s->nodes[i]->output_count; o++) {
            if (!s->nodes[i]->outputs[o] || !s->copies[i]->outputs[o] || s->is_alias[s->nodes[i]->id.index])
                continue;
            const uint32_t storage = pass_memory_location(memory, s->copies[i]->outputs[o]).storage.index;
            if (s->bytes[storage])
                s->residents[s->resident_count++] = (resident){storage, s->nodes[i]->outputs[o]};
        }
    }
    return true;
}

/* pass_measured.look */
static void look(void *user, const pass_memory *memory) {
    spiller *s = user;
    s->bytes = BASE_ARRAY(s->arena, size_t, memory->storage_count);
    s->step_of = BASE_ARRAY(s->arena, int64_t, s->module->node_count);
    s->is_alias = BASE_ARRAY(s->arena, bool, s->module->node_count);
    s->fine = s->bytes && s->step_of && s->is_alias && find_live(s, memory) && find_touches(s, memory) &&
              find_copies(s, memory);
    if (!s->fine) return;
    if (s->touch_count) /* else there is no list */
        qsort(s->touches, s->touch_count, sizeof *s->touches, compare_touches);
    qsort(s->residents, s->resident_count, sizeof *s->residents, compare_residents);
}

/* The plan of a copy of the module, as it is now. */
static base_status make_plan(pass_context *context, spiller *s, size_t *arena) {
    struct pass_measured measured = {.look = look, .user = s};
    s->copy = ir_module_clone(s->module);
    s->nodes = BASE_ARRAY(s->arena, ir_node *, (size_t)s->graph->node_count + 1);
    s->copies = BASE_ARRAY(s->arena, ir_node *, (size_t)s->graph->node_count + 1);
    base_status status = s->copy && s->nodes && s->copies ? BASE_OK : base_fail_memory(context->report);
    ir_node *other = status == BASE_OK ? s->copy->main->first : NULL;
    for (ir_node *node = s->graph->first; node && other; node = node->next, other = other->next) {
        s->nodes[s->node_count] = node;
        s->copies[s->node_count++] = other;
    }
    if (status == BASE_OK) status = context->measure(context, s->copy, &measured);
    if (status == BASE_OK && !s->fine) status = base_fail_memory(context->report);
    *arena = measured.arena;
    ir_module_free(s->copy);
    s->copy = NULL;
    s->copies = NULL;
    return status;
}

/* ---- gaps ------------------------------------------------------------------------------------------------ */

typedef struct reader {
    ir_use *use;
    int64_t step;
} reader;

/* Who reads the value or a view of it; the views themselves do not count, nor does what has been spilled. False: too many, or a
 * result. */
static bool collect_readers(const spiller *s, const ir_value *value, reader *readers, size_t *count) {
    for (ir_use *use = value->uses; use; use = use->next) {
        if (!use->node || *count == MOST_READERS) return false;
        if (use->node->code == OP_SPILL) continue;
        if (use->node->graph == s->graph && use->index == 0 && s->is_alias[use->node->id.index]) {
            if (!collect_readers(s, use->node->outputs[0], readers, count)) return false;
            continue;
        }
        readers[(*count)++] = (reader){use, step_in(s->graph, use->node, s->step_of)};
    }
    return true;
}

/* It has been written to the file, or comes from there; NULL: neither. */
static ir_value *spilled_of(const ir_value *value) {
    if (value->node->code == OP_RESTORE) return ir_input(value->node, 0);
    for (const ir_use *use = value->uses; use; use = use->next)
        if (use->node && use->node->code == OP_SPILL) return use->node->outputs[0];
    return NULL;
}

static bool can_spill(const ir_value *value, size_t *bytes) {
    return value->type.kind == OP_KIND_TENSOR && value->type.dtype != OP_STRING &&
           op_type_bytes(&value->type, bytes) && *bytes > 0;
}

/* What the gap spills, and what that takes. False: something there cannot be spilled, or nothing need be. */
static bool fill_gap(const spiller *s, const resident *first, size_t count, gap *g) {
    for (size_t i = 0; i < count; i++) {
        ir_value *value = first[i].value;
        reader readers[MOST_READERS];
        size_t reader_count = 0, bytes;
        if (s->step_of[value->node->id.index] > g->from) continue;
        if (!collect_readers(s, value, readers, &reader_count)) return false;
        bool later = false;
        for (size_t k = 0; k < reader_count; k++) later |= readers[k].step >= g->to;
        if (!later) continue;
        if (g->value_count == MOST_VALUES || !can_spill(value, &bytes)) return false;
        g->values[g->value_count++] = value;
        g->seconds += band_file_seconds((double)bytes) * (spilled_of(value) ? 1 : 2);
    }
    return g->value_count > 0;
}

static bool find_gaps(spiller *s) {
    size_t at = 0;
    for (size_t i = 1; i < s->touch_count; i++) {
        const touch *from = &s->touches[i - 1], *to = &s->touches[i];
        if (from->storage != to->storage || to->step < from->step + 2 || !s->bytes[to->storage]) continue;
        while (at < s->resident_count && s->residents[at].storage < to->storage) at++;
        size_t count = 0;
        while (at + count < s->resident_count && s->residents[at + count].storage == to->storage) count++;
        gap found = {.storage = to->storage, .from = from->step, .to = to->step};
        if (!fill_gap(s, &s->residents[at], count, &found)) continue;
        gap *gaps = base_arena_grow(s->arena, s->gaps, &s->gap_capacity, s->gap_count + 1, sizeof *gaps);
        if (!gaps) return false;
        s->gaps = gaps;
        gaps[s->gap_count++] = found;
    }
    return true;
}

/* What is live at most if all gaps are taken. */
static int64_t least_peak(const spiller *s) {
    int64_t peak = 0;
    int64_t *live = BASE_ARRAY(s->arena, int64_t, (size_t)s->count + 2);
    if (!live) return INT64_MAX;
    for (size_t i = 0; i < s->gap_count; i++) {
        live[s->gaps[i].from + 1] -= (int64_t)s->bytes[s->gaps[i].storage];
        live[s->gaps[i].to] += (int64_t)s->bytes[s->gaps[i].storage];
    }
    for (int64_t n = 0; n < s->count; n++) {
        if (n) live[n] += live[n - 1];
        if (s->live[n] + live[n] > peak) peak = s->live[n] + live[n];
    }
    return peak;
}

/* By how many bytes, over all steps that are fuller than `most`, there is less in them. */
static double gain_of(const spiller *s, const gap *g, int64_t most) {
    const int64_t bytes = (int64_t)s->bytes[g->storage];
    double gain = 0;
    for (int64_t n = g->from + 1; n < g->to; n++) {
        const int64_t excess = s->live[n] - most;
        if (excess > 0) gain += (double)(excess < bytes ? excess : bytes);
    }
    return gain;
}

/* Takes gaps until no step has more than `most` live, or none helps. Gains only become less as others are taken. How many. */
static size_t take_gaps(spiller *s, int64_t most) {
    size_t taken = 0;
    for (size_t i = 0; i < s->gap_count; i++)
        s->gaps[i].worth = gain_of(s, &s->gaps[i], most) / s->gaps[i].seconds;
    for (;;) {
        gap *best = NULL;
        for (size_t i = 0; i < s->gap_count; i++) {
            gap *g = &s->gaps[i];
            if (g->taken || g->worth <= 0 || (best && g->worth <= best->worth)) continue;
            g->worth = gain_of(s, g, most) / g->seconds;
            if (g->worth > 0 && (!best || g->worth > best->worth)) best = g;
        }
        if (!best) return taken;
        best->taken = true;
        taken++;
        for (int64_t n = best->from + 1; n < best->to; n++) s->live[n] -= (int64_t)s->bytes[best->storage];
    }
}

/* ---- carried out ----------------------------------------------------------------------------------------- */

static int compare_steps(const void *left, const void *right) {
    const touch *a = left, *b = right;
    return (a->step > b->step) - (a->step < b->step);
}

/* The module's main graph gets the order of the plan. */
static bool put_in_order(spiller *s) {
    touch *order = BASE_ARRAY(s->arena, touch, s->node_count + 1);
    ir_node **nodes = BASE_ARRAY(s->arena, ir_node *, s->node_count + 1);
    if (!order || !nodes) return false;
    for (size_t i = 0; i < s->node_count; i++)
        order[i] = (touch){(uint32_t)i, s->step_of[s->nodes[i]->id.index]};
    qsort(order, s->node_count, sizeof *order, compare_steps);
    for (size_t i = 0; i < s->node_count; i++) {
        nodes[i] = s->nodes[order[i].storage];
        ir_node_move(nodes[i], NULL);
    }
    s->nodes = nodes;
    return true;
}

/* The first node of the main graph, in its new order, that runs in this step or later. */
static ir_node *node_from(const spiller *s, int64_t step) {
    size_t low = 0, high = s->node_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (s->step_of[s->nodes[middle]->id.index] < step) low = middle + 1;
        else high = middle;
    }
    return low < s->node_count ? s->nodes[low] : NULL;
}

/* A Spill or a Restore for the sake of `of`. */
static ir_value *transfer(ir_graph *graph, ir_node *before, op_code code, ir_value *from, const ir_value *of,
                          const char *reason) {
    ir_node *node =
        ir_node_new(graph, before, code, of->node->name, of->node->path, (op_attributes){0}, 1, &from);
    if (!node) return NULL;
    node->kernel = "portable.copy";
    node->reason = reason;
    return ir_node_add_output(node, of->name, &of->type);
}

/* Views that are made again of a restored value. */
typedef struct views {
    const ir_value *of[MOST_VIEWS + 1];
    ir_value *again[MOST_VIEWS + 1];
    size_t count;
    bool out_of_memory;
} views;

/* The value, which is restored or a view of what is. NULL when memory runs out, or there are too many views. */
static ir_value *view_again(const spiller *s, ir_value *value, ir_node *before, views *made) {
    for (size_t i = 0; i < made->count; i++)
        if (made->of[i] == value) return made->again[i];
    ir_node *node = value->node;
    if (made->count > MOST_VIEWS || !s->is_alias[node->id.index]) return NULL;
    ir_value **inputs = BASE_ARRAY(s->arena, ir_value *, (size_t)node->input_count + 1);
    made->out_of_memory |= !inputs;
    if (!inputs) return NULL;
    for (uint32_t i = 0; i < node->input_count; i++)
        inputs[i] = i ? ir_input(node, i) : view_again(s, ir_input(node, 0), before, made);
    if (!inputs[0]) return NULL;
    ir_node *again = ir_node_new(s->graph, before, node->code, node->name, node->path, node->attributes,
                                 node->input_count, inputs);
    ir_value *output = again ? ir_node_add_output(again, value->name, &value->type) : NULL;
    made->out_of_memory |= !output;
    if (!output) return NULL;
    again->kernel = node->kernel;
    again->reason = node->reason;
    output->symbolic = value->symbolic;
    made->of[made->count] = value;
    made->again[made->count++] = output;
    return output;
}

static void remove_unread(const spiller *s, const ir_value *value, const ir_value *kept) {
    while (value != kept && !value->uses && value->node && value->graph == s->graph &&
           value->node->id.index < s->module->node_count &&
           op_schema_of(value->node->code)->view == OP_VIEW_SAME) {
        ir_node *node = value->node;
        value = ir_input(node, 0);
        ir_node_remove(node);
    }
}

/* Readers of the value from step `to` on read what is restored. */
static bool spill_value(spiller *s, ir_value *value, int64_t to, history *done, base_arena *kept) {
    reader readers[MOST_READERS];
    size_t count = 0;
    views made = {.count = 0};
    ir_node *before = node_from(s, to);
    ir_value *put = spilled_of(value);
    if (!collect_readers(s, value, readers, &count) || !before) return true;
    bool any = false;
    for (size_t i = 0; i < count; i++) any |= readers[i].step >= to;
    if (!any) return true; /* a later gap has taken them all */
    if (!put)
        put = transfer(s->graph, value->node->next, OP_SPILL, value, value, "the arena has no place for it");
    ir_value *back = put ? transfer(s->graph, before, OP_RESTORE, put, value, "it was spilled") : NULL;
    restored *list = base_arena_grow(kept, done->list, &done->capacity, done->count + 1, sizeof *list);
    if (!back || !list) return false;
    back->symbolic = value->symbolic;
    done->list = list;
    list[done->count++] = (restored){back->node, value, done->round + 1};
    made.of[0] = value;
    made.again[made.count++] = back;
    for (size_t i = 0; i < count; i++) {
        ir_use *use = readers[i].use;
        ir_value *was = use->value;
        if (readers[i].step < to) continue;
        ir_value *again = view_again(s, was, before, &made);
        if (made.out_of_memory) return false;
        if (!again) continue; /* too many: it stays, and the value with it */
        if (!ir_node_set_input(use->node, use->index, again)) return false;
        remove_unread(s, was, value);
    }
    return true;
}

static int compare_gaps(const void *left, const void *right) {
    const gap *a = left, *b = right;
    return a->to != b->to ? (a->to < b->to) - (a->to > b->to)
                          : (a->storage > b->storage) - (a->storage < b->storage);
}

/* The gaps that were taken, the last ones first: what they leave unread the earlier ones do not restore. */
static bool carry_out(spiller *s, history *done, base_arena *kept) {
    if (!put_in_order(s)) return false;
    qsort(s->gaps, s->gap_count, sizeof *s->gaps, compare_gaps);
    for (size_t i = 0; i < s->gap_count; i++)
        for (size_t v = 0; s->gaps[i].taken && v < s->gaps[i].value_count; v++)
            if (!spill_value(s, s->gaps[i].values[v], s->gaps[i].to, done, kept)) return false;
    return true;
}

/* What the plan of this round does not have yet is kept in the arena after all. */
static bool undo(history *done, int round) {
    while (done->count && done->list[done->count - 1].round > round) {
        const restored *last = &done->list[--done->count];
        ir_value *back = last->node->outputs[0], *put = ir_input(last->node, 0);
        while (back->uses)
            if (!ir_node_set_input(back->uses->node, back->uses->index, last->instead_of)) return false;
        ir_node_remove(last->node);
        if (!put->uses) ir_node_remove(put->node);
    }
    return true;
}

/* ---- rounds ---------------------------------------------------------------------------------------------- */

/* One round: a plan, and what is spilled beyond it, so that at most `most` bytes are live where that can be. *taken: gaps. */
static base_status spill_once(pass_context *context, double most, history *done, size_t enough, size_t *arena,
                              size_t *taken) {
    base_arena own;
    base_arena_init(&own, context->scratch->allocator);
    spiller s = {.module = context->module, .graph = context->module->main, .arena = &own};
    base_status status = make_plan(context, &s, arena);
    *taken = 0;
    if (status == BASE_OK && s.usable && *arena > enough) {
        bool fine = find_gaps(&s);
        const int64_t least = fine ? least_peak(&s) : 0;
        *taken = fine ? take_gaps(&s, (double)least > most ? least : (int64_t)most) : 0;
        if (!fine || (*taken && !carry_out(&s, done, context->scratch)))
            status = base_fail_memory(context->report);
    }
    base_arena_free(&own);
    return status;
}

static double predict(const pass_context *context) {
    double seconds = 0;
    for (const ir_node *node = context->module->main->first; node; node = node->next) {
        size_t bytes;
        if ((node->code == OP_SPILL || node->code == OP_RESTORE) &&
            op_type_bytes(&node->outputs[0]->type, &bytes))
            seconds += band_file_seconds((double)bytes);
    }
    return seconds;
}

base_status pass_spill(pass_context *context) {
    const pass_options *options = context->options;
    const size_t limit = options->arena_limit == PASS_ARENA_LEAST ? 0 : options->arena_limit;
    if (!options->spill_path || !options->arena_limit || context->module->main->node_count > MOST_NODES)
        return BASE_OK;
    history done = {.list = NULL};
    base_status status = BASE_OK;
    size_t best = SIZE_MAX, arena, taken = 1;
    int best_round = 0, dull = 0;
    double most = (double)limit;
    for (; done.round < MOST_ROUNDS && status == BASE_OK && taken && dull <= MOST_DULL; done.round++) {
        status = spill_once(context, most, &done, limit, &arena, &taken);
        if (status != BASE_OK) return status;
        if (arena < best) {
            best = arena;
            best_round = done.round;
            dull = 0;
        } else dull++;
        if (arena <= limit) break;
        const double wrong = done.round ? (double)limit / (double)arena : 1;
        most *= wrong < SMALLER ? wrong : SMALLER;
    }
    if (!undo(&done, best_round)) return base_fail_memory(context->report);
    context->spill_seconds = predict(context);
    return BASE_OK;
}

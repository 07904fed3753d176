/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c: whether a memory plan keeps the rules of storage.h, between two passes: slow and obvious.
 *
 * What it looks at grows with the plan: storages and aliases from join-aliases on, the order once schedule has chosen it, live
 * ranges once analyse-liveness has found them, offsets once allocate has. (Whether the finished plan computes what the module
 * says is the question of the plan's verifier, runtime/plan/check.c.)
 */
#include "passes/memory/memory.h"
#include <stdarg.h>
#include <stdio.h>

typedef struct verifier {
    const pass_memory *memory;
    const ir_module *module;
    const char *when;
    base_report *report;
    base_arena arena;
    base_status status;
} verifier;

__attribute__((format(printf, 2, 3))) static void broken(verifier *v, const char *format, ...) {
    char text[512];
    va_list arguments;
    if (v->status != BASE_OK) return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    v->status = base_fail(v->report, BASE_INVALID, "after %s: %s", v->when, text);
}

static bool is_storage(const verifier *v, pass_storage_id id) {
    return id.index > 0 && id.index < v->memory->storage_count;
}

/* ---- storages ------------------------------------------------------------------------------------------- */

/* Parts lead to a whole, and lie within it. */
static void check_parts(verifier *v) {
    const pass_memory *memory = v->memory;
    for (size_t i = 1; i < memory->storage_count; i++) {
        size_t at = i, hops = 0;
        while (memory->storages[at].part_of.index && hops++ < memory->storage_count) {
            if (!is_storage(v, memory->storages[at].part_of)) {
                broken(v, "storage %zu is part of storage %u, which is not there", at,
                       memory->storages[at].part_of.index);
                return;
            }
            at = memory->storages[at].part_of.index;
        }
        if (hops > memory->storage_count) {
            broken(v, "storage %zu is part of itself", i);
            return;
        }
    }
}

static void check_space(verifier *v, size_t index) {
    const pass_storage *storage = &v->memory->storages[index];
    const ir_graph *main = v->module->main;
    const bool numbered = storage->space == MEMORY_INPUT    ? storage->index < main->parameter_count
                          : storage->space == MEMORY_OUTPUT ? storage->index < main->result_count
                          : storage->space == MEMORY_MULTIVIEW
                              ? storage->index > 0 && storage->index < v->memory->multiview_count
                              : true;
    if (!numbered)
        broken(v, "storage %zu has number %u in its memory space, which has fewer", index, storage->index);
    if (storage->space == MEMORY_ARENA && !storage->graph)
        broken(v, "storage %zu is in the region of no graph", index);
}

/* Where the type says a size, the value lies within its storage. */
static void check_value(verifier *v, const ir_value *value) {
    const pass_location at = pass_memory_location(v->memory, value);
    size_t bytes;
    if (!is_storage(v, at.storage)) {
        broken(v, "value %%%s lies nowhere", value->name);
        return;
    }
    const pass_storage *storage = &v->memory->storages[at.storage.index];
    /* What a loop carries may be a constant, or what the caller gave; what an operator makes may not. */
    const bool made = value->node && v->memory->executions[value->node->id.index] == PASS_RUN &&
                      !(op_schema_of(value->node->code)->flags & OP_FLAG_GRAPHS);
    if (value->kind == IR_CONSTANT && storage->space != MEMORY_CONSTANT)
        broken(v, "constant %%%s does not lie in the constants", value->name);
    if (made && (storage->space == MEMORY_CONSTANT || storage->space == MEMORY_INPUT))
        broken(v, "value %%%s is made in memory that nobody may write", value->name);
    if (storage->space == MEMORY_DYNAMIC || storage->space == MEMORY_MULTIVIEW ||
        !op_type_bytes(&value->type, &bytes))
        return;
    if (at.offset > storage->bytes || bytes > storage->bytes - at.offset)
        broken(v, "value %%%s (%zu bytes at %zu) does not lie within storage %u (%zu bytes)", value->name,
               bytes, at.offset, at.storage.index, storage->bytes);
}

/* The list of a storage's values has just those that lie there, each once. */
static void check_lists(verifier *v) {
    const pass_memory *memory = v->memory;
    bool *listed = BASE_ARRAY(&v->arena, bool, memory->value_count);
    if (!listed) {
        v->status = base_fail_memory(v->report);
        return;
    }
    for (size_t i = 1; i < memory->storage_count && v->status == BASE_OK; i++) {
        if (memory->storages[i].part_of.index) continue;
        for (ir_value_id id = memory->storages[i].values; id.index; id = memory->siblings[id.index]) {
            const ir_value *value = v->module->values[id.index];
            if (listed[id.index]) {
                broken(v, "value %u is in the list of storage %zu, and in another, or twice", id.index, i);
                return;
            }
            listed[id.index] = true;
            if (value && pass_memory_location(memory, value).storage.index != i)
                broken(v, "value %%%s is in the list of storage %zu, but does not lie there", value->name, i);
        }
    }
    for (size_t i = 1; i < memory->value_count && i < v->module->value_count; i++)
        if (v->module->values[i] && !listed[i])
            broken(v, "value %%%s is in no storage's list", v->module->values[i]->name);
}

/* What nobody executes is there already: an output is bytes of the input, or the inputs are bytes of the output. */
static void check_alias(verifier *v, const ir_node *node) {
    const bool concat = op_schema_of(node->code)->view == OP_VIEW_CONCAT;
    const ir_value *whole = concat ? node->outputs[0] : ir_input(node, 0);
    const uint32_t count = concat ? node->input_count : node->output_count;
    for (uint32_t i = 0; i < count; i++) {
        const ir_value *part = concat ? ir_input(node, i) : node->outputs[i];
        size_t bytes;
        if (!part || (op_type_bytes(&part->type, &bytes) && !bytes)) continue;
        const pass_location at = pass_memory_location(v->memory, part);
        if (node->code == OP_COPY && v->memory->storages[at.storage.index].space == MEMORY_MULTIVIEW)
            continue; /* the If has chosen this address */
        if (!whole || at.storage.index != pass_memory_location(v->memory, whole).storage.index)
            broken(v, "value %%%s is said to be an alias, but lies in another storage", part->name);
    }
}

/* ---- addresses in each iteration ------------------------------------------------------------------------- */

static void check_multiview(verifier *v, size_t index) {
    const pass_multiview *view = &v->memory->multiviews[index];
    const bool branches = view->loop && view->loop->code == OP_IF && view->repeat == 2 && !view->prologue;
    if (!view->loop || (view->loop->code != OP_LOOP && !branches) || !view->repeat || !view->entries) {
        broken(v, "multi-view %zu has no loop, or no entries", index);
        return;
    }
    if (view->stride && view->repeat != 1) broken(v, "multi-view %zu moves on, and repeats", index);
    for (uint32_t i = 0; i < view->prologue + view->repeat; i++) {
        if (!is_storage(v, view->entries[i].storage)) {
            broken(v, "entry %u of multi-view %zu lies nowhere", i, index);
            return;
        }
        const pass_storage *storage =
            &v->memory->storages[pass_memory_resolve(v->memory, view->entries[i]).storage.index];
        if (storage->graph && storage->space != MEMORY_CONSTANT &&
            !ir_graph_encloses(storage->graph, view->loop->graph))
            broken(v, "entry %u of multi-view %zu lies in graph %s, which does not enclose its loop", i,
                   index, storage->graph->name);
    }
}

/* ---- the order -------------------------------------------------------------------------------------------- */

static void check_order(verifier *v, const ir_graph *graph) {
    ir_node *const *nodes = v->memory->order.nodes[graph->id.index];
    int64_t step = 0;
    for (const ir_node *node = graph->first; node; node = node->next, step++) {
        if (nodes[step] != node || v->memory->order.numbers[node->id.index] != step) {
            broken(v, "graph %s: step %lld of the plan is not that of the module", graph->name,
                   (long long)step);
            return;
        }
    }
    if (nodes[step]) broken(v, "graph %s: the plan has more steps than the module", graph->name);
}

/* ---- live ranges and offsets ------------------------------------------------------------------------------ */

static void check_live_range(verifier *v, size_t index) {
    const pass_storage *storage = &v->memory->storages[index];
    const int64_t steps = storage->graph->node_count ? storage->graph->node_count : 1;
    if (storage->first < 0 || storage->first > storage->last || storage->last > steps)
        broken(v, "storage %zu is live in steps %lld to %lld of graph %s, which has %lld", index,
               (long long)storage->first, (long long)storage->last, storage->graph->name, (long long)steps);
    if (storage->bytes % RT_ALIGNMENT)
        broken(v, "storage %zu has %zu bytes, which are not rounded up", index, storage->bytes);
}

static bool has_region(const pass_storage *storage) {
    return storage->space == MEMORY_ARENA && !storage->part_of.index && storage->bytes &&
           storage->last > storage->first;
}

/* The region that holds the storages of a graph; that of the loop around the model is the memory of the states. */
static size_t region_of(const verifier *v, const ir_graph *graph) {
    const ir_node *run = v->module->run;
    return run && run->graph == graph ? v->memory->state_bytes : v->memory->region_bytes[graph->id.index];
}

static void check_offsets(verifier *v) {
    const pass_memory *memory = v->memory;
    for (size_t i = 1; i < memory->storage_count; i++) {
        const pass_storage *a = &memory->storages[i];
        if (!has_region(a)) continue;
        const size_t region = region_of(v, a->graph);
        if (a->offset > region || a->bytes > region - a->offset)
            broken(v, "storage %zu (%zu bytes at %zu) does not lie within its region (%zu bytes)", i,
                   a->bytes, a->offset, region);
        for (uint32_t k = 0; a->buffer_of && k < a->buffer_of->graph_count; k++)
            if (memory->region_bytes[a->buffer_of->graphs[k]->id.index] > a->bytes)
                broken(v, "storage %zu is smaller than a region that lies in it", i);
    }
}

/* The bits of what there is: passes come one after the other. */
static void check_all(verifier *v) {
    const pass_memory *memory = v->memory;
    bool live = false;
    if (memory->value_count < v->module->value_count || memory->node_count < v->module->node_count)
        broken(v, "the memory plan does not know all values and nodes");
    if (v->status == BASE_OK) check_parts(v);
    for (size_t i = 1; i < memory->storage_count && v->status == BASE_OK; i++) {
        if (memory->storages[i].part_of.index) continue;
        check_space(v, i);
        live |= memory->storages[i].last > 0;
    }
    for (size_t i = 1; i < v->module->value_count && v->status == BASE_OK; i++)
        if (v->module->values[i]) check_value(v, v->module->values[i]);
    if (v->status == BASE_OK) check_lists(v);
    for (size_t i = 1; i < v->module->node_count && v->status == BASE_OK; i++)
        if (v->module->nodes[i] && memory->executions[i] == PASS_ALIAS) check_alias(v, v->module->nodes[i]);
    for (size_t i = 1; i < memory->multiview_count && v->status == BASE_OK; i++) check_multiview(v, i);
    for (size_t g = 1; g < v->module->graph_count && v->status == BASE_OK && memory->order.nodes; g++)
        if (v->module->graphs[g]) check_order(v, v->module->graphs[g]);
    for (size_t i = 1; i < memory->storage_count && v->status == BASE_OK && live; i++)
        if (memory->storages[i].space == MEMORY_ARENA && !memory->storages[i].part_of.index)
            check_live_range(v, i);
    if (v->status == BASE_OK && live && memory->sum_bytes) check_offsets(v);
}

base_status pass_memory_verify(const pass_memory *memory, const ir_module *module, const char *when,
                               base_report *report) {
    verifier v = {.memory = memory, .module = module, .when = when, .report = report, .status = BASE_OK};
    base_arena_init(&v.arena, module->arena.allocator);
    check_all(&v);
    base_arena_free(&v.arena);
    return v.status;
}

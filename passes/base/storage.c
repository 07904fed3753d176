/* SPDX-License-Identifier: Apache-2.0 */
/* storage.c: the memory plan that the memory passes fill: storages, their joining, and questions about them.
 */
#include "passes/base/storage.h"
#include "passes/base/pass.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- making -------------------------------------------------------------------------------------------- */

pass_storage_id pass_memory_add(pass_memory *memory, const pass_storage *storage) {
    if (memory->storage_count >= UINT32_MAX) return (pass_storage_id){0};
    if (memory->storage_count == memory->storage_capacity) {
        pass_storage *grown = base_arena_grow(memory->arena, memory->storages, &memory->storage_capacity,
                                              memory->storage_count + 1, sizeof *grown);
        if (!grown) return (pass_storage_id){0};
        memory->storages = grown;
    }
    memory->storages[memory->storage_count] = *storage;
    return (pass_storage_id){(uint32_t)memory->storage_count++};
}

uint32_t pass_memory_add_multiview(pass_memory *memory, const pass_multiview *multiview) {
    size_t needed = memory->multiview_count ? memory->multiview_count + 1 : 2;
    pass_multiview *grown = base_arena_grow(memory->arena, memory->multiviews, &memory->multiview_capacity,
                                            needed, sizeof *grown);
    if (memory->multiview_capacity < needed || (!grown && memory->multiview_capacity == 0)) return 0;
    if (grown) memory->multiviews = grown;
    if (!memory->multiview_count) memory->multiview_count = 1;
    pass_multiview *added = &memory->multiviews[memory->multiview_count];
    uint32_t *first = &memory->views_in[multiview->loop->graph->id.index];
    *added = *multiview;
    added->next_in_graph = *first;
    *first = (uint32_t)memory->multiview_count;
    return (uint32_t)memory->multiview_count++;
}

const pass_multiview *pass_memory_swapped(const pass_memory *memory, pass_storage_id id) {
    const pass_storage *storage = &memory->storages[id.index];
    const pass_multiview *view =
        storage->space == MEMORY_MULTIVIEW && storage->index ? &memory->multiviews[storage->index] : NULL;
    return view && view->group ? view : NULL;
}

/* Grows a table that is indexed by ids from `from` to `to` entries. */
static bool extend_table(base_arena *arena, void *table, size_t from, size_t to, size_t size) {
    void *grown = base_arena_alloc(arena, to, size);
    if (!grown) return false;
    if (from) memcpy(grown, *(void **)table, from * size);
    *(void **)table = grown;
    return true;
}

static bool add_value(pass_memory *memory, const ir_value *value) {
    pass_storage storage = {.space = MEMORY_ARENA,
                            .graph = value->graph,
                            .value = (ir_value *)value,
                            .values = value->id,
                            .last_value = value->id,
                            .last_made = -1};
    if (value->kind == IR_CONSTANT) storage.space = MEMORY_CONSTANT;
    else if (!op_type_bytes(&value->type, &storage.bytes)) storage.space = MEMORY_DYNAMIC;
    else if (value->node && value->node->code == OP_SPILL) storage.space = MEMORY_SPILL;
    if (value->kind == IR_CONSTANT && !op_type_bytes(&value->type, &storage.bytes)) return false;
    pass_storage_id id = pass_memory_add(memory, &storage);
    memory->locations[value->id.index] = (pass_location){.storage = id};
    return id.index != 0;
}

bool pass_memory_extend(pass_memory *memory, const ir_module *module) {
    base_arena *arena = memory->arena;
    if (memory->value_count < module->value_count) {
        if (!extend_table(arena, &memory->locations, memory->value_count, module->value_count,
                          sizeof(pass_location)) ||
            !extend_table(arena, &memory->siblings, memory->value_count, module->value_count,
                          sizeof(ir_value_id))) {
            return false;
        }
        size_t from = memory->value_count;
        memory->value_count = module->value_count;
        for (size_t i = from; i < module->value_count; i++) {
            if (module->values[i] && !add_value(memory, module->values[i])) return false;
        }
    }
    if (memory->node_count < module->node_count) {
        if (!extend_table(arena, &memory->executions, memory->node_count, module->node_count,
                          sizeof(pass_execution)) ||
            !extend_table(arena, &memory->scratch, memory->node_count, module->node_count,
                          sizeof(pass_storage_id)) ||
            !extend_table(arena, &memory->buffers, memory->node_count, module->node_count,
                          sizeof(pass_storage_id))) {
            return false;
        }
        memory->node_count = module->node_count;
    }
    return true;
}

pass_memory *pass_memory_new(const ir_module *module, base_arena *arena) {
    pass_memory *memory = BASE_NEW(arena, pass_memory);
    if (!memory) return NULL;
    memory->arena = arena;
    memory->graph_count = module->graph_count;
    memory->region_bytes = BASE_ARRAY(arena, size_t, module->graph_count);
    memory->region_bound = BASE_ARRAY(arena, size_t, module->graph_count);
    memory->storages = base_arena_grow(arena, NULL, &memory->storage_capacity, module->value_count + 1,
                                       sizeof(pass_storage));
    memory->views_in = BASE_ARRAY(arena, uint32_t, module->graph_count);
    if (!memory->region_bytes || !memory->region_bound || !memory->storages || !memory->views_in) return NULL;
    memory->storage_count = 1;
    return pass_memory_extend(memory, module) ? memory : NULL;
}

/* A copy of `count` entries of a table; false when memory runs out. NULL stays NULL. */
static bool copy_table(base_arena *arena, void *table, size_t count, size_t size) {
    const void *from = *(void **)table;
    if (!from) return true;
    void *copy = base_arena_alloc(arena, count, size);
    if (copy && count) memcpy(copy, from, count * size);
    *(void **)table = copy;
    return copy != NULL;
}

static bool copy_multiviews(pass_memory *memory) {
    memory->multiview_capacity = memory->multiview_count;
    if (!copy_table(memory->arena, &memory->multiviews, memory->multiview_count, sizeof(pass_multiview)))
        return false;
    for (size_t v = 1; v < memory->multiview_count; v++) {
        pass_multiview *view = &memory->multiviews[v];
        if (!copy_table(memory->arena, &view->entries, (size_t)view->prologue + view->repeat,
                        sizeof(pass_location)))
            return false;
    }
    return true;
}

static bool copy_order(pass_memory *memory) {
    pass_order *order = &memory->order;
    if (!copy_table(memory->arena, &order->nodes, memory->graph_count, sizeof(ir_node **)) ||
        !copy_table(memory->arena, &order->numbers, memory->node_count, sizeof(int64_t)))
        return false;
    for (size_t g = 0; order->nodes && g < memory->graph_count; g++) {
        size_t count = 0;
        while (order->nodes[g] && order->nodes[g][count]) count++;
        if (!copy_table(memory->arena, &order->nodes[g], count + 1, sizeof(ir_node *))) return false;
    }
    return true;
}

pass_memory *pass_memory_copy(const pass_memory *from, base_arena *arena) {
    pass_memory *copy = BASE_NEW(arena, pass_memory);
    if (!copy) return NULL;
    *copy = *from;
    copy->arena = arena;
    copy->storage_capacity = from->storage_count;
    bool fine = copy_table(arena, &copy->storages, from->storage_count, sizeof(pass_storage)) &&
                copy_table(arena, &copy->locations, from->value_count, sizeof(pass_location)) &&
                copy_table(arena, &copy->siblings, from->value_count, sizeof(ir_value_id)) &&
                copy_table(arena, &copy->swapped, from->value_count, sizeof(bool)) &&
                copy_table(arena, &copy->executions, from->node_count, sizeof(pass_execution)) &&
                copy_table(arena, &copy->scratch, from->node_count, sizeof(pass_storage_id)) &&
                copy_table(arena, &copy->buffers, from->node_count, sizeof(pass_storage_id)) &&
                copy_table(arena, &copy->region_bytes, from->graph_count, sizeof(size_t)) &&
                copy_table(arena, &copy->region_bound, from->graph_count, sizeof(size_t)) &&
                copy_table(arena, &copy->views_in, from->graph_count, sizeof(uint32_t)) &&
                copy_multiviews(copy) && copy_order(copy);
    return fine ? copy : NULL;
}

/* ---- joining ------------------------------------------------------------------------------------------- */

pass_location pass_memory_resolve(const pass_memory *memory, pass_location location) {
    while (location.storage.index) {
        const pass_storage *storage = &memory->storages[location.storage.index];
        if (!storage->part_of.index) break;
        location.offset += storage->part_offset;
        location.storage = storage->part_of;
    }
    return location;
}

pass_location pass_memory_location(const pass_memory *memory, const ir_value *value) {
    pass_location *location = &memory->locations[value->id.index];
    return *location = pass_memory_resolve(memory, *location); /* the way is shorter next time */
}

pass_storage *pass_memory_storage(const pass_memory *memory, pass_storage_id id) {
    return &memory->storages[id.index];
}

void pass_memory_join(pass_memory *memory, pass_storage_id whole, pass_storage_id part, size_t offset) {
    const pass_location at = pass_memory_resolve(memory, (pass_location){whole, offset});
    pass_storage *into = &memory->storages[at.storage.index], *from = &memory->storages[part.index];
    from->part_of = at.storage;
    from->part_offset = at.offset;
    into->carried_again |=
        from->carried_again || (from->carried_by && into->carried_by && from->carried_by != into->carried_by);
    if (from->last_made >= 0) {
        int64_t made = from->last_made;
        if (from->graph != into->graph)
            made = ir_graph_encloses(into->graph, from->graph)
                       ? pass_step_in(into->graph, from->graph->owner, memory->order.numbers)
                       : -1;
        if (made > into->last_made) into->last_made = made;
    }
    if (from->values.index) {
        memory->siblings[from->last_value.index] = into->values;
        if (!into->values.index) into->last_value = from->last_value;
        into->values = from->values;
        from->values.index = 0;
    }
}

/* ---- questions ----------------------------------------------------------------------------------------- */

/* Where the region of a graph begins in the arena. */
static size_t region_offset(const pass_memory *memory, const ir_graph *graph) {
    size_t offset = 0;
    for (; graph->owner; graph = graph->owner->graph) {
        pass_storage_id buffer = memory->buffers[graph->owner->id.index];
        if (buffer.index) offset += memory->storages[buffer.index].offset;
    }
    return offset;
}

size_t pass_memory_offset(const pass_memory *memory, pass_location location) {
    location = pass_memory_resolve(memory, location);
    const pass_storage *storage = &memory->storages[location.storage.index];
    return region_offset(memory, storage->graph) + storage->offset + location.offset;
}

static const char *const space_names[] = {"nowhere",    "arena",   "constants", "input",     "output",
                                          "multi-view", "dynamic", "state",     "spill file"};

void pass_memory_print(const pass_memory *memory, const ir_module *module, FILE *file) {
    fprintf(file, "memory of %zu bytes, at least %zu, without reuse %zu\n", memory->arena_bytes,
            memory->lower_bound_bytes, memory->sum_bytes);
    for (size_t i = 1; i < memory->storage_count; i++) {
        const pass_storage *storage = &memory->storages[i];
        if (storage->part_of.index || storage->space == MEMORY_CONSTANT) continue;
        fprintf(file, "  storage %zu in %s", i, space_names[storage->space]);
        if (storage->space == MEMORY_ARENA) {
            fprintf(file, " of %s: %zu bytes at %zu, live [%" PRId64 ", %" PRId64 ")", storage->graph->name,
                    storage->bytes, storage->offset, storage->first, storage->last);
        }
        if (storage->space == MEMORY_SPILL)
            fprintf(file, ": %zu bytes at %zu, live [%" PRId64 ", %" PRId64 ")", storage->bytes,
                    storage->offset, storage->first, storage->last);
        if (storage->scratch_of) fprintf(file, ", scratch of node %s", storage->scratch_of->name);
        if (storage->buffer_of) fprintf(file, ", sub-graphs of node %s", storage->buffer_of->name);
        fputc('\n', file);
        for (ir_value_id v = storage->values; v.index; v = memory->siblings[v.index]) {
            const ir_value *value = module->values[v.index];
            if (value)
                fprintf(file, "    %%%s at %zu\n", value->name, pass_memory_location(memory, value).offset);
        }
    }
}

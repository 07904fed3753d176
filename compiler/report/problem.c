/* SPDX-License-Identifier: Apache-2.0 */
/* problem.c: the allocation problem of a model as CSV, for `ouro alloc` and other solvers. */
#include "compiler/report/report.h"

bool emit_storage_placed(const pass_storage *storage) {
    return storage->space == MEMORY_ARENA && !storage->part_of.index && storage->bytes &&
           storage->last > storage->first;
}

/* What the rows are called: the tensor, or what scratch and buffers are for; made unique by #2, #3, ... */
static const char *row_name(const pass_storage *storage, base_map *taken, base_arena *arena) {
    const ir_node *node = storage->scratch_of ? storage->scratch_of : storage->buffer_of;
    const char *name = !node && storage->value ? storage->value->name : "";
    if (node) {
        const char *own = node->name[0] ? node->name : op_schema_of(node->code)->name;
        name = base_arena_format(arena, "%s of %s", storage->scratch_of ? "scratch" : "buffer", own);
    }
    const char *unique = name && !name[0] ? "?" : name;
    for (unsigned k = 2; unique && base_map_get(taken, unique); k++)
        unique = base_arena_format(arena, "%s#%u", name, k);
    return unique && base_map_put(taken, unique, (void *)(uintptr_t)unique) ? unique : NULL;
}

base_status emit_problem(const compile_result *result, const char *path, base_report *report) {
    const pass_memory *memory = result->memory;
    base_arena arena;
    base_arena_init(&arena, NULL);
    base_map taken = {.arena = &arena};
    planner_buffer *buffers = BASE_ARRAY(&arena, planner_buffer, memory->storage_count + 1);
    const char **names = BASE_ARRAY(&arena, const char *, memory->storage_count + 1);
    base_status status = buffers && names ? BASE_OK : base_fail_memory(report);
    planner_problem problem = {.buffers = buffers};
    for (size_t i = 1; status == BASE_OK && i < memory->storage_count; i++) {
        const pass_storage *storage = &memory->storages[i];
        if (storage->graph != result->module->main || !emit_storage_placed(storage)) continue;
        names[problem.buffer_count] = row_name(storage, &taken, &arena);
        if (!names[problem.buffer_count]) status = base_fail_memory(report);
        /* Sizes are multiples of the alignment already, which the format of the benchmarks has no column for.
         */
        buffers[problem.buffer_count++] = (planner_buffer){.size = storage->bytes,
                                                           .first = storage->first,
                                                           .last = storage->last,
                                                           .fixed = PLANNER_NOT_FIXED};
    }
    if (status == BASE_OK) status = planner_csv_write(path, &problem, names, NULL, report);
    base_arena_free(&arena);
    return status;
}

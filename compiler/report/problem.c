/* SPDX-License-Identifier: Apache-2.0 */
/* problem.c: the allocation problem of a model as CSV, for `ouro alloc` and other solvers. */
#include "compiler/report/report.h"

bool emit_storage_placed(const pass_storage *storage) {
    return storage->space == MEMORY_ARENA && !storage->part_of.index && storage->bytes &&
           storage->last > storage->first;
}

base_status emit_problem(const compile_result *result, const char *path, base_report *report) {
    const pass_memory *memory = result->memory;
    base_arena arena;
    base_arena_init(&arena, NULL);
    planner_buffer *buffers = BASE_ARRAY(&arena, planner_buffer, memory->storage_count + 1);
    base_status status = buffers ? BASE_OK : base_fail_memory(report);
    planner_problem problem = {.buffers = buffers};
    for (size_t i = 1; buffers && i < memory->storage_count; i++) {
        const pass_storage *storage = &memory->storages[i];
        if (storage->graph != result->module->main || !emit_storage_placed(storage)) continue;
        /* Sizes are multiples of the alignment already, which the format of the benchmarks has no column for.
         */
        buffers[problem.buffer_count++] = (planner_buffer){.size = storage->bytes,
                                                           .first = storage->first,
                                                           .last = storage->last,
                                                           .fixed = PLANNER_NOT_FIXED};
    }
    if (status == BASE_OK) status = planner_csv_write(path, &problem, NULL, NULL, report);
    base_arena_free(&arena);
    return status;
}

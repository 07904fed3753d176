/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c: see compiler/command/machine.h. */
#include "compiler/command/machine.h"
#include "compiler/command/command.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/table.h"
#include <stdlib.h>
#include <string.h>

enum { TRIES = 5, EXTENT = 512 };
static const size_t COPIED = (size_t)64 << 20;

/* The best of some products of EXTENT rows, columns and depth, operands and result of a megabyte each. */
static base_status measure_product(const rt_environment *environment, base_arena *arena, double *rate,
                                   base_report *report) {
    const op_type type = {.dtype = OP_FLOAT, .shape = {.rank = 2, .dims = {EXTENT, EXTENT}}};
    const size_t bytes = (size_t)EXTENT * EXTENT * sizeof(float);
    op_tensor tensors[3];
    for (int i = 0; i < 3; i++) {
        tensors[i] = (op_tensor){.type = type, .bytes = bytes, .data = rt_arena_aligned(arena, bytes)};
        if (!tensors[i].data) return base_fail_memory(report);
        float *numbers = tensors[i].data;
        for (int k = 0; k < EXTENT * EXTENT; k++) numbers[k] = (float)(k % 7) - 3;
    }
    const op_call call = {.code = OP_MATMUL,
                          .input_count = 2,
                          .output_count = 1,
                          .inputs = (op_tensor[2]){{.type = type}, {.type = type}},
                          .outputs = &tensors[2]};
    const rt_kernel *kernel = rt_kernel_select(&call, environment);
    if (!kernel) return base_fail(report, BASE_INVALID, "there is no kernel for a matrix product");
    rt_prepared prepared;
    base_status status = rt_kernel_prepare(kernel, &call, environment, arena, &prepared, report);
    void *scratch = status == BASE_OK ? rt_arena_aligned(arena, prepared.scratch_bytes + 1) : NULL;
    if (status == BASE_OK && !scratch) status = base_fail_memory(report);
    for (int i = 0; i < TRIES && status == BASE_OK; i++) {
        const double start = command_seconds();
        status = prepared.run(&prepared, tensors, &tensors[2], scratch, report);
        const double seconds = command_seconds() - start;
        const double reached = 2.0 * EXTENT * EXTENT * EXTENT / seconds;
        if (seconds > 0 && reached > *rate) *rate = reached;
    }
    rt_kernel_release(&prepared);
    return status;
}

static base_status measure_copy(int threads, double *rate, base_report *report) {
    char *from = malloc(2 * COPIED);
    if (!from) return base_fail_memory(report);
    memset(from, 1, 2 * COPIED);
    for (int i = 0; i < TRIES; i++) {
        const double start = command_seconds();
        rt_copy_bytes(threads, from + COPIED, from, COPIED);
        const double seconds = command_seconds() - start, reached = 2 * (double)COPIED / seconds;
        if (seconds > 0 && reached > *rate) *rate = reached;
    }
    free(from);
    return BASE_OK;
}

base_status command_machine_measure(int threads, machine_peak *peak, base_report *report) {
    const rt_environment environment = {.threads = threads};
    base_arena arena;
    base_arena_init(&arena, NULL);
    *peak = (machine_peak){0};
    base_status status = measure_product(&environment, &arena, &peak->operations, report);
    base_arena_free(&arena);
    return status == BASE_OK ? measure_copy(threads, &peak->bytes, report) : status;
}

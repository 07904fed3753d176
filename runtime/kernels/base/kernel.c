/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c: an application is prepared for its kernel; memory as tensors want it. */
#include "runtime/kernels/base/kernel.h"

base_status rt_kernel_prepare(const rt_kernel *kernel, const op_call *call, const rt_environment *environment,
                              base_arena *arena, rt_prepared *prepared, base_report *report) {
    *prepared = (rt_prepared){.kernel = kernel,
                              .code = call->code,
                              .threads = environment->threads,
                              .input_count = call->input_count,
                              .output_count = call->output_count};
    return kernel->prepare(call, environment, arena, prepared, report);
}

void rt_kernel_release(rt_prepared *prepared) {
    if (prepared->kernel && prepared->kernel->release) prepared->kernel->release(prepared);
    *prepared = (rt_prepared){0};
}

void *rt_arena_aligned(base_arena *arena, size_t bytes) {
    size_t padded;
    if (!base_size_add(bytes, 2 * RT_ALIGNMENT, &padded)) return NULL;
    char *memory = base_arena_alloc(arena, padded, 1);
    return memory ? memory + (RT_ALIGNMENT - (uintptr_t)memory % RT_ALIGNMENT) % RT_ALIGNMENT : NULL;
}

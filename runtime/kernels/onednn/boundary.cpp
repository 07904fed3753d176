/* SPDX-License-Identifier: Apache-2.0 */
/* boundary.cpp: see boundary.h. The only C++ of this project. */
#include "runtime/kernels/onednn/boundary.h"
#include <sys/mman.h>

/* What oneDNN may want at once: more than the code that it generates for one primitive. */
static const size_t spare_bytes = 8 << 20;

static thread_local bool exhausted;

/* oneDNN does not look whether it got the memory for the code that it generates, and writes to where there is none. So that
 * much must be there before it begins. */
static bool is_memory_spare() {
    void *memory = mmap(nullptr, spare_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    munmap(memory, spare_bytes);
    return true;
}

int rt_dnnl_exhausted(void) {
    const bool was = exhausted;
    exhausted = false;
    return was;
}

static dnnl_status_t note(dnnl_status_t status) {
    exhausted |= status == dnnl_out_of_memory;
    return status;
}

#define DEFINE(makes, name, parameters, arguments)                                                           \
    dnnl_status_t rt_dnnl_##name parameters {                                                                \
        try {                                                                                                \
            if (makes && !is_memory_spare()) return note(dnnl_out_of_memory);                                \
            return note(dnnl_##name arguments);                                                              \
        } catch (...) {                                                                                      \
            return note(dnnl_out_of_memory);                                                                 \
        }                                                                                                    \
    }
RT_DNNL_FUNCTIONS(DEFINE)
#undef DEFINE

dnnl_status_t rt_dnnl_get_effective_cpu_isa(dnnl_cpu_isa_t *isa) {
    try {
        *isa = dnnl_get_effective_cpu_isa();
        return dnnl_success;
    } catch (...) {
        return note(dnnl_out_of_memory);
    }
}

dnnl_primitive_desc_t rt_dnnl_primitive_desc_iterator_fetch(const_dnnl_primitive_desc_iterator_t iterator) {
    try {
        return dnnl_primitive_desc_iterator_fetch(iterator);
    } catch (...) {
        note(dnnl_out_of_memory);
        return nullptr;
    }
}

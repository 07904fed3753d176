/* SPDX-License-Identifier: Apache-2.0 */
/* boundary.cpp: see boundary.h. The only C++ of this project. */
#include "runtime/kernels/onednn/boundary.h"
#include "runtime/argument_pool/argument_pool.h"
#include <sys/mman.h>

/* A program may do without. */
#pragma weak ouro_argument_pool_throw

/* What oneDNN may want at once: more than the code that it generates for one primitive. */
static const size_t spare_bytes = 8 << 20;

static thread_local bool exhausted;
static thread_local size_t exhaustions;

/* oneDNN does not look whether it got the memory for the code that it generates, or for an object of one of its classes, and writes to
 * where there is none. So that much must be there before it begins. Another thread may still take it: for the objects the
 * argument pool, where the program links that, makes a failure an exception. (Code is always mapped, which only this foresees.) */
static bool is_memory_spare() {
    void *memory = mmap(nullptr, spare_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    munmap(memory, spare_bytes);
    return true;
}

int rt_dnnl_exhausted(void) {
    const bool was = exhausted;
    exhausted = false;
    return was;
}

size_t rt_dnnl_exhaustions(void) {
    return exhaustions;
}

static dnnl_status_t note(dnnl_status_t status) {
    if (status == dnnl_out_of_memory) {
        exhausted = true;
        exhaustions++;
    }
    return status;
}

/* While it lives, objects of oneDNN for which there is no memory throw in this thread. */
class throwing {
  public:
    explicit throwing(bool wanted) : on(wanted && ouro_argument_pool_throw) {
        if (on) ouro_argument_pool_throw(1);
    }
    ~throwing() {
        if (on) ouro_argument_pool_throw(0);
    }

  private:
    const bool on;
};

/* A primitive whose making has thrown stays in oneDNN's cache as one that is being made, and whoever wants such a one gets
 * nothing from then on. So the cache is emptied. */
static void forget_primitives() {
    try {
        int capacity = 0;
        if (dnnl_get_primitive_cache_capacity(&capacity) != dnnl_success) return;
        (void)dnnl_set_primitive_cache_capacity(0);
        (void)dnnl_set_primitive_cache_capacity(capacity);
    } catch (...) { /* it stays as it is */
    }
}

#define DEFINE(makes, name, parameters, arguments)                                                           \
    dnnl_status_t rt_dnnl_##name parameters {                                                                \
        if (makes && !is_memory_spare()) return note(dnnl_out_of_memory);                                    \
        try {                                                                                                \
            const throwing now(makes);                                                                       \
            return note(dnnl_##name arguments);                                                              \
        } catch (...) {                                                                                      \
            forget_primitives();                                                                             \
            return note(dnnl_out_of_memory);                                                                 \
        }                                                                                                    \
    }
RT_DNNL_FUNCTIONS(DEFINE)
#undef DEFINE

dnnl_status_t rt_dnnl_get_effective_cpu_isa(dnnl_cpu_isa_t *isa) {
    if (!is_memory_spare()) return note(dnnl_out_of_memory);
    try {
        const throwing now(true);
        *isa = dnnl_get_effective_cpu_isa();
        return dnnl_success;
    } catch (...) {
        return note(dnnl_out_of_memory);
    }
}

dnnl_primitive_desc_t rt_dnnl_primitive_desc_iterator_fetch(const_dnnl_primitive_desc_iterator_t iterator) {
    if (!is_memory_spare()) {
        note(dnnl_out_of_memory);
        return nullptr;
    }
    try {
        const throwing now(true);
        return dnnl_primitive_desc_iterator_fetch(iterator);
    } catch (...) {
        note(dnnl_out_of_memory);
        return nullptr;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* argument_pool.c: keeps oneDNN from allocating while a plan runs. A library of its own: programs choose it.
 *
 * dnnl_primitive_execute copies its list of arguments into a std::unordered_map, whose nodes come from C++'s
 * operator new; so do a few helpers of some primitives. A program that links this library gets operators new
 * and delete from it, under the names that the C++ ABI gives them. While a thread is between
 * ouro_argument_pool_enter and ouro_argument_pool_leave, its allocations come from a slot of a fixed pool. At all
 * other times, on all other threads, and when a slot is full, they are malloc's. delete tells by the address.
 *
 * The runtime calls both functions where the program has them (they are weak references there). A program
 * without this library keeps its operators as they are, and each execution of a oneDNN primitive makes a few
 * short-lived allocations. A program that defines operator new itself cannot link it: the linker says so.
 *
 * A shared library's reference to operator new is resolved by the dynamic linker, which asks the program first.
 * The definitions here end up in the program, and the linker exports them, because a shared library on its
 * command line (libdnnl) refers to them. In a program linked with -Bsymbolic and the like, libstdc++'s stay in
 * force. New handlers and std::bad_alloc work as usual.
 *
 * Objects of a slot are a stack: the newest gives its bytes back when it goes, along with those below it that have
 * gone before (primitives of recurrent networks make and free a few in every step).
 *
 * An object that outlives the execution that made it (a lazily filled cache, say) is safe: a slot counts its
 * objects and is used again only when the last of them has gone.
 *
 * Where the heap has nothing, an object gets a slot for itself while there is one. What oneDNN makes on a thread of OpenMP are small
 * things, and an exception there would end the process.
 *
 * oneDNN's own classes get their memory from posix_memalign, and their constructors write to it without looking
 * whether there is any. So posix_memalign is here, too: in the thread that has asked for it (ouro_argument_pool_throw) it throws
 * where it finds nothing, as operator new does. It is weak: a program that has its own keeps it.
 */
#include "runtime/argument_pool/argument_pool.h"
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

enum { SLOTS = 128, SLOT_BYTES = 4096, SLOT_ALIGNMENT = 16 };

typedef struct pool_slot {
    _Alignas(64) unsigned char bytes[SLOT_BYTES];
} pool_slot;

/* Before each object of a slot. */
typedef struct pool_object {
    _Alignas(SLOT_ALIGNMENT) uint32_t below; /* where the header of the object below begins */
    uint32_t gone;
} pool_object;

/* The one place of mutable memory that is shared by all sessions of a process: operator new has no argument
 * through which a session could be reached. holders[i]: 0 where slot i is free; else 1 for the thread that is
 * inside, plus one for each object in it. */
static pool_slot slots[SLOTS];
static atomic_uint holders[SLOTS];

/* The slot of the calling thread, where it is inside: its number plus one. */
static _Thread_local unsigned inside;
static _Thread_local size_t used;
static _Thread_local uint32_t newest; /* where the header of the newest object begins, if any is there */
static _Thread_local unsigned last;   /* the slot it had last time: mostly still free, and warm */

/* A slot that was free is held once: its number plus one; 0: there is none. */
static unsigned take_slot(void) {
    for (unsigned i = 0; i < SLOTS; i++) {
        const unsigned slot = (last + i) % SLOTS;
        unsigned expected = 0;
        if (atomic_load_explicit(&holders[slot], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&holders[slot], &expected, 1, memory_order_acquire,
                                                    memory_order_relaxed))
            return slot + 1;
    }
    return 0;
}

/* The calling thread wants posix_memalign to throw. */
static _Thread_local int throws;

void ouro_argument_pool_throw(int on) {
    throws = on;
}

void ouro_argument_pool_enter(void) {
    inside = take_slot();
    if (!inside) return;
    last = inside - 1;
    used = newest = 0;
}

void ouro_argument_pool_leave(void) {
    if (!inside) return;
    atomic_fetch_sub_explicit(&holders[inside - 1], 1, memory_order_release);
    inside = 0;
}

static pool_object *object_at(size_t slot, size_t at) {
    return (pool_object *)(void *)(slots[slot].bytes + at);
}

static void *of_library(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

/* Does not return, where there is a C++ library. */
static void throw_bad_alloc(void) {
    void (*throw_it)(void);
    *(void **)&throw_it = of_library("_ZSt17__throw_bad_allocv");
    if (throw_it) throw_it();
}

/* A slot for one object, which holds it, where the heap has nothing. */
static void *allocate_slot(size_t bytes) {
    if (bytes > SLOT_BYTES - sizeof(pool_object)) return NULL;
    const unsigned slot = take_slot();
    if (!slot) return NULL;
    pool_object *object = object_at(slot - 1, 0);
    *object = (pool_object){0};
    return object + 1;
}

static void *allocate(size_t bytes) {
    if (inside && bytes <= SLOT_BYTES) {
        const size_t rounded = (bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
        const size_t needed = sizeof(pool_object) + (rounded ? rounded : SLOT_ALIGNMENT);
        if (SLOT_BYTES - used >= needed) {
            pool_object *object = object_at(inside - 1, used);
            *object = (pool_object){.below = newest};
            newest = (uint32_t)used;
            used += needed;
            atomic_fetch_add_explicit(&holders[inside - 1], 1, memory_order_relaxed);
            return object + 1;
        }
    }
    for (;;) {
        void *object = malloc(bytes ? bytes : 1);
        if (object) return object;
        /* As the C++ standard asks: the new handler may find memory; without one, std::bad_alloc. */
        void (*(*get_handler)(void))(void);
        *(void **)&get_handler = of_library("_ZSt15get_new_handlerv");
        void (*handler)(void) = get_handler ? get_handler() : NULL;
        if (handler) {
            handler();
            continue;
        }
        object = allocate_slot(bytes);
        if (object) return object;
        throw_bad_alloc();
        abort();
    }
}

static void release(void *object) {
    const uintptr_t address = (uintptr_t)object, first = (uintptr_t)slots;
    if (address >= first && address < first + sizeof slots) {
        const size_t slot = (address - first) / sizeof *slots;
        if (inside == slot + 1) {
            ((pool_object *)object - 1)->gone = 1;
            while (used && object_at(slot, newest)->gone) {
                used = newest;
                newest = object_at(slot, newest)->below;
            }
        }
        atomic_fetch_sub_explicit(&holders[slot], 1, memory_order_release);
        return;
    }
    free(object);
}

/* operator new(size_t), operator new[](size_t), operator delete(void *), operator delete[](void *), and the
 * latter two with a size. libstdc++'s other forms without an alignment call these; those with one are left
 * alone. */
#pragma GCC visibility push(default)
void *_Znwm(size_t bytes);
void *_Znam(size_t bytes);
void _ZdlPv(void *object);
void _ZdaPv(void *object);
void _ZdlPvm(void *object, size_t bytes);
void _ZdaPvm(void *object, size_t bytes);

void *_Znwm(size_t bytes) {
    return allocate(bytes);
}
void *_Znam(size_t bytes) {
    return allocate(bytes);
}
void _ZdlPv(void *object) {
    release(object);
}
void _ZdaPv(void *object) {
    release(object);
}
void _ZdlPvm(void *object, size_t bytes) {
    (void)bytes;
    release(object);
}
void _ZdaPvm(void *object, size_t bytes) {
    (void)bytes;
    release(object);
}

__attribute__((weak)) int posix_memalign(void **block, size_t alignment, size_t bytes) {
    if (alignment == 0 || alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    /* The heap's, whichever it is. */
    void *made = memalign(alignment, bytes);
    if (made) {
        *block = made;
        return 0;
    }
    if (throws) throw_bad_alloc();
    return ENOMEM;
}
#pragma GCC visibility pop

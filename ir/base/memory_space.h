/* SPDX-License-Identifier: Apache-2.0 */
/* memory_space.h: in which memory a tensor lies. The numbers stand in plan files. */
#ifndef OURO_MEMORY_SPACE_H
#define OURO_MEMORY_SPACE_H

typedef enum memory_space {
    MEMORY_NONE = 0,  /* nowhere: an output that nobody wants, of a node that need not write it */
    MEMORY_ARENA,     /* the memory of a session, laid out by the compiler */
    MEMORY_CONSTANT,  /* the constants of a plan: read only, shared by all sessions */
    MEMORY_INPUT,     /* a buffer of the caller, read only */
    MEMORY_OUTPUT,    /* a buffer of the caller */
    MEMORY_MULTIVIEW, /* another address in each iteration of a loop, from a table */
    MEMORY_DYNAMIC,   /* of a size that only the run knows: the run-time allocator */
    MEMORY_STATE,     /* the memory of a session that is kept from run to run, laid out by the compiler */
    MEMORY_SPILL /* the spill file of a session, laid out by the compiler: what is put there is read back into the arena */
} memory_space;

#endif

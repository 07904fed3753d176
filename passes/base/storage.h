/* storage.h: the memory plan as data: what the passes make, and what compiler/plan_write.c writes.
 *
 * Words:
 *   storage    bytes that one or several values share. A value lies in exactly one storage, at an offset.
 *   place      where a storage is: in the arena, in the constants, in a buffer of the caller, or made at run time.
 *   step       a point of the schedule. Numbered within one graph from 0: step k runs node number k of the graph's list.
 *              A storage is live during [first, last) of these.
 */
#ifndef OURO_STORAGE_H
#define OURO_STORAGE_H

#include "ir/ir.h"

typedef struct pass_storage_id {
    uint32_t index;
} pass_storage_id; /* dense from 1; zero: none */

typedef enum pass_place {
    PASS_PLACE_NONE = 0,
    PASS_PLACE_ARENA,
    PASS_PLACE_CONSTANT,
    PASS_PLACE_INPUT,   /* the caller's buffer of main parameter `index`: read only */
    PASS_PLACE_OUTPUT,  /* the caller's buffer of main result `index` */
    PASS_PLACE_DYNAMIC, /* size not known before the run: the run-time allocator */
    PASS_PLACE_VIEW     /* another place in each iteration of a loop: see pass_view */
} pass_place;

/* One storage. Storages of a sub-graph that are bound from outside (a branch's result that lies in the If's
 * output) are storages of the outer graph. */
typedef struct pass_storage {
    pass_place place;
    uint32_t index;      /* of the caller's input or output; of the view in pass_memory.views */
    ir_graph *graph;     /* in whose frame it is allocated; NULL for constants */
    ir_value *value;     /* the largest value in it, for names in pictures and messages */
    ir_node *scratch_of; /* it is the scratch of this node; NULL otherwise */
    ir_node *buffer_of;  /* it is the buffer of this node's sub-graphs; NULL otherwise */
    ir_node *carried_by; /* carried values of this loop are made in it, in turn with other buffers; NULL
                            otherwise */
    bool carried_again;  /* and those of another loop */
    bool exchanged;      /* of a parameter that will lie in an exchanged buffer (loop_exchange.h) */
    size_t bytes; /* rounded up to RT_ALIGNMENT by analyse-liveness; exact before. In the arena without a
                            size in the value's type: room (reserve-growth) */
    int64_t first, last; /* live range in the steps of `graph`; set by analyse-liveness */
    size_t offset; /* set by allocate: within the buffer of `graph` (the main graph: within the arena) */
    /* A storage that has become part of another is no longer one of its own: it lies `part_offset` bytes into
     * `part_of` (zero: it stands for itself). Follow with pass_memory_location. */
    pass_storage_id part_of;
    size_t part_offset;
    ir_value_id values; /* first of the values in it, linked by pass_memory.siblings */
} pass_storage;

/* Where a value lies: `offset` bytes into a storage. */
typedef struct pass_location {
    pass_storage_id storage;
    size_t offset;
} pass_location;

/* Where a storage is in iteration t of a loop (for the loop's outputs: t is the number of iterations that
 * have run): t < prologue:  entries[t]                       (type II; type I has no prologue) otherwise:
 * entries[prologue + (t - prologue) % period], stride * (t - prologue) bytes further on An entry may lie in a
 * storage that is itself a view of an enclosing loop: views nest. */
typedef struct pass_view {
    ir_node *loop;
    uint32_t prologue, period; /* period: the repeat length, at least 1 */
    int64_t stride; /* bytes; not 0 only for slices of what is scanned or stacked, whose period is 1 */
    uint32_t
        group; /* not 0: an exchanged buffer, which may trade places with the others of the loop's group; then
                       there is one entry, where it is when the loop begins */
    pass_storage_id buffer; /* of an exchanged buffer: the storage that lies in this view */
    pass_location *entries; /* prologue + period of them */
} pass_view;

/* Per node: how it runs. */
typedef enum pass_execution {
    PASS_RUN = 0, /* its kernel, or its sub-graphs */
    PASS_VIEW     /* nothing to do: its outputs are bytes of its inputs (or the other way round, Concat) */
} pass_execution;

/* The memory plan of a module: what the passes make and compiler/plan_write.c writes. Lives in `arena`. */
typedef struct pass_memory {
    base_arena *arena;
    pass_storage *storages; /* [0] is unused */
    size_t storage_count, storage_capacity;
    pass_location *locations;   /* by value id; value_count entries; of the storage made for the value */
    ir_value_id *siblings;      /* by value id: the next value in the same storage */
    pass_execution *executions; /* by node id */
    bool *exchanged; /* by value id: an output that gets its bytes by exchange; NULL before analyse-loops */
    pass_storage_id *scratch; /* by node id: its scratch storage */
    pass_storage_id
        *buffers;         /* by node id: the storage in the parent frame that holds its sub-graphs' frames */
    size_t *buffer_bytes; /* by graph id: bytes of the frame of the graph; main: the arena */
    size_t *buffer_bound; /* by graph id: lower bound of that frame */
    pass_view *views;     /* [0] is unused */
    size_t view_count, view_capacity;
    uint32_t group_count; /* groups of exchanged buffers are numbered from 1 */
    size_t value_count, node_count, graph_count;
    size_t arena_bytes;
    size_t lower_bound_bytes;
    size_t sum_bytes;             /* of all arena storages: no reuse at all */
    size_t file_order_peak_bytes; /* the lower bound that the file's order would have had */
    bool optimal;
    uint32_t dynamic_values;
    double plan_seconds;
} pass_memory;

/* A memory plan in which every value has a storage of its own, none placed yet. NULL when memory runs out. */
pass_memory *pass_memory_new(const ir_module *module, base_arena *arena);
/* Makes room for values and nodes that were added to the module since; new values get storages of their own.
 */
bool pass_memory_extend(pass_memory *memory, const ir_module *module);
/* A storage without a value: scratch, or the buffer of sub-graphs. Zero when memory runs out. */
pass_storage_id pass_memory_add(pass_memory *memory, const pass_storage *storage);
/* One more view; its number, 0 when memory runs out. */
uint32_t pass_memory_add_view(pass_memory *memory, const pass_view *view);
/* The view, if the storage is an exchanged buffer; NULL otherwise. */
const pass_view *pass_memory_exchanged(const pass_memory *memory, pass_storage_id id);
/* Where a value lies, parts followed to the storage that stands for itself. Storage zero: nowhere. */
pass_location pass_memory_location(const pass_memory *memory, const ir_value *value);
pass_storage *pass_memory_storage(const pass_memory *memory, pass_storage_id id);
/* The same place in the storage that stands for itself. */
pass_location pass_memory_resolve(const pass_memory *memory, pass_location location);
/* `part` becomes bytes [offset, offset + its size) of `whole`; both stand for themselves and are different.
 */
void pass_memory_join(pass_memory *memory, pass_storage_id whole, pass_storage_id part, size_t offset);

/* The absolute offset in the arena of a location whose storage is in the arena: the storage's offset plus
 * that of every enclosing graph's buffer. */
size_t pass_memory_offset(const pass_memory *memory, pass_location location);
/* Prints storages and places, one a line. */
void pass_memory_print(const pass_memory *memory, const ir_module *module, FILE *file);

#endif

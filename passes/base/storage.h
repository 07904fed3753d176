/* SPDX-License-Identifier: Apache-2.0 */
/* storage.h: the memory plan as data: what the passes decide about memory, and compiler/plan_write.c writes.
 *
 * Where does a value lie? In a storage, so many bytes from its begin (pass_location). Where does a storage lie? In a memory
 * space: in the arena at an offset that allocate chooses, in the constants, in a buffer of the caller, at another address
 * in each iteration of a loop (pass_multiview), or in memory that is taken at run time.
 *
 * Words:
 *   storage   bytes that one or several values share. A value lies in exactly one storage.
 *   spilled   in the spill file, from a Spill to the last Restore of it: a memory space of its own, with offsets like the arena's
 *   region    the part of the arena in which the storages of one graph lie. The region of a sub-graph is a part of its
 *             node's buffer, which is a storage of the graph around it.
 *   step      a point of the schedule, numbered in each graph from 0: step k runs the k-th node of the graph's list.
 *             A storage is live in steps first to last - 1 of the graph in whose region it lies.
 */
#ifndef OURO_STORAGE_H
#define OURO_STORAGE_H

#include "ir/base/memory_space.h"
#include "ir/ir.h"

typedef struct pass_storage_id {
    uint32_t index;
} pass_storage_id; /* dense from 1; zero: none */

/* One storage. Storages of a sub-graph that are bound from outside (a branch's result that lies in the If's output) are
 * storages of the outer graph. */
typedef struct pass_storage {
    memory_space space;
    uint32_t index;  /* of the caller's input (main parameter) or output (main result); of the multi-view */
    ir_graph *graph; /* in whose region it lies; NULL for constants */
    ir_value *value; /* the largest value in it, for names in pictures and messages */
    ir_node *scratch_of; /* it is the scratch memory of this node; NULL otherwise */
    ir_node *buffer_of;  /* it is the buffer of this node's sub-graphs; NULL otherwise */
    const ir_node
        *carried_by;    /* carried values of this loop are made in it, in turn with others; NULL otherwise */
    bool carried_again; /* and those of another loop */
    bool swapped;       /* of a parameter that will lie in a buffer that takes part in swaps */
    /* The bytes of a buffer that takes part in swaps, as they are at first: its multi-view; 0. */
    uint32_t swap_view;
    /* How large it is: exact at first, rounded up to RT_ALIGNMENT by analyse-liveness. A storage in the arena for a value
     * without a known size has the bytes that reserve-growth and reserve-bounds reserve. */
    size_t bytes;
    int64_t first, last; /* live range in the steps of `graph`; set by analyse-liveness */
    size_t offset;       /* in the region of `graph`; set by allocate */
    /* A storage that has become part of another is no longer one of its own: it lies `part_offset` bytes into `part_of`
     * (zero: it stands for itself). pass_memory_location follows this. */
    pass_storage_id part_of;
    size_t part_offset;
    ir_value_id values, last_value; /* first and last of the values in it, linked by pass_memory.siblings */
    /* The last step of `graph` that makes one of them; -1: none, or not known yet (analyse-loops). */
    int64_t last_made;
    const ir_node *left_by; /* the loop that is analysed, if it leaves a value here */
} pass_storage;

/* Where a value lies: `offset` bytes into a storage. */
typedef struct pass_location {
    pass_storage_id storage;
    size_t offset;
} pass_location;

/* A table of the addresses at which a storage lies, one iteration of a loop after another (rotating buffers). In iteration t
 * it lies at
 *     entries[t]                                                            while t < prologue (type II; type I has none),
 *     entries[prologue + (t - prologue) % repeat] + stride * (t - prologue) bytes        from then on.
 * Where it counts from the end, the index is prologue + (t - n) % repeat (not negative), n the number of iterations in all.
 * For the outputs of the loop, t is the number of iterations that have run. An entry may lie in a storage that has a
 * multi-view of an enclosing loop: they nest. */
typedef struct pass_multiview {
    const ir_node *loop;       /* or an If, with an entry for each branch: the one that has run decides */
    uint32_t prologue, repeat; /* repeat: the repeat length, at least 1 */
    int64_t stride; /* bytes; not 0 only for slices of what is scanned or stacked, whose repeat length is 1 */
    /* Not 0: the storage is a buffer that may swap its name with the others of this group while the loop runs (a buffer
     * swap). There is one entry then: where it lies when the loop begins. */
    uint32_t group;
    pass_storage_id buffer; /* of a group: the storage that this multi-view is for */
    bool lazy; /* of a group: copies from one of its buffers to another only hand the address on (plan.h) */
    bool
        from_end; /* the part that repeats is counted from the end: the loop's last iteration leaves it at the first entry */
    pass_location *entries; /* prologue + repeat of them */
    /* The next one whose loop is a node of the same graph; 0: none (pass_memory.views_in). */
    uint32_t next_in_graph;
} pass_multiview;

/* Per node: how it runs. */
typedef enum pass_execution {
    PASS_RUN = 0, /* its kernel, or its sub-graphs */
    PASS_ALIAS    /* nothing to do: its outputs are bytes of its inputs (or the other way round, Concat) */
} pass_execution;

/* In which order the nodes of each graph run, apart from the lists of the module: what a memory plan is made for. */
typedef struct pass_order {
    ir_node ***nodes; /* by graph id: the nodes of the graph, then NULL; NULL for graphs that are gone */
    int64_t *numbers; /* by node id: the step in which it runs */
} pass_order;

/* A kernel that was chosen because there was memory for it (choose-kernels). */
typedef struct pass_choice {
    const ir_node *node;
    const char *instead_of;         /* the kernel that it would have had */
    double seconds, seconds_before; /* with this kernel and with that one: predicted, or, both of them, */
    bool measured;
    size_t scratch_bytes;  /* of the kernel chosen */
    size_t constant_bytes; /* that its weights take more */
} pass_choice;

/* Nodes that are computed band by band (make-bands). */
typedef struct pass_banded {
    const char *first, *last; /* the names of its first and last node, or what they make */
    size_t nodes;
    int64_t rows;        /* of the last node's result, in each band */
    size_t state_bytes;  /* rows that the loop carries, as estimated */
    double more_seconds; /* predicted, more than node by node */
} pass_banded;

/* A value that is computed again instead of being kept (recompute). */
typedef struct pass_recomputed {
    const char *node, *reader; /* the names of what makes it and of its later reader, or what they make */
    op_code code;
    size_t bytes;
    double seconds; /* predicted, that this takes */
} pass_recomputed;

/* What make-bands has done. */
typedef struct pass_bands {
    pass_banded *list;
    size_t count;
    size_t whole_bytes;   /* lower bound of the arena of the graph as it is written; 0: nobody asked */
    double whole_seconds; /* predicted, without bands and on direct kernels */
    double saved_seconds; /* of these, what the kernels save that are chosen without bands */
} pass_bands;

/* The memory plan of a module. Lives in `arena`. */
typedef struct pass_memory {
    base_arena *arena;
    pass_order order;       /* the order that it is made for; nothing before schedule */
    pass_storage *storages; /* [0] is unused */
    size_t storage_count, storage_capacity;
    pass_location *locations;   /* by value id; value_count entries; of the storage made for the value */
    ir_value_id *siblings;      /* by value id: the next value in the same storage */
    pass_execution *executions; /* by node id */
    bool *swapped; /* by value id: a loop's output that gets its bytes by a swap; NULL before analyse-loops */
    pass_storage_id *scratch; /* by node id: its scratch storage */
    pass_storage_id
        *buffers; /* by node id: the storage in the region around it that holds its sub-graphs' regions */
    size_t *region_bytes;       /* by graph id: bytes of its region; main: the arena */
    size_t *region_bound;       /* by graph id: lower bound of that region */
    pass_multiview *multiviews; /* [0] is unused */
    size_t multiview_count, multiview_capacity;
    /* By graph id: the first multi-view of which the loop is a node of this graph; 0: none. */
    uint32_t *views_in;
    uint32_t group_count; /* groups of swapped buffers are numbered from 1 */
    size_t value_count, node_count, graph_count;
    size_t arena_bytes;
    struct pass_reservation {
        size_t offset, bytes; /* in the memory that is kept; 0 bytes: none */
    } * reserved;             /* by state, of those that grow: NULL before allocate */
    size_t state_bytes; /* of what is kept from run to run: the storages of the graph around the model */
    size_t least_arena_bytes; /* lower bound of the arena before kernels were chosen that want more */
    pass_choice *choices;
    size_t choice_count;
    const pass_bands *bands; /* NULL: none */
    const pass_recomputed *recomputed;
    size_t recomputed_count;
    size_t spill_bytes;   /* of the file in which spilled values lie */
    double spill_seconds; /* predicted, that writing and reading them takes */
    size_t lower_bound_bytes;
    size_t sum_bytes;             /* of all arena storages: no reuse at all */
    size_t file_order_peak_bytes; /* the lower bound that the file's order would have had */
    bool optimal;
    uint32_t dynamic_values;
    double plan_seconds;
} pass_memory;

/* A memory plan in which every value has a storage of its own, without an offset. NULL when memory runs out. */
pass_memory *pass_memory_new(const ir_module *module, base_arena *arena);
/* A copy that shares nothing with `from` but the module; its tables live in `arena`. NULL when memory runs out. */
pass_memory *pass_memory_copy(const pass_memory *from, base_arena *arena);
/* Adds values and nodes that the module got since; new values get storages of their own. False when memory runs out. */
bool pass_memory_extend(pass_memory *memory, const ir_module *module);
/* Adds a storage without a value: scratch memory, or a buffer. Zero when memory runs out. */
pass_storage_id pass_memory_add(pass_memory *memory, const pass_storage *storage);
/* Adds a multi-view: its number, 0 when memory runs out. */
uint32_t pass_memory_add_multiview(pass_memory *memory, const pass_multiview *multiview);
/* The multi-view of a storage that takes part in buffer swaps; NULL for others. */
const pass_multiview *pass_memory_swapped(const pass_memory *memory, pass_storage_id id);
/* Where a value lies: in a storage that is no part of another. Storage zero: nowhere. */
pass_location pass_memory_location(const pass_memory *memory, const ir_value *value);
pass_storage *pass_memory_storage(const pass_memory *memory, pass_storage_id id);
/* The same bytes, in the storage that is no part of another. */
pass_location pass_memory_resolve(const pass_memory *memory, pass_location location);
/* `part` becomes bytes [offset, offset + its size) of `whole`, or of what that is a part of; its values get into the list of
 * that. Before, `part` is no part of another, and not what `whole` lies in. */
void pass_memory_join(pass_memory *memory, pass_storage_id whole, pass_storage_id part, size_t offset);
/* The offset in the arena of a location whose storage is in the arena: the storage's own, and those of the buffers that
 * hold its region. */
size_t pass_memory_offset(const pass_memory *memory, pass_location location);
/* Prints storages and their values, one a line. */
void pass_memory_print(const pass_memory *memory, const ir_module *module, FILE *file);

#endif

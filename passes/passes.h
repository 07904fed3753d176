/* passes.h: the compiler's pipeline: what each pass needs, keeps and makes, and what they hand on.
 *
 * The pipeline is data: one table in pipeline.c (name, run, needs, keeps, makes). The runner does the rest
 * alike for all: computes the analyses that a pass needs, runs it, drops what it does not keep, verifies the
 * IR in debug builds, dumps when asked. Passes hold no bookkeeping of their own.
 *
 * Order (see pipeline.c for the contract of each):
 *   infer-shapes, fold-constants, eliminate-dead-code, hoist-invariants, fuse, select-layouts,
 *   carry-layouts, select-kernels, limit-unrolling, prepare-results, analyse-views, reserve-growth, schedule, choose-in-place, analyse-loops, analyse-liveness, allocate,
 * (plan is written and verified)
 *
 * Words:
 *   storage    bytes that one or several values share. A value lies in exactly one storage, at an offset.
 *   place      where a storage is: in the arena, in the constants, in a buffer of the caller, or made at run
 * time step       a point of the schedule. Numbered within one graph from 0: step k runs node number k of the
 *              graph's list. A storage is live during [first, last) of these.
 */
#ifndef OURO_PASSES_H
#define OURO_PASSES_H

#include "ir/ir.h"
#include "passes/planner.h"
#include "runtime/kernels/kernel.h"

/* ---- options of a compile ------------------------------------------------------------------------------ */

/* What becomes of RNN, GRU and LSTM where they can be loops (lower_recurrent.c). */
typedef enum pass_recurrent {
    PASS_RECURRENT_BEST = 0,
    PASS_RECURRENT_LOOPS,
    PASS_RECURRENT_KERNELS
} pass_recurrent;

typedef struct pass_options {
    const char *allocator; /* name of a planner; NULL: auto, or what stands for it */
    double seconds;        /* for searching planners */
    int max_unroll;        /* the longest period of a view (limit_unrolling.c); 0: 16 */
    pass_recurrent recurrent;
    rt_environment environment; /* threads; portable_only */
    const char *dump_after;     /* name of a pass, "all", or NULL */
    FILE *dump_file;            /* where to; NULL: stderr */
} pass_options;

static inline uint32_t pass_unroll_limit(const pass_options *options) {
    return options->max_unroll > 0 ? (uint32_t)options->max_unroll : 16;
}

/* ---- analysis results ---------------------------------------------------------------------------------- */

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
    bool *exchanged;            /* by value id: an output that gets its bytes by exchange; NULL before analyse-loops */
    pass_storage_id *scratch;   /* by node id: its scratch storage */
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

/* Everything that a pass sees. `scratch` is reset after each pass. */
typedef struct pass_context {
    ir_module *module;
    const pass_options *options;
    base_arena *scratch;
    base_arena *memory_arena; /* of the memory plan */
    pass_memory *memory;      /* NULL before analyse-views */
    base_report *report;
} pass_context;

typedef base_status pass_function(pass_context *context);

/* Gives the open extents of an application some numbers, to ask kernels about: the same for equal symbols, different ones
 * for others; the outputs are inferred from these. False: nothing is open, or what the outputs are does not follow from
 * extents (or memory ran out): it stays as it is. (example_extents.c) */
bool pass_example_extents(op_call *call, base_arena *arena);

/* ---- the passes, one a file ---------------------------------------------------------------------------- */

base_status pass_infer_shapes(pass_context *context);        /* infer_shapes.c */
base_status pass_fold_constants(pass_context *context);      /* fold_constants.c */
base_status pass_eliminate_dead_code(pass_context *context); /* eliminate_dead_code.c */
base_status pass_fuse(pass_context *context);                /* fuse.c */
base_status pass_select_layouts(pass_context *context);      /* select_layouts.c */
base_status pass_select_kernels(pass_context *context);      /* select_kernels.c */
base_status pass_slice_iterations(pass_context *context);    /* slice_iterations.c */
base_status pass_lower_einsum(pass_context *context);        /* lower_einsum.c */
base_status pass_lower_recurrent(pass_context *context);     /* lower_recurrent.c */
base_status pass_hoist_invariants(pass_context *context);    /* hoist_invariants.c */
base_status pass_carry_layouts(pass_context *context);       /* carry_layouts.c */
base_status pass_carry_growth(pass_context *context);        /* carry_growth.c */
base_status pass_limit_unrolling(pass_context *context);     /* limit_unrolling.c */
base_status pass_prepare_results(pass_context *context);     /* prepare_results.c */
base_status pass_analyse_views(pass_context *context);       /* analyse_views.c */
base_status pass_reserve_growth(pass_context *context);      /* reserve_growth.c */
base_status pass_schedule(pass_context *context);            /* schedule.c */
base_status pass_choose_in_place(pass_context *context);     /* choose_in_place.c */
base_status pass_analyse_loops(pass_context *context);       /* analyse_loops.c */
base_status pass_analyse_liveness(pass_context *context);    /* analyse_liveness.c */
base_status pass_allocate(pass_context *context);            /* allocate.c */

/* The axes of its input in the order in which a Transpose puts them; false where they are not so many. (fuse.c) */
bool pass_transpose_order(const ir_node *transpose, int32_t rank, int64_t *order);
/* A product can read its operand (0: left, 1: right) with the axes in this order: the innermost stays the depth of the left
 * one, and an axis of the matrix of the right one. (fuse.c) */
bool pass_is_walkable(const int64_t *order, int32_t rank, uint32_t operand);

/* How many values a Loop carries: its inputs but for trip count, condition and what it scans. (analyse_loops.c) */
uint32_t pass_carried_count(const ir_node *loop);
/* Carried value `index` of a Loop has one size, known now: analyse-loops can give it addresses that change, so
 * that nothing is copied. Otherwise the executor copies, hands on, or lets it grow. (analyse_loops.c) */
bool pass_carried_is_static(const ir_node *loop, uint32_t index);
/* How often a loop runs, if that is certain; -1. (analyse_loops.c) */
int64_t pass_known_trips(const ir_node *loop);

/* ---- the pipeline (pipeline.c) ------------------------------------------------------------------------- */

/* Runs all passes on the module. On BASE_OK *memory (in memory_arena, which the caller owns) is the memory
 * plan. */
base_status pass_pipeline_run(ir_module *module, const pass_options *options, base_arena *memory_arena,
                              pass_memory **memory, base_report *report);
/* The names, for --dump-after and its error message; NULL behind the last. */
const char *pass_pipeline_name(size_t index);

/* ---- the memory plan (memory.c) ------------------------------------------------------------------------ */

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
/* By graph id, the largest sum of bytes that the storages in the arena of each of these graphs have live at
 * one step, after analyse-liveness. What sub-graphs have live counts in their control node's step. `graphs`
 * as made by pass_graphs_outermost_first. False when memory runs out. */
bool pass_memory_frame_peaks(const pass_memory *memory, ir_graph *const *graphs, size_t graph_count,
                             base_arena *scratch, size_t *peaks);
/* The step of `graph` in which `node` runs: its own number there, or that of the control node that holds it.
 */
int64_t pass_step_in(const ir_graph *graph, const ir_node *node, const int64_t *numbers);
/* Numbers the nodes of all graphs: by node id, the place in its graph's list. NULL when memory runs out. */
int64_t *pass_number_nodes(const ir_module *module, base_arena *scratch);
/* The graphs of a module, enclosing ones before enclosed ones. NULL when memory runs out. */
ir_graph **pass_graphs_outermost_first(const ir_module *module, base_arena *scratch, size_t *count);
/* Prints storages and places, one a line. */
void pass_memory_print(const pass_memory *memory, const ir_module *module, FILE *file);

#endif

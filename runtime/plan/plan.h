/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: the plan file: a model compiled into steps, addresses and constants.
 *
 * The file is used as it lies: a header, tables of fixed-size records that refer to each other by index, and
 * the constants, each aligned to 64 bytes. It describes itself: operators, attributes and kernels stand by
 * name, so that a plan can be inspected, verified and drawn without the model. Numbers are little-endian.
 * Everything is checked at load before anything is trusted: bounds, checksum, then the plan itself
 * (runtime/plan/check.c replays it).
 *
 * A tensor id is an index into `tensors`. PLAN_ABSENT stands for an optional tensor that is absent.
 *
 * What an address means depends on its memory space (ir/base/memory_space.h):
 *
 * - ARENA: offset into the memory of a session, which the compiler has laid out.
 * - CONSTANT: offset into the constants. They are part of the file and shared by all sessions.
 * - INPUT, OUTPUT: offset into the buffer of input or output `index`. It is the caller's; for outputs it may
 *   be the session's.
 * - MULTIVIEW: offset from where multi-view `index` is now, see below.
 * - DYNAMIC: only the run knows the size, so the session's run-time allocator gives the memory. One exception:
 *   where a value grows in a loop and its largest size is known, the tensor has a reservation. `bytes` of it
 *   is then not 0, and offset is where in the arena it lies.
 * - STATE: offset into the memory that a session keeps from run to run.
 * - SPILL: offset into the spill file of a session. Only Spill writes there, and only Restore reads it, both in the main graph.
 * - NONE: no address. The tensor is an output that nobody reads, of an operator that need not write it.
 *
 * A multi-view is a table of addresses that belongs to a loop. Let t be the number of the iteration within
 * the body of the loop, and the number of iterations that have run after the loop. While t < prologue_count
 * the multi-view is at entry t. Then it is at entry prologue_count + (t - prologue_count) % period, moved on
 * by stride * (t - prologue_count). An entry is again an address. It may lie in a multi-view of an enclosing
 * loop, or of a loop that has ended before.
 *
 * A multi-view can count its cycle from the end: it is then at entry prologue_count + (t - n) % period (not negative), where n is
 * the number of iterations that the loop runs in all, so that it ends at the first entry of the cycle. Nothing but the trip count
 * and what is scanned ends such a loop, and only what is in its body lies in such a multi-view.
 *
 * A multi-view can belong to an If. Then it has two entries, one for each branch, and is where that of the branch says that runs, or
 * has run last. Its entries lie in no multi-view. Only what is in the branches, and outputs of the If, lie in it.
 *
 * A multi-view with a group is a swap buffer: a whole piece of the arena. When its loop begins it is where its
 * entry says. While the loop runs it may swap its address with another swap buffer of its group. Only tensors
 * that lie in such multi-views follow these swaps. Nothing else lies in these bytes while the loop runs.
 *
 * A group can be lazy. Then a Copy from one of its buffers to another one (PLAN_SWAPS) copies nothing: both have one address from
 * then on. Before a kernel writes into a buffer whose address others have too, the buffer gets the address of a piece that none has:
 * there is one, for a group has as many pieces as buffers. So whoever follows names finds what copies would have put there. What
 * is written is all that the buffer then holds, and only kernels write there while the loop runs.
 *
 * States: the main graph can be the body of a loop that is not in the plan, the loop around the model, whose iterations are
 * the runs of a session. Its number, as that of a node, is plan_run_loop. Its first parameters and results, one of each for every
 * state, are no inputs and outputs: the parameter is what the result was in the run before. Between two runs nothing is
 * moved: where the result lies in a run, the parameter lies in the next one. In the first run each parameter lies apart from
 * all others, and holds what the session puts there. A run that fails changes no state: so steps that can fail run before all
 * that write over what a parameter holds (plan_commit).
 *
 * No kernel writes to a constant: not even zeros into its padding. Who packs a constant zeroes its padding.
 *
 * What control nodes do beyond their operators (ir/ir.h), in this order. "Move a to b" copies the bytes of
 * tensor a to where tensor b lies. Nothing is copied where both have one address, or where b has none.
 *
 * - If: runs a branch. Then moves result 0 to output 0, result 1 to output 1, and so on.
 * - Loop, at the start: reads trip count and condition. Moves initial value i to carried parameter i, from 0.
 * - Loop, in each iteration: writes the iteration number, the condition and the slices of scanned inputs to
 *   their parameters. Runs the body. Reads the condition (result 0). Moves the slices to where they belong in
 *   the stacked outputs. Moves replacement i to carried parameter i, from 0.
 * - Loop, at the end: moves carried parameter i to output i, from 0.
 *
 * An output can lie in a swap buffer of a loop further out (PLAN_SWAPS). Then that buffer and the buffer of
 * its group that holds the parameter swap addresses, and nothing is copied. All swaps of a node happen at
 * once, after its other moves. A parameter that lies elsewhere, or whose buffer has been swapped already, is
 * copied into the buffer.
 */
#ifndef OURO_PLAN_H
#define OURO_PLAN_H

#include "ir/base/memory_space.h"
#include "ir/operators/op.h"

#define PLAN_MAGIC "OUROPLAN"
enum { PLAN_VERSION = 11, PLAN_ALIGNMENT = 64, PLAN_MACHINE_TEXT = 128 };
#define PLAN_SWAPS "ouro.swaps" /* attribute of nodes; see plan_swap_buffer */
#define PLAN_ENDIAN 0x01020304u
#define PLAN_ABSENT UINT32_MAX

typedef struct plan_address {
    uint32_t space; /* memory_space */
    uint32_t index; /* of the input, output or multi-view */
    uint64_t offset;
} plan_address;

/* A table: records of one kind, one after another, at a multiple of 8 bytes. */
typedef struct plan_table {
    uint64_t offset; /* from the start of the file */
    uint64_t count;  /* records */
} plan_table;

typedef struct plan_header {
    char magic[8];
    uint32_t version;
    uint32_t endian;
    uint64_t file_bytes;
    uint64_t checksum;               /* plan_checksum */
    char machine[PLAN_MACHINE_TEXT]; /* rt_machine_describe where it was compiled; "portable" runs anywhere */
    uint32_t threads;                /* that scratch was planned for */
    uint32_t model_name;             /* text */
    uint32_t allocator;              /* text */
    uint32_t optimal;                /* 0 or 1 */
    uint64_t arena_bytes, lower_bound_bytes, sum_bytes, file_order_peak_bytes;
    uint64_t state_bytes; /* of the memory that is kept from run to run */
    uint64_t spill_bytes; /* of the spill file; 0: there is none */
    uint32_t spill_path;  /* text: where it is made, unless the session says so; "" */
    /* 1: kernels may round a product and its sum once, where the machine can; 0: the same bits on every machine, as `--portable` asks. */
    uint32_t contracts;
    /* Not 0: the plan is for one sample, and a run repeats it for each along this symbol (see plan_interface). */
    uint64_t batch;
    uint64_t constants_offset, constants_bytes;
    plan_table texts;      /* bytes; a text is an offset into them, zero-terminated; text 0 is "" */
    plan_table integers;   /* int64_t: dimensions and lists of integers */
    plan_table tensor_ids; /* uint32_t: lists of tensor ids */
    plan_table tensors;    /* plan_tensor */
    plan_table attributes; /* plan_attribute */
    plan_table nodes;      /* plan_node */
    plan_table graphs;     /* plan_graph; graph 0 is main */
    plan_table multiviews; /* plan_multiview */
    plan_table addresses;  /* plan_address: entries of multi-views */
    plan_table symbols;    /* uint32_t: texts; the name of the symbolic dimension -k is symbols[k] */
    plan_table inputs;     /* plan_interface: the model's inputs */
    plan_table outputs;    /* plan_interface */
    plan_table states;     /* plan_state */
    plan_table bounds;     /* int64_t: by symbol, the most that it may be; 0: anything */
} plan_header;

typedef struct plan_tensor {
    uint32_t name;   /* text */
    uint8_t kind;    /* op_kind */
    uint8_t element; /* op_kind of an optional's element */
    uint8_t dtype;   /* op_dtype */
    uint8_t layout;  /* op_layout */
    int32_t rank;
    uint32_t graph; /* where it is defined; constants: 0 */
    uint64_t dims;  /* index of the first of `rank` integers; as in op_shape */
    uint64_t bytes; /* of a dynamic one: its reservation in the arena, for what grows in a loop; 0: none */
    plan_address address;
} plan_tensor;

/* One graph: its parameters and results are tensor ids, its nodes stand in the order of execution. */
typedef struct plan_graph {
    uint32_t name;                        /* text */
    uint32_t owner;                       /* the node that owns it, PLAN_ABSENT for main */
    uint64_t parameters, parameter_count; /* in tensor ids */
    uint64_t results, result_count;
    uint64_t nodes, node_count;
    uint64_t region_offset, region_bytes; /* its part of the arena; main: 0 and arena_bytes */
    uint64_t region_bound;                /* largest live sum within it */
} plan_graph;

enum plan_node_flags {
    PLAN_NODE_ALIAS =
        1, /* nothing to run: outputs are bytes of inputs, or inputs bytes of the output (Concat) */
    PLAN_NODE_DYNAMIC = 2 /* shapes are inferred and outputs allocated when it runs */
};

typedef struct plan_node {
    uint32_t operator_name, operator_domain; /* texts */
    uint32_t name, path;                     /* texts: the origin in the model */
    uint32_t kernel;                         /* text; "" where nothing runs */
    uint32_t flags;
    uint32_t graph;
    uint32_t first_graph, graph_count; /* its sub-graphs stand next to each other in graphs */
    uint32_t reason; /* text: why the compiler made it; "" where it stands for something in the model */
    uint64_t inputs, input_count; /* in tensor ids */
    uint64_t outputs, output_count;
    uint64_t attributes, attribute_count;
    plan_address scratch;
    uint64_t scratch_bytes;
} plan_node;

/* One element of a constant tensor of strings, of the size of an op_string: where its characters begin, counted from
 * this record, and how many they are. Sessions make op_strings of them. */
typedef struct plan_string {
    size_t offset, length;
} plan_string;

typedef struct plan_attribute {
    uint32_t name;  /* text */
    uint32_t kind;  /* op_attribute_kind */
    uint64_t count; /* elements of a list; length of a string in bytes */
    /* INT: the number. FLOAT: its bits. STRING: a text. INTS: index into integers. FLOATS: index into
     * integers, each the bits of one float. STRINGS: index into integers, pairs of text and length. TENSOR: a
     * tensor id (of a constant). TYPE: index into integers: kind, element, dtype, rank, dims. */
    uint64_t value;
} plan_attribute;

typedef struct plan_multiview {
    uint64_t first;          /* in addresses: prologue_count entries, then period */
    uint32_t prologue_count; /* 0: type I; more: type II */
    uint32_t period;         /* the repeat length, at least 1 */
    int64_t stride;          /* bytes; 0 unless period is 1: slices of what is scanned or stacked */
    uint32_t loop;           /* the node whose iterations count; or an If */
    uint32_t group; /* not 0: a swap buffer of this group of the loop; period 1, no prologue, in the arena */
    uint64_t bytes; /* of a swap buffer, of each in its group; 0 otherwise */
    uint32_t from_end; /* 1: the cycle is counted from the end; 0 otherwise */
    uint32_t lazy;     /* 1: a swap buffer of a lazy group; 0 otherwise */
} plan_multiview;

typedef struct plan_interface {
    uint32_t name;   /* text: the model's name of it */
    uint32_t tensor; /* tensor id */
    /* 1: of a plan with a batch: the caller's buffer has as many of these tensors, one after another, as the batch has samples. The model's
     * tensor has this extent first, where the plan's has 1. */
    uint32_t sample;
} plan_interface;

/* What is kept from run to run. */
typedef struct plan_state {
    uint32_t input, output;     /* texts: the model's names of the pair */
    uint32_t parameter, result; /* tensor ids */
    uint32_t axis;   /* of the model's tensor: a run appends along it; PLAN_ABSENT: it does not grow */
    uint32_t turned; /* 1: parameter and result have this axis first, before all others */
    uint64_t bound;  /* the most positions along it; 0: any number */
    /* Of one that grows, where its bytes at the bound are known: their place in the memory that is kept. 0 bytes: the session
     * takes memory in the first run. */
    uint64_t offset, bytes;
} plan_state;

/* The checksum of a plan file of `size` bytes (at least a header): XXH3 with 64 bits of the header with its field
 * `checksum` zero, then of all that follows, seeded with that (xxHash, Collet). */
uint64_t plan_checksum(const void *bytes, size_t size);

/* ---- a loaded plan: opening (load.c, file.c), records (records.c), loops and multi-views (loop.c) ------- */

/* Read-only and shared by any number of sessions on any number of threads. */
typedef struct plan {
    const unsigned char *base; /* of the mapping or the memory */
    size_t bytes;
    const plan_header *header;
    const char *texts;
    const int64_t *integers;
    const uint32_t *tensor_ids;
    const plan_tensor *tensors;
    const plan_attribute *attributes;
    const plan_node *nodes;
    const plan_graph *graphs;
    const plan_multiview *multiviews;
    const plan_address *addresses;
    const uint32_t *symbols;
    const plan_interface *inputs, *outputs;
    const plan_state *states;
    const int64_t *bounds;
    const unsigned char *constants;
    void (*release)(void *owner); /* gives base back */
    void *owner;
    const base_allocator *memory; /* what the checks take memory from; NULL: the heap */
} plan;

/* What a plan needs from where it is to run. The functions are thread-safe. */
typedef struct plan_host {
    /* What the machine and its kernels are called, as the header's `machine`; `portable`: of a plan that uses
     * portable kernels only. Written into text; returns text, or NULL where memory runs out. */
    const char *(*describe_machine)(bool portable, char *text, size_t capacity);
    /* There is a kernel of this name for the operator. */
    bool (*has_kernel)(op_code code, const char *name);
    /* Where the bytes of a file and what the checks need are taken from, in blocks aligned to PLAN_ALIGNMENT; it lives as long as
     * the plan. NULL: the heap. */
    const base_allocator *memory;
} plan_host;

/* Reads a file and checks it in full: structure, checksum, machine, then plan_check. `path` is in every message.
 * `share` false: into memory of its own, so that nothing that happens to the file later matters. `share` true: the
 * file is mapped, and its pages are shared with all who do the same; it must not change or shrink while the plan
 * is open. BASE_INVALID: the file or the plan; BASE_SYSTEM_ERROR: reading, or memory. */
base_status plan_load(const char *path, bool share, const plan_host *host, plan *loaded, base_report *report);
/* The same for bytes in memory (64-byte aligned). On success, and on failure too, `release` is called with
 * owner when they are no longer needed. `host` NULL: any machine's plan, for inspection. */
base_status plan_open(const void *bytes, size_t size, const char *name, const plan_host *host,
                      void (*release)(void *owner), void *owner, plan *opened, base_report *report);
/* The same for bytes of a file that is mapped (base_pages_leave): what checking reads does not stay in the memory of the process. */
base_status plan_open_mapped(const void *bytes, size_t size, const char *name, const plan_host *host,
                             void (*release)(void *owner), void *owner, plan *opened, base_report *report);
void plan_close(plan *opened);

/* The op_type of a tensor. */
void plan_tensor_type(const plan *of, uint32_t id, op_type *type);
/* That of an input or output as the model has it: of as many samples as the batch has, which is a symbol. */
void plan_interface_type(const plan *of, const plan_interface *item, op_type *type);
/* "float32[batch,3]": op_type_print with the names of the plan's symbolic dimensions. Returns text. */
char *plan_type_print(const plan *of, const op_type *type, char *text, size_t capacity);
/* The name of symbol `number` (the dimension -number); NULL where it has none. */
const char *plan_symbol_name(const plan *of, uint64_t number);
/* The attributes of a node, with lists and texts pointing into the plan where they can, else in `arena`. */
bool plan_node_attributes(const plan *of, const plan_node *node, base_arena *arena,
                          op_attributes *attributes);

/* Where in the arena a dynamic tensor has its reservation. False: it has none. */
bool plan_tensor_reservation(const plan *of, uint32_t id, plan_address *reservation);

/* The attribute with this name, or NULL. */
const plan_attribute *plan_node_attribute(const plan *of, const plan_node *node, const char *name);
/* Why the compiler made the node, such as a copy; "" where it stands for something in the model. */
const char *plan_node_reason(const plan *of, const plan_node *node);
/* The operator of a node; OP_CODE_NONE where this build does not know it (never after plan_open). */
op_code plan_node_code(const plan *of, const plan_node *node);
/* "FILE: PATH: node \"NAME\" (Op)" becomes the context of the messages to come. A node without a name is
 * called after its first output. `file` NULL: the name of the model. */
void plan_node_context(const plan *of, const plan_node *node, const char *file, base_report *report);

/* A Loop node taken apart: tensor ids, PLAN_ABSENT where absent. */
typedef struct plan_loop_form {
    uint32_t body; /* graph */
    uint32_t carried, scan_inputs, scan_outputs;
    uint32_t trip_count, condition;
    const uint32_t *initial;      /* carried, then scanned inputs */
    const uint32_t *parameters;   /* iteration, condition, carried, slices */
    const uint32_t *results;      /* condition, replacements, slices */
    const uint32_t *outputs;      /* carried, then stacked */
    const int64_t *axes[2];       /* of scanned inputs and of stacked outputs; NULL: all 0 */
    const int64_t *directions[2]; /* the same; 1: backwards; NULL: all forwards */
    const int64_t *declared; /* a list of shapes (shape_list.h), one for each stacked output; NULL: none */
    size_t declared_length;
} plan_loop_form;

/* Takes a Loop node apart. False where the numbers of its inputs, outputs, parameters and results do not fit.
 */
bool plan_loop_form_read(const plan *of, const plan_node *node, plan_loop_form *form);
/* Axis and direction of scanned input `index`, or of stacked output `index`. */
int64_t plan_loop_axis(const plan_loop_form *form, bool output, uint32_t index);
bool plan_loop_backwards(const plan_loop_form *form, bool output, uint32_t index);
/* The shape that is declared for slices of stacked output `index`: what it has no other extents for, when the loop had no iteration.
 * Of unknown rank where there is none. */
op_shape plan_loop_declared(const plan_loop_form *form, uint32_t index);

/* Carried value `index` grows: it is replaced by Concat(parameter, ...) along an axis before which every extent
 * is 1, so that what is appended lies after what is there. Its size is not known before the run. *concat, which
 * may be NULL, is the node. The executor appends in place (control.c, dynamic.c); in the loop's output itself,
 * where that has a size or a reservation. */
bool plan_loop_grows(const plan *of, const plan_loop_form *form, uint32_t index, uint32_t *concat);

/* The number of the loop around the model: one more than that of the last node. */
static inline uint32_t plan_run_loop(const plan *of) {
    return (uint32_t)of->header->nodes.count;
}

/* The address that a multi-view gives when the counter of its loop is t: an entry, moved on by the stride. It may
 * lie in a multi-view of an enclosing loop again. One that counts from the end: as where the loop runs a multiple of its period. */
plan_address plan_multiview_entry(const plan *of, uint32_t multiview, uint64_t t);
/* The same for a loop that runs so many iterations in all; only their rest by the period matters, where it counts from the end. */
plan_address plan_multiview_entry_of(const plan *of, uint32_t multiview, uint64_t t, uint64_t trips);
/* Nothing but the trip count, or the end of what is scanned, ends the loop: how often it runs is known when it begins. */
bool plan_loop_is_counted(const plan *of, const plan_loop_form *form);
/* Where output `index` of a node, a Loop's carried value or a Copy, is to become what tensor `from` is by a swap: a multi-view that
 * is a buffer of the group. PLAN_ABSENT where it is not: the node does not say so (PLAN_EXCHANGES, a list with 1 for it), the output does not
 * always lie in whole buffers of one group, of a loop around the node, or the two are not of one size. */
uint32_t plan_swap_buffer(const plan *of, uint32_t node, uint32_t index, uint32_t from);
/* The address may be that of a buffer of a lazy group, in some iteration: one of the group; PLAN_ABSENT otherwise. */
uint32_t plan_lazy_buffer(const plan *of, const plan_address *address);
/* The graph is a sub-graph of the node, or lies within one. */
bool plan_is_within(const plan *of, uint32_t node, uint32_t graph);
/* How many iterations of a loop (a node) are needed to see every address that its multi-views can take, twice: the
 * longest prologue + 2 * the least common multiple of the periods + 1; at most `most`. */
uint64_t plan_loop_horizon(const plan *of, uint32_t loop, uint64_t most);

/* The type of a state as the model has it; *type may be that of its parameter. */
void plan_state_type(const plan *of, uint32_t index, op_type *type);

/* ---- states (runtime/plan/commit.c) ------------------------------------------------------------------------ */

/* By node, of the main graph's: a run can fail in it because of what it reads, or for want of memory. The list lives in `arena`;
 * NULL when memory runs out. */
bool *plan_find_failures(const plan *of, base_arena *arena);
/* The first node of the main graph that writes over what a state holds: a run that has come so far goes on to its end.
 * PLAN_ABSENT: none does. */
uint32_t plan_commit(const plan *of);

/* ---- structure (runtime/plan/structure.c) ---------------------------------------------------------------------- */

/* Checks all that records refer to and say, as plan_open does before plan_check: indices, texts, types and
 * sizes, addresses within their memory, graphs that form a tree, scopes, operators and their arity, types of
 * control nodes and their graphs, and types that follow from one another by the operators' shape functions.
 * Kernels must exist on the host, unless that is NULL. Afterwards nothing that a plan refers to is out of bounds. */
base_status plan_check_structure(const plan *checked, const plan_host *host, base_report *report);

/* ---- aliases (runtime/plan/alias.c) ------------------------------------------------------------------------ */

/* An alias node says that tensor *part is the bytes from *offset on of tensor *whole: for index = 0, 1, ... its
 * outputs within input 0, or (Concat) its inputs within output 0. Ask for them in order, with *cursor (where
 * the next part begins along the axis) 0 at first. False where that cannot be so: not contiguous, another
 * order, not known before the run. */
bool plan_alias_part(const plan *of, const plan_node *node, uint32_t index, int64_t *cursor, uint32_t *whole,
                     uint32_t *part, uint64_t *offset);

/* A node that runs, but only copies a part of its input: a Copy, or a Slice whose bytes lie together, from *offset on. Its kernel
 * writes nothing where the output lies there already, as the rest of a sliding window does in most iterations. */
bool plan_kept_part(const plan *of, const plan_node *node, uint64_t *offset);

/* ---- the verifier (runtime/plan/check.c) ----------------------------------------------------------------------- */

/* Replays the plan symbolically: every byte of the arena and of the outputs is tagged with the identity of
 * the value that was written there, each step must find in its inputs the bytes of the values that it reads,
 * and must not write over any byte that is still to be read, nor over inputs and constants. Alias steps must
 * find the right bytes where they claim them. Scratch is written with garbage. Branches are replayed from the
 * same state and joined. A loop is replayed for the longest prologue, two least common multiples of its
 * periods, and one iteration more, with every address as its counter says, and left after each iteration after
 * which it can end (docs/VERIFIER.md says what is done where that is too long); after it, an output that is a
 * multi-view must be intact in every place that its table names. Values of the run-time allocator only must be made
 * before they are read. Loops within loops are replayed once for each state that they find (check_summary.c). Takes
 * O(steps * log tensors) for each such state; refuses what would take too long. Shares no code with the planners and
 * does not read their live ranges. Names the first offending
 * step, tensors and bytes. The plan has passed plan_check_structure. */
base_status plan_check(const plan *checked, base_report *report);
/* The same without summaries: every loop is replayed wherever it runs, in time that grows exponentially with nesting. What
 * plan_check says is compared with this (tests). */
base_status plan_check_fully(const plan *checked, base_report *report);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* executor.h: what a session is made of, for the files that make it, run it and bind its buffers.
 *
 * - session.c: making and freeing: memory, kernels, steps
 * - addresses.c: the address of every tensor
 * - binding.c: buffers of the caller
 * - run.c: runs, traces
 * - execute.c: the steps of a graph
 * - control.c: If and Loop
 * - row_loops.c: loops that each thread runs for rows of its own
 * - multiviews.c: addresses that change with the iterations, and by swaps
 * - lazy_copies.c: copies that only hand an address on
 * - values.c: memory of what only the run knows
 * - dynamic.c: nodes on it
 * - blocks.c: memory of their kernels
 * - memory.c: where all memory comes from
 * - caller_block.c: one block of the caller
 * - spill.c: the spill file
 * - states.c: what is kept from run to run
 * - state_calls.c: the caller's calls on it
 * - views.c: values that are bytes of others
 * - shapes.c: offsets for the shapes of a run
 * - shape_survey.c: what follows from these, who shares whose bytes
 * - shape_places.c: what these are, without a run
 * - prepare.c: what a run needs, before it happens
 * - sequence.c: sequences, optionals and maps, and nodes on them
 * - shadow.c: shadow execution
 *
 * Everything that a run needs is resolved when the session is made. Each step that executes has its tensors,
 * with addresses, next to each other, its prepared kernel and its scratch. Aliases are no steps. Two kinds of
 * addresses change: those in buffers of the caller, when he binds others, and those in multi-views, with each
 * iteration. Where such an address occurs is listed (rt_patch), and only these pointers are written again.
 */
#ifndef OURO_EXECUTOR_H
#define OURO_EXECUTOR_H

#include "ir/operators/range.h"
#include "runtime/allocators/allocator.h"
#include "runtime/kernels/table.h"
#include "runtime/session.h"
#include <stdatomic.h>

struct ouro_plan {
    plan opened;
    base_allocator memory; /* of this structure and of all that opening takes; `opened` refers to it */
};

/* ---- run-time memory (values.c) ----------------------------------------------------------------------- */

/* Counted bytes of the run-time allocator, aligned to RT_ALIGNMENT, after the header. */
typedef struct rt_buffer rt_buffer;
struct rt_buffer {
    size_t references;
    bool planned; /* the plan has its bytes: never freed, and gone after the loop */
    /* And they are the reservation of a loop's output, which nothing else may share after the loop. */
    bool reserved;
    bool bounded;          /* a state grows here, and no further: `capacity` is its bound */
    bool is_sequence;      /* its bytes are rt_elements, whose buffers it refers to */
    size_t capacity, used; /* bytes; what lies after `used` may be appended to the value that ends there */
    void *data;
};

/* The session's run-time memory. During a run small buffers that nobody needs are kept for the next step that wants one:
 * an iteration of a loop gives back what the next one takes. */
enum {
    RT_POOL_KEPT = 8,
    RT_POOL_SMALL = 16 << 10, /* bytes, at most */
    RT_POOL_LEAST = 256       /* bytes that are not too many for anything */
};

typedef struct rt_pool {
    rt_allocator *allocator;
    rt_buffer *kept[RT_POOL_KEPT]; /* the last one was given back last */
    uint32_t kept_count;
} rt_pool;

/* A buffer of at least `bytes`, with one reference; NULL when memory runs out. */
rt_buffer *rt_pool_take(rt_pool *pool, size_t bytes);
/* Gives kept buffers back to the allocator: when a run ends. */
void rt_pool_flush(rt_pool *pool);
void rt_buffer_retain(rt_buffer *buffer); /* NULL is allowed in both */
void rt_buffer_release(rt_pool *pool, rt_buffer *buffer);

/* ---- steps --------------------------------------------------------------------------------------------- */

/* An element of a sequence, or what an optional holds. A value of these kinds is an op_tensor whose data are rt_elements,
 * `bytes` of them. */
typedef struct rt_element {
    op_tensor tensor;
    rt_buffer *buffer; /* that owns its data; NULL: the data last as long as the run */
} rt_element;

typedef enum rt_step_kind {
    RT_STEP_KERNEL,
    RT_STEP_ALIAS,
    RT_STEP_DYNAMIC,
    RT_STEP_SEQUENCE,
    RT_STEP_SWAP,
    RT_STEP_SPILL, /* or a Restore */
    RT_STEP_IF,
    RT_STEP_LOOP
} rt_step_kind;

typedef struct rt_step rt_step;
typedef base_status rt_step_function(ouro_session *session, const rt_step *step);

struct rt_step {
    rt_run_function *run;      /* of a kernel; NULL: */
    rt_step_function *special; /* what runs instead */
    rt_prepared prepared;
    op_tensor *inputs, *outputs;
    void *scratch;
    rt_step_kind kind;
    uint32_t node;
    /* rt_dynamic, op_attributes (of a sequence), rt_swap_list, rt_lazy_list, rt_step_if or rt_step_loop */
    void *detail;
    const uint32_t *released; /* dynamic tensors that nobody needs after this step */
    uint32_t release_count;
};

/* The steps of one graph. */
typedef struct rt_program {
    rt_step *steps;
    size_t step_count;
    const uint32_t *dynamic; /* the dynamic tensors that the graph makes, parameters included */
    uint32_t dynamic_count;
} rt_program;

/* The value of one tensor handed to another. */
typedef struct rt_move {
    uint32_t from, to;
    bool fixed;  /* both are static: `bytes` are copied unless the addresses are equal */
    bool within; /* from one iteration to the next: what lies where the loop's output lies may stay */
    size_t bytes;
    void *between; /* where they are put first, so that moves of a list do not disturb each other; NULL:
                      nowhere */
} rt_move;

typedef struct rt_move_list {
    rt_move *items;
    uint32_t count;
} rt_move_list;

typedef struct rt_step_if {
    uint32_t condition;
    uint32_t graphs[2];
    rt_move_list moves[2];
    struct rt_step_loop *
        views; /* of which only its multi-views count: outputs that lie where the branch that runs has them */
} rt_step_if;

/* A slice that is taken from a scanned input or put into a stacked output. */
typedef struct rt_scan {
    uint32_t whole, slice;
    int64_t axis;
    bool backwards;
    bool fixed;          /* both are static */
    int64_t extent;      /* of the axis; fixed ones only */
    size_t outer, inner; /* slices before the axis, bytes of one after it; fixed ones only */
    /* What a stacked output of unknown extent has collected: in the output's reservation, where that suffices. */
    rt_buffer *collected;
    rt_buffer reservation;
    size_t slice_bytes, capacity;
    op_type slice_type;
    op_shape
        declared; /* what slices are where there is none to look at; of unknown rank: the model does not say */
} rt_scan;

/* A carried value that grows (plan_loop_grows) where the loop's output lies, or in the reservation of one whose size is
 * known when the loop has ended. */
typedef struct rt_growth {
    uint32_t initial, parameter, output;
    rt_buffer buffer;
    rt_buffer reservation; /* what the output is then; `data` and `capacity` are set from the beginning */
} rt_growth;

/* A multi-view of the loop: its table, resolved when the loop is entered. */
typedef struct rt_loop_multiview {
    uint32_t multiview;
    uint32_t prologue, period;
    int64_t stride;
    bool swapped, from_end;
    unsigned char **table; /* prologue + period pointers */
} rt_loop_multiview;

/* One tensor becomes another by a swap of the buffers in which they are (plan.h). */
typedef struct rt_swap {
    uint32_t from, to;
    size_t bytes;
    const uint32_t *group; /* the multi-views of its buffers */
    uint32_t count;
    /* While buffers are swapped: where the one is, the multi-view in which the other is, and whether bytes are copied instead. */
    unsigned char *at;
    uint32_t multiview;
    bool copied;
} rt_swap;

typedef struct rt_swap_list {
    rt_swap *items;
    size_t capacity;
    uint32_t count;
} rt_swap_list;

/* A node that writes into buffers of lazy groups (plan.h). */
typedef struct rt_lazy {
    uint32_t tensor;       /* an output */
    uint32_t loop;         /* the node whose buffers these are */
    const uint32_t *group; /* the multi-views of its buffers */
    uint32_t count;
} rt_lazy;

typedef struct rt_lazy_list {
    rt_lazy *items;
    uint32_t count;
    void **inputs; /* of the step, while the kernel runs: where they will be from then on */
} rt_lazy_list;

typedef struct rt_row_loop rt_row_loop; /* row_loops.c */

typedef struct rt_step_loop {
    rt_loop_multiview *multiviews; /* swap buffers first: others refer to them */
    uint32_t multiview_count;
    rt_swap_list swaps;
    struct rt_step_loop *around; /* while it runs: the next loop further out that runs; NULL: none */
    int64_t iteration;           /* while it runs */
    int64_t trips;               /* how often it runs at most */
    uint32_t body;
    uint32_t trip_count, condition;                    /* PLAN_ABSENT: none */
    uint32_t iteration_parameter, condition_parameter; /* PLAN_ABSENT: nobody reads it */
    uint32_t condition_result;
    bool counted; /* nothing but the trip count, or the end of what is scanned, ends it */
    rt_move_list entry, next, exit;
    rt_growth *growths;
    uint32_t growth_count;
    rt_scan *inputs, *outputs;
    uint32_t input_count, output_count;
    const uint32_t *released; /* dynamic tensors that end with an iteration */
    uint32_t release_count;
    rt_row_loop *rows; /* NULL: it cannot run row by row */
    bool by_rows;      /* it did, the last time */
} rt_step_loop;

enum { RT_DECIDING_BYTES = 64 /* an extent for each of the most axes */ };

/* A node that is resolved when it runs. */
typedef struct rt_dynamic {
    op_call call;        /* inputs and outputs are those of the step */
    base_arena arena;    /* of the prepared kernel */
    bool ready;          /* prepared holds a kernel for these types: */
    op_type *types;      /* of inputs, then of outputs */
    op_tensor *lasting;  /* the inputs, with only such data as stays: while the node is prepared */
    op_tensor *inferred; /* for what is inferred of the outputs: a run asks for no memory */
    bool explored;       /* it is known whether, for these types: */
    bool follows;        /* the types of the outputs follow from those of the inputs, whatever the data */
    /* Or from these and from the data of the deciding inputs, which are few integers that are no constants. What they were is kept. */
    bool follows_data;
    struct rt_deciding {
        uint32_t input;
        size_t bytes;
        unsigned char data[RT_DECIDING_BYTES];
    } * deciding;
    uint32_t deciding_count;
    bool settled;     /* so they did in the last run; the step's tensors still have these types, */
    bool fresh;       /* and `types` are the same */
    op_range *ranges; /* of the outputs in the first input (views.c); NULL: they are none */
    bool shared;      /* so they were in the last run */
    bool grows;       /* a Concat that a growing carried value is replaced by */
} rt_dynamic;

/* ---- sessions ------------------------------------------------------------------------------------------ */

/* An address within a buffer of the caller. */
typedef struct rt_patch {
    void **data;
    uint64_t offset;
    uint32_t next; /* of the same buffer; PLAN_ABSENT: the last */
} rt_patch;

/* An input or output. */
typedef struct rt_binding {
    uint32_t tensor;
    uint32_t patches; /* the first; PLAN_ABSENT: none */
    bool bound;
    bool dynamic;   /* extents are not known before the run */
    bool is_sample; /* one of a batch (samples.c) */
    void *
        data; /* what is bound, else the session's own (outputs that are not dynamic); of a batch, the sample's while it runs */
    size_t bytes; /* of an output: of that memory */
    void *own;
    void *whole;      /* of a batch: the data of all samples */
    int64_t samples;  /* of a batch, of an input: how many are bound */
    op_tensor result; /* dynamic outputs, after a run */
    rt_buffer *held;  /* what result lies in, where it is not bound */
    base_arena lists; /* rt_elements of an input, ouro_values of an output */
} rt_binding;

/* A constant tensor of strings as the session has it. */
typedef struct rt_strings {
    uint64_t begin, end; /* of the records among the plan's constants */
    op_string *data;
} rt_strings;

typedef struct rt_shapes rt_shapes; /* shapes.c */

/* Where the value of a tensor goes whose size only a run knows: to the caller's buffer, where it is an output that he has bound;
 * else to memory that is planned for it, in the arena or for the shapes of this run. data NULL: there is none. */
typedef struct rt_planned {
    void *data;
    size_t bytes;
    rt_binding *output; /* that the tensor is, made by a node of the main graph; NULL: none */
    rt_buffer buffer;   /* the value's, while it is there */
    /* Of the shapes of this run: it is a part of an output, from byte `at` of `whole` bytes (NULL: of none); it may be bytes of
     * the value that it is cut from. */
    const rt_binding *part_of;
    size_t at, whole;
    bool shares;
} rt_planned;

/* What runs, and on what: made with the session, the same in all its runs, but for the pointers that `patches` names. */
typedef struct rt_code {
    base_arena tables; /* all that is made with the session */
    rt_environment environment;
    rt_program *programs; /* by graph */
    rt_step **steps;      /* by node: NULL for aliases, unless tensors are unshared */
    rt_strings *strings;  /* in the order of the constants */
    size_t string_count;
    bool *dynamic; /* by tensor id */
    bool has_dynamic;
    bool unshared; /* every tensor has memory of its own: aliases copy, and moves always do (shadow.c) */
    rt_patch *patches;
    size_t patch_count, patch_capacity;
    uint32_t *multiview_patches; /* by multi-view: the first pointer into it; PLAN_ABSENT: none */
    uint32_t commit;             /* plan_commit: from this node on a run goes on to its end */
} rt_code;

/* Blocks for the arenas of kernels that are prepared while a session runs (blocks.c). */
typedef struct rt_block rt_block;
typedef struct rt_blocks {
    const base_allocator *source;
    base_allocator allocator; /* of such an arena */
    rt_block *kept;           /* given back, to be taken again */
    size_t bytes;             /* taken in all */
} rt_blocks;
void rt_blocks_init(rt_blocks *blocks, const base_allocator *source);
void rt_blocks_free(rt_blocks *blocks); /* when all arenas on them are freed */

/* The spill file of a session (spill.c). */
typedef struct rt_spill {
    ouro_spill calls; /* the caller's, or those on a file */
    void *place;      /* what `calls` work on, from when it is open */
    bool open;
    const char *path; /* of the file; NULL: `calls` are the caller's */
    int file;         /* where they are not */
} rt_spill;

/* Where tensors lie: taken with the session, or when the shapes of a run are new. */
typedef struct rt_memory {
    base_allocator source; /* of all that the session takes, itself included: the caller's, or rt_heap */
    unsigned char *arena;  /* of the plan */
    void *own_arena, *own_scratch;
    size_t output_bytes;  /* the session's own, of outputs that are not bound */
    void **own_tensors;   /* by tensor id, where tensors are unshared */
    size_t scratch_bytes; /* that kernels need beyond what was planned */
    rt_pool pool;
    rt_blocks blocks;
    rt_shapes *shapes;   /* NULL: no input has dynamic dimensions */
    rt_planned *planned; /* by tensor id; NULL: nothing is dynamic */
} rt_memory;

/* Bytes that sessions, a session and its clones, only read. `source` gives them and this back with the last one. */
typedef struct rt_shared {
    atomic_size_t references;
    base_allocator source;
    size_t bytes;
    void *data;
} rt_shared;

/* A state whose size only a run knows: it grows, or has dynamic dimensions. What it is now, as it is carried. */
typedef struct rt_kept {
    bool dynamic;      /* else it has an address in the plan, and all of this is nothing */
    bool present;      /* it has extents; otherwise it gets those of the inputs, and zeros, in the next run */
    int32_t axis;      /* along which it grows, as it is carried; -1: it does not */
    op_type type;      /* with its extents now */
    size_t bytes;      /* of it */
    rt_buffer *buffer; /* that holds it; one reference is this one's */
    rt_buffer own;     /* the capacity of one that grows up to a bound: data NULL before the first run */
    void *taken;       /* its memory, where the plan has none for it */
    bool read_only;    /* each run leaves it as it is */
    rt_shared *shared; /* then: its bytes, which clones have too */
} rt_kept;

/* What a reset puts into a state, as it is carried. */
typedef struct rt_initial {
    unsigned char *data; /* NULL: zeros, or nothing for one that grows */
    op_type type;
    size_t bytes;
    rt_shared *shared; /* has the data, for clones too */
} rt_initial;

/* An extent of a state, as it is carried, and one of an input that are the same symbol. */
typedef struct rt_tie {
    uint32_t state, input;
    int32_t axis, input_axis;
} rt_tie;

/* What is kept from run to run. */
typedef struct rt_states {
    unsigned char *memory, *own; /* of the plan's states; `own` where the session has taken it */
    rt_step_loop loop;           /* the loop around the model: its multi-views only */
    int64_t t;                   /* the number of the next run, since the states were reset */
    rt_kept *kept;               /* by state */
    rt_initial *initial;         /* by state */
    rt_tie *ties;                /* of the states of dynamic dimensions */
    size_t tie_count;
} rt_states;

/* What the caller binds between runs. */
typedef struct rt_bound {
    rt_binding *inputs, *outputs;
} rt_bound;

/* The run under way, or the last one. What outlives a run is in none of these fields. */
typedef struct rt_run {
    op_tensor *tensors;             /* by tensor id; of dynamic ones the value that they have now */
    rt_buffer **buffers;            /* by tensor id: what owns a dynamic value, NULL where nobody need */
    unsigned char **multiview_data; /* by multi-view: where it is now */
    rt_step_loop *innermost;        /* of the loops that run; NULL: none does */
    int64_t iteration;              /* of that loop */
    int64_t samples;                /* that the run repeats the plan for; 1 where it has no batch */
    uint64_t *executions;           /* by graph: how often it has been executed: rt_environment */
    int64_t *remaining; /* by graph, of a loop's body: iterations that may still come after this one */
    base_arena texts;   /* characters that it made */
    double deadline;    /* rt_now_seconds, then it ends; 0: none */
    bool ran;           /* it is over, and the outputs are its */
    bool stopped;       /* it was cancelled, or took too long */
    bool committed;     /* states are written over: it goes on to its end */
    bool named;         /* the report names the node already */
    base_report report;
} rt_run;

/* ---- observers ----------------------------------------------------------------------------------------- */

/* Phases of control nodes, when the session has done them: `number` is the branch, the iteration, or how many there
 * were. */
typedef enum rt_control_phase {
    RT_BRANCH_ENDS,
    RT_LOOP_BEGINS,
    RT_ITERATION_BEGINS,
    RT_ITERATION_ENDS,
    RT_LOOP_ENDS
} rt_control_phase;

typedef struct rt_control_event {
    uint32_t node;
    rt_control_phase phase;
    int64_t number;
} rt_control_event;

/* Sees what a session does; what it returns other than BASE_OK, after a report of the session, ends the run. */
typedef struct rt_observer rt_observer;
struct rt_observer {
    rt_observer *next;
    /* A node is done, also one without a step; its outputs are there, and what dies has not been released. */
    base_status (*step)(rt_observer *observer, ouro_session *session, const rt_trace_event *event);
    base_status (*control)(rt_observer *observer, ouro_session *session, const rt_control_event *event);
    /* A sample of a batch begins; inputs and outputs are its. NULL: nobody needs to know. */
    void (*sample)(rt_observer *observer, ouro_session *session);
};

typedef struct rt_trace {
    rt_observer observer;
    rt_trace_function *call;
    void *user;
} rt_trace;

struct ouro_session {
    const plan *of;
    rt_code code;
    rt_memory memory;
    rt_spill spill;
    rt_states states;
    rt_bound bound;
    rt_run run;
    double run_seconds;     /* that a run may take; 0: any number */
    const char *allocator;  /* the run-time allocator, by name */
    rt_observer *observers; /* the newest first */
    rt_trace trace;
    atomic_bool stop; /* set by other threads: the run ends before its next step */
    atomic_bool busy; /* a thread is using the session */
};

/* ouro.c: what an output, or a state, of the plan is. */
ouro_status rt_output_describe(const plan *of, size_t index, ouro_tensor_info *info);
void rt_state_describe(const plan *of, size_t index, ouro_state_info *info);
/* ouro.c: false, with OURO_USAGE, where another thread is using the session. */
bool rt_session_enter(ouro_session *session, ouro_error *error);
void rt_session_leave(ouro_session *session);

/* session.c; `unshared`: with memory of its own for every tensor. */
base_status rt_session_make(const plan *of, const ouro_session_options *options, bool unshared,
                            ouro_session **made, base_report *report);

/* memory.c */
/* `bytes` bytes, aligned to RT_ALIGNMENT (0 give a valid pointer, too); NULL when memory runs out. */
void *rt_take(const base_allocator *source, size_t bytes);
void rt_give(const base_allocator *source, void *memory); /* NULL is allowed */
/* The caller's allocator; NULL: `otherwise`. */
base_allocator rt_source(const ouro_allocator *given, const base_allocator *otherwise);

/* addresses.c */
/* The address of a constant; of strings, that of the session's op_strings. */
void *rt_constant(const ouro_session *session, uint64_t offset);
/* Only a run knows the size of the tensor. */
bool rt_is_dynamic(const plan *of, uint32_t id);
/* The tensors of the session: their types and addresses. Bindings and arena are there. */
base_status rt_tensors_make(ouro_session *session, base_report *report);
/* What a step sees of a tensor: nothing of one that has no address. Its address follows what is bound, and multi-views. */
bool rt_operand_make(ouro_session *session, uint32_t id, op_tensor *operand);

/* spill.c */
extern const ouro_spill rt_spill_none; /* keeps nothing: for sessions that never run */
/* Opens the spill file, where the plan has one and the session's tensors are not unshared. */
base_status rt_spill_open(ouro_session *session, const ouro_session_options *options, base_report *report);
void rt_spill_close(ouro_session *session);
/* A Spill or Restore, which moves bytes between memory and the file. */
void rt_spill_make(ouro_session *session, const plan_node *node, rt_step *step);

/* states.c */
/* Memory of the states, and the addresses of the loop around the model; before tensors get theirs. */
base_status rt_states_make(ouro_session *session, base_report *report);
/* All tensors have addresses now: the states begin as a reset leaves them. */
void rt_states_begin(ouro_session *session);
/* A run begins: states of dynamic dimensions get their extents and values. BASE_INVALID where they do not fit those of the
 * inputs. */
base_status rt_states_before_run(ouro_session *session, base_report *report);
/* States that no run has given extents get those that the dimensions of the inputs tell, without memory; `take`: and the memory
 * that they keep. They are as they were. BASE_INVALID where states do not fit those of the inputs. */
base_status rt_states_prepare(ouro_session *session, bool take, base_report *report);
/* All dynamic states have been made: they can be carried, and are no longer than their bounds. */
base_status rt_states_check(const ouro_session *session, base_report *report);
/* A run was right: what it made of the states is what the next one finds. Its values are still there. Where that cannot be, nothing
 * is changed. */
base_status rt_states_advance(ouro_session *session, base_report *report);
/* The tensor is a state that grows along this axis, the result of the Concat that a run appends with. */
bool rt_states_grows(const ouro_session *session, uint32_t parameter, uint32_t result);
/* Data from this source, taken over, with one reference; on failure (NULL) too: it is given back then. */
rt_shared *rt_shared_new(const base_allocator *source, void *data, size_t bytes);
void rt_shared_release(rt_shared *shared); /* NULL is allowed */
/* The states of a session, and what resets make of them, become those of its clone, which is new: what both only read is shared. */
base_status rt_states_clone(const ouro_session *from, ouro_session *clone, base_report *report);
/* The states of one session as those of another one of the same plan, which may have unshared tensors. */
void rt_states_copy(const ouro_session *from, ouro_session *to);
void rt_states_free(ouro_session *session);
size_t rt_states_bytes(const ouro_session *session); /* that the session holds for them */
/* For the caller's calls (state_calls.c): all states as a reset leaves them; the places that they have before the first run; a
 * value, as it is carried, for one of them, while they are at these places; what one is now. */
base_status rt_states_reset(ouro_session *session, base_report *report);
void rt_states_to_start(ouro_session *session);
base_status rt_states_put(ouro_session *session, size_t index, const op_type *type, const void *data,
                          base_report *report);
op_tensor rt_states_look(const ouro_session *session, size_t index);

/* binding.c */
/* What the address of a caller's data must be a multiple of. */
static inline size_t rt_element_alignment(op_dtype dtype) {
    const size_t bytes = op_dtype_bytes(dtype);
    return bytes == 0 ? 1 : bytes < 8 ? bytes : 8;
}
ouro_status rt_binding_fail(const ouro_session *session, ouro_error *error, base_status status,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
/* There is an output of this number, and a run has made it. */
ouro_status rt_binding_expect_output(const ouro_session *session, size_t index, ouro_error *error);
/* A tensor whose rank fits that of input `index`, which exists; where the plan does not know the rank, it is the value's. */
ouro_status rt_binding_tensor(ouro_session *session, size_t index, const ouro_value *value,
                              ouro_error *error);
void rt_binding_point(ouro_session *session, rt_binding *binding, void *data);
/* An output has memory of the session, where it has none, and its extents are known. False when memory runs out. */
bool rt_binding_own(ouro_session *session, rt_binding *binding);
/* The value of an output after a run. */
op_tensor rt_binding_result(const ouro_session *session, const rt_binding *binding);
/* So many bytes of the session's own for an output that is not bound, in place of what it has. False when memory runs out: it has what it
 * had. */
bool rt_binding_grow(ouro_session *session, rt_binding *binding, size_t bytes);
/* Two inputs have different extents, `first` and `second`, for one symbol; one is more than the plan was made for. */
base_status rt_binding_differ(const plan *of, const plan_interface *a, const plan_interface *b,
                              int64_t symbol, int64_t first, int64_t second, base_report *report);
base_status rt_binding_exceeds(const plan *of, const plan_interface *input, uint64_t symbol, int64_t extent,
                               base_report *report);
/* Equal symbols are equal extents in all inputs, and none is more than the plan was made for. */
base_status rt_binding_check(const ouro_session *session, base_report *report);
/* The extent that a symbol has in this run, as the inputs tell; 0 where none does. */
int64_t rt_symbol_extent(const ouro_session *session, int64_t symbol);
/* The same; OP_DIM_UNKNOWN where none does. */
int64_t rt_symbol_known(const ouro_session *session, int64_t symbol);
base_status rt_binding_before_run(ouro_session *session, base_report *report);
base_status rt_binding_after_run(ouro_session *session, base_report *report);

/* run.c */
/* One run. Its report is session->run.report. */
base_status rt_run_once(ouro_session *session);
/* Before and after the steps of a run: inputs are looked at; values that only a run knows are given back, outputs
 * aside. */
base_status rt_run_begin(ouro_session *session, base_report *report);
void rt_run_end(ouro_session *session);
void rt_observe(ouro_session *session, rt_observer *observer);
void rt_observe_no_longer(ouro_session *session, rt_observer *observer);

/* samples.c */
/* How many samples the inputs have; 1 where the plan has no batch. BASE_INVALID: not all as many, or more than the plan is for. */
base_status rt_samples_count(const ouro_session *session, int64_t *count, base_report *report);
/* Sets run.samples, and gives outputs memory for all of them. */
base_status rt_samples_before_run(ouro_session *session, base_report *report);
/* Inputs and outputs are those of sample `number`. */
void rt_samples_next(ouro_session *session, int64_t number);
/* They are whole again. */
void rt_samples_after_run(ouro_session *session);

/* execute.c */
double rt_now_seconds(void); /* of a clock that never goes back */
/* The steps of a graph. BASE_USAGE, with session->run.stopped: it was cancelled, or took too long. */
base_status rt_execute(ouro_session *session, uint32_t graph);
/* As if no graph had been executed yet. */
void rt_executions_reset(ouro_session *session);
base_status rt_step_run(ouro_session *session, const rt_step *step);
/* Dynamic tensors that end with the step are given back. */
void rt_step_release(ouro_session *session, const rt_step *step);
/* What an alias would only have pointed at is copied: parts out of the whole, or (Concat) into it. */
base_status rt_alias_run(ouro_session *session, const rt_step *step);
/* The run was cancelled, or is late, and may end. */
bool rt_must_stop(const ouro_session *session);
base_status rt_stop(ouro_session *session); /* it ends: BASE_USAGE, with a report */
/* Puts "MODEL: node" before the messages of the report, once. Returns the status. */
base_status rt_fail_at(ouro_session *session, uint32_t node, base_status status);

/* multiviews.c: the tables of a loop's multi-views, made with the session */
bool rt_multiviews_make(ouro_session *session, uint32_t node, rt_step_loop *loop);
/* The loop begins: its tables become pointers, and its multi-views are where they are in iteration 0. */
void rt_multiviews_enter(ouro_session *session, const rt_step_loop *loop);
/* `from` becomes `to` by a swap within the group of `multiview`. */
bool rt_swap_add(ouro_session *session, rt_swap_list *list, uint32_t from, uint32_t to, uint32_t multiview);
/* All of a list at once. What is in no buffer of its group, or was swapped already, is copied. */
void rt_swap_run(ouro_session *session, const rt_swap_list *list);
base_status rt_swap_step(ouro_session *session, const rt_step *step); /* of a Copy */

/* The buffers of this loop, which runs, have other addresses: all that lies in them is there now. */
void rt_multiviews_renew(ouro_session *session, uint32_t loop);

/* lazy_copies.c */
/* The step, whose kernel is prepared, writes into buffers of lazy groups, if it does: what runs instead. `copies`: its output gets
 * the address of its input. False when memory runs out. */
bool rt_lazy_make(ouro_session *session, rt_step *step, bool copies);

/* t % period; 32 bits are enough for nearly all, and are divided in a third of the time. */
static inline int64_t rt_multiviews_turn(int64_t t, uint32_t period) {
    return t <= UINT32_MAX ? (uint32_t)t % period : t % period;
}

/* Where a multi-view of the loop is in iteration t. */
static inline unsigned char *rt_multiview_at(const rt_loop_multiview *multiview, int64_t t) {
    const int64_t beyond = t - (int64_t)multiview->prologue;
    return beyond < 0 ? multiview->table[t]
           : multiview->period == 1
               ? multiview->table[multiview->prologue] + multiview->stride * beyond
               : multiview->table[multiview->prologue + rt_multiviews_turn(beyond, multiview->period)];
}

/* The loop is in iteration t, or has run t times. Here, because it is part of every iteration. */
static inline void rt_multiviews_count(ouro_session *session, const rt_step_loop *loop, int64_t t) {
    for (uint32_t i = 0; i < loop->multiview_count; i++) {
        const rt_loop_multiview *multiview = &loop->multiviews[i];
        unsigned char *data = rt_multiview_at(multiview, t);
        session->run.multiview_data[multiview->multiview] = data;
        for (uint32_t p = session->code.multiview_patches[multiview->multiview]; p != PLAN_ABSENT;
             p = session->code.patches[p].next) {
            *session->code.patches[p].data = data + session->code.patches[p].offset;
        }
    }
}

/* control.c */
bool rt_control_make(ouro_session *session, const plan_node *node, rt_step *step);
/* Does in this session what another one on the same plan has just done. */
base_status rt_control_follow(ouro_session *session, const rt_control_event *event);
/* Gives back what a run that failed left. */
void rt_control_reset(ouro_session *session, rt_step_loop *loop);

/* row_loops.c */
/* Finds the loops that can run row by row; all steps are made. False when memory runs out. */
bool rt_row_loops_make(ouro_session *session);
/* Whether this loop, which has begun, can run so, `loop->trips` times: the bits are the same. */
bool rt_row_loop_fits(const ouro_session *session, const rt_step_loop *loop);
/* All its iterations. */
base_status rt_row_loop_run(ouro_session *session, rt_step_loop *loop);

/* values.c */
/* A dynamic tensor gets a value (the buffer, which may be NULL, is retained), or loses it. */
void rt_value_set(ouro_session *session, uint32_t id, const op_type *type, void *data, size_t bytes,
                  rt_buffer *buffer);
void rt_value_release(ouro_session *session, uint32_t id);
/* It gets another value of the type that it has. */
void rt_value_lend(ouro_session *session, uint32_t id, void *data, size_t bytes, rt_buffer *buffer);
/* The same with memory of its own, not filled yet. False when memory runs out (reported). */
bool rt_value_new(ouro_session *session, uint32_t id, const op_type *type, size_t bytes);
/* Memory for a value of the type that the tensor has. */
bool rt_value_renew(ouro_session *session, uint32_t id, size_t bytes);
/* The tensor has memory for a value of this type: new memory where it is dynamic; else the type must be the one that
 * was planned. */
base_status rt_value_prepare(ouro_session *session, uint32_t id, const op_type *type, size_t bytes);
/* The same, and the value copied there. */
base_status rt_value_put(ouro_session *session, uint32_t id, const op_tensor *value);
/* The value stays where it is for as long as the session runs: nobody writes there. */
bool rt_value_is_lasting(const ouro_session *session, uint32_t id);
/* The tensor is not what was planned. */
base_status rt_value_fail(ouro_session *session, uint32_t id, const op_type *actual);

/* views.c */
/* Outputs of such an operator can be bytes of its first input. */
bool rt_views_may_share(op_code code);
/* Which bytes of the first input the outputs are, of a call whose types are known; false: of one of them, none together. */
bool rt_views_ranges(const op_call *call, op_range *ranges);
/* When a session is made: memory for the ranges of the outputs. False when it runs out. */
bool rt_views_make(ouro_session *session, const plan_node *node, rt_dynamic *detail);
/* The outputs of a dynamic step that is inferred become bytes of its first input, where they may. */
bool rt_views_share(ouro_session *session, const rt_step *step);

/* dynamic.c */
bool rt_dynamic_make(ouro_session *session, const plan_node *node, rt_step *step);
void rt_dynamic_free(rt_step *step);
/* Hands a value over where one of the two is dynamic. */
base_status rt_value_move(ouro_session *session, const rt_move *move);

/* shapes.c */
bool rt_shapes_make(ouro_session *session);
void rt_shapes_free(ouro_session *session);
/* Plans for the dimensions that are bound now, unless that has been done: session->memory.planned. */
void rt_shapes_before_run(ouro_session *session);
/* How many bytes a run would have planned, for the dimensions that inputs and states have now. `memory` NULL: nothing else happens.
 * Else they are taken: those that it names, which are enough, or (data NULL) from the system. False when memory runs out. */
bool rt_shapes_prepare(ouro_session *session, const ouro_span *memory, size_t *bytes);
/* By output, what a run with these dimensions would make, as far as that follows. False when memory runs out. */
bool rt_shapes_outputs(const ouro_session *session, op_type *types);
size_t rt_shapes_table_bytes(const ouro_session *session);
/* Bytes that are planned for the last run's shapes, beside the arena: for what has no reservation in it. */
size_t rt_shapes_bytes(const ouro_session *session);
size_t rt_shapes_capacity(const ouro_session *session); /* of the block in which they are */
/* The places of the plan for the shapes at hand (places NULL: none is written); how many there are. */
size_t rt_shapes_places(const ouro_session *session, rt_shape_place *places);

/* sequence.c */
bool rt_sequence_is_node(const plan *of, const plan_node *node);
bool rt_sequence_make(ouro_session *session, const plan_node *node, rt_step *step);
/* Hands a sequence or optional over to a dynamic tensor. */
base_status rt_sequence_move(ouro_session *session, uint32_t from, uint32_t to);
/* A copy of a sequence whose elements do not depend on the caller's memory, with one reference; its array in *data. */
base_status rt_sequence_keep(ouro_session *session, const op_tensor *value, rt_buffer **kept, void **data);
/* Two values of one type are the same, bit by bit, strings character by character; else *at is the first byte (or
 * element) that differs. */
bool rt_value_equal(const op_tensor *a, const op_tensor *b, size_t *at);

#endif

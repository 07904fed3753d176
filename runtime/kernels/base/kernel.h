/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: what executes one application of an operator.
 *
 * The compiler asks kernels which one accepts an application, in which layouts it likes its tensors, how much
 * scratch it needs, and to pack constant weights; the executor prepares each application once per session and
 * then runs it any number of times. Kernels hold no state of their own: everything is in rt_prepared.
 *
 * A kernel never allocates while it runs, but for the characters of new strings (rt_environment.texts): what it needs
 * beside its tensors is scratch that the plan lays out.
 * Where the size of a result depends on data (OP_FLAG_DYNAMIC), the kernel is asked for it before it runs
 * (rt_kernel.measure), and memory for the result is then found for it.
 */
#ifndef OURO_KERNEL_H
#define OURO_KERNEL_H

#include "ir/operators/op.h"

enum { RT_ALIGNMENT = 64, RT_KERNEL_INPUTS = 8 };

/* What kernels are told about the place where they run. */
typedef struct rt_environment {
    int threads;        /* OpenMP threads to use, at least 1 */
    bool portable_only; /* never choose oneDNN: the oracle of the tests */
    /* Of all constants of the plan that runs; 0: not known yet, as when it is compiled. */
    size_t constant_bytes;
    /* How often the graph in which the application stands has been executed within a run, this time included: tells
     * iterations apart where random numbers are drawn. Read while the kernel runs; NULL: always 1. */
    const uint64_t *execution;
    /* Where characters are put that a kernel makes: they must outlive the tensors that hold them. Read while the kernel
     * runs; NULL: with the prepared kernel, as long as it lives. */
    base_arena *texts;
    /* Where kernels take memory from that is not scratch: what depends on the data of strings and images, and what is given back
     * before a call returns. Lives as long as the prepared kernel; NULL: the heap. */
    const base_allocator *memory;
} rt_environment;

typedef struct rt_kernel rt_kernel;
typedef struct rt_prepared rt_prepared;

/* Runs a prepared application. `inputs` and `outputs` have the types that were prepared for and their data
 * set; output data never overlaps an input, except exactly (same address) where the operator's row allows it
 * in place. `scratch` has prepared->scratch_bytes bytes, aligned to RT_ALIGNMENT (NULL where 0). Only
 * conditions that depend on data fail (an index out of range), with a report. */
typedef base_status rt_run_function(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                    void *scratch, base_report *report);

/* Computes rows [begin, end) of output 0, with the bits that `run` gives them, without scratch; nothing can fail. Other threads may compute other
 * rows meanwhile: each has another `member`, which is less than the number of threads. */
typedef void rt_run_rows_function(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                  int member, int64_t begin, int64_t end);

/* The rows of output 0: equally many bytes each, one after another. So a loop can be run through by each thread for rows of its own. */
typedef struct rt_rows {
    rt_run_rows_function *run; /* NULL: the kernel does not tell rows apart */
    int64_t count;
    uint32_t
        inputs; /* bit i: input i has as many rows, and a row of the output reads that row of it alone; other inputs are read
                        anywhere */
    int64_t work; /* of all rows, in simple operations */
} rt_rows;

struct rt_prepared {
    const rt_kernel *kernel;
    rt_run_function *run;
    op_code code;
    int threads;
    uint32_t input_count, output_count;
    size_t scratch_bytes;
    void *state; /* the kernel's own */
    rt_rows rows;
};

/* How a kernel would like the tensors of an application to lie. */
typedef struct rt_preference {
    op_layout inputs[RT_KERNEL_INPUTS]; /* OP_LAYOUT_PACKED only where the input is constant */
    size_t packed_bytes[RT_KERNEL_INPUTS];
    op_layout output; /* of output 0 */
} rt_preference;

/* What an application takes when a kernel runs it. */
typedef struct rt_cost {
    double seconds;       /* predicted (portable/cost.h) */
    size_t scratch_bytes; /* not known: 0 */
    size_t packed_bytes;  /* of its constant weights, where this kernel packs them; else 0 */
    /* In how many parts it does its work one after the other, where that is a choice: "ouro.blocks". */
    int64_t blocks;
    bool settles;    /* it chooses them itself where extents are open until a run knows them */
    bool known_only; /* nothing is predicted where extents are open until a run: not for examples of them */
} rt_cost;

/* What a kernel is written with: its name begins so ("portable.", "onednn."). */
typedef enum rt_backend { RT_BACKEND_PORTABLE, RT_BACKEND_ONEDNN } rt_backend;

struct rt_kernel {
    const char *name; /* "portable.softmax", "onednn.convolution": recorded in plans */
    rt_backend backend;
    /* Can it run this application, dtypes and layouts as they are? Shapes may be unknown: then it answers for
     * every shape. Constant inputs have data. */
    bool (*accepts)(const op_call *call, const rt_environment *environment);
    /* Which layouts it likes best for this application, whose tensors are all row-major and whose shapes are
     * known. On entry preference->inputs[0] is the layout in which input 0 lies at present (row-major: no
     * matter): of layouts that are about as fast, the kernel keeps that one. NULL: everything row-major. False:
     * no wish. */
    bool (*prefer)(const op_call *call, const rt_environment *environment, rt_preference *preference);
    /* Packs constant input `input` of the application (whose type is already packed) from its row-major form into
     * `packed` (packed_bytes, zeroed). NULL where nothing is ever packed. */
    base_status (*pack)(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report);
    /* The way back: from what `pack` made to the row-major form, which has memory of its size. NULL where nothing needs it. */
    base_status (*unpack)(const op_call *call, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *row_major, base_report *report);
    /* Whether these weights, constant input `input` in its row-major form, can be packed for it: asked before it is chosen by what it costs.
     * NULL: all can. */
    bool (*suits)(const op_call *call, const rt_environment *environment, uint32_t input,
                  const op_tensor *plain);
    /* What the application would take with at most `scratch_limit` bytes of scratch. Its tensors lie as they are, but constant
     * weights (input 1), if they are packed, may be packed for another kernel. False: this kernel cannot run it, or nothing
     * is predicted. NULL: never. */
    bool (*estimate)(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost);
    /* Parses attributes, makes primitives, sets run, scratch_bytes and state (from `arena`). All shapes are
     * known. Deterministic: the same call and environment need the same scratch. */
    base_status (*prepare)(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report);
    /* Makes what was prepared ready for other extents of the same application, with less work than to prepare it anew; its
     * scratch may become larger. False: it must be prepared anew. NULL: always. */
    bool (*adapt)(const op_call *call, const rt_environment *environment, rt_prepared *prepared);
    /* Of operators with OP_FLAG_DYNAMIC, and only of those: sets the dimensions of the outputs that inference
     * leaves open. Called before each run with its inputs; the run then gets the same scratch, as this left
     * it. Outputs have the types that op_infer gave and no data; those that nobody wants have dtype OP_NONE.
     * `prepare` looks at nothing of the outputs there but their dtypes. */
    rt_run_function *measure;
    /* Gives back what prepare took outside the arena; NULL where there is nothing. */
    void (*release)(rt_prepared *prepared);
    /* Takes no application of which nothing is packed: where a kernel is chosen when a plan runs, it is none of those to choose from. */
    bool only_packed;
    /* Takes nothing in plans that run on every machine: it is for vectors that not every one has. */
    bool never_portable;
    /* Weights are packed alike however the result lies: then it may lie as its reader wants it, if the kernel accepts that. */
    bool packs_for_any_output;
};

/* ---- preparing (kernel.c) ------------------------------------------------------------------------------ */

/* Fills prepared->kernel, code, threads and counts, then calls the kernel's prepare. */
base_status rt_kernel_prepare(const rt_kernel *kernel, const op_call *call, const rt_environment *environment,
                              base_arena *arena, rt_prepared *prepared, base_report *report);
void rt_kernel_release(rt_prepared *prepared);

/* So many bytes of the arena, aligned as tensors are (RT_ALIGNMENT), with that many more after them which are nobody's. NULL
 * when memory runs out, or for more than can be. */
void *rt_arena_aligned(base_arena *arena, size_t bytes);

/* ---- numbers from data --------------------------------------------------------------------------------- */

/* A real of the input data as an index, a bound or a count in [low, high]: cut towards zero, what lies beyond an end is that
 * end, NaN is `low`. Kernels convert no real that they have read in any other way: C leaves open what becomes of others. */
static inline int64_t rt_index(double value, int64_t low, int64_t high) {
    return !(value > (double)low) ? low : value >= (double)high ? high : (int64_t)value;
}

/* ---- threads (threads.c) ------------------------------------------------------------------------------- */

/* Work, in simple element operations, from which a loop is worth more than one thread. */
enum { RT_PARALLEL_WORK = 32768 };

/* Calls run(context, begin, end) on parts of [0, count): one part a thread where count * work reaches
 * RT_PARALLEL_WORK, else all at once. Parts of different threads must write to different addresses. */
typedef void rt_range_function(void *context, int64_t begin, int64_t end);
void rt_parallel(int threads, int64_t count, int64_t work, rt_range_function *run, void *context);

/* Runs function(context, member, members) once on each of at most `threads` threads: always in a team of
 * exactly that size (or alone), because a change of the team's size makes the OpenMP run time allocate. */
typedef void rt_member_function(void *context, int member, int members);
void rt_team_run(int threads, rt_member_function *function, void *context);

/* Within `function` of rt_team_run, called by each of its members equally often: returns when all have called it, and what they wrote before
 * can be read. Nothing where there is one. */
void rt_team_wait(void);

/* Makes the calling thread's team of OpenMP threads, which allocates: when a session is made, and before a
 * thread runs a session that another one made. Kernels then always ask for the same team. */
void rt_threads_warm(int threads);

#endif

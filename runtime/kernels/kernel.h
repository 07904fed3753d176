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
    /* How often the graph in which the application stands has been executed within a run, this time included: tells
     * iterations apart where random numbers are drawn. Read while the kernel runs; NULL: always 1. */
    const uint64_t *moment;
    /* Where characters are put that a kernel makes: they must outlive the tensors that hold them. Read while the kernel
     * runs; NULL: with the prepared kernel, as long as it lives. */
    base_arena *texts;
} rt_environment;

typedef struct rt_kernel rt_kernel;
typedef struct rt_prepared rt_prepared;

/* Runs a prepared application. `inputs` and `outputs` have the types that were prepared for and their data
 * set; output data never overlaps an input, except exactly (same address) where the operator's row allows it
 * in place. `scratch` has prepared->scratch_bytes bytes, aligned to RT_ALIGNMENT (NULL where 0). Only
 * conditions that depend on data fail (an index out of range), with a report. */
typedef base_status rt_run_function(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                                    void *scratch, base_report *report);

struct rt_prepared {
    const rt_kernel *kernel;
    rt_run_function *run;
    op_code code;
    int threads;
    uint32_t input_count, output_count;
    size_t scratch_bytes;
    void *state; /* the kernel's own */
};

/* How a kernel would like the tensors of an application to lie. */
typedef struct rt_preference {
    op_layout inputs[RT_KERNEL_INPUTS]; /* OP_LAYOUT_PACKED only where the input is constant */
    size_t packed_bytes[RT_KERNEL_INPUTS];
    op_layout output; /* of output 0 */
} rt_preference;

struct rt_kernel {
    const char *name; /* "portable.softmax", "onednn.convolution": recorded in plans */
    /* Can it run this application, dtypes and layouts as they are? Shapes may be unknown: then it answers for
     * every shape. Constant inputs have data. */
    bool (*accepts)(const op_call *call, const rt_environment *environment);
    /* Which layouts it likes best for this application, whose tensors are all plain and whose shapes are
     * known. On entry preference->inputs[0] is the layout in which input 0 lies at present (plain: no
     * matter): of layouts that are about as fast, the kernel keeps that one. NULL: everything plain. False:
     * no wish. */
    bool (*prefer)(const op_call *call, const rt_environment *environment, rt_preference *preference);
    /* Packs constant input `input` of the application (whose type is already packed) from its plain form into
     * `packed` (packed_bytes, zeroed). NULL where nothing is ever packed. */
    base_status (*pack)(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report);
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
};

/* ---- the kernel table (kernel.c) ----------------------------------------------------------------------- */

/* The first kernel that accepts the application: oneDNN's before the portable one. NULL: none does. */
const rt_kernel *rt_kernel_select(const op_call *call, const rt_environment *environment);
/* By name, for plans; NULL where this build does not have it. */
const rt_kernel *rt_kernel_find(const char *name);
/* The candidates for an operator in order of preference: index 0, 1, ...; NULL behind the last. */
const rt_kernel *rt_kernel_candidate(op_code code, unsigned index);

/* Fills prepared->kernel, code, threads and counts, then calls the kernel's prepare. */
base_status rt_kernel_prepare(const rt_kernel *kernel, const op_call *call, const rt_environment *environment,
                              base_arena *arena, rt_prepared *prepared, base_report *report);
void rt_kernel_release(rt_prepared *prepared);

/* Runs one application on the spot with a portable kernel: for constant folding and tests. Inputs have data;
 * outputs have types (from op_infer) and get data that this function takes from `arena` (64-byte aligned),
 * unless the caller has set their data already. Outputs of a kernel that measures get their dimensions and
 * always their data here. BASE_INVALID where no kernel accepts it. */
base_status rt_kernel_evaluate(const op_call *call, const rt_environment *environment, base_arena *arena,
                               base_report *report);

/* So many bytes of the arena, aligned as tensors are (RT_ALIGNMENT), with that many more behind them which are nobody's. NULL
 * when memory runs out, or for more than can be. */
void *rt_arena_aligned(base_arena *arena, size_t bytes);

/* Makes the calling thread's team of OpenMP threads, which allocates: when a session is made, and before a
 * thread runs a session that another one made. Kernels then always ask for the same team. */
void rt_threads_warm(int threads);

/* What this build and machine are, as far as plans depend on it: "x86_64 onednn-2.6.3 avx512_core" or
 * "portable". Written into text; returns text. `portable`: of a plan that uses portable kernels only. */
const char *rt_machine_describe(bool portable, char *text, size_t capacity);

/* Any operator on tensors in blocks that no kernel of its own takes: through plain copies, in its scratch. No plan names it
 * (kernels/through_plain.c). */
extern const rt_kernel rt_kernel_through_plain;

/* Portable kernels, named in ops.def. */
#define OP(code, text, domain, since, imin, imax, omin, omax, attributes, inference, in_place, view, flags,  \
           kernel)                                                                                           \
    extern const rt_kernel rt_kernel_##kernel;
#include "ir/operators/ops.def"
#undef OP

#endif

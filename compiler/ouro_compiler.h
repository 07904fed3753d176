/* SPDX-License-Identifier: Apache-2.0 */
/* ouro_compiler.h: from an ONNX model to a plan. The public interface of the compiler library.
 *
 *     ouro_compile_options options = {.model_path = "model.onnx", .plan_path = "model.plan"};
 *     ouro_error error;
 *     if (ouro_compile(&options, &error)) return ouro_error_print(&error);
 *
 * No mutable globals: compiles on several threads do not disturb each other (pictures excepted: Graphviz is
 * not thread-safe, so two calls that write .svg or .png through it must not overlap).
 */
#ifndef OURO_COMPILER_H
#define OURO_COMPILER_H

#include "ouro.h"
#include <stdio.h>

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

typedef struct ouro_dim {
    const char *name; /* of a symbolic dimension of the model */
    int64_t extent;
} ouro_dim;

/* The shape of an input: for dimensions that have no name, and ranks that the model does not say. */
typedef struct ouro_shape {
    const char *input; /* its name */
    int rank;
    int64_t dims[OURO_MAX_RANK]; /* -1: as the model has it */
} ouro_shape;

/* What output `output` is after a run, input `input` is in the next one. Each name may hold stars, which stand for any text:
 * the same in both. */
typedef struct ouro_state_pair {
    const char *input, *output;
} ouro_state_pair;

/* As an arena limit: no kernel is chosen that makes the arena larger than it has to be. */
#define OURO_ARENA_LEAST SIZE_MAX

typedef struct ouro_compile_options {
    const char *model_path; /* the .onnx file */
    const char *plan_path;  /* NULL: no plan is written */
    const ouro_dim *dims;   /* symbolic dimensions to fix */
    size_t dim_count;
    const ouro_shape *shapes; /* of inputs */
    size_t shape_count;
    const ouro_dim *bounds; /* the most that symbolic dimensions may be */
    size_t bound_count;
    /* Inputs that have a default value (an initializer of their name), and are to be given all the same. Else they are constants. */
    const char *const *kept_inputs;
    size_t kept_input_count;
    const ouro_state_pair *states; /* that are kept from run to run */
    size_t state_count;
    const char *allocator; /* as in --allocator; NULL: "auto" */
    double seconds;        /* for allocators that search; 0: their default */
    int threads;           /* that the plan will run with; 0: 1 */
    int max_unroll;        /* 0: 16 */
    /* Bytes that the arena may take; OURO_ARENA_LEAST; 0: 5/4 of the least, where that saves time. */
    size_t arena_limit;
    /* With OURO_ARENA_LEAST: the least arena whose predicted time is at most so many times that without bands; 0: any. */
    double time_limit;
    /* With a limit of bytes, or OURO_ARENA_LEAST: what the arena still has no place for is put into this file while the plan runs, each
     * session into one of its own (ouro_session_options.spill_path names another one). NULL: nothing is. */
    const char *spill_path;
    /* "float16", "bfloat16", "int16", "int8" or "int4": constant weights of products (MatMul, Gemm) are stored so, the last two in
     * blocks; NULL: as they are. */
    const char *weights;
    /* "float16" or "bfloat16": states in float that grow from run to run (caches of attention) are kept, given and taken so; NULL: as
     * they are. */
    const char *state_type;
    /* No kernel that multiplies less by adding more (Winograd) or sums in another order (attention, floats in tiles of AMX): their last
     * digits differ. */
    bool exact_arithmetic;
    /* Without `arena_limit`: no bands of rows, even where they would take less time and less memory. */
    bool no_bands;
    /* Samples of an open batch run together, even where one after another would take no longer; the arena then grows with their number. */
    bool whole_batch;
    /* Kernels are measured on this machine, and chosen by what they take. `times_path`, which may be NULL, is a file of such
     * times: read where it is there, and written with those that were measured. What it has is not measured, so that
     * compiling again gives the same plan; without `tune` nothing is. */
    bool tune;
    const char *times_path;
    bool portable;        /* portable kernels only: the plan runs on any machine of its byte order */
    const char *dot_path; /* .dot, .svg or .png; NULL: none */
    size_t
        dot_nodes; /* boxes of a graph in that picture, of more, nodes whose names begin alike are one; 0: see docs/COMMAND.md */
    const char *memory_map_path; /* .svg or .html; NULL: none */
    const char *report_path;     /* JSON; NULL: none */
    const char *problem_path;    /* CSV of the allocation problem; NULL: none */
    const char *dump_after;      /* a pass, or "all": textual IR to dump_file; NULL: none */
    FILE *dump_file;             /* NULL: stderr */
    /* Told the name of each pass before it runs, by the thread that compiles; NULL: nobody asks. */
    void (*progress)(void *user, const char *pass);
    void *progress_user;
} ouro_compile_options;

/* Compiles; every file is written whole (to a temporary name beside it, then renamed) or not at all. */
ouro_status ouro_compile(const ouro_compile_options *options, ouro_error *error);
/* Compiles into memory: no plan file; the plan is freed with ouro_plan_free as any other. */
ouro_status ouro_compile_plan(const ouro_compile_options *options, ouro_plan **plan, ouro_error *error);

#ifdef __cplusplus
}
#endif
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif

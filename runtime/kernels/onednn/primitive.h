/* SPDX-License-Identifier: Apache-2.0 */
/* primitive.h: one oneDNN primitive as our kernels use it: no allocation when it runs, memory that is handed
 * over by pointer at each run, the plan's scratch, the session's number of threads.
 *
 * Engine and stream belong to the primitive: both are small, and nothing is shared between sessions.
 */
#ifndef OURO_ONEDNN_PRIMITIVE_H
#define OURO_ONEDNN_PRIMITIVE_H

#include "ir/operators/window.h"
#include "runtime/kernels/base/kernel.h"
#include "runtime/kernels/onednn/boundary.h"
#include "runtime/kernels/portable/activation.h"

enum { RT_PRIMITIVE_ARGUMENTS = 12 };

typedef struct rt_primitive {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    int threads;
    size_t scratch_bytes;
    int count;
    dnnl_exec_arg_t arguments[RT_PRIMITIVE_ARGUMENTS];
    void *data[RT_PRIMITIVE_ARGUMENTS]; /* what the memory objects point at */
} rt_primitive;

/* A descriptor under construction: the attributes and the engine that it needs. */
typedef struct rt_descriptor {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t descriptor; /* NULL: oneDNN cannot do it */
    int threads;                      /* that it is made for */
    bool by_channel; /* each channel for itself: only implementations that are made for this */
} rt_descriptor;

/* Makes the engine and attributes with user-managed scratchpad and these post-operations: what dst holds is
 * added (sum times scale; 0: not), then the activation. Releases everything and returns false where oneDNN
 * cannot. */
bool rt_descriptor_open(rt_descriptor *open, float sum, const rt_activation *activation);
/* Makes the descriptor from an operation descriptor (dnnl_convolution_desc_t *, ...), for `threads` threads,
 * on the first implementation that is not oneDNN's reference and does not allocate when it runs. Releases everything and
 * returns false where there is none. */
bool rt_descriptor_make(rt_descriptor *open, const_dnnl_op_desc_t operation, int threads);
void rt_descriptor_close(rt_descriptor *open);
/* oneDNN cannot do it, for this reason: BASE_INVALID. Or, where it wanted memory that there was not: BASE_SYSTEM_ERROR. */
base_status rt_onednn_fail(base_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const dnnl_memory_desc_t *rt_descriptor_memory(const rt_descriptor *open, dnnl_query_t what);

/* Makes the primitive of a descriptor; takes the engine over. The primitive must be closed also on failure.
 */
base_status rt_primitive_make(rt_primitive *primitive, rt_descriptor *open, base_report *report);
/* The next argument (DNNL_ARG_SRC, ...), whose data stands at the same place in rt_primitive_run's list. An
 * argument that is only read is never written, not even its padding: it may lie in a read-only mapping. */
base_status rt_primitive_argument(rt_primitive *primitive, int argument,
                                  const dnnl_memory_desc_t *description, bool written, base_report *report);
/* Runs with one pointer an argument. Allocates nothing where the program links runtime/argument_pool/. */
base_status rt_primitive_run(rt_primitive *primitive, void *const *data, void *scratch, base_report *report);
void rt_primitive_close(rt_primitive *primitive);

/* The description of a tensor in its layout (not packed), or in another: false where oneDNN has no such.
 * `any` leaves the layout to oneDNN. */
bool rt_describe(const op_type *type, dnnl_memory_desc_t *description);
bool rt_describe_as(const op_shape *shape, op_layout layout, dnnl_memory_desc_t *description);
bool rt_describe_any(const op_shape *shape, dnnl_memory_desc_t *description);

/* A sliding window in oneDNN's terms: dilates count the elements left out, and the padding at the end is what the
 * number of output positions implies. */
typedef struct rt_window_dims {
    dnnl_dims_t kernel, strides, dilates, before, after;
} rt_window_dims;
void rt_window_describe(const op_window *window, rt_window_dims *dims);

/* Reorders data from one description to another at compile time; all of `to` is written. */
base_status rt_reorder(const dnnl_memory_desc_t *from, const void *data, const dnnl_memory_desc_t *to,
                       void *packed, float scale, int threads, base_report *report);

/* How many of the session's threads are worth their start for this many elementary operations: all, or one.
 * One also keeps oneDNN from splitting little work among a smaller team than usual, which would make the
 * OpenMP run time allocate: with two threads that never happens; with more, large work of few parts (three
 * rows of blocks, say, on four threads) still does it. */
double rt_work_of(const op_tensor *tensor); /* its elements */
int rt_threads_for(double work, const rt_environment *environment);
/* Sets the calling thread's number of OpenMP threads; returns what it was. */
int rt_threads_set(int threads);
void rt_threads_restore(int before);

/* The weights of the call, input 1, have as many bytes as the primitive wants: they were packed for such a machine. */
base_status rt_check_packed(const op_call *call, const rt_descriptor *open, base_report *report);

/* All shapes are known, nothing is empty, all floats. */
bool rt_floats_known(const op_call *call);

/* ---- the kernels, one family a file -------------------------------------------------------------------- */

extern const rt_kernel rt_onednn_convolution;
extern const rt_kernel rt_onednn_pool;
extern const rt_kernel rt_onednn_batch_normalization;
extern const rt_kernel rt_onednn_lrn;
extern const rt_kernel rt_onednn_matmul;
extern const rt_kernel rt_onednn_gemm;
extern const rt_kernel rt_onednn_reorder;
extern const rt_kernel rt_onednn_recurrent;

#endif

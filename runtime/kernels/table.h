/* SPDX-License-Identifier: Apache-2.0 */
/* table.h: which kernels there are, and which one runs an application of an operator.
 *
 * base/kernel.h says what a kernel is. The kernels stand on it: portable/ has one for each operator, onednn/ one for some.
 * This table stands on them.
 */
#ifndef OURO_KERNEL_TABLE_H
#define OURO_KERNEL_TABLE_H

#include "runtime/kernels/base/kernel.h"

/* The first kernel that accepts the application: oneDNN's before the portable one. NULL: none does. */
const rt_kernel *rt_kernel_select(const op_call *call, const rt_environment *environment);
/* How often a kernel did not accept a call for want of memory so far, in this thread. Where it is more often than before, what was
 * asked of kernels in between may have had another answer. */
size_t rt_kernel_exhaustions(void);
/* By name, for plans; NULL where this build does not have it. */
const rt_kernel *rt_kernel_find(const char *name);
/* The candidates for an operator in order of preference: index 0, 1, ...; NULL after the last. The last may accept nothing but
 * weights that it packed: it is chosen by what it costs (rt_kernel.estimate). */
const rt_kernel *rt_kernel_candidate(op_code code, unsigned index);

/* The environment lets plans use it: a portable plan has nothing of another backend, nor what only some machines run. */
bool rt_kernel_allowed(const rt_kernel *kernel, const rt_environment *environment);

/* The first candidate that wants tensors in layouts, of which `wish` tells those that they are likely to have; then it tells those
 * that the kernel wants. NULL: none has a wish, and `wish` is as before. */
const rt_kernel *rt_kernel_wishing(const op_call *call, const rt_environment *environment,
                                   rt_preference *wish);

/* The kernel of this name for the operator; NULL where this build has none. */
const rt_kernel *rt_kernel_of(op_code code, const char *name);
bool rt_kernel_exists(op_code code, const char *name); /* there is one */

/* Runs one application on the spot with a portable kernel: for constant folding and tests. Inputs have data;
 * outputs have types (from op_infer) and get data that this function takes from `arena` (64-byte aligned),
 * unless the caller has set their data already. Outputs of a kernel that measures get their dimensions and
 * always their data here. BASE_INVALID where no kernel accepts it. */
base_status rt_kernel_evaluate(const op_call *call, const rt_environment *environment, base_arena *arena,
                               base_report *report);

/* What this build and machine are, as far as plans depend on it: "x86_64 onednn-2.6.3 avx512_core" or
 * "portable". Written into text; returns text, or NULL where memory runs out. `portable`: of a plan that uses portable kernels
 * only. */
const char *rt_machine_describe(bool portable, char *text, size_t capacity);

/* Any operator on tensors in blocks that no kernel of its own takes: through row-major copies, in its scratch. No plan names
 * it (through_row_major.c). */
extern const rt_kernel rt_kernel_through_row_major;

#endif

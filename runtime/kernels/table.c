/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: see table.h. */
#include "runtime/kernels/table.h"
#include "ir/operators/chosen.h"
#include "runtime/kernels/onednn/onednn.h"
#include "runtime/kernels/portable/kernels.h"
#include <stdio.h>
#include <string.h>

/* An operator without a kernel of its own: views and control nodes never reach one. */
const rt_kernel rt_kernel_none = {.name = "none"};

/* The portable kernel of this name. NULL: this build leaves it out, as the plans that OURO_OPERATORS names do not run it. */
#ifdef OURO_OPERATORS_CHOSEN
#define KERNEL_CHOSEN(name) KERNEL_IF_##name(&rt_kernel_##name)
#else
#define KERNEL_CHOSEN(name) &rt_kernel_##name
#endif

/* The portable kernel that ops.def names for each operator, and whether this build has the operator at all. */
static const struct own_kernel {
    const rt_kernel *kernel;
    const char *name; /* of the operator; NULL: it is left out */
} own_kernels[] = {
    [OP_CODE_NONE] = {&rt_kernel_none, NULL},
#define OP(code, text, domain, since, imin, imax, omin, omax, attributes, inference, in_place, view, flags,  \
           kernel, family)                                                                                   \
    [OP_##code] = {OP_CHOSEN(code, KERNEL_CHOSEN(kernel)), OP_CHOSEN(code, text)},
#include "ir/operators/ops.def"
#undef OP
};

/* These stand in a list of candidates for the kernel of oneDNN and for that of ops.def. */
static const rt_kernel onednn_place = {.name = "onednn"}, own_place = {.name = "own"};

enum { MOST_CANDIDATES = 12 };
/* Row 0 is that of all operators that have none in candidates.def. */
enum row_number {
    ROW_USUAL,
#define CANDIDATES(code, kernels) ROW_##code,
#include "runtime/kernels/candidates.def"
#undef CANDIDATES
};
static const uint8_t row_of[OP_CODE_COUNT] = {
#define CANDIDATES(code, kernels) [OP_##code] = ROW_##code,
#include "runtime/kernels/candidates.def"
#undef CANDIDATES
};
/* A kernel that this build leaves out is NULL. */
static const rt_kernel *const rows[][MOST_CANDIDATES] = {
#define ONEDNN &onednn_place,
#define OWN &own_place,
#define KERNEL(name) KERNEL_CHOSEN(name),
#define CANDIDATES(code, kernels) [ROW_##code] = {kernels},
    [ROW_USUAL] = {ONEDNN OWN},
#include "runtime/kernels/candidates.def"
#undef CANDIDATES
#undef KERNEL
#undef OWN
#undef ONEDNN
};

const rt_kernel *rt_kernel_candidate(op_code code, unsigned index) {
    if (code <= OP_CODE_NONE || code >= OP_CODE_COUNT || !own_kernels[code].name) return NULL;
    const rt_kernel *own = own_kernels[code].kernel;
    for (size_t i = 0; i < MOST_CANDIDATES; i++) {
        const rt_kernel *kernel = rows[row_of[code]][i];
        if (kernel == &onednn_place) kernel = rt_onednn_kernel(code);
        else if (kernel == &own_place) kernel = own;
        if (!kernel || kernel == &rt_kernel_none) continue;
        if (index == 0) return kernel;
        index--;
    }
    return NULL;
}

const rt_kernel *rt_kernel_wishing(const op_call *call, const rt_environment *environment,
                                   rt_preference *wish) {
    const rt_preference before = *wish;
    const rt_kernel *kernel;
    for (unsigned i = 0; (kernel = rt_kernel_candidate(call->code, i)); i++) {
        if (!kernel->prefer || !rt_kernel_allowed(kernel, environment)) continue;
        if (kernel->prefer(call, environment, wish)) return kernel;
        *wish = before;
    }
    return NULL;
}

const rt_kernel *rt_kernel_of(op_code code, const char *name) {
    const rt_kernel *kernel;
    for (unsigned i = 0; (kernel = rt_kernel_candidate(code, i)); i++) {
        if (strcmp(kernel->name, name) == 0) return kernel;
    }
    return NULL;
}

bool rt_kernel_exists(op_code code, const char *name) {
    return rt_kernel_of(code, name) != NULL;
}

bool rt_kernel_allowed(const rt_kernel *kernel, const rt_environment *environment) {
    return !environment->portable_only || (kernel->backend == RT_BACKEND_PORTABLE && !kernel->never_portable);
}

const rt_kernel *rt_kernel_select(const op_call *call, const rt_environment *environment) {
    const rt_kernel *kernel;
    for (unsigned i = 0; (kernel = rt_kernel_candidate(call->code, i)); i++) {
        if (rt_kernel_allowed(kernel, environment) && kernel->accepts(call, environment)) return kernel;
    }
    return NULL;
}

size_t rt_kernel_exhaustions(void) {
    return rt_onednn_exhaustions();
}

const rt_kernel *rt_kernel_find(const char *name) {
    for (int code = OP_CODE_NONE + 1; code < OP_CODE_COUNT; code++) {
        const rt_kernel *kernel;
        for (unsigned i = 0; (kernel = rt_kernel_candidate((op_code)code, i)); i++) {
            if (strcmp(kernel->name, name) == 0) return kernel;
        }
    }
    return NULL;
}

/* Memory from the arena for the outputs that have none. */
static base_status take_outputs(const op_call *call, base_arena *arena, base_report *report) {
    for (uint32_t i = 0; i < call->output_count; i++) {
        op_tensor *output = &call->outputs[i];
        if (output->type.dtype == OP_NONE || output->data) continue;
        size_t padded;
        if (!op_type_bytes(&output->type, &output->bytes) ||
            !base_size_add(output->bytes, 2 * RT_ALIGNMENT, &padded)) {
            return base_fail(report, BASE_INVALID, "output %u is too large", i);
        }
        output->data = rt_arena_aligned(arena, output->bytes);
        if (!output->data) return base_fail_memory(report);
    }
    return BASE_OK;
}

static base_status measure(const op_call *call, const rt_prepared *prepared, void *scratch, base_arena *arena,
                           base_report *report) {
    for (uint32_t i = 0; i < call->output_count; i++) call->outputs[i].data = NULL;
    base_status status = prepared->kernel->measure(prepared, call->inputs, call->outputs, scratch, report);
    return status == BASE_OK ? take_outputs(call, arena, report) : status;
}

base_status rt_kernel_evaluate(const op_call *call, const rt_environment *environment, base_arena *arena,
                               base_report *report) {
    rt_environment portable = *environment;
    portable.portable_only = true;
    portable.texts = arena;
    const rt_kernel *kernel = rt_kernel_select(call, &portable);
    if (!kernel) {
        return base_fail(report, BASE_INVALID, "operator %s has no kernel for these types",
                         op_schema_of(call->code)->name);
    }
    base_status status = kernel->measure ? BASE_OK : take_outputs(call, arena, report);
    if (status != BASE_OK) return status;
    rt_prepared prepared;
    status = rt_kernel_prepare(kernel, call, &portable, arena, &prepared, report);
    if (status == BASE_OK) {
        char *scratch = prepared.scratch_bytes ? rt_arena_aligned(arena, prepared.scratch_bytes) : NULL;
        if (prepared.scratch_bytes && !scratch) status = base_fail_memory(report);
        if (status == BASE_OK && kernel->measure) status = measure(call, &prepared, scratch, arena, report);
        if (status == BASE_OK) status = prepared.run(&prepared, call->inputs, call->outputs, scratch, report);
    }
    rt_kernel_release(&prepared);
    return status;
}

const char *rt_machine_describe(bool portable, char *text, size_t capacity) {
#if defined(__x86_64__)
    const char *processor = "x86_64";
#elif defined(__aarch64__)
    const char *processor = "aarch64";
#else
    const char *processor = "other";
#endif
    char onednn[64] = "";
    if (!portable && !rt_onednn_describe(onednn, sizeof onednn)) return NULL;
    if (onednn[0]) snprintf(text, capacity, "%s %s", processor, onednn);
    else snprintf(text, capacity, "portable");
    return text;
}

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

static const rt_kernel *const portable_kernels[] = {
    [OP_CODE_NONE] = &rt_kernel_none,
#define OP(code, text, domain, since, imin, imax, omin, omax, attributes, inference, in_place, view, flags,  \
           kernel, family)                                                                                   \
    [OP_##code] = OP_CHOSEN(code, &rt_kernel_##kernel),
#include "ir/operators/ops.def"
#undef OP
};

const rt_kernel *rt_kernel_candidate(op_code code, unsigned index) {
    if (code <= OP_CODE_NONE || code >= OP_CODE_COUNT) return NULL;
    const rt_kernel *onednn = rt_onednn_kernel(code);
    if (code == OP_MAX_POOL) { /* four times as fast as oneDNN's */
        if (index == 0) return OP_CHOSEN(MAX_POOL, &rt_kernel_pool_channels);
        index--;
    }
    if (code == OP_AVERAGE_POOL) { /* up to nine times as fast as oneDNN's */
        if (index == 0) return OP_CHOSEN(AVERAGE_POOL, &rt_kernel_pool_channels);
        index--;
    }
    if (code == OP_LRN) { /* twice as fast as oneDNN's in blocks, and far more where channels are innermost */
        if (index == 0) return OP_CHOSEN(LRN, &rt_kernel_lrn);
        return index == 1 ? onednn : NULL;
    }
    if (code == OP_CONV) { /* nearly twice as fast as oneDNN's */
        if (index == 0) return OP_CHOSEN(CONV, &rt_kernel_depthwise);
        /* The only one in 16 bits that reads blocks. */
        if (index == 1) return OP_CHOSEN(CONV, &rt_kernel_half_convolution);
        if (index == 2) return OP_CHOSEN(CONV, &rt_kernel_few_filters);
        /* As fast as oneDNN's, which have to be made first. */
        if (index == 3) return OP_CHOSEN(CONV, &rt_kernel_direct_convolution);
        index -= 4;
    }
    if (code == OP_CONV_TRANSPOSE) { /* as for Conv */
        if (index == 0) return OP_CHOSEN(CONV_TRANSPOSE, &rt_kernel_half_transposed);
        if (index == 1) return OP_CHOSEN(CONV_TRANSPOSE, &rt_kernel_few_filters);
        index -= 2;
    }
    if (code == OP_MATMUL || code == OP_GEMM) { /* where they have a wish, they are faster than others */
        /* Asked for by an attribute; then it is wished for before the next. */
        if (index == 0)
            return code == OP_MATMUL ? OP_CHOSEN(MATMUL, &rt_kernel_compressed_product)
                                     : OP_CHOSEN(GEMM, &rt_kernel_compressed_product);
        if (index == 1)
            return code == OP_MATMUL ? OP_CHOSEN(MATMUL, &rt_kernel_block_float_product)
                                     : OP_CHOSEN(GEMM, &rt_kernel_block_float_product);
        index -= 2;
        if (index == 0)
            return code == OP_MATMUL ? OP_CHOSEN(MATMUL, &rt_kernel_packed_product)
                                     : OP_CHOSEN(GEMM, &rt_kernel_packed_product);
        if (index == 1)
            return code == OP_MATMUL ? OP_CHOSEN(MATMUL, &rt_kernel_packed_halves)
                                     : OP_CHOSEN(GEMM, &rt_kernel_packed_halves);
        index -= 2;
    }
    if (code == OP_GATHER) { /* asked for by an attribute */
        if (index == 0) return OP_CHOSEN(GATHER, &rt_kernel_packed_gather);
        index--;
    }
    if (code == OP_MATMUL_BITS) { /* faster, above all with a few rows */
        if (index == 0) return OP_CHOSEN(MATMUL_BITS, &rt_kernel_packed_bits);
        index--;
    }
    if (code == OP_LSTM || code == OP_GRU) {
        if (index == 0)
            return code == OP_LSTM ? OP_CHOSEN(LSTM, &rt_kernel_packed_recurrent)
                                   : OP_CHOSEN(GRU, &rt_kernel_packed_recurrent);
        index--;
    }
    if (onednn) {
        if (index == 0) return onednn;
        index--;
    }
    const rt_kernel *portable = portable_kernels[code];
    if (index == 0) return portable != &rt_kernel_none ? portable : NULL;
    if (index == 1 && code == OP_MAX_POOL) return OP_CHOSEN(MAX_POOL, &rt_kernel_half_pool);
    if (index == 1 && code == OP_AVERAGE_POOL) return OP_CHOSEN(AVERAGE_POOL, &rt_kernel_half_pool);
    if (index == 1 && code == OP_GLOBAL_AVERAGE_POOL)
        return OP_CHOSEN(GLOBAL_AVERAGE_POOL, &rt_kernel_half_pool);
    if (index == 1 && code == OP_GLOBAL_MAX_POOL) return OP_CHOSEN(GLOBAL_MAX_POOL, &rt_kernel_half_pool);
    if (index == 1 && code == OP_REDUCE_SUM) return OP_CHOSEN(REDUCE_SUM, &rt_kernel_sum_bytes);
    /* Chosen by what it costs. */
    if (index == 1 && code == OP_MATMUL) return OP_CHOSEN(MATMUL, &rt_kernel_fixed_product);
    if (index == 1 && code == OP_GEMM) return OP_CHOSEN(GEMM, &rt_kernel_fixed_product);
    if (index == 2 && code == OP_MATMUL) return OP_CHOSEN(MATMUL, &rt_kernel_strassen_product);
    if (index == 2 && code == OP_GEMM) return OP_CHOSEN(GEMM, &rt_kernel_strassen_product);
    if (code != OP_CONV) return NULL;
    return index == 1   ? OP_CHOSEN(CONV, &rt_kernel_winograd)
           : index == 2 ? OP_CHOSEN(CONV, &rt_kernel_winograd_transforming)
           : index == 3 ? OP_CHOSEN(CONV, &rt_kernel_pointwise)
           : index == 4 ? OP_CHOSEN(CONV, &rt_kernel_fixed_convolution)
           : index == 5 ? OP_CHOSEN(CONV, &rt_kernel_window_convolution)
                        : NULL;
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
    return !environment->portable_only || kernel->backend == RT_BACKEND_PORTABLE;
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

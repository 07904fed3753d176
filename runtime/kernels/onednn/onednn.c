/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.c: the table of kernels that run on oneDNN, and what the library is. */
#include "runtime/kernels/onednn/onednn.h"
#include "runtime/kernels/onednn/boundary.h"
#include "runtime/kernels/onednn/primitive.h"
#include <stdio.h>

const rt_kernel *rt_onednn_kernel(op_code code) {
    switch (code) {
    case OP_CONV:
    case OP_CONV_TRANSPOSE:
        return &rt_onednn_convolution;
    case OP_MAX_POOL:
    case OP_AVERAGE_POOL:
    case OP_GLOBAL_MAX_POOL:
    case OP_GLOBAL_AVERAGE_POOL:
        return &rt_onednn_pool;
    case OP_BATCH_NORMALIZATION:
        return &rt_onednn_batch_normalization;
    case OP_LRN:
        return &rt_onednn_lrn;
    case OP_MATMUL:
        return &rt_onednn_matmul;
    case OP_GEMM:
        return &rt_onednn_gemm;
    case OP_REORDER:
        return &rt_onednn_reorder;
    case OP_RNN:
    case OP_LSTM:
        return &rt_onednn_recurrent;
    default:
        return NULL;
    }
}

size_t rt_onednn_exhaustions(void) {
    return rt_dnnl_exhaustions();
}

static const char *instruction_set(dnnl_cpu_isa_t isa) {
    switch (isa) {
    case dnnl_cpu_isa_sse41:
        return "sse41";
    case dnnl_cpu_isa_avx:
        return "avx";
    case dnnl_cpu_isa_avx2:
        return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
        return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core:
        return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
        return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx:
        return "avx512_core_amx";
    default:
        return "generic";
    }
}

bool rt_onednn_describe(char *text, size_t capacity) {
    const dnnl_version_t *version = dnnl_version();
    dnnl_cpu_isa_t isa;
    if (rt_dnnl_get_effective_cpu_isa(&isa) != dnnl_success) return false;
    snprintf(text, capacity, "onednn-%d.%d.%d %s", version->major, version->minor, version->patch,
             instruction_set(isa));
    return true;
}

/* onednn.c: the table of kernels that run on oneDNN, and what the library is. */
#include "runtime/onednn/onednn.h"
#include <dnnl.h>
#include <stdio.h>

const rt_kernel *rt_onednn_kernel(op_code code) {
    (void)code;
    return NULL;
}

static const char *instruction_set(void) {
    switch (dnnl_get_effective_cpu_isa()) {
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

void rt_onednn_describe(char *text, size_t capacity) {
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, capacity, "onednn-%d.%d.%d %s", version->major, version->minor, version->patch,
             instruction_set());
}

/* infer_pending.c: shape functions that have not been written yet. Goes when the last of them is. */
#include "ir/op.h"

#define PENDING(name)                                                                       \
    __attribute__((weak)) base_status op_infer_##name(op_call *call, base_report *report) {  \
        (void)call;                                                                          \
        return base_fail(report, BASE_INVALID, "shape inference of this operator is not available"); \
    }

PENDING(batch_normalization)
PENDING(convolution)
PENDING(gemm)
PENDING(global_pool)
PENDING(matmul)
PENDING(pool)
PENDING(reorder)
PENDING(same_shape)

/* SPDX-License-Identifier: Apache-2.0 */
/* inverse.c: inverses of square matrices, by Gauss-Jordan elimination with partial pivoting, in double. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <math.h>

static inline void swap_rows(double *m, int64_t a, int64_t b, int64_t n) {
    for (int64_t k = 0; k < n && a != b; k++) {
        const double kept = m[a * n + k];
        m[a * n + k] = m[b * n + k];
        m[b * n + k] = kept;
    }
}

/* `to` becomes the inverse of m, which becomes the identity. Without an inverse, numbers that are none. */
RT_CLONES static void invert(double *restrict m, double *restrict to, int64_t n) {
    for (int64_t i = 0; i < n * n; i++) to[i] = i % (n + 1) == 0;
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;
        for (int64_t r = c + 1; r < n; r++)
            if (fabs(m[r * n + c]) > fabs(m[pivot * n + c])) pivot = r;
        swap_rows(m, pivot, c, n);
        swap_rows(to, pivot, c, n);
        const double by = m[c * n + c];
        for (int64_t k = 0; k < n; k++) m[c * n + k] /= by;
        for (int64_t k = 0; k < n; k++) to[c * n + k] /= by;
        for (int64_t r = 0; r < n; r++) {
            const double times = m[r * n + c];
            if (r == c || times == 0) continue;
            RT_VECTOR for (int64_t k = 0; k < n; k++) m[r * n + k] -= times * m[c * n + k];
            RT_VECTOR for (int64_t k = 0; k < n; k++) to[r * n + k] -= times * to[c * n + k];
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)prepared;
    (void)report;
    const op_shape *shape = &inputs[0].type.shape;
    const op_dtype dtype = inputs[0].type.dtype;
    const int64_t n = shape->dims[shape->rank - 1];
    int64_t count = 0;
    double *m = scratch, *to = m + n * n;
    op_shape_elements(shape, &count);
    for (int64_t from = 0; from < count; from += n * n) {
        rt_elements_load(dtype, m, inputs[0].data, from, n * n);
        invert(m, to, n);
        rt_elements_store(dtype, outputs[0].data, from, to, n * n);
    }
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    (void)arena;
    const op_shape *shape = &call->inputs[0].type.shape;
    const size_t n = (size_t)shape->dims[shape->rank - 1];
    size_t square;
    if (!base_size_multiply(n, n, &square) ||
        !base_size_multiply(square, 2 * sizeof(double), &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "a matrix of %zu rows is too large", n);
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_inverse = {
    .name = "portable.inverse", .accepts = rt_accepts_any_row_major, .prepare = prepare};

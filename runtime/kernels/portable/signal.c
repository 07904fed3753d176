/* SPDX-License-Identifier: Apache-2.0 */
/* signal.c: MelWeightMatrix, computed in double. */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>
#include <math.h>

static bool is_real(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype);
}

static int64_t scalar_at(const op_tensor *tensor) {
    return tensor->type.dtype == OP_INT64 ? *(const int64_t *)tensor->data : *(const int32_t *)tensor->data;
}

static double mel_of(double hertz) {
    return 2595 * log10(1 + hertz / 700);
}

static base_status run_mel(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    (void)prepared;
    (void)scratch;
    const int64_t rows = outputs[0].type.shape.dims[0], columns = outputs[0].type.shape.dims[1];
    const int64_t length = scalar_at(&inputs[1]), rate = scalar_at(&inputs[2]);
    const double low = mel_of(rt_element_load(inputs[3].type.dtype, inputs[3].data, 0)),
                 high = mel_of(rt_element_load(inputs[4].type.dtype, inputs[4].data, 0));
    const op_dtype dtype = outputs[0].type.dtype;
    if (scalar_at(&inputs[0]) != columns || length / 2 + 1 != rows || rate < 1)
        return base_fail(report, BASE_INVALID,
                         "%" PRId64 " bins of %" PRId64 " samples at %" PRId64 " Hz were not planned",
                         scalar_at(&inputs[0]), length, rate);
    for (int64_t c = 0; c < columns; c++) {
        double edges[3]; /* whole numbers; far away where frequencies are */
        for (int k = 0; k < 3; k++) {
            double mel = low + (double)(c + k) * (high - low) / (double)(columns + 2);
            edges[k] = floor(((double)length + 1) * (700 * (pow(10, mel / 2595) - 1)) / (double)rate);
        }
        for (int64_t r = 0; r < rows; r++) {
            double value = 0;
            const double at = (double)r;
            if (edges[1] == edges[0] && at == edges[1]) value = 1;
            else if (at >= edges[0] && at <= edges[1] && edges[1] > edges[0])
                value = (at - edges[0]) / (edges[1] - edges[0]);
            if (at >= edges[1] && at < edges[2] && edges[2] > edges[1])
                value = (edges[2] - at) / (edges[2] - edges[1]);
            if (is_real(dtype)) rt_element_store(dtype, outputs[0].data, r * columns + c, value);
            else rt_integer_store(dtype, outputs[0].data, r * columns + c, (uint64_t)value);
        }
    }
    return BASE_OK;
}

static base_status prepare_mel(const op_call *call, const rt_environment *environment, base_arena *arena,
                               rt_prepared *prepared, base_report *report) {
    (void)call;
    (void)environment;
    (void)arena;
    (void)report;
    prepared->run = run_mel;
    return BASE_OK;
}

const rt_kernel rt_kernel_mel_weight_matrix = {
    .name = "portable.mel_weight_matrix", .accepts = rt_accepts_any_row_major, .prepare = prepare_mel};

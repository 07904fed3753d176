/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c: Gemm in portable C: Y = activation(alpha * A' B' + beta * C). */
#include "runtime/kernels/portable/product.h"

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const rt_product *product = prepared->state;
    rt_product_run(product, prepared->threads, inputs[0].data, inputs[1].data,
                   product->addend ? inputs[2].data : NULL, outputs[0].data, scratch);
    return BASE_OK;
}

void rt_gemm_read(const op_call *call, rt_product *product) {
    const op_shape *a = &call->inputs[0].type.shape, *b = &call->inputs[1].type.shape;
    const bool turned_a = op_attribute_integer(&call->attributes, "transA", 0) != 0;
    const bool turned_b = op_attribute_integer(&call->attributes, "transB", 0) != 0;
    *product = (rt_product){.dtype = call->inputs[0].type.dtype,
                            .rows = a->dims[turned_a ? 1 : 0],
                            .depth = a->dims[turned_a ? 0 : 1],
                            .columns = b->dims[turned_b ? 0 : 1],
                            .batches = 1,
                            .a_row = turned_a ? 1 : a->dims[1],
                            .a_depth = turned_a ? a->dims[1] : 1,
                            .b_depth = turned_b ? 1 : b->dims[1],
                            .b_column = turned_b ? b->dims[1] : 1,
                            .alpha = (double)op_attribute_real(&call->attributes, "alpha", 1),
                            .beta = (double)op_attribute_real(&call->attributes, "beta", 1)};
    rt_activation_read(&call->attributes, &product->activation);
    product->addend = op_input_present(call, 2);
    product->addend_rank = 1;
    product->addend_dims[0] = product->rows;
    if (product->addend) {
        const op_shape *c = &call->inputs[2].type.shape;
        const int64_t width = c->rank ? c->dims[c->rank - 1] : 1;
        product->addend_column = width == 1 ? 0 : 1;
        product->addend_strides[0] = c->rank == 2 && c->dims[0] != 1 ? width : 0;
    }
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_product *product = BASE_NEW(arena, rt_product);
    if (!product) return base_fail_memory(report);
    rt_gemm_read(call, product);
    rt_product_allow(product, environment);
    prepared->state = product;
    prepared->run = run;
    prepared->scratch_bytes = rt_product_scratch(product, environment->threads);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    return rt_kernel_matmul.accepts(call, environment);
}

const rt_kernel rt_kernel_gemm = {.name = "portable.gemm", .accepts = accepts, .prepare = prepare};

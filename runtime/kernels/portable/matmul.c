/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.c: MatMul with numpy's semantics, in portable C. Input 2, which only our own passes set, is a bias
 * that broadcasts to the result; they also set ouro.left and ouro.right, by which an operand is read with its axes in
 * another order. */
#include "runtime/kernels/portable/product.h"

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    rt_activation activation;
    if (call->inputs[1].type.dtype != call->inputs[0].type.dtype) return false; /* packed_product.c */
    if (!rt_accepts_row_major(call) || !rt_activation_read(&call->attributes, &activation)) return false;
    switch (call->inputs[0].type.dtype) {
    case OP_FLOAT:
    case OP_DOUBLE:
    case OP_FLOAT16:
    case OP_BFLOAT16:
        return true;
    case OP_INT32:
    case OP_INT64:
    case OP_UINT32:
    case OP_UINT64:
        return activation.kind == RT_ACTIVATION_NONE;
    default:
        return false;
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const rt_product *product = prepared->state;
    rt_product_run(product, prepared->threads, inputs[0].data, inputs[1].data,
                   product->addend ? inputs[2].data : NULL, outputs[0].data, scratch);
    return BASE_OK;
}

static void run_rows(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs, int member,
                     int64_t begin, int64_t end) {
    (void)member;
    const rt_product *product = prepared->state;
    rt_product_run_rows(product, inputs[0].data, inputs[1].data, product->addend ? inputs[2].data : NULL,
                        outputs[0].data, begin, end);
}

static rt_rows rows_of(const rt_product *product) {
    const int64_t count = product->rows * product->batches;
    if (!rt_product_has_rows(product) || count <= 0) return (rt_rows){0};
    return (rt_rows){.run = run_rows, .count = count, .inputs = 1, .work = count * product->depth};
}

/* Strides of the stack dimensions of a matrix operand, aligned to the result's. */
static void batch_strides(const op_shape *shape, const int64_t *given, int32_t own, int32_t rank,
                          int64_t *strides) {
    for (int32_t i = own - 1, at = rank - 1; at >= 0; i--, at--)
        strides[at] = i < 0 || shape->dims[i] == 1 ? 0 : given[i];
}

void rt_matmul_read(const op_call *call, rt_product *product) {
    op_shape left, right;
    int64_t a_strides[OP_MAX_RANK], b_strides[OP_MAX_RANK];
    (void)op_matmul_operand(call, 0, &left, a_strides);
    (void)op_matmul_operand(call, 1, &right, b_strides);
    const op_shape *a = &left, *b = &right, *y = &call->outputs[0].type.shape;
    const bool row = a->rank == 1, column = b->rank == 1;
    *product = (rt_product){.dtype = call->inputs[0].type.dtype, .alpha = 1, .beta = 1, .batches = 1};
    rt_activation_read(&call->attributes, &product->activation);
    product->rows = row ? 1 : a->dims[a->rank - 2];
    product->depth = a->dims[a->rank - 1];
    product->columns = column ? 1 : b->dims[b->rank - 1];
    product->a_row = product->rows == 1 ? product->depth : a_strides[a->rank - 2];
    product->a_depth = a_strides[a->rank - 1];
    product->b_depth = b_strides[column ? 0 : b->rank - 2];
    product->b_column = column ? 1 : b_strides[b->rank - 1];
    product->batch_rank = y->rank - !row - !column;
    for (int32_t i = 0; i < product->batch_rank; i++) {
        product->batch_dims[i] = y->dims[i];
        product->batches *= y->dims[i];
    }
    batch_strides(a, a_strides, row ? 0 : a->rank - 2, product->batch_rank, product->a_batch);
    batch_strides(b, b_strides, column ? 0 : b->rank - 2, product->batch_rank, product->b_batch);
    /* The dimensions of Y but for the columns, and the bias along them. */
    product->addend = op_input_present(call, 2);
    product->addend_rank = product->batch_rank + 1;
    for (int32_t i = 0; i < product->batch_rank; i++) product->addend_dims[i] = y->dims[i];
    product->addend_dims[product->batch_rank] = product->rows;
    if (product->addend) {
        const op_shape *bias = &call->inputs[2].type.shape;
        int64_t stride = 1;
        int32_t at =
            product->addend_rank; /* walks batch..., rows, columns from the last one; at == rank: columns */
        if (column) at--;
        for (int32_t i = bias->rank - 1; i >= 0; i--) {
            if (at == product->batch_rank && row) at--;
            const int64_t own = bias->dims[i] == 1 ? 0 : stride;
            if (at == product->addend_rank) product->addend_column = own;
            else product->addend_strides[at] = own;
            stride *= bias->dims[i];
            at--;
        }
    }
    /* One matrix on the right for a dense stack on the left: the stack is one tall matrix. */
    bool shared = !row, dense = product->a_row == product->depth && product->a_depth == 1;
    int64_t stride = product->rows * product->depth;
    for (int32_t i = product->batch_rank - 1; i >= 0; i--) {
        shared = shared && product->b_batch[i] == 0;
        dense = dense && (product->a_batch[i] == stride || product->batch_dims[i] == 1);
        stride *= product->batch_dims[i];
    }
    if (shared && dense) {
        product->rows *= product->batches;
        product->batches = 1;
        product->batch_rank = 0;
    }
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_product *product = BASE_NEW(arena, rt_product);
    if (!product) return base_fail_memory(report);
    rt_matmul_read(call, product);
    rt_product_allow(product, environment);
    prepared->state = product;
    prepared->run = run;
    prepared->rows = rows_of(product);
    prepared->scratch_bytes = rt_product_scratch(product, environment->threads);
    return BASE_OK;
}

/* A cache that grows by a position in each run is another shape each time. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    rt_product *product = prepared->state;
    if (!accepts(call, environment)) return false;
    rt_matmul_read(call, product);
    rt_product_allow(product, environment);
    prepared->rows = rows_of(product);
    prepared->scratch_bytes = rt_product_scratch(product, environment->threads);
    return true;
}

const rt_kernel rt_kernel_matmul = {
    .name = "portable.matmul", .accepts = accepts, .prepare = prepare, .adapt = adapt};

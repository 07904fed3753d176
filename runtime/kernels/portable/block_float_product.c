/* SPDX-License-Identifier: Apache-2.0 */
/* block_float_product.c: MatMul and Gemm in float with a constant right matrix in block floating point (block_float.h), where
 * "ouro.weights_bits" asks for it (passes/layout/block_float_weights.c).
 *
 * Few rows are all multiplied by a group of weights while it is in registers. More are as many passes over some columns, whose weights a near cache keeps
 * meanwhile: that takes as long as tiles over floats take. Sums are added in an order that follows from the shapes alone. There is no way back from these
 * weights to the model's (`unpack`), so that no other kernel is weighed against this one: what was lost is lost.
 */
#include "runtime/kernels/portable/block_float.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/packed_product.h"
#include <string.h>

enum {
    /* Such a matrix takes less than floats do, by which other kernels tell theirs. */
    LEAST_DEPTH = 16,
    PASS_BYTES = 1 << 18 /* of weights that a near cache keeps for the next pass */
};

typedef struct block_float_product {
    rt_packed_product product;
    rt_block_floats form; /* without data */
    size_t bytes;
} block_float_product;

static bool read_product(const op_call *call, block_float_product *of) {
    if (!rt_packed_product_read(call, &of->product)) return false;
    const rt_packed_product *product = &of->product;
    return product->dtype == OP_FLOAT && product->stored == OP_FLOAT && product->alpha == 1 &&
           product->depth >= LEAST_DEPTH &&
           rt_block_floats_asked(&call->attributes, product->depth, product->columns, &of->form, &of->bytes);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    block_float_product of;
    (void)environment;
    return read_product(call, &of) && call->inputs[1].type.layout == OP_LAYOUT_PACKED &&
           call->inputs[1].type.packed_bytes == of.bytes;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    block_float_product of;
    /* In narrower vectors, making floats of such numbers takes longer than reading floats. */
    if (!rt_has_wide_vectors(environment) || !read_product(call, &of) ||
        !rt_packed_product_wanted(call, environment, &of.product))
        return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    preference->inputs[1] = OP_LAYOUT_PACKED;
    preference->packed_bytes[1] = of.bytes;
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    block_float_product of;
    (void)environment;
    if (input != 1 || !read_product(call, &of))
        return base_fail(report, BASE_INVALID, "input %u of this product is not packed", input);
    const rt_code_matrix matrix = rt_packed_product_matrix(&of.product, source->data);
    if (rt_block_floats_pack(of.form.bits, &matrix, packed)) return BASE_OK;
    return base_fail(report, BASE_INVALID, "these weights have no place in block floating point");
}

typedef struct job {
    const rt_packed_product *product;
    rt_block_floats weights;
    const float *x, *bias;
    float *y;
} job;

static void run_few(const job *j, const rt_packed_part *part) {
    const rt_packed_product *product = j->product;
    const int64_t first = part->first / RT_PANEL, columns = part->end - part->first,
                  whole = columns / RT_PANEL, rest = columns % RT_PANEL, rows = part->rows;
    const float *x[RT_BLOCK_FLOAT_ROWS] = {NULL};
    float *y[RT_BLOCK_FLOAT_ROWS] = {NULL}, *ends[RT_BLOCK_FLOAT_ROWS] = {NULL};
    float last[RT_BLOCK_FLOAT_ROWS][RT_PANEL];
    for (int64_t r = 0; r < rows; r++) {
        x[r] = j->x + (part->row + r) * product->depth;
        y[r] = j->y + (part->row + r) * product->columns + part->first;
        ends[r] = last[r];
    }
    rt_block_floats_rows(&j->weights, x, rows, first, whole, y);
    if (rest) rt_block_floats_rows(&j->weights, x, rows, first + whole, 1, ends);
    for (int64_t r = 0; r < rows; r++) {
        if (rest) memcpy(y[r] + whole * RT_PANEL, last[r], (size_t)rest * sizeof(float));
        rt_packed_product_finish(product, j->bias, part->first, columns, y[r]);
    }
}

/* More rows than a few: weights are read for some of them, and then for the next from a near cache. */
static void run_many(const job *j, const rt_packed_part *part) {
    const int64_t panel_bytes = j->product->depth * RT_PANEL * j->weights.bits / 8,
                  pairs = PASS_BYTES / (2 * panel_bytes), each = 2 * RT_PANEL * (pairs ? pairs : 1);
    for (int64_t column = part->first; column < part->end; column += each) {
        const int64_t left = part->end - column, columns = left < each ? left : each;
        for (int64_t row = 0, some; row < part->rows; row += some) {
            /* As many in each pass, give or take one. */
            const int64_t passes = (part->rows - row + RT_BLOCK_FLOAT_ROWS - 1) / RT_BLOCK_FLOAT_ROWS;
            some = (part->rows - row + passes - 1) / passes;
            const rt_packed_part own = {
                .row = part->row + row, .rows = some, .first = column, .end = column + columns};
            run_few(j, &own);
        }
    }
}

/* The columns of few rows are shared out: each thread reads weights that no other one does. */
static void run_member(void *context, int member, int members) {
    const job *j = context;
    const rt_packed_part part = rt_packed_product_part(j->product, member, members);
    if (part.first >= part.end) return;
    if (part.rows <= RT_BLOCK_FLOAT_ROWS) run_few(j, &part);
    else run_many(j, &part);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const block_float_product *of = prepared->state;
    const rt_packed_product *product = &of->product;
    job j = {.product = product,
             .weights = of->form,
             .x = inputs[0].data,
             .bias = product->bias != RT_BIAS_NONE ? inputs[2].data : NULL,
             .y = outputs[0].data};
    j.weights.panels = inputs[1].data;
    const double work = (double)product->rows * (double)product->depth * (double)product->columns;
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &j);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    block_float_product *state = BASE_NEW(arena, block_float_product);
    if (!state) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_product(call, state) || state->product.rows < 0)
        return base_fail(report, BASE_INVALID, "this is no product with weights in block floating point");
    prepared->state = state;
    prepared->run = state->product.rows ? run : rt_run_nothing;
    return BASE_OK;
}

const rt_kernel rt_kernel_block_float_product = {.name = "portable.block_float_product",
                                                 .accepts = accepts,
                                                 .prefer = prefer,
                                                 .pack = pack,
                                                 .only_packed = true,
                                                 .prepare = prepare};

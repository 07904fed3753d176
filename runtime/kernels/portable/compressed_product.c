/* SPDX-License-Identifier: Apache-2.0 */
/* compressed_product.c: MatMul and Gemm of one row in float with a constant right matrix in codes of 28 bits (float_codes.h), where
 * "ouro.weights_bits" asks for them (passes/layout/compress_weights.c).
 *
 * The results are those of packed_product.c, to the last bit: weights are what they were, and sums are added in the same order. More rows
 * than one are faster in floats on every machine that was measured: there arithmetic waits for the codes, and not for memory.
 */
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/float_codes.h"
#include "runtime/kernels/portable/packed_product.h"
#include <string.h>

enum {
    BLOCK_DEPTH = 128, /* of weights that become floats at a time: a multiple of RT_CODE_DEPTH */
    /* After the codes: tells these weights from those that other kernels pack. */
    MARK_BYTES = RT_ALIGNMENT
};

static bool read_product(const op_call *call, rt_packed_product *product) {
    return op_attribute_integer(&call->attributes, "ouro.weights_bits", 0) == RT_CODE_BITS &&
           rt_packed_product_read(call, product) && product->dtype == OP_FLOAT &&
           product->stored == OP_FLOAT && product->alpha == 1 && product->rows == 1;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_packed_product product;
    (void)environment;
    return read_product(call, &product) && call->inputs[1].type.layout == OP_LAYOUT_PACKED &&
           call->inputs[1].type.packed_bytes >= MARK_BYTES &&
           rt_codes_may_take(product.depth, product.columns, call->inputs[1].type.packed_bytes - MARK_BYTES);
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    rt_packed_product product;
    /* In narrower vectors, making floats of codes takes longer than reading floats. */
    if (!rt_has_wide_vectors(environment)) return false;
    if (!read_product(call, &product) || !rt_packed_product_wanted(call, environment, &product)) return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    preference->inputs[1] = OP_LAYOUT_PACKED;
    const rt_code_matrix matrix = rt_packed_product_matrix(&product, call->inputs[1].data);
    return rt_codes_bytes(&matrix, &preference->packed_bytes[1]) &&
           base_size_add(preference->packed_bytes[1], MARK_BYTES, &preference->packed_bytes[1]);
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    rt_packed_product product;
    (void)environment;
    if (input != 1 || !read_product(call, &product))
        return base_fail(report, BASE_INVALID, "input %u of this product is not packed", input);
    const rt_code_matrix matrix = rt_packed_product_matrix(&product, source->data);
    rt_codes_pack(&matrix, call->inputs[1].type.packed_bytes - MARK_BYTES, packed);
    return BASE_OK;
}

/* What `pack` did, back. */
static base_status unpack(const op_call *call, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *row_major, base_report *report) {
    rt_packed_product product;
    float *to = row_major;
    if (input != 1 || !read_product(call, &product) || !accepts(call, environment))
        return base_fail(report, BASE_INVALID, "input %u of this product is not in codes", input);
    const rt_codes codes =
        rt_codes_view(product.depth, product.columns, packed->bytes - MARK_BYTES, packed->data);
    for (int64_t column = 0; column < product.columns; column += RT_PANEL) {
        const int64_t rest = product.columns - column, width = rest < RT_PANEL ? rest : RT_PANEL;
        for (int64_t from = 0; from < product.depth; from += BLOCK_DEPTH) {
            _Alignas(RT_ALIGNMENT) float weights[BLOCK_DEPTH * RT_PANEL];
            const int64_t depth = product.depth - from < BLOCK_DEPTH ? product.depth - from : BLOCK_DEPTH;
            rt_codes_decode(&codes, column / RT_PANEL, from, depth, weights);
            for (int64_t k = 0; k < depth; k++)
                for (int64_t j = 0; j < width; j++)
                    to[(from + k) * product.b_depth + (column + j) * product.b_column] =
                        weights[k * RT_PANEL + j];
        }
    }
    return BASE_OK;
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    (void)scratch_limit;
    if (!accepts(call, environment)) return false;
    const size_t bytes = call->inputs[1].type.packed_bytes;
    *cost = (rt_cost){.seconds = rt_distant_seconds((double)bytes, environment), .packed_bytes = bytes};
    return true;
}

typedef struct compressed {
    rt_packed_product product;
    size_t bytes; /* of the codes */
} compressed;

typedef struct job {
    const rt_packed_product *product;
    rt_codes codes;
    const float *x, *bias;
    float *y;
} job;

/* The columns are shared out: each thread reads weights that no other one does. */
static void run_member(void *context, int member, int members) {
    const job *j = context;
    const rt_packed_part part = rt_packed_product_part(j->product, member, members);
    if (part.first >= part.end) return;
    const int64_t first = part.first / RT_PANEL, columns = part.end - part.first, whole = columns / RT_PANEL,
                  rest = columns % RT_PANEL;
    rt_codes_row(&j->codes, j->x, first, whole, j->y + part.first);
    if (rest) {
        float last[RT_PANEL];
        rt_codes_row(&j->codes, j->x, first + whole, 1, last);
        memcpy(j->y + part.end - rest, last, (size_t)rest * sizeof *last);
    }
    rt_packed_product_finish(j->product, j->bias, part.first, columns, j->y + part.first);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const compressed *state = prepared->state;
    const rt_packed_product *product = &state->product;
    job j = {.product = product,
             .codes = rt_codes_view(product->depth, product->columns, state->bytes, inputs[1].data),
             .x = inputs[0].data,
             .bias = product->bias != RT_BIAS_NONE ? inputs[2].data : NULL,
             .y = outputs[0].data};
    const double work = (double)product->depth * (double)product->columns;
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &j);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    compressed *state = BASE_NEW(arena, compressed);
    if (!state) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_product(call, &state->product))
        return base_fail(report, BASE_INVALID, "this is no product of one row with weights in codes");
    state->bytes = call->inputs[1].type.packed_bytes - MARK_BYTES;
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_compressed_product = {.name = "portable.compressed_product",
                                                .accepts = accepts,
                                                .prefer = prefer,
                                                .pack = pack,
                                                .unpack = unpack,
                                                .estimate = estimate,
                                                .only_packed = true,
                                                .prepare = prepare};

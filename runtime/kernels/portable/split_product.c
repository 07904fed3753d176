/* SPDX-License-Identifier: Apache-2.0 */
/* split_product.c: MatMul and Gemm of many rows in float with a constant right matrix, in tiles of bfloat16 parts (split_bands.c), on machines that
 * have such tiles: 0.6 to 0.9 of the time of vectors, for scratch. Chosen by what it costs, in place of portable.packed_product.
 */
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/packed_product.h"
#include "runtime/kernels/portable/split_bands.h"

enum {
    FEWEST_ROWS = 24, /* fewer wait for the weights */
    FEWEST_COLUMNS = 16,
    FEWEST_DEPTH = 32,
    /* After the weights: tells them from those that other kernels pack. */
    MARK_BYTES = 2 * RT_ALIGNMENT
};

/* The product as an image one point wide, whose rows are its points. */
static bool read_shape(const op_call *call, const rt_environment *environment, rt_packed_product *product,
                       rt_split_shape *s) {
    if (!rt_has_wide_vectors(environment) || !rt_split_wanted()) return false;
    if (!rt_packed_product_read(call, product) || product->dtype != OP_FLOAT || product->stored != OP_FLOAT ||
        product->rows < FEWEST_ROWS || product->columns < FEWEST_COLUMNS || product->depth < FEWEST_DEPTH)
        return false;
    if (product->bias == RT_BIAS_ONE || (product->bias == RT_BIAS_COLUMNS && product->beta != 1))
        return false;
    *s = (rt_split_shape){.layout = OP_LAYOUT_NHWC,
                          .matrix = true,
                          .images = 1,
                          .channels = product->depth,
                          .filters = product->columns,
                          .input = {product->rows, 1},
                          .output = {product->rows, 1},
                          .kernel = {1, 1},
                          .stride = {1, 1},
                          .dilation = {1, 1},
                          .bias = product->bias == RT_BIAS_COLUMNS,
                          .activation = product->activation};
    return rt_split_complete(s, call, environment);
}

static size_t packed_bytes(const rt_split_shape *s) {
    return rt_split_packed_bytes(s) + MARK_BYTES;
}

static bool is_accepted(const op_call *call, const rt_environment *environment, rt_split_shape *shape) {
    const op_type *weights = &call->inputs[1].type;
    rt_packed_product product;
    return weights->layout == OP_LAYOUT_PACKED && read_shape(call, environment, &product, shape) &&
           weights->packed_bytes == packed_bytes(shape);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_split_shape shape;
    return is_accepted(call, environment, &shape);
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    rt_packed_product product;
    rt_split_shape shape;
    if (!read_shape(call, environment, &product, &shape)) return false;
    *cost = (rt_cost){.packed_bytes = packed_bytes(&shape), .known_only = true};
    return rt_split_estimate(&shape, environment, scratch_limit, cost);
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    rt_packed_product product;
    rt_split_shape shape;
    if (input != 1 || !read_shape(call, environment, &product, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this product is not in tiles", input);
    const rt_split_weights weights = {
        .data = plain->data, .filter = product.b_column, .channel = product.b_depth, .scale = product.alpha};
    rt_split_pack(&shape, &weights, packed);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_split_shape *shape = BASE_NEW(arena, rt_split_shape);
    if (!shape) return base_fail_memory(report);
    if (!is_accepted(call, environment, shape))
        return base_fail(report, BASE_INVALID, "this product has no split form on this machine");
    return rt_split_prepare(shape, environment, arena, prepared, report);
}

const rt_kernel rt_kernel_split_product = {.name = "portable.split_product",
                                           .accepts = accepts,
                                           .estimate = estimate,
                                           .pack = pack,
                                           .prepare = prepare};

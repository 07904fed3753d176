/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_product.c: MatMul and Gemm in float and float16 with a constant right matrix, in fixed point in tiles of bytes (fixed_bands.h), on
 * machines that have such tiles. Any number of rows runs on the same weights. Chosen by what it costs, in place of portable.packed_product and
 * portable.packed_halves.
 */
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/fixed_bands.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/packed_product.h"

enum {
    FEWEST_ROWS =
        8, /* fewer take as long as their weights, which take less in fixed point, where these are not near */
    FEWEST_COLUMNS = 16,
    FEWEST_DEPTH = 32
};

/* A matrix of one image, whose points are its rows. */
static bool read_shape(const op_call *call, const rt_environment *environment, rt_packed_product *product,
                       rt_fixed_shape *s) {
    if (!rt_has_wide_vectors(environment) || !rt_fixed_wanted()) return false;
    if (!rt_packed_product_read(call, product) ||
        (product->dtype != OP_FLOAT && product->dtype != OP_FLOAT16) || product->stored != product->dtype ||
        product->columns < FEWEST_COLUMNS || product->depth < FEWEST_DEPTH)
        return false;
    if (product->bias == RT_BIAS_ONE || (product->bias == RT_BIAS_COLUMNS && product->beta != 1))
        return false;
    *s = (rt_fixed_shape){.layout = OP_LAYOUT_NHWC,
                          .matrix = true,
                          .digits = product->dtype == OP_FLOAT ? RT_FIXED_DIGITS : RT_FIXED_HALF_DIGITS,
                          .images = 1,
                          .points = product->rows,
                          .depth = product->depth,
                          .columns = product->columns,
                          .bias = product->bias == RT_BIAS_COLUMNS,
                          .activation = product->activation};
    return rt_fixed_complete(s, call, environment);
}

static bool is_accepted(const op_call *call, const rt_environment *environment, rt_fixed_shape *shape) {
    const op_type *weights = &call->inputs[1].type;
    rt_packed_product product;
    return weights->layout == OP_LAYOUT_PACKED && read_shape(call, environment, &product, shape) &&
           weights->packed_bytes == rt_fixed_packed_bytes(shape);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_fixed_shape shape;
    return is_accepted(call, environment, &shape);
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    rt_packed_product product;
    rt_fixed_shape shape;
    if (!read_shape(call, environment, &product, &shape) || product.rows < 1) return false;
    const bool far = shape.distant || rt_fixed_weights_are_far((double)rt_fixed_packed_bytes(&shape));
    if (product.rows < FEWEST_ROWS && !far) return false;
    *cost = (rt_cost){.packed_bytes = rt_fixed_packed_bytes(&shape), .settles = true};
    rt_fixed_estimate(&shape, environment, scratch_limit, cost);
    return cost->blocks != 0;
}

static rt_fixed_weights weights_of(const rt_packed_product *product, const op_tensor *plain) {
    return (rt_fixed_weights){.data = plain->data,
                              .depth = product->b_depth,
                              .column = product->b_column,
                              .factor = product->alpha};
}

static bool suits(const op_call *call, const rt_environment *environment, uint32_t input,
                  const op_tensor *plain) {
    rt_packed_product product;
    rt_fixed_shape shape;
    if (input != 1 || !read_shape(call, environment, &product, &shape)) return false;
    const rt_fixed_weights weights = weights_of(&product, plain);
    return rt_fixed_suits(&shape, &weights);
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    rt_packed_product product;
    rt_fixed_shape shape;
    if (input != 1 || !read_shape(call, environment, &product, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this product is not in tiles", input);
    const rt_fixed_weights weights = weights_of(&product, plain);
    rt_fixed_pack(&shape, &weights, packed);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_fixed_shape *shape = BASE_NEW(arena, rt_fixed_shape);
    if (!shape) return base_fail_memory(report);
    if (!is_accepted(call, environment, shape) || shape->points < 0)
        return base_fail(report, BASE_INVALID, "this product has no form in fixed point on this machine");
    rt_fixed_prepare(shape, prepared);
    return BASE_OK;
}

/* Another number of rows. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    rt_fixed_shape *shape = prepared->state;
    if (!is_accepted(call, environment, shape) || shape->points < 0) return false;
    rt_fixed_prepare(shape, prepared);
    return true;
}

const rt_kernel rt_kernel_fixed_product = {.name = "portable.fixed_product",
                                           .accepts = accepts,
                                           .estimate = estimate,
                                           .suits = suits,
                                           .pack = pack,
                                           .only_packed = true,
                                           .prepare = prepare,
                                           .adapt = adapt};

/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_convolution.c: Conv of single points, in float, of images whose channels lie innermost, in fixed point in tiles of bytes (fixed_bands.h), on
 * machines that have such tiles. Chosen by what it costs.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/fixed_bands.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "runtime/kernels/portable/kernels.h"

enum { FEWEST_CHANNELS = 32, FEWEST_FILTERS = 16, FEWEST_POINTS = 8 };

/* Windows of one point, which move by one, beside nothing. */
static bool are_points(const op_call *call) {
    op_window window;
    if (op_window_read(call, call->inputs[1].type.shape.dims + 2, &window, NULL) != BASE_OK) return false;
    for (int i = 0; i < window.rank; i++)
        if (window.kernel[i] != 1 || window.stride[i] != 1 || window.before[i] != 0 ||
            window.input[i] != window.output[i])
            return false;
    return true;
}

static bool read_shape(const op_call *call, const rt_environment *environment, rt_fixed_shape *s) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    int64_t elements;
    if (call->code != OP_CONV || x->dtype != OP_FLOAT || x->shape.rank < 3 ||
        weights->rank != x->shape.rank || x->layout != y->layout ||
        (x->layout != OP_LAYOUT_NC16 && x->layout != OP_LAYOUT_NHWC))
        return false;
    if (!rt_has_wide_vectors(environment) || !rt_fixed_wanted()) return false;
    if (!op_shape_known(&x->shape) || !op_shape_known(&y->shape) || !op_shape_known(weights)) return false;
    if (!op_shape_elements(&x->shape, &elements)) return false; /* points are no more than these */
    if (op_attribute_integer(&call->attributes, "group", 1) != 1 || !are_points(call)) return false;
    *s = (rt_fixed_shape){.layout = x->layout,
                          .digits = RT_FIXED_DIGITS,
                          .images = x->shape.dims[0],
                          .points = 1,
                          .depth = x->shape.dims[1],
                          .columns = weights->dims[0],
                          .bias = op_input_present(call, 2),
                          .residual = op_input_present(call, 3)};
    for (int32_t i = 2; i < x->shape.rank; i++) s->points *= x->shape.dims[i];
    if (s->depth < FEWEST_CHANNELS || s->columns < FEWEST_FILTERS) return false;
    if (s->residual && call->inputs[3].type.layout != y->layout) return false;
    return rt_activation_read(&call->attributes, &s->activation) && rt_fixed_complete(s, call, environment);
}

static bool is_accepted(const op_call *call, const rt_environment *environment, rt_fixed_shape *shape) {
    const op_type *weights = &call->inputs[1].type;
    return weights->layout == OP_LAYOUT_PACKED && read_shape(call, environment, shape) &&
           weights->packed_bytes == rt_fixed_packed_bytes(shape) &&
           (!shape->bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_fixed_shape shape;
    return is_accepted(call, environment, &shape);
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    rt_fixed_shape shape;
    if (!read_shape(call, environment, &shape) || shape.images * shape.points < FEWEST_POINTS) return false;
    *cost = (rt_cost){.packed_bytes = rt_fixed_packed_bytes(&shape), .settles = true};
    rt_fixed_estimate(&shape, environment, scratch_limit, cost);
    return cost->blocks != 0;
}

static rt_fixed_weights weights_of(const rt_fixed_shape *s, const op_tensor *plain) {
    return (rt_fixed_weights){.data = plain->data, .depth = 1, .column = s->depth, .factor = 1};
}

static bool suits(const op_call *call, const rt_environment *environment, uint32_t input,
                  const op_tensor *plain) {
    rt_fixed_shape shape;
    if (input != 1 || !read_shape(call, environment, &shape)) return false;
    const rt_fixed_weights weights = weights_of(&shape, plain);
    return rt_fixed_suits(&shape, &weights);
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    rt_fixed_shape shape;
    if (input != 1 || !read_shape(call, environment, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not in tiles", input);
    const rt_fixed_weights weights = weights_of(&shape, plain);
    rt_fixed_pack(&shape, &weights, packed);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_fixed_shape *shape = BASE_NEW(arena, rt_fixed_shape);
    if (!shape) return base_fail_memory(report);
    if (!is_accepted(call, environment, shape))
        return base_fail(report, BASE_INVALID, "this convolution has no form in fixed point on this machine");
    rt_fixed_settle(shape, environment);
    rt_fixed_prepare(shape, prepared);
    return BASE_OK;
}

const rt_kernel rt_kernel_fixed_convolution = {.name = "portable.fixed_convolution",
                                               .accepts = accepts,
                                               .estimate = estimate,
                                               .suits = suits,
                                               .pack = pack,
                                               .only_packed = true,
                                               .prepare = prepare};

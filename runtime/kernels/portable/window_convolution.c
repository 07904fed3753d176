/* SPDX-License-Identifier: Apache-2.0 */
/* window_convolution.c: Conv of signals and images whose channels lie innermost, in float, in fixed point in tiles of bytes (window_bands.c), on machines
 * that have such tiles. Convolutions of single points are for fixed_convolution.c, whose rows have scales of their own. Chosen by what it costs.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/window_bands.h"

enum { FEWEST_CHANNELS = 16, FEWEST_FILTERS = 16, BLOCK = 16 };

static bool read_window(const op_call *call, rt_window_shape *s) {
    op_window window;
    bool slides = false;
    if (op_window_read(call, call->inputs[1].type.shape.dims + 2, &window, NULL) != BASE_OK) return false;
    const op_window three = op_window_of_three(&window); /* a signal is an image one row high */
    for (int i = 0; i < 2; i++) {
        s->input[i] = three.input[i + 1];
        s->output[i] = three.output[i + 1];
        s->kernel[i] = three.kernel[i + 1];
        s->stride[i] = three.stride[i + 1];
        s->dilation[i] = three.dilation[i + 1];
        s->before[i] = three.before[i + 1];
        slides |= s->kernel[i] != 1 || s->stride[i] != 1 || s->before[i] != 0 || s->input[i] != s->output[i];
    }
    return slides || s->groups > 1;
}

/* False where the application is not for this kernel. */
static bool read_shape(const op_call *call, const rt_environment *environment, rt_window_shape *s) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    if (call->code != OP_CONV || x->dtype != OP_FLOAT || x->shape.rank < 3 || x->shape.rank > 4 ||
        weights->rank != x->shape.rank || x->layout != y->layout ||
        (x->layout != OP_LAYOUT_NC16 && x->layout != OP_LAYOUT_NHWC))
        return false;
    if (!rt_has_wide_vectors(environment) || !rt_fixed_wanted()) return false;
    if (!op_shape_known(&x->shape) || !op_shape_known(&y->shape) || !op_shape_known(weights)) return false;
    *s = (rt_window_shape){.layout = x->layout,
                           .images = x->shape.dims[0],
                           .groups = op_attribute_integer(&call->attributes, "group", 1),
                           .channels = weights->dims[1],
                           .filters = weights->dims[0],
                           .bias = op_input_present(call, 2),
                           .residual = op_input_present(call, 3)};
    if (s->groups < 1 || s->channels < FEWEST_CHANNELS || s->filters < FEWEST_FILTERS) return false;
    /* Blocks of 16 channels, and of 16 filters, are of one group. */
    if (s->groups > 1 && (s->channels % BLOCK != 0 || s->filters / s->groups % BLOCK != 0)) return false;
    if (s->residual && call->inputs[3].type.layout != y->layout) return false;
    if (!rt_activation_read(&call->attributes, &s->activation)) return false;
    return read_window(call, s) && rt_window_complete(s, call, environment);
}

static bool is_accepted(const op_call *call, const rt_environment *environment, rt_window_shape *shape) {
    const op_type *weights = &call->inputs[1].type;
    return weights->layout == OP_LAYOUT_PACKED && read_shape(call, environment, shape) &&
           weights->packed_bytes == rt_window_packed_bytes(shape) &&
           (!shape->bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_window_shape shape;
    return is_accepted(call, environment, &shape);
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    rt_window_shape shape;
    if (!read_shape(call, environment, &shape)) return false;
    *cost = (rt_cost){.packed_bytes = rt_window_packed_bytes(&shape), .settles = true};
    return rt_window_estimate(&shape, environment, scratch_limit, cost);
}

static bool suits(const op_call *call, const rt_environment *environment, uint32_t input,
                  const op_tensor *plain) {
    rt_window_shape shape;
    return input == 1 && read_shape(call, environment, &shape) && rt_window_suits(&shape, plain->data);
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    rt_window_shape shape;
    if (input != 1 || !read_shape(call, environment, &shape))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not in tiles", input);
    rt_window_pack(&shape, plain->data, packed);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_window_shape *shape = BASE_NEW(arena, rt_window_shape);
    if (!shape) return base_fail_memory(report);
    if (!is_accepted(call, environment, shape))
        return base_fail(report, BASE_INVALID, "this convolution has no form in fixed point on this machine");
    return rt_window_prepare(shape, environment, arena, prepared, report);
}

const rt_kernel rt_kernel_window_convolution = {.name = "portable.window_convolution",
                                                .accepts = accepts,
                                                .estimate = estimate,
                                                .suits = suits,
                                                .pack = pack,
                                                .only_packed = true,
                                                .prepare = prepare};

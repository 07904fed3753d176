/* SPDX-License-Identifier: Apache-2.0 */
/* split_convolution.c: Conv of signals and images whose channels lie innermost, in float, in tiles of bfloat16 parts (split_bands.c), on machines
 * that have such tiles: in 0.6 to 0.9 of the time of vectors, for scratch. Errors are those of sums of floats, which are added in another order
 * than by other kernels.
 */
#include "ir/operators/window.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/split_bands.h"

enum { FEWEST_CHANNELS = 16, FEWEST_FILTERS = 16 };

static bool read_window(const op_call *call, rt_split_shape *s) {
    op_window window;
    if (op_window_read(call, call->inputs[1].type.shape.dims + 2, &window, NULL) != BASE_OK) return false;
    for (int i = 0; i < 2; i++) {
        const int at = i - (2 - window.rank); /* below 0: a signal is an image one row high */
        s->input[i] = at < 0 ? 1 : window.input[at];
        s->output[i] = at < 0 ? 1 : window.output[at];
        s->kernel[i] = at < 0 ? 1 : window.kernel[at];
        s->stride[i] = at < 0 ? 1 : window.stride[at];
        s->dilation[i] = at < 0 ? 1 : window.dilation[at];
        s->before[i] = at < 0 ? 0 : window.before[at];
    }
    return true;
}

/* False where the application is not for this kernel. */
static bool read_shape(const op_call *call, const rt_environment *environment, rt_split_shape *s) {
    const op_type *x = &call->inputs[0].type, *y = &call->outputs[0].type;
    const op_shape *weights = &call->inputs[1].type.shape;
    if (call->code != OP_CONV || x->dtype != OP_FLOAT || x->shape.rank < 3 || x->shape.rank > 4 ||
        weights->rank != x->shape.rank || x->layout != y->layout ||
        (x->layout != OP_LAYOUT_NC16 && x->layout != OP_LAYOUT_NHWC))
        return false;
    if (!rt_has_wide_vectors(environment) || !rt_split_wanted()) return false;
    if (!op_shape_known(&x->shape) || !op_shape_known(&y->shape) || !op_shape_known(weights)) return false;
    if (op_attribute_integer(&call->attributes, "group", 1) != 1) return false;
    *s = (rt_split_shape){.layout = x->layout,
                          .images = x->shape.dims[0],
                          .channels = x->shape.dims[1],
                          .filters = weights->dims[0],
                          .bias = op_input_present(call, 2),
                          .residual = op_input_present(call, 3)};
    if (s->channels < FEWEST_CHANNELS || s->filters < FEWEST_FILTERS) return false;
    if (s->residual && call->inputs[3].type.layout != y->layout) return false;
    if (!rt_activation_read(&call->attributes, &s->activation)) return false;
    return read_window(call, s) && rt_split_complete(s, call, environment);
}

static bool is_accepted(const op_call *call, const rt_environment *environment, rt_split_shape *shape) {
    const op_type *weights = &call->inputs[1].type;
    return weights->layout == OP_LAYOUT_PACKED && read_shape(call, environment, shape) &&
           weights->packed_bytes == rt_split_packed_bytes(shape) &&
           (!shape->bias || call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_split_shape shape;
    return is_accepted(call, environment, &shape);
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    rt_split_shape shape;
    if (!read_shape(call, environment, &shape)) return false;
    *cost = (rt_cost){.packed_bytes = rt_split_packed_bytes(&shape), .settles = true};
    return rt_split_estimate(&shape, environment, scratch_limit, cost);
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *plain, void *packed, base_report *report) {
    rt_split_shape s;
    if (input != 1 || !read_shape(call, environment, &s))
        return base_fail(report, BASE_INVALID, "input %u of this convolution is not in tiles", input);
    const rt_split_weights weights = {
        .data = plain->data, .filter = s.channels * s.taps, .channel = s.taps, .scale = 1};
    rt_split_pack(&s, &weights, packed);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_split_shape *shape = BASE_NEW(arena, rt_split_shape);
    if (!shape) return base_fail_memory(report);
    if (!is_accepted(call, environment, shape))
        return base_fail(report, BASE_INVALID, "this convolution has no split form on this machine");
    return rt_split_prepare(shape, environment, arena, prepared, report);
}

const rt_kernel rt_kernel_split_convolution = {.name = "portable.split_convolution",
                                               .accepts = accepts,
                                               .estimate = estimate,
                                               .pack = pack,
                                               .prepare = prepare};

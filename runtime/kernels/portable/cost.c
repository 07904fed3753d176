/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c: see cost.h. The rates were fitted to measurements of tests/bench/bench_kernels.c on one core with AVX2. */
#include "runtime/kernels/portable/cost.h"

static const struct rates {
    double direct;     /* multiplications with addition a second, of direct convolutions */
    double gathered;   /* of the portable ones on single points: rows are copied, and rounded twice */
    double pointwise;  /* of those with weights in tiles */
    double winograd;   /* of the products at Winograd's points */
    double near;       /* bytes a second from and to a near cache */
    double far;        /* from and to one shared by all cores */
    double near_bytes; /* that a near cache holds */
    double windows;    /* of 3x3 weights, transformed in a second */
} rates = {.direct = 50e9,
           .gathered = 27e9,
           .pointwise = 37e9,
           .winograd = 50e9,
           .near = 40e9,
           .far = 20e9,
           .near_bytes = 1 << 20,
           .windows = 75e6};

static double elements(const op_shape *shape, int32_t from) {
    double product = 1;
    for (int32_t i = from; i < shape->rank; i++) product *= (double)shape->dims[i];
    return product;
}

bool rt_direct_convolution_estimate(const op_call *call, const rt_environment *environment,
                                    size_t scratch_limit, rt_cost *cost) {
    (void)scratch_limit;
    const op_shape *weights = &call->inputs[1].type.shape, *y = &call->outputs[0].type.shape;
    if (call->code != OP_CONV || !op_shape_known(weights) || !op_shape_known(y)) return false;
    const double positions = (double)y->dims[0] * elements(y, 2);
    *cost = (rt_cost){.seconds = positions * elements(weights, 0) / rates.direct / environment->threads};
    return true;
}

bool rt_gathering_convolution_estimate(const op_call *call, const rt_environment *environment,
                                       size_t scratch_limit, rt_cost *cost) {
    if (!rt_direct_convolution_estimate(call, environment, scratch_limit, cost)) return false;
    if (elements(&call->inputs[1].type.shape, 2) == 1) cost->seconds *= rates.direct / rates.gathered;
    return true;
}

double rt_pointwise_seconds(double products, int threads) {
    return products / rates.pointwise / threads;
}

double rt_winograd_seconds(const rt_winograd_work *work, int threads) {
    const double products = work->products / rates.winograd;
    const double moved =
        2 * work->transformed_bytes / (work->block_bytes <= rates.near_bytes ? rates.near : rates.far);
    const double transforms = work->windows / rates.windows;
    return (products + moved + transforms) / threads + work->blocks * work->weight_bytes / rates.far;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c: see cost.h. The rates were fitted to measurements of tests/bench/bench_winograd.c and bench_kernels.c on one core. */
#include "runtime/kernels/portable/cost.h"
#include "ir/operators/window.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/pair_tiles.h"
#include "runtime/kernels/portable/fixed_tiles.h"
#include <math.h>
#if RT_X86_KERNELS
#include <cpuid.h>
#endif

typedef struct rates {
    double direct;     /* multiplications with addition a second, of direct convolutions */
    double gathered;   /* of the portable ones on single points: rows are copied, and rounded twice */
    double pointwise;  /* of those with weights in tiles */
    double winograd;   /* of the products at Winograd's points */
    double near;       /* bytes a second from and to a near cache */
    double far;        /* from and to one shared by all cores */
    double weights;    /* bytes a second of weights that are read ahead while others are multiplied */
    double memory;     /* bytes a second at most of those that no cache holds */
    double near_bytes; /* that a near cache holds */
    double far_bytes;  /* of weights: more than these come from memory for each block */
    /* The part of the shorter of both, reading weights and multiplying, that the other does not hide. */
    double waited;
    double windows; /* of 3x3 weights, transformed in a second */
    /* With fewer channels, or filters, what is said of Winograd's convolution here does not hold. */
    double fewest_channels;
} rates;

/* Vectors of 8 floats (AVX2), and of portable plans, which do not depend on the machine. */
static const rates narrow = {.direct = 50e9,
                             .gathered = 27e9,
                             .pointwise = 37e9,
                             .winograd = 50e9,
                             .near = 40e9,
                             .far = 20e9,
                             .weights = 20e9,
                             .memory = 20e9,
                             .near_bytes = 1 << 20,
                             .far_bytes = 1e300,
                             .waited = 1,
                             .windows = 75e6,
                             .fewest_channels = 16};
/* Vectors of 16 floats (AVX-512). */
static const rates wide = {.direct = 125e9,
                           .gathered = 55e9,
                           .pointwise = 80e9,
                           .winograd = 120e9,
                           .near = 70e9,
                           .far = 18e9,
                           .weights = 85e9,
                           .memory = 50e9,
                           .near_bytes = 6 << 20,
                           .far_bytes = 16 << 20,
                           .waited = 0.25,
                           .windows = 240e6,
                           .fewest_channels = 8};

/* Processors that take a vector of 16 floats as two halves (Zen 4) multiply at half the rate of others, and read as fast: beside products,
 * weights that are read again, partly from a cache, take half as long. */
static bool multiplies_by_halves(void) {
#if RT_X86_KERNELS
    enum { IDENTIFIERS = 0x8000001A, FULL = 1 << 3 }; /* of AMD; others have no such leaf */
    /* Asked once: a hypervisor answers in tens of microseconds, and searches ask very often. Threads may all ask, and get the same answer. */
    static _Atomic int known; /* 0: not yet; 1: no; 2: yes */
    int answer = known;
    if (!answer) {
        unsigned a, b, c, d;
        answer = __get_cpuid(IDENTIFIERS, &a, &b, &c, &d) && a && !(a & FULL) ? 2 : 1;
        known = answer;
    }
    return answer == 2;
#else
    return false;
#endif
}

bool rt_has_wide_vectors(const rt_environment *environment) {
#if RT_X86_KERNELS
    return !environment->portable_only && __builtin_cpu_supports("avx512f");
#else
    (void)environment;
    return false;
#endif
}

static const rates *rates_of(const rt_environment *environment) {
    return rt_has_wide_vectors(environment) ? &wide : &narrow;
}

static double elements(const op_shape *shape, int32_t from) {
    double product = 1;
    for (int32_t i = from; i < shape->rank; i++) product *= (double)shape->dims[i];
    return product;
}

static double longer_of(double a, double b) {
    return a > b ? a : b;
}

/* Of two things that are done at the same time, `waited` is the part of the shorter one that the other does not hide. */
static double both(double a, double b, double waited) {
    const double longer = longer_of(a, b);
    return longer + waited * (a + b - longer);
}

double rt_products_at_once(op_dtype dtype, const rt_environment *environment) {
    /* Convolutions of ResNet-50 take 0.55 to 0.7 of float's time, products of 256 and more half of it. */
    return dtype == OP_BFLOAT16 && rt_has_wide_vectors(environment) && rt_pairs_here() ? 1.6 : 1;
}

/* The part of a window's elements along a dimension that see the image and not what pads it. */
static double seen_part(const op_window *window, int32_t i) {
    double seen = 0;
    for (int64_t k = 0; k < window->kernel[i]; k++) {
        const int64_t first = k * window->dilation[i] - window->before[i], stride = window->stride[i];
        const int64_t from = first < 0 ? (-first + stride - 1) / stride : 0,
                      end = first < window->input[i] ? (window->input[i] - 1 - first) / stride + 1 : 0;
        seen += longer_of(0, (double)((end < window->output[i] ? end : window->output[i]) - from));
    }
    return seen / ((double)window->kernel[i] * (double)window->output[i]);
}

/* The part of the products of a direct convolution that it computes where windows are dilated: elements of them that see no row of the image are left out
 * for all points of a row of the result, others only where all points of a tile see none. Of other windows that is little, and hardly any time. */
static double computed_part(const op_call *call) {
    op_window window;
    if (op_window_read(call, call->inputs[1].type.shape.dims + 2, &window, NULL) != BASE_OK) return 1;
    double part = 1;
    for (int32_t i = 0; i < window.rank; i++) {
        const double seen = window.dilation[i] > 1 ? seen_part(&window, i) : 1;
        if (seen > 0) part *= i < window.rank - 1 ? seen : pow(seen, 0.4);
    }
    return part;
}

bool rt_direct_convolution_estimate(const op_call *call, const rt_environment *environment,
                                    size_t scratch_limit, rt_cost *cost) {
    (void)scratch_limit;
    const op_shape *weights = &call->inputs[1].type.shape, *y = &call->outputs[0].type.shape;
    if (call->code != OP_CONV || !op_shape_known(weights) || !op_shape_known(y)) return false;
    const rates *of = rates_of(environment);
    const double positions = (double)y->dims[0] * elements(y, 2);
    double seconds = positions * elements(weights, 0) / of->direct;
    /* This was measured where there are tiles to choose instead, and says nothing elsewhere. Of small images, reading weights is much beside products. */
    if (of == &wide && rt_fixed_wanted() && call->inputs[0].type.dtype == OP_FLOAT && positions > 0)
        seconds = seconds * computed_part(call) + elements(weights, 0) * sizeof(float) / of->memory;
    *cost = (rt_cost){.seconds = seconds / environment->threads /
                                 rt_products_at_once(call->inputs[0].type.dtype, environment)};
    return true;
}

bool rt_gathering_convolution_estimate(const op_call *call, const rt_environment *environment,
                                       size_t scratch_limit, rt_cost *cost) {
    if (!rt_direct_convolution_estimate(call, environment, scratch_limit, cost)) return false;
    const rates *of = rates_of(environment);
    if (rt_products_at_once(call->inputs[0].type.dtype, environment) > 1)
        return true; /* nothing is gathered twice */
    if (elements(&call->inputs[1].type.shape, 2) == 1) cost->seconds *= of->direct / of->gathered;
    return true;
}

double rt_pointwise_seconds(op_dtype dtype, double products, const rt_environment *environment) {
    const rates *of = rates_of(environment);
    const double at_once = rt_products_at_once(dtype, environment);
    /* Of pairs, what gathers goes at the rate of direct convolutions; tiles took 0.75 of its time in shufflenet. */
    const double rate = at_once > 1 ? of->direct * at_once / 0.75 : of->pointwise;
    return products / rate / environment->threads;
}

bool rt_winograd_is_predicted(double channels, double filters, const rt_environment *environment) {
    const double fewest = rates_of(environment)->fewest_channels;
    return channels >= fewest && filters >= fewest;
}

/* What multiplying takes, and reading weights, by the rates of the machine. */
static double multiplied_seconds(const rt_winograd_work *work, const rates *of, double products) {
    const double again = of == &wide && multiplies_by_halves() ? 2 * of->memory : of->memory;
    const double weights =
        work->weight_bytes <= of->far_bytes
            ? work->blocks * work->weight_bytes / of->weights
            : work->weight_bytes / of->memory + (work->blocks - 1) * work->weight_bytes / again;
    return both(products, weights, of->waited);
}

/* The same on machines with AMX. Transformed weights of a network, four times the others, come from the cache that all cores share, and what reads them
 * ahead hides little: a layer of 14x14 took up to 4 times as long as by the rates above on two cores, up to twice on one. */
static const struct {
    double weights; /* bytes a second that one thread reads from there, or of tiles from other cores */
    double
        longer; /* times all else: below 1, as direct convolutions go at three quarters of their rate there */
    double kept_bytes; /* that a core keeps from one block to the next, where no other core makes tiles */
} shared_cache = {.weights = 16e9, .longer = 0.9, .kept_bytes = 1 << 20};

/* What each thread reads from there. */
static double shared_seconds(const rt_winograd_work *work, double threads) {
    const bool kept = threads <= 1 && work->each_bytes <= shared_cache.kept_bytes;
    return (kept ? 1 : work->blocks) * work->each_bytes / shared_cache.weights;
}

double rt_winograd_seconds(const rt_winograd_work *work, const rt_environment *environment) {
    const rates *of = rates_of(environment);
    const double threads = environment->threads;
    const double products = work->products / of->winograd / threads;
    const double moved =
        2 * work->transformed_bytes / (work->block_bytes <= of->near_bytes ? of->near : of->far);
    const double entered = (moved + work->windows / of->windows) / threads;
    const bool far_weights = of == &wide && work->each_bytes > 0 && rt_fixed_wanted();
    const double seconds = far_weights
                               ? shared_cache.longer * (entered + products) + shared_seconds(work, threads)
                               : entered + multiplied_seconds(work, of, products);
    const double least = work->weight_bytes / of->memory;
    return seconds > least ? seconds : least;
}

/* On machines that have tiles of bytes (Sapphire Rapids and its successors), as measured in networks, with vectors at the rate that they have there. There
 * direct convolutions go at three quarters of the rate that `wide` says, in whose measure predictions are. */
typedef struct fixed_rates {
    double step,
        row; /* seconds of a step of a tile by a tile, with six products of digits; more of them for each row */
    double sums; /* of sums of digits that become floats, a tile of them */
    double near,
        far; /* bytes of weights a second that one thread reads from there, from the cache that all cores share */
    double
        waited; /* the part of the shorter of both, reading weights and all else, that the other does not hide */
} fixed_rates;
static const fixed_rates tiles = {.step = 14e-9,
                                  .row = 1.5e-9,
                                  .sums = 60e-9,
                                  .near = 58e9,
                                  .far = 21e9,
                                  .waited = 0.87},
                         one_row = {.step = 7e-9,
                                    .row = 1.4e-9,
                                    .sums = 120e-9,
                                    .near = 150e9,
                                    .far = 30e9,
                                    .waited = 0.35}; /* in vectors */
static const struct {
    double begin; /* of a run */
    double split; /* numbers a second that become digits */
    double left;  /* numbers of results a second */
    double apart; /* seconds of a number whose activation is computed apart, more than other kernels take */
    double near_bytes; /* that a near cache holds: of digits, of weights */
    double again;      /* times multiplying, where it does not hold the digits */
    double distant;    /* bytes of weights a second from memory */
    double vectors;    /* products a second */
} fixed = {.begin = 1e-6,
           .split = 4.2e9,
           .left = 18e9,
           .apart = 0.35e-9,
           .near_bytes = 1200 << 10,
           .again = 1.2,
           .distant = 12e9,
           .vectors = 85e9};

double rt_fixed_seconds(const rt_fixed_work *work, const rt_environment *environment) {
    const fixed_rates *of = work->rows == 1 ? &one_row : &tiles;
    const double threads = environment->threads;
    const double step = (of->step + work->rows * of->row) * work->products / RT_FIXED_FEWER_PRODUCTS,
                 steps = work->steps * step + work->sums * of->sums,
                 again = work->band_bytes > fixed.near_bytes ? fixed.again : 1;
    const double left = work->left * (1 / fixed.left + (work->apart ? fixed.apart : 0)),
                 computed = (steps * again + work->split / fixed.split + left) / threads;
    const double rate = work->distant                           ? fixed.distant
                        : work->weight_bytes > fixed.near_bytes ? of->far
                                                                : of->near;
    const double weights = work->bands * work->weight_bytes / rate / (work->shared ? 1 : threads);
    return (fixed.begin + both(computed, weights, of->waited)) * fixed.vectors / wide.direct;
}

/* The same of windows, fitted to 320 convolutions of networks. */
static const struct {
    double step, row;
    double sums;
    double begin;
    double split; /* bytes of digits a second */
    double image; /* bytes of images a second in which the largest number is sought */
    double again;
    double near, far;
    double waited;
} windows = {.step = 10e-9,
             .row = 1.73e-9,
             .sums = 80e-9,
             .begin = 1e-6,
             .split = 18e9,
             .image = 20e9,
             .again = 1.4,
             .near = 75e9,
             .far = 45e9,
             .waited = 0.95};

double rt_window_seconds(const rt_window_work *work, const rt_environment *environment) {
    const double again = work->band_bytes > fixed.near_bytes ? windows.again : 1,
                 step = (windows.step + work->rows * windows.row) * work->products / RT_FIXED_FEWER_PRODUCTS,
                 steps = work->steps * step * again + work->sums * windows.sums,
                 computed = (steps + work->split_bytes / windows.split + work->image_bytes / windows.image) /
                            environment->threads,
                 rate = work->weight_bytes > fixed.near_bytes ? windows.far : windows.near,
                 weights = work->bands * work->weight_bytes / rate;
    return (windows.begin + both(computed, weights, windows.waited)) * fixed.vectors / wide.direct;
}

bool rt_fixed_weights_are_far(double bytes) {
    return bytes > fixed.near_bytes;
}

double rt_packed_product_seconds(double rows, double depth, double columns, double weight_bytes,
                                 const rt_environment *environment) {
    const rates *of = rates_of(environment);
    const double threads = environment->threads, computed = rows * depth * columns / of->direct / threads;
    /* Elsewhere there is nothing to choose between. */
    if (of != &wide || !rt_fixed_wanted()) return computed;
    const double rate = rt_fixed_weights_are_far(weight_bytes) ? one_row.far : one_row.near,
                 weights = weight_bytes / rate / threads * fixed.vectors / wide.direct;
    return both(computed, weights, one_row.waited);
}

/* Fitted to 18 products of 48 to 512 rows, with depths and columns of 128 to 4,096. */
static const struct {
    double products; /* seven eighths, and what tiles of half the depth take more */
    double sums;     /* numbers of the left matrix for which sums take as long as one product of numbers */
    double left;     /* the same of a result, and of each part of the depth, for leaving sums there */
} strassen = {.products = 0.8925, .sums = 10.5, .left = 6.5};

double rt_strassen_seconds(const rt_strassen_work *work, const rt_environment *environment) {
    const rates *of = rates_of(environment);
    const double threads = environment->threads, sums = work->rows * work->depth * strassen.sums,
                 products = work->rows * work->columns *
                            (work->depth * strassen.products + work->parts * strassen.left),
                 computed = products / threads + (work->shared ? sums / threads : sums),
                 weights = work->weight_bytes / of->weights / (work->shared ? 1 : threads);
    return both(computed / of->direct, work->passes * weights, of->waited);
}

double rt_distant_seconds(double bytes, const rt_environment *environment) {
    return bytes / fixed.distant / environment->threads * fixed.vectors / wide.direct;
}

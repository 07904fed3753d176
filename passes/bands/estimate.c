/* SPDX-License-Identifier: Apache-2.0 */
/* estimate.c: see estimate.h. */
#include "passes/bands/estimate.h"
#include "passes/bands/row_maps.h"
#include "ir/operators/window.h"
#include "passes/layout/layout.h"
#include "runtime/kernels/portable/cost.h"
#include <math.h>
#include <string.h>

/* What the kernels of one kind take beside the products of convolutions, which runtime/kernels/portable/cost.c predicts. */
typedef struct kind_cost {
    double call;    /* seconds to begin */
    double moved;   /* bytes of images in a second, read and written */
    double weights; /* bytes of weights in a second; a band reads them anew */
    double slower;  /* by what part of the time of the whole a band of one row is slower */
    double faster;  /* so many products in the time of one of floats; 0: one */
} kind_cost;

/* Convolutions by their windows (GROUPS: pointwise ones in groups; PLANES: of each channel by itself, whose image lies by itself; INTEGERS_ARRANGED:
 * those of integers whose filters need not be copied), pools, views (a copy at most), products, products whose kernel puts the right matrix in
 * order each time, and all else. */
typedef enum kind {
    DENSE,
    FEW_CHANNELS,
    POINTWISE,
    GROUPS,
    DEPTHWISE,
    PLANES,
    INTEGERS,
    INTEGERS_ARRANGED,
    INTEGERS_DEPTHWISE,
    POOL,
    VIEW,
    PRODUCT,
    PRODUCT_ARRANGED,
    NORMALIZATION,
    OTHER,
    KINDS
} kind;

struct band_rates {
    double products; /* multiplications with addition, as in runtime/kernels/portable/cost.c */
    double copied;   /* bytes that are read or written within the caches */
    double step;     /* seconds that a step takes to begin */
    double span;     /* seconds of a span of few bytes, among those that are copied */
    /* Maps of more than `near_bytes` are written to a cache that is further away, and read from there; those of more than `far_bytes` to
     * memory. What this takes more, by byte of the map, and which part of it is in the costs of the kinds already. */
    double near_bytes, far_bytes, near_seconds, far_seconds;
    bool included;
    double far_weights; /* bytes of constants in a second, of what is no convolution: they are read once */
    kind_cost kinds[KINDS];
};

/* AVX2: fitted to processor seconds of MobileNetV2, ResNet-50 and SqueezeNet at several limits. */
static const band_rates narrow = {.products = 50e9,
                                  .copied = 30e9,
                                  .step = 0.5e-6,
                                  .far_bytes = HUGE_VAL,
                                  .near_seconds = 1 / 30e9,
                                  .far_seconds = 1 / 30e9,
                                  .included = true,
                                  .kinds = {[DENSE] = {.moved = 10e9, .slower = 0.08},
                                            [FEW_CHANNELS] = {.moved = 10e9, .slower = 0.08},
                                            [POINTWISE] = {.moved = 10e9, .slower = 0.08},
                                            [GROUPS] = {.moved = 10e9, .slower = 0.08},
                                            [DEPTHWISE] = {.moved = 10e9, .slower = 0.3},
                                            [PLANES] = {.moved = 10e9, .slower = 0.3},
                                            [INTEGERS] = {.moved = 10e9, .slower = 0.08},
                                            [INTEGERS_ARRANGED] = {.moved = 10e9, .slower = 0.08},
                                            [INTEGERS_DEPTHWISE] = {.moved = 10e9, .slower = 0.3},
                                            [POOL] = {.moved = 10e9, .slower = 0.1},
                                            [VIEW] = {.moved = 10e9, .slower = 0.1},
                                            [PRODUCT] = {.moved = 10e9, .weights = 30e9},
                                            [PRODUCT_ARRANGED] = {.moved = 10e9, .weights = 30e9},
                                            [NORMALIZATION] = {.moved = 10e9, .slower = 0.1},
                                            [OTHER] = {.moved = 10e9, .slower = 0.1}}};
/* AVX-512: fitted to what plans of 20 networks take beside those without bands, 68 on Zen 4 and 42 on Zen 5, whose
 * ratios are nearly the same, and calls and copies again to 53 plans of 14 networks on Zen 4; what groups and planes take for each filter, to
 * the times of their bands beside those of the whole.
 * Weights that a band reads anew come from the second cache or the third while products go on. Rows that are taken or handed on
 * cost what any copy does: without bands, kernels fetch them from as far. */
static const band_rates wide = {.products = 125e9,
                                .copied = 300e9,
                                .step = 0.03e-6,
                                .span = 1.2e-9,
                                .near_bytes = 2 << 20,
                                .far_bytes = 8 << 20,
                                .near_seconds = 1 / 55e9,
                                .far_seconds = 1 / 12e9,
                                .far_weights = 30e9,
                                .kinds = {[DENSE] = {0.3e-6, 35e9, 60e9, 0, 0},
                                          [FEW_CHANNELS] = {0.4e-6, 44e9, 100e9, 0, 0},
                                          [POINTWISE] = {0.28e-6, 100e9, 75e9, 0, 0},
                                          [GROUPS] = {0.25e-6, 100e9, 7e9, 0, 0},
                                          [DEPTHWISE] = {0.17e-6, 60e9, 100e9, 0, 0},
                                          [PLANES] = {0.25e-6, 60e9, 4e9, 0, 0},
                                          [INTEGERS] = {0.5e-6, 15e9, 11e9, 0, 3},
                                          [INTEGERS_ARRANGED] = {0.9e-6, 15e9, 40e9, 0, 3},
                                          [INTEGERS_DEPTHWISE] = {0.8e-6, 7e9, 0.27e9, 0, 1},
                                          [POOL] = {0.3e-6, 70e9, 0, 0, 0},
                                          [VIEW] = {0.1e-6, 400e9, 0, 0, 0},
                                          [PRODUCT] = {0.3e-6, 100e9, 900e9, 0, 0},
                                          [PRODUCT_ARRANGED] = {0.25e-6, 100e9, 60e9, 0, 0},
                                          [NORMALIZATION] = {1.5e-6, 60e9, 0, 0, 0},
                                          [OTHER] = {0.1e-6, 80e9, 0, 0, 0}}};

const band_rates *band_rates_of(const rt_environment *environment) {
    /* The costs for AVX-512 are those of oneDNN's kernels. */
    return rt_kernel_exists(OP_CONV, "onednn.convolution") && rt_has_wide_vectors(environment) ? &wide
                                                                                               : &narrow;
}

double band_far_bytes(const band_rates *rates) {
    return rates->far_bytes;
}

double band_move_seconds(const band_rates *rates, double bytes) {
    return bytes / rates->kinds[OTHER].moved;
}

double band_copy_seconds(const band_rates *rates, double bytes, double touched) {
    /* More than this is not all in the second cache. */
    static const double SECOND_CACHE = 768 << 10, SLOWER = 2;
    return bytes / rates->copied * (rates->included || touched <= SECOND_CACHE ? 1 : SLOWER);
}

double band_step_seconds(const band_rates *rates) {
    return rates->step;
}

double band_span_seconds(const band_rates *rates, double spans) {
    return spans * rates->span;
}

double band_begin_part(const band_rates *rates, double bytes) {
    static const double LEAST = 0.15, CACHE = 1 << 20;
    const double part = bytes / CACHE;
    return rates->included || part >= 1 ? 1 : part > LEAST ? part : LEAST;
}

double band_file_seconds(double bytes) {
    /* A file is as fast as a good disk, not as memory that happens to be free for its pages. */
    static const double RATE = 1e9, TRANSFER = 20e-6;
    return bytes / RATE + TRANSFER;
}

static kind kind_of(const ir_node *node, const rt_kernel *kernel) {
    const ir_value *weights = band_window_weights(node);
    const op_view view = op_schema_of(node->code)->view;
    if (node->code == OP_MATMUL)
        return kernel && strcmp(kernel->name, "portable.matmul") == 0 ? PRODUCT_ARRANGED : PRODUCT;
    if (weights) {
        const op_shape *shape = &weights->type.shape;
        double window = 1;
        for (int32_t i = 2; i < shape->rank; i++) window *= (double)shape->dims[i];
        /* An image of one channel is seen by all filters. */
        const bool apart = shape->dims[1] == 1 && ir_input(node, 0)->type.shape.dims[1] > 1;
        if (node->code != OP_CONV && node->code != OP_SHUFFLED_CONV && node->code != OP_CONV_TRANSPOSE)
            return apart                                      ? INTEGERS_DEPTHWISE
                   : weights->type.layout == OP_LAYOUT_PACKED ? INTEGERS_ARRANGED
                                                              : INTEGERS;
        if (apart) return kernel && strcmp(kernel->name, "portable.convolution") == 0 ? PLANES : DEPTHWISE;
        if (window == 1 && node->code == OP_CONV && shape->dims[1] < ir_input(node, 0)->type.shape.dims[1])
            return GROUPS;
        return window == 1 ? POINTWISE : shape->dims[1] <= 4 ? FEW_CHANNELS : DENSE;
    }
    if (node->code == OP_MAX_POOL || node->code == OP_AVERAGE_POOL) return POOL;
    if (node->code == OP_BATCH_NORMALIZATION || node->code == OP_LRN) return NORMALIZATION;
    return view == OP_VIEW_NONE ? OTHER : VIEW;
}

/* Threads share what a map takes, and what a kernel moves; each step of a band ends when the last of them has come, and what one wrote another
 * one reads next. In seconds: */
static double wait_seconds(int threads) {
    static const double WAIT = 2e-6;
    return threads > 1 ? WAIT : 0;
}

/* What a map takes more because it does not stay in the nearest cache. */
static double far_seconds(const band_rates *rates, double bytes) {
    return bytes <= rates->near_bytes
               ? 0
               : bytes * (bytes <= rates->far_bytes ? rates->near_seconds : rates->far_seconds);
}

/* Seconds of the products of a MatMul, and bytes of its right matrix. */
static double product_seconds(const ir_node *node, int threads, const band_rates *rates, double *weights) {
    const op_shape *left = &ir_input(node, 0)->type.shape, *result = &node->outputs[0]->type.shape;
    double products = 1;
    for (int32_t i = 0; i < result->rank; i++) products *= (double)result->dims[i];
    const double columns = (double)result->dims[result->rank - 1], inner = (double)left->dims[left->rank - 1];
    size_t bytes;
    *weights = rates->included                                   ? columns * inner * sizeof(float)
               : op_type_bytes(&ir_input(node, 1)->type, &bytes) ? (double)bytes
                                                                 : 0;
    return products * inner / rates->products / threads;
}

static double convolution_seconds(const ir_node *node, int threads, const band_rates *rates,
                                  double *weights_bytes) {
    const op_shape *weights = &band_window_weights(node)->type.shape, *y = &node->outputs[0]->type.shape;
    double products = (double)y->dims[0];
    *weights_bytes = sizeof(float);
    for (int32_t i = 0; i < weights->rank; i++) {
        products *= (double)weights->dims[i];
        *weights_bytes *= (double)weights->dims[i];
    }
    for (int32_t i = 2; i < y->rank; i++) products *= (double)y->dims[i];
    return products / rates->products / threads;
}

/* The kernel that will be chosen, and what it works in; NULL and 0 where that is not known yet. */
static const rt_kernel *find_kernel(const ir_node *node, const rt_environment *environment, base_arena *arena,
                                    double *scratch) {
    op_call call;
    rt_prepared prepared;
    base_report unheard = {0};
    *scratch = 0;
    if (node->graph_count || ir_node_has_lists(node) || !pass_shapes_known(node) ||
        (op_schema_of(node->code)->flags & OP_FLAG_DYNAMIC) || !ir_node_call(node, arena, &call))
        return NULL;
    const rt_kernel *kernel = rt_kernel_select(&call, environment);
    if (!kernel) return NULL;
    const base_status status = rt_kernel_prepare(kernel, &call, environment, arena, &prepared, &unheard);
    if (status == BASE_OK) *scratch = (double)prepared.scratch_bytes;
    rt_kernel_release(&prepared);
    return kernel;
}

/* The part of its time that a convolution takes more where channels lie innermost: a point of few of them is less than what the processor
 * reads at once. */
static double slower_innermost(const ir_node *node, kind of) {
    static const double MOST = 0.15, CHANNELS = 5, FEW = 0.03;
    if (of == FEW_CHANNELS) return FEW;
    if (of != DEPTHWISE) return 0;
    const double part = CHANNELS / (double)band_window_weights(node)->type.shape.dims[0];
    return part < MOST ? part : MOST;
}

/* What each line takes that is summed by itself, before its numbers count; and each of many small products. */
static double lines_seconds(const ir_node *node, const band_rates *rates) {
    static const double SOFTMAX = 20e-9, NORMALIZED = 28e-9, MULTIPLIED = 12e-9;
    const ir_value *output = node->output_count ? node->outputs[0] : NULL;
    if (rates->included || !output || !op_shape_known(&output->type.shape)) return 0;
    const op_shape *shape = &output->type.shape;
    const int32_t rank = shape->rank;
    const bool softmax = node->code == OP_SOFTMAX || node->code == OP_LOG_SOFTMAX,
               normalized = node->code == OP_LAYER_NORMALIZATION || node->code == OP_RMS_NORMALIZATION;
    double lines = 1;
    int32_t axis;
    if (softmax || normalized) {
        if (!op_axis(op_attribute_integer(&node->attributes, "axis", -1), rank, &axis) ||
            (softmax && axis != rank - 1))
            return 0;
        for (int32_t i = 0; i < axis; i++) lines *= (double)shape->dims[i];
        return lines * (softmax ? SOFTMAX : NORMALIZED);
    }
    if (node->code != OP_MATMUL || rank < 3 || ir_input(node, 1)->constant) return 0;
    for (int32_t i = 0; i < rank - 2; i++) lines *= (double)shape->dims[i];
    return lines * MULTIPLIED;
}

band_estimate band_estimate_node(const ir_node *node, bool by_rows, double bytes,
                                 const rt_environment *environment, base_arena *arena) {
    const int threads = environment->threads > 0 ? environment->threads : 1;
    band_estimate own = {0};
    const rt_kernel *kernel = find_kernel(node, environment, arena, &own.scratch);
    const band_rates *rates = band_rates_of(environment);
    if (!by_rows && rates->included) return own;
    const kind of = by_rows ? kind_of(node, kernel) : OTHER;
    const kind_cost *cost = &rates->kinds[of];
    double moved = bytes, weights = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        size_t read;
        if (!input || !op_type_bytes(&input->type, &read)) continue;
        if (!input->constant) moved += (double)read;
        else if (!by_rows) weights += (double)read;
    }
    if (!by_rows) {
        own.call = cost->call + weights / rates->far_weights;
        own.seconds = own.call + (moved / cost->moved + lines_seconds(node, rates)) / threads;
        return own;
    }
    if (node->code == OP_MATMUL) own.seconds = product_seconds(node, threads, rates, &weights);
    if (band_window_weights(node))
        own.seconds = own.products =
            convolution_seconds(node, threads, rates, &weights) / (cost->faster > 0 ? cost->faster : 1);
    if (cost->faster > 0) weights /= sizeof(float);
    const double at_once = rt_products_at_once(ir_input(node, 0)->type.dtype, environment);
    own.seconds /= at_once;
    own.products /= at_once;
    own.innermost =
        rates->included ? 0 : slower_innermost(node, of) * (own.seconds + moved / cost->moved / threads);
    own.far = far_seconds(rates, bytes) / threads;
    own.again = cost->call + wait_seconds(threads) + (cost->weights > 0 ? weights / cost->weights : 0);
    /* Products take that long anywhere, and integer convolutions to read their weights or to copy them. */
    if (of != PRODUCT && of != PRODUCT_ARRANGED) own.call = cost->faster > 0 ? cost->call : own.again;
    own.seconds += (moved / cost->moved + lines_seconds(node, rates)) / threads +
                   (rates->included ? 0 : own.again + own.far);
    own.again += own.seconds * cost->slower / (double)band_node_rows(node);
    return own;
}

/* The application on so many rows. NULL when memory runs out. */
static op_call *call_on_rows(const ir_node *node, int64_t rows, bool channels_last, base_arena *arena) {
    op_call *call = BASE_NEW(arena, op_call);
    band_window window;
    op_window whole;
    base_report unheard = {0};
    if (!call || !ir_node_call(node, arena, call) || !band_node_window(node, arena, &window)) return NULL;
    if (op_window_read(call, band_window_weights(node)->type.shape.dims + 2, &whole, &unheard) != BASE_OK)
        return NULL;
    op_tensor *tensors = BASE_ARRAY(arena, op_tensor, call->input_count + 1);
    op_attribute *attributes = BASE_ARRAY(arena, op_attribute, call->attributes.count + 1);
    int64_t *pads = BASE_ARRAY(arena, int64_t, 2 * OP_WINDOW_RANK);
    if (!tensors || !attributes || !pads) return NULL;
    memcpy(tensors, call->inputs, call->input_count * sizeof *tensors);
    tensors[call->input_count] = call->outputs[0];
    for (uint32_t i = 0; i <= call->input_count; i++) {
        op_type *type = &tensors[i].type;
        if (i == 1 || type->shape.rank <= BAND_AXIS) continue;
        type->shape.dims[BAND_AXIS] = i ? rows : (rows - 1) * window.stride + window.extent;
        if (channels_last) type->layout = OP_LAYOUT_NHWC;
    }
    for (int32_t i = 1; i < whole.rank; i++) {
        pads[i] = whole.before[i];
        pads[whole.rank + i] = whole.after[i];
    }
    size_t count = 0;
    for (size_t i = 0; i < call->attributes.count; i++) {
        const op_attribute *attribute = &call->attributes.items[i];
        if (strcmp(attribute->name, "pads") != 0 && strcmp(attribute->name, "auto_pad") != 0)
            attributes[count++] = *attribute;
    }
    attributes[count++] = (op_attribute){
        .name = "pads", .kind = OP_ATTRIBUTE_INTS, .count = 2 * (size_t)whole.rank, .as.integers = pads};
    call->inputs = tensors;
    call->outputs = &tensors[call->input_count];
    call->attributes = (op_attributes){count, attributes};
    return call;
}

bool band_estimate_fast(const ir_node *node, int64_t rows, bool channels_last, size_t scratch,
                        const rt_environment *environment, base_arena *arena, band_fast *fast) {
    const op_call *call = node->code == OP_CONV ? call_on_rows(node, rows, channels_last, arena) : NULL;
    const rt_kernel *kernel;
    bool any = false;
    for (unsigned i = 0; call && (kernel = rt_kernel_candidate(node->code, i)); i++) {
        rt_cost cost;
        if (!kernel->estimate || !kernel->pack || kernel->prefer || !rt_kernel_allowed(kernel, environment) ||
            !kernel->estimate(call, environment, scratch, &cost) || (any && cost.seconds >= fast->seconds))
            continue;
        *fast = (band_fast){cost.seconds, (double)cost.scratch_bytes};
        any = true;
    }
    return any;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* estimate.c: see estimate.h. */
#include "passes/bands/estimate.h"
#include "passes/bands/row_maps.h"
#include "ir/operators/window.h"
#include "passes/layout/layout.h"
#include <string.h>

/* How much slower a kernel is on one row, as a part of its time, was fitted to processor seconds of MobileNetV2, ResNet-50 and SqueezeNet at
 * several limits with AVX2, and to those of the kernels of eleven networks with AVX-512. There a convolution of single points takes as long
 * as some more positions would; larger windows are as fast on few rows as on many. */
static const double SLOWER = 0.1, SLOWER_DENSE = 0.08, SLOWER_DEPTHWISE = 0.3;
static const double SLOWER_DENSE_WIDE = 0.03, SLOWER_DEPTHWISE_WIDE = 0.5, POSITIONS_WIDE = 13;
static const band_rates narrow = {.products = 50e9, .moved = 10e9, .copied = 30e9, .step = 0.5e-6};
static const band_rates wide = {
    .products = 125e9, .moved = 25e9, .copied = 100e9, .step = 0.25e-6, .wide = true};

band_rates band_rates_of(const rt_environment *environment) {
    char machine[256];
    const char *text = rt_machine_describe(environment->portable_only, machine, sizeof machine);
    return !environment->portable_only && strstr(text, "avx512") ? wide : narrow;
}

/* A product reads its right matrix anew for each band. */
static void estimate_product(const ir_node *node, int threads, const band_rates *rates, band_estimate *own) {
    const op_shape *left = &ir_input(node, 0)->type.shape, *result = &node->outputs[0]->type.shape;
    double products = 1;
    for (int32_t i = 0; i < result->rank; i++) products *= (double)result->dims[i];
    const double columns = (double)result->dims[result->rank - 1], inner = (double)left->dims[left->rank - 1];
    own->seconds += products * inner / rates->products / threads;
    own->overhead =
        (double)band_node_rows(node) * columns * inner * sizeof(float) / rates->copied / own->seconds;
}

static double slower_on_one_row(const op_shape *weights, const op_shape *y, const band_rates *rates,
                                const band_estimate *own) {
    if (weights->dims[1] == 1) return rates->wide ? SLOWER_DEPTHWISE_WIDE : SLOWER_DEPTHWISE;
    if (!rates->wide) return SLOWER_DENSE;
    for (int32_t i = 2; i < weights->rank; i++)
        if (weights->dims[i] != 1) return SLOWER_DENSE_WIDE;
    double positions = 1;
    for (int32_t i = BAND_AXIS + 1; i < y->rank; i++) positions *= (double)y->dims[i];
    return POSITIONS_WIDE / positions * own->products / own->seconds;
}

static void estimate_convolution(const ir_node *node, int threads, const band_rates *rates,
                                 band_estimate *own) {
    const op_shape *weights = &band_window_weights(node)->type.shape, *y = &node->outputs[0]->type.shape;
    double products = (double)y->dims[0];
    for (int32_t i = 0; i < weights->rank; i++) products *= (double)weights->dims[i];
    for (int32_t i = 2; i < y->rank; i++) products *= (double)y->dims[i];
    own->products = products / rates->products / threads;
    own->seconds += own->products;
    own->overhead = slower_on_one_row(weights, y, rates, own);
}

/* What the kernel that will be chosen works in; 0 where that is not known yet. */
static double scratch_of(const ir_node *node, const rt_environment *environment, base_arena *arena) {
    op_call call;
    rt_prepared prepared;
    base_report unheard = {0};
    if (node->graph_count || ir_node_has_lists(node) || !pass_shapes_known(node) ||
        (op_schema_of(node->code)->flags & OP_FLAG_DYNAMIC) || !ir_node_call(node, arena, &call))
        return 0;
    const rt_kernel *kernel = rt_kernel_select(&call, environment);
    if (!kernel) return 0;
    const base_status status = rt_kernel_prepare(kernel, &call, environment, arena, &prepared, &unheard);
    const double bytes = status == BASE_OK ? (double)prepared.scratch_bytes : 0;
    rt_kernel_release(&prepared);
    return bytes;
}

band_estimate band_estimate_node(const ir_node *node, bool by_rows, double bytes,
                                 const rt_environment *environment, base_arena *arena) {
    const int threads = environment->threads > 0 ? environment->threads : 1;
    band_estimate own = {.scratch = scratch_of(node, environment, arena)};
    if (!by_rows) return own;
    double moved = bytes;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        size_t read;
        if (input && !input->constant && op_type_bytes(&input->type, &read)) moved += (double)read;
    }
    const band_rates rates = band_rates_of(environment);
    own.seconds = moved / rates.moved;
    own.overhead = SLOWER;
    if (node->code == OP_MATMUL) estimate_product(node, threads, &rates, &own);
    if (band_window_weights(node)) estimate_convolution(node, threads, &rates, &own);
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

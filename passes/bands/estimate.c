/* SPDX-License-Identifier: Apache-2.0 */
/* estimate.c: see estimate.h. */
#include "passes/bands/estimate.h"
#include "passes/bands/row_maps.h"
#include "passes/layout/layout.h"

/* Products a second of one core, as in runtime/kernels/portable/cost.c. How much slower a kernel is on one row, as a part of its time, was
 * fitted to processor seconds of MobileNetV2, ResNet-50 and SqueezeNet at several limits. */
static const double PRODUCTS = 50e9;
static const double SLOWER = 0.1, SLOWER_DENSE = 0.08, SLOWER_DEPTHWISE = 0.3;

/* A product reads its right matrix anew for each band. */
static void estimate_product(const ir_node *node, int threads, band_estimate *own) {
    const op_shape *left = &ir_input(node, 0)->type.shape, *result = &node->outputs[0]->type.shape;
    double products = 1;
    for (int32_t i = 0; i < result->rank; i++) products *= (double)result->dims[i];
    const double columns = (double)result->dims[result->rank - 1], inner = (double)left->dims[left->rank - 1];
    own->seconds += products * inner / PRODUCTS / threads;
    own->overhead =
        (double)band_node_rows(node) * columns * inner * sizeof(float) / BAND_COPIED / own->seconds;
}

static void estimate_convolution(const ir_node *node, int threads, band_estimate *own) {
    const op_shape *weights = &band_window_weights(node)->type.shape, *y = &node->outputs[0]->type.shape;
    double products = (double)y->dims[0];
    for (int32_t i = 0; i < weights->rank; i++) products *= (double)weights->dims[i];
    for (int32_t i = 2; i < y->rank; i++) products *= (double)y->dims[i];
    own->seconds += products / PRODUCTS / threads;
    own->overhead = weights->dims[1] == 1 ? SLOWER_DEPTHWISE : SLOWER_DENSE;
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
    own.seconds = moved / BAND_MOVED;
    own.overhead = SLOWER;
    if (node->code == OP_MATMUL) estimate_product(node, threads, &own);
    if (band_window_weights(node)) estimate_convolution(node, threads, &own);
    return own;
}

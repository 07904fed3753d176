/* SPDX-License-Identifier: Apache-2.0 */
/* joined.c: see joined.h. */
#include "passes/bands/joined.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/joined.h"
#include <string.h>

bool band_reads_joined(const ir_node *node, const rt_environment *environment, base_arena *arena) {
    op_call call;
    if ((node->code != OP_CONV && node->code != OP_SHUFFLED_CONV && node->code != OP_MAX_POOL) ||
        !rt_has_wide_vectors(environment) || !ir_node_call(node, arena, &call))
        return false;
    if (node->code == OP_MAX_POOL) return rt_joined_pool_stands_for(&call);
    const ir_value *weights = ir_input(node, 1);
    if (!weights->constant || !rt_joined_convolution_stands_for(&call)) return false;
    /* The whole would be computed by the same sums. */
    const rt_kernel *kernel = rt_kernel_select(&call, environment);
    return kernel && strcmp(kernel->name, "portable.convolution") == 0;
}

bool band_all_read_joined(const band_region *region, const ir_value *value, const rt_environment *environment,
                          base_arena *arena) {
    if (!band_region_maker(region, value)) return false;
    for (const ir_use *use = value->uses; use; use = use->next)
        if (use->node && use->node->graph == region->graph && region->places[use->node->id.index] &&
            (use->index || !band_reads_joined(use->node, environment, arena)))
            return false;
    return true;
}

op_code band_joined_code(const ir_node *node) {
    return node->code == OP_MAX_POOL ? OP_JOINED_MAX_POOL : OP_JOINED_CONV;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* global_pools.c: see global_pools.h.
 *
 *     %y: [1,512,1,1] = GlobalAveragePool(%x: [1,512,14,14])
 *  => %r: [1,512,14,1] = AveragePool(%x) {kernel_shape = [1, 14]}  %y = GlobalAveragePool(%r)
 */
#include "passes/bands/global_pools.h"
#include "passes/bands/row_maps.h"
#include "runtime/kernels/table.h"

enum { IMAGE_RANK = BAND_AXIS + 2 };

/* A mean over rows and columns, in any order. */
static bool is_mean_of_map(const ir_node *node) {
    const ir_value *axes = ir_input(node, 1);
    if (node->code != OP_REDUCE_MEAN || !axes || !axes->constant || axes->type.dtype != OP_INT64 ||
        axes->type.shape.rank != 1 || axes->type.shape.dims[0] != 2)
        return false;
    const int64_t *list = axes->constant->tensor.data;
    const int64_t a = list[0] < 0 ? list[0] + IMAGE_RANK : list[0],
                  b = list[1] < 0 ? list[1] + IMAGE_RANK : list[1];
    return a + b == BAND_AXIS + BAND_AXIS + 1 && (a == BAND_AXIS || b == BAND_AXIS);
}

static bool is_split(const ir_node *node, bool same_bits) {
    const ir_value *map = node->input_count ? ir_input(node, 0) : NULL;
    if (!map || map->kind != IR_RESULT_OF_NODE || node->output_count != 1) return false;
    const op_shape *shape = &map->type.shape;
    if (map->type.dtype != OP_FLOAT || shape->rank != IMAGE_RANK || !op_shape_known(shape) ||
        shape->dims[BAND_AXIS] < 2 || shape->dims[BAND_AXIS + 1] < 2)
        return false;
    return node->code == OP_GLOBAL_MAX_POOL ||
           (!same_bits && (node->code == OP_GLOBAL_AVERAGE_POOL || is_mean_of_map(node)));
}

static op_code pool_of(const ir_node *node) {
    return node->code == OP_GLOBAL_MAX_POOL ? OP_MAX_POOL : OP_AVERAGE_POOL;
}

/* The attributes of a pool of each row of a map this wide. */
static bool set_window(ir_module *module, int64_t width, op_attributes *attributes) {
    const int64_t kernel[] = {1, width}, strides[] = {1, 1}, pads[] = {0, 0, 0, 0};
    const op_attribute items[] = {
        {.name = "kernel_shape", .kind = OP_ATTRIBUTE_INTS, .count = 2, .as.integers = kernel},
        {.name = "strides", .kind = OP_ATTRIBUTE_INTS, .count = 2, .as.integers = strides},
        {.name = "pads", .kind = OP_ATTRIBUTE_INTS, .count = 4, .as.integers = pads}};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        if (!ir_attribute_set(module, attributes, &items[i])) return false;
    return true;
}

/* Whether a kernel pools the rows of the map as it lies: one that reads blocks of channels is not in every build. */
static bool has_kernel(const ir_node *node, const op_attributes *attributes, const op_type *rows,
                       const rt_environment *environment) {
    const op_tensor map = {.type = ir_input(node, 0)->type};
    op_tensor result = {.type = *rows};
    const op_call call = {.code = pool_of(node),
                          .attributes = *attributes,
                          .input_count = 1,
                          .inputs = &map,
                          .output_count = 1,
                          .outputs = &result};
    return rt_kernel_select(&call, environment) != NULL;
}

/* The node reads a pool of each row of what it read, where there is a kernel for that. False when memory runs out. */
static bool split(ir_node *node, const rt_environment *environment) {
    ir_value *map = ir_input(node, 0);
    op_attributes attributes = {0};
    op_type type = map->type;
    type.shape.dims[BAND_AXIS + 1] = 1;
    if (!set_window(node->graph->module, map->type.shape.dims[BAND_AXIS + 1], &attributes)) return false;
    if (!has_kernel(node, &attributes, &type, environment)) return true;
    ir_node *pool =
        ir_node_new(node->graph, node, pool_of(node), node->name, node->path, attributes, 1, &map);
    ir_value *rows = pool ? ir_node_add_output(pool, map->name, &type) : NULL;
    return rows && ir_node_set_input(node, 0, rows);
}

bool band_split_global_pools(ir_graph *graph, const rt_environment *environment) {
    for (ir_node *node = graph->first; node; node = node->next)
        if (is_split(node, environment->portable_only) && !split(node, environment)) return false;
    return true;
}

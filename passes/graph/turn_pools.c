/* SPDX-License-Identifier: Apache-2.0 */
/* turn_pools.c: a MaxPool between a Transpose that puts channels first and one that puts them last again reads its image as it lies.
 *
 *     %t = Transpose(%x: [1,56,56,128]) {perm = [0, 3, 1, 2]}  %p = MaxPool(%t) {kernel_shape = [2, 2]}
 *     %y = Transpose(%p) {perm = [0, 2, 3, 1]}
 *  => %u: [1,1,56,56,128] = Unsqueeze(%x)  %q: [1,1,55,55,128] = MaxPool(%u) {kernel_shape = [2, 2, 1]}  %y = Squeeze(%q)
 *
 * The channels are one more spatial dimension then, in which the window is one element wide; there is one channel, which is all of the
 * image. Unsqueeze and Squeeze move nothing. The maximum of a window is the same number, whatever order it is found in.
 *
 * Only where nothing else reads what the first Transpose and the pool make, so that both Transposes go. That is so where Transposes of
 * neighbours have met their inverses already, and these two have not. For images of one or two spatial dimensions, as kernels of pools have
 * up to three. Floats and bytes, for which there are kernels that take a run of channels at a time; with a few channels these take longer
 * than Transposes do.
 *
 * Needs: types; Transposes stand where they meet their inverses. Breaks: nothing. Guarantees: values stay what they were.
 */
#include "passes/graph/graph.h"

enum { MOST_RANK = 4, MOST_SPATIAL = MOST_RANK - 1, LEAST_FLOATS = 32, LEAST_BYTES = 16 };

/* A Transpose that puts the channels there (`first`), or back. */
static bool moves_channels(const ir_node *node, bool first) {
    const ir_value *made = node && node->output_count == 1 ? node->outputs[0] : NULL;
    const int32_t rank = made ? made->type.shape.rank : -1;
    int64_t order[OP_MAX_RANK];
    if (!made || node->code != OP_TRANSPOSE || rank < 3 || rank > MOST_RANK ||
        !pass_transpose_order(node, rank, order) || order[0] != 0)
        return false;
    for (int32_t i = 1; i < rank; i++) {
        const int64_t from = first ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
        if (order[i] != from) return false;
    }
    return true;
}

/* Sets one attribute of the pool, with a number for the channels after those of the other dimensions, in each of `parts` lists. A list that
 * is not there stays so, as what it means without is right for the channels, too. */
static bool set_list(ir_module *module, op_attributes *attributes, const char *name, size_t parts,
                     int64_t channels) {
    const op_attribute *old = op_attribute_find(attributes, name);
    int64_t numbers[2 * MOST_SPATIAL];
    size_t count = 0;
    if (!old || old->count == 0) return true;
    const size_t each = old->count / parts;
    for (size_t i = 0; i < parts; i++) {
        for (size_t k = 0; k < each; k++) numbers[count++] = old->as.integers[i * each + k];
        numbers[count++] = channels;
    }
    const op_attribute changed = {
        .name = name, .kind = OP_ATTRIBUTE_INTS, .count = count, .as.integers = numbers};
    return ir_attribute_set(module, attributes, &changed);
}

/* The lists of the pool have as many numbers as there are spatial dimensions, or are not there. */
static bool lists_fit(const ir_node *pool, size_t spatial) {
    static const char *const names[] = {"kernel_shape", "strides", "dilations", "pads"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const op_attribute *list = op_attribute_find(&pool->attributes, names[i]);
        if (i == 0 && !list) return false;
        if (list && list->count != 0 && list->count != (i == 3 ? 2 : 1) * spatial) return false;
    }
    return true;
}

static bool is_turned(const ir_node *pool, ir_node **before, ir_node **after) {
    const ir_value *x = ir_input(pool, 0);
    if (pool->code != OP_MAX_POOL || pool->output_count != 1 || !pool->outputs[0] || !x || !x->node ||
        x->node->graph != pool->graph || !moves_channels(x->node, true) ||
        pass_only_reader(x->node, OP_MAX_POOL) != pool)
        return false;
    if (x->type.dtype != OP_FLOAT && x->type.dtype != OP_INT8 && x->type.dtype != OP_UINT8) return false;
    const int64_t least = x->type.dtype == OP_FLOAT ? LEAST_FLOATS : LEAST_BYTES;
    if (x->type.shape.dims[1] < least) return false; /* or an open number */
    *before = x->node;
    *after = pass_only_reader(pool, OP_TRANSPOSE);
    return moves_channels(*after, false) && (*after)->graph == pool->graph &&
           lists_fit(pool, (size_t)x->type.shape.rank - 2);
}

/* A node before `before` that inserts the second dimension, or takes it away. */
static ir_value *with_second(ir_module *module, ir_node *before, op_code code, ir_value *value,
                             const char *name, const op_type *type) {
    static const int64_t second = 1;
    const op_type one = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {1}}};
    ir_value *inputs[] = {value, ir_constant_copy(module, "axes", &one, &second, sizeof second)};
    ir_node *node = inputs[1] ? ir_node_new(before->graph, before, code, before->name, before->path,
                                            (op_attributes){0}, 2, inputs)
                              : NULL;
    return node ? ir_node_add_output(node, name, type) : NULL;
}

/* The type with a second dimension of one element. */
static op_type unsqueezed(const op_type *type) {
    op_type made = *type;
    made.shape.rank++;
    for (int32_t d = made.shape.rank - 1; d > 1; d--) made.shape.dims[d] = type->shape.dims[d - 1];
    made.shape.dims[1] = 1;
    return made;
}

/* False when memory runs out. */
static bool turn(ir_module *module, ir_node *before, ir_node *pool, ir_node *after) {
    ir_value *x = ir_input(before, 0), *y = after->outputs[0];
    const op_type from = unsqueezed(&x->type), to = unsqueezed(&y->type);
    op_attributes attributes = pool->attributes;
    if (!set_list(module, &attributes, "kernel_shape", 1, 1) ||
        !set_list(module, &attributes, "strides", 1, 1) ||
        !set_list(module, &attributes, "dilations", 1, 1) || !set_list(module, &attributes, "pads", 2, 0))
        return false;
    ir_value *input = with_second(module, pool, OP_UNSQUEEZE, x, x->name, &from);
    ir_node *node =
        input ? ir_node_new(pool->graph, pool, OP_MAX_POOL, pool->name, pool->path, attributes, 1, &input)
              : NULL;
    ir_value *most = node ? ir_node_add_output(node, pool->outputs[0]->name, &to) : NULL;
    ir_value *made = most ? with_second(module, after, OP_SQUEEZE, most, y->name, &y->type) : NULL;
    if (!made) return false;
    ir_value_replace(y, made);
    ir_node_remove(after);
    ir_node_remove(pool);
    ir_node_remove(before);
    return true;
}

base_status pass_turn_pools(pass_context *context) {
    const size_t count = context->module->node_count;
    for (size_t n = 1; n < count; n++) {
        ir_node *pool = context->module->nodes[n], *before, *after;
        if (pool && is_turned(pool, &before, &after) && !turn(context->module, before, pool, after))
            return base_fail_memory(context->report);
    }
    return BASE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* resizes.c: see resizes.h.
 *
 *     %y: [1,24,80,80] = Resize(%x: [1,24,10,10], _, {1, 1, 8, 8}) {mode = "nearest", coordinate_transformation_mode = "align_corners"}
 *  => %r: [1,24,80,10] = Gather(%x, {0, 0, 0, 0, 0, 1, ...}) {axis = 2}
 *     %y = Resize(%r, _, {1, 1, 1, 8}) {...}
 *
 * Corners that lie on corners spread the rows of the image unevenly: no band is like the one before it, but for the indices of the Gather.
 */
#include "passes/bands/resizes.h"
#include "passes/bands/row_maps.h"
#include "passes/base/pass.h"
#include <string.h>

enum { SCALES = 2, SIZES = 3 };

/* Which of the inputs says how large the result is; 0: none does in a way that is known here. */
static uint32_t list_of(const ir_node *node) {
    for (uint32_t i = SCALES; i <= SIZES; i++) {
        const ir_value *list = ir_input(node, i);
        if (!list || (list->type.shape.rank == 1 && list->type.shape.dims[0] == 0)) continue;
        return list->constant && list->type.shape.rank == 1 &&
                       list->type.shape.dims[0] == ir_input(node, 0)->type.shape.rank &&
                       list->type.dtype == (i == SCALES ? OP_FLOAT : OP_INT64)
                   ? i
                   : 0;
    }
    return 0;
}

static bool takes_nearest_rows(const ir_node *node) {
    if (node->code != OP_RESIZE || node->output_count != 1 ||
        !op_shape_known(&ir_input(node, 0)->type.shape) || !op_shape_known(&node->outputs[0]->type.shape) ||
        !list_of(node))
        return false;
    const op_attributes *attributes = &node->attributes;
    const op_shape *image = &ir_input(node, 0)->type.shape, *result = &node->outputs[0]->type.shape;
    return image->rank > BAND_AXIS && op_attribute_is(attributes, "mode", "nearest", "nearest") &&
           pass_resize_keeps_places(node) && image->dims[BAND_AXIS] > 0 &&
           result->dims[BAND_AXIS] >= 2 * image->dims[BAND_AXIS] &&
           result->dims[BAND_AXIS] % image->dims[BAND_AXIS] == 0;
}

/* The list with another entry for the rows; of a copy that is about rows alone, 1 for all other axes. NULL when memory runs out. */
static void *changed_list(const ir_value *list, bool is_sizes, int64_t rows, bool alone, base_arena *arena) {
    const int64_t count = list->type.shape.dims[0];
    const size_t each = is_sizes ? sizeof(int64_t) : sizeof(float);
    void *copy = base_arena_alloc(arena, (size_t)count, each);
    if (!copy) return NULL;
    memcpy(copy, list->constant->tensor.data, (size_t)count * each);
    for (int64_t i = 0; i < count; i++) {
        const bool is_rows = i == BAND_AXIS;
        if (is_rows == alone) continue;
        if (is_sizes) ((int64_t *)copy)[i] = is_rows ? rows : 1;
        else ((float *)copy)[i] = 1;
    }
    return copy;
}

/* Which row of the image each row of the result is: what the operator makes of an image of the numbers of its rows. NULL when memory runs out;
 * *fine is false where it makes nothing. */
static int64_t *rows_of(const ir_node *node, const rt_environment *environment, base_arena *arena,
                        bool *fine) {
    const uint32_t at = list_of(node);
    const op_shape *image = &ir_input(node, 0)->type.shape;
    const int64_t from = image->dims[BAND_AXIS], to = band_node_rows(node);
    op_tensor inputs[SIZES + 1] = {0}, output;
    op_type type = {.dtype = OP_FLOAT, .shape = {.rank = image->rank}};
    for (int32_t i = 0; i < image->rank; i++) type.shape.dims[i] = i == BAND_AXIS ? from : 1;
    float *numbers = BASE_ARRAY(arena, float, (size_t)from);
    int64_t *rows = BASE_ARRAY(arena, int64_t, (size_t)to);
    void *list = changed_list(ir_input(node, at), at == SIZES, to, true, arena);
    if (!numbers || !rows || !list) return NULL;
    for (int64_t i = 0; i < from; i++) numbers[i] = (float)i;
    inputs[0] = (op_tensor){.type = type, .bytes = (size_t)from * sizeof(float), .data = numbers};
    inputs[at] = ir_input(node, at)->constant->tensor;
    inputs[at].data = list;
    type.shape.dims[BAND_AXIS] = to;
    output = (op_tensor){.type = type};
    const op_call call = {.code = OP_RESIZE,
                          .attributes = node->attributes,
                          .input_count = at + 1,
                          .output_count = 1,
                          .inputs = inputs,
                          .outputs = &output,
                          .arena = arena};
    base_report unheard = {0};
    *fine = rt_kernel_evaluate(&call, environment, arena, &unheard) == BASE_OK;
    for (int64_t i = 0; i < to && *fine; i++) rows[i] = (int64_t)((const float *)output.data)[i];
    return rows;
}

static bool gather(ir_node *node, const int64_t *rows, base_arena *arena) {
    ir_module *module = node->graph->module;
    const uint32_t at = list_of(node);
    const ir_value *list = ir_input(node, at);
    const int64_t to = band_node_rows(node);
    ir_value *image = ir_input(node, 0);
    const op_type numbers = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {to}}};
    const op_attribute axis = {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = BAND_AXIS};
    op_attributes attributes = {0};
    void *changed = changed_list(list, at == SIZES, to, false, arena);
    ir_value *order = ir_constant_copy(module, "rows", &numbers, rows, (size_t)to * sizeof *rows);
    ir_value *stays =
        changed ? ir_constant_copy(module, "rows", &list->type, changed, list->constant->tensor.bytes) : NULL;
    if (!order || !stays || !ir_attribute_set(module, &attributes, &axis)) return false;
    ir_value *inputs[] = {image, order};
    ir_node *taken = ir_node_new(node->graph, node, OP_GATHER, node->name, node->path, attributes, 2, inputs);
    op_type type = image->type;
    type.shape.dims[BAND_AXIS] = to;
    ir_value *made = taken ? ir_node_add_output(taken, image->name, &type) : NULL;
    return made && ir_node_set_input(node, 0, made) && ir_node_set_input(node, at, stays);
}

bool band_gather_resized_rows(ir_graph *graph, const rt_environment *environment, base_arena *arena) {
    bool done = true;
    for (ir_node *node = graph->first; node && done; node = node->next) {
        bool fine = false;
        if (!takes_nearest_rows(node) || band_node_supported(node, arena)) continue;
        const int64_t *rows = rows_of(node, environment, arena, &fine);
        done = rows && (!fine || gather(node, rows, arena));
        base_arena_free(arena);
    }
    return done;
}

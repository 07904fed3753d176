/* SPDX-License-Identifier: Apache-2.0 */
/* unfold_phases.c: a convolution of an image's phases, put side by side as channels, becomes one of the image.
 *
 *     %a = Slice(%x, every second row and column from 0, 0)  ... %d = Slice(%x, ... from 1, 1)
 *     %f = Concat(%a, %b, %c, %d) {axis = 1}  %y = Conv(%f, %w: [16,12,3,3]) {pads = [1, 1, 1, 1]}
 *  => %y = Conv(%x, %v: [16,3,6,6]) {pads = [2, 2, 2, 2], strides = [2, 2]}
 *
 * Detectors of the YOLO family begin so, to see an image at half its size ("Focus"). The sums are the same ones in another order, and the
 * image is read where it lies: no slices are copied, and kernels have forms of their own for images of few channels. SpaceToDepth is the
 * same in one node.
 *
 * All phases, each once, of an image of known extents that the stride divides, read by this convolution alone; at most as many channels as
 * such kernels take. Not with exact arithmetic. Only for oneDNN's kernels on machines with AVX-512, where it was measured: with more channels, or narrower
 * vectors, the smaller windows have faster kernels.
 *
 * Needs: types; activations and residuals are fused. Breaks: that somebody reads every node and constant. Guarantees: values stay what they
 * were, up to rounding.
 */
#include "ir/operators/window.h"
#include "passes/graph/graph.h"
#include "runtime/kernels/portable/cost.h"
#include <string.h>

enum { MOST_CHANNELS = 4, MOST_STRIDE = 4, MOST_PHASES = MOST_STRIDE * MOST_STRIDE };

/* Phases of an image, in the order of their channels. */
typedef struct phases {
    ir_value *image;
    int64_t stride, count;
    int64_t first[MOST_PHASES][2]; /* row and column */
} phases;

/* The only reader of what `node` makes is `reader`. */
static bool is_read_by(const ir_value *value, const ir_node *reader) {
    return value->uses && !value->uses->next && value->uses->node == reader;
}

static const int64_t *constant_integers(const ir_node *node, uint32_t input, int64_t count) {
    const ir_value *value = ir_input(node, input);
    int64_t own;
    return value && value->constant && value->type.dtype == OP_INT64 &&
                   op_shape_elements(&value->type.shape, &own) && own == count
               ? value->constant->tensor.data
               : NULL;
}

/* A Slice that takes rows and columns to their ends, and all of other axes. `first` and `step`, which count its result, count its input
 * then. */
static bool read_slice(const ir_node *node, int64_t first[2], int64_t step[2]) {
    const op_shape *from = &ir_input(node, 0)->type.shape, *to = &node->outputs[0]->type.shape;
    const ir_value *starts = ir_input(node, 1);
    int64_t count;
    if (from->rank != 4 || to->rank != 4 || !starts || !op_shape_elements(&starts->type.shape, &count))
        return false;
    const int64_t *start = constant_integers(node, 1, count), *axes = constant_integers(node, 3, count),
                  *steps = constant_integers(node, 4, count);
    if (!start || (ir_input(node, 3) && !axes) || (ir_input(node, 4) && !steps)) return false;
    for (int64_t i = 0; i < count; i++) {
        const int64_t axis = axes ? (axes[i] < 0 ? axes[i] + 4 : axes[i]) : i, by = steps ? steps[i] : 1;
        if (axis < 2 || axis > 3 || by < 1 || by > MOST_STRIDE || start[i] < 0 || start[i] >= by)
            return false;
        if (from->dims[axis] < 0 || to->dims[axis] != (from->dims[axis] - start[i] + by - 1) / by)
            return false;
        first[axis - 2] = start[i] + by * first[axis - 2];
        step[axis - 2] *= by;
    }
    return true;
}

/* The value of which `part` is a phase, by one Slice after another. */
static ir_value *read_phase(ir_value *part, const ir_node *reader, int64_t first[2], int64_t step[2]) {
    first[0] = first[1] = 0;
    step[0] = step[1] = 1;
    while (part->node && part->node->code == OP_SLICE && part->node->graph == reader->graph) {
        if (!read_slice(part->node, first, step)) return NULL;
        part = ir_input(part->node, 0);
    }
    return part;
}

static bool read_joined(const ir_node *concat, phases *of) {
    if (op_attribute_integer(&concat->attributes, "axis", 0) != 1) return false;
    for (uint32_t i = 0; i < concat->input_count; i++) {
        int64_t step[2];
        if (of->count == MOST_PHASES) return false;
        ir_value *image = read_phase(ir_input(concat, i), concat, of->first[of->count], step);
        if (!image || step[0] != step[1] || (i && (image != of->image || step[0] != of->stride)))
            return false;
        of->image = image;
        of->stride = step[0];
        of->count++;
    }
    return true;
}

static bool read_blocks(const ir_node *node, phases *of) {
    of->image = ir_input(node, 0);
    of->stride = op_attribute_integer(&node->attributes, "blocksize", 0);
    if (of->stride < 2 || of->stride > MOST_STRIDE) return false;
    for (; of->count < of->stride * of->stride; of->count++) {
        of->first[of->count][0] = of->count / of->stride;
        of->first[of->count][1] = of->count % of->stride;
    }
    return true;
}

/* All phases of one image, each once, of which `node` makes its result. */
static bool read_phases(const ir_node *node, phases *of) {
    bool seen[MOST_PHASES] = {false};
    *of = (phases){0};
    if (!(node->code == OP_CONCAT ? read_joined(node, of)
                                  : node->code == OP_SPACE_TO_DEPTH && read_blocks(node, of)))
        return false;
    const op_type *type = &of->image->type;
    if (of->stride < 2 || of->stride > MOST_STRIDE || of->count != of->stride * of->stride ||
        of->image->constant)
        return false;
    if (type->dtype != OP_FLOAT || type->shape.rank != 4 || type->shape.dims[1] < 1 ||
        type->shape.dims[1] > MOST_CHANNELS)
        return false;
    for (int i = 2; i < 4; i++)
        if (type->shape.dims[i] < 1 || type->shape.dims[i] % of->stride != 0) return false;
    for (int64_t i = 0; i < of->count; i++) {
        const int64_t at = of->first[i][0] * of->stride + of->first[i][1];
        if (seen[at]) return false;
        seen[at] = true;
    }
    return true;
}

/* The weights, each where its phase has it. NULL when memory runs out, or for more than can be. */
static ir_value *unfold_weights(ir_module *module, const ir_value *weights, const phases *of) {
    const op_shape *small = &weights->type.shape;
    const int64_t channels = of->image->type.shape.dims[1], stride = of->stride;
    op_type type = weights->type;
    int64_t count;
    size_t bytes;
    void *memory;
    type.shape = (op_shape){.rank = 4, .dims = {small->dims[0], channels}};
    for (int i = 2; i < 4; i++)
        if (!base_int64_multiply(small->dims[i], stride, &type.shape.dims[i])) return NULL;
    if (!op_shape_elements(small, &count) || !op_type_bytes(&type, &bytes)) return NULL;
    ir_value *unfolded = ir_constant_reserve(module, weights->name, &type, bytes, &memory);
    const float *from = weights->constant->tensor.data;
    float *to = memory;
    for (int64_t i = 0; unfolded && i < count; i++) {
        const int64_t x = i % small->dims[3], y = i / small->dims[3] % small->dims[2],
                      map = i / small->dims[3] / small->dims[2], channel = map % small->dims[1],
                      *first = of->first[channel / channels];
        const int64_t row = (map / small->dims[1] * channels + channel % channels) * type.shape.dims[2] +
                            y * stride + first[0];
        to[row * type.shape.dims[3] + x * stride + first[1]] = from[i];
    }
    return unfolded;
}

static bool set_integers(ir_module *module, op_attributes *attributes, const char *name, size_t count,
                         const int64_t *values) {
    const op_attribute attribute = {
        .name = name, .kind = OP_ATTRIBUTE_INTS, .count = count, .as.integers = values};
    return ir_attribute_set(module, attributes, &attribute);
}

/* False when memory runs out. */
static bool unfold(ir_module *module, ir_node *node, const phases *of, const op_window *window) {
    int64_t kernel[2], pads[4];
    const int64_t strides[2] = {of->stride, of->stride};
    for (int i = 0; i < 2; i++) {
        kernel[i] = window->kernel[i] * of->stride;
        pads[i] = window->before[i] * of->stride;
        pads[2 + i] = window->after[i] * of->stride;
    }
    ir_value *weights = unfold_weights(module, ir_input(node, 1), of);
    return weights && set_integers(module, &node->attributes, "kernel_shape", 2, kernel) &&
           set_integers(module, &node->attributes, "pads", 4, pads) &&
           set_integers(module, &node->attributes, "strides", 2, strides) &&
           ir_node_set_input(node, 1, weights) && ir_node_set_input(node, 0, of->image);
}

/* A convolution of all channels in steps of one, whose weights are known. */
static bool read_convolution(const ir_node *node, const op_call *call, op_window *window) {
    const ir_value *weights = ir_input(node, 1), *x = ir_input(node, 0);
    if (!x || !x->node || x->node->graph != node->graph || !is_read_by(x, node) || !weights ||
        !weights->constant || weights->type.dtype != OP_FLOAT ||
        weights->type.layout != OP_LAYOUT_ROW_MAJOR || weights->type.shape.rank != 4 ||
        op_attribute_integer(&node->attributes, "group", 1) != 1 ||
        !op_attribute_is(&node->attributes, "auto_pad", "NOTSET", "NOTSET"))
        return false;
    if (op_window_read(call, weights->type.shape.dims + 2, window, NULL) != BASE_OK) return false;
    for (int i = 0; i < 2; i++)
        if (window->stride[i] != 1 || window->dilation[i] != 1) return false;
    return true;
}

base_status pass_unfold_phases(pass_context *context) {
    ir_module *module = context->module;
    const rt_environment *environment = &context->options->environment;
    if (context->options->exact_arithmetic || !rt_has_wide_vectors(environment) ||
        !rt_kernel_exists(OP_CONV, "onednn.convolution"))
        return BASE_OK;
    for (size_t n = 1; n < module->node_count; n++) {
        ir_node *node = module->nodes[n];
        op_call call;
        op_window window;
        phases of;
        if (!node || node->code != OP_CONV || !ir_input(node, 0) || !ir_input(node, 0)->node ||
            !read_phases(ir_input(node, 0)->node, &of))
            continue;
        if (!ir_node_call(node, context->scratch, &call)) return base_fail_memory(context->report);
        if (!read_convolution(node, &call, &window)) continue;
        if (!unfold(module, node, &of, &window)) return base_fail_memory(context->report);
    }
    return BASE_OK;
}

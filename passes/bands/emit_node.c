/* SPDX-License-Identifier: Apache-2.0 */
/* emit_node.c: see emit_node.h. */
#include "passes/bands/emit_node.h"
#include "passes/bands/joined.h"
#include "ir/operators/window.h"
#include <string.h>

/* What the weights are packed for stays that of the whole. */
static void keep_packing(band_emitter *e, const ir_node *node, op_attributes *attributes) {
    const op_shape *image = &ir_input(node, 0)->type.shape;
    if (op_attribute_find(attributes, "ouro.packed_extents")) return;
    band_set_attribute(e, attributes,
                       &(op_attribute){.name = "ouro.packed_extents",
                                       .kind = OP_ATTRIBUTE_INTS,
                                       .count = (size_t)image->rank,
                                       .as.integers = image->dims});
}

static void pad_explicitly(band_emitter *e, op_attributes *attributes) {
    if (op_attribute_find(attributes, "auto_pad"))
        band_set_attribute(e, attributes,
                           &(op_attribute){.name = "auto_pad",
                                           .kind = OP_ATTRIBUTE_STRING,
                                           .count = 1,
                                           .as.text = {"NOTSET", strlen("NOTSET")}});
}

/* The window of a band has the padding of this band only. What the weights are packed for, and how sums are ordered, is that
 * of the whole. */
static op_attributes window_attributes(band_emitter *e, const band_node *node, int64_t above, int64_t below) {
    op_attributes attributes = node->node->attributes;
    op_call call;
    op_window window;
    if (e->status == BASE_OK && !ir_node_call(node->node, e->arena, &call)) band_fail_memory(e);
    if (e->status != BASE_OK) return attributes;
    const ir_value *weights = band_window_weights(node->node);
    e->status = op_window_read(&call, weights ? weights->type.shape.dims + 2 : NULL, &window, e->report);
    int64_t pads[2 * OP_WINDOW_RANK];
    for (int32_t i = 0; i < window.rank; i++) {
        pads[i] = i ? window.before[i] : above;
        pads[window.rank + i] = i ? window.after[i] : below;
    }
    band_set_attribute(e, &attributes,
                       &(op_attribute){.name = "pads",
                                       .kind = OP_ATTRIBUTE_INTS,
                                       .count = 2 * (size_t)window.rank,
                                       .as.integers = pads});
    pad_explicitly(e, &attributes);
    /* Integer convolutions pack nothing: it tells them that memory is short. */
    if (weights) keep_packing(e, node->node, &attributes);
    return attributes;
}

/* What some rows of the input, from `seen` on, make of a transposed convolution, cut off before and after these rows. */
static op_attributes transposed_attributes(band_emitter *e, const band_node *node, band_rows seen,
                                           band_rows made) {
    op_attributes attributes = node->node->attributes;
    op_call call;
    op_transposed window;
    if (e->status == BASE_OK && !ir_node_call(node->node, e->arena, &call)) band_fail_memory(e);
    if (e->status == BASE_OK && !op_transposed_read(&call, &window, e->report)) e->status = BASE_INVALID;
    if (e->status != BASE_OK) return attributes;
    int64_t pads[2 * OP_MAX_RANK], more[OP_MAX_RANK];
    for (int32_t i = 0; i < window.rank; i++) {
        const int64_t rows = i ? window.input[i] : seen.end - seen.first,
                      extent = (window.kernel[i] - 1) * window.dilation[i] + 1,
                      output = i ? window.output[i] : made.end - made.first;
        pads[i] = window.before[i] + (i ? 0 : made.first - seen.first * window.stride[i]);
        const int64_t after = (rows - 1) * window.stride[i] + extent - pads[i] - output;
        pads[window.rank + i] = after > 0 ? after : 0;
        more[i] = after < 0 ? -after : 0;
    }
    band_set_attribute(e, &attributes,
                       &(op_attribute){.name = "pads",
                                       .kind = OP_ATTRIBUTE_INTS,
                                       .count = 2 * (size_t)window.rank,
                                       .as.integers = pads});
    band_set_attribute(e, &attributes,
                       &(op_attribute){.name = "output_padding",
                                       .kind = OP_ATTRIBUTE_INTS,
                                       .count = (size_t)window.rank,
                                       .as.integers = more});
    pad_explicitly(e, &attributes);
    if (op_attribute_find(&attributes, "output_shape") &&
        !ir_attribute_remove(e->module, &attributes, "output_shape"))
        band_fail_memory(e);
    keep_packing(e, node->node, &attributes);
    return attributes;
}

/* A copy of a constant list of integers, one of which is another number. */
static ir_value *changed_list(band_emitter *e, const ir_value *list, int64_t entry, int64_t value) {
    const int64_t count = list->type.shape.dims[0];
    int64_t *values = BASE_ARRAY(e->arena, int64_t, (size_t)count);
    if (!values) {
        band_fail_memory(e);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        values[i] = list->type.dtype == OP_INT32 ? ((const int32_t *)list->constant->tensor.data)[i]
                                                 : ((const int64_t *)list->constant->tensor.data)[i];
    values[entry] = value;
    if (list->type.dtype == OP_INT64) return band_integers(e, 1, count, values);
    int32_t *narrow = BASE_ARRAY(e->arena, int32_t, (size_t)count);
    for (int64_t i = 0; narrow && i < count; i++)
        narrow[i] = values[i] > INT32_MAX ? INT32_MAX : (int32_t)values[i];
    ir_value *made =
        narrow ? ir_constant_copy(e->module, "rows", &list->type, narrow, (size_t)count * sizeof *narrow)
               : NULL;
    if (!made) band_fail_memory(e);
    return made;
}

/* A Slice takes every n-th row from the first one of the band on. */
static void rebase_slice(band_emitter *e, const ir_node *node, ir_value **inputs) {
    const int64_t entry = band_slice_entry(node);
    if (entry < 0 || e->status != BASE_OK) return;
    inputs[1] = changed_list(e, ir_input(node, 1), entry, 0);
    inputs[2] = changed_list(e, ir_input(node, 2), entry, INT32_MAX);
}

/* Of a Gather of rows: where these are in a band that sees the rows from `first` on. In the loop they are those of this iteration. */
static ir_value *rebased_rows(band_emitter *e, const band_node *own, int64_t first, band_rows made) {
    const int64_t *rows = ir_input(own->node, 1)->constant->tensor.data, count = band_count(made);
    const int64_t bands = e->body ? e->region->loop_end - e->region->loop_first : 1;
    const int64_t by = own->advance / own->window.up;
    int64_t *list = BASE_ARRAY(e->arena, int64_t, (size_t)(bands * count));
    bool same = true;
    if (!list) {
        band_fail_memory(e);
        return NULL;
    }
    for (int64_t b = 0; b < bands; b++)
        for (int64_t i = 0; i < count; i++) {
            list[b * count + i] = rows[made.first + b * own->advance + i] - (first + b * by);
            same = same && list[b * count + i] == list[i];
        }
    if (same) return band_integers(e, 1, count, list);
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = 2, .dims = {bands, count}}};
    op_type row = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {count}}};
    ir_value *all = e->status == BASE_OK ? ir_constant_copy(e->module, "rows", &type, list,
                                                            (size_t)(bands * count) * sizeof *list)
                                         : NULL;
    if (!all) {
        band_fail_memory(e);
        return NULL;
    }
    op_attributes attributes = {0};
    band_set_integer(e, &attributes, "axis", 0);
    ir_value *inputs[] = {all, e->body->iteration};
    return band_make(e, OP_GATHER, "rows of a band", attributes, 2, inputs, all, &row);
}

/* Rows of an image from outside whose channels become innermost: one step takes them and changes their layout. False: this is none. */
static bool emit_turned(band_emitter *e, const band_node *own, band_rows made) {
    ir_node *node = own->node;
    ir_value *output = node->outputs[0], *image = ir_input(node, 0);
    if (node->code != OP_REORDER || output->type.layout != OP_LAYOUT_NHWC ||
        image->type.layout != OP_LAYOUT_ROW_MAJOR || image->type.dtype != OP_FLOAT ||
        image->type.shape.rank != 4 || image->type.shape.dims[0] != 1)
        return false;
    const band_tensor *tensor = band_find_tensor(e, image);
    band_tensor *turned = band_find_tensor(e, output);
    if (!tensor || !turned || tensor->maker || tensor->over) return false;
    e->origin = node;
    band_remember(e, turned, band_gather_rows(e, image, made, own->advance, OP_LAYOUT_NHWC), made);
    return true;
}

/* Rows that only go out, in another layout: they are put into the whole as they are, which changes their layout. False: these are
 * others. */
static bool emit_put(band_emitter *e, const band_node *own, band_rows made) {
    ir_node *node = own->node;
    ir_value *output = node->outputs[0], *image = ir_input(node, 0);
    const op_type *type = &output->type;
    if (node->code != OP_REORDER || !own->sink || type->layout == image->type.layout ||
        type->shape.rank != 4 || type->shape.dims[0] != 1 || type->dtype == OP_STRING ||
        op_dtype_bytes(type->dtype) > 4 || !op_dtype_bytes(type->dtype))
        return false;
    band_tensor *tensor = band_find_tensor(e, image), *put = band_find_tensor(e, output);
    if (!tensor || !put || !put->whole) return false;
    e->origin = node;
    band_remember(e, put, band_get_rows(e, tensor, made, own->advance), made);
    return true;
}

/* What RowsConv has of the attributes of the Conv. */
static op_attributes rows_attributes(band_emitter *e, const band_node *own, band_rows made) {
    static const char *const kept[] = {"dilations",       "kernel_shape", "pads",     "strides",
                                       "ouro.activation", "ouro.alpha",   "ouro.beta"};
    const op_attributes all = window_attributes(e, own, 0, 0);
    op_attributes attributes = {0};
    for (size_t i = 0; i < sizeof kept / sizeof *kept && e->status == BASE_OK; i++) {
        const op_attribute *attribute = op_attribute_find(&all, kept[i]);
        if (attribute) band_set_attribute(e, &attributes, attribute);
    }
    band_set_integer(e, &attributes, "rows", band_count(made));
    return attributes;
}

/* A convolution of an image from outside, whose rows are read where they lie (channels_last.c). False: this is none. */
static bool emit_in_place(band_emitter *e, const band_node *own, band_rows made) {
    ir_node *node = own->node;
    ir_value *output = node->outputs[0], *image = ir_input(node, 0);
    if (node->code != OP_CONV || !op_attribute_find(&node->attributes, "ouro.in_place")) return false;
    band_tensor *tensor = band_find_tensor(e, image), *result = band_find_tensor(e, output);
    e->origin = node;
    if (!tensor || !result) return true; /* no memory */
    const int64_t first = band_region_reads(own, 0, made).first;
    ir_value *inputs[] = {
        tensor->over ? tensor->over->whole : image, ir_input(node, 1),
        band_in_band(e, band_integers_from(e, first, 1, 0), own->advance * own->window.stride),
        ir_input(node, 2)};
    const op_type type = band_type_of_rows(output, band_count(made));
    band_remember(e, result,
                  band_make(e, OP_ROWS_CONV, "rows of a band", rows_attributes(e, own, made),
                            inputs[3] ? 4 : 3, inputs, output, &type),
                  made);
    return true;
}

/* A node whose kernel takes rows from two tensors: those that are kept and those that are new need not be put side by side, nor parts of them be cut
 * out. False: this is none, or all that it reads is there as it is. */
static bool emit_joined(band_emitter *e, const band_node *own, band_rows made) {
    ir_node *node = own->node;
    const op_code code = band_joined_code(node);
    if (e->status != BASE_OK || !band_reads_joined(node, e->environment, e->arena)) return false;
    band_tensor *tensor = band_find_tensor(e, ir_input(node, 0)),
                *result = band_find_tensor(e, node->outputs[0]);
    if (!tensor || !result || !band_all_read_joined(e->region, ir_input(node, 0), e->environment, e->arena))
        return false;
    const band_rows seen = band_region_reads(own, 0, made), rows = band_clip(seen, tensor->maker->rows);
    const band_piece *first = band_furthest(tensor, rows.first),
                     *second =
                         first && first->rows.end < rows.end ? band_furthest(tensor, first->rows.end) : NULL;
    for (const band_piece *p = tensor->pieces; p; p = p->next)
        if (p->rows.first == rows.first && p->rows.end == rows.end) return false;
    if (!first || (first->rows.end < rows.end && (!second || second->rows.end < rows.end))) return false;
    e->origin = node;
    const band_rows before = band_common(rows, first->rows),
                    after = {second ? before.end - second->rows.first : 0,
                             second ? rows.end - second->rows.first : 0};
    const op_attributes all = window_attributes(e, own, rows.first - seen.first, seen.end - rows.end);
    op_attributes attributes = {0};
    for (size_t i = 0; i < all.count; i++)
        if (op_takes_attribute(code, all.items[i].name)) band_set_attribute(e, &attributes, &all.items[i]);
    band_set_attribute(
        e, &attributes,
        &(op_attribute){.name = "rows",
                        .kind = OP_ATTRIBUTE_INTS,
                        .count = 4,
                        .as.integers = (int64_t[]){before.first - first->rows.first,
                                                   before.end - first->rows.first, after.first, after.end}});
    tensor->joined = tensor->joined || second;
    const bool pool = code == OP_JOINED_MAX_POOL;
    ir_value *last = second ? second->value : NULL;
    ir_value *inputs[] = {first->value, pool ? last : ir_input(node, 1), pool ? NULL : ir_input(node, 2),
                          last};
    const uint32_t count = (last ? op_joined_second(code) : pool ? 0 : inputs[2] ? 2 : 1) + 1;
    const op_type type = band_type_of_rows(result->original, band_count(made));
    band_remember(e, result,
                  band_make(e, code, "rows of a band", attributes, count, inputs, result->original, &type),
                  made);
    return true;
}

void band_emit_node(band_emitter *e, const band_node *own, band_rows made) {
    ir_node *node = own->node;
    if (emit_in_place(e, own, made) || emit_joined(e, own, made) || emit_turned(e, own, made) ||
        emit_put(e, own, made))
        return;
    ir_value **inputs = BASE_ARRAY(e->arena, ir_value *, node->input_count);
    int64_t above = 0, below = 0;
    band_rows first = {0, 0}; /* of input 0 */
    e->origin = node;
    if (!inputs) band_fail_memory(e);
    for (uint32_t i = 0; i < node->input_count && e->status == BASE_OK; i++) {
        inputs[i] = ir_input(node, i);
        if (band_node_reading(node, i) != BAND_READS_ROWS) continue;
        const band_rows seen = band_region_reads(own, i, made);
        const int64_t rows = inputs[i]->type.shape.dims[BAND_AXIS];
        if (i == 0 && seen.first < 0) above = -seen.first;
        if (i == 0 && seen.end > rows) below = seen.end - rows;
        band_tensor *tensor = band_find_tensor(e, inputs[i]);
        if (i == 0) first = band_clip(seen, rows);
        if (tensor)
            inputs[i] =
                band_get_rows(e, tensor, band_clip(seen, rows),
                              i == 0 ? own->advance * own->window.stride / own->window.up : own->advance);
    }
    if (node->code == OP_SLICE) rebase_slice(e, node, inputs);
    if (node->code == OP_GATHER && own->window.up > 1 && inputs)
        inputs[1] = rebased_rows(e, own, first.first, made);
    op_attributes attributes = band_is_window(node->code)        ? window_attributes(e, own, above, below)
                               : node->code == OP_CONV_TRANSPOSE ? transposed_attributes(e, own, first, made)
                                                                 : node->attributes;
    /* Rows between those of the input and ones that are not there are made, and left out. */
    const band_rows all = node->code == OP_RESIZE
                              ? (band_rows){first.first * own->window.up, first.end * own->window.up}
                              : made;
    if (node->code == OP_RESIZE && inputs && ir_input(node, 3))
        inputs[3] = changed_list(e, ir_input(node, 3), BAND_AXIS, band_count(all));
    ir_node *band = band_make_node(e, node->code, node->reason, attributes, node->input_count, inputs);
    for (uint32_t o = 0; o < node->output_count && e->status == BASE_OK; o++) {
        ir_value *original = node->outputs[o];
        if (!original) {
            if (!ir_node_add_absent_output(band)) band_fail_memory(e);
            continue;
        }
        const op_type type = band_type_of_rows(original, band_count(all));
        ir_value *value = band_make_output(e, band, original, &type);
        if (band_count(all) > band_count(made))
            value = band_slice_rows(e, original, value, made.first - all.first, band_count(made));
        band_tensor *tensor = band_find_tensor(e, original);
        if (tensor) band_remember(e, tensor, value, made);
    }
    band_check_node(e, band);
}

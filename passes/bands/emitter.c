/* SPDX-License-Identifier: Apache-2.0 */
/* emitter.c: see emitter.h. */
#include "passes/bands/emitter.h"
#include "passes/base/pass.h"

void band_fail_memory(band_emitter *e) {
    if (e->status == BASE_OK) e->status = base_fail_memory(e->report);
}

/* ---- making nodes -------------------------------------------------------------------------------------- */

ir_node *band_make_node(band_emitter *e, op_code code, const char *reason, op_attributes attributes,
                        uint32_t count, ir_value *const *inputs) {
    if (e->status != BASE_OK) return NULL;
    ir_node *node =
        ir_node_new(e->graph, e->before, code, e->origin->name, e->origin->path, attributes, count, inputs);
    if (!node) band_fail_memory(e);
    else node->reason = reason;
    return node;
}

ir_value *band_make_output(band_emitter *e, ir_node *node, const ir_value *like, const op_type *type) {
    ir_value *value = e->status == BASE_OK ? ir_node_add_output(node, like->name, type) : NULL;
    if (!value) band_fail_memory(e);
    return value;
}

void band_check_node(band_emitter *e, ir_node *node) {
    op_call call;
    if (e->status != BASE_OK) return;
    ir_node_context(node, e->report);
    if (!ir_node_call(node, e->arena, &call)) {
        band_fail_memory(e);
        return;
    }
    op_type wanted = node->outputs[0]->type;
    e->status = op_infer(&call, e->report);
    if (e->status == BASE_OK && !op_shape_equal(&call.outputs[0].type.shape, &wanted.shape))
        e->status = base_fail(e->report, BASE_INVALID, "a band of %lld rows has another shape",
                              (long long)wanted.shape.dims[BAND_AXIS]);
    base_report_context(e->report, NULL);
}

ir_value *band_make(band_emitter *e, op_code code, const char *reason, op_attributes attributes,
                    uint32_t count, ir_value *const *inputs, const ir_value *like, const op_type *type) {
    ir_node *node = band_make_node(e, code, reason, attributes, count, inputs);
    ir_value *value = band_make_output(e, node, like, type);
    band_check_node(e, node);
    return value;
}

void band_set_attribute(band_emitter *e, op_attributes *attributes, const op_attribute *attribute) {
    if (e->status == BASE_OK && !ir_attribute_set(e->module, attributes, attribute)) band_fail_memory(e);
}

void band_set_integer(band_emitter *e, op_attributes *attributes, const char *name, int64_t value) {
    band_set_attribute(
        e, attributes,
        &(op_attribute){.name = name, .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = value});
}

ir_value *band_integers(band_emitter *e, int32_t rank, int64_t count, const int64_t *values) {
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = rank, .dims = {count}}};
    if (e->status != BASE_OK) return NULL;
    ir_value *value = ir_constant_copy(e->module, "rows", &type, values, (size_t)count * sizeof *values);
    if (!value) band_fail_memory(e);
    return value;
}

ir_value *band_integers_from(band_emitter *e, int64_t first, int64_t count, int64_t step) {
    int64_t *values = BASE_ARRAY(e->arena, int64_t, (size_t)count);
    if (!values) band_fail_memory(e);
    for (int64_t i = 0; values && i < count; i++) values[i] = first + i * step;
    return values ? band_integers(e, 1, count, values) : NULL;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

void band_remember(band_emitter *e, band_tensor *tensor, ir_value *value, band_rows rows) {
    band_piece *made = e->status == BASE_OK ? BASE_NEW(e->arena, band_piece) : NULL;
    if (!made) {
        band_fail_memory(e);
        return;
    }
    *made = (band_piece){value, rows, false, tensor->pieces};
    tensor->pieces = made;
}

ir_value *band_slice_rows(band_emitter *e, const ir_value *original, ir_value *from, int64_t first,
                          int64_t count) {
    const int64_t axis = BAND_AXIS, end = first + count;
    ir_value *inputs[4] = {from};
    inputs[1] = band_integers(e, 1, 1, &first);
    inputs[2] = band_integers(e, 1, 1, &end);
    inputs[3] = band_integers(e, 1, 1, &axis);
    const op_type type = band_type_of_rows(original, count);
    return band_make(e, OP_SLICE, "rows of a band", (op_attributes){0}, 4, inputs, original, &type);
}

/* iteration * advance, a scalar. */
static ir_value *offset_of(band_emitter *e, int64_t advance) {
    band_body *body = e->body;
    const op_type type = {.dtype = OP_INT64};
    if (body->offset && body->advance == advance) return body->offset;
    ir_value *inputs[] = {body->iteration, band_integers(e, 0, 1, &advance)};
    body->advance = advance;
    body->offset =
        band_make(e, OP_MUL, "rows of a band", (op_attributes){0}, 2, inputs, body->iteration, &type);
    return body->offset;
}

ir_value *band_in_band(band_emitter *e, ir_value *base, int64_t advance) {
    if (!e->body || e->status != BASE_OK) return base;
    ir_value *inputs[] = {base, offset_of(e, advance)};
    const op_type type = base->type;
    return band_make(e, OP_ADD, "rows of a band", (op_attributes){0}, 2, inputs, base, &type);
}

ir_value *band_gather_rows(band_emitter *e, ir_value *whole, band_rows rows, int64_t advance,
                           op_layout layout) {
    op_attributes attributes = {0};
    band_set_integer(e, &attributes, "axis", BAND_AXIS);
    ir_value *inputs[] = {whole,
                          band_in_band(e, band_integers_from(e, rows.first, band_count(rows), 1), advance)};
    op_type type = band_type_of_rows(whole, band_count(rows));
    type.layout = layout;
    return band_make(e, OP_GATHER, "rows of a band", attributes, 2, inputs, whole, &type);
}

/* Rows of what comes from outside. */
static ir_value *read_outside(band_emitter *e, band_tensor *tensor, band_rows rows, int64_t advance) {
    ir_value *whole = tensor->over ? tensor->over->whole : tensor->original;
    return e->body ? band_gather_rows(e, whole, rows, advance, whole->type.layout)
                   : band_slice_rows(e, whole, whole, rows.first, band_count(rows));
}

/* Rows of the tensor lie one after another: some of them are a range of its bytes. */
static bool rows_lie_together(const op_type *type) {
    return type->layout == OP_LAYOUT_NHWC && type->shape.dims[0] == 1;
}

ir_value *band_copy_rows(band_emitter *e, const band_tensor *tensor, ir_value *rows) {
    ir_value *copied = e->status == BASE_OK
                           ? pass_copy(e->graph, e->before, rows, tensor->maker->node, PASS_COPY_ROWS)
                           : NULL;
    if (!copied) band_fail_memory(e);
    return copied;
}

ir_value *band_copy_range(band_emitter *e, const band_tensor *tensor, ir_value *rows) {
    return e->status == BASE_OK && rows_lie_together(&rows->type) ? band_copy_rows(e, tensor, rows) : rows;
}

const band_piece *band_furthest(const band_tensor *tensor, int64_t at) {
    const band_piece *best = NULL;
    for (const band_piece *p = tensor->pieces; p; p = p->next)
        if (p->rows.first <= at && at < p->rows.end && (!best || p->rows.end > best->rows.end)) best = p;
    return best;
}

/* Rows of which some were kept and others are new: side by side. */
static ir_value *join(band_emitter *e, band_tensor *tensor, band_rows rows) {
    ir_value *parts[2] = {NULL};
    uint32_t count = 0;
    for (int64_t at = rows.first; at < rows.end && e->status == BASE_OK && count < 2;) {
        const band_piece *best = band_furthest(tensor, at);
        if (!best) break;
        const band_rows part = band_common((band_rows){at, rows.end}, best->rows);
        const bool kept = best->kept;
        parts[count] = band_get_rows(e, tensor, part, 0);
        if (kept) parts[count] = band_copy_range(e, tensor, parts[count]);
        count++;
        at = part.end;
    }
    op_attributes attributes = {0};
    band_set_integer(e, &attributes, "axis", BAND_AXIS);
    const op_type type = band_type_of_rows(tensor->original, band_count(rows));
    return band_make(e, OP_CONCAT, "rows of a band", attributes, count, parts, tensor->original, &type);
}

ir_value *band_get_rows(band_emitter *e, band_tensor *tensor, band_rows rows, int64_t advance) {
    const band_piece *smallest = NULL;
    ir_value *value;
    if (e->status != BASE_OK) return NULL;
    for (const band_piece *p = tensor->pieces; p; p = p->next) {
        if (p->rows.first == rows.first && p->rows.end == rows.end) return p->value;
        if (p->rows.first <= rows.first && rows.end <= p->rows.end &&
            (!smallest || band_count(p->rows) < band_count(smallest->rows)))
            smallest = p;
    }
    if (!tensor->maker) {
        if (band_count(rows) == tensor->original->type.shape.dims[BAND_AXIS] && !tensor->over)
            return tensor->original;
        value = read_outside(e, tensor, rows, advance);
    } else if (smallest) {
        value = band_slice_rows(e, tensor->original, smallest->value, rows.first - smallest->rows.first,
                                band_count(rows));
    } else {
        value = join(e, tensor, rows);
    }
    band_remember(e, tensor, value, rows);
    return value;
}

band_tensor *band_find_tensor(band_emitter *e, ir_value *value) {
    for (band_tensor *tensor = e->all; tensor; tensor = tensor->next)
        if (tensor->original == value) return tensor;
    band_tensor *made = BASE_NEW(e->arena, band_tensor);
    if (!made) {
        band_fail_memory(e);
        return NULL;
    }
    *made = (band_tensor){.original = value, .maker = band_region_maker(e->region, value)};
    *e->last = made;
    e->last = &made->next;
    return made;
}

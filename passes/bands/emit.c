/* SPDX-License-Identifier: Apache-2.0 */
/* emit.c: see emit.h.
 *
 *     %a = Conv(%x, %w)  %b = Conv(%a, %v)                    windows of three rows, bands of two
 *  => %b0 = ConstantOfShape                                   where the whole result will lie
 *     ...                                                     bands that see padding, as those in the loop
 *     %k1, %b1 = Loop(n, _, %k, %b0) {                        k: the last two rows of %a so far
 *       %x2 = Gather(%x, rows of this iteration)
 *       %a2 = Conv(%x2, %w)                                   two more rows of %a
 *       %a4 = Concat(%k, %a2)
 *       %b2 = Conv(%a4, %v)
 *       %b' = TensorScatter(%b, %b2, rows of this iteration)  in place
 *       %k' = Slice(%a4)
 *       yield %k', %b'
 *     }
 *     ...
 *
 * All nodes are operators like others, with shapes that are known: what moves addresses, plans, verifies and draws loops needs
 * to know nothing of bands.
 */
#include "passes/bands/emit.h"
#include "passes/bands/emit_node.h"

/* ---- bands ---------------------------------------------------------------------------------------------- */

/* What the band has made of a tensor that is read outside goes to its rows of the whole. */
static void emit_whole(band_emitter *e, band_tensor *tensor, band_rows made) {
    const int64_t images = tensor->original->type.shape.dims[0];
    op_attributes attributes = {0};
    band_set_integer(e, &attributes, "axis", BAND_AXIS);
    ir_value *place = band_in_band(e, band_integers_from(e, made.first, images, 0), tensor->maker->advance);
    ir_value *inputs[] = {tensor->whole, band_get_rows(e, tensor, made, 0), place};
    tensor->whole = band_make(e, OP_TENSOR_SCATTER, "rows of a band", attributes, 3, inputs, tensor->original,
                              &tensor->original->type);
}

/* Of the tensor only these rows stay, which later bands read: taken from all that were put side by side, so that the old ones
 * are not needed any more. */
static void keep(band_emitter *e, band_tensor *tensor, band_rows kept) {
    ir_value *value = NULL;
    if (e->status == BASE_OK && tensor->maker && kept.first < kept.end) {
        const band_piece *largest = NULL;
        for (const band_piece *p = tensor->pieces; p; p = p->next)
            if (p->rows.first <= kept.first && kept.end <= p->rows.end &&
                (!largest || band_count(p->rows) > band_count(largest->rows)))
                largest = p;
        e->origin = tensor->maker->node;
        if (!largest) value = band_get_rows(e, tensor, kept, 0);
        else if (band_count(largest->rows) > band_count(kept))
            value = band_copy_range(e, tensor,
                                    band_slice_rows(e, tensor->original, largest->value,
                                                    kept.first - largest->rows.first, band_count(kept)));
        /* All that is new is kept. While it is made, what was kept is there: in turns, they would take two places, from band to band. */
        else value = tensor->joined ? band_copy_rows(e, tensor, largest->value) : largest->value;
    }
    tensor->pieces = NULL;
    if (value) band_remember(e, tensor, value, kept);
    if (tensor->pieces) tensor->pieces->kept = true;
    tensor->joined = false;
}

/* What is kept when band b ends. In the loop, as much as at its begin, whoever reads it later. */
static band_rows kept_after(const band_emitter *e, const band_tensor *tensor, int64_t b) {
    const band_node *maker = tensor->maker;
    if (!maker) return (band_rows){0, 0};
    return (band_rows){e->body ? maker->low[b] + maker->advance : maker->low[b + 1], maker->high[b]};
}

static void note_last(band_emitter *e, ir_value *value, size_t n) {
    band_tensor *tensor = value ? band_find_tensor(e, value) : NULL;
    if (tensor) tensor->last = n + 1;
}

/* Which node of the band is the last one that has to do with each tensor. */
static void find_last(band_emitter *e, int64_t b) {
    for (band_tensor *tensor = e->all; tensor; tensor = tensor->next) tensor->last = 0;
    for (size_t n = 0; n < e->region->count && e->status == BASE_OK; n++) {
        const band_node *own = &e->region->nodes[n];
        if (own->made[b].first == own->made[b].end) continue;
        for (uint32_t i = 0; i < own->node->input_count; i++)
            if (band_node_reading(own->node, i) == BAND_READS_ROWS) note_last(e, ir_input(own->node, i), n);
        for (uint32_t o = 0; o < own->node->output_count; o++) note_last(e, own->node->outputs[o], n);
    }
}

/* Each tensor is cut to what is kept as soon as nobody reads more of it. */
static void emit_band(band_emitter *e, int64_t b) {
    find_last(e, b);
    for (size_t n = 0; n < e->region->count && e->status == BASE_OK; n++) {
        const band_node *own = &e->region->nodes[n];
        if (own->made[b].first == own->made[b].end) continue;
        band_emit_node(e, own, own->made[b]);
        for (uint32_t o = 0; o < own->node->output_count && e->status == BASE_OK; o++) {
            band_tensor *tensor = own->node->outputs[o] ? band_find_tensor(e, own->node->outputs[o]) : NULL;
            if (tensor && tensor->whole) emit_whole(e, tensor, own->made[b]);
        }
        for (band_tensor *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next)
            if (tensor->last == n + 1) keep(e, tensor, kept_after(e, tensor, b));
    }
    for (band_tensor *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next)
        if (!tensor->last) keep(e, tensor, kept_after(e, tensor, b));
}

static void emit_bands(band_emitter *e, int64_t first, int64_t end) {
    for (int64_t b = first; b < end && e->status == BASE_OK; b++) emit_band(e, b);
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static ir_value *add_parameter(band_emitter *e, ir_graph *body, const char *name, const op_type *type) {
    ir_value *value = e->status == BASE_OK ? ir_graph_add_parameter(body, name, type) : NULL;
    if (!value) band_fail_memory(e);
    return value;
}

static void add_result(band_emitter *e, ir_graph *body, ir_value *value) {
    if (e->status == BASE_OK && !ir_graph_add_result(body, value)) band_fail_memory(e);
}

static void emit_body(band_emitter *e, ir_graph *body) {
    const int64_t b = e->region->loop_first;
    const op_type count = {.dtype = OP_INT64}, truth = {.dtype = OP_BOOL};
    band_body rows = {.iteration = add_parameter(e, body, "iteration", &count)};
    ir_value *condition = add_parameter(e, body, "condition", &truth);
    for (band_tensor *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next) {
        if (tensor->pieces)
            tensor->pieces->value =
                add_parameter(e, body, tensor->original->name, &tensor->pieces->value->type);
        if (tensor->whole)
            tensor->whole = add_parameter(e, body, tensor->original->name, &tensor->original->type);
    }
    band_emitter outside = *e;
    e->graph = body;
    e->before = NULL;
    e->body = &rows;
    emit_band(e, b);
    add_result(e, body, condition);
    for (band_tensor *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next) {
        if (tensor->pieces) add_result(e, body, tensor->pieces->value);
        if (tensor->whole) add_result(e, body, tensor->whole);
    }
    e->graph = outside.graph;
    e->before = outside.before;
    e->body = NULL;
}

static void emit_loop(band_emitter *e) {
    const int64_t first = e->region->loop_first, trips = e->region->loop_end - first;
    size_t count = 2;
    for (band_tensor *tensor = e->all; tensor; tensor = tensor->next) count += 2;
    ir_value **inputs = BASE_ARRAY(e->arena, ir_value *, count);
    if (!inputs) {
        band_fail_memory(e);
        return;
    }
    uint32_t used = 0;
    inputs[used++] = band_integers(e, 0, 1, &trips);
    inputs[used++] = NULL;
    for (band_tensor *tensor = e->all; tensor; tensor = tensor->next) {
        if (tensor->pieces) inputs[used++] = tensor->pieces->value;
        if (tensor->whole) inputs[used++] = tensor->whole;
    }
    e->origin = e->region->nodes[e->region->count - 1].node;
    ir_node *loop = band_make_node(e, OP_LOOP, "bands of rows", (op_attributes){0}, used, inputs);
    ir_graph *body = e->status == BASE_OK ? ir_graph_new(e->module, "band") : NULL;
    if (!body || !ir_node_add_graph(loop, body)) {
        band_fail_memory(e);
        return;
    }
    emit_body(e, body);
    const int64_t later = trips - 1;
    for (band_tensor *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next) {
        if (tensor->pieces) {
            const int64_t by = later * tensor->maker->advance;
            const op_type type = tensor->pieces->value->type;
            tensor->pieces->value = band_make_output(e, loop, tensor->original, &type);
            tensor->pieces->rows.first += by;
            tensor->pieces->rows.end += by;
        }
        if (tensor->whole)
            tensor->whole = band_make_output(e, loop, tensor->original, &tensor->original->type);
    }
    /* What the last iteration kept, and nobody after it reads. */
    for (band_tensor *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next) {
        const band_rows kept = kept_after(e, tensor, e->region->loop_end - 1);
        if (kept.first >= kept.end) tensor->pieces = NULL;
    }
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static bool is_read_outside(const band_emitter *e, const ir_value *value) {
    for (const ir_use *use = value->uses; use; use = use->next)
        if (!use->node || use->node->graph != e->graph || !e->region->places[use->node->id.index])
            return true;
    return false;
}

/* Where results that are read outside will lie: in the place of what comes in, or in one of their own. */
static void emit_wholes(band_emitter *e) {
    const band_region *region = e->region;
    for (size_t n = 0; n < region->count; n++) {
        for (uint32_t o = 0; o < region->nodes[n].node->output_count && e->status == BASE_OK; o++) {
            ir_value *original = region->nodes[n].node->outputs[o];
            band_tensor *tensor = original ? band_find_tensor(e, original) : NULL;
            if (!tensor || !is_read_outside(e, original)) continue;
            e->origin = region->nodes[n].node;
            ir_value *input = band_region_written_over(region, original);
            band_tensor *outside = input ? band_find_tensor(e, input) : NULL;
            if (outside && !outside->over) {
                outside->over = tensor;
                tensor->whole = input;
                continue;
            }
            ir_value *shape = band_integers(e, 1, original->type.shape.rank, original->type.shape.dims);
            const uint64_t zero = 0;
            const op_tensor value = {
                .type = {.dtype = original->type.dtype, .shape = {.rank = 1, .dims = {1}}},
                .bytes = op_dtype_bytes(original->type.dtype),
                .data = (void *)(uintptr_t)&zero};
            op_attributes attributes = {0};
            if (original->type.dtype != OP_FLOAT)
                band_set_attribute(
                    e, &attributes,
                    &(op_attribute){
                        .name = "value", .kind = OP_ATTRIBUTE_TENSOR, .count = 1, .as.tensor = &value});
            tensor->whole = band_make(e, OP_CONSTANT_OF_SHAPE, "the place of bands", attributes, 1, &shape,
                                      original, &original->type);
        }
    }
}

static void remove_region(band_emitter *e) {
    for (band_tensor *tensor = e->all; tensor; tensor = tensor->next)
        if (tensor->whole) ir_value_replace(tensor->original, tensor->whole);
    for (size_t n = e->region->count; n-- > 0;) ir_node_remove(e->region->nodes[n].node);
}

base_status band_emit(const band_region *region, const rt_environment *environment, base_arena *arena,
                      base_report *report) {
    band_emitter e = {.region = region,
                      .environment = environment,
                      .module = region->graph->module,
                      .arena = arena,
                      .report = report,
                      .graph = region->graph,
                      .before = region->nodes[region->count - 1].node->next};
    e.last = &e.all;
    emit_wholes(&e);
    if (region->loop_first == region->loop_end) {
        emit_bands(&e, 0, region->band_count);
    } else {
        emit_bands(&e, 0, region->loop_first);
        if (e.status == BASE_OK) emit_loop(&e);
        emit_bands(&e, region->loop_end, region->band_count);
    }
    if (e.status == BASE_OK) remove_region(&e);
    return e.status;
}

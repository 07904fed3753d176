/* SPDX-License-Identifier: Apache-2.0 */
/* packed_gather.c: Gather of rows of a constant table that is packed as a product packs its weights, where an attribute asks for it: "ouro.weights_bits" for
 * block floating point (passes/layout/block_float_weights.c), "ouro.panels" for panels (passes/layout/share_tables.c).
 *
 * A table of embeddings is often the matrix of the last product, too, turned round: packed alike, both have the same bytes, which a plan holds once. A
 * row of the table is a column of the product. Its numbers lie a row of a panel apart, so each is read from a cache line of its own: little beside
 * the product, which reads all of them.
 */
#include "runtime/kernels/portable/block_float.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/indices.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/packed_product.h"

typedef struct packed_gather {
    bool in_blocks;          /* in block floating point, without data; else in panels */
    rt_block_floats blocks;  /* the product's weights: its columns are the rows of the table */
    rt_packed_product table; /* the same */
    int64_t depth;
    size_t bytes;
    rt_indices indices; /* without data */
} packed_gather;

/* In panels of these numbers; false where there are none. */
static bool read_panels(const op_type *table, int64_t form, packed_gather *of) {
    const bool halves = rt_is_half(table->dtype),
               numbers = halves || table->dtype == OP_FLOAT || table->dtype == OP_INT16;
    if (!(form == RT_PANELS_OF_NUMBERS && numbers) && !(form == RT_PANELS_OF_PAIRS && halves)) return false;
    of->table = (rt_packed_product){.stored = table->dtype,
                                    .depth = of->depth,
                                    .columns = table->shape.dims[0],
                                    .b_depth = 1,
                                    .b_column = of->depth,
                                    .alpha = 1,
                                    .form = (rt_panel_form)form};
    return of->table.columns > 0 && of->depth > 0 && rt_product_panels_bytes(&of->table, &of->bytes);
}

static bool read_gather(const op_call *call, packed_gather *of) {
    const op_type *table = &call->inputs[0].type, *indices = &call->inputs[1].type,
                  *y = &call->outputs[0].type;
    if (table->shape.rank != 2 || !op_shape_known(&table->shape) ||
        op_attribute_integer(&call->attributes, "axis", 0) != 0)
        return false;
    *of = (packed_gather){.in_blocks = op_attribute_find(&call->attributes, "ouro.weights_bits") != NULL,
                          .depth = table->shape.dims[1]};
    if (!rt_indices_of(indices, table->shape.dims[0], &of->indices) ||
        indices->layout != OP_LAYOUT_ROW_MAJOR || y->dtype != table->dtype ||
        y->layout != OP_LAYOUT_ROW_MAJOR)
        return false;
    if (!of->in_blocks)
        return read_panels(table, op_attribute_integer(&call->attributes, "ouro.panels", 0), of);
    return table->dtype == OP_FLOAT &&
           rt_block_floats_asked(&call->attributes, of->depth, table->shape.dims[0], &of->blocks, &of->bytes);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    packed_gather of;
    (void)environment;
    return read_gather(call, &of) && call->inputs[0].type.layout == OP_LAYOUT_PACKED &&
           call->inputs[0].type.packed_bytes == of.bytes;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    packed_gather of;
    if (!call->inputs[0].data || call->inputs[0].type.layout != OP_LAYOUT_ROW_MAJOR ||
        !read_gather(call, &of))
        return false;
    if (of.in_blocks && !rt_has_wide_vectors(environment)) return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    preference->inputs[0] = OP_LAYOUT_PACKED;
    preference->packed_bytes[0] = of.bytes;
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    packed_gather of;
    (void)environment;
    if (input != 0 || !read_gather(call, &of))
        return base_fail(report, BASE_INVALID, "input %u of this Gather is not packed", input);
    if (!of.in_blocks) {
        rt_product_panels_pack(&of.table, source->data, packed);
        return BASE_OK;
    }
    const rt_code_matrix matrix = {.data = source->data,
                                   .depth = of.depth,
                                   .columns = of.blocks.columns,
                                   .depth_step = 1,
                                   .column_step = of.depth};
    if (rt_block_floats_pack(of.blocks.bits, &matrix, packed)) return BASE_OK;
    return base_fail(report, BASE_INVALID, "this table has no place in block floating point");
}

typedef struct job {
    packed_gather of;
    const void *panels;
    void *y;
} job;

/* Row `row` of the table becomes row `i` of the result. */
static void unpack_row(const job *j, int64_t row, int64_t i) {
    const rt_packed_product *table = &j->of.table;
    for (int64_t k = 0; k < table->depth; k++) {
        const int64_t from = rt_product_panels_place(table, k, row), to = i * table->depth + k;
        if (table->stored == OP_FLOAT) ((float *)j->y)[to] = ((const float *)j->panels)[from];
        else ((uint16_t *)j->y)[to] = ((const uint16_t *)j->panels)[from];
    }
}

static void gather_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = rt_index_at(&j->of.indices, i);
        if (j->of.in_blocks) rt_block_floats_column(&j->of.blocks, row, (float *)j->y + i * j->of.depth);
        else unpack_row(j, row, i);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const packed_gather *of = prepared->state;
    job j = {.of = *of, .panels = inputs[0].data, .y = outputs[0].data};
    (void)scratch;
    j.of.blocks.panels = inputs[0].data;
    j.of.indices.data = inputs[1].data;
    const base_status status = rt_indices_check(&j.of.indices, report);
    if (status == BASE_OK) rt_parallel(prepared->threads, of->indices.count, of->depth, gather_rows, &j);
    return status;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    packed_gather *state = BASE_NEW(arena, packed_gather);
    if (!state) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_gather(call, state) || state->indices.count < 0)
        return base_fail(report, BASE_INVALID, "this is no Gather from a table that a product packs");
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_packed_gather = {.name = "portable.packed_gather",
                                           .accepts = accepts,
                                           .prefer = prefer,
                                           .pack = pack,
                                           .only_packed = true,
                                           .prepare = prepare};

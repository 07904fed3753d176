/* SPDX-License-Identifier: Apache-2.0 */
/* panel_gather.c: Gather of rows of a constant table that is packed as a product packs its weights, where "ouro.panels" asks for it
 * (passes/layout/share_tables.c).
 *
 * A table of embeddings is often the matrix of the last product, too, turned round: packed alike, both have the same bytes, which a plan holds once. A
 * row of the table is a column of the product. Its numbers lie a row of a panel apart, so each is read from a cache line of its own: little beside
 * the product, which reads all of them.
 */
#include "runtime/kernels/portable/indices.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/packed_product.h"

typedef struct panel_gather {
    rt_packed_product table; /* the product's weights: its columns are the rows of the table */
    size_t bytes;
    rt_indices indices; /* without data */
} panel_gather;

static bool read_gather(const op_call *call, panel_gather *of) {
    const op_type *table = &call->inputs[0].type, *indices = &call->inputs[1].type,
                  *y = &call->outputs[0].type;
    const int64_t form = op_attribute_integer(&call->attributes, "ouro.panels", 0);
    if (form != RT_PANELS_OF_NUMBERS && form != RT_PANELS_OF_PAIRS) return false;
    if (table->shape.rank != 2 || !op_shape_known(&table->shape) ||
        op_attribute_integer(&call->attributes, "axis", 0) != 0)
        return false;
    if ((indices->dtype != OP_INT64 && indices->dtype != OP_INT32) ||
        indices->layout != OP_LAYOUT_ROW_MAJOR || y->dtype != table->dtype ||
        y->layout != OP_LAYOUT_ROW_MAJOR)
        return false;
    of->indices =
        (rt_indices){.count = -1, .extent = table->shape.dims[0], .wide = indices->dtype == OP_INT64};
    if (op_shape_known(&indices->shape)) (void)op_shape_elements(&indices->shape, &of->indices.count);
    of->table =
        (rt_packed_product){.stored = table->dtype,
                            .depth = table->shape.dims[1],
                            .columns = table->shape.dims[0],
                            .b_depth = 1,
                            .b_column = table->shape.dims[1],
                            .alpha = 1,
                            .form = form == RT_PANELS_OF_PAIRS ? RT_PANELS_OF_PAIRS : RT_PANELS_OF_NUMBERS};
    if (form == RT_PANELS_OF_PAIRS
            ? !rt_is_half(table->dtype)
            : table->dtype != OP_FLOAT && table->dtype != OP_INT16 && !rt_is_half(table->dtype))
        return false;
    return of->table.columns > 0 && of->table.depth > 0 && rt_product_panels_bytes(&of->table, &of->bytes);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    panel_gather of;
    (void)environment;
    return read_gather(call, &of) && call->inputs[0].type.layout == OP_LAYOUT_PACKED &&
           call->inputs[0].type.packed_bytes == of.bytes;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    panel_gather of;
    (void)environment;
    if (!call->inputs[0].data || call->inputs[0].type.layout != OP_LAYOUT_ROW_MAJOR ||
        !read_gather(call, &of))
        return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    preference->inputs[0] = OP_LAYOUT_PACKED;
    preference->packed_bytes[0] = of.bytes;
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    panel_gather of;
    (void)environment;
    if (input != 0 || !read_gather(call, &of))
        return base_fail(report, BASE_INVALID, "input %u of this Gather is not packed", input);
    rt_product_panels_pack(&of.table, source->data, packed);
    return BASE_OK;
}

typedef struct job {
    const rt_packed_product *table;
    const void *panels;
    rt_indices indices;
    void *y;
} job;

static void gather_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t depth = j->table->depth;
    for (int64_t i = begin; i < end; i++) {
        const int64_t column = rt_index_at(&j->indices, i);
        for (int64_t k = 0; k < depth; k++) {
            const int64_t from = rt_product_panels_place(j->table, k, column), to = i * depth + k;
            if (j->table->stored == OP_FLOAT) ((float *)j->y)[to] = ((const float *)j->panels)[from];
            else ((uint16_t *)j->y)[to] = ((const uint16_t *)j->panels)[from];
        }
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const panel_gather *of = prepared->state;
    job j = {.table = &of->table, .panels = inputs[0].data, .indices = of->indices, .y = outputs[0].data};
    (void)scratch;
    j.indices.data = inputs[1].data;
    const base_status status = rt_indices_check(&j.indices, report);
    if (status == BASE_OK) rt_parallel(prepared->threads, j.indices.count, of->table.depth, gather_rows, &j);
    return status;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    panel_gather *state = BASE_NEW(arena, panel_gather);
    if (!state) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_gather(call, state) || state->indices.count < 0)
        return base_fail(report, BASE_INVALID, "this is no Gather from a table in panels");
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_panel_gather = {
    .name = "portable.panel_gather", .accepts = accepts, .prefer = prefer, .pack = pack, .prepare = prepare};

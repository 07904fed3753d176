/* SPDX-License-Identifier: Apache-2.0 */
/* block_float_gather.c: Gather of rows of a constant matrix in block floating point (block_float.h), where "ouro.weights_bits" asks for it
 * (passes/layout/block_float_weights.c).
 *
 * A table of embeddings is often the matrix of the last product, too, turned round: packed as that product packs it, it has the same bytes, which a plan holds
 * once. A row of the table is a column of the product.
 */
#include "runtime/kernels/portable/block_float.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/indices.h"
#include "runtime/kernels/portable/kernels.h"

typedef struct block_float_gather {
    rt_block_floats form; /* without data */
    size_t bytes;
    rt_indices indices; /* without data */
} block_float_gather;

static bool read_gather(const op_call *call, block_float_gather *of) {
    const op_type *table = &call->inputs[0].type, *indices = &call->inputs[1].type,
                  *y = &call->outputs[0].type;
    if (table->dtype != OP_FLOAT || table->shape.rank != 2 || !op_shape_known(&table->shape) ||
        op_attribute_integer(&call->attributes, "axis", 0) != 0)
        return false;
    if ((indices->dtype != OP_INT64 && indices->dtype != OP_INT32) ||
        indices->layout != OP_LAYOUT_ROW_MAJOR || y->dtype != OP_FLOAT || y->layout != OP_LAYOUT_ROW_MAJOR)
        return false;
    of->indices =
        (rt_indices){.count = -1, .extent = table->shape.dims[0], .wide = indices->dtype == OP_INT64};
    if (op_shape_known(&indices->shape)) (void)op_shape_elements(&indices->shape, &of->indices.count);
    return rt_block_floats_asked(&call->attributes, table->shape.dims[1], table->shape.dims[0], &of->form,
                                 &of->bytes);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    block_float_gather of;
    (void)environment;
    return read_gather(call, &of) && call->inputs[0].type.layout == OP_LAYOUT_PACKED &&
           call->inputs[0].type.packed_bytes == of.bytes;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    block_float_gather of;
    if (!rt_has_wide_vectors(environment) || !call->inputs[0].data ||
        call->inputs[0].type.layout != OP_LAYOUT_ROW_MAJOR || !read_gather(call, &of))
        return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    preference->inputs[0] = OP_LAYOUT_PACKED;
    preference->packed_bytes[0] = of.bytes;
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    block_float_gather of;
    (void)environment;
    if (input != 0 || !read_gather(call, &of))
        return base_fail(report, BASE_INVALID, "input %u of this Gather is not packed", input);
    const rt_code_matrix matrix = {.data = source->data,
                                   .depth = of.form.depth,
                                   .columns = of.form.columns,
                                   .depth_step = 1,
                                   .column_step = of.form.depth};
    if (rt_block_floats_pack(of.form.bits, &matrix, packed)) return BASE_OK;
    return base_fail(report, BASE_INVALID, "this table has no place in block floating point");
}

typedef struct job {
    rt_block_floats table;
    rt_indices indices;
    float *y;
} job;

static void gather_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t i = begin; i < end; i++)
        rt_block_floats_column(&j->table, rt_index_at(&j->indices, i), j->y + i * j->table.depth);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const block_float_gather *of = prepared->state;
    job j = {.table = of->form, .indices = of->indices, .y = outputs[0].data};
    (void)scratch;
    j.table.panels = inputs[0].data;
    j.indices.data = inputs[1].data;
    const base_status status = rt_indices_check(&j.indices, report);
    if (status == BASE_OK) rt_parallel(prepared->threads, j.indices.count, of->form.depth, gather_rows, &j);
    return status;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    block_float_gather *state = BASE_NEW(arena, block_float_gather);
    if (!state) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_gather(call, state) || state->indices.count < 0)
        return base_fail(report, BASE_INVALID, "this is no Gather from a table in block floating point");
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_block_float_gather = {.name = "portable.block_float_gather",
                                                .accepts = accepts,
                                                .prefer = prefer,
                                                .pack = pack,
                                                .prepare = prepare};

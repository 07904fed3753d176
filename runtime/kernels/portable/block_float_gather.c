/* SPDX-License-Identifier: Apache-2.0 */
/* block_float_gather.c: Gather of rows of a constant matrix in block floating point (block_float.h), where "ouro.weights_bits" asks for it
 * (passes/layout/block_float_weights.c).
 *
 * A table of embeddings is often the matrix of the last product, too, turned round: packed as that product packs it, it has the same bytes, which a plan holds
 * once. A row of the table is a column of the product.
 */
#include "runtime/kernels/portable/block_float.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/kernels.h"

typedef struct block_float_gather {
    rt_block_floats form; /* without data */
    size_t bytes;
    int64_t indices;
    bool wide; /* indices of 64 bits */
} block_float_gather;

static bool read_gather(const op_call *call, block_float_gather *of) {
    const op_type *table = &call->inputs[0].type, *indices = &call->inputs[1].type,
                  *y = &call->outputs[0].type;
    const int64_t bits = op_attribute_integer(&call->attributes, "ouro.weights_bits", 0);
    if ((bits != RT_BLOCK_FLOAT_FEWEST && bits != RT_BLOCK_FLOAT_MOST) || table->dtype != OP_FLOAT ||
        table->shape.rank != 2 || !op_shape_known(&table->shape) ||
        op_attribute_integer(&call->attributes, "axis", 0) != 0)
        return false;
    if ((indices->dtype != OP_INT64 && indices->dtype != OP_INT32) ||
        indices->layout != OP_LAYOUT_ROW_MAJOR || y->dtype != OP_FLOAT || y->layout != OP_LAYOUT_ROW_MAJOR)
        return false;
    *of = (block_float_gather){
        .form = {.bits = (int)bits, .depth = table->shape.dims[1], .columns = table->shape.dims[0]},
        .indices = -1,
        .wide = indices->dtype == OP_INT64};
    if (!op_shape_known(&indices->shape) || !op_shape_elements(&indices->shape, &of->indices))
        of->indices = -1;
    return rt_block_floats_bytes(&of->form, &of->bytes);
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
    rt_block_float_loss loss;
    (void)environment;
    if (input != 0 || !read_gather(call, &of))
        return base_fail(report, BASE_INVALID, "input %u of this Gather is not packed", input);
    const rt_code_matrix matrix = {.data = source->data,
                                   .depth = of.form.depth,
                                   .columns = of.form.columns,
                                   .depth_step = 1,
                                   .column_step = of.form.depth};
    if (!rt_block_floats_lose(of.form.bits, &matrix, &loss))
        return base_fail(report, BASE_INVALID, "this table has no place in block floating point");
    rt_block_floats_pack(of.form.bits, &matrix, packed);
    return BASE_OK;
}

typedef struct job {
    rt_block_floats table;
    bool wide;
    const void *indices;
    float *y;
} job;

static int64_t index_at(const job *j, int64_t i) {
    const int64_t index = j->wide ? ((const int64_t *)j->indices)[i] : ((const int32_t *)j->indices)[i];
    return index < 0 ? index + j->table.columns : index;
}

static void gather_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t i = begin; i < end; i++)
        rt_block_floats_column(&j->table, index_at(j, i), j->y + i * j->table.depth);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const block_float_gather *of = prepared->state;
    job j = {.table = of->form, .wide = of->wide, .indices = inputs[1].data, .y = outputs[0].data};
    (void)scratch;
    j.table.panels = inputs[0].data;
    for (int64_t i = 0; i < of->indices; i++) {
        const int64_t index = index_at(&j, i);
        if (index < 0 || index >= of->form.columns)
            return base_fail(
                report, BASE_INVALID, "index %lld is outside of [%lld, %lld)",
                (long long)(of->wide ? ((const int64_t *)j.indices)[i] : ((const int32_t *)j.indices)[i]),
                -(long long)of->form.columns, (long long)of->form.columns);
    }
    rt_parallel(prepared->threads, of->indices, of->form.depth, gather_rows, &j);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    block_float_gather *state = BASE_NEW(arena, block_float_gather);
    if (!state) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_gather(call, state) || state->indices < 0)
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

/* SPDX-License-Identifier: Apache-2.0 */
/* gather_bits.c: GatherNBits: rows of a constant table of 8 or 4 bits, as floats.
 *
 * A table of embeddings is often the matrix of the last product, too, turned round. Where that product has its weights in panels (bit_panels.h), the table is
 * packed alike, with the same bytes, which a plan holds once; elsewhere both read the codes as they lie in the file.
 */
#include "runtime/kernels/portable/bit_panels.h"
#include "runtime/kernels/portable/indices.h"
#include "runtime/kernels/portable/kernels.h"

enum {
    CODES, /* inputs */
    INDICES,
    SCALES,
    ZEROS,
    MARK_BYTES = RT_ALIGNMENT /* of scales and zero points that stand in panels */
};

typedef struct gather_bits {
    rt_bit_panels table;
    rt_indices indices; /* without data */
    bool packed;
} gather_bits;

static bool read_gather(const op_call *call, gather_bits *of) {
    *of = (gather_bits){.packed = call->inputs[CODES].type.layout == OP_LAYOUT_PACKED};
    return rt_bit_panels_read(call, ZEROS, &of->table) && call->outputs[0].type.dtype == OP_FLOAT &&
           rt_indices_of(&call->inputs[INDICES].type, of->table.columns, &of->indices);
}

/* Whether an input stands in the panels, and in how many bytes. */
static bool packed_bytes(const gather_bits *of, uint32_t input, size_t *bytes) {
    *bytes = MARK_BYTES;
    if (input == CODES) return rt_bit_panels_bytes(&of->table, bytes);
    return input == SCALES || (input == ZEROS && of->table.zeros);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    gather_bits of;
    size_t bytes;
    (void)environment;
    if (!read_gather(call, &of) || call->outputs[0].type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_type *type = &call->inputs[i].type;
        if (!op_input_present(call, i)) continue;
        const bool packed = of.packed && packed_bytes(&of, i, &bytes);
        if (type->layout != (packed ? OP_LAYOUT_PACKED : OP_LAYOUT_ROW_MAJOR)) return false;
        if (packed && type->packed_bytes != bytes) return false;
    }
    return true;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    gather_bits of;
    if (environment->portable_only || !rt_bit_panels_here() || !read_gather(call, &of) ||
        !rt_bit_panels_wanted(&of.table))
        return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    for (uint32_t i = CODES; i <= ZEROS; i++) {
        size_t bytes;
        if (!op_input_present(call, i) || !packed_bytes(&of, i, &bytes)) continue;
        if (!call->inputs[i].data || call->inputs[i].type.layout != OP_LAYOUT_ROW_MAJOR) return false;
        preference->inputs[i] = OP_LAYOUT_PACKED;
        preference->packed_bytes[i] = bytes;
    }
    return true;
}

/* The table as it lies in a file. */
static rt_bit_weights weights_of(const gather_bits *of, const op_tensor *inputs) {
    return (rt_bit_weights){.codes = inputs[CODES].data,
                            .scales = inputs[SCALES].data,
                            .scale_type = OP_FLOAT,
                            .zeros = of->table.zeros ? inputs[ZEROS].data : NULL};
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    gather_bits of;
    size_t bytes;
    (void)environment;
    if (!read_gather(call, &of) || !packed_bytes(&of, input, &bytes))
        return base_fail(report, BASE_INVALID, "input %u of this table is not packed", input);
    if (input != CODES) return BASE_OK; /* a mark: it is in the panels */
    rt_bit_weights weights = weights_of(&of, call->inputs);
    weights.codes = source->data;
    rt_bit_panels_pack(&of.table, &weights, packed);
    return BASE_OK;
}

typedef struct job {
    const gather_bits *of;
    rt_indices indices;
    rt_bit_weights weights;
    float *y;
} job;

static void gather_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const rt_bit_panels *table = &j->of->table;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = rt_index_at(&j->indices, i);
        float *y = j->y + i * table->depth;
        if (j->of->packed) rt_bit_panels_column(table, j->weights.codes, row, y);
        else rt_bit_weights_column(table, &j->weights, row, y);
    }
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const gather_bits *of = prepared->state;
    job j = {.of = of, .indices = of->indices, .weights = weights_of(of, inputs), .y = outputs[0].data};
    (void)scratch;
    j.indices.data = inputs[INDICES].data;
    const base_status status = rt_indices_check(&j.indices, report);
    if (status == BASE_OK) rt_parallel(prepared->threads, j.indices.count, of->table.depth, gather_rows, &j);
    return status;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    gather_bits *state = BASE_NEW(arena, gather_bits);
    if (!state) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_gather(call, state) || state->indices.count < 0)
        return base_fail(report, BASE_INVALID, "this table of few bits has no kernel");
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_gather_bits = {
    .name = "portable.gather_bits", .accepts = accepts, .prefer = prefer, .pack = pack, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_scatter.c: TensorScatter: slices of an update are put into a cache, from a place that each batch names.
 * Rows of one image may lie in another layout than the cache, and are put in that on the way. */
#include "ir/operators/small.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/reorder.h"
#include "runtime/kernels/portable/spatial_view.h"
#include <inttypes.h>
#include <string.h>

typedef struct scatter_state {
    int64_t batches, middle, capacity, rows; /* [batches, middle..., capacity or rows, row...] */
    size_t row_bytes;
    bool circular;
} scatter_state;

static base_status check(const scatter_state *s, const int64_t *starts, base_report *report) {
    for (int64_t b = 0; b < s->batches; b++) {
        if (s->circular ? starts[b] >= 0 : starts[b] >= 0 && starts[b] <= s->capacity - s->rows) continue;
        return base_fail(report, BASE_INVALID,
                         "write index %" PRId64 " of batch %" PRId64 ": %" PRId64
                         " rows from there on are not within %" PRId64,
                         starts[b], b, s->rows, s->capacity);
    }
    return BASE_OK;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    const scatter_state *s = prepared->state;
    const bool given = prepared->input_count > 2 && inputs[2].type.dtype != OP_NONE;
    const int64_t *starts = given ? inputs[2].data : NULL;
    base_status status = given ? check(s, starts, report) : BASE_OK;
    if (status != BASE_OK) return status;
    if (outputs[0].data != inputs[0].data)
        rt_copy_bytes(prepared->threads, outputs[0].data, inputs[0].data, outputs[0].bytes);
    const char *from = inputs[1].data;
    char *to = outputs[0].data;
    if (s->batches == 1 && starts && starts[0] <= s->capacity - s->rows) { /* the same place in all */
        const int64_t row = (int64_t)s->row_bytes;
        rt_copy_spans(to + starts[0] * row, s->capacity * row, from, s->rows * row, (size_t)(s->rows * row),
                      s->middle);
        return BASE_OK;
    }
    for (int64_t i = 0; i < s->batches * s->middle && s->row_bytes && s->capacity; i++) {
        const int64_t start = starts ? starts[i / s->middle] % s->capacity : 0;
        /* Rows up to the end, then, going round, from the beginning. */
        for (int64_t row = 0; row < s->rows;) {
            const int64_t at = (start + row) % s->capacity, rest = s->rows - row;
            const int64_t count = s->capacity - at < rest ? s->capacity - at : rest;
            memcpy(to + (size_t)(i * s->capacity + at) * s->row_bytes,
                   from + (size_t)(i * s->rows + row) * s->row_bytes, (size_t)count * s->row_bytes);
            row += count;
        }
    }
    return BASE_OK;
}

/* Rows of an image whose update has another layout. */
typedef struct turned_state {
    scatter_state rows;
    rt_reorder reorder;
} turned_state;

static base_status run_turned(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    (void)scratch;
    const turned_state *s = prepared->state;
    const int64_t *start = inputs[2].data;
    const base_status status = check(&s->rows, start, report);
    if (status != BASE_OK) return status;
    if (outputs[0].data != inputs[0].data)
        rt_copy_bytes(prepared->threads, outputs[0].data, inputs[0].data, outputs[0].bytes);
    if (s->rows.rows)
        rt_reorder_run(&s->reorder, prepared->threads, inputs[1].data,
                       (char *)outputs[0].data + (size_t)start[0] * s->rows.row_bytes);
    return BASE_OK;
}

/* Rows of one image, as its axis 2 has them, in another layout than the cache. */
static bool is_turned(const op_call *call) {
    const op_type *cache = &call->inputs[0].type, *update = &call->inputs[1].type;
    return op_input_present(call, 2) && call->inputs[2].type.layout == OP_LAYOUT_ROW_MAJOR &&
           cache->layout == call->outputs[0].type.layout && update->layout != cache->layout &&
           update->layout != OP_LAYOUT_PACKED && cache->layout != OP_LAYOUT_PACKED &&
           op_dtype_bytes(cache->dtype) <= 4 && cache->dtype != OP_STRING && !op_dtype_is_packed(cache->dtype) && cache->shape.rank == 4 &&
           cache->shape.dims[0] == 1 && op_attribute_integer(&call->attributes, "axis", -2) == 2 &&
           op_attribute_is(&call->attributes, "mode", "linear", "linear");
}

static base_status prepare_turned(const op_call *call, base_arena *arena, rt_prepared *prepared,
                                  base_report *report) {
    turned_state *s = BASE_NEW(arena, turned_state);
    if (!s) return base_fail_memory(report);
    const op_type *cache = &call->inputs[0].type, *update = &call->inputs[1].type;
    const int64_t *dims = cache->shape.dims;
    rt_reorder_init(update, cache, &s->reorder);
    s->reorder.to.plane = dims[2] * dims[3];
    s->rows = (scatter_state){.batches = 1, .middle = 1, .capacity = dims[2], .rows = update->shape.dims[2]};
    s->rows.row_bytes = (size_t)(dims[3] * s->reorder.to.block) * s->reorder.element;
    prepared->state = s;
    prepared->run = run_turned;
    return BASE_OK;
}

/* Elements of less than a byte: one a byte in scratch, and back. */
static base_status run_packed(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                              void *scratch, base_report *report) {
    const op_dtype dtype = inputs[0].type.dtype;
    op_tensor given[3], made = outputs[0];
    int64_t cache = 0, update = 0;
    (void)op_shape_elements(&inputs[0].type.shape, &cache);
    (void)op_shape_elements(&inputs[1].type.shape, &update);
    for (uint32_t i = 0; i < prepared->input_count && i < 3; i++) given[i] = inputs[i];
    given[0].data = made.data = scratch;
    given[1].data = (uint8_t *)scratch + cache;
    rt_unpack(dtype, given[0].data, inputs[0].data, cache);
    rt_unpack(dtype, given[1].data, inputs[1].data, update);
    base_status status = run(prepared, given, &made, NULL, report);
    if (status == BASE_OK) rt_pack(dtype, outputs[0].data, made.data, cache);
    return status;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call) || is_turned(call) ||
           rt_accepts_spatial(call, op_attribute_integer(&call->attributes, "axis", -2));
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
    if (is_turned(call)) return prepare_turned(call, arena, prepared, report);
    scatter_state *s = BASE_NEW(arena, scatter_state);
    call = rt_spatial_view(call, arena);
    if (!s || !call) return base_fail_memory(report);
    const op_type *type = &call->inputs[0].type;
    int32_t axis = 1;
    op_axis(op_attribute_integer(&call->attributes, "axis", -2), type->shape.rank, &axis);
    s->batches = type->shape.dims[0];
    s->middle = 1;
    s->capacity = type->shape.dims[axis];
    s->rows = call->inputs[1].type.shape.dims[axis];
    const bool packed = op_dtype_is_packed(type->dtype);
    s->row_bytes = packed ? 1 : op_dtype_bytes(type->dtype);
    for (int32_t i = 1; i < axis; i++) s->middle *= type->shape.dims[i];
    for (int32_t i = axis + 1; i < type->shape.rank; i++) s->row_bytes *= (size_t)type->shape.dims[i];
    s->circular = op_attribute_is(&call->attributes, "mode", "circular", "linear");
    prepared->state = s;
    prepared->run = packed ? run_packed : run;
    int64_t cache = 0, update = 0;
    (void)op_shape_elements(&type->shape, &cache);
    (void)op_shape_elements(&call->inputs[1].type.shape, &update);
    if (packed && !base_size_add((size_t)cache, (size_t)update, &prepared->scratch_bytes))
        return base_fail_memory(report);
    return BASE_OK;
}

const rt_kernel rt_kernel_tensor_scatter = {
    .name = "portable.tensor_scatter", .accepts = accepts, .prepare = prepare};

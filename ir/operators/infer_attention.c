/* infer_attention.c: shape functions of attention and of what stands around it in transformers. */
#include "ir/operators/infer.h"
#include <inttypes.h>

/* A stack of rows, one a head: [batch, heads, rows, size], or [batch, rows, heads * size] with the heads from an attribute. */
typedef struct head_rows {
    int64_t batch, heads, rows, size;
} head_rows;

static base_status read_rows(const op_call *call, uint32_t input, const char *attribute, head_rows *rows,
                             base_report *report) {
    const op_shape *shape = &call->inputs[input].type.shape;
    *rows = (head_rows){OP_DIM_UNKNOWN, OP_DIM_UNKNOWN, OP_DIM_UNKNOWN, OP_DIM_UNKNOWN};
    if (shape->rank < 0) return BASE_OK;
    if (shape->rank == 4) {
        *rows = (head_rows){shape->dims[0], shape->dims[1], shape->dims[2], shape->dims[3]};
        return BASE_OK;
    }
    if (shape->rank != 3) {
        return base_fail(report, BASE_INVALID, "input %u has rank %d, expected 3 or 4", input, shape->rank);
    }
    const int64_t heads = op_attribute_integer(&call->attributes, attribute, 0);
    if (heads < 1) {
        return base_fail(report, BASE_INVALID, "input %u has rank 3, which needs a positive attribute \"%s\"",
                         input, attribute);
    }
    if (shape->dims[2] >= 0 && shape->dims[2] % heads != 0) {
        return base_fail(report, BASE_INVALID,
                         "the last dimension of input %u is %" PRId64 ", expected a multiple of the %" PRId64
                         " heads",
                         input, shape->dims[2], heads);
    }
    *rows =
        (head_rows){shape->dims[0], heads, shape->dims[1], op_dim_compute(call, '/', shape->dims[2], heads)};
    return BASE_OK;
}

static base_status check_equal(uint32_t a, int64_t x, uint32_t b, int64_t y, const char *what,
                               base_report *report) {
    if (x < 0 || y < 0 || x == y) return BASE_OK;
    return base_fail(report, BASE_INVALID,
                     "input %u has %s %" PRId64 ", input %u %" PRId64 ", expected equal ones", a, what, x, b,
                     y);
}

/* A mask broadcasts to [batch, heads, queries, keys], but may know of fewer keys. */
static base_status check_mask(const op_call *call, const int64_t target[4], base_report *report) {
    if (!op_input_present(call, 3)) return BASE_OK;
    base_status status = op_check_input(call, 3, OP_SET_NUMBERS | OP_SET_BOOL, report);
    if (status != BASE_OK) return status;
    const op_shape *mask = &call->inputs[3].type.shape;
    bool fits = mask->rank <= 4;
    for (int32_t i = 0; fits && i < mask->rank; i++) {
        const int32_t at = 4 - mask->rank + i;
        const int64_t own = mask->dims[i], want = target[at];
        fits = own < 0 || want < 0 || own == want || own == 1 || (at == 3 && own < want);
    }
    if (fits) return BASE_OK;
    char have[128];
    return base_fail(report, BASE_INVALID,
                     "input 3 has shape %s, expected one that broadcasts to batch, heads, queries and keys",
                     op_shape_text(mask, have, sizeof have));
}

/* One integer, or one for each batch. */
static base_status check_per_batch(const op_call *call, uint32_t input, int64_t batch, bool single,
                                   base_report *report) {
    if (!op_input_present(call, input)) return BASE_OK;
    base_status status = op_check_input(call, input, OP_SET(OP_INT64), report);
    if (status == BASE_OK) status = op_check_vector(call, input, single, report);
    int64_t count;
    if (status != BASE_OK || !op_shape_elements(&call->inputs[input].type.shape, &count)) return status;
    if (batch < 0 || count == batch || (single && count == 1)) return BASE_OK;
    return base_fail(report, BASE_INVALID,
                     "input %u has %" PRId64 " elements, expected one for each of %" PRId64 " batches", input,
                     count, batch);
}

base_status op_infer_attention(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = op_check_same(call, 1, 0, report);
    if (status == BASE_OK) status = op_check_same(call, 2, 0, report);
    head_rows q, k, v;
    if (status == BASE_OK) status = read_rows(call, 0, "q_num_heads", &q, report);
    if (status == BASE_OK) status = read_rows(call, 1, "kv_num_heads", &k, report);
    if (status == BASE_OK) status = read_rows(call, 2, "kv_num_heads", &v, report);
    if (status == BASE_OK) status = check_equal(0, q.batch, 1, k.batch, "batch size", report);
    if (status == BASE_OK) status = check_equal(0, q.batch, 2, v.batch, "batch size", report);
    if (status == BASE_OK) status = check_equal(0, q.size, 1, k.size, "head size", report);
    if (status == BASE_OK) status = check_equal(1, k.heads, 2, v.heads, "heads", report);
    if (status == BASE_OK) status = check_equal(1, k.rows, 2, v.rows, "sequence length", report);
    if (status != BASE_OK) return status;
    if (q.heads >= 0 && k.heads >= 0 && (k.heads == 0 ? q.heads != 0 : q.heads % k.heads != 0)) {
        return base_fail(report, BASE_INVALID,
                         "there are %" PRId64 " heads of queries, expected a multiple of the %" PRId64
                         " of keys",
                         q.heads, k.heads);
    }
    const int64_t mode = op_attribute_integer(&call->attributes, "qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3)
        return base_fail(report, BASE_INVALID,
                         "attribute \"qk_matmul_output_mode\" is %" PRId64 ", expected 0 to 3", mode);
    const int64_t scores[4] = {q.batch, q.heads, q.rows, k.rows};
    status = check_mask(call, scores, report);
    if (status == BASE_OK) status = check_per_batch(call, 4, q.batch, false, report);
    if (status == BASE_OK) status = check_per_batch(call, 5, q.batch, true, report);
    if (status != BASE_OK) return status;
    const op_dtype dtype = call->inputs[0].type.dtype;
    const int32_t rank = call->inputs[0].type.shape.rank;
    op_shape shape = {.rank = rank};
    if (rank == 4) {
        shape = (op_shape){4, {q.batch, q.heads, q.rows, v.size}};
    } else if (rank == 3) {
        shape = (op_shape){3, {q.batch, q.rows, op_dim_compute(call, '*', q.heads, v.size)}};
    }
    op_output_set(call, 0, dtype, &shape);
    if (call->output_count > 1) {
        shape = (op_shape){4, {scores[0], scores[1], scores[2], scores[3]}};
        op_output_set(call, 1, dtype, &shape);
    }
    return BASE_OK;
}

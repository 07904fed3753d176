/* SPDX-License-Identifier: Apache-2.0 */
/* infer_attention.c: shape functions of attention and of what stands around it in transformers. */
#include "ir/operators/infer.h"
#include <inttypes.h>

/* A stack of rows, one a head: [batch, heads, rows, size], or [batch, rows, heads * size] with the heads from an attribute; or
 * [rows, batch, heads, size], where our own attribute ouro.turned has the bit of this input. */
typedef struct head_rows {
    int64_t batch, heads, rows, size;
} head_rows;

static base_status read_rows(const op_call *call, uint32_t input, const char *attribute, head_rows *rows,
                             base_report *report) {
    const op_shape *shape = &call->inputs[input].type.shape;
    *rows = (head_rows){OP_DIM_UNKNOWN, OP_DIM_UNKNOWN, OP_DIM_UNKNOWN, OP_DIM_UNKNOWN};
    if (shape->rank < 0) return BASE_OK;
    if (shape->rank == 4 && op_attribute_integer(&call->attributes, "ouro.turned", 0) >> input & 1) {
        *rows = (head_rows){shape->dims[1], shape->dims[2], shape->dims[0], shape->dims[3]};
        return BASE_OK;
    }
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

/* Keys and values have the type of the queries; those that our passes keep in half precision are read as floats (ouro.halves). */
static base_status check_keys(const op_call *call, base_report *report) {
    const op_dtype keys = call->inputs[1].type.dtype;
    const bool halves = op_attribute_integer(&call->attributes, "ouro.halves", 0) &&
                        call->inputs[0].type.dtype == OP_FLOAT && (keys == OP_FLOAT16 || keys == OP_BFLOAT16);
    const base_status status = halves ? BASE_OK : op_check_same(call, 1, 0, report);
    return status == BASE_OK ? op_check_same(call, 2, 1, report) : status;
}

base_status op_infer_attention(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = check_keys(call, report);
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
    if (status == BASE_OK && op_input_present(call, 6)) {
        status = op_check_same(call, 6, 0, report);
        if (status == BASE_OK) status = op_check_vector(call, 6, false, report);
        if (status == BASE_OK && q.heads >= 0) status = op_check_elements(call, 6, q.heads, report);
    }
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

/* ---- around attention ---------------------------------------------------------------------------------- */

base_status op_infer_rotary_embedding(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_FLOATS, report);
    if (status == BASE_OK) status = op_check_same(call, 1, 0, report);
    if (status == BASE_OK) status = op_check_same(call, 2, 0, report);
    const bool positions = op_input_present(call, 3);
    if (status == BASE_OK && positions) status = op_check_input(call, 3, OP_SET(OP_INT64), report);
    head_rows x;
    if (status == BASE_OK) status = read_rows(call, 0, "num_heads", &x, report);
    if (status != BASE_OK) return status;
    const int64_t asked = op_attribute_integer(&call->attributes, "rotary_embedding_dim", 0);
    if (asked < 0 || asked % 2 != 0 || (x.size >= 0 && asked > x.size))
        return base_fail(report, BASE_INVALID,
                         "attribute \"rotary_embedding_dim\" is %" PRId64
                         ", expected an even number up to the head size",
                         asked);
    if (asked == 0 && x.size >= 0 && x.size % 2 != 0)
        return base_fail(report, BASE_INVALID, "heads have %" PRId64 " elements, expected an even number",
                         x.size);
    const int64_t pairs = asked ? asked / 2 : x.size >= 0 ? x.size / 2 : OP_DIM_UNKNOWN;
    for (uint32_t i = 1; i <= 2; i++) {
        const op_shape *cache = &call->inputs[i].type.shape;
        if (cache->rank < 0) continue;
        if (cache->rank != (positions ? 2 : 3))
            return base_fail(report, BASE_INVALID, "input %u has rank %d, expected %d", i, cache->rank,
                             positions ? 2 : 3);
        status = check_equal(i, cache->dims[cache->rank - 1], 0, pairs, "pairs", report);
        if (status == BASE_OK && !positions)
            status = check_equal(i, cache->dims[0], 0, x.batch, "batch size", report);
        if (status == BASE_OK && !positions)
            status = check_equal(i, cache->dims[1], 0, x.rows, "sequence length", report);
        if (status == BASE_OK && positions && call->inputs[1].type.shape.rank == 2)
            status =
                check_equal(i, cache->dims[0], 1, call->inputs[1].type.shape.dims[0], "positions", report);
        if (status != BASE_OK) return status;
    }
    if (positions && call->inputs[3].type.shape.rank >= 0) {
        const op_shape *ids = &call->inputs[3].type.shape;
        if (ids->rank != 2)
            return base_fail(report, BASE_INVALID, "input 3 has rank %d, expected 2", ids->rank);
        status = check_equal(3, ids->dims[0], 0, x.batch, "batch size", report);
        if (status == BASE_OK) status = check_equal(3, ids->dims[1], 0, x.rows, "sequence length", report);
        if (status != BASE_OK) return status;
    }
    op_output_set(call, 0, call->inputs[0].type.dtype, &call->inputs[0].type.shape);
    return BASE_OK;
}

/* Rows from attribute "axis" on are normalised. The other inputs, where they are there, have the shape of such a row. */
static base_status infer_row_normalization(op_call *call, unsigned types, base_report *report) {
    base_status status = op_check_input(call, 0, types, report);
    for (uint32_t i = 1; i < call->input_count && status == BASE_OK; i++)
        if (op_input_present(call, i)) status = op_check_same(call, i, 0, report);
    if (status != BASE_OK) return status;
    const op_shape *x = &call->inputs[0].type.shape;
    const int64_t value = op_attribute_integer(&call->attributes, "axis", -1);
    int32_t axis;
    if (x->rank >= 0 && !op_axis(value, x->rank, &axis))
        return base_fail(report, BASE_INVALID,
                         "attribute \"axis\" is %" PRId64 ", expected a number in [%d, %d)", value, -x->rank,
                         x->rank);
    for (uint32_t k = 1; k < call->input_count && x->rank >= 0; k++) {
        if (!op_input_present(call, k) || call->inputs[k].type.shape.rank < 0) continue;
        const op_shape *row = &call->inputs[k].type.shape;
        bool fits = row->rank == x->rank - axis;
        for (int32_t i = 0; fits && i < row->rank; i++)
            fits = row->dims[i] < 0 || x->dims[axis + i] < 0 || row->dims[i] == x->dims[axis + i];
        char have[128];
        if (!fits)
            return base_fail(report, BASE_INVALID,
                             "input %u has shape %s, expected that of the dimensions from axis %d on", k,
                             op_shape_text(row, have, sizeof have), axis);
    }
    op_output_set(call, 0, call->inputs[0].type.dtype, x);
    return BASE_OK;
}

/* Import multiplies with scales of other shapes afterwards. */
base_status op_infer_rms_normalization(op_call *call, base_report *report) {
    return infer_row_normalization(call, OP_SET_FLOATS, report);
}

/* Scale and bias, of which there is one for each index of the dimension before `axis`: other dimensions of theirs are 1. */
static base_status check_channels(const op_call *call, int32_t axis, base_report *report) {
    const op_shape *x = &call->inputs[0].type.shape;
    for (uint32_t k = 1; k < 3; k++) {
        if (!op_input_present(call, k) || axis == 0)
            return base_fail(
                report, BASE_INVALID,
                "with ouro.channels a scale, a bias and an axis before attribute \"axis\" are expected");
        const op_shape *own = &call->inputs[k].type.shape;
        const int32_t at = own->rank - 1 - (x->rank - axis);
        bool fits = own->rank < 0 || (at >= 0 && own->rank <= x->rank);
        for (int32_t i = 0; fits && i < own->rank; i++)
            fits = own->dims[i] < 0 || (i != at && own->dims[i] == 1) ||
                   (i == at && (x->dims[axis - 1] < 0 || own->dims[i] == x->dims[axis - 1]));
        char have[128];
        if (!fits)
            return base_fail(report, BASE_INVALID,
                             "input %u has shape %s, expected one number for each index of axis %d", k,
                             op_shape_text(own, have, sizeof have), axis - 1);
    }
    return BASE_OK;
}

base_status op_infer_layer_normalization(op_call *call, base_report *report) {
    const unsigned types = OP_SET(OP_FLOAT) | OP_SET(OP_FLOAT16) | OP_SET(OP_BFLOAT16);
    if (!op_attribute_integer(&call->attributes, "ouro.channels", 0))
        return infer_row_normalization(call, types, report);
    op_call alone = *call; /* of scale and bias other shapes are asked for */
    alone.input_count = 1;
    base_status status = infer_row_normalization(&alone, types, report);
    for (uint32_t k = 1; k < call->input_count && status == BASE_OK; k++)
        if (op_input_present(call, k)) status = op_check_same(call, k, 0, report);
    int32_t axis;
    const op_shape *x = &call->inputs[0].type.shape;
    if (status != BASE_OK || x->rank < 0 ||
        !op_axis(op_attribute_integer(&call->attributes, "axis", -1), x->rank, &axis))
        return status;
    return check_channels(call, axis, report);
}

base_status op_infer_tensor_scatter(op_call *call, base_report *report) {
    base_status status = op_check_input(call, 0, OP_SET_STORED, report);
    if (status == BASE_OK) status = op_check_same(call, 1, 0, report);
    if (status != BASE_OK) return status;
    const op_shape *cache = &call->inputs[0].type.shape, *update = &call->inputs[1].type.shape;
    const int64_t value = op_attribute_integer(&call->attributes, "axis", -2);
    int32_t axis;
    if (!op_attribute_is(&call->attributes, "mode", "linear", "linear") &&
        !op_attribute_is(&call->attributes, "mode", "circular", "linear"))
        return base_fail(report, BASE_INVALID, "attribute \"mode\" is unknown, expected linear or circular");
    if (cache->rank >= 0) {
        if (!op_axis(value, cache->rank, &axis) || axis == 0)
            return base_fail(
                report, BASE_INVALID,
                "attribute \"axis\" is %" PRId64 ", expected an axis of input 0 but not its first", value);
        bool fits = update->rank < 0 || update->rank == cache->rank;
        for (int32_t i = 0; fits && i < update->rank; i++) {
            const int64_t a = cache->dims[i], b = update->dims[i];
            fits = a < 0 || b < 0 || (i == axis ? b <= a : a == b);
        }
        char have[128], want[128];
        if (!fits)
            return base_fail(report, BASE_INVALID,
                             "input 1 has shape %s, expected that of input 0, %s, or less of axis %d",
                             op_shape_text(update, have, sizeof have),
                             op_shape_text(cache, want, sizeof want), axis);
        status = check_per_batch(call, 2, cache->dims[0], false, report);
        if (status != BASE_OK) return status;
    }
    op_output_set(call, 0, call->inputs[0].type.dtype, cache);
    return BASE_OK;
}

/* ---- LinearAttention ----------------------------------------------------------------------------------- */

/* Input `input` is [batch, steps, one of `first` and `second`]. */
static base_status check_steps(const op_call *call, uint32_t input, int64_t first, int64_t second,
                               base_report *report) {
    base_status status = op_check_same(call, input, 0, report);
    const op_shape *own = &call->inputs[input].type.shape, *query = &call->inputs[0].type.shape;
    if (status != BASE_OK || own->rank < 0) return status;
    if (own->rank != 3)
        return base_fail(report, BASE_INVALID, "input %u has rank %d, expected 3", input, own->rank);
    if (query->rank == 3) status = check_equal(input, own->dims[0], 0, query->dims[0], "batch size", report);
    if (status == BASE_OK && query->rank == 3)
        status = check_equal(input, own->dims[1], 0, query->dims[1], "sequence length", report);
    if (status != BASE_OK || own->dims[2] < 0 || first < 0 || own->dims[2] == first || own->dims[2] == second)
        return status;
    return base_fail(report, BASE_INVALID, "input %u has %" PRId64 " elements a step, expected %" PRId64,
                     input, own->dims[2], first);
}

base_status op_infer_linear_attention(op_call *call, base_report *report) {
    static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};
    const op_attributes *attributes = &call->attributes;
    unsigned rule = 0;
    while (rule < 4 && !op_attribute_is(attributes, "update_rule", rules[rule], "gated_delta")) rule++;
    if (rule == 4)
        return base_fail(
            report, BASE_INVALID,
            "attribute \"update_rule\" is unknown, expected linear, gated, delta or gated_delta");
    enum { NARROW = OP_SET(OP_FLOAT) | OP_SET(OP_FLOAT16) | OP_SET(OP_BFLOAT16) };
    base_status status = op_check_input(call, 0, NARROW, report);
    head_rows q = {0};
    const int64_t heads = op_attribute_integer(attributes, "q_num_heads", 0),
                  groups = op_attribute_integer(attributes, "kv_num_heads", 0);
    if (status == BASE_OK && (groups < 1 || heads < 1 || heads % groups != 0))
        status = base_fail(report, BASE_INVALID,
                           "there are %" PRId64 " heads of queries and %" PRId64
                           " of keys, expected a multiple of a positive number",
                           heads, groups);
    if (status == BASE_OK && call->inputs[0].type.shape.rank >= 0 && call->inputs[0].type.shape.rank != 3)
        status = base_fail(report, BASE_INVALID, "input 0 has rank %d, expected 3",
                           call->inputs[0].type.shape.rank);
    if (status == BASE_OK) status = read_rows(call, 0, "q_num_heads", &q, report);
    const int64_t keys = q.size >= 0 ? q.size * groups : OP_DIM_UNKNOWN;
    if (status == BASE_OK) status = check_steps(call, 1, keys, keys, report);
    if (status == BASE_OK) status = check_steps(call, 2, OP_DIM_UNKNOWN, OP_DIM_UNKNOWN, report);
    head_rows v = {0};
    if (status == BASE_OK) status = read_rows(call, 2, "kv_num_heads", &v, report);
    if (status == BASE_OK && (rule == 1 || rule == 3)) status = op_check_input(call, 4, NARROW, report);
    if (status == BASE_OK && (rule == 1 || rule == 3)) status = check_steps(call, 4, keys, groups, report);
    if (status == BASE_OK && rule >= 2) status = op_check_input(call, 5, NARROW, report);
    if (status == BASE_OK && rule >= 2) status = check_steps(call, 5, groups, 1, report);
    op_dtype kept = call->inputs[0].type.dtype;
    if (status == BASE_OK && op_input_present(call, 3)) {
        status = op_check_input(call, 3, NARROW, report);
        const op_shape *past = &call->inputs[3].type.shape;
        const int64_t want[4] = {q.batch, groups, q.size, v.size};
        kept = call->inputs[3].type.dtype;
        if (status == BASE_OK && past->rank >= 0 && past->rank != 4)
            status = base_fail(report, BASE_INVALID, "input 3 has rank %d, expected 4", past->rank);
        for (int32_t i = 0; status == BASE_OK && i < past->rank; i++) {
            if (past->dims[i] >= 0 && want[i] >= 0 && past->dims[i] != want[i])
                status = base_fail(report, BASE_INVALID,
                                   "dimension %d of input 3 is %" PRId64 ", expected %" PRId64, i,
                                   past->dims[i], want[i]);
        }
    }
    if (status != BASE_OK) return status;
    const op_shape result = {3, {q.batch, q.rows, op_dim_compute(call, '*', v.size, heads)}};
    const op_shape matrix = {4, {q.batch, groups, q.size, v.size}};
    op_output_set(call, 0, call->inputs[0].type.dtype, &result);
    if (call->output_count > 1) op_output_set(call, 1, kept, &matrix);
    return BASE_OK;
}

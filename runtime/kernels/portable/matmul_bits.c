/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_bits.c: MatMulNBits: a product with weights of 2, 4 or 8 bits that are quantised in blocks along the depth. Weights of 4
 * bits may also be the numbers of 16 levels, in the attribute ouro.levels, which stand in two vectors and are picked from there.
 *
 * Weights are unpacked from groups of eight words of 32 bits: the lowest bits of all words, then the next ones, and so on. Each is
 * a vector without bytes having to be spread. The elements of x that they meet are brought into the same order first ("split"):
 * with 4 bits element 8 w + j of 64 goes to place 8 j + w.
 *
 * A few rows are bound by reading the weights, and unpack them in registers (matmul_bits_few.c). More rows are worth unpacking some columns into
 * memory (matmul_bits_many.c).
 */
#include "runtime/kernels/portable/matmul_bits.h"
#include "runtime/kernels/portable/matmul_bits_groups.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>

enum {
    FEWEST_NUMBERED = 4, /* rows from which on products of bytes are worth unpacking weights, */
    FEWEST_BESIDE = 8    /* and where a few could be split into digits */
};

/* `bytes` of scratch. */
static float *taken(char **scratch, size_t bytes) {
    float *at = (float *)(void *)*scratch;
    *scratch += bytes;
    return at;
}

const float *rt_matmul_bits_widen(op_dtype dtype, char **scratch, size_t bytes, const void *from) {
    if (dtype == OP_FLOAT || !from) return from;
    float *to = taken(scratch, bytes);
    rt_half_load(dtype, to, from, (int64_t)(bytes / sizeof *to));
    return to;
}

static base_status check_groups(const bits_context *c, base_report *report) {
    const bits_state *s = c->state;
    for (int64_t k = 0; k < s->depth; k++) {
        if (c->groups[k] >= 0 && c->groups[k] < s->blocks) continue;
        return base_fail(report, BASE_INVALID,
                         "input 4 (g_idx) has %" PRId32 " at %" PRId64 ", expected 0 to %" PRId64,
                         c->groups[k], k, s->blocks - 1);
    }
    return BASE_OK;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const bits_state *s = prepared->state;
    char *at = scratch;
    bits_context c = {.state = s, .weights = inputs[1].data, .y = outputs[0].data};
    c.split = taken(&at, s->split_bytes);
    c.sums = taken(&at, s->sum_bytes);
    c.x = rt_matmul_bits_widen(s->dtype, &at, s->x_bytes, inputs[0].data);
    c.scales = rt_matmul_bits_widen(s->dtype, &at, s->scale_bytes, inputs[2].data);
    if (s->zeros_real) c.real_zeros = rt_matmul_bits_widen(s->dtype, &at, s->scale_bytes, inputs[3].data);
    if (s->zeros_packed) c.zeros = inputs[3].data;
    if (s->bias) c.bias = rt_matmul_bits_widen(s->dtype, &at, s->bias_bytes, inputs[5].data);
    if (s->dtype != OP_FLOAT) c.y = taken(&at, s->y_bytes);
    if (s->grouped) c.groups = inputs[4].data;
    if (s->grouped && check_groups(&c, report) != BASE_OK) return BASE_INVALID;
    c.count = s->rows;
    if (s->sum_bytes) {
        const int fewest = s->form.digits ? FEWEST_BESIDE : FEWEST_NUMBERED;
        if (s->rows < fewest || s->numbers.form != RT_DIGIT_BYTES ||
            !rt_matmul_bits_integers(&c, prepared->threads))
            rt_matmul_bits_few(&c, prepared->threads);
    } else {
        c.together = rt_matmul_bits_together(s->columns, prepared->threads);
        for (int64_t row = 0; row < s->rows; row += s->numbered) {
            const int64_t some = s->rows - row < s->numbered ? s->rows - row : s->numbered;
            c.row = row;
            c.count = some;
            if (!rt_matmul_bits_integers(&c, prepared->threads))
                rt_matmul_bits_floats(&c, row + some, prepared->threads);
        }
    }
    if (s->dtype != OP_FLOAT) rt_half_store(s->dtype, outputs[0].data, c.y, s->rows * s->columns);
    return BASE_OK;
}

/* Beside weights that lost as much themselves (passes/graph/quantize_weights.c) fewer
 * digits are not seen: what one digit costs is a tenth of what weights of 4 bits cost, and two a hundredth with 8 bits. A file permits
 * them by its accuracy level. Otherwise x is to be as good as in float. */
int rt_matmul_bits_digits(const op_attributes *attributes, int bits) {
    enum { OF_HALF = 2, OF_BYTES = 4 /* accuracy levels: 1 is float, 2 float16, 3 bfloat16, 4 int8 */ };
    const int64_t level = op_attribute_integer(attributes, "accuracy_level", 0);
    const bool ours = op_attribute_find(attributes, "ouro.weights_error");
    return level == OF_BYTES || (ours && bits == 4) ? 1 : ours || level >= OF_HALF ? 2 : 3;
}

/* Whether rows become integers. Three digits stand for floats beside weights of 4 bits. Beside 8 bits their rounding weighs as much as that of
 * all sums: such products stay in float. So do those of a plan for any machine that would be seen to
 * have fewer digits on some. */
static void choose_numbers(bits_state *s, const op_attributes *attributes, bool any_machine) {
    const int digits = rt_matmul_bits_digits(attributes, s->bits);
    s->numbered = digits < 3 ? RT_DIGIT_MOST_ROWS : MANY_ROWS;
    s->numbers = (rt_digit_product){.bits = s->bits,
                                    .digits = digits,
                                    .centred = !s->zeros_real && !s->zeros_packed,
                                    .depth = s->depth,
                                    .columns = s->columns,
                                    .block = s->block,
                                    .blocks = s->blocks};
    rt_digit_begin(&s->numbers);
    if (!s->grouped && !s->levelled && (digits == 3 ? s->bits == 4 : s->bits >= 4 && !any_machine))
        s->numbers.form = rt_digit_form_here(digits);
}

bool rt_matmul_bits_add(int64_t a, int64_t b, size_t *bytes, size_t *total) {
    size_t count;
    return base_size_multiply((size_t)a, (size_t)b, &count) &&
           base_size_multiply(count, sizeof(float), bytes) && base_size_add(*total, *bytes, total);
}

/* Scratch of x: what either way of computing these rows takes, on every machine. */
static bool add_rows(bits_state *s, bool few, size_t *total) {
    const int64_t many = s->rows < MANY_ROWS ? (s->rows + RT_PANEL - 1) / RT_PANEL * RT_PANEL : MANY_ROWS,
                  numbers = s->rows < s->numbered ? s->rows : s->numbered;
    size_t unused = 0, bytes;
    if (!rt_matmul_bits_add(few ? s->rows : many, few ? s->split_row : s->padded, &s->split_bytes, &unused) ||
        !rt_digit_rows_bytes(&s->numbers, numbers, &bytes) || !base_size_add(bytes, RT_ALIGNMENT, &unused))
        return false;
    if (bytes > s->split_bytes && numbers >= FEWEST_NUMBERED)
        s->split_bytes = (bytes + RT_ALIGNMENT - 1) / RT_ALIGNMENT * RT_ALIGNMENT;
    return base_size_add(*total, s->split_bytes, total) &&
           (!few || rt_matmul_bits_add(s->rows, s->blocks, &s->sum_bytes, total));
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    bits_state *s = BASE_NEW(arena, bits_state);
    if (!s) return base_fail_memory(report);
    const op_type *x = &call->inputs[0].type;
    int64_t elements;
    s->dtype = x->dtype;
    s->bits = (int)op_attribute_integer(&call->attributes, "bits", 4);
    s->block = op_attribute_integer(&call->attributes, "block_size", 32);
    s->depth = op_attribute_integer(&call->attributes, "K", 0);
    s->columns = op_attribute_integer(&call->attributes, "N", 0);
    s->blocks = (s->depth + s->block - 1) / s->block;
    s->block_bytes = s->block * s->bits / 8;
    while (INT64_C(1) << s->shift < s->block_bytes) s->shift++;
    op_shape_elements(&x->shape, &elements);
    s->rows = s->depth ? elements / s->depth : 0;
    s->zeros_packed = op_input_present(call, 3) && call->inputs[3].type.dtype == OP_UINT8;
    s->zeros_real = op_input_present(call, 3) && !s->zeros_packed;
    s->grouped = op_input_present(call, 4);
    s->bias = op_input_present(call, 5);
    size_t levels;
    const float *given = op_attribute_reals(&call->attributes, "ouro.levels", &levels);
    s->levelled = given && levels == LEVELS && s->bits == 4;
    if (s->levelled) memcpy(s->levels, given, sizeof s->levels);
    prepared->state = s;
    prepared->run = s->rows && s->columns && s->depth ? run : rt_run_nothing;
    if (prepared->run != run) return BASE_OK;
    size_t *total = &prepared->scratch_bytes, unused;
    const bool few = s->rows <= FEW_ROWS && !s->grouped;
    /* As much for a few rows on every machine: a plan says how much scratch it has. */
    const int64_t group = few ? MOST_LANES * 4 : GROUP;
    s->padded = (s->blocks * s->block_bytes + group - 1) / group * (group * 8 / s->bits);
    s->split_row = (s->padded + RT_DIGITS_TOGETHER - 1) / RT_DIGITS_TOGETHER * RT_DIGITS_TOGETHER;
    choose_numbers(s, &call->attributes, environment->portable_only);
    rt_matmul_bits_choose(s, environment->portable_only, environment->constant_bytes);
    bool fits = add_rows(s, few, total);
    if (s->dtype != OP_FLOAT) {
        fits = fits && rt_matmul_bits_add(s->rows, s->depth, &s->x_bytes, total) &&
               rt_matmul_bits_add(s->columns, s->blocks, &s->scale_bytes, total) &&
               (!s->zeros_real || rt_matmul_bits_add(s->columns, s->blocks, &unused, total)) &&
               (!s->bias || rt_matmul_bits_add(s->columns, 1, &s->bias_bytes, total)) &&
               rt_matmul_bits_add(s->rows, s->columns, &s->y_bytes, total);
    }
    return fits ? BASE_OK : base_fail_memory(report);
}

const rt_kernel rt_kernel_matmul_bits = {
    .name = "portable.matmul_bits", .accepts = rt_accepts_any_row_major, .prepare = prepare};

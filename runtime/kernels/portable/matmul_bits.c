/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_bits.c: MatMulNBits: a product with weights of 4 or 8 bits that are quantised in blocks along the depth.
 *
 * A few rows are bound by reading the weights: each byte is unpacked in registers and used at once. For weights of 4 bits, whose
 * bytes hold neighbours, the row is first split into its even and its odd elements, so that both halves of a byte meet theirs
 * side by side. More rows are worth unpacking a block of weights into a panel, which the tiles of the float product then walk.
 */
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include <string.h>

enum { LANES = 16, FEW_ROWS = 4, PANEL_DEPTH = 256 };

typedef struct bits_state {
    op_dtype dtype;
    int64_t rows, columns, depth;
    int64_t blocks, block; /* of a column; elements of one */
    int bits;
    bool zeros_real, zeros_packed, bias;
    size_t row_bytes, x_bytes, y_bytes, scale_bytes, bias_bytes; /* of scratch, one after another */
} bits_state;

typedef struct bits_context {
    const bits_state *state;
    const float *x, *scales, *bias, *real_zeros;
    const uint8_t *weights, *zeros;
    float *y;
    float *
        split; /* rows of x, even elements of each block before its odd ones; the last block filled with zeros */
} bits_context;

static float zero_of(const bits_context *c, int64_t column, int64_t block) {
    const bits_state *s = c->state;
    if (s->zeros_real) return c->real_zeros[column * s->blocks + block];
    if (!s->zeros_packed) return s->bits == 4 ? 8.0f : 128.0f;
    if (s->bits == 8) return (float)c->zeros[column * s->blocks + block];
    const uint8_t pair = c->zeros[column * ((s->blocks + 1) / 2) + block / 2];
    return (float)(block & 1 ? pair >> 4 : pair & 15);
}

/* ---- few rows ---------------------------------------------------------------------------------------------- */

static float sum_of_lanes(const float *lanes) {
    float sum[LANES];
    memcpy(sum, lanes, sizeof sum);
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++) sum[l] += sum[l + half];
    return sum[0];
}

/* Adds one block of 4-bit weights: lanes += scale (x (w - zero)). `half` bytes, a multiple of 8. */
#define BLOCK_OF_4(lanes, x, w, half, scale, zero)                                                           \
    do {                                                                                                     \
        const float *even_ = (x), *odd_ = (x) + (half);                                                      \
        const int wide_ = (half) % LANES ? LANES / 2 : LANES;                                                \
        for (int64_t j_ = 0; j_ < (half); j_ += wide_) {                                                     \
            if (wide_ == LANES) {                                                                            \
                RT_VECTOR for (int l_ = 0; l_ < LANES; l_++) {                                               \
                    const int byte_ = (w)[j_ + l_];                                                          \
                    (lanes)[l_] += (scale) * (even_[j_ + l_] * ((float)(byte_ & 15) - (zero)) +              \
                                              odd_[j_ + l_] * ((float)(byte_ >> 4) - (zero)));               \
                }                                                                                            \
            } else {                                                                                         \
                RT_VECTOR for (int l_ = 0; l_ < LANES / 2; l_++) {                                           \
                    const int byte_ = (w)[j_ + l_];                                                          \
                    (lanes)[l_] += (scale) * (even_[j_ + l_] * ((float)(byte_ & 15) - (zero)) +              \
                                              odd_[j_ + l_] * ((float)(byte_ >> 4) - (zero)));               \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    } while (0)

RT_CLONES static float dot_4(const float *x, const uint8_t *weights, const float *scales, const float *zeros,
                             int64_t blocks, int64_t block) {
    float lanes[LANES] = {0};
    const int64_t half = block / 2;
    for (int64_t b = 0; b < blocks; b++)
        BLOCK_OF_4(lanes, x + b * block, weights + b * half, half, scales[b], zeros[b]);
    return sum_of_lanes(lanes);
}

RT_CLONES static float dot_8(const float *x, const uint8_t *weights, const float *scales, const float *zeros,
                             int64_t blocks, int64_t block) {
    float lanes[LANES] = {0};
    for (int64_t b = 0; b < blocks; b++) {
        const float scale = scales[b], zero = zeros[b];
        for (int64_t j = 0; j < block; j += LANES) RT_VECTOR for (int l = 0; l < LANES; l++) {
                lanes[l] += scale * (x[b * block + j + l] * ((float)weights[b * block + j + l] - zero));
            }
    }
    return sum_of_lanes(lanes);
}

enum { ZEROS = 512 }; /* blocks whose zero points are unpacked at a time */

static void columns_of_few(void *user, int64_t begin, int64_t end) {
    const bits_context *c = user;
    const bits_state *s = c->state;
    const int64_t bytes = s->block * s->bits / 8, padded = s->blocks * s->block;
    float zeros[ZEROS];
    for (int64_t column = begin; column < end; column++) {
        const float bias = s->bias ? c->bias[column] : 0;
        for (int64_t row = 0; row < s->rows; row++) c->y[row * s->columns + column] = bias;
        for (int64_t from = 0; from < s->blocks; from += ZEROS) {
            const int64_t count = s->blocks - from < ZEROS ? s->blocks - from : ZEROS;
            if (s->zeros_packed || s->zeros_real || column == begin)
                for (int64_t b = 0; b < count; b++) zeros[b] = zero_of(c, column, from + b);
            const uint8_t *weights = c->weights + (column * s->blocks + from) * bytes;
            const float *scales = c->scales + column * s->blocks + from;
            for (int64_t row = 0; row < s->rows; row++) {
                const float *x = c->split + row * padded + from * s->block;
                c->y[row * s->columns + column] += s->bits == 4
                                                       ? dot_4(x, weights, scales, zeros, count, s->block)
                                                       : dot_8(x, weights, scales, zeros, count, s->block);
            }
        }
    }
}

/* Even elements of each block, then its odd ones; with 8 bits, as they are. */
static void split_rows(const bits_context *c) {
    const bits_state *s = c->state;
    const int64_t padded = s->blocks * s->block;
    for (int64_t row = 0; row < s->rows; row++) {
        float *to = c->split + row * padded;
        const float *from = c->x + row * s->depth;
        for (int64_t i = 0; i < padded; i++) {
            const int64_t within = i % s->block;
            const int64_t at = s->bits == 4 ? i - within + within / 2 + (within & 1 ? s->block / 2 : 0) : i;
            to[at] = i < s->depth ? from[i] : 0;
        }
    }
}

/* ---- many rows --------------------------------------------------------------------------------------------- */

/* Weights of RT_PANEL columns from `depth` on, as floats. */
static void fill_panel(const bits_context *c, int64_t column, int64_t depth, int64_t count, float *panel) {
    const bits_state *s = c->state;
    const int64_t bytes = s->block * s->bits / 8;
    for (int p = 0; p < RT_PANEL; p++) {
        if (column + p >= s->columns) {
            for (int64_t k = 0; k < count; k++) panel[k * RT_PANEL + p] = 0;
            continue;
        }
        for (int64_t k = 0; k < count;) {
            const int64_t block = (depth + k) / s->block, within = (depth + k) % s->block;
            const int64_t left = s->block - within, part = left < count - k ? left : count - k;
            const uint8_t *w = c->weights + ((column + p) * s->blocks + block) * bytes;
            const float scale = c->scales[(column + p) * s->blocks + block],
                        zero = zero_of(c, column + p, block);
            for (int64_t i = within; i < within + part; i++, k++) {
                const int value = s->bits == 8 ? w[i] : i & 1 ? w[i / 2] >> 4 : w[i / 2] & 15;
                panel[k * RT_PANEL + p] = scale * ((float)value - zero);
            }
        }
    }
}

static void columns_of_many(void *user, int64_t begin, int64_t end) {
    const bits_context *c = user;
    const bits_state *s = c->state;
    _Alignas(RT_ALIGNMENT) float panel[RT_PANEL * PANEL_DEPTH];
    for (int64_t group = begin; group < end; group++) {
        const int64_t column = group * RT_PANEL;
        const int64_t columns = s->columns - column < RT_PANEL ? s->columns - column : RT_PANEL;
        for (int64_t depth = 0; depth < s->depth; depth += PANEL_DEPTH) {
            const int64_t count = s->depth - depth < PANEL_DEPTH ? s->depth - depth : PANEL_DEPTH;
            fill_panel(c, column, depth, count, panel);
            const rt_tiles tiles = {.rows = s->rows,
                                    .columns = columns,
                                    .depth = count,
                                    .a = c->x + depth,
                                    .a_row = s->depth,
                                    .a_depth = 1,
                                    .panels = panel,
                                    .c = c->y + column,
                                    .c_row = s->columns,
                                    .add = depth > 0};
            rt_tiles_run(&tiles);
        }
        for (int64_t row = 0; s->bias && row < s->rows; row++)
            for (int64_t i = column; i < column + columns; i++) c->y[row * s->columns + i] += c->bias[i];
    }
}

/* ---- both ---------------------------------------------------------------------------------------------------- */

static const float *widened(const bits_state *s, char **scratch, size_t bytes, const void *from) {
    if (s->dtype == OP_FLOAT || !from) return from;
    float *to = (float *)(void *)*scratch;
    *scratch += bytes;
    rt_half_load(s->dtype, to, from, (int64_t)(bytes / sizeof *to));
    return to;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const bits_state *s = prepared->state;
    char *at = scratch;
    bits_context c = {.state = s, .weights = inputs[1].data, .y = outputs[0].data};
    c.split = (float *)(void *)at;
    at += s->row_bytes;
    c.x = widened(s, &at, s->x_bytes, inputs[0].data);
    c.scales = widened(s, &at, s->scale_bytes, inputs[2].data);
    if (s->zeros_real) c.real_zeros = widened(s, &at, s->scale_bytes, inputs[3].data);
    if (s->zeros_packed) c.zeros = inputs[3].data;
    if (s->bias) c.bias = widened(s, &at, s->bias_bytes, inputs[5].data);
    if (s->dtype != OP_FLOAT) c.y = (float *)(void *)at;
    if (s->rows <= FEW_ROWS) {
        split_rows(&c);
        rt_parallel(prepared->threads, s->columns, s->rows * s->depth, columns_of_few, &c);
    } else {
        rt_parallel(prepared->threads, (s->columns + RT_PANEL - 1) / RT_PANEL, s->rows * s->depth * RT_PANEL,
                    columns_of_many, &c);
    }
    if (s->dtype != OP_FLOAT) rt_half_store(s->dtype, outputs[0].data, c.y, s->rows * s->columns);
    return BASE_OK;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_row_major(call);
}

/* The bytes of a * b floats, added to *total too. */
static bool add_floats(int64_t a, int64_t b, size_t *bytes, size_t *total) {
    size_t count;
    return base_size_multiply((size_t)a, (size_t)b, &count) &&
           base_size_multiply(count, sizeof(float), bytes) && base_size_add(*total, *bytes, total);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    (void)environment;
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
    op_shape_elements(&x->shape, &elements);
    s->rows = s->depth ? elements / s->depth : 0;
    s->zeros_packed = op_input_present(call, 3) && call->inputs[3].type.dtype == OP_UINT8;
    s->zeros_real = op_input_present(call, 3) && !s->zeros_packed;
    s->bias = op_input_present(call, 5);
    prepared->state = s;
    prepared->run = s->rows && s->columns && s->depth ? run : rt_run_nothing;
    if (prepared->run != run) return BASE_OK;
    size_t *total = &prepared->scratch_bytes, unused;
    bool fits = s->rows > FEW_ROWS || add_floats(s->rows, s->blocks * s->block, &s->row_bytes, total);
    if (s->dtype != OP_FLOAT) {
        fits = fits && add_floats(s->rows, s->depth, &s->x_bytes, total) &&
               add_floats(s->columns, s->blocks, &s->scale_bytes, total) &&
               (!s->zeros_real || add_floats(s->columns, s->blocks, &unused, total)) &&
               (!s->bias || add_floats(s->columns, 1, &s->bias_bytes, total)) &&
               add_floats(s->rows, s->columns, &s->y_bytes, total);
    }
    return fits ? BASE_OK : base_fail_memory(report);
}

const rt_kernel rt_kernel_matmul_bits = {
    .name = "portable.matmul_bits", .accepts = accepts, .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* packed_product.c: MatMul and Gemm in float with a constant right matrix, which is packed into panels when the plan is made.
 *
 *     Y = activation(X W + bias), panels[panel][depth][RT_PANEL] hold W (times alpha), the last one filled up with zeros
 *
 * W may be stored in half precision (passes/layout/halve_weights.c), with finite weights, or as integers of 16 bits, which have one scale:
 * so are the panels, which are widened in registers.
 *
 * Any number of rows runs on the same panels, and nothing but them and X is read: there is no scratch. One row reads four panels at
 * once, as processors read memory ahead best in a few places. Several rows are cut into blocks of columns and of the depth that stay
 * in a cache near to the core; tiles pass over them (tiles.c), which add the bias and limit results while they hold them.
 *
 * Elements are added in an order that follows from the shapes alone, the same in all rows and columns, whatever the number of threads. These
 * share many rows: a thread finds most of its rows in its own cache, as what is done with rows before and after is shared in the same
 * way. Few rows are all read by each, which has columns of its own.
 */
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/packed_product.h"
#include "runtime/kernels/portable/pair_tiles.h"
#include "runtime/kernels/portable/wide_tiles.h"
#include <string.h>

enum {
    TOGETHER = 4, /* panels that one row reads at once; with AVX2, whose registers hold no more: */
    PAIR = 2,
    BLOCK_COLUMNS = 128, /* of a block, and of its depth at most: */
    BLOCK_DEPTH = 384,
    LEAST_COLUMNS = 16,
    LEAST_EACH =
        48, /* rows: with as many for each of them, threads share out the rows, else the columns, by whole tiles */
    /* With AVX2 half as many take as long, so that these are enough where each core can hold all weights. */
    LEAST_EACH_AVX2 = 24,
    HELD_WEIGHTS = 1 << 16,
    FEW_ROWS = 4,      /* fewer are multiplied with TOGETHER panels at once, */
    TILE_PANELS = 2,   /* others with so many */
    SMALL_WORK = 4096, /* products of fewer multiplications are not worth constants of their own */
    /* After the panels: tells these weights from those that other kernels pack, which never take so many bytes. */
    MARK_BYTES = RT_ALIGNMENT,
    /* Of two rows, which wait for weights alone, asking ahead takes a tenth more time where these are in a cache, and a third less where they are
     * in memory. Those of fewer bytes are in a cache for the most part. */
    ASKED_ROWS = 2,
    ASKED_BYTES = 2 << 20
};

/* ---- shapes -------------------------------------------------------------------------------------------- */

static bool read_bias(const op_call *call, rt_packed_product *product) {
    product->bias = RT_BIAS_NONE;
    if (!op_input_present(call, 2)) return true;
    const op_tensor *bias = &call->inputs[2];
    int64_t elements;
    if (bias->type.dtype != product->dtype || bias->type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    if (bias->type.shape.rank < 0 || !op_shape_elements(&bias->type.shape, &elements)) return false;
    const int32_t rank = bias->type.shape.rank;
    const int64_t last = rank ? bias->type.shape.dims[rank - 1] : 1;
    if (elements != last || (last != 1 && last != product->columns)) return false;
    product->bias = last == 1 ? RT_BIAS_ONE : RT_BIAS_COLUMNS;
    return true;
}

bool rt_packed_product_read(const op_call *call, rt_packed_product *product) {
    if ((call->code != OP_MATMUL && call->code != OP_GEMM) || call->input_count < 2 || call->input_count > 3)
        return false;
    const op_type *x = &call->inputs[0].type, *weights = &call->inputs[1].type, *y = &call->outputs[0].type;
    const bool gemm = call->code == OP_GEMM;
    size_t count;
    if (y->dtype != x->dtype || (x->dtype != OP_FLOAT && !rt_is_half(x->dtype))) return false;
    if (weights->dtype != x->dtype &&
        !(x->dtype == OP_FLOAT && (rt_is_half(weights->dtype) || weights->dtype == OP_INT16)))
        return false;
    if (x->layout != OP_LAYOUT_ROW_MAJOR || y->layout != OP_LAYOUT_ROW_MAJOR) return false;
    if (x->shape.rank < 1 || weights->shape.rank != 2 || !op_shape_known(&weights->shape)) return false;
    if (op_attribute_integers(&call->attributes, "ouro.left", &count) ||
        op_attribute_integers(&call->attributes, "ouro.right", &count) ||
        op_attribute_integer(&call->attributes, "transA", 0))
        return false;
    const bool turned = gemm && op_attribute_integer(&call->attributes, "transB", 0) != 0;
    *product = (rt_packed_product){.dtype = x->dtype,
                                   .stored = weights->dtype,
                                   .rows = 1,
                                   .depth = weights->shape.dims[turned],
                                   .columns = weights->shape.dims[!turned],
                                   .b_depth = turned ? 1 : weights->shape.dims[1],
                                   .b_column = turned ? weights->shape.dims[1] : 1,
                                   .alpha = gemm ? op_attribute_real(&call->attributes, "alpha", 1) : 1,
                                   .beta = gemm ? op_attribute_real(&call->attributes, "beta", 1) : 1,
                                   .scale = op_attribute_real(&call->attributes, "ouro.weights_scale", 1),
                                   .form = rt_is_half(x->dtype) ? RT_PANELS_OF_PAIRS : RT_PANELS_OF_NUMBERS};
    if (x->shape.dims[x->shape.rank - 1] != product->depth) return false;
    if (product->alpha != 1 && product->stored != product->dtype) return false;
    for (int32_t i = 0; i < x->shape.rank - 1; i++) {
        if (x->shape.dims[i] < 0) product->rows = -1;
        else if (product->rows >= 0) product->rows *= x->shape.dims[i]; /* no more than the elements of x */
    }
    return product->depth >= 2 && product->columns >= LEAST_COLUMNS && read_bias(call, product) &&
           rt_activation_read(&call->attributes, &product->activation);
}

bool rt_packed_product_wanted(const op_call *call, const rt_environment *environment,
                              const rt_packed_product *product) {
    if (!call->inputs[1].data || call->inputs[1].type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    const int64_t wide = rt_panel_count(product) * RT_PANEL;
    if (4 * (wide - product->columns) > product->columns) return false;
    if (product->stored != product->dtype) return true; /* no other kernel takes them */
    if (environment->portable_only || !rt_wide_tiles_here() || product->rows == 0) return false;
    return product->rows < 0 ||
           (double)product->rows * (double)product->depth * (double)product->columns >= SMALL_WORK;
}

/* The applications of this kernel are those in float, whatever the weights are stored in. */
static bool read_product(const op_call *call, rt_packed_product *product) {
    return rt_packed_product_read(call, product) && product->dtype == OP_FLOAT;
}

/* Bytes of one stored weight. */
static size_t weight_bytes(const rt_packed_product *product) {
    return product->stored == OP_FLOAT ? sizeof(float) : sizeof(uint16_t);
}

bool rt_product_panels_bytes(const rt_packed_product *product, size_t *bytes) {
    const bool pairs = product->form == RT_PANELS_OF_PAIRS;
    const int64_t depth = pairs ? rt_pairs_of(product->depth) * 2 : product->depth;
    return base_size_multiply((size_t)rt_panel_count(product), (size_t)depth, bytes) &&
           base_size_multiply(*bytes, RT_PANEL * weight_bytes(product), bytes) &&
           base_size_add(*bytes, pairs ? 0 : MARK_BYTES, bytes);
}

/* Whether the weights can be had back. */
static bool is_unpacked(const rt_packed_product *product) {
    return product->stored == OP_FLOAT && product->alpha == 1;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    rt_packed_product product;
    size_t bytes;
    (void)environment;
    return read_product(call, &product) && call->inputs[1].type.layout == OP_LAYOUT_PACKED &&
           rt_product_panels_bytes(&product, &bytes) && call->inputs[1].type.packed_bytes == bytes;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    rt_packed_product product;
    if (!read_product(call, &product) || !rt_packed_product_wanted(call, environment, &product)) return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    preference->inputs[1] = OP_LAYOUT_PACKED;
    return rt_product_panels_bytes(&product, &preference->packed_bytes[1]);
}

void rt_product_panels_pack(const rt_packed_product *product, const void *from, void *panels) {
    if (product->form == RT_PANELS_OF_PAIRS) {
        rt_pairs_pack(from, product->b_depth, product->b_column, product->depth, product->columns, panels);
        return;
    }
    int64_t at = 0;
    for (int64_t first = 0; first < product->columns; first += RT_PANEL) {
        const int64_t rest = product->columns - first, width = rest < RT_PANEL ? rest : RT_PANEL;
        for (int64_t k = 0; k < product->depth; k++, at += RT_PANEL) {
            for (int64_t j = 0; j < width; j++) {
                const int64_t of = k * product->b_depth + (first + j) * product->b_column;
                if (product->stored == OP_FLOAT)
                    ((float *)panels)[at + j] = product->alpha * ((const float *)from)[of];
                else ((uint16_t *)panels)[at + j] = ((const uint16_t *)from)[of];
            }
        }
    }
}

void rt_product_panels_unpack(const rt_packed_product *product, const void *panels, void *to) {
    for (int64_t k = 0; k < product->depth; k++) {
        for (int64_t j = 0; j < product->columns; j++) {
            const int64_t from = rt_product_panels_place(product, k, j),
                          at = k * product->b_depth + j * product->b_column;
            if (product->stored == OP_FLOAT) ((float *)to)[at] = ((const float *)panels)[from];
            else ((uint16_t *)to)[at] = ((const uint16_t *)panels)[from];
        }
    }
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    rt_packed_product product;
    (void)environment;
    if (input != 1 || !read_product(call, &product))
        return base_fail(report, BASE_INVALID, "input %u of this product is not packed", input);
    rt_product_panels_pack(&product, source->data, packed);
    return BASE_OK;
}

/* What `pack` did, back. */
static base_status unpack(const op_call *call, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *row_major, base_report *report) {
    rt_packed_product product;
    (void)environment;
    if (input != 1 || !read_product(call, &product) || !is_unpacked(&product))
        return base_fail(report, BASE_INVALID, "input %u of this product is not packed", input);
    rt_product_panels_unpack(&product, packed->data, row_major);
    return BASE_OK;
}

static bool estimate(const op_call *call, const rt_environment *environment, size_t scratch_limit,
                     rt_cost *cost) {
    rt_packed_product product;
    size_t bytes;
    (void)scratch_limit;
    if (!read_product(call, &product) || !is_unpacked(&product) || product.rows < 1 ||
        !rt_product_panels_bytes(&product, &bytes))
        return false;
    *cost =
        (rt_cost){.seconds = rt_packed_product_seconds((double)product.rows, (double)product.depth,
                                                       (double)product.columns, (double)bytes, environment),
                  .packed_bytes = bytes};
    if (op_attribute_integer(&call->attributes, "ouro.weights_bits", 0)) { /* they come from memory */
        const double read = rt_distant_seconds((double)bytes, environment);
        if (read > cost->seconds) cost->seconds = read;
    }
    return true;
}

/* ---- one row ------------------------------------------------------------------------------------------- */

/* Panels that are computed together lie `step` panels apart. */
typedef void row_function(const float *a, const void *panels, int64_t step, int64_t depth, float *y);

/* One row times PANELS panels of weights of this type, SIDE vectors of each at once. Two sums an element, of even and of odd places of
 * the depth: as many at once as an addition takes time. */
#define ROW(name, target, vector, weight, PANELS, SIDE, LOAD, ADD_PRODUCT)                                   \
    target static void name(const float *restrict a, const void *restrict panels, int64_t step,              \
                            int64_t depth, float *restrict y) {                                              \
        enum { WIDE = sizeof(vector) / sizeof(float), ALL = PANELS * SIDE };                                 \
        for (int part = 0; part < RT_PANEL; part += SIDE * WIDE) {                                           \
            const weight *from = (const weight *)panels + part;                                              \
            vector even[ALL], odd[ALL];                                                                      \
            _Pragma("GCC unroll 4") for (int v = 0; v < ALL; v++) even[v] = odd[v] = (vector){0};            \
            int64_t k = 0;                                                                                   \
            for (; k + 4 <= depth; k += 4) {                                                                 \
                _Pragma("GCC unroll 4") for (int v = 0; v < ALL; v++) {                                      \
                    const weight *at = from + (v / SIDE * step * depth + k) * RT_PANEL + v % SIDE * WIDE;    \
                    ADD_PRODUCT(even[v], a[k], LOAD(vector, at));                                            \
                    ADD_PRODUCT(odd[v], a[k + 1], LOAD(vector, at + RT_PANEL));                              \
                    ADD_PRODUCT(even[v], a[k + 2], LOAD(vector, at + 2 * RT_PANEL));                         \
                    ADD_PRODUCT(odd[v], a[k + 3], LOAD(vector, at + 3 * RT_PANEL));                          \
                }                                                                                            \
            }                                                                                                \
            for (; k < depth; k++) {                                                                         \
                _Pragma("GCC unroll 4") for (int v = 0; v < ALL; v++) ADD_PRODUCT(                           \
                    even[v], a[k],                                                                           \
                    LOAD(vector, from + (v / SIDE * step * depth + k) * RT_PANEL + v % SIDE * WIDE));        \
            }                                                                                                \
            _Pragma("GCC unroll 4") for (int v = 0; v < ALL; v++) {                                          \
                even[v] += odd[v];                                                                           \
                memcpy(y + v / SIDE * step * RT_PANEL + part + v % SIDE * WIDE, &even[v], sizeof(vector));   \
            }                                                                                                \
        }                                                                                                    \
    }

/* For several panels, and for one, of each type. */
#define ROWS(name, target, vector, weight, PANELS, SIDE, LOAD, ADD_PRODUCT)                                  \
    ROW(row_##name, target, vector, weight, PANELS, SIDE, LOAD, ADD_PRODUCT)                                 \
    ROW(panel_##name, target, vector, weight, 1, SIDE, LOAD, ADD_PRODUCT)

#define ADD(sum, left, right) ((sum) += (left) * (right))
ROWS(baseline, , rt_floats_4, float, TOGETHER, 1, RT_LOAD_FLOATS, ADD)
ROWS(half_baseline, , rt_floats_4, uint16_t, TOGETHER, 1, RT_LOAD_HALF_4, ADD)
ROWS(brain_baseline, , rt_floats_4, uint16_t, TOGETHER, 1, RT_LOAD_BRAIN_4, ADD)
ROWS(short_baseline, , rt_floats_4, uint16_t, TOGETHER, 1, RT_LOAD_SHORT_4, ADD)
#if RT_X86_KERNELS
#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX512 __attribute__((target("avx512f")))
#define ADD_8(sum, left, right) ((sum) = _mm256_fmadd_ps(_mm256_set1_ps(left), right, sum))
#define ADD_16(sum, left, right) ((sum) = _mm512_fmadd_ps(_mm512_set1_ps(left), right, sum))
ROWS(avx2, AVX2, rt_floats_8, float, PAIR, 2, RT_LOAD_FLOATS, ADD_8)
ROWS(half_avx2, AVX2, rt_floats_8, uint16_t, PAIR, 2, RT_LOAD_HALF_8, ADD_8)
ROWS(brain_avx2, AVX2, rt_floats_8, uint16_t, PAIR, 2, RT_LOAD_BRAIN_8, ADD_8)
ROWS(short_avx2, AVX2, rt_floats_8, uint16_t, PAIR, 2, RT_LOAD_SHORT_8, ADD_8)
ROWS(avx512, AVX512, rt_floats_16, float, TOGETHER, 1, RT_LOAD_FLOATS, ADD_16)
ROWS(half_avx512, AVX512, rt_floats_16, uint16_t, TOGETHER, 1, RT_LOAD_HALF_16, ADD_16)
ROWS(brain_avx512, AVX512, rt_floats_16, uint16_t, TOGETHER, 1, RT_LOAD_BRAIN_16, ADD_16)
ROWS(short_avx512, AVX512, rt_floats_16, uint16_t, TOGETHER, 1, RT_LOAD_SHORT_16, ADD_16)
#endif

/* For `together` panels, and for one. */
typedef struct row_functions {
    row_function *several, *one;
    int64_t together;
} row_functions;

static row_functions best_row(op_dtype stored) {
#define FOR(name, together)                                                                                  \
    (stored == OP_FLOAT      ? (row_functions){row_##name, panel_##name, together}                           \
     : stored == OP_FLOAT16  ? (row_functions){row_half_##name, panel_half_##name, together}                 \
     : stored == OP_BFLOAT16 ? (row_functions){row_brain_##name, panel_brain_##name, together}               \
                             : (row_functions){row_short_##name, panel_short_##name, together})
#if RT_X86_KERNELS
    if (__builtin_cpu_supports("avx512f")) return FOR(avx512, TOGETHER);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && rt_has_half_conversions())
        return FOR(avx2, PAIR);
#endif
    return FOR(baseline, TOGETHER);
}

/* ---- running ------------------------------------------------------------------------------------------- */

typedef struct packed_job {
    const rt_packed_product *product;
    const float *x, *bias;
    const char *panels;
    float *y;
} packed_job;

/* The weights of the panel that begins at this column, from this depth on. */
static const void *panels_at(const packed_job *job, int64_t column, int64_t depth) {
    return job->panels +
           (size_t)(column * job->product->depth + depth * RT_PANEL) * weight_bytes(job->product);
}

RT_CLONES static void add_bias(const float *bias, float beta, int64_t columns, float *y) {
    for (int64_t j = 0; j < columns; j++) y[j] += beta * bias[j];
}

RT_CLONES static void add_one(float bias, int64_t columns, float *y) {
    for (int64_t j = 0; j < columns; j++) y[j] += bias;
}

RT_CLONES static void scale_sums(float scale, int64_t columns, float *y) {
    for (int64_t j = 0; j < columns; j++) y[j] *= scale;
}

void rt_packed_product_finish(const rt_packed_product *product, const float *bias, int64_t column,
                              int64_t columns, float *y) {
    if (product->stored == OP_INT16) scale_sums(product->scale, columns, y);
    if (product->bias == RT_BIAS_COLUMNS) add_bias(bias + column, product->beta, columns, y);
    else if (product->bias == RT_BIAS_ONE) add_one(product->beta * bias[0], columns, y);
    rt_activation_fused(&product->activation, y, columns); /* as the sums before it */
}

/* Columns [first, end) of one row, `first` at the beginning of a panel. */
static void run_row(const packed_job *job, int64_t row, int64_t first, int64_t end) {
    const rt_packed_product *product = job->product;
    const int64_t depth = product->depth;
    const float *a = job->x + row * depth;
    float *y = job->y + row * product->columns;
    const row_functions run = best_row(product->stored);
    const int64_t each = (end - first) / (run.together * RT_PANEL);
    for (int64_t column = first; column < first + each * RT_PANEL; column += RT_PANEL)
        run.several(a, panels_at(job, column, 0), each, depth, y + column);
    for (int64_t column = first + each * run.together * RT_PANEL; column < end; column += RT_PANEL) {
        float last[RT_PANEL];
        const int64_t columns = end - column < RT_PANEL ? end - column : RT_PANEL;
        run.one(a, panels_at(job, column, 0), 0, depth, last);
        memcpy(y + column, last, (size_t)columns * sizeof *y);
    }
    rt_packed_product_finish(product, job->bias, first, end - first, y + first);
}

/* Columns and a part of the depth: panels that stay in a cache while all rows pass over them. */
typedef struct block {
    int64_t column, columns, from, depth;
    bool first;
    const void *next; /* the panels of the block after it; NULL: there is none */
} block;

bool rt_packed_product_tiles_finish(const rt_packed_product *product, float *low, float *high) {
    return product->stored != OP_INT16 &&
           (product->bias == RT_BIAS_NONE || (product->bias == RT_BIAS_COLUMNS && product->beta == 1)) &&
           rt_activation_limits(&product->activation, low, high);
}

static void run_block(const packed_job *job, const block *b, int64_t row, int64_t rows) {
    const rt_packed_product *product = job->product;
    const bool last = b->from + b->depth == product->depth;
    float *y = job->y + row * product->columns + b->column;
    rt_tiles tiles = {.rows = rows,
                      .columns = b->columns,
                      .depth = b->depth,
                      .a = job->x + row * product->depth + b->from,
                      .a_row = product->depth,
                      .a_depth = 1,
                      .stored = product->stored,
                      .panels = panels_at(job, b->column, b->from),
                      .panel_step = product->depth * RT_PANEL,
                      .far = b->first,
                      .next = b->next,
                      .c = y,
                      .c_row = product->columns,
                      .add = b->from > 0,
                      .fused = true};
    const bool finished = rt_packed_product_tiles_finish(product, &tiles.low, &tiles.high);
    if (last && finished) {
        tiles.bias = job->bias ? job->bias + b->column : NULL;
        tiles.limited = product->activation.kind != RT_ACTIVATION_NONE;
    }
    rt_tiles_run(&tiles);
    for (int64_t i = 0; i < rows && last && !finished; i++)
        rt_packed_product_finish(product, job->bias, b->column, b->columns, y + i * product->columns);
}

static void run_part(const packed_job *job, const rt_packed_part *part) {
    const rt_packed_product *product = job->product;
    if (part->first >= part->end || part->rows == 0) return;
    if (product->rows == 1) {
        run_row(job, 0, part->first, part->end);
        return;
    }
    const int64_t parts = (product->depth + BLOCK_DEPTH - 1) / BLOCK_DEPTH;
    const size_t bytes = (size_t)(product->depth * product->columns) * weight_bytes(product);
    const bool asks = product->rows > ASKED_ROWS || bytes >= ASKED_BYTES;
    for (int64_t column = part->first; column < part->end; column += BLOCK_COLUMNS) {
        const int64_t rest = part->end - column, columns = rest < BLOCK_COLUMNS ? rest : BLOCK_COLUMNS;
        for (int64_t k = 0; k < parts; k++) {
            const int64_t from = product->depth * k / parts, after = product->depth * (k + 1) / parts;
            const block b = {.column = column,
                             .columns = columns,
                             .from = from,
                             .depth = after - from,
                             .first = asks && column == part->first && k == 0,
                             .next = !asks                  ? NULL
                                     : k + 1 < parts        ? panels_at(job, column, after)
                                     : rest > BLOCK_COLUMNS ? panels_at(job, column + BLOCK_COLUMNS, 0)
                                                            : NULL};
            run_block(job, &b, part->row, part->rows);
        }
    }
}

rt_packed_part rt_packed_product_part(const rt_packed_product *product, int member, int members) {
    const int64_t rows = product->rows;
    const bool held = !rt_wide_vectors_here() && product->depth * product->columns <= HELD_WEIGHTS;
    const int64_t each = held ? LEAST_EACH_AVX2 : LEAST_EACH;
    if (rows >= each * members) {
        const int64_t row = rows * member / members;
        return (rt_packed_part){
            .row = row, .rows = rows * (member + 1) / members - row, .end = product->columns};
    }
    const int64_t unit = (rows < FEW_ROWS ? TOGETHER : TILE_PANELS) * RT_PANEL,
                  units = (product->columns + unit - 1) / unit, end = units * (member + 1) / members * unit;
    return (rt_packed_part){.rows = rows,
                            .first = units * member / members * unit,
                            .end = end < product->columns ? end : product->columns};
}

static void run_member(void *context, int member, int members) {
    const packed_job *job = context;
    const rt_packed_part part = rt_packed_product_part(job->product, member, members);
    run_part(job, &part);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const rt_packed_product *product = prepared->state;
    packed_job job = {.product = product,
                      .x = inputs[0].data,
                      .panels = inputs[1].data,
                      .bias = product->bias != RT_BIAS_NONE ? inputs[2].data : NULL,
                      .y = outputs[0].data};
    const double work = (double)product->rows * (double)product->depth * (double)product->columns;
    if (product->rows == 0) return BASE_OK;
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    rt_packed_product *product = BASE_NEW(arena, rt_packed_product);
    if (!product) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_product(call, product) || product->rows < 0)
        return base_fail(report, BASE_INVALID, "this is no product with weights in panels");
    prepared->state = product;
    prepared->run = run;
    return BASE_OK;
}

/* Another number of rows. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    rt_packed_product *product = prepared->state;
    return accepts(call, environment) && read_product(call, product) && product->rows >= 0;
}

const rt_kernel rt_kernel_packed_product = {.name = "portable.packed_product",
                                            .accepts = accepts,
                                            .prefer = prefer,
                                            .pack = pack,
                                            .unpack = unpack,
                                            .estimate = estimate,
                                            .only_packed = true,
                                            .prepare = prepare,
                                            .adapt = adapt};

/* SPDX-License-Identifier: Apache-2.0 */
/* packed_bits.c: MatMulNBits with constant weights of 8 or 4 bits, which are packed into panels (bit_panels.h) when the plan is made.
 *
 * A product of a few rows takes as long as reading its weights does, and memory is read fastest from front to back in few places. So scales and
 * zero points go into the panels, beside the weights that they belong to. Of their own inputs a mark of a few bytes is left, the same for all
 * products. More rows gain less: they meet two panels a few at a time, while these stay in a cache.
 *
 * Rows become numbers of as many digits as in matmul_bits.c, which has all other applications: groups of the file's own, levels, zero points in
 * float, weights that only a run has, plans for any machine. Rows with an element that is not finite are multiplied in float; so are all on
 * machines that do not multiply bytes, where no plan is made so.
 */
#include "runtime/kernels/portable/bit_panels.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/matmul_bits.h"

enum {
    CODES = 1, /* inputs */
    SCALES,
    ZEROS,
    GROUPS,
    BIAS,
    FEW_ROWS = 8,             /* they are split faster than other threads come to help */
    MOST_ROWS = 128,          /* at a time: they stay in a cache while panels pass */
    MARK_BYTES = RT_ALIGNMENT /* of scales and zero points that stand in panels */
};

typedef struct bits_product {
    rt_bit_panels panels;
    op_dtype dtype; /* of x, scales, bias and the result */
    int64_t rows;   /* -1: not known yet */
    bool bias;
    /* Of scratch, one after another: rows that are split, and floats where the tensors have 16 bits. */
    size_t row_bytes, split_bytes, x_bytes, bias_bytes, y_bytes;
} bits_product;

/* False where the application is none of this kernel's, however its tensors lie. */
static bool read_product(const op_call *call, bits_product *product) {
    const op_attributes *attributes = &call->attributes;
    *product = (bits_product){.dtype = call->inputs[0].type.dtype, .bias = op_input_present(call, BIAS)};
    rt_bit_panels *panels = &product->panels;
    if (!rt_bit_panels_read(call, ZEROS, panels)) return false;
    if (op_attribute_find(attributes, "ouro.levels") || op_input_present(call, GROUPS)) return false;
    if (panels->zeros && call->inputs[ZEROS].type.dtype != OP_UINT8) return false;
    panels->digits = rt_matmul_bits_digits(attributes, panels->bits);
    if (panels->bits == 8 && panels->digits > 2) return false;
    const op_shape *shape = &call->inputs[0].type.shape;
    int64_t elements;
    product->rows =
        op_shape_known(shape) && op_shape_elements(shape, &elements) ? elements / panels->depth : -1;
    /* A few rows wait for weights, whatever they become. */
    if (panels->bits == 4 && panels->digits == 2 && product->rows <= FEW_ROWS) panels->digits = 3;
    return true;
}

/* Whether an input stands in the panels, and in how many bytes. */
static bool packed_bytes(const bits_product *product, uint32_t input, size_t *bytes) {
    *bytes = MARK_BYTES;
    if (input == CODES) return rt_bit_panels_bytes(&product->panels, bytes);
    return input == SCALES || (input == ZEROS && product->panels.zeros);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    bits_product product;
    size_t bytes;
    (void)environment;
    if (!read_product(call, &product) || call->outputs[0].type.layout != OP_LAYOUT_ROW_MAJOR) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_type *type = &call->inputs[i].type;
        if (!op_input_present(call, i)) continue;
        const bool packed = packed_bytes(&product, i, &bytes);
        if (type->layout != (packed ? OP_LAYOUT_PACKED : OP_LAYOUT_ROW_MAJOR)) return false;
        if (packed && type->packed_bytes != bytes) return false;
    }
    return true;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    bits_product product;
    if (environment->portable_only || !rt_bit_panels_here() || !read_product(call, &product)) return false;
    if (product.rows == 0 || !rt_bit_panels_wanted(&product.panels)) return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    for (uint32_t i = CODES; i <= ZEROS; i++) {
        if (!op_input_present(call, i)) continue;
        if (!call->inputs[i].data) return false;
        preference->inputs[i] = OP_LAYOUT_PACKED;
        if (!packed_bytes(&product, i, &preference->packed_bytes[i])) return false;
    }
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    bits_product product;
    (void)environment;
    if (input < CODES || input > ZEROS || !read_product(call, &product))
        return base_fail(report, BASE_INVALID, "input %u of this product is not packed", input);
    if (input != CODES) return BASE_OK; /* a mark: it is in the panels */
    const rt_bit_weights weights = {.codes = source->data,
                                    .scales = call->inputs[SCALES].data,
                                    .scale_type = product.dtype,
                                    .zeros = product.panels.zeros ? call->inputs[ZEROS].data : NULL};
    rt_bit_panels_pack(&product.panels, &weights, packed);
    return BASE_OK;
}

/* What `pack` did, back: all is in the panels. */
static base_status unpack(const op_call *call, const rt_environment *environment, uint32_t input,
                          const op_tensor *packed, void *row_major, base_report *report) {
    bits_product product;
    if (input < CODES || input > ZEROS || !accepts(call, environment) || !read_product(call, &product) ||
        (input == ZEROS && !product.panels.zeros))
        return base_fail(report, BASE_INVALID, "input %u of this product is not packed", input);
    const void *panels = input == CODES ? packed->data : call->inputs[CODES].data;
    if (input == CODES) rt_bit_panels_codes(&product.panels, panels, row_major);
    else if (input == SCALES) rt_bit_panels_scales(&product.panels, panels, product.dtype, row_major);
    else rt_bit_panels_zeros(&product.panels, panels, row_major);
    return BASE_OK;
}

/* ---- running --------------------------------------------------------------------------------------------- */

typedef struct bits_job {
    const bits_product *product;
    const float *x, *bias;
    char *split;
    const void *panels;
    float *y;
    int64_t row, count;    /* of the rows that are computed together */
    bool whole[MOST_ROWS]; /* each of them: it is split; else it is multiplied in float */
} bits_job;

/* Rows [begin, end) become numbers. */
static void split_rows(void *context, int64_t begin, int64_t end) {
    bits_job *j = context;
    const rt_bit_panels *panels = &j->product->panels;
    for (int64_t i = begin; i < end; i++)
        j->whole[i] = rt_bit_panels_split(panels, j->x + (j->row + i) * panels->depth,
                                          j->split + (size_t)i * j->product->row_bytes);
}

/* Panels [begin, end) of the rows. */
static void multiply(void *context, int64_t begin, int64_t end) {
    const bits_job *j = context;
    const bits_product *product = j->product;
    const rt_bit_panels *panels = &product->panels;
    rt_bit_row rows[MOST_ROWS];
    int64_t count = 0;
    for (int64_t i = 0; i < j->count; i++) {
        const char *split = j->split + (size_t)i * product->row_bytes;
        float *y = j->y + (j->row + i) * panels->columns;
        if (j->whole[i]) rows[count++] = (rt_bit_row){split, y};
        else
            rt_bit_panels_floats(panels, j->x + (j->row + i) * panels->depth, j->panels, j->bias, begin, end,
                                 y);
    }
    if (count) rt_bit_panels_rows(panels, rows, count, j->panels, j->bias, begin, end);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const bits_product *product = prepared->state;
    const rt_bit_panels *panels = &product->panels;
    char *at = (char *)scratch + product->split_bytes;
    bits_job j = {.product = product, .split = scratch, .panels = inputs[CODES].data, .y = outputs[0].data};
    (void)report;
    j.x = rt_matmul_bits_widen(product->dtype, &at, product->x_bytes, inputs[0].data);
    j.bias = rt_matmul_bits_widen(product->dtype, &at, product->bias_bytes,
                                  product->bias ? inputs[BIAS].data : NULL);
    if (product->dtype != OP_FLOAT) j.y = (float *)(void *)at;
    for (j.row = 0; j.row < product->rows; j.row += MOST_ROWS) {
        j.count = product->rows - j.row < MOST_ROWS ? product->rows - j.row : MOST_ROWS;
        rt_parallel(j.count > FEW_ROWS ? prepared->threads : 1, j.count, panels->depth, split_rows, &j);
        rt_parallel(prepared->threads, rt_bit_panels_count(panels), j.count * panels->depth * RT_BIT_PANEL,
                    multiply, &j);
    }
    if (product->dtype != OP_FLOAT)
        rt_half_store(product->dtype, outputs[0].data, j.y, product->rows * panels->columns);
    return BASE_OK;
}

/* Never more for fewer rows, as plans that are for up to so many have what most of them take. */
static bool lay_out_scratch(bits_product *product, size_t *total) {
    const rt_bit_panels *panels = &product->panels;
    const int64_t rows = product->rows;
    rt_bit_panels widest = *panels;
    if (widest.bits == 4 && widest.digits == 2) widest.digits = 3; /* as a few rows have */
    size_t row;
    if (!rt_bit_panels_row_bytes(&widest, &row) || !base_size_align(row, RT_ALIGNMENT, &product->row_bytes) ||
        !base_size_multiply(product->row_bytes, (size_t)(rows < MOST_ROWS ? rows : MOST_ROWS),
                            &product->split_bytes))
        return false;
    *total = product->split_bytes;
    if (product->dtype == OP_FLOAT) return true;
    return rt_matmul_bits_add(rows, panels->depth, &product->x_bytes, total) &&
           (!product->bias || rt_matmul_bits_add(panels->columns, 1, &product->bias_bytes, total)) &&
           rt_matmul_bits_add(rows, panels->columns, &product->y_bytes, total);
}

/* For the number of rows that is known now. */
static bool settle(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    bits_product *product = prepared->state;
    if (!accepts(call, environment) || !read_product(call, product) || product->rows < 0) return false;
    prepared->run = product->rows ? run : rt_run_nothing;
    prepared->scratch_bytes = 0;
    return !product->rows || lay_out_scratch(product, &prepared->scratch_bytes);
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    prepared->state = BASE_NEW(arena, bits_product);
    if (!prepared->state) return base_fail_memory(report);
    if (settle(call, environment, prepared)) return BASE_OK;
    return base_fail(report, BASE_INVALID, "this is no product with weights of few bits in panels");
}

const rt_kernel rt_kernel_packed_bits = {.name = "portable.packed_bits",
                                         .accepts = accepts,
                                         .prefer = prefer,
                                         .pack = pack,
                                         .unpack = unpack,
                                         .only_packed = true,
                                         .prepare = prepare,
                                         .adapt = settle};

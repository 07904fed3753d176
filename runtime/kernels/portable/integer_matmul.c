/* SPDX-License-Identifier: Apache-2.0 */
/* integer_matmul.c: MatMulInteger and QLinearMatMul in portable C: numpy's matmul of 8-bit integers.
 *
 * Scales and zero points are one number, or one for each row of A (and Y) and each column of B: as a vector, the
 * same for all matrices of a stack, or as a tensor that has the stack's dimensions too.
 *
 * A constant matrix B is packed when the plan is made, on machines that multiply bytes.
 *
 * Products of few rows add rows of any other B where they lie, as copying B would cost more than the product; its zero points
 * are taken away in the end: sum of a * (b - zero) = sum of a * b - zero * sum of a.
 */
#include "runtime/kernels/portable/integer_product.h"
#include "runtime/kernels/portable/integer_tiles.h"
#include "runtime/kernels/portable/product.h"
#include <string.h>

enum {
    PACKED_COLUMNS = 512, /* of a block at most; more threads have less each */
    THIN_ROWS = 4,        /* products of fewer rows add rows of B */
    TILE_ROWS = 4,        /* blocks of so many are multiplied in tiles, where the machine does that */
    THIN_COLUMNS = 1024   /* that they work on at a time: sums that stay in the cache */
};

/* How a scale or zero point is found for a line (a row or column) of a matrix of the stack. */
typedef enum lines_kind { LINES_ONE, LINES_VECTOR, LINES_STACK } lines_kind;

typedef struct integer_matmul {
    rt_product product;    /* strides and shapes */
    int64_t rows, columns; /* of one matrix: product.rows may count those of a stack */
    int64_t a_stack[OP_MAX_RANK], b_stack[OP_MAX_RANK]; /* strides of the stacks, in matrices */
    op_dtype a_dtype, b_dtype, y_dtype;
    bool quantized, packed; /* packed: B is */
    int64_t packed_each;    /* columns of a block of it */
    bool tiles;             /* its blocks are multiplied in tiles */
    lines_kind a_zero, b_zero, a_scale, b_scale, y_zero, y_scale;
} integer_matmul;

typedef struct integer_matmul_job {
    const integer_matmul *shape;
    const char *a, *b, *b_end;
    const void *a_zero, *b_zero, *y_zero; /* a_zero and b_zero: NULL where there is none */
    const float *a_scale, *b_scale, *y_scale;
    char *y;
    char *scratch;
    size_t scratch_each;
    int64_t row_parts, column_parts, rows_each, columns_each;
} integer_matmul_job;

/* The element of a scale or zero point that belongs to `line` of matrix `matrix` of its stack, of `extent` lines. */
static int64_t line_at(lines_kind kind, int64_t matrix, int64_t line, int64_t extent) {
    return kind == LINES_ONE ? 0 : kind == LINES_VECTOR ? line % extent : matrix * extent + line;
}

/* A block of columns of B. */
typedef struct line_context {
    const uint8_t *b, *end; /* the first row's part; after B's last element */
    int64_t b_depth, columns;
} line_context;

static void find_lines(const void *user, int64_t k, int64_t count, const uint8_t **to, uint8_t *spare) {
    const line_context *context = user;
    const int64_t wide = (context->columns + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL * RT_INTEGER_PANEL;
    for (int64_t i = 0; i < count; i++, spare += RT_INTEGER_COLUMNS) {
        to[i] = context->b + (k + i) * context->b_depth;
        if (context->end - to[i] >= wide) continue;
        memcpy(spare, to[i], (size_t)context->columns);
        to[i] = spare;
    }
}

/* Offsets of a matrix of the result's stack in the stacks of A and B, which broadcast. */
static int64_t stack_at(const rt_product *product, int64_t batch, const int64_t *strides) {
    int64_t offset = 0;
    for (int32_t i = product->batch_rank - 1; i >= 0; i--) {
        offset += batch % product->batch_dims[i] * strides[i];
        batch /= product->batch_dims[i];
    }
    return offset;
}

/* Sums of one row, from `column` on, to their place in the result. `scales`: those of the columns, put together; or NULL. */
static void finish_row(const integer_matmul_job *job, int64_t batch, int64_t row, int64_t column,
                       int64_t columns, const float *scales, const int32_t *sums) {
    const integer_matmul *shape = job->shape;
    const rt_product *product = &shape->product;
    const int64_t to = (batch * product->rows + row) * product->columns + column;
    if (!shape->quantized) {
        memcpy((int32_t *)(void *)job->y + to, sums, (size_t)columns * sizeof(int32_t));
        return;
    }
    const int64_t a_matrix = stack_at(product, batch, shape->a_stack);
    const int64_t b_matrix = stack_at(product, batch, shape->b_stack);
    const int64_t zero = line_at(shape->y_zero, batch, row, shape->rows);
    const rt_requantization how = {
        .a_scale = job->a_scale[line_at(shape->a_scale, a_matrix, row, shape->rows)],
        .b_scale = job->b_scale + line_at(shape->b_scale, b_matrix, column, shape->columns),
        .y_scale = job->y_scale[line_at(shape->y_scale, batch, row, shape->rows)],
        .each = shape->b_scale != LINES_ONE,
        .scales = scales,
        .dtype = shape->y_dtype,
        .zero = rt_byte_load(shape->y_dtype, job->y_zero, zero)};
    rt_requantize(&how, sums, columns, job->y + to);
}

/* Where the sums of a block go. */
typedef struct block_results {
    const integer_matmul_job *job;
    int64_t batch, row, column, columns;
} block_results;

static void finish_rows(const void *results, int64_t row, int64_t rows, const int32_t *sums, int64_t pitch) {
    const block_results *to = results;
    const integer_matmul *shape = to->job->shape;
    /* The same for all rows: divided once. */
    const bool same = shape->quantized && shape->b_scale != LINES_ONE && shape->a_scale == LINES_ONE &&
                      shape->y_scale == LINES_ONE;
    float scales[RT_INTEGER_COLUMNS];
    if (same) {
        const int64_t matrix = stack_at(&shape->product, to->batch, shape->b_stack);
        const float *b_scale = to->job->b_scale + line_at(shape->b_scale, matrix, to->column, shape->columns);
        for (int64_t j = 0; j < to->columns; j++)
            scales[j] = *to->job->a_scale * b_scale[j] / *to->job->y_scale;
    }
    for (int64_t i = 0; i < rows; i++)
        finish_row(to->job, to->batch, to->row + row + i, to->column, to->columns, same ? scales : NULL,
                   sums + i * pitch);
}

/* Of some columns of the block. */
static void finish_part(const void *results, int64_t row, int64_t rows, int64_t column, int64_t columns,
                        const int32_t *sums, int64_t pitch) {
    block_results part = *(const block_results *)results;
    part.column += column;
    part.columns = columns;
    finish_rows(&part, row, rows, sums, pitch);
}

/* In tiles: sums that are results go to their places at once. */
static void run_tiles(const rt_integer_block *block) {
    const block_results *results = block->results;
    const rt_product *product = &results->job->shape->product;
    rt_byte_tiles_results to = {.finish = finish_part, .results = results};
    if (!results->job->shape->quantized) {
        to.sums = (int32_t *)(void *)results->job->y +
                  (results->batch * product->rows + results->row) * product->columns + results->column;
        to.sums_row = product->columns;
    }
    rt_byte_tiles_run(block, &to);
}

static void run_block(const integer_matmul_job *job, int64_t batch, int64_t row, int64_t rows, int64_t column,
                      int64_t columns, void *scratch) {
    const integer_matmul *shape = job->shape;
    const rt_product *product = &shape->product;
    const int64_t a_matrix = stack_at(product, batch, shape->a_stack);
    const int64_t b_matrix = stack_at(product, batch, shape->b_stack);
    int16_t a_zeros[RT_INTEGER_ROWS] = {0};
    for (int64_t i = 0; i < rows && job->a_zero; i++) {
        const int64_t at = line_at(shape->a_zero, a_matrix, row + i, shape->rows);
        a_zeros[i] = (int16_t)rt_byte_load(shape->a_dtype, job->a_zero, at);
    }
    bool each = job->b_zero && shape->b_zero != LINES_ONE;
    int16_t b_zeros[RT_INTEGER_COLUMNS];
    b_zeros[0] = 0;
    for (int64_t j = 0; j < (each ? columns : 1) && job->b_zero; j++) {
        const int64_t at = line_at(shape->b_zero, b_matrix, column + j, shape->columns);
        b_zeros[j] = (int16_t)rt_byte_load(shape->b_dtype, job->b_zero, at);
    }
    if (each) { /* often they are all the same: zero */
        int64_t alike = 1;
        while (alike < columns && b_zeros[alike] == b_zeros[0]) alike++;
        each = alike < columns;
    }
    const line_context lines = {.b = (const uint8_t *)job->b + stack_at(product, batch, product->b_batch) +
                                     column,
                                .end = (const uint8_t *)job->b_end,
                                .b_depth = product->b_depth,
                                .columns = columns};
    const block_results results = {job, batch, row, column, columns};
    int32_t *direct = NULL;
    if (!shape->quantized && columns % RT_INTEGER_PANEL == 0)
        direct = (int32_t *)(void *)job->y + (batch * product->rows + row) * product->columns + column;
    const rt_integer_block block = {.rows = rows,
                                    .columns = columns,
                                    .depth = product->depth,
                                    .direct = direct,
                                    .direct_row = product->columns,
                                    .a_dtype = shape->a_dtype,
                                    .b_dtype = shape->b_dtype,
                                    .a = job->a + stack_at(product, batch, product->a_batch) +
                                         row * product->a_row,
                                    .a_row = product->a_row,
                                    .a_zeros = a_zeros,
                                    .b_zeros = b_zeros,
                                    .b_each = each,
                                    .lines = find_lines,
                                    .context = &lines,
                                    .packed = shape->packed ? job->b : NULL,
                                    .packed_column = column,
                                    .packed_columns = product->columns,
                                    .finish = finish_rows,
                                    .results = &results};
    if (shape->tiles && rows >= TILE_ROWS) run_tiles(&block);
    else rt_integer_block_run(&block, scratch);
}

static void run_thin(const integer_matmul_job *job, int64_t batch, int64_t row, int64_t column,
                     int64_t columns, uint32_t *sums) {
    const integer_matmul *shape = job->shape;
    const rt_product *product = &shape->product;
    const int64_t a_matrix = stack_at(product, batch, shape->a_stack);
    const int64_t b_matrix = stack_at(product, batch, shape->b_stack);
    const int64_t a_at = stack_at(product, batch, product->a_batch) + row * product->a_row;
    const uint8_t *b = (const uint8_t *)job->b + stack_at(product, batch, product->b_batch) + column;
    const int64_t at = line_at(shape->a_zero, a_matrix, row, shape->rows);
    const int32_t a_zero = job->a_zero ? rt_byte_load(shape->a_dtype, job->a_zero, at) : 0;
    uint32_t total = 0; /* of the row of A */
    memset(sums, 0, (size_t)columns * sizeof *sums);
    for (int64_t k = 0; k < product->depth; k += RT_INTEGER_FEW) {
        const int64_t rows = product->depth - k < RT_INTEGER_FEW ? product->depth - k : RT_INTEGER_FEW;
        int16_t a[RT_INTEGER_FEW];
        for (int64_t i = 0; i < rows; i++) {
            a[i] = (int16_t)(rt_byte_load(shape->a_dtype, job->a, a_at + k + i) - a_zero);
            total += (uint32_t)a[i];
        }
        rt_integer_add_rows(shape->b_dtype, b + k * product->b_depth, product->b_depth, rows, columns, a,
                            (int32_t *)sums);
    }
    for (int64_t j = 0; j < columns && job->b_zero; j++) {
        const int64_t zero = line_at(shape->b_zero, b_matrix, column + j, shape->columns);
        sums[j] -= total * (uint32_t)rt_byte_load(shape->b_dtype, job->b_zero, zero);
    }
    finish_row(job, batch, row, column, columns, NULL, (const int32_t *)sums);
}

/* Rows of B are added. */
static bool is_thin(const integer_matmul *shape) {
    return shape->product.rows < THIN_ROWS && !shape->packed;
}

static void run_member(void *context, int member, int members) {
    const integer_matmul_job *job = context;
    const rt_product *product = &job->shape->product;
    const int64_t parts = job->row_parts * job->column_parts, items = parts * product->batches;
    for (int64_t item = items * member / members; item < items * (member + 1) / members; item++) {
        const int64_t batch = item / parts, part = item % parts;
        const int64_t row = part / job->column_parts * job->rows_each;
        const int64_t column = part % job->column_parts * job->columns_each;
        const int64_t rows_left = product->rows - row, columns_left = product->columns - column;
        const int64_t rows = rows_left < job->rows_each ? rows_left : job->rows_each;
        const int64_t columns = columns_left < job->columns_each ? columns_left : job->columns_each;
        char *scratch = job->scratch + (size_t)member * job->scratch_each;
        if (!is_thin(job->shape)) {
            run_block(job, batch, row, rows, column, columns, scratch);
            continue;
        }
        for (int64_t i = row; i < row + rows; i++) {
            run_thin(job, batch, i, column, columns, (uint32_t *)(void *)scratch);
        }
    }
}

/* Of a block. */
static int64_t columns_of(const integer_matmul *shape) {
    const rt_product *product = &shape->product;
    if (is_thin(shape)) return THIN_COLUMNS;
    if (shape->packed) return shape->packed_each;
    return rt_integer_columns(product->rows, product->depth, false);
}

/* Of one thread. */
static size_t scratch_of(const integer_matmul *shape) {
    const rt_product *product = &shape->product;
    const int64_t each = columns_of(shape), columns = product->columns < each ? product->columns : each;
    if (!is_thin(shape)) {
        const int64_t rows = product->rows < RT_INTEGER_ROWS ? product->rows : RT_INTEGER_ROWS;
        return rt_integer_scratch(rows, columns, product->depth, shape->packed);
    }
    return ((size_t)columns * sizeof(uint32_t) + RT_ALIGNMENT - 1) / RT_ALIGNMENT * RT_ALIGNMENT;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)report;
    const integer_matmul *shape = prepared->state;
    const rt_product *product = &shape->product;
    integer_matmul_job job = {.shape = shape, .a = inputs[0].data, .y = outputs[0].data, .scratch = scratch};
    if (shape->quantized) {
        job.a_scale = inputs[1].data;
        job.a_zero = inputs[2].data;
        job.b = inputs[3].data;
        job.b_scale = inputs[4].data;
        job.b_zero = inputs[5].data;
        job.y_scale = inputs[6].data;
        job.y_zero = inputs[7].data;
    } else {
        job.b = inputs[1].data;
        job.a_zero = prepared->input_count > 2 ? inputs[2].data : NULL;
        job.b_zero = prepared->input_count > 3 ? inputs[3].data : NULL;
    }
    int64_t elements = 0;
    op_shape_elements(&inputs[shape->quantized ? 3 : 1].type.shape, &elements);
    job.b_end = job.b + elements;
    job.scratch_each = scratch_of(shape);
    job.columns_each = columns_of(shape);
    job.column_parts = (product->columns + job.columns_each - 1) / job.columns_each;
    /* Smaller blocks where there would be too few for the threads. */
    const int64_t parts = job.column_parts * product->batches;
    const int64_t wanted = parts >= prepared->threads ? 1 : (prepared->threads + parts - 1) / parts;
    job.rows_each = (product->rows + wanted - 1) / wanted;
    if (job.rows_each > RT_INTEGER_ROWS) job.rows_each = RT_INTEGER_ROWS;
    job.row_parts = (product->rows + job.rows_each - 1) / job.rows_each;
    const double work = (double)product->rows * (double)product->columns * (double)product->batches *
                        (double)(product->depth + 1);
    rt_team_run(work < RT_PARALLEL_WORK ? 1 : prepared->threads, run_member, &job);
    return BASE_OK;
}

/* The matrix B, which may be packed. */
static uint32_t matrix_input(const op_call *call) {
    return call->code == OP_QLINEAR_MATMUL ? 3 : 1;
}

static bool matrix_bytes(const op_call *call, uint32_t input, size_t *bytes) {
    const op_shape *b = &call->inputs[input].type.shape;
    return input == matrix_input(call) && b->rank == 2 && op_shape_known(b) &&
           rt_integer_packed_bytes(b->dims[0], b->dims[1], bytes);
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    return rt_accepts_packed(call, matrix_bytes);
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    const uint32_t b = matrix_input(call);
    const op_tensor *matrix = &call->inputs[b];
    size_t bytes;
    if (environment->portable_only || !rt_integer_packs() || !matrix->data || !rt_accepts_row_major(call) ||
        !matrix_bytes(call, b, &bytes))
        return false;
    const int64_t columns = matrix->type.shape.dims[1], more = -columns & (RT_INTEGER_PANEL - 1);
    if (4 * more > columns) return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    preference->inputs[b] = OP_LAYOUT_PACKED;
    preference->packed_bytes[b] = bytes;
    return true;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    (void)environment;
    size_t bytes;
    if (!matrix_bytes(call, input, &bytes))
        return base_fail(report, BASE_INVALID, "input %u of this product is not packed", input);
    rt_integer_pack(source->type.dtype, source->data, source->type.shape.dims[0], source->type.shape.dims[1],
                    packed);
    return BASE_OK;
}

static lines_kind kind_of(const op_call *call, uint32_t input) {
    if (!op_input_present(call, input)) return LINES_ONE;
    const op_shape *shape = &call->inputs[input].type.shape;
    int64_t elements;
    if (op_shape_elements(shape, &elements) && elements == 1) return LINES_ONE;
    return shape->rank == 1 ? LINES_VECTOR : LINES_STACK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    if (rt_integer_is_empty(call)) {
        prepared->run = rt_run_nothing;
        return BASE_OK;
    }
    integer_matmul *shape = BASE_NEW(arena, integer_matmul);
    if (!shape) return base_fail_memory(report);
    const bool quantized = call->code == OP_QLINEAR_MATMUL;
    const uint32_t b = quantized ? 3 : 1;
    const op_tensor operands[] = {call->inputs[0], call->inputs[b]};
    const op_call matmul = {
        .code = OP_MATMUL, .input_count = 2, .output_count = 1, .inputs = operands, .outputs = call->outputs};
    rt_matmul_read(&matmul, &shape->product);
    const rt_product *product = &shape->product;
    const op_shape *a = &operands[0].type.shape;
    shape->rows = a->rank > 1 ? a->dims[a->rank - 2] : 1;
    shape->columns = product->columns;
    for (int32_t i = 0; i < product->batch_rank; i++) {
        const int64_t left = shape->rows * product->depth, right = product->depth * product->columns;
        shape->a_stack[i] = left ? product->a_batch[i] / left : 0;
        shape->b_stack[i] = right ? product->b_batch[i] / right : 0;
    }
    shape->a_dtype = operands[0].type.dtype;
    shape->b_dtype = operands[1].type.dtype;
    shape->y_dtype = call->outputs[0].type.dtype;
    shape->quantized = quantized;
    shape->packed = operands[1].type.layout == OP_LAYOUT_PACKED;
    const int64_t share = (shape->columns + environment->threads - 1) / environment->threads;
    shape->packed_each = (share + RT_INTEGER_PANEL - 1) / RT_INTEGER_PANEL * RT_INTEGER_PANEL;
    if (shape->packed_each > PACKED_COLUMNS) shape->packed_each = PACKED_COLUMNS;
    shape->tiles = shape->packed && product->depth > 0 && rt_byte_tiles_wanted();
    shape->a_zero = kind_of(call, 2);
    shape->b_zero = kind_of(call, quantized ? 5 : 3);
    if (quantized) {
        shape->a_scale = kind_of(call, 1);
        shape->b_scale = kind_of(call, 4);
        shape->y_scale = kind_of(call, 6);
        shape->y_zero = kind_of(call, 7);
    }
    prepared->state = shape;
    prepared->run = run;
    prepared->scratch_bytes = (size_t)environment->threads * scratch_of(shape);
    return BASE_OK;
}

const rt_kernel rt_kernel_matmul_integer = {.name = "portable.matmul_integer",
                                            .accepts = accepts,
                                            .prefer = prefer,
                                            .pack = pack,
                                            .prepare = prepare};

/* SPDX-License-Identifier: Apache-2.0 */
/* product.c: MatMul and Gemm on oneDNN's matmul primitive.
 *
 * A constant right matrix (without a stack of its own) is packed at compile time, transposed and scaled by
 * alpha on the way; a bias that must be scaled by beta likewise. Products of few rows with a matrix that is
 * not packed, and products with one column, stay with the portable kernel, which reads the matrix just once where it
 * lies; so do small ones, which would spend their time on the way in.
 *
 * Where the number of rows is open when the weights are packed (ouro.row_blocks), they are packed for a block of rows,
 * which is how they are for any number; then as many blocks are multiplied as there are, and what is left over by a
 * block of the next power of two, of which the first rows may have been in a block before. A run with another number of
 * rows needs one other primitive at most, and all there can be are few.
 */
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/onednn/primitive.h"
#include <string.h>

enum { FEW_ROWS = 4, FEWEST_ROWS = 3, SMALL_WORK = 16384, IN_CACHE = 1 << 18 /* elements */ };

/* Rows in blocks: of 64 rows, and what is left over in up to three blocks of 1 to 32 rows, or one of just so many. */
enum { BLOCK_ROWS = 64, BLOCK_SIZES = 7, MOST_PIECES = 3 };

typedef enum addend_form { ADDEND_NONE, ADDEND_BIAS, ADDEND_MATRIX, ADDEND_OTHER } addend_form;

typedef struct matrices {
    rt_product product;
    addend_form addend;
    int64_t addend_count;
} matrices;

/* Some rows of a product. */
typedef struct block {
    rt_primitive primitive;
    int64_t rows;
} block;

/* Rows from `first` on. */
typedef struct piece {
    block *rows;
    int64_t first;
} piece;

typedef struct state {
    block whole;               /* all rows; in blocks, as many as are left over */
    block sizes[BLOCK_SIZES];  /* of 1, 2, 4, ... rows, where they were needed */
    int64_t times;             /* as often as the largest of these is run, for the first rows; */
    piece pieces[MOST_PIECES]; /* and what is left over, or all */
    int32_t piece_count;
    size_t a_row, y_row; /* bytes */
    bool bias, sum;
    size_t sum_bytes;
} state;

/* The application as a primitive sees it: with ouro.row_blocks, it has so many rows. */
typedef struct part {
    op_call call;
    op_tensor inputs[3], output;
} part;

static bool in_blocks(const op_call *call) {
    return op_attribute_integer(&call->attributes, "ouro.row_blocks", 0) != 0;
}

/* NULL: these are no rows that could be taken apart. */
static const op_call *some_rows(const op_call *call, int64_t rows, part *to) {
    const op_shape *x = &call->inputs[0].type.shape, *weights = &call->inputs[1].type.shape;
    size_t count;
    int64_t elements;
    if (!in_blocks(call)) return call;
    if (call->input_count > 3 || x->rank < 2 || weights->rank != 2 ||
        op_attribute_integers(&call->attributes, "ouro.left", &count) ||
        op_attribute_integers(&call->attributes, "ouro.right", &count) ||
        op_attribute_integer(&call->attributes, "transA", 0))
        return NULL;
    const bool turned = op_attribute_integer(&call->attributes, "transB", 0) != 0;
    const int64_t depth = weights->dims[turned ? 1 : 0], columns = weights->dims[turned ? 0 : 1];
    if (depth < 0 || columns < 0 || x->dims[x->rank - 1] != depth) return NULL;
    to->call = *call;
    memcpy(to->inputs, call->inputs, call->input_count * sizeof *to->inputs);
    to->output = call->outputs[0];
    to->inputs[0].type.shape = (op_shape){.rank = 2, .dims = {rows, depth}};
    to->output.type.shape = (op_shape){.rank = 2, .dims = {rows, columns}};
    if (op_input_present(call, 2)) {
        op_shape *bias = &to->inputs[2].type.shape;
        if (!op_shape_elements(bias, &elements) || elements != columns) return NULL;
        *bias = (op_shape){.rank = 1, .dims = {columns}};
    }
    to->call.inputs = to->inputs;
    to->call.outputs = &to->output;
    return &to->call;
}

/* Reads the application; false where it is none of ours. */
static bool read_matrices(const op_call *call, const rt_environment *environment, matrices *read) {
    rt_activation activation;
    if (!rt_floats_known(call) || !rt_activation_read(&call->attributes, &activation)) return false;
    if (call->code == OP_MATMUL) rt_matmul_read(call, &read->product);
    else rt_gemm_read(call, &read->product);
    rt_product_allow(&read->product, environment);
    const rt_product *product = &read->product;
    read->addend = ADDEND_NONE;
    if (product->addend) {
        int64_t rows = 1;
        bool along = false, dense = product->addend_column == 1 || product->columns == 1;
        if (!op_shape_elements(&call->inputs[2].type.shape, &read->addend_count)) return false;
        for (int32_t i = 0; i < product->addend_rank; i++) {
            along = along || (product->addend_strides[i] != 0 && product->addend_dims[i] != 1);
            rows *= product->addend_dims[i];
        }
        dense = dense && read->addend_count == rows * product->columns;
        if (!along && read->addend_count == product->columns) read->addend = ADDEND_BIAS;
        else read->addend = dense ? ADDEND_MATRIX : ADDEND_OTHER;
    }
    return product->batch_rank <= DNNL_MAX_NDIMS - 2 && read->addend != ADDEND_OTHER &&
           product->dtype == OP_FLOAT && !rt_product_is_column(product);
}

static bool describe(int32_t rank, const int64_t *batch_dims, const int64_t *batch_strides, int64_t rows,
                     int64_t columns, int64_t row, int64_t column, dnnl_memory_desc_t *description) {
    dnnl_dims_t dims, strides;
    for (int32_t i = 0; i < rank; i++) {
        const bool broadcast = batch_strides[i] == 0;
        dims[i] = broadcast ? 1 : batch_dims[i];
        strides[i] = broadcast ? rows * columns : batch_strides[i];
    }
    dims[rank] = rows;
    dims[rank + 1] = columns;
    strides[rank] = row;
    strides[rank + 1] = column;
    return dnnl_memory_desc_init_by_strides(description, rank + 2, dims, dnnl_f32, strides) == dnnl_success;
}

/* The right matrix as it stands in the model. */
static bool describe_right(const rt_product *product, dnnl_memory_desc_t *description) {
    return describe(product->batch_rank, product->batch_dims, product->b_batch, product->depth,
                    product->columns, product->b_depth, product->b_column, description);
}

static double work_of(const rt_product *product) {
    return (double)product->batches * (double)product->rows * (double)product->columns *
           (double)product->depth;
}

static bool make_descriptor(const matrices *read, const rt_environment *environment, bool packed,
                            rt_descriptor *open) {
    const rt_product *product = &read->product;
    const int32_t rank = product->batch_rank;
    int64_t strides[OP_MAX_RANK], stride = product->rows * product->columns;
    for (int32_t i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= product->batch_dims[i];
    }
    dnnl_memory_desc_t left, right, bias, target;
    bool described = describe(rank, product->batch_dims, product->a_batch, product->rows, product->depth,
                              product->a_row, product->a_depth, &left) &&
                     describe(rank, product->batch_dims, strides, product->rows, product->columns,
                              product->columns, 1, &target);
    if (packed) {
        const op_shape shape = {.rank = 2, .dims = {product->depth, product->columns}};
        described = described && rank == 0 && rt_describe_any(&shape, &right);
    } else {
        described = described && describe_right(product, &right);
    }
    if (read->addend == ADDEND_BIAS) {
        op_shape shape = {.rank = rank + 2};
        for (int32_t i = 0; i <= rank; i++) shape.dims[i] = 1;
        shape.dims[rank + 1] = product->columns;
        described = described && rt_describe_as(&shape, OP_LAYOUT_ROW_MAJOR, &bias);
    }
    dnnl_matmul_desc_t operation;
    if (!described ||
        dnnl_matmul_desc_init(&operation, &left, &right, read->addend == ADDEND_BIAS ? &bias : NULL,
                              &target) != dnnl_success) {
        return false;
    }
    const float sum = read->addend == ADDEND_MATRIX ? (float)product->beta : 0;
    if (!rt_descriptor_open(open, sum, &product->activation)) return false;
    return rt_descriptor_make(open, &operation, rt_threads_for(work_of(product), environment));
}

static bool is_packed(const op_call *call, uint32_t input) {
    return op_input_present(call, input) && call->inputs[input].type.layout == OP_LAYOUT_PACKED;
}

static bool accepts(const op_call *given, const rt_environment *environment) {
    part some;
    const op_call *call = some_rows(given, BLOCK_ROWS, &some);
    matrices read;
    rt_descriptor open;
    if (!call || !read_matrices(call, environment, &read) || (call != given && read.addend == ADDEND_MATRIX))
        return false;
    const rt_product *product = &read.product;
    const bool packed = is_packed(call, 1), scaled = is_packed(call, 2);
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (op_input_present(call, i) && call->inputs[i].type.layout != OP_LAYOUT_ROW_MAJOR &&
            (i == 0 || !is_packed(call, i))) {
            return false;
        }
    }
    if (call->outputs[0].type.layout != OP_LAYOUT_ROW_MAJOR || (scaled && read.addend != ADDEND_BIAS))
        return false;
    if (!packed && (product->alpha != 1 || product->rows < FEW_ROWS || rt_product_is_few(product) ||
                    work_of(product) < SMALL_WORK))
        return false;
    if (read.addend == ADDEND_BIAS && product->beta != 1 && !scaled) return false;
    if (read.addend == ADDEND_MATRIX && product->beta == 0) return false;
    if (!make_descriptor(&read, environment, packed, &open)) return false;
    rt_descriptor_close(&open);
    return true;
}

static bool prefer(const op_call *given, const rt_environment *environment, rt_preference *preference) {
    part some;
    const op_call *call = some_rows(given, BLOCK_ROWS, &some);
    matrices read;
    rt_descriptor open;
    if (!call || !read_matrices(call, environment, &read)) return false;
    const rt_product *product = &read.product;
    const bool scale = read.addend == ADDEND_BIAS && product->beta != 1;
    if (!call->inputs[1].data || product->batch_rank != 0 || (scale && !call->inputs[2].data)) return false;
    /* The portable kernel reads a matrix in several places at once: for the fewest rows it takes half of the time, wherever
     * the matrix lies (measured by tests/bench/bench_kernels.c). Few rows of small matrices: reading the weights from the
     * cache is all there is to it, and a primitive costs more than it gains. */
    if (product->rows < FEWEST_ROWS) return false;
    if (product->rows < FEW_ROWS && product->depth < IN_CACHE / product->columns) return false;
    if (work_of(product) < SMALL_WORK || (read.addend == ADDEND_MATRIX && product->beta == 0)) return false;
    if (!make_descriptor(&read, environment, true, &open)) return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    preference->inputs[1] = OP_LAYOUT_PACKED;
    preference->packed_bytes[1] =
        dnnl_memory_desc_get_size(rt_descriptor_memory(&open, dnnl_query_weights_md));
    if (scale) {
        preference->inputs[2] = OP_LAYOUT_PACKED;
        preference->packed_bytes[2] = (size_t)product->columns * sizeof(float);
    }
    rt_descriptor_close(&open);
    return true;
}

static base_status pack(const op_call *given, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    part some;
    const op_call *call = some_rows(given, BLOCK_ROWS, &some);
    matrices read;
    rt_descriptor open;
    dnnl_memory_desc_t from;
    if (!call || !read_matrices(call, environment, &read))
        return rt_onednn_fail(report, "oneDNN cannot pack input %u", input);
    if (input == 2 && read.addend == ADDEND_BIAS) {
        for (int64_t i = 0; i < read.product.columns; i++) {
            ((float *)packed)[i] = (float)read.product.beta * ((const float *)source->data)[i];
        }
        return BASE_OK;
    }
    if (input != 1 || !describe_right(&read.product, &from) ||
        !make_descriptor(&read, environment, true, &open)) {
        return rt_onednn_fail(report, "oneDNN cannot pack input %u", input);
    }
    base_status status = rt_check_packed(call, &open, report);
    if (status == BASE_OK) {
        status = rt_reorder(&from, source->data, rt_descriptor_memory(&open, dnnl_query_weights_md), packed,
                            (float)read.product.alpha, environment->threads, report);
    }
    rt_descriptor_close(&open);
    return status;
}

static base_status run_block(state *own, block *rows, int64_t first, const op_tensor *inputs,
                             op_tensor *outputs, void *scratch, base_report *report) {
    void *data[4] = {(char *)inputs[0].data + (size_t)first * own->a_row, inputs[1].data,
                     (char *)outputs[0].data + (size_t)first * own->y_row, NULL};
    if (own->bias) data[3] = inputs[2].data;
    return rt_primitive_run(&rows->primitive, data, scratch, report);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    state *own = prepared->state;
    base_status status = BASE_OK;
    /* The sum adds to what is there already. */
    if (own->sum && inputs[2].data != outputs[0].data)
        memcpy(outputs[0].data, inputs[2].data, own->sum_bytes);
    for (int64_t i = 0; i < own->times && status == BASE_OK; i++)
        status =
            run_block(own, &own->sizes[BLOCK_SIZES - 1], i * BLOCK_ROWS, inputs, outputs, scratch, report);
    for (int32_t i = 0; i < own->piece_count && status == BASE_OK; i++)
        status = run_block(own, own->pieces[i].rows, own->pieces[i].first, inputs, outputs, scratch, report);
    return status;
}

static void release(rt_prepared *prepared) {
    state *own = prepared->state;
    if (!own) return;
    rt_primitive_close(&own->whole.primitive);
    for (int i = 0; i < BLOCK_SIZES; i++) rt_primitive_close(&own->sizes[i].primitive);
}

static base_status prepare_block(const op_call *call, const rt_environment *environment, state *own,
                                 block *rows, base_report *report) {
    matrices read;
    rt_descriptor open;
    if (!read_matrices(call, environment, &read) ||
        !make_descriptor(&read, environment, is_packed(call, 1), &open)) {
        return rt_onednn_fail(report, "oneDNN cannot run this product on this machine");
    }
    rows->rows = read.product.rows;
    own->bias = read.addend == ADDEND_BIAS;
    own->sum = read.addend == ADDEND_MATRIX;
    own->sum_bytes = (size_t)read.addend_count * sizeof(float);
    base_status status = is_packed(call, 1) ? rt_check_packed(call, &open, report) : BASE_OK;
    rt_primitive *primitive = &rows->primitive;
    static const struct {
        int argument;
        dnnl_query_t query;
    } arguments[] = {{DNNL_ARG_SRC, dnnl_query_src_md},
                     {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
                     {DNNL_ARG_DST, dnnl_query_dst_md}};
    if (status == BASE_OK) status = rt_primitive_make(primitive, &open, report);
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments && status == BASE_OK; i++) {
        status = rt_primitive_argument(primitive, arguments[i].argument,
                                       rt_descriptor_memory(&open, arguments[i].query),
                                       arguments[i].argument == DNNL_ARG_DST, report);
    }
    if (status == BASE_OK && own->bias) {
        const op_shape shape = {.rank = 1, .dims = {read.product.columns}};
        dnnl_memory_desc_t bias;
        rt_describe_as(&shape, OP_LAYOUT_ROW_MAJOR, &bias);
        status = rt_primitive_argument(primitive, DNNL_ARG_BIAS, &bias, false, report);
    }
    rt_descriptor_close(&open);
    return status;
}

/* A piece of so many rows from `first` on, and its primitive where there is none yet. */
static base_status add_piece(const op_call *given, const rt_environment *environment, state *own, block *rows,
                             int64_t count, int64_t first, base_report *report) {
    part some;
    own->pieces[own->piece_count++] = (piece){rows, first};
    return rows->rows ? BASE_OK
                      : prepare_block(some_rows(given, count, &some), environment, own, rows, report);
}

static int64_t count_rows(const op_call *call) {
    const op_shape *x = &call->inputs[0].type.shape;
    int64_t rows = 1;
    for (int32_t i = 0; i < x->rank - 1; i++) rows *= x->dims[i];
    return rows;
}

/* The least size of at least so many rows. */
static int size_above(int64_t rows) {
    int size = 0;
    while ((int64_t)1 << size < rows) size++;
    return size;
}

/* Blocks as large as can be. Returns how many rows are left over. */
static base_status cut_blocks(const op_call *given, const rt_environment *environment, state *own,
                              int64_t *left, base_report *report) {
    block *largest = &own->sizes[BLOCK_SIZES - 1];
    part some;
    *left = count_rows(given);
    own->piece_count = 0;
    own->times = *left / BLOCK_ROWS;
    *left %= BLOCK_ROWS;
    if (!own->times || largest->rows) return BASE_OK;
    return prepare_block(some_rows(given, BLOCK_ROWS, &some), environment, own, largest, report);
}

/* The rows in blocks: how they are cut follows from their number alone. What is left over may reach into the block before;
 * where there is none, it is one of its own. */
static base_status prepare_blocks(const op_call *given, const rt_environment *environment, state *own,
                                  base_report *report) {
    part some;
    const op_call *call = some_rows(given, BLOCK_ROWS, &some);
    int64_t left;
    if (!call) return base_fail(report, BASE_INVALID, "this product cannot be cut into rows");
    own->a_row = (size_t)call->inputs[0].type.shape.dims[1] * sizeof(float);
    own->y_row = (size_t)some.output.type.shape.dims[1] * sizeof(float);
    base_status status = cut_blocks(given, environment, own, &left, report);
    if (left == 0 || status != BASE_OK) return status;
    const int64_t rows = count_rows(given);
    const int size = size_above(left);
    const int64_t count = (int64_t)1 << size;
    if (count > rows) return add_piece(given, environment, own, &own->whole, left, 0, report);
    return add_piece(given, environment, own, &own->sizes[size], count, rows - count, report);
}

static size_t most_scratch(const state *own) {
    size_t most = own->whole.primitive.scratch_bytes;
    for (int i = 0; i < BLOCK_SIZES; i++) {
        const size_t bytes = own->sizes[i].primitive.scratch_bytes;
        if (bytes > most) most = bytes;
    }
    return most;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    state *own = BASE_NEW(arena, state);
    base_status status;
    if (!own) return base_fail_memory(report);
    prepared->state = own;
    prepared->run = run;
    if (in_blocks(call)) {
        status = prepare_blocks(call, environment, own, report);
    } else {
        own->pieces[own->piece_count++].rows = &own->whole;
        status = prepare_block(call, environment, own, &own->whole, report);
    }
    prepared->scratch_bytes = most_scratch(own);
    if (status != BASE_OK) release(prepared);
    return status;
}

/* Another number of rows: in blocks of which each size is prepared once, the largest first; the last of three may reach
 * into the one before. */
static bool adapt(const op_call *call, const rt_environment *environment, rt_prepared *prepared) {
    state *own = prepared->state;
    part some;
    base_report ignored = {0};
    int64_t left;
    if (!in_blocks(call) || !some_rows(call, BLOCK_ROWS, &some) || !rt_floats_known(&some.call) ||
        own->bias != op_input_present(call, 2) ||
        own->y_row != (size_t)some.output.type.shape.dims[1] * sizeof(float) ||
        own->a_row != (size_t)some.inputs[0].type.shape.dims[1] * sizeof(float) ||
        cut_blocks(call, environment, own, &left, &ignored) != BASE_OK)
        return false;
    const int64_t rows = count_rows(call);
    while (left > 0) {
        const bool last = own->piece_count == MOST_PIECES - 1;
        const int size = last ? size_above(left) : size_above(left + 1) - 1;
        const int64_t count = (int64_t)1 << size, first = count > left ? rows - count : rows - left;
        if (add_piece(call, environment, own, &own->sizes[size], count, first, &ignored) != BASE_OK)
            return false;
        left -= count < left ? count : left;
    }
    prepared->scratch_bytes = most_scratch(own);
    return true;
}

const rt_kernel rt_onednn_matmul = {.name = "onednn.matmul",
                                    .backend = RT_BACKEND_ONEDNN,
                                    .accepts = accepts,
                                    .prefer = prefer,
                                    .pack = pack,
                                    .prepare = prepare,
                                    .adapt = adapt,
                                    .release = release};
const rt_kernel rt_onednn_gemm = {.name = "onednn.gemm",
                                  .backend = RT_BACKEND_ONEDNN,
                                  .accepts = accepts,
                                  .prefer = prefer,
                                  .pack = pack,
                                  .prepare = prepare,
                                  .adapt = adapt,
                                  .release = release};

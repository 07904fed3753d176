/* SPDX-License-Identifier: Apache-2.0 */
/* fused.c: several elementwise operators as one, ouro.Fused (ir/operators/fused.h).
 *
 * The result is made in blocks: every step runs on one block before the next one begins, so that what is made within stays in
 * the first-level cache and needs no memory of the plan. A step is the kernel of its operator, prepared for a vector of the
 * block's length: its bits are those that it makes alone. Where the machine and the steps allow it, all steps run on some registers
 * instead (fused_registers.h), and what is made within is not even written.
 *
 *     row            elements along which each input either runs or stays: all of them, or the innermost dimensions where an
 *                    input is broadcast over the others and they are long enough; or short rows of one width, in which inputs are too
 *     runs           an input of which a block is read where it lies
 *     stays          one element for the whole row
 *     is in rows     one element for each short row of equal length, or one such row for all: where only operators read it that
 *                    can do so (binary_rows.h)
 *     is spread      broadcast within a block: its elements are written out first, into a buffer; once for all blocks, where they
 *                    repeat themselves in as many elements as blocks consist of
 */
#include "ir/operators/fused.h"
#include "runtime/kernels/portable/binary_rows.h"
#include "runtime/kernels/portable/fused_registers.h"
#include "runtime/kernels/portable/spread.h"
#include <string.h>

enum {
    LONG_ROW = 128,       /* from which on a row is worth a block of its own */
    MOST_BLOCK = 1024,    /* elements */
    LONG_BLOCK = 4096,    /* where nothing is written but the result */
    BLOCK_UNIT = 64,      /* blocks have a multiple of so many, but for the last one of a row */
    BUFFER_BYTES = 16384, /* of all buffers of a thread */
    STAGGER = 64,
    STEP_WORK =
        1, /* of an element, in simple operations: to begin work on several threads takes as long as thousands of them */
    /* Steps in registers are so fast that less is done before another thread has begun; what it makes lies in its cache, not in that of who reads
     * it next in a loop of such steps. */
    REGISTERS_WORK = 3 * RT_PARALLEL_WORK,
    VALUES = OP_FUSED_INPUTS + OP_FUSED_STEPS,
    DIMENSIONS = OP_MAX_RANK + 1
};
_Static_assert((size_t)VALUES *(64 * 8 + STAGGER) <= BUFFER_BYTES,
               "each value may need a buffer of a block of 64 elements");

typedef enum fused_form { FUSED_RUNS, FUSED_STAYS, FUSED_ROWS, FUSED_SPREAD } fused_form;

typedef struct fused_input {
    fused_form form;
    size_t size;                 /* of an element */
    int64_t strides[DIMENSIONS]; /* by dimension of the nest, in elements; the last one is along the row */
    rt_loop spread;              /* operand 0: the result; operand 1: this input */
    rt_row_operand in_rows;      /* of one that is in rows */
    bool repeats;                /* every block is the same, but for the last one, which may be shorter */
} fused_input;

/* A step that reads an input in rows. */
typedef struct fused_rows {
    rt_binary_rows *run; /* NULL: it reads none */
    rt_row_operand operands[2];
} fused_rows;

/* The steps prepared for blocks of one length. */
typedef struct fused_steps {
    int64_t length; /* 0: there are no such blocks */
    int64_t rows;   /* short ones, in such a block */
    rt_prepared prepared[OP_FUSED_STEPS];
} fused_steps;

/* What a thread hands to the steps: tensors whose addresses change from block to block. */
typedef struct fused_tensors {
    op_tensor operands[OP_FUSED_STEPS][OP_FUSED_OPERANDS];
    op_tensor made[OP_FUSED_STEPS];
} fused_tensors;

typedef struct fused_state {
    op_fused program;
    uint32_t rank; /* of the nest: rows, and the row as the last dimension */
    int64_t dims[DIMENSIONS];
    int64_t row, parts, block, blocks; /* elements of a row, its blocks, their elements; blocks of all rows */
    size_t size;                       /* of an element of the result */
    fused_input inputs[OP_FUSED_INPUTS];
    int buffers[VALUES];     /* where a value's block is written; -1: it is read, or written, where it lies */
    size_t buffer_bytes;     /* of one */
    rt_registers *registers; /* NULL: the steps run one by one */
    int64_t width;           /* of the short rows of inputs that are in rows; blocks consist of whole ones */
    fused_rows rows[OP_FUSED_STEPS];
    fused_steps steps[2];   /* of blocks, and of the last block of a row */
    fused_tensors *tensors; /* by thread and [0, 1] as steps */
} fused_state;

typedef struct fused_run {
    const rt_prepared *prepared;
    const op_tensor *inputs;
    char *to;
    base_report *report;
} fused_run;

/* ---- running ------------------------------------------------------------------------------------------- */

static int64_t offset_of_row(const fused_state *state, uint32_t input, int64_t row) {
    int64_t offset = 0;
    for (uint32_t d = state->rank - 1; d-- > 0;) {
        offset += row % state->dims[d] * state->inputs[input].strides[d];
        row /= state->dims[d];
    }
    return offset;
}

static base_status run_steps(const fused_state *state, uint32_t which, fused_tensors *tensors,
                             void *const *addresses, base_report *report) {
    const fused_steps *steps = &state->steps[which];
    if (state->registers) {
        const uint32_t last = state->program.input_count + state->program.step_count - 1;
        rt_registers_run(state->registers, addresses, addresses[last], steps->length);
        return BASE_OK;
    }
    for (uint32_t s = 0; s < state->program.step_count; s++) {
        const op_fused_step *step = &state->program.steps[s];
        const fused_rows *rows = &state->rows[s];
        if (rows->run) {
            rows->run(addresses[state->program.input_count + s], addresses[step->operands[0]],
                      addresses[step->operands[1]], steps->rows, state->width, rows->operands[0],
                      rows->operands[1]);
            continue;
        }
        for (uint32_t i = 0; i < step->operand_count; i++) {
            if (step->operands[i] >= 0) tensors->operands[s][i].data = addresses[step->operands[i]];
        }
        tensors->made[s].data = addresses[state->program.input_count + s];
        const base_status status = steps->prepared[s].run(&steps->prepared[s], tensors->operands[s],
                                                          &tensors->made[s], NULL, report);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

static base_status run_blocks(const fused_run *run, int member, int64_t begin, int64_t end) {
    const fused_state *state = run->prepared->state;
    const uint32_t inputs = state->program.input_count, last = inputs + state->program.step_count - 1;
    _Alignas(RT_ALIGNMENT) char buffers[BUFFER_BYTES];
    void *addresses[VALUES];
    int64_t offsets[OP_FUSED_INPUTS] = {0}, row = begin / state->parts, part = begin % state->parts;
    base_status status = BASE_OK;
    for (uint32_t v = 0; v <= last; v++) {
        if (state->buffers[v] >= 0) addresses[v] = buffers + (size_t)state->buffers[v] * state->buffer_bytes;
        if (v < inputs && state->inputs[v].repeats)
            rt_spread(&state->inputs[v].spread, state->inputs[v].size, run->inputs[v].data, addresses[v], 0,
                      state->block);
    }
    for (int64_t b = begin; b < end && status == BASE_OK; b++) {
        const int64_t first = part * state->block, rest = state->row - first;
        const int64_t length = rest < state->block ? rest : state->block;
        const bool new_row = part == 0 || b == begin;
        for (uint32_t i = 0; i < inputs; i++) {
            const fused_input *input = &state->inputs[i];
            char *data = run->inputs[i].data;
            if (input->form == FUSED_SPREAD) {
                if (!input->repeats)
                    rt_spread(&input->spread, input->size, data, addresses[i], first, length);
                continue;
            }
            if (new_row && state->rank > 1) offsets[i] = offset_of_row(state, i, row);
            const int64_t within = input->form == FUSED_RUNS ? first
                                   : input->form == FUSED_ROWS
                                       ? part * state->steps[0].rows * input->in_rows.next
                                       : 0;
            const int64_t offset = offsets[i] + within;
            addresses[i] = data + offset * (int64_t)input->size;
        }
        char *to = run->to + (size_t)(row * state->row + first) * state->size;
        if (state->buffers[last] < 0) addresses[last] = to;
        const uint32_t which = length != state->steps[0].length;
        status = run_steps(state, which, &state->tensors[2 * member + (int)which], addresses, run->report);
        if (state->buffers[last] >= 0) memcpy(to, addresses[last], (size_t)length * state->size);
        if (++part == state->parts) part = 0, row++;
    }
    return status;
}

/* All in one block: no offsets. */
static base_status run_one(const fused_run *run) {
    const fused_state *state = run->prepared->state;
    const uint32_t inputs = state->program.input_count, last = inputs + state->program.step_count - 1;
    _Alignas(RT_ALIGNMENT) char buffers[BUFFER_BYTES];
    void *addresses[VALUES];
    for (uint32_t v = 0; v <= last; v++) {
        addresses[v] = state->buffers[v] >= 0 ? buffers + (size_t)state->buffers[v] * state->buffer_bytes
                       : v < inputs           ? run->inputs[v].data
                                              : run->to;
        if (v < inputs && state->buffers[v] >= 0)
            rt_spread(&state->inputs[v].spread, state->inputs[v].size, run->inputs[v].data, addresses[v], 0,
                      state->row);
    }
    const base_status status = run_steps(state, 0, state->tensors, addresses, run->report);
    if (state->buffers[last] >= 0) memcpy(run->to, addresses[last], (size_t)state->row * state->size);
    return status;
}

static void run_member(void *user, int member, int members) {
    const fused_run *run = user;
    const int64_t blocks = ((const fused_state *)run->prepared->state)->blocks;
    /* Elementwise operators do not fail. */
    (void)run_blocks(run, member, blocks * member / members, blocks * (member + 1) / members);
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    const fused_state *state = prepared->state;
    fused_run run = {.prepared = prepared, .inputs = inputs, .to = outputs[0].data, .report = report};
    if (state->blocks == 1) return run_one(&run);
    const int64_t work = state->row * state->blocks / state->parts * state->program.step_count * STEP_WORK;
    const int64_t least = state->registers ? REGISTERS_WORK : RT_PARALLEL_WORK;
    if (prepared->threads <= 1 || work < least) return run_blocks(&run, 0, 0, state->blocks);
    rt_team_run(prepared->threads, run_member, &run);
    return BASE_OK;
}

/* ---- rows by themselves --------------------------------------------------------------------------------- */

/* All is one row: elements from anywhere to anywhere can be computed in registers, short rows as a whole. */
static void run_elements(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs, int member,
                         int64_t begin, int64_t end) {
    (void)member;
    const fused_state *state = prepared->state;
    const int64_t width = state->width ? state->width : 1;
    void *addresses[OP_FUSED_INPUTS];
    for (uint32_t i = 0; i < state->program.input_count; i++) {
        const fused_input *input = &state->inputs[i];
        const int64_t next = input->form == FUSED_RUNS   ? width
                             : input->form == FUSED_ROWS ? input->in_rows.next
                                                         : 0;
        addresses[i] = (char *)inputs[i].data + begin * next * (int64_t)input->size;
    }
    char *to = (char *)outputs[0].data + begin * width * (int64_t)state->size;
    rt_registers_run(state->registers, addresses, to, (end - begin) * width);
}

/* Rows are equally many blocks. */
static void run_whole_blocks(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             int member, int64_t begin, int64_t end) {
    const fused_state *state = prepared->state;
    const int64_t each = state->blocks / prepared->rows.count;
    const fused_run run = {.prepared = prepared, .inputs = inputs, .to = outputs[0].data};
    (void)run_blocks(&run, member, begin * each, end * each);
}

static bool needs_buffers(const fused_state *state) {
    for (uint32_t v = 0; v < state->program.input_count + state->program.step_count; v++) {
        if (state->buffers[v] >= 0) return true;
    }
    return false;
}

/* Whether the input has so many rows, of which the result's read one each. */
static bool has_rows(const fused_state *state, const fused_input *input, const op_tensor *tensor,
                     int64_t rows) {
    if (state->rank > 1)
        return input->strides[0] && input->strides[0] * rows == rt_stored_elements(&tensor->type);
    return input->form == FUSED_RUNS || (input->form == FUSED_ROWS && input->in_rows.next > 0);
}

/* Which rows the result consists of; none, where blocks end within the last dimension that could tell them apart. */
static rt_rows rows_of(const fused_state *state, const op_call *call) {
    rt_rows rows = {.work =
                        state->row * state->blocks / state->parts * state->program.step_count * STEP_WORK};
    if (state->rank > 1) {
        rows.run = run_whole_blocks;
        rows.count = state->dims[0];
    } else if (state->registers && !needs_buffers(state)) {
        rows.run = run_elements;
        rows.count = state->width ? state->row / state->width : state->row;
    } else if (state->blocks > 1 && state->steps[1].length == 0) {
        rows.run = run_whole_blocks;
        rows.count = state->blocks;
    }
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (has_rows(state, &state->inputs[i], &call->inputs[i], rows.count)) rows.inputs |= 1U << i;
    }
    return rows;
}

/* ---- what is accepted ---------------------------------------------------------------------------------- */

static const rt_kernel *kernel_of(op_code code) {
    if (code == OP_CAST) return &rt_kernel_cast;
    if (code == OP_WHERE) return &rt_kernel_where;
    if (code == OP_QUANTIZE_LINEAR) return &rt_kernel_quantize_linear;
    if (code == OP_DEQUANTIZE_LINEAR) return &rt_kernel_dequantize_linear;
    return op_schema_of(code)->input_minimum == 2 ? &rt_kernel_elementwise_binary
                                                  : &rt_kernel_elementwise_unary;
}

/* Reads the steps and infers what they make. */
static bool read_program(const op_call *call, op_fused *program, op_tensor values[VALUES]) {
    base_report report = {0};
    memset(values, 0, VALUES * sizeof *values);
    if (!op_fused_read(&call->attributes, call->input_count, program)) return false;
    for (uint32_t i = 0; i < call->input_count; i++) values[i] = call->inputs[i];
    return op_fused_infer(program, values, &report) == BASE_OK;
}

/* Scales along an axis are not cut into blocks. */
static bool has_one_scale(const op_call *call) {
    if (call->code != OP_QUANTIZE_LINEAR && call->code != OP_DEQUANTIZE_LINEAR) return true;
    int64_t elements;
    for (uint32_t i = 1; i < call->input_count; i++) {
        if (!op_input_present(call, i)) continue;
        if (!op_shape_elements(&call->inputs[i].type.shape, &elements) || elements != 1) return false;
    }
    return true;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    op_fused program;
    op_tensor values[VALUES];
    const op_type *result = &call->outputs[0].type;
    if (!op_shape_known(&result->shape) || !read_program(call, &program, values)) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_type *type = &call->inputs[i].type;
        if (type->kind != OP_KIND_TENSOR || !op_shape_known(&type->shape) || op_dtype_bytes(type->dtype) == 0)
            return false;
    }
    for (uint32_t s = 0; s < program.step_count; s++) {
        op_tensor operands[OP_FUSED_OPERANDS], *made = &values[program.input_count + s];
        op_call step;
        op_fused_call(&program, s, values, operands, made, &step);
        if (made->type.layout != result->layout || !op_shape_equal(&made->type.shape, &result->shape) ||
            op_dtype_bytes(made->type.dtype) == 0 || made->type.dtype == OP_STRING || !has_one_scale(&step) ||
            !kernel_of(step.code)->accepts(&step, environment))
            return false;
    }
    return values[program.input_count + program.step_count - 1].type.dtype == result->dtype;
}

/* ---- preparing: how inputs lie beside the result ------------------------------------------------------- */

/* The dimensions in which the result is stored, and an input's strides in them: 0 where it is broadcast. */
static int32_t stored_dims(const op_type *result, int64_t dims[DIMENSIONS]) {
    const op_shape *shape = &result->shape;
    if (result->layout == OP_LAYOUT_ROW_MAJOR) {
        memcpy(dims, shape->dims, (size_t)shape->rank * sizeof *dims);
        return shape->rank;
    }
    const int64_t width = result->layout == OP_LAYOUT_NHWC ? shape->dims[1] : op_layout_block(result->layout);
    dims[0] = shape->dims[0];
    dims[1] = width ? (shape->dims[1] + width - 1) / width : 0;
    dims[2] = 1;
    for (int32_t d = 2; d < shape->rank; d++) dims[2] *= shape->dims[d];
    dims[3] = width;
    return 4;
}

static void input_strides(const op_type *result, const op_type *input, const int64_t *dims, int32_t rank,
                          int64_t strides[DIMENSIONS]) {
    const bool whole = op_shape_equal(&input->shape, &result->shape) && input->layout == result->layout;
    const int32_t missing = rank - input->shape.rank;
    int64_t elements = 1, stride = 1;
    if (whole || result->layout == OP_LAYOUT_ROW_MAJOR) {
        for (int32_t d = rank; d-- > 0;) {
            const int64_t extent = whole ? dims[d] : d >= missing ? input->shape.dims[d - missing] : 1;
            strides[d] = extent == 1 ? 0 : stride;
            stride *= extent;
        }
        return;
    }
    /* In blocks, what is broadcast has one element, or one for each channel. */
    for (int32_t d = 0; d < input->shape.rank; d++) elements *= input->shape.dims[d];
    for (int32_t d = 0; d < rank; d++) strides[d] = 0;
    if (elements == 1) return;
    strides[1] = dims[3];
    strides[3] = 1;
    if (input->shape.rank == result->shape.rank && input->shape.dims[0] != 1) strides[0] = dims[1] * dims[3];
}

/* Neighbouring dimensions that the result and all inputs walk as one become one. */
static void find_rows(fused_state *state, const op_call *call) {
    const op_type *result = &call->outputs[0].type;
    int64_t dims[DIMENSIONS], strides[OP_FUSED_INPUTS][DIMENSIONS];
    const int32_t rank = stored_dims(result, dims);
    uint32_t joined = 0;
    for (uint32_t i = 0; i < call->input_count; i++)
        input_strides(result, &call->inputs[i].type, dims, rank, strides[i]);
    for (int32_t d = 0; d < rank; d++) {
        if (dims[d] == 1) continue;
        bool joins = joined > 0;
        for (uint32_t i = 0; i < call->input_count && joins; i++)
            joins = state->inputs[i].strides[joined - 1] == strides[i][d] * dims[d];
        if (!joins) state->dims[joined++] = 1;
        state->dims[joined - 1] *= dims[d];
        for (uint32_t i = 0; i < call->input_count; i++) state->inputs[i].strides[joined - 1] = strides[i][d];
    }
    if (joined == 0) state->dims[joined++] = 1;
    state->rank = joined;
}

static void set_spread(fused_input *input, const fused_state *state) {
    input->form = FUSED_SPREAD;
    input->spread = (rt_loop){.rank = (int32_t)state->rank, .operands = 2};
    int64_t stride = 1;
    for (uint32_t d = state->rank; d-- > 0;) {
        input->spread.dims[d] = state->dims[d];
        input->spread.strides[0][d] = stride;
        input->spread.strides[1][d] = input->strides[d];
        stride *= state->dims[d];
    }
    rt_loop_collapse(&input->spread);
    const int64_t period = rt_spread_period(&input->spread);
    input->repeats = period > 0 && BLOCK_UNIT % period == 0;
}

/* Whether rows of this width may be in blocks. */
static bool is_short_row(int64_t width) {
    return width % RT_ROW_UNIT == 0 && BLOCK_UNIT % width == 0;
}

/* All steps that read the value can do so in rows. */
static bool is_read_in_rows(const fused_state *state, const op_tensor *values, uint32_t value) {
    const op_fused *program = &state->program;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const op_fused_step *step = &program->steps[s];
        bool reads = false, floats = true;
        for (uint32_t i = 0; i < step->operand_count; i++) {
            const int32_t operand = step->operands[i];
            reads |= operand == (int32_t)value;
            floats &= operand >= 0 && values[operand].type.dtype == OP_FLOAT;
        }
        if (reads && (!floats || step->operand_count != 2 || !rt_binary_rows_select(step->code)))
            return false;
    }
    return true;
}

/* Of the short rows that an input lies in beside those of the result: where the next one begins, and its elements. False: it is neither
 * one element for each, nor one row for all, nor all of them, nor one element. */
static bool lies_in_rows(const fused_state *state, const fused_input *input, rt_row_operand *at) {
    const uint32_t last = state->rank - 1;
    *at = (rt_row_operand){input->strides[last - 1], input->strides[last]};
    return at->step == 1 ? at->next == state->dims[last] || at->next == 0
                         : at->step == 0 && (at->next == 0 || at->next == 1);
}

/* Short rows of one width make up rows that are long: the maps of blocks of channels, beside which a channel's number is in short rows. False
 * where it is not so for all inputs. */
static bool choose_joined_rows(fused_state *state, uint32_t inputs, const op_tensor *values) {
    const uint32_t last = state->rank - 1;
    rt_row_operand at[OP_FUSED_INPUTS];
    bool in_rows = false;
    if (state->rank < 3 || !is_short_row(state->dims[last]) ||
        state->dims[last - 1] * state->dims[last] < LONG_ROW)
        return false;
    for (uint32_t i = 0; i < inputs; i++) {
        if (!lies_in_rows(state, &state->inputs[i], &at[i])) return false;
        if (at[i].next + at[i].step != 1) continue;
        if (state->inputs[i].size != sizeof(float) || !is_read_in_rows(state, values, i)) return false;
        in_rows = true;
    }
    if (!in_rows) return false;
    for (uint32_t i = 0; i < inputs; i++) {
        fused_input *input = &state->inputs[i];
        const bool rows = at[i].next + at[i].step == 1;
        input->form = rows ? FUSED_ROWS : at[i].step ? FUSED_RUNS : FUSED_STAYS;
        if (rows) input->in_rows = at[i];
    }
    state->width = state->dims[last];
    state->dims[last - 1] *= state->width;
    state->row = state->dims[last - 1];
    state->rank--;
    return true;
}

/* Rows, or all as one row with some inputs spread. */
static void choose_rows(fused_state *state, uint32_t inputs, const op_tensor *values, int64_t elements) {
    const bool rows = state->rank == 1 || state->dims[state->rank - 1] >= LONG_ROW;
    if (!rows && choose_joined_rows(state, inputs, values)) return;
    for (uint32_t i = 0; i < inputs; i++) {
        fused_input *input = &state->inputs[i];
        int64_t dense = 1;
        bool runs = true, stays = true;
        for (uint32_t d = state->rank; d-- > 0;) {
            runs &= state->dims[d] == 1 || input->strides[d] == dense;
            stays &= input->strides[d] == 0;
            dense *= state->dims[d];
        }
        if (rows) input->form = input->strides[state->rank - 1] ? FUSED_RUNS : FUSED_STAYS;
        else if (runs || stays) input->form = runs && elements > 1 ? FUSED_RUNS : FUSED_STAYS;
        else set_spread(input, state);
    }
    state->row = rows ? state->dims[state->rank - 1] : elements;
    if (!rows) state->rank = 1;
}

/* The width of the rows in which the input is; 0: it is in none. */
static int64_t width_of(const fused_input *input) {
    const rt_loop *loop = &input->spread;
    if (input->form != FUSED_SPREAD || input->size != sizeof(float) || loop->rank != 2 ||
        !is_short_row(loop->dims[1]) || loop->strides[1][0] + loop->strides[1][1] != 1)
        return 0;
    return loop->dims[1];
}

/* Inputs that steps can read in rows need not be spread, where all of them have rows of one width. */
static void choose_short_rows(fused_state *state, const op_tensor *values) {
    const op_fused *program = &state->program;
    for (uint32_t v = 0; v < program->input_count; v++) {
        fused_input *input = &state->inputs[v];
        const int64_t width = width_of(input);
        if (!width || (state->width && width != state->width) || !is_read_in_rows(state, values, v)) continue;
        state->width = width;
        input->form = FUSED_ROWS;
        input->repeats = false;
        input->in_rows = (rt_row_operand){input->spread.strides[1][0], input->spread.strides[1][1]};
    }
    for (uint32_t s = 0; s < program->step_count; s++) {
        const op_fused_step *step = &program->steps[s];
        bool in_rows = false;
        for (uint32_t i = 0; i < step->operand_count && i < 2; i++) {
            const int32_t operand = step->operands[i];
            const bool is_input = operand >= 0 && operand < (int32_t)program->input_count;
            const fused_input *input = is_input ? &state->inputs[operand] : NULL;
            rt_row_operand *at = &state->rows[s].operands[i];
            if (input && input->form == FUSED_ROWS) *at = input->in_rows, in_rows = true;
            else if (!input || input->form != FUSED_STAYS) *at = (rt_row_operand){state->width, 1};
        }
        if (in_rows) state->rows[s].run = rt_binary_rows_select(step->code);
    }
}

/* ---- preparing: registers, buffers, blocks, steps ----------------------------------------------------------------- */

static base_status choose_registers(fused_state *state, int64_t elements, const op_tensor *values,
                                    const rt_environment *environment, base_arena *arena,
                                    base_report *report) {
    rt_register_kind kinds[OP_FUSED_INPUTS];
    if (elements < RT_REGISTER_PIECE || !rt_registers_accepts(&state->program, values)) return BASE_OK;
    for (uint32_t v = 0; v < state->program.input_count; v++) {
        const fused_input *input = &state->inputs[v];
        kinds[v] = input->form == FUSED_STAYS  ? RT_REGISTER_STAYS
                   : input->form != FUSED_ROWS ? RT_REGISTER_RUNS
                   : input->in_rows.step       ? RT_REGISTER_ONE_ROW
                                               : RT_REGISTER_EACH_ROW;
    }
    state->registers =
        rt_registers_new(&state->program, values, kinds, state->width, !environment->portable_only, arena);
    return state->registers ? BASE_OK : base_fail_memory(report);
}

/* The last step may not write over what it reads there, and a result over that input would do so. */
static bool last_needs_buffer(const fused_state *state, const op_tensor *values) {
    const op_fused_step *step = &state->program.steps[state->program.step_count - 1];
    for (uint32_t i = 0; i < step->operand_count; i++) {
        const int32_t from = step->operands[i];
        if (from < 0 || (uint32_t)from >= state->program.input_count) continue;
        if (!(op_schema_of(step->code)->in_place & OP_IN_PLACE(i)) &&
            op_dtype_bytes(values[from].type.dtype) == state->size)
            return true;
    }
    return false;
}

/* All blocks find what is in the value's buffer. */
static bool is_kept(const fused_state *state, uint32_t value) {
    return value < state->program.input_count && state->inputs[value].repeats;
}

/* The buffer of an operand that is read here for the last time and may be written over; -1: there is none. */
static int buffer_of_operand(const fused_state *state, const op_tensor *values, uint32_t value,
                             const uint32_t *last_read) {
    if (value < state->program.input_count) return -1;
    const uint32_t number = value - state->program.input_count;
    const op_fused_step *step = &state->program.steps[number];
    for (uint32_t i = 0; i < step->operand_count; i++) {
        const int32_t from = step->operands[i];
        bool only = from >= 0 && state->buffers[from] >= 0 && last_read[from] == number &&
                    !is_kept(state, (uint32_t)from) &&
                    op_dtype_bytes(values[from].type.dtype) == op_dtype_bytes(values[value].type.dtype);
        for (uint32_t k = 0; k < step->operand_count && only; k++)
            only = step->operands[k] != from || (op_schema_of(step->code)->in_place & OP_IN_PLACE(k));
        if (only) return state->buffers[from];
    }
    return -1;
}

/* A buffer for each value that needs one, taken again when it is dead. Returns how many there are, *widest the bytes of an
 * element. */
static int assign_buffers(fused_state *state, const op_tensor *values, size_t *widest) {
    const op_fused *program = &state->program;
    const uint32_t inputs = program->input_count, count = inputs + program->step_count;
    uint32_t last_read[VALUES] = {0};
    bool taken[VALUES] = {false};
    int most = 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        for (uint32_t i = 0; i < program->steps[s].operand_count; i++) {
            if (program->steps[s].operands[i] >= 0) last_read[program->steps[s].operands[i]] = s;
        }
    }
    for (uint32_t v = 0; v < count; v++) {
        state->buffers[v] = -1;
        const bool needs = v < inputs         ? state->inputs[v].form == FUSED_SPREAD
                           : state->registers ? false
                           : v + 1 == count   ? last_needs_buffer(state, values)
                                              : true;
        if (!needs) continue;
        int buffer = buffer_of_operand(state, values, v, last_read);
        if (buffer < 0) {
            buffer = 0;
            while (taken[buffer]) buffer++;
        }
        taken[buffer] = true;
        state->buffers[v] = buffer;
        if (buffer >= most) most = buffer + 1;
        const size_t size = op_dtype_bytes(values[v].type.dtype);
        if (size > *widest) *widest = size;
        for (uint32_t u = 0; v >= inputs && u < v; u++) { /* read for the last time while v is made */
            if (state->buffers[u] >= 0 && last_read[u] == v - inputs && taken[state->buffers[u]] &&
                state->buffers[u] != buffer && !is_kept(state, u))
                taken[state->buffers[u]] = false;
        }
    }
    return most;
}

static void choose_block(fused_state *state, int buffers, size_t widest, int64_t rows) {
    int64_t most = state->registers && !buffers ? LONG_BLOCK : MOST_BLOCK;
    if (buffers > 0) {
        const int64_t fits =
            (int64_t)((BUFFER_BYTES / (size_t)buffers - STAGGER) / widest) / BLOCK_UNIT * BLOCK_UNIT;
        if (fits < most) most = fits;
    }
    /* Blocks of a row that are about equal. */
    state->parts = (state->row + most - 1) / most;
    state->block = state->row;
    if (state->parts > 1) {
        state->block =
            ((state->row + state->parts - 1) / state->parts + BLOCK_UNIT - 1) / BLOCK_UNIT * BLOCK_UNIT;
        state->parts = (state->row + state->block - 1) / state->block;
    }
    /* Not at the same distance from a page as each other. */
    state->buffer_bytes = (size_t)((most < state->block ? most : state->block) + BLOCK_UNIT - 1) /
                              BLOCK_UNIT * BLOCK_UNIT * widest +
                          STAGGER;
    state->blocks = rows * state->parts;
}

/* An operand as a step sees it: a vector of this length, or a single element. */
static op_tensor vector_of(const op_tensor *value, bool single, int64_t length) {
    op_tensor vector = {
        .type = {.dtype = value->type.dtype, .shape = {.rank = single ? 0 : 1, .dims = {length}}},
        .data = single ? value->data : NULL};
    (void)op_type_bytes(&vector.type, &vector.bytes);
    return vector;
}

static base_status prepare_steps(fused_state *state, uint32_t which, const op_tensor *values,
                                 const rt_environment *environment, base_arena *arena, base_report *report) {
    rt_environment alone = *environment;
    alone.threads = 1;
    const op_fused *program = &state->program;
    op_tensor vectors[VALUES];
    base_status status = BASE_OK;
    for (uint32_t v = 0; v < program->input_count + program->step_count; v++) {
        const bool single = v < program->input_count && state->inputs[v].form == FUSED_STAYS;
        vectors[v] = vector_of(&values[v], single, state->steps[which].length);
    }
    for (uint32_t s = 0; s < program->step_count && status == BASE_OK; s++) {
        fused_tensors *tensors = &state->tensors[which];
        op_call call;
        op_fused_call(program, s, vectors, tensors->operands[s], &vectors[program->input_count + s], &call);
        tensors->made[s] = vectors[program->input_count + s];
        status = rt_kernel_prepare(kernel_of(call.code), &call, &alone, arena,
                                   &state->steps[which].prepared[s], report);
    }
    return status;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    op_tensor values[VALUES];
    const int threads = environment->threads > 1 ? environment->threads : 1;
    fused_state *state = BASE_NEW(arena, fused_state);
    if (state) state->tensors = BASE_ARRAY(arena, fused_tensors, 2 * (size_t)threads);
    if (!state || !state->tensors) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_program(call, &state->program, values))
        return base_fail(report, BASE_INVALID, "attribute \"steps\" does not fit the inputs");
    const int64_t elements = rt_stored_elements(&call->outputs[0].type);
    size_t widest = 1;
    state->size = op_dtype_bytes(call->outputs[0].type.dtype);
    for (uint32_t i = 0; i < call->input_count; i++)
        state->inputs[i].size = op_dtype_bytes(call->inputs[i].type.dtype);
    prepared->state = state;
    prepared->run = run;
    find_rows(state, call);
    choose_rows(state, call->input_count, values, elements);
    if (elements == 0) { /* no block */
        state->row = state->parts = state->block = 1;
        return BASE_OK;
    }
    choose_short_rows(state, values);
    base_status status = choose_registers(state, elements, values, environment, arena, report);
    if (status != BASE_OK) return status;
    const int buffers = assign_buffers(state, values, &widest);
    choose_block(state, buffers, widest, elements / state->row);
    const int64_t rest = state->row - (state->parts - 1) * state->block;
    state->steps[0].length = state->block;
    state->steps[1].length = rest == state->block ? 0 : rest;
    for (int which = 0; which < 2 && state->width; which++)
        state->steps[which].rows = state->steps[which].length / state->width;
    for (uint32_t which = 0; which < 2 && status == BASE_OK && !state->registers; which++) {
        if (state->steps[which].length)
            status = prepare_steps(state, which, values, environment, arena, report);
    }
    for (int thread = 1; thread < threads && status == BASE_OK; thread++)
        memcpy(&state->tensors[2 * thread], state->tensors, 2 * sizeof *state->tensors);
    prepared->rows = rows_of(state, call);
    return status;
}

const rt_kernel rt_kernel_fused = {.name = "portable.fused", .accepts = accepts, .prepare = prepare};

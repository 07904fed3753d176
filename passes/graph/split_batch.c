/* SPDX-License-Identifier: Apache-2.0 */
/* split_batch.c: a model of which only the size of the batch is open becomes that of one sample, which a run repeats for each.
 *
 *     graph main(%x: float32[N,3,224,224]) { %y: float32[N,64,112,112] = Conv(%x, %w) ... }
 *  => batch N
 *     graph main(%x: float32[1,3,224,224] sample) { %y: float32[1,64,112,112] = Conv(%x, %w) ... }
 *
 * Then every extent is known: the arena has its size when the model is compiled, however many samples a run has, and kernels and bands
 * are chosen for images as they are. The samples lie one after another in the caller's buffers, so a sample is an address.
 *
 * Only where
 *   - nothing that the model does joins samples or moves one to the place of another (sample_rules.c), and nothing is computed from
 *     their number but shapes;
 *   - a sample is work enough: what is read again for each sample, the constants, takes little of the time, and so does the start of each
 *     kernel. Products of single rows stay together: there many samples take little longer than one.
 *
 * Needs: types, folded shapes. Breaks: LIVE, as what computed shapes is not read any more. Guarantees: values stay what they were, up to the
 * rounding of the kernels that are chosen.
 */
#include "passes/graph/graph.h"
#include "passes/graph/sample_rules.h"

enum {
    SMALL_CONSTANTS = 1 << 20, /* bytes: in the cache from one sample to the next */
    PRODUCTS_A_SMALL_BYTE =
        4, /* of those: each number is read for sixteen products or more, as by products of many rows */
    PRODUCTS_A_BYTE =
        16, /* of others: by a machine that multiplies while it reads, a fifth more time at most */
    MOST_ROWS =
        8, /* of products, one is of single rows, as in recurrences: samples together share their weights */
    PRODUCTS_A_NODE = 50 * 1000, /* about half a microsecond, of which the start of a kernel is a tenth */
};

typedef struct splitter {
    pass_context *context;
    pass_batch batch;
    int64_t *times; /* by value id: how the samples lie along their axis (sample_rules.h) */
    uint64_t products, row_products, constant_bytes, nodes;
} splitter;

/* ---- can it be split? ---------------------------------------------------------------------------------- */

/* Everything is known of the type but the batch, which it has at most once, or a multiple of it. */
static bool has_one_batch(const op_type *type, const pass_batch *batch) {
    int found = 0;
    if (type->kind != OP_KIND_TENSOR || type->dtype == OP_STRING || type->shape.rank < 0) return false;
    for (int32_t d = 0; d < type->shape.rank; d++) {
        if (type->shape.dims[d] >= 0) continue;
        if (!pass_batch_positions(batch, type->shape.dims[d])) return false;
        found++;
    }
    return found <= 1;
}

/* The only symbol that an input of the model has; 0: none, or several. */
static int64_t find_batch(const ir_graph *main) {
    int64_t batch = 0;
    for (uint32_t i = 0; i < main->parameter_count; i++) {
        const op_shape *shape = &main->parameters[i]->type.shape;
        for (int32_t d = 0; d < shape->rank; d++) {
            if (shape->dims[d] >= 0) continue;
            if (d || shape->dims[d] == OP_DIM_UNKNOWN || (batch && shape->dims[d] != batch)) return 0;
            batch = shape->dims[d];
        }
        if (shape->rank < 0) return 0;
    }
    return batch;
}

/* Every sample has its own part of every output. */
static bool has_samples_first(const ir_graph *main, int64_t batch) {
    for (uint32_t i = 0; i < main->result_count; i++) {
        const ir_value *value = main->results[i]->value;
        const op_type *type = &value->type;
        if (value->kind != IR_RESULT_OF_NODE || type->kind != OP_KIND_TENSOR || type->shape.rank < 1 ||
            type->shape.dims[0] != batch)
            return false;
    }
    return main->result_count > 0;
}

/* How many elements of a value follow from the size of the batch, as is known of them; *known: of all others the number is known. */
static int64_t count_open(const op_tensor *value, bool *known) {
    int64_t elements, open = 0;
    *known = value->symbolic && op_shape_elements(&value->type.shape, &elements);
    if (!*known) return 0;
    for (int64_t i = 0; i < elements; i++) {
        *known &= value->symbolic[i] != OP_DIM_UNKNOWN;
        open += value->symbolic[i] < 0 && value->symbolic[i] != OP_DIM_UNKNOWN;
    }
    return open;
}

/* The input says only which shape the output has. */
static bool is_shape(op_code code, uint32_t input) {
    return code == OP_CONSTANT_OF_SHAPE ||
           (input == 1 &&
            (code == OP_RESHAPE || code == OP_EXPAND || code == OP_TILE || code == OP_AFFINE_GRID)) ||
           (input == 3 && code == OP_RESIZE);
}

/* Its output has all elements of its inputs. */
static bool keeps_all(op_code code) {
    return code == OP_CONCAT || code == OP_RESHAPE || code == OP_SQUEEZE || code == OP_UNSQUEEZE ||
           code == OP_IDENTITY || code == OP_FLATTEN;
}

/* What depends on the size of the batch, beside shapes, is numbers that are known to follow from it as shapes do. */
static bool are_numbers_shapes(const op_call *call) {
    const bool is_asked = call->code == OP_SHAPE || call->code == OP_SIZE;
    int64_t open = 0, made = 0;
    bool known, all = true;
    for (uint32_t i = 0; i < call->input_count; i++)
        if (!is_shape(call->code, i)) open += count_open(&call->inputs[i], &known);
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (call->outputs[i].type.dtype == OP_NONE) continue;
        made += count_open(&call->outputs[i], &known);
        all &= known;
    }
    /* A number that is not known, such as -1 in a shape, is as it was where all that are are still there. */
    return (!open && !is_asked) || all || (keeps_all(call->code) && made == open);
}

/* How the samples of all inputs lie along their axes. False: not in one way. */
static bool find_times(const splitter *s, const ir_node *node, int64_t *times) {
    *times = PASS_ANY_TIMES;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        if (!input || pass_sample_axis(&s->batch, &input->type.shape) < 0) continue;
        const int64_t own = s->times[input->id.index];
        if (own != PASS_ANY_TIMES && *times != PASS_ANY_TIMES && own != *times) return false;
        if (own != PASS_ANY_TIMES) *times = own;
    }
    return true;
}

static bool keeps_apart(const splitter *s, const ir_node *node, const op_call *call) {
    bool apart = false;
    int64_t times;
    if (node->graph_count ||
        op_schema_of(node->code)->flags & (OP_FLAG_EFFECT | OP_FLAG_DYNAMIC | OP_FLAG_LISTS))
        return false;
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const bool is_input = i < call->input_count;
        const op_type *type = is_input ? &call->inputs[i].type : &call->outputs[i - call->input_count].type;
        if (type->dtype == OP_NONE) continue;
        if (!has_one_batch(type, &s->batch)) return false;
        apart |= pass_sample_axis(&s->batch, &type->shape) >= 0;
    }
    if (!are_numbers_shapes(call)) return false;
    if (apart && (!find_times(s, node, &times) || !pass_sample_rule_holds(&s->batch, call, &times)))
        return false;
    for (uint32_t i = 0; i < node->output_count && apart; i++)
        if (node->outputs[i]) s->times[node->outputs[i]->id.index] = times;
    return true;
}

/* ---- is it worth it? ----------------------------------------------------------------------------------- */

/* Elements for one sample. */
static uint64_t count_elements(const op_shape *shape, const pass_batch *batch) {
    uint64_t count = 1;
    for (int32_t d = 0; d < shape->rank; d++)
        count *=
            (uint64_t)(shape->dims[d] >= 0 ? shape->dims[d] : pass_batch_positions(batch, shape->dims[d]));
    return count;
}

/* Numbers that a convolution multiplies with one of the input (transposed), or for one of the result. */
static uint64_t window_of(const op_shape *filters) {
    uint64_t count = 1;
    for (int32_t d = 1; d < filters->rank; d++) count *= (uint64_t)filters->dims[d];
    return count;
}

/* Products of numbers for one sample, in those that take as long as products of floats: of bytes, a machine has four at once. */
static uint64_t products_of(const op_call *call, const pass_batch *batch) {
    const op_shape *x = &call->inputs[0].type.shape, *y = &call->outputs[0].type.shape;
    switch (call->code) {
    case OP_CONV:
        return count_elements(y, batch) * window_of(&call->inputs[1].type.shape);
    case OP_CONV_INTEGER:
        return count_elements(y, batch) * window_of(&call->inputs[1].type.shape) / 4;
    case OP_QLINEAR_CONV:
        return count_elements(y, batch) * window_of(&call->inputs[3].type.shape) / 4;
    case OP_CONV_TRANSPOSE:
        return count_elements(x, batch) * window_of(&call->inputs[1].type.shape);
    case OP_MATMUL:
    case OP_GEMM:
        return count_elements(y, batch) * (uint64_t)(x->rank ? x->dims[x->rank - 1] : 1);
    case OP_MATMUL_INTEGER:
    case OP_QLINEAR_MATMUL:
        return count_elements(y, batch) * (uint64_t)(x->rank ? x->dims[x->rank - 1] : 1) / 4;
    default:
        return 0;
    }
}

/* Those of a recurrence: with the inputs of all positions at once, and (*rows) with the state, one position after another. */
static uint64_t products_of_recurrence(const op_call *call, uint64_t *rows) {
    int64_t inputs, states;
    if ((call->code != OP_RNN && call->code != OP_GRU && call->code != OP_LSTM) ||
        !op_shape_elements(&call->inputs[1].type.shape, &inputs) ||
        !op_shape_elements(&call->inputs[2].type.shape, &states))
        return 0;
    const uint64_t positions = (uint64_t)call->inputs[0].type.shape.dims[0];
    *rows += positions * (uint64_t)states;
    return positions * (uint64_t)inputs;
}

static void count_work(splitter *s, const op_call *call, const ir_node *node) {
    s->nodes++;
    s->products += products_of(call, &s->batch) + products_of_recurrence(call, &s->row_products);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ir_value *input = ir_input(node, i);
        /* Of a table, few rows are read. */
        if (input && input->kind == IR_CONSTANT &&
            !((node->code == OP_GATHER || node->code == OP_GATHER_BITS) && i != 1))
            s->constant_bytes += input->constant->tensor.bytes;
    }
}

static bool is_worth_it(const splitter *s) {
    const uint64_t a_byte = s->constant_bytes <= SMALL_CONSTANTS ? PRODUCTS_A_SMALL_BYTE : PRODUCTS_A_BYTE;
    return s->products >= PRODUCTS_A_NODE * s->nodes && s->products / a_byte >= s->constant_bytes &&
           s->products / MOST_ROWS >= s->row_products;
}

/* ---- what is done -------------------------------------------------------------------------------------- */

/* All types follow anew, and what is computed from the size of the batch becomes a constant. */
static base_status take_one(const splitter *s) {
    ir_module *module = s->context->module;
    const ir_graph *main = module->main;
    for (uint32_t i = 0; i < main->parameter_count; i++) {
        ir_value *parameter = main->parameters[i];
        if (pass_sample_axis(&s->batch, &parameter->type.shape) != 0) continue;
        parameter->type.shape.dims[0] = 1;
        parameter->is_sample = true;
    }
    module->batch = s->batch.symbol;
    for (const ir_node *node = main->first; node; node = node->next) {
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (!node->outputs[i]) continue;
            node->outputs[i]->type.shape = (op_shape){.rank = -1};
            node->outputs[i]->symbolic = NULL;
        }
    }
    const base_status status = pass_infer_shapes(s->context);
    return status == BASE_OK ? pass_fold_constants(s->context) : status;
}

base_status pass_split_batch(pass_context *context) {
    ir_module *module = context->module;
    splitter s = {.context = context, .batch = {module, find_batch(module->main)}};
    base_arena arena;
    if (!s.batch.symbol || context->options->whole_batch || module->run ||
        !has_samples_first(module->main, s.batch.symbol))
        return BASE_OK;
    const base_status status = pass_eliminate_dead_code(context); /* what nobody reads may do anything */
    if (status != BASE_OK) return status;
    s.times = BASE_ARRAY(context->scratch, int64_t, module->value_count);
    if (!s.times) return base_fail_memory(context->report);
    for (uint32_t i = 0; i < module->main->parameter_count; i++)
        s.times[module->main->parameters[i]->id.index] = 1;
    bool apart = true, fine = true;
    base_arena_init(&arena, context->scratch->allocator);
    for (const ir_node *node = module->main->first; node && apart && fine; node = node->next) {
        op_call call;
        fine = ir_node_call(node, &arena, &call);
        apart = fine && keeps_apart(&s, node, &call);
        if (apart) count_work(&s, &call, node);
        base_arena_free(&arena);
    }
    if (!fine) return base_fail_memory(context->report);
    return apart && is_worth_it(&s) ? take_one(&s) : BASE_OK;
}

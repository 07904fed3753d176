/* SPDX-License-Identifier: Apache-2.0 */
/* einsum.c: Einsum, in its general form: what passes/graph/lower_einsum.c leaves of it, for which all extents are known here.
 *
 * Two operands are a stack of matrix products (product.h) where each label numbers the products, or is of rows, columns or the depth. All three
 * tensors are used where they lie, if the labels that number products are innermost everywhere (side_by_side.h), or each kind of labels has one stride.
 * Otherwise a copy in scratch has them in the order of the kinds.
 *
 * One operand of which nothing is summed, as a diagonal, is copied. All else is a nest of loops, one for each label: products of one factor of each
 * operand, for 64 neighbours at a time, are added in double, or as integers that wrap around.
 */
#include "ir/operators/einsum.h"
#include "runtime/kernels/portable/cost.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product_blocks.h"
#include "runtime/kernels/portable/side_by_side.h"
#include <string.h>

/* A label, and how many elements are from one index to the next in each operand and in the result; 0: it is not there, or broadcast. */
typedef struct axis {
    int64_t extent, result;
    int64_t strides[OP_EINSUM_OPERANDS];
} axis;

/* Axes in an order. */
typedef struct axes {
    int32_t count;
    const axis *items[OP_EINSUM_LABELS];
} axes;

static void add_axis(axes *to, const axis *item) {
    to->items[to->count++] = item;
}

static void append_axes(axes *to, const axes *more) {
    for (int32_t i = 0; i < more->count; i++) add_axis(to, more->items[i]);
}

static int64_t elements_of(const axes *of) {
    int64_t elements = 1;
    for (int32_t i = 0; i < of->count; i++) elements *= of->items[i]->extent;
    return elements;
}

/* The labels with an extent other than 1: those of the result in its order, then those that are summed over. How many there are. */
static int32_t read_axes(const op_call *call, const op_einsum *e, axis *to) {
    bool kept[OP_EINSUM_LABELS] = {false};
    int32_t labels[OP_EINSUM_LABELS], count = 0, made = 0;
    for (int32_t d = 0; d < e->output_rank; d++) {
        kept[e->output[d]] = true;
        labels[count++] = e->output[d];
    }
    for (int32_t label = 0; label < OP_EINSUM_LABELS; label++)
        if (e->used[label] && !kept[label]) labels[count++] = label;
    int64_t result = 1;
    for (int32_t d = 0; d < e->output_rank; d++) result *= e->extent[e->output[d]];
    for (int32_t l = 0; l < count; l++) {
        axis one = {.extent = e->extent[labels[l]]};
        if (one.extent == 1) continue;
        if (kept[labels[l]]) one.result = one.extent ? (result /= one.extent) : 0;
        for (int32_t o = 0; o < e->operands; o++) {
            int64_t stride = 1;
            for (int32_t d = e->rank[o] - 1; d >= 0; d--) {
                const int64_t extent = call->inputs[o].type.shape.dims[d];
                if (e->labels[o][d] == labels[l] && extent != 1) one.strides[o] += stride;
                stride *= extent;
            }
        }
        to[made++] = one;
    }
    return made;
}

/* ---- a stack of matrix products ------------------------------------------------------------------------- */

enum {
    PRODUCT_ELEMENTS =
        16 /* of a matrix: smaller ones are not worth a product, but for sums of what lies together */
};

/* Where copies are in scratch; NOT_COPIED: the operand or the result is used where it is. */
#define NOT_COPIED SIZE_MAX
typedef struct stack_state {
    rt_product product;
    int operands[2];         /* which is on the left, and on the right */
    rt_loop copies[2], turn; /* to scratch; from there to the result */
    size_t at[2], made;
    size_t size; /* of an element */
} stack_state;

/* What labels are to two operands. */
typedef struct kinds {
    axes batch, rows, columns, depth;
} kinds;

/* False: there is something else. */
static bool read_kinds(const axis *all, int32_t count, int left, int right, kinds *to) {
    *to = (kinds){0};
    for (int32_t i = 0; i < count; i++) {
        const bool a = all[i].strides[left] != 0, b = all[i].strides[right] != 0;
        if (!a && !b) return false;
        if (!all[i].result) {
            if (!a || !b) return false;
            int32_t at = to->depth.count++; /* in the order of the left operand */
            for (; at > 0 && to->depth.items[at - 1]->strides[left] < all[i].strides[left]; at--)
                to->depth.items[at] = to->depth.items[at - 1];
            to->depth.items[at] = &all[i];
        } else add_axis(a && b ? &to->batch : a ? &to->rows : &to->columns, &all[i]);
    }
    return to->depth.count > 0;
}

/* Whether the result is in the order of batch, rows and columns. */
static bool lies_in_order(const kinds *of) {
    axes all = of->batch;
    int64_t stride = 1;
    append_axes(&all, &of->rows);
    append_axes(&all, &of->columns);
    for (int32_t i = all.count - 1; i >= 0; stride *= all.items[i--]->extent)
        if (all.items[i]->result != stride) return false;
    return true;
}

/* The stride of these labels in an operand as one dimension; 0: they have none. */
static int64_t joined_stride(const axes *of, int operand) {
    for (int32_t i = 0; i + 1 < of->count; i++) {
        const axis *next = of->items[i + 1];
        if (of->items[i]->strides[operand] != next->strides[operand] * next->extent) return 0;
    }
    return of->count ? of->items[of->count - 1]->strides[operand] : 1;
}

/* A loop over labels; operand 0 is dense. */
static rt_loop dense_loop(const axes *order, int operand) {
    rt_loop loop = {.rank = order->count, .operands = 2};
    int64_t stride = 1;
    for (int32_t i = order->count - 1; i >= 0; stride *= order->items[i--]->extent) {
        loop.dims[i] = order->items[i]->extent;
        loop.strides[0][i] = stride;
        loop.strides[1][i] = operand < 0 ? order->items[i]->result : order->items[i]->strides[operand];
    }
    return loop;
}

/* A matrix as the product reads it: its strides, and those of batches. */
typedef struct matrix {
    int64_t outer, inner, batch[RT_LOOP_RANK];
} matrix;

static matrix read_matrix(stack_state *s, int side, const axes *batch, const axes *outer, const axes *inner) {
    const int operand = s->operands[side];
    matrix m = {joined_stride(outer, operand), joined_stride(inner, operand), {0}};
    axes order = *batch;
    append_axes(&order, outer);
    append_axes(&order, inner);
    const bool copied = m.outer == 0 || m.inner == 0;
    s->at[side] = copied ? 0 : NOT_COPIED;
    if (copied) m = (matrix){elements_of(inner), 1, {0}};
    s->copies[side] = dense_loop(&order, operand);
    for (int32_t i = 0; i < batch->count; i++) m.batch[i] = s->copies[side].strides[copied ? 0 : 1][i];
    rt_loop_collapse(&s->copies[side]);
    return m;
}

static void set_batches(rt_product *product, const axes *batch, const matrix *a, const matrix *b) {
    rt_loop loop = {.rank = batch->count, .operands = 2};
    for (int32_t i = 0; i < batch->count; i++) {
        loop.dims[i] = batch->items[i]->extent;
        loop.strides[0][i] = a->batch[i];
        loop.strides[1][i] = b->batch[i];
    }
    rt_loop_collapse(&loop);
    product->batches = elements_of(batch);
    product->batch_rank = loop.rank;
    for (int32_t i = 0; i < loop.rank; i++) {
        product->batch_dims[i] = loop.dims[i];
        product->a_batch[i] = loop.strides[0][i];
        product->b_batch[i] = loop.strides[1][i];
    }
}

static bool has_products(op_dtype dtype) {
    return dtype != OP_INT8 && dtype != OP_UINT8 && dtype != OP_INT16 && dtype != OP_UINT16;
}

/* So many elements more in scratch, of which there are *bytes so far: where they are. */
static bool reserve(size_t *bytes, int64_t elements, size_t size, size_t *at) {
    size_t more;
    if (!base_size_align(*bytes, RT_ALIGNMENT, at) || !base_size_multiply((size_t)elements, size, &more))
        return false;
    return base_size_add(*at, more, bytes);
}

static base_status run_stack(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)report;
    const stack_state *s = prepared->state;
    const void *factors[2];
    for (int side = 0; side < 2; side++) {
        factors[side] = inputs[s->operands[side]].data;
        if (s->at[side] == NOT_COPIED) continue;
        void *copy = (char *)scratch + s->at[side];
        rt_copy_strided(&s->copies[side], prepared->threads, s->size, copy, factors[side]);
        factors[side] = copy;
    }
    void *made = s->made == NOT_COPIED ? outputs[0].data : (char *)scratch + s->made;
    rt_product_run(&s->product, prepared->threads, factors[0], factors[1], NULL, made, scratch);
    if (s->made != NOT_COPIED) rt_copy_strided(&s->turn, prepared->threads, s->size, outputs[0].data, made);
    return BASE_OK;
}

/* From the product, which is in the order of batch, rows and columns, to the result. */
static rt_loop turning_loop(const kinds *of, const axis *all) {
    axes made = of->batch, order = {0};
    append_axes(&made, &of->rows);
    append_axes(&made, &of->columns);
    for (int32_t i = 0; i < made.count; i++) add_axis(&order, &all[i]); /* the result's order */
    const rt_loop from = dense_loop(&made, -1);
    rt_loop turn = dense_loop(&order, -1);
    for (int32_t i = 0; i < order.count; i++)
        for (int32_t k = 0; k < made.count; k++)
            if (made.items[k] == order.items[i]) turn.strides[1][i] = from.strides[0][k];
    rt_loop_collapse(&turn);
    return turn;
}

/* False: it is none, or memory ran out. */
static bool prepare_stack(const op_call *call, const axis *all, int32_t count,
                          const rt_environment *environment, base_arena *arena, rt_prepared *prepared) {
    const op_dtype dtype = call->inputs[0].type.dtype;
    kinds as_given, turned;
    if (call->input_count != 2 || !has_products(dtype) || !read_kinds(all, count, 0, 1, &as_given) ||
        !read_kinds(all, count, 1, 0, &turned))
        return false;
    const bool swap = !lies_in_order(&as_given) && lies_in_order(&turned);
    const kinds *of = swap ? &turned : &as_given;
    stack_state *s = BASE_NEW(arena, stack_state);
    if (!s) return false;
    s->operands[0] = swap;
    s->operands[1] = !swap;
    s->size = op_dtype_bytes(dtype);
    const matrix a = read_matrix(s, 0, &of->batch, &of->rows, &of->depth),
                 b = read_matrix(s, 1, &of->batch, &of->depth, &of->columns);
    rt_product *product = &s->product;
    *product = (rt_product){.dtype = dtype, .alpha = 1, .beta = 1};
    product->rows = elements_of(&of->rows);
    product->columns = elements_of(&of->columns);
    product->depth = elements_of(&of->depth);
    product->a_row = of->rows.count ? a.outer : product->depth;
    product->a_depth = a.inner;
    product->b_depth = b.outer;
    product->b_column = b.inner;
    set_batches(product, &of->batch, &a, &b);
    rt_product_allow(product, environment);
    if (product->rows * product->columns < PRODUCT_ELEMENTS && (a.inner != 1 || b.outer != 1)) return false;
    size_t bytes = rt_product_scratch(product, environment->threads);
    for (int side = 0; side < 2; side++) {
        const int64_t elements = rt_loop_elements(&s->copies[side]);
        if (s->at[side] != NOT_COPIED && !reserve(&bytes, elements, s->size, &s->at[side])) return false;
    }
    s->made = NOT_COPIED;
    if (!lies_in_order(of)) {
        s->turn = turning_loop(of, all);
        if (!reserve(&bytes, rt_loop_elements(&s->turn), s->size, &s->made)) return false;
    }
    prepared->scratch_bytes = bytes;
    prepared->state = s;
    prepared->run = run_stack;
    return true;
}

/* ---- products side by side ------------------------------------------------------------------------------- */

enum {
    LEAST_LANES = 16, /* products side by side: fewer are not worth their kernel */
    MOST_LANES = 256, /* of a task: elements that its rows and columns share stay in the cache */
    MOST_SIDE = 8     /* rows, and columns, of a task */
};

typedef struct lanes_state {
    rt_side_by_side all; /* of one combination of what is left, without operands */
    rt_loop rest;        /* the result, both operands */
    int64_t lane_parts, row_parts, column_parts;
} lanes_state;

typedef struct lanes_context {
    const lanes_state *state;
    const float *a, *b;
    float *y;
} lanes_context;

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void run_lane_tasks(void *user, int64_t begin, int64_t end) {
    const lanes_context *context = user;
    const lanes_state *s = context->state;
    const rt_loop *rest = &s->rest;
    for (int64_t task = begin; task < end; task++) {
        const int64_t column = task % s->column_parts * MOST_SIDE, rows = task / s->column_parts;
        const int64_t row = rows % s->row_parts * MOST_SIDE, lanes = rows / s->row_parts;
        const int64_t lane = lanes % s->lane_parts * MOST_LANES, one = lanes / s->lane_parts;
        rt_side_by_side part = s->all;
        part.lanes = least(part.lanes - lane, MOST_LANES);
        part.rows = least(part.rows - row, MOST_SIDE);
        part.columns = least(part.columns - column, MOST_SIDE);
        part.y = context->y + lane + row * part.y_row + column * part.y_column +
                 rt_product_offset(one, rest->rank, rest->dims, rest->strides[0]);
        part.a = context->a + lane + row * part.a_row +
                 rt_product_offset(one, rest->rank, rest->dims, rest->strides[1]);
        part.b = context->b + lane + column * part.b_column +
                 rt_product_offset(one, rest->rank, rest->dims, rest->strides[2]);
        rt_side_by_side_run(&part);
    }
}

static base_status run_lanes(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                             void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const lanes_state *s = prepared->state;
    lanes_context context = {s, inputs[0].data, inputs[1].data, outputs[0].data};
    const int64_t work = least(s->all.lanes, MOST_LANES) * least(s->all.rows, MOST_SIDE) *
                         least(s->all.columns, MOST_SIDE) * s->all.depth;
    rt_parallel(prepared->threads,
                rt_loop_elements(&s->rest) * s->lane_parts * s->row_parts * s->column_parts, work,
                run_lane_tasks, &context);
    return BASE_OK;
}

/* The longest of these; NULL: there is none. */
static const axis *longest(const axes *of) {
    const axis *most = NULL;
    for (int32_t i = 0; i < of->count; i++)
        if (!most || of->items[i]->extent > most->extent) most = of->items[i];
    return most;
}

/* How many of these labels, from the last one back, are side by side in the result and both operands, as one dimension of *lanes. */
static int32_t side_by_side(const axes *batch, int64_t *lanes) {
    int32_t count = 0;
    *lanes = 1;
    for (int32_t i = batch->count - 1; i >= 0; i--) {
        const axis *one = batch->items[i];
        if (one->result != *lanes || one->strides[0] != *lanes || one->strides[1] != *lanes) break;
        *lanes *= one->extent;
        count++;
    }
    return count;
}

static void add_rest(rt_loop *rest, const axes *of, const axis *but) {
    for (int32_t i = 0; i < of->count; i++) {
        if (of->items[i] == but) continue;
        rest->dims[rest->rank] = of->items[i]->extent;
        rest->strides[0][rest->rank] = of->items[i]->result;
        rest->strides[1][rest->rank] = of->items[i]->strides[0];
        rest->strides[2][rest->rank++] = of->items[i]->strides[1];
    }
}

static int64_t parts_of(int64_t count, int64_t each) {
    return (count + each - 1) / each;
}

/* False: it is none, or memory ran out. */
static bool prepare_lanes(const op_call *call, const axis *all, int32_t count,
                          const rt_environment *environment, base_arena *arena, rt_prepared *prepared) {
    kinds of;
    int64_t lanes;
    if (call->input_count != 2 || call->inputs[0].type.dtype != OP_FLOAT ||
        !read_kinds(all, count, 0, 1, &of))
        return false;
    of.batch.count -= side_by_side(&of.batch, &lanes);
    const int64_t a_depth = joined_stride(&of.depth, 0), b_depth = joined_stride(&of.depth, 1);
    if (lanes < LEAST_LANES || a_depth == 0 || b_depth == 0) return false;
    lanes_state *s = BASE_NEW(arena, lanes_state);
    if (!s) return false;
    const axis *row = longest(&of.rows), *column = longest(&of.columns);
    s->all = (rt_side_by_side){.lanes = lanes,
                               .rows = row ? row->extent : 1,
                               .columns = column ? column->extent : 1,
                               .depth = elements_of(&of.depth),
                               .a_row = row ? row->strides[0] : 0,
                               .a_depth = a_depth,
                               .b_depth = b_depth,
                               .b_column = column ? column->strides[1] : 0,
                               .y_row = row ? row->result : 0,
                               .y_column = column ? column->result : 0,
                               .wide = rt_has_wide_vectors(environment)};
    s->rest.operands = 3;
    add_rest(&s->rest, &of.batch, NULL);
    add_rest(&s->rest, &of.rows, row);
    add_rest(&s->rest, &of.columns, column);
    rt_loop_collapse(&s->rest);
    s->lane_parts = parts_of(lanes, MOST_LANES);
    s->row_parts = parts_of(s->all.rows, MOST_SIDE);
    s->column_parts = parts_of(s->all.columns, MOST_SIDE);
    prepared->state = s;
    prepared->run = run_lanes;
    return true;
}

/* ---- one operand, no sums -------------------------------------------------------------------------------- */

static base_status run_copy(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const rt_loop *loop = prepared->state;
    rt_copy_strided(loop, prepared->threads, op_dtype_bytes(inputs[0].type.dtype), outputs[0].data,
                    inputs[0].data);
    return BASE_OK;
}

/* False: it is none, or memory ran out. */
static bool prepare_copy(const op_call *call, const axis *all, int32_t count, base_arena *arena,
                         rt_prepared *prepared) {
    axes order = {0};
    for (int32_t i = 0; i < count; i++) {
        if (!all[i].result) return false;
        add_axis(&order, &all[i]);
    }
    rt_loop *loop = call->input_count == 1 ? BASE_NEW(arena, rt_loop) : NULL;
    if (!loop) return false;
    *loop = dense_loop(&order, 0);
    rt_loop_collapse(loop);
    prepared->state = loop;
    prepared->run = run_copy;
    return true;
}

/* ---- a nest of loops ------------------------------------------------------------------------------------- */

enum { TOGETHER = 64 /* neighbours whose products are made together */ };

typedef struct nest_state {
    int32_t operands, kept, summed;
    axis axes[OP_EINSUM_LABELS]; /* `kept` of the result, then `summed` */
    int64_t outputs, terms;
    bool
        along_sums; /* neighbours are terms of one sum, along its last label; else outputs, along the result's last */
    op_dtype dtype;
} nest_state;

typedef struct nest_context {
    const nest_state *state;
    const op_tensor *inputs;
    op_tensor *output;
} nest_context;

static bool is_real(op_dtype dtype) {
    return dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype);
}

/* factors[i] = (the factor before, if there is one) * x[i * stride] */
static void multiply_floats(double *factors, const float *x, int64_t stride, int64_t count, bool first) {
    if (first && stride == 1) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) factors[i] = (double)x[i];
    } else if (first) {
        for (int64_t i = 0; i < count; i++) factors[i] = (double)x[i * stride];
    } else if (stride == 1) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) factors[i] *= (double)x[i];
    } else if (stride == 0) {
        RT_VECTOR for (int64_t i = 0; i < count; i++) factors[i] *= (double)*x;
    } else {
        for (int64_t i = 0; i < count; i++) factors[i] *= (double)x[i * stride];
    }
}

static void multiply_reals(const nest_context *context, const axis *along, const int64_t *at, int64_t count,
                           double *factors) {
    const nest_state *s = context->state;
    for (int32_t o = 0; o < s->operands; o++) {
        const void *data = context->inputs[o].data;
        const int64_t stride = along->strides[o];
        if (s->dtype == OP_FLOAT)
            multiply_floats(factors, (const float *)data + at[o], stride, count, o == 0);
        else
            for (int64_t i = 0; i < count; i++) {
                const double x = rt_element_load(s->dtype, data, at[o] + i * stride);
                factors[i] = o ? factors[i] * x : x;
            }
    }
}

static void multiply_integers(const nest_context *context, const axis *along, const int64_t *at,
                              int64_t count, uint64_t *factors) {
    const nest_state *s = context->state;
    for (int32_t o = 0; o < s->operands; o++) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t x =
                rt_integer_load(s->dtype, context->inputs[o].data, at[o] + i * along->strides[o]);
            factors[i] = (o ? factors[i] : 1) * (uint64_t)x;
        }
    }
}

/* The products of some neighbours of one term each are added to their sums. */
static void add_products(const nest_context *context, const axis *along, const int64_t *at, int64_t count,
                         double *sums, uint64_t *totals) {
    double factors[TOGETHER];
    uint64_t whole[TOGETHER];
    if (is_real(context->state->dtype)) {
        multiply_reals(context, along, at, count, factors);
        for (int64_t i = 0; i < count; i++) sums[i] += factors[i];
    } else {
        multiply_integers(context, along, at, count, whole);
        for (int64_t i = 0; i < count; i++) totals[i] += whole[i];
    }
}

/* All neighbours along the last label of the sum, where that many make one after the other. */
static void add_line(const nest_context *context, const axis *along, const int64_t *at, double *sums,
                     uint64_t *totals) {
    int64_t here[OP_EINSUM_OPERANDS];
    for (int64_t from = 0; from < along->extent; from += TOGETHER) {
        const int64_t rest = along->extent - from;
        for (int32_t o = 0; o < context->state->operands; o++) here[o] = at[o] + from * along->strides[o];
        add_products(context, along, here, rest < TOGETHER ? rest : TOGETHER, sums, totals);
    }
}

static void store(const nest_context *context, int64_t at, double sum, uint64_t total) {
    const op_dtype dtype = context->state->dtype;
    if (is_real(dtype)) rt_element_store(dtype, context->output->data, at, sum);
    else rt_integer_store(dtype, context->output->data, at, total);
}

/* To the next combination of `count` labels. */
static void advance(const nest_state *s, const axis *labels, int32_t count, int64_t *index, int64_t *at) {
    for (int32_t d = count - 1; d >= 0; d--) {
        for (int32_t o = 0; o < s->operands; o++) at[o] += labels[d].strides[o];
        if (++index[d] < labels[d].extent) return;
        index[d] = 0;
        for (int32_t o = 0; o < s->operands; o++) at[o] -= labels[d].extent * labels[d].strides[o];
    }
}

/* Outputs [task, task + count), which lie along the result's last label; one, where neighbours are terms of its sum. */
static void sum_terms(const nest_context *context, int64_t task, int64_t count) {
    static const axis none = {.extent = 1};
    const nest_state *s = context->state;
    const axis *summed = s->axes + s->kept, *line = s->along_sums ? &summed[s->summed - 1] : NULL;
    const int32_t outer = s->summed - s->along_sums;
    int64_t at[OP_EINSUM_OPERANDS] = {0}, index[OP_EINSUM_LABELS] = {0}, rest = task;
    const int64_t combinations = line && s->terms ? s->terms / line->extent : s->terms;
    double sums[TOGETHER] = {0};
    uint64_t totals[TOGETHER] = {0};
    for (int32_t d = s->kept - 1; d >= 0; rest /= s->axes[d--].extent)
        for (int32_t o = 0; o < s->operands; o++) at[o] += rest % s->axes[d].extent * s->axes[d].strides[o];
    for (int64_t c = 0; c < combinations; c++) {
        if (line) add_line(context, line, at, sums, totals);
        else add_products(context, s->kept ? &s->axes[s->kept - 1] : &none, at, count, sums, totals);
        advance(s, summed, outer, index, at);
    }
    for (int64_t i = 1; i < TOGETHER && line; i++) {
        sums[0] += sums[i];
        totals[0] += totals[i];
    }
    for (int64_t i = 0; i < count; i++) store(context, task + i, sums[i], totals[i]);
}

static void make_outputs(void *user, int64_t begin, int64_t end) {
    const nest_context *context = user;
    const nest_state *s = context->state;
    const int64_t row = s->kept && !s->along_sums ? s->axes[s->kept - 1].extent : 1;
    for (int64_t task = begin, count; task < end; task += count) {
        count = row - task % row; /* to the end of the last dimension */
        if (count > end - task) count = end - task;
        if (count > TOGETHER) count = TOGETHER;
        sum_terms(context, task, count);
    }
}

static base_status run_nest(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    (void)scratch;
    (void)report;
    const nest_state *s = prepared->state;
    nest_context context = {s, inputs, &outputs[0]};
    rt_parallel(prepared->threads, s->outputs, s->terms * s->operands * 4 + 8, make_outputs, &context);
    return BASE_OK;
}

/* How far apart the neighbours along a label are in all operands together. */
static int64_t distance(const axis *of, int32_t operands) {
    int64_t all = 0;
    for (int32_t o = 0; o < operands; o++) all += of->strides[o];
    return all;
}

/* Labels of the result in its order; those of sums so that neighbours along the last one are nearest. `outputs`: of the result. */
static void read_nest(nest_state *s, const axis *all, int32_t count, int64_t outputs) {
    enum { LINE = 8 /* terms: fewer are not worth a line */ };
    s->terms = 1;
    s->outputs = outputs;
    while (s->kept < count && all[s->kept].result) s->kept++;
    memcpy(s->axes, all, (size_t)s->kept * sizeof *all);
    for (int32_t i = s->kept; i < count; i++) {
        int32_t at = i;
        for (; at > s->kept && distance(&s->axes[at - 1], s->operands) < distance(&all[i], s->operands); at--)
            s->axes[at] = s->axes[at - 1];
        s->axes[at] = all[i];
        s->summed++;
        s->terms *= all[i].extent;
    }
    if (!s->summed) return;
    const axis *last = &s->axes[count - 1];
    s->along_sums = !s->kept || (last->extent >= LINE &&
                                 distance(last, s->operands) < distance(&s->axes[s->kept - 1], s->operands));
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    op_einsum e;
    axis all[OP_EINSUM_LABELS];
    int64_t outputs = 0;
    if (!op_einsum_read(call, &e, report)) return BASE_INVALID;
    const int32_t count = read_axes(call, &e, all);
    (void)op_shape_elements(&call->outputs[0].type.shape, &outputs);
    bool empty = outputs == 0;
    for (int32_t i = 0; i < count; i++) empty = empty || all[i].extent == 0;
    if (!empty && (prepare_copy(call, all, count, arena, prepared) ||
                   prepare_lanes(call, all, count, environment, arena, prepared) ||
                   prepare_stack(call, all, count, environment, arena, prepared)))
        return BASE_OK;
    nest_state *s = BASE_NEW(arena, nest_state);
    if (!s) return base_fail_memory(report);
    s->operands = e.operands;
    s->dtype = call->inputs[0].type.dtype;
    read_nest(s, all, count, outputs);
    prepared->state = s;
    prepared->run = run_nest;
    return BASE_OK;
}

const rt_kernel rt_kernel_einsum = {
    .name = "portable.einsum", .accepts = rt_accepts_any_row_major, .prepare = prepare};

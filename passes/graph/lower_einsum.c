/* SPDX-License-Identifier: Apache-2.0 */
/* lower_einsum.c: an Einsum becomes matrix products, products of elements and sums, as far as it is these.
 *
 *     %y = Einsum(%a, %b) {equation = "bhid,bhjd->bhij"}
 *  => %t = Transpose(%b) {perm = [0, 1, 3, 2]}   %y = MatMul(%a, %t)
 *
 * Of three operands and more, two become one until one is left: those whose product takes the least work; of equals, the first. What is between
 * would be rounded in 16 bits, so it is done in float.
 *
 * Labels that one operand alone has, and the result lacks, are summed first. A dimension of 1 is left out where another operand has its label: it is
 * broadcast. The other labels of two operands are of four kinds; several of a kind count as one dimension, by Reshape:
 *
 *     of both and of the result          they number the products
 *     of both, but not of the result     the depth: they are summed over
 *     of one operand and of the result   its rows, or its columns
 *
 * Without a depth it is Mul. Rows or columns that stand in the result before the labels that number the products number them as well, where enough
 * are left: the result is not transposed then. Products of floats whose numbering labels are innermost everywhere lie side by side; they stay an
 * Einsum. Transposes and Reshapes that do nothing are not made.
 *
 * Extents may be open. One that numbers products may differ between the operands, as MatMul broadcasts it; one that is summed over must be the same
 * symbol. A Reshape can keep a dynamic dimension in its place, or find it as the one extent that it is not told. What would need more stays an
 * Einsum of two operands, after the first sums. An operand with a label twice is an Einsum that copies its diagonal. Rows are not joined where there
 * is one product.
 *
 * Needs: types, folded shapes. Breaks: that somebody reads every node. Guarantees: types of what it puts in; an Einsum that
 * remains has a kernel.
 */
#include "ir/operators/einsum.h"
#include "passes/graph/graph.h"

enum {
    LETTERS = 52,
    ENOUGH = 16,   /* rows or columns of a product, where the others may number products */
    SUPPOSED = 256 /* extent of what is dynamic, where work is compared */
};

/* Labels in an order, as the dimensions of a value. */
typedef struct dimensions {
    int32_t count;
    int32_t labels[2 * OP_MAX_RANK];
} dimensions;

typedef struct operand {
    ir_value *value;
    dimensions labels;
} operand;

typedef struct lowering {
    pass_context *context;
    ir_node *node;
    op_einsum equation;
    op_dtype dtype; /* in which it is computed */
    bool products;  /* MatMul and ReduceSum have this type */
    dimensions wanted;
    int32_t count;
    operand operands[OP_EINSUM_OPERANDS];
} lowering;

/* Where the label is, from `from` on; -1: nowhere. */
static int32_t find(const dimensions *d, int32_t label, int32_t from) {
    for (int32_t i = from; i < d->count; i++) {
        if (d->labels[i] == label) return i;
    }
    return -1;
}

static bool has(const dimensions *d, int32_t label) {
    return find(d, label, 0) >= 0;
}

static bool has_twice(const dimensions *d) {
    for (int32_t i = 0; i < d->count; i++) {
        if (find(d, d->labels[i], i + 1) >= 0) return true;
    }
    return false;
}

static void add(dimensions *d, int32_t label) {
    d->labels[d->count++] = label;
}

static void append(dimensions *to, const dimensions *more) {
    for (int32_t i = 0; i < more->count; i++) add(to, more->labels[i]);
}

/* Those of these labels, in their order, that the others have (or lack). */
static dimensions among(const dimensions *these, const dimensions *others, bool in) {
    dimensions chosen = {0};
    for (int32_t i = 0; i < these->count; i++) {
        if (has(others, these->labels[i]) == in) add(&chosen, these->labels[i]);
    }
    return chosen;
}

/* ---- extents ------------------------------------------------------------------------------------------- */

static int64_t broadcast(int64_t a, int64_t b) {
    const op_shape x = {.rank = 1, .dims = {a}}, y = {.rank = 1, .dims = {b}};
    op_shape both;
    return op_shape_broadcast(NULL, &x, &y, &both) ? both.dims[0] : OP_DIM_UNKNOWN;
}

/* The extent of a label in some operands: 1 where none has it. */
static int64_t extent_of(const operand *operands, int32_t count, int32_t label) {
    int64_t extent = 1;
    for (int32_t o = 0; o < count; o++) {
        for (int32_t i = 0; i < operands[o].labels.count; i++) {
            if (operands[o].labels.labels[i] == label)
                extent = broadcast(extent, operands[o].value->type.shape.dims[i]);
        }
    }
    return extent;
}

static op_shape shape_of(const operand *operands, int32_t count, const dimensions *d) {
    op_shape shape = {.rank = d->count};
    for (int32_t i = 0; i < d->count; i++) shape.dims[i] = extent_of(operands, count, d->labels[i]);
    return shape;
}

/* All these dimensions as one. */
static int64_t elements(const operand *o, const dimensions *d) {
    int64_t product = 1;
    if (d->count == 1) return extent_of(o, 1, d->labels[0]);
    for (int32_t i = 0; i < d->count; i++) {
        const int64_t extent = extent_of(o, 1, d->labels[i]);
        if (extent < 0) return OP_DIM_UNKNOWN;
        product *= extent;
    }
    return product;
}

/* What Reshape is told to get from one shape to the other: extents; where some are open, 0 for an open one that keeps its place, and -1 for
 * one that does not: of these there can be one, and none beside a 0, as the extent might be 0 in a run. */
static bool reshape_request(const op_shape *from, const op_shape *to, int64_t *request) {
    int32_t kept = 0, found = 0, zeros = 0;
    for (int32_t i = 0; i < to->rank; i++) {
        const bool same = i < from->rank && from->dims[i] == to->dims[i] && to->dims[i] != OP_DIM_UNKNOWN;
        request[i] = to->dims[i] >= 0 ? to->dims[i] : same ? 0 : -1;
        zeros += to->dims[i] == 0;
        kept += to->dims[i] < 0 && same;
        found += request[i] < 0;
    }
    if (kept + found == 0) return true;
    return zeros == 0 && found <= 1 && (found == 0 || kept == 0);
}

static bool can_reshape(const op_shape *from, const op_shape *to) {
    int64_t request[OP_MAX_RANK];
    return from->rank == to->rank ||
           reshape_request(from, to, request); /* of the same rank they are the same */
}

/* ---- nodes: NULL where memory runs out ----------------------------------------------------------------- */

static ir_value *make(const lowering *l, op_code code, const op_attribute *attribute, uint32_t count,
                      ir_value *const *inputs, const op_shape *shape) {
    op_attributes attributes = {0};
    for (uint32_t i = 0; i < count; i++)
        if (!inputs[i]) return NULL;
    if (attribute && !ir_attribute_set(l->context->module, &attributes, attribute)) return NULL;
    ir_node *node =
        ir_node_new(l->node->graph, l->node, code, l->node->name, l->node->path, attributes, count, inputs);
    const op_type type = {.dtype = l->dtype, .shape = *shape};
    return node ? ir_node_add_output(node, l->node->outputs[0]->name, &type) : NULL;
}

static ir_value *integers(const lowering *l, const int64_t *values, int32_t count) {
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {count}}};
    return ir_constant_copy(l->context->module, l->node->outputs[0]->name, &type, values,
                            (size_t)count * sizeof *values);
}

static ir_value *reshape(const lowering *l, ir_value *value, const op_shape *shape) {
    int64_t request[OP_MAX_RANK];
    if (!value || !reshape_request(&value->type.shape, shape, request)) return NULL;
    const op_attribute zero = {
        .name = "allowzero", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = op_shape_known(shape)};
    return make(l, OP_RESHAPE, &zero, 2, (ir_value *[]){value, integers(l, request, shape->rank)}, shape);
}

/* Axes in ascending order. */
typedef struct places {
    int32_t count;
    int64_t axes[OP_MAX_RANK];
} places;

/* The shape with dimensions of 1 at these axes of the result. */
static op_shape with_ones(const op_shape *shape, const places *at) {
    op_shape made = {.rank = shape->rank + at->count};
    for (int32_t i = 0, from = 0, next = 0; i < made.rank; i++) {
        const bool one = next < at->count && at->axes[next] == i;
        next += one;
        made.dims[i] = one ? 1 : shape->dims[from++];
    }
    return made;
}

/* The value, some of whose dimensions become one (or none do), with dimensions of 1 at these axes: one Reshape, where that can say it. */
static ir_value *join(const lowering *l, ir_value *value, const op_shape *joined, const places *ones) {
    const op_shape full = with_ones(joined, ones);
    int64_t request[OP_MAX_RANK];
    if (!value) return NULL;
    if (value->type.shape.rank != joined->rank) {
        if (reshape_request(&value->type.shape, &full, request)) return reshape(l, value, &full);
        value = reshape(l, value, joined);
    }
    if (!ones->count) return value;
    return make(l, OP_UNSQUEEZE, NULL, 2, (ir_value *[]){value, integers(l, ones->axes, ones->count)}, &full);
}

/* The way back: without those dimensions of 1, some dimensions become several. */
static ir_value *part(const lowering *l, ir_value *value, const op_shape *joined, const op_shape *apart,
                      const places *ones) {
    int64_t request[OP_MAX_RANK];
    const bool same = joined->rank == apart->rank;
    if (!value) return NULL;
    if (!same && reshape_request(&value->type.shape, apart, request)) return reshape(l, value, apart);
    if (ones->count)
        value =
            make(l, OP_SQUEEZE, NULL, 2, (ir_value *[]){value, integers(l, ones->axes, ones->count)}, joined);
    return same ? value : reshape(l, value, apart);
}

/* An operand with its dimensions in this order. */
static ir_value *transpose(const lowering *l, const operand *from, const dimensions *to) {
    int64_t order[OP_MAX_RANK];
    bool same = true;
    for (int32_t i = 0; i < to->count; i++) {
        order[i] = find(&from->labels, to->labels[i], 0);
        same = same && order[i] == i;
    }
    if (!from->value || same) return from->value;
    const op_attribute perm = {
        .name = "perm", .kind = OP_ATTRIBUTE_INTS, .count = (size_t)to->count, .as.integers = order};
    const op_shape shape = shape_of(from, 1, to);
    return make(l, OP_TRANSPOSE, &perm, 1, &from->value, &shape);
}

static ir_value *cast(lowering *l, ir_value *value, op_dtype dtype) {
    const op_attribute to = {.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = dtype};
    l->dtype = dtype;
    return value ? make(l, OP_CAST, &to, 1, &value, &value->type.shape) : NULL;
}

/* ---- what stays ---------------------------------------------------------------------------------------- */

/* A letter for each label: those of the ellipsis get letters that nobody uses. */
static char letter_of(const lowering *l, int32_t label) {
    int32_t unused = label - LETTERS;
    int32_t letter = label;
    if (label >= LETTERS) {
        for (letter = 0; l->equation.used[letter] || unused-- > 0;) letter++;
    }
    return (char)(letter < 26 ? 'a' + letter : 'A' + letter - 26);
}

/* An Einsum of these operands; the node as it is, where they are its own. */
static ir_value *einsum(const lowering *l, const operand *operands, int32_t count, const dimensions *wanted) {
    char text[OP_EINSUM_OPERANDS * (OP_MAX_RANK + 1) + OP_MAX_RANK + 2];
    ir_value *inputs[2];
    size_t length = 0;
    bool same = (uint32_t)count == l->node->input_count && wanted == &l->wanted;
    for (int32_t o = 0; o < count; o++) {
        if (o) text[length++] = ',';
        for (int32_t i = 0; i < operands[o].labels.count; i++)
            text[length++] = letter_of(l, operands[o].labels.labels[i]);
        inputs[o] = operands[o].value;
        same = same && inputs[o] == ir_input(l->node, (uint32_t)o);
    }
    if (same) return l->node->outputs[0];
    text[length++] = '-';
    text[length++] = '>';
    for (int32_t i = 0; i < wanted->count; i++) text[length++] = letter_of(l, wanted->labels[i]);
    const op_attribute equation = {
        .name = "equation", .kind = OP_ATTRIBUTE_STRING, .count = 1, .as.text = {text, length}};
    const op_shape shape = shape_of(operands, count, wanted);
    return make(l, OP_EINSUM, &equation, (uint32_t)count, inputs, &shape);
}

/* ---- one operand --------------------------------------------------------------------------------------- */

static bool others_have(const lowering *l, int32_t but, int32_t label) {
    for (int32_t o = 0; o < l->count; o++)
        if (o != but && has(&l->operands[o].labels, label)) return true;
    return false;
}

/* Leaves out dimensions of 1 whose label is somewhere else, too. */
static void drop_ones(lowering *l, int32_t at) {
    operand *o = &l->operands[at];
    dimensions left = {0};
    places ones = {0};
    op_shape shape = {0};
    for (int32_t i = 0; i < o->labels.count; i++) {
        const int32_t label = o->labels.labels[i];
        const int64_t extent = o->value->type.shape.dims[i];
        if (extent == 1 &&
            (others_have(l, at, label) || has(&left, label) || find(&o->labels, label, i + 1) >= 0)) {
            ones.axes[ones.count++] = i;
            continue;
        }
        add(&left, label);
        shape.dims[shape.rank++] = extent;
    }
    o->value = part(l, o->value, &shape, &shape, &ones);
    o->labels = left;
}

/* Sums over all labels but these. */
static ir_value *sum(const lowering *l, const operand *o, const dimensions *left) {
    int64_t axes[OP_MAX_RANK];
    int32_t count = 0;
    for (int32_t i = 0; i < o->labels.count; i++)
        if (!has(left, o->labels.labels[i])) axes[count++] = i;
    if (!o->value || !count) return o->value;
    const op_attribute keep = {.name = "keepdims", .kind = OP_ATTRIBUTE_INT, .count = 1};
    const op_shape shape = shape_of(o, 1, left);
    return make(l, OP_REDUCE_SUM, &keep, 2, (ir_value *[]){o->value, integers(l, axes, count)}, &shape);
}

/* The labels, none twice, and those of `first` before the others. */
static dimensions distinct(const dimensions *of, const dimensions *first) {
    dimensions each = among(first, of, true);
    for (int32_t i = 0; i < of->count; i++)
        if (!has(&each, of->labels[i])) add(&each, of->labels[i]);
    return each;
}

/* Diagonals, which have no label twice, with these labels. */
static operand diagonal(const lowering *l, const operand *o, const dimensions *labels) {
    return (operand){has_twice(&o->labels) ? einsum(l, o, 1, labels) : o->value, *labels};
}

/* Leaves out what nobody else has; then it has no label twice. */
static void sum_alone(lowering *l, int32_t at) {
    static const dimensions none = {0};
    operand *o = &l->operands[at];
    const dimensions each = distinct(&o->labels, &none);
    dimensions left = {0};
    for (int32_t i = 0; i < each.count; i++)
        if (has(&l->wanted, each.labels[i]) || others_have(l, at, each.labels[i])) add(&left, each.labels[i]);
    if (l->products) {
        *o = diagonal(l, o, &each);
        o->value = sum(l, o, &left);
    } else if (left.count < o->labels.count) o->value = einsum(l, o, 1, &left);
    o->labels = left;
}

/* ---- two operands -------------------------------------------------------------------------------------- */

/* What the labels of two are for their product. */
typedef struct parts {
    dimensions stack, rows, columns, depth;
} parts;

/* How many rows or columns, which one operand alone has, the result has from label `from` on. */
static int64_t left_of(const operand *own, const operand *other, const dimensions *wanted, int32_t from) {
    int64_t product = 1;
    for (int32_t i = from; i < wanted->count; i++) {
        const int32_t label = wanted->labels[i];
        if (!has(&own->labels, label) || has(&other->labels, label)) continue;
        const int64_t extent = extent_of(own, 1, label);
        product *= extent < 0 || extent > ENOUGH ? ENOUGH : extent;
        if (product > ENOUGH) product = ENOUGH;
    }
    return product;
}

static parts parts_of(const operand *a, const operand *b, const dimensions *wanted) {
    parts p = {0};
    const dimensions both = among(&a->labels, &b->labels, true), batch = among(wanted, &both, true);
    const int32_t last = batch.count ? find(wanted, batch.labels[batch.count - 1], 0) : -1;
    p.depth = among(&both, wanted, false);
    for (int32_t i = 0; i < wanted->count; i++) {
        const int32_t label = wanted->labels[i];
        const bool row = has(&a->labels, label);
        if (has(&both, label) || (i < last && left_of(row ? a : b, row ? b : a, wanted, i + 1) >= ENOUGH))
            add(&p.stack, label);
        else add(row ? &p.rows : &p.columns, label);
    }
    if (last < 0 && p.rows.count > 1 && elements(a, &p.rows) == OP_DIM_UNKNOWN) {
        p.stack = p.rows;
        p.rows = (dimensions){.count = 1, .labels = {p.stack.labels[--p.stack.count]}};
    }
    return p;
}

/* The shape of an operand of MatMul whose labels of a kind are one dimension, or none. */
static op_shape joined_shape(const operand *o, const dimensions *stack, const dimensions *first,
                             const dimensions *second) {
    const dimensions own = among(stack, &o->labels, true);
    op_shape shape = shape_of(o, 1, &own);
    if (first->count) shape.dims[shape.rank++] = elements(o, first);
    if (second->count) shape.dims[shape.rank++] = elements(o, second);
    return shape;
}

/* Where an operand lacks labels of these; what lies before its first one is not counted. Where that is in *leading. */
static places lacking(const dimensions *these, const operand *o, int32_t *leading) {
    places lacks = {0};
    *leading = 0;
    while (*leading < these->count && !has(&o->labels, these->labels[*leading])) ++*leading;
    for (int32_t i = *leading; i < these->count; i++)
        if (!has(&o->labels, these->labels[i])) lacks.axes[lacks.count++] = i - *leading;
    return lacks;
}

/* An operand as MatMul wants it: of each kind one dimension, and 1 where the operand has none of it, but for leading ones. */
static ir_value *factor(const lowering *l, const operand *o, const dimensions *stack, const dimensions *first,
                        const dimensions *second) {
    const op_shape joined = joined_shape(o, stack, first, second);
    dimensions order = among(stack, &o->labels, true);
    int32_t leading;
    places ones = lacking(stack, o, &leading);
    append(&order, first);
    append(&order, second);
    if (!first->count) ones.axes[ones.count++] = stack->count - leading;
    if (!second->count) ones.axes[ones.count++] = stack->count - leading + 1;
    return join(l, transpose(l, o, &order), &joined, &ones);
}

/* The product's shape, its dimensions as one of each kind; and with each by itself. */
static void result_shapes(const operand *two, const parts *p, op_shape *joined, op_shape *apart) {
    dimensions made = p->stack;
    *joined = shape_of(two, 2, &made);
    if (p->rows.count) joined->dims[joined->rank++] = elements(&two[0], &p->rows);
    if (p->columns.count) joined->dims[joined->rank++] = elements(&two[1], &p->columns);
    append(&made, &p->rows);
    append(&made, &p->columns);
    *apart = shape_of(two, 2, &made);
}

static bool is_product(const lowering *l, const operand *two, const parts *p) {
    op_shape joined, apart, wanted;
    dimensions a = among(&p->stack, &two[0].labels, true), b = among(&p->stack, &two[1].labels, true);
    if (!l->products || p->stack.count + 2 > OP_MAX_RANK) return false;
    for (int32_t i = 0; i < p->depth.count; i++) {
        const int64_t extent = extent_of(&two[0], 1, p->depth.labels[i]);
        if (extent == OP_DIM_UNKNOWN || extent != extent_of(&two[1], 1, p->depth.labels[i])) return false;
    }
    result_shapes(two, p, &joined, &apart);
    if (!can_reshape(&joined, &apart)) return false;
    append(&a, &p->rows);
    append(&a, &p->depth);
    append(&b, &p->depth);
    append(&b, &p->columns);
    apart = shape_of(&two[0], 1, &a);
    wanted = joined_shape(&two[0], &p->stack, &p->rows, &p->depth);
    if (!can_reshape(&apart, &wanted)) return false;
    apart = shape_of(&two[1], 1, &b);
    wanted = joined_shape(&two[1], &p->stack, &p->depth, &p->columns);
    return can_reshape(&apart, &wanted);
}

static ir_value *product(const lowering *l, const operand *two, const parts *p, const dimensions *wanted) {
    op_shape joined, apart;
    places ones = {0};
    operand made = {.labels = p->stack};
    append(&made.labels, &p->rows);
    append(&made.labels, &p->columns);
    result_shapes(two, p, &joined, &apart);
    if (!p->rows.count) ones.axes[ones.count++] = p->stack.count;
    if (!p->columns.count) ones.axes[ones.count++] = p->stack.count + 1;
    const op_shape full = with_ones(&joined, &ones);
    ir_value *factors[2];
    factors[0] = factor(l, &two[0], &p->stack, &p->rows, &p->depth);
    factors[1] = factor(l, &two[1], &p->stack, &p->depth, &p->columns);
    made.value = part(l, make(l, OP_MATMUL, NULL, 2, factors, &full), &joined, &apart, &ones);
    return transpose(l, &made, wanted);
}

/* Nothing is summed over. */
static ir_value *multiply(const lowering *l, const operand *two, const dimensions *wanted) {
    const op_shape shape = shape_of(two, 2, wanted);
    ir_value *factors[2];
    for (int32_t o = 0; o < 2; o++) {
        const dimensions order = among(wanted, &two[o].labels, true);
        const op_shape own = shape_of(&two[o], 1, &order);
        int32_t leading;
        const places ones = lacking(wanted, &two[o], &leading);
        factors[o] = join(l, transpose(l, &two[o], &order), &own, &ones);
    }
    return make(l, OP_MUL, NULL, 2, factors, &shape);
}

/* Whether what numbers products is innermost in both operands and the result, and enough: the kernel has no need to transpose, as MatMul has. */
static bool are_side_by_side(const lowering *l, const operand *two, const dimensions *wanted) {
    int64_t product = 1;
    for (int32_t i = 1; l->dtype == OP_FLOAT && product < ENOUGH && i <= wanted->count; i++) {
        const int32_t label = wanted->labels[wanted->count - i];
        for (int32_t o = 0; o < 2; o++) {
            const dimensions *own = &two[o].labels;
            if (i > own->count || own->labels[own->count - i] != label) return false;
        }
        const int64_t extent = extent_of(two, 2, label);
        product *= extent < 0 ? ENOUGH : extent;
    }
    return product >= ENOUGH;
}

static ir_value *contract(const lowering *l, const operand *two, const dimensions *wanted) {
    const parts p = parts_of(&two[0], &two[1], wanted);
    if (!p.depth.count) return multiply(l, two, wanted);
    if (are_side_by_side(l, two, wanted)) return einsum(l, two, 2, wanted);
    return is_product(l, two, &p) ? product(l, two, &p, wanted) : einsum(l, two, 2, wanted);
}

/* ---- all operands -------------------------------------------------------------------------------------- */

/* How much work it is to make one of two. */
static double work_of(const operand *a, const operand *b) {
    dimensions all = among(&b->labels, &a->labels, false);
    const operand two[] = {*a, *b};
    double work = 1;
    append(&all, &a->labels);
    for (int32_t i = 0; i < all.count; i++) {
        const int64_t extent = extent_of(two, 2, all.labels[i]);
        work *= extent < 0 ? SUPPOSED : (double)extent;
    }
    return work;
}

/* Labels of both, then those of the first, then those of the second, as far as they are of use when the two are one. */
static dimensions left_labels(const lowering *l, int32_t first, int32_t second) {
    const dimensions *a = &l->operands[first].labels, *b = &l->operands[second].labels;
    dimensions all = among(a, b, true), left = {0};
    const dimensions rows = among(a, b, false), columns = among(b, a, false);
    append(&all, &rows);
    append(&all, &columns);
    for (int32_t i = 0; i < all.count; i++) {
        bool used = has(&l->wanted, all.labels[i]);
        for (int32_t o = 0; o < l->count; o++)
            used = used || (o != first && o != second && has(&l->operands[o].labels, all.labels[i]));
        if (used) add(&left, all.labels[i]);
    }
    return left;
}

/* Makes one of the two that take the least work. False where memory runs out. */
static bool join_two(lowering *l) {
    int32_t first = 0, second = 1;
    double least = work_of(&l->operands[0], &l->operands[1]);
    for (int32_t i = 0; i < l->count; i++) {
        for (int32_t k = i + 1; k < l->count; k++) {
            const double work = work_of(&l->operands[i], &l->operands[k]);
            if (work >= least) continue;
            least = work;
            first = i;
            second = k;
        }
    }
    const operand two[] = {l->operands[first], l->operands[second]};
    const dimensions left = left_labels(l, first, second);
    l->operands[first] = (operand){contract(l, two, l->count == 2 ? &l->wanted : &left), left};
    for (int32_t i = second; i + 1 < l->count; i++) l->operands[i] = l->operands[i + 1];
    l->count--;
    return l->operands[first].value != NULL;
}

/* The result of an only operand. */
static ir_value *finish_one(const lowering *l, const operand *o) {
    const dimensions each = distinct(&o->labels, &l->wanted), left = among(&o->labels, &l->wanted, true);
    const bool sums = each.count > l->wanted.count;
    if (sums ? !l->products : has_twice(&o->labels)) return einsum(l, o, 1, &l->wanted);
    if (has_twice(&o->labels)) {
        const operand flat = diagonal(l, o, &each);
        return sum(l, &flat, &l->wanted);
    }
    const operand summed = {sum(l, o, &left), left};
    return transpose(l, &summed, &l->wanted);
}

static bool all_there(const lowering *l) {
    for (int32_t o = 0; o < l->count; o++)
        if (!l->operands[o].value) return false;
    return true;
}

static base_status lower(lowering *l) {
    const op_dtype dtype = l->dtype;
    const bool wider = l->count > 2 && (dtype == OP_FLOAT16 || dtype == OP_BFLOAT16), one = l->count == 1;
    for (int32_t o = 0; o < l->count && wider; o++)
        l->operands[o].value = cast(l, l->operands[o].value, OP_FLOAT);
    for (int32_t o = 0; o < l->count && all_there(l); o++) drop_ones(l, o);
    for (int32_t o = 0; o < l->count && all_there(l) && !one; o++) sum_alone(l, o);
    if (!all_there(l)) return base_fail_memory(l->context->report);
    while (l->count > 1)
        if (!join_two(l)) return base_fail_memory(l->context->report);
    ir_value *made = l->operands[0].value;
    if (one) made = finish_one(l, &l->operands[0]);
    if (wider) made = cast(l, made, dtype);
    if (!made) return base_fail_memory(l->context->report);
    if (made != l->node->outputs[0]) ir_value_replace(l->node->outputs[0], made);
    return BASE_OK;
}

/* The operands with their labels. False where there are more of these than a value has dimensions. */
static bool read(lowering *l) {
    const op_einsum *e = &l->equation;
    int32_t used = 0;
    for (int32_t i = 0; i < OP_EINSUM_LABELS; i++) used += e->used[i];
    if (used > OP_MAX_RANK) return false;
    l->dtype = l->node->outputs[0]->type.dtype;
    l->products =
        l->dtype != OP_INT8 && l->dtype != OP_UINT8 && l->dtype != OP_INT16 && l->dtype != OP_UINT16;
    l->count = e->operands;
    for (int32_t o = 0; o < l->count; o++) {
        l->operands[o].value = ir_input(l->node, (uint32_t)o);
        for (int32_t d = 0; d < e->rank[o]; d++) add(&l->operands[o].labels, e->labels[o][d]);
    }
    for (int32_t d = 0; d < e->output_rank; d++) add(&l->wanted, e->output[d]);
    return true;
}

base_status pass_lower_einsum(pass_context *context) {
    base_status status = BASE_OK;
    base_arena arena;
    base_arena_init(&arena, context->scratch->allocator);
    size_t count = context->module->node_count;
    for (size_t n = 1; n < count && status == BASE_OK; n++) {
        ir_node *node = context->module->nodes[n];
        if (!node || node->code != OP_EINSUM || !node->outputs[0]) continue;
        lowering l = {.context = context, .node = node};
        op_call call;
        base_report ignored = {0};
        if (!ir_node_call(node, &arena, &call)) status = base_fail_memory(context->report);
        else if (node->outputs[0]->type.shape.rank >= 0 && op_einsum_read(&call, &l.equation, &ignored) &&
                 read(&l))
            status = lower(&l);
        base_arena_free(&arena);
    }
    return status;
}

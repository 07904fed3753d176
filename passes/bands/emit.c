/* SPDX-License-Identifier: Apache-2.0 */
/* emit.c: see emit.h.
 *
 *     %a = Conv(%x, %w)  %b = Conv(%a, %v)                    windows of three rows, bands of two
 *  => %b0 = ConstantOfShape                                   where the whole result will lie
 *     ...                                                     bands that see padding, as those in the loop
 *     %k1, %b1 = Loop(n, _, %k, %b0) {                        k: the last two rows of %a so far
 *       %x2 = Gather(%x, rows of this iteration)
 *       %a2 = Conv(%x2, %w)                                   two more rows of %a
 *       %a4 = Concat(%k, %a2)
 *       %b2 = Conv(%a4, %v)
 *       %b' = TensorScatter(%b, %b2, rows of this iteration)  in place
 *       %k' = Slice(%a4)
 *       yield %k', %b'
 *     }
 *     ...
 *
 * All nodes are operators like others, with shapes that are known: what moves addresses, plans, verifies and draws loops needs
 * to know nothing of bands.
 */
#include "passes/bands/emit.h"
#include "passes/bands/joined.h"
#include "passes/base/pass.h"
#include "ir/operators/window.h"
#include <string.h>

/* Some rows of a tensor that are there in the present band. */
typedef struct piece {
    ir_value *value;
    band_rows rows;
    bool kept; /* from an earlier band */
    struct piece *next;
} piece;

/* A tensor whose rows are read or made. */
typedef struct banded {
    ir_value *original;
    const band_node *maker; /* NULL: it comes from outside, whole */
    piece *pieces;          /* the latest first */
    bool joined;            /* in the present band, kept and new rows of it are read where they lie */
    ir_value *whole;        /* so far, where somebody outside reads it */
    struct banded *over;    /* of what comes from outside: the result that is written over it */
    size_t last;            /* in the present band: the last node that reads or makes it, from 1; 0: none */
    struct banded *next;
} banded;

/* Within the body of the loop. */
typedef struct body_rows {
    ir_value *iteration;
    ir_value *offset; /* iteration * advance, of the last advance that was asked for */
    int64_t advance;
} body_rows;

typedef struct emitter {
    const band_region *region;
    const rt_environment *environment;
    ir_module *module;
    base_arena *arena;
    base_report *report;
    ir_graph *graph;
    ir_node *before;
    const ir_node *origin; /* whose name and path new nodes get */
    body_rows *body;       /* NULL: outside of the loop */
    banded *all, **last;
    base_status status;
} emitter;

static void fail_memory(emitter *e) {
    if (e->status == BASE_OK) e->status = base_fail_memory(e->report);
}

/* ---- making nodes -------------------------------------------------------------------------------------- */

static ir_node *make_node(emitter *e, op_code code, const char *reason, op_attributes attributes,
                          uint32_t count, ir_value *const *inputs) {
    if (e->status != BASE_OK) return NULL;
    ir_node *node =
        ir_node_new(e->graph, e->before, code, e->origin->name, e->origin->path, attributes, count, inputs);
    if (!node) fail_memory(e);
    else node->reason = reason;
    return node;
}

static ir_value *add_output(emitter *e, ir_node *node, const ir_value *like, const op_type *type) {
    ir_value *value = e->status == BASE_OK ? ir_node_add_output(node, like->name, type) : NULL;
    if (!value) fail_memory(e);
    return value;
}

/* The shape function agrees with the rows that were counted. */
static void check_node(emitter *e, ir_node *node) {
    op_call call;
    if (e->status != BASE_OK) return;
    ir_node_context(node, e->report);
    if (!ir_node_call(node, e->arena, &call)) {
        fail_memory(e);
        return;
    }
    op_type wanted = node->outputs[0]->type;
    e->status = op_infer(&call, e->report);
    if (e->status == BASE_OK && !op_shape_equal(&call.outputs[0].type.shape, &wanted.shape))
        e->status = base_fail(e->report, BASE_INVALID, "a band of %lld rows has another shape",
                              (long long)wanted.shape.dims[BAND_AXIS]);
    base_report_context(e->report, NULL);
}

static ir_value *make(emitter *e, op_code code, const char *reason, op_attributes attributes, uint32_t count,
                      ir_value *const *inputs, const ir_value *like, const op_type *type) {
    ir_node *node = make_node(e, code, reason, attributes, count, inputs);
    ir_value *value = add_output(e, node, like, type);
    check_node(e, node);
    return value;
}

static void set(emitter *e, op_attributes *attributes, const op_attribute *attribute) {
    if (e->status == BASE_OK && !ir_attribute_set(e->module, attributes, attribute)) fail_memory(e);
}

static void set_integer(emitter *e, op_attributes *attributes, const char *name, int64_t value) {
    set(e, attributes,
        &(op_attribute){.name = name, .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = value});
}

static ir_value *integers(emitter *e, int32_t rank, int64_t count, const int64_t *values) {
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = rank, .dims = {count}}};
    if (e->status != BASE_OK) return NULL;
    ir_value *value = ir_constant_copy(e->module, "rows", &type, values, (size_t)count * sizeof *values);
    if (!value) fail_memory(e);
    return value;
}

/* count numbers from first on, each by `step` larger than the one before it. */
static ir_value *integers_from(emitter *e, int64_t first, int64_t count, int64_t step) {
    int64_t *values = BASE_ARRAY(e->arena, int64_t, (size_t)count);
    if (!values) fail_memory(e);
    for (int64_t i = 0; values && i < count; i++) values[i] = first + i * step;
    return values ? integers(e, 1, count, values) : NULL;
}

static op_type some_rows(const ir_value *of, int64_t count) {
    op_type type = of->type;
    type.shape.dims[BAND_AXIS] = count;
    return type;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static int64_t count_of(band_rows rows) {
    return rows.end - rows.first;
}

static void remember(emitter *e, banded *tensor, ir_value *value, band_rows rows) {
    piece *made = e->status == BASE_OK ? BASE_NEW(e->arena, piece) : NULL;
    if (!made) {
        fail_memory(e);
        return;
    }
    *made = (piece){value, rows, false, tensor->pieces};
    tensor->pieces = made;
}

static ir_value *slice(emitter *e, const ir_value *original, ir_value *from, int64_t first, int64_t count) {
    const int64_t axis = BAND_AXIS, end = first + count;
    ir_value *inputs[] = {from, integers(e, 1, 1, &first), integers(e, 1, 1, &end), integers(e, 1, 1, &axis)};
    const op_type type = some_rows(original, count);
    return make(e, OP_SLICE, "rows of a band", (op_attributes){0}, 4, inputs, original, &type);
}

/* iteration * advance, a scalar. */
static ir_value *offset_of(emitter *e, int64_t advance) {
    body_rows *body = e->body;
    const op_type type = {.dtype = OP_INT64};
    if (body->offset && body->advance == advance) return body->offset;
    ir_value *inputs[] = {body->iteration, integers(e, 0, 1, &advance)};
    body->advance = advance;
    body->offset = make(e, OP_MUL, "rows of a band", (op_attributes){0}, 2, inputs, body->iteration, &type);
    return body->offset;
}

/* `base`, numbers of rows of the loop's first band, in this band. */
static ir_value *in_band(emitter *e, ir_value *base, int64_t advance) {
    if (!e->body || e->status != BASE_OK) return base;
    ir_value *inputs[] = {base, offset_of(e, advance)};
    const op_type type = base->type;
    return make(e, OP_ADD, "rows of a band", (op_attributes){0}, 2, inputs, base, &type);
}

/* Rows of what comes from outside, at addresses that follow from the band. */
static ir_value *gather(emitter *e, ir_value *whole, band_rows rows, int64_t advance, op_layout layout) {
    op_attributes attributes = {0};
    set_integer(e, &attributes, "axis", BAND_AXIS);
    ir_value *inputs[] = {whole, in_band(e, integers_from(e, rows.first, count_of(rows), 1), advance)};
    op_type type = some_rows(whole, count_of(rows));
    type.layout = layout;
    return make(e, OP_GATHER, "rows of a band", attributes, 2, inputs, whole, &type);
}

/* Rows of what comes from outside. */
static ir_value *read_outside(emitter *e, banded *tensor, band_rows rows, int64_t advance) {
    ir_value *whole = tensor->over ? tensor->over->whole : tensor->original;
    return e->body ? gather(e, whole, rows, advance, whole->type.layout)
                   : slice(e, whole, whole, rows.first, count_of(rows));
}

static band_rows common(band_rows a, band_rows b) {
    const band_rows both = {a.first > b.first ? a.first : b.first, a.end < b.end ? a.end : b.end};
    return both.first < both.end ? both : (band_rows){0, 0};
}

static ir_value *get_rows(emitter *e, banded *tensor, band_rows rows, int64_t advance);

/* Rows of the tensor lie one after another: some of them are a range of its bytes. */
static bool rows_lie_together(const op_type *type) {
    return type->layout == OP_LAYOUT_NHWC && type->shape.dims[0] == 1;
}

static ir_value *copy(emitter *e, const banded *tensor, ir_value *rows) {
    ir_value *copied = e->status == BASE_OK
                           ? pass_copy(e->graph, e->before, rows, tensor->maker->node, PASS_COPY_ROWS)
                           : NULL;
    if (!copied) fail_memory(e);
    return copied;
}

/* Bytes of their own for what is kept, and for what of that is put into a window: as a range of the window it would keep all of that
 * from band to band. */
static ir_value *copy_range(emitter *e, const banded *tensor, ir_value *rows) {
    return e->status == BASE_OK && rows_lie_together(&rows->type) ? copy(e, tensor, rows) : rows;
}

/* Of those that have row `at`, the piece with the most rows after it; NULL: there is none. */
static const piece *furthest(const banded *tensor, int64_t at) {
    const piece *best = NULL;
    for (const piece *p = tensor->pieces; p; p = p->next)
        if (p->rows.first <= at && at < p->rows.end && (!best || p->rows.end > best->rows.end)) best = p;
    return best;
}

/* Rows of which some were kept and others are new: side by side. */
static ir_value *join(emitter *e, banded *tensor, band_rows rows) {
    ir_value *parts[2] = {NULL};
    uint32_t count = 0;
    for (int64_t at = rows.first; at < rows.end && e->status == BASE_OK && count < 2;) {
        const piece *best = furthest(tensor, at);
        if (!best) break;
        const band_rows part = common((band_rows){at, rows.end}, best->rows);
        const bool kept = best->kept;
        parts[count] = get_rows(e, tensor, part, 0);
        if (kept) parts[count] = copy_range(e, tensor, parts[count]);
        count++;
        at = part.end;
    }
    op_attributes attributes = {0};
    set_integer(e, &attributes, "axis", BAND_AXIS);
    const op_type type = some_rows(tensor->original, count_of(rows));
    return make(e, OP_CONCAT, "rows of a band", attributes, count, parts, tensor->original, &type);
}

/* These rows of a tensor, which are there, in the present band. */
static ir_value *get_rows(emitter *e, banded *tensor, band_rows rows, int64_t advance) {
    const piece *smallest = NULL;
    ir_value *value;
    if (e->status != BASE_OK) return NULL;
    for (const piece *p = tensor->pieces; p; p = p->next) {
        if (p->rows.first == rows.first && p->rows.end == rows.end) return p->value;
        if (p->rows.first <= rows.first && rows.end <= p->rows.end &&
            (!smallest || count_of(p->rows) < count_of(smallest->rows)))
            smallest = p;
    }
    if (!tensor->maker) {
        if (count_of(rows) == tensor->original->type.shape.dims[BAND_AXIS] && !tensor->over)
            return tensor->original;
        value = read_outside(e, tensor, rows, advance);
    } else if (smallest) {
        value =
            slice(e, tensor->original, smallest->value, rows.first - smallest->rows.first, count_of(rows));
    } else {
        value = join(e, tensor, rows);
    }
    remember(e, tensor, value, rows);
    return value;
}

static banded *find(emitter *e, ir_value *value) {
    for (banded *tensor = e->all; tensor; tensor = tensor->next)
        if (tensor->original == value) return tensor;
    banded *made = BASE_NEW(e->arena, banded);
    if (!made) {
        fail_memory(e);
        return NULL;
    }
    *made = (banded){.original = value, .maker = band_region_maker(e->region, value)};
    *e->last = made;
    e->last = &made->next;
    return made;
}

/* ---- a node of a band ---------------------------------------------------------------------------------- */

/* What the weights are packed for stays that of the whole. */
static void keep_packing(emitter *e, const ir_node *node, op_attributes *attributes) {
    const op_shape *image = &ir_input(node, 0)->type.shape;
    if (op_attribute_find(attributes, "ouro.packed_extents")) return;
    set(e, attributes,
        &(op_attribute){.name = "ouro.packed_extents",
                        .kind = OP_ATTRIBUTE_INTS,
                        .count = (size_t)image->rank,
                        .as.integers = image->dims});
}

static void pad_explicitly(emitter *e, op_attributes *attributes) {
    if (op_attribute_find(attributes, "auto_pad"))
        set(e, attributes,
            &(op_attribute){.name = "auto_pad",
                            .kind = OP_ATTRIBUTE_STRING,
                            .count = 1,
                            .as.text = {"NOTSET", strlen("NOTSET")}});
}

/* The window of a band has the padding of this band only. What the weights are packed for, and how sums are ordered, is that
 * of the whole. */
static op_attributes window_attributes(emitter *e, const band_node *node, int64_t above, int64_t below) {
    op_attributes attributes = node->node->attributes;
    op_call call;
    op_window window;
    if (e->status == BASE_OK && !ir_node_call(node->node, e->arena, &call)) fail_memory(e);
    if (e->status != BASE_OK) return attributes;
    const ir_value *weights = band_window_weights(node->node);
    e->status = op_window_read(&call, weights ? weights->type.shape.dims + 2 : NULL, &window, e->report);
    int64_t pads[2 * OP_WINDOW_RANK];
    for (int32_t i = 0; i < window.rank; i++) {
        pads[i] = i ? window.before[i] : above;
        pads[window.rank + i] = i ? window.after[i] : below;
    }
    set(e, &attributes,
        &(op_attribute){.name = "pads",
                        .kind = OP_ATTRIBUTE_INTS,
                        .count = 2 * (size_t)window.rank,
                        .as.integers = pads});
    pad_explicitly(e, &attributes);
    /* Integer convolutions pack nothing: it tells them that memory is short. */
    if (weights) keep_packing(e, node->node, &attributes);
    return attributes;
}

/* What some rows of the input, from `seen` on, make of a transposed convolution, cut off before and after these rows. */
static op_attributes transposed_attributes(emitter *e, const band_node *node, band_rows seen,
                                           band_rows made) {
    op_attributes attributes = node->node->attributes;
    op_call call;
    op_transposed window;
    if (e->status == BASE_OK && !ir_node_call(node->node, e->arena, &call)) fail_memory(e);
    if (e->status == BASE_OK && !op_transposed_read(&call, &window, e->report)) e->status = BASE_INVALID;
    if (e->status != BASE_OK) return attributes;
    int64_t pads[2 * OP_MAX_RANK], more[OP_MAX_RANK];
    for (int32_t i = 0; i < window.rank; i++) {
        const int64_t rows = i ? window.input[i] : seen.end - seen.first,
                      extent = (window.kernel[i] - 1) * window.dilation[i] + 1,
                      output = i ? window.output[i] : made.end - made.first;
        pads[i] = window.before[i] + (i ? 0 : made.first - seen.first * window.stride[i]);
        const int64_t after = (rows - 1) * window.stride[i] + extent - pads[i] - output;
        pads[window.rank + i] = after > 0 ? after : 0;
        more[i] = after < 0 ? -after : 0;
    }
    set(e, &attributes,
        &(op_attribute){.name = "pads",
                        .kind = OP_ATTRIBUTE_INTS,
                        .count = 2 * (size_t)window.rank,
                        .as.integers = pads});
    set(e, &attributes,
        &(op_attribute){.name = "output_padding",
                        .kind = OP_ATTRIBUTE_INTS,
                        .count = (size_t)window.rank,
                        .as.integers = more});
    pad_explicitly(e, &attributes);
    if (op_attribute_find(&attributes, "output_shape") &&
        !ir_attribute_remove(e->module, &attributes, "output_shape"))
        fail_memory(e);
    keep_packing(e, node->node, &attributes);
    return attributes;
}

/* A copy of a constant list of integers, one of which is another number. */
static ir_value *changed_list(emitter *e, const ir_value *list, int64_t entry, int64_t value) {
    const int64_t count = list->type.shape.dims[0];
    int64_t *values = BASE_ARRAY(e->arena, int64_t, (size_t)count);
    if (!values) {
        fail_memory(e);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        values[i] = list->type.dtype == OP_INT32 ? ((const int32_t *)list->constant->tensor.data)[i]
                                                 : ((const int64_t *)list->constant->tensor.data)[i];
    values[entry] = value;
    if (list->type.dtype == OP_INT64) return integers(e, 1, count, values);
    int32_t *narrow = BASE_ARRAY(e->arena, int32_t, (size_t)count);
    for (int64_t i = 0; narrow && i < count; i++)
        narrow[i] = values[i] > INT32_MAX ? INT32_MAX : (int32_t)values[i];
    ir_value *made =
        narrow ? ir_constant_copy(e->module, "rows", &list->type, narrow, (size_t)count * sizeof *narrow)
               : NULL;
    if (!made) fail_memory(e);
    return made;
}

/* A Slice takes every n-th row from the first one of the band on. */
static void rebase_slice(emitter *e, const ir_node *node, ir_value **inputs) {
    const int64_t entry = band_slice_entry(node);
    if (entry < 0 || e->status != BASE_OK) return;
    inputs[1] = changed_list(e, ir_input(node, 1), entry, 0);
    inputs[2] = changed_list(e, ir_input(node, 2), entry, INT32_MAX);
}

/* Of a Gather of rows: where these are in a band that sees the rows from `first` on. In the loop they are those of this iteration. */
static ir_value *rebased_rows(emitter *e, const band_node *own, int64_t first, band_rows made) {
    const int64_t *rows = ir_input(own->node, 1)->constant->tensor.data, count = count_of(made);
    const int64_t bands = e->body ? e->region->loop_end - e->region->loop_first : 1;
    const int64_t by = own->advance / own->window.up;
    int64_t *list = BASE_ARRAY(e->arena, int64_t, (size_t)(bands * count));
    bool same = true;
    if (!list) {
        fail_memory(e);
        return NULL;
    }
    for (int64_t b = 0; b < bands; b++)
        for (int64_t i = 0; i < count; i++) {
            list[b * count + i] = rows[made.first + b * own->advance + i] - (first + b * by);
            same = same && list[b * count + i] == list[i];
        }
    if (same) return integers(e, 1, count, list);
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = 2, .dims = {bands, count}}};
    op_type row = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {count}}};
    ir_value *all = e->status == BASE_OK ? ir_constant_copy(e->module, "rows", &type, list,
                                                            (size_t)(bands * count) * sizeof *list)
                                         : NULL;
    if (!all) {
        fail_memory(e);
        return NULL;
    }
    op_attributes attributes = {0};
    set_integer(e, &attributes, "axis", 0);
    ir_value *inputs[] = {all, e->body->iteration};
    return make(e, OP_GATHER, "rows of a band", attributes, 2, inputs, all, &row);
}

/* Rows of an image from outside whose channels become innermost: one step takes them and changes their layout. False: this is none. */
static bool emit_turned(emitter *e, const band_node *own, band_rows made) {
    ir_node *node = own->node;
    ir_value *output = node->outputs[0], *image = ir_input(node, 0);
    if (node->code != OP_REORDER || output->type.layout != OP_LAYOUT_NHWC ||
        image->type.layout != OP_LAYOUT_ROW_MAJOR || image->type.dtype != OP_FLOAT ||
        image->type.shape.rank != 4 || image->type.shape.dims[0] != 1)
        return false;
    const banded *tensor = find(e, image);
    banded *turned = find(e, output);
    if (!tensor || !turned || tensor->maker || tensor->over) return false;
    e->origin = node;
    remember(e, turned, gather(e, image, made, own->advance, OP_LAYOUT_NHWC), made);
    return true;
}

/* Rows that only go out, in another layout: they are put into the whole as they are, which changes their layout. False: these are
 * others. */
static bool emit_put(emitter *e, const band_node *own, band_rows made) {
    ir_node *node = own->node;
    ir_value *output = node->outputs[0], *image = ir_input(node, 0);
    const op_type *type = &output->type;
    if (node->code != OP_REORDER || !own->sink || type->layout == image->type.layout ||
        type->shape.rank != 4 || type->shape.dims[0] != 1 || type->dtype == OP_STRING ||
        op_dtype_bytes(type->dtype) > 4 || !op_dtype_bytes(type->dtype))
        return false;
    banded *tensor = find(e, image), *put = find(e, output);
    if (!tensor || !put || !put->whole) return false;
    e->origin = node;
    remember(e, put, get_rows(e, tensor, made, own->advance), made);
    return true;
}

/* What RowsConv has of the attributes of the Conv. */
static op_attributes rows_attributes(emitter *e, const band_node *own, band_rows made) {
    static const char *const kept[] = {"dilations",       "kernel_shape", "pads",     "strides",
                                       "ouro.activation", "ouro.alpha",   "ouro.beta"};
    const op_attributes all = window_attributes(e, own, 0, 0);
    op_attributes attributes = {0};
    for (size_t i = 0; i < sizeof kept / sizeof *kept && e->status == BASE_OK; i++) {
        const op_attribute *attribute = op_attribute_find(&all, kept[i]);
        if (attribute) set(e, &attributes, attribute);
    }
    set_integer(e, &attributes, "rows", count_of(made));
    return attributes;
}

/* A convolution of an image from outside, whose rows are read where they lie (channels_last.c). False: this is none. */
static bool emit_in_place(emitter *e, const band_node *own, band_rows made) {
    ir_node *node = own->node;
    ir_value *output = node->outputs[0], *image = ir_input(node, 0);
    if (node->code != OP_CONV || !op_attribute_find(&node->attributes, "ouro.in_place")) return false;
    banded *tensor = find(e, image), *result = find(e, output);
    e->origin = node;
    if (!tensor || !result) return true; /* no memory */
    const int64_t first = band_region_reads(own, 0, made).first;
    ir_value *inputs[] = {tensor->over ? tensor->over->whole : image, ir_input(node, 1),
                          in_band(e, integers_from(e, first, 1, 0), own->advance * own->window.stride),
                          ir_input(node, 2)};
    const op_type type = some_rows(output, count_of(made));
    remember(e, result,
             make(e, OP_ROWS_CONV, "rows of a band", rows_attributes(e, own, made), inputs[3] ? 4 : 3, inputs,
                  output, &type),
             made);
    return true;
}

/* A node whose kernel takes rows from two tensors: those that are kept and those that are new need not be put side by side, nor parts of them be cut
 * out. False: this is none, or all that it reads is there as it is. */
static bool emit_joined(emitter *e, const band_node *own, band_rows made) {
    ir_node *node = own->node;
    const op_code code = band_joined_code(node);
    if (e->status != BASE_OK || !band_reads_joined(node, e->environment, e->arena)) return false;
    banded *tensor = find(e, ir_input(node, 0)), *result = find(e, node->outputs[0]);
    if (!tensor || !result || !band_all_read_joined(e->region, ir_input(node, 0), e->environment, e->arena))
        return false;
    const band_rows seen = band_region_reads(own, 0, made), rows = band_clip(seen, tensor->maker->rows);
    const piece *first = furthest(tensor, rows.first),
                *second = first && first->rows.end < rows.end ? furthest(tensor, first->rows.end) : NULL;
    for (const piece *p = tensor->pieces; p; p = p->next)
        if (p->rows.first == rows.first && p->rows.end == rows.end) return false;
    if (!first || (first->rows.end < rows.end && (!second || second->rows.end < rows.end))) return false;
    e->origin = node;
    const band_rows before = common(rows, first->rows), after = {second ? before.end - second->rows.first : 0,
                                                                 second ? rows.end - second->rows.first : 0};
    const op_attributes all = window_attributes(e, own, rows.first - seen.first, seen.end - rows.end);
    op_attributes attributes = {0};
    for (size_t i = 0; i < all.count; i++)
        if (op_takes_attribute(code, all.items[i].name)) set(e, &attributes, &all.items[i]);
    set(e, &attributes,
        &(op_attribute){.name = "rows",
                        .kind = OP_ATTRIBUTE_INTS,
                        .count = 4,
                        .as.integers = (int64_t[]){before.first - first->rows.first,
                                                   before.end - first->rows.first, after.first, after.end}});
    tensor->joined = tensor->joined || second;
    const bool pool = code == OP_JOINED_MAX_POOL;
    ir_value *last = second ? second->value : NULL;
    ir_value *inputs[] = {first->value, pool ? last : ir_input(node, 1), pool ? NULL : ir_input(node, 2),
                          last};
    const uint32_t count = (last ? op_joined_second(code) : pool ? 0 : inputs[2] ? 2 : 1) + 1;
    const op_type type = some_rows(result->original, count_of(made));
    remember(e, result, make(e, code, "rows of a band", attributes, count, inputs, result->original, &type),
             made);
    return true;
}

static void emit_node(emitter *e, const band_node *own, band_rows made) {
    ir_node *node = own->node;
    if (emit_in_place(e, own, made) || emit_joined(e, own, made) || emit_turned(e, own, made) ||
        emit_put(e, own, made))
        return;
    ir_value **inputs = BASE_ARRAY(e->arena, ir_value *, node->input_count);
    int64_t above = 0, below = 0;
    band_rows first = {0, 0}; /* of input 0 */
    e->origin = node;
    if (!inputs) fail_memory(e);
    for (uint32_t i = 0; i < node->input_count && e->status == BASE_OK; i++) {
        inputs[i] = ir_input(node, i);
        if (band_node_reading(node, i) != BAND_READS_ROWS) continue;
        const band_rows seen = band_region_reads(own, i, made);
        const int64_t rows = inputs[i]->type.shape.dims[BAND_AXIS];
        if (i == 0 && seen.first < 0) above = -seen.first;
        if (i == 0 && seen.end > rows) below = seen.end - rows;
        banded *tensor = find(e, inputs[i]);
        if (i == 0) first = band_clip(seen, rows);
        if (tensor)
            inputs[i] = get_rows(e, tensor, band_clip(seen, rows),
                                 i == 0 ? own->advance * own->window.stride / own->window.up : own->advance);
    }
    if (node->code == OP_SLICE) rebase_slice(e, node, inputs);
    if (node->code == OP_GATHER && own->window.up > 1 && inputs)
        inputs[1] = rebased_rows(e, own, first.first, made);
    op_attributes attributes = band_is_window(node->code)        ? window_attributes(e, own, above, below)
                               : node->code == OP_CONV_TRANSPOSE ? transposed_attributes(e, own, first, made)
                                                                 : node->attributes;
    /* Rows between those of the input and ones that are not there are made, and left out. */
    const band_rows all = node->code == OP_RESIZE
                              ? (band_rows){first.first * own->window.up, first.end * own->window.up}
                              : made;
    if (node->code == OP_RESIZE && inputs && ir_input(node, 3))
        inputs[3] = changed_list(e, ir_input(node, 3), BAND_AXIS, count_of(all));
    ir_node *band = make_node(e, node->code, node->reason, attributes, node->input_count, inputs);
    for (uint32_t o = 0; o < node->output_count && e->status == BASE_OK; o++) {
        ir_value *original = node->outputs[o];
        if (!original) {
            if (!ir_node_add_absent_output(band)) fail_memory(e);
            continue;
        }
        const op_type type = some_rows(original, count_of(all));
        ir_value *value = add_output(e, band, original, &type);
        if (count_of(all) > count_of(made))
            value = slice(e, original, value, made.first - all.first, count_of(made));
        banded *tensor = find(e, original);
        if (tensor) remember(e, tensor, value, made);
    }
    check_node(e, band);
}

/* What the band has made of a tensor that is read outside goes to its rows of the whole. */
static void emit_whole(emitter *e, banded *tensor, band_rows made) {
    const int64_t images = tensor->original->type.shape.dims[0];
    op_attributes attributes = {0};
    set_integer(e, &attributes, "axis", BAND_AXIS);
    ir_value *place = in_band(e, integers_from(e, made.first, images, 0), tensor->maker->advance);
    ir_value *inputs[] = {tensor->whole, get_rows(e, tensor, made, 0), place};
    tensor->whole = make(e, OP_TENSOR_SCATTER, "rows of a band", attributes, 3, inputs, tensor->original,
                         &tensor->original->type);
}

/* Of the tensor only these rows stay, which later bands read: taken from all that were put side by side, so that the old ones
 * are not needed any more. */
static void keep(emitter *e, banded *tensor, band_rows kept) {
    ir_value *value = NULL;
    if (e->status == BASE_OK && tensor->maker && kept.first < kept.end) {
        const piece *largest = NULL;
        for (const piece *p = tensor->pieces; p; p = p->next)
            if (p->rows.first <= kept.first && kept.end <= p->rows.end &&
                (!largest || count_of(p->rows) > count_of(largest->rows)))
                largest = p;
        e->origin = tensor->maker->node;
        if (!largest) value = get_rows(e, tensor, kept, 0);
        else if (count_of(largest->rows) > count_of(kept))
            value = copy_range(
                e, tensor,
                slice(e, tensor->original, largest->value, kept.first - largest->rows.first, count_of(kept)));
        /* All that is new is kept. While it is made, what was kept is there: in turns, they would take two places, from band to band. */
        else value = tensor->joined ? copy(e, tensor, largest->value) : largest->value;
    }
    tensor->pieces = NULL;
    if (value) remember(e, tensor, value, kept);
    if (tensor->pieces) tensor->pieces->kept = true;
    tensor->joined = false;
}

/* What is kept when band b ends. In the loop, as much as at its begin, whoever reads it later. */
static band_rows kept_after(const emitter *e, const banded *tensor, int64_t b) {
    const band_node *maker = tensor->maker;
    if (!maker) return (band_rows){0, 0};
    return (band_rows){e->body ? maker->low[b] + maker->advance : maker->low[b + 1], maker->high[b]};
}

static void note_last(emitter *e, ir_value *value, size_t n) {
    banded *tensor = value ? find(e, value) : NULL;
    if (tensor) tensor->last = n + 1;
}

/* Which node of the band is the last one that has to do with each tensor. */
static void find_last(emitter *e, int64_t b) {
    for (banded *tensor = e->all; tensor; tensor = tensor->next) tensor->last = 0;
    for (size_t n = 0; n < e->region->count && e->status == BASE_OK; n++) {
        const band_node *own = &e->region->nodes[n];
        if (own->made[b].first == own->made[b].end) continue;
        for (uint32_t i = 0; i < own->node->input_count; i++)
            if (band_node_reading(own->node, i) == BAND_READS_ROWS) note_last(e, ir_input(own->node, i), n);
        for (uint32_t o = 0; o < own->node->output_count; o++) note_last(e, own->node->outputs[o], n);
    }
}

/* Each tensor is cut to what is kept as soon as nobody reads more of it. */
static void emit_band(emitter *e, int64_t b) {
    find_last(e, b);
    for (size_t n = 0; n < e->region->count && e->status == BASE_OK; n++) {
        const band_node *own = &e->region->nodes[n];
        if (own->made[b].first == own->made[b].end) continue;
        emit_node(e, own, own->made[b]);
        for (uint32_t o = 0; o < own->node->output_count && e->status == BASE_OK; o++) {
            banded *tensor = own->node->outputs[o] ? find(e, own->node->outputs[o]) : NULL;
            if (tensor && tensor->whole) emit_whole(e, tensor, own->made[b]);
        }
        for (banded *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next)
            if (tensor->last == n + 1) keep(e, tensor, kept_after(e, tensor, b));
    }
    for (banded *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next)
        if (!tensor->last) keep(e, tensor, kept_after(e, tensor, b));
}

static void emit_bands(emitter *e, int64_t first, int64_t end) {
    for (int64_t b = first; b < end && e->status == BASE_OK; b++) emit_band(e, b);
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static ir_value *add_parameter(emitter *e, ir_graph *body, const char *name, const op_type *type) {
    ir_value *value = e->status == BASE_OK ? ir_graph_add_parameter(body, name, type) : NULL;
    if (!value) fail_memory(e);
    return value;
}

static void add_result(emitter *e, ir_graph *body, ir_value *value) {
    if (e->status == BASE_OK && !ir_graph_add_result(body, value)) fail_memory(e);
}

static void emit_body(emitter *e, ir_graph *body) {
    const int64_t b = e->region->loop_first;
    const op_type count = {.dtype = OP_INT64}, truth = {.dtype = OP_BOOL};
    body_rows rows = {.iteration = add_parameter(e, body, "iteration", &count)};
    ir_value *condition = add_parameter(e, body, "condition", &truth);
    for (banded *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next) {
        if (tensor->pieces)
            tensor->pieces->value =
                add_parameter(e, body, tensor->original->name, &tensor->pieces->value->type);
        if (tensor->whole)
            tensor->whole = add_parameter(e, body, tensor->original->name, &tensor->original->type);
    }
    emitter outside = *e;
    e->graph = body;
    e->before = NULL;
    e->body = &rows;
    emit_band(e, b);
    add_result(e, body, condition);
    for (banded *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next) {
        if (tensor->pieces) add_result(e, body, tensor->pieces->value);
        if (tensor->whole) add_result(e, body, tensor->whole);
    }
    e->graph = outside.graph;
    e->before = outside.before;
    e->body = NULL;
}

static void emit_loop(emitter *e) {
    const int64_t first = e->region->loop_first, trips = e->region->loop_end - first;
    size_t count = 2;
    for (banded *tensor = e->all; tensor; tensor = tensor->next) count += 2;
    ir_value **inputs = BASE_ARRAY(e->arena, ir_value *, count);
    if (!inputs) {
        fail_memory(e);
        return;
    }
    uint32_t used = 0;
    inputs[used++] = integers(e, 0, 1, &trips);
    inputs[used++] = NULL;
    for (banded *tensor = e->all; tensor; tensor = tensor->next) {
        if (tensor->pieces) inputs[used++] = tensor->pieces->value;
        if (tensor->whole) inputs[used++] = tensor->whole;
    }
    e->origin = e->region->nodes[e->region->count - 1].node;
    ir_node *loop = make_node(e, OP_LOOP, "bands of rows", (op_attributes){0}, used, inputs);
    ir_graph *body = e->status == BASE_OK ? ir_graph_new(e->module, "band") : NULL;
    if (!body || !ir_node_add_graph(loop, body)) {
        fail_memory(e);
        return;
    }
    emit_body(e, body);
    const int64_t later = trips - 1;
    for (banded *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next) {
        if (tensor->pieces) {
            const int64_t by = later * tensor->maker->advance;
            const op_type type = tensor->pieces->value->type;
            tensor->pieces->value = add_output(e, loop, tensor->original, &type);
            tensor->pieces->rows.first += by;
            tensor->pieces->rows.end += by;
        }
        if (tensor->whole) tensor->whole = add_output(e, loop, tensor->original, &tensor->original->type);
    }
    /* What the last iteration kept, and nobody after it reads. */
    for (banded *tensor = e->all; tensor && e->status == BASE_OK; tensor = tensor->next) {
        const band_rows kept = kept_after(e, tensor, e->region->loop_end - 1);
        if (kept.first >= kept.end) tensor->pieces = NULL;
    }
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static bool is_read_outside(const emitter *e, const ir_value *value) {
    for (const ir_use *use = value->uses; use; use = use->next)
        if (!use->node || use->node->graph != e->graph || !e->region->places[use->node->id.index])
            return true;
    return false;
}

/* Where results that are read outside will lie: in the place of what comes in, or in one of their own. */
static void emit_wholes(emitter *e) {
    const band_region *region = e->region;
    for (size_t n = 0; n < region->count; n++) {
        for (uint32_t o = 0; o < region->nodes[n].node->output_count && e->status == BASE_OK; o++) {
            ir_value *original = region->nodes[n].node->outputs[o];
            banded *tensor = original ? find(e, original) : NULL;
            if (!tensor || !is_read_outside(e, original)) continue;
            e->origin = region->nodes[n].node;
            ir_value *input = band_region_written_over(region, original);
            banded *outside = input ? find(e, input) : NULL;
            if (outside && !outside->over) {
                outside->over = tensor;
                tensor->whole = input;
                continue;
            }
            ir_value *shape = integers(e, 1, original->type.shape.rank, original->type.shape.dims);
            const uint64_t zero = 0;
            const op_tensor value = {
                .type = {.dtype = original->type.dtype, .shape = {.rank = 1, .dims = {1}}},
                .bytes = op_dtype_bytes(original->type.dtype),
                .data = (void *)(uintptr_t)&zero};
            op_attributes attributes = {0};
            if (original->type.dtype != OP_FLOAT)
                set(e, &attributes,
                    &(op_attribute){
                        .name = "value", .kind = OP_ATTRIBUTE_TENSOR, .count = 1, .as.tensor = &value});
            tensor->whole = make(e, OP_CONSTANT_OF_SHAPE, "the place of bands", attributes, 1, &shape,
                                 original, &original->type);
        }
    }
}

static void remove_region(emitter *e) {
    for (banded *tensor = e->all; tensor; tensor = tensor->next)
        if (tensor->whole) ir_value_replace(tensor->original, tensor->whole);
    for (size_t n = e->region->count; n-- > 0;) ir_node_remove(e->region->nodes[n].node);
}

base_status band_emit(const band_region *region, const rt_environment *environment, base_arena *arena,
                      base_report *report) {
    emitter e = {.region = region,
                 .environment = environment,
                 .module = region->graph->module,
                 .arena = arena,
                 .report = report,
                 .graph = region->graph,
                 .before = region->nodes[region->count - 1].node->next};
    e.last = &e.all;
    emit_wholes(&e);
    if (region->loop_first == region->loop_end) {
        emit_bands(&e, 0, region->band_count);
    } else {
        emit_bands(&e, 0, region->loop_first);
        if (e.status == BASE_OK) emit_loop(&e);
        emit_bands(&e, region->loop_end, region->band_count);
    }
    if (e.status == BASE_OK) remove_region(&e);
    return e.status;
}

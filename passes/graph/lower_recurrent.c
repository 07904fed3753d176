/* SPDX-License-Identifier: Apache-2.0 */
/* lower_recurrent.c: RNN, GRU and LSTM become loops over their steps, where no kernel runs them better.
 *
 *     %y, %h = RNN(%x, %w, %r, %b)
 *  => %p = Gemm(%x, %w, %b)                                the inputs' part of all steps, in one product
 *     %h, %y = Loop(steps, %h0, %p) { %q = Gemm(%s, %r, %p[t])  %n = Tanh(%q)  yield %n, %n }
 *
 * The loop is as any other: the state lies in the stack of results, or takes turns between two buffers; what is read and
 * written in each step is a slice, where it lies; a reversed direction scans and stacks backwards. Two directions are two
 * loops. Sequences of their own lengths keep their state after their ends, and are turned around for a reversed direction.
 *
 * Gates, equations and attributes are those of RNN, GRU and LSTM of opset 14. GRU's last step, (1 - z) h' + z h, is
 * computed as h' + z (h - h').
 *
 * Left as they are: what a kernel runs better (weights in panels, small steps, and what has a primitive that wins), 16-bit floats (the
 * kernel computes in float), shapes that are open, and empty ones.
 *
 * Needs: types, folded shapes. Breaks: types (of what it puts in), and that somebody reads every node. Guarantees: a recurrent
 * node that remains is run by a kernel.
 */
#include "passes/graph/graph.h"
#include <string.h>

/* ---- making nodes -------------------------------------------------------------------------------------- */

/* Where nodes are made: before `before`, or at the end of the graph. Once something fails, all that follows is NULL. */
typedef struct builder {
    ir_module *module;
    ir_graph *graph;
    ir_node *before;
    const ir_node *origin; /* whose name and path they get */
    bool failed;
} builder;

static ir_node *make_node(builder *b, op_code code, op_attributes attributes, uint32_t count,
                          ir_value *const *inputs) {
    ir_node *node = b->failed ? NULL
                              : ir_node_new(b->graph, b->before, code, b->origin->name, b->origin->path,
                                            attributes, count, inputs);
    b->failed = !node;
    return node;
}

static ir_value *add_output(builder *b, ir_node *node, const char *name) {
    ir_value *value = b->failed ? NULL : ir_node_add_output(node, name, NULL);
    b->failed = !value;
    return value;
}

static ir_value *make(builder *b, const char *name, op_code code, op_attributes attributes, uint32_t count,
                      ir_value *const *inputs) {
    return add_output(b, make_node(b, code, attributes, count, inputs), name);
}

static void set_integer(builder *b, op_attributes *attributes, const char *name, int64_t value) {
    const op_attribute attribute = {.name = name, .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = value};
    b->failed |= !ir_attribute_set(b->module, attributes, &attribute);
}

static void set_integers(builder *b, op_attributes *attributes, const char *name, size_t count,
                         int64_t *values) {
    const op_attribute attribute = {
        .name = name, .kind = OP_ATTRIBUTE_INTS, .count = count, .as.integers = values};
    b->failed |= !ir_attribute_set(b->module, attributes, &attribute);
}

static void set_real(builder *b, op_attributes *attributes, const char *name, float value) {
    const op_attribute attribute = {.name = name, .kind = OP_ATTRIBUTE_FLOAT, .count = 1, .as.real = value};
    b->failed |= !ir_attribute_set(b->module, attributes, &attribute);
}

static ir_value *unary(builder *b, const char *name, op_code code, ir_value *of) {
    return make(b, name, code, (op_attributes){0}, 1, &of);
}

static ir_value *binary(builder *b, const char *name, op_code code, ir_value *x, ir_value *y) {
    ir_value *inputs[] = {x, y};
    return make(b, name, code, (op_attributes){0}, 2, inputs);
}

static ir_value *constant(builder *b, const op_type *type, const void *data, size_t bytes) {
    ir_value *value = b->failed ? NULL : ir_constant_copy(b->module, "constant", type, data, bytes);
    b->failed = !value;
    return value;
}

static ir_value *integers(builder *b, int32_t count, const int64_t *values) {
    const op_type type = {.dtype = OP_INT64, .shape = {.rank = 1, .dims = {count}}};
    return constant(b, &type, values, (size_t)count * sizeof *values);
}

/* A scalar of the given floating-point type. */
static ir_value *scalar(builder *b, op_dtype dtype, double value) {
    const op_type type = {.dtype = dtype};
    const float single = (float)value;
    return dtype == OP_DOUBLE ? constant(b, &type, &value, sizeof value)
                              : constant(b, &type, &single, sizeof single);
}

static ir_value *reshape(builder *b, const char *name, ir_value *value, int32_t rank, const int64_t *dims) {
    return binary(b, name, OP_RESHAPE, value, integers(b, rank, dims));
}

/* Elements [first, end) of an axis. */
static ir_value *part_of(builder *b, const char *name, ir_value *value, int64_t axis, int64_t first,
                         int64_t end) {
    ir_value *inputs[4] = {value};
    inputs[1] = integers(b, 1, &first);
    inputs[2] = integers(b, 1, &end);
    inputs[3] = integers(b, 1, &axis);
    return make(b, name, OP_SLICE, (op_attributes){0}, 4, inputs);
}

static ir_value *transpose(builder *b, const char *name, ir_value *value, int32_t rank, int64_t *order) {
    op_attributes attributes = {0};
    set_integers(b, &attributes, "perm", (size_t)rank, order);
    return make(b, name, OP_TRANSPOSE, attributes, 1, &value);
}

/* x w^T, and the addend, which may be NULL. */
static ir_value *product(builder *b, const char *name, ir_value *x, ir_value *w, ir_value *addend) {
    ir_value *inputs[] = {x, w, addend};
    op_attributes attributes = {0};
    set_integer(b, &attributes, "transB", 1);
    return make(b, name, OP_GEMM, attributes, addend ? 3 : 2, inputs);
}

static ir_value *concat(builder *b, const char *name, int64_t axis, uint32_t count, ir_value *const *parts) {
    op_attributes attributes = {0};
    set_integer(b, &attributes, "axis", axis);
    return count == 1 ? parts[0] : make(b, name, OP_CONCAT, attributes, count, parts);
}

/* `count` equal parts along axis 1. */
static void split(builder *b, ir_value *value, uint32_t count, int64_t each, const char *const *names,
                  ir_value **parts) {
    int64_t sizes[4] = {each, each, each, each};
    ir_value *inputs[] = {value, integers(b, (int32_t)count, sizes)};
    op_attributes attributes = {0};
    set_integer(b, &attributes, "axis", 1);
    ir_node *node = make_node(b, OP_SPLIT, attributes, 2, inputs);
    for (uint32_t i = 0; i < count; i++) parts[i] = add_output(b, node, names[i]);
}

/* ---- the application ----------------------------------------------------------------------------------- */

enum { MOST_ACTIVATIONS = 6 };

typedef struct activation {
    const char *name;
    op_code code; /* OP_CODE_NONE: Affine and ScaledTanh, which are several */
    bool has_alpha, has_beta;
    float alpha, beta;
} activation;

/* Names and default parameters, from the operators' descriptions. */
static const activation known_activations[] = {
    {"Relu", OP_RELU, false, false, 0, 0},
    {"Tanh", OP_TANH, false, false, 0, 0},
    {"Sigmoid", OP_SIGMOID, false, false, 0, 0},
    {"Affine", OP_CODE_NONE, true, true, 1, 0},
    {"LeakyRelu", OP_LEAKY_RELU, true, false, 0.01f, 0},
    {"ThresholdedRelu", OP_THRESHOLDED_RELU, true, false, 1, 0},
    {"ScaledTanh", OP_CODE_NONE, true, true, 1, 1},
    {"HardSigmoid", OP_HARD_SIGMOID, true, true, 0.2f, 0.5f},
    {"Elu", OP_ELU, true, false, 1, 0},
    {"Softsign", OP_SOFTSIGN, false, false, 0, 0},
    {"Softplus", OP_SOFTPLUS, false, false, 0, 0},
};

typedef struct recurrence {
    const ir_node *node;
    op_code code;
    op_dtype dtype;
    int64_t sequence, batch, input, hidden, directions, gates;
    bool batch_first, reverse, linear_before_reset, input_forget, has_clip;
    float clip;
    activation activations[MOST_ACTIVATIONS]; /* f, g, h of each direction */
    uint32_t each;                            /* activations of a direction */
    ir_value *x, *w, *r, *bias, *lengths, *h, *c, *peepholes;
} recurrence;

static const activation *find_activation(const op_string *name) {
    for (size_t i = 0; i < sizeof known_activations / sizeof *known_activations; i++) {
        if (op_string_is(name, known_activations[i].name)) return &known_activations[i];
    }
    return NULL;
}

/* False where the attributes do not fit: the kernel says what is wrong. */
static bool read_activations(recurrence *k, const op_attributes *attributes) {
    static const int defaults[3] = {2, 1, 1}; /* Sigmoid, Tanh, Tanh */
    const op_attribute *names = op_attribute_find(attributes, "activations");
    size_t alpha_count, beta_count, alpha_next = 0, beta_next = 0;
    const float *alphas = op_attribute_reals(attributes, "activation_alpha", &alpha_count);
    const float *betas = op_attribute_reals(attributes, "activation_beta", &beta_count);
    size_t count = k->each * (size_t)k->directions;
    if (names && (names->kind != OP_ATTRIBUTE_STRINGS || names->count != count)) return false;
    for (size_t i = 0; i < count; i++) {
        const activation *known = &known_activations[k->code == OP_RNN ? 1 : defaults[i % k->each]];
        if (names) known = find_activation(&names->as.texts[i]);
        if (!known) return false;
        activation *to = &k->activations[i];
        *to = *known;
        if (names && to->has_alpha && alpha_next < alpha_count) to->alpha = alphas[alpha_next++];
        if (names && to->has_beta && beta_next < beta_count) to->beta = betas[beta_next++];
    }
    return true;
}

static bool is_known(const ir_value *value) {
    int64_t count;
    return !value ||
           (value->type.kind == OP_KIND_TENSOR && op_shape_elements(&value->type.shape, &count) && count > 0);
}

static bool read(const ir_node *node, recurrence *k) {
    const op_attributes *attributes = &node->attributes;
    *k = (recurrence){.node = node, .code = node->code};
    ir_value **values[] = {&k->x, &k->w, &k->r, &k->bias, &k->lengths, &k->h, &k->c, &k->peepholes};
    for (uint32_t i = 0; i < 8; i++) {
        *values[i] = i < node->input_count ? ir_input(node, i) : NULL;
        if (!is_known(*values[i])) return false;
    }
    if (!k->x || !k->w || !k->r) return false;
    k->dtype = k->x->type.dtype;
    if (k->dtype != OP_FLOAT && k->dtype != OP_DOUBLE) return false;
    if (k->x->type.shape.rank != 3 || k->w->type.shape.rank != 3) return false;
    k->gates = k->code == OP_LSTM ? 4 : k->code == OP_GRU ? 3 : 1;
    k->each = k->code == OP_LSTM ? 3 : k->code == OP_GRU ? 2 : 1;
    k->batch_first = op_attribute_integer(attributes, "layout", 0) == 1;
    k->sequence = k->x->type.shape.dims[k->batch_first];
    k->batch = k->x->type.shape.dims[!k->batch_first];
    k->input = k->x->type.shape.dims[2];
    k->directions = k->w->type.shape.dims[0];
    k->hidden = k->w->type.shape.dims[1] / k->gates;
    k->reverse = op_attribute_is(attributes, "direction", "reverse", "forward");
    k->linear_before_reset = op_attribute_integer(attributes, "linear_before_reset", 0) != 0;
    k->input_forget = op_attribute_integer(attributes, "input_forget", 0) != 0;
    k->has_clip = op_attribute_find(attributes, "clip") != NULL;
    k->clip = op_attribute_real(attributes, "clip", 0);
    return k->sequence > 0 && (k->directions == 1 || k->directions == 2) && read_activations(k, attributes);
}

/* ---- one step ------------------------------------------------------------------------------------------ */

/* One direction: where its matrices are, and what its loop has. */
typedef struct direction {
    const recurrence *k;
    const activation *f;
    ir_value *r, *reset_bias; /* [gates * hidden, hidden]; of GRU, what is added before the reset gate */
    ir_value *peepholes[3];   /* i, o, f: [hidden]; NULL: none */
} direction;

/* Without the clip. */
static ir_value *bend(builder *b, const char *name, const direction *d, const activation *by, ir_value *x) {
    const recurrence *k = d->k;
    op_attributes attributes = {0};
    if (by->code == OP_CODE_NONE && by->name[0] == 'A') {
        x = binary(b, "scaled", OP_MUL, x, scalar(b, k->dtype, by->alpha));
        return binary(b, name, OP_ADD, x, scalar(b, k->dtype, by->beta));
    }
    if (by->code == OP_CODE_NONE) {
        x = unary(b, "curve", OP_TANH, binary(b, "scaled", OP_MUL, x, scalar(b, k->dtype, by->beta)));
        return binary(b, name, OP_MUL, x, scalar(b, k->dtype, by->alpha));
    }
    if (by->has_alpha) set_real(b, &attributes, "alpha", by->alpha);
    if (by->has_beta) set_real(b, &attributes, "beta", by->beta);
    return make(b, name, by->code, attributes, 1, &x);
}

/* What goes into a gate is clipped; the cell, which h is made of, is not. */
static ir_value *activate(builder *b, const char *name, const direction *d, const activation *by,
                          ir_value *x) {
    const recurrence *k = d->k;
    if (k->has_clip) {
        ir_value *inputs[3] = {x};
        inputs[1] = scalar(b, k->dtype, -k->clip);
        inputs[2] = scalar(b, k->dtype, k->clip);
        x = make(b, "clipped", OP_CLIP, (op_attributes){0}, 3, inputs);
    }
    return bend(b, name, d, by, x);
}

static ir_value *step_rnn(builder *b, const direction *d, ir_value *x, ir_value *h) {
    return activate(b, "state", d, &d->f[0], product(b, "sum", h, d->r, x));
}

static ir_value *step_gru(builder *b, const direction *d, ir_value *x, ir_value *h) {
    static const char *const inputs[] = {"update_input", "reset_input", "state_input"},
                             *const sums[] = {"update_product", "reset_product", "state_product"},
                             *const gates[] = {"update", "reset"};
    const recurrence *k = d->k;
    const int64_t n = k->hidden;
    ir_value *part[3], *gate[2], *fresh;
    ir_value *both = part_of(b, "gates_input", x, 1, 0, 2 * n),
             *own = part_of(b, inputs[2], x, 1, 2 * n, 3 * n);
    if (k->linear_before_reset) {
        ir_value *all = product(b, "products", h, d->r, d->reset_bias);
        split(b, all, 3, n, sums, part);
        ir_value *sum = binary(b, "gates_sum", OP_ADD, both, part_of(b, "gates_product", all, 1, 0, 2 * n));
        split(b, activate(b, "gates", d, &d->f[0], sum), 2, n, gates, gate);
        fresh = binary(b, "state_sum", OP_ADD, own, binary(b, "kept", OP_MUL, gate[1], part[2]));
    } else {
        ir_value *sum = product(b, "gates_sum", h, part_of(b, "gates_weights", d->r, 0, 0, 2 * n), both);
        split(b, activate(b, "gates", d, &d->f[0], sum), 2, n, gates, gate);
        ir_value *kept = binary(b, "kept", OP_MUL, gate[1], h);
        fresh = product(b, "state_sum", kept, part_of(b, "state_weights", d->r, 0, 2 * n, 3 * n), own);
    }
    fresh = activate(b, "fresh", d, &d->f[1], fresh);
    ir_value *change = binary(b, "change", OP_MUL, gate[0], binary(b, "difference", OP_SUB, h, fresh));
    return binary(b, "state", OP_ADD, fresh, change);
}

/* A gate that sees the cell through its peephole. */
static ir_value *peep(builder *b, const direction *d, int which, ir_value *sum, ir_value *cell) {
    if (!d->peepholes[which]) return sum;
    return binary(b, "peeped", OP_ADD, sum, binary(b, "peephole", OP_MUL, d->peepholes[which], cell));
}

static ir_value *step_lstm(builder *b, const direction *d, ir_value *x, ir_value *h, ir_value *c,
                           ir_value **cell) {
    static const char *const sums[] = {"input_sum", "output_sum", "forget_sum", "cell_sum"},
                             *const gates[] = {"input_gate", "output_gate", "forget_gate"};
    const recurrence *k = d->k;
    const int64_t n = k->hidden;
    ir_value *sum = product(b, "sums", h, d->r, x), *part[4], *gate[3];
    if (!d->peepholes[0]) { /* three gates at once; of coupled gates one is not used */
        ir_value *three = activate(b, "gates", d, &d->f[0], part_of(b, "gates_sum", sum, 1, 0, 3 * n));
        split(b, three, 3, n, gates, gate);
        part[3] = part_of(b, sums[3], sum, 1, 3 * n, 4 * n);
    } else {
        split(b, sum, 4, n, sums, part);
        gate[0] = activate(b, gates[0], d, &d->f[0], peep(b, d, 0, part[0], c));
        if (!k->input_forget) gate[2] = activate(b, gates[2], d, &d->f[0], peep(b, d, 2, part[2], c));
    }
    if (k->input_forget) gate[2] = binary(b, gates[2], OP_SUB, scalar(b, k->dtype, 1), gate[0]);
    ir_value *fresh = activate(b, "fresh", d, &d->f[1], part[3]);
    ir_value *remembered = binary(b, "remembered", OP_MUL, gate[2], c);
    *cell = binary(b, "cell", OP_ADD, remembered, binary(b, "learned", OP_MUL, gate[0], fresh));
    if (d->peepholes[0]) gate[1] = activate(b, gates[1], d, &d->f[0], peep(b, d, 1, part[1], *cell));
    return binary(b, "state", OP_MUL, gate[1], bend(b, "shown", d, &d->f[2], *cell));
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

/* `now` while the sequence goes on, else `then`. */
static ir_value *choose(builder *b, const char *name, ir_value *goes_on, ir_value *now, ir_value *then) {
    ir_value *inputs[] = {goes_on, now, then};
    return make(b, name, OP_WHERE, (op_attributes){0}, 3, inputs);
}

static ir_value *add_parameter(builder *b, ir_graph *body, const char *name, op_dtype dtype, int64_t rows,
                               int64_t columns) {
    const op_type type = {.dtype = dtype, .shape = {.rank = rows ? 2 : 0, .dims = {rows, columns}}};
    ir_value *value = b->failed ? NULL : ir_graph_add_parameter(body, name, &type);
    b->failed = !value;
    return value;
}

static void add_result(builder *b, ir_graph *body, ir_value *value) {
    b->failed = b->failed || !ir_graph_add_result(body, value);
}

/* What a loop over one direction gives: results[0] the last h, [1] the last c of LSTM, [2] all h. */
static void make_loop(builder *outer, const direction *d, ir_value *projected, ir_value *h0, ir_value *c0,
                      ir_value *lengths, bool backward, bool wants_all, ir_value *results[3]) {
    const recurrence *k = d->k;
    const op_type count_type = {.dtype = OP_INT64};
    const bool lstm = k->code == OP_LSTM;
    ir_value *inputs[5] = {constant(outer, &count_type, &k->sequence, sizeof k->sequence), NULL, h0};
    uint32_t count = 3;
    if (lstm) inputs[count++] = c0;
    inputs[count++] = projected;
    int64_t way[] = {backward};
    op_attributes attributes = {0};
    set_integer(outer, &attributes, "ouro.scan_inputs", 1);
    set_integer(outer, &attributes, "ouro.scan_outputs", wants_all);
    set_integers(outer, &attributes, "ouro.scan_input_directions", 1, way);
    if (wants_all) set_integers(outer, &attributes, "ouro.scan_output_directions", 1, way);
    ir_node *loop = make_node(outer, OP_LOOP, attributes, count, inputs);
    ir_graph *body = outer->failed ? NULL : ir_graph_new(outer->module, "step");
    outer->failed = !body || !ir_node_add_graph(loop, body);
    builder b = {.module = outer->module, .graph = body, .origin = outer->origin, .failed = outer->failed};
    ir_value *iteration = add_parameter(&b, body, "iteration", OP_INT64, 0, 0),
             *condition = add_parameter(&b, body, "condition", OP_BOOL, 0, 0),
             *h = add_parameter(&b, body, "h", k->dtype, k->batch, k->hidden),
             *c = lstm ? add_parameter(&b, body, "c", k->dtype, k->batch, k->hidden) : NULL,
             *x = add_parameter(&b, body, "x", k->dtype, k->batch, k->gates * k->hidden), *cell = NULL,
             *state, *shown;
    if (lstm) state = step_lstm(&b, d, x, h, c, &cell);
    else state = k->code == OP_GRU ? step_gru(&b, d, x, h) : step_rnn(&b, d, x, h);
    shown = state;
    if (lengths) {
        int64_t last = 1;
        ir_value *begun = binary(&b, "begun", OP_LESS, iteration, lengths);
        ir_value *goes_on = binary(&b, "goes_on", OP_UNSQUEEZE, begun, integers(&b, 1, &last));
        shown = choose(&b, "shown", goes_on, state, scalar(&b, k->dtype, 0));
        if (lstm) cell = choose(&b, "cell_kept", goes_on, cell, c);
        state = choose(&b, "state_kept", goes_on, state, h);
    }
    add_result(&b, body, condition);
    add_result(&b, body, state);
    if (lstm) add_result(&b, body, cell);
    if (wants_all) add_result(&b, body, shown);
    outer->failed = b.failed;
    results[0] = add_output(outer, loop, "last");
    results[1] = lstm ? add_output(outer, loop, "last_cell") : NULL;
    results[2] = wants_all ? add_output(outer, loop, "all") : NULL;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

/* Direction `index` of states [directions, batch, hidden], or with the batch first; zeros where there are none. */
static ir_value *state_of(builder *b, const recurrence *k, ir_value *states, int64_t index) {
    const int64_t dims[] = {k->batch, k->hidden};
    if (states) {
        if (k->directions > 1) states = part_of(b, "state0", states, k->batch_first, index, index + 1);
        return reshape(b, "state0", states, 2, dims);
    }
    const op_type type = {.dtype = k->dtype, .shape = {.rank = 2, .dims = {k->batch, k->hidden}}};
    size_t bytes;
    void *data = NULL;
    if (b->failed || !op_type_bytes(&type, &bytes)) return NULL;
    ir_value *zeros = ir_constant_reserve(b->module, "zeros", &type, bytes, &data);
    b->failed = !zeros;
    if (zeros) memset(data, 0, bytes);
    return zeros;
}

/* Direction `index` of a matrix [directions, rows, columns]. */
static ir_value *matrix_of(builder *b, const recurrence *k, const char *name, ir_value *from, int64_t index,
                           int64_t rows, int64_t columns) {
    const int64_t dims[] = {rows, columns};
    if (k->directions > 1) from = part_of(b, name, from, 0, index, index + 1);
    return reshape(b, name, from, columns ? 2 : 1, dims);
}

/* The bias of the inputs' part, which has that of the states' part in it where nothing comes between; and what is left. */
static ir_value *add_biases(builder *b, const recurrence *k, int64_t index, ir_value **left) {
    const int64_t n = k->hidden, wide = k->gates * n;
    *left = NULL;
    if (!k->bias) return NULL;
    ir_value *both = matrix_of(b, k, "bias", k->bias, index, 2 * wide, 0),
             *of_input = part_of(b, "input_bias", both, 0, 0, wide),
             *of_state = part_of(b, "state_bias", both, 0, wide, 2 * wide);
    if (k->code != OP_GRU || !k->linear_before_reset) return binary(b, "bias", OP_ADD, of_input, of_state);
    *left = of_state;
    return of_input;
}

/* One direction: the last h, the last c, and all h as [sequence, 1, batch, hidden]. */
static void make_direction(builder *b, const recurrence *k, ir_value *x, ir_value *lengths, int64_t index,
                           bool wants_all, ir_value *results[3]) {
    const int64_t n = k->hidden, wide = k->gates * n;
    const bool backward = k->reverse || index == 1;
    direction d = {.k = k, .f = &k->activations[(size_t)index * k->each]};
    ir_value *bias = add_biases(b, k, index, &d.reset_bias);
    d.r = matrix_of(b, k, "recurrence", k->r, index, wide, n);
    ir_value *peepholes = k->peepholes ? matrix_of(b, k, "peepholes", k->peepholes, index, 3 * n, 0) : NULL;
    for (int64_t i = 0; peepholes && i < 3; i++)
        d.peepholes[i] = part_of(b, "peephole", peepholes, 0, i * n, i * n + n);
    const int64_t rows[] = {k->sequence * k->batch, k->input}, steps[] = {k->sequence, k->batch, wide},
                  stacked[] = {k->sequence, 1, k->batch, n};
    ir_value *reversed[] = {x, lengths};
    op_attributes around = {0};
    if (lengths && backward) {
        set_integer(b, &around, "time_axis", 0);
        set_integer(b, &around, "batch_axis", 1);
        x = make(b, "reversed", OP_REVERSE_SEQUENCE, around, 2, reversed);
    }
    ir_value *w = matrix_of(b, k, "weights", k->w, index, wide, k->input);
    ir_value *projected = reshape(
        b, "projected", product(b, "projection", reshape(b, "inputs", x, 2, rows), w, bias), 3, steps);
    ir_value *h = state_of(b, k, k->h, index), *c = k->code == OP_LSTM ? state_of(b, k, k->c, index) : NULL;
    make_loop(b, &d, projected, h, c, lengths, backward && !lengths, wants_all, results);
    if (!wants_all) return;
    if (lengths && backward) {
        reversed[0] = results[2];
        results[2] = make(b, "turned", OP_REVERSE_SEQUENCE, around, 2, reversed);
    }
    results[2] = reshape(b, "all", results[2], 4, stacked);
}

static bool is_wanted(const ir_node *node, uint32_t output) {
    return output < node->output_count && node->outputs[output] && node->outputs[output]->uses;
}

static bool lower(pass_context *context, ir_node *node, const recurrence *k) {
    builder b = {.module = context->module, .graph = node->graph, .before = node, .origin = node};
    ir_value *x = k->x, *lengths = NULL, *results[2][3], *outputs[3] = {NULL};
    int64_t swap[] = {1, 0, 2}, batch_first[] = {2, 0, 1, 3};
    if (k->batch_first) x = transpose(&b, "inputs", x, 3, swap);
    if (k->lengths) {
        op_attributes to = {0};
        set_integer(&b, &to, "to", OP_INT64);
        lengths = make(&b, "lengths", OP_CAST, to, 1, (ir_value *[]){k->lengths});
    }
    const bool wants_all = is_wanted(node, 0);
    for (int64_t i = 0; i < k->directions; i++) make_direction(&b, k, x, lengths, i, wants_all, results[i]);
    const int64_t own[] = {k->batch_first ? k->batch : 1, k->batch_first ? 1 : k->batch, k->hidden};
    for (uint32_t o = 0; o < node->output_count && o < 3; o++) {
        ir_value *parts[2];
        if (!is_wanted(node, o)) continue;
        for (int64_t i = 0; i < k->directions; i++)
            parts[i] = o ? reshape(&b, "last", results[i][o - 1], 3, own) : results[i][2];
        outputs[o] = concat(&b, "both", o ? k->batch_first : 1, (uint32_t)k->directions, parts);
        if (o == 0 && k->batch_first) outputs[o] = transpose(&b, "all", outputs[o], 4, batch_first);
    }
    for (uint32_t o = 0; o < node->output_count && o < 3 && !b.failed; o++)
        if (outputs[o]) ir_value_replace(node->outputs[o], outputs[o]);
    return !b.failed;
}

static bool is_primitive(const pass_context *context, const op_call *call) {
    const rt_kernel *kernel = rt_kernel_select(call, &context->options->environment);
    return kernel && kernel->backend != RT_BACKEND_PORTABLE;
}

/* The product of a step has a primitive, which packs weights once and for all. */
static bool packs_products(const pass_context *context, const recurrence *k) {
    const op_attribute transposed = {.name = "transB", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1};
    op_tensor inputs[] = {
        {.type = {.dtype = k->dtype, .shape = {.rank = 2, .dims = {k->batch, k->hidden}}}},
        {.type = {.dtype = k->dtype, .shape = {.rank = 2, .dims = {k->gates * k->hidden, k->hidden}}},
         .data = k->r->constant ? k->r->constant->tensor.data : NULL}};
    op_tensor output = {
        .type = {.dtype = k->dtype, .shape = {.rank = 2, .dims = {k->batch, k->gates * k->hidden}}}};
    const op_call call = {.code = OP_GEMM,
                          .attributes = {1, &transposed},
                          .input_count = 2,
                          .output_count = 1,
                          .inputs = inputs,
                          .outputs = &output};
    return is_primitive(context, &call);
}

/* A kernel wins over a loop: with weights in panels, but for a single sequence that threads could share the products of; in small
 * steps, where what stands around the product costs more than it; with a primitive, but for RNN of several sequences; and
 * for several sequences where products would be packed anew in each step. docs/OPERATORS.md has the figures. */
static bool has_better(const pass_context *context, const ir_node *node, const recurrence *k,
                       base_arena *arena, bool *better) {
    enum { SMALL_STEP = 16384, SMALL_SINGLE = 1 << 18 }; /* multiplications; of a single sequence */
    const rt_environment *environment = &context->options->environment;
    op_call call;
    *better = context->options->recurrent == PASS_RECURRENT_KERNELS;
    if (context->options->recurrent != PASS_RECURRENT_BEST) return true;
    if (!ir_node_call(node, arena, &call)) return false;
    const double step = (double)k->batch * (double)k->gates * (double)k->hidden * (double)k->hidden;
    rt_preference wish = {0}; /* select-layouts will take the kernel that has one */
    const rt_kernel *kernel = rt_kernel_wishing(&call, environment, &wish);
    const bool alone = k->batch * k->directions == 1 && environment->threads > 1 && step >= SMALL_SINGLE;
    *better = step < (k->batch > 1 ? SMALL_STEP : SMALL_SINGLE) ||
              (kernel && kernel->backend == RT_BACKEND_PORTABLE && !alone) ||
              (kernel && kernel->backend != RT_BACKEND_PORTABLE && (k->code != OP_RNN || k->batch == 1)) ||
              (k->batch > 1 && !packs_products(context, k));
    return true;
}

base_status pass_lower_recurrent(pass_context *context) {
    bool fine = true;
    base_arena arena;
    base_arena_init(&arena, context->scratch->allocator);
    size_t count = context->module->node_count;
    for (size_t n = 1; n < count && fine; n++) {
        ir_node *node = context->module->nodes[n];
        recurrence k;
        bool better = false;
        if (!node || (node->code != OP_RNN && node->code != OP_GRU && node->code != OP_LSTM) ||
            !read(node, &k))
            continue;
        fine = has_better(context, node, &k, &arena, &better) && (better || lower(context, node, &k));
        base_arena_free(&arena);
    }
    return fine ? BASE_OK : base_fail_memory(context->report);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* packed_recurrent.c: LSTM and GRU in float or in 16 bits with constant weights, which are packed into panels when the plan is made: the activations
 * of their definition, all directions, initial states, lengths of sequences; no clip, no coupled gates, no peepholes, layout 0.
 *
 *     W: panels[group][gate]       for a group of RT_PANEL units: what is multiplied by inputs,
 *     R: panels[group][gate]       and by the state; of a GRU that resets the state before it is multiplied: z and r of all groups, then h
 *     B: [group][4][RT_PANEL]      both halves added; LSTM i o f c; GRU z r, h of the input, h of the state
 *
 * The inputs' part is made of some steps at a time, as many as are whole tiles and stay in a cache; a step goes through R from the front to the
 * back, or from the back, in turns, so that it finds in the cache what was read last. A group's gates are finished while the next group's
 * weights are on their way, of one sequence piece by piece (recurrent_row.c); of few sequences, which wait for weights, all products come before
 * all gates. The state is written where it is wanted, and read from there. One step of one sequence reads each weight once, in one stream, which
 * is all that it takes. Final states may be written over the first ones: h is made in the results or in scratch and handed out when all steps are
 * done, c is replaced unit by unit, and what one part of directions and sequences writes no other reads.
 *
 * With lengths, a step is made for the sequences up to the last one that it is part of, and so are the inputs' parts; those before it
 * that have ended (backward: not begun) get back the state that they had, and zeros as their result.
 *
 * Threads share out directions and sequences of the batch, which never wait for each other. Threads that are left share out the units of
 * these, and wait for each other at the end of each step, which is worth that where there are many units. The weights may be stored in 16 bits
 * (passes/layout/halve_weights.c, "ouro.weights_type"). Of a model in 16 bits, the weights are what they are; inputs become floats some
 * steps at a time, states are floats from the first step to the last, and what comes out is rounded once.
 */
#include "ir/operators/recurrent_inputs.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/recurrent_row.h"
#include "runtime/kernels/portable/weight_panels.h"
#include <string.h>

enum {
    CHUNK_ROWS = 96,       /* of inputs that are multiplied together: whole tiles */
    SHARE_ROWS = 4,        /* sequences that are worth a thread of their own */
    FEW_ROWS = 3,          /* sequences that wait for weights, and not for products */
    TOGETHER = 8,          /* panels that these go through side by side */
    PAGE = 4096,           /* bytes: rows that are a multiple of so many apart meet in the nearest cache */
    FEW_BYTES = 1 << 14,   /* of panels of one direction, of which half may be empty */
    THREAD_WORK = 1 << 18, /* of all steps, for each of several threads */
    STEP_WORK = 1 << 14    /* of one step, for each of several threads that wait for each other after it */
};

typedef struct packed_recurrent {
    bool lstm, reset_first, reverse;
    bool bias, lengths, y, y_h, y_c; /* which there are */
    op_dtype dtype;                  /* of the tensors */
    op_dtype stored;                 /* of the weights */
    bool open;                       /* only a run knows these two: */
    int64_t sequence, batch, input, hidden, directions, gates;
    int64_t groups, wide; /* of RT_PANEL units; elements of a row of all gates, groups filled up */
    int64_t shares, most; /* parts of the batch, and the sequences of one of them at most */
    int64_t steps;        /* whose inputs are multiplied together */
    size_t w_bytes, r_bytes, state_bytes,
        scratch_each; /* of one direction; of the states, and all scratch, of a share */
} packed_recurrent;

/* ---- reading ------------------------------------------------------------------------------------------- */

/* Absent, or those of the definition. */
static bool activations_are_usual(const op_call *call, int64_t directions) {
    static const char *const names[] = {"Sigmoid", "Tanh", "Tanh"};
    const op_attribute *given = op_attribute_find(&call->attributes, "activations");
    const size_t each = call->code == OP_LSTM ? 3 : 2;
    if (!given) return true;
    if (given->kind != OP_ATTRIBUTE_STRINGS || given->count != each * (size_t)directions) return false;
    for (size_t i = 0; i < given->count; i++)
        if (!op_string_is(&given->as.texts[i], names[i % each])) return false;
    return true;
}

/* All tensors are of one type, and the sizes of weights are known. Only a run may know how many steps and sequences there are. */
static bool tensors_fit(const op_call *call) {
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const op_type *type =
            i < call->input_count ? &call->inputs[i].type : &call->outputs[i - call->input_count].type;
        int64_t count;
        if (type->dtype == OP_NONE || i == OP_RECURRENT_LENGTHS) continue;
        if (type->kind != OP_KIND_TENSOR || type->dtype != call->inputs[OP_RECURRENT_X].type.dtype)
            return false;
        const bool weights = i == OP_RECURRENT_W || i == OP_RECURRENT_R || i == OP_RECURRENT_BIAS;
        if (weights && i < call->input_count && (!op_shape_elements(&type->shape, &count) || count == 0))
            return false;
    }
    const op_shape *x = &call->inputs[OP_RECURRENT_X].type.shape;
    return x->rank < 0 || (x->rank == 3 &&
                           (x->dims[2] < 0 || x->dims[2] == call->inputs[OP_RECURRENT_W].type.shape.dims[2]));
}

static bool is_wanted(const op_call *call, uint32_t output) {
    return output < call->output_count && call->outputs[output].type.dtype != OP_NONE;
}

/* Sequences of a share whose sums of all gates are made before any is finished. */
static int64_t few_rows(const packed_recurrent *k) {
    return k->most < FEW_ROWS ? k->most : FEW_ROWS;
}

static bool find_sizes(packed_recurrent *k) {
    size_t rows, projected, states, sums, widened;
    if (!rt_panels_bytes(k->stored, k->input, k->groups * k->gates, &k->w_bytes) ||
        !rt_panels_bytes(k->stored, k->hidden, k->groups * k->gates, &k->r_bytes))
        return false;
    k->most = (k->batch + k->shares - 1) / k->shares;
    if (k->most < 1) k->most = 1;
    k->steps = k->most < CHUNK_ROWS ? CHUNK_ROWS / k->most : 1;
    if (k->steps > k->sequence) k->steps = k->sequence > 0 ? k->sequence : 1;
    /* Two states h that take turns, the one after a reset, c; two of these where some get it back. */
    const size_t count = k->lstm ? (k->lengths ? 4 : 3) : k->reset_first ? 3 : 2;
    return base_size_multiply((size_t)k->steps, (size_t)k->most, &rows) &&
           base_size_multiply(rows, (size_t)k->wide * sizeof(float), &projected) &&
           base_size_multiply((size_t)k->most, (size_t)k->hidden * sizeof(float), &states) &&
           base_size_align(states, RT_ALIGNMENT, &k->state_bytes) &&
           base_size_multiply(k->state_bytes, count, &states) &&
           base_size_add(states, projected, &k->scratch_each) &&
           base_size_multiply((size_t)few_rows(k) * sizeof(float), (size_t)k->wide, &sums) &&
           base_size_add(k->scratch_each, sums, &k->scratch_each) &&
           base_size_multiply(k->dtype == OP_FLOAT ? 0 : rows, (size_t)k->input * sizeof(float), &widened) &&
           base_size_add(k->scratch_each, widened, &k->scratch_each);
}

/* Reads the application; false where it is none of ours. */
static bool read_recurrent(const op_call *call, const rt_environment *environment, packed_recurrent *k) {
    const op_attributes *attributes = &call->attributes;
    if ((call->code != OP_LSTM && call->code != OP_GRU) || call->input_count < 3) return false;
    for (uint32_t i = 0; i < call->input_count; i++)
        if (op_input_present(call, i) && i >= OP_RECURRENT_PEEPHOLES) return false;
    if (op_attribute_integer(attributes, "layout", 0) != 0 || op_attribute_find(attributes, "clip") ||
        op_attribute_integer(attributes, "input_forget", 0) != 0 || !tensors_fit(call))
        return false;
    const op_dtype dtype = call->inputs[OP_RECURRENT_X].type.dtype;
    const int64_t stored = op_attribute_integer(attributes, "ouro.weights_type", dtype);
    const op_shape *x = &call->inputs[OP_RECURRENT_X].type.shape,
                   *w = &call->inputs[OP_RECURRENT_W].type.shape;
    if (!(dtype == OP_FLOAT || (rt_is_half(dtype) && stored == dtype)) || !rt_panels_may_store(stored))
        return false;
    const bool lstm = call->code == OP_LSTM;
    *k = (packed_recurrent){.lstm = lstm,
                            .reset_first =
                                !lstm && !op_attribute_integer(attributes, "linear_before_reset", 0),
                            .reverse = op_attribute_is(attributes, "direction", "reverse", "forward"),
                            .bias = op_input_present(call, OP_RECURRENT_BIAS),
                            .lengths = op_input_present(call, OP_RECURRENT_LENGTHS),
                            .y = is_wanted(call, 0),
                            .y_h = is_wanted(call, 1),
                            .y_c = is_wanted(call, 2),
                            .dtype = dtype,
                            .stored = (op_dtype)stored,
                            .open = x->rank < 0 || x->dims[0] < 0 || x->dims[1] < 0,
                            .sequence = x->rank < 0 || x->dims[0] < 0 ? 1 : x->dims[0],
                            .batch = x->rank < 0 || x->dims[1] < 0 ? 1 : x->dims[1],
                            .input = w->dims[2],
                            .directions = w->dims[0],
                            .gates = lstm ? 4 : 3};
    k->hidden = w->dims[1] / k->gates;
    k->groups = (k->hidden + RT_PANEL - 1) / RT_PANEL;
    k->wide = k->groups * k->gates * RT_PANEL;
    k->shares = 1;
    if (environment->threads > k->directions && k->batch >= 2 * SHARE_ROWS) {
        k->shares = environment->threads / k->directions;
        if (k->shares > k->batch / SHARE_ROWS) k->shares = k->batch / SHARE_ROWS;
    }
    return activations_are_usual(call, k->directions) && find_sizes(k);
}

static double work_of(const packed_recurrent *k) {
    return (double)k->directions * (double)k->sequence * (double)k->batch * (double)k->wide *
           (double)(k->input + k->hidden);
}

static size_t bias_bytes(const packed_recurrent *k) {
    return (size_t)k->groups * RT_CELL_GATES * RT_PANEL *
           sizeof(float); /* of one direction; less than those of R */
}

/* Of a weight of the application in panels; 0 for other inputs. */
static size_t packed_bytes(const packed_recurrent *k, uint32_t input) {
    const size_t each = input == OP_RECURRENT_W      ? k->w_bytes
                        : input == OP_RECURRENT_R    ? k->r_bytes
                        : input == OP_RECURRENT_BIAS ? bias_bytes(k)
                                                     : 0;
    size_t bytes;
    return base_size_multiply(each, (size_t)k->directions, &bytes) ? bytes : 0;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    packed_recurrent k;
    if (!read_recurrent(call, environment, &k)) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_type *type = &call->inputs[i].type;
        if (!op_input_present(call, i)) continue;
        const size_t bytes = packed_bytes(&k, i);
        if (type->layout != (bytes ? OP_LAYOUT_PACKED : OP_LAYOUT_ROW_MAJOR)) return false;
        if (bytes && type->packed_bytes != bytes) return false;
    }
    return true;
}

/* Machines on which it was measured: with AVX-512. */
static bool is_fast_here(void) {
#if RT_X86_KERNELS
    return __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

/* Not every machine reads others from panels of 16 bits. */
static bool are_finite(const op_tensor *halves) {
    const uint16_t *bits = halves->data, most = halves->type.dtype == OP_FLOAT16 ? 0x7c00 : 0x7f80;
    for (size_t i = 0; i < halves->bytes / sizeof *bits; i++)
        if ((bits[i] & most) == most) return false;
    return true;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    packed_recurrent k;
    if (!read_recurrent(call, environment, &k)) return false;
    /* No other kernel takes weights in 16 bits of numbers in float. */
    if ((k.stored == OP_FLOAT || k.dtype != OP_FLOAT) && (environment->portable_only || !is_fast_here()))
        return false;
    if (2 * k.hidden <= k.groups * RT_PANEL && k.w_bytes + k.r_bytes > FEW_BYTES) return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    for (uint32_t i = 0; i < call->input_count; i++) {
        const op_tensor *input = &call->inputs[i];
        const size_t bytes = packed_bytes(&k, i);
        if (!op_input_present(call, i) || !bytes) continue;
        if (!input->data || input->type.layout != OP_LAYOUT_ROW_MAJOR) return false;
        if (k.dtype != OP_FLOAT && !are_finite(input)) return false;
        preference->inputs[i] = OP_LAYOUT_PACKED;
        preference->packed_bytes[i] = bytes;
    }
    return true;
}

/* ---- packing ------------------------------------------------------------------------------------------- */

/* Gate `gate` of a group, of a matrix [gates * hidden][depth]. */
static void pack_gate(const packed_recurrent *k, const void *matrix, int64_t depth, int64_t gate,
                      int64_t group, char *to) {
    const int64_t unit = group * RT_PANEL, rest = k->hidden - unit, count = rest < RT_PANEL ? rest : RT_PANEL,
                  first = (gate * k->hidden + unit) * depth;
    if (k->dtype == OP_FLOAT)
        rt_panel_store(k->stored, (const float *)matrix + first, depth, count, depth, to);
    else rt_panel_copy((const uint16_t *)matrix + first, depth, count, depth, to);
}

static void pack_matrix(const packed_recurrent *k, bool state, const void *matrix, char *to) {
    const int64_t depth = state ? k->hidden : k->input, apart = state && k->reset_first,
                  together = k->gates - apart;
    const size_t each = (state ? k->r_bytes : k->w_bytes) / (size_t)(k->groups * k->gates);
    for (int64_t group = 0; group < k->groups; group++)
        for (int64_t gate = 0; gate < together; gate++, to += each)
            pack_gate(k, matrix, depth, gate, group, to);
    for (int64_t group = 0; apart && group < k->groups; group++, to += each)
        pack_gate(k, matrix, depth, together, group, to);
}

static void pack_bias(const packed_recurrent *k, const void *bias, float *to) {
    const int64_t n = k->hidden, all = k->gates * n;
    for (int64_t unit = 0; unit < n; unit++) {
        float *own = to + unit / RT_PANEL * RT_CELL_GATES * RT_PANEL + unit % RT_PANEL;
        for (int64_t gate = 0; gate < k->gates; gate++) {
            const float of_input = (float)rt_element_load(k->dtype, bias, gate * n + unit),
                        of_state = (float)rt_element_load(k->dtype, bias, all + gate * n + unit);
            const bool apart = !k->lstm && gate == 2;
            own[gate * RT_PANEL] = of_input + (apart ? 0 : of_state);
            if (apart) own[(gate + 1) * RT_PANEL] = of_state;
        }
    }
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    packed_recurrent k;
    if (!read_recurrent(call, environment, &k) || !packed_bytes(&k, input))
        return base_fail(report, BASE_INVALID, "input %u of this recurrence is not packed", input);
    const int64_t all = k.gates * k.hidden,
                  elements = input == OP_RECURRENT_BIAS
                                 ? 2 * all
                                 : all * (input == OP_RECURRENT_W ? k.input : k.hidden);
    const size_t each = packed_bytes(&k, input) / (size_t)k.directions;
    for (int64_t d = 0; d < k.directions; d++) {
        const char *from = (const char *)source->data + (size_t)(d * elements) * op_dtype_bytes(k.dtype);
        char *to = (char *)packed + (size_t)d * each;
        if (input == OP_RECURRENT_BIAS) pack_bias(&k, from, (float *)(void *)to);
        else pack_matrix(&k, input == OP_RECURRENT_R, from, to);
    }
    return BASE_OK;
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* Some sequences of one direction, and those groups of their units that one thread computes. */
typedef struct share {
    const packed_recurrent *k;
    int64_t group, group_end;
    bool waits;          /* after each step, for the threads that compute other units */
    int64_t first, rows; /* of the batch */
    bool backward;
    const void *x;
    const int32_t *lengths; /* of these sequences; NULL: all are whole */
    const float *bias;
    const char *w, *r;
    float *projected, *spare;
    float *widened;     /* inputs of 16 bits as floats */
    float *sums;        /* of a step of few sequences */
    const float *h, *c; /* the states as they are */
    float *h_next, *c_next;
} share;

static const float no_bias[RT_CELL_GATES * RT_PANEL] = {0};

/* How many of the sequences step t is made for: those up to the last one that it is part of. */
static int64_t rows_of(const share *s, int64_t t) {
    int64_t rows = s->rows;
    while (s->lengths && rows > 0 && t >= s->lengths[rows - 1]) rows--;
    return rows;
}

/* Whether no sequence ends before step `end`. */
static bool rows_whole(const share *s, int64_t end) {
    for (int64_t row = 0; s->lengths && row < s->rows; row++)
        if (s->lengths[row] < end) return false;
    return true;
}

/* The inputs' part of all gates of `rows` rows of the inputs, each `step` after the one before, the first of which is `row`. */
static void project_rows(const share *s, int64_t row, int64_t step, int64_t rows, float *to, int64_t to_row) {
    const packed_recurrent *k = s->k;
    const int64_t panels = (s->group_end - s->group) * k->gates;
    const char *w = s->w + (size_t)(s->group * k->gates) * (k->w_bytes / (size_t)(k->groups * k->gates));
    int64_t distance = step * k->input;
    to += s->group * k->gates * RT_PANEL;
    const float *x = (const float *)s->x + row * k->input;
    if (k->dtype != OP_FLOAT) {
        const uint16_t *from = (const uint16_t *)s->x + row * k->input;
        const int64_t together = step == 1 ? rows : 1;
        for (int64_t i = 0; i < rows; i += together)
            rt_half_load(k->dtype, s->widened + i * k->input, from + i * distance, together * k->input);
        x = s->widened;
        distance = k->input;
    }
    if (k->sequence * k->batch == 1) {
        rt_panels_row(k->stored, x, w, k->input, panels, false, to);
        return;
    }
    const int64_t most = distance * (int64_t)sizeof(float) % PAGE == 0 ? RT_PANEL_ROWS / 2 : RT_PANEL_ROWS,
                  tiles = (rows + most - 1) / most;
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t begin = rows * tile / tiles, end = rows * (tile + 1) / tiles;
        rt_panels_rows(k->stored, end - begin, x + begin * distance, distance, w, k->input, panels,
                       to + begin * to_row, to_row);
    }
}

/* The inputs' part of all gates, of `count` steps, the first of which is `step` in the order of time: of all rows together where they lie
 * one after another and are all wanted, else step by step or sequence by sequence, whichever has more rows. */
static void project(const share *s, int64_t step, int64_t count) {
    const packed_recurrent *k = s->k;
    const int64_t end = step + count;
    if (s->rows == k->batch && rows_whole(s, end)) {
        project_rows(s, step * k->batch, 1, count * s->rows, s->projected, k->wide);
        return;
    }
    for (int64_t t = step; count < s->rows && t < end; t++)
        project_rows(s, t * k->batch + s->first, 1, rows_of(s, t),
                     s->projected + (t - step) * s->rows * k->wide, k->wide);
    int64_t steps = s->lengths ? 0 : count; /* that are made for this sequence */
    for (int64_t row = s->rows - 1; count >= s->rows && row >= 0; row--) {
        while (steps < count && s->lengths[row] > step + steps) steps++;
        project_rows(s, step * k->batch + s->first + row, k->batch, steps, s->projected + row * k->wide,
                     s->rows * k->wide);
    }
}

/* What is to be done of a step with the sums of a group: the gates of `count` panels from `panel` on. */
typedef struct phase {
    void (*finish)(const rt_cells *cells);
    int64_t first, each; /* panels before those of the first group, panels of a group */
    const float *state;  /* what is multiplied */
    float *made;         /* what comes of it */
} phase;

/* The gates of a group of some rows, whose sums are `sums_row` apart. */
static void finish_group(const share *s, const phase *p, int64_t group, int64_t row, int64_t rows,
                         const float *sums, int64_t sums_row, float *projected) {
    const packed_recurrent *k = s->k;
    const int64_t n = k->hidden, unit = group * RT_PANEL, state = row * n + unit;
    p->finish(&(rt_cells){.rows = rows,
                          .units = n - unit < RT_PANEL ? n - unit : RT_PANEL,
                          .bias = k->bias ? s->bias + group * RT_CELL_GATES * RT_PANEL : no_bias,
                          .x = projected + row * k->wide + group * k->gates * RT_PANEL,
                          .sums = sums,
                          .x_row = k->wide,
                          .sums_row = sums_row,
                          .h = s->h + state,
                          .c = k->lstm ? s->c + state : NULL,
                          .h_next = p->made + state,
                          .c_next = k->lstm ? s->c_next + state : NULL,
                          .state_row = n});
}

/* The sums of all own groups of few sequences. */
static void multiply_few(const share *s, const phase *p, const char *panels, size_t each, bool back) {
    const packed_recurrent *k = s->k;
    const int64_t begin = s->group * p->each, end = s->group_end * p->each,
                  blocks = (end - begin + TOGETHER - 1) / TOGETHER;
    if (k->batch == 1) {
        rt_panels_row(k->stored, p->state, panels + (size_t)begin * each, k->hidden, end - begin, back,
                      s->sums + begin * RT_PANEL);
        return;
    }
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t panel = begin + (back ? blocks - 1 - i : i) * TOGETHER,
                      count = end - panel < TOGETHER ? end - panel : TOGETHER;
        rt_panels_rows(k->stored, s->rows, p->state, k->hidden, panels + (size_t)panel * each, k->hidden,
                       count, s->sums + panel * RT_PANEL, k->groups * p->each * RT_PANEL);
    }
}

/* Whether the gates of one sequence are finished between products. A step that is the only one, whose weights come from farther away, takes less code. */
static bool is_row_here(const share *s) {
    const packed_recurrent *k = s->k;
    return s->rows == 1 && k->sequence > 1 && k->stored == OP_FLOAT && !k->reset_first && rt_row_runs_here();
}

/* The gates of all own groups of one sequence, where the machine finishes them between products. */
static void run_row(const share *s, const phase *p, const char *panels, size_t each, float *projected,
                    bool back) {
    const packed_recurrent *k = s->k;
    const int64_t unit = s->group * RT_PANEL, bias_group = k->bias ? RT_CELL_GATES * RT_PANEL : 0;
    rt_row_run(&(rt_row_step){.lstm = k->lstm,
                              .alone = k->batch == 1,
                              .back = back,
                              .groups = s->group_end - s->group,
                              .units = k->hidden - unit,
                              .depth = k->hidden,
                              .state = p->state,
                              .panels = panels + (size_t)(s->group * p->each) * each,
                              .bias_group = bias_group,
                              .cells = {.bias = k->bias ? s->bias + s->group * bias_group : no_bias,
                                        .x = projected + unit * k->gates,
                                        .h = s->h + unit,
                                        .c = k->lstm ? s->c + unit : NULL,
                                        .h_next = p->made + unit,
                                        .c_next = k->lstm ? s->c_next + unit : NULL}});
}

/* Of few sequences all sums come first: then the gates of one group do not wait for those of the one before. */
static void run_phase(const share *s, const phase *p, float *projected, bool back) {
    const packed_recurrent *k = s->k;
    const int64_t tiles = (s->rows + RT_PANEL_ROWS - 1) / RT_PANEL_ROWS;
    const size_t each = k->r_bytes / (size_t)(k->groups * k->gates);
    const char *panels = s->r + (size_t)p->first * each;
    if (is_row_here(s)) {
        run_row(s, p, panels, each, projected, back);
    } else if (s->rows <= FEW_ROWS) {
        multiply_few(s, p, panels, each, back);
        for (int64_t group = s->group; group < s->group_end; group++)
            finish_group(s, p, group, 0, s->rows, s->sums + group * p->each * RT_PANEL,
                         k->groups * p->each * RT_PANEL, projected);
    }
    for (int64_t i = s->group; s->rows > FEW_ROWS && i < s->group_end; i++) {
        const int64_t group = back ? s->group_end - 1 - (i - s->group) : i;
        float sums[RT_PANEL_ROWS * RT_CELL_GATES * RT_PANEL];
        for (int64_t tile = 0; tile < tiles; tile++) {
            const int64_t row = s->rows * tile / tiles, rows = s->rows * (tile + 1) / tiles - row;
            rt_panels_rows(k->stored, rows, p->state + row * k->hidden, k->hidden,
                           panels + (size_t)(group * p->each) * each, k->hidden, p->each, sums,
                           p->each * RT_PANEL);
            finish_group(s, p, group, row, rows, sums, p->each * RT_PANEL, projected);
        }
    }
    if (s->waits) rt_team_wait(); /* for the state that the others make */
}

static void run_step(const share *s, float *projected, bool back) {
    const packed_recurrent *k = s->k;
    const phase whole = {k->lstm ? rt_cells_lstm : rt_cells_gru, 0, k->gates, s->h, s->h_next},
                reset = {rt_cells_gru_reset, 0, 2, s->h, s->spare},
                state = {rt_cells_gru_state, 2 * k->groups, 1, s->spare, s->h_next};
    if (!k->reset_first) {
        run_phase(s, &whole, projected, back);
        return;
    }
    run_phase(s, &reset, projected, false);
    run_phase(s, &state, projected, false);
}

/* All that threads share. */
typedef struct recurrent_job {
    const rt_prepared *prepared;
    const op_tensor *inputs;
    const int32_t *lengths; /* of the batch; NULL: all are whole */
    op_tensor *outputs;
    char *scratch;
    bool direct;   /* states are made where they are wanted */
    bool together; /* threads share out the units of a part */
} recurrent_job;

/* The state before the first step: as it is given, or in `floats`, zeros too, which the `first` of several threads writes. */
static const float *initial(const recurrent_job *job, uint32_t input, int64_t at, int64_t count, bool first,
                            float *floats) {
    const packed_recurrent *k = job->prepared->state;
    if (input >= job->prepared->input_count || job->inputs[input].type.dtype == OP_NONE)
        return first ? memset(floats, 0, (size_t)count * sizeof *floats) : floats;
    if (k->dtype == OP_FLOAT) return (const float *)job->inputs[input].data + at;
    rt_half_load(k->dtype, floats, (const uint16_t *)job->inputs[input].data + at, count);
    return floats;
}

/* Floats as part of an output, from element `at` on: where there is no step, a state over which it is written may be there already. */
static void give(const recurrent_job *job, uint32_t output, int64_t at, const float *floats, int64_t count) {
    const packed_recurrent *k = job->prepared->state;
    void *to = job->outputs[output].data;
    if (k->dtype == OP_FLOAT && (float *)to + at == floats) return;
    if (k->dtype == OP_FLOAT) memcpy((float *)to + at, floats, (size_t)count * sizeof *floats);
    else rt_half_store(k->dtype, (uint16_t *)to + at, floats, count);
}

/* Step t of a share with lengths: `rows` of its sequences are computed, and those that step t is no part of get back what they had.
 * The result of these is zero. */
static void run_ragged_step(const recurrent_job *job, share *s, int64_t t, float *projected, bool back,
                            int64_t y) {
    const packed_recurrent *k = job->prepared->state;
    const int64_t n = k->hidden, all = s->rows, rows = rows_of(s, t);
    const size_t bytes = (size_t)n * sizeof(float), each = op_dtype_bytes(k->dtype);
    s->rows = rows;
    if (rows > 0) run_step(s, projected, back);
    s->rows = all;
    if (k->y && rows > 0) give(job, 0, y, s->h_next, rows * n);
    for (int64_t row = 0; row < all; row++) {
        if (t < s->lengths[row]) continue;
        memcpy(s->h_next + row * n, s->h + row * n, bytes);
        if (k->lstm) memcpy(s->c_next + row * n, s->c + row * n, bytes);
        if (k->y) memset((char *)job->outputs[0].data + (size_t)(y + row * n) * each, 0, (size_t)n * each);
    }
}

/* What thread `index` of `count` does of a part, some sequences of one direction; `together`: all threads of the team are here, and wait for
 * each other. */
static void run_share(const recurrent_job *job, int part, int index, int count, bool together,
                      char *scratch) {
    const packed_recurrent *k = job->prepared->state;
    const op_tensor *inputs = job->inputs;
    const bool direct = job->direct;
    const int64_t n = k->hidden, direction = part % k->directions, sequences = part / k->directions,
                  first = k->batch * sequences / k->shares,
                  rows = k->batch * (sequences + 1) / k->shares - first,
                  at = (direction * k->batch + first) * n;
    float *turns[] = {(float *)(void *)scratch, (float *)(void *)(scratch + k->state_bytes)};
    char *third = scratch + 2 * k->state_bytes,
         *fourth = third + (k->lstm && k->lengths ? k->state_bytes : 0);
    float *cells[] = {(float *)(void *)third, (float *)(void *)fourth};
    share s = {.k = k,
               .group = k->groups * index / count,
               .group_end = k->groups * (index + 1) / count,
               .waits = together,
               .first = first,
               .rows = rows,
               .backward = k->reverse || direction == 1,
               .x = inputs[OP_RECURRENT_X].data,
               .lengths = job->lengths ? job->lengths + first : NULL,
               .bias = k->bias ? (const float *)inputs[OP_RECURRENT_BIAS].data +
                                     direction * k->groups * RT_CELL_GATES * RT_PANEL
                               : NULL,
               .w = (const char *)inputs[OP_RECURRENT_W].data + (size_t)direction * k->w_bytes,
               .r = (const char *)inputs[OP_RECURRENT_R].data + (size_t)direction * k->r_bytes,
               .projected = (float *)(void *)(fourth + (k->lstm || k->reset_first ? k->state_bytes : 0)),
               .spare = (float *)(void *)third};
    s.sums = s.projected + k->steps * k->most * k->wide;
    s.widened = s.sums + few_rows(k) * k->wide;
    s.h = initial(job, OP_RECURRENT_H, at, rows * n, index == 0, turns[1]);
    if (k->lstm) {
        if (k->y_c && direct) cells[0] = cells[1] = (float *)job->outputs[2].data + at;
        s.c_next = cells[0];
        s.c = initial(job, OP_RECURRENT_C, at, rows * n, index == 0, cells[1]);
    }
    if (together) rt_team_wait(); /* for the states that the first one made */
    for (int64_t done = 0; done < k->sequence; done += k->steps) {
        const int64_t rest = k->sequence - done, some = rest < k->steps ? rest : k->steps;
        project(&s, s.backward ? rest - some : done, some);
        for (int64_t i = done; i < done + some; i++) {
            const int64_t t = s.backward ? k->sequence - 1 - i : i,
                          own = s.backward ? done + some - 1 - i : i - done;
            const int64_t y = ((t * k->directions + direction) * k->batch + first) * n;
            float *projected = s.projected + own * rows * k->wide;
            s.h_next = k->y && direct ? (float *)job->outputs[0].data + y : turns[i % 2];
            s.c_next = cells[i % 2];
            if (job->lengths) {
                run_ragged_step(job, &s, t, projected, i % 2, y);
            } else {
                run_step(&s, projected, i % 2);
                if (k->y && !direct) give(job, 0, y, s.h_next, rows * n);
            }
            s.h = s.h_next;
            s.c = s.c_next;
        }
    }
    if (k->y_h && index == 0) give(job, 1, at, s.h, rows * n);
    if (k->y_c && !direct) give(job, 2, at, s.c, rows * n);
}

/* With more threads than parts, each part has several, which share out its units. */
static void run_member(void *context, int member, int members) {
    const recurrent_job *job = context;
    const packed_recurrent *k = job->prepared->state;
    const int parts = (int)(k->directions * k->shares);
    if (job->together && members > parts) {
        const int part = member % parts;
        run_share(job, part, member / parts, members / parts + (part < members % parts), true,
                  job->scratch + (size_t)part * k->scratch_each);
        return;
    }
    for (int part = member; part < parts; part += members)
        run_share(job, part, 0, 1, false, job->scratch + (size_t)member * k->scratch_each);
}

/* How many threads have parts of their own. */
static int members_of(const packed_recurrent *k, int threads) {
    const int64_t parts = k->directions * k->shares;
    const double worth = work_of(k) / THREAD_WORK;
    if (parts == 1 || worth < 2) return 1;
    return parts < threads ? (int)parts : threads;
}

/* Several threads are worth being given to each part, all of which run at once and have scratch of their own. */
static bool are_together(const packed_recurrent *k, int threads) {
    const int64_t parts = k->directions * k->shares, each = (threads + parts - 1) / parts;
    const double step = (double)k->most * (double)k->wide * (double)k->hidden;
    return threads > parts && members_of(k, threads) == parts && k->sequence > 1 && k->groups >= 2 * each &&
           step / (double)each >= STEP_WORK;
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    const packed_recurrent *k = prepared->state;
    recurrent_job job = {.prepared = prepared, .inputs = inputs, .outputs = outputs, .scratch = scratch};
    const base_status status =
        rt_sequence_lengths(inputs, prepared->input_count, k->batch, k->sequence, &job.lengths, report);
    if (status || k->batch == 0) return status;
    job.direct = k->dtype == OP_FLOAT && !job.lengths && k->sequence > 0;
    job.together = job.direct && are_together(k, prepared->threads);
    rt_team_run(job.together || members_of(k, prepared->threads) > 1 ? prepared->threads : 1, run_member,
                &job);
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    packed_recurrent *k = BASE_NEW(arena, packed_recurrent);
    if (!k) return base_fail_memory(report);
    if (!accepts(call, environment) || !read_recurrent(call, environment, k) || k->open)
        return base_fail(report, BASE_INVALID, "this is no recurrence with weights in panels");
    const int members = members_of(k, environment->threads);
    if (!base_size_align(k->scratch_each, RT_ALIGNMENT, &k->scratch_each) ||
        !base_size_multiply(k->scratch_each, (size_t)members, &prepared->scratch_bytes))
        return base_fail(report, BASE_INVALID, "the tensors are too large");
    prepared->state = k;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_packed_recurrent = {.name = "portable.packed_recurrent",
                                              .accepts = accepts,
                                              .prefer = prefer,
                                              .pack = pack,
                                              .only_packed = true,
                                              .prepare = prepare};

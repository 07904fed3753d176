/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.c: RNN and LSTM on oneDNN's primitives: the activations of their definition (for RNN also Relu and Sigmoid),
 * all directions, initial states, peepholes; no clip, no coupled gates, whole sequences, layout 0.
 *
 * Constant weights are packed at compile time: gates in oneDNN's order, each matrix in the form that it likes, both
 * halves of the bias added. GRU stays with the portable kernel: oneDNN 2.6 has only its reference for it, which takes
 * memory from the heap in every step. So do cells for which the portable kernel is as fast; docs/OPERATORS.md has the
 * figures after `wins`. Final states may be written over the first ones: nothing says in which order the primitive reads the one and
 * writes the other, so it then reads the first ones from copies in scratch.
 */
#include "ir/operators/recurrent_inputs.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/onednn/primitive.h"
#include <stdlib.h>
#include <string.h>

enum {
    STEP_WORK_RNN =
        8192, /* multiplications of a step, below which the way into a primitive costs what it gains */
    STEP_WORK_LSTM = 4096,
    STEP_WORK_THREADS = 1 << 19, /* below which threads do not pay for meeting in every step */
    CACHED_WEIGHTS = 1 << 17, /* floats of which one sequence alone makes good use: beyond, reading is all */
    LONG_SEQUENCE = 32        /* alone, with AVX-512: see `wins` */
};

/* The application in oneDNN's terms. */
typedef struct cell {
    bool lstm, bias, states, peepholes;
    bool y, last; /* outputs that are wanted; last: any of the final states */
    int64_t sequence, batch, input, hidden, directions, gates;
    dnnl_alg_kind_t activation; /* of RNN */
    dnnl_rnn_direction_t direction;
} cell;

typedef struct recurrent {
    rt_primitive primitive;
    cell cell;
    float *no_bias; /* zeros, where the application has no bias: the primitive wants one */
    /* Places in the scratch, after the primitive's: results that have none of their own in this form; copies of first states that are
     * written over. */
    size_t layer_at, h_at, c_at, first_h_at, first_c_at;
} recurrent;

/* ---- reading ------------------------------------------------------------------------------------------- */

/* The activations, one for RNN, three for LSTM, the same for all directions, are some that oneDNN has. */
static bool read_activations(const op_call *call, cell *k) {
    static const char *const lstm[] = {"Sigmoid", "Tanh", "Tanh"};
    static const struct {
        const char *name;
        dnnl_alg_kind_t kind;
    } known[] = {
        {"Tanh", dnnl_eltwise_tanh}, {"Relu", dnnl_eltwise_relu}, {"Sigmoid", dnnl_eltwise_logistic}};
    const op_attribute *names = op_attribute_find(&call->attributes, "activations");
    const size_t each = k->lstm ? 3 : 1;
    k->activation = dnnl_eltwise_tanh;
    if (!names) return true;
    if (names->kind != OP_ATTRIBUTE_STRINGS || names->count != each * (size_t)k->directions) return false;
    for (size_t i = 0; i < names->count; i++) {
        const op_string *name = &names->as.texts[i];
        if (k->lstm) {
            if (!op_string_is(name, lstm[i % 3])) return false;
            continue;
        }
        size_t a = 0;
        while (a < 3 && !op_string_is(name, known[a].name)) a++;
        if (a == 3 || (i > 0 && known[a].kind != k->activation)) return false;
        k->activation = known[a].kind;
    }
    return true;
}

/* All sequences are known to be of full length. */
static bool lengths_are_full(const op_call *call, int64_t sequence) {
    if (!op_input_present(call, OP_RECURRENT_LENGTHS)) return true;
    const op_tensor *lengths = &call->inputs[OP_RECURRENT_LENGTHS];
    int64_t count;
    if (!lengths->data || lengths->type.dtype != OP_INT32 || !op_shape_elements(&lengths->type.shape, &count))
        return false;
    for (int64_t i = 0; i < count; i++) {
        if (((const int32_t *)lengths->data)[i] != sequence) return false;
    }
    return true;
}

static bool all_floats_known(const op_call *call) {
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const op_type *type =
            i < call->input_count ? &call->inputs[i].type : &call->outputs[i - call->input_count].type;
        int64_t count;
        if (type->dtype == OP_NONE || i == OP_RECURRENT_LENGTHS) continue;
        if (type->kind != OP_KIND_TENSOR || type->dtype != OP_FLOAT) return false;
        if (!op_shape_elements(&type->shape, &count) || count == 0) return false;
    }
    return true;
}

static bool is_wanted(const op_call *call, uint32_t output) {
    return output < call->output_count && call->outputs[output].type.dtype != OP_NONE;
}

/* Reads the application; false where it is none of ours. */
static bool read_cell(const op_call *call, cell *k) {
    const op_attributes *attributes = &call->attributes;
    if (call->input_count < 3 || call->input_count > OP_RECURRENT_INPUTS) return false;
    if (op_attribute_integer(attributes, "layout", 0) != 0 || op_attribute_find(attributes, "clip") ||
        op_attribute_integer(attributes, "input_forget", 0) != 0 || !all_floats_known(call))
        return false;
    const op_shape *x = &call->inputs[OP_RECURRENT_X].type.shape,
                   *w = &call->inputs[OP_RECURRENT_W].type.shape;
    const bool lstm = call->code == OP_LSTM;
    *k = (cell){.lstm = lstm,
                .gates = lstm ? 4 : 1,
                .sequence = x->dims[0],
                .batch = x->dims[1],
                .input = x->dims[2],
                .directions = w->dims[0],
                .bias = op_input_present(call, OP_RECURRENT_BIAS),
                .states = op_input_present(call, OP_RECURRENT_H),
                .peepholes = lstm && op_input_present(call, OP_RECURRENT_PEEPHOLES),
                .y = is_wanted(call, 0),
                .last = is_wanted(call, 1) || is_wanted(call, 2)};
    k->hidden = w->dims[1] / k->gates;
    k->direction = k->directions == 2 ? dnnl_bidirectional_concat
                   : op_attribute_is(attributes, "direction", "reverse", "forward")
                       ? dnnl_unidirectional_right2left
                       : dnnl_unidirectional_left2right;
    /* oneDNN has both states of an LSTM, or none. */
    if (lstm && op_input_present(call, OP_RECURRENT_C) != k->states) return false;
    return lengths_are_full(call, k->sequence) && read_activations(call, k);
}

static double step_work(const cell *k) {
    return (double)k->gates * (double)k->hidden * (double)k->hidden * (double)k->batch;
}

static bool has_wide_vectors(void) {
#if RT_X86_KERNELS
    return __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

/* The primitive is faster than the portable kernel. With AVX-512 not where one sequence is long: 40 steps of 128 took 0.86 of its
 * time in the portable kernel, 200 steps 0.71, of 32 numbers 0.87. */
static bool wins(const cell *k) {
    if (k->batch == 1 && k->sequence >= LONG_SEQUENCE && has_wide_vectors()) return false;
    if (step_work(k) < (k->lstm ? STEP_WORK_LSTM : STEP_WORK_RNN)) return false;
    return k->batch > 1 || step_work(k) <= CACHED_WEIGHTS;
}

/* ---- descriptors --------------------------------------------------------------------------------------- */

static op_shape shape_of(int32_t rank, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
    return (op_shape){.rank = rank, .dims = {a, b, c, d, e}};
}

typedef struct descriptions {
    dnnl_memory_desc_t x, y, w, r, bias, peepholes, state;
} descriptions;

static bool describe(const cell *k, descriptions *to) {
    const int64_t d = k->directions, n = k->hidden;
    const op_shape x = shape_of(3, k->sequence, k->batch, k->input, 0, 0),
                   y = shape_of(3, k->sequence, k->batch, d * n, 0, 0),
                   w = shape_of(5, 1, d, k->input, k->gates, n), r = shape_of(5, 1, d, n, k->gates, n),
                   bias = shape_of(4, 1, d, k->gates, n, 0), peepholes = shape_of(4, 1, d, 3, n, 0),
                   state = shape_of(4, 1, d, k->batch, n, 0);
    return rt_describe_as(&x, OP_LAYOUT_ROW_MAJOR, &to->x) &&
           rt_describe_as(&y, OP_LAYOUT_ROW_MAJOR, &to->y) && rt_describe_any(&w, &to->w) &&
           rt_describe_any(&r, &to->r) && rt_describe_as(&bias, OP_LAYOUT_ROW_MAJOR, &to->bias) &&
           rt_describe_as(&peepholes, OP_LAYOUT_ROW_MAJOR, &to->peepholes) &&
           rt_describe_as(&state, OP_LAYOUT_ROW_MAJOR, &to->state);
}

static bool make_descriptor(const cell *k, const rt_environment *environment, rt_descriptor *open) {
    const rt_activation none = {0};
    descriptions d;
    dnnl_rnn_desc_t operation;
    if (!describe(k, &d)) return false;
    const dnnl_memory_desc_t *in = k->states ? &d.state : NULL, *out = k->last ? &d.state : NULL;
    dnnl_status_t status;
    if (k->lstm) {
        status = dnnl_lstm_forward_desc_init_v2(&operation, dnnl_forward_inference, k->direction, &d.x, in,
                                                in, &d.w, &d.r, k->peepholes ? &d.peepholes : NULL, &d.bias,
                                                &d.y, out, out, 0);
    } else {
        status = dnnl_vanilla_rnn_forward_desc_init(&operation, dnnl_forward_inference, k->activation,
                                                    k->direction, &d.x, in, &d.w, &d.r, &d.bias, &d.y, out, 0,
                                                    0, 0);
    }
    if (status != dnnl_success || !rt_descriptor_open(open, 0, &none)) return false;
    return rt_descriptor_make(open, &operation, step_work(k) < STEP_WORK_THREADS ? 1 : environment->threads);
}

/* W or R in the form that the descriptor wants. */
static const dnnl_memory_desc_t *matrix_of(const rt_descriptor *open, uint32_t input) {
    return dnnl_primitive_desc_query_md(open->descriptor, dnnl_query_weights_md,
                                        input == OP_RECURRENT_W ? 0 : 1);
}

static size_t packed_bytes(const cell *k, const rt_descriptor *open, uint32_t input) {
    if (input == OP_RECURRENT_W || input == OP_RECURRENT_R)
        return dnnl_memory_desc_get_size(matrix_of(open, input));
    return (size_t)k->directions * (size_t)(input == OP_RECURRENT_BIAS ? k->gates : 3) * (size_t)k->hidden *
           sizeof(float);
}

static bool is_weight(uint32_t input) {
    return input == OP_RECURRENT_W || input == OP_RECURRENT_R || input == OP_RECURRENT_BIAS ||
           input == OP_RECURRENT_PEEPHOLES;
}

static bool accepts(const op_call *call, const rt_environment *environment) {
    cell k;
    rt_descriptor open;
    if (!read_cell(call, &k)) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (!op_input_present(call, i)) continue;
        if (call->inputs[i].type.layout != (is_weight(i) ? OP_LAYOUT_PACKED : OP_LAYOUT_ROW_MAJOR))
            return false;
    }
    if (!make_descriptor(&k, environment, &open)) return false;
    rt_descriptor_close(&open);
    return true;
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    cell k;
    rt_descriptor open;
    if (!read_cell(call, &k) || !wins(&k)) return false;
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (op_input_present(call, i) && is_weight(i) && !call->inputs[i].data) return false;
    }
    if (!make_descriptor(&k, environment, &open)) return false;
    *preference = (rt_preference){.output = OP_LAYOUT_ROW_MAJOR};
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (!op_input_present(call, i) || !is_weight(i)) continue;
        preference->inputs[i] = OP_LAYOUT_PACKED;
        preference->packed_bytes[i] = packed_bytes(&k, &open, i);
    }
    rt_descriptor_close(&open);
    return true;
}

/* ---- packing ------------------------------------------------------------------------------------------- */

/* Which of ONNX's gates (i o f c) and peepholes (i o f) stands at each place of oneDNN's (i f c o; i f o). */
static const int64_t gate_order[] = {0, 2, 3, 1}, peephole_order[] = {0, 2, 1};

/* [directions][count][elements], the middle dimension in another order. */
static void permute(const float *from, const int64_t *order, int64_t directions, int64_t count,
                    int64_t elements, float *to) {
    for (int64_t d = 0; d < directions; d++, from += count * elements) {
        for (int64_t g = 0; g < count; g++, to += elements)
            memcpy(to, from + order[g] * elements, (size_t)elements * sizeof *to);
    }
}

static void pack_bias(const cell *k, const float *bias, float *to) {
    const int64_t wide = k->gates * k->hidden;
    for (int64_t d = 0; d < k->directions; d++, bias += 2 * wide) {
        for (int64_t g = 0; g < k->gates; g++) {
            const float *own = bias + gate_order[g] * k->hidden;
            for (int64_t j = 0; j < k->hidden; j++) *to++ = own[j] + own[wide + j];
        }
    }
}

static base_status pack_matrix(const cell *k, const rt_environment *environment, const rt_descriptor *open,
                               uint32_t input, const op_tensor *source, void *packed, base_report *report) {
    const int64_t depth = input == OP_RECURRENT_W ? k->input : k->hidden, rows = k->gates * k->hidden;
    float *ordered = malloc((size_t)(k->directions * rows * depth) * sizeof *ordered);
    if (!ordered) return base_fail_memory(report);
    permute(source->data, gate_order, k->directions, k->gates, k->hidden * depth, ordered);
    /* oneDNN's dimensions: layer, direction, input, gate, output. */
    const dnnl_dims_t dims = {1, k->directions, depth, k->gates, k->hidden},
                      strides = {k->directions * rows * depth, rows * depth, 1, k->hidden * depth, depth};
    dnnl_memory_desc_t from;
    base_status status =
        dnnl_memory_desc_init_by_strides(&from, 5, dims, dnnl_f32, strides) == dnnl_success
            ? rt_reorder(&from, ordered, matrix_of(open, input), packed, 1, environment->threads, report)
            : rt_onednn_fail(report, "oneDNN cannot pack input %u of this recurrence", input);
    free(ordered);
    return status;
}

static base_status check_packed(const op_call *call, const cell *k, const rt_descriptor *open,
                                base_report *report) {
    for (uint32_t i = 0; i < call->input_count; i++) {
        if (!op_input_present(call, i) || !is_weight(i)) continue;
        const size_t bytes = packed_bytes(k, open, i);
        if (bytes != call->inputs[i].type.packed_bytes) {
            return base_fail(report, BASE_INVALID,
                             "the plan was packed for another machine: input %u has %zu bytes, expected %zu",
                             i, call->inputs[i].type.packed_bytes, bytes);
        }
    }
    return BASE_OK;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    cell k;
    rt_descriptor open;
    if (!is_weight(input) || !read_cell(call, &k) || !make_descriptor(&k, environment, &open))
        return rt_onednn_fail(report, "oneDNN cannot pack input %u of this recurrence", input);
    base_status status = check_packed(call, &k, &open, report);
    if (status == BASE_OK && input == OP_RECURRENT_BIAS) pack_bias(&k, source->data, packed);
    else if (status == BASE_OK && input == OP_RECURRENT_PEEPHOLES)
        permute(source->data, peephole_order, k.directions, 3, k.hidden, packed);
    else if (status == BASE_OK) status = pack_matrix(&k, environment, &open, input, source, packed, report);
    rt_descriptor_close(&open);
    return status;
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* Both directions side by side become ONNX's [sequence, directions, batch, hidden]. */
static void part_directions(const cell *k, const float *layer, float *y) {
    const int64_t n = k->hidden, wide = k->directions * n;
    for (int64_t t = 0; t < k->sequence; t++, layer += k->batch * wide) {
        for (int64_t d = 0; d < k->directions; d++) {
            for (int64_t b = 0; b < k->batch; b++, y += n)
                memcpy(y, layer + b * wide + d * n, (size_t)n * sizeof *y);
        }
    }
}

/* A first state, from where no result is written; `last`: the final one, NULL where it is not wanted. */
static void *first_state(const cell *k, void *first, const void *last, void *copy) {
    if (first != last) return first;
    return memcpy(copy, first, (size_t)(k->directions * k->batch * k->hidden) * sizeof(float));
}

static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    recurrent *own = prepared->state;
    const cell *k = &own->cell;
    void *data[RT_PRIMITIVE_ARGUMENTS];
    int count = 0;
    data[count++] = inputs[OP_RECURRENT_X].data;
    void *last[3] = {NULL}; /* by output */
    for (uint32_t o = 1; o < 3 && o < prepared->output_count; o++)
        if (outputs[o].type.dtype != OP_NONE) last[o] = outputs[o].data;
    if (k->states)
        data[count++] =
            first_state(k, inputs[OP_RECURRENT_H].data, last[1], (char *)scratch + own->first_h_at);
    if (k->states && k->lstm)
        data[count++] =
            first_state(k, inputs[OP_RECURRENT_C].data, last[2], (char *)scratch + own->first_c_at);
    data[count++] = inputs[OP_RECURRENT_W].data;
    data[count++] = inputs[OP_RECURRENT_R].data;
    if (k->peepholes) data[count++] = inputs[OP_RECURRENT_PEEPHOLES].data;
    data[count++] = k->bias ? inputs[OP_RECURRENT_BIAS].data : own->no_bias;
    float *layer = k->y && k->directions == 1 ? outputs[0].data : (char *)scratch + own->layer_at;
    data[count++] = layer;
    for (uint32_t o = 1; k->last && o <= (k->lstm ? 2u : 1u); o++)
        data[count++] = last[o] ? last[o] : (char *)scratch + (o == 1 ? own->h_at : own->c_at);
    base_status status = rt_primitive_run(&own->primitive, data, scratch, report);
    if (status == BASE_OK && k->y && k->directions > 1) part_directions(k, layer, outputs[0].data);
    return status;
}

static void release(rt_prepared *prepared) {
    recurrent *own = prepared->state;
    if (own) rt_primitive_close(&own->primitive);
}

/* Memory for `elements` floats after what the scratch has; where it begins. */
static bool add_scratch(size_t *bytes, int64_t elements, size_t *at) {
    size_t own;
    return base_size_align(*bytes, RT_ALIGNMENT, at) &&
           base_size_multiply((size_t)elements, sizeof(float), &own) && base_size_add(*at, own, bytes);
}

static base_status add_arguments(rt_primitive *primitive, const cell *k, const rt_descriptor *open,
                                 base_report *report) {
    descriptions d;
    describe(k, &d);
    const struct {
        bool present, written;
        int argument;
        const dnnl_memory_desc_t *description;
    } arguments[] = {{true, false, DNNL_ARG_SRC_LAYER, &d.x},
                     {k->states, false, DNNL_ARG_SRC_ITER, &d.state},
                     {k->states && k->lstm, false, DNNL_ARG_SRC_ITER_C, &d.state},
                     {true, false, DNNL_ARG_WEIGHTS_LAYER, matrix_of(open, OP_RECURRENT_W)},
                     {true, false, DNNL_ARG_WEIGHTS_ITER, matrix_of(open, OP_RECURRENT_R)},
                     {k->peepholes, false, DNNL_ARG_WEIGHTS_PEEPHOLE, &d.peepholes},
                     {true, false, DNNL_ARG_BIAS, &d.bias},
                     {true, true, DNNL_ARG_DST_LAYER, &d.y},
                     {k->last, true, DNNL_ARG_DST_ITER, &d.state},
                     {k->last && k->lstm, true, DNNL_ARG_DST_ITER_C, &d.state}};
    base_status status = BASE_OK;
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments && status == BASE_OK; i++) {
        if (!arguments[i].present) continue;
        status = rt_primitive_argument(primitive, arguments[i].argument, arguments[i].description,
                                       arguments[i].written, report);
    }
    return status;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    recurrent *own = BASE_NEW(arena, recurrent);
    rt_descriptor open;
    if (!own) return base_fail_memory(report);
    cell *k = &own->cell;
    if (!read_cell(call, k) || !make_descriptor(k, environment, &open))
        return rt_onednn_fail(report, "oneDNN cannot run this recurrence on this machine");
    prepared->state = own;
    prepared->run = run;
    if (!k->bias) {
        own->no_bias = BASE_ARRAY(arena, float, (size_t)(k->directions * k->gates * k->hidden));
        if (!own->no_bias) {
            rt_descriptor_close(&open);
            return base_fail_memory(report);
        }
    }
    base_status status = check_packed(call, k, &open, report);
    if (status == BASE_OK) status = rt_primitive_make(&own->primitive, &open, report);
    if (status == BASE_OK) status = add_arguments(&own->primitive, k, &open, report);
    rt_descriptor_close(&open);
    const int64_t state = k->directions * k->batch * k->hidden;
    const bool direct = k->y && k->directions == 1, over_h = k->states && is_wanted(call, 1),
               over_c = k->states && k->lstm && is_wanted(call, 2);
    prepared->scratch_bytes = own->primitive.scratch_bytes;
    if (status == BASE_OK &&
        !(add_scratch(&prepared->scratch_bytes, direct ? 0 : k->sequence * state, &own->layer_at) &&
          add_scratch(&prepared->scratch_bytes, k->last && !is_wanted(call, 1) ? state : 0, &own->h_at) &&
          add_scratch(&prepared->scratch_bytes, k->last && k->lstm && !is_wanted(call, 2) ? state : 0,
                      &own->c_at) &&
          add_scratch(&prepared->scratch_bytes, over_h ? state : 0, &own->first_h_at) &&
          add_scratch(&prepared->scratch_bytes, over_c ? state : 0, &own->first_c_at))) {
        status = base_fail(report, BASE_INVALID, "the tensors are too large");
    }
    if (status != BASE_OK) release(prepared);
    return status;
}

const rt_kernel rt_onednn_recurrent = {.name = "onednn.recurrent",
                                       .backend = RT_BACKEND_ONEDNN,
                                       .accepts = accepts,
                                       .prefer = prefer,
                                       .pack = pack,
                                       .prepare = prepare,
                                       .release = release};

/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.c: RNN, GRU, LSTM: all attributes of ONNX opset 14, float and double; 16-bit floats are computed on in float. And LSTM with
 * weights of bytes: its products are those of integers, of rows that are quantised in each step, of all sequences with one scale. States are
 * computed on in scratch, so the final ones may be written over the first ones. */
#include "runtime/kernels/portable/dynamic_rows.h"
#include "runtime/kernels/portable/integer_product.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/product.h"
#include "runtime/kernels/portable/recurrent_cells.h"
#include "runtime/kernels/portable/vector_doubles.h"
#include "runtime/kernels/portable/vector_math.h"
#include <math.h>
#include <string.h>

enum {
    FEW_WEIGHTS = 1 << 16, /* of a recurrence: a quarter of a megabyte */
    NEAR_BYTES = 1 << 14,  /* of weights that stay in the nearest cache */
};

typedef enum activation_kind {
    ACTIVATION_RELU,
    ACTIVATION_TANH,
    ACTIVATION_SIGMOID,
    ACTIVATION_AFFINE,
    ACTIVATION_LEAKY_RELU,
    ACTIVATION_THRESHOLDED_RELU,
    ACTIVATION_SCALED_TANH,
    ACTIVATION_HARD_SIGMOID,
    ACTIVATION_ELU,
    ACTIVATION_SOFTSIGN,
    ACTIVATION_SOFTPLUS
} activation_kind;

typedef struct activation {
    activation_kind kind;
    float alpha, beta;
} activation;

/* Names and default parameters, from the operators' descriptions; has_*: takes a number from the attribute's
 * list. */
static const struct {
    const char *name;
    activation_kind kind;
    bool has_alpha, has_beta;
    float alpha, beta;
} known_activations[] = {
    {"Relu", ACTIVATION_RELU, false, false, 0, 0},
    {"Tanh", ACTIVATION_TANH, false, false, 0, 0},
    {"Sigmoid", ACTIVATION_SIGMOID, false, false, 0, 0},
    {"Affine", ACTIVATION_AFFINE, true, true, 1, 0},
    {"LeakyRelu", ACTIVATION_LEAKY_RELU, true, false, 0.01f, 0},
    {"ThresholdedRelu", ACTIVATION_THRESHOLDED_RELU, true, false, 1, 0},
    {"ScaledTanh", ACTIVATION_SCALED_TANH, true, true, 1, 1},
    {"HardSigmoid", ACTIVATION_HARD_SIGMOID, true, true, 0.2f, 0.5f},
    {"Elu", ACTIVATION_ELU, true, false, 1, 0},
    {"Softsign", ACTIVATION_SOFTSIGN, false, false, 0, 0},
    {"Softplus", ACTIVATION_SOFTPLUS, false, false, 0, 0},
};

typedef struct recurrent {
    op_code code;
    int64_t sequence, batch, input, hidden, directions, gates;
    uint32_t inputs, outputs;
    bool fused; /* the projection: rt_tiles.fused */
    bool batch_first, reverse, linear_before_reset, input_forget, has_clip;
    float clip;
    activation activations[6]; /* f, g, h of each direction */
    /* Scratch: the gates and states; R in panels of RT_PANEL rows (0: it is read as it is); panels of the projection. */
    size_t state_bytes, panel_bytes;
    int64_t panel_floats; /* of one gate */
    size_t
        direction_bytes; /* scratch of each of two directions that run side by side; 0: one after the other */
    size_t inner_bytes;  /* 16-bit floats: the scratch of the computation in float, before its copies */
    bool bytes;          /* of weights; then codes and sums of their products stand where panels would */
    size_t code_bytes;
} recurrent;

/* Bytes of the weights at input 1 or 2, of all directions, as rt_integer_pack leaves them; false where they are not of bytes, or cannot be packed. */
static bool packed_weight_bytes(const op_call *call, uint32_t input, size_t *bytes) {
    const op_shape *shape = &call->inputs[input].type.shape;
    return call->code == OP_DYNAMIC_LSTM && (input == 1 || input == 2) && shape->rank == 3 &&
           op_shape_known(shape) && shape->dims[0] > 0 &&
           rt_integer_packed_bytes(shape->dims[1], shape->dims[2], bytes) &&
           base_size_multiply(*bytes, (size_t)shape->dims[0], bytes);
}

/* The weights at input 1 or 2, of one direction. */
static rt_byte_weights byte_weights(const recurrent *k, const op_tensor *inputs, uint32_t input,
                                    int64_t direction) {
    const int64_t columns = k->gates * k->hidden, depth = input == 1 ? k->input : k->hidden;
    const op_tensor *scales = &inputs[6 + 2 * input], *zeros = &inputs[7 + 2 * input];
    rt_byte_weights w = {.dtype = inputs[input].type.dtype,
                         .depth = depth,
                         .columns = columns,
                         .scales_each = scales->type.shape.rank == 2,
                         .zeros_each = zeros->type.shape.rank == 2};
    const op_type *type = &inputs[input].type;
    const uint8_t *data = inputs[input].data;
    if (type->layout == OP_LAYOUT_PACKED)
        w.packed = data + direction * ((int64_t)type->packed_bytes / k->directions);
    else w.data = data + direction * depth * columns;
    w.scales = (const float *)scales->data + direction * (w.scales_each ? columns : 1);
    w.zeros = (const uint8_t *)zeros->data + direction * (w.zeros_each ? columns : 1);
    return w;
}

/* [sequence * batch, input] times [input, gates * hidden]. */
static rt_product recurrent_projection(const recurrent *k, op_dtype dtype, bool bias) {
    return (rt_product){.dtype = dtype,
                        .rows = k->sequence * k->batch,
                        .columns = k->gates * k->hidden,
                        .depth = k->input,
                        .batches = 1,
                        .a_row = k->input,
                        .a_depth = 1,
                        .b_depth = 1,
                        .b_column = k->input,
                        .addend = bias,
                        .addend_rank = 1,
                        .addend_dims = {k->sequence * k->batch},
                        .addend_column = 1,
                        .alpha = 1,
                        .beta = 1,
                        .fused = k->fused};
}

/* Gate by gate, RT_PANEL rows of R side by side, zeros where there are no more. */
static void pack_panels(const recurrent *k, const float *r, float *panels) {
    const int64_t n = k->hidden;
    for (int64_t g = 0; g < k->gates; g++, r += n * n) {
        for (int64_t first = 0; first < n; first += RT_PANEL, panels += n * RT_PANEL) {
            /* Squares, so that rows are read as they lie. */
            for (int64_t from = 0; from < n; from += RT_PANEL) {
                const int64_t to = from + RT_PANEL < n ? from + RT_PANEL : n;
                for (int64_t c = 0; c < RT_PANEL; c++) {
                    for (int64_t depth = from; depth < to; depth++)
                        panels[depth * RT_PANEL + c] = first + c < n ? r[(first + c) * n + depth] : 0;
                }
            }
        }
    }
}

/* y (+)= R h, of a gate in panels: blocks of them, from the last one to the first where the step goes back. */
static void multiply_panels(float *y, const float *panels, const float *h, int64_t n, bool add, bool back) {
    enum { ABREAST = 8 * RT_PANEL };
    const int64_t blocks = (n + ABREAST - 1) / ABREAST;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t first = (back ? blocks - 1 - i : i) * ABREAST;
        rt_tiles_run(&(rt_tiles){.rows = 1,
                                 .columns = n - first < ABREAST ? n - first : ABREAST,
                                 .depth = n,
                                 .a = h,
                                 .a_row = n,
                                 .a_depth = 1,
                                 .panels = panels + first * n,
                                 .c = y + first,
                                 .c_row = n,
                                 .add = add});
    }
}

#define REAL float
#define DTYPE OP_FLOAT
#define TILED
#define NAME(function) function##_float
#define DOTS rt_dots
#define TANH rt_tanh
#define SIGMOID rt_sigmoid
#define EXP expf
#define LOG logf
#define ABS fabsf
#include "runtime/kernels/portable/recurrent_steps.h"
#undef REAL
#undef DTYPE
#undef TILED
#undef NAME
#undef DOTS
#undef TANH
#undef SIGMOID
#undef EXP
#undef LOG
#undef ABS
#define REAL double
#define DTYPE OP_DOUBLE
#define NAME(function) function##_double
#define DOTS rt_dots_doubles
#define TANH rt_tanh_double
#define SIGMOID rt_sigmoid_double
#define EXP exp
#define LOG log
#define ABS fabs
#include "runtime/kernels/portable/recurrent_steps.h"

static bool accepts(const op_call *call, const rt_environment *environment) {
    (void)environment;
    const op_dtype dtype = call->inputs[0].type.dtype;
    return (dtype == OP_FLOAT || dtype == OP_DOUBLE || rt_is_half(dtype)) &&
           rt_accepts_packed(call, packed_weight_bytes);
}

static bool prefer(const op_call *call, const rt_environment *environment, rt_preference *preference) {
    rt_preference wish = {.output = OP_LAYOUT_ROW_MAJOR};
    bool any = false;
    if (call->code != OP_DYNAMIC_LSTM || environment->portable_only || !rt_integer_packs() ||
        !rt_accepts_row_major(call))
        return false;
    for (uint32_t i = 1; i <= 2; i++) {
        size_t bytes;
        if (!call->inputs[i].data || !packed_weight_bytes(call, i, &bytes)) continue;
        const int64_t columns = call->inputs[i].type.shape.dims[2], more = -columns & (RT_INTEGER_PANEL - 1);
        if (4 * more > columns) continue;
        wish.inputs[i] = OP_LAYOUT_PACKED;
        wish.packed_bytes[i] = bytes;
        any = true;
    }
    if (any) *preference = wish;
    return any;
}

static base_status pack(const op_call *call, const rt_environment *environment, uint32_t input,
                        const op_tensor *source, void *packed, base_report *report) {
    (void)environment;
    const int64_t *dims = source->type.shape.dims;
    size_t bytes;
    if (!packed_weight_bytes(call, input, &bytes))
        return base_fail(report, BASE_INVALID, "input %u of this recurrence is not packed", input);
    for (int64_t i = 0; i < dims[0]; i++)
        rt_integer_pack(source->type.dtype, (const uint8_t *)source->data + i * dims[1] * dims[2], dims[1],
                        dims[2], (char *)packed + i * ((int64_t)bytes / dims[0]));
    return BASE_OK;
}

/* Bytes of a copy in float; false: too many. */
static bool float_copy_bytes(const op_type *type, size_t *bytes) {
    op_type copy = *type;
    copy.dtype = OP_FLOAT;
    return op_type_bytes(&copy, bytes) && base_size_align(*bytes, RT_ALIGNMENT, bytes);
}

/* The tensor's place among the copies in float; absent tensors have none. Extents were checked by prepare. */
static op_tensor float_copy(const op_tensor *tensor, char **free, int64_t *count) {
    op_tensor copy = *tensor;
    size_t bytes = 0;
    *count = 0;
    op_shape_elements(&tensor->type.shape, count);
    float_copy_bytes(&tensor->type, &bytes);
    copy.type.dtype = OP_FLOAT;
    copy.data = *free;
    *free += bytes;
    return copy;
}

static base_status run_half(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                            void *scratch, base_report *report) {
    const recurrent *k = prepared->state;
    char *free = (char *)scratch + k->inner_bytes;
    op_tensor in[8], out[3];
    int64_t count, counts[3] = {0};
    for (uint32_t i = 0; i < k->inputs; i++) {
        in[i] = inputs[i];
        if (!rt_is_half(inputs[i].type.dtype)) continue;
        in[i] = float_copy(&inputs[i], &free, &count);
        rt_half_load(inputs[i].type.dtype, in[i].data, inputs[i].data, count);
    }
    for (uint32_t o = 0; o < k->outputs; o++) {
        out[o] = outputs[o];
        if (rt_is_half(outputs[o].type.dtype)) out[o] = float_copy(&outputs[o], &free, &counts[o]);
    }
    base_status status = run_float(prepared, in, out, scratch, report);
    for (uint32_t o = 0; status == BASE_OK && o < k->outputs; o++) {
        if (rt_is_half(outputs[o].type.dtype))
            rt_half_store(outputs[o].type.dtype, outputs[o].data, out[o].data, counts[o]);
    }
    return status;
}

static base_status read_activations(const op_call *call, recurrent *k, base_report *report) {
    size_t per_direction = k->code == OP_LSTM ? 3 : k->code == OP_GRU ? 2 : 1;
    static const activation_kind defaults[3][3] = {{ACTIVATION_TANH},
                                                   {ACTIVATION_SIGMOID, ACTIVATION_TANH},
                                                   {ACTIVATION_SIGMOID, ACTIVATION_TANH, ACTIVATION_TANH}};
    const op_attribute *names = op_attribute_find(&call->attributes, "activations");
    size_t alpha_count, beta_count, alpha_next = 0, beta_next = 0;
    const float *alphas = op_attribute_reals(&call->attributes, "activation_alpha", &alpha_count);
    const float *betas = op_attribute_reals(&call->attributes, "activation_beta", &beta_count);
    if (names &&
        (names->kind != OP_ATTRIBUTE_STRINGS || names->count != per_direction * (size_t)k->directions)) {
        return base_fail(report, BASE_INVALID, "activations has %zu names, expected %zu", names->count,
                         per_direction * (size_t)k->directions);
    }
    for (size_t i = 0; i < per_direction * (size_t)k->directions; i++) {
        activation *to = &k->activations[3 * (i / per_direction) + i % per_direction];
        if (!names) {
            to->kind = defaults[per_direction - 1][i % per_direction];
            continue;
        }
        const op_string *name = &names->as.texts[i];
        size_t count = sizeof known_activations / sizeof *known_activations, a = 0;
        while (a < count && !op_string_is(name, known_activations[a].name)) a++;
        if (a == count) {
            return base_fail(report, BASE_INVALID,
                             "activation \"%.*s\" is not one of RNN's, GRU's and LSTM's",
                             (int)(name->length < 64 ? name->length : 64), name->data);
        }
        *to = (activation){known_activations[a].kind, known_activations[a].alpha, known_activations[a].beta};
        if (known_activations[a].has_alpha && alpha_next < alpha_count) to->alpha = alphas[alpha_next++];
        if (known_activations[a].has_beta && beta_next < beta_count) to->beta = betas[beta_next++];
    }
    return BASE_OK;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    recurrent *k = BASE_NEW(arena, recurrent);
    if (!k) return base_fail_memory(report);
    const op_attributes *attributes = &call->attributes;
    const op_shape *x = &call->inputs[0].type.shape, *w = &call->inputs[1].type.shape;
    k->bytes = call->code == OP_DYNAMIC_LSTM;
    k->code = k->bytes ? OP_LSTM : call->code;
    k->gates = k->code == OP_LSTM ? 4 : k->code == OP_GRU ? 3 : 1;
    k->batch_first = op_attribute_integer(attributes, "layout", 0) == 1;
    k->sequence = x->dims[k->batch_first];
    k->batch = x->dims[!k->batch_first];
    k->input = x->dims[2];
    k->directions = w->dims[0];
    k->hidden = w->dims[k->bytes ? 2 : 1] / k->gates;
    k->inputs = call->input_count;
    k->outputs = call->output_count;
    k->reverse = op_attribute_is(attributes, "direction", "reverse", "forward");
    k->linear_before_reset = op_attribute_integer(attributes, "linear_before_reset", 0) != 0;
    k->input_forget = op_attribute_integer(attributes, "input_forget", 0) != 0;
    k->has_clip = op_attribute_find(attributes, "clip") != NULL;
    k->clip = op_attribute_real(attributes, "clip", 0);
    k->fused = !environment->portable_only;
    base_status status = read_activations(call, k, report);
    if (status != BASE_OK) return status;

    /* Panels pay where several sequences share them, over several steps; for a single one where they stay in the cache over
     * more steps: what is too large for that costs its way in every time. */
    const bool half = rt_is_half(call->inputs[0].type.dtype);
    const op_dtype dtype = half ? OP_FLOAT : call->inputs[0].type.dtype;
    const bool few = k->hidden * k->hidden * k->gates <= FEW_WEIGHTS;
    const bool panels =
        dtype == OP_FLOAT && !k->bytes && k->sequence >= 4 && (k->batch >= 2 || (few && k->sequence >= 16));
    size_t wide, rows, elements, states = 0, hidden = (size_t)k->hidden,
                                 padded = (hidden + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
    bool fits = base_size_multiply((size_t)k->gates, hidden, &wide) &&
                base_size_multiply((size_t)k->sequence, (size_t)k->batch, &rows) &&
                base_size_add(rows, 1, &rows) && base_size_multiply(rows, wide, &elements) &&
                base_size_multiply(3 * hidden, (size_t)k->batch, &states) &&
                base_size_add(elements, states, &elements) &&
                base_size_multiply(elements, op_dtype_bytes(dtype), &k->state_bytes) &&
                base_size_align(k->state_bytes, RT_ALIGNMENT, &k->state_bytes) &&
                base_size_multiply(padded, hidden, &states) &&
                base_size_multiply(states, (size_t)k->gates, &elements) &&
                base_size_multiply(elements, panels ? sizeof(float) : 0, &k->panel_bytes);
    k->panel_floats = (int64_t)states;
    const rt_product projection = recurrent_projection(k, dtype, true);
    if (k->bytes) {
        size_t inputs, own;
        fits = fits && base_size_multiply(rows, (size_t)k->input, &inputs) &&
               base_size_multiply((size_t)k->batch, hidden, &own) &&
               base_size_multiply(inputs > own ? inputs : own, sizeof(int16_t), &k->code_bytes) &&
               base_size_align(k->code_bytes, RT_ALIGNMENT, &k->code_bytes) &&
               base_size_multiply(wide, sizeof(int32_t), &own) && base_size_add(k->code_bytes, own, &own) &&
               base_size_add(k->state_bytes, own, &prepared->scratch_bytes);
    } else {
        fits = fits && base_size_add(k->state_bytes, k->panel_bytes, &elements) &&
               base_size_add(elements, rt_product_scratch(&projection, environment->threads),
                             &prepared->scratch_bytes);
        if (fits && k->directions == 2 && environment->threads > 1 &&
            (double)rows * (double)wide * (double)(k->input + k->hidden) >= RT_PARALLEL_WORK) {
            size_t both;
            fits = base_size_add(elements, rt_product_scratch(&projection, 1), &k->direction_bytes) &&
                   base_size_align(k->direction_bytes, RT_ALIGNMENT, &k->direction_bytes) &&
                   base_size_multiply(k->direction_bytes, 2, &both);
            if (fits && both > prepared->scratch_bytes) prepared->scratch_bytes = both;
        }
    }
    if (half) {
        size_t copy;
        fits = fits && base_size_align(prepared->scratch_bytes, RT_ALIGNMENT, &prepared->scratch_bytes);
        k->inner_bytes = prepared->scratch_bytes;
        for (uint32_t i = 0; fits && i < call->input_count + call->output_count; i++) {
            const op_type *type =
                i < call->input_count ? &call->inputs[i].type : &call->outputs[i - call->input_count].type;
            if (rt_is_half(type->dtype))
                fits = float_copy_bytes(type, &copy) &&
                       base_size_add(prepared->scratch_bytes, copy, &prepared->scratch_bytes);
        }
    }
    if (!fits) return base_fail(report, BASE_INVALID, "the tensors are too large");
    prepared->state = k;
    prepared->run = half ? run_half : dtype == OP_FLOAT ? run_float : run_double;
    return BASE_OK;
}

const rt_kernel rt_kernel_recurrent = {
    .name = "portable.recurrent", .accepts = accepts, .prefer = prefer, .pack = pack, .prepare = prepare};

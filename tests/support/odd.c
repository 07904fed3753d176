/* SPDX-License-Identifier: Apache-2.0 */
/* odd.c: see odd.h. */
#include "tests/support/odd.h"
#include "ir/operators/small.h"
#include "runtime/kernels/portable/kernels.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_ATTRIBUTES = 24 };

static bool chance(test_random *random, int64_t of) {
    return test_random_below(random, of) == 0;
}

/* ---- drawing ------------------------------------------------------------------------------------------- */

static op_dtype draw_dtype(test_random *random) {
    static const op_dtype usual[] = {OP_FLOAT, OP_FLOAT, OP_FLOAT, OP_INT64,
                                     OP_INT64, OP_INT32, OP_BOOL,  OP_UINT8};
    if (chance(random, 3)) return (op_dtype)(1 + test_random_below(random, OP_DTYPE_COUNT - 1));
    return usual[test_random_below(random, (int64_t)(sizeof usual / sizeof *usual))];
}

static op_shape draw_shape(test_random *random) {
    op_shape shape = {.rank = (int32_t)test_random_below(random, 6)};
    for (int32_t d = 0; d < shape.rank; d++)
        shape.dims[d] = chance(random, 8) ? 0 : 1 + test_random_below(random, 4);
    return shape;
}

/* Often the shape before, or nearly so: else nothing ever fits. */
static op_shape draw_next_shape(test_random *random, const op_shape *before) {
    op_shape shape = *before;
    switch (test_random_below(random, 6)) {
    case 0:
        return draw_shape(random);
    case 1:
        return (op_shape){.rank = 1, .dims = {before->rank}};
    case 2:
        return (op_shape){.rank = (int32_t)test_random_below(random, 2), .dims = {1}};
    case 3:
        if (shape.rank) shape.dims[test_random_below(random, shape.rank)] = test_random_below(random, 6);
        return shape;
    case 4:
        if (shape.rank)
            return (op_shape){.rank = 1, .dims = {shape.dims[test_random_below(random, shape.rank)]}};
        return shape;
    default:
        return shape;
    }
}

static int64_t draw_integer(test_random *random) {
    static const int64_t far[] = {INT64_MIN, INT64_MAX,        INT32_MIN,
                                  INT32_MAX, (int64_t)1 << 40, -((int64_t)1 << 31) - 1};
    if (chance(random, 12)) return far[test_random_below(random, (int64_t)(sizeof far / sizeof *far))];
    return test_random_below(random, 8) - 3;
}

void odd_fill(test_random *random, op_tensor *tensor) {
    const op_dtype dtype = tensor->type.dtype;
    const int64_t count = test_elements(tensor);
    test_fill(tensor, random);
    for (int64_t i = 0; i < count && dtype == OP_INT64; i++)
        ((int64_t *)tensor->data)[i] = draw_integer(random);
    for (int64_t i = 0; i < count && dtype == OP_INT32; i++)
        ((int32_t *)tensor->data)[i] = (int32_t)test_random_below(random, 8) - 3;
    for (int64_t i = 0; i < count && dtype == OP_FLOAT; i++)
        if (chance(random, 30)) ((float *)tensor->data)[i] = chance(random, 2) ? 1e30f : NAN;
}

/* A number that is no index, no bound and no length. */
static void set_hostile(test_random *random, op_tensor *tensor, int64_t index) {
    static const double reals[] = {(double)NAN,
                                   (double)INFINITY,
                                   -(double)INFINITY,
                                   1e300,
                                   -1e300,
                                   3.4e38,
                                   -3.4e38,
                                   1e19,
                                   -1e19,
                                   9.3e18,
                                   4.3e9,
                                   -2.2e9,
                                   65504,
                                   1e-300,
                                   1e-45,
                                   -1e-45,
                                   -0.0,
                                   0x1p53,
                                   0x1p31,
                                   -0x1p63,
                                   1e10,
                                   0.99999,
                                   -0.00001,
                                   1e6};
    static const int64_t integers[] = {INT64_MIN,
                                       INT64_MAX,
                                       INT64_MIN + 1,
                                       INT64_MAX - 1,
                                       INT32_MIN,
                                       INT32_MAX,
                                       UINT32_MAX,
                                       -1,
                                       0,
                                       (int64_t)1 << 53,
                                       ((int64_t)1 << 53) + 1,
                                       -129,
                                       32768,
                                       -(int64_t)UINT32_MAX,
                                       (int64_t)1 << 62};
    const op_dtype dtype = tensor->type.dtype;
    if (test_is_real(dtype)) {
        test_set(tensor, index, reals[test_random_below(random, (int64_t)(sizeof reals / sizeof *reals))]);
    } else if (op_dtype_is_small(dtype)) {
        op_small_store(dtype, tensor->data, index, (uint8_t)test_random_next(random));
    } else if (dtype != OP_STRING && dtype != OP_BOOL && dtype != OP_COMPLEX64 && dtype != OP_COMPLEX128) {
        rt_integer_store(
            dtype, tensor->data, index,
            (uint64_t)integers[test_random_below(random, (int64_t)(sizeof integers / sizeof *integers))]);
    }
}

void odd_fill_hostile(test_random *random, op_tensor *tensor) {
    const op_dtype dtype = tensor->type.dtype;
    const int64_t count = test_elements(tensor), style = test_random_below(random, 4);
    if (count && style == 0) { /* one value everywhere */
        const size_t size = op_dtype_bytes(dtype);
        set_hostile(random, tensor, 0);
        for (int64_t i = 1; i < count; i++)
            memcpy((char *)tensor->data + (size_t)i * size, tensor->data, size);
    } else if (style == 1 && dtype != OP_STRING && dtype != OP_BOOL) {
        for (size_t i = 0; i < tensor->bytes; i++)
            ((uint8_t *)tensor->data)[i] = (uint8_t)test_random_next(random);
    } else {
        for (int64_t i = 0; i < count; i++)
            if (style == 2 || chance(random, 3)) set_hostile(random, tensor, i);
    }
}

/* In memory of its own, to the byte. */
static op_tensor draw_tensor(test_random *random, op_dtype dtype, const op_shape *shape) {
    op_tensor tensor = {.type = {.dtype = dtype, .shape = *shape}};
    assert_true(op_type_bytes(&tensor.type, &tensor.bytes));
    if (tensor.bytes) assert_int_equal(posix_memalign(&tensor.data, RT_ALIGNMENT, tensor.bytes), 0);
    odd_fill(random, &tensor);
    return tensor;
}

static void draw_attribute(test_random *random, const char *name, char kind, op_attribute *to,
                           base_arena *arena) {
    static const char *const words[] = {
        "none",     "add",     "mul",        "nearest",       "linear",     "cubic",
        "constant", "reflect", "edge",       "SAME_UPPER",    "VALID",      "SAME_LOWER",
        "DCR",      "CRD",     "bilinear",   "zeros",         "border",     "reflection",
        "LEFT",     "RIGHT",   "max",        "avg",           "forward",    "reverse",
        "",         "sum",     "mean",       "ij,jk->ik",     "...i,i...",  "bidirectional",
        "Tanh",     "Relu",    "half_pixel", "align_corners", "asymmetric", "ab->ba"};
    /* Mostly what two spatial dimensions need. */
    bool usual = !chance(random, 4);
    const size_t count = !usual ? (size_t)test_random_below(random, 6) : strcmp(name, "pads") == 0 ? 4 : 2;
    *to = (op_attribute){.name = name, .count = count};
    switch (kind) {
    case 'i':
        to->kind = OP_ATTRIBUTE_INT;
        to->as.integer = !usual                             ? draw_integer(random)
                         : strcmp(name, "hidden_size") == 0 ? 2
                         : strcmp(name, "group") == 0       ? 1 + test_random_below(random, 2)
                                                            : test_random_below(random, 3);
        break;
    case 'f':
        to->kind = OP_ATTRIBUTE_FLOAT;
        to->as.real = chance(random, 8) ? 1e30f : (float)(test_random_below(random, 9) - 3) / 2;
        break;
    case 's':
        to->kind = OP_ATTRIBUTE_STRING;
        to->as.text.data = words[test_random_below(random, (int64_t)(sizeof words / sizeof *words))];
        to->as.text.length = strlen(to->as.text.data);
        break;
    case 'I': {
        int64_t *list = BASE_ARRAY(arena, int64_t, count);
        for (size_t i = 0; i < count; i++)
            list[i] = usual ? 1 + test_random_below(random, 2) : draw_integer(random);
        to->kind = OP_ATTRIBUTE_INTS;
        to->as.integers = list;
        break;
    }
    case 'F': {
        float *list = BASE_ARRAY(arena, float, count);
        for (size_t i = 0; i < count; i++) list[i] = (float)(test_random_below(random, 9) - 3) / 2;
        to->kind = OP_ATTRIBUTE_FLOATS;
        to->as.reals = list;
        break;
    }
    case 'S': {
        op_string *list = BASE_ARRAY(arena, op_string, count);
        for (size_t i = 0; i < count; i++) {
            list[i].data = words[test_random_below(random, (int64_t)(sizeof words / sizeof *words))];
            list[i].length = strlen(list[i].data);
        }
        to->kind = OP_ATTRIBUTE_STRINGS;
        to->as.texts = list;
        break;
    }
    default: {
        op_tensor *tensor = BASE_NEW(arena, op_tensor);
        op_shape one = {.rank = 1, .dims = {1}};
        *tensor = test_tensor(arena, draw_dtype(random), &one);
        to->kind = OP_ATTRIBUTE_TENSOR;
        to->as.tensor = tensor;
    }
    }
}

/* Some of those that files may set. */
static op_attributes draw_attributes(test_random *random, const op_schema *row, base_arena *arena) {
    op_attribute *items = BASE_ARRAY(arena, op_attribute, MOST_ATTRIBUTES);
    op_attributes all = {0, items};
    for (const char *at = row->attributes; *at;) {
        const char *colon = strchr(at, ':');
        bool internal = strncmp(at, "ouro.", 5) == 0;
        if (!internal && !chance(random, 3) && all.count < MOST_ATTRIBUTES)
            draw_attribute(random, base_arena_text(arena, at, (size_t)(colon - at)), colon[1],
                           &items[all.count++], arena);
        at = colon + 2;
        while (*at == ' ') at++;
    }
    return all;
}

/* What makes sense, for operators that chance hardly ever serves: a letter for the type, then the dimensions;
 * '*' is the type of input 0. */
typedef struct sense {
    op_code code;
    const char *inputs;
} sense;

static const sense senses[] = {
    {OP_ADAGRAD, "f i1 f23 f23 f23"},
    {OP_ADAM, "f i1 f23 f23 f23 f23"},
    {OP_MOMENTUM, "f i1 f23 f23 f23"},
    {OP_BATCH_NORMALIZATION, "f2334 f3 f3 f3 f3"},
    {OP_CONV, "f2455 f6233 f6"},
    {OP_CONV, "f146 f242"},
    {OP_CONV_INTEGER, "u2455 u6233 u u6"},
    {OP_QLINEAR_CONV, "u1255 f u u4233 f4 u4 f u t4"},
    {OP_QLINEAR_MATMUL, "u23 f u u34 f4 u4 f u"},
    {OP_MATMUL_INTEGER, "u23 u34 u u4"},
    {OP_CONV_TRANSPOSE, "f1433 f4222 f2"},
    {OP_CONV_TRANSPOSE, "f145 f422"},
    {OP_MAX_POOL, "f1255"},
    {OP_MAX_POOL, "f125"},
    {OP_AVERAGE_POOL, "f1255"},
    {OP_LRN, "f1422"},
    {OP_RNN, "f323 f123 f122 f14 t2 f122"},
    {OP_GRU, "f323 f163 f162 f1c t2 f122"},
    {OP_LSTM, "f323 f183 f182 f1g t2 f122 f122 f16"},
    {OP_GRID_SAMPLE, "f2345 f2332"},
    {OP_RESIZE, "f1144 f8 f4"},
    {OP_RESIZE, "f1144 - - i4"},
    {OP_ROI_ALIGN, "f2244 f34 i3"},
    {OP_MAX_ROI_POOL, "f2244 f35"},
    {OP_MAX_UNPOOL, "f1122 i1122 i4"},
    {OP_NON_MAX_SUPPRESSION, "f254 f235 i f1 f"},
    {OP_MEL_WEIGHT_MATRIX, "i i i f f"},
    {OP_STFT, "f281 i f4 i"},
    {OP_DFT, "f2532 i"},
    {OP_EINSUM, "f23 f34"},
    {OP_ONE_HOT, "i23 i *2"},
    {OP_TF_IDF_VECTORIZER, "i26"},
    {OP_BIT_SHIFT, "u23 u13"},
    {OP_REVERSE_SEQUENCE, "f432 i3"},
    {OP_SCATTER_ELEMENTS, "f34 i23 f23"},
    {OP_SCATTER_ND, "f345 i22 f25"},
    {OP_GATHER_ND, "f345 i22"},
    {OP_GATHER_ELEMENTS, "f345 i325"},
    {OP_GEMM, "f23 f34 f14"},
    {OP_MATMUL, "f223 f34"},
    {OP_PAD, "f23 i4 f"},
    {OP_SLICE, "f345 i2 i2 i2 i2"},
    {OP_TOP_K, "f34 i1"},
    {OP_WHERE, "b34 f14 f31"},
    {OP_COMPRESS, "f34 b3"},
    {OP_CONCAT, "f34 f34 f34"},
    {OP_TILE, "f34 i2"},
    {OP_EXPAND, "f31 i3"},
    {OP_RESHAPE, "f34 i2"},
    {OP_RANGE, "i i i"},
    {OP_QUANTIZE_LINEAR, "f34 f4 u4"},
    {OP_DEQUANTIZE_LINEAR, "u34 f4 u4"},
    {OP_MULTINOMIAL, "f34"},
    {OP_DET, "f233"},
    {OP_TRILU, "f234 i"},
    {OP_CUM_SUM, "f34 i"},
    {OP_DEPTH_TO_SPACE, "f1823"},
    {OP_SPACE_TO_DEPTH, "f1244"},
    {OP_PRELU, "f234 f31"},
    {OP_CONSTANT_OF_SHAPE, "i2"},
    {OP_SPLIT, "f64 i2"},
};

static op_dtype dtype_of(char letter, op_dtype first) {
    return letter == 'f'   ? OP_FLOAT
           : letter == 'i' ? OP_INT64
           : letter == 't' ? OP_INT32
           : letter == 'u' ? OP_UINT8
           : letter == 'b' ? OP_BOOL
                           : first;
}

/* Types and shapes of the inputs by what makes sense, but for one thing or two. False: nothing is known of it. */
static bool draw_sensible(test_random *random, op_code code, op_type inputs[ODD_INPUTS], uint32_t *count) {
    const char *found[4];
    int64_t kinds = 0;
    for (size_t i = 0; i < sizeof senses / sizeof *senses; i++)
        if (senses[i].code == code && kinds < 4) found[kinds++] = senses[i].inputs;
    if (!kinds) return false;
    const char *at = found[test_random_below(random, kinds)];
    for (*count = 0; *at && *count < ODD_INPUTS; (*count)++) {
        op_type *type = &inputs[*count];
        *type = (op_type){.dtype = *at == '-' ? OP_NONE : dtype_of(*at, inputs[0].dtype)};
        for (at++; *at && *at != ' '; at++)
            type->shape.dims[type->shape.rank++] = *at <= '9' ? *at - '0' : *at - 'a' + 10;
        if (*at) at++;
    }
    const op_schema *row = op_schema_of(code);
    while ((int)*count > row->input_minimum && chance(random, 4)) --*count;
    for (int64_t changes = test_random_below(random, 3); changes > 0; changes--) {
        op_type *type = &inputs[test_random_below(random, *count)];
        int32_t rank = type->shape.rank;
        switch (test_random_below(random, 5)) {
        case 0:
            type->dtype = draw_dtype(random);
            break;
        case 1:
            if (rank < 5) type->shape.dims[type->shape.rank++] = 1 + test_random_below(random, 3);
            break;
        case 2:
            if (rank > 0) type->shape.rank--;
            break;
        default:
            if (rank > 0) type->shape.dims[test_random_below(random, rank)] = test_random_below(random, 7);
        }
    }
    return true;
}

/* ---- making -------------------------------------------------------------------------------------------- */

bool odd_is_tried(op_code code) {
    const op_schema *row = op_schema_of(code);
    return !(row->flags & OP_FLAG_GRAPHS) && strcmp(row->domain, "ouro") != 0;
}

void odd_draw(odd_application *app, op_code code, uint64_t number) {
    const op_schema *row = op_schema_of(code);
    test_random random = {number};
    *app = (odd_application){0};
    base_arena_init(&app->arena, NULL);
    op_call *call = &app->call;
    *call = (op_call){.code = code, .inputs = app->inputs, .outputs = app->outputs, .arena = &app->arena};
    int most = row->input_maximum < 0 || row->input_maximum > ODD_INPUTS ? ODD_INPUTS : row->input_maximum;
    call->input_count =
        (uint32_t)(row->input_minimum + test_random_below(&random, most - row->input_minimum + 1));
    most = row->output_maximum < 0 || row->output_maximum > ODD_OUTPUTS ? ODD_OUTPUTS : row->output_maximum;
    call->output_count =
        (uint32_t)(row->output_minimum + test_random_below(&random, most - row->output_minimum + 1));
    op_type types[ODD_INPUTS] = {0};
    if (chance(&random, 4) || !draw_sensible(&random, code, types, &call->input_count)) {
        op_shape shape = draw_shape(&random);
        op_dtype dtype = draw_dtype(&random);
        for (uint32_t i = 0; i < call->input_count; i++) {
            if (i) shape = draw_next_shape(&random, &shape);
            bool other = i && chance(&random, 2);
            types[i] = (op_type){.dtype = !other               ? dtype
                                          : chance(&random, 2) ? OP_INT64
                                                               : draw_dtype(&random),
                                 .shape = shape};
        }
    }
    for (uint32_t i = 0; i < call->input_count; i++) {
        bool absent = (int)i >= row->input_minimum && chance(&random, 8);
        if (!absent && types[i].dtype != OP_NONE)
            app->inputs[i] = draw_tensor(&random, types[i].dtype, &types[i].shape);
    }
    call->attributes = draw_attributes(&random, row, &app->arena);
}

bool odd_infer(odd_application *app) {
    op_call *call = &app->call;
    base_report report = {0};
    op_tensor hidden[ODD_INPUTS];
    for (uint32_t i = 0; i < call->input_count; i++) {
        hidden[i] = call->inputs[i];
        hidden[i].data = NULL;
    }
    op_call blind = *call;
    blind.inputs = hidden;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < call->output_count; i++) call->outputs[i] = (op_tensor){0};
        if (op_infer(pass ? call : &blind, &report) != BASE_OK) {
            if (!report.count) fail_msg("%s is refused without a word", op_schema_of(call->code)->name);
            return false;
        }
    }
    return true;
}

bool odd_take_outputs(odd_application *app) {
    op_call *call = &app->call;
    const bool measured = op_schema_of(call->code)->flags & OP_FLAG_DYNAMIC;
    size_t total = 0;
    for (uint32_t i = 0; i < call->output_count; i++) {
        op_tensor *output = &call->outputs[i];
        if (output->type.dtype == OP_NONE) continue;
        if (!op_type_bytes(&output->type, &output->bytes)) {
            if (!measured) return false;
            continue;
        }
        if (!base_size_add(total, output->bytes, &total) || total > ODD_LARGEST) return false;
        if (output->bytes && !measured) {
            assert_int_equal(posix_memalign(&output->data, RT_ALIGNMENT, output->bytes), 0);
            app->owned[i] = output->data;
        }
    }
    return true;
}

/* The kernel says how large its outputs are; memory for these. */
static bool measure_outputs(odd_application *app, const rt_prepared *prepared, void *scratch,
                            base_report *report) {
    op_call *call = &app->call;
    for (uint32_t i = 0; i < call->output_count; i++) call->outputs[i].data = NULL;
    if (prepared->kernel->measure(prepared, call->inputs, call->outputs, scratch, report) != BASE_OK)
        return false;
    for (uint32_t i = 0; i < call->output_count; i++) {
        op_tensor *output = &call->outputs[i];
        if (output->type.dtype == OP_NONE) continue;
        if (!op_type_bytes(&output->type, &output->bytes) || output->bytes > ODD_LARGEST) return false;
        free(app->owned[i]);
        app->owned[i] = NULL;
        if (output->bytes) assert_int_equal(posix_memalign(&app->owned[i], RT_ALIGNMENT, output->bytes), 0);
        output->data = app->owned[i];
    }
    return true;
}

bool odd_run(odd_application *app, const rt_kernel *kernel, const rt_environment *environment, bool known) {
    base_report report = {0};
    op_tensor hidden[ODD_INPUTS], types[ODD_OUTPUTS];
    op_call call = app->call;
    memcpy(types, app->outputs, sizeof types);
    for (uint32_t i = 0; i < call.input_count; i++) {
        hidden[i] = call.inputs[i];
        if (!known) hidden[i].data = NULL;
    }
    call.inputs = hidden;
    rt_prepared prepared;
    void *scratch = NULL;
    bool done = rt_kernel_prepare(kernel, &call, environment, &app->arena, &prepared, &report) == BASE_OK;
    if (done && prepared.scratch_bytes)
        assert_int_equal(posix_memalign(&scratch, RT_ALIGNMENT, prepared.scratch_bytes), 0);
    bool large = false;
    if (done && kernel->measure) {
        done = measure_outputs(app, &prepared, scratch, &report);
        large = !done && !report.count;
    }
    done = done && prepared.run(&prepared, app->call.inputs, app->call.outputs, scratch, &report) == BASE_OK;
    if (!done && !large && !report.count) fail_msg("%s fails without a word", kernel->name);
    rt_kernel_release(&prepared);
    free(scratch);
    if (kernel->measure) memcpy(app->outputs, types, sizeof types);
    return done;
}

void odd_free(odd_application *app) {
    for (uint32_t i = 0; i < ODD_INPUTS; i++) free(app->inputs[i].data);
    for (uint32_t i = 0; i < ODD_OUTPUTS; i++) free(app->owned[i]);
    base_arena_free(&app->arena);
}

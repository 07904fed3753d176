/* SPDX-License-Identifier: Apache-2.0 */
/* application.c: see application.h. */
#include "tests/support/application.h"
#include "runtime/kernels/base/x86.h"
#include "tests/support/allocations.h"
#include "runtime/kernels/portable/product.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

uint64_t random_next(uint64_t *seed) {
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return *seed * 0x2545f4914f6cdd1du;
}

int64_t random_range(uint64_t *seed, int64_t low, int64_t high) {
    return low + (int64_t)(random_next(seed) >> 33) % (high - low + 1);
}

float random_float(uint64_t *seed) {
    return (float)((double)(random_next(seed) >> 40) / (double)(1 << 23) - 1.0);
}

void application_init(application *app, op_code code) {
    memset(app, 0, sizeof *app);
    base_arena_init(&app->arena, NULL);
    app->call = (op_call){.code = code,
                          .attributes = {.items = app->attributes},
                          .output_count = 1,
                          .inputs = app->inputs,
                          .outputs = app->outputs,
                          .arena = &app->arena};
}

void application_free(application *app) {
    base_arena_free(&app->arena);
}

void *application_memory(application *app, size_t bytes) {
    void *memory = rt_arena_aligned(&app->arena, bytes);
    assert_non_null(memory);
    return memory;
}

void *application_input(application *app, op_dtype dtype, int32_t rank, const int64_t *dims) {
    op_tensor *tensor = &app->inputs[app->call.input_count++];
    assert_true(app->call.input_count <= APPLICATION_INPUTS);
    *tensor = (op_tensor){.type = {.dtype = dtype, .shape = {.rank = rank}}};
    for (int32_t i = 0; i < rank; i++) tensor->type.shape.dims[i] = dims[i];
    if (!op_type_bytes(&tensor->type, &tensor->bytes)) return NULL; /* symbolic */
    return tensor->data = application_memory(app, tensor->bytes);
}

void *application_random(application *app, op_dtype dtype, int32_t rank, const int64_t *dims,
                         uint64_t *seed) {
    void *data = application_input(app, dtype, rank, dims);
    int64_t count;
    assert_true(op_shape_elements(&app->inputs[app->call.input_count - 1].type.shape, &count));
    for (int64_t i = 0; i < count; i++) {
        switch (dtype) {
        case OP_INT32:
            ((int32_t *)data)[i] = (int32_t)random_range(seed, -9, 9);
            break;
        case OP_INT64:
            ((int64_t *)data)[i] = random_range(seed, -9, 9);
            break;
        case OP_UINT32:
            ((uint32_t *)data)[i] = (uint32_t)random_range(seed, 0, 9);
            break;
        case OP_UINT64:
            ((uint64_t *)data)[i] = (uint64_t)random_range(seed, 0, 9);
            break;
        case OP_INT8:
            ((int8_t *)data)[i] = (int8_t)random_range(seed, -128, 127);
            break;
        case OP_UINT8:
            ((uint8_t *)data)[i] = (uint8_t)random_range(seed, 0, 255);
            break;
        default:
            rt_element_store(dtype, data, i, (double)random_float(seed));
        }
    }
    return data;
}

void application_absent(application *app) {
    app->inputs[app->call.input_count++] = (op_tensor){.type = {.dtype = OP_NONE}};
}

static op_attribute *add_attribute(application *app, const char *name, op_attribute_kind kind) {
    size_t count = app->call.attributes.count++;
    assert_true(count < APPLICATION_ATTRIBUTES);
    app->attributes[count] = (op_attribute){.name = name, .kind = kind, .count = 1};
    return &app->attributes[count];
}

void application_integer(application *app, const char *name, int64_t value) {
    add_attribute(app, name, OP_ATTRIBUTE_INT)->as.integer = value;
}

void application_real(application *app, const char *name, float value) {
    add_attribute(app, name, OP_ATTRIBUTE_FLOAT)->as.real = value;
}

void application_text(application *app, const char *name, const char *value) {
    add_attribute(app, name, OP_ATTRIBUTE_STRING)->as.text = (op_string){value, strlen(value)};
}

void application_texts(application *app, const char *name, size_t count, const char *const *values) {
    op_string *texts = BASE_ARRAY(&app->arena, op_string, count);
    assert_non_null(texts);
    for (size_t i = 0; i < count; i++) texts[i] = (op_string){values[i], strlen(values[i])};
    op_attribute *attribute = add_attribute(app, name, OP_ATTRIBUTE_STRINGS);
    attribute->count = count;
    attribute->as.texts = texts;
}

void application_integers(application *app, const char *name, size_t count, const int64_t *values) {
    int64_t *copy = BASE_ARRAY(&app->arena, int64_t, count);
    assert_non_null(copy);
    memcpy(copy, values, count * sizeof *values);
    op_attribute *attribute = add_attribute(app, name, OP_ATTRIBUTE_INTS);
    attribute->count = count;
    attribute->as.integers = copy;
}

void application_gemm(application *app, op_dtype dtype, int64_t m, int64_t k, int64_t n, bool turn_a,
                      bool turn_b, int64_t form, uint64_t *seed) {
    application_init(app, OP_GEMM);
    application_random(app, dtype, 2, turn_a ? DIMS(k, m) : DIMS(m, k), seed);
    application_random(app, dtype, 2, turn_b ? DIMS(n, k) : DIMS(k, n), seed);
    if (form == 1) application_random(app, dtype, 0, NULL, seed);
    if (form == 2) application_random(app, dtype, 1, DIMS(n), seed);
    if (form == 3) application_random(app, dtype, 2, DIMS(m, 1), seed);
    if (form == 4) application_random(app, dtype, 2, DIMS(m, n), seed);
    if (form == 5) application_random(app, dtype, 2, DIMS(1, n), seed);
    application_integer(app, "transA", turn_a);
    application_integer(app, "transB", turn_b);
}

base_status application_infer(application *app) {
    base_report_clear(&app->report);
    return op_infer(&app->call, &app->report);
}

void application_run(application *app, const char *kernel, int threads) {
    /* Portable kernels as in a plan for any machine. */
    rt_environment environment = {.threads = threads,
                                  .portable_only = strncmp(kernel, "portable.", strlen("portable.")) == 0};
    if (app->outputs[0].type.dtype == OP_NONE && application_infer(app) != BASE_OK)
        fail_msg("%s", app->report.text);
    const rt_kernel *found = rt_kernel_find(kernel);
    if (!found) fail_msg("there is no kernel %s", kernel);
    if (!found->accepts(&app->call, &environment)) fail_msg("%s does not accept", kernel);
    bool packed = false;
    for (uint32_t i = 0; i < app->call.input_count; i++)
        packed = packed || app->inputs[i].type.layout == OP_LAYOUT_PACKED;
    assert_true(packed || !found->only_packed);
    for (uint32_t i = 0; i < app->call.output_count; i++) {
        op_tensor *output = &app->outputs[i];
        if (output->data || output->type.dtype == OP_NONE) continue;
        assert_true(op_type_bytes(&output->type, &output->bytes));
        output->data = application_memory(app, output->bytes);
        memset(output->data, 0xff, output->bytes); /* a NaN in every float that is not written */
    }
    rt_prepared prepared;
    if (rt_kernel_prepare(found, &app->call, &environment, &app->arena, &prepared, &app->report) != BASE_OK) {
        fail_msg("%s: %s", kernel, app->report.text);
    }
    void *scratch = prepared.scratch_bytes ? application_memory(app, prepared.scratch_bytes) : NULL;
    if (prepared.run(&prepared, app->inputs, app->outputs, scratch, &app->report) != BASE_OK) {
        fail_msg("%s: %s", kernel, app->report.text);
    }
    rt_kernel_release(&prepared);
}

bool application_machine_is_wide(void) {
#if RT_X86_KERNELS
    return __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

static void run_on_scratch(application *app, rt_prepared *prepared, const op_tensor *inputs,
                           op_tensor *output, int threads, void *scratch) {
    rt_threads_warm(threads);
    const size_t before = allocations_count();
    assert_int_equal(prepared->run(prepared, inputs, output, scratch, &app->report), BASE_OK);
    assert_int_equal(allocations_count(), before);
    rt_kernel_release(prepared);
}

void application_run_prepared(application *app, rt_prepared *prepared, const op_tensor *inputs,
                              op_tensor *output, int threads) {
    assert_int_equal(prepared->scratch_bytes, 0);
    run_on_scratch(app, prepared, inputs, output, threads, NULL);
}

/* Weights in the form of the kernel, which come back from it. */
static void pack_weights(application *app, const rt_kernel *kernel, const rt_environment *environment,
                         const op_call *call, op_tensor *weights, size_t packed_bytes) {
    weights->type.layout = OP_LAYOUT_PACKED;
    weights->bytes = weights->type.packed_bytes = packed_bytes;
    weights->data = application_memory(app, packed_bytes);
    memset(weights->data, 0, packed_bytes);
    assert_int_equal(kernel->pack(call, environment, 1, &app->inputs[1], weights->data, &app->report),
                     BASE_OK);
    op_tensor back = app->inputs[1];
    back.data = application_memory(app, back.bytes);
    assert_int_equal(kernel->unpack(call, environment, 1, weights, back.data, &app->report), BASE_OK);
    assert_memory_equal(back.data, app->inputs[1].data, back.bytes);
}

op_tensor application_packed(application *app, const rt_kernel *kernel, op_layout from, op_layout to,
                             size_t packed_bytes, int threads, bool in_place) {
    const rt_environment environment = {.threads = threads};
    op_tensor inputs[APPLICATION_INPUTS], output = app->outputs[0];
    op_call call = app->call;
    memcpy(inputs, app->inputs, sizeof inputs);
    call.inputs = inputs;
    call.outputs = &output;
    inputs[0] = application_reordered(app, &app->inputs[0], from);
    if (call.input_count > 3) inputs[3] = application_reordered(app, &app->inputs[3], to);
    output.type.layout = to;
    assert_true(op_type_bytes(&output.type, &output.bytes));
    if (packed_bytes) pack_weights(app, kernel, &environment, &call, &inputs[1], packed_bytes);
    else inputs[1].data = NULL; /* only a run has them */
    assert_true(kernel->accepts(&call, &environment));
    output.data = application_memory(app, output.bytes);
    memset(output.data, 0x7f, output.bytes);
    if (in_place) {
        memcpy(output.data, inputs[3].data, output.bytes);
        inputs[3].data = output.data;
    }
    rt_prepared prepared;
    assert_int_equal(rt_kernel_prepare(kernel, &call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    enum { GUARD = 64 };
    const size_t bytes = prepared.scratch_bytes;
    unsigned char *scratch = application_memory(app, bytes + GUARD);
    memset(scratch, 0xff, bytes + GUARD); /* NaN, as floats */
    if (!packed_bytes) inputs[1].data = app->inputs[1].data;
    run_on_scratch(app, &prepared, inputs, &output, threads, bytes ? scratch : NULL);
    for (size_t i = 0; i < GUARD; i++) assert_int_equal(scratch[bytes + i], 0xff);
    const op_tensor plain = application_reordered(app, &output, OP_LAYOUT_ROW_MAJOR);
    const op_tensor again = application_reordered(app, &plain, to); /* whose padding is zeros */
    assert_memory_equal(again.data, output.data, output.bytes);
    return plain;
}

double application_element(const op_tensor *tensor, int64_t index) {
    switch (tensor->type.dtype) {
    case OP_INT32:
        return ((const int32_t *)tensor->data)[index];
    case OP_INT64:
        return (double)((const int64_t *)tensor->data)[index];
    case OP_UINT32:
        return ((const uint32_t *)tensor->data)[index];
    case OP_UINT64:
        return (double)((const uint64_t *)tensor->data)[index];
    default:
        return rt_element_load(tensor->type.dtype, tensor->data, index);
    }
}

double application_tolerance(op_dtype dtype) {
    return dtype == OP_DOUBLE ? 1e-12 : dtype == OP_FLOAT ? 1e-5 : dtype == OP_FLOAT16 ? 2e-3 : 1.6e-2;
}

op_tensor application_floats(application *app, const char *kernel) {
    application *floats = application_memory(app, sizeof *floats);
    application_init(floats, app->call.code);
    for (uint32_t i = 0; i < app->call.input_count; i++) {
        const op_tensor *input = &app->inputs[i];
        if (input->type.dtype == OP_NONE) {
            application_absent(floats);
            continue;
        }
        const bool half = input->type.dtype == OP_FLOAT16 || input->type.dtype == OP_BFLOAT16;
        float *data = application_input(floats, half ? OP_FLOAT : input->type.dtype, input->type.shape.rank,
                                        input->type.shape.dims);
        if (!half) {
            memcpy(data, input->data, input->bytes);
            continue;
        }
        int64_t count;
        assert_true(op_shape_elements(&input->type.shape, &count));
        for (int64_t k = 0; k < count; k++) data[k] = (float)application_element(input, k);
    }
    memcpy(floats->attributes, app->attributes, sizeof floats->attributes);
    floats->call.attributes = app->call.attributes;
    application_run(floats, kernel, 1);
    op_tensor made = floats->outputs[0];
    made.data = application_memory(app, made.bytes);
    memcpy(made.data, floats->outputs[0].data, made.bytes);
    floats->call.attributes = (op_attributes){0};
    application_free(floats);
    return made;
}

void application_check_near(double got, double want, double relative, uint64_t seed, int64_t index) {
    if (got == want || fabs(got - want) <= relative * (1 + fabs(want))) return;
    fail_msg("seed %" PRIu64 ": element %" PRId64 " is %.9g, expected %.9g", seed, index, got, want);
}

void application_expect_failure(application *app, const char *message) {
    assert_int_equal(application_infer(app), BASE_INVALID);
    if (!strstr(app->report.text, message))
        fail_msg("message \"%s\" lacks \"%s\"", app->report.text, message);
    application_free(app);
}

void application_expect_shape(application *app, int32_t rank, const int64_t *dims) {
    if (application_infer(app) != BASE_OK) fail_msg("%s", app->report.text);
    const op_shape *shape = &app->outputs[0].type.shape;
    assert_int_equal(shape->rank, rank);
    for (int32_t i = 0; i < rank; i++) assert_int_equal(shape->dims[i], dims[i]);
    application_free(app);
}

op_tensor application_reordered(application *app, const op_tensor *from, op_layout layout) {
    if (from->type.layout == layout) return *from;
    application change;
    application_init(&change, OP_REORDER);
    change.inputs[0] = *from;
    change.call.input_count = 1;
    application_integer(&change, "ouro.layout", (int64_t)layout);
    application_run(&change, "portable.reorder", 1);
    op_tensor to = change.outputs[0];
    to.data = application_memory(app, to.bytes);
    memcpy(to.data, change.outputs[0].data, to.bytes);
    application_free(&change);
    return to;
}

op_tensor application_run_blocks(application *app, const char *name, op_layout layout, size_t scratch_limit,
                                 int64_t blocks, int threads, bool in_place) {
    const rt_kernel *kernel = rt_kernel_find(name);
    const rt_environment environment = {.threads = threads};
    op_tensor inputs[APPLICATION_INPUTS], output = {.type = app->outputs[0].type};
    op_attribute attributes[APPLICATION_ATTRIBUTES + 1];
    op_call call = app->call;
    rt_cost cost;
    memcpy(inputs, app->inputs, sizeof inputs);
    call.inputs = inputs;
    call.outputs = &output;
    inputs[0] = application_reordered(app, &app->inputs[0], layout);
    if (op_input_present(&app->call, 3)) inputs[3] = application_reordered(app, &app->inputs[3], layout);
    output.type.layout = layout;
    if (!kernel->estimate(&call, &environment, scratch_limit, &cost))
        fail_msg("no estimate for this application");
    assert_true(cost.blocks >= 1 && cost.seconds > 0 && cost.scratch_bytes <= scratch_limit);
    const op_attributes *given = &app->call.attributes;
    memcpy(attributes, app->attributes, given->count * sizeof *attributes);
    attributes[given->count] = (op_attribute){.name = "ouro.blocks",
                                              .kind = OP_ATTRIBUTE_INT,
                                              .count = 1,
                                              .as.integer = blocks ? blocks : cost.blocks};
    call.attributes = (op_attributes){.items = attributes, .count = given->count + 1};
    op_tensor packed = {.type = inputs[1].type, .bytes = cost.packed_bytes};
    packed.type.layout = OP_LAYOUT_PACKED;
    packed.type.packed_bytes = cost.packed_bytes;
    packed.data = application_memory(app, packed.bytes);
    memset(packed.data, 0, packed.bytes);
    inputs[1] = packed;
    assert_int_equal(kernel->pack(&call, &environment, 1, &app->inputs[1], packed.data, &app->report),
                     BASE_OK);
    assert_true(kernel->accepts(&call, &environment));
    rt_prepared prepared;
    assert_int_equal(rt_kernel_prepare(kernel, &call, &environment, &app->arena, &prepared, &app->report),
                     BASE_OK);
    if (!blocks) assert_int_equal(prepared.scratch_bytes, cost.scratch_bytes);
    char *scratch = application_memory(app, prepared.scratch_bytes + 1);
    memset(scratch, 0x7f, prepared.scratch_bytes);
    scratch[prepared.scratch_bytes] = 77;
    assert_true(op_type_bytes(&output.type, &output.bytes));
    output.data = in_place ? inputs[3].data : application_memory(app, output.bytes);
    if (!in_place) memset(output.data, 0x7f, output.bytes);
    rt_threads_warm(threads);
    const size_t before = allocations_count();
    assert_int_equal(prepared.run(&prepared, inputs, &output, scratch, &app->report), BASE_OK);
    assert_int_equal(allocations_count(), before);
    assert_int_equal(scratch[prepared.scratch_bytes], 77);
    rt_kernel_release(&prepared);
    const op_tensor plain = application_reordered(app, &output, OP_LAYOUT_ROW_MAJOR);
    /* Channels that pad a block are zeros. */
    const op_tensor again = application_reordered(app, &plain, layout);
    assert_memory_equal(again.data, output.data, output.bytes);
    return plain;
}

void application_check_blocks(application *app, const char *name, const char *plain, op_layout layout,
                              bool residual, uint64_t seed) {
    enum { MOST_THREADS = 5, MOST_BLOCKS = 3 };
    application_run(app, plain, 1);
    const op_tensor expected = app->outputs[0];
    const op_tensor all = application_run_blocks(app, name, layout, SIZE_MAX, 1, 1, false);
    const double near = expected.type.dtype == OP_FLOAT ? 1e-4 : 4e-3;
    int64_t count;
    assert_true(op_shape_elements(&expected.type.shape, &count));
    for (int64_t k = 0; k < count; k++)
        application_check_near(application_element(&all, k), application_element(&expected, k), near, seed,
                               k);
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        for (int64_t blocks = 0; blocks <= MOST_BLOCKS; blocks++) {
            const bool in_place = residual && threads == MOST_THREADS && blocks == MOST_BLOCKS;
            const op_tensor other =
                application_run_blocks(app, name, layout, SIZE_MAX, blocks, threads, in_place);
            if (memcmp(all.data, other.data, all.bytes) != 0)
                fail_msg("seed %" PRIu64 ", %d threads, %" PRId64 " blocks: another result", seed, threads,
                         blocks);
        }
    }
}

void application_draw_activation(application *app, int kinds, uint64_t *seed) {
    static const char *const activations[] = {"",        "Relu",  "LeakyRelu", "Clip",
                                              "Sigmoid", "Swish", "HardSwish", "Tanh"};
    const char *activation = activations[random_range(seed, 0, kinds - 1)];
    if (activation[0]) application_text(app, "ouro.activation", activation);
    application_real(app, "ouro.alpha", -0.25f);
    application_real(app, "ouro.beta", 0.75f);
}

static int64_t at_least_one(int64_t number) {
    return number > 1 ? number : 1;
}

bool application_estimates_square(const char *name, const application_square *of, size_t scratch_limit,
                                  rt_cost *cost) {
    const rt_environment environment = {.threads = 1, .portable_only = of->portable_only};
    const op_dtype dtype = of->dtype ? of->dtype : OP_FLOAT;
    const int64_t kernel = at_least_one(of->kernel), stride = at_least_one(of->stride),
                  dilation = at_least_one(of->dilation), group = at_least_one(of->group),
                  pad = kernel / 2 * dilation;
    application app;
    application_init(&app, OP_CONV);
    application_input(&app, dtype, 4, DIMS(1, of->channels, of->extent, of->extent));
    application_input(&app, dtype, 4,
                      DIMS(of->filters ? of->filters : of->channels, of->channels / group, kernel, kernel));
    application_integers(&app, "strides", 2, DIMS(stride, stride));
    application_integers(&app, "pads", 4, DIMS(pad, pad, pad, pad));
    application_integers(&app, "dilations", 2, DIMS(dilation, dilation));
    application_integer(&app, "group", group);
    assert_int_equal(application_infer(&app), BASE_OK);
    app.inputs[0].type.layout = app.outputs[0].type.layout = of->layout;
    const bool estimated = rt_kernel_find(name)->estimate(&app.call, &environment, scratch_limit, cost);
    application_free(&app);
    return estimated;
}

double application_square_ratio(const char *name, const char *other, const application_square *of) {
    rt_cost cost, others;
    assert_true(application_estimates_square(name, of, SIZE_MAX, &cost));
    assert_true(application_estimates_square(other, of, SIZE_MAX, &others));
    return cost.seconds / others.seconds;
}

void application_draw_product(application *app, op_dtype dtype, int64_t rows, uint64_t *seed) {
    static const char *const activations[] = {"", "Relu", "Clip", "Gelu", "Swish"};
    const bool gemm = random_range(seed, 0, 1), turned = gemm && random_range(seed, 0, 1);
    const int64_t depth = random_range(seed, 32, 900), columns = random_range(seed, 16, 200);
    application_init(app, gemm ? OP_GEMM : OP_MATMUL);
    if (gemm) application_random(app, dtype, 2, DIMS(rows, depth), seed);
    else application_random(app, dtype, 3, DIMS(1, rows, depth), seed);
    application_random(app, dtype, 2, turned ? DIMS(columns, depth) : DIMS(depth, columns), seed);
    if (random_range(seed, 0, 1)) application_random(app, dtype, 1, DIMS(columns), seed);
    if (turned) application_integer(app, "transB", 1);
    if (gemm && random_range(seed, 0, 1)) application_real(app, "alpha", 0.5f);
    const char *activation = activations[random_range(seed, 0, 4)];
    if (activation[0]) application_text(app, "ouro.activation", activation);
    application_real(app, "ouro.alpha", activation[0] == 'C' ? -0.25f : 1);
    application_real(app, "ouro.beta", 0.75f);
}

bool application_estimates_product(const char *name, int64_t rows, int64_t depth, int64_t columns,
                                   op_dtype dtype, bool portable_only) {
    const rt_environment environment = {.threads = 1, .portable_only = portable_only};
    rt_cost cost;
    application app;
    application_init(&app, OP_MATMUL);
    application_input(&app, dtype, 2, DIMS(rows, depth));
    application_input(&app, dtype, 2, DIMS(depth, columns));
    assert_int_equal(application_infer(&app), BASE_OK);
    const bool estimated = rt_kernel_find(name)->estimate(&app.call, &environment, SIZE_MAX, &cost);
    application_free(&app);
    return estimated;
}

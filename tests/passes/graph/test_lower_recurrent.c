/* SPDX-License-Identifier: Apache-2.0 */
/* test_lower_recurrent.c: RNN, GRU and LSTM as loops against the kernel, which test_operators_recurrent.c compares with
 * their equations: all attributes, random shapes; the seed is printed. And what the loops are: nothing is copied. */
#include "compiler/report/loop.h"
#include "runtime/executor.h"
#include "tests/support/support.h"
#include "tests/support/application.h"
#include "tests/support/plan.h"
#include "tests/support/writer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CASES = 150, MOST_NAMES = 6 };

typedef struct recurrent_case {
    op_code code;
    op_dtype dtype;
    int64_t sequence, batch, input, hidden, directions, gates;
    bool reverse, batch_first, linear_before_reset, input_forget, peepholes, bias, initial, lengths, clipped;
    bool wanted[3];
    const char *names[MOST_NAMES];
    size_t name_count;
} recurrent_case;

static const char *const all_names[] = {
    "Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
    "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};

static bool flip(uint64_t *seed) {
    return random_range(seed, 0, 1);
}

static recurrent_case draw(uint64_t *seed) {
    static const op_code codes[] = {OP_RNN, OP_GRU, OP_LSTM};
    recurrent_case k = {.code = codes[random_range(seed, 0, 2)],
                        .dtype = random_range(seed, 0, 3) ? OP_FLOAT : OP_DOUBLE,
                        .sequence = random_range(seed, 1, 7),
                        .batch = random_range(seed, 1, 4),
                        .input = random_range(seed, 1, 9),
                        .directions = random_range(seed, 1, 2)};
    const size_t each = k.code == OP_LSTM ? 3 : k.code == OP_GRU ? 2 : 1;
    k.gates = k.code == OP_LSTM ? 4 : k.code == OP_GRU ? 3 : 1;
    k.hidden = random_range(seed, 1, 70);
    k.reverse = k.directions == 1 && flip(seed);
    k.batch_first = flip(seed);
    k.linear_before_reset = k.code == OP_GRU && flip(seed);
    k.input_forget = k.code == OP_LSTM && !random_range(seed, 0, 2);
    k.peepholes = k.code == OP_LSTM && flip(seed);
    k.bias = flip(seed);
    k.initial = flip(seed);
    k.lengths = !random_range(seed, 0, 2);
    k.clipped = !random_range(seed, 0, 2);
    do
        for (int o = 0; o < 3; o++) k.wanted[o] = (o < 2 || k.code == OP_LSTM) && flip(seed);
    while (!k.wanted[0] && !k.wanted[1] && !k.wanted[2]);
    if (flip(seed)) k.name_count = each * (size_t)k.directions;
    if (k.name_count)
        k.clipped = true; /* or gates without bounds would soon leave only infinities to compare */
    for (size_t i = 0; i < k.name_count; i++) k.names[i] = all_names[random_range(seed, 0, 10)];
    return k;
}

/* The inputs as the operator has them: absent ones have no rank. */
typedef struct input_shape {
    const char *name;
    int32_t rank;
    int64_t dims[3];
} input_shape;

static void list_inputs(const recurrent_case *k, input_shape inputs[8]) {
    const int64_t wide = k->gates * k->hidden, d = k->directions, a = k->batch_first ? k->batch : d,
                  b = k->batch_first ? d : k->batch;
    memset(inputs, 0, 8 * sizeof *inputs);
    inputs[0] = (input_shape){
        "x", 3, {k->batch_first ? k->batch : k->sequence, k->batch_first ? k->sequence : k->batch, k->input}};
    inputs[1] = (input_shape){"w", 3, {d, wide, k->input}};
    inputs[2] = (input_shape){"r", 3, {d, wide, k->hidden}};
    if (k->bias) inputs[3] = (input_shape){"b", 2, {d, 2 * wide}};
    if (k->lengths) inputs[4] = (input_shape){"n", 1, {k->batch}};
    if (k->initial) inputs[5] = (input_shape){"h", 3, {a, b, k->hidden}};
    if (k->initial && k->code == OP_LSTM) inputs[6] = (input_shape){"c", 3, {a, b, k->hidden}};
    if (k->peepholes) inputs[7] = (input_shape){"p", 2, {d, 3 * k->hidden}};
}

static const char *direction_name(const recurrent_case *k) {
    return k->directions == 2 ? "bidirectional" : k->reverse ? "reverse" : "forward";
}

/* The kernel's results. */
static void apply(const recurrent_case *k, application *app, uint64_t *seed) {
    static const float parameters[] = {0.75f, 0.5f};
    input_shape inputs[8];
    list_inputs(k, inputs);
    application_init(app, k->code);
    app->call.output_count = k->code == OP_LSTM ? 3 : 2;
    for (int i = 0; i < (k->code == OP_LSTM ? 8 : 6); i++) {
        if (!inputs[i].rank) {
            application_absent(app);
        } else if (i == 4) {
            int32_t *lengths = application_input(app, OP_INT32, 1, inputs[i].dims);
            for (int64_t b = 0; b < k->batch; b++) lengths[b] = (int32_t)random_range(seed, 0, k->sequence);
        } else {
            (void)application_random(app, k->dtype, inputs[i].rank, inputs[i].dims, seed);
            op_tensor *tensor = &app->inputs[i];
            size_t elements = tensor->bytes / op_dtype_bytes(k->dtype);
            /* Sums of so many terms would leave nothing to see of a gate. */
            for (size_t e = 0; e < elements; e++) {
                if (k->dtype == OP_DOUBLE) ((double *)tensor->data)[e] *= i == 2 ? 0.1 : 1;
                else ((float *)tensor->data)[e] *= i == 2 ? 0.1f : 1;
            }
        }
    }
    application_integer(app, "hidden_size", k->hidden);
    application_text(app, "direction", direction_name(k));
    if (k->batch_first) application_integer(app, "layout", 1);
    if (k->linear_before_reset) application_integer(app, "linear_before_reset", 1);
    if (k->input_forget) application_integer(app, "input_forget", 1);
    if (k->clipped) application_real(app, "clip", 0.5f);
    op_string names[MOST_NAMES];
    for (size_t i = 0; i < k->name_count; i++) names[i] = (op_string){k->names[i], strlen(k->names[i])};
    if (k->name_count) {
        application_text(app, "activations", "");
        op_attribute *attribute = &app->attributes[app->call.attributes.count - 1];
        attribute->kind = OP_ATTRIBUTE_STRINGS;
        attribute->count = k->name_count;
        attribute->as.texts = names;
        for (int which = 0; which < 2; which++) {
            application_real(app, which ? "activation_beta" : "activation_alpha", 0);
            attribute = &app->attributes[app->call.attributes.count - 1];
            attribute->kind = OP_ATTRIBUTE_FLOATS;
            attribute->count = 2;
            attribute->as.reals = parameters;
        }
    }
    assert_int_equal(application_infer(app), BASE_OK);
    application_run(app, "portable.recurrent", 1);
}

static void write_type(support_writer *to, const recurrent_case *k, const char *name, const op_shape *shape,
                       bool lengths) {
    support_write(to, "%%%s: %s[", name, lengths ? "int32" : k->dtype == OP_DOUBLE ? "float64" : "float32");
    for (int32_t d = 0; d < shape->rank; d++)
        support_write(to, "%s%lld", d ? "," : "", (long long)shape->dims[d]);
    support_write(to, "]");
}

static void write_module(const recurrent_case *k, const application *app, char *text, size_t capacity) {
    static const char *const outputs[] = {"y", "yh", "yc"};
    input_shape inputs[8];
    list_inputs(k, inputs);
    support_writer to = support_writer_on(text, capacity);
    support_write(&to, "module \"recurrent\" {\n graph main(");
    bool first = true;
    for (int i = 0; i < 8; i++) {
        if (!inputs[i].rank) continue;
        if (!first) support_write(&to, ", ");
        write_type(&to, k, inputs[i].name, &app->inputs[i].type.shape, i == 4);
        first = false;
    }
    support_write(&to, ") {\n  ");
    const int count = k->code == OP_LSTM ? 3 : 2;
    for (int o = 0; o < count; o++) {
        if (o) support_write(&to, ", ");
        write_type(&to, k, outputs[o], &app->outputs[o].type.shape, false);
    }
    support_write(&to, " = %s(", op_schema_of(k->code)->name);
    for (int i = 0; i < (k->code == OP_LSTM ? 8 : 6); i++)
        support_write(&to, "%s%s%s", i ? ", " : "", inputs[i].rank ? "%" : "_",
                      inputs[i].rank ? inputs[i].name : "");
    support_write(&to, ") {hidden_size = %lld, direction = \"%s\"", (long long)k->hidden, direction_name(k));
    if (k->batch_first) support_write(&to, ", layout = 1");
    if (k->linear_before_reset) support_write(&to, ", linear_before_reset = 1");
    if (k->input_forget) support_write(&to, ", input_forget = 1");
    if (k->clipped) support_write(&to, ", clip = 0.5");
    for (size_t i = 0; i < k->name_count; i++)
        support_write(&to, "%s\"%s\"%s", i ? ", " : ", activations = [", k->names[i],
                      i + 1 < k->name_count ? "" : "]");
    if (k->name_count) support_write(&to, ", activation_alpha = [0.75, 0.5], activation_beta = [0.75, 0.5]");
    support_write(&to, "}\n  yield ");
    first = true;
    for (int o = 0; o < count; o++) {
        if (!k->wanted[o]) continue;
        support_write(&to, "%s%%%s", first ? "" : ", ", outputs[o]);
        first = false;
    }
    support_write(&to, "\n } }\n");
}

static void check_case(uint64_t seed) {
    recurrent_case k = draw(&seed);
    application app;
    support_session on;
    static char text[4096];
    apply(&k, &app, &seed);
    write_module(&k, &app, text, sizeof text);
    const pass_options options = {.recurrent = PASS_RECURRENT_LOOPS,
                                  .environment = {.threads = 1, .portable_only = flip(&seed)}};
    support_session_open_with(&on, text, &options);
    const plan *of = rt_plan_of(on.plan);
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        if (plan_node_code(of, &of->nodes[n]) == k.code) fail_msg("it is no loop:\n%s", text);
    }
    size_t index = 0;
    for (uint32_t i = 0; i < app.call.input_count; i++) {
        if (app.inputs[i].type.dtype != OP_NONE)
            support_bind(&on, index++, app.inputs[i].data, app.inputs[i].bytes);
    }
    support_run(&on);
    index = 0;
    for (uint32_t o = 0; o < 3; o++) {
        if (!k.wanted[o]) continue;
        op_tensor found = app.outputs[o];
        found.data = (void *)(uintptr_t)support_output(&on, index++, found.bytes);
        size_t elements = found.bytes / op_dtype_bytes(k.dtype);
        for (size_t e = 0; e < elements; e++) {
            double is = application_element(&found, (int64_t)e),
                   wanted = application_element(&app.outputs[o], (int64_t)e);
            if (fabs(is - wanted) <= 2e-4 * (1 + fabs(wanted))) continue;
            fail_msg("output %u, element %zu: %g, expected %g\n%s", o, e, is, wanted, text);
        }
    }
    support_session_close(&on);
    application_free(&app);
}

static void loops_compute_what_kernels_do(void **state) {
    (void)state;
    const uint64_t first = 20270;
    print_message("%d cases from seed %llu on\n", CASES, (unsigned long long)first);
    for (uint64_t i = 0; i < CASES; i++) check_case((first + i) * BASE_RANDOM_STEP);
}

/* One LSTM of either direction, and its loop. */
static void nothing_is_copied(void **state) {
    (void)state;
    for (int reverse = 0; reverse < 2; reverse++) {
        char text[1024];
        support_writer to = support_writer_on(text, sizeof text);
        support_write(
            &to,
            "module \"one\" { graph main(%%x: float32[9,1,20], %%w: float32[1,1040,20], %%r: "
            "float32[1,1040,260]) {\n"
            " %%y: float32[9,1,1,260], %%h: float32[1,1,260], %%c: float32[1,1,260] = LSTM(%%x, %%w, %%r) "
            "{direction = "
            "\"%s\", hidden_size = 260}\n yield %%y } }\n",
            reverse ? "reverse" : "forward");
        size_t size, loops = 0;
        ouro_plan *opened;
        unsigned char *bytes = support_plan(text, true, &size);
        assert_int_equal(ouro_plan_open(bytes, size, &opened, NULL), OURO_OK);
        const plan *of = rt_plan_of(opened);
        for (uint32_t n = 0; n < of->header->nodes.count; n++) {
            emit_loop loop;
            if (plan_node_code(of, &of->nodes[n]) != OP_LOOP) continue;
            assert_true(emit_loop_measure(of, n, &loop));
            assert_int_equal(loop.iteration_bytes, 0);
            assert_int_equal(loop.entry_bytes, 0);
            loops++;
        }
        assert_int_equal(loops, 1);
        ouro_plan_free(opened);
        free(bytes);
    }
}

/* A step of few multiplications, 16-bit floats and shapes that are open stay with the kernel; a single step does not. */
static void some_stay_with_the_kernel(void **state) {
    (void)state;
    static const char *const types[][4] = {
        {"float32[9,1,4]", "float32[1,24,4]", "float32[1,24,6]", "float32[1,1,6]"},
        {"float16[9,1,20]", "float16[1,1040,20]", "float16[1,1040,260]", "float16[1,1,260]"},
        {"float32[?,1,20]", "float32[1,1040,20]", "float32[1,1040,260]", "float32[1,1,260]"},
        {"float32[1,1,20]", "float32[1,1040,20]", "float32[1,1040,260]", "float32[1,1,260]"}};
    for (int i = 0; i < 4; i++) {
        char text[1024];
        support_writer to = support_writer_on(text, sizeof text);
        support_write(&to,
                      "module \"stays\" { graph main(%%x: %s, %%w: %s, %%r: %s) {\n"
                      " _, %%h: %s = LSTM(%%x, %%w, %%r) {hidden_size = %d}\n yield %%h } }\n",
                      types[i][0], types[i][1], types[i][2], types[i][3], i ? 260 : 6);
        size_t size;
        ouro_plan *opened;
        unsigned char *bytes = support_plan(text, true, &size);
        assert_int_equal(ouro_plan_open(bytes, size, &opened, NULL), OURO_OK);
        const plan *of = rt_plan_of(opened);
        if (i < 3) assert_int_equal(of->header->nodes.count, 1);
        for (uint32_t n = 0; n < of->header->nodes.count; n++)
            assert_int_equal(plan_node_code(of, &of->nodes[n]) == OP_LSTM, i < 3);
        ouro_plan_free(opened);
        free(bytes);
    }
}

/* A GRU of `batch` sequences with constant weights: whether the kernel that packs them runs it, as no loop. */
static bool is_packed(int batch, int hidden, int threads, bool portable) {
    const size_t elements = (size_t)(3 * hidden) * (size_t)(hidden + 1), capacity = 4 * elements + 1024;
    char *text = malloc(capacity);
    assert_non_null(text);
    size_t at = 0;
    at += (size_t)snprintf(text, capacity, "module \"packed\" {\n");
    for (int matrix = 0; matrix < 2; matrix++) {
        const int depth = matrix ? hidden : 1;
        at += (size_t)snprintf(text + at, capacity - at, " constant %%%s: float32[1,%d,%d] = {1",
                               matrix ? "r" : "w", 3 * hidden, depth);
        for (int e = 1; e < 3 * hidden * depth; e++) at += (size_t)snprintf(text + at, capacity - at, ",0");
        at += (size_t)snprintf(text + at, capacity - at, "}\n");
    }
    snprintf(text + at, capacity - at,
             "graph main(%%x: float32[9,%d,1]) {\n %%y: float32[9,1,%d,%d] = GRU(%%x, %%w, %%r) "
             "{hidden_size = %d}\n yield %%y } }\n",
             batch, batch, hidden, hidden);
    const pass_options options = {.environment = {.threads = threads, .portable_only = portable}};
    size_t size;
    ouro_plan *opened;
    unsigned char *bytes = support_plan_with(text, &options, &size);
    assert_int_equal(ouro_plan_open(bytes, size, &opened, NULL), OURO_OK);
    const bool found = support_count_kernel(rt_plan_of(opened), "portable.packed_recurrent") > 0;
    ouro_plan_free(opened);
    free(bytes);
    free(text);
    return found;
}

/* Constant weights are packed, on machines for which that is measured; a single sequence on several threads is a loop, whose products these
 * share. */
static void constant_weights_are_packed(void **state) {
    (void)state;
    enum { FEW = 80, MANY = 320 };
    const bool here = support_wants_panels();
    assert_int_equal(is_packed(4, FEW, 1, false), here);
    assert_int_equal(is_packed(4, FEW, 2, false), here);
    assert_int_equal(is_packed(1, MANY, 1, false), here);
    assert_false(is_packed(1, MANY, 2, false));
    assert_false(is_packed(4, FEW, 1, true));
    assert_int_equal(is_packed(4, 6, 1, false), here);
    assert_int_equal(is_packed(4, 33, 1, false), here); /* a third of its panels is empty */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_compute_what_kernels_do), cmocka_unit_test(nothing_is_copied),
        cmocka_unit_test(some_stay_with_the_kernel), cmocka_unit_test(constant_weights_are_packed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

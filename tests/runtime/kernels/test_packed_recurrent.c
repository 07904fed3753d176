/* SPDX-License-Identifier: Apache-2.0 */
/* test_packed_recurrent.c: LSTM and GRU with weights in panels beside the kernel that reads them as they are, which
 * test_operators_recurrent.c compares with the equations: random shapes around the edges of panels, tiles and chunks of steps;
 * weights in 16 bits, which give what they are as floats; models in 16 bits; bits that do not depend on threads
 * or on what comes after the ends of sequences; NaN and infinities; what is left to others.
 */
#include "runtime/kernels/portable/kernels.h"
#include "tests/support/allocations.h"
#include "tests/support/application.h"
#include "tests/support/operators.h"
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { ROUNDS = 200, SCALE_DEPTH = 64, FEW_BYTES = 1 << 14 };

static const rt_environment one_thread = {.threads = 1};

typedef struct recurrence {
    op_code code;
    int64_t sequence, batch, input, hidden, directions, gates;
    bool bias, states, lengths;
} recurrence;

/* More than half of its panels is full, or they are small. */
static bool fits(const recurrence *k) {
    const int64_t units = (k->hidden + 15) / 16 * 16;
    return 2 * k->hidden > units ||
           units * k->gates * (k->input + k->hidden) * (int64_t)sizeof(float) <= FEW_BYTES;
}

static recurrence draw_sizes(uint64_t *seed) {
    recurrence k = {.code = random_range(seed, 0, 1) ? OP_LSTM : OP_GRU,
                    .directions = random_range(seed, 1, 2),
                    .input = random_range(seed, 1, 150),
                    .hidden =
                        random_range(seed, 0, 3) ? random_range(seed, 1, 80) : random_range(seed, 1, 16),
                    .bias = random_range(seed, 0, 3),
                    .states = random_range(seed, 0, 2),
                    .lengths = random_range(seed, 0, 2) == 0};
    k.gates = k.code == OP_LSTM ? 4 : 3;
    const int64_t kind = random_range(seed, 0, 5);
    k.sequence = kind == 0 ? 1 : kind == 1 ? random_range(seed, 90, 110) : random_range(seed, 2, 30);
    k.batch = kind == 2 ? random_range(seed, 8, 30) : random_range(seed, 0, 2) ? 1 : random_range(seed, 2, 7);
    if (kind == 3) k.input = 1024; /* rows a page apart */
    while (!fits(&k)) k.hidden++;
    return k;
}

/* Weights of such a size that what is lost of a sum does not grow from step to step. */
static void scale_weights(op_tensor *weights, int64_t depth) {
    float *data = weights->data;
    for (size_t i = 0; i < weights->bytes / sizeof *data; i++) data[i] *= 1 / sqrtf((float)depth);
}

static void begin(application *app, const recurrence *k, uint64_t *seed) {
    static const char *const directions[] = {"forward", "reverse"};
    const int64_t wide = k->gates * k->hidden;
    application_init(app, k->code);
    application_random(app, OP_FLOAT, 3, DIMS(k->sequence, k->batch, k->input), seed);
    application_random(app, OP_FLOAT, 3, DIMS(k->directions, wide, k->input), seed);
    application_random(app, OP_FLOAT, 3, DIMS(k->directions, wide, k->hidden), seed);
    scale_weights(&app->inputs[1], k->input);
    scale_weights(&app->inputs[2], k->hidden);
    if (k->bias) application_random(app, OP_FLOAT, 2, DIMS(k->directions, 2 * wide), seed);
    else application_absent(app);
    if (k->lengths) {
        int32_t *lengths = application_input(app, OP_INT32, 1, DIMS(k->batch));
        const int64_t least = random_range(seed, 0, k->sequence);
        for (int64_t b = 0; b < k->batch; b++) lengths[b] = (int32_t)random_range(seed, least, k->sequence);
    } else {
        application_absent(app);
    }
    for (int i = 0; i < (k->code == OP_LSTM ? 2 : 1); i++) {
        if (k->states && (i == 0 || random_range(seed, 0, 3)))
            application_random(app, OP_FLOAT, 3, DIMS(k->directions, k->batch, k->hidden), seed);
        else application_absent(app);
    }
    application_text(app, "direction",
                     k->directions == 2 ? "bidirectional" : directions[random_range(seed, 0, 1)]);
    application_integer(app, "hidden_size", k->hidden);
    if (k->code == OP_GRU && random_range(seed, 0, 1)) application_integer(app, "linear_before_reset", 1);
    app->call.output_count = k->code == OP_LSTM ? 3 : 2;
}

/* The weights become what they are in 16 bits. */
static void round_weights(application *app, op_dtype dtype) {
    for (int input = 1; input <= 2; input++) {
        op_tensor *weights = &app->inputs[input];
        const int64_t depth = weights->type.shape.dims[2],
                      columns = (int64_t)(weights->bytes / sizeof(float)) / depth;
        float *data = weights->data;
        for (int64_t c = 0; c < columns; c++, data += depth) {
            for (int64_t from = 0; from < depth; from += SCALE_DEPTH) {
                const int64_t end = from + SCALE_DEPTH < depth ? from + SCALE_DEPTH : depth;
                float most = 0;
                for (int64_t i = from; i < end; i++) most = fabsf(data[i]) > most ? fabsf(data[i]) : most;
                const float scale = most / 32767;
                for (int64_t i = from; i < end; i++) {
                    data[i] = dtype == OP_INT16 ? scale > 0 ? scale * (float)lrintf(data[i] / scale) : 0
                              : dtype == OP_FLOAT16
                                  ? base_float_from_half(base_half_from_float(data[i]))
                                  : base_float_from_bfloat16(base_bfloat16_from_float(data[i]));
                }
            }
        }
    }
}

static const rt_kernel *kernel_of(const application *app) {
    return rt_kernel_of(app->call.code, "portable.packed_recurrent");
}

/* The application with its weights packed, as the kernel wishes. */
static void pack(application *app, op_call *call, op_tensor *inputs) {
    const rt_kernel *kernel = kernel_of(app);
    rt_preference wish = {0};
    *call = app->call;
    memcpy(inputs, app->inputs, sizeof app->inputs);
    call->inputs = inputs;
    if (!kernel->prefer(call, &one_thread, &wish)) {
        /* In floats it has a wish on some machines only; in 16 bits on all, from which the sizes in floats follow. */
        op_attribute other[APPLICATION_ATTRIBUTES];
        memcpy(other, app->attributes, sizeof other);
        other[call->attributes.count] = (op_attribute){
            .name = "ouro.weights_type", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = OP_BFLOAT16};
        op_call halves = *call;
        halves.attributes = (op_attributes){call->attributes.count + 1, other};
        assert_true(kernel->prefer(&halves, &one_thread, &wish));
        wish.packed_bytes[1] *= 2;
        wish.packed_bytes[2] *= 2;
    }
    for (uint32_t i = 1; i <= 3; i++) {
        if (!op_input_present(call, i)) continue;
        assert_int_equal(wish.inputs[i], OP_LAYOUT_PACKED);
        inputs[i].type.layout = OP_LAYOUT_PACKED;
        inputs[i].type.packed_bytes = wish.packed_bytes[i];
    }
    for (uint32_t i = 1; i <= 3; i++) {
        if (!op_input_present(call, i)) continue;
        inputs[i].data = application_memory(app, wish.packed_bytes[i]);
        memset(inputs[i].data, 0, wish.packed_bytes[i]);
        assert_int_equal(kernel->pack(call, &one_thread, i, &app->inputs[i], inputs[i].data, &app->report),
                         BASE_OK);
    }
    assert_true(kernel->accepts(call, &one_thread));
}

/* Runs on memory that has something in it; absent outputs stay absent. */
static void run(application *app, const op_call *call, int threads, op_tensor outputs[3]) {
    const rt_environment environment = {.threads = threads};
    rt_prepared prepared;
    for (uint32_t o = 0; o < call->output_count; o++) {
        outputs[o] = app->outputs[o];
        if (outputs[o].type.dtype == OP_NONE) continue;
        outputs[o].data = application_memory(app, outputs[o].bytes);
        memset(outputs[o].data, 0x7f, outputs[o].bytes);
    }
    op_call own = *call;
    own.outputs = outputs;
    assert_int_equal(
        rt_kernel_prepare(kernel_of(app), &own, &environment, &app->arena, &prepared, &app->report), BASE_OK);
    enum { BEYOND = 4096 }; /* bytes that are nobody's */
    unsigned char *scratch = application_memory(app, prepared.scratch_bytes + BEYOND);
    memset(scratch, 0x7f, prepared.scratch_bytes + BEYOND);
    rt_threads_warm(threads);
    const size_t before = allocations_count();
    assert_int_equal(prepared.run(&prepared, call->inputs, outputs, scratch, &app->report), BASE_OK);
    assert_int_equal(allocations_count(), before);
    for (size_t i = prepared.scratch_bytes; i < prepared.scratch_bytes + BEYOND; i++)
        assert_int_equal(scratch[i], 0x7f);
    rt_kernel_release(&prepared);
}

static void computes_the_same(void **state) {
    (void)state;
    static const op_dtype types[] = {OP_FLOAT, OP_FLOAT, OP_FLOAT16, OP_BFLOAT16, OP_INT16};
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        const recurrence k = draw_sizes(&seed);
        const op_dtype stored = types[round % 5];
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS], outputs[3], others[3];
        begin(&app, &k, &seed);
        if (stored != OP_FLOAT) {
            round_weights(&app, stored);
            application_integer(&app, "ouro.weights_type", stored);
        }
        assert_int_equal(application_infer(&app), BASE_OK);
        application_run(&app, "portable.recurrent", 1);
        const int64_t absent = random_range(&seed, 0, app.call.output_count); /* the last: none */
        if (absent < app.call.output_count) app.outputs[absent].type.dtype = OP_NONE;
        pack(&app, &call, inputs);
        run(&app, &call, 1, outputs);
        run(&app, &call, 2 + (int)(round % 3), others);
        for (uint32_t o = 0; o < app.call.output_count; o++) {
            if (app.outputs[o].type.dtype == OP_NONE) continue;
            const float *want = app.outputs[o].data, *got = outputs[o].data;
            for (size_t i = 0; i < outputs[o].bytes / sizeof *got; i++)
                application_check_near(got[i], want[i], 2e-5, round, (int64_t)i);
            if (memcmp(got, others[o].data, outputs[o].bytes) != 0)
                fail_msg("seed %" PRIu64 ": threads change output %u", round, o);
        }
        application_free(&app);
    }
}

/* A few steps of many units, so little work that directions have no threads of their own: the units may have some even so. */
static void few_steps_on_many_threads(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 24; round++) {
        uint64_t seed = round;
        const recurrence k = {.code = round % 2 ? OP_LSTM : OP_GRU,
                              .sequence = random_range(&seed, 2, 4),
                              .batch = random_range(&seed, 1, 2),
                              .input = random_range(&seed, 1, 8),
                              .hidden = random_range(&seed, 100, 150),
                              .directions = 1 + (int64_t)(round / 2 % 2),
                              .gates = round % 2 ? 4 : 3,
                              .bias = true};
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS], outputs[3], others[3];
        begin(&app, &k, &seed);
        assert_int_equal(application_infer(&app), BASE_OK);
        application_run(&app, "portable.recurrent", 1);
        pack(&app, &call, inputs);
        run(&app, &call, 1, outputs);
        for (int threads = 2; threads <= 5; threads++) {
            run(&app, &call, threads, others);
            for (uint32_t o = 0; o < app.call.output_count; o++)
                if (memcmp(outputs[o].data, others[o].data, outputs[o].bytes) != 0)
                    fail_msg("seed %" PRIu64 ": %d threads change output %u", round, threads, o);
        }
        application_free(&app);
    }
}

/* The same application on numbers of 16 bits, which its floats become. */
static void begin_halves(application *halves, application *floats, op_dtype dtype) {
    application_init(halves, floats->call.code);
    for (uint32_t i = 0; i < floats->call.input_count; i++) {
        const op_tensor *input = &floats->inputs[i];
        if (input->type.dtype == OP_NONE) {
            application_absent(halves);
            continue;
        }
        if (input->type.dtype == OP_INT32) {
            memcpy(application_input(halves, OP_INT32, 1, input->type.shape.dims), input->data, input->bytes);
            continue;
        }
        uint16_t *data = application_input(halves, dtype, input->type.shape.rank, input->type.shape.dims);
        const int64_t count = (int64_t)(input->bytes / sizeof(float));
        rt_half_store(dtype, data, input->data, count);
        rt_half_load(dtype, input->data, data, count);
    }
    memcpy(halves->attributes, floats->attributes, sizeof halves->attributes);
    halves->call.attributes = (op_attributes){floats->call.attributes.count, halves->attributes};
    halves->call.output_count = floats->call.output_count;
}

/* A model in 16 bits: states are floats, and each result is rounded once. */
static void halves_are_rounded_once(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t seed = round;
        const recurrence k = draw_sizes(&seed);
        const op_dtype dtype = round % 2 ? OP_FLOAT16 : OP_BFLOAT16;
        application floats, halves;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS], outputs[3], others[3];
        begin(&floats, &k, &seed);
        begin_halves(&halves, &floats, dtype);
        assert_int_equal(application_infer(&floats), BASE_OK);
        assert_int_equal(application_infer(&halves), BASE_OK);
        application_run(&floats, "portable.recurrent", 1);
        for (uint32_t o = 0; o < halves.call.output_count; o++)
            assert_true(op_type_bytes(&halves.outputs[o].type, &halves.outputs[o].bytes));
        const int64_t absent = random_range(&seed, 0, halves.call.output_count);
        if (absent < halves.call.output_count) halves.outputs[absent].type.dtype = OP_NONE;
        halves.call.outputs = halves.outputs;
        rt_preference wish = {0};
        if (!kernel_of(&halves)->prefer(&halves.call, &one_thread, &wish)) skip(); /* not this machine */
        pack(&halves, &call, inputs);
        run(&halves, &call, 1, outputs);
        run(&halves, &call, 2 + (int)(round % 3), others);
        for (uint32_t o = 0; o < halves.call.output_count; o++) {
            if (halves.outputs[o].type.dtype == OP_NONE) continue;
            const size_t count = outputs[o].bytes / sizeof(uint16_t);
            for (size_t i = 0; i < count; i++)
                application_check_near(application_element(&outputs[o], (int64_t)i),
                                       (double)((const float *)floats.outputs[o].data)[i],
                                       dtype == OP_FLOAT16 ? 0x1p-10 : 0x1p-7, round, (int64_t)i);
            if (memcmp(outputs[o].data, others[o].data, outputs[o].bytes) != 0)
                fail_msg("seed %" PRIu64 ": threads change output %u", round, o);
        }
        application_free(&floats);
        application_free(&halves);
    }
}

/* Gates far from zero, and what is no number: as the kernel that does not pack. */
static void extremes_are_the_same(void **state) {
    (void)state;
    static const float values[] = {1e30f, -1e30f, 89, -89, 104, -105, INFINITY, -INFINITY, NAN, 1e-30f, 0};
    enum { VALUES = sizeof values / sizeof *values, UNITS = 32 };
    for (int form = 0; form < 3; form++) {
        for (int batch = 1; batch <= 2; batch++) {
            application app;
            uint64_t seed = 5;
            op_call call;
            op_tensor inputs[APPLICATION_INPUTS], outputs[3];
            const recurrence k = {.code = form ? OP_GRU : OP_LSTM,
                                  .sequence = 2,
                                  .batch = batch,
                                  .input = 1,
                                  .hidden = UNITS,
                                  .directions = 1,
                                  .gates = form ? 3 : 4,
                                  .bias = true};
            begin(&app, &k, &seed);
            app.call.attributes.count = 2;
            if (form == 2) application_integer(&app, "linear_before_reset", 1);
            app.attributes[0].as.text = (op_string){"forward", 7};
            memset(app.inputs[2].data, 0, app.inputs[2].bytes);
            for (int64_t i = 0; i < k.gates * UNITS; i++) {
                ((float *)app.inputs[3].data)[i] = values[(i * 7 + i / UNITS) % VALUES];
                ((float *)app.inputs[3].data)[i + k.gates * UNITS] = 0;
            }
            assert_int_equal(application_infer(&app), BASE_OK);
            application_run(&app, "portable.recurrent", 1);
            pack(&app, &call, inputs);
            run(&app, &call, 1, outputs);
            for (uint32_t o = 0; o < app.call.output_count; o++) {
                const float *want = app.outputs[o].data, *got = outputs[o].data;
                for (size_t i = 0; i < outputs[o].bytes / sizeof *got; i++) {
                    const bool same = isnan(want[i]) ? isnan(got[i])
                                      : isinf(want[i])
                                          ? want[i] == got[i]
                                          : fabsf(want[i] - got[i]) <= 1e-6f * (1 + fabsf(want[i]));
                    if (!same)
                        fail_msg("form %d, output %u, %zu: %g, not %g", form, o, i, (double)got[i],
                                 (double)want[i]);
                }
            }
            application_free(&app);
        }
    }
}

/* Each length is below the one before where there are as many: parts of the batch have any number of sequences left. */
static void stagger(int32_t *lengths, const recurrence *k) {
    for (int64_t b = 0; b < k->batch; b++) lengths[b] = (int32_t)(k->sequence - b * k->sequence / k->batch);
}

/* Few sequences of many steps and many of few, whose lengths fall or are mixed: what comes after their ends is not seen. */
static void ends_are_not_passed(void **state) {
    (void)state;
    for (uint64_t round = 1; round <= 60; round++) {
        uint64_t seed = round;
        recurrence k = draw_sizes(&seed);
        application app;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS], outputs[3], others[3];
        k.lengths = true;
        k.batch = round % 3 ? random_range(&seed, 1, 5) : random_range(&seed, 12, 40);
        k.sequence = round % 3 ? random_range(&seed, 1, 130) : random_range(&seed, 1, 12);
        k.input = random_range(&seed, 1, 40);
        while (!fits(&k)) k.hidden++;
        begin(&app, &k, &seed);
        int32_t *lengths = app.inputs[4].data;
        for (int64_t b = 1; b < k.batch && round % 2; b++)
            if (lengths[b] > lengths[b - 1]) lengths[b] = lengths[b - 1];
        if (round % 5 == 0) stagger(lengths, &k);
        assert_int_equal(application_infer(&app), BASE_OK);
        for (uint32_t o = 0; o < app.call.output_count; o++)
            assert_true(op_type_bytes(&app.outputs[o].type, &app.outputs[o].bytes));
        pack(&app, &call, inputs);
        run(&app, &call, 1, outputs);
        for (int64_t row = 0; row < k.sequence * k.batch; row++)
            for (int64_t i = 0; row / k.batch >= lengths[row % k.batch] && i < k.input; i++)
                ((float *)app.inputs[0].data)[row * k.input + i] = NAN;
        run(&app, &call, 1 + (int)(round % 4), others);
        for (uint32_t o = 0; o < app.call.output_count; o++)
            if (memcmp(outputs[o].data, others[o].data, outputs[o].bytes) != 0)
                fail_msg("seed %" PRIu64 ": output %u sees what comes after an end", round, o);
        application_free(&app);
    }
}

/* A sequence that is longer than the tensor, and one of less than nothing. */
static void lengths_are_checked(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        application app;
        uint64_t seed = 3;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        rt_prepared prepared;
        const recurrence k = {.code = OP_LSTM,
                              .sequence = 4,
                              .batch = 2,
                              .input = 8,
                              .hidden = 16,
                              .directions = 1,
                              .gates = 4,
                              .lengths = true};
        begin(&app, &k, &seed);
        assert_int_equal(application_infer(&app), BASE_OK);
        application_run(&app, "portable.recurrent", 1);
        pack(&app, &call, inputs);
        ((int32_t *)app.inputs[4].data)[1] = i ? 5 : -1;
        assert_int_equal(
            rt_kernel_prepare(kernel_of(&app), &call, &one_thread, &app.arena, &prepared, &app.report),
            BASE_OK);
        void *scratch = application_memory(&app, prepared.scratch_bytes);
        assert_int_equal(prepared.run(&prepared, call.inputs, app.outputs, scratch, &app.report),
                         BASE_INVALID);
        assert_non_null(strstr(app.report.text, "of batch 1 is outside 0 to 4"));
        rt_kernel_release(&prepared);
        application_free(&app);
    }
}

/* What has no place for its weights, or another cell. */
static void others_are_refused(void **state) {
    (void)state;
    static const char *const integers[] = {"input_forget", "layout"};
    rt_preference wish;
    for (int i = 0; i < 6; i++) {
        application app;
        uint64_t seed = 9;
        const recurrence k = {.code = OP_LSTM,
                              .sequence = 2,
                              .batch = 2,
                              .input = i == 5 ? 200 : 100,
                              .hidden = i == 5 ? 8 : 64, /* half of its panels would be empty */
                              .directions = 1,
                              .gates = 4,
                              .bias = true};
        begin(&app, &k, &seed);
        application_integer(&app, "ouro.weights_type", OP_FLOAT16);
        if (i == 0) {
            assert_int_equal(application_infer(&app), BASE_OK);
            assert_true(kernel_of(&app)->prefer(&app.call, &one_thread, &wish));
        }
        if (i == 1 || i == 2) application_integer(&app, integers[i - 1], 1);
        if (i == 3) application_real(&app, "clip", 1);
        if (i == 4) app.inputs[2].data = NULL; /* not constant */
        if (i != 4 && i != 2) assert_int_equal(application_infer(&app), BASE_OK);
        if (i > 0) assert_false(kernel_of(&app)->prefer(&app.call, &one_thread, &wish));
        assert_false(kernel_of(&app)->accepts(&app.call, &one_thread)); /* weights as they are */
        application_free(&app);
    }
}

/* Final states have the same bits where they are written over the first ones: of all types, with lengths and without, of no step, too. */
static void states_are_written_over(void **state) {
    (void)state;
    int written = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        static const op_dtype types[] = {OP_FLOAT, OP_FLOAT16, OP_BFLOAT16, OP_FLOAT};
        uint64_t seed = round;
        recurrence k = draw_sizes(&seed);
        application floats, halves, *app = &floats;
        op_call call;
        op_tensor inputs[APPLICATION_INPUTS];
        k.states = true;
        if (round % 9 == 0) k.sequence = 0;
        begin(&floats, &k, &seed);
        const op_dtype dtype = types[round % 4];
        if (dtype != OP_FLOAT) begin_halves(app = &halves, &floats, dtype);
        assert_int_equal(application_infer(app), BASE_OK);
        const int64_t absent = random_range(&seed, 0, 2 * (int64_t)app->call.output_count);
        if (absent < app->call.output_count) app->outputs[absent].type.dtype = OP_NONE;
        app->call.outputs = app->outputs;
        rt_preference wish = {0};
        if (dtype == OP_FLOAT || kernel_of(app)->prefer(&app->call, &one_thread, &wish)) {
            pack(app, &call, inputs);
            for (int threads = 1; threads <= 4; threads++)
                written += test_states_in_place(kernel_of(app), &call, &(rt_environment){.threads = threads});
        }
        if (app == &halves) application_free(&halves);
        application_free(&floats);
    }
    assert_true(written > ROUNDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computes_the_same),       cmocka_unit_test(few_steps_on_many_threads),
        cmocka_unit_test(halves_are_rounded_once), cmocka_unit_test(extremes_are_the_same),
        cmocka_unit_test(ends_are_not_passed),     cmocka_unit_test(states_are_written_over),
        cmocka_unit_test(lengths_are_checked),     cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

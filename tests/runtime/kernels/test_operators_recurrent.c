/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators_recurrent.c: RNN, GRU and LSTM against the equations of their descriptions, written down
 * once more, plainly: one number at a time, in double. Random shapes and attributes; the seed is printed. Final states have the same bits where
 * they are written over the first ones. */
#include "runtime/kernels/portable/kernels.h"
#include "tests/support/operators.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SEED = 20261, CASES = 300, LARGEST = 32768 };

static uint64_t state_of_random = SEED;
static int states_written_over;
static uint64_t random_number(uint64_t limit) {
    return base_random(&state_of_random) % limit;
}

typedef struct recurrence {
    op_code code;
    int sequence, batch, input, hidden, directions, gates;
    bool reverse, batch_first, linear_before_reset, input_forget, peepholes, bias, initial, lengths, clipped;
    float clip;
    float x[LARGEST], w[LARGEST], r[LARGEST], b[LARGEST], p[LARGEST], h0[LARGEST], c0[LARGEST];
    int32_t length[16];
    double y[LARGEST], yh[LARGEST], yc[LARGEST];
} recurrence;

static double limited(const recurrence *k, double x) {
    return !k->clipped ? x : x > k->clip ? k->clip : x < -k->clip ? -k->clip : x;
}
static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* Gate `g`, unit `j` of direction `d`: the weighted sums, of inputs and of a state. */
static double from_input(const recurrence *k, int d, int g, int j, const float *x) {
    int row = d * k->gates * k->hidden + g * k->hidden + j;
    double sum = k->bias ? k->b[d * 2 * k->gates * k->hidden + g * k->hidden + j] : 0;
    for (int i = 0; i < k->input; i++) sum += (double)k->w[row * k->input + i] * x[i];
    return sum;
}
static double from_state(const recurrence *k, int d, int g, int j, const double *h) {
    int row = d * k->gates * k->hidden + g * k->hidden + j;
    double sum = k->bias ? k->b[(d * 2 + 1) * k->gates * k->hidden + g * k->hidden + j] : 0;
    for (int i = 0; i < k->hidden; i++) sum += (double)k->r[row * k->hidden + i] * h[i];
    return sum;
}

static void step(const recurrence *k, int d, const float *x, double *h, double *c) {
    double next[64], gated[64];
    int n = k->hidden;
    for (int j = 0; j < n; j++) {
        if (k->code == OP_RNN) {
            next[j] = tanh(limited(k, from_input(k, d, 0, j, x) + from_state(k, d, 0, j, h)));
        } else if (k->code == OP_GRU) {
            double reset[64];
            for (int i = 0; i < n; i++) {
                reset[i] = sigmoid(limited(k, from_input(k, d, 1, i, x) + from_state(k, d, 1, i, h)));
                gated[i] = reset[i] * h[i];
            }
            double z = sigmoid(limited(k, from_input(k, d, 0, j, x) + from_state(k, d, 0, j, h)));
            double inner =
                k->linear_before_reset ? reset[j] * from_state(k, d, 2, j, h) : from_state(k, d, 2, j, gated);
            next[j] = (1 - z) * tanh(limited(k, from_input(k, d, 2, j, x) + inner)) + z * h[j];
        } else {
            const float *p = k->p + d * 3 * n;
            double in[4];
            for (int g = 0; g < 4; g++) in[g] = from_input(k, d, g, j, x) + from_state(k, d, g, j, h);
            double i = sigmoid(limited(k, in[0] + (k->peepholes ? p[j] * c[j] : 0)));
            double f = k->input_forget
                           ? 1 - i
                           : sigmoid(limited(k, in[2] + (k->peepholes ? p[2 * n + j] * c[j] : 0)));
            double cell = f * c[j] + i * tanh(limited(k, in[3]));
            double o = sigmoid(limited(k, in[1] + (k->peepholes ? p[n + j] * cell : 0)));
            gated[j] = cell;
            next[j] = o * tanh(cell);
        }
    }
    for (int j = 0; j < n; j++) h[j] = next[j];
    for (int j = 0; j < n && k->code == OP_LSTM; j++) c[j] = gated[j];
}

static void reference(recurrence *k) {
    int n = k->hidden;
    memset(k->y, 0, sizeof k->y);
    for (int d = 0; d < k->directions; d++) {
        for (int b = 0; b < k->batch; b++) {
            double h[64] = {0}, c[64] = {0};
            int at = (k->batch_first ? b * k->directions + d : d * k->batch + b) * n;
            for (int j = 0; j < n && k->initial; j++) {
                h[j] = k->h0[at + j];
                c[j] = k->c0[at + j];
            }
            int length = k->lengths ? k->length[b] : k->sequence;
            for (int i = 0; i < length; i++) {
                int t = k->reverse || d == 1 ? length - 1 - i : i;
                step(k, d, k->x + (k->batch_first ? b * k->sequence + t : t * k->batch + b) * k->input, h, c);
                int row = k->batch_first ? (b * k->sequence + t) * k->directions + d
                                         : (t * k->directions + d) * k->batch + b;
                for (int j = 0; j < n; j++) k->y[row * n + j] = h[j];
            }
            for (int j = 0; j < n; j++) {
                k->yh[at + j] = h[j];
                k->yc[at + j] = c[j];
            }
        }
    }
}

static void fill(float *to) {
    for (int i = 0; i < LARGEST; i++) to[i] = (float)random_number(2001) / 1000 - 1;
}

static op_tensor tensor(op_dtype dtype, void *data, int rank, int a, int b, int c, int d) {
    op_tensor made = {.type = {.dtype = dtype, .shape = {.rank = rank, .dims = {a, b, c, d}}}, .data = data};
    (void)op_type_bytes(&made.type, &made.bytes);
    return made;
}

static void check_case(recurrence *k, int threads, op_dtype type) {
    const bool wide = type == OP_DOUBLE, half = rt_is_half(type);
    int n = k->hidden, s0 = k->batch_first ? k->batch : k->directions,
        s1 = k->batch_first ? k->directions : k->batch;
    static double wide_data[8][LARGEST];
    static uint16_t half_data[8][LARGEST];
    float *parts[8] = {k->x, k->w, k->r, k->b, NULL, k->h0, k->c0, k->p};
    void *data[8];
    for (int i = 0; i < 8; i++) {
        data[i] = parts[i];
        for (int e = 0; parts[i] && wide && e < LARGEST; e++) wide_data[i][e] = parts[i][e];
        if (parts[i] && wide) data[i] = wide_data[i];
        if (parts[i] && half) {
            rt_half_store(type, half_data[i], parts[i], LARGEST);
            data[i] = half_data[i];
        }
    }
    op_tensor none = {.type = {.dtype = OP_NONE, .shape.rank = -1}};
    op_tensor inputs[8] = {
        k->batch_first ? tensor(type, data[0], 3, k->batch, k->sequence, k->input, 0)
                       : tensor(type, data[0], 3, k->sequence, k->batch, k->input, 0),
        tensor(type, data[1], 3, k->directions, k->gates * n, k->input, 0),
        tensor(type, data[2], 3, k->directions, k->gates * n, n, 0),
        k->bias ? tensor(type, data[3], 2, k->directions, 2 * k->gates * n, 0, 0) : none,
        k->lengths ? tensor(OP_INT32, k->length, 1, k->batch, 0, 0, 0) : none,
        k->initial ? tensor(type, data[5], 3, s0, s1, n, 0) : none,
        k->initial && k->code == OP_LSTM ? tensor(type, data[6], 3, s0, s1, n, 0) : none,
        k->peepholes ? tensor(type, data[7], 2, k->directions, 3 * n, 0, 0) : none,
    };
    op_tensor outputs[3] = {none, none, none};
    const char *direction = k->directions == 2 ? "bidirectional" : k->reverse ? "reverse" : "forward";
    op_attribute attributes[6] = {
        {"direction", OP_ATTRIBUTE_STRING, 1, {.text = {direction, strlen(direction)}}},
        {"hidden_size", OP_ATTRIBUTE_INT, 1, {.integer = n}},
        {"layout", OP_ATTRIBUTE_INT, 1, {.integer = k->batch_first}},
        {"linear_before_reset", OP_ATTRIBUTE_INT, 1, {.integer = k->linear_before_reset}},
        {"input_forget", OP_ATTRIBUTE_INT, 1, {.integer = k->input_forget}},
        {"clip", OP_ATTRIBUTE_FLOAT, 1, {.real = k->clip}},
    };
    base_arena arena;
    base_report report = {0};
    base_arena_init(&arena, NULL);
    op_call call = {.code = k->code,
                    .attributes = {k->clipped ? 6 : 5, attributes},
                    .input_count = k->code == OP_LSTM ? 8 : 6,
                    .output_count = k->code == OP_LSTM ? 3 : 2,
                    .inputs = inputs,
                    .outputs = outputs,
                    .arena = &arena};
    rt_environment environment = {.threads = threads};
    if (op_infer(&call, &report) != BASE_OK ||
        rt_kernel_evaluate(&call, &environment, &arena, &report) != BASE_OK) {
        fail_msg("%s", report.text);
    }
    const double *expected[3] = {k->y, k->yh, k->yc};
    double tolerance = wide ? 1e-12 : type == OP_FLOAT16 ? 1e-3 : type == OP_BFLOAT16 ? 8e-3 : 2e-5;
    for (uint32_t o = 0; o < call.output_count; o++) {
        int64_t count;
        assert_true(op_shape_elements(&outputs[o].type.shape, &count));
        for (int64_t i = 0; i < count; i++) {
            double got = 0;
            float single;
            if (wide) {
                got = ((double *)outputs[o].data)[i];
            } else if (half) {
                rt_half_load(type, &single, (uint16_t *)outputs[o].data + i, 1);
                got = (double)single;
            } else {
                got = (double)((float *)outputs[o].data)[i];
            }
            if (!(fabs(got - expected[o][i]) <= tolerance * (half ? 1 + fabs(expected[o][i]) : 1))) {
                fail_msg("%s output %u element %lld: %g, expected %g", op_schema_of(k->code)->name, o,
                         (long long)i, got, expected[o][i]);
            }
        }
    }
    const rt_kernel *kernel = rt_kernel_of(k->code, "portable.recurrent");
    for (int t = 1; t <= 3; t++)
        states_written_over += test_states_in_place(kernel, &call, &(rt_environment){.threads = t});
    base_arena_free(&arena);
}

static void test_equations(void **unused) {
    static const op_code codes[3] = {OP_RNN, OP_GRU, OP_LSTM};
    (void)unused;
    recurrence *k = malloc(sizeof *k);
    assert_non_null(k);
    printf("seed %d\n", SEED);
    for (int i = 0; i < CASES; i++) {
        memset(k, 0, sizeof *k);
        k->code = codes[i % 3];
        k->gates = k->code == OP_LSTM ? 4 : k->code == OP_GRU ? 3 : 1;
        k->sequence = i % 20 == 7 ? 0 : 1 + (int)random_number(5);
        k->batch = 1 + (int)random_number(3);
        k->input = 1 + (int)random_number(20);
        k->hidden = 1 + (int)random_number(18);
        k->directions = 1 + (int)random_number(2);
        if (i % 5 == 4) { /* one long sequence */
            k->sequence = 16 + (int)random_number(4);
            k->batch = 1;
            k->hidden = 1 + (int)random_number(60);
        }
        k->reverse = k->directions == 1 && random_number(2);
        k->batch_first = random_number(2);
        k->linear_before_reset = random_number(2);
        k->input_forget = k->code == OP_LSTM && random_number(3) == 0;
        k->peepholes = k->code == OP_LSTM && random_number(2);
        k->bias = random_number(3);
        k->initial = random_number(2);
        k->lengths = random_number(3) == 0;
        k->clipped = random_number(3) == 0;
        k->clip = 0.5f;
        for (int b = 0; b < k->batch; b++) k->length[b] = (int32_t)random_number((uint64_t)k->sequence + 1);
        float *parts[7] = {k->x, k->w, k->r, k->b, k->p, k->h0, k->c0};
        static const op_dtype types[6] = {OP_FLOAT, OP_FLOAT16, OP_FLOAT, OP_BFLOAT16, OP_DOUBLE, OP_FLOAT};
        const op_dtype type = types[i / 3 % 6];
        for (int p = 0; p < 7; p++) {
            fill(parts[p]);
            /* Errors must not grow from step to step. */
            for (int e = 0; p == 2 && k->sequence > 5 && e < LARGEST; e++) k->r[e] /= (float)k->hidden;
            for (int e = 0; rt_is_half(type) && e < LARGEST; e++) {
                uint16_t rounded;
                rt_half_store(type, &rounded, parts[p] + e, 1);
                rt_half_load(type, parts[p] + e, &rounded, 1);
            }
        }
        reference(k);
        check_case(k, 1 + i % 2, type);
    }
    assert_true(states_written_over > CASES);
    free(k);
}

static void expect_refusal(op_code code, op_tensor *inputs, uint32_t count, const op_attribute *attribute,
                           const char *part) {
    op_tensor outputs[1] = {{.type = {.dtype = OP_NONE}}};
    base_report report = {0};
    op_call call = {.code = code,
                    .attributes = {attribute ? 1 : 0, attribute},
                    .input_count = count,
                    .output_count = 1,
                    .inputs = inputs,
                    .outputs = outputs};
    assert_int_equal(op_infer(&call, &report), BASE_INVALID);
    if (!strstr(report.text, part)) fail_msg("\"%s\" does not say \"%s\"", report.text, part);
}

static void test_refusals(void **unused) {
    (void)unused;
    op_tensor inputs[3] = {tensor(OP_FLOAT, NULL, 3, 2, 1, 4, 0), tensor(OP_FLOAT, NULL, 3, 1, 12, 4, 0),
                           tensor(OP_FLOAT, NULL, 3, 1, 12, 3, 0)};
    op_attribute wrong = {"direction", OP_ATTRIBUTE_STRING, 1, {.text = {"sideways", 8}}};
    expect_refusal(OP_LSTM, inputs, 3, &wrong, "forward, reverse, bidirectional");
    op_attribute size = {"hidden_size", OP_ATTRIBUTE_INT, 1, {.integer = 5}};
    expect_refusal(OP_LSTM, inputs, 3, &size, "hidden_size is 5");
    inputs[1].type.shape.dims[1] = 16;
    expect_refusal(OP_LSTM, inputs, 3, NULL, "input 1 has shape [1,16,4], expected [1,12,4]");
    inputs[0].type.dtype = OP_INT32;
    expect_refusal(OP_LSTM, inputs, 3, NULL, "input 0 is int32");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equations), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

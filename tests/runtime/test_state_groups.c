/* SPDX-License-Identifier: Apache-2.0 */
/* test_state_groups.c: GroupQueryAttention whose batch is open, with its caches as states, beside a caller who hands them on: batches of
 * one, two and three, a prompt and single positions. */
#include "compiler/ouro_compiler.h"
#include "tests/support/onnx.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { HEADS = 4, SHARED = 2, SIZE = 8, BATCHES = 3, PROMPT = 5, MOST = 12, REAL = 1, INT32 = 6 };

#define FOLDER TEST_BINARY_DIR "/"
static const char model_path[] = FOLDER "test_state_groups.onnx";
static const char *const plan_paths[] = {FOLDER "test_state_groups.0.plan", FOLDER "test_state_groups.1.plan"};

static void expect(ouro_status status, const ouro_error *error) {
    if (status != OURO_OK) fail_msg("%s", error->message);
}

static void write_model(void) {
    onnx *o = onnx_new(17);
    onnx_opset(o, "com.microsoft", 1);
    onnx_input(o, o->graph, "query", REAL, "B,S,32");
    onnx_input(o, o->graph, "key", REAL, "B,S,16");
    onnx_input(o, o->graph, "value", REAL, "B,S,16");
    onnx_input(o, o->graph, "past.key", REAL, "B,2,P,8");
    onnx_input(o, o->graph, "past.value", REAL, "B,2,P,8");
    onnx_input(o, o->graph, "lengths", INT32, "B");
    onnx_input(o, o->graph, "total", INT32, "");
    Onnx__NodeProto *node = onnx_node(o, o->graph, "GroupQueryAttention", "groups",
                                      "query,key,value,past.key,past.value,lengths,total", "y,present.key,present.value");
    node->domain = onnx_text(o, "com.microsoft");
    onnx_set_integer(o, node, "num_heads", HEADS);
    onnx_set_integer(o, node, "kv_num_heads", SHARED);
    onnx_output(o, o->graph, "y");
    onnx_output(o, o->graph, "present.key");
    onnx_output(o, o->graph, "present.value");
    onnx_write(o, model_path);
    onnx_free(o);
}

/* With a bound of the caches or without; or for one batch alone. */
typedef enum variant { OPEN, BOUNDED, ONE_BATCH, VARIANTS } variant;

static void compile(variant v) {
    static const ouro_state_pair caches = {"past.*", "present.*"};
    static const ouro_dim bounds[] = {{"P", MOST}}, one[] = {{"B", 1}};
    for (int states = 0; states < 2; states++) {
        ouro_error error;
        const ouro_compile_options options = {.model_path = model_path,
                                              .plan_path = plan_paths[states],
                                              .states = &caches,
                                              .state_count = (size_t)states,
                                              .bounds = bounds,
                                              .bound_count = v == BOUNDED && states,
                                              .dims = one,
                                              .dim_count = v == ONE_BATCH,
                                              .portable = true};
        expect(ouro_compile(&options, &error), &error);
    }
}

static void bind(ouro_session *session, size_t index, const void *data, size_t bytes, const int64_t *dims) {
    ouro_error error;
    expect(ouro_session_bind_input(session, index, data, bytes, dims, &error), &error);
}

/* One run of `count` positions after `length`, of so many batches. `past`: the caches, or NULL where they are states. Gives the result. */
static const float *run(ouro_session *session, int64_t batches, int64_t length, int64_t count, uint64_t seed, float *const *past) {
    static float x[3][BATCHES * PROMPT * HEADS * SIZE];
    static int32_t lengths[BATCHES], total;
    const int64_t wide[] = {batches, count, HEADS * SIZE}, narrow[] = {batches, count, SHARED * SIZE};
    const int64_t cache[] = {batches, SHARED, length, SIZE};
    ouro_error error;
    uint64_t random = seed;
    const size_t kept = past ? 2 : 0;
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; k < sizeof x[i] / sizeof *x[i]; k++) x[i][k] = (float)(support_random(&random) % 2001) / 1000 - 1;
    for (int b = 0; b < BATCHES; b++) lengths[b] = (int32_t)(length + count - 1);
    total = (int32_t)(length + count);
    bind(session, 0, x[0], (size_t)(batches * count) * HEADS * SIZE * sizeof(float), wide);
    bind(session, 1, x[1], (size_t)(batches * count) * SHARED * SIZE * sizeof(float), narrow);
    bind(session, 2, x[2], (size_t)(batches * count) * SHARED * SIZE * sizeof(float), narrow);
    for (size_t i = 0; i < kept; i++) bind(session, 3 + i, past[i], (size_t)(batches * length) * SHARED * SIZE * sizeof(float), cache);
    bind(session, 3 + kept, lengths, (size_t)batches * sizeof *lengths, &batches); /* states are no inputs of the caller */
    bind(session, 4 + kept, &total, sizeof total, NULL);
    expect(ouro_session_run(session, &error), &error);
    ouro_tensor_info info;
    const void *y, *present;
    for (size_t i = 0; i < kept; i++) {
        expect(ouro_session_output(session, 1 + i, &info, &present, &error), &error);
        memcpy(past[i], present, info.bytes);
    }
    expect(ouro_session_output(session, 0, &info, &y, &error), &error);
    assert_int_equal(info.bytes, (size_t)(batches * count) * HEADS * SIZE * sizeof(float));
    return y;
}

static void an_open_batch_has_states(void **unused) {
    (void)unused;
    write_model();
    for (variant v = 0; v < VARIANTS; v++) {
        compile(v);
        for (int64_t batches = 1; batches <= (v == ONE_BATCH ? 1 : BATCHES); batches++) {
            static float key[BATCHES * SHARED * MOST * SIZE], value[BATCHES * SHARED * MOST * SIZE];
            float *const past[] = {key, value};
            ouro_plan *made[2];
            ouro_session *session[2];
            ouro_error error;
            for (int i = 0; i < 2; i++) {
                expect(ouro_plan_load(plan_paths[i], &made[i], &error), &error);
                expect(ouro_session_new(made[i], NULL, &session[i], &error), &error);
            }
            for (int64_t length = 0, count = PROMPT; length + count <= MOST; length += count, count = 1) {
                const uint64_t seed = (uint64_t)(100 * batches + length);
                const float *by_caller = run(session[0], batches, length, count, seed, past);
                const float *by_states = run(session[1], batches, length, count, seed, NULL);
                for (int64_t k = 0; k < batches * count * HEADS * SIZE; k++)
                    if (!(fabsf(by_caller[k] - by_states[k]) <= 1e-5f))
                        fail_msg("batches %d, position %d, element %d: %g, not %g", (int)batches, (int)length, (int)k,
                                 (double)by_states[k], (double)by_caller[k]);
                /* Of several batches each writes after its own past: such caches do not grow by what is appended to all. */
                assert_int_equal(ouro_session_state_length(session[1]), v == ONE_BATCH ? length + count : 0);
            }
            for (int i = 0; i < 2; i++) {
                ouro_session_free(session[i]);
                ouro_plan_free(made[i]);
            }
        }
    }
    remove(model_path);
    for (int i = 0; i < 2; i++) remove(plan_paths[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_batch_has_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

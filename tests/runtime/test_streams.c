/* SPDX-License-Identifier: Apache-2.0 */
/* test_streams.c: real models that are run frame by frame, with what they remember as states of the session: the same bits as
 * where the caller copies outputs to inputs, nothing copied, nothing allocated. The models are not in this repository:
 * tests/CMakeLists.txt registers the test where they are. OURO_STREAM_FRAMES in the environment: how many frames (100).
 */
#include "compiler/ouro_compiler.h"
#include "compiler/report/state.h"
#include "runtime/session.h"
#include "tests/support/allocations.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_PAIRS = 4, MOST_INPUTS = 8, WARM = 3 };

#define MODELS TEST_SOURCE_DIR "/../shared/models/real/"

typedef struct stream {
    const char *model;
    ouro_state_pair pairs[MOST_PAIRS];
    size_t states;
    ouro_shape shapes[MOST_INPUTS]; /* that the model leaves open */
    size_t shape_count;
    uint64_t copied;    /* of all states, in a run */
    size_t allocations; /* in a run, at most */
} stream;

static const stream streams[] = {
    {"gtcrn_simple",
     {{"conv_cache", "conv_cache_out"}, {"tra_cache", "tra_cache_out"}, {"inter_cache", "inter_cache_out"}},
     3,
     {{0}},
     0,
     0,
     0},
    {"dtln_1", {{"input_3", "tf_op_layer_stack_2"}}, 1, {{0}}, 0, 0, 0},
    {"ten_vad",
     {{"input_2", "output_2"}, {"input_3", "output_3"}, {"input_6", "output_6"}, {"input_7", "output_7"}},
     4,
     {{"input_1", 3, {1, 3, 41}},
      {"input_2", 2, {1, 64}},
      {"input_3", 2, {1, 64}},
      {"input_6", 2, {1, 64}},
      {"input_7", 2, {1, 64}}},
     5,
     0,
     0},
    {"silero_vad", {{"state", "stateN"}}, 1, {{"input", 2, {1, 576}}, {"state", 3, {2, 1, 128}}}, 2, 0, 0},
};

static ouro_plan *compile(const stream *of, bool states) {
    char path[512];
    ouro_plan *made;
    ouro_error error;
    snprintf(path, sizeof path, MODELS "%s/model.onnx", of->model);
    const ouro_compile_options options = {.model_path = path,
                                          .shapes = of->shapes,
                                          .shape_count = of->shape_count,
                                          .states = of->pairs,
                                          .state_count = states ? of->states : 0,
                                          /* Other kernels may be chosen where states change how much memory there is. */
                                          .exact_arithmetic = true};
    if (ouro_compile_plan(&options, &made, &error) != OURO_OK) fail_msg("%s: %s", of->model, error.message);
    return made;
}

/* A frame of an input: what a recording could be; the rate of a recording that is asked for. */
static void draw(const ouro_tensor_info *info, void *data, uint64_t *random) {
    if (info->dtype == OURO_INT64) {
        for (size_t i = 0; i < info->bytes / sizeof(int64_t); i++) ((int64_t *)data)[i] = 16000;
        return;
    }
    assert_int_equal(info->dtype, OURO_FLOAT);
    for (size_t i = 0; i < info->bytes / sizeof(float); i++)
        ((float *)data)[i] = (float)(support_random(random) % 2001) / 1000 - 1;
}

typedef struct both {
    const stream *of;
    ouro_plan *with_plan, *without_plan;
    ouro_session *with, *without;
    void *inputs[MOST_INPUTS]; /* of the one without states */
} both;

static void bind(ouro_session *session, size_t index, const ouro_tensor_info *info, const void *data) {
    ouro_error error;
    if (ouro_session_bind_input(session, index, data, info->bytes, NULL, &error) != OURO_OK)
        fail_msg("%s", error.message);
}

static void open_both(both *b, const stream *of) {
    ouro_tensor_info info;
    *b = (both){.of = of, .with_plan = compile(of, true), .without_plan = compile(of, false)};
    assert_int_equal(ouro_session_new(b->with_plan, NULL, &b->with, NULL), OURO_OK);
    assert_int_equal(ouro_session_new(b->without_plan, NULL, &b->without, NULL), OURO_OK);
    for (size_t i = 0; i < ouro_plan_input_count(b->without_plan); i++) {
        assert_int_equal(ouro_plan_input(b->without_plan, i, &info), OURO_OK);
        assert_true(info.bytes > 0);
        b->inputs[i] = calloc(1, info.bytes);
        assert_non_null(b->inputs[i]);
        bind(b->without, i, &info, b->inputs[i]);
        const int same = ouro_plan_find_input(b->with_plan, info.name);
        if (same >= 0) bind(b->with, (size_t)same, &info, b->inputs[i]);
    }
}

static void close_both(both *b) {
    ouro_session_free(b->with);
    ouro_session_free(b->without);
    ouro_plan_free(b->with_plan);
    ouro_plan_free(b->without_plan);
    for (size_t i = 0; i < MOST_INPUTS; i++) free(b->inputs[i]);
}

static void run(ouro_session *session) {
    ouro_error error;
    if (ouro_session_run(session, &error) != OURO_OK) fail_msg("%s", error.message);
}

/* One frame both ways. How often memory was taken from the system by the run with states. */
static size_t run_both(both *b, uint64_t *random) {
    ouro_tensor_info info, other;
    const void *made, *expected;
    for (size_t i = 0; i < ouro_plan_input_count(b->with_plan); i++) {
        assert_int_equal(ouro_plan_input(b->with_plan, i, &info), OURO_OK);
        draw(&info, b->inputs[ouro_plan_find_input(b->without_plan, info.name)], random);
    }
    const size_t before = allocations_count();
    run(b->with);
    const size_t taken = allocations_count() - before;
    run(b->without);
    for (size_t i = 0; i < ouro_plan_output_count(b->with_plan); i++) {
        assert_int_equal(ouro_plan_output(b->with_plan, i, &info), OURO_OK);
        const int same = ouro_plan_find_output(b->without_plan, info.name);
        assert_int_equal(ouro_session_output(b->with, i, &info, &made, NULL), OURO_OK);
        assert_int_equal(ouro_session_output(b->without, (size_t)same, &other, &expected, NULL), OURO_OK);
        assert_int_equal(info.bytes, other.bytes);
        assert_memory_equal(made, expected, info.bytes);
    }
    for (size_t s = 0; s < b->of->states; s++) { /* as a caller has to */
        const int from = ouro_plan_find_output(b->without_plan, b->of->pairs[s].output),
                  to = ouro_plan_find_input(b->without_plan, b->of->pairs[s].input);
        assert_int_equal(ouro_session_output(b->without, (size_t)from, &info, &expected, NULL), OURO_OK);
        memcpy(b->inputs[to], expected, info.bytes);
    }
    return taken;
}

static void try_stream(const stream *of, int frames) {
    both b;
    uint64_t random = 5, copied = 0;
    size_t most = 0;
    open_both(&b, of);
    const plan *opened = rt_plan_of(b.with_plan);
    assert_int_equal(opened->header->states.count, of->states);
    for (uint32_t i = 0; i < of->states; i++) copied += emit_state_measure(opened, i).copied;
    for (int frame = 0; frame < frames; frame++) {
        const size_t taken = run_both(&b, &random);
        if (frame >= WARM && taken > most) most = taken;
    }
    print_message("%s: %d frames, %llu bytes copied and %zu allocations a run\n", of->model, frames,
                  (unsigned long long)copied, most);
    assert_int_equal(copied, of->copied);
    assert_true(most <= of->allocations);
    close_both(&b);
}

static void test_streams(void **context) {
    (void)context;
    const char *given = getenv("OURO_STREAM_FRAMES");
    const int frames = given ? atoi(given) : 100;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) try_stream(&streams[i], frames);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_streams)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

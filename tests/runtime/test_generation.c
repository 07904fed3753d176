/* SPDX-License-Identifier: Apache-2.0 */
/* test_generation.c: a decoder with its caches as states: a prompt of 37 positions, then single ones; back to 20, and on; saved, and
 * continued by another process, which is this program with arguments.
 */
#include "compiler/ouro_compiler.h"
#include "models/models.h"
#include "tests/support/support.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { WORDS = 256, PROMPT = 37, MOST = 96, SINGLE = 30, KEPT = 20 };

#define FOLDER TEST_BINARY_DIR "/"
static const char model_path[] = FOLDER "test_generation.onnx", plan_path[] = FOLDER "test_generation.plan",
                  states_path[] = FOLDER "test_generation.states",
                  logits_path[] = FOLDER "test_generation.logits";
static const char *program;

static void expect(ouro_status status, const ouro_error *error) {
    if (status != OURO_OK) fail_msg("%s", error->message);
}

static void compile(void) {
    static const ouro_state_pair caches = {"past.*", "present.*"};
    static const ouro_dim bounds[] = {{"past", MOST}, {"sequence", MOST}};
    ouro_error error;
    model *m = model_decoder();
    assert_int_equal(model_write(m, model_path), 0);
    model_free(m);
    const ouro_compile_options options = {.model_path = model_path,
                                          .plan_path = plan_path,
                                          .states = &caches,
                                          .state_count = 1,
                                          .bounds = bounds,
                                          .bound_count = 2,
                                          .portable = true};
    expect(ouro_compile(&options, &error), &error);
    remove(model_path);
}

/* The logits of the last of so many ids. */
static const float *run(ouro_session *session, const int64_t *ids, int64_t count) {
    const int64_t dims[] = {1, count};
    ouro_tensor_info info;
    const void *data;
    ouro_error error;
    expect(ouro_session_bind_input(session, 0, ids, (size_t)count * sizeof *ids, dims, &error), &error);
    expect(ouro_session_run(session, &error), &error);
    expect(ouro_session_output(session, 0, &info, &data, &error), &error);
    assert_int_equal(info.bytes, (size_t)count * WORDS * sizeof(float));
    return (const float *)data + (count - 1) * WORDS;
}

static void expect_close(const float *a, const float *b) {
    for (int i = 0; i < WORDS; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-4f * (1 + fabsf(b[i]))))
            fail_msg("logit %d: %g, not %g", i, (double)a[i], (double)b[i]);
}

/* What a session that begins with all of these makes of the last. */
static void expect_as_from_scratch(ouro_plan *made, const int64_t *ids, int64_t count, const float *logits) {
    ouro_session *scratch;
    ouro_error error;
    expect(ouro_session_new(made, NULL, &scratch, &error), &error);
    expect_close(logits, run(scratch, ids, count));
    ouro_session_free(scratch);
}

static void test_prompt(void **state) {
    (void)state;
    ouro_plan *made;
    ouro_session *session;
    ouro_error error;
    ouro_memory before, after;
    int64_t ids[MOST], other[MOST];
    uint64_t random = 9;
    compile();
    expect(ouro_plan_load(plan_path, &made, &error), &error);
    expect(ouro_session_new(made, NULL, &session, &error), &error);
    for (int i = 0; i < MOST; i++) {
        ids[i] = (int64_t)(support_random(&random) % WORDS);
        other[i] = i < KEPT ? ids[i] : (int64_t)(support_random(&random) % WORDS);
    }
    expect_as_from_scratch(made, ids, PROMPT, run(session, ids, PROMPT));
    ouro_session_memory(session, &before);
    for (int i = PROMPT; i < PROMPT + SINGLE; i++)
        expect_as_from_scratch(made, ids, i + 1, run(session, ids + i, 1));
    ouro_session_memory(session, &after);
    assert_int_equal(after.run_time_bytes, before.run_time_bytes);
    assert_int_equal(before.shape_bytes, 0);
    assert_int_equal(after.shape_bytes, 0);
    assert_int_equal(ouro_session_state_length(session), PROMPT + SINGLE);
    /* Rejected: back to 20, and on with others. */
    expect(ouro_session_state_truncate(session, KEPT, &error), &error);
    for (int i = KEPT; i < KEPT + SINGLE; i++)
        expect_as_from_scratch(made, other, i + 1, run(session, other + i, 1));
    /* Up to the bound, not beyond, and the states are as they were. */
    expect_as_from_scratch(made, other, MOST, run(session, other + KEPT + SINGLE, MOST - KEPT - SINGLE));
    const int64_t one[] = {1, 1};
    expect(ouro_session_bind_input(session, 0, ids, sizeof *ids, one, &error), &error);
    assert_int_equal(ouro_session_run(session, &error), OURO_INVALID);
    assert_int_equal(ouro_session_state_length(session), MOST);
    expect(ouro_session_state_truncate(session, KEPT, &error), &error);
    expect_as_from_scratch(made, other, KEPT + 1, run(session, other + KEPT, 1));
    ouro_session_free(session);
    ouro_plan_free(made);
    remove(plan_path);
}

static void write_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Ten more ids, the same in both processes; the logits of all of them. */
static void go_on(ouro_session *session, float *logits) {
    uint64_t random = 77;
    for (int i = 0; i < 10; i++) {
        const int64_t id = (int64_t)(support_random(&random) % WORDS);
        memcpy(logits + i * WORDS, run(session, &id, 1), WORDS * sizeof *logits);
    }
}

static int other_process(void) {
    static float logits[10 * WORDS];
    ouro_plan *made;
    ouro_session *session;
    ouro_error error;
    size_t bytes;
    void *saved = support_read_file(states_path, &bytes);
    if (ouro_plan_load(plan_path, &made, &error) || ouro_session_new(made, NULL, &session, &error) ||
        ouro_session_state_load(session, saved, bytes, &error))
        return ouro_error_print(&error);
    go_on(session, logits);
    write_file(logits_path, logits, sizeof logits);
    ouro_session_free(session);
    ouro_plan_free(made);
    free(saved);
    return 0;
}

static void test_other_process(void **state) {
    (void)state;
    static float logits[10 * WORDS];
    ouro_plan *made;
    ouro_session *session;
    ouro_error error;
    int64_t ids[MOST];
    int ended;
    compile();
    expect(ouro_plan_load(plan_path, &made, &error), &error);
    expect(ouro_session_new(made, NULL, &session, &error), &error);
    for (int i = 0; i < MOST; i++) ids[i] = (i * 37 + 11) % WORDS;
    (void)run(session, ids, PROMPT);
    for (int i = PROMPT; i < PROMPT + SINGLE; i++) (void)run(session, ids + i, 1);
    const size_t bytes = ouro_session_state_saved_bytes(session);
    void *saved = malloc(bytes);
    expect(ouro_session_state_save(session, saved, bytes, &error), &error);
    write_file(states_path, saved, bytes);
    free(saved);
    const pid_t child = fork();
    if (child == 0) {
        execl(program, program, "other", (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    go_on(session, logits);
    size_t length;
    char *theirs = support_read_file(logits_path, &length);
    assert_int_equal(length, sizeof logits);
    assert_memory_equal(theirs, logits, sizeof logits);
    free(theirs);
    ouro_session_free(session);
    ouro_plan_free(made);
    remove(plan_path), remove(states_path), remove(logits_path);
}

int main(int count, char **arguments) {
    program = arguments[0];
    if (count > 1 && strcmp(arguments[1], "other") == 0) return other_process();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prompt), cmocka_unit_test(test_other_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

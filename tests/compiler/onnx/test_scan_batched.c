/* SPDX-License-Identifier: Apache-2.0 */
/* test_scan_batched.c: Scan of opset 8: a batch of sequences, each with its own length, against plain loops. */
#include "compiler/ouro_compiler.h"
#include "tests/support/onnx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { BATCH = 3, STEPS = 4, WIDTH = 2, ALL = BATCH * STEPS * WIDTH };

/* s <= 2 s + x - z, every s stacked; z scanned in the other direction. */
static void write_model(const char *path, bool lengths, const char *directions, bool open) {
    onnx *o = onnx_new(8);
    if (lengths) onnx_input(o, o->graph, "lengths", 7, open ? "B" : "3");
    onnx_input(o, o->graph, "start", 1, open ? "B,2" : "3,2");
    onnx_input(o, o->graph, "x", 1, open ? "B,T,2" : "3,4,2");
    onnx_input(o, o->graph, "z", 1, open ? "B,T,2" : "3,4,2");
    Onnx__GraphProto *body = onnx_graph(o, "body");
    onnx_input(o, body, "s", 1, "2");
    onnx_input(o, body, "xt", 1, "2");
    onnx_input(o, body, "zt", 1, "2");
    onnx_node(o, body, "Add", "", "s,s", "twice");
    onnx_node(o, body, "Add", "", "twice,xt", "more");
    onnx_node(o, body, "Sub", "", "more,zt", "next");
    onnx_node(o, body, "Identity", "", "next", "copy");
    onnx_output(o, body, "next");
    onnx_output(o, body, "copy");
    Onnx__NodeProto *node =
        onnx_node(o, o->graph, "Scan", "scan", lengths ? "lengths,start,x,z" : ",start,x,z", "last,all");
    onnx_set_graph(o, node, "body", body);
    onnx_set_integer(o, node, "num_scan_inputs", 2);
    onnx_set_integers(o, node, "directions", directions);
    onnx_output(o, o->graph, "last");
    onnx_output(o, o->graph, "all");
    onnx_write(o, path);
    onnx_free(o);
}

static void check(bool with_lengths, bool x_back, bool z_back, bool open) {
    static const int64_t lengths[BATCH] = {4, 0, 2};
    static const int64_t batch_dims[] = {BATCH}, state_dims[] = {BATCH, WIDTH},
                         dims[] = {BATCH, STEPS, WIDTH};
    float start[BATCH * WIDTH], x[ALL], z[ALL], all[ALL] = {0}, last[BATCH * WIDTH];
    for (int i = 0; i < BATCH * WIDTH; i++) start[i] = (float)(i % 5) - 2;
    for (int i = 0; i < ALL; i++) {
        x[i] = (float)(i * 7 % 11);
        z[i] = (float)(i * 5 % 13);
    }
    for (int b = 0; b < BATCH; b++) {
        int64_t length = with_lengths ? lengths[b] : STEPS;
        for (int e = 0; e < WIDTH; e++) {
            float s = start[b * WIDTH + e];
            for (int64_t t = 0; t < length; t++) {
                int64_t tx = x_back ? length - 1 - t : t, tz = z_back ? length - 1 - t : t;
                s = 2 * s + x[(b * STEPS + tx) * WIDTH + e] - z[(b * STEPS + tz) * WIDTH + e];
                all[(b * STEPS + t) * WIDTH + e] = s;
            }
            last[b * WIDTH + e] = s;
        }
    }
    ouro_error error;
    size_t at = 0;
    ouro_plan *plan;
    const ouro_compile_options options = {.model_path = "scan.onnx"};
    ouro_session *session;
    const void *found;
    ouro_tensor_info info;
    char directions[8];
    snprintf(directions, sizeof directions, "%d,%d", x_back, z_back);
    write_model("scan.onnx", with_lengths, directions, open);
    if (ouro_compile_plan(&options, &plan, &error) != OURO_OK) fail_msg("%s", error.message);
    assert_true(onnx_import_without_memory("scan.onnx", NULL, 0) > 0);
    assert_int_equal(ouro_session_new(plan, NULL, &session, &error), OURO_OK);
    if (with_lengths)
        assert_int_equal(ouro_session_bind_input(session, at++, lengths, sizeof lengths, batch_dims, &error),
                         OURO_OK);
    assert_int_equal(ouro_session_bind_input(session, at++, start, sizeof start, state_dims, &error),
                     OURO_OK);
    assert_int_equal(ouro_session_bind_input(session, at++, x, sizeof x, dims, &error), OURO_OK);
    assert_int_equal(ouro_session_bind_input(session, at++, z, sizeof z, dims, &error), OURO_OK);
    if (ouro_session_run(session, &error) != OURO_OK) fail_msg("%s", error.message);
    assert_int_equal(ouro_session_output(session, 0, &info, &found, &error), OURO_OK);
    assert_int_equal(info.bytes, sizeof last);
    assert_memory_equal(found, last, sizeof last);
    assert_int_equal(ouro_session_output(session, 1, &info, &found, &error), OURO_OK);
    assert_int_equal(info.bytes, sizeof all);
    assert_memory_equal(found, all, sizeof all);
    ouro_session_free(session);
    ouro_plan_free(plan);
}

static void sequences_of_one_length(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) check(false, way & 1, way & 2, way & 4);
}

/* Backwards begins at the sequence's own end; after it the stack is zero. */
static void sequences_of_their_own_lengths(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) check(true, way & 1, way & 2, way & 4);
}

int main(void) {
    char folder[] = "/tmp/ouro_scan_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(sequences_of_one_length),
                                       cmocka_unit_test(sequences_of_their_own_lengths)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove("scan.onnx");
    (void)rmdir(folder);
    return failed;
}

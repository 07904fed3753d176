/* SPDX-License-Identifier: Apache-2.0 */
/* test_measured.c: the least arena within a time that is measured: what a record of times says decides, to the byte. */
#include "compiler/compiler.h"
#include "tests/support/onnx.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHANNELS = 8, LAYERS = 4 };

/* Convolutions of 3x3 windows, one after another. */
static void write_model(const char *path, const char *rows) {
    char shape[32];
    onnx *o = onnx_new(17);
    snprintf(shape, sizeof shape, "1,%d,%s,32", CHANNELS, rows);
    onnx_input(o, o->graph, "x0", 1, shape);
    for (int i = 0; i < LAYERS; i++) {
        static float weights[CHANNELS * CHANNELS * 9];
        char name[16], in[32], out[16];
        for (size_t k = 0; k < sizeof weights / sizeof *weights; k++) weights[k] = (float)(k % 7) / 70;
        snprintf(name, sizeof name, "w%d", i);
        Onnx__TensorProto *tensor = onnx_tensor(o, name, 1, "8,8,3,3");
        onnx_raw(o, tensor, weights, sizeof weights);
        onnx_initializer(o, o->graph, tensor);
        snprintf(in, sizeof in, "x%d,w%d", i, i);
        snprintf(out, sizeof out, "x%d", i + 1);
        Onnx__NodeProto *node = onnx_node(o, o->graph, "Conv", name, in, out);
        onnx_set_integers(o, node, "pads", "1,1,1,1");
    }
    onnx_output(o, o->graph, "x4");
    onnx_write(o, path);
    onnx_free(o);
}

static void a_record_decides(void **unused) {
    (void)unused;
    char folder[] = "/tmp/ouro_measured_XXXXXX", model[64], times[64], plans[2][64];
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/model.onnx", folder);
    snprintf(times, sizeof times, "%s/times", folder);
    write_model(model, "64");
    size_t sizes[2];
    char *bytes[2];
    for (int turn = 0; turn < 2; turn++) {
        ouro_error error = {0};
        snprintf(plans[turn], sizeof plans[turn], "%s/%d.plan", folder, turn);
        /* A hundred times as long is enough for any bands: the least arena. */
        const ouro_compile_options options = {.model_path = model,
                                              .plan_path = plans[turn],
                                              .arena_limit = OURO_ARENA_LEAST,
                                              .time_limit = 100,
                                              .tune = turn == 0,
                                              .times_path = times};
        if (ouro_compile(&options, &error) != OURO_OK) fail_msg("%s", error.message);
        FILE *file = fopen(plans[turn], "rb");
        assert_non_null(file);
        bytes[turn] = malloc(1 << 22);
        assert_non_null(bytes[turn]);
        sizes[turn] = fread(bytes[turn], 1, 1 << 22, file);
        fclose(file);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    free(bytes[0]);
    free(bytes[1]);
    /* The limits that come of it: the least arena where the time allows it, and none where the record lacks the plans. */
    for (int turn = 0; turn < 2; turn++) {
        ouro_compile_options options = {.model_path = model,
                                        .arena_limit = OURO_ARENA_LEAST,
                                        .time_limit = 100,
                                        .times_path = times,
                                        .max_unroll = turn ? 2 : 0,
                                        .threads = turn ? 2 : 1};
        double ratio = -1;
        base_report report = {0};
        assert_int_equal(compile_within_time(&options, &ratio, &report), BASE_OK);
        assert_true(options.arena_limit == OURO_ARENA_LEAST);
        if (turn) assert_true(ratio == 0 && options.time_limit == 100);
        else assert_true(ratio > 0 && ratio <= 100 && options.time_limit == 0);
    }
    unlink(plans[0]);
    unlink(plans[1]);
    unlink(times);
    unlink(model);
    rmdir(folder);
}

static void open_shapes_are_refused(void **unused) {
    (void)unused;
    char folder[] = "/tmp/ouro_measured_XXXXXX", model[64];
    assert_non_null(mkdtemp(folder));
    snprintf(model, sizeof model, "%s/model.onnx", folder);
    write_model(model, "N");
    ouro_compile_options options = {
        .model_path = model, .arena_limit = OURO_ARENA_LEAST, .time_limit = 1.05, .tune = true};
    double ratio;
    base_report report = {0};
    assert_int_equal(compile_within_time(&options, &ratio, &report), BASE_INVALID);
    assert_non_null(strstr(report.text, "--shape"));
    unlink(model);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_decides),
        cmocka_unit_test(open_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

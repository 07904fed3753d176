/* SPDX-License-Identifier: Apache-2.0 */
/* bench_kernels.c: GFLOP/s of the kernels on the convolutions of ResNet-50 and on some products, one line a
 * shape, one column a layout: what the choices of layouts and kernels rest on. Run by hand: bench_kernels
 * [THREADS].
 */
#include "tests/bench/measure.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double measure(application *app, const rt_kernel *kernel, int threads) {
    return bench_measure(app, kernel, threads, CLOCK_MONOTONIC, 0.05);
}

typedef struct shape {
    int64_t channels, filters, extent, kernel, stride, group;
    int times; /* how often in the network */
} shape;

static double run_convolution(const shape *s, const char *name, op_layout source, op_layout target,
                              int threads) {
    application app;
    application_init(&app, OP_CONV);
    application_input(&app, OP_FLOAT, 4, (int64_t[]){1, s->channels, s->extent, s->extent});
    application_input(&app, OP_FLOAT, 4,
                      (int64_t[]){s->filters, s->channels / s->group, s->kernel, s->kernel});
    application_input(&app, OP_FLOAT, 1, &s->filters);
    application_integers(&app, "strides", 2, (int64_t[]){s->stride, s->stride});
    const int64_t pad = s->kernel / 2;
    application_integers(&app, "pads", 4, (int64_t[]){pad, pad, pad, pad});
    application_integer(&app, "group", s->group);
    application_text(&app, "ouro.activation", "Relu");
    double seconds = -1;
    if (application_infer(&app) == BASE_OK) {
        const bool onednn = strncmp(name, "onednn", 6) == 0;
        app.inputs[0].type.layout = source;
        app.outputs[0].type.layout = target;
        const rt_kernel *kernel = rt_kernel_find(name);
        const rt_environment environment = {.threads = threads};
        rt_cost cost = {0};
        if (strcmp(name, "portable.direct_convolution") == 0 &&
            kernel->estimate(&app.call, &environment, 0, &cost)) {
            app.inputs[1].type.layout = OP_LAYOUT_PACKED;
            app.inputs[1].type.packed_bytes = cost.packed_bytes;
        }
        if (onednn && kernel) {
            /* Packed weights of whatever size this choice of layouts has: find it by asking. */
            rt_prepared prepared;
            app.inputs[1].type.layout = OP_LAYOUT_PACKED;
            app.inputs[1].type.packed_bytes = 1;
            if (kernel->accepts(&app.call, &environment)) {
                kernel->prepare(&app.call, &environment, &app.arena, &prepared, &app.report);
                const char *expected = strstr(app.report.text, "bytes, expected ");
                if (expected) app.inputs[1].type.packed_bytes = (size_t)strtoull(expected + 16, NULL, 10);
            }
        }
        seconds = measure(&app, kernel, threads);
    }
    application_free(&app);
    return seconds;
}

static void print_rate(double work, double seconds) {
    if (seconds < 0) printf("%10s", "-");
    else printf("%10.1f", work / seconds * 1e-9);
}

static void bench_products(int threads) {
    static const int64_t sizes[][3] = {{1, 25088, 4096}, {1, 4096, 4096},  {1, 2048, 1000},
                                       {16, 768, 768},   {128, 768, 3072}, {512, 512, 512}};
    printf("\n%-24s%10s%10s%10s%10s   (GFLOP/s; Gemm with transB, MatMul)\n", "rows x depth x columns",
           "gemm", "onednn", "matmul", "onednn");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
        printf("%6" PRId64 " x%6" PRId64 " x%6" PRId64 "  ", m, k, n);
        for (int form = 0; form < 4; form++) {
            static const char *const names[] = {"portable.gemm", "onednn.gemm", "portable.matmul",
                                                "onednn.matmul"};
            const rt_environment environment = {.threads = threads};
            const rt_kernel *kernel = rt_kernel_find(names[form]);
            application app;
            application_init(&app, form < 2 ? OP_GEMM : OP_MATMUL);
            application_input(&app, OP_FLOAT, 2, (int64_t[]){m, k});
            application_input(&app, OP_FLOAT, 2, form < 2 ? (int64_t[]){n, k} : (int64_t[]){k, n});
            if (form < 2) application_integer(&app, "transB", 1);
            double seconds = -1;
            if (application_infer(&app) == BASE_OK && kernel) {
                rt_preference preference = {0};
                if (kernel->prefer && kernel->prefer(&app.call, &environment, &preference)) {
                    app.inputs[1].type.layout = preference.inputs[1];
                    app.inputs[1].type.packed_bytes = preference.packed_bytes[1];
                }
                seconds = measure(&app, kernel, threads);
            }
            print_rate(2.0 * (double)m * (double)k * (double)n, seconds);
            application_free(&app);
        }
        printf("\n");
    }
}

static void bench_reorders(int threads) {
    static const op_layout pairs[][2] = {
        {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16}, {OP_LAYOUT_NC16, OP_LAYOUT_ROW_MAJOR},
        {OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NHWC}, {OP_LAYOUT_NHWC, OP_LAYOUT_ROW_MAJOR},
        {OP_LAYOUT_NHWC, OP_LAYOUT_NC16},      {OP_LAYOUT_NC16, OP_LAYOUT_NHWC}};
    printf("\n%-24s%10s%10s   (GB/s read and written)\n", "reorder 256 x 56 x 56", "portable", "onednn");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        printf("%8s %-15s", op_layout_name(pairs[i][0]), op_layout_name(pairs[i][1]));
        for (int form = 0; form < 2; form++) {
            application app;
            application_init(&app, OP_REORDER);
            application_input(&app, OP_FLOAT, 4, (int64_t[]){1, 256, 56, 56});
            app.inputs[0].type.layout = pairs[i][0];
            application_integer(&app, "ouro.layout", (int64_t)pairs[i][1]);
            double seconds = -1;
            if (application_infer(&app) == BASE_OK) {
                seconds =
                    measure(&app, rt_kernel_find(form ? "onednn.reorder" : "portable.reorder"), threads);
            }
            print_rate(2.0 * 256 * 56 * 56 * 4, seconds);
            application_free(&app);
        }
        printf("\n");
    }
}

int main(int argc, char **argv) {
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    static const shape shapes[] = {{3, 64, 224, 7, 2, 1, 1},
                                   {64, 64, 56, 1, 1, 1, 1},
                                   {64, 64, 56, 3, 1, 1, 3},
                                   {64, 256, 56, 1, 1, 1, 4},
                                   {256, 64, 56, 1, 1, 1, 2},
                                   {256, 128, 56, 1, 1, 1, 1},
                                   {128, 128, 56, 3, 2, 1, 1},
                                   {128, 128, 28, 3, 1, 1, 3},
                                   {128, 512, 28, 1, 1, 1, 4},
                                   {256, 512, 56, 1, 2, 1, 1},
                                   {512, 128, 28, 1, 1, 1, 3},
                                   {512, 256, 28, 1, 1, 1, 1},
                                   {256, 256, 28, 3, 2, 1, 1},
                                   {256, 256, 14, 3, 1, 1, 5},
                                   {256, 1024, 14, 1, 1, 1, 6},
                                   {512, 1024, 28, 1, 2, 1, 1},
                                   {1024, 256, 14, 1, 1, 1, 5},
                                   {1024, 512, 14, 1, 1, 1, 1},
                                   {512, 512, 14, 3, 2, 1, 1},
                                   {512, 512, 7, 3, 1, 1, 2},
                                   {512, 2048, 7, 1, 1, 1, 3},
                                   {1024, 2048, 14, 1, 2, 1, 1},
                                   {2048, 512, 7, 1, 1, 1, 2},
                                   /* depthwise, grouped and odd ones, which are not of that network */
                                   {64, 64, 56, 3, 1, 64, 0},
                                   {96, 96, 112, 3, 2, 96, 0},
                                   {136, 136, 28, 3, 1, 136, 0},
                                   {112, 112, 28, 1, 1, 4, 0},
                                   {272, 272, 28, 1, 1, 4, 0},
                                   {24, 112, 56, 1, 1, 1, 0},
                                   {13, 17, 56, 3, 1, 1, 0},
                                   {512, 512, 28, 3, 1, 1, 0},
                                   {64, 64, 224, 3, 1, 1, 0}};
    printf("%-36s%10s%10s%10s%10s%10s%10s%10s%10s%10s\n", "channels filters extent k s group", "portable",
           "nc16", "rows-nc16", "nhwc", "rows-nhwc", "nc8", "own-nc16", "own-nhwc", "own-rows");
    double totals[9] = {0};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        static const struct {
            const char *name;
            op_layout source, target;
        } forms[] = {{"portable.convolution", OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_ROW_MAJOR},
                     {"onednn.convolution", OP_LAYOUT_NC16, OP_LAYOUT_NC16},
                     {"onednn.convolution", OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16},
                     {"onednn.convolution", OP_LAYOUT_NHWC, OP_LAYOUT_NHWC},
                     {"onednn.convolution", OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NHWC},
                     {"onednn.convolution", OP_LAYOUT_NC8, OP_LAYOUT_NC8},
                     {"portable.direct_convolution", OP_LAYOUT_NC16, OP_LAYOUT_NC16},
                     {"portable.direct_convolution", OP_LAYOUT_NHWC, OP_LAYOUT_NHWC},
                     {"portable.direct_convolution", OP_LAYOUT_ROW_MAJOR, OP_LAYOUT_NC16}};
        printf("%8" PRId64 "%8" PRId64 "%7" PRId64 "%3" PRId64 "%3" PRId64 "%6" PRId64 " ", s->channels,
               s->filters, s->extent, s->kernel, s->stride, s->group);
        const double extent = (double)((s->extent - 1) / s->stride + 1);
        const double work =
            2.0 * extent * extent * (double)(s->filters * s->channels / s->group * s->kernel * s->kernel);
        for (int form = 0; form < 9; form++) {
            double seconds =
                run_convolution(s, forms[form].name, forms[form].source, forms[form].target, threads);
            print_rate(work, seconds);
            totals[form] += seconds > 0 ? seconds * s->times : 0;
        }
        printf("\n");
        fflush(stdout);
    }
    printf("ResNet-50's, milliseconds:          ");
    for (int form = 0; form < 9; form++) printf("%10.1f", totals[form] * 1e3);
    printf("\n");
    bench_products(threads);
    bench_reorders(threads);
    return 0;
}

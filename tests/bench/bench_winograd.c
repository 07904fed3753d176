/* SPDX-License-Identifier: Apache-2.0 */
/* bench_winograd.c: the direct convolution beside Winograd's, one line a shape: milliseconds of the processor (the least of
 * many runs), their ratio, and the ratio that runtime/kernels/portable/cost.c predicts. Its rates rest on this. One thread.
 * Run by hand: bench_winograd [KERNEL [-]], portable.winograd or portable.winograd_transforming; -: not row-major.
 */
#include "tests/bench/measure.h"
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static const rt_environment environment = {.threads = 1};

static double measure(application *app, const rt_kernel *kernel) {
    return bench_measure(app, kernel, environment.threads, CLOCK_THREAD_CPUTIME_ID, 0.1);
}

static void begin(application *app, int64_t channels, int64_t filters, int64_t extent) {
    application_init(app, OP_CONV);
    application_input(app, OP_FLOAT, 4, DIMS(1, channels, extent, extent));
    application_input(app, OP_FLOAT, 4, DIMS(filters, channels, 3, 3));
    application_input(app, OP_FLOAT, 1, &filters);
    application_integers(app, "pads", 4, DIMS(1, 1, 1, 1));
    application_text(app, "ouro.activation", "Relu");
    application_infer(app);
}

/* In the layout that the direct kernel prefers, or row-major and portable. */
static void bench(const char *name, int64_t channels, int64_t filters, int64_t extent, bool portable) {
    application app;
    begin(&app, channels, filters, extent);
    const rt_kernel *direct = rt_kernel_find(portable ? "portable.convolution" : "onednn.convolution");
    const rt_kernel *winograd = rt_kernel_find(name);
    rt_preference preference = {0};
    app.inputs[1].data = application_memory(&app, app.inputs[1].bytes); /* constant */
    if (direct && direct->prefer && direct->prefer(&app.call, &environment, &preference)) {
        app.inputs[0].type.layout = preference.inputs[0];
        app.outputs[0].type.layout = preference.output;
        app.inputs[1].type.layout = preference.inputs[1];
        app.inputs[1].type.packed_bytes = preference.packed_bytes[1];
    }
    const op_layout layout = app.inputs[0].type.layout;
    const double before = measure(&app, direct);
    rt_cost cost = {0}, cost_before = {0};
    printf("%6" PRId64 " -> %4" PRId64 " at %3" PRId64 "  %-9s", channels, filters, extent,
           op_layout_name(layout));
    if (before < 0 || !winograd->estimate(&app.call, &environment, SIZE_MAX, &cost) ||
        !direct->estimate(&app.call, &environment, SIZE_MAX, &cost_before)) {
        printf(" not here\n");
        application_free(&app);
        return;
    }
    static const size_t limits[] = {1 << 18, 1 << 19, 1 << 20, SIZE_MAX};
    printf("%9.3f", before * 1e3);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (!winograd->estimate(&app.call, &environment, limits[i], &cost)) {
            printf("%36s", "-");
            continue;
        }
        application_free(&app);
        begin(&app, channels, filters, extent);
        app.inputs[0].type.layout = app.outputs[0].type.layout = layout;
        app.inputs[1].type.layout = OP_LAYOUT_PACKED;
        app.inputs[1].type.packed_bytes = cost.packed_bytes;
        application_integer(&app, "ouro.blocks", cost.blocks);
        const double after = measure(&app, winograd);
        printf(" %8.2f MiB %9.3f %5.2f (%5.2f)", (double)cost.scratch_bytes / (1 << 20), after * 1e3,
               before / after, cost_before.seconds / cost.seconds);
    }
    printf("\n");
    application_free(&app);
}

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "portable.winograd";
    static const int64_t shapes[][3] = {{64, 64, 56},  {128, 128, 28},  {256, 256, 14}, {512, 512, 7},
                                        {64, 64, 224}, {128, 128, 112}, {256, 256, 56}, {512, 512, 28},
                                        {128, 32, 28}, {16, 64, 55},    {32, 32, 14},   {160, 192, 14},
                                        {12, 16, 208}, {24, 24, 56}};
    printf("%-32s%9s  then for scratch up to 1/4, 1/2, 1 MiB, any: scratch, ms, direct / Winograd (predicted)\n",
           "channels", "direct");
    for (int portable = 0; portable < (count > 2 ? 1 : 2); portable++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            bench(name, shapes[i][0], shapes[i][1], shapes[i][2], portable);
    return 0;
}

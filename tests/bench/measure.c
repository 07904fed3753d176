/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c: see measure.h. */
#include "tests/bench/measure.h"

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

double bench_measure(application *app, const rt_kernel *kernel, int threads, clockid_t clock, double least) {
    const rt_environment environment = {.threads = threads};
    rt_prepared prepared;
    if (!kernel || !kernel->accepts(&app->call, &environment)) return -1;
    for (uint32_t i = 0; i < app->call.input_count; i++) {
        op_tensor *input = &app->inputs[i];
        if (input->type.dtype == OP_NONE || !op_type_bytes(&input->type, &input->bytes)) continue;
        input->data = application_memory(app, input->bytes);
        for (size_t k = 0; k < input->bytes / 4; k++) ((float *)input->data)[k] = (float)(k % 13) - 6;
    }
    op_tensor *output = &app->outputs[0];
    if (!op_type_bytes(&output->type, &output->bytes)) return -1;
    output->data = application_memory(app, output->bytes);
    if (rt_kernel_prepare(kernel, &app->call, &environment, &app->arena, &prepared, &app->report) != BASE_OK)
        return -1;
    void *scratch = prepared.scratch_bytes ? application_memory(app, prepared.scratch_bytes) : NULL;
    double best = 1e9, spent = 0;
    for (int runs = 0; runs < 5 || (spent < least && runs < 2000); runs++) {
        const double start = now(clock);
        prepared.run(&prepared, app->inputs, app->outputs, scratch, &app->report);
        const double seconds = now(clock) - start;
        spent += seconds;
        if (seconds < best) best = seconds;
    }
    rt_kernel_release(&prepared);
    return best;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* bench_start_onnxruntime.c: what start.py measures of ONNX Runtime: a program that loads its library, opens a model and runs it once.
 *
 *     bench_start_onnxruntime SINCE MODEL THREADS INPUTS (NAME TYPE DIMS)... OUTPUT...
 *
 * See bench_start.c; INPUTS is how many there are, TYPE the number of an ONNX element type. */
#include "compiler/command/command.h"
#include "compiler/command/onnxruntime.h"
#include "tests/bench/start.h"

double command_seconds(void) {
    return start_now();
}

static int fail(const base_report *report) {
    fprintf(stderr, "error: %s\n", report->text);
    return 1;
}

int main(int count, char **arguments) {
    base_report report = {0};
    base_arena arena;
    onnxruntime *runtime;
    onnxruntime_session session;
    if (count < 5) return 2;
    const double begin = start_now();
    base_arena_init(&arena, NULL);
    if (command_onnxruntime_load(&runtime, &report) != BASE_OK) return fail(&report);
    const double loaded = start_now();
    const int inputs = atoi(arguments[4]), outputs = count - 5 - 3 * inputs;
    if (inputs < 0 || outputs < 1) return 2;
    import_value *values = calloc((size_t)inputs + 1, sizeof *values);
    const char **names = calloc((size_t)(inputs + outputs), sizeof *names);
    if (!values || !names) return 3;
    for (int i = 0; i < inputs; i++) {
        char **of = arguments + 5 + 3 * i;
        op_tensor *tensor = &values[i].tensor;
        names[i] = of[0];
        values[i].kind = OP_KIND_TENSOR;
        tensor->type.dtype = (op_dtype)atoi(of[1]);
        const size_t elements = start_dims(of[2], tensor->type.shape.dims, &tensor->type.shape.rank);
        tensor->bytes = elements * op_dtype_bytes(tensor->type.dtype);
        tensor->data = calloc(elements + 1, 16);
        if (!tensor->data) return 3;
    }
    for (int i = 0; i < outputs; i++) names[inputs + i] = arguments[5 + 3 * inputs + i];
    double seconds;
    if (command_onnxruntime_open(runtime, arguments[2], atoi(arguments[3]), names, values, (size_t)inputs,
                                 (size_t)outputs, &arena, &session, &report) != BASE_OK)
        return fail(&report);
    const double opened = start_now();
    if (command_onnxruntime_run_again(&session, &seconds, &report) != BASE_OK) return fail(&report);
    start_print(start_now() - strtod(arguments[1], NULL), loaded - begin, opened - loaded, seconds);
    return 0;
}

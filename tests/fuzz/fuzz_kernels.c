/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_kernels.c: kernels on any data. The first bytes choose an operator and one of its applications (types, shapes,
 * attributes); the others are what its inputs hold when the kernel runs, after everything has been planned for others. */
#include "tests/fuzz/fuzz.h"
#include "tests/support/odd.h"

enum { HEAD = 4 };

/* The bytes in a circle; texts stay, since their bytes are addresses. */
static void fill(odd_application *app, const uint8_t *bytes, size_t size) {
    size_t at = 0;
    for (uint32_t i = 0; i < app->call.input_count && size; i++) {
        const op_tensor *input = &app->inputs[i];
        uint8_t *to = input->data;
        if (input->type.dtype == OP_NONE || input->type.dtype == OP_STRING) continue;
        for (size_t k = 0; k < input->bytes; k++) {
            to[k] = input->type.dtype == OP_BOOL ? bytes[at] & 1 : bytes[at];
            at = at + 1 < size ? at + 1 : 0;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const rt_environment environment = {.threads = 1};
    if (size < HEAD) return 0;
    const op_code code = (op_code)(1 + data[0] % (OP_CODE_COUNT - 1));
    if (!odd_is_tried(code)) return 0;
    odd_application app;
    odd_draw(&app, code, (uint64_t)data[1] << 16 | (uint64_t)data[2] << 8 | data[3]);
    if (odd_infer(&app) && odd_take_outputs(&app)) {
        fill(&app, data + HEAD, size - HEAD);
        const rt_kernel *kernel;
        for (unsigned i = 0; (kernel = rt_kernel_candidate(code, i)); i++)
            if (kernel->accepts(&app.call, &environment)) odd_run(&app, kernel, &environment, false);
    }
    odd_free(&app);
    return 0;
}

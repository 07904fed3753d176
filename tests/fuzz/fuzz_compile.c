/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_compile.c: any bytes as a model: compiled, and where that works run for a moment, beside the same steps in memory of their
 * own. A plan that is written is a plan that loads, and no step differs from its shadow. */
#include "compiler/ouro_compiler.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const ouro_compile_options options = {.model_path = fuzz_file("model.onnx", data, size), .seconds = 0.1};
    ouro_error error = {0};
    ouro_plan *handle;
    const ouro_status status = ouro_compile_plan(&options, &handle, &error);
    if (status == OURO_OK) {
        if (support_plan_run(handle, true) == SUPPORT_DIFFERS) fuzz_found("a step differs from its shadow");
        ouro_plan_free(handle);
    } else if (!error.message[0]) {
        fuzz_found("refused without a message");
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_import.c: any bytes as a model: a module that holds, or a message. */
#include "compiler/onnx/import.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    base_report *report = calloc(1, sizeof *report);
    ir_module *module = NULL;
    if (!report) abort();
    const base_status status =
        import_model(fuzz_file("model.onnx", data, size), NULL, 0, NULL, &module, report);
    if (status == BASE_OK && ir_verify(module, "imported", report) != BASE_OK) fuzz_found(report->text);
    if (status == BASE_INVALID && report->length == 0) fuzz_found("refused without a message");
    ir_module_free(module);
    free(report);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ir.c: any bytes as textual IR: what parses and holds prints, and what is printed parses to the same text. */
#include "ir/ir.h"
#include "tests/fuzz/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *print(const ir_module *module) {
    char *text = NULL;
    size_t length = 0;
    const ir_print_options options = {.data = true};
    FILE *file = open_memstream(&text, &length);
    if (!file || !ir_print(module, &options, file) || fclose(file)) fuzz_found("it does not print");
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    base_report *report = calloc(1, sizeof *report);
    ir_module *module = NULL, *again = NULL;
    if (!text || !report) abort();
    memcpy(text, data, size);
    text[size] = 0;
    const base_status status = ir_parse(text, size, "fuzz.ir", NULL, &module, report);
    if (status != BASE_OK && !report->length) fuzz_found("refused without a message");
    if (status == BASE_OK && ir_verify(module, "parsed", report) == BASE_OK) {
        char *first = print(module);
        if (ir_parse(first, strlen(first), "again.ir", NULL, &again, report) != BASE_OK)
            fuzz_found(report->text);
        char *second = print(again);
        if (strcmp(first, second) != 0) fuzz_found("what is printed parses to something else");
        free(first);
        free(second);
        ir_module_free(again);
    }
    ir_module_free(module);
    free(report);
    free(text);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_import.c: import under a fuzzer. With clang, build it with -fsanitize=fuzzer,address; here it is a
 * program that replays files, whole and cut off at every length:  fuzz_import FILE...  */
#include "compiler/onnx/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Import reads files, so the bytes become one. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[] = "/tmp/ouro_fuzz_XXXXXX";
    int file = mkstemp(path);
    if (file < 0) return 0;
    bool written = write(file, data, size) == (ssize_t)size;
    close(file);
    if (written) {
        base_report *report = calloc(1, sizeof *report);
        ir_module *module = NULL;
        base_status status = report ? import_model(path, NULL, 0, NULL, &module, report) : BASE_SYSTEM_ERROR;
        /* Whatever the bytes are: a module that holds, or a message. */
        if (status == BASE_OK && ir_verify(module, "imported", report) != BASE_OK) {
            fputs(report->text, stderr);
            abort();
        }
        if (status == BASE_INVALID && report->length == 0) abort();
        ir_module_free(module);
        free(report);
    }
    unlink(path);
    return 0;
}

#ifndef OURO_LIBFUZZER
enum { LARGEST = 4096 }; /* of files that are also cut off everywhere */

int main(int count, char **arguments) {
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(arguments[i], "rb");
        if (!file) {
            perror(arguments[i]);
            return 1;
        }
        size_t capacity = 1 << 26;
        uint8_t *data = malloc(capacity);
        if (!data) return 3;
        size_t size = fread(data, 1, capacity, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
        for (size_t length = 0; size <= LARGEST && length < size; length++)
            LLVMFuzzerTestOneInput(data, length);
        free(data);
    }
    return 0;
}
#endif

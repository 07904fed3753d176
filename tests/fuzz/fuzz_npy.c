/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_npy.c: any bytes as a .npy file: what can be read is written and read to the same tensor. */
#include "compiler/files/npy.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    base_arena arena;
    base_report *report = calloc(1, sizeof *report);
    op_tensor tensor, again;
    unsigned char *bytes;
    size_t written;
    if (!report) abort();
    base_arena_init(&arena, NULL);
    const base_status status = file_npy_decode(data, size, "fuzz.npy", &arena, &tensor, report);
    if (status != BASE_OK && !report->length) fuzz_found("refused without a message");
    if (status == BASE_OK && file_npy_encode(&tensor, &arena, &bytes, &written, report) == BASE_OK) {
        if (file_npy_decode(bytes, written, "again.npy", &arena, &again, report) != BASE_OK)
            fuzz_found(report->text);
        if (again.type.dtype != tensor.type.dtype || !op_shape_equal(&again.type.shape, &tensor.type.shape) ||
            (tensor.type.dtype != OP_STRING && tensor.bytes &&
             memcmp(again.data, tensor.data, tensor.bytes) != 0))
            fuzz_found("what is written reads as something else");
    }
    base_arena_free(&arena);
    free(report);
    return 0;
}

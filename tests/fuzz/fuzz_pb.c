/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_pb.c: any bytes as a .pb file of data. The first byte says what it is expected to hold. */
#include "compiler/onnx/import.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>

/* Reads all that was read. */
static uint64_t touch(const import_value *value) {
    uint64_t sum = value->count;
    for (size_t i = 0; i < value->count; i++) sum += touch(&value->elements[i]);
    if (value->kind != OP_KIND_TENSOR || !value->tensor.data) return sum;
    for (size_t i = 0; i < value->tensor.bytes; i++) sum += ((const uint8_t *)value->tensor.data)[i];
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    const op_type expected = {.kind = (op_kind)(data[0] % 4),
                              .element = data[0] & 4 ? OP_KIND_SEQUENCE : OP_KIND_TENSOR,
                              .dtype = (op_dtype)(data[0] >> 3 & 15),
                              .shape = {.rank = -1}};
    base_arena arena;
    base_report *report = calloc(1, sizeof *report);
    import_value value;
    volatile uint64_t sum;
    if (!report) abort();
    base_arena_init(&arena, NULL);
    const base_status status = import_value_read(fuzz_file("value.pb", data + 1, size - 1),
                                                 data[0] & 128 ? NULL : &expected, &arena, &value, report);
    if (status == BASE_OK) sum = touch(&value);
    else if (!report->length) fuzz_found("refused without a message");
    (void)sum;
    base_arena_free(&arena);
    free(report);
    return 0;
}

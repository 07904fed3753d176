/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c: whether the outputs of a run are the expected ones, and how far from them; see command.h. */
#include "compiler/command/command.h"
#include <string.h>

bool command_compare(const ouro_value *actual, const import_value *expected, tensor_tolerance tolerance,
                     tensor_errors *errors, char *reason, size_t capacity) {
    static const char *const kinds[] = {"a tensor", "a sequence", "an optional", "a map"};
    if ((op_kind)actual->kind != expected->kind) {
        snprintf(reason, capacity, "is %s, expected %s", kinds[actual->kind & 3], kinds[expected->kind & 3]);
        return false;
    }
    if (expected->kind == OP_KIND_TENSOR) {
        const op_tensor tensor = command_value_tensor(actual);
        file_tensor_errors_add(&tensor, &expected->tensor, errors);
        return file_tensor_compare(&tensor, &expected->tensor, tolerance, reason, capacity);
    }
    if (actual->count != expected->count) {
        snprintf(reason, capacity, "has %zu elements, expected %zu", actual->count, expected->count);
        return false;
    }
    for (size_t i = 0; i < actual->count; i++) {
        char within[900];
        if (command_compare(&actual->elements[i], &expected->elements[i], tolerance, errors, within,
                            sizeof within))
            continue;
        snprintf(reason, capacity, "element %zu %.800s", i, within);
        return false;
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c: whether the outputs of a run are the expected ones, and how far from them; see command.h. */
#include "compiler/command/command.h"
#include <string.h>

/* Where element `index` of the keys stands among others; their count where it does not. */
static size_t find_key(const op_tensor *keys, size_t index, const op_tensor *among) {
    const size_t count = (size_t)among->type.shape.dims[0];
    for (size_t i = 0; i < count; i++) {
        if (keys->type.dtype == OP_INT64) {
            if (((const int64_t *)keys->data)[index] == ((const int64_t *)among->data)[i]) return i;
            continue;
        }
        const op_string *a = &((const op_string *)keys->data)[index],
                        *b = &((const op_string *)among->data)[i];
        if (a->length == b->length && (!a->length || memcmp(a->data, b->data, a->length) == 0)) return i;
    }
    return count;
}

/* Element `index` of a vector as a scalar. */
static op_tensor element_of(const op_tensor *vector, size_t index) {
    op_tensor scalar = *vector;
    scalar.type.shape.rank = 0;
    scalar.bytes = op_dtype_bytes(vector->type.dtype);
    scalar.data = (char *)vector->data + index * scalar.bytes;
    return scalar;
}

/* Maps have no order: each expected key has its value. */
static bool compare_maps(const ouro_value *actual, const import_value *expected, tensor_tolerance tolerance,
                         tensor_errors *errors, char *reason, size_t capacity) {
    const op_tensor keys = command_value_tensor(&actual->elements[0]),
                    values = command_value_tensor(&actual->elements[1]),
                    *wanted = &expected->elements[0].tensor, *results = &expected->elements[1].tensor;
    const size_t count = (size_t)wanted->type.shape.dims[0];
    if (keys.type.dtype != wanted->type.dtype || (size_t)keys.type.shape.dims[0] != count) {
        snprintf(reason, capacity, "has %lld keys of %s, expected %zu of %s",
                 (long long)keys.type.shape.dims[0], op_dtype_name(keys.type.dtype), count,
                 op_dtype_name(wanted->type.dtype));
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        char key[100], within[800];
        const size_t at = find_key(wanted, i, &keys);
        file_tensor_element_print(wanted, i, key, sizeof key);
        if (at == count) {
            snprintf(reason, capacity, "lacks the key %s", key);
            return false;
        }
        const op_tensor value = element_of(&values, at), want = element_of(results, i);
        file_tensor_errors_add(&value, &want, errors);
        if (file_tensor_compare(&value, &want, tolerance, within, sizeof within)) continue;
        snprintf(reason, capacity, "at key %s %.700s", key, within);
        return false;
    }
    return true;
}

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
    if (expected->kind == OP_KIND_MAP)
        return compare_maps(actual, expected, tolerance, errors, reason, capacity);
    if (actual->count != expected->count) {
        snprintf(reason, capacity, "has %zu element%s, expected %zu", actual->count,
                 actual->count == 1 ? "" : "s", expected->count);
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

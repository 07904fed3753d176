/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.c: where the inputs of a model come from: files, or a generator of numbers. */
#include "compiler/command/command.h"
#include "ir/operators/small.h"
#include "compiler/onnx/import.h"
#include "compiler/files/npy.h"
#include "compiler/files/npz.h"
#include <string.h>

base_status command_fill_random(op_tensor *tensor, const char *name, uint64_t seed, base_arena *arena,
                                base_report *report) {
    static const char digits[4][2] = {"0", "1", "2", "3"};
    int64_t elements;
    size_t padded;
    op_type *type = &tensor->type;
    type->layout = OP_LAYOUT_ROW_MAJOR;
    if (!op_shape_elements(&type->shape, &elements) || !op_type_bytes(type, &tensor->bytes) ||
        !base_size_add(tensor->bytes, RT_ALIGNMENT, &padded)) {
        return base_fail(report, BASE_INVALID, "input '%s' is too large", name);
    }
    void *data = rt_arena_aligned(arena, tensor->bytes);
    if (!data) return base_fail_memory(report);
    tensor->data = data;
    uint64_t state = seed ^ base_hash(name, strlen(name), 0);
    bool complex = type->dtype == OP_COMPLEX64 || type->dtype == OP_COMPLEX128;
    size_t count = (size_t)elements * (complex ? 2 : 1);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = base_random(&state);
        switch (type->dtype) {
        case OP_COMPLEX64:
        case OP_FLOAT:
            ((float *)data)[i] = (float)((double)(bits >> 40) * 0x1p-23 - 1);
            break;
        case OP_COMPLEX128:
        case OP_DOUBLE:
            ((double *)data)[i] = (double)(bits >> 11) * 0x1p-52 - 1;
            break;
        case OP_FLOAT16:
            ((uint16_t *)data)[i] = base_half_from_double((double)(bits >> 53) * 0x1p-10 - 1);
            break;
        case OP_BFLOAT16:
            ((uint16_t *)data)[i] = base_bfloat16_from_double((double)(bits >> 56) * 0x1p-7 - 1);
            break;
        case OP_FLOAT8E4M3FN:
        case OP_FLOAT8E4M3FNUZ:
        case OP_FLOAT8E5M2:
        case OP_FLOAT8E5M2FNUZ:
        case OP_FLOAT4E2M1:
        case OP_FLOAT8E8M0:
        case OP_INT4:
        case OP_UINT4:
        case OP_INT2:
        case OP_UINT2: { /* 0 to 1, which each of them has */
            const uint8_t code = op_small_code(type->dtype, (double)(bits >> 63), true, OP_ROUND_NEAREST);
            if (op_dtype_is_packed(type->dtype) && i == 0) memset(data, 0, tensor->bytes);
            op_small_store(type->dtype, data, (int64_t)i, code);
            break;
        }
        case OP_BOOL:
            ((uint8_t *)data)[i] = bits >> 63;
            break;
        case OP_INT8:
        case OP_UINT8:
            ((uint8_t *)data)[i] = bits >> 62;
            break;
        case OP_INT16:
        case OP_UINT16:
            ((uint16_t *)data)[i] = bits >> 62;
            break;
        case OP_INT32:
        case OP_UINT32:
            ((uint32_t *)data)[i] = bits >> 62;
            break;
        case OP_INT64:
        case OP_UINT64:
            ((uint64_t *)data)[i] = bits >> 62;
            break;
        case OP_STRING:
            ((op_string *)data)[i] = (op_string){.data = digits[bits >> 62], .length = 1};
            break;
        default:
            return base_fail(report, BASE_INVALID, "input '%s': elements of type %s cannot be made up", name,
                             op_dtype_name(type->dtype));
        }
    }
    return BASE_OK;
}

bool command_value_of(const import_value *from, base_arena *arena, ouro_value *value) {
    *value = (ouro_value){.kind = (ouro_kind)from->kind};
    if (from->kind == OP_KIND_TENSOR) {
        const op_tensor *tensor = &from->tensor;
        value->dtype = (ouro_dtype)tensor->type.dtype;
        value->rank = tensor->type.shape.rank;
        for (int32_t d = 0; d < value->rank; d++) value->dims[d] = tensor->type.shape.dims[d];
        value->data = tensor->data;
        value->bytes = tensor->bytes;
        return true;
    }
    ouro_value *elements = BASE_ARRAY(arena, ouro_value, from->count);
    for (size_t i = 0; i < from->count && elements; i++) {
        if (!command_value_of(&from->elements[i], arena, &elements[i])) return false;
    }
    value->elements = elements;
    value->count = from->count;
    return elements != NULL;
}

op_tensor command_value_tensor(const ouro_value *value) {
    op_tensor tensor = {.type = {.dtype = (op_dtype)value->dtype, .shape = {.rank = value->rank}},
                        .bytes = value->bytes,
                        .data = (void *)(uintptr_t)value->data};
    for (int d = 0; d < value->rank; d++) tensor.type.shape.dims[d] = value->dims[d];
    return tensor;
}

/* The member of an archive that is meant for the input: the one of its name, or the only one. */
static base_status read_member(const file_bytes *file, const char *path, const char *name, base_arena *arena,
                               op_tensor *tensor, base_report *report) {
    file_npz archive;
    base_status status = file_npz_open(file->data, file->size, path, arena, &archive, report);
    if (status != BASE_OK) return status;
    const file_npz_member *member = file_npz_find(&archive, name);
    if (!member && archive.count == 1) member = &archive.members[0];
    if (member) return file_npz_read(&archive, member, arena, tensor, report);
    char list[512];
    size_t used = 0;
    list[0] = 0;
    for (size_t i = 0; i < archive.count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s'%s'", i ? ", " : "",
                                 archive.members[i].name);
    return base_fail(report, BASE_INVALID, "%s: there is no array '%s' in it, there %s: %s", path, name,
                     archive.count == 1 ? "is" : "are", archive.count ? list : "none");
}

base_status command_list_npz(const char *path, base_arena *arena, const char ***names, size_t *count,
                             base_report *report) {
    file_bytes file;
    file_npz archive;
    *names = NULL;
    *count = 0;
    base_status status = file_read(path, &file, report);
    if (status != BASE_OK) return status;
    if (!file_is_npz(file.data, file.size))
        status =
            base_fail(report, BASE_USAGE, "%s: expected NAME=FILE, or an archive of arrays (.npz)", path);
    if (status == BASE_OK) status = file_npz_open(file.data, file.size, path, arena, &archive, report);
    if (status == BASE_OK) {
        *names = BASE_ARRAY(arena, const char *, archive.count + 1);
        if (!*names) status = base_fail_memory(report);
        for (; status == BASE_OK && *count < archive.count; ++*count)
            (*names)[*count] = archive.members[*count].name;
    }
    file_release(&file);
    return status;
}

base_status command_read_value(const char *path, const char *name, const op_type *expected, base_arena *arena,
                               import_value *value, base_report *report) {
    file_bytes file;
    base_status status = file_read(path, &file, report);
    if (status != BASE_OK) return status;
    const bool npz = file_is_npz(file.data, file.size);
    bool npy = file.size >= 6 && memcmp(file.data, "\x93NUMPY", 6) == 0;
    size_t length = strlen(path);
    bool named_npy = length >= 4 && strcmp(path + length - 4, ".npy") == 0;
    *value = (import_value){0};
    if (npz) status = read_member(&file, path, name, arena, &value->tensor, report);
    else if (npy || named_npy)
        status = file_npy_decode(file.data, file.size, path, arena, &value->tensor, report);
    file_release(&file);
    if (!npz && !npy && !named_npy) status = import_value_read(path, expected, arena, value, report);
    bool holds = expected->kind == OP_KIND_OPTIONAL && expected->element == OP_KIND_TENSOR;
    if (status != BASE_OK || value->kind != OP_KIND_TENSOR || !holds) return status;
    import_value *held = BASE_NEW(arena, import_value);
    if (!held) return base_fail_memory(report);
    *held = *value;
    *value = (import_value){.kind = OP_KIND_OPTIONAL, .elements = held, .count = 1};
    return BASE_OK;
}
